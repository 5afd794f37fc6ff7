# SPDX-License-Identifier: MIT
"""What goes wrong around a mount: a full disk below, an ingest that stands still, mounts in mounts,
clocks that are set, machines that sleep."""

import contextlib
import json
import mmap
import os
import random
import signal
import sqlite3
import subprocess
import threading
import time

import pytest

import harness
from harness import wait_until
from test_attribution_matrix import versions as makers_of
from test_capture import contents, rows
from test_mount_cli import pids_of
from twins import PRELUDE, compare, python

LONG = "SHFS_TEST_LONG" in os.environ

# --- no room in the project ---

# Until nothing more fits, by every call that takes room; what each of them returned.
FULL = r"""
block = b"x" * 65536
fd = os.open("big", os.O_RDWR | os.O_CREAT)
while isinstance(n := attempt(os.write, fd, block), int) and n: say("write", n)
say(n, attempt(os.pwrite, fd, b"y", 0), attempt(os.pwrite, fd, block, 1 << 30), attempt(os.write, fd, block))
say(attempt(os.posix_fallocate, fd, 1 << 29, 1 << 20), attempt(os.fsync, fd), attempt(os.ftruncate, fd, 1 << 31))
child = os.fork()
if not child:
    m = mmap.mmap(fd, 1 << 20, offset=1 << 30)
    for n in range(0, 1 << 20, 4096): m[n] = 1
    os._exit(isinstance(attempt(m.flush), str))
say("mapped", os.waitpid(child, 0)[1] != 0)  # by a signal, or when it is synced
say(attempt(os.copy_file_range, fd, fd, 65536, 0, 1 << 27), attempt(os.ftruncate, fd, 1 << 20), attempt(os.close, fd))
made = 0
while not isinstance(n := attempt(os.mkdir, "d%d" % made), str) and made < 1000: made += 1
say("mkdir", made, n, attempt(os.mkdir, "one more"), attempt(os.symlink, "x" * 1000, "s"), attempt(os.mknod, "p"))
say(attempt(write, "new", b"x"), attempt(os.link, "big", "l"), attempt(os.rename, "big", "big2"))
say(attempt(os.setxattr, "big2", "user.x", b"x" * 3000), sorted(os.listdir("."))[:9])
for n in range(made): os.rmdir("d%d" % n)
for name in "big", "big2": attempt(os.truncate, name, 0)
os.sync()
say(attempt(write, "new", b"new"), attempt(read, "new"), attempt(write, "more", block), attempt(os.mkdir, "dir"))
"""


@pytest.mark.transports
@pytest.mark.users(*["root", "ordinary"] if LONG else ["ordinary"])
@pytest.mark.parametrize("kind", ["tmpfs", "ext4", "btrfs"])
def test_full_project(sandbox, kind):
    """Each call fails as it does without a mount; and nothing is archived that is not there."""
    plain, project = f"{sandbox.path}/disk/plain", f"{sandbox.path}/disk/project"
    with small_disk(sandbox, kind, plain, project):
        expected = python(sandbox, FULL, cwd=plain)
        assert (b"EDQUOT" if kind == "btrfs" else b"ENOSPC") in expected
        sandbox.sh("rm -r *", cwd=plain)
        mount = sandbox.mount(project)
        compare(expected, python(sandbox, FULL, cwd=project))
        assert mount.status()["lost"] == "0"
        if kind != "btrfs":  # where nothing is given back at once
            assert contents(sandbox, f"{project}/new")[-1] == b"new"
        mount.unmount()


@contextlib.contextmanager
def small_disk(sandbox, kind, *directories):
    """A file system of 1 to 4 MiB, or with a quota of as much for each directory."""
    options = {"ext4": [4, "-N", "64", "-m", "0", "-O", "^has_journal"], "btrfs": [200], "tmpfs": [1]}[kind]
    with harness.disk(sandbox, *options, kind=kind) as where:
        for directory in directories:
            if kind != "btrfs":
                sandbox.mkdir(directory)
                continue
            for line in ("quota", "enable", where), ("subvolume", "create", directory), ("qgroup", "limit", "1M", directory):
                subprocess.run(["btrfs", *line], check=True, stdout=subprocess.DEVNULL)
            sandbox.user.own(directory)
        yield


