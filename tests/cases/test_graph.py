# SPDX-License-Identifier: MIT
"""The graph of commands and versions: why with its options, impact, stale."""

import json
import re
import shutil
import subprocess
import xml.etree.ElementTree as xml

import pytest

from analysis import PROJECT, SORT, lay_out

pytestmark = pytest.mark.users("ordinary")


@pytest.fixture
def study(sandbox, shell):
    """A small analysis, done once; what it began with was there before."""
    lay_out(sandbox, {**PROJECT, "config.yaml": "rate: 3\n"})
    sandbox.sh("echo 1 > apart")
    sandbox.mount()
    bash = shell()
    bash.run("sh run.sh")
    bash.run(SORT)
    return bash


def ask(sandbox, *args, check=0):
    return json.loads(sandbox.shfs(*args, "--json", check=check).stdout)


def plain(text):
    """Without the ids of commands."""
    return re.sub(r"(^|← |[├└]─ )[0-9a-f]{7,16}(?=$|  | )", r"\1ID", text, flags=re.M)


def names(sandbox, versions):
    return {f"{v['path'].removeprefix(sandbox.project + '/')}@{v['n']}" for v in versions}


# --- why ---


def test_what_was_found_and_made_again(sandbox, shell):
    """With the bytes that were there before anything was recorded, by who made them for those that came later."""
    sandbox.sh("printf 'b\\na\\n' > in; sort in > out; sort in > early")
    bash = shell()
    sandbox.mount()
    bash.run(f"cd {sandbox.project}; cat early > old")
    bash.run("sort in > out; sort in > early; : sorted")
    bash.run("cat out > copy")
    command = "sort in > out; sort in > early; : sorted"
    assert plain(sandbox.shfs("why", "copy").stdout).splitlines()[:3] == [
        "copy@1 ← ID  cat out > copy",
        f"└─ out@1 ← ID  sort in  of {command[:19]}…",
        "   └─ in@1  source  fingerprint only",
    ]
    assert plain(sandbox.shfs("why", "out").stdout).startswith(f"out@1 ← ID  sort in  of {command[:9]}")
    assert impact(sandbox, "in")[2:4] == [f"└─ out@1 ← ID  sort in  of {command[:19]}…", "   └─ copy@1 ← ID  cat out > copy"]
    # one that had been read before
    assert plain(sandbox.shfs("why", "old").stdout).splitlines()[1].startswith("└─ early@1  source")
    log = sandbox.shfs("log", "out").stdout
    assert log.startswith("written again, the same  ") and log.endswith("found there\n")
    assert "found there: no recorded command made it\n" in sandbox.shfs("log", "in").stdout
    bash.close()


def test_what_went_into_what_made_it_again(sandbox, shell):
    """By another name, or by git: it stays a source, or versions would come of themselves."""
    sandbox.sh("echo 1 > linked; echo 2 > kept; echo 3 > moved")
    bash = shell()
    sandbox.mount()
    bash.run(f"cd {sandbox.project}; ln linked link; cat link > a")
    bash.run("cat a > linked")
    bash.run("git init -q; git add kept; git -c user.name=n -c user.email=e commit -qm 1; git show HEAD:kept > b")
    bash.run("cat b > kept")
    bash.run("sort moved > c; mv moved there")
    bash.run("sort c > there")
    for name, lines in {
        "linked": ["linked@1 ← ID  cat a > linked", "└─ a@1 ←", "   └─ linked@1  source"],
        "kept": ["kept@1 ← ID  cat b > kept", "└─ b@1 ← ID  git show", "   └─ kept@1  source"],
        "there": ["there@1 ← ID  sort c > there", "└─ c@1 ← ID  sort moved", "   └─ moved@1  source"],
    }.items():
        told = plain(sandbox.shfs("why", name).stdout).splitlines()
        assert all(map(str.startswith, told, lines)), told
    bash.close()


