# SPDX-License-Identifier: MIT
"""shfs mount, umount, status, doctor, sync, ingest, reindex: bad input, and mounts gone wrong."""

import contextlib
import ctypes
import json
import os
import re
import signal
import stat
import subprocess

import pytest

import harness
from harness import wait_until

pytestmark = pytest.mark.either

FAILURE, USAGE, NOT_FOUND, REFUSED, UNAVAILABLE, NO_STORE = range(1, 7)


def one_line(result):
    """What it said on standard error: one line "shfs: ...", and maybe hints below."""
    lines = result.stderr.splitlines()
    assert lines and lines[0].startswith("shfs: "), result
    assert all(line.startswith("  ") for line in lines[1:]), result
    assert "Sanitizer" not in result.stderr, result
    return lines[0]


def is_mounted(directory):
    return directory in harness.mounts_below(directory)


def status_of(shfs, directory):
    """The mount of this directory in shfs status --json."""
    answer = json.loads(shfs("status", "--json", check=False).stdout)
    found = [m for m in answer["mounts"] if m["path"] == directory]
    assert len(found) == 1, answer
    return found[0], answer


def pids_of(sandbox, *words):
    """Processes of this sandbox's store whose arguments hold all the words."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            with open(f"/proc/{pid}/cmdline", "rb") as cmdline:
                args = cmdline.read().decode(errors="replace").split("\0")
            if sandbox.store in args and all(w in args or args[0].endswith(w) for w in words):
                found.append(int(pid))
    return found


def daemon_pid(shfs, directory):
    return status_of(shfs, directory)[0]["pid"]


@pytest.fixture
def mounted_cli(shfs, project):
    shfs("mount", project)
    assert is_mounted(project)
    return project


# --- bad input of mount ---


def test_mount_no_such_directory(shfs, project):
    result = shfs("mount", project + "/none", check=USAGE)
    assert "no such directory" in one_line(result)
    assert f"{project}/none" in one_line(result)


def test_mount_of_all(shfs, mounted_cli):
    """It is refused in one line, whatever is mounted inside."""
    assert "root directory" in one_line(shfs("mount", "/", check=4))


def test_mount_not_a_directory(sandbox, shfs, project):
    sandbox.write("file", "x")
    result = shfs("mount", project + "/file", check=USAGE)
    assert "not a directory" in one_line(result)


def test_mount_already_mounted(shfs, mounted_cli):
    result = shfs("mount", mounted_cli)
    assert "is mounted already" in result.stdout and not result.stderr
    assert harness.mounts_below(mounted_cli) == [mounted_cli]


@pytest.mark.users("ordinary")
def test_mount_not_ours(sandbox, shfs):
    sandbox.allow_exit(REFUSED)
    result = shfs("mount", "/etc", check=REFUSED)
    assert "/etc" in one_line(result)
    assert not is_mounted("/etc")


def test_mount_escapes_names(shfs, project):
    result = shfs("mount", project + "/a\n\x1b[31mb", check=USAGE)
    assert r"a\n\e[31mb" in one_line(result)


# --- a machine that lacks something: in a mount namespace of its own ---

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS, MS_BIND, MS_REC, MS_PRIVATE = 0x20000, 0x1000, 0x4000, 0x40000


def mount_call(source, target, kind, flags):
    if LIBC.mount(source.encode(), target.encode(), kind.encode(), flags, None):
        raise OSError(ctypes.get_errno(), target)


@pytest.fixture
def shfs_where(sandbox):
    """shfs_where([(source, target, type, flags)...], *args, check) runs shfs where that is
    mounted besides."""
    if os.geteuid() != 0:
        pytest.skip("needs root")

    def run(mounts, *args, check=0):
        def become():
            if LIBC.unshare(CLONE_NEWNS):
                raise OSError(ctypes.get_errno(), "unshare")
            mount_call("none", "/", "none", MS_REC | MS_PRIVATE)
            for mount in mounts:
                mount_call(*mount)
            sandbox.user.become()

        argv = [os.path.join(harness.PREFIX, "bin/shfs"), *args]
        done = subprocess.run(
            argv, env=sandbox.env, cwd="/", preexec_fn=become, capture_output=True,
            stdin=subprocess.DEVNULL, timeout=30 * harness.PATIENCE, check=False,
        )
        result = harness.Result(argv, done)
        assert result.status == check, result
        return result

    return run


NO_PROGRAMS = [("none", "/usr/bin", "tmpfs", 0)]
NO_DEVICES = [("none", "/dev", "tmpfs", 0)]
NO_ETC = [("none", "/etc", "tmpfs", 0)]


@pytest.mark.users("ordinary")
def test_mount_without_fusermount(sandbox, shfs_where, project):
    sandbox.allow_exit(UNAVAILABLE)
    result = shfs_where(NO_PROGRAMS, "mount", project, check=UNAVAILABLE)
    assert re.search("fusermount3.*install.*fuse3", one_line(result)), result
    doctor = shfs_where(NO_PROGRAMS, "doctor", check=FAILURE)
    assert "fail  fusermount3 is not in PATH" in doctor.stdout
    assert "apt install fuse3" in doctor.stdout


@pytest.mark.users("ordinary")
def test_mount_without_mtab(sandbox, shfs_where, project):
    sandbox.allow_exit(UNAVAILABLE)
    result = shfs_where(NO_ETC, "mount", project, check=UNAVAILABLE)
    assert "ln -s ../proc/self/mounts /etc/mtab" in one_line(result)
    doctor = shfs_where(NO_ETC, "doctor", check=FAILURE)
    assert "fail  without /etc/mtab" in doctor.stdout


@pytest.mark.users("ordinary")
def test_umount_without_fusermount(sandbox, shfs, mounted_cli):
    empty = sandbox.mkdir(os.path.join(sandbox.path, "empty"))
    result = shfs("umount", mounted_cli, check=UNAVAILABLE, env={"PATH": empty})
    assert "fusermount3 is not installed" in one_line(result)
    assert "fuse3" in result.stderr
    assert is_mounted(mounted_cli)


@pytest.mark.both
def test_mount_without_device(shfs_where, project):
    result = shfs_where(NO_DEVICES, "mount", project, check=UNAVAILABLE)
    assert "/dev/fuse" in one_line(result) and "modprobe fuse" in one_line(result)
    doctor = shfs_where(NO_DEVICES, "doctor", check=FAILURE)
    assert "fail  there is no /dev/fuse" in doctor.stdout


@pytest.mark.users("ordinary")
def test_mount_device_not_accessible(sandbox, shfs_where, project):
    device = os.path.join(sandbox.path, "fuse")
    os.mknod(device, stat.S_IFCHR | 0o600, os.stat("/dev/fuse").st_rdev)
    where = [(device, "/dev/fuse", "none", MS_BIND)]
    result = shfs_where(where, "mount", project, check=UNAVAILABLE)
    assert "may not use /dev/fuse" in one_line(result)
    doctor = shfs_where(where, "doctor", check=FAILURE)
    assert "fail  /dev/fuse may not be opened" in doctor.stdout
    assert "fix: as root: chmod 666 /dev/fuse" in doctor.stdout


# --- the store ---


@pytest.mark.parametrize("command", [["status"], ["history"], ["sync"], ["reindex"], ["ingest"]])
def test_no_store_yet(shfs, sandbox, command):
    result = shfs(*command, check=NO_STORE)
    assert "there is no store yet" in one_line(result)
    assert "shfs mount" in result.stderr
    assert not os.path.exists(sandbox.store)


def unusable_file(sandbox):
    sandbox.write_outside(sandbox.store, "not a directory")
    return "not a directory"


def unusable_foreign(sandbox):
    os.mkdir(sandbox.store, 0o755)
    if sandbox.user.uid == os.geteuid():
        os.chown(sandbox.store, 1, 1)
    return "belongs to another user"


def unusable_open(sandbox):
    sandbox.mkdir(sandbox.store)
    sandbox.write_outside(sandbox.store + "/format", "1\n")
    os.chmod(sandbox.store, 0o777)
    return "others may write to it"


def unusable_newer(sandbox):
    sandbox.mkdir(sandbox.store, 0o700)
    sandbox.write_outside(sandbox.store + "/format", "999\n")
    return "a newer shfs made it"


UNUSABLE = [unusable_file, unusable_foreign, unusable_open, unusable_newer]


@pytest.mark.parametrize("make", UNUSABLE)
@pytest.mark.both
def test_unusable_store(sandbox, shfs, project, make):
    if make is unusable_foreign and os.geteuid() != 0:
        pytest.skip("needs root")
    reason = make(sandbox)
    mount = shfs("mount", project, check=NO_STORE)
    assert reason in one_line(mount) and sandbox.store in one_line(mount)
    assert not is_mounted(project)
    status = shfs("status", check=NO_STORE)
    assert reason in one_line(status)
    doctor = shfs("doctor", check=FAILURE)
    assert re.search(f"fail  the store .* cannot be used: .*{reason}", doctor.stdout), doctor


@pytest.mark.both
def test_read_only_store(shfs_where, sandbox, project):
    parent = sandbox.mkdir(os.path.join(sandbox.path, "readonly"), 0o555)
    where = [(parent, parent, "none", MS_BIND)]
    where.append(("none", parent, "none", MS_BIND | 32 | 1))  # MS_REMOUNT | MS_RDONLY
    result = shfs_where(where, "--store", parent + "/store", "mount", project, check=NO_STORE)
    assert "read-only" in one_line(result) or "Permission denied" in one_line(result)
    assert parent in one_line(result)


@pytest.fixture
def small_store(sandbox):
    """The store is alone on a disk of 4 MiB."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    sandbox.mkdir(sandbox.store, 0o700)
    options = f"size=4m,mode=700,uid={sandbox.user.uid},gid={sandbox.user.gid}"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", sandbox.store], check=True)
    try:
        yield sandbox.store
        for directory in harness.mounts_below(sandbox.path):
            sandbox.unmount(directory)
        wait_until(lambda: not pids_of(sandbox), "the daemons to end", 20)
    finally:
        subprocess.run(["umount", "-l", sandbox.store], check=True)


