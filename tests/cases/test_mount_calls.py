# SPDX-License-Identifier: MIT
"""System calls that few programs use, and what the kernel remembers of files: as below."""

import contextlib
import fcntl
import os
import signal
import subprocess

import pytest

from harness import PATIENCE, wait_until
from test_mount import limited_mount
from twins import python


# --- contents ---


def test_fallocate_in_every_mode(twins):
    twins.run(r"""
KEEP, PUNCH, COLLAPSE, ZERO, INSERT, UNSHARE = 1, 2, 8, 16, 32, 64
def allocate(fd, mode, at, n):
    before = os.fstat(fd).st_size
    say(mode, at, n, call("fallocate", fd, mode, ctypes.c_long(at), ctypes.c_long(n)), before, os.fstat(fd).st_size)
write("f", bytes(range(256)) * 160)
fd = os.open("f", os.O_RDWR)
allocate(fd, 0, 40000, 9000); allocate(fd, KEEP, 100000, 4096)
for mode in PUNCH | KEEP, ZERO, ZERO | KEEP: allocate(fd, mode, 8192, 4096); say(read("f"))
for mode in PUNCH, UNSHARE, 256, PUNCH | KEEP | ZERO: allocate(fd, mode, 4096, 4096)
allocate(fd, 0, -1, 5); allocate(fd, 0, 5, 0)
allocate(fd, PUNCH | KEEP, 10, 20); allocate(fd, ZERO | KEEP, 50000, 100000); allocate(fd, ZERO, 50000, 10000)
say(read("f"))
m = mmap.mmap(fd, 4096); m[0:5] = b"dirty"; allocate(fd, PUNCH | KEEP, 2, 4096); say(m[0:8], read("f")[:8]); m.close()
r = os.open("f", os.O_RDONLY); allocate(r, 0, 0, 1)
""")


def test_what_the_kernel_does_not_pass_on(sandbox, mounted):
    """docs/mount.md says so: programs are told as by a file system that lacks it."""
    python(sandbox, r"""
write("f", bytes(16384)); fd = os.open("f", os.O_RDWR)
for mode in 8, 32:                                  # FALLOC_FL_COLLAPSE_RANGE, INSERT_RANGE
    assert call("fallocate", fd, mode, ctypes.c_long(4096), ctypes.c_long(4096)) == "ENOTSUP", mode
assert attempt(fcntl.ioctl, fd, 0x40049409, fd) in ("ENOTSUP", "ENOTTY", "EXDEV")   # FICLONE
assert attempt(fcntl.ioctl, fd, 0xc020660b, bytes(32)) == "ENOTSUP"                 # FS_IOC_FIEMAP
assert read("f") == bytes(16384)
e = select.epoll(); e.register(fd); assert e.poll(0) == [(fd, select.EPOLLIN | select.EPOLLOUT)]
fs = os.open("big", os.O_RDWR | os.O_CREAT); assert os.lseek(fs, 1 << 62, 0) == 1 << 62 and attempt(os.write, fs, b"x") == "EFBIG"
""")


def test_copies_far_out(twins):
    """Offsets that do not fit into 32 bits, holes, and what is copied onto itself."""
    twins.run(r"""
FAR = 5 << 32
fd = os.open("f", os.O_RDWR | os.O_CREAT)
os.pwrite(fd, b"far away", FAR); os.pwrite(fd, b"near", 0)
say(os.copy_file_range(fd, fd, 8, FAR, 100), os.pread(fd, 8, 100), os.copy_file_range(fd, fd, 4, 0, FAR + 100), os.pread(fd, 4, FAR + 100))
say(os.lseek(fd, 4096, os.SEEK_DATA) >= FAR - 4096, os.lseek(fd, FAR + 50, os.SEEK_HOLE) == os.fstat(fd).st_size, os.fstat(fd).st_blocks)
say(attempt(os.copy_file_range, fd, fd, 10, 0, 5), attempt(os.copy_file_range, fd, fd, 10, FAR + 200, 0), attempt(os.copy_file_range, fd, fd, 10, -1, 0))
for request in 0x40049409, 0x4020940d:  # FICLONE, FICLONERANGE
    source = struct.pack("=qQQQ", fd, 0, 0, 4096)
    say(attempt(fcntl.ioctl, os.open("to", os.O_RDWR | os.O_CREAT), request, fd if request == 0x40049409 else source))
say(os.fstat(os.open("to", os.O_RDONLY)).st_size)
os.ftruncate(fd, 0)
""")


