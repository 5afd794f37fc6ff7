# SPDX-License-Identifier: MIT
"""Reads and writes that the kernel does without us: that it does, and that all else is as before."""

import os
import signal

import pytest

from harness import mounts_below, wait_until
from test_capture import MAPPED, OLD, READ, WRITTEN, accesses, contents, prepare, rows, versions
from twins import python

pytestmark = pytest.mark.users("root")
SHARED = 1 << 8
NEW = b"new" + OLD[3:]


@pytest.fixture
def passing(sandbox):
    """The mount of the project, after what a case prepared in it."""

    def mount(*options):
        mounted = sandbox.mount(sandbox.project, *options)
        if not options and mounted.status()["passthrough"] != "on":
            pytest.skip("the kernel passes no writes here")
        return mounted

    return mount


def kept(sandbox, name):
    """What each version held; None for one that is marked as torn."""
    found = versions(sandbox, name)
    whole = iter(contents(sandbox, name, [v for v in found if not v["incomplete"]]))
    return [None if v["incomplete"] else next(whole) for v in found]


# Does something while the daemon is stopped; it is started again, late, if that waits for it.
ALONE = """
def alone(what):
    rescuer = os.fork()
    if not rescuer:
        time.sleep(10); os.kill({pid}, signal.SIGCONT); os._exit(0)
    os.kill({pid}, signal.SIGSTOP)
    result = what()
    os.kill(rescuer, signal.SIGKILL)
    os.kill({pid}, signal.SIGCONT)
    return result if os.waitpid(rescuer, 0)[1] else "late"
"""


def test_the_daemon_is_not_asked(sandbox, passing):
    prepare(sandbox, "old")
    mounted = passing()
    assert mounted.status()["backend"] == "fuse+passthrough"
    out = python(sandbox, ALONE.format(pid=mounted.process.pid) + """
r = os.open("old", os.O_RDONLY)
say(alone(lambda: os.pread(r, 1 << 20, 0) == bytes(range(256)) * 400))
m = mmap.mmap(r, 0, prot=mmap.PROT_READ)
say(alone(lambda: m[-1]))
w = os.open("new", os.O_WRONLY | os.O_CREAT, 0o644)
os.write(w, b"x")  # for the first one the kernel looks for capabilities
say(alone(lambda: os.write(w, b"x" * (3 << 20))))
os.chmod(".", 0o777); os.setegid(2000); os.seteuid(2000)
w = os.open("another's", os.O_WRONLY | os.O_CREAT, 0o644)
os.write(w, b"x")
os.seteuid(0)
say(alone(lambda: os.write(w, b"x" * 99)))
""")
    assert out.split() == [b"True", b"255", str(3 << 20).encode(), b"99"]
    assert kept(sandbox, "new") == [b"x" * ((3 << 20) + 1)]
    assert accesses(sandbox, "old") == [(READ, 1, None)]


def test_a_writer_outlives_the_daemon(sandbox, passing):
    sandbox.allow_log("ended")
    mounted = passing()
    mounted.expected_status = -signal.SIGKILL
    python(sandbox, f"""
w = os.open("f", os.O_WRONLY | os.O_CREAT, 0o644)
os.write(w, b"before ")
os.kill({mounted.process.pid}, signal.SIGKILL)
os.write(w, b"after")
attempt(os.close, w)
""")
    wait_until(lambda: not mounts_below(sandbox.project), "the mount to go")
    assert sandbox.run("cat", f"{sandbox.project}/f", cwd="/").stdout == "before after"


def test_it_can_be_switched_off(sandbox, passing):
    config = sandbox.write_outside(f"{sandbox.home}/off.ini", "[mount]\npassthrough = off\n")
    for option in ["--no-passthrough"], ["--config", config]:
        mounted = passing(*option)
        status = mounted.status()
        assert (status["backend"], status["passthrough"]) == ("fuse", "off")
        sandbox.write("f", b"x")
        mounted.unmount()


