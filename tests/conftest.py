# SPDX-License-Identifier: MIT
"""What holds for every test: a time limit, and the counts on the last line."""

import os
import signal

import pytest

TIMEOUT_SECONDS = 60
# Sanitized programs are several times slower, and a CI machine has two cores.
PATIENCE = float(os.environ.get("SHFS_TEST_PATIENCE", "1"))

if "SHFS_TEST_DIR" not in os.environ:
    raise pytest.UsageError("run the tests by ./dev test: it builds and installs what they use")


class Timeout(BaseException):
    """Not an Exception, so that no test swallows it."""


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    mark = item.get_closest_marker("timeout")
    limit = (mark.args[0] if mark else TIMEOUT_SECONDS) * PATIENCE

    def expire(signum, frame):
        signal.setitimer(signal.ITIMER_REAL, limit)  # the teardown has as long again
        raise Timeout(f"not done after {limit:g} s")

    before = signal.signal(signal.SIGALRM, expire)
    signal.setitimer(signal.ITIMER_REAL, limit)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


class Counts:
    """Each test counts once: failed if any of its phases failed, errors included."""

    def __init__(self):
        self.outcome = {}
        self.reasons = {}

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self.outcome[report.nodeid] = "failed"
        elif report.skipped:
            self.outcome.setdefault(report.nodeid, "skipped")
            self.reasons[report.nodeid] = str(report.longrepr[2]).removeprefix("Skipped: ")
        elif report.when == "call":
            self.outcome.setdefault(report.nodeid, "passed")

    def pytest_collectreport(self, report):
        if report.failed:
            self.outcome[report.nodeid] = "failed"

    def print(self):
        print()
        for name, reason in self.reasons.items():
            print(f"skipped: {name}: {reason}")
        counts = [
            f"{sum(o == kind for o in self.outcome.values())} {kind}"
            for kind in ("passed", "failed", "skipped")
        ]
        print(", ".join(counts), flush=True)


def pytest_configure(config):
    config.pluginmanager.register(Counts(), "counts")


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config):
    counts = config.pluginmanager.get_plugin("counts")
    if counts and not config.option.collectonly:
        counts.print()
