# SPDX-License-Identifier: MIT
"""export: each format is read by a program that knows it, run in an empty directory, and what
comes out is compared with what was there."""

import csv
import datetime
import fcntl
import io
import json
import os
import re
import shutil
import subprocess
import urllib.parse

import jsonschema
import prov.model
import pytest
import rdflib

from analysis import PROJECT
from exports import WITH_TOOLS, Export, argv_of, empty, same
from harness import contents
from hostile import STEPS as HOSTILE, encoded

pytestmark = pytest.mark.either

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def escaped(name):
    """For $'...'."""
    return "".join(chr(b) if chr(b).isalnum() and b < 128 else f"\\{b:03o}" for b in encoded(name))


@pytest.fixture
def study(work):
    return work


@pytest.fixture(params=["sh", "make"])
def export(request, sandbox):
    return Export(sandbox, request.param)


@pytest.fixture
def sh(sandbox):
    return Export(sandbox, "sh")


@pytest.fixture
def make(sandbox):
    return Export(sandbox, "make")


@pytest.mark.both
def test_a_chain(study, sandbox, export):
    study.run("sh run.sh")
    study.run("sort -rn out.csv > top.txt")
    found = export.run("top.txt")
    same(sandbox, found, "top.txt", "out.csv", *PROJECT)
    assert set(found) == {"top.txt", "out.csv", *PROJECT}


def test_an_earlier_version(study, sandbox, export):
    """By the sources as they were then, not as they are now."""
    study.run("sh run.sh")
    study.run("echo 'rate: 9' > config.yaml")
    study.run("sh run.sh")
    assert export.run("out.csv@1")["out.csv"] == b"3\n6\n9\n"
    assert export.run("out.csv@2")["out.csv"] == b"9\n18\n27\n"


def test_several_results(study, sandbox, export):
    study.run("sh run.sh; sort -rn out.csv | tee top.txt | wc -l > count")
    study.run("cat count top.txt > both")
    found = export.run("both", "count", "out.csv")
    same(sandbox, found, "both", "count", "top.txt", "out.csv")


def test_in_directories(study, sandbox, export):
    study.run("mkdir -p results/deep && cp data/in.csv results/deep/a")
    study.run("cd data")
    study.run("sort -r in.csv ../results/deep/a > ../results/b")
    study.run("cd ../results; mkdir made")
    study.run("cat b b > made/c")
    same(sandbox, export.run("results/made/c"), "results/made/c", "results/b", "results/deep/a")


def test_directories_that_a_command_makes(study, sandbox, export):
    """Also where a source comes into them later."""
    study.run("mkdir new; sort -r data/in.csv > new/a")
    sandbox.sh("mkdir new/deep; echo 5 > new/deep/source")
    study.run("cat new/a new/deep/source > new/b")
    same(sandbox, export.run("new/b"), "new/b")


def test_statuses_and_jobs(study, sandbox, export):
    study.run("sort -rn data/in.csv > a; false")
    study.run("{ sleep 0.2; cat a a > b; } & sleep 0.01")
    study.run("wait")
    study.run("cat < b > c; exit_not() { return 7; }; exit_not")
    same(sandbox, export.run("c"), "a", "b", "c")


def test_programs_that_were_made(study, sandbox, export):
    study.run("printf '#!/bin/sh\\ntr 1 x\\n' > prog && chmod +x prog")
    study.run("./prog < data/in.csv > out")
    assert export.run("out")["out"] == b"x\n2\n3\n"


@pytest.mark.users("ordinary")
def test_renamed(study, sandbox, sh, export):
    study.run("sort -rn data/in.csv > a")
    study.run("mv a b")
    study.run("cat b b > c")
    found = export.run("c")
    same(sandbox, found, "b", "c")
    assert "a" not in found
    study.run("mkdir d; cp c d/x; sort d/x > e")
    study.run("mv d f; cat e >> f/x")
    study.run("mv f g; mv g/x g/y; mv g h")
    study.run("cat h/y > z")
    same(sandbox, sh.run("z"), "z", "h/y")
    # and written to at once
    study.run("mv z moved; sed -i s/1/7/ moved; echo 8 >> moved")
    study.run("cat moved > last")
    same(sandbox, sh.run("last"), "last")


def test_text_that_is_taken_as_it_is(study, sandbox, export):
    study.run("cat data/in.csv > 'a b'; echo '$(touch pwned) '\"'\\\\\"$'\\x01\\t' \\\n  `echo x` >> 'a b' # END")
    study.run("cat 'a b' <<END > c - \n1 $((2+3)) %s {} {0} $HOME\nEND")
    found = export.run("c")
    same(sandbox, found, "a b", "c")
    assert "pwned" not in found
    # control characters as they are typed: behind ^V
    study.run("cat c - <<< '\x16\x1b[31m \x16\x01 \\n' > d")
    assert b"\x1b[31m \x01" in sandbox.read("d") and "\x1b" not in export.text("d").stdout
    same(sandbox, export.run("d"), "d")


@pytest.mark.users("ordinary")
def test_zsh_and_fish(study, sandbox, shell, export):
    shell("zsh").run("print -l ${(s:,:):-3,1,2} > a")
    shell("fish").run("for i in (cat a); echo n$i; end > b")
    same(sandbox, export.run("b"), "a", "b")


# --- one path, several versions ---


def test_in_place(study, sandbox, sh):
    study.run("sh run.sh")
    study.run("cp out.csv first")
    study.run("sed -i 's/rate: 3/rate: 5/' config.yaml")
    study.run("echo 'seed: 1' >> config.yaml")
    study.run("sh run.sh")
    study.run("cat first out.csv config.yaml > sum")
    found = sh.run("sum")
    same(sandbox, found, "sum", "config.yaml", "out.csv", "first")
    assert found["out.csv"] == b"5\n10\n15\n" and found["first"] == b"3\n6\n9\n"


