# SPDX-License-Identifier: MIT
"""export: what one command left in a file where nothing is recorded, and another one took: both are steps, in their
order. The exports are run in empty directories, after those files hold something else."""

import itertools
import json
import os
import re

import jsonschema
import pytest

import harness
from exports import WITH_TOOLS, Export, argv_of, empty, same

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

pytestmark = [pytest.mark.either, pytest.mark.users("ordinary")]

FORMS = ["sh", "make", "snakemake"]


@pytest.fixture
def inputs(sandbox):
    sandbox.sh("seq 30 | shuf --random-source=/dev/zero > a.in; seq 50 80 | rev > b.in; seq 9 > c.in")
    sandbox.mount()


@pytest.fixture
def bash(sandbox, inputs, shell):
    return shell()


def written(done):
    """The files of which it warns that they are written outside."""
    line, = [line for line in done.stderr.splitlines() if "outside of the directory in which it runs" in line]
    return {os.path.basename(word.rstrip(",")) for word in line.split() if "/" in word}


def run_again(sandbox, form, *names, left):
    """Runs an export once what was left outside holds something else; warned of is what it writes there."""
    for name in left:
        sandbox.write_outside(f"{sandbox.path}/tmp/{name}", "something else\n")
    export = Export(sandbox, form)
    done = export.text(*names)
    assert written(done) == set(left) and done.stderr.count("warning") == 1, done.stderr
    found = export.run(*names)
    same(sandbox, found, *names)
    return found


# lines; what they leave outside; what is exported
WAYS = {
    "a loop": (["for s in a b; do sort $s.in > $TMPDIR/$s; head -4 $TMPDIR/$s > $s.top; done"], "a b", "a.top b.top"),
    "two loops": (["for s in a b; do sort $s.in > $TMPDIR/$s; done", "for s in a b; do head -4 $TMPDIR/$s > $s.top; done"],
                  "a b", "a.top b.top"),
    "one after the other": (["sort a.in > $TMPDIR/x", "head -5 $TMPDIR/x > top", "rev top > end"], "x", "end top"),
    "two of them": (["sort a.in > $TMPDIR/x", "rev $TMPDIR/x > $TMPDIR/y", "cat $TMPDIR/y c.in > end"], "x y", "end"),
    "overwritten": (["sort a.in > $TMPDIR/x", "head -5 $TMPDIR/x > one", "sort b.in > $TMPDIR/x", "head -5 $TMPDIR/x > two",
                     "cp c.in $TMPDIR/x", "cat one two > end"], "x", "end"),
    "appended": (["sort a.in > $TMPDIR/x", "sort b.in >> $TMPDIR/x", "cat c.in >> $TMPDIR/x", "rev $TMPDIR/x > end"], "x", "end"),
    "in place": (["sort a.in > $TMPDIR/x", "sed -i s/1/2/ $TMPDIR/x; wc -l c.in > n", "rev $TMPDIR/x > end"], "x", "end"),
    "by the shell": (["sort a.in > $TMPDIR/x", "echo typed > $TMPDIR/x", "cat $TMPDIR/x c.in > end"], "x", "end"),
    "copied": (["cp a.in $TMPDIR/x", "mv $TMPDIR/x $TMPDIR/y", "tee $TMPDIR/z < $TMPDIR/y > end"], "x y z", "end"),
    "of its own": (["sort -r a.in > $TMPDIR/x; sort $TMPDIR/x > a", "sort $TMPDIR/x b.in > b", "cat a b > end"], "x", "end"),
    "another directory": (["mkdir d; cd d", "sort ../a.in > $TMPDIR/x; cd ..", "(cd $TMPDIR && rev x) > end; sort end > d/end"], "x", "d/end"),
}


# each way in each shell and form by ./dev test --all
@pytest.mark.parametrize(("kind", "form"), list(itertools.product(("bash", "zsh"), FORMS[:2])) if harness.ALL else list(zip(("bash", "zsh"), FORMS)))
@pytest.mark.parametrize("how", WAYS)
def test_by_way_of(sandbox, inputs, shell, how, kind, form):
    lines, left, names = WAYS[how]
    terminal = shell(kind)
    for line in lines:
        terminal.run(line)
    run_again(sandbox, form, *names.split(), left=left.split())


@pytest.mark.parametrize("form", FORMS[:2])
def test_a_directory_that_was_copied(sandbox, bash, form):
    for line in ("cp -r . $TMPDIR/d", "rev $TMPDIR/d/a.in > end"):
        bash.run(line)
    sandbox.write_outside(f"{sandbox.path}/tmp/d/b.in", "something else\n")
    bash.run("rev $TMPDIR/d/b.in > other")
    sandbox.write_outside(f"{sandbox.path}/tmp/d/a.in", "something else\n")
    export = Export(sandbox, form)
    # what lies there now is not what was copied
    assert "cp -r" not in export.text("other").stdout
    sandbox.sh("rm $TMPDIR/d/a.in")
    done = export.text("end")
    assert written(done) == {"a.in", "d"} and done.stderr.count("warning") == 1, done.stderr
    same(sandbox, export.run("end"), "end")


