# SPDX-License-Identifier: MIT
"""The hooks of bash, zsh and fish: what is typed makes exactly the right records."""

import collections
import glob
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import time

import pytest

import harness
from test_mount_cli import pids_of

pytestmark = pytest.mark.either

KINDS = ["bash", "zsh", "fish"]
PLAIN = """eval "$(shfs init bash | sed 's/^_shfs_lib=.*/_shfs_lib=/')"\n"""

Session = collections.namedtuple("Session", "pid start boot_id pidns real boot host shell tty cwd")
Begin = collections.namedtuple("Begin", "number real boot lastpid hidden cwd text")
Finish = collections.namedtuple("Finish", "number real boot lastpid status")
Used = collections.namedtuple("Used", [*Finish._fields, "user", "system", "maxrss"])
ENDED = Finish, Used
Definition = collections.namedtuple("Definition", "kind kept name body")
Uses = collections.namedtuple("Uses", "number more list")
LAYOUT = {b"S1": Session, b"B1": Begin, b"B2": Begin, b"F1": Finish, b"F2": Used, b"D1": Definition, b"U1": Uses}


def parse(data):
    """Every byte of a log as records (store/journal/hooklog.h), with nothing between them."""
    found, seq = [], 0
    while data:
        assert data[:1] == b"\x1e", data[:80]
        tag, rest = data[1:].split(b"\0", 1)
        layout = LAYOUT[tag]
        n = len(layout._fields) + 2
        fields = rest.split(b"\0", n)
        assert fields[0] == fields[n - 1], fields
        assert int(fields[0]) > seq or layout is Session, "the sequence goes back"
        seq = int(fields[0])
        assert fields[n][:1] == b"\n"
        found.append(layout(*fields[1 : n - 1]))
        data = fields[n][1:]
    return found


def hook_dir(sandbox):
    return os.path.join(sandbox.store, "journal", socket.gethostname())


def log_paths(sandbox):
    return sorted(glob.glob(hook_dir(sandbox) + "/shell-*.log"))


def records(sandbox, path=None):
    if path is None:
        [path] = log_paths(sandbox)
    with open(path, "rb") as log:
        return parse(log.read())


def commands(found, number=0):
    """(text or None if hidden, status or None) of each command, checked against its records.
    number: of commands of the session before."""
    out, boot = [], 0.0
    assert isinstance(found[0], Session)
    for record in found:
        if isinstance(record, (Definition, Uses)):
            assert isinstance(record, Definition) or int(record.number) == number
            continue
        assert float(record.boot) >= boot, "the boot time goes back"
        boot = float(record.boot)
        # the time of fish comes from a clock of ten milliseconds, shifted by fifty
        assert abs(time.time() - float(record.real)) < 120
        if isinstance(record, Begin):
            number += 1
            assert int(record.number) == number and int(record.lastpid) > 0
            assert record.hidden in (b"0", b"1") and not (record.hidden == b"1" and record.text)
            out.append([None if record.hidden == b"1" else record.text, None])
        elif isinstance(record, ENDED):
            assert int(record.number) == number and out[-1][1] is None and int(record.lastpid) > 0
            out[-1][1] = int(record.status)
        else:
            assert not out
    return [tuple(c) for c in out]


def octets(text):
    return text.encode("utf-8", "surrogateescape")


def shell_of(kind):
    return kind.split()[-1]


def plain(name):
    return PLAIN.replace("bash", name)


def start(shell, kind, **options):
    """A shell; "plain bash" and "plain zsh" are those that cannot load what is compiled."""
    if kind.startswith("plain "):
        return shell(shell_of(kind), init=False, after=plain(shell_of(kind)), **options)
    return shell(kind, **options)


# --- every kind of line ---

