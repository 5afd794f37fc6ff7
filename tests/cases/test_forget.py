# SPDX-License-Identifier: MIT
"""shfs forget: what the filters name is gone from journal, objects and index, and nothing else is."""

import fcntl
import glob
import json
import os
import random
import struct
import subprocess
import tempfile

import pytest

from test_gaps import kill

SECRET = b"hunter2-correct-horse"


def unzstd(data, *options):
    done = subprocess.run(["zstd", "-dcqq", *options], input=data, capture_output=True, check=True)
    return done.stdout


class Packs:
    """The contents of a store, by docs/objects.md."""

    def __init__(self, store):
        self.store, self.frames, self.contents = store, {}, {}
        self.solid = []  # (path, offset, length, names) of each solid frame
        for path in glob.glob(f"{store}/objects/packs/*.pack"):
            with open(path, "rb") as pack:
                self.scan(path, pack.read())

    def scan(self, path, data):
        at = 8
        while at + 40 <= len(data):
            assert data[at : at + 4] == b"\xd5shf", at
            kind, nth, _, base_nth, stored, _ = struct.unpack("<BBBBIQ", data[at + 24 : at + 40])
            head = 60 if kind == 2 else 40
            if kind == 3:
                names = self.scan_solid(data[at:], data[at + head : at + head + stored])
                self.solid.append((path, at, head + stored, names))
                at += head + stored
                continue
            base = (data[at + 40 : at + 56], base_nth) if kind == 2 else None
            self.frames[data[at + 8 : at + 24], nth] = kind, data[at + head : at + head + stored], base
            at += head + stored

    def scan_solid(self, head, stored):
        """Its contents, one behind the other; and nothing else is in it."""
        [count] = struct.unpack("<I", head[8:12])
        joined, at, names = unzstd(b"\x28\xb5\x2f\xfd" + stored[21 * count :]), 0, []
        for n in range(count):
            digest, nth, size = struct.unpack_from("<16sBI", stored, 21 * n)
            self.frames[digest, nth] = 0, joined[at : at + size], None
            names.append((digest, nth))
            at += size
        assert at == len(joined)
        return names

    def content(self, name):
        if name not in self.contents:
            self.contents[name] = self.decode(name)
        return self.contents[name]

    def decode(self, name):
        kind, stored, base = self.frames[name]
        if kind == 0:
            return stored
        if kind == 1:
            return unzstd(b"\x28\xb5\x2f\xfd" + stored)
        content = self.content(base)
        with tempfile.NamedTemporaryFile() as prefix:
            prefix.write(content)
            prefix.flush()
            return unzstd(b"\x28\xb5\x2f\xfd" + stored, f"--patch-from={prefix.name}")

    def loose(self):
        for path in glob.glob(f"{self.store}/objects/??/*"):
            with open(path, "rb") as file:
                data = file.read()
            yield data[40:] if data[8:12] == bytes(4) else unzstd(data[40:])


def places(store, text):
    """Where in the store a text is found, whatever it is packed in."""
    found = []
    for directory, _, names in os.walk(store):
        for name in names:
            path = os.path.join(directory, name)
            with open(path, "rb") as file:
                data = file.read()
            if name.endswith(".zst"):
                data += unzstd(data)
            if text in data:
                found.append(os.path.relpath(path, store))
    packs = Packs(store)
    found += [f"object {name[0].hex()}" for name in packs.frames if text in packs.content(name)]
    found += ["loose" for data in packs.loose() if text in data]
    return found


def state(sandbox, secret):
    """All that there is but what has the secret: texts of commands, and each content of each file."""
    history = json.loads(sandbox.shfs("history", "--json", "--all", cwd="/").stdout)["commands"]
    texts = [c["text"] for c in history if c["id"] and secret not in (c["text"] or "")]
    contents = {}
    for root, _, names in os.walk(sandbox.project):
        for name in names:
            path = os.path.join(root, name)
            log = sandbox.shfs("log", "--json", path, cwd="/", check=False)
            for version in json.loads(log.stdout)["versions"] if log.stdout else []:
                if version["object"]:
                    data = sandbox.shfs("cat", f"{path}@{version['n']}", cwd="/").stdout_bytes
                    if secret.encode() not in data:
                        contents.setdefault(name, set()).add(data)
    return texts, contents