# --- who takes the journal into the index ---


# Twice: each of so many writes takes how long?
TIMED = r"""
def timed(call, *args):
    begin = time.monotonic()
    call(*args)
    return time.monotonic() - begin
took, end, i = [], time.monotonic() + SECONDS, FIRST
while time.monotonic() < end or i < FIRST + 200:
    took += [timed(write, "f", b"%d" % i), timed(write, "g%d" % i, b"%d" % i)]; i += 1
    time.sleep(PAUSE)
took.sort()
say(i, took[len(took) * 99 // 100], took[-1])
"""


def timed(sandbox, first, seconds):
    """(The next number, 99 of 100 within so many seconds, the longest.)"""
    script = TIMED.replace("SECONDS", str(seconds)).replace("FIRST", str(first)).replace("PAUSE", "0.002" if seconds else "0")
    n, most, longest = python(sandbox, script, timeout=20 + 2 * seconds).split()
    return int(n), float(most), float(longest)


@pytest.mark.users("ordinary")
@pytest.mark.timeout(420 if LONG else 60)
@pytest.mark.parametrize("how", ["stopped", "locked"])
def test_nobody_waits_for_the_index(sandbox, shfs, project, how):
    """The ingest in the background stands still, or another has the index: work goes on as before, all is recorded."""
    seconds = 60 if LONG else 0
    sandbox.allow_log("the index is not up to date: Device or resource busy")
    shfs("mount", project, cwd="/")
    sandbox.write("f", b"0")
    shfs("log", "f")
    [follower] = wait_until(lambda: pids_of(sandbox, "ingest"), "the follower")
    first, before, longest_before = timed(sandbox, 1, seconds)
    holder = sqlite3.connect(f"{sandbox.store}/index.db", isolation_level=None, timeout=60)
    if how == "stopped":
        os.kill(follower, signal.SIGSTOP)
    else:
        holder.execute("BEGIN EXCLUSIVE")
    try:
        n, now, longest = timed(sandbox, first, seconds)
        sandbox.run("getfattr", "-n", "user.shfs.sync", project, cwd="/", timeout=20)
        status = sandbox.run("getfattr", "--only-values", "-n", "user.shfs.status", project, cwd="/").stdout
        assert "\nlost=0\nqueued=0\n" in status and "\nerror=0\n" in status
    finally:
        os.kill(follower, signal.SIGCONT)
        holder.close()
    print(f"{how}: {n - first} times two files, 99 % within {now * 1000:.2f} ms and all within {longest * 1000:.2f}; "
          f"before {before * 1000:.2f} and {longest_before * 1000:.2f}")
    assert now < 2 * before + 0.05 and longest < longest_before + 1
    assert contents(sandbox, "f") == [b"%d" % i for i in range(n)]
    assert contents(sandbox, f"g{n - 1}") == [b"%d" % (n - 1)]
    shfs("umount", project, cwd="/")
    wait_until(lambda: not pids_of(sandbox, "ingest"), "the follower to end", 60)


# --- mounts in mounts ---


@pytest.mark.users("root")  # others have no way to a directory in a mount of theirs
def test_mount_in_a_mount(sandbox):
    """Nobody waits for himself, and nothing is lost; the outer one sees what the inner one writes, too."""
    sandbox.allow_log("names and attributes are cached for a second")
    outer, inside = sandbox.mount(), f"{sandbox.project}/inside"
    sandbox.sh("mkdir inside; echo 0 > inside/f")
    inner = sandbox.mount(inside)
    sandbox.sh("echo 1 > inside/f; echo 2 > g; mv g inside/g; cat inside/f > h; ls -R > /dev/null; git init -q", timeout=10)
    inner.unmount()
    sandbox.sh("echo 3 > inside/f; cat inside/g")
    for _ in range(2):
        for name, held in ("inside/f", [b"0\n", b"1\n", b"3\n"]), ("inside/g", [b"2\n"]), ("h", [b"1\n"]):
            assert set(contents(sandbox, name)) == set(held)
        assert "shfs-fuse" not in sandbox.shfs("select", "SELECT * FROM v_access JOIN v_process USING (process_id)").stdout
        sandbox.shfs("reindex")
    outer.unmount()


