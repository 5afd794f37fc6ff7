# SPDX-License-Identifier: MIT
"""What another machine recorded stays apart: no import changes a number, an answer or a file's past."""

import json
import socket
import subprocess

import pytest

import harness
from harness import wait_until


class Machines:
    """Machines with a store each, and the same paths."""

    def __init__(self, sandbox):
        self.sandbox, self.user, self.keepers = sandbox, sandbox.user, {}

    def go(self, name):
        """From now on the sandbox is on that machine. Its project is empty."""
        if name not in self.keepers:
            self.keepers[name] = subprocess.Popen(
                ["unshare", "-u", "sh", "-c", f"hostname {name}; exec sleep infinity"], stdin=subprocess.DEVNULL
            )
            wait_until(lambda: self._name(name) == name, "the name of the host")
        self.sandbox.user = harness.Guest(self.user, self.keepers[name].pid, "uts")
        self.sandbox.env["SHFS_STORE"] = f"{self.sandbox.home}/{name}-store"
        self.sandbox.store = self.sandbox.env["SHFS_STORE"]
        self.sandbox.sh("rm -rf ./*")

    def _name(self, name):
        enter = ["nsenter", "-t", str(self.keepers[name].pid), "-u", "hostname"]
        return subprocess.run(enter, stdout=subprocess.PIPE, text=True, check=False).stdout.strip()

    def end(self):
        self.sandbox.user = self.user
        for keeper in self.keepers.values():
            keeper.kill()
            keeper.wait()


@pytest.fixture
def machines(sandbox):
    it = Machines(sandbox)
    yield it
    it.end()


def record(sandbox, *lines):
    """Runs lines in a shell over the mounted project; the files stay as they were left."""
    mounted = sandbox.mount()
    shell = sandbox.shell()
    for line in lines:
        shell.run(line)
    shell.close()
    mounted.unmount()


def answers(sandbox, prefix="", least=13):
    """All that is asked about the project, there or as another machine's."""
    def ask(*args):
        result = sandbox.shfs(*args, *([] if args[0] == "cat" else ["--json"]), check=False)
        return result.status, result.stdout.replace(prefix, "")

    def path(name):
        return f"{prefix}{sandbox.project}/{name}"

    found = {}
    for name in "data.txt", "fig.txt", "sub/fig.txt", "moved.txt":
        for question in "log", "why", "impact":
            found[question, name] = ask(question, path(name))
        for n in 1, 2, 3:
            found["cat", name, n] = ask("cat", f"{path(name)}@{n}")
    found["from"] = ask("why", "--from", path("data.txt"), path("fig.txt"))
    found["history"] = ask("history", path("."))
    found["compare"] = ask("compare", f"{path('fig.txt')}@1", f"{path('fig.txt')}@2")
    assert sum(status == 0 for status, _ in found.values()) >= least
    return found


HERE = ["seq 3 > data.txt", "sort -r data.txt > fig.txt", "mkdir sub; cp fig.txt sub/fig.txt", "seq 5 > data.txt",
        "sort -r data.txt > fig.txt", "mv sub/fig.txt moved.txt"]
THERE = ["seq 40 49 > data.txt", "rev data.txt > fig.txt", "mkdir sub; tac fig.txt > sub/fig.txt",
         "seq 40 45 > data.txt; rev data.txt > fig.txt", "mv sub moved; mv moved/fig.txt moved.txt"]


def export(sandbox, name, *paths):
    archive = f"{sandbox.home}/{name}.tar.zst"
    sandbox.shfs("export", "tar", "-f", "-o", archive, *paths, cwd="/")
    return archive


def work_on_both(machines, sandbox):
    """Records THERE on hostb, then HERE on hosta, and stays there. Returns hostb's archive."""
    machines.go("hostb")
    record(sandbox, *THERE)
    archive = export(sandbox, "b")
    machines.go("hosta")
    record(sandbox, *HERE)
    return archive


