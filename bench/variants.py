# SPDX-License-Identifier: MIT
"""What the same work is done in or under: a plain directory, shfs in its forms, other file
systems that pass through, and tracers."""

import contextlib
import functools
import json
import os
import shutil
import signal
import subprocess

from place import ORDINARY, Failed, again_until, cpu_seconds, fail, mounted_at, run, unmount


class Variant:
    """A plain directory. Its fixture is put into source; the work is done in directory."""

    kind, title, in_directory_of = "native", "native", None

    def __init__(self, name, user=ORDINARY):
        self.name, self.user_name = name, user

    def missing(self, _place):
        """Why it cannot be measured here, or None."""

    def settle_in(self, place):
        self.place, self.user = place, place.users[self.user_name]
        self.base = place.directory(f"{place.work}/{self.in_directory_of or self.name}", self.user)
        self.source = self.directory = place.directory(f"{self.base}/p", self.user)

    def start(self):
        pass

    def stop(self):
        pass

    def leave(self):
        shutil.rmtree(self.base, ignore_errors=True)

    def attached(self):
        """While it works: what would cost others too is there for its own runs alone."""
        return contextlib.nullcontext()

    def wrap(self, argv):
        return argv

    def wait(self):
        """Until nothing of the last run goes on in the background."""

    def cpu(self):
        """Seconds that its own processes have used so far."""
        return 0.0

    def archiver_cpu(self):
        """Of these, the seconds of what archives and writes the journal."""
        return 0.0

    def version(self, _place):
        return f"Linux {os.uname().release}"


class Mount(Variant):
    """One that is served by a process in the foreground."""

    kind, process = "peer", None

    def argv(self):
        raise NotImplementedError

    def start(self):
        self.process = self.place.start(self.user, self.argv(), "/")
        if not again_until(lambda: self.process.poll() is not None or mounted_at(self.directory), 10):
            fail(f"{self.name}: no mount after 10 s")
        if self.process.poll() is not None:
            fail(f"{self.name} ended with {self.process.returncode}: {self.place.said()}")

    def stop(self):
        if mounted_at(self.directory):
            unmount(self.directory)
        if self.process:
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
            self.process = None

    def cpu(self):
        return cpu_seconds(self.process.pid)


ARCHIVERS = "shfs-archive", "shfs-journal"  # threads (store/capture)


class Shfs(Mount):
    def __init__(self, name, title, user, transport, passthrough):
        super().__init__(name, user)
        self.title, self.transport, self.passthrough = title, transport, passthrough
        self.kind = "passthrough" if passthrough == "on" else "unprivileged"

    def program(self, place):
        return f"{place.prefix}/libexec/shfs/shfs-fuse"

    def help(self, place):
        return run(self.program(place), "--help")

    def missing(self, place):
        if "--transport" not in self.help(place) and self.transport != "dev":
            return "this shfs knows no other transport than /dev/fuse"
        if self.passthrough == "on" and "--no-passthrough" not in self.help(place):
            return "this shfs knows no kernel passthrough"
        return None

    def argv(self):
        known = self.help(self.place)
        store = f"{self.base}/store"
        argv = [self.program(self.place), "--store", store, "--foreground"]
        if "--transport" in known:
            argv.append(f"--transport={self.transport}")
        if "--no-passthrough" in known and self.passthrough == "off":
            argv.append("--no-passthrough")
        return [*argv, self.directory]

    def start(self):
        super().start()
        status = self.status()
        transport = {"uring": "io_uring", "dev": "dev"}[self.transport]
        for key, wanted in ("transport", transport), ("passthrough", self.passthrough):
            if status.get(key, wanted) != wanted:
                fail(f"{self.name}: {key} is {status[key]}, not {wanted}")

    def attribute(self, name):
        argv = ["getfattr", "--only-values", "--absolute-names", "-n", f"user.shfs.{name}"]
        return self.place.timed(self.user, [*argv, self.directory], "/")[2]

    def status(self):
        return dict(line.split("=", 1) for line in self.attribute("status").splitlines())

    def wait(self):
        """All is archived and durable, and nothing was lost: else it is no recording."""
        self.attribute("sync")
        lost = self.status()["lost"]
        if lost != "0":
            fail(f"{self.name}: {lost} records lost")

    def archiver_cpu(self):
        return sum(seconds for name, seconds in thread_times(f"/proc/{self.process.pid}/task") if name in ARCHIVERS)

    def version(self, place):
        return run(f"{place.prefix}/bin/shfs", "--version").strip()


