# SPDX-License-Identifier: MIT
"""compare: where two runs began to differ, of commands typed into real shells."""

import json
import re

import pytest

from analysis import SORT
from harness import ids_of

pytestmark = pytest.mark.either


@pytest.fixture
def study(work):
    """Two runs: in between the configuration was edited, so that top.txt has two versions."""
    for edit in "true", "sed -i s/3/5/ config.yaml":
        work.run(edit)
        work.run("sh run.sh")
        work.run(SORT)
    return work


def compare(sandbox, *args, check=1):
    """[(texts, {(what, first, second, explained)})] of the stages."""

    def short(side):
        if isinstance(side, dict):
            return f"{side['path'].removeprefix(sandbox.project + '/')}@{side['n']}"
        return side

    found = json.loads(sandbox.shfs("compare", "--json", *args, check=check).stdout)
    assert found["same"] == (check == 0)
    return [
        (
            [c["text"] for c in stage["commands"]],
            [(d["what"], short(d["first"]), short(d["second"]), d["explained"]) for d in stage["differences"]],
        )
        for stage in found["stages"]
    ]


STUDY = [
    (["sh run.sh"] * 2, [("input", "config.yaml@1", "config.yaml@2", False), ("result", "out.csv@1", "out.csv@2", True)]),
    ([SORT] * 2, [("input", "out.csv@1", "out.csv@2", True), ("result", "top.txt@1", "top.txt@2", True)]),
]


def test_up_the_chain(study, sandbox):
    assert compare(sandbox, "top.txt@1", "top.txt@2") == STUDY
    assert compare(sandbox, *ids_of(sandbox, SORT)) == STUDY
    assert compare(sandbox, "out.csv@1", "out.csv@2") == STUDY[:1]


def test_what_it_shows(study, sandbox):
    shown = sandbox.shfs("compare", "top.txt@1", "top.txt@2", check=1).stdout
    shown = re.sub(r"\b[0-9a-f]{7}\b", "ID", re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "TIME", shown))
    assert shown.splitlines() == [
        "- ID  sh run.sh",
        "           TIME  in ~/project",
        "+ ID  sh run.sh",
        "           TIME  in ~/project",
        "",
        "Earliest difference: what it read",
        "--- config.yaml@1\tTIME",
        "+++ config.yaml@2\tTIME",
        "@@ -1,2 +1,2 @@",
        "-rate: 3",
        "+rate: 5",
        " model: linear",
        "",
        "What followed",
        "  result out.csv@1  out.csv@2",
        "",
        f"ID  ID  {SORT}",
        "  input  out.csv@1  out.csv@2",
        "  result top.txt@1  top.txt@2",
    ]


@pytest.mark.both
def test_the_same(study, sandbox):
    study.run("sed -i s/5/3/ config.yaml; touch data/in.csv")
    study.run("sh run.sh")
    runs = ids_of(sandbox, "sh run.sh")
    assert compare(sandbox, runs[0], runs[2], check=0) == [(["sh run.sh"] * 2, [])]
    assert sandbox.shfs("compare", runs[0], runs[2]).stdout.endswith("\nthe same\n")
    assert "both are the same run" in sandbox.shfs("compare", runs[0], "out.csv@1", check=2).stderr


def test_a_rerun(study, sandbox):
    first = ids_of(sandbox, SORT)[1]
    sandbox.shfs("rerun", "--command", first)
    assert compare(sandbox, *ids_of(sandbox, SORT)[1:], check=0) == [([SORT] * 2, [])]


def test_command_lines(study, sandbox):
    study.run("sort -n out.csv > top.txt")
    stages = compare(sandbox, "top.txt@2", "top.txt@3")
    assert stages == [([SORT, "sort -n out.csv > top.txt"], [
        ("text", SORT, "sort -n out.csv > top.txt", False), ("result", "top.txt@2", "top.txt@3", True),
    ])]  # fmt: skip
    shown = sandbox.shfs("compare", "top.txt@2", "top.txt@3", check=1).stdout
    assert "Earliest difference: the command" in shown
    assert f"\n-{SORT}\n+sort -n out.csv > top.txt\n" in shown
    # another text, of which the input changed before
    stages = compare(sandbox, "top.txt@1", "top.txt@3")
    assert [s[0] for s in stages] == [["sh run.sh"] * 2, [SORT, "sort -n out.csv > top.txt"]]
    assert [d[0] for d in stages[1][1] if not d[3]] == ["text"]


@pytest.mark.users("ordinary")
def test_directories(work, sandbox):
    work.run("mkdir a b; cp data/in.csv a/in; seq 4 > b/in")
    for name in "a", "b":
        work.run(f"cd {name}")
        work.run("sort -r in > out; cat ../config.yaml > conf")
        work.run("cd ..")
    [(_, differences)] = compare(sandbox, *ids_of(sandbox, "sort -r in > out; cat ../config.yaml > conf"))
    assert differences == [
        ("cwd", f"{sandbox.project}/a", f"{sandbox.project}/b", False), ("input", "a/in@1", "b/in@1", False),
        ("result", "a/out@1", "b/out@1", True),
    ]  # fmt: skip
    shown = sandbox.shfs("compare", "a/out", "b/out", check=1).stdout
    assert f"- in {sandbox.project}/a\n+ in {sandbox.project}/b\n" in shown and "+4" in shown