def test_hints_and_syncs(twins):
    twins.run(r"""
fd = os.open("f", os.O_RDWR | os.O_CREAT); os.write(fd, b"x" * 100000)
say(attempt(os.fsync, fd), attempt(os.fdatasync, fd), call("syncfs", fd), call("readahead", fd, ctypes.c_long(0), ctypes.c_long(9999)))
say(call("sync_file_range", fd, ctypes.c_long(0), ctypes.c_long(0), 7), call("sync_file_range", fd, ctypes.c_long(-1), ctypes.c_long(0), 7))
for advice in range(8): say(advice, attempt(os.posix_fadvise, fd, 0, 0, advice))
d = os.open(".", os.O_RDONLY); say(attempt(os.fsync, d), attempt(os.fdatasync, d), call("syncfs", d))
say(os.pwritev(fd, [b"dsync"], 0, os.RWF_DSYNC), attempt(os.preadv, fd, [bytearray(5)], 0, os.RWF_HIPRI), attempt(os.pwritev, fd, [b"a"], 3, 0x10))
s = os.open("f", os.O_WRONLY | os.O_SYNC); say(os.write(s, b"sync"), read("f")[:6])
m = mmap.mmap(fd, 100000); m[9:10] = b"m"; m.flush(); m.madvise(mmap.MADV_DONTNEED); say(m[9:10], read("f")[8:11])
say(call("fcntl", fd, 1024 + 12, ctypes.byref(ctypes.c_uint64(2))))   # F_SET_RW_HINT
""")


def test_positions_and_vectors(twins):
    twins.run(r"""
fd = os.open("f", os.O_RDWR | os.O_CREAT)
say(os.writev(fd, [b"one", b"", b"three"]), os.lseek(fd, 0, os.SEEK_CUR), os.preadv(fd, [bytearray(2), bytearray(100)], 1))
say(attempt(os.lseek, fd, -1, os.SEEK_SET), attempt(os.lseek, fd, 0, 9))
say(attempt(os.pread, fd, 5, -1), attempt(os.pread, fd, 5, 1 << 62), os.pread(fd, 5, 100), attempt(os.pwrite, fd, b"", 1 << 20), os.fstat(fd).st_size)
copy = os.dup(fd); os.lseek(copy, 3, 0); say(os.read(fd, 2), os.lseek(copy, 0, 1))
say(fcntl.fcntl(fd, fcntl.F_GETFL) & ~os.O_LARGEFILE & 0o7777, attempt(os.read, os.open(".", os.O_RDONLY), 1), attempt(os.write, os.open("f", os.O_RDONLY), b""))
p = os.open("f", os.O_PATH); say(attempt(os.read, p, 1), os.fstat(p).st_size, attempt(os.fchmod, p, 0o600), attempt(os.fsync, p))
""")


def test_unmodified_bytes_by_every_way_at_once(twins):
    """A mapping, a descriptor, O_DIRECT and another name see the same bytes."""
    twins.run(r"""
fd = os.open("f", os.O_RDWR | os.O_CREAT); os.write(fd, b"0" * 16384); os.link("f", "g")
m = mmap.mmap(fd, 16384); direct = os.open("g", os.O_RDWR | os.O_DIRECT)
page = mmap.mmap(-1, 4096)
def seen():
    os.preadv(direct, [page], 4096)
    say(m[4096:4100], os.pread(fd, 4, 4096), bytes(page[:4]), read("g")[4096:4100])
seen(); m[4096:4100] = b"mmap"; seen(); os.pwrite(fd, b"pwri", 4096); seen()
page[:4] = b"dire"; os.pwritev(direct, [page], 4096); seen()
os.truncate("g", 4098); os.truncate("g", 16384); seen()
other = os.open("h", os.O_RDWR | os.O_CREAT); os.write(other, b"copied"); os.copy_file_range(other, fd, 6, 0, 4096); seen()
libc.fallocate(fd, 3, ctypes.c_long(4096), ctypes.c_long(4096)); seen()
""")


# --- locks, leases, waiting ---


# Threads write their own part of one file and read it back; others open, read and stat it.
COHERENCE = r"""
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int stale, end;

static void *work(void *arg)
{
	long i = (long)arg, n = 0;
	int fd = -1;
	char text[32], back[32];

	for (int k = 0; k < 400; k++) {
		if (k % 8 == 0) { /* now and then the only one who writes */
			close(fd);
			fd = open("f", O_RDWR);
		}
		sprintf(text, "%06ld-%08d\n", i, k);
		n += pwrite(fd, text, 16, 16 * i) != 16 || pread(fd, back, 16, 16 * i) != 16 ||
		     memcmp(text, back, 16);
	}
	close(fd);
	__sync_fetch_and_add(&stale, n);
	return NULL;
}

static void *look(void *how)
{
	char page[4096];
	struct stat st;

	while (!__sync_fetch_and_add(&end, 0)) {
		int fd = open("f", (int)(long)how);

		(void)!pread(fd, page, sizeof(page), 0);
		fstat(fd, &st);
		stat("f", &st);
		close(fd);
	}
	return NULL;
}

int main(void)
{
	pthread_t workers[16], others[2];

	close(open("f", O_RDWR | O_CREAT, 0644));
	truncate("f", 4096);
	pthread_create(&others[0], NULL, look, (void *)O_RDONLY);
	pthread_create(&others[1], NULL, look, (void *)O_RDWR);
	for (long i = 0; i < 16; i++)
		pthread_create(&workers[i], NULL, work, (void *)i);
	for (long i = 0; i < 16; i++)
		pthread_join(workers[i], NULL);
	__sync_fetch_and_add(&end, 1);
	pthread_join(others[0], NULL);
	pthread_join(others[1], NULL);
	printf("%d stale\n", stale);
	return 0;
}
"""


