# SPDX-License-Identifier: MIT
"""The jobs of a command: what each recipe or round of a loop made came of what that read, and not of all that
the command did."""

import json
import sqlite3

import pytest

from test_graph import ask, names, plain

pytestmark = pytest.mark.users("ordinary")

FILES = {
    "a.in": "2\n1\n",
    "b.in": "b\n",
    "lib.txt": "lib\n",
    "Makefile": """
sum: a.out b.out
	cat $^ | wc -l > $@
a.out: a.in
	sort $< > $@
b.out: b.in lib.txt
	cat $^ > $@.tmp
	mv $@.tmp $@
again:
	+$(MAKE) -B sum
""",
    "build.ninja": """
rule sort
  command = sort $in > $out
rule cat
  command = cat $in > $out.tmp && mv $out.tmp $out
rule count
  command = cat $in | wc -l > $out
build sum: count a.out b.out
build a.out: sort a.in
build b.out: cat b.in lib.txt
""",
}


@pytest.fixture(params=["make sum", "ninja sum", "make again", "cd .; make -j4 sum 2>&1 | cat"])
def build(request, sandbox, shell):
    """What builds all three; once it has."""
    for name, text in FILES.items():
        sandbox.write(name, text)
    sandbox.mount()
    shell().run(request.param)
    return request.param


@pytest.fixture
def bash(shell):
    return shell()


def inputs(sandbox, name, made=None):
    """Of what made it, what it read."""
    [maker] = [c for c in ask(sandbox, "why", name)["commands"] if made or name in {v.split("@")[0] for v in names(sandbox, c["made"])}]
    return {v.split("@")[0] for v in names(sandbox, maker["inputs"])}


def test_inputs(build, sandbox):
    told = "build.ninja" if "ninja" in build else "Makefile"
    assert inputs(sandbox, "a.out") == {told, "a.in"}
    assert inputs(sandbox, "b.out") == {told, "b.in", "lib.txt"}
    assert inputs(sandbox, "sum") == {told, "a.out", "b.out"}
    shown = plain(sandbox.shfs("why", "a.out").stdout)
    assert f"of {build}"[:12] in shown and "sort a.in" in shown and "\n1 command, 2 sources\n" in shown
    job = ask(sandbox, "why", "a.out")["commands"][0]
    assert job["text"] == build and "sort a.in" in " ".join(job["job"]["argv"])


def test_what_the_tool_knows(sandbox, bash):
    """What it includes, and what $(shell ...) reads, is of each job; but not what compilers note for it."""
    sandbox.write("Makefile", """
include settings
NAME := $(shell cat name)
-include a.d
all: a.out b.out
a.out: a.in
	echo $(RATE) $(NAME) | cat $< - > $@
	echo "# $$(wc -l < a.in)" > a.d
b.out: b.in
	$(MAKE) -f inner.mk $@
""")
    for name, text in {"inner.mk": "b.out: b.in\n\tcat $< > $@\n", "settings": "RATE = 1\n"}.items():
        sandbox.write(name, text)
    for name in "a.in", "b.in", "name":
        sandbox.write(name, name + "\n")
    sandbox.mount()
    bash.run("make -j2")
    bash.run("echo more >> b.in; make -j2")  # reads a.d
    told = {"Makefile", "settings", "name"}
    assert inputs(sandbox, "a.out") == {*told, "a.in"}
    assert inputs(sandbox, "b.out") == {*told, "inner.mk", "b.in"}
    bash.run("echo more >> a.in; make -j2")  # a.d is another
    assert sandbox.shfs("stale").stdout == "0 of 3 results stale\n"
    for name in "settings", "name":
        found = {v["path"].rsplit("/", 1)[1] for v in ask(sandbox, "impact", name)["versions"]}
        assert found == {name, "a.out", "b.out", "a.d"}
        bash.run(f"echo '#' >> {name}")
        assert "3 of 3 results stale" in sandbox.shfs("stale", check=1).stdout


def test_impact(build, sandbox):
    found = {v["path"].rsplit("/", 1)[1] for v in ask(sandbox, "impact", "a.in")["versions"]}
    assert found - {".ninja_log"} == {"a.in", "a.out", "sum"}
    if "ninja" not in build:
        found = {v["path"].rsplit("/", 1)[1] for v in ask(sandbox, "impact", "Makefile")["versions"]}
        assert found == {"Makefile", "a.out", "b.out", "sum"}
        assert "\n1 command, 2 results\n" in sandbox.shfs("impact", "a.in").stdout


