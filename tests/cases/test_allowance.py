# SPDX-License-Identifier: MIT
"""What other users write in a mount of root is archived in root's store, but not without bound."""

import json
import os
import stat

import pytest

pytestmark = [pytest.mark.users("root"), pytest.mark.backends()]

OTHER = 12345
MIB = 1 << 20
WHY = "its user had used up what is archived for other users that day"


@pytest.fixture
def mounted(sandbox):
    os.makedirs(f"{sandbox.home}/.config/shfs", exist_ok=True)
    sandbox.write_outside(f"{sandbox.home}/.config/shfs/config.ini", "[archive]\nother-users = 3584K\n")
    path = sandbox.project
    while path != "/":  # the other one comes to it
        os.chmod(path, stat.S_IMODE(os.stat(path).st_mode) | 0o755)
        path = os.path.dirname(path)
    sandbox.write("roots", "x\n")
    os.chmod(f"{sandbox.project}/roots", 0o666)
    os.mkdir(f"{sandbox.project}/his")
    os.chmod(f"{sandbox.project}/his", 0o777)
    mounted = sandbox.mount()
    yield mounted
    mounted.unmount()


def as_other(sandbox, script, uid=OTHER):
    return sandbox.run("setpriv", "--reuid", str(uid), "--regid", str(uid), "--clear-groups", "sh", "-c", script)


def archived(sandbox, path):
    """Of its last version: is its content there, else why not."""
    versions = json.loads(sandbox.shfs("log", "--json", path).stdout)["versions"]
    return max(versions, key=lambda version: version["n"])["not_archived"] or True


def make(name):
    return f"head -c {MIB} /dev/urandom > {name}; "


def test_a_bound_for_each(sandbox, mounted, backend):
    for name in [f"his/f{n}" for n in range(6)] + ["roots"]:
        as_other(sandbox, make(name))
        sandbox.shfs("sync")
    as_other(sandbox, make("his/h"), uid=OTHER + 1)
    as_other(sandbox, make("his/g"), uid=0)
    sandbox.shfs("sync")
    told = [archived(sandbox, f"his/f{n}") for n in range(6)]
    # without FUSE a file may be read twice while it is made
    there = told.count(True)
    assert there in ([4] if backend == "fuse" else [2, 3, 4])
    assert told == there * [True] + (6 - there) * [WHY]
    assert archived(sandbox, "roots") == WHY, "by who writes, not by whose file it is"
    assert archived(sandbox, "his/g") is True, "root has no bound"
    # what is wrong with other mounts of root is no matter
    status = json.loads(sandbox.shfs("status", "--json", check=False).stdout)
    assert status["index"]["left_out"]["user"] >= 3


def test_what_is_there_already_is_free(sandbox, mounted):
    as_other(sandbox, make("his/first") + "for n in $(seq 10); do cp his/first his/f$n; done")
    sandbox.shfs("sync")
    assert all(archived(sandbox, f"his/f{n}") is True for n in range(1, 11))
