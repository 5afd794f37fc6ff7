# SPDX-License-Identifier: MIT
"""What must be in the kernel, shfs.ko and the BPF programs on functions, under those of Debian in a
virtual machine (tests/vm/run). By ./dev test --all each in each kernel. SHFS_TEST_VM=all runs all cases there
that are for any driver, with each driver in each kernel, SHFS_TEST_VM=EXPRESSION those that it names (as -k does).
SHFS_TEST_SOAK=HOURS gives the random steps so many hours (./dev soak)."""

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys

import pytest

import harness
from watching import LINE, TOOL, Event, Events, fnv

VM = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "vm")
TOP = os.path.dirname(os.path.dirname(VM))
MODULE = os.path.join(TOP, "kmod-fast-path/module")
KERNELS = ("6.1", "6.12")
ONLY = os.environ.get("SHFS_TEST_VM", "")  # of the cases for any driver
HOURS = float(os.environ.get("SHFS_TEST_SOAK", "0"))
PROGRAMS = ("edges", "opens", "short")
EVERYWHERE = bool(harness.ALL or ONLY)
HOME = {"module": "6.1", "bpf": "6.12"}  # of these one kernel is enough for what both have alike
SECONDS = 240 * harness.PATIENCE  # of a processor: others that keep it busy do not count

