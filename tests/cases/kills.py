# SPDX-License-Identifier: MIT
"""The process of a mount killed while programs write: what must be below, and what must be in the journal.
The programs are writing.py."""

import collections
import contextlib
import hashlib
import json
import os
import re
import signal
import subprocess
import time

import pytest

from harness import PATIENCE, wait_until

HERE = os.path.dirname(__file__)

EXIT_NS = 2 * 10**7  # until a process that is traced and killed has ended
IN_FLIGHT = 3  # closes of a program that the kernel may not have told yet


def digest(data):
    return hashlib.sha256(data).hexdigest()


class Load:
    """Programs that write in a directory that is mounted; what they told, once they have ended."""

    def __init__(self, sandbox, top, lower, seed, processes=3, pause=0.0, steps=0):
        """lower: a descriptor of what top covers. steps: of each; 0: until the end."""
        self.sandbox, self.top, self.lower, self.events = sandbox, top, lower, []
        self.begin, self.steps = time.time_ns(), steps
        with open(os.path.join(HERE, "writing.py"), encoding="utf-8") as source:
            text = source.read()
        self.programs = []
        for n in range(processes):
            log = open(f"{sandbox.path}/told-{seed}-{n}", "w+b")
            argv = ["/usr/bin/python3", "-B", "-c", text, top, f"{seed}-w{n}", f"{seed} {n}", pause, steps, lower]
            program = sandbox.popen(argv, cwd="/", stdout=log, stderr=subprocess.STDOUT, pass_fds=[lower])
            self.programs.append((program, log))

    def end(self):
        for program, _ in self.programs if not self.steps else ():
            program.terminate()
        for program, log in self.programs:
            status = program.wait(60 * PATIENCE)
            log.seek(0)
            lines = log.read().decode().splitlines()
            log.close()
            os.unlink(log.name)
            assert status == 0, "\n".join(lines[-20:])
            self.events += map(json.loads, lines)
        self.programs = []

    def of(self, *kinds):
        return [event for event in self.events if event["what"] in kinds]


