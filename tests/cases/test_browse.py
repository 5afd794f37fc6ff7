# SPDX-License-Identifier: MIT
"""The past as files: each directory of shfs browse beside what the other commands say, and the project at a
time beside a copy that was made then. SHFS_TEST_SEEDS says with which numbers."""

import errno
import json
import os
import random
import re
import signal
import subprocess
import time

import pytest

from harness import ALL, PREFIX, Mount, ids_of, mounts_below, seeds, wait_until
from test_forget import SECRET, places
from test_put_back import differences
from test_undo import LOOK, lay_out, line_of

SEEDS = seeds(2, an_hour=60)
MOMENTS = 20 if ALL else 4


class Browse(Mount):
    """By shfs-browse, in the foreground."""

    def __init__(self, sandbox, where, root=None):
        sandbox.shfs("sync")
        super(Mount, self).__init__(sandbox, where, "shfs-browse", "--root", root or sandbox.project)

    def pids(self):
        """Of the file system, and of the process beside it."""
        pid = self.process.pid

        def beside():  # and not fusermount3
            found = subprocess.run(["pgrep", "-P", str(pid), "-x", "shfs-refresh"], capture_output=True, check=False)
            return found.stdout.split()

        return pid, *map(int, wait_until(beside, "the process beside it"))


@pytest.fixture
def browse(sandbox):
    """Browses the project: browse() -> where."""

    def begin(root=None):
        where = sandbox.mkdir(os.path.join(sandbox.home, f"past{len(sandbox.mounts)}"))
        return Browse(sandbox, where, root).directory

    return begin


def listed(sandbox, directory):
    """The names of all files below, by find."""
    found = sandbox.run("find", ".", "-type", "f", cwd=directory).stdout.splitlines()
    return {name.removeprefix("./") for name in found}


def about(sandbox, directory):
    """{path: all about it}, but for the time and the mode of the directory itself."""
    return json.loads(sandbox.run("python3", "-c", LOOK, cwd=directory, timeout=60).stdout)


def read(sandbox, *paths):
    return sandbox.run("cat", "--", *paths).stdout_bytes


# --- versions ---


@pytest.mark.parametrize("seed", SEEDS)
def test_versions_are_those_of_cat(sandbox, mounted, browse, user, shell, seed):
    lay_out(sandbox)
    shell().run(line_of(seed, user.name == "root"))
    mounted.settle()
    past = browse()
    files = versions_of(sandbox)
    assert listed(sandbox, f"{past}/versions") == {f"{path}/{n}" for path, n, *_ in files}
    script = """
import os, sys
for line in sys.stdin.read().splitlines():
    path = os.path.join(sys.argv[1], line)
    st = os.lstat(path)
    try:
        data = open(path, "rb").read().hex()
    except OSError as error:
        data = error.errno
    print([line, st.st_size, st.st_mode & 0o7777, st.st_mtime_ns, data])
"""
    names = "".join(f"{path}/{n}\n" for path, n, *_ in files)
    found = sandbox.run("python3", "-c", script, f"{past}/versions", input=names).stdout.splitlines()
    for line, (path, n, size, mode, mtime_ns, kept) in zip(found, files, strict=True):
        name, *has = eval(line)
        assert has[:3] == [size, mode & 0o7777, mtime_ns], name
        if kept:
            assert has[3] == sandbox.shfs("cat", f"{path}@{n}").stdout_bytes.hex(), name
        else:
            assert has[3] == (errno.ENODATA if size else ""), name


def select(sandbox, sql):
    return json.loads(sandbox.shfs("select", sql, cwd="/", timeout=120).stdout)["rows"]


def versions_of(sandbox):
    """[(path in the project, n, size, mode, mtime_ns, is it kept)] of all, by the views."""
    rows = select(sandbox, "SELECT path, n, size, mode, mtime_ns, object IS NOT NULL FROM v_version")
    return sorted((os.path.relpath(path, sandbox.project), *row) for path, *row in rows if path.startswith(f"{sandbox.project}/"))


