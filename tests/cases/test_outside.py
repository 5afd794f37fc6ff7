# SPDX-License-Identifier: MIT
"""Files outside of all mounted directories: why names those that words tell of, and says that there may be others."""

import json
import os
import time

import pytest

from harness import stale_results
from twins import python

pytestmark = pytest.mark.users("ordinary")
NOTE = "files outside are known by their names alone"


@pytest.fixture
def bash(sandbox, shell):
    sandbox.sh("seq 100 > in; ln -s ../data/A.csv link; ln -s in inner; mkdir ../data ../data/sub; seq 9 > ../data/A.csv;"
               "printf 'sort in\\n' > ../data/run.sh; echo > ../data/B")
    sandbox.mount()
    shell = shell()
    shell.run(f"cd {sandbox.project}; T=$(mktemp -d)")
    time.sleep(0.02)  # as a person types: the time of what a command makes at once may lag behind its begin
    yield shell
    shell.run("rm -rf $T")


A = "~/data/A.csv"
# what is named outside by lines that make `out`
LINES = {
    "/bin/cp /etc/hostname out": ["/etc/hostname"],
    f"sort {A} ../data/A.csv > out": [A],
    f"sort < {A} > out": [A],
    "cat link in > out": [A],
    "cat inner > out": [],
    "(cd ../data; sort A.csv > $OLDPWD/out)": [A],
    "bash ../data/run.sh > out": ["~/data/run.sh"],
    "(exec bash ../data/run.sh) > out": ["~/data/run.sh"],
    f"dd if={A} of=out status=none": [A],
    f"x={A}; python3 -c 'import sys; open(\"out\", \"w\").write(open(sys.argv[1]).read())' $x": [A],
    f"awk --file=../data/run.sh {A} > out; cp {A} out": [A],
    f"for f in in {A}; do sort $f; done > out": [A],
    f"find . -name in -exec cat {{}} {A} \\; > out": [A],
    "cp $(readlink -f link) out": [A],
    # none of these is a file outside
    "awk '/1/{print}' in > out": [],
    "sed -e s/1/2/ -e '/usr/d' in > out": [],
    "grep -e /tmp/ -e /etc in > out; cp in out": [],
    "awk -F/ '{print $1}' in > out": [],
    "sort -T /tmp --output=out in": [],
    "cat ../data ../data/sub/ in > out 2> /dev/null": [],
    "printf '%s\\n' /dev/null /no/such/file > out": [],
    "cat /usr/lib/os-release /proc/uptime > out": [],
    "sort in > $T/x; head -3 $T/x > out; rm $T/x": [],
    "cat > out <<< hello": [],
    "cat > out <<EOF\nhello\nEOF": [],
}


# Without a mount, a program that has ended before its begin is read is known by its arguments alone,
# and who writes through a descriptor of the shell is not seen.
BY_MOUNT = [f"sort < {A} > out", "(cd ../data; sort A.csv > $OLDPWD/out)", f"for f in in {A}; do sort $f; done > out",
            f"awk --file=../data/run.sh {A} > out; cp {A} out"]


@pytest.mark.parametrize("line", LINES)
def test_names(sandbox, bash, line):
    check_names(sandbox, bash, line)


@pytest.mark.backends(without=["fuse", "fanotify"])  # it knows no arguments of one that has ended at once
@pytest.mark.parametrize("line", [line for line in LINES if line not in BY_MOUNT])
def test_names_without_a_mount(sandbox, bash, line):
    check_names(sandbox, bash, line)


def check_names(sandbox, bash, line):
    """A file outside is a source, with its fingerprint."""
    bash.run(line)
    found = json.loads(sandbox.shfs("why", "out", "--json").stdout)
    sources = [v["path"].replace(sandbox.home, "~") for v in found["versions"] if not v["path"].startswith(sandbox.project)]
    assert sorted(sources) == sorted(LINES[line]) and not any(c["outside"] for c in found["commands"])
    shown = sandbox.shfs("why", "out").stdout
    assert all(f"{name}@1  source  fingerprint only" in shown for name in LINES[line])


