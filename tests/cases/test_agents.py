# SPDX-License-Identifier: MIT
"""What programs run for somebody: each command of a coding agent, of ssh, of a notebook, of a job is one of history."""

import json
import os
import random

import pytest

from harness import PREFIX, seeds
from test_forget import places

SEEDS = seeds(2, an_hour=400)
CALLS = 20
SHFS = f"{PREFIX}/bin/shfs"

# An agent that is told what to do, a line each: how, and what. It notes the tree after each.
AGENT = """
import json, os, subprocess, sys
project, notes = os.getcwd(), []
def tree():
    found = {}
    for top, dirs, files in os.walk("."):
        dirs[:] = [d for d in dirs if d != ".git"]
        for f in files:
            found[os.path.join(top, f)[2:]] = open(os.path.join(top, f)).read()
    return found
env = {**os.environ, **json.loads(sys.argv[2])}
kept = None
for line in open(sys.argv[1]):
    how, text = line.rstrip("\\n").split("\\t")
    if how == "self":
        name, _, what = text.partition("=")
        with open(name, "a") as f:
            f.write(what + "\\n")
    elif how == "exec":
        subprocess.run(text.split(), env=env, stdin=subprocess.DEVNULL)
    elif how == "typed":
        kept = kept or subprocess.Popen(["bash"], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        kept.stdin.write(text + "; echo done\\n")
        kept.stdin.flush()
        kept.stdout.readline()
    else:
        subprocess.run([*how.split(), text], env=env, stdin=subprocess.DEVNULL, start_new_session=True)
    notes.append(tree())
if kept:
    kept.stdin.close()
    kept.wait()
json.dump(notes, open(sys.argv[3], "w"))
"""

# {i}: the number of the call; {a}: a file that was there and that only this call uses. How, what, and the text that is
# to be shown
CLAUDE = "source /dev/null && eval {} < /dev/null && pwd -P >| /dev/null"
WAYS = (
    ("bash -c", "echo made by {i} > new{i}", None),
    ("bash -c", "sed -i s/1/7/ {a}", None),
    ("bash -lc", "sort -r {a} > new{i} && rm {a}", None),
    ("sh -c", "cp {a} new{i}; (cat {a}; echo {i}) >> new{i}", None),
    ("sh -c", "mkdir -p dir{i}; mv {a} dir{i}/", None),
    ("exec", "cp {a} new{i}", "cp {a} new{i}"),
    ("exec", "rm {a}", "rm {a}"),
    ("python3 -c", "open('{a}','a').write('{i}')", "python3 -c 'open('\\''{a}'\\'','\\''a'\\'').write('\\''{i}'\\'')'"),
    ("bash -c", CLAUDE.format("'cat {a} {a} > new{i}'"), "cat {a} {a} > new{i}"),
    ("bash -c", CLAUDE.format('"head -n 1 {a} > new{i}"'), "head -n 1 {a} > new{i}"),
    ("bash -c", "{{ tail -n 1 {a} > new{i}; }}; __code=$?; pgrep -g 0 > /dev/null; exit $__code;", "tail -n 1 {a} > new{i}"),
    ("bash -c", "make -s -f ../Makefile new{i}", None),
    ("bash -c", "git stash -q", None),
)


def install(sandbox, name, text):
    path = f"{sandbox.home}/bin/{name}"
    os.makedirs(os.path.dirname(path), exist_ok=True)
    sandbox.write_outside(path, text, 0o755)
    return path


TREE = """
import json, os, sys
found = {}
for top, dirs, files in os.walk("."):
    dirs[:] = [d for d in dirs if d != ".git"]
    for f in files:
        found[os.path.join(top, f)[2:]] = open(os.path.join(top, f)).read()
print(json.dumps(found))
"""


def tree_of(sandbox):
    return json.loads(sandbox.run("python3", install(sandbox, "tree.py", TREE)).stdout)


def rows(sandbox, *args):
    return json.loads(sandbox.shfs("history", "--all", "--reverse", "--json", *args).stdout)["commands"]


