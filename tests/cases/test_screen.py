# SPDX-License-Identifier: MIT
"""search and log -i, on a terminal that knows what it shows; keys that call search."""

import json
import os
import re
import signal
import subprocess
import time

import pytest

import harness
from screens import PROGRAM, Screen

UP, DOWN, SHIFT_DOWN, PAGE_DOWN = "\x1bOA", "\x1bOB", "\x1b[1;2B", "\x1b[6~"
ESC, ENTER = "\x1b", "\r"
HOSTILE = "a\x1b[2J\nb\u202e.txt"

pytestmark = pytest.mark.users("ordinary")


@pytest.fixture
def study(sandbox, mounted, shell):
    bash = shell()
    for line in (
        "seq 20 > numbers.txt",
        "sed -i 's/^5$/five/' numbers.txt",
        "mkdir data; echo a,b > data/table.csv",
        "false # Übung über alles",
        "cat numbers.txt data/table.csv > all.txt",
        "for i in 1 2; do\necho line $i\ndone > loop.txt",
    ):
        bash.run(line)
    sandbox.shfs("sync")
    return sandbox


@pytest.fixture
def screen(study):
    def start(*args, **options):
        return Screen(study, PROGRAM, *args, **options)

    return start


def listed(terminal):
    """The lines of the list: the chosen one begins with ">"."""
    lines = terminal.lines()[2:]
    return [line[7:].split("│")[0].rstrip() for line in lines if re.match(r"[> ]  *\d+[ywdhms]  ", line)]


def chosen(terminal):
    found = [line for line in terminal.lines()[2:] if line.startswith(">")]
    return found[0][7:].split("│")[0].rstrip() if found else None


# --- the list for programs ---


def test_list(study, shfs):
    lines = shfs("search", "numbers").stdout.splitlines()
    assert re.fullmatch(r"[0-9a-f]{7,}  [-0-9]{10} [0-9:]{8}  cat numbers.txt data/table.csv > all.txt", lines[0])
    assert lines[1].endswith("  numbers.txt@2") and lines[1].startswith("-------  20")
    assert lines[2].endswith("/' numbers.txt") and lines[3].endswith("seq 20 > numbers.txt"), "the newest first"
    only = shfs("search", "--commands", "numbers").stdout
    assert "@2" not in only and "seq 20" in only
    assert [line.split()[-1] for line in shfs("search", "--files", "csv").stdout.splitlines()] == ["data/table.csv@1"]
    assert len(shfs("search", "-n", "2", "").stdout.splitlines()) == 2
    assert shfs("search", "nothing at all like this", check=3).stderr == "shfs: nothing matches\n"
    assert shfs("search", "--limit", "0", check=2) and shfs("search", "--shell", "sh", check=2)
    # to a pipe it is a list also where the input is a terminal
    assert "seq 20" in shfs("search", "seq").stdout


def test_terms(study, shfs):
    def found(query):
        done = shfs("search", "--list", "--", query, check=False)
        return [line[30:] for line in done.stdout.splitlines()]

    assert found("^seq") == ["seq 20 > numbers.txt"]
    assert found("'qe") == [] and found("sq2") == ["seq 20 > numbers.txt"]
    assert set(found(".csv$")) == {"data/table.csv@1", "mkdir data; echo a,b > data/table.csv"}
    assert found("numbers !txt") == [] and "seq 20 > numbers.txt" not in found("numbers !seq")
    assert set(found("^seq | ^sed")) == {"seq 20 > numbers.txt", "sed -i 's/^5$/five/' numbers.txt"}
    assert found("ÜBUNG") == [] and found("übung") == found("Übung") == ["false # Übung über alles"]
    assert found("'20\\ >") == ["seq 20 > numbers.txt"]


def test_json(study, shfs):
    found = json.loads(shfs("search", "--json", "numbers").stdout)
    assert (found["shfs"], found["version"], found["query"]) == ("search", 1, "numbers")
    second, first = found["found"][:2]
    assert first["kind"] == "file" and first["path"] == f"{study.project}/numbers.txt"
    assert (first["n"], first["present"]) == (2, True) and first["time"].endswith("Z")
    assert second["kind"] == "command" and second["text"].startswith("cat") and second["status"] == 0
    assert second["times"] == 1 and second["score"] == first["score"]
    assert json.loads(shfs("search", "--json", "nothing like this").stdout)["found"] == []


