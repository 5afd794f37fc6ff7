# SPDX-License-Identifier: MIT
"""shfs config: what it reads is what is in force, and what it writes changes one key and no other byte."""

import json
import os
import random
import re
import stat

import pytest

import harness

pytestmark = pytest.mark.users("ordinary")

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SEEDS = harness.seeds(3, an_hour=200)
# a key, with values that it takes
KEYS = {
    "archive.max-size": ["64M", "0", "7k"],
    "archive.fingerprint": ["all", "2G"],
    "archive.wait": ["0", "600000"],
    "archive.compression": ["1", "19"],
    "archive.private-keys": ["yes", "no"],
    "archive.ignore": ["*.tmp", "a b", "!x;y", "#x", "k = v", "[a]*", "-x", "a:b"],
    "archive.archive-read": ["*.tex", "data/*.csv"],
    "mount.browse": ["off", "directory", "on"],
    "mount.transport": ["auto", "dev", "uring"],
    "record.environment": ["LAB_* !HOME", "X"],
    "store.max-size": ["none", "10G"],
    "remote.push": ["off", "daily", "on-idle"],
    "query.color": ["auto", "never"],
    "query.pager": ["less -S", "", "cat", "x=y z"],
    "secrets.patterns": ["lab=<word>", r"\bacme-[0-9]"],
}
ADDS = {"archive.ignore", "archive.archive-read", "record.environment", "secrets.patterns"}


@pytest.fixture
def path(sandbox):
    return f"{sandbox.home}/.config/shfs/config.ini"


def put(sandbox, path, text):
    sandbox.write_outside(path, text)


def text_of(sandbox, path):
    return sandbox.run("cat", path).stdout_bytes


def listed(sandbox):
    """Key: its values in force."""
    keys = json.loads(sandbox.shfs("config", "list", "--json").stdout)["keys"]
    return {key["key"]: [value["value"] for value in key["values"]] for key in keys}


def test_lists_defaults_and_origins(sandbox, path):
    put(sandbox, path, "[archive]\n; a comment\nignore = *.a ; why\n  *.b\nwait = 7\n")
    lines = sandbox.shfs("config").stdout.splitlines()
    assert {"archive.ignore=*.a", "archive.ignore=*.b", "archive.wait=7", "archive.max-size=16M"} <= {*lines}
    assert lines == sandbox.shfs("config", "list").stdout.splitlines()
    origins = sandbox.shfs("config", "list", "--show-origin").stdout.splitlines()
    assert f"{path}:4\tarchive.ignore=*.b" in origins and f"{path}:5\tarchive.wait=7" in origins
    assert "default\tarchive.max-size=16M" in origins
    assert sandbox.shfs("config", "get", "archive.ignore").stdout == "*.a\n*.b\n"
    assert sandbox.shfs("config", "get", "archive.compression").stdout == "3\n"
    assert sandbox.shfs("config", "get", "query.pager", check=3).stdout == ""


@pytest.mark.parametrize(
    "args, message",
    [
        (["get", "archive.max-siez"], "there is no key archive.max-siez"),
        (["get", "max-size"], "there is no key max-size"),
        (["set", "--", "archive.wait", "-1"], 'archive.wait: bad value "-1"'),
        (["set", "query.color", "yes"], 'query.color: bad value "yes"'),
        (["add", "archive.wait", "1"], "archive.wait has one value only"),
        (["set", "archive.ignore", "a\nb"], "the value cannot stand in a configuration file"),
        (["set", "archive.ignore", "a ; b"], "the value cannot stand in a configuration file"),
        (["set", "query.pager", "x" * 300], "the value cannot stand in a configuration file"),
        (["set", "archive.wait"], "shfs config set wants a key and a value"),
        (["frob"], "shfs config takes add, describe, get, list, set or unset"),
    ],
)
def test_refuses(sandbox, path, args, message):
    before = text_of(sandbox, path)
    result = sandbox.shfs("config", *args, check=2)
    assert result.stdout == "" and f"shfs: {message}\n" in result.stderr
    assert text_of(sandbox, path) == before


def test_says_what_it_means_and_when_it_is_taken_up(sandbox):
    assert "did you mean archive.max-size?" in sandbox.shfs("config", "get", "archive.max-siez", check=2).stderr
    assert "taken up by a mount, when it is mounted again" in sandbox.shfs("config", "set", "archive.wait", "5").stderr
    assert sandbox.shfs("config", "set", "query.color", "never").stderr == ""


