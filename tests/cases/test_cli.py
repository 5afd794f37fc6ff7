# SPDX-License-Identifier: MIT
"""The command line itself: words, options, exit codes, output that cannot be written, the pager."""

import contextlib
import os
import re
import shlex
import signal
import subprocess

import pexpect
import pytest

import harness

pytestmark = pytest.mark.users("ordinary")

COMMANDS = [
    "mount", "umount", "enable", "disable", "init", "record", "run", "history", "search", "note", "show", "log", "why", "impact", "stale", "rerun", "compare", "stats",
    "map", "web", "export", "import", "remote", "push", "pull", "clone", "fetch", "publish",
    "browse", "cat", "diff", "restore", "undelete", "undo", "try", "status", "doctor", "config", "bugreport", "check", "repair", "prune", "gc", "forget", "reindex", "help",
]  # fmt: skip
HIDDEN = ["complete", "ingest", "prompt", "serve", "sync"]
PROGRAM = os.path.join(harness.PREFIX, "bin/shfs")
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@pytest.fixture
def recorded(sandbox):
    """A project that was mounted for a while: two versions of a file."""
    mount = sandbox.mount()
    sandbox.sh("echo one > file; echo two > file; echo x > 'long name'")
    mount.unmount()
    return sandbox


def test_index_of_a_newer_version(recorded):
    script = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute('PRAGMA user_version = 9999')"
    before = recorded.run(PROGRAM, "log", "file").stdout
    index = os.path.join(recorded.store, "index.db")
    recorded.run("/usr/bin/python3", "-c", script, index)
    result = recorded.run(PROGRAM, "log", "file", check=1)
    assert "newer version" in result.stderr and "shfs reindex" in result.stderr
    recorded.run(PROGRAM, "reindex")
    assert recorded.run(PROGRAM, "log", "file").stdout == before


# --- help ---


def documents():
    """(path, text) of all that users read."""
    paths = [os.path.join(top, name) for where in ("docs", "man") for top, _, names in os.walk(f"{ROOT}/{where}")
             for name in names if name.endswith((".md", ".scd"))]  # fmt: skip
    assert len(paths) > 50
    for path in *paths, f"{ROOT}/README.md":
        with open(path, encoding="utf-8") as file:
            yield path, file.read()


def test_examples_leave_the_home_to_the_shell():
    """In quotes, ~ is a name like others."""
    for path, text in documents():
        wrong = [line for line in text.splitlines()
                 if re.match(r"(\s{4,}|\$ )", line) and "shfs " in line and re.search("['\"]~/", line.split("#")[0])]  # fmt: skip
        assert not wrong, (path, wrong)


# They change nothing where there is no store, and say so once their words are understood.
ASKING = ("history", "search", "show", "log", "why", "impact", "stale", "rerun", "compare", "stats", "map", "export", "cat", "diff",
          "restore", "undelete", "undo", "forget", "prune", "check", "repair", "gc", "push", "pull")  # fmt: skip


def examples():
    """{words of an example: where it stands}, of those with options or versions."""
    found = {}
    for path, text in documents():
        for line in re.findall(r"^(?:\t|    )?(?:\w*\$ )?(shfs .*)", text, re.M) + re.findall(r"\| `(shfs [^`]*)`", text):
            line = re.sub(r" +#.*| [>|] .*|; .*|\\$", "", line.replace("…", "/lab"))
            line = re.sub(r"\b(ID|COMMAND|ID-OF-CLAUDE)\b|\"\$id\"", "abcd1234", line)
            with contextlib.suppress(ValueError):  # a sentence with an apostrophe
                words = shlex.split(line)
                if words[1:2] and words[1] in ASKING and re.search(r" -|@\{", line) and "://" not in line:
                    found[tuple(words)] = os.path.relpath(path, ROOT)
    return found


def test_examples_are_understood(shfs):
    """No document has an option, a time, a size or a number of operands that shfs does not know, or a WHEN that the shell cuts."""
    texts, wrong = examples(), []
    assert len(texts) > 60
    for (_, *words), path in texts.items():
        result = shfs(*words, *["-n"] * (words[0] == "forget"), check=False)  # which would ask
        cut = [word for word in words if "@{" in word and "}" not in word]
        if cut or result.status != 6 or "there is no store yet" not in result.stderr:
            wrong.append((path, result))
    assert not wrong, "\n".join(map(repr, wrong))