class Check:
    """Of what is below, and of the journal, after kills at some times: [(before, after)], in ns."""

    def __init__(self, load, kills, may_be_pruned=False):
        self.load, self.kills, self.sandbox, self.may_be_pruned = load, kills, load.sandbox, may_be_pruned
        self.problems, self.counts = [], collections.Counter()

    def wrong(self, text):
        self.problems.append(text)

    # --- below ---

    def lines(self):
        """Of the file that all append to: each that was acknowledged is there, once, none is torn."""
        told = {line: done for event in self.load.of("end") for line, done in event["lines"].items()}
        try:
            with open(os.open("log", os.O_RDONLY, dir_fd=self.load.lower), "rb") as log:
                found = collections.Counter(log.read().decode().splitlines(keepends=True))
        except FileNotFoundError:
            found = {}
        missing = [line for line, done in told.items() if done and found[line] != 1]
        strange = "".join(line for line in found if line not in told or found[line] > 1)
        # the kernel cuts at pages; who writes below the mount just then may come between
        for line in missing[:]:
            if line in strange:
                missing.remove(line)
                strange = strange.replace(line, "", 1)
                self.counts["between"] += 1
        for line in missing[:]:
            if line == strange:
                missing, strange = [], ""
        if missing or strange:
            self.wrong(f"log: {len(missing)} of {len(told)} lines are missing: {missing[:3]}; {strange[:200]!r} is strange")

    def files(self):
        self.lines()
        for event in self.load.of("wrong"):
            self.wrong(f"{event['worker']}: {event['text']}")
        for event in self.load.of("gone"):
            self.counts[event["error"]] += 1
            # what a mapping holds is told later, and always as EIO
            is_late = event["step"] == "mapped" and event["error"] == "EIO"
            if event["error"] in ("EIO", "EINTR") and not is_late and self.life(event) is not None:
                self.wrong(f"an error without a reason: {event}")
        ends = self.load.of("end")
        self.counts["steps"] += sum(event["steps"] for event in ends)
        self.counts["acknowledged"] += sum(event["acknowledged"] for event in ends)

    # --- the journal ---

    def select(self, sql):
        return json.loads(self.sandbox.shfs("select", sql, cwd="/", timeout=120).stdout)["rows"]

    def digests(self):
        """{object: digest of what it holds}"""
        sql = f"SELECT object, min(path || '@' || n), size FROM v_version WHERE path GLOB '{self.load.top}/*' " \
              f"AND object IS NOT NULL AND time_ns >= {self.load.begin} GROUP BY object ORDER BY object"  # fmt: skip
        rows, found = self.select(sql), {}
        for some in (rows[i : i + 500] for i in range(0, len(rows), 500)):
            data = self.sandbox.shfs("cat", "--", *(spec for _, spec, _ in some), cwd="/", timeout=120).stdout_bytes
            at = 0
            for name, _, size in some:
                found[name] = digest(data[at : at + size])
                at += size
            assert at == len(data), f"{len(data)} bytes for {at}"
        self.counts["contents"] += len(found)
        return found

    def contents(self):
        """Of the versions of each file of the programs: none that it never held. What was renamed keeps its own."""
        digests, known = self.digests(), collections.defaultdict(lambda: {digest(b"")})
        for event in self.load.events:
            if "digest" in event:
                known[f"{event['worker']}/{event['name'].removesuffix('.tmp')}"].add(event["digest"])
        sql = f"SELECT path, n, object, flags, size, source FROM v_version WHERE path GLOB '{self.load.top}/*' " \
              f"AND time_ns >= {self.load.begin} ORDER BY file_id, n"  # fmt: skip
        self.versions = {}
        for path, n, name, flags, size, source in self.select(sql):
            file = os.path.relpath(path, self.load.top)
            self.versions[file, n] = digests.get(name)
            self.counts["versions"] += 1
            own, is_torn = file.removesuffix(".tmp"), flags & 8
            if own in known and name and not is_torn and digests[name] not in known[own]:
                self.wrong(f"{file}@{n}, {size} bytes, {source}, flags {flags}, was never there")

    def closes(self):
        """{file: [(digest or None, begin)]}: who wrote."""
        sql = "SELECT path, made_n, begin_ns FROM v_access WHERE is_open AND is_written AND " \
              f"path GLOB '{self.load.top}/*' AND begin_ns >= {self.load.begin} ORDER BY seq_key"  # fmt: skip
        found = collections.defaultdict(list)
        for path, n, begin in self.select(sql):
            file = os.path.relpath(path, self.load.top)
            found[file].append((self.versions.get((file, n)), begin))
        return found

    def life(self, event):
        """How many kills were before; None: one was meanwhile."""
        before = sum(after < event["t0"] for _, after in self.kills)
        return before if all(after < event["t0"] or begin > event["t1"] for begin, after in self.kills) else None

    def journal(self):
        """Each close by a mount has its record; but for the last ones of a program before a kill, of which the
        kernel may not have told yet. Its content is there if a sync told so. Each kill is told."""
        self.contents()
        records, closes = self.closes(), collections.defaultdict(list)
        synced, lives = {}, collections.defaultdict(list)
        for event in self.load.of("sync", "close"):
            life = self.life(event)
            if life is not None and event["what"] == "sync":
                synced[event["worker"], life] = event
            elif life is not None and event["seen"]:
                lives[event["worker"], life].append(event)
        for (worker, life), events in lives.items():
            for n, event in enumerate(events):
                event["is_last"] = life < len(self.kills) and n >= len(events) - IN_FLIGHT
                event["is_durable"] = (worker, life) in synced and event["t1"] < synced[worker, life]["t0"]
                closes[f"{worker}/{event['name']}"].append(event)
        [[gaps]] = self.select(f"SELECT count(*) FROM v_gap WHERE root = '{self.load.top}' AND begin_ns >= {self.load.begin}")
        ended = {life for _, life in lives if life < len(self.kills)}  # and something was to be recorded
        if gaps < len(ended):
            self.wrong(f"of {len(ended)} kills {gaps} are told")
        for file, told in closes.items():
            self.turns(file, told, records[file])

    def turns(self, file, told, records):
        """All that was told is there, each by an access of its own; where the content is not known, by one of its time."""
        self.counts["closes"] += len(told)
        known = {name for name, _ in records}
        unknown = [begin for name, begin in records if name is None]
        for event in told:
            if event["digest"] in known:
                continue
            begin = next((begin for begin in unknown if event["t0"] - 10**6 <= begin <= event["t1"]), None)
            if begin is not None:
                unknown.remove(begin)
                self.counts["unknown"] += 1
                if event["is_durable"] and not self.may_be_pruned:
                    self.wrong(f"{file}: what was synced is not known: {event}")
            else:
                self.missing(file, event)

    def missing(self, file, event):
        late = min((begin - event["t1"] for begin, _ in self.kills if begin > event["t1"]), default=0)
        self.counts["in flight"] += 1
        self.counts["longest in flight, us"] = max(self.counts["longest in flight, us"], late // 1000)
        if not event["is_last"] or event["is_durable"]:
            self.wrong(f"{file}: a close has no record: {event}")

    def store(self, *args):
        done = self.sandbox.shfs("check", *args, check=False, cwd="/", timeout=600)
        if done.status:
            self.wrong(f"{done!r}")

    def run(self, *args):
        self.files()
        self.journal()
        self.store(*args)
        return self.problems


@contextlib.contextmanager
def descriptor_of(directory):
    """Of what is there before it is mounted over."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield fd
    finally:
        os.close(fd)


def has_ended(pid):
    """With all its threads; its parent need not have asked."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:
            return stat.read().rpartition(") ")[2][0] in "ZX" and len(os.listdir(f"/proc/{pid}/task")) == 1
    except FileNotFoundError:
        return True


def told_by(sandbox, top, what="pid"):
    """A number that the process of a mount says of itself; 0: there is none."""
    argv = ["getfattr", "--only-values", "--absolute-names", "-n", "user.shfs.status", top]
    found = re.search(rf"^{what}=(\d+)$", sandbox.run(*argv, cwd="/", check=False).stdout, re.M)
    return int(found[1]) if found else 0


def wait_for_another(sandbox, top, pid):
    """That takes the place of this one, which has died."""
    wait_until(lambda: told_by(sandbox, top) not in (0, pid), "the mount to come again", 20)


def kill(sandbox, top):
    """The process of a mount, which comes again; when that was."""
    pid = told_by(sandbox, top)
    begin = time.time_ns()
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: has_ended(pid), "the end")
    end = time.time_ns()
    wait_for_another(sandbox, top, pid)
    return begin, end


