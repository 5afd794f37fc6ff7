# SPDX-License-Identifier: MIT
"""The questions: history, show, log, why, cat, diff, restore, undelete, on work that a person
typed into a real shell."""

import json
import os
import re

import pytest

from analysis import LINES, PROJECT
from harness import PREFIX

pytestmark = pytest.mark.either

FIRST = PROJECT["config.yaml"]
ID = re.compile(r"^[0-9a-f]{7,16}  ", re.M)


@pytest.fixture
def study(work):
    for line in LINES:
        work.run(line)
    return work


def entries(text):
    """The entries of a history: lists of lines."""
    return [entry.splitlines() for entry in text.strip("\n").split("\n\n")]


def commands(sandbox, *args):
    return json.loads(sandbox.shfs("history", "--json", *args).stdout)["commands"]


def used(sandbox, command):
    """{use: {"name@N"}} of one command of a history's JSON."""
    found = {}
    for use in command["files"]:
        n = use.get("made") or use.get("read")
        name = os.path.relpath(use["path"], sandbox.project)
        found.setdefault(use["use"], set()).add(f"{name}@{n}" if n else name)
    return found


def the_id(sandbox, text):
    [found] = [c["id"] for c in commands(sandbox) if c["text"] == text]
    return found


# --- stats ---


def test_stats(study, sandbox, shfs):
    study.run("A=1 sort in.csv; sleep 0.3; git init -q; git add .; sort /dev/null")
    found = json.loads(shfs("stats", "--json").stdout)
    listed = [c for c in commands(sandbox, "--all") if c["id"]]
    assert found["commands"] == len(listed) and found["sessions"] == found["hosts"] == 1
    assert found["failed"] == len([c for c in listed if c["status"] not in (0, None)])
    assert sum(day["commands"] for day in found["days"]) == len(listed)
    assert {"name": "sort", "commands": 2} in found["programs"], "with a variable before it, too"
    assert found["slowest"][0]["text"].startswith("A=1") and found["slowest"][0]["duration_ns"] >= 3e8
    versions = {os.path.relpath(f["path"], sandbox.project): f["versions"] for f in found["busiest"]}
    assert versions["config.yaml"] == 3 and not [name for name in versions if ".git" in name]
    assert "model.awk" not in versions
    sizes = {os.path.basename(f["path"]): f["size"] for f in found["largest"]}
    assert sizes["model.awk"] == len("{ print $1 * rate }\n")

    below = json.loads(shfs("stats", "--json", f"{sandbox.project}/data").stdout)
    assert below["commands"] == 0 and [os.path.basename(f["path"]) for f in below["largest"]] == ["in.csv"]
    assert json.loads(shfs("stats", "--json", "--until", "yesterday").stdout)["days"] == []
    text = shfs("stats", "-n", "2").stdout
    assert "Took longest" in text and "A=1 sort" in text and max(map(len, text.splitlines())) <= 80
    assert shfs("stats", "--limit", "0", check=2) and shfs("stats", "nowhere", check=3)


def test_room_of_what_was_renamed(sandbox, mounted):
    """The room that a content takes counts at the name where it ended, not at a temporary one."""
    sandbox.sh("""make() { head -c 5000 /dev/urandom; }
make > kept; for i in 1 2; do make > part.tmp; mv part.tmp whole; done; make > old; mv old new; make > gone; rm gone""")
    mounted.settle()
    taken = json.loads(sandbox.shfs("stats", "--store", "--json").stdout)["files"]
    taken = {os.path.basename(file["path"]): file["stored"] for file in taken}
    assert set(taken) == {"kept", "whole", "new", "gone"}
    assert taken["whole"] > 9000 and all(5000 <= taken[name] < 6000 for name in ("kept", "new", "gone")), taken


# --- history ---


@pytest.mark.both
def test_history(study, sandbox):
    shown = study.run("shfs history | cat")
    found = entries(shown)
    assert [ID.sub("", e[0]) for e in found] == [
        "false; cat top.txt nothere",
        "sh run.sh; sort -rn out.csv > top.txt",
        "echo 'seed: 1' >> config.yaml",
        "sed -i 's/rate: 3/rate: 5/' config.yaml",
        "sort -rn out.csv > top.txt",
        "sh run.sh",
    ]
    assert re.fullmatch(r" {9}\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  exit 1  ~/project", found[0][1])
    assert found[0][2:] == ["         read     top.txt@2"]
    assert found[2][2:] == ["         changed  config.yaml@3 (from @2)"]
    assert found[3][2:] == ["         changed  config.yaml@2 (from @1)"]
    assert found[5][2] == "         wrote    out.csv@1"
    assert "config.yaml@1" in found[5][3] and "data/in.csv@1" in shown
    assert "\x1b" not in shown