@pytest.mark.users("ordinary")
def test_two_machines_with_the_same_project(machines, sandbox, shfs):
    machines.go("hostb")
    record(sandbox, *THERE)
    there, archive_b = answers(sandbox), export(sandbox, "b")
    machines.go("hosta")
    record(sandbox, *HERE)
    here = answers(sandbox)
    assert here != there and here["from"][0] == 0
    said = shfs("import", archive_b).stdout
    assert "the files of hostb are hostb:/... here" in said
    for again in False, True:
        assert answers(sandbox) == here
        assert answers(sandbox, "hostb:") == there
        if not again:
            shfs("reindex")
    assert json.loads(shfs("import", "--json", archive_b).stdout)["tree"] == "hostb"
    assert answers(sandbox) == here and answers(sandbox, "hostb:") == there
    # with the home of there
    assert shfs("cat", "hostb:~/project/fig.txt@1").stdout == there["cat", "fig.txt", 1][1]
    assert "hostb:~/project/fig.txt@1" in shfs("log", "hostb:~/project/fig.txt", cwd="/").stdout
    assert "hostb" not in shfs("history", ".").stdout and "rev data.txt" in shfs("history", "hostb:~/project").stdout
    # a third machine takes both in from one archive, the second its own back
    archive_a = export(sandbox, "a")
    for name in "hostc", "hostb":
        machines.go(name)
        shfs("import", archive_a)
        assert answers(sandbox, "hosta:") == here
        assert answers(sandbox, "" if name == "hostb" else "hostb:") == there
    # what goes on there
    record(sandbox, "seq 7 > data.txt", "rev data.txt > fig.txt")
    assert "fig.txt@3" in shfs("log", "fig.txt").stdout and answers(sandbox, "hosta:") == here


@pytest.fixture
def two(machines, sandbox, shfs):
    """A machine that has taken in the archive of another."""
    archive = work_on_both(machines, sandbox)
    shfs("import", archive)
    return f"hostb:{sandbox.project}", archive


@pytest.mark.users("ordinary")
def test_a_project_that_was_copied(two, sandbox, shfs):
    """It stands for the one there, until it has a past of its own."""
    there, _ = two
    copy = sandbox.mkdir(f"{sandbox.home}/copy")
    sandbox.write_outside(f"{copy}/fig.txt", "04\n14\n24\n34\n44\n54\n")
    assert "never seen" in shfs("why", f"{copy}/fig.txt", check=3).stderr
    assert "there is no such machine" in shfs("import", "--map", f"hostc:~/project={copy}", check=3).stderr
    for bad in "hostb", "hostb:", "hostb:x=y", "=", "hostb:~/project=":
        shfs("import", "--map", bad, check=2)
    assert shfs("import", check=2)
    for _ in range(2):
        shfs("import", "--map", f"hostb:~/project={copy}")
    assert shfs("why", f"{copy}/fig.txt").stdout == shfs("why", f"{there}/fig.txt").stdout
    assert "rev data.txt" in shfs("why", "fig.txt", cwd=copy).stdout
    assert shfs("cat", "fig.txt@1", cwd=copy).stdout == shfs("cat", f"{there}/fig.txt@1").stdout
    assert "sort -r" in shfs("why", "fig.txt").stdout
    # the project here has taken the place of that one
    machines_before = shfs("history", "--json").stdout
    shfs("import", "--map", "hostb:/=/")
    assert shfs("history", "--json").stdout.count('"id"') == machines_before.count('"id"')
    assert "hostb:" not in shfs("history").stdout and "never seen" in shfs("log", f"{there}/fig.txt", check=3).stderr
    assert "fig.txt@4" in shfs("log", "fig.txt").stdout
    # and back; also where that was interrupted before the index was made again
    list_of_trees = sandbox.read(f"{sandbox.store}/trees")
    shfs("import", "--unmap", "hostb:/=/")
    assert shfs("history", "--json").stdout == machines_before and "fig.txt@2" in shfs("log", f"{there}/fig.txt").stdout
    sandbox.write_outside(f"{sandbox.store}/trees", list_of_trees, 0o600)
    assert "fig.txt@4" in shfs("log", "fig.txt").stdout
    shfs("import", "--unmap", "hostb:/=/")
    shfs("import", "--unmap", "hostb:/=/", check=3)
    # links on the way are followed, as in operands
    sandbox.sh("ln -s . link; mkdir copy2; cp copy/fig.txt copy2", cwd=sandbox.home)
    shfs("import", "--map", f"hostb:~/project={sandbox.home}/link/copy2")
    assert "rev data.txt" in shfs("why", f"{sandbox.home}/link/copy2/fig.txt").stdout
    shfs("import", "--unmap", f"hostb:~/project={sandbox.home}/copy2")
    assert "never seen" in shfs("why", f"{sandbox.home}/copy2/fig.txt", check=3).stderr


