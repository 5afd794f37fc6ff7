# SPDX-License-Identifier: MIT
"""shfs-helper: who is served and who is not, what is told to whom, and what stays behind.

The helper runs as root where that can be, with a driver that tells what a script says
(unit/driver_fake.h); the recorder is the case's user.
"""

import array
import contextlib
import errno
import os
import random
import re
import shutil
import signal
import socket
import stat
import struct
import subprocess
import time

import pytest

import harness
from harness import wait_until

pytestmark = pytest.mark.either

TOOLS = os.path.join(os.environ["SHFS_TEST_BUILD"], "tests/unit")
SANITIZED = b"__asan_init" in open(f"{TOOLS}/helper_tool", "rb").read()

VERSION = 1
WATCH, READY, EVENTS, SYNC, SYNCED = 1, 2, 3, 4, 5
HEADER = struct.Struct("=HHiQ32s472s")
CLOSE, LOST = 1, 32
TEXT_AT, PINNED = 152, 1 << 19
PACKET_MAX = 60 << 10
STRANGER = 54321  # a user that has no files


def packet(kind, cookie=0, driver=b"", version=VERSION, error=0):
    return HEADER.pack(version, kind, error, cookie, driver, b"")


@contextlib.contextmanager
def acting_as(uid, gid):
    """This process, for what the kernel takes down of it: the ids of a connection."""
    if os.geteuid() != 0 or uid == 0:
        yield
        return
    groups = os.getgroups()
    os.setgroups([])
    os.setegid(gid)
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(groups)


