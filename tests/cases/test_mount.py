# SPDX-License-Identifier: MIT
"""The file system as its users see it: what a program does on a mount has the same results,
errors and attributes as on the plain directory."""

import os

import pytest

import harness

from twins import python


# --- files ---


def test_open_flags(twins):
    twins.run(r"""
O = os
say(attempt(os.open, "none", O.O_RDONLY), attempt(os.open, "none/x", O.O_RDONLY | O.O_CREAT))
say(write("a", b"one\n"), read("a"), shape("a"))
say(attempt(write, "a", b"x", O.O_WRONLY | O.O_CREAT | O.O_EXCL))
say(write("b", b"two\n", O.O_WRONLY | O.O_CREAT | O.O_EXCL, 0o600), shape("b"))
say(write("a", b"+", O.O_WRONLY), read("a"))
say(write("a", b"end", O.O_WRONLY | O.O_APPEND), read("a"))
say(write("a", b"", O.O_WRONLY | O.O_TRUNC), read("a"))
say(write("a", b"new", O.O_RDWR | O.O_TRUNC), read("a"))
fd = os.open("a", O.O_RDONLY | O.O_TRUNC); say(read("a"), attempt(os.write, fd, b"x")); os.close(fd)
os.symlink("a", "l"); os.symlink("missing", "dangling"); os.mkdir("d")
say(attempt(os.open, "l", O.O_RDONLY | O.O_NOFOLLOW), attempt(write, "dangling", b"made"), read("missing"))
say(attempt(os.open, "d", O.O_WRONLY), attempt(os.open, "a", O.O_RDONLY | O.O_DIRECTORY))
say(attempt(os.open, "a/b", O.O_RDONLY), attempt(os.open, "x" * 256, O.O_CREAT), attempt(os.open, "d", O.O_CREAT | O.O_RDWR))
say(write("created-read-only", b"x", O.O_WRONLY | O.O_CREAT, 0o400), read("created-read-only"), mode("created-read-only"))
fd = os.open("zero", O.O_RDWR | O.O_CREAT, 0o000); say(os.write(fd, b"abc"), os.pread(fd, 9, 0), mode("zero")); os.close(fd)
""")


def test_append(twins):
    """By several descriptors, by F_SETFL, and beside a mapping."""
    twins.run(r"""
write("log", b"0\n")
a = os.open("log", os.O_WRONLY | os.O_APPEND)
b = os.open("log", os.O_RDWR | os.O_APPEND)
for i in range(50):
    os.write(a, b"a%d\n" % i); os.write(b, b"b%d\n" % i)
os.lseek(b, 0, 0); os.write(b, b"end\n")
say(os.pwrite(b, b"pwrite appends\n", 0), read("log"))
fcntl.fcntl(b, fcntl.F_SETFL, 0)
say(os.pwrite(b, b"XY", 0), read("log")[:10])
c = os.open("log", os.O_RDWR)
fcntl.fcntl(c, fcntl.F_SETFL, os.O_APPEND)
os.write(c, b"appended by F_SETFL\n")
m = mmap.mmap(c, 0)
m[0:6] = b"mapped"; m.flush()
say(read("log"), os.stat("log").st_size)
m[6:10] = b"more"; del m
for fd in a, b, c: os.close(fd)
say(read("log"), os.stat("log").st_size)
""")


def test_parallel_appends_are_whole(sandbox, mounted):
    python(sandbox, r"""
def worker(n):
    for i in range(200):
        write("log", b"%d %03d %s\n" % (n, i, b"x" * 100), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
children = []
for n in range(4):
    pid = os.fork()
    if not pid:
        worker(n); os._exit(0)
    children.append(pid)
assert all(os.waitpid(pid, 0)[1] == 0 for pid in children)
lines = read("log").splitlines()
assert len(lines) == 800 and all(len(l) == 106 for l in lines)
for n in range(4):
    assert [int(l.split()[1]) for l in lines if l.startswith(b"%d " % n)] == list(range(200))
""")


def test_truncate(twins):
    twins.prepare(r"""write("old", b"0123456789")""")
    twins.run(r"""
os.truncate("old", 4); say(read("old"), shape("old"))
os.truncate("old", 8); say(read("old"))
fd = os.open("old", os.O_RDWR); os.write(fd, b"ab"); os.ftruncate(fd, 1); os.write(fd, b"z"); say(read("old"))
os.truncate("old", 2); say(os.pread(fd, 9, 0)); os.close(fd)
say(attempt(os.truncate, "none", 1), attempt(os.truncate, ".", 1), attempt(os.truncate, "old", -1))
os.unlink("old")
fd = os.open("gone", os.O_RDWR | os.O_CREAT); os.write(fd, b"abcdef"); os.unlink("gone")
os.ftruncate(fd, 3); say(os.pread(fd, 9, 0), os.fstat(fd).st_nlink, os.fstat(fd).st_size); os.close(fd)
say(attempt(read, "gone"))
""")


