# SPDX-License-Identifier: MIT
"""Which software commands used, in which environment, and how much time: on real shells, beside dpkg's own word."""

import json
import os
import subprocess

import pytest

from harness import ids_of, stale_results, wait_until
from test_forget import places
from test_hook import start
from test_secrets import configure

pytestmark = [pytest.mark.either, pytest.mark.software]


def shown(sandbox, text, which=-1):
    return json.loads(sandbox.shfs("show", "--json", ids_of(sandbox, text)[which]).stdout)


def software(sandbox, text, which=-1):
    return {p["path"]: p for p in shown(sandbox, text, which)["software"]}


def package(sandbox, text, path, which=-1):
    """What is recorded of a program, once its thread has looked it up."""

    def is_there():
        return path in software(sandbox, text, which)

    wait_until(is_there, f"{path} is known")
    p = software(sandbox, text, which)[path]
    return tuple(p.get(key) for key in ("manager", "package", "version"))


def variables(sandbox, text, which=-1):
    return dict(v.split("=", 1) for v in shown(sandbox, text, which)["environment"])


def dpkg(path):
    """What dpkg says of a program."""
    for name in path, path.removeprefix("/usr"):
        found = subprocess.run(["dpkg-query", "-S", name], capture_output=True, text=True)
        if not found.returncode:
            owner = found.stdout.split(": ")[0]
            version = subprocess.run(["dpkg-query", "-Wf", "${Version}", owner], capture_output=True, text=True)
            return ("dpkg", owner.split(":")[0], version.stdout)
    return (None, None, None)


def put(sandbox, name, text, mode=0o644):
    """A file of the user's outside of the project."""
    path = os.path.join(sandbox.home, name)
    sandbox.run("mkdir", "-p", os.path.dirname(path))
    sandbox.write_outside(path, text, mode)
    return path


def tool(sandbox, name, says):
    """A compiled program outside of the project; an old one is replaced, as installers do."""
    source = put(sandbox, "source.c", f'#include <stdio.h>\nint main(void)\n{{\n\treturn puts("{says}") < 0;\n}}\n')
    path = os.path.join(sandbox.home, name)
    sandbox.run("mkdir", "-p", os.path.dirname(path))
    sandbox.run("cc", "-o", f"{path}.new", source)
    os.rename(f"{path}.new", path)
    return path


@pytest.mark.both
def test_programs_of_dpkg(work, sandbox):
    line = "sort data/in.csv | gzip > x.gz; awk 1 data/in.csv > y"
    work.run(line)
    for name in "sort", "gzip", "awk":
        path = os.path.realpath(f"/usr/bin/{name}")
        assert package(sandbox, line, path) == dpkg(path)
    out = sandbox.shfs("show", ids_of(sandbox, line)[0]).stdout
    _, name, version = dpkg("/usr/bin/sort")
    assert f"{name} {version} (dpkg)" in out
    assert "environment" not in out and "PATH=" in sandbox.shfs("show", "-f", ids_of(sandbox, line)[0]).stdout
    assert "/usr/bin/bash" not in software(sandbox, line)  # the shell itself
    # a script of a package, and its interpreter
    work.run("zgrep a x.gz > z")
    assert package(sandbox, "zgrep a x.gz > z", "/usr/bin/zgrep") == dpkg("/usr/bin/zgrep")


def test_virtual_environment_in_the_project(work, sandbox):
    """Its files are on the mount itself, which reads them without asking itself."""
    work.run("mkdir -p venv/bin venv/lib/python3.11/site-packages/lab_tool-1.2.dist-info")
    site = "venv/lib/python3.11/site-packages/lab_tool-1.2.dist-info"
    sandbox.write("venv/pyvenv.cfg", b"home = /usr/bin\n")
    sandbox.write("venv/bin/lab", b"#!/usr/bin/python3\nprint(1)\n")
    sandbox.write(f"{site}/RECORD", b"../../../bin/lab,sha256=x,10\n")
    sandbox.write(f"{site}/METADATA", b"Metadata-Version: 2.1\nName: lab-tool\nVersion: 1.2\n\n")
    work.run("chmod +x venv/bin/lab")
    work.run("venv/bin/lab > made")
    assert sandbox.read("made") == b"1\n"
    assert package(sandbox, "venv/bin/lab > made", f"{sandbox.project}/venv/bin/lab") == ("venv", "lab-tool", "1.2")
    python = os.path.realpath("/usr/bin/python3")
    assert package(sandbox, "venv/bin/lab > made", python) == dpkg(python)
    work.run("grep -c . venv/bin/lab > n")
    assert not [p for p in software(sandbox, "grep -c . venv/bin/lab > n") if p.startswith(sandbox.project)]