@pytest.mark.users("ordinary")
def test_what_does_not_depend_on_input_alone(work, sandbox):
    text = "{ date +%N; cat data/in.csv; } > now"
    work.run(text)
    work.run(text)
    [(_, differences)] = compare(sandbox, *ids_of(sandbox, text))
    assert [(d[0], d[3]) for d in differences] == [("result", False)]
    shown = sandbox.shfs("compare", *ids_of(sandbox, text), check=1).stdout
    assert "the command depends on something else" in shown and "+++ now@" in shown


@pytest.mark.users("ordinary")
def test_variables_of_the_shell(work, sandbox):
    for n in 1, 2:
        work.run(f"lines={n}")
        work.run("head -n $lines data/in.csv > 'the first'")
    [(_, differences)] = compare(sandbox, "the first@1", "the first@2")
    assert differences == [
        ("arguments", "head -n 1 data/in.csv", None, False), ("arguments", None, "head -n 2 data/in.csv", False),
        ("result", "the first@1", "the first@2", True),
    ]  # fmt: skip
    assert "- called head -n 1 data/in.csv\n+ called head -n 2" in sandbox.shfs(
        "compare", "the first@1", "the first@2", check=1
    ).stdout


@pytest.mark.users("ordinary")
def test_programs_and_shells(work, sandbox, shell):
    work.run("printf '#!/bin/sh\\nsort data/in.csv > out\\n' > prog; chmod +x prog")
    work.run("./prog")
    work.run("printf '#!/bin/sh\\ntac data/in.csv > out\\n' > prog")
    shell("zsh").run("./prog")
    stages = compare(sandbox, "out@1", "out@2")
    differences = stages[1][1]
    assert [d[0] for d in stages[0][1]] == ["text", "program", "result"] or [d[0] for d in stages[0][1]] == ["text", "result"]
    assert [d[0] for d in differences] == ["shell", "program", "program", "input", "result"]
    assert differences[0][1:3] == ("bash", "zsh") and differences[3][1:3] == ("prog@1", "prog@2")
    assert differences[1][1].endswith("/sort") and differences[2][2].endswith("/tac")


@pytest.mark.users("ordinary")
def test_only_one_reads_it_and_statuses(work, sandbox):
    text = "cat data/*.csv > all; [ $(wc -l < all) = 3 ]"
    work.run(text)
    work.run("seq 2 > data/two.csv")
    work.run(text)
    [(_, differences)] = compare(sandbox, *ids_of(sandbox, text))
    assert [d for d in differences if d[0] != "program"] == [
        ("input", None, "data/two.csv@1", False), ("status", 0, 1, True), ("result", "all@1", "all@2", True),
    ]  # fmt: skip
    assert "+ read data/two.csv@1" in sandbox.shfs("compare", "all@1", "all@2", check=1).stdout


@pytest.mark.users("ordinary")
def test_through_renames(work, sandbox):
    for n in 1, 2:
        work.run(f"seq {n} > in")
        work.run("sort in > out.new")
        work.run("mv out.new out")
        work.run("cat out > end")
    stages = compare(sandbox, "end@1", "end@2")
    assert stages[0] == (["seq 1 > in", "seq 2 > in"], [
        ("text", "seq 1 > in", "seq 2 > in", False), ("result", "in@1", "in@2", True),
    ])  # fmt: skip
    assert all(d[3] for _, differences in stages[1:] for d in differences)
    assert stages[-1][0] == ["cat out > end"] * 2


@pytest.mark.users("ordinary")
def test_a_long_chain(work, sandbox):
    """Also in circles: files that are rewritten by turns."""
    for n in 1, 2:
        work.run(f"echo {n} > a; sleep 0.01")
        for _ in range(10):
            work.run("cat a > b")
            work.run("cat b b > a")
    stages = compare(sandbox, "a@11", "a@22")
    assert len(stages) == 21 and [d[0] for d in stages[0][1] if not d[3]] == ["text"]


@pytest.mark.users("ordinary")
def test_hostile_names(work, sandbox):
    name = "a 'b\"\n$(touch pwned)\x1b[31m\udcff"
    quoted = "".join(f"\\{b:03o}" for b in name.encode("utf-8", "surrogateescape"))
    for n in 1, 2:
        sandbox.sh(f"echo {n} > \"$(printf '{quoted}')\"")
        work.run(f"sort ./$'{quoted}' > out")
    run = sandbox.shfs("compare", "out@1", "out@2", check=1)
    assert "\x1b" not in run.stdout and "pwned)\\e[31m" in run.stdout and "-1\n+2\n" in run.stdout
    [(_, differences)] = compare(sandbox, "out@1", "out@2")
    assert differences[0][1] == f"{name}@1"


