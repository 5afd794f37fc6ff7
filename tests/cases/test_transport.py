# SPDX-License-Identifier: MIT
"""How requests come: by io_uring or /dev/fuse. Cases elsewhere that are marked transports run
with both."""

import fcntl
import os
import signal
import subprocess
import time

import pytest

from harness import ENABLE_URING, PATIENCE, PREFIX, wait_until
from twins import python

DAEMON = f"{PREFIX}/libexec/shfs/shfs-fuse"
USAGE, UNAVAILABLE = 2, 5  # exit statuses


def has_uring():
    return os.path.exists(ENABLE_URING) and open(ENABLE_URING, encoding="ascii").read() == "Y\n"


def test_status_tells(sandbox, shfs, project):
    if has_uring():
        mount = sandbox.mount()
        assert mount.status()["transport"] == "io_uring" and "transport_reason" not in mount.status()
        mount.unmount()
    sandbox.env["SHFS_TRANSPORT"] = "dev"
    mount = sandbox.mount()
    assert mount.status()["transport"] == "dev" and mount.status()["transport_reason"] == "as configured"
    mount.unmount()


@pytest.mark.users("ordinary")
def test_configuration(sandbox, shfs, project):
    del sandbox.env["SHFS_TRANSPORT"]
    config = sandbox.write_outside(f"{sandbox.home}/dev.ini", "[mount]\ntransport = dev\n")
    mount = sandbox.mount(None, "--config", config)
    assert mount.status()["transport"] == "dev"
    mount.unmount()
    if has_uring():
        mount = sandbox.mount(None, "--config", config, "--transport", "uring")
        assert mount.status()["transport"] == "io_uring"
        mount.unmount()
    wrong = sandbox.write_outside(f"{sandbox.home}/wrong.ini", "[mount]\ntransport = pigeon\n")
    for options, env in [(["--config", wrong], {}), (["--transport", "pigeon"], {}), ([], {"SHFS_TRANSPORT": "pigeon"})]:
        sandbox.run(DAEMON, "--store", sandbox.store, *options, project, check=USAGE, env=env)


@pytest.mark.users("root")
@pytest.mark.parametrize("call, when", [("io_uring_setup", "1"), ("io_uring_register", "2"), ("io_uring_register", "4"), ("io_uring_enter", "1")])
def test_rings_that_cannot_be_had(sandbox, project, call, when):
    """Refused by a container's filter, or in the middle of the start: then without them."""
    if not has_uring():
        pytest.skip("no FUSE over io_uring")
    env = {**sandbox.env, "ASAN_OPTIONS": sandbox.env["ASAN_OPTIONS"] + ":detect_leaks=0"}  # it is traced
    for transport in "auto", "uring":
        argv = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}", "-e", f"inject={call}:error=EPERM:when={when}"]
        argv += [DAEMON, "--store", sandbox.store, "--transport", transport, "--foreground", project]
        with subprocess.Popen(argv, env=env, cwd="/", stderr=subprocess.PIPE) as process:
            if transport == "uring":
                assert process.wait(20 * PATIENCE) == UNAVAILABLE and b"io_uring" in process.stderr.read()
                continue
            wait_until(lambda: os.path.ismount(project), "the mount")
            status = os.getxattr(project, "user.shfs.status").decode()
            assert "transport=dev\ntransport_reason=" in status and "as configured" not in status
            sandbox.sh("echo text > f; cat f > g; rm f")
            assert sandbox.read("g") == b"text\n"
            sandbox.unmount(project)
            assert process.wait(20 * PATIENCE) == 0