LOAD = """import ctypes, os, sys, time
for library in sys.argv[1:]:
    ctypes.CDLL(library)
print(sys.argv[1:], file=open("loaded", "w"))
while os.path.exists("loaded"):
    time.sleep(0.05)
"""


def r_package(sandbox, name, version, description="Package: {name}\nVersion: {version}\nTitle: A\n B\n"):
    """An installed package of R, with compiled code."""
    source = put(sandbox, "source.c", f'const char *version = "{version}";\n')
    put(sandbox, f"library/{name}/DESCRIPTION", description.format(name=name, version=version))
    path = os.path.join(sandbox.home, f"library/{name}/libs/{name}.so")
    sandbox.run("mkdir", "-p", os.path.dirname(path))
    sandbox.run("cc", "-shared", "-o", f"{path}.new", source)
    os.rename(f"{path}.new", path)
    return path


def test_packages_of_r(sandbox, mounted, shell):
    """R itself is played by Python, in its place; what it has loaded is seen while it runs."""
    exe = os.path.join(sandbox.home, "R/bin/exec/R")
    sandbox.run("mkdir", "-p", os.path.dirname(exe))
    sandbox.run("cp", os.path.realpath("/usr/bin/python3"), exe)
    load, work = put(sandbox, "load.py", LOAD), shell()
    fast, base = r_package(sandbox, "fast.er", "1.0-3"), r_package(sandbox, "stats", "4.2")
    forged = [
        r_package(sandbox, "other", "1.0", "Package: ggplot2\nVersion: {version}\n"),
        r_package(sandbox, "escape", "1.0", "Package: {name}\nVersion: 1\x1b[31m\n"),
        r_package(sandbox, "none", "1.0", "Title: none\n"),
    ]

    def run(*libraries):
        line = " ".join((exe, load, *libraries))
        work.run(f"{line} &")
        work.run("until [ -s loaded ]; do sleep 0.05; done")
        sandbox.shfs("sync")
        work.run("rm loaded")
        work.run("wait")
        return f"{line} &"

    line = run(fast, base, *forged)
    assert package(sandbox, line, fast) == ("R", "fast.er", "1.0-3")
    assert not set(software(sandbox, line)) & {base, *forged}
    assert "fast.er 1.0-3 (R)" in sandbox.shfs("show", ids_of(sandbox, line)[0]).stdout
    # known, and recorded for the next process all the same; then of another version
    assert run(fast, base, *forged) == line and package(sandbox, line, fast) == ("R", "fast.er", "1.0-3")
    r_package(sandbox, "fast.er", "1.1")
    run(fast, base, *forged)
    assert package(sandbox, line, fast) == ("R", "fast.er", "1.1")
    assert package(sandbox, line, fast, 0) == package(sandbox, line, fast, 1) == ("R", "fast.er", "1.0-3")
    # one that loads nothing
    assert set(software(sandbox, run())) & {fast, base} == set()