def test_names_of_all_kinds(sandbox, mounted, browse):
    """Also a path that was a file, and a directory of files whose names are numbers."""
    script = """
import os
for name in (b"new\\nline", b"\\xff\\xfe", "grün".encode(), b"a b", b"-n", b"x" * 255, b"@", b"f@1", b"d/1", b"d/2@"):
    os.makedirs(os.path.dirname(b"./" + name), exist_ok=True)
    open(b"./" + name, "wb").write(name)
open("n", "w").write("file")
os.remove("n")
os.makedirs("n/2/3")
for name in ("1", "2/3/x", "7@", "a"):
    open("n/" + name, "w").write(name)
"""
    sandbox.run("python3", "-c", script)
    mounted.settle()
    past = browse()
    look = """
import os, sys
for where, _, names in os.walk(os.fsencode(sys.argv[1])):
    for name in names:
        path = os.path.join(where, name)
        print([os.path.relpath(path, os.fsencode(sys.argv[1])), open(path, "rb").read()])
"""
    found = dict(eval(line) for line in sandbox.run("python3", "-c", look, f"{past}/versions").stdout.splitlines())
    names = [b"new\nline", b"\xff\xfe", "grün".encode(), b"a b", b"-n", b"x" * 255, b"@", b"f@1", b"d/1", b"d/2@"]
    wanted = {name + b"/1": name for name in names}
    wanted |= {b"n/1": b"file", b"n/1@/1": b"1", b"n/2@/3/x/1": b"2/3/x", b"n/7@@/1": b"7@", b"n/a/1": b"a"}
    assert found == wanted
    now = about(sandbox, f"{past}/at/now")
    assert not differences(about(sandbox, sandbox.project), now)


def test_what_is_new_shows(sandbox, mounted, browse):
    sandbox.sh("echo 1 > f")
    past = browse()
    for n in range(2, 6):
        sandbox.sh(f"echo {n} > f; mkdir d{n}; echo {n} > d{n}/g")
        mounted.settle()
        wait_until(lambda n=n: sandbox.run("ls", f"{past}/versions/f", check=False).stdout.split()[-1:] == [str(n)],
                   "the new version")
        assert read(sandbox, f"{past}/versions/f/{n}") == f"{n}\n".encode()
        assert read(sandbox, f"{past}/at/{now_in(sandbox)}/d{n}/g") == f"{n}\n".encode()


def test_what_is_not_kept(sandbox, mounted, browse):
    """It has its size and its name, cannot be opened, and says why."""
    sandbox.write(".shfsignore", "*.big\n")
    sandbox.sh("echo left out > f.big; echo 1 > f; echo 22 > f; : > e.big")
    mounted.settle()
    past = browse()
    sandbox.shfs("prune", "--keep-last", "1")

    def why(name):
        return sandbox.run("getfattr", "--only-values", "-n", "user.shfs.content", f"{past}/versions/{name}").stdout

    for name, size, reason in ("f.big/1", 9, "excluded by a rule"), ("f/1", 2, "pruned"):
        assert sandbox.run("stat", "-c", "%s", f"{past}/versions/{name}").stdout == f"{size}\n"
        assert "No data available" in sandbox.run("cat", f"{past}/versions/{name}", check=1).stderr
        wait_until(lambda: why(name) == reason, reason)
    assert why("f/2") == "kept" and read(sandbox, f"{past}/versions/f/2") == b"22\n"
    assert read(sandbox, f"{past}/versions/e.big/1") == b""
    assert "user.shfs" not in sandbox.run("getfattr", "-d", "-m", "-", f"{past}/versions/f/2").stdout
    assert "left out" not in sandbox.run("grep", "-r", "left", f"{past}/versions", check=2).stdout


def test_what_is_damaged(sandbox, mounted, browse):
    sandbox.write("f", random.Random(1).randbytes(3 << 20))  # a file of its own
    mounted.settle()
    past = browse()
    loose = next(p for p in subprocess.run(["find", f"{sandbox.store}/objects", "-size", "+2M"], capture_output=True,
                                           text=True, check=True).stdout.splitlines())
    with open(loose, "r+b") as file:
        file.seek(1 << 20)
        file.write(b"damage")
    assert "Input/output error" in sandbox.run("cat", f"{past}/versions/f/1", check=1).stderr


