# SPDX-License-Identifier: MIT
"""shfs try: what a command does on a layer, kept, is what the layer showed; dropped, nothing. Random lines, with the
numbers of SHFS_TEST_SEEDS."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import time

import pytest

import harness
from harness import PREFIX, seeds, wait_until
from test_put_back import differences
from test_undo import LOOK, lay_out, line_of

SEEDS = seeds(3, an_hour=600)
SHFS = f"{PREFIX}/bin/shfs"
pytestmark = pytest.mark.timeout(120)

FAILURE, USAGE, NOT_FOUND, REFUSED, UNAVAILABLE = 1, 2, 3, 4, 5


def tree(sandbox, look=None):
    """{path: all about it}; the time of a directory is that of the last change in it, whoever made it."""
    found = json.loads(look or sandbox.run("python3", "-c", LOOK).stdout)
    for about in found.values():
        if about[0] == 0o040000:
            about[4] = None
        del about[8:]  # a file has other numbers there
    for name in "./two", "./three":  # links of before are files of their own there
        found.pop(name, None)
    return found


def tries(sandbox):
    return json.loads(sandbox.shfs("try", "list", "--json").stdout)["tries"]


def changes(sandbox):
    """{path: change} of the only one."""
    [one] = tries(sandbox)
    return {os.path.relpath(c["path"], sandbox.project): c["change"] for c in one["changes"]}


def layers(sandbox):
    """What is left of them in the store."""
    with contextlib.suppress(FileNotFoundError):
        return os.listdir(f"{sandbox.store}/try")
    return []


def versions(sandbox, name):
    return json.loads(sandbox.shfs("log", "--json", name).stdout)["versions"]


def pids_within(sandbox):
    """Processes of the user in another mount namespace."""
    ours = os.readlink("/proc/self/ns/mnt")
    for pid in sandbox.sh("pgrep -u $(id -u)", check=False).stdout.split():
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/{pid}/ns/mnt") != ours:
                yield int(pid)


@pytest.mark.parametrize("seed", SEEDS)
def test_kept_is_what_the_layer_showed(sandbox, mount, user, seed):
    """Each second time in a project that is not mounted."""
    there = mount() if seed % 2 else None
    lay_out(sandbox)
    line = line_of(seed, user.name == "root")
    before = tree(sandbox)
    sandbox.write_outside(f"{sandbox.home}/look.py", LOOK)
    tried = sandbox.shfs("try", "sh", "-c", f"{line}; python3 ~/look.py")
    shown = tree(sandbox, tried.stdout)
    assert not differences(before, tree(sandbox)), line
    if "nothing of the project was changed" in tried.stderr:
        assert not differences(before, shown), line
        return
    kept = sandbox.shfs("try", "keep")
    diff = differences(shown, tree(sandbox))
    assert not diff, f"{line}\n{kept}\n{diff}"
    assert not layers(sandbox)
    if there:
        there.settle()
    sandbox.shfs("check")


@pytest.mark.both
def test_dropped(sandbox, mounted):
    """Nothing is left, neither of a command that ended nor of one that was killed."""
    lay_out(sandbox)
    before = tree(sandbox)
    script = "rm -r d; mkdir -p d/x/y; chmod 0 d/x; echo 1 > a; cp -r p q; mkfifo f; echo secret > ${TMPDIR:-/tmp}/left; exit 3"
    assert sandbox.shfs("try", "sh", "-c", script, check=3).stderr.count("shfs try keep") == 1
    running = sandbox.popen([SHFS, "try", "--", "sh", "-c", "echo 2 > b; echo begun; exec sleep 100"], stdout=subprocess.PIPE)
    assert running.stdout.readline() == b"begun\n"
    assert "still runs" in sandbox.shfs("try", "drop", "2", check=REFUSED).stderr
    assert [one["running"] for one in tries(sandbox)] == [False, True]
    running.send_signal(signal.SIGTERM)
    assert running.wait(30) == -signal.SIGTERM
    assert [(one["running"], one["status"]) for one in tries(sandbox)] == [(False, 3), (False, 128 + 15)]
    assert not os.path.exists("/tmp/left")
    for number in "2", "1":
        assert "is dropped" in sandbox.shfs("try", "drop", number).stdout
    assert not layers(sandbox) and not differences(before, tree(sandbox))
    assert "there is no try 1" in sandbox.shfs("try", "drop", "1", check=NOT_FOUND).stderr
    assert "nothing was tried" in sandbox.shfs("try", "diff", check=NOT_FOUND).stderr


@pytest.mark.both
def test_the_rest_is_read_only(sandbox, mounted, user):
    """Of the directories outside, /tmp and caches can be written to, and nobody else sees that."""
    sandbox.sh("mkdir -p ~/.cache; echo theirs > ~/.cache/c; echo 1 > ~/outside")
    script = """