@pytest.mark.transports
def test_what_was_written_is_read(sandbox, mounted):
    """Whoever else writes, reads and opens the file at the same time."""
    program = sandbox.compile("coherence", COHERENCE)
    for _ in range(3):
        assert sandbox.run(program, timeout=60).stdout == "0 stale\n"


def test_content_changed_beneath(sandbox, project):
    """Is seen by who opens the file then, also where size and pages are the same as before."""
    beneath = os.open(project, os.O_PATH)
    sandbox.mount()
    for n in range(5):
        fd = os.open("f", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666, dir_fd=beneath)
        os.write(fd, b"%d" % n * 5000)
        os.close(fd)
        assert sandbox.read("f") == b"%d" % n * 5000
    os.close(beneath)


def test_content_changed_beneath_before_a_chmod(sandbox, project):
    """Is seen none the less, and what it was is not said to be what it is."""
    beneath = os.open(project, os.O_PATH)
    sandbox.mount()
    sandbox.sh("echo aaaa > f; cat f")
    fd = os.open("f", os.O_WRONLY, dir_fd=beneath)
    os.write(fd, b"bbbb")
    os.close(fd)
    os.close(beneath)
    assert sandbox.sh("chmod 755 f; cat f; rm f; shfs undelete f > /dev/null; cat f").stdout == "bbbb\nbbbb\n"


def test_refusals_cost_no_descriptors(sandbox):
    """Directories that are not empty can be neither removed nor replaced."""
    limited_mount(sandbox, 256)
    sandbox.run("/bin/bash", "-c", "mkdir -p {1..400}/sub")
    sandbox.run("/bin/bash", "-c", "! rmdir {1..400} 2> /dev/null")
    sandbox.run("/bin/bash", "-c", "mkdir e; for i in {1..400}; do ! mv -T e $i 2> /dev/null || exit; done")
    sandbox.sh("touch new; mkdir other; ls > /dev/null; cat new")


@pytest.mark.users("root")
def test_no_file_can_be_made_there(sandbox, project):
    """An error from below ends the request."""
    os.mkdir(f"{project}/proc")
    subprocess.run(["mount", "-t", "proc", "proc", f"{project}/proc"], check=True)
    try:
        mount = sandbox.mount()
        assert sandbox.sh("touch proc/x", check=False, timeout=20).status == 1
        mount.unmount()
    finally:
        subprocess.run(["umount", f"{project}/proc"], check=True)


def test_locks_of_descriptions_and_processes(twins):
    twins.run(r"""
GETLK, SETLK, SETLKW, OFD_GETLK, OFD_SETLK = 5, 6, 7, 36, 37
def lock(fd, what, kind, start, n, pid=0):
    arg = struct.pack("hhqqi4x", kind, 0, start, n, pid)
    r = attempt(fcntl.fcntl, fd, what, arg)
    return r if isinstance(r, str) else struct.unpack("hhqqi4x", r)[:4]
RD, WR, UN = 0, 1, 2
a = os.open("f", os.O_RDWR | os.O_CREAT); b = os.open("f", os.O_RDWR); r = os.open("f", os.O_RDONLY)
say(lock(a, OFD_SETLK, WR, 0, 10), lock(b, OFD_SETLK, WR, 5, 10), lock(b, OFD_SETLK, RD, 10, 10), lock(b, OFD_GETLK, WR, 0, 1))
say(lock(b, SETLK, WR, 0, 5), lock(a, OFD_SETLK, UN, 0, 0), lock(b, SETLK, WR, 0, 5), lock(a, OFD_SETLK, WR, 0, 1))
say(lock(r, SETLK, WR, 50, 5), lock(r, SETLK, RD, 50, 5), lock(b, SETLK, WR, -1, 5))
os.close(os.dup(r))                             # gives up the locks of this process
say(lock(a, OFD_SETLK, WR, 0, 1))
fcntl.flock(a, fcntl.LOCK_SH); say(attempt(fcntl.flock, b, fcntl.LOCK_SH | fcntl.LOCK_NB), attempt(fcntl.flock, b, fcntl.LOCK_EX | fcntl.LOCK_NB))
pid = os.fork()
if not pid:                                     # flock belongs to the description
    fcntl.flock(a, fcntl.LOCK_UN); os._exit(0)
os.waitpid(pid, 0); fcntl.flock(b, fcntl.LOCK_SH); say(attempt(fcntl.flock, b, fcntl.LOCK_EX | fcntl.LOCK_NB))
c = os.open("deadlock", os.O_RDWR | os.O_CREAT)
lock(c, SETLK, WR, 0, 1); turn = os.pipe()
pid = os.fork()
if not pid:
    lock(c, SETLK, WR, 1, 1); os.write(turn[1], b"x"); lock(c, SETLKW, WR, 0, 1); os._exit(0)
os.read(turn[0], 1)
while " -> POSIX" not in read("/proc/locks").decode(): time.sleep(0.01)
say(lock(c, SETLKW, WR, 1, 1)); lock(c, SETLK, UN, 0, 1); say(os.waitpid(pid, 0)[1])
d = os.open(".", os.O_RDONLY); say(attempt(fcntl.flock, d, fcntl.LOCK_EX | fcntl.LOCK_NB), lock(d, SETLK, RD, 0, 1))
""")


