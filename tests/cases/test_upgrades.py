# SPDX-License-Identifier: MIT
"""Stores that older versions wrote, of each step of the formats since segments have format 2: today's program answers what that of
the time answered, and goes on in them, also if it is killed as it begins."""

import hashlib
import json
import os
import pathlib
import random
import signal
import subprocess
import time

import pytest

import harness
from test_mount_cli import daemon_pid
from test_trees import machines  # noqa: F401

HERE = pathlib.Path(__file__).parent
PROJECT = "/tmp/shfs-store/project"

# The commit whose shfs wrote it, by make-store, and what came behind it.
STORES = {
    "first": "cfd1b169: records 2, segments 2, packs 1, store 1. Then: streams of processes",
    "before-streams": "a227f21a. Then: environment, programs and their packages, definitions of the shell",
    "before-former": "3498a155. Then: what changes of names did away with; ends of processes, lookups",
    "store-1": "c9b082ca: the last of store 1 and packs 1. Then: solid frames; notes, origins",
    "store-2": "of 1.0: records 2, segments 2, packs 2, store 2",
}
each_store = pytest.mark.parametrize("name", STORES)


class Old:
    """A store of another time, on the machine that it was made on, as the sandbox's."""

    def __init__(self, sandbox, machines, name, host="vm"):
        self.sandbox, self.name, self.draw = sandbox, name, random.Random(f"{name} {os.environ.get('SHFS_TEST_SEEDS', '')}")
        machines.go(host)
        top = f"{sandbox.home}/old"
        sandbox.mkdir(top, 0o700)
        with open(HERE / "stores" / f"{name}.tar.zst", "rb") as file:
            sandbox.run("tar", "--zstd", "-xf", "-", "-C", top, cwd="/", input=file.read())
        self.store = sandbox.store = sandbox.env["SHFS_STORE"] = f"{top}/store"
        self.told = json.loads(pathlib.Path(f"{top}/answers.json").read_text(encoding="utf-8"))
        for path, (seed, n) in self.told["loose"].items():
            with open(f"{self.store}/{path}", "ab") as file:
                file.write(random.Random(seed).randbytes(n))

    def ask(self, *args):
        return json.loads(self.sandbox.shfs(*args, "--json", cwd="/").stdout)

    def versions(self):
        """(path, n) of all that cat gave, and their digests."""
        return {(path, v["n"]): v["sha256"] for path, versions in self.told["files"].items() for v in versions if v["sha256"]}

    def contents(self):
        """Digests of the same, by one cat."""
        sizes = {(path, v["n"]): v["size"] for path, versions in self.told["files"].items() for v in versions}
        specs = [*self.versions()]
        data, found = self.sandbox.shfs("cat", "--", *(f"{path}@{n}" for path, n in specs), cwd="/").stdout_bytes, {}
        for spec in specs:
            found[spec] = hashlib.sha256(data[: sizes[spec]]).hexdigest()
            data = data[sizes[spec] :]
        assert not data
        return found

    def still_answers(self, files=3):
        """Commands, contents of all versions, and of some files versions, where they came from, and what became of them."""
        told, ask = self.told, self.ask
        assert known(ask("history", "--all", "--reverse")["commands"][: len(told["commands"])], told["commands"])
        assert self.contents() == self.versions()
        for path in self.draw.sample(sorted(told["files"]), files):
            versions = told["files"][path]
            assert known(ask("log", "--reverse", path)["versions"][: len(versions)], versions, {"sha256", "gone"}), path
        for name in self.draw.sample(sorted(told["why"]), 2):
            assert known(ask("why", f"{PROJECT}/{name}"), told["why"][name]), name
        then = {command["id"] for command in told["impact"]["commands"]}
        assert then <= {command["id"] for command in ask("impact", f"{PROJECT}/a")["commands"]}  # it may find more by now


def known(now, then, but=frozenset()):
    """Does it have all that there was then? Newer versions have more members."""
    if isinstance(then, dict):
        lacks = [key for key in then if key not in but and not (key in now and known(now[key], then[key], but))]
        assert not lacks, (lacks, now, then)
        return True
    if isinstance(then, list):
        assert len(now) == len(then), (now, then)
        return all(known(a, b, but) for a, b in zip(now, then))
    return now == then


@pytest.fixture
def old(sandbox, machines, name):  # noqa: F811
    return Old(sandbox, machines, name)


def work(sandbox):
    """Some of each kind: new files in numbers, a delta, a large one, what was pruned."""
    mounted = sandbox.mount()
    sandbox.sh("i=0; while [ $i -lt 30 ]; do echo $i of today > new$i; i=$((i + 1)); done; seq 3000 > long; echo end >> long")
    return mounted


def check_work(sandbox):
    assert sandbox.shfs("cat", "new7@1", "long@2").stdout == "7 of today\n" + "".join(f"{n}\n" for n in range(1, 3001)) + "end\n"


