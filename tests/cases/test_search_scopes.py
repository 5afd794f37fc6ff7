# SPDX-License-Identifier: MIT
"""The keys of search: what is listed (as history lists it under the same conditions), marks, actions, the mouse."""

import base64
import json
import os
import random
import re

import pytest

from harness import seeds
from screens import PROGRAM, Screen

DOWN, UP, ESC, ENTER, TAB, SHIFT_TAB, F1 = "\x1bOB", "\x1bOA", "\x1b", "\r", "\t", "\x1b[Z", "\x1bOP"
WHERE, END, TIME, KIND = "\x12", "\x13", "\x0f", "\x14"
ROW = re.compile(r"([> ])([* ]) *\d+[ywdhms]  (.*)")
BACK = "any key: back to the search"

pytestmark = pytest.mark.users("ordinary")


@pytest.fixture
def work(sandbox, mounted, shell):
    """Two sessions, several directories, failures, and a year of another project."""
    generator = os.path.join(os.environ["SHFS_TEST_BUILD"], "bench/gen-journal")
    sandbox.run(generator, sandbox.store, "--commands", "150", "--accesses", "600", "--files", "200", timeout=60)
    first, second = shell(), shell()
    for line in "seq 20 > numbers.txt", "false one", "mkdir sub", "sed -i s/^5$/five/ numbers.txt", "cat missing":
        first.run(line)
    for line in "cd sub; echo a,b > table.csv", "wc -l ../numbers.txt > count", "false two", "cd /", "echo far away":
        second.run(line)
    sandbox.env["SHFS_SESSION"] = second.run("echo $SHFS_SESSION")
    sandbox.shfs("sync")
    sandbox.session = json.loads(sandbox.shfs("history", "--all", "--json", "--grep", "false two").stdout)["commands"][0]["session"]
    return sandbox


@pytest.fixture
def screen(work):
    def start(*args, env=None, rows=30, columns=150, **options):
        return Screen(work, PROGRAM, *args, env={"SHFS_PAGER": "cat", **(env or {})}, rows=rows, columns=columns, **options)

    return start


def rows(terminal):
    """(is it chosen, is it marked, its text) of each line of the list."""
    found = [ROW.fullmatch(line.split("│")[0].rstrip()) for line in terminal.lines()[2:]]
    return [(m[1] == ">", m[2] == "*", m[3]) for m in found if m]


def texts(terminal):
    return [text for _, _, text in rows(terminal)]


def of_history(work, *conditions, cwd=None, env=None):
    """The commands and the files that history lists."""
    said = json.loads(work.shfs("history", "--all", "--json", *conditions, cwd=cwd, env=env).stdout)["commands"]
    commands = {c["text"] for c in said if c["text"]}
    files = {f[name] for c in said for f in c["files"] if not f.get("directory") for name in ("path", "from") if f.get(name)}
    return commands, files


def of_search(work, *conditions, cwd=None, env=None):
    said = json.loads(work.shfs("search", "--json", *conditions, "", cwd=cwd, env=env).stdout)["found"]
    return {f["text"] for f in said if f["kind"] == "command"}, {f["path"] for f in said if f["kind"] == "file"}


# --- conditions on the command line ---


def test_conditions_are_those_of_history(work):
    tried = [
        (), ("--status", "fail"), ("--status", "ok"), ("--session", work.session), ("--cwd", "."), ("--cwd", "sub"),
        ("--since", "1 hour ago"), ("--until", "1 hour ago"), ("--since", "60 days ago"), ("--here",), ("--host", "nowhere"),
        ("--grep", "numbers"), ("--read", "numbers.txt"), ("--wrote", "numbers.txt"), ("--name", "*.csv"), ("--size", "-10"),
        ("--failed", "--cwd", "."), ("--since", "1 hour ago", "--wrote", "sub"), ("--regex", "^s"),
        ("--wrote", "numbers.txt", "--or", "--grep", "false"), ("--failed", "--cwd", ".", "--or", "--name", "*.csv", "--or", "-g", "far"),
    ]  # fmt: skip
    seen = set()
    for conditions in tried:
        commands, files = of_history(work, *conditions)
        found, found_files = of_search(work, *conditions)
        assert found == commands, conditions
        if conditions:
            found_files = {path for path in found_files if not path.endswith(".swp")}  # temporary files, which history counts
            assert found_files <= files, conditions
            assert not [path for path in files - found_files if "/.git/" not in path and "__pycache__" not in path], conditions
        seen.add((len(found), len(found_files)))
    assert len(seen) > 8, "they differ"
    assert work.shfs("search", "--since", "no such time", "x", check=2)
    # a text that was run several times counts, with its last run, as often as it meets them
    again = json.loads(work.shfs("search", "--json", "--session", work.session, "false two").stdout)["found"]
    assert [(c["text"], c["times"]) for c in again] == [("false two", 1)]