class Recorder:
    """One of our own, that may do everything wrong."""

    def __init__(self, helper, uid=None):
        user = helper.sandbox.user
        uid, gid = (user.uid, user.gid) if uid is None else (uid, uid)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(20 * harness.PATIENCE)
        with acting_as(uid, gid):
            self.socket.connect(helper.socket)

    def send(self, data, *fds):
        self.socket.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else [])

    def receive(self):
        """Header, what is behind it, and fds; None at the end."""
        try:
            data, fds, _, _ = socket.recv_fds(self.socket, PACKET_MAX, 253)
        except ConnectionResetError:
            return None
        if not data:
            return None
        version, kind, error, cookie, driver, why = HEADER.unpack_from(data)
        assert version == VERSION
        why = why.rstrip(b"\0").decode()
        return {"kind": kind, "error": error, "cookie": cookie, "why": why}, data[HEADER.size :], fds

    def watch(self, directory, driver=b""):
        root = os.open(directory, os.O_RDONLY)
        try:
            self.send(packet(WATCH, driver=driver), root)
        finally:
            os.close(root)
        return self.answer()

    def answer(self):
        got = self.receive()
        assert got and got[0]["kind"] == READY, got
        return got[0]

    def drain(self, cookie):
        """What is told until the cookie is back: (type, flags, sequence, count, fd or None)."""
        self.send(packet(SYNC, cookie))
        found = []
        while True:
            header, data, fds = self.receive()
            if header["kind"] == SYNCED:
                assert header["cookie"] == cookie
                return found
            at, fds = 0, list(fds)
            while at < len(data):
                size, kind, _, flags = struct.unpack_from("=IHHI", data, at)
                sequence, = struct.unpack_from("=Q", data, at + 16)
                count, = struct.unpack_from("=Q", data, at + 72)
                found.append((kind, flags, sequence, count, fds.pop(0) if flags & PINNED else None))
                at += size
            assert not fds, "fds without events"

    def ended(self):
        """Nothing more comes, and it is the end."""
        while (got := self.receive()) is not None:
            for fd in got[2]:
                os.close(fd)
        return True

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Helper:
    def __init__(self, sandbox, where, argv=None):
        self.sandbox, self.where = sandbox, where
        self.socket, self.log_path = f"{where}/s", f"{sandbox.path}/helper.log"
        argv = argv or [f"{sandbox.path}/helper_tool", "--foreground", "--socket", self.socket]
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(argv, stderr=log, env=sandbox.env, stdin=subprocess.DEVNULL)
        wait_until(lambda: self.process.poll() is not None or f"[{self.process.pid}]: listens" in self.log(),
                   "the helper")

    def log(self):
        with open(self.log_path, encoding="utf-8") as log:
            return log.read()

    def wait_log(self, pattern):
        return wait_until(lambda: re.search(pattern, self.log()), f"{pattern!r} in the log")

    def children(self):
        pid = self.process.pid
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as children:
            return [int(child) for child in children.read().split()]

    def wait_quiet(self):
        wait_until(lambda: not self.children(), "all watches to end", 30)

    def wait_played(self, lines):
        """Until the one watch has been told so many lines of its script, or more."""
        def played():
            child, = self.children()
            where = f"/proc/{child}/fdinfo"
            count = 0
            for fd in os.listdir(where):
                with contextlib.suppress(FileNotFoundError), open(f"{where}/{fd}", encoding="ascii") as info:
                    found = re.search("eventfd-count: *([0-9a-f]+)", info.read())
                    count += int(found[1], 16) if found else 0
            return count >= lines

        wait_until(played, f"{lines} lines to be told", 30)

    def fds(self):
        return sorted(os.readlink(f"/proc/{self.process.pid}/fd/{fd}").split(":")[0]
                      for fd in os.listdir(f"/proc/{self.process.pid}/fd"))

    def status(self, pid, key):
        with open(f"/proc/{pid}/status", encoding="utf-8") as status:
            return dict(line.rstrip("\n").split(":\t", 1) for line in status if ":\t" in line)[key]

    def end(self, number=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(20 * harness.PATIENCE)

    def play(self, *lines):
        with open(f"{self.sandbox.project}/script", "a", encoding="utf-8") as script:
            script.write("".join(f"{line}\n" for line in lines))


@pytest.fixture
def where(sandbox):
    """Where its socket lies: nobody else may write there."""
    path = os.path.join(sandbox.path, "socket")
    os.mkdir(path, 0o755)
    for name in "helper_tool", "connection_tool":  # the build may lie where the user cannot read
        shutil.copy(f"{TOOLS}/{name}", f"{sandbox.path}/{name}")
    sandbox.write_outside(f"{sandbox.project}/script", "")
    return path


@pytest.fixture
def helper(sandbox, where):
    one = Helper(sandbox, where)
    yield one
    one.end()


def recorder(sandbox, helper, *script, driver="", cookies="1\n"):
    """What the recorder of the project's user prints."""
    helper.play(*script)
    argv = [f"{sandbox.path}/connection_tool", helper.socket, driver, sandbox.project]
    return sandbox.run(*argv, input=cookies).stdout.splitlines()


def only_as_root(sandbox):
    if os.geteuid() != 0:
        pytest.skip("needs root")


# --- what is told ---


@pytest.mark.both
def test_events_come_in_order_and_all_before_the_cookie(sandbox, helper):
    uid = sandbox.user.uid
    lines = recorder(sandbox, helper, f"close {uid} 7 a", f"2 rename {uid} 7 a b", f"exit {uid} 7", cookies="5\n9\n")
    assert lines[0] == "ready fake; unable: it never works"
    assert lines[1:] == [f"1 {uid} 7 a ", f"3 {uid} 7 a b", f"3 {uid} 7 a b", f"18 {uid} 7  ", "synced 5", "synced 9"]


def test_a_driver_is_chosen_by_name(sandbox, helper):
    assert recorder(sandbox, helper, driver="fake")[0] == "ready fake; "
    for name, why in ("unable", "unable: it never works"), ("nobody", "has no driver of that name"):
        argv = [f"{sandbox.path}/connection_tool", helper.socket, name, sandbox.project]
        assert why in sandbox.run(*argv, check=1).stderr


@pytest.mark.users("ordinary")
def test_nothing_of_others_is_told(sandbox, helper):
    """Whatever the driver lets through; and nothing that a driver must not tell."""
    only_as_root(sandbox)
    uid = sandbox.user.uid
    others = [f"{kind} {other} 7 a b" for other in (0, STRANGER) for kind in
              ("close", "rename", "link", "unlink", "fork", "exec", "exit", "pinned")]
    lines = recorder(sandbox, helper, *others, f"directory {uid} 7 a", f"broken {uid} 7 a", f"close {uid} 7 mine")
    assert lines[1:] == [f"1 {uid} 7 mine ", "synced 1"]
    helper.wait_log(r"left out 16 of others and 2 that were broken")


@pytest.mark.both
def test_root_is_told_of_all(sandbox, helper):
    only_as_root(sandbox)
    if sandbox.user.uid:
        pytest.skip("only root")
    assert len(recorder(sandbox, helper, "close 0 7 a", f"close {STRANGER} 7 a")) == 4


@pytest.mark.users("ordinary")
def test_paths_that_the_user_cannot_reach_are_not_told(sandbox, helper):
    only_as_root(sandbox)
    uid, project = sandbox.user.uid, sandbox.project
    os.mkdir(f"{project}/locked", 0o700)  # root's
    os.mkdir(f"{project}/locked/deep", 0o755)
    sandbox.mkdir(f"{project}/own", 0o000)  # one that he closed himself
    told = ["own/x", "gone/away/x", "x"]
    hidden = ["locked/x", "locked/deep/x", "locked/gone/x", "/x", "../x", "own/../locked/x", "a//b/c"]
    lines = recorder(sandbox, helper, *(f"close {uid} 7 {path}" for path in told + hidden + told),
                     f"rename {uid} 7 x locked/x", f"rename {uid} 7 locked/x x", f"unlink {uid} 7 locked")
    assert lines[1:-2] == [f"1 {uid} 7 {path} " for path in told + told]
    assert lines[-2:] == [f"5 {uid} 7 locked ", "synced 1"]


@pytest.mark.both
def test_contents_are_read_by_the_users_own_right(sandbox, helper):
    only_as_root(sandbox)
    uid, project = sandbox.user.uid, sandbox.project
    sandbox.write_outside(f"{project}/mine", "mine")
    for name, mode in ("open", 0o644), ("private", 0o600):
        with open(f"{project}/{name}", "w", encoding="ascii") as file:
            file.write(name)
        os.chmod(file.name, mode)
    lines = recorder(sandbox, helper, *(f"pinned {uid} 7 {name}" for name in ("mine", "open", "private")))
    secret = " pinned content=7:private" if uid == 0 else ""
    assert lines[1:-1] == [f"1 {uid} 7 mine  pinned content=4:mine", f"1 {uid} 7 open  pinned content=4:open",
                           f"1 {uid} 7 private {secret}"]


@pytest.mark.users("ordinary")
def test_a_lent_fd_gives_no_right_to_the_file(sandbox, where):
    """The claim on which content fds stand: O_PATH names a file and opens nothing."""
    only_as_root(sandbox)
    secret = f"{sandbox.path}/secret"
    with open(secret, "w", encoding="ascii") as file:
        file.write("secret")
    os.chmod(secret, 0o600)
    program = sandbox.compile("lent", r"""
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <stdlib.h>
int main(int argc, char **argv)
{
	char link[40], b[8];
	int fd = atoi(argv[1]);
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	if (open(link, O_RDONLY) >= 0 || errno != EACCES) return 10;
	if (open(link, O_WRONLY) >= 0 || errno != EACCES) return 11;
	if (read(fd, b, 8) >= 0 || errno != EBADF) return 12;
	if (mmap(0, 8, PROT_READ, MAP_PRIVATE, fd, 0) != MAP_FAILED) return 13;
	if (!fchmod(fd, 0777) || !chmod(link, 0777)) return 14;
	if (!linkat(AT_FDCWD, link, AT_FDCWD, argv[2], AT_SYMLINK_FOLLOW)) return 15;
	if (!linkat(fd, "", AT_FDCWD, argv[2], AT_EMPTY_PATH)) return 16;
	if (!truncate(link, 0)) return 17;
	return 0;
}
""")
    fd = os.open(secret, os.O_PATH)
    try:
        sandbox.run(program, str(fd), f"{sandbox.project}/link", pass_fds=[fd])
    finally:
        os.close(fd)


# --- who is served ---


def refused_roots(project):
    yield "O_PATH", os.open(project, os.O_PATH), errno.EACCES
    yield "file", os.open(f"{project}/script", os.O_RDONLY), errno.ENOTDIR
    yield "writable", os.open(f"{project}/script", os.O_WRONLY), errno.EACCES
    yield "O_PATH of a file", os.open(f"{project}/script", os.O_PATH), errno.EACCES
    yield "eventfd", os.eventfd(0), errno.ENOTDIR
    yield "socket", socket.socket(socket.AF_UNIX).detach(), errno.ENOTDIR


def test_only_a_directory_opened_to_be_read_is_watched(sandbox, helper):
    for what, fd, error in refused_roots(sandbox.project):
        with Recorder(helper) as one:
            one.send(packet(WATCH), fd)
            os.close(fd)
            answer = one.answer()
            assert answer["error"] == -error, what
            assert "was not opened to be read" in answer["why"]
            assert one.ended()
    helper.wait_quiet()


def test_garbage_ends_its_own_connection_alone(sandbox, helper):
    """A line in the log, nothing left open; the others go on."""
    root = os.open(sandbox.project, os.O_RDONLY)
    null = os.open("/dev/null", os.O_RDONLY)
    rng = random.Random(1)
    bad = [
        ("nothing", b"x", []),
        ("bytes", rng.randbytes(700), [root]),
        ("a short order", packet(WATCH)[:-1], [root]),
        ("a long order", packet(WATCH) + b"\0" * 8, [root]),
        ("too long for a packet", packet(WATCH) + b"\0" * PACKET_MAX, [root]),
        ("no fd", packet(WATCH), []),
        ("two fds", packet(WATCH), [root, root]),
        ("many fds", packet(WATCH), [null] * 250),
        ("a name without end", packet(WATCH, driver=b"x" * 32), [root]),
        ("not an order", packet(SYNC, 1), []),
        ("an answer", packet(READY), [root]),
        ("events", packet(EVENTS), []),
        ("an unknown type", packet(77), [root]),
        ("an error that is none", packet(WATCH, error=5), [root]),
    ]
    before = helper.fds()
    with Recorder(helper) as bystander:
        assert bystander.watch(sandbox.project)["error"] == 0
        for what, data, fds in bad:
            with Recorder(helper) as one:
                one.send(data, *fds)
                answer = one.receive()
                assert answer is None or answer[0]["error"] < 0, what
                assert one.ended()
        for what, data, fds in bad:
            with Recorder(helper) as one:
                assert one.watch(sandbox.project)["error"] == 0, what
                if what == "not an order":
                    data, fds = packet(SYNC, 1), [null]  # with an fd that nobody asked for
                one.send(data, *fds)
                assert one.ended()
        assert bystander.drain(1) == []
    os.close(root)
    os.close(null)
    helper.wait_quiet()
    assert helper.fds() == before
    assert helper.log().count("sent garbage") == len(bad)


@pytest.mark.both
def test_another_version_is_told_what_to_do(sandbox, helper):
    root = os.open(sandbox.project, os.O_RDONLY)
    with Recorder(helper) as one:
        one.send(packet(WATCH, version=VERSION + 1), root)
        answer = one.answer()
        assert answer["error"] == -errno.EPROTONOSUPPORT
        assert "another version" in answer["why"] and "restart" in answer["why"]
    os.close(root)


def test_who_orders_nothing_is_not_served_for_ever(sandbox, helper):
    with Recorder(helper) as one:
        answer = one.answer()
        assert answer["error"] == -errno.ETIMEDOUT and "no order came" in answer["why"]
        assert one.ended()


@pytest.mark.users("ordinary")
def test_a_user_has_so_many_watches_and_no_more(sandbox, helper):
    only_as_root(sandbox)
    with contextlib.ExitStack() as all_of_them:
        for _ in range(16):
            one = all_of_them.enter_context(Recorder(helper))
            assert one.watch(sandbox.project)["error"] == 0
        with Recorder(helper) as one:
            answer = one.answer()
            assert answer["error"] == -errno.EUSERS and "too many" in answer["why"]
        with Recorder(helper, uid=STRANGER) as one:
            assert one.watch(sandbox.project)["error"] == 0
        with Recorder(helper, uid=0) as one:
            assert one.watch(sandbox.project)["error"] == 0
    helper.wait_quiet()
    with Recorder(helper) as one:
        assert one.watch(sandbox.project)["error"] == 0


def test_the_log_of_one_user_has_an_end(sandbox, helper):
    """What is refused costs root no line each; how many there were is told."""
    number, most = 200, 60
    for _ in range(number):
        with Recorder(helper) as one:
            one.send(b"garbage")
            assert one.ended()
    if os.geteuid() == 0:
        with Recorder(helper, uid=STRANGER) as one:  # has his own
            one.send(b"garbage")
            assert one.ended()
    helper.wait_quiet()
    refused = helper.log().count(f"user {sandbox.user.uid}, ")
    assert refused in range(most, number // 2)  # the test may see the next minute
    assert os.geteuid() or f"user {STRANGER}, " in helper.log()
    helper.end()
    assert refused + sum(map(int, re.findall(r"(\d+) more lines are left out", helper.log()))) == number


@pytest.mark.both
def test_a_watch_sees_the_mounts_of_its_user(sandbox, where):
    """systemd gives the helper a mount namespace of its own: names would mean other things."""
    only_as_root(sandbox)
    hidden = sandbox.mkdir(f"{sandbox.project}/hidden")
    sandbox.write_outside(f"{hidden}/file", "x")
    shell = 'mount -t tmpfs none "$0" && test ! -e "$0/file" && exec "$@"'
    program = [f"{sandbox.path}/helper_tool", "--foreground", "--socket", f"{where}/s"]
    one = Helper(sandbox, where, ["unshare", "-m", "sh", "-c", shell, hidden, *program])
    uid = sandbox.user.uid
    try:
        lines = recorder(sandbox, one, f"exists {uid} 7 {hidden}/file", f"exists {uid} 7 {hidden}/none")
        assert lines[1:] == [f"8 {uid} 7 x ", "synced 1"]
    finally:
        one.end()


@pytest.mark.users("ordinary")
def test_a_namespace_that_is_not_roots_is_refused(sandbox, helper):
    """There its user says what is called /proc."""
    only_as_root(sandbox)
    argv = [f"{sandbox.path}/connection_tool", helper.socket, "", sandbox.project]
    for options, why in (["-Um"], "a mount namespace of its own"), (["-Umpf"], "another pid namespace"):
        run = sandbox.run("unshare", *options, *argv, check=False)
        if "unshare failed" in run.stderr:
            pytest.skip("no user namespaces")
        assert why in run.stderr, run
    helper.wait_quiet()


# --- who does not read ---


def test_a_recorder_that_does_not_read_is_told_what_it_lost(sandbox, helper):
    """In its place: what comes behind is just behind it in the driver's own count."""
    only_as_root(sandbox)
    number = 200000
    with Recorder(helper) as one:
        assert one.watch(sandbox.project)["error"] == 0
        helper.play(f"{number} close {sandbox.user.uid} 7 a")
        helper.wait_played(1)
        found = one.drain(1)
        at = [i for i, event in enumerate(found) if event[0] == LOST]
        assert len(at) == 1
        lost = found[at[0]][3]
        assert len(found) - 1 + lost == number and lost
        assert [event[2] for event in found[: at[0]]] == list(range(at[0]))
        helper.play(f"100 close {sandbox.user.uid} 7 a")
        more = one.drain(2)
        assert [event[2] for event in more] == list(range(number, number + 100))
    helper.wait_log(f"lost {lost} events")


def test_losses_in_the_middle_are_told_there(sandbox, helper):
    """A reader that stops and goes on: nothing comes twice, or is missed without a word."""
    with Recorder(helper) as one:
        assert one.watch(sandbox.project)["error"] == 0
        expected = 0
        for cookie in range(3):
            helper.play(f"150000 close {sandbox.user.uid} 7 a")
            for kind, _, sequence, count, _ in one.drain(cookie):
                if kind == LOST:
                    expected += count
                else:
                    assert sequence == expected
                    expected += 1
        assert expected == 450000


def test_contents_that_nobody_takes_are_bounded(sandbox, helper):
    only_as_root(sandbox)
    number = 10000
    sandbox.write_outside(f"{sandbox.project}/a", "a")
    with Recorder(helper) as one:
        assert one.watch(sandbox.project)["error"] == 0
        helper.play(f"{number} pinned {sandbox.user.uid} 7 a")
        helper.wait_played(1)
        child, = helper.children()
        assert len(os.listdir(f"/proc/{child}/fd")) < 4096 + 50
        one.send(packet(SYNC, 1))
        events = fds = pinned = 0
        while True:
            header, data, got = one.receive()
            if header["kind"] == SYNCED:
                break
            for at in range(0, len(data), 160):
                events += 1
                pinned += struct.unpack_from("=I", data, at + 8)[0] & PINNED != 0
            fds += len(got)
            for fd in got:
                os.close(fd)
    assert events == number
    assert fds == pinned and 400 <= fds < number


def test_many_syncs_that_nobody_reads(sandbox, helper):
    with Recorder(helper) as one:
        assert one.watch(sandbox.project)["error"] == 0
        one.socket.setblocking(False)
        sent = 0
        with contextlib.suppress(BlockingIOError):
            while sent < 100000:
                one.send(packet(SYNC, sent))
                sent += 1
                time.sleep(0.0001)
        assert sent < 100000  # it does not take more than it answers
        one.socket.settimeout(20 * harness.PATIENCE)
        assert [one.receive()[0]["cookie"] for _ in range(sent)] == list(range(sent))


# --- who ends ---


def test_recorders_killed_at_any_instant_leave_nothing(sandbox, helper):
    before = helper.fds()
    sandbox.write_outside(f"{sandbox.project}/a", "a")
    helper.play(f"2000 pinned {sandbox.user.uid} 7 a", f"50000 close {sandbox.user.uid} 7 a")
    rng = random.Random(2)
    argv = [f"{sandbox.path}/connection_tool", helper.socket, "", sandbox.project]
    for _ in range(30):
        pipe = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        with sandbox.popen(argv, **{**pipe}) as process:
            process.stdin.write(b"1\n")
            process.stdin.flush()
            time.sleep(rng.random() * 0.1)
            os.kill(process.pid, signal.SIGKILL)
    helper.wait_quiet()
    assert helper.fds() == before
    with Recorder(helper) as one:
        assert one.watch(sandbox.project)["error"] == 0


def test_a_stopped_recorder_holds_up_nobody(sandbox, helper):
    uid = sandbox.user.uid
    with Recorder(helper) as stopped:
        assert stopped.watch(sandbox.project)["error"] == 0
        helper.play(f"300000 close {uid} 7 a")
        with Recorder(helper) as other:
            assert other.watch(sandbox.project)["error"] == 0
            assert len(other.drain(1)) > 1000


def test_a_watch_that_dies_is_told_and_logged(sandbox, helper):
    argv = [f"{sandbox.path}/connection_tool", helper.socket, "", sandbox.project]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with sandbox.popen(argv, text=True, **pipes) as process:
        assert process.stdout.readline().startswith("ready fake")
        child, = helper.children()
        if sandbox.user.uid:
            assert "not permitted" in sandbox.run("kill", "-9", str(child), check=1).stderr or os.geteuid()
        os.kill(child, signal.SIGKILL)
        process.stdin.write("1\n")
        process.stdin.flush()
        assert process.stdout.readline() == "ended Connection reset by peer\n"
        process.stdin.close()
    helper.wait_log("a subscription was ended by signal 9")
    helper.wait_quiet()


@pytest.mark.parametrize("line, said", [("end", "Input/output error"), ("crash", "Connection reset by peer")])
def test_a_driver_that_ends_is_told(sandbox, helper, line, said):
    uid = sandbox.user.uid
    lines = recorder(sandbox, helper, f"close {uid} 7 a", line)
    assert lines[-1] == f"ended {said}"
    if line == "end":
        assert lines[1] == f"1 {uid} 7 a "  # what came before
    helper.wait_quiet()


def test_its_own_end_is_told(sandbox, helper):
    with Recorder(helper) as one, Recorder(helper) as idle:
        assert one.watch(sandbox.project)["error"] == 0
        helper.play(f"close {sandbox.user.uid} 7 a")
        assert helper.end() == 0
        kinds = []
        while (got := one.receive()) is not None:
            kinds.append((got[0]["kind"], got[0]["error"]))
        assert kinds == [(EVENTS, 0), (SYNCED, -errno.ESHUTDOWN)]
        assert idle.ended()
    assert not os.path.exists(helper.socket)


def test_a_driver_that_hangs_does_not_keep_it(sandbox, helper):
    with Recorder(helper) as one:
        assert one.watch(sandbox.project)["error"] == 0
        helper.play("hang")
        time.sleep(0.1)
        assert helper.end() == 0
        assert one.ended()


def test_killed_it_takes_its_watches_along(sandbox, helper, where):
    with Recorder(helper) as one:
        assert one.watch(sandbox.project)["error"] == 0
        child, = helper.children()
        helper.end(signal.SIGKILL)
        assert one.ended()
    with contextlib.suppress(ChildProcessError):  # we adopted it
        os.waitpid(child, 0)
    # and the socket that it left is no hindrance
    assert stat.S_ISSOCK(os.stat(helper.socket).st_mode)
    again = Helper(sandbox, where)
    with Recorder(again) as one:
        assert one.watch(sandbox.project)["error"] == 0
    assert again.end() == 0


@pytest.mark.timeout(300)
def test_a_thousand_connections_leave_nothing(sandbox, helper):
    def memory():
        return int(helper.status(helper.process.pid, "VmRSS").split()[0])

    def connect(n):
        for i in range(n):
            with Recorder(helper) as one:
                if i % 4:
                    assert one.watch(sandbox.project)["error"] == 0
                if i % 4 == 2:
                    one.drain(i)
                if i % 4 == 3:
                    one.send(b"garbage")
            wait_until(lambda: len(helper.children()) < 8, "the watches to end", 30)
        helper.wait_quiet()

    connect(50)
    fds, before = helper.fds(), memory()
    connect(1000)
    assert helper.fds() == fds
    assert memory() - before < (8192 if SANITIZED else 256)


# --- how it starts ---


def test_without_a_helper_it_says_what_to_start(sandbox, where):
    argv = [f"{sandbox.path}/connection_tool", f"{where}/s", "", sandbox.project]
    for _ in range(2):
        said = sandbox.run(*argv, check=1).stderr
        assert "no helper runs here" in said
        assert "systemctl enable --now shfs-helper.socket" in said and "sudo shfs-helper --foreground" in said
        with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)) as stale:
            if not os.path.exists(f"{where}/s"):
                stale.bind(f"{where}/s")  # and nobody listens
                os.chmod(f"{where}/s", 0o666)


