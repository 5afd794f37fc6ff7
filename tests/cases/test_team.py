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
from test_trees import export, machines, record, work_on_both

assert machines  # a fixture

pytestmark = pytest.mark.users("ordinary")

SECRET = "hunter2-correct-horse"
# the columns of each view that the database has; keys: its order
VIEWS = {
    "v_session": "session_id", "v_command": "command_id", "v_definition": "command_id, position", "v_process": "process_id",
    "v_loose_process": "process_id", "v_exit": "process_id", "v_program": "program_id", "v_lookup": "lookup_id",
    "v_path": "file_id", "v_file": "file_id", "v_version": "version_id", "v_access": "access_id", "v_former": "access_id",
    "v_note": "note_id", "v_producer": "producer_id", "v_gap": "producer_id", "v_stats": "1", "v_left_out": "flags",
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


NOTES = ["the good one", "a note of\ntwo\tlines", "a\\b \\xff", "grün ☃", "not \udcff UTF-8", "'; DROP TABLE note; --"]
TAGS = ["fig2", "schön", "a'b", "\udcfe"]


def give_notes(sandbox, chance, times):
    """Gives notes and tags to commands and versions, replaces some of them, and takes others away."""
    targets = [c["id"] for c in json.loads(sandbox.shfs("history", "--json", "--all", cwd="/").stdout)["commands"] if c["id"]]
    versions = json.loads(sandbox.shfs("select", "SELECT path, n FROM v_version WHERE path LIKE '/%'", cwd="/").stdout)["rows"]
    targets = chance.sample(targets, min(len(targets), 4)) + [f"{path}@{n}" for path, n in chance.sample(versions, min(len(versions), 4))]
    for _ in range(times):
        target = chance.choice(targets)
        words = chance.choice([[target, "--", chance.choice(NOTES)], ["--tag", chance.choice(TAGS), target], ["--delete", target]])
        sandbox.shfs("note", *words, cwd="/", check=False)


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
    give_notes(sandbox, random.Random(1), 12)
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
    noted = [int(postgres.sql("SELECT count(*) FROM shfs.v_note WHERE command <> ''")[0]), int(postgres.sql("SELECT sum(noted) FROM shfs.v_command")[0])]
    assert noted[0] >= noted[1] > 0 != int(postgres.sql("SELECT count(*) FROM shfs.v_note WHERE command = ''")[0])
    give_notes(sandbox, random.Random(2), 8)
    publish(shfs, postgres)
    compare_all(sandbox, postgres)
    # a reindex numbers all anew, maybe
    shfs("reindex", cwd="/")
    publish(shfs, postgres)
    compare_all(sandbox, postgres)
    shfs("publish", "--remove", postgres.url(), cwd="/")
    assert not any(rows for view, rows in dump(postgres).items())
    assert postgres.sql("SELECT count(*) FROM shfs.piece") == ["0"]


# --- interrupted, and in any order ---


def in_store(sandbox, name):
    """From now on the sandbox has another store."""
    sandbox.store = sandbox.env["SHFS_STORE"] = f"{sandbox.home}/{name}-store"


@pytest.mark.parametrize("seed", seeds(2, an_hour=200))
def test_killed_at_any_point(sandbox, shfs, postgres, seed):
    chance = random.Random(seed)
    record(sandbox, *WORK, "for i in $(seq 400); do echo $i > many$i; done")
    url = postgres.url()
    for _ in range(8):
        process = sandbox.popen(["shfs", "publish", url], cwd="/")
        time.sleep(chance.uniform(0, 1.5))
        if chance.random() < 0.3:
            postgres.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'shfs'")
        else:
            process.send_signal(signal.SIGKILL)
        process.wait()
        if postgres.sql("SELECT 1 FROM pg_namespace WHERE nspname = 'shfs'"):
            # what a piece says is there
            for name in "access", "file", "version":
                said = postgres.sql(f"SELECT coalesce(sum(rows), 0) FROM shfs.piece WHERE name = '{name}'")
                assert said == postgres.sql(f"SELECT count(*) FROM shfs.{name}")
        if chance.random() < 0.5:
            record(sandbox, f"seq {chance.randrange(99)} > data.txt; cat many*1 data.txt > all.txt")
    sandbox.allow_exit(-signal.SIGKILL, 1)
    wait_for_nobody(postgres)
    publish(shfs, postgres)
    compare_all(sandbox, postgres)


def wait_for_nobody(postgres):
    """A server notices late that its client was killed; its lock goes with it."""
    postgres.sql("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = 'shfs'")


def test_the_connection_ends_midway(sandbox, shfs, postgres):
    record(sandbox, *WORK)
    # the server takes the connection away in the middle of a transaction
    publish(shfs, postgres, "-n")
    shfs("publish", "--prepare", postgres.url(), cwd="/")
    end = "CREATE FUNCTION public.cut() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NEW; END$$"
    postgres.sql(end)
    postgres.sql("CREATE TRIGGER cut BEFORE INSERT ON shfs.version FOR EACH ROW EXECUTE FUNCTION public.cut()")
    postgres.sql("GRANT pg_signal_backend TO ann")
    result = shfs("publish", postgres.url(), cwd="/", check=1)
    assert "the connection to the database was lost" in result.stderr
    assert postgres.sql("SELECT count(*) FROM shfs.file") != ["0"] == postgres.sql("SELECT count(*) FROM shfs.version")
    assert postgres.sql("SELECT published_ns FROM shfs.store") == [""]
    postgres.sql("DROP TRIGGER cut ON shfs.version")
    publish(shfs, postgres)
    compare_all(sandbox, postgres)
    # a later one, too, of which whoever asks learns
    assert not shfs("history", "--db", postgres.url(), cwd="/").stderr
    record(sandbox, "seq 9 > data.txt; cat data.txt > later.txt")
    postgres.sql("CREATE TRIGGER cut BEFORE INSERT ON shfs.version FOR EACH ROW EXECUTE FUNCTION public.cut()")
    shfs("publish", postgres.url(), cwd="/", check=1)
    said = shfs("history", "--db", postgres.url(), cwd="/").stderr
    assert "the store of ann on " in said and "is being published, or its publish was interrupted" in said
    postgres.sql("DROP TRIGGER cut ON shfs.version")
    publish(shfs, postgres)
    assert not shfs("history", "--db", postgres.url(), cwd="/").stderr


def test_stores_in_any_order(sandbox, shfs, postgres):
    names = [f"s{i}" for i in range(20 if os.environ.get("SHFS_TEST_SEEDS") else 5)]
    for i, name in enumerate(names):
        in_store(sandbox, name)
        record(sandbox, f"seq {i + 3} > {name}.txt; cat {name}.txt s*.txt > all.txt")
    dumps = []
    for order in names, names[::-1], random.Random(7).sample(names, len(names)):
        for name in order:
            in_store(sandbox, name)
            publish(shfs, postgres)
        dumps.append(dump(postgres))
        postgres.sql("DROP SCHEMA shfs CASCADE")
    assert dumps[0] == dumps[1] == dumps[2]
    assert len({row.split("|")[0] for row in dumps[0]["v_command"]}) == len(names)


# --- what was forgotten ---


def anywhere(postgres, text):
    """The tables that have a text in any row."""
    tables = postgres.sql("SELECT tablename FROM pg_tables WHERE schemaname = 'shfs'")
    digits = text.encode().hex()
    sql = "SELECT count(*) FROM shfs.{0} AS t WHERE t::text LIKE '%{1}%' OR t::text LIKE '%{2}%'"
    return [t for t in tables if postgres.sql(sql.format(t, text, digits)) != ["0"]]


def test_what_is_forgotten(sandbox, shfs, postgres):
    record(sandbox, *WORK[:2], f"echo {SECRET} > data.txt; cat data.txt {SECRET} 2>&1; echo x > {SECRET}", *WORK[3:])
    shfs("note", f"{sandbox.project}/data.txt@1", f"says {SECRET}", cwd="/")
    shfs("note", f"{sandbox.project}/data.txt@1", "--tag", "stays", cwd="/")
    publish(shfs, postgres)
    assert {"command", "process", "file", "note"} <= set(anywhere(postgres, SECRET))
    said = shfs("forget", "--yes", "--grep", SECRET, cwd="/").stderr
    assert f"still in what was published ({postgres.url()}): shfs publish removes it there" in said
    shfs("forget", "--yes", f"{sandbox.project}/{SECRET}", cwd="/", check=False)
    done = publish(shfs, postgres)
    assert done["removed"]
    assert not anywhere(postgres, SECRET) and anywhere(postgres, "stays") == ["note"]
    compare_all(sandbox, postgres)
    # a note that was replaced, or taken away, is there no more
    for words in ["an-old-word"], ["another-word"], ["-d"]:
        target = f"{sandbox.project}/moved.txt@1"
        shfs("note", *([*words, target] if words == ["-d"] else [target, *words]), cwd="/")
        publish(shfs, postgres)
        assert anywhere(postgres, "an-old-word") == (["note"] if words == ["an-old-word"] else [])
        assert anywhere(postgres, "another-word") == (["note"] if words == ["another-word"] else [])
    # what was published nowhere is not named
    shfs("publish", "--remove", postgres.url(), cwd="/")
    assert "published" not in shfs("forget", "--yes", "--grep", "seq", cwd="/").stderr


# --- who sees what ---


def test_each_role_sees_what_is_shared(sandbox, shfs, postgres):
    sandbox.mkdir(f"{sandbox.home}/other")
    sandbox.mkdir(f"{sandbox.project}/inner")
    sandbox.mount(f"{sandbox.project}/inner").unmount()  # a project in the project
    record(sandbox, "seq 5 > data.txt; echo q > q; mv q inner/q")
    mounts = sandbox.mount(), sandbox.mount(f"{sandbox.home}/other")
    shell = sandbox.shell()
    other = f"{sandbox.home}/other"
    for line in f"cp data.txt {other}/mine; : both", f"echo private > {other}/secret; : other", "cat data.txt > fig; : here", f"mv fig {other}/fig; : moved":
        shell.run(line)
    shell.close()
    for mount in mounts:
        mount.unmount()
    ids = {c["text"].rpartition("; : ")[2]: c["id"] for c in json.loads(shfs("history", "--json", "--all", cwd="/").stdout)["commands"] if c["id"]}
    targets = {"here": ids["here"], "other": ids["other"], "data": f"{sandbox.project}/data.txt@1", "secret": f"{other}/secret@1", "inner": f"{sandbox.project}/inner/q@1"}
    for name, target in targets.items():
        shfs("note", target, f"of {name}", cwd="/")
    publish(shfs, postgres)
    in_store(sandbox, "second")
    record(sandbox, "cat data.txt > again; : ben")
    shfs("note", f"{sandbox.project}/again", "of ben", cwd="/")
    publish(shfs, postgres, role="ben")

    def texts(role):
        return {line.rpartition("; : ")[2] for line in postgres.sql("SELECT text FROM shfs.v_command WHERE text LIKE '%; : %'", role)}

    def paths(role):
        return {os.path.relpath(p, sandbox.home) for p in postgres.sql("SELECT path FROM shfs.v_file WHERE directory = 0", role)}

    def notes(role):
        return {line.removeprefix("of ") for line in postgres.sql("SELECT text FROM shfs.v_note", role)}

    ann = {"both", "other", "here", "moved"}
    assert (texts("ann"), texts("ben"), texts("cyd")) == (ann, {"ben"}, set())
    assert (notes("ann"), notes("ben"), notes("cyd")) == (set(targets), {"ben"}, set())
    for view in [*VIEWS, "v_store", "v_use"]:
        assert postgres.sql(f"SELECT count(*) FROM shfs.{view}", "cyd") == ["0"], view
    # a project: its files and the commands that used it, and nothing of the other one
    postgres.sql(f"INSERT INTO shfs.share (root, role) VALUES ('{sandbox.project}', 'cyd')", "ann")
    assert texts("cyd") == {"both", "here", "moved"} and texts("ben") == {"ben"}
    assert notes("cyd") == {"here", "data"} and postgres.sql("SELECT sum(noted) FROM shfs.v_command", "cyd") == ["1"]
    assert all(path.startswith("project/") for path in paths("cyd")) and "project/data.txt" in paths("cyd")
    assert "project/inner/q" in paths("ann") and "project/inner/q" not in paths("cyd")
    used = postgres.sql("SELECT path FROM shfs.v_access UNION SELECT path2 FROM shfs.v_access WHERE path2 IS NOT NULL", "cyd")
    assert used and not [path for path in used if path.startswith((other, f"{sandbox.project}/inner/"))]
    assert set(postgres.sql("SELECT DISTINCT owner FROM shfs.v_use", "cyd")) == {"ann"}
    assert postgres.sql("SELECT count(*) FROM shfs.v_stats", "cyd") == ["0"]
    # all, to everybody
    postgres.sql("INSERT INTO shfs.share (root, role) VALUES ('', 'public')", "ben")
    assert texts("cyd") == {"both", "here", "moved", "ben"} and texts("ann") == ann | {"ben"}
    assert notes("cyd") == {"here", "data", "ben"} and notes("ann") == set(targets) | {"ben"}
    # who used this very content
    same = "SELECT object, size, phash FROM shfs.v_version WHERE path LIKE '%/project/data.txt' AND object IS NOT NULL"
    (data, size, phash), *_ = postgres.rows(same, "cyd")
    content = f"object = '{data}' OR object IS NULL AND size = {size} AND phash = {phash}"
    users = postgres.sql(f"SELECT DISTINCT owner, how FROM shfs.v_use WHERE {content} ORDER BY 1, 2", "cyd")
    assert users == ["ann|made", "ann|read", "ben|made", "ben|read"]
    # another content is not among them
    sums = postgres.sql(f"SELECT count(*) FROM shfs.v_use WHERE ({content}) AND path LIKE '%secret'", "ann")
    assert sums == ["0"]
    # nobody changes what is another's
    for table in "store", "tree", "share", "piece", "access", "command", "file":
        before = postgres.sql(f"SELECT count(*) FROM shfs.{table}")
        postgres.sql(f"DELETE FROM shfs.{table}", "cyd")
        assert postgres.sql(f"SELECT count(*) FROM shfs.{table}") == before
    for forged in (
        f"INSERT INTO shfs.share VALUES ('ann', '{other}', 'cyd')",
        "INSERT INTO shfs.left_out SELECT store_id, 0, 1 FROM shfs.store WHERE owner = 'ann'",
        "INSERT INTO shfs.store (store, owner, host) VALUES ('x', 'ann', 'h')",
    ):
        assert b"row-level security" in postgres.psql("-c", forged, role="cyd").stderr
    assert postgres.sql("UPDATE shfs.share SET root = '' RETURNING 1", "cyd") == []
    postgres.sql("DELETE FROM shfs.share", "ann")
    assert texts("cyd") == {"ben"}


def test_what_another_machine_recorded(machines, sandbox, shfs, postgres):
    """Its own store publishes that."""
    archive = work_on_both(machines, sandbox)
    publish(shfs, postgres)
    views = ("v_command", "text"), ("v_file", "path"), ("v_version", "object"), ("v_access", "op"), ("v_process", "argv"), ("v_session", "id")

    def texts():
        return [sorted(postgres.sql(f"SELECT {column} FROM shfs.{view}")) for view, column in views]

    before = texts()
    shfs("import", archive, cwd="/")
    assert "hostb:/" in shfs("history", "--json", "--all", cwd="/").stdout
    hers = [c["id"] for c in json.loads(shfs("history", "--json", "--all", cwd="/").stdout)["commands"] if c["id"] and c["host"] == "hostb"]
    shfs("note", hers[0], "of hers", cwd="/")
    shfs("note", f"hostb:{sandbox.project}/fig.txt@1", "of hers", cwd="/")
    publish(shfs, postgres)
    assert texts() == before and not anywhere(postgres, "hostb") and not anywhere(postgres, "of hers")
    # but what she notes of ours is ours
    archive = export(sandbox, "a")
    machines.go("hostb")
    shfs("import", archive, cwd="/")
    shfs("note", f"hosta:{sandbox.project}/fig.txt@1", "of his", cwd="/")
    archive = export(sandbox, "b")
    machines.go("hosta")
    shfs("import", archive, cwd="/")
    publish(shfs, postgres)
    assert postgres.sql("SELECT path, text, host FROM shfs.v_note") == [f"{sandbox.project}/fig.txt|of his|hostb"]


# --- bad input ---


def test_what_is_refused(sandbox, shfs, postgres):
    record(sandbox, "echo x > file")

    def refused(url, status=1):
        result = shfs("publish", url, cwd="/", check=status)
        assert len(result.stderr.splitlines()) <= 2, result.stderr
        return result.stderr

    assert "begins with postgresql://" in refused("/mnt/lab", 2)
    said = refused(postgres.url().replace("ann@", f"ann:{SECRET}@"), 2)
    assert ".pgpass" in said and SECRET not in said
    said = refused(f"{postgres.url()}&password={SECRET}", 2)
    assert ".pgpass" in said and SECRET not in said
    assert "not the URL" in refused("postgresql:///lab?nonsense=1", 2)
    assert "cannot connect" in refused(f"postgresql:///lab?host={sandbox.home}")
    assert "cannot connect" in refused(postgres.url(database="nowhere"))
    assert "cannot connect" in refused(postgres.url("nobody"))
    assert "permission denied" in refused(postgres.url("ben"))
    postgres.sql("CREATE DATABASE narrow ENCODING 'SQL_ASCII' TEMPLATE template0 LOCALE 'C'", database="postgres")
    assert "UTF8" in refused(postgres.url(database="narrow"))
    postgres.sql("CREATE SCHEMA shfs")
    assert "not of shfs" in refused(postgres.url())
    postgres.sql("CREATE TABLE shfs.schema (version int); GRANT USAGE ON SCHEMA shfs TO PUBLIC")
    assert "not of shfs" in refused(postgres.url())
    postgres.sql("DROP SCHEMA shfs CASCADE")
    shfs("publish", "--prepare", postgres.url(), cwd="/")
    # now anybody may publish
    publish(shfs, postgres, role="ben")
    postgres.sql("UPDATE shfs.schema SET version = 999")
    for args in (), ("-n",), ("--remove",):
        result = shfs("publish", *args, postgres.url(), cwd="/", check=1)
        assert "999" in result.stderr and "upgrade shfs" in result.stderr
    assert "not go together" in shfs("publish", "-n", "--remove", postgres.url(), cwd="/", check=2).stderr
    # a password is in a file that only the user can read, and nowhere else
    everything = b"".join(open(os.path.join(top, n), "rb").read() for top, _, ns in os.walk(sandbox.store) for n in ns)
    assert SECRET.encode() not in everything


def test_what_an_older_shfs_published_is_removed(sandbox, shfs, postgres):
    """Also by a shfs that knows newer tables: they had a secret. What others have there stays."""
    record(sandbox, *WORK, f": {SECRET}")
    publish(shfs, postgres)
    publish(shfs, postgres, role="ben")
    postgres.sql("DROP TABLE shfs.note CASCADE; UPDATE shfs.schema SET version = 2")
    assert "shfs publish removes it there" in shfs("forget", "--yes", "--grep", SECRET, cwd="/").stderr
    for args in (), ("-n",):
        said = shfs("publish", *args, postgres.url(), cwd="/", check=1).stderr
        assert "version 2" in said and "shfs publish --remove" in said
    tables = postgres.sql("SELECT table_name FROM information_schema.columns JOIN information_schema.tables USING (table_schema, table_name)"
                          " WHERE table_schema = 'shfs' AND table_type = 'BASE TABLE' AND column_name = 'store_id'")

    def rows():
        return {owner: sum(int(postgres.sql(f"SELECT count(*) FROM shfs.{table} WHERE store_id IN"
                                            f" (SELECT store_id FROM shfs.store WHERE owner = '{owner}')")[0]) for table in tables) for owner in ("ann", "ben")}

    before = rows()
    ids = ",".join(postgres.sql("SELECT store_id FROM shfs.store WHERE owner = 'ann'"))
    assert before["ann"] == before["ben"] > 50
    assert "removed" in shfs("publish", "--remove", postgres.url(), cwd="/").stdout
    assert rows() == before | {"ann": 0}
    assert not any(int(postgres.sql(f"SELECT count(*) FROM shfs.{table} WHERE store_id IN ({ids})")[0]) for table in tables)
    # before that, there were other tables
    postgres.sql("UPDATE shfs.schema SET version = 1")
    said = shfs("publish", "--remove", postgres.url("ben"), cwd="/", check=1).stderr
    assert "version 1" in said and "DROP SCHEMA" in said and "--remove" not in said


def test_two_at_once(sandbox, shfs, postgres):
    record(sandbox, *WORK)
    publish(shfs, postgres)
    held = "SELECT pg_advisory_lock(1936221811, store_id), pg_sleep(30) FROM shfs.store"
    other = sandbox.popen(["psql", "-X", "-h", postgres.path, "-U", "ann", "lab", "-c", held], cwd="/")
    sandbox.allow_exit(2)
    while postgres.sql("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == ["0"]:
        time.sleep(0.05)
    assert "another publish" in shfs("publish", postgres.url(), cwd="/", check=1).stderr
    postgres.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'ann'")
    other.wait()
    assert publish(shfs, postgres)["sent"] == 0
