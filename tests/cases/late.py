# SPDX-License-Identifier: MIT
"""The steps of steps.py where nobody waits for who records, and the promises of that (docs/fast-path.md):

  * a version that is not marked holds what the file held under that name, in its order;
  * the newest version of a file is what it holds, or is marked; there is one of each that was written;
  * what a close left, or has got a name, is a version where nobody has the file open to write, and
    nothing is done until it was read (paced); else it may be missing, or marked;
  * names are those that there were, changes of names those that were done; who wrote had it open to write;
  * what is lost is told.

fanotify tells nothing of truncate(2)."""

import collections
import json
import os
import re
import time

from steps import DIRECTORIES, IGNORED, NAMES, Judge, Steps, is_ignored

NAMELESS = re.compile(r"#[0-9]+")  # what never had a name
NAME_CHANGES = {"rename", "exchange", "link", "unlink"}


class LateSteps(Steps):
    """settle: until all is recorded. paced: that is called after each step."""

    def __init__(self, *args, settle, paced, driver):
        self.settle, self.paced, self.driver = settle, paced, driver
        self.untold, self.written = set(), set()  # files: whose last change nobody tells; that a close left changed
        self.names, self.changes = set(NAMES + IGNORED), []  # (what, name, other name, pid)
        self.writers = collections.defaultdict(set)  # file: pids of who had it open to write
        self.history, self.held = collections.defaultdict(list), collections.defaultdict(dict)
        self.begin_ns = time.time_ns()
        super().__init__(*args)

    # --- who ---

    def pid(self, worker, in_child):
        pid = self.workers[worker].process.pid
        if not in_child:
            return pid
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as children:
            child = int(children.read().split()[0])
        self.workers[worker].children.add(child)
        return child

    def descriptors(self):
        for n, worker in enumerate(self.workers):
            for child, slots in ((False, worker.slots), (True, worker.child or {})):
                for opened in slots.values():
                    yield self.pid(n, child), opened

    def is_writable(self, file):
        return file.mapped or any(o.file is file and o.writable for _, o in self.descriptors())

    def note_writers(self):
        for pid, opened in self.descriptors():
            if opened.writable:
                self.writers[opened.file].add(pid)

    def writers_of(self, name):
        """Who had one of the files open to write that had this name, then or before."""
        return {pid for file in self.held[name] for pid in self.writers[file]}

    # --- what is promised ---

    def look(self, file):
        """history: of a file what it held; held: by name, of each file that had it, from where in its history on."""
        super().look(file)
        history = self.history[file]
        if not history or history[-1] != file.content:
            history.append(file.content)
        for name in self.visible(file):
            self.held[name].setdefault(file, len(history) - 1)

    def move(self, file, old, new):
        for other, since in self.held[old].items():  # versions go with the name
            self.held[new][other] = min(since, self.held[new].get(other, since))
        super().move(file, old, new)

    def may_be_read(self, name):
        return {content for file, since in self.held[name].items() for content in self.history[file][since:]}

    def must(self, file, why, by=None):
        if any(map(is_ignored, file.names)):
            return
        if self.paced and (why == "closed" or why == "truncated" and self.driver != "fanotify") and not self.is_writable(file):
            super().must(file, why, by)

    def arrive(self, file, path):
        super().arrive(file, path)
        self.look(file)
        if not self.paced or self.is_writable(file):
            self.lines[path][-1].must = None

    def ended(self, opened, by):
        was_changed = opened in opened.file.changing
        super().ended(opened, by)
        if was_changed and opened not in opened.file.changing:
            self.written.add(opened.file)
            self.untold.discard(opened.file)

    def step_truncate(self):
        before = {file: file.content for file in self.files.values()}
        super().step_truncate()
        if self.driver == "fanotify":
            self.untold |= {file for file, content in before.items() if file.content != content}

    # --- what is done ---

    def tell(self, worker, line, in_child=False):
        self.note_writers()
        result = super().tell(worker, line, in_child)
        if result >= 0:
            self.note(line.split(), worker, in_child)
        if self.paced:
            self.settle()
        return result

    def note(self, words, worker, in_child):
        what, *args = words
        if what == "open" and args[1] != ".":
            self.names.add(args[1])
        elif what in ("rename", "link"):
            self.names |= set(args[:2])
            what = "exchange" if what == "rename" and args[2] == "2" else what
            self.changes.append((what, args[0], args[1], self.pid(worker, in_child)))
        elif what == "linkfd":
            self.names.add(args[1])
        elif what == "unlink":
            self.changes.append((what, args[0], None, self.pid(worker, in_child)))


