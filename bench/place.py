# SPDX-License-Identifier: MIT
"""Where it happens: a fresh journaled ext4 in a file, and who works there."""

import contextlib
import os
import pwd
import resource
import signal
import stat
import subprocess
import sys
import tempfile
import time

ORDINARY = "shfs-bench"  # not who runs tests, which may end all recordings of their user
URING = "/sys/module/fuse/parameters/enable_uring"


class Failed(Exception):
    """What ran did not succeed."""


def fail(message):
    raise Failed(message)


def run(*argv, cwd=None):
    """A step that is not timed, as root; what it printed."""
    done = subprocess.run(argv, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, errors="replace", check=False)
    if done.returncode != 0:
        fail(f"{' '.join(argv)}: {done.stdout}{done.stderr}")
    return done.stdout


def again_until(done, seconds):
    end = time.monotonic() + seconds
    while not done():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def unmount(where):
    """As soon as nobody is at it; in the end without asking."""

    def done():
        return subprocess.run(["umount", where], capture_output=True, check=False).returncode == 0

    if not again_until(done, 30):
        print(f"bench: {where} stays busy", file=sys.stderr)
        run("umount", "--lazy", where)


@contextlib.contextmanager
def file_system(size, inodes):
    """A directory on an ext4 with a journal in a file, for all to enter."""
    with tempfile.TemporaryDirectory(prefix="shfs-bench.") as top, contextlib.ExitStack() as stack:
        os.chmod(top, 0o755)
        image, work = f"{top}/image", f"{top}/fs"
        os.mkdir(work)
        run("truncate", "-s", size, image)
        run("mkfs.ext4", "-q", "-F", "-m", "0", "-N", str(inodes),
            "-E", "lazy_itable_init=0,lazy_journal_init=0", image)
        # past the cache of the file beneath: what is cold shall be cold, and memory is for the work
        device = run("losetup", "--find", "--show", "--direct-io=on", image).strip()
        stack.callback(run, "losetup", "--detach", device)
        run("mount", device, work)
        stack.callback(unmount, work)
        yield work


@contextlib.contextmanager
def io_uring_allowed():
    """Servers of FUSE may use io_uring as long as this lasts, where the kernel knows how."""
    try:
        with open(URING, "r+", encoding="ascii") as parameter:
            before = parameter.read().strip()
            parameter.seek(0)
            parameter.write("Y")
    except OSError:
        before = None
    try:
        yield
    finally:
        if before == "N":
            with open(URING, "w", encoding="ascii") as parameter:
                parameter.write(before)


class User:
    """Root, or an ordinary user, made if there is none; /dev/fuse and /etc/mtab as a
    distribution has them."""

    def __init__(self, name):
        if name != "root":
            mode = stat.S_IMODE(os.stat("/dev/fuse").st_mode)
            if mode & 0o666 != 0o666:
                os.chmod("/dev/fuse", 0o666)
            with contextlib.suppress(FileExistsError):
                os.symlink("../proc/self/mounts", "/etc/mtab")
            try:
                pwd.getpwnam(name)
            except KeyError:
                run("useradd", "--no-create-home", "--home-dir", "/nonexistent",
                    "--shell", "/bin/bash", name)
        entry = pwd.getpwnam(name)
        self.name, self.uid, self.gid = name, entry.pw_uid, entry.pw_gid

    def become(self, cwd):
        """In a child, before exec. Root cannot enter an ordinary user's mount: first the user,
        then the directory."""
        if self.uid:
            os.setgroups([])
            os.setgid(self.gid)
            os.setuid(self.uid)
        os.chdir(cwd)


class Place:
    """Directories on the file system, and programs run there by a user. prefix is where shfs is
    installed, build where it was built."""

    def __init__(self, work, prefix, build=None):
        self.work, self.prefix, self.build = work, prefix, build
        self.users = {name: User(name) for name in ("root", ORDINARY)}
        self.errors = f"{work}/errors"
        for name, user in self.users.items():
            self.directory(f"{work}/home-{name}", user)

    def directory(self, path, user):
        os.makedirs(path, exist_ok=True)
        os.chown(path, user.uid, user.gid)
        return path

    def environment(self, user, **more):
        home = f"{self.work}/home-{user.name}"
        return {"PATH": f"{self.prefix}/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": home,
                "USER": user.name, "LOGNAME": user.name, "SHELL": "/bin/bash", "TERM": "xterm",
                "LC_ALL": "C.UTF-8", "TZ": "UTC", "XDG_CONFIG_HOME": f"{home}/.config",
                "XDG_DATA_HOME": f"{home}/.local/share", "GIT_CONFIG_NOSYSTEM": "1",
                "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "gc.auto", "GIT_CONFIG_VALUE_0": "0",
                "PYTHONDONTWRITEBYTECODE": "1", "REPROZIP_USAGE_STATS": "off", **more}

    def start(self, user, argv, cwd, stdout=subprocess.DEVNULL, **more):
        """A program of the user, with its errors in self.errors."""
        with open(self.errors, "wb") as errors:
            return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=stdout, stderr=errors,
                                    env=self.environment(user, **more), start_new_session=True,
                                    preexec_fn=lambda: user.become(cwd))

    def said(self):
        with open(self.errors, encoding="utf-8", errors="replace") as errors:
            return errors.read().strip()

    def timed(self, user, argv, cwd, limit=None):
        """(seconds, seconds of CPU of the program and all its children, what it printed); no more
        than limit seconds."""
        def used():
            usage = resource.getrusage(resource.RUSAGE_CHILDREN)
            return usage.ru_utime + usage.ru_stime

        before, begin = used(), time.perf_counter()
        with self.start(user, argv, cwd, stdout=subprocess.PIPE) as process:
            try:
                out = process.communicate(timeout=limit)[0].decode()
            except BaseException as problem:
                os.killpg(process.pid, signal.SIGKILL)
                if isinstance(problem, subprocess.TimeoutExpired):
                    fail(f"not done after {limit:g} s")
                raise
        seconds = time.perf_counter() - begin
        if process.returncode != 0:
            fail(f"{' '.join(argv)}: exit status {process.returncode}: {self.said()}")
        return seconds, used() - before, out

    def shell(self, user, script, cwd):
        return self.timed(user, ["sh", "-ec", script], cwd)[2]


def cpu_seconds(pid):
    """User and system time of all threads of a process, ended ones too."""
    return time.clock_gettime(~pid << 3 | 2)


def mounted_at(where):
    with open("/proc/self/mounts", encoding="utf-8", errors="surrogateescape") as mounts:
        return any(line.split(" ")[1] == where for line in mounts)
