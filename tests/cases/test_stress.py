# SPDX-License-Identifier: MIT
"""What each close left, in its order, while eight processes rewrite the same few files at full
speed. SHFS_TEST_STRESS sets for how many seconds (3; a release should stand 60)."""

import json
import os
import time

import pytest

from harness import PREFIX, wait_until
from test_capture import rows
from twins import python

with open(f"{PREFIX}/libexec/shfs/shfs-watch", "rb") as program:
    SANITIZED = b"__asan_init" in program.read()
SECONDS = float(os.environ.get("SHFS_TEST_STRESS", "3"))
PROCESSES, FILES = 8, 4
HERE = os.path.dirname(__file__)


def history(sandbox):
    """{name: [(object or None, incomplete, source)]} of all that was ever there, the oldest first."""
    found = {}
    sql = "SELECT path, object, flags & 8, source FROM v_version ORDER BY path, n"
    for path, name, torn, source in rows(sandbox, sql):
        found.setdefault(os.path.basename(path), []).append((name, bool(torn), source))
    return found


def told(log, name):
    with open(f"{log}.{name}", encoding="ascii") as lines:
        return [line.split() for line in lines]


def check_turns(held, closes):
    """Exactly the closes, each in its place; where one was cut or torn, that is told there."""
    left = list(closes)
    for n, (name, torn, _) in enumerate(held):
        whole = name is not None and not torn
        if left and left[0][0] == "maybe" and whole and left[0][2] != name:
            del left[0]
        assert left and (not whole or left[0][2] == name), (n, held[max(n - 2, 0) : n + 3], left[:3])
        del left[0]
    assert not [close for close in left if close[0] == "left"]
    return sum(name is None or torn for name, torn, _ in held)


def check_free(held, closes):
    """Of writes that overlap: none torn, none out of order, none missing that nobody overwrote
    before its close."""
    when = {name: tuple(map(int, times)) for *times, name in closes}
    assert len(when) == len(closes)
    unknown = [v for v in held if v[0] not in when and v[0] is not None and not v[1]]
    assert not unknown, (len(unknown), unknown[:5])
    names = [v[0] for v in held if v[0] in when and not v[1]]
    assert len(set(names)) == len(names)  # each content is there once
    latest = 0
    for name in names:
        begin, _, closed = when[name]
        assert closed > latest, f"{name} came before what was recorded before it"
        latest = max(latest, begin)
    cut = len(held) - len(names)
    # writes in the order in which they began; one is alone if none of the others touches it
    order, ends, missing = sorted(when.values()), 0, 0
    by_time = {times: name for name, times in when.items()}
    alone = 0
    for i, times in enumerate(order):
        begin, _, closed = times
        if begin > ends and (i + 1 == len(order) or order[i + 1][0] > closed):
            alone += 1
            missing += by_time[times] not in names
        ends = max(ends, times[1])
    assert missing <= cut, f"{missing} of {alone} closes that nobody disturbed are missing"
    return cut


def check_marked(held, closes):
    """Where nobody waits: what a version is said to hold, some close has left."""
    left = {close[-1] for close in closes}
    whole = [name for name, torn, _ in held if name is not None and not torn]
    unknown = [name for name in whole if name not in left]
    assert not unknown, (len(unknown), len(whole), unknown[:5])
    return len(whole), len(unknown)


def run_closes(sandbox):
    """At full speed: the prefix of its logs."""
    with open(os.path.join(HERE, "closes.c"), encoding="utf-8") as source:
        program = sandbox.compile("closes", source.read())
    log = os.path.join(sandbox.path, "tmp", "log")
    sandbox.run(program, log, SECONDS, PROCESSES, FILES, timeout=60 + 4 * SECONDS)
    return log