# Opens of one file a that are of two kinds, and what its versions are then. r is a reader.
MIXED = {
    "a writer joins a reader": (
        "fd = os.open(f, os.O_WRONLY); os.write(fd, b'new'); say(os.pread(r, 3, 0)); os.close(fd)", [OLD, NEW]),
    "one that reads and writes": (
        "fd = os.open(f, os.O_RDWR); say(os.read(fd, 2)); os.pwrite(fd, b'new', 0); os.close(fd)", [OLD, NEW]),
    "O_TRUNC": (
        "fd = os.open(f, os.O_WRONLY | os.O_TRUNC); os.write(fd, b'new'); say(os.pread(r, 9, 0)); os.close(fd)", [OLD, b"new"]),
    "a mapping": (
        "t = os.stat(f).st_mtime; fd = os.open(f, os.O_RDWR); m = mmap.mmap(fd, 0); os.close(fd); m[:3] = b'new'; "
        "assert os.pread(r, 3, 0) == b'new' and os.stat(f).st_mtime > t; m.close()",
        [OLD, NEW]),
    "a mapping that goes on": (
        "fd = os.open(f, os.O_RDWR); m = mmap.mmap(fd, 0); m[:1] = b'n'; os.getxattr('.', 'user.shfs.sync'); m[1:3] = b'ew'; "
        "os.close(fd); os.getxattr('.', 'user.shfs.sync'); m[3:4] = b'!'; m.close()", [OLD, None, b"new!" + OLD[4:]]),
    "truncate": ("os.truncate(f, 3); say(os.fstat(r).st_size)", [OLD, OLD[:3]]),
    "a reader and nothing else": ("fd = os.open(f, os.O_RDWR); m = mmap.mmap(fd, 0); say(m[:3]); m.close(); os.close(fd)", [OLD]),
}


def test_kinds_mix(sandbox, passing):
    for n in range(len(MIXED)):
        prepare(sandbox, f"{n}")
    passing()
    for n, (script, _) in enumerate(MIXED.values()):
        out = python(sandbox, f"f = '{n}'; r = os.open(f, os.O_RDONLY)\n{script}\nos.close(r)")
        now = sandbox.read(f"{n}")
        assert kept(sandbox, f"{n}")[-1] == now, (script, out)
    assert {what: kept(sandbox, f"{n}") for n, what in enumerate(MIXED)} == {what: v for what, (_, v) in MIXED.items()}
    flags = [flags for flags, *_ in accesses(sandbox, "3") if flags & WRITTEN]
    assert flags == [WRITTEN | MAPPED]
    flags = [flags for flags, *_ in accesses(sandbox, "1") if flags & WRITTEN]
    assert flags == [WRITTEN | READ]


# What is done to a file f while it is written through w without us, and what its versions are.
# SYNC captures it if it was closed.
SYNC = "os.getxattr('.', 'user.shfs.sync')"
OPEN = {
    "nothing": ("os.write(w, b'one'); os.write(w, b'two')", [b"onetwo"]),
    "renamed": ("os.write(w, b'one'); os.rename(f, f + '.to'); os.write(w, b'two'); os.rename(f + '.to', f)", [b"onetwo"]),
    "truncated": ("os.write(w, b'one'); os.truncate(f, 1); os.write(w, b'two')", [b"one", b"o", b"o\0\0two"]),
    "ftruncate": ("os.write(w, b'one'); os.ftruncate(w, 1); os.pwrite(w, b'two', 1)", [b"otwo"]),
    "allocated": ("os.write(w, b'one'); os.posix_fallocate(w, 0, 9)", [b"one" + b"\0" * 6]),
    "a descriptor closed": (f"os.write(w, b'one'); d = os.dup(w); os.close(d); {SYNC}; os.write(w, b'two')", [b"one", b"onetwo"]),
    "closed and nothing more": (f"os.write(w, b'one'); d = os.dup(w); os.close(d); {SYNC}", [b"one"]),
    "rewritten in place": (f"os.write(w, b'one'); d = os.dup(w); os.close(d); {SYNC}; os.pwrite(w, b'two', 0)", [b"one", b"two"]),
    "mode and times": (f"os.write(w, b'one'); os.chmod(f, 0o600); os.utime(w, ns=(5, 5)); os.write(w, b'two'); {SYNC}; os.chmod(f, 0o640)",
                       [b"onetwo"]),
    "another writes": ("os.write(w, b'one'); write(f, b'two', os.O_WRONLY | os.O_APPEND); os.close(w); w = -1", [b"onetwo"]),
    "another writes and it goes on": ("os.write(w, b'one'); write(f, b'two', os.O_WRONLY | os.O_APPEND); os.write(w, b'!'); time.sleep(0.01); "
                                      "os.write(w, b'?')", [b"onetwo", b"one!?o"]),
    "linked": ("os.write(w, b'one'); os.link(f, f + '.to'); os.write(w, b'two')", [b"onetwo"]),
    "another makes it empty": ("os.write(w, b'one'); fd = os.open(f, os.O_WRONLY | os.O_TRUNC); os.write(fd, b'2'); os.close(fd); os.write(w, b'3')",
                               None),
    "holes": ("os.pwrite(w, b'one', 100000)", [b"\0" * 100000 + b"one"]),
    "unlinked": ("os.write(w, b'one'); os.unlink(f); os.write(w, b'two'); write(f, b'other')", None),
}