@pytest.fixture
def work(sandbox, mounted, shell):
    """Some work, some of it with a secret, over two mounts; nothing is mounted at its end."""
    sandbox.write("notes", "before\n")
    bash = shell()
    secret = SECRET.decode()
    for n, line in enumerate((
        "echo one > a.txt; cat a.txt notes > b.txt",
        f"echo {secret} > key",
        "cat key b.txt > mixed",
        "sed -n 1,2p mixed > five",
        "seq 2000 > long",
        f"(cat long; echo {secret}) > tmp; mv tmp long",
        "(seq 2000; echo end) > long",
        "mv key key.bak",
        f"logon() {{ cat >/dev/null; }}; logon -p{secret} < a.txt",
        "echo two > a.txt",
        "echo after > notes",
        "rm b.txt",
    )):
        bash.run(line)
        if n == 6:
            bash.run("cd /")
            mounted.unmount()
            mounted = sandbox.mount()
            bash.run(f"cd {sandbox.project}")
    bash.run("cd /")
    mounted.unmount()
    return bash


def snapshot(directory):
    found = {}
    for root, _, names in os.walk(directory):
        for name in names:
            path = os.path.join(root, name)
            with open(path, "rb") as file:
                found[path] = file.read(), os.stat(path).st_mtime_ns
    return found


@pytest.fixture
def shfs(sandbox):
    """From a directory that is not mounted."""
    return lambda *args, **options: sandbox.shfs(*args, **{"cwd": "/", **options})


def test_forget_commands(work, sandbox, shfs):
    assert "journal" in str(places(sandbox.store, SECRET)) and "object" in str(places(sandbox.store, SECRET))
    files, (texts, contents) = snapshot(sandbox.project), state(sandbox, SECRET.decode())
    dry = shfs("forget", "--grep", SECRET, "--dry-run").stdout
    assert "would be forgotten: 3 commands, " in dry and "logon" in dry
    assert places(sandbox.store, SECRET), "a dry run changes nothing"
    assert shfs("forget", "--grep", SECRET, check=2)

    found = json.loads(shfs("forget", "--grep", SECRET, "--yes", "--json").stdout)
    assert found["done"] and found["commands"] == 3 and found["versions"] >= 2 and found["bytes"] > 0
    # what others made of it is theirs: mixed and five
    assert not [p for p in places(sandbox.store, SECRET) if "object" not in p and "loose" not in p]
    assert state(sandbox, SECRET.decode()) == (texts, contents)
    assert snapshot(sandbox.project) == files
    shown = shfs("history", "--all").stdout
    assert SECRET.decode() not in shown and "echo two" in shown

    shfs("forget", "--content", f"{sandbox.project}/mixed", "--yes")
    shfs("forget", f"{sandbox.project}/five", "--yes")
    assert places(sandbox.store, SECRET) == []
    before = state(sandbox, SECRET.decode())
    shfs("reindex")
    assert state(sandbox, SECRET.decode()) == before
    assert shfs("forget", "--grep", SECRET, "--yes", check=3)
    assert snapshot(sandbox.project) == files