class Agent:
    """A project with files, and an agent that is run in it."""

    def __init__(self, sandbox, name="claude", env=None, calls=()):
        self.sandbox, self.name, self.env, self.calls = sandbox, name, env or {}, calls
        self.program = install(sandbox, name, "#!/usr/bin/env python3" + AGENT)
        self.steps, self.notes = f"{sandbox.home}/steps", f"{sandbox.home}/notes"
        sandbox.write_outside(self.steps, "".join(f"{how}\t{text}\n" for how, text in calls), 0o644)
        sandbox.write_outside(f"{sandbox.home}/Makefile", "new%:\n\techo $@ > $@; sh -c 'echo of $@ >> $@'\n", 0o644)

    def line(self, before=""):
        env = json.dumps(self.env)
        return f"{before}{self.program} {self.steps} '{env}' {self.notes}"

    def trees(self):
        return json.loads(self.sandbox.read(self.notes))


def draw(random, project):
    """Calls, and the text that each is to have in history; None: it is no command of its own."""
    calls, texts = [], []
    for i in range(CALLS):
        a = f"file{i}"
        how, text, shown = random.choice(WAYS[:-1] if i != CALLS - 1 else WAYS[-1:])
        if random.random() < 0.15 and i != CALLS - 1:
            how, text = "self", "{a}=by the agent itself"
        names = {"i": i, "a": a}
        calls.append((how, text.format(**names)))
        texts.append(None if how == "self" else (shown or text).format(**names))
    return calls, texts


@pytest.mark.backends(without=["fanotify", "bpf-tracepoints"])  # they miss contents that were soon changed again
@pytest.mark.parametrize("seed", SEEDS)
def test_each_tool_call(sandbox, seed):
    """Each call is a command with its text, and with what it did; undone are the 7th alone, all, and all but what a person
    did meanwhile: judged by the trees that the agent saw."""
    rng = random.Random(seed)
    calls, texts = draw(rng, sandbox.project)
    sandbox.mount()
    sandbox.sh("git init -q . && git config user.email a@b && git config user.name a; i=0;"
               f" while [ $i -lt {CALLS} ]; do seq $i $((i+9)) > file$i; i=$((i+1)); done; echo base > tracked;"
               " git add tracked; git commit -q -m base; echo mine >> tracked")
    agent = Agent(sandbox, rng.choice(["claude", "codex", "aider"]), calls=calls)
    sh = sandbox.shell("bash")
    before = tree_of(sandbox)
    sh.run(agent.line())
    after, trees = tree_of(sandbox), agent.trees()
    found = [c for c in rows(sandbox, "--by", agent.name) if c["text"]]
    assert [c["text"] for c in found] == [t for t in texts if t], f"seed {seed}"
    assert all(c["invoker"] == f"agent {agent.name}" for c in found)
    [typed] = [c for c in rows(sandbox, "--by", "shell") if c["text"]]
    # each did what the agent saw changed afterwards
    last = before
    ids = iter(found)
    for (how, _), tree in zip(calls, trees):
        call = typed if how == "self" else next(ids)
        did = {f["path"] for f in call["files"] if f["use"] != "read"} | {f.get("from") for f in call["files"]}
        for path in set(tree) | set(last):
            assert tree.get(path) == last.get(path) or f"{sandbox.project}/{path}" in did, (seed, path, call["text"])
        last = tree

    which = rng.choice([n for n, t in enumerate(texts) if t])
    call = found[[n for n, t in enumerate(texts) if t].index(which)]
    sandbox.shfs("undo", call["id"], "--yes", cwd=sandbox.project)
    kept = tree_of(sandbox)
    for path in {*kept, *after, *before}:
        mine = path in (f"file{which}", f"new{which}") or path.startswith(f"dir{which}/") or path == f"dir{which}" or (
            which == CALLS - 1 and path == "tracked")
        assert kept.get(path) == (before if mine else after).get(path), (seed, which, path)
    # all, but not what a person did
    sandbox.sh("echo by a person > theirs; for f in file*; do sed -i '$s/$/ mine/' $f; break; done")
    theirs = tree_of(sandbox)
    changed = [p for p in theirs if theirs[p] != kept.get(p)]
    sandbox.shfs("undo", typed["id"], "--yes", check=False)
    undone = tree_of(sandbox)
    for path in {*undone, *before, *changed}:
        expected = theirs if path in changed else before
        assert undone.get(path) == expected.get(path), (seed, path)