def test_alone_is_a_usage_error(shfs):
    result = shfs(check=2)
    assert result.stdout == ""
    assert result.stderr.startswith("usage: shfs COMMAND")
    for name in COMMANDS:
        assert re.search(rf"^  {name} ", result.stderr, re.M)


def test_help_lists_all_but_the_hidden(shfs):
    for args in ["--help"], ["-h"], ["help"]:
        result = shfs(*args)
        assert result.stderr == ""
        names = re.findall(r"^  (\w+) ", result.stdout.split("\nOptions")[0], re.M)
        assert names == COMMANDS
        assert all(len(line) <= 80 for line in result.stdout.splitlines())


@pytest.mark.either
def test_loads_no_library_that_few_commands_need(sandbox):
    loaded = sandbox.shfs("--version", env={"LD_TRACE_LOADED_OBJECTS": "1"}).stdout
    assert "libsqlite3" in loaded and "libarchive" not in loaded and "libxml2" not in loaded


@pytest.mark.parametrize("name", COMMANDS + HIDDEN)
def test_help_of(shfs, name):
    results = [shfs(name, "--help"), shfs(name, "-h"), shfs("help", name)]
    assert len({r.stdout for r in results}) == 1
    text = results[0].stdout
    assert text.startswith(f"usage: shfs {name}")
    assert all(len(line) <= 80 for line in text.splitlines()), text
    assert all(r.stderr == "" for r in results)


def test_help_goes_first(shfs, sandbox):
    """Also where the rest would be wrong, or would do something."""
    assert shfs("reindex", "--help").stdout.startswith("usage: shfs reindex")
    assert shfs("cat", "-h").stdout.startswith("usage: shfs cat")
    assert not os.path.exists(sandbox.store)


@pytest.mark.parametrize("args", [["--version"], ["-V"], ["log", "--version"]])
def test_version(shfs, args):
    assert re.fullmatch(r"shfs \d+\.\d+\.\d+\n", shfs(*args).stdout)


# --- advice ---


def test_advice_fits(sandbox, shell):
    """What is said to do can be done, and is about what was typed."""
    bash = shell("bash")
    sandbox.shfs("mount", sandbox.project, cwd="/")
    bash.run(f"cd {sandbox.project}; echo 1 > f")
    bash.run("cd")
    [one] = [line for line in sandbox.shfs("history").stdout.splitlines() if "echo 1" in line]
    assert "/:" not in sandbox.shfs("undelete", "--command", one.split()[0], check=3).stderr
    assert "origin" not in sandbox.shfs("--store", f"{sandbox.path}/s", "clone", f"{sandbox.path}/nowhere", check=3).stderr
    with sandbox.popen(["sleep", "60"], cwd=sandbox.project) as stands:
        sandbox.shfs("umount", sandbox.project, cwd="/")
        assert "while a shell stands in it" in sandbox.shfs("repair", check=4, cwd="/").stderr
        stands.kill()


# --- words that are wrong ---


@pytest.mark.parametrize(
    "word, meant",
    [("histroy", "history"), ("hist", "history"), ("lgo", "log"), ("unmount", "umount"),
     ("cta", "cat"), ("sttatus", "status"), ("reindx", "reindex"), ("HELP", None),
     ("xyzzy", None), ("", None), ("sync-all-the-things-that-there-are-in-this-world", None)],
)  # fmt: skip
def test_unknown_command(shfs, word, meant):
    result = shfs(word, check=2)
    assert result.stdout == ""
    assert "no such command" in result.stderr
    assert (f'did you mean "shfs {meant}"' if meant else "shfs help") in result.stderr
    assert shfs("help", word, check=2).stderr == result.stderr


@pytest.mark.parametrize("word", ["a\nb", "\x1b[31mred", b"\xff\xfe", "--\x1b[31m", "-\x1b"])
def test_what_is_shown_is_escaped(shfs, word):
    result = shfs(word, check=2)
    assert "\x1b" not in result.stderr
    assert len(result.stderr.splitlines()) == 2
    result.stderr_bytes.decode()


