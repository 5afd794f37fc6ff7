# SPDX-License-Identifier: MIT
"""What the drivers of kmod-fast-path tell, each by itself: no helper, no recorder."""

import contextlib
import os
import re
import signal
import subprocess

import pytest

import harness
from watching import FILES, TOOL, Event, Events, Watch, fnv

HERE = os.path.dirname(__file__)
# alone: they hear of all processes of the machine, and would lose some under its load
pytestmark = [pytest.mark.users("ordinary"), pytest.mark.alone]
DRIVERS = os.environ.get("SHFS_TEST_DRIVERS", "bpf bpf-tracepoints fanotify").split()


@pytest.fixture(params=DRIVERS)
def watch(request, sandbox):
    return Watch(sandbox, request.param)


@pytest.fixture
def edges(sandbox):
    with open(os.path.join(HERE, "edges.c"), encoding="utf-8") as source:
        return sandbox.compile("edges", source.read())


# way: is it written? (all that are not here are)
NOT_WRITTEN = {"read", "rdwr-only-read", "wronly-nothing", "append-nothing", "map-shared-write-nothing", "map-private"}
# what a driver need not pin, as it has no name by then
NAMELESS = {"module": set(), "fanotify": set(), "bpf-tracepoints": set()}
NAMELESS["bpf"] = {"unlinked-before", "unlinked-behind", "called (deleted)", "renamed.tmp"}
# no call of a process gives back their last reference
UNSEEN_BY_TRACEPOINTS = {"left-in-a-socket", "orphan"}
HELD = {
    "write": b"x", "truncate-by-open": b"", "truncate-open-file": b"012", "map-then-close-then-write": b"M123456789",
    "map-until-exit": b"\0E" + bytes(4094), "map-then-protect": b"R123456789", "dup": b"dD", "inherited": b"pc",
    "thread": b"T", "io-uring": b"uring", "copy-file-range": b"0123456789", "sendfile": b"0123456789", "splice": b"abc",
    "fallocate": bytes(100), "without-name": b"t", "orphan": b"x", "left-in-a-socket": b"g", "passed": b"sr",
    "close-on-exec": b"e", "killed": b"k", "renamed.tmp": b"x", "unlinked-before": b"u", "unlinked-behind": b"x",
    "called (deleted)": b"x", "write-of-nothing": b"",
}


def test_ways_to_use_a_file(watch, edges, sandbox):
    sandbox.run(edges, "prepare")
    events = watch.script(f"{edges} run > ../closers", options=["--hash"])
    assert not events.of("LOST")
    closers = dict(line.split("\t") for line in open(f"{sandbox.home}/closers", encoding="utf-8").read().splitlines())
    closers["renamed.tmp"] = closers.pop("renamed-behind")
    # the module calls it by its inode
    numbers = {e.path: e.path2 for e in events.of("LINK") if e.path.startswith("#")}
    for close in events.of("CLOSE"):
        close.path = numbers.get(close.path, close.path)
    for name, closer in closers.items():
        closes = events.of("CLOSE", path=name)
        if watch.driver == "bpf-tracepoints" and name in UNSEEN_BY_TRACEPOINTS and not closes:
            continue
        assert len(closes) == 1, (name, closes)
        close = closes[0]
        # a matter of taste, and the module cannot know of a mapping
        if name != "write-of-nothing" and not (watch.driver == "module" and "MAPPED" in close.flags):
            assert ("WRITTEN" in close.flags) == (name not in NOT_WRITTEN), close
        assert ("WRITABLE" in close.flags) == (name != "read"), close
        if closer != "-1":
            assert close.pid == int(closer), close
        if "WRITTEN" in close.flags and ("PINNED" in close.flags or name not in NAMELESS[watch.driver]):
            assert close.hash == fnv(HELD[name]), close
    assert "READABLE" in events.of("CLOSE", path="read")[0].flags
    assert len(events.of("CLOSE", path="source")) in (1, 2)  # fanotify may tell them as one


@pytest.mark.parametrize("options", [[], ["--late"]], ids=["drained", "late"])
@pytest.mark.timeout(180)
def test_no_content_is_lost(watch, edges, options):
    """Also of many files that are unlinked at once, and that nobody takes before the end."""
    count = 20000 if harness.ALL or (watch.driver == "fanotify" and options) else 6000
    events = watch.run(edges, "loop", str(count), options=["--hash", *options])
    expected = {f"loop{i}": fnv(b"the content of file %d" % i) for i in range(count)}
    closes = events.of("CLOSE")
    pinned = {e.path: e.hash for e in closes if "PINNED" in e.flags}
    assert pinned.items() <= expected.items()
    if watch.driver == "fanotify" and options:  # the kernel queues 16,384: see below
        assert events.of("LOST") and len(pinned) == len(closes) <= 16384
        return
    assert not events.of("LOST")
    assert len(closes) == count and {e.path for e in closes} == set(expected)
    # bpf finds no file that has no name, fanotify keeps so many for bpf-tracepoints
    if watch.driver == "fanotify" or (watch.driver == "bpf-tracepoints" and not options):
        assert pinned == expected
    order = {}
    for i, event in enumerate(events.of("CLOSE", "UNLINK")):
        order.setdefault(event.path, []).append(event.type)
    assert set(map(tuple, order.values())) == {("CLOSE", "UNLINK")}


