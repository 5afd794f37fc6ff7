# SPDX-License-Identifier: MIT
"""A program that changes files of its own in a directory that is mounted, and looks at what is below after
each failure: what a call has acknowledged is there, what it has not, is there or not.

    writing.py TOP WORKER SEED PAUSE STEPS LOWER

TOP: the directory, and LOWER a descriptor of what it covers; PAUSE: seconds after each step. It ends after so
many STEPS (0: never), or with SIGTERM. What it did is told in lines of JSON."""

import contextlib
import errno
import fcntl
import hashlib
import json
import mmap
import os
import random
import signal
import sys
import time

# What a file system whose process died may say. EIO: it died while it took the request; EINTR: while it worked
# on one, which is no acknowledgement: Python goes on with most calls itself, but not with msync(2).
GONE = {errno.ENOTCONN, errno.ECONNABORTED, errno.ECANCELED, errno.EIO, errno.EINTR}
# By rename also that one name was found in the mount and the other one below it.
MORE = {"rename": {errno.EXDEV}}
FILES = 6


class Gone(Exception):
    """The mount has died."""


def digest(data):
    return hashlib.sha256(data).hexdigest()


class Writer:
    def __init__(self, top, worker, seed, pause, steps, lower):
        self.top, self.directory, self.lower, self.pause = top, worker, int(lower), float(pause)
        self.random, self.last = random.Random(seed), int(steps)
        self.now = {}  # name: what it holds
        self.before = {}  # name: what it held before the last change, where that failed
        self.n = self.steps = self.acknowledged = 0
        self.log, self.lines = -1, []  # the file that all append to, held open
        self.stopped = False
        signal.signal(signal.SIGTERM, self.stop)

    def stop(self, *_):
        self.stopped = True

    def tell(self, what, **more):
        print(json.dumps({"what": what, "worker": self.directory, "t1": time.time_ns(), **more}), flush=True)

    def path(self, name):
        return os.path.join(self.top, self.directory, name)

    def data(self):
        """That nobody else wrote, and nobody wrote before."""
        self.n += 1
        head = f"{self.directory} {self.n} of {self.random.getrandbits(64)}\n".encode()
        if self.n % 9 == 0:
            return head + self.random.randbytes(self.random.choice([3000, 70_000, 120_000]))
        return head + b"".join(b"line %d\n" % i for i in range(self.random.choice([1, 30, 400, 6000])))

    # --- what is below ---

    def below(self, name):
        """None: nothing."""
        try:
            fd = os.open(f"{self.directory}/{name}", os.O_RDONLY, dir_fd=self.lower)
        except FileNotFoundError:
            return None
        with open(fd, "rb") as file:
            return file.read()

    def is_made(self):
        """A mount that dies may still believe that the directory is not there."""
        with contextlib.suppress(OSError):
            os.makedirs(os.path.join(self.top, self.directory), exist_ok=True)
            return True
        return False

    def look(self, name):
        if self.below(name) != self.now.get(name):
            self.wrong(f"{name} is not what was written")

    def wrong(self, what):
        self.tell("wrong", text=what)

    def known(self, name):
        """It may be a version."""
        if self.now.get(name) is not None:
            self.tell("state", name=name, digest=digest(self.now[name]))

    def call(self, function, *args, possible=None, **after):
        """One that changes files to what is told. After a failure they are so, or as before, or possible(content)."""
        before = {name: self.now.get(name) for name in after}
        try:
            result = function(*args)
        except OSError as error:
            if error.errno not in GONE | MORE.get(function.__name__, set()):
                self.wrong(f"{function.__name__}: {error}")
            for name in after:
                self.now[name] = self.below(name)
                self.known(name)
            self.before.update(before)
            now = {name: self.now[name] for name in after}
            if now not in (before, after) and not (possible and all(map(possible, now.values()))):
                self.wrong(f"{function.__name__} of {list(after)} was cut, and they are neither old nor new")
            raise Gone(errno.errorcode[error.errno]) from error
        self.acknowledged += 1
        self.now.update(after)
        for name in after:
            self.before.pop(name, None)
        return result

    # --- steps ---

    def write(self, fd, name, data, at):
        old = self.now[name]
        new = old[:at].ljust(at, b"\0") + data + old[at + len(data) :]

        def is_cut(found):
            """It may hold the first bytes."""
            n = next((i for i, pair in enumerate(zip(found[at:], data)) if pair[0] != pair[1]), len(data))
            return found in (old[:at] + data[:i] + old[at + i :] for i in (n, max(len(found) - at, 0)))

        done = self.call(os.pwrite, fd, data, at, possible=is_cut, **{name: new})
        self.now[name] = old[:at].ljust(at, b"\0") + data[:done] + old[at + done :]
        self.known(name)
        if done < len(data):
            self.write(fd, name, data[done:], at + done)

    @contextlib.contextmanager
    def opened(self, name, flags):
        """Its close is told, and whether it was by a mount."""
        begin, creates = time.time_ns(), flags & os.O_TRUNC or name not in self.now or self.now[name] is None
        after = {name: b"" if creates else self.now[name]}
        fd = self.call(os.open, self.path(name), flags | os.O_CREAT, 0o644, **after)
        try:
            yield fd
            if self.random.random() < 0.3:
                self.call(os.fsync, fd)
            seen = self.call(os.fstat, fd).st_dev != os.fstat(self.lower).st_dev
        except BaseException:
            with contextlib.suppress(OSError):
                os.close(fd)
            raise
        self.call(os.close, fd)
        self.tell("close", name=name, t0=begin, digest=digest(self.now[name]), seen=seen)

    def rewrite(self, name):
        with self.opened(name, os.O_WRONLY | os.O_TRUNC) as fd:
            for _ in range(self.random.choice([1, 1, 3])):
                self.write(fd, name, self.data(), len(self.now[name]))

    def append(self, name):
        with self.opened(name, os.O_WRONLY) as fd:
            self.write(fd, name, self.data(), len(self.now[name]))

    def patch(self, name):
        with self.opened(name, os.O_RDWR) as fd:
            self.write(fd, name, self.data(), self.random.randrange(len(self.now[name]) + 1))

    def save(self, name):
        """As editors do."""
        self.rewrite(f"{name}.tmp")
        after = {f"{name}.tmp": None, name: self.now[f"{name}.tmp"]}
        begin = time.time_ns()
        self.call(os.rename, self.path(f"{name}.tmp"), self.path(name), **after)
        self.tell("rename", name=f"{name}.tmp", to=name, t0=begin, digest=digest(self.now[name]))

    def truncate(self, name):
        old = self.now.get(name)
        if old:
            length = self.random.randrange(len(old))
            self.call(os.truncate, self.path(name), length, **{name: old[:length]})
            self.known(name)

    def unlink(self, name):
        if self.now.get(name) is not None:
            begin = time.time_ns()
            self.call(os.unlink, self.path(name), **{name: None})
            self.tell("unlink", name=name, t0=begin)

    def once(self, _):
        """A file with one close."""
        self.append(f"once{self.n}")

    def mapped(self, name):
        """By a child: a store where nobody serves it is a SIGBUS."""
        if not self.now.get(name):
            return
        old, new, begin = self.now[name], self.data(), time.time_ns()
        new = new[: len(old)] + old[len(new) :]
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGBUS, signal.SIG_DFL)
            os._exit(self.store(name, new))
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

        def flush():
            if status:
                raise OSError(errno.ENOTCONN if status == -signal.SIGBUS else status, "in a mapping")

        self.call(flush, possible=lambda found: is_mixed(found, old, new), **{name: new})
        self.tell("mapped", name=name, t0=begin, digest=digest(new))

    def store(self, name, new):
        try:
            fd = os.open(self.path(name), os.O_RDWR)
            with mmap.mmap(fd, len(new)) as mapping:
                mapping[:] = new
                mapping.flush()
            os.close(fd)
        except OSError as error:
            return error.errno
        return 0

    def sync(self, _):
        """What was closed by now is recorded, and stays."""
        begin = time.time_ns()
        with contextlib.suppress(OSError):  # there is no mount, or a content was lost
            if os.getxattr(self.top, "user.shfs.sync") == b"ok":
                self.tell("sync", t0=begin)

    def line(self, _):
        """To a file that all append to, and that stays open."""
        line = f"{self.directory} {len(self.lines)}\n".encode()
        try:
            if self.log < 0:
                self.log = os.open(os.path.join(self.top, "log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            self.lines.append([line, False])
            self.lines[-1][1] = os.write(self.log, line) == len(line)
            self.acknowledged += 1
        except OSError as error:
            if error.errno not in GONE:
                self.wrong(f"log: {error}")
            if self.log >= 0:
                with contextlib.suppress(OSError):
                    os.close(self.log)
            self.log = -1
            raise Gone(errno.errorcode[error.errno]) from error

    def read(self, name):
        try:
            with open(self.path(name), "rb") as file:
                found = file.read()
        except FileNotFoundError:
            found = None
        except OSError as error:
            if error.errno not in GONE:
                self.wrong(f"read: {error}")
            raise Gone(errno.errorcode[error.errno]) from error
        # a mount that dies may still believe that there is no such file
        if found != self.now.get(name) and not (name in self.before and found == self.before[name]):
            sizes = [None if data is None else len(data) for data in (found, self.now.get(name), self.below(name))]
            self.wrong(f"{name} is not read as it was written: bytes read, written, below: {sizes}")

    def step(self):
        kinds = {self.rewrite: 6, self.append: 4, self.patch: 3, self.save: 4, self.truncate: 1, self.unlink: 1,
                 self.once: 3, self.mapped: 1, self.sync: 1, self.line: 6, self.read: 5}  # fmt: skip
        [kind] = self.random.choices(list(kinds), list(kinds.values()))
        name = f"f{self.random.randrange(FILES)}"
        if kind == self.patch and not self.now.get(name):
            kind = self.rewrite
        begin = time.time_ns()
        try:
            kind(name)
        except Gone as gone:
            self.tell("gone", error=str(gone), t0=begin, step=kind.__name__)
            for own in list(self.now):
                self.look(own)
        self.steps += 1
        time.sleep(self.pause)

    def end(self):
        for name in self.now:
            self.look(name)
        told = {line.decode(): done for line, done in self.lines}
        self.tell("end", steps=self.steps, acknowledged=self.acknowledged, lines=told)

    def run(self):
        while not self.stopped and not self.is_made():
            time.sleep(0.01)
        while not self.stopped and not self.steps >= self.last > 0:
            self.step()
        self.end()


def is_mixed(found, old, new):
    """Each byte is one of these."""
    return len(found) == len(old) and all(f in (o, n) for f, o, n in zip(found, old, new))


fcntl.fcntl(int(sys.argv[6]), fcntl.F_GETFD)  # it was passed
Writer(*sys.argv[1:]).run()