def test_sparse_files(twins):
    twins.run(r"""
fd = os.open("sparse", os.O_RDWR | os.O_CREAT)
os.pwrite(fd, b"x", 1 << 20); os.pwrite(fd, b"y", 3 << 20); os.ftruncate(fd, 4 << 20)
for at in 0, 1 << 20, (1 << 20) + 8192, 3 << 20, (4 << 20) - 1, 4 << 20:
    say(at, attempt(os.lseek, fd, at, os.SEEK_HOLE), attempt(os.lseek, fd, at, os.SEEK_DATA))
say(os.fstat(fd).st_blocks)
say(call("fallocate", fd, 0, ctypes.c_long(0), ctypes.c_long(8192)), os.fstat(fd).st_size)
say(call("fallocate", fd, 3, ctypes.c_long(1 << 20), ctypes.c_long(1 << 20)), os.fstat(fd).st_size)
say(os.lseek(fd, 0, os.SEEK_END), attempt(os.lseek, fd, -5, os.SEEK_SET))
say(attempt(os.posix_fallocate, fd, 0, 5 << 20), os.fstat(fd).st_size)
say(call("fallocate", fd, 1, ctypes.c_long(5 << 20), ctypes.c_long(1 << 20)), os.fstat(fd).st_size)
say(os.pread(fd, 3, (1 << 20) - 1), os.pread(fd, 3, (3 << 20) - 1))
say(attempt(os.ftruncate, fd, 1 << 62), attempt(os.pwrite, fd, b"far", 1 << 40), os.fstat(fd).st_size)
os.ftruncate(fd, 0)
""")


def test_copies_between_files(twins):
    twins.run(r"""
write("from", bytes(range(256)) * 4096)
a = os.open("from", os.O_RDONLY); b = os.open("to", os.O_RDWR | os.O_CREAT)
say(os.copy_file_range(a, b, 1 << 20, 0, 0), read("to") == read("from"))
say(os.copy_file_range(a, b, 1000, 5, 3), os.pread(b, 8, 0))
say(attempt(os.copy_file_range, a, a, 1000, 0, 500), attempt(os.copy_file_range, b, a, 10))
c = os.open("sent", os.O_RDWR | os.O_CREAT)
say(os.sendfile(c, a, 0, 300000), read("sent") == read("from")[:300000])
r, w = os.pipe(); os.write(w, b"through a pipe")
d = os.open("spliced", os.O_RDWR | os.O_CREAT)
say(os.splice(r, d, 14), read("spliced"))
say(call("ioctl", b, 0x40049409, a))   # FICLONE
with open("from", "rb") as f: say(len(f.read()))
subprocess.run(["cp", "--reflink=auto", "--sparse=auto", "-p", "from", "cp"], check=True)
say(read("cp") == read("from"))
""")


def test_mappings(twins):
    twins.run(r"""
write("m", b"a" * 10000)
fd = os.open("m", os.O_RDWR)
m = mmap.mmap(fd, 10000); p = mmap.mmap(fd, 10000, flags=mmap.MAP_PRIVATE)
m[0:5] = b"first"; p[9000:9004] = b"mine"
say(read("m")[:8], os.pread(fd, 4, 9000)); m.flush(); os.close(fd)
m[5:10] = b"after"; say(read("m")[:12])
os.rename("m", "n"); m[9990:9995] = b"moved"; m.flush(); say(read("n")[9985:])
os.truncate("n", 9992); say(read("n")[9985:], len(read("n")))
os.unlink("n"); m[0:4] = b"gone"; say(m[0:8]); m.close(); p.close()
write("ro", b"x" * 4096); fd = os.open("ro", os.O_RDONLY)
say(attempt(mmap.mmap, fd, 4096), mmap.mmap(fd, 4096, prot=mmap.PROT_READ)[:3])
""")


@pytest.mark.transports
def test_direct_io(twins):
    twins.run(r"""
fd = os.open("d", os.O_RDWR | os.O_CREAT | os.O_DIRECT)
page = mmap.mmap(-1, 8192); page[0:8192] = b"0123456789abcdef" * 512
say(os.writev(fd, [page]), os.fstat(fd).st_size, read("d") == page[:])
back = mmap.mmap(-1, 8192); say(os.preadv(fd, [back], 0), back[:] == page[:])
os.pwritev(fd, [memoryview(page)[:4096]], 4096); say(os.fstat(fd).st_size)
say(os.preadv(fd, [back], 8192))
m = mmap.mmap(fd, 8192); m[0:4] = b"mmap"; m.flush(); say(read("d")[:8]); m.close()
fcntl.fcntl(fd, fcntl.F_SETFL, 0); os.pwrite(fd, b"cached", 1); say(read("d")[:8])
""")


def test_unlinked_but_open(twins):
    twins.run(r"""
write("f", b"content")
fd = os.open("f", os.O_RDWR); os.unlink("f")
say(os.fstat(fd).st_nlink, os.pread(fd, 99, 0), os.write(fd, b"CON"), os.pread(fd, 99, 0))
write("f", b"another"); say(read("f"), os.pread(fd, 99, 0))
os.fchmod(fd, 0o600); os.utime(fd, (5, 5)); say(oct(os.fstat(fd).st_mode), os.fstat(fd).st_mtime)
say(read("/proc/self/fd/%d" % fd))
x = os.open("/proc/self/fd/%d" % fd, os.O_RDWR | os.O_TRUNC); say(os.fstat(fd).st_size); os.close(x)
os.close(fd)
write("g", b"g1"); gd = os.open("g", os.O_RDONLY); write("h", b"h1"); os.rename("h", "g")
say(os.pread(gd, 9, 0), os.fstat(gd).st_nlink, read("g"))
os.mkdir("d"); dd = os.open("d", os.O_RDONLY); os.rmdir("d")
say(os.listdir(dd), attempt(os.open, "x", os.O_CREAT, dir_fd=dd), os.fstat(dd).st_nlink)
os.mkdir("d"); say(os.listdir("d"))
""")


