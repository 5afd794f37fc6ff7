# SPDX-License-Identifier: MIT
"""The graph of commands and versions: why with its options, impact, stale."""

import json
import re
import shutil
import subprocess
import xml.etree.ElementTree as xml

import pytest

pytestmark = pytest.mark.users("ordinary")

FILES = {
    "config.yaml": "rate: 3\n",
    "data/in.csv": "1\n2\n3\n",
    "model.awk": "{ print $1 * rate }\n",
    "run.sh": 'awk -v rate="$(sed -n s/rate:.//p config.yaml)" -f model.awk data/in.csv > out.csv\n',
}


@pytest.fixture
def study(sandbox, shell):
    """A small analysis, done once; what it began with was there before."""
    sandbox.sh("mkdir data; echo 1 > apart")
    for name, text in FILES.items():
        sandbox.write(name, text)
    sandbox.mount()
    bash = shell()
    bash.run("sh run.sh")
    bash.run("sort -rn out.csv > top.txt")
    return bash


def ask(sandbox, *args, check=0):
    return json.loads(sandbox.shfs(*args, "--json", check=check).stdout)


def plain(text):
    """Without the ids of commands."""
    return re.sub(r"(^|← |[├└]─ )[0-9a-f]{7,16}(?=$|  | )", r"\1ID", text, flags=re.M)


def names(sandbox, versions):
    return {f"{v['path'].removeprefix(sandbox.project + '/')}@{v['n']}" for v in versions}


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
    assert "5 versions below . in all" in sandbox.shfs("why", "top.txt", "--from", ".").stdout
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