@pytest.mark.parametrize(
    "option, meant",
    [("--lmiit", "limit"), ("--reversed", "reverse"), ("--since-when", None), ("--jsno", "json"),
     ("--stroe=x", "store"), ("--colour", "color"), ("--nothing", None)],
)  # fmt: skip
def test_unknown_option(shfs, option, meant):
    result = shfs("history", option, check=2)
    assert f"no such option: {option.split('=')[0]}\n" in result.stderr
    assert (f"did you mean --{meant}?" if meant else "shfs help history lists") in result.stderr
    assert result.stdout == ""


def test_unknown_letter(shfs):
    assert "no such option: -x\n" in shfs("history", "-x", check=2).stderr
    assert "no such option: -x\n" in shfs("-x", check=2).stderr
    assert "no such option: -z\n" in shfs("history", "-az", check=2).stderr


def test_options_of_another_command(shfs):
    assert "no such option: --patch\n" in shfs("--patch", "log", "x", check=2).stderr
    assert "no such option: --patch\n" in shfs("history", "--patch", check=2).stderr


def test_ambiguous_option(shfs):
    message = shfs("history", "--re", check=2).stderr
    assert message == "shfs: --re is short for several options: --regex --read --reverse\n"


@pytest.mark.parametrize("args", [["-n"], ["--limit"], ["--lim"], ["--store"], ["--color"]])
def test_missing_value(shfs, args):
    assert re.search(r"option -\S+ wants a value", shfs("history", *args, check=2).stderr)
    if args[0] in ("--store", "--color"):
        assert "wants a value" in shfs(*args, check=2).stderr


def test_configuration_that_is_not_there(shfs, sandbox):
    result = shfs("--config", "no\nconfig", "status", check=2)
    assert result.stderr == "shfs: no\\nconfig: No such file or directory\n"
    program = os.path.join(harness.PREFIX, "libexec/shfs/shfs-fuse")
    line = [program, "--store", sandbox.store, "--config", "/nonexistent", sandbox.project]
    result = sandbox.run(*line, check=2)
    assert result.stderr == "shfs: /nonexistent: No such file or directory\n"


def test_value_where_none_belongs(shfs):
    assert "option --json takes no value" in shfs("history", "--json=3", check=2).stderr
    assert "option --json takes no value" in shfs("history", "--js=3", check=2).stderr
    assert "option --no-pager takes no value" in shfs("--no-pager=yes", check=2).stderr


@pytest.mark.parametrize(
    "args",
    [["history", "-n", "x"], ["history", "-n", ""], ["history", "--limit=-1"], ["log", "-n", "x", "f"],
     ["history", "--since", "nonsense"], ["history", "--status", "maybe"], ["history", "--regex", "("],
     ["why", "--depth", "many", "f"], ["diff", "-U", "x", "f"], ["mount", "--backend", "magic"],
     ["history", "--color", "sometimes"], ["--color", "sometimes", "history"], ["init", "csh"],
     ["restore", "--to", "", "f@1"], ["restore", "--read", "f@1"],
     ["restore", "--command", "1234", "f@1"]],
)  # fmt: skip
def test_bad_value(recorded, args):
    result = recorded.shfs(*args, check=2)
    assert result.stdout == ""
    assert result.stderr.startswith("shfs: ")
    assert len(result.stderr.splitlines()) <= 2


@pytest.mark.parametrize(
    "args", [["init"], ["show"], ["log"], ["why"], ["cat"], ["diff"], ["restore"], ["umount"]]
)
def test_too_few(shfs, args):
    result = shfs(*args, check=2)
    assert result.stdout == ""
    assert result.stderr.startswith("shfs: ")


@pytest.mark.parametrize(
    "args",
    [["init", "bash", "x"], ["show", "1234", "x"], ["log", "a", "x"], ["why", "a", "x"],
     ["diff", "a", "b", "x"], ["status", "x"], ["doctor", "x"], ["reindex", "x"],
     ["help", "log", "x"], ["sync", "x"]],
)  # fmt: skip
def test_too_many(shfs, args):
    result = shfs(*args, check=2)
    assert "one argument too many: x\n" in result.stderr
    assert f"usage: shfs {args[0]}" in result.stderr
    assert result.stdout == ""