@pytest.mark.parametrize("name", ["module", "bpf", "bpf-tracepoints", "fanotify"])
def test_mount_says_what_to_start(sandbox, where, shfs, name):
    sandbox.env["SHFS_HELPER"] = f"{where}/s"
    sandbox.allow_exit(5)  # of the process that would record
    run = shfs("mount", f"--backend={name}", sandbox.project, check=5)
    assert run.stderr.count("\n") == 1
    assert "no helper runs here" in run.stderr and "systemctl enable --now shfs-helper.socket" in run.stderr


def test_mount_without_a_helper_is_fuse(sandbox, where, shfs):
    sandbox.env["SHFS_HELPER"] = f"{where}/s"
    run = shfs("mount", sandbox.project)
    assert "is mounted: every file is now recorded (fuse" in run.stdout and not run.stderr


@pytest.mark.users("ordinary")
def test_a_socket_of_another_user_is_not_trusted(sandbox, where):
    only_as_root(sandbox)
    os.chown(where, STRANGER, STRANGER)
    with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)) as trap:
        with acting_as(STRANGER, STRANGER):
            trap.bind(f"{where}/s")
            trap.listen()
        os.chmod(f"{where}/s", 0o666)
        argv = [f"{sandbox.path}/connection_tool", f"{where}/s", "", sandbox.project]
        process = sandbox.popen(argv, stderr=subprocess.PIPE)
        try:
            wait_until(lambda: process.poll() is not None, "it to go away")
        finally:
            process.kill()
        assert b"served by another user, who is not root" in process.communicate()[1] and process.returncode == 1


