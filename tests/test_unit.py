# SPDX-License-Identifier: MIT
"""Each test of each unit test executable, by name: test_unit[record:round_trip]."""

import glob
import os
import re
import subprocess

import pytest

BUILD = os.environ["SHFS_TEST_BUILD"]


def programs():
    paths = glob.glob(f"{BUILD}/tests/unit/test_*")
    return sorted(p for p in paths if os.path.isfile(p) and os.access(p, os.X_OK))


def unit_tests():
    if not programs():
        raise RuntimeError(f"no unit tests in {BUILD}")
    for path in programs():
        name = os.path.basename(path).removeprefix("test_")
        listing = subprocess.run([path, "--list"], capture_output=True, text=True, timeout=60)
        if listing.returncode != 0:
            raise RuntimeError(f"{path} --list: {listing.stderr}")
        for test in listing.stdout.split():
            yield pytest.param(path, test, id=f"{name}:{test}")


@pytest.mark.parametrize("program, test", unit_tests())
def test_unit(program, test):
    env = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "HOME": "/nonexistent",
        "TMPDIR": os.environ["SHFS_TEST_DIR"],
        "ASAN_OPTIONS": "detect_leaks=1:detect_stack_use_after_return=1:handle_sigill=1",
        "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1",
    }
    if "SHFS_TEST_FAULTS" in os.environ:
        env["SHFS_TEST_FAULTS"] = "all"
    # of what is at random all by ./dev test --all
    env["SHFS_TEST_SEEDS"] = os.environ.get("SHFS_TEST_SEEDS") or ("1 2 3" if "SHFS_TEST_ALL" in os.environ else "1")
    run = subprocess.run(
        [os.path.abspath(program), test],
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="backslashreplace",
    )
    if run.returncode == 77:
        reasons = re.findall(r"^SKIP: (.*)$", run.stdout, re.M)
        pytest.skip("; ".join(reasons) or "it does not say why")
    assert run.returncode == 0, f"exit status {run.returncode}\n{run.stdout}"
    assert "[  SKIPPED ]" not in run.stdout, "skip() without shfs_unit_skip()"