# --- words that are right, in every form ---


def test_forms_of_options(recorded):
    expected = recorded.shfs("log", "--limit", "1", "file").stdout
    assert "file@2" in expected and "file@1" not in expected
    for args in (
        ["log", "--limit=1", "file"], ["log", "-n", "1", "file"], ["log", "-n1", "file"],
        ["log", "--lim", "1", "file"], ["log", "--lim=1", "file"], ["log", "file", "-n", "1"],
        ["log", "-n", "7", "-n", "1", "file"], ["log", "-n1", "--", "file"],
        ["--no-pager", "log", "-n1", "file"], ["--store", recorded.store, "log", "-n1", "file"],
        [f"--store={recorded.store}", "log", "-n1", "file"],
        ["log", "-n1", "--store", recorded.store, "file"],
        ["--color", "never", "log", "-n1", "file"], ["--", "log", "-n1", "file"],
    ):  # fmt: skip
        assert recorded.shfs(*args).stdout == expected, args
    changes = recorded.shfs("log", "-p", "file").stdout
    assert "+two" in changes
    assert recorded.shfs("log", "-pn2", "file").stdout == changes


def test_two_dashes_end_the_options(sandbox):
    mount = sandbox.mount()
    sandbox.sh("echo x > ./--limit; echo x > ./-h")
    mount.unmount()
    assert "--limit@1" in sandbox.shfs("log", "--", "--limit").stdout
    assert sandbox.shfs("cat", "--", "-h").stdout == "x\n"


def test_the_later_store_counts(recorded):
    empty = os.path.join(recorded.home, "empty")
    recorded.shfs("--store", empty, "log", "file", check=6)
    recorded.shfs("--store", empty, "log", "--store", recorded.store, "file")
    recorded.shfs("log", "file", env={"SHFS_STORE": empty}, check=6)
    recorded.shfs("--store", recorded.store, "log", "file", env={"SHFS_STORE": empty})


# --- exit codes ---


def test_exit_codes(recorded):
    for args, code in (
        (["cat", "file@1"], 0), (["cat", "file@9"], 3), (["cat", "file@0"], 3),
        (["log", "never"], 3), (["show", "ffffffff"], 3), (["why", "never"], 3), (["export", "sh", "never"], 3),
        (["rerun", "never"], 3), (["rerun", "--command", "ffffffff"], 3), (["compare", "ffffffff", "never"], 3),
        (["umount", "."], 3), (["mount", "nowhere"], 2), (["mount", "file"], 2),
        (["diff", "file@1", "file@2"], 1), (["diff", "file@1", "file@1"], 0),
        (["diff", "file@9"], 3), (["undelete", "never"], 3), (["undo", "ffffffff"], 3), (["undo"], 2),
    ):  # fmt: skip
        result = recorded.shfs(*args, check=code)
        if code > 1:
            assert result.stdout == ""
            assert result.stderr.startswith("shfs: ")


@pytest.mark.parametrize("name", ["history", "log x", "why x", "cat x", "show 1234", "diff x",
                                  "restore x@1", "undelete x", "undo x", "reindex"])  # fmt: skip
def test_without_a_store(shfs, sandbox, name):
    result = shfs(*name.split(), check=6)
    assert "there is no store yet at ~/.local/share/shfs" in result.stderr.replace(
        sandbox.home, "~"
    )
    assert "shfs mount DIR" in result.stderr
    assert not os.path.exists(sandbox.store)


@pytest.mark.users("ordinary")
def test_a_time_that_was_not_quoted(recorded, shfs):
    """The shell cuts it at its blanks."""
    for line in "cat file@{1 minute ago}", "log file@{1", "restore file@{1 minute ago}", "diff file@{1 minute ago} file":
        told = shfs(*line.split(), check=False)
        assert told.status and "'FILE@{2 hours ago}'" in told.stderr, (line, told.stderr)