for f in ~/outside ~/new /etc/new /usr/bin/new; do (echo no > $f) 2> /dev/null && echo "wrote $f"; done
mv ~/outside ~/other 2> /dev/null && echo moved
mount -o remount,rw / 2> /dev/null && echo remounted
umount . 2> /dev/null && echo unmounted
echo mine > ~/.cache/c; cat ~/.cache/c; echo x > ${TMPDIR:-/tmp}/shfs-try-test; cat ${TMPDIR:-/tmp}/shfs-try-test; echo y > here
grep Cap[EP][fr] /proc/self/status
"""
    said = sandbox.shfs("try", "sh", "-c", script).stdout
    capabilities = int(re.search(r"CapEff:\s*(\w+)", said)[1], 16)
    assert said.split("Cap")[0].split("\n") == ["mine", "x", ""], said
    assert not capabilities & 1 << 21 and (user.name == "root" or not capabilities)
    assert sandbox.sh("cat ~/.cache/c ~/outside").stdout == "theirs\n1\n" and not os.path.exists("/tmp/shfs-try-test")
    assert changes(sandbox) == {"here": "made"}


@pytest.mark.users("ordinary")
def test_a_cache_with_a_mount(sandbox, mounted):
    """It cannot be covered by an overlay, and is empty there: nobody need know."""
    sandbox.sh("mkdir -p ~/.cache/other; echo theirs > ~/.cache/c")
    other = f"{sandbox.home}/.cache/other"
    sandbox.shfs("mount", other)
    try:
        said = sandbox.shfs("try", "sh", "-c", "ls -A ~/.cache; echo mine > ~/.cache/c; echo 1 > here")
        assert said.stdout == "" and "warning" not in said.stderr and "cache" not in said.stderr
        assert sandbox.sh("cat ~/.cache/c").stdout == "theirs\n" and changes(sandbox) == {"here": "made"}
    finally:
        sandbox.shfs("umount", other)


@pytest.mark.users("ordinary")
def test_changed_meanwhile(sandbox, mounted):
    """What others changed since is not overwritten; the rest is kept on request."""
    sandbox.sh("for f in a b c gone kept; do echo 1 > $f; done; mkdir d e; echo 1 > d/x; echo 1 > e/x")
    sandbox.shfs("try", "sh", "-c", "echo mine >> a; echo mine >> b; echo mine >> gone; rm kept; rm -r d e; echo new > new; echo n > n2")
    sandbox.sh("echo theirs >> a; rm gone; echo theirs > new; echo theirs > d/y")
    refused = sandbox.shfs("try", "keep", check=REFUSED).stderr
    assert {line.split()[1] for line in refused.splitlines() if "by others" in line} == {"a", "gone", "new", "d/"}
    assert sandbox.sh("cat a b new e/x d/y").stdout == "1\ntheirs\n1\ntheirs\n1\ntheirs\n"
    assert "nothing at c" in sandbox.shfs("try", "keep", "c", check=NOT_FOUND).stderr
    sandbox.shfs("try", "keep", "n2")
    assert sandbox.read("n2") == b"n\n" and sandbox.read("b") == b"1\n" and len(tries(sandbox)) == 1
    dry = sandbox.shfs("try", "keep", "-n", "--partly").stdout
    assert "b\n" in dry and "n2" not in dry and sandbox.read("b") == b"1\n"
    sandbox.shfs("try", "keep", "--partly")
    assert sandbox.sh("cat a b new d/*; ls").stdout == "1\ntheirs\n1\nmine\ntheirs\n1\ntheirs\na\nb\nc\nd\nn2\nnew\n"
    assert set(changes(sandbox)) == {"a", "gone", "new", "d", "d/x", "d/y"}  # they wait
    sandbox.shfs("try", "drop")


@pytest.mark.users("ordinary")
def test_it_becomes_history(sandbox, mounted, shell):
    """A command that was kept is one of history's, as if it had been run; one that was dropped is not."""
    sandbox.write("in.csv", "b\na\n")
    bash = shell()
    bash.run("shfs try -- sh -c 'sort in.csv > sorted; head -1 sorted > top'")
    bash.run("shfs try keep")
    bash.run("shfs try -- sh -c 'sort -r in.csv > sorted'")
    bash.run("shfs try drop; cat top > end")
    why = sandbox.shfs("why", "end").stdout
    assert "sh -c 'sort in.csv > sorted; head -1 sorted > top'" in why and "in.csv@1" in why and "sort -r" not in why
    assert sandbox.shfs("stale", "end").stdout.strip() == sandbox.shfs("stale", "top").stdout.strip()
    assert not [v for v in versions(sandbox, "sorted") if v["source"] not in ("written", "touched")]
    sandbox.write("in.csv", "c\n")
    mounted.settle()
    assert "top" in sandbox.shfs("stale", "top", check=False).stdout
    sandbox.shfs("try", "sh", "-c", "echo more >> in.csv")
    sandbox.shfs("try", "keep")
    log = sandbox.shfs("log", "in.csv").stdout
    assert "echo more >> in.csv" in log and "while nothing watched" not in log
    sandbox.shfs("check")