def test_changes_while_it_is_written(sandbox, twins, passing):
    lines = [f"f = '{n}'; w = os.open(f, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)\n{script}\nif w >= 0: os.close(w)\nsay(f, read(f)[-99:], mode(f))"
             for n, (script, _) in enumerate(OPEN.values())]
    passing()
    twins.prepared = True
    sync = "def sync():\n    try: os.getxattr('.', 'user.shfs.sync')\n    except OSError: pass\n"
    twins.run(sync + "\n".join(lines).replace(SYNC, "sync()"))
    got = {}
    for n, (what, (_, expected)) in enumerate(OPEN.items()):
        held = kept(sandbox, f"{n}")
        assert held[-1] == sandbox.read(f"{n}"), what
        got[what] = [v for v in held if v is not None] if expected else None
    assert got == {what: expected for what, (_, expected) in OPEN.items()}


def test_who_else_had_it_open(sandbox, passing):
    """A child that writes is named too, one that does not is not."""
    passing()
    python(sandbox, """
def run(name, *argv):
    fd = os.open(name, os.O_WRONLY | os.O_CREAT, 0o644)
    os.set_inheritable(fd, True)
    os.write(fd, b"parent ")
    subprocess.run([*argv, "/dev/null"], stdout=fd, close_fds=False)
    os.close(fd)

run("shared", "/usr/bin/printf", "child")
run("kept", "/usr/bin/test", "-e")
fd = os.open("closed", os.O_WRONLY | os.O_CREAT, 0o644)
os.write(fd, b"parent")
subprocess.run(["/usr/bin/printf", "x"], stdout=subprocess.DEVNULL)
os.close(fd)
""")
    sql = ("SELECT p.exe, a.flags FROM v_access a JOIN v_process p ON p.process_id = a.process_id "
           f"WHERE a.path = '{sandbox.project}/%s' AND a.op = 'open' ORDER BY a.seq_key")
    found = {}
    for name in "shared", "kept", "closed":
        found[name] = {os.path.basename(exe): bool(flags & SHARED) for exe, flags in rows(sandbox, sql % name)}
    assert found["shared"].keys() == {"python3.11", "printf"} and all(found["shared"].values())
    assert found["kept"] == found["closed"] == {"python3.11": False}


