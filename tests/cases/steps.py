# SPDX-License-Identifier: MIT
"""Random steps of several processes on a few files, and a model of what each of them left.

One step is done after the other, by steps.c; what a file holds after it is read from the directory
beneath the mount. So the model need not know what a write does, only which promises it makes:

  * what a close left of a file that was changed is a version, whole, in its place;
  * what a file held before its first change, or lost its name with, is one too;
  * no version holds what the file did not hold at that time, between two steps, unless it is marked;
  * the newest version of a file is what it holds.

A file is known by its inode. What it holds is a state; each name has a line of the states that it
led to, in their order. The versions of that name must be found along it."""

import collections
import hashlib
import json
import os
import random
import subprocess

NAMES = ["a", "b", "c", "data.json", "d/e", "d/f.py", "g/h"]
IGNORED = ["a~", ".cache/i", "x/.snakemake/j"]
DIRECTORIES = ["d", "g", ".cache", "x/.snakemake"]
SLOTS = 8

RENAME_NOREPLACE, RENAME_EXCHANGE = 1, 2
KEEP_SIZE, PUNCH_HOLE, ZERO_RANGE = 1, 2, 16


def digest(data):
    return hashlib.blake2b(data, digest_size=12).hexdigest()


def is_ignored(path):
    return path.endswith("~") or path.startswith(".cache/") or ".snakemake/" in path


class State:
    """What a name led to after a step. must: there has to be a version of it, and why. may_mark: nobody could
    know that the write(2) it came from was over."""

    __slots__ = ("content", "size", "step", "must", "may_mark")

    def __init__(self, content, size, step):
        self.content, self.size, self.step, self.must, self.may_mark = content, size, step, None, False

    def __repr__(self):
        return f"{self.step}:{self.content[:6]}({self.size}){' ' + self.must if self.must else ''}"


class File:
    def __init__(self, fd, initial):
        self.fd, self.names, self.last_name, self.initial = fd, set(), None, initial
        self.content, self.size = None, 0
        self.changer = None  # the open file through which it was changed last
        self.changing = set()  # open files through which it was changed since they were opened
        self.part_by = None  # the process whose write was the last change, if more requests of that may follow
        self.mapped = 0


class Open:
    """An open file description: closed once all of its descriptors and mappings are gone."""

    def __init__(self, file, path, readable, writable):
        self.file, self.path, self.readable, self.writable = file, path, readable, writable
        self.descriptors, self.direct = set(), False
        self.map = None  # (worker, slot, length)
        self.captured = False  # with what was changed through it, before it is closed