def test_unnamed_files(twins):
    twins.run(r"""
import tempfile
for flags in 0, os.O_EXCL:
    fd = os.open(".", os.O_TMPFILE | os.O_RDWR | flags, 0o666); s = os.fstat(fd)
    say(os.write(fd, b"content"), s.st_nlink, oct(s.st_mode), s.st_uid, s.st_gid, os.listdir())
    say(call("linkat", -100, b"/proc/self/fd/%d" % fd, -100, b"named", 0x400), os.fstat(fd).st_nlink, sorted(os.listdir()))
    os.pwrite(fd, b"more", 7); os.close(fd)
say(read("named"), shape("named"), attempt(os.open, ".", os.O_TMPFILE | os.O_RDONLY), attempt(os.open, "named", os.O_TMPFILE | os.O_RDWR))
w = os.open(".", os.O_TMPFILE | os.O_WRONLY, 0o400); say(os.write(w, b"x"), attempt(os.pread, w, 1, 0), oct(os.fstat(w).st_mode))
with tempfile.TemporaryFile(dir=".") as f:
    f.write(b"x"); f.flush(); say(os.fstat(f.fileno()).st_size, os.listdir())
""")


# --- names ---


def test_rename_flags(twins):
    twins.run(r"""
NOREPLACE, EXCHANGE, WHITEOUT = 1, 2, 4
def show(): say(sorted((n, read(n) if os.path.isfile(n) else "dir") for n in os.listdir()))
write("a", b"A"); write("b", b"B"); os.mkdir("d"); write("d/x", b"X"); os.mkdir("e")
say(renameat2("a", "b", NOREPLACE), renameat2("a", "c", NOREPLACE)); show()
say(renameat2("b", "c", EXCHANGE)); show()
say(renameat2("b", "d", EXCHANGE), read("b/x"), read("d")); show()
say(renameat2("b", "none", EXCHANGE), renameat2("none", "b", 0), renameat2("b", "c", NOREPLACE | EXCHANGE))
say(renameat2("b", "d", 0), renameat2("d", "b", 0), renameat2("b", "e", 0)); show()
say(renameat2("e", "e/sub", 0), renameat2("e/x", "x", 0), renameat2("x", "x", 0)); show()
os.link("x", "y"); say(renameat2("x", "y", 0)); show()
say(attempt(os.rename, ".", "z"), attempt(os.rename, "x", "w/z"), attempt(os.rmdir, "c"), attempt(os.unlink, "e"))
write("e/full", b""); os.mkdir("f"); say(renameat2("f", "e", 0), attempt(os.rmdir, "e"))
""")


def test_open_directories_move(twins):
    """What is open below a directory stays usable when the directory moves or goes."""
    twins.run(r"""
os.makedirs("a/b/c"); write("a/b/c/f", b"1")
dd = os.open("a/b", os.O_RDONLY); fd = os.open("a/b/c/f", os.O_RDWR)
os.rename("a", "z"); os.mkdir("a")
os.pwrite(fd, b"2", 0); say(read("z/b/c/f"), attempt(read, "a/b/c/f"))
os.rename("z/b", "a/q"); write("a/q/new", b"n"); say(os.listdir(dd), os.stat("c/f", dir_fd=dd).st_size)
os.chdir("a/q/c"); os.rename("../../../a", "../../../y"); say(read("f"), os.listdir("..") == os.listdir("../../../y/q"))
os.rename("f", "../g"); say(read("../g"), os.pread(fd, 2, 0))
""")


def test_links(twins):
    twins.run(r"""
write("a", b"A")
os.link("a", "b"); os.mkdir("d"); os.link("b", "d/c"); say(shape("a"), os.stat("a").st_ino == os.stat("d/c").st_ino)
write("d/c", b"changed"); say(read("a"), read("b"))
os.unlink("a"); say(shape("b"), read("b")); os.rename("b", "e"); os.unlink("e"); say(shape("d/c"), read("d/c"))
say(attempt(os.link, "none", "x"), attempt(os.link, "d", "x"), attempt(os.link, "d/c", "d/c"))
os.symlink("d/c", "s"); os.link("s", "s2", follow_symlinks=False); say(shape("s"), os.readlink("s2"), read("s2"))
os.symlink("x" * 4000, "long"); say(len(os.readlink("long")), os.lstat("long").st_size, attempt(os.symlink, "x" * 4096, "l2"))
os.symlink("/absolute", "abs"); say(os.readlink("abs"), attempt(os.symlink, "x", "abs"), attempt(os.symlink, "", "empty"))
os.symlink("loop", "loop"); say(attempt(read, "loop"), attempt(os.readlink, "d"))
os.utime("s", (7, 8), follow_symlinks=False); say(os.lstat("s").st_mtime)
fd = os.open("d/c", os.O_RDONLY); os.unlink("d/c"); say(attempt(os.link, "/proc/self/fd/%d" % fd, "back", follow_symlinks=True))
""")


