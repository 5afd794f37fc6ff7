# SPDX-License-Identifier: MIT
"""shfs check and shfs repair: what is damaged is found and located, and never restored; what is right
is kept. F9, F11 and F40 of docs/RELIABILITY.md.

SHFS_TEST_FLIPS is how many bits are flipped (14 where it is not set)."""

import collections
import contextlib
import glob
import json
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess

import pytest

import harness
from test_bad_input import flip, frame_at

pytestmark = pytest.mark.users("ordinary")  # what differs for root is asked as both
FLIPS = int(os.environ.get("SHFS_TEST_FLIPS", "14"))


def check(sandbox, *args, status=0):
    result = sandbox.shfs("check", "--json", *args, check=status, timeout=120)
    return json.loads(result.stdout)


def flaws(found, harmless=False):
    return [f for f in found["flaws"] if f["harmless"] == harmless]


def lost(found):
    return sorted(f"{os.path.basename(v['path'])}@{v['n']}" for v in found["lost"] if not v["known"])


def answers(sandbox):
    """All that can be asked, but for what is only when it was asked."""
    shfs = sandbox.shfs
    logs = [shfs("log", "--json", name, check=False).stdout for name in ("a", "b", "big", "text", "c")]
    whys = [shfs("why", "--json", name, check=False).stdout for name in ("b", "c")]
    return logs + whys + [shfs("history", "--json", "--all", check=False).stdout]


VERSIONS = ["a@1", "a@2", "b@1", "big@1", "text@1", "text@2", "text@3", "c@1", "c@2"]


def contents(sandbox):
    return {name: sandbox.shfs("cat", name).stdout_bytes for name in VERSIONS}


@pytest.fixture
def kept(sandbox):
    """A store with all kinds of files: a sealed segment and one of a killed mount, a hook log, a pack
    with an index and a tail behind it, deltas, a large object; all is in the index."""
    mount = sandbox.mount()
    bash = sandbox.shell()
    for line in ("echo one > a; cat a > b", "seq 20000 > text; head -c 1200000 /dev/urandom > big",
                 "head -c 90000 /dev/urandom > c", "sed -i s/77/88/ text", "echo two >> a"):  # fmt: skip
        bash.run(line)
    bash.run("cd /")
    mount.unmount()
    mount = sandbox.mount()
    bash.run(f"cd {sandbox.project}; echo three >> c")
    bash.run("sed -i s/99/11/ text")
    bash.close()
    sandbox.shfs("sync", check=False)
    sandbox.shfs("history")
    mount.expected_status = -9
    os.kill(mount.process.pid, signal.SIGKILL)
    mount.wait()
    harness.wait_until(lambda: not harness.mounts_below(sandbox.project), "the guardian")
    sandbox.shfs("history")
    return sandbox


def files_of(sandbox):
    """The files of the store by kind."""
    store = sandbox.store
    return {
        "sealed": glob.glob(store + "/journal/*/*.seg.zst"),
        "segment": glob.glob(store + "/journal/*/*.seg"),
        "log": glob.glob(store + "/journal/*/*.log"),
        "pack": glob.glob(store + "/objects/packs/*.pack"),
        "lookup": glob.glob(store + "/objects/packs/*.idx"),
        "loose": glob.glob(store + "/objects/??/*"),
        "index": [store + "/index.db"],
    }


@pytest.mark.users("root", "ordinary")
def test_clean(kept):
    assert all(files_of(kept).values()), files_of(kept)
    for args in [], ["--read-data"]:
        found = check(kept, *args)
        assert found["ok"] and not flaws(found) and not lost(found)
        assert found["segments"] >= 2 and found["hook_logs"] == 1 and found["loose"] == 1 and found["packs"] == 1
        assert found["objects"] == found["named"] >= len(VERSIONS) - 1  # a and b are the same
    assert found["index_compared"] and found["content_bytes"] > 1300000
    text = kept.shfs("check")
    assert text.stdout.endswith("no flaws\n") and text.stderr == ""


