# SPDX-License-Identifier: MIT
"""Each output, of a history whose names and commands are the corpus of hostile.py."""

import csv
import io
import json
import os
import re
import sqlite3

import pytest

import harness
from hostile import NAMES, SQL, TEXTS, encoded, unprintable
from screens import Screen

pytestmark = pytest.mark.users("ordinary")

# as many commands as make each text the begin of one would take long
PER_COMMAND = 8
BEGINS = ["=cmd|' /C calc'!A0", "@SUM(1)", "+1+1", "-1+1", "'=1", "\x1b[31mred"]


def texts():
    rest = [text for text in TEXTS if text not in BEGINS]
    chunks = [rest[i:i + PER_COMMAND] for i in range(0, len(rest), PER_COMMAND)]
    return [*BEGINS, *(" ".join(chunk) for chunk in chunks)]


def replace_texts(sandbox):
    """No line editor takes all bytes: what a shell's hook noted of the commands is changed."""
    for name in os.listdir(sandbox.journal):
        path = os.path.join(sandbox.journal, name)
        if not name.startswith("shell-"):
            continue
        with open(path, "rb") as file:
            data = file.read()
        for n, text in enumerate(texts()):
            data = data.replace(b"cat in > out%d #\0" % n, encoded(text) + b"\0")
        with open(path, "wb") as file:
            file.write(data)


@pytest.fixture
def study(sandbox, shell):
    mount = sandbox.mount()
    bash = shell()
    bash.run("echo 1 > in")
    script = "import os\nfor n in eval(open('names').read()): open(n, 'wb').write(n)\n"
    sandbox.write("names", repr([encoded(n) for n in NAMES]))
    sandbox.write("make.py", script)
    bash.run("python3 make.py")
    for n in range(len(texts())):
        bash.run(f"cat in > out{n} #")
    bash.run("mkdir d; cat ./* > d/sum 2>/dev/null; rm -f ./*rf")
    bash.run("cd /")
    mount.unmount()
    [sandbox.journal] = [e.path for e in os.scandir(f"{sandbox.store}/journal") if e.is_dir()]
    replace_texts(sandbox)
    sandbox.shfs("reindex")
    return sandbox


def commands(sandbox, *args, **options):
    found = json.loads(sandbox.shfs("history", "--json", "--all", *args, **options).stdout)["commands"]
    return [command for command in found if command.get("text")]


WORST = ["\x1b]52;c;cm0gLXJmIC8=\x07", "\u202egnp.exe", "good\rbad", "new\nline", "\x9b31m", "\udcff\udc80", "'; DROP TABLE file;--", "-x", "--help",
         "b@2", "b@{1}", "%", " lead", "trail ", "\x1b" * 255]  # fmt: skip


def test_outputs_are_printable(study):
    [last] = [c for c in commands(study) if "d/sum" in c["text"]]
    outputs = [
        ["history"], ["history", "--all"], ["history", "--all", "--reverse"], ["show", last["id"]], ["show", "make.py"],
        ["log", "in"], ["log", "-p", "in"], ["why", "d/sum"], ["impact", "in"], ["impact", "make.py"], ["stats"], ["stale"], ["stale", "d/sum"],
        ["search", "-f"], ["search"], ["status"], ["doctor"], ["rerun", "--dry-run", "d/sum"], ["undelete"], ["undo", "-n", "--since", "1 hour ago"], ["compare", "in", "names"],
        ["export", "dot", "d/sum"], ["export", "prov", "d/sum"], ["export", "prov-o", "d/sum"], ["export", "json", "d/sum"], ["export", "jsonl", "d/sum"],
        *(["restore", "-n", "--", f"./{name}@1"] for name in WORST[:6]),
        *([what, "--", name] for what in ("log", "why", "show") for name in WORST[:8]),
        *(["log", "--", name] for name in WORST[8:]),
    ]  # fmt: skip
    shown = b""
    for args in outputs:
        for more in [[], ["--color=always"]] if args[0] in ("history", "log", "show", "why") and len(args) < 3 else [[]]:
            result = study.shfs(*more, *(encoded(a) for a in args), check=False)
            assert result.status < 64, (args, result)
            out = result.stdout_bytes + result.stderr_bytes
            out = re.sub(rb"\x1b\[[0-9;]*m", b"", out) if more else out
            assert not unprintable(out, tabs=True), (args, unprintable(out, tabs=True))
            assert b"Sanitizer" not in out and b"runtime error" not in out, (args, out)
            shown += out
    for text in rb"\e]52;c;cm0gLXJmIC8=\a", rb"\u{202e}gnp.exe", rb"good\rbad", rb"\u{9b}31m", rb"\xff\x80", rb"new\nline":
        assert text in shown, text
    assert not os.path.exists(f"{study.project}/pwned")


