# SPDX-License-Identifier: MIT
"""Processes whose ancestors were gone before they were seen: the command that started them is
known by what it left in their environment, or unknown."""

import json
import os
import random
import re
import time

import pytest

from harness import wait_until

pytestmark = pytest.mark.either

SHELLS = pytest.mark.parametrize("kind", ["bash", "zsh", "fish"])

# Leaves the terminal and its parents, and only then works: nobody has seen where it comes from.
DAEMON = r"""
    #include <fcntl.h>
    #include <stdlib.h>
    #include <unistd.h>

    static void leave(void)
    {
        pid_t parent = getpid();
        if (fork())
            _exit(0);
        while (getppid() == parent)
            usleep(1000);
    }

    int main(int argc, char **argv)
    {
        leave();
        setsid();
        leave();
        for (int fd = 0; fd < 3; fd++)
            dup2(open("/dev/null", O_RDWR), fd);
        while (argc > 2 && access(argv[2], F_OK))
            usleep(1000);
        if (argc > 3)
            execv(argv[3], argv + 3);
        return close(open(argv[1], O_CREAT | O_WRONLY, 0644));
    }
"""


@pytest.fixture
def daemon(sandbox):
    """A program outside of the mount: NAME [FILE TO WAIT FOR [PROGRAM...]]"""
    return sandbox.compile("daemon", DAEMON)


@pytest.fixture
def written(sandbox):
    """Waits for a file of the project."""

    def wait(name):
        wait_until(lambda: sandbox.sh(f"test -e {name}", check=False).status == 0, name)

    return wait


def everything(shfs):
    """{file: texts of the commands that made it; None: a process of no command}"""
    found = json.loads(shfs("history", "--all", "--limit", "1000", "--json").stdout)["commands"]
    makers = {}
    for command in found:
        for file in command["files"]:
            if file["use"] in ("wrote", "changed", "renamed"):
                name = file["path"].rsplit("/", 1)[1]
                makers.setdefault(name, []).append(command.get("text"))
    return makers


@SHELLS
@pytest.mark.both
def test_daemon_never_seen_before(daemon, written, shfs, mounted, shell, kind):
    terminal = shell(kind)
    terminal.run("true first")
    lines = {f"{daemon} by{n}": f"by{n}" for n in range(3)}
    for line, name in lines.items():
        terminal.run(line)
        written(name)
    terminal.run("true last")
    assert everything(shfs) == {name: [line] for line, name in lines.items()}


@SHELLS
def test_daemon_that_works_much_later(sandbox, daemon, written, shfs, mounted, shell, kind):
    terminal = shell(kind)
    flag = os.path.join(sandbox.path, "flag")
    line = f"{daemon} late {flag}"
    terminal.run(line)
    program = f"{daemon} - {flag} /bin/sh -c 'echo x > late-too'"
    terminal.run(program)
    for n in range(3):
        terminal.run(f"echo {n} > between{n}")
    terminal.close()
    sandbox.write_outside(flag, "")
    written("late")
    written("late-too")
    between = {f"between{n}": [f"echo {n} > between{n}"] for n in range(3)}
    assert everything(shfs) == {"late": [line], "late-too": [program], **between}


@SHELLS
def test_environment_that_is_not_to_be_believed(daemon, written, shfs, mounted, shell, kind):
    """Not there, of another unit of systemd, of a shell that is not known, or nonsense."""
    terminal = shell(kind)
    for n, change in enumerate([
        "-i",
        f"INVOCATION_ID={'a' * 32}",
        "SHFS_COMMAND=9999",
        "SHFS_COMMAND=-1",
        "SHFS_COMMAND=18446744073709551617",
        "SHFS_COMMAND=",
        "SHFS_SESSION=",
        "SHFS_SESSION=0-0-0-0",
        "SHFS_SESSION=01234567-1-1",
        "SHFS_SESSION=01234567-99999999999999-99999999999999999999",
        "-u SHFS_SESSION",
        "-u SHFS_COMMAND",
    ]):
        terminal.run(f"env {change} {daemon} by{n}")
        written(f"by{n}")
    assert everything(shfs) == {f"by{n}": [None] for n in range(12)}


