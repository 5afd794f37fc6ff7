# SPDX-License-Identifier: MIT
"""Random work at a prompt: lines that make files of files, with a seed. The truth about them is another
directory in which the same lines were executed with another input. The lines are typed, or a coding agent gives each
to a shell of its own."""

import os
import pathlib
import random
import subprocess

import pytest

from harness import Shell

# Has the prompt of a shell (harness.Shell), and runs each line as agents do: as it is, or wrapped.
AGENT = f"""#!/usr/bin/env python3
import os, shlex, subprocess, sys
env = {{**os.environ, "CLAUDECODE": "1"}}
while True:
    print(end={Shell.READY + Shell.PROMPT!r}, flush=True)
    line = sys.stdin.readline().rstrip("\\n")
    if line in ("", "exit"):
        break
    text = sys.argv[1].replace("{{}}", shlex.quote(line)) if sys.argv[1:] else line
    subprocess.run(["bash", "-c", text], env=env, stdin=subprocess.DEVNULL, start_new_session=True)
"""
WRAPS = ("", "'source /dev/null && eval {} < /dev/null && pwd -P >| /dev/null'")


def each_way(seeds, few):
    """Parameters of a case: lines that are typed, with each seed, and that an agent runs, with a few of them, or with
    each where seeds were asked for."""
    many = {"SHFS_TEST_SEEDS", "SHFS_TEST_SOAK"} & {*os.environ}
    agents = seeds if many else seeds[:few]
    return [*(pytest.param(seed, False, id=f"{seed}") for seed in seeds), *(pytest.param(seed, True, id=f"{seed}-agent") for seed in agents)]


def hand_over(sandbox, terminal, seed):
    """From now on an agent runs what is given to the terminal."""
    program = sandbox.write_outside(f"{sandbox.home}/bin/claude", AGENT, 0o755)
    terminal.run(f"{program} {WRAPS[seed % len(WRAPS)]}")


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
    "rounds": (  # of loops, that leave files where nothing is recorded: what a later round made of them is not known
        "for f in {a} {b}; do sort $f > $TMPDIR/$f.x; head -c 9999 $TMPDIR/$f.x > $f.{o}; done",
        "for f in {a} {b}; do tac $f > $TMPDIR/x; rev $TMPDIR/x > $f.{o}; done",
        "printf '%s\\n' {a} {b} | xargs -P2 -I@ sh -c 'tac @ > $TMPDIR/@.y; rev $TMPDIR/@.y > @.{o}'",
    ),
    "links": (
        "ln -s {a} {o}.l; sort {o}.l > {o}",
        "sort link {b} > {o}",
        "sh script link {o}",
        "mkdir -p d; ln -sfn ../{a} d/{o}; python3 -c 'print(open(\"d/{o}\").read())' > {o}",
    ),
    "outside": (  # of the project, in $DATA; what touches no file of the mount is not seen (cat $DATA/outside | sort)
        "sort $DATA/outside {a} > {o}",
        "rev < $DATA/outside > {o}",
        "cat {a} $DATA/outside | rev > {o}",
        "sh $DATA/script {a} {o}",
        "for f in {a} $DATA/outside; do sort $f; done > {o}",
        "(cd $DATA; cat outside $OLDPWD/{a}) > {o}",
    ),
}


# What one line leaves where nothing is recorded, another one takes. {t} is there, {n} a number. (A stage of a pipeline
# that uses no recorded file at all is not seen by a mount: "head $TMPDIR/{t} | tac > {o}", "cat {a} | rev > $TMPDIR/t{n}".)
LEAVE = (
    "sort {a} > $TMPDIR/t{n}",
    "cp {a} $TMPDIR/t{n}",
    "cat {a} {b} > $TMPDIR/t{n}",
    "tee $TMPDIR/t{n} < {a} > {o}",
)
TAKE = (
    "cat $TMPDIR/{t} {b} > {o}",
    "sort $TMPDIR/{t} > {o}",
    "cp $TMPDIR/{t} {o}",
    "head -c 9999 $TMPDIR/{t} > {o}",
    "sort {b} $TMPDIR/{t} | rev > {o}",
)