@pytest.mark.either
def test_parts_of_large_files(sandbox, mounted, browse):
    """In any order, through memory and by reads; some are unpacked piece by piece."""
    script = """
import random, zlib
chosen = random.Random(1)
line = "".join(f"{chosen.random()} {i}\\n" for i in range(150000)).encode()
open("text", "wb").write(line * 3)
open("noise", "wb").write(chosen.randbytes(5 << 20))
open("zeros", "wb").write(bytes(15 << 20))
data = chosen.randbytes(1 << 20)
for i in range(4):
    open("delta", "wb").write(data[:i * 1000] + b"more" * 100 + data[i * 1000:])
"""
    sandbox.run("python3", "-c", script, timeout=60)
    mounted.settle()
    past = browse()
    compare = """
import mmap, os, random, sys
chosen = random.Random(2)
for name, n in ("text", 1), ("noise", 1), ("zeros", 1), ("delta", 4):
    now, then = open(name, "rb"), open(f"{sys.argv[1]}/versions/{name}/{n}", "rb")
    assert now.read() == then.read(), name
    size = os.fstat(now.fileno()).st_size
    mapped = mmap.mmap(then.fileno(), 0, access=mmap.ACCESS_READ)
    for _ in range(12):
        at, length = chosen.randrange(size), chosen.randrange(1 << 19)
        assert os.pread(now.fileno(), length, at) == os.pread(then.fileno(), length, at) == mapped[at:at + length], name
"""
    sandbox.run("python3", "-c", compare, past, timeout=100)


# --- commands ---


@pytest.mark.parametrize("seed", SEEDS)
def test_commands_are_those_of_show(sandbox, mounted, browse, user, shell, seed):
    lay_out(sandbox)
    work = shell()
    lines = [line_of(seed * 100 + i, user.name == "root") for i in range(3)]
    for line in lines:
        work.run(line)
    mounted.settle()
    past = browse()
    assert {os.path.basename(name) for name in sandbox.run("ls", f"{past}/commands").stdout.split()} == {
        c["id"] for c in json.loads(sandbox.shfs("history", "--json", "--all").stdout)["commands"] if c["id"]}
    for line in lines:
        id = ids_of(sandbox, line)[-1]
        shown = json.loads(sandbox.shfs("show", "--json", id).stdout)
        where = f"{past}/commands/{id}"
        assert sandbox.run("cat", f"{past}/commands/{id[:8]}/text").stdout == line + "\n"
        assert sandbox.run("cat", f"{where}/text").stdout == line + "\n"
        wanted = {"read": {}, "wrote": {}}
        for use in shown["files"]:
            path = os.path.relpath(use["path"], sandbox.project)
            if path.startswith("../"):
                continue
            if use["use"] == "read" and "read" in use:
                wanted["read"][path] = use["read"]
            if use["use"] in ("wrote", "changed") and "made" in use:
                wanted["wrote"][path] = use["made"]
        # a name of a file may be a directory's later
        wanted["wrote"] = {p: n for p, n in wanted["wrote"].items() if not any(q.startswith(f"{p}/") for q in wanted["wrote"])}
        assert listed(sandbox, f"{where}/wrote") == set(wanted["wrote"]), line
        # show does not say of a file that was made anew, or appended to, that it was read before
        assert listed(sandbox, f"{where}/read") >= set(wanted["read"]), line
        for side, files in wanted.items():
            for path, n in files.items():
                same = "cmp -s \"$1\" \"$2\" || { ! cat \"$1\" && ! cat \"$2\"; } 2>/dev/null"
                sandbox.run("sh", "-c", same, "sh", f"{where}/{side}/{path}", f"{past}/versions/{path}/{n}")


def test_what_was_read(sandbox, mounted, browse, shell):
    """The first of what a command read of each file, and not what it made itself."""
    sandbox.sh("for f in a b c; do echo 1 > $f; done")
    line = "sed -i s/1/2/ a; cat b a > d; cat d > e; echo 3 >> c"
    shell().run(line)
    mounted.settle()
    where = f"{browse()}/commands/{ids_of(sandbox, line)[-1]}"
    assert {name: read(sandbox, f"{where}/read/{name}") for name in listed(sandbox, f"{where}/read")} == {
        "a": b"1\n", "b": b"1\n"}
    assert {name: read(sandbox, f"{where}/wrote/{name}") for name in listed(sandbox, f"{where}/wrote")} == {
        "a": b"2\n", "c": b"1\n3\n", "d": b"1\n2\n", "e": b"1\n2\n"}