@pytest.mark.users("ordinary")
def test_forget_files(work, sandbox, shfs):
    """A file: all its versions and uses, also under the name that it had before; no command goes."""
    files, (texts, contents) = snapshot(sandbox.project), state(sandbox, SECRET.decode())
    project = sandbox.project
    shfs("forget", f"{project}/key.bak", f"{project}/notes@1", "--yes")
    left = state(sandbox, SECRET.decode())
    contents["notes"].remove(b"before\n")
    assert left == (texts, contents)
    history = json.loads(shfs("history", "--json", "--all").stdout)["commands"]
    used = {os.path.basename(use["path"]) for c in history for use in c["files"]}
    assert not used & {"key", "key.bak"} and {"mixed", "notes", "long"} <= used
    assert [c["text"] for c in history if c["text"] and c["text"].startswith("mv key")], "the command stays"
    assert shfs("log", f"{project}/key.bak", check=3) and shfs("log", f"{project}/key", check=3)
    # of one command with one file
    shfs("forget", "--grep", "one > a.txt", f"{project}/b.txt", "--yes")
    [command] = [c for c in commands(shfs) if c["text"].startswith("echo one")]
    assert {os.path.basename(use["path"]) for use in command["files"]} == {"a.txt"}
    assert snapshot(project) == files
    assert shfs("forget", f"{project}/never", "--yes", check=3) and shfs("forget", check=2)
    assert shfs("forget", "-n", "--grep", "no such thing", check=3)


def commands(shfs):
    return [c for c in json.loads(shfs("history", "--json", "--all").stdout)["commands"] if c["id"]]


class Writers:
    """Processes that change files of their own, until they are told to end."""

    LOOP = """
        n=0
        while [ ! -e {dir}/stop ]; do
            n=$((n + 1)); echo "line $n of {i}" > w{i}; cat w{i} >> all{i}; mv w{i} x{i}; sleep 0.1
        done
        echo $n > {dir}/count{i}"""

    def __init__(self, sandbox, n=2):
        self.dir = sandbox.mkdir(f"{sandbox.path}/tmp/writers")
        self.running = [sandbox.popen(["sh", "-c", self.LOOP.format(dir=self.dir, i=i)], cwd=sandbox.project)
                        for i in range(n)]

    def end(self):
        """How often each went round."""
        with open(f"{self.dir}/stop", "w", encoding="ascii"):
            pass
        for process in self.running:
            assert process.wait() == 0
        counts = []
        for i in range(len(self.running)):
            with open(f"{self.dir}/count{i}", encoding="ascii") as count:
                counts.append(int(count.read()))
        return counts


def test_beside_mounts_and_shells(sandbox, mounted, shell, shfs):
    """At once, beside producers and shells that are at work: all of it goes, and nothing else."""
    secret = SECRET.decode()
    shells = shell(), shell(cwd="/")
    shells[0].run(f"echo {secret} > key; cat key > /dev/null")
    shells[0].run(f"logon() {{ cat >/dev/null; }}; logon -p{secret} < key")
    shells[0].run("echo kept > kept; exec 5< key")
    shells[1].run(f"cat {sandbox.project}/key > /dev/null; cat -- --{secret} 2> /dev/null")
    shells[1].run(f"printf 'k = 1\\npassword = {secret}\\n' > {sandbox.project}/conf.json")
    shfs("sync")
    writers = Writers(sandbox)
    before = [c["text"] for c in commands(shfs) if secret not in (c["text"] or "")]
    found = json.loads(shfs("forget", "--yes", "--json", f"{sandbox.project}/key", f"{sandbox.project}/conf.json").stdout)
    assert found["done"] and found["objects"] >= 2
    shfs("forget", "--yes", "--grep", secret)
    shells[0].run("exec 5<&-")
    shells[1].run("echo again")
    shfs("sync")
    assert places(sandbox.store, SECRET) == []
    counts = writers.end()
    assert all(counts)
    # what is there is taken anew before it changes
    for name in "key", "conf.json":
        shells[0].run(f"echo other > {name}")
    shfs("sync")
    assert secret in shfs("cat", f"{sandbox.project}/key@1").stdout
    assert secret in shfs("cat", f"{sandbox.project}/conf.json@1").stdout
    for i, n in enumerate(counts):
        versions = json.loads(shfs("log", "--json", f"{sandbox.project}/all{i}").stdout)["versions"]
        # each content is there, and no other; one may be kept twice, or empty, between open and write
        assert len({version["size"] for version in versions} - {0}) == n and len(versions) - n in (0, 1), versions
        assert shfs("cat", f"{sandbox.project}/x{i}").stdout == f"line {n} of {i}\n"
    texts = [c["text"] for c in commands(shfs)]
    assert [text for text in texts if text in before] == before and "echo again" in texts
    assert "no flaws" in shfs("check", "--read-data").stdout
    shfs("forget", "--yes", f"{sandbox.project}/key", f"{sandbox.project}/conf.json")
    assert places(sandbox.store, SECRET) == []
    shells[0].run("cd /")
    mounted.unmount()
    assert places(sandbox.store, SECRET) == []
    assert "no flaws" in shfs("check", "--read-data").stdout


