# SPDX-License-Identifier: MIT
"""Files outside of all mounted directories: why names those that words tell of, and says that there may be others."""

import json

import pytest

pytestmark = pytest.mark.users("ordinary")
NOTE = "files outside are known by their names alone"


@pytest.fixture
def bash(sandbox, shell):
    sandbox.sh("seq 100 > in; ln -s ../data/A.csv link; ln -s in inner; mkdir ../data ../data/sub; seq 9 > ../data/A.csv;"
               "printf 'sort in\\n' > ../data/run.sh; echo > ../data/B")
    sandbox.mount()
    shell = shell()
    shell.run(f"cd {sandbox.project}; T=$(mktemp -d)")
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


@pytest.mark.parametrize("line", LINES)
def test_names(sandbox, bash, line):
    bash.run(line)
    shown = sandbox.shfs("why", "out").stdout
    lines = [text.split("  outside, not recorded")[0].lstrip("│├└─ ") for text in shown.splitlines() if "outside, not" in text]
    assert lines == LINES[line], shown
    assert (NOTE in shown) >= bool(lines)
    commands = json.loads(sandbox.shfs("why", "out", "--json").stdout)["commands"]
    assert [path.replace(sandbox.home, "~") for c in commands for path in c["outside"]] == LINES[line]


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
    assert len(way) == 3 and way[2] == f"{A}  outside, not recorded"
    assert json.loads(sandbox.shfs("why", "more", "--from", A.replace("~", sandbox.home), "--json").stdout)["outside"]
    assert "nothing below it was ever seen" in sandbox.shfs("why", "more", "--from", "../data/sub", check=3).stderr
    # many are counted
    bash.run("for n in $(seq 150); do echo $n > $T/$n; done; cat $T/* > out")
    assert "more outside files" in sandbox.shfs("why", "out").stdout
