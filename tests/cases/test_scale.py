# SPDX-License-Identifier: MIT
"""Many files, many of them in one directory, many threads at once: without an error, without a loss,
in bounded memory. `./dev bench scale` does the same with a million."""

import os
import platform
import re
import signal

import pytest

import harness
from harness import wait_until
from test_capture import contents, rows, versions
from test_daemon import memory
from test_mount import limited_mount
from twins import python

LIMIT = 2000

# Opens a file of its own, or all the same one, in each of N threads, all at once; writes, closes,
# and reads again what it wrote.
THREADS = r"""
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <pthread.h>

static int n, same, errors;
static pthread_barrier_t barrier;

static void check(int ok, const char *what)
{
	if (!ok && __sync_fetch_and_add(&errors, 1) < 5)
		perror(what);
}

static void *work(void *arg)
{
	long i = (long)arg, at = same ? 16 * i : 0;
	char name[32], text[32], back[32] = "";
	int fd;

	sprintf(name, same ? "one" : "t%ld", i);
	sprintf(text, "%015ld\n", i);
	pthread_barrier_wait(&barrier);
	fd = open(name, O_WRONLY | O_CREAT, 0644);
	check(fd >= 0, "open");
	pthread_barrier_wait(&barrier);
	check(pwrite(fd, text, 16, at) == 16, "write");
	check(!close(fd), "close");
	pthread_barrier_wait(&barrier);
	fd = open(name, O_RDONLY);
	check(fd >= 0, "open again");
	check(pread(fd, back, 16, at) == 16 && !strcmp(text, back), "read");
	check(!close(fd), "close again");
	return NULL;
}

int main(int argc, char **argv)
{
	struct rlimit limit;
	pthread_attr_t attr;
	pthread_t *threads;

	n = atoi(argv[1]);
	same = argc > 2;
	threads = calloc(n, sizeof(*threads));
	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	pthread_barrier_init(&barrier, NULL, n);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 65536);
	for (long i = 0; i < n; i++)
		if ((errno = pthread_create(&threads[i], &attr, work, (void *)i)))
			return perror("thread"), 2;
	for (int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	return errors != 0;
}
"""


def can_forget():
    """May the kernel be asked to forget nodes?"""
    release = re.match(r"(\d+)\.(\d+)", platform.release())
    return (int(release[1]), int(release[2])) >= (6, 18)


@pytest.fixture
def small(sandbox):
    """A mount that keeps few nodes."""
    if not can_forget():
        pytest.skip("needs Linux 6.18: FUSE_NOTIFY_PRUNE")
    sandbox.env["ASAN_OPTIONS"] += ":quarantine_size_mb=1:malloc_context_size=2"
    config = sandbox.write_outside(f"{sandbox.home}/few.ini", f"[mount]\nknown-files = {LIMIT}\n")

    def mount():
        return sandbox.mount(sandbox.project, "--config", config)

    return mount


def nodes(mount):
    return int(mount.status()["nodes"])


def all_recorded(mount):
    wait_until(lambda: mount.status()["queued"] == "0", "all to be recorded", 60)
    assert mount.status()["lost"] == "0"


def fill(project, directories, files):
    """Files that were there before the mount; a byte each."""
    for d in range(directories):
        os.mkdir(f"{project}/d{d}")
        os.chmod(f"{project}/d{d}", 0o777)
        for i in range(files):
            os.close(os.open(f"{project}/d{d}/{i}", os.O_WRONLY | os.O_CREAT, 0o644))


@pytest.mark.users("ordinary")
@pytest.mark.timeout(120)
def test_memory_does_not_grow_with_the_tree(sandbox, small, project):
    fill(project, 120, 500)
    mount = small()
    walk = "find {} -printf '%s\n' | wc -l"
    assert sandbox.sh(walk.format("d[0-9]"), timeout=60).stdout.strip() == str(10 * 501)
    wait_until(lambda: nodes(mount) <= LIMIT, "the kernel to forget", 20)
    before = memory(mount.process.pid)
    assert sandbox.sh(walk.format("d*"), timeout=60).stdout.strip() == str(120 * 501)
    assert nodes(mount) < 10 * LIMIT, "it is asked while the walk goes on"
    wait_until(lambda: nodes(mount) <= LIMIT, "the kernel to forget", 20)
    assert memory(mount.process.pid) - before < 12000, "KiB for 55,000 more files"
    assert len(os.listdir(f"/proc/{mount.process.pid}/fd")) < 1000