def test_another_version(work, sandbox):
    """A conda package that was updated between two runs: compare says so, and says what is the same."""
    samtools = tool(sandbox, "conda/envs/a/bin/samtools", "one")
    old = put(sandbox, "conda/envs/a/conda-meta/samtools-1.16-h1_0.json", json.dumps({"files": ["bin/samtools"]}))
    for version in "1.16", "1.17":
        work.run(f"{samtools} > out.txt")
        found = ("conda", "samtools", version)
        wait_until(lambda: package(sandbox, f"{samtools} > out.txt", samtools) == found, f"{version} is known")
        tool(sandbox, "conda/envs/a/bin/samtools", "two")
        put(sandbox, "conda/envs/a/conda-meta/samtools-1.17-h1_0.json", json.dumps({"files": ["bin/samtools"]}))
        if os.path.exists(old):
            os.unlink(old)
    # what was true then stays true
    assert package(sandbox, f"{samtools} > out.txt", samtools, 0) == ("conda", "samtools", "1.16")
    ids = ids_of(sandbox, f"{samtools} > out.txt")
    found = json.loads(sandbox.shfs("compare", "--json", *ids, check=1).stdout)["stages"][-1]["differences"]
    assert [(d["what"], d["explained"]) for d in found] == [("software", False), ("result", True)]
    assert "samtools 1.16 (conda)" in found[0]["first"] and "samtools 1.17 (conda)" in found[0]["second"]
    out = sandbox.shfs("compare", *ids, check=1).stdout
    assert "Earliest difference: the software" in out and f"+ used {samtools}" in out
    sandbox.shfs("reindex")
    again = json.loads(sandbox.shfs("compare", "--json", *ids, check=1).stdout)["stages"][-1]["differences"]
    assert again == found


def test_replaced_without_a_package(work, mounted, sandbox):
    mine = tool(sandbox, "bin/mine", "one")
    work.run(f"{mine} > out.txt")
    package(sandbox, f"{mine} > out.txt", mine)
    before = software(sandbox, f"{mine} > out.txt")[mine]["mtime"]
    tool(sandbox, "bin/mine", "two")
    work.run(f"{mine} > out.txt")
    wait_until(lambda: software(sandbox, f"{mine} > out.txt")[mine]["mtime"] != before, "the new one is known")
    work.run(f"{mine} > out.txt")
    first, second, third = ids_of(sandbox, f"{mine} > out.txt")
    found = json.loads(sandbox.shfs("compare", "--json", first, second, check=1).stdout)["stages"][-1]["differences"]
    assert [d["what"] for d in found] == ["software", "result"]
    sandbox.shfs("compare", second, third)  # the same
    # also with fingerprints of another kind
    work.run("cd /")
    mounted.unmount()
    configure(sandbox, "[archive]\nfingerprint = all\n")
    sandbox.mount()
    work.run(f"cd {sandbox.project}")
    work.run(f"{mine} > out.txt")
    package(sandbox, f"{mine} > out.txt", mine)
    sandbox.shfs("compare", third, ids_of(sandbox, f"{mine} > out.txt")[-1])


def test_results_of_an_own_program(work, sandbox):
    """One that was built outside, and is built anew: what it made is stale, by whatever process of a command."""
    mine = tool(sandbox, "bin/mine", "one")
    other = tool(sandbox, "bin/other", "three")
    samtools = tool(sandbox, "conda/bin/samtools", "five")
    put(sandbox, "conda/conda-meta/samtools-1.16-h1_0.json", json.dumps({"files": ["bin/samtools"]}))
    work.run("for i in 1 2 3; do ~/bin/mine data/in.csv > m$i; ~/bin/other data/in.csv > o$i; done")
    work.run("~/conda/bin/samtools view data/in.csv > s; sort data/in.csv > d")
    work.run("cc -o ../bin/new -xc ../source.c && ../bin/new data/in.csv > n")
    assert not stale_results(sandbox)
    sources = [v["path"] for v in json.loads(sandbox.shfs("why", "m2", "--json").stdout)["versions"]]
    assert mine in sources and other not in sources
    assert not any("/bin/" in v["path"] for name in "snd" for v in json.loads(sandbox.shfs("why", name, "--json").stdout)["versions"])
    tool(sandbox, "bin/mine", "two")
    assert stale_results(sandbox) == {"m1", "m2", "m3"}
    shown = sandbox.shfs("stale", check=1).stdout
    assert "~/bin/mine@1  has changed since" in shown
    work.run("for i in 1 2 3; do ~/bin/mine data/in.csv > m$i; done")
    assert not stale_results(sandbox)


