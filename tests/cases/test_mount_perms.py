# SPDX-License-Identifier: MIT
"""Who may do what: one mount of root for several users, and that of an ordinary user."""

import os

import pytest

import harness
from twins import compare, python


# --- several users, one mount of root ---


def as_ordinary(sandbox, script, **options):
    """The script as the ordinary user, below a directory of theirs in root's mount."""
    other = harness.User("ordinary")
    before, sandbox.user = sandbox.user, other
    try:
        return python(sandbox, script, **options)
    finally:
        sandbox.user = before


@pytest.fixture
def shared(sandbox):
    """root's mount with a directory for each user, and the same beneath a plain directory."""
    other = harness.User("ordinary")
    plain = sandbox.mkdir(os.path.join(sandbox.home, "plain"))
    for top in sandbox.project, plain:
        os.chmod(top, 0o777)
        for name, mode in ("theirs", 0o755), ("sgid", 0o2777), ("sticky", 0o1777), ("closed", 0o700):
            os.mkdir(f"{top}/{name}")
            os.chmod(f"{top}/{name}", mode)
            with open(f"{top}/{name}/root's", "w") as f:
                f.write("root wrote this\n")
            os.chmod(f"{top}/{name}/root's", 0o644)
        os.chown(f"{top}/theirs", other.uid, other.gid)
        for name, mode in ("set-id", 0o6777), ("private", 0o600), ("shared", 0o666):
            with open(f"{top}/{name}", "w") as f:
                f.write("0123456789")
            os.chmod(f"{top}/{name}", mode)
    sandbox.mount(sandbox.project, "--allow-other")

    def run(script):
        compare(*(as_ordinary(sandbox, script, cwd=d) for d in (plain, sandbox.project)))

    return run


@pytest.mark.users("root")
def test_files_belong_to_who_makes_them(shared):
    shared(r"""
os.chdir("theirs"); os.umask(0o026)
write("f", b"x", mode=0o666); os.mkdir("d"); os.symlink("f", "s"); os.mkfifo("p"); os.link("f", "h"); os.mknod("n", 0o100666)
for n in sorted(os.listdir()): say(n, shape(n))
os.chdir("../sgid"); write("f", b"", mode=0o2777); os.mkdir("d"); say(shape("f"), shape("d"))
""")


@pytest.mark.users("root")
def test_others_have_only_their_rights(shared):
    shared(r"""
say(attempt(read, "private"), attempt(write, "private", b"x"), attempt(os.listdir, "closed"), attempt(read, "closed/root's"))
say(attempt(os.chmod, "shared", 0o777), attempt(os.chown, "shared", os.getuid(), -1), attempt(os.utime, "shared", (1, 1)), attempt(os.utime, "shared"))
say(attempt(os.unlink, "sticky/root's"), attempt(os.rename, "sticky/root's", "x"), attempt(os.unlink, "sgid/root's"), attempt(os.truncate, "private", 0))
say(attempt(os.mknod, "dev", stat.S_IFCHR | 0o666, os.makedev(1, 3)), attempt(os.setxattr, "private", "user.a", b""), attempt(os.setxattr, "shared", "trusted.a", b""))
write("shared", b"theirs", os.O_WRONLY); say(read("shared"), shape("shared"))
say(attempt(os.link, "private", "theirs/link"), attempt(os.getxattr, "private", "user.a"), os.listxattr("shared"))
""")


@pytest.mark.users("root")
def test_others_are_not_told_of_the_recording(sandbox, shared):
    """Neither its status nor, by a sync, when it is done."""
    for name in "status", "sync", "other":
        argv = ["getfattr", "--only-values", "-n", f"user.shfs.{name}", sandbox.project]
        assert bool(sandbox.run(*argv, check=False, cwd="/").stdout) == (name != "other")
        as_ordinary(sandbox, f"assert attempt(os.getxattr, '.', 'user.shfs.{name}') == 'EACCES'", cwd=sandbox.project)


