# SPDX-License-Identifier: MIT
"""Aliases and functions that typed lines use: noted by the hook, run again, exported, forgotten."""

import json
import os

import pytest

from harness import contents, ids_of
from test_export import Export
from test_hook import hook_dir

pytestmark = pytest.mark.either

DATA = b"cherry\napple\nbanana\n"

# name: (lines before, the line; what it prints goes to a file)
COMMON = {
    "alias": (["alias bt='sort -r'"], "bt data.txt"),
    "function": (['top() { sort "$1" | head -n 2; }'], "top data.txt"),
    "function of function and alias": (
        ["alias cnt='wc -l'", 'inner() { sed s/a/b/ "$1"; }', 'outer() { inner "$1" | cnt; }'],
        "outer data.txt",
    ),
    "alias of alias": (["alias bb='sort -r'", "alias aa='bb -u'"], "aa data.txt"),
    "alias of function": (["deep() { tac data.txt; }", "alias dd='deep'"], "dd"),
    "alias of itself": (["alias sort='sort -r'"], "sort data.txt"),
    "blank at the end": (["alias via='env '", "alias what='sort -r'"], "via what data.txt"),
    "quotes": (["""alias qq='printf "%s\\n" "it'\\''s" "a  b"'"""], "qq"),
    "lines": (["alias ll=$'echo a\\necho b'"], "ll"),
    "bytes": (["alias by=$'printf \"%s\" \"ä \\xff\\xfe\"'"], "by"),
    "bytes in a function": (["fb() { printf '%s' $'ä \\xff' 'ö'; }"], "fb"),
    "document in a function": (["fd() { cat <<E\nit's $1\nE\n}"], "fd x"),
    "dash in a name": (["alias a-b='sort -r'"], "a-b data.txt"),
    "odd name": (["alias '['='tac'"], "[ data.txt"),
    "function of a program's name": (['tac() { sort -r "$@"; }'], "tac data.txt"),
    "pipe": (["alias p1='sort -r'"], "cat data.txt | p1"),
    "list": (["alias l1='echo one'", "l2() { echo two; }"], "{ true && l1; l2; }"),
    "subshell": (["alias s1='sort -r data.txt'"], "(s1)"),
    "loop": (["alias lo='sort -r'"], "for f in data.txt; do lo $f; done"),
    "condition": (["yes1() { true; }", "alias ec='echo yes'"], "if yes1; then ec; fi"),
    "negation": (["no1() { false; }"], "! no1 && echo done"),
    "substitution": (["su() { tail -n 1 data.txt; }"], 'echo "$(su)" `su` ${x:-$(su)}'),
    "assignment": (["alias as='sort -r'"], 'A="b c" as data.txt'),
    "eval": (["alias ev='sort -r'"], "eval 'ev data.txt'"),
    "redirection first": (["alias re='sort -r'"], "<data.txt 2>/dev/null re"),
    "document": (["alias do='sort -r'", "f3() { cat; }"], "sort -r <<E; f3 <data.txt\nb\ndon't\n$(f3 <data.txt)\nE"),
    "shift in an expression": (["alias sx='sort -r'"], "y=2; ((z = 1 << $y)); echo $((z << $y)) 'a << $y'; sx data.txt"),
    "closed descriptor": (["alias cl='sort -r'"], "cat data.txt 2>&-|cl"),
    "other definitions in between": (["alias ot='sort -r'", "alias ot2='tac'"], "ot data.txt | ot2"),
}
BASH = {
    "comment": (["alias co='sort -r'"], "true # don't\nco data.txt"),
    "exported": (["ex() { sort -r data.txt; }", "export -f ex"], "bash -c 'ex; ex'"),
    "globs": (["shopt -s extglob globstar"], "cat !(data).txt **/deep.txt"),
    "defined differently": (["function fu { sort -r data.txt; }"], "fu"),
    "pipefail": (["set -o pipefail"], "false | cat data.txt"),
    "aliases off": (["of() { sort -r data.txt; }", "alias of='tac'", "shopt -u expand_aliases"], "of"),
}
ZSH = {
    "comment": (["setopt interactivecomments", "alias co='sort -r'"], "true # don't\nco data.txt"),
    "global": (["alias -g G='| sort -r'"], "cat data.txt G"),
    "suffix": (["alias -s txt='sort -r'"], "./data.txt"),
    "globs": (["setopt extendedglob"], "cat ^(data.txt|made*)(.)"),
    "group": (["alias gr='sort -r data.txt'"], "{gr}"),
    "precommand": (["ng() { sort -r data.txt; }"], "noglob ng"),
}
UNDO = {
    "bash": "shopt -u globstar; set +o pipefail; shopt -s expand_aliases; unalias -a;"
    " unset -f top inner outer deep fb fd tac l2 yes1 no1 su f3 ex fu of",
    "zsh": "unalias -m '*'; unalias -sm '*'; setopt noextendedglob nointeractivecomments;"
    " unfunction top inner outer deep fb fd tac l2 yes1 no1 su f3 ng; true",
}