def test_snakemake(sandbox, bash):
    """All of them in one project, as it takes seconds to start."""
    for lines, _, _ in WAYS.values():
        for line in lines:
            bash.run(line)
    names = ["d/end", "end", "a.top", "b.top", "n"]
    run_again(sandbox, "snakemake", *names, left="a b x".split())


def test_side_by_side(sandbox, bash):
    """Where commands of two steps keep something in the same file, they come one after the other."""
    for s in "a", "b":
        bash.run(f"sort {s}.in > $TMPDIR/x; sleep 0.2; head $TMPDIR/x > {s}.top")
    bash.run("cat a.top b.top > end")
    run_again(sandbox, "make", "end", "a.top", "b.top", left=["x"])


# Lines of which the first ends last where they run side by side; what is to come out is in one and two.
BESIDE = {
    "it takes the file away": ["sort a.in > $TMPDIR/x", "sleep 0.3; cat $TMPDIR/x b.in > one", "mv $TMPDIR/x $TMPDIR/y; wc -l c.in > n",
                               "cat $TMPDIR/y c.in > two"],
    "it removes the file": ["sort a.in > $TMPDIR/x", "sleep 0.3; cat $TMPDIR/x b.in > one", "rm $TMPDIR/x; sort b.in > two"],
    "the file was not there yet": ["sleep 0.3; cat $TMPDIR/x a.in > one", "sort b.in > $TMPDIR/x; cat $TMPDIR/x c.in > two"],
}


@pytest.mark.parametrize("how", BESIDE)
def test_before_another_step(sandbox, bash, how):
    """What a step finds is not what a later one makes of it, nor taken away by that."""
    for line in BESIDE[how]:
        bash.run(line)
    sandbox.sh("rm -f $TMPDIR/?")
    export = Export(sandbox, "make")
    same(sandbox, export.run("one", "two"), "one", "two")


def test_who_may_not_have_left_it(sandbox, bash):
    """What failed, or was perhaps not executed, left what was there before."""
    for line in ("sort a.in > $TMPDIR/x", "mv $TMPDIR/none $TMPDIR/x", "rev $TMPDIR/x > one",
                 "test -e $TMPDIR/x || echo none > $TMPDIR/x", "sort $TMPDIR/x b.in > two"):
        bash.run(line)
    sandbox.sh("rm $TMPDIR/x")
    same(sandbox, Export(sandbox, "sh").run("one", "two"), "one", "two")


@pytest.mark.parametrize("form", ["sh", "make", "cwl"])
def test_a_directory_that_an_earlier_command_made(sandbox, bash, form):
    for line in ("mkdir $TMPDIR/e", "mkdir -p $TMPDIR/e/f/g", "sort a.in > $TMPDIR/e/f/g/x", "rev $TMPDIR/e/f/g/x > $TMPDIR/e/y; wc -l c.in > n",
                 "cat $TMPDIR/e/y b.in > end"):
        bash.run(line)
    sandbox.sh("rm -r $TMPDIR/e")
    same(sandbox, Export(sandbox, form).run("end"), "end")


def test_what_is_changed_outside(sandbox, bash):
    """It is told of, also where nothing of it is handed on."""
    sandbox.write_outside(f"{sandbox.path}/tmp/x", "of the user\n")
    bash.run("sed -i s/of/by/ $TMPDIR/x; rm -f $TMPDIR/y; sort a.in > one")
    assert written(Export(sandbox, "sh").text("one")) == {"x", "y"}
    sandbox.shfs("export", "--verify", "-o", f"{sandbox.path}/again", "sh", "one", check=4)
    assert sandbox.sh("cat $TMPDIR/x").stdout == "by the user\n"


def test_who_only_looked(sandbox, bash):
    for line in ("sort a.in > $TMPDIR/x", "cat $TMPDIR/x; ls -l $TMPDIR/x c.in", "wc -l < $TMPDIR/x; grep 1 $TMPDIR/x | head -3",
                 "sort b.in > $TMPDIR/y", "rev $TMPDIR/x > end"):
        bash.run(line)
    text = Export(sandbox, "sh").text("end").stdout
    assert text.count("\nrun ") == 2 and "# uses outside: " in text and "# writes outside: " in text, text
    run_again(sandbox, "sh", "end", left=["x"])


