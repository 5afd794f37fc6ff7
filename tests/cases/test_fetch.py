# SPDX-License-Identifier: MIT
"""shfs fetch: the history of another host's store, through a real sshd."""

import glob
import json
import os
import random
import shutil
import subprocess

import pytest

from harness import PREFIX, seeds, wait_until
from test_archive import everything
from test_forget import SECRET, places
from test_remote_ssh import Link, program
from test_remotes import FAULTS, LONG, all_of, commands_of, in_store
from test_ssh import Hosts
from test_trees import HERE, THERE, Machines, answers, export, record

pytestmark = [
    pytest.mark.users("ordinary"),
    pytest.mark.timeout(120),
    pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("sshd"), reason="needs sshd, and root to start it"),
]


@pytest.fixture
def hosts(sandbox):
    """hosta, which fetches, and hostb, where sshd is; each with a store."""
    it = Hosts(sandbox)
    it.go = lambda name: Machines.go(it, name)  # each with an empty project
    it.go("hostb")
    it.go("hosta")
    sandbox.env["SHFS_SSH_COMMAND"] = f"ssh -F {it.keys}/client"
    sandbox.allow_exit(0, 1)  # of shfs there, if nobody listens any more
    with it.sshd():
        yield it
    it.end()


def fetch(shfs, *args, **options):
    return json.loads(shfs("fetch", "--json", *(args or ["there"]), **options).stdout)


@pytest.fixture
def two_states(hosts, sandbox, shfs):
    """What hostb had when hosta fetched it first, and what it has since: more, and less."""
    hosts.go("hostb")
    record(sandbox, "echo one > a", f"echo {SECRET.decode()} > key", "head -c 200000 /dev/urandom > random", "cat a random > both")
    hosts.go("hosta")
    fetch(shfs)
    before = all_there(sandbox)
    hosts.go("hostb")
    record(sandbox, "echo two > a", "seq 3000 > long", "head -c 1500000 /dev/urandom > loose")
    shfs("forget", "--grep", SECRET.decode(), "--yes")
    after = all_of(shfs, sandbox)
    hosts.go("hosta")
    assert len(before[1]) == 4 and len(after[1]) == 6 and SECRET not in b"".join(after[1].values())
    return before, after


def all_there(sandbox):
    """The same of hostb's files, asked here."""
    found = {}
    for name in "a", "key", "random", "both", "long", "loose":
        log = sandbox.shfs("log", "--json", f"hostb:{sandbox.project}/{name}", check=False).stdout
        for version in json.loads(log)["versions"] if log else []:
            file = f"{name}@{version['n']}"
            found[file] = sandbox.shfs("cat", f"hostb:{sandbox.project}/{file}").stdout_bytes
    return commands_of(sandbox.shfs), found


def test_two_hosts(hosts, sandbox, shfs):
    """Each has what the other one recorded, apart from its own; and what comes later, and no more than that."""
    hosts.go("hostb")
    record(sandbox, *THERE)
    there = answers(sandbox)
    hosts.go("hosta")
    record(sandbox, *HERE)
    here = answers(sandbox)
    dry = fetch(shfs, "-n", "there")
    assert dry["new"] and not dry["done"] and shfs("log", f"hostb:{sandbox.project}/fig.txt", check=3)
    first = fetch(shfs)
    assert first["tree"] == "hostb" and first["objects"] and not first["missing"] and not first["damaged"]
    assert answers(sandbox) == here and answers(sandbox, "hostb:") == there
    assert not fetch(shfs)["new"]
    assert shfs("fetch", "there").stdout == "there has nothing new\n"
    assert shfs("complete", "--", "fetch", "hostb").stdout.split() == ["hostb"]
    hosts.go("hostb")
    record(sandbox, "head -c 3000000 /dev/urandom > big")
    big = shfs("cat", "big@1").stdout_bytes
    hosts.go("hosta")
    second = fetch(shfs)
    assert second["new"] and second["objects"] == 1 and second["files"] <= 4
    assert shfs("cat", f"hostb:{sandbox.project}/big@1").stdout_bytes == big
    hosts.go("hostb")
    record(sandbox, "echo small > small")
    hosts.go("hosta")
    third = fetch(shfs)
    assert third["new"] and third["bytes"] < 1000000
    # what was fetched is not pushed: who recorded it does that
    remote = f"{sandbox.home}/remote-of-hosta"
    shfs("remote", "add", "r", remote)
    assert [r["name"] for r in json.loads(shfs("remote", "--json").stdout)["remotes"]] == ["r"]
    shfs("push")
    new = in_store(sandbox, f"{sandbox.home}/new")
    new("clone", remote)
    assert everything(new, sandbox) and "hostb" not in " ".join(os.listdir(f"{sandbox.home}/new/journal"))
    for store in shfs, new:
        assert store("check", "--read-data").stdout.endswith("no flaws\n")
    hosts.go("hostb")
    assert shfs("check", "--read-data").stdout.endswith("no flaws\n")
    assert "nothing" in shfs("remote").stderr or not shfs("remote").stdout
    # a fetch of the same by another name changes nothing
    hosts.go("hosta")
    now = answers(sandbox, "hostb:")
    assert fetch(shfs, f"there:{sandbox.home}/hostb-store")["objects"] == 0
    assert answers(sandbox, "hostb:") == now


