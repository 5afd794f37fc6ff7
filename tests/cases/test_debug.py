# SPDX-License-Identifier: MIT
"""What developers are told: SHFS_DEBUG, and assertions, which the release has not."""

import os
import re

import pytest

from harness import PREFIX

AREAS = "all, capture, command, ingest, journal, objects, query, recorder, recording, transport, watch"


@pytest.mark.users("ordinary")
def test_why_a_file_is_not_archived(sandbox):
    """By a rule, or its size: by path, in the log of a mount that took the areas from shfs mount."""
    sandbox.allow_log(".")
    sandbox.write_outside(f"{sandbox.home}/.config/shfs/config.ini", "[archive]\nmax-size = 1K\n")
    sandbox.shfs("--debug=capture,watch", "mount", sandbox.project)
    sandbox.sh("echo x > .env; seq 1000 > large; echo x > kept; cat kept >/dev/null")
    sandbox.shfs("sync")
    [log] = [text for path, text in sandbox.logs().items() if os.path.basename(path).startswith("fuse-")]
    sandbox.unmount(sandbox.project)
    assert re.search(r"capture: \.env: a rule leaves out what it holds", log)
    assert re.search(r"capture: \.env: record \d+, 2 bytes: not archived: a rule", log)
    assert re.search(r"capture: large: record \d+, 3893 bytes: not archived: its size", log)
    assert re.search(r"capture: kept: record \d+, 2 bytes: object [0-9a-f]{32}", log)
    assert "watch: file " in log and "transport: " not in log


@pytest.mark.users("ordinary")
def test_which_command(sandbox):
    mount = sandbox.mount()
    sandbox.sh("echo one > file")
    mount.unmount()
    result = sandbox.shfs("reindex", "--debug", "command")
    assert re.search(r"command: process \d+ \(task \d+, .*\): session \d+, command \d+", result.stderr)
    assert "ingest: " not in result.stderr
    result = sandbox.shfs("log", "file", env={"SHFS_DEBUG": "query,ingest"})
    assert "query: store " in result.stderr and "ingest: " in result.stderr
    assert result.stdout == sandbox.shfs("log", "file").stdout


@pytest.mark.users("ordinary")
def test_an_unknown_area(sandbox):
    for result in (sandbox.shfs("--debug=cap", "log", "f", check=2),
                   sandbox.shfs("log", "f", env={"SHFS_DEBUG": "ingest,x"}, check=2)):
        assert AREAS in result.stderr and result.stdout == ""
    for program in "shfs-fuse", "shfs-watch":
        path = f"{PREFIX}/libexec/shfs/{program}"
        result = sandbox.run(path, sandbox.project, env={"SHFS_DEBUG": "x"}, check=False)
        assert result.status == 2 and AREAS in result.stderr


@pytest.mark.users("ordinary")
def test_assertions_are_for_developers(sandbox):
    """They are in a program that has a sanitizer, and in no other."""
    for program in "bin/shfs", "libexec/shfs/shfs-fuse", "libexec/shfs/shfs-watch":
        with open(f"{PREFIX}/{program}", "rb") as file:
            data = file.read()
        developers = b"__asan_init" in data or b"__tsan_init" in data
        assert (b"assertion failed" in data) == developers
        assert (b"c->memory >= job->reserved" in data) == developers
