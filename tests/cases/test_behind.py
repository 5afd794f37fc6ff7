# SPDX-License-Identifier: MIT
"""An index that is behind the journal: who looks is answered at once, and told so; who goes by the
answer waits."""

import contextlib
import glob
import json
import os
import re
import sqlite3

import pytest

pytestmark = pytest.mark.users("ordinary")

BEHIND = "the index is not up to date: this answer lacks"


@pytest.fixture
def mounted(sandbox):
    del sandbox.env["SHFS_INDEX_WAIT"]
    sandbox.write("in", "x\n")
    mounted = sandbox.mount()
    sandbox.sh("cat in > out")
    sandbox.shfs("sync")
    yield mounted
    mounted.unmount()


@contextlib.contextmanager
def somebody_writes(sandbox):
    """As the ingest of another does, which takes long."""
    with contextlib.closing(sqlite3.connect(f"{sandbox.store}/index.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield


def ask(sandbox, *command):
    """(the document, what was said)."""
    done = sandbox.shfs(*command, "--json")
    return json.loads(done.stdout), done.stderr


def test_who_looks_does_not_wait(sandbox, mounted):
    with somebody_writes(sandbox):
        sandbox.sh("cat in in > out")
        for command in ("log", "out"), ("history", "--all"), ("search", "in"), ("status",), ("why", "out"), ("stats",):
            document, said = ask(sandbox, *command)
            assert document["incomplete"] is True and BEHIND in said, command
        document, _ = ask(sandbox, "log", "out")
        assert [version["n"] for version in document["versions"]] == [1]
    for command in ("log", "out"), ("history", "--all"), ("search", "in"), ("status",), ("why", "out"), ("stats",):
        document, said = ask(sandbox, *command)
        assert "incomplete" not in document and BEHIND not in said, command
    document, _ = ask(sandbox, "log", "out")
    assert sorted(version["n"] for version in document["versions"]) == [1, 2]


@pytest.mark.parametrize("command", ["cat out", "stale", "restore -n out@1", "sync"])
def test_who_goes_by_the_answer_waits(sandbox, mounted, command):
    told = f"{sandbox.path}/told"
    with somebody_writes(sandbox):
        sandbox.sh("cat in in > out")
        asked = sandbox.popen(["sh", "-c", f"exec shfs {command} >{told} 2>&1"])
        sandbox.shfs("log", "out")
        assert asked.poll() is None
    assert asked.wait(60) == 0
    said = open(told, encoding="ascii").read()
    assert BEHIND not in said and (command != "cat out" or said == "x\nx\n")


def test_what_is_lacking_is_counted(sandbox, mounted):
    """Also of segments that are sealed, and so of no size that is known."""
    sandbox.sh("for i in $(seq 300); do echo $i > f$i; done")
    mounted.unmount()
    assert glob.glob(f"{sandbox.store}/journal/*/*.zst")
    for path in glob.glob(f"{sandbox.store}/index.db*"):
        os.unlink(path)
    sandbox.env["SHFS_INDEX_WAIT"] = "0"
    said = sandbox.shfs("log", "out", check=False).stderr
    assert re.search(rf"{BEHIND} \d+(\.\d+)? (B|bytes|KiB) of the journal", said), said


def test_a_little_at_a_time(sandbox, mounted):
    """Who has no time takes in a little all the same, and it comes to its end."""
    sandbox.sh("for i in 1 2 3 4 5; do cat in >> out; done")
    sandbox.env["SHFS_INDEX_WAIT"] = "0"
    counts = []
    for _ in range(300):
        document, said = ask(sandbox, "log", "out")
        counts.append(len(document["versions"]))
        assert ("incomplete" in document) == (BEHIND in said)
        if "incomplete" not in document:
            break
    assert counts == sorted(counts) and len(set(counts)) > 2
    assert counts[-1] == 6


def test_what_it_may_be(sandbox, mounted):
    sandbox.env["SHFS_INDEX_WAIT"] = "soon"
    assert 'SHFS_INDEX_WAIT is neither a number of milliseconds nor "all": soon' in sandbox.shfs("log", "out").stderr