pytestmark = [
    pytest.mark.apart,
    pytest.mark.timeout(3000),
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


# one machine of each kernel at a time
def group(kernel, *more):
    return pytest.param(kernel, *more, marks=pytest.mark.xdist_group(kernel))


def kernels(driver):
    return pytest.mark.parametrize("kernel", [group(k) for k in (KERNELS if EVERYWHERE else [HOME[driver]])], indirect=True)


def drivers(everywhere):
    pairs = [group(k, driver) for k in KERNELS for driver in HOME if everywhere or HOME[driver] == k]
    return pytest.mark.parametrize("kernel, driver", pairs, indirect=["kernel"])


@pytest.fixture
def kernel(request):
    return request.param


@contextlib.contextmanager
def once(name):
    """The path of what all workers share: whose turn it is to make it, as it is not there yet."""
    path = os.path.join(os.environ["SHFS_TEST_DIR"], name)
    with open(f"{path}.lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield path


@pytest.fixture
def machine(kernel, tmp_path_factory):
    """machine(script, *options) -> what it said."""
    with once(f"vm-{kernel}") as shared:
        if not os.path.exists(shared):
            made = tmp_path_factory.mktemp("module")
            said = build(kernel, str(made), "W=1")
            assert "warning" not in said, said
            subprocess.run(["strip", "-g", f"{made}/shfs.ko"], check=True)
            for program in PROGRAMS:
                gcc = ["gcc", "-D_GNU_SOURCE", "-O2", "-Wall", "-static", "-pthread"]
                subprocess.run([*gcc, "-o", f"{made}/{program}", f"{VM}/{program}.c"], check=True)
            os.rename(made, shared)

    def run(script, *options, files=()):
        command = [f"{VM}/run", "--timeout", str(SECONDS), *options, kernel, f"{VM}/{script}"]
        command += [f"{shared}/shfs.ko=shfs.ko", TOOL, *files]
        command += [f"{shared}/{program}" for program in PROGRAMS]
        said = []
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
            for line in process.stdout:
                print(line, end="", flush=True)
                said.append(line)
        assert process.returncode == 0
        return "".join(said)

    return run


# --- cases that are for any driver ---

# that run them, and that they run
PACKAGES = """python3-pytest python3-pexpect bash zsh fish gcc libc6-dev make perl mawk procps mount passwd sudo tmux
bubblewrap strace attr acl btrfs-progs fuse3 libbpf-dev libinih-dev libjansson-dev libsqlite3-dev liburing-dev
libxxhash-dev libmount-dev libarchive-dev libncurses-dev libsodium23 libsmartcols1 busybox-static iproute2 zstd"""
ALL = " ".join(f"/tests/cases/test_{name}" for name in (
    "attribution.py", "attribution_matrix.py", "ancestors.py", "drivers.py", "fast_path.py", "steps.py", "stress.py", "used.py",
))
FEW = " ".join(f"/tests/cases/test_{name}.py" for name in ("attribution", "ancestors"))  # those of CORE
NFS = "/tests/cases/test_nfs.py"
MORE = """told_late or commands_that_share or hidden_arguments or su_and_sudo or jobs_that_write_later or no_library_sees or ways_to_use_a_file or full_speed_without_fuse
or program_that_wrote or c06 or c08 or another_writes"""
CORE = f"""not zsh and not fish and not fanotify and not tracepoints and (each_kind_of_line or c04
{f"or {MORE}" if EVERYWHERE else ""})"""


def compile_tests(where):
    """As Python does when it imports them, which takes half a minute in the machine."""
    elsewhere = "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX"
    env = {name: value for name, value in os.environ.items() if name not in elsewhere}
    files = [f"{where}{name}" for name in (*ALL.split(), NFS)]
    command = [sys.executable, "-m", "pytest", "-c", f"{where}/tests/pytest.ini", "--rootdir", f"{where}/tests", "--collect-only"]
    subprocess.run([*command, *files], env=env, stdout=subprocess.DEVNULL, check=True)


@pytest.fixture(scope="session")
def disk(tmp_path_factory):
    """A root file system: Debian, and shfs in /usr/local, as it is installed for this run."""
    with once("vm-disk") as image:
        if not os.path.exists(image):
            made = tmp_path_factory.mktemp("made")
            os.makedirs(f"{made}/build/kmod-fast-path")
            shutil.copy(TOOL, f"{made}/build/kmod-fast-path")
            shutil.copytree(f"{TOP}/tests", f"{made}/tests")
            os.mkdir(f"{made}/srv")
            shutil.copy(harness.as_user(), f"{made}/srv")  # gcc takes long in the machine
            compile_tests(made)
            command = [f"{VM}/disk", f"{image}.new", *PACKAGES.split(), f"{made}/build=/build"]
            command += [f"{harness.PREFIX}=/usr/local", f"{made}/tests=/tests", f"{made}/srv=/srv"]
            subprocess.run(command, check=True)
            os.rename(f"{image}.new", image)
    return image


@pytest.mark.timeout(14400 + HOURS * 40000)
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
@drivers(everywhere=ONLY)
def test_cases_for_any_driver(machine, disk, tmp_path, driver):
    arguments = tmp_path / "arguments"
    chosen = "" if ONLY == "all" else f"-k '{ONLY or ('told_late' if HOURS else ' '.join(CORE.split()))}'"
    setting = f"SHFS_TEST_SOAK={HOURS}" if HOURS else "SHFS_TEST_SEEDS=1"
    arguments.write_text(f"{driver} {setting} {ALL if EVERYWHERE or HOURS else FEW} --durations=10 {chosen}")
    modules = (f"--module={name}" for name in ("fuse", "overlay", "loop", "btrfs", "crc32c_generic"))
    options = "--disk", disk, *modules, "--timeout", str((7200 if ONLY else 4 * SECONDS) + int(HOURS * 10000))
    machine("suite.sh", *options, files=[f"{arguments}=arguments"])


@pytest.mark.timeout(14400)
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
@pytest.mark.parametrize("kernel", [group("6.12")], indirect=True)
def test_a_home_on_nfs(machine, disk, tmp_path):
    arguments = tmp_path / "arguments"
    chosen = "" if ONLY == "all" else f"-k '{ONLY or ('two_hosts or out_of_reach' if EVERYWHERE else 'two_hosts')}'"
    arguments.write_text(f"none SHFS_TEST_SOAK=0 {NFS} --durations=10 {chosen}")
    modules = (f"--module={name}" for name in ("fuse", "nfsd", "nfsv4", "veth"))
    options = "--disk", disk, *modules, "--timeout", str(3600 if ONLY else 4 * SECONDS)
    machine("suite.sh", *options, files=[f"{arguments}=arguments"])


# --- the drivers by themselves ---


def events(said, name):
    part = said.split(f"begin {name}\n")[1].split(f"end {name}\n")[0]
    return Events(Event(line) for line in part.splitlines() if LINE.fullmatch(line))


def closed(told):
    return [event.path for event in told.of("CLOSE")]


WROTE = {"WRITTEN", "PINNED"}

# what must be told of the last close, and what must not
EDGES = {
    "created": ({"CREATED", "PINNED"}, {"WRITTEN"}),
    "read-write-only-read": ({"READABLE", "WRITABLE"}, {"WRITTEN", "MAPPED", "PINNED"}),
    "not-written": ({"WRITABLE"}, {"WRITTEN", "PINNED"}),
    "truncated-by-open": ({"TRUNCATED"} | WROTE, set()),
    "truncated": (WROTE, {"TRUNCATED"}),  # to some length
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


@drivers(everywhere=EVERYWHERE)
def test_edges(machine, kernel, driver):
    told = events(machine(f"{driver}-edges.sh"), "edges")
    closes = {event.path: event for event in told.of("CLOSE")}
    assert len(closes) == len(told.of("CLOSE")), "each file is closed once"
    for name, (has, has_not) in EDGES.items():
        # bpf finds no file that has no name, or another, by the time that it is looked for
        if driver == "bpf" and name in ("saved.tmp", "unlinked-while-open"):
            has = has - {"PINNED"}
        assert has <= closes[name].flags and not has_not & closes[name].flags, closes[name]
    assert "path-only" not in closes
    assert not told.of("LOST")

    # by the writer, also where another closes
    me = told.of("EXEC", path="/bin/edges")[0].pid
    children = {event.child for event in told.of("FORK") if event.pid == me}
    for name in ("inherited", "killed", "in-flight", "map-written-after-close", "by-ring"):
        assert closes[name].pid == me, closes[name]
    for name in ("written-by-two", "written-by-setuid", "map-until-exit", "close-on-exec"):
        assert closes[name].pid in children, closes[name]
    writers = [event.pid for event in told.of("WRITE", path="written-by-two")]
    assert writers == [me, closes["written-by-two"].pid]

    assert told.of("TRUNCATE", path="truncated-by-name")
    assert len(told.of("CHANGE", path="acl")) == 2
    assert len(told.of("CHANGE", path="attribute")) == (0 if kernel == "6.1" else 2)  # tmpfs has none there
    assert told.of("UNLINK", path="unlinked-while-open")
    assert ("RENAME", "saved.tmp", "saved") in told.said("RENAME")
    temporary = next(event for event in told.of("LINK") if event.path2 == "linked")
    assert temporary.path == ""  # it had none
    # the module tells it by the number that it was made with
    closed_as = "linked" if driver == "bpf" else next(name for name in closes if name.startswith("#"))
    assert closes[closed_as].ino == temporary.ino
    # of whom has other rights at its end, that is not told
    for child in children - {closes["written-by-setuid"].pid}:
        assert [event.type for event in told if event.pid == child].count("EXIT") == 1, child
    # behind what its end closes
    ended = [event.type for event in told if event.pid == closes["map-until-exit"].pid]
    assert ended[-2:] == ["CLOSE", "EXIT"]


@drivers(everywhere=EVERYWHERE)
def test_places(machine, driver, tmp_path):
    tools = [shutil.which(name) for name in ("mkfs.btrfs", "btrfs")]
    modules = ("overlay", "loop", "btrfs", "crc32c_generic")
    (tmp_path / "driver").write_text(driver)
    files = [*tools, f"{tmp_path}/driver=driver"]
    said = machine("places.sh", *(f"--module={name}" for name in modules), files=files)

    told = events(said, "mounts")
    expected = [
        "sub/plain",
        "sub/by-another-way",
        "disk/dir/on-another-disk",
        "other/bound",
        "other/bound-by-its-own-name",
        "in-another-namespace",
        "late/mounted-meanwhile",
    ]
    if driver == "module":
        assert told.said("RENAME") == [("RENAME", "disk/dir/on-another-disk", "disk/moved")]
        assert told.of("LOST"), "a mount that came is told"
    else:
        expected.remove("other/bound-by-its-own-name")
        assert not told.of("LOST", "RENAME")
    assert closed(told) == expected

    assert closed(events(said, "inner")) == ["both"]
    assert closed(events(said, "outer")) == ["in/both", "outer"]

    told = events(said, "gone")
    assert closed(told) == ["before", "after"]
    if driver == "module":
        last = told.of("UNLINK")[-1]
        assert last.path == "" and "DIRECTORY_FILE" in last.flags

    for place, root in (("overlay", "/tmp/merged"), ("btrfs", "/tmp/btrfs/root")):
        told = events(said, place)
        assert len(closed(told)) == 3
        stats = re.findall(rf"^stat {root}/?(\S*) (\d+) (\d+)$", said, re.M)
        there = {name: (int(dev), int(ino)) for name, dev, ino in stats}
        for event in told.of("CLOSE"):
            # bpf has no number for the root's
            dev = event.dev if driver == "module" else event.dev or there[""][0]
            assert (dev, event.ino) == there[event.path], event


@kernels("module")
def test_nothing_is_lost_that_is_unlinked_at_once(machine):
    said = machine("module-short.sh")
    lines = "".join(f"{i} hash={fnv(str(i).encode())}\n" for i in range(20000))
    assert "LOST" not in said
    assert "pinned 20000\n" in said
    assert f"hash {hashlib.sha256(lines.encode()).hexdigest()}" in said


@kernels("module")
def test_loads_and_unloads_under_load(machine, tmp_path):
    times = 24 if harness.ALL else 8
    (tmp_path / "times").write_text(str(times))
    assert f"loaded {times} times" in machine("module-load.sh", files=[f"{tmp_path}/times=times"])


# Gates against regressions, above what was measured: docs/fast-path.md.


@pytest.mark.long
@kernels("module")
def test_instructions_of_the_module(machine):
    said = machine("module-count.sh", "--icount")
    counts = {name: int(count) for name, count in re.findall(r"^(without|loaded|user \d+) read (\d+)$", said, re.M)}
    base = counts["without"]
    assert counts["loaded"] - base < 300, counts
    assert counts["user 0"] - base < 300, counts
    assert counts["user 1000"] - base < 1000, counts


@pytest.mark.long
@kernels("bpf")
def test_instructions_of_bpf(machine):
    """The bars: 1,400 for what is told, 300 for what is not."""
    said = machine("bpf-count.sh", "--icount")
    counts = {name: int(count) for name, count in re.findall(r"^(\w+ \w+) read (\d+)$", said, re.M)}
    assert counts["watching 1000"] - counts["user without"] < 1400, counts
    assert counts["watching outside"] - counts["outside without"] <= 300, counts
    assert counts["watching 0"] - counts["root without"] <= 300, counts