def test_a_loop(study, sandbox, sh):
    for _ in range(4):
        study.run("cat data/in.csv data/in.csv > x; wc -l < x >> data/in.csv")
        study.run("cp x y; sort -u y x > z")
    same(sandbox, sh.run("z"), "x", "y", "z", "data/in.csv")


@pytest.mark.users("ordinary")
def test_removed_and_made_anew(study, sandbox, sh):
    study.run("echo 1 >> log; cp log one")
    study.run("rm log")
    study.run("echo 2 >> log; cat one log > two")
    assert sh.run("two")["two"] == b"1\n2\n"


@pytest.mark.users("ordinary")
def test_what_is_not_there_in_the_end(study, sandbox, sh):
    study.run("echo 1 > a; cat a > b; sleep 0.1; echo 2 > a")
    run = sh.text("a@1", check=4)
    assert "a@1 does not exist at the end: it is overwritten by" in run.stderr
    study.run("sort -r a > c; rm a")
    run = sh.text("a@2", "c", check=4)
    assert "a@2 does not exist at the end: it is removed by" in run.stderr and "sort -r a" in run.stderr
    assert sh.run("c")["c"] == b"2\n"


# --- sources ---


@pytest.mark.users("ordinary")
def test_what_cannot_be_run_again_is_a_source(study, sandbox, export):
    study.run(" echo secret > hidden")
    study.run("git --version > version")
    study.run("cat hidden version > both")
    study.run("shfs restore config.yaml@1 --to restored")
    study.run("cat both restored > all3")
    found = export.run("all3")
    same(sandbox, found, "all3", "hidden", "version")
    assert "secret" not in export.text("all3").stdout
    study.run("x=1 y=2; cat both > other; true && command /usr/bin/git --version; ls '; nothing'")
    study.run("x=1 y=2; cat both > fine # emacs, 'vim'")
    for name, runs in ("other", False), ("fine", True):
        assert ("cat both" in re.sub("#.*", "", export.text(name).stdout)) == runs, name
    # a source alone
    same(sandbox, export.run("config.yaml"), "config.yaml")


def test_what_is_not_archived_is_copied(sandbox, mount, shell, export):
    path = sandbox.write_outside(f"{sandbox.project}/big.bin", b"\0\1\2" * 1000)
    mount()
    bash = shell()
    bash.run("cksum < big.bin > sum")
    same(sandbox, export.run("sum"), "sum", "big.bin")
    bash.run("echo more >> big.bin")
    bash.run("rm big.bin")
    script = os.path.join(sandbox.path, "script")
    sandbox.shfs("export", "sh", "sum", "-o", script)
    versions = json.loads(sandbox.shfs("log", "--json", "big.bin").stdout)["versions"]
    if versions[-1]["object"] is None:
        run = sandbox.run("bash", script, empty(sandbox), cwd="/", check=1)
        assert "not archived" in run.stderr and path in run.stderr


# --- what cannot come out right ---


@pytest.mark.users("ordinary")
@pytest.mark.parametrize("where", ["$PROJECT/data", "~/project/data", "$HOME/project/data", '"$HOME"/project/data'])
def test_absolute_paths_are_refused(study, sandbox, export, where):
    study.run("cat " + where.replace("$PROJECT", sandbox.project) + "/in.csv > out")
    run = export.text("out", check=4)
    assert "by their absolute paths" in run.stderr and "(cat " in run.stderr and not run.stdout


@pytest.mark.users("ordinary")
def test_going_above_the_project(study, sandbox, sh):
    goes = ["cd", "cd ~", "cd ~/", "cd $HOME", 'cd -- "${HOME}"', f"cd {sandbox.home}/", "cd /", "x=1; (cd ~", "{ cd ~"]
    stays = ["cd ~+", "cd /usr", "cd data", "echo cd ~", "cd ..", "cd -", "cd $HOMES", "cd ~/.config"]
    for n, command in enumerate(goes + stays):
        end = {"(": ")", "{": "; }"}.get(re.sub("[^({]", "", command.replace("${", ""))[:1], "")
        study.run(f"cat data/in.csv > out{n}; {command}{end}")
        study.run(f"cd {sandbox.project}")
    for n, command in enumerate(goes):
        assert "by their absolute paths" in sh.text(f"out{n}", check=4).stderr, command
    for n, command in enumerate(stays, len(goes)):
        sh.text(f"out{n}", check=3 if command in ("cd -", "cd $HOMES") else 0)


@pytest.mark.users("ordinary")
def test_absolute_paths_in_scripts_are_told(study, sandbox, sh):
    study.run("echo sort $PWD/data/in.csv > script; echo sort data/in.csv > other")
    study.run("sh script > a; sh other > b")
    warned = sh.text("b").stderr
    assert "script@1 names files by their absolute paths" in warned and "other@1" not in warned


@pytest.mark.users("ordinary")
def test_a_failing_step_is_told(study, sandbox, sh):
    study.run("cat data/in.csv > a; [ -e ~/project/config.yaml ]".replace("~/project/", ""))
    path = os.path.join(sandbox.path, "script")
    sandbox.shfs("export", "sh", "a", "-o", path)
    run = sandbox.run("bash", path, empty(sandbox), cwd="/", check=1)
    assert "ended with 1, not 0" in run.stderr


@pytest.mark.users("ordinary")
def test_a_directory_that_is_not_empty(study, sandbox, sh):
    study.run("sh run.sh")
    path = os.path.join(sandbox.path, "script")
    sandbox.shfs("export", "sh", "out.csv", "-o", path)
    assert "is not empty" in sandbox.run("bash", path, sandbox.home, cwd="/", check=1).stderr
    # without one: a new one, and the result is told
    told = sandbox.run("bash", path, cwd="/").stdout.strip()
    with open(told, encoding="utf-8") as result:
        assert result.read() == "3\n6\n9\n"
    sandbox.shfs("export", "sh", "out.csv", "-o", path, check=4)
    sandbox.shfs("export", "sh", "out.csv", "-f", "-o", path)


