#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Times the same work in a plain directory and in one mounted by shfs.

Both directories lie on one file system. A round runs the work in both, one right after the other,
in an order that changes from round to round, so that what else the machine does hits both alike;
the ratio is that of each round, and its median is what counts. What shfs still archives in the
background is waited for between the runs (`shfs sync`), and is not part of the time.

`scale` alone is another benchmark: a million files (scale.py).
"""

import argparse
import contextlib
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import scale

HERE = os.path.dirname(os.path.abspath(__file__))
FILES = 5000


def run(*argv, cwd=None):
    done = subprocess.run(argv, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"bench: {' '.join(argv)}: {done.stdout}{done.stderr}")
    return done.stdout


def timed(*argv, cwd):
    begin = time.perf_counter()
    run(*argv, cwd=cwd)
    return time.perf_counter() - begin


# --- the work: prepare(bench, dir) once, then time(bench, dir) -> seconds in each round ---


class Loop:
    """One system call sequence, many times; seconds of one."""

    def __init__(self, kind, count):
        self.kind, self.count = kind, count

    def prepare(self, bench, where):
        with open(f"{where}/loop.{self.kind}", "wb") as file:
            file.write(bytes(1024))

    def time(self, bench, where):
        path = f"{where}/loop.{self.kind}"
        return int(run(f"{bench.work}/loop", self.kind, path, str(self.count))) / 1e9


class Copy:
    def prepare(self, bench, where):
        pass

    def time(self, bench, where):
        seconds = timed("cp", "-r", bench.tree(), f"{where}/copy", cwd=where)
        shutil.rmtree(f"{where}/copy")
        return seconds


class Grep:
    def prepare(self, bench, where):
        run("cp", "-r", bench.tree(), f"{where}/grep")

    def time(self, bench, where):
        return timed("grep", "-rl", "line 77 of", "grep", cwd=where)


class GitStatus:
    def prepare(self, bench, where):
        bench.repository(f"{where}/status")

    def time(self, bench, where):
        return timed("git", "status", "--short", cwd=f"{where}/status")


class GitCheckout:
    """To the other branch, where each file differs, and back."""

    def prepare(self, bench, where):
        bench.repository(f"{where}/checkout")

    def time(self, bench, where):
        repository = f"{where}/checkout"
        there = timed("git", "checkout", "-q", "other", cwd=repository)
        return there + timed("git", "checkout", "-q", "main", cwd=repository)


class Compile:
    """40 C files, make -j2."""

    def prepare(self, bench, where):
        os.mkdir(f"{where}/cc")
        for n in range(40):
            with open(f"{where}/cc/f{n}.c", "w", encoding="ascii") as file:
                file.write("#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n")
                for k in range(50):
                    file.write(f"int f{n}_{k}(int a) {{ return printf(\"%d\", a * {k}); }}\n")
        with open(f"{where}/cc/Makefile", "w", encoding="ascii") as file:
            file.write("lib.a: $(patsubst %.c,%.o,$(wildcard *.c))\n\tar rc $@ $^\n")

    def time(self, bench, where):
        for name in os.listdir(f"{where}/cc"):
            if name.endswith((".o", ".a")):
                os.unlink(f"{where}/cc/{name}")
        return timed("make", "-s", "-j2", cwd=f"{where}/cc")


WORK = {
    "open+read+close, hot": Loop("read", 20000),
    "open+write+close": Loop("write", 2000),
    f"cp -r, {FILES:,} files": Copy(),
    f"grep -r, {FILES:,} files, hot": Grep(),
    "git status, 2,000 files": GitStatus(),
    "git checkout, 2,000 files": GitCheckout(),
    "C build, make -j2": Compile(),
}


# --- where it happens ---


class Bench:
    def __init__(self, work, shfs):
        self.work, self.shfs = work, shfs
        self.native, self.mounted = f"{work}/native", f"{work}/mounted"
        os.mkdir(self.native)
        os.mkdir(self.mounted)
        run("gcc", "-O2", "-o", f"{work}/loop", f"{HERE}/loop.c")

    def tree(self):
        """The tree that is copied and searched: small files in 50 directories."""
        top = f"{self.work}/tree"
        if not os.path.exists(top):
            for n in range(FILES):
                os.makedirs(f"{top}/{n % 50}", exist_ok=True)
                with open(f"{top}/{n % 50}/{n}.txt", "w", encoding="ascii") as file:
                    file.write(f"line {n} of many\n" * (10 + n % 90))
        return top

    def repository(self, where):
        """2,000 files on two branches that differ in every file."""
        git = ["git", "-c", "user.name=bench", "-c", "user.email=bench@localhost"]
        os.mkdir(where)
        run(*git, "init", "-q", "-b", "main", cwd=where)
        for branch in "main", "other":
            if branch == "other":
                run(*git, "checkout", "-q", "-b", branch, cwd=where)
            for n in range(2000):
                os.makedirs(f"{where}/{n % 40}", exist_ok=True)
                with open(f"{where}/{n % 40}/{n}.c", "w", encoding="ascii") as file:
                    file.write(f"int {branch}_{n};\n" * 20)
            run(*git, "add", "-A", cwd=where)
            run(*git, "commit", "-q", "-m", branch, cwd=where)
        run(*git, "checkout", "-q", "main", cwd=where)

    def rounds(self, work, count):
        """[(native seconds, mounted seconds)]; one round first to warm up, not counted."""
        work.prepare(self, self.native)
        work.prepare(self, self.mounted)
        times = []
        for number in range(count + 1):
            pair = {}
            order = [self.native, self.mounted]
            for where in order if number % 2 else order[::-1]:
                pair[where] = work.time(self, where)
                if where == self.mounted:
                    run(self.shfs, "sync")
            times.append((pair[self.native], pair[self.mounted]))
        return times[1:]


def unmount(where):
    """As soon as shfs's processes have let go of the store on it."""
    deadline = time.monotonic() + 30
    while subprocess.run(["umount", where], capture_output=True, check=False).returncode != 0:
        if time.monotonic() > deadline:
            sys.exit(f"bench: {where} stays busy")
        time.sleep(0.1)


