# SPDX-License-Identifier: MIT
"""shfs.ko under Debian's kernels, in a virtual machine (tests/vm/run)."""

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess

import pytest

import harness

VM = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "vm")
TOP = os.path.dirname(os.path.dirname(VM))
MODULE = os.path.join(TOP, "kmod-fast-path/module")
TOOL = os.path.join(os.environ["SHFS_TEST_BUILD"], "kmod-fast-path/shfs-watch-tool")
KERNELS = ("6.1", "6.12")

pytestmark = [
    pytest.mark.timeout(400),
    pytest.mark.skipif(not shutil.which("qemu-system-x86_64"), reason="needs qemu-system-x86"),
]


def build(kernel, where, *args):
    """Of a copy, as DKMS does it."""
    for name in os.listdir(MODULE):
        if name == "Kbuild" or name.endswith((".c", ".h")):
            shutil.copy(os.path.join(MODULE, name), where)
    os.makedirs(f"{where}/common")
    shutil.copy(os.path.join(TOP, "common/event.h"), f"{where}/common")
    headers = subprocess.run(
        [f"{VM}/run", "--build-dir", kernel], stdout=subprocess.PIPE, text=True, check=True
    ).stdout.strip()
    # the type information needs another program, and the kernel's own
    command = ["make", "-C", headers, f"M={where}", "CONFIG_DEBUG_INFO_BTF_MODULES=", *args, "modules"]
    run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert run.returncode == 0, run.stdout
    return run.stdout


@pytest.fixture(params=KERNELS)
def kernel(request):
    return request.param


