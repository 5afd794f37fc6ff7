# SPDX-License-Identifier: MIT
"""One property: before any change or removal of a file's bytes, these are in an object that exists
then, by the rules of the names that the file has then; or it is told why not."""

import json
import os

import harness
import pytest

from test_capture import BEFORE, contents, prepare, rows, versions
from twins import python

pytestmark = pytest.mark.either

INCOMPLETE = 8  # enum shfs_content_flags
LARGE = 2 << 20  # more than what is archived when it is only read


def content(n, size=LARGE):
    return (b"content %d\n" % n * (size // 10 + 1))[:size]


# What can be done to a file f by which its bytes are gone.
LOSSES = {
    "O_TRUNC": "write(f, b'new')",
    "write": "write(f, b'new', os.O_WRONLY)",
    "append": "write(f, b'new', os.O_WRONLY | os.O_APPEND); os.truncate(f, 3)",
    "truncate": "os.truncate(f, 3)",
    "mapping": "fd = os.open(f, os.O_RDWR); m = mmap.mmap(fd, 0); m[0:3] = b'new'; m.close(); os.close(fd)",
    "rename over": "write(f + '.new', b'new'); os.rename(f + '.new', f)",
    "exchange": "write(f + '.new', b'new'); renameat2(f + '.new', f, 2); os.unlink(f + '.new')",
    "unlink": "os.unlink(f)",
}

# How it came to be what it is: what is there before the mount, and what is done to it then.
# x is another name, by which it would not be archived.
STATES = {
    "read": ("f", "read(f)"),
    "read twice, and looked at": ("f", "read(f); read(f); os.stat(f); os.chmod(f, 0o600)"),
    "read and moved": ("f", "read(f); os.rename(f, f + '.1'); os.rename(f + '.1', f)"),
    "open to read": ("f", "os.open(f, os.O_RDONLY)"),
    "read by a mapping": ("f", "fd = os.open(f, os.O_RDONLY); m = mmap.mmap(fd, 0, prot=mmap.PROT_READ); m[9]; os.close(fd)"),
    "written by an ignored name": ("", "write(x, data); os.rename(x, f)"),
    "there by an ignored name": ("x", "os.rename(x, f)"),
    "read by an ignored name": ("x", "read(x); os.rename(x, f)"),
    "linked from an ignored name": ("", "write(x, data); os.link(x, f)"),
    "linked from an ignored name that went": ("x", "os.link(x, f); os.unlink(x)"),
    "moved with its directory": ("", "os.mkdir(x); write(x + '/y', data); os.rename(x, d); f = d + '/y'"),
    "exchanged with an ignored name": ("", "write(x, data); write(f, b'other'); renameat2(x, f, 2); os.unlink(x)"),
}

STEP = """
f, x, d, data = {name!r}, {other!r}, {name!r} + '.d', content({n})
{what}
"""


def lay_out(sandbox, n, name, other, first):
    if first:
        path = os.path.join(sandbox.project, {"f": name, "x": other}[first])
        sandbox.write_outside(path, content(n))
        os.utime(path, ns=BEFORE)


def run(sandbox, steps):
    define = f"content = lambda n, size={LARGE}: (b'content %d\\n' % n * (size // 10 + 1))[:size]\n"
    python(sandbox, define + "".join(steps), timeout=120)


def check_kept(sandbox, cases):
    """Cases: {what: (number, paths that the content may be found by)}."""
    sandbox.shfs("sync")
    wrong = {}
    for what, (n, names) in cases.items():
        held = [data for name in names for data in contents(sandbox, name) if data]
        if content(n) not in held:
            wrong[what] = [(v["path"] if "path" in v else name, v["n"], v["size"], v["not_archived"]) for name in names for v in versions(sandbox, name)]
    assert not wrong, "\n".join(f"{what}: {found}" for what, found in wrong.items())


@pytest.mark.parametrize("state", STATES)
def test_before_a_change(sandbox, state):
    first, what = STATES[state]
    other = ".cache/{}" if "ignored" in state or "directory" in state else "{}.other"
    sandbox.mkdir(f"{sandbox.project}/.cache")
    cases, steps = {}, []
    for n, (loss, how) in enumerate(LOSSES.items()):
        name = f"{n}.json"
        lay_out(sandbox, n, name, other.format(n), first)
        steps.append(STEP.format(name=name, other=other.format(n), n=n, what=f"{what}\n{how}"))
        cases[loss] = n, [f"{name}.d/y" if "directory" in state else name]
    sandbox.mount()
    run(sandbox, steps)
    check_kept(sandbox, cases)


@pytest.mark.users("ordinary")
def test_pruned_meanwhile(sandbox, shfs, mounted):
    """What was archived, and taken away on purpose, is archived again before it is gone."""
    cases = {loss: (n, [f"{n}.txt"]) for n, loss in enumerate(LOSSES)}
    run(sandbox, [STEP.format(name=f"{n}.txt", other="", n=n, what="write(f, data)") for n, _ in cases.values()])
    assert json.loads(shfs("prune", "--also-newest", "--older-than", "0s", "--json", sandbox.project).stdout)["objects"] == len(LOSSES)
    assert [v["not_archived"] for v in versions(sandbox, "0.txt")] == ["pruned"]
    steps = [STEP.format(name=names[0], other="", n=n, what=LOSSES[loss]) for loss, (n, names) in cases.items()]
    run(sandbox, steps)
    check_kept(sandbox, cases)
    first = [versions(sandbox, names[0])[0] for _, names in cases.values()]
    assert [(v["source"], v["not_archived"]) for v in first] == [("written", None)] * len(LOSSES)


@pytest.mark.users("ordinary")
def test_a_rule_that_went(sandbox, mounted):
    """Of .shfsignore."""
    cases = {loss: (n, [f"{n}.txt"]) for n, loss in enumerate(LOSSES)}
    sandbox.write(".shfsignore", b"*.txt\n")
    run(sandbox, [STEP.format(name=f"{n}.txt", other="", n=n, what="write(f, data)") for n, _ in cases.values()])
    sandbox.write(".shfsignore", b"")
    run(sandbox, [STEP.format(name=names[0], other="", n=n, what=LOSSES[loss]) for loss, (n, names) in cases.items()])
    check_kept(sandbox, cases)
    first = [versions(sandbox, names[0])[0] for _, names in cases.values()]
    assert [(v["source"], v["not_archived"]) for v in first] == [("written", None)] * len(LOSSES)


# What is done to a file f that is open as fd and was written through it; its versions then.
CUTS = {
    "by its name": ("os.truncate(f, 3)", [b"one two", b"one", b"one+"]),
    "by its name, by another process": ("subprocess.run(['truncate', '-s', '3', f])", [b"one two", b"one", b"one+"]),
    "by its name, to what it has": ("os.truncate(f, 7)", [b"one two", b"one+two"]),
    "by its name, in vain": ("attempt(os.truncate, f, 1 << 62)", [b"one two", b"one+two"]),
    "by opening it": ("os.open(f, os.O_WRONLY | os.O_TRUNC)", [b"one two", b"\0\0\0+"]),
    "by another descriptor": ("a = os.open(f, os.O_RDWR); os.ftruncate(a, 3); os.close(a)", [b"one two", b"one", b"one+"]),
    "by the same": ("os.ftruncate(fd, 3)", [b"one+"]),
}


def test_truncated_while_it_is_written(sandbox, mounted):
    """What was written until then is a version, and what that left."""
    python(sandbox, "".join(f"""
f = "{n}"; fd = os.open(f, os.O_RDWR | os.O_CREAT)
os.pwrite(fd, b"one two", 0); {how}; os.pwrite(fd, b"+", 3); os.close(fd)
""" for n, (how, _) in enumerate(CUTS.values())))
    assert {what: contents(sandbox, f"{n}") for n, what in enumerate(CUTS)} == {what: held for what, (_, held) in CUTS.items()}
    assert {v["not_archived"] for n in range(len(CUTS)) for v in versions(sandbox, f"{n}")} == {None}


@pytest.mark.transports
@pytest.mark.both
def test_a_part_of_a_write(sandbox, mounted):
    """The kernel cuts it at pages, and a child that ends meanwhile closes what it has got."""
    python(sandbox, """
for n in range(60):
    f = "f%d" % n
    a = os.open(f, os.O_RDWR | os.O_CREAT); w = os.open(f, os.O_RDWR)
    os.write(a, b"a" * 100); os.pwrite(w, b"w" * (n % 2 * 3996 + 100), 100)
    child = os.fork()
    if not child: os._exit(0)
    os.pwrite(w, b"x" * 27856, 4096 if n % 3 == 0 else 200); os.waitpid(child, 0); os.close(a); os.close(w)
""", timeout=120)
    found = rows(sandbox, f"""
SELECT path, n, object FROM v_version WHERE path GLOB '{sandbox.project}/f*' AND NOT flags & {INCOMPLETE} ORDER BY 1, 2""")
    held = {}  # of each object; there are few
    for path, n, name in found:
        if name not in held:
            held[name] = sandbox.shfs("cat", f"{path}@{n}").stdout_bytes
    for n in range(60):
        first = b"a" * 100 + b"w" * (n % 2 * 3996 + 100)
        at = 4096 if n % 3 == 0 else 200
        last = first[:at].ljust(at, b"\0") + b"x" * 27856
        got = [held[name] for path, _, name in found if path == f"{sandbox.project}/f{n}"]
        assert got[-1] == last and set(got) <= {first, last}, (n, [len(data) for data in got])


@pytest.mark.users("root")
@pytest.mark.transports
def test_a_part_of_a_write_that_is_held_up(sandbox, mounted):
    """As on a busy machine: by memory that is not there yet. A child closes the file meanwhile."""
    python(sandbox, """
uffd = call("syscall", 323, os.O_CLOEXEC)  # userfaultfd(2)
fcntl.ioctl(uffd, 0xc018aa3f, struct.pack("3Q", 0xaa, 0, 0))  # UFFDIO_API
for at, there, size in [(200, 4096, 28056), (0, 1 << 20, 2 << 20)] * 3:  # in the file: from where, up to where at once, and in all
    w = os.open("f%d" % size, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    os.pwrite(w, b"w" * 200, 0)
    memory = mmap.mmap(-1, 4 << 20); memory[:there] = bytes(there)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    rest = address + there, len(memory) - there
    fcntl.ioctl(uffd, 0xc020aa00, struct.pack("4Q", *rest, 1, 0))  # UFFDIO_REGISTER: what is missing
    child = os.fork()
    if not child: time.sleep(0.2); os._exit(0)
    bring = lambda: (time.sleep(0.5), fcntl.ioctl(uffd, 0xc020aa04, struct.pack("4Q", *rest, 0, 0)))  # UFFDIO_ZEROPAGE
    thread = threading.Thread(target=bring); thread.start()
    assert libc.pwrite(w, ctypes.c_void_p(address + at), ctypes.c_size_t(size - at), ctypes.c_long(at)) == size - at
    thread.join(); os.waitpid(child, 0); os.close(w)
""", timeout=60)
    for size in 28056, 2 << 20:
        assert {v["size"] for v in versions(sandbox, f"f{size}") if not v["incomplete"]} <= {0, 200, size}
        assert len(sandbox.shfs("cat", f"f{size}").stdout_bytes) == size


@pytest.mark.transports
def test_a_whole_write_that_looked_like_a_part(sandbox, mounted):
    """Another's close cannot know that no more of it follows; its own does."""
    python(sandbox, """
for n in range(10):
    f = "f%d" % n
    w = os.open(f, os.O_RDWR | os.O_CREAT)
    told, tell = os.pipe(); done, say_done = os.pipe()
    child = os.fork()
    if not child:
        os.close(w); a = os.open(f, os.O_WRONLY); os.write(a, b"a"); os.write(say_done, b"1"); os.read(told, 1); os._exit(0)
    os.read(done, 1); os.pwrite(w, b"w" * 8192, 0); os.write(tell, b"1"); os.waitpid(child, 0); os.close(w)
""")
    for n in range(10):
        last = versions(sandbox, f"f{n}")[-1]
        assert not last["incomplete"] and sandbox.shfs("cat", f"f{n}@{last['n']}").stdout_bytes == b"w" * 8192


@pytest.mark.users("root")
def test_a_rename_that_fails(sandbox):
    """What was archived for it is told of, once it is gone."""
    content_of = {f"{n}.txt": content(n) for n in range(2)}
    with harness.disk(sandbox, 40, where=sandbox.mkdir(f"{sandbox.project}/there")):
        for name, data in content_of.items():
            prepare(sandbox, name, data)
            prepare(sandbox, f"there/{name}", b"other")
        mount = sandbox.mount()
        python(sandbox, """
for name in "0.txt", "1.txt":
    say(attempt(os.rename, name, "there/" + name))
write("0.txt", b"new"); os.unlink("1.txt")
""")
        for name, data in content_of.items():
            assert contents(sandbox, name)[0] == data
        mount.unmount()


@pytest.mark.backends(without=["fuse"])
@pytest.mark.users("ordinary")
def test_named_anew_without_fuse(sandbox):
    """It is kept by its new name, whatever kept it out by the old one: a rule, the limit of what is read."""
    large, small = content(1), b"small\n"
    sandbox.write("read.json", large)
    mounted = sandbox.mount()
    for step in ("cat read.json > /dev/null", "mkdir .cache; echo small > .cache/i", "mv read.json large.dat", "mv .cache/i result"):
        sandbox.sh(step)
        mounted.settle()
    sandbox.shfs("sync", timeout=60)
    last = dict(rows(sandbox, "SELECT path, max(n) FROM v_version GROUP BY path"))
    for name, data in (("large.dat", large), ("result", small)):
        n = last[os.path.join(sandbox.project, name)]
        assert sandbox.shfs("cat", f"{name}@{n}").stdout_bytes == data, name