def test_who_wrote_the_same_again(sandbox, shell):
    """A version is bytes; what lies there now is of who wrote them last, and what was read then of who had by then."""
    sandbox.write("in", b"1\n2\n")
    sandbox.mount()
    bash = shell()
    bash.run("echo 10 > limit")
    for say in "a", "b", "c":
        bash.run("awk -v t=$(cat limit) '$1 > t' in | wc -l > n")
        bash.run(f"cat n > {say}")
        bash.run("sort in > tmp; mv tmp sorted")
        bash.run(f"cat sorted > of-{say}")
        bash.run(f"echo {say}{say} > limit")
    why = {name: plain(sandbox.shfs("why", name).stdout) for name in ("n", "a", "b", "c")}
    assert {name: text.count("limit@") for name, text in why.items()} == dict.fromkeys(why, 1)
    assert "limit@3" in why["n"] and "limit@1" in why["a"] and "limit@2" in why["b"] and "limit@3" in why["c"]
    for n, say in (1, "a"), (2, "b"), (3, "c"):
        assert impact(sandbox, f"limit@{n}")[1:3] == [
            "└─ n@1 ← ID  awk -v t=$(cat limit) '$1 > t' in | wc -l > n",
            f"   └─ {say}@1 ← ID  cat n > {say}",
        ]
    # by another name, as many programs save
    runs = [c["id"] for c in ask(sandbox, "history", "--grep", "sort in")["commands"]]
    for say, run in zip("abc", sorted(runs, key=runs.index, reverse=True)):
        assert run[:7] in sandbox.shfs("why", f"of-{say}").stdout
    log = sandbox.shfs("log", "n").stdout
    assert log.startswith("written again, the same (2 times)  ") and log.count("awk") == 2
    bash.run("echo 5 > x; echo 5 > y; rm y; cat x > y")
    assert plain(sandbox.shfs("why", "y").stdout).startswith("y@1 ← ID  cat x  of echo 5")
    # a move makes nothing: what it brings is of who wrote it last
    bash.run("cat in > before")
    bash.run("sort in > before")
    bash.run("mv before after")
    assert plain(sandbox.shfs("why", "after").stdout).startswith("after@1 ← ID  sort in > before\n")
    assert sandbox.shfs("log", "after").stdout.startswith("after@1  ")
    bash.run("cat in > one")
    bash.run("mv one two")
    assert plain(sandbox.shfs("why", "two").stdout).startswith("two@1 ← ID  cat in > one\n")
    assert sandbox.shfs("log", "two").stdout.startswith("two@1  ")
    # the shell opens it, another process writes
    for _ in range(2):
        bash.run("{ sort in; } > many")
    assert plain(sandbox.shfs("why", "many").stdout).splitlines()[1].startswith("└─ in@1")
    assert sandbox.shfs("log", "many").stdout.count("written again, the same") == 1
    # a command that ends as it began has made nothing again; nor has one that brings back
    bash.run("cat in > z; cat z z > in2; cat in > z; git init -q; git add z; git checkout -q z; rm z; git checkout -q z")
    assert plain(sandbox.shfs("why", "z").stdout).startswith("z@1 ← ID  cat in")


def test_what_only_its_maker_read(study, sandbox):
    study.run("sort out.csv > mid; cat mid > final; rm mid")
    assert sandbox.shfs("impact", "mid").stdout.startswith("mid: no recorded command has read it")
    assert names(sandbox, ask(sandbox, "impact", "mid")["versions"]) == {"mid@1"}
    study.run("sort out.csv > mid2; sort mid2 > final2")  # two steps of one line
    assert names(sandbox, ask(sandbox, "impact", "mid2")["versions"]) == {"mid2@1", "final2@1"}


def test_links_and_changes_within_a_command(study, sandbox):
    """What a command changed or linked, and read itself, went into what it made of that."""
    study.run("cp top.txt grows")
    study.run("ln out.csv link; cat link > linked; cat out.csv link > both")
    study.run("echo more >> grows; cat grows > grown")
    for made, of in ("linked", "out.csv@1"), ("both", "out.csv@1"), ("grown", "grows@2"):
        why = ask(sandbox, "why", made)
        [maker] = [c for c in why["commands"] if f"{made}@1" in names(sandbox, c["made"])]
        assert names(sandbox, maker["inputs"]) == {of}
        assert f"{made}@1" in names(sandbox, ask(sandbox, "impact", of)["versions"])
    study.run("sed -i s/3/5/ config.yaml")
    study.run("sh run.sh")
    assert stale(sandbox, "linked", "both").popitem() == (
        "ln out.csv link; cat link > linked; cat out.csv link > both",
        ({"linked@1", "both@1"}, {"out.csv@1"}),
    )