def test_keeps_permissions_links_and_a_file_that_is_missing(sandbox, path):
    real = f"{sandbox.home}/dotfiles"
    put(sandbox, real, "[archive]\nwait = 5\n")
    sandbox.sh('chmod 640 "$1"; ln -sf "$1" "$2"', real, path)
    sandbox.shfs("config", "set", "archive.wait", "6")
    assert text_of(sandbox, real) == b"[archive]\nwait = 6\n"
    assert os.path.islink(path) and stat.S_IMODE(os.stat(real).st_mode) == 0o640
    sandbox.sh('rm -r "$1"', os.path.dirname(path))
    sandbox.shfs("config", "set", "archive.wait", "8")
    assert text_of(sandbox, path) == b"[archive]\nwait = 8\n"
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600


def test_two_at_once_are_both_kept(sandbox, path):
    put(sandbox, path, "")
    run = os.path.join(harness.PREFIX, "bin/shfs")
    sandbox.sh('for i in 1 2 3 4 5 6 7 8; do "$1" config add archive.ignore "$i" & done; wait', run)
    assert sorted(listed(sandbox)["archive.ignore"]) == list("12345678")


def test_a_set_is_in_force(sandbox):
    sandbox.shfs("config", "add", "archive.ignore", "*.skip")
    mount = sandbox.mount()
    sandbox.sh("echo a > a.skip; echo b > b.keep")
    mount.unmount()
    assert "not archived" in sandbox.shfs("log", "a.skip").stdout
    assert "not archived" not in sandbox.shfs("log", "b.keep").stdout


def test_removes_one_of_several(sandbox, path):
    put(sandbox, path, "[archive]\nwait = 1\nignore = a ; the first\n  b\n  c\n# end\n")
    sandbox.shfs("config", "unset", "archive.ignore", "a")
    assert text_of(sandbox, path) == b"[archive]\nwait = 1\nignore = b\n  c\n# end\n"
    sandbox.shfs("config", "unset", "archive.ignore", "c")
    assert text_of(sandbox, path) == b"[archive]\nwait = 1\nignore = b\n# end\n"
    sandbox.shfs("config", "set", "archive.ignore", "d")
    assert text_of(sandbox, path) == b"[archive]\nwait = 1\nignore = d\n# end\n"
    sandbox.shfs("config", "unset", "archive.ignore")
    assert text_of(sandbox, path) == b"[archive]\nwait = 1\n# end\n"
    sandbox.shfs("config", "unset", "archive.ignore", check=3)
    # in a line that continues, a comment is a part of the value: it would not be in a line of its own
    put(sandbox, path, "[archive]\nignore = a\n  b ; c\n")
    assert "edit the file by hand" in sandbox.shfs("config", "unset", "archive.ignore", "a", check=4).stderr
    assert listed(sandbox)["archive.ignore"] == ["a", "b ; c"]


# --- random files ---


def random_text(rng):
    """A configuration with all that can stand in one: also comments, odd blanks, and lines that are wrong."""
    lines = [rng.choice(["", "\ufeff"])] if rng.random() < 0.2 else []
    for _ in range(rng.randrange(12)):
        section = rng.choice([*{key.split(".")[0] for key in KEYS}, "unknown", "Archive"])
        lines.append(rng.choice(["[{}]", "[{}] ; why", "[{}] "]).format(section))
        for _ in range(rng.randrange(5)):
            key = rng.choice([key for key in KEYS if key.startswith(section + ".")] or ["unknown.odd"])
            value = rng.choice(KEYS.get(key, ["1"]) + ["bad value"])
            form = rng.choice(["{} = {}", "{}={}", "{}:{}", "{}  :\t{} ", "{} = {} ; a comment", "{} =   {}\t;x = y"])
            lines.append(form.format(key.split(".")[1], value))
            for _ in range(rng.choice([0, 0, 0, 1, 2])):
                lines.append(rng.choice(["  more{}", "\tmore {} ; why", " # no {}", "", "   "]).format(rng.randrange(9)))
            lines.append(rng.choice(["# wait = 3", "; ignore = x", "", "nonsense", "x" * 250, " ", "ä = ü", "[broken"]))
    end = rng.choice(["\n", "\n", "\r\n"])
    return end.join(lines) + rng.choice(["", end, end + end])