@pytest.mark.backends()
def test_beside_each_recorder(sandbox, project, shfs):
    """Whoever records is asked to begin a new segment, goes on, and what it wrote before is forgotten."""
    mounted = sandbox.mount()
    for n in range(3):
        sandbox.sh("echo $V > key; cat key > /dev/null; echo kept > kept$N", env={"V": SECRET.decode(), "N": str(n)})
        shfs("sync")
        assert places(sandbox.store, SECRET)
        assert json.loads(shfs("forget", "--yes", "--json", f"{project}/key").stdout)["objects"] == 1
        assert places(sandbox.store, SECRET) == []
        sandbox.sh("rm key; echo after >> kept0")
        shfs("sync")
    assert shfs("cat", f"{project}/kept2").stdout == "kept\n"
    assert shfs("cat", f"{project}/kept0").stdout.count("after\n") == 3
    mounted.unmount()
    assert "no flaws" in shfs("check", "--read-data").stdout


@pytest.mark.users("ordinary")
def test_killed_beside_a_mount(work, sandbox, shfs, mount, shell):
    """Whenever it is killed, the next one completes it, beside a mount that goes on."""
    secret = SECRET.decode()
    mounted = mount()
    bash = shell()
    args = "forget", "--yes", "--grep", secret, "--json"
    for n in sorted(random.Random(1).sample(range(5, 120), 3)):
        bash.run(f"echo {secret} > key{n}; cat key{n} > /dev/null")
        bash.run(f"echo kept > kept{n}")
        shfs("sync")
        killed(sandbox, n, *args)
        bash.run(f"echo more >> kept{n}")
        texts = [c["text"] for c in commands(shfs) if secret not in c["text"]]
        shfs(*args, check=False)
        bash.run(f"echo end > kept{n}")
        assert not [p for p in places(sandbox.store, SECRET) if "object" not in p], n
        left = [c["text"] for c in commands(shfs)]
        assert left[: len(texts)] == texts or [t for t in left if t in texts] == texts, n
        assert shfs("cat", f"{sandbox.project}/kept{n}@2").stdout == "kept\nmore\n", n
        shfs("check", "--read-data")
    bash.run("cd /")
    mounted.unmount()
    shfs("check", "--read-data")


@pytest.mark.users("ordinary")
def test_beside_who_cannot_be_asked(work, sandbox, shfs, mount):
    """Something that is in no table of mounts records, or does not let go."""
    store = os.open(sandbox.store, os.O_RDONLY)
    fcntl.flock(store, fcntl.LOCK_SH)
    assert "3 commands" in shfs("forget", "--grep", SECRET, "-n").stdout
    shfs("forget", "--grep", SECRET, "--yes")
    assert not [p for p in places(sandbox.store, SECRET) if "object" not in p and "loose" not in p]
    os.close(store)
    # and it records again, into what is left
    mounted = mount()
    sandbox.sh("echo more >> a.txt; seq 2000 > long")
    shfs("sync")
    assert shfs("cat", f"{sandbox.project}/long").stdout == "".join(f"{n}\n" for n in range(1, 2001))
    # another that takes something away
    gate = os.open(f"{sandbox.store}/collect/lock", os.O_RDONLY)
    fcntl.flock(gate, fcntl.LOCK_EX)
    assert "nothing is forgotten" in shfs("forget", f"{sandbox.project}/a.txt", "--yes", check=4).stderr
    os.close(gate)
    mounted.unmount()


