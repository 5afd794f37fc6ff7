# SPDX-License-Identifier: MIT
"""Joins by content: the graph goes on where a copy came from that nobody was seen to make, or to read."""

import json
import re

import pytest

from test_trees import export, machines, record

assert machines  # a fixture
pytestmark = pytest.mark.users("ordinary")


def tree(sandbox, *args):
    """Without the ids of commands and the room that they leave."""
    lines = sandbox.shfs(*args).stdout.splitlines()
    return [re.sub(r"[0-9a-f]{7}  |(?<= )/.*/tmp[.]\w+", lambda m: "TMP" * ("/" in m[0]), line) for line in lines if line]


def names(versions):
    return {f"{v['path'].rpartition('/')[2]}@{v['n']}" for v in versions}


def upstream(sandbox, what):
    """What went in, without files outside, and what is a copy of what."""
    found = json.loads(sandbox.shfs("why", "--json", what).stdout)
    return names(v for v in found["versions"][1:] if "/tmp." not in v["path"]), {names([v]).pop(): names([v["copy_of"]]).pop() for v in found["versions"] if v["copy_of"]}


def downstream(sandbox, what):
    return names(json.loads(sandbox.shfs("impact", "--json", what).stdout)["versions"]) - {what}


@pytest.fixture
def bash(sandbox, shell):
    sandbox.sh("seq 100 > in; seq 30 > in2; printf x > tiny; printf '' > empty; seq 40 > one; cp -p one two")
    sandbox.mount()
    shell = shell()
    shell.run(f"cd {sandbox.project}; T=$(mktemp -d)")
    yield shell
    shell.run("rm -rf $T")


COPIES = {
    "cp": "cp a $T/x; cp $T/x b",
    "cp -p": "cp -p a $T/x\ncp -p $T/x b",
    "cat": "cat a > $T/x\ncat $T/x > b",
    "rsync": "rsync -a a $T/x\nrsync -a $T/x b",
    "tar": "tar cf $T/x.tar a\nmkdir $T/d; tar xf $T/x.tar -C $T/d\ntar xf $T/x.tar --transform s/a/b/",
    "gzip": "gzip -c a > $T/x.gz\nzcat $T/x.gz > b",
    "git": "git init -q $T/g; cp a $T/g/b; git -C $T/g add b\ngit --git-dir $T/g/.git --work-tree . checkout -q b",
    "mv": "mv a $T/x\nmv $T/x b",
    "dd": "dd if=a of=$T/x status=none\ndd if=$T/x of=b status=none",
    "python": """python3 -c "import shutil, sys; shutil.copy('a', sys.argv[1])" $T/x\npython3 -c "import shutil, sys; shutil.copy(sys.argv[1], 'b')" $T/x""",
}


@pytest.mark.parametrize("how", COPIES)
def test_copies_by_way_of_another_place(sandbox, bash, how):
    bash.run("sort -r in > a")
    for line in COPIES[how].splitlines():
        assert "rror" not in bash.run(line)
    bash.run("head -3 b > c; cat in2 > out")
    assert {"in@1", "a@1", "b@1"} <= upstream(sandbox, "c")[0], how
    assert {"a@1", "b@1", "c@1"} <= downstream(sandbox, "in@1")
    assert {"b@1", "c@1"} <= downstream(sandbox, "a@1")
    assert not upstream(sandbox, "c")[0] & {"in2@1", "tiny@1"} and downstream(sandbox, "in2@1") == {"out@1"}


def test_what_is_alike_by_chance(sandbox, bash):
    """Small contents, what was there with the same bytes, what was typed, and what has inputs of its own."""
    bash.run("cp tiny $T/t; cp $T/t small; : > none")
    bash.run("echo 'threshold: 0.05  # the usual one, of the paper of 2019' > config")
    bash.run("echo 'threshold: 0.05  # the usual one, of the paper of 2019' > other")
    bash.run("sort in > sorted; cat in2 in2 > /dev/null")
    bash.run("sort in | tee again > more; wc -l one two > counts")
    for name in "small", "none", "other":
        assert upstream(sandbox, name)[0] <= {"tiny@1"}, name
    assert "config@1" not in upstream(sandbox, "other")[0]
    assert "sorted@1" not in upstream(sandbox, "again")[0] | upstream(sandbox, "more")[0]
    assert upstream(sandbox, "counts") == ({"one@1", "two@1"}, {})
    assert not downstream(sandbox, "config@1") and not downstream(sandbox, "two@1") - {"counts@1"}
    # what many have made the same
    for n in range(12):
        bash.run(f"sort -r in > many{n}")
    sandbox.sh("cp many3 ../m")
    bash.run("cp ../m copied")
    assert not {name for name in upstream(sandbox, "copied")[0] if name.startswith("many")}


