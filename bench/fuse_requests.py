# SPDX-License-Identifier: MIT
"""Which requests the kernel sends to the server of a mount, by its tracepoint: perf(1) counts them,
whoever the server is."""

import collections
import contextlib
import os
import re
import shutil
import signal
import subprocess
import time

EVENT = "fuse:fuse_request_send"


def connection(where):
    """The number of the mount's connection; None: it is not FUSE."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as mounts:
        for line in mounts:
            words = line.split(" ")
            if words[4] == where and words[words.index("-") + 1].startswith("fuse"):
                major, minor = map(int, words[2].split(":"))
                return major << 20 | minor
    return None


@contextlib.contextmanager
def counted(where, found, scratch):
    """Requests by their names into found (a Counter, or None: no need), of what happens meanwhile on the
    mount there. Nothing is found where perf cannot count."""
    number = None if found is None else connection(where)
    if number is None or not shutil.which("perf"):
        yield
        return
    data = f"{scratch}/perf.data"
    perf = subprocess.Popen(["perf", "record", "-q", "-a", "-m", "1024", "-e", EVENT, "--filter",
                             f"connection == {number}", "-o", data],
                            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        time.sleep(0.5)  # until it counts
        yield
    finally:
        perf.send_signal(signal.SIGINT)
        perf.wait()
    if os.path.exists(data):
        said = subprocess.run(["perf", "script", "-i", data, "-F", "trace"], capture_output=True, text=True,
                              errors="replace", check=False)
        found.update(collections.Counter(re.findall(r"\(FUSE_(\w+)\)", said.stdout)))
        os.unlink(data)