def one_line_apart(before, after, key, value):
    """The one line (if any) that went, and the one that came: all the rest is byte for byte the same."""
    old, new = before.split(b"\n"), after.split(b"\n")
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and old[len(old) - 1 - end] == new[len(new) - 1 - end]:
        end += 1
    gone, come = old[start : len(old) - end], new[start : len(new) - end]
    name = key.split(".")[1].encode()
    assert value.encode() in b"\n".join(come) or before == after
    assert len(gone) <= 1, (gone, come)
    if len(gone) == 1 and gone[0].strip():  # a value in its place: what stands around it stays
        assert len(come) == 1 or (come[0] == gone[0] and len(old) == start + 1), (gone, come)
    else:
        assert len(come) <= 4 and all(re.match(rb"^\s*$|\[|" + re.escape(name) + b" = ", line) for line in come), come


@pytest.mark.parametrize("seed", SEEDS)
def test_random_files(sandbox, path, seed):
    rng = random.Random(seed)
    for _ in range(25):
        put(sandbox, path, random_text(rng))
        before, all_before = text_of(sandbox, path), listed(sandbox)
        key = rng.choice([*KEYS])
        value = rng.choice(KEYS[key])
        result = sandbox.shfs("config", "set", "--", key, value, check=False)
        after = text_of(sandbox, path)
        if result.status == 2:  # several values: nothing is chosen for the user
            assert key in ADDS and after == before and "has several values" in result.stderr
            result = sandbox.shfs("config", "add", "--", key, value)
            after = text_of(sandbox, path)
            assert listed(sandbox)[key][-1] == value
        else:
            assert result.status == 0, (result, before)
            assert sandbox.shfs("config", "get", key).stdout == value + "\n", (before, after)
        one_line_apart(before, after, key, value)
        now = listed(sandbox)
        assert {k: v for k, v in now.items() if k != key} == {k: v for k, v in all_before.items() if k != key}
        sandbox.shfs("config", "unset", key)
        default = listed(sandbox)[key]
        assert default == sandbox_defaults(sandbox)[key]
        rest = {k: v for k, v in listed(sandbox).items() if k != key}
        assert rest == {k: v for k, v in all_before.items() if k != key}


def sandbox_defaults(sandbox):
    empty = f"{sandbox.home}/empty.ini"
    sandbox.write_outside(empty, "")
    keys = json.loads(sandbox.shfs("--config", empty, "config", "list", "--json").stdout)["keys"]
    return {key["key"]: [value["value"] for value in key["values"]] for key in keys}


def test_random_bytes(sandbox, path):
    """Whatever stands there: it is changed as it should be, or not at all."""
    rng = random.Random(5)
    for _ in range(60):
        data = bytes(rng.choice(b"[]=:; \n\n#\tarchivewait-5\0\xff\xef\xbb\xbf\r") for _ in range(rng.randrange(120)))
        sandbox.run("sh", "-c", 'cat > "$1"', "sh", path, input=data)
        result = sandbox.shfs("config", "set", "archive.wait", "77", check=False)
        if result.status == 0:
            assert sandbox.shfs("config", "get", "archive.wait").stdout == "77\n", data
        else:
            assert result.status == 2 and text_of(sandbox, path) == data


# --- one place for each fact ---


def test_pages_have_the_defaults(sandbox):
    """docs/config.md says of each key what describe says."""
    described = re.findall(r"^(\w+)\.([\w-]+) = (\S+)(?: \((\S+)\))?$", sandbox.shfs("config", "describe").stdout, re.M)
    with open(f"{ROOT}/docs/config.md", encoding="utf-8") as file:
        page = file.read()
    assert len(described) > 20
    for section, key, _, default in described:
        part = re.search(rf"^## \[{section}\]\n(.*?)(?=^## )", page, re.S | re.M)[1]
        row = re.search(rf"^\| `{key}` \| (.*?) \| (.*?) \|", part, re.M)
        assert row[2].strip("`") == (default or row[2].strip("`")), (section, key)
        if not default:
            assert row[2] in ("none", "unset"), (section, key)


def test_completes_keys_and_values(sandbox):
    keys = sandbox.shfs("complete", "--", "config", "get", "archive.max").stdout
    assert re.findall(r"^\S+", keys, re.M) == ["archive.max-size", "archive.max-read-size"]
    values = sandbox.shfs("complete", "--", "config", "set", "remote.push", "").stdout
    assert values.split() == ["off", "daily", "on-idle"]
