# SPDX-License-Identifier: MIT
"""The harness itself: a shell's output is exact, and what a case leaves behind is seen."""

import json
import os
import subprocess

import pytest

import harness

pytestmark = pytest.mark.either

KINDS = ["bash", "zsh", "fish"]


@pytest.mark.parametrize("kind", KINDS)
def test_shell_output_is_exact(shell, kind):
    sh = shell(kind, init=False)
    assert sh.run("echo hello") == "hello"
    assert sh.run("true") == ""
    assert sh.run("printf 'no newline'") == "no newline"
    assert sh.run("printf 'a\\nb\\n'") == "a\nb"
    assert sh.run("false; echo $status$?" if kind == "zsh" else "echo x") in ("11", "x")
    long = "0123456789" * 15
    assert sh.run(f"echo {long}") == long
    assert sh.run("") == ""
    assert sh.run("pwd") == sh.run("echo $PWD")
    assert sh.run("stty size") == "24 80"


@pytest.mark.parametrize("kind", KINDS)
def test_shell_survives_interrupt(shell, kind):
    sh = shell(kind, init=False)
    sh.send("sleep 60\r")
    sh.wait_for_job("sleep")
    sh.send("\x03")
    sh.wait()
    assert sh.run("echo alive") == "alive"


@pytest.mark.both
def test_user_is_who_runs(sandbox, shell, user):
    assert sandbox.sh("id -u").stdout == f"{user.uid}\n"
    assert shell("bash", init=False).run("id -u; id -G") == f"{user.uid}\n{user.gid}" or user.uid == 0
    assert (user.uid == 0) == (user.name == "root")


def test_environment_is_clean(sandbox):
    names = {line.partition("=")[0] for line in sandbox.run("env").stdout.splitlines()}
    assert names <= set(sandbox.env) | {"PWD", "SHLVL", "_"}
    assert "SHFS_TEST_DIR" not in names


def test_nothing_above_is_a_command(mount, sandbox):
    """Whoever runs the tests: an agent, a CI runner, sh -c (orphan.py)."""
    mount()
    sandbox.sh("date > made")
    assert json.loads(sandbox.shfs("history", "--json").stdout)["commands"] == []


def test_project_files_by_the_user(sandbox):
    sandbox.write("a name\n", b"\x00\xff")
    assert sandbox.read("a name\n") == b"\x00\xff"
    assert os.stat(sandbox.project + "/a name\n").st_uid == sandbox.user.uid


def test_unexpected_status_fails(sandbox):
    with pytest.raises(pytest.fail.Exception):
        sandbox.run("false")
    assert sandbox.run("false", check=1).status == 1


@pytest.mark.users("ordinary")
def test_sanitizer_report_fails_the_case(user):
    box = harness.Sandbox(user, "sanitizer")
    program = box.compile("overflow", "int main(int c, char **v) { return v[c + 1] == v[0]; }")
    box.close()
    box.write_outside(f"{box.reports}/san.1", "heap-use-after-free")
    with pytest.raises(pytest.fail.Exception, match="sanitizer"):
        box.close()
    assert os.path.exists(program)


@pytest.mark.users("ordinary")
def test_trouble_in_a_log_fails_the_case(user):
    box = harness.Sandbox(user, "log")
    box.write_outside(f"{box.store}/log/fuse-1.log", "an ERROR\n")
    with pytest.raises(pytest.fail.Exception, match="ERROR"):
        box.close()
    box.allow_log("ERROR")
    box.close()


@pytest.mark.both
def test_leftover_processes_are_killed(user):
    box = harness.Sandbox(user, f"left-{user.name}")
    pid = int(box.sh("sleep 600 >/dev/null 2>&1 & echo $!").stdout)
    assert os.path.exists(f"/proc/{pid}")
    box.close()
    assert not os.path.exists(f"/proc/{pid}")