class Pipelines:
    """top: an empty directory, which write(name, text) fills before any line is executed. between: some lines leave
    files elsewhere that others take; copies: also by cp, which is kept as it is where the user typed it."""

    def __init__(self, seed, kinds, n_lines, between=False, copies=True):
        self.random = random.Random(seed)
        self.inputs = {name: self._text(name) for name in INPUTS}
        self.outside = {"outside": self._text("outside"), "script": SCRIPT} if "outside" in kinds else {}
        self.changed = self.random.choice([*INPUTS, *["$DATA/outside"] * ("outside" in kinds), *["link"] * ("links" in kinds)])
        self.read = set(INPUTS)  # what lines read
        self.lines = ["test -L link || ln -s in0 link"] * ("links" in kinds)
        self.templates = [line for kind in kinds for line in LINES[kind]]
        files, left = list(INPUTS), []
        for n in range(n_lines):
            line = self.random.choice(self.templates)
            if between and self.random.random() < 0.4:
                lines = TAKE if left and self.random.random() < 0.6 else LEAVE
                line = self.random.choice([line for line in lines if copies or not line.startswith("cp ")])
                line = line.replace("{t}", self.random.choice(left or [""])).replace("{n}", str(n))
            left += [f"t{n}"] * (f"/t{n}" in line and line.replace(str(n), "{n}") in LEAVE)
            a, b = self.random.sample(files, 2)
            self.read |= {name for name, field in ((a, "{a}"), (b, "{b}")) if field in line}
            o, p = f"o{n}", f"p{n}"
            if "." not in line and self.random.random() < 0.15:  # makes one anew that no line has read
                o = self._unread(files) or o
            if line.count("{o}") > 1:
                self.read.add(o)
            self.lines.append(line.format(a=a, b=b, o=o, p=p))
            made = [f"{x}.{o}" for x in (a, b)] if ".{o}" in line else [o] * ("{o}" in line) + [p] * ("{p}" in line)
            files += [name for name in made if name not in files]

    def _text(self, name):
        return "".join(f"{name} {self.random.getrandbits(64):x}\n" for _ in range(self.random.randint(3, 9)))

    def _unread(self, files):
        free = [name for name in files if name not in self.read]
        return self.random.choice(free) if free else None

    def lay_out(self, write, write_outside):
        write("script", SCRIPT)
        for name, text in self.outside.items():
            write_outside(name, text)
        for name, text in self.inputs.items():
            write(name, text)

    def change(self, name=None):
        """The line that changes an input, once all is made."""
        name = name or self.changed
        if name == "link":
            return "ln -sfn in1 link"
        return f"echo {self.random.getrandbits(64):x} >> {name}"

    def executed(self, top, change=None):
        """{name: content} of what the lines leave in another directory, after the change."""

        def write_to(directory):
            os.makedirs(directory, exist_ok=True)
            return lambda name, text: pathlib.Path(directory, name).write_text(text, "ascii")

        os.makedirs(f"{top}.tmp")
        self.lay_out(write_to(top), write_to(f"{top}.data"))
        for line in [change] * bool(change) + self.lines:
            env = {"PATH": os.environ["PATH"], "TMPDIR": f"{top}.tmp", "DATA": f"{top}.data", "LC_ALL": "C.UTF-8"}
            subprocess.run(["bash", "-c", line], cwd=top, env=env, check=True)
        return {path.name: path.read_bytes() for path in pathlib.Path(top).iterdir()
                if path.is_file() and not path.is_symlink()}


