# SPDX-License-Identifier: MIT
"""shfs publish: a team's index in PostgreSQL has the rows of the local one, however it was interrupted, and each role sees
what was shared with it and nothing else."""

import json
import os
import random
import signal
import time

import pytest

from harness import seeds
from postgres import Postgres
from test_trees import record

pytestmark = pytest.mark.users("ordinary")

SECRET = "hunter2-correct-horse"
# the columns of each view that the database has; keys: its order
VIEWS = {
    "v_session": "session_id", "v_command": "command_id", "v_definition": "command_id, position", "v_process": "process_id",
    "v_loose_process": "process_id", "v_exit": "process_id", "v_program": "program_id", "v_lookup": "lookup_id",
    "v_path": "file_id", "v_file": "file_id", "v_version": "version_id", "v_access": "access_id", "v_former": "access_id",
    "v_producer": "producer_id", "v_gap": "producer_id", "v_stats": "1", "v_left_out": "flags",
}  # fmt: skip
# of these the database has bytes
BYTES = {"definition", "argv", "streams", "environment", "list", "data", "object_key"}


@pytest.fixture
def postgres(sandbox):
    it = Postgres(sandbox)
    yield it
    it.close()


def publish(shfs, postgres, *args, role="ann", **options):
    return json.loads(shfs("publish", "--json", *args, postgres.url(role), cwd="/", **options).stdout)


def escaped(data):
    """A text as the database has it."""
    try:
        text = data.decode("utf-8")
        if "\0" not in text:
            return text
    except UnicodeDecodeError:
        pass
    return "".join(f"\\x{c:02x}" if not c or c >= 0x80 else "\\\\" if c == 0x5C else chr(c) for c in data)


def shown(name, view, value):
    if not isinstance(value, str):
        return value
    data = value.encode("utf-8", "surrogateescape")
    if name in BYTES:
        return f"\\x{data.hex()}"
    return escaped(data)


def columns(postgres, view):
    sql = f"SELECT column_name FROM information_schema.columns WHERE table_schema = 'shfs' AND table_name = '{view}' ORDER BY ordinal_position"
    return postgres.sql(sql)


def compare_all(sandbox, postgres, role="ann"):
    """Each row of each view is the local one. Returns how many there are."""
    count = 0
    for view, keys in VIEWS.items():
        names = columns(postgres, view)
        assert names.pop() == "store_id"
        order = "1" if keys == "1" else keys
        # what is no text there comes in digits
        picked = ", ".join(f"hex({n}) AS {n}" if n == "object_key" or n in BYTES else n for n in names)
        local = json.loads(sandbox.shfs("select", f"SELECT {picked} FROM {view} ORDER BY {order}", cwd="/").stdout)["rows"]
        for row in local:
            for i, name in enumerate(names):
                if name in BYTES and row[i] is not None:
                    row[i] = f"\\x{row[i].lower()}"
                else:
                    row[i] = shown(name, view, row[i])
        there = postgres.rows(f"SELECT {', '.join(names)} FROM shfs.{view} ORDER BY {order}", role)
        # hex() of NULL is ''
        null = [[None if v == "\\x" else v for v in row] for row in there]
        assert null == [[None if v == "\\x" else v for v in row] for row in local], view
        count += len(local)
    return count


def dump(postgres):
    """All rows of all stores, but for the numbers of stores and trees."""
    found = {"share": sorted(postgres.sql("SELECT * FROM shfs.share"))}
    for view in VIEWS:
        names = [n for n in columns(postgres, view) if n != "store_id"]
        sql = f"SELECT s.store, {', '.join('v.' + n for n in names)} FROM shfs.{view} v JOIN shfs.store s USING (store_id)"
        found[view] = sorted(postgres.sql(sql))
    return found


WORK = [
    "seq 30 > data.txt; sort -r data.txt > fig.txt", "mkdir sub; cp fig.txt sub/copy.txt; mv sub/copy.txt moved.txt",
    "x=$(printf 'odd\\377\\\\name\\n\\t'); echo 1 > \"$x\"; cat \"$x\" > 'b\\x41'", "echo grün > grün; cat grün | tr a-z A-Z > up",
    "ln -s data.txt link; cat link > /dev/null; rm fig.txt", "false", "python3 -c 'print(1)' > made; chmod 600 made",
]  # fmt: skip


def test_rows_are_the_local_ones(sandbox, shfs, postgres):
    record(sandbox, *WORK)
    would = publish(shfs, postgres, "-n")
    assert not postgres.sql("SELECT 1 FROM pg_namespace WHERE nspname = 'shfs'"), "a dry run made the schema"
    done = publish(shfs, postgres)
    assert done["sent"] == would["sent"] == done["rows"] > 50 and not done["removed"]
    assert compare_all(sandbox, postgres) > 50
    again = publish(shfs, postgres)
    assert again["sent"] == again["removed"] == 0 and again["rows"] == done["rows"]
    # what comes later changes little else
    record(sandbox, "echo later > later.txt; cat data.txt later.txt > both.txt")
    would, done = publish(shfs, postgres, "-n"), publish(shfs, postgres)
    assert (would["sent"], would["removed"]) == (done["sent"], done["removed"])
    compare_all(sandbox, postgres)
    # a reindex numbers all anew, maybe
    shfs("reindex", cwd="/")
    publish(shfs, postgres)
    compare_all(sandbox, postgres)
    shfs("publish", "--remove", postgres.url(), cwd="/")
    assert not any(rows for view, rows in dump(postgres).items())
    assert postgres.sql("SELECT count(*) FROM shfs.piece") == ["0"]
