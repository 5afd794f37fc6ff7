# SPDX-License-Identifier: MIT
"""A recording that ended unexpectedly is accounted for; and a content that may have changed while
nothing watched is not taken for the one that was read."""

import json
import os
import re
import signal

import pytest

from harness import wait_until
from test_capture import contents
from test_mount_cli import is_mounted, pids_of, status_of

pytestmark = pytest.mark.either

FAILURE = 1


def kill(sandbox, mount):
    """The daemon, once something was closed and acknowledged that it has not written yet. It is one
    in the foreground, which does not come again by itself."""
    mount.expected_status = -signal.SIGKILL
    sandbox.allow_log("ended")
    sandbox.sh("for i in 1 2 3 4 5; do echo $i > late$i; done")
    mount.process.kill()
    wait_until(lambda: not is_mounted(mount.directory), "the mount to go")
    mount.wait()
    wait_until(lambda: not pids_of(sandbox, "shfs-fuse"), "the guardian to end")


def gaps(shfs, *command):
    return json.loads(shfs(*command, "--json", check=False, cwd="/").stdout)["gaps"]


@pytest.fixture
def killed(sandbox, shfs, shell, project):
    for i in range(1, 6):
        sandbox.write_outside(f"{project}/late{i}", b"before")
    mount = sandbox.mount()
    bash = shell()
    bash.run("echo one > file")
    shfs("sync")
    kill(sandbox, mount)
    return bash


@pytest.mark.both
def test_gap_is_told(killed, sandbox, shfs, project):
    [gap] = gaps(shfs, "status")
    assert gap["root"] == project and gap["begin"] and gap["end"] is None
    text = shfs("status", check=FAILURE, cwd="/").stdout
    assert re.search(r"^Gaps +the recording of ~/project ended unexpectedly after \d{4}-", text, re.M), text
    assert "may be missing" in text
    doctor = shfs("doctor", check=False, cwd="/").stdout
    assert re.search("^warn  the recording of ~/project ended unexpectedly after", doctor, re.M), doctor
    assert "the journal is sound" not in doctor
    again = shfs("reindex", cwd="/")
    assert gaps(shfs, "status") == [gap], again


def test_the_last_closes_are_known(killed, sandbox, shfs, project):
    """Also those that were not in the journal yet: who closed what, though not what it held."""
    def uses(i):
        found = json.loads(shfs("history", "--json", f"{project}/late{i}", cwd="/").stdout)
        return [(c["argv"][0], f["use"]) for c in found["commands"] for f in c["files"] if f["path"].endswith(f"late{i}")]

    for again in range(2):
        assert [uses(i) for i in range(1, 5)] == [[("/bin/sh", "wrote")]] * 4
        shfs("reindex", cwd="/")
    shfs("mount", project, cwd="/")
    sandbox.run("sh", "-c", "cat late3; echo new > late3")
    assert contents(sandbox, "late3") == [b"3\n", b"new\n"]
    shfs("umount", project, cwd="/")


def test_nothing_is_wrong_with_the_store(killed, shfs):
    """What a file held before a change was just being read."""
    shfs("check", "--read-data", cwd="/")


def test_gap_in_history(killed, sandbox, shfs, project):
    shfs("mount", project, cwd="/")
    killed.run(f"cd {project}")  # the shell stands beside the mount
    killed.run("echo two > file")
    shfs("sync")
    [gap] = gaps(shfs, "history", project)
    assert gap["begin"] < gap["end"] and gap == gaps(shfs, "status")[0]
    for args in (), ("--reverse",):
        text = shfs("history", *args, project).stdout
        order = "echo one > file", "ended unexpectedly", "echo two > file"
        found = [text.index(word) for word in order]
        assert found == sorted(found, reverse=not args), text
    # not in another place, nor at another time
    os.makedirs(f"{sandbox.home}/other", exist_ok=True)
    assert gaps(shfs, "history", f"{sandbox.home}/other") == []
    assert gaps(shfs, "history", "--until", "2020-01-01") == []
    # it is nobody's answer who asks for certain commands
    for more in ["-g", "true"], ["--name", "data"], ["--status", "0"]:
        assert gaps(shfs, "history", *more, project) == [], more
    assert "ended unexpectedly" not in shfs("history", "-n", "1", project).stdout
    # the recording goes on: this is past, and no problem any more
    entry, answer = status_of(shfs, project)
    assert entry["state"] == "recording" and not [p for p in answer["problems"] if "ended" in p]
    shfs("umount", project, cwd="/")


