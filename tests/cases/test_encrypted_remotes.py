# SPDX-License-Identifier: MIT
"""Encrypted remotes: what a remote can see and do, and keys. That they are remotes, test_remotes.py tests."""

import hashlib
import json
import os
import random
import re
import stat

import pexpect
import pytest

from harness import seeds
from remotes import Directory, Encrypted, key_text, label_of, subkey
from test_forget import places, shfs, snapshot
from test_remotes import FAULTS, all_of, everywhere, in_store, pull, push
from test_trees import record

assert shfs  # fixture
SECRET = "a text that nobody else has"
NAME = "a-name-that-nobody-else-has"


@pytest.fixture
def remote(sandbox):
    return Directory(sandbox)


def key_file(sandbox, name="r"):
    return f"{sandbox.home}/.config/shfs/keys/{name}.key"


def read(path):
    with open(path, "rb") as file:
        return file.read()


def write(sandbox, path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)
    sandbox.user.own(path)


@pytest.fixture
def pushed(sandbox, shfs, remote):
    """A store that has pushed to an encrypted remote, with a key that was made for it."""
    record(sandbox, f"echo {SECRET} > {NAME}", "head -c 400000 /dev/urandom > random; head -c 1500000 /dev/urandom > loose", "echo one > a")
    shfs("remote", "add", "--encrypt", "r", remote.url)
    push(shfs)
    return all_of(shfs, sandbox)


@pytest.mark.users("ordinary")
def test_it_sees_nothing(pushed, sandbox, shfs, remote):
    """No bytes, no names, no hosts, no hashes of them; and the key is nowhere but in its file."""
    said = shfs("remote", "add", "--encrypt", "s", f"{remote.path}2").stderr
    key = read(key_file(sandbox)).decode().strip()
    assert re.fullmatch("shfs-key-1:[0-9a-f]{8}(-[0-9a-f]{8}){7}", key)
    digits = key.split(":")[1].replace("-", "")
    assert stat.S_IMODE(os.stat(key_file(sandbox)).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(os.path.dirname(key_file(sandbox))).st_mode) == 0o700
    assert "keys/s.key" in said and "keep a copy" in said and "shfs-key" not in said
    assert key_file(sandbox, "s") and read(key_file(sandbox, "s")) != read(key_file(sandbox))
    plain = Encrypted(remote)
    plain.KEY = bytes.fromhex(digits)
    files = plain.files()
    names = subkey(plain.own_key(), 3)
    plain.close()
    for name, data in files.items():
        if name.startswith("data/"):
            store, blob = name.split("/")[1], os.path.basename(name)
            text = f"{store}/{hashlib.sha256(data).hexdigest()}".encode()
            assert blob == hashlib.blake2b(text, key=names, digest_size=32).hexdigest()
    assert any(SECRET.encode() in everywhere(data) for data in files.values())  # so there would be something to find
    hosts = re.findall(rb"^host (\S+)$", b"".join(files.values()), re.M)
    seen = b"\n".join(name.encode() + b"\n" + data for name, data in remote.files().items())
    for word in (SECRET.encode(), NAME.encode(), *(b"host " + host for host in hosts), *(host for host in hosts if len(host) > 7), b"shfs head", b"shfs list", b"journal/", b"objects/", b"\x28\xb5\x2f\xfd", b"\xd5shf",
                 digits.encode(), bytes.fromhex(digits)):
        assert word not in seen and word not in everywhere(seen), word
    # nor are names of blobs hashes of what is there
    names = {os.path.basename(n) for n in remote.blobs()}
    assert not names & {hashlib.sha256(d).hexdigest() for d in (*files.values(), *remote.files().values())}
    # the same bytes look different each time
    assert len({data[:24] for data in remote.files().values()}) == len(remote.names())
    for text in digits, key:
        assert places(sandbox.store, text.encode()) == []
        assert text not in shfs("remote", "list").stdout + shfs("remote", "list", "--json").stdout
    assert json.loads(shfs("remote", "list", "--json").stdout)["remotes"][0]["encrypted"] is True
    assert set(shfs("remote", "list", "-o", "encrypted").stdout.split()) == {"ENCRYPTED", "yes"}