def test_history_json(study, sandbox):
    newest, again, echo, sed, sort, run = commands(sandbox)
    assert (newest["status"], run["status"]) == (1, 0)
    assert run["cwd"] == sandbox.project and run["text"] == "sh run.sh"
    assert run["begin"] < run["end"] < sort["begin"]
    reads = {"config.yaml@1", "data/in.csv@1", "model.awk@1", "run.sh@1"}
    assert used(sandbox, run) == {"wrote": {"out.csv@1"}, "read": reads}
    assert used(sandbox, sort) == {"wrote": {"top.txt@1"}, "read": {"out.csv@1"}}
    assert used(sandbox, sed) == {"changed": {"config.yaml@2"}}
    assert sed["temporary_files"] == 1
    assert used(sandbox, echo) == {"changed": {"config.yaml@3"}}
    reads = {"config.yaml@3", "data/in.csv@1", "model.awk@1", "run.sh@1"}
    assert used(sandbox, again) == {"wrote": {"out.csv@2", "top.txt@2"}, "read": reads}


@pytest.mark.users("ordinary")
@pytest.mark.parametrize(
    "options, texts",
    [
        (["-n", "1"], ["false"]),
        (["--reverse", "-n", "1"], ["sh run.sh"]),
        (["--failed"], ["false"]),
        (["--status", "1"], ["false"]),
        (["--status", "!1", "-g", "top"], ["sh run.sh; sort", "sort"]),
        (["--grep", "seed"], ["echo"]),
        (["--regex", "^s(ed|h)"], ["sh run.sh; sort", "sed", "sh run.sh"]),
        (["--wrote", "config.yaml"], ["echo", "sed"]),
        (["--wrote", "*.csv"], ["sh run.sh; sort", "sh run.sh"]),
        (["--read", "data"], ["sh run.sh; sort", "sh run.sh"]),
        (["top.txt"], ["false", "sh run.sh; sort", "sort"]),
        (["--since", "1 hour ago", "--until", "now", "-g", "sed"], ["sed"]),
        (["--until", "yesterday"], []),
        (["--cwd", "data"], []),
        (["--host", "elsewhere"], []),
    ],
)
def test_history_filters(study, sandbox, options, texts):
    # the fixture's files were written by no shell
    found = [c["text"] for c in commands(sandbox, *options) if c["id"]]
    assert len(found) == len(texts) and all(f.startswith(t) for f, t in zip(found, texts)), found


@pytest.mark.users("ordinary")
def test_history_by_what_files_held(study, sandbox, shfs):
    study.run("cp config.yaml elsewhere.yaml; mv elsewhere.yaml moved.yaml")
    study.run("head -c 20000 /dev/zero > big; touch -d 2020-05-05 big; cat big > /dev/null")
    sandbox.write_outside(f"{sandbox.home}/at-hand", FIRST)

    def found(*options):
        return [c["text"].split(";")[0] for c in commands(sandbox, *options) if c["id"]]

    first = ["sed -i 's/rate: 3/rate: 5/' config.yaml", "sh run.sh"]
    assert found("--content", f"{sandbox.home}/at-hand") == first
    assert found("--content", "config.yaml@1") == first
    third = ["cp config.yaml elsewhere.yaml", "sh run.sh", "echo 'seed: 1' >> config.yaml"]
    assert found("--content", "moved.yaml") == third, "wherever it lay"
    assert found("--wrote", "*.yaml", "--content", "config.yaml") == [third[0], third[2]]
    assert found("--read", "config.yaml", "--content", "config.yaml") == third[:2]
    assert found("--name", "big") == found("--name", "b?g") == ["head -c 20000 /dev/zero > big"]
    assert found("--name", "top.txt", "--failed") == ["false"]
    big = ["head -c 20000 /dev/zero > big"]
    for size in "+19K", "20000", "19k..1M", "20000..":
        assert found("--size", size) == big, size
    assert found("--size", "-9", "--wrote", "out.csv") == found("--wrote", "out.csv") != []
    assert found("--size", "+10", "--size", "-19K", "--name", "big") == []
    assert found("--modified-until", "2020-06-01") == big and found("--modified-until", "2020-01-01") == []
    assert found("--modified-since", "2020-05-01", "--modified-until", "2020-06-01", "--size", "+1K") == big
    ids = [c["id"] for c in commands(sandbox)]
    assert found("--command", ids[0], "--command", ids[1][:9]) == found("-n", "2")
    assert found("--content", f"{sandbox.home}/.bashrc") == []
    for bad in ("--size", "big"), ("--size", "2K..1K"), ("--name", "a/b"), ("--command", "xyz"), ("--size", ".."):
        assert shfs("history", *bad, check=2).stderr.startswith("shfs: --")
    assert shfs("history", "--content", "nowhere", check=3) and shfs("history", "--content", "data", check=1)


@pytest.mark.users("ordinary")
def test_history_all(study, sandbox):
    study.run("true")
    study.run(" echo secret > hidden.txt")
    assert "true" not in [c["text"] for c in commands(sandbox)]
    everything = commands(sandbox, "--all")
    assert "true" in [c["text"] for c in everything]
    # the files of the fixture were written by no shell that we know
    assert any(c["id"] is None and c["argv"][0] == "/bin/sh" for c in everything)
    [hidden] = [c for c in commands(sandbox) if c["text"] is None]
    assert used(sandbox, hidden) == {"wrote": {"hidden.txt@1"}}
    assert "secret" not in sandbox.shfs("history", "--all").stdout


