# SPDX-License-Identifier: MIT
"""--db URL: commands ask a team's database, and answer as they do of the local index: what the role sees, and nothing else."""

import contextlib
import json
import os
import random
import re
import shutil
import signal
import sqlite3
import time

import pytest

import harness
from harness import seeds
from postgres import Postgres
from test_team import SECRET, WORK, give_notes, in_store, publish, wait_for_nobody
from test_trees import machines, record, work_on_both

assert machines  # a fixture

pytestmark = pytest.mark.users("ordinary")


@pytest.fixture
def postgres(sandbox):
    it = Postgres(sandbox)
    yield it
    it.close()


def answer(sandbox, url, *args, cwd=None, **options):
    """What a command says, of the database at the URL, or here."""
    args = [args[0], "--db", url, *args[1:]] if url else args
    result = sandbox.shfs(*args, check=False, cwd=cwd, timeout=120, **options)
    return result.status, result.stdout, result.stderr


def compare(sandbox, url, *args, cwd=None):
    here, there = (answer(sandbox, u, *args, cwd=cwd) for u in (None, url))
    assert there == here, args
    return here


def cache_of(sandbox):
    return f"{sandbox.home}/.cache/shfs/db"


def mirrors(sandbox):
    return [top for top, _, names in os.walk(cache_of(sandbox)) for name in names if name.startswith("mirror.db")]


def in_cache(sandbox, text):
    """The files of the cache that have a text anywhere."""
    files = [os.path.join(top, name) for top, _, names in os.walk(cache_of(sandbox)) for name in names]
    assert any(name.endswith("mirror.db") for name in files)
    found = []
    for name in files:
        with open(name, "rb") as data:
            if text.encode() in data.read():
                found.append(name)
    return found


def paths_of(sandbox):
    rows = json.loads(sandbox.shfs("select", "SELECT path FROM v_file WHERE directory = 0", cwd="/").stdout)["rows"]
    return [row[0] for row in rows]


# --- the same answers ---


def some_work(chance, places):
    """Lines of work on a few files, whose names and contents meet again."""
    def name():
        name = chance.choice(["a", "b.txt", "c", "grün", "with blank", "d/e", "x\\x41"])
        return f"'{chance.choice(places)}/{name}'"

    ways = [
        lambda: f"seq {chance.randrange(1, 9)} > {name()}",
        lambda: f"cat {name()} {name()} > {name()}",
        lambda: f"cp {name()} {name()}",
        lambda: f"cp -p {name()} {name()}",
        lambda: f"mv {name()} {name()}",
        lambda: f"sort {name()} | uniq | tee {name()} > /dev/null",
        lambda: f"rm -f {name()}",
        lambda: f"ln -f {name()} {name()}",
        lambda: f"ln -sf {name()} {name()}",
        lambda: f"chmod {chance.choice(['600', '644', '755'])} {name()}",
        lambda: f"for f in {name()} {name()}; do wc -l \"$f\" >> {name()}; done",
        lambda: f"printf 'raw \\377\\\\xff' > \"$(printf '{chance.choice(places)}/odd\\377\\\\\\\\n')\"",
        lambda: f"echo 'a \\xff b' | sh -c 'cat {name()} - > {name()}'".replace("'", '"', 0),
        lambda: f"grep -c 1 {name()}",
        lambda: f"(cd '{chance.choice(places)}' && mkdir -p d && touch d/e; false)",
        lambda: f"truncate -s {chance.randrange(9)} {name()}",
        lambda: f"python3 -c \"open({name()}, 'a').write('{chance.randrange(3)}')\"",
    ]
    return [chance.choice(ways)() for _ in range(chance.randrange(25, 45))]


