# SPDX-License-Identifier: MIT
"""What the cases stand on: a user, a sandbox of theirs, mounts and shells in it.

The project of a case is only ever touched by processes of its user (sandbox.sh, .run, .read,
.write, a shell): not even root can enter an ordinary user's mount.
"""

import contextlib
import ctypes
import fcntl
import functools
import glob
import io
import json
import os
import pwd
import re
import shutil
import signal
import socket
import stat
import subprocess
import tarfile
import time
import zlib

import pexpect
import pytest

LIBC = ctypes.CDLL(None, use_errno=True)
PREFIX = os.environ["SHFS_TEST_PREFIX"]
WORK = os.path.join(os.environ["SHFS_TEST_DIR"], os.environ.get("PYTEST_XDIST_WORKER", "w"))
BACKENDS = os.environ.get("SHFS_TEST_BACKENDS", "fuse bpf-tracepoints fanotify").split()
# slower than the programs that it watches
TSAN = b"__tsan_init" in open(f"{PREFIX}/libexec/shfs/shfs-fuse", "rb").read()
ALL = "SHFS_TEST_ALL" in os.environ  # ./dev test --all: each user, backend and transport with all else
TRANSPORT = os.environ.get("SHFS_TEST_TRANSPORT", "auto")  # or uring, dev
ENABLE_URING = "/sys/module/fuse/parameters/enable_uring"
LEAKS = os.environ.get("SHFS_TEST_LEAKS", "1") != "0"
PATIENCE = float(os.environ.get("SHFS_TEST_PATIENCE", "3"))
# one for each worker, as a query asks all mounts of its user, and some cases have them hang;
# SHFS_TEST_USER tells apart whole runs side by side
ORDINARY = os.environ.get("SHFS_TEST_USER", "shfs-test") + "-" + os.path.basename(WORK)

# What a daemon's log must not hold unless a case allows it.
TROUBLE = re.compile(r"\b(error|errors|fail|fails|failed|cannot|lost|assert\w*)\b|Sanitizer", re.I)


@contextlib.contextmanager
def stopped(pid):
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def wait_until(condition, what, seconds=10):
    """Polls; fails the test after so many (patient) seconds. Returns what condition returned."""
    end = time.monotonic() + seconds * PATIENCE
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > end:
            pytest.fail(f"waited {seconds * PATIENCE:g} s for {what}")
        time.sleep(0.01)


def mounts_below(directory):
    """Mount points of shfs at or below directory, also those of shfs browse, the innermost first."""
    found = []
    with open("/proc/self/mounts", encoding="utf-8", errors="surrogateescape") as mounts:
        for line in mounts:
            _, where, kind = line.split(" ")[:3]
            where = re.sub(r"\\([0-7]{3})", lambda m: chr(int(m[1], 8)), where)
            if kind in ("fuse.shfs", "fuse.shfs-browse") and (where + "/").startswith(directory.rstrip("/") + "/"):
                found.append(where)
    return found[::-1]


def contents(top):
    """{name: content} of all files below."""
    found = {}
    for where, _, names in os.walk(os.fsencode(top)):
        for name in names:
            path = os.path.join(where, name)
            with open(path, "rb") as file:
                found[os.path.relpath(path, os.fsencode(top)).decode("utf-8", "surrogateescape")] = file.read()
    return found


