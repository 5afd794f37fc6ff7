# SPDX-License-Identifier: MIT
"""What restore keeps of the file that it replaces: owner, ACL, extended attributes."""

import os
import subprocess

import pytest

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