def test_full_disk(small_store, sandbox, shfs, project):
    """The user's work goes on, and status says loudly that it is not recorded."""
    sandbox.allow_log(r"No space left|not up to date|lost")
    shfs("mount", project)
    sandbox.write("before", b"recorded")
    shfs("sync")
    filler = os.open(small_store + "/filler", os.O_WRONLY | os.O_CREAT)
    with contextlib.suppress(OSError):
        while os.write(filler, b"x" * 4096):
            pass
    os.close(filler)
    for i in range(40):
        sandbox.write(f"file{i}", os.urandom(20000))
    sandbox.run("mv", "file0", "renamed")
    assert len(sandbox.read("renamed")) == 20000

    status = shfs("status", check=FAILURE)
    assert re.search("^! .*IS NOT RECORDED: no space left for the store", status.stdout, re.M), status
    entry, answer = status_of(shfs, project)
    assert entry["state"] == "failing" and entry["error"] == "ENOSPC" and not answer["ok"]
    assert [n for n in os.listdir(small_store + "/state") if n.startswith("alert-")]
    assert "fail  the mount" in shfs("doctor", check=FAILURE).stdout

    os.unlink(small_store + "/filler")
    wait_until(lambda: status_of(shfs, project)[0]["state"] == "recording", "the recording to go on")
    sandbox.write("after", b"recorded again")
    shfs("sync", check=False)
    entry, answer = status_of(shfs, project)
    assert entry["lost"] > 0 and any("lost" in p for p in answer["problems"])
    assert shfs("cat", "after").stdout == "recorded again"
    assert shfs("cat", "before").stdout == "recorded"
    assert not [n for n in os.listdir(small_store + "/state") if n.startswith("alert-")]
    shfs("umount", project)