@pytest.mark.users("ordinary")
def test_nothing_here_is_meant(two, sandbox, shfs):
    """What would be done to a file of another machine is done to none here."""
    there, archive = two
    fig = f"{there}/fig.txt"
    before = sorted(sandbox.sh("find . ..").stdout.splitlines())
    assert "another machine" in shfs("restore", f"{fig}@1", check=4).stderr
    assert "another machine" in shfs("undelete", there, check=4).stderr
    assert "another machine" in shfs("diff", fig, check=2).stderr
    assert "several machines" in shfs("export", "sh", fig, f"{sandbox.project}/fig.txt", check=4).stderr
    assert sorted(sandbox.sh("find . ..").stdout.splitlines()) == before
    shfs("restore", f"{fig}@1", "--to", "theirs")
    assert sandbox.read("theirs").decode() == shfs("cat", f"{fig}@1").stdout
    assert shfs("diff", f"{fig}@1", f"{fig}@2", check=1).stdout.count("\n-") == 4
    # its commands can be run again here
    script = shfs("export", "sh", fig).stdout
    out = sandbox.run("bash", "-s", f"{sandbox.home}/again", input=script, cwd="/")
    assert out and sandbox.read(f"{sandbox.home}/again/fig.txt").decode() == shfs("cat", f"{fig}@2").stdout
    assert f"file://hostb{sandbox.project}/fig.txt" in shfs("export", "prov", fig).stdout
    # a directory whose name looks like that
    sandbox.sh("mkdir -p hostb: && echo x > hostb:/x")
    assert "never seen" in shfs("log", "./hostb:/x", check=3).stderr
    # the list of what is whose
    sandbox.sh(f"echo nonsense >> {sandbox.store}/trees")
    assert "trees" in shfs("check", check=1).stdout
    assert "may not be up to date: something in the store is damaged" in shfs("log", "fig.txt").stderr
    shfs("repair")
    shfs("check")
    shfs("reindex")
    assert "fig.txt@2" in shfs("log", fig).stdout
    # what another machine made that has the name of this one, long ago
    sandbox.sh(f"rm {sandbox.store}/trees")
    shfs("reindex")
    assert "fig.txt@2" in shfs("log", fig).stdout


@pytest.mark.users("ordinary")
@pytest.mark.parametrize("whose", ["here", "there"])
def test_what_is_forgotten(two, sandbox, shfs, whose):
    """A file of one machine alone; and an archive of a part has those of one."""
    there, _ = two
    here = answers(sandbox)
    theirs = answers(sandbox, "hostb:")
    path = f"{sandbox.project}/data.txt" if whose == "here" else f"{there}/data.txt"
    archive = export(sandbox, "part", path)
    shfs("forget", "--yes", path)
    assert "never seen" in shfs("log", path, check=3).stderr
    if whose == "here":
        assert answers(sandbox, "hostb:") == theirs and answers(sandbox) != here
    else:
        assert answers(sandbox) == here and answers(sandbox, "hostb:", 8) != theirs
    shfs("import", archive)
    assert answers(sandbox) == here and answers(sandbox, "hostb:") == theirs
    # of the files of both machines, a part has only what is asked for
    members = sandbox.sh(f"tar --zstd -tf {archive}").stdout
    assert ("journal/hostb/fuse" in members) == (whose == "there") != ("journal/hosta/fuse" in members)


@pytest.mark.users("ordinary")
def test_a_store_of_an_earlier_version(machines, sandbox, shfs):
    """What its own host recorded stays here, whatever name the host gets; and an archive says whose it is."""
    archive = work_on_both(machines, sandbox)
    here = answers(sandbox)
    sandbox.sh(f"rm {sandbox.store}/trees")
    assert answers(sandbox) == here
    store = sandbox.store
    machines.go("renamed")
    sandbox.store = sandbox.env["SHFS_STORE"] = store
    shfs("reindex")
    assert answers(sandbox) == here
    record(sandbox, "seq 9 > data.txt")
    assert "data.txt@3" in shfs("log", "data.txt").stdout and "hosta:" not in shfs("history", "--all").stdout
    sandbox.sh(f"rm {sandbox.store}/trees")
    shfs("import", archive)
    assert "fig.txt@2" in shfs("log", "hostb:~/project/fig.txt").stdout
    # an archive by each of two hosts that the store was on: one tree
    archives = []
    for name in "hosta", "renamed":
        machines.go(name)
        sandbox.store = sandbox.env["SHFS_STORE"] = store
        archives.append(export(sandbox, name))
    machines.go("hostc")
    for archive in archives:
        shfs("import", archive)
    names = {line.split(b" ")[1] for line in sandbox.read(f"{sandbox.store}/trees").splitlines() if line.startswith(b"tree")}
    assert names == {b"hosta", b"hostb"}