def test_modules_of_python(sandbox, shell):
    """What a later run reads is not the module, but what Python has kept of it."""
    sandbox.write("mod.py", "X = 3\n")
    sandbox.write("main.py", "import mod\nprint(mod.X)\n")
    sandbox.mount()
    bash = shell()
    bash.run(f"unset PYTHONDONTWRITEBYTECODE PYTHONPYCACHEPREFIX; cd {sandbox.project}")
    bash.run("python3 main.py > first")
    bash.run("python3 main.py > second")
    [kept] = sandbox.sh("ls __pycache__").stdout.split()

    def inputs(made):
        [maker] = [c for c in ask(sandbox, "why", made)["commands"] if made in names(sandbox, c["made"])]
        return names(sandbox, maker["inputs"])

    assert inputs("first@1") == inputs("second@1") == {"main.py@1", "mod.py@1"}
    assert kept not in sandbox.shfs("why", "second").stdout
    assert names(sandbox, ask(sandbox, "impact", "mod.py")["versions"]) == {"mod.py@1", "first@1", "second@1"}
    bash.run("echo 'X = 4000' > mod.py")
    assert stale(sandbox) == {f"python3 main.py > {name}": ({f"{name}@1"}, {"mod.py@1"}) for name in ("first", "second")}
    bash.run("python3 main.py > third")
    bash.run("python3 main.py > fourth")
    assert inputs("third@1") == inputs("fourth@1") == {"main.py@1", "mod.py@2"}
    assert inputs("second@1") == {"main.py@1", "mod.py@1"}
    assert set(stale(sandbox)) == {"python3 main.py > first", "python3 main.py > second"}
    assert "mod.py" not in sandbox.shfs("compare", "first", "second", check=1).stdout
    for later in "third", "fourth":
        shown = sandbox.shfs("compare", "second", later, check=1).stdout
        assert "--- mod.py@1" in shown and "+++ mod.py@2" in shown
    bash.close()


# --- DOT ---


def labels(dot):
    """What Graphviz draws of it: (boxes, ellipses, edges)."""
    if not shutil.which("dot"):
        pytest.skip("no graphviz")
    run = subprocess.run(["dot", "-Tsvg"], input=dot.encode(), capture_output=True, check=True)
    assert run.stderr == b""
    found = {"polygon": [], "ellipse": [], "edge": 0, None: []}
    for group in xml.fromstring(run.stdout).iter("{http://www.w3.org/2000/svg}g"):
        if group.get("class") == "edge":
            found["edge"] += 1
        elif group.get("class") == "node":
            [text] = [t.text for t in group.iter("{http://www.w3.org/2000/svg}text")]
            shape = [e.tag.split("}")[1] for e in group if e.tag.endswith(("polygon", "ellipse"))]
            found[shape[0] if shape else None].append(text.replace("\xa0", " "))
    return sorted(found["polygon"]), sorted(found["ellipse"]), found["edge"], sorted(found[None])


def test_why_dot(study, sandbox):
    boxes, ellipses, edges, _ = labels(sandbox.shfs("why", "--dot", "top.txt").stdout)
    assert boxes == ["sh run.sh", "sort -rn out.csv > top.txt"]
    files = ["config.yaml@1", "data/in.csv@1", "model.awk@1", "out.csv@1", "run.sh@1", "top.txt@1"]
    assert ellipses[:-1] == files[:-1] and ellipses[-1] == files[-1] and edges == 7
    programs = labels(sandbox.shfs("why", "--dot", "--programs", "top.txt").stdout)[3]
    assert any(p.endswith("awk") for p in programs) and any(p.endswith("/sort") for p in programs)
    sandbox.shfs("why", "--dot", "--json", "top.txt", check=2)


HOSTILE = ['a"b', "back\\", "\\N\\l", "<b>x", "a&lt;b", "new\nline", "esc\x1b[31m", "-> {", "ü", b"\xff\xfe", "'; #"]


def test_dot_with_names_that_are_meant_to_harm(mounted, sandbox, shell):
    shown = ['a"b', "back\\", "\\N\\l", "<b>x", "a&lt;b", "new\\nline", "esc\\e[31m", "-> {", "ü", "\\xff\\xfe", "'; #"]
    script = "import os\nfor n in %r: open(n, 'w').write('1')" % [
        n if isinstance(n, bytes) else n.encode() for n in HOSTILE
    ]
    sandbox.write("make.py", script)
    bash = shell()
    bash.run("python3 make.py")
    bash.run("cat ./* > 'all\"\\'; : '\"&amp;\\'")
    boxes, ellipses, _, _ = labels(sandbox.shfs("why", "--dot", 'all"\\').stdout)
    assert {f"{n}@1" for n in shown} <= set(ellipses)
    assert "cat ./* > 'all\"\\'; : '\"&amp;\\'" in boxes


# --- does it depend on ...? ---