# --- mounting, listing, unmounting ---


@pytest.mark.both
def test_mount_says_what_it_does(shfs, project):
    result = shfs("mount", project)
    lines = result.stdout.splitlines()
    backend = status_of(shfs, project)[0]["backend"]
    assert lines[0] == f"~/project is mounted: every file is now recorded ({backend})"
    assert 'hint: eval "$(shfs init bash)"' in result.stdout
    assert all(len(line) <= 80 for line in lines)
    assert re.search(r"^~/project  fuse(\+passthrough)?, since \d{4}-", shfs("mount").stdout, re.M)
    assert shfs("umount", project).stdout == "~/project is unmounted\n"
    assert "~/project" not in shfs("mount").stdout


def test_mount_with_hook_gives_no_hint(shell, project):
    sh = shell("bash", cwd="/")
    sh.run("true")
    assert "hint" not in sh.run(f"shfs mount {project}")
    assert "active in this shell" in sh.run("shfs status")
    assert "is unmounted" in sh.run(f"shfs umount {project}")


def test_mount_several_one_bad(sandbox, shfs, project):
    other = sandbox.mkdir(os.path.join(sandbox.home, "other"))
    result = shfs("mount", other, project + "/none", project, check=USAGE)
    one_line(result)
    assert is_mounted(other) and is_mounted(project)
    assert shfs("umount", other, project).stdout.count("is unmounted") == 2
    assert not is_mounted(other) and not is_mounted(project)