def test_no_gap_after_good_ends(sandbox, shfs, project):
    for _ in range(3):
        shfs("mount", project, cwd="/")
        sandbox.sh("echo text >> file")
        assert gaps(shfs, "status") == []
        shfs("umount", project, cwd="/")
        assert gaps(shfs, "status") == []
    wait_until(lambda: not pids_of(sandbox, "shfs-fuse"), "the daemons to end")
    assert gaps(shfs, "status") == []
    assert "the journal is sound" in shfs("doctor", check=False, cwd="/").stdout


def test_alert_of_another_project_stays(killed, sandbox, shfs, project):
    other = sandbox.mkdir(f"{sandbox.home}/other")
    shfs("mount", other, cwd="/")
    status = shfs("status", check=FAILURE, cwd="/").stdout
    assert re.search("^! the recording of .*project ended unexpectedly", status, re.M), status
    shfs("mount", project, cwd="/")
    _, answer = status_of(shfs, project)
    assert not [p for p in answer["problems"] if "ended" in p]
    for directory in other, project:
        shfs("umount", directory, cwd="/")


# --- a content is the same only if that is proven ---


def change_unseen(path):
    """A byte that no fingerprint covers, and the mtime set back."""
    before = os.stat(path)
    with open(path, "r+b") as data:
        data.seek(1000)
        data.write(b"X")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def versions(shfs, path):
    return [(v["n"], v["object"] is not None) for v in json.loads(shfs("log", "--json", path).stdout)["versions"]][::-1]


@pytest.fixture
def data(sandbox, shfs, project):
    """Read once in a mount that has ended, and so known by its fingerprint alone."""
    path = sandbox.write_outside(f"{project}/data", b"a" * 4000)
    shfs("mount", project, cwd="/")
    sandbox.sh("cat data > /dev/null")
    shfs("umount", project, cwd="/")
    yield path
    shfs("umount", project, cwd="/")


def test_changed_while_nothing_watched(data, sandbox, shfs, project):
    change_unseen(data)
    shfs("mount", project, cwd="/")
    sandbox.sh("echo more >> data")
    shfs("sync")
    assert versions(shfs, data) == [(1, False), (2, True), (3, True)]
    assert b"X" in contents(sandbox, "data")[1]
    assert shfs("cat", f"{data}@1", check=False).status != 0


UNCHANGED = {
    "one by one": ["cat data > /dev/null; chmod 600 data; touch data; cat data > /dev/null; mv data x; mv x data"],
    # what a reader saw is told when it closes the file, after what others did to its attributes and name
    "while it is read": [
        "exec 3< data; cat <&3 > /dev/null; setfattr -n user.k -v 1 data; chmod 600 data; touch data; exec 3<&-",
        "exec 3< data; cat <&3 > /dev/null; mv data x; mv x data; exec 3<&-",
    ],
}


@pytest.mark.parametrize("how", UNCHANGED)
def test_unchanged_is_the_same_version(data, sandbox, shfs, project, how):
    for _ in range(2):
        shfs("mount", project, cwd="/")
        for line in UNCHANGED[how]:
            sandbox.sh(line)
        shfs("umount", project, cwd="/")
    shfs("mount", project, cwd="/")
    sandbox.sh("cat data > /dev/null; echo more >> data")
    shfs("sync")
    assert versions(shfs, data) == [(1, True), (2, True)]
    assert contents(sandbox, "data")[0] == b"a" * 4000