def life(sandbox, top, seed, moments, **options):
    """A mount of this directory, whose process is killed after each of these seconds: a Check."""
    kills, away = [], 0
    with descriptor_of(top) as lower:
        sandbox.shfs("mount", top, cwd="/")
        load = Load(sandbox, top, lower, seed, **options)
        try:
            for seconds in moments:
                time.sleep(seconds)
                kills.append(kill(sandbox, top))
                away = max(away, time.time_ns() - kills[-1][1])
            time.sleep(0.2)
        finally:
            load.end()
        sandbox.shfs("sync", check=False, cwd="/")
        found = Check(load, kills)
        found.counts.update({"kills": len(kills), "longest away, ms": away // 10**6})
        found.run("--read-data")
        sandbox.shfs("umount", top, cwd="/")
    return found


# --- at a system call ---

STEPS = 25


@contextlib.contextmanager
def traced(sandbox, pid, *options):
    """As test_injected has it; but this process may end meanwhile."""
    argv = ["strace", "-f", "-qq", "-o", f"{sandbox.path}/tmp/trace", *options, "-p", str(pid)]
    with subprocess.Popen(argv, stderr=subprocess.DEVNULL) as strace:
        try:
            mark, tasks = f"TracerPid:\t{strace.pid}\n", f"/proc/{pid}/task"
            wait_until(lambda: all(mark in open(f"{tasks}/{t}/status").read() for t in os.listdir(tasks)), "strace")
            yield f"{sandbox.path}/tmp/trace"
        finally:
            strace.terminate()


def when_killed(trace):
    """[(about then, the end)], in ns."""
    with open(trace, encoding="utf-8", errors="replace") as lines:
        times = [int(float(line.split()[1]) * 10**9) for line in lines if "killed by SIGKILL" in line]
    return [(min(times) - EXIT_NS, max(times) + EXIT_NS)] if times else []


def session(sandbox, top, seed, site=None):
    """A mount with a session of some steps, whose process is killed at a site, or not: the Check, and the trace."""
    options = ["-ttt", "-e", f"trace={site[0]}", "-e", f"inject={site[0]}:signal=KILL:when={site[1]}"] if site else []
    with descriptor_of(top) as lower:
        sandbox.shfs("mount", top, cwd="/")
        pid = told_by(sandbox, top)
        with traced(sandbox, pid, *options) as trace:
            load = Load(sandbox, top, lower, seed, processes=1, steps=STEPS)
            load.end()
            if has_ended(pid):
                wait_for_another(sandbox, top, pid)
        sandbox.shfs("sync", check=False, cwd="/")
        found = Check(load, when_killed(trace) if site else [])
        found.counts["kills"] = len(found.kills)
        found.run()
        sandbox.shfs("umount", top, cwd="/")
    return found, trace


def expect(found):
    print(json.dumps(found.counts))
    if found.problems:
        pytest.fail(f"{len(found.problems)} problems:\n" + "\n".join(found.problems[:12]))