@pytest.mark.parametrize("seed", seeds(2, an_hour=40))
def test_answers_are_the_local_ones(sandbox, shfs, postgres, seed):
    chance = random.Random(seed)
    places = [sandbox.project, f"{sandbox.home}/other", f"{sandbox.project}/inner"]
    for place in places[1:]:
        sandbox.mkdir(place)
    for place in places:
        sandbox.mkdir(f"{place}/d")
    url, count = postgres.url(), 0
    for part in range(2):
        mounts = [sandbox.mount(place) for place in chance.sample(places[:2], 2)]
        shell = sandbox.shell()
        for line in some_work(chance, places):
            shell.run(line)
        shell.close()
        for mount in mounts:
            mount.unmount()
        give_notes(sandbox, chance, 12)
        if part and chance.random() < 0.5:
            shfs("reindex", cwd="/")
        publish(shfs, postgres)
        paths = paths_of(sandbox)
        some = chance.sample(paths, min(len(paths), 7))
        ids = [c["id"] for c in json.loads(shfs("history", "--json", cwd="/").stdout)["commands"] if "id" in c]
        asked = [
            ("history", "--all"), ("history", "--all", "--json"), ("history", places[0]), ("history", "--json", places[1]),
            ("history", "--failed"), ("history", "--name", "*.txt", "--json"), ("history", "--here", "-n", "5"),
            ("history", "--command", chance.choice(ids), "--json"), ("history", "--within", chance.choice(ids)),
            ("history", "--since", "1 hour ago", "--regex", "c[ap]"), ("history", "nowhere"), ("stats",), ("stats", "--json"),
            ("stats", "--json", places[1]), ("why", "--json", "nowhere"), ("history", "--size", "2..9", "--json"),
        ]  # fmt: skip
        for path in some:
            asked += [("history", "--read", path), ("history", "--wrote", path, "--json"), ("log", path), ("log", "--all", "--json", path)]
            asked += [("why", path), ("why", "--json", path), ("why", "--json", "--all", f"{path}@1"), ("why", "--from", places[1], path)]
            asked += [("impact", path), ("impact", "--json", path), ("impact", "--json", f"{path}@1"), ("why", "--dot", "--programs", path)]
            asked += [("history", "--content", path, "--json"), ("log", "--patch", path)]
        noted = json.loads(shfs("note", "--json", cwd="/").stdout)["notes"]
        asked += [("log", "--json", "--all", path) for path in {one["path"] for one in noted if one["path"]}]
        found = [compare(sandbox, url, *args, cwd=places[0]) for args in asked]
        texts = {one["note"] for one in noted} - {None}
        answers = "".join(out for args, (_, out, _) in zip(asked, found, strict=True) if "--json" in args)
        assert texts and all(json.dumps(text, ensure_ascii=False)[1:-1] in answers for text in texts)
        count += sum(status == 0 for status, _, _ in found)
    assert count > 80, count


def test_what_is_new_is_read(sandbox, shfs, postgres):
    """And nothing else: the server's log says what was asked."""
    url = postgres.url()
    postgres.sql("ALTER ROLE ann SET log_statement = 'all'")

    def copies():
        said = re.findall(r"COPY \(SELECT .* FROM shfs\.(\w+) WHERE .* BETWEEN (\d+) AND (\d+)", postgres.said())
        return [(table, int(first)) for table, first, _ in said]

    record(sandbox, *WORK, "for i in $(seq 1500); do echo $i > many$i; done", "for i in $(seq 1500); do read x < many$i; done")
    publish(shfs, postgres)
    compare(sandbox, url, "history", "--json")
    first = copies()
    assert {table for table, _ in first} >= {"command", "process", "file", "version", "access"}
    compare(sandbox, url, "history", "--json")
    compare(sandbox, url, "log", "--json", f"{sandbox.project}/data.txt")
    assert copies() == first
    mirror, = (os.path.join(cache_of(sandbox), name, "mirror.db") for name in os.listdir(cache_of(sandbox)))
    assert os.stat(mirror).st_mode & 0o777 == 0o600 and os.stat(os.path.dirname(mirror)).st_mode & 0o777 == 0o700
    record(sandbox, "echo later > later.txt; cat data.txt later.txt > both.txt")
    publish(shfs, postgres)
    compare(sandbox, url, "history", "--json")
    compare(sandbox, url, "why", f"{sandbox.project}/both.txt")
    later = copies()[len(first):]
    assert later
    # not from the first key on
    begin = dict(first)
    assert all(key > begin[table] for table, key in later if table in ("access", "version")), (later, begin)
    # another role has a cache of its own
    assert answer(sandbox, postgres.url("cyd"), "history", "--json")[0] == 3
    assert len(os.listdir(cache_of(sandbox))) == 2