def test_what_is_built_anew_is_not_stale(build, sandbox, bash):
    assert sandbox.shfs("stale").stdout == "0 of 3 results stale\n"
    bash.run("echo 3 >> a.in")
    shown = sandbox.shfs("stale", check=1).stdout
    assert "b.out" not in shown and shown.endswith("\n2 of 3 results stale\n")
    assert shown.count(f"  {build}\n") == 1  # it is to be run once
    bash.run(build)
    assert sandbox.shfs("stale").stdout == "0 of 3 results stale\n"


def test_what_the_tool_has_decided(build, sandbox, bash):
    """A remark in what tells it what to do makes all stale, until the same command has left it as it is."""
    tool, told = ("ninja", "build.ninja") if "ninja" in build else ("make", "Makefile")
    bash.run(f"echo '# a remark' >> {told}")
    assert sandbox.shfs("stale", check=1).stdout.endswith("\n3 of 3 results stale\n")
    bash.run(f"{tool} a.out")  # not the same command
    bash.run("mv lib.txt away")
    bash.run(build)  # fails
    assert "b.out@1\n" in sandbox.shfs("stale", check=1).stdout
    bash.run("mv away lib.txt")
    bash.run(build)
    if "|" in build:  # who knows whether it failed
        assert "b.out@1\n" in sandbox.shfs("stale", check=1).stdout
        return
    assert sandbox.shfs("stale").stdout == "0 of 3 results stale\n"
    bash.run("echo 3 >> a.in")
    assert sandbox.shfs("stale", check=1).stdout.endswith("\n2 of 3 results stale\n")


def test_run_again(build, sandbox, bash):
    bash.run("echo 3 >> a.in")
    found = json.loads(sandbox.shfs("rerun", "--json", "--yes").stdout)
    assert [(c["text"], c["state"]) for c in found["commands"]] == [(build, "ran")]
    assert sandbox.read("sum") == b"5\n"


def test_a_compiler_is_one_job(sandbox, bash):
    """It hands on what it compiled by a temporary file that nobody sees, and writes another result, too."""
    sandbox.write("x.c", "int x;\n")
    sandbox.write("y.c", "int y;\n")
    sandbox.mount()
    bash.run("for f in x y; do gcc -MMD -c -o $f.o $f.c; done")
    for name in "x", "y":
        assert inputs(sandbox, f"{name}.o") == inputs(sandbox, f"{name}.d") == {f"{name}.c"}


def test_status_and_output_tell_the_shell(sandbox, bash):
    for name in "list", "word", "a", "b":
        sandbox.write(name, f"{name}\n")
    sandbox.mount()
    bash.run("for f in $(cat list) a; do test -f $f && sort $f > $f.out; done; grep -q word word && sort b > b.out")
    assert inputs(sandbox, "a.out") >= {"list", "a"} and "b" not in inputs(sandbox, "a.out")
    assert inputs(sandbox, "b.out") >= {"list", "word", "b"} and "a" not in inputs(sandbox, "b.out")


def test_output_of_all(sandbox, bash):
    """Of what the tool itself wrote, or one of a pipe behind it, any job may have said something."""
    for name, text in FILES.items():
        sandbox.write(name, text)
    sandbox.mount()
    bash.run("make sum > log; make -B sum | cat > log2")
    for log in "log", "log2":
        assert inputs(sandbox, log) >= {"Makefile", "a.in", "b.in", "lib.txt"}
    found = {v["path"].rsplit("/", 1)[1] for v in ask(sandbox, "impact", "a.in")["versions"]}
    assert found >= {"log", "log2", "a.out", "sum"}


RECIPES = {
    "a.in": "2\n1\n",
    "b.in": "5\n",
    "lib.txt": "lib\n",
    "Makefile": """
all: moved.out changed.out added.out told.out
moved.out: a.in
	sort $< > $@.tmp
	mv $@.tmp $@
changed.out: a.in
	sort $< > $@
	sed -i s/^/x/ $@
added.out: a.in b.in
	cat a.in > $@
	cat b.in >> $@
told.out: lib.txt
	$(MAKE) -f inner.mk told.new
	mv told.new $@
""",
    "inner.mk": "told.new: lib.txt\n\tcat $< > $@\n",
}