def commands_of(sandbox, *args):
    return [(c["invoker"], c["text"]) for c in rows(sandbox, *args) if c["text"]]


@pytest.mark.users("ordinary")
def test_agents_in_agents_and_shells_that_they_type_into(sandbox):
    """The nearest agent counts; a shell that an agent keeps open is a part of it; what a call leaves running stays of it."""
    sandbox.mount()
    inner = Agent(sandbox, "codex", calls=[("bash -c", "echo inner > inner"), ("self", "of_codex=1")])
    install(sandbox, "inner-steps", open(inner.steps).read())
    line = f"{inner.program} {sandbox.home}/bin/inner-steps '{{}}' {inner.notes}; true"
    outer = Agent(sandbox, "my-agent", {"AI_AGENT": "my-agent@2"}, [
        ("bash -c", "echo outer > outer"), ("bash -c", line), ("typed", "cp outer typed1"), ("typed", "cp outer typed2"),
        ("bash -c", "cat outer > x; (sleep 0.3; echo late > late) & disown"), ("bash -c", "sleep 0.6; cat late > seen")])
    sh = sandbox.shell("bash")
    sh.run(outer.line())
    sh.run("echo kept > kept")
    assert commands_of(sandbox, "--by", "agent") == [
        ("agent my-agent", "echo outer > outer"), ("agent my-agent", line), ("agent codex", "echo inner > inner"),
        ("agent my-agent", "cp outer typed1"), ("agent my-agent", "cp outer typed2"),
        ("agent my-agent", "cat outer > x; (sleep 0.3; echo late > late) & disown"),
        ("agent my-agent", "sleep 0.6; cat late > seen")]
    made = {p: json.loads(sandbox.shfs("log", "--json", p, cwd=sandbox.project).stdout)["versions"][0]["command"]["text"]
            for p in ("of_codex", "late", "inner")}
    assert made == {"of_codex": line, "late": "cat outer > x; (sleep 0.3; echo late > late) & disown",
                    "inner": "echo inner > inner"}
    completed = sandbox.shfs("complete", "--", "shfs", "history", "--by", "").stdout.split()
    assert {"shell", "agent", "codex", "my-agent"} <= set(completed)
    # the command that was typed, and its session, know what they started; forgotten, nothing of it is left
    typed = commands_of(sandbox, "--by", "shell")
    assert [t[1] for t in typed] == [outer.line(), "echo kept > kept"]
    [first] = rows(sandbox, "--grep", "echo outer")
    shown = sandbox.shfs("show", first["id"]).stdout
    assert "agent my-agent" in shown and "my-agent" in shown.split("\nin ")[1].split("\n")[0]
    before = rows(sandbox)
    sandbox.shfs("reindex")
    assert rows(sandbox) == before
    sandbox.shfs("check", "--read-data")
    [one] = [c for c in before if c["text"] == outer.line()]
    assert places(sandbox.store, b"cat late > seen")
    sandbox.shfs("forget", "--command", one["id"], "--yes")
    assert [c["text"] for c in rows(sandbox) if c["text"]] == ["echo kept > kept"]
    assert places(sandbox.store, b"cat late > seen") == []


@pytest.mark.users("ordinary")
def test_an_agent_is_called_what_AI_AGENT_says(sandbox):
    """As docs/agents.md has it: typed before a program of another name; a known agent keeps its own."""
    sandbox.mount()
    sh = sandbox.shell("bash")
    script = install(sandbox, "my_agent.py", "import subprocess\nsubprocess.run(['bash', '-c', 'echo 1 >> one'])\n")
    sh.run(f"AI_AGENT=my-agent python3 {script}")
    sh.run(f"(export AI_AGENT=other@3; python3 {script})")
    sh.run("AI_AGENT=my-agent " + Agent(sandbox, "codex", calls=[("bash -c", "echo 1 >> one")]).line())
    assert commands_of(sandbox, "--by", "agent") == [
        (f"agent {name}", "echo 1 >> one") for name in ("my-agent", "other", "codex")]


