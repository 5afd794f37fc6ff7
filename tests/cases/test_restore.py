# SPDX-License-Identifier: MIT
"""What restore keeps of the file that it replaces: owner, ACL, extended attributes."""

import json
import os
import socket
import sqlite3
import stat
import subprocess

import pytest

import harness
from harness import wait_until

SHFS = os.path.join(harness.PREFIX, "bin/shfs")
NAMES = "user.", "security.", "trusted.", "system.posix_acl_access"


def attributes(sandbox, name):
    """The extended attributes of a file, seen by its user."""
    result = sandbox.run("getfattr", "-d", "-m", "-", "-e", "hex", "--absolute-names", name)
    lines = result.stdout.splitlines()
    return {n: v for n, _, v in (line.partition("=") for line in lines) if n.startswith(NAMES)}


def acl(sandbox, name):
    return sorted(sandbox.run("getfacl", "-cpE", name).stdout.split())


def change(sandbox, name="file"):
    for text in "v1", "v2":
        sandbox.write(name, text)


def lower(sandbox, mount, *argv):
    """Where the mount is not, as root: what its user may not do."""
    if os.geteuid() != 0:
        pytest.skip("needs root to give an attribute that its owner may not")
    mount.unmount()
    subprocess.run(argv, check=True)


@pytest.fixture(params=[True, False], ids=["mounted", "beside the mount"])
def changed(request, sandbox, shfs):
    """A file with two versions, in a project that is mounted, or was."""
    mount = sandbox.mount()
    change(sandbox)
    if not request.param:
        mount.unmount()
    return sandbox


def test_attributes_and_acl(changed, shfs):
    long = "x" * 3000
    changed.sh(f"""
        setfattr -n user.key -v 1 file && setfattr -n user.empty file
        setfattr -n user.long -v {long} file
        setfattr -n 'user.odd name' -v '0x00ff0a' file
        setfacl -m u:nobody:r,g:daemon:rw file && chmod g-w file
    """)
    if changed.user.uid == 0:
        changed.run("setfattr", "-n", "trusted.key", "-v", "2", "file")
    before, rights = attributes(changed, "file"), acl(changed, "file")
    assert len(before) >= 5 and "user:nobody:r--" in rights
    shfs("restore", "file@1")
    assert changed.read("file") == b"v1"
    assert attributes(changed, "file") == before
    assert acl(changed, "file") == rights
    assert ".shfs-restore" not in changed.sh("ls -A").stdout


def test_mode_of_the_version_and_acl(changed, shfs):
    """The permission bits are the version's: with an ACL, the bits of the group are its mask."""
    changed.sh("setfacl -m u:nobody:rwx file")
    shfs("restore", "file@1")
    assert "mask::r--" in acl(changed, "file") and "user:nobody:rwx" in acl(changed, "file")


def test_no_acl_is_inherited(changed, shfs):
    """A file that has no ACL does not get that which the directory gives to new ones."""
    changed.sh("setfacl -d -m u:nobody:rwx . && setfacl -b file")
    before = acl(changed, "file")
    shfs("restore", "file@1")
    assert acl(changed, "file") == before and not any("nobody" in e for e in before)
    changed.run("rm", "file")
    shfs("restore", "file@1")
    assert any("nobody" in e for e in acl(changed, "file")), "a file that is new gets it"


@pytest.mark.users("root")
def test_capabilities_are_not_kept(changed, shfs):
    changed.sh("setcap cap_net_raw+ep file")
    assert "security.capability" in attributes(changed, "file")
    assert shfs("restore", "file@1").stderr == ""
    assert "security.capability" not in attributes(changed, "file")


@pytest.mark.users("ordinary")
def test_what_cannot_be_copied(sandbox, mount, shfs):
    mounted = mount()
    change(sandbox)
    path = os.path.join(sandbox.project, "file")
    lower(sandbox, mounted, "setfattr", "-n", "security.\x1bshfs", "-v", "1", path)
    sandbox.sh("setfattr -n user.key -v 1 file")
    before = os.stat(path)
    result = shfs("restore", "file@1", check=4)
    assert "--force" in result.stderr and "Operation not permitted" in result.stderr
    assert "security." in result.stderr and "\x1b" not in result.stderr
    after = os.stat(path)
    assert (before.st_ino, before.st_ctime_ns) == (after.st_ino, after.st_ctime_ns)
    assert sandbox.read("file") == b"v2" and os.listdir(sandbox.project) == ["file"]
    result = shfs("restore", "--force", "file@1")
    assert "lost extended attributes: " in result.stdout and "\x1b" not in result.stdout
    assert sandbox.read("file") == b"v1"
    assert attributes(sandbox, "file") == {"user.key": "0x31"}