def test_one_helper_for_a_socket(sandbox, helper, where):
    second = Helper(sandbox, where)
    assert second.process.wait(10 * harness.PATIENCE) == 1
    assert "another helper serves this socket" in helper.log()
    with Recorder(helper) as one:
        assert one.watch(sandbox.project)["error"] == 0


def test_where_it_listens(sandbox, where):
    """Not in the place of a file, and not where others may put a socket of theirs."""
    with open(f"{where}/s", "w", encoding="ascii"):
        pass
    one = Helper(sandbox, where)
    assert one.process.wait() == 1 and "not a socket" in one.log()
    os.unlink(f"{where}/s")
    os.chmod(where, 0o777)
    one = Helper(sandbox, where)
    try:
        wait_until(lambda: one.process.poll() is not None, "it to end")
    finally:
        one.process.kill()
    assert one.process.wait() == 1 and "others may write to this directory" in one.log()
    os.rmdir(where)
    one = Helper(sandbox, where)  # makes it
    assert one.process.poll() is None and stat.S_IMODE(os.stat(where).st_mode) == 0o755
    assert stat.S_IMODE(os.stat(one.socket).st_mode) == 0o666
    assert one.end(signal.SIGINT) == 0


def test_by_hand_it_wants_to_be_told_so(sandbox, where):
    tool = f"{sandbox.path}/helper_tool"
    assert "systemctl enable --now shfs-helper.socket" in sandbox.run(tool, check=2).stderr
    for wrong in ["--connection", "77x"], ["--connection", "-1"], ["--connection", "0"], ["extra"], ["--nothing"]:
        sandbox.run(tool, *wrong, check=2)
    assert "usage" in sandbox.run(tool, "--help").stdout


