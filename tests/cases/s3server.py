# SPDX-License-Identifier: MIT
"""A real object store on the loopback: radosgw on a Ceph cluster of one monitor and one OSD, which keeps all
of it in memory. s3server.py DIRECTORY PID runs it there until that process has ended.

Any user can start it. It takes a second or two, and some 300 MB of memory."""

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
import uuid

KEY, SECRET, BUCKET = "AKIASHFSTEST", "s3cr3t/of+shfs+tests/0123456789abcdef", "shfs"

CONFIG = """
[global]
fsid = {fsid}
mon host = [v2:127.0.0.1:{mon}]
public addr = 127.0.0.1
ms bind msgr1 = false
keyring = {at}/keyring
run dir = {at}
admin socket =
pid file =
log file = {at}/$name.log
mon cluster log file = {at}/cluster.log
mon data = {at}/mon
osd data = {at}/osd
osd class dir = {classes}
osd objectstore = memstore
memstore device bytes = 4294967296
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 1
osd pool default pgp num = 1
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
mon allow pool size one = true
mon data avail crit = 0
mon data avail warn = 0
paxos propose interval = 0.05
paxos min wait = 0.01
rgw data = {at}/rgw
rgw frontends = beast endpoint=127.0.0.1:{rgw}
rgw dns name = localhost
rgw thread pool size = 32
rgw enable usage log = false
rgw enable gc threads = false
rgw enable lc threads = false
"""


def free_ports(n):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(n)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


class Cluster:
    def __init__(self, at):
        self.at, self.daemons = at, []
        self.log = open(f"{at}/output", "ab")
        self.fsid = str(uuid.uuid4())

    def run(self, *argv):
        subprocess.run(argv, check=True, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, timeout=60)

    def start(self, *argv):
        self.daemons.append(subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, preexec_fn=die_with_parent))

    def begin(self):
        at = self.at
        mon, rgw = free_ports(2)
        for name in "mon", "osd", "rgw":
            os.mkdir(f"{at}/{name}")
        classes = next(f"{top}/rados-classes" for top, names, _ in os.walk("/usr/lib") if "rados-classes" in names)
        with open(f"{at}/ceph.conf", "w", encoding="ascii") as file:
            file.write(CONFIG.format(at=at, fsid=self.fsid, mon=mon, rgw=rgw, classes=classes))
        os.environ["CEPH_CONF"] = f"{at}/ceph.conf"
        with open(f"{at}/keyring", "w", encoding="ascii"):
            pass
        for name in "mon.", "client.admin", "osd.0":
            self.run("ceph-authtool", f"{at}/keyring", "--gen-key", "-n", name, "--cap", "mon", "allow *", "--cap", "osd", "allow *")
        self.run("monmaptool", "--create", "--fsid", self.fsid, "--addv", "a", f"[v2:127.0.0.1:{mon}]", f"{at}/monmap")
        self.run("ceph-mon", "--mkfs", "-i", "a", "--monmap", f"{at}/monmap", "--keyring", f"{at}/keyring")
        self.start("ceph-mon", "-f", "-i", "a")
        osd = str(uuid.uuid4())
        self.run("ceph", "osd", "new", osd, "0")
        self.run("ceph-osd", "--mkfs", "-i", "0", "--osd-uuid", osd)
        self.start("ceph-osd", "-f", "-i", "0")
        self.run("radosgw-admin", "--no-mon-config", "user", "create", "--uid=shfs", "--display-name=shfs", f"--access-key={KEY}", f"--secret-key={SECRET}")
        self.start("radosgw", "-f", "-n", "client.admin", "--no-mon-config")
        while socket.socket().connect_ex(("127.0.0.1", rgw)):
            if any(daemon.poll() is not None for daemon in self.daemons):
                raise RuntimeError("a daemon has ended")
            time.sleep(0.05)
        with open(f"{at}/ready.new", "w", encoding="ascii") as file:
            file.write(f"127.0.0.1:{rgw}")
        os.rename(f"{at}/ready.new", f"{at}/ready")

    def end(self):
        for daemon in self.daemons[::-1]:
            daemon.kill()
            daemon.wait()


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def main(at, pid):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    cluster = Cluster(at)
    try:
        cluster.begin()
        while os.path.exists(f"{at}/ready") and is_alive(int(pid)):
            time.sleep(0.2)
    finally:
        cluster.end()
        with contextlib.suppress(OSError), open(f"{at}/ended", "w", encoding="ascii"):
            pass


if __name__ == "__main__":
    main(*sys.argv[1:])