# --- names and texts of all kinds ---


@pytest.mark.users("ordinary")
def test_hostile_names(study, sandbox, sh):
    for n, name in enumerate(HOSTILE):
        study.run(f"cat data/in.csv > ./$'{escaped(name)}'; echo {n} >> ./$'{escaped(name)}'")
    study.run("cat ./* .hidden > /dev/null 2>&1; LC_ALL=C; cat " + " ".join("./$'" + escaped(n) + "'" for n in HOSTILE)
              + " > sum")
    found = sh.run("sum")
    same(sandbox, found, "sum", *HOSTILE)
    assert "pwned" not in found
    # as targets, and as sources
    found = sh.run(*(b"./" + encoded(n) for n in HOSTILE[:8]))
    same(sandbox, found, *HOSTILE[:8])



@pytest.mark.users("ordinary")
def test_names_in_a_makefile(study, sandbox, make):
    """Quoted; with others, the steps come in their order, each with a file of its own."""
    fine = [n for n in HOSTILE if not re.search(r"[\x00-\x1f\\;|&*?\[\]()]|^ | $|^~", n)]
    for n, name in enumerate(HOSTILE):
        study.run(f"cat data/in.csv > ./$'{escaped(name)}'; echo {n} >> ./$'{escaped(name)}'")
    study.run("LC_ALL=C; cat " + " ".join("./$'" + escaped(n) + "'" for n in fine) + " > sum")
    assert len(fine) > 20
    found = make.run("sum")
    same(sandbox, found, "sum", *fine)
    assert not any(name.startswith(".shfs/") for name in found)
    others = sorted(set(HOSTILE) - set(fine), key=encoded)
    found = make.run(*(b"./" + encoded(n) for n in others))
    same(sandbox, found, *others)
    assert ".shfs/0" in found and "pwned" not in found


@pytest.mark.users("ordinary")
def test_several_contents_of_a_name(study, sandbox, export):
    study.run("sh run.sh")
    study.run("sed -i 's/rate: 3/rate: 5/' config.yaml")
    study.run("cat out.csv config.yaml > sum")
    same(sandbox, export.run("sum"), "sum")
    study.run("sort -r data/in.csv > a")
    study.run("cat a > b; cat a > d")
    study.run("mv a c; cat c > e")
    same(sandbox, export.run("b", "e"), "b", "e")
    assert not {"b", "d"} & set(export.run("e"))
    # made again and again, each time from what had come of it
    study.run("sed -i s/1/6/ data/in.csv; sort -r data/in.csv > r; sed -i 's/$/!/' data/in.csv")
    study.run("sort r > data/in.csv")
    study.run("cat data/in.csv > s")
    same(sandbox, export.run("s"), "s")
    study.run("sort -r c > c.new; mv c.new c; cat c sum > f")
    study.run("cat f > c; sort c > f")
    same(sandbox, export.run("f", "c"), "f", "c")


@pytest.mark.users("ordinary")
def test_made_again_with_the_same_bytes(study, sandbox, export):
    study.run("echo 5 > a; echo 5 > out; sort out > first")
    study.run("rm out")
    study.run("cat a > out")
    study.run("cat out first > last; sort last > out")
    same(sandbox, export.run("last", "out"), "last", "out", "first")
    study.run("sh run.sh; cat out.csv > x; sort -rn x > y")
    study.run("rm x y out.csv")
    study.run("sh run.sh; sort -rn out.csv > y")
    study.run("sort -n y > x; cat x y > z")
    same(sandbox, export.run("z"), "z")


@pytest.mark.users("ordinary")
def test_what_was_gone_by_then(study, sandbox, export):
    """And what was not there yet."""
    study.run("sort -r data/in.csv > o1; cat o1 o1 > o2; cp o2 o3")
    study.run("rm o1; mv o3 elsewhere")
    study.run("cat o* > all")
    study.run("sort data/in.csv > o4; cat all o4 > end")
    same(sandbox, export.run("end"), "end", "all")
    # nor what was overwritten before, by a step that is not needed
    study.run("sort end > once")
    for line in "echo other > end", "rm end", "cat end once > last":
        study.run(line)
    same(sandbox, export.run("last"), "last")


@pytest.mark.users("ordinary")
def test_only_what_is_needed_is_done(study, sandbox, sh):
    study.run("sort -r data/in.csv > a; sort -r a > old")
    study.run("rm -f a old; sort data/in.csv > a")
    same(sandbox, sh.run("a"), "a")
    assert "sort -r" not in sh.text("a").stdout
    study.run("mv a b; sort -r b > a")
    study.run("mv a a.old; sort -n data/in.csv > a")
    same(sandbox, sh.run("a"), "a")
    assert "sort -r" not in sh.text("a").stdout and "sort -r" in sh.text("a.old").stdout
    same(sandbox, sh.run("a.old"), "a.old")


@pytest.mark.users("ordinary")
def test_what_depends_on_times(study, sandbox, export):
    """As make looks at them: a source that was changed in between is newer than what had been made."""
    study.run("printf 'top: out2\\n\\tsort out2 > top\\nout2: data/in.csv\\n\\tcat data/in.csv > out2\\n' > Makefile")
    study.run("make -s")
    sandbox.sh("echo 7 >> data/in.csv")
    study.run("make -s; cat top > end")
    study.run("touch data/in.csv; sed -i s/2/4/ data/in.csv; make -s")
    same(sandbox, export.run("top", "end"), "top", "end")
    assert sandbox.read("top") == b"1\n3\n4\n7\n"