def test_for_one_connection_alone(sandbox, where):
    """As shfs mount starts it when root runs it."""
    sandbox.write_outside(f"{sandbox.project}/script", f"close {sandbox.user.uid} 7 a\n")
    argv = [f"{sandbox.path}/connection_tool", f"--spawn={sandbox.path}/helper_tool", "", sandbox.project]
    run = sandbox.run(*argv, input="1\n")
    assert run.stdout.splitlines()[1:] == [f"1 {sandbox.user.uid} 7 a ", "synced 1"]
    assert "the recorder ended" in run.stderr
    argv[1] = f"--spawn={sandbox.path}/nothing"
    assert "there is no helper" in sandbox.run(*argv, check=1).stderr


def test_activated_by_systemd(sandbox, where):
    """A listening socket as fd 3, for this very process."""
    program = f"{sandbox.path}/helper_tool"
    with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)) as listening:
        listening.bind(f"{where}/s")
        os.chmod(f"{where}/s", 0o666)
        listening.listen()
        shell = 'LISTEN_FDS=1 LISTEN_PID=$$; export LISTEN_FDS LISTEN_PID; exec "$0" 3<&0 </dev/null'
        process = subprocess.Popen(["sh", "-c", shell, program], env=sandbox.env, stdin=listening,
                                   stderr=subprocess.PIPE)
    try:
        argv = [f"{sandbox.path}/connection_tool", f"{where}/s", "", sandbox.project]
        assert sandbox.run(*argv, input="1\n").stdout.splitlines()[-1] == "synced 1"
    finally:
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=20 * harness.PATIENCE)
    assert process.returncode == 0, said
    assert os.path.exists(f"{where}/s")  # systemd's, not ours