# --- keys ---


def test_scopes_narrow_each_group(screen, work):
    """What a key adds is a condition beside those of --or, not of the last of them."""
    groups = [("--grep", "numbers"), ("--grep", "false")]
    t = screen("search", "-c", *groups[0], "--or", *groups[1], cwd=work.project)
    t.expect("F1 keys", "numbers.txt > count", "false two")
    t.type(END + END)
    t.expect("failed, filtered")
    failed, _ = of_history(work, *groups[0], "--failed", "--or", *groups[1], "--failed")
    assert {"false one", "false two"} <= failed
    t.wait(lambda _: set(texts(t)) == failed, "those that failed alone")
    t.type(ESC)


def test_scopes(screen, work):
    t = screen("search", "-c", cwd=f"{work.project}/sub")
    t.expect("commands", "F1 keys")
    for name, there, gone in (
        ("this host", "false one", None), ("this session", "false two", "false one"),
        ("this project", "false one", "far away"), ("this directory", "false two", "far away"),
    ):  # fmt: skip
        t.type(WHERE)
        t.expect(f"commands, {name}", there)
        t.wait(lambda _, gone=gone: not any(gone and gone in text for text in texts(t)), f"no {gone}")
    t.type(END)
    t.expect("this directory, succeeded")
    t.type(END)
    t.expect("this directory, failed")
    t.wait(lambda _: texts(t) == ["false two"], "what failed here")
    t.type(TIME)
    t.expect("failed, last hour")
    t.type(WHERE)
    t.wait(lambda _: "commands, failed, last hour" in t.lines()[1] and "false one" in t.text(), "everywhere")
    t.type(ESC)
    assert t.end() == 3
    t = screen("search", "--failed", env={"SHFS_SESSION": ""}, cwd="/")
    t.expect("filtered", "false one")
    t.type(WHERE * 2)
    t.expect("this directory, filtered")  # neither a session nor a project is there
    t.type(ESC)
    assert t.end() == 3


def test_marks(screen, work):
    out = f"{work.home}/out"
    t = Screen(work, "sh", "-c", f"{PROGRAM} search -i -c --session {work.session} > {out}", rows=30, columns=150)
    t.wait(lambda _: len(texts(t)) > 3, "the list")
    everything = texts(t)
    t.type(TAB + DOWN + TAB)
    t.expect("2 marked")
    assert [mark for _, mark, _ in rows(t)][:4] == [True, False, True, False] and rows(t)[3][0]
    t.type(SHIFT_TAB + UP)
    t.expect("3 marked")
    t.type(TAB)  # the second one, no: what is chosen now
    t.type("zzz")
    t.expect("  0/", "marked")
    t.type("\x15")
    t.wait(lambda _: len(texts(t)) == len(everything), "all again")
    wanted = {text for _, mark, text in rows(t) if mark}
    assert len(wanted) in (2, 4)
    t.type(ENTER)
    assert t.end() == 0 and set(open(out).read().splitlines()) == wanted