def test_special_files(twins):
    twins.run(r"""
os.mkfifo("fifo", 0o640); say(shape("fifo"))
s = socket.socket(socket.AF_UNIX); s.bind("sock"); s.listen(); say(mode("sock"))
c = socket.socket(socket.AF_UNIX); say(c.connect("sock"))
pid = os.fork()
if not pid:
    write("fifo", b"through", os.O_WRONLY); os._exit(0)
say(read("fifo")); os.waitpid(pid, 0)
say(attempt(os.mknod, "reg", 0o100600), shape("reg"))
os.unlink("sock"); os.rename("fifo", "pipe"); say(mode("pipe"))
""")


def test_odd_names(twins):
    twins.run(r"""
os.chdir(b".")
names = [b"\xff\xfe invalid", b"new\nline", b"-rf", b" lead and trail ", b"\x1b[31mred", b"\x01", b"a\\b", b"%s%n", b"x" * 255,
         "ä".encode(), "a\u0308".encode(), b"...", b"~", b"*", b"\xf0\x9f\x90\x9f", b"'\"`$(true)`", b".shfs", b"user.shfs.sync"]
for n in names:
    say(n, write(n, n), read(n) == n); os.mkdir(n[:200] + b".d"); os.rename(n, n[:200] + b".d/" + n)
for t in tree(): say(t)
say(attempt(os.mkdir, b"y" * 256), attempt(os.stat, b"y" * 300), attempt(os.unlink, b"y" * 300), attempt(os.rename, b"-rf.d", b"y" * 300))
""")


def test_random_names_round_trip(sandbox, mounted):
    python(sandbox, r"""
import random
rng = random.Random(5)
alphabet = [bytes([b]) for b in range(1, 256) if b != 0x2f]
names = {b"".join(rng.choices(alphabet, k=rng.randint(1, 255))) for _ in range(400)} - {b".", b".."}
for n in names: write(n, n)
assert set(os.listdir(b".")) == names
assert all(read(n) == n for n in names)
""")


def test_deeper_than_any_path(twins):
    twins.run(r"""
import shutil
name = "d" * 200
top = os.open(".", os.O_RDONLY)
for i in range(60):
    os.mkdir(name); os.chdir(name)
write("leaf", b"deep"); os.symlink("leaf", "s"); os.link("leaf", "h"); os.rename("leaf", "moved")
say(read("s") if os.path.exists("s") else "dangling", read("h"), sorted(os.listdir()))
os.chdir(".."); say(os.listdir()); fd = os.open(name, os.O_RDONLY)
os.fchdir(top); time.sleep(1.1)
say(os.listdir(fd) != [], os.stat("moved", dir_fd=fd).st_size, attempt(os.stat, "/".join([name] * 60)))
os.rename(name, "top"); say(os.stat("moved", dir_fd=fd).st_size); write("top/x", b"")
os.fchdir(top); say(subprocess.run(["rm", "-rf", "top"]).returncode, os.listdir())
""")


# --- attributes ---


def test_attributes(twins):
    twins.run(r"""
write("f", b"x"); os.mkdir("d", 0o700)
for m in 0o600, 0o4755, 0o2755, 0o1644, 0o7777, 0o000, 0o644:
    os.chmod("f", m); say(mode("f"))
os.chmod("d", 0o1777); say(mode("d")); os.chmod("d", 0o2750); say(mode("d"))
os.utime("f", ns=(1234567890123456789, 987654321098765432)); s = os.stat("f"); say(s.st_atime_ns, s.st_mtime_ns)
os.utime("f", ns=(-5 * 10**9, -7 * 10**9)); s = os.stat("f"); say(s.st_atime_ns, s.st_mtime_ns)
os.utime("d", (1, 2)); say(os.stat("d").st_mtime); write("d/x", b""); say(os.stat("d").st_mtime > 10**9)
before = time.time(); os.utime("f"); say(abs(os.stat("f").st_mtime - before) < 5)
say(attempt(os.chown, "f", -1, os.getgid()), shape("f"), attempt(os.chown, "f", 12345, -1), attempt(os.chmod, "none", 0))
os.utime("f", (5, 5)); write("f", b"y", os.O_WRONLY); say(os.stat("f").st_mtime > 10**9)
os.utime("f", (5, 5)); os.chmod("f", 0o600); os.rename("f", "g"); say(os.stat("g").st_mtime)
say(os.statvfs(".").f_namemax, os.statvfs(".").f_bsize, os.access("g", os.X_OK), os.access("d", os.W_OK))
""")


def test_times_are_the_lower_ones(sandbox, mounted):
    """An open file's times, while it is written and right after."""
    python(sandbox, r"""
fd = os.open("f", os.O_RDWR | os.O_CREAT)
os.write(fd, b"1"); t = os.fstat(fd).st_mtime_ns
assert abs(t - time.time_ns()) < 5 * 10**9
os.close(fd); assert os.stat("f").st_mtime_ns == t
time.sleep(1.2); assert os.stat("f").st_mtime_ns == t
os.utime("f", (1, 1)); fd = os.open("f", os.O_RDONLY); os.read(fd, 1); os.close(fd)
assert os.stat("f").st_mtime == 1
""")