def test_repeated_and_hidden(study, shfs, shell):
    bash = shell()
    for line in "echo again", "echo again", " echo hidden", "echo again":
        bash.run(line)
    found = json.loads(shfs("search", "--json", "-c", "echo again").stdout)["found"]
    assert [(c["text"], c["times"]) for c in found if "again" in c["text"]] == [("echo again", 3)]
    assert "hidden" not in shfs("search", "-c", "").stdout


def test_empty_store(sandbox, mounted):
    for args in (), ("--interactive",):
        done = sandbox.shfs("search", *args, check=3)
        assert "hint: " in done.stderr and not done.stdout


def test_no_terminal(study, shfs):
    done = shfs("search", "-i", check=5)
    assert done.stderr.startswith("shfs: there is no terminal")
    assert shfs("log", "-i", "numbers.txt", check=5).stderr.startswith("shfs: there is no terminal")


# --- the screen ---


def test_search(screen):
    t = screen("search")
    t.expect("loop.txt", "seq 20 > numbers.txt", "numbers.txt@2", "commands and files")
    assert "for i in 1 2; do\\necho line $i" in t.text()
    t.type("seq")
    t.expect("> seq", "  1/")
    t.expect("wrote    numbers.txt@1")
    assert chosen(t) == "seq 20 > numbers.txt"
    t.type(ENTER)
    assert t.end() == 0 and t.is_restored()
    assert t.raw.rsplit(b"\x1b[?1049l", 1)[1].count(b"seq 20 > numbers.txt") == 1
    assert b"\x1b[?25h" in t.raw.rsplit(b"\x1b[?25l", 1)[-1] or b"\x1b[?25l" not in t.raw


def test_search_previews_a_file(screen):
    t = screen("search", "-f", rows=30, columns=120)
    t.type("numbers")
    t.expect("numbers.txt@2", "sed -i", "numbers.txt@1", "-5", "+five")
    assert "files" in t.lines()[1]
    t.type("\x1f")
    t.expect_not("+five")
    t.type(ENTER)
    assert t.end() == 0


def test_keys_of_search(screen):
    t = screen("search", "--commands")
    t.expect("seq 20", "  6/")
    everything = listed(t)
    assert chosen(t) == everything[0] and everything[0].startswith("for i")
    for keys, place in (DOWN, 1), ("\x0e", 2), ("\x0a", 3), (UP, 2), ("\x10", 1), ("\x0b", 0), (PAGE_DOWN, 5):
        t.type(keys)
        t.wait(lambda _, place=place: chosen(t) == everything[place], f"line {place}")
    t.type("seq x\x17")
    t.expect("> seq\n", "  1/")
    t.type("\x15")
    t.expect("  6/")
    t.type("\x19\x01'")
    t.expect("> 'seq")
    t.type("\x05\x7f\x08")
    t.expect_not("> 'seq")
    t.type("\x15über")
    t.expect("> über", "  1/")
    assert chosen(t) == "false # Übung über alles"
    t.type("\x1bOD\x7f")
    t.expect("> übr")
    t.type("\x05\x15\x14")
    t.expect("commands and files")
    t.type("\x14")
    t.expect("  files  F1")  # the newest of both kinds is a file, too
    t.wait(lambda _: listed(t)[:1] == ["loop.txt@1"], "all files")
    t.type("\x14")
    t.expect("  commands  F1")
    t.type(ESC)
    assert t.end() == 3 and t.is_restored()


def test_forget_from_the_screen(screen, shfs):
    """^X: what is chosen is shown and asked for, a command or a file, and then it is gone."""
    for query, answer, said in (("seq x", "n", "nothing is forgotten"), ("seq x", "y", "forgotten: 1 command"),
                                ("numbers.txt", "y", "forgotten: 0 commands")):
        t = screen("search", "-f" if "." in query else "-c")
        t.type(query.split()[0])
        t.expect("  1/")
        t.type("\x18")
        t.expect("Forget this? It cannot be brought back.")
        t.type(f"{answer}\r")
        t.expect(said, "any key: back")
        t.type("x")
        t.expect("  1/" if answer == "n" else "  0/")
        t.type(ESC)
        assert t.end() == 3
    assert "seq 20" not in shfs("history", "--all").stdout and shfs("log", "numbers.txt", check=3)


