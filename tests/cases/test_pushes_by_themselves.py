# SPDX-License-Identifier: MIT
"""[remote] push, its timer, and what shfs status says of remotes."""

import json
import os
import re
import shutil
import subprocess
import time

import pytest

from harness import PREFIX
from remotes import Directory
from test_forget import shfs
from test_remotes import in_store, pull, push
from test_trees import machines, record

assert shfs and machines  # fixtures
DAY = 24 * 3600 * 10**9


@pytest.fixture
def remote(sandbox):
    return Directory(sandbox)


def configure(sandbox, text):
    path = f"{sandbox.home}/.config/shfs/config.ini"
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="ascii") as file:
        file.write(f"[remote]\npush = {text}\n" if text else "")
    sandbox.user.own(path)


def lacks(shfs, check=False):
    """{remote: what status says of it}"""
    return {r["name"]: r for r in json.loads(shfs("status", "--json", check=check).stdout)["remotes"]}


def ago(sandbox, name, ns, text=""):
    """Has a note be older, as if the clock had gone on."""
    path = f"{sandbox.store}/remote/{name}"
    with open(path, encoding="utf-8") as file:
        was = file.read().split(" ", 1)
    with open(path, "w", encoding="utf-8") as file:
        file.write(" ".join([str(time.time_ns() - ns), *was[1:]]) + ("" if was[1:] else "\n"))


def generations(remote):
    return len([n for n in remote.names() if n.startswith("heads/")]) if os.path.exists(remote.path) else 0


@pytest.mark.users("ordinary")
def test_how_far_behind(sandbox, shfs, remote):
    record(sandbox, "echo one > a", "echo two > b")
    assert lacks(shfs) == {}
    shfs("remote", "add", "r", remote.url)
    shfs("remote", "add", "s", f"{remote.url}2")
    one = lacks(shfs)["r"]
    assert one["pushed"] is None and one["failed"] is None and one["commands"] >= 2 and one["bytes"]
    text = shfs("status", check=False).stdout
    assert re.search(r"^Remotes +r lacks \d+ commands, .*; not pushed yet$", text, re.M)
    before = one["commands"]
    push(shfs, "r")
    now = lacks(shfs)
    assert now["r"]["commands"] == now["r"]["bytes"] == 0 and now["r"]["pushed"]
    assert now["s"]["commands"] == before and now["s"]["bytes"] >= one["bytes"]
    assert re.search(r"^Remotes +r has all of it; pushed 20", shfs("status", check=False).stdout, re.M)
    record(sandbox, "head -c 300000 /dev/urandom > c", "cat a", "head -c 2000000 /dev/urandom > loose")
    now = lacks(shfs)["r"]
    assert 3 <= now["commands"] <= 4 and 2300000 < now["bytes"] < 2400000  # with the shell's exit
    dry = push(shfs, "r", "-n")
    assert lacks(shfs)["r"] == now and dry["bytes"] > 2300000
    push(shfs, "r")
    assert lacks(shfs)["r"]["bytes"] == 0
    # a push that fails has brought nothing
    record(sandbox, "echo three > a")
    was = lacks(shfs)["r"]
    os.rename(remote.path, f"{remote.path}.gone")
    assert shfs("push", "r", check=3)
    assert lacks(shfs)["r"] == was and was["bytes"]


@pytest.mark.users("ordinary")
def test_what_was_pulled_is_not_lacking(sandbox, shfs, remote):
    record(sandbox, "echo one > a", "head -c 2000000 /dev/urandom > loose")
    shfs("remote", "add", "r", remote.url)
    push(shfs)
    path = f"{sandbox.home}/other"
    there = in_store(sandbox, path)
    there("remote", "add", "r", remote.url)
    sandbox.env["SHFS_STORE"] = sandbox.store = path
    record(sandbox, "echo mine > b")
    push(there)
    assert lacks(there)["r"]["bytes"] == 0
    assert pull(there)["objects"]
    assert lacks(there)["r"]["bytes"] < 20000
    push(there)
    assert lacks(there)["r"]["bytes"] == 0