@pytest.mark.users("ordinary")
def test_a_part_is_history(sandbox, mounted):
    """Of what was kept only in part, what was not kept has no version."""
    sandbox.write("in", "1\n")
    sandbox.shfs("try", "sh", "-c", "cp in one; cp in two; echo 2 >> in")
    sandbox.shfs("try", "keep", "one")
    assert "cp in one" in sandbox.shfs("why", "one").stdout
    assert len(versions(sandbox, "one")) == 1 and len(versions(sandbox, "in")) == 1
    assert "never seen" in sandbox.shfs("log", "two", check=NOT_FOUND).stderr
    assert "tells only that" in sandbox.shfs("try", "keep").stderr
    assert sandbox.sh("cat two in").stdout == "1\n1\n2\n" and not tries(sandbox)
    assert len(versions(sandbox, "in")) == 2


@pytest.mark.users("ordinary")
def test_again_in_the_same(sandbox, mounted):
    """--in goes on where another command ended; what it changes back is no change."""
    sandbox.write("a", "1\n")
    sandbox.shfs("try", "sh", "-c", "cp -p a keep; echo 2 >> a; echo x > new")
    sandbox.shfs("try", "--in", "1", "--", "sh", "-c", "cat a new; cp -p keep a; rm new keep; echo y > other")
    assert changes(sandbox) == {"other": "made"}
    assert "there is no try 7" in sandbox.shfs("try", "--in", "7", "true", check=NOT_FOUND).stderr


@pytest.mark.users("ordinary")
def test_ten_side_by_side(sandbox, mounted):
    sandbox.write("in", "1\n")
    running = [sandbox.popen([SHFS, "try", "sh", "-c", f"cat in > out{n}; echo {n} >> out{n}; echo {n} > same"]) for n in range(10)]
    assert [process.wait(60) for process in running] == [0] * 10
    assert sorted(one["try"] for one in tries(sandbox)) == list(range(1, 11))
    for number in range(1, 11):
        [out] = [os.path.basename(c["path"]) for one in tries(sandbox) if one["try"] == number for c in one["changes"] if "out" in c["path"]]
        sandbox.shfs("try", "keep", str(number), out)
        sandbox.shfs("try", "drop", str(number))
    assert sandbox.sh("cat out?").stdout == "".join(f"1\n{n}\n" for n in range(10))
    assert not layers(sandbox) and not os.path.exists(f"{sandbox.project}/same")


@pytest.mark.users("ordinary")
def test_as_without(sandbox, mounted):
    """Status, streams, arguments and signals are the command's; what it leaves in the background is ended."""
    run = lambda *argv, **options: sandbox.shfs("try", *argv, check=False, **options)
    assert run("--", "sh", "-c", "exit 7").status == 7
    assert run("no-such-program").status == 127
    assert run("printf", "%s|", "--json", "list", "").stdout == "--json|list||"
    assert run("--", "list").status == 127
    assert sandbox.sh("echo in | shfs try cat 2> /dev/null").stdout == "in\n"
    assert sandbox.sh("shfs try sh -c 'kill -TERM $$'; echo $?", check=False).stdout == "143\n"
    assert run("sh", "-c", 'echo "$SHFS_TRY"; pwd; id -u').stdout.split() == ["1", sandbox.project, str(sandbox.user.uid)]
    began = time.monotonic()
    assert run("sh", "-c", "(trap '' TERM; sleep 1000) & (setsid sleep 1000 &) ; echo").status == 0
    assert time.monotonic() - began < 500 and not tries(sandbox)
    assert not sandbox.sh("pgrep -f '[s]leep 1000' -u $(id -u)", check=False).stdout


