# SPDX-License-Identifier: MIT
"""The work that is timed: scripts of sh in the directory of a variant, as a user would type them."""

import dataclasses
import os
from collections.abc import Callable

import fixture

@dataclasses.dataclass
class Work:
    name: str
    title: str
    fixture: Callable | None  # (where, size): what the work finds there
    sizes: tuple[int, int]  # of the fixture: full, quick
    script: str  # what is timed, in a directory with the fixture
    before: str = "true"  # not timed, and not traced
    after: str = "true"
    outside: Callable | None = None  # a fixture that is not in the project: {outside} in the script
    unit: tuple[str, float] | None = None  # requests are shown for each: (name, how many to one of size)
    cold: bool = False  # with nothing in the page cache
    loop: tuple[int, int] | None = None  # of loop.c: rounds of each worker or file, full, quick
    program: str | None = None  # that it needs
    kinds: tuple[str, ...] | None = None  # of the variants that it is for, besides native

    def operations(self, quick):
        """What the figures of the run are divided by; for a loop it is one operation that counts."""
        return self.loop[quick] * self.sizes[quick] if self.loop else 1

    def units(self, quick):
        """(name, how many in a run)"""
        if self.loop:
            return "operation", self.operations(quick)
        name, each = self.unit or ("run", 0)
        return name, self.sizes[quick] * each or 1

    def fill(self, text, quick, **known):
        return text.format(size=self.sizes[quick], count=self.loop[quick] if self.loop else 0,
                           cpus=os.cpu_count(), **known)


WHOLE = "record", "tracer"  # what records a command with all of the machine: in no mount of a project


def loop(name, title, kind, workers, rounds):
    return Work(name, title, fixture.small, (workers, workers),
                f"{{loop}} {kind} {workers} {{count}} small", loop=rounds)


GIGABYTES_2 = (2 << 30, 16 << 20)

WORK = [
    Work("cp", "cp -r of 20,000 small files into the project", None, (20000, 200),
         "cp -r {outside}/tree copy", outside=fixture.tree, after="rm -r copy", unit=("file", 1)),
    Work("cp-within", "cp -r of 20,000 small files within the project", fixture.tree, (20000, 200),
         "cp -r tree copy", after="rm -r copy", unit=("file", 1)),
    Work("cp-new", "cp -r of 4,000 small files that no store has yet", None, (4000, 200),
         "cp -r ../new copy", outside=fixture.tree, unit=("file", 1), after="rm -r copy",
         before="rm -rf ../new; cp -r {outside}/tree ../new; find ../new -type f -exec sed -i \"1i $(date +%N)\" {{}} +"),
    Work("elsewhere", "cp -r of 20,000 small files, none of them below what is recorded", None, (20000, 200),
         "cp -r {outside}/tree ../copy", outside=fixture.tree, after="rm -r ../copy", unit=("file", 1), kinds=("driver",)),
    Work("checkout", "git checkout between distant commits of 4,000 files, there and back",
         fixture.repository, (4000, 200),
         "cd repository; git checkout -q v1; git checkout -q v12", unit=("file", 2),
         # as a tracer that was ended leaves it
         before="cd repository; test ! -e .git/index.lock || {{ rm .git/index.lock; git checkout -qf v12; }}"),
    Work("cc", "C build of 100 files, make -j of all CPUs", fixture.c_project, (100, 4),
         "cd c; make -s -j{cpus}", before="rm -rf c/build c/program", unit=("file", 1)),
    Work("blast", "BLAST: makeblastdb of 40 MB, blastn of 4,000 queries", fixture.sequences, (20000, 50),
         "cd blast; makeblastdb -in genome.fa -dbtype nucl -out db > db.log; "
         "blastn -db db -query queries.fa -num_threads {cpus} -outfmt 6 -out hits.tsv",
         after="cd blast; rm -f db* hits.tsv", program="blastn"),
    Work("postmark", "postmark: 5,000 files, 20,000 transactions",
         lambda where, size: fixture.postmark(where, size, size * 4), (5000, 100),
         "cd postmark; postmark config", unit=("transaction", 4), program="postmark"),
    Work("pipeline", "pipeline over 1 GiB: awk, tee, gzip -1, sort", fixture.table, (1 << 30, 8 << 20),
         "cd pipe; awk -F'\\t' '$4 > 12 {{ print $3 \"\\t\" $4 }}' measured.tsv | tee warm.tsv |"
         " gzip -1 > warm.gz; cut -f 1 warm.tsv | sort | uniq -c > stations",
         after="cd pipe; rm -f warm.tsv warm.gz stations"),
    Work("read-cold", "read of 2 GiB, cold", fixture.big, GIGABYTES_2,
         "dd if=big/file of=/dev/null bs=1M status=none", cold=True),
    Work("read-hot", "read of 2 GiB, hot", fixture.big, GIGABYTES_2,
         "dd if=big/file of=/dev/null bs=1M status=none", before="cat big/file > /dev/null"),
    Work("write", "write of 2 GiB, with fsync", None, GIGABYTES_2,
         "dd if=/dev/zero of=written bs=1M count=$(({size} >> 20)) conv=fsync status=none",
         after="rm -f written"),
    loop("open-read", "open+read+close of hot small files", "read", 1, (40000, 400)),
    loop("open-read-4", "open+read+close of hot small files, 4 at once", "read", 4, (20000, 200)),
    loop("open-write", "open+write+close of hot small files", "write", 1, (4000, 100)),
    loop("open-write-4", "open+write+close of hot small files, 4 at once", "write", 4, (1000, 50)),
    Work("status", "git status, 4,000 files, hot", fixture.repository, (4000, 200),
         "cd repository; for i in 1 2 3 4 5; do git status --short; done", unit=("file", 5)),
    Work("grep", "grep -r, 20,000 files, hot", fixture.tree, (20000, 200),
         "grep -r 'no such line' tree || true", unit=("file", 1)),
    Work("record-start", "a command that does nothing, recorded whole", None, (1, 1), "true", kinds=WHOLE),
    Work("record-python", "python3 -c 'import numpy', recorded whole", None, (1, 1), "python3 -c 'import numpy'", kinds=WHOLE),
    Work("record-cc", "C build of 100 files, make -j of all CPUs, recorded whole", fixture.c_project, (100, 4),
         "cd c; make -s -j{cpus}", before="rm -rf c/build c/program", unit=("file", 1), kinds=WHOLE),
    Work("stat", "stat of 20,000 files, hot", fixture.tree, (20000, 200),
         "{loop} stat 1 {count} tree", loop=(5, 1)),
]
