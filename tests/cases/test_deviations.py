# SPDX-License-Identifier: MIT
"""shfs rerun --with, --env, --arg: what would the result be? Beside the same work done by hand in a plain copy."""

import json
import os
import random

import pytest

from harness import seeds

pytestmark = pytest.mark.users("ordinary")
LINES = ["sort in > mid", "head -n ${N:-3} mid > top", "wc -l < other > count", "cat top count > out", "tr 1-5 a-e < top > letters"]


@pytest.fixture
def work(sandbox, mounted, shell):
    sandbox.sh("seq 20 | shuf --random-source=/usr/bin/true > in; seq 7 > other; seq 100 110 > in2; export LC_ALL=C")
    bash = shell()
    for line in LINES:
        bash.run(line)
    return bash


def deviate(sandbox, *args, check=True):
    """{name: (outcome, bytes)} of what was run in the copy; its texts."""
    result = sandbox.shfs("rerun", "--yes", "--json", "--scratch=../copy", *args, check=check)
    found = json.loads(result.stdout)
    outcomes = {os.path.basename(r["path"]): r["outcome"] for c in found["commands"] for r in c["results"]}
    texts = [c["text"] for c in found["commands"]]
    read = {name: sandbox.sh(f"cat ../copy/{name}", check=False).stdout for name in outcomes}
    sandbox.sh("rm -rf ../copy")
    return outcomes, read, texts


def by_hand(sandbox, before, lines=LINES):
    """{name: bytes} of a plain copy, where the same lines are run."""
    script = "rm -rf ../hand; mkdir ../hand; cp -p in in2 other ../hand; cd ../hand; " + before + "; ".join(["", *lines])
    sandbox.sh(script)
    return {name: sandbox.sh(f"cat ../hand/{name}", check=False).stdout for name in ("mid", "top", "count", "out", "letters")}


def test_another_file(sandbox, work):
    """All that depends on it, and nothing else; the project is as it was."""
    was = sandbox.sh("cat mid top count out letters").stdout
    outcomes, read, texts = deviate(sandbox, "--with", "in=in2", "out", "letters")
    expected = by_hand(sandbox, "cp in2 in")
    assert texts == [LINES[0], LINES[1], LINES[3], LINES[4]]
    assert read == {name: expected[name] for name in ("mid", "top", "out", "letters")}
    assert outcomes == {"mid": "different", "top": "different", "out": "different", "letters": "different"}
    outcomes, read, texts = deviate(sandbox, "--with", "other=in", "--with", "in=in", "out")
    assert outcomes == {"mid": "same", "top": "same", "count": "different", "out": "different"} and LINES[4] not in texts
    # one in the middle: what makes it is not run
    outcomes, read, texts = deviate(sandbox, "--with", "mid=other", "letters")
    assert texts == [LINES[1], LINES[4]] and read["letters"] == "a\nb\nc\n"
    assert sandbox.sh("cat mid top count out letters").stdout == was


def test_a_variable(sandbox, work):
    outcomes, read, texts = deviate(sandbox, "--env", "N=5", "out")
    expected = by_hand(sandbox, "N=5")
    assert texts == LINES[:4] and read["out"] == expected["out"]
    assert outcomes == {"mid": "same", "top": "different", "count": "same", "out": "different"}


def test_other_words(sandbox, work):
    outcomes, read, texts = deviate(sandbox, "--arg", "s/sort/sort -r/", "out")
    expected = by_hand(sandbox, ":", [LINES[0].replace("sort", "sort -r"), *LINES[1:]])
    assert texts == [LINES[0], LINES[1], LINES[3]] and read["out"] == expected["out"] and outcomes["out"] == "different"
    outcomes, read, _ = deviate(sandbox, "--arg", "s|[0-9]+|2|g", "--command", id_of(sandbox, LINES[1]))
    assert list(read) == ["top"] and read["top"].count("\n") == 2
    shown = sandbox.shfs("rerun", "-n", "--arg", "s/sort/sort -r/", "out").stdout
    assert "as sort -r in > mid" in shown


def id_of(sandbox, text):
    found = json.loads(sandbox.shfs("history", "--json").stdout)["commands"]
    return [c["id"] for c in found if c["text"] == text][0]


