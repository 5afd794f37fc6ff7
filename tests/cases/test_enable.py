# SPDX-License-Identifier: MIT
"""shfs enable: a project is recorded again after a reboot, and a shell in one that is not says so."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess

import pytest

from harness import PREFIX, wait_until
from test_hook import KINDS, start
from test_mount_cli import NOT_FOUND, USAGE, is_mounted, one_line, pids_of

pytestmark = pytest.mark.either

ALL_KINDS = [*KINDS, "plain bash", "plain zsh"]


def listed(shfs):
    return {one["path"]: (one["state"], one["mounted"]) for one in json.loads(shfs("enable", "--json").stdout)["projects"]}


def reboot(sandbox, project):
    """All that shfs runs is gone at once, and its mounts."""
    sandbox.allow_exit(-signal.SIGKILL)
    sandbox.allow_log("ended")

    def are_gone():
        """A guardian that was not killed yet may have begun another one."""
        found = pids_of(sandbox)
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not found

    wait_until(are_gone, "the processes to end")
    while is_mounted(project):
        subprocess.run(["umount", "-l", project], check=True)


def count_versions(shfs, path):
    return len(json.loads(shfs("log", "--json", path).stdout)["versions"])


@pytest.mark.users("ordinary")
@pytest.mark.parametrize("kind", ALL_KINDS)
def test_after_a_reboot(sandbox, shfs, shell, project, kind):
    """A login shell that enters an enabled project records there, from its first command on."""
    assert "mounted" in shfs("enable", project).stdout
    assert listed(shfs) == {project: ("enabled", True)}
    sandbox.sh("echo 1 > f")
    reboot(sandbox, project)
    assert listed(shfs) == {project: ("enabled", False)}
    sh = start(shell, kind, cwd=sandbox.home)
    assert not is_mounted(project)
    said = sh.run(f"cd {project}")
    assert is_mounted(project) and "shfs" not in said, said
    sh.run("echo 2 > f")
    sh.close()
    [command] = [one for one in json.loads(shfs("history", "--json", "f").stdout)["commands"] if "echo 2" in (one["text"] or "")]
    assert command["text"] == "echo 2 > f"
    assert count_versions(shfs, f"{project}/f") == 2
    shfs("umount", project, cwd="/")


@pytest.mark.users("ordinary")
@pytest.mark.parametrize("kind", ALL_KINDS)
def test_a_shell_that_begins_inside(sandbox, shfs, shell, project, kind):
    """As a terminal that opens where the last one was; a directory below counts, too."""
    below = sandbox.mkdir(f"{sandbox.mkdir(f'{project}/a')}/b")
    shfs("enable", project)
    reboot(sandbox, project)
    sh = start(shell, kind, cwd=below)
    assert is_mounted(project)
    sh.run("echo 1 > f")
    sh.close()
    assert count_versions(shfs, f"{below}/f") == 1
    shfs("umount", project, cwd="/")


@pytest.mark.users("ordinary")
@pytest.mark.parametrize("kind", ALL_KINDS)
def test_known_and_not_enabled(sandbox, shfs, shell, project, kind):
    """One line, once in a session; none in what only has a name that begins alike, and none once it is disabled."""
    beside = sandbox.mkdir(f"{project}2")
    shfs("mount", project)
    shfs("umount", project)
    sh = start(shell, kind, cwd=sandbox.home)
    assert "not recorded" not in sh.run(f"cd {beside}")
    said = sh.run(f"cd {project}")
    assert said.count("is not recorded now: shfs mount") == 1 and len(said.splitlines()) == 1, said
    sh.run(f"cd {sandbox.home}")
    assert "recorded" not in sh.run(f"cd {project}")
    assert "recorded" not in sh.run("echo")
    sh.close()
    assert not is_mounted(project)
    assert "by itself" in shfs("disable", project).stdout
    sh = start(shell, kind, cwd=project)
    assert "recorded" not in sh.greeting + sh.run(":")
    sh.close()


@pytest.mark.users("ordinary")
@pytest.mark.parametrize("kind", ["fish", "plain bash", "plain zsh"])  # the compiled hooks start it themselves, and say nothing
def test_shfs_is_removed_while_the_shell_runs(sandbox, shfs, shell, project, kind):
    shfs("enable", project)
    reboot(sandbox, project)
    sh = start(shell, kind, cwd=sandbox.home)
    sh.run("set -g _shfs_program /gone" if kind == "fish" else "_shfs_program=/gone")
    assert sh.run(f"cd {project}") == ""
    assert sh.run("echo 1 > f") == ""
    sh.close()
    assert not is_mounted(project)


@pytest.mark.users("ordinary")
def test_what_a_shell_runs_is_no_job(sandbox, shfs, shell, project):
    """The shell's own jobs, and their ends, stay as they are."""
    shfs("mount", project)
    shfs("umount", project)
    sh = shell("bash", cwd=sandbox.home)
    sh.run(f"sleep 100 & cd {project}")
    said = sh.run("jobs; wait -n 99999; echo $?; kill %1; wait %1 2> /dev/null; echo $?")
    assert said.count("sleep 100") >= 1 and said.splitlines()[-1] == "143", said
    sh.close()