@pytest.mark.users("ordinary")
def test_names_differ_between_stores(pushed, sandbox, shfs, remote):
    """That two stores have the same bytes is not to be seen."""
    other = f"{sandbox.home}/other"
    sandbox.run("cp", "-a", sandbox.store, other, cwd="/")
    with open(f"{other}/trees", encoding="ascii") as file:
        text = file.read()
    mine = re.search("^store ([0-9a-f]{16})", text, re.M)[1]
    write(sandbox, f"{other}/trees", text.replace(mine, "0123456789abcdef").encode())
    sandbox.run("rm", "-r", f"{other}/remote", cwd="/")
    there = in_store(sandbox, other)
    there("remote", "add", "r", remote.url)
    push(there)
    names = {}
    for name in remote.blobs():
        names.setdefault(name.split("/")[1], set()).add(os.path.basename(name))
    assert len(names) == 2 and not set.intersection(*names.values())
    assert there("remote", "check", "--read-data").stdout.endswith("no flaws\n")


@pytest.mark.users("ordinary")
def test_a_wrong_key(pushed, sandbox, shfs, remote):
    """It is named, before anything is fetched or changed."""
    right = read(key_file(sandbox))
    wrong = key_text(random.Random(1).randbytes(32))
    flipped = right.decode().strip()
    flipped = flipped[:-1] + ("0" if flipped[-1] != "0" else "1")
    new = in_store(sandbox, f"{sandbox.home}/new")
    other = in_store(sandbox, f"{sandbox.home}/other")
    other("remote", "add", "r", remote.url)
    before, store = remote.files(), snapshot(sandbox.store)
    for key in wrong, flipped:
        env = {"SHFS_REMOTE_KEY": key}
        # the request behind that of the label would be the end
        fault = {FAULTS: "kill=2", **env}
        for who, *args in ((shfs, "push"), (shfs, "pull"), (shfs, "remote", "check"), (other, "pull"), (new, "clone", remote.url),
                           (other, "remote", "add", "t", remote.url)):
            said = who(*args, env=fault, check=4).stderr
            assert "the key is not the one of this remote" in said and key not in said, args
    assert "other one" not in said
    write(sandbox, f"{sandbox.home}/wrong", (wrong + "\n").encode())
    said = new("clone", "--key", f"{sandbox.home}/wrong", remote.url, check=4).stderr
    assert "not the one" in said and "wrong; --key names another one" in said
    assert remote.files() == before and not os.path.exists(f"{sandbox.home}/new/format")
    assert {p for p, d in snapshot(sandbox.store).items() if store.get(p) != d and "/remote/" in p} == set()
    for key in "", "\n", "shfs-key-1:", "shfs-key-1:00", wrong + "00", wrong[:-1] + "g", "shfs-key-2:" + wrong[11:], wrong.replace("-", " "), wrong + "\nx", "x" * 5000:
        write(sandbox, f"{sandbox.home}/wrong", key.encode())
        assert "no key of shfs" in shfs("push", env={"SHFS_REMOTE_KEY_FILE": f"{sandbox.home}/wrong"}, check=1).stderr, key
    assert remote.files() == before
    push(shfs)