def test_marks_in_a_line_of_the_shell(work):
    out = f"{work.home}/out"
    for first, wanted in (("'numbers.txt", "wc -l numbers.txt sub/table.csv\n"), ("'seq\\ 20", "seq 20 > numbers.txt sub/table.csv\n")):
        env = {"SHFS_LINE": "wc -l x"}
        t = Screen(work, "sh", "-c", f"{PROGRAM} search --shell bash --since '1 hour ago' > {out}", env=env, rows=30, columns=150)
        t.expect("> wc -l x")
        if "seq" not in first:
            t.type(KIND)
            t.expect("files, filtered")
        find(t, first)
        t.type(TAB)
        t.expect("1 marked")
        find(t, "^sub/table.csv")
        t.type(TAB)
        t.expect("2 marked")
        t.type(ENTER)
        assert t.end() == 0 and open(out).read() == wanted


def test_help(screen):
    t = screen("search")
    t.expect("far away")
    for key in "?", F1:
        t.type(key)
        t.expect("Tab mark", "^R where", "Alt-U undo")
        t.expect_not("far away")
        t.type("x")
        t.expect("far away")
    t.type("x?")
    t.expect("> x?")
    t.type(ESC)
    assert t.end() == 3


def test_mouse(screen):
    t = screen("search", "-c", "--since", "1 hour ago")
    t.wait(lambda _: len(texts(t)) > 5, "the list")
    assert b"\x1b[?1000h" in t.raw

    def mouse(button, row, column=10):
        t.type(f"\x1b[M{chr(32 + button)}{chr(33 + column)}{chr(33 + row)}")

    mouse(0, 2 + 4)
    t.wait(lambda _: rows(t)[4][0], "the clicked line")
    mouse(64, 5)
    t.wait(lambda _: rows(t)[3][0], "the line before")
    mouse(65, 5)
    mouse(65, 5)
    t.wait(lambda _: rows(t)[5][0], "the line behind")
    mouse(0, 0)
    mouse(0, 28)
    mouse(65, 20, 140)
    assert rows(t)[5][0]
    t.type(ESC)
    assert t.end() == 3 and t.raw.rfind(b"\x1b[?1000l") > t.raw.rfind(b"\x1b[?1000h")


# --- actions ---


def find(t, query):
    t.type("\x15" + query)
    t.expect(f"> {query}")
    t.wait(lambda _: "  1/" in t.lines()[1], f"one match of {query}")


def test_actions(screen, work):
    t = screen("search", "--since", "1 hour ago", "-c")
    find(t, "'sed")
    t.type("\x1by")
    t.expect("copied")
    assert b"\x1b]52;c;" + base64.b64encode(b"sed -i s/^5$/five/ numbers.txt") + b"\x07" in t.raw
    t.type("\x1bs")
    t.expect("sed -i", "numbers.txt@2", BACK)
    t.type("x")
    t.expect("> 'sed")
    t.type("\x1bc")
    t.expect("-5", "+five", BACK)
    t.type("x")
    t.expect("> 'sed")
    t.type("\x1bu")
    t.expect("[y/N]", "numbers.txt")
    t.type("n\r")
    t.expect(BACK)
    assert work.read("numbers.txt").count(b"five") == 1
    t.type("x")
    find(t, "'sed")
    t.type("\x1bu")
    t.expect("[y/N]")
    t.type("y\r")
    t.expect(BACK)
    assert work.read("numbers.txt").count(b"five") == 0
    t.type("x")
    find(t, "'sed")
    t.type("\x1br")
    t.expect("numbers.txt", "Restore this? [y/N]")
    t.type("n")
    t.expect(BACK)
    assert work.read("numbers.txt").count(b"five") == 0
    t.type("x")
    find(t, "'sed")
    t.type("\x1br")
    t.expect("Restore this? [y/N]")
    t.type("y")
    t.expect(BACK)
    assert work.read("numbers.txt").count(b"five") == 1
    t.type("x")
    find(t, "'sed")
    t.type(ESC)
    assert t.end() == 3 and t.is_restored()