def test_why_from(study, sandbox):
    shown = plain(sandbox.shfs("why", "top.txt", "--from", "data").stdout)
    assert shown.splitlines() == [
        "top.txt@1 ← ID  sort -rn out.csv > top.txt",
        "out.csv@1 ← ID  sh run.sh",
        "data/in.csv@1  source  fingerprint only",
    ]
    found = ask(sandbox, "why", "top.txt", "--from", "data")
    assert found["depends"] and names(sandbox, found["found"]) == {"data/in.csv@1"}
    way = [(v["command"] or {}).get("text") for v in found["way"]]
    assert way == ["sort -rn out.csv > top.txt", "sh run.sh", None]
    # one file; all of it; the file itself is no answer
    assert "model.awk@1" in sandbox.shfs("why", "top.txt", "--from", "model.awk").stdout
    assert "out.csv@1" in sandbox.shfs("why", "top.txt", "--from", ".").stdout
    assert len(ask(sandbox, "why", "top.txt", "--from", ".")["found"]) == 5
    assert "depends on nothing" in sandbox.shfs("why", "data/in.csv", "--from", "data", check=1).stdout


def test_why_not_from(study, sandbox):
    study.run("mkdir other; cat top.txt > other/late")
    found = sandbox.shfs("why", "top.txt", "--from", "other", check=1)
    assert found.stdout == "top.txt@1 depends on nothing below other\n"
    found = ask(sandbox, "why", "top.txt", "--from", "other", check=1)
    assert (found["depends"], found["way"], found["found"], found["program"]) == (False, [], [], None)
    # of a place that was never seen nobody can tell
    assert "ever seen" in sandbox.shfs("why", "top.txt", "--from", "/srv", check=3).stderr


def test_programs(study, sandbox):
    shown = sandbox.shfs("why", "--programs", "top.txt").stdout
    assert re.search(r"^[├└]─ /\S*/sort  program$", shown, re.M), shown
    assert re.search(r"^   ├─ /\S*/[gm]?awk  program$", shown, re.M), shown
    assert "program" not in sandbox.shfs("why", "top.txt").stdout
    programs = {c["text"]: c["programs"] for c in ask(sandbox, "why", "top.txt")["commands"]}
    assert any(p.endswith("/sort") for p in programs["sort -rn out.csv > top.txt"])
    [sort] = [p for p in programs["sort -rn out.csv > top.txt"] if p.endswith("/sort")]
    shown = plain(sandbox.shfs("why", "top.txt", "--from", sort.removesuffix("/sort")).stdout)
    assert shown.splitlines()[-1].endswith("  program")
    assert ask(sandbox, "why", "top.txt", "--from", sort)["program"] == sort


# --- impact ---


def impact(sandbox, *args):
    return plain(sandbox.shfs("impact", *args).stdout).splitlines()


def test_impact(study, sandbox):
    study.run("cat config.yaml")
    assert impact(sandbox, "config.yaml") == [
        "config.yaml@1",
        "├─ ID  cat config.yaml  made nothing",
        "└─ out.csv@1 ← ID  sh run.sh",
        "   └─ top.txt@1 ← ID  sort -rn out.csv > top.txt",
        "",
        "3 commands, 2 results",
    ]
    assert impact(sandbox, "top.txt") == ["top.txt: no recorded command has read it"]
    assert impact(sandbox, "top.txt@1") == ["top.txt@1: no recorded command has read it"]
    found = ask(sandbox, "impact", "data/in.csv@1")
    assert names(sandbox, found["targets"]) == {"data/in.csv@1"}
    assert names(sandbox, found["versions"]) == {"data/in.csv@1", "out.csv@1", "top.txt@1"}
    edges = {c["text"]: (names(sandbox, c["inputs"]), names(sandbox, c["made"])) for c in found["commands"]}
    assert edges == {
        "sh run.sh": ({"data/in.csv@1"}, {"out.csv@1"}),
        "sort -rn out.csv > top.txt": ({"out.csv@1"}, {"top.txt@1"}),
    }


def test_impact_of_any_version_and_of_one(study, sandbox):
    study.run("sed -i s/3/5/ config.yaml")
    assert impact(sandbox, "config.yaml") == [
        "config.yaml@1",
        "├─ config.yaml@2 ← ID  sed -i s/3/5/ config.yaml",
        "└─ out.csv@1 ← ID  sh run.sh",
        "   └─ top.txt@1 ← ID  sort -rn out.csv > top.txt",
        "",
        "3 commands, 3 results",
    ]
    study.run("sh run.sh")
    assert impact(sandbox, "config.yaml") == [
        "config.yaml@2 ← ID  sed -i s/3/5/ config.yaml",
        "└─ out.csv@2 ← ID  sh run.sh",
        "",
        "config.yaml@1",
        "└─ out.csv@1 ← ID  sh run.sh",
        "   └─ top.txt@1 ← ID  sort -rn out.csv > top.txt",
        "",
        "4 commands, 3 results",
    ]
    assert impact(sandbox, "config.yaml@2")[:2] == ["config.yaml@2", "└─ out.csv@2 ← ID  sh run.sh"]
    # the edited file comes of the first, too, and what was made of that
    assert "   └─ out.csv@2 ← ID  sh run.sh" in impact(sandbox, "config.yaml@1")