def test_by_name_alone(sandbox, bash):
    """What is gone, or what its own command had made or changed, is at least named."""
    bash.run("sleep .02; echo 1 > ../data/own; sort ../data/own in > out")
    found = json.loads(sandbox.shfs("why", "out", "--json").stdout)
    assert [c["outside"] for c in found["commands"]] == [[f"{sandbox.home}/data/own"]]
    assert "~/data/own  outside, not recorded" in sandbox.shfs("why", "out").stdout


@pytest.mark.backends(without=["fuse"])
def test_programs_seen_at_work(sandbox, bash):
    """The standard input, and the working directory, of one that has not ended at once."""
    slow = "import sys, time; print(len(open(sys.argv[1]).read()) if sys.argv[1:] else sys.stdin.read()); time.sleep(1)"
    sandbox.write("slow.py", slow)
    bash.run(f"python3 slow.py < {A} > a; cd ../data; python3 $OLDPWD/slow.py A.csv > $OLDPWD/b; cd -")
    assert all(f"{A}@1  source" in sandbox.shfs("why", name).stdout for name in "ab")
    bash.run(f"echo more >> {A}; sleep .05")
    assert stale_results(sandbox) == {"a", "b"}


def test_stale(sandbox, bash):
    """A file outside that has changed since makes stale what it went into, until that is made again."""
    sandbox.sh("mkdir ../bin; printf '#!/bin/sh\nsort \"$1\"\n' > ../bin/tool; chmod +x ../bin/tool; sleep .05")
    for line in (f"sort {A} > a", f"rev < {A} > b", "sort a > aa", "~/bin/tool in > c", "sort in > d"):
        bash.run(line)
    assert not stale_results(sandbox)
    bash.run(f"chmod 600 {A}; ln {A} ../data/other")
    assert not stale_results(sandbox)
    bash.run(f"echo more >> {A}; sleep .05")
    assert stale_results(sandbox) == {"a", "b", "aa"}
    shown = sandbox.shfs("stale", check=1).stdout
    assert f"{A}@1  has changed since" in shown
    sandbox.shfs("rerun", "--yes")
    assert not stale_results(sandbox) and f"{A}@2" in sandbox.shfs("why", "aa").stdout
    bash.run("sed -i s/sort/rev/ ../bin/tool; sleep .05")
    assert stale_results(sandbox) == {"c"}
    bash.run("~/bin/tool in > c")
    assert not stale_results(sandbox)
    bash.run(f"rm {A}")
    assert not stale_results(sandbox)
    # what a command itself has left outside is no input of it
    bash.run("sort in > ../data/own; head -3 ../data/own > e; sort in2 > ../data/own")
    assert not stale_results(sandbox)


def test_stale_by_way_of_another_place(sandbox, bash):
    """What a command left outside, and another one took: both are run again, in their order."""
    sandbox.sh("seq 20 > in1; seq 30 > in2; echo > in3; mkdir ../tmp")
    for line in (
        "sort -r in1 > ../tmp/1",
        "sort -r in2 > ../tmp/2",
        "head -2 ../tmp/1 > a; head -2 ../tmp/2 > b",
        "cat in3 ../tmp/2 > ~/tmp/3",
        "tail -3 ~/tmp/3 > c",
        "sort c > d",
        "sort in1 > ../tmp/own && head -3 ../tmp/own > e",
        "cp in1 ../tmp/backup",
        "sort ../tmp/backup > f",
    ):
        bash.run(line)
    assert not stale_results(sandbox)
    bash.run("seq 31 99 >> in2")
    assert stale_results(sandbox) == {"b", "c", "d"}
    assert "~/tmp/3  stale" in sandbox.shfs("stale", check=1).stdout
    sandbox.shfs("rerun", "--yes")
    assert not stale_results(sandbox)
    whole = "sort -r in2 | head -2 | cmp - b; sort -r in2 | cat in3 - | tail -3 | cmp - c; sort c | cmp - d"
    assert sandbox.sh(whole).stdout == ""
    # what is gone is made again, before it is read
    bash.run("rm ../tmp/3; echo more >> in3")
    assert stale_results(sandbox) == {"c", "d"}
    sandbox.shfs("rerun", "--yes")
    assert not stale_results(sandbox)
    assert sandbox.sh(whole).stdout == ""
    bash.run("seq 31 99 >> in1")
    assert stale_results(sandbox) == {"a", "e"}  # a backup is none if it follows