# What is done to files that are there already; {n} is a number. For exports, which have to bring a past.
EDITS = {
    "in place": (
        "sed -i s/in/{n}/ {a}",
        "echo {n} >> {a}",
        "cat {b} >> {a}",
        "sort -o {a} {a}",
        "echo {n} > {a}",
        "sort {b} > {a}",
        "printf {n} | dd of={a} conv=notrunc status=none",
        "truncate -s 9 {a}",
        "rev {a} > {a}.new && mv {a}.new {a}",
        "sed -i s/in/{n}/ {a}; sort {a} {b} > {o}; sed -i 's/$/!/' {a}",
    ),
    "moved": (
        "mv {a} {o}",
        "mv {a} {b}",
        "cp {a} {o}",
        "cp {a} {b}",
        "cp -p {a} {b}.bak",
        "ln -f {a} {o}",
        "mv {a} {o}; sort {o} > {a}",
        "mkdir -p d{n}; mv {a} d{n}/{o}",
        "mkdir -p d{n}; sort {a} > d{n}/{o}",
        "cp -r . $TMPDIR/{o}; mkdir c{n}; cp $TMPDIR/{o}/{a} c{n}/",
        "ls -d d? 2> /dev/null | while read d; do mv $d $d.{n}; done",
        "sort {a} > {o}.tmp; mv {o}.tmp {b}",
    ),
    "removed": (
        "rm {a}",
        "rm -f {a}; sort {b} > {a}",
        "rm -f {a} {b}; echo {n} > {a}",
        "rm -f o*",
        "rm -rf d*",
        "cp {a} {o}; rm {a}; cp {o} {a}",
    ),
    "failed": (
        "cat {a} missing > {o}",
        "sort {a} > {o}; false",
        "grep nothing {a} > {o}",
        "sort {a} > {o} && cat missing >> {o} && sort {b} > {p}",
    ),
    "at once": (
        "sort {a} > {o} & sort {b} > {p}; wait",
        "{{ sleep 0.05; cat {b} {a} > {o}; }} & rev {b} > {p}; wait",
        "sort {a} > x.tmp; rev x.tmp > {o}; rm x.tmp",
        "rev {a} > x.tmp; mv x.tmp {o}",
    ),
    "scripts": (
        "make -s",
        "make -s",
        "touch {a}; make -s",
        "make -s -B m1",
        "sh script {a} {o}",
        "sh script {a} {b}",
        "sed -i 's/sort/sort -r/' script; sh script {a} {o}",
        "echo 'rev {a} > {o}' > s{n}; sh ./s{n}",
        "find . -name 'o*' | sort | xargs -r cat > all{n}",
    ),
}  # fmt: skip
# What one line leaves elsewhere and another one takes: {t} and {u} are names there. What appends to a file of which it
# is not known what it held makes an export one that may go wrong.
KEPT = (
    *(line.replace("t{n}", "{t}") for line in LEAVE),
    "cat {a} >> $TMPDIR/{t}",
    "echo {n} > $TMPDIR/{t}; cat $TMPDIR/{t} {a} > {o}",
    "sed -i s/in/{n}/ $TMPDIR/{t}; sort {a} > {o}",
    "sed -i s/in/{n}/ $TMPDIR/{t}",
    "rev $TMPDIR/{t} > $TMPDIR/{u}",
    "mv $TMPDIR/{t} $TMPDIR/{u}",
    "cat $TMPDIR/{t}",
    *TAKE * 2,
    "mv $TMPDIR/{t} {o}",
    "for f in $TMPDIR/{t} {a}; do head -3 $f; done > {o}",
    "(cd $TMPDIR; cat {t}) > {o}",
    "sort $TMPDIR/{t} > $TMPDIR/{u}; rev $TMPDIR/{u} > {o}",
    # loops and jobs that leave a file there in each round, for themselves or for a later line
    "for f in {a} {b}; do sort $f > $TMPDIR/{t}; rev $TMPDIR/{t} > $f.{o}; done",
    "for f in {a} {b}; do tac $f > $TMPDIR/{n}.${{f##*/}}; head -c 9999 $TMPDIR/{n}.${{f##*/}} > $f.{o}; done",
    "for x in {t} {u}; do sort {a} > $TMPDIR/$x; done",
    "for x in {t} {u}; do rev {a} > $TMPDIR/$x; sort {b} $TMPDIR/$x > {o}.$x; done",
    "for x in {t} {u}; do rev $TMPDIR/$x > {o}.$x; done",
    "for x in {t} {u}; do cat $TMPDIR/$x {a}; done > {o}",
    "printf '%s\\n' {a} {b} | xargs -P2 -I@ sh -c 'tac @ > $TMPDIR/{n}.$(basename @); rev $TMPDIR/{n}.$(basename @) > @.{o}'",
    "printf '%s\\n' {t} {u} | xargs -P2 -I@ sh -c 'cat {a} > $TMPDIR/@; sort $TMPDIR/@ > {o}.@'",
    "printf '%s\\n' {t} {u} | xargs -P2 -I@ sort -o {o}.@ $TMPDIR/@",
    "mkdir -p $TMPDIR/d; sort {a} > $TMPDIR/d/{t}",
    "mkdir $TMPDIR/e",
    "sort {a} > $TMPDIR/e/{t}",
    "cat $TMPDIR/e/{t} {b} > {o}",
    "rev $TMPDIR/d/{t} > {o}",
    *("make -s -B m3", "make -s m4") * 2,
)
# Lines that need what only their shell knows, or what lies elsewhere.
NEEDY = {
    "shell": ("so {a} > {o}", "cat {a} | so > {o}", "twice {a} > {o}", "sort $X > {o}", "X={a}"),
    "kept elsewhere": ("cp {a} ../kept", "cat ../kept {b} > {o}"),
}
MAKEFILE = (
    "all: m1 m2\nm1: in0 in1\n\tsort in0 in1 > m1\nm2: m1 in2\n\tcat m1 in2 > m2\n"
    "m3: in0\n\tsort in0 > $(TMPDIR)/m\n\trev $(TMPDIR)/m > m3\n"
    "m4: $(TMPDIR)/n\n\ttac $(TMPDIR)/n > m4\n$(TMPDIR)/n: in1\n\tsort in1 > $(TMPDIR)/n\n"
)
SHELL_STATE = "alias so=sort; twice() { cat $1 $1; }; X=in0"