LONG = ": " + "0123456789" * 1000
# name, what is typed ("\r" is Enter, "\x16" quotes the next key), the commands it makes
COMMON = [
    ("simple", "true\r", [("true", 0)]),
    ("status", "false\r", [("false", 1)]),
    ("again", "false\r", [("false", 1)]),
    ("status of a program", "sh -c 'exit 7'\r", [("sh -c 'exit 7'", 7)]),
    ("killed", "sh -c 'kill -9 $$'\r", [("sh -c 'kill -9 $$'", 137)]),
    ("pipeline", "true | false | cat\r", [("true | false | cat", 0)]),
    ("list", "true; false\r", [("true; false", 1)]),
    ("not found", "shfs-no-such-command 2>/dev/null\r", [("shfs-no-such-command 2>/dev/null", 127)]),
    ("or", "false || true\r", [("false || true", 0)]),
    ("background", "sleep 0.01 &\r", [("sleep 0.01 &", 0)]),
    ("redirection", "echo a >/dev/null\r", [("echo a >/dev/null", 0)]),
    ("quotes", "echo \"it's\" >/dev/null\r", [("echo \"it's\" >/dev/null", 0)]),
    ("lines in quotes", "echo 'a\rb' >/dev/null\r", [("echo 'a\nb' >/dev/null", 0)]),
    ("continued line", "echo a \\\rb >/dev/null\r", [("echo a \\\nb >/dev/null", 0)]),
    ("comment behind", "true # why\r", [("true # why", 0)]),
    ("empty", "\r", []),
    ("blanks", "   \r", []),
    ("leading blank", " true secret\r", [(None, 0)]),
    ("time", "time true\r", [("time true", 0)]),
    ("10 kB", LONG + "\r", [(LONG, 0)]),
    ("UTF-8", "true ä€😀\r", [("true ä€😀", 0)]),
    ("directory", "cd .\r", [("cd .", 0)]),
]
POSIX = [
    ("subshell", "(exit 3)\r", [("(exit 3)", 3)]),
    ("group", "{ true; false; }\r", [("{ true; false; }", 1)]),
    ("subshell in the background", "(true) &\r", [("(true) &", 0)]),
    ("for", "for i in 1 2 3; do /bin/true; done\r", [("for i in 1 2 3; do /bin/true; done", 0)]),
    ("while", "while false; do :; done\r", [("while false; do :; done", 0)]),
    ("if", "if true; then false; fi\r", [("if true; then false; fi", 1)]),
    ("case", "case a in a) false ;; esac\r", [("case a in a) false ;; esac", 1)]),
    ("definition", "f() { return 5; }\r", [("f() { return 5; }", 0)]),
    ("function", "f\r", [("f", 5)]),
    ("for of lines", "for i in 1 2\rdo :\rdone\r", [("for i in 1 2\ndo :\ndone", 0)]),
    ("definition of lines", "g() {\r:\r}\r", [("g() {\n:\n}", 0)]),
    ("here-document", "cat >/dev/null <<E\ra  $HOME\r\r b\rE\r", [("cat >/dev/null <<E\na  $HOME\n\n b\nE", 0)]),
    ("arithmetic", "((0))\r", [("((0))", 1)]),
    ("test", "[[ a == b ]]\r", [("[[ a == b ]]", 1)]),
    ("assignment", "x=1\r", [("x=1", 0)]),
    ("substitution", "y=$(false)\r", [("y=$(false)", 1)]),
    ("and one that leaves 0", "y=$(true)\r", [("y=$(true)", 0)]),  # zsh has it as the status of a later exec
    ("process substitution", "cat <(true)\r", [("cat <(true)", 0)]),
    ("alias", "alias aa='sh -c \"exit 4\"'\r", [("alias aa='sh -c \"exit 4\"'", 0)]),
    ("aliased", "aa\r", [("aa", 4)]),
    ("syntax error", "echo )\r", []),
    ("exec", "exec 7>&1 >&7\r", [("exec 7>&1 >&7", 0)]),
    ("exec back", "exec 7>&-\r", [("exec 7>&-", 0)]),
    ("eval", "eval 'true; false'\r", [("eval 'true; false'", 1)]),
    ("escape", ": '\x16\x1b[31m'\r", [(": '\x1b[31m'", 0)]),
    ("record separator", ": \x16\x1eB1\r", [(": \x1eB1", 0)]),
    ("interrupted while typing", "echo never\x03", []),
    ("leading tab", "\x16\ttrue secret\r", [(None, 0)]),
    ("hidden lines", " for i in 1\rdo :; done\r", [(None, 0)]),
    ("time of a group", "time { true; false; }\r", [("time { true; false; }", 1)]),
    ("interrupted in the second line", "echo '\x03", []),
]
BASH = [
    ("no such history", "!no-such-line\rtrue\r", [("true", 0)]),
    ("coproc", "coproc true\r", [("coproc true", 0)]),
    ("comment", "# why\r", []),
    ("here-document with backslashes", "cat >/dev/null <<E\r\\$x \\\\ \\\ry\rE\r",
     [("cat >/dev/null <<E\n\\$x \\\\ \\\ny\nE", 0)]),
    ("here-string", "cat <<<a >/dev/null\r", [("cat <<<a >/dev/null", 0)]),
    ("not UTF-8", ": '\udcff\udcfe'\r", [(": '\udcff\udcfe'", 0)]),
    ("pasted lines", "\x1b[200~false\ntrue\n\x1b[201~\r", [("false", 1), ("true", 0)]),
    ("pasted loop", "\x1b[200~for i in 1\ndo false\ndone\x1b[201~\r", [("for i in 1\ndo false\ndone", 1)]),
]
HISTORY = [
    ("before", "sh -c 'exit 9'\r", [("sh -c 'exit 9'", 9)]),
    ("the last again", "!!\r", [("sh -c 'exit 9'", 9)]),
    ("more than the last", "!! || false\r", [("sh -c 'exit 9' || false", 1)]),
    ("a word of the last", "true !$\r", [("true false", 0)]),
    ("a sign that is none", "echo 'a!' >/dev/null\r", [("echo 'a!' >/dev/null", 0)]),
]
ZSH = [
    ("no such history", "!no-such-line\r", []),
]
FISH = [
    ("interrupted while typing", ("echo never\x03", "true\r"), [("true", 0)]),
    ("comment", "# why\r", []),
    ("for", "for i in 1 2 3; /bin/true; end\r", [("for i in 1 2 3; /bin/true; end", 0)]),
    ("for of lines", "for i in 1 2\rtrue\rend\r", [("for i in 1 2\ntrue\nend", 0)]),
    ("definition", "function f; return 5; end\r", [("function f; return 5; end", 0)]),
    ("function", "f\r", [("f", 5)]),
    ("substitution", "set y (false)\r", [("set y (false)", 1)]),
    ("group", "begin; true; false; end\r", [("begin; true; false; end", 1)]),
]


def check_kinds(sh, sandbox, kinds):
    """Types them all in one shell; names those that made other records."""
    wrong, done = [], 0
    for name, typed, expected in kinds:
        for part in typed if isinstance(typed, tuple) else [typed]:
            sh.interrupt(part[:-1]) if part.endswith("\x03") else sh.send(part)
            if part != typed and part.endswith("\x03"):
                # fish loses a signal that comes while it draws, and throws away what comes with ^C
                while sh.pty.expect_exact([sh.PROMPT, harness.pexpect.TIMEOUT], timeout=3):
                    sh.send("\x03")
                time.sleep(0.3)
        sh.wait()
        found = commands(records(sandbox))
        made, done = found[done:], len(found)
        expected = [(text if text is None else octets(text), status) for text, status in expected]
        if made != expected:
            wrong.append((name, made, expected))
    assert not wrong, "\n".join(f"{n}: {m!r}, not {e!r}" for n, m, e in wrong)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("kind", [*KINDS, "plain zsh"])
def test_every_kind_of_line(sandbox, shell, kind):
    table = {"bash": POSIX + BASH + HISTORY, "zsh": POSIX + ZSH + HISTORY, "fish": FISH}[shell_of(kind)]
    check_kinds(start(shell, kind), sandbox, COMMON + table)