@pytest.fixture(params=["bash", "zsh"])
def kind(request):
    return request.param


@pytest.fixture
def typed(sandbox, mounted, shell, kind):
    """A shell of that kind in a project with data.txt."""
    sandbox.write("data.txt", DATA)
    sandbox.write("other.txt", b"other\n")
    sandbox.sh("mkdir sub; echo deep > sub/deep.txt")
    return shell(kind)


def commands(sandbox):
    """The latest one first."""
    found = json.loads(sandbox.shfs("history", "--json", "--all").stdout)["commands"]
    return [c for c in found if c["id"]]


def show(sandbox, ident):
    return json.loads(sandbox.shfs("show", "--json", ident).stdout)


def definitions(sandbox, ident):
    return {d["name"]: d["text"] for d in show(sandbox, ident)["definitions"] if "name" in d and "text" in d}


def logs(sandbox):
    found = b""
    for name in os.listdir(hook_dir(sandbox)):
        if name.startswith("shell-"):
            with open(os.path.join(hook_dir(sandbox), name), "rb") as log:
                found += log.read()
    return found


def rerun(sandbox, ident, check=0):
    return sandbox.shfs("rerun", "--yes", "--command", ident, check=check)


@pytest.mark.users("ordinary")
def test_run_again_and_exported(typed, sandbox, kind):
    """Lines of each kind in one shell; then, with all of it undefined, they are run again and exported,
    and give the same bytes."""
    cases = {**COMMON, **(BASH if kind == "bash" else ZSH)}
    made, texts = {}, {}
    for i, (name, (before, line)) in enumerate(cases.items()):
        for text in before:
            typed.run(text)
        texts[name] = f"{{ {line}" + ("\n" if "<<" in line else "; ") + f"}} > made-{i}"
        typed.run(texts[name])
        typed.run(UNDO[kind])
        made[name] = (f"made-{i}", sandbox.read(f"made-{i}"))
    assert all(content for _, content in made.values()), {n: c for n, c in made.items() if not c[1]}
    ids = {c["text"]: c["id"] for c in commands(sandbox)}
    for name, (path, content) in made.items():
        sandbox.sh(f"rm -f {path}")
        done = rerun(sandbox, ids[texts[name]], check=False)
        assert done.status == 0, (name, done)
        assert sandbox.read(path) == content, name
        # the run that was a rerun is run again, too
        sandbox.sh(f"rm -f {path}")
        again = ids_of(sandbox, texts[name])[-1]
        assert again != ids[texts[name]]
        assert rerun(sandbox, again, check=False).status == 0 and sandbox.read(path) == content, name
    # from one script, in an empty directory
    script, top = (os.path.join(sandbox.path, name) for name in ("all.sh", "again"))
    sandbox.shfs("export", "sh", "-o", script, *(path for path, _ in made.values()))
    sandbox.run("bash", script, sandbox.mkdir(top), cwd="/")
    there = contents(top)
    assert {path: there[path] for path, _ in made.values()} == dict(made.values())


@pytest.mark.parametrize("name", ["make", "snakemake", "cwl"])
def test_other_exports(typed, sandbox, kind, name):
    typed.run("alias bt='sort -r'")
    typed.run('top() { sort "$1" | head -n 2; }')
    typed.run("top data.txt > a; bt data.txt >> a")
    typed.run("bt a > b")
    there = Export(sandbox, name).run("b")
    assert there["b"] == sandbox.read("b") == b"cherry\nbanana\nbanana\napple\napple\n"