def test_rerun_names_what_it_writes_outside(sandbox, bash):
    """Before a command is run again that writes outside: neither compared nor put back, it is overwritten."""
    sandbox.sh("seq 9 > in; mkdir ../tmp")
    bash.run("sort -r in > ../tmp/reversed; tee ../tmp/copy < in > out; cat in > ~/kept")
    bash.run("sort in > quiet; cat ../tmp/copy ../outside > /dev/null")
    bash.run("echo 10 >> in")
    left = [f"{sandbox.home}/{name}" for name in ("kept", "tmp/copy", "tmp/reversed")]
    for path in left:
        os.truncate(path, 0)

    def outside(*args):
        found = json.loads(sandbox.shfs("rerun", "--json", *args).stdout)["commands"]
        return [sorted(c["outside"]) for c in found]

    assert outside("-n") == outside("-n", "--scratch") == [left, []]
    shown = sandbox.shfs("rerun", "-n").stdout.splitlines()
    named = [line.split(": ")[1] for line in shown if line.startswith("         writes outside: ")]
    assert [sorted(line.split(", ")) for line in named] == [["~/kept", "~/tmp/copy", "~/tmp/reversed"]]
    assert [os.path.getsize(path) for path in left] == [0, 0, 0]
    assert outside("--yes") == [left, []]
    assert all(os.path.getsize(path) for path in left)


@pytest.mark.parametrize("kind", ["samples", "whole"])
def test_fingerprints(sandbox, shell, kind):
    """What samples do not see, if the time is set back; and a file of the same bytes with another time."""
    if kind == "whole":
        sandbox.write_outside(f"{sandbox.home}/.config/shfs/config.ini", "[archive]\nfingerprint = all\nmax-size = 1M\n")
    sandbox.sh("mkdir ../data; seq 300000 > ../data/big; touch -d '1 hour ago' ../data/big; cp -p ../data/big ../data/other")
    sandbox.mount()
    terminal = shell()
    terminal.run("sort ../data/big > a; sort ../data/other > b; sort -r b > c")
    assert not stale_results(sandbox)
    terminal.run("touch ../data/other")
    assert stale_results(sandbox) == ({"b", "c"} if kind == "samples" else set())
    terminal.run("touch -r ../data/big t; printf x | dd of=../data/big bs=1 seek=5000 conv=notrunc status=none; touch -r t ../data/big")
    assert ("a" in stale_results(sandbox)) == (kind == "whole")
    # one that is not archived is found by its bytes
    log = json.loads(sandbox.shfs("log", "--json", "b").stdout)["versions"]
    assert bool(log[0]["object"]) == (kind == "samples")
    assert "sort ../data/other" in sandbox.shfs("history", "--content", "b").stdout