@pytest.mark.users("ordinary")
@pytest.mark.parametrize("how", [(), ("--metadata",)])
def test_what_was_cloned_is_not_lacking(machines, sandbox, shfs, remote, how):
    """A store that has recorded nothing has nothing to push: a clone, on the same machine or another one; one that has only
    pulled; an empty one."""
    machines.go("hosta")
    record(sandbox, "echo one > a", "head -c 2000000 /dev/urandom > loose")
    shfs("remote", "add", "r", remote.url)
    push(shfs)
    names = remote.names()
    for host in "hosta", "hostb":
        machines.go(host)
        sandbox.env["SHFS_STORE"] = sandbox.store = path = f"{sandbox.home}/clone-on-{host}"
        shfs("clone", "--name", "r", *how, remote.url)
        now = lacks(shfs)["r"]
        assert now["commands"] == now["bytes"] == 0 and now["pushed"]
        assert re.search(r"^Remotes +r has all of it; pushed 20", shfs("status", check=False).stdout, re.M)
        assert shfs("push").stdout == "r has all of it already\n" and remote.names() == names
        dry = push(shfs, "-n")
        assert dry["files_new"] == dry["blobs"] == dry["bytes"] == 0
    # what it records then
    record(sandbox, "echo two > b")
    now = lacks(shfs)["r"]
    assert now["commands"] and 0 < now["bytes"] < 100000
    push(shfs)
    assert remote.names() != names and lacks(shfs)["r"]["bytes"] == 0
    new = in_store(sandbox, f"{sandbox.home}/new")
    new("clone", remote.url)
    assert new("cat", f"{sandbox.project}/b@1").stdout == "two\n" and new("check", "--read-data").stdout.endswith("no flaws\n")
    # only pulled, on the machine of these commands
    machines.go("hosta")
    sandbox.env["SHFS_STORE"] = sandbox.store = f"{sandbox.home}/pulled"
    shfs("remote", "add", "r", remote.url)
    names = remote.names()
    for step in range(2):
        now = lacks(shfs)["r"]
        assert now["commands"] == now["bytes"] == 0
        assert re.search(r"^Remotes +r lacks nothing, as nothing is recorded; not pushed yet$", shfs("status", check=False).stdout, re.M)
        if not step:
            pull(shfs, *how)
    assert shfs("push").stdout == "nothing is recorded that could be pushed\n" and remote.names() == names


@pytest.mark.users("ordinary")
def test_a_damaged_clone_is_read(sandbox, shfs, remote):
    """What a clone left out is not taken for what the remote has: its first push reads the files."""
    record(sandbox, "echo one > a", "head -c 6000000 /dev/urandom > loose")
    shfs("remote", "add", "r", remote.url)
    push(shfs)
    remote.flip(max(remote.blobs(), key=lambda name: len(remote.read(name))))
    there = in_store(sandbox, f"{sandbox.home}/there")
    assert there("clone", "--name", "r", remote.url, check=1)
    there("clone", "--name", "r", "--despite-damage", remote.url)
    assert lacks(there)["r"]["bytes"] and not there("check", "--read-data", check=False).stdout.endswith("no flaws\n")


@pytest.mark.users("ordinary")
def test_when_it_is_due(sandbox, shfs, remote):
    record(sandbox, "echo one > a")
    shfs("remote", "add", "r", remote.url)
    for text in "", "off":
        configure(sandbox, text)
        assert not shfs("push", "--automatic").stdout and generations(remote) == 0
    configure(sandbox, "sometimes")
    assert "bad value" in shfs("push", "--automatic", check=False).stderr
    configure(sandbox, "daily")
    result = shfs("push", "--automatic")
    assert generations(remote) == 1 and not result.stdout and not result.stderr
    record(sandbox, "echo two > a")
    shfs("push", "--automatic")
    assert generations(remote) == 1  # not yet
    ago(sandbox, "r/last", DAY + 10**9)
    shfs("push", "--automatic")
    assert generations(remote) == 2
    ago(sandbox, "r/last", DAY + 10**9)
    shfs("push", "--automatic")  # there is nothing new
    assert generations(remote) == 2 and lacks(shfs)["r"]["bytes"] == 0
    ago(sandbox, "r/last", -DAY)  # the clock was set back
    record(sandbox, "echo three > a")
    shfs("push", "--automatic")
    assert generations(remote) == 3
    configure(sandbox, "on-idle")
    idle = {"SHFS_PUSH_IDLE_MS": "0"}
    record(sandbox, "echo four > a")
    shfs("push", "--automatic")
    assert generations(remote) == 3  # something was recorded a moment ago
    shfs("push", "--automatic", env=idle)
    assert generations(remote) == 4
    shfs("remote", "add", "s", f"{remote.url}2")
    shfs("push", "--automatic", "r", env=idle)
    assert not os.path.exists(f"{remote.url}2/heads")
    shfs("push", "--automatic", env=idle)
    assert os.path.exists(f"{remote.url}2/heads") and generations(remote) == 4


