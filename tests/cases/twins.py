# SPDX-License-Identifier: MIT
"""The same program run on a mount and in a plain directory, and what it printed compared."""

import itertools
import os

import pytest

# What all scripts below can use. say() prints results so that two runs can be compared.
PRELUDE = r"""
import ctypes, errno, fcntl, mmap, os, select, signal, socket, stat, struct, subprocess, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)

def say(*what):
    print(*what, flush=True)

def attempt(what, *args, **options):
    # the result, or the name of the error
    try:
        return what(*args, **options)
    except OSError as error:
        return errno.errorcode[error.errno]

def write(name, data, flags=os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode=0o644):
    fd = os.open(name, flags, mode)
    try:
        return os.write(fd, data)
    finally:
        os.close(fd)

def read(name):
    with open(name, "rb") as f:
        return f.read()

def call(name, *args):
    # a function of libc by its name
    result = getattr(libc, name)(*args)
    return result if result >= 0 else errno.errorcode[ctypes.get_errno()]

def renameat2(old, new, flags):
    return call("renameat2", -100, os.fsencode(old), -100, os.fsencode(new), flags)

def mode(name):
    return oct(os.lstat(name).st_mode)

def shape(name):
    s = os.lstat(name)
    return oct(s.st_mode), s.st_nlink, s.st_uid, s.st_gid, s.st_size if not stat.S_ISDIR(s.st_mode) else 0

def tree(top=b"."):
    # everything below top, with its attributes and contents
    for where, dirs, files in os.walk(top):
        dirs.sort()
        for name in sorted(dirs + files):
            path = os.path.join(where, name)
            s = os.lstat(path)
            yield (path, shape(path), s.st_mtime_ns // 10**9 if s.st_mtime < 10**9 else 0,
                   os.readlink(path) if stat.S_ISLNK(s.st_mode) else read(path) if stat.S_ISREG(s.st_mode) else None)
"""


def python(sandbox, script, cwd=None, **options):
    """Runs a script in the project; returns what it printed, as bytes."""
    prelude = os.path.join(sandbox.path, "prelude.py")
    if not os.path.exists(prelude):
        sandbox.write_outside(prelude, PRELUDE)
    options["env"] = {"PYTHONPATH": sandbox.path}
    script = "from prelude import *\n" + script.lstrip("\n")
    return sandbox.run("/usr/bin/python3", "-B", "-", input=script, cwd=cwd, **options).stdout_bytes


def compare(expected, got):
    """Fails with the lines that differ."""
    pairs = itertools.zip_longest(expected.splitlines(), got.splitlines(), fillvalue=b"nothing")
    differ = [f"line {n}\n  below {b!r:.300}\n  above {a!r:.300}" for n, (b, a) in enumerate(pairs, 1) if a != b]
    if differ:
        pytest.fail("\n".join(differ[:20]), pytrace=False)


class Twins:
    """The mounted project, and a plain directory with the same history."""

    def __init__(self, sandbox):
        self.sandbox = sandbox
        self.plain = sandbox.mkdir(os.path.join(sandbox.home, "plain"))
        self.prepared = False

    def prepare(self, script):
        """Runs in both directories before the mount."""
        self._run(script)

    def run(self, script, **options):
        """Runs in both; what is printed must be the same. Returns it."""
        if not self.prepared:
            self.prepared = True
            self.sandbox.mount()
        return self._run(script, **options)

    def _run(self, script, **options):
        directories = self.plain, self.sandbox.project
        expected, got = (python(self.sandbox, script, d, **options) for d in directories)
        compare(expected, got)
        return got.decode("utf-8", "backslashreplace")