def test_before_and_after(sandbox, mounted, browse, shell):
    lay_out(sandbox)
    work = shell()
    before = about(sandbox, sandbox.project)
    line = "sed -i s/1/one/ a; rm b; mv c d/moved; echo new > n; mv p q2; ln -sfn b link; chmod 600 s; echo x > t; rm t"
    work.run(line)
    mounted.settle()
    after = about(sandbox, sandbox.project)
    past = browse()
    where = f"{past}/commands/{ids_of(sandbox, line)[-1]}"
    files = {"before": {"a", "b", "c", "link", "s"}, "after": {"a", "d/moved", "n", "link", "s"}}
    for side, now in ("before", before), ("after", after):
        found = about(sandbox, f"{where}/{side}")
        names = {p.removeprefix("./") for p, a in found.items() if a[0] != 0o040000}
        assert files[side] <= names and not {"t", "two", "in"} & names, (side, names)
        for name in files[side]:
            for index in (0, 1, 5, 6) if name != "link" else (0, 5):  # type, mode, text, bytes
                assert found[f"./{name}"][index] == now[f"./{name}"][index], (side, name, index)
    diff = sandbox.run("diff", "-r", "--no-dereference", f"{where}/before", f"{where}/after", check=1).stdout
    assert "< 1 a\n" in diff and "> one a\n" in diff and "Only in" in diff


# --- at a time ---


def now_in(sandbox):
    return sandbox.run("date", "+%Y-%m-%dT%H:%M:%S.%N").stdout.strip()


@pytest.mark.timeout(240)
@pytest.mark.parametrize("seed", SEEDS)
def test_moments_beside_copies(sandbox, mounted, browse, user, shell, seed):
    """While others write all the time, in a directory that is not compared."""
    lay_out(sandbox)
    work, other = shell(), shell()
    sandbox.sh("mkdir load")
    past = browse()
    other.start("n=0; while [ ! -e ../stop ]; do n=$((n + 1)); echo $n > load/$((n % 9)); mv load/$((n % 9)) load/x;"
                " cp load/x load/$((n % 5)); rm load/x; done")
    moments = []
    for i in range(MOMENTS):
        line = line_of(seed * 1000 + i, user.name == "root")
        work.run(line)
        mounted.settle()
        time.sleep(0.02)
        at = now_in(sandbox)
        copy = os.path.join(sandbox.home, f"copy{i}")
        sandbox.sh(f"mkdir {copy}; cp -a $(ls -A | grep -vx load) {copy}/; touch -r . {copy}", check=False)
        moments.append((at, copy, about(sandbox, copy), line))
        time.sleep(0.02)
        if i % 3 == 2:  # also those that were looked into before
            compare(sandbox, past, *random.Random(seed + i).choice(moments))
    work.run("touch ../stop")
    other.wait()
    for moment in moments:
        compare(sandbox, past, *moment)


def compare(sandbox, past, at, copy, wanted, line):
    where = f"{past}/at/{at}"
    diff = sandbox.run("diff", "-r", "--no-dereference", "--exclude=load", copy, where, check=False, timeout=60)
    # what none may read, and special files, which diff does not compare
    said = [text for text in (diff.stdout + diff.stderr).splitlines()
            if "ermission denied" not in text and " is a fifo " not in text and "character special" not in text]
    assert not said, (line, said)
    found, wanted = about(sandbox, where), {path: list(a) for path, a in wanted.items()}
    found = {p: a for p, a in found.items() if not p.startswith("./load")}
    for tree in found, wanted:
        tree.pop(".", None)
    for path in set(wanted) & set(found):  # that two names are of one file is not always known
        if found[path][8:] and found[path][8] != wanted[path][8]:
            assert set(found[path].pop()) <= set(wanted[path].pop()), (line, path)
    wrong = differences(wanted, found)
    assert not wrong, (line, [(path, [pair for pair in zip(*both) if pair[0] != pair[1]] if all(both) else both)
                              for path, both in wrong.items()])