def test_notes_come_along(hosts, sandbox, shfs):
    """By a fetch as by an archive, into stores that number their own commands and files otherwise."""
    hosts.go("hostb")
    record(sandbox, "echo one > a", "echo two > a", "cat a > b")
    ids = {c["text"]: c["id"] for c in json.loads(shfs("history", "--json", "--all").stdout)["commands"]}
    shfs("note", ids["cat a > b"], "--tag", "fig2", "the good one")
    for n in 1, 2:
        shfs("note", f"a@{n}", "--", f"of a@{n}")
    shfs("note", "b@1", "--tag", "draft")
    shfs("note", "-d", "a@1")
    there = notes(shfs)
    assert there == {ids["cat a > b"]: ("the good one", ["fig2"]), f"{sandbox.project}/a@2": ("of a@2", []), f"{sandbox.project}/b@1": (None, ["draft"])}
    archive = export(sandbox, "b")
    for how in "fetch", "import":
        hosts.go("hosta")
        if how == "import":
            sandbox.env["SHFS_STORE"] = sandbox.store = f"{sandbox.home}/another"
        record(sandbox, "seq 9 > c; cat c > a", "seq 8 > b", "seq 7 > a")
        shfs("note", "a@1", "of mine")
        fetch(shfs) if how == "fetch" else shfs("import", archive)
        mine = {f"{sandbox.project}/a@1": ("of mine", [])}
        hers = {target if ":" in target or "/" not in target else f"hostb:{target}": said for target, said in there.items()}
        assert notes(shfs) == mine | hers, how
        [noted] = [c for c in json.loads(shfs("history", "--json", "--all").stdout)["commands"] if c["tags"]]
        assert (noted["text"], noted["note"]) == ("cat a > b", "the good one")
        shfs("reindex")
        assert notes(shfs) == mine | hers, how


def away(shfs):
    said = json.loads(shfs("check", "--json").stdout)
    assert said["ok"] and not said["lost"], said
    return said["away"]


def test_contents_stay_there(hosts, sandbox, shfs):
    """fetch --metadata: each content comes when it is read, also after more was recorded there; then all the rest."""
    hosts.go("hostb")
    lines = ["echo one > a", "head -c 200000 /dev/urandom > random", "cat a random > both", "head -c 5000000 /dev/urandom > loose", "seq 9 > nine", "seq 8 > eight"]
    record(sandbox, *lines)
    _, truth = all_of(shfs, sandbox)
    truth |= {f"{name}@1": shfs("cat", f"{name}@1").stdout_bytes for name in ("nine", "eight")}
    assert len(truth) >= 6
    hosts.go("hosta")
    record(sandbox, "echo mine > mine")
    said = fetch(shfs, "--metadata", "there")
    assert said["away"] == away(shfs) == len(set(truth.values())) and not said["objects"] and not said["missing"]
    assert not fetch(shfs, "--metadata", "there")["new"]

    def hers(version, **options):
        return shfs("cat", f"hostb:{sandbox.project}/{version}", **options)

    left = sorted(truth)
    first = left.pop()
    assert hers(first).stdout_bytes == truth[first] and away(shfs) < len(truth)
    # it cannot be reached
    unreachable = {"SHFS_SSH_COMMAND": "sh -c 'echo no route >&2; exit 255'"}
    assert hers(first, env=unreachable).stdout_bytes == truth[first]
    said = hers("loose@1", env=unreachable, check=1).stderr
    assert "cannot fetch contents from there: ssh cannot reach it" in said and "(shfs pull, or fetch, brings it)" in said
    assert hers("loose@1").stdout_bytes == truth["loose@1"]
    # more is recorded there; what moved is said, and found again
    hosts.go("hostb")
    record(sandbox, "seq 7 > seven")
    hosts.go("hosta")
    second = left.pop()
    moved = hers(second, check=False)
    assert moved.stdout_bytes == truth[second] if not moved.status else "shfs fetch --metadata there looks where" in moved.stderr
    fetch(shfs, "--metadata", "there")
    truth["seven@1"] = b"".join(b"%d\n" % n for n in range(1, 8))
    for version in second, left.pop(), "seven@1":
        assert hers(version).stdout_bytes == truth[version]
    # nothing of it is pushed
    shfs("remote", "add", "r", f"{sandbox.home}/remote-of-hosta")
    assert not json.loads(shfs("push", "--json").stdout)["elsewhere"]
    assert not fetch(shfs)["missing"] and away(shfs) == 0
    for version, data in truth.items():
        assert hers(version, env=unreachable).stdout_bytes == data
    assert shfs("check", "--read-data").stdout.endswith("no flaws\n")