@pytest.mark.timeout(120)
@pytest.mark.users("ordinary")
@pytest.mark.parametrize(
    "before",
    [
        "HISTCONTROL=ignoreboth",
        "HISTCONTROL=ignoredups:erasedups",
        "HISTCONTROL=ignorespace:erasedups; shopt -s histverify; shopt -u histverify",
        "unset HISTSIZE HISTFILE HISTFILESIZE",
        "HISTFILE=/nonexistent/x",
        "HISTTIMEFORMAT='%F %T '; shopt -s lithist",
        "shopt -u cmdhist",
        "HISTSIZE=1",
        "set -u",
    ],
)
def test_bash_whatever_the_history(sandbox, shell, before):
    check_kinds(shell("bash", before=before + "\n"), sandbox, COMMON + POSIX + BASH + HISTORY)


@pytest.mark.timeout(120)
@pytest.mark.users("ordinary")
@pytest.mark.parametrize("before", ["HISTSIZE=0", "set +o history", "set +H", "set -o posix"])
def test_bash_without_history(sandbox, shell, before):
    table = [row for row in COMMON + POSIX + BASH if row[0] not in ("no such history", "process substitution")]
    check_kinds(shell("bash", before=before + "\n"), sandbox, table)


@pytest.mark.timeout(120)
@pytest.mark.users("ordinary")
@pytest.mark.parametrize("kind", ["zsh", "plain zsh"])
@pytest.mark.parametrize(
    "before",
    [
        "HISTSIZE=1; unset HISTFILE",
        "setopt hist_ignore_space hist_ignore_all_dups hist_no_store",
        "setopt no_unset ksh_arrays sh_word_split ksh_glob no_bang_hist",
        "setopt interactive_comments warn_create_global extended_history share_history",
    ],
)
def test_zsh_whatever_the_options(sandbox, shell, kind, before):
    table = COMMON + POSIX + ([] if "no_bang_hist" in before else ZSH + HISTORY)
    check_kinds(start(shell, kind, before=before + "\n"), sandbox, table)


@pytest.mark.users("ordinary")
def test_bash_without_line_editing(sandbox, shell):
    sh = shell("bash")
    sh.run("bash --noediting -i")
    [path] = [p for p in log_paths(sandbox) if f"-{sh.pid}-" not in p]
    for line in "false", "for i in 1 2\ndo true\ndone", " true", "", "sh -c 'exit 3'", "!!":
        sh.run(line)
    loop = b"for i in 1 2\ndo true\ndone"
    assert commands(records(sandbox, path)) == [
        (b"false", 1), (loop, 0), (None, 0), (b"sh -c 'exit 3'", 3), (b"sh -c 'exit 3'", 3)
    ]
    sh.run("exit")


@pytest.mark.users("ordinary")
def test_bash_changes_its_editor(sandbox, shell):
    sh = shell("bash")
    lines = ["set +o emacs", "false", "for i in 1\ndo false\ndone", "set -o vi", "false", "true; false"]
    for line in lines:
        sh.run(line)
    assert [text for text, _ in commands(records(sandbox))] == [octets(line) for line in lines]


@pytest.mark.parametrize("kind", [*KINDS, "plain zsh"])
def test_interrupted_and_stopped(sandbox, shell, kind):
    sh = start(shell, kind)
    for key in "\x03", "\x1a":
        sh.send("sleep 60\r")
        sh.wait_for_job("sleep")
        sh.send(key)
        sh.wait()
    sh.run("true")
    sh.run("kill -9 (jobs -lp)" if kind == "fish" else "kill -9 %1")
    found = commands(records(sandbox))
    stopped = {"bash": 148, "zsh": 148}.get(shell_of(kind), found[1][1])
    assert found[:3] == [(b"sleep 60", 130), (b"sleep 60", stopped), (b"true", 0)]
    assert len(found) == 4 and found[3][1] == 0


# --- what the records say ---


@pytest.mark.parametrize("kind", [*KINDS, "plain zsh"])
@pytest.mark.both
def test_session(sandbox, shell, kind):
    os.symlink(sandbox.project, os.path.join(sandbox.home, "link"))
    sh = start(shell, kind, before="umask 0\n")
    sh.run(f"cd {sandbox.home}/link")
    before = time.time()
    sh.run("true")
    after = time.time()
    [path] = log_paths(sandbox)
    session, *rest = records(sandbox)
    with open(f"/proc/{sh.pid}/stat", encoding="ascii") as text:
        since = text.read().rpartition(")")[2].split()[19]
    boot_id = open("/proc/sys/kernel/random/boot_id", encoding="ascii").read().strip()
    assert int(session.pid) == sh.pid and session.start.decode() == since
    assert session.boot_id.decode() == boot_id and session.host.decode() == socket.gethostname()
    assert int(session.pidns) == os.stat("/proc/self/ns/pid").st_ino
    assert session.shell.decode() == shell_of(kind)
    # not at once: a zsh on a busy machine had /dev/null there, once, for a moment
    harness.wait_until(lambda: os.readlink(f"/proc/{sh.pid}/fd/0") == session.tty.decode(), "the terminal to be its input")
    assert session.cwd.decode() == sandbox.project
    assert os.path.basename(path) == f"shell-{boot_id[:8]}-{sh.pid}-{since}.log"
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(hook_dir(sandbox)).st_mode) == 0o700
    assert os.stat(path).st_uid == sandbox.user.uid
    begin, finish = rest[-2:]
    assert begin.cwd.decode() == sandbox.project, "the directory itself, whatever leads to it"
    slack = 0.2 if kind == "fish" else 0.001
    assert before - slack <= float(begin.real) <= float(finish.real) <= after + slack
    decimals = {len(r.boot.partition(b".")[2]) for r in (session, begin, finish)}
    assert decimals == ({9} if kind in ("bash", "zsh") else {2})


@pytest.mark.users("ordinary")
def test_zsh_runs_no_regex_itself(sandbox, shell):
    """zsh/regex calls malloc with signals on: a job that ended meanwhile would corrupt zsh's memory."""
    sh = start(shell, "plain zsh")
    sh.run("echo --password=hunter2 >/dev/null")
    assert commands(records(sandbox)) == [(b"echo --password=[redacted] >/dev/null", 0)]
    assert "zsh/system" in sh.run("zmodload") and "zsh/regex" not in sh.run("zmodload")