def test_enable_and_disable(sandbox, shfs, project):
    other = sandbox.mkdir(f"{sandbox.home}/other")
    assert "no project is enabled" in shfs("enable").stdout
    shfs("enable", project, other)
    shfs("enable", project)  # again
    assert listed(shfs) == {project: ("enabled", True), other: ("enabled", True)}
    assert shfs("enable", "--list").stdout.splitlines() == ["~/project  mounted", "~/other  mounted"]
    assert f"shfs umount {'~/other'}" in shfs("disable", other).stdout
    assert is_mounted(other)
    shfs("umount", other)
    assert shfs("enable", "-l").stdout.splitlines() == ["~/project  mounted"]
    said = shfs("disable", "--now", ".", cwd=project).stdout
    assert "is unmounted" in said and "standing" not in said
    assert listed(shfs) == {project: ("quiet", False), other: ("quiet", False)}
    shfs("mount", other)
    assert listed(shfs)[other] == ("quiet", True)  # it stays as the user wanted it
    shfs("umount", other)


def test_bad_input(sandbox, shfs, project):
    assert "no such directory" in one_line(shfs("enable", f"{project}/none", check=USAGE))
    sandbox.write("file", "x")
    assert "not a directory" in one_line(shfs("enable", f"{project}/file", check=USAGE))
    assert "is not enabled" in one_line(shfs("disable", project, check=NOT_FOUND))
    assert "no directories" in one_line(shfs("enable", "--list", project, check=USAGE))
    odd = sandbox.mkdir(f"{project}/new\nline")
    assert "newline" in one_line(shfs("enable", odd, check=USAGE))
    shfs("umount", odd)
    assert listed(shfs) == {}
    # a project that is gone can be disabled, and does no harm
    gone = sandbox.mkdir(f"{sandbox.home}/gone")
    shfs("enable", gone)
    shfs("umount", gone)
    os.rmdir(gone)
    assert shfs("enable").stdout == "~/gone  is missing\n"
    shfs("disable", gone)
    # a line that is not understood stays
    sandbox.write_outside(f"{sandbox.store}/projects", f"future /x\nknown {project}\n\n")
    assert listed(shfs) == {project: ("known", False)}
    shfs("enable", project)
    assert sandbox.read(f"{sandbox.store}/projects").decode() == f"future /x\nenabled {project}\n\n"
    shfs("umount", project)


@pytest.mark.users("ordinary")
def test_at_once(sandbox, shfs):
    """No line is lost."""
    dirs = [sandbox.mkdir(f"{sandbox.home}/p{n}") for n in range(6)]
    for one in dirs:
        shfs("mount", one)
    started = [sandbox.popen([f"{sandbox.env['PATH'].split(':')[0]}/shfs", "enable", one], stdout=subprocess.DEVNULL) for one in dirs]
    assert [process.wait(60) for process in started] == [0] * 6
    assert listed(shfs) == {one: ("enabled", True) for one in dirs}
    shfs("umount", *dirs)