@pytest.mark.users("ordinary")
def test_history_of_several_lines(study, sandbox):
    study.run("for i in 1 2; do\necho $i\ndone > loop.txt")
    found = entries(sandbox.shfs("history", "-n", "1").stdout)[0]
    assert ID.sub("", found[0]).startswith("for i in 1 2; do")
    shown = sandbox.shfs("show", found[0].split()[0]).stdout
    assert "echo $i" in shown and "loop.txt@1" in shown


@pytest.mark.users("ordinary")
def test_everything_fits_80_columns(study, sandbox):
    study.run("mkdir deep; for i in $(seq 60); do echo $i > deep/a-rather-long-name-of-a-file-$i.txt; done")
    study.run("cat deep/* > sum.txt; : " + "x" * 100)
    for args in ["history"], ["history", "--all"], ["why", "sum.txt"], ["log", "config.yaml"]:
        for line in sandbox.shfs(*args).stdout.splitlines():
            assert len(line) <= 80, line
    shown = sandbox.shfs("history", "-n", "2").stdout
    assert re.search(r"\+ \d\d more$", shown, re.M) and "…" in shown


@pytest.mark.users("ordinary")
def test_pager_and_color(study, sandbox):
    env = {"SHFS_PAGER": "sed s/^/paged:/"}
    for name, value in env.items():
        study.run(f"export {name}='{value}'")
    assert study.run("shfs history -n 1").splitlines()[0].startswith("paged:")
    assert "paged" not in study.run("shfs --no-pager history -n 1")
    assert "paged" not in study.run("shfs history -n 1 | cat")
    assert "\x1b[" in sandbox.shfs("--color", "always", "history", "-n", "1").stdout
    assert "\x1b[" not in sandbox.shfs("history", "-n", "1").stdout
    # whoever leaves the pager early is no failure to be told about
    study.run("export SHFS_PAGER='head -1 >/dev/null; true'")
    assert study.run("shfs history --all; echo $?").splitlines()[-1] in ("0", "141")


# --- how programs save ---


def vim(bash, options, keys):
    """A session of vim on config.yaml."""
    bash.send(f"vim -u NONE -N --cmd 'set backupskip= {options}' config.yaml\r")
    bash.pty.expect_exact("config.yaml")
    bash.send(keys)
    bash.wait()


SAVES = {
    "sed -i 's/3/4/' config.yaml": {"changed": {"config.yaml@2"}},
    "sed -i 's/nothing like it/4/' config.yaml": {"wrote": {"config.yaml@1"}},
    "sed -i.bak 's/3/4/' config.yaml": {
        "changed": {"config.yaml@2"},
        "renamed": {"config.yaml.bak@1"},
    },
    "perl -pi -e 's/3/4/' config.yaml": {"changed": {"config.yaml@2"}},
    "echo 9 > tmp; mv tmp config.yaml": {"wrote": {"config.yaml@2"}},
    "mv old.yaml config.yaml": {"renamed": {"config.yaml@2"}},
    "cp old.yaml config.yaml": {"wrote": {"config.yaml@2"}, "read": {"old.yaml@1"}},
    "cp config.yaml new.yaml": {"wrote": {"new.yaml@1"}, "read": {"config.yaml@1"}},
    "echo 9 > tmp; ln -f tmp new.yaml; rm tmp": {"wrote": {"new.yaml@1"}},
    "rm config.yaml; echo 9 > config.yaml": {"wrote": {"config.yaml@2"}},
    "mkdir tmp; echo 9 > tmp/a; mv tmp dir": {"wrote": {"dir/a@1"}, "made": {"dir"}},
    "shfs restore old.yaml@1 --to new.yaml": {"wrote": {"new.yaml@1"}},
}


@pytest.fixture
def two_files(sandbox, mounted, shell):
    bash = shell()
    bash.run("echo rate: 3 > config.yaml")
    bash.run("echo rate: 2 > old.yaml")
    return bash


@pytest.mark.users("ordinary")
@pytest.mark.parametrize("line", SAVES)
def test_saved(two_files, sandbox, line):
    two_files.run(line)
    [command] = commands(sandbox, "-n", "1")
    assert command["text"] == line and used(sandbox, command) == SAVES[line]
    shown = "\n".join(entries(two_files.run("shfs history -n 1 | cat"))[0][2:])
    files = sandbox.shfs("show", command["id"]).stdout.partition("\nprocesses\n")[2]
    files = re.sub(r"^ +\d+ .*$", "", files, flags=re.M).partition("\ntemporary, made")[0]
    for text in shown, files:
        assert not re.search(r"\btmp\b|sed[A-Za-z0-9]{6}|shfs-restore", text), text
    if "again" in str(command):
        assert "wrote    config.yaml@1 (again)" in shown
    [target] = [f for f in SAVES[line].get("wrote", SAVES[line].get("changed", {"config.yaml@2"}))]
    log = sandbox.shfs("log", target.split("@")[0]).stdout
    assert line in sandbox.shfs("show", target).stdout or "(again)" in shown
    assert line in log or "(again)" in shown
    assert "deleted" not in log and "renamed to tmp" not in log