@pytest.mark.parametrize("kind", [*KINDS, "plain zsh"])
def test_session_inside_a_session(sandbox, shell, kind):
    sh = start(shell, kind)
    own = log_paths(sandbox)
    sh.run(shell_of(kind))
    [inner] = [p for p in log_paths(sandbox) if p not in own]
    sh.run("false")
    sh.run("exit")
    sh.run("true")
    left = 1 if kind == "fish" else None  # which still has its event for it
    assert commands(records(sandbox, inner)) == [(b"false", 1), (b"exit", left)]
    assert commands(records(sandbox, own[0])) == [(octets(shell_of(kind)), 1), (b"true", 0)]


@pytest.mark.parametrize("kind", [*KINDS, "plain zsh"])
def test_shell_replaced_by_itself(sandbox, shell, kind):
    sh = start(shell, kind)
    sh.run("true")
    line = f"exec {shell_of(kind)}" + (" -i" if kind != "fish" else "")
    sh.run(line)
    sh.run("false")
    found = records(sandbox)
    second = [i for i, r in enumerate(found) if isinstance(r, Session)][1]
    assert commands(found[:second]) == [(b"true", 0), (octets(line), None)]
    assert commands(found[second:], number=2) == [(b"false", 1)]  # numbers go on
    assert found[0].pid == found[second].pid and found[0].start == found[second].start


@pytest.mark.parametrize("kind", [*KINDS, "plain zsh"])
def test_sourced_again(sandbox, shell, kind):
    name = shell_of(kind)
    again = plain(name) if kind != name else shell_init(kind)
    again = again.rstrip("\n")
    show = {
        "bash": 'echo "$PS0" "${PROMPT_COMMAND[@]}"',
        "zsh": "echo $precmd_functions $preexec_functions",
        "fish": "functions --handlers | sort",
    }
    sh = start(shell, kind)
    before = sh.run(show[name])
    assert sh.run(again) == ""
    assert sh.run(show[name]) == before
    if kind != "fish":
        assert sh.run(f"({again}; true); {name} -c 'true'") == ""  # a subshell, and no interactive shell
    sh.run("false")
    found = commands(records(sandbox))
    assert found[1] == (octets(again), 0) and found[-1] == (b"false", 1)


@pytest.mark.parametrize("kind", [*KINDS, "plain zsh"])
@pytest.mark.both
def test_log_taken_away(sandbox, shell, kind):
    sh = start(shell, kind)
    sh.run("true")
    os.unlink(log_paths(sandbox)[0])
    sh.run("true")
    sh.run("false")
    found = records(sandbox)
    assert isinstance(found[0], Session)
    assert [r.text for r in found if isinstance(r, Begin)][-1] == b"false"


@pytest.mark.parametrize("kind, steal", [
    ("bash", ["for n in {200..204}; do eval exec $n'>&-'; done", "for n in {200..204}; do eval exec $n'>MINE'; done"]),
    ("zsh", ["n=200; exec {n}>&-; exec {n}>MINE"]),
    ("plain zsh", ["n=$_shfs_fd; exec {n}>&-; exec {n}>MINE"]),
])
def test_log_closed_by_the_user(sandbox, shell, kind, steal):
    """The log is held open at a number that a user may take for a file of their own."""
    mine = os.path.join(sandbox.path, "tmp/mine")
    sh = start(shell, kind)
    sh.run("true")
    for line in *steal, ":", "false", "print -u $n user || echo user >&$n", ": last":
        sh.run(line.replace("MINE", mine))
    assert [r.text for r in records(sandbox) if isinstance(r, Begin)][-1] == b": last"
    with open(mine, encoding="ascii") as file:
        assert file.read() == "user\n", "still open, and nothing of ours in it"


@pytest.mark.parametrize("kind", ["bash", "zsh", "plain zsh"])
def test_log_moved_away(sandbox, shell, kind):
    """By a command of this shell: the next is in a log at the usual place."""
    sh = start(shell, kind)
    sh.run("true")
    path = log_paths(sandbox)[0]
    sh.run(f"mv {path} {sandbox.path}/tmp/moved")
    sh.run(": after")
    found = records(sandbox)
    assert isinstance(found[0], Session)
    assert [r.text for r in found if isinstance(r, Begin)][-1] == b": after"


@pytest.mark.parametrize("kind", KINDS)
def test_no_descriptor_leaks(sandbox, shell, kind):
    count = "ls /proc/self/fd"
    plain = shell(kind, init=False).run(count)
    sh = shell(kind)
    sh.run("true")
    assert sh.run(count) == plain


@pytest.mark.parametrize("kind", ["bash", "zsh", "plain zsh"])
def test_no_fork(sandbox, shell, kind):
    sh = start(shell, kind)
    sh.run(":")
    out = os.path.join(sandbox.path, "strace")
    calls = "trace=clone,clone3,fork,vfork,execve,write"
    with open(out + ".err", "wb") as err:
        strace = subprocess.Popen(["strace", "-f", "-e", calls, "-o", out, "-p", str(sh.pid)], stderr=err)
    try:
        harness.wait_until(lambda: "TracerPid:\t0\n" not in open(f"/proc/{sh.pid}/status").read(), "strace")
        for line in ":", " :", "false", ": a; : b", "":
            sh.run(line)
    finally:
        strace.terminate()
        strace.wait()
    lines = open(out, encoding="utf-8", errors="replace").read()
    assert not re.search(r"\b(clone3?|v?fork|execve)\(", lines), lines
    written = re.findall(r'write\(\d+, "\\36([BF])[12]\\0', lines)
    assert "".join(written) == "BF" * 4, "one write for each record"
    assert len(commands(records(sandbox))) == 5


# --- what the user has is kept ---


@pytest.mark.parametrize("kind", [*KINDS, "plain bash", "plain zsh"])
def test_status_is_kept(sandbox, shell, kind):
    sh = start(shell, kind)
    sh.run("sh -c 'exit 42'")
    assert sh.run("echo $status" if kind == "fish" else "echo $?") == "42"
    sh.run("sh -c 'exit 43'")
    sh.run("")
    assert sh.run("echo $status" if kind == "fish" else "echo $?") == "43"