def test_environment(work, sandbox):
    work.run("export PYTHONPATH=/one LAB_X=1")
    work.run("printenv HOME PYTHONPATH > out.txt")
    work.run("export PYTHONPATH=/two LAB_X=2")
    work.run("printenv HOME PYTHONPATH > out.txt")
    work.run("unset PYTHONPATH")
    work.run("printenv HOME PYTHONPATH > out.txt || true")
    work.run("env -i /bin/cat out.txt > other.txt")
    assert variables(sandbox, "printenv HOME PYTHONPATH > out.txt", 0)["PYTHONPATH"] == "/one"
    assert variables(sandbox, "printenv HOME PYTHONPATH > out.txt", 1)["PYTHONPATH"] == "/two"
    third = variables(sandbox, "printenv HOME PYTHONPATH > out.txt || true")
    assert "PYTHONPATH" not in third and "LAB_X" not in third and third["HOME"] == sandbox.home
    assert shown(sandbox, "env -i /bin/cat out.txt > other.txt")["environment"] is not None
    first, second = ids_of(sandbox, "printenv HOME PYTHONPATH > out.txt")
    found = json.loads(sandbox.shfs("compare", "--json", first, second, check=1).stdout)["stages"][-1]["differences"]
    assert [(d["what"], d["first"], d["second"]) for d in found[:1]] == [("environment", "PYTHONPATH=/one", "PYTHONPATH=/two")]
    assert [(d["what"], d["explained"]) for d in found[1:]] == [("result", True)]
    (last,) = ids_of(sandbox, "printenv HOME PYTHONPATH > out.txt || true")
    out = sandbox.shfs("compare", second, last, check=1).stdout
    assert "- with PYTHONPATH=/two" in out and "+ with PYTHONPATH, which was not set" in out


def test_what_is_selected_and_redacted(sandbox, shell):
    configure(sandbox, "[record]\nenvironment = LAB_* !HOME\n")
    mounted = sandbox.mount()
    bash = shell("bash")
    bash.run("export LAB_URL=https://me:hunter2-correct@example.org/ LAB_TOKEN=hunter2-correct-horse LAB_A=a")
    bash.run("export OTHER=$(printf not-%s listed)")
    bash.run("/bin/echo a > out.txt")
    found = variables(sandbox, "/bin/echo a > out.txt")
    assert found["LAB_A"] == "a" and "[redacted]" in found["LAB_URL"] and found["LAB_TOKEN"] == "[redacted]"
    assert "HOME" not in found and "OTHER" not in found and "PATH" in found
    bash.run(" TZ=Antarctica/Troll /bin/echo a > hidden.txt")
    sandbox.shfs("sync")
    bash.run("cd /")
    mounted.unmount()
    for secret in b"hunter2", b"not-listed", b"Antarctica":
        assert not places(sandbox.store, secret)


def test_forgotten(work, mounted, sandbox):
    """With the command goes its environment, and what is recorded of programs that nothing else has used."""
    mine = tool(sandbox, "bin/my-very-own", "x")
    work.run("sort data/in.csv > s")
    work.run(f"TZ=Antarctica/Troll {mine} > out.txt")
    work.run("TZ=Africa/Lome sort -r data/in.csv > r")
    line = f"TZ=Antarctica/Troll {mine} > out.txt"
    package(sandbox, line, mine)
    package(sandbox, "sort data/in.csv > s", "/usr/bin/sort")
    sandbox.shfs("export", "tar", "r", "-o", f"{sandbox.home}/part.tar")
    sandbox.shfs("forget", "--yes", "--command", ids_of(sandbox, line)[0])
    sandbox.shfs("forget", "--yes", "--command", ids_of(sandbox, "sort data/in.csv > s")[0])
    assert package(sandbox, "TZ=Africa/Lome sort -r data/in.csv > r", "/usr/bin/sort") == dpkg("/usr/bin/sort")
    work.run("cd /")
    mounted.unmount()
    for what in b"Antarctica", b"my-very-own":
        assert not places(sandbox.store, what)
    # a part of a store has what its commands used, no more
    other = f"{sandbox.home}/other"
    sandbox.shfs("--store", other, "import", f"{sandbox.home}/part.tar", cwd="/")
    for what in b"Antarctica", b"my-very-own":
        assert not places(other, what)
    assert places(other, b"Lome") and places(other, b"coreutils")