@pytest.mark.users("root")
@pytest.mark.parametrize("change", [
    "fd = os.open('set-id', os.O_WRONLY); os.write(fd, b'x'); os.close(fd)",
    "os.truncate('set-id', 3)",
    "fd = os.open('set-id', os.O_WRONLY); os.ftruncate(fd, 3); os.close(fd)",
    "fd = os.open('set-id', os.O_WRONLY | os.O_TRUNC); os.close(fd)",
    "fd = os.open('set-id', os.O_WRONLY); libc.fallocate(fd, 0, ctypes.c_long(0), ctypes.c_long(99)); os.close(fd)",
    "fd = os.open('set-id', os.O_RDWR); r = os.open('shared', os.O_RDONLY); os.copy_file_range(r, fd, 3); os.close(fd)",
    "fd = os.open('set-id', os.O_RDWR); m = mmap.mmap(fd, 0); m[0:1] = b'x'; m.flush(); m.close(); os.close(fd)",
    "os.utime('set-id')",
    "fd = os.open('set-id', os.O_WRONLY); os.close(fd)",
])
def test_set_id_bits_after_a_change(shared, change):
    shared(f"say(shape('set-id')); {change}; say(shape('set-id'))")


@pytest.mark.users("root")
def test_set_id_bits_set_while_open(sandbox, shared):
    shared(r"""
os.chdir("theirs"); fd = os.open("mine", os.O_RDWR | os.O_CREAT, 0o777)
os.chmod("mine", 0o4777); say(mode("mine")); os.write(fd, b"x"); say(mode("mine"))
""")


# --- several users in one script, which root runs ---


WHO = r"""
def by(uid, gid, groups, what):
    # runs what() as somebody else; prints in order
    pid = os.fork()
    if not pid:
        os.setgroups(groups); os.setresgid(gid, gid, gid); os.setresuid(uid, uid, uid); os.umask(0o022)
        try: say(uid, gid, groups, what())
        except OSError as e: say(uid, gid, groups, errno.errorcode[e.errno])
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
A, B = (2001, 2001), (2002, 2002)
TEAM = 2100
os.umask(0o022)
"""


@pytest.fixture
def several(sandbox):
    """Runs a script of root's, which turns into others, in a plain directory and on a mount.
    What it does at beneath(name) is done under the mount."""
    plain = sandbox.mkdir(os.path.join(sandbox.home, "plain"), 0o777)
    os.chmod(sandbox.project, 0o777)
    fds = [os.open(d, os.O_PATH) for d in (plain, sandbox.project)]
    sandbox.mount(sandbox.project, "--allow-other")

    def in_one(script, fd, cwd):
        beneath = f"def beneath(name): return f'/proc/self/fd/{fd}/{{name}}'\n"
        return python(sandbox, WHO + beneath + script, cwd=cwd, pass_fds=(fd,))

    def run(script):
        compare(*(in_one(script, *where) for where in zip(fds, (plain, sandbox.project))))

    yield run
    for fd in fds:
        os.close(fd)


@pytest.mark.users("root")
def test_who_may_change_mode_and_owner(several):
    several(r"""
def fresh(uid, gid, mode):
    if os.path.lexists("f"): os.unlink("f")
    write("f", b"x"); os.chown("f", uid, gid); os.chmod("f", mode)
def show(*_): return shape("f")
for who in A, B, (0, 0):
    for groups in [], [TEAM]:
        for gid in 2001, TEAM:
            for mode in 0o644, 0o2775, 0o6755:
                fresh(2001, gid, 0o644); by(*who, groups, lambda: os.chmod("f", mode)); show(say(show()))
        for owner, group in (2001, -1), (2002, -1), (-1, TEAM), (-1, 2002), (-1, 2001), (0, 0):
            fresh(2001, 2001, 0o6755); by(*who, groups, lambda: os.chown("f", owner, group)); say(owner, group, show())
        fresh(2001, 2001, 0o666); by(*who, groups, lambda: os.utime("f", (1, 1))); by(*who, groups, lambda: os.utime("f"))
        fresh(2001, 2001, 0o606); by(*who, groups, lambda: read("f"))
        fresh(2003, TEAM, 0o060); by(*who, groups, lambda: (read("f"), write("f", b"y", os.O_WRONLY)))
os.mkdir("d"); os.chown("d", 2001, TEAM); by(*A, [], lambda: os.chmod("d", 0o2775)); say(shape("d")); by(*A, [TEAM], lambda: os.chmod("d", 0o2775)); say(shape("d"))
by(*A, [TEAM], lambda: os.chown("d", -1, 2001)); say(shape("d"))
""")


