# SPDX-License-Identifier: MIT
"""shfs push, pull and clone: the same over all kinds of remotes, with all the faults that these have."""

import hashlib
import json
import os
import random
import re
import subprocess

import pytest

from harness import seeds
from remotes import KINDS
from test_archive import everything
from test_forget import SECRET, places, shfs, snapshot, state, work
from test_trees import HERE, THERE, answers, machines, record

assert shfs and work and machines  # fixtures
FAULTS = "SHFS_REMOTE_FAULTS"
LONG = "SHFS_TEST_LONG" in os.environ
# for what happens on this side of a kind; a bucket takes twice the time
on_this_side = pytest.mark.parametrize("kind", [name for name in KINDS if LONG or name != "s3"], indirect=True)


@pytest.fixture(params=KINDS)
def kind(request, sandbox):
    it = KINDS[request.param](sandbox)
    yield it
    it.close()


def in_store(sandbox, path):
    """shfs with another store."""
    return lambda *args, env=None, **options: sandbox.shfs(*args, **{"cwd": "/", "env": {"SHFS_STORE": path, **(env or {})}, **options})


def push(shfs, *args, **options):
    return json.loads(shfs("push", "--json", *args, **options).stdout)


def pull(shfs, *args, **options):
    return json.loads(shfs("pull", "--json", *args, **options).stdout)


def everywhere(data):
    """The bytes, and what is compressed in them: a segment, or the frames of a pack."""
    found = data
    at = data.find(b"\x28\xb5\x2f\xfd")
    while at >= 0:
        found += unzstd_prefix(data[at:])
        at = data.find(b"\x28\xb5\x2f\xfd", at + 4)
    at = data.find(b"\xd5shf")
    while at >= 0:
        kind, stored = data[at + 24], int.from_bytes(data[at + 28 : at + 32], "little")
        if kind == 1:
            found += unzstd_prefix(b"\x28\xb5\x2f\xfd" + data[at + 40 : at + 40 + stored])
        at = data.find(b"\xd5shf", at + 4)
    return found


def unzstd_prefix(data):
    return subprocess.run(["zstd", "-dcqq"], input=data, capture_output=True, check=False).stdout


def has_anywhere(kind, text):
    return [name for name, data in kind.files().items() if text in everywhere(data)]


@pytest.mark.users("ordinary")
def test_two_machines(machines, sandbox, shfs, kind):
    """Each has what the other one recorded, apart from its own; and what comes later."""
    machines.go("hostb")
    record(sandbox, *THERE)
    there = answers(sandbox)
    shfs("remote", "add", "lab", kind.url)
    dry = push(shfs, "-n")
    assert not dry["done"] and dry["bytes"] and not kind.blobs()
    first = push(shfs)
    assert first["files"] == first["files_new"] == dry["files_new"] and first["generation"] == 1
    before = kind.files()
    assert push(shfs)["blobs"] == 0 and kind.files() == before
    assert push(shfs, "-n")["generation"] == 1 and shfs("push", "-n").stdout == "lab has all of it already\n"
    assert "nothing new" in shfs("pull").stdout

    machines.go("hosta")
    record(sandbox, *HERE)
    here = answers(sandbox)
    shfs("remote", "add", "lab", kind.url)
    dry = pull(shfs, "-n")
    assert dry["files"] == 2 and dry["bytes"] and shfs("log", f"hostb:{sandbox.project}/fig.txt", check=3)
    first = pull(shfs)
    assert first["tree"] == "hostb" and first["objects"] and not first["missing"]
    assert answers(sandbox) == here and answers(sandbox, "hostb:") == there
    assert pull(shfs)["stores_new"] == 0
    # what was pulled is not pushed again
    mine = push(shfs)["files"]
    assert not [n for n in places_of_blobs(kind, sandbox) if "hostb" in n]
    record(sandbox, "rev data.txt > more", "seq 2000 > long")
    assert push(shfs)["files_new"] <= 7 and mine

    machines.go("hostb")
    assert pull(shfs)["tree"] == "hosta"
    assert answers(sandbox) == there
    assert shfs("cat", f"hosta:{sandbox.project}/long@1").stdout == "".join(f"{n + 1}\n" for n in range(2000))
    for name in "hosta", "hostb":
        machines.go(name)
        assert shfs("check", "--read-data").stdout.endswith("no flaws\n")
    assert shfs("remote", "check", "--read-data").stdout.endswith("no flaws\n")