@pytest.mark.users("ordinary")
def test_redefined_between_lines(typed, sandbox):
    typed.run("alias r='echo one'")
    typed.run("r > a")
    typed.run("alias r='echo two'")
    typed.run("r > b")
    typed.run("unalias r")
    typed.run("r() { echo three; }")
    typed.run("r > c")
    for name, content in (("a", b"one\n"), ("b", b"two\n"), ("c", b"three\n")):
        sandbox.sh(f"rm -f {name}")
        rerun(sandbox, ids_of(sandbox, f"r > {name}")[-1])
        assert sandbox.read(name) == content


def test_shown(typed, sandbox, kind):
    typed.run("alias bt='sort -r'")
    typed.run("top() { bt data.txt\nhead -n 1 other.txt; }")
    typed.run("top > a; echo bt > b")
    ident = ids_of(sandbox, "top > a; echo bt > b")[-1]
    shown = sandbox.shfs("show", ident).stdout
    assert "from its shell" in shown and "top () {" in shown and "alias bt" not in shown
    assert shown.count("\n") < sandbox.shfs("show", "--full", ident).stdout.count("\n")
    [definition] = [d for d in show(sandbox, ident)["definitions"] if d["kind"] != "options"]
    assert definition["kind"] == "function" and "head -n 1 other.txt" in definition["text"]
    typed.run("cat data.txt > c")
    assert show(sandbox, ids_of(sandbox, "cat data.txt > c")[-1])["definitions"] == []


def test_noted_once(typed, sandbox):
    typed.run("alias bt='sort -r -k 1,1'")
    for i in range(5):
        typed.run(f"bt data.txt > a{i}")
    assert logs(sandbox).count(b"sort -r -k 1,1") == 2  # the line that defines it, and once
    for i in range(5):
        assert definitions(sandbox, ids_of(sandbox, f"bt data.txt > a{i}")[-1]) == {"bt": "sort -r -k 1,1"}


def test_secret_in_a_body(typed, sandbox):
    typed.run(" alias up='curl -H \"Authorization: Bearer abcdefghijklmnopqrstuvwxyz0123\" x || cat data.txt'")
    typed.run("up > a")
    assert b"abcdefghijklmnop" not in logs(sandbox)
    before = contents(sandbox.project)
    refused = rerun(sandbox, ids_of(sandbox, "up > a")[-1], check=4)
    assert "a secret in it was not kept" in refused.stderr
    assert contents(sandbox.project) == before
    shown = show(sandbox, ids_of(sandbox, "up > a")[-1])["definitions"]
    assert "[redacted]" in shown[0]["text"] and shown[0]["redacted"]


def test_too_long(typed, sandbox, kind):
    """Of a megabyte: not known, and that is told, in a moment."""
    sandbox.write("../big.sh", b"big() {\ncat data.txt\n" + b"true 0123456789\n" * 2000 + b"true " + b"9" * 1000000 + b"\n}\n")
    typed.run(" . ../big.sh")
    typed.run("big > a")
    typed.run("big > b")
    typed.run("big() { cat data.txt; }")
    typed.run("big > c")
    assert len(logs(sandbox)) < 100000
    for name in ("a", "b"):
        before = contents(sandbox.project)
        refused = rerun(sandbox, ids_of(sandbox, f"big > {name}")[-1], check=4)
        assert "big, an alias or a function whose text is not recorded" in refused.stderr
        assert contents(sandbox.project) == before
        assert sandbox.shfs("export", "sh", name, check=False).stderr.count("whose text is not recorded") == 1
    rerun(sandbox, ids_of(sandbox, "big > c")[-1])


def test_many(typed, sandbox, kind):
    """Further ones than are noted: that is told."""
    typed.run(" for i in $(seq 100); do eval \"alias x$i='cat data.txt'\"; done")
    typed.run("; ".join(f"x{i}" for i in range(1, 101)) + " > a")
    refused = sandbox.shfs("rerun", "--yes", "--command", commands(sandbox)[0]["id"], check=4)
    assert "more aliases or functions than are recorded" in refused.stderr
    assert len(show(sandbox, commands(sandbox)[0]["id"])["definitions"]) == 64


@pytest.mark.parametrize("body", ["vim -es +wq data.txt", "git --version"])
def test_what_does_not_run_again(typed, sandbox, body):
    typed.run(f"alias al='{body}'")
    typed.run("al; cat data.txt > a")
    before = contents(sandbox.project)
    rerun(sandbox, ids_of(sandbox, "al; cat data.txt > a")[-1], check=4)
    assert contents(sandbox.project) == before