@pytest.mark.parametrize("kind", ["bash", "zsh", "fish"])
@pytest.mark.users("ordinary")
def test_by_a_shell_that_is_recorded(sandbox, mounted, shell, shfs, kind):
    """The log of a shell is overwritten under its hands, also where it tells of the forget itself."""
    other, own = shell(kind, cwd="/"), shell(kind, cwd="/")
    other.run(f"echo {SECRET.decode()} > {sandbox.project}/key")
    own.run(f"echo kept > {sandbox.project}/kept.txt")
    mounted.unmount()
    assert "forgotten: 2 commands" in own.run(f"shfs forget --yes -g {SECRET.decode()}")
    assert places(sandbox.store, SECRET) == [] and "damaged" not in shfs("reindex").stderr
    for bash in other, own:
        bash.run("echo again")
    texts = [c["text"] for c in commands(shfs)]
    assert texts.count("echo again") == 2 and [t for t in texts if t.startswith("echo kept")]
    assert places(sandbox.store, SECRET) == []


@pytest.mark.users("ordinary")
def test_asks_on_a_terminal(work, sandbox, shfs):
    for answer, said in ("n", "nothing is forgotten"), ("y", "forgotten: 5 commands"):
        work.send(f"shfs forget -g {SECRET.decode()}\r")
        work.pty.expect_exact("It cannot be brought back. [y/N]")
        work.send(f"{answer}\r")
        assert said in work.wait()
    assert not [p for p in places(sandbox.store, SECRET) if "object" not in p], "this command went, too"


# How a file with a secret is saved, each again and again: $V is the secret.
SAVES = (
    "echo k=$V$RANDOM > f",
    "sed -i s/k/kk/ f",
    "sed -i.bak s/k/kk/ f",
    "printf 'x%.0s' 1 2 3 > f.tmp; echo k=$V half > f.tmp; echo k=$V whole >> f.tmp; mv f.tmp f",
    "mv f g; echo k=$V$RANDOM > f; mv g h",
    "cp f f~; echo more >> f",
    "ln f linked$RANDOM; echo more >> f",
    "cp f away$RANDOM",
    "mkdir -p d; cp f d/$RANDOM; mv f d/f; mv d/f f",
    "exec 3> t; echo k=$V open >&3; mv t f; echo more >&3; exec 3>&-",
    "exec 3< f; sed -i s/k/late/ f; cat <&3 > /dev/null; exec 3<&-",
    "cat f > /dev/null",
    "rm f; echo k=$V$RANDOM > f",
)


@pytest.mark.users("ordinary")
@pytest.mark.parametrize("seed", range(3))
def test_forget_under_all_names(sandbox, mounted, shfs, seed):
    """However a file is saved and copied: its content is nowhere afterwards, and nothing else is missing."""
    rng = random.Random(seed)
    word = f"word{rng.getrandbits(48):012x}"
    saves = rng.choices(SAVES, k=12)
    script = "echo k=$V > f; echo other > other; cp other other2\n" + "\n".join(saves) + "\n"
    path = sandbox.write_outside(f"{sandbox.home}/script", script)
    sandbox.run("bash", path, env={"V": word})
    shfs("sync")
    file = f"{sandbox.project}/f"
    assert places(sandbox.store, word.encode())
    shfs("forget", file, "--everywhere", "--yes")
    assert places(sandbox.store, word.encode()) == [], saves
    assert shfs("cat", f"{sandbox.project}/other2").stdout == "other\n"
    assert "no flaws" in shfs("check", "--read-data").stdout