@SHELLS
def test_shell_in_a_unit_of_systemd(daemon, written, shfs, mounted, shell, kind):
    """As in the terminal of a desktop: what it starts is in the same unit, what a service manager
    starts with an imported environment is in another one, or in none."""
    unit = "0123456789abcdef" * 2
    terminal = shell(kind, env={"INVOCATION_ID": unit})
    terminal.run(f"{daemon} same")
    written("same")
    terminal.run(f"env INVOCATION_ID={unit[::-1]} {daemon} other")
    written("other")
    terminal.run(f"env -u INVOCATION_ID {daemon} none")
    written("none")
    assert everything(shfs) == {"same": [f"{daemon} same"], "other": [None], "none": [None]}


@SHELLS
@pytest.mark.both
def test_process_of_another_parent(sandbox, written, shfs, mounted, shell, kind):
    """As at(1): somebody else runs it, with the environment that it was given."""
    terminal = shell(kind)
    line = "env -0 > job"
    terminal.run(line)
    environment = sandbox.read("job").decode().rstrip("\0").split("\0")
    sandbox.run("env", "-i", *environment, "/bin/sh", "-c", "echo x > by-job; true")
    found = everything(shfs)
    assert found == {"job": [line], "by-job": [line]}


@SHELLS
def test_started_at_the_prompt(daemon, written, shfs, mounted, shell, kind):
    """Prompt commands belong to no command, the one before least of all."""
    at_prompt = {
        "bash": f'PROMPT_COMMAND+=("{daemon} by-prompt")',
        "zsh": f"by_prompt() {{ {daemon} by-prompt }}; precmd_functions+=(by_prompt)",
        "fish": f"function by_prompt --on-event fish_prompt; {daemon} by-prompt; end",
    }
    terminal = shell(kind)
    terminal.run("true")
    terminal.run(at_prompt[kind])
    written("by-prompt")
    shell("bash").run("echo x > other")
    found = everything(shfs)
    assert not [text for text in found["by-prompt"] if text]
    assert found["other"] == ["echo x > other"]


@pytest.mark.parametrize("inner", ["bash", "zsh"])
def test_shell_in_a_shell(daemon, written, shfs, mounted, shell, inner):
    """The inner one's commands are its own, though its environment names that which began it."""
    shell(inner).close()  # its rc
    terminal = shell("bash")
    terminal.run(inner)
    terminal.run(f"{daemon} by-inner")
    written("by-inner")
    terminal.run("exit")
    terminal.run(f"{daemon} by-outer")
    written("by-outer")
    assert everything(shfs) == {
        "by-inner": [f"{daemon} by-inner"],
        "by-outer": [f"{daemon} by-outer"],
    }


@pytest.mark.parametrize("inner", ["bash", "zsh"])
def test_subshell_that_outlives_its_parents(sandbox, written, shfs, mounted, shell, inner):
    """It has executed nothing: its environment is what the inner shell was started with."""
    shell(inner).close()
    terminal = shell("bash")
    terminal.run(inner)
    flag = os.path.join(sandbox.path, "flag")
    line = f"( (while ! [[ -e {flag} ]]; do :; done; echo x > by-sub) & )"
    if inner == "zsh":
        line = f"setopt nobgnice; {line}"
    terminal.run(line)
    terminal.run("true")
    sandbox.write_outside(flag, "")
    written("by-sub")
    assert everything(shfs)["by-sub"] in ([line], [None])


@pytest.mark.parametrize("following", ["bash", "zsh", "fish"])
def test_numbers_go_on_behind_exec(daemon, written, shfs, mounted, shell, following):
    """The shell is the same process: a number that came twice would name two commands."""
    shell(following).close()
    terminal = shell("bash")
    terminal.run(f"{daemon} before")
    written("before")
    terminal.run(f"exec {following}")
    lines = [f"{daemon} after{n}" for n in range(3)]
    for n, line in enumerate(lines):
        terminal.run(line)
        written(f"after{n}")
    found = everything(shfs)
    assert found["before"] == [f"{daemon} before"]
    assert [found[f"after{n}"] for n in range(3)] == [[line] for line in lines]


@SHELLS
def test_number_that_came_twice_names_nothing(daemon, written, shfs, mounted, shell, kind):
    shell(kind).close()
    terminal = shell("bash")
    terminal.run("true one")
    terminal.run("true two")
    terminal.run(f"exec env -u SHFS_COMMAND {kind}")
    terminal.run(f"{daemon} by1")
    written("by1")
    for n in range(4):
        terminal.run(f"true {n}")
    terminal.run(f"{daemon} by6")
    written("by6")
    assert everything(shfs) == {"by1": [None], "by6": [f"{daemon} by6"]}