@pytest.mark.parametrize("seed", seeds(2, an_hour=100))
def test_killed_in_the_fetch(sandbox, shfs, postgres, seed):
    chance = random.Random(seed)
    url = postgres.url()
    record(sandbox, *WORK, "for i in $(seq 400); do echo $i > many$i; done")
    publish(shfs, postgres)
    for _ in range(8):
        process = sandbox.popen(["shfs", "history", "--db", url], cwd="/")
        time.sleep(chance.uniform(0, 1.2))
        if chance.random() < 0.3:
            postgres.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'shfs'")
        else:
            process.send_signal(signal.SIGKILL)
        process.wait()
        if chance.random() < 0.4:
            record(sandbox, f"seq {chance.randrange(99)} > data.txt; cat many*1 data.txt > all.txt")
            publish(shfs, postgres)
        if chance.random() < 0.2:
            shutil.rmtree(cache_of(sandbox), ignore_errors=True)
    sandbox.allow_exit(-signal.SIGKILL, 1)
    wait_for_nobody(postgres)
    compare(sandbox, url, "history", "--json", "--all")
    compare(sandbox, url, "why", "--json", f"{sandbox.project}/moved.txt")


def test_the_database_is_made_anew(sandbox, shfs, postgres):
    url = postgres.url()
    record(sandbox, *WORK)
    publish(shfs, postgres)
    compare(sandbox, url, "history", "--json")
    postgres.sql("DROP SCHEMA shfs CASCADE")
    status, _, said = answer(sandbox, url, "history")
    assert status == 6 and "nothing of shfs" in said
    assert not mirrors(sandbox)
    record(sandbox, "seq 3 > data.txt; sort data.txt > new.txt")
    publish(shfs, postgres)
    compare(sandbox, url, "history", "--json")
    compare(sandbox, url, "why", f"{sandbox.project}/new.txt")
    assert mirrors(sandbox)
    postgres.sql("UPDATE shfs.schema SET version = 1")
    status, _, said = answer(sandbox, url, "history")
    assert status == 1 and "version" in said and not mirrors(sandbox)


# --- who sees what ---