@pytest.mark.users("ordinary")
def test_a_missing_key(pushed, sandbox, shfs, remote):
    os.rename(key_file(sandbox), f"{sandbox.home}/kept")
    before = remote.files()
    for args in ("push",), ("pull",), ("remote", "check"):
        said = shfs(*args, check=4).stderr
        assert "its key is missing" in said and "keys/r.key" in said and "SHFS_REMOTE_KEY_FILE" in said
    new, other = (in_store(sandbox, f"{sandbox.home}/{name}") for name in ("new", "other"))
    # without a terminal nobody can be asked
    assert "its key is missing" in new("clone", "--name", "r", remote.url, check=4).stderr
    assert "its key is missing" in other("remote", "add", "r", remote.url, check=4).stderr
    # and nobody is, where it cannot be done
    assert "there is a store already" in shfs("clone", "--name", "r", remote.url, check=4).stderr
    assert "there is a remote r already" in shfs("remote", "add", "--encrypt", "r", f"{remote.path}2", check=4).stderr
    assert not os.path.exists(f"{remote.path}2") and not os.path.exists(key_file(sandbox))
    assert remote.files() == before
    push(shfs, env={"SHFS_REMOTE_KEY_FILE": f"{sandbox.home}/kept"})
    push(shfs, env={"SHFS_REMOTE_KEY": read(f"{sandbox.home}/kept").decode()})
    assert "No such file" in new("clone", "--key", f"{sandbox.home}/none", remote.url, check=1).stderr
    # an encrypted remote that was taken for another one
    with open(f"{sandbox.store}/remote/r/encrypted", encoding="ascii") as file:
        noted = file.read()
    os.unlink(f"{sandbox.store}/remote/r/encrypted")
    assert "is encrypted" in shfs("push", check=4).stderr
    write(sandbox, f"{sandbox.store}/remote/r/encrypted", b"nonsense\n")
    assert shfs("push", check=1).stderr
    write(sandbox, f"{sandbox.store}/remote/r/encrypted", noted.encode())
    os.rename(f"{sandbox.home}/kept", key_file(sandbox))
    push(shfs)


@pytest.mark.users("ordinary")
def test_ways_to_a_key(pushed, sandbox, shfs, remote):
    """A file, a command, the environment, the terminal; what was named is found again."""
    elsewhere = f"{sandbox.home}/else where"
    os.rename(key_file(sandbox), elsewhere)
    text = read(elsewhere).decode().strip()
    write(sandbox, elsewhere, f"# of the laboratory\n\n  {text.upper().replace('SHFS-KEY', 'shfs-key').replace('-', '', 0)}  \n".encode())
    n = 0

    def taken(*args, env=None, again=None, cwd="/"):
        nonlocal n
        n += 1
        for command in "clone", "pull":
            there = in_store(sandbox, f"{sandbox.home}/{command}{n}")
            if command == "clone":
                there("clone", "--name", "r", *args, remote.url, env=env, cwd=cwd)
            else:
                there("remote", "add", "r", *args, remote.url, env=env, cwd=cwd)
                pull(there, env=again)
            assert all_of(there, sandbox) == pushed
            pull(there, env=again)

    taken("--key", elsewhere)
    taken("--key", "else where", cwd=sandbox.home)
    taken("--key-command", f"cat '{elsewhere}'")
    taken(env={"SHFS_REMOTE_KEY": text}, again={"SHFS_REMOTE_KEY": text})
    taken(env={"SHFS_REMOTE_KEY_FILE": elsewhere}, again={"SHFS_REMOTE_KEY_FILE": elsewhere})
    assert not os.path.exists(key_file(sandbox))
    new = in_store(sandbox, f"{sandbox.home}/new")
    assert "it failed" in new("clone", "--key-command", "exit 1", remote.url, check=1).stderr
    assert "it failed" in new("clone", "--key-command", f"cat '{elsewhere}'; false", remote.url, check=1).stderr
    assert "exclude" in new("clone", "--key-command", "x", "--key", "x", remote.url, check=2).stderr
    assert "one line" in new("clone", "--key", "x\nkey-command touch x", remote.url, check=2).stderr
    # asked for, not shown, and kept
    for typed, code in ((text[:-1], 2), (text[:-1] + "\x03", 4), (key_text(bytes(32)), 4), (text, 0)):
        asked = pexpect.spawn("setpriv" if os.geteuid() == 0 else "env", terminal_arguments(sandbox, remote), encoding="utf-8", timeout=30,
                              env={**sandbox.env, "SHFS_STORE": f"{sandbox.home}/asked"})
        asked.expect("Key of r .*: ")
        asked.sendline(typed)
        asked.expect(pexpect.EOF)
        asked.close()
        assert asked.exitstatus == code, (typed, asked.before)
        assert text[20:] not in asked.before
        assert os.path.exists(key_file(sandbox)) == (not code)
    there = in_store(sandbox, f"{sandbox.home}/asked")
    pull(there)
    assert all_of(there, sandbox) == pushed