def test_what_was_run_again(sandbox, bash):
    """The command that left it was not: it is of another session."""
    for line in ("sort a.in > $TMPDIR/x", "cat $TMPDIR/x c.in > end"):
        bash.run(line)
    bash.run("echo more >> c.in")
    sandbox.shfs("rerun", "--yes")
    assert b"more" in sandbox.read("end") and sandbox.read("end").startswith(b"1\n10\n")
    run_again(sandbox, "sh", "end", left=["x"])
    bash.run("echo 100 >> a.in")
    sandbox.shfs("rerun", "--yes")
    assert sandbox.read("end").startswith(b"1\n10\n100\n")
    run_again(sandbox, "make", "end", left=["x"])


# the last command takes what nobody is known to have left, or who cannot be run again
UNKNOWN = {
    "hidden": [" sort a.in > $TMPDIR/x", "head -5 $TMPDIR/x > top"],
    "an editor": ["vim() { sort a.in > $1; }; :", "vim $TMPDIR/x", "head -5 $TMPDIR/x > top"],
    "behind another one": ["vim() { sort a.in > $1; }; :", "vim $TMPDIR/x", "sort b.in >> $TMPDIR/x", "head -5 $TMPDIR/x > top"],
    "what was there is not known": ["sort a.in >> $TMPDIR/x", "head -5 $TMPDIR/x > top"],
    "nor to itself": ["sort a.in >> $TMPDIR/x; head -5 $TMPDIR/x > top"],
    "changed in between": ["sort a.in > $TMPDIR/x", "", "head -5 $TMPDIR/x > top"],
}


@pytest.mark.parametrize("form", ["sh", "make"])
@pytest.mark.parametrize("how", UNKNOWN)
def test_what_is_not_known(sandbox, bash, how, form):
    for line in UNKNOWN[how]:
        if line:
            bash.run(line)
        else:
            sandbox.write_outside(f"{sandbox.path}/tmp/x", "something else\n")
            sandbox.sh("sleep 0.05")  # times of files are not that exact
    told = Export(sandbox, form).text("top", check=3).stderr
    assert told.count("tmp/x, which another command left, and which is not recorded") == 1, told


# what each tool of CWL or Nextflow does in a place of its own, one after the other or not
APART = {
    "removed again": (["sort a.in > $TMPDIR/x", "head -5 $TMPDIR/x > first; rm $TMPDIR/x", "cat $TMPDIR/x c.in > end"], "first end"),
    "a directory": (["mkdir $TMPDIR/e; sort a.in > $TMPDIR/e/x; rev a.in > $TMPDIR/e/y", "cat $TMPDIR/e/x b.in > $TMPDIR/e/z", "cat $TMPDIR/e/z c.in > all"], "all"),
    "changed by many": (["sort a.in > $TMPDIR/x", "sort b.in >> $TMPDIR/x", "sed -i s/1/2/ $TMPDIR/x; wc -l c.in > n", "rev $TMPDIR/x > end",
                         "echo more >> $TMPDIR/x", "tac $TMPDIR/x > late"], "end late"),
    "in the home": (["mkdir ~/kept; sort a.in > ~/kept/x", "head -5 ~/kept/x > end", "rev $HOME/kept/x > $HOME/kept/y; tac ~/kept/y > late"], "end late"),
    "a program": (["echo 'rev $1' > $TMPDIR/x; sort a.in > first", "chmod +x $TMPDIR/x; wc -l c.in > n", "sh $TMPDIR/x a.in > end"], "end"),
}


# each in each form by ./dev test --all
@pytest.mark.parametrize(("how", "form"), list(itertools.product(APART, WITH_TOOLS)) if harness.ALL else list(zip(APART, itertools.cycle(WITH_TOOLS))))
def test_each_tool_in_its_own_place(sandbox, bash, how, form):
    """Tools hand on what lies outside: run after it is gone."""
    lines, names = APART[how]
    for line in lines:
        bash.run(line)
    sandbox.sh("rm -rf $TMPDIR/? ~/kept")
    same(sandbox, Export(sandbox, form).run(*names.split()), *names.split())


def test_tools_one_after_the_other(sandbox, bash):
    """All of them in one project, with what is of no use to others; and by what a crate says of it."""
    for lines, _, _ in WAYS.values():
        for line in lines:
            bash.run(line)
    names = ["d/end", "end", "a.top", "b.top", "n"]
    run_again(sandbox, "cwl", *names, left="a b x".split())
    crate = f"{sandbox.path}/crate"
    sandbox.shfs("export", "-o", crate, "workflow-crate", *names)
    sandbox.sh("rm $TMPDIR/?")
    top = empty(sandbox, "of the crate")
    sandbox.run(*argv_of("cwl", f"{crate}/workflow.cwl", top), cwd=top, timeout=60)
    for name in names:
        assert open(f"{top}/results/{name}", "rb").read() == sandbox.read(name)


