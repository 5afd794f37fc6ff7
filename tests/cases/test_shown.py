# SPDX-License-Identifier: MIT
"""What the mount shows of a file is what the lower one is: after each operation, each attribute by
itself (the kernel asks for what it does not know, and a full stat makes it know all) and each
extended attribute. Where that is not so, docs/mount.md says it."""

import os

import pytest

from harness import PATIENCE
from test_capture import prepare
from twins import python

LONG = "SHFS_TEST_LONG" in os.environ

SHOWN = r"""
import random

below, seconds, seed, me = BELOW, SECONDS, SEED, os.geteuid()
random.seed(seed)
here = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
# what statx(2) can be asked for: its bit, and where it is in the answer
FIELDS = {"type": (1, 28, "H"), "mode": (2, 28, "H"), "nlink": (4, 16, "I"), "uid": (8, 20, "I"), "gid": (16, 24, "I"),
          "atime": (32, 64, "qI"), "mtime": (64, 112, "qI"), "ctime": (128, 96, "qI"), "ino": (256, 32, "Q"), "size": (512, 40, "Q"),
          "blocks": (1024, 48, "Q"), "btime": (2048, 80, "qI")}
buffer = ctypes.create_string_buffer(256)

def shown(at, name, field):
    bit, offset, form = FIELDS[field]
    if libc.statx(at, os.fsencode(name), 0x100, bit, buffer):  # AT_SYMLINK_NOFOLLOW
        return errno.errorcode[ctypes.get_errno()]
    value = struct.unpack_from("=" + form, buffer, offset)
    return value[0] & 0o170000 if field == "type" else value[0] & 0o7777 if field == "mode" else value

def xattrs(at, name):
    path = "/proc/self/fd/%d/%s" % (at, name)
    try:
        return {x: os.getxattr(path, x, follow_symlinks=False) for x in os.listxattr(path, follow_symlinks=False)}
    except OSError as error:
        return errno.errorcode[error.errno]

def differ(names, fields):
    for name in names:
        for field in fields:
            a, b = shown(here, name, field), shown(below, name, field)
            if a != b: return name, field, a, b
        a, b = xattrs(here, name), xattrs(below, name)
        if a != b: return name, a, b

"""