def test_impact_depth_and_dot(study, sandbox):
    assert impact(sandbox, "--depth", "1", "config.yaml")[:3] == [
        "config.yaml@1",
        "└─ out.csv@1 ← ID  sh run.sh",
        "   └─ … shfs impact out.csv@1",
    ]
    found = {v["n"]: v["cut"] for v in ask(sandbox, "impact", "--depth", "2", "config.yaml")["versions"]}
    assert not any(found.values())
    boxes, ellipses, edges, _ = labels(sandbox.shfs("impact", "--dot", "config.yaml").stdout)
    assert boxes == ["sh run.sh", "sort -rn out.csv > top.txt"] and edges == 4
    assert ellipses == ["config.yaml@1", "out.csv@1", "top.txt@1"]
    sandbox.shfs("impact", "--dot", "--json", "config.yaml", check=2)


def test_impact_goes_through_changes(study, sandbox):
    for line in "cp data/in.csv a", "echo 4 >> a", "mv a b", "cat b b > c", "mv c model.awk":
        study.run(line)
    assert impact(sandbox, "data/in.csv")[1:-2] == [
        "├─ out.csv@1 ← ID  sh run.sh",
        "│  └─ top.txt@1 ← ID  sort -rn out.csv > top.txt",
        "└─ a@1 ← ID  cp data/in.csv a",
        "   └─ b@2 ← ID  echo 4 >> a",
        "      └─ c@1 ← ID  cat b b > c",
        "         └─ model.awk@2 ← ID  mv c model.awk",
    ]
    assert impact(sandbox, "a@2")[1] == "└─ b@2  the same, renamed"
    # the same the other way round
    assert "data/in.csv@1" in sandbox.shfs("why", "model.awk").stdout
    [version] = [v for v in ask(sandbox, "impact", "a@2")["versions"] if v["carried"]]
    assert version["origin"] == {"path": f"{sandbox.project}/a", "n": 2}


def test_impact_without_temporary_names(study, sandbox):
    study.run("sort out.csv > tmp; head -1 tmp > first; rm tmp")
    study.run("sort -r out.csv > tmp2; mv tmp2 second; cat second > third")
    found = [line.split(" ←")[0] for line in impact(sandbox, "out.csv")]
    assert sorted(line.split("─ ")[1] for line in found[1:-2]) == ["first@1", "second@1", "third@1", "top.txt@1"]
    assert names(sandbox, ask(sandbox, "impact", "out.csv@1")["versions"]) == {
        "out.csv@1", "top.txt@1", "first@1", "second@1", "third@1",
    }  # fmt: skip


def test_impact_of_what_was_made_before_it_was_read(study, sandbox):
    study.run("echo 1 > early; cat data/in.csv > late")
    assert "early@1" not in sandbox.shfs("impact", "data/in.csv").stdout
    assert "late@1" in sandbox.shfs("impact", "data/in.csv").stdout


def test_impact_past_git(study, sandbox):
    for line in (
        "git init -q -b main . && git config user.name A && git config user.email a@b",
        "git add -A; git commit -qm first",
        "sed -i s/3/4/ config.yaml; git commit -qam second",
        "git checkout -q HEAD^ config.yaml",
        "cp config.yaml out",
    ):
        assert study.run(line) == ""
    shown = sandbox.shfs("impact", "config.yaml@1").stdout
    assert "config.yaml@3 ← " in shown and "out@1 ← " in shown and ".git/" not in shown
    assert "out@1" not in sandbox.shfs("impact", "data/in.csv@1").stdout
    assert ".git/" in sandbox.shfs("impact", "--all", "config.yaml@1").stdout


def test_completion(study, sandbox):
    def offered(*words):
        return sandbox.shfs("complete", "--", *words).stdout.split("\n")[:-1]

    sandbox.shfs("sync")
    assert offered("why", "--from", "") == [":directories"]
    assert offered("impact", "con") == [":files"] and offered("stale", "con") == [":files"]
    assert offered("impact", "out.csv@")[0] == ":behind @" and len(offered("impact", "out.csv@")) == 2
    assert [o.split("\t")[0] for o in offered("why", "--d")] == ["--depth", "--dot", "--db", "--debug"]


# --- stale ---