def test_who_made_whom_under_load(watch, edges, sandbox):
    load = "for i in 1 2 3 4; do (i=0; while [ $i -lt 300 ]; do /bin/true; i=$((i+1)); done) & done; "
    events = watch.script(f"{load} {edges} storm 100 > ../pids; wait")
    assert not events.of("LOST")
    pids = [int(line) for line in open(f"{sandbox.home}/pids", encoding="utf-8")]
    parent = {e.child: (e.pid, e.child_start) for e in events.of("FORK")}
    ended = {e.pid: i for i, e in enumerate(events) if e.type == "EXIT"}
    forked = {e.child: i for i, e in enumerate(events) if e.type == "FORK"}
    for n, pid in enumerate(pids):
        if n:
            assert parent[pid][0] == pids[n - 1]
        (i, close) = next((i, e) for i, e in enumerate(events) if e.type == "CLOSE" and e.path == f"storm{100 - n}")
        assert close.pid == pid and close.start == parent[pid][1] and close.uid == sandbox.user.uid
        assert forked[pid] < i < ended[pid]
    assert len(forked) >= 1300


def test_what_a_process_has_used(watch, sandbox):
    """Beside what wait4(2) says, in bounds that say no time. What is not known is not told."""
    with open(os.path.join(HERE, "usage.c"), encoding="utf-8") as source:
        program = sandbox.compile("usage", source.read())
    events = watch.script(f"{program} > ../usage")
    assert not events.of("LOST")
    ends = {e.pid: e for e in events.of("EXIT")}
    with open(f"{sandbox.home}/usage", encoding="utf-8") as file:
        usage = {name: [int(n) for n in numbers] for name, *numbers in map(str.split, file)}
    assert len(usage) == 8
    for name, (pid, status, user_us, system_us, rss_kib) in usage.items():
        end = ends[pid]
        if watch.driver == "fanotify":
            assert "USAGE" not in end.flags
            continue
        said = f"{name}: {status} {user_us} {system_us} {rss_kib}, not {end}"
        assert "USAGE" in end.flags and end.status == status, said
        for found, wanted in (end.user, user_us), (end.system, system_us), (end.user + end.system, user_us + system_us):
            assert abs(found - wanted) <= wanted / 3 + (user_us + system_us) / 10 + 20000, said
        assert rss_kib / 1.2 - 1000 <= end.rss <= rss_kib * 1.2 + 1000, said


def test_programs(watch):
    events = watch.script("sleep 0.1; exec sleep 0.2")
    said = [(e.path, e.path2.split("\0")) for e in events.of("EXEC") if "INEXACT" not in e.flags]
    assert (os.path.realpath("/bin/sleep"), ["sleep", "0.2"]) in said
    program = next(e for e in events.of("EXEC") if e.path2 == "sleep\x000.2")
    assert program.ino == os.stat("/bin/sleep").st_ino and program.mode & 0o111


def test_programs_that_end_at_once(watch):
    """Most are gone when their EXEC is read; what they were called is known all the same."""
    events = watch.script("i=0; while [ $i -lt 300 ]; do /bin/true; i=$((i+1)); done")
    names = [os.path.basename(e.path) for e in events.of("EXEC")]
    assert names.count("true") == 300 and set(names) <= {"true", "sh", os.path.basename(os.path.realpath("/bin/sh"))}


def test_another_users_work_is_not_told(watch, sandbox):
    os.chmod(watch.root, 0o777)
    sandbox.run("sh", "-c", "echo theirs > open; chmod 666 open")
    script = "echo x > mine; cat open >&2; echo y >> open; mkdir d; mv mine d; sh -c 'echo z > d/z'; rm -r d"
    events = watch.run("sh", "-c", script, as_uid=12345)
    assert not events.of(*FILES, "LOST"), events
    assert 12345 not in {e.uid for e in events}


def test_what_a_setuid_program_does_is_not_told(watch, sandbox):
    program = sandbox.compile("other", "#include <fcntl.h>\n#include <unistd.h>\nint main(void) { return close(creat(\"by-root\", 0644)); }")
    os.chown(program, 0, 0)
    os.chmod(program, 0o4755)
    os.chmod(watch.root, 0o777)
    events = watch.script(f"echo a > before; {program}; echo b > after")
    assert events.said("CLOSE") == [("CLOSE", "before"), ("CLOSE", "after")]