def test_umask_and_set_gid_directories(twins):
    twins.run(r"""
for mask in 0o000, 0o022, 0o077, 0o777:
    os.umask(mask); d = "d%o" % mask
    os.mkdir(d); os.close(os.open(d + ".f", os.O_CREAT | os.O_WRONLY, 0o666)); os.mkfifo(d + ".p"); say(shape(d), shape(d + ".f"), shape(d + ".p"))
os.umask(0o022); os.mkdir("sgid"); os.chmod("sgid", 0o2775)
os.mkdir("sgid/sub"); write("sgid/f", b"", mode=0o2775); say(shape("sgid/sub"), shape("sgid/f"))
""")


def test_default_acl(twins):
    twins.run(r"""
os.umask(0o027); os.mkdir("d")
def acl(*args): return subprocess.run(args, capture_output=True, text=True)
say(acl("setfacl", "-d", "-m", "u::rwx,g::r-x,o::---,u:1:rwx,m::rwx", "d").returncode)
write("d/f", b"", mode=0o666); os.mkdir("d/sub"); os.mkfifo("d/p", 0o644); write("d/x", b"", mode=0o700)
for n in "d", "d/f", "d/sub", "d/p", "d/x": say(acl("getfacl", "-cn", n).stdout, mode(n))
say(acl("setfacl", "-m", "u:2:r", "d/f").returncode, acl("getfacl", "-cn", "d/f").stdout)
os.chmod("d/f", 0o640); say(acl("getfacl", "-cn", "d/f").stdout); say(acl("setfacl", "-b", "d/f").returncode, mode("d/f"))
""")


def test_extended_attributes(twins):
    twins.run(r"""
write("f", b""); os.mkdir("d"); os.symlink("f", "s")
for n in "f", "d":
    say(os.setxattr(n, "user.a", b"1"), os.setxattr(n, "user.empty", b""), os.getxattr(n, "user.a"), os.getxattr(n, "user.empty"), sorted(os.listxattr(n)))
say(attempt(os.setxattr, "f", "user.a", b"2", os.XATTR_CREATE), attempt(os.setxattr, "f", "user.b", b"2", os.XATTR_REPLACE))
say(attempt(os.setxattr, "f", "user.big", b"x" * 3000), attempt(os.setxattr, "f", "user.huge", b"x" * 70000))
say(attempt(os.removexattr, "f", "user.a"), attempt(os.removexattr, "f", "user.a"), attempt(os.getxattr, "f", "user.a"))
say(attempt(os.setxattr, "s", "user.a", b"1", follow_symlinks=False), attempt(os.listxattr, "s", follow_symlinks=False), attempt(os.getxattr, "s", "user.x", follow_symlinks=False))
say(attempt(os.setxattr, "f", "nonsense", b""), attempt(os.setxattr, "f", "user.", b""), attempt(os.getxattr, "f", "user.shfs.sync"))
say(attempt(os.setxattr, "f", "trusted.t", b"v"), attempt(os.getxattr, "f", "trusted.t"), sorted(os.listxattr("f")))
say(attempt(os.setxattr, "s", "trusted.t", b"v", follow_symlinks=False), attempt(os.getxattr, "s", "trusted.t", follow_symlinks=False))
""")


def test_file_flags(twins):
    twins.prepare(r"""
write("probe", b"")
def flags(*a): return subprocess.run(["chattr", *a], capture_output=True).returncode
""")
    twins.run(r"""
def ch(*a): return subprocess.run(["chattr", *a], capture_output=True).returncode
def ls(n): return subprocess.run(["lsattr", "-d", n], capture_output=True, text=True).stdout
write("f", b"x"); os.mkdir("d")
say(ls("f"), ls("d"), ch("+A", "f"), ls("f"), ch("+i", "f"), ls("f"))
say(attempt(write, "f", b"y"), attempt(os.unlink, "f"), attempt(os.rename, "f", "g"), ch("-i", "f"))
say(ch("+a", "d"), attempt(write, "d/new", b""), attempt(os.unlink, "d/new"), ch("-a", "d"), attempt(os.unlink, "d/new"), os.listdir())
""")


@pytest.mark.transports
def test_locks(twins):
    twins.run(r"""
fd = os.open("f", os.O_RDWR | os.O_CREAT); other = os.open("f", os.O_RDWR)
fcntl.flock(fd, fcntl.LOCK_EX); say(attempt(fcntl.flock, other, fcntl.LOCK_EX | fcntl.LOCK_NB))
fcntl.flock(fd, fcntl.LOCK_UN); say(attempt(fcntl.flock, other, fcntl.LOCK_SH | fcntl.LOCK_NB), attempt(fcntl.flock, fd, fcntl.LOCK_SH | fcntl.LOCK_NB))
fcntl.lockf(fd, fcntl.LOCK_EX, 10, 0)
pid = os.fork()
if not pid:
    say(attempt(fcntl.lockf, other, fcntl.LOCK_EX | fcntl.LOCK_NB, 5, 5), attempt(fcntl.lockf, other, fcntl.LOCK_EX | fcntl.LOCK_NB, 5, 20))
    os._exit(0)
os.waitpid(pid, 0); os.close(other)
pid = os.fork()
if not pid:
    o = os.open("f", os.O_RDWR); say(attempt(fcntl.lockf, o, fcntl.LOCK_EX | fcntl.LOCK_NB)); os._exit(0)
os.waitpid(pid, 0)
""")