def manifest(kind, store=None):
    """{file: pieces} of the newest head of each store (or of one), by docs/remotes.md."""
    found = {}
    for name in kind.names():  # sorted: the newest comes last
        if name.startswith("heads/") and (store is None or name[6:22] == store):
            found[name[6:22]] = kind.read(name).decode()
    files = {}
    for who, head in found.items():
        for line in head.splitlines():
            if line.startswith("list "):
                blob = line.split()[3]
                for entry in kind.read(f"data/{who}/{blob[:2]}/{blob}").decode().splitlines():
                    word, *rest = entry.split()
                    if word == "file":
                        pieces = files.setdefault((who, rest[1]), [])
                    elif word == "piece":
                        pieces.append((int(rest[0]), f"data/{who}/{rest[2][:2]}/{rest[2]}", int(rest[3])))
    return files


def places_of_blobs(kind, sandbox):
    """Files that this store has on the remote."""
    with open(f"{sandbox.store}/trees", encoding="ascii") as trees:
        store = next(line.split()[1] for line in trees if line.startswith("store "))
    return [name for _, name in manifest(kind, store)]


@pytest.mark.users("ordinary")
def test_what_is_there(work, sandbox, shfs, kind):
    """The layout, as docs/remotes.md has it; and no byte that no file has."""
    shfs("remote", "add", "r", kind.url)
    push(shfs)
    files = manifest(kind)
    names = {name for _, name in files}
    store = {os.path.relpath(os.path.join(top, n), sandbox.store) for top, _, found in os.walk(sandbox.store) for n in found}
    assert {n for n in store if n.startswith(("journal/", "objects/")) and not n.endswith(".idx")} == \
        {n for n in names if n.startswith(("journal/", "objects/"))}
    for (_, name), pieces in files.items():
        data = b"".join(kind.read(blob)[at : at + size] for size, blob, at in pieces)
        if not name.startswith("made/"):
            path = {"store/archived": "state/archived"}.get(name, name.removeprefix("store/"))
            with open(f"{sandbox.store}/{path}", "rb") as file:
                assert file.read() == data, name
    used = {}
    for pieces in files.values():
        for size, blob, at in pieces:
            used.setdefault(blob, []).append((at, size))
    lists = [n for n in kind.blobs() if n not in used]
    for blob, ranges in used.items():
        end = 0
        for at, size in sorted(ranges):
            assert at == end
            end += size
        assert end == len(kind.read(blob))
    assert lists and all(kind.read(n).startswith(b"shfs list 1\n") for n in lists)


@pytest.mark.users("ordinary")
def test_a_lost_machine(work, sandbox, shfs, kind):
    """All that was pushed comes back, and goes on."""
    before, had = everything(shfs, sandbox), commands_of(shfs)
    shfs("remote", "add", "r", kind.url)
    push(shfs)
    new = f"{sandbox.home}/new"
    there = in_store(sandbox, new)
    said = json.loads(there("clone", "--json", "--name", "r", kind.url).stdout)
    assert said["store"] == new and said["files"]
    assert everything(there, sandbox) == before and commands_of(there) == had
    assert there("check", "--read-data").stdout.endswith("no flaws\n")
    assert "store already" in there("clone", kind.url, check=4).stderr
    # it is the same store: it pushes on, and the old one is told
    assert push(there)["blobs"] == 0
    env = {"SHFS_STORE": new}
    sandbox.env.update(env)
    sandbox.store = new
    record(sandbox, "echo from the new machine > found")
    assert push(there)["generation"] == 2
    old = in_store(sandbox, f"{sandbox.home}/.local/share/shfs")
    assert "another copy of this store" in old("push", check=4).stderr
    old("pull")
    assert old("cat", f"{sandbox.project}/found@1").stdout == "from the new machine\n"
    assert push(old)["generation"] in (2, 3)


def commands_of(shfs):
    return [c["text"] for c in json.loads(shfs("history", "--json", "--all", check=False).stdout)["commands"]]


@pytest.mark.each_kind
@pytest.mark.users("ordinary")
def test_forget_reaches_it(work, sandbox, shfs, kind):
    """A forgotten secret is nowhere: not on the remote, not where it was pulled to."""
    secret = SECRET.decode()
    shfs("remote", "add", "r", kind.url)
    push(shfs)
    other = f"{sandbox.home}/other"
    there = in_store(sandbox, other)
    there("remote", "add", "r", kind.url)
    pull(there)
    assert has_anywhere(kind, SECRET) and places(other, SECRET)
    before = state(sandbox, secret)
    assert "still on what was pushed to (r)" in shfs("forget", "--grep", secret, "--yes").stderr
    shfs("forget", "--content", f"{sandbox.project}/mixed", "--yes")
    shfs("forget", f"{sandbox.project}/five", "--yes")
    assert not places(sandbox.store, SECRET)
    assert push(shfs)["removed"]
    assert has_anywhere(kind, SECRET) == []
    assert pull(there)["forgotten"]
    assert places(other, SECRET) == []
    assert there("check", "--read-data").stdout.endswith("no flaws\n")
    assert shfs("check", "--read-data").stdout.endswith("no flaws\n")
    texts, contents = state(sandbox, secret)
    assert texts == [t for t in before[0] if t in texts] and contents
    new = in_store(sandbox, f"{sandbox.home}/new")
    new("clone", kind.url)
    assert commands_of(new) == commands_of(shfs) == commands_of(there)
    # and it does not come back
    push(there)
    pull(shfs)
    assert places(sandbox.store, SECRET) == [] and has_anywhere(kind, SECRET) == []


