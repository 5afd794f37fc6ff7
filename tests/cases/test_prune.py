# SPDX-License-Identifier: MIT
"""Prune and gc: what goes, what stays, how it is shown; beside writers, and killed at any instant."""
import glob
import json
import os
import random
import re
import signal
import subprocess
import tempfile
import time

import harness
import pytest
from harness import wait_until
from test_capture import rows
from test_daemon import kill_daemon
from test_faults import clock  # a fixture
from test_mount_cli import mounted_cli  # another

assert clock and mounted_cli

SHFS = os.path.join(harness.PREFIX, "bin/shfs")
ROUNDS = int(os.environ.get("SHFS_PRUNE_ROUNDS", "6"))


def content(name, n):
    """What a version holds can be told from its first line."""
    rng = random.Random(f"{name} {n}")
    lines = [f"{name} {n}\n"]
    if n % 5 == 0:  # not to be packed well, and sometimes loose
        lines += [rng.randbytes(300_000 * (1 + n % 10)).hex() + "\n"] if n % 20 == 0 else [rng.randbytes(3000).hex() + "\n"]
    lines += [f"line {i} of {n // 7 if i % 9 else n}\n" for i in range(400)]
    return "".join(lines).encode()


def is_right(data):
    match = re.match(rb"(\w+) (\d+)\n", data)
    return bool(match) and data == content(match[1].decode(), int(match[2]))


def versions(sandbox, name):
    """All, the newest first."""
    return json.loads(sandbox.shfs("log", "--json", f"{sandbox.project}/{name}", cwd="/", timeout=60 + ROUNDS).stdout)["versions"]


def sealed_segment(sandbox):
    """Of a mount that has ended."""
    pattern = f"{sandbox.store}/journal/*/fuse-*.seg.zst"
    wait_until(lambda: glob.glob(pattern), "the segment to be sealed")
    [segment] = glob.glob(pattern)
    return segment


def states(sandbox, name):
    """By their number: is it archived?"""
    return {v["n"]: v["not_archived"] or "archived" for v in versions(sandbox, name)}


@pytest.fixture
def six(sandbox, mounted_cli, shfs):
    """A file with six versions, below a live mount."""
    for n in range(6):
        sandbox.write("file", content("file", n))
    sandbox.write("other", content("other", 5))
    sandbox.write("other", content("other", 6))
    shfs("sync")
    return mounted_cli


def test_keep_last(sandbox, shfs, six):
    path = f"{six}/file"
    dry = json.loads(shfs("prune", "--keep-last", "2", "--dry-run", "--json").stdout)
    assert (dry["done"], dry["versions"], dry["objects"]) == (False, 4, 4) and dry["bytes"] > 0
    assert "file@1" in shfs("prune", "--keep-last=2", "-n").stdout
    assert set(states(sandbox, "file").values()) == {"archived"}

    done = json.loads(shfs("prune", "--keep-last", "2", "--json").stdout)
    assert done["done"] and done["objects"] == 4 and done["store_before"] > 0
    assert states(sandbox, "file") == {1: "pruned", 2: "pruned", 3: "pruned", 4: "pruned", 5: "archived", 6: "archived"}
    assert set(states(sandbox, "other").values()) == {"archived"}
    for n in (5, 6):
        assert shfs("cat", f"{path}@{n}").stdout_bytes == content("file", n - 1)
    for command in ("cat", f"{path}@1"), ("diff", f"{path}@1", f"{path}@6"), ("restore", "--force", f"{path}@2"):
        result = shfs(*command, check=False)
        assert result.status in (1, 2) and "is not archived: pruned" in result.stderr, result
    assert "not archived: pruned" in shfs("log", path).stdout
    assert json.loads(shfs("prune", "--keep-last", "2", "--json").stdout)["objects"] == 0
    assert "the store takes " in shfs("prune", "--keep-last", "2").stdout, "and not that it took the same"
    shfs("check", "--read-data")  # pruned is not lost

    # the mount goes on: what comes again is there again, and what is new leans on nothing that is gone
    sandbox.write("file", content("file", 1))
    sandbox.write("file", content("file", 7))
    shfs("sync")
    now = states(sandbox, "file")
    assert now[2] == now[7] == now[8] == "archived" and now[1] == "pruned"
    assert shfs("cat", f"{path}@2").stdout_bytes == content("file", 1)
    assert shfs("cat", f"{path}@8").stdout_bytes == content("file", 7)
    shfs("reindex")
    assert states(sandbox, "file") == now