def test_errors_are_printable(study):
    wrong = [
        lambda t: [t], lambda t: ["history", f"--{t}"], lambda t: ["cat", f"nothing{t}"], lambda t: ["history", "--since", t],
        lambda t: ["history", "--session", t], lambda t: ["--store", f"/nonexistent/{t}", "history"], lambda t: ["export", t, "in"],
        lambda t: ["mount", f"/nonexistent/{t}"], lambda t: ["import", f"/nonexistent/{t}"], lambda t: ["--config", f"/nonexistent/{t}", "history"],
        lambda t: ["cat", f"in@{{{t}}}"], lambda t: ["rerun", "--command", t],
    ]  # fmt: skip
    for n, make in enumerate(wrong):
        for text in WORST[n % 3:6:3]:
            result = study.shfs(*(encoded(a) for a in make(text)), check=False, env={"HOME": study.home})
            assert result.status not in (0, 127) and result.status < 64, (make(text), result)
            out = result.stdout_bytes + result.stderr_bytes
            assert not unprintable(out), (make(text), out)


def test_json_has_each_name_and_text(study):
    found = commands(study)
    assert set(texts()) <= {c["text"] for c in found}
    [last] = [c for c in found if "d/sum" in c["text"]]
    paths = {u["path"].removeprefix(study.project + "/") for u in last["files"]}
    hidden = {n for n in NAMES if n.startswith(".")}  # no * of a shell has them
    assert set(NAMES) - hidden <= paths
    for name in NAMES[::12]:
        log = json.loads(study.shfs("log", "--json", "--", encoded("./" + name)).stdout)
        assert log["versions"][-1]["path"] == f"{study.project}/{name}", name
        if not name.startswith("."):
            assert study.shfs("cat", "--", encoded("./" + name + "@1")).stdout_bytes == encoded(name)
    for args in ["impact", "in"], ["why", "d/sum"], ["stale"], ["stats"], ["status"], ["export", "json", "d/sum"]:
        json.loads(study.shfs(*args, *([] if args[0] == "export" else ["--json"]), check=False).stdout)


def test_no_formula_in_a_table(study):
    rows = []
    for n in range(len(BEGINS)):
        text = study.shfs("export", "csv", f"out{n}").stdout_bytes.decode("utf-8", "surrogateescape")
        rows += list(csv.DictReader(io.StringIO(text, newline="")))
    for row in rows:
        for value in row.values():
            assert value[:1] not in ("=", "+", "-", "@", "\t", "\r"), row
    assert set(BEGINS) <= {re.sub("^'", "", row["text"]) for row in rows}


def test_filters_take_text_for_text(study):
    every = commands(study)
    for text in [*SQL, "\x1b", "\udcff", "'", '"', "\\", "_", "%"]:
        found = commands(study, "--grep", encoded(text), check=False)
        assert {c["id"] for c in found} == {c["id"] for c in every if text in c["text"]}, text
    for option in "--name", "--wrote", "--read", "--cwd", "--host":
        for text in SQL[:6]:
            result = study.shfs("history", "--all", option, text.replace("/", "∕"), check=False)
            assert result.status in (0, 3), (option, text, result)
    # of patterns, only the names
    for text in "a'b", "'; DROP TABLE file;--", "%", "_":
        paths = {u["path"] for c in commands(study, "--name", text) for u in c["files"]}
        assert f"{study.project}/{text}" in paths
        assert len(commands(study, "--name", text)) == 2
    assert commands(study) == every