@pytest.mark.users("ordinary")
def test_in_a_directory_that_was_renamed(study, sandbox, export):
    study.run("mkdir d; sort -r data/in.csv > d/a")
    study.run("mv d e")
    study.run("mkdir d; cat e/a > d/b; mv e/a top")
    study.run("mv d e/f; cat e/f/b top > end")
    same(sandbox, export.run("end"), "end", "top", "e/f/b")


@pytest.mark.users("ordinary")
def test_cut_to_a_length(study, sandbox, export):
    """What is left of a file is of what it was."""
    study.run("sort -r data/in.csv > a; sort a > b")
    study.run("truncate -s 3 a; cat a b > c")
    assert "sort -r" in sandbox.shfs("why", "c").stdout
    same(sandbox, export.run("c", "a"), "c", "a")


@pytest.mark.users("ordinary")
def test_written_through_another_name(study, sandbox, export):
    study.run("cp data/in.csv a; ln a b")
    study.run("sort -r data/in.csv > a; cat a > c")
    study.run("sort -n b > d; cat c d > e")
    same(sandbox, export.run("e"), "e", "d")
    same(sandbox, export.run("b", "a"), "b", "a")


@pytest.mark.users("ordinary")
def test_what_is_not_archived_was_moved(sandbox, mount, shell, export):
    sandbox.write_outside(f"{sandbox.project}/big.bin", b"\0\1\2" * 1000)
    mount()
    bash = shell()
    bash.run("cksum < big.bin > sum")
    bash.run("mkdir raw; mv big.bin raw/data.bin; cat sum raw/data.bin > end")
    same(sandbox, export.run("end"), "end")
    same(sandbox, export.run("sum"), "sum")


@pytest.mark.users("ordinary")
def test_what_a_command_does_besides(study, sandbox, export):
    """It has to be there to be removed, moved, linked, though no result comes of it."""
    sandbox.sh("mkdir old; echo 1 > old/f; echo 2 > gone; echo 3 > moved; echo 4 > linked")
    study.run("set -e; rm -r old; rm gone; mv moved away; ln linked link; sort data/in.csv > out; set +e")
    assert export.run("out")["out"] == b"1\n2\n3\n"
    # what it takes was changed by a command that is there for another reason
    study.run("echo a > log")
    study.run("sort out > part; echo b >> log")
    study.run("set -e; mv log log.old; cat part > end; set +e")
    same(sandbox, Export(sandbox, "sh").run("end"), "end", "log.old")


@pytest.mark.users("ordinary")
def test_what_is_changed_in_place_is_a_source(study, sandbox, make):
    """A name has one content for make and Snakemake: the one that was there at last."""
    study.run("sh run.sh")
    study.run("sed -i 's/rate: 3/rate: 5/' config.yaml")
    study.run("echo 'seed: 1' >> config.yaml")
    study.run("sh run.sh; sort -rn out.csv > top.txt")
    same(sandbox, make.run("top.txt"), "top.txt", "out.csv", "config.yaml")
    assert "left by " in make.text("top.txt").stdout
    assert "config.yaml@3" in Export(sandbox, "snakemake").text("top.txt").stdout
    # a script can say it all
    assert "seed: 1" in Export(sandbox, "sh").text("top.txt").stdout
    study.run("printf 'rate: 7\n' > config.yaml; sh run.sh")
    same(sandbox, make.run("out.csv"), "out.csv", "config.yaml")


@pytest.mark.users("ordinary")
@pytest.mark.parametrize("name", ["sh", "make", "snakemake", "cwl", "nextflow"])
def test_what_may_not_run_elsewhere(study, sandbox, name):
    """It is written, but warned of, and told by the exit status."""
    sandbox.write_outside(f"{sandbox.home}/beside", "x\n")
    sandbox.sh("ln -s data/in.csv link; ln -s data dir")
    study.run("twice() { cat $1 $1; : --password=abcdef12; }; alias s=sort; X=data/in.csv")
    export = Export(sandbox, name)
    for line, why in (
        ("twice data/in.csv > a", "runs twice, an alias or a function: a secret in it was not kept"),
        ("gone data/in.csv 2>/dev/null; s data/in.csv > b", "runs gone, which is no program"),
        ("cat data/in.csv | gone 2>/dev/null | s > c", "runs gone, which is no program"),
        ("sort $X > d", "uses the variable X"),
        ("cat link > e", "link, a symbolic link"),
        ("cat < link > f", "link, a symbolic link"),
        ("cat dir/in.csv > g", "dir, a symbolic link"),
        ("cat ../beside > h", "beside, which is not recorded"),
    ):
        study.run(line)
        done = export.text(line[-1], check=3)
        assert "warning: " in done.stderr and why in done.stderr, (line, done.stderr)
        assert done.stdout.strip()
    for line in "s data/in.csv > i", "Y=1; echo $Y > i", "LC_ALL=C sort -n data/in.csv | ./model.awk > i 2>/dev/null; true", "for n in 1 2; do echo $n; done > i", \
            "grep -c 1 data/in.csv > i; [ -s i ] && test -s i", "(cd data && cat ./in.csv ../model.awk > ../i)":
        study.run(line)
        assert not re.search("warning: (?!.*archived)", export.text("i").stderr), line


@pytest.mark.users("ordinary")
def test_make_goes_side_by_side(study, sandbox, make):
    for i in range(4):
        study.run(f"sleep 0.1; sort -r data/in.csv > part{i}; echo {i} >> part{i}")
    study.run("cat part* > whole")
    same(sandbox, make.run("whole"), "whole", "part0", "part3")


