# SPDX-License-Identifier: MIT
"""What a driver of kmod-fast-path tells, as shfs-watch-tool prints it.

    watch = Watch(sandbox, driver)      in sandbox.project, for the sandbox's user
    events = watch.run("sh", "-c", "echo > f")      -> [Event], in their order
"""

import functools
import json
import os
import re
import subprocess

import pytest

TOOL = os.path.join(os.environ["SHFS_TEST_BUILD"], "kmod-fast-path/shfs-watch-tool")
STRING = r'"(?:[^"\\]|\\.)*"'
LINE = re.compile(rf"(\S+) (\S+) (\d+) ({STRING}) ({STRING}) (\d+) (.*)")
FNV_PRIME, FNV_BEGIN, FNV_MASK = 0x100000001B3, 0xCBF29CE484222325, (1 << 64) - 1


def fnv(data):
    """The hash of the tool."""
    value = FNV_BEGIN
    for byte in data:
        value = (value ^ byte) * FNV_PRIME & FNV_MASK
    return f"{value:016x}"


class Event:
    def __init__(self, line):
        kind, flags, pid, path, path2, size, rest = LINE.fullmatch(line).groups()
        self.type, self.pid, self.size, self.line = kind, int(pid), int(size), line
        self.flags = set(flags.split("|")) - {"-"}
        self.path, self.path2 = json.loads(path), json.loads(path2)
        self.rest = dict(pair.split("=", 1) for pair in rest.split())

    def __getattr__(self, name):
        try:
            value = self.rest[name]
        except KeyError:
            raise AttributeError(name) from None
        return value if name == "hash" else int(value, 8 if name == "mode" else 10)

    def __repr__(self):
        return self.line


class Events(list):
    def of(self, *types, path=None):
        return Events(e for e in self if e.type in types and (path is None or e.path == path))

    def said(self, *types):
        """(type, path) or (type, path, path2) of each."""
        return [(e.type, e.path, e.path2) if e.path2 else (e.type, e.path) for e in self.of(*types)]


FILES = "CLOSE", "RENAME", "LINK", "UNLINK", "TRUNCATE", "MAKE", "CHANGE"


@functools.cache
def refusal(driver):
    """Why it does not work here, or ""."""
    tried = subprocess.run([TOOL, driver, os.environ["SHFS_TEST_DIR"], "--uid", "4000000", "--", "true"], capture_output=True, text=True)
    return tried.stderr.strip() if tried.returncode == 126 else ""


class Watch:
    def __init__(self, sandbox, driver):
        if os.geteuid() != 0:
            pytest.skip("needs root")
        self.sandbox, self.driver, self.root = sandbox, driver, sandbox.project
        why_not = refusal(driver)
        if why_not:
            pytest.skip(why_not)

    def start(self, *argv, options=(), as_uid=None, cwd=None):
        uid = self.sandbox.user.uid
        run_as = uid if as_uid is None else as_uid
        options = ["--uid", str(uid), "--as", str(run_as), *options]
        return subprocess.Popen(
            [TOOL, self.driver, self.root, *options, "--", *argv],
            cwd=cwd or self.root, env=self.sandbox.env, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="surrogateescape",
        )

    def finish(self, tool, status=0):
        out, err = tool.communicate()
        assert tool.returncode == status and "Sanitizer" not in err and "runtime error" not in err, err
        self.stderr = err
        return Events(Event(line) for line in out.splitlines())

    def run(self, *argv, status=0, **more):
        return self.finish(self.start(*argv, **more), status)

    def script(self, text, **more):
        """By sh, whose output is not among the events."""
        return self.run("sh", "-c", f"exec >&2; {text}", **more)