@pytest.mark.users("ordinary")
def test_what_is_no_command_of_its_own(sandbox):
    """Recipes of make, what a script or a program of the user's runs by itself, and subshells stay of what was typed."""
    sandbox.mount()
    sandbox.write("Makefile", b"all:\n\tsh -c 'echo 1 > one'\n\tcat one > two; true\n")
    sandbox.write("run.py", b"import os\nos.system('echo 3 > three; sh -c \"echo 4 > four\"')\n")
    sh = sandbox.shell("bash")
    for line in "make -s", "python3 run.py", "bash -c 'echo 5 > five'", "(sh -c 'echo 6 > six')", "sh -c 'sh -c \"echo 7 > 7\"'":
        sh.run(line)
    assert commands_of(sandbox, "--by", "shell") == [(None, t) for t in (
        "make -s", "python3 run.py", "bash -c 'echo 5 > five'", "(sh -c 'echo 6 > six')", "sh -c 'sh -c \"echo 7 > 7\"'")]
    assert commands_of(sandbox, "--by", "agent") == []


@pytest.mark.backends(without=["fanotify"])  # it knows no process that has ended at once
@pytest.mark.users("ordinary")
def test_without_a_shell_of_the_user(sandbox):
    """What a notebook's kernel or a server's task runs is a command, in a session of its own."""
    sandbox.mount()
    # "!cp a b" is sh -c; and a program that a cell calls
    kernel = "import os, subprocess\nos.system('echo 1 > cell1')\nsubprocess.run(['cp', 'cell1', 'cell2'])\nopen('own', 'w')\n"
    install(sandbox, "ipykernel_launcher.py", kernel)
    sandbox.run("python3", "-m", "ipykernel_launcher", "-f", "kernel.json", env={"PYTHONPATH": f"{sandbox.home}/bin"})
    # something else that runs a line for somebody
    install(sandbox, "tasks", "#!/usr/bin/env python3\nimport os\nos.system('cat cell1 > task')\n")
    sandbox.run(f"{sandbox.home}/bin/tasks")
    assert commands_of(sandbox) == [
        ("notebook ipykernel_launcher", "echo 1 > cell1"), ("notebook ipykernel_launcher", "cp cell1 cell2"),
        ("program tasks", "cat cell1 > task")]
    why = sandbox.shfs("why", "task", cwd=sandbox.project).stdout
    assert "program tasks › cat cell1" in why and "notebook ipykernel_launcher › echo 1 > cell1" in why


@pytest.mark.users("ordinary")
def test_a_job_of_a_cluster(sandbox):
    """It is a command of the scheduler, with the environment of the one that submitted it, which is its caller."""
    sandbox.mount()
    sandbox.write("data", b"1\n")
    sandbox.shell("bash").run("env > submitted; : sbatch job.sh")
    env = dict(v.split("=", 1) for v in sandbox.read("submitted").decode().splitlines() if v.startswith("SHFS_"))
    job = {**env, "SLURM_JOB_ID": "12", "SLURM_ARRAY_JOB_ID": "10", "SLURM_ARRAY_TASK_ID": "2"}
    script = install(sandbox, "job.sh", "sh -c 'cat data > result'; cat result > result2\n")
    stepd = f"import os, subprocess\nsubprocess.run(['bash', '{script}'], env={{**os.environ, **{job!r}}})\n"
    sandbox.run("python3", install(sandbox, "slurmstepd", stepd))
    [found] = rows(sandbox, "--by", "job")
    assert (found["invoker"], found["text"]) == ("job slurm 10_2", f"bash {script}")
    assert {f["path"] for f in found["files"]} >= {f"{sandbox.project}/result", f"{sandbox.project}/result2"}
    assert "sbatch job.sh" in sandbox.shfs("show", found["id"]).stdout
    why = sandbox.shfs("why", "result2", cwd=sandbox.project).stdout
    assert "cat result  of job slurm 10_2 › bash" in why