def test_actions_on_files(screen, work):
    work.run("rm", "sub/table.csv")
    work.shfs("sync")
    t = screen("search", "-f", "--since", "1 hour ago")
    find(t, "^numbers.txt")
    t.type("\x1bc")
    t.expect("+five", BACK)
    t.type("x")
    t.expect("> ^numbers.txt")
    t.type("\x1bs")
    t.expect("numbers.txt@1", "numbers.txt@2", BACK)
    t.type("x")
    t.expect("> ^numbers.txt")
    t.type("\x1bu")
    t.expect("[y/N]")
    t.type("y\r")
    t.expect(BACK)
    assert work.read("numbers.txt").count(b"five") == 0
    t.type("x")
    find(t, "^sub/table")
    t.type("\x1br")
    t.expect("Restore this? [y/N]")
    t.type("y")
    t.expect(BACK)
    assert work.read("sub/table.csv") == b"a,b\n"
    t.type("x")
    t.expect("files, filtered")
    t.type(ESC)
    assert t.end() == 3


def test_forget_all_that_is_marked(screen, work):
    t = screen("search", "-c", "--since", "1 hour ago")
    find(t, "'false\\ one")
    t.type(TAB)
    find(t, "'false\\ two")
    t.type(TAB)
    t.expect("2 marked")
    t.type("\x18")
    t.expect("Forget this? It cannot be brought back.", "2 commands")
    t.type("y\r")
    t.expect("forgotten: 2 commands", BACK)
    t.type("x\x15false")
    t.expect("> false", "  0/")
    t.type(ESC)
    assert t.end() == 3
    assert "false" not in work.shfs("history", "--all", "--since", "1 hour ago").stdout


def test_a_file_with_the_name_of_a_version(screen, work, shell):
    """run@2 is the second version of run, and a file of its own."""
    bash = shell("bash")
    for line in "echo one > run", "echo two > run", "echo other > run@2", "rm run run@2":
        bash.run(line)
    work.shfs("sync")
    t = screen("search", "-f", "--since", "1 hour ago")
    t.type("^run$")
    t.wait(lambda _: texts(t) == ["run@2"], "the file alone")
    t.type("\x1bc")
    t.expect("-one", "+two", BACK)
    t.type("x")
    t.expect("> ^run$")
    t.type("\x1br")
    t.expect("Restore this? [y/N]")
    t.type("y")
    t.expect(BACK)
    assert work.read("run") == b"two\n"
    assert not os.path.exists(f"{work.project}/run@2")
    t.type("x")
    t.expect("> ^run$")
    t.type(ESC)
    assert t.end() == 3


@pytest.mark.parametrize("key", ["\x1bs", "\x1bc", "\x1br", "\x1bu", "\x18", "\x1by", ENTER])
def test_history_that_changes_elsewhere(screen, work, key):
    """After a forget no id on the screen is valid: nothing is done with what it means now."""
    t = screen("search", "-c", "--since", "1 hour ago")
    find(t, "'false\\ two")
    t.type(TAB)
    work.shfs("forget", "--yes", "--grep", "false one")
    t.type(key)
    t.expect("the history has changed: choose again", "  1/")
    assert "marked" not in t.lines()[1]
    find(t, "'false\\ two")
    t.type("\x1bs")
    t.expect("false two", BACK)
    t.type("x")
    find(t, "'false\\ two")
    t.type(ESC)
    assert t.end() == 3


def test_undo_of_what_no_command_made(screen, work):
    """The last version is meant, not the last one that a command made."""
    work.write("numbers.txt", b"by hand\n")
    work.shfs("sync")
    t = screen("search", "-f", "--since", "1 hour ago")
    find(t, "^numbers.txt")
    t.type("\x1bu")
    t.expect("no command made the last version of 1 file", BACK)
    assert work.read("numbers.txt") == b"by hand\n"
    t.type("x")
    t.expect("> ^numbers.txt")
    t.type(ESC)
    assert t.end() == 3


# --- a walk ---

