# SPDX-License-Identifier: MIT
"""The power fails while undo takes its steps: the next one goes on or goes back, and then the tree is as it was before
the command. SHFS_TEST_POWERCUT sets how many cuts are tried, on all file systems (./dev powercut)."""

import contextlib
import json
import os
import random
import shutil
import stat
import time

import pytest

import powercut
from harness import PREFIX

CUTS = int(os.environ.get("SHFS_TEST_POWERCUT", "0"))
STEPS = ("echo changed > {a}", "echo more >> {a}", "rm {a}", "mv {a} {b}", "mkdir -p d{n} && mv {a} d{n}/", "chmod 600 {a}", "ln {a} {b}",
         "ln -s {a} {b}", "sed -i s/text/word/ {a}", "head -c 300000 /dev/urandom > {b}", "cp {a} {b} && rm {a}", "truncate -s 3 {a}")  # fmt: skip


def tree(top):
    """{path: type, mode, and content or text}"""
    found = {}
    for where, dirs, files in os.walk(top):
        for name in (*dirs, *files):
            path = os.path.join(where, name)
            st = os.lstat(path)
            held = os.readlink(path) if stat.S_ISLNK(st.st_mode) else ""
            if stat.S_ISREG(st.st_mode):
                with open(path, "rb") as file:
                    held = file.read()
            found[os.path.relpath(path, top)] = (oct(st.st_mode), held)
    return found


class Undone:
    """A command in a project on a disk, and its undo."""

    def __init__(self, sandbox, disk, seed):
        self.sandbox, self.disk, rng = sandbox, disk, random.Random(seed)
        names = [f"f{n}" for n in range(8)]
        self.texts = {name: f"text of {name}\n" * rng.choice([1, 50, 5000]) for name in names}
        lines = [rng.choice(STEPS).format(a=rng.choice(names), b=f"new{n}", n=n) for n in range(12)]
        self.script = "set +e; " + "; ".join(f"{{ {line}; }} 2> /dev/null" for line in lines) + "; true"

    def run(self):
        os.makedirs(self.sandbox.project)
        os.makedirs(os.path.dirname(self.sandbox.store), exist_ok=True)
        for name, text in self.texts.items():
            with open(f"{self.sandbox.project}/{name}", "w", encoding="ascii") as file:
                file.write(text)
        mounted = self.sandbox.mount()
        self.before = tree(self.sandbox.project)
        self.sandbox.shfs("run", "--", "sh", "-c", self.script)
        self.sandbox.shfs("sync")
        commands = json.loads(self.sandbox.shfs("history", "--all", "--json").stdout)["commands"]
        self.command = next(one["id"] for one in commands if one["text"].startswith("sh -c 'set +e"))
        os.sync()
        self.disk.mark(1)
        self.sandbox.shfs("undo", "--yes", self.command)
        assert tree(self.sandbox.project) == self.before, self.script
        self.disk.mark(2)
        mounted.unmount()

    def boot_anew(self):
        """What undo has noted is of another boot than this one, which began after the cut."""
        path = f"{self.sandbox.store}/undo/progress"
        with contextlib.suppress(FileNotFoundError), open(path, "r+b") as file:
            held = file.read()
            with open("/proc/sys/kernel/random/boot_id", "rb") as boot:
                here = boot.read().strip()
            assert not held or here in held, held
            file.seek(0)
            file.write(held.replace(here, b"-" * len(here)))

    def check(self):
        """After a cut: a mount as of the next login, and the undo asked for again."""
        for name in os.listdir(f"{self.sandbox.path}/run"):
            shutil.rmtree(f"{self.sandbox.path}/run/{name}")
        mounted = self.sandbox.mount()
        self.boot_anew()
        since = f"--boottime=-{int(time.clock_gettime(time.CLOCK_BOOTTIME))}"
        again = self.sandbox.run("unshare", "--time", since, "--fork", f"{PREFIX}/bin/shfs", "undo", "--yes", self.command, check=False, timeout=60)
        found = tree(self.sandbox.project)
        differences = {name: (self.before.get(name), found.get(name)) for name in {*self.before, *found} if self.before.get(name) != found.get(name)}
        short = {name: [value and (value[0], value[1][:20]) for value in both] for name, both in differences.items()}
        assert not differences, f"{again.status} {again.stdout[-600:]} {again.stderr[-600:]} {short}"
        self.sandbox.shfs("check", "--read-data", timeout=60)
        mounted.unmount()


def places(cuts, count):
    """From the mark on that the undo begins behind."""
    begin, end = cuts.marks[0] + 1, len(cuts.entries)
    every = [(flush + 1, "none") for flush in cuts.flushes if flush >= begin] + [(flush, "some") for flush in cuts.flushes if flush > begin]
    some = cuts.random.sample(every, min(len(every), count // 2))
    while len(some) < count:
        some.append((cuts.random.randrange(begin, end + 1), cuts.random.choice(["some", "some", "all", "none"])))
    return sorted(some)


@pytest.mark.users("root")
@pytest.mark.timeout(120 + 8 * CUTS)
@pytest.mark.parametrize("kind", sorted(powercut.KINDS) if CUTS else ["ext4"])
@pytest.mark.parametrize("seed", range(1, 5) if CUTS else [1])
def test_power_cuts_of_undo(sandbox, kind, seed):
    problems = []
    with powercut.Disk(sandbox, kind) as disk:
        undone = Undone(sandbox, disk, seed)
        with disk.recorded():
            undone.run()
        time.sleep(1)  # the next boot begins at a whole second
        with contextlib.closing(powercut.Cuts(disk, seed)) as cuts:
            for place, keep in places(cuts, CUTS // 16 or 8):
                cuts.make(place, keep)
                try:
                    with disk.mounted(disk.cut):
                        undone.check()
                except (Exception, pytest.fail.Exception) as problem:
                    problems.append(f"{keep} kept at {place} of {len(cuts.entries)}: {problem}"[:2000])
    assert not problems, f"{kind}, seed {seed}: {len(problems)} cuts: {undone.script}\n" + "\n".join(problems[:4])