@pytest.mark.users("ordinary")
def test_what_is_meant(sandbox, shfs, six):
    def would(*options):
        return json.loads(shfs("prune", "--dry-run", "--json", *options).stdout)["versions"]

    assert would(f"{six}/other") == 1 and would(six) == 6
    assert would("--name", "oth*") == 1
    assert would("--older-than", "1h") == 0 and would("--older-than", "now") == 6
    assert would("--keep-within", "1h") == 0
    assert would("--keep-daily", "3") == 6 - 0 and would("--keep-last", "3") == 3
    assert would("--larger-than", "1K") == 6 and would("--larger-than", "1G") == 0
    assert would(f"{six}/other", "--also-newest") == 2
    assert would("--max-size", "1G") == 0 and would("--max-size", "1K") == 6
    sandbox.run("rm", "other")
    shfs("sync")
    assert would(f"{six}/other") == 2, "of what is there the newest stays"
    assert "prune what?" in shfs("prune", check=2).stderr
    assert "wants a number" in shfs("prune", "--keep-last", "x", check=2).stderr
    assert "wants a size" in shfs("prune", "--max-size", "0", check=2).stderr
    assert shfs("prune", f"{six}/none", check=3)


def would_prune(shfs, *options):
    """By their paths below the project: the numbers of the versions that would go."""
    shown = {}
    for line in shfs("prune", "--dry-run", *options).stdout.splitlines():
        if match := re.search(r"([\w.]+)@(\d+)", line):
            shown.setdefault(match[1], []).append(int(match[2]))
    return shown


@pytest.mark.users("ordinary")
def test_saved_by_rename(sandbox, shfs, mounted_cli):
    """The temporary names are no files of their own: what was saved goes as a version of the file."""
    path = f"{mounted_cli}/c.yaml"
    sandbox.write("c.yaml", "value: 0\n")
    for n in range(1, 7):
        sandbox.run("sed", "-i", f"s/.*/value: {n}/", "c.yaml")
    sandbox.write("draft.tmp", "never renamed\n")
    shfs("sync")

    def objects(*options):
        return json.loads(shfs("prune", "--json", *options).stdout)["objects"]

    assert objects("--dry-run", "--keep-last", "1") == 6
    assert objects("--dry-run", "--older-than", "0s", path) == 6
    assert objects("--dry-run", "--keep-yearly", "1", path) == 6
    assert objects("--dry-run", "--max-size", "1K") == 6
    assert objects("--dry-run", "--keep-last", "3", "--max-size", "1K") == 4
    assert objects("--dry-run", "--keep-within", "1h") == 0
    assert objects("--dry-run", "--keep-last", "3") == 4
    assert objects("--dry-run", "--older-than", "0s", f"{mounted_cli}/draft.tmp") == 0, "it is there"
    shown = would_prune(shfs, "--keep-last", "3")
    assert shown["c.yaml"] == [1, 2, 3, 4] and "draft.tmp" not in shown

    assert objects("--keep-last", "3") == 4
    assert states(sandbox, "c.yaml") == {n: "pruned" if n <= 4 else "archived" for n in range(1, 8)}
    assert objects("--older-than", "0s", path) == 2
    assert states(sandbox, "c.yaml")[7] == "archived" and shfs("cat", f"{path}@7").stdout == "value: 6\n"
    sandbox.run("rm", "draft.tmp")
    shfs("sync")
    assert objects("--keep-last", "1") == 0, "one that was not renamed has its last kept"
    assert objects("--dry-run", "--older-than", "0s", f"{mounted_cli}/draft.tmp") == 1
    assert shfs("cat", f"{mounted_cli}/draft.tmp@1").stdout == "never renamed\n"