@pytest.mark.users("root")
def test_new_files_of_several_users(several):
    """Owner, group and mode in plain, set-gid and sticky directories, with supplementary groups."""
    several(r"""
for name, mode in ("open", 0o777), ("sgid", 0o2777), ("sticky", 0o1777), ("team", 0o2770), ("owned", 0o755):
    os.mkdir(name); os.chown(name, 2001, TEAM); os.chmod(name, mode)
def make(d, n):
    write(f"{d}/{n}", b"x", mode=0o2775); os.mkdir(f"{d}/{n}.d"); os.mkfifo(f"{d}/{n}.p"); os.symlink("x", f"{d}/{n}.s")
for d in "open", "sgid", "sticky", "team", "owned":
    for i, (who, groups) in enumerate(((A, []), (A, [TEAM]), (B, []), (B, [TEAM]), ((0, 0), []), ((2001, TEAM), []), ((0, TEAM), []), (B, [*range(9000, 12000), TEAM]))):
        by(*who, groups, lambda: make(d, str(i)))
    for t in tree(os.fsencode(d)): say(t[:2])
for d in "sticky", "open":
    for n in "0", "2", "4":
        for act in (lambda: os.unlink(f"{d}/{n}"), lambda: os.rename(f"{d}/{n}.d", f"{d}/{n}.e"), lambda: os.rename(f"{d}/{n}.s", "open/new"), lambda: os.link(f"{d}/{n}", "open/hard")):
            by(*B, [], act); by(*A, [TEAM], act)
""")


@pytest.mark.users("root")
def test_default_acls_of_several_users(several):
    several(r"""
def acl(*args): return subprocess.run(args, capture_output=True, text=True).stdout
os.mkdir("d"); os.chmod("d", 0o2777)
if subprocess.run(["setfacl", "-d", "-m", "u::rwx,g::rx,o::-,u:2002:rwx,g:2100:r,m::rwx", "d"]).returncode == 0:
    by(*A, [], lambda: (write("d/f", b"x", mode=0o666), os.mkdir("d/sub"), write("d/sub/g", b"x", mode=0o600)))
    for n in "d/f", "d/sub", "d/sub/g": say(acl("getfacl", "-cnp", n), shape(n))
    for who, groups in (B, []), ((2003, 2003), [TEAM]), ((2003, 2003), []):
        by(*who, groups, lambda: read("d/f")); by(*who, groups, lambda: write("d/f", b"y", os.O_WRONLY)); by(*who, groups, lambda: os.listdir("d/sub"))
    by(*B, [], lambda: os.chmod("d/f", 0o777)); by(*A, [], lambda: os.chmod("d/f", 0o2740)); say(acl("getfacl", "-cnp", "d/f"), shape("d/f"))
    by(*B, [], lambda: os.setxattr("d/f", "system.posix_acl_access", b"")); by(*A, [], lambda: os.removexattr("d/f", "system.posix_acl_access")); say(shape("d/f"))
""")


@pytest.mark.users("root")
def test_set_gid_goes_with_what_its_owner_sets(several):
    """Where the owner is not in the group, or the group may not execute the file."""
    several(r"""
def fresh(mode):
    if os.path.lexists("f"): os.unlink("f")
    write("f", b"x"); os.chown("f", 2001, TEAM); os.chmod("f", mode)
def acl(): return subprocess.run(["setfacl", "-m", "u:2002:rwx", "f"], stderr=subprocess.DEVNULL).returncode
for mode in 0o2755, 0o2644, 0o6755:
    for who in A, (0, 0):
        for groups in [], [TEAM]:
            fresh(mode); by(*who, groups, acl); say("acl", shape("f"))
            fresh(mode); by(*who, groups, lambda: os.chown("f", -1, 2001)); say("chown", shape("f"))
            fresh(mode); by(*who, groups, lambda: os.setxattr("f", "user.a", b"1")); say("xattr", shape("f"))
""")


