# SPDX-License-Identifier: MIT
"""The process behind a mount: killed, ended, without room, with many files, with others beside it;
and what is done beneath it or to its rules meanwhile."""

import contextlib
import json
import os
import random
import re
import signal
import sqlite3
import subprocess
import time

import pytest

import harness
from harness import wait_until
from test_capture import contents, prepare, rows, versions
from test_mount import limited_mount
from test_mount_cli import daemon_pid, is_mounted, mounted_cli, pids_of, small_store, status_of
from twins import PRELUDE, python

FAILURE, USAGE = 1, 2
SANITIZED = re.search(b"__[at]san_init", open(f"{harness.PREFIX}/libexec/shfs/shfs-fuse", "rb").read())


# --- the daemon dies ---

# Acknowledges each line that was written, in a file outside of the mount; until there is another.
WRITER = r"""
ack = os.open(os.environ["ACK"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
fd = os.open("log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
n = 0
while not os.path.exists(os.environ["ACK"] + ".end"):
    line = b"%06d\n" % n
    try:
        os.write(fd, line)
        write("small%d" % (n % 7), line)
    except OSError as error:
        say(errno.errorcode[error.errno]); break
    os.write(ack, line); n += 1
"""


def start_python(sandbox, script, **options):
    """As test_mount's python, without waiting."""
    prelude = sandbox.write_outside(f"{sandbox.path}/prelude.py", PRELUDE)
    argv = "/usr/bin/python3", "-B", "-c", "from prelude import *\n" + script
    return sandbox.popen(argv, env={"PYTHONPATH": os.path.dirname(prelude)}, **options)


def is_taken_over(told):
    """Whether its guardian takes the place of a mount that tells this of itself."""
    return told["transport"] == "dev" and tuple(map(int, os.uname().release.split(".")[:2])) >= (6, 16)


def told_by(sandbox, project):
    """What the daemon says of itself; empty where there is none."""
    argv = ["getfattr", "--only-values", "--absolute-names", "-n", "user.shfs.status", project]
    lines = sandbox.run(*argv, cwd="/", check=False).stdout.splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


def come_again(sandbox, project, pid):
    """What the one says of itself that took the place of this one, which died."""
    def again():
        told = told_by(sandbox, project) if is_mounted(project) else {}
        return told if told.get("pid", str(pid)) != str(pid) else None

    return wait_until(again, "the mount to come again")


def kill_daemon(sandbox, project, returns=True):
    pid = int(told_by(sandbox, project)["pid"])
    os.kill(pid, signal.SIGKILL)
    if returns:
        return come_again(sandbox, project, pid)
    wait_until(lambda: not is_mounted(project), "the mount to go")
    return None


@pytest.fixture
def killed(sandbox, shfs, mounted_cli, shell):
    """A daemon that was killed while a program wrote, and came again; the shell that was open."""
    sandbox.allow_exit(-signal.SIGKILL)
    sandbox.allow_log("ended")
    bash = shell()
    bash.run("echo early > early; echo later >> early")
    sandbox.ack = os.path.join(sandbox.path, "tmp/ack")
    script = WRITER.replace('os.environ["ACK"]', repr(sandbox.ack))
    writer = start_python(sandbox, script, stdout=subprocess.PIPE)
    wait_until(lambda: os.path.exists(sandbox.ack) and os.path.getsize(sandbox.ack) > 700, "the writer to write")
    with open(sandbox.ack, "rb") as ack:
        sandbox.synced = len(ack.read()) // 7
    shfs("sync")
    begin = time.monotonic()
    sandbox.again = kill_daemon(sandbox, mounted_cli)
    sandbox.back_after = time.monotonic() - begin
    assert sandbox.run("ls", mounted_cli, cwd="/", check=False).status == 0
    sandbox.write_outside(sandbox.ack + ".end", "")
    sandbox.told = writer.communicate(timeout=20)[0]
    yield bash
    bash.close()
    shfs("umount", mounted_cli, cwd="/")
    wait_until(lambda: not pids_of(sandbox, "shfs-fuse"), "the daemon and its guardian to end")


@pytest.mark.transports
def test_killed_daemon_comes_again(killed, sandbox, project):
    assert sandbox.back_after < 2 * harness.PATIENCE  # with the time to ask
    errors = [b""] if is_taken_over(sandbox.again) else [b"ENOTCONN", b"ECONNABORTED", b"ECANCELED"]
    assert sandbox.told.strip() in errors, sandbox.told
    with open(sandbox.ack, "rb") as ack:
        acknowledged = ack.read()
    # whole: nothing that was acknowledged is missing, and nothing else is there
    log = sandbox.run("cat", f"{project}/log", cwd="/").stdout_bytes
    assert log.startswith(acknowledged) and len(log) - len(acknowledged) in (0, 7)


