# SPDX-License-Identifier: MIT
"""A mount that is worked in for hours, whose process is killed now and then, and one beside it that lives on, of the
same store: nothing grows, nothing is left, nothing is wrong. SHFS_TEST_SOAK is for how many hours (./dev soak)."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import time

import pytest

import kills
from harness import wait_until
from test_mount_cli import pids_of

HOURS = float(os.environ.get("SHFS_TEST_SOAK", "0"))
TURNS = None if HOURS else 1
KILLS, EVERY = (4, 30) if HOURS else (1, 0.5)  # in a turn; seconds
PAUSE = 0.02
SETTLED = 3  # turns; what is compared later is what there was then
KIB_MORE, FDS_MORE, MORE = 16 << 10, 16, 40


def number(path, what):
    with open(path, encoding="ascii", errors="replace") as lines:
        return sum(int(n) for n in re.findall(rf"^(?:{what}):\s+(\d+)", lines.read(), re.M))


class Dbench:
    """Run again and again, until it is to end; a mount that dies ends it."""

    def __init__(self, sandbox, top):
        self.sandbox, self.top, self.runs, self.program = sandbox, top, 0, None

    def go_on(self):
        if not shutil.which("dbench") or (self.program and self.program.poll() is None):
            return
        self.runs += 1
        self.sandbox.run("rm", "-rf", f"{self.top}/dbench", check=False)
        self.sandbox.run("mkdir", f"{self.top}/dbench", check=False)
        argv = ["dbench", "-t", "3600", "-R", "1", "-D", f"{self.top}/dbench", "2"]
        self.program = self.sandbox.popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def end(self):
        if self.program:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.program.pid, signal.SIGKILL)
            self.program.wait()


class Soak:
    def __init__(self, sandbox, shell):
        self.sandbox, self.turn, self.problems, self.seen = sandbox, 0, [], []
        self.killed, self.living = (sandbox.mkdir(f"{sandbox.home}/{name}") for name in ("killed", "living"))
        self.lower = {top: os.open(top, os.O_RDONLY) for top in (self.killed, self.living)}
        for top in self.lower:
            sandbox.shfs("mount", top, cwd="/")
        self.shell, self.commands = shell(cwd="/"), 0
        self.pid = kills.told_by(sandbox, self.living)
        self.dbench = Dbench(sandbox, self.living), Dbench(sandbox, self.killed)

    def command(self):
        """By the shell; where there is no mount just now it fails."""
        for top in self.lower:
            self.commands += 1
            self.shell.run(f"sort {top}/log 2>/dev/null | tail -{self.commands % 50 + 1} > {top}/sorted || true", timeout=60)

    def work(self):
        loads = [kills.Load(self.sandbox, top, fd, f"t{self.turn}{os.path.basename(top)}", processes=2, pause=PAUSE)
                 for top, fd in self.lower.items()]  # fmt: skip
        killed = []
        for _ in range(KILLS):
            end = time.monotonic() + EVERY
            while time.monotonic() < end:
                for dbench in self.dbench:
                    dbench.go_on()
                self.command()
                time.sleep(min(1, EVERY))
            killed.append(kills.kill(self.sandbox, self.killed))
        for part in *self.dbench, *loads:
            part.end()
        return loads, killed

    def check(self, loads, killed):
        for load, times in zip(loads, (killed, [])):
            found = kills.Check(load, times)
            self.sandbox.shfs("sync", check=False, cwd="/", timeout=120)
            found.files()
            found.journal()
            if not self.turn % 4:
                found.store("--read-data")
            self.problems += [f"turn {self.turn}: {problem}" for problem in found.problems]
            print(self.turn, os.path.basename(load.top), json.dumps(found.counts), flush=True)

    def ask(self):
        """What others do with a store."""
        shfs, log = self.sandbox.shfs, f"{self.living}/log"
        assert shfs("history", "-n", "20", cwd="/", timeout=120).stdout
        for query in ("why", log), ("log", log), ("stats", "--store"), ("status", "--json"):
            done = shfs(*query, cwd="/", check=False, timeout=120)
            if done.status not in (0, 1):
                self.problems.append(repr(done))
        for query in ("prune", "--keep-last", "2"), ("gc",), ("check",):
            done = shfs(*query, cwd="/", check=False, timeout=600)
            if done.status not in (0, 4):  # somebody else was at it
                self.problems.append(f"turn {self.turn}: {done!r}")

    def tidy(self):
        """All turns have as many files."""
        for top in self.lower:
            self.sandbox.sh("rm -rf t*-w* dbench log sorted; find . | wc -l", cwd=top, timeout=300)

    def count(self):
        """What must not grow; KiB for memory."""
        now = {"living KiB": number(f"/proc/{self.pid}/status", "VmRSS"),
               "living shared KiB": number(f"/proc/{self.pid}/status", "RssShmem"),
               "living nodes": kills.told_by(self.sandbox, self.living, "nodes"),
               "living fds": len(os.listdir(f"/proc/{self.pid}/fd"))}  # fmt: skip
        others = [pid for pid in pids_of(self.sandbox) if pid != self.pid]
        now["others"] = len(others)
        now["others KiB"] = now["others fds"] = now["others shared KiB"] = 0
        for pid in others:
            with contextlib.suppress(OSError):
                now["others KiB"] += number(f"/proc/{pid}/smaps_rollup", "Pss")
                now["others shared KiB"] += number(f"/proc/{pid}/status", "RssShmem")
                now["others fds"] += len(os.listdir(f"/proc/{pid}/fd"))
        for name, top in ("state", f"{self.sandbox.store}/state"), ("run", f"{self.sandbox.path}/run"), \
                ("temporary", f"{self.sandbox.path}/tmp"):  # fmt: skip
            now[f"{name} files"] = sum(len(files) + len(dirs) for _, dirs, files in os.walk(top))
        now["packs"] = len(os.listdir(f"{self.sandbox.store}/objects/packs"))
        self.seen.append(now)
        print(self.turn, json.dumps(now), flush=True)

    def run_turn(self):
        loads, killed = self.work()
        assert kills.told_by(self.sandbox, self.living) == self.pid, "a mount that nobody killed died"
        self.check(loads, killed)
        self.tidy()
        self.ask()
        self.count()
        self.turn += 1

    def judge(self):
        """What has grown in all of the later turns."""
        rest = self.seen[SETTLED:]
        for what in self.seen[0]:
            limit = KIB_MORE if "KiB" in what else FDS_MORE if "fds" in what else MORE
            before, later = [[now[what] for now in part] for part in (rest[: len(rest) // 3], rest[-(len(rest) // 3) :])]
            if len(rest) >= 6 and min(later) > max(before) + limit:
                self.problems.append(f"{what} grew from {before} to {later}")

    def end(self):
        self.shell.close()
        for top, fd in self.lower.items():
            self.sandbox.shfs("umount", top, cwd="/")
            os.close(fd)
        wait_until(lambda: not pids_of(self.sandbox), "all to end", 60)
        print(f"{self.turn} turns, {self.turn * KILLS} kills, {self.commands} commands, "
              f"dbench begun {sum(dbench.runs for dbench in self.dbench)} times")  # fmt: skip


@pytest.mark.users("ordinary")
@pytest.mark.timeout(HOURS * 5400 + 600)
def test_soak(sandbox, shell):
    sandbox.allow_exit(-signal.SIGKILL)
    sandbox.allow_log("ended")
    soak, end = Soak(sandbox, shell), time.monotonic() + HOURS * 3600
    while soak.turn != TURNS and (not HOURS or time.monotonic() < end):
        soak.run_turn()
    soak.judge()
    soak.end()
    assert not soak.problems, "\n".join(soak.problems[:20])