@pytest.mark.parametrize("key", [ESC, "\x03", "\x07", "\x11", "\x04"])
def test_leaving(screen, key):
    t = screen("search")
    t.expect("seq 20")
    t.type(key)
    assert t.end() == 3 and t.is_restored()
    # nothing is written, but for what ends the modes of the terminal
    assert not re.sub(rb"\x1b(\[[?0-9;]*[a-zA-Z]|>)|\x0f|\r", b"", t.raw.rsplit(b"\x1b[?1049l", 1)[1])


def test_enter_without_a_match(screen):
    t = screen("search", "nothing like this")
    t.expect("  0/")
    t.type(ENTER)
    assert t.end() == 3 and t.is_restored()


def test_a_failure_is_red_and_a_long_command_shows_what_matched(screen, study, shell):
    shell().run(": " + "long " * 50 + "needle in it")
    t = screen("search", "-c")
    t.expect("false #")
    row = next(i for i, line in enumerate(t.lines()) if "false #" in line)
    assert t.screen.buffer[row][4].fg == "red"
    t.type("needle")
    t.expect("…", "needle")
    row = next(i for i, line in enumerate(t.lines()) if line.startswith(">") and i)
    column = t.lines()[row].index("needle")
    assert t.screen.buffer[row][column].fg == "green" and t.screen.buffer[row][column - 2].fg != "green"
    t.type(ESC)
    t.end()
    t = screen("search", "-c", env={"NO_COLOR": "1"})
    t.expect("false #")
    assert {cell.fg for row in t.screen.buffer.values() for cell in row.values()} == {"default"}
    t.type(ESC)
    t.end()


def test_resize(screen):
    t = screen("search", "numbers")
    t.expect("numbers.txt@2", "───")
    t.resize(1, 1)
    for rows, columns in (40, 150), (10, 30), (3, 10), (2, 200), (24, 80):
        t.resize(rows, columns)
        t.wait(lambda _: t.lines()[0].startswith("> numbers"[:columns]), f"{rows} rows, {columns} columns")
    t.resize(40, 150)
    t.expect("│", "all.txt@1", "data/table.csv@1")
    t.type(ESC)
    assert t.end() == 3


def test_hostile_names(study, screen, shell):
    study.write(HOSTILE, "x")
    study.run("python3", "-c", "open(b'bad\\xff\\x9b31m.txt', 'w')")
    study.write("wide 漢字 e\u0301.txt", "\x1b]0;title\x07\x1b[31m\u202e\r\n\x9bred\n")
    study.write("wide 漢字 e\u0301.txt", "\x1b]0;title\x07\x1b[31mred\u202e\r\n\x9b\n漢字\n")
    study.run("touch", "--", "-rf", "$(touch pwned)")
    study.write("-rf", "x")
    t = screen("search", "-f", rows=30, columns=130)
    t.expect("a\\e[2J\\nb\\u{202e}.txt", "bad\\xff\\x9b31m.txt", "wide 漢字 é.txt")
    t.type("wide")
    t.expect("\\e]0;title\\a\\e[31m", "\\r", "\\u{9b}", "+漢字")
    assert b"\x1b]0;title" not in t.raw and "\u202e".encode() not in t.raw and b"\xc2\x9b" not in t.raw
    t.type(ENTER)
    assert t.end() == 0
    assert "\u202e".encode() not in t.raw
    # what is chosen is what it is called, exactly, where a program reads it
    out = Screen(study, "sh", "-c", f"{PROGRAM} search -i -f \"'2J\" > {study.home}/out")
    out.expect("  1/")
    out.type(ENTER)
    assert out.end() == 0
    assert open(study.home + "/out", encoding="utf-8").read() == HOSTILE + "\n"
    out = Screen(study, "sh", "-c", f"{PROGRAM} search -i -f -- '-rf' > {study.home}/out")
    out.expect("-rf@1")
    out.type("\x15^-rf")
    out.expect("> ^-rf", "  1/")
    out.type(ENTER)
    assert out.end() == 0 and open(study.home + "/out").read() == "./-rf\n"


def test_long_query(screen):
    t = screen("search", "x" * 200)
    t.expect("…xxx")
    # what puts it there comes last
    t.wait(lambda shown: (t.screen.cursor.y, t.screen.cursor.x) == (0, 79), "the cursor at the end of the query")
    t.type("y" * 900)
    t.expect("yyy")
    t.type(ESC)
    assert t.end() == 3