@pytest.mark.users("ordinary")
def test_forget_leaves_what_was_not_named(sandbox, mounted, shfs):
    """Without --everywhere copies stay, and so does what another file at the same temporary name was."""
    sandbox.sh("echo old > f; echo another > t; rm t; echo secret > t; echo secret more > t; mv t f; cp f copy; echo x > f")
    shfs("sync")
    assert "the same content stays in 1 version elsewhere" in shfs("forget", f"{sandbox.project}/f", "-n").stdout
    assert json.loads(shfs("forget", f"{sandbox.project}/f", "-n", "--json").stdout)["elsewhere"] == 1
    said = shfs("forget", f"{sandbox.project}/f", "--yes").stderr
    assert "elsewhere: ~/project/copy@1\nthe same content stays in 1 version elsewhere\n" in said
    assert shfs("cat", f"{sandbox.project}/copy").stdout == "secret more\n"
    assert shfs("cat", f"{sandbox.project}/t@1").stdout == "another\n"
    [t] = json.loads(shfs("log", "--json", f"{sandbox.project}/t").stdout)["versions"]
    assert not any("secret\n" == shfs("cat", f"{sandbox.project}/{v}").stdout for v in (f"t@{t['n']}", "copy@1"))
    assert "elsewhere" not in shfs("forget", f"{sandbox.project}/copy", "--yes").stderr
    assert not [place for place in places(sandbox.store, b"secret more") if "object" in place]


@pytest.mark.users("ordinary")
def test_forget_another_name(sandbox, mounted, shfs):
    """A file that is there still keeps what it was before it was linked."""
    sandbox.sh("echo one > a; echo two > a; ln a b")
    shfs("forget", f"{sandbox.project}/b", "--yes")
    assert shfs("cat", f"{sandbox.project}/a@1").stdout == "one\n"


@pytest.mark.users("ordinary")
def test_forget_processes_of_no_command(sandbox, shfs, mounted, shell):
    """Their arguments go from everywhere, whether or not they used a file; those of commands and shells stay."""
    secret = SECRET.decode()
    bash = shell()
    for word in secret, "ordinary":
        sandbox.sh(f"cat kept{word[:1]}; echo {word[:4]} > made{word[:1]}", word, check=False)
        sandbox.sh("cat made? > /dev/null; :", f"-p {word}", f"--more={word}")
    bash.run("echo two > by_shell; cat by_shell > by_command")
    bash.run("cd /")
    shfs("sync")
    assert places(sandbox.store, SECRET)
    args = "forget", "--no-command", "--grep"
    assert shfs(*args, secret, "--status", "ok", "-n", check=2) and shfs(*args, "nothing of this", "-n", check=3)
    assert shfs(*args, secret, "-n", "--until", "2000-01-01", check=3)
    dry = shfs(*args, f"-p {secret} --more", "-n").stdout
    assert "--more=" in dry and "0 commands, 1 process of no command, " in dry
    found = json.loads(shfs(*args, secret, "--yes", "--json").stdout)
    assert found["processes"] == 2 and not found["commands"] and found["versions"]
    assert places(sandbox.store, SECRET) == [] and places(sandbox.store, b"--more=ordinary")
    log = json.loads(shfs("log", "--json", f"{sandbox.project}/madeo").stdout)
    assert log["versions"], "others made that"
    # what they did with a file; then all of them
    assert "0 commands, 0 accesses" not in shfs("forget", "--no-command", f"{sandbox.project}/madeo", "-n").stdout
    shfs("forget", "--no-command", "--yes")
    assert places(sandbox.store, b"--more=ordinary") == []
    [command] = [c for c in commands(shfs) if "by_shell" in c["text"]]
    assert "by_shell" in {os.path.basename(use["path"]) for use in command["files"]}
    mounted.unmount()
    assert places(sandbox.store, SECRET) == []
    assert "no flaws" in shfs("check", "--read-data").stdout