def test_bash_without_the_loadable(daemon, written, shfs, mounted, shell):
    """Also for lines that are run without a prompt in between."""
    init = """eval "$(shfs init bash | sed 's/^_shfs_lib=.*/_shfs_lib=/')"\n"""
    terminal = shell("bash", init=False, after=init)
    lines = [f"{daemon} by{n}" for n in range(4)]
    terminal.run(lines[0])
    terminal.send("\x1b[200~" + "\n".join(lines[1:3]) + "\x1b[201~\r")
    terminal.wait()
    terminal.run(lines[3])
    for n in range(4):
        written(f"by{n}")
    assert everything(shfs) == {f"by{n}": [line] for n, line in enumerate(lines)}


@SHELLS
def test_what_a_server_does_later(sandbox, daemon, written, shfs, mounted, shell, kind):
    """It is of the command that started it, long over by then: show says so."""
    terminal = shell(kind)
    flag = os.path.join(sandbox.path, "flag")
    terminal.run(f"{daemon} late {flag}")
    terminal.run("/bin/sh -c 'echo x > at-once'")
    time.sleep(2)
    sandbox.write_outside(flag, "")
    written("late")
    commands = {c["text"]: c["id"] for c in json.loads(shfs("history", "--json").stdout)["commands"]}
    for line, is_late in ((f"{daemon} late {flag}", True), ("/bin/sh -c 'echo x > at-once'", False)):
        shown, told = shfs("show", commands[line]).stdout, json.loads(shfs("show", "--json", commands[line]).stdout)
        late = [p for p in told["processes"] if "worked_until" in p]
        assert len(late) == is_late and all(p["worked_until"] > told["end"] for p in late)
        assert bool(re.search(r"left running.*\n +\d+ +last used a file \d.* s after the command had ended", shown)) == is_late, shown


BUILTINS = [
    "(echo x > {} &)",
    "( (echo x > {}) & )",
    "true; (echo x > {} &); true",
    "sleep 0.5; (echo x > {} &)",
    "(echo x > {} &); sleep 0.5",
    "(echo x | (cat > /dev/null; echo y > {}) &)",
    "bash -c '(echo x > {} &)'",
    "bash -c '(exec > /dev/null; (sleep 0.05; echo x > {}) & )'",
]


@pytest.mark.backends()
@pytest.mark.parametrize("kind", ["bash", "zsh"])
def test_builtin_whose_parents_are_gone(sandbox, written, shfs, mounted, shell, kind):
    """Nothing but its group tells whose it is; commands before it ran long enough for pids to go round
    (where there are 32,768)."""
    terminal, lines = shell(kind), {}
    for n, form in enumerate(BUILTINS * 2):
        lines[f"f{n}"] = form.format(f"f{n}")
        terminal.run(lines[f"f{n}"])
        written(f"f{n}")
    assert everything(shfs) == {name: [line] for name, line in lines.items()}


@pytest.mark.backends()
@pytest.mark.parametrize("seed", range(2))
def test_builtins_beside_others_of_their_kind(sandbox, written, shfs, mounted, shell, seed):
    """Random lines in two shells, while what earlier ones left goes on to fork such builtins: each
    belongs to its command or to nobody."""
    chance, lines = random.Random(seed), {}
    terminals = [shell("bash"), shell("zsh")]
    loop = "( (for i in {1..40}; do sleep 0.1; (echo $i > NAME$i &); done) & )"  # the last one leaves nothing behind in the mount
    for n in range(24):
        name, form = f"f{n}-", chance.choice([loop, "sleep 0.4", *BUILTINS])
        if form == loop:
            line = form.replace("NAME", name)
            lines |= {f"{name}{i}": line for i in range(1, 41)}
        else:
            line = lines[name] = form.format(name)
        chance.choice(terminals).run(line)
    loops = [name for name in lines if name.endswith("-40")]
    for name in loops:
        written(name)
    found = everything(shfs)
    wrong = {name: (makers, lines[name]) for name, makers in found.items() if makers not in ([lines[name]], [None])}
    assert not wrong, (seed, wrong)


@SHELLS
def test_environment_shows_the_marker(sandbox, mounted, shell, kind):
    terminal = shell(kind)
    for n in range(1, 3):
        shown = terminal.run("env")
        assert re.search(rf"^SHFS_SESSION=[0-9a-f]{{8}}-{terminal.pid}-\d+$", shown, re.M)
        assert re.search(rf"^SHFS_COMMAND={n}$", shown, re.M)