@pytest.mark.users("ordinary")
def test_what_shfs_run_names_in_a_job_is_of_the_job(sandbox):
    """As docs/clusters.md has it, also where one shfs run is in another; and nothing else is."""
    sandbox.mount()
    inner = install(sandbox, "inner.sh", f"echo 2 > two; {SHFS} run -- cp one three\n")
    script = install(sandbox, "job.sh", f"echo 1 > one; {SHFS} run -- sh {inner}\n")
    stepd = f"import os, subprocess\nsubprocess.run(['bash', '{script}'], env={{**os.environ, 'SLURM_JOB_ID': '12'}})\n"
    sandbox.run("python3", install(sandbox, "slurmstepd", stepd))
    sandbox.run("bash", "-c", f"{SHFS} run -- cp one four")
    for by in "job", "slurm", "job slurm", "slurm 12":
        assert [c["text"] for c in rows(sandbox, "--by", by)] == [f"bash {script}", f"sh {inner}", "cp one three"]
    for by in "cron", "slur", "2", "shfs":
        assert rows(sandbox, "--by", by) == []


@pytest.mark.users("ordinary")
def test_a_command_of_shfs_run_knows_its_caller(sandbox):
    """The session of shfs run is one of a shell's command, or of an agent's."""
    sandbox.mount()
    sh = sandbox.shell("bash")
    agent = Agent(sandbox, calls=[("bash -c", f"{SHFS} run -- cp a b; true")])
    sandbox.write("a", b"1\n")
    sh.run(agent.line())
    [run] = [c for c in rows(sandbox, "--by", "shell") if c["text"] == "cp a b"]
    caller = json.loads(sandbox.shfs("show", "--json", run["id"]).stdout)["caller"]
    assert json.loads(sandbox.shfs("show", "--json", caller).stdout)["text"] == f"{SHFS} run -- cp a b; true"


@pytest.mark.users("ordinary")
def test_what_passes_outside_between_calls(sandbox):
    """A file in /tmp joins two commands of an agent, as it joins two that are typed."""
    sandbox.mount()
    sandbox.write("in", b"2\n1\n")
    Agent(sandbox, calls=[("bash -c", "sort in > ../between"), ("bash -c", "cat in > other"), ("bash -c", "head -n 1 ../between > top")])
    sandbox.shell("bash").run(f"{sandbox.home}/bin/claude {sandbox.home}/steps '{{}}' {sandbox.home}/notes")
    assert "in@1  by way of ~/between" in sandbox.shfs("why", "top", cwd=sandbox.project).stdout
    assert "top@1" in sandbox.shfs("impact", "in", cwd=sandbox.project).stdout


@pytest.mark.users("ordinary")
def test_what_is_done_outside_late(sandbox):
    """When a call began and ended is not known, but what it used of the project: the rest was done before or after that."""
    sandbox.mount()
    sandbox.write("in", b"2\n1\n")
    calls = ["(cat in; sleep 0.1; echo 3) > ~/left", "sleep 0.1; sort ~/left > first", "(cat in; sleep 0.1; echo 3) > ~/other",
             "sed -i s/1/7/ ~/other; sleep 0.1; cat in > second"]
    agent = Agent(sandbox, calls=[("bash -c", call) for call in calls])
    sandbox.shell("bash").run(agent.line())
    assert "in@1  by way of ~/left" in sandbox.shfs("why", "first", cwd=sandbox.project).stdout
    assert "another command left" not in sandbox.shfs("export", "sh", "second", cwd=sandbox.project, check=False).stderr


@pytest.mark.users("ordinary")
def test_rerun_of_what_an_agent_ran(sandbox):
    """It is run again by the shell that it was given to."""
    sandbox.mount()
    sandbox.write("in", b"2\n1\n")
    agent = Agent(sandbox, calls=[("bash -c", "sort in > out; [[ -s out ]] && echo yes >> out"), ("sh -c", "echo 'a\\tb' > tab")])
    sandbox.shell("bash").run(agent.line())
    tab = sandbox.read("tab")
    sandbox.sh("printf '4\\n3\\n' > in")
    assert "out" in sandbox.shfs("stale", cwd=sandbox.project, check=1).stdout
    sandbox.shfs("rerun", "out", "--yes", cwd=sandbox.project)
    assert sandbox.read("out") == b"3\n4\nyes\n"
    script = sandbox.shfs("export", "sh", "tab", "out", cwd=sandbox.project).stdout
    assert "sh -c " in script and tab == b"a\tb\n"