@pytest.mark.users("ordinary")
def test_snakemake(study, sandbox):
    """In one, as it takes seconds to start."""
    snakemake = Export(sandbox, "snakemake")
    fine = [n for n in HOSTILE if not re.search(r"[\x00-\x1f\\{}\udc80-\udcff]|^ | $", n)]
    for n, name in enumerate(HOSTILE):
        study.run(f"cat data/in.csv > ./$'{escaped(name)}'; echo {n} >> ./$'{escaped(name)}'")
    study.run("sh run.sh; false")
    study.run("mkdir -p results; cd results")
    study.run("cat ../out.csv " + " ".join("../$'" + escaped(n) + "'" for n in fine) + " | awk '{print $1}' > sum; wc sum > wc")
    study.run("awk '{ print \"{x}\", $0 }' sum wc > sum2")
    same(sandbox, snakemake.run("results/sum2"), "results/sum2", "results/sum", "results/wc", "out.csv", *fine)
    # in their order
    others = sorted(set(HOSTILE) - set(fine), key=encoded)
    study.run("sed -i s/1/2/ sum; cp sum sum3; mv sum2 moved; mkdir new; cp moved new/moved; cp ../data/in.csv new/x")
    study.run("cat sum3 new/* > all; rm sum3")
    study.run("sort all > sum3")
    targets = ["results/sum3", "results/moved", "results/new/x"]
    found = snakemake.run(*targets, *(b"./" + encoded(n) for n in others))
    same(sandbox, found, *targets, *others)
    assert "pwned" not in found


def make_hostile(study, chunk=8):
    """All names, some by each of a few commands."""
    for i in range(0, len(HOSTILE), chunk):
        study.run("; ".join(f"tac data/in.csv > ./$'{escaped(name)}'; echo {i} >> ./$'{escaped(name)}'"
                            for name in HOSTILE[i:i + chunk]))


# --- CWL, Nextflow ---


@pytest.fixture(params=WITH_TOOLS)
def tools(sandbox, request):
    return Export(sandbox, request.param)


@pytest.mark.users("ordinary")
def test_tools_hostile_names(study, sandbox, tools):
    make_hostile(study)
    study.run("LC_ALL=C; cat " + " ".join("./$'" + escaped(n) + "'" for n in HOSTILE) + " > sum")
    fine = [n for n in HOSTILE if encoded(n).decode("utf-8", "ignore").encode() == encoded(n)]
    assert len(HOSTILE) - len(fine) == 1
    found = tools.run("sum", *(b"./" + encoded(n) for n in fine))
    assert set(found) == {"sum", *fine}
    same(sandbox, found, "sum", *fine)
    for name in set(HOSTILE) - set(fine):
        assert "names in UTF-8" in tools.text(b"./" + encoded(name), check=4).stderr


@pytest.mark.users("ordinary")
def test_tools_commands_of_all_kinds(study, sandbox, shell, tools):
    study.run("sh run.sh; sort -rn out.csv | tee top.txt | wc -l > count")
    study.run("mkdir -p results/deep && cp data/in.csv results/deep/a")
    study.run("cd data")
    study.run("sort -r in.csv ../results/deep/a > ../results/b; cd ../results; mkdir made; cat b b > made/c; false")
    study.run("cd ..")
    study.run("{ sleep 0.2; cat count count > job; } & sleep 0.01")
    study.run("wait")
    study.run("printf '#!/bin/sh\\ntr 1 x\\n' > prog && chmod +x prog")
    study.run("./prog < job > made; echo '$(inputs.f0) ${f0} \"$x\" \\$(y) {}' `echo x` >> made # END")
    study.run("mv made moved; exit_not() { return 7; }; exit_not")
    # a path with several contents
    study.run("cp out.csv first; sed -i 's/rate: 3/rate: 5/' config.yaml")
    study.run("echo 'seed: 1' >> config.yaml; sh run.sh")
    shell("zsh").run("print -l ${(s:,:):-3,1,2} > zsh")
    shell("fish").run("for i in (cat zsh); echo n$i; end > fish")
    study.run("ln top.txt link; cat first out.csv config.yaml fish link results/made/c moved > sum")
    names = ["sum", "config.yaml", "out.csv", "first", "fish", "results/made/c", "moved", "link", "count"]
    found = tools.run(*names)
    same(sandbox, found, *names)
    assert set(found) == set(names) and found["out.csv"] == b"5\n10\n15\n"


@pytest.mark.users("ordinary")
def test_tools_with_long_names(study, sandbox, tools):
    """More of them than the kernel takes for one argument."""
    long = "d=$(printf 'x%.0s' {1..250}); d=$d/$d/$d/$d; d=$d/$d/$d; "
    study.run(long + "mkdir -p $d; seq 45 | split -l 1 -a 2 - $d/")
    study.run(long + "cat $d/* > sum")
    same(sandbox, tools.run("sum"), "sum")


@pytest.mark.users("ordinary")
def test_tools_says_what_failed(study, sandbox, tools):
    study.run("cat data/in.csv > a; [ -e config.yaml ]")
    study.run("cat a a > b")
    tools.run("b", check=1)
    assert {"cwl": "permanentFail", "nextflow": "terminated with an error"}[tools.name] in tools.result.stderr


@pytest.mark.users("ordinary")
def test_nextflow_has_limits(study, sandbox):
    """Those of Java: long texts are several strings, more arguments are refused."""
    nextflow = Export(sandbox, "nextflow")
    sandbox.shfs("run", "--", "sh", "-c", "printf '%s' '" + "é\\''" * 9000 + "' > long")
    assert "''' +\n'''" in nextflow.text("long").stdout
    same(sandbox, nextflow.run("long"), "long")
    study.run("for i in {1..251}; do echo $i > n$i; done; sort in > 0")
    study.run("cat n* > many")
    told = nextflow.text("many", check=4).stderr
    assert "takes at most 250 files: here 251" in told and "shfs export cwl" in told


