# SPDX-License-Identifier: MIT
"""The order of writes and syncs of a recording process, by what strace tells of it: when a record is
appended to the journal, all that it names is durable under its name."""

import os
import re
import struct
import subprocess
from collections import defaultdict, namedtuple

from powercut import TOOLS

CALLS = "openat,write,pwrite64,fsync,fdatasync,syncfs,linkat,mkdirat,renameat,renameat2,ftruncate,unlinkat"
FRAME = struct.Struct("<4sI16sBBBBIQ")  # of a pack; docs/objects.md
DELTA, SOLID = 2, 3
PACK_HEAD = 8

Call = namedtuple("Call", "name args result begin end")
Write = namedtuple("Write", "begin end first behind")
Piece = namedtuple("Piece", "path first behind base")  # where an object lies, and what it is a delta of


def strace(output, argv):
    """What runs a program under it."""
    return ["strace", "-f", "-qq", "-y", "-s", "256", "-o", output, "-e", f"trace={CALLS}", *argv]


def calls(path):
    """Those that succeeded, each with the numbers of the lines where it began and ended."""
    pending = {}
    with open(path, encoding="utf-8", errors="surrogateescape") as lines:
        for n, line in enumerate(lines):
            pid, _, text = line.rstrip("\n").partition(" ")
            text, begin = text.lstrip(), n
            if text.endswith(" <unfinished ...>"):
                pending[pid] = text.removesuffix(" <unfinished ...>"), n
                continue
            if resumed := re.match(r"<\.\.\. \w+ resumed>", text):
                text, begin = pending[pid][0] + text[resumed.end() :], pending.pop(pid)[1]
            if done := re.fullmatch(r"(\w+)\((.*)\)\s+= (\d+)(<.*)?", text):
                yield Call(done[1], done[2], done[3] + (done[4] or ""), begin, n)


def fd_path(text):
    """Of "7</a/b>"."""
    found = re.match(r"(?:\d+|AT_FDCWD)<(.*?)>", text)
    return found[1] if found else ""


def named(text):
    """Of '7</a>, "b"': /a/b."""
    directory, name = re.match(r'((?:\d+|AT_FDCWD)(?:<.*?>)?), "(.*?)"', text).groups()
    return os.path.normpath(os.path.join(fd_path(directory), name))


class Order:
    """What a trace tells of the files below a store."""

    def __init__(self, trace, store):
        self.store = store
        self.writes, self.syncs, self.made = defaultdict(list), defaultdict(list), {}
        self.size = defaultdict(int)
        self.unnamed, self.file_of = {}, {}  # fd: path of a file without a name; name: path that it had before
        for call in calls(trace):
            getattr(self, f"on_{call.name}", lambda call: None)(call)

    def on_write(self, call):
        path, n = fd_path(call.args), int(call.result)
        self.writes[path].append(Write(call.begin, call.end, self.size[path], self.size[path] + n))
        self.size[path] += n

    def on_fsync(self, call):
        self.syncs[fd_path(call.args)].append(call)

    on_fdatasync = on_fsync

    def on_openat(self, call):
        if "O_TMPFILE" in call.args:
            self.unnamed[call.result.partition("<")[0]] = fd_path(call.result)
        elif "O_CREAT" in call.args:
            self.made.setdefault(fd_path(call.result), call)

    def on_mkdirat(self, call):
        self.made[named(call.args)] = call

    def on_linkat(self, call):
        old, new = re.match(r"(.*?\".*?\"), (.*)", call.args).groups()
        new = named(new)
        self.made[new] = call
        found = re.search(r"/proc/self/fd/(\d+)", old)
        self.file_of[new] = self.unnamed[found[1]] if found else named(old)

    def on_ftruncate(self, call):
        self.size[fd_path(call.args)] = int(call.args.rpartition(", ")[2])

    # --- what is durable before a line ---

    def is_synced(self, path, after, before):
        return any(after < sync.begin and sync.end < before for sync in self.syncs[path])

    def has_name(self, path, before):
        """What is not durable of its name; or None."""
        while path.startswith(self.store):
            made, parent = self.made.get(path), os.path.dirname(path)
            if made and not self.is_synced(parent, made.end, before):
                return f"the name {os.path.relpath(path, self.store)}"
            path = parent
        return None

    def has_bytes(self, piece, before):
        path = self.file_of.get(piece.path, piece.path)
        writes = [w for w in self.writes[path] if w.first < piece.behind and w.behind > piece.first]
        if not writes:
            return f"the bytes of {piece.path}, which nobody wrote,"
        if not self.is_synced(path, max(w.end for w in writes), before):
            return f"bytes {piece.first} to {piece.behind} of {os.path.relpath(piece.path, self.store)}"
        return None


def pieces(store):
    """{object: where it lies}, of all packs and loose ones."""
    found = {}
    for where, _, names in os.walk(f"{store}/objects"):
        for name in names:
            path = os.path.join(where, name)
            if name.endswith(".pack"):
                found.update(frames(path))
            elif not name.endswith(".idx"):
                found[os.path.basename(where) + name] = Piece(path, 0, os.path.getsize(path), None)
    return found


def object_name(digest, nth):
    return digest.hex() + (f"-{nth}" if nth else "")


def frames(path):
    with open(path, "rb") as file:
        data = file.read()
    at = PACK_HEAD
    while at < len(data):
        magic, _, digest, kind, nth, _, base_nth, stored, _ = FRAME.unpack_from(data, at)
        assert magic == b"\xd5shf", f"{path} has no frame at {at}"
        head = FRAME.size + (20 if kind == DELTA else 0)
        base = object_name(data[at + FRAME.size :][:16], base_nth) if kind == DELTA else None
        names = [object_name(digest, nth)]
        if kind == SOLID:
            [count] = struct.unpack("<I", digest[:4])
            entries = (struct.unpack_from("<16sB", data, at + head + 21 * n) for n in range(count))
            names = [object_name(*entry) for entry in entries]
        for name in names:
            yield name, Piece(path, at, at + head + stored, base)
        at += head + stored


def check(trace, store):
    """(records that name an object, what was appended too early)."""
    order, where, problems, count = Order(trace, store), pieces(store), [], 0
    listed = subprocess.run([f"{TOOLS}/journal_tool", store], check=True, capture_output=True, text=True).stdout
    for line in listed.splitlines():
        segment, behind, name, state = line.split()
        assert state == "whole", line
        path = next(p for p in order.writes if os.path.basename(p) == segment)
        # its frame: the first write that reaches so far
        append = next(w for w in order.writes[path] if w.behind >= int(behind))
        count += 1
        wrong = order.has_name(path, append.begin)
        while not wrong and name:
            piece = where[name]
            wrong = order.has_bytes(piece, append.begin) or order.has_name(piece.path, append.begin)
            name = piece.base
        if wrong:
            problems.append(f"{segment} at {behind}: {wrong} is not durable")
    return count, problems