@pytest.mark.users("ordinary")
@pytest.mark.parametrize(
    "options, keys, kept",
    [
        ("backupcopy=no", ":s/3/4/\r:wq\r", None),
        ("backupcopy=no nowritebackup", ":s/3/4/\r:wq\r", None),
        ("backupcopy=yes", ":s/3/4/\r:wq\r", None),
        ("backupcopy=no backup", ":s/3/4/\r:wq\r", "config.yaml~"),
    ],
)
def test_saved_by_vim(two_files, sandbox, options, keys, kept):
    vim(two_files, options, keys)
    [command] = commands(sandbox, "-n", "1")
    found = used(sandbox, command)
    assert found.pop("changed") == {"config.yaml@2"}
    assert found == ({"renamed": {f"{kept}@1"}} if kept else {})
    log = sandbox.shfs("log", "config.yaml").stdout
    heads = [line.split("  ")[0] for line in log.splitlines() if not line.startswith(" ")]
    renamed = [f"renamed to {kept}"] if kept else []
    assert heads == ["config.yaml@2", *renamed, "config.yaml@1"], log
    why = sandbox.shfs("why", "config.yaml").stdout
    assert "config.yaml@1" in why and ".sw" not in why and "config.yaml~" not in why


@pytest.mark.users("ordinary")
def test_saved_by_undelete(two_files, sandbox):
    two_files.run("rm config.yaml")
    two_files.run("shfs undelete config.yaml")
    undelete, remove = commands(sandbox, "-n", "2")
    assert used(sandbox, remove) == {"removed": {"config.yaml@1"}}
    assert used(sandbox, undelete) == {"wrote": {"config.yaml@1"}}


# --- directories that programs keep for themselves ---


@pytest.fixture
def repository(two_files):
    for line in (
        "git init -q -b main . && git config user.name A && git config user.email a@b",
        "git add -A; git commit -qm first",
        "git checkout -q -b try",
        "sed -i s/3/4/ config.yaml",
        "git commit -qam second",
        "git checkout -q main",
    ):
        assert two_files.run(line) == ""
    return two_files


@pytest.mark.users("ordinary")
def test_git_is_summed_up(repository, sandbox):
    found = {e[0].split("  ", 1)[1]: e[2:] for e in entries(repository.run("shfs history | cat"))}
    assert re.fullmatch(r" {9}also     \.git \(\d+ files\)", found["git commit -qam second"][-1])
    switched = found["git checkout -q main"]
    # git reads it before, if it may be younger than the index
    assert switched[0] in ("         changed  config.yaml@3 (from @2)", "         wrote    config.yaml@3")
    assert all(".git" not in line for line in switched[:-1])
    text = "\n".join(sum(found.values(), []))
    assert "not archived" not in text and "tmp_obj" not in text and ".lock" not in text
    assert len(entries(repository.run("shfs history -n1 | cat"))[0]) <= 6
    # all of it where it is asked for
    assert ".git/HEAD" in sandbox.shfs("history", "--all").stdout
    assert ".git/HEAD@3" in sandbox.shfs("history", ".git/HEAD").stdout
    [command] = [c for c in commands(sandbox) if c["text"] == "git checkout -q main"]
    assert ".git/HEAD@3" in str(used(sandbox, command))
    shown = sandbox.shfs("show", command["id"]).stdout
    assert shown.index("config.yaml@3") < shown.index("also ") < shown.index(".git/HEAD@3")


@pytest.mark.users("ordinary")
def test_why_goes_past_git(repository, sandbox):
    repository.run("cp config.yaml out")
    shown = re.sub(r"← [0-9a-f]{7,}  ", "← ", sandbox.shfs("why", "out").stdout)
    assert shown.splitlines()[:-2] == [
        "out@1 ← cp config.yaml out",
        "└─ config.yaml@3 ← git checkout -q main",
        "   └─ config.yaml@1 ← echo rate: 3 > config.yaml",
    ]
    assert ".git/HEAD" in sandbox.shfs("why", "--all", "out").stdout
    graph = json.loads(sandbox.shfs("why", "--json", "out").stdout)
    assert not any("/.git/" in v["path"] for v in graph["versions"])
    log = sandbox.shfs("log", "config.yaml").stdout
    assert "deleted" not in log and "the content of @1 again" in log


@pytest.mark.users("ordinary")
def test_caches_are_summed_up(two_files, sandbox):
    two_files.run("echo x=1 > mod.py")
    two_files.run("python3 -c 'import mod; open(\"out\", \"w\").write(\"1\")'")
    lines = entries(sandbox.shfs("history", "-n", "1").stdout)[0][2:]
    assert lines == [
        "         wrote    out@1",
        "         read     mod.py@1",
        "         also     __pycache__ (1 file)",
    ]
    assert "mod.cpython" in sandbox.shfs("history", "--all", "-n", "1").stdout


# --- much of it ---


@pytest.mark.users("ordinary")
def test_what_was_asked_for_is_shown_first(two_files, sandbox):
    two_files.run("mkdir many; for i in $(seq 100 300); do echo $i > many/f$i; done")
    first = entries(sandbox.shfs("history", "many/f222").stdout)[0]
    assert first[2].startswith("         wrote    many/f222@1  many/f100@1")
    for option in "--wrote", "--read":
        two_files.run("cat many/* > /dev/null")
        first = entries(sandbox.shfs("history", option, "many/f250", "-n1").stdout)[0]
        assert "many/f250@1  many/f1" in "\n".join(first)
    two_files.run("rm -r many")
    assert entries(sandbox.shfs("history", "-n1").stdout)[0][2:] == [
        "         removed  many/ (with 201 files)"
    ]
    gone = entries(sandbox.shfs("history", "-n1", "many/f120").stdout)[0]
    assert gone[2].startswith("         removed  many/f120@1  ")


