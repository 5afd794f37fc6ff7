# SPDX-License-Identifier: MIT
"""Many small files at once, whose contents are compressed together: each version is what its close left, before
and after prune, forget, damage and its repair, and when the mount is killed in the middle. The model has all of it."""

import json
import os
import random
import signal

import pytest

import harness
from harness import seeds
from test_check import check, flaws, lost, read
from test_forget import Packs, places

pytestmark = pytest.mark.users("ordinary")
SECRET = "xyzzy-31337-of-nobody"

# {name: content} on its standard input: each is written and closed, and told.
WRITER = """
import json, os, sys
for name, text in json.load(sys.stdin):
    os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
    try:
        with open(name, "w") as file:
            file.write(text)
    except OSError:  # the mount is being killed
        continue
    print(json.dumps([name, text]), flush=True)
"""


def text_of(rng, n, secret=False):
    """Text that has much in common with other files', some of it hard to compress."""
    kinds = [
        lambda: "".join(f"#define NAME_{rng.randrange(400)} {rng.randrange(99999)}\n" for _ in range(rng.randrange(1, 200))),
        lambda: rng.randbytes(rng.randrange(1, 3000)).hex(),
        lambda: "x" * rng.randrange(1, 60),
    ]
    return f"file {n}\n" + (SECRET if secret else "") + rng.choice(kinds)()


def plan(rng, count):
    """[(name, content)]: new files, copies of what was before, and files that are written again."""
    steps = []
    for n in range(count):
        name = f"d{rng.randrange(9)}/f{n}"
        if steps and rng.random() < 0.1:
            steps.append((name, rng.choice(steps)[1]))
        elif steps and rng.random() < 0.1:
            steps.append((rng.choice(steps)[0], text_of(rng, n)))
        else:
            steps.append((name, text_of(rng, n, secret=name.startswith("d3/"))))
    return steps


def write(sandbox, steps, check=True):
    done = sandbox.run("python3", "-c", WRITER, input=json.dumps(steps).encode(), check=check, timeout=120)
    return [tuple(json.loads(line)) for line in done.stdout.splitlines() if line.endswith("]")]


def model(steps):
    """{name: its contents}: a version for each close that left another content."""
    versions = {}
    for name, text in steps:
        of = versions.setdefault(name, [])
        if not of or of[-1] != text:
            of.append(text)
    return versions


def kept_versions(sandbox, names):
    """{name@n: its content, or None}, of all versions that the journal has."""
    env = {"SHFS": os.path.join(harness.PREFIX, "bin/shfs")}
    rows = json.loads(sandbox.shfs("select", "SELECT path, n FROM v_version").stdout)["rows"]
    found = [(os.path.relpath(path, sandbox.project), n) for path, n in rows]
    found = sorted(version for version in found if version[0] in names)
    top = sandbox.home
    script = f'i=0; for v; do "$SHFS" cat "$v" > {top}/kept-$i 2>/dev/null && echo 0 || echo 1; i=$((i + 1)); done'
    done = sandbox.run("sh", "-c", script, "sh", *(f"{name}@{n}" for name, n in found), env=env, timeout=300)
    states = done.stdout.split()
    return {(name, n): read(f"{top}/kept-{i}").decode() if states[i] == "0" else None for i, (name, n) in enumerate(found)}


def expected(steps):
    return {(name, n): text for name, texts in model(steps).items() for n, text in enumerate(texts, 1)}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", seeds(1, 20))