@pytest.mark.users("ordinary")
def test_prune_reaches_it(sandbox, shfs, kind):
    record(sandbox, *(f"head -c 300000 /dev/urandom > big; echo {n} > small" for n in range(4)),
           *("head -c 3000000 /dev/urandom > loose" for _ in range(3)))
    shfs("remote", "add", "r", kind.url)
    push(shfs)
    size = sum(len(data) for data in kind.files().values())
    there = in_store(sandbox, f"{sandbox.home}/other")
    shfs("prune", "--keep-last", "1")
    assert push(shfs)["removed"]
    assert sum(len(data) for data in kind.files().values()) < size - 3 * 300000 - 2 * 3000000 + 100000
    there("remote", "add", "r", kind.url)
    assert not pull(there)["missing"]
    new = in_store(sandbox, f"{sandbox.home}/new")
    new("clone", kind.url)
    for store in there, new:
        assert store("check", "--read-data").stdout.endswith("no flaws\n")
        assert store("cat", f"{sandbox.project}/big@4").stdout_bytes == shfs("cat", f"{sandbox.project}/big@4").stdout_bytes
        assert "pruned" in store("cat", f"{sandbox.project}/big@1", check=1).stderr
    assert everything(new, sandbox) == everything(shfs, sandbox)


# --- faults ---


class Saved:
    """A store and a remote, to go back to."""

    def __init__(self, sandbox, kind, store=None):
        self.sandbox, self.kind, self.store = sandbox, kind, store or sandbox.store
        self.files = kind.files()
        self.copy = f"{self.store}.saved"
        sandbox.run("cp", "-a", self.store, self.copy, cwd="/")

    def back(self):
        now = self.kind.files()
        for name in now.keys() - self.files.keys():
            self.kind.remove(name)
        for name, data in self.files.items():
            if now.get(name) != data:
                self.kind.write(name, data)
        self.sandbox.run("rm", "-rf", self.store, cwd="/")
        self.sandbox.run("cp", "-a", self.copy, self.store, cwd="/")


def clone_of(sandbox, kind):
    """What a clone has: commands, and contents of files; and it is sound."""
    new = f"{sandbox.home}/cloned"
    sandbox.run("rm", "-rf", new, cwd="/")
    there = in_store(sandbox, new)
    there("clone", kind.url)
    assert there("check", "--read-data").stdout.endswith("no flaws\n")
    return all_of(there, sandbox)


def all_of(shfs, sandbox):
    """Commands, and the contents of all versions of the files of two_states."""
    found = {}
    for name in "a", "key", "random", "both", "long", "loose":
        log = shfs("log", "--json", f"{sandbox.project}/{name}", check=False).stdout
        for version in json.loads(log)["versions"] if log else []:
            file = f"{name}@{version['n']}"
            found[file] = shfs("cat", f"{sandbox.project}/{file}").stdout_bytes
    return commands_of(shfs), found


@pytest.fixture
def two_states(sandbox, shfs, kind):
    """A store that has pushed; and since then has recorded more, and forgotten some of what it pushed."""
    record(sandbox, "echo one > a", f"echo {SECRET.decode()} > key", "head -c 200000 /dev/urandom > random", "cat a random > both")
    shfs("remote", "add", "r", kind.url)
    push(shfs)
    before = clone_of(sandbox, kind)
    record(sandbox, "echo two > a", "seq 3000 > long", "head -c 1500000 /dev/urandom > loose")
    shfs("forget", "--grep", SECRET.decode(), "--yes")
    after = all_of(shfs, sandbox)
    assert len(before[1]) == 4 and len(after[1]) == 6 and SECRET not in b"".join(after[1].values())
    return before, after


def samples(n, count, seed):
    """Some of 1..n, and the last one; all of them in a long run."""
    return range(1, n + 1) if LONG else sorted({*random.Random(seed).sample(range(1, n + 1), min(n, count)), n})


def steps(seed):
    """1, 2, 3 and so on in a long run; else some of these."""
    chance = random.Random(seed)
    n = 0
    while True:
        n += 1 if LONG else chance.randint(1, 5)
        yield n