class Worker:
    def __init__(self, sandbox, program, top):
        self.process = sandbox.popen([program], cwd=top, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.slots, self.child = {}, None  # slot: Open; those of the child, or None
        self.children = set()  # pids that are known

    def tell(self, line):
        self.process.stdin.write((line + "\n").encode())
        self.process.stdin.flush()
        answer = self.process.stdout.readline().split()
        if not answer:
            raise RuntimeError(f"{line}: the process has died")
        return -int(answer[1]) if answer[0] == b"-" else int(answer[0])

    def close(self):
        self.process.stdin.close()
        self.process.wait(20)
        self.process.stdout.close()


class Steps:
    """In top, which is mounted; lower: a descriptor of what is beneath it."""

    def __init__(self, sandbox, top, lower, seed, max_bytes, workers=3):
        with open(os.path.join(os.path.dirname(__file__), "steps.c"), encoding="utf-8") as source:
            program = sandbox.compile("steps", source.read(), "-luring")
        self.sandbox, self.top, self.lower, self.max_bytes = sandbox, top, lower, max_bytes
        self.random = random.Random(seed)
        self.files, self.lines, self.log = {}, collections.defaultdict(list), []
        self.n, self.last_random = 0, 0
        self.workers = [Worker(sandbox, program, top) for _ in range(workers)]
        for name in NAMES + IGNORED:
            self.find(name, initial=True)

    # --- what is beneath ---

    def find(self, path, initial=False):
        """The file that a name leads to, beneath; None: there is none."""
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NOATIME, dir_fd=self.lower)
        except OSError:
            return None
        st = os.fstat(fd)
        known = self.files.get(st.st_ino)
        if known and os.fstat(known.fd).st_ino == st.st_ino:
            os.close(fd)
        else:
            known = self.files[st.st_ino] = File(fd, initial)
        known.names.add(path)
        self.look(known)
        return known

    def look(self, file):
        """Another state, if it holds something else than before."""
        size = os.fstat(file.fd).st_size
        data = b""
        while len(data) < size:
            more = os.pread(file.fd, size - len(data), len(data))
            if not more:
                break
            data += more
        if file.content != digest(data):
            self.log[-1:] = [f"{self.log[-1] if self.log else ''}  [{os.fstat(file.fd).st_ino % 10000} is {digest(data)[:6]}({size}) {sorted(file.names)}]"]
        file.content, file.size = digest(data), size
        for path in self.visible(file):
            line = self.lines[path]
            if not line or line[-1].content != file.content or line[-1].step is None:
                line.append(State(file.content, file.size, self.n))

    def visible(self, file):
        """Its names; the versions of one that has none any more are at the last one, until another file has that."""
        if file.names or not file.last_name or self.named(file.last_name):
            return list(file.names)
        return [file.last_name]

    def must(self, file, why, by=None):
        """What it holds now is to be a version of each of its names; by: the process that ends its use."""
        for path in file.names:
            if not is_ignored(path) and file.size <= self.max_bytes:
                line = self.lines[path]
                if not line or line[-1].content != file.content:
                    line.append(State(file.content, file.size, self.n))
                line[-1].must = line[-1].must or f"{why} at {self.n}"
                line[-1].may_mark |= file.part_by not in (None, by)

    # --- the ends of uses ---

    def before_change(self, file):
        if file and not file.changing and not file.mapped:
            self.must(file, "before a change")

    def ended(self, opened, by):
        """Its last descriptor or mapping has gone, closed by that process."""
        file = opened.file
        if opened.descriptors or opened.map:
            return
        if opened in file.changing:
            file.changing.discard(opened)
            self.look(file)
            if not opened.captured and file.changer is opened:
                self.must(file, "closed", by)

    def changed(self, opened, part_by=None):
        opened.captured = False
        opened.file.part_by = part_by
        opened.file.changer = opened
        opened.file.changing.add(opened)
        self.look(opened.file)

    def lose_name(self, file, path, why):
        """Before it is removed, or replaced."""
        if file:
            for opened in file.changing:
                opened.captured = True
            if file.changing or file.mapped:
                self.look(file)
            else:
                self.must(file, why)

    def drop_name(self, file, path):
        file.names.discard(path)
        file.last_name = path

    def freed(self, path):
        """No file has it any more: those that lost it are visible there again, with what they got meanwhile."""
        if not self.named(path):
            self.lines[path] += [State(file.content, file.size, self.n) for file in self.files.values()
                                 if not file.names and file.last_name == path]  # fmt: skip

    # --- steps ---

    def tell(self, worker, line, in_child=False):
        self.n += 1
        for file in [f for f in self.files.values() if f.mapped]:
            self.look(file)  # what was stored may come at any time
        result = self.workers[worker].tell(f"child {line}" if in_child else line)
        self.log.append(f"{self.n}: {worker}{'c' if in_child else ''} {line} -> {result}")
        for file in [f for f in self.files.values() if f.mapped]:
            self.look(file)
        return result

    def pick(self):
        """A worker, and whether its child is meant."""
        worker = self.random.randrange(len(self.workers))
        child = self.workers[worker].child is not None and self.random.random() < 0.4
        return worker, child

    def slots(self, worker, child):
        return self.workers[worker].child if child else self.workers[worker].slots

    def pick_open(self, wanted):
        """A descriptor of an open file that is wanted: (worker, child, slot, open)."""
        some = [(w, c, slot, opened) for w, worker in enumerate(self.workers)
                for c, slots in ((False, worker.slots), (True, worker.child or {}))
                for slot, opened in slots.items() if wanted(opened)]  # fmt: skip
        return self.random.choice(some) if some else None

    def path(self, ignored=0.15):
        return self.random.choice(IGNORED if self.random.random() < ignored else NAMES)

    def size(self):
        kind = self.random.random()
        if kind < 0.6:
            return self.random.randrange(1, 200)
        if kind < 0.9:
            return self.random.randrange(200, 70000)
        return self.random.randrange(70000, 400000)

    def seed(self):
        self.last_random += 1
        return self.last_random

    def named(self, path):
        return next((f for f in self.files.values() if path in f.names), None)

    def step_open(self):
        worker, child = self.pick()
        slots = self.slots(worker, child)
        free = [s for s in range(SLOTS) if s not in slots]
        if not free:
            return
        kind = self.random.choices(["w", "r", "a", "rw", "direct", "excl"], [5, 3, 2, 3, 1, 1])[0]
        flags = {"w": os.O_WRONLY | os.O_CREAT | os.O_TRUNC, "r": os.O_RDONLY, "a": os.O_WRONLY | os.O_CREAT | os.O_APPEND,
                 "rw": os.O_RDWR | os.O_CREAT, "direct": os.O_RDWR | os.O_CREAT | os.O_DIRECT,
                 "excl": os.O_WRONLY | os.O_CREAT | os.O_EXCL}[kind]  # fmt: skip
        self.open(worker, child, free[0], self.path(), flags)

    def open(self, worker, child, slot, path, flags):
        before = self.named(path)
        if before and flags & os.O_TRUNC and not flags & os.O_EXCL:
            self.before_change(before)
        if self.tell(worker, f"open {slot} {path} {flags}", child) < 0:
            return None
        file = self.find(path)
        mode = flags & os.O_ACCMODE
        opened = Open(file, path, mode != os.O_WRONLY, mode != os.O_RDONLY)
        opened.direct = bool(flags & os.O_DIRECT)
        opened.descriptors.add((worker, child, slot))
        self.slots(worker, child)[slot] = opened
        if before is None or flags & os.O_TRUNC:
            self.changed(opened)
        return opened

    def step_close(self):
        if found := self.pick_open(lambda opened: True):
            self.close(*found)

    def close(self, worker, child, slot, opened):
        assert self.tell(worker, f"close {slot}", child) == 0
        del self.slots(worker, child)[slot]
        opened.descriptors.discard((worker, child, slot))
        self.ended(opened, (worker, child))

    def step_write(self):
        found = self.pick_open(lambda opened: opened.writable)
        if not found:
            return
        worker, child, slot, opened = found
        size, seed = self.size(), self.seed()
        offset = self.random.choice([0, 0, self.random.randrange(0, max(1, opened.file.size + 10))])
        kind = self.random.choices(["write", "pwrite", "uring", "ftruncate", "fallocate"], [5, 5, 2, 2, 1])[0]
        if opened.direct and kind in ("write", "pwrite", "uring"):
            kind, size, offset = "pwrite", 4096 * self.random.randrange(1, 9), 4096 * self.random.randrange(0, 3)
        line = {"write": f"write {slot} {size} {seed}",
                "pwrite": f"pwrite {slot} {offset} {size} {seed}",
                "uring": f"uring {slot} {offset} {size} {seed}",
                "ftruncate": f"ftruncate {slot} {self.random.choice([0, offset, opened.file.size // 2])}",
                "fallocate": f"fallocate {slot} {self.random.choice([0, KEEP_SIZE | PUNCH_HOLE, ZERO_RANGE])} {offset} {size}",
                }[kind]  # fmt: skip
        if kind == "ftruncate" and opened.file.mapped:
            return  # a store behind the end kills the process
        self.before_change(opened.file)
        if self.tell(worker, line, child) >= 0:
            # a request that ends where a page does may be a part of a write(2); where "write" ends is not known here
            is_part = kind == "write" or kind in ("pwrite", "uring") and (offset + size) % 4096 == 0
            self.changed(opened, (worker, child) if is_part else None)

    def step_copy(self):
        source = self.pick_open(lambda opened: opened.readable)
        if not source:
            return
        worker, child, slot, opened = source
        others = [(s, o) for s, o in self.slots(worker, child).items() if o.writable and o.file is not opened.file
                  and not o.direct]  # fmt: skip
        if not others:
            return
        to, target = self.random.choice(others)
        if not opened.file.size:
            return
        self.before_change(target.file)
        offset = self.random.randrange(0, target.file.size + 1)
        if self.tell(worker, f"copy {slot} {to} 0 {offset} {min(opened.file.size, 100000)}", child) > 0:
            self.changed(target)

    def step_read(self):
        if found := self.pick_open(lambda opened: opened.readable and not opened.direct):
            worker, child, slot, opened = found
            self.tell(worker, f"pread {slot} 0 {self.random.choice([1, 100, 100000])}", child)
            self.look(opened.file)

    def step_truncate(self):
        path = self.path()
        file = self.named(path)
        if not file or file.mapped:
            return
        self.before_change(file)
        was_changing = bool(file.changing)
        length = self.random.choice([0, 7, file.size // 2, file.size + 100])
        if self.tell(self.pick()[0], f"truncate {path} {length}") == 0:
            self.look(file)
            file.changer = None
            if not was_changing:
                self.must(file, "truncated")

    def step_rename(self):
        old, new = self.path(), self.path()
        flags = self.random.choices([0, RENAME_NOREPLACE, RENAME_EXCHANGE], [6, 1, 2])[0]
        file, other = self.named(old), self.named(new)
        if not file or old == new or file is other:
            return
        if flags == RENAME_EXCHANGE or (other and flags == 0):
            self.lose_name(other, new, "replaced")
        if self.tell(self.pick()[0], f"rename {old} {new} {flags}") < 0:
            return
        if other and other is not file:
            self.drop_name(other, new)
        self.drop_name(file, old)
        self.move(file, old, new)
        if flags == RENAME_EXCHANGE:
            self.move(other, new, old)
        self.freed(old)

    def move(self, file, old, new):
        """A name without a past takes over that of the other."""
        line = self.lines[new]
        if not any(state.must for state in line):
            line += [State(s.content, s.size, s.step) for s in self.lines[old]]
        file.names.add(new)
        self.arrive(file, new)

    def arrive(self, file, path):
        """It has this name from now on, as it is."""
        state = State(file.content, file.size, self.n)
        self.lines[path].append(state)
        if not file.changing and not file.mapped and not is_ignored(path) and file.size <= self.max_bytes:
            state.must = f"named at {self.n}" if not file.initial else None
            file.initial = file.initial and not state.must

    def step_link(self):
        old, new = self.path(), self.path()
        file = self.named(old)
        if file and self.tell(self.pick()[0], f"link {old} {new}") == 0:
            file.names.add(new)
            self.arrive(file, new)

    def step_unlink(self):
        path = self.path()
        file = self.named(path)
        if not file:
            return
        self.lose_name(file, path, "removed")
        if self.tell(self.pick()[0], f"unlink {path}") == 0:
            self.drop_name(file, path)
            self.freed(path)

    def step_touch(self):
        path = self.path()
        self.tell(self.pick()[0], self.random.choice([f"touch {path}", f"chmod {path} 600", f"chmod {path} 644", f"label {path}"]))

    def step_tmpfile(self):
        """Without a name, until it is whole."""
        worker, child = self.pick()
        slots = self.slots(worker, child)
        free, path = [s for s in range(SLOTS) if s not in slots], self.path()
        if not free or self.named(path):
            return
        slot = free[0]
        if self.tell(worker, f"open {slot} . {os.O_TMPFILE | os.O_RDWR}", child) < 0:
            return
        self.tell(worker, f"write {slot} {self.size()} {self.seed()}", child)
        if self.tell(worker, f"linkfd {slot} {path}", child) < 0:
            self.tell(worker, f"close {slot}", child)
            return
        file = self.find(path)
        opened = Open(file, path, True, True)
        opened.descriptors.add((worker, child, slot))
        slots[slot] = opened
        self.changed(opened)
        if self.random.random() < 0.7:
            self.close(worker, child, slot, opened)

    def step_save(self):
        """As programs do: another file, which takes the name."""
        worker, path = self.pick()[0], self.path(0.1)
        slots = self.slots(worker, False)
        free = [s for s in range(SLOTS) if s not in slots]
        if not free:
            return
        temporary = self.random.choice([f"{path}.tmp{self.n}", f"sed{self.n}", f"{path}~"])
        opened = self.open(worker, False, free[0], temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        if not opened:
            return
        self.tell(worker, f"write {free[0]} {self.size()} {self.seed()}")
        self.changed(opened)
        way = self.random.choice(["close first", "rename first", "link"])
        if way == "close first":
            self.close(worker, False, free[0], opened)
        other = self.named(path)
        if way == "link" and not other:
            if self.tell(worker, f"link {temporary} {path}") == 0:
                opened.file.names.add(path)
                self.arrive(opened.file, path)
            self.tell(worker, f"unlink {temporary}")
            self.drop_name(opened.file, temporary)
        else:
            self.lose_name(other, path, "replaced")
            assert self.tell(worker, f"rename {temporary} {path} 0") == 0
            if other:
                self.drop_name(other, path)
            self.drop_name(opened.file, temporary)
            self.move(opened.file, temporary, path)
        if way != "close first":
            self.close(worker, False, free[0], opened)

    def step_map(self):
        found = self.pick_open(lambda opened: opened.readable and opened.writable and opened.file.size > 10
                               and not opened.map and not opened.direct)  # fmt: skip
        if not found:
            return
        worker, child, slot, opened = found
        if any(o.map and o.map[:3] == (worker, child, slot) for f in self.files.values() for o in f.changing):
            return
        length = opened.file.size
        self.before_change(opened.file)
        if self.tell(worker, f"map {slot} {length}", child) < 0:
            return
        opened.map = worker, child, slot
        opened.file.mapped += 1
        self.tell(worker, f"store {slot} {self.random.randrange(0, length - 5)} 5 {self.seed()}", child)
        self.changed(opened, opened.file.part_by)  # a store does not tell that a write is over
        if self.random.random() < 0.3:
            self.close(worker, child, slot, opened)
        if self.random.random() < 0.5:
            self.tell(worker, f"msync {slot}", child)
        self.tell(worker, f"unmap {slot}", child)
        self.look(opened.file)
        opened.map = None
        opened.file.mapped -= 1
        self.ended(opened, (worker, child))

    def step_fork(self):
        worker = self.workers[n := self.random.randrange(len(self.workers))]
        if worker.child is None:
            assert self.tell(n, "fork") == 0
            worker.child = dict(worker.slots)
            for slot, opened in worker.child.items():
                opened.descriptors.add((n, True, slot))
        else:
            self.join(n)

    def join(self, n):
        worker = self.workers[n]
        assert self.tell(n, "join") == 0
        for slot, opened in worker.child.items():
            opened.descriptors.discard((n, True, slot))
        ending, worker.child = worker.child, None
        for opened in ending.values():
            self.ended(opened, (n, True))

    KINDS = {"open": 12, "close": 10, "write": 14, "copy": 2, "read": 4, "truncate": 2, "rename": 4, "link": 2, "unlink": 3,
             "touch": 2, "tmpfile": 1, "save": 4, "map": 2, "fork": 1}  # fmt: skip

    def run(self, steps):
        kinds, weights = zip(*self.KINDS.items())
        end = self.n + steps
        while self.n < end:
            getattr(self, "step_" + self.random.choices(kinds, weights)[0])()

    def close_all(self):
        for n, worker in enumerate(self.workers):
            if worker.child is not None:
                self.join(n)
            for slot, opened in list(worker.slots.items()):
                self.close(n, False, slot, opened)

    def end(self):
        for worker in self.workers:
            worker.close()
        for file in self.files.values():
            os.close(file.fd)


class Version:
    def __init__(self, row):
        self.path, self.n, self.object, self.flags, self.size, self.source = row
        self.torn, self.content = bool(self.flags & 8), None

    def __repr__(self):
        what = self.content[:6] if self.content else "torn" if self.torn else "-"
        return f"@{self.n} {what}({self.size}) {self.source} {self.flags:#x}"


class Judge:
    def __init__(self, steps, sandbox, may_mark):
        """may_mark: what any close left may stand there marked as incomplete, whatever that holds."""
        self.steps, self.sandbox, self.may_mark = steps, sandbox, may_mark
        self.problems = []

    def fetch(self):
        """{name: versions}, each with the content that cat gives."""
        sql = f"SELECT path, n, object, flags, size, source FROM v_version WHERE path GLOB '{self.steps.top}/*' ORDER BY path, n"
        rows = json.loads(self.sandbox.shfs("select", sql, cwd="/", timeout=60).stdout)["rows"]
        found = collections.defaultdict(list)
        for row in rows:
            version = Version(row)
            found[os.path.relpath(version.path, self.steps.top)].append(version)
        for name, versions in found.items():
            with_bytes = [v for v in versions if v.object and not v.flags & (1 << 30)]
            for i in range(0, len(with_bytes), 100):
                part = with_bytes[i : i + 100]
                data = self.sandbox.shfs("cat", "--", *(f"{name}@{v.n}" for v in part), cwd=self.steps.top, timeout=60).stdout_bytes
                for version in part:
                    version.content, data = digest(data[: version.size]), data[version.size :]
                assert not data
        return found

    def judge(self):
        found = self.fetch()
        for name in sorted(self.steps.lines):
            if not is_ignored(name):
                self.name(name, found.get(name, []), self.steps.lines[name])
        return self.problems

    def complain(self, name, what, versions, line):
        first, last = (max(0, min(s.step for s in line) - 12), max(s.step for s in line) + 12) if line else (0, 0)
        around = "\n    ".join(self.steps.log[first:last])
        self.problems.append(f"{name}: {what}\n  versions: {versions}\n  line: {line}\n    {around}\n")

    def name(self, name, versions, line):
        """Each version in its place along the line; nothing left out on the way that must be there."""
        may_mark = {state.content for state in line if state.may_mark}
        found = [v for v in versions if v.content is not None and (self.may_mark or not v.torn or v.content in may_mark)]
        for what, at in align(found, line):
            near = line[max(at - 4, 0) : at + 5]
            if isinstance(what, State):
                self.complain(name, f"{what} is missing", versions, near)
            else:
                self.complain(name, f"{what} is not what it held then", versions, near)
        self.check_newest(name, versions, line)

    def check_newest(self, name, versions, line):
        file = self.steps.named(name)
        if file and versions and versions[-1].content and not versions[-1].torn and versions[-1].content != file.content:
            self.complain(name, f"the newest is {versions[-1]}, and it holds {file.content[:6]}", versions[-4:], line[-6:])


WRONG, MISSING = 10, 1


def align(versions, line):
    """The versions along the states of a line so that as little as possible is wrong: what is, each with where it is
    in the line. A version beside no state is wrong, a state that must have one and has none is missing."""
    best = [[(0, None)] * (len(line) + 1) for _ in range(len(versions) + 1)]  # the cost, and the step that led there
    for i in range(len(versions) + 1):
        last = versions[i - 1].content if i else None
        for k in range(len(line) + 1):
            ways = []
            if i and k and (line[k - 1].content == last or versions[i - 1].torn):
                ways.append((best[i - 1][k - 1][0], "match"))
                ways.append((best[i][k - 1][0], "again"))
            if k:
                missing = line[k - 1].must and line[k - 1].content != last
                ways.append((best[i][k - 1][0] + (MISSING if missing else 0), "missing" if missing else "again"))
            if i:
                twice = versions[i - 1].torn or (i > 1 and versions[i - 2].content == last)
                ways.append((best[i - 1][k][0] + (0 if twice else WRONG), "twice" if twice else "wrong"))
            if ways:
                best[i][k] = min(ways)
    i, k, problems = len(versions), len(line), []
    while i or k:
        how = best[i][k][1]
        if how == "wrong":
            problems.append((versions[i - 1], k))
        elif how == "missing":
            problems.append((line[k - 1], k - 1))
        i -= how in ("match", "wrong", "twice")
        k -= how in ("match", "again", "missing")
    return problems[::-1]