@pytest.mark.users("ordinary")
@pytest.mark.parametrize("columns", [80, 60])
def test_nothing_is_wider_than_the_terminal(repository, sandbox, columns):
    deep = "a-directory-with-a-name/" + "x" * 60
    repository.run(f"mkdir -p {deep}; for i in 1 2 3; do cp config.yaml {deep}/$i-{'y' * 40}.txt; done")
    repository.run(f"mv {deep}/1-* {deep}/{'z' * 70}; mv {deep}/2-* b; mv {deep}/3-* c")
    repository.run("truncate -s 20M big; cat big config.yaml | head -c 9 > s0")
    for i in range(10):
        repository.run(f"cat s{i} config.yaml big > s{i + 1}")
    env = {"COLUMNS": str(columns)}
    for args in ["history"], ["history", "--all"], ["why", "s10"], ["log", "config.yaml"], ["log", "c"]:
        for line in sandbox.shfs(*args, env=env).stdout.splitlines():
            assert len(line) <= columns, line


# --- show ---


@pytest.mark.users("ordinary")
def test_show_names_the_shell(two_files, sandbox):
    two_files.run("cat config.yaml > a")
    two_files.run("echo 1 > b")
    two_files.run("(read x; echo $x) < config.yaml > c")
    processes = [
        re.findall(r"^ {4}\d+ +(.*)$", sandbox.shfs("show", name).stdout, re.M) for name in "abc"
    ]
    assert processes == [["cat config.yaml"], ["(the shell itself)"], ["(the shell, forked)"]]


def test_show_folds_processes(two_files, sandbox):
    """A loop of a script: of the processes that one has started, the first few stand for all."""
    sandbox.write("loop.sh", "for i in $(seq 12); do (sh -c 'cat config.yaml; cat config.yaml' > out$i); done\n")
    two_files.run("sh loop.sh; cat out1 > b")
    command = the_id(sandbox, "sh loop.sh; cat out1 > b")
    shown, whole = (sandbox.shfs("show", *more, command).stdout for more in ([], ["--full"]))
    count = lambda text: len(re.findall(r"^ +\d+ +sh -c ", text, re.M))
    assert (count(shown), count(whole)) == (8, 12)
    assert "      and 4 more with what they started (--full)\n" in shown and "more with" not in whole
    assert "  cat out1\n" in shown, "what the shell started after that"
    assert len(json.loads(sandbox.shfs("show", "--json", command).stdout)["processes"]) > 24


def test_show(study, sandbox):
    wanted = the_id(sandbox, "sh run.sh")
    shown = sandbox.shfs("show", wanted[:8]).stdout
    lines = shown.splitlines()
    assert lines[0] == f"command  {wanted}"
    assert "    sh run.sh" in lines and "status   0" in lines and "cwd      ~/project" in lines
    assert re.search(r"^    \d+ +sh run\.sh", shown, re.M)
    assert re.search(r"^      \d+ +awk -v rate=3 -f model\.awk data/in\.csv", shown, re.M)
    assert re.search(r"^    out\.csv@1 +6 B$", shown, re.M)

    def without_age(text):
        return re.sub(r"\d+ \w+ ago", "", text)

    assert without_age(sandbox.shfs("show", "out.csv@1").stdout) == without_age(shown)
    # what it read there was written by no command
    assert sandbox.shfs("show", f"config.yaml@{{{wanted}}}").stdout.startswith("process")
    found = json.loads(sandbox.shfs("show", wanted, "--json").stdout)
    assert {"sh", "awk", "sed"} == {p["argv"][0] for p in found["processes"]}
    assert found["lost"] == 0 and found["id"] == wanted


def test_show_a_process(study, sandbox):
    shown = sandbox.shfs("show", "run.sh@1").stdout
    assert re.search(r"^process  \d+, of no command", shown) and "run.sh@1" in shown


# --- log ---


def test_log(study, sandbox):
    lines = study.run("shfs log config.yaml | cat").splitlines()
    heads = [line for line in lines if line.startswith("config")]
    times = r"  \d{4}-\d\d-\d\d \d\d:\d\d:\d\d  "
    assert len(heads) == 3
    assert re.fullmatch(f"config.yaml@3{times}30 B  \\+8 B", heads[0])
    assert re.fullmatch(f"config.yaml@2{times}22 B  \\+0 B", heads[1])
    assert lines[1].endswith("  echo 'seed: 1' >> config.yaml")
    assert lines[3].endswith("  sed -i 's/rate: 3/rate: 5/' config.yaml")
    reverse = sandbox.shfs("log", "--reverse", "config.yaml").stdout
    assert reverse.startswith("config.yaml@1")
    assert sandbox.shfs("log", "-n", "1", "config.yaml").stdout.count("config.yaml@") == 1
    assert sandbox.shfs("log", "config.yaml@2").stdout.startswith("config.yaml@2")