@pytest.mark.users("ordinary")
@pytest.mark.transports
def test_many_who_wait_hold_up_nobody(sandbox, project):
    """More than there are threads for a CPU; then their daemon is told to end."""
    sandbox.write("f", b"x")
    lower = os.open(f"{project}/f", os.O_RDWR)
    mount = sandbox.mount()
    cpu = str(min(os.sched_getaffinity(0)))
    before = signal.signal(signal.SIGIO, signal.SIG_IGN)
    try:
        fcntl.fcntl(lower, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        children = [sandbox.popen(["taskset", "-c", cpu, "cat", "f"], stdout=subprocess.DEVNULL) for _ in range(8)]
        wait_until(lambda: sum(is_waiting(c) for c in children) == 8, "the opens")
        sandbox.run("taskset", "-c", cpu, "sh", "-c", "echo y > g; mv g h; ls > /dev/null; cat h; rm h", timeout=10)
        mount.process.send_signal(signal.SIGTERM)
        fcntl.fcntl(lower, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        for child in children:
            child.wait(10 * PATIENCE)
        assert mount.process.wait(10 * PATIENCE) == 0
    finally:
        os.close(lower)
        signal.signal(signal.SIGIO, before)


def is_waiting(process):
    with open(f"/proc/{process.pid}/wchan", encoding="ascii") as wchan:
        return "request_wait" in wchan.read()


@pytest.mark.users("ordinary")
@pytest.mark.transports
def test_syncs_at_once(sandbox, mounted):
    """More than there are threads: each is answered, and none waits for another request."""
    python(sandbox, """
import concurrent.futures
def sync(n):
    write("f%d" % (n % 4), b"%d" % n)
    return os.getxattr(".", "user.shfs.sync")
with concurrent.futures.ThreadPoolExecutor(40) as pool:
    assert list(pool.map(sync, range(80))) == [b"ok"] * 80
""")


@pytest.mark.users("ordinary")
@pytest.mark.transports
def test_interrupts_find_their_requests(sandbox, project):
    """Of many that wait, all that are interrupted go on at once."""
    sandbox.write("f", b"x")
    lower = os.open(f"{project}/f", os.O_RDWR)
    sandbox.mount()
    before = signal.signal(signal.SIGIO, signal.SIG_IGN)
    try:
        for _ in range(5):
            fcntl.fcntl(lower, fcntl.F_SETLEASE, fcntl.F_WRLCK)
            children = [sandbox.popen(["cat", "f"], stdout=subprocess.DEVNULL) for _ in range(6)]
            wait_until(lambda: all(is_waiting(c) for c in children), "the opens")
            begin = time.monotonic()
            for child in children:
                child.kill()
            assert [c.wait(10 * PATIENCE) for c in children] == [-9] * 6
            assert time.monotonic() - begin < 10 * PATIENCE  # a lease is broken after 45 s
            fcntl.fcntl(lower, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        sandbox.sh("for i in 1 2 3 4 5 6 7 8; do cat f; done")  # with each libfuse forgets one
    finally:
        os.close(lower)
        signal.signal(signal.SIGIO, before)


def seats(pid):
    """The CPUs on which the threads that read the device may run."""
    found = set()
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/status", encoding="ascii") as status:
            fields = dict(line.rstrip("\n").split(":\t", 1) for line in status)
        if fields["Name"] == "fuse":
            found.add(fields["Cpus_allowed_list"])
    return found


@pytest.mark.users("ordinary")
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one CPU")
def test_threads_of_the_device_sit_near_their_callers(sandbox, project):
    """They follow their callers, but to no CPU that they were kept from."""
    ours = os.sched_getaffinity(0)
    cpus = sorted(ours)[:2]
    calls = "import os\nfor _ in range(3000): os.close(os.open('f', os.O_RDONLY))"
    sandbox.env["SHFS_TRANSPORT"] = "dev"
    sandbox.write("f", b"x")
    mount = sandbox.mount()
    for cpu in [*cpus, *cpus]:
        sandbox.run("taskset", "-c", str(cpu), "python3", "-c", calls)
        assert seats(mount.process.pid) == {str(cpu)}
    mount.unmount()
    try:
        os.sched_setaffinity(0, cpus[:1])
        mount = sandbox.mount()
        sandbox.run("taskset", "-c", str(cpus[1]), "python3", "-c", calls)
        assert seats(mount.process.pid) == {str(cpus[0])}
        mount.unmount()
    finally:
        os.sched_setaffinity(0, ours)