def reading(sandbox, *names):
    """shfs cat of hostb's files, which waits where a pipe is full, ahead of the second one. Returns what lets it go on."""
    files = [f"hostb:{sandbox.project}/{name}@1" for name in names]
    process = sandbox.popen(["shfs", "cat", *files], cwd="/", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    first = os.read(process.stdout.fileno(), 1000)

    def rest():
        data, said = process.communicate(timeout=60)
        return process.returncode, first + data, said.decode()

    return rest


def test_a_long_silence(hosts, sandbox, shfs):
    """While a command that reads contents of a host asks for none, that host can push and prune; then it gets the next one."""
    hosts.go("hostb")
    record(sandbox, "head -c 300000 /dev/urandom > random", "head -c 5000000 /dev/urandom > loose", "echo one > a", "echo two > a")
    shfs("remote", "add", "r", f"{sandbox.home}/remote-of-hostb")
    truth = [shfs("cat", f"{name}@1").stdout_bytes for name in ("random", "loose", "a")]
    hosts.go("hosta")
    fetch(shfs, "--metadata", "there")
    rest = reading(sandbox, "random", "loose", "a")
    hosts.go("hostb")
    wait_until(lambda: shfs("push", check=False).status == 0, "the push")
    shfs("prune", "--keep-last", "1", f"{sandbox.project}/random")
    hosts.go("hosta")
    status, data, said = rest()
    assert (status, data) == (0, b"".join(truth)) and "shfs:" not in said, said


def test_a_connection_that_is_lost_is_made_again(hosts, sandbox, shfs):
    """Once, by a command that reads a content; if that fails, too, it is said, and nothing that is wrong is kept."""
    hosts.go("hostb")
    record(sandbox, "head -c 5000000 /dev/urandom > loose", "head -c 5000000 /dev/urandom > large")
    truth = {name: shfs("cat", f"{name}@1").stdout_bytes for name in ("loose", "large")}
    hosts.go("hosta")
    fetch(shfs, "--metadata", "there")
    client = open(f"{hosts.keys}/client", encoding="ascii").read()
    for name, cuts in ("loose", [2000000]), ("large", [2000000, 1000000]):
        link = Link(hosts.port, cuts=cuts)
        sandbox.write_outside(f"{hosts.keys}/client", client.replace(f"Port {hosts.port}", f"Port {link.port}"))
        result = shfs("cat", f"hostb:{sandbox.project}/{name}@1", check=False)
        assert link.cut and not link.cuts
        if len(cuts) == 1:
            assert (result.status, result.stdout_bytes) == (0, truth[name]) and "shfs:" not in result.stderr, result.stderr
        else:
            assert result.status == 1 and not result.stdout_bytes
            assert result.stderr.count("cannot fetch contents from there: the connection was lost") == 1
        link.close()
    sandbox.write_outside(f"{hosts.keys}/client", client)
    assert shfs("cat", f"hostb:{sandbox.project}/large@1").stdout_bytes == truth["large"]


def test_nothing_comes(hosts, sandbox, shfs):
    """How contents of a host are found again is said; so it is if what is known of the host is damaged."""
    hosts.go("hostb")
    record(sandbox, "echo one > a")
    hosts.go("hosta")
    fetch(shfs, "--metadata", "there")
    [place] = glob.glob(f"{sandbox.store}/remote/from@*")
    shutil.rmtree(f"{place}/lists")
    shutil.rmtree(f"{place}/away")
    said = shfs("cat", f"hostb:{sandbox.project}/a@1", check=1).stderr
    assert "no remote has them where they were" in said and "hint: shfs fetch --metadata there looks where they are by now" in said
    sandbox.write_outside(f"{place}/host", "damaged", 0o600)
    said = shfs("cat", f"hostb:{sandbox.project}/a@1", check=1).stderr
    assert f"cannot fetch contents from {os.path.basename(place)}: what is known of it here cannot be read" in said


@pytest.mark.parametrize("read", [False, True])
def test_metadata_after_a_forget_and_a_prune(hosts, sandbox, shfs, read):
    """What the host has forgotten is nowhere here after the next fetch, also if it was read here; what it has pruned does
    not come any more, but stays where it was read; and all else is what it was."""
    secret = SECRET.decode()
    hosts.go("hostb")
    record(sandbox, "echo one > a", f"echo {secret} > key", f"(head -c 3000000 /dev/urandom; echo {secret}) > loose", "echo two > a",
           "head -c 200000 /dev/urandom > random", "cat a random > both", "echo three > a")  # fmt: skip
    _, truth = all_of(shfs, sandbox)
    hosts.go("hosta")
    record(sandbox, "echo mine > mine")
    fetch(shfs, "--metadata", "there")

    def hers(version, **options):
        return shfs("cat", f"hostb:{sandbox.project}/{version}", **options)

    if read:
        for version in "key@1", "loose@1", "a@1", "random@1":
            assert hers(version).stdout_bytes == truth[version]
        assert places(sandbox.store, SECRET)
    hosts.go("hostb")
    shfs("forget", "--grep", secret, "--yes")
    shfs("prune", "--keep-last", "1", f"{sandbox.project}/a")
    commands, left = commands_of(shfs), {version: data for version, data in truth.items() if version not in ("key@1", "loose@1", "a@1", "a@2")}
    assert not any(secret in text for text in commands) and len(left) == 3
    hosts.go("hosta")
    assert fetch(shfs, "--metadata", "there")["forgotten"]
    assert places(sandbox.store, SECRET) == []
    assert commands_of(lambda *args, **options: shfs(*args, "--host", "hostb", **options)) == commands
    for name in "key", "loose":
        assert shfs("log", f"hostb:{sandbox.project}/{name}", check=3)
    assert away(shfs) < len(left) if read else away(shfs) == len(left)
    for version in "a@1", "a@2":
        result = hers(version, check=False)
        here = read and version == "a@1" or not result.status  # others come with what was read
        assert result.stdout_bytes == truth[version] if here else "pruned" in result.stderr, result
        assert read or not here
    for version, data in left.items():
        assert hers(version).stdout_bytes == data
    assert away(shfs) == 0
    fetch(shfs)
    assert shfs("check", "--read-data").stdout.endswith("no flaws\n")


@pytest.mark.parametrize("program", ["shfs", "env X='a b' shfs"])
def test_the_program_is_remembered(hosts, sandbox, shfs, program):
    """As --program and HOST:DIR said, so the host is asked for contents."""
    hosts.go("hostb")
    record(sandbox, "echo one > a")
    hosts.go("hosta")
    fetch(shfs, "--metadata", "--program", program, f"there:{sandbox.home}/hostb-store")
    assert away(shfs) == 1
    # also by a fetch that does not say it, or says a wrong one
    assert not fetch(shfs, "--metadata", f"there:{sandbox.home}/hostb-store")["new"]
    shfs("fetch", "--metadata", "--program", "/nonexistent/shfs", f"there:{sandbox.home}/hostb-store", check=1)
    assert shfs("cat", f"hostb:{sandbox.project}/a@1").stdout == "one\n"


def notes(shfs):
    """{target: (note, tags)}"""
    found = json.loads(shfs("note", "--json").stdout)["notes"]
    return {one["command"] or f"{one['path']}@{one['n']}": (one["note"], one["tags"]) for one in found}


def test_another_user_s_store(hosts, sandbox, shfs):
    """It comes by that user's login, and by no other."""
    hosts.go("hostb")
    record(sandbox, *THERE)
    there, archive = answers(sandbox), export(sandbox, "b")
    hosts.go("hosta")
    store = f"{sandbox.path}/root-store"
    subprocess.run([f"{PREFIX}/bin/shfs", "--store", store, "import", archive], env=sandbox.env, cwd="/", check=True, stdout=subprocess.DEVNULL)
    assert os.stat(store).st_mode & 0o777 == 0o700
    result = shfs("fetch", f"there:{store}", check=1)
    assert "cannot use the store" in result.stderr and "status 6" in result.stderr, result
    assert fetch(shfs, f"root@there:{store}")["objects"]
    assert answers(sandbox, "hostb:") == there
    assert shfs("check", "--read-data").stdout.endswith("no flaws\n")


def test_forget_reaches_it(two_states, hosts, sandbox, shfs):
    """What was forgotten there is nowhere here after the next fetch, also if that was interrupted."""
    before, after = two_states
    assert places(sandbox.store, SECRET) and all_there(sandbox) == before
    assert fetch(shfs)["forgotten"]
    assert places(sandbox.store, SECRET) == []
    assert all_there(sandbox) == after
    assert shfs("check", "--read-data").stdout.endswith("no flaws\n")


def test_the_store_was_made_again(hosts, sandbox, shfs):
    """A store that has lost what it knew of fetches, as after a clone, is not taken for an old one."""
    hosts.go("hostb")
    for n in range(3):
        record(sandbox, f"echo {n} > a")
        hosts.go("hosta")
        assert fetch(shfs)["new"]
        hosts.go("hostb")
    shutil.rmtree(f"{sandbox.store}/remote")
    record(sandbox, "echo again > a")
    hosts.go("hosta")
    assert fetch(shfs)["new"] and not fetch(shfs)["new"]
    assert "again" in shfs("cat", f"hostb:{sandbox.project}/a").stdout


@pytest.mark.parametrize("seed", seeds(1, 100))
def test_killed_at_any_request(two_states, hosts, sandbox, shfs, seed):
    """And called again: it goes on, and both stores are sound."""
    before, after = two_states
    saved = f"{sandbox.store}.saved"
    sandbox.run("cp", "-a", sandbox.store, saved, cwd="/")
    chance, n = random.Random(seed), 0
    while True:
        n += 1 if LONG else chance.randint(1, 3)
        sandbox.run("rm", "-rf", sandbox.store, cwd="/")
        sandbox.run("cp", "-a", saved, sandbox.store, cwd="/")
        killed = shfs("fetch", "there", env={FAULTS: f"kill={n}"}, check=False).status
        assert killed in (0, -9)
        if killed:
            assert all_there(sandbox) == before
            [place] = os.listdir(f"{sandbox.store}/remote")
            assert place.startswith("from@")
            if chance.randrange(2):  # what was fetched may be what is forgotten
                shfs("forget", "--grep", "seq 3000", "--yes", check=False)
                assert not os.path.exists(f"{sandbox.store}/remote/{place}/incoming")
            fetch(shfs)
        assert all_there(sandbox) == after, n
        assert places(sandbox.store, SECRET) == []
        assert shfs("check", "--read-data").stdout.endswith("no flaws\n")
        if not killed:
            break
    assert n > 4


def test_a_connection_that_is_cut(two_states, hosts, sandbox, shfs):
    """Nothing is taken, what was fetched stays, and the next one goes on."""
    before, after = two_states
    client = open(f"{hosts.keys}/client", encoding="ascii").read()
    for cut in 3000, 20000, 400000:
        link = Link(hosts.port, cuts=[cut])
        sandbox.write_outside(f"{hosts.keys}/client", client.replace(f"Port {hosts.port}", f"Port {link.port}"))
        result = shfs("fetch", "there", check=1)
        assert "cannot fetch from there" in result.stderr
        assert link.cut and all_there(sandbox) == before
        link.close()
    sandbox.write_outside(f"{hosts.keys}/client", client)
    fetch(shfs)
    assert all_there(sandbox) == after


def test_while_it_records(hosts, sandbox, shfs):
    """hostb's mount goes on; a segment may be sealed meanwhile."""
    hosts.go("hostb")
    mounted = sandbox.mount(hosts.remote)
    shell = sandbox.shell(cwd=hosts.remote)
    for n in range(3):
        shell.run(f"echo {n} > a; seq {n}000 > b")
        hosts.go("hosta")
        assert fetch(shfs)["new"]
        assert f"{n}\n" in shfs("cat", f"hostb:{hosts.remote}/a").stdout
        hosts.go("hostb")
    shell.close()
    mounted.unmount()
    hosts.go("hosta")
    fetch(shfs)
    for name in "hosta", "hostb":
        hosts.go(name)
        assert shfs("check", "--read-data").stdout.endswith("no flaws\n")


def test_what_is_said(hosts, sandbox, shfs):
    hosts.go("hostb")
    record(sandbox, "echo one > a")
    there = sandbox.store
    hosts.go("hosta")

    def fails(*args, says, code=1, env=None):
        result = shfs("fetch", *args, check=code, env=env)
        assert says in result.stderr, result

    fails("there", "--program", "no-such-shfs", says="there is no shfs there")
    fails("there:no/such/store", says="shfs there has ended with status 6")
    fails("no-such-host.invalid", says="ssh cannot reach it: see the message of ssh above", env={"SHFS_SSH_COMMAND": "ssh -o BatchMode=yes"})
    fails("there", "--program", "echo Hello, ben!;", says="Hello, ben!")
    fails("there", "--program", "echo shfs serve 9;", says="a newer shfs", code=4)
    fails("there", "--program", "true", says="ended before it answered")
    fails("there", "--program", "head -c 5000 /dev/zero;", says="ahead of shfs")
    for host in "", "-x@y", "x@-oProxyCommand=touch", "a/b", "ssh://", "ssh://x:0", "x y", "there:~ben/x", "x:":
        fails("--", host, says="no host, or no directory", code=2)
    fails("there", "--rate", "x", says="--rate takes", code=2)
    # somebody else is at work there
    holder = sandbox.popen(["shfs", "--store", there, "serve"], cwd="/", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdout.readline() == b"shfs serve 1\n"
    fails("there", says="another push or pull of this store")
    # what a stranger may ask
    for ask, answer in ((b"list heads", b"ok 3"), (b"list data", b"ok 0"), (b"get ../../etc/passwd 0 100", b"no ENOENT"),
                        (b"get store/format 0 100", b"no ENOENT"), (b"get data/x/y/z 0 100", b"no ENOENT")):  # fmt: skip
        holder.stdin.write(ask + b"\n")
        holder.stdin.flush()
        line = holder.stdout.readline()
        assert line.startswith(answer), (ask, line)
        if line.startswith(b"ok ") and int(line[3:]):
            holder.stdout.read(int(line[3:]))
    holder.stdin.write(b"put x\n")
    holder.stdin.close()
    assert holder.wait(timeout=60) == 1
    holder.stdout.close()
    assert fetch(shfs)["new"]
    # what rules or the user keep out of that store does not come
    hosts.go("hostb")
    record(sandbox, "echo x > .env; echo y > b")
    hosts.go("hosta")
    assert not fetch(shfs)["missing"]
    assert shfs("cat", f"hostb:{sandbox.project}/.env@1", check=False).status and shfs("cat", f"hostb:{sandbox.project}/b@1").stdout == "y\n"


@pytest.mark.parametrize("seed", seeds(6, 400))
def test_a_host_that_lies(two_states, hosts, sandbox, shfs, seed):
    """Bytes that are wrong, missing or made up: an error, or what is there; and no crash."""
    before, after = two_states
    real = sandbox.env["SHFS_SSH_COMMAND"]
    sandbox.env["SHFS_SSH_COMMAND"] = program(sandbox, f"""
import random
chance = random.Random({seed})
s = subprocess.Popen(['ssh', '-F', {hosts.keys + '/client'!r}, *sys.argv[1:]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
threading.Thread(target=up, args=[s], daemon=True).start()
left, how = int(2 ** chance.uniform(0, 19)), chance.randrange(5)
while data := os.read(s.stdout.fileno(), 65536):
    if 0 <= left < len(data):
        b = bytearray(data)
        if how == 0: b[left] ^= 1 << chance.randrange(8)
        if how == 1: b = b[:left] + b[left + 1:]
        if how == 2: b[left:left] = chance.randbytes(chance.randrange(1, 5000))
        if how == 3: b = b[:left]
        if how == 4: b[left:] = chance.randbytes(len(b) - left)
        data = bytes(b)
    left -= len(data)
    while data: data = data[os.write(1, data):]
    if how == 3 and left < 0: break
os._exit(0)
""")  # fmt: skip
    # an answer that lacks a byte is waited for, until nothing is believed to come
    process = sandbox.popen(["shfs", "fetch", "there"], cwd="/", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        _, said = process.communicate(timeout=15)
    except subprocess.TimeoutExpired:
        process.terminate()
        _, said = process.communicate()
    assert process.returncode in (0, 1, 4, -15) and b"Sanitizer" not in said, said
    assert all_there(sandbox) == (after if process.returncode == 0 else before)
    sandbox.env["SHFS_SSH_COMMAND"] = real
    fetch(shfs)
    assert all_there(sandbox) == after
    assert shfs("check", "--read-data").stdout.endswith("no flaws\n")