@pytest.mark.users("ordinary")
def test_log_patch(study, sandbox):
    shown = sandbox.shfs("log", "-p", "config.yaml").stdout
    assert "-rate: 3\n+rate: 5\n" in shown and "+seed: 1\n" in shown
    assert "--- /dev/null" in shown


def test_log_of_what_went_away(study, sandbox):
    study.run("mv top.txt best.txt")
    study.run("rm out.csv")
    study.run("echo 9 > out.csv")
    shown = sandbox.shfs("log", "out.csv").stdout
    order = [line.split()[0] for line in shown.splitlines() if not line.startswith(" ")]
    assert order == ["out.csv@3", "deleted", "out.csv@2", "out.csv@1"]
    assert "  rm out.csv" in shown
    shown = sandbox.shfs("log", "best.txt").stdout
    assert re.search(r"^    as top\.txt@2: [0-9a-f]{7,}  sh run\.sh; sort", shown, re.M)
    shown = sandbox.shfs("log", "top.txt").stdout
    assert re.search(r"^renamed to best\.txt  ", shown, re.M) and "  mv top.txt best.txt" in shown


@pytest.mark.users("ordinary")
def test_log_says_what_is_the_same_again(study, sandbox):
    study.run("shfs restore config.yaml@1")
    assert "    the content of @1 again" in sandbox.shfs("log", "-n1", "config.yaml").stdout


# --- why ---


def test_why(study, sandbox):
    shown = re.sub(r"← [0-9a-f]{7,}", "←", sandbox.shfs("why", "top.txt@1").stdout)
    tree = shown.splitlines()
    assert tree[0] == "top.txt@1 ← sort -rn out.csv > top.txt".replace("← ", "←  ")
    assert tree[1] == "└─ out.csv@1 ←  sh run.sh"
    assert any(line.endswith(" sources") for line in tree[-2:])
    assert "config.yaml@1" in shown and "config.yaml@2" not in shown
    assert "top.txt@2" not in shown and "/usr" not in shown


def test_why_goes_through_changes(study, sandbox):
    graph = json.loads(sandbox.shfs("why", "--json", "top.txt").stdout)
    made_by = {v["n"]: c for c in graph["commands"] for v in c["made"] if v["path"].endswith("/config.yaml")}
    assert made_by[3]["text"].startswith("echo") and made_by[2]["text"].startswith("sed")
    assert [i["n"] for i in made_by[3]["inputs"]] == [2]
    assert [i["n"] for i in made_by[2]["inputs"]] == [1]
    assert graph["target"] == {"path": f"{sandbox.project}/top.txt", "n": 2}
    # each command once, or each job of it, and each version once
    names = [(v["path"], v["n"]) for v in graph["versions"]]
    assert len(set(names)) == len(names)
    ids = [(c["id"], str(c.get("job"))) for c in graph["commands"] if c["id"]]
    assert len(set(ids)) == len(ids)


@pytest.mark.users("ordinary")
def test_why_depth(study, sandbox):
    shown = sandbox.shfs("why", "--depth", "2", "top.txt").stdout  # sort, and run.sh of the same line
    assert "config.yaml@3" in shown and "config.yaml@2" not in shown
    assert "… shfs why config.yaml@3" in shown
    sandbox.shfs("why", "--depth", "0", "top.txt", check=2)


@pytest.mark.users("ordinary")
def test_why_long_chains_end_on_the_screen(study, sandbox):
    study.run("for i in $(seq 30); do eval \"echo $i >> config.yaml\"; done")
    for i in range(20):
        study.run(f"echo step {i} >> steps.txt")
    shown = sandbox.shfs("why", "steps.txt").stdout
    assert all(len(line) <= 80 for line in shown.splitlines())
    assert "… shfs why steps.txt@" in shown
    graph = json.loads(sandbox.shfs("why", "--json", "steps.txt").stdout)
    assert len(graph["versions"]) == 20


# --- cat, diff ---


def test_cat(study, sandbox):
    assert sandbox.shfs("cat", "config.yaml@1").stdout == FIRST
    assert sandbox.shfs("cat", "config.yaml").stdout == FIRST.replace("3", "5") + "seed: 1\n"
    run = the_id(sandbox, "sh run.sh")
    assert sandbox.shfs("cat", f"out.csv@{{{run}}}").stdout == "3\n6\n9\n"
    assert sandbox.shfs("cat", f"config.yaml@{{{run}}}").stdout == FIRST
    assert sandbox.shfs("cat", "out.csv@{now}").stdout == "5\n10\n15\n"
    both = sandbox.shfs("cat", "out.csv@1", "out.csv@2").stdout
    assert both == "3\n6\n9\n5\n10\n15\n"


def test_cat_any_bytes(mounted, sandbox):
    data = bytes(range(256)) * 300
    sandbox.write("blob", data)
    assert sandbox.shfs("cat", "blob").stdout_bytes == data


