# SPDX-License-Identifier: MIT
"""The power fails at any moment: what was acknowledged is there, and nothing names what is not.
SHFS_TEST_POWERCUT sets how many cuts are tried, on all file systems (./dev powercut); with
SHFS_TEST_BARRIERS there is one at each barrier of two loads on each."""

import os

import pytest

import powercut
import syncs
from harness import PATIENCE, PREFIX, wait_until

CUTS = int(os.environ.get("SHFS_TEST_POWERCUT", "0"))
BARRIERS = "SHFS_TEST_BARRIERS" in os.environ
KINDS = sorted(powercut.KINDS) if CUTS or BARRIERS else ["ext4"]
LOADS = 4 if CUTS else 1  # each on a new disk


@pytest.mark.users("root")
@pytest.mark.timeout(7200 if BARRIERS else 120 + 8 * CUTS)
@pytest.mark.parametrize("load", range(LOADS))
@pytest.mark.parametrize("kind", KINDS)
def test_power_cuts(sandbox, kind, load):
    count = None if BARRIERS else -(-CUTS // len(KINDS) // LOADS // 2) or 12
    problems = powercut.try_cuts(sandbox, kind, seed=load, steps=40 if CUTS else 9, count=count)
    assert not problems, f"{len(problems)} cuts:\n" + "\n".join(problems[:8])


@pytest.mark.users("root")
def test_cuts_without_syncs_are_noticed(sandbox):
    powercut.break_syncs(sandbox, "fdatasync")
    problems = powercut.try_cuts(sandbox, "ext4", seed=1, steps=6, count=8)
    print("\n".join(problems))
    assert problems


@pytest.mark.users("root")
@pytest.mark.parametrize("broken", ["", "fsync", "fdatasync"])
def test_order_of_syncs(sandbox, project, broken):
    """No record is appended before what it names is durable; where something is broken, that is noticed."""
    if broken:
        powercut.break_syncs(sandbox, broken)
    trace = os.path.join(sandbox.path, "trace")
    daemon = [f"{PREFIX}/libexec/shfs/shfs-fuse", "--store", sandbox.store, "--foreground", project]
    env = {"ASAN_OPTIONS": sandbox.env["ASAN_OPTIONS"] + ":detect_leaks=0"}  # it is traced
    process = sandbox.popen(syncs.strace(trace, daemon), env=env, cwd="/")
    wait_until(lambda: os.path.ismount(project), "the mount")
    powercut.Load(sandbox, None, seed=1).work(30)
    sandbox.unmount(project)
    assert process.wait(20 * PATIENCE) == 0
    count, problems = syncs.check(trace, sandbox.store)
    print(f"{count} objects in records, {len(problems)} of them too early: {problems[:8]}")
    assert count > 30 and bool(problems) == bool(broken)
