# SPDX-License-Identifier: MIT
"""Files that the work is done on: made once, the same in each run, and copied to where it is done."""

import os
import random

from place import run

WORDS = ("the of and to in that is was for on as with by at from file line value data result "
         "sample count mean error model total rate index table figure plot run test config seed "
         "alpha beta gamma delta north south river stone light water").split()


def text(seed, size):
    """A long text of words, to cut from."""
    rng = random.Random(seed)
    out, length = [], 0
    while length < size:
        line = " ".join(rng.choices(WORDS, k=9)) + f" {rng.randrange(100000)}\n"
        out.append(line)
        length += len(line)
    return "".join(out)


def write(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="ascii") as file:
        file.write(data)


def tree(where, files):
    """Small files, 100 to a directory: 3 KiB in the median, 40 KiB at most."""
    rng, source = random.Random(1), text(1, 1 << 20)
    for n in range(files):
        size = min(int(rng.lognormvariate(8, 1)), 40 << 10)
        begin = rng.randrange(len(source) - size)
        write(f"{where}/tree/{n // 100}/{n}.txt", f"file {n}\n" + source[begin : begin + size])


def repository(where, files, commits=12):
    """A history in which each commit changes 8 files in 100, adds two and removes one: the first
    and the last are far apart. Tags v1, v2, ..."""
    rng, source, names = random.Random(2), text(2, 1 << 20), []
    git = ["git", "-c", "user.name=bench", "-c", "user.email=bench@localhost", "-c", "gc.auto=0"]
    top = f"{where}/repository"
    os.makedirs(top)
    run(*git, "init", "-q", "-b", "main", cwd=top)

    def change(name):
        size = min(int(rng.lognormvariate(8.2, 1)), 60 << 10)
        begin = rng.randrange(len(source) - size)
        write(f"{top}/{name}", f"{name} {rng.random()}\n" + source[begin : begin + size])

    def add(count):
        for _ in range(count):
            number = rng.randrange(1 << 40)
            names.append(f"d{number % 40}/s{number % 7}/{number:x}.c")
            change(names[-1])

    add(files)
    for commit in range(1, commits + 1):
        if commit > 1:
            for name in rng.sample(names, files * 8 // 100):
                change(name)
            for name in rng.sample(names, files // 100):
                names.remove(name)
                os.unlink(f"{top}/{name}")
            add(files // 50)
        run(*git, "add", "-A", cwd=top)
        run(*git, "commit", "-q", "-m", f"commit {commit}", cwd=top)
        run(*git, "tag", f"v{commit}", cwd=top)
    run(*git, "repack", "-adq", cwd=top)


def c_project(where, files):
    """C of a usual kind: each file includes a dozen headers of the project, which include others, and
    some of the system, and has functions with loops and calls. A static library and a program come out."""
    rng = random.Random(3)
    headers = max(files // 2, 4)
    top = f"{where}/c"
    for n in range(headers):
        includes = "".join(f'#include "h{rng.randrange(n)}.h"\n' for _ in range(3)) if n > 3 else ""
        structs = "".join(
            f"struct s{n}_{k} {{ long a, b; char name[{16 + k}]; struct s{n}_{k} *next; }};\n"
            f"static inline long get{n}_{k}(const struct s{n}_{k} *s) {{ return s->a * {k + 2} + s->b; }}\n"
            for k in range(12))
        write(f"{top}/include/h{n}.h", f"#ifndef H{n}\n#define H{n}\n{includes}{structs}#endif\n")
    for n in range(files):
        includes = "".join(f'#include "h{h}.h"\n' for h in rng.sample(range(headers), min(12, headers)))
        used = includes.split('"')[1][1:-2]
        functions = "".join(
            f"long f{n}_{k}(struct s{used}_{k % 12} *s, int n)\n{{\n\tlong sum = 0;\n"
            f"\tfor (int i = 0; i < n; i++) {{\n\t\tsum += get{used}_{k % 12}(s) ^ (i * {rng.randrange(99)});\n"
            f"\t\tif (sum % {rng.randrange(7, 99)} == 3)\n\t\t\tprintf(\"%s %ld\\n\", s->name, sum);\n"
            f"\t\tswitch (sum & 7) {{\n\t\tcase 1: sum += strlen(s->name); break;\n"
            f"\t\tcase 2: sum ^= labs(s->b); break;\n\t\tdefault: sum--; }}\n\t}}\n\treturn sum;\n}}\n"
            for k in range(16))
        main = "int main(void)\n{\n\treturn 0;\n}\n" if n == 0 else ""
        write(f"{top}/src/f{n}.c", "#include <errno.h>\n#include <pthread.h>\n#include <stdio.h>\n"
              f"#include <stdlib.h>\n#include <string.h>\n#include <sys/stat.h>\n{includes}{functions}{main}")
    write(f"{top}/Makefile",
          "OBJECTS := $(patsubst src/%.c,build/%.o,$(wildcard src/*.c))\n"
          "program: build/libc.a\n\tgcc -o $@ build/f0.o $<\n"
          "build/libc.a: $(OBJECTS)\n\tar rcs $@ $^\n"
          "build/%.o: src/%.c | build\n\tgcc -O1 -g -MMD -Iinclude -c -o $@ $<\n"
          "build:\n\tmkdir $@\n"
          "-include $(OBJECTS:.o=.d)\n")


def sequences(where, count):
    """A genome of so many pieces of 2,000 bases, and queries that are parts of it, changed."""
    rng = random.Random(4)
    pieces = ["".join(rng.choices("ACGT", k=2000)) for _ in range(count)]
    write(f"{where}/blast/genome.fa", "".join(f">piece{n}\n{piece}\n" for n, piece in enumerate(pieces)))
    queries = []
    for n in range(max(count // 5, 20)):
        bases = list(rng.choice(pieces)[100:900])
        for k in rng.sample(range(len(bases)), 60):
            bases[k] = rng.choice("ACGT")
        queries.append(f">query{n}\n{''.join(bases)}\n")
    write(f"{where}/blast/queries.fa", "".join(queries))


def table(where, size):
    """Lines of a measurement: a number, a time, a station, two values."""
    rng = random.Random(5)
    block = "".join(
        f"{n}\t{1600000000 + n * 7}\tstation{rng.randrange(200)}\t{rng.gauss(12, 5):.4f}\t{rng.random():.6f}\n"
        for n in range(100000))
    os.makedirs(f"{where}/pipe", exist_ok=True)
    with open(f"{where}/pipe/measured.tsv", "w", encoding="ascii") as file:
        for _ in range(max(size // len(block), 1)):
            file.write(block)


def big(where, size):
    os.makedirs(f"{where}/big", exist_ok=True)
    with open(f"{where}/big/file", "wb") as file:
        block = random.Random(6).randbytes(1 << 20)
        for _ in range(size >> 20):
            file.write(block)


def small(where, workers, files=64):
    """For loop.c: 1 KiB each, in a directory for each worker."""
    for worker in range(workers):
        for n in range(files):
            write(f"{where}/small/{worker}/{n}", "x" * 1024)


def postmark(where, files, transactions):
    os.makedirs(f"{where}/postmark")
    write(f"{where}/postmark/config",
          f"set number {files}\nset transactions {transactions}\nset size 500 10000\n"
          "set subdirectories 20\nset location files\nset report terse\nset seed 7\nrun\nquit\n")
    os.mkdir(f"{where}/postmark/files")