def test_diff(study, sandbox):
    shown = sandbox.shfs("diff", "config.yaml@1", "config.yaml@2", check=1).stdout
    assert shown.splitlines()[0].startswith("--- config.yaml@1\t")
    assert "-rate: 3\n+rate: 5\n" in shown
    assert sandbox.shfs("diff", "config.yaml@1", check=1).stdout.endswith("+seed: 1\n")
    assert sandbox.shfs("diff", "config.yaml@3").stdout == ""
    sandbox.shfs("diff", "-q", "config.yaml@1", "config.yaml@3", check=1)
    sandbox.shfs("diff", "config.yaml@1", "config.yaml@9", check=3)
    sandbox.sh("rm config.yaml")
    assert "does not exist now" in sandbox.shfs("diff", "config.yaml@1", check=2).stderr


# --- restore, undelete ---


def test_restore(study, sandbox):
    told = study.run("shfs restore config.yaml@1")
    assert "config.yaml" in told
    assert sandbox.read("config.yaml") == FIRST.encode()
    # it is a version like any other, and what it replaced is not lost
    assert sandbox.shfs("cat", "config.yaml@3").stdout.endswith("seed: 1\n")
    assert sandbox.shfs("cat", "config.yaml@4").stdout == FIRST
    newest = commands(sandbox, "-n", "1")[0]
    assert newest["text"] == "shfs restore config.yaml@1"
    assert used(sandbox, newest) == {"changed": {"config.yaml@4"}}
    study.run("sh run.sh")
    assert sandbox.read("out.csv") == b"3\n6\n9\n"
    # the new result comes from the old config, not from the one that was replaced
    shown = sandbox.shfs("why", "out.csv").stdout
    assert "config.yaml@4" in shown and "config.yaml@1" in shown and "config.yaml@3" not in shown


@pytest.mark.users("ordinary")
def test_restore_elsewhere(study, sandbox):
    sandbox.shfs("restore", "config.yaml@1", "--to", "old.yaml")
    assert sandbox.read("old.yaml") == FIRST.encode()
    sandbox.sh("mkdir then")
    sandbox.shfs("restore", "config.yaml@2", "out.csv@1", "--to", "then")
    assert sandbox.read("then/out.csv") == b"3\n6\n9\n"
    assert sandbox.read("then/config.yaml") == FIRST.replace("3", "5").encode()
    sandbox.shfs("restore", "config.yaml@1", "--to", f"{sandbox.home}/out of it")
    with open(f"{sandbox.home}/out of it", encoding="utf-8") as restored:
        assert restored.read() == FIRST


def test_restore_what_a_command_used(study, sandbox):
    run = the_id(sandbox, "sh run.sh")
    sandbox.sh("mkdir then")
    told = sandbox.shfs("restore", "--command", run, "--read", "--to", "then", check=False)
    # data/in.csv was archived when the fixture wrote it
    assert told.status == 0, told
    assert sandbox.read("then/config.yaml") == FIRST.encode()
    assert sandbox.read("then/data/in.csv") == b"1\n2\n3\n"
    sandbox.shfs("restore", "--command", run)
    assert sandbox.read("out.csv") == b"3\n6\n9\n"


@pytest.mark.both
def test_restore_loses_nothing(study, sandbox):
    sandbox.sh("umask 022; ln -s config.yaml link; mkdir dir")
    for target in "link", "dir/":
        told = sandbox.shfs("restore", "out.csv@1", "--to", target, check=False)
        if target == "link":
            assert told.status == 4, told
    assert sandbox.sh("readlink link").stdout == "config.yaml\n"
    outside = sandbox.write_outside(f"{sandbox.home}/precious", "only copy\n")
    told = sandbox.shfs("restore", "config.yaml@1", "--to", outside, check=4)
    assert "precious" in told.stderr
    with open(outside, encoding="utf-8") as file:
        assert file.read() == "only copy\n"
    sandbox.shfs("restore", "config.yaml@1", "--to", outside, "--force")
    with open(outside, encoding="utf-8") as file:
        assert file.read() == FIRST


@pytest.mark.users("ordinary")
def test_restore_dry_run(study, sandbox):
    before = sandbox.read("config.yaml")
    sandbox.shfs("restore", "-n", "config.yaml@1")
    assert sandbox.read("config.yaml") == before


def test_undelete(study, sandbox):
    study.run("rm -r data config.yaml")
    listed = study.run("shfs undelete --list | cat")
    assert "config.yaml" in listed and "data/in.csv" in listed
    sandbox.shfs("undelete", "config.yaml", "data")
    assert sandbox.read("config.yaml").endswith(b"seed: 1\n")
    assert sandbox.read("data/in.csv") == b"1\n2\n3\n"
    sandbox.shfs("undelete", "never-there", check=3)


# --- what cannot be answered ---