def test_killed_daemon_is_told(killed, sandbox, shfs, project):
    """By status, and as a gap that has an end; nobody has to do anything."""
    entry, _ = status_of(shfs, project)
    assert entry["restarts"] == 1 and entry["restarted"] <= entry["since"]
    assert "ended unexpectedly" not in killed.run(":") + killed.run(":")
    status = shfs("status", cwd="/").stdout
    assert "started again 1 time, last " in status, status
    killed.run(f"cd {project}; echo again > again")
    [gap] = json.loads(shfs("history", "--json", project, cwd="/").stdout)["gaps"]
    assert gap["begin"] < gap["end"]


def test_history_after_a_killed_daemon(killed, sandbox, shfs, project):
    """What was durable stays, and the recording goes on."""
    assert shfs("cat", f"{project}/early@1", f"{project}/early@2", cwd="/").stdout == "early\nearly\nlater\n"
    sandbox.run("sh", "-c", "echo again >> early")
    assert contents(sandbox, "early") == [b"early\n", b"early\nlater\n", b"early\nlater\nagain\n"]
    small = {n for i in range(7) for data in contents(sandbox, f"small{i}") if data for n in data.split()}
    assert {b"%06d" % n for n in range(sandbox.synced)} <= small
    status, answer = status_of(shfs, project)
    assert status["state"] == "recording" and not [p for p in answer["problems"] if "ended" in p]
    assert not [n for n in os.listdir(f"{sandbox.store}/state") if n.startswith("alert-")]


def test_killed_too_often(sandbox, shfs, project, shell):
    """Objects and records of each life are found; and who dies again and again is let go, and told."""
    sandbox.allow_exit(-signal.SIGKILL)
    sandbox.allow_log("ended")
    bash = shell(cwd="/")
    shfs("mount", project, cwd="/")
    for life in range(6):
        python(sandbox, f"for i in range(40): write('f%d' % i, b'{life} %d' % i)")
        shfs("sync")
        kill_daemon(sandbox, project, returns=life < 5)
    wait_until(lambda: not pids_of(sandbox, "shfs-fuse"), "the guardian to end")
    assert not is_mounted(project)
    told = bash.run(":") + bash.run(":")
    assert told.count("the recording of") == 1 and "shfs mount" in told, told
    status = shfs("status", check=FAILURE, cwd="/")
    assert re.search("^! .*ended unexpectedly", status.stdout, re.M), status
    for i in range(0, 40, 13):
        assert contents(sandbox, f"f{i}") == [b"%d %d" % (life, i) for life in range(6)]
    shfs("mount", project, cwd="/")
    assert status_of(shfs, project)[0]["restarts"] == 0 and "the recording of" not in bash.run(":")
    shfs("umount", project, cwd="/")


def test_killed_where_it_cannot_come_again(sandbox, shfs, project):
    """The directory beneath is there, and the next prompt tells it."""
    sandbox.allow_exit(-signal.SIGKILL, USAGE)  # of the follower, too, if it had not begun
    sandbox.allow_log("ended")
    config = sandbox.write_outside(f"{sandbox.home}/own.ini", "")
    shfs("--config", config, "mount", project, cwd="/")
    if is_taken_over(told_by(sandbox, project)):
        shfs("umount", project, cwd="/")
        pytest.skip("its place is taken without it")
    sandbox.write("file", b"text")
    os.unlink(config)
    kill_daemon(sandbox, project, returns=False)
    wait_until(lambda: not pids_of(sandbox, "shfs-fuse"), "the guardian to end")
    assert sandbox.read("file") == b"text" and not is_mounted(project)
    assert "ended unexpectedly" in shfs("status", check=FAILURE, cwd="/").stdout


# --- the daemon is ended ---


@pytest.mark.transports
def test_asked_while_it_dies(sandbox, shfs, mounted_cli):
    """What is true then: it records again, or is dead for the moment."""
    sandbox.allow_exit(-signal.SIGKILL)
    sandbox.allow_log("ended")
    program = os.path.join(harness.PREFIX, "bin/shfs")
    for _ in range(3):
        asking = [sandbox.popen([program, "mount"], stdout=subprocess.PIPE, cwd="/") for _ in range(8)]
        pid = int(told_by(sandbox, mounted_cli)["pid"])
        os.kill(pid, signal.SIGKILL)
        for process in asking:
            said = process.communicate(timeout=30 * harness.PATIENCE)[0].decode()
            assert not process.returncode and "does not answer" not in said, said
        come_again(sandbox, mounted_cli, pid)
    shfs("umount", mounted_cli, cwd="/")