WORK = r"""
NAMES = ["a", "b", "c", "d", "d/e", "l"]
FILES = ["a", "b", "c", "d/e"]
fds = {}
# what the mount does where a file is open hides what it does where none is: some seeds have few
OPEN = [4] if seed % 2 else [0, 0, 0, 4]

def open_one(name, flags):
    if len(fds) > random.choice(OPEN): close_one()
    fd = os.open(name, flags, random.choice([0o644, 0o755, 0o4755, 0o2755, 0o6711, 0o600]))
    fds[fd] = flags
    return fd

def close_one():
    if fds: os.close(fd := random.choice(list(fds))) or fds.pop(fd)

def a_writer():
    writers = [fd for fd in fds if fds[fd] & os.O_ACCMODE]
    return random.choice(writers) if writers else open_one(random.choice(FILES), os.O_RDWR | os.O_CREAT)

def f(): return random.choice(FILES)

def set_flags(name):
    fd = os.open(name, os.O_RDONLY)
    try: fcntl.ioctl(fd, 0x40086602, struct.pack("l", random.choice([0, 0x40])))  # nodump
    finally: os.close(fd)

def store(fd):
    size = os.fstat(fd).st_size
    if fds[fd] & os.O_ACCMODE == os.O_RDWR and size:
        m = mmap.mmap(fd, size); m[random.randrange(size)] = 7; m.flush(); m.close()

def caps(name):
    os.setxattr(name, "security.capability", bytes.fromhex("0100000200200000000000000000000000000000"))

def acl(name):
    entries = [(1, 6, 0xffffffff), (2, random.randrange(8), 2000), (4, 4, 0xffffffff), (16, 7, 0xffffffff), (32, 0, 0xffffffff)]
    os.setxattr(name, "system.posix_acl_access", struct.pack("=I", 2) + b"".join(struct.pack("=HHI", *e) for e in entries))

def any_times(): return random.choice([(1, 2), (10**18 + 3, 10**18 + 5), (time.time_ns(), time.time_ns())])

def data(): return os.urandom(random.choice([1, 100, 5000, 200000]))

# by name, by descriptor; p: below as well
OPS = {
    "write": lambda: write(f(), data(), mode=random.choice([0o644, 0o4755])),
    "append": lambda: write(f(), data(), os.O_WRONLY | os.O_APPEND),
    "overwrite": lambda: write(f(), data(), os.O_WRONLY),
    "truncate": lambda: os.truncate(f(), random.choice([0, 1, 4096, 100000])),
    "chmod": lambda: os.chmod(f(), random.choice([0o644, 0o4755, 0o2755, 0o6755, 0o2711, 0o4711, 0o600])),
    "chown": lambda: os.chown(f(), random.choice([me, -1]), random.choice([me, -1])),
    "utime": lambda: os.utime(f(), ns=any_times()),
    "setxattr": lambda: os.setxattr(f(), "user.%d" % random.randrange(3), data()[:200]),
    "removexattr": lambda: os.removexattr(f(), "user.%d" % random.randrange(3)),
    "acl": lambda: acl(f()),
    "capability": lambda: caps(f()),
    "chattr": lambda: set_flags(f()),
    "link": lambda: os.link(f(), f()),
    "unlink": lambda: os.unlink(f()),
    "rename": lambda: os.rename(f(), f()),
    "exchange": lambda: renameat2(f(), f(), 2),
    "read": lambda: read(f()),
    "list": lambda: os.listdir(random.choice([".", "d"])),
    "readlink": lambda: os.readlink("l"),
    "symlink": lambda: (os.unlink("l"), os.symlink("a" * random.randrange(1, 99), "l")),
    "mkdir": lambda: (os.mkdir("d/x"), os.rmdir("d/x")),
    "open to write": lambda: open_one(f(), os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
    "open to read": lambda: open_one(f(), os.O_RDONLY),
    "open to read and write": lambda: open_one(f(), os.O_RDWR),
    "close": close_one,
    "pwrite": lambda: os.pwrite(a_writer(), data(), random.choice([0, 3, 99999])),
    "pread": lambda: os.pread(random.choice([fd for fd in fds if fds[fd] & os.O_ACCMODE != os.O_WRONLY]), 99999, 0),
    "ftruncate": lambda: os.ftruncate(a_writer(), random.choice([0, 1, 4096, 100000])),
    "fallocate": lambda: call("fallocate", a_writer(), random.choice([0, 1, 3, 16]), ctypes.c_long(random.randrange(9999)), ctypes.c_long(50000)),
    "copy_file_range": lambda: os.copy_file_range(a_writer(), a_writer(), 999, 0, 200000),
    "fchmod": lambda: os.fchmod(a_writer(), random.choice([0o644, 0o4755, 0o2755, 0o6755])),
    "futime": lambda: os.utime(a_writer(), ns=any_times()),
    "fsync": lambda: os.fsync(a_writer()),
    "store": lambda: store(a_writer()),
}
# not "link": of that nothing is told
BELOW_OPS = ["write", "append", "overwrite", "truncate", "chmod", "utime", "setxattr", "acl", "unlink", "rename"]

def operate(op):
    # root's file, or another's who may not keep set-id bits; another process is who is forked
    if me == 0 and random.random() < 0.3:
        os.setegid(2000); os.seteuid(2000)
    try:
        OPS[op]()
    except (OSError, IndexError) as error:
        return str(error)
    finally:
        if me == 0: os.seteuid(0); os.setegid(0)

def in_a_child(op):
    pid = os.fork()
    if not pid:
        try: operate(op)
        finally: os._exit(0)
    os.waitpid(pid, 0)

def from_below(op):
    pid = os.fork()
    if not pid:
        try: os.fchdir(below); operate(op)
        finally: os._exit(0)
    os.waitpid(pid, 0)

os.mkdir("d", 0o777); os.chmod("d", 0o777); os.chmod(".", 0o777); os.symlink("x", "l")
for name in FILES: write(name, b"x" * 10000, mode=0o666); os.chmod(name, 0o666)
end, done = time.monotonic() + seconds, []
while time.monotonic() < end:
    # beside what the kernel writes by itself not all of it is seen
    how = random.choice([operate, operate, operate, in_a_child, from_below if me else operate])
    op = random.choice(list(OPS) + ["link"] * 5)
    if how is from_below: op = random.choice(BELOW_OPS + ["unlink", "rename"] * 3)
    # without blocks, which come when they are laid out
    fields = random.sample([f for f in FIELDS if f != "blocks"], random.choice([1, 1, 2, 11]))
    if how is from_below:  # nobody asks for a time of birth again, if for nothing else
        fields = [field for field in fields if field != "btime"] or ["mode"]
    differ(NAMES, [])  # the kernel knows them
    done.append((how.__name__, op, how(op)))
    # what a change below did to the other fields may come later, but it comes before the next operation
    steps = [fields] if how is not from_below else [fields, [f for f in FIELDS if f not in ("blocks", "btime")]]
    for fields in steps:
        until = time.monotonic() + (PATIENT if how is from_below else 0)
        while (wrong := differ(NAMES, fields)) and time.monotonic() < until: time.sleep(0.01)
        if wrong: break
    if wrong:
        say("after", len(done), done[-5:], "differs:", wrong, fds, [os.readlink("/proc/self/fd/%d" % fd) for fd in fds])
        break
say("end", len(done) > 50)
"""


