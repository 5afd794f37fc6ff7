# SPDX-License-Identifier: MIT
"""shfs run: a command of a script, of cron or of a program is one of history's, and runs as without."""

import json
import os
import signal
import subprocess
import time

import pytest

from harness import PREFIX, wait_until

pytestmark = [pytest.mark.users("ordinary")]
SHFS = f"{PREFIX}/bin/shfs"


def commands(sandbox, *args):
    """{text: command} of history."""
    found = json.loads(sandbox.shfs("history", "--all", "--json", *args).stdout)["commands"]
    return {one["text"]: one for one in found}


def wrote(command):
    return [os.path.basename(use["path"]) for use in command["files"] if use["use"] == "wrote"]


@pytest.mark.both
def test_in_a_script(sandbox, mounted):
    """Each is a command of its own, with what it read and wrote, and so are their results' makers."""
    sandbox.write("run.sh", "shfs run sort in -o mid\nshfs run -- sh -c 'head -1 mid > out; exit 3'\necho $? > status\n")
    sandbox.write("in", "b\na\n")
    sandbox.sh("env -i PATH=$PATH HOME=$HOME ASAN_OPTIONS=$ASAN_OPTIONS sh run.sh")
    assert sandbox.read("out") == b"a\n" and sandbox.read("status") == b"3\n"
    found = commands(sandbox)
    first, second = found["sort in -o mid"], found["sh -c 'head -1 mid > out; exit 3'"]
    assert first["status"] == 0 and second["status"] == 3
    why = sandbox.shfs("why", "out").stdout
    assert "sort in -o mid" in why and "sh -c 'head -1 mid > out; exit 3'" in why and "in@1" in why


def test_as_without(sandbox, project):
    """Status, signals, streams, options and arguments are the command's."""
    run = lambda *argv, **options: sandbox.shfs("run", *argv, check=False, **options)
    assert run("sh", "-c", "exit 7").status == 7
    assert run("no-such-program").status == 127
    sandbox.write("text", "x")
    assert run("./text").status == 126
    assert run("printf", "%s|", "--json", "a b", "--", "").stdout == "--json|a b|--||"
    assert run("--", "printf", "x").stdout == "x"
    assert sandbox.sh("echo in | shfs run cat; echo err | shfs run sh -c 'cat >&2' 2>&1").stdout == "in\nerr\n"
    assert run("sh", "-c", "kill -9 $$").status == 128 + 9
    assert sandbox.sh("shfs run sh -c 'kill -TERM $$'; echo $?", check=False).stdout == "143\n"
    found = commands(sandbox)
    assert found["sh -c 'kill -9 $$'"]["status"] == 137 and found["no-such-program"]["status"] == 127
    assert sandbox.shfs("run", check=2).stderr


def test_signals(sandbox, project):
    """What is sent to it reaches the command; what is ignored stays ignored."""
    process = sandbox.popen([SHFS, "run", "sleep", "100"], cwd=project)
    wait_until(lambda: children(process.pid), "the command")
    [child] = children(process.pid)
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == -signal.SIGTERM
    assert not os.path.exists(f"/proc/{child}")
    script = "trap '' HUP; shfs run sh -c 'kill -HUP $PPID; kill -HUP $$; exit 5'; echo $?"
    assert sandbox.sh(script).stdout == "5\n"
    # as a terminal does, to all: the command decides
    script = "trap 'echo trapped; exit 6' INT; kill -INT $PPID $$; sleep 1"
    assert sandbox.shfs("run", "bash", "-c", script, check=6).stdout == "trapped\n"


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as found:
        return [int(child) for child in found.read().split()]


@pytest.mark.both
def test_in_a_shell_with_the_hook(sandbox, mounted, shell):
    """It is a command of its own there, too, and so is one within another."""
    bash = shell("bash")
    bash.run("echo 1 > before; shfs run sh -c 'echo 2 > inner; shfs run cp inner most'; echo 3 > after")
    bash.close()
    found = {text: one for text, one in commands(sandbox).items() if one["files"]}
    by = {name: text for text, one in found.items() for name in wrote(one)}
    assert by["inner"] == "sh -c 'echo 2 > inner; shfs run cp inner most'" and by["most"] == "cp inner most"
    assert by["before"] == by["after"] and by["before"].startswith("echo 1")


def test_secrets(sandbox, project):
    sandbox.shfs("run", "true", "--password", "hunter2hunter2")
    assert "true --password '[redacted]'" in commands(sandbox) or "true --password [redacted]" in commands(sandbox)
    grep = subprocess.run(["grep", "-ra", "hunter2hunter2", sandbox.store], capture_output=True, check=False)
    assert not grep.stdout


def test_without_a_store(sandbox, project):
    """It runs all the same, and says so."""
    result = sandbox.shfs("--store", "/proc/none", "run", "sh", "-c", "echo ran; exit 4", check=4)
    assert result.stdout == "ran\n" and "not recorded" in result.stderr


def test_what_it_leaves_in_the_background(sandbox, project):
    """Is not waited for."""
    begin = time.monotonic()
    sandbox.sh("shfs run sh -c 'sleep 50 > /dev/null 2>&1 & echo $!' > pid")
    os.kill(int(sandbox.read("pid")), signal.SIGKILL)
    assert time.monotonic() - begin < 50
