# SPDX-License-Identifier: MIT
"""The process of a mount killed at any moment, where its guardian takes the mount over: programs see
a pause and no error, and what they did is there. SHFS_KILLS: how often (`SHFS_KILLS=1000`, once by hand)."""

import json
import os
import random
import re
import signal
import subprocess
import time
from types import SimpleNamespace

import pytest

from harness import wait_until
from test_capture import contents
from test_daemon import come_again, is_taken_over, kill_daemon, start_python, told_by
from test_mount_calls import tampered
from test_mount_cli import is_mounted, pids_of, status_of
from twins import PRELUDE

KILLS = int(os.environ.get("SHFS_KILLS", "5"))
AT_ONCE = 5  # as many in a minute are borne
LONG = "SHFS_KILLS" in os.environ


@pytest.fixture
def taken(sandbox, shfs, project):
    sandbox.env["SHFS_TRANSPORT"] = "dev"
    sandbox.allow_exit(-signal.SIGKILL)
    sandbox.allow_log("ended")
    shfs("mount", project, cwd="/")
    if not is_taken_over(told_by(sandbox, project)):
        shfs("umount", project, cwd="/")
        pytest.skip("Linux 6.16")
    yield project
    if is_mounted(project):
        shfs("umount", project, cwd="/")
    wait_until(lambda: not pids_of(sandbox, "shfs-fuse"), "the daemon and its guardian to end")


# Does the same in its own directory of the mount and in one outside; any error ends it.
LOAD = r"""
import random, shutil, stat
me, shadow, end = sys.argv[1], sys.argv[2], sys.argv[3]
rnd = random.Random(me)
os.mkdir(me); os.mkdir(shadow)
both = [os.path.abspath(me), shadow]
os.chdir(me)
n, files, dirs = 0, [], ["."]
kept = [[os.open(top + "/kept", os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644) for top in both],
        [os.open(top + "/random", os.O_RDWR | os.O_CREAT, 0o644) for top in both]]

def twice(call):
    # the first by a relative name: the working directory is in the mount
    results = [call("."), call(shadow)]
    assert results[0] == results[1], results
    return results[0]

def make(top, name, data, flags):
    fd = os.open(top + "/" + name, os.O_WRONLY | os.O_CREAT | flags, 0o644)
    try: assert os.write(fd, data) == len(data)
    finally: os.close(fd)

def get(top, name):
    with open(top + "/" + name, "rb") as data: return data.read()

while not os.path.exists(end):
    n += 1
    time.sleep(0.001)
    kind, data = rnd.randrange(14), b"%s %d\n" % (me.encode(), n)
    name = rnd.choice(dirs) + "/%s%d" % (me, n)
    if kind <= 1:
        for fd in kept[0]: assert os.write(fd, data) == len(data)
    elif kind == 2:
        at, data = rnd.randrange(100000), data * rnd.randrange(1, 2000)
        for fd in kept[1]: assert os.pwrite(fd, data, at) == len(data)
    elif kind <= 4:
        twice(lambda top: make(top, name, data, os.O_EXCL)); files.append(name)
    elif kind == 5 and len(dirs) < 20:
        twice(lambda top: os.mkdir(top + "/" + name)); dirs.append(name)
    elif kind == 6 and files:
        old = files.pop(rnd.randrange(len(files)))
        twice(lambda top: os.rename(top + "/" + old, top + "/" + name)); files.append(name)
    elif kind == 7 and len(files) > 5:
        old = files.pop(rnd.randrange(len(files)))
        twice(lambda top: os.unlink(top + "/" + old))
    elif kind == 8 and files:
        # not opened any more: of several names, one is told to look again as it is
        old = files.pop(rnd.randrange(len(files)))
        twice(lambda top: os.link(top + "/" + old, top + "/" + name))
        if n % 3: twice(lambda top: os.unlink(top + "/" + old))
    elif kind == 9 and files:
        old = rnd.choice(files)
        twice(lambda top: make(top, old, data, os.O_TRUNC if n % 2 else os.O_APPEND))
    elif kind == 10 and files:
        old = rnd.choice(files)
        twice(lambda top: get(top, old))
        twice(lambda top: (lambda s: (s.st_size, s.st_mode, s.st_nlink))(os.stat(top + "/" + old)))
    elif kind == 11:
        at = rnd.choice(dirs)
        twice(lambda top: sorted(os.listdir(top + "/" + at)))
    elif kind == 12 and len(dirs) > 2:
        old = dirs[-1]  # nothing was made below the last one that could have another
        new = "./dir%d" % n
        twice(lambda top: os.rename(top + "/" + old, top + "/" + new))
        dirs[-1] = new
        files = [new + f[len(old):] if f.startswith(old + "/") else f for f in files]
    elif kind == 13:
        twice(lambda top: os.symlink("to %d" % n, top + "/" + name))
        twice(lambda top: os.readlink(top + "/" + name))
        if n % 3: twice(lambda top: os.unlink(top + "/" + name))
    for fds in kept:
        assert os.fstat(fds[0]).st_size == os.fstat(fds[1]).st_size
say(n)
"""