@pytest.mark.transports
def test_a_waiter_for_a_lock_can_be_killed(sandbox, mounted):
    python(sandbox, r"""
fd = os.open("f", os.O_RDWR | os.O_CREAT)
for take in fcntl.lockf, fcntl.flock:
    take(fd, fcntl.LOCK_EX)
    for number in signal.SIGTERM, signal.SIGKILL:
        pid = os.fork()
        if not pid:
            take(os.open("f", os.O_RDWR), fcntl.LOCK_EX); os._exit(0)
        while b" %d " % pid not in b"".join(l for l in read("/proc/locks").splitlines() if b"->" in l): time.sleep(0.01)
        os.kill(pid, number); assert os.waitpid(pid, 0)[1] == number
os.mkfifo("p")
pid = os.fork()
if not pid:
    os.open("p", os.O_RDONLY); os._exit(0)
while "partner" not in read("/proc/%d/wchan" % pid).decode(): time.sleep(0.01)
os.kill(pid, signal.SIGTERM); assert os.waitpid(pid, 0)[1] == signal.SIGTERM
def hit(*_): raise InterruptedError
signal.signal(signal.SIGALRM, hit)
signal.setitimer(signal.ITIMER_REAL, 0.1)
try:
    os.open("p", os.O_RDONLY); raise AssertionError
except InterruptedError: pass
""")


def test_leases(twins):
    twins.run(r"""
SETLEASE, GETLEASE, RD, WR, UN = 1024, 1025, 0, 1, 2
write("f", b"x"); fd = os.open("f", os.O_RDONLY); broken = []
signal.signal(signal.SIGIO, lambda *_: broken.append(1))
say(attempt(fcntl.fcntl, fd, SETLEASE, RD), attempt(fcntl.fcntl, fd, GETLEASE))
say(attempt(os.open, "f", os.O_WRONLY | os.O_NONBLOCK), len(broken), attempt(fcntl.fcntl, fd, SETLEASE, UN), write("f", b"y", os.O_WRONLY))
w = os.open("f", os.O_WRONLY); say(attempt(fcntl.fcntl, fd, SETLEASE, RD), attempt(fcntl.fcntl, w, SETLEASE, WR))
os.close(fd); say(attempt(fcntl.fcntl, w, SETLEASE, WR), attempt(os.open, "f", os.O_RDONLY | os.O_NONBLOCK))
d = os.open(".", os.O_RDONLY); say(attempt(fcntl.fcntl, d, SETLEASE, RD))
""")


def test_nothing_to_wait_for(twins):
    """A regular file is always ready. That epoll takes it, docs/mount.md says."""
    twins.run(r"""
fd = os.open("f", os.O_RDWR | os.O_CREAT); d = os.open(".", os.O_RDONLY)
e = select.epoll(); say(attempt(e.register, d))
p = select.poll(); p.register(fd); p.register(d); say([n for _, n in p.poll(0)])
say(attempt(os.set_blocking, fd, False), os.read(fd, 1), attempt(fcntl.fcntl, fd, fcntl.F_SETFL, os.O_ASYNC))
""")


# --- names ---


def test_whiteouts(twins):
    twins.run(r"""
write("a", b"A"); say(renameat2("a", "b", 4), read("b"))
if os.path.lexists("a"): say(shape("a"), os.lstat("a").st_rdev)
write("c", b"C"); say(renameat2("c", "b", 4 | 1), renameat2("c", "d", 4 | 2), renameat2("c", "d", 8), sorted(os.listdir()))
""")


