# SPDX-License-Identifier: MIT
"""A command that was typed here owns what it did on another host: by LC_SHFS through a real sshd, and by content."""

import contextlib
import json
import os
import re
import shutil

import pytest

from sshd import Sshd
from test_faults import clock
from test_hook import PLAIN
from test_trees import Machines, export

assert clock  # a fixture
pytestmark = [
    pytest.mark.users("ordinary"),
    pytest.mark.timeout(120),
    pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("sshd"), reason="needs sshd, and root to start it"),
]


class Hosts(Machines):
    """hosta with the project of the sandbox, hostb with a project of its own, and sshd on hostb."""

    def __init__(self, sandbox):
        super().__init__(sandbox)
        self.remote, self.there = f"{sandbox.home}/remote", {}
        sandbox.mkdir(self.remote)
        self.ssh = Sshd(sandbox)
        self.ssh.configure("BatchMode yes", "SendEnv LANG LC_*")
        self.keys, self.port = self.ssh.keys, self.ssh.port

    def go(self, name):
        """As there, but the projects stay."""
        removes, self.sandbox.sh = self.sandbox.sh, lambda *_: None
        try:
            super().go(name)
        finally:
            self.sandbox.sh = removes

    @contextlib.contextmanager
    def sshd(self, *lines):
        """On hostb. Its children have the environment of a login, and the store of hostb."""
        env = {"SHFS_STORE": f"{self.sandbox.home}/hostb-store", "PATH": self.sandbox.env["PATH"], "HOME": self.sandbox.home,
               "XDG_RUNTIME_DIR": self.sandbox.env["XDG_RUNTIME_DIR"], "SHFS_INDEX_WAIT": "all", "LC_ALL": "C.UTF-8", "ASAN_OPTIONS": "detect_leaks=0"}  # fmt: skip
        names = " ".join(f"{name}={value}" for name, value in env.items())
        self.ssh.start(f"SetEnv {names}", *lines, argv=["nsenter", "-t", str(self.keepers["hostb"].pid), "-u"])
        try:
            yield
        finally:
            self.ssh.close()


@pytest.fixture
def hosts(sandbox):
    it = Hosts(sandbox)
    yield it
    it.end()


def work(hosts, sandbox, lines, accept="AcceptEnv LANG LC_*", kind="bash", env=None, mount_env=None, **options):
    """Types lines on hosta while both projects are mounted, then takes in what hostb has recorded.
    mount_env: of the mount on hostb. Returns what they printed."""
    sandbox.write_outside(f"{sandbox.home}/bin/ssh", f'#!/bin/sh\nexec /usr/bin/ssh -F {hosts.keys}/client "$@"\n', 0o755)
    hosts.go("hostb")
    sandbox.env.update(mount_env or {})
    there = sandbox.mount(hosts.remote)
    for name in mount_env or {}:
        del sandbox.env[name]
    hosts.go("hosta")
    here = sandbox.mount()
    with hosts.sshd(accept):
        shell = sandbox.shell(kind, env={"PATH": f"{sandbox.home}/bin:{sandbox.env['PATH']}", **(env or {})}, **options)
        printed = [shell.run(line.replace("REMOTE", hosts.remote)) for line in lines]
        shell.close()
    here.unmount()
    hosts.go("hostb")
    there.unmount()
    archive = export(sandbox, "b")
    hosts.go("hosta")
    sandbox.shfs("import", archive)
    return printed


def rows(sandbox, *options):
    return json.loads(sandbox.shfs("history", "--all", "--reverse", "--json", *options).stdout)["commands"]


def ids(sandbox):
    """Of the commands that were typed on hosta, by their texts."""
    return {row["text"]: row["id"] for row in rows(sandbox) if row["id"] and row["host"] == "hosta"}


def texts_within(sandbox, hosts, command_id):
    return [(one["host"], one["text"].replace(hosts.remote, "REMOTE")) for one in rows(sandbox, "--within", command_id)]