@pytest.mark.users("ordinary")
@pytest.mark.parametrize("kind", ["bash", "plain bash"])
@pytest.mark.parametrize(
    "command",
    [
        r'PROMPT_COMMAND="seen=\"\$? \${PIPESTATUS[*]}\";$PROMPT_COMMAND"',
        r"""PROMPT_COMMAND=('seen="$? ${PIPESTATUS[*]}"' "$PROMPT_COMMAND")""",
        r"""PROMPT_COMMAND=([3]="$PROMPT_COMMAND" [5]='seen="$? ${PIPESTATUS[*]}"')""",
        r"""declare -x PROMPT_COMMAND="seen=\"\$? \${PIPESTATUS[*]}\";$PROMPT_COMMAND;" """,
    ],
)
def test_prompt_command_is_kept(sandbox, shell, command, kind):
    sh = start(shell, kind, before=command + "\n")
    sh.run("(exit 3) | (exit 4)")
    assert sh.run('echo "$seen"') == "4 3 4"
    sh.run("true | false | true")
    assert sh.run('echo "$seen"') == "0 0 1 0"
    assert commands(records(sandbox))[0] == (b"(exit 3) | (exit 4)", 4)


@pytest.mark.users("ordinary")
def test_prompt_command_changed_later(sandbox, shell):
    """What a rc does behind our line: another value, or something put before."""
    sh = shell("bash", after="PROMPT_COMMAND=\"printf '\\e]7777;ready\\a'\"\n")
    sh.run("false")
    sh.run('PROMPT_COMMAND="x=1; $PROMPT_COMMAND"')
    sh.run("false")
    assert commands(records(sandbox))[::2] == [(b"false", 1), (b"false", 1)]


@pytest.mark.users("ordinary")
@pytest.mark.parametrize("kind", ["bash", "plain bash"])
def test_ps0_is_kept(sandbox, shell, kind):
    sh = start(shell, kind, before="PS0+='zero '\n")
    assert sh.run("echo one") == "zero one"
    sh.run("PS0=${PS0/zero/null}")
    assert sh.run("echo one") == "null one"
    sh.run("PS0='\\e]7777;begin\\anew '")
    assert sh.run("echo one") == "new one", "a PS0 that was replaced is taken up again"
    assert commands(records(sandbox))[-1] == (b"echo one", 0)


# What bash-preexec and direnv do, as they do it.
PREEXEC = """
precmds() { local status=$?; precmd_status=$status; return $status; }
preexecs() { [[ $BASH_COMMAND == "$PROMPT_COMMAND" ]] || last_debug=$BASH_COMMAND; }
PROMPT_COMMAND="precmds${PROMPT_COMMAND:+;$PROMPT_COMMAND}"
trap 'preexecs "$_"' DEBUG
"""
DIRENV = """
_direnv_hook() { local previous=$?; trap -- '' SIGINT; trap - SIGINT; return $previous; }
PROMPT_COMMAND="_direnv_hook${PROMPT_COMMAND:+;$PROMPT_COMMAND}"
"""


@pytest.mark.users("ordinary")
@pytest.mark.parametrize("kind", ["bash", "plain bash"])
@pytest.mark.parametrize("other", [PREEXEC, DIRENV, PREEXEC + DIRENV], ids=["preexec", "direnv", "both"])
@pytest.mark.parametrize("place", ["before", "after"])
def test_beside_others(sandbox, shell, kind, other, place):
    init = PLAIN if kind == "plain bash" else shell_init("bash")
    lines = other + init if place == "before" else init + other
    sh = shell("bash", init=False, after=lines)
    for line in "true", "false", "(exit 7)", "echo a | cat >/dev/null", " true hidden", "sh -c 'exit 3'":
        sh.run(line)
    if "precmds" in other:
        assert sh.run("echo $precmd_status") == "3"
        sh.run(": one; : two")
        assert sh.run("trap -p DEBUG") == "trap -- 'preexecs \"$_\"' DEBUG"
    found = commands(records(sandbox))[:6]
    assert [status for _, status in found] == [0, 1, 7, 0, 0, 3]
    assert found[2][0] == b"(exit 7)" and (kind == "plain bash" or found[4][0] is None)


def shell_init(kind):
    return harness.Shell.INIT[kind]


@pytest.mark.users("ordinary")
@pytest.mark.parametrize("kind", ["bash", "zsh", "plain zsh"])
def test_vi_mode(sandbox, shell, kind):
    sh = start(shell, kind, before="set -o vi\n" if kind == "bash" else "bindkey -v\n")
    sh.send("tru fals\x1bbbAe\r")  # escape, two words back, append at the end
    sh.wait()
    sh.interrupt("echo never")
    sh.wait()
    sh.run("false")
    assert [text for text, _ in commands(records(sandbox))] == [b"tru false", b"false"]


@pytest.mark.users("ordinary")
@pytest.mark.parametrize("kind", ["bash", "plain bash"])
def test_100_kib(sandbox, shell, kind):
    sh = start(shell, kind, before="PS2='more> '; set +o emacs\n")
    lines = [": "] + [f"{n:04d}" + " abcdefghi" * 300 for n in range(40)]
    for line in lines:
        sh.send(line + "\\\r")
        sh.pty.expect_exact("more> ")
    sh.send("\r")
    sh.wait()
    sh.run("false")
    (text, status), last = commands(records(sandbox))
    assert last == (b"false", 1) and status == 0 and len(text) > 100 * 1024
    assert (text + b"\n").replace(b"\\\n", b"") == octets("".join(lines))


@pytest.mark.users("ordinary")
def test_debian_bashrc(sandbox, shell):
    with open("/etc/skel/.bashrc", encoding="utf-8") as skeleton:
        rc = skeleton.read()
    sh = shell("bash", before=rc, after="PS1='ready> '\n", env={"TERM": "xterm-256color"})
    table = [row for row in COMMON + POSIX if row[0] != "again"]
    check_kinds(sh, sandbox, table + HISTORY)