# --- the terminal comes back ---


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT])
def test_signals(screen, sig):
    t = screen("search")
    before = t.attributes()
    t.expect("seq 20")
    assert t.attributes() != before
    t.kill(sig)
    assert t.end() == -sig and t.is_restored()


def test_crash(study):
    """The terminal is as it was after a crash, too."""
    t = Screen(study, "sh", "-c", f"{PROGRAM} search; stty -a | grep -o -- '[-]*echo ' | head -1; echo over")
    t.expect("seq 20")
    pid = int(subprocess.run(["pgrep", "-P", str(t.pty.pid)], capture_output=True, check=True).stdout)
    os.kill(pid, signal.SIGSEGV)
    t.expect("over")
    assert t.is_restored() and "-echo" not in t.text()
    study.allow_exit(139)
    assert t.end() == 0
    for name in os.listdir(study.reports):
        os.unlink(os.path.join(study.reports, name))


def test_stop_and_continue(study, shell):
    t = Screen(study, "bash", "--norc", "-i", env={"PS1": "prompt> "})
    t.expect("prompt>")
    t.type("echo chosen: $(shfs search -i 'seq 20')\r")
    t.expect("  1/")
    t.type("\x1a" + ENTER)
    t.expect("chosen: seq 20 >")
    t.type("clear; shfs search\r")
    t.expect("loop.txt@1", "commands and files")
    t.type("\x1a")
    t.expect("Stopped")
    assert t.is_restored()
    t.type("echo back\r")
    t.expect("\nback")
    t.resize(30, 120)
    t.type("clear; fg\r")
    t.expect("loop.txt@1", "│")
    pid = int(subprocess.run(["pgrep", "-P", str(t.pty.pid), "-x", "shfs"], capture_output=True, check=True).stdout)
    os.kill(pid, signal.SIGTSTP)
    t.expect("Stopped")
    t.type("fg\r")
    t.wait(lambda shown: shown.startswith(">\n"), "the screen")
    os.kill(pid, signal.SIGSTOP)
    t.wait(lambda shown: "Stopped" in shown, "the shell")
    t.type("fg\r")
    t.wait(lambda shown: "Stopped" not in shown and shown.startswith(">\n"), "the screen, as a whole")
    t.type(ESC)
    t.expect("prompt>")
    t.type("exit\r")
    t.end()


@pytest.mark.parametrize("term", ["dumb", "", "nosuchterminal"])
def test_terminals_that_cannot(study, term):
    t = Screen(study, PROGRAM, "search", env={"TERM": term})
    assert t.end() == 5 and b"cannot show a screen" in t.raw


@pytest.mark.parametrize("term", ["vt100", "linux", "screen", "tmux-256color"])
def test_terminals_that_can(study, term):
    t = Screen(study, PROGRAM, "search", "numbers", env={"TERM": term})
    t.expect("numbers.txt@2")
    t.type("\x0e" + ENTER)
    assert t.end() == 0


def test_locale_is_utf8_in_any_case(study, screen):
    for locale in "C", "POSIX", "nonsense":
        t = screen("search", "-c", env={"LC_ALL": locale})
        t.expect("Übung über alles")
        t.type("über")
        t.expect("  1/")
        t.type(ESC)
        assert t.end() == 3


# --- log -i ---


def test_log(screen, study):
    t = screen("log", "-i", "numbers.txt", rows=30, columns=130)
    t.expect("numbers.txt@2: what it changed", "-5", "+five", "sed -i", "seq 20")
    t.type("j")
    t.expect("numbers.txt@1: what it changed", "+20")
    t.type("\t")
    t.expect("what has changed since", "+five", "-5")
    t.type("\t")
    t.expect("what it holds")
    t.wait(lambda shown: "+five" not in shown and "\n20" in re.sub(r".*│ ?", "", shown), "the content")
    t.type(SHIFT_DOWN * 3)
    t.type("k\t")
    t.expect("numbers.txt@2: what it changed", "+five")
    t.type(ENTER)
    assert t.end() == 0 and t.is_restored()
    assert b"numbers.txt@2" in t.raw.rsplit(b"\x1b[?1049l", 1)[1]
    t = screen("log", "-i", "numbers.txt@1")
    t.expect("numbers.txt@1: what it changed")
    t.type("G")
    t.resize(10, 40)
    t.wait(lambda shown: shown.startswith("numbers.txt@1: what it changed"), "the small screen")
    t.type("q")
    assert t.end() == 3