def test_times_by_name(sandbox, mounted, browse, shell):
    work = shell()
    work.run("echo 1 > f")
    mounted.settle()
    past = browse()
    today = sandbox.run("date", "+%Y-%m-%d").stdout.strip()
    assert sandbox.run("ls", f"{past}/at").stdout.split() == [today]
    meant = sandbox.run("getfattr", "--only-values", "-n", "user.shfs.time", f"{past}/at/now").stdout
    assert meant.startswith(today) and sandbox.run("ls", f"{past}/at/{meant}").stdout.split() == ["f"]
    assert sandbox.run("ls", f"{past}/at/@{time.time():.3f}").stdout.split() == ["f"]
    sandbox.sh("echo 1 > later")  # as long as it is used it stays what it was
    assert sandbox.run("ls", f"{past}/at/now").stdout.split() == ["f"]
    assert sandbox.run("ls", f"{past}/at/1 hour ago").stdout == ""
    for name in "2099-01-01", "nonsense", "", f"{today}x":
        if name:
            assert "No such file" in sandbox.run("ls", f"{past}/at/{name}", check=2).stderr


def test_now_follows(sandbox, mounted, browse):
    """What is as it was is changed, removed, renamed while it is looked at."""
    sandbox.sh("mkdir d; for i in 1 2 3 4; do echo $i > d/$i; done; mkdir e; echo x > e/x")
    mounted.settle()
    time.sleep(0.02)
    at = f"{browse()}/at/{now_in(sandbox)}"
    time.sleep(0.02)
    assert sandbox.sh(f"cd {at}; cat d/* e/x").stdout == "1\n2\n3\n4\nx\n"
    steps = "echo more >> d/1", "rm d/2", "mv d/3 d/new", "mv d f; mkdir d; echo other > d/4", "rm -r e", "echo y > e"
    for step in steps:
        sandbox.sh(step)
        assert sandbox.sh(f"cd {at}; cat d/* e/x").stdout == "1\n2\n3\n4\nx\n", step
        assert sandbox.run("find", ".", cwd=at).stdout.count("\n") == 8, step


def test_a_reader_while_it_changes(sandbox, mounted, browse):
    """An open file of a moment stays what it was then."""
    sandbox.sh("seq 300000 > f")
    mounted.settle()
    time.sleep(0.02)
    at = f"{browse()}/at/{now_in(sandbox)}"
    time.sleep(0.02)
    script = """
import subprocess, sys
wanted = open("f").read()
then = open(sys.argv[1] + "/f")
got = then.read(1000)
subprocess.run("seq 400000 500000 > f; echo more >> f", shell=True, check=True)
assert got + then.read() == wanted
"""
    sandbox.run("python3", "-c", script, at)


# --- other programs ---


def test_other_programs(sandbox, mounted, browse):
    lay_out(sandbox)
    sandbox.sh("rm pipe")  # rsync does not set its time
    mounted.settle()
    past = browse()
    at = f"{past}/at/{now_in(sandbox)}"
    sandbox.sh(f"set -e; rsync -a --modify-window=-1 {at}/ ../by-rsync; cp -a {at} ../by-cp; mkdir ../by-tar; tar c --format=pax -C {at} . | tar x -C ../by-tar")
    wanted = about(sandbox, sandbox.project)
    for name in "by-rsync", "by-cp", "by-tar":
        found = about(sandbox, f"{sandbox.home}/{name}")
        plain = {p: a[:7] for p, a in wanted.items() if p != "."}
        wrong = differences(plain, {p: a[:7] for p, a in found.items() if p != "."})
        assert not wrong, (name, list(wrong.items())[0])
    assert sandbox.run("rsync", "-an", "--modify-window=-1", "--itemize-changes", f"{at}/", "./").stdout == ""
    assert sandbox.run("grep", "-rlx", "1 d/e/a", at).stdout == f"{at}/d/e/a\n"
    assert sandbox.run("git", "-C", at, "--no-optional-locks", "log", "--format=%s",
                       env={"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory",
                            "GIT_CONFIG_VALUE_0": "*"}).stdout == "first\n"
    assert "1 a" in sandbox.run("vim", "-es", "-u", "NONE", "-c", "%print", "-c", "q!", f"{at}/a").stdout
    assert sandbox.run("du", "-s", "--apparent-size", at).stdout


