# SPDX-License-Identifier: MIT
"""How cost grows: the same steps with ten times and a hundred times the files, in a plain directory
and on a mount, and what the mount's process takes meanwhile; then the index and the queries; and a file
with many names."""

import os
import re
import threading
import time

import report
from variants import ALL, NATIVE, Shfs

TITLE = "how cost grows, to a million files"
FILES = (10000, 100000, 1000000)
QUICK = (100, 1000)
PER_DIRECTORY = 1000
NAMES = (1000, 8000, 64000)  # ext4 has no more than 65,000 for a file
QUICK_NAMES = (10, 100)
STEPS = {  # of all files, then of a tenth as many in one directory
    "find -ls": "find tree -ls > /dev/null",
    "cat all": "find tree -type f -print0 | xargs -0 -n 5000 cat > /dev/null",
    "grep -r": "grep -r 'file 77 of' tree > /dev/null || true",
    "make a tenth as many in one directory": "mkdir one; cd one; seq {tenth} | xargs touch",
    "ls -l of it": "ls -l one > /dev/null",
    "rm -r of it": "rm -r one",
    "rm -r all": "rm -r tree",
}
CHANGES = {  # of each name
    "link": "os.link('f', f'l{n}')",
    "chmod": "os.chmod(f'l{n}', 0o600 + n % 2 * 0o44)",
    "rename": "os.rename(f'l{n}', f'm{n}')",
    "unlink": "os.unlink(f'm{n}')",
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


def make(where, files):
    for n in range(files):
        if n % PER_DIRECTORY == 0:
            os.makedirs(f"{where}/tree/{n // PER_DIRECTORY}")
        with open(f"{where}/tree/{n // PER_DIRECTORY}/{n}", "w", encoding="ascii") as file:
            file.write(f"file {n} of {files - 1}\n")
    return where


def queries(place, mount):
    """[(what, seconds)], once all is in the journal."""
    begin = time.perf_counter()
    mount.wait()
    yield "all is in the journal after", time.perf_counter() - begin
    shfs = f"{place.prefix}/bin/shfs --store {mount.base}/store"
    for name, script in (
            ("ingest", "ingest"), ("log of a file", f"log {mount.directory}/tree/0/50"),
            ("history", "history --all -n 10"), ("status", "status"), ("reindex", "reindex")):
        yield name, place.timed(mount.user, ["sh", "-c", f"{shfs} {script} > /dev/null || true"], "/")[0]


def names(place, mount, count):
    """With so many names of one file: [(what, seconds)], each change and its ingest."""
    mount.settle_in(place)
    ingest = f"{place.prefix}/bin/shfs --store {mount.base}/store ingest"
    try:
        mount.start()
        place.timed(mount.user, ["sh", "-c", "echo text > f"], mount.directory)
        found = []
        for what, each in CHANGES.items():
            script = ["python3", "-c", f"import os\nfor n in range({count}): {each}"]
            found.append((what, place.timed(mount.user, script, mount.directory)[0]))
            mount.wait()
            found.append((f"ingest of the {what}s", place.timed(mount.user, ingest.split(), "/")[0]))
        return found
    finally:
        mount.stop()
        place.timed(place.users["root"], ["rm", "-rf", mount.base], "/")


def mebibytes(path):
    return sum(os.lstat(f"{top}/{name}").st_blocks for top, _, names in os.walk(path) for name in names) / 2048


def measure(place, mount, files):
    """With so many files: {step: (native, mounted, MiB, descriptors)}, queries, sizes."""
    for variant in NATIVE, mount:
        variant.settle_in(place)
        make(variant.source, files)
        place.timed(place.users["root"], ["chown", "-R", f"{variant.user.uid}:{variant.user.gid}", variant.source], "/")
    try:
        mount.start()
        steps = {}
        for name, script in STEPS.items():
            script = ["sh", "-ec", script.format(tenth=files // 10)]
            native = place.timed(NATIVE.user, script, NATIVE.directory)[0]
            cpu, watch = mount.cpu(), Watch(mount.process.pid)
            watch.start()
            mounted = place.timed(mount.user, script, mount.directory)[0]
            watch.stop()
            steps[name] = (native, mounted, mount.cpu() - cpu, watch.rss, watch.fds)
        then = list(queries(place, mount))
        store = f"{mount.base}/store"
        return steps, then, [mebibytes(f"{store}/journal"), os.stat(f"{store}/index.db").st_size / (1 << 20)]
    finally:
        mount.stop()
        for variant in mount, NATIVE:
            place.timed(place.users["root"], ["rm", "-rf", variant.base], "/")


def run(place, quick):
    """The text of the results."""
    mount = next(v for v in ALL if isinstance(v, Shfs) and not v.missing(place))
    sizes = QUICK if quick else FILES
    found = {files: measure(place, mount, files) for files in sizes}

    def each(name, files):
        return files // 10 if "tenth" in name or "of it" in name else files

    rows = [[name, *(cell for files in sizes for cell in (
        report.show_time(found[files][0][name][1] / each(name, files)),
        f"{found[files][0][name][1] / found[files][0][name][0]:.1f}"))] for name in STEPS]
    head = ["time for one file", *(cell for files in sizes for cell in (f"of {files:,}", "× native"))]
    then = [[found[sizes[0]][1][k][0], *(report.show_time(found[files][1][k][1]) for files in sizes)]
            for k in range(len(found[sizes[0]][1]))]
    most = [["memory of the mount, MiB", *(f"{max(s[3] for s in found[f][0].values()):.0f}" for f in sizes)],
            ["its descriptors", *(str(max(s[4] for s in found[f][0].values())) for f in sizes)],
            ["its CPU time", *(report.show_time(sum(s[2] for s in found[f][0].values())) for f in sizes)],
            ["journal, MiB", *(f"{found[f][2][0]:.1f}" for f in sizes)],
            ["index, MiB", *(f"{found[f][2][1]:.1f}" for f in sizes)]]
    head_all = ["in all", *(f"{files:,}" for files in sizes)]
    of = {count: names(place, mount, count) for count in (QUICK_NAMES if quick else NAMES)}
    links = [[what, *(report.show_time(of[count][k][1] / count) for count in of)]
             for k, (what, _) in enumerate(next(iter(of.values())))]
    head_links = ["time for one name of one file", *(f"of {count:,}" for count in of)]
    return (f"{mount.title}.\n\n{report.table(head, rows)}\n\n{report.table(head_all, then + most)}\n\n"
            f"{report.table(head_links, links)}")