@pytest.mark.backends(without=["fuse"])
@pytest.mark.alone
@pytest.mark.users("ordinary")
@pytest.mark.timeout(120 + 20 * SECONDS)
def test_closes_at_full_speed_without_fuse(sandbox, mounted):
    sandbox.allow_log("events were lost")
    log = run_closes(sandbox)
    sandbox.shfs("sync", timeout=60, check=False)
    wait_until(lambda: mounted.status()["queued"] == "0", "all to be recorded", 60 + 4 * SECONDS)
    held = history(sandbox)
    for name in [f"t{n}" for n in range(FILES)] + [f"f{n}" for n in range((FILES + 1) // 2)]:
        closes = told(log, name)
        whole, unknown = check_marked(held[name], closes)
        print(f"{name}: {len(closes)} closes, {len(held[name])} versions, {whole} whole, {unknown} of these unknown")
        assert whole
        # the last one stays
        assert name[0] == "f" or held[name][-1][0] == closes[-1][-1], (held[name][-4:], closes[-4:])
    print(mounted.status())


CLOSE_MANY = r"""
    #include <fcntl.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <sys/wait.h>
    #include <unistd.h>
    int main(int argc, char **argv) /* processes, files of each */
    {
        for (int p = 0; p < atoi(argv[1]); p++) {
            if (fork())
                continue;
            for (int n = 0; n < atoi(argv[2]); n++) {
                char name[40], text[40];
                sprintf(name, "w%d-%d", p, n % 50);
                int fd = open(name, O_CREAT | O_WRONLY, 0644), len = sprintf(text, "%d %d\n", p, n);
                if (write(fd, text, len) != len || close(fd))
                    _exit(1);
            }
            _exit(0);
        }
        int status, bad = 0;
        while (wait(&status) > 0)
            bad |= status;
        return !!bad;
    }
"""


@pytest.mark.backends(without=["fuse"])
@pytest.mark.alone
@pytest.mark.users("ordinary")
@pytest.mark.timeout(300)
def test_closes_at_full_speed_are_not_lost(sandbox, mounted):
    """More than who reads them can record meanwhile: they wait for it."""
    if SANITIZED:
        pytest.skip("needs a build without sanitizers: there the helper falls behind the kernel")
    sandbox.run(sandbox.compile("close-many", CLOSE_MANY), 3, 60000, timeout=120)
    sandbox.shfs("sync", timeout=200, check=False)
    wait_until(lambda: mounted.status()["queued"] == "0", "all to be recorded", 200)
    status = mounted.status()
    assert status["lost"] == "0"
    if sandbox.backend != "fanotify":  # which tells several closes of one process as one
        assert int(status["records"]) >= 180000


# of each of three processes; ./dev soak sets more
NEW_FILES = int(os.environ.get("SHFS_TEST_NEW_FILES", "5000"))


@pytest.mark.backends(without=["fuse"])
@pytest.mark.alone
@pytest.mark.users("ordinary")
@pytest.mark.timeout(240 + NEW_FILES // 50)
def test_new_files_at_full_speed_are_kept(sandbox, mounted):
    """Nothing is lost, and of the contents at least 95 % are kept, with more writers than processors."""
    patience = 120 + NEW_FILES // 100
    program = sandbox.compile("close-many", CLOSE_MANY.replace("n % 50", "n"))
    sandbox.run(program, 3, NEW_FILES, timeout=patience)
    sandbox.shfs("sync", timeout=patience, check=False)
    wait_until(lambda: mounted.status()["queued"] == "0", "all to be recorded", patience)
    status = mounted.status()
    assert status["lost"] == "0", status
    [(versions, kept)] = rows(sandbox, "SELECT count(*), sum(object IS NOT NULL) FROM v_version WHERE path LIKE '%/project/w%'")
    print(f"{versions} versions of {3 * NEW_FILES} files, {kept} contents")
    assert versions == 3 * NEW_FILES and kept >= 0.95 * versions


@pytest.mark.backends(without=["fuse"])
@pytest.mark.users("ordinary")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("size", [10 << 20, 70 << 20], ids=["under_a_lease", "too_large_for_one"])
def test_closed_while_another_writes(sandbox, size):
    """A write that takes long, of which the times tell no more than its beginning: half of it is no
    version."""
    sandbox.write_outside(f"{sandbox.home}/.config/shfs/config.ini", "[archive]\nmax-size = 1G\n")
    mounted = sandbox.mount()
    sandbox.write("f", b"0" * size)
    wait_until(lambda: mounted.status()["queued"] == "0", "all to be recorded", 60)
    python(sandbox, """
def on_one_cpu(what):
    child = os.fork()
    if not child:
        os.close(mine)
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        os._exit(what() or 0)
    return child

def busy():
    while True: pass

def overwrite():
    other = os.open("f", os.O_WRONLY)
    os.nice(10)
    return os.pwrite(other, new, 0) != len(new)

mine = os.open("f", os.O_RDWR)
new = b"1" * os.fstat(mine).st_size
os.pwrite(mine, b"0", 0)
time.sleep(0.05)
before = os.fstat(mine).st_mtime_ns
load, writer = on_one_cpu(busy), on_one_cpu(overwrite)
while os.fstat(mine).st_mtime_ns == before: time.sleep(0.001)
time.sleep(0.012)
os.close(mine)
assert os.waitpid(writer, 0)[1] == 0
os.kill(load, signal.SIGKILL)
""", timeout=120)
    wait_until(lambda: mounted.status()["queued"] == "0", "all to be recorded", 60)
    names = [f"f@{n}" for n, (name, torn, _) in enumerate(history(sandbox)["f"], 1) if name and not torn]
    assert names
    for name in names:
        held = sandbox.shfs("cat", name, timeout=60).stdout_bytes
        assert held.count(held[:1]) == len(held), name


@pytest.mark.users("ordinary")
@pytest.mark.timeout(120 + 20 * SECONDS)
def test_closes_at_full_speed(sandbox, mounted):
    log = run_closes(sandbox)
    # a query does not wait for so much
    wait_until(lambda: mounted.status()["queued"] == "0", "all to be recorded", 60 + 4 * SECONDS)
    status = mounted.status()
    assert status["lost"] == "0", status

    held, cut, closes = history(sandbox), 0, 0
    for n in range(FILES):
        turns = told(log, f"t{n}")
        cut += check_turns(held[f"t{n}"], turns)
        closes += len(turns)
    for n in range((FILES + 1) // 2):
        free = told(log, f"f{n}")
        cut += check_free(held[f"f{n}"], free)
        closes += len(free)
    print(f"{closes} closes, {cut} of them cut or torn and counted as that; {status}")
    assert cut <= int(status["skipped"]) + int(status["incomplete"])
    assert cut < closes / 10

    # and the bytes are there, not their names alone
    for name in "t0", "f0":
        last = len(held[name])
        some = range(1, last + 1, max(last // 40, 1))
        data = sandbox.shfs("cat", *(f"{name}@{n}" for n in some if held[name][n - 1][0]), timeout=60)
        sizes = rows(sandbox, f"SELECT n, size FROM v_version WHERE path = '{sandbox.project}/{name}'")
        sizes = dict(sizes)
        assert len(data.stdout_bytes) == sum(sizes[n] for n in some if held[name][n - 1][0])


FLOOD = r"""
    #include <fcntl.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <sys/wait.h>
    #include <unistd.h>
    int main(int argc, char **argv) /* processes, closes of each: 50 files each, in turn */
    {
        for (int p = 0; p < atoi(argv[1]); p++) {
            if (fork())
                continue;
            for (int i = 0; i < atoi(argv[2]); i++) {
                char name[40];
                snprintf(name, sizeof(name), "w%d-%d", p, i % 50);
                int fd = open(name, O_WRONLY | O_CREAT, 0600);
                if (fd < 0 || write(fd, &i, sizeof(i)) != sizeof(i) || close(fd))
                    _exit(1);
            }
            _exit(0);
        }
        int status, failed = 0;
        while (wait(&status) > 0)
            failed |= status;
        return failed != 0;
    }
"""
WRITERS, CLOSES = 16, int(os.environ.get("SHFS_TEST_CLOSES", "40000"))


@pytest.mark.users("ordinary")
@pytest.mark.timeout(120 + CLOSES // 1000)
def test_each_close_of_a_flood(sandbox, mounted):
    """SHFS_TEST_CLOSES of 16 writers: each is recorded, or told as lost."""
    patience = 60 + CLOSES // 1000
    sandbox.run(sandbox.compile("flood", FLOOD), str(WRITERS), str(CLOSES // WRITERS), timeout=patience)
    wait_until(lambda: mounted.status()["queued"] == "0", "all to be recorded", patience)
    sandbox.shfs("sync", timeout=patience)
    lost = int(mounted.status()["lost"])
    answer = sandbox.shfs("select", "SELECT count(*) FROM access WHERE is_written", timeout=patience, cwd="/")
    [[recorded]] = json.loads(answer.stdout)["rows"]
    print(f"{recorded} recorded, {lost} lost; {mounted.status()}")
    assert recorded + lost == CLOSES // WRITERS * WRITERS


@pytest.mark.users("ordinary")
@pytest.mark.timeout(120)
def test_ten_thousand_versions(sandbox, mounted):
    """Of one file: the answers are right, and come as quickly as for a few."""
    python(sandbox, """
for n in range(1, 10001): write("f", b"version %d\\\\n" % n)
""".replace("\\\\", "\\"), timeout=60)
    wait_until(lambda: mounted.status()["queued"] == "0", "all to be recorded", 60)
    begin = time.monotonic()
    sandbox.shfs("sync", timeout=60)
    sandbox.shfs("log", "-n1", "f", timeout=60)  # this one reads the journal
    print(f"ingest: {time.monotonic() - begin:.2f} s")
    questions = {
        ("cat", "f@1", "f@5000", "f@10000"): "version 1\nversion 5000\nversion 10000\n",
        ("log", "-n1", "f"): "f@10000",
        ("diff", "f@4999", "f@5000"): "-version 4999\n+version 5000",
        ("why", "f@5000"): "f@5000",
        ("history", "f"): "f@10000",
        ("restore", "f@7777"): "it was f@10000",
    }
    for question, answer in questions.items():
        begin = time.monotonic()
        assert answer in sandbox.shfs(*question, check=False).stdout, question
        print(f"{question[0]}: {time.monotonic() - begin:.2f} s")
    assert sandbox.read("f") == b"version 7777\n"
    assert rows(sandbox, "SELECT versions FROM v_file WHERE path LIKE '%/f'") == [(10001,)]