def test_log_of_many_versions(study):
    study.sh("i=0; while [ $i -lt 300 ]; do echo $i > many.txt; i=$((i + 1)); done; shfs sync")
    t = Screen(study, "sh", "-c", f"{PROGRAM} log -i many.txt > {study.home}/out")
    t.expect("@300 ")
    t.type("G")
    t.expect("@1 ", "+0")
    t.type("g" + 2 * PAGE_DOWN)
    t.wait(lambda shown: "@300 " not in shown, "the next page")
    t.type(ENTER)
    assert t.end() == 0
    assert re.fullmatch(r"many.txt@2\d\d\n", open(study.home + "/out").read())


def test_log_of_what_cannot_be_shown(study):
    study.sh("head -c 100000 /dev/urandom > noise.bin; head -c 100000 /dev/urandom > noise.bin; shfs sync")
    t = Screen(study, PROGRAM, "log", "-i", "noise.bin")
    t.expect("Binary files")
    t.type("\t\t")
    t.expect("not text")
    study.sh("rm noise.bin")
    t.type("\t\t")
    t.expect("it does not exist now")
    t.type("q")
    assert t.end() == 3


# --- a key of the shell ---

DUMP = {
    "bash": """dump() { printf '%s' "$READLINE_LINE" > "$HOME/line"; READLINE_LINE=; }
bind -x '"\\C-x\\C-d": dump'
""",
    "zsh": """dump() { print -rn -- "$BUFFER" > ~/line; BUFFER= }
zle -N dump; bindkey '^X^D' dump
""",
    "fish": """bind \\cx\\cd 'commandline | string collect -N > ~/line; commandline ""'
""",
}


class Keyed:
    """A shell with a key for search; ^X^D writes down what stands on its line."""

    def __init__(self, sandbox, kind, key="ctrl-x s"):
        init = f"shfs init {kind} --search-key '{key}'"
        init = f"{init} | source\n" if kind == "fish" else f'eval "$({init})"\n'
        name = harness.Shell.RC[kind][0]
        prompt = "function fish_prompt; echo -n 'ready> '; end\nset -g fish_greeting\n" if kind == "fish" else "PS1='ready> '\n"
        sandbox.write_outside(os.path.join(sandbox.home, name), prompt + init + DUMP[kind])
        self.path = os.path.join(sandbox.home, "line")
        self.t = Screen(sandbox, kind, "-i", rows=30, columns=100)
        self.t.expect("ready>")

    def line(self):
        self.t.type("\x18\x04")
        harness.wait_until(lambda: (self.t.read(), os.path.exists(self.path))[1], "the line")
        time.sleep(0.1)
        with open(self.path, encoding="utf-8") as file:
            found = file.read()
        os.unlink(self.path)
        return found.rstrip("\n")


@pytest.mark.parametrize("kind", ["bash", "zsh", "fish"])
def test_key(study, kind):
    study.write("it's \"$x\".txt", "x")
    k = Keyed(study, kind)
    k.t.type("seq")
    k.t.type("\x18s")
    k.t.expect("> seq", "  1/")
    k.t.type(ENTER)
    k.t.expect("ready> seq 20 > numbers.txt")
    assert k.line() == "seq 20 > numbers.txt"
    # nothing was run, nothing was recorded
    assert study.read("numbers.txt").count(b"five") == 1
    k.t.type("wc -l tab\x18s")
    k.t.expect("> wc -l tab", "  0/")
    k.t.type("\x14")
    k.t.expect("> tab", "  files  ")
    k.t.type(ENTER)
    k.t.expect("ready> wc -l data/table.csv")
    assert k.line() == "wc -l data/table.csv"
    k.t.type("cat x\x18s")
    k.t.expect("> cat x", "/")
    k.t.type("\x15")
    k.t.type("it's\\ ")
    k.t.expect("it's \"$x\".txt@1")
    k.t.type("\x14")
    k.t.expect("  files  F1")
    k.t.type(ENTER)
    k.t.expect("ready> cat ")
    assert k.line() == {"fish": "cat 'it\\'s \"$x\".txt'"}.get(kind, "cat 'it'\\''s \"$x\".txt'")
    k.t.type("kept\x18s")
    k.t.expect("> kept", "  0/")
    k.t.type("\x1a")  # nobody could go on with it
    k.t.type(ESC)
    k.t.expect("ready> kept")
    assert k.line() == "kept"
    k.t.type("\x18s")
    k.t.expect("commands and files")
    k.t.type("'do echo | 'line\\ $i")
    k.t.expect("  1/")
    k.t.type(ENTER)
    k.t.expect("done > loop.txt")
    assert k.line() == "for i in 1 2; do\necho line $i\ndone > loop.txt"
    k.t.type("exit\r")
    k.t.end()