@pytest.mark.users("ordinary")
def test_after_a_crash(sandbox, shfs, mounted, shell):
    """A segment that was never sealed."""
    bash = shell(cwd="/")
    bash.run(f"echo {SECRET.decode()} > {sandbox.project}/key")
    bash.run(f"echo kept > {sandbox.project}/kept; cat {sandbox.project}/key > /dev/null")
    shfs("sync")
    kill(sandbox, mounted)
    assert glob.glob(f"{sandbox.store}/journal/*/*.seg")
    assert "forgotten: 1 command" in shfs("forget", "--yes", "--grep", SECRET).stdout
    assert places(sandbox.store, SECRET) == []
    assert [c["text"] for c in commands(shfs)][-1].startswith("echo kept")
    assert shfs("cat", f"{sandbox.project}/kept").stdout == "kept\n"
    gaps = json.loads(shfs("status", "--json", check=False).stdout)["gaps"]
    assert len(gaps) == 1, "it is still known to have ended unexpectedly"


CALLS = "pwrite64,write,renameat,unlinkat,fsync,fdatasync,ftruncate,openat,linkat"


def killed(sandbox, n, *args):
    """shfs, killed at its nth call of those that write. Returns whether it was."""
    trace = f"{sandbox.path}/tmp/trace"
    argv = ["strace", "-o", trace, "-e", f"trace={CALLS}", "-e", f"inject={CALLS}:signal=KILL:when={n}"]
    # sanitizers and tracing do not go together
    env = {"ASAN_OPTIONS": "detect_leaks=0"}
    shfs = sandbox.run("which", "shfs").stdout.strip()
    return sandbox.run(*argv, shfs, *args, cwd="/", env=env, check=False).status != 0


PARTS = 6


@pytest.mark.users("ordinary")
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.timeout(3600 if "SHFS_TEST_LONG" in os.environ else 120)
def test_killed_at_any_time(work, sandbox, shfs, part):
    files, (texts, contents) = snapshot(sandbox.project), state(sandbox, SECRET.decode())
    whole = f"{sandbox.path}/whole"
    sandbox.run("cp", "-a", sandbox.store, whole)
    args = "forget", "--yes", "--grep", SECRET.decode(), "--json"
    # how many calls there are
    trace = f"{sandbox.path}/tmp/trace"
    shfs_path = sandbox.run("which", "shfs").stdout.strip()
    sandbox.run("strace", "-o", trace, "-e", f"trace={CALLS}", shfs_path, *args, cwd="/",
                env={"ASAN_OPTIONS": "detect_leaks=0"})
    with open(trace, encoding="utf-8", errors="replace") as lines:
        calls = sum(1 for _ in lines)
    points = range(1 + part, calls, PARTS)
    if "SHFS_TEST_LONG" not in os.environ:
        points = random.Random(part).sample(points, 2)
    for n in points:
        sandbox.run("rm", "-rf", sandbox.store)
        sandbox.run("cp", "-a", whole, sandbox.store)
        killed(sandbox, n, *args)
        # whatever is there, questions are answered, and what is not meant is there
        assert [c["text"] for c in commands(shfs) if SECRET.decode() not in c["text"]] == texts, n
        found = shfs("check", "--read-data", check=False)
        assert not found.status or "shfs forget --resume" in found.stderr and "shfs repair" not in found.stderr, (n, found)
        if n % 2:  # once more, at another time
            killed(sandbox, n // 2 + 1, *args)
        shfs(*args, check=False)
        assert not [p for p in places(sandbox.store, SECRET) if "object" not in p], n
        assert state(sandbox, SECRET.decode()) == (texts, contents), n
        assert shfs("forget", "-n", "--grep", SECRET.decode(), check=3), n
        shfs("check", "--read-data")
    assert snapshot(sandbox.project) == files


def test_forgotten_with_what_ran_it(sandbox):
    """`shfs run` and `record` have the text of the command in their own arguments."""
    sandbox.mount()
    sandbox.shfs("run", "--", "sh", "-c", "echo unspeakable > out", timeout=60)
    sandbox.shfs("sync")
    sandbox.shfs("forget", "--yes", "--grep", "unspeakable")
    stored = f"cd {sandbox.store}; (zstdcat journal/*/*.zst; cat journal/*/*.seg index.db*) 2> /dev/null | grep -ac unspeakable"
    assert sandbox.sh(stored, check=False).stdout == "0\n"