def stale(sandbox, *args):
    """{command: (results, reasons)} of what is to be run again, in order."""
    found = json.loads(sandbox.shfs("stale", "--json", *args, check=False).stdout)
    return {
        c["text"]: (
            names(sandbox, c["results"]),
            {f"{r['path'].removeprefix(sandbox.project + '/')}@{r['read']}" for r in c["reasons"]},
        )
        for c in found["commands"]
    }


SORT = "sort -rn out.csv > top.txt"


def test_stale(study, sandbox):
    assert sandbox.shfs("stale").stdout == "0 of 2 results stale\n"
    study.run("sed -i s/3/5/ config.yaml")
    shown = plain(re.sub("(?m)^[0-9a-f]{7,}  ", "ID  ", sandbox.shfs("stale", check=1).stdout))
    assert shown.splitlines() == [
        "out.csv@1",
        "└─ config.yaml@1  is @2 now",
        "",
        "top.txt@1",
        "└─ out.csv@1  stale",
        "",
        "To run again, in this order:",
        "ID  sh run.sh",
        "         in ~/project",
        f"ID  {SORT}",
        "         in ~/project",
        "",
        "2 of 2 results stale",
    ]
    assert stale(sandbox) == {
        "sh run.sh": ({"out.csv@1"}, {"config.yaml@1"}),
        SORT: ({"top.txt@1"}, {"out.csv@1"}),
    }
    # one by one it is up to date again
    study.run("sh run.sh")
    assert stale(sandbox) == {SORT: ({"top.txt@1"}, {"out.csv@1"})}
    study.run(SORT)
    assert sandbox.shfs("stale").stdout == "0 of 2 results stale\n"


def test_stale_of_what_was_found_and_made_again(sandbox, shell):
    """With the bytes that were there before anything was recorded."""
    sandbox.sh("printf 'b\\na\\n' > in; sort in > out")
    bash = shell()
    sandbox.mount()
    bash.run(f"cd {sandbox.project}; sort in > out")
    bash.run("echo c >> in")
    shown = plain(sandbox.shfs("stale", check=1).stdout)
    assert shown.startswith("out@1\n└─ in@1  is @2 now\n") and "1 of 1 result stale" in shown
    bash.close()


def test_stale_of_what_was_moved_to_its_place(sandbox, shell):
    """By the command that made it, also when the file is there already; what is only moved is no result."""
    bash = shell()
    sandbox.mount()
    bash.run(f"cd {sandbox.project}; printf 'b\\na\\n' > in")
    lines = "sort in > out.tmp && mv out.tmp out", "mv in data; mv data in"
    for line in lines:
        bash.run(line)
    for change in "echo c >> in", "echo d >> in":
        bash.run(change)
        assert list(stale(sandbox)) == [lines[0]]
        assert sandbox.shfs("rerun", "--yes").stdout.endswith("1 command run; results: 0 same, 1 different\n")
    assert sandbox.read("out") == b"a\nb\nc\nd\n"
    assert sandbox.shfs("stale").stdout == "0 of 1 result stale\n"
    bash.close()


def test_stale_of_a_step_that_is_made_again(sandbox, shell):
    """With the same bytes, by a command that then uses it."""
    bash = shell()
    sandbox.mount()
    bash.run(f"cd {sandbox.project}; printf 'b\\na\\n' > in")
    for _ in range(2):
        bash.run("sort in > step; cat step > result")
    bash.run("echo c >> in")
    for asked in (), ("step",), ("result",):
        shown = plain(sandbox.shfs("stale", *asked, check=1).stdout)
        assert not {"step", "result"} & set(asked) or f"{asked[0]}@1\n" in shown
    assert "2 of 2 results stale" in plain(sandbox.shfs("stale", check=1).stdout)
    bash.close()


def test_stale_of_one_file(study, sandbox):
    study.run("wc -l < data/in.csv > lines")
    study.run("sed -i s/3/5/ config.yaml")
    assert sandbox.shfs("stale", "lines").stdout == "0 of 1 result stale\n"
    assert list(stale(sandbox, "top.txt")) == ["sh run.sh", SORT]
    assert list(stale(sandbox, "out.csv", "out.csv")) == ["sh run.sh"]
    assert stale(sandbox, "data") == {}
    assert "did you mean" in sandbox.shfs("stale", "top.tx", check=3).stderr


def test_the_same_content_again_is_not_stale(study, sandbox):
    study.run("echo 'rate: 5' > config.yaml")
    assert stale(sandbox)
    study.run("echo 'rate: 3' > config.yaml")
    assert stale(sandbox) == {}
    study.run("echo 'rate: 6' > config.yaml")
    study.run("shfs restore config.yaml@1")
    assert stale(sandbox) == {}