def test_a_role_sees_what_is_shared(sandbox, shfs, postgres):
    other, nowhere = f"{sandbox.home}/other", {"SHFS_STORE": f"{sandbox.home}/nowhere"}
    sandbox.mkdir(other)
    mounts = sandbox.mount(), sandbox.mount(other)
    shell = sandbox.shell()
    for line in (
        "seq 5 > data.txt; : here", f"cp data.txt {other}/mine; : both", f"echo {SECRET} > {other}/{SECRET}; : other",
        "cat data.txt > fig; : here", f"mv fig {other}/gone; : moved", f"cat {other}/mine data.txt > sum; : into",
    ):  # fmt: skip
        shell.run(line)
    shell.close()
    for mount in mounts:
        mount.unmount()
    publish(shfs, postgres)
    in_store(sandbox, "second")
    record(sandbox, "cat data.txt > again; : ben", "sort -r again > back; : ben")
    publish(shfs, postgres, role="ben")
    url = postgres.url("cyd")

    def texts():
        status, out, _ = answer(sandbox, url, "history", "--all", "--json", cwd="/", env=nowhere)
        if status == 3:
            return []
        assert status == 0
        return sorted(c["text"].rpartition("; : ")[2] for c in json.loads(out)["commands"] if "; : " in c.get("text", ""))

    def expected():
        rows = postgres.sql("SELECT text FROM shfs.v_command WHERE text LIKE '%; : %'", "cyd")
        return sorted(line.rpartition("; : ")[2] for line in rows)

    def everything():
        """All texts of all rows that the role sees, of every view."""
        views = postgres.sql("SELECT viewname FROM pg_views WHERE schemaname = 'shfs'")
        return "".join(line for v in views for line in postgres.sql(f"SELECT x::text FROM shfs.{v} x", "cyd"))

    assert texts() == expected() == []
    # a project
    postgres.sql(f"INSERT INTO shfs.share (root, role) VALUES ('{sandbox.project}', 'cyd')", "ann")
    assert texts() == expected() and {"here", "both", "into"} <= set(texts()) and "other" not in texts()
    host, = set(postgres.sql("SELECT DISTINCT host FROM shfs.v_store"))
    log = answer(sandbox, url, "log", "--json", f"{sandbox.project}/data.txt", cwd="/", env=nowhere)
    assert log[0] == 0 and len(json.loads(log[1])["versions"]) == 1
    assert answer(sandbox, url, "log", f"{other}/mine", cwd="/", env=nowhere)[0] == 3
    why = json.loads(answer(sandbox, url, "why", "--json", f"{sandbox.project}/sum", cwd="/", env=nowhere)[1])
    assert not [v for v in why["versions"] if v["path"].startswith(other)]
    # what no view shows is not in the cache, and the search would find it there
    seen = everything()
    for text in SECRET, "; : other", "sort -r again":
        assert text not in seen and text.encode().hex() not in seen and not in_cache(sandbox, text), text
    assert in_cache(sandbox, "cat data.txt > fig")
    # all of another's, who has recorded the same paths
    postgres.sql("INSERT INTO shfs.share (root, role) VALUES ('', 'public')", "ben")
    assert texts() == expected() and texts().count("ben") == 2
    again = f"{host}.ben:{sandbox.project}/again"
    why = json.loads(answer(sandbox, url, "why", "--json", again, cwd="/", env=nowhere)[1])
    assert {c["text"] for c in why["commands"]} == {"cat data.txt > again; : ben"}
    assert answer(sandbox, url, "log", f"{sandbox.project}/again", cwd="/", env=nowhere)[0] == 3
    # who used this very file
    used = answer(sandbox, url, "history", "--json", "--content", f"{sandbox.project}/data.txt", cwd="/", env=nowhere)
    used = {c["text"].rpartition("; : ")[2] for c in json.loads(used[1])["commands"]}
    assert {"ben", "here"} <= used
    # no more
    postgres.sql("DELETE FROM shfs.share", "ann")
    assert set(texts()) == {"ben"} and not in_cache(sandbox, "cat data.txt > fig")
    postgres.sql("DELETE FROM shfs.share", "ben")
    assert texts() == [] and not in_cache(sandbox, "data.txt")


def test_another_machine(machines, sandbox, shfs, postgres):
    """Its paths are those of an import."""
    archive = work_on_both(machines, sandbox)
    publish(shfs, postgres)
    alone = answer(sandbox, None, "history", "--json", "--all", cwd="/")
    shfs("import", archive, cwd="/")
    imported = answer(sandbox, None, "history", "--json", "--all", cwd="/")
    assert imported != alone
    # as hostb would have published it
    machines.go("hostb")
    publish(shfs, postgres, role="ben")
    postgres.sql("INSERT INTO shfs.share (root, role) VALUES ('', 'public')", "ben")
    machines.go("hosta")
    path = f"hostb:{sandbox.project}/fig.txt"
    for args in ("history", "--json", "--all"), ("why", "--json", path), ("impact", path), ("log", "--json", path):
        compare(sandbox, postgres.url(), *args, cwd="/")

    def stats(url):
        """Files of one size may be in another order."""
        found = json.loads(answer(sandbox, url, "stats", "--json", cwd="/")[1])
        return {key: sorted(map(str, v)) if isinstance(v, list) else v for key, v in found.items()}

    assert stats(postgres.url()) == stats(None)


# --- what is no more ---