RIGHTS = """
import resource
def as_user(uid, what):
    child = os.fork()
    if not child:
        os.setgid(uid); os.setuid(uid)
        try: what()
        finally: sys.stdout.flush(); os._exit(0)
    os.waitpid(child, 0)

def set_id():
    fd = os.open("u%d" % os.getuid(), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.write(fd, b"one")
    os.fchmod(fd, 0o6755)
    os.write(fd, b"two")
    say(oct(os.fstat(fd).st_mode), os.fstat(fd).st_uid)
    os.close(fd)

def set_id_of_another():
    # a reader of root's was there first
    r = os.open("u2000", os.O_RDONLY)
    as_user(2000, set_id)
    os.close(r)

def limited():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
    fd = os.open("l%d" % os.getuid(), os.O_WRONLY | os.O_CREAT, 0o644)
    say(os.write(fd, b"x" * 9000), attempt(os.write, fd, b"x"))
    os.close(fd)

def direct():
    fd = os.open("d", os.O_WRONLY | os.O_CREAT | os.O_DIRECT, 0o644)
    page = mmap.mmap(-1, 4096); page[:3] = b"one"
    say(os.writev(fd, [page]), os.fsync(fd)); os.close(fd)
    fd = os.open("d", os.O_RDONLY | os.O_DIRECT)
    say(os.readv(fd, [page]), page[:3]); os.close(fd)

def synced():
    fd = os.open("s", os.O_WRONLY | os.O_CREAT | os.O_SYNC, 0o644)
    say(os.write(fd, b"x" * 9000), os.fdatasync(fd)); os.close(fd)

def told():
    # size and times are true while it is written
    fd = os.open("t", os.O_WRONLY | os.O_CREAT, 0o644)
    sizes, times = [], set()
    for i in range(20):
        os.write(fd, b"xyz"); s = os.stat("t"); sizes.append((s.st_size, s.st_blocks > 0)); times.add(s.st_mtime_ns)
        time.sleep(0.005)
    say(sizes, len(times) > 5); os.close(fd)

def appended():
    def lines(n):
        fd = os.open("a", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        for i in range(300): os.write(fd, b"%d %d\\n" % (n, i))
    open("a", "w").close()
    os.unlink("a")
    children = []
    for n in range(4):
        children.append(os.fork())
        if not children[-1]: lines(n); os._exit(0)
    for child in children: os.waitpid(child, 0)
    say(sorted(read("a").split(b"\\n")) == sorted([b"%d %d" % (n, i) for n in range(4) for i in range(300)] + [b""]))

def copied():
    write("from", b"f" * 300000)
    a, b = os.open("from", os.O_RDONLY), os.open("to", os.O_WRONLY | os.O_CREAT, 0o644)
    say(os.copy_file_range(a, b, 100000, 0, 10), os.sendfile(b, a, 0, 1000), os.fstat(b).st_size); os.close(b)
    r, w = os.pipe(); os.write(w, b"spliced")
    b = os.open("to2", os.O_WRONLY | os.O_CREAT, 0o644)
    say(os.splice(r, b, 7)); os.close(b); say(read("to2"), len(read("to")))

def started():
    write("prog", read("/bin/true"), mode=0o755)
    say(subprocess.run(["./prog"]).returncode)
    r = os.open("prog", os.O_RDONLY)
    say(subprocess.run(["./prog"]).returncode, attempt(os.open, "prog", os.O_WRONLY) > 0)

os.chmod(".", 0o777)
as_user(0, set_id); as_user(2000, set_id); set_id_of_another()
as_user(0, limited); as_user(2000, limited)
direct(); synced(); told(); appended(); copied(); started()
"""


def test_rights_and_limits_of_the_writer(twins, passing):
    passing()
    twins.prepared = True
    told = twins.run(RIGHTS)
    assert "0o106755 0" in told and "0o100755 2000" in told


def test_appending_is_ended(twins, passing):
    """By a descriptor of who would be passed, had it not been opened to append."""
    passing()
    twins.prepared = True
    twins.run("""
fd = os.open("f", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
os.write(fd, b"0123456789"); fcntl.fcntl(fd, fcntl.F_SETFL, 0)
say(os.pwrite(fd, b"ab", 0), os.lseek(fd, 4, 0), os.write(fd, b"cd")); os.close(fd)
say(read("f"))
fd = os.open("g", os.O_WRONLY | os.O_CREAT, 0o644)
os.write(fd, b"0123456789"); fcntl.fcntl(fd, fcntl.F_SETFL, os.O_APPEND)
say(os.lseek(fd, 4, 0), os.write(fd, b"cd"), os.pwrite(fd, b"ef", 1)); os.close(fd)
say(read("g"))
""")