@pytest.mark.users("ordinary")
def test_failures_are_said_once(sandbox, shfs, remote):
    configure(sandbox, "daily")
    record(sandbox, "echo one > a")
    shfs("remote", "add", "r", remote.url)
    shfs("remote", "add", "s", f"{remote.url}2")
    shfs("push", "--automatic")
    for name in "r", "s":
        ago(sandbox, f"{name}/last", 2 * DAY)
    record(sandbox, "echo two > a")
    os.rename(remote.path, f"{remote.path}.gone")
    said = shfs("push", "--automatic", check=1).stderr
    assert said.startswith("shfs: r: cannot push to ") and "there is no remote of shfs" in said and len(said.splitlines()) == 1
    assert generations(Directory2(remote)) == 2  # the other one was not kept from it
    now = lacks(shfs)
    assert now["r"]["failed"] and "there is no remote" in now["r"]["why"] and now["r"]["bytes"] and now["s"]["failed"] is None
    for _ in range(2):
        again = shfs("push", "--automatic")
        assert not again.stderr and not again.stdout
    assert lacks(shfs)["r"]["failed"] == now["r"]["failed"]  # since then
    text = shfs("status", check=False).stdout
    assert re.search("since .* it fails by itself: cannot push to .*no remote of shfs", text) and "fail since days" not in text
    ago(sandbox, "r/failed", 4 * DAY)
    assert "! pushes to r fail since days" in shfs("status", check=1).stdout
    os.mkdir(remote.path)
    with open(f"{remote.path}/x", "wb"):
        pass
    assert "no remote of shfs" in shfs("push", "--automatic", check=1).stderr  # for another reason
    shutil.rmtree(remote.path)
    os.rename(f"{remote.path}.gone", remote.path)
    shfs("push", "--automatic")
    now = lacks(shfs)["r"]
    assert now["failed"] is None and now["why"] is None and now["bytes"] == 0
    ago(sandbox, "automatic", 4 * DAY)
    assert "nothing pushes by itself" in shfs("status", check=1).stdout
    configure(sandbox, "off")
    assert "nothing pushes by itself" not in shfs("status", check=False).stdout


class Directory2(Directory):
    def __init__(self, other):
        self.sandbox, self.path = other.sandbox, f"{other.path}2"
        self.url = self.path


@pytest.mark.users("ordinary")
def test_the_timer(sandbox, shfs, remote):
    """The user's systemd is asked where pushes are wanted; what it refuses, and that there is none, is said."""
    record(sandbox, "echo one > a")
    assert not shfs("remote", "add", "r", remote.url).stderr
    configure(sandbox, "daily")
    assert "have cron run shfs push --automatic" in shfs("remote", "add", "s", remote.url).stderr
    runtime = sandbox.mkdir(f"{sandbox.home}/runtime", 0o700)
    sandbox.mkdir(f"{runtime}/systemd")
    sandbox.write_outside(f"{runtime}/systemd/private", "")
    tools = sandbox.mkdir(f"{sandbox.home}/tools")
    sandbox.write_outside(f"{tools}/systemctl", f"#!/bin/sh\necho \"$@\" >> {tools}/asked; test ! -e {tools}/refuse\n", 0o755)
    sandbox.env.update(XDG_RUNTIME_DIR=runtime, PATH=f"{tools}:{sandbox.env['PATH']}")
    assert not shfs("remote", "add", "t", remote.url).stderr
    assert sandbox.read(f"{tools}/asked") == b"--user --quiet enable --now shfs-push.timer\n"
    sandbox.write_outside(f"{tools}/refuse", "")
    assert "shfs-push.timer failed" in shfs("remote", "add", "u", remote.url).stderr
    # it is not there until it has come once
    assert "nothing pushes by itself" in shfs("status", check=1).stdout
    shfs("push", "--automatic", "r")
    assert "nothing pushes by itself" not in shfs("status", check=False).stdout


@pytest.mark.users("ordinary")
def test_the_units(sandbox, tmp_path):
    if not shutil.which("systemd-analyze"):
        pytest.skip("no systemd-analyze")
    for name in "shfs-push.service", "shfs-push.timer":
        with open(f"{PREFIX}/lib/systemd/user/{name}", encoding="utf-8") as unit:
            (tmp_path / name).write_text(re.sub(r"ExecStart=\S+", f"ExecStart={PREFIX}/bin/shfs", unit.read()))
    for name in "shfs-push.service", "shfs-push.timer":
        argv = ["systemd-analyze", "verify", "--user", "--man=no", str(tmp_path / name)]
        run = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert not [line for line in run.stderr.splitlines() if "shfs" in line], run.stderr