def select(sandbox, sql):
    return json.loads(sandbox.shfs("select", sql, cwd="/", timeout=60).stdout)["rows"]


def count_lost(sandbox):
    return select(sandbox, "SELECT coalesce(sum(lost), 0) FROM v_producer")[0][0]


class LateJudge(Judge):
    def __init__(self, steps, sandbox, lost_before):
        super().__init__(steps, sandbox, may_mark=True)
        self.lost = count_lost(sandbox) - lost_before  # and told: then only what there is can be judged

    def select(self, sql):
        return select(self.sandbox, sql)

    def relative(self, path):
        return path and os.path.relpath(path, self.steps.top)

    def judge(self):
        super().judge()
        if self.lost:
            return self.problems
        self.check_names()
        self.check_changes()
        self.check_writers()
        return self.problems

    def who(self, pid):
        """As the log of the steps has it."""
        return next((f"{n}{'c' * (pid != w.process.pid)}" for n, w in enumerate(self.steps.workers)
                     if pid == w.process.pid or pid in w.children), str(pid))

    def check_names(self):
        rows = self.select(f"SELECT path FROM v_path WHERE path GLOB '{self.steps.top}/*'")
        directories = {part for name in DIRECTORIES for part in (name, name.split("/")[0])}
        for name in {self.relative(row[0]) for row in rows} - self.steps.names - directories:
            if not NAMELESS.fullmatch(name):
                self.problems.append(f"{name}: there was no such name")

    def check_changes(self):
        """None that was not done; nothing is left out where there was time to tell it."""
        rows = self.select(f"SELECT op, path, path2, (SELECT pid FROM v_process p WHERE p.process_id = a.process_id)"
                           f" FROM v_access a WHERE path GLOB '{self.steps.top}/*'")
        told = [(op, self.relative(path), self.relative(path2) if op != "unlink" else None, pid)
                for op, path, path2, pid in rows if op in NAME_CHANGES]
        told, done = collections.Counter(map(self.as_told, told)), collections.Counter(map(self.as_told, self.steps.changes))
        for key in told - done:
            self.complain(key[2], f"{key} was not done", [], self.steps.lines[key[2]])
        for key in (done - told) if self.steps.paced else ():
            self.complain(key[2], f"{key} was not told", [], self.steps.lines[key[2]])

    def as_told(self, change):
        """fanotify tells any of the names that a file had before a link."""
        what, name, other, pid = change
        return (what, None if what == "link" and self.steps.driver == "fanotify" else name, other or name, self.who(pid))

    def check_writers(self):
        rows = self.select(f"SELECT path, begin_ns, (SELECT pid FROM v_process p WHERE p.process_id = a.process_id)"
                           f" FROM v_access a WHERE op = 'open' AND is_written AND path GLOB '{self.steps.top}/*'")
        for path, begin_ns, pid in rows:
            name = self.relative(path)
            writers = self.steps.writers_of(name)
            if begin_ns >= self.steps.begin_ns and not NAMELESS.fullmatch(name) and pid not in writers:
                had = ", ".join(map(self.who, writers))
                self.complain(name, f"{self.who(pid)} wrote it, and not one of {had}", [], self.steps.lines[name])

    def name(self, name, versions, line):
        if self.lost:
            self.check_whole(name, versions, line)
            return
        if self.steps.paced:
            super().name(name, versions, line)
        else:
            self.check_whole(name, versions, line)
            self.check_newest(name, versions, line)
        file = self.steps.named(name)
        if not file or file.initial:
            return
        if not versions and file in self.steps.written:
            self.complain(name, "has no version", versions, line[-6:])
        elif versions and not versions[-1].torn and versions[-1].size != file.size and not versions[-1].content:
            self.complain(name, f"the newest is {versions[-1]}, and it has {file.size}", versions[-4:], line[-6:])

    def check_whole(self, name, versions, line):
        """Read late, it may be what the same file held later."""
        for version in versions:
            if version.content and not version.torn and version.content not in self.steps.may_be_read(name):
                self.complain(name, f"{version} is of no file of this name", versions, line)

    def complain(self, name, what, versions, line):
        file = self.steps.named(name)
        if what.startswith("the newest") and file in self.steps.untold:
            return
        super().complain(name, what, versions, line)
