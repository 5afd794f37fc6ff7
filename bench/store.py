#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A store of a year of work (bench/gen-journal.c): what the journal and the index take for an access,
how fast the journal is taken in, how that grows, and how long questions take, as whole processes from
start to end. Cold is after everything was dropped from the caches."""

import argparse
import collections
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time

import report
from place import Place, fail, file_system, run as step

TITLE = "a store of ten million accesses"
ACCESSES = (100000, 1000000, 10000000)
QUICK = (5000, 20000)
WARM, COLD = 11, 3
SCREEN = 50  # lines
BARS = {"records": 350000, "index": 45, "journal": 15, "warm": 0.05, "cold": 0.3}


def ended(argv):
    """(seconds, CPU seconds, MiB at most, output) of a process with little output."""
    with open("/dev/null", "rb") as null, open(f"/tmp/shfs-bench-{os.getpid()}", "w+b") as out:
        os.unlink(out.name)
        begin = time.perf_counter()
        process = subprocess.Popen(argv, stdin=null, stdout=out, stderr=out)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        text = out.read().decode(errors="replace")
    if process.returncode:
        fail(f"{' '.join(argv)}: {text}")
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, text


def until_screen(argv):
    """Seconds until the first screen is there; who reads it goes away then."""
    begin = time.perf_counter()
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        for _ in range(SCREEN):
            if not process.stdout.readline():
                break
        seconds = time.perf_counter() - begin
        process.stdout.close()
    return seconds


def bytes_of(path):
    return sum(os.lstat(f"{top}/{name}").st_size for top, _, names in os.walk(path) for name in names)


def index_bytes(store):
    """With the log beside it, which is empty when all is in the database."""
    return sum(os.path.getsize(f"{store}/{name}") for name in ("index.db", "index.db-wal")
               if os.path.exists(f"{store}/{name}"))


def generator(place):
    path = f"{place.build}/bench/gen-journal"
    step("ninja", "-C", place.build, "bench/gen-journal")
    return path


def taken_in(shfs, store, how):
    """(records, seconds, CPU seconds, MiB) of all the journal."""
    for name in ("index.db", "index.db-wal", "index.db-shm"):
        if os.path.exists(f"{store}/{name}"):
            os.unlink(f"{store}/{name}")
    seconds, cpu, memory, text = ended([*shfs, "--store", store, how])
    found = re.search(r"(\d+) records", text)
    return int(found[1]) if found else 0, seconds, cpu, memory


class Store:
    """One of so many accesses, and what was measured of it."""

    def __init__(self, place, accesses):
        self.accesses, self.path = accesses, f"{place.work}/store-{accesses}"
        self.shfs = [f"{place.prefix}/bin/shfs"]
        self.counts = dict(line.split("=") for line in step(
            generator(place), self.path, "--accesses", str(accesses), "--files", str(accesses // 10),
            "--commands", str(max(accesses // 200, 20))).split())
        self.records = int(self.counts["records"])

    def measure(self):
        real = int(self.counts["accesses"])
        self.journal = bytes_of(f"{self.path}/journal") / real
        self.rebuilt = taken_in(self.shfs, self.path, "reindex")
        self.ingested = taken_in(self.shfs, self.path, "ingest")
        self.index = index_bytes(self.path) / real
        return self

    def rate(self, taken):
        return self.records / taken[1]


def drop_caches():
    os.sync()
    with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as drop:
        drop.write("3")


def used_files(store):
    """A file that was changed often, one that was not, and a command in the middle."""
    shfs = [*store.shfs, "--store", store.path]
    text = ended([*shfs, "history", "--json", "-n", "200"])[3]
    numbers = collections.Counter()
    commands = json.loads(text)["commands"]
    for command in commands:
        for file in command["files"]:
            numbers[file["path"]] = max(numbers[file["path"]], file.get("made", 0), file.get("read", 0))
    cold = min((n, path) for path, n in numbers.items() if n)[1]
    return numbers.most_common(1)[0][0], cold, commands[len(commands) // 2]["id"], commands[0]["cwd"]


def questions(store):
    hot, cold, command, top = used_files(store)
    first = os.path.dirname(os.path.dirname(cold))
    return [
        ("history: the first screen", until_screen, ["history"]),
        ("history -n 50", ended, ["history", "-n", "50"]),
        ("history -n 20 of a hot file", ended, ["history", "-n", "20", hot]),
        ("history -n 20 of a cold file", ended, ["history", "-n", "20", cold]),
        ("history -n 20 of a directory", ended, ["history", "-n", "20", first]),
        ("history -n 20 of the project", ended, ["history", "-n", "20", top]),
        ("log of a hot file: the first screen", until_screen, ["log", hot]),
        ("log of a cold file", ended, ["log", cold]),
        ("why of a hot file", ended, ["why", hot]),
        ("why of a cold file", ended, ["why", cold]),
        ("show of a command", ended, ["show", command]),
        ("FILE@ completed", ended, ["complete", "--", "log", f"{hot}@"]),
        ("status", status, ["status"]),
    ]


def status(argv):
    """It ends with 1 where something is wrong, such as that nothing is mounted."""
    return (*ended(["sh", "-c", '"$@" || [ $? = 1 ]', "sh", *argv])[:3], "")


def seconds_of(how, argv):
    result = how(argv)
    return result if isinstance(result, float) else result[0]


def answer(store, how, words):
    """Median seconds, warm and cold."""
    argv = [*store.shfs, "--store", store.path, *words]
    cold = []
    for _ in range(COLD):
        drop_caches()
        cold.append(seconds_of(how, argv))
    seconds_of(how, argv)
    return statistics.median(seconds_of(how, argv) for _ in range(WARM)), statistics.median(cold)


def bar(value, limit, most=True):
    return "met" if (value <= limit if most else value >= limit) else "MISSED"


def growth(stores):
    head = ["", *(f"{s.accesses:,} accesses" for s in stores), "bar", ""]
    last = stores[-1]

    def row(name, show, key=None, judged=None):
        verdict = ["", ""]
        if key:
            verdict = [f"{'≥' if key == 'records' else '≤'} {BARS[key]:,}", bar(judged, BARS[key], key != "records")]
        return [name, *(show(s) for s in stores), *verdict]

    return report.table(head, [
        row("records", lambda s: f"{s.records:,}"),
        row("journal, bytes per access", lambda s: f"{s.journal:.1f}", "journal", last.journal),
        row("index, bytes per access", lambda s: f"{s.index:.1f}", "index", last.index),
        row("ingest, records/s", lambda s: f"{s.rate(s.ingested):,.0f}", "records", last.rate(last.ingested)),
        row("its CPU time per record", lambda s: report.show_time(s.ingested[2] / s.records)),
        row("its memory, MiB", lambda s: f"{s.ingested[3]:.0f}"),
        row("reindex, records/s", lambda s: f"{s.rate(s.rebuilt):,.0f}", "records", last.rate(last.rebuilt)),
        row("its memory, MiB", lambda s: f"{s.rebuilt[3]:.0f}"),
    ])


def answers(store):
    rows = []
    for name, how, words in questions(store):
        warm, cold = answer(store, how, words)
        rows.append([name, report.show_time(warm), bar(warm, BARS["warm"]), report.show_time(cold),
                     bar(cold, BARS["cold"])])
    return report.table([f"of {store.accesses:,} accesses", "warm", f"≤ {report.show_time(BARS['warm'])}", "cold",
                         f"≤ {report.show_time(BARS['cold'])}"], rows)


def run(place, quick, sizes=None):
    """The text of the results."""
    stores = []
    for accesses in sizes or (QUICK if quick else ACCESSES):
        stores.append(Store(place, accesses).measure())
        if len(stores) > 1:
            shutil.rmtree(stores[-2].path)
    return f"{growth(stores)}\n\n{answers(stores[-1])}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prefix", required=True, help="where shfs is installed")
    parser.add_argument("--build", required=True, help="where it was built")
    parser.add_argument("--accesses", type=int, help="so many, a tenth and a hundredth of it; else ten million")
    args = parser.parse_args()
    sizes = args.accesses and (args.accesses // 100, args.accesses // 10, args.accesses)
    with file_system("24G", 200000) as work:
        print(run(Place(work, args.prefix, args.build), False, sizes))


if __name__ == "__main__":
    sys.exit(main())