@pytest.mark.users("ordinary")
@pytest.mark.parametrize("seed", seeds(1, 100))
def test_push_killed_at_any_request(two_states, sandbox, shfs, kind, seed):
    before, after = two_states
    saved = Saved(sandbox, kind)
    push(shfs)
    final = {n for n in kind.names() if n.startswith("data/")}
    for n in steps(seed):
        saved.back()
        killed = shfs("push", env={FAULTS: f"kill={n}"}, check=False).status
        assert killed in (0, -9), killed
        found = clone_of(sandbox, kind)
        assert found in (before, after), n
        shfs("push", env={FAULTS: "late"})  # also if the listing does not tell all
        push(shfs)
        assert clone_of(sandbox, kind) == after, n
        said = json.loads(shfs("remote", "check", "--read-data", "--json").stdout)
        assert said["ok"] and not said["unneeded"], (n, said)
        assert has_anywhere(kind, SECRET) == [], n
        if not killed:
            break
    assert n > 7 and final


@pytest.mark.each_kind
@pytest.mark.users("ordinary")
def test_a_secret_of_a_push_that_was_killed(sandbox, shfs, kind):
    """It was put, and no head ever named it; then it was forgotten."""
    record(sandbox, "echo one > a")
    shfs("remote", "add", "r", kind.url)
    push(shfs)
    record(sandbox, f"echo {SECRET.decode()} > key; (head -c 3000000 /dev/urandom; cat key) > loose")
    n = 1
    while not has_anywhere(kind, SECRET):
        assert shfs("push", env={FAULTS: f"kill-after={n}"}, check=-9)
        n += 1
    assert "(r)" in shfs("forget", "--grep", SECRET.decode(), "--yes", "--json").stderr
    assert not places(sandbox.store, SECRET)
    push(shfs)
    assert has_anywhere(kind, SECRET) == []
    assert not json.loads(shfs("remote", "check", "--json").stdout)["unneeded"]


@pytest.mark.users("ordinary")
@pytest.mark.parametrize("seed", seeds(1, 100))
def test_taken_though_killed(two_states, sandbox, shfs, kind, seed):
    """A pull or a clone that is killed at any request, and is called again."""
    _, after = two_states
    push(shfs)
    path = f"{sandbox.home}/taken"
    there = in_store(sandbox, path)
    for command in ("clone", "--name", "r", kind.url), ("pull", "r"):
        for n in steps(seed):
            sandbox.run("rm", "-rf", path, cwd="/")
            if command[0] == "pull":
                there("remote", "add", "r", kind.url)
            for fault in f"kill={n}", f"kill-after={n + 1}":
                killed = there(*command, env={FAULTS: fault}, check=False).status
                assert killed in (0, -9), killed
                if not killed:
                    break
                if command[0] == "clone":
                    assert there("history", "--all", check=6)
                else:
                    assert all_of(there, sandbox) == ([], {})
            if killed:
                there(*command)
            assert all_of(there, sandbox) == after, (command, n)
            assert there("check", "--read-data").stdout.endswith("no flaws\n")
            assert not os.listdir(f"{path}/remote/r/incoming") if command[0] == "pull" else not os.path.exists(f"{path}/remote/r/cloning")
            if not killed:
                break
        assert n > 3


CALLS = "write,pwrite64,rename,renameat,renameat2,linkat,unlinkat,unlink,fsync,fdatasync,syncfs,mkdir,mkdirat,openat"


@on_this_side
@pytest.mark.users("ordinary")
@pytest.mark.parametrize("seed", seeds(1, 100))
@pytest.mark.parametrize("command", ["push", "pull", "clone"])
def test_killed_at_any_call(two_states, sandbox, shfs, kind, command, seed):
    """Of the system: also while what was fetched is taken over."""
    before, after = two_states
    program, trace = sandbox.run("which", "shfs").stdout.strip(), f"{sandbox.path}/tmp/trace"
    strace = "strace", "-f", "-o", trace, "-e", f"trace={CALLS}"
    path = sandbox.store if command == "push" else f"{sandbox.home}/taken"
    there = in_store(sandbox, path)
    env = {"SHFS_STORE": path, "ASAN_OPTIONS": "detect_leaks=0"}
    words = ["clone", "--name", "r", kind.url] if command == "clone" else [command, "r"]
    if command != "push":
        push(shfs)
    if command == "pull":
        there("remote", "add", "r", kind.url)
    else:
        sandbox.run("mkdir", "-p", path, cwd="/")
    saved = Saved(sandbox, kind, path)
    sandbox.run(*strace, program, *words, cwd="/", env=env)
    with open(trace, encoding="utf-8", errors="replace") as lines:
        calls = sum(1 for line in lines if "resumed" not in line)
    for n in samples(calls, 2, seed):
        saved.back()
        sandbox.run(*strace, "-e", f"inject={CALLS}:signal=KILL:when={n}", program, *words, cwd="/", env=env, check=False)
        if command == "push":
            assert clone_of(sandbox, kind) in (before, after), n
        if command == "clone" and os.path.exists(f"{path}/format") and not os.path.exists(f"{path}/remote/r/installing"):
            assert "already" in there(*words, check=4).stderr
        else:
            there(*words)
        if command == "push":
            assert clone_of(sandbox, kind) == after, n
            said = json.loads(shfs("remote", "check", "--json").stdout)
            assert said["ok"] and not said["unneeded"], (n, said)
        assert all_of(there, sandbox) == after, n
        assert there("check", "--read-data").stdout.endswith("no flaws\n"), n