def terminal_arguments(sandbox, remote):
    words = ["shfs", "remote", "add", "r", remote.url]
    if os.geteuid():
        return words
    st = os.stat(sandbox.home)
    return [f"--reuid={st.st_uid}", f"--regid={st.st_gid}", "--clear-groups", *words]


@pytest.mark.users("ordinary")
def test_one_key_for_two(sandbox, shfs, remote):
    """Nothing of a remote can stand for something of another one that has the same key."""
    record(sandbox, "echo one > a")
    key = f"{sandbox.home}/keys/both"
    shfs("remote", "add", "--encrypt", "--key", key, "r", remote.url)
    other = Directory(sandbox)
    other.path = other.url = f"{remote.path}2"
    shfs("remote", "add", "--key", key, "s", other.url)
    push(shfs, "r")
    push(shfs, "s")
    assert not {os.path.basename(n) for n in remote.blobs()} & {os.path.basename(n) for n in other.blobs()}
    head = next(n for n in remote.names() if n.startswith("heads/"))
    assert head in other.names()
    other.write(head, remote.read(head))
    said = json.loads(shfs("remote", "check", "s", "--json", check=1).stdout)
    assert said["problems"][0]["problem"] == "head"
    # the whole of the other one: it is the wrong one, with the right key
    for name in other.names():
        other.remove(name)
    for name, data in remote.files().items():
        other.write(name, data)
    for args in ("push", "s"), ("pull", "s"), ("remote", "check", "s"):
        assert "not the encrypted remote any more" in shfs(*args, check=4).stderr


@pytest.mark.users("ordinary")
def test_it_is_not_taken_for_plain(pushed, sandbox, shfs, remote):
    """A remote cannot have us put there, or take from there, what is not encrypted."""
    label = remote.read("shfs-remote")
    before = remote.files()
    new, other = (in_store(sandbox, f"{sandbox.home}/{name}") for name in ("new", "other"))
    record(sandbox, "echo two > a")
    for text, words in ((b"shfs remote 1\n", "not the encrypted remote any more"), (label.replace(b"id ", b"id 0")[: len(label)], "not the encrypted"),
                        (b"shfs remote 1 encrypted 2\n", "newer shfs"), (b"shfs remote 2\n", "newer shfs"), (b"", "no remote of shfs"),
                        (label[:-3], "not the encrypted")):
        remote.write("shfs-remote", text)
        for args in ("push",), ("pull",), ("remote", "check"):
            assert words in shfs(*args, check=4).stderr, (text, args)
        assert new("clone", "--key", key_file(sandbox), remote.url, check=4)
        assert other("remote", "add", "--key", key_file(sandbox), "r", remote.url, check=4)
    assert {n: d for n, d in remote.files().items() if n != "shfs-remote"} == {n: d for n, d in before.items() if n != "shfs-remote"}
    remote.remove("shfs-remote")
    for args in ("push",), ("pull",):
        assert "no remote of shfs" in shfs(*args, check=4).stderr
    assert new("clone", "--key", key_file(sandbox), remote.url, check=4)
    remote.clear()
    assert "no remote of shfs" in new("clone", "--key", key_file(sandbox), remote.url, check=3).stderr
    remote.write("shfs-remote", b"shfs remote 1\n")
    for args in ("--encrypt",), ("--key", key_file(sandbox)):
        assert "not encrypted" in other("remote", "add", *args, "r", remote.url, check=4).stderr
    assert remote.names() == ["shfs-remote"]