@pytest.mark.users("ordinary")
@pytest.mark.parametrize("kind", [*KINDS, "plain zsh"])
def test_strict_shells(sandbox, shell, kind):
    """set -e and set -u do not meet our code, and -x shows little of it."""
    sh = start(shell, kind)
    if kind != "fish":
        sh.run("set -eu")
        sh.run("! true")
        sh.run("false || true")
        assert sh.run("echo alive") == "alive"
        sh.run("set +eu; set -x")
        sh.send(": traced\r")
        sh.pty.expect_exact(sh.READY)
        traced = [line for line in sh.pty.before.splitlines() if "+" in line and "shfs" in line]
        sh.pty.expect_exact(sh.PROMPT)
        assert len(traced) <= 2, traced
    sh.run("alias read=false" + ("" if kind == "fish" else " builtin=false local=false"))
    sh.run("true last")
    assert commands(records(sandbox))[-1] == (b"true last", 0)


@pytest.mark.users("ordinary")
@pytest.mark.parametrize("kind", ["bash", "plain bash"])
def test_bash_that_cannot_be_armed(sandbox, shell, kind):
    sh = start(shell, kind, before="echo; shopt -u promptvars\n")
    assert sh.greeting.count("shfs: ") == 1 and "promptvars" in sh.greeting
    assert sh.run("echo one") == "one", "PS0 is not printed as it is"
    assert sh.run("shopt -s promptvars") == ""
    sh.run("true")
    assert commands(records(sandbox)) == [(b"true", 0)]
    sh.run("shopt -u promptvars")
    assert sh.run("echo one") == "one", "said once"
    sh.close()
    sh = start(shell, kind, before="echo; readonly PS0\n")
    assert sh.greeting.count("shfs: ") == 1 and "PS0 is read-only" in sh.greeting
    assert sh.run("echo one") == "one"
    sh.close()
    sh = start(shell, kind, before="echo; PS1='\\[\\e]7777;ready\\a\\]ready> '; readonly PROMPT_COMMAND=\n")
    sh.run("echo one")
    if kind == "bash":  # which knows it when the next line is read
        assert sh.greeting.count("shfs: ") == 0
        assert commands(records(sandbox, newest(sandbox))) == [(b"echo one", 0)]
    else:
        assert sh.greeting.count("shfs: ") == 1 and "PROMPT_COMMAND is read-only" in sh.greeting
        assert commands(records(sandbox, newest(sandbox))) == [(b"echo one", None)]


def newest(sandbox):
    return max(log_paths(sandbox), key=os.path.getmtime)


# --- without the loadable ---


@pytest.mark.timeout(120)
@pytest.mark.parametrize("before", ["unset HISTCONTROL", "HISTTIMEFORMAT='%F %T '; set -u"])
def test_bash_without_the_loadable(sandbox, shell, before):
    """The text is what the history has: lines of a command are joined."""
    sh = start(shell, "plain bash", before=before + "\n")
    lines = [row for row in COMMON + POSIX + HISTORY if "\r" not in row[1][:-1]]
    assert len(lines) > 40
    check_kinds(sh, sandbox, lines)
    assert sh.run("type -t _shfs_hook; type -t _shfs_begin") == "function"


@pytest.mark.users("ordinary")
@pytest.mark.parametrize("control", ["ignoreboth", "ignorespace", "ignorespace:erasedups"])
def test_bash_without_the_loadable_keeps_out_what_it_cannot_know(sandbox, shell, control):
    sh = start(shell, "plain bash", before=f"HISTCONTROL={control}\n")
    for line in "true a", "true b", " true secret", "false", "  false", "true a":
        sh.run(line)
    texts = [b"true a", b"true b", None, b"false", None, b"true a"]
    if "erasedups" in control:
        texts[-1] = commands(records(sandbox))[-1][0]
        assert texts[-1] in (b"true a", None)
    assert [text for text, _ in commands(records(sandbox))] == texts
    assert [status for _, status in commands(records(sandbox))] == [0, 0, 0, 1, 1, 0]


# --- trouble ---


@pytest.mark.parametrize("kind", [*KINDS, "plain bash", "plain zsh"])
def test_hook_directory_cannot_be_made(sandbox, shell, kind):
    sandbox.mkdir(sandbox.store, 0o700)
    sandbox.write_outside(os.path.join(sandbox.store, "journal"), "")
    sh = start(shell, kind, before="echo\n")
    assert len(re.findall("^shfs: ", sh.greeting, re.M)) == 1, sh.greeting
    assert sh.run("echo one") == "one"
    sh.run("sh -c 'exit 5'")
    assert sh.run("echo $status" if kind == "fish" else "echo $?") == "5"
    # and it works again as soon as it can
    os.unlink(os.path.join(sandbox.store, "journal"))
    sandbox.mkdir(os.path.join(sandbox.store, "journal"))
    sandbox.mkdir(hook_dir(sandbox))
    sh.run("true")
    assert sh.run("false") == ""
    assert commands_of_last(sandbox) == (b"false", 1)


def commands_of_last(sandbox):
    begin, finish = [r for r in records(sandbox) if not isinstance(r, Session)][-2:]
    assert begin.number == finish.number
    return begin.text, int(finish.status)


def screen(sh, line):
    """Everything up to the next prompt, whoever printed it and when."""
    sh.send(line + "\r")
    sh.pty.expect_exact(sh.PROMPT)
    sh.at_prompt = True
    return sh.pty.before


def test_no_room_for_the_log(sandbox, shell):
    """A limit on file sizes stands for a full disk: a record is cut off, the shell lives."""
    sh = shell("bash")
    sh.run("true")
    before = os.path.getsize(log_paths(sandbox)[0])
    said = screen(sh, "ulimit -S -f 1")
    said += "".join(screen(sh, ": " + "x" * 100) for _ in range(20))
    assert said.count("shfs: ") == said.count("File too large") == 1
    assert before < os.path.getsize(log_paths(sandbox)[0]) <= 1024
    assert sh.run("echo alive; ulimit -S -f unlimited") == "alive"
    sh.run("false")
    with open(log_paths(sandbox)[0], "rb") as log:
        tail = log.read()[1024:]
    assert commands_in_tail(tail)[-1] == (b"false", 1)