def test_nothing_can_be_changed(sandbox, mounted, browse):
    sandbox.sh("echo 1 > f; mkdir d")
    mounted.settle()
    past = browse()
    names = f"{past}/versions/f/1", f"{past}/at/now/f"
    for name in names:
        for line in "echo x >> $1", "rm -f $1", "chmod 600 $1", "touch $1", "mv $1 $1.new", "ln $1 $1.new", "ln -s x $1.new", \
                    "mkdir $1.d", "setfattr -n user.x -v 1 $1", "truncate -s 0 $1", "mkfifo $1.p":
            said = sandbox.run("sh", "-c", line.replace("$1", '"$1"'), "sh", name, check=False)
            assert said.status and "ead-only" in said.stderr, line
    for name in names:
        assert read(sandbox, name) == b"1\n"


def test_only_its_user_looks_into_it(sandbox, mounted, browse):
    sandbox.sh("echo 1 > f")
    past = browse()
    if os.geteuid() == 0 and sandbox.user.uid:
        with pytest.raises(PermissionError):
            os.listdir(past)
    mounts = open("/proc/self/mounts", encoding="utf-8").read()
    assert re.search(rf"^shfs:\S+ {past} fuse.shfs-browse ro,nosuid,nodev,", mounts, re.M)


# --- its processes ---


@pytest.mark.users("root")  # fusermount3 is not set-uid under strace
def test_it_changes_no_file(sandbox, mounted, browse):
    """By what strace saw: it wrote to the device, asked the other process, and opened all else to read."""
    sandbox.sh("for i in 1 2 3; do seq $i 20000 > f; echo $i >> g; done")
    mounted.settle()
    sandbox.shfs("sync")
    where = sandbox.mkdir(f"{sandbox.home}/past")
    log = f"{sandbox.path}/strace"
    program = os.path.join(PREFIX, "libexec/shfs/shfs-browse")
    traced = sandbox.popen(["strace", "-f", "-yy", "-o", log, program, "--store", sandbox.store, "--root", sandbox.project,
                            "--foreground", where], env={"ASAN_OPTIONS": "detect_leaks=0"})
    sandbox.allow_exit(-signal.SIGKILL)
    wait_until(lambda: where in mounts_below(where), "the mount")
    sandbox.sh(f"cat {where}/versions/*/* {where}/at/now/*; ls -lR {where}; echo 4 > g; cat {where}/at/now/g; cat {where}/versions/g/4")
    sandbox.unmount(where)
    traced.wait(60)
    lines = open(log, encoding="utf-8", errors="replace").read().splitlines()
    pid = lines[0].split()[0]
    at = next(i for i, line in enumerate(lines) if "seccomp(" in line and line.startswith(pid))
    begin = max(i for i, line in enumerate(lines) if "seccomp(" in line and line.split()[0] == pid)
    mine = [line.split(None, 1)[1] for line in lines[begin + 1:] if line.split()[0] == pid]
    assert at < begin and len(mine) > 500
    for line in mine:
        wrote = re.match(r"(write|writev)\((\d+)<([^>]*)>", line)
        if wrote:
            assert "/dev/fuse" in wrote[3] or "pipe:" in wrote[3], line
        if re.match(r"open(at)?\(", line) and " = -1 " not in line:
            assert "O_RDONLY" in line or "O_PATH" in line, line
        assert not re.match(r"(pwrite|ftruncate|truncate|unlink|rename|mkdir|fallocate|chmod|link|symlink)\w*\(.* = 0", line), line


@pytest.mark.parametrize("which", ["server", "both"])
def test_killed(sandbox, mounted, which):
    """A file system that dies is unmounted by the process beside it; if both die, the next one does that."""
    sandbox.sh("echo 1 > f")
    mounted.settle()
    where = sandbox.mkdir(f"{sandbox.home}/past")
    first = Browse(sandbox, where)
    assert read(sandbox, f"{where}/versions/f/1") == b"1\n"
    first.expected_status = -signal.SIGKILL
    pids = first.pids()
    assert len(pids) == 2
    sandbox.allow_exit(-signal.SIGKILL)
    for pid in reversed(pids if which == "both" else pids[:1]):
        os.kill(pid, signal.SIGKILL)
    first.wait()
    if which == "server":
        wait_until(lambda: not first.is_there(), "the unmount")
    else:
        assert first.is_there() and "not connected" in sandbox.run("ls", where, check=2).stderr
    said = sandbox.shfs("browse", where).stdout
    assert "the past of" in said and read(sandbox, f"{where}/versions/f/1") == b"1\n"
    assert "is unmounted" in sandbox.shfs("umount", where).stdout


