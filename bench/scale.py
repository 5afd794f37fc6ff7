# SPDX-License-Identifier: MIT
"""A million small files: walked, read and removed, in a plain directory and on a mount, with what the
process of the mount takes meanwhile; then how long the index and the queries take."""

import os
import re
import shutil
import subprocess
import threading
import time

DIRECTORIES = 1000
PER_DIRECTORY = 1000
ENTRIES = 100000
STEPS = {
    "find -ls": "find tree -ls > /dev/null",
    "cat all": "find tree -type f -print0 | xargs -0 -n 5000 cat > /dev/null",
    "grep -r": "grep -r 'file 77 of' tree > /dev/null",
    f"make {ENTRIES:,} files in one directory": f"mkdir one; cd one; seq {ENTRIES} | xargs touch",
    "ls -l of it": "ls -l one > /dev/null",
    "rm -r of it": "rm -r one",
    "rm -r all": "rm -r tree",
}


class Watch(threading.Thread):
    """The most memory and descriptors that a process has while this is on."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.rss, self.fds, self.ending = pid, 0, 0, threading.Event()

    def run(self):
        while not self.ending.wait(0.1):
            with open(f"/proc/{self.pid}/status", encoding="ascii", errors="replace") as status:
                rss = int(re.search(r"VmRSS:\s+(\d+) kB", status.read())[1])
            self.rss = max(self.rss, rss / 1024)
            self.fds = max(self.fds, len(os.listdir(f"/proc/{self.pid}/fd")))

    def stop(self):
        self.ending.set()
        self.join()
        return self


def make(where):
    """Beneath the mount, or where there is none."""
    for d in range(DIRECTORIES):
        os.makedirs(f"{where}/tree/{d}")
        for i in range(PER_DIRECTORY):
            with open(f"{where}/tree/{d}/{i}", "w", encoding="ascii") as file:
                file.write(f"file {d * PER_DIRECTORY + i} of {DIRECTORIES * PER_DIRECTORY - 1}\n")


def status(bench):
    lines = os.getxattr(bench.mounted, "user.shfs.status").decode().splitlines()
    return dict(line.split("=", 1) for line in lines)


def seconds(where, script):
    begin = time.perf_counter()
    subprocess.run(["sh", "-c", script], cwd=where, check=True)
    return time.perf_counter() - begin


def measure(bench):
    """Rows of the table: the step; seconds without and with the mount; MiB, descriptors, nodes."""
    for name, script in STEPS.items():
        native = seconds(bench.native, script)
        watch = Watch(int(status(bench)["pid"]))
        watch.start()
        mounted = seconds(bench.mounted, script)
        watch.stop()
        now = status(bench)
        if now["lost"] != "0":
            raise SystemExit(f"bench: {now['lost']} records lost in {name}")
        yield [name, f"{native:.1f} s", f"{mounted:.1f} s", f"{watch.rss:.0f}", str(watch.fds), now["nodes"]]


def queries(bench):
    """Once all is in the journal and none of it in the index by more than the background's work."""
    begin = time.perf_counter()
    while status(bench)["queued"] != "0":
        time.sleep(0.1)
    yield "all is in the journal after", time.perf_counter() - begin
    yield "ingest of what the background has left", seconds(bench.work, f"{bench.shfs} ingest")
    yield "log of a file", seconds(bench.mounted, f"{bench.shfs} log tree/7/500 > /dev/null")
    yield "history", seconds(bench.work, f"{bench.shfs} history --all -n 10 > /dev/null")
    yield "status", seconds(bench.work, f"{bench.shfs} status > /dev/null || true")
    yield "reindex", seconds(bench.work, f"{bench.shfs} reindex > /dev/null")


def size(path):
    du = subprocess.run(["du", "-sk", path], capture_output=True, text=True, check=True)
    return int(du.stdout.split()[0]) / 1024


def run(bench, table):
    """bench: not mounted yet. The text of the results."""
    make(bench.native)
    shutil.copytree(f"{bench.native}/tree", f"{bench.mounted}/tree")
    subprocess.run([bench.shfs, "mount", bench.mounted], check=True, capture_output=True)
    try:
        rows = list(measure(bench))
        store = os.environ["SHFS_STORE"]
        times = [[name, f"{took:.2f} s"] for name, took in queries(bench)]
        sizes = f"journal {size(store + '/journal'):.0f} MiB, index {size(store + '/index.db'):.0f} MiB"
    finally:
        subprocess.run([bench.shfs, "umount", bench.mounted], check=True, capture_output=True)
    head = ["work", "native", "mounted", "RSS peak, MiB", "descriptors", "nodes after"]
    return f"{table(head, rows)}\n\n{table(['then', 'takes'], times)}\n\nAt the end: {sizes}."
