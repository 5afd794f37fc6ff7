#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How long why, impact and stale take in indexes of a million accesses, as whole processes from start to end, all in
the caches: in one where each file comes from all that was there before it, the worst that can be, and in one where
10,000 commands make a chain, and the others only read."""

import argparse
import json
import os
import shutil
import sys

import report
from place import Place, file_system, run as step
from store import ended, generator

TITLE = "why, impact and stale of a million accesses"
ACCESSES, QUICK = 1000000, 20000
ROUNDS = 11
BAR = 0.2
ROOT = "/home/user/project"


class Index:
    """A store, and how to ask it."""

    def __init__(self, place, name, *options):
        self.argv = [f"{place.prefix}/bin/shfs", "--store", f"{place.work}/graph-{name}"]
        self.path, self.name = self.argv[-1], name
        text = step(generator(place), self.path, *options)
        self.counts = dict(line.split("=", 1) for line in text.split())
        ended([*self.argv, "reindex"])

    def ask(self, *words):
        """What it says; 1 is an answer too: no, or something is stale."""
        return ended(["sh", "-c", '"$@" || [ $? = 1 ]', "sh", *self.argv, *words])[3]

    def json(self, *words):
        return json.loads(self.ask(*words, "--json"))

    def rows(self, sql):
        return json.loads(self.ask("select", sql))["rows"]


def file_at(index, share):
    """A result of a script, such that so many of all are older."""
    found = index.rows("SELECT v.path, v.n FROM v_version v JOIN v_process p USING (process_id)"
                       " WHERE p.exe LIKE '%/python3%' AND v.source = 'written' ORDER BY v.time_ns")
    return "{}@{}".format(*found[int(share * len(found))])


def seconds(argv, rounds):
    argv = ["sh", "-c", '"$@" > /dev/null || [ $? = 1 ]', "sh", *argv]
    ended(argv)
    return [ended(argv)[0] for _ in range(rounds)]


def row(index, what, behind, words, rounds):
    median, low, high = report.spread(seconds([*index.argv, *words], rounds))
    lines = index.ask(*words).count("\n")
    return [what, behind, f"{lines:,}", report.show_time(median),
            f"{report.show_time(low)} to {report.show_time(high)}", "met" if median <= BAR else "MISSED"]


def size(answer):
    return f"{len(answer['commands']):,} commands, {len(answer['versions']):,} versions"


def questions(index, target, source, first_dir, rounds):
    """target: what comes from much; source: of which much comes; first_dir: where that lies."""
    behind, below = size(index.json("why", target)), size(index.json("impact", source))
    last = index.rows("SELECT path FROM v_version WHERE n = 1 ORDER BY time_ns DESC LIMIT 1")[0][0]
    stale = index.json("stale", ROOT)
    stale = f"{stale['stale']:,} of {stale['results']:,} results are stale"
    return [
        row(index, "why FILE", behind, ["why", target], rounds),
        row(index, "why FILE --from DIR", behind, ["why", target, "--from", first_dir], rounds),
        row(index, "why FILE --from the last FILE: no", behind, ["why", target, "--from", last], rounds),
        row(index, "why FILE --json", behind, ["why", target, "--json"], rounds),
        row(index, "impact FILE@1", below, ["impact", source], rounds),
        row(index, "impact FILE@1 --json", below, ["impact", source, "--json"], rounds),
        row(index, "stale, the whole project", stale, ["stale", ROOT], rounds),
    ]


def of_connected(place, accesses, rounds):
    index = Index(place, "connected", "--accesses", str(accesses), "--files", str(accesses // 10),
                  "--commands", str(max(accesses // 200, 40)))
    early = index.rows("SELECT path FROM v_version WHERE n = 1 ORDER BY time_ns LIMIT 1")[0][0]
    rows = questions(index, file_at(index, 0.99), f"{early}@1", os.path.dirname(early), rounds)
    few = file_at(index, 0.02)
    rows.append(row(index, "why FILE --from DIR, of an early file", size(index.json("why", few)),
                    ["why", few, "--from", os.path.dirname(early)], rounds))
    shutil.rmtree(index.path)
    return rows


def of_chain(place, accesses, rounds):
    index = Index(place, "chain", "--chain", "--accesses", str(accesses), "--files", str(accesses // 10),
                  "--commands", str(accesses // 50))
    early = index.rows("SELECT path FROM v_version WHERE n = 1 ORDER BY time_ns LIMIT 1")[0][0]
    rows = questions(index, index.counts["last"], f"{early}@1", os.path.dirname(early), rounds)
    shutil.rmtree(index.path)
    return rows


def run(place, quick, accesses=None):
    """The text of the results."""
    accesses, rounds = accesses or (QUICK if quick else ACCESSES), 1 if quick else ROUNDS
    head = ["", "the answer", "lines", "median", "p10 to p90", f"≤ {report.show_time(BAR)}"]
    parts = ["Whole processes; what they print goes to /dev/null, and writing the lines is in the time."]
    for what, rows in (("each file from all before it", of_connected(place, accesses, rounds)),
                       ("a chain, and walks that make nothing", of_chain(place, accesses, rounds))):
        parts.append(report.table([f"{accesses:,} accesses, {what}", *head[1:]], rows))
    return "\n\n".join(parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prefix", required=True, help="where shfs is installed")
    parser.add_argument("--build", required=True, help="where it was built")
    parser.add_argument("--accesses", type=int)
    args = parser.parse_args()
    with file_system("4G", 200000) as work:
        print(run(Place(work, args.prefix, args.build), False, args.accesses))


if __name__ == "__main__":
    sys.exit(main())