def test_without_the_process_beside_it(sandbox, mounted, browse):
    """It goes on with what is in the index."""
    sandbox.sh("echo 1 > f")
    mounted.settle()
    past = browse()
    server, beside = sandbox.mounts[-1].pids()
    sandbox.allow_exit(-signal.SIGKILL)
    os.kill(beside, signal.SIGKILL)
    wait_until(lambda: not os.path.exists(f"/proc/{beside}/exe"), "its end")
    assert read(sandbox, f"{past}/versions/f/1", f"{past}/at/now/f") == b"1\n1\n"
    sandbox.sh("echo 2 > f")
    sandbox.shfs("sync")
    wait_until(lambda: sandbox.run("cat", f"{past}/versions/f/2", check=False).stdout == "2\n", "the new version")


def test_ended_by_a_signal(sandbox, mounted, browse):
    sandbox.sh("echo 1 > f")
    past = browse()
    sandbox.mounts[-1].process.terminate()
    wait_until(lambda: past not in mounts_below(past), "the unmount")


def test_browse_and_umount(sandbox, mounted, shfs):
    """The command: which project, refusals, and the end of it."""
    sandbox.sh("mkdir -p d; echo 1 > d/f")
    mounted.settle()
    where = sandbox.mkdir(f"{sandbox.home}/past")
    assert shfs("browse", f"{sandbox.home}/none", where, check=3).stderr
    assert "there is no such directory" in shfs("browse", f"{where}/none", check=2).stderr
    said = shfs("browse", where, cwd=f"{sandbox.project}/d").stdout
    assert "~/project can be read in ~/past" in said
    assert read(sandbox, f"{where}/versions/d/f/1") == b"1\n"
    assert "is mounted already" in shfs("browse", where, check=4).stderr
    # it is no recording
    assert where not in shfs("mount").stdout and where not in shfs("status").stdout
    holder = sandbox.popen(["sleep", "60"], stdin=open(os.devnull, encoding="ascii"), cwd=f"{where}/versions")
    try:
        assert "is unmounted" in shfs("umount", where).stdout  # it only stands in it
    finally:
        holder.kill()
        holder.wait()
    shfs("browse", f"{sandbox.project}/d", where)
    assert sandbox.run("ls", f"{where}/versions").stdout == "f\n"
    assert f"~/past is unmounted" in shfs("umount", "--all", cwd="/").stdout
    mounted.wait()


@pytest.mark.users("root")  # fusermount3 mounts nothing inside a user's mount
def test_inside_the_project(sandbox, mounted):
    """It does not look into itself, nor do two of them wait for each other."""
    sandbox.sh("mkdir one two; echo 1 > f")
    mounted.settle()
    sandbox.shfs("sync")
    for name in "one", "two":
        sandbox.shfs("browse", sandbox.project, f"{sandbox.project}/{name}")
    for name in "one", "two":
        at = f"{sandbox.project}/{name}/at/now"
        assert sandbox.run("ls", f"{at}/one", f"{at}/two", f"{at}/").stdout.split() == \
            [f"{at}/:", "f", "one", "two", f"{at}/one:", f"{at}/two:"]
        assert "No such" in sandbox.run("ls", f"{at}/one/at", check=2).stderr
        assert sandbox.run("find", f"{at}/", "-type", "f").stdout == f"{at}/f\n"
    for name in "one", "two":
        sandbox.shfs("umount", f"{sandbox.project}/{name}")


