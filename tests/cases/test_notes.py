# SPDX-License-Identifier: MIT
"""Notes and tags: what a dictionary says is what the store says, after a rebuild of the index, in another store, on
other hosts; and nothing of a forgotten one stays."""

import json
import random
import re

import pytest

from harness import PREFIX, seeds
from test_forget import places
from test_trees import machines, record

assert machines  # a fixture
pytestmark = pytest.mark.users("ordinary")

LINES = ["echo one > a.txt", "echo two > a.txt", "cat a.txt > b.txt", "seq 9 > c; seq 8 > c; seq 7 > c; seq 6 > c", "false"]
VERSIONS = ["a.txt@1", "a.txt@2", "b.txt@1", "c@1", "c@3"]
TEXTS = ["the good one", "see fig. 2", "a note of\ntwo lines", "ümläut ☃", "'; DROP TABLE note; --", "x" * 3000, "-", "100%"]
TAGS = ["fig2", "draft", "schön", "a'b", "%"]
SECRET = "hunter2-correct-horse"


def commands(sandbox, *args):
    return json.loads(sandbox.shfs("history", "--json", "--all", *args).stdout)["commands"]


def listed(sandbox, *args):
    """{target: (note, tags)}, as shfs note lists them."""
    found = {}
    for one in json.loads(sandbox.shfs("note", "--json", *args).stdout)["notes"]:
        target = one["command"] or f"{one['path']}@{one['n']}"
        assert target not in found and (one["note"] is not None or one["tags"])
        found[target] = one["note"], one["tags"]
    return found


def shown(sandbox, prefix=""):
    """The same, as history, log and show have it."""
    found = {}
    for command in commands(sandbox):
        if command["id"]:
            found[command["id"]] = command["note"], command["tags"]
    for name in "a.txt", "b.txt", "c":
        path = f"{prefix}{sandbox.project}/{name}"
        for version in json.loads(sandbox.shfs("log", "--json", path).stdout)["versions"]:
            found[f"{path}@{version['n']}"] = version["note"], version["tags"]
    return {target: notes for target, notes in found.items() if notes[0] is not None or notes[1]}


def change(chance, sandbox, name, note, tags):
    """Makes one change by a command to what has that note and these tags. Returns {key: value}: the text, or None, of
    the note ("") and of tags."""
    kind = chance.choice(["note", "note", "tag", "both", "delete", "untag"])
    if kind == "delete" and note is not None:
        sandbox.shfs("note", "-d", name)
        return {"": None}
    if kind == "untag" and tags:
        gone = chance.sample(tags, chance.randint(1, len(tags)))
        sandbox.shfs("note", "--delete", *(word for tag in gone for word in ("--tag", tag)), name)
        return dict.fromkeys(gone)
    words, made = [], {}
    if kind in ("tag", "both", "untag"):
        for tag in chance.sample(TAGS, chance.randint(1, 2)):
            made[tag] = ""
            words += ["-t", chance.choice(["", "#"]) + tag]
    words.append(name)
    if kind not in ("tag", "untag"):
        made[""] = chance.choice(TEXTS)
        words += ["--", made[""]] if "-" in made[""] else made[""].split(" ")
    sandbox.shfs("note", *words)
    return made


class Model:
    """What was noted, in the order of writing: the last of each counts."""

    def __init__(self, kept=()):
        self.kept = dict(kept)  # {(target, tag or ""): text}

    def add(self, target, changes):
        for key, text in changes.items():
            self.kept[target, key] = text

    def of(self, target):
        tags = sorted((tag for (of, tag), text in self.kept.items() if of == target and tag and text is not None), key=str.encode)
        return self.kept.get((target, "")), tags

    def listed(self):
        found = {target: self.of(target) for target, _ in self.kept}
        return {target: notes for target, notes in found.items() if notes[0] is not None or notes[1]}

    def step(self, chance, sandbox, target):
        self.add(target, change(chance, sandbox, target, *self.of(target)))


def targets_of(sandbox):
    found = [command["id"] for command in commands(sandbox) if command["id"]]
    return found + [f"{sandbox.project}/{version}" for version in VERSIONS]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", seeds(2, 60))