@contextlib.contextmanager
def file_system(kind, size="3G", inodes=None):
    """A directory on a fresh ext4 with a journal, in a file; or on tmpfs."""
    if kind == "tmpfs":
        with tempfile.TemporaryDirectory(prefix="shfs-bench.", dir="/dev/shm") as work:
            yield work
        return
    with tempfile.TemporaryDirectory(prefix="shfs-bench.") as top:
        image, work = f"{top}/image", f"{top}/fs"
        os.mkdir(work)
        run("truncate", "-s", size, image)
        more = ["-N", str(inodes)] if inodes else []
        run("mkfs.ext4", "-q", "-F", *more, "-E", "lazy_itable_init=0,lazy_journal_init=0", image)
        run("mount", "-o", "loop", image, work)
        try:
            yield work
        finally:
            unmount(work)


def prepare(work, prefix):
    """The store lies on the same file system."""
    os.environ.update(SHFS_STORE=f"{work}/store", XDG_CONFIG_HOME=f"{work}/config", LC_ALL="C.UTF-8")
    return Bench(work, f"{prefix}/bin/shfs")


@contextlib.contextmanager
def mounted(work, prefix):
    """The bench with one of its directories mounted."""
    bench = prepare(work, prefix)
    run(bench.shfs, "mount", bench.mounted)
    try:
        yield bench
    finally:
        run(bench.shfs, "umount", bench.mounted)


# --- what comes out ---


def show_time(seconds):
    for unit, scale in ("s", 1), ("ms", 1e3), ("µs", 1e6):
        if seconds * scale >= 1 or unit == "µs":
            return f"{seconds * scale:.3g} {unit}"
    raise AssertionError


def spread(values):
    """median (p10 to p90)"""
    deciles = statistics.quantiles(values, n=10, method="inclusive")
    return statistics.median(values), deciles[0], deciles[-1]


def row(name, times):
    native, on_mount = (spread([pair[k] for pair in times]) for k in (0, 1))
    ratio = spread([b / a for a, b in times])
    cells = [f"{show_time(m)} ({show_time(low)}–{show_time(high)})"
             for m, low, high in (native, on_mount)]
    return [name, *cells, f"{ratio[0]:.2f} ({ratio[1]:.2f}–{ratio[2]:.2f})"]


HEAD = ["work", "native (p10–p90)", "mounted (p10–p90)", "ratio (p10–p90)"]


def table(head, rows):
    widths = [max(len(r[k]) for r in [head, *rows]) for k in range(len(head))]
    lines = [head, ["-" * w for w in widths], *rows]
    return "\n".join("| " + " | ".join(c.ljust(w) for c, w in zip(r, widths)) + " |" for r in lines)


def save(text, args):
    command = " ".join(["./dev bench", *sys.argv[3:]])
    version = run(f"{args.prefix}/bin/shfs", "--version").strip()
    title, how = ("# Results\n", f"{args.rounds} rounds:\n`{command}`. Medians of paired rounds; `bench/run.py` says how.")
    if is_scale(args):
        title, how = ("## A million files\n", f"once:\n`{command}`; `bench/scale.py` says how.")
    text = f"{title}\n{version}, Linux {platform.release()}, {os.cpu_count()} CPUs, {args.on}, {how}\n\n{text}\n"
    with open(f"{HERE}/RESULTS.md", encoding="utf-8") as old:
        rounds, heading, million = old.read().partition("\n## A million files\n")
    with open(f"{HERE}/RESULTS.md", "w", encoding="utf-8") as out:
        out.write(f"{rounds}\n{text}" if is_scale(args) else text + heading + million)


def is_scale(args):
    return args.names == ["scale"]


def main():
    parser = argparse.ArgumentParser(prog="./dev bench", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prefix", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--on", choices=["ext4", "tmpfs"],
                        default="ext4" if os.geteuid() == 0 else "tmpfs",
                        help="ext4 is loop-mounted and needs root")
    parser.add_argument("--save", action="store_true", help="write bench/RESULTS.md")
    parser.add_argument("names", nargs="*", help="part of the name of the work; default: all")
    args = parser.parse_args()
    chosen = {n: w for n, w in WORK.items() if not args.names or any(a in n for a in args.names)}
    if not chosen and not is_scale(args):
        parser.error("no such work; there are: " + "; ".join(WORK))
    if args.rounds < 2:
        parser.error("at least 2 rounds")

    if is_scale(args):
        with file_system(args.on, "24G", 4200000) as work:
            text = scale.run(prepare(work, args.prefix), table)
        print(text)
        if args.save:
            save(text, args)
        return
    rows = []
    with file_system(args.on) as work, mounted(work, args.prefix) as bench:
        for name, what in chosen.items():
            print(f"{name} ...", file=sys.stderr, flush=True)
            rows.append(row(name, bench.rounds(what, args.rounds)))
    text = table(HEAD, rows)
    print(text)
    if args.save:
        save(text, args)


if __name__ == "__main__":
    main()
