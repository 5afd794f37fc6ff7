# SPDX-License-Identifier: MIT
"""What holds for every test: a time limit, its turn, and the counts on the last line."""

import contextlib
import fcntl
import os
import signal
import time

import pytest

TIMEOUT_SECONDS = 60
# Sanitized programs are several times slower, a CI machine has two cores, and others may use it, too.
PATIENCE = float(os.environ.get("SHFS_TEST_PATIENCE", "3"))

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

    apart = item.get_closest_marker("apart")
    with contextlib.nullcontext() if apart else turn(item.get_closest_marker("alone")):
        before = signal.signal(signal.SIGALRM, expire)
        signal.setitimer(signal.ITIMER_REAL, limit)
        yield
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def pytest_collection_modifyitems(items):
    """What takes minutes first, beside all else; then those that run one by one, meanwhile: each
    waits until no other test runs, which is costly in the middle of others."""
    marks = "apart", "alone"
    items.sort(key=lambda item: [not item.get_closest_marker(mark) for mark in marks])


@contextlib.contextmanager
def turn(alone):
    """Tests run side by side, in several processes; one that is marked alone beside none. It
    keeps the gate until the others are done, so that no further ones begin."""
    where = os.environ["SHFS_TEST_DIR"]
    with open(f"{where}/gate", "w") as gate, open(f"{where}/turn", "w") as lock:
        fcntl.flock(gate, fcntl.LOCK_EX)
        fcntl.flock(lock, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.flock(gate, fcntl.LOCK_UN)
        yield


class Counts:
    """Each test counts once: failed if any of its phases failed, errors included."""

    def __init__(self):
        self.outcome = {}
        self.reasons = {}
        self.errors = {}

    def note_failure(self, report):
        self.outcome[report.nodeid] = "failed"
        crash = getattr(report.longrepr, "reprcrash", None)
        lines = (crash.message if crash else str(report.longrepr)).split("\n")
        self.errors[report.nodeid] = lines[0][:200]

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self.note_failure(report)
        elif report.skipped:
            self.outcome.setdefault(report.nodeid, "skipped")
            self.reasons[report.nodeid] = str(report.longrepr[2]).removeprefix("Skipped: ")
        elif report.when == "call":
            self.outcome.setdefault(report.nodeid, "passed")

    def pytest_collectreport(self, report):
        if report.failed:
            self.note_failure(report)

    def print(self):
        print()
        for reason in sorted(set(self.reasons.values())):
            names = [name for name, r in self.reasons.items() if r == reason]
            more = f" and {len(names) - 1} more" if names[1:] else ""
            print(f"skipped: {names[0]}{more}: {reason}")
        for name in sorted(n for n, outcome in self.outcome.items() if outcome == "failed"):
            print(f"failed: {name}: {self.errors[name]}")
        counts = [
            f"{sum(o == kind for o in self.outcome.values())} {kind}"
            for kind in ("passed", "failed", "skipped")
        ]
        print(", ".join(counts), flush=True)


def start_afresh():
    """What all that the tests start would inherit: a strict umask, and the signals that are
    ignored for good in what a shell or a CI runner started in the background."""
    os.umask(0o022)
    for number in signal.SIGINT, signal.SIGQUIT, signal.SIGHUP:
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


class Switch:
    """io_uring for FUSE, which is switched off at boot."""

    PATH = "/sys/module/fuse/parameters/enable_uring"

    def pytest_sessionstart(self):
        self.before = None
        if os.access(self.PATH, os.W_OK):
            with open(self.PATH, "r+", encoding="ascii") as switch:
                self.before = switch.read()
                switch.write("Y")

    def pytest_sessionfinish(self):
        if self.before:
            with open(self.PATH, "w", encoding="ascii") as switch:
                switch.write(self.before)


def pytest_configure(config):
    start_afresh()
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Counts(), "counts")
        config.pluginmanager.register(Switch())


def end_object_store():
    """It writes below the directory of the run, which is removed then (cases/s3.py)."""
    at = os.path.join(os.environ["SHFS_TEST_DIR"], "s3")
    with contextlib.suppress(FileNotFoundError):
        os.unlink(f"{at}/ready")
        for _ in range(200):
            if os.path.exists(f"{at}/ended"):
                break
            time.sleep(0.05)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config):
    if not hasattr(config, "workerinput"):
        end_object_store()
    counts = config.pluginmanager.get_plugin("counts")
    if counts and not config.option.collectonly:
        counts.print()