def test_without_the_project(sandbox, mounted, shfs):
    """Its past is there when it is not."""
    sandbox.sh("echo 1 > f; mkdir d; echo 2 > d/g")
    mounted.settle()
    time.sleep(0.02)
    at = now_in(sandbox)
    time.sleep(0.02)
    sandbox.sh("rm -r f d")
    mounted.unmount()
    os.rename(sandbox.project, f"{sandbox.project}.away")
    where = sandbox.mkdir(f"{sandbox.home}/past")
    shfs("browse", sandbox.project, where, cwd=sandbox.home)
    assert sandbox.run("cat", "d/g", "f", cwd=f"{where}/at/{at}").stdout == "2\n1\n"
    assert sandbox.run("cat", f"{where}/versions/d/g/1", cwd="/").stdout == "2\n"
    shfs("umount", where, cwd="/")
    os.rename(f"{sandbox.project}.away", sandbox.project)


# --- what was forgotten ---


def test_what_was_forgotten(sandbox, mounted, browse, shell):
    """Also by a program that has it open, or mapped."""
    work = shell()
    work.run("echo other > f")
    secret = SECRET.decode()
    work.run(f"echo {secret} > f")
    work.run("echo later > f")
    mounted.settle()
    time.sleep(0.02)
    at = now_in(sandbox)
    past = browse()
    versions = [v for v in sorted(listed(sandbox, f"{past}/versions")) if not v.startswith(".")]
    assert versions == ["f/1", "f/2", "f/3"]
    assert secret in sandbox.run("grep", "-rh", secret, past).stdout
    script = """
import mmap, os, sys, time
files = [open(name, "rb") for name in sys.argv[1:]]
mapped = [mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) for file in files]
assert all(b"hunter2" in m[:] for m in mapped)
print("open", flush=True)
sys.stdin.read()
for i in range(200):
    left = 0
    for file in files:
        try:
            left += b"hunter2" in os.pread(file.fileno(), 100, 0)
        except OSError:
            pass
    if not left:
        break
    time.sleep(0.05)
print(left)
"""
    argv = ["python3", "-c", script, f"{past}/versions/f/2"]
    with sandbox.popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdout.readline() == "open\n"
        sandbox.shfs("forget", "--grep", secret, "--yes")
        assert secret not in sandbox.run("grep", "-r", secret, past, check=False).stdout
        out, _ = reader.communicate("")
        assert out == "0\n"
    assert not places(sandbox.store, SECRET)
    mounted.settle()
    assert sandbox.run("cat", f"{past}/at/{at}/f").stdout == "later\n"


def test_after_a_reindex(sandbox, mounted, browse):
    """Rows get other numbers."""
    lay_out(sandbox)
    mounted.settle()
    time.sleep(0.02)
    at = f"{browse()}/at/{now_in(sandbox)}"
    time.sleep(0.02)
    before = about(sandbox, at)
    sandbox.sh("for f in a b c d/a; do echo new > $f; done; rm -r p; mv d x")
    assert not differences(before, about(sandbox, at))
    sandbox.shfs("reindex")
    assert not differences(before, about(sandbox, at))


# --- many ---


@pytest.mark.long
@pytest.mark.either
@pytest.mark.timeout(900)
def test_memory(sandbox):
    """A million versions, all of which the kernel was told of."""
    generator = os.path.join(os.environ["SHFS_TEST_BUILD"], "bench/gen-journal")
    with open(generator, "rb") as program:
        if b"__asan_init" in program.read():
            pytest.skip("a sanitizer takes several times the memory")
    sandbox.run(generator, sandbox.store, "--commands", "100000", "--files", "400000", "--accesses", "6000000", timeout=300)
    sandbox.shfs("sync", timeout=300)
    versions = select(sandbox, "SELECT count(*) FROM v_version")[0][0]
    assert versions > 1000000
    root = select(sandbox, "SELECT root FROM v_producer LIMIT 1")[0][0]
    where = sandbox.mkdir(f"{sandbox.home}/past")
    there = Browse(sandbox, where, root)
    found = sandbox.run("find", f"{where}/versions", "-type", "f", "-printf", "%s\n", timeout=600).stdout.count("\n")
    assert found > 1000000
    for pid in there.pids():
        status = open(f"/proc/{pid}/status", encoding="ascii").read()
        peak = int(re.search(r"VmHWM:\s+(\d+)", status)[1])
        print(f"{found} versions: {peak} KiB")
        assert peak < 200 << 10, status