def commands_in_tail(data):
    begins = [r for r in parse(data[data.index(b"\x1eB1") :]) if isinstance(r, Begin)]
    finishes = {r.number: int(r.status) for r in parse(data[data.index(b"\x1eB1") :]) if isinstance(r, ENDED)}
    return [(b.text, finishes.get(b.number)) for b in begins]


@pytest.mark.parametrize("kind", [*KINDS, "plain bash", "plain zsh"])
def test_alert_is_shown_once(sandbox, shell, kind):
    sh = start(shell, kind)
    path = os.path.join(sandbox.store, "state", "alert-" + socket.gethostname())

    def shown():
        return screen(sh, "true").count("no room")

    assert shown() == 0
    sandbox.write_outside(path, "shfs: not recording: no room\x1b[31m\n", 0o600)
    assert [shown(), shown()] == [1, 0]
    assert "\x1b[31m" not in sh.pty.before
    sandbox.write_outside(path, "shfs: still no room\n", 0o600)
    assert [shown(), shown()] == [1, 0]
    os.unlink(path)
    assert shown() == 0
    sandbox.write_outside(path, "shfs: still no room\n", 0o600)
    assert [shown(), shown()] == [1, 0]
    # what another project has to say is shown, and nothing else again
    sandbox.write_outside(path, "shfs: no room here\nshfs: still no room\nshfs: no room there\n", 0o600)
    assert [shown(), shown()] == [2, 0] and "still" not in sh.pty.before
    sandbox.write_outside(path, "shfs: no room there\n", 0o600)
    assert shown() == 0
    sandbox.write_outside(path, "shfs: no room there\nshfs: still no room\n", 0o600)
    assert [shown(), shown()] == [1, 0]


@pytest.mark.users("ordinary")
@pytest.mark.parametrize("kind", [*KINDS, "plain bash", "plain zsh"])
def test_disabled(sandbox, shell, kind):
    sh = start(shell, kind, env={"SHFS_DISABLE": "1"})
    sh.run("true")
    assert log_paths(sandbox) == []
    sh.close()
    sh = start(shell, kind)
    sh.run("true")
    off = "set -g SHFS_DISABLE 1" if kind == "fish" else "SHFS_DISABLE=1"
    on = "set -e SHFS_DISABLE" if kind == "fish" else "unset SHFS_DISABLE"
    for line in off, "true secret", on, "false":
        sh.run(line)
    assert commands(records(sandbox)) == [(b"true", 0), (octets(off), 0), (b"false", 1)]


# --- a store that may hang ---


@pytest.fixture
def served(sandbox):
    """The store lies in what another daemon serves, as a server would: it can be stopped."""
    directory, own = sandbox.mkdir(os.path.join(sandbox.path, "served")), sandbox.store
    sandbox.store = os.path.join(sandbox.path, "store-of-the-server")
    server = sandbox.mount(directory)
    sandbox.store = sandbox.env["SHFS_STORE"] = os.path.join(directory, "store")
    yield server
    os.kill(server.process.pid, signal.SIGCONT)
    for sh in sandbox.shells:
        sh.close()
    for mount in sandbox.mounts[:0:-1]:
        mount.unmount()
    server.unmount()
    sandbox.store = own


def runtime(sandbox, name="journal/*/shell-*.log"):
    """Those that are there whole."""
    found = glob.glob(f"{sandbox.env['XDG_RUNTIME_DIR']}/shfs/*/{name}")
    return sorted(path for path in found if ".tmp-" not in path)


@pytest.mark.parametrize("kind", [*KINDS, "plain bash", "plain zsh"])
def test_prompt_while_the_store_hangs(sandbox, shell, shfs, served, kind):
    project = sandbox.mount()
    sh = start(shell, kind, cwd="/")
    sh.run("true before")
    os.kill(served.process.pid, signal.SIGSTOP)
    begin = time.monotonic()
    for n in range(5):
        sh.run(f"true {n}", timeout=5 * harness.PATIENCE)
    assert time.monotonic() - begin < 3 * harness.PATIENCE
    [path] = runtime(sandbox)
    state = os.path.join(path.partition("/journal/")[0], "state")
    alert = os.path.join(state, "alert-" + socket.gethostname())
    sandbox.write_outside(alert, "shfs: no server\n", 0o600)
    assert "no server" in screen(sh, "true"), "alerts come from there, too"
    os.unlink(alert)
    expected = [b"true before"] + [b"true %d" % n for n in range(5)] + [b"true"]
    assert [text for text, _ in commands(records(sandbox, path))] == expected
    os.kill(served.process.pid, signal.SIGCONT)
    assert "true before" in shfs("history", "--all", cwd="/").stdout
    project.unmount()


@pytest.mark.users("ordinary")
def test_alert_of_a_daemon_whose_store_may_hang(sandbox, shell, served):
    project = sandbox.mount()
    early = shell("bash", cwd="/")
    project.expected_status = -9
    os.kill(project.process.pid, signal.SIGKILL)
    harness.wait_until(lambda: runtime(sandbox, "state/alert-*"), "the alert")
    assert "ended unexpectedly" in screen(early, "true")
    harness.wait_until(lambda: not pids_of(sandbox, "shfs-fuse"), "the guardian to end")
    # and a shell that starts in a new session of the user sees it as well
    shutil.rmtree(sandbox.env["XDG_RUNTIME_DIR"] + "/shfs")
    late = shell("bash", cwd="/", before="echo\n")
    assert "ended unexpectedly" in late.greeting + screen(late, "true")
    project.wait()
    sandbox.mount().unmount()
    assert not runtime(sandbox, "state/alert-*")


@pytest.mark.parametrize("kind", KINDS)
def test_logout_where_the_store_is_below_the_mount(sandbox, shell, shfs, kind):
    """As below a mount of the home directory: the logs go with the session, the text stays."""
    directory = os.path.join(sandbox.home, ".local")
    mount = sandbox.mount(directory)
    sh = shell(kind, cwd=directory)
    sh.run("echo one > made")
    [log] = runtime(sandbox)
    assert "echo one" in shfs("log", "made", cwd=directory).stdout
    assert os.path.exists(log), "its shell lives"
    sh.run("cp made copy")
    sh.close()
    assert "cp made" in shfs("log", "copy", cwd=directory).stdout
    assert not runtime(sandbox), "copied, and its shell has ended"
    shutil.rmtree(sandbox.env["XDG_RUNTIME_DIR"] + "/shfs")
    mount.unmount()
    before = shfs("history", "--all").stdout
    shfs("reindex")
    assert "echo one > made" in before and "cp made copy" in before
    assert shfs("history", "--all").stdout == before
    assert "echo one" in shfs("log", "made", cwd=directory).stdout