def test_calls_for_other_kinds_of_files(twins):
    twins.run(r"""
fd = os.open("f", os.O_RDWR | os.O_CREAT)
say(select.select([fd], [fd], [], 1) == ([fd], [fd], []))
say(call("ioctl", fd, 0x1234), attempt(os.isatty, fd))
""")


def test_programs(twins):
    twins.run(r"""
import shutil
shutil.copy("/bin/true", "t"); os.chmod("t", 0o755); say(subprocess.run(["./t"]).returncode)
with open("s", "w") as f: f.write("#!/bin/sh\necho script $1\n")
os.chmod("s", 0o755); say(subprocess.run(["./s", "x"], capture_output=True).stdout)
shutil.copy("/bin/sleep", "sleep"); p = subprocess.Popen(["./sleep", "60"])
say(attempt(write, "sleep", b"x"), attempt(os.truncate, "sleep", 0)); p.kill(); p.wait(); say(attempt(write, "sleep", b"x", os.O_WRONLY))
fd = os.open("t", os.O_WRONLY); say(attempt(os.execv, "./t", ["t"])); os.close(fd)
os.chmod("t", 0o644); say(attempt(os.execv, "./t", ["t"]))
write("bad", b"\x7fELF nonsense", mode=0o755); say(attempt(os.execv, "./bad", ["bad"]))
""")


def test_file_size_limit(twins):
    twins.run(r"""
import resource
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
fd = os.open("f", os.O_WRONLY | os.O_CREAT)
say(attempt(os.write, fd, b"x" * 4000), attempt(os.write, fd, b"x" * 4000), attempt(os.write, fd, b"x"), attempt(os.ftruncate, fd, 6000))
say(os.fstat(fd).st_size)
""")


# --- directories ---


@pytest.mark.transports
def test_big_directory(twins):
    n = 20000 if harness.ALL else 2000
    twins.prepare(f"""
os.mkdir("big")
for i in range({n}): os.close(os.open("big/file-%05d" % i, os.O_CREAT | os.O_WRONLY))
""")
    twins.run(f"n = {n}" + r"""
say(len(os.listdir("big")), sorted(os.listdir("big")) == ["file-%05d" % i for i in range(n)])
say(len([e for e in os.scandir("big") if e.is_file() and e.stat().st_size == 0]))
d = os.scandir("big"); seen = [next(d).name for i in range(n // 4)]
for i in range(n // 2, n): os.unlink("big/file-%05d" % i)
for i in range(100): os.mkdir("big/new-%d" % i)
seen += [e.name for e in d]
stay = {"file-%05d" % i for i in range(n // 2)}
say(len(seen) == len(set(seen)), stay <= set(seen), len(os.listdir("big")))
for e in os.scandir("big"): (os.rmdir if e.is_dir() else os.unlink)(e.path)
say(os.listdir("big"), os.stat("big").st_nlink)
""", timeout=120)


def test_rewinddir_and_seekdir(sandbox, mounted):
    program = sandbox.compile("seek", r"""
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <fcntl.h>
#include <unistd.h>
int main(void) {
	char name[64], at[64] = "";
	long where = 0;
	int n = 0;
	for (int i = 0; i < 1000; i++) { sprintf(name, "f%d", i); close(open(name, O_CREAT | O_RDWR, 0600)); }
	DIR *d = opendir(".");
	for (struct dirent *e; (e = readdir(d)); n++) {
		if (n == 700) { strcpy(at, e->d_name); break; }
		where = telldir(d);
	}
	seekdir(d, where);
	if (strcmp(readdir(d)->d_name, at)) return 1;
	rewinddir(d);
	for (n = 0; readdir(d); n++) ;
	if (n != 1002) return 2;
	close(open("later", O_CREAT | O_RDWR, 0600));
	rewinddir(d);
	for (n = 0; readdir(d); n++) ;
	return n == 1003 ? 0 : 3;
}""")
    sandbox.run(program)


def test_many_files_with_few_descriptors(sandbox):
    """More files are known than may be open; each is still reached, and open ones stay."""
    n = 1000 if harness.ALL else 60  # in each directory
    sandbox.run("/usr/bin/python3", "-c", f"n = {n}" + r"""
import os
for d in range(40):
    os.mkdir("d%d" % d)
    for i in range(n): os.close(os.open("d%d/f%d" % (d, i), os.O_CREAT | os.O_WRONLY))
""", timeout=120)
    mount = limited_mount(sandbox, 256)
    python(sandbox, f"many = {n}" + r"""
held = [os.open("d0/f%d" % i, os.O_RDWR) for i in range(20)]
n = sum(1 for where, dirs, files in os.walk(".") for f in files if os.stat(os.path.join(where, f)).st_size == 0)
assert n == 40 * many, n
for d in range(40):
    for i in range(0, many, many // 10): write("d%d/f%d" % (d, i), b"%d" % i)
for fd in held: os.write(fd, b"held")
assert read("d39/f%d" % (many // 10)) == b"%d" % (many // 10) and read("d0/f1") == b"held"
keep = [os.open("d1/f%d" % i, os.O_RDONLY) for i in range(10)]
for i in range(10): os.unlink("d1/f%d" % i)
for d in range(2, 40): os.stat("d%d/f5" % d)
assert all(os.fstat(fd).st_nlink == 0 for fd in keep)
""", timeout=120)
    assert len(os.listdir(f"/proc/{mount.process.pid}/fd")) <= 256