def tree(top):
    """Paths, kinds and contents of all that is below."""
    found = {}
    for path, dirs, files in os.walk(top):
        for name in dirs + files:
            at = os.path.join(path, name)
            if os.path.islink(at):
                found[at[len(top):]] = os.readlink(at)
            elif os.path.isdir(at):
                found[at[len(top):]] = None
            else:
                with open(at, "rb") as data:
                    found[at[len(top):]] = data.read()
    return found


def one_round(sandbox, shfs, project, turn, rnd, kills):
    """Kills under load. Each file that a sync has acknowledged must be found afterwards."""
    end = os.path.join(sandbox.path, f"tmp/end{turn}")
    names = [f"w{turn}.{i}" for i in range(3)]
    writers = [sandbox.popen(["/usr/bin/python3", "-B", "-c", PRELUDE + LOAD, name, f"{sandbox.path}/tmp/{name}", end],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE) for name in names]
    synced = []
    for i in range(kills):
        sandbox.write(f"synced{turn}.{i}", b"%d %d" % (turn, i))
        shfs("sync")
        synced.append(i)
        time.sleep(rnd.random() * 0.3)
        kill_daemon(sandbox, project)
        alive = [w for w in writers if w.poll() is None]
        assert len(alive) == len(writers), [w.communicate() for w in writers if w not in alive]
    time.sleep(rnd.random() * 0.2)
    with open(end, "w", encoding="ascii"):
        pass
    for writer in writers:
        out, err = writer.communicate(timeout=60)
        assert writer.returncode == 0, (out, err.decode())
    for name in names:
        sandbox.sh(f"cp -a {name} {sandbox.path}/tmp/copy-{name}")
        assert tree(f"{sandbox.path}/tmp/copy-{name}") == tree(f"{sandbox.path}/tmp/{name}")
    for i in synced:
        assert contents(sandbox, f"synced{turn}.{i}")[-1] == b"%d %d" % (turn, i)
    assert told_by(sandbox, project)["restarts"] == str(kills)


@pytest.mark.timeout(120 + KILLS * 20)
def test_killed_under_load(sandbox, shfs, taken):
    seed = int(os.environ.get("SHFS_SEED", "0")) or random.randrange(1 << 30)
    print("SHFS_SEED", seed)
    rnd = random.Random(seed)
    for turn, left in enumerate(range(KILLS, 0, -AT_ONCE)):
        one_round(sandbox, shfs, taken, turn, rnd, min(left, AT_ONCE))
        shfs("umount", taken, cwd="/")
        wait_until(lambda: not pids_of(sandbox, "shfs-fuse"), "the daemon and its guardian to end")
        shfs("mount", taken, cwd="/")
        if turn % 10 == 9:
            sandbox.run("sh", "-c", "rm -rf w*")


# --- what is open ---

