# SPDX-License-Identifier: MIT
"""Remotes on other hosts: what ssh, a link and a server of SFTP can do wrong. test_remotes.py has what each remote does."""

import contextlib
import json
import os
import random
import re
import shutil
import signal
import socket
import stat
import subprocess
import threading
import time

import pytest

from harness import seeds, wait_until
from remotes import Ssh
from test_remotes import FAULTS, in_store, push
from test_trees import record

pytestmark = [
    pytest.mark.users("ordinary"),
    pytest.mark.timeout(120),
    pytest.mark.skipif(not shutil.which("sshd"), reason="needs sshd"),
]


@pytest.fixture
def there(sandbox):
    it = Ssh(sandbox)
    yield it
    it.close()


def ssh_of(there):
    """The processes of ssh that the case has begun."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as line:
                if f"{there.keys}/client".encode() in line.read():
                    found.append(int(pid))
        except OSError:
            continue
    return found


def signal_children(there, number):
    """Of sshd."""
    children = subprocess.run(["pgrep", "-P", str(there.server.pid)], stdout=subprocess.PIPE, check=False).stdout
    for pid in children.split():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), number)


def program(sandbox, text):
    """What stands for ssh: a program in Python. The server is server(*options), ours() are what shfs writes to us."""
    head = (
        "#!/usr/bin/python3\nimport os, struct, subprocess, sys, threading\n"
        "def server(*options): return subprocess.Popen(['/usr/lib/openssh/sftp-server', *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
        "def packet(file):\n head = file.read(4)\n return head and head + file.read(struct.unpack('>I', head)[0])\n"
        "def up(s):\n while data := os.read(0, 65536):\n  s.stdin.write(data); s.stdin.flush()\n s.stdin.close()\n"
        "def carry(s, change=lambda p: [p]):\n threading.Thread(target=up, args=[s], daemon=True).start()\n"
        " while p := packet(s.stdout):\n  for q in change(p): os.write(1, q) if len(q) < 60000 else [os.write(1, q[i : i + 60000]) for i in range(0, len(q), 60000)]\n"
    )
    return "python3 " + sandbox.write_outside(f"{sandbox.home}/fake-ssh", head + text, 0o755)


# --- what is asked of the other host ---


def test_nothing_but_sftp(there, sandbox, shfs):
    """An account that can do nothing else, in a directory of another's permissions."""
    there.close()
    there.start("ForceCommand internal-sftp")
    os.umask(0o022)
    sandbox.sh('mkdir -m 2750 "$1"', there.path)
    record(sandbox, "echo one > a; head -c 9000000 /dev/urandom > big")
    shfs("remote", "add", "r", there.url)
    push(shfs)
    for top, dirs, files in os.walk(there.path):
        for name in dirs:
            assert stat.S_IMODE(os.stat(f"{top}/{name}").st_mode) & 0o2777 == 0o2750, name
        for name in files:
            assert stat.S_IMODE(os.stat(f"{top}/{name}").st_mode) == 0o640, name
            assert not name.startswith(".put-")
    new = in_store(sandbox, f"{sandbox.home}/new")
    new("clone", there.url)
    assert new("check", "--read-data").stdout.endswith("no flaws\n")
    assert new("cat", f"{sandbox.project}/big@1").stdout_bytes == shfs("cat", f"{sandbox.project}/big@1").stdout_bytes


def test_where_it_is(there, sandbox, shfs):
    """HOST:DIR is at home there; ssh://HOST/~/DIR is the same; a port; a name with a space."""
    home = sandbox.run("sh", "-c", f"echo pwd | sftp -q -F {there.keys}/client -b - there | tail -1", cwd="/").stdout.split(": ")[-1].strip()
    relative = os.path.relpath(f"{sandbox.home}/far/there 1", home)
    record(sandbox, "echo one > a")
    shfs("remote", "add", "a", f"there:{relative}")
    push(shfs, "a")
    assert os.path.exists(f"{sandbox.home}/far/there 1/shfs-remote")
    assert [r["url"] for r in json.loads(shfs("remote", "--json").stdout)["remotes"]] == [f"ssh://there/~/{relative}"]
    for n, url in enumerate((f"ssh://there/~/{relative}".replace(" ", "%20"), f"{sandbox.user.login}@there:{sandbox.home}/far/there 1",
                             f"ssh://there:{there.port}{sandbox.home}/far/there%201", f"there:~bin/../..{sandbox.home}/far/there 1")):  # fmt: skip
        new = in_store(sandbox, f"{sandbox.home}/new{n}")
        new("clone", url)
        assert new("cat", f"{sandbox.project}/a@1").stdout == "one\n"
    # a path here that has a colon
    sandbox.run("mkdir", f"{sandbox.home}/d", cwd="/")
    shfs("remote", "add", "local", "./a:b", cwd=f"{sandbox.home}/d")
    assert os.path.exists(f"{sandbox.home}/d/a:b/shfs-remote")