@pytest.mark.users("ordinary")
def test_renamed_on(sandbox, shfs, mounted_cli):
    """From name to name, also onto what is there and back: the last name says what goes."""
    for n in range(3):
        for name, to in ("a", "b"), ("b", "c"):
            if name == "a":
                sandbox.write("a", content("a", n))
            sandbox.run("mv", name, to)
    shfs("sync")
    assert would_prune(shfs, "--keep-last", "1") == {"a": [1, 2], "b": [1, 2], "c": [1, 2]}
    assert would_prune(shfs, "--older-than", "0s", f"{mounted_cli}/c") == {"a": [1, 2], "b": [1, 2], "c": [1, 2]}
    assert not would_prune(shfs, "--older-than", "0s", f"{mounted_cli}/a"), "c is not meant"

    sandbox.write("there", content("there", 1))
    sandbox.run("mv", "there", "away")
    sandbox.run("mv", "away", "there")
    sandbox.run("ln", "there", "link")
    shfs("sync")
    shfs("prune", "--older-than", "0s")
    assert states(sandbox, "c") == {1: "pruned", 2: "pruned", 3: "archived"}
    assert set(states(sandbox, "there").values()) == {"archived"}
    assert shfs("cat", f"{mounted_cli}/there@{{now}}", check=False).stdout_bytes == content("there", 1)
    sandbox.run("rm", "link", "there")
    shfs("sync")
    shfs("prune", "--keep-last", "1")
    assert set(states(sandbox, "link").values()) == {"archived"}

    # a file that is there again has its own past, whatever becomes of its backup
    for n in range(3):
        if n:
            sandbox.run("mv", "doc", "doc.bak")
        sandbox.write("doc", content("doc", n))
    sandbox.run("rm", "doc.bak")
    shfs("sync")
    assert not would_prune(shfs, "--name", "*.bak", "--older-than", "0s")
    assert would_prune(shfs, "--keep-last", "1") == {"doc": [1], "doc.bak": [1]}


PERIODS = {"hourly": "%Y-%m-%d %H", "daily": "%Y-%m-%d", "weekly": "%G-%V", "monthly": "%Y-%m", "yearly": "%Y"}