@pytest.mark.users("ordinary")
def test_logs_are_copied_in_the_background(sandbox, shell, shfs):
    """A logout does not wait for a query."""
    directory = os.path.join(sandbox.home, ".local")
    shfs("mount", directory)
    sh = shell("bash", cwd=directory)
    sh.run("true copied")
    search = 'cat "$SHFS_STORE"/journal/*/shell-*.log 2>/dev/null || :'
    harness.wait_until(lambda: "true copied" in sandbox.sh(search).stdout, "the copy")
    shutil.rmtree(sandbox.env["XDG_RUNTIME_DIR"] + "/shfs")
    sh.run("cd /")
    shfs("umount", directory)
    shfs("reindex")
    assert "true copied" in shfs("history", "--all").stdout


# --- the mount ---


@pytest.mark.parametrize("kind", [*KINDS, "plain bash", "plain zsh"])
def test_shell_inside_gets_onto_the_mount_and_off(sandbox, shell, kind):
    sandbox.write("old", b"")
    sh = start(shell, kind)
    sh.run("true")
    mount = sandbox.mount()
    if kind == "plain bash":
        sh.run("true")  # it changes at a prompt: a subshell cannot do it for its shell
    sh.run("echo new > made")
    assert sh.run("stat -c %d .") == sandbox.run("stat", "-c", "%d", sandbox.project).stdout.strip()
    sh.run("cd /")
    mount.unmount()
    sh.run(f"cd {sandbox.project}")
    assert sh.run("cat made") == "new"


# --- shfs init ---


def test_init_refuses(shfs, sandbox):
    for name in "tcsh", "", "BASH":
        result = shfs("init", name, check=2)
        assert all(shell in result.stderr for shell in KINDS) and result.stdout == ""
    shfs("init", check=2)


def test_init_prints_the_path(shfs, sandbox):
    for kind in KINDS:
        path = shfs("init", kind, "--print-path").stdout.rstrip("\n")
        assert path == os.path.join(harness.PREFIX, f"libexec/shfs/shfs.{kind}")
        assert os.path.isfile(path)
    assert not os.path.exists(sandbox.store)
    # below ~/.local this would be the store
    assert not os.path.exists(os.path.join(harness.PREFIX, "share/shfs"))


def test_init_from_the_build(sandbox):
    build = os.environ["SHFS_TEST_BUILD"]
    argv = [os.path.join(build, "query/shfs"), "--store", sandbox.store, "init"]
    for kind in KINDS:
        run = subprocess.run([*argv, kind], capture_output=True, text=True, check=True, env=sandbox.env)
        [path] = re.findall("^source '?(.*?)'?$", run.stdout, re.M)
        assert path == os.path.join(build, f"shellhook/shfs.{kind}") and os.path.isfile(path)
    for kind, file in ("bash", "shfs-bash.so"), ("zsh", "shfs_zsh.so"):
        [lib] = re.findall("^_shfs_lib='?(.*?)'?$", subprocess.run(
            [*argv, kind], capture_output=True, text=True, check=True, env=sandbox.env).stdout, re.M)
        assert lib == os.path.join(build, "shellhook", file) and os.path.isfile(lib)


@pytest.mark.users("ordinary")
def test_module_for_another_zsh(sandbox, shell):
    """zsh itself would take it."""
    ours = os.path.join(os.environ["SHFS_TEST_BUILD"], "shellhook/shfs_zsh.so")
    version = subprocess.run(["zsh", "-fc", "echo -n $ZSH_PATCHLEVEL"], capture_output=True, check=True).stdout + b"\0"
    with open(ours, "rb") as file:
        data = file.read()
    assert version in data
    directory = os.path.join(sandbox.path, "tmp/lib")
    os.mkdir(directory, 0o755)
    for name, content in ("shfs_zsh.so", data.replace(version, b"?" + version[1:])), ("same/shfs_zsh.so", data):
        os.makedirs(os.path.dirname(os.path.join(directory, name)), exist_ok=True)
        with open(os.path.join(directory, name), "wb") as file:
            file.write(content)
    for name, is_used in ("", False), ("/same", True):
        lib = f"{directory}{name}/shfs_zsh.so"
        init = f"""eval "$(shfs init zsh | sed 's|^_shfs_lib=.*|_shfs_lib={lib}|')"\n"""
        sh = shell("zsh", init=False, after=init)
        assert bool(sh.run("whence -w _shfs_hook").endswith("builtin")) == is_used
        sh.run("false")
        assert commands(records(sandbox, newest(sandbox)))[-1] == (b"false", 1)
        sh.close()


@pytest.mark.parametrize("kind", [*KINDS, "plain zsh"])
def test_init_quotes(sandbox, shell, kind):
    store = os.path.join(sandbox.home, "a 'store' \\ $(touch x) \"é\"\n;")
    sandbox.env["SHFS_STORE"] = sandbox.store = store
    sh = start(shell, kind)
    sh.run("false")
    path = os.path.join(glob.escape(store), "journal", socket.gethostname(), "shell-*.log")
    [path] = glob.glob(path)
    assert commands(records(sandbox, path)) == [(b"false", 1)]
    assert not os.path.exists(os.path.join(sandbox.project, "x"))


def test_init_leaves_the_store_of_others_alone(sandbox, shfs):
    if os.geteuid() != 0:
        pytest.skip("needs root to give a directory away")
    os.mkdir(sandbox.store)
    os.chown(sandbox.store, sandbox.user.uid + 1, -1)
    result = shfs("init", "bash", check=6)
    assert result.stdout == "" and result.stderr.startswith("shfs: ")
    assert os.listdir(sandbox.store) == []
