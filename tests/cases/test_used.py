# SPDX-License-Identifier: MIT
"""What each process has used, and how it ended, where the driver is told by the kernel; beside what the programs say of
themselves, in bounds that say no time. Elsewhere, nothing is said of it."""

import contextlib
import json
import re
import sqlite3

import pytest

from harness import ids_of

pytestmark = [pytest.mark.backends, pytest.mark.either]

# Burns time, holds memory, and says into a file what it has used.
BURN = """import resource, sys, time
memory = b"x" * (100 << 20)
begin = time.process_time()
while time.process_time() < begin + 0.2:
    pass
used = resource.getrusage(resource.RUSAGE_SELF)
print(used.ru_utime + used.ru_stime, used.ru_maxrss, file=open(sys.argv[1], "w"))
sys.exit(int(sys.argv[2]))
"""


ENDS = re.compile(r"(  |^ +)[0-9.]+ m?s, [0-9.]+ [KMG]iB(, status \d+)?$", re.M)


@pytest.fixture
def told(backend):
    return backend not in ("fuse", "fanotify")


@pytest.fixture
def bash(sandbox, shell):
    sandbox.write_outside(f"{sandbox.home}/burn.py", BURN)
    sandbox.sh("seq 99 > in")
    sandbox.mount()
    return shell()


def processes(sandbox, text):
    """{argv: [exit]} of the command, and what is shown of it."""
    (command,) = ids_of(sandbox, text)
    found = {}
    for process in json.loads(sandbox.shfs("show", "--json", command).stdout)["processes"]:
        found.setdefault(" ".join(process["argv"]), []).append(process.get("exit"))
    return found, sandbox.shfs("show", command).stdout


def rows(sandbox):
    """How many records the journal has, and rows the index, of uses, processes and their ends."""
    with contextlib.closing(sqlite3.connect(f"{sandbox.store}/index.db")) as index:
        return index.execute("SELECT (SELECT sum(records) FROM producer), (SELECT accesses FROM state),"
                             " (SELECT count(*) FROM process), (SELECT count(*) FROM task_exit)").fetchone()


def test_what_each_process_of_a_command_has_used(sandbox, bash, told):
    line = "for n in 0 3; do /usr/bin/python3 ~/burn.py used$n $n & done; sort in > sorted; wait"
    bash.run(line)
    found, shown = processes(sandbox, line)
    if not told:
        assert not any(end for ends in found.values() for end in ends) and not ENDS.search(shown), shown
        return
    for n in 0, 3:
        seconds, rss_kib = map(float, sandbox.read(f"used{n}").split())
        (end,) = [end for argv, ends in found.items() if argv.endswith(f"used{n} {n}") for end in ends]
        used_us = end["user_us"] + end["system_us"]
        assert end["status"] == n and seconds * 5e5 <= used_us <= seconds * 2e6 + 1e5, (end, seconds)
        assert rss_kib / 1.2 <= end["max_rss_kib"] <= rss_kib * 1.2, (end, rss_kib)
    (end,) = found["sort in"]
    assert end["status"] == 0 and end["max_rss_kib"] > 100
    ends = [status for _, status in ENDS.findall(shown)]
    assert len(ends) >= 3 and [status for status in ends if status] == [", status 3"], shown


def test_a_process_that_executes_other_programs(sandbox, bash, told, backend):
    """All of them together, and told once, of the last one."""
    line = "sh -c '/usr/bin/sort in > one; exec /usr/bin/cat one missing > two'"
    bash.run(line)
    found, _ = processes(sandbox, line)
    if backend != "fanotify":  # that reads arguments from /proc, perhaps after the second exec
        assert found[line.replace("'", "")] == [None], found
    (end,) = found.get("/usr/bin/cat one missing", [None])
    assert end["status"] == 1 if told else end is None


def test_one_that_was_killed(sandbox, bash, told):
    line = "sh -c 'echo x > out; kill -9 $$'; echo $? > status"
    bash.run(line)
    found, shown = processes(sandbox, line)
    (end,) = found.get("sh -c echo x > out; kill -9 $$", [None])
    assert bool(end) == told
    if told:
        assert end["status"] == 137 and sandbox.read("status") == b"137\n" and ", status 137" in shown


def test_it_is_forgotten_with_its_process(sandbox, bash, told):
    """No record of it is left in the journal."""
    bash.run("cat in > one")
    bash.run("sort in > two")
    processes(sandbox, "cat in > one")
    before = rows(sandbox)
    assert (before[3] >= 2) == told
    sandbox.shfs("forget", "--yes", "--command", *ids_of(sandbox, "cat in > one"))
    after = rows(sandbox)
    gone = [a - b for a, b in zip(before, after)]
    assert gone[3] == told and gone[0] == sum(gone[1:]), (before, after)
    sandbox.shfs("reindex")
    assert rows(sandbox) == after
    found, _ = processes(sandbox, "sort in > two")
    assert any(found.get("sort in", [])) == told


def test_a_process_of_no_command_in_prov(sandbox, told):
    sandbox.write_outside(f"{sandbox.home}/in", "1\n")
    sandbox.mount()
    sandbox.sh("cat ../in nothing > left 2> ../errors", check=1)
    said = json.loads(sandbox.shfs("export", "prov", "left").stdout)["activity"]
    (end,) = [a for name, a in said.items() if name.startswith("process:")]
    turtle = sandbox.shfs("export", "prov-o", "left").stdout
    for name in "exit_status", "user_us", "system_us", "max_rss_kib":
        assert (f"shfs:{name}" in end) == (f"shfs:{name} " in turtle) == told, (end, turtle)
    assert not told or (end["shfs:exit_status"] == 1 and end["shfs:max_rss_kib"] > 100)