CASES = {
    "renamed at once": ("echo foo > bar; mv bar bar_old", [("CLOSE", "bar"), ("RENAME", "bar", "bar_old")]),
    "saved": (
        "echo 1 > f; echo 2 > t; mv t f; cat f",
        [("CLOSE", "f"), ("CLOSE", "t"), ("RENAME", "t", "f"), ("CLOSE", "f")],
    ),
    "moved away, made anew": (
        "echo 1 > f; mv f f~; echo 2 > f; cat f~; rm f~",
        [("CLOSE", "f"), ("RENAME", "f", "f~"), ("CLOSE", "f"), ("CLOSE", "f~"), ("UNLINK", "f~")],
    ),
    "directory renamed": (
        "mkdir d d/e; echo 1 > d/e/f; mv d g; cat g/e/f; rm -r g",
        [
            ("MAKE", "d"), ("MAKE", "d/e"), ("CLOSE", "d/e/f"), ("RENAME", "d", "g"), ("CLOSE", "g/e/f"),
            ("UNLINK", "g/e/f"), ("UNLINK", "g/e"), ("UNLINK", "g"),
        ],
    ),
    "hard links": (
        "mkdir d; echo 1 > a; ln a d/b; mv d e; ln e/b c; rm a; echo 2 >> c; rm e/b c",
        [
            ("MAKE", "d"), ("CLOSE", "a"), ("LINK", "a", "d/b"), ("RENAME", "d", "e"), ("LINK", "e/b", "c"),
            ("UNLINK", "a"), ("CLOSE", "c"), ("UNLINK", "e/b"), ("UNLINK", "c"),
        ],
    ),
    "linked again": (
        "echo 1 > a; ln a b; rm b; ln a c",
        [("CLOSE", "a"), ("LINK", "a", "b"), ("UNLINK", "b"), ("LINK", "a", "c")],
    ),
    "linked, and replaced": (
        "echo 1 > a; ln a b; echo 2 > c; mv c a; ln b d",
        [("CLOSE", "a"), ("LINK", "a", "b"), ("CLOSE", "c"), ("RENAME", "c", "a"), ("LINK", "b", "d")],
    ),
    "linked by a name that is replaced": (
        "echo 1 > b; ln b a; echo 2 > c; mv c b",
        [("CLOSE", "b"), ("LINK", "b", "a"), ("CLOSE", "c"), ("RENAME", "c", "b")],
    ),
    "linked by the name that is left": (
        "echo 1 > a; ln a b; cat b; echo 2 > c; mv c b; rm b; ln a d",
        [("CLOSE", "a"), ("LINK", "a", "b"), ("CLOSE", "b"), ("CLOSE", "c"), ("RENAME", "c", "b"), ("UNLINK", "b"),
         ("LINK", "a", "d")],
    ),
    "linked, and the other name renamed and replaced": (
        "echo 1 > a; ln a b; cat b; mv b c; echo 2 > t; mv t c; ln a d",
        [("CLOSE", "a"), ("LINK", "a", "b"), ("CLOSE", "b"), ("RENAME", "b", "c"), ("CLOSE", "t"), ("RENAME", "t", "c"),
         ("LINK", "a", "d")],
    ),
    "called (deleted)": (
        "echo 1 > 'a (deleted)'; cat 'a (deleted)'; rm a*",
        [("CLOSE", "a (deleted)"), ("CLOSE", "a (deleted)"), ("UNLINK", "a (deleted)")],
    ),
    "others": (
        "ln -s 'to where' s; mkfifo p; mkdir d; rmdir d; rm s p",
        [("MAKE", "s", "to where"), ("MAKE", "p"), ("MAKE", "d"), ("UNLINK", "d"), ("UNLINK", "s"), ("UNLINK", "p")],
    ),
    "mode": ("echo 1 > f; chmod 600 f", [("CLOSE", "f"), ("CHANGE", "f")]),
    "attributes": (
        "echo 1 > f; setfattr -n user.a -v 1 f; setfattr -x user.a f; setfacl -m u:0:r f; setfacl -x u:0 f; "
        "setfacl -b f; setfattr -x user.a f || :",
        [("CLOSE", "f")] + 5 * [("CHANGE", "f")],
    ),
    "out and in": (
        "mkdir d; echo 1 > d/f; mv d ../d; echo 2 > ../d/f; cat ../d/f; mv ../d e; cat e/f; echo 3 > e/f",
        [
            ("MAKE", "d"), ("CLOSE", "d/f"), ("RENAME", "d"), ("RENAME", "", "e"), ("CLOSE", "e/f"), ("CLOSE", "e/f"),
        ],
    ),
    "files out and in": (
        "echo 1 > f; mv f ../f; echo 2 > ../f; mv ../f g; echo 3 > g; ln g ../h; rm ../h; ln ../project/g i",
        [("CLOSE", "f"), ("RENAME", "f"), ("RENAME", "", "g"), ("CLOSE", "g"), ("LINK", "g", "i")],
    ),
}