def test_tools_side_by_side(sandbox, bash):
    """Where tools of two steps keep something in the same file, they come one after the other."""
    for s in "a", "b":
        bash.run(f"sort {s}.in > $TMPDIR/x; sleep 0.5; head $TMPDIR/x > {s}.top; cp $TMPDIR/x $TMPDIR/{s}")
    bash.run("cat a.top $TMPDIR/a b.top $TMPDIR/b > end")
    path, top = f"{sandbox.path}/cwl", empty(sandbox)
    sandbox.shfs("export", "-o", path, "cwl", "end")
    argv = argv_of("cwl", path, top)
    sandbox.run(argv[0], "--parallel", *argv[1:], cwd=top, timeout=60)
    assert open(f"{top}/results/end", "rb").read() == sandbox.read("end")


def test_a_name_that_leads_elsewhere(sandbox, bash):
    """A tool's own directory is not beside that of another one."""
    for line in ("sort a.in > ../kept", "head -5 ../kept > top"):
        bash.run(line)
    sandbox.sh("rm ../kept")
    told = Export(sandbox, "cwl").text("top", check=3).stderr
    assert "one of them may find another file of that name" in told, told
    same(sandbox, Export(sandbox, "sh").run("top"), "top")


def test_written_where_it_stays(sandbox, bash):
    """A file that is not temporary makes the export one that does more than it should."""
    bash.run("sort a.in > top; { echo > /srv/shfs-test; } 2> /dev/null; true")
    told = Export(sandbox, "sh").text("top", check=3).stderr
    assert "it writes /srv/shfs-test, outside of the directory in which it runs" in told
    bash.run("sort b.in > end; for n in 1 2 3 4 5; do echo $n > $TMPDIR/$n; done 2> $TMPDIR/log; sort c.in > $TMPDIR/m")
    assert "tmp/log" in Export(sandbox, "sh").text("end").stderr


@pytest.mark.parametrize("name", ["sh", "make", "workflow-crate"])
def test_verify_writes_nothing_there(sandbox, bash, name):
    for line in ("sort a.in > $TMPDIR/x; rev $TMPDIR/x > mid", "rev mid > end"):
        bash.run(line)
    sandbox.write_outside(f"{sandbox.path}/tmp/x", "of the user\n")
    path = f"{sandbox.path}/written"
    told = sandbox.shfs("export", "--verify", "-o", path, name, "end", check=4).stderr
    assert "cannot verify: it would write" in told and "without --verify it is written" in told
    assert told.count("\n") == 2 and not os.path.exists(path)
    assert sandbox.sh("cat $TMPDIR/x").stdout == "of the user\n"


def test_the_graph(sandbox, bash):
    """Formats that are not run say it, too: who left what for whom."""
    vim = "vim() { sort a.in > $1; }; :", "vim $TMPDIR/z"
    for line in (*vim, "sort a.in > $TMPDIR/x", "rev $TMPDIR/x > $TMPDIR/y", "cat $TMPDIR/y $TMPDIR/z c.in > end"):
        bash.run(line)
    outside = f"{sandbox.path}/tmp/"
    found = json.loads(sandbox.shfs("export", "json", "end").stdout)
    with open(f"{ROOT}/docs/export.schema.json", encoding="utf-8") as file:
        jsonschema.validate(found, json.load(file))
    sort, rev, cat = found["steps"]
    assert [step["text"] for step in found["steps"]] == ["sort a.in > $TMPDIR/x", "rev $TMPDIR/x > $TMPDIR/y",
                                                        "cat $TMPDIR/y $TMPDIR/z c.in > end"]
    left = {way["path"]: way["left_by"] for way in cat["outside"]}
    assert left == {f"{outside}y": rev["id"], f"{outside}z": None} and not sort["outside"]
    assert rev["outside"] == [{"path": f"{outside}x", "left_by": sort["id"]}]
    assert sandbox.shfs("export", "dot", "end").stdout.count("style=dashed, label=") == 2
    told = json.loads(sandbox.shfs("export", "prov", "end").stdout)["wasInformedBy"].values()
    ids = {(r["prov:informed"], r["prov:informant"]) for r in told}
    assert ids == {(f"command:{a['id']}", f"command:{b['id']}") for a, b in ((rev, sort), (cat, rev))} | \
        {i for i in ids if i[1].startswith("process:")}
    turtle = sandbox.shfs("export", "prov-o", "end").stdout
    assert all(re.search(f"command:{a['id']}> prov:wasInformedBy <urn:shfs:command:{b['id']}>", turtle) for a, b in ((rev, sort), (cat, rev)))