def test_links(sandbox, bash):
    """Who went through a link has it as an input; who only looked at it has not."""
    sandbox.sh("mkdir d; seq 5 > d/one; seq 6 > d/two; ln -sfn one d/latest; ln -s d/latest chain; ln -s d dir; seq 7 > plain")
    lines = {"a": "sort d/latest > a", "b": "python3 -c 'print(open(\"chain\").read())' > b", "c": "cat dir/one > c",
             "e": "ls -l dir d > e; readlink chain >> e", "f": "cat < chain > f", "g": "sort plain > g"}
    for line in lines.values():
        bash.run(line)
    assert not stale_results(sandbox)
    sources = {name: {v["path"].rsplit("/", 1)[1] for v in json.loads(sandbox.shfs("why", name, "--json").stdout)["versions"][1:]}
               for name in lines}
    assert sources["a"] == {"latest", "one"} and sources["b"] == {"chain", "latest", "one"} and sources["c"] == {"dir", "one"}
    assert not sources["e"] and sources["f"] == {"chain", "latest", "one"} and sources["g"] == {"plain"}
    bash.run("ln -sfn two d/latest; : pointed")
    assert stale_results(sandbox) == {"a", "b", "f"}
    sandbox.shfs("rerun", "--yes")
    assert not stale_results(sandbox) and sandbox.read("a") == b"1\n2\n3\n4\n5\n6\n"
    bash.run("rm dir; mkdir dir; seq 9 > dir/one; : a directory")
    assert "c" in stale_results(sandbox)


def test_removed_link(sandbox, bash):
    sandbox.sh("seq 5 > one; ln -s one latest")
    for line in ("sort latest > a", "rm latest a"):
        bash.run(line)
    found = sandbox.shfs("undelete", ".")
    assert found.status == 0 and not found.stderr, found
    assert sandbox.run("readlink", "latest").stdout == "one\n" and not stale_results(sandbox)


def test_link_pointed_back(sandbox, bash):
    sandbox.sh("seq 5 > one; seq 6 > two; ln -s one latest")
    for line in ("sort latest > a", "ln -sfn two latest", "cat latest > b", "ln -sfn one latest", "cat latest > c"):
        bash.run(line)
    assert stale_results(sandbox) == {"b"}
    bash.run("ln -sfn one latest; : the same again")
    assert stale_results(sandbox) == {"b"}


def test_own_mount_by_another_name(sandbox, bash):
    """Another way to the project is no file outside: it is seen as any other, and nothing waits for it."""
    sandbox.sh(f"ln -s {sandbox.project} ../alias; ln -s .ssh/id_rsa ../plain; mkdir ../.ssh; echo key > ../.ssh/id_rsa; sleep .05")
    bash.run("sort ~/alias/in > out; cat ~/plain > out2")
    shown = json.loads(sandbox.shfs("why", "out", "--json").stdout)["versions"][1:]
    assert [v["path"] for v in shown] == [f"{sandbox.project}/in"]
    assert "key" not in sandbox.shfs("log", f"{sandbox.home}/plain").stdout


def test_what_a_command_keeps_outside(sandbox, bash):
    """A file that a command reads and writes anew each time makes nothing stale; nor does what holds the same bytes."""
    sandbox.write("train.py", "import sys\nopen('log', 'w').write(open(sys.argv[1]).read())\nopen(sys.argv[2], 'a').write('more')\n")
    for n in range(3):
        bash.run(f"python3 train.py in ../data/model.bin; sleep .05; : {n}")
        assert not stale_results(sandbox)
    bash.run(f"sort {A} > a; sleep .05")
    bash.run(f"cp {A} ../data/same; cat ../data/same > {A}; touch {A}; sleep .05")
    assert not stale_results(sandbox)
    bash.run(f"sed s/9/8/ ../data/same > {A}; touch -r ../data/same {A}")
    assert stale_results(sandbox) == {"a"}


@pytest.mark.backends()
def test_stages(sandbox, bash):
    """Stages of a pipeline that touch no file of the mount; they need not begin before the one that does."""
    for line in (f"(:; cat {A} - < <(sleep 1.5); :) | sort > a", f"tac {A} - < <(sleep 1.5) | (sleep .1; exec sort) | cat > b",
                 f"sleep 1.5 | paste {A} - | rev > c"):
        bash.run(line)
    assert all(f"{A}@1  source" in sandbox.shfs("why", name).stdout for name in "abc")
    bash.run(f"echo more >> {A}; sleep .05")
    assert stale_results(sandbox) == {"a", "b", "c"}