@pytest.mark.both
def test_umount_all(sandbox, shfs, project):
    inner = sandbox.mkdir(os.path.join(project, "inner dir"))
    other = sandbox.mkdir(os.path.join(sandbox.home, "other"))
    shfs("mount", inner)
    shfs("--store", f"{sandbox.home}/other-store", "mount", other)
    shfs("umount", "--all")
    assert not is_mounted(inner) and is_mounted(other), "only what records into this store"
    shfs("--store", f"{sandbox.home}/other-store", "umount", "--all")
    assert not is_mounted(other)


def test_odd_names(sandbox, shfs):
    name = "a b\\\t\n#é"
    odd = sandbox.mkdir(os.path.join(sandbox.home, name))
    shfs("mount", odd)
    assert is_mounted(odd)
    assert r"~/a b\\t\n#é is unmounted" in shfs("umount", odd).stdout


def test_mount_foreground(sandbox, project):
    program = os.path.join(harness.PREFIX, "bin/shfs")
    process = sandbox.popen([program, "mount", "--foreground", project])
    wait_until(lambda: is_mounted(project), "the mount")
    assert process.poll() is None
    sandbox.unmount(project)
    assert process.wait(20 * harness.PATIENCE) == 0


@pytest.mark.parametrize("args", [["--backend", "kmod", "."], ["--bakend=fuse"], ["-f", "a", "b"]])
def test_mount_bad_option(shfs, args):
    one_line(shfs("mount", *args, check=USAGE))


# --- what umount refuses, and what it does not ---


def test_umount_by_other_names(sandbox, shfs, mounted_cli):
    os.symlink("project", sandbox.home + "/link")
    shfs("umount", "./link/", cwd=sandbox.home)
    assert not is_mounted(mounted_cli)


def test_umount_from_inside(sandbox, shfs, mounted_cli):
    shfs("umount", ".", cwd=mounted_cli)
    assert not is_mounted(mounted_cli)


def test_umount_not_mounted(shfs, project):
    assert "not mounted by shfs" in one_line(shfs("umount", project, check=NOT_FOUND))
    result = shfs("umount", project + "/none", check=NOT_FOUND)
    assert "No such file or directory" in one_line(result)
    assert "shfs mount lists" in result.stderr
    assert "which directory" in one_line(shfs("umount", check=USAGE))


def test_umount_inside_a_mount(sandbox, shfs, mounted_cli):
    sandbox.run("mkdir", "-p", "sub/dir")
    result = shfs("umount", mounted_cli + "/sub/dir", check=USAGE)
    assert "is inside the mount ~/project" in one_line(result)
    assert "shfs umount ~/project" in result.stderr
    assert is_mounted(mounted_cli)


