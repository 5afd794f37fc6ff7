# SPDX-License-Identifier: MIT
"""The promises of capture, through a real mount: what was there before the first change, what
each close left, which version a reader saw, and that nothing is left out silently."""

import hashlib
import json
import os

import pytest

import harness
from test_mount_calls import tampered
from test_mount_cli import status_of
from twins import python

pytestmark = pytest.mark.either

OLD = bytes(range(256)) * 400  # more than is read in the caller's thread
BEFORE = 0, 1_000_000_007_123_456_789  # atime, mtime of what was there before the mount

READ, WRITTEN, CREATED, TRUNCATED, APPEND, MAPPED, EXEC = (1 << i for i in range(7))


def rows(sandbox, sql):
    """What the index answers, as the user, once all that was done is in it."""
    sandbox.shfs("sync")
    return [tuple(row) for row in json.loads(sandbox.shfs("select", sql, cwd="/").stdout)["rows"]]


def versions(sandbox, name):
    """The versions of a file as log's JSON has them, the oldest first."""
    name = os.fsencode(name)
    log = json.loads(sandbox.shfs("log", "--reverse", "--json", "--", name).stdout)
    assert [v["n"] for v in log["versions"]] == list(range(1, len(log["versions"]) + 1))
    return log["versions"]


def contents(sandbox, name, found=None):
    """What each version of a file held, the oldest first; None where it is not archived."""
    found = found or versions(sandbox, name)
    assert not [v for v in found if v["incomplete"]]
    specs = [os.fsencode(f"{name}@{v['n']}") for v in found if v["object"]]
    data = sandbox.shfs("cat", "--", *specs, timeout=60).stdout_bytes if specs else b""
    result = []
    for version in found:
        size = version["size"] if version["object"] else 0
        result.append(data[:size] if version["object"] else None)
        assert result[-1] is None or len(result[-1]) == size
        data = data[size:]
    assert not data
    return result


def accesses(sandbox, name, what="open"):
    """(flags, version seen, version made) of each use of a file, in their order."""
    path = os.path.join(sandbox.project, name).replace("'", "''")
    return rows(sandbox, f"""
SELECT a.flags, s.n, m.n FROM v_access a LEFT JOIN v_version s ON s.version_id = a.seen_version_id
LEFT JOIN v_version m ON m.version_id = a.made_version_id
WHERE a.path = '{path}' AND a.op = '{what}' ORDER BY a.begin_ns, a.seq_key""")


def prepare(sandbox, name, data=OLD, mode=0o640):
    """A file that was there before the mount."""
    path = sandbox.write_outside(os.path.join(sandbox.project, name), data, mode)
    os.utime(path, ns=BEFORE)


# --- nothing is overwritten unseen ---

# What a program can do to a file f that was there before.
CHANGES = {
    "write": "fd = os.open(f, os.O_WRONLY); os.write(fd, b'new')",
    "write through a read-write descriptor": "fd = os.open(f, os.O_RDWR); os.read(fd, 9); os.write(fd, b'new')",
    "pwrite": "fd = os.open(f, os.O_WRONLY); os.pwrite(fd, b'new', 70000)",
    "append": "fd = os.open(f, os.O_WRONLY | os.O_APPEND); os.write(fd, b'new')",
    "O_TRUNC": "fd = os.open(f, os.O_WRONLY | os.O_TRUNC); os.write(fd, b'new')",
    "O_TRUNC and nothing else": "fd = os.open(f, os.O_WRONLY | os.O_TRUNC)",
    "O_TRUNC to read": "fd = os.open(f, os.O_RDONLY | os.O_TRUNC)",
    "O_CREAT and O_TRUNC": "fd = os.open(f, os.O_RDWR | os.O_CREAT | os.O_TRUNC); os.write(fd, b'new')",
    "ftruncate": "fd = os.open(f, os.O_WRONLY); os.ftruncate(fd, 5)",
    "ftruncate beyond the end": "fd = os.open(f, os.O_WRONLY); os.ftruncate(fd, 200000)",
    "truncate": "os.truncate(f, 7)",
    "rename over": "write(f + '.new', b'new'); os.rename(f + '.new', f)",
    "exchange": "write(f + '.new', b'new'); renameat2(f + '.new', f, 2)",
    "unlink": "os.unlink(f)",
    "unlink and make anew": "os.unlink(f); write(f, b'new')",
    "fallocate": "fd = os.open(f, os.O_RDWR); os.posix_fallocate(fd, 0, 150000)",
    "punching a hole": "fd = os.open(f, os.O_RDWR); say(call('fallocate', fd, 3, ctypes.c_long(0), ctypes.c_long(50000)))",
    "allocating beyond the end": "fd = os.open(f, os.O_RDWR); say(call('fallocate', fd, 0, ctypes.c_long(0), ctypes.c_long(2000000)))",
    "allocating without growing": "fd = os.open(f, os.O_RDWR); say(call('fallocate', fd, 1, ctypes.c_long(0), ctypes.c_long(2000000)))",
    "collapsing a range": "fd = os.open(f, os.O_RDWR); say(call('fallocate', fd, 8, ctypes.c_long(0), ctypes.c_long(4096))); os.pwrite(fd, b'new', 1)",
    "zeroing a range": "fd = os.open(f, os.O_RDWR); say(call('fallocate', fd, 16, ctypes.c_long(10), ctypes.c_long(50)))",
    "inserting a range": "fd = os.open(f, os.O_RDWR); say(call('fallocate', fd, 32, ctypes.c_long(0), ctypes.c_long(4096))); os.pwrite(fd, b'new', 1)",
    "FICLONE": "write('from', b'n' * 99); a = os.open('from', os.O_RDONLY); fd = os.open(f, os.O_WRONLY); say(attempt(fcntl.ioctl, fd, 0x40049409, a)); os.write(fd, b'new')",
    "splice": "r, w = os.pipe(); os.write(w, b'new'); fd = os.open(f, os.O_WRONLY); os.splice(r, fd, 3)",
    "writev": "fd = os.open(f, os.O_WRONLY); os.writev(fd, [b'n', b'ew'])",
    "copy_file_range": "write('from', b'n' * 99); a = os.open('from', os.O_RDONLY); fd = os.open(f, os.O_WRONLY); os.copy_file_range(a, fd, 99, 0, 10)",
    "sendfile": "write('from', b'n' * 99); a = os.open('from', os.O_RDONLY); fd = os.open(f, os.O_WRONLY); os.sendfile(fd, a, 0, 99)",
    "a shared mapping": "fd = os.open(f, os.O_RDWR); m = mmap.mmap(fd, 0); m[9:12] = b'new'; m.flush(); m.close()",
    "a mapping after the close": "fd = os.open(f, os.O_RDWR); m = mmap.mmap(fd, 0); os.close(fd); m[9:12] = b'new'; m.close(); fd = -1",
    "a shared mapping, synced by its address": "fd = os.open(f, os.O_RDWR); m = mmap.mmap(fd, 0); m[9:12] = b'new'; m.flush(0, 99); os.pwrite(fd, b'X', 20); m.close()",
    "a mapping of a copied descriptor": "fd = os.open(f, os.O_RDWR); a = os.dup(fd); os.close(fd); m = mmap.mmap(a, 0); os.close(a); fd = -1; m[9:12] = b'new'; os.stat(f); m[20:23] = b'new'; m.close()",
    "another name": "os.link(f, f + '.link'); write(f + '.link', b'new', os.O_WRONLY)",
    "a name that was there before": "write(f + '.second', b'new', os.O_WRONLY)",
    "O_DIRECT": "fd = os.open(f, os.O_WRONLY | os.O_DIRECT); p = mmap.mmap(-1, 4096); os.writev(fd, [p])",
    "a descriptor of /proc": "a = os.open(f, os.O_RDONLY); fd = os.open('/proc/self/fd/%d' % a, os.O_WRONLY); os.write(fd, b'new')",
    "unlinked but open": "fd = os.open(f, os.O_RDWR); os.unlink(f); os.write(fd, b'new')",
    "replaced but open": "fd = os.open(f, os.O_RDWR); write(f + '.new', b'new'); os.rename(f + '.new', f); os.write(fd, b'not this')",
    "renamed and then written": "os.rename(f, f + '.moved'); write(f + '.moved', b'new'); os.rename(f + '.moved', f)",
    "its directory renamed": "os.mkdir('d'); os.rename(f, 'd/x'); os.rename('d', 'e'); write('e/x', b'new'); os.rename('e/x', f); os.rmdir('e')",
    "moved into a directory": "os.mkdir(f + '.d'); os.rename(f, f + '.d/x'); write(f + '.d/x', b'new'); os.rename(f + '.d/x', f); os.rmdir(f + '.d')",
    "its directory moved over an empty one": "os.mkdir(f + '.d'); os.mkdir(f + '.e'); os.rename(f, f + '.d/x'); os.rename(f + '.d', f + '.e'); os.truncate(f + '.e/x', 9); os.rename(f + '.e/x', f)",
    "written by a child": "fd = os.open(f, os.O_WRONLY); a = os.fork(); a or (os.write(fd, b'new'), os._exit(0)); os.waitpid(a, 0)",
}