@pytest.mark.users("ordinary")
@pytest.mark.timeout(120)
def test_what_is_in_use_is_not_forgotten(sandbox, small, project):
    """Open files, descriptors that are mere paths, locks, watches and working directories, with many
    other files walked over in the meantime."""
    fill(project, 12, 500)
    mount = small()
    python(sandbox, r"""
os.makedirs("use/deep/er")
for name in "open", "path", "lock", "watched", "mapped":
    write("use/" + name, b"old " * 1024)
opened = os.open("use/open", os.O_RDWR)
path = os.open("use/path", os.O_PATH)
lock = os.open("use/lock", os.O_RDWR); fcntl.flock(lock, fcntl.LOCK_EX)
fd = os.open("use/mapped", os.O_RDWR); mapped = mmap.mmap(fd, 4096); os.close(fd)
watches = libc.inotify_init1(os.O_NONBLOCK)
assert libc.inotify_add_watch(watches, b"use/watched", 2) > 0
top = os.getcwd()
os.chdir("use/deep/er")
for n in range(3):
    for d in range(12):
        for i in os.listdir(f"{top}/d{d}"):
            os.stat(f"{top}/d{d}/{i}")
    time.sleep(0.3)
assert os.getcwd() == top + "/use/deep/er" == os.readlink("/proc/self/cwd")
write("here", b"x"); assert os.path.exists(top + "/use/deep/er/here")
for fd, name in (opened, "open"), (path, "path"), (lock, "lock"):
    assert os.readlink(f"/proc/self/fd/{fd}") == f"{top}/use/{name}"
    assert os.path.samestat(os.fstat(fd), os.stat(f"{top}/use/{name}"))
assert os.pread(opened, 4, 0) == b"old "
os.pwrite(opened, b"new!", 0); assert read(top + "/use/open")[:4] == b"new!"
assert read(f"/proc/self/fd/{path}")[:4] == b"old "
other = os.open(top + "/use/lock", os.O_RDWR)
assert attempt(fcntl.flock, other, fcntl.LOCK_EX | fcntl.LOCK_NB) == "EAGAIN"
mapped[0:4] = b"map!"; mapped.flush(); assert read(top + "/use/mapped")[:4] == b"map!"
write(top + "/use/watched", b"x", os.O_WRONLY)
assert len(os.read(watches, 4096)) >= 16
""", timeout=60)
    wait_until(lambda: nodes(mount) <= LIMIT, "the kernel to forget", 20)


@pytest.mark.users("ordinary")
@pytest.mark.timeout(120)
def test_versions_of_forgotten_files(sandbox, small):
    """A file that was forgotten between two changes has the same versions as any other."""
    mount = small()
    for n in range(3):
        python(sandbox, f"""
os.makedirs("d", exist_ok=True)
for i in range({LIMIT + 1000}): write("d/%d" % i, b"%d of %d" % ({n}, i), os.O_WRONLY | os.O_CREAT)
""", timeout=60)
        wait_until(lambda: nodes(mount) <= LIMIT, "the kernel to forget", 20)
    all_recorded(mount)
    assert rows(sandbox, "SELECT count(*), count(DISTINCT path) FROM v_version") == [(3 * (LIMIT + 1000), LIMIT + 1000)]
    for i in 0, 1500, LIMIT + 999:
        assert contents(sandbox, f"d/{i}") == [b"%d of %d" % (n, i) for n in range(3)]


@pytest.mark.users("ordinary")
@pytest.mark.timeout(180)
def test_a_directory_of_20000(sandbox):
    """Made, listed, renamed and removed; not a record of it is lost, however fast that goes."""
    mount = sandbox.mount()
    python(sandbox, """
n = 20000
os.mkdir("d"); os.chdir("d")
for i in range(n): os.close(os.open("%d" % i, os.O_WRONLY | os.O_CREAT))
assert sorted(os.listdir()) == sorted(str(i) for i in range(n))
assert all(e.stat().st_size == 0 for e in os.scandir())
for i in range(0, n, 10): os.rename("%d" % i, "r%d" % i)
names = os.listdir()
assert len(names) == len(set(names)) == n and sum(name[0] == "r" for name in names) == n // 10
for name in names: os.unlink(name)
assert os.listdir() == []
""", timeout=120)
    all_recorded(mount)
    wait_until(lambda: nodes(mount) < 100, "removed files to be forgotten", 20)