def test_what_is_forgotten(sandbox, shfs, postgres):
    url = postgres.url()
    record(sandbox, *WORK[:2], f"echo {SECRET} > data.txt; cat data.txt {SECRET} 2>&1; echo x > {SECRET}", *WORK[3:])
    publish(shfs, postgres)
    compare(sandbox, url, "history", "--json")
    assert in_cache(sandbox, SECRET)
    shfs("forget", "--yes", "--grep", SECRET, cwd="/")
    assert not mirrors(sandbox)
    shfs("forget", "--yes", f"{sandbox.project}/{SECRET}", cwd="/", check=False)
    publish(shfs, postgres)
    compare(sandbox, url, "history", "--json")
    assert not in_cache(sandbox, SECRET) and in_cache(sandbox, "moved.txt")
    # a note that is replaced, and taken away
    for words in ["an-old-word"], ["another-word"], []:
        target = f"{sandbox.project}/moved.txt@1"
        shfs("note", *([target, *words] if words else ["-d", target]), cwd="/")
        publish(shfs, postgres)
        out = compare(sandbox, url, "log", "--json", f"{sandbox.project}/moved.txt")[1]
        for word in "an-old-word", "another-word":
            assert bool(in_cache(sandbox, word)) == (word in out) == (words == [word])
    shfs("publish", "--remove", url, cwd="/")
    status, _, said = answer(sandbox, url, "history", "--json", "--all", cwd="/")
    assert status == 3 and "this role" in said
    assert not in_cache(sandbox, "moved.txt")


# --- a damaged cache ---