@pytest.mark.users("ordinary")
@pytest.mark.parametrize(
    "args, status, message",
    [
        (["cat", "config.yaml@99"], 3, "config.yaml has versions 1 to 3"),
        (["cat", "config.yaml@0"], 3, "config.yaml has versions 1 to 3"),
        (["cat", "confg.yaml"], 3, "did you mean config.yaml?"),
        (["log", "confg.yaml"], 3, "did you mean config.yaml?"),
        (["why", "confg.yaml@2"], 3, "did you mean config.yaml?"),
        (["diff", "nothing"], 3, "never seen"),
        (["restore", "nothing@1"], 3, "never seen"),
        (["cat", "in.csv"], 3, "did you mean data/in.csv?"),
        (["cat", "config.yaml@{1971-01-01}"], 3, "was first seen"),
        (["cat", "config.yaml@{soon}"], 2, "neither a time nor the id"),
        (["log", "data"], 3, "is a directory"),
        (["show", "ffff"], 3, "no command's id begins with ffff"),
        (["show", "abc"], 3, "4 digits or more"),
        (["show", "nothing"], 3, "never seen"),
        (["history", "nothing"], 3, "never seen"),
        (["history", "--grep", "nothing like it"], 3, "no command matches"),
        (["history", "--wrote", "confg.yaml"], 3, "did you mean config.yaml?"),
        (["history", "--wrote", "*.nothing"], 3, "no command matches"),
        (["history", "--regex", "("], 2, "Unmatched"),
        (["history", "--since", "whenever"], 2, "not a time"),
        (["history", "--status", "bad"], 2, "not ok, fail"),
        (["history", "--limit", "0"], 2, "not a number above 0"),
        (["history", "--session", "zzzz"], 2, "not the id of a session"),
        (["restore"], 2, "restore what?"),
        (["why"], 2, "usage: shfs why"),
        (["why", "a", "b"], 2, "one argument too many"),
        (["impact", "confg.yaml"], 3, "did you mean config.yaml?"),
        (["impact", "--depth", "x", "a"], 2, "a number above 0"),
        (["log", "--patsch", "a"], 2, "did you mean --patch?"),
    ],
)
def test_errors(study, sandbox, args, status, message):
    result = sandbox.shfs(*args, check=status)
    assert message in result.stderr and result.stdout == ""


def test_all_is_named_where_it_finds_more(study, sandbox):
    study.run("true nothing-touched")
    study.run("false nothing-either")
    for args, more in (["true nothing"], True), (["false nothing", "--status", "ok"], False), (["true nothing", "--all", "--failed"], False):
        assert ("--all" in sandbox.shfs("history", "-g", *args, check=3).stderr) == more, args
    assert "--all" not in sandbox.shfs("history", "--wrote", "*.nothing", check=3).stderr


def test_log_of_what_came_back(sandbox, shell):
    """With the bytes that it had: it is there, and the log says so."""
    bash = shell()
    sandbox.mount()
    bash.run(f"cd {sandbox.project}; echo 1 > f")
    for line in "rm f", "echo 1 > f", "mv f g; mv g f", "rm f":
        bash.run(line)
    heads = [line.split("  ")[0] for line in sandbox.shfs("log", "f").stdout.splitlines() if not line.startswith(" ")]
    assert heads == ["deleted", "there again", "renamed to g", "there again", "deleted", "f@1"]
    heads = [line.split("  ")[0] for line in sandbox.shfs("log", "--reverse", "f").stdout.splitlines() if not line.startswith(" ")]
    assert heads == ["f@1", "deleted", "there again", "renamed to g", "there again", "deleted"]
    bash.close()


def test_in_a_directory_that_has_gone(study, sandbox):
    for command in "log x", "restore x@1", "stale x", "history .", "history --read x":
        script = f"mkdir {sandbox.home}/gone; cd {sandbox.home}/gone; rmdir ../gone; {PREFIX}/bin/shfs {command}"
        assert "the current directory does not exist any more" in sandbox.sh(script, check=False).stderr


@pytest.mark.users("ordinary")
@pytest.mark.parametrize("command", ["history", "log f", "why f", "impact f", "stale", "stale f", "show f", "cat f", "diff f", "restore f@1"])
def test_no_store_and_no_rows(sandbox, command):
    assert "shfs mount DIR" in sandbox.shfs(*command.split(), check=6).stderr
    sandbox.mount().unmount()
    assert "nothing has been recorded yet" in sandbox.shfs(*command.split(), check=3).stderr


@pytest.mark.users("ordinary")
def test_names_that_are_meant_to_harm(mounted, sandbox, shell):
    bash = shell()
    name = "a\x1b[31m'\"\\$(x)\n%s@2"
    bash.run("echo 1 > $'a\\e[31m\\'\"\\\\$(x)\\n%s@2'")
    shown = sandbox.shfs("history").stdout
    assert "\x1b" not in shown and r"a\e[31m" in shown
    [command] = commands(sandbox)
    assert command["files"][0]["path"] == f"{sandbox.project}/{name}"
    assert sandbox.shfs("cat", name).stdout == "1\n"
    assert sandbox.shfs("cat", f"{name}@1").stdout == "1\n"
    for what in "log", "why", "impact", "show":
        assert "\x1b" not in sandbox.shfs(what, name).stdout


def test_after_reindex_the_answers_are_the_same(study, sandbox):
    questions = (
        ["history", "--all"],
        ["log", "config.yaml"],
        ["why", "top.txt"],
        ["impact", "config.yaml"],
        ["stale", "data"],
        ["show", the_id(sandbox, "sh run.sh")],
    )
    before = [sandbox.shfs(*q, "--json").stdout for q in questions]
    sandbox.shfs("reindex")
    assert [sandbox.shfs(*q, "--json").stdout for q in questions] == before