@pytest.mark.users("ordinary")
def test_umount_of_somebody_else(sandbox, shfs):
    if os.geteuid() != 0:
        pytest.skip("needs root")
    roots = os.path.join(sandbox.path, "of-root")
    os.mkdir(roots, 0o755)
    store = os.path.join(sandbox.path, "roots-store")
    env = {**sandbox.env, "SHFS_STORE": store}
    program = os.path.join(harness.PREFIX, "bin/shfs")
    subprocess.run([program, "mount", roots], env=env, check=True, capture_output=True)
    try:
        result = shfs("umount", roots, check=REFUSED)
        assert "was mounted by root" in one_line(result)
    finally:
        subprocess.run([program, "umount", roots], env=env, check=True, capture_output=True)


def test_umount_while_shells_stand_inside(sandbox, shfs, shell, mounted_cli):
    sh = shell("bash", cwd=mounted_cli)
    sh.run("echo text > file")
    result = shfs("umount", mounted_cli, cwd="/")
    assert "~/project is unmounted" in result.stdout
    assert f"bash ({sh.pid})" in result.stdout and "next prompt" in result.stdout
    assert not is_mounted(mounted_cli)
    sh.run("")
    assert sh.run("cat file") == "text"
    wait_until(lambda: not pids_of(sandbox, "shfs-fuse"), "the daemon to end")


@pytest.mark.both
def test_umount_while_files_are_open(sandbox, shfs, mounted_cli):
    sandbox.write("busy\nfile", b"text")
    sandbox.write("other", b"text")
    script = 'exec 3<"$1" 4<other; cat'
    holder = sandbox.popen(["sh", "-c", script, "sh", "busy\nfile"], stdin=subprocess.PIPE)
    wait_until(lambda: len(os.listdir(f"/proc/{holder.pid}/fd")) >= 5, "the files to be open")
    result = shfs("umount", mounted_cli, check=REFUSED)
    assert "~/project is in use" in one_line(result)
    assert re.search(rf"^  sh \({holder.pid}\)  ~/project/busy\\nfile and 1 more$", result.stderr, re.M)
    assert "--lazy" in result.stderr
    assert is_mounted(mounted_cli)

    result = shfs("umount", "--lazy", mounted_cli)
    assert f"sh ({holder.pid})" in result.stdout
    assert not is_mounted(mounted_cli)
    holder.communicate(timeout=20)
    wait_until(lambda: not pids_of(sandbox, "shfs-fuse"), "the daemon to end")