def read(path):
    with open(path, "rb") as file:
        return file.read()


def put_back(sandbox, path, data):
    for extra in "-wal", "-shm":
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path + extra)
    sandbox.write_outside(path, data, 0o600)


# Kinds of files that are damaged at once: what is wrong in one is told of no other.
APART = ("pack", "loose"), ("lookup",), ("index",), ("log",), ("sealed", "segment")


class Flip:
    """A bit of a file."""

    def __init__(self, sandbox, kind, path, chance):
        self.sandbox, self.kind, self.path, self.right = sandbox, kind, path, read(path)
        self.bit = chance.randrange(len(self.right) * 8)

    def __str__(self):
        return f"bit {self.bit % 8} of byte {self.bit // 8} of {self.path}"

    def do(self):
        flipped = bytearray(self.right)
        flipped[self.bit // 8] ^= 1 << self.bit % 8
        put_back(self.sandbox, self.path, bytes(flipped))

    def undo(self):
        put_back(self.sandbox, self.path, self.right)

    def is_told(self, found):
        """A hook log has no checksums: the index, which was made of it, tells."""
        names = [os.path.relpath(self.path, self.sandbox.store)] + ["index.db"] * (self.kind == "log")
        return any(f["file"] in names for f in flaws(found))


def all_contents(sandbox):
    """{version: (exit status, what cat wrote)}; in one go, as it is asked thousands of times."""
    top = f"{sandbox.home}/contents"
    script = f'mkdir -p {top}; for v; do "$SHFS" cat $v > {top}/$v 2> /dev/null; echo $?; done'
    done = sandbox.run("sh", "-c", script, "sh", *VERSIONS, env={"SHFS": os.path.join(harness.PREFIX, "bin/shfs")})
    return {v: (int(status), read(f"{top}/{v}")) for v, status in zip(VERSIONS, done.stdout.split())}


def look(sandbox, flips, right):
    """What is told of these. No version is there with wrong bytes."""
    what = ", ".join(map(str, flips))
    for one in flips:
        one.do()
    result = sandbox.shfs("check", "--read-data", "--json", check=False, timeout=120)
    assert result.status in (0, 1) and result.stdout, (what, result)
    found = json.loads(result.stdout)
    assert result.status == bool(flaws(found)), what
    if flips[0].kind in ("pack", "lookup", "loose"):
        for version, (status, content) in all_contents(sandbox).items():
            assert status == 1 or content == right[version], (what, version)
            assert flaws(found) or status == 0, (what, version)
    return found


@pytest.mark.timeout(60 + FLIPS)
def test_random_flips(kept):
    """A bit anywhere: it is found, and in this file, or changes no answer; no version is restored with
    wrong bytes."""
    expected, right = answers(kept), contents(kept)
    seed = int.from_bytes(os.urandom(4), "little")
    chance = random.Random(seed)
    kinds = files_of(kept)
    tried, harmless = collections.Counter(), collections.Counter()
    while tried.total() < FLIPS:
        for group in APART:
            flips = [Flip(kept, kind, chance.choice(kinds[kind]), chance) for kind in group]
            what = f"seed {seed}, after {tried.total()}: {', '.join(map(str, flips))}"
            found = look(kept, flips, right)
            for one in flips:
                one.undo()
            for one in [f for f in flips if not f.is_told(found)]:
                alone = look(kept, [one], right)
                assert one.kind == "log" or not flaws(alone), (what, alone)
                assert answers(kept) == expected, what
                harmless[one.kind] += 1
                one.undo()
            tried.update(group)
    assert check(kept, "--read-data")["ok"]
    print(f"seed {seed}: {dict(tried)} flips, in bytes that change no answer: {dict(harmless)}")


# --- check ---


def test_locates(kept):
    """The file and the byte; the version that is lost; with the heads alone, and with all data."""
    where, at = frame_at(kept, json.loads(kept.shfs("log", "--json", "text").stdout)["versions"][-1]["object"])
    flip(where, at + 100)
    for args in [], ["--read-data"]:
        found = check(kept, *args, status=0 if not args else 1)
        assert bool(flaws(found)) == bool(args), "the content is read only where that is asked for"
    [frame] = [f for f in flaws(found) if f["kind"] == "frame"]
    assert frame["file"] == os.path.relpath(where, kept.store) and frame["offset"] <= at + 100 < frame["offset"] + frame["bytes"]
    assert "text@1" in lost(found), "and what are deltas of it"
    text = kept.shfs("check", "--read-data", check=1)
    assert f"{frame['file']}, byte {at} to" in text.stdout and "text@1" in text.stdout and "shfs repair" in text.stderr


def test_missing_contents(kept):
    for path in files_of(kept)["loose"] + files_of(kept)["pack"]:
        os.unlink(path)
    found = check(kept, status=1)
    assert set(lost(found)) >= set(VERSIONS)  # and names that they had before
    assert {f["kind"] for f in flaws(found)} == {"missing"}


def test_torn_tails_are_no_damage(kept):
    """What a crash leaves: a part of a frame, or room without its bytes."""
    [segment] = files_of(kept)["segment"]
    [pack] = files_of(kept)["pack"]
    [log] = files_of(kept)["log"]
    originals = {path: read(path) for path in (segment, pack, log)}
    for tail in (lambda data: data + data[8:60], lambda data: data + bytes(5000), lambda data: data + b"SH"):
        put_back(kept, segment, tail(originals[segment]))
        found = check(kept)
        assert [(f["kind"], f["file"]) for f in found["flaws"]] == [("torn", os.path.relpath(segment, kept.store))]
        put_back(kept, segment, originals[segment])
    put_back(kept, pack, originals[pack] + originals[pack][8:100])
    put_back(kept, log, originals[log] + b"\x1eB1\x0099\x00")
    put_back(kept, segment, originals[segment])
    found = check(kept, "--read-data")
    assert sorted(f["kind"] for f in found["flaws"]) == ["torn", "torn"] and found["ok"]
    put_back(kept, segment, originals[segment] + b"garbage" * 9)
    assert [f["kind"] for f in flaws(check(kept, status=1))] == ["record"]
    put_back(kept, segment, originals[segment][:-7])
    found = check(kept, status=1)  # the index knows that there was more
    assert any("lost by the journal" in f["text"] for f in flaws(found)) and "torn" in [f["kind"] for f in found["flaws"]]


def test_modes(kept):
    [pack] = files_of(kept)["pack"]
    os.chmod(pack, 0o644)
    os.chmod(kept.store + "/log", 0o755)
    found = check(kept, status=1)
    assert {(f["kind"], f["file"]) for f in flaws(found)} == {("mode", os.path.relpath(pack, kept.store)), ("mode", "log")}
    kept.shfs("repair")
    check(kept)


def test_while_it_is_written(sandbox, shfs):
    """What a mount is just writing is no flaw."""
    sandbox.mount()
    writer = sandbox.popen(["sh", "-c", "for i in $(seq 2000); do seq $i 3000 > f$((i % 7)); done"])
    for n in range(4):
        found = check(sandbox, *["--read-data"][: n % 2])
        assert not flaws(found)
    writer.kill()
    writer.wait()
    shfs("sync")
    check(sandbox, "--read-data")


def test_no_store(shfs):
    shfs("check", check=6)
    shfs("repair", check=6)


def test_bad_subset(shfs):
    for part in "0/3", "4/3", "x", "1/", "/2", "1/2/3", "-1/2", "1/2x":
        result = shfs("check", f"--read-data-subset={part}", check=2)
        assert "--read-data-subset" in result.stderr


def test_subsets_are_all(kept):
    """Each file is in one part; a part does not count as all."""
    whole = check(kept, "--read-data")["read_bytes"]
    checked = json.loads(kept.shfs("status", "--json", check=False).stdout)["checked"]
    assert sum(check(kept, f"--read-data-subset={n}/3")["read_bytes"] for n in (1, 2, 3)) == whole
    assert checked == json.loads(kept.shfs("status", "--json", check=False).stdout)["checked"]


def test_goes_on_where_it_was(kept):
    """An interrupted one, with what it had found; --restart begins anew. status tells."""
    state = kept.store + "/state/check"
    [loose] = files_of(kept)["loose"]
    [pack] = files_of(kept)["pack"]
    assert "Checked" not in kept.shfs("status", check=False).stdout
    interrupted = f"now 1700000000000000000 0 0\nat {os.path.relpath(loose, kept.store + '/objects')}\n"
    kept.write_outside(state, interrupted, 0o600)
    assert "interrupted" in kept.shfs("status", check=False).stdout
    found = check(kept, "--read-data")
    assert found["resumed"].startswith("2023-11-14") and found["read_bytes"] == os.path.getsize(pack)
    assert "all data" in kept.shfs("status", check=False).stdout
    assert json.loads(kept.shfs("status", "--json", check=False).stdout)["checked"]["full"]
    flip(loose, 5000)
    kept.write_outside(state, interrupted + f"bad {os.path.relpath(loose, kept.store + '/objects')}\n", 0o600)
    assert lost(check(kept, "--read-data", status=1)) == ["big@1"]
    assert "1 flaw" in kept.shfs("status", check=False).stdout or "2 flaws" in kept.shfs("status", check=False).stdout
    kept.write_outside(state, interrupted, 0o600)
    found = check(kept, "--read-data", "--restart", status=1)
    assert "resumed" not in found and found["read_bytes"] == os.path.getsize(pack) + os.path.getsize(loose)


def test_killed_goes_on(sandbox, shfs):
    """Really: many files, killed as soon as it has noted some."""
    mount = sandbox.mount()
    sandbox.sh("for i in $(seq 24); do head -c 6000000 /dev/urandom > f$i; done", timeout=120)
    mount.unmount()
    state = sandbox.store + "/state/check"
    running = sandbox.popen([os.path.join(harness.PREFIX, "bin/shfs"), "check", "--read-data"], stdout=subprocess.DEVNULL)
    with contextlib.suppress(ProcessLookupError):
        harness.wait_until(lambda: running.poll() is not None or (os.path.exists(state) and "\nat " in read(state).decode()), "a note")
        running.kill()
    running.wait()
    found = check(sandbox, "--read-data")
    if running.returncode == -9:
        assert found["resumed"] and found["read_bytes"] < 24 * 6000000


def test_progress_on_a_terminal(kept):
    """Only there, and only on standard error."""
    shell = kept.shell()
    shown = shell.run("shfs check --read-data > /dev/null")
    assert re.search(r"checking the store, \d+ s, [\d.]+ of [\d.]+ MiB", shown), repr(shown)
    assert "no flaws" in shell.run("shfs check --read-data 2> err")
    assert shell.run("wc -c < err").strip() == "0"


# --- repair ---


def test_nothing_to_repair(kept):
    before = {path: read(path) for kind in files_of(kept).values() for path in kind if not path.endswith("index.db")}
    assert "nothing to repair" in kept.shfs("repair").stdout
    assert not os.path.exists(kept.store + "/quarantine")
    assert before == {path: read(path) for path in before}


@pytest.mark.parametrize("how", (("forget", "--yes", "text"), ("prune", "--keep-last=1", "text")))
def test_what_is_dropped_is_told(kept, how):
    """What is damaged in a pack that is written anew is lost for good then."""
    where, at = frame_at(kept, json.loads(kept.shfs("log", "--json", "c").stdout)["versions"][-1]["object"])
    flip(where, at + 60)
    [frame] = [f for f in flaws(check(kept, "--read-data", status=1)) if f["kind"] == "frame"]
    said = kept.shfs(*how).stderr
    assert f"{frame['file']}, byte {at} to {at + frame['bytes'] - 1}: " in said and "not kept" in said and "shfs check" in said
    found = check(kept, "--read-data", status=1)
    assert {f["kind"] for f in flaws(found)} == {"missing"} and "c@1" in lost(found)
    assert "not kept" not in kept.shfs("forget", "--yes", "b").stderr


def test_of_what_goes_nothing_is_told(kept):
    """It was to go."""
    where, at = frame_at(kept, json.loads(kept.shfs("log", "--json", "c").stdout)["versions"][0]["object"])
    flip(where, at + 70)
    assert kept.shfs("forget", "--yes", "c").stderr == ""


def test_dropped_records_are_told(kept):
    """The same of a segment."""
    old = files_of(kept)["segment"]
    mount = kept.mount()
    for name in "xyz":
        kept.sh(f"echo {name} > {name}")
        kept.shfs("sync")
    mount.expected_status = -9
    os.kill(mount.process.pid, signal.SIGKILL)
    mount.wait()
    harness.wait_until(lambda: not harness.mounts_below(kept.project), "the guardian")
    [segment] = set(files_of(kept)["segment"]) - set(old)
    name, data = os.path.relpath(segment, kept.store), read(segment)
    at, size = batch(segment, 2)
    flip(segment, at + 20)
    assert f"{name}, byte {at} to {at + size - 1}: " in kept.shfs("forget", "--yes", "z").stderr
    put_back(kept, segment, data + b"garbage" * 9)
    assert f"{name}, byte {len(data)} to {len(data) + 62}: " in kept.shfs("forget", "--yes", "x").stderr


@pytest.mark.users("root", "ordinary")
def test_repair_of_contents(kept):
    """F9. Damaged ones are set aside, the others stay; what is lost is told once; the same content heals it."""
    expected, right = answers(kept), contents(kept)
    [loose] = files_of(kept)["loose"]
    text3 = json.loads(kept.shfs("log", "--json", "c").stdout)["versions"][-1]["object"]
    where, at = frame_at(kept, text3)
    flip(loose, 5000)
    flip(where, at + 60)
    broken = read(where)
    dry = kept.shfs("repair", "--dry-run", check=1)
    assert "big@1" in dry.stdout and read(where) == broken and not os.path.exists(kept.store + "/quarantine")
    result = kept.shfs("repair", "--json")
    done = json.loads(result.stdout)
    assert lost(done)[0] == "big@1" and "c@1" in lost(done) and done["packs_mended"] == 1 and done["loose_moved"] == 1
    aside = os.path.join(kept.store, done["quarantine"])
    pieces = [os.path.join(d, f) for d, _, names in os.walk(aside) for f in names]
    assert any(broken[at:at + 500] == read(p)[:500] for p in pieces) and len(pieces) == 2
    found = check(kept, "--read-data")
    assert found["ok"] and not lost(found) and found["lost"], "known, and not forgotten"
    for name, content in right.items():
        if name in lost(done):
            assert kept.shfs("cat", name, check=1).stdout_bytes != content
        else:
            assert kept.shfs("cat", name).stdout_bytes == content
    assert answers(kept) == expected
    kept.write_outside(kept.path + "/again", right["big@1"], 0o644)
    kept.write_outside(kept.path + "/c1", right["c@1"], 0o644)
    mount = kept.mount()
    kept.sh(f"cat {kept.path}/again > big; cat {kept.path}/c1 > c")
    mount.unmount()
    for name, content in right.items():
        assert kept.shfs("cat", name).stdout_bytes == content
    found = check(kept, "--read-data")
    assert found["ok"] and not found["lost"]


def batch(segment, number):
    """Offset and length of a frame."""
    data, at = read(segment), 8
    for _ in range(number):
        at += 16 + int.from_bytes(data[at + 4 : at + 8], "little")
    return at, 16 + int.from_bytes(data[at + 4 : at + 8], "little")


def test_repair_of_a_segment(kept):
    """A batch is lost, and told by what the index had of it; the others stay."""
    [segment] = files_of(kept)["segment"]
    at, n = batch(segment, 1)
    broken = bytearray(read(segment))
    broken[at + 20] ^= 4
    put_back(kept, segment, bytes(broken))
    found = check(kept, status=1)
    [flaw] = [f for f in flaws(found) if f["kind"] == "record"]
    assert flaw["offset"] <= at + 20 < flaw["offset"] + flaw["bytes"]
    told = [f["text"] for f in flaws(found) if f["kind"] == "index"]
    assert any("version" in text and "lost by the journal" in text for text in told), found
    kept.shfs("repair")
    found = check(kept, "--read-data")
    assert found["ok"]
    [aside] = glob.glob(kept.store + "/quarantine/*/journal/*/*.seg")
    assert read(aside) == bytes(broken)
    assert glob.glob(kept.store + "/quarantine/*/index.db"), "which knew more"
    assert kept.shfs("cat", "text@1").stdout.startswith("1\n")


def test_repair_of_the_begin_of_a_segment(kept):
    """A flipped bit there would cost all of it: in the magic, the format, a length, the producer."""
    expected = answers(kept)
    [segment] = files_of(kept)["segment"]
    data = read(segment)
    for at in 3, 7, 12, 40:
        put_back(kept, segment, data)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(segment + ".zst")
        flip(segment, at)
        found = check(kept, status=1)
        assert [f["kind"] for f in flaws(found)][0] == "segment"
        kept.shfs("repair")
        assert check(kept, "--read-data")["ok"]
        assert answers(kept) == expected


def test_repair_of_the_begin_of_a_sealed_segment(kept):
    """As of one that is not; where more is wrong, all of it is lost, and repair says so."""
    expected = answers(kept)
    [segment] = files_of(kept)["sealed"]
    data = read(segment)
    for at in 0, 2, 3, 5, 6, 8:
        for one in files_of(kept)["sealed"] + [segment[: -len(".zst")]]:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(one)
        put_back(kept, segment, data)
        flip(segment, at)
        assert check(kept, status=1)
        assert "could not be read at all" not in kept.shfs("repair").stdout, at
        assert check(kept, "--read-data")["ok"]
        assert answers(kept) == expected, at
    for one in files_of(kept)["sealed"] + [segment[: -len(".zst")]]:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(one)
    put_back(kept, segment, b"no segment" + data[10:])
    assert "1 file of the journal could not be read at all" in kept.shfs("repair").stdout


def test_repair_of_a_hook_log(kept):
    """Shells may write to it: what is damaged is copied, and known from then on."""
    [log] = files_of(kept)["log"]
    data = read(log)
    at = data.index(b"\x1eB1", 200)
    put_back(kept, log, data[: at + 1] + b"Z" + data[at + 2 :])
    before = read(log)
    assert "record" in [f["kind"] for f in flaws(check(kept, status=1))]
    kept.shfs("repair")
    assert check(kept, "--read-data")["ok"] and read(log) == before


def test_repair_refuses(kept):
    """While something records; and where something is to be forgotten."""
    [loose] = files_of(kept)["loose"]
    flip(loose, 5000)
    mount = kept.mount()
    kept.sh("echo new > new")
    result = kept.shfs("repair", check=4)
    assert "in use by the mount" in result.stderr
    mount.unmount()
    kept.write_outside(kept.store + "/forget", "shfs forget 1\n", 0o600)
    assert "forget --resume" in kept.shfs("repair", check=4).stderr
    os.unlink(kept.store + "/forget")
    assert "big@1" in kept.shfs("repair").stdout


def test_what_may_not_be_read_is_not_repaired(kept):
    """Somebody's chmod is no damage."""
    before = {}
    for kind in "loose", "sealed":
        path = files_of(kept)[kind][0]
        before[path] = os.stat(path).st_mode
        os.chmod(path, 0)
    result = kept.shfs("repair", check=4)
    assert "nothing is repaired" in result.stderr and "chmod" in result.stderr and "Permission denied" in result.stdout
    assert all(os.path.exists(path) for path in before) and not os.path.exists(f"{kept.store}/quarantine")
    for path, mode in before.items():
        os.chmod(path, mode)
    assert "nothing to repair" in kept.shfs("repair").stdout


# --- the index ---


def test_an_index_that_lies(kept):
    """Sound for SQLite, and not what the journal says."""
    db = sqlite3.connect(kept.store + "/index.db")
    db.execute("UPDATE command SET text = 'rm -rf /' WHERE command_id = 2")
    db.commit()
    db.close()
    assert check(kept)["ok"], "it costs to compare"
    [flaw] = flaws(check(kept, "--read-data", status=1))
    assert flaw["file"] == "index.db" and "command" in flaw["text"]
    kept.shfs("repair")
    assert check(kept, "--read-data")["ok"]


def test_without_its_log(kept):
    """index.db-wal was lost, or is another's: what it had is taken from the journal again."""
    expected = answers(kept)
    mount = kept.mount()
    kept.sh("echo more > more")
    mount.unmount()
    holder = sqlite3.connect(kept.store + "/index.db")
    holder.execute("SELECT count(*) FROM sqlite_schema").fetchall()  # keeps the log
    kept.shfs("log", "more")
    log = kept.store + "/index.db-wal"
    assert os.path.getsize(log)
    shutil.copyfile(log, kept.path + "/wal")
    holder.close()
    for wal in None, b"", os.urandom(9999), read(kept.path + "/wal")[:-3000]:
        for extra in "-wal", "-shm":
            with contextlib.suppress(FileNotFoundError):
                os.unlink(kept.store + "/index.db" + extra)
        if wal is not None:
            kept.write_outside(log, wal, 0o600)
        assert kept.shfs("cat", "more@1").stdout == "more\n"
        assert answers(kept)[:-1] == expected[:-1]
        check(kept, "--read-data")


def test_what_is_set_aside_is_never_removed(kept):
    """Neither by the next rebuild nor by forget, if it is not ours."""
    path = kept.store + "/index.db"
    for n in range(3):
        put_back(kept, path, b"somebody's text %d" % n)
        kept.shfs("reindex")
    kept.shfs("forget", "--yes", "b")
    texts = {read(p) for p in glob.glob(path + ".damaged*")}
    assert texts == {b"somebody's text %d" % n for n in range(3)}


@pytest.mark.users("ordinary")
def test_the_number_of_the_format(sandbox, shfs, mounted):
    """Damaged, or gone: said, nothing is lost, and repair writes it anew; that of a newer store stays."""
    sandbox.sh("echo 1 > f")
    shfs("sync")
    mounted.unmount()
    path = f"{sandbox.store}/format"
    for damaged in b"q\n", b"", b"1", b"\x00" * 100, None:
        os.unlink(path)
        if damaged is not None:
            sandbox.write_outside(path, damaged, 0o600)
        assert 'its file "format" is damaged' in shfs("log", "f", check=6).stderr
        assert 'its file "format" is damaged' in shfs("repair", "--dry-run", check=6).stderr
        assert "written anew" in shfs("repair").stderr
        assert "f@1" in shfs("log", "f").stdout
    sandbox.write_outside(path, b"9\n", 0o600)
    assert "a newer shfs made it" in shfs("repair", check=6).stderr
    with open(path, "rb") as file:
        assert file.read() == b"9\n"