@pytest.mark.users("ordinary")
def test_the_line_of_the_rc_before_the_first_mount(shfs, sandbox, shell):
    """What a hook makes for itself is no store that is damaged."""
    shell("bash").run("true")
    assert os.path.exists(sandbox.store + "/journal")
    for name in "history", "log x", "status", "check", "repair", "gc", "reindex":
        said = shfs(*name.split(), check=False).stderr
        assert "nothing is recorded yet: there is no store yet at" in said, (name, said)
        assert "damaged" not in said and "anew" not in said, (name, said)
    said = shfs("doctor", check=False)
    assert "nothing is recorded yet" in said.stdout and "damaged" not in said.stdout + said.stderr
    assert not os.path.exists(sandbox.store + "/format")
    shell("bash").run("echo hunter2")
    assert "1 command" in shfs("forget", "--yes", "--grep", "hunter2").stdout
    assert b"hunter2" not in b"".join(harness.contents(sandbox.store).values())


# --- output that cannot be written ---

OUTPUTS = ["--help", "--version", "help log", "history -a", "log file", "log -p file", "why file",
           "cat file@1", "status", "doctor", "mount", "init bash", "init --print-path bash",
           "history -a --json", "log --json file", "why --json file", "status --json",
           "doctor --json", "export sh file", "export json file", "undelete --list", "restore --dry-run file@1", "reindex"]  # fmt: skip


@pytest.mark.parametrize("line", OUTPUTS)
def test_full_disk(recorded, line):
    if line == "undelete --list":
        recorded.sh("mv 'long name' elsewhere; rm elsewhere")
    with open("/dev/full", "wb") as full:
        process = recorded.popen([PROGRAM, *line.split()], stdout=full, stderr=subprocess.PIPE)
        message = process.communicate(timeout=30)[1].decode()
    expected = recorded.shfs(*line.split(), check=False)
    assert expected.stdout
    assert process.returncode == 1, message
    assert "No space left on device" in message
    assert len(message.splitlines()) == 1 or line.startswith("status")


def test_full_disk_for_a_difference(recorded):
    """1 would be: they differ."""
    with open("/dev/full", "wb") as full:
        process = recorded.popen([PROGRAM, "diff", "file@1", "file@2"], stdout=full,
                                 stderr=subprocess.PIPE)  # fmt: skip
        message = process.communicate(timeout=30)[1].decode()
    assert process.returncode == 2
    assert message


@pytest.mark.parametrize("line", ["--version", "history -a", "cat file@1", "log file", "init bash"])
def test_closed_output(recorded, line):
    result = recorded.sh(f"{PROGRAM} {line} >&-", check=1)
    assert "Bad file descriptor" in result.stderr
    # nothing of ours is written to a file that happens to get the number
    assert recorded.sh(f"{PROGRAM} {line} >&- 2>&-", check=1).stderr == ""


def test_closed_input_and_errors(recorded):
    plain = recorded.shfs("log", "file").stdout
    assert recorded.sh(f"{PROGRAM} log file <&-").stdout == plain
    assert recorded.sh(f"{PROGRAM} log file <&- 2>&-").stdout == plain
    assert recorded.sh(f"{PROGRAM} log never 2>&-", check=3).stderr == ""


def test_reader_that_leaves(recorded):
    """head ends first: shfs is ended by SIGPIPE without a word, as programs are."""
    recorded.sh("i=0; while [ $i -lt 200 ]; do echo $i; i=$((i + 1)); done > many")
    script = f"set -o pipefail; {PROGRAM} doctor | true; echo ${{PIPESTATUS[0]}}"
    result = recorded.run("bash", "-c", script, check=False)
    assert result.stderr == ""
    assert result.stdout in ("0\n", "1\n", "141\n")


# --- colour ---


@pytest.fixture
def terminal(sandbox):
    """terminal(*args, env, command) -> a program on a terminal; expect EOF for its output."""
    started = []
    sandbox.allow_exit(-signal.SIGHUP)  # the terminal goes while what ran the pager is about to end

    def start(*args, env=None, pager="cat", argv=None, columns=80):
        def become():
            sandbox.user.become()
            os.chdir(sandbox.project)

        command = argv or [PROGRAM, *args]
        pty = pexpect.spawn(
            command[0], command[1:],
            env={**sandbox.env, "PAGER": pager, **(env or {})},
            preexec_fn=become, dimensions=(24, columns), encoding="utf-8", timeout=20 * harness.PATIENCE,
        )  # fmt: skip
        pty.delaybeforesend = None
        started.append(pty)
        return pty

    yield start
    for pty in started:
        pty.close(force=True)