@pytest.mark.parametrize("kind", ["bash", "plain bash", "zsh", "plain zsh", "fish"])
def test_each_shell(hosts, sandbox, shfs, kind):
    """LC_SHFS is there while a command runs, and only then; what it names owns what ran there."""
    name = kind.split()[-1]
    options = {"init": False, "after": PLAIN.replace("bash", name)} if kind != name else {}
    lines = ["ssh there 'cd REMOTE; echo 1 > one'", "env | grep ^LC_SHFS=; true", "true", "ssh there 'cd REMOTE; cat one > two; true'"]
    printed = work(hosts, sandbox, lines, kind=name, **options)
    assert re.fullmatch(r"LC_SHFS=hosta:[0-9a-f]{8}-[0-9]+-[0-9]+:2", printed[1]), printed
    found = ids(sandbox)
    for line, text in (0, "cd REMOTE; echo 1 > one"), (3, "cd REMOTE; cat one > two; true"):
        command = found[lines[line].replace("REMOTE", hosts.remote)]
        assert texts_within(sandbox, hosts, command) == [("hostb", text)]
        [below] = rows(sandbox, "--within", command)
        assert json.loads(shfs("show", "--json", below["id"]).stdout)["caller"] == command
        assert re.search(f"in +{command[:7]}.*on hosta", shfs("show", below["id"]).stdout)
        assert "1 command as ssh sshd on hostb" in shfs("show", command).stdout
    assert f"of {command[:7]} on hosta" in shfs("why", f"hostb:{hosts.remote}/two").stdout


def test_all_that_ssh_carries(hosts, sandbox, shfs):
    """Copies by scp, sftp, rsync and git; a shell there with its hook, and a shell in that one's ssh."""
    lines = [
        "seq 40 90 > more; seq 50 | sort -r > sent; scp -S ssh -q -O sent there:REMOTE/by-scp",
        "echo 'put more REMOTE/by-sftp' | sftp -S ssh -q -b - there",
        "rsync -e ssh more there:REMOTE/by-rsync",
        "ssh there 'cd REMOTE && tac by-scp > made'",
        "scp -S ssh -q there:REMOTE/made got",
    ]  # fmt: skip
    if shutil.which("git"):
        lines += ["git init -q g; cd g; git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x; cd ..",
                  "ssh there git init -q --bare REMOTE/bare", "cd g; git push -q there:REMOTE/bare HEAD:x; cd .."]  # fmt: skip
    work(hosts, sandbox, lines)
    found = ids(sandbox)
    # sftp-server hides its environment, also from programs of its user
    assert texts_within(sandbox, hosts, found[lines[1].replace("REMOTE", hosts.remote)]) == []
    for line in [lines[0], *lines[2:4], *lines[6:]]:
        [*below] = texts_within(sandbox, hosts, found[line.replace("REMOTE", hosts.remote)])
        assert below and {host for host, _ in below} == {"hostb"}, (line, below)
    # and by content: what came back was made there, of what was sent from here
    why = shfs("why", "--json", "got").stdout
    for part in "hostb:", "/by-scp", "tac by-scp", "sort -r", "/sent":
        assert part in why, (part, why)
    impact = shfs("impact", "more").stdout
    assert "by-rsync" in impact and "by-sftp" in impact
    # LC_SHFS is no part of what a command was given
    assert "LC_SHFS" not in shfs("show", "--json", found[lines[0].replace("REMOTE", hosts.remote)]).stdout
    stale = shfs("stale", check=False)
    assert stale.status == 0, stale
    # what was done there is not undone here
    assert "hostb" not in shfs("undo", "--dry-run", found[lines[0].replace("REMOTE", hosts.remote)], check=False).stdout


def test_a_shell_there(hosts, sandbox, shfs):
    """Its hook writes down where it began; what is typed there is within the ssh, as is what that runs."""
    work(hosts, sandbox, ["ssh -t there bash -i; true", "cd REMOTE; echo a > typed-there", "env | grep ^LC_SHFS= > seen", "exit"])
    [ssh] = [row["id"] for row in rows(sandbox) if row["text"] == "ssh -t there bash -i; true"]
    below = texts_within(sandbox, hosts, ssh)
    assert ("hostb", "cd REMOTE; echo a > typed-there") in below, below
    assert re.match(r"LC_SHFS=hostb:", shfs("cat", f"hostb:{hosts.remote}/seen").stdout)
    assert "as bash on hostb" in shfs("show", ssh).stdout
    shfs("reindex")
    assert texts_within(sandbox, hosts, ssh) == below