def test_handles_of_files(twins):
    twins.run(r"""
def handle(dirfd, name, flags=0):
    h = ctypes.create_string_buffer(struct.pack("Ii", 128, 0) + bytes(128)); mount = ctypes.c_int()
    r = call("name_to_handle_at", dirfd, name, h, ctypes.byref(mount), flags)
    return r if r else h
write("f", b"content"); os.mkdir("d"); write("d/f", b"in d"); os.symlink("f", "s")
here = os.open(".", os.O_RDONLY)
for name in b"f", b"d", b"d/f", b"s", b".":
    h = handle(-100, name)
    if isinstance(h, str): say(name, h); continue
    fd = call("open_by_handle_at", here, h, os.O_RDONLY)
    say(name, fd if isinstance(fd, str) else os.fstat(fd).st_ino == os.stat(name).st_ino)
h = handle(-100, b"d/f"); os.rename("d/f", "g"); fd = call("open_by_handle_at", here, h, os.O_RDONLY)
say(fd if isinstance(fd, str) else os.read(fd, 9)); os.unlink("g")
if not isinstance(fd, str): os.close(fd); time.sleep(1.2)
say(call("open_by_handle_at", here, h, os.O_RDONLY))
""")


def test_paths_at_their_limit(twins):
    twins.run(r"""
name = "n" * 255; path = "/".join([name] * 15)     # 3839 bytes
os.makedirs(path); leaf = path + "/" + "l" * 255; write(leaf, b"deep")
say(read(leaf), len(leaf), attempt(read, leaf + "x"), attempt(os.stat, leaf + "/.."))
os.link(leaf, "h"); os.rename(leaf, path + "/m"); say(os.stat("h").st_nlink, os.listdir(path), os.setxattr(path + "/m", "user.a", b"1"))
say(attempt(os.path.exists, "./" * 2046 + "h"), attempt(os.readlink, "./" * 2047 + "h"), attempt(os.readlink, "./" * 2048 + "h"), attempt(os.stat, ("x" * 255 + "/") * 16))
os.symlink(path + "/m", "s"); say(read("s"), len(os.readlink("s")))
subprocess.run(["tar", "cf", "t.tar", name], check=True); subprocess.run(["rm", "-r", name], check=True)
subprocess.run(["tar", "xf", "t.tar"], check=True); say(read("s"))
""")


@pytest.mark.alone  # who listens by fanotify keeps what is removed for a moment
def test_watchers_see_changes(twins):
    twins.run(r"""
import re
MASK = 0xfff & ~0x10 & ~0x01                        # all but closes without writing, and accesses
queue = libc.inotify_init1(os.O_NONBLOCK)
os.mkdir("d"); write("d/f", b"x"); libc.inotify_add_watch(queue, b"d", MASK)
def events():
    out = []
    data = attempt(os.read, queue, 65536)
    while isinstance(data, bytes) and data:
        wd, mask, cookie, n = struct.unpack_from("iIII", data)
        out.append((hex(mask), bool(cookie), data[16:16 + n].rstrip(b"\0"))); data = data[16 + n:]
    return out
def told(what, *args):
    attempt(what, *args); say(what.__name__, events())
told(write, "d/f", b"y"); told(write, "d/new", b"y"); told(os.rename, "d/new", "d/newer"); told(os.rename, "d/newer", "away"); told(os.rename, "away", "d/f")
told(os.link, "d/f", "d/h"); told(os.chmod, "d/h", 0o600); told(os.utime, "d/f"); told(os.truncate, "d/f", 0); told(os.setxattr, "d/f", "user.a", b"")
told(os.mkdir, "d/sub"); told(os.rmdir, "d/sub"); told(os.symlink, "x", "d/s"); told(os.mkfifo, "d/p"); told(os.unlink, "d/h")
write("x", b""); events(); told(renameat2, "x", "d/f", 2); told(os.truncate, "d/f", 5)
fd = os.open("d/f", os.O_RDWR); m = mmap.mmap(fd, 5); events(); m[0:1] = b"z"; m.close(); os.close(fd); say(events())
libc.inotify_add_watch(queue, b"d/f", MASK); told(os.unlink, "d/f"); told(os.rename, "d", "e")
""")