@pytest.mark.users("ordinary")
def test_unreadable_file(changed, shfs):
    """What cannot be read cannot be compared: only --force replaces it, and says what is lost."""
    changed.sh("setfattr -n user.key -v 1 file && chmod 0200 file")
    shfs("restore", "file@1", check=4)
    result = shfs("restore", "--force", "file@1")
    assert "user.key" in result.stdout and "Permission denied" in result.stdout
    assert changed.read("file") == b"v1"


def test_no_right_is_gained(sandbox, mount, shfs):
    """Set-id bits and the sticky one are not put back, whoever restores."""
    modes = [special | rest for special in range(0o1000, 0o10000, 0o1000) for rest in (0o777, 0o755, 0o711, 0o640, 0o400)]
    mounted = mount()
    sandbox.sh("".join(f"echo {mode} > {mode:o}; chmod {mode:o} {mode:o}\n" for mode in modes), timeout=60)
    mounted.unmount()
    sandbox.sh("chmod u+w *; for i in *; do echo other > $i; done; rm -f *5")
    shfs("restore", "--force", *[f"{mode:o}@1" for mode in modes], timeout=60)
    for mode in modes:
        assert os.stat(f"{sandbox.project}/{mode:o}").st_mode & 0o7777 == mode & 0o777, oct(mode)


def make_socket(path):
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(path)


THINGS = {
    "directory": os.mkdir,
    "pipe": os.mkfifo,
    "socket": make_socket,
    "device": lambda path: os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3)),
}


def test_what_is_no_file_stays(sandbox, mount, shfs):
    """Also with --force."""
    mounted = mount()
    sandbox.sh("echo 1 > file")
    mounted.unmount()
    path = f"{sandbox.project}/file"
    for name in sorted(set(THINGS) - ({"device"} if sandbox.user.uid else set())):
        os.rename(path, f"{path}-before-{name}")
        THINGS[name](path)
        sandbox.user.own(path)
        before = os.lstat(path)
        assert "is not a regular file" in (told := shfs("restore", "--force", "file@1", check=4).stderr) or "is a directory" in told
        after = os.lstat(path)
        assert (before.st_ino, before.st_mode, before.st_ctime_ns) == (after.st_ino, after.st_mode, after.st_ctime_ns), name


@pytest.mark.users("ordinary")
def test_changed_while_it_is_restored(sandbox, mount):
    """What is there when the new file takes its place is not what was looked at: it stays."""
    mounted = mount()
    change(sandbox)
    mounted.unmount()
    argv = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=fchmod", "-e", "inject=fchmod:delay_enter=1000000"]
    env = {"ASAN_OPTIONS": sandbox.env["ASAN_OPTIONS"] + ":detect_leaks=0"}  # it is traced
    process = sandbox.popen([*argv, SHFS, "restore", "file@1"], env=env, stderr=subprocess.PIPE)
    wait_until(lambda: [n for n in os.listdir(sandbox.project) if n.startswith(".shfs-restore-")], "the new file")
    sandbox.write("file", "mine")
    said = process.communicate(timeout=20 * harness.PATIENCE)[1]
    assert process.returncode == 4 and b"changed meanwhile" in said, said
    assert sandbox.read("file") == b"mine" and os.listdir(sandbox.project) == ["file"]


@pytest.mark.users("ordinary")
def test_paths_that_lead_out(sandbox, mount, shell, shfs):
    """Of an index that somebody has changed: nothing is written where they lead."""
    mounted = mount()
    bash = shell()
    bash.run("mkdir d; echo 1 > d/file")
    [command] = json.loads(shfs("history", "--json").stdout)["commands"]
    bash.close()
    mounted.unmount()
    outside = sandbox.mkdir(f"{sandbox.home}/outside")
    last = f"{sandbox.project}/d"
    for way in "..", "../outside", "d/../../outside", ".", f"/{outside}", "../../outside/.":
        with sqlite3.connect(f"{sandbox.store}/index.db") as database:
            changed = database.execute("UPDATE directory SET path = ? WHERE path = ?", (f"{sandbox.project}/{way}", last))
            assert changed.rowcount == 1
        database.close()
        last = f"{sandbox.project}/{way}"
        for to in [], ["--to", f"{sandbox.home}/to/there"]:
            assert shfs("restore", "--force", "--command", command["id"], *to, check=False).status in (1, 3, 4), way
        assert [top for top, _, names in os.walk(sandbox.home) if "file" in names] == [f"{sandbox.project}/d"], way


# Where the first argument was there is a link to somewhere else, and the other way round, again and again.
RACER = r"""
import ctypes, os, random, sys, time
libc = ctypes.CDLL(None)
a, b = (os.fsencode(path) for path in sys.argv[1:])
print("races", flush=True)
while os.getppid() != 1:
    libc.renameat2(-100, a, -100, b, 2)
    time.sleep(random.random() / 1000)
"""