def limited_mount(sandbox, descriptors):
    """shfs-fuse that may not open more files than so many."""
    script = 'ulimit -n "$1"; shift; exec "$@"'
    popen = sandbox.popen

    def limited(argv, **options):
        return popen(["/bin/sh", "-c", script, "sh", str(descriptors), *argv], **options)

    sandbox.popen = limited
    try:
        return sandbox.mount()
    finally:
        sandbox.popen = popen


def test_more_open_files_than_descriptors(sandbox):
    """Too many is EMFILE or ENFILE, cleanly, and it passes."""
    limited_mount(sandbox, 256)
    python(sandbox, r"""
held = []
try:
    for i in range(400): held.append(os.open("f%d" % i, os.O_RDWR | os.O_CREAT))
except OSError as e:
    assert e.errno in (errno.EMFILE, errno.ENFILE), e
assert 50 < len(held) < 128, len(held)
os.write(held[3], b"x")
os.mkdir("d"); os.mkfifo("d/p"); os.rename("d/p", "d/q"); os.link("f3", "d/h"); assert os.stat("f9").st_size == 0 and os.path.exists("d/h")
os.symlink("x", "s"); os.chmod("f5", 0o600); os.unlink("d/h"); os.unlink("d/q"); os.rmdir("d"); os.unlink("s")
for i in range(len(held)): os.rename("f%d" % i, "r%d" % i); os.unlink("r%d" % i); assert os.fstat(held[i]).st_nlink == 0
for i in range(len(held)): os.mknod("f%d" % i); assert os.fstat(held[i]).st_size == (i == 3)
for fd in held: os.close(fd)
assert {"f%d" % i for i in range(len(held))} <= set(os.listdir())
for i in range(100): write("g%d" % i, b"%d" % i)
assert read("g77") == b"77" and read("f3") == b""
""")


# --- programs that people use ---


def test_git(sandbox, mounted):
    sandbox.sh(r"""
set -e
export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a
git init -q -b main one; cd one
for d in 1 2 3 4 5; do mkdir $d; for f in 1 2 3 4 5 6 7 8 9; do echo $d $f > $d/$f; done; done
git add -A; git commit -qm first
git checkout -qb side; git mv 1 renamed; echo more >> renamed/1; rm 2/2; git commit -qam second
git checkout -q main; echo main >> 3/3; git commit -qam third; git merge -qm merge side
git stash -q -u 2>/dev/null || true; git rebase -q side >/dev/null 2>&1 || git rebase --abort
git gc -q --prune=now; git fsck --strict --no-progress
test -z "$(git status --porcelain)"
cd ..; git clone -q one two; cd two; git checkout -q side; git fsck --no-progress
test -z "$(git status --porcelain)"; test -f renamed/1; test ! -e 2/2
git worktree add -q ../three main; cd ../three; test -z "$(git status --porcelain)"; git reset -q --hard HEAD~1
""", timeout=120)


def test_make_a_c_program(sandbox, mounted):
    sandbox.sh(r"""
set -e
for i in $(seq 40); do echo "int f$i(void) { return $i; }" > f$i.c; done
{ for i in $(seq 40); do echo "int f$i(void);"; done
  echo "int main(void) { int n = 0;"; for i in $(seq 40); do echo "n += f$i();"; done; echo 'return n == 820 ? 0 : 1; }'; } > main.c
printf 'prog: $(patsubst %%.c,%%.o,$(wildcard *.c))\n\tgcc -o $@ $^\n%%.o: %%.c\n\tgcc -O1 -g -c -o $@ $<\n' > Makefile
make -s -j4; ./prog
make -q; touch f7.c; ! make -q; make -s -j4; ./prog
""", timeout=120)


def test_sqlite(sandbox, mounted):
    python(sandbox, r"""
import sqlite3
for kind in "delete", "wal", "truncate", "persist":
    db = sqlite3.connect(kind + ".db"); db.execute("pragma journal_mode=" + kind)
    db.execute("create table t (a integer primary key, b blob)")
    def worker(n):
        own = sqlite3.connect(kind + ".db", timeout=60)
        for i in range(15):
            with own: own.execute("insert into t (b) values (?)", (os.urandom(2000),))
        own.close()
    threads = [threading.Thread(target=worker, args=(n,)) for n in range(4)]
    for t in threads: t.start()
    for t in threads: t.join()
    assert db.execute("select count(*) from t").fetchone() == (60,)
    assert db.execute("pragma integrity_check").fetchone() == ("ok",), kind
    db.execute("delete from t where a % 2"); db.commit(); db.execute("vacuum"); db.close()
    db = sqlite3.connect(kind + ".db"); assert db.execute("pragma integrity_check").fetchone() == ("ok",)
""", timeout=120)


def test_editors_and_sed(sandbox, mounted):
    sandbox.write("f", b"one\ntwo\nthree\n")
    sandbox.sh("sed -i s/two/2/ f")
    sandbox.run("vim", "-Nesu", "NONE", "-c", "%s/three/3/", "-c", "wq", "f", check=False)
    assert sandbox.read("f") == b"one\n2\n3\n"
    sandbox.run("vim", "-Nesu", "NONE", "-c", "set writebackup backupcopy=yes", "-c", "%s/3/III/", "-c", "wq", "f", check=False)
    assert sandbox.read("f") == b"one\n2\nIII\n"
    sandbox.run("perl", "-pi.bak", "-e", "s/one/1/", "f")
    assert sandbox.read("f") == b"1\n2\nIII\n" and sandbox.read("f.bak") == b"one\n2\nIII\n"
    assert sorted(sandbox.sh("ls -A").stdout.split()) == ["f", "f.bak"]