class Helped(Variant):
    """What root's shfs-helper does a part of."""

    helper = None

    def settle_in(self, place):
        super().settle_in(place)
        self.socket = f"{place.work}/{self.name}.helper"

    def start(self):
        program = f"{self.place.prefix}/sbin/shfs-helper"
        self.helper = self.place.start(self.place.users["root"], [program, "--foreground", "--socket", self.socket], "/")
        if not again_until(lambda: os.path.exists(self.socket), 10):
            fail(f"{self.name}: no helper after 10 s: {self.place.said()}")

    def stop(self):
        if self.helper:
            self.helper.terminate()
            self.helper.wait(10)
            self.helper = None


class Driver(Helped):
    """A plain directory that is recorded without FUSE: shfs-watch, and the helper. Each run has a store of
    its own: one that had the contents would read and compare them."""

    kind = "driver"

    def __init__(self, name):
        super().__init__(name)
        self.title = f"shfs, {name}"

    @functools.cache  # pylint: disable=method-cache-max-size-none
    def missing(self, place):
        """Tried: only the kernel knows what it allows."""
        self.settle_in(place)
        try:
            self.start()
            with self.attached():
                return None
        except Failed as failure:
            return str(failure).split("shfs: ")[-1].splitlines()[0].removeprefix(f"{self.name}: ")
        finally:
            self.stop()
            self.leave()

    def settle_in(self, place):
        super().settle_in(place)
        self.store = f"{self.base}/store"

    @contextlib.contextmanager
    def attached(self):
        """Once the background has read what it reads at the beginning."""
        shutil.rmtree(self.store, ignore_errors=True)
        self.shfs("libexec/shfs/shfs-watch", "--driver", self.name, self.directory)
        try:
            status = self.status()
            if status["backend"] != self.name:
                fail(status.get("backend_reason") or f"{status['backend']} is taken")
            tasks = f"/proc/{status['pid']}/task"
            if not again_until(lambda: "baseline" not in dict(thread_times(tasks)), 30):
                fail(f"{self.name}: not recorded after 30 s")
            self.pids = [status["pid"], self.helper.pid]
            yield
        finally:
            self.shfs("bin/shfs", "umount", self.directory)

    def shfs(self, program, *argv):
        env = ["env", f"SHFS_STORE={self.store}", f"SHFS_HELPER={self.socket}"]
        return self.place.timed(self.user, [*env, f"{self.place.prefix}/{program}", *argv], "/")[2]

    def status(self):
        found = json.loads(self.shfs("bin/shfs", "status", "--json"))["mounts"]
        return next(m for m in found if m["path"] == self.directory)

    def synced(self):
        """It gives up after 5 s."""
        try:
            self.shfs("bin/shfs", "sync")
            return True
        except Failed:
            return False

    def wait(self):
        """As with FUSE."""
        if not again_until(self.synced, 120):
            fail(f"{self.name}: not archived after 120 s")
        status = self.status()
        if status["lost"]:
            fail(f"{self.name}: {status['lost']} records lost")

    def cpu(self):
        return sum(cpu_seconds(pid) for pid in with_children(*self.pids))

    def closes(self):
        """Recorded: of files that were read, and that were written."""
        sql = "SELECT coalesce(sum(is_read AND NOT is_written), 0), coalesce(sum(is_written), 0) FROM v_access WHERE is_open"
        return json.loads(self.shfs("bin/shfs", "select", sql))["rows"][0]

    def version(self, place):
        return run(f"{place.prefix}/bin/shfs", "--version").strip()


def thread_times(tasks):
    """(name, seconds of CPU) of each."""
    for task in os.listdir(tasks):
        with contextlib.suppress(OSError), open(f"{tasks}/{task}/comm", encoding="utf-8") as comm, \
                open(f"{tasks}/{task}/schedstat", encoding="ascii") as stat:
            yield comm.read().strip(), int(stat.read().split()[0]) / 1e9


def with_children(*pids):
    for pid in pids:
        yield pid
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as children:
            yield from with_children(*map(int, children.read().split()))


class Bindfs(Mount):
    title = "bindfs"

    def missing(self, _place):
        return None if shutil.which("bindfs") else "bindfs is not installed"

    def settle_in(self, place):
        super().settle_in(place)
        self.source = place.directory(f"{self.base}/source", self.user)

    def argv(self):
        return ["bindfs", "-f", "--no-allow-other", self.source, self.directory]

    def version(self, _place):
        return run("bindfs", "--version").strip()