def test_lines_of_a_recipe(sandbox, shell):
    """What a line changes, adds to or moves came of what the lines before it had read."""
    for name, text in RECIPES.items():
        sandbox.write(name, text)
    sandbox.mount()
    bash = shell()
    for _ in range(2):  # new names, then what stands there is replaced
        bash.run("make")
        assert sandbox.shfs("stale").stdout == "0 of 4 results stale\n"
        bash.run("echo 3 >> a.in")
        found = sandbox.shfs("stale", check=1).stdout
        assert found.endswith("\n3 of 4 results stale\n") and "told.out" not in found
        bash.run("make")
        bash.run("echo 3 >> lib.txt")
        found = sandbox.shfs("stale", check=1).stdout
        assert "told.out" in found and found.endswith("\n1 of 4 results stale\n")
    bash.run("make")
    assert inputs(sandbox, "moved.out") == {"Makefile", "a.in"}
    assert inputs(sandbox, "added.out") == {"Makefile", "a.in", "b.in"}


@pytest.mark.parametrize("notes", ["a" * 40 + ".d", "compiler_depend.make"])
def test_notes(notes, sandbox, shell):
    """Lists of dependencies that the tool reads say nothing of how."""
    name = "a" * 40
    sandbox.write("Makefile", f"{name}.o: in\n\tcat in > $@; (echo '$@: in'; sed 's/^/#/' in) > {notes}\n-include {notes}\n")
    sandbox.write("in", "1\n")
    sandbox.mount()
    bash = shell()
    bash.run("make")
    bash.run("echo 2 >> in")
    bash.run("make")
    assert inputs(sandbox, f"{name}.o") == {"Makefile", "in"}
    assert sandbox.shfs("stale").stdout == "0 of 2 results stale\n"


def test_configured_by_the_same_command(sandbox, shell):
    """What was read by jobs, and what they made in between, did not go into what was made before them."""
    for name, text in FILES.items():
        sandbox.write(name, text)
    sandbox.write("build.ninja.in", FILES["build.ninja"].replace("cat $in > $out.tmp", "cat $in > $out; sed -i s/$$/x/ $out; cat $out > $out.tmp"))
    sandbox.sh("rm build.ninja")
    sandbox.mount()
    bash = shell()
    bash.run("cat build.ninja.in > build.ninja; ninja sum")
    assert sandbox.shfs("stale").stdout == "0 of 4 results stale\n"
    bash.run("echo 3 >> a.in")
    found = sandbox.shfs("stale", check=1).stdout
    assert found.endswith("\n2 of 4 results stale\n") and "build.ninja@" not in found


def test_a_log_of_all(sandbox, shell):
    """That recipes add to the same file makes them no one recipe."""
    sandbox.write("Makefile", "all: a.o b.o\n%.o: %.in\n\tcat $< > $@; echo $@ >> log\n")
    sandbox.write("a.in", "a\n")
    sandbox.write("b.in", "b\n")
    sandbox.mount()
    shell().run("make")
    for name in "a", "b":
        assert inputs(sandbox, f"{name}.o") == {"Makefile", f"{name}.in"}


def test_parents_that_differ(build, sandbox):
    """Of what a damaged index says is one process, and of two parents."""
    sandbox.shfs("why", "sum")
    db = sqlite3.connect(sandbox.store + "/index.db")
    tasks = db.execute("SELECT task_id, pid, start_ticks, ppid FROM task WHERE command_id IS NOT NULL ORDER BY task_id").fetchall()
    jobs = [t for t in tasks if t[3] == tasks[0][1]]
    db.execute("UPDATE task SET ppid = 1 WHERE task_id = ?", jobs[0][:1])
    db.execute("UPDATE task SET pid = ?, start_ticks = ? WHERE task_id > ? AND ppid = ?", (*jobs[0][1:3], jobs[0][0], jobs[0][3]))
    db.commit()
    db.close()
    for name in "a.out", "b.out", "sum":
        assert name in sandbox.shfs("why", name).stdout