# What one process closes twice may be told once, and who lives on does not tell when it was: so each
# write has a process of its own.
def each_by_its_own(script):
    return re.sub(r"(echo \w+ >+ [^;]+)", r'sh -c "\1"', script)


CASES = {name: (each_by_its_own(script), expected) for name, (script, expected) in CASES.items()}


@pytest.mark.parametrize("name", CASES)
def test_names(watch, name):
    script, expected = CASES[name]
    assert watch.script(script).said(*FILES) == expected


@pytest.mark.parametrize(
    "name",
    ["renamed at once", "saved", "moved away, made anew", "hard links", "directory renamed", "linked by a name that is replaced"],
)
def test_names_when_drained_late(watch, name):
    """Nothing in the queues says in which order a close and a rename were; still."""
    script, expected = CASES[name]
    # what one process closes twice may be told once: the shell itself closes nothing here
    script = script.replace("echo", "/bin/echo")
    assert watch.script(script, options=["--late"]).said(*FILES) == expected


def test_closed_without_a_name(watch):
    """Whether it was closed before the unlink or behind it may be unknown, its name is not."""
    script = "exec 3> 'a (deleted)' 4> b 5> c; ln c d; rm a* b c; echo 1 >&3; echo 12 >&4; echo 123 >&5; exec 3>&- 4>&- 5>&-"
    events = watch.script(script, options=["--hash"])
    closes = {e.path: (e.hash if "PINNED" in e.flags else None, e.nlink) for e in events.of("CLOSE")}
    a, b = (None, None) if NAMELESS[watch.driver] else (fnv(b"1\n"), fnv(b"12\n"))
    assert closes == {"a (deleted)": (a, 0), "b": (b, 0), "c": (fnv(b"123\n"), 1)}
    assert sorted(events.said("UNLINK")) == [("UNLINK", "a (deleted)"), ("UNLINK", "b"), ("UNLINK", "c")]


def test_exchange(watch):
    code = "import ctypes; ctypes.CDLL(None).renameat2(-100, b'a', -100, b'b', 2)"
    events = watch.script(f"echo 1 > a; mkdir b; echo 2 > b/f; python3 -c \"{code}\"; cat a/f")
    told = events.said(*FILES)
    assert told[-2:] == [("RENAME", "a", "b"), ("CLOSE", "a/f")], told
    rename = events.of("RENAME")[0]
    assert "EXCHANGED" in rename.flags
    assert rename.id == os.stat(f"{watch.root}/a").st_ino


def test_exchanges_beside_others(watch, sandbox):
    """An exchange is two renames for fanotify, with what others do in between."""
    many = 300 if harness.ALL else 100
    sandbox.run("sh", "-c", f"i=0; while [ $i -lt {many} ]; do : > a$i; mkdir b$i; i=$((i+1)); done", cwd=watch.root)
    code = f"import ctypes; [ctypes.CDLL(None).renameat2(-100, b'a%d' % n, -100, b'b%d' % n, 2) for n in range({many})]"
    beside = f"i=0; while [ $i -lt {3 * many} ]; do : > ../$n.$i; mv ../$n.$i ../$n; i=$((i+1)); done"
    events = watch.script(f"for n in 1 2 3; do ({beside}) & done; python3 -c \"{code}\"; wait")
    assert events.said("RENAME") == [("RENAME", f"a{n}", f"b{n}") for n in range(many)]
    assert all("EXCHANGED" in e.flags for e in events.of("RENAME"))


def test_replaced(watch):
    if watch.driver == "bpf-tracepoints":
        pytest.skip("it cannot know")
    events = watch.script("echo 1 > a; echo 2 > b; mv a c; mv b c")
    assert ["REPLACED" in e.flags for e in events.of("RENAME")] == [False, True], events.of("RENAME")


def test_replaced_before_it_is_looked_up(watch, sandbox):
    """What has the name by then is not taken for what was renamed."""
    sandbox.sh("echo 1 > a; echo 2 > b")
    numbers = [os.stat(f"{watch.root}/{name}").st_ino for name in ("a", "b")]
    code = "import os; os.rename('a', 'c'); os.rename('b', 'c')"
    first, second = watch.run("/usr/bin/python3", "-c", code, options=["--late"]).of("RENAME")
    assert first.ino in (0, numbers[0]) and second.ino == numbers[1], (first, second, numbers)