def output(pty):
    pty.expect(pexpect.EOF)
    text = pty.before
    pty.close()
    return text.replace("\r\n", "\n")


def test_color(recorded, terminal):
    assert "\x1b[" in output(terminal("log", "file"))
    for env in {"NO_COLOR": "1"}, {"TERM": "dumb"}, {"TERM": ""}:
        assert "\x1b[" not in output(terminal("log", "file", env=env)), env
    assert "\x1b[" in output(terminal("log", "file", env={"NO_COLOR": ""}))
    assert "\x1b[" in output(terminal("log", "--color=always", "file", env={"NO_COLOR": "1"}))
    assert "\x1b[" not in output(terminal("--color=never", "log", "file"))
    assert "\x1b[" not in recorded.shfs("log", "file").stdout
    assert "\x1b[" in recorded.shfs("log", "--color", "always", "file").stdout


def test_color_of_the_configuration(recorded, terminal):
    config = recorded.write_outside(f"{recorded.home}/.config/shfs/config.ini", "[query]\ncolor=always\n")
    assert "\x1b[" in recorded.shfs("log", "file").stdout
    assert "\x1b[" in output(terminal("log", "file", env={"NO_COLOR": "1"}))
    assert "\x1b[" not in recorded.shfs("--color=auto", "log", "file").stdout
    recorded.write_outside(config, "[query]\ncolor=never\n")
    assert "\x1b[" not in output(terminal("log", "file"))


# --- the pager ---


def test_pager_is_chosen_as_git_does(recorded, terminal):
    config = f"{recorded.home}/.config/shfs/config.ini"
    assert "P1:file@2" in output(terminal("log", "--color=never", "file", pager="sed s/^/P1:/"))
    recorded.write_outside(config, "[query]\npager = sed s/^/P2:/\n")
    assert "P2:file@2" in output(terminal("log", "--color=never", "file", pager="sed s/^/P1:/"))
    env = {"SHFS_PAGER": "sed s/^/P3:/"}
    assert "P3:file@2" in output(terminal("log", "--color=never", "file", env=env))
    assert output(terminal("--no-pager", "log", "--color=never", "file", env=env)).startswith("file@2")
    assert output(terminal("log", "--color=never", "file", env={"SHFS_PAGER": ""})).startswith("file@2")
    assert recorded.shfs("log", "file", env=env).stdout.startswith("file@2"), "not when piped"


def test_pager_keeps_colors_and_gets_options(recorded, terminal):
    assert "\x1b[" in output(terminal("log", "file", pager="cat; true"))
    assert "LESS=FRX" in output(terminal("log", "file", pager="env"))
    assert "LESS=-S" in output(terminal("log", "file", pager="env", env={"LESS": "-S"}))


@pytest.mark.parametrize("columns", [60, 200])
def test_pager_leaves_the_width_of_the_terminal(recorded, terminal, columns):
    """Of which a long line is cut, or not."""
    recorded.sh("sleep 0; cat file > " + "a" * 150)
    recorded.shfs("sync")
    shown = [output(terminal(*more, "log", "--color=never", "a" * 150, columns=columns)) for more in ((), ("--no-pager",))]
    assert shown[0] == shown[1] and "\n" in shown[0]


def test_pager_that_is_not_there(recorded, terminal):
    text = output(terminal("log", "--color=never", "file", pager="no-such-pager -x"))
    assert "there is no pager no-such-pager" in text
    assert "file@2" in text
    pty = terminal("log", "file", pager="no-such-pager | cat -n; exit 127")
    output(pty)
    assert pty.exitstatus == 0 or pty.exitstatus == 1


def test_pager_without_less(recorded, terminal):
    """The default is no reason to fail, or to complain."""
    bin_dir = recorded.mkdir(f"{recorded.home}/bin")
    os.symlink(PROGRAM, f"{bin_dir}/shfs")
    env = {"PATH": bin_dir}
    assert output(terminal("log", "--color=never", "file", env=env, pager="less")).startswith("file@2")


