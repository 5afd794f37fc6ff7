# SPDX-License-Identifier: MIT
"""A home on NFS: several hosts, and one journal. Where the kernel can be a server and a client of it;
elsewhere test_vm.py runs these in a virtual machine."""

import itertools
import json
import os
import subprocess
import time

import pytest

import harness
import nfs

pytestmark = [
    pytest.mark.timeout(200),
    pytest.mark.alone,
    pytest.mark.skipif(os.geteuid() != 0 or not nfs.is_known(), reason="needs root, and NFS in the kernel"),
]

REFUSED = 4
numbers = itertools.count(1000)


@pytest.fixture
def server(user):
    path = os.path.join(harness.WORK, "export")
    os.makedirs(path, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32m", "export", path], check=True)
    os.chmod(path, 0o755)
    os.chown(path, user.uid, user.gid)
    server = nfs.Server(path)
    yield server
    server.stop()
    subprocess.run(["umount", path], check=True)


@pytest.fixture
def locks():
    trace = nfs.Locks()
    yield trace
    trace.end()


@pytest.fixture
def hosts(user, server, locks):
    """hosts(name) -> a Host. Nobody takes a lock on the home of any."""
    home = os.path.join(harness.WORK, "nfs-home")
    os.makedirs(home, exist_ok=True)
    made = []

    def make(name, **options):
        made.append(nfs.Host(user, next(numbers), name, len(made) + 1, server, home, **options))
        return made[-1]

    yield make
    for host in made:
        host.leave()
    devices = [host.device() for host in made]
    of_server = os.stat(server.directory).st_dev
    devices.append(f"{os.major(of_server)}:{os.minor(of_server)}")
    taken = locks.of(*devices)
    made[0].sh("flock ~/.config true", cwd="/")
    assert locks.of(*devices), "they are seen"
    for host in made:
        host.end()
    assert not taken, "\n".join(taken[:20])


def history(host, *args):
    found = json.loads(host.shfs("history", "--json", *args, cwd="/").stdout)["commands"]
    return {c["text"]: c["host"] for c in found}


def index_of(host):
    """All of it, as it lies there."""
    return host.sh("cat /var/tmp/shfs-*/*/index.db*", cwd="/").stdout_bytes


@pytest.mark.users("ordinary")
def test_two_hosts(hosts):
    a, b = hosts("one"), hosts("two")
    for host in a, b:
        host.shfs("mount", host.project, cwd="/")
    b.shfs("mount", b.local, cwd="/")
    shells = {host: host.shell() for host in (a, b)}
    for i in range(2):
        for host in a, b:
            assert shells[host].run(f"echo {host.name} {i} > f") == ""
    assert shells[b].run(f"cat ~/one/f f > {b.local}/both; rm -r f; mkdir d; echo d > d/f; rm -r d") == ""
    expected = {f"echo {h} {i} > f": h for h in ("one", "two") for i in range(2)}
    for host in a, b:
        found = history(host)
        assert expected.items() <= found.items() and len(found) == 5
        # what the other has written
        assert host.shfs("cat", f"{a.project}/f@1", cwd="/").stdout == "one 0\n"
        assert host.shfs("cat", f"{b.local}/both", cwd="/").stdout == "one 1\ntwo 1\n"
    b.shfs("restore", f"{b.project}/f@1", cwd="/")
    assert b.read("f") == b"two 0\n"
    found = a.sh("ls -R ~/.local/share/shfs", cwd="/").stdout
    assert "index.db" not in found and "two-" in found

    # who might still record is not waited for, nor overlooked
    for refused in ["gc"], ["prune", "--keep-last", "1"]:
        result = a.shfs(*refused, cwd="/", check=False)
        assert result.status and "network" in result.stderr, result
    refused = a.shfs("forget", "--yes", "--grep", "echo two", cwd="/", check=False)
    assert refused.status == REFUSED, refused
    for host in a, b:
        shells[host].run("cd /")
        host.shfs("umount", host.project, cwd="/")
    refused = a.shfs("forget", "--yes", "--grep", "echo two", cwd="/", check=False)
    assert refused.status == REFUSED and b.local in refused.stderr, refused
    b.shfs("umount", b.local, cwd="/")
    assert b"echo two 0" in index_of(b)
    a.shfs("forget", "--yes", "--grep", "echo two", cwd="/")
    for host in a, b:
        assert history(host).keys() & expected.keys() == {"echo one 0 > f", "echo one 1 > f"}
        assert b"echo two 0" not in index_of(host)
    a.shfs("prune", "--keep-last", "1", "--offline", cwd="/")
    assert a.shfs("cat", f"{a.project}/f@1", cwd="/", check=False).status
    assert b.shfs("cat", f"{a.project}/f@2", cwd="/").stdout == "one 1\n"
    b.shfs("reindex", cwd="/")
    assert len(history(b)) == 3
    b.shfs("check", "--read-data", cwd="/")


@pytest.mark.users("ordinary")
def test_server_out_of_reach(hosts):
    """Programs wait, as without a mount; prompts elsewhere do not. Nothing is lost."""
    host = hosts("one")
    host.shfs("mount", host.project, cwd="/")
    terminal, elsewhere = host.shell(), host.shell(cwd="/")
    terminal.run("for i in 1 2 3; do echo $i > $i; done")
    host.plug("down")
    try:
        terminal.send("for i in 4 5 6; do echo $i > $i; done\r")
        time.sleep(2)
        assert elsewhere.run("echo prompt") == "prompt"
        assert not terminal.pty.expect_exact([pytest.importorskip("pexpect").TIMEOUT, terminal.READY], 3)
    finally:
        host.plug("up")
    terminal.wait()
    for i in range(1, 7):
        assert host.shfs("cat", f"{i}@1").stdout == f"{i}\n"
    assert len(history(host)) == 2
    assert host.shfs("status", "--json", cwd="/").stdout.count('"lost": 0')


@pytest.mark.users("ordinary")
def test_killed_daemon(hosts):
    host = hosts("one")
    host.allow_exit(-9)
    host.shfs("mount", host.project, cwd="/")
    terminal = host.shell()
    terminal.run("echo 1 > f")
    host.sh("pkill -9 -o shfs-fuse", cwd="/")
    harness.wait_until(lambda: '"restarts": 1' in host.shfs("status", "--json", cwd="/").stdout, "the mount")
    terminal.run("cd ~/one; echo 2 > f")
    assert [host.shfs("cat", f"f@{n}").stdout for n in (1, 2)] == ["1\n", "2\n"]
    host.shfs("check", cwd="/")


@pytest.mark.users("ordinary")
def test_changed_on_the_server(hosts, server):
    """What somebody else took away is stale for programs that have it open, as on NFS alone."""
    host = hosts("one")
    plain = f"{host.home}/plain"
    host.sh(f"mkdir {plain}; echo 1 > f; echo 1 > {plain}/f; echo 1 > g", cwd=host.project)
    host.shfs("mount", host.project, cwd="/")
    said = []
    for where, other in (plain, "plain"), (host.project, "one"):
        read = host.popen(["sh", "-c", "exec 3< f; read line; cat <&3; echo $?"], cwd=where, text=True,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        time.sleep(1)
        os.unlink(f"{server.directory}/{other}/f")
        host.as_root("echo 3 > /proc/sys/vm/drop_caches")
        said.append(read.communicate("\n")[0])
        # what the client remembers
        harness.wait_until(lambda: host.sh("cat f", cwd=where, check=False).status, "the name to be gone", 60)
    assert said[0] == said[1]
    host.sh("echo 2 > f; cat g", cwd=host.project)
    assert host.shfs("cat", "f").stdout == "2\n"


@pytest.mark.users("ordinary")
def test_full_server(hosts, server):
    host = hosts("one")
    host.allow_log("No space left|lost")
    host.shfs("mount", host.project, cwd="/")
    host.sh("mkdir ~/plain; echo 1 > f")
    subprocess.run(f"head -c 64m /dev/zero > {server.directory}/all", shell=True, check=False)
    script = "head -c 300000 /dev/zero > new; echo $?; echo 2 >> old; echo $?"
    said = [host.sh(script, cwd=where).stdout for where in (f"{host.home}/plain", host.project)]
    assert said[0] == said[1]
    os.unlink(f"{server.directory}/all")
    harness.wait_until(lambda: host.sh("echo 3 > f; cat f").stdout == "3\n", "room")
    harness.wait_until(lambda: host.shfs("cat", "f", check=False).stdout == "3\n", "the recording to go on")
    host.shfs("check", cwd="/")
