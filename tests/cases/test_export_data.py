# SPDX-License-Identifier: MIT
"""export: what is only fingerprinted, and is taken along; and what was exported, tried at once."""

import ctypes
import json
import os
import random
import struct

import pytest

from exports import Export, empty, same
from harness import contents, seeds
from test_archive import entries, in_other, other, write

assert other  # a fixture

pytestmark = pytest.mark.either


@pytest.fixture
def study(work):
    return work


@pytest.fixture
def sh(sandbox):
    return Export(sandbox, "sh")


@pytest.fixture
def raw(sandbox, mount, shell):
    """Many inputs that were only read, and what was made of them."""
    for n in range(40):
        sandbox.write_outside(f"{sandbox.project}/raw/{n}.txt", f"{n}\n" * n)
    mount()
    bash = shell()
    bash.run("cat raw/?.txt raw/??.txt > all; sort -rn all > top")
    return bash


@pytest.mark.users("ordinary")
@pytest.mark.parametrize("name", ["sh", "make"])
def test_with_data(raw, sandbox, name):
    export = Export(sandbox, name)
    told = export.text("top").stderr
    assert told.count("warning") == 1 and "40 files, as " in told and "--with-data takes them along" in told
    assert "name it with -o" in sandbox.shfs("export", "--with-data", name, "top", check=2).stderr
    path = os.path.join(sandbox.path, "taken")
    told = sandbox.shfs("export", "--with-data", "-o", path, name, "top").stderr
    assert not told
    assert len(contents(f"{path}.data")) == 40 and contents(f"{path}.data")["raw/7.txt@1"] == b"7\n" * 7
    raw.run("rm -r raw")
    same(sandbox, export.start(path, empty(sandbox, "first"), True), "top", "all")
    os.rename(f"{path}.data", f"{path}.moved")
    done = sandbox.run("env", f"SHFS_DATA={path}.moved", *(["bash", path, empty(sandbox)] if name == "sh" else
                       ["make", "-f", path]), cwd=empty(sandbox, "third"))
    assert done.status == 0


@pytest.mark.users("ordinary")
def test_crates_with_data(raw, sandbox):
    path = os.path.join(sandbox.path, "crate")
    told = sandbox.shfs("export", "-o", path, "ro-crate", "top", check=3).stderr
    assert told.count("warning") == 1 and "40 files, as " in told and "--with-data takes them along" in told
    assert "files/raw/7.txt" not in contents(path)
    path += "-with"
    assert not sandbox.shfs("export", "--with-data", "-o", path, "ro-crate", "top").stderr
    found = contents(path)
    assert found["files/raw/7.txt"] == b"7\n" * 7 and len([n for n in found if n.startswith("files/raw/")]) == 40
    with open(os.path.join(path, "ro-crate-metadata.json"), encoding="utf-8") as file:
        assert "not in the crate" not in file.read()
    path += "-workflow"
    sandbox.shfs("export", "--with-data", "--verify", "-o", path, "workflow-crate", "top", timeout=90)
    raw.run("rm -r raw")
    top = empty(sandbox)
    cwltool = ["cwltool", "--quiet", "--preserve-entire-environment", "--outdir", top, f"{path}/workflow.cwl"]
    sandbox.run(*cwltool, cwd=top, env={"SHFS_STORE": "/nonexistent"}, timeout=60)
    same(sandbox, contents(f"{top}/results"), "top")


@pytest.mark.users("ordinary")
def test_what_was_lost_is_told(raw, sandbox, sh):
    """Changed where nobody saw it, so that no archive has it."""
    raw.run("cd /")
    sandbox.mounts[0].unmount()
    sandbox.write_outside(f"{sandbox.project}/raw/7.txt", "other\n")
    told = sh.text(f"{sandbox.project}/top", check=3, cwd="/").stderr
    assert "raw/7.txt@1 is not archived, and is not there any more: this is not complete" in told
    path = os.path.join(sandbox.path, "taken")
    told = sandbox.shfs("export", "--with-data", "-o", path, "sh", "top", check=3).stderr
    assert told.count("warning") == 1 and "raw/7.txt@1" in told and len(contents(f"{path}.data")) == 39
    done = sandbox.run("bash", path, empty(sandbox), cwd="/", check=1)
    assert "raw/7.txt is not archived, and not the same any more" in done.stderr