def test_like_a_dictionary(sandbox, seed):
    """Also after a rebuild, a check, an export into another store, and a way over a remote."""
    chance = random.Random(seed)
    record(sandbox, *LINES)
    targets, model = targets_of(sandbox), Model()
    for n in range(24):
        model.step(chance, sandbox, chance.choice(targets))
        if chance.random() < 0.2:
            sandbox.shfs("reindex")
        if n % 6 == 5:
            assert listed(sandbox) == shown(sandbox) == model.listed()
    sandbox.shfs("check")
    sandbox.shfs("reindex")
    assert listed(sandbox) == model.listed()
    tag = chance.choice(TAGS)
    assert listed(sandbox, "--tag", tag) == {t: notes for t, notes in model.listed().items() if tag in notes[1]}

    archive, store = f"{sandbox.home}/all.tar.zst", sandbox.env["SHFS_STORE"]
    sandbox.shfs("export", "tar", "-o", archive)
    sandbox.shfs("remote", "add", "there", f"{sandbox.home}/remote")
    sandbox.shfs("push", "there")
    for how in "import", "clone":
        sandbox.env["SHFS_STORE"] = f"{sandbox.home}/{how}ed"
        sandbox.shfs(*(["import", archive] if how == "import" else ["clone", f"{sandbox.home}/remote"]))
        assert listed(sandbox) == shown(sandbox) == model.listed(), how
        copy = Model(model.kept)
        copy.step(chance, sandbox, targets[0])
        assert listed(sandbox) == copy.listed(), how
    sandbox.env["SHFS_STORE"] = store


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", seeds(1, 30))
def test_the_last_word_of_several_hosts(machines, sandbox, seed):
    """Each host notes its own and the others' commands and versions; once they have pulled, all say the same."""
    chance = random.Random(seed)
    hosts, targets, model = ["hosta", "hostb"], [], Model()
    for host in hosts:
        machines.go(host)
        record(sandbox, *LINES)
        targets += [(None, command["id"]) for command in commands(sandbox) if command["id"]]
        targets += [(host, f"{sandbox.project}/{version}") for version in VERSIONS[:3]]
        sandbox.shfs("remote", "add", "own", f"{sandbox.home}/remote-of-{host}")

    def name(host, target):
        return f"{target[0]}:{target[1]}" if target[0] not in (None, host) else target[1]

    def exchange():
        for host in hosts:
            machines.go(host)
            sandbox.shfs("push", "own")
        for host in hosts:
            machines.go(host)
            for other in hosts:
                if other != host:
                    if f"\n{other}" not in "\n" + sandbox.shfs("remote").stdout:
                        sandbox.shfs("remote", "add", other, f"{sandbox.home}/remote-of-{other}")
                    sandbox.shfs("pull", other)

    exchange()
    for _ in range(4):
        for _ in range(4):
            host = chance.choice(hosts)
            machines.go(host)
            target = chance.choice(targets)
            what = name(host, target)
            model.add(target, change(chance, sandbox, what, *listed(sandbox).get(what, (None, []))))
        exchange()
        for host in hosts:
            machines.go(host)
            assert listed(sandbox) == {name(host, target): notes for target, notes in model.listed().items()}, host