def test_a_directory_that_changes_while_it_is_read(twins):
    program = twins.sandbox.compile("walk", r"""
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
static void make(const char *fmt, int i) { char n[32]; sprintf(n, fmt, i); close(open(n, O_CREAT | O_RDWR, 0600)); }
int main(void)
{
	long at[500];
	char *name[500];
	int n = 0, seen[1000] = { 0 };
	mkdir("dir", 0700); if (chdir("dir")) return 9;
	for (int i = 0; i < 1000; i++) make("f%d", i);
	DIR *d = opendir(".");
	struct dirent *e;
	for (; n < 500; n++) { at[n] = telldir(d); e = readdir(d); name[n] = strdup(e->d_name); }
	for (int i = 0; i < 500; i += 7) {
		seekdir(d, at[i]); e = readdir(d);
		if (!e || strcmp(e->d_name, name[i])) return 1;
	}
	rewinddir(d);
	for (n = 0; (e = readdir(d)); n++) {
		int i;
		if (sscanf(e->d_name, "f%d", &i) == 1) { if (seen[i]++) return 2; if (i % 3 == 0) unlink(e->d_name); }
		if (n % 50 == 0) make("g%d", n);
	}
	for (int i = 0; i < 1000; i++) if (!seen[i]) return 3;
	DIR *other = fdopendir(dup(dirfd(d)));
	rewinddir(other); seekdir(d, 0); rewinddir(d);
	for (n = 0; (e = readdir(d)); n++) if (e->d_name[0] == 'f' && atoi(e->d_name + 1) % 3 == 0) return 4;
	closedir(other); closedir(d);
	if (chdir("..")) return 5;
	d = opendir("dir");
	if (rename("dir", "moved") || !readdir(d)) return 6;
	return fstatat(dirfd(d), "f1", &(struct stat){ 0 }, 0) ? 7 : 0;
}""")
    twins.run(f"say(subprocess.run([{program!r}]).returncode)")


# --- attributes ---


STATX = r"""
class Statx(ctypes.Structure):
    _fields_ = [(n, t) for n, t in zip("mask blksize attributes nlink uid gid mode spare ino size blocks attributes_mask".split(),
                [ctypes.c_uint32] * 2 + [ctypes.c_uint64] + [ctypes.c_uint32] * 3 + [ctypes.c_uint16] * 2 + [ctypes.c_uint64] * 4)]
    _fields_ += [(n, ctypes.c_int64 * 2) for n in "atime btime ctime mtime".split()] + [("rest", ctypes.c_char * 256)]
def statx(name, mask=0xfff, flags=0x100):
    s = Statx(); r = call("statx", -100, os.fsencode(name), flags, mask, ctypes.byref(s))
    assert r == 0, r
    return s
"""


@pytest.mark.transports
def test_time_of_birth(twins):
    if tuple(map(int, os.uname().release.split(".")[:2])) < (6, 6):
        pytest.skip("the kernel does not ask for it")
    twins.run(STATX + r"""
for make in lambda: write("f", b"x"), lambda: os.mkdir("f"), lambda: os.mkfifo("f"), lambda: os.symlink("x", "f"):
    before = time.time() - 1; make(); s = statx("f")
    say(hex(s.mask & 0xfff), int(before) <= s.btime[0] <= time.time(), oct(s.mode), s.nlink, s.size, s.uid == os.getuid())
    if os.path.isfile("f"):
        birth = list(s.btime); os.utime("f", (1, 1)); write("f", b"longer"); os.rename("f", "g"); s = statx("g")
        say(list(s.btime) == birth, s.size, s.ctime[0] >= birth[0], statx("g", flags=0x100 | 0x2000).size, statx("g", flags=0x100 | 0x4000).size)
        fd = os.open("g", os.O_RDONLY); os.unlink("g"); s = statx("/proc/self/fd/%d" % fd, flags=0); say(list(s.btime) == birth, s.nlink)
    else: (os.rmdir if os.path.isdir("f") else os.unlink)("f")
say(statx(".").btime[0] > 0)
""")


FRESH = r"""
import random
lower = LOWER; rng = random.Random(7)
FIELDS = "st_mode st_nlink st_uid st_gid st_size st_mtime_ns st_ctime_ns st_ino st_blocks".split()
names = "a b c d/a d/b d/sub e".split(); held = []; os.mkdir("d")
def attributes(name, **options):
    s = attempt(os.stat, name, follow_symlinks=False, **options)
    return s if isinstance(s, str) else {f: getattr(s, f) for f in FIELDS}
def change():
    a, b = rng.sample(names, 2); fd = rng.choice(held) if held else -1
    what = rng.randrange(18)
    if what < 2:
        fd = os.open(a, os.O_RDWR | os.O_CREAT, 0o666); os.write(fd, b"x" * rng.choice((1, 5000)))
        if len(held) < 5: held.append(fd)
        else: os.close(fd)
    elif what == 2: os.link(a, b)
    elif what == 3: os.unlink(a)
    elif what == 4: os.rename(a, b)
    elif what == 5: renameat2(a, b, 2)
    elif what == 6: os.chmod(a, rng.choice((0o600, 0o644, 0o2755)))
    elif what == 7: os.truncate(a, rng.randrange(10000))
    elif what == 8: os.mkdir(a)
    elif what == 9: os.rmdir(a)
    elif what == 10: os.setxattr(a, "user.x", b"%d" % rng.randrange(999))
    elif what == 11: os.symlink("x", a)
    elif what == 12: os.utime(a, ns=(5, rng.randrange(10**12)))
    elif what == 13: os.mkfifo(a)
    elif what == 14 and held: os.pwrite(fd, b"y", rng.randrange(9000))
    elif what == 15 and held: os.ftruncate(fd, rng.randrange(9000)); held.remove(fd); os.close(fd)
    elif what == 16 and held: libc.fallocate(fd, rng.choice((0, 1, 3, 16)), ctypes.c_long(0), ctypes.c_long(20000))
    elif what == 17 and held: os.fchmod(fd, 0o640); os.fsync(fd)
    return what, a, b
for i in range(800):
    what = attempt(change)
    for name in [*names, "d", "."]:
        above, beneath = attributes(name), attributes(name, dir_fd=lower)
        assert above == beneath, (i, what, name, above, beneath)
"""