def test_the_units_are_what_systemd_takes(tmp_path):
    if not shutil.which("systemd-analyze"):
        pytest.skip("no systemd-analyze")
    units = os.path.join(harness.PREFIX, "lib/systemd/system")
    for name in os.listdir(units):
        with open(f"{units}/{name}", encoding="utf-8") as unit:
            text = unit.read()
        # where it is staged
        text = re.sub(r"ExecStart=\S+", f"ExecStart={harness.PREFIX}/sbin/shfs-helper", text)
        (tmp_path / name).write_text(text)
    found = sorted(os.listdir(tmp_path))
    assert found == ["shfs-helper.service", "shfs-helper.socket"]
    for name in found:
        run = subprocess.run(["systemd-analyze", "verify", "--man=no", str(tmp_path / name)],
                             capture_output=True, text=True, check=False)
        ours = [line for line in run.stderr.splitlines() if "shfs-helper" in line]
        assert not ours


def calls_allowed_by_the_unit():
    with open(f"{harness.PREFIX}/lib/systemd/system/shfs-helper.service", encoding="utf-8") as unit:
        words = re.search(r"^SystemCallFilter=(.*)", unit.read(), re.M)[1].split()
    run = subprocess.run(["systemd-analyze", "syscall-filter"], capture_output=True, text=True, check=True)
    sets, name = {}, None
    for line in run.stdout.splitlines():
        if line[:1] in ("@", "#"):
            name = line.strip()
            sets[name] = []
        elif name and line.strip() and not line.strip().startswith("#"):
            sets[name].append(line.strip())

    def expand(word):
        return {word} if word not in sets else {call for one in sets[word] for call in expand(one)}

    return {call for word in words + ["@default"] for call in expand(word)}