@pytest.mark.parametrize("seed", range(8 if LONG else 2))
def test_each_attribute_is_the_lower_ones(sandbox, project, seed):
    lower = os.open(project, os.O_RDONLY | os.O_DIRECTORY)
    seconds = 120 if LONG else 5
    script = (SHOWN + WORK).replace("BELOW", str(lower), 1).replace("SECONDS", str(seconds), 1).replace("SEED", str(seed), 1)
    sandbox.mount()
    try:
        out = python(sandbox, script.replace("PATIENT", str(3 * PATIENCE)), pass_fds=(lower,), timeout=10 * seconds)
    finally:
        os.close(lower)
    assert out == b"end True\n", out.decode()


def test_what_is_recorded_keeps_its_atime(sandbox, project):
    """Who looks for mail, or for what was not read for long, is not misled."""
    uses = {
        "written": "write(f, b'new', os.O_WRONLY)",
        "emptied": "write(f, b'new')",
        "appended": "write(f, b'new', os.O_WRONLY | os.O_APPEND)",
        "read and written": "fd = os.open(f, os.O_RDWR); os.write(fd, b'new'); os.close(fd)",
        "opened": "os.close(os.open(f, os.O_RDONLY))",
        "truncated": "os.truncate(f, 3)",
        "moved": "os.rename(f, 'x'); os.rename('x', f)",
        "moved over": "write('x', b'new'); os.utime('x', ns=(0, 5)); os.rename('x', f)",
        "mapped": "fd = os.open(f, os.O_RDWR); os.close(fd)",
    }
    for name in uses:
        prepare(sandbox, f"{name}.py")
    lower = os.open(project, os.O_RDONLY | os.O_DIRECTORY)
    try:
        mount = sandbox.mount()
        for again in range(2):
            python(sandbox, "".join(f"f = {name + '.py'!r}\n{script}\n" for name, script in uses.items()))
            mount.settle()
            assert not [name for name in uses if os.stat(f"{name}.py", dir_fd=lower).st_atime_ns], again
    finally:
        os.close(lower)


def test_what_is_asked_for_alone(sandbox, project):
    """What a change takes or moves beside the content, when nothing else is asked for."""
    lower = os.open(project, os.O_RDONLY | os.O_DIRECTORY)
    sandbox.mount()
    script = SHOWN.replace("BELOW", str(lower), 1).replace("SECONDS", "0", 1).replace("SEED", "0", 1)
    changes = {
        "write": "os.write(w, b'x')",
        "fallocate": "os.posix_fallocate(w, 0, 9999)",
        "copy_file_range": "os.copy_file_range(r, w, 5)",
        "ftruncate": "os.ftruncate(w, 3)",
        "truncate": "os.truncate(f, 3)",
        "chown": "os.chown(f, me, me)",
        "setxattr": "os.setxattr(f, 'user.x', b'1')",
        # with the flags that it has: ext4 cannot store a file of several extents without them
        "chattr": "has, = struct.unpack('l', fcntl.ioctl(r, 0x80086601, bytes(8)))\n"
                  "fcntl.ioctl(r, 0x40086602, struct.pack('l', has | 0x40))",
    }
    try:
        out = python(sandbox, script + "os.chmod('.', 0o777); write('from', b'from')\nme = me or 2000\nos.setegid(me); os.seteuid(me)\n" + "".join(f"""
f = {what!r}; write(f, b"x" * 9999); r, w = os.open("from" if "copy" in f else f, os.O_RDONLY), os.open(f, os.O_WRONLY)
os.chmod(f, 0o6755); time.sleep(0.02); differ([f], FIELDS); {change}
for field in "mode", "ctime":
    if wrong := differ([f], [field]): say(wrong)
os.close(w), os.close(r)
""" for what, change in changes.items()), pass_fds=(lower,))
    finally:
        os.close(lower)
    assert not out, out.decode()


@pytest.mark.parametrize("first", ["old", "new"])
def test_moved_beneath(sandbox, project, first):
    """Whichever of its names is asked for first, the old one is gone."""
    if tuple(map(int, os.uname().release.split(".")[:2])) < (6, 16):
        pytest.skip("the kernel cannot be told")
    for name in "old", "new":
        prepare(sandbox, name)
    lower = os.open(project, os.O_RDONLY | os.O_DIRECTORY)
    try:
        sandbox.mount()
        sandbox.run("stat", "old", "new")
        ino = os.stat("old", dir_fd=lower).st_ino
        os.rename("old", "new", src_dir_fd=lower, dst_dir_fd=lower)
        out = python(sandbox, f"""
for wait in range(2):
    time.sleep(0.3)
    say({first!r} == "old" and attempt(os.stat, "old"), os.stat("new").st_ino, attempt(os.stat, "old"))
""").decode().split()
        assert out == [str(first == "old" and "ENOENT"), str(ino), "ENOENT"] * 2
    finally:
        os.close(lower)