@pytest.mark.parametrize("size", [100, 1 << 20])  # read by the caller, and by an archiver
@pytest.mark.both
def test_what_was_there_before(sandbox, size):
    """The first thing that is ever done to a file is to change it."""
    check_what_was_there_before(sandbox, size)


@pytest.mark.users("root")
@pytest.mark.parametrize("kind", ["xfs", "btrfs", "overlay"])
def test_what_was_there_before_on(sandbox, kind):
    with harness.disk(sandbox, 400, kind=kind, where=sandbox.project):
        check_what_was_there_before(sandbox, 1 << 18)


def check_what_was_there_before(sandbox, size):
    old = (OLD * (size // len(OLD) + 1))[:size]
    names = {f"{n}": change for n, change in enumerate(CHANGES.values())}
    for name in names:
        prepare(sandbox, name, old)
    second = list(CHANGES).index("a name that was there before")
    os.link(f"{sandbox.project}/{second}", f"{sandbox.project}/{second}.second")
    sandbox.mount()
    lines = [f"f = '{name}'; fd = -1; {change}\nif fd >= 0: os.close(fd)" for name, change in names.items()]
    python(sandbox, "\n".join(lines))

    got, expected = {}, {}
    for what, name in zip(CHANGES, names):
        name = {"another name": f"{name}.link", "a name that was there before": f"{name}.second"}.get(what, name)
        now = sandbox.run("cat", name, check=False)
        first, *later = versions(sandbox, name)
        held = contents(sandbox, name, [first, *later])
        last = now.stdout_bytes if now.status == 0 else b"new" + old[3:] if "open" in what else old
        got[what] = first["mode"], first["mtime"], held[0] == old, held[-1] == last
        # what has left the same bytes has given their version its time
        same = not later and now.stdout_bytes == old
        shown = ["date", "-u", "-r", name, "+%Y-%m-%dT%H:%M:%S.%NZ"]
        mtime = sandbox.run(*shown).stdout.strip() if same else "2001-09-09T01:46:47.123456789Z"
        expected[what] = "0640", mtime, True, True
    assert got == expected


# What can be done to a file that nobody may read, by its owner.
UNREADABLE = {
    "unlink": "os.unlink(f)",
    "rename over": "write(f + '.new', b'new'); os.rename(f + '.new', f)",
    "truncate": "os.chmod(f, 0o200); os.truncate(f, 3)",
    "write": "os.chmod(f, 0o200); write(f, b'new', os.O_WRONLY)",
    "O_TRUNC": "os.chmod(f, 0o222); write(f, b'new')",
    "opened before": "os.chmod(f, 0o600); fd = os.open(f, os.O_WRONLY); os.chmod(f, 0); os.write(fd, b'new'); os.close(fd)",
}


@pytest.mark.both
def test_files_without_permission(sandbox):
    """Whatever the permissions, they are the same afterwards."""
    for n in range(len(UNREADABLE)):
        prepare(sandbox, f"{n}", OLD, 0)
    sandbox.mount()
    lines = [f"f = '{n}'; {change}; say(os.path.exists(f) and mode(f))" for n, change in enumerate(UNREADABLE.values())]
    modes = python(sandbox, "\n".join(lines)).decode().split()
    assert modes == ["False", "0o100644", "0o100200", "0o100200", "0o100222", "0o100000"]
    held = {what: contents(sandbox, f"{n}") for n, what in enumerate(UNREADABLE)}
    new = b"new" + OLD[3:]
    assert held == {
        "unlink": [OLD], "rename over": [OLD, b"new"], "truncate": [OLD, OLD[:3]],
        "write": [OLD, new], "O_TRUNC": [OLD, b"new"], "opened before": [OLD, new],
    }


@pytest.mark.users("ordinary")
def test_a_lent_permission_is_not_seen(sandbox):
    """What a file holds that nobody may read is read all the same, and nobody sees how."""
    prepare(sandbox, "f", OLD, 0o200)
    sandbox.mount()
    python(sandbox, """
child = os.fork()
if not child:
    for n in range(400): write("f", b"%d" % n, os.O_WRONLY | os.O_TRUNC)
    os._exit(0)
seen = set()
while not os.waitpid(child, os.WNOHANG)[0]:
    seen.add(mode("f"))
    seen.update(oct(entry.stat(follow_symlinks=False).st_mode) for entry in os.scandir(".") if entry.name == "f")
assert seen == {"0o100200"}, seen
""", timeout=120)


IO_URING = r"""
#include <fcntl.h>
#include <linux/io_uring.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* One write to a file, by a thread of the kernel. */
int main(int argc, char **argv)
{
	struct io_uring_params p = { 0 };
	int fd = open(argv[1], O_WRONLY), ring = syscall(SYS_io_uring_setup, 1, &p);
	if (ring < 0)
		return 77;
	char *sq = mmap(0, p.sq_off.array + 64, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQ_RING);
	char *cq = mmap(0, p.cq_off.cqes + 64, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_CQ_RING);
	struct io_uring_sqe *sqe = mmap(0, sizeof(*sqe), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQES);
	memset(sqe, 0, sizeof(*sqe));
	*sqe = (struct io_uring_sqe){ .opcode = IORING_OP_WRITE, .flags = IOSQE_ASYNC, .fd = fd, .addr = (unsigned long)"new", .len = 3 };
	__atomic_store_n((unsigned *)(sq + p.sq_off.tail), 1, __ATOMIC_RELEASE);
	if (syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) != 1)
		return 1;
	return ((struct io_uring_cqe *)(cq + p.cq_off.cqes))->res == 3 && !close(fd) ? 0 : 1;
}
"""


def test_written_by_io_uring(sandbox):
    prepare(sandbox, "f")
    sandbox.mount()
    program = sandbox.compile("uring", IO_URING)
    if sandbox.run(program, "f", check=False).status == 77:
        pytest.skip("no io_uring here")
    assert contents(sandbox, "f") == [OLD, b"new" + OLD[3:]]
    [(exe,)] = rows(sandbox, f"SELECT exe FROM v_version JOIN v_process USING (process_id) WHERE path = '{sandbox.project}/f'")
    assert exe == program


def test_no_clone_where_there_is_none_below(sandbox):
    """FICLONE fails as it does beneath, or with the error of a file system without it."""
    attempt = """
write("a", b"text"); write("b", b"old"); a = os.open("a", os.O_RDONLY); b = os.open("b", os.O_WRONLY)
say(attempt(fcntl.ioctl, b, 0x40049409, a)); os.close(b); say(read("b"))
"""
    below = python(sandbox, attempt)
    sandbox.mount()
    above = python(sandbox, attempt)
    assert above == b"ENOTSUP\nb'old'\n" and (below == above or b"b'text'" in below)


@pytest.mark.parametrize("how", ["write('n', b'new'); os.rename('n', 'f')", "os.unlink('f'); write('f', b'new')", "os.unlink('f')"])
def test_replaced_while_it_is_written(sandbox, mounted, how):
    """What an open file held when it lost its name can be brought back by that name."""
    python(sandbox, f"""
write("f", b"one"); fd = os.open("f", os.O_WRONLY | os.O_APPEND); os.write(fd, b"two")
{how}
os.write(fd, b"three"); os.close(fd)
""")
    held = contents(sandbox, "f")
    assert b"onetwo" in held, held
    assert held[-1] == (b"new" if "new" in how else b"onetwothree")


def test_a_change_waits_for_the_capture(sandbox):
    """Overwritten right after the mount, in place, faster than the archivers can be. They get
    all the time that they need, however slow the machine is."""
    config = sandbox.write_outside(f"{sandbox.home}/.config/shfs/config.ini", "[archive]\nwait = 600000\n")
    data = os.urandom(8 << 20)
    for i in range(8):
        prepare(sandbox, f"f{i}", data + b"%d" % i)
    sandbox.mount(None, "--config", config)
    python(sandbox, """
def change(i):
    fd = os.open("f%d" % i, os.O_WRONLY)
    os.pwrite(fd, b"end", 8 << 20)   # what is read last
    os.ftruncate(fd, 3); os.close(fd)
threads = [threading.Thread(target=change, args=(i,)) for i in range(8)]
for t in threads: t.start()
for t in threads: t.join()
""")
    for i in range(8):
        before, after = contents(sandbox, f"f{i}")
        assert hashlib.sha256(before).digest() == hashlib.sha256(data + b"%d" % i).digest()
        assert after == data[:3]


def test_no_wait_is_never_silently_wrong(sandbox):
    """Where a change may not wait, what was not caught is told."""
    config = sandbox.write_outside(f"{sandbox.home}/.config/shfs/config.ini", "[archive]\nwait = 0\n")
    data = os.urandom(6 << 20)
    for i in range(6):
        prepare(sandbox, f"f{i}", data)
    mount = sandbox.mount(None, "--config", config)
    python(sandbox, """
for i in range(6):
    fd = os.open("f%d" % i, os.O_WRONLY); os.pwrite(fd, b"x" * 100000, 3 << 20); os.ftruncate(fd, 5 << 20); os.close(fd)
""")
    sandbox.shfs("sync")
    flagged = 0
    for i in range(6):
        first = versions(sandbox, f"f{i}")[0]
        flagged += first["incomplete"]
        if not first["incomplete"] and first["object"]:
            assert sandbox.shfs("cat", f"f{i}@1").stdout_bytes == data
    assert int(mount.status()["incomplete"]) == flagged


# --- exactly what a close left ---


@pytest.mark.both
def test_each_close_is_a_version(sandbox, mounted):
    """One program, as fast as it can."""
    python(sandbox, """
for i in range(150): write("f", b"%d " % i * (i % 7 * 900 + 1))
for i in range(50): write("f", b"+", os.O_WRONLY | os.O_APPEND)
""")
    expected = [b"%d " % i * (i % 7 * 900 + 1) for i in range(150)]
    expected += [expected[-1] + b"+" * (i + 1) for i in range(50)]
    assert contents(sandbox, "f") == expected


# What fails and changes nothing, of a file f. It is open before that for all of them.
FAILING = {
    "write": "os.write(w, b'new')",
    "pwrite": "os.pwrite(w, b'x' * 300000, 7)",
    "append": "os.write(a, b'new')",
    "writev": "os.writev(w, [b'n', b'ew'])",
    "copy_file_range": "os.copy_file_range(os.open('from', os.O_RDONLY), w, 5)",
    "sendfile": "os.sendfile(w, os.open('from', os.O_RDONLY), 0, 5)",
    "ftruncate": "os.ftruncate(w, 3)",
    "truncate": "os.truncate(f, 3)",
    "O_TRUNC": "os.open(f, os.O_WRONLY | os.O_TRUNC)",
    "O_CREAT and O_TRUNC": "os.open(f, os.O_RDWR | os.O_TRUNC | os.O_CREAT, 0o600)",
    "allocating": "os.posix_fallocate(w, 0, 1 << 20)",
    "O_DIRECT": "os.pwritev(os.open(f, os.O_WRONLY | os.O_DIRECT), [mmap.mmap(-1, 4096)], 0)",
}


@pytest.mark.users("root")
@pytest.mark.parametrize("error", ["ENOSPC", "EIO"])
def test_what_fails_is_no_write(sandbox, error):
    """Neither in the history of the file nor for what comes after it; with or without a write before."""
    names = {f"{when} {what}": script for what, script in FAILING.items() for when in ("first", "then")}
    sandbox.write("from", OLD)
    for name in names:
        prepare(sandbox, name)
    mount = sandbox.mount()
    python(sandbox, "".join(f"write({name!r}, b'written')\n" for name in names if name.startswith("then")))
    with tampered(mount, "pwritev2,fallocate,ftruncate,copy_file_range", f"error={error}", names):
        python(sandbox, "".join(f"""
f = {name!r}
w, a = os.open(f, os.O_WRONLY), os.open(f, os.O_WRONLY | os.O_APPEND)
assert attempt(lambda: {script}) == "{error}", f
os.close(w), os.close(a)
""" for name, script in names.items()))
    changes = rows(sandbox, f"SELECT path, op FROM v_access WHERE flags & {WRITTEN | TRUNCATED} OR op = 'truncate'")
    assert sorted(os.path.basename(path) for path, _ in changes) == sorted(name for name in names if name.startswith("then"))
    python(sandbox, "".join(f"write({name!r}, b'next')\n" for name in names))
    for name in names:
        held = [OLD, b"written"] if name.startswith("then") else [OLD]
        assert contents(sandbox, name) == [*held, b"next"], name


@pytest.mark.users("root")
@pytest.mark.parametrize("kind", ["tmpfs", "ext4"])
def test_what_fails_in_part_is_a_write(sandbox, kind):
    """The disk is full in the middle of it."""
    with harness.disk(sandbox, 4, kind=kind) as project:
        scripts = ["os.write(w, block)", "os.posix_fallocate(w, 0, 64 << 20)", "os.sendfile(w, a, 0, 1 << 20)", "os.copy_file_range(a, w, 1 << 20)"]
        for n in range(len(scripts)):
            sandbox.write_outside(f"{project}/{n}", OLD)
        sandbox.mount(project)
        out = python(sandbox, "block = os.urandom(1 << 20)\nwrite('from', block)\na = os.open('from', os.O_RDONLY)\n" + "".join(f"""
os.sync()  # the room of what was removed is free
w = os.open("{n}", os.O_WRONLY)
r = os.open("rest", os.O_WRONLY | os.O_CREAT)
while attempt(os.write, r, block) != "ENOSPC": pass
os.ftruncate(r, max(os.fstat(r).st_size - 65536, 0)); os.close(r)
say(attempt(lambda: {script}), os.fstat(w).st_size)
os.close(w); os.unlink("rest"); os.truncate("{n}", 5)
""" for n, script in enumerate(scripts)), cwd=project)
        for n, size in enumerate(int(line.split()[-1]) for line in out.splitlines()):
            held = contents(sandbox, f"{project}/{n}")
            assert [len(v) for v in held] == ([len(OLD), 5] if size == len(OLD) else [len(OLD), size, 5]), (n, out)


def test_no_part_of_a_write(sandbox, mounted):
    """A write that more of may follow is captured meanwhile; then others close the file, and it is touched."""
    python(sandbox, """
def child(run):
    go, ready = os.pipe(), os.pipe()
    if not (pid := os.fork()):
        run(ready[1], go[0]); os._exit(0)
    return pid, ready[0], go[1]
def other(ready, go):
    fd = os.open("f", os.O_WRONLY); os.write(fd, b"other"); os.write(ready, b"."); os.read(go, 1); os.close(fd)
def end(pid, ready, go):
    os.write(go, b"."); os.waitpid(pid, 0)

fd = os.open("f", os.O_RDWR | os.O_CREAT, 0o644)
inherits = child(lambda ready, go: os.read(go, 1))
writes = child(other); os.read(writes[1], 1)
os.pwrite(fd, b"whole" * 8192, 0)
end(*writes); end(*inherits)
os.chmod("f", 0o600); os.close(fd)
""")
    last = versions(sandbox, "f")[-1]
    assert not last["incomplete"] and sandbox.shfs("cat", f"f@{last['n']}").stdout_bytes == b"whole" * 8192


def test_emptied_beside_an_open_writer(sandbox, mounted):
    """Who wrote before has no part in what is written anew, though the file is still open."""
    shells = dict(zip("abc", (sandbox.shell() for _ in range(3))))
    for name, line in (
        ("a", "exec 3>>f; echo first >&3"), ("b", "exec 3>>f; echo second >&3; exec 3>&-"), ("b", "exec 4<f; read x <&4"),
        ("c", "exec 3>f"), ("a", "exec 3>&-"), ("b", "exec 4<&-"), ("c", "exec 3>&-"),
    ):
        shells[name].run(line)
    for shell in shells.values():
        shell.close()
    assert contents(sandbox, "f") == [b"first\n", b"first\nsecond\n", b""]


def test_two_writers_of_one_file(sandbox, mounted):
    python(sandbox, """
a = os.open("f", os.O_WRONLY | os.O_CREAT); b = os.open("f", os.O_WRONLY)
os.write(a, b"AAAA"); os.pwrite(b, b"BB", 4); os.close(a)
os.pwrite(b, b"CC", 2)
c = os.open("f", os.O_RDWR); os.pwrite(c, b"D", 0); os.close(c)
os.pwrite(b, b"E", 1); os.close(b)
""")
    assert contents(sandbox, "f") == [b"AAAABB", b"DACCBB", b"DECCBB"]


def test_what_shells_do(sandbox, mounted):
    """Created, written and gone within moments: nothing of it is missing."""
    sandbox.sh("echo foo > bar; mv bar bar_old")
    assert contents(sandbox, "bar_old") == [b"foo\n"]
    sandbox.sh("echo v1 > twice; echo v2222 > twice")
    assert contents(sandbox, "twice") == [b"v1\n", b"v2222\n"]
    sandbox.sh("for i in 1 2 3; do echo $i >> log; (echo sub $i >> log); done")
    assert len(contents(sandbox, "log")) == 6 and contents(sandbox, "log")[-1] == sandbox.read("log")
    sandbox.sh("echo short-lived > gone; rm gone; echo again > gone; rm gone")
    assert contents(sandbox, "gone") == [b"short-lived\n", b"again\n"]
    sandbox.sh("exec 3> kept; echo 1 >&3; (echo 2) >&3; (exec 4>&3; exec 4>&-); echo 3 >&3; exec 3>&-")
    assert contents(sandbox, "kept")[-1] == b"1\n2\n3\n"
    sandbox.sh("echo x > a; ln a b; rm a; echo y >> b")
    assert contents(sandbox, "b")[-1] == b"x\ny\n" and contents(sandbox, "a") == [b"x\n"]


def test_the_same_content_is_the_same_version(sandbox, mounted):
    sandbox.sh("printf 1 > f; printf 1 > f; touch f; chmod 700 f; touch -d 1999-01-01 f; cp f g; cat g > f")
    assert contents(sandbox, "f") == [b"1"]
    sandbox.sh("printf 2 > f; printf 1 > f")
    assert contents(sandbox, "f") == [b"1", b"2", b"1"]


def test_a_byte_that_no_sample_sees(sandbox):
    """Changed between the sampled chunks, size and times set back."""
    prepare(sandbox, "f")
    sandbox.mount()
    sandbox.sh("touch -r f ref; printf X | dd of=f bs=1 seek=30000 conv=notrunc status=none; touch -r ref f")
    before, after = contents(sandbox, "f")
    assert before == OLD and after == OLD[:30000] + b"X" + OLD[30001:]


def test_stores_to_a_mapping(sandbox, mounted):
    """Before and after the close; the end of its use is the end of the mapping."""
    python(sandbox, """
write("f", b"a" * 9000)
fd = os.open("f", os.O_RDWR); m = mmap.mmap(fd, 9000)
m[0:3] = b"bbb"; os.close(fd); m[5000:5003] = b"ccc"; m.close()
""")
    held = contents(sandbox, "f")
    assert held[0] == b"a" * 9000
    assert held[-1] == b"bbb" + b"a" * 4997 + b"ccc" + b"a" * 3997
    assert accesses(sandbox, "f")[-1][0] & MAPPED


def test_changed_by_another_after_the_last_close(sandbox, mounted):
    """What a mapping left may be the last that it leaves: nothing tells a mount in time that it has ended."""
    python(sandbox, """
write("f", b"a" * 9000)
fd = os.open("f", os.O_RDWR); other = os.open("f", os.O_WRONLY); m = mmap.mmap(fd, 9000)
os.close(fd); m[0:3] = b"bbb"; m.flush()
time.sleep(0.3)
os.pwrite(other, b"ddd", 100)
m[0:3] = b"ccc"; m.close()
""")
    left = b"bbb" + b"a" * 8997
    assert left in contents(sandbox, "f")
    left = b"ccc" + b"a" * 97 + b"ddd" + b"a" * 8897
    assert contents(sandbox, "f")[-1] == left


REGIONS = r"""
def region(kind, n):
    fd = os.open("regions", os.O_WRONLY | os.O_CREAT)
    for i in range(4): os.pwrite(fd, b"%d %05d " % (kind, n), kind * 32 + i * 8)
    os.close(fd)

children = []
for kind in range(4):
    pid = os.fork()
    if not pid:
        for n in range(200): region(kind, n)
        os._exit(0)
    children.append(pid)
assert all([os.waitpid(pid, 0)[1] == 0 for pid in children])
say(*children)
"""


def test_each_writer_of_a_part(sandbox, mounted):
    """Four processes, each with its own part of one file, all at once: the version of each close
    has what its writer had written by then, whole. (test_stress.py has whole files.)"""
    kinds = {int(pid): kind for kind, pid in enumerate(python(sandbox, REGIONS).split())}
    held, closes = contents(sandbox, "regions"), dict.fromkeys(kinds, 0)
    for pid, n in rows(sandbox, f"""
SELECT p.pid, v.n FROM v_access a JOIN v_process p USING (process_id)
LEFT JOIN v_version v ON v.version_id = a.made_version_id
WHERE a.path = '{sandbox.project}/regions' AND a.is_written AND a.op = 'open' ORDER BY a.seq_key"""):
        kind = kinds[pid]
        assert held[n - 1][kind * 32 : kind * 32 + 32] == b"%d %05d " % (kind, closes[pid]) * 4, (pid, n)
        closes[pid] += 1
    assert set(closes.values()) == {200} and sandbox.read("regions") == held[-1]


# --- reads ---


@pytest.mark.backends()
def test_reads_for_no_result(sandbox):
    """Those of backups and the like, and of programs of the configuration; what they write is recorded."""
    config = "[record]\nsoftware = no\nignore-reads = lab-* !borg\n"
    sandbox.write_outside(f"{sandbox.home}/.config/shfs/config.ini", config)
    for name in "restic", "borg", "lab-index", "mine":
        sandbox.run("cp", "/usr/bin/cat", f"{sandbox.home}/{name}")
        sandbox.sh(f"echo {name} > {name}.json")
    sandbox.mount()
    for name in "restic", "borg", "lab-index", "mine":
        sandbox.sh(f"~/{name} {name}.json > {name}.out")
    found = {name for name in ("restic", "borg", "lab-index", "mine") if any(f & READ for f, *_ in accesses(sandbox, f"{name}.json"))}
    assert found == {"borg", "mine"}
    for name in "restic", "borg", "lab-index", "mine":
        assert contents(sandbox, f"{name}.out") == [f"{name}\n".encode()]


def test_reads_are_tied_to_what_they_saw(sandbox):
    """Also where what they saw is known only later to be worth keeping."""
    prepare(sandbox, "data.bin")
    prepare(sandbox, "run.sh", b"echo $0\n", 0o755)
    sandbox.mount()
    sandbox.sh("cat data.bin > /dev/null; sh run.sh; ./run.sh")
    assert contents(sandbox, "run.sh") == [b"echo $0\n"]  # a script is kept when it is read
    assert contents(sandbox, "data.bin") == [None]  # data is only recognised
    sandbox.sh("cat data.bin > /dev/null; printf new > data.bin; cat data.bin > /dev/null; printf newer >> data.bin")
    assert contents(sandbox, "data.bin") == [OLD, b"new", b"newnewer"]
    flags = accesses(sandbox, "data.bin")
    assert [seen for _, seen, _ in flags] == [1, 1, None, 2, None]
    assert [made for _, _, made in flags] == [None, None, 2, None, 3]
    assert [bool(f & EXEC) for f, _, _ in accesses(sandbox, "run.sh")].count(True) == 1
    assert all(seen == 1 and f & READ for f, seen, _ in accesses(sandbox, "run.sh"))


def test_a_reader_and_a_writer_at_once(sandbox, mounted):
    """Open before the change, closed after it: it is tied to what was there when it opened."""
    python(sandbox, """
write("f", b"one")
r = os.open("f", os.O_RDONLY); say(os.read(r, 9))
write("f", b"two2"); s = os.open("f", os.O_RDONLY)
write("g", b"three"); os.rename("g", "f")
say(os.pread(s, 9, 0)); os.close(s); os.close(r)
say(read("f"))
""")
    assert contents(sandbox, "f") == [b"one", b"two2", b"three"]
    assert sorted(seen for f, seen, _ in accesses(sandbox, "f") if f & READ) == [1, 2, 3]


def test_a_reader_of_an_open_log(sandbox, mounted):
    """What it saw is a version, also while the file stays open; not each piece of a write."""
    python(sandbox, """
fd = os.open("log", os.O_WRONLY | os.O_CREAT); os.write(fd, b"one")
time.sleep(0.3); subprocess.run(["cat", "log"]); os.write(fd, b"two"); read("log"); os.close(fd)
""")
    assert contents(sandbox, "log") == [b"one", b"onetwo"]
    # the end of a use comes after the close: the second may come after that of the writer, which made a version
    assert [seen for f, seen, _ in accesses(sandbox, "log") if f & READ] in ([1, None], [1, 2])


def test_read_write_opens_by_what_happened(sandbox):
    for name in "abcdefgh":
        prepare(sandbox, name, b"text")
    sandbox.mount()
    python(sandbox, """
fd = os.open("a", os.O_RDWR); os.close(fd)
fd = os.open("b", os.O_RDWR); os.read(fd, 2); os.close(fd)
fd = os.open("c", os.O_RDWR); os.write(fd, b"X"); os.close(fd)
fd = os.open("d", os.O_RDWR); os.read(fd, 2); os.write(fd, b"X"); os.close(fd)
fd = os.open("e", os.O_WRONLY | os.O_APPEND); os.close(fd)
fd = os.open("f", os.O_RDONLY); os.close(fd)
fd = os.open("g", os.O_RDWR); m = mmap.mmap(fd, 4); say(m[0:2]); m.close(); os.close(fd)
fd = os.open("h", os.O_RDWR); os.ftruncate(fd, 2); os.close(fd)
fd = os.open("i", os.O_RDWR | os.O_CREAT); os.close(fd)
""")
    kinds = {name: [f & (READ | WRITTEN | CREATED) for f, _, _ in accesses(sandbox, name)] for name in "abcdefghi"}
    assert kinds == {
        "a": [], "b": [READ], "c": [WRITTEN], "d": [READ | WRITTEN], "e": [], "f": [READ],
        "g": [READ], "h": [WRITTEN], "i": [WRITTEN | CREATED],
    }
    [(_, seen, made)] = accesses(sandbox, "d")
    assert (seen, made) == (1, 2) and contents(sandbox, "d") == [b"text", b"teXt"]
    assert contents(sandbox, "h") == [b"text", b"te"] and contents(sandbox, "i") == [b""]


# --- what is not archived ---


def test_limits_are_visible(sandbox, shell):
    config = sandbox.write_outside(
        f"{sandbox.home}/.config/shfs/config.ini", "[archive]\nmax-size = 1000\nignore = *.tmp\n"
    )
    prepare(sandbox, ".shfsignore", b"scratch/\n")
    prepare(sandbox, "before", OLD)
    mount = sandbox.mount(None, "--config", config)
    bash = shell()
    bash.run("mkdir scratch; head -c 2000 /dev/zero > big; echo 1 > small; echo 2 > a.tmp; echo 3 > scratch/x")
    secret = "correct-horse-battery"
    sandbox.write(".env", f"PASSWORD={secret}\n".encode())
    bash.run("printf x >> before; cat big a.tmp > /dev/null")

    def reason(name):
        return [bool(v["object"]) or v["not_archived"] for v in versions(sandbox, name)]

    assert reason("small") == [True]
    assert "larger" in reason("big")[0] and "larger" in reason("before")[0]
    assert all("rule" in reason(name)[0] for name in ("a.tmp", "scratch/x", ".env"))
    commands = json.loads(sandbox.shfs("history", "--json", "--all").stdout)["commands"]
    assert [c["skipped"] for c in commands if c["text"]][::-1] == [3, 2 + 2]
    assert "not archived" in sandbox.shfs("history").stdout
    assert "larger" in sandbox.shfs("log", "big").stdout
    assert "larger" in sandbox.shfs("cat", "big", check=1).stderr
    entry, status = status_of(sandbox.shfs, sandbox.project)
    assert status["index"]["left_out"]["rule"] == 3 and status["index"]["left_out"]["size"] >= 2
    assert entry["skipped"] == int(mount.status()["skipped"]) >= 5
    assert sandbox.run("grep", "-r", "-c", secret, sandbox.store, check=1, cwd="/").stdout.count(":0") > 3


# --- names ---


def test_history_follows_names(sandbox, mounted):
    sandbox.sh("mkdir -p d/sub; echo 1 > d/sub/f; echo 2 > d/sub/f; mv d e; echo 3 > e/sub/f; mv e/sub/f g; echo 4 > g")
    assert contents(sandbox, "g") == [b"1\n", b"2\n", b"3\n", b"4\n"]
    assert contents(sandbox, "d/sub/f") == [b"1\n", b"2\n"]
    assert [v["carried"] for v in versions(sandbox, "g")] == [True, True, True, False]
    sandbox.sh("mv -T e/sub d; echo 5 > d/f; rm -r d; mkdir d; echo 6 > d/f")
    assert contents(sandbox, "d/f") == [b"5\n", b"6\n"]


def test_histories_of_names(sandbox, mounted):
    sandbox.sh("echo a1 > a; echo b1 > b; mv a t; mv b a; mv t b; echo a2 >> a; echo b2 >> b")  # swapped
    assert contents(sandbox, "a") == [b"a1\n", b"b1\n", b"b1\na2\n"]
    assert contents(sandbox, "b") == [b"b1\n", b"a1\n", b"a1\nb2\n"]
    sandbox.sh("echo 1 > x; echo 2 > x; mv x y; mv y z; mv z x; echo 3 > x")  # and back
    assert contents(sandbox, "x") == [b"1\n", b"2\n", b"3\n"]
    assert contents(sandbox, "y") == contents(sandbox, "z") == [b"1\n", b"2\n"]
    sandbox.sh("echo p > p; mv p q; mv q r; echo old > over; mv r over")  # a chain, over what is there
    assert contents(sandbox, "over") == [b"old\n", b"p\n"]
    assert contents(sandbox, "p") == contents(sandbox, "r") == [b"p\n"]
    sandbox.sh("mkdir -p d/a/b n; echo 1 > d/a/b/f; mv d e; mv e/a/b e/b; mv e d; echo 2 > d/b/f; mv -T d n; echo 3 > n/b/f")
    assert contents(sandbox, "n/b/f") == [b"1\n", b"2\n", b"3\n"]
    assert contents(sandbox, "d/a/b/f") == [b"1\n"] and contents(sandbox, "d/b/f") == [b"1\n", b"2\n"]


def test_directories_change_right_after_a_close(sandbox, mounted):
    """What was closed is of the name that it had then."""
    python(sandbox, """
for n in range(40):
    a, b = "a%d" % n, "b%d" % n
    os.mkdir(a); os.mkdir(b); write(a + "/f", b"a"); write(b + "/f", b"b"); renameat2(a, b, 2)
    write(a + "/f", b"+", os.O_WRONLY | os.O_APPEND); write(b + "/f", b"+", os.O_WRONLY | os.O_APPEND)
    os.rename(a, "c%d" % n)
""")
    held = rows(sandbox, "SELECT path, group_concat(size || source) FROM v_version GROUP BY path")
    held = {path.removeprefix(sandbox.project + "/"): made for path, made in held}
    for n in range(40):
        assert held[f"a{n}/f"] == "1written,1renamed,2written", (n, held)
        assert held[f"b{n}/f"] == "1written,1renamed,2written", (n, held)
    assert contents(sandbox, "a0/f") == [b"a", b"b", b"b+"] == contents(sandbox, "c0/f")
    assert contents(sandbox, "b0/f") == [b"b", b"a", b"a+"]


def test_by_the_old_name_too(sandbox):
    """What was archived after a rename, as it was written there, is the content of the old name as well."""
    for name in "f", "d/f", "g":
        prepare(sandbox, name)
    sandbox.mount()
    sandbox.sh("mkdir e; mv f e/f; cat d/f > /dev/null; mv d c; mv g h; mv h i; printf new > e/f; printf new > c/f; printf new > i")
    for name in "f", "e/f", "d/f", "c/f", "g", "h", "i":
        assert contents(sandbox, name)[0] == OLD, name


def test_open_files_follow_their_directory(sandbox, mounted):
    python(sandbox, """
os.mkdir("d"); fd = os.open("d/f", os.O_RDWR | os.O_CREAT); os.write(fd, b"12345")
os.rename("d", "e"); os.write(fd, b"6789"); os.close(fd)
write("e/f", b"later")
""")
    assert contents(sandbox, "e/f") == [b"123456789", b"later"]


def test_names_that_are_no_text(sandbox, mounted):
    names = [b"\xff\xfe", b"a\nb", b"--", b"@2", b"a@1", b" ", b"\x1b[31m"]
    for name in names:
        sandbox.run("sh", "-c", 'printf 1 > "./$1"; printf 2 > "./$1"', "sh", name)
    for name in names:
        assert sandbox.shfs("cat", "--", b"./" + name + b"@1", b"./" + name + b"@2").stdout_bytes == b"12"


@pytest.mark.both
def test_restore_gives_back_all(sandbox):
    """Bytes, permissions and time, as they were before shfs came."""
    prepare(sandbox, "f", OLD, 0o751)
    sandbox.mount()
    sandbox.sh("printf changed > f; chmod 600 f; sleep 0.01; echo more >> f; rm f")
    sandbox.shfs("restore", "f@1")
    state = sandbox.sh("stat -c '%a %y' f").stdout
    assert sandbox.read("f") == OLD and state.startswith("751 2001-09-09 01:46:47.123456789")
    sandbox.shfs("restore", "f@2")
    assert sandbox.read("f") == b"changed"


def test_undelete_gives_back_all(sandbox, mounted):
    """Also the permissions and times that were set after the last close."""
    sandbox.sh("""
mkdir -p t/u; echo 1 > t/f; echo 2 > t/u/g; head -c 100000 /dev/urandom > t/big
chmod 751 t/f; touch -d '2003-03-03 03:03:03.123456789' t/f; cp -a t keep; rm -r t
""")
    sandbox.shfs("undelete", "t")
    state = "cd %s; find . -type f | sort | xargs stat -c '%%n %%a %%y %%s'; find . -type f | sort | xargs sha256sum"
    assert sandbox.sh(state % "t").stdout == sandbox.sh(state % "keep").stdout
    sandbox.sh("rm -r t; mkdir t; echo anew > t/f")
    sandbox.shfs("undelete", "t", check=False)
    assert sandbox.read("t/f") == b"anew\n" and sandbox.read("t/u/g") == b"2\n"


@pytest.mark.both
def test_attributes_are_of_the_content_that_was_there(sandbox, mounted):
    """Set while the next one is being written they are not those of the last."""
    python(sandbox, """
write("f", b"1"); os.chmod("f", 0o755); os.utime("f", ns=(5, 5))
fd = os.open("f", os.O_WRONLY | os.O_TRUNC); os.write(fd, b"two"); os.fchmod(fd, 0o600); os.utime(fd, ns=(6, 6)); os.close(fd)
os.chmod("f", 0o640)
""")
    first, second = versions(sandbox, "f")
    assert (first["mode"], first["mtime"]) == ("0755", "1970-01-01T00:00:00.000000005Z")
    assert (second["mode"], second["mtime"]) == ("0640", "1970-01-01T00:00:00.000000006Z")
    before = rows(sandbox, "SELECT n, mode, mtime_ns FROM v_version")
    sandbox.shfs("reindex")
    assert rows(sandbox, "SELECT n, mode, mtime_ns FROM v_version") == before


# --- what programs do right after a close ---


def test_times_set_after_the_close(sandbox, mounted):
    """As rsync does, at once; the file may still be about to be read."""
    python(sandbox, """
for n in range(400):
    for name, size in ("small", 10), ("large", 100_000):
        write(name, str(n).encode().ljust(size))
        os.utime(name, ns=(n, n))
""")
    for name in ("small", "large"):
        assert [int(held) for held in contents(sandbox, name)] == list(range(400))


def test_linked_right_after_the_close(sandbox, mounted):
    """What was written is recorded by the name by which it was."""
    python(sandbox, """
for n in range(300):
    write("a%d" % n, b"text"); os.link("a%d" % n, "b%d" % n); os.stat("b%d" % n)
""")
    written = "SELECT path FROM v_access WHERE op = 'open' AND is_written"
    assert {os.path.basename(path) for (path,) in rows(sandbox, written)} == {f"a{n}" for n in range(300)}


def test_a_hole_that_is_stored_to(sandbox, mounted):
    """By a mapping, of which nothing has come yet: who copies what is no hole copies it."""
    out = python(sandbox, r"""
fd = os.open("f", os.O_RDWR | os.O_CREAT, 0o644); os.ftruncate(fd, 1 << 20)
with mmap.mmap(fd, 1 << 20) as mapped:
    mapped[500000:500003] = b"abc"
    subprocess.run("cp --sparse=auto --reflink=never f copy; tar cSf t.tar f", shell=True, check=True)
    say(read("copy")[500000:500003])
    os.mkdir("x"); subprocess.run(["tar", "xf", "t.tar", "-C", "x"]); say(read("x/f")[500000:500003])
os.close(fd); fd = os.open("f", os.O_RDONLY); say(os.lseek(fd, 0, os.SEEK_DATA) <= 500000)
""")
    assert out == b"b'abc'\nb'abc'\nTrue\n"


@pytest.mark.transports
def test_read_and_renamed_at_once(sandbox, mounted):
    """The kernel does not wait until it has told of the close; the read is by the old name."""
    python(sandbox, """
for i in range(300):
    write('f%d' % i, b'x')
for i in range(300):
    read('f%d' % i); os.rename('f%d' % i, 'g%d' % i)
""")
    read = rows(sandbox, "SELECT path FROM v_access WHERE op = 'open' AND is_read")
    assert {path for (path,) in read} == {f"{sandbox.project}/f{i}" for i in range(300)}


@pytest.mark.transports
def test_read_and_its_directory_renamed_at_once(sandbox, mounted):
    python(sandbox, """
for i in range(100):
    os.mkdir('d%d' % i); write('d%d/f' % i, b'x')
for i in range(100):
    read('d%d/f' % i); os.rename('d%d' % i, 'e%d' % i)
""")
    read = rows(sandbox, "SELECT path FROM v_access WHERE op = 'open' AND is_read")
    assert {path for (path,) in read} == {f"{sandbox.project}/d{i}/f" for i in range(100)}


@pytest.mark.transports
def test_read_and_exchanged_at_once(sandbox, mounted):
    python(sandbox, """
for i in range(100):
    write('f%d' % i, b'f'); write('g%d' % i, b'g')
for i in range(100):
    read('g%d' % i); renameat2('f%d' % i, 'g%d' % i, 2)
""")
    read = rows(sandbox, "SELECT path FROM v_access WHERE op = 'open' AND is_read")
    assert {path for (path,) in read} == {f"{sandbox.project}/g{i}" for i in range(100)}
