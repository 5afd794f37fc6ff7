# SPDX-License-Identifier: MIT
"""`shfs check --read-data` of stores that hold one kind of content each: how much of what is stored it
reads in a second, and to how much that unpacks; cold, beside `cat` of the same files, and warm."""

import json
import os
import random
import re
import shutil
import statistics

import fixture
import report
from archive import Shfs
from store import drop_caches, ended

TITLE = "all data of a store, checked"
ROUNDS = 5
BAR = 500e6  # bytes in a second, or what the disk gives
MEMORY = 256  # MiB


def versions(top, scale):
    """Files of 40 KiB, each of which is changed in a line again and again."""
    rng, source = random.Random(1), fixture.text(1, 1 << 20)
    files = []
    for n in range(400):
        begin = rng.randrange(len(source) - (40 << 10))
        files.append(source[begin : begin + (40 << 10)].split("\n"))
    for _ in range(scale):
        for n, lines in enumerate(files):
            lines[rng.randrange(len(lines))] = f"changed {rng.random()}"
            fixture.write(f"{top}/{n}", "\n".join(lines))


def small(top, scale):
    """Files of 1 KiB."""
    rng = random.Random(2)
    source = fixture.text(2, 1 << 20)
    for n in range(1000 * scale):
        begin = rng.randrange(len(source) - 1000)
        fixture.write(f"{top}/{n // 1000}/{n}", f"{n} {rng.random()}\n" + source[begin : begin + 1000])


def texts(top, scale):
    """Files of 40 KiB that are like no other."""
    for n in range(100 * scale):
        fixture.write(f"{top}/{n // 1000}/{n}", fixture.text(n, 40 << 10))


def data(top, scale):
    """Files of 400 KB that cannot be packed."""
    rng = random.Random(3)
    for n in range(40 * scale):
        with open(f"{top}/{n}", "wb") as file:
            file.write(rng.randbytes(400000))


def large(top, scale):
    """Files of 16 MiB, which are no part of a pack: every other one a table."""
    rng = random.Random(4)
    for n in range(scale):
        with open(f"{top}/{n}", "wb") as file:
            file.write(rng.randbytes(16 << 20) if n % 2 else
                       "".join(f"{i}\t{rng.random():.6f}\n" for i in range(1 << 20)).encode())


KINDS = {versions: "versions of 400 files of 40 KiB", texts: "texts of 40 KiB", small: "texts of 1 KiB",
         data: "400 KB, not to be packed", large: "16 MiB, every other one a table"}


class Store:
    """One with a kind of content, and what was measured."""

    def __init__(self, place, make, scale):
        self.place = place
        with Shfs(place, make.__name__, place.prefix) as mount:
            make(mount.top, scale)
            mount.sync()
            self.path = mount.store
        shutil.rmtree(mount.top)
        self.shfs = [f"{place.prefix}/bin/shfs", "--store", self.path]
        ended([*self.shfs, "ingest"])

    def remove(self):
        shutil.rmtree(self.path)

    def objects(self):
        """Seconds until all bytes below objects/ are read."""
        return ended(["sh", "-c", f"find {self.path}/objects -type f -print0 | xargs -0 cat > /dev/null"])[0]

    def check(self, *how):
        seconds, cpu, memory, text = ended([*self.shfs, "check", "--json", *how])
        found = json.loads(re.search(r"\{.*\}", text, re.S)[0])
        assert found["ok"], text
        return seconds, cpu, memory, found

    def measure(self, rounds):
        cold, warm, disk = [], [], []
        for _ in range(rounds):
            drop_caches()
            disk.append(self.objects())
            drop_caches()
            cold.append(self.check("--read-data"))
            warm.append(self.check("--read-data"))
        self.heads = statistics.median(self.check()[0] for _ in range(rounds))
        self.disk = statistics.median(disk)
        self.cold, self.warm = (statistics.median(run[0] for run in runs) for runs in (cold, warm))
        self.cpu = statistics.median(run[1] for run in warm)
        self.memory = max(run[2] for run in cold + warm)
        found = warm[0][3]
        self.contents, self.stored, self.unpacked = found["objects"], found["read_bytes"], found["content_bytes"]
        return self


def rate(count, seconds):
    return f"{count / seconds / 1e6:,.0f}"


def is_met(store):
    """All of it, the index's comparison too; what unpacks to more than it reads is judged by that."""
    return max(store.stored, store.unpacked) / store.cold >= BAR or store.cold <= store.disk * 1.1


def run(place, quick):
    """The text of the results."""
    rows = []
    for make, title in KINDS.items():
        store = Store(place, make, 1 if quick else 100)
        store.measure(1 if quick else ROUNDS)
        rows.append([title, f"{store.contents:,}", f"{store.stored / 1e6:,.0f}", f"{store.unpacked / 1e6:,.0f}",
                     rate(store.stored, store.disk), rate(store.stored, store.cold), rate(store.unpacked, store.cold),
                     "met" if is_met(store) else "MISSED", rate(store.unpacked, store.warm),
                     f"{store.cpu:.2f}", f"{store.heads:.2f}", f"{store.memory:.0f}",
                     "met" if store.memory <= MEMORY else "MISSED"])
        store.remove()
    return report.table(
        ["", "contents", "stored, MB", "unpacked, MB", "cat, cold, MB/s", "check, cold, MB/s", "of contents, MB/s",
         "≥ 500, or as cat", "warm, of contents, MB/s", "CPU s", "heads alone, s", "MiB", f"≤ {MEMORY}"], rows)