@pytest.mark.users("root")
@pytest.mark.parametrize("program", ["fake", "installed"])
def test_the_unit_allows_what_it_calls(sandbox, where, program):
    """From the first instruction to the last, with a watch in between."""
    if SANITIZED or not shutil.which("systemd-analyze") or not shutil.which("strace"):
        pytest.skip("needs systemd-analyze and strace, and no sanitizer")
    path = f"{sandbox.path}/helper_tool" if program == "fake" else f"{harness.PREFIX}/sbin/shfs-helper"
    trace = f"{sandbox.path}/trace"
    one = Helper(sandbox, where, ["strace", "-D", "-f", "-o", trace, path, "--foreground", "--socket", f"{where}/s"])
    try:
        told(sandbox, one, "", lambda: sandbox.sh("echo > a; mkdir b; mv a b; rm -r b"))
    finally:
        one.end()
    wait_until(lambda: "+++ exited" in open(trace, encoding="utf-8").read().splitlines()[-1], "the trace")
    with open(trace, encoding="utf-8") as text:
        calls = set(re.findall(r"^\d+ +(\w+)\(", text.read(), re.M))
    assert "recvmsg" in calls
    assert calls - calls_allowed_by_the_unit() == set()


# --- what it gives up ---


CAP_DAC_READ_SEARCH = 1 << 2
# setgid, setuid, setpcap, net_admin, sys_chroot, sys_ptrace, sys_admin, sys_resource, perfmon, bpf
KEPT = sum(1 << bit for bit in (2, 6, 7, 8, 12, 18, 19, 21, 24, 38, 39))