def test_a_boot_that_nobody_knows(machines, sandbox):
    """A note about a third machine's file, whose records did not come here, is no note about the file of that path here."""
    remotes = {host: f"{sandbox.home}/remote-of-{host}" for host in ("hosta", "hostb", "hostc")}
    for host, remote in remotes.items():
        machines.go(host)
        record(sandbox, *LINES[:4])
        sandbox.shfs("remote", "add", "own", remote)
    sandbox.shfs("push", "own")
    machines.go("hostb")
    sandbox.shfs("remote", "add", "c", remotes["hostc"])
    sandbox.shfs("pull", "c")
    sandbox.shfs("note", f"hostc:{sandbox.project}/a.txt@1", "of hers")
    sandbox.shfs("note", "a.txt@1", "of mine")
    sandbox.sh(f"sed -i '/^boot hostc/d; /^tree hostc/d' {sandbox.store}/trees")  # as if that had been lost
    sandbox.shfs("push", "own")
    machines.go("hosta")
    sandbox.shfs("note", "a.txt@2", "of his")
    sandbox.shfs("remote", "add", "b", remotes["hostb"])
    sandbox.shfs("pull", "b")
    mine = {f"{sandbox.project}/a.txt@2": ("of his", []), f"hostb:{sandbox.project}/a.txt@1": ("of mine", [])}
    assert listed(sandbox) == mine | {f"hostc:{sandbox.project}/a.txt@None": ("of hers", [])}
    assert set(shown(sandbox)) == {f"{sandbox.project}/a.txt@2"}
    sandbox.shfs("reindex")
    assert listed(sandbox) == mine | {f"hostc:{sandbox.project}/a.txt@None": ("of hers", [])}
    # an index that an older shfs made, which took it for a note about the file here
    old = f"UPDATE note SET path = '{sandbox.project}/a.txt' WHERE path LIKE 'hostc:%'; PRAGMA user_version = 34"
    sandbox.run("python3", "-c", f"import sqlite3; sqlite3.connect('{sandbox.store}/index.db').executescript({old!r})", cwd="/")
    assert listed(sandbox) == mine | {f"hostc:{sandbox.project}/a.txt@None": ("of hers", [])}
    # once her records come, it is about her file
    sandbox.shfs("remote", "add", "c", remotes["hostc"])
    sandbox.shfs("pull", "c")
    assert listed(sandbox) == mine | {f"hostc:{sandbox.project}/a.txt@1": ("of hers", [])}


def test_shown_and_found(sandbox):
    record(sandbox, *LINES)
    ids = {command["text"]: command["id"] for command in commands(sandbox) if command["id"]}
    loop, false = ids[LINES[3]], ids["false"]
    sandbox.shfs("note", loop[:7], "--tag", "fig2", "the", "good one")
    sandbox.shfs("note", "c@2", "almost")
    sandbox.shfs("note", "a.txt", "latest")
    assert "note     #fig2  the good one\n" in sandbox.shfs("history").stdout
    assert "    #fig2\n    the good one\n" in sandbox.shfs("show", loop).stdout
    log = sandbox.shfs("log", "c").stdout
    assert "\n    almost\n" in log and "c@2" in log, "a fold would hide it"
    assert "    latest\n" in sandbox.shfs("log", "a.txt@2").stdout and "latest" not in sandbox.shfs("log", "a.txt@1").stdout
    for query, text in ("good", LINES[3]), ("fig2", LINES[3]):
        found = json.loads(sandbox.shfs("search", "--json", "-c", query).stdout)["found"]
        assert [(one["text"], one["note"], one["tags"]) for one in found] == [(text, "the good one", ["fig2"])]
    assert f"{LINES[3]}  # #fig2  the good one\n" in sandbox.shfs("search", "-l", "good").stdout
    [found] = json.loads(sandbox.shfs("search", "--json", "-f", "almost").stdout)["found"]
    assert found["path"] == f"{sandbox.project}/c"
    assert [(note["n"], note["note"], note["tags"]) for note in found["notes"]] == [(2, "almost", [])]
    assert re.fullmatch(r"-------  [-0-9]{10} [0-9:]{8}  c@4  # @2 almost\n", sandbox.shfs("search", "-l", "-f", "almost").stdout)
    assert sandbox.shfs("note", loop).stdout.count("\n") == 3
    assert sandbox.shfs("note", false, check=3).stderr == "shfs: it has no note and no tag\n"
    assert sandbox.shfs("note", "-d", false, check=3).stderr == "shfs: it has no note\n"
    assert sandbox.shfs("note", "-d", "-t", "x", loop, check=3).stderr == "shfs: it has no tag x\n"
    for bad in ["-t", "a b", loop], ["-t", "", loop], ["-d"], ["-d", loop, "text"], ["--json", loop, "text"]:
        assert sandbox.shfs("note", *bad, check=2).stderr.startswith("shfs: ")
    assert sandbox.shfs("note", "nowhere", "text", check=3) and sandbox.shfs("note", "c@99", "text", check=3)
    assert sandbox.shfs("status").stdout.count(sandbox.store) <= 1, "its producer is no project"