@on_this_side
@pytest.mark.each_kind
@pytest.mark.users("ordinary")
@pytest.mark.parametrize("seed", seeds(1, 100))
def test_a_remote_that_lies(two_states, sandbox, shfs, kind, seed):
    """Bytes that are wrong, missing or cut off are never taken for what was pushed; and what is here stays."""
    _, after = two_states
    push(shfs)
    path = f"{sandbox.home}/taken"
    there = in_store(sandbox, path)
    seen = set()
    for command in ("clone", "--name", "r", kind.url), ("pull", "r"):
        for fault in "flip", "cut", "gone":
            for n in sorted({4 if command[0] == "clone" else 3, *samples(8, 1, f"{seed}{fault}")} - {8}) if not LONG else range(1, 9):
                sandbox.run("rm", "-rf", path, cwd="/")
                if command[0] == "pull":
                    there("remote", "add", "r", kind.url)
                status = there(*command, env={FAULTS: f"{fault}={n}"}, check=False).status
                seen.add((command[0], fault, status))
                if not status:  # it was a get that another one could stand in for, or there was none
                    assert all_of(there, sandbox) == after, (command, fault, n)
                    continue
                assert status in (1, 3, 4), status
                if command[0] == "pull":
                    assert all_of(there, sandbox) == ([], {})
                there(*command)
                assert all_of(there, sandbox) == after, (command, fault, n)
    assert {(c, f) for c, f, status in seen if (status == 1 if LONG else status)} == {(c, f) for c in ("clone", "pull") for f in ("flip", "cut", "gone")}
    # and to a push it can say what it likes
    for fault in "flip-all", "late", "gone=1":
        record(sandbox, f"echo {fault} > a")
        after[0].insert(0, f"echo {fault} > a")
        shfs("push", env={FAULTS: fault}, check=False)
        push(shfs)
        assert shfs("remote", "check", "--read-data").stdout.endswith("no flaws\n")


@pytest.mark.users("ordinary")
def test_full_failing_slow_and_late(two_states, sandbox, shfs, kind):
    before, after = two_states
    assert "o space left" in shfs("push", env={FAULTS: "full=100000"}, check=1).stderr
    assert clone_of(sandbox, kind) == before
    for n in 2, 4, 6:
        assert shfs("push", env={FAULTS: f"fail-from={n}"}, check=1).stderr
        assert clone_of(sandbox, kind) == before
    push(shfs, env={FAULTS: "slow=20"})
    assert clone_of(sandbox, kind) == after
    there = in_store(sandbox, f"{sandbox.home}/taken")
    there("remote", "add", "r", kind.url)
    pull(there)
    record(sandbox, "echo three > a")
    push(shfs)
    # the listing does not have the newest head yet: an older one takes nothing back
    assert pull(there, env={FAULTS: "late"})["stores_new"] == 0
    assert all_of(there, sandbox) == after
    assert pull(there)["stores_new"] == 1
    assert all_of(there, sandbox) == all_of(shfs, sandbox) != after
    shfs("push", "--rate", "1M")
    assert "--rate takes" in shfs("push", "--rate", "x", check=2).stderr