def test_a_result_that_was_made_again_the_same(study, sandbox):
    """It keeps its version, whose maker had read the older input."""
    study.run("echo '# a remark' >> model.awk")
    assert set(stale(sandbox)) == {"sh run.sh", SORT}
    study.run("sh run.sh; : again")
    assert sandbox.shfs("stale").stdout == "0 of 2 results stale\n"
    study.run("awk 1 out.csv > new; mv new moved")
    study.run("echo '# more' >> model.awk")
    study.run("sh run.sh")
    study.run("awk 1 out.csv > new; mv new moved")
    assert stale(sandbox) == {}


@pytest.mark.parametrize(
    "line",
    ["sed -i s/3/5/ data/in.csv; : model.awk", "cat config.yaml >> grows", "cp config.yaml config.bak", "ed -s model.awk < config.yaml",
     "cat config.yaml; echo 1 > unread"],
)  # fmt: skip
def test_what_is_no_result(study, sandbox, line):
    study.run("echo 1 > grows")
    study.run(line)
    before = set(stale(sandbox))
    study.run("echo 'rate: 9' > config.yaml")
    found = set(stale(sandbox)) - before - {"sh run.sh", SORT}
    assert found == ({line} if "unread" in line else set())


def test_stale_order_and_what_was_removed(study, sandbox):
    """The last command was run first; what made a removed file is run for those that read it."""
    study.run("sort top.txt > mid; cat mid > twin")
    study.run("sort mid > last")
    study.run("rm mid")
    study.run("echo 'extra' > extra")
    study.run("sort twin extra > all; sort last >> all")
    study.run("echo 'other' > extra")
    assert list(stale(sandbox)) == ["sort twin extra > all; sort last >> all"]
    study.run("sort mid extra > part; true")
    study.run("sed -i s/3/5/ config.yaml")
    found = list(stale(sandbox))
    assert found.index("sh run.sh") < found.index(SORT) < found.index("sort top.txt > mid; cat mid > twin")
    assert found.index("sort top.txt > mid; cat mid > twin") < found.index("sort mid > last")


def test_stale_with_a_needed_command(study, sandbox):
    study.run("sort out.csv > mid")
    study.run("echo x > extra")
    study.run("sort mid extra > last")
    study.run("rm mid")
    study.run("echo y > extra")
    found = ask(sandbox, "stale", "last", check=1)
    assert [(c["text"], c["needed"]) for c in found["commands"]] == [
        ("sort out.csv > mid", True),
        ("sort mid extra > last", False),
    ]
    assert (found["results"], found["stale"]) == (1, 1)


def test_git_brings_back_no_results(study, sandbox):
    study.run("git init -q . && git config user.name A && git config user.email a@b")
    study.run("git add -A; git commit -qm first")
    study.run("sed -i s/3/5/ config.yaml; sh run.sh; git commit -qam second")
    study.run("git checkout -q HEAD^")
    assert sandbox.shfs("stale", check=False).status in (0, 1)
    assert "out.csv" not in sandbox.shfs("stale", "out.csv").stdout


def test_what_a_failed_command_left(sandbox, shell):
    """It is no result: what is empty, and what was cut short by a signal. A search that finds nothing has not failed."""
    sandbox.sh("seq 9 > in")
    sandbox.mount()
    bash = shell()
    for line in (
        f"cd {sandbox.project}",
        "sort in nosuch > empty; false",
        "bash -c 'sort in; kill -9 $$' > killed",
        "nosuchprogram in > none",
        "grep zzz in > hits",
        "wc -l < empty > counted",
        "wc -l < hits > found",
        "sort in nosuch2 > part || true",
        "set -o pipefail; (cat in; exit 141) | head -3 > pipe; set +o pipefail",
        "sort in > typed; nosuchprogram",
        "sort in > whole; sort in > cut; sh -c 'kill -INT $$'",
        "grep 1 in | python3 -c 'import sys; sys.exit(1)' > tool",
    ):
        bash.run(line)
    runs = ask(sandbox, "stale", check=1)["commands"]
    assert {p["path"].rpartition("/")[2] for run in runs for p in run["results"]} == {"empty", "killed", "none", "counted", "cut", "tool"}, runs
    shown = sandbox.shfs("stale", check=1).stdout
    assert shown.count("its command ended with") == 5, shown