def test_replaced_before_an_exchange_is_looked_up(watch, sandbox):
    """Nor is it taken for one of those that were exchanged."""
    sandbox.sh("echo 1 > a; echo 2 > b; echo 3 > c; echo 4 > d")
    numbers = [os.stat(f"{watch.root}/{name}").st_ino for name in ("a", "b")]
    code = "import ctypes, os; ctypes.CDLL(None).renameat2(-100, b'a', -100, b'b', 2); os.rename('c', 'a'); os.rename('d', 'b')"
    exchange = watch.run("/usr/bin/python3", "-c", code, options=["--late"]).of("RENAME")[0]
    assert exchange.ino in (0, numbers[0]) and exchange.id in (0, numbers[1]), (exchange, numbers)


def test_replaced_before_a_change_is_looked_up(watch, sandbox):
    """Nor for what was truncated, or got another mode."""
    sandbox.sh("echo 1 > a; echo 2 > b; echo 3 > c; echo 4 > d")
    numbers = {name: os.stat(f"{watch.root}/{name}").st_ino for name in ("a", "b")}
    code = "import os; os.truncate('a', 1); os.chmod('b', 0o600); os.rename('c', 'a'); os.rename('d', 'b')"
    for event in watch.run("/usr/bin/python3", "-c", code, options=["--late"]).of("TRUNCATE", "CHANGE"):
        assert event.ino in (0, numbers[event.path]), (event, numbers)


def test_a_directory_is_replaced(watch):
    """Its end is told by nothing but the rename; what comes then is told at once."""
    sandbox = watch.sandbox
    for n in range(3):
        sandbox.sh(f"mkdir a{n}; echo {n} > a{n}/f")
    steps = [f"mkdir b{n}; mv -T a{n} b{n}; sleep 0.2; mv b{n}/f c{n}; sleep 0.2" for n in range(3)]
    events = watch.script("; ".join(steps))
    assert events.said("RENAME") == [e for n in range(3) for e in (("RENAME", f"a{n}", f"b{n}"), ("RENAME", f"b{n}/f", f"c{n}"))]
    assert watch.driver == "bpf-tracepoints" or ["REPLACED" in e.flags for e in events.of("RENAME")] == [True, False] * 3
    assert not events.of("LOST")


def test_created(watch):
    events = watch.script("echo 1 > a; sh -c 'echo 2 >> a'; : > b; cat a")
    assert [(e.path, "CREATED" in e.flags) for e in events.of("CLOSE")] == [
        ("a", True), ("a", False), ("b", True), ("a", False),
    ]


def test_a_script_is_executed(watch, sandbox):
    sandbox.run("sh", "-c", "printf '#!/bin/sh\\nsleep 0.1\\n' > script; chmod 755 script")
    closes = watch.script("./script").of("CLOSE", path="script")
    assert closes and all("READABLE" in e.flags for e in closes)
    assert any("EXECUTED" in e.flags for e in closes)


def test_seen_through_any_mount(watch, sandbox):
    """Another mount of the root, in another namespace, by a process that called it otherwise."""
    other = f"{sandbox.home}/elsewhere"
    sandbox.mkdir(other, 0o755)
    uid = sandbox.user.uid
    script = (
        f"mount --bind {watch.root} {other} && mount -t tmpfs none {watch.root} && cd {other} && "
        f"exec setpriv --reuid {uid} --clear-groups sh -c 'echo 1 > f; mkdir d; echo 2 > d/g; cat d/g >&2; rm d/g'"
    )
    events = watch.run("unshare", "-m", "sh", "-c", script, as_uid=0)
    assert events.said(*FILES) == [
        ("CLOSE", "f"), ("MAKE", "d"), ("CLOSE", "d/g"), ("CLOSE", "d/g"), ("UNLINK", "d/g"),
    ]


def by(user, script):
    return f"setpriv --reuid {user.uid} --clear-groups sh -c '{each_by_its_own(script)}'"


def is_that_file(root, events):
    """Where a close says that it was."""
    for e in events.of("CLOSE"):
        assert os.stat(f"{root}/{e.path}").st_ino == e.ino, e