def test_variables_of_a_body(typed, sandbox):
    typed.run(" hidden=data.txt")
    typed.run("alias va='cat $hidden'")
    typed.run("va > a")
    refused = rerun(sandbox, ids_of(sandbox, "va > a")[-1], check=4)
    assert "runs va, which uses the variable hidden" in refused.stderr


def test_history_expansion(typed, sandbox, kind):
    typed.run("alias bt='sort -r'")
    typed.run("bt data.txt > a")
    typed.run("!!")
    typed.run("!!:s/> a/> b/")
    found = [c["text"] for c in commands(sandbox)][:3]
    assert found[1:] == ["bt data.txt > a"] * 2 and "!" not in found[0]
    content = sandbox.read("b" if found[0].endswith("> b") else "a")
    rerun(sandbox, commands(sandbox)[0]["id"])
    assert content == b"cherry\nbanana\napple\n"


def test_forgotten(typed, sandbox, kind):
    """A body stays while a command that stays used it; then it is noted again."""
    typed.run(" alias bt='sort -r -k 7,7'")
    typed.run("bt data.txt > a")
    typed.run("bt data.txt > b")
    sandbox.shfs("forget", "--yes", "--command", ids_of(sandbox, "bt data.txt > a")[-1])
    assert logs(sandbox).count(b"-k 7,7") == 1
    assert definitions(sandbox, ids_of(sandbox, "bt data.txt > b")[-1]) == {"bt": "sort -r -k 7,7"}
    sandbox.shfs("forget", "--yes", "--command", ids_of(sandbox, "bt data.txt > b")[-1])
    assert b"-k 7,7" not in logs(sandbox)
    index = b"".join(open(os.path.join(sandbox.store, n), "rb").read() for n in os.listdir(sandbox.store) if "index" in n)
    assert b"-k 7,7" not in index
    typed.run("bt data.txt > c")
    assert definitions(sandbox, ids_of(sandbox, "bt data.txt > c")[-1]) == {"bt": "sort -r -k 7,7"}
    sandbox.shfs("reindex")
    assert definitions(sandbox, ids_of(sandbox, "bt data.txt > c")[-1]) == {"bt": "sort -r -k 7,7"}
    sandbox.shfs("check")


def test_forgotten_by_a_word(typed, sandbox):
    """What no pattern took out of a body is found, and forgotten with what used it."""
    typed.run(" alias pw='true hunter2; cat data.txt'")
    typed.run("pw > a")
    typed.run("cat data.txt > b")
    assert b"hunter2" in logs(sandbox)
    sandbox.shfs("forget", "--yes", "--grep", "hunter2")
    assert b"hunter2" not in logs(sandbox)
    assert [c["text"] for c in commands(sandbox) if c["text"]] == ["cat data.txt > b"]


def test_archives_of_a_part(typed, sandbox):
    """They have the bodies of what they have, and no others."""
    typed.run(" alias one='sort -r -k 3,3'")
    typed.run(" alias two='sort -r -k 4,4'")
    sandbox.sh("mkdir x y")
    typed.run("one data.txt > x/a")
    typed.run("two data.txt > y/b")
    sandbox.shfs("export", "tar", "-o", "../part.tar", "x")
    part = sandbox.sh("tar --zstd -xOf ../part.tar").stdout
    assert "-k 3,3" in part and "-k 4,4" not in part
    sandbox.shfs("--store", "../new", "import", "../part.tar")
    ident = next(
        c["id"]
        for c in json.loads(sandbox.shfs("--store", "../new", "history", "--json", "--all").stdout)["commands"]
        if c["text"] == "one data.txt > x/a"
    )
    shown = json.loads(sandbox.shfs("--store", "../new", "show", "--json", ident).stdout)
    assert {d["name"]: d["text"] for d in shown["definitions"]} == {"one": "sort -r -k 3,3"}


def test_log_that_was_removed(typed, sandbox):
    """The log that is begun again has the bodies, too."""
    typed.run("alias bt='sort -r -k 5,5'")
    typed.run("bt data.txt > a")
    typed.run(f"bt data.txt > b; rm {hook_dir(sandbox)}/shell-*.log")
    typed.run("bt data.txt > c")
    assert logs(sandbox).count(b"-k 5,5") == 1
    for name in ("b; rm", "c"):
        ident = next(c["id"] for c in commands(sandbox) if c["text"].startswith(f"bt data.txt > {name}"))
        assert definitions(sandbox, ident) == {"bt": "sort -r -k 5,5"}