# A shell that puts a stage into its group long after the fork, which no event tells.
LATE_GROUP = """
def fork(run):
    child = os.fork()
    if not child:
        run()
        os._exit(0)
    return child

def stage():
    time.sleep(.3)
    os.setpgid(0, 0)
    os.dup2(w, 1)
    os.close(r)
    os.close(w)
    held, end = os.pipe()
    fork(lambda: (os.close(end), os.dup2(held, 0), os.execlp("cat", "cat", "../data/A.csv", "-")))
    os.close(held)
    os.dup2(end, 1)
    time.sleep(1)

def sort():
    os.setpgid(0, first)
    os.dup2(r, 0)
    os.close(r)
    os.close(w)
    os.dup2(os.open("a", os.O_CREAT | os.O_WRONLY), 1)
    os.execlp("sort", "sort")

r, w = os.pipe()
first = fork(stage)
while os.getpgid(first) != first: time.sleep(.01)
second = fork(sort)
os.close(r)
os.close(w)
os.waitpid(second, 0)
time.sleep(1)
os.waitpid(first, 0)
"""


@pytest.mark.backends()
def test_stage_that_joins_its_group_late(sandbox, bash):
    python(sandbox, LATE_GROUP)
    sandbox.shfs("sync")
    seen = sandbox.shfs("select", "SELECT DISTINCT is_read FROM v_access WHERE path LIKE '%/data/A.csv'")
    assert json.loads(seen.stdout)["rows"] == [[1]]


@pytest.mark.backends()
def test_stage_that_executes_late(sandbox, bash):
    """As on a machine that is so busy that it gets no processor."""
    bash.run(f"(sleep .3; exec cat {A} - < <(sleep 1.5)) | sort > a")
    assert f"{A}@1  source" in sandbox.shfs("why", "a").stdout


def test_secret_outside(sandbox, bash):
    """A file with a secret name gets no fingerprint."""
    sandbox.sh("mkdir ../.ssh; echo key > ../.ssh/id_ed25519; sleep .05")
    bash.run("cat ~/.ssh/id_ed25519 in > out")
    seen, = [v for v in json.loads(sandbox.shfs("log", "~/.ssh/id_ed25519".replace("~", sandbox.home), "--json").stdout)["versions"]]
    assert seen["n"] == 1 and not seen.get("fingerprint"), seen


def test_it_is_said(sandbox, bash):
    """Also where no name tells of it; not where the shell itself wrote, or where inputs are known."""
    bash.run("python3 -c 'open(\"out\", \"w\").write(open(\"/etc/hostname\").read())'; : ")
    assert NOTE in sandbox.shfs("why", "out").stdout
    bash.run("echo typed > out")
    assert NOTE not in sandbox.shfs("why", "out").stdout
    bash.run("sort in > out; : sorted")
    assert NOTE not in sandbox.shfs("why", "out").stdout
    bash.run(f"sort {A} > out; sort out > more")
    way = sandbox.shfs("why", "more", "--from", "../data").stdout.splitlines()
    assert len(way) == 3 and way[2] == f"{A}@1  source  fingerprint only"
    assert json.loads(sandbox.shfs("why", "more", "--from", A.replace("~", sandbox.home), "--json").stdout)["way"][-1]["path"] == \
        A.replace("~", sandbox.home)
    assert "nothing below it was ever seen" in sandbox.shfs("why", "more", "--from", "../data/sub", check=3).stderr
    # many are counted
    bash.run("for n in $(seq 150); do echo $n > $T/$n; done; cat $T/* > out")
    assert "more outside files" in sandbox.shfs("why", "out").stdout