@pytest.mark.users("ordinary")
@pytest.mark.parametrize("seed", seeds(1, 100))
def test_damage_is_found_and_mended(two_states, sandbox, shfs, kind, seed):
    """A blob, damaged or missing: the check names it, and the next push brings it again."""
    _, after = two_states
    push(shfs)
    path = f"{sandbox.home}/taken"
    there = in_store(sandbox, path)
    good = kind.files()
    blobs = kind.blobs()
    for name in (blobs[n - 1] for n in samples(len(blobs), 2, seed)):
        for damage in "flip", "cut", "gone":
            if damage == "flip":
                kind.flip(name)
            elif damage == "cut":
                kind.write(name, good[name][:-1])
            else:
                kind.remove(name)
            quick = json.loads(shfs("remote", "check", "--json", check=False).stdout)
            is_list = good[name].startswith(b"shfs list")
            assert quick["ok"] == (damage == "flip" and not is_list)
            said = json.loads(shfs("remote", "check", "--read-data", "--json", check=1).stdout)
            assert [p["blob"] for p in said["problems"]] == [os.path.basename(name)]
            assert said["problems"][0]["problem"] == ("damaged" if damage == "flip" or is_list and damage == "cut" else
                                                      "length" if damage == "cut" else "missing")
            assert os.path.basename(name)[:12] in shfs("remote", "check", "--read-data", check=1).stdout
            # another store may not need it; or it takes nothing
            sandbox.run("rm", "-rf", path, cwd="/")
            there("remote", "add", "r", kind.url)
            result = there("pull", check=False)
            assert result.status == 0 or "damaged there" in result.stderr or "missing there" in result.stderr
            assert all_of(there, sandbox) == (([], {}) if result.status else after)
            push(shfs)
            assert shfs("remote", "check", "--read-data").stdout.endswith("no flaws\n"), (name, damage)
    head = kind.names()[-2]
    assert head.startswith("heads/")
    kind.flip(head)
    assert json.loads(shfs("remote", "check", "--json", check=1).stdout)["problems"][0]["problem"] == "head"
    push(shfs)
    assert shfs("remote", "check", "--read-data").stdout.endswith("no flaws\n")
    assert clone_of(sandbox, kind) == after
    # all of it is gone
    for name in kind.names():
        if name != "shfs-remote":
            kind.remove(name)
    assert "has lost" in shfs("push").stderr
    assert clone_of(sandbox, kind) == after


@pytest.mark.users("ordinary")
def test_in_spite_of_damage(two_states, sandbox, shfs, kind):
    """What is not damaged can be had all the same, and what is lost is named."""
    _, after = two_states
    push(shfs)
    loose = [n for n in kind.blobs() if len(kind.read(n)) > 1000000]
    assert len(loose) == 1
    kind.flip(loose[0])
    path = f"{sandbox.home}/taken"
    there = in_store(sandbox, path)
    assert "--despite-damage" in there("clone", kind.url, check=1).stderr
    assert "left out" in there("clone", "--despite-damage", kind.url).stderr
    assert "loose@1" in there("check", "--read-data", check=1).stdout
    assert there("cat", f"{sandbox.project}/long@1").stdout_bytes == after[1]["long@1"]
    sandbox.run("rm", "-rf", path, cwd="/")
    there("remote", "add", "r", kind.url)
    said = pull(there, "--despite-damage")
    assert said["damaged"] == 1 and said["missing"] == 1
    assert there("cat", f"{sandbox.project}/long@1").stdout_bytes == after[1]["long@1"]
    shfs("remote", "check", "--read-data", check=1)
    push(shfs)
    pull(there, "--despite-damage")
    assert all_of(there, sandbox) == after


@pytest.mark.users("ordinary")
def test_many_writers(sandbox, kind):
    """Stores that push at once have all of it there; copies of one store cannot both, and nothing is lost."""
    stores = [f"{sandbox.home}/store{n}" for n in range(4)]
    for n, path in enumerate(stores):
        sandbox.env["SHFS_STORE"] = sandbox.store = path
        record(sandbox, *(f"head -c 30000 /dev/urandom > f{n}-{i}" for i in range(3)))
        in_store(sandbox, path)("remote", "add", "r", kind.url)
    copies = [f"{stores[0]}.copy{n}" for n in range(3)]
    for path in copies:
        sandbox.run("cp", "-a", stores[0], path, cwd="/")
    for turn in range(3):
        programs = [sandbox.popen(["shfs", "push", "--json"], cwd="/", env={"SHFS_STORE": path},
                                  stdout=-1, stderr=-1) for path in (*stores, *copies)]
        ended = [(p.communicate(), p.returncode)[::-1] for p in programs]
        assert {code for code, _ in ended} <= {0, 4}, ended
        assert [code for code, _ in ended[1:4]] == [0, 0, 0]
        same = [ended[0], *ended[4:]]
        assert any(code == 0 for code, _ in same) or turn
        assert all(b"another copy" in said[1] for code, said in same if code == 4)
        there = in_store(sandbox, stores[1])
        assert there("remote", "check", "--read-data").stdout.endswith("no flaws\n")
        # those that were refused take over what the other one has pushed
        for path in stores[0], *copies:
            in_store(sandbox, path)("pull", "r")
    new = in_store(sandbox, f"{sandbox.home}/new")
    new("remote", "add", "r", kind.url)
    pull(new)
    for n in range(4):
        for i in range(3):
            name = f"{sandbox.project}/f{n}-{i}@1"
            assert new("cat", name).stdout_bytes == in_store(sandbox, stores[n])("cat", name).stdout_bytes
    assert new("check", "--read-data").stdout.endswith("no flaws\n")