def test_options_are_no_hosts(sandbox, shfs):
    """Not by any form; nothing is run."""
    record(sandbox, "echo one > a")
    mark = f"{sandbox.home}/ran"
    for url in (f"ssh://-oProxyCommand=touch%20{mark}/x", f"ssh://x@-oProxyCommand=touch%20{mark}/x", f"ssh://[-oProxyCommand=touch%20{mark}]/x",
                "x@-oProxyCommand=touch ran:x", "ssh://%2doProxyCommand=x/y"):  # fmt: skip
        assert "no URL of a remote" in shfs("remote", "add", "r", url, check=2).stderr
        assert shfs("clone", url, check=2).stderr
    assert not os.path.exists(mark) and not os.path.exists(f"{sandbox.home}/ran:x")


# --- errors ---


def test_what_is_said(there, sandbox, shfs):
    """In plain words, soon, and with what ssh itself has to say."""
    record(sandbox, "echo one > a")
    shfs("remote", "add", "r", there.url)

    def fails(*wanted, code=1, env=None):
        result = shfs("push", check=code, env=env)
        for text in wanted:
            assert text in result.stderr, result
        assert len(result.stderr) < 1500
        return result.stderr

    # nobody listens
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        there.configure(port=free.getsockname()[1])
        fails("Connection refused", f"cannot push to {there.url}: ssh cannot reach it")
    # no such host
    there.configure("HostName no-such-host.invalid")
    fails("Could not resolve", "ssh cannot reach it")
    # a key that the server does not know; nobody is asked for a password
    sandbox.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{there.keys}/other", cwd="/")
    there.configure(f"IdentityFile {there.keys}/other")
    text = open(f"{there.keys}/client", encoding="ascii").read().replace(f" IdentityFile {there.keys}/user\n", "")
    sandbox.write_outside(f"{there.keys}/client", text)
    fails("Permission denied", "ssh cannot reach it")
    # another host answers
    there.configure()
    os.rename(f"{there.keys}/known", f"{there.keys}/was-known")
    key = open(f"{there.keys}/other.pub", encoding="ascii").read()
    sandbox.write_outside(f"{there.keys}/known", f"[127.0.0.1]:{there.port} {key}")
    fails("Host key verification failed", "ssh cannot reach it")
    os.rename(f"{there.keys}/was-known", f"{there.keys}/known")
    # no sftp there
    there.close()
    there.SFTP = ""
    there.start()
    fails("subsystem request failed", "there is no sftp")
    # a shell that greets; and one that only greets
    for greeting in "echo Welcome to hostb, ben!; exec /usr/lib/openssh/sftp-server", "echo no":
        there.close()
        there.start(f"Subsystem sftp {greeting}")
        fails(".bashrc", "Welcome to hostb, ben!" if "Wel" in greeting else "no")
    # what speaks something else
    there.close()
    there.start("Subsystem sftp head -c 1000 /dev/zero")
    fails("does not speak sftp")
    # no ssh
    sandbox.sh('mkdir "$1"/bin; ln -s "$(command -v shfs)" "$1"/bin', sandbox.home)
    fails("no-such-ssh", "ssh cannot be run", env={"SHFS_SSH_COMMAND": "no-such-ssh -x"})
    fails("ssh cannot be run", env={"SHFS_SSH_COMMAND": "", "PATH": f"{sandbox.home}/bin"})
    fails("SHFS_SSH_COMMAND is no command", env={"SHFS_SSH_COMMAND": "ssh; true"})
    # may not be written to
    there.close()
    there.SFTP = Ssh.SFTP
    there.start()
    if sandbox.user.uid:
        sandbox.run("chmod", "-R", "a-w", there.path, cwd="/")
        fails("Permission denied")
        sandbox.run("chmod", "-R", "u+w", there.path, cwd="/")
    push(shfs)
    assert shfs("remote", "check", "--read-data").stdout.endswith("no flaws\n")