@pytest.mark.users("ordinary")
@each_store
def test_it_is_read_and_goes_on(old, sandbox, shfs):
    assert "older version of shfs made the index" in shfs("doctor", check=False, cwd="/").stdout or "1.0" in STORES[old.name]
    old.still_answers()
    assert "no flaws" in shfs("check", "--read-data", cwd="/").stdout
    work(sandbox).unmount()
    check_work(sandbox)
    with open(f"{old.store}/format", encoding="ascii") as file:
        assert file.read() == "2\n"
    shfs("restore", f"{PROJECT}/a@2", "--to", f"{sandbox.project}/a")
    assert sandbox.read("a") == b"two\n"
    shfs("reindex")
    old.still_answers()
    assert "no flaws" in shfs("check", "--read-data", cwd="/").stdout
    # its old journal and packs are written anew without what is forgotten
    path = old.draw.choice(sorted(old.told["files"]))
    shfs("forget", "--yes", path, cwd="/")
    del old.told["files"][path]
    assert "never" in shfs("log", path, check=3, cwd="/").stderr
    assert old.contents() == old.versions()
    assert "no flaws" in shfs("check", "--read-data", cwd="/").stdout


@pytest.mark.users("ordinary")
@pytest.mark.parametrize("name", STORES if harness.ALL else ["first"])
def test_it_is_read_where_nothing_can_be_written(old):
    """On a medium that is read-only, with an index that is of no use: the same answers."""
    subprocess.run(["mount", "--bind", old.store, old.store], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", old.store], check=True)
        assert known(old.ask("history", "--all", "--reverse")["commands"], old.told["commands"])
        assert old.contents() == old.versions()
        assert "no flaws" in old.sandbox.shfs("check", "--read-data", cwd="/").stdout
        said = old.sandbox.shfs("web", "--no-browser", "--port", "0", check=False, cwd="/")
        if "built without" not in said.stderr:  # it has no index of its own; the file has
            assert said.status == 1 and "shfs map -o FILE" in said.stderr
            old.sandbox.shfs("map", "-o", f"{old.sandbox.project}/map.html", cwd="/")
    finally:
        subprocess.run(["umount", "-l", old.store], check=True)


def is_there_again(shfs, directory, killed):
    """Served by another process than the one that was killed?"""
    mounts = json.loads(shfs("status", "--json", check=False, cwd="/").stdout)["mounts"]
    return [mount for mount in mounts if mount["path"] == directory and mount["pid"] not in (None, killed)]


@pytest.mark.users("ordinary")
def test_it_is_opened_on_another_machine(sandbox, machines, shfs):  # noqa: F811
    """Before stores said whose records they have: what was recorded there stays apart."""
    Old(sandbox, machines, "first", "elsewhere")
    there = f"vm:{PROJECT}"
    assert shfs("cat", f"{there}/a@1", f"{there}/c@1").stdout == "one\ntwo\n"
    assert "echo two > a" in shfs("why", f"{there}/c@1").stdout
    work(sandbox).unmount()
    check_work(sandbox)
    # it was copied while its last mount was there
    assert f"this may still be recorded: {there}" in shfs("forget", "--yes", f"{there}/long", check=4).stderr
    assert shfs("cat", f"{there}/a@2").stdout == "two\n"
    check_work(sandbox)


@pytest.mark.users("ordinary")
@pytest.mark.parametrize("name, seed", [(name, seed) for name in (STORES if harness.ALL else ["first", "store-1"]) for seed in harness.seeds(1, 40)])
def test_it_is_killed_as_it_begins(old, sandbox, shfs, seed):
    """Again and again: the first queries, which make the index anew, and mounts, which raise the number of the store."""
    draw = random.Random(seed)
    for _ in range(4):
        query = sandbox.popen([f"{harness.PREFIX}/bin/shfs", draw.choice(["history", "stats", "reindex"])], stdout=subprocess.DEVNULL)
        time.sleep(draw.uniform(0, 0.4))
        query.kill()
        query.wait()
    sandbox.allow_exit(-signal.SIGKILL)
    sandbox.allow_log("ended")
    for _ in range(2):
        shfs("mount", sandbox.project)
        pid = daemon_pid(shfs, sandbox.project)
        writer = sandbox.popen(["sh", "-c", "i=0; while :; do i=$((i + 1)); echo $i > k$i; done"], stderr=subprocess.DEVNULL)
        time.sleep(draw.uniform(0, 0.4))
        os.kill(pid, signal.SIGKILL)
        writer.kill()
        writer.wait()
        harness.wait_until(lambda: is_there_again(shfs, sandbox.project, pid), "the mount to be there again")  # noqa: B023
        shfs("umount", sandbox.project, cwd="/")
    old.still_answers(1)
    work(sandbox).unmount()
    check_work(sandbox)
    old.still_answers(1)
    assert shfs("check", "--read-data", cwd="/")