@pytest.mark.users("ordinary")
@pytest.mark.backends(without=["fuse"])
def test_recorder_asked_while_it_dies(sandbox):
    """It has ended: it is not listed as one that does not answer."""
    watch = sandbox.mount()
    watch.expected_status = -signal.SIGKILL
    sandbox.allow_log("ended")
    os.kill(watch.process.pid, signal.SIGSTOP)
    asking = sandbox.popen([os.path.join(harness.PREFIX, "bin/shfs"), "mount"], stdout=subprocess.PIPE, cwd="/")
    question = ["ps", "-o", "comm=", "-o", "stat=", "--ppid", str(asking.pid)]
    try:
        wait_until(lambda: re.search("shfs-question +S", sandbox.run(*question, check=False).stdout), "the question")
    finally:
        watch.process.kill()
    watch.wait()
    said = asking.communicate(timeout=30 * harness.PATIENCE)[0].decode()
    assert not asking.returncode and "project" not in said and "inode" not in said, said


def test_ended_daemon_has_recorded_all(sandbox, mounted):
    """SIGTERM, while files are open: they have a moment, and what they hold then is kept."""
    script = "echo one > a; exec 3> b; echo 1 >&3; echo ready; cat > /dev/null; echo 2 >&3"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    writer = sandbox.popen(["sh", "-c", script], **pipes)
    assert writer.stdout.readline() == b"ready\n"
    python(sandbox, "for i in range(500): write('m%d' % i, b'%d' % i)")
    mounted.process.send_signal(signal.SIGTERM)
    wait_until(lambda: not is_mounted(mounted.directory), "the mount to be detached")
    writer.communicate(b"go", timeout=20)
    mounted.wait()  # with status 0
    assert contents(sandbox, "a") == [b"one\n"] and contents(sandbox, "b")[-1] == b"1\n2\n"
    [(n,)] = rows(sandbox, f"SELECT count(*) FROM v_version WHERE path GLOB '{sandbox.project}/m*' AND object IS NOT NULL")
    assert n == 500
    assert rows(sandbox, "SELECT end_ns IS NOT NULL, lost FROM v_producer") == [(1, 0)]
    assert not [n for n in os.listdir(f"{sandbox.store}/state") if n.startswith("alert-")]