def test_attributes_are_fresh_after_changes_by_other_names(sandbox, project):
    """Link counts and times right after each change, held against the file beneath."""
    lower = os.open(project, os.O_RDONLY)  # keeps what the mount will cover
    sandbox.mount()
    try:
        python(sandbox, FRESH.replace("LOWER", str(lower)), timeout=120, pass_fds=[lower])
    finally:
        os.close(lower)


def test_devices_and_inode_numbers(sandbox, project, mount):
    sandbox.sh("mkdir d; echo x > d/f; ln -s f d/s; mkfifo d/p")
    numbers = "find . -printf '%i %p\\n' | sort; ls -fiR . | sort"
    before = sandbox.sh(numbers).stdout
    mounted = mount()
    assert sandbox.sh(numbers).stdout == before
    assert len(sandbox.sh("find . -printf '%D\\n' | sort -u").stdout.split()) == 1
    sandbox.sh("mountpoint -q .; ! mountpoint -q d; find . -xdev | wc -l | grep -qx 5; df . > /dev/null; mv d/f e; mv e d/f")
    mounted.unmount()
    assert sandbox.sh(numbers).stdout == before


def test_statfs_is_the_lower_ones(twins):
    twins.run(r"""
s = os.statvfs("."); say(s.f_bsize, s.f_frsize, s.f_blocks, s.f_files, s.f_namemax)
os.mkdir("d"); s = os.statvfs("d"); say(s.f_blocks, s.f_namemax)
""")


def test_files_of_any_age(twins):
    twins.run(r"""
write("f", b"")
for t in 0, 1, -1, 2**31 - 1, 2**31, 2**32, 2**33, -2**31, 2**34 - 1, -2**33:
    say(t, attempt(os.utime, "f", ns=(t * 10**9 + 1, t * 10**9 + 999999999)), os.stat("f").st_mtime_ns, os.stat("f").st_atime_ns)
OMIT, NOW = (1 << 30) - 2, (1 << 30) - 1
def times(*ns): return call("utimensat", -100, b"f", struct.pack("qqqq", 5, ns[0], 6, ns[1]), 0)
say(times(OMIT, OMIT), times(OMIT, 7), os.stat("f").st_mtime_ns, times(8, OMIT), os.stat("f").st_mtime_ns, os.stat("f").st_atime_ns, times(NOW, NOW), os.stat("f").st_mtime > 10**9)
""")


def test_attributes_of_chattr(twins):
    """Where the file system below has them: the same bits by either interface."""
    twins.run(STATX + r"""
GETFLAGS, SETFLAGS, GETVERSION, GETX, SETX = 0x80086601, 0x40086602, 0x80087601, 0x801c581f, 0x401c5820
write("f", b"x"); os.mkdir("d")
for name in "f", "d":
    fd = os.open(name, os.O_RDONLY)
    def flags():
        r = attempt(fcntl.ioctl, fd, GETFLAGS, bytes(8)); return r if isinstance(r, str) else hex(struct.unpack("q", r)[0])
    def x():
        r = attempt(fcntl.ioctl, fd, GETX, bytes(28)); return r if isinstance(r, str) else struct.unpack("IIIII8x", r)[:1] + struct.unpack("IIIII8x", r)[3:]
    say(name, flags(), x())
    for bits in 0x80, 0x40, 0xc0: say(hex(bits), attempt(fcntl.ioctl, fd, SETFLAGS, struct.pack("q", bits | int(flags(), 16))) and 0, flags(), x())
    say(attempt(fcntl.ioctl, fd, SETX, struct.pack("IIIII8x", 0x40, 0, 0, 0, 0)) and 0, flags(), x())
    say(type(attempt(fcntl.ioctl, fd, GETVERSION, bytes(8))))
p = os.open("f", os.O_PATH); say(attempt(fcntl.ioctl, p, GETFLAGS, bytes(8)))
""")


# --- what fails below fails above ---


