# SPDX-License-Identifier: MIT
"""Random work at a prompt: lines that make files of files, with a seed. The truth about them is another
directory in which the same lines were executed with another input."""

import os
import pathlib
import random
import subprocess

INPUTS = ("in0", "in1", "in2")
SCRIPT = 'sort "$1" > "$2.part"\ntr a-z A-Z < "$2.part" > "$2"\n'

# Each line hands on all of what it reads: a change of an input is a change of the result. {a} and {b}
# are files that are there, {o} and {p} are made. By what shfs has to tell apart.
LINES = {
    "plain": (
        "sort {a} > {o}",
        "cat {a} {b} > {o}",
        "tr a-z A-Z < {a} > {o}",
        "paste {a} {b} > {o}",
        "sha256sum {a} {b} > {o}",
        "cat {a} > {o}.tmp && mv {o}.tmp {o}",
        "sort -o {o} {a}",
        "tee {o} < {a} > /dev/null",
    ),
    "pipes": (
        "cat {a} | sort > {o}",
        "cat {a} {b} | rev | tac > {o}",
        "sort {a} | tee {o} | sha256sum > {p}",
        "paste <(sort {a}) <(rev {b}) > {o}",
    ),
    "several": (
        "sort {a} > {o}; cat {o} {b} > {p}",
        "(cat {a}; cat {b}) > {o}",
        "{{ echo head; cat {a}; }} > {o}",
        'echo "$(cat {a})" and more > {o}',
        "sh script {a} {o}",
        "rm -f {o} {p}; sort {a} > {o}; rev {b} > {p}",
        "bash -c 'cat {a} {b} > {o}'",
    ),
    "loops": (
        "for f in {a} {b}; do sort $f > $f.{o}; done",
        "for f in {a} {b}; do cat $f | rev > $f.{o}; done",
        "printf '%s\\n' {a} {b} | xargs -P2 -I@ sh -c 'tac @ > @.{o}'",
        "while read f; do sort $f > $f.{o}; done < <(echo {a}; echo {b})",
    ),
    "elsewhere": (
        "sort {a} > $TMPDIR/{o}; cat $TMPDIR/{o} {b} > {o}",
        "sort {a} > $TMPDIR/{o}; head -c 9999 $TMPDIR/{o} > {o}",
        "tee $TMPDIR/{o} < {a} > {p}; sort $TMPDIR/{o} {b} > {o}",
    ),
}


class Pipelines:
    """top: an empty directory, which write(name, text) fills before any line is executed."""

    def __init__(self, seed, kinds, n_lines):
        self.random = random.Random(seed)
        self.inputs = {name: self._text(name) for name in INPUTS}
        self.changed = self.random.choice(INPUTS)
        self.read = set(INPUTS)  # what lines read
        self.lines, self.templates = [], [line for kind in kinds for line in LINES[kind]]
        files = list(INPUTS)
        for n in range(n_lines):
            line = self.random.choice(self.templates)
            a, b = self.random.sample(files, 2)
            self.read |= {name for name, field in ((a, "{a}"), (b, "{b}")) if field in line}
            o, p = f"o{n}", f"p{n}"
            if "." not in line and self.random.random() < 0.15:  # makes one anew that no line has read
                o = self._unread(files) or o
            if line.count("{o}") > 1:
                self.read.add(o)
            self.lines.append(line.format(a=a, b=b, o=o, p=p))
            made = [f"{x}.{o}" for x in (a, b)] if ".{o}" in line else [o] + [p] * ("{p}" in line)
            files += [name for name in made if name not in files]

    def _text(self, name):
        return "".join(f"{name} {self.random.getrandbits(64):x}\n" for _ in range(self.random.randint(3, 9)))

    def _unread(self, files):
        free = [name for name in files if name not in self.read]
        return self.random.choice(free) if free else None

    def lay_out(self, write):
        write("script", SCRIPT)
        for name, text in self.inputs.items():
            write(name, text)

    def change(self):
        """The line that changes an input, once all is made."""
        return f"echo {self.random.getrandbits(64):x} >> {self.changed}"

    def executed(self, top, change=None):
        """{name: content} of what the lines leave in another directory, after the change."""

        def write(name, text):
            with open(f"{top}/{name}", "w", encoding="ascii") as out:
                out.write(text)

        os.makedirs(f"{top}.tmp")
        self.lay_out(write)
        for line in [change] * bool(change) + self.lines:
            env = {"PATH": os.environ["PATH"], "TMPDIR": f"{top}.tmp", "LC_ALL": "C.UTF-8"}
            subprocess.run(["bash", "-c", line], cwd=top, env=env, check=True)
        return {path.name: path.read_bytes() for path in pathlib.Path(top).iterdir()}