@pytest.mark.users("ordinary")
def test_verify(study, sandbox):
    study.run("sh run.sh; sort -rn out.csv > top")
    study.run("date +%N > now; cat top now > end")
    for name in "sh", "make":
        done = sandbox.shfs("export", "--verify", name, "top")
        assert "top@1 comes out the same" in done.stderr and "SHFS_STORE" in done.stdout
        path = os.path.join(sandbox.path, name)
        done = sandbox.shfs("export", "--verify", "-o", path, name, "out.csv", "end", check=1)
        assert "out.csv@1 comes out the same" in done.stdout and "end@1 comes out with other bytes" in done.stderr
        assert os.path.exists(path)
    study.run("[ -e ~/project/config.yaml ] && cat top > last".replace("~/project/", "../project/"))
    assert "it failed: bash ended with 1" in sandbox.shfs("export", "--verify", "sh", "last", check=1).stderr
    assert "not made to be run" in sandbox.shfs("export", "--verify", "dot", "top", check=2).stderr
    for name in "cwl", "snakemake":
        assert "top@1 comes out the same" in sandbox.shfs("export", "--verify", name, "top", timeout=60).stderr
    assert not [n for n in os.listdir(f"{sandbox.path}/tmp") if n.startswith("shfs-verify")]


# --- archives ---


def tar_of(sandbox, *args, **options):
    path = os.path.join(sandbox.path, f"{len(os.listdir(sandbox.path))}.tar.zst")
    return path, sandbox.shfs("export", *args[:-1], "-o", path, "tar", *args[-1], **options).stderr


def cat(there, sandbox, n, check=0):
    return there("cat", f"{sandbox.project}/raw/{n}.txt@1", check=check)


@pytest.mark.users("ordinary")
def test_archives_with_data(raw, sandbox, other):
    there = in_other(sandbox, other)
    path, told = tar_of(sandbox, ["."])
    assert told.count("warning") == 1 and "40 contents, as " in told and "--with-data takes along" in told
    _, told = tar_of(sandbox, ["raw/7.txt", "top"])
    assert told.count("warning") == 1 and "raw/7.txt@1 is not archived" in told
    _, told = tar_of(sandbox, [])
    assert told.count("warning") == 1 and "40 contents, as " in told and "--with-data takes along" in told
    assert not tar_of(sandbox, ["top"])[1]
    there("import", path)
    assert "not archived" in cat(there, sandbox, 7, check=1).stderr
    taken, told = tar_of(sandbox, "--with-data", ["."])
    assert not told
    # of a store that has only the fingerprints, and of one that has nothing
    for store in other["SHFS_STORE"], other["SHFS_STORE"] + "-2":
        there = in_other(sandbox, {"SHFS_STORE": store})
        had = 0 if store.endswith("-2") else 40
        assert json.loads(there("import", "--json", "-n", taken).stdout)["completed"] == had
        assert ("  40 contents of these had only a fingerprint here\n" in there("import", taken).stdout) == bool(had)
        for n in 0, 7, 39:
            assert cat(there, sandbox, n).stdout == f"{n}\n" * n
        assert not there("check").status and "imported: 0 of" in there("import", taken).stdout
    # into the store itself; and what is gone is restored from it
    raw.run("rm raw/7.txt; cd /")
    sandbox.mounts[0].unmount()
    sandbox.shfs("import", taken)
    sandbox.shfs("restore", "raw/7.txt@1")
    assert sandbox.read("raw/7.txt") == b"7\n" * 7
    # what is an archived content now goes into each archive
    _, told = tar_of(sandbox, ["."])
    assert not told


@pytest.mark.users("ordinary")
def test_archives_take_only_what_is_unchanged(raw, sandbox, other):
    raw.run("cd /")
    sandbox.mounts[0].unmount()
    inside = os.stat(f"{sandbox.project}/raw/8.txt")
    sandbox.write_outside(f"{sandbox.project}/raw/7.txt", "other\n")
    sandbox.write_outside(f"{sandbox.project}/raw/8.txt", "9\n" * 8)  # with the same size and time
    os.utime(f"{sandbox.project}/raw/8.txt", ns=(inside.st_atime_ns, inside.st_mtime_ns))
    os.remove(f"{sandbox.project}/raw/9.txt")
    os.symlink("10.txt", f"{sandbox.project}/raw/9.txt")
    path, told = tar_of(sandbox, "--with-data", ["raw"])
    assert told.count("warning") == 1 and "3 contents, as " in told and "do not lie there unchanged" in told
    there = in_other(sandbox, other)
    there("import", path)
    for n in 7, 8, 9:
        assert "not archived" in cat(there, sandbox, n, check=1).stderr
    assert cat(there, sandbox, 10).stdout == "10\n" * 10


NAMES = "abcd"


def step_of(chance):
    """A line on files of which the larger ones are only fingerprinted. Few contents, sizes and times."""
    f, g = chance.sample(NAMES, 2)
    big = f"seq {chance.choice((101, 102))}{chance.choice(('', ' | tac'))} > {f}"
    time = f"touch -d 2020-01-0{chance.randrange(1, 3)} {f}"
    return chance.choice((
        big, big, f"{big}; {time}", f"{big}; {time}", time, f"echo small > {f}", f"cp -p {g} {f}", f"cp {g} {f}",
        f"mv {g} {f}", f"ln -f {g} {f}", f"rm -f {f}", f"cat {f} {g}", f"chmod {chance.choice((600, 644))} {f}",
        f"cat {g} >> {f}", f"mv {g} x; mv {f} {g}; mv x {f}",
    ))  # fmt: skip