@pytest.mark.users("root")
def test_set_gid_without_execution_stays_for_its_group(several):
    several(r"""
def opened(how, what):
    fd = os.open("f", how); what(fd); os.close(fd)
CHANGES = [lambda: opened(os.O_WRONLY, lambda fd: os.write(fd, b"x")), lambda: opened(os.O_WRONLY | os.O_APPEND, lambda fd: os.write(fd, b"x")),
           lambda: os.truncate("f", 3), lambda: opened(os.O_RDWR, lambda fd: os.ftruncate(fd, 3)), lambda: opened(os.O_WRONLY | os.O_TRUNC, lambda fd: 0),
           lambda: opened(os.O_WRONLY | os.O_TRUNC, lambda fd: os.write(fd, b"x")), lambda: opened(os.O_WRONLY, lambda fd: os.posix_fallocate(fd, 0, 99)),
           lambda: opened(os.O_WRONLY, lambda fd: os.copy_file_range(os.open("from", os.O_RDONLY), fd, 5) and None)]
write("from", b"0123456789")
for mode in 0o2664, 0o2674, 0o6664:
    for groups in [], [TEAM]:
        for n, change in enumerate(CHANGES):
            write("f", b"0123456789"); os.chown("f", 2001, TEAM); os.chmod("f", mode | 2)
            by(*B, groups, change); say(n, shape("f"))
""")


@pytest.mark.users("root")
def test_capabilities_of_files_go_with_a_write(several):
    several(r"""
CAP = struct.pack("<IIIII", 0x02000001, 1 << 10, 0, 0, 0)
for change in (lambda: write("f", b"y", os.O_WRONLY), lambda: os.truncate("f", 0), lambda: os.chown("f", -1, 2001), lambda: os.chmod("f", 0o700), lambda: os.utime("f"),
               lambda: libc.fallocate(os.open("f", os.O_WRONLY), 0, ctypes.c_long(0), ctypes.c_long(9)), lambda: os.rename("f", "g") or os.rename("g", "f")):
    write("f", b"x"); os.chown("f", *A); os.chmod("f", 0o777)
    for who in A, (0, 0):
        os.setxattr("f", "security.capability", CAP); by(*who, [], change); say(attempt(os.getxattr, "f", "security.capability"), mode("f"))
""")


@pytest.mark.users("root")
def test_programs_of_several_users(several):
    """Execute-only, unreadable scripts, a directory that cannot be listed."""
    several(r"""
import shutil
shutil.copy("/bin/true", "t"); os.chmod("t", 0o711); shutil.copy("/bin/sh", "only-x"); os.chmod("only-x", 0o111)
write("s", b"#!/bin/sh\nexit 3\n", mode=0o755); write("secret", b"#!/bin/sh\nexit 3\n"); os.chmod("secret", 0o711)
os.mkdir("closed"); shutil.copy("/bin/true", "closed/t"); os.chmod("closed", 0o711)
def run(*argv): return subprocess.run(argv, stderr=subprocess.DEVNULL).returncode
for who in A, (0, 0):
    for argv in ("./t",), ("./only-x", "-c", "exit 5"), ("./s",), ("./secret",), ("closed/t",): by(*who, [], lambda: run(*argv))
    by(*who, [], lambda: read("t")); by(*who, [], lambda: os.listdir("closed"))
""")


@pytest.mark.users("root")
def test_made_beneath_before_it_is_created(several):
    """The kernel was told that there is no such file: who may open it is still asked."""
    several(r"""
def create(flags=0):
    fd = os.open(name, os.O_RDWR | os.O_CREAT | flags, 0o644)
    os.pwrite(fd, b"T", 0); return os.pread(fd, 99, 0)
for mode in 0o600, 0o640, 0o660, 0o666:
    for groups in [], [TEAM]:
        for flags in 0, os.O_TRUNC, os.O_EXCL:
            name = f"{mode}-{groups}-{flags}"
            by(*A, groups, lambda: os.path.lexists(name))
            write(beneath(name), b"top secret", mode=0o600); os.chown(beneath(name), 0, TEAM); os.chmod(beneath(name), mode)
            by(*A, groups, lambda: create(flags)); say(shape(name), read(beneath(name)))
name = "kept"; by(*A, [], lambda: os.path.lexists(name)); write(beneath(name), b"top secret"); by(0, 0, [], create); say(read(name))
""")