@pytest.mark.users("ordinary")
@pytest.mark.parametrize("target", ["directory", "file"])
def test_links_put_in_the_way(sandbox, mount, shfs, target):
    """Meanwhile: nothing is written behind them."""
    rounds, names = 5000 if "SHFS_TEST_LONG" in os.environ else 20, [f"d/{i}" for i in range(10)]
    mounted = mount()
    sandbox.sh("mkdir d; for n in old new; do for i in $(seq 0 9); do echo $n $i > d/$i; done; done")
    mounted.unmount()
    outside = sandbox.mkdir(f"{sandbox.home}/outside")
    for name in names:
        sandbox.write_outside(f"{outside}/{os.path.basename(name)}", b"theirs\n")
    before = tree(outside)
    swapped = f"{sandbox.project}/d" if target == "directory" else f"{sandbox.project}/d/7"
    os.symlink(outside if target == "directory" else f"{outside}/7", f"{sandbox.project}/link")
    os.lchown(f"{sandbox.project}/link", sandbox.user.uid, sandbox.user.gid)
    argv = ["/usr/bin/python3", "-c", RACER, swapped, f"{sandbox.project}/link"]
    racer = sandbox.popen(argv, stdout=subprocess.PIPE)
    try:
        racer.stdout.readline()
        done = refused = 0
        for n in range(rounds):
            name = names[7] if target == "file" else names[n % 10]
            result = shfs("restore", "--force", f"{name}@{1 + n // 10 % 2}", cwd=sandbox.project, check=False)
            assert result.status in (0, 1, 4), result
            done += len(result.stdout.splitlines())
            refused += len(result.stderr.splitlines())
            assert tree(outside) == before
    finally:
        racer.kill()
        racer.communicate()
    print(f"{target}: {done} restored, {refused} not")
    assert done and (refused or target == "file")


def tree(top):
    return sorted((e.name, e.stat().st_ino, e.stat().st_mtime_ns, e.stat().st_ctime_ns, open(e.path, "rb").read())
                  for e in os.scandir(top))


@pytest.mark.users("ordinary")
def test_what_cannot_be_restored_is_said_once(sandbox, mounted, shfs):
    sandbox.sh("echo 1 > f; echo 2 > f; dd if=/dev/zero of=large bs=1M count=17 2>/dev/null; echo 3 > large")
    shfs("sync")
    for more in [], ["-n"]:
        told = shfs("restore", *more, "large@1", "f@1", check=1).stderr
        assert told.count("large@1 is not archived") == 1, told


# --- links on the way to what is named ---


@pytest.mark.users("ordinary")
def test_links_of_others_are_not_followed(sandbox, mounted, shfs):
    """What is written by name goes where one says, not where somebody else's link leads; restore --to goes through
    none at all."""
    sandbox.sh("echo 1 > f; echo 2 > f")
    shfs("sync")
    aside = sandbox.mkdir(f"{sandbox.home}/aside")
    victim = sandbox.write_outside(f"{sandbox.home}/victim", "precious\n")
    for name, to in ("theirs", aside), ("theirs.txt", victim), ("own", aside), ("own.txt", victim):
        link = f"{sandbox.path}/{name}"
        os.symlink(to, link)
        uid = 65534 if name.startswith("theirs") else sandbox.user.uid
        os.lchown(link, uid, -1)
    theirs = f"{sandbox.path}/theirs"
    for argv in (
        ["export", "json", "-f", "-o", theirs + ".txt", "f"], ["export", "json", "-f", "-o", theirs + "/new", "f"],
        ["export", "ro-crate", "-o", theirs + "/new", "f"], ["export", "tar", "-f", "-o", theirs + ".txt"],
        ["export", "tar", "-o", theirs + "/new"], ["map", "-f", "-o", theirs + ".txt"],
    ):  # fmt: skip
        assert "symbolic link of another user" in shfs(*argv, check=1).stderr, argv
    for to in theirs, theirs + "/", theirs + "/new", f"{sandbox.path}/own/new", f"{sandbox.path}/own":
        for more in [], ["--force"]:
            assert "symbolic link" in shfs("restore", "f@1", "--to", to, *more, check=4).stderr
    assert os.listdir(aside) == [] and sandbox.read(victim) == b"precious\n"
    # one's own are where one wants them, and so is where one stands
    shfs("export", "json", "-f", "-o", f"{sandbox.path}/own.txt", "f")
    assert sandbox.read(victim).startswith(b"{")
    shfs("export", "json", "-o", f"{sandbox.path}/own/new", "f")
    shfs("restore", f"{sandbox.project}/f@1", "--to", "here", cwd=f"{sandbox.path}/own", env={"PWD": f"{sandbox.path}/own"})
    assert sorted(os.listdir(aside)) == ["here", "new"]
    assert sandbox.sh("shfs export json -f -o /dev/stdout f | cat").stdout.startswith("{")
