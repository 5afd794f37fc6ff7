# SPDX-License-Identifier: MIT
"""What a mount's process takes of memory while four processes do random operations after fsstress, contents of up to
16 MiB among them, and once they have ended."""

import statistics
import time

import report
from scale import Watch
from variants import ALL, Shfs

TITLE = "memory of a mount under random operations"
WORKERS, OPERATIONS, QUICK_OPERATIONS = 4, 900, 20
ROUNDS = 3
IDLE = 6  # seconds after the end
BARS = 160, 40  # MiB: most, idle

WORK = r"""
import contextlib, os, random, sys
rng = random.Random(int(sys.argv[1]))
top = f"worker{sys.argv[1]}"
os.mkdir(top)
block = b"".join(rng.randbytes(64) * 16 for _ in range(128))  # 128 KiB that can be compressed


def name():
    return f"{top}/{rng.randrange(40)}"


def write():
    at = rng.randrange(16 << 20) if rng.random() < 0.25 else 0
    with open(os.open(name(), os.O_CREAT | os.O_WRONLY, 0o644), "wb") as file:
        file.seek(at)
        file.write(block[:rng.randrange(1, len(block))])


def read():
    with open(name(), "rb") as file:
        file.read()


def sync():
    with open(name(), "r+b") as file:
        os.fsync(file)


def allocate():
    with open(name(), "r+b") as file:
        os.posix_fallocate(file.fileno(), 0, rng.randrange(1, 4 << 20))


steps = [write, write, write, write, read, read, sync, allocate,
         lambda: os.truncate(name(), rng.randrange(4 << 20)), lambda: os.rename(name(), name()),
         lambda: os.link(name(), name()), lambda: os.unlink(name())]
for _ in range(int(sys.argv[2])):
    with contextlib.suppress(FileNotFoundError, FileExistsError):
        rng.choice(steps)()
"""


def once(place, mount, seed, operations):
    """(MiB at most, MiB when idle)"""
    mount.settle_in(place)
    try:
        mount.start()
        watch = Watch(mount.process.pid)
        watch.start()
        script = " ".join(f'python3 -c "$0" {seed * WORKERS + n} {operations} &' for n in range(WORKERS)) + " wait"
        place.timed(mount.user, ["sh", "-c", script, WORK], mount.directory)
        mount.wait()
        time.sleep(IDLE)
        most = watch.stop().rss
        now = Watch(mount.process.pid)
        now.start()
        time.sleep(0.3)
        return most, now.stop().rss
    finally:
        mount.stop()
        place.timed(place.users["root"], ["rm", "-rf", mount.base], "/")


def run(place, quick):
    """The text of the results."""
    rows = []
    for mount in (v for v in ALL if isinstance(v, Shfs) and v.kind == "unprivileged" and not v.missing(place)):
        found = [once(place, mount, seed, QUICK_OPERATIONS if quick else OPERATIONS) for seed in range(1 if quick else ROUNDS)]
        verdicts = [f"≤ {bar} {'met' if statistics.median(values) <= bar else 'MISSED'}"
                    for bar, values in zip(BARS, zip(*found))]
        rows.append([mount.title, *(report.show_spread(values, lambda mib: f"{mib:.0f}") for values in zip(*found)),
                     "" if quick else "; ".join(verdicts)])
    return (f"{WORKERS} processes, {OPERATIONS} operations each; MiB of the mount's process, at most and {IDLE} s after "
            f"all was archived.\n\n" + report.table(["transport", "most", "idle", "bars"], rows))