@pytest.fixture
def machine(kernel, tmp_path_factory):
    """machine(script, *options) -> what it said. What it needs is built once for all workers."""
    shared = os.path.join(os.environ["SHFS_TEST_DIR"], f"vm-{kernel}")
    os.makedirs(shared, exist_ok=True)
    with open(f"{shared}/lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        module = f"{shared}/shfs.ko"
        if not os.path.exists(module):
            source = tmp_path_factory.mktemp("module")
            said = build(kernel, str(source), "W=1")
            assert "warning" not in said, said
            for program in ("edges", "opens", "short"):
                subprocess.run(
                    ["gcc", "-D_GNU_SOURCE", "-O2", "-Wall", "-static", "-pthread"]
                    + ["-o", f"{shared}/{program}", f"{VM}/{program}.c"],
                    check=True,
                )
            subprocess.run(["strip", "-g", "-o", f"{module}.new", f"{source}/shfs.ko"], check=True)
            os.rename(f"{module}.new", module)

    def run(script, *options, files=()):
        command = [f"{VM}/run", "--timeout", str(150 * harness.PATIENCE), *options, kernel, f"{VM}/{script}"]
        command += [f"{module}=shfs.ko", TOOL, *files]
        command += [f"{shared}/{program}" for program in ("edges", "opens", "short")]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        assert done.returncode == 0, done.stdout
        return done.stdout

    return run


LINE = re.compile(r'([A-Z]+) (\S+) (\d+) ("(?:[^"\\]|\\.)*") ("(?:[^"\\]|\\.)*") (\d+)(.*)')


class Event:
    def __init__(self, match):
        self.type, self.pid, self.bytes = match[1], int(match[3]), int(match[6])
        self.flags = set(match[2].split("|")) - {"-"}
        self.text, self.text2 = json.loads(match[4]), json.loads(match[5])
        self.more = dict(word.split("=") for word in match[7].split())

    def __repr__(self):
        return f"{self.type} {self.flags} {self.pid} {self.text} {self.text2} {self.bytes}"


def events(said, name):
    part = said.split(f"begin {name}\n")[1].split(f"end {name}\n")[0]
    return [Event(match) for match in map(LINE.match, part.split("\n")) if match]


def names_closed(told):
    return [event.text for event in told if event.type == "CLOSE"]


WROTE = {"WRITTEN", "PINNED"}

# what must be told of the last close, and what must not
EDGES = {
    "created": ({"CREATED", "PINNED"}, {"WRITTEN"}),
    "read-write-only-read": ({"READABLE", "WRITABLE"}, {"WRITTEN", "MAPPED", "PINNED"}),
    "not-written": ({"WRITABLE"}, {"WRITTEN", "PINNED"}),
    "truncated-by-open": ({"TRUNCATED"} | WROTE, set()),
    "truncated": ({"TRUNCATED"} | WROTE, set()),
    "appended": ({"APPEND"} | WROTE, set()),
    "by-thread": (WROTE, {"SHARED"}),
    "dup": (WROTE, {"SHARED"}),
    "inherited": (WROTE, {"SHARED"}),
    "written-by-two": ({"SHARED"} | WROTE, set()),
    "killed": (WROTE, set()),
    "close-on-exec": (WROTE, set()),
    "written-by-setuid": (WROTE, set()),
    "map-written-after-close": ({"MAPPED", "PINNED"}, set()),
    "map-mprotect": ({"MAPPED", "PINNED"}, set()),
    "map-until-exit": ({"MAPPED", "PINNED"}, set()),
    "map-private": ({"READABLE"}, {"MAPPED", "WRITTEN"}),
    "map-read-only": ({"READABLE"}, {"MAPPED", "WRITTEN", "WRITABLE"}),
    "source": ({"READABLE"}, {"WRITABLE"}),
    "copied": (WROTE, set()),
    "sent": (WROTE, set()),
    "spliced": (WROTE, set()),
    "allocated": (WROTE, set()),
    "saved.tmp": (WROTE, set()),
    "renamed": (WROTE, set()),
    "unlinked-while-open": (WROTE, set()),
    "by-ring": (WROTE, {"INEXACT"}),
    "in-flight": (WROTE, {"INEXACT"}),
}


def test_edges(machine):
    told = events(machine("module-edges.sh"), "edges")
    closes = {event.text: event for event in told if event.type == "CLOSE"}
    assert len(closes) == len(names_closed(told)), "each file is closed once"
    for name, (has, has_not) in EDGES.items():
        flags = closes[name].flags
        assert has <= flags and not has_not & flags, closes[name]
    assert "path-only" not in closes
    assert not [event for event in told if event.type == "LOST"]

    # by the writer, also where another closes
    me = next(event.pid for event in told if event.type == "EXEC" and event.text == "/bin/edges")
    children = {int(event.more["child"]) for event in told if event.type == "FORK" and event.pid == me}
    for name in ("inherited", "killed", "in-flight", "map-written-after-close", "by-ring"):
        assert closes[name].pid == me, closes[name]
    for name in ("written-by-two", "written-by-setuid", "map-until-exit", "close-on-exec"):
        assert closes[name].pid in children, closes[name]
    writers = [event.pid for event in told if event.type == "WRITE" and event.text == "written-by-two"]
    assert writers == [me, closes["written-by-two"].pid]

    others = [(event.type, event.text, event.text2) for event in told]
    assert ("TRUNCATE", "truncated-by-name", "") in others
    assert ("RENAME", "saved.tmp", "saved") in others
    assert ("UNLINK", "unlinked-while-open", "") in others
    temporary = next(event for event in told if event.type == "LINK" and event.text2 == "linked")
    assert closes[temporary.text].more["ino"] == temporary.more["ino"]
    # of whom has other rights at its end, that is not told
    for child in children - {closes["written-by-setuid"].pid}:
        assert [event.type for event in told if event.pid == child].count("EXIT") == 1, child
    # behind what its end closes
    ended = [event.type for event in told if event.pid == closes["map-until-exit"].pid]
    assert ended[-2:] == ["CLOSE", "EXIT"]


def test_places(machine):
    tools = [shutil.which(name) for name in ("mkfs.btrfs", "btrfs")]
    modules = ("overlay", "loop", "btrfs", "crc32c_generic")
    said = machine("module-places.sh", *(f"--module={name}" for name in modules), files=tools)

    told = events(said, "mounts")
    assert names_closed(told) == [
        "sub/plain",
        "sub/by-another-way",
        "disk/dir/on-another-disk",
        "other/bound",
        "other/bound-by-its-own-name",
        "in-another-namespace",
        "late/mounted-meanwhile",
    ]
    moved = next(event for event in told if event.type == "RENAME")
    assert (moved.text, moved.text2) == ("disk/dir/on-another-disk", "disk/moved")
    assert [event.type for event in told if event.type == "LOST"], "a mount that came is told"

    assert names_closed(events(said, "inner")) == ["both"]
    assert names_closed(events(said, "outer")) == ["in/both", "outer"]

    told = events(said, "gone")
    assert names_closed(told) == ["before", "after"]
    last = [event for event in told if event.type == "UNLINK"][-1]
    assert last.text == "" and "DIRECTORY_FILE" in last.flags

    for place, count in (("overlay", 3), ("btrfs", 3)):
        told = events(said, place)
        assert len(names_closed(told)) == count
        stats = re.findall(r"^stat /tmp/(?:merged|btrfs/root)/(\S+) (\d+) (\d+)$", said, re.M)
        for name, dev, ino in stats:
            for event in told:
                if event.type == "CLOSE" and event.text == name:
                    assert (event.more["dev"], event.more["ino"]) == (dev, ino), event


def fnv(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


def test_nothing_is_lost_that_is_unlinked_at_once(machine):
    said = machine("module-short.sh")
    lines = "".join(f"{i} hash={fnv(str(i).encode()):016x}\n" for i in range(20000))
    assert "LOST" not in said
    assert "pinned 20000\n" in said
    assert f"hash {hashlib.sha256(lines.encode()).hexdigest()}" in said


def test_loads_and_unloads_under_load(machine):
    assert "loaded 24 times" in machine("module-load.sh")


def test_instructions(machine):
    """A gate against regressions, above what was measured: docs/fast-path.md."""
    said = machine("module-count.sh", "--icount")
    counts = {name: int(count) for name, count in re.findall(r"^(without|loaded|user \d+) read (\d+)$", said, re.M)}
    base = counts["without"]
    assert counts["loaded"] - base < 300, counts
    assert counts["user 0"] - base < 300, counts
    assert counts["user 1000"] - base < 1000, counts