@pytest.mark.transports
def test_ended_daemon_does_not_wait_for_ever(sandbox, mounted):
    """A second signal ends the waiting for a file that stays open; what it holds is kept."""
    sandbox.allow_log("fuse: failed to unmount")  # libfuse tries, the sandbox says no
    holder = sandbox.popen(["sh", "-c", "exec 3> held; echo kept >&3; echo ready; cat > /dev/null"],
                           stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdout.readline() == b"ready\n"
    mounted.process.send_signal(signal.SIGTERM)
    wait_until(lambda: not is_mounted(mounted.directory), "the mount to be detached")
    mounted.process.send_signal(signal.SIGTERM)
    begin = time.monotonic()
    mounted.wait()
    assert time.monotonic() - begin < 3 * harness.PATIENCE
    holder.communicate(timeout=20)
    assert contents(sandbox, "held") == [b"kept\n"] and sandbox.read("held") == b"kept\n"


# --- no room ---


def test_full_store_is_told_at_the_prompt(small_store, sandbox, shfs, project, shell):
    """Once; the user's writes succeed, the loss is in the journal, queries answer, and it goes on by itself."""
    sandbox.allow_log(r"No space left|not up to date|lost")
    shfs("mount", project)
    sandbox.write("known", b"known")
    shfs("history", check=3)
    bash = shell(cwd="/")
    os.posix_fallocate(filler := os.open(f"{small_store}/filler", os.O_WRONLY | os.O_CREAT), 0, 3 << 20)
    python(sandbox, "for i in range(60): write('f%d' % i, os.urandom(40000))")
    python(sandbox, "assert all(len(read('f%d' % i)) == 40000 for i in range(60)); os.rename('f1', 'g1')")
    wait_until(lambda: status_of(shfs, project)[0]["error"] == "ENOSPC", "the failure")
    told = bash.run("true") + bash.run("true")
    assert told.count("space") == 1, told
    with contextlib.suppress(OSError), open(f"{small_store}/rest", "wb", buffering=0) as rest:
        while True:
            rest.write(bytes(1000))
    assert "not be up to date" not in (answer := shfs("cat", "known")).stderr and answer.stdout == "known"
    assert "needs some room" in shfs("prune", "--also-newest", "known", check=1).stderr
    os.unlink(f"{small_store}/rest")
    os.ftruncate(filler, 0)
    os.close(filler)
    wait_until(lambda: status_of(shfs, project)[0]["state"] == "recording", "the recording to go on")
    sandbox.write("after", b"recorded")
    before = sandbox.read("f59")
    sandbox.sh("echo more >> f59")  # of which nothing is known
    shfs("sync", check=False)
    assert before in contents(sandbox, "f59")
    assert shfs("cat", "after").stdout == "recorded" and "space" not in bash.run("true")
    [(lost,)] = rows_unsynced(sandbox, "SELECT lost FROM v_producer")
    assert lost == status_of(shfs, project)[0]["lost"] > 0
    bash.close()
    shfs("umount", project)


def test_store_that_is_read_only(small_store, sandbox, shfs, project):
    """What is in it can be asked, also where SQLite cannot make the files of its log."""
    shfs("mount", project)
    sandbox.write("file", b"one")
    sandbox.write("file", b"two")
    shfs("history", "--all")
    shfs("umount", project)
    remount = lambda how: subprocess.run(["mount", "-o", f"remount,{how}", small_store], check=False).returncode == 0
    index = f"{sandbox.store}/index.db"

    def is_frozen_without_a_log():
        with contextlib.closing(sqlite3.connect(index)) as writer:  # a reader that is the last one leaves the log
            writer.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        if not remount("ro"):
            return False
        return not os.path.exists(f"{index}-wal") or not remount("rw")

    wait_until(is_frozen_without_a_log, "the background to end")
    log = shfs("log", "--json", "file", cwd=project)
    assert not log.stderr and len(json.loads(log.stdout)["versions"]) == 2
    assert shfs("cat", "file@1", cwd=project).stdout == "one" and "no flaws" in shfs("check", "--read-data").stdout
    assert "Read-only" in shfs("prune", "--keep-last", "1", check=1).stderr
    assert remount("rw")


def rows_unsynced(sandbox, sql):
    """As rows, where a sync tells of the loss."""
    shfs = sandbox.shfs
    try:
        sandbox.shfs = lambda *args, **options: shfs(*args, check=False, **options)
        return rows(sandbox, sql)
    finally:
        del sandbox.shfs


# --- the store and the rules ---


@pytest.mark.alone  # all mounts are asked, also those that hang for a test
def test_the_store_is_not_recorded(sandbox, shfs):
    """Where it lies inside the project: nothing of it is an event, so nothing feeds itself."""
    mount = sandbox.mount(sandbox.home)
    sandbox.sh("echo text > f; ls -R ~/.local > /dev/null; cat ~/.local/share/shfs/format > /dev/null")
    shfs("sync")
    assert rows(sandbox, f"SELECT path FROM v_access WHERE path GLOB '{sandbox.store}/*'") == []
    assert contents(sandbox, "f") == [b"text\n"]

    def is_quiet():
        before = mount.status()
        time.sleep(0.5)
        return mount.status()["records"] == before["records"] and before["queued"] == "0"

    wait_until(is_quiet, "the records to end")


def test_rules_change_while_mounted(sandbox, mounted):
    """Written, appended to, replaced and removed: each counts from then on."""

    def kept(name):
        sandbox.sh(f"echo $$ > {name}")
        return bool(versions(sandbox, name)[-1]["object"])

    assert kept("a.dat")
    sandbox.sh("echo '*.dat' > .shfsignore")
    assert not kept("a.dat") and not kept("b.dat") and kept("c.txt")
    sandbox.sh("echo '*.txt' >> .shfsignore")
    assert not kept("b.dat") and not kept("c.txt")
    sandbox.sh("echo '!c.txt' > new; echo 'out/' >> new; mv new .shfsignore; mkdir out")
    assert kept("b.dat") and kept("c.txt") and not kept("out/x")
    sandbox.sh("sed -i s/out/in/ .shfsignore")
    assert kept("out/x")
    sandbox.sh("echo x > .shfsignore; rm .shfsignore")
    assert kept("x") and kept("a.dat")
    sandbox.sh("head -c 2000000 /dev/urandom > .shfsignore; rm .shfsignore", check=False)
    sandbox.allow_log("cannot read .shfsignore")
    assert kept("a.dat")


def test_config_errors_do_not_hinder(sandbox, shfs, project):
    """They are told where somebody sees it, and what is right in front of them holds."""
    path = f"{sandbox.home}/.config/shfs/config.ini"
    sandbox.write_outside(path, "[archive]\nmax-size = 10\nwait = soon\n")
    result = shfs("mount", project)
    assert "config.ini:3" in result.stderr, result
    sandbox.sh("echo 1 > small; seq 100 > large")
    assert [bool(versions(sandbox, n)[0]["object"]) for n in ("small", "large")] == [True, False]
    shfs("umount", project)
    assert "config.ini:3" in shfs("mount", "--config", path, project, check=USAGE).stderr
    assert not is_mounted(project)


# --- many files, several mounts ---


def memory(pid):
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as status:
        return int(re.search(r"VmRSS:\s+(\d+) kB", status.read())[1])


@pytest.mark.users("ordinary")
@pytest.mark.timeout(120)
def test_memory_stays_bounded(sandbox):
    """A node for each file while the kernel knows it, nothing that grows with each use."""
    n = 100 if harness.ALL else 40  # in each directory
    sandbox.env["ASAN_OPTIONS"] += ":quarantine_size_mb=1:malloc_context_size=2"
    mount = limited_mount(sandbox, 1024)
    pid = mount.process.pid

    def make(begin, end):
        """Makes these files in each directory. Returns the KiB in use then."""
        python(sandbox, f"""
for d in range(200):
    os.makedirs("d%d" % d, exist_ok=True)
    for i in range({begin}, {end}): write("d%d/%d" % (d, i), b"%d" % i)
""", timeout=60)
        wait_until(lambda: mount.status()["queued"] == "0", "all to be recorded", 60)
        return memory(pid)

    few, many = make(0, 10), make(10, n)  # the first ones also fill caches and the allocator
    fds = len(os.listdir(f"/proc/{pid}/fd"))
    assert fds <= 1024 and many - few < 3 * 200 * (n - 10) + 5000, (few, many, fds)  # KiB: 3 a file
    used = [many]
    for turn in range(4):  # what grows with each use does so in each turn
        python(sandbox, f"""
for d in range(0, 200, 2):
    for i in range({n // 2}):
        write("d%d/%d" % (d, i), b"again {turn}"); read("d%d/%d" % (d, i + {n // 2}))
""", timeout=60)
        wait_until(lambda: mount.status()["queued"] == "0", "all to be recorded", 60)
        used.append(memory(pid))
    assert min(after - before for before, after in zip(used, used[1:])) < 2000, used  # KiB, of 4,000 or 10,000 uses
    sandbox.sh("rm -r d*", timeout=60)
    wait_until(lambda: mount.status()["queued"] == "0", "all to be recorded", 60)
    assert len(os.listdir(f"/proc/{pid}/fd")) <= fds and mount.status()["lost"] == "0"
    assert mount.status()["queued"] == "0"


@pytest.mark.users("ordinary")
@pytest.mark.skipif(SANITIZED, reason="another malloc")
def test_memory_of_contents_is_given_back(sandbox):
    """By each thread that had some, once nothing has been written for a while."""
    mount = sandbox.mount()
    pid = mount.process.pid
    empty = memory(pid)
    for _ in range(2):
        python(sandbox, "for i in range(12): write('f%d' % i, os.urandom(6 << 20))", timeout=60)
        wait_until(lambda: mount.status()["queued"] == "0", "all to be recorded", 60)
        wait_until(lambda: memory(pid) - empty < 14000, "the memory to be given back", 15)


# Changes pieces of files of some MiB, cuts them, reads them; whoever serves that reads them whole.
LARGE_FILES = """
import random
random.seed({k})
for i in range(150):
    fd = os.open("f{k}.%d" % random.randrange(10), os.O_RDWR | os.O_CREAT)
    if i % 5 == 4: os.ftruncate(fd, random.randrange(8 << 20))
    else: os.pwrite(fd, random.randbytes(random.randrange(128 << 10)), random.randrange(8 << 20))
    os.close(fd)
"""


@pytest.mark.users("ordinary")
@pytest.mark.timeout(180)
@pytest.mark.skipif(SANITIZED, reason="another malloc")
def test_memory_does_not_go_by_the_threads(sandbox):
    """Each of the forty may read contents: together they take what docs/mount.md promises."""
    mount = sandbox.mount()
    pid = mount.process.pid
    for k in range(4):
        sandbox.write_outside(f"{sandbox.path}/{k}.py", "import os\n" + LARGE_FILES.format(k=k))
    sandbox.sh(f"for k in 0 1 2 3; do python3 {sandbox.path}/$k.py & done; wait", timeout=120)
    assert 0 < int(mount.status()["memory_bytes"]) < 120 << 20
    wait_until(lambda: mount.status()["queued"] == "0", "all to be recorded", 60)
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        assert int(re.search(r"VmHWM:\s+(\d+) kB", status.read())[1]) < 160000
    wait_until(lambda: memory(pid) < 40000, "the memory to be given back", 15)


def test_hard_links_keep_no_descriptors(sandbox):
    """One of two names goes, for more files than may be open."""
    mount = limited_mount(sandbox, 256)
    python(sandbox, """
os.mkdir("a"); os.mkdir("b")
for i in range(600): write("a/%d" % i, b"%d" % i); os.link("a/%d" % i, "b/%d" % i)
keep = [os.stat("a/%d" % i) for i in range(600)]
for i in range(600): os.unlink("b/%d" % i)
for i in range(600): write("a/%d" % i, b"+", os.O_WRONLY | os.O_APPEND); assert read("a/%d" % i) == b"%d+" % i
""", timeout=60)
    assert len(os.listdir(f"/proc/{mount.process.pid}/fd")) < 200
    assert contents(sandbox, "a/77") == [b"77", b"77+"]


def test_two_mounts_share_a_store(sandbox, shfs, project):
    other = sandbox.mkdir(f"{sandbox.home}/other")
    mounts = [sandbox.mount(), sandbox.mount(other)]
    script = "for i in range(300): write('f', b'%s %d' % (os.getcwd().encode(), i)); write('same', b'%d' % i)"
    writers = [start_python(sandbox, script, cwd=directory) for directory in (project, other)]
    assert [w.wait(60) for w in writers] == [0, 0]
    for directory in project, other:
        assert contents(sandbox, f"{directory}/f") == [b"%s %d" % (directory.encode(), i) for i in range(300)]
        assert contents(sandbox, f"{directory}/same") == [b"%d" % i for i in range(300)]
    sandbox.run("mv", f"{other}/f", f"{project}/moved")
    assert contents(sandbox, "moved") == [b"%s 299" % other.encode()]
    mounts[1].unmount()
    sandbox.sh("echo goes on > same")
    assert contents(sandbox, "same")[-1] == b"goes on\n"
    assert status_of(shfs, project)[0]["state"] == "recording"


# --- beneath the mount ---


def test_a_directory_above_is_renamed(sandbox, shfs):
    """The mount goes with it, and works on; so does the end."""
    area = sandbox.mkdir(f"{sandbox.home}/area")
    project = sandbox.mkdir(f"{area}/project")
    sandbox.mount(project)
    sandbox.sh("echo 1 > f", cwd=project)
    moved = f"{sandbox.home}/moved"
    sandbox.run("mv", area, moved, cwd="/")
    sandbox.sh("echo 2 > f; cat f", cwd=f"{moved}/project")
    sandbox.unmount(f"{moved}/project")
    sandbox.mounts[0].wait()
    sandbox.run("mv", moved, area, cwd="/")
    assert contents(sandbox, f"{project}/f") == [b"1\n", b"2\n"]


def test_killed_after_a_directory_above_was_renamed(sandbox, shfs):
    """The mount comes again there."""
    sandbox.allow_exit(-signal.SIGKILL)
    sandbox.allow_log("ended")
    area = sandbox.mkdir(f"{sandbox.home}/area")
    project = sandbox.mkdir(f"{area}/project")
    shfs("mount", project)
    moved = f"{sandbox.home}/moved"
    sandbox.run("mv", area, moved, cwd="/")
    kill_daemon(sandbox, f"{moved}/project")
    sandbox.sh("echo there > f", cwd=f"{moved}/project")
    assert contents(sandbox, f"{moved}/project/f") == [b"there\n"]
    shfs("umount", f"{moved}/project", cwd="/")
    assert not is_mounted(f"{moved}/project")


@pytest.mark.transports
@pytest.mark.parametrize("how", ["abort", "umount"])
def test_cut_off_by_root(sandbox, shfs, mounted_cli, project, how):
    """The mount comes again, and nothing that was done before is lost."""
    sandbox.allow_log("connection to the kernel was cut")
    pid = int(told_by(sandbox, project)["pid"])
    sandbox.sh("echo 1 > f; echo 2 > f")
    device = subprocess.run(["findmnt", "-no", "MAJ:MIN", project], check=True, capture_output=True, text=True).stdout
    holder = sandbox.popen(["sleep", "60"], cwd=project)
    if how == "umount":
        assert subprocess.run(["umount", "-f", project], check=False).returncode == 32  # busy
    else:
        # not each machine has it mounted
        cut = "mount -t fusectl none /mnt && echo 1 > /mnt/$0/abort"
        subprocess.run(["unshare", "-m", "sh", "-c", cut, device.strip().split(":")[1]], check=True)
    come_again(sandbox, project, pid)
    sandbox.sh("echo 3 > f")
    assert contents(sandbox, f"{project}/f") == [b"1\n", b"2\n", b"3\n"]
    assert status_of(shfs, project)[0]["restarts"] == 1
    assert not [p for p in status_of(shfs, project)[1]["problems"] if "ended" in p]
    holder.kill()
    holder.wait()
    shfs("umount", project, cwd="/")
    assert not is_mounted(project)


@pytest.mark.transports
def test_taken_away_by_force(sandbox, shfs, mounted_cli, project):
    """Where nobody uses it, umount -f takes it away, and it stays away."""
    sandbox.sh("echo 1 > f; echo 2 > f")
    # where somebody was there just then it comes again
    wait_until(lambda: subprocess.run(["umount", "-f", project], check=False).returncode == 0, "umount -f")
    wait_until(lambda: not pids_of(sandbox, "shfs-fuse"), "the daemon and its guardian to end")
    assert not is_mounted(project)
    assert contents(sandbox, f"{project}/f") == [b"1\n", b"2\n"]
    assert "ended" not in shfs("status", cwd="/", check=False).stdout


@pytest.mark.users("root")
def test_the_directory_is_renamed_beneath(sandbox, mounted, project):
    """By somebody who does not see the mount."""
    sandbox.sh("echo 1 > f")
    other = f"{sandbox.home}/elsewhere"
    subprocess.run(["unshare", "-m", "sh", "-c", f"umount {project} && mv {project} {other}"], check=True)
    sandbox.sh("echo 2 > f; cat f > /dev/null", cwd=other)
    sandbox.mkdir(project)
    assert contents(sandbox, f"{project}/f") == [b"1\n", b"2\n"]
    sandbox.unmount(other)
    mounted.wait()


@pytest.mark.users("root")
def test_the_directory_is_removed_beneath(sandbox, mounted, project):
    """The kernel takes the mount away; the daemon ends by itself and has recorded all."""
    sandbox.sh("echo 1 > f")
    subprocess.run(["unshare", "-m", "sh", "-c", f"umount {project} && rm -r {project}"], check=True)
    wait_until(lambda: not is_mounted(project), "the mount to go")
    mounted.wait()
    sandbox.mkdir(project)
    assert contents(sandbox, "f") == [b"1\n"]


def test_files_change_beneath(sandbox, mounted, project):
    """What somebody else does below the mount is seen a second later, and recorded as found."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    sandbox.sh("echo 1 > f; echo 1 > g; cat f g > /dev/null")
    script = "umask 0; echo changed > f; rm g; echo new > h; mkdir d; echo x > d/y"
    hidden = f"umount {project} && cd {project} && {{ {script}; }}"
    subprocess.run(["unshare", "-m", "sh", "-c", hidden], check=True)
    time.sleep(1.2)
    assert sandbox.sh("cat f h d/y; cat g 2>/dev/null", check=1).stdout == "changed\nnew\nx\n"
    sandbox.sh("echo 2 >> f; echo 2 > h")
    assert contents(sandbox, "f") == [b"1\n", b"changed\n", b"changed\n2\n"]
    assert contents(sandbox, "h") == [b"new\n", b"2\n"]


def test_a_project_that_cannot_be_written(sandbox, project):
    """Reads are recorded; writes fail as without shfs, with the same error."""
    top = sandbox.mkdir(f"{project}/top")
    is_root = sandbox.user.uid == 0
    if is_root:
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", top], check=True)
    try:
        prepare(sandbox, "top/run.sh", b"echo run\n", 0o444)
        if is_root:
            subprocess.run(["mount", "-o", "remount,ro", top], check=True)
        else:
            os.chmod(top, 0o555)
            sandbox.allow_exit(4)
            assert "write access" in sandbox.shfs("mount", top, check=4).stderr
        script = r"""
say(attempt(write, "new", b""), attempt(write, "run.sh", b"x"), attempt(os.unlink, "run.sh"), attempt(os.mkdir, "d"))
say(attempt(os.rename, "run.sh", "x"), attempt(os.truncate, "run.sh", 0), read("run.sh"))
"""
        expected = python(sandbox, script, cwd=top)
        mount = sandbox.mount(top if is_root else project)
        assert python(sandbox, script, cwd=top) == expected
        sandbox.sh("sh top/run.sh > /dev/null")
        assert contents(sandbox, "top/run.sh") == [b"echo run\n"]
        assert rows(sandbox, "SELECT op, path FROM v_access WHERE is_written OR op <> 'open'") == []
        mount.unmount()
    finally:
        if is_root:
            subprocess.run(["umount", top], check=True)


@pytest.mark.users("ordinary")
@pytest.mark.backends(without=["fanotify"])
def test_runs_under_a_filter(sandbox):
    pid = sandbox.mount().process.pid

    def said():
        with open(f"/proc/{pid}/status", encoding="ascii") as status:
            return dict(line.split(":\t", 1) for line in status.read().splitlines())

    wait_until(lambda: said()["Seccomp"] == "2", "the filter")
    assert said()["NoNewPrivs"] == "1"


RANDOM_WORK = r"""
rng, names = random.Random(SEED), ["n%d" % i for i in range(12)]
def a(): return rng.choice(names)
def some(): return rng.randbytes(rng.choice([0, 10, 5000, 200000]))
def opened(what, flags=os.O_RDWR | os.O_CREAT):
    fd = os.open(a(), flags)
    try: what(fd)
    finally: os.close(fd)
def mapped(fd):
    os.ftruncate(fd, 5000)
    with mmap.mmap(fd, 5000) as m: m[rng.randrange(4000):][:1]; m[7:8] = b"x"; m.flush()
KINDS = [
    lambda: write(a(), some()), lambda: read(a()), lambda: os.unlink(a()), lambda: os.mkdir(a()), lambda: os.rmdir(a()),
    lambda: os.rename(a(), a()), lambda: renameat2(a(), a(), rng.randrange(3)), lambda: os.link(a(), a()), lambda: os.symlink(a(), a()),
    lambda: os.mkfifo("pipe"), lambda: os.chmod(a(), 0o600 | rng.randrange(0o1000)), lambda: os.utime(a()), lambda: os.truncate(a(), rng.randrange(9999)),
    lambda: os.setxattr(a(), "user.x", some()[:99]), lambda: os.listxattr(a()), lambda: os.listdir("."), lambda: os.statvfs(a()),
    lambda: opened(lambda fd: os.pwrite(fd, some(), rng.randrange(99999))), lambda: opened(mapped), lambda: opened(os.fsync),
    lambda: opened(lambda fd: fcntl.flock(fd, fcntl.LOCK_EX)), lambda: opened(lambda fd: fcntl.lockf(fd, fcntl.LOCK_EX)),
    lambda: opened(lambda fd: os.posix_fallocate(fd, rng.randrange(9999), 4096)), lambda: opened(lambda fd: os.write(fd, some()), os.O_WRONLY | os.O_TMPFILE),
    lambda: opened(lambda fd: os.copy_file_range(fd, fd, 100, 0, 90000)), lambda: subprocess.run(["sh", "-c", "cat n1 > n2"], stderr=subprocess.DEVNULL),
    lambda: os.getxattr(".", "user.shfs.sync"), lambda: os.getxattr(".", "user.shfs.status"),
]
done = 0
for _ in range(1500): done += not isinstance(attempt(rng.choice(KINDS)), str)
say(done)
"""


@pytest.mark.users("ordinary")
@pytest.mark.transports
def test_random_work_never_meets_the_filter(sandbox, mounted):
    """What it refuses is not even tried. SHFS_SEED: one that was random."""
    seed = int(os.environ.get("SHFS_SEED", "0")) or random.randrange(1 << 30)
    print("SHFS_SEED", seed)
    with open(os.path.join(os.path.dirname(__file__), "../../recording/sandbox.c"), encoding="ascii") as source:
        denied = ",".join("?" + name for name in re.findall(r"\{ SCMP_SYS\((\w+)\)", source.read()))
    assert "?execve," in denied and "?socket," in denied
    trace, pid = f"{sandbox.path}/trace", mounted.process.pid
    # it is there when all threads have begun, which the first request does not wait for
    wait_until(lambda: "Seccomp:\t2" in open(f"/proc/{pid}/status").read(), "the filter")
    argv = ["strace", "-f", "-qq", "-e", "signal=none", "-o", trace, "-e", f"trace={denied},openat", "-p", str(pid)]
    with subprocess.Popen(argv) as strace:
        try:
            mark, tasks = f"TracerPid:\t{strace.pid}\n", f"/proc/{pid}/task"
            wait_until(lambda: all(mark in open(f"{tasks}/{t}/status").read() for t in os.listdir(tasks)), "strace")
            script = RANDOM_WORK.replace("SEED", str(seed))
            done = python(sandbox, "import random\n" + script, cwd=sandbox.project, timeout=60)
        finally:
            strace.terminate()
    assert int(done) > 300
    with open(trace, encoding="utf-8", errors="replace") as lines:
        found = [re.sub(r"^\d+ +|\(.*\n", "", line) for line in lines if "resumed>" not in line]
    assert set(found) == {"openat"}, set(found)
    mounted.unmount()


@pytest.mark.users("ordinary")
@pytest.mark.backends(without=["fuse"])
def test_ends_when_asked_while_it_has_much_to_record(sandbox):
    """More than it can take in a second: who asks is not taken for one that found nobody."""
    sandbox.mount()
    code = "import os\nfor i in range(6000): open(f'{os.getpid()}.{i}', 'w').write(str(i) * 2000)"
    busy = [sandbox.popen(["python3", "-c", code]) for _ in range(3)]
    for process in busy:
        assert process.wait() == 0
    sandbox.shfs("umount", sandbox.project)
