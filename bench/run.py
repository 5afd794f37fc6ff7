#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Times the same work in a plain directory, on mounts of shfs in its forms, and in or under others.

All directories lie on one fresh file system. In a round each variant does the work right before or
right after the plain directory, by turns, so that what else the machine does hits both alike; the
ratio is that of such a pair, and the median of the rounds is what counts. A round that is not
counted comes first, and fills the caches. Before each run what the last one wrote is on the disk.
What shfs still archives in the background is waited for between the runs: it is not part of the
time, but the CPU time of the mount's process counts until it is done ("CPU besides"). For a tracer
that column is what the whole takes more than the work alone. A driver without FUSE watches only while
its own run lasts, as others pay for it too.
"""

import argparse
import collections
import contextlib
import importlib
import json
import os
import re
import shlex
import shutil
import signal
import sys

import prompt
import report
import variants
from fuse_requests import counted
from place import Failed, Place, file_system, io_uring_allowed, run
from work import WHOLE, WORK

HERE = os.path.dirname(os.path.abspath(__file__))
TRACED_ROUNDS = 3  # they are slow, and far from any bar
PATIENCE = 60  # seconds with a run of what others made
OF_OTHERS = ("peer", "tracer")
INODES = 1500000
# Modules of their own, with TITLE and run(place, quick) -> text; and what they need of the file system.
OTHERS = {"store": ("24G", 1000000), "graph": ("4G", 200000), "archive": ("8G", 1000000),
          "scale": ("24G", 4200000), "memory": ("8G", 200000), "check": ("8G", 400000)}
SMALL = ("1G", 100000)


def say(text):
    print(text, file=sys.stderr, flush=True)


class Fixtures:
    """Made when first asked for, and kept."""

    def __init__(self, place, quick):
        self.place, self.quick = place, quick

    def made(self, make, size):
        where = f"{self.place.work}/fixture/{make.__name__}-{size}"
        if not os.path.exists(where):
            os.makedirs(where)
            make(where, size)
        return where

    def copy(self, work, variant):
        if work.fixture:
            made = self.made(work.fixture, work.sizes[self.quick])
            run("cp", "-a", f"{made}/.", variant.source)
            run("chown", "-R", f"{variant.user.uid}:{variant.user.gid}", variant.source)


class Session:
    """One work, in or under all variants."""

    def __init__(self, work, fixtures):
        self.work, self.fixtures, self.place, self.quick = work, fixtures, fixtures.place, fixtures.quick
        known = {"loop": f"{self.place.work}/loop", "outside": ""}
        if work.outside:
            known["outside"] = fixtures.made(work.outside, work.sizes[self.quick])
        self.script, self.before, self.after = (
            work.fill(text, self.quick, **known) for text in (work.script, work.before, work.after))

    @contextlib.contextmanager
    def ready(self, chosen):
        with contextlib.ExitStack() as stack:
            for variant in chosen:
                variant.settle_in(self.place)
                stack.callback(variant.leave)
                if variant not in variants.TRACERS:
                    self.fixtures.copy(self.work, variant)
                stack.callback(variant.stop)
                variant.start()
            yield

    def once(self, variant, requests=None):
        """One run: what it took; requests is a Counter for them, at the cost of time."""
        self.place.shell(variant.user, self.before, variant.directory)
        with variant.attached():
            run("sync", "-f", self.place.work)
            if self.work.cold:
                with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as drop:
                    drop.write("3")
            cpu, archiver = variant.cpu(), variant.archiver_cpu()
            with counted(variant.directory, requests, self.place.work):
                seconds, work_cpu, out = self.place.timed(
                    variant.user, variant.wrap(["sh", "-ec", self.script]), variant.directory,
                    PATIENCE if variant.kind in OF_OTHERS else None)
            variant.wait()
            cpu, archiver = variant.cpu() - cpu, variant.archiver_cpu() - archiver
            closes = variant.closes() if variant.kind == "driver" else None
        if self.work.loop:
            # tracers print too
            seconds = float(re.search(r"^ns=([\d.]+)$", out, re.M)[1]) / 1e9
        self.place.shell(variant.user, self.after, variant.directory)
        return {"seconds": seconds, "cpu": work_cpu, "own_cpu": cpu, "archiver_cpu": archiver, "closes": closes}

    def requests(self, chosen):
        """{variant: {request: how many}} of one more run in each mount, which is not timed."""
        found = {v.name: collections.Counter() for v in chosen}
        for variant in chosen:
            if isinstance(variant, variants.Mount):
                self.once(variant, found[variant.name])
        return found

    def opens(self):
        """How many files one more run opens, wherever they are; None: nobody can count."""
        counter = variants.Opens()
        if counter.missing(self.place):
            return None
        counter.settle_in(self.place)
        self.once(counter)
        return counter.count

    def pair(self, variant, native_first):
        order = [variants.NATIVE, variant]
        done = {v.name: self.once(v) for v in (order if native_first else order[::-1])}
        return {**done[variant.name], "native": done["native"]}

    def warm_up(self, chosen):
        for variant in chosen:
            if variant not in variants.TRACERS:
                self.once(variant)

    def rounds(self, chosen, count):
        """(samples of each variant by its name, why one of others did not do the work). Samples of
        native are all that were made."""
        samples, unable = {v.name: [] for v in chosen}, {}
        for number in range(count):
            others = [v for v in chosen[1:] if v not in variants.TRACERS or number < TRACED_ROUNDS]
            turn = number % max(len(others), 1)
            for variant in others[turn:] + others[:turn]:
                if variant.name in unable:
                    continue
                try:
                    sample = self.pair(variant, number % 2 == 0)
                except Failed as failure:
                    if variant.kind not in OF_OTHERS:
                        raise
                    unable[variant.name] = f"it failed ({str(failure).splitlines()[-1][-100:]})"
                    continue
                samples[variant.name].append(sample)
                samples["native"].append({**sample["native"], "native": sample["native"]})
        return samples, unable


def absence(variant, work, place):
    return (f"{work.program} is not installed" if work.program and not shutil.which(work.program)
            else variant.missing(place))


def measure(work, wanted, fixtures, rounds):
    absent = {v.name: absence(v, work, fixtures.place) for v in wanted}
    chosen = [v for v in wanted if not absent[v.name]]
    session = Session(work, fixtures)
    with session.ready(chosen):
        if not fixtures.quick:
            session.warm_up(chosen)
        samples, unable = session.rounds(chosen, rounds)
        requests = {} if fixtures.quick else session.requests([v for v in chosen if v.name not in unable])
        opens = session.opens() if any(v.kind == "driver" for v in chosen) else None
    absent.update(unable)
    return {
        "name": work.name, "title": work.title, "script": session.script, "quick": fixtures.quick,
        "opens": opens, "operations": work.operations(fixtures.quick), "units": work.units(fixtures.quick),
        "variants": [{"name": v.name, "title": v.title, "kind": v.kind, "missing": absent[v.name],
                      "samples": samples.get(v.name, []), "requests": requests.get(v.name, {})} for v in wanted],
    }


# --- the command line ---


def parse():
    names = [w.name for w in WORK] + ["prompt", "record", *OTHERS]
    parser = argparse.ArgumentParser(
        prog="./dev bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="NAME: " + "; ".join(f"{w.name} ({w.title})" for w in WORK) +
               "; record (those three of shfs record, beside others of its kind)"
               "; prompt (what the hook adds to a prompt); store (ingest and queries of ten million accesses);"
               " graph (why, impact and stale of a million accesses);"
               " archive (a history of saves, beside git and restic); scale (how cost grows, to a million files);"
               " memory (of a mount under random operations);"
               " check (all data of a store, checked)")
    parser.add_argument("--prefix", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--build", help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="small sizes, one round: does the bench itself work?")
    parser.add_argument("--only", metavar="VARIANT", action="append",
                        choices=[v.name for v in variants.ALL], help="besides native; may be given again")
    parser.add_argument("--save", action="store_true", help="write bench/RESULTS.md")
    parser.add_argument("--json", metavar="FILE", help="each single measurement")
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all")
    args = parser.parse_args()
    for name in args.names:
        if name not in names:
            parser.error(f"no such benchmark: {name}; there are: " + ", ".join(names))
    args.names = args.names or names
    if "record" in args.names:
        args.names = [n for n in args.names if n != "record"] + [w.name for w in WORK if w.kinds == WHOLE]
    if args.rounds < 1:
        parser.error("at least 1 round")
    if args.quick:
        args.rounds = 1
    if os.geteuid() != 0:
        parser.error("needs root: it mounts a file system of its own")
    return args


class Results:
    """Shown, and kept where that was asked for, as they come."""

    def __init__(self, args):
        self.args, self.data = args, []
        hidden = ("--prefix", args.prefix, "--build", args.build)
        self.command = shlex.join(["./dev", "bench", *(w for w in sys.argv[1:] if w not in hidden)])

    def take(self, name, title, text, versions, data=None):
        text += "\n\n" + report.circumstances(self.command, versions)
        print(f"{name}: {title}\n\n{text}\n", flush=True)
        if self.args.save:
            report.save(f"{HERE}/RESULTS.md", name, title, text)
        if data:
            self.data.append(data)
        if self.args.json and data:
            with open(self.args.json, "w", encoding="utf-8") as out:
                json.dump(self.data, out, indent=1)


@contextlib.contextmanager
def a_place(args, size, inodes):
    with file_system(*(SMALL if args.quick else (size, inodes))) as work, io_uring_allowed():
        yield Place(work, args.prefix, args.build)


def bench_work(args, results):
    chosen = [w for w in WORK if w.name in args.names]
    if not chosen and "prompt" not in args.names:
        return
    wanted = [v for v in variants.ALL if v is variants.NATIVE or not args.only or v.name in args.only]
    with a_place(args, "32G", INODES) as place:
        run("gcc", "-O2", "-D_GNU_SOURCE", "-o", f"{place.work}/loop", f"{HERE}/loop.c")
        fixtures = Fixtures(place, args.quick)
        versions = list(dict.fromkeys(v.version(place) for v in wanted[1:] if not v.missing(place)))
        for work in chosen:
            say(f"{work.name} ...")
            fitting = [v for v in wanted if not work.kinds or v.kind in ("native", *work.kinds)]
            data = measure(work, fitting, fixtures, args.rounds)
            results.take(work.name, work.title, report.show(data), versions, data)
        if "prompt" in args.names:
            say("prompt ...")
            data = prompt.measure(place, 2 if args.quick else 20)
            results.take("prompt", prompt.TITLE, prompt.show(data), prompt.versions(place), data)


def main():
    args = parse()
    # so that what is mounted is unmounted
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    results = Results(args)
    bench_work(args, results)
    for name in [n for n in args.names if n in OTHERS]:
        say(f"{name} ...")
        module = importlib.import_module(name)
        with a_place(args, *OTHERS[name]) as place:
            text = module.run(place, args.quick)
            results.take(name, module.TITLE, text, [prompt.MOUNT.version(place)])


if __name__ == "__main__":
    try:
        main()
    except Failed as failure:
        sys.exit(f"bench: {failure}")