@pytest.mark.parametrize("args, status, said", [
    (["--with", "in", "out"], 2, "FILE=OTHER"), (["--with", "in=gone", "out"], 3, "gone"), (["--with", "in=.", "out"], 3, "no file"),
    (["--env", "=x", "out"], 2, "NAME=VALUE"), (["--arg", "s/(/x/", "out"], 2, "pattern"), (["--arg", "sort", "out"], 2, "s/PATTERN/TEXT/"),
    (["--arg", "s//x/", "out"], 2, "s/PATTERN/TEXT/"), (["--with", "in=in2"], 2, "which results"), (["--with", "in=in2", "count"], 3, "nothing"),
    (["--arg", "s/nothing/x/", "out"], 3, "nothing"), (["--with", "in=in2", "no-such"], 3, "no-such"),
])  # fmt: skip
def test_bad(sandbox, work, args, status, said):
    result = sandbox.shfs("rerun", "--yes", *args, check=status)
    assert said in result.stderr and not result.stdout


def test_outside(sandbox, work):
    """What lies outside of the copy cannot be replaced there, and that is said."""
    data = sandbox.write_outside(f"{sandbox.home}/data/far", "1\n")
    sandbox.sh("sleep .05")
    work.run(f"cat {data} > near")
    result = sandbox.shfs("rerun", "--yes", "--with", f"{data}=in", "near", check=4)
    assert "where it lies, outside of the copy" in result.stderr


@pytest.mark.parametrize("seed", seeds(4, an_hour=300))
def test_beside_a_full_run(sandbox, mounted, shell, seed):
    """Random steps: each result is what it is where all is run by hand, and what is not run would be the same."""
    chosen = random.Random(seed)
    names = [f"s{n}" for n in range(3)]
    sandbox.sh("; ".join(f"seq {chosen.randint(1, 50)} {chosen.randint(51, 99)} > {name}" for name in names) + "; seq 3 > new")
    made, lines = list(names), []
    for n in range(chosen.randint(3, 8)):
        a, b = chosen.choice(made), chosen.choice(made)
        line = chosen.choice(["sort -r {a} > {n}", "cat {a} {b} > {n}", "head -n 4 {a} | rev > {n}", "paste {a} {b} | tail -3 > {n}",
                              "for f in {a} {b}; do wc -l < $f; done > {n}", "cp {a} {n}; sed -i 1d {n}"])
        lines.append(line.format(a=a, b=b, n=f"r{n}"))
        made.append(f"r{n}")
    bash = shell()
    for line in lines:
        bash.run(line)
    results = made[len(names):]
    replaced = chosen.choice(made[:-1])
    # by hand: what makes the replaced file is left out
    hand = [line for n, line in enumerate(lines) if f"r{n}" != replaced]
    sandbox.sh(f"mkdir ../hand; cp {' '.join(names)} new ../hand; cd ../hand; cp new {replaced}; " + "; ".join(hand))
    result = sandbox.shfs("rerun", "--yes", "--json", "--scratch=../copy", "--with", f"{replaced}=new", *results, check=False)
    if result.status == 3:
        ran = set()
    else:
        assert result.status == 0, result
        ran = {os.path.basename(r["path"]) for c in json.loads(result.stdout)["commands"] for r in c["results"]}
    for name in results:
        if name == replaced:
            continue
        where = f"../copy/{name}" if name in ran else name
        assert sandbox.sh(f"cmp {where} ../hand/{name}", check=False).status == 0, (seed, name, replaced, lines, sorted(ran))


def test_in_record(sandbox, mounted, shell):
    """What the command reads when it is run again, also outside of the project, and no longer reads."""
    sandbox.sh("echo V=1 > ~/conf-a; echo b > ~/conf-b; echo x > x; printf '. ~/conf-a; cat ${CFG:-x}\\n' > job")
    bash = shell()
    bash.run("sh job > out")
    found = json.loads(sandbox.shfs("rerun", "--in-record", "--yes", "--json", "--env", f"CFG={sandbox.home}/conf-b", "--scratch=../copy", "out", timeout=60).stdout)
    command, = found["commands"]
    assert command["also_reads"]["of_system"] > 3  # of programs and libraries the mount knows nothing
    assert command["also_reads"]["paths"] == [f"{sandbox.home}/conf-a", f"{sandbox.home}/conf-b"]
    assert command["no_longer_reads"] == {"paths": [f"{sandbox.project}/x"], "of_system": 0}, command
    assert sandbox.read("out") == b"x\n"
    # in place, and once more: the same files as in the record of the first time
    sandbox.sh("echo x2 > x")
    shown = sandbox.shfs("rerun", "--in-record", "--yes", timeout=60).stdout
    assert "also reads now: ~/conf-a" in shown and "of the system" in shown and "no longer reads" not in shown
    assert sandbox.read("out") == b"x2\n"
    sandbox.sh("echo x3 > x")
    shown = sandbox.shfs("rerun", "--in-record", "--yes", timeout=60).stdout
    assert "reads the same files as then" in shown and sandbox.read("out") == b"x3\n"
    assert json.loads(sandbox.shfs("why", "--json", "out").stdout)