def test_secrets_and_forget(sandbox):
    """A secret is taken out of a note as out of a command; a note that was forgotten is nowhere."""
    record(sandbox, *LINES)
    ids = [command["id"] for command in commands(sandbox) if command["id"]]
    result = sandbox.shfs("note", ids[0], f"curl --password {SECRET} x")
    assert "secret" in result.stderr and listed(sandbox)[ids[0]] == ("curl --password [redacted] x", [])
    assert not places(sandbox.store, SECRET.encode())

    assert "secret" in sandbox.shfs("note", ids[0], "--tag", "ghp_" + "a1B2c3D4" * 5, check=2).stderr

    words = "my-word-of-old", "my-word-of-b", "my-word-that-stays", "my-word-of-a-command"
    sandbox.shfs("note", ids[1], f"says {words[0]} here")
    sandbox.shfs("note", ids[1], "says no more")
    sandbox.shfs("note", "b.txt", words[1])
    sandbox.shfs("note", "a.txt", words[2])
    sandbox.shfs("note", ids[3], "--tag", words[3])
    for word in words:
        assert places(sandbox.store, word.encode()), word
    dry = json.loads(sandbox.shfs("forget", "--dry-run", "--json", "--grep", words[0]).stdout)
    assert (dry["notes"], dry["commands"]) == (1, 0)
    said = sandbox.shfs("forget", "--dry-run", "--grep", words[0], "--since", "1 hour ago", check=False).stderr
    assert "nothing matches" in said and "notes have that text" in said
    assert "1 note" in sandbox.shfs("forget", "--yes", "--regex", "my-word-of-[o]ld").stdout
    sandbox.shfs("forget", "--yes", "b.txt")
    sandbox.shfs("forget", "--yes", "--command", ids[3])
    for word in words[:2] + words[3:]:
        assert not places(sandbox.store, word.encode()), word
    expected = {
        ids[0]: ("curl --password [redacted] x", []),
        ids[1]: ("says no more", []),
        f"{sandbox.project}/a.txt@2": (words[2], []),
    }
    assert listed(sandbox) == expected
    archive = f"{sandbox.home}/part.tar.zst"
    sandbox.shfs("export", "tar", "-o", archive, f"{sandbox.project}/c")
    sandbox.env["SHFS_STORE"] = f"{sandbox.home}/part"
    sandbox.shfs("import", archive)
    assert not [target for target in listed(sandbox) if target.endswith("a.txt@2")], "it is not of the part"


CALLS = {"write": 1, "pwrite64": 1, "fsync": 1, "fdatasync": 1, "linkat": 1, "renameat2": 1, "renameat": 1, "unlinkat": 1, "openat": 9}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("call, step", CALLS.items())
def test_killed_while_it_writes(sandbox, call, step):
    """At each call that changes a file: the note is as it was or as it should be, and the store is sound."""
    record(sandbox, "echo one > a.txt", "false")
    [target] = [command["id"] for command in commands(sandbox) if command["text"] == "false"]
    sandbox.shfs("note", target, "begin")
    env, before, kills = {"ASAN_OPTIONS": sandbox.env["ASAN_OPTIONS"] + ":detect_leaks=0"}, "begin", 0  # it is traced
    for nth in range(1, 1000, step):
        argv = ["strace", "-f", "-o", f"{sandbox.path}/trace", "-e", f"trace={call}", "-e", f"inject={call}:signal=KILL:when={nth}"]
        text = f"text {nth}"
        result = sandbox.run(*argv, f"{PREFIX}/bin/shfs", "note", target, text, check=False, env=env)
        now = listed(sandbox)[target][0]
        assert now == text if result.status == 0 else now in (before, text), (call, nth)
        before = now
        if result.status == 0:
            break
        kills += 1
    assert result.status == 0 and (kills or call not in ("write", "fdatasync", "openat"))
    sandbox.shfs("check")
    assert "ended unexpectedly" not in sandbox.shfs("history", "--all").stdout
    sandbox.shfs("forget", "--yes", "--grep", "begin")
    sandbox.shfs("reindex")
    assert listed(sandbox)[target][0] == before