@pytest.mark.users("ordinary")
def test_a_shell(sandbox, mounted, shell):
    """Without a command, the user's shell: what is typed there is history once it is kept."""
    sandbox.write("in", "b\na\n")
    sandbox.env["SHELL"] = "/bin/bash"
    bash = shell()
    for line in "shfs try", "sort in > out", "exit":
        bash.run(line)
    assert changes(sandbox) == {"out": "made"}
    bash.run("shfs try keep")
    assert "sort in > out" in sandbox.shfs("why", "out").stdout


@pytest.mark.users("ordinary")
def test_without_the_network(sandbox, mounted):
    ask = "import socket, sys; socket.create_connection(('127.0.0.1', int(sys.argv[1])), 5)"
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        sandbox.shfs("try", "--net", "python3", "-c", ask, port)
        assert "refused" in sandbox.shfs("try", "--no-net", "python3", "-c", ask, port, check=1).stderr


@pytest.mark.users("ordinary")
def test_real_work(sandbox, mounted):
    """A build, a rebase and an environment of Python are as if made directly."""
    sandbox.sh("""
git init -q; git config user.name me; git config user.email me@here
printf 'all: prog\\nprog: main.o util.o\\n\\t$(CC) -o $@ $^\\n' > Makefile
echo 'int add(int, int); int main(void) { return add(1, -1); }' > main.c
echo 'int add(int a, int b) { return a + b; }' > util.c
git add -A; git commit -qm first; git checkout -qb topic; echo '/* t */' >> util.c; git commit -qam topic
git checkout -q -; echo '/* m */' >> main.c; git commit -qam main; git checkout -q topic""")
    sandbox.shfs("try", "sh", "-c", "make -s && git rebase -q - && python3 -m venv --without-pip env && env/bin/python -c pass")
    assert sandbox.sh("git log --oneline | wc -l; ls").stdout.split() == ["2", "Makefile", "main.c", "util.c"]
    sandbox.shfs("try", "keep")
    assert sandbox.sh("git status --short; git log --format=%s; git fsck 2>&1").stdout == "?? env/\n?? main.o\n?? prog\n?? util.o\ntopic\nmain\nfirst\n"
    assert sandbox.sh("./prog; echo $?; make -s; env/bin/python -c 'print(1)'").stdout == "0\n1\n"


@pytest.mark.users("ordinary")
def test_killed(sandbox, mounted):
    """A layer whose keeper was killed is shown as such, and can be kept or dropped."""
    running = sandbox.popen([SHFS, "try", "sh", "-c", "echo 1 > made; echo begun; exec sleep 100"], stdout=subprocess.PIPE)
    assert running.stdout.readline() == b"begun\n"
    sandbox.allow_exit(-signal.SIGKILL)
    sandbox.allow_log("ended")
    running.kill()
    running.wait()
    for pid in pids_within(sandbox):
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not tries(sandbox)[0]["running"], "its end")
    assert "was killed" in sandbox.shfs("try", "list").stdout
    sandbox.shfs("try", "keep")
    assert sandbox.read("made") == b"1\n" and not layers(sandbox)


@pytest.mark.users("ordinary")
def test_where_it_cannot_be(sandbox, mounted, project):
    """Clear errors, and nothing is left."""
    shfs = lambda *args, **more: sandbox.shfs("try", *args, **more)
    assert "cover the store" in shfs("true", cwd=sandbox.home, check=REFUSED).stderr
    forbidden = "echo 0 > /proc/sys/user/max_user_namespaces; exec setpriv --ambient-caps=-all shfs try true"
    result = sandbox.run("unshare", "-U", "--map-current-user", "--keep-caps", "sh", "-c", forbidden, check=False)
    assert result.status == UNAVAILABLE and "namespace" in result.stderr and not layers(sandbox)
    for wrong in (["list", "x"], ["drop", "1", "x"], ["keep", "--json"], ["diff", "-n"], ["--net", "--no-net", "true"], ["--json", "true"]):
        assert shfs(*wrong, check=False).status in (USAGE, NOT_FOUND), wrong