@pytest.mark.users("root")
@pytest.mark.parametrize("replace", [
    "os.unlink(beneath('x')); write(beneath('x'), b'root', mode=0o600)",
    "write(beneath('new'), b'root', mode=0o600); os.rename(beneath('new'), beneath('x'))",
], ids=["removed", "renamed"])
def test_replaced_beneath_in_a_sticky_directory(several, replace):
    """It is not any more the file of whom the kernel believes it is."""
    several(f"""
os.chmod(beneath("."), 0o1777)
def make(): write("x", b"mine"); write("y", b"mine too"); return shape("x"), shape("y")
for act in (lambda: os.unlink("x")), (lambda: os.rename("x", "z")), (lambda: os.rename("y", "x")), (lambda: renameat2("x", "y", 2)):
    by(*A, [], make); {replace}
    by(*A, [], act); say([(n, attempt(read, beneath(n)), attempt(shape, n)) for n in "xyz"])
    for name in os.listdir(): os.unlink(name)
""")


@pytest.mark.users("root")
def test_set_id_programs_and_devices_are_without_power(sandbox):
    """The mount is nosuid and nodev, whoever makes it: docs/mount.md."""
    sandbox.mount(sandbox.project, "--allow-other")
    python(sandbox, WHO + r"""
import shutil
shutil.copy("/usr/bin/id", "id"); os.chmod("id", 0o6755); say(mode("id"))
by(*A, [], lambda: say(subprocess.run(["./id", "-u"], capture_output=True).stdout) or 0)
assert mode("id") == "0o106755"
os.mknod("null", stat.S_IFCHR | 0o666, os.makedev(1, 3)); assert os.stat("null").st_rdev == os.makedev(1, 3)
assert attempt(read, "null") == "EACCES"
r, w = os.pipe()
pid = os.fork()
if not pid:
    os.setresgid(2001, 2001, 2001); os.setresuid(2001, 2001, 2001); os.dup2(w, 1); os.execv("./id", ["id", "-u"])
os.waitpid(pid, 0); assert os.read(r, 99) == b"2001\n"
""")


@pytest.mark.users("ordinary")
def test_roots_way_into_a_users_mount(sandbox, mounted):
    """Not even root may enter it; a clean refusal. Its owner's set-id programs and files of
    mode 0 are as docs/mount.md says."""
    if os.geteuid() == 0:
        with pytest.raises(PermissionError):
            os.stat(sandbox.project)
        with pytest.raises(PermissionError):
            os.listdir(sandbox.project)
    python(sandbox, r"""
import shutil
shutil.copy("/bin/true", "t"); os.chmod("t", 0o111)
assert attempt(subprocess.run, ["./t"]) == "EACCES"     # cannot be read by who serves it
os.chmod("t", 0o511); assert subprocess.run(["./t"]).returncode == 0
""")


def test_open_in_a_directory_that_may_not_be_entered(twins):
    """Who has a file open needs no way to it."""
    twins.run(r"""
os.mkdir("d"); write("d/f", b"abc"); write("d/g", b"abc")
f = os.open("d/f", os.O_RDWR); g = os.open("d/g", os.O_RDONLY); h = os.open("d/f", os.O_WRONLY)
os.chmod("d", 0); os.write(f, b"x")
say(attempt(lambda: os.fstat(f).st_size), attempt(os.ftruncate, f, 1), attempt(lambda: os.fstat(h).st_size))
say(attempt(os.fchmod, f, 0o600), attempt(os.fchown, f, -1, os.getgid()), attempt(os.utime, f, (5, 6)), attempt(os.fsync, f))
say(attempt(os.setxattr, f, "user.a", b"b"), attempt(os.getxattr, f, "user.a"), attempt(os.listxattr, f))
say(attempt(lambda: os.fstat(g).st_size), attempt(lambda: os.fstatvfs(g).f_namemax), attempt(os.pread, g, 3, 0))
say(attempt(lambda: os.close(os.open("/proc/self/fd/%d" % g, os.O_RDONLY))))
say(attempt(lambda: fcntl.ioctl(g, 0x80086601, b"12345678") and 1))
os.chmod("d", 0o700); say(read("d/f"), shape("d/f"))
""")