@pytest.mark.users("ordinary")
def test_nextflow_is_verified(study, sandbox):
    """What is called nextflow runs the export, and has the name that the manual tells."""
    argv = " ".join(str(a) for a in argv_of("nextflow", "$3", "$5")[:-2])
    sandbox.write_outside(f"{sandbox.path}/bin/nextflow", f'#!/bin/sh\n[ "$1 $2 $4" = "-q run --outdir" ] && exec {argv} "$5" "$5"\n')
    sandbox.sh(f"chmod +x {sandbox.path}/bin/nextflow")
    study.run("sh run.sh")
    done = sandbox.shfs("export", "--verify", "-o", "../out.nf", "nextflow", "out.csv", env={"PATH": f"{sandbox.path}/bin:{sandbox.env['PATH']}"})
    assert "out.csv" in done.stdout + done.stderr


# --- RO-Crate ---


@pytest.fixture(scope="session")
def crate_problems():
    """crate_problems(directory): what tests/npm/crate.mjs finds; with SHFS_TEST_SHAPES, a directory with *.ttl,
    also by the shapes in it: those of the profiles are in no registry that holds more than this program."""
    if not shutil.which("npm"):
        pytest.skip("needs npm")
    work = os.path.join(os.environ["SHFS_TEST_BUILD"], "npm")
    os.makedirs(work, exist_ok=True)
    with open(os.path.join(work, "lock"), "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for name in "package.json", "package-lock.json", "crate.mjs":
            shutil.copy(os.path.join(ROOT, "tests/npm", name), work)
        if not os.path.exists(os.path.join(work, "node_modules/ro-crate")):
            subprocess.run(["npm", "ci", "--silent"], cwd=work, check=True, timeout=120)

    def problems(directory, shapes):
        where = os.environ.get("SHFS_TEST_SHAPES")
        files = [os.path.join(where, n) for n in sorted(os.listdir(where)) if re.match(shapes, n)] if where else []
        run = subprocess.run(["node", os.path.join(work, "crate.mjs"), directory, *files], capture_output=True,
                             text=True, check=True, timeout=60)
        return run.stdout

    return problems


def crate(sandbox, form, *files):
    path = os.path.join(sandbox.path, f"crate-{len(os.listdir(sandbox.path))}")
    # 3: it has not all contents
    assert sandbox.shfs("export", form, "-o", path, "--", *files, check=False).status in (0, 3)
    with open(os.path.join(path, "ro-crate-metadata.json"), encoding="utf-8") as file:
        graph = json.load(file)["@graph"]
    return path, {thing["@id"]: thing for thing in graph}


@pytest.mark.users("ordinary")
def test_process_run_crate(study, sandbox, crate_problems):
    make_hostile(study)
    study.run("cat " + " ".join("./$'" + escaped(n) + "'" for n in HOSTILE) + " > sum")
    study.run("cp sum last; echo more >> sum; false")
    study.run("cat sum last > result")
    study.run("mv last was; mkdir last; cp was last/was; cat last/was >> result")
    path, things = crate(sandbox, "ro-crate", "result")
    assert crate_problems(path, "process") == ""
    # all that was read and written, by its own name
    found = contents(path)
    exported = json.loads(sandbox.shfs("export", "json", "result").stdout)
    latest = {f["name"]: f["n"] for f in sorted(exported["files"], key=lambda f: f["n"])}
    latest.pop("last")  # is a directory now
    names = {(f"files/{f['name']}" if latest.get(f["name"]) == f["n"] else f"earlier/{f['name']}@{f['n']}"): f
             for f in exported["files"] if f["object"]}
    assert set(found) == {"ro-crate-metadata.json", *names} and any(n.startswith("earlier/") for n in names)
    for name, file in names.items():
        if name.startswith("files/"):
            same(sandbox, {file["name"]: found[name]}, file["name"])
        else:
            assert found[name] == sandbox.shfs("cat", f"{os.fsdecode(encoded(file['path']))}@{file['n']}").stdout_bytes, name
        assert things[urllib.parse.quote(os.fsencode(name), safe="/")]["@type"] == "File"
    for file in exported["files"]:
        if not file["object"]:  # "~", for its name
            assert "a rule" in things["file://" + urllib.parse.quote(file["path"])]["description"]
    for step in exported["steps"]:
        action = things[f"#command-{step['id']}"]
        assert action["description"] == step["text"]
        assert len(action["object"]) == len(step["inputs"]) and len(action["result"]) == len(step["outputs"])
        begin = datetime.datetime.fromisoformat(action["startTime"])
        assert abs(begin - datetime.datetime.fromisoformat(step["begin"][:26] + "+00:00")).total_seconds() < 0.001
    assert {a["error"] for a in things.values() if "error" in a} == {"exit status 1"}


@pytest.mark.users("ordinary")
def test_workflow_run_crate(study, sandbox, crate_problems):
    """Run where the store is not; with sources of all names."""
    for name in HOSTILE:
        sandbox.write(b"./" + encoded(name), name.encode("utf-8", "surrogateescape"))
    names = [n for n in HOSTILE if n not in ("~", "\udcff\udc80")]  # not archived; not UTF-8
    study.run("cat " + " ".join("./$'" + escaped(n) + "'" for n in names) + " > sum")
    study.run("sh run.sh; cat out.csv sum > result")
    path, things = crate(sandbox, "workflow-crate", "result", "out.csv")
    assert crate_problems(path, "process|workflow") == ""
    assert things["./"]["mainEntity"]["@id"] == "workflow.cwl"
    copied = os.path.join(sandbox.path, "copied")
    os.rename(path, copied)
    top = empty(sandbox)
    env = {"SHFS_STORE": "/nonexistent"}
    cwltool = ["cwltool", "--quiet", "--preserve-entire-environment"]
    done = sandbox.run(*cwltool, "--outdir", top, f"{copied}/workflow.cwl", cwd=top, env=env, timeout=60)
    assert not done.stderr
    found = contents(os.path.join(top, "results"))
    same(sandbox, found, "result", "out.csv")
    assert set(found) == {"result", "out.csv"}


@pytest.mark.users("ordinary")
def test_where_a_crate_goes(study, sandbox, mount):
    study.run("sh run.sh")
    assert "-o DIR" in sandbox.shfs("export", "ro-crate", "out.csv", check=2).stderr
    assert "is not empty" in sandbox.shfs("export", "ro-crate", "-o", sandbox.project, "out.csv", check=4).stderr
    assert "Not a directory" in sandbox.shfs("export", "ro-crate", "-o", "run.sh", "out.csv", check=1).stderr
    # an empty one is taken; nothing is left of what is refused
    path = empty(sandbox)
    sandbox.shfs("export", "ro-crate", "-o", path, "out.csv")
    assert set(contents(path)) == {"ro-crate-metadata.json", "files/out.csv", *(f"files/{n}" for n in PROJECT)}
    study.run("echo 1 > $'\\377'")
    sandbox.write(b"source-\xff", b"1")
    study.run("cat source-* > of-source")
    refused = os.path.join(sandbox.path, "refused")
    for name in b"./\xff", "of-source":
        assert "UTF-8" in sandbox.shfs("export", "workflow-crate", "-o", refused, name, check=4).stderr
    assert not os.path.exists(refused)


# --- the graph, for other programs ---


@pytest.fixture
def history(study, sandbox):
    """One that no Makefile can hold, with names of all kinds: the names of its last step's inputs."""
    for n, name in enumerate(HOSTILE):
        study.run(f"cat data/in.csv > ./$'{escaped(name)}'; echo {n} >> ./$'{escaped(name)}'")
    study.run("sed -i s/3/5/ config.yaml; echo more >> config.yaml")
    study.run("cat config.yaml " + " ".join("./$'" + escaped(n) + "'" for n in HOSTILE) + " > sum # END")
    return ["config.yaml", *HOSTILE]


def names(sandbox, uses):
    prefix = sandbox.project + "/"
    return [u["path"].removeprefix(prefix) for u in uses]


@pytest.mark.users("ordinary")
def test_json(history, sandbox):
    with open(os.path.join(ROOT, "docs/export.schema.json"), encoding="utf-8") as file:
        schema = json.load(file)
    document = json.loads(sandbox.shfs("export", "json", "sum").stdout)
    lines = [json.loads(line) for line in sandbox.shfs("export", "jsonl", "sum").stdout_bytes.splitlines()]
    for thing in document, *lines:
        jsonschema.validate(thing, schema)
    assert names(sandbox, document["targets"]) == ["sum"]
    last = document["steps"][-1]
    assert sorted(names(sandbox, last["inputs"])) == sorted(history) and names(sandbox, last["outputs"]) == ["sum"]
    sources = {f["name"] for f in document["files"] if f["is_source"]}
    assert sources == {"config.yaml", "data/in.csv"}
    # the lines are the same, one each
    head, *rest = lines
    assert (head["type"], head["base"]) == ("export", sandbox.project)
    for kind, all_of in ("file", document["files"]), ("step", document["steps"]):
        of_kind = [{k: v for k, v in line.items() if k != "type"} for line in rest if line["type"] == kind]
        assert of_kind == all_of
    assert len(rest) == len(document["files"]) + len(document["steps"])


@pytest.mark.users("ordinary")
def test_dot(history, sandbox):
    text = sandbox.shfs("export", "dot", "sum").stdout_bytes
    run = subprocess.run(["dot", "-Tjson"], input=text, capture_output=True, check=True)
    assert not run.stderr
    graph = json.loads(run.stdout)
    labels = [o["label"] for o in graph["objects"]]
    assert len([n for n in labels if n.startswith("cat config.yaml")]) == 1 and "sum@1" in labels
    document = json.loads(sandbox.shfs("export", "json", "sum").stdout)
    assert len(graph["objects"]) == len(document["files"]) + len(document["steps"])
    uses = sum(len(s["inputs"]) + len(s["outputs"]) for s in document["steps"])
    assert len(graph["edges"]) == uses


@pytest.mark.users("ordinary")
def test_csv(history, sandbox):
    text = sandbox.shfs("export", "csv", "sum").stdout_bytes.decode("utf-8", "surrogateescape")
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    prefix = sandbox.project + "/"
    inputs = [r["path"].removeprefix(prefix) for r in rows if r["use"] == "input" and r["text"].startswith("cat config")]
    assert sorted(inputs) == sorted(history)
    assert {r["path"].removeprefix(prefix) for r in rows if r["use"] == "source"} == {"config.yaml", "data/in.csv"}
    [last] = [r for r in rows if r["use"] == "output" and r["path"] == prefix + "sum"]
    assert last["status"] == "0" and last["cwd"] == sandbox.project and re.fullmatch("[0-9a-f]{16}", last["command"])


def version_uri(sandbox, name, n=1):
    return f"urn:shfs:version:{urllib.parse.quote(os.fsencode(f'{sandbox.project}/{name}'), safe='/')}@{n}"


@pytest.mark.users("ordinary")
def test_prov(history, study, sandbox):
    study.run("mv sum moved")
    study.run("sed -i s/1/2/ moved")
    study.run("sort moved > result & sleep 0.3")
    text = sandbox.shfs("export", "prov", "result").stdout_bytes
    document = prov.model.ProvDocument.deserialize(content=text, format="json")
    plain = json.loads(text)
    # each record is understood, and written again the same
    assert {k: len(v) for k, v in plain.items()} == {k: len(v) for k, v in json.loads(document.serialize()).items()}
    exported = json.loads(sandbox.shfs("export", "json", "result").stdout)
    commands = {f"urn:shfs:command:{s['id']}": s for s in exported["steps"]}
    entities = {r.identifier.uri: r for r in document.get_records(prov.model.ProvEntity)}
    assert set(entities) == {version_uri(sandbox, f["name"], f["n"]) for f in exported["files"]}
    activities = {r.identifier.uri: r for r in document.get_records(prov.model.ProvActivity)}
    # besides who left the sources
    assert {a for a in activities if ":process:" not in a} == set(commands)
    made = {}
    for r in document.get_records(prov.model.ProvGeneration):
        entity, activity, time = r.args
        made[entity.uri] = activity.uri
        begin, end = activities[activity.uri].get_startTime(), activities[activity.uri].get_endTime()
        assert time is None or begin <= time <= (end or time) and begin.utcoffset() == datetime.timedelta(0), r
    assert set(made) == set(entities)
    sources = {version_uri(sandbox, n) for n in ("config.yaml", "data/in.csv")}
    assert sources == {e for e, a in made.items() if ":process:" in a}
    used = {(a.uri, e.uri) for r in document.get_records(prov.model.ProvUsage) for a, e in [r.args[:2]]}
    assert used == {(c, version_uri(sandbox, i["path"].removeprefix(sandbox.project + "/"), i["n"]))
                    for c, s in commands.items() for i in s["inputs"]}
    informed = {(a.uri, b.uri) for r in document.get_records(prov.model.ProvCommunication) for a, b in [r.args[:2]]}
    assert informed == {(a, made[e]) for a, e in used if e in made and made[e] != a}
    derived = {}
    for r in document.get_records(prov.model.ProvDerivation):
        derived[r.args[0].uri] = (r.args[1].uri, bool(r.get_asserted_types()))
    assert derived[version_uri(sandbox, "moved")] == (version_uri(sandbox, "sum"), False)
    assert derived[version_uri(sandbox, "moved", 2)] == (version_uri(sandbox, "moved"), True)
    assert derived[version_uri(sandbox, "config.yaml", 3)] == (version_uri(sandbox, "config.yaml"), True)
    assert version_uri(sandbox, "result") not in derived
    [agent] = [a for a in document.get_records(prov.model.ProvAgent) if prov.model.PROV["Person"] in a.get_asserted_types()]
    assert agent.identifier.localpart == sandbox.user.login


@pytest.mark.users("ordinary")
def test_prov_o(history, study, sandbox):
    """Says what PROV-JSON says."""
    study.run("mv sum moved")
    study.run("sed -i s/1/2/ moved")
    study.run("sort moved > result")
    turtle = sandbox.shfs("export", "prov-o", "result").stdout_bytes
    rapper = subprocess.run(["rapper", "-q", "-c", "-i", "turtle", "-", "urn:base"], input=turtle, capture_output=True,
                            check=True)
    assert not rapper.stderr
    graph = rdflib.Graph().parse(data=turtle, format="turtle")
    said = prov.model.ProvDocument.deserialize(content=sandbox.shfs("export", "prov", "result").stdout_bytes,
                                               format="json")
    for kind, name in (("Usage", "used"), ("Generation", "wasGeneratedBy"), ("Communication", "wasInformedBy"),
                       ("Association", "wasAssociatedWith")):
        told = {tuple(v.uri for v in r.args[:2]) for r in said.get_records(getattr(prov.model, f"Prov{kind}"))}
        assert told and {(str(a), str(b)) for a, b in graph.subject_objects(rdflib.PROV[name])} == told, kind
    derived = {tuple(v.uri for v in r.args[:2]) for r in said.get_records(prov.model.ProvDerivation)}
    assert derived == {(str(a), str(b)) for name in ("wasDerivedFrom", "wasRevisionOf")
                       for a, b in graph.subject_objects(rdflib.PROV[name])}
    # names and texts come back; what is not UTF-8 as it is shown
    labels = {str(o) for e in graph.subjects(rdflib.RDF.type, rdflib.PROV.Entity) for o in graph.objects(e, rdflib.RDFS.label)}
    for name in HOSTILE:
        shown = encoded(name).decode("utf-8", "backslashreplace")
        assert f"{shown}@2" in labels, name
    texts = {str(o) for a in graph.subjects(rdflib.RDF.type, rdflib.PROV.Activity) for o in graph.objects(a, rdflib.RDFS.label)}
    exported = json.loads(sandbox.shfs("export", "json", "result").stdout)
    assert texts == {s["text"] for s in exported["steps"]} | {"cat"}  # which left the sources
    times = [o for name in ("startedAtTime", "endedAtTime", "generatedAtTime") for o in graph.objects(None, rdflib.PROV[name])]
    assert len(times) > len(HOSTILE) and {t.datatype for t in times} == {rdflib.XSD.dateTime}
    assert all(isinstance(t.value, datetime.datetime) for t in times)


@pytest.mark.users("ordinary")
def test_who_left_a_source(study, sandbox):
    study.run(" echo secret > hidden; cp hidden hidden2")
    study.run("cat hidden hidden2 > both")
    for form in "prov", "prov-o":
        text = sandbox.shfs("export", form, "both").stdout
        assert "secret" not in text and "text was not kept" in text
    said = json.loads(sandbox.shfs("export", "prov", "both").stdout)
    assert len(said["activity"]) == 2 and len(said["wasGeneratedBy"]) == 3 and len(said["wasInformedBy"]) == 1


@pytest.mark.users("ordinary")
def test_what_export_refuses(study, sandbox):
    assert "did you" in sandbox.shfs("export", "sh", "confg.yaml", check=3).stderr
    assert "the formats are sh, make" in sandbox.shfs("export", "pdf", "run.sh", check=2).stderr
    sandbox.shfs("export", "sh", check=2)
    study.run("sh run.sh")
    sandbox.shfs("export", "sh", "out.csv", "-o", f"{sandbox.project}/nowhere/script", check=1)
    sandbox.shfs("export", "sh", "out.csv", "-o", f"{sandbox.project}/run.sh", check=4)
    assert sandbox.read("run.sh").decode() == PROJECT["run.sh"]
    for form in "json", "prov-o", "sh":
        assert "cannot write" in sandbox.shfs("export", "-f", "-o", "/dev/full", form, "out.csv", check=1).stderr