def seeds(count, an_hour):
    """Numbers of random cases: those of SHFS_TEST_SEEDS, else 1 to count, by ./dev test --all, and the first half of
    them without; or with SHFS_TEST_SOAK others, so many for each hour of it."""
    hours = float(os.environ.get("SHFS_TEST_SOAK", "0"))
    if hours:
        first = zlib.crc32(os.environ["SHFS_TEST_DIR"].encode())
        return range(first, first + int(hours * an_hour))
    return [int(seed) for seed in os.environ.get("SHFS_TEST_SEEDS", "").split()] or range(1, (count if ALL else (count + 1) // 2) + 1)


def project_files(sandbox):
    """{name: content} of all files of the project, read by its user: root may not look into another's mount."""
    with tarfile.open(fileobj=io.BytesIO(sandbox.run("tar", "c", ".").stdout_bytes)) as tar:
        return {m.name.removeprefix("./"): tar.extractfile(m).read() for m in tar if m.isreg() or m.islnk()}


def ids_of(sandbox, text):
    """Of the commands with this text, the earliest first."""
    commands = json.loads(sandbox.shfs("history", "--json", "--all").stdout)["commands"]
    return [c["id"] for c in commands if c["id"] and c["text"] == text][::-1]


def stale_results(sandbox):
    """Names of all that is stale."""
    found = json.loads(sandbox.shfs("stale", "--json", check=False).stdout)
    return {os.path.relpath(r["path"], sandbox.project) for c in found["commands"] for r in c["results"]}


class User:
    """Who runs a case: root, or an ordinary user without any privilege."""

    def __init__(self, name):
        self.name = name
        if name == "root" or os.geteuid() != 0:
            entry = pwd.getpwuid(os.geteuid())
        else:
            entry = self._ordinary()
        self.login, self.uid, self.gid = entry.pw_name, entry.pw_uid, entry.pw_gid

    @staticmethod
    def _ordinary():
        """Made once; and /dev/fuse and /etc/mtab as a distribution has them, not as a bare
        container does."""
        mode = stat.S_IMODE(os.stat("/dev/fuse").st_mode) if os.path.exists("/dev/fuse") else 0o666
        if mode & 0o666 != 0o666:
            os.chmod("/dev/fuse", 0o666)
        # another worker may be at it too
        with contextlib.suppress(FileExistsError):
            os.symlink("../proc/self/mounts", "/etc/mtab")
        # two at once would give it two ids, one after the other
        with open(os.path.join(os.environ["SHFS_TEST_DIR"], "user.lock"), "w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            with contextlib.suppress(KeyError):
                return pwd.getpwnam(ORDINARY)
            command = ["useradd", "--no-create-home", "--home-dir", "/nonexistent"]
            subprocess.run([*command, "--shell", "/bin/bash", ORDINARY], check=True)
            return pwd.getpwnam(ORDINARY)

    @property
    def is_another(self):
        return os.geteuid() == 0 and self.uid != 0

    def become(self):
        """In a child, before exec."""
        if self.is_another:
            os.setgroups([])
            os.setgid(self.gid)
            os.setuid(self.uid)

    def popen(self, argv, cwd, **options):
        """A process of the user in a directory."""
        if not self.is_another:
            return subprocess.Popen(argv, cwd=cwd, **options)
        told, tell = os.pipe()
        argv = [as_user(), str(tell), str(self.uid), str(self.gid), cwd, *argv]
        try:
            return subprocess.Popen(argv, cwd="/", pass_fds=[tell, *options.pop("pass_fds", [])], **options)
        finally:
            os.close(tell)
            os.read(told, 1)  # it ends when the program itself runs
            os.close(told)

    def own(self, path):
        if os.geteuid() == 0:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)


class Guest(User):
    """The same user, in namespaces of a process."""

    def __init__(self, user, pid, *namespaces):
        self.__dict__ = dict(user.__dict__)
        self.pid, self.namespaces = pid, namespaces

    def become(self):
        for kind in self.namespaces:
            fd = os.open(f"/proc/{self.pid}/ns/{kind}", os.O_RDONLY)
            if LIBC.setns(fd, 0):
                raise OSError(ctypes.get_errno(), "setns")
            os.close(fd)
        super().become()

    def popen(self, argv, cwd, **options):
        def become():
            self.become()
            os.chdir(cwd)

        return subprocess.Popen(argv, cwd="/", preexec_fn=become, **options)


@functools.cache
def as_user():
    """The path of the program of as-user.c, which all workers share."""
    directory = os.environ["SHFS_TEST_DIR"]
    with open(f"{directory}/as-user.lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(f"{directory}/as-user"):
            source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "as-user.c")
            subprocess.run(["gcc", "-O1", "-Wall", "-static", "-o", f"{directory}/as-user", source], check=True)
    return f"{directory}/as-user"


class Result:
    """What a program printed, and how it ended."""

    def __init__(self, argv, run):
        self.argv, self.status = argv, run.returncode
        self.stdout_bytes, self.stderr_bytes = run.stdout, run.stderr

    @functools.cached_property
    def stdout(self):  # not always wanted, and slow for what is not text
        return self.stdout_bytes.decode("utf-8", "backslashreplace")

    @functools.cached_property
    def stderr(self):
        return self.stderr_bytes.decode("utf-8", "backslashreplace")

    def __repr__(self):
        out = "".join(f"\n  {line}" for line in (self.stdout + self.stderr).splitlines())
        return f"{self.argv!r} ended with {self.status}:{out}"


class Daemon:
    """What records a directory, in the foreground, as a child of ours. A case that ends it in another
    way than by unmounting says which exit status it expects."""

    def __init__(self, sandbox, directory, program, *options):
        self.sandbox, self.directory, self.expected_status = sandbox, directory, 0
        self.program = program
        self.stderr_path = os.path.join(sandbox.path, f"mount-{len(sandbox.mounts)}.stderr")
        argv = [os.path.join(PREFIX, "libexec/shfs", program), "--store", sandbox.store]
        with open(self.stderr_path, "wb") as stderr:
            argv += ["--foreground", *options, directory]
            self.process = sandbox.popen(argv, stdout=stderr, stderr=stderr)
        sandbox.mounts.append(self)
        wait_until(self._ready, f"the recording of {directory}", 30)

    def _ready(self):
        if self.process.poll() is not None:
            self.expected_status = None
            pytest.fail(f"{self.program} ended with {self.process.returncode}: {self.stderr()}")
        return self.is_there()

    def stderr(self):
        with open(self.stderr_path, encoding="utf-8", errors="backslashreplace") as stderr:
            return stderr.read()

    def wait(self):
        try:
            status = self.process.wait(20 * PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            pytest.fail(f"{self.program} did not end")
        expected, self.expected_status = self.expected_status, None
        if expected is not None and status != expected:
            pytest.fail(f"{self.program} ended with {status}, not {expected}: {self.stderr()}")


class Mount(Daemon):
    """By shfs-fuse."""

    def __init__(self, sandbox, directory, *options):
        super().__init__(sandbox, directory, "shfs-fuse", *options)

    def is_there(self):
        return self.directory in mounts_below(self.directory)

    def status(self):
        """The lines of user.shfs.status as a dictionary."""
        argv = ["getfattr", "--only-values", "--absolute-names", "-n", "user.shfs.status"]
        lines = self.sandbox.run(*argv, self.directory).stdout.splitlines()
        return dict(line.split("=", 1) for line in lines if "=" in line)

    def settle(self):
        """Who writes waits until it is recorded."""

    def unmount(self):
        """As the user would; then the daemon must end by itself, with success."""
        if self.is_there():
            self.sandbox.unmount(self.directory)
        self.wait()


class Watch(Daemon):
    """By shfs-watch: without a FUSE layer."""

    def __init__(self, sandbox, directory, driver):
        # who asks for the status of one that does not answer yet
        sandbox.allow_exit(-signal.SIGKILL)
        # root, and fanotify for anybody, see all processes of a machine that runs tests
        if sandbox.user.uid == 0 or driver == "fanotify":
            sandbox.allow_log("events were lost")
        self.store = sandbox.store
        super().__init__(sandbox, directory, "shfs-watch", "--driver", driver)

    def is_there(self):
        return self.status().get("backend", "none") != "none"

    def status(self):
        """The values of user.shfs.status of a mount, as `shfs status` has them."""
        status = self.sandbox.shfs("--store", self.store, "status", "--json", cwd="/", check=False)
        found = json.loads(status.stdout)["mounts"] if status.stdout else []
        found = next((m for m in found if m["path"] == self.directory), {})
        return {key: value if isinstance(value, str) else str(value) for key, value in found.items()}

    def settle(self, seconds=1):
        """Until all that happened is recorded, if it answers; common/recorders.h has the protocol."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asking, contextlib.suppress(OSError):
            root = os.stat(self.directory)
            asking.settimeout(seconds * PATIENCE)
            asking.connect(f"\0shfs-{self.sandbox.user.uid}-watch-{root.st_dev:x}-{root.st_ino:x}")
            asking.send(b"sync")
            asking.recv(16)

    def unmount(self):
        if self.process.poll() is None:
            self.process.terminate()
        self.wait()


class Helper:
    """shfs-helper as root, for those who run a case."""

    pids = set()

    def __init__(self, where=WORK):
        self.socket = os.path.join(where, "helper.sock")
        self.stderr = os.path.join(where, "helper.log")
        self.start()

    def start(self):
        with open(self.stderr, "ab") as stderr:
            argv = [os.path.join(PREFIX, "sbin/shfs-helper"), "--foreground", "--socket", self.socket]
            self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=stderr, stderr=stderr)
        self.pids.add(self.process.pid)
        wait_until(self.listens, "the helper")

    def listens(self):
        with open("/proc/net/unix", encoding="utf-8", errors="replace") as sockets:
            found = [line.split() for line in sockets if line.endswith(f" {self.socket}\n")]
        return any(int(fields[3], 16) & 0x10000 for fields in found)  # SO_ACCEPTCON

    def children(self):
        pid = self.process.pid
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as children:
            return [int(child) for child in children.read().split()]

    def kill(self):
        """With its watches, which we adopt."""
        children = self.children()
        self.process.kill()
        self.process.wait()
        for child in children:
            os.waitpid(child, 0)

    def close(self):
        self.process.terminate()
        self.process.wait(20 * PATIENCE)


class Shell:
    """A real interactive shell on a terminal of 80 by 24.

    Its rc prints two marks that no screen shows: one before a command runs, one before each
    prompt. So what a command printed is known exactly, whatever the line editor echoes."""

    BEGIN, READY, PROMPT = "\x1b]7777;begin\x07", "\x1b]7777;ready\x07", "ready> "
    ESCAPES = re.compile(
        r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\].*?(?:\x07|\x1b\\)|\x1b[()*+][0-9A-Za-z]|\x1b[=>78cM]"
    )
    # fish's sign for a missing newline at the end of the output, written in any case
    FISH_NO_NEWLINE = re.compile(r"(?:\x1b[\[(][0-9]*[mB])*⏎(?:\x1b[\[(][0-9]*[mB])* +\r⏎ \r")
    RC = {
        "bash": (
            ".bashrc",
            r"""PS1='ready> ' PS0='\e]7777;begin\a'
PROMPT_COMMAND="printf '\e]7777;ready\a'"
""",
        ),
        "zsh": (
            ".zshrc",
            r"""PS1='ready> '; unsetopt prompt_sp
precmd_functions+=(test_ready) preexec_functions+=(test_begin)
test_ready() { printf '\e]7777;ready\a' }
test_begin() { printf '\e]7777;begin\a' }
""",
        ),
        "fish": (
            ".config/fish/config.fish",
            r"""set -g fish_greeting; set -g fish_autosuggestion_enabled 0
function fish_prompt; echo -n 'ready> '; end
function test_ready --on-event fish_prompt; printf '\e]7777;ready\a'; end
function test_begin --on-event fish_preexec; printf '\e]7777;begin\a'; end
""",
        ),
    }
    INIT = {
        "bash": 'eval "$(shfs init bash)"\n',
        "zsh": 'eval "$(shfs init zsh)"\n',
        "fish": "shfs init fish | source\n",
    }

    def __init__(self, sandbox, kind, cwd, init=True, before="", after="", env=None):
        """before and after: lines of the rc around the line that loads the hook."""
        self.kind, self.at_prompt = kind, False
        # what is changed again before it was read is lost to all but FUSE, and fanotify tells no
        # times: lines come one after another as people type, who are slower than a recorder
        self.pause = {"fuse": 0, "fanotify": 0.1}.get(sandbox.backend, 0.03)
        self.sandbox = sandbox
        name, rc = self.RC[kind]
        rc += before + (self.INIT[kind] if init else "") + after
        sandbox.write_outside(os.path.join(sandbox.home, name), rc)
        argv = [kind] if kind == "fish" else [kind, "-i"]

        def become():
            if os.geteuid() == 0:
                os.fchown(0, sandbox.user.uid, -1)
            os.chdir("/")
            sandbox.user.become()
            os.chdir(cwd)

        sandbox.shells.append(self)
        self.pty = pexpect.spawn(
            argv[0],
            argv[1:],
            env={**sandbox.env, **(env or {})},
            preexec_fn=become,
            dimensions=(24, 80),
            encoding="utf-8",
            codec_errors="surrogateescape",
            timeout=20 * PATIENCE,
        )
        self.pty.delaybeforesend = None
        self.greeting = self.wait()

    @property
    def pid(self):
        return self.pty.pid

    def send(self, text):
        """Types text as it is: "\\r" is Enter, "\\x03" is ^C."""
        self.at_prompt = False
        self.pty.send(text)

    def interrupt(self, text):
        """Types text and, once the line editor has read it and waits for more, ^C: one that comes
        before would take the text with it, zsh would show no other prompt, and bash would do
        nothing until the next key."""
        self.send(text)
        escapes = f"(?:{self.ESCAPES.pattern})*"
        self.pty.expect(escapes.join(re.escape(char) for char in text.split()[-1]))
        wait_until(self.sleeps, "the line editor to wait")
        self.send("\x03")

    def sleeps(self):
        with open(f"/proc/{self.pid}/stat", encoding="utf-8", errors="replace") as stat:
            return stat.read().rpartition(") ")[2][0] == "S"

    def wait_for_job(self, name):
        """Until a child of this name has the terminal: before, its keys are not for it."""

        def is_there():
            argv = ["ps", "-o", "comm=", "--ppid", str(self.pid)]
            ps = subprocess.run(argv, capture_output=True, text=True, check=False)
            return os.tcgetpgrp(self.pty.child_fd) != self.pid and name in ps.stdout.split()

        wait_until(is_there, f"{name} to run")

    def wait(self, timeout=-1):
        """What was printed until the next prompt, without what was typed."""
        self.pty.expect_exact(self.READY, timeout=timeout)
        text = self.pty.before
        self.pty.expect_exact(self.PROMPT, timeout=timeout)
        self.at_prompt = True
        if self.BEGIN in text:
            text = text.rsplit(self.BEGIN, 1)[1]
        else:  # nothing was run: all but the line that was typed
            text = text.partition("\n")[2]
        return self.plain(text + self.pty.before)

    def start(self, line):
        """Types a line and Enter, not too soon after the one before it."""
        time.sleep(self.pause)
        for mount in self.sandbox.mounts:
            mount.settle()
        self.send(line.replace("\n", "\r") + "\r")

    def run(self, line, timeout=-1):
        """The same; returns what it printed."""
        self.start(line)
        return self.wait(timeout)

    @classmethod
    def plain(cls, text):
        """Text as a screen shows it: no escapes, no carriage returns, no newline at the ends."""
        text = cls.FISH_NO_NEWLINE.sub("", text)
        text = cls.ESCAPES.sub("", text).replace("\r\n", "\n").replace("\r", "")
        return text.strip("\n")

    def close(self):
        """Leaves the shell as a person does. Safe to call again."""
        if self.pty.closed:
            return
        self.pty.ptyproc.delayafterclose = 0  # and not 0.1 s for each shell
        try:
            if not self.at_prompt:
                self.send("\x03")
                self.wait(5 * PATIENCE)
            self.send("exit\r")
            if self.pty.expect_exact([pexpect.EOF, self.READY], 5 * PATIENCE) == 1:
                self.send("exit\r")  # there were jobs
                self.pty.expect(pexpect.EOF, 5 * PATIENCE)
            self.pty.isalive()  # waits for its end
        except (pexpect.TIMEOUT, pexpect.EOF, OSError):
            pass
        self.pty.close(force=True)


def looks_for_leaks():
    """In one case of eight, always the same ones: it takes a third of the time of a query."""
    case = os.environ.get("PYTEST_CURRENT_TEST", "").split()[0:1]
    return LEAKS and (ALL or zlib.crc32("".join(case).encode()) % 8 == 0)


class Sandbox:
    """The directories, the environment and the processes of one case."""

    def __init__(self, user, number):
        self.user, self.mounts, self.shells, self.programs = user, [], [], {}
        self.allowed_log, self.allowed_exits, self.backend = [], {0}, "fuse"
        self.path = os.path.join(WORK, str(number))
        self.home = os.path.join(self.path, "home")
        self.project = os.path.join(self.home, "project")
        self.store = os.path.join(self.home, ".local/share/shfs")
        self.reports = os.path.join(self.path, "reports")
        for name, mode in ("", 0o755), ("reports", 0o777), ("run", 0o700), ("tmp", 0o700):
            self.mkdir(os.path.join(self.path, name), mode)
        # fish reads all man pages where the last of these is not there
        data = "home/.local", "home/.local/share", "home/.local/share/fish", "home/.local/share/fish/generated_completions"
        for name in "home", "home/project", "home/.config", *data:
            self.mkdir(os.path.join(self.path, name), 0o755)
        self.env = self._environment()

    def _environment(self):
        log, leaks = f"log_path={self.reports}/san", looks_for_leaks()
        # a report without the stacks of what was allocated takes a fifth less to start; leaks are known by them
        stacks = "" if leaks or ALL else ":malloc_context_size=1"
        return {
            "PATH": f"{PREFIX}/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": self.home,
            "USER": self.user.login,
            "LOGNAME": self.user.login,
            "SHELL": "/bin/bash",
            "TERM": "xterm",
            "TZ": "UTC",
            "LC_ALL": "C.UTF-8",
            "TMPDIR": f"{self.path}/tmp",
            "XDG_CONFIG_HOME": f"{self.home}/.config",
            "XDG_DATA_HOME": f"{self.home}/.local/share",
            "XDG_RUNTIME_DIR": f"{self.path}/run",
            "SHFS_STORE": self.store,
            "SHFS_INDEX_WAIT": "all",
            "ASAN_OPTIONS": f"{log}:detect_leaks={int(leaks)}:handle_sigill=1{stacks}",
            "TSAN_OPTIONS": f"{log}:second_deadlock_stack=1",
            "SHFS_TRANSPORT": TRANSPORT,
        }

    # --- files outside of any mount, made for the user ---

    def mkdir(self, path, mode=0o755):
        os.mkdir(path)
        os.chmod(path, mode)
        self.user.own(path)
        return path

    def write_outside(self, path, text, mode=0o644):
        parent = os.path.dirname(path)
        if not os.path.isdir(parent):
            os.makedirs(parent)
            self.user.own(parent)
        with open(path, "wb") as out:
            out.write(text.encode() if isinstance(text, str) else text)
        os.chmod(path, mode)
        self.user.own(path)
        return path

    # --- what the user runs ---

    def popen(self, argv, env=None, cwd=None, **options):
        options.setdefault("stdin", subprocess.DEVNULL)
        return self.user.popen(
            [str(a) if not isinstance(a, bytes) else a for a in argv],
            cwd or self.project,
            env={**self.env, **(env or {})},
            start_new_session=True,
            **options,
        )

    def run(self, *argv, check=True, input=None, env=None, cwd=None, timeout=30, pass_fds=()):
        """Runs a program in the project. check: True, or the exit status it must have; False: any."""
        if input is not None:
            options = {"stdin": subprocess.PIPE}
            input = input.encode() if isinstance(input, str) else input
        else:
            options = {}
        options["pass_fds"] = pass_fds
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with self.popen(argv, env=env, cwd=cwd, **pipes, **options) as process:
            try:
                out, err = process.communicate(input, timeout * PATIENCE)
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)
                raise
        done = subprocess.CompletedProcess(argv, process.returncode, out, err)
        result = Result(argv, done)
        expected = 0 if check is True else check
        if check is not False and result.status != expected:
            pytest.fail(f"expected status {expected}: {result!r}")
        return result

    def sh(self, script, *args, **options):
        """A line of sh in the project, by no registered shell, and by no program for anybody: not by "sh -c"."""
        line = os.memfd_create("line")
        try:
            with open(line, "w", encoding="utf-8", errors="surrogateescape", closefd=False) as f:
                f.write(script)
            return self.run("/bin/sh", f"/dev/fd/{line}", *args, pass_fds=[line], **options)
        finally:
            os.close(line)

    def shfs(self, *args, **options):
        return self.run(os.path.join(PREFIX, "bin/shfs"), *args, **options)

    def read(self, name):
        """Bytes of a file of the project, read by its user."""
        return self.run("cat", "--", name).stdout_bytes

    def write(self, name, data):
        self.sh('cat > "$1"', name, input=data)

    def compile(self, name, source, *options):
        """Path of a helper program, made of C source once a case."""
        path = os.path.join(self.path, name)
        if path not in self.programs:
            gcc = ["gcc", "-O1", "-g", "-pthread", "-D_GNU_SOURCE", "-x", "c", "-", "-o", path, *options]
            subprocess.run(gcc, input=source.encode(), check=True)
            self.programs[path] = source
        return path

    def mount(self, directory=None, *options):
        if self.backend != "fuse":
            return Watch(self, directory or self.project, self.backend)
        if not os.access("/dev/fuse", os.R_OK | os.W_OK):
            pytest.skip("no access to /dev/fuse")
        return Mount(self, directory or self.project, *options)

    def shell(self, kind="bash", cwd=None, **options):
        if not shutil.which(kind, path=self.env["PATH"]):
            pytest.skip(f"{kind} is not installed")
        return Shell(self, kind, cwd or self.project, **options)

    def unmount(self, directory):
        """By the tool of the user, again while it is busy for a moment (a lagging close)."""

        def done():
            self.last_unmount = self.run(*tool, directory, check=False, cwd="/")
            return self.last_unmount.status == 0

        tool = ["umount"] if self.user.uid == 0 else ["fusermount3", "-u"]
        end = time.monotonic() + 5 * PATIENCE
        while not done():
            if time.monotonic() > end:
                subprocess.run(["umount", "-l", directory] if os.geteuid() == 0
                               else ["fusermount3", "-u", "-z", directory], check=False)
                pytest.fail(f"cannot unmount: {self.last_unmount!r}")
            time.sleep(0.05)

    # --- what a case may expect of its daemons ---

    def allow_log(self, pattern):
        """Lines of daemons' logs that match are what the case wants to see."""
        self.allowed_log.append(re.compile(pattern))

    def allow_exit(self, *statuses):
        """Exit statuses of daemons in the background (by `shfs mount`); -9 is SIGKILL."""
        self.allowed_exits.update(statuses)

    def logs(self):
        paths = glob.glob(f"{self.store}/log/*") + glob.glob(f"{self.path}/*.stderr")
        return {p: open(p, encoding="utf-8", errors="backslashreplace").read() for p in sorted(paths)}

    def describe(self):
        """Daemons' logs and sanitizers' reports, for the report of a failure."""
        texts = dict(self.logs())
        for path in glob.glob(f"{self.reports}/*"):
            with open(path, encoding="utf-8", errors="backslashreplace") as report:
                texts[path] = report.read()
        return "\n".join(f"== {path}\n{text}" for path, text in texts.items() if text)

    # --- the end ---

    def close(self):
        """Ends all that the case started, then says what was wrong with it."""
        problems = []
        for step in self._steps():
            try:
                step()
            except BaseException as problem:
                problems.append(str(problem) or repr(problem))
        problems += self._check_logs()
        self.details = self.describe() if problems else ""
        if problems:
            pytest.fail("\n".join(problems), pytrace=False)

    def _steps(self):
        yield from (shell.close for shell in self.shells)
        yield self._kill_others
        yield from (mount.unmount for mount in reversed(self.mounts))
        yield from (lambda d=d: self.unmount(d) for d in mounts_below(self.path))
        if self.backend != "fuse":
            yield self._end_watches
        yield self._wait_daemons
        yield self._check_unmounted

    def _adopted(self):
        """(pid, name) of processes that lost their parent: we are their subreaper."""
        known = {m.process.pid for m in self.mounts} | {s.pid for s in self.shells} | Helper.pids
        with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as children:
            pids = [int(pid) for pid in children.read().split()]
        for pid in pids:
            if pid not in known:
                with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stat_file:
                    text = stat_file.read()
                yield pid, text[text.index("(") + 1 : text.rindex(")")]

    def _end_watches(self):
        """Those by `shfs mount`."""
        listed = self.shfs("status", "--json", cwd="/", check=False).stdout
        for watch in json.loads(listed)["mounts"] if listed else ():
            if watch["path"].startswith(f"{self.path}/"):  # and not others of this user
                self.shfs("umount", watch["path"], cwd="/")

    def _kill_others(self):
        for pid, name in self._adopted():
            if not name.startswith("shfs"):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)

    def _wait_daemons(self):
        bad = []

        def reap():
            left = 0
            for pid, name in list(self._adopted()):
                ended, status = os.waitpid(pid, os.WNOHANG)
                if not ended:
                    left += 1
                elif name == "shfs-question" and status == signal.SIGKILL:
                    continue  # the mount did not answer in time, and who asked has ended
                elif name.startswith("chrom"):
                    continue  # a browser ends its own as it likes
                elif os.waitstatus_to_exitcode(status) not in self.allowed_exits:
                    bad.append(f"{name} ({pid}) ended with {os.waitstatus_to_exitcode(status)}")
            return left == 0

        try:
            wait_until(reap, "the daemons to end", 20)
        finally:
            for pid, name in list(self._adopted()):
                bad.append(f"{name} ({pid}) did not end")
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
        assert not bad, "; ".join(bad)

    def _check_unmounted(self):
        left = mounts_below(self.path)
        for directory in left:
            subprocess.run(["fusermount3", "-u", "-z", directory], check=False)
        assert not left, f"still mounted: {left}"

    def _check_logs(self):
        for path, text in self.logs().items():
            for line in text.splitlines():
                if TROUBLE.search(line) and not any(a.search(line) for a in self.allowed_log):
                    yield f"{os.path.basename(path)}: {line}"
        for path in glob.glob(f"{self.reports}/*"):
            yield f"a sanitizer reported: {os.path.basename(path)}"


@contextlib.contextmanager
def disk(sandbox, megabytes, *options, kind="ext4", where=None):
    """A new file system of its own, for all to write, as long as the context lasts: its directory."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    image, where = os.path.join(sandbox.path, "disk.img"), where or os.path.join(sandbox.path, "disk")
    os.makedirs(where, exist_ok=True)
    if kind == "overlay":
        layers = {f"{name}dir": os.path.join(sandbox.path, name) for name in ("lower", "upper", "work")}
        for layer in layers.values():
            os.mkdir(layer)
        source = "overlay", "-o", ",".join("=".join(layer) for layer in layers.items())
    elif kind == "tmpfs":
        source = "tmpfs", "-o", f"size={megabytes}m,nr_inodes=64"
    else:
        with open(image, "wb") as file:
            file.truncate(megabytes << 20)
        subprocess.run([f"mkfs.{kind}", "-q", *options, image], check=True)
        source = image, "-o", "loop"
    subprocess.run(["mount", "-t", kind, *source, where], check=True)
    os.chmod(where, 0o777)
    with contextlib.ExitStack() as ends:
        # the helper's process of a watch ends a moment later
        ends.callback(wait_until, lambda: not subprocess.run(["umount", where], check=False).returncode, "umount")
        try:
            yield where
        finally:
            for mount in sandbox.mounts:
                ends.callback(mount.unmount)


def adopt_orphans():
    """Daemons become children of this process, so that their exit status can be seen."""
    PR_SET_CHILD_SUBREAPER = 36
    LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