OPEN = r"""
def step(): say("ready"); assert sys.stdin.readline()
write("appended", b"1 "); write("kept", b"one two three"); write("gone", b"of one that has gone")
write("locked", b""); write("mapped", bytes(4096)); write("mode", b"may be read by who has it open")
os.mkdir("d"); os.mkdir("gone.d"); os.chdir("gone.d"); os.rmdir("../gone.d"); os.chdir("../d")
for i in range(2000): write("f%d" % i, b"")
appended = os.open("../appended", os.O_WRONLY | os.O_APPEND); os.write(appended, b"2 ")
kept = os.open("../kept", os.O_RDWR); assert os.read(kept, 4) == b"one "
gone = os.open("../gone", os.O_RDWR); os.unlink("../gone"); os.write(gone, b"OF ONE")
nameless = os.open("..", os.O_RDWR | os.O_TMPFILE); os.write(nameless, b"never named")
locked = os.open("../locked", os.O_RDWR); fcntl.flock(locked, fcntl.LOCK_EX); fcntl.lockf(locked, fcntl.LOCK_EX)
mapped = os.open("../mapped", os.O_RDWR); m = mmap.mmap(mapped, 4096); m[0:2] = b"ab"
mode = os.open("../mode", os.O_RDWR); os.chmod("../mode", 0)
new = os.open("../new", os.O_WRONLY | os.O_CREAT | os.O_EXCL); os.write(new, b"before ")
moved = os.open("../kept", os.O_RDONLY); os.rename("../kept", "../renamed")
entries = os.scandir("."); seen = {next(entries).name for i in range(700)}
for kill in range(2):
    step()
    assert os.path.basename(os.getcwd()) == "d" and os.fstat(gone).st_nlink == 0
    assert os.write(appended, b"3 ") == 2 and os.pread(kept, 20, 0) == b"one two three" == os.pread(moved, 20, 0)
    assert os.pread(gone, 30, 0) == b"OF ONE that has gone" and os.pread(nameless, 30, 0) == b"never named"
    os.pwrite(gone, b"that", 7); os.ftruncate(nameless, 11); os.fsync(gone); os.fchmod(gone, 0o600)
    assert m[0:3] == b"ab\0"; m[5:6] = b"z"; m.flush()
    assert os.pread(mode, 3, 0).lower() == b"may"; os.pwrite(mode, b"MAY", 0)
    other = os.open("../locked", os.O_RDWR)
    assert attempt(fcntl.flock, other, fcntl.LOCK_EX | fcntl.LOCK_NB) == "EAGAIN"
    assert os.write(new, b"after ") == 6
step()
assert os.read(kept, 20) == b"two three"
os.lseek(gone, 0, 0); assert os.read(gone, 30) == b"OF ONE that has gone"
assert call("linkat", -100, b"/proc/self/fd/%d" % nameless, -100, b"../named", 0x400) == 0
names = [e.name for e in entries]
assert len(names) == len(set(names)) and seen | set(names) == set(os.listdir(".")), len(names)
for fd in (appended, kept, gone, nameless, locked, mapped, mode, new, moved, other): os.close(fd)
say("done")
"""


def test_open_files_go_on(sandbox, shfs, taken):
    """Through two deaths: also those that have no name, or that could not be opened again."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    program = start_python(sandbox, OPEN, **pipes)
    for kill in range(3):
        assert program.stdout.readline() == b"ready\n", program.communicate()
        if kill < 2:
            kill_daemon(sandbox, taken)
        program.stdin.write(b"\n")
        program.stdin.flush()
    out, err = program.communicate(timeout=30)
    assert out == b"done\n", err.decode()
    shfs("sync")
    assert sandbox.read("appended") == contents(sandbox, "appended")[-1] == b"1 2 3 3 "
    assert sandbox.read("new") == contents(sandbox, "new")[-1] == b"before after after "
    assert sandbox.read("renamed") == b"one two three" and sandbox.read("named") == b"never named"
    assert sandbox.read("mapped") == contents(sandbox, "mapped")[-1] == b"ab\0\0\0z" + bytes(4090)
    assert contents(sandbox, "mode")[-1] == b"MAY be read by who has it open"
    entry, _ = status_of(shfs, taken)
    assert entry["restarts"] == 2
    gaps = json.loads(shfs("history", "--json", taken, cwd="/").stdout)["gaps"]
    assert len(gaps) == 2 and all(gap["begin"] < gap["end"] for gap in gaps)


def test_what_is_being_written_is_no_version(sandbox, taken):
    script = """