def pasts(there, sandbox):
    """Of all files what the numbers mean, without what their bytes are."""
    found = {}
    for name in NAMES + "x":
        log = json.loads(there("log", "--json", f"{sandbox.project}/{name}", check=False).stdout or "{}")
        found[name] = [[v[key] for key in ("n", "size", "time", "source", "command")] for v in log.get("versions", [])]
    return found


@pytest.mark.users("ordinary")
@pytest.mark.parametrize("seed", seeds(8, an_hour=600))
def test_no_number_changes(sandbox, mount, shell, other, seed):
    """Whatever became known by what was taken along: here, and in a store that has nothing."""
    chance = random.Random(seed)
    limits = "max-size = 200\nmax-read-size = 200\n" if seed % 2 else "max-size = 1M\nmax-read-size = 100\n"
    sandbox.write_outside(f"{sandbox.home}/.config/shfs/config.ini", f"[archive]\n{limits}")
    for name in NAMES:
        sandbox.sh(f"seq 101 > {name}; touch -d 2020-01-01 {name}")

    def go_on(n, *lines):
        mount()
        work = shell()
        for line in *lines, *(step_of(chance) for _ in range(n)):
            work.run(line)
        work.run("cat ?; cd /")
        sandbox.mounts[-1].unmount()

    for _ in range(3):
        go_on(10)
        for _ in range(2):  # where nobody sees it
            sandbox.sh(step_of(chance) + "; true")
    go_on(0)
    before = pasts(sandbox.shfs, sandbox)
    path, _ = tar_of(sandbox, "--with-data", [])
    there = in_other(sandbox, other)
    there("import", path)
    assert pasts(there, sandbox) == before
    for name in NAMES:
        if os.path.exists(f"{sandbox.project}/{name}") and before[name]:
            now = there("cat", f"{sandbox.project}/{name}", check=False)
            assert now.status or now.stdout.encode() == sandbox.read(name), name
    # there is more here by the time: also bytes that only had a fingerprint, archived as another version
    sandbox.sh(f"for f in {' '.join(NAMES)}; do cp $f y && cat y > $f; done; true")
    go_on(6, *(f"echo more >> {name}" for name in NAMES))
    before = pasts(sandbox.shfs, sandbox)
    sandbox.shfs("import", path)
    assert pasts(sandbox.shfs, sandbox) == before


class Hash128(ctypes.Structure):
    _fields_ = (("low", ctypes.c_uint64), ("high", ctypes.c_uint64))


def object_name(data):
    hash128 = ctypes.CDLL("libxxhash.so.0").XXH3_128bits
    hash128.restype, hash128.argtypes = Hash128, (ctypes.c_char_p, ctypes.c_size_t)
    found = hash128(data, len(data))
    return struct.pack(">QQ", found.high, found.low)


def replaced(segment, old, new):
    """The segment with other bytes, and with right checksums: docs/journal.md."""
    hash64 = ctypes.CDLL("libxxhash.so.0").XXH3_64bits
    hash64.restype, hash64.argtypes = ctypes.c_uint64, (ctypes.c_char_p, ctypes.c_size_t)
    at, out = segment.index(b"SHFB"), b""
    out = segment[:at]
    while at < len(segment):
        n = struct.unpack_from("<I", segment, at + 4)[0]
        frame = segment[at:at + 8 + n].replace(old, new)
        out += frame + struct.pack("<Q", hash64(frame, len(frame)))
        at += 8 + n + 8
    return out


@pytest.mark.users("ordinary")
def test_other_bytes_for_a_fingerprint(raw, sandbox, other):
    """An archive of a stranger has other bytes for a version of which this store knows the fingerprint."""
    there = in_other(sandbox, other)
    there("import", tar_of(sandbox, ["."])[0])
    members, path = entries(tar_of(sandbox, "--with-data", ["."])[0]), f"{sandbox.path}/hostile.tar"
    right, wrong = b"7\n" * 7, b"8\n" * 7
    ours, theirs = object_name(right), object_name(wrong)
    assert f"shfs/objects/{ours.hex()}" in [member.name for member, _ in members]
    forged = [(m, replaced(d, ours, theirs) if m.name.endswith(".seg") else d) for m, d in members]
    assert forged != members
    without = [(m, d) for m, d in forged if not m.name.endswith(ours.hex())]
    known = sandbox.shfs("cat", "all@1").stdout.encode()  # another object that the store has
    named = [(m, replaced(d, theirs, object_name(known)) if m.name.endswith(".seg") else d) for m, d in without]
    for changed in ([*without[:-1], (f"shfs/objects/{theirs.hex()}", wrong), without[-1]], without, named):
        write(path, changed)
        assert "damaged" in there("import", path, check=1).stderr
        assert "not archived" in cat(there, sandbox, 7, check=1).stderr
    write(path, members)
    there("import", path)
    assert cat(there, sandbox, 7).stdout.encode() == right
