# SPDX-License-Identifier: MIT
"""What one command made of a file in a row is one entry: of log, of the completion, of the preview of search."""

import json
import random
import re

import pytest

from harness import seeds
from screens import PROGRAM, Screen

pytestmark = pytest.mark.either

LOOP = "i=0; while [ $i -lt {n} ]; do echo $i.$i >> f; i=$((i + 1)); done"
LINES = [
    *(LOOP.format(n=n) for n in (1, 2, 3, 4, 17)),
    "i=0; while [ $i -lt 4 ]; do rm -f f; echo $i > f; i=$((i + 1)); done",
    "i=0; while [ $i -lt 4 ]; do echo $i > f; mv f g; i=$((i + 1)); done; mv g f",
    "i=0; while [ $i -lt 5 ]; do echo $i > new; mv new f; i=$((i + 1)); done",
    "rm -f f",
    "mv f g; mv g f",
    "echo 1 > f; echo 1 > f; echo 1 > f",
    "echo a > f; echo b > f",
]


def versions(sandbox, *args):
    return json.loads(sandbox.shfs("log", "--json", *args, "f").stdout)["versions"]


def marked(sandbox):
    """Versions that were removed, or came back, before the next one was made."""
    found, other = set(), False
    for line in sandbox.shfs("log", "--all", "f").stdout.splitlines():
        if head := re.match(r"f@(\d+) ", line):
            if other:
                found.add(int(head[1]))
            other = False
        elif not line.startswith(" "):
            other = True
    return found


def folded(listed, kept_apart):
    """What is to be shown of the versions of a document: (newest, oldest, how many)."""
    groups, last = [], None
    for v in listed:
        maker = v["command"] and v["command"]["id"]
        kind = None if v["carried"] or v["incomplete"] or not maker else (maker, v["not_archived"])
        if groups and kind and kind == last and v["n"] not in kept_apart:
            groups[-1].append(v["n"])
        else:
            groups.append([v["n"]])
        last = kind
    entries = []
    for ns in groups:
        entries += [(ns[0], ns[-1], len(ns))] if len(ns) > 2 else [(n, n, 1) for n in ns]
    return entries


def shown(text):
    entries = []
    for line in text.splitlines():
        if head := re.match(r"f@(\d+) ", line):
            entries.append((int(head[1]), int(head[1]), 1))
        elif fold := re.match(r"    (\d+) versions, from @(\d+)  \d{4}-", line):
            entries[-1] = entries[-1][0], int(fold[2]), int(fold[1])
    return entries


@pytest.mark.parametrize("seed", seeds(2, 200))
def test_log_folds(sandbox, work, seed):
    """As the document, which is complete, says."""
    chance = random.Random(seed)
    for line in chance.choices(LINES, k=12):
        work.run(line)
    work.run(LOOP.format(n=9))
    listed = versions(sandbox)
    assert [v["n"] for v in listed] == list(range(len(listed), 0, -1))
    wanted = folded(listed, marked(sandbox))
    assert any(n >= 9 for _, _, n in wanted)
    assert shown(sandbox.shfs("log", "f").stdout) == wanted
    assert shown(sandbox.shfs("log", "--reverse", "f").stdout) == wanted[::-1]
    for limit in 1, 2, len(wanted):
        assert shown(sandbox.shfs("log", "-n", limit, "f").stdout) == wanted[:limit]
        assert [v["n"] for v in versions(sandbox, "-n", limit)] == [v["n"] for v in listed[:limit]]
    assert len(shown(sandbox.shfs("log", "--all", "f").stdout)) == len(listed)


def test_log_of_a_loop(sandbox, work):
    """One entry, with its first and last version, the number, and what all of it added."""
    work.run("echo before > f")
    work.run(LOOP.format(n=60))
    lines = sandbox.shfs("log", "f").stdout.splitlines()
    size = len("before\n") + sum(len(f"{i}.{i}\n") for i in range(60))
    assert lines[0].startswith("f@61 ") and lines[0].endswith(f"  {size} B  +{size - 7} B")
    assert lines[1].startswith("    60 versions, from @2 ") and "while [ $i -lt 60 ]" in lines[2]
    assert lines[3].startswith("f@1 ") and len(lines) == 5
    assert sandbox.shfs("log", "f@31").stdout.splitlines()[1].startswith("    30 versions, from @2 ")
    assert sandbox.shfs("log", "-p", "f").stdout.count("\n+++ ") == 61  # a patch is of one version


def test_what_is_not_archived_is_not_hidden(sandbox, shell):
    """A version within the loop of which nothing was kept."""
    config = sandbox.write_outside(f"{sandbox.home}/.config/shfs/config.ini", "[archive]\nmax-size = 1000\n")
    sandbox.mount(None, "--config", config)
    shell().run(f"cd {sandbox.project}; for n in 1 2 3 5000 4 5 6; do head -c $n /dev/zero > f; done")
    text = sandbox.shfs("log", "f").stdout
    assert "not archived: larger" in text and [n for _, _, n in shown(text)] == [3, 1, 3]


def test_completion_folds(sandbox, work):
    def offered(word):
        lines = sandbox.shfs("complete", "--", "cat", word).stdout.splitlines()
        return [tuple(line.split("\t")) for line in lines if not line.startswith(":")]

    work.run("echo before > f")
    work.run(LOOP.format(n=60))
    work.run("echo after > f")
    sandbox.shfs("log", "f")  # a completion reads the index as it is
    found = offered("f@")
    assert [n for n, _ in found] == ["62", "61", "2", "1"]
    assert ["(60 versions) i=0" in meaning for _, meaning in found] == [False, True, True, False]
    assert [n for n, _ in offered("f@3")] == [str(n) for n in (*range(39, 29, -1), 3)]


def test_preview_folds(sandbox, work):
    """So that what came before a loop is in sight."""
    work.run("echo before > f")
    work.run(LOOP.format(n=60))
    work.run("echo after > f")
    sandbox.shfs("sync")
    t = Screen(sandbox, PROGRAM, "search", "-f", rows=40, columns=140)
    t.type("f")
    t.expect("f@62", "60 versions, from @2 ", "f@1 ", "-before")
    assert "f@60 " not in t.text()
    t.type("\x1b")
    t.end()