def test_nano(sandbox, mounted, shell):
    sh = shell("bash", init=False)
    sh.send("nano -I note\r")
    sh.pty.expect_exact("Help")
    sh.send("written by nano\x0f")
    sh.pty.expect_exact("Write")
    sh.send("\r\x18")
    sh.wait()
    assert sandbox.read("note") == b"written by nano\n"


def test_tar_rsync_and_trees(sandbox, mounted):
    sandbox.sh(r"""
set -e
mkdir src; cd src; mkdir -p a/b/c; echo x > a/f; ln -s f a/s; ln a/f a/b/h; mkfifo a/p; chmod 640 a/f; touch -d 2001-02-03 a/b
printf '\377name' > "$(printf 'a/\377name')"; truncate -s 1M a/sparse; setfattr -n user.k -v v a/f; cd ..
tar --xattrs -Scf t.tar src; mkdir out; tar --xattrs -xpf t.tar -C out
rsync -aHAX --exclude='*.pyc' src/ synced/; cp -a src copied
for d in out/src synced copied; do
  diff -r --no-dereference src/a/b $d/a/b; test "$(stat -c '%a %h %Y' src/a/f src/a/b)" = "$(stat -c '%a %h %Y' $d/a/f $d/a/b)"
  test "$(getfattr --only-values -n user.k $d/a/f)" = v; test "$(readlink $d/a/s)" = f; test -p $d/a/p
done
test -z "$(rsync -aHAXni --delete src/ synced/)"; rm -rf src out synced copied; test "$(ls)" = t.tar
""", timeout=60)


def test_a_python_environment(sandbox, mounted):
    sandbox.sh(r"""
set -e
/usr/bin/python3 -m venv --without-pip env
env/bin/python -c 'import sys; assert sys.prefix != sys.base_prefix'
mkdir pkg; echo 'x = 1' > pkg/__init__.py; env/bin/python -c 'import pkg; assert pkg.x == 1'
ls pkg/__pycache__/*.pyc > /dev/null; echo 'x = 22' > pkg/__init__.py; env/bin/python -c 'import pkg; assert pkg.x == 22'
""", timeout=60)


# --- many at once ---


STRESS = r"""
import random
names = ["n%d" % i for i in range(6)] + ["d%d/n%d" % (i, j) for i in range(2) for j in range(3)]
for i in range(2): os.makedirs("d%d" % i, exist_ok=True)
usual = {errno.ENOENT, errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR, errno.EISDIR}

def one(rng):
    a, b = rng.sample(names, 2)
    what = rng.randrange(12)
    if what < 3: write(a, os.urandom(rng.choice((10, 5000, 70000))))
    elif what == 3: write(a, b"+", os.O_WRONLY | os.O_APPEND)
    elif what == 4: os.rename(a, b)
    elif what == 5: renameat2(a, b, 2)
    elif what == 6: os.unlink(a)
    elif what == 7: os.link(a, b)
    elif what == 8: read(a)
    elif what == 9: os.truncate(a, rng.randrange(9000))
    elif what == 10: os.listdir("d0"); os.stat(a); os.chmod(a, 0o600)
    else:
        fd = os.open(a, os.O_RDWR)
        try:
            os.write(fd, b"abc"); os.unlink(a); os.pwrite(fd, b"more", 100); os.ftruncate(fd, 50)
        finally:
            os.close(fd)
        private = "%d" % threading.get_native_id()
        fd = os.open(private, os.O_RDWR | os.O_CREAT)
        os.ftruncate(fd, 9000); m = mmap.mmap(fd, 9000); os.close(fd); m[0:3] = b"map"; os.rename(private, b); m.close()

def worker(seed, seconds):
    rng = random.Random(seed); end = time.monotonic() + seconds; n = 0
    while time.monotonic() < end:
        try:
            one(rng); n += 1
        except OSError as e:
            if e.errno not in usual: raise
    return n

children = []
for seed in range(6):
    pid = os.fork()
    if not pid:
        try:
            threads = [threading.Thread(target=worker, args=(seed * 10 + t, SECONDS)) for t in range(2)]
            threading.excepthook = lambda a: (print(a.exc_value, file=sys.stderr), os._exit(1))
            for t in threads: t.start()
            for t in threads: t.join()
        except BaseException as e:
            print(e, file=sys.stderr); os._exit(1)
        os._exit(0)
    children.append(pid)
assert all([os.waitpid(pid, 0)[1] == 0 for pid in children])
"""


def test_everything_at_once(sandbox, mounted):
    python(sandbox, STRESS.replace("SECONDS", "4" if harness.ALL else "2"), timeout=60)
    names = sandbox.sh("find . -type f | sort; find . -type f -exec cat {} + > /dev/null").stdout
    assert sandbox.sh("ls -R > /dev/null; getfattr --only-values -n user.shfs.sync .").stdout == "ok"
    mounted.unmount()
    assert sandbox.sh("find . -type f | sort").stdout == names
