# SPDX-License-Identifier: MIT
"""shfs pull --metadata and clone --metadata: the record comes, contents stay on the remote until they are read."""

import json
import os
import random
import subprocess
import time

import pexpect
import pytest

from harness import seeds
from screens import PROGRAM, Screen
from test_browse import Browse
from test_forget import SECRET, places, shfs
from test_remote_ssh import Link
from test_remotes import FAULTS, Saved, has_anywhere, in_store, kind, pull, push, steps
from test_trees import machines, record

assert shfs and kind and machines  # fixtures


def make(sandbox, seed, steps=10):
    """Versions of files, and the bytes that each close left."""
    chance, truth, commands = random.Random(f"{seed}"), {}, []
    source = f"{sandbox.home}/source"
    sandbox.mkdir(source)
    for step in range(steps):
        name = chance.choice(["a", "b", "c d", "large"])
        last = truth.get((name, sum(1 for n, _ in truth if n == name)), b"")
        if name == "large":
            data = chance.randbytes(chance.choice([300_000, 1_500_000, 5_000_000]))
        elif last and chance.random() < 0.6:  # so there are deltas
            data = last[: len(last) // 2] + b"%d\n" % step + last[len(last) // 2 :]
        else:
            data = b"%d " % step + chance.randbytes(chance.choice([10, 3000, 60_000]))
        path = f"{source}/{step}"
        with open(path, "wb") as file:
            file.write(data)
        sandbox.user.own(path)
        truth[name, 1 + sum(1 for n, _ in truth if n == name)] = data
        commands.append(f"cat {path} > '{name}'")
    record(sandbox, *commands)
    return truth


def cat(shfs, sandbox, version, **options):
    name, n = version
    return shfs("cat", f"{sandbox.project}/{name}@{n}", **options)


def away(shfs):
    said = json.loads(shfs("check", "--json").stdout)
    assert said["ok"] and not said["lost"], said
    return said["away"]


def packs(path):
    return [name for _, _, names in os.walk(f"{path}/objects") for name in names]


@pytest.fixture
def truth(sandbox, shfs, kind, request):
    found = make(sandbox, getattr(request, "param", 1))
    shfs("remote", "add", "r", kind.url)
    push(shfs)
    return found


@pytest.fixture
def there(sandbox, truth, kind):
    """A clone without contents."""
    there = in_store(sandbox, f"{sandbox.home}/there")
    said = json.loads(there("clone", "--metadata", "--name", "r", "--json", kind.url).stdout)
    assert said["away"] >= len(truth) and not packs(f"{sandbox.home}/there")
    return there


@pytest.mark.users("ordinary")
@pytest.mark.parametrize("truth", seeds(2, 100), indirect=True)
def test_each_version(truth, there, sandbox, shfs, kind):
    """Each version is what its close left, whatever else is done meanwhile; and the remote loses nothing."""
    chance = random.Random(len(truth[min(truth)]))
    blobs = kind.blobs()
    others = [("check", "--read-data"), ("repair",), ("gc",), ("reindex",), ("prune", "--keep-last", "1000"), ("push",), ("pull", "--metadata")]
    assert away(there) == len(set(truth.values()))
    assert "only on a remote" in there("check").stdout and "only on a remote" in there("status", check=False).stdout
    for version in chance.sample(sorted(truth), len(truth)):
        there(*chance.choice(others))
        assert cat(there, sandbox, version).stdout_bytes == truth[version], version
        assert cat(there, sandbox, version, env={FAULTS: "fail-from=1"}).stdout_bytes == truth[version]
    assert away(there) == 0 and kind.blobs() == blobs
    assert there("check", "--read-data").stdout.endswith("no flaws\n")
    assert "has all of it" in there("push").stdout
    # what is new is pushed, and nothing is removed there
    sandbox.env["SHFS_STORE"] = sandbox.store = f"{sandbox.home}/there"
    record(sandbox, "echo more > more")
    push(there)
    new = in_store(sandbox, f"{sandbox.home}/new")
    new("clone", kind.url)
    for version, data in truth.items():
        assert cat(new, sandbox, version).stdout_bytes == data
    assert new("cat", f"{sandbox.project}/more@1").stdout == "more\n"
    assert new("check", "--read-data").stdout.endswith("no flaws\n")


@pytest.mark.users("ordinary")
@pytest.mark.parametrize("seed", seeds(1, 100))
def test_faults(truth, there, sandbox, shfs, kind, seed):
    """Killed at any request, lied to, or refused: nothing is kept that is wrong, and the next try has it."""
    chance = random.Random(f"{seed}")
    left = away(there)
    for fault, times in ("kill", 9), ("kill-after", 9), ("flip-all", 1), ("cut", 5), ("gone", 5), ("fail-from", 1):
        version = chance.choice(sorted(truth))
        for n in range(1, times + 1):
            sandbox.run("rm", "-rf", f"{sandbox.home}/copy", cwd="/")
            sandbox.run("cp", "-a", f"{sandbox.home}/there", f"{sandbox.home}/copy", cwd="/")
            copy = in_store(sandbox, f"{sandbox.home}/copy")
            result = cat(copy, sandbox, version, env={FAULTS: fault if times == 1 and fault == "flip-all" else f"{fault}={n}"}, check=False)
            assert result.status in (0, 1), (fault, n, result)
            if result.status:
                assert not result.stdout_bytes and "only on a remote" in result.stderr, (fault, n, result)
                assert fault.startswith("kill") or kind.url[:20] in result.stderr or "shfs pull --metadata r" in result.stderr
                assert away(copy) == left
            else:
                assert result.stdout_bytes == truth[version] and times > 1, (fault, n)
                if fault.startswith("kill"):
                    assert n > 2
                    break
            assert cat(copy, sandbox, version).stdout_bytes == truth[version]
        else:
            assert not fault.startswith("kill"), "too many requests for one content"
    assert not packs(f"{sandbox.home}/there")


@pytest.mark.users("ordinary")
def test_only_what_is_needed(sandbox, shfs, kind):
    """One content moves the pieces that it lies in, and no others."""
    record(sandbox, *("head -c 6000000 /dev/urandom > big" for _ in range(3)), "echo small > small", "head -c 3000000 /dev/urandom > loose")
    shfs("remote", "add", "r", kind.url)
    push(shfs)
    path = f"{sandbox.home}/there"
    there = in_store(sandbox, path)
    there("clone", "--metadata", "--name", "r", kind.url)
    left = away(there)
    assert there("cat", f"{sandbox.project}/small@1").stdout == "small\n"
    assert away(there) < left
    size = sum(os.path.getsize(os.path.join(top, name)) for top, _, names in os.walk(f"{path}/objects") for name in names)
    assert size < 9_000_000
    for name in "big", "loose":
        for n in range(1, 4 if name == "big" else 2):
            assert there("cat", f"{sandbox.project}/{name}@{n}").stdout_bytes == shfs("cat", f"{sandbox.project}/{name}@{n}").stdout_bytes
    assert away(there) == 0


@pytest.mark.users("ordinary")
def test_commands_and_services(truth, there, sandbox, shfs, kind):
    """restore, diff, export and others fetch; what may not use the network says what is missing."""
    sandbox.mkdir(f"{sandbox.home}/put")
    for name in sorted({name for name, _ in truth}):
        last = max(n for other, n in truth if other == name)
        target = f"{sandbox.home}/put/{name}"
        there("restore", f"{sandbox.project}/{name}@{last}", "--to", target)
        with open(target, "rb") as file:
            assert file.read() == truth[name, last]
        if last > 1:
            there("diff", f"{sandbox.project}/{name}@1", f"{sandbox.project}/{name}@{last}", check=False)
    other = in_store(sandbox, f"{sandbox.home}/other")
    other("clone", "--metadata", "--name", "r", kind.url)
    name, n = max(truth)
    sandbox.env["SHFS_STORE"] = sandbox.store = f"{sandbox.home}/other"
    past = Browse(sandbox, sandbox.mkdir(f"{sandbox.home}/past"), None)
    read = sandbox.run("cat", f"{past.directory}/versions/{name}/{n}", check=False)
    assert read.status == 1 and "Object is remote" in read.stderr and away(other) == len(set(truth.values()))
    past.unmount()
    archive = f"{sandbox.home}/archive.tar"
    other("export", "tar", "--output", archive, sandbox.project)
    third = in_store(sandbox, f"{sandbox.home}/third")
    third("import", archive)
    for version, data in truth.items():
        assert cat(third, sandbox, version).stdout_bytes == data


@pytest.mark.users("ordinary")
def test_at_a_terminal(truth, there, sandbox, kind):
    """A command that could have a pager ends when it has fetched what it shows."""
    sandbox.env["SHFS_STORE"] = f"{sandbox.home}/there"
    name, n = min(truth, key=lambda version: len(truth[version]))
    terminal = Screen(sandbox, PROGRAM, "restore", "--to", f"{sandbox.home}/put", f"{sandbox.project}/{name}@{n}")
    terminal.pty.expect(pexpect.EOF)
    terminal.pty.close()
    assert terminal.pty.exitstatus == 0
    with open(f"{sandbox.home}/put", "rb") as file:
        assert file.read() == truth[name, n]
    terminal = Screen(sandbox, PROGRAM, "cat", f"{sandbox.project}/{name}@{n}")  # it is here, and others are away
    terminal.pty.expect(pexpect.EOF)
    terminal.pty.close()
    assert terminal.pty.exitstatus == 0 and away(there)


@pytest.mark.users("ordinary")
@pytest.mark.parametrize("kind", ["directory"], indirect=True)
@pytest.mark.parametrize("pager", [True, False])
def test_ssh_asks_nothing_beside_a_pager(sandbox, shfs, kind, pager):
    """ssh may ask for a password at the terminal, but not while a pager has it."""
    log, path = f"{sandbox.home}/arguments", f"{sandbox.home}/there"
    record(sandbox, "seq 100 > a")
    time.sleep(0.02)
    moment = time.time()
    time.sleep(0.02)
    record(sandbox, "seq 200 > a")
    shfs("remote", "add", "r", kind.url)
    push(shfs)
    in_store(sandbox, path)("clone", "--metadata", "--name", "r", kind.url)
    program = f'#!/bin/sh\necho "$@" >> {log}\nexit 255\n'
    sandbox.write_outside(f"{sandbox.home}/ssh", program, 0o755)
    sandbox.write_outside(f"{path}/remote/r/url", "ssh://nowhere/remote\n", 0o600)
    sandbox.env["SHFS_STORE"] = path
    env = {"SHFS_SSH_COMMAND": f"{sandbox.home}/ssh", "PAGER": "sh -c cat"}
    between = [f"{sandbox.project}@{{@{moment:.6f}}}", f"{sandbox.project}@{{@{time.time():.6f}}}"]
    terminal = Screen(sandbox, PROGRAM, "diff", *([] if pager else ["--no-pager"]), *between, env=env, columns=300)
    said = terminal.pty.read().decode()
    terminal.pty.close()
    with open(log, encoding="ascii") as file:
        lines = file.read().splitlines()
    assert lines and {"BatchMode=yes" in line for line in lines} == {pager}, (lines, said)
    assert ("shfs pull r asks" in said) == pager, said


@pytest.mark.users("ordinary")
def test_what_fetches_is_killed(truth, there, sandbox, kind):
    """A command that goes on without some contents goes on without the process that fetches them, too."""
    archive = f"{sandbox.home}/archive.tar"
    result = there("export", "tar", "--output", archive, sandbox.project, env={FAULTS: "kill=3"}, check=False)
    assert result.status >= 0 and result.stderr.count("the process that fetches them has ended") == 1, result
    there("export", "tar", "--output", archive, sandbox.project)
    assert away(there) == 0


@pytest.mark.users("ordinary")
def test_nothing_comes(truth, there, sandbox, kind):
    """That no remote has a content any more is said."""
    for name in lists(f"{sandbox.home}/there"):
        os.unlink(name)
    sandbox.run("rm", "-rf", f"{sandbox.home}/there/remote/r/away", cwd="/")
    said = cat(there, sandbox, min(truth), check=1).stderr
    assert "no remote has them where they were" in said and "shfs pull --metadata" in said


@pytest.mark.users("ordinary")
@pytest.mark.parametrize("damage", ["the place", "what is there", "remote gone", "blobs"])
def test_one_of_two_is_damaged(truth, there, sandbox, shfs, kind, damage):
    """It is named once, and the other one has each content; if that one is gone too, both are named."""
    path, first = f"{sandbox.home}/there/remote/a", f"{sandbox.home}/first"
    shfs("remote", "add", "a", first)
    push(shfs, "a")
    there("remote", "add", "a", first)
    pull(there, "a", "--metadata")
    [noted] = os.listdir(f"{path}/away")
    if damage == "the place":
        sandbox.write_outside(f"{path}/url", "no line", 0o600)
    elif damage == "what is there":
        sandbox.write_outside(f"{path}/away/{noted}", "nonsense\n", 0o600)
    elif damage == "remote gone":
        os.rename(first, f"{first}.gone")
    else:
        for top, _, names in os.walk(f"{first}/data"):
            for name in names:
                with open(f"{top}/{name}", "r+b") as blob:
                    byte = blob.read(1)
                    blob.seek(0)
                    blob.write(bytes([byte[0] ^ 1]))
    sandbox.run("cp", "-a", f"{sandbox.home}/there", f"{sandbox.home}/copy", cwd="/")
    versions = sorted(truth)
    result = there("cat", *(f"{sandbox.project}/{name}@{n}" for name, n in versions))
    assert result.stdout_bytes == b"".join(truth[version] for version in versions)
    called = first if damage in ("remote gone", "blobs") else "a"
    assert result.stderr.count(f"shfs: warning: cannot fetch contents from {called}: ") == result.stderr.count("shfs: ") == 1, result.stderr
    # both
    copy = in_store(sandbox, f"{sandbox.home}/copy")
    for name in kind.names():
        kind.remove(name)
    result = copy("cat", *(f"{sandbox.project}/{name}@{n}" for name, n in versions[:2]), check=1)
    said = [line for line in result.stderr.splitlines() if line.startswith("shfs: ")]
    assert len(said) == (5 if damage in ("remote gone", "blobs") else 4), said
    assert f"cannot fetch contents from {called}: " in said[0] and f"cannot fetch contents from {kind.url}: " in said[1]
    assert sum("only on a remote" in line for line in said) == 2
    assert len(said) == 4 or "shfs: cannot fetch contents: none came from a, r" in said


@pytest.mark.users("ordinary")
@pytest.mark.parametrize("pulled", ["a", "r"])
def test_no_pull_while_what_is_known_is_damaged(sandbox, shfs, kind, pulled):
    """What was forgotten would come back, from this remote and from another one."""
    record(sandbox, "seq 1000 > a", f"echo {SECRET.decode()} > key")
    path = f"{sandbox.home}/there"
    there = in_store(sandbox, path)
    for name, url in ("r", kind.url), ("a", f"{sandbox.home}/first"):
        shfs("remote", "add", name, url)
        push(shfs, name)
    there("clone", "--metadata", "--name", "r", kind.url)
    there("remote", "add", "a", f"{sandbox.home}/first")
    pull(there, "a", "--metadata")
    there("forget", "--grep", SECRET.decode(), "--yes")
    files = os.listdir(f"{path}/remote/a/away")
    record(sandbox, "seq 3000 > b")
    for name in "r", "a":
        push(shfs, name)
    for name in files:
        sandbox.write_outside(f"{path}/remote/a/away/{name}", "nonsense\n", 0o600)
    for more in [], ["--metadata"], ["--despite-damage"]:
        said = there("pull", pulled, *more, check=4).stderr
        assert "what is known here of a remote is damaged" in said
        assert places(path, SECRET) == []
    # as the hint says
    there("remote", "remove", "a")
    there("remote", "add", "a", f"{sandbox.home}/first")
    for name in "r", "a":
        pull(there, name, "--metadata")
    assert there("cat", f"{sandbox.project}/b@1").stdout == shfs("cat", f"{sandbox.project}/b@1").stdout


@pytest.mark.users("ordinary")
@pytest.mark.parametrize("kind", ["ssh"], indirect=True)
def test_a_long_silence(truth, there, sandbox, kind):
    """The connection is lost while a command asks for nothing: it is made again."""
    link = Link(kind.port)
    kind.configure(port=link.port)
    versions = sorted(truth, key=lambda version: (version[0] != "large", version))
    assert len(truth[versions[0]]) > 200_000
    files = [f"{sandbox.project}/{name}@{n}" for name, n in versions]
    env = {"SHFS_STORE": f"{sandbox.home}/there"}
    process = sandbox.popen(["shfs", "cat", *files], env, cwd="/", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    first = os.read(process.stdout.fileno(), 1000)
    assert link.end_all()
    rest, said = process.communicate(timeout=60)
    assert (process.returncode, first + rest) == (0, b"".join(truth[version] for version in versions)) and b"shfs:" not in said, said
    link.close()


@pytest.mark.users("ordinary")
def test_forget_reaches_what_is_only_there(sandbox, shfs, kind):
    record(sandbox, "seq 1000 > a", f"echo {SECRET.decode()} > key", "cat a a > b", "head -c 200000 /dev/urandom > random",
           f"(head -c 3000000 /dev/urandom; echo {SECRET.decode()}) > loose")
    shfs("remote", "add", "r", kind.url)
    push(shfs)
    there = in_store(sandbox, f"{sandbox.home}/there")
    there("clone", "--metadata", "--name", "r", kind.url)
    assert has_anywhere(kind, SECRET)
    there("forget", "--grep", SECRET.decode(), "--yes")
    push(there)
    assert has_anywhere(kind, SECRET) == [] and not places(f"{sandbox.home}/there", SECRET)
    assert there("remote", "check", "--read-data").stdout.endswith("no flaws\n")
    for store in there, in_store(sandbox, f"{sandbox.home}/new"):
        if store is not there:
            store("clone", kind.url)
        for name in "a", "b", "random":
            assert store("cat", f"{sandbox.project}/{name}@1").stdout_bytes == shfs("cat", f"{sandbox.project}/{name}@1").stdout_bytes
        assert store("check", "--read-data").stdout.endswith("no flaws\n")


def lists(path):
    """Of the lists of packs' contents in a store: {name: [(object, base or None)]}."""
    found = {}
    for top, _, names in os.walk(f"{path}/remote"):
        for name in names if "/lists/" in top else []:
            with open(f"{top}/{name}", "rb") as file:
                data = file.read()
            at = len(data) % 48  # the head
            entries = (data[i : i + 48] for i in range(at, len(data), 48))
            found[f"{top}/{name}"] = [(e[:17], e[18:35] if e[17] else None) for e in entries]
    return found


DELTA = 2  # a kind of frame


def frames(pack):
    """[(hash, that of its base or None)] of a pack (store/objects/pack.c)."""
    found, at = [], 0
    with open(pack, "rb") as file:
        data = file.read()
    while (at := data.find(b"\xd5shf", at)) >= 0:
        is_delta, stored = data[at + 24] == DELTA, int.from_bytes(data[at + 28 : at + 32], "little")
        found.append((data[at + 8 : at + 24], data[at + 40 : at + 56] if is_delta else None))
        at += (60 if is_delta else 40) + stored
    return found


def is_apart(packs):
    """Has one of these packs a delta of what another one has?"""
    return any(base and base not in [i for i, _ in entries] for entries in packs for _, base in entries)


def in_two_packs(sandbox, shfs, kind):
    """A store whose contents are only on the remote, where one pack has deltas of what another one has. Returns it, the
    last version, and its number."""
    random_bytes = random.Random(7).randbytes(200_000)
    source, packs = f"{sandbox.home}/source", f"{sandbox.store}/objects/packs"
    sandbox.mkdir(source)
    sandbox.write_outside(f"{source}/0", SECRET + b"\n" + random_bytes)
    record(sandbox, f"cat {source}/0 > a; : {SECRET.decode()}", "echo other > other")
    for n in range(1, 9):
        for name in [name for name in os.listdir(packs) if "-0-" in name]:  # so the next one is another one
            os.rename(f"{packs}/{name}", f"{packs}/{name.replace('-0-', f'-{n}-')}")
        for name, more in ("1", b"more\n"), ("2", b"and more\n"):
            sandbox.write_outside(f"{source}/{name}", random_bytes + b"%d " % n + more)
        record(sandbox, f"cat {source}/1 > a", f"cat {source}/2 > a")
        # on a busy machine the first may be stored whole, and the second is a delta of that one
        if is_apart(frames(f"{packs}/{name}") for name in os.listdir(packs) if name.endswith(".pack")):
            break
    shfs("remote", "add", "r", kind.url)
    push(shfs)
    path = f"{sandbox.home}/there"
    there = in_store(sandbox, path)
    there("clone", "--metadata", "--name", "r", kind.url)
    found = lists(path)
    assert is_apart(found.values()), found
    with open(f"{source}/2", "rb") as last:
        return there, last.read(), 2 * n + 1


@pytest.mark.users("ordinary")
@pytest.mark.parametrize("how", ["forgotten", "pruned"])
def test_a_delta_whose_base_is_removed(sandbox, shfs, kind, how):
    """What is a delta of what was forgotten, or fetched and pruned, in another pack is not lost with that."""
    there, last, n = in_two_packs(sandbox, shfs, kind)
    if how == "forgotten":
        there("forget", "--grep", SECRET.decode(), "--yes")
    else:
        there("cat", f"{sandbox.project}/a@1")
        there("prune", "--keep-last", "1", f"{sandbox.project}/a")
    push(there)
    assert how == "pruned" or has_anywhere(kind, SECRET) == []
    assert there("remote", "check", "--read-data").stdout.endswith("no flaws\n")
    new = in_store(sandbox, f"{sandbox.home}/new")
    new("clone", kind.url)
    for store in new, there:
        assert store("cat", f"{sandbox.project}/a@{n - (how == 'forgotten')}").stdout_bytes == last
        assert store("check", "--read-data").stdout.endswith("no flaws\n")


def next_pack(store):
    """Has what is recorded next be put into another pack."""
    packs = f"{store}/objects/packs"
    names = os.listdir(packs)
    for name in names:
        if "-0-" in name:
            os.rename(f"{packs}/{name}", f"{packs}/{name.replace('-0-', f'-{len(names)}-')}")


def segments(store):
    return {name for name in os.listdir(f"{store}/journal/{os.listdir(f'{store}/journal')[0]}") if name.startswith("fuse-")}


def lose(store, names):
    """Removes these segments, as if they had been damaged and set aside."""
    host, = os.listdir(f"{store}/journal")
    for name in names:
        os.unlink(f"{store}/journal/{host}/{name}")


@pytest.mark.users("ordinary")
@pytest.mark.parametrize("kind", ["directory"], indirect=True)
def test_a_base_that_no_record_names(sandbox, shfs, kind):
    """It was only on the remote, in a pack that is made anew: a delta of it that stays there is not lost."""
    source, path = f"{sandbox.home}/source", f"{sandbox.home}/there"
    sandbox.mkdir(source)
    shfs("remote", "add", "r", kind.url)
    there, outside = in_store(sandbox, path), []
    for n in range(5):  # on a busy machine it may be stored whole
        common = random.Random(n).randbytes(200_000)
        data = [b"%d" % i + common + b"%d" % i for i in range(3)]
        for i in range(3):
            sandbox.write_outside(f"{source}/{i}", data[i])
        sandbox.write_outside(f"{source}/key", SECRET + b" %d" % n)
        record(sandbox, f"cat {source}/0 > a{n}", f"cat {source}/key > key{n}")
        next_pack(sandbox.store)
        record(sandbox, f"cat {source}/1 > a{n}")
        next_pack(sandbox.store)
        lost = segments(sandbox.store)
        record(sandbox, f"cat {source}/2 > a{n}", f"rm key{n}")
        push(shfs)
        sandbox.run("rm", "-rf", path, cwd="/")
        there("clone", "--metadata", "--name", "r", kind.url)
        lose(path, lost)
        there("reindex")
        found, before = lists(path), len(outside)
        outside = [base for entries in found.values() for _, base in entries if base and base not in [i for i, _ in entries]]
        if len(outside) == before + 2:
            break
    else:
        raise AssertionError(found)
    there("forget", "--yes", f"{sandbox.project}/key{n}")
    push(there)
    assert has_anywhere(kind, SECRET + b" %d" % n) == []
    assert there("remote", "check", "--read-data").stdout.endswith("no flaws\n")
    new = in_store(sandbox, f"{sandbox.home}/new")
    new("clone", kind.url)
    for store in new, there:
        for i in 1, 2:
            assert store("cat", f"{sandbox.project}/a{n}@{i}").stdout_bytes == data[i]
        assert store("check", "--read-data").stdout.endswith("no flaws\n")


@pytest.mark.users("ordinary")
@pytest.mark.parametrize("kind", ["directory"], indirect=True)
def test_a_base_that_was_pulled(machines, sandbox, shfs, kind):
    """A version is stored as a delta of what came from another machine, and the record that had it here is forgotten."""
    source = f"{sandbox.home}/source"
    sandbox.mkdir(source)
    for n in range(5):  # on a busy machine it may be stored whole
        common = random.Random(n).randbytes(200_000)
        for i in range(2):
            sandbox.write_outside(f"{source}/{i}", b"%d" % i + common)
        machines.go("hostb")
        record(sandbox, f"cat {source}/0 > b{n}")
        if not n:
            shfs("remote", "add", "b", f"{sandbox.home}/remote-of-b")
        push(shfs)
        machines.go("hosta")
        if not n:
            shfs("remote", "add", "b", f"{sandbox.home}/remote-of-b")
            shfs("remote", "add", "r", kind.url)
        pull(shfs, "b")
        record(sandbox, f"cat {source}/0 > a{n}", f"cat {source}/1 > a{n}")
        sizes = sum(os.path.getsize(f"{sandbox.store}/objects/packs/{name}") for name in packs(sandbox.store) if "pulled" not in name)
        if sizes < 200_000 * n + 100_000:
            break
    else:
        raise AssertionError(sizes)
    shfs("forget", "--yes", f"{sandbox.project}/a{n}@1")
    push(shfs, "r")
    new = in_store(sandbox, f"{sandbox.home}/new")
    new("clone", kind.url)
    with open(f"{source}/1", "rb") as file:
        data = file.read()
    for store in shfs, new:
        last = json.loads(store("log", "--json", f"{sandbox.project}/a{n}").stdout)["versions"][0]["n"]
        assert store("cat", f"{sandbox.project}/a{n}@{last}").stdout_bytes == data
        assert store("check", "--read-data").stdout.endswith("no flaws\n")


@pytest.mark.users("ordinary")
@pytest.mark.parametrize("kind", ["directory"], indirect=True)
def test_a_prune_while_a_push_begins(sandbox, shfs, kind):
    """Between its look at what was removed and its gate: the push looks again."""
    there, last, n = in_two_packs(sandbox, shfs, kind)
    fifo, path = f"{sandbox.home}/fifo", f"{sandbox.home}/there"
    sandbox.run("mkfifo", fifo, cwd="/")
    there("cat", f"{sandbox.project}/a@1")
    process = sandbox.popen(["shfs", "push"], cwd="/", env={"SHFS_STORE": path, "SHFS_PUSH_WAITS": fifo}, stdout=subprocess.DEVNULL)
    with open(fifo, "wb"):
        there("prune", "--keep-last", "1", f"{sandbox.project}/a")
        os.unlink(fifo)  # the next look does not wait
    assert process.wait(60) == 0
    new = in_store(sandbox, f"{sandbox.home}/new")
    new("clone", kind.url)
    for store in new, there:
        assert "pruned" in store("cat", f"{sandbox.project}/a@1", check=1).stderr
        assert store("cat", f"{sandbox.project}/a@{n}").stdout_bytes == last
        assert store("check", "--read-data").stdout.endswith("no flaws\n")


@pytest.mark.users("ordinary")
@pytest.mark.parametrize("damage", ["flipped", "gone"])
@pytest.mark.parametrize("healed", [False, True])
def test_forget_with_a_damaged_list_of_contents(sandbox, shfs, kind, damage, healed):
    """What was forgotten is found by the list on the remote, and so removed there; pull --metadata brings the list, too."""
    record(sandbox, "seq 1000 > a", f"echo {SECRET.decode()} > key", "seq 2000 > b")
    shfs("remote", "add", "r", kind.url)
    push(shfs)
    path = f"{sandbox.home}/there"
    there = in_store(sandbox, path)
    there("clone", "--metadata", "--name", "r", kind.url)
    there("forget", "--grep", SECRET.decode(), "--yes")
    left, before = away(there), lists(path)
    for name in before:
        with open(name, "rb") as file:
            data = bytearray(file.read())
        os.unlink(name)
        if damage == "flipped":
            data[len(data) // 2] ^= 1
            sandbox.write_outside(name, bytes(data), 0o600)
    if healed:
        there("pull", "--metadata")
        assert lists(path) == before and away(there) == left
    push(there)
    assert has_anywhere(kind, SECRET) == []
    new = in_store(sandbox, f"{sandbox.home}/new")
    new("clone", kind.url)
    for store in new, there:
        for name in "a", "b":
            assert store("cat", f"{sandbox.project}/{name}@1").stdout == shfs("cat", f"{sandbox.project}/{name}@1").stdout
        assert store("check", "--read-data").stdout.endswith("no flaws\n")


@pytest.mark.users("ordinary")
def test_of_another_machine(machines, sandbox, shfs, kind):
    """pull --metadata; then what is read; then all the rest; and it is not pushed from here."""
    machines.go("hostb")
    truth = make(sandbox, 3)
    shfs("remote", "add", "lab", kind.url)
    push(shfs)
    machines.go("hosta")
    record(sandbox, "echo mine > mine")
    shfs("remote", "add", "lab", kind.url)
    said = pull(shfs, "--metadata")
    assert said["away"] and not said["objects"] and not said["missing"]
    assert pull(shfs, "--metadata")["stores_new"] == 0
    assert away(shfs) == len(set(truth.values()))
    first, *rest = sorted(truth)

    def hers(version, **options):
        return shfs("cat", f"hostb:{sandbox.project}/{version[0]}@{version[1]}", **options)

    assert hers(first).stdout_bytes == truth[first]
    pushed = push(shfs)
    assert not pushed["elsewhere"]
    # more from there: what was away stays so
    machines.go("hostb")
    record(sandbox, "echo late > late")
    push(shfs)
    machines.go("hosta")
    moved = hers(rest[0], check=False)
    assert moved.stdout_bytes == truth[rest[0]] if not moved.status else "shfs pull --metadata lab" in moved.stderr
    pull(shfs, "--metadata")
    assert hers(("late", 1)).stdout == "late\n"
    for version in rest[:3]:
        assert hers(version).stdout_bytes == truth[version]
    pull(shfs)
    assert away(shfs) == 0
    for version, data in truth.items():
        assert hers(version, env={FAULTS: "fail-from=1"}).stdout_bytes == data
    assert shfs("check", "--read-data").stdout.endswith("no flaws\n")


@pytest.mark.users("ordinary")
def test_two_remotes(truth, there, sandbox, shfs, kind):
    """What only one remote has is not claimed to be at the other one, and comes there later."""
    second = f"{sandbox.home}/second"
    there("remote", "add", "s", second)
    first = sorted(truth)[0]
    cat(there, sandbox, first)
    assert push(there, "s")["elsewhere"] == away(there)
    new = in_store(sandbox, f"{sandbox.home}/new")
    new("clone", second)
    assert cat(new, sandbox, first).stdout_bytes == truth[first]
    there("pull", "r")
    assert away(there) == 0 and not push(there, "s")["elsewhere"]
    sandbox.run("rm", "-rf", f"{sandbox.home}/new", cwd="/")
    new("clone", second)
    for version, data in truth.items():
        assert cat(new, sandbox, version).stdout_bytes == data
    push(there, "r")
    assert shfs("remote", "check", "--read-data").stdout.endswith("no flaws\n")


@pytest.mark.users("ordinary")
@pytest.mark.parametrize("damage", ["flipped", "gone"])
def test_a_damaged_list(truth, there, sandbox, shfs, kind, damage):
    """Nothing counts as forgotten because the list of what is only there is damaged: so nothing is removed there."""
    path, blobs = f"{sandbox.home}/there/away", kind.blobs()
    with open(path, "rb") as file:
        data = bytearray(file.read())
    os.unlink(path)
    if damage == "flipped":
        data[len(data) // 2] ^= 1
        sandbox.write_outside(path, bytes(data), 0o600)
        said = json.loads(there("check", "--json", check=False).stdout)
        assert [flaw["kind"] for flaw in said["flaws"]] == ["away"] and not said["lost"] and said["away"]
    assert "shfs pull --metadata makes it anew" in there("push", check=4).stderr
    assert kind.blobs() == blobs
    there("pull", "--metadata")
    assert away(there) == len(set(truth.values()))
    push(there)
    for version, data in truth.items():
        assert cat(there, sandbox, version).stdout_bytes == data


@pytest.mark.users("ordinary")
def test_a_remote_that_is_removed(truth, there, sandbox, shfs, kind):
    """Its contents are lost from here, and found again when it is added again."""
    assert "only there" in there("remote", "remove", "r").stderr
    assert "missing" in cat(there, sandbox, sorted(truth)[0], check=1).stderr
    there("remote", "add", "r", kind.url)
    there("pull", "--metadata", "r")
    assert away(there) == len(set(truth.values()))
    for version, data in truth.items():
        assert cat(there, sandbox, version).stdout_bytes == data


@pytest.mark.users("ordinary")
@pytest.mark.parametrize("seed", seeds(1, 100))
def test_killed_while_records_come(truth, sandbox, shfs, kind, seed):
    """A pull or clone without contents that is killed at any request, and called again, has all; so has one that then goes on with contents."""
    path = f"{sandbox.home}/taken"
    there = in_store(sandbox, path)
    chance = random.Random(f"{seed}")
    for command in ("clone", "--metadata", "--name", "r", kind.url), ("pull", "--metadata", "r"):
        for n in steps(seed):
            sandbox.run("rm", "-rf", path, cwd="/")
            if command[0] == "pull":
                there("remote", "add", "r", kind.url)
            killed = there(*command, env={FAULTS: f"kill={n}"}, check=False).status
            assert killed in (0, -9), killed
            again = [word for word in command if word != "--metadata" or chance.random() < 0.7]
            if killed:
                there(*again)
            assert away(there) in (0, len(set(truth.values())))
            for version in chance.sample(sorted(truth), 3):
                assert cat(there, sandbox, version).stdout_bytes == truth[version], (command, n)
            if not killed:
                break
        assert n > 3


@pytest.mark.users("ordinary")
@pytest.mark.parametrize("seed", seeds(1, 100))
def test_a_push_that_is_killed(sandbox, shfs, kind, seed):
    """From a store whose contents are only there, of which some were forgotten and others pruned: nothing else is lost."""
    truth = make(sandbox, f"push {seed}", steps=6)
    record(sandbox, f"echo {SECRET.decode()} > key")
    shfs("remote", "add", "r", kind.url)
    push(shfs)
    path = f"{sandbox.home}/there"
    there = in_store(sandbox, path)
    there("clone", "--metadata", "--name", "r", kind.url)
    there("forget", "--grep", SECRET.decode(), "--yes")
    name = max(truth, key=lambda version: version[1])[0]
    cat(there, sandbox, (name, 1))
    there("prune", "--keep-last", "1", f"{sandbox.project}/{name}")
    saved = Saved(sandbox, kind, path)
    copy = in_store(sandbox, f"{sandbox.home}/copy")
    sandbox.run("cp", "-a", path, f"{sandbox.home}/copy", cwd="/")
    pruned = [version for version in truth if "pruned" in cat(copy, sandbox, version, check=False).stderr]
    assert (name, 1) in pruned and len(pruned) < len(truth)
    for n in steps(seed):
        saved.back()
        killed = there("push", env={FAULTS: f"kill={n}"}, check=False).status
        assert killed in (0, -9), killed
        push(there)
        assert has_anywhere(kind, SECRET) == []
        said = json.loads(there("remote", "check", "--read-data", "--json").stdout)
        assert said["ok"] and not said["unneeded"], (n, said)
        sandbox.run("rm", "-rf", f"{sandbox.home}/new", cwd="/")
        new = in_store(sandbox, f"{sandbox.home}/new")
        new("clone", kind.url)
        assert new("check", "--read-data").stdout.endswith("no flaws\n")
        for store in new, there:
            for version, data in truth.items():
                if version in pruned:
                    assert "pruned" in cat(store, sandbox, version, check=1).stderr
                else:
                    assert cat(store, sandbox, version).stdout_bytes == data, (n, version)
        if not killed:
            break
    assert n > 5