def big(recorded, n=3000):
    """A file whose log -p is longer than a pipe holds."""
    mount = recorded.mount()
    recorded.sh(f"seq 1 {n} > big; seq 2 {n * 7} > big")
    mount.unmount()


def test_pager_that_is_left_early(recorded, terminal):
    big(recorded, 30000)
    pty = terminal("log", "-p", "big", pager="head -n 1")
    text = output(pty)
    assert len(text.splitlines()) == 1
    assert pty.exitstatus == 0 and pty.signalstatus is None


def test_interrupt_in_the_pager(recorded, terminal):
    """^C ends the query; the pager shows what it has until it is left."""
    recorded.allow_exit(-signal.SIGINT)  # whoever of the query's processes was still there
    big(recorded, 30000)
    pager = "trap '' INT; read line; echo first: $line; sleep 0.3; echo pager ends"
    pty = terminal("log", "-p", "big", pager=pager)
    pty.expect("first: ")
    pty.sendintr()
    text = output(pty)
    assert "pager ends" in text
    assert pty.signalstatus == signal.SIGINT or pty.exitstatus == 0


def test_real_less(recorded, terminal):
    big(recorded)
    pty = terminal("log", "-p", "big", pager="less")
    pty.expect_exact(":")
    pty.send("q")
    output(pty)
    assert pty.exitstatus == 0
    pty = terminal("log", "file", pager="less")  # one screen: it does not stay
    assert "file@1" in output(pty)
    assert pty.exitstatus == 0


def test_interrupt(recorded, terminal):
    """A query that is stopped ends by the signal and leaves the terminal usable."""
    argv = ["/bin/sh", "-c", f"trap : INT; {PROGRAM} ingest --follow; echo ended with $?"]
    mount = recorded.mount()
    pty = terminal(argv=argv)
    harness.wait_until(lambda: os.path.exists(f"{recorded.store}/index.db"), "the ingest")
    pty.sendintr()
    assert re.search(r"ended with (0|130)", output(pty))
    mount.unmount()


# --- what it may do ---

ALONE = {
    "cat": ["file@1"], "restore": ["file@1"], "check": ["--read-data"], "repair": [], "prune": ["--keep-last", "1"],
    "gc": [], "forget": ["--yes", "long name"], "reindex": [], "select": ["SELECT * FROM v_file"],
    "complete": ["--", "show", ""], "ingest": [], "sync": [], "export": ["json", "file"],
    "history": ["--all"], "log": ["file"], "show": ["file@1"], "why": ["file"], "impact": ["file"], "stale": [], "stats": [],
    "undelete": ["--list"], "serve": [],
}  # fmt: skip


@pytest.mark.parametrize("name", ALONE)
def test_filtered_before_it_reads(recorded, name):
    """Those that run no other program are in the filter when they open the store, and get along with it."""
    trace = f"{recorded.path}/tmp/trace"
    with open(os.path.join(os.path.dirname(__file__), "../../recording/sandbox.c"), encoding="ascii") as source:
        denied = ",".join("?" + call for call in re.findall(r"\{ SCMP_SYS\((\w+)\)", source.read()))
    argv = ["strace", "-f", "-y", "-o", trace, "-e", f"trace={denied},seccomp,openat"]
    env = {"ASAN_OPTIONS": recorded.env["ASAN_OPTIONS"] + ":detect_leaks=0"}  # it is traced
    recorded.run(PROGRAM, "ingest")
    assert recorded.run(*argv, PROGRAM, name, *ALONE[name], env=env, check=False).status in (0, 1, 3)
    with open(trace, encoding="utf-8", errors="replace") as lines:
        calls = list(lines)
    entered = next((n for n, call in enumerate(calls) if "SECCOMP_SET_MODE_FILTER" in call and call.endswith("= 0\n")), None)
    assert entered is not None
    first = next((n for n, call in enumerate(calls) if recorded.store in call and "openat(" in call), len(calls))
    assert entered < first and (first < len(calls) or name == "sync"), calls[:first + 1]
    assert not [call for call in calls[entered:] if "EPERM" in call]
