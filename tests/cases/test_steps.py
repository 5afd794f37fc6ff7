# SPDX-License-Identifier: MIT
"""Each version beside what the file really held, after random steps of several processes (steps.py).
SHFS_TEST_STEPS is how many, SHFS_TEST_SEEDS with which numbers; a failure says with which it was.
With SHFS_TEST_SOAK it goes on with others for so many hours (./dev soak)."""

import itertools
import os
import time

import pytest

from harness import wait_until
from late import LateJudge, LateSteps, count_lost
from steps import DIRECTORIES, IGNORED, NAMES, Judge, Steps

STEPS = int(os.environ.get("SHFS_TEST_STEPS", "250"))
SEEDS = [int(seed) for seed in os.environ.get("SHFS_TEST_SEEDS", "1 2 3").split()]
HOURS = float(os.environ.get("SHFS_TEST_SOAK", "0"))
MAX_BYTES = 300 << 10


def lay_out(sandbox, top):
    """Before it is mounted or known through the mount; some files are there already."""
    for name in DIRECTORIES:
        sandbox.sh(f"mkdir -p {top}/{name}")
    for n, name in enumerate((NAMES + IGNORED)[::2]):
        sandbox.write(f"{top}/{name}", b"%d was there before\n" % n * 5 ** (n % 5))


def run(sandbox, mounted, top, below, seed):
    """The steps of one seed in a directory of their own; what was wrong."""
    lower = os.open(top, os.O_RDONLY | os.O_DIRECTORY, dir_fd=below)
    steps = Steps(sandbox, os.path.join(sandbox.project, top), lower, seed, MAX_BYTES)
    try:
        steps.run(STEPS)
        steps.close_all()
        wait_until(lambda: mounted.status()["queued"] == "0", "all to be recorded", 60)
        sandbox.shfs("sync", timeout=60)
        return Judge(steps, sandbox, may_mark=mounted.status()["passthrough"] == "on").judge()
    finally:
        steps.end()
        os.close(lower)


@pytest.mark.transports
@pytest.mark.timeout(120 + HOURS * 4000)
def test_versions_beside_a_model(sandbox):
    sandbox.write_outside(f"{sandbox.home}/.config/shfs/config.ini", f"[archive]\nmax-size = {MAX_BYTES}\nwait = 60000\n")
    below, end = os.open(sandbox.project, os.O_RDONLY), time.monotonic() + HOURS * 3600
    for seed in SEEDS:
        lay_out(sandbox, f"seed{seed}")
    mounted = sandbox.mount()
    for seed in itertools.count(time.time_ns() // 1000) if HOURS else SEEDS:
        if HOURS:
            lay_out(sandbox, f"seed{seed}")
        problems = run(sandbox, mounted, f"seed{seed}", below, seed)
        assert not problems, f"seed {seed}, {STEPS} steps: {len(problems)} problems\n" + "\n".join(problems[:5])
        if HOURS and time.monotonic() > end:
            break
    os.close(below)


def run_late(sandbox, watch, top, seed):
    """As run(), without a layer between; every other seed waits after each step."""
    lost, lower = count_lost(sandbox), os.open(f"{sandbox.project}/{top}", os.O_RDONLY | os.O_DIRECTORY)
    steps = LateSteps(sandbox, os.path.join(sandbox.project, top), lower, seed, MAX_BYTES,
                      settle=lambda: watch.settle(30), paced=seed % 2 == 0, driver=sandbox.backend)  # fmt: skip
    try:
        steps.run(STEPS)
        steps.close_all()
        watch.settle(30)
        sandbox.shfs("sync", timeout=60)
        return LateJudge(steps, sandbox, lost).judge()
    finally:
        steps.end()
        os.close(lower)


@pytest.mark.users("root", "ordinary")
@pytest.mark.backends(without=["fuse"])
@pytest.mark.timeout(120 + HOURS * 4000)
def test_versions_told_late(sandbox):
    """With one seed, and one that nobody has seen; a failure says which it was."""
    sandbox.write_outside(f"{sandbox.home}/.config/shfs/config.ini", f"[archive]\nmax-size = {MAX_BYTES}\nwait = 60000\n")
    watch, end = sandbox.mount(), time.monotonic() + HOURS * 3600
    new = itertools.count(time.time_ns() // 1000)
    for seed in new if HOURS else SEEDS if "SHFS_TEST_SEEDS" in os.environ else [1, next(new)]:
        lay_out(sandbox, f"seed{seed}")
        watch.settle(30)
        sandbox.shfs("sync", timeout=60)
        problems = run_late(sandbox, watch, f"seed{seed}", seed)
        assert not problems, f"seed {seed}, {STEPS} steps: {len(problems)} problems\n" + "\n".join(problems[:5])
        if HOURS and time.monotonic() > end:
            break