@pytest.mark.alone
@pytest.mark.users("ordinary")
@pytest.mark.timeout(120)
def test_a_thousand_threads(sandbox):
    program = sandbox.compile("threads", THREADS)
    mount = sandbox.mount()
    sandbox.run(program, "1000", timeout=60)
    sandbox.run(program, "1000", "same", timeout=60)
    assert sandbox.read("one") == b"".join(b"%015d\n" % i for i in range(1000))
    all_recorded(mount)
    assert contents(sandbox, "t777") == [b"%015d\n" % 777]
    assert len(versions(sandbox, "one")) >= 1


@pytest.mark.users("ordinary")
@pytest.mark.parametrize("descriptors", [128, 256])
def test_threads_with_few_descriptors(sandbox, descriptors):
    """A third of what the daemon may open is there for files that are open at once."""
    program = sandbox.compile("threads", THREADS)
    mount = limited_mount(sandbox, descriptors)
    for _ in range(3):
        sandbox.run(program, str(descriptors // 3), timeout=60)
    # more than that: an error for who opens, and nothing that stays
    sandbox.run(program, str(2 * descriptors), check=False, timeout=60)
    sandbox.run(program, str(descriptors // 3), timeout=60)
    all_recorded(mount)
    assert len(os.listdir(f"/proc/{mount.process.pid}/fd")) <= descriptors


@pytest.mark.users("ordinary")
def test_mounts_of_other_stores_are_not_asked(sandbox, shfs):
    """Not even one that hangs: a query is none the slower, and says nothing of it."""
    sandbox.allow_exit(-signal.SIGKILL)  # who asks the one that hangs, and is stuck as long
    sandbox.mount()
    other = sandbox.mkdir(f"{sandbox.home}/other")
    store, sandbox.store = sandbox.store, f"{sandbox.home}/other-store"
    hung = sandbox.mount(other)
    sandbox.store = store
    os.kill(hung.process.pid, signal.SIGSTOP)
    try:
        sandbox.sh("echo 1 > f")
        for args in ["log", "f"], ["status"], ["doctor"], ["sync"], ["mount"]:
            result = shfs(*args, check=False)
            assert "answer" not in result.stdout + result.stderr, result
        assert "does not answer" in shfs("--store", f"{sandbox.home}/other-store", "sync", check=1).stderr
        assert "other  records into another store" in shfs("mount").stdout
        # nor where there is no store yet
        assert "answer" not in shfs("--store", f"{sandbox.home}/no-store", "doctor").stdout
    finally:
        os.kill(hung.process.pid, signal.SIGCONT)
    assert harness.mounts_below(other) == [other]


@pytest.mark.users("ordinary")
@pytest.mark.backends(without=["fuse", "fanotify"])
def test_recordings_without_a_mount(sandbox, shfs):
    """status says which they are and why, of this store alone; one that hangs is told."""
    sandbox.allow_exit(-signal.SIGKILL)  # who asks the one that hangs
    sandbox.backend = "bpf"
    other = sandbox.mkdir(f"{sandbox.home}/other")
    store, sandbox.store = sandbox.store, f"{sandbox.home}/other-store"
    sandbox.mount(other)
    sandbox.store = store
    watch = sandbox.mount()
    assert shfs("status").stdout.count(" pid ") == 1
    assert "other  records into another store" in shfs("mount").stdout
    status = watch.status()
    assert status["backend"] == "bpf" or status["backend_reason"].startswith("bpf: the kernel does not take")
    os.kill(watch.process.pid, signal.SIGSTOP)
    try:
        assert "does not answer" in shfs("sync", check=1).stderr
    finally:
        os.kill(watch.process.pid, signal.SIGCONT)
    shfs("sync")