class FuseOverlayfs(Mount):
    title = "fuse-overlayfs"

    def missing(self, _place):
        return None if shutil.which("fuse-overlayfs") else "fuse-overlayfs is not installed"

    def settle_in(self, place):
        super().settle_in(place)
        self.source = place.directory(f"{self.base}/lower", self.user)
        for name in "upper", "work":
            place.directory(f"{self.base}/{name}", self.user)

    def argv(self):
        layers = f"lowerdir={self.source},upperdir={self.base}/upper,workdir={self.base}/work"
        return ["fuse-overlayfs", "-f", "-o", layers, self.directory]

    def version(self, _place):
        return next(line.replace(": version", "") for line in run("fuse-overlayfs", "--version").splitlines()
                    if line.startswith("fuse-overlayfs"))


class Tracer(Variant):
    """A program that runs the work in the plain directory, and what it writes beside it."""

    kind, in_directory_of = "tracer", "native"

    def __init__(self, name, title, argv):
        super().__init__(name)
        self.title, self.tracing = title, argv

    def missing(self, _place):
        return None if shutil.which(self.name) else f"{self.name} is not installed"

    def settle_in(self, place):
        super().settle_in(place)
        self.out = f"{self.base}/{self.name}"

    def wrap(self, argv):
        return ["env", *(word.format(out=self.out) for word in self.tracing), *argv]

    def wait(self):
        """What it has written is not needed, and would not be taken for a trace again."""
        self.place.shell(self.user, f"rm -rf {self.out}*", "/")

    def version(self, _place):
        said = subprocess.run([self.name, "--version"], capture_output=True, text=True, check=False)
        words = (said.stdout + said.stderr).split()
        return next(f"{self.name} {word}" for word in words if any(c.isdigit() for c in word))


class Record(Tracer):
    """`shfs record`: its mount comes and goes with the work."""

    kind, options = "record", ()

    def __init__(self, name="shfs-record", title="shfs record"):
        super().__init__(name, title, [])

    def missing(self, place):
        known = subprocess.run([f"{place.prefix}/bin/shfs", "help", "record"], capture_output=True, check=False)
        return "this shfs has no record" if known.returncode else None

    def wrap(self, argv):
        return [f"{self.place.prefix}/bin/shfs", "--store", self.out, "record", *self.options, "--", *argv]

    def wait(self):
        """The store stays, as a user's does."""

    def version(self, place):
        return run(f"{place.prefix}/bin/shfs", "--version").strip()


class RecordByHelper(Helped, Record):
    """It makes no mount."""

    options = "--by", "helper"

    def __init__(self):
        super().__init__("record-helper", "shfs record --by helper")

    def wrap(self, argv):
        return ["env", f"SHFS_HELPER={self.socket}", *super().wrap(argv)]

    def cpu(self):
        """With that of its processes for each recording, which have ended."""
        with open(f"/proc/{self.helper.pid}/stat", encoding="ascii") as stat:
            ticks = stat.read().rsplit(")", 1)[1].split()[11:15]
        return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


class Opens(Tracer):
    """Counts the files that the work opens, wherever they are."""

    def __init__(self):
        super().__init__("strace", "opens", ["strace", "-f", "--seccomp-bpf", "-c", "-U", "calls,errors,name", "-o", "{out}",
                                             "-e", "trace=open,openat,openat2,creat"])

    def wait(self):
        with open(self.out, encoding="ascii") as out:
            rows = [line.split() for line in out]
        # no errors are an empty column
        self.count = sum(int(r[0]) - int(r[1] if len(r) > 2 else 0) for r in rows if r[-1].startswith(("open", "creat")))
        super().wait()


NATIVE = Variant("native")
ALL = [
    NATIVE,
    Shfs("shfs-uring", "shfs, unprivileged, io_uring", ORDINARY, "uring", "off"),
    Shfs("shfs-dev", "shfs, unprivileged, /dev/fuse", ORDINARY, "dev", "off"),
    Shfs("pass-uring", "shfs, passthrough, io_uring", "root", "uring", "on"),
    Shfs("pass-dev", "shfs, passthrough, /dev/fuse", "root", "dev", "on"),
    *(Driver(name) for name in ("module", "bpf", "bpf-tracepoints", "fanotify")),
    Record(),
    RecordByHelper(),
    Bindfs("bindfs"),
    FuseOverlayfs("fuse-overlayfs", "root"),
    Tracer("strace", "strace --seccomp-bpf", [
        "strace", "-f", "--seccomp-bpf", "-s", "4096", "-o", "{out}.log", "-e", "trace=file,process,desc"]),
    Tracer("care", "CARE", ["PROOT_NO_SECCOMP=1", "care", "-r", "/tmp", "-r", "/root", "-o", "{out}.tgz"]),
    Tracer("reprozip", "ReproZip", ["reprozip", "trace", "-w", "-d", "{out}"]),
]
TRACERS = [v for v in ALL if isinstance(v, Tracer)]