@pytest.mark.users("ordinary")
@pytest.mark.parametrize("seed", seeds(1, 100))
def test_what_it_changes_is_noticed(pushed, sandbox, shfs, remote, seed):
    """Bytes flipped, cut, added; a blob or a head under the name of another one, or of an older one."""
    chance = random.Random(seed)
    record(sandbox, "echo two > a", "head -c 300000 /dev/urandom > random")
    push(shfs)
    record(sandbox, "echo three > a")
    push(shfs)
    after = all_of(shfs, sandbox)
    good = remote.files()
    blobs = remote.blobs()
    heads = [n for n in remote.names() if n.startswith("heads/")]
    assert len(heads) == 3 and len(blobs) > 3
    path = f"{sandbox.home}/taken"
    there = in_store(sandbox, path)
    changes = []
    for name in (*chance.sample(blobs, 2), heads[-1]):
        data = good[name]
        at = chance.choice([0, 23, 24, len(data) - 1, len(data) - 16, chance.randrange(len(data))])
        changes += [(name, data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]),
                    (name, data[: chance.choice([0, 1, 39, 40, len(data) - 1])]), (name, data + b"\0")]
        changes.append((name, good[chance.choice([n for n in good if n != name])]))
    changes += [(heads[-1], good[head]) for head in heads[:-1]]
    for name, data in changes:
        remote.write(name, data)
        said = json.loads(shfs("remote", "check", "--read-data", "--json", check=1).stdout)["problems"]
        assert [p["problem"] for p in said] == ["head"] if name in heads else [p["blob"] for p in said] == [os.path.basename(name)], (name, said)
        sandbox.run("rm", "-rf", path, cwd="/")
        result = there("clone", "--key", key_file(sandbox), remote.url, check=False)
        assert result.status in (0, 1) and "Sanitizer" not in result.stderr
        if name in heads:
            assert result.status
        if not result.status:  # only a blob that a clone does not need
            assert all_of(there, sandbox) == after
        remote.write(name, good[name])
    # an older head, as if there were no newer one: who has seen the newer one is told, or keeps what is here
    other = in_store(sandbox, f"{sandbox.home}/other")
    other("remote", "add", "r", remote.url)
    pull(other)
    remote.remove(heads[-1])
    assert pull(other)["stores_new"] == 0 and all_of(other, sandbox) == after
    assert "has lost" in shfs("push").stderr
    assert all_of(other, sandbox) == after


@pytest.mark.users("ordinary")
def test_its_key_is_a_secret(pushed, sandbox, shfs, mount):
    """The file of a key is not archived where it is recorded, and a key that is typed is not kept."""
    text = read(key_file(sandbox)).decode().strip()
    mounted = mount()
    shell = sandbox.shell()
    shell.run(f"mkdir -p keys; cat {key_file(sandbox)} > keys/r.key; cp keys/r.key keys/copy; SHFS_REMOTE_KEY={text} true")
    shell.run(f"export SHFS_REMOTE_KEY={text}; sh -c 'exit 0'; unset SHFS_REMOTE_KEY")
    shell.run(f"echo {text} > elsewhere")
    shell.close()
    mounted.unmount()
    assert "SHFS_REMOTE_KEY=[redacted]" in shfs("history", "--all").stdout
    digits = text.split(":")[1]
    assert places(sandbox.store, digits.encode()) == []


def test_the_format():
    """A label by docs/remotes.md, that must never change."""
    assert label_of(bytes(range(32)), bytes(range(16))) == (
        b"shfs remote 1 encrypted 1\nid 000102030405060708090a0b0c0d0e0f\n"
        b"check a83a9e66e9a91acaa4c87b0a8e0eb29f9039171f84f1832620ed020f7876438f\n")
