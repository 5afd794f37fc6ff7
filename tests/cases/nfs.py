# SPDX-License-Identifier: MIT
"""A server of NFS on this machine, without its tools, and hosts that have its export as their home:
namespaces of mounts, network and host name, each with a client, and so with caches, of its own."""

import contextlib
import os
import re
import subprocess

import harness

NFSD = "/proc/fs/nfsd"
TRACING = "/sys/kernel/tracing"
NEVER = 2**31 - 1  # is what was told to the server not true any more
FSID, WHOLE, ANY_PORT = 0x2000, 0x400, 0x2  # flags of an export
NOBODY = 65534


def is_known():
    with open("/proc/filesystems", encoding="ascii") as file:
        known = file.read().split()
    return "nfsd" in known and "nfs4" in known


def tell(path, text, mode="w"):
    with open(path, mode, encoding="ascii") as file:
        file.write(f"{text}\n")


class Server:
    """Of one directory, which is / to its clients."""

    def __init__(self, directory):
        self.directory = directory
        if not os.path.exists(f"{NFSD}/threads"):
            subprocess.run(["mount", "-t", "nfsd", "nfsd", NFSD], check=True)
        # without a place for what it knows of its clients nobody can end its period of grace
        os.makedirs("/var/lib/nfs/v4recovery", exist_ok=True)
        tell(f"{NFSD}/versions", "-3 +4 +4.1 +4.2")  # no older ones, which need a portmapper
        self.admit("127.0.0.1")
        self.export()
        tell(f"{NFSD}/threads", 4)
        tell(f"{NFSD}/v4_end_grace", "Y")

    @staticmethod
    def _tell(what, line):
        """As the daemon of a real one would."""
        tell(f"/proc/net/rpc/{what}/channel", line)

    def admit(self, address):
        self._tell("auth.unix.ip", f"nfsd {address} {NEVER} hosts")

    def export(self):
        flags = FSID | WHOLE | ANY_PORT
        self._tell("nfsd.export", f"hosts {self.directory} {NEVER} {flags} {NOBODY} {NOBODY} 0")
        self._tell("nfsd.fh", f"hosts 1 \\x00000000 {NEVER} {self.directory}")

    def stop(self):
        tell(f"{NFSD}/threads", 0)


class Host(harness.Sandbox):
    """Its home is the export; /var/tmp and the runtime directory are its own."""

    def __init__(self, user, number, name, net, server, home, version="4.2"):
        self.name, self.export = name, server.directory
        self.wire = f"shfs{net}"
        self.keeper = subprocess.Popen(
            ["unshare", "-mun", "--propagation", "private", "sleep", "infinity"], stdin=subprocess.DEVNULL
        )
        harness.wait_until(self._is_apart, "the namespaces")
        super().__init__(harness.Guest(user, self.keeper.pid, "net", "uts", "mnt"), number)
        self.home, self.project = home, f"{home}/{name}"
        self.store = f"{home}/.local/share/shfs"
        self.local = self.mkdir(f"{self.path}/local")
        self.env |= {
            "HOME": home,
            "XDG_CONFIG_HOME": f"{home}/.config",
            "XDG_DATA_HOME": f"{home}/.local/share",
            "SHFS_STORE": self.store,
        }
        here, there = f"10.77.{net}.1", f"10.77.{net}.2"
        server.admit(there)
        wire = f"""
            ip link add {self.wire} type veth peer name eth0 netns {self.keeper.pid}
            ip addr add {here}/24 dev {self.wire}
            ip link set {self.wire} up
        """
        subprocess.run(["sh", "-ec", wire], check=True)
        self.as_root(f"""
            hostname {name}
            ip addr add {there}/24 dev eth0; ip link set eth0 up; ip link set lo up
            mount --bind {self.path}/tmp /var/tmp
            mount -i -t nfs4 -o vers={version},addr={here},clientaddr={there} {here}:/ {home}
        """)
        self.sh("mkdir -p .config .local/share; mkdir $(hostname)", cwd=home)

    def _is_apart(self):
        def namespace(pid):
            return os.stat(f"/proc/{pid}/ns/uts").st_ino

        return namespace(self.keeper.pid) != namespace("self")

    def write_outside(self, path, text, mode=0o644):
        """We have no home."""
        return super().write_outside(path.replace(self.home, self.export, 1), text, mode)

    def as_root(self, script):
        enter = ["nsenter", "-t", str(self.keeper.pid), "-m", "-u", "-n", "sh", "-ec", script]
        return subprocess.run(enter, check=True, stdout=subprocess.PIPE, text=True, env=self.env).stdout

    def plug(self, how):
        subprocess.run(["ip", "link", "set", self.wire, how], check=True)

    def device(self):
        return self.as_root(f"stat -c %Hd:%Ld {self.home}").strip()

    def leave(self):
        """Before any host ends, as all their daemons are waited for then."""
        for shell in self.shells:
            shell.close()
        mounts = self.as_root("cut -d ' ' -f 2,3 /proc/self/mounts | grep ' fuse.shfs$' || true")
        for line in reversed(mounts.splitlines()):
            self.shfs("umount", line.split()[0], cwd="/")

    def end(self):
        try:
            self.close()
        finally:
            self.keeper.kill()
            self.keeper.wait()


class Locks:
    """All that are taken, by anybody, as the kernel's trace has them."""

    EVENTS = "posix_lock_inode", "flock_lock_inode", "fcntl_setlk"

    def __init__(self):
        for event in self.EVENTS:
            tell(f"{TRACING}/events/filelock/{event}/enable", 1)

    def of(self, *devices):
        """Those on these, by "major:minor"."""
        with open(f"{TRACING}/trace", encoding="ascii", errors="replace") as trace:
            lines = re.findall(r"^.*dev=0x([0-9a-f]+):0x([0-9a-f]+).*$", text := trace.read(), re.M)
        known = {tuple(int(number) for number in device.split(":")) for device in devices}
        found = [tuple(int(number, 16) for number in line) for line in lines]
        assert "overrun" not in text and "LOST" not in text
        return [line for line, device in zip(re.findall(r"^.*dev=0x.*$", text, re.M), found) if device in known]

    def end(self):
        for event in self.EVENTS:
            tell(f"{TRACING}/events/filelock/{event}/enable", 0)
        with contextlib.suppress(OSError):
            tell(f"{TRACING}/trace", "")