def test_it_is_said(sandbox, bash):
    bash.run("sort -r in > a; : made")
    bash.run("cp a $T/x")
    bash.run("cp $T/x b")
    assert tree(sandbox, "why", "b") == [
        "b@1 ← cp $T/x b",
        "├─ TMP/x  outside, not recorded",
        "└─ a@1  by way of TMP/x ← sort -r in > a; : made",
        "   └─ in@1  source  fingerprint only",
        "2 commands, 1 source",
        "files outside are known by their names alone",
    ]
    assert tree(sandbox, "why", "b", "--from", "in")[-1].startswith("in@1  source")


@pytest.mark.parametrize("how", ["cp -p", "cp", "rsync -a"])
def test_copies_from_another_machine(machines, sandbox, shfs, how):
    """It came before anything was recorded here, or while nothing was; what was made from it is downstream there."""
    machines.go("hostb")
    record(sandbox, "seq 50 80 > data.txt", "rev data.txt > fig.txt")
    archive = export(sandbox, "b")
    sandbox.sh(f"{how} fig.txt {sandbox.home}/carried")
    machines.go("hosta")
    sandbox.sh(f"mkdir papers; {how} {sandbox.home}/carried papers/figure1.txt")
    record(sandbox, "head -3 papers/figure1.txt > papers/caption.txt")
    assert "2 sources" not in shfs("why", "papers/caption.txt").stdout
    shfs("import", archive)
    there = "hostb:~/project"
    lines = tree(sandbox, "why", "papers/caption.txt")
    assert lines[1:4] == [
        "└─ papers/figure1.txt@1  fingerprint only",
        f"   └─ {there}/fig.txt@1  the same content ← rev data.txt > fig.txt",
        f"      └─ {there}/data.txt@1 ← seq 50 80 > data.txt",
    ]
    assert "3 commands, 0 sources" in lines
    way = tree(sandbox, "why", "papers/caption.txt", "--from", f"{there}/data.txt")
    assert len(way) == 4
    assert '"copy_of": {"path": "hostb:' in shfs("why", "--json", "papers/caption.txt").stdout
    assert shfs("why", "--dot", "papers/caption.txt").stdout.count("style=dashed") == 1
    # the same once it was archived
    record(sandbox, "echo more >> papers/figure1.txt")
    assert tree(sandbox, "why", "papers/caption.txt")[2:4] == lines[2:4]
    reached = shfs("impact", f"{there}/data.txt").stdout
    assert "papers/figure1.txt@1  the same content" in reached and "papers/caption.txt@1" in reached


# lines, and what goes into and out of `top` and `in`
BY_NAME = {
    "redirected": ["sort in > $T/x", "head -5 $T/x > top"],
    "from standard input": ["sort in > $T/x; : x", "head -5 < $T/x > top"],
    "gone since": ["sort in > $T/x", "head -5 $T/x > top; rm $T/x"],
    "named": ["sort -o $T/x in", "head -5 $T/x > top"],
    "copied": ["cp in $T/x", "rev $T/x > top"],
    "some time before": ["sort in > $T/x"] + ["true"] * 20 + ["head -5 $T/x > top"],
    "the last one": ["sort in2 > $T/x", "sort in > $T/x", "head -5 $T/x > top"],
    "a log beside": ["python3 -c 'open(\"log\", \"w\"); import sys; open(sys.argv[2], \"w\").write(open(sys.argv[1]).read())' in $T/x",
                     "head -5 $T/x > top; : $T/x"],
    "overwritten": ["cp in2 $T/x", "cp in $T/x", "head -5 $T/x > top"],
    "made anew of nothing": ["sort in2 > $T/x", "cp in $T/x", "head -5 $T/x > top"],
    "copied with a directory": ["cp -r . $T/d", "rev $T/d/in > top"],
    "with one below": ["mkdir -p e/f; cp in e/f/in; cp in2 e/in", "cp -rp e $T/; rm -r e", "head -3 $T/e/f/in > top"],
    "into one": ["mkdir $T/k; cp in2 in one -t $T/k", "(cd $T/k; head -3 in) > top"],
    "and gone since": ["cp -r . $T/d", "rev $T/d/in > top; rm $T/d/*"],
    "packed": ["tar cf $T/x.tar in", "tar xOf $T/x.tar > top"],
    "in a subshell": ["(cd $T && sort $OLDPWD/in > x)", "(cd $T && head -5 x > $OLDPWD/top)"],
}