def test_what_a_failed_program_left(sandbox, shell):
    """What is there may be cut short, unless the program reports a result by its status, or always ends so."""
    sandbox.sh("seq 9 > in; seq 5 > in2; echo 'head -c 5 in > $1; exit $2' > script; touch ok")
    half = "o.write(open('in').read()[:9]); o.flush()"
    sandbox.write("half.py", f"import sys\no = open(sys.argv[1], 'w')\n{half}\nopen('nosuch')\n")
    sandbox.mount()
    bash = shell()
    failed = (
        "python3 half.py raised", f'python3 -c "o = open(\'inline\', \'w\'); {half}; raise SystemExit(2)"', "sh script status 3",
        "cat in nosuch > missing", "sort in | sh script piped 1", "grep 1 in nosuch > searched", "sh script well $([ -e ok ]; echo $?)",
    )  # fmt: skip
    right = (
        "grep 1 in > some", "diff in in2 > differ", "cmp in in2 > compared", "sort in > tested; [ -e nosuch ]", "sort in > found; grep -q zzz in",
        "python3 -m pytest --version nosuch > checked; cat in >> checked; (exit 1)", "cat in | head -1 > pipe", "! sort in > inverse",
        "sh script always 1", "yes | head -3 | cat - in > some2", "sort in > found2; ls nosuch",
    )  # fmt: skip
    for line in (f"cd {sandbox.project}", "sh script always 1", "sh script well $([ -e ok ]; echo $?)", "rm ok; echo 0 >> in2", *failed, *right):
        bash.run(line)
    runs = ask(sandbox, "stale", check=1)["commands"]
    assert {p["path"].rpartition("/")[2] for run in runs for p in run["results"]} == {
        "raised", "inline", "status", "missing", "piped", "searched", "well"
    }, runs  # fmt: skip


def test_labels_of_a_build(sandbox, shell):
    """A recipe is called by the program that did its work, not by its shell, nor by what that ran for itself."""
    sandbox.write("util.c", "int main(void) { return 0; }\n")
    sandbox.write("Makefile", "prog: util.o\n\t@echo '  LD' $@; cc -o $@ $^\n"
                  "util.o: util.c\n\t@echo '  CC'; mkdir -p o; gcc -c -o o/t $< && mv -f o/t $@; rm -rf o\n"
                  "lib.a: util.o\n\tar cr $@ $^\nver:\n\tif true; then date > $@.tmp; mv $@.tmp $@; fi\n")
    sandbox.mount()
    bash = shell()
    bash.run(f"cd {sandbox.project}; make SHELL=/bin/bash prog lib.a ver")
    for name, label in {"prog": "cc -o prog util.o", "util.o": "gcc -c -o o/t util.c", "lib.a": "ar cr lib.a util.o", "ver": "date"}.items():
        assert re.match(f"{name}@[12] ← ID  {label}  of ", plain(sandbox.shfs("why", name).stdout))
    shown = plain(sandbox.shfs("why", "prog").stdout)
    assert "└─ util.o@1 ← ID  gcc" in shown and shown.count("util.c@1") == 1


def test_many_sources_are_folded(sandbox, shell):
    """By directory, where there are several; --full lists them, and JSON has them all."""
    sandbox.sh("mkdir -p src/lib 'a b'; for n in $(seq 20); do echo $n > src/lib/$n.txt; echo $n > src/$n.txt; done; echo > 'a b/one'; echo > top")
    sandbox.mount()
    bash = shell()
    bash.run(f"cd {sandbox.project}; cat src/lib/*.txt src/*.txt 'a b/one' top > all; sort src/1.txt src/2.txt > few")
    lines = [line for line in plain(sandbox.shfs("why", "all").stdout).splitlines() if line]
    assert lines[1:] == ["├─ top@1  source  fingerprint only", "├─ a b/one@1  source  fingerprint only", "├─ src/  20 sources",
                         "└─ src/lib/  20 sources", "1 command, 42 sources"], lines
    full = sandbox.shfs("why", "all", "--full").stdout
    assert full.count("fingerprint only") == 42 and "more source" not in full
    assert len(ask(sandbox, "why", "all")["versions"]) == 43
    assert sandbox.shfs("why", "few").stdout.count("source  fingerprint") == 2
    # what is made stands below them
    bash.run("sort few all src/lib/*.txt > last")
    lines = [line for line in plain(sandbox.shfs("why", "last").stdout).splitlines() if line]
    # both were open at once: which was closed first does not matter
    assert lines[1] == "├─ src/lib/  20 sources" and any(line.strip("│ ") == "└─ src/lib/  20 sources" for line in lines[2:]), lines
    assert [line[3:8] for line in lines if "@1 ←" in line and line[0] in "├└"] in (["few@1", "all@1"], ["all@1", "few@1"]), lines