@pytest.mark.parametrize("late", [False, True], ids=["at once", "late"])
def test_bind_mounts(watch, sandbox, late):
    """What is outside seen below the root, a part of the root seen twice, and the root seen elsewhere."""
    home, root = sandbox.home, watch.root
    places = {f"{home}/data": f"{root}/other", f"{root}/sub": f"{root}/alias", root: f"{home}/elsewhere"}
    for place in [*places, *places.values()]:
        sandbox.mkdir(place, 0o755) if place != root else None
    sandbox.run("sh", "-c", "echo 0 > data/there; echo 0 > project/sub/there", cwd=home)
    script = (
        f"echo 1 > other/in; cat other/there >&2; echo 2 > {home}/data/out; echo 3 > alias/a; mv alias/a alias/b; "
        f"cat sub/b alias/there >&2; echo 4 > {home}/elsewhere/e; echo 5 > {home}/elsewhere/sub/f; "
        f"mv other/in other/moved; cd {home}/elsewhere; mv e g; mkdir d; echo 6 > d/h; rm sub/f"
    )
    with contextlib.ExitStack() as ends:
        for source, place in places.items():
            subprocess.run(["mount", "--bind", source, place], check=True)
            ends.callback(subprocess.run, ["umount", "-l", place], check=True)
        events = watch.script(each_by_its_own(script), options=["--late"] if late else [])
        is_that_file(root, Events(e for e in events if e.path not in ("alias/a", "sub/a", "e", "other/in", "sub/f")))
    told = events.said(*FILES)
    # of what is seen twice, either name is right
    told = [tuple(part.replace("alias/", "sub/") for part in one) for one in told]
    assert not events.of("LOST")
    written = ("CLOSE", "other/in")
    if watch.driver == "fanotify" and written not in told:  # of what is outside it hears no rename
        written = ("CLOSE", "other/moved")
    for one in (
        written, ("CLOSE", "other/there"), ("CLOSE", "sub/a"), ("RENAME", "sub/a", "sub/b"), ("CLOSE", "sub/b"),
        ("CLOSE", "sub/there"), ("CLOSE", "e"), ("CLOSE", "sub/f"), ("RENAME", "e", "g"), ("MAKE", "d"), ("CLOSE", "d/h"),
        ("UNLINK", "sub/f"),
    ):
        assert told.count(one) == 1, one
        told.remove(one)
    # what else is told of what is outside
    moved, out = ("RENAME", "other/in", "other/moved"), ("CLOSE", "other/out")
    assert told == {"module": [out, moved], "bpf-tracepoints": [moved]}.get(watch.driver, [])


CONTAINER = """
set -e
cd {inside}
mount --bind . .
mkdir -p proc old seen usr .{root}
for part in usr bin lib lib64; do [ ! -e /$part ] || {{ mkdir -p $part; mount --rbind /$part $part; }}; done
mount -t proc proc proc
mount --bind {root} seen
cd {inside}
pivot_root . old
umount -l old
chown {uid} .{root}
exec {command}
"""


def test_containers(watch, sandbox):
    """Of pids and mounts of their own: there a directory that is called as the root is another one."""
    inside, root = f"{sandbox.path}/inside", watch.root
    os.mkdir(inside)
    work = (
        f"cd /seen; echo 1 > a; mv a b; mkdir d; echo 2 > d/c; cat /seen/d/c >&2; cd {root}; echo 3 > a; mv a c; mkdir d; "
        f"echo 4 > {root}/d/x; mv {root}/c {root}/d/y; rm {root}/d/x; ln -s a {root}/s"
    )
    script = CONTAINER.format(inside=inside, root=root, uid=sandbox.user.uid, command=by(sandbox.user, work))
    events = watch.run("unshare", "-m", "-p", "-f", "sh", "-c", script, as_uid=0)
    is_that_file(root, Events(e for e in events if e.path != "a"))
    assert events.said(*FILES) == [
        ("CLOSE", "a"), ("RENAME", "a", "b"), ("MAKE", "d"), ("CLOSE", "d/c"), ("CLOSE", "d/c"),
    ]
    assert not events.of("LOST")
    assert {e.pid for e in events.of(*FILES)} <= {e.pid for e in events.of("EXIT")}


def test_user_namespaces(watch, sandbox):
    """Whoever is root in one is the user still."""
    work = each_by_its_own("mount -t tmpfs none sub; echo 1 > sub/unseen; echo 2 > a; mv a b; echo 3 >> b; chmod 600 b")
    sandbox.mkdir(f"{watch.root}/sub", 0o755)
    events = watch.script(f"unshare -r -m -p -f sh -c '{work}'", status=0)
    assert events.said(*FILES) == [("CLOSE", "a"), ("RENAME", "a", "b"), ("CLOSE", "b"), ("CHANGE", "b")]
    assert {e.uid for e in events.of(*FILES)} == {sandbox.user.uid}