fd = os.open("f", os.O_WRONLY | os.O_CREAT); os.write(fd, b"half"); say(1); assert sys.stdin.readline()
os.write(fd, b" and whole"); os.close(fd)
"""
    program = start_python(sandbox, script, cwd=taken, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert program.stdout.readline() == b"1\n"
    kill_daemon(sandbox, taken)
    program.communicate(b"\n", timeout=30)
    assert contents(sandbox, "f") == [b"half and whole"]


# --- requests that were under way ---

STATE = r"""
write("a", b"a"); write("b", b"bb"); os.mkdir("empty"); write("log", b"line\n")
os.setxattr("a", "user.old", b"x"); log = os.open("log", os.O_WRONLY | os.O_APPEND)
"""

CALLS = {
    "mkdirat": "os.mkdir('x')",
    "symlinkat": "os.symlink('t', 'x')",
    "mknodat": "os.mkfifo('x')",
    "linkat": "os.link('a', 'x')",
    "openat": "os.close(os.open('x', os.O_CREAT | os.O_EXCL | os.O_WRONLY))",
    "unlinkat": "os.unlink('a')",
    "unlinkat ": "os.rmdir('empty')",
    "renameat": "os.rename('a', 'x')",
    "renameat ": "os.rename('a', 'b')",
    "renameat2": "assert renameat2('a', 'b', 2) == 0",
    "pwritev2": "assert os.write(log, b'line\\n') == 5",
    "ftruncate": "os.truncate('b', 1)",
    "setxattr": "os.setxattr('a', 'user.new', b'x', os.XATTR_CREATE)",
    "removexattr": "os.removexattr('a', 'user.old')",
    "fchmodat": "os.chmod('a', 0o600)",
}

LIST = r"""
for n in sorted(os.listdir(".")):
    s = os.lstat(n)
    say(n, oct(s.st_mode), s.st_nlink, not stat.S_ISDIR(s.st_mode) and s.st_size, stat.S_ISREG(s.st_mode) and (read(n), os.listxattr(n)))
"""


def killed_at(sandbox, taken, here, state, call, code, when):
    """Runs code here, and kills the mount just after, or before, this system call of it."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    program = start_python(sandbox, state + "say(1); assert sys.stdin.readline()\n" + code + "\nsay('done')", cwd=here, **pipes)
    assert program.stdout.readline() == b"1\n"
    pid = int(told_by(sandbox, taken)["pid"])
    mount = SimpleNamespace(process=SimpleNamespace(pid=pid), directory=here)
    with tampered(mount, call, f"{when}=20s"):
        program.stdin.write(b"\n")
        program.stdin.flush()
        time.sleep(0.3)
        assert program.poll() is None, (call, program.communicate())
        with open(f"/proc/{pid}/status", encoding="ascii") as status:
            tracer = int(re.search(r"TracerPid:\s(\d+)", status.read())[1])
        os.kill(pid, signal.SIGKILL)
        os.kill(tracer, signal.SIGKILL)  # it would keep a thread from dying
    come_again(sandbox, taken, pid)
    out, err = program.communicate(timeout=30)
    assert out == b"done\n", (call, err.decode())


@pytest.mark.users("root")
@pytest.mark.timeout(240)
@pytest.mark.parametrize("when", ["delay_exit", "delay_enter"])
def test_each_is_carried_out_once(sandbox, shfs, taken, when):
    """Killed just after, or before, the system call beneath that does what a request asks for."""
    calls = list(CALLS)[:: 1 if LONG or when == "delay_exit" else 3]
    for i, call in enumerate(calls):
        if i and i % AT_ONCE == 0:
            shfs("umount", taken, cwd="/")
            wait_until(lambda: not pids_of(sandbox, "shfs-fuse"), "the daemon and its guardian to end")
            shfs("mount", taken, cwd="/")
        here, there = sandbox.mkdir(f"{taken}/{i}"), sandbox.mkdir(f"{sandbox.path}/tmp/{i}")
        start_python(sandbox, STATE + CALLS[call], cwd=there).wait()
        killed_at(sandbox, taken, here, STATE, call.strip(), CALLS[call], when)
        listed = [start_python(sandbox, LIST, cwd=at, stdout=subprocess.PIPE).communicate()[0] for at in (here, there)]
        assert listed[0] == listed[1], call


@pytest.mark.users("ordinary")
@pytest.mark.parametrize("when", ["delay_exit", "delay_enter"])
def test_made_to_be_read_only(sandbox, taken, when):
    """As git makes its objects: who takes over could not open it to write."""
    code = "fd = os.open('x', os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o444); assert os.write(fd, b'x') == 1"
    killed_at(sandbox, taken, taken, "", "openat", code, when)
    assert sandbox.sh("stat -c '%a %s' x").stdout == "444 1\n"
    assert contents(sandbox, "x")[-1] == b"x"


@pytest.mark.users("ordinary")
@pytest.mark.parametrize("when", ["delay_exit", "delay_enter"])
def test_an_append_to_what_may_not_be_read(sandbox, taken, when):
    state = 'write("log", b"1 "); os.chmod("log", 0o200); log = os.open("log", os.O_WRONLY | os.O_APPEND)\n'
    killed_at(sandbox, taken, taken, state, "pwritev2", "assert os.write(log, b'2 ') == 2", when)
    sandbox.sh("chmod 600 log")
    assert sandbox.read("log") == b"1 2 "