def test_versions(sandbox, seed):
    """Read back; and again after prune and forget, of which nothing is left in a frame that stays."""
    rng = random.Random(seed)
    steps = plan(rng, 100)
    mount = sandbox.mount()
    write(sandbox, steps)
    sandbox.shfs("sync")
    right, names = expected(steps), sorted(model(steps))
    assert kept_versions(sandbox, names) == right
    assert any(len(frame[3]) > 20 for frame in Packs(sandbox.store).solid), "they are compressed together"
    again = plan(rng, 40)
    write(sandbox, again)
    sandbox.shfs("sync")
    mount.unmount()
    right, names = expected(steps + again), sorted(model(steps + again))
    assert kept_versions(sandbox, names) == right
    assert check(sandbox, "--read-data")["ok"]

    assert places(sandbox.store, SECRET.encode())
    sandbox.shfs("prune", "--keep-last", "1", "--yes", "d0", "d1", "d2", check=False)
    gone = [name for name in names if name.startswith("d3/") or SECRET in "".join(model(steps + again)[name])]
    sandbox.shfs("forget", "--yes", *gone)
    names = [name for name in names if name not in gone]
    right = {version: text for version, text in right.items() if version[0] not in gone}
    assert not places(sandbox.store, SECRET.encode())
    assert {v: text for v, text in kept_versions(sandbox, names).items() if text is not None}.items() <= right.items()
    found = check(sandbox, "--read-data")
    assert found["ok"] and not lost(found)
    newest = {name: n for name, n in sorted(right)}
    kept = kept_versions(sandbox, names)
    assert all(kept[version] == right[version] for version in newest.items())


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", seeds(1, 20))
def test_damage_is_confined(sandbox, seed):
    """One byte of a frame: its contents are lost, which is told, and no other one; repair puts the frame aside. The
    same contents heal it."""
    rng = random.Random(seed)
    steps = [(f"f{n}", text_of(rng, n)) for n in range(150 if harness.ALL else 90)]
    mount = sandbox.mount()
    for part in steps[: len(steps) // 2], steps[len(steps) // 2 :]:
        write(sandbox, part)
        sandbox.shfs("sync")
    mount.unmount()
    right, names = expected(steps), sorted(model(steps))
    packs = Packs(sandbox.store)
    assert len(packs.solid) > 1
    path, at, length, members = rng.choice(packs.solid)
    hit = {packs.frames[name][1].decode() for name in members}
    data = bytearray(read(path))
    data[at + rng.randrange(length)] ^= 1 << rng.randrange(8)
    sandbox.write_outside(path, bytes(data), 0o600)

    lost_now = {f"{name}@{n}" for (name, n), text in right.items() if text in hit}
    found = check(sandbox, "--read-data", status=1)
    assert set(lost(found)) == lost_now
    [flaw] = [f for f in flaws(found) if f["kind"] == "frame"]
    assert (flaw["offset"], flaw["bytes"]) == (at, length)
    staying = {version: None if text in hit else text for version, text in right.items()}
    assert kept_versions(sandbox, names) == staying
    done = json.loads(sandbox.shfs("repair", "--json").stdout)
    assert set(lost(done)) == lost_now
    assert kept_versions(sandbox, names) == staying
    found = check(sandbox, "--read-data")
    assert found["ok"] and not lost(found)

    mount = sandbox.mount()
    write(sandbox, [(f"again/{name}", text) for name, text in steps])
    mount.unmount()
    assert kept_versions(sandbox, names) == right
    assert not check(sandbox, "--read-data")["lost"]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", seeds(1, 20))
def test_killed_in_a_commit(sandbox, seed):
    """Each version that is recorded is what its close left, or its content is lost with what was not committed; what
    was written before a sync is there."""
    sandbox.allow_exit(-signal.SIGKILL)
    sandbox.allow_log("ended")
    rng = random.Random(seed)
    steps = [(f"f{n}", text_of(rng, n)) for n in range(200)]
    mount = sandbox.mount()
    mount.expected_status = -signal.SIGKILL
    top = sandbox.project
    program = sandbox.popen(
        ["python3", "-c", WRITER], cwd=top, stdin=-1, stdout=open(f"{sandbox.home}/told", "wb")
    )
    program.stdin.write(json.dumps(steps).encode())
    program.stdin.close()
    moment = rng.randrange(20, 150)
    harness.wait_until(lambda: read(f"{sandbox.home}/told").count(b"\n") > moment, "the program to write")
    synced = [json.loads(line) for line in read(f"{sandbox.home}/told").splitlines()[:moment]]
    sandbox.shfs("sync")
    os.kill(mount.process.pid, signal.SIGKILL)
    mount.wait()
    program.wait(60)
    harness.wait_until(lambda: not harness.mounts_below(top), "the guardian")
    found = kept_versions(sandbox, [name for name, _ in steps])
    texts = dict(steps)
    assert all(text in (texts[name], None) for (name, _), text in found.items())
    assert all(found[name, 1] == text for name, text in synced)
    assert check(sandbox, "--read-data", status=0)["ok"]