@pytest.mark.parametrize("kind", ["overlay", "subvolume", "subvolume below"])
def test_file_systems(watch, sandbox, kind):
    """Where numbers of devices and inodes are not what they are elsewhere."""
    if watch.driver == "fanotify" and kind != "subvolume below":
        pytest.skip("it refuses: test_helper")
    user = sandbox.user
    with harness.disk(sandbox, 200, kind="overlay" if kind == "overlay" else "btrfs") as disk:
        watch.root = root = f"{disk}/root"
        inner = f"{root}/inner"
        if kind == "overlay":
            for name in "root", "root/inner":
                sandbox.mkdir(f"{sandbox.path}/lower/{name}", 0o755)
            for name in "old", "read", "inner/read":
                sandbox.write_outside(f"{sandbox.path}/lower/root/{name}", "lower\n")
            subprocess.run(["mount", "-o", "remount", disk], check=True)
        else:
            if kind == "subvolume":
                subprocess.run(["btrfs", "-q", "subvolume", "create", root], check=True)
            else:
                os.mkdir(root)
            subprocess.run(["btrfs", "-q", "subvolume", "create", inner], check=True)
            for volume in root, inner:
                os.chown(volume, user.uid, user.gid)
            # of one transaction, with the same numbers
            sandbox.run("sh", "-c", "for d in . inner; do for i in old read; do echo lower > $d/$i; done; done", cwd=root)
        script = (
            "cat read inner/read >&2; echo more >> old; echo 1 > new; echo 2 > inner/new; mv new newer; mv inner/new inner/newer; "
            "echo 3 > inner/newer; mkdir d; echo 4 > d/x; rm d/x"
        )
        events = watch.script(each_by_its_own(script), options=["--hash"], cwd=root)
        told = events.said(*FILES)
        moved = ("RENAME", "inner/new", "inner/newer")
        if watch.driver == "fanotify" and moved not in told:  # older kernels do not tell it
            told.insert(6, moved)
        assert told == [
            ("CLOSE", "read"), ("CLOSE", "inner/read"), ("CLOSE", "old"), ("CLOSE", "new"), ("CLOSE", "inner/new"),
            ("RENAME", "new", "newer"), moved, ("CLOSE", "inner/newer"), ("MAKE", "d"), ("CLOSE", "d/x"), ("UNLINK", "d/x"),
        ]
        here, there = os.stat(root).st_dev, os.stat(inner).st_dev
        for e in events.of("CLOSE"):
            path = f"{root}/{e.path}" + "er" * e.path.endswith("new")
            if e.path == "d/x":
                continue
            held = os.stat(path)
            assert (e.dev or here, e.ino) == (held.st_dev, held.st_ino), e
            assert here == there or (e.dev not in (0, here)) == e.path.startswith("inner/")
        held = {e.path: e.hash for e in events.of("CLOSE") if "PINNED" in e.flags}
        assert held.pop("d/x", None) in (None, fnv(b"4\n"))
        assert held.pop("new", None) in (None, fnv(b"1\n"))
        assert held.pop("inner/new", None) in (None, fnv(b"3\n"), fnv(b"2\n"))
        assert held == {"old": fnv(b"lower\nmore\n"), "inner/newer": fnv(b"3\n")}


def test_mounts_below_the_root(watch, sandbox):
    """One that is there, and one that comes; and the users are not kept from unmounting."""
    uid = sandbox.user.uid
    for name in "there", "later":
        sandbox.mkdir(f"{watch.root}/{name}", 0o755)
    there = f"{watch.root}/there"
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"uid={uid}", "none", there], check=True)
    try:
        script = (
            f"mount -t tmpfs -o uid={uid} none later; sleep 0.1; setpriv --reuid {uid} --clear-groups sh -c '"
            "echo 1 > there/a; mv there/a there/b; echo 2 > later/c; rm later/c; sleep 0.1; cat there/b >&2'; sleep 0.1; umount later"
        )
        events = watch.run("sh", "-c", script, as_uid=0)
    finally:
        subprocess.run(["umount", there], check=True)
    assert events.said(*FILES) == [
        ("CLOSE", "there/a"), ("RENAME", "there/a", "there/b"), ("CLOSE", "later/c"), ("UNLINK", "later/c"),
        ("CLOSE", "there/b"),
    ]


def test_the_root_is_renamed(watch):
    moved = watch.root + ".moved"
    events = watch.script(f"echo 1 > a; mv {watch.root} {moved}; echo 2 > b; sleep 0.1; cat a; mv {moved} {watch.root}")
    assert events.said(*FILES) == [("CLOSE", "a"), ("CLOSE", "b"), ("CLOSE", "a")]


