# SPDX-License-Identifier: MIT
"""Commands of a real sshd and of a real cron: each is a command of its own, with what it read and wrote."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time

import pytest

from harness import wait_until
from sshd import Sshd

pytestmark = [pytest.mark.users("ordinary"), pytest.mark.skipif(os.geteuid() != 0, reason="needs root to start a server"), pytest.mark.timeout(180)]


def rows(sandbox):
    return json.loads(sandbox.shfs("history", "--all", "--reverse", "--json").stdout)["commands"]


@contextlib.contextmanager
def running(*argv):
    server = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        yield server
    finally:
        server.send_signal(signal.SIGTERM)
        server.communicate(timeout=30)


@pytest.fixture
def ssh(sandbox):
    """Runs a command line by ssh, as the user of the sandbox."""
    server = Sshd(sandbox)
    server.configure("BatchMode yes")
    server.start(argv=[])
    client = ["ssh", "-F", f"{server.keys}/client", "there"]
    yield lambda line: subprocess.run([*client, line], capture_output=True, text=True, timeout=60, check=True).stdout
    server.close()


@pytest.mark.skipif(not shutil.which("sshd"), reason="no sshd")
def test_sshd(sandbox, mounted, ssh):
    """What a host asks of this one by ssh, without a shell hook here."""
    sandbox.write("in", "b\na\n")
    ssh(f"cd {sandbox.project} && sort in > out")
    ssh(f"cd {sandbox.project} && cat out in > both; rm in")
    found = [one for one in rows(sandbox) if one.get("invoker")]
    assert [(one["invoker"], one["text"]) for one in found] == [
        ("ssh sshd", f"cd {sandbox.project} && sort in > out"), ("ssh sshd", f"cd {sandbox.project} && cat out in > both; rm in")]  # fmt: skip
    why = sandbox.shfs("why", "both").stdout
    assert why.count("ssh sshd › cd") == 2 and found[0]["id"][:7] in why
    sandbox.shfs("undo", "--yes", found[1]["id"])
    assert sandbox.read("in") == b"b\na\n" and "both" not in sandbox.sh("ls").stdout and sandbox.read("out") == b"a\nb\n"


@pytest.mark.skipif(not shutil.which("cron"), reason="no cron")
def test_cron(sandbox, mounted, user):
    """A line of a crontab, by Debian's cron in a mount namespace with a table and a /run of its own: it has just booted."""
    sandbox.write("in", "1\n")
    table = sandbox.write_outside(f"{sandbox.home}/table", f"HOME={sandbox.home}\n@reboot {user.login} cd {sandbox.project} && cat in in > made.tmp && mv made.tmp made\n")
    os.chown(table, 0, 0)
    os.chmod(table, 0o644)
    begin = f"for d in /etc/cron.d /var/spool/cron /run; do mount -t tmpfs none $d; done; mkdir -p /var/spool/cron/crontabs; cp {table} /etc/cron.d/t; mount --bind /dev/null /etc/crontab; exec cron -f"
    with running("unshare", "-m", "--propagation", "slave", "sh", "-c", begin):
        wait_until(lambda: sandbox.sh("test -e made", check=False).status == 0, "cron")
        time.sleep(0.5)
    made = [one for one in rows(sandbox) if "made.tmp" in (one["text"] or "")]
    assert made and made[0]["invoker"] == "cron cron", rows(sandbox)
    assert "cron cron › cd" in sandbox.shfs("why", "made").stdout


@pytest.mark.parametrize("name", ["CRON", "CROND", "/usr/sbin/CRON"])
def test_process_that_runs_a_line(sandbox, mounted, name):
    """Debian's cron calls it CRON, cronie CROND; whose program that is no user may see."""
    run = "import os; os.system('echo of a line > made')"
    sandbox.run("bash", "-c", 'exec -a "$1" python3 -c "$2"', "bash", name, run)
    made, = (one for one in rows(sandbox) if "of a line" in (one["text"] or "") and one.get("invoker"))
    assert made["invoker"] == f"cron {os.path.basename(name).lower()}" and made["text"] == "echo of a line > made"