def test_a_damaged_cache(sandbox, shfs, postgres):
    """It is made anew: at once where that is seen while it is brought up to date, else by the next ask."""
    url = postgres.url()
    record(sandbox, *WORK, "for i in $(seq 300); do echo $i > many$i; done")
    publish(shfs, postgres)
    here = compare(sandbox, url, "history", "--all", "--json")
    name, = os.listdir(cache_of(sandbox))
    path = f"{cache_of(sandbox)}/{name}/mirror.db"
    size = os.path.getsize(path)
    for part, (offset, length) in enumerate([(0, 4096), (0, 100), (4096, size - 4096), (4096, 4096), (size // 2, size // 2)]):
        with open(path, "r+b") as data:
            data.seek(offset)
            data.write(b"\xa5" * length)
        postgres.sql("UPDATE shfs.store SET changes = changes + 1; UPDATE shfs.piece SET hash = hash + 1")
        said = answer(sandbox, url, "history", "--all", "--json")
        if part < 3:
            assert said == here, (part, said[2])
        elif said != here:
            assert said[0] == 1 and not said[1] and "ask again" in said[2] and "reindex" not in said[2]
            assert answer(sandbox, url, "history", "--all", "--json") == here


# --- numbers ---


def mirror_sql(sandbox, sql):
    """Runs statements in the one mirror, and returns the rows of the last one."""
    name, = os.listdir(cache_of(sandbox))
    with contextlib.closing(sqlite3.connect(f"{cache_of(sandbox)}/{name}/mirror.db")) as db:
        for statement in sql.split(";"):
            rows = db.execute(statement).fetchall()
        db.commit()
    return rows


def test_numbers_do_not_run_out(sandbox, shfs, postgres):
    """A store keeps its numbers, however often it changes, and those of one that is gone are of use again."""
    env, url = {"SHFS_STORE": f"{sandbox.home}/nowhere"}, postgres.url("cyd")
    rooms = "SELECT store_id, base, room FROM m_store ORDER BY base"
    record(sandbox, *WORK)
    publish(shfs, postgres)
    postgres.sql(f"INSERT INTO shfs.share (root, role) VALUES ('{sandbox.project}', 'cyd')", "ann")
    assert answer(sandbox, url, "history", cwd="/", env=env)[0] == 0
    before = mirror_sql(sandbox, rooms)
    assert len(before) == 1
    for part in range(3):
        postgres.sql("UPDATE shfs.store SET changes = changes + 1")
        assert answer(sandbox, url, "history", cwd="/", env=env)[0] == 0
        assert mirror_sql(sandbox, rooms) == before
        # not shared, and shared again
        postgres.sql("DELETE FROM shfs.share", "ann")
        assert answer(sandbox, url, "history", cwd="/", env=env)[0] == 3 and mirror_sql(sandbox, rooms) == []
        whole = "" if part else sandbox.project
        postgres.sql(f"INSERT INTO shfs.share (root, role) VALUES ('{whole}', 'cyd')", "ann")
        assert answer(sandbox, url, "history", cwd="/", env=env)[0] == 0
        assert mirror_sql(sandbox, rooms) == before
    # all numbers behind it are taken
    tables = [name for name, in mirror_sql(sandbox, "SELECT name FROM sqlite_schema WHERE type = 'table' AND name <> 'm_store'")]
    mirror_sql(sandbox, "".join(f"DELETE FROM {name};" for name in tables) + f"UPDATE m_store SET base = {2 ** 31} - room, mark = ''")
    expected = answer(sandbox, url, "history", "--all", "--json", cwd="/", env=env)
    assert expected[0] == 0 and mirror_sql(sandbox, rooms)[0][1] > 2 ** 30
    in_store(sandbox, "second")
    record(sandbox, "echo 1 > bens; : ben")
    publish(shfs, postgres, role="ben")
    postgres.sql("INSERT INTO shfs.share (root, role) VALUES ('', 'public')", "ben")
    status, out, said = answer(sandbox, url, "history", "--all", "--json", cwd="/", env=env)
    assert status == 0 and not said
    texts = {c.get("text") for c in json.loads(out)["commands"]}
    assert texts > {c.get("text") for c in json.loads(expected[1])["commands"]} and "echo 1 > bens; : ben" in texts
    assert [base for _, base, _ in mirror_sql(sandbox, rooms)][0] == 0 and len(mirror_sql(sandbox, rooms)) == 2


# --- what cannot be ---

# what ben may do to the rows of his own store
BAD = {
    "operation": "UPDATE shfs.access SET op = 'eat'",
    "negative": "UPDATE shfs.version SET file_id = -1",
    "huge": "UPDATE shfs.producer SET producer_id = 3000000000",
    "many": "UPDATE shfs.access SET process_id = 2000000000",
    "zero": "UPDATE shfs.session SET session_id = 0 WHERE store_id = {ben}; UPDATE shfs.piece SET first = 0 WHERE name = 'session'",
    # which would be shown as they are
    "command's id": "UPDATE shfs.command SET id = E'\\e[31mred0123456789'",
    "upper case": "UPDATE shfs.command SET id = upper(id)",
    "session's id": "UPDATE shfs.session SET id = E'\\e]0;title\\a123456'",
    "command's session": "UPDATE shfs.command SET session = E'\\e]0;title\\a'",
    "source": "UPDATE shfs.version SET source = E'\\e[31mred'",
    "content": "UPDATE shfs.version SET object = E'\\e[31mred' || object",
    "note's command": "UPDATE shfs.note SET command = E'\\e[31mred' WHERE command <> ''",
    "note of another's file": "UPDATE shfs.note SET path = 'hosta:/x' WHERE command = ''",
    "twice": "INSERT INTO shfs.command SELECT * FROM shfs.command WHERE store_id = {ben} LIMIT 1",
    "negative piece": "UPDATE shfs.piece SET first = first - 1000000 WHERE name = 'file'",
    "long piece": "UPDATE shfs.piece SET last = last + 100000 WHERE name = 'file'",
    "endless piece": "UPDATE shfs.piece SET last = 9223372036854775807 WHERE name = 'access'",
}


def spoil(postgres, sql):
    ben, = postgres.sql("SELECT store_id FROM shfs.store WHERE owner = 'ben'")
    sql = sql.replace("{ben}", ben)
    if sql.startswith("UPDATE"):
        sql += f"{' AND' if ' WHERE ' in sql else ' WHERE'} store_id = {ben}"
    postgres.sql(f"{sql}; UPDATE shfs.piece SET hash = hash + 1 WHERE store_id = {ben};"
                 f" UPDATE shfs.store SET changes = changes + 1 WHERE store_id = {ben}", "ben")


def two_stores(sandbox, shfs, postgres):
    """ann's and ben's, whose rows end with '; : ben'. Returns where no store is."""
    record(sandbox, *WORK)
    publish(shfs, postgres)
    in_store(sandbox, "second")
    record(sandbox, "echo 1 > bens; : ben", "cat bens > bens2; : ben")
    shfs("note", f"{sandbox.project}/bens@1", "of bens", cwd="/")
    ben = {c["text"]: c["id"] for c in json.loads(shfs("history", "--json", "--all", cwd="/").stdout)["commands"]}
    shfs("note", ben["echo 1 > bens; : ben"], "of ben", cwd="/")
    publish(shfs, postgres, role="ben")
    for role in "ann", "ben":
        postgres.sql("INSERT INTO shfs.share (root, role) VALUES ('', 'public')", role)
    return {"SHFS_STORE": f"{sandbox.home}/nowhere"}


@pytest.mark.parametrize("known", [False, True] if harness.ALL else [True])
def test_one_store_is_left_out(sandbox, shfs, postgres, known):
    """That of who publishes what shfs does not; all others are asked as before."""
    env, url = two_stores(sandbox, shfs, postgres), postgres.url("cyd")

    def ask():
        status, out, said = answer(sandbox, url, "history", "--all", "--json", cwd="/", env=env)
        assert status == 0, said
        texts = sorted(c["text"] for c in json.loads(out)["commands"] if c.get("text", "exit") != "exit")
        return [t for t in texts if not t.endswith(": ben")], [t for t in texts if t.endswith(": ben")], said

    anns, bens, said = ask()
    assert len(anns) >= len(WORK) and len(bens) == 2 and not said
    for bad, sql in BAD.items():
        if known:
            assert ask() == (anns, bens, "")
        else:
            shutil.rmtree(cache_of(sandbox))
        spoil(postgres, sql)
        mine, his, said = ask()
        assert (mine, his) == (anns, []), bad
        assert "the store of ben is left out: it has rows that shfs did not publish" in said
        assert not in_cache(sandbox, "bens2"), bad
        # as before, once that is mended
        shfs("publish", "--remove", postgres.url("ben"), cwd="/")
        publish(shfs, postgres, role="ben")
    assert ask() == (anns, bens, "")


def test_nobody_gives_notes_to_commands_of_others(sandbox, shfs, postgres):
    """ben may publish that his note is about ann's commands, and that his command is one of hers: her notes are as before."""
    record(sandbox, "echo 1 > anns; : ann", "cat anns; : too")
    anns = {c["text"]: c["id"] for c in json.loads(shfs("history", "--json", "--all", cwd="/").stdout)["commands"]}
    bare, noted = anns["cat anns; : too"], anns["echo 1 > anns; : ann"]
    shfs("note", noted, "of ann", cwd="/")
    env, url = two_stores(sandbox, shfs, postgres), postgres.url("cyd")

    def notes():
        commands = json.loads(answer(sandbox, url, "history", "--all", "--json", cwd="/", env=env)[1])["commands"]
        return {c["text"].rpartition("; : ")[2]: c["note"] for c in commands if c["id"] and "; : " in c["text"] and "bens >" not in c["text"]}

    assert notes() == {"ann": "of ann", "too": None, "ben": "of ben"}
    for theirs in bare, noted:
        spoil(postgres, f"UPDATE shfs.note SET command = '{theirs}' WHERE command <> ''")
        assert notes() == {"ann": "of ann", "too": None, "ben": None} and in_cache(sandbox, "of ben")
    for theirs in bare, noted:
        spoil(postgres, f"UPDATE shfs.command SET id = '{theirs}' WHERE text LIKE 'echo 1%'")
        spoil(postgres, f"UPDATE shfs.note SET command = '{theirs}' WHERE command <> ''")
        assert notes() == {"ann": "of ann", "too": None, "ben": "of ben"}


def test_two_commands_of_one_id(sandbox, shfs, postgres):
    """ben publishes a command that has the id of ann's: neither is shown for the other, and each is called by where it ran."""
    record(sandbox, "echo 1 > anns; : ann")
    env, url = two_stores(sandbox, shfs, postgres), postgres.url("cyd")
    commands = json.loads(answer(sandbox, url, "history", "--all", "--json", cwd="/", env=env)[1])["commands"]
    [hers] = [c["id"] for c in commands if c["text"] == "echo 1 > anns; : ann"]
    questions = [(word, f"{sandbox.project}/anns@{{{hers}}}") for word in ("log", "why", "impact")]
    before = [answer(sandbox, url, *question, cwd="/", env=env) for question in questions]
    assert all(not status and "anns" in out for status, out, _ in before), before
    spoil(postgres, f"UPDATE shfs.command SET id = '{hers}' WHERE text LIKE 'echo 1%'")
    for cwd in None, sandbox.project, f"hosta:{sandbox.project}", "hosta", "":
        if cwd is not None:
            spoil(postgres, f"UPDATE shfs.command SET cwd = '{cwd}'")
        for question in questions:
            status, out, said = answer(sandbox, url, *question, cwd="/", env=env)
            assert status == 3 and not out and f"several commands say that their id is {hers}" in said, question
            lines = said.splitlines()[1:]
            assert len(lines) == 2 and sum("echo 1 > anns; : ann" in line and f" in {sandbox.project}" in line for line in lines) == 1, lines
            assert sum("echo 1 > bens; : ben" in line and (".ben:" in line or cwd == "") for line in lines) == 1, lines
        assert "is the beginning of several commands" in answer(sandbox, url, "why", f"{sandbox.project}/anns@{{{hers[:9]}}}", cwd="/", env=env)[2]
    shfs("publish", "--remove", postgres.url("ben"), cwd="/")
    assert [answer(sandbox, url, *question, cwd="/", env=env) for question in questions] == before


def test_what_is_refused(sandbox, shfs, postgres):
    url = postgres.url()
    record(sandbox, *WORK)
    status, _, said = answer(sandbox, url, "history", cwd="/")
    assert status == 6 and "nothing of shfs" in said
    publish(shfs, postgres)
    compare(sandbox, url, "history")
    assert answer(sandbox, "/mnt/lab", "history", cwd="/")[0] == 2
    status, _, said = answer(sandbox, url.replace("ann@", f"ann:{SECRET}@"), "stats", cwd="/")
    assert status == 2 and ".pgpass" in said and SECRET not in said
    status, out, said = answer(sandbox, url, "stats", "--store", cwd="/")
    assert status == 2 and not out and "contents" in said
    # a content that is not here
    nowhere = {"SHFS_STORE": f"{sandbox.home}/nowhere"}
    status, _, said = answer(sandbox, url, "log", "--patch", f"{sandbox.project}/data.txt", cwd="/", env=nowhere)
    assert status and "data.txt" in said and "damage" not in said
    # a store that is there, and cannot be used
    sandbox.mkdir(f"{sandbox.home}/odd")
    sandbox.write(f"{sandbox.home}/odd/format", "99\n")
    status, out, said = answer(sandbox, url, "history", cwd="/", env={"SHFS_STORE": f"{sandbox.home}/odd"})
    assert status == 6 and not out and "cannot use the store" in said
    # rows that nobody published, and nothing else
    postgres.sql("UPDATE shfs.access SET op = 'eat'; UPDATE shfs.store SET changes = changes + 1; UPDATE shfs.piece SET hash = 1")
    status, out, said = answer(sandbox, url, "history", cwd="/")
    assert status == 1 and not out and "did not publish" in said
    assert not in_cache(sandbox, "moved.txt")
    # no stale answer
    postgres.stop()
    status, out, said = answer(sandbox, url, "history", cwd="/")
    assert status == 1 and not out and "cannot connect to the database" in said
    postgres.start()