@contextlib.contextmanager
def tampered(mount, calls, how, names=()):
    """The mount's system calls, or those that concern these names, do something else."""
    pid, chosen = mount.process.pid, [f"-P{mount.directory}"] if names else []
    for name in names:
        chosen += [f"-P{mount.directory}/{name}", f"-P{name}"]
    argv = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={calls}"]
    argv += ["-e", f"inject={calls}:{how}", *chosen, "-p", str(pid)]
    with subprocess.Popen(argv) as strace:
        try:
            traced = f"TracerPid:\t{strace.pid}\n"
            tasks = f"/proc/{pid}/task"
            wait_until(lambda: all(traced in open(f"{tasks}/{t}/status").read() for t in os.listdir(tasks)), "strace")
            yield
        finally:
            strace.terminate()


@pytest.mark.transports
@pytest.mark.users("root")
@pytest.mark.parametrize("error", ["EDQUOT", "ENOSPC", "EIO"])
def test_errors_from_below(sandbox, error):
    """A quota that is used up, a full disk, a broken one: the user is told what the lower file
    system told, and the file holds what was written before."""
    sandbox.write("old", b"0123456789")
    sandbox.write("log", b"one\n")
    mount = sandbox.mount()
    calls = "pwritev2,fallocate,ftruncate,mkdirat,symlinkat,linkat,copy_file_range,fsync,renameat,renameat2,rename"
    with tampered(mount, calls, f"error={error}", ["old", "log", "new", "dir", "link", "hard", "moved"]):
        python(sandbox, rf"""
def fails(what, *args):
    assert attempt(what, *args) == "{error}", (what, args)
fd = os.open("log", os.O_RDWR | os.O_APPEND)
fails(os.write, fd, b"two\n"); fails(os.pwrite, fd, b"x" * 300000, 0); fails(os.posix_fallocate, fd, 0, 100); fails(os.fsync, fd)
fails(os.ftruncate, fd, 3); fails(os.truncate, "old", 3); fails(os.open, "old", os.O_WRONLY | os.O_TRUNC)
fails(os.mkdir, "dir"); fails(os.symlink, "x", "link"); fails(os.link, "old", "hard"); fails(os.rename, "old", "moved")
fails(os.copy_file_range, os.open("old", os.O_RDONLY), os.open("log", os.O_RDWR), 5)
direct = os.open("new", os.O_WRONLY | os.O_CREAT | os.O_DIRECT); page = mmap.mmap(-1, 4096); fails(os.pwritev, direct, [page], 0)
assert (read("old"), read("log"), read("new")) == (b"0123456789", b"one\n", b"")
""")
    sandbox.sh("echo two >> log; mkdir dir; ln -s x link; ln old hard; mv old moved; echo three > new")
    assert sandbox.read("log") == b"one\ntwo\n" and sandbox.read("moved") == b"0123456789"


def end_of(child):
    """Kills it; it must be gone soon, whatever it waited for."""
    child.kill()
    assert child.wait(10 * PATIENCE) == -9


@pytest.mark.transports
@pytest.mark.users("root")
def test_who_waits_for_a_sync_can_be_killed(sandbox):
    mount = sandbox.mount()
    sandbox.write("f", b"x")
    with tampered(mount, "fdatasync,fsync", "delay_enter=30s"):
        sandbox.write("g", b"x")
        child = sandbox.popen(["getfattr", "-n", "user.shfs.sync", "."], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_until(lambda: "fuse" in open(f"/proc/{child.pid}/wchan").read() or "request_wait" in open(f"/proc/{child.pid}/wchan").read(), "the sync")
        end_of(child)
        assert sandbox.read("g") == b"x"
    assert mount.status()["error"] == "0"


@pytest.mark.transports
@pytest.mark.parametrize("how", ["exec cat f", "echo >> f", "exec /usr/bin/python3 -c 'import os; os.truncate(\"f\", 0)'"])
def test_who_waits_for_a_lease_below_can_be_killed(sandbox, project, how):
    """And others are served meanwhile."""
    sandbox.write("f", b"x")
    lower = os.open(f"{project}/f", os.O_RDWR)
    mount = sandbox.mount()
    before = signal.signal(signal.SIGIO, signal.SIG_IGN)
    try:
        fcntl.fcntl(lower, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        children = [sandbox.popen(["sh", "-c", how]) for _ in range(2)]
        wait_until(lambda: fcntl.fcntl(lower, fcntl.F_GETLEASE) != fcntl.F_WRLCK, "the open")
        sandbox.sh("echo y > g; mv g h; ls > /dev/null; cat h; rm h", timeout=10)
        for child in children:
            end_of(child)
        os.close(lower)
        lower = -1
    finally:
        if lower >= 0:
            os.close(lower)
        signal.signal(signal.SIGIO, before)
    sandbox.sh("cat f; echo z > f")
    assert sandbox.read("f") == b"z\n"
    mount.unmount()