@pytest.mark.users("ordinary")
def test_what_cannot_be_compared(study, sandbox):
    assert "was not made by a recorded command" in sandbox.shfs("compare", "model.awk", "out.csv", check=3).stderr or (
        "without a command" in sandbox.shfs("compare", "model.awk", "out.csv", check=3).stderr
    )
    assert "no command's id begins" in sandbox.shfs("compare", "ffffffff", "out.csv", check=3).stderr
    sandbox.shfs("compare", "out.csv", check=2)
    sandbox.shfs("compare", "out.csv@1", "out.csv@9", check=3)


@pytest.mark.users("ordinary")
def test_contents_that_are_not_archived(sandbox, mount, shell):
    sandbox.write_outside(f"{sandbox.home}/.config/shfs/config.ini", "[archive]\nmax-size = 1000\nmax-read-size = 1000\n")
    mount()
    bash = shell()
    for n in 1000, 2000:
        bash.run(f"seq {n} > big")
        bash.run("wc -l < big > end")
    stages = compare(sandbox, "end@1", "end@2")
    assert [s[0][0] for s in stages] == ["seq 1000 > big", "wc -l < big > end"]
    assert "text" in [d[0] for d in stages[0][1]]
    shown = sandbox.shfs("compare", "end@1", "end@2", check=1).stdout
    assert "-seq 1000 > big" in shown and "result big@1  big@2" in shown


@pytest.mark.users("ordinary")
def test_completion(study, sandbox):
    sandbox.shfs("sync")
    offered = sandbox.shfs("complete", "--", "compare", "out.csv@1", "out.csv@").stdout.split("\n")
    assert offered[0] == ":behind @" and len(offered) == 4
    first = ids_of(sandbox, SORT)[0]
    assert first[:7] in sandbox.shfs("complete", "--", "compare", first[:5]).stdout


@pytest.mark.users("ordinary")
def test_by_way_of_a_file_outside(sandbox, mount, shell):
    """The earliest difference is found through what a command left where nothing is recorded."""
    sandbox.sh("seq 30 > in; seq 5 > other")
    mount()
    bash = shell()
    lines = "sort -r in > $TMPDIR/x", "cat $TMPDIR/x other > $TMPDIR/y", "head -4 $TMPDIR/y > top", "rev top > end"
    for edit in "true", "sed -i s/30/7/ in":
        for line in (edit, *lines, "sort -R $TMPDIR/y > random; rev random > mixed"):
            bash.run(line)
    outside = f"{sandbox.path}/tmp/"
    assert compare(sandbox, "end@1", "end@2") == [
        ([lines[0]] * 2, [("input", "in@1", "in@2", False), ("result", f"{outside}x@1", f"{outside}x@2", True)]),
        ([lines[1]] * 2, [("input", f"{outside}x@1", f"{outside}x@2", True), ("result", f"{outside}y@1", f"{outside}y@2", True)]),
        ([lines[2]] * 2, [("input", f"{outside}y@1", f"{outside}y@2", True), ("result", "top@1", "top@2", True)]),
        ([lines[3]] * 2, [("input", "top@1", "top@2", True), ("result", "end@1", "end@2", True)]),
    ]
    shown = sandbox.shfs("compare", "end@1", "end@2", check=1).stdout
    assert "Earliest difference: what it read\n--- in@1" in shown and f"result {outside}x@1  {outside}x@2" in shown
    assert [texts[0] for texts, _ in compare(sandbox, "mixed@1", "mixed@2")][:2] == list(lines[:2])


@pytest.mark.users("ordinary")
def test_what_another_command_left_outside(sandbox, mount, shell):
    """Where other commands left it, or the same command something else of the same."""
    sandbox.sh("seq 30 > in; seq 5 > other")
    mount()
    bash = shell()
    for line in ("sort -r in > $TMPDIR/x", "head -4 $TMPDIR/x > top", "rev in > $TMPDIR/x", "head -4 $TMPDIR/x > top",
                 "shuf in > $TMPDIR/r", "head -4 $TMPDIR/r > picked", "shuf in > $TMPDIR/r", "head -4 $TMPDIR/r > picked"):
        bash.run(line)
    outside = f"{sandbox.path}/tmp/"
    assert compare(sandbox, "top@1", "top@2") == \
        [(["head -4 $TMPDIR/x > top"] * 2, [("input", f"{outside}x@1", f"{outside}x@2", False), ("result", "top@1", "top@2", True)])]
    assert compare(sandbox, "picked@1", "picked@2") == [
        (["shuf in > $TMPDIR/r"] * 2, [("result", f"{outside}r@1", f"{outside}r@2", False)]),
        (["head -4 $TMPDIR/r > picked"] * 2, [("input", f"{outside}r@1", f"{outside}r@2", True), ("result", "picked@1", "picked@2", True)]),
    ]
    assert "the results, of the same input" in sandbox.shfs("compare", "picked@1", "picked@2", check=1).stdout