def test_a_full_disk(sandbox, shfs, there):
    """A server says "Failure", and shfs says why."""
    if os.geteuid():
        pytest.skip("root mounts the disk")
    os.makedirs(there.path)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size=2m,uid={sandbox.user.uid}", "tmpfs", there.path], check=True)
    try:
        record(sandbox, "head -c 6000000 /dev/urandom > big")
        shfs("remote", "add", "r", there.url)
        assert "No space left" in shfs("push", check=1).stderr
        assert not [n for n in there.names() if ".put-" in n]
        subprocess.run(["mount", "-o", "remount,size=20m", there.path], check=True)
        push(shfs)
        assert shfs("remote", "check", "--read-data").stdout.endswith("no flaws\n")
    finally:
        subprocess.run(["umount", "-l", there.path], check=True)


# --- links ---


class Link:
    """Carries connections to a port, slowly or not, and cuts them after so many bytes of a direction."""

    def __init__(self, port, delay=0.0, cuts=()):
        self.to, self.delay, self.cuts, self.cut, self.sockets = port, delay, list(cuts), 0, []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                one, _ = self.listener.accept()
            except OSError:
                return
            other = socket.create_connection(("127.0.0.1", self.to))
            left = [self.cuts.pop(0) if self.cuts else None]
            self.sockets += one, other
            for a, b in (one, other), (other, one):
                threading.Thread(target=self.carry, args=(a, b, left), daemon=True).start()

    def carry(self, a, b, left):
        try:
            while data := a.recv(65536):
                time.sleep(self.delay)
                if left[0] is not None:
                    left[0] -= len(data)
                    if left[0] < 0:
                        self.cut += 1
                        break
                b.sendall(data)
        except OSError:
            pass
        self.end(a, b)

    def end(self, *sockets):
        for s in sockets:
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def end_all(self):
        """Ends the connections that there are; returns how many there were since it began."""
        self.end(*self.sockets)
        return len(self.sockets) // 2

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


@pytest.mark.parametrize("seed", seeds(2, 100))
def test_a_connection_that_is_cut(there, sandbox, shfs, seed):
    """Anywhere: it is made again, and goes on; nothing is lost, and nothing half-named."""
    chance = random.Random(seed)
    record(sandbox, "echo one > a", "head -c 6000000 /dev/urandom > big", "seq 3000 > long")
    shfs("remote", "add", "r", there.url)
    link = Link(there.port, cuts=[chance.randrange(5000, 60000), chance.randrange(5000, 4000000), chance.randrange(5000, 100000)])
    there.configure(port=link.port)
    pushed = push(shfs)
    assert pushed["done"] and link.cut >= 3
    # a server may make one when the connection is lost already
    assert len([n for n in there.names() if ".put-" in n]) <= link.cut
    link.cuts = [chance.randrange(5000, 60000), chance.randrange(5000, 4000000)]
    new = in_store(sandbox, f"{sandbox.home}/new")
    new("clone", there.url)
    assert new("check", "--read-data").stdout.endswith("no flaws\n")
    assert new("cat", f"{sandbox.project}/big@1").stdout_bytes == shfs("cat", f"{sandbox.project}/big@1").stdout_bytes
    link.close()
    assert shfs("remote", "check", check=1).stderr.count("Connection refused") == 1  # what never was there is not waited for
    there.configure()
    assert shfs("remote", "check", "--read-data").stdout.endswith("no flaws\n")


@pytest.mark.parametrize("what", ["OPEN", "hardlink", "RENAME", "WRITE", "REMOVE"])
def test_an_answer_that_is_lost(there, sandbox, shfs, what):
    """The server has done it, and nobody hears of that: once for each blob."""
    marks = sandbox.mkdir(f"{sandbox.home}/lost")
    hidden = "data.replace(b'hardlink@', b'h_rdlink@')" if what == "RENAME" else "data"
    sandbox.env["SHFS_SSH_COMMAND"] = program(sandbox, f"""
s, n = server(), 0
def is_it(p):
    return dict(OPEN=p[4] == 3 and b'.put-' in p, hardlink=b'hardlink@' in p, RENAME=p[4] == 18, WRITE=p[4] == 6, REMOVE=p[4] == 13)[{what!r}]
def back():
    while data := packet(s.stdout):
        data = {hidden}
        if asked and data[5:9] == asked[0]: os._exit(0)
        while data: data = data[os.write(1, data):]
asked, decided = [], []
threading.Thread(target=back, daemon=True).start()
stdin = os.fdopen(0, 'rb', 0)
def whole(n):
    data = b''
    while len(data) < n and (more := stdin.read(n - len(data))): data += more
    return data
while head := whole(4):
    p = head + whole(struct.unpack('>I', head)[0])
    # the first of each second connection
    if not decided and is_it(p):
        decided.append(1)
        n = len(os.listdir({marks!r}))
        open({marks!r} + '/' + str(os.getpid()), 'w').close()
        if n % 2 == 0: asked.append(p[5:9])
    s.stdin.write(p); s.stdin.flush()
""")  # fmt: skip
    record(sandbox, "echo one > a; head -c 500000 /dev/urandom > big")
    shfs("remote", "add", "r", there.url)
    push(shfs)
    record(sandbox, "echo two > a")
    push(shfs)
    assert len(os.listdir(marks)) > 1
    assert not [n for n in there.names() if ".put-" in n]
    sandbox.env["SHFS_SSH_COMMAND"] = f"ssh -F {there.keys}/client"
    said = json.loads(shfs("remote", "check", "--read-data", "--json").stdout)
    assert said["ok"] and not said["unneeded"], said