# --- a remote that a stranger has made ---


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def forge(kind, entries, store="0123456789abcdef", generation=1, host="evil"):
    """A remote with such files: [(name, bytes, or lines of pieces)]."""
    def put(data):
        name = sha256(data)
        kind.write(f"data/{store}/{name[:2]}/{name}", data)
        return name

    text = "shfs list 1\n"
    for name, data in entries:
        if isinstance(data, bytes):
            text += f"file {len(data)} {name}\n"
            text += f"piece {len(data)} {sha256(data)} {put(data)} 0\n" if data else ""
        else:
            text += f"file {name}\n{data}"
    blob = put(text.encode())
    head = f"shfs head 1\nstore {store}\ngeneration {generation}\nrewrites 1\ntime 1\nhost {host}\nlist {len(text)} {blob} {blob}\n"
    head += f"sum {sha256(head.encode())}\n"
    kind.write("shfs-remote", b"shfs remote 1\n")
    kind.write(f"heads/{store}-{generation:08}", head.encode())


TREES = b"from 0123456789abcdef - evil /home/evil\n"


@on_this_side
@pytest.mark.users("ordinary")
def test_a_stranger_s_names(sandbox, shfs, kind):
    record(sandbox, "echo one > a")
    before = {p: d for p, (d, _) in snapshot(sandbox.home).items()}
    good = [("made/trees", TREES), ("store/format", b"1\n")]
    forge(kind, good)
    shfs("remote", "add", "r", kind.url)
    for name in ("../x", "store/../x", "/tmp/x", "journal/../x.seg", "journal/h/../x.seg", "journal/h/x/y.seg", "journal/.h/x.seg",
                 "objects/packs/../x.pack", "objects/packs/x", "objects/ab/x", "objects/../x", "made/contents/../x.pack", "index.db",
                 "store/index.db", "made/x", "state/alert", f"journal/h/{'x' * 300}.seg", "journal/h/x.seg.new"):
        for sort in True, False:
            entries = [*good, (name, b"evil")]
            forge(kind, sorted(entries) if sort else entries)
            assert "damaged" in shfs("pull", check=1).stderr, name
            new = in_store(sandbox, f"{sandbox.home}/new")
            assert new("clone", kind.url, check=1)
            assert not os.path.exists(f"{sandbox.home}/new/format")
    for pieces in ("piece 5 {0} {0} 0\n", "piece 4 x x 0\n", "piece 4 {0} {0} 4194305\n", "piece 4 {0}\n", "piece -4 {0} {0} 0\n",
                   "piece 4 {0} {0} 0\npiece 4 {0} {0} 0\n", ""):
        forge(kind, [*good, ("4 store/trees", pieces.format(sha256(b"evil")))])
        assert "damaged" in shfs("pull", check=1).stderr, pieces
    for head in (b"", b"shfs head 1\n", b"shfs head 2\nwhatever\n", b"\0" * 100, kind.read("heads/0123456789abcdef-00000001")[:-2]):
        kind.write("heads/0123456789abcdef-00000001", head)
        assert shfs("pull", check=False).status in (1, 4)
    now = {p: d for p, (d, _) in snapshot(sandbox.home).items()}
    changed = {p for p in now if now[p] != before.get(p)}
    assert not {p for p in changed if not p.startswith((f"{sandbox.store}/", f"{sandbox.home}/new/", f"{sandbox.home}/remote/"))}
    assert not {p for p in changed if "/remote/" not in p and "/index.db" not in p and "/state/" not in p and "/log/" not in p and "/collect/" not in p}
    assert shfs("check", "--read-data").stdout.endswith("no flaws\n")


@on_this_side
@pytest.mark.users("ordinary")
@pytest.mark.parametrize("seed", seeds(1, 200))
def test_flipped_bits_of_files(two_states, sandbox, shfs, kind, seed):
    """A stranger's bytes have right sums; then the import says what is wrong with them, or nothing is."""
    _, after = two_states
    push(shfs)
    chance = random.Random(seed)
    files = {name: b"".join(kind.read(blob)[at : at + size] for size, blob, at in pieces) for (_, name), pieces in manifest(kind).items()}
    store = next(name[6:22] for name in kind.names() if name.startswith("heads/"))
    path = f"{sandbox.home}/taken"
    there = in_store(sandbox, path)
    for _ in range(5 if LONG else 2):
        kind.clear()
        name = chance.choice(sorted(n for n, data in files.items() if data))
        data = bytearray(files[name])
        for _ in range(chance.choice([1, 1, 3])):
            at = chance.randrange(len(data))
            data[at] ^= 1 << chance.randrange(8)
        forge(kind, sorted({**files, name: bytes(data)}.items()), store=store, host="vm")
        sandbox.run("rm", "-rf", path, cwd="/")
        there("remote", "add", "r", kind.url)
        result = there("pull", check=False)
        assert result.status in (0, 1, 4) and "Sanitizer" not in result.stderr, (name, result)
        assert all(data == after[1].get(file) for file, data in all_versions(there, sandbox).items()), (name, at)
        there("check", "--read-data", check=False)
        sandbox.run("rm", "-rf", path, cwd="/")
        result = there("clone", kind.url, check=False)
        assert result.status in (0, 1) and "Sanitizer" not in result.stderr, (name, result)
        if not result.status:
            there("check", "--read-data", check=False)
            assert all(data == after[1].get(file) for file, data in all_versions(there, sandbox).items()), (name, at)