@pytest.mark.both
def test_lazy_umount_loses_nothing(sandbox, shfs, mounted_cli):
    """What is open goes on to be recorded until it is closed."""
    for i in range(3):
        sandbox.write(f"in{i}", f"input {i}".encode())
    script = "exec 3<in0 4<in1 5<in2 6>out0 7>out1 8<.; cat >/dev/null; cat <&3 >&6; cat <&4 >&7; cat <&5"
    holder = sandbox.popen(["sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    wait_until(lambda: os.path.lexists(f"/proc/{holder.pid}/fd/7"), "the files to be open")
    shfs("umount", "--lazy", mounted_cli, cwd="/")
    holder.communicate(b"go", timeout=20)
    wait_until(lambda: not pids_of(sandbox, "shfs-fuse"), "the daemon to end")
    for i in range(2):
        assert shfs("cat", f"out{i}").stdout == f"input {i}"
    shfs("sync")
    assert names_read(sandbox) == ["in0", "in1", "in2"]


def query(sandbox, sql):
    """The first column, of the index as it is."""
    return [row[0] for row in json.loads(sandbox.shfs("select", sql, cwd="/").stdout)["rows"]]


def names_read(sandbox):
    """Files of the project that were read: what the test run itself names outside is among the others."""
    below = f"path GLOB '{sandbox.project}/*'"
    read = query(sandbox, f"SELECT DISTINCT path FROM v_access WHERE is_read AND {below} ORDER BY path")
    return [os.path.relpath(path, sandbox.project) for path in read]


def test_umount_while_a_file_is_mapped(sandbox, shfs, mounted_cli):
    sandbox.write("mapped", b"x" * 4096)
    script = (
        "import mmap, os, sys\n"
        "fd = os.open('mapped', os.O_RDONLY)\n"
        "kept = mmap.mmap(fd, 4096, mmap.MAP_SHARED, mmap.PROT_READ)\n"
        "os.close(fd); os.chdir('/'); kept[0]\n"
        "print('ready', flush=True); sys.stdin.read()\n"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    holder = sandbox.popen(["/usr/bin/python3", "-c", script], **pipes)
    assert holder.stdout.readline() == b"ready\n"
    result = shfs("umount", mounted_cli, check=REFUSED, cwd="/")
    assert f"({holder.pid})  ~/project/mapped" in result.stderr
    holder.communicate(timeout=20)
    shfs("umount", mounted_cli, cwd="/")


def test_umount_right_after_a_close(sandbox, shfs, mounted_cli):
    for i in range(20):
        sandbox.write(f"in{i:02}", b"text")
    sandbox.run("sh", "-c", "cat in* >/dev/null")
    shfs("umount", mounted_cli)
    assert names_read(sandbox) == [f"in{i:02}" for i in range(20)]


def test_umount_waits_until_all_is_recorded(sandbox, shfs, mounted_cli):
    for i in range(50):
        sandbox.write(f"f{i}", os.urandom(1000))
    shfs("umount", mounted_cli)
    assert not pids_of(sandbox, "shfs-fuse")
    for i in range(0, 50, 7):
        assert shfs("cat", f"f{i}").stdout_bytes == sandbox.read(f"f{i}")


# --- daemons that hang or die ---


def threads_stopped(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as text:
        return text.read().rpartition(")")[2].split()[0] == "T"


def test_hung_daemon(sandbox, shfs, project):
    """Nothing hangs with it, and it is named once."""
    sandbox.allow_exit(-signal.SIGKILL)  # those who ask it, and are stuck as long
    sandbox.mount()
    daemon = sandbox.mounts[0].process
    os.kill(daemon.pid, signal.SIGSTOP)
    wait_until(lambda: threads_stopped(daemon.pid), "the daemon to stop")
    try:
        begin = os.times().elapsed
        result = shfs("history", check=False, cwd="/", timeout=20)
        assert os.times().elapsed - begin < 10 * harness.PATIENCE
        assert "~/project does not answer" in result.stderr
        assert result.stderr.count("does not answer") == 1
        assert "does not answer" in one_line(shfs("sync", check=FAILURE, cwd="/"))
        status = shfs("status", check=FAILURE, cwd="/", timeout=30)
        assert "! ~/project hangs" in status.stdout
        assert "does not answer" in shfs("mount", cwd="/").stdout
    finally:
        os.kill(daemon.pid, signal.SIGCONT)
    wait_until(lambda: status_of(shfs, project)[0]["state"] == "recording", "it to go on")
    shfs("sync")


@pytest.mark.both
def test_umount_of_a_hung_daemon(sandbox, shfs, mounted_cli):
    sandbox.allow_exit(-signal.SIGKILL)
    pid = daemon_pid(shfs, mounted_cli)
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: threads_stopped(pid), "the daemon to stop")
    try:
        shfs("umount", mounted_cli, cwd="/", timeout=30)
        assert not is_mounted(mounted_cli)
    finally:
        os.kill(pid, signal.SIGCONT)
    wait_until(lambda: not pids_of(sandbox, "shfs-fuse"), "the daemon to end")


@pytest.mark.both
def test_dead_daemon(sandbox, shfs, mounted_cli):
    """Killed with its guardian, so that nobody takes the mount away, while a file is open."""
    sandbox.allow_exit(-signal.SIGKILL)
    sandbox.allow_log("ended")
    sandbox.write("file", b"text")
    holder = sandbox.popen(["sh", "-c", "exec 3<file; read -r end"], stdin=subprocess.PIPE)
    wait_until(lambda: os.path.lexists(f"/proc/{holder.pid}/fd/3"), "the file to be open")
    shfs("sync")
    for pid in pids_of(sandbox, "shfs-fuse"):
        os.kill(pid, signal.SIGSTOP)
    for pid in pids_of(sandbox, "shfs-fuse"):
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not pids_of(sandbox, "shfs-fuse"), "the daemon to die")
    assert is_mounted(mounted_cli)
    status = shfs("status", check=FAILURE, cwd="/")
    assert "! ~/project is dead: shfs umount removes it" in status.stdout
    assert "dead" in shfs("mount", cwd="/").stdout
    assert "the mount ~/project is dead" in shfs("doctor", check=FAILURE, cwd="/").stdout
    shfs("umount", mounted_cli, cwd="/")
    assert not is_mounted(mounted_cli)
    holder.communicate(timeout=20)
    assert shfs("cat", "file").stdout == "text"


# --- the ingest in the background ---


def followers(sandbox):
    return pids_of(sandbox, "ingest", "--follow")


def open_in_store(sandbox, pid):
    fds = f"/proc/{pid}/fd"
    try:
        return [fd for fd in os.listdir(fds) if sandbox.home in os.readlink(f"{fds}/{fd}")]
    except FileNotFoundError:  # one was closed just now
        return [fds]


def test_one_follower_as_long_as_mounts(sandbox, shfs, project):
    other = sandbox.mkdir(os.path.join(sandbox.home, "other"))
    shfs("mount", project)
    shfs("mount", other)
    wait_until(lambda: len(followers(sandbox)) == 1, "one follower")
    pid = followers(sandbox)[0]
    assert os.readlink(f"/proc/{pid}/cwd") == "/"
    wait_until(lambda: os.getpriority(os.PRIO_PROCESS, pid) == 19, "its priority")
    assert os.getsid(pid) != os.getsid(0)
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        said = dict(line.split(":\t", 1) for line in status.read().splitlines())
    assert (said["Seccomp"], said["NoNewPrivs"]) == ("2", "1")
    wait_until(lambda: not open_in_store(sandbox, pid), "it to close the store between rounds")
    shfs("umount", other)
    wait_until(lambda: followers(sandbox) == [pid], "that of the second mount to see that there is one")
    shfs("umount", project)
    wait_until(lambda: not followers(sandbox), "the follower to end", 30)


def test_follower_ends_after_plain_unmount(sandbox, shfs, mounted_cli):
    wait_until(lambda: followers(sandbox), "the follower")
    sandbox.write("file", b"text")
    sandbox.unmount(mounted_cli)
    wait_until(lambda: not followers(sandbox), "the follower to end", 30)


def test_remount_at_once_keeps_a_follower(sandbox, shfs, project):
    for _ in range(5):
        shfs("mount", project)
        shfs("umount", project)
    shfs("mount", project)
    wait_until(lambda: len(followers(sandbox)) == 1, "one follower")
    wait_until(lambda: os.getpriority(os.PRIO_PROCESS, followers(sandbox)[0]) == 19, "it to begin")
    shfs("umount", project)


@pytest.mark.alone  # where the store lies on a mount, all are asked, also those that hang for a test
def test_mount_that_holds_the_store(sandbox, shfs):
    """A home directory with the store in it: nothing of ours keeps it busy."""
    home = sandbox.home
    shfs("mount", home, cwd="/")
    assert is_mounted(home)
    sandbox.run("sh", "-c", "echo text > notes", cwd=home)
    assert shfs("cat", home + "/notes", cwd="/").stdout == "text\n"
    wait_until(lambda: followers(sandbox), "the follower")
    shfs("umount", home, cwd="/")
    assert not is_mounted(home)
    assert shfs("cat", home + "/notes", cwd="/").stdout == "text\n"


# --- status, doctor, sync, reindex ---


def test_status_of_a_mount(sandbox, shfs, mounted_cli):
    sandbox.write("file", b"text")
    sandbox.write("big", b"\0" * (17 << 20))
    entry, answer = status_of(shfs, mounted_cli)
    assert entry["state"] == "recording" and entry["backend"] in ("fuse", "fuse+passthrough")
    assert sandbox.user.name == "root" or entry["backend"] == "fuse"
    assert entry["store"] == sandbox.store and entry["uid"] == sandbox.user.uid
    assert entry["records"] > 0 and entry["lost"] == 0 and entry["error"] is None
    assert answer["index"]["files"] == 2 and answer["index"]["left_out"]["size"] == 1
    assert answer["store"]["path"] == sandbox.store and answer["store"]["bytes"] > 4096
    text = shfs("status", check=False).stdout
    assert "~/project" in text and "larger than" in text
    assert all(len(line) <= 80 for line in text.splitlines()), text


def test_status_tells_config_errors(sandbox, shfs, mounted_cli):
    path = sandbox.home + "/.config/shfs/config.ini"
    sandbox.write_outside(path, "[archive]\nmax-size = 1M\nmax-sise = 2M\n")
    status = shfs("status", check=FAILURE)
    assert re.search(r"^! .*config\.ini:3: .*max-sise", status.stdout, re.M), status
    assert re.search(r"fail  .*config\.ini:3:", shfs("doctor", check=FAILURE).stdout)


def test_status_shows_alerts_escaped(sandbox, shfs, mounted_cli):
    path = sandbox.store + "/state/alert-elsewhere"
    sandbox.write_outside(path, b"shfs: not recording in /data\x1b[2J: disk gone\n")
    status = shfs("status", check=FAILURE)
    assert r"! not recording in /data\e[2J: disk gone" in status.stdout


@pytest.mark.both
def test_doctor_on_a_sound_machine(sandbox, shfs, mounted_cli):
    sandbox.write_outside(sandbox.home + "/.bashrc", 'eval "$(shfs init bash)"\n')
    doctor = shfs("doctor")
    assert "fail" not in doctor.stdout
    assert "ok    bash: ~/.bashrc loads the hook" in doctor.stdout
    assert "ok    the store ~/.local/share/shfs is yours alone" in doctor.stdout
    checks = json.loads(shfs("doctor", "--json").stdout)
    assert checks["ok"] and {"check", "level", "text", "fix"} == set(checks["checks"][0])


def test_doctor_names_the_line_that_lacks(sandbox, shfs):
    sandbox.write_outside(sandbox.home + "/.bashrc", '# eval "$(shfs init bash)"\n')
    doctor = shfs("doctor").stdout
    assert "warn  bash: ~/.bashrc does not load the hook" in doctor
    assert "fix: echo 'command -v shfs >/dev/null && eval \"$(shfs init bash)\"' >>" in doctor


def test_damaged_index(sandbox, shfs, mounted_cli):
    sandbox.write("file", b"text")
    shfs("sync")

    def doctor_finds_damage():
        for name in "index.db-wal", "index.db-shm":
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{sandbox.store}/{name}")
        with open(f"{sandbox.store}/index.db", "r+b") as index:
            index.write(b"nonsense" * 64)
        doctor = shfs("doctor", check=False)
        return doctor.status == FAILURE and "fail  the index is damaged" in doctor.stdout

    # the ingest in the background may just be writing there, too
    wait_until(doctor_finds_damage, "the damage to be found")
    status = shfs("status", check=FAILURE)
    assert "! the index cannot be used" in status.stdout and "reindex" in status.stderr
    result = shfs("reindex")
    assert re.match(r"\d+ records: 0 commands, \d+ access(es)?, 1 version \(", result.stdout)
    assert shfs("cat", "file").stdout == "text"
    sandbox.allow_log("not up to date")


def test_sync_makes_all_visible(sandbox, shfs, mounted_cli):
    sandbox.write("file", b"text")
    shfs("sync")
    assert query(sandbox, "SELECT count(*) FROM v_version") == [1]