def test_search_on_a_screen(study):
    for args, first in ([["-f"], "\\e]52;c"], [[], "\\e]8;;"]):
        terminal = Screen(study, os.path.join(harness.PREFIX, "bin/shfs"), "search", *args, rows=40, columns=130)
        try:
            terminal.expect("> ")
            terminal.type("'" + first[3:])
            terminal.expect(first)
        finally:
            terminal.type("\x1b")
            terminal.end()
        for bad in b"\x1b]52", b"\x1b]0;", b"\x1b]8", b"\x1b[6n", b"\x1b[21t", b"\x1bP", "\u202e".encode(), b"\xc2\x9b", b"\xc2\x90":
            assert bad not in terminal.raw, bad


@pytest.mark.parametrize("kind", ["bash", "zsh", "fish"])
def test_completions(study, kind):
    """What shfs complete says is one candidate a line; what a shell does with it runs nothing."""
    from test_completion import Typist

    out = study.shfs("complete", "--", "cat", "").stdout_bytes
    assert not unprintable(b"\n".join(line.split(b"\t")[-1] for line in out.splitlines() if b"\t" in line))
    typist = Typist(study, kind)
    typist.tab("shfs show ", 2)
    typist.tab("shfs cat in@", 2)
    typist.tab("shfs cat \\$", 2)
    typist.tab("shfs undelete ", 2)
    assert "\x1b]52" not in typist.shell.pty.before and "\u202e" not in typist.seen
    for name in os.listdir(study.project):
        assert name != "pwned"


def test_an_index_of_somebody_else(mounted, sandbox, shell):
    """Triggers do nothing, views call nothing that reaches out of SQL; a new index is as before."""
    bash = shell()
    bash.run("echo 1 > file")
    before = sandbox.shfs("log", "--json", "file").stdout
    path, loot = f"{sandbox.store}/index.db", f"{sandbox.home}/loot"
    with sqlite3.connect(path) as database:
        for table in "command", "file", "version", "state", "task":
            for event in "INSERT", "UPDATE":
                database.execute(f"CREATE TRIGGER {table}_{event} AFTER {event} ON {table} BEGIN DELETE FROM version; DELETE FROM file; END")
    database.close()
    bash.run("echo 2 > other")
    assert sandbox.shfs("log", "--json", "file").stdout == before
    assert len(commands(sandbox)) == 2
    for call in f"load_extension('{loot}')", f"writefile('{loot}', 'x')", "fts3_tokenizer('x', x'4141414141414141')", "readfile('/etc/passwd')", "edit('x')":
        with sqlite3.connect(path) as database:
            [sql] = database.execute("SELECT sql FROM sqlite_schema WHERE name = 'v_command'").fetchone() if call.startswith("load") else [sql]
            database.execute("DROP VIEW v_command")
            database.execute(sql.replace("SELECT", f"SELECT {call} AS loot,", 1))
        database.close()
        result = sandbox.shfs("history", check=False)
        assert 0 < result.status < 64 and "Sanitizer" not in result.stderr and not os.path.exists(loot), result
    sandbox.shfs("reindex")
    assert sandbox.shfs("log", "--json", "file").stdout == before


def test_versions_that_come_of_each_other(mounted, sandbox, shell):
    """In an index of somebody else: what follows where a version comes from gets to an end."""
    bash = shell()
    bash.run("echo 1 > a; ln a b; ln b c; cat c > d")
    bash.run("mv c e; ln e c; cat c e > f")
    sandbox.shfs("sync")
    sandbox.shfs("log", "f")
    database = sqlite3.connect(f"{sandbox.store}/index.db")
    ids = [row[0] for row in database.execute("SELECT file_id << 32 | n FROM version")]
    for circle in 1, 2, len(ids):
        with database:
            for at, one in enumerate(ids):
                origin = ids[at // circle * circle + (at + 1) % circle] if (at // circle + 1) * circle <= len(ids) else one
                database.execute("UPDATE version SET origin_version_id = ? WHERE file_id = ? AND n = ?", (origin, one >> 32, one & 0xFFFFFFFF))
        for question in ["why", "f"], ["impact", "a"], ["stale"], ["log", "c"], ["export", "make", "f"], ["rerun", "-n", "f"], ["compare", "f", "d"], ["undelete", "--list"]:
            assert sandbox.shfs(*question, check=False, timeout=30).status in (0, 1, 3, 4), question
    database.close()