@pytest.mark.parametrize("how", BY_NAME)
def test_by_way_of_a_name(sandbox, bash, how):
    """What an earlier command of the session left outside went into it, and nothing else."""
    for line in BY_NAME[how]:
        bash.run(line)
    found, _ = upstream(sandbox, "top")
    assert "in@1" in found and not found & {"in2@1", "one@1"}, found
    assert "top@1" in downstream(sandbox, "in@1") and "by way of" in sandbox.shfs("why", "top").stdout
    assert "/top" not in sandbox.shfs("impact", "in2", "--json", check=False).stdout


def test_what_many_read_outside(sandbox, bash):
    """Those that read the same file outside do not depend on one another, nor on who only looked at it."""
    bash.run("seq 40 > $T/ref; touch -d '1 hour ago' $T/ref; cd .; seq 5 > mine")
    for line in ("sort $T/ref one > a", "wc -l $T/ref two", "cat $T/ref in2 > b", "sort in $T/ref > $T/out", "sort < $T/ref > c"):
        bash.run(line)
    assert upstream(sandbox, "a")[0] == {"one@1"} and upstream(sandbox, "b")[0] == {"in2@1"} and not upstream(sandbox, "c")[0]
    assert downstream(sandbox, "one@1") == {"a@1"} and not downstream(sandbox, "two@1") and not downstream(sandbox, "in@1")
    # another session's file of that name
    other = sandbox.shell()
    other.run(f"cd {sandbox.project}; sort in > /tmp/other-{sandbox.user.uid}; : theirs")
    bash.run(f"head /tmp/other-{sandbox.user.uid} > d; rm /tmp/other-{sandbox.user.uid}")
    assert "in@1" not in upstream(sandbox, "d")[0]


def test_what_is_gone_or_a_log(sandbox, bash):
    """Readers of a file that is gone, and writers of one log, have nothing of one another; nor have later ones of what
    was overwritten."""
    sandbox.write("tool.py", "import sys\nopen(sys.argv[1], 'a').write('x')\nopen(sys.argv[3], 'w').write(open(sys.argv[2]).read())\n")
    for line in ("seq 40 > $T/ref; : q", "cat $T/ref one > r1", "cat $T/ref two > r2", "wc -l $T/ref in", "cat $T/ref in2 > r3", "rm $T/ref",
                 "python3 tool.py $T/log in o1", "python3 tool.py $T/log in2 o2",
                 "sort in > $T/y", "seq 9 > $T/y", "head -3 $T/y > z"):
        bash.run(line)
    assert upstream(sandbox, "r3")[0] == {"in2@1"} and upstream(sandbox, "r2")[0] == {"two@1"}
    assert upstream(sandbox, "o2")[0] == {"in2@1", "tool.py@1"} and not upstream(sandbox, "z")[0]
    assert downstream(sandbox, "in@1") == {"o1@1"}


def test_many_ways_outside(sandbox, bash):
    """Each command is walked once, however many ways lead to it."""
    sandbox.write("step.py", "import sys\nfor name in sys.argv[1:]:\n    open(name, 'a').write('x')\n")
    bash.run("F=$(for n in $(seq 20); do echo $T/f$n; done); python3 step.py $F")
    for n in range(12):
        bash.run(f"python3 step.py $F; cp in $T/f{n}; cat $F > out{n}")
    bash.run("for i in $(seq 60); do cat in /tmp/nothing 2> /dev/null; cp in $T/k; done > loop")
    bash.run("cat $T/k $F > out")
    assert "in@1" in upstream(sandbox, "out")[0] and "out@1" in downstream(sandbox, "in@1")


def test_generators(sandbox, bash):
    """What was generated twice is no copy."""
    for n in 1, 2:
        bash.run(f"seq 77 > s{n}; : {n}")
        bash.run(f"cat > h{n} <<EOF\n#SBATCH --time=10:00:00\n#SBATCH --mem=16G --cpus-per-task=4\nEOF")
        bash.run(f"dd if=/dev/zero of=z{n} bs=1k count=20 status=none; truncate -s 4096 t{n}; python3 --help > v{n}")
    for name in "s2", "h2", "z2", "t2", "v2":
        assert not upstream(sandbox, name)[0], name


def test_words_of_a_script(sandbox, bash):
    """The notes stand where they belong, and the words of a script are not those of what it runs."""
    bash.run("sort in > $T/x; :")
    bash.run("head -4 $T/x > b")
    bash.run("cat b in > c; :")
    shown = sandbox.shfs("why", "c").stdout
    assert shown.count("by way of") == 1 and "├─ in@1  source  fingerprint only" in shown
    sandbox.write("run.sh", "cat in > ra\nrev in2 > rb\n")
    bash.run("sort one > $T/log; :x")
    bash.run("bash run.sh $T/log")
    assert upstream(sandbox, "rb")[0] == {"in2@1", "run.sh@1"}