def test_a_link_that_never_comes_back(there, sandbox, shfs):
    """The tries end; and what was put stays."""
    record(sandbox, "echo one > a", "head -c 9000000 /dev/urandom > big")
    shfs("remote", "add", "r", there.url)
    link = Link(there.port, cuts=[5000000, *[20] * 10])
    there.configure(port=link.port)
    result = shfs("push", check=1)
    assert "no connection any more" in result.stderr and "stays" in result.stderr
    assert [n for n in there.blobs() if not ".put-" in n]
    there.configure()
    link.close()
    push(shfs)
    assert not [n for n in there.names() if ".put-" in n]
    assert not json.loads(shfs("remote", "check", "--read-data", "--json").stdout)["unneeded"]


def test_a_slow_link(there, sandbox, shfs):
    """Many requests are on their way at once: how often the link is waited for depends little on the bytes."""
    turns = sandbox.write_outside(f"{sandbox.home}/turns", "")
    # answers wait until nothing more is asked: that is how often a slow link would be waited for
    sandbox.env["SHFS_SSH_COMMAND"] = program(sandbox, f"""
import select
s = server()
answers, turns = b'', 0
while True:
    ready = select.select([0, s.stdout], [], [], 0.1 if answers else None)[0]
    if 0 in ready:
        data = os.read(0, 1 << 20)
        if not data: break
        s.stdin.write(data); s.stdin.flush()
    if s.stdout in ready:
        answers += os.read(s.stdout.fileno(), 1 << 20)
    if not ready:
        turns += 1
        while answers: answers = answers[os.write(1, answers):]
open({turns!r}, "a").write(f"{{turns}}\\n")
s.stdin.close(); s.wait()
""")  # fmt: skip
    record(sandbox, *(f"head -c 12000000 /dev/urandom > big{n}" for n in range(2)))
    shfs("remote", "add", "r", there.url)
    push(shfs)
    least = sum(len(d) for d in there.files().values()) // (128 << 10)  # if each write were waited for
    taken = int(sandbox.run("tail", "-n", "1", turns, cwd="/").stdout)
    assert least > 180 and taken < least, (taken, least, len(there.blobs()))  # and each name, and each directory, has some
    slow = Link(there.port, delay=0.02)
    there.configure(port=slow.port)
    sandbox.env["SHFS_SSH_COMMAND"] = f"ssh -F {there.keys}/client"
    new = in_store(sandbox, f"{sandbox.home}/new")
    new("clone", there.url)
    assert new("check", "--read-data").stdout.endswith("no flaws\n")
    slow.close()


# --- servers ---


NO_EXTENSIONS = "first = []\ndef change(p):\n if not first:\n  first.append(1)\n  return [b'\\0\\0\\0\\5\\2\\0\\0\\0\\3']\n return [p]\ncarry(server(), change)\n"
LATE_ANSWERS = """
import random, time, select
s = server()
threading.Thread(target=up, args=[s], daemon=True).start()
waiting, chance = [], random.Random(7)
while True:
    while len(waiting) < 8 and select.select([s.stdout.fileno()], [], [], 0.002)[0]:
        head = os.read(s.stdout.fileno(), 4)
        if not head: os._exit(0)
        size, p = struct.unpack('>I', head)[0], head
        while len(p) < size + 4: p += os.read(s.stdout.fileno(), size + 4 - len(p))
        waiting.append(p)
    chance.shuffle(waiting)
    if waiting:
        p = waiting.pop()
        while p: p = p[os.write(1, p):]
"""
# reads give less than was asked for
SHORT_READS = """
def shorten(p):
    if p[4] == 103 and len(p) > 3000:
        data = p[13 : 13 + (len(p) - 13) // 3]
        return [struct.pack('>IB', len(data) + 9, 103) + p[5:9] + struct.pack('>I', len(data)) + data]
    return [p]
carry(server(), shorten)
"""
NO_LINKS = """
def change(p): return [p.replace(b'hardlink@openssh.com', b'h_rdlink@openssh.com')]
carry(server(), change)
"""
DENIED = "carry(server('-P', 'hardlink'))\n"


