# SPDX-License-Identifier: MIT
"""Power cuts: a disk that logs what is written to it, a load on it that is recorded by shfs, the disk
as it may be after a cut at any place of the log, and what must hold there.

What was written before the last flush is there; of what was written after it, any part may be."""

import bisect
import contextlib
import hashlib
import json
import os
import pathlib
import random
import shutil
import struct
import subprocess
import threading

import pytest

from harness import wait_until

TOOLS = os.path.join(os.environ["SHFS_TEST_BUILD"], "tests/unit")
NOTHING_YET = 3, 6  # exit statuses
NOISES = 7  # files
BLOCK = 4096  # what a disk writes as a whole
ENTRY = struct.Struct("=QII")  # of the log: offset, length, kind

# kind: (megabytes, options of mkfs, options of mount)
KINDS = {
    "ext4": (128, ["-q", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"], "commit=1"),
    "ext4-writeback": (128, ["-q", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"], "commit=1,data=writeback"),
    # a cut before may still be mounted in a namespace of somebody's: it has the same UUID
    "xfs": (320, ["-q", "-K"], "nodiscard,nouuid"),
    "btrfs": (256, ["-q", "-K"], "nodiscard,commit=1"),
}


def break_syncs(sandbox, name="fdatasync"):
    """A function that syncs does nothing in what the sandbox starts from now on."""
    library = sandbox.compile("nosync.so", f"int {name}(int fd) {{ return 0; }}", "-shared", "-fPIC")
    sandbox.env["LD_PRELOAD"] = library
    sandbox.env["ASAN_OPTIONS"] += ":verify_asan_link_order=0"


def digest(data):
    return hashlib.sha256(data).digest()


# --- the disk ---


class Disk:
    """A file system of some kind, mounted over the home of a sandbox; its writes are logged."""

    def __init__(self, sandbox, kind):
        self.sandbox, self.kind, self.ends = sandbox, kind, contextlib.ExitStack()
        self.ram = os.path.join(sandbox.path, "ram")
        os.mkdir(self.ram)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4g", "tmpfs", self.ram], check=True)
        self.ends.callback(self._umount, self.ram)
        self.image, self.log, self.cut = (f"{self.ram}/{name}" for name in ("image", "log", "cut"))
        megabytes, options, self.options = KINDS[kind]
        with open(self.image, "wb") as image:
            image.truncate(megabytes << 20)
        self.type = kind.partition("-")[0]
        subprocess.run([f"mkfs.{self.type}", *options, self.image], check=True, stdout=subprocess.DEVNULL)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ends.close()

    @staticmethod
    def _umount(where):
        wait_until(lambda: not subprocess.run(["umount", where], check=False, capture_output=True).returncode, "umount")

    @contextlib.contextmanager
    def mounted(self, image):
        """Over the home."""
        argv = ["mount", "-t", self.type, "-o", f"loop,{self.options}", image, self.sandbox.home]
        done = subprocess.run(argv, check=False, capture_output=True, text=True)
        if done.returncode:
            told = subprocess.run(["dmesg"], check=False, capture_output=True, text=True).stdout.splitlines()[-8:]
            pytest.fail(f"the file system cannot be mounted: {done.stderr}{told}")
        with contextlib.ExitStack() as ends:
            if self.type == "btrfs":  # it would refuse a disk of the same name that is older
                ends.callback(subprocess.run, ["btrfs", "device", "scan", "--forget"], capture_output=True)
            ends.callback(self._umount, self.sandbox.home)
            try:
                yield
            finally:
                for mount in self.sandbox.mounts:
                    ends.callback(mount.unmount)

    @contextlib.contextmanager
    def recorded(self):
        """Mounted over the home, with all writes in the log."""
        shutil.copyfile(self.image, f"{self.ram}/written")
        where = f"{self.ram}/disk"
        os.makedirs(where, exist_ok=True)
        tool = subprocess.Popen([f"{TOOLS}/disk_tool", f"{self.ram}/written", self.log, where])
        try:
            self.marked = f"{where}/disk"
            wait_until(lambda: os.path.exists(self.marked), "the disk")
            with self.mounted(self.marked):
                yield
            self._umount(where)
            assert tool.wait() == 0
        finally:
            tool.kill()
            tool.wait()
            subprocess.run(["umount", "-l", where], check=False, stderr=subprocess.DEVNULL)

    def mark(self, number):
        os.setxattr(self.marked, "user.mark", b"%d" % number)


class Cuts:
    """The log of a disk, played back."""

    def __init__(self, disk, seed):
        self.disk, self.random = disk, random.Random(seed)
        self.entries, self.flushes, self.marks = [], [], []  # (kind, offset, place, length); indices of them
        self.data = os.open(disk.log, os.O_RDONLY)
        at, size = 0, os.fstat(self.data).st_size
        while at < size:
            offset, length, kind = ENTRY.unpack(os.pread(self.data, ENTRY.size, at))
            at += ENTRY.size
            {"f": self.flushes, "m": self.marks, "w": []}[chr(kind)].append(len(self.entries))
            self.entries.append((chr(kind), offset, at, length))
            at += length
        self.durable, self.done = os.open(disk.image, os.O_RDWR), 0

    def __str__(self):
        written = sum(entry[3] for entry in self.entries if entry[0] == "w")
        return f"{len(self.entries)} entries, {written >> 20} MiB, {len(self.flushes)} flushes"

    def close(self):
        os.close(self.data)
        os.close(self.durable)

    def pick(self, count):
        """Places to cut at, and what stays of what was not flushed: after what was acknowledged (with the
        last ones, of what changes the store), at barriers, in front of them, and anywhere; None: at each
        barrier."""
        if count is None:
            return [(flush + 1, "none") for flush in self.flushes]
        places = [(flush + 1, "none") for flush in self.flushes] + [(flush, "some") for flush in self.flushes]
        acked = [(mark + 1, "none") for mark in self.marks]
        some = acked[-3:] + self.random.sample(acked[:-3], min(len(acked[:-3]), count // 4))
        some += self.random.sample(places, min(len(places), count // 2))
        while len(some) < count:
            some.append((self.random.randrange(len(self.entries) + 1), self.random.choice(["some", "some", "all"])))
        return sorted(some)

    def _parts(self, place, keep):
        """Of a write that is not flushed, (offset in it, length) of what stays."""
        _, offset, _, length = self.entries[place]
        fate = {"none": "gone", "all": "whole"}.get(keep) or self.random.choice(["gone", "whole", "torn"])
        if fate == "whole":
            yield 0, length
        elif fate == "torn":
            for at in range(0, length, BLOCK):
                if self.random.random() < 0.5:
                    yield at, min(BLOCK, length - at)

    def _write(self, fd, place, at, length):
        _, offset, where, _ = self.entries[place]
        os.pwrite(fd, os.pread(self.data, length, where + at), offset + at)

    def make(self, place, keep):
        """The disk after a cut, in a file of its own: one of before may still be mounted in a namespace of
        somebody's. Places come in ascending order."""
        flushed = bisect.bisect_left(self.flushes, place)
        durable = self.flushes[flushed - 1] if flushed else 0
        for n in range(self.done, durable):
            if self.entries[n][0] == "w":
                self._write(self.durable, n, 0, self.entries[n][3])
        self.done = max(self.done, durable)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.disk.cut)
        subprocess.run(["cp", "--sparse=auto", self.disk.image, self.disk.cut], check=True)
        cut = os.open(self.disk.cut, os.O_RDWR)
        for n in range(self.done, place):
            if self.entries[n][0] == "w":
                for part in self._parts(n, keep):
                    self._write(cut, n, *part)
        os.close(cut)

    def adopt(self, load):
        """The disk goes on as the last cut left it; the versions that are there."""
        place = len(self.entries)
        self.make(place, "some")
        with self.disk.mounted(self.disk.cut):
            found = Check(load, self.state(place)).afresh()
        os.replace(self.disk.cut, self.disk.image)
        return found

    def state(self, place):
        """The number of the last mark before."""
        n = bisect.bisect_left(self.marks, place)
        if not n:
            return 0
        _, _, where, length = self.entries[self.marks[n - 1]]
        return int(os.pread(self.data, length, where))


# --- the load ---


class Load:
    """Work in the project, and what is known of it. A state says what must be there from its mark on."""

    def __init__(self, sandbox, disk, seed, found=()):
        """found: the versions that are there."""
        self.sandbox, self.disk, self.random, self.seed = sandbox, disk, random.Random(seed), seed
        # name: digests of what was written there, in order
        noises = [f"{prefix}noise{n}" for n in range(NOISES) for prefix in ("", "../other/")]
        self.contents = {**{name: [] for name in noises}, **dict(found)}
        self.other = os.path.join(sandbox.home, "other")  # a second project
        self.latest = b""  # content
        self.before = {digest(b"")}  # what files held at the beginning
        self.noises = 0
        self.saved = {}  # name: how many of these were there when it was last made durable
        self.appended, self.appended_durable = b"", 0
        self.gone = set()
        self.states = [self.state({name: len(data) for name, data in self.contents.items()})]
        self.stop = threading.Event()

    def path(self, name):
        return os.path.join(self.sandbox.project, name)

    def text(self):
        """Like what it was before, with some lines changed; or bytes that nothing packs."""
        if self.random.random() < 0.1:
            return self.random.randbytes(self.random.choice([1_200_000, 300_000, 70_000]))
        lines = [b"line %d of a text\n" % n for n in range(self.random.choice([1, 20, 400, 2000]))]
        for _ in range(3):
            lines[self.random.randrange(len(lines))] = b"changed to %d\n" % self.random.getrandbits(64)
        return b"".join(lines)

    def note(self, name, data):
        """It will be a version, if it is not what is there."""
        versions = self.contents.setdefault(name, [])
        if versions[-1:] != [digest(data)]:
            versions.append(digest(data))

    def write(self, name, data, durable=False):
        self.note(name, data)
        self.latest = data
        with open(self.path(name), "wb") as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())

    def save(self, name, data):
        """As editors do."""
        self.write(f"{name}.tmp", data, durable=True)
        self.note(name, data)
        os.rename(self.path(f"{name}.tmp"), self.path(name))
        top = os.open(self.sandbox.project, os.O_RDONLY | os.O_DIRECTORY)
        os.fsync(top)
        os.close(top)
        self.saved[name] = len(self.contents[name])
        self.mark()

    def append(self, data):
        self.appended += data
        self.note("appended", self.appended)
        with open(self.path("appended"), "ab" if len(self.appended) > len(data) else "wb") as file:
            file.write(data)
            file.flush()
            if self.random.random() < 0.5:
                os.fsync(file.fileno())
                self.appended_durable = len(self.appended)
        self.mark()

    def copy(self):
        name = self.random.choice([name for name in sorted(self.contents) if os.path.exists(self.path(name))])
        with open(self.path(name), "rb") as file:
            self.write(f"copy-{self.random.getrandbits(32)}", file.read())

    def tree(self):
        name = f"dir-{self.random.getrandbits(32)}"
        os.mkdir(self.path(name))
        self.write(f"{name}/f", self.text())
        os.rename(self.path(name), self.path(f"{name}-moved"))
        self.write(f"{name}-moved/g", self.text())

    def step(self):
        some = self.random.randrange(12)
        if some < 5:
            self.write(f"f{some}", self.text())
        elif some < 7:
            self.save(f"saved{some}", self.text())
        elif some < 9:
            self.append(self.text()[:50_000])
        elif some == 9:
            self.copy()
        elif some == 10:
            self.tree()
        else:
            name = f"short-lived-{self.random.getrandbits(32)}"
            self.write(name, self.text())
            os.unlink(self.path(name))

    def noise(self):
        """A second writer, whom nobody waits for: of what is new, and of what others are just storing."""
        while not self.stop.wait(0.01):
            name = f"noise{self.noises % NOISES}"
            if os.path.ismount(self.other):
                self.write(f"../other/{name}", self.latest)
            self.write(name, f"{self.noises} of a lot of noise {self.seed}\n".encode() * 50)
            self.noises += 1

    def state(self, acked):
        durable = {"saved": dict(self.saved), "appended": self.appended_durable}
        return {"acked": acked, "gone": set(self.gone), **durable}

    def mark(self, acked=None):
        """What the last one had, and now this."""
        self.states.append(self.state(acked or self.states[-1]["acked"]))
        if self.disk:
            self.disk.mark(len(self.states) - 1)

    def sync(self):
        acked = {name: max(len(data) - ("noise" in name), 0) for name, data in self.contents.items()}
        if self.random.random() < 0.3:
            self.sandbox.shfs("sync", cwd="/")
        else:
            for project in filter(os.path.ismount, (self.sandbox.project, self.other)):
                assert os.getxattr(project, "user.shfs.sync") == b"ok"
        self.mark(acked)

    def work(self, steps):
        self.stop.clear()
        noise = threading.Thread(target=self.noise)
        noise.start()
        try:
            for n in range(steps):
                self.step()
                if n % 3 == 2:
                    self.sync()
        finally:
            self.stop.set()
            noise.join()

    def session(self, steps):
        """A mount, from its begin to its end."""
        mounts = self.sandbox.mount(), self.sandbox.mount(self.other)
        self.mark()
        for name in "f0", "f1":
            self.write(name, self.text())
        self.work(steps)
        for mount in mounts:
            mount.unmount()
        self.mark({name: len(data) for name, data in self.contents.items()})

    def restore(self, name):
        """Where no mount sees it."""
        self.contents[name].append(self.contents[name][0])
        done = self.sandbox.shfs("restore", f"{self.path(name)}@1", cwd="/", check=False)
        assert done.status == 0, (done, self.sandbox.shfs("log", "--json", self.path(name), cwd="/"))
        self.saved[name] = len(self.contents[name])
        self.mark({**self.states[-1]["acked"], name: len(self.contents[name])})

    def forget(self, name):
        """It must be there no more; nothing else may go."""
        self.mark({n: count for n, count in self.states[-1]["acked"].items() if n != name})
        self.sandbox.shfs("forget", "--yes", self.path(name), cwd="/")
        self.gone.add(name)
        self.mark()

    def run(self, steps, forgotten):
        for path in self.sandbox.project, self.other, os.path.dirname(self.sandbox.store):
            os.makedirs(path, exist_ok=True)
        for where, _, names in (*os.walk(self.sandbox.project), *os.walk(self.other)):
            self.before |= {digest(pathlib.Path(where, name).read_bytes()) for name in names}
        self.write("f0", b"was there before any mount\n")
        self.session(steps)
        self.session(steps)
        self.sandbox.shfs("history", "--all", cwd="/")
        self.restore("f1")
        self.forget(forgotten)
        self.sandbox.shfs("reindex", cwd="/")
        self.mark()


# --- what must hold after a cut ---


class Check:
    """Of one cut, whose disk is mounted."""

    def __init__(self, load, state):
        self.sandbox, self.load = load.sandbox, load
        self.state = load.states[state]

    def files(self):
        """Of the user: what was fsync'ed is there."""
        for name, count in self.state["saved"].items():
            with open(self.load.path(name), "rb") as file:
                assert digest(file.read()) in self.load.contents[name][count - 1 :], f"{name} is not as it was fsync'ed"
        if length := self.state["appended"]:
            with open(self.load.path("appended"), "rb") as file:
                assert file.read(length) == self.load.appended[:length], "what was appended and fsync'ed is not there"

    def journal(self):
        """No record names an object that is missing or torn."""
        if not os.path.exists(f"{self.sandbox.store}/log"):
            return  # it was being made; the queries tell whether it may be so
        found = self.sandbox.run(f"{TOOLS}/journal_tool", self.sandbox.store, cwd="/").stdout.splitlines()
        bad = [line for line in found if not line.endswith(" whole")]
        assert not bad, f"{len(bad)} of {len(found)} objects of the journal: {bad[:3]}"

    def select(self, sql):
        return json.loads(self.sandbox.shfs("select", sql, cwd="/").stdout)["rows"]

    def versions(self):
        """{name: digests of its versions, in order}, read through the queries."""
        sql = "SELECT path, n, size FROM v_version WHERE object IS NOT NULL AND flags & 8 = 0 ORDER BY file_id, n"
        rows = self.select(sql)
        specs = [f"{path}@{n}" for path, n, _ in rows]
        data = memoryview(self.sandbox.shfs("cat", *specs, cwd="/", timeout=60).stdout_bytes if specs else b"")
        found, at = {}, 0
        for path, _, size in rows:
            name = os.path.relpath(path, self.sandbox.project)
            found.setdefault(name, []).append(digest(data[at : at + size]))
            at += size
        assert at == len(data), f"{len(data)} bytes for {at}"
        return found

    def left_out(self, name):
        path = self.load.path(name).replace("'", "''")
        return self.select(f"SELECT n, flags, time_ns FROM v_version WHERE path = '{path}' AND (object IS NULL OR flags & 8)")

    def acknowledged(self, found):
        """All that was is there, in its order, and nothing that was never written."""
        for name, count in self.state["acked"].items():
            versions = iter(found.get(name, []))
            missing = [n for n, data in enumerate(self.load.contents[name][:count]) if data not in versions]
            there = [self.load.contents[name].index(v) if v in self.load.contents[name] else "?" for v in found.get(name, [])]
            assert not missing, f"{name}: of {count} versions {missing} are missing, there are {there}; {self.left_out(name)}"
        for name, versions in found.items():
            if name in self.load.contents:
                known = self.load.before.union(self.load.contents[name])
                assert known.issuperset(versions), f"{name} has a version that nobody wrote"
        assert not self.state["gone"] & set(found), "what was forgotten is there"

    def queries(self):
        there = self.sandbox.shfs("history", "--all", "--json", cwd="/", check=False)
        if there.status not in NOTHING_YET or any(self.state["acked"].values()):
            assert there.status == 0, there
            self.acknowledged(self.versions())

    def afresh(self):
        """The index made anew names nothing that is missing, and a mount records as if nothing had been."""
        os.makedirs(self.sandbox.project, exist_ok=True)
        mount = self.sandbox.mount()
        with open(self.load.path("afterwards"), "wb") as file:
            file.write(b"after the cut\n")
        for query in "log", "why", "cat":
            shown = self.sandbox.shfs(query, self.load.path("afterwards"), cwd="/").stdout
        assert shown == "after the cut\n"
        mount.unmount()
        self.sandbox.shfs("reindex", cwd="/")
        self.journal()
        found = self.versions()
        assert found["afterwards"][-1] == digest(b"after the cut\n")
        self.acknowledged(found)
        return found

    def check(self, resumed=False):
        """What a cut leaves behind is no damage, and needs no repair; a forget may be gone on with."""
        found = self.sandbox.shfs("check", "--read-data", cwd="/", check=False, timeout=60)
        if "forget --resume" in found.stderr and resumed:
            self.sandbox.shfs("forget", "--resume", cwd="/", timeout=60)
            found = self.sandbox.shfs("check", "--read-data", cwd="/", timeout=60)
        assert found.status in (0, *NOTHING_YET) or "forget --resume" in found.stderr, found

    def run(self, afresh):
        """All but the disk is new after a cut."""
        for name in os.listdir(f"{self.sandbox.path}/run"):
            shutil.rmtree(f"{self.sandbox.path}/run/{name}")
        self.files()
        self.journal()
        self.check()
        self.queries()
        if afresh:
            self.afresh()
        self.check(resumed=True)


def try_cuts(sandbox, kind, seed, steps, count):
    """Two loads, the second on a disk that a cut left, and so many cuts of each (None: one at each barrier): what
    was wrong."""
    problems, found = [], {}
    with Disk(sandbox, kind) as disk:
        for generation in 1, 2:
            load = Load(sandbox, disk, f"{seed} {generation}", found)
            with disk.recorded():
                load.run(steps, forgotten=f"noise{generation}")
            with contextlib.closing(Cuts(disk, seed)) as cuts:
                where = f"{kind}, seed {seed}, load {generation}"
                problems += [f"{where}: {problem}" for problem in check_cuts(load, cuts, count)]
                print(f"{where}: {count or len(cuts.flushes)} cuts in {cuts}")
                if problems:
                    break
                found = cuts.adopt(load)
    return problems


def check_cuts(load, cuts, count):
    for n, (place, keep) in enumerate(cuts.pick(count)):
        cuts.make(place, keep)
        try:
            with cuts.disk.mounted(cuts.disk.cut):
                Check(load, cuts.state(place)).run(afresh=n % 5 == 0)
        except (Exception, pytest.fail.Exception) as problem:
            yield f"{keep} kept at {place} of {len(cuts.entries)}: {problem!r}"