@pytest.mark.users("ordinary")
def test_periods(clock, sandbox, shfs, mount):
    """Of a history of four years: the newest of each of the last hours, days, weeks, months and years that have one."""
    sandbox.env["TZ"] = "UTC"
    mounted, now, rng = mount(), time.time(), random.Random(5)
    ago = sorted((rng.choice([1, 24, 24 * 30, 24 * 365 * 4]) * 3600 * rng.random() for _ in range(60)), reverse=True)
    for n, seconds in enumerate(ago):
        clock[0] = -int(seconds)
        sandbox.write("file", b"%d" % n)
    clock[0] = 0
    mounted.unmount()
    times = {n: t // 10**9 for n, t in rows(sandbox, f"SELECT n, time_ns FROM v_version WHERE path = '{sandbox.project}/file'")}
    assert len(times) == len(ago) and all(abs(now - times[n + 1] - seconds) < 60 for n, seconds in enumerate(ago))

    def kept(**policy):
        """As restic has it."""
        found = {len(times)}  # is there
        for period, most in policy.items():
            newest = {}
            for n in sorted(times, reverse=True):
                newest.setdefault(time.strftime(PERIODS[period], time.gmtime(times[n])), n)
            found |= set(list(newest.values())[:most])
        return found

    def prune(*options, **policy):
        words = [word for period, most in policy.items() for word in (f"--keep-{period}", str(most))]
        return json.loads(shfs("prune", "--json", *options, *words, cwd="/").stdout)["versions"]

    policies = [{period: most} for period in PERIODS for most in (1, 2, 3, 1000)]
    last = {"hourly": 3, "daily": 4, "weekly": 3, "monthly": 5, "yearly": 2}
    for policy in *policies, last:
        assert prune("--dry-run", **policy) == len(times) - len(kept(**policy)), policy
    prune(**last)
    assert {n for n, state in states(sandbox, "file").items() if state == "archived"} == kept(**last)


@pytest.mark.users("ordinary")
def test_oldest_first(sandbox, shfs, six):
    """A quota: only as many as it takes, the oldest."""
    size = json.loads(shfs("prune", "--max-size", "1G", "--json").stdout)["store_before"]
    for n in range(4):
        sandbox.write("big", os.urandom(400_000))
    shfs("sync")
    done = json.loads(shfs("prune", "--max-size", str(size + 1_000_000), "--json").stdout)
    assert done["store_after"] <= size + 1_000_000 < done["store_before"]
    now = states(sandbox, "big")
    assert now[4] == "archived" and now[1] == "pruned" and set(states(sandbox, "file").values()) >= {"archived"}
    order = [now[n] for n in sorted(now)]
    assert order == sorted(order, reverse=True), "the oldest go"
    assert "still larger than that" in shfs("prune", "--max-size", "1K", check=4).stderr


@pytest.mark.users("ordinary")
def test_gc(sandbox, shfs, six):
    """What no record names goes, while another mount records; and nothing where the journal may lack names."""
    assert "0 objects" in shfs("gc").stdout
    shfs("umount", six)
    segment = sealed_segment(sandbox)
    sandbox.mkdir(f"{six}/second")
    shfs("mount", f"{six}/second")
    sandbox.write("second/kept", content("kept", 3))
    shfs("sync")
    with open(segment, "rb") as file:
        kept = file.read()
    sandbox.run("sh", "-c", f"echo garbage > {segment}.x; mv {segment} {sandbox.home}/segment; mv {segment}.x {segment}")
    assert "damaged" in shfs("gc", check=4).stderr and "damaged" in shfs("prune", "--keep-last", "1", check=4).stderr
    dry = json.loads(shfs("gc", "--dry-run", "--despite-damage", "--json").stdout)
    assert not dry["done"] and dry["objects"] == 8
    assert json.loads(shfs("gc", "--despite-damage", "--json").stdout)["objects"] == 8
    assert "0 objects" in shfs("gc", "--despite-damage").stdout
    assert shfs("cat", f"{six}/second/kept").stdout_bytes == content("kept", 3)
    assert len(kept) > 0
    sandbox.run("mv", f"{sandbox.home}/segment", segment)
    shfs("reindex")
    # not pruned: lost
    assert "missing" in shfs("cat", f"{six}/file@1", check=1).stderr
    shfs("umount", f"{six}/second")


@pytest.mark.users("ordinary")
def test_gc_after_a_repair(sandbox, shfs, six):
    """What was set aside may be all that names a content: it stays until the user has done with that."""
    shfs("umount", six)
    segment = sealed_segment(sandbox)
    sandbox.run("sh", "-c", f"cp {segment} {sandbox.home}/right; echo garbage > {segment}.x; mv {segment}.x {segment}")
    assert json.loads(shfs("repair", "--json").stdout)["segments_unreadable"] == 1
    for options in [], ["--dry-run"]:
        assert "set aside" in shfs("gc", *options, check=4).stderr
    sandbox.run("cp", f"{sandbox.home}/right", segment)
    shfs("reindex")
    assert [shfs("cat", f"{six}/file@{n}").stdout_bytes for n in range(1, 7)] == [content("file", n) for n in range(6)]
    os.unlink(segment)
    [place] = glob.glob(f"{sandbox.store}/quarantine/*")
    os.chmod(place, 0)
    assert "Permission denied" in shfs("gc", check=1).stderr
    os.chmod(place, 0o700)
    sandbox.run("rm", "-r", place)
    os.makedirs(f"{place}/journal/host")  # a hook log names no contents
    with open(f"{place}/journal/host/shell-1-2-3.log@0", "wb"):
        pass
    assert json.loads(shfs("gc", "--json").stdout)["objects"] == 8


@pytest.mark.users("ordinary")
def test_a_damaged_list(sandbox, shfs, six):
    """Of what was pruned: a flipped bit is found, nothing is pruned then, and at most one of it is told as lost."""
    shfs("prune", "--keep-last", "3")
    shfs("umount", six)
    path, before = f"{sandbox.store}/pruned", states(sandbox, "file")
    with open(path, "rb") as file:
        right = file.read()
    chance = random.Random(5)
    for at in [0, 7, *chance.sample(range(8, len(right) - 8), 8), len(right) - 1]:
        data = bytearray(right)
        data[at] ^= 1 << chance.randrange(8)
        sandbox.write_outside(path, bytes(data), 0o600)
        found = json.loads(shfs("check", "--json", check=1).stdout)
        assert [f["file"] for f in found["flaws"] if f["kind"] == "pruned"] == ["pruned"], at
        refused = shfs("prune", "--keep-last", "1", check=4), shfs("export", "tar", "-o", f"{sandbox.home}/x.tar", check=1)
        assert all("shfs repair" in said.stderr for said in refused) and not os.path.exists(f"{sandbox.home}/x.tar")
        shfs("repair")
        found = json.loads(shfs("check", "--read-data", "--json").stdout)
        inside = 8 <= at < len(right) - 8
        assert [f["kind"] for f in found["flaws"]] == ["missing"] * inside, "a known loss"
        changed = {n for n, state in states(sandbox, "file").items() if state != before[n]}
        assert len(changed) == inside, at
        sandbox.run("rm", "-r", f"{sandbox.store}/state/damage")
    for cut in 0, 5, 8, 30, len(right) - 1:
        sandbox.write_outside(path, right[:cut], 0o600)
        assert json.loads(shfs("check", "--json", check=1).stdout)["flaws"], cut
    sandbox.write_outside(path, right, 0o600)
    shfs("check", "--read-data")


# --- F37: beside writers and restores, killed at any instant ---

WRITER = r"""
import os, sys, random, time
sys.path.insert(0, sys.argv[1])
os.environ.setdefault("SHFS_TEST_BUILD", "")
import importlib.util
exec(open(sys.argv[2]).read())
name, n = sys.argv[3], int(sys.argv[4])
rng = random.Random(n)
while True:
    n += 1
    # contents come back, too: what was pruned a moment ago, and what other files hold
    data = content(rng.choice("abc"), rng.randrange(max(n - 40, 0), n + 1)) if rng.random() < 0.5 else content(name, n)
    with open(name + ".tmp" if n % 3 else name, "wb") as file:
        file.write(data)
    if n % 3:
        os.rename(name + ".tmp", name)
    time.sleep(0.02)
"""


@pytest.fixture
def load(sandbox, mounted_cli):
    """Writers of three files, till they are killed."""
    source = open(__file__).read()
    body = "import random\n" + source[source.index("def content(") : source.index("def is_right(")]
    where = os.path.join(sandbox.path, "writer-content.py")
    sandbox.write_outside(where, body)
    script = os.path.join(sandbox.path, "writer.py")
    sandbox.write_outside(script, WRITER)
    begun = []

    def start(n):
        for name in "abc":
            begun.append(sandbox.popen(["/usr/bin/python3", script, sandbox.path, where, name, n], stderr=subprocess.DEVNULL))

    def end():
        while begun:
            process = begun.pop()
            process.kill()
            process.wait()

    yield start, end
    end()


def check_all(sandbox, names="abc"):
    """Each version that is not said to be pruned is right; how many there are."""
    found = {"archived": 0, "pruned": 0}
    wrong = []
    for name in names:
        path = f"{sandbox.project}/{name}"
        all_versions = versions(sandbox, name)
        archived = [v for v in all_versions if not v["not_archived"]]
        found["pruned"] += sum(v["not_archived"] == "pruned" for v in all_versions)
        found["archived"] += len(archived)
        # all in one go, told apart by their sizes
        for at in range(0, len(archived), 50):
            some = archived[at : at + 50]
            done = sandbox.shfs("cat", *(f"{path}@{v['n']}" for v in some), cwd="/", check=False, timeout=120)
            if done.status:
                wrong.append(done.stderr)
                continue
            data = done.stdout_bytes
            for v in some:
                if not v["incomplete"] and v["size"] and not is_right(data[: v["size"]]):
                    wrong.append((name, v))
                data = data[v["size"] :]
    assert not wrong, f"{wrong[:5]}; {kept_store(sandbox)}"
    return found


def kept_store(sandbox):
    """Where a copy of a store with damaged contents is, and what a check says of them."""
    where = tempfile.mkdtemp(prefix="shfs-damaged.")
    subprocess.run(["cp", "-a", sandbox.store, f"{where}/store"], check=True)
    flaws = sandbox.shfs("check", "--read-data", cwd="/", check=False, timeout=120).stdout
    return f"the store is kept in {where}; check: {flaws}"


POLICIES = (["prune", "--keep-last", "3"], ["prune", "--keep-last", "20", "--larger-than", "5K"], ["prune", "--max-size", "2M"], ["gc"])


@pytest.mark.users("ordinary")
@pytest.mark.timeout(60 + 10 * ROUNDS)
def test_beside_writers(sandbox, shfs, mounted_cli, load):
    """SHFS_PRUNE_ROUNDS: of these every third is killed at any instant, every fifth kills the mount, too."""
    start, end = load
    rng = random.Random(int(os.environ.get("SHFS_PRUNE_SEED", time.time())))
    start(0)
    tried = {"done": 0, "busy": 0, "killed": 0, "mounts": 0, "restores": 0}
    sandbox.allow_exit(-signal.SIGKILL)
    sandbox.allow_log("ended")
    for n in range(ROUNDS):
        process = sandbox.popen([SHFS, *POLICIES[n % len(POLICIES)]], cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        if n % 3 == 2:
            time.sleep(rng.random() * 0.6)
            process.kill()
        restored = shfs("restore", "--to", f"{sandbox.home}/back-{n}", f"{mounted_cli}/{rng.choice('abc')}@{rng.choice(['1', '{now}'])}", check=False, cwd="/")
        assert restored.status in (0, 1, 3), restored
        if restored.status == 0:
            with open(f"{sandbox.home}/back-{n}", "rb") as file:
                assert is_right(file.read())
            tried["restores"] += 1
        elif restored.status == 1:
            assert "pruned" in restored.stderr, restored
        error = process.communicate(timeout=120)[1].decode()
        assert process.returncode in (0, 4, -signal.SIGKILL), error
        tried[{0: "done", 4: "busy", -signal.SIGKILL: "killed"}[process.returncode]] += 1
        if n % 5 == 4:
            kill_daemon(sandbox, mounted_cli)
            end()
            tried["mounts"] += 1
            if tried["mounts"] % 5 == 0:  # it does not come again any number of times, unless somebody asks
                shfs("umount", mounted_cli, cwd="/")
                shfs("mount", mounted_cli, cwd="/")
            start(100 * n)
    end()
    shfs("sync")
    tried.update(check_all(sandbox))
    assert tried["archived"] and tried["pruned"] and tried["done"]
    stored = json.loads(shfs("stats", "--store", "--json").stdout)
    assert stored["versions"] >= tried["archived"] and stored["files"] and stored["stored_bytes"] <= stored["content_bytes"] * 2
    assert "Files that take most" in shfs("stats", "--store").stdout
    shfs("umount", mounted_cli, cwd="/")
    # nothing of a collection that was killed is left for good
    shfs("prune", "--keep-last", "1", cwd="/")
    shfs("gc", cwd="/")
    assert json.loads(shfs("gc", "--dry-run", "--json", cwd="/").stdout)["objects"] == 0
    assert not glob.glob(f"{sandbox.store}/objects/packs/*.new")
    assert "is missing" not in shfs("check", "--read-data", check=False, cwd="/").stdout
    check_all(sandbox)
    print(tried)


@pytest.mark.users("ordinary")
@pytest.mark.timeout(180)
def test_killed_between_packs(sandbox, shfs, mounted_cli):
    """What was to go is pruned, though it is left as a delta of what is gone; and it is recorded if it comes again."""

    def write(*numbers):
        for n in numbers:
            sandbox.write("file", content("file", n))
        shfs("sync")

    sandbox.allow_exit(-signal.SIGKILL)
    write(*range(1, 10))
    shfs("prune", "--keep-last", "5", cwd="/")
    write(*range(11, 20))
    killed = 0
    for n in range(1, 20):
        strace = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=unlinkat", "-e", f"inject=unlinkat:signal=KILL:when={n}"]
        traced = {"ASAN_OPTIONS": sandbox.env["ASAN_OPTIONS"] + ":detect_leaks=0"}
        process = sandbox.popen([*strace, SHFS, "prune", "--keep-last", "2"], cwd="/", stdout=subprocess.DEVNULL, env=traced)
        if process.wait(60) == 0:
            break
        killed += 1
        check_all(sandbox, ["file"])
        shfs("gc", cwd="/")
        if n > 1:
            write(*range(11, 20), 100 + n)
            check_all(sandbox, ["file"])
    assert killed >= 4
    assert states(sandbox, "file")[1] == "pruned"
    assert "no flaws" in shfs("check", "--read-data", cwd="/").stdout


@pytest.mark.users("ordinary")
def test_quota(sandbox, shfs, project):
    """Held by itself."""
    sandbox.write_outside(f"{sandbox.home}/.config/shfs/config.ini", "[store]\nmax-size = 3M\n")
    shfs("mount", project)
    for n in range(12):
        sandbox.write("file", os.urandom(500_000))
    shfs("sync")
    assert "of at most 3.0 MiB" in shfs("status", check=False).stdout
    shfs("umount", project)  # the last round of the background ingest
    wait_until(lambda: "pruned" in states(sandbox, "file").values(), "the quota to be held", 40)
    wait_until(lambda: json.loads(shfs("status", "--json", check=False, cwd="/").stdout)["store"]["bytes"] <= 3 << 20, "room", 40)
    now = states(sandbox, "file")
    assert now[12] == "archived" and now[1] == "pruned"


@pytest.mark.users("ordinary")
def test_a_quota_that_is_set_later(sandbox, shfs, project):
    """The background ingest that runs takes it up."""
    shfs("mount", project)
    for n in range(12):
        sandbox.write("file", os.urandom(500_000))
    shfs("sync")
    assert "taken up by the background ingest" in shfs("config", "set", "store.max-size", "3M").stderr
    shfs("umount", project)  # its last round
    wait_until(lambda: "pruned" in states(sandbox, "file").values(), "the quota to be held", 40)
    assert states(sandbox, "file")[12] == "archived"


@pytest.mark.users("ordinary")
def test_a_quota_that_cannot_be_held(sandbox, shfs, project):
    """What is the newest stays, and status says that it is more than is allowed."""
    sandbox.write_outside(f"{sandbox.home}/.config/shfs/config.ini", "[store]\nmax-size = 1M\n")
    shfs("mount", project)
    for n in range(4):
        sandbox.write(f"file{n}", os.urandom(500_000))
    shfs("sync")
    assert "takes more than [store] max-size" in shfs("status", check=1).stdout
    shfs("umount", project)