@pytest.mark.parametrize("server", ["NO_EXTENSIONS", "LATE_ANSWERS", "SHORT_READS", "NO_LINKS", "DENIED"])
def test_other_servers(there, sandbox, shfs, server):
    """They have no extensions, answer in any order, or give less than was asked for."""
    sandbox.env["SHFS_SSH_COMMAND"] = program(sandbox, globals()[server])
    record(sandbox, "echo one > a", "head -c 5000000 /dev/urandom > big", "seq 3000 > long")
    shfs("remote", "add", "r", there.url)
    push(shfs)
    assert not [n for n in there.names() if ".put-" in n]
    assert shfs("remote", "check", "--read-data").stdout.endswith("no flaws\n")
    # nothing is put in another one's place
    copy = f"{sandbox.store}.copy"
    sandbox.run("cp", "-a", sandbox.store, copy, cwd="/")
    for store, line in (sandbox.store, "echo two > a"), (copy, "echo three > a"):
        sandbox.env["SHFS_STORE"] = store
        record(sandbox, line)
    sandbox.env["SHFS_STORE"] = sandbox.store
    push(shfs)
    assert "another copy" in in_store(sandbox, copy)("push", check=4, env={FAULTS: "late"}).stderr
    new = in_store(sandbox, f"{sandbox.home}/new")
    new("clone", there.url)
    assert new("check", "--read-data").stdout.endswith("no flaws\n")
    assert new("cat", f"{sandbox.project}/a@2").stdout == "two\n"


@pytest.mark.parametrize("seed", seeds(4, 400))
def test_a_server_that_lies(there, sandbox, shfs, seed):
    """Packets with bytes that are wrong, missing, doubled or made up: an error, or what was pushed; and no crash."""
    record(sandbox, "echo one > a", "seq 3000 > long")
    shfs("remote", "add", "r", there.url)
    push(shfs)
    sandbox.env["SHFS_SSH_COMMAND"] = program(sandbox, f"""
import random
chance, n = random.Random({seed}), [0]
at = chance.randrange(40)
def spoil(p):
    n[0] += 1
    if n[0] <= at: return [p]
    how, b, i = chance.randrange(6), bytearray(p), chance.randrange(len(p))
    if n[0] > at + 3: return [p]
    if how == 0: b[i] ^= 1 << chance.randrange(8)
    if how == 1: b[:4] = chance.randbytes(4)
    if how == 2: return [p, p]
    if how == 3: return [p[:i]]
    if how == 4: b[4:] = chance.randbytes(len(b) - 4)
    if how == 5: b[i:i + 4] = b'\\xff\\xff\\xff\\xff'
    return [bytes(b)]
threading.Timer(1, lambda: os._exit(0)).start()
carry(server(), spoil)
""")  # fmt: skip
    new = in_store(sandbox, f"{sandbox.home}/new")
    for words in ("clone", there.url), ("clone", there.url):
        result = new(*words, check=False)
        assert result.status in (0, 1, 3, 4) and "Sanitizer" not in result.stderr, result
    record(sandbox, "echo two > a")
    result = shfs("push", check=False)
    assert result.status in (0, 1, 3, 4) and "Sanitizer" not in result.stderr, result
    sandbox.env["SHFS_SSH_COMMAND"] = f"ssh -F {there.keys}/client"
    if result.status == 4:
        shfs("pull")
    push(shfs)
    assert shfs("remote", "check", "--read-data").stdout.endswith("no flaws\n")
    sandbox.run("rm", "-rf", f"{sandbox.home}/new", cwd="/")
    new("clone", there.url)
    assert new("cat", f"{sandbox.project}/a@2").stdout == "two\n"


# --- no process is left over ---


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_no_ssh_outlives_it(there, sandbox, shfs, number):
    """Also where the other side does not answer any more."""
    record(sandbox, "echo one > a; head -c 9000000 /dev/urandom > big")
    shfs("remote", "add", "r", there.url)
    process = sandbox.popen(["shfs", "push"], cwd="/", env={FAULTS: "slow=300"}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until(lambda: ssh_of(there), "ssh to run")
    signal_children(there, signal.SIGSTOP)
    process.send_signal(number)
    process.wait(timeout=30)
    wait_until(lambda: not ssh_of(there), "ssh to end")
    signal_children(there, signal.SIGCONT)
    push(shfs)
    assert not ssh_of(there)
    assert not re.search("put-", " ".join(there.names()))
