# SPDX-License-Identifier: MIT
"""What surrounds the start of a mount does not get into it, and what a file system below allows
to whom stays so."""

import contextlib
import os
import resource
import socket
import struct
import subprocess

import pytest

import harness
from harness import wait_until

REFUSED = 4
SHFS = os.path.join(harness.PREFIX, "bin/shfs")
FUSE = os.path.join(harness.PREFIX, "libexec/shfs/shfs-fuse")


@pytest.fixture
def small_disk(sandbox):
    """A small ext4 of its own, for what the file system of the tests may not have."""
    with harness.disk(sandbox, 64, "-m", "20") as where:
        yield where


# --- the process that mounts ---


def test_many_mounts_at_once_are_one(sandbox, shfs, project):
    started = [
        sandbox.popen([SHFS, "mount", project], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(8)
    ]
    said = [p.communicate(timeout=60 * harness.PATIENCE)[0] for p in started]
    assert [p.returncode for p in started] == 8 * [0]
    assert sum(b"is now recorded" in text for text in said) >= 1
    assert harness.mounts_below(project) == [project]
    shfs("umount", project)


def of_locks(uid):
    """Names in the abstract namespace, which anybody may take first."""
    with open("/proc/net/unix", encoding="ascii") as lines:
        return {line.split("@")[1].strip() for line in lines if f"@shfs-{uid}-" in line}


@pytest.mark.users("ordinary")
def test_locks_that_another_user_took(sandbox, shfs, project):
    """They make who waits for them late, and nothing else."""
    with contextlib.ExitStack() as taken:

        def take(name):
            held = taken.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
            held.bind(f"\0{name}")

        shfs("mount", project, cwd="/")
        sandbox.write("f", b"1")
        shfs("sync")
        names = of_locks(sandbox.user.uid)
        assert any("-pack-" in name for name in names) and any("-ingest-" in name for name in names)
        shfs("umount", project, cwd="/")
        wait_until(lambda: not names & of_locks(sandbox.user.uid), "the locks")
        below = os.stat(project)
        for name in names | {f"shfs-{sandbox.user.uid}-mount-{below.st_dev}-{below.st_ino}"}:
            take(name)
        shfs("mount", project, cwd="/", timeout=30)
        sandbox.write("f", b"22")
        assert shfs("cat", "f@1", "f@2").stdout == "122"
        shfs("reindex")
        shfs("prune", "--keep-last", "1")
        assert shfs("cat", "f@2").stdout == "22" and "pruned" in shfs("cat", "f@1", check=1).stderr
        shfs("umount", project, cwd="/")
        shfs("check", "--read-data")


def test_mount_keeps_no_descriptor_of_its_caller(sandbox, shfs, project):
    script = f'exec 9>"{sandbox.path}/lock" 7>&1; flock 9; "{SHFS}" mount .'
    open(f"{sandbox.path}/lock", "w").close()
    sandbox.user.own(f"{sandbox.path}/lock")
    # run() reads until the pipe that fd 7 is has no writer
    sandbox.run("bash", "-c", script, timeout=20)
    sandbox.run("flock", "-n", f"{sandbox.path}/lock", "true")
    shfs("umount", project)


def limited(sandbox, which, soft, hard, *argv):
    program = (
        "import resource, subprocess, sys\n"
        f"resource.setrlimit({which}, ({soft}, {hard}))\n"
        "sys.exit(subprocess.run(sys.argv[1:]).returncode)\n"
    )
    return sandbox.run("/usr/bin/python3", "-c", program, *argv, check=False)


@pytest.mark.users("ordinary")
@pytest.mark.parametrize("option, which", [("-f", resource.RLIMIT_FSIZE), ("-t", resource.RLIMIT_CPU)])
def test_limits_of_the_caller_are_not_everybodys(sandbox, shfs, project, option, which):
    result = limited(sandbox, which, 100, 100, SHFS, "mount", project)
    assert result.status == REFUSED
    assert f"(ulimit {option})" in result.stderr and len(result.stderr.splitlines()) == 1
    assert not harness.mounts_below(project)

    infinite = resource.RLIM_INFINITY
    result = limited(sandbox, which, 100, infinite, SHFS, "mount", project)
    assert result.status == 0, result
    sandbox.write("large", bytes(100 << 10))
    assert len(sandbox.read("large")) == 100 << 10
    shfs("umount", project)


# --- .shfsignore ---


def test_ignore_file_that_is_none(sandbox, shfs, mounted):
    """A FIFO, a link, a directory: not followed, said so, and nothing waits for it."""
    sandbox.write("rules", b"*.secret\n")
    for make, name in [
        ("mkfifo x", "FIFO"),
        ("ln -s rules x", "link"),
        (f"ln -s {mounted.directory}/rules x", "absolute link"),
        ("mkdir x", "directory"),
    ]:
        sandbox.sh(f"{make} && mv x .shfsignore && echo {name} > file && cat file", timeout=20)
        assert int(mounted.status()["rules_error"]) < 0, name
        told = shfs("status", check=1).stdout
        assert "! ~/project: .shfsignore is not followed: it is no plain file" in told
        sandbox.sh("rm -r .shfsignore")
        assert mounted.status()["rules_error"] == "0"
    sandbox.allow_log(r"\.shfsignore is not followed")


def test_ignore_file_that_cannot_be_read_is_told(sandbox, shfs, project):
    sandbox.write(".shfsignore", b"#" * (2 << 20))
    result = shfs("mount", project)
    assert ".shfsignore is not followed" in result.stderr
    sandbox.allow_log(r"\.shfsignore is not followed")
    shfs("umount", project)


def test_a_broken_ignore_file_leaves_the_rules(sandbox, shfs, mounted):
    sandbox.sh("echo '*.key' > .shfsignore; echo a > one.key; truncate -s 2M .shfsignore; echo b > two.key")
    sandbox.allow_log(r"\.shfsignore is not followed")
    mounted.unmount()
    for name in "one.key", "two.key":
        assert "excluded by a rule" in shfs("log", name).stdout


def test_rules_hold_from_their_close_on(sandbox, shfs, mounted):
    script = 'for i in $(seq 100); do echo "/f$i" >> .shfsignore; echo secret > f$i; done'
    sandbox.sh(script, timeout=60)
    mounted.unmount()
    kept = [i for i in range(1, 101) if shfs("cat", f"f{i}@1", check=False).status == 0]
    assert not kept


def test_rules_by_a_link(sandbox, shfs, mounted):
    sandbox.sh("echo '/secret*' > rules; ln rules .shfsignore; echo x > secret1")
    sandbox.shfs("sync")  # the kernel tells of the last close a moment later
    sandbox.sh("echo '/hidden*' > rules; echo x > hidden; echo y > secret2")
    mounted.unmount()
    assert shfs("cat", "secret1@1", check=False).status != 0
    assert shfs("cat", "hidden@1", check=False).status != 0
    assert shfs("cat", "secret2@1").stdout == "y\n"


# --- whose file system it is ---


def acl(*entries):
    """The value of system.posix_acl_access: (tag, permissions, id) each."""
    value = struct.pack("<I", 2)
    for tag, perm, who in entries:
        value += struct.pack("<HHI", tag, perm, who & 0xFFFFFFFF)
    return value


@pytest.mark.users("ordinary")
def test_access_that_an_acl_gives(sandbox, project):
    if os.geteuid() != 0:
        pytest.skip("needs root to give a file to another")
    path = os.path.join(project, "shared")
    with open(path, "w", encoding="ascii") as out:
        out.write("text")
    os.chmod(path, 0o600)  # root's
    user_obj, user, group_obj, mask, other = 1, 2, 4, 0x10, 0x20
    uid = sandbox.user.uid
    try:
        os.setxattr(
            path,
            "system.posix_acl_access",
            acl((user_obj, 6, -1), (user, 6, uid), (group_obj, 0, -1), (mask, 6, -1), (other, 0, -1)),
        )
    except OSError as error:
        pytest.skip(f"the file system has no ACLs: {error}")
    sandbox.sh("cat shared; echo more >> shared")
    mount = sandbox.mount()
    sandbox.sh("cat shared; echo more >> shared")
    mount.unmount()
    assert sandbox.read("shared") == b"textmore\nmore\n"


@pytest.mark.users("root")
def test_files_that_can_only_grow(sandbox, small_disk):
    os.mkdir(f"{small_disk}/p")
    log = f"{small_disk}/p/log"
    subprocess.run(["sh", "-c", 'echo one > "$1" && chattr +a "$1"', "sh", log], check=True)
    mount = sandbox.mount(f"{small_disk}/p")
    try:
        sandbox.run("sh", "-c", 'echo two >> "$1"', "sh", log)
        assert sandbox.run("sh", "-c", 'echo three > "$1"', "sh", log, check=False).status != 0
        mount.unmount()
    finally:
        subprocess.run(["chattr", "-a", log], check=True)
    with open(log, encoding="ascii") as text:
        assert text.read() == "one\ntwo\n"


def fill_as_nobody(where):
    script = "import os, sys\nos.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
    script += "fd = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY, 0o644); n = 0\n"
    script += "try:\n while True: n += os.write(fd, bytes(1 << 16))\nexcept OSError: print(n)\n"
    argv = ["/usr/bin/python3", "-c", script, f"{where}/fill"]
    done = subprocess.run(argv, stdout=subprocess.PIPE, check=True)
    os.unlink(f"{where}/fill")
    return int(done.stdout)


@pytest.mark.users("root")
def test_reserved_blocks_stay_reserved(sandbox, small_disk):
    project = f"{small_disk}/p"
    os.mkdir(project)
    os.chmod(project, 0o777)
    beneath = fill_as_nobody(project)
    mount = sandbox.mount(project)
    above = fill_as_nobody(project)
    mount.unmount()
    assert above <= beneath + (1 << 20)


@pytest.mark.users("root")
def test_names_of_trusted_attributes_are_roots(sandbox, small_disk):
    project = f"{small_disk}/p"
    os.mkdir(project)
    with open(f"{project}/file", "wb"):
        pass
    os.setxattr(f"{project}/file", "trusted.one", b"1")
    os.setxattr(f"{project}/file", "user.two", b"2")
    mount = sandbox.mount(project)
    assert sorted(os.listxattr(f"{project}/file")) == ["trusted.one", "user.two"]
    script = "import os, sys\nos.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
    script += "print(*os.listxattr(sys.argv[1]))"
    argv = ["/usr/bin/python3", "-c", script, f"{project}/file"]
    done = subprocess.run(argv, stdout=subprocess.PIPE, check=True)
    assert done.stdout.split() == [b"user.two"]
    mount.unmount()