def test_mount_around_a_mount(sandbox, shell):
    """What goes through both is of who did it, and not of the server between them."""
    sandbox.sh("mkdir inside; printf 'b\\na\\n' > inside/in")
    inner, outer = sandbox.mount(f"{sandbox.project}/inside"), sandbox.mount()
    bash = shell()
    bash.run("sort inside/in > inside/out")
    bash.run("mv inside/out inside/there; rm inside/in")
    for _ in range(2):
        shown = sandbox.shfs("log", "inside/there").stdout
        assert "sort inside/in > inside/out" in shown and "shfs-fuse" not in shown
        assert contents(sandbox, "inside/there") == [b"a\nb\n"]
        assert "rm inside/in" in sandbox.shfs("log", "inside/in").stdout
        assert "shfs-fuse" not in sandbox.shfs("select", "SELECT * FROM v_access JOIN v_process USING (process_id)").stdout
        sandbox.shfs("reindex")
    bash.close()
    outer.unmount()
    bash = shell()
    bash.run("echo 1 > inside/alone")
    assert "echo 1 > inside/alone" in sandbox.shfs("log", "inside/alone").stdout
    bash.close()
    inner.unmount()


def test_mount_around_a_mount_with_another_store(sandbox):
    """Each store has what happens in its project, whoever passes it on."""
    sandbox.sh("mkdir inside")
    inner, store = sandbox.mount(f"{sandbox.project}/inside"), sandbox.store
    sandbox.store = f"{sandbox.home}/other-store"
    outer = sandbox.mount()
    sandbox.sh("echo 1 > inside/f")
    assert contents(sandbox, "inside/f") == [b"1\n"]
    outer.unmount()
    sandbox.store = store
    assert contents(sandbox, "inside/f") == [b"1\n"]
    inner.unmount()


# --- the clock is set ---

# Real time as a test wants it: so many seconds off, in a file that it maps, too.
CLOCK = r"""
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static const volatile long *offset;
__attribute__((constructor)) static void begin(void)
{
	int fd = open(getenv("CLOCK_OFFSET"), O_RDONLY | O_CLOEXEC);
	void *p = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
	if (p != MAP_FAILED)
		offset = p;
	close(fd);
}
int clock_gettime(clockid_t id, struct timespec *t)
{
	int r = syscall(SYS_clock_gettime, id, t);
	if (!r && offset && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
		t->tv_sec += *offset;
	return r;
}
int gettimeofday(struct timeval *t, void *zone)
{
	struct timespec now;
	int r = clock_gettime(CLOCK_REALTIME, &now);
	t->tv_sec = now.tv_sec;
	t->tv_usec = now.tv_nsec / 1000;
	return r;
}
time_t time(time_t *t)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	return t ? *t = now.tv_sec : now.tv_sec;
}
"""
YEARS = 365 * 86400


@pytest.fixture
def clock(sandbox):
    """clock[0] = how many seconds off it is, for all that is started then."""
    path = sandbox.write_outside(f"{sandbox.path}/clock", bytes(4096), 0o644)
    sandbox.env["LD_PRELOAD"] = sandbox.compile("clock.so", CLOCK, "-shared", "-fPIC")
    sandbox.env["CLOCK_OFFSET"] = path
    sandbox.env["ASAN_OPTIONS"] += ":verify_asan_link_order=0"
    with open(path, "r+b") as file:
        yield memoryview(mmap.mmap(file.fileno(), 4096)).cast("q")