def test_exports(work, sandbox):
    """Each format names the packages, and the scripts still run."""
    line = "sort data/in.csv | awk 1 > out.txt"
    work.run(line)
    _, name, version = dpkg("/usr/bin/sort")
    package(sandbox, line, "/usr/bin/sort")
    step = json.loads(sandbox.shfs("export", "json", "out.txt").stdout)["steps"][0]
    assert (name, version) in [(p.get("package"), p.get("version")) for p in step["software"]]
    assert any(v.startswith("PATH=") for v in step["environment"])
    script = sandbox.shfs("export", "sh", "out.txt").stdout
    assert f"#\t{name} {version} (dpkg)\n" in script
    sandbox.run("bash", "-n", input=script)
    said = json.loads(sandbox.shfs("export", "prov", "out.txt").stdout)
    agents = {a: p for a, p in said["agent"].items() if p["prov:type"]["$"] == "prov:SoftwareAgent"}
    (sort,) = [a for a, p in agents.items() if p["shfs:package"] == name]
    assert agents[sort]["shfs:version"] == version
    assert sort in [a["prov:agent"] for a in said["wasAssociatedWith"].values()]
    assert f"{name} {version} (dpkg)" in sandbox.shfs("export", "prov-o", "out.txt").stdout
    sandbox.shfs("export", "ro-crate", "out.txt", "-o", f"{sandbox.home}/crate")
    with open(f"{sandbox.home}/crate/ro-crate-metadata.json") as f:
        things = {t["@id"]: t for t in json.load(f)["@graph"]}
    (action,) = [t for t in things.values() if t["@type"] == "CreateAction"]
    used = [things[r["@id"]] for r in action["softwareRequirements"]]
    assert (name, version) in [(t["name"], t["version"]) for t in used]
    assert all(t["@type"] == "SoftwareApplication" for t in used)
    variables = {things[r["@id"]]["name"]: things[r["@id"]]["value"] for r in action["environment"]}
    assert [f"{k}={v}" for k, v in variables.items()] == step["environment"] and variables["PATH"] == sandbox.env["PATH"]


WORK = """
import resource, sys
x, n = bytearray(1 << 26), 0
while n < 0.2:
    sum(range(10000))
    used = resource.getrusage(resource.RUSAGE_SELF)
    n = used.ru_utime
print(int(used.ru_utime * 1e6), int(used.ru_stime * 1e6), used.ru_maxrss)
"""


@pytest.mark.parametrize("kind", ["bash", "zsh", "plain zsh"])
def test_usage(sandbox, mounted, shell, kind):
    """What a program says of itself, and a little more; of a line after it, its own."""
    sandbox.write_outside(f"{sandbox.path}/work.py", WORK)
    sh = start(shell, kind)
    line = f"/usr/bin/python3 {sandbox.path}/work.py"
    user, system, size = map(int, sh.run(line).split())
    for text in f"({line}; true)", "i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done", "true":
        sh.run(text)
    ids = {c["text"]: c["id"] for c in json.loads(sandbox.shfs("history", "--json", "--all").stdout)["commands"]}
    used = {text: json.loads(sandbox.shfs("show", "--json", ids[text]).stdout).get("usage") for text in ids}
    if kind == "plain zsh":
        assert set(used.values()) == {None}
        return
    assert used[line]["user_us"] >= user and used[line]["system_us"] >= system and used[line]["max_rss_kib"] >= size
    assert used[f"({line}; true)"]["user_us"] >= 200000
    assert "max_rss_kib" not in used["true"] and sum(used["true"].values()) < user
    assert sum(used["i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done"].values()) > 0
    largest = ", no process larger than an earlier one of its shell"
    shown = {text: sandbox.shfs("show", ids[text]).stdout for text in (line, "true")}
    assert " user, " in shown[line] and ", a process of " in shown[line] and largest not in shown[line]
    assert largest in shown["true"]
    sh.run("echo 1 > in")
    sh.run(f"{line} < in > out; true < in")
    sh.run("echo 2 > in")
    sandbox.shfs("rerun", "--yes", "out")
    [again, *_] = json.loads(sandbox.shfs("history", "--json", "--all").stdout)["commands"]
    usage = json.loads(sandbox.shfs("show", "--json", again["id"]).stdout)["usage"]
    assert usage["user_us"] >= 200000 and usage["max_rss_kib"] >= size // 2