@pytest.mark.users("ordinary")
def test_a_mount_that_fails_at_the_prompt(sandbox, shfs, shell, project):
    """The prompt says why, once, and comes."""
    shfs("enable", project)
    shfs("umount", project)
    sh = shell("bash", cwd=sandbox.home)
    sandbox.write_outside(f"{sandbox.store}/format", "99\n")
    said = sh.run(f"cd {project}")
    assert "newer" in said and len(said.splitlines()) <= 2 and said.startswith("shfs: "), said
    assert not sh.run(":")
    sh.close()
    sandbox.write_outside(f"{sandbox.store}/format", "1\n")


def test_at_login(sandbox, shfs, project):
    """What the unit runs; also for projects that are gone, or mounted."""
    other, gone = sandbox.mkdir(f"{sandbox.home}/other"), sandbox.mkdir(f"{sandbox.home}/gone")
    shfs("enable", project, other, gone)
    shfs("umount", project, gone)
    os.rmdir(gone)
    result = shfs("mount", "--enabled", check=USAGE)
    assert result.stdout.startswith("~/project is mounted") and len(result.stdout.splitlines()) == 1
    assert gone in one_line(result)
    assert listed(shfs) == {project: ("enabled", True), other: ("enabled", True), gone: ("enabled", False)}
    assert not shfs("disable", gone).stderr and not shfs("mount", "--enabled").stdout
    assert "no directories" in one_line(shfs("mount", "--enabled", project, check=USAGE))
    shfs("umount", project, other)


@pytest.mark.users("ordinary")
def test_the_user_s_systemd(sandbox, shfs, project):
    """It is asked where it runs, and what it refuses is said."""
    shfs("enable", project)  # there is none
    runtime = sandbox.mkdir(f"{sandbox.home}/runtime", 0o700)
    sandbox.mkdir(f"{runtime}/systemd")
    sandbox.write_outside(f"{runtime}/systemd/private", "")
    tools = sandbox.mkdir(f"{sandbox.home}/tools")
    sandbox.write_outside(f"{tools}/systemctl", f"#!/bin/sh\necho \"$@\" >> {tools}/asked; test ! -e {tools}/refuse\n", 0o755)
    sandbox.env.update(XDG_RUNTIME_DIR=runtime, PATH=f"{tools}:{sandbox.env['PATH']}")
    assert not shfs("enable", project).stderr
    assert sandbox.read(f"{tools}/asked") == b"--user --quiet enable shfs.service\n"
    sandbox.write_outside(f"{tools}/refuse", "")
    assert "systemctl --user enable shfs.service failed" in shfs("enable", project).stderr
    shfs("umount", project)


@pytest.mark.users("ordinary")
def test_the_unit(sandbox, tmp_path):
    if not shutil.which("systemd-analyze"):
        pytest.skip("no systemd-analyze")
    with open(f"{PREFIX}/lib/systemd/user/shfs.service", encoding="utf-8") as unit:
        text = re.sub(r"ExecStart=\S+", f"ExecStart={PREFIX}/bin/shfs", unit.read())  # where it is staged
    (tmp_path / "shfs.service").write_text(text)
    argv = ["systemd-analyze", "verify", "--user", "--man=no", str(tmp_path / "shfs.service")]
    run = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert not [line for line in run.stderr.splitlines() if "shfs" in line], run.stderr


@pytest.mark.users("ordinary")
def test_what_status_and_doctor_say(sandbox, shfs, project):
    shfs("enable", project)
    assert "though it is enabled" not in shfs("status").stdout
    shfs("umount", project)
    assert "~/project  not mounted, though it is enabled" in shfs("status").stdout
    assert json.loads(shfs("status", "--json").stdout)["not_mounted"] == [project]
    assert "~/project is enabled, and not mounted" in shfs("doctor", check=False).stdout
    os.rename(project, f"{project}2")
    assert "does not exist any more" in shfs("doctor", check=False, cwd="/").stdout
    os.rename(f"{project}2", project)