@pytest.mark.parametrize("kind", ["bash", "zsh"] if LONG else ["bash"])
@pytest.mark.users("ordinary")
def test_the_clock_is_set(clock, sandbox, shfs, mount, shell, kind):
    """Forward, back, to 1970, while commands run: versions stay in their order, each is its command's."""
    mount()
    terminal, lines, now = shell(kind), [], int(time.time())
    for n, jump in enumerate([0, 10 * YEARS, -10 * YEARS, -now, 1, -1, -3600, 68 * YEARS, 0]):
        clock[0] = jump
        lines.append(f"echo {n} > f; cat f > g{n}")
        terminal.run(lines[-1])
    terminal.run(":")
    expected = [b"%d\n" % n for n in range(len(lines))]
    for again in range(2):
        assert contents(sandbox, "f") == expected and makers_of(shfs, "f") == lines
        for n, line in enumerate(lines):
            assert contents(sandbox, f"g{n}") == [expected[n]] and makers_of(shfs, f"g{n}") == [line]
        texts = [c.get("text") for c in json.loads(shfs("history", "--json", "--all").stdout)["commands"]]
        assert set(lines) <= set(texts)
        if not again:
            shfs("reindex")
    for n in 0, 3, 5:
        shfs("restore", f"f@{n + 1}")
        assert sandbox.read("f") == expected[n]


@pytest.mark.users("ordinary")
def test_the_clock_is_set_all_the_time(clock, sandbox, shfs, mount):
    mount()
    done = threading.Event()

    def turn():
        while not done.wait(0.0005):
            clock[0] = random.randrange(-50 * YEARS, 50 * YEARS)

    turner = threading.Thread(target=turn)
    turner.start()
    try:
        python(sandbox, "for i in range(1000): write('f', b'%d' % i)", timeout=60)
    finally:
        done.set()
        turner.join()
    assert contents(sandbox, "f") == [b"%d" % i for i in range(1000)]
    shfs("reindex")
    assert contents(sandbox, "f") == [b"%d" % i for i in range(1000)]


# --- the machine sleeps ---


@pytest.fixture
def freezer(sandbox):
    """freezer(pids, True or False)."""
    top = f"{sandbox.path}/freezer"
    os.mkdir(top)
    argv = ["mount", "-t", "cgroup", "-o", "freezer", "freezer", top]
    if os.geteuid() != 0 or subprocess.run(argv, check=False, stderr=subprocess.DEVNULL).returncode:
        pytest.skip("no freezer")
    group = f"{top}/shfs-{os.getpid()}"
    os.mkdir(group)

    def freeze(state):
        with open(f"{group}/freezer.state", "w", encoding="ascii") as file:
            file.write(state)
        wait_until(lambda: open(f"{group}/freezer.state", encoding="ascii").read().strip() == state, state)

    def add(pid):
        with open(f"{group}/cgroup.procs", "w", encoding="ascii") as file:
            file.write(str(pid))

    freeze.add = add
    yield freeze
    freeze("THAWED")
    for pid in open(f"{group}/cgroup.procs", encoding="ascii").read().split():
        with open(f"{top}/cgroup.procs", "w", encoding="ascii") as file:
            file.write(pid)
    os.rmdir(group)
    subprocess.run(["umount", top], check=True)


@pytest.mark.transports
@pytest.mark.users("ordinary")
def test_frozen(freezer, sandbox, mount):
    """The daemon alone, for a while: who works waits, nothing fails, nothing is lost, times go on."""
    seconds = 60 if LONG else 1
    mounted = mount()
    freezer.add(mounted.process.pid)
    script = "n = 0\nwhile not os.path.exists('stop'): write('f', b'%d' % n); n += 1; time.sleep(0.002)\nsay(n)"
    sandbox.write_outside(f"{sandbox.path}/prelude.py", PRELUDE)
    writer = sandbox.popen(["/usr/bin/python3", "-c", f"from prelude import *\n{script}"],
                           env={"PYTHONPATH": sandbox.path}, stdout=subprocess.PIPE)
    time.sleep(0.3)
    for _ in range(2):
        freezer("FROZEN")
        time.sleep(seconds)
        freezer("THAWED")
        time.sleep(0.2)
    sandbox.write("stop", b"")
    n = int(writer.communicate(timeout=20 * harness.PATIENCE)[0])
    assert writer.returncode == 0
    assert contents(sandbox, "f") == [b"%d" % i for i in range(n)]
    assert mounted.status()["lost"] == "0"
    path = f"{sandbox.project}/f"
    times = [t for (t,) in rows(sandbox, f"SELECT time_ns FROM v_version WHERE path = '{path}' ORDER BY n")]
    assert times == sorted(times)