class Edits:
    """Lines that do something to the files that there are, whatever becomes of it."""

    def __init__(self, seed, needy, kept=False, seen=False):
        """needy: also lines that need what is not there; kept: what lines left elsewhere; seen: none that uses no file
        of the project, as nothing records what a shell does that is an agent's."""
        self.random = random.Random(seed)
        self.inputs = {name: "".join(f"{name} {self.random.getrandbits(32):x}\n" for _ in range(5)) for name in INPUTS}
        kinds = [LINES[kind] for kind in LINES if kind not in ("links", "outside")] + [EDITS[kind] for kind in EDITS] * 2
        self.kinds = kinds + [NEEDY[kind] for kind in NEEDY] * 3 * needy + [self._kept(seen)] * len(kinds) * 2 * kept
        self.needy = [line for kind in NEEDY.values() for line in kind]
        self.lines, self.needy_lines = [], []

    @staticmethod
    def _kept(seen):
        return [line for line in KEPT if not seen or any(name in line for name in ("{a}", "{b}", "{o}"))]

    def lay_out(self, write):
        write("script", SCRIPT)
        write("Makefile", MAKEFILE)
        for name, text in self.inputs.items():
            write(name, text)

    def next(self, files):
        """A line for a directory that has these files."""
        files = [name for name in files if name not in ("Makefile", "script")] + ["in1"] * 2
        if self.lines and self.random.random() < 0.1:
            line = self.random.choice(self.lines)
        else:
            template = self.random.choice(self.random.choice(self.kinds))
            n = len(self.lines)
            a, b = self.random.choice(files), self.random.choice(files)
            t, u = self.random.sample(("t0", "t1", "t2"), 2)
            line = template.format(a=a, b=b, o=f"o{n}", p=f"p{n}", n=n, t=t, u=u)
            if template in self.needy:
                self.needy_lines.append(line)
        self.lines.append(line)
        return line

    def some(self, files, n):
        return self.random.sample(files, min(n, len(files)))