NAMES = {
    "this host": ("--here",), "succeeded": ("--status", "ok"), "failed": ("--status", "fail"),
    "last hour": ("--since", "1 hour ago"), "today": ("--since", "today"),
    "last 7 days": ("--since", "7 days ago"), "last 30 days": ("--since", "30 days ago"),
}  # fmt: skip
KEYS = [
    DOWN, UP, TAB, SHIFT_TAB, WHERE, END, TIME, KIND, F1, "?", "\x1b[5~", "\x1b[6~", "\x1b[1;2B", "\x1b[1;2A", "\x0c", "\x1f",
    "\x15", "\x17", "\x19", "\x7f", "\x01", "\x05", "\x02", "\x06", "s", "e", "o", " ", "!", "'", "$", ".", "|", "é", "\\", "^",
    "\x1bb", "\x1bf", "\x1bd", "\x1bq", "\x1by", "\x1bOQ", "\x00", "\x1c", "\x1d",
]  # fmt: skip
ACTIONS = ["\x1bs", "\x1bc", "\x1br", "\x1bu", "\x18"]


def is_excluded(row, commands, files):
    """Is this line of the screen none of these?"""
    name = re.sub(r"@\d*$", "", row)
    if name.endswith(".swp"):
        return False  # a temporary file: history only counts these
    for text in [c.replace("\n", "\\n") for c in commands] + sorted(files):
        if row == text or name == text or (len(row) > 30 and text.startswith(row)):
            return False
        if row.startswith("…") and (row[1:] in text or name[1:] in text):
            return False
    return True


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", seeds(2, 40))
def test_walk(work, seed):
    """Random keys: it never ends by itself, it lists what history lists, and the terminal is as it was."""
    chance = random.Random(seed)
    given = chance.choice([(), ("--until", "1 hour ago"), ("--since", "100 days ago", "--failed"), ("--wrote", ".")])
    words = " ".join(f"'{word}'" for word in given)
    t = Screen(
        work, "sh", "-c", f'a=$(stty -g); {PROGRAM} search {words}; echo "end $?"; [ "$a" = "$(stty -g)" ] && echo "as before"',
        env={"SHFS_PAGER": "cat"}, rows=30, columns=150,
    )  # fmt: skip
    known = {}

    def settle(number):
        """Until the keys before were taken, and all is loaded; with no query."""
        t.type("\x0c")  # it also closes the help
        t.type(f"\x05\x15#{number}#")
        t.wait(lambda _: t.lines()[0] == f"> #{number}#", f"seed {seed}: the line, step {number}")
        t.type("\x15")
        t.wait(lambda _: t.lines()[0] == ">" and "…" not in t.lines()[1], f"seed {seed}: the list, step {number}")

    def check():
        status = re.sub(r"^ +\d+/\d+ +", "", t.lines()[1]).split("  ")[0].split(", ")
        conditions = list(given)
        for name in status:
            conditions += NAMES.get(name, ())
            conditions += ["--session", work.session] if name == "this session" else ()
            conditions += ["--cwd", work.project] if name in ("this project", "this directory") else ()
        key = tuple(conditions)
        if key not in known:
            commands, files = of_history(work, *conditions)
            known[key] = commands, {re.sub(f"^{work.project}/", "", path).replace(f"{work.home}/", "~/") for path in files}
        for row in texts(t):
            assert not is_excluded(row, *known[key]), f"seed {seed}: {row} under {conditions}\n{t.text()}"

    settle(0)
    for step in range(1, 25):
        if chance.random() < 0.2:
            t.resize(chance.choice([5, 14, 30, 50]), chance.choice([60, 99, 150]))
        for _ in range(chance.randrange(12)):
            if chance.random() < 0.2:
                t.type(f"\x1b[M{chr(32 + chance.choice([0, 3, 64, 65]))}{chr(33 + chance.randrange(150))}{chr(33 + chance.randrange(50))}")
            else:
                t.type(chance.choice(KEYS))
        t.resize(30, 150)
        settle(step)
        check()
        if chance.random() < 0.3 and any(row[0] for row in rows(t)):
            t.type(chance.choice(ACTIONS))
            t.wait(lambda shown: "[y/N]" in shown or BACK in shown, f"seed {seed}: an action, step {step}")
            t.type("n" if "Restore this?" in t.text() else "n\r" if "[y/N]" in t.text() else "")
            t.wait(lambda shown: BACK in shown, f"seed {seed}: the end of an action, step {step}")
            t.type("x")
    settle("last")
    t.type(ESC)
    t.expect("end 3", "as before")
    assert t.end() == 0 and t.is_restored()