@pytest.mark.both
def test_it_keeps_no_right_that_is_not_needed(sandbox, helper):
    only_as_root(sandbox)
    user = sandbox.user
    with Recorder(helper) as one:
        assert one.watch(sandbox.project)["error"] == 0
        child, = helper.children()
        for pid, most in (helper.process.pid, KEPT), (child, CAP_DAC_READ_SEARCH):
            for kind in "CapPrm", "CapEff", "CapBnd", "CapInh", "CapAmb":
                assert int(helper.status(pid, kind), 16) & ~most == 0, (pid, kind)
            assert helper.status(pid, "NoNewPrivs") == "1"
            assert helper.status(pid, "Seccomp") == "2"
        assert helper.status(child, "Uid").split() == ["0", "0", "0", str(user.uid)]
        assert helper.status(child, "Gid").split() == ["0", "0", "0", str(user.gid)]
        assert int(helper.status(child, "Seccomp_filters")) == 2
        if user.uid:
            assert helper.status(child, "Groups").split() == []
            for name in "fd", "maps", "root", "environ":
                assert sandbox.run("ls", f"/proc/{child}/{name}/", check=False).status != 0
        if not SANITIZED:  # a core of it would be root's
            assert os.stat(f"/proc/{child}/fd").st_uid == 0


# --- with the drivers that there are ---


WORK = "echo {0} > {0} && cat {0} > {0}.copy && mv {0} {0}.moved && rm {0}.copy"


@pytest.fixture
def installed(sandbox, where):
    one = Helper(sandbox, where, [f"{harness.PREFIX}/sbin/shfs-helper", "--foreground", "--socket", f"{where}/s"])
    yield one
    assert one.end() == 0


def told(sandbox, installed, driver, *works):
    """What is told of these calls, while they happen."""
    argv = [f"{sandbox.path}/connection_tool", installed.socket, driver, sandbox.project]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with sandbox.popen(argv, text=True, **pipes) as process:
        if not process.stdout.readline().startswith("ready"):
            pytest.skip(f"{driver}: {process.stderr.read().strip()}")
        for work in works:
            work()
        out, _ = process.communicate("1\n", 20 * harness.PATIENCE)
    return out.replace("\0", " ").splitlines()


@pytest.mark.parametrize("driver", ["module", "bpf", "bpf-tracepoints", "fanotify"])
@pytest.mark.both
def test_a_driver_tells_a_user_of_his_own_work_alone(sandbox, installed, driver):
    only_as_root(sandbox)
    uid, project = sandbox.user.uid, sandbox.project
    os.chmod(project, 0o777)

    def others_work():
        with subprocess.Popen(["sh", "-c", WORK.format("theirs")], cwd=project, preexec_fn=lambda: os.setuid(STRANGER)):
            pass

    def own_work():
        shell.stdin.write(WORK.format("mine") + "; echo\n")
        shell.stdin.flush()
        assert shell.stdout.readline() == "\n"

    def caps_are_few():
        child, = installed.children()
        assert int(installed.status(child, "CapPrm"), 16) & (1 << 7 | 1 << 6 | 1 << 1 | 1 << 8) == 0

    # it is the user's before: what begins as root's and ends at once may be known too late
    with sandbox.popen(["sh"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as shell:
        lines = told(sandbox, installed, driver, others_work, own_work, caps_are_few, others_work)
    mine = [line for line in lines if "mine" in line]
    assert f"3 {uid} " in "\n".join(mine) and " mine mine.moved" in "\n".join(mine)
    assert any(re.fullmatch(rf"5 {uid} \d+ mine\.copy ", line) for line in mine), lines
    assert any("content=5:mine" in line for line in mine), mine
    if uid:
        assert not [line for line in lines if "theirs" in line or f" {STRANGER} " in line]
    else:
        assert [line for line in lines if "theirs" in line]


@pytest.mark.users("ordinary")
@pytest.mark.parametrize("kind", ["subvolume", "overlay"])
def test_file_systems_that_fanotify_cannot_watch(sandbox, installed, kind):
    """They say so, and FUSE is left."""
    only_as_root(sandbox)
    sandbox.env["SHFS_HELPER"] = installed.socket
    sandbox.allow_exit(5)  # of the process that would record
    with harness.disk(sandbox, 200, kind="overlay" if kind == "overlay" else "btrfs") as disk:
        project = f"{disk}/volume"
        if kind == "subvolume":
            subprocess.run(["btrfs", "-q", "subvolume", "create", project], check=True)
        else:
            os.mkdir(project)
        os.chown(project, sandbox.user.uid, -1)
        run = sandbox.shfs("mount", "--backend=fanotify", project, check=5, cwd="/")
        assert run.stderr.count("\n") == 1 and "the file system does not report its files" in run.stderr
        assert "(fuse" in sandbox.shfs("mount", project, cwd="/").stdout
        sandbox.shfs("umount", project, cwd="/")