def test_no_key_without_asking(study, shell):
    for kind in "bash", "zsh", "fish":
        assert "search" not in study.shfs("init", kind).stdout
    bash = shell("bash")
    assert "search" not in bash.run("bind -X") and "reverse-search-history" in bash.run("bind -p | grep C-r")


def test_bad_keys(study, shfs):
    for key in "", "x", "ctrl-", "ctrl-é", "ctrl-x ", "F1", "ctrl-rr", "ctrl-x $", "ctrl-x  \x1b":
        done = shfs("init", "bash", "--search-key", key, check=False)
        if key == "ctrl-x ":
            assert done.status == 0
        else:
            assert done.status == 2 and not done.stdout and "not a key" in done.stderr, key
    assert "$'\\022'" in shfs("init", "bash", "--search-key", "ctrl-r").stdout


# --- many ---


@pytest.mark.timeout(120)
def test_many(sandbox):
    """20,000 commands: all are loaded, and each key is answered."""
    generator = os.path.join(os.environ["SHFS_TEST_BUILD"], "bench/gen-journal")
    sandbox.run(generator, sandbox.store, "--commands", "20000", "--accesses", "40000", "--files", "5000", timeout=60)
    sandbox.shfs("history", "-n", "1", timeout=60)
    t = Screen(sandbox, PROGRAM, "search", rows=40, columns=140)
    t.wait(lambda shown: re.search(r"  (\d{5,})/\1  commands and files", shown), "all to be loaded")
    t.wait(lambda shown: "│" in shown and "2" in shown, "the preview")
    for i, char in enumerate("gcc main render"):
        t.type(char)
        wanted = "> " + "gcc main render"[: i + 1].rstrip()
        t.wait(lambda shown: shown.startswith(wanted), char)
    t.type(ESC)
    assert t.end() == 3


# --- what takes its time ---


@pytest.mark.users("ordinary")
def test_a_line_while_it_takes_its_time(sandbox, mounted, shfs, shell):
    """On a terminal, after a second, gone in the end; nowhere else."""
    sandbox.sh("echo 1 > f")
    shfs("export", "tar", "-o", f"{sandbox.home}/all.tar")
    mounted.unmount()
    sh = shell("bash", init=False)
    slow = f"(sleep 2.5; cat {sandbox.home}/all.tar) | shfs --store {sandbox.home}/other import -"
    sh.start(slow)
    sh.pty.expect_exact("reading the archive, 1 s\x1b[K")
    sh.pty.expect_exact("reading the archive, 2 s\x1b[K\r\x1b[K")
    sh.wait()
    assert "reading the archive" not in sandbox.sh(slow.replace("other", "third")).stderr
    assert "reading" not in sh.run("shfs reindex")


@pytest.mark.timeout(300)
def test_how_much_is_done(sandbox, shell):
    """Where the size is known, the line says how much of it is done: of a journal, of an archive."""
    generator = os.path.join(os.environ["SHFS_TEST_BUILD"], "bench/gen-journal")
    number = 5000
    while True:  # until it takes long enough for a line
        store = f"{sandbox.home}/made-{number}"
        sandbox.run(generator, store, "--commands", number, "--accesses", 3 * number, "--files", number // 2, timeout=120)
        begun = time.monotonic()
        sandbox.shfs("--store", store, "reindex", timeout=120)
        if time.monotonic() - begun > 3:
            break
        number *= 2
    sh = shell("bash", init=False)
    amount = r", \d+ s, [\d.]+ of [\d.]+ MiB"
    assert re.search("reading the journal" + amount, sh.run(f"shfs --store {store} reindex", timeout=120))
    sandbox.shfs("--store", store, "export", "tar", "-o", f"{sandbox.home}/all.tar", timeout=120)
    said = sh.run(f"shfs --store {sandbox.home}/other import {sandbox.home}/all.tar", timeout=120)
    assert "imported: " in said and "reading the archive" in said