def all_versions(shfs, sandbox):
    """Contents of versions that can be read."""
    found = {}
    for name in "a", "key", "random", "both", "long", "loose":
        log = shfs("log", "--json", f"{sandbox.project}/{name}", check=False).stdout
        for version in json.loads(log)["versions"] if log else []:
            file = f"{name}@{version['n']}"
            result = shfs("cat", f"{sandbox.project}/{file}", check=False)
            if not result.status:
                found[file] = result.stdout_bytes
    return found


@pytest.mark.users("ordinary")
def test_what_is_refused(sandbox, shfs, kind):
    record(sandbox, "echo one > a")
    assert "no remote yet" in shfs("push", check=3).stderr
    assert "hint" in shfs("remote", "list").stderr
    for name in ".x", "-x", "a/b", "", "x" * 65:
        assert shfs("remote", "add", "--", name, kind.url, check=2).stderr
    for url in "", "ftp://host/x", "file://x", "a\nb", "ssh://", "ssh://host", "ssh://-oProxyCommand=x/y", "-x:y", "host:":
        assert shfs("remote", "add", "r", url, check=2).stderr
    assert "wants a name and a URL" in shfs("remote", "add", "r", check=2).stderr
    shfs("remote", "add", "r", kind.url)
    assert "already" in shfs("remote", "add", "r", kind.url, check=4).stderr
    shfs("remote", "add", "s", kind.url)
    assert "name one" in shfs("push", check=2).stderr
    assert "no remote of the name" in shfs("push", "none", check=3).stderr
    push(shfs, "r")
    assert [r["name"] for r in json.loads(shfs("remote", "list", "--json").stdout)["remotes"]] == ["r", "s"]
    assert [line.split()[0] for line in shfs("remote").stdout.splitlines() if re.search(r"  (no|yes) +20\d\d-", line)] == ["r"], "pushed to"
    shfs("remote", "remove", "s")
    shfs("remote", "remove", "s", check=3)
    shfs("remote", "remove", "r")
    # it is known no more, and must not be overwritten unseen
    shfs("remote", "add", "r", kind.url)
    assert "another copy" in shfs("push", check=4).stderr
    shfs("pull")
    assert push(shfs)["generation"] == 1
    kind.write("shfs-remote", b"shfs remote 2\n")
    assert "newer shfs" in shfs("push", check=4).stderr and "newer shfs" in shfs("pull", check=4).stderr
    kind.write("shfs-remote", b"something else\n")
    assert "no remote of shfs" in shfs("push", check=4).stderr
    kind.clear()
    assert "no remote" in shfs("push", check=3).stderr
    kind.write("other", b"x")
    assert "no remote of shfs" in shfs("remote", "add", "t", kind.url, check=4).stderr


@pytest.mark.users("ordinary")
def test_while_it_records(sandbox, shfs, mount, kind):
    """Recordings go on; a clone knows which did not end, and has what there was by then."""
    mounted = mount()
    shell = sandbox.shell()
    shell.run("echo one > a")
    shfs("remote", "add", "r", kind.url)
    push(shfs)
    new = f"{sandbox.home}/new"
    there = in_store(sandbox, new)
    there("clone", "--name", "r", kind.url)
    assert there("cat", f"{sandbox.project}/a@1").stdout == "one\n"
    assert json.loads(there("status", "--json").stdout).get("gaps", []) == []
    shell.run("echo two > a")
    push(shfs)
    other = in_store(sandbox, f"{sandbox.home}/other")
    other("remote", "add", "r", kind.url)
    pull(other)
    shell.run("echo three > a")
    shell.close()
    mounted.unmount()
    push(shfs)
    pull(other)
    assert [other("cat", f"{sandbox.project}/a@{n}").stdout for n in (1, 2, 3)] == ["one\n", "two\n", "three\n"]
    assert commands_of(other) == commands_of(shfs)
    for store in shfs, other, there:
        assert store("check", "--read-data").stdout.endswith("no flaws\n")