@pytest.mark.parametrize("off", ["there", "here"])
def test_without(hosts, sandbox, shfs, off):
    """Where sshd does not take LC_*, or the hook does not set it: by content alone."""
    if off == "here":
        sandbox.write_outside(f"{sandbox.home}/.config/shfs/config.ini", "[hook]\norigin = no\n")
    lines = ["env | grep ^LC_SHFS; true", "seq 50 > data; scp -S ssh -q data there:REMOTE/copy",
             "ssh there 'cd REMOTE; tac copy > made'"]  # fmt: skip
    printed = work(hosts, sandbox, lines, accept="AcceptEnv LANG" if off == "there" else "AcceptEnv LC_*")
    assert bool(printed[0]) == (off == "there")
    for command in ids(sandbox).values():
        assert texts_within(sandbox, hosts, command) == []
    assert [row for row in rows(sandbox) if row["host"] == "hostb" and row["invoker"] == "ssh sshd"]
    why = shfs("why", f"hostb:{hosts.remote}/made").stdout
    assert "data@1" in why and "seq 50" in why and "on hosta" not in why


@pytest.mark.parametrize("off", [-7200, 0, 3 * 86400])
def test_clocks_that_differ(hosts, sandbox, shfs, clock, off):
    """What ran in a command comes behind it, and ahead of the next one, whatever the clock there said."""
    mount_env = {name: sandbox.env.pop(name) for name in ("LD_PRELOAD", "CLOCK_OFFSET")}
    clock[0] = off
    lines = ["echo a > first", "ssh there 'cd REMOTE; echo 1 > one'", "echo b > second", "ssh there 'cd REMOTE; cat one > two; true'", "echo c > third"]
    work(hosts, sandbox, lines, mount_env=mount_env)
    right = ["echo a > first", "ssh there 'cd REMOTE; echo 1 > one'", "cd REMOTE; echo 1 > one", "echo b > second",
             "ssh there 'cd REMOTE; cat one > two; true'", "cd REMOTE; cat one > two; true", "echo c > third", "exit"]  # fmt: skip
    for _ in range(2):
        assert [row["text"].replace(hosts.remote, "REMOTE") for row in rows(sandbox)] == right
        shfs("reindex")
    assert [row["host"] for row in rows(sandbox, "--here")] == ["hosta"] * 6
    hosts.go("hostb")
    assert [row["host"] for row in rows(sandbox, "--here")] == ["hostb"] * 2


FORGED = ["", "hosta", "hosta:00000000-1-1:1", "hosta:{boot}-{pid}-{start}:99", "x" * 4000, "hosta:{boot}-{pid}-{start}:-1",
          "hosta:{boot}-{pid}-{start}:18446744073709551617", "../../etc:{boot}-{pid}-{start}:1", "hosta:{boot}-{pid}-{start}:1 agent x",
          "hosta:{boot}-{pid}-{start}:01", "hosta:{boot}-{pid}-{start}:1@", "hosta\x1b[31m:{boot}-{pid}-{start}:1"]  # fmt: skip


def test_values_that_are_made_up(hosts, sandbox, shfs):
    """They name nothing, and what lies behind them is recorded all the same."""
    lines = ["true", "echo ${LC_SHFS}"]
    lines += [f"LC_SHFS=$(printf %b {value!r} | sed \"s/{{boot}}-{{pid}}-{{start}}/${{SHFS_SESSION}}/\") ssh there 'cd REMOTE; echo {n} > forged{n}; true'"
              for n, value in enumerate(FORGED)]  # fmt: skip
    work(hosts, sandbox, lines)
    below = [row for row in rows(sandbox) if row["host"] == "hostb"]
    assert len(below) == len(FORGED)
    for row in below:
        assert json.loads(shfs("show", "--json", row["id"]).stdout)["caller"] is None
    assert {name for command in ids(sandbox).values() for name in texts_within(sandbox, hosts, command)} == set()
    shfs("check")