def test_many_files_by_many(watch):
    """cp -r of directories, renamed under way: each content under its right name."""
    script = (
        "mkdir src; for i in $(seq 200); do echo $i > src/f$i; done; "
        "for k in 1 2 3 4; do (cp -r src t$k; mv t$k d$k; rm d$k/f7; mv d$k/f8 d$k/g8) & done; wait"
    )
    events = watch.script(script, options=["--hash"])
    assert not events.of("LOST")
    held = {}
    for e in events.of(*FILES):
        if e.type == "CLOSE" and "WRITTEN" in e.flags:
            held[e.path] = e.hash if "PINNED" in e.flags else None
        elif e.type == "UNLINK":
            held.pop(e.path)
        elif e.type == "RENAME":
            for path in [p for p in held if p == e.path or p.startswith(e.path + "/")]:
                held[e.path2 + path[len(e.path) :]] = held.pop(path)
    expected = {}
    for top, _, names in os.walk(watch.root):
        for name in names:
            path = os.path.join(top, name)
            with open(path, "rb") as file:
                expected[os.path.relpath(path, watch.root)] = fnv(file.read())
    if watch.driver == "bpf":  # what was renamed before it was looked for is not found
        expected = {path: held.get(path) and content for path, content in expected.items()}
    wrong = sorted({os.path.basename(path) for path in {*held, *expected} if held.get(path) != expected.get(path)})
    assert not wrong, [e for e in events if os.path.basename(e.path) in wrong]


@pytest.mark.timeout(180)
def test_losses_are_told(watch, sandbox):
    """More processes than the queue has room for, while nobody reads."""
    user = f"setpriv --reuid {sandbox.user.uid} --clear-groups"
    told = f"{sandbox.home}/told"
    script = (
        f"kill -STOP $PPID; {user} sh -c 'i=0; while [ $i -lt 30000 ]; do (:); i=$((i+1)); done; "
        f": > made; until [ -e {told} ]; do echo 1 > later; sleep 0.1; done' & "
        "until [ -e made ]; do sleep 0.1; done; kill -CONT $PPID; wait"
    )
    tool, events = watch.start("sh", "-c", script, as_uid=0), Events()
    for line in tool.stdout:
        events.append(Event(line.rstrip("\n")))
        if events[-1].path == "later":  # it hears again, however long that took
            sandbox.write_outside(told, "")
    watch.finish(tool)
    if len(events.of("FORK")) < 30000:
        assert sum(e.count for e in events.of("LOST")) >= 1
    assert events.of("CLOSE", path="later")


def test_more_closes_and_names_than_there_is_room_for(watch, edges, sandbox):
    """While the driver is stopped. What it knew of names by then is not believed behind that."""
    if watch.driver != "fanotify":
        pytest.skip("it has one ring for all")
    user = f"setpriv --reuid {sandbox.user.uid} --clear-groups"
    script = (
        f"{user} sh -c 'mkdir d; echo 1 > d/f'; sleep 0.2; kill -STOP $PPID; "
        f"{user} {edges} loop 20000; {user} mv d e; kill -CONT $PPID; sleep 2; "
        f"{user} sh -c 'echo 2 > e/g; mv e/g e/h; ln e/h i; rm e/f'"
    )
    events = watch.run("sh", "-c", script, as_uid=0)
    lost = max(i for i, e in enumerate(events) if e.type == "LOST")
    assert Events(events[:lost]).said("MAKE") == [("MAKE", "d")]
    assert not Events(events[:lost]).of("RENAME")
    assert Events(events[lost:]).said(*FILES) == [
        ("CLOSE", "e/g"), ("RENAME", "e/g", "e/h"), ("LINK", "e/h", "i"), ("UNLINK", "e/f"),
    ]


@pytest.mark.users("root")  # whose mounts other processes of root may walk into
def test_a_mount_that_does_not_answer(watch, sandbox):
    """Its server writes outside of the root, to a file whose path leads into that mount."""
    other = f"{sandbox.home}/other"
    sandbox.run("mkdir", other, cwd="/")
    server = sandbox.mount(other).process.pid
    try:
        # of several names none stays in the kernel's cache
        script = f"cd {other}; echo 1 > f; ln f h; echo 2 > f; sleep 0.5; cd -; kill -STOP {server}; echo 2 > g"
        events = watch.script(script, options=["--late"])
    finally:
        os.kill(server, signal.SIGCONT)
    assert {e.path for e in events.of("CLOSE")} == {"g"}


def test_what_the_driver_does_itself_is_not_told(watch):
    """Where root watches, and so all."""
    events = watch.script("sh -c 'echo $PPID > a'; echo $PPID > b", options=["--uid", "0"], as_uid=0)
    with open(f"{watch.root}/b", encoding="ascii") as file:
        tool = int(file.read())
    assert events.of("CLOSE", path="b") and tool not in {e.pid for e in events.of(*FILES)}


def test_refuses(watch, sandbox):
    run = subprocess.run([TOOL, "nonsense", "/", "--", "true"], capture_output=True, text=True)
    assert run.returncode == 126 and "no such driver" in run.stderr
    setpriv = ["setpriv", "--reuid", str(sandbox.user.uid), "--clear-groups"]
    run = subprocess.run([*setpriv, TOOL, watch.driver, "/", "--", "true"], capture_output=True, text=True)
    assert run.returncode == 126 and run.stderr.count("\n") == 1 and "Operation not permitted" in run.stderr
