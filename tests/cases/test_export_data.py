# SPDX-License-Identifier: MIT
"""export: what is only fingerprinted, and is taken along; and what was exported, tried at once."""

import os

import pytest

from exports import Export, empty, same
from harness import contents

pytestmark = pytest.mark.either


@pytest.fixture
def study(work):
    return work


@pytest.fixture
def sh(sandbox):
    return Export(sandbox, "sh")


@pytest.fixture
def raw(sandbox, mount, shell):
    """Many inputs that were only read, and what was made of them."""
    for n in range(40):
        sandbox.write_outside(f"{sandbox.project}/raw/{n}.txt", f"{n}\n" * n)
    mount()
    bash = shell()
    bash.run("cat raw/?.txt raw/??.txt > all; sort -rn all > top")
    return bash


@pytest.mark.users("ordinary")
@pytest.mark.parametrize("name", ["sh", "make"])
def test_with_data(raw, sandbox, name):
    export = Export(sandbox, name)
    told = export.text("top").stderr
    assert told.count("warning") == 1 and "40 files, as " in told and "--with-data takes them along" in told
    assert "name it with -o" in sandbox.shfs("export", "--with-data", name, "top", check=2).stderr
    path = os.path.join(sandbox.path, "taken")
    told = sandbox.shfs("export", "--with-data", "-o", path, name, "top").stderr
    assert not told
    assert len(contents(f"{path}.data")) == 40 and contents(f"{path}.data")["raw/7.txt@1"] == b"7\n" * 7
    raw.run("rm -r raw")
    same(sandbox, export.start(path, empty(sandbox, "first"), True), "top", "all")
    os.rename(f"{path}.data", f"{path}.moved")
    done = sandbox.run("env", f"SHFS_DATA={path}.moved", *(["bash", path, empty(sandbox)] if name == "sh" else
                       ["make", "-f", path]), cwd=empty(sandbox, "third"))
    assert done.status == 0


@pytest.mark.users("ordinary")
def test_crates_with_data(raw, sandbox):
    path = os.path.join(sandbox.path, "crate")
    told = sandbox.shfs("export", "-o", path, "ro-crate", "top", check=3).stderr
    assert told.count("warning") == 1 and "40 files, as " in told and "--with-data takes them along" in told
    assert "files/raw/7.txt" not in contents(path)
    path += "-with"
    assert not sandbox.shfs("export", "--with-data", "-o", path, "ro-crate", "top").stderr
    found = contents(path)
    assert found["files/raw/7.txt"] == b"7\n" * 7 and len([n for n in found if n.startswith("files/raw/")]) == 40
    with open(os.path.join(path, "ro-crate-metadata.json"), encoding="utf-8") as file:
        assert "not in the crate" not in file.read()
    path += "-workflow"
    sandbox.shfs("export", "--with-data", "--verify", "-o", path, "workflow-crate", "top", timeout=90)
    raw.run("rm -r raw")
    top = empty(sandbox)
    cwltool = ["cwltool", "--quiet", "--preserve-entire-environment", "--outdir", top, f"{path}/workflow.cwl"]
    sandbox.run(*cwltool, cwd=top, env={"SHFS_STORE": "/nonexistent"}, timeout=60)
    same(sandbox, contents(f"{top}/results"), "top")


@pytest.mark.users("ordinary")
def test_what_was_lost_is_told(raw, sandbox, sh):
    """Changed where nobody saw it, so that no archive has it."""
    raw.run("cd /")
    sandbox.mounts[0].unmount()
    sandbox.write_outside(f"{sandbox.project}/raw/7.txt", "other\n")
    told = sh.text(f"{sandbox.project}/top", check=3, cwd="/").stderr
    assert "raw/7.txt@1 is not archived, and is not there any more: this is not complete" in told
    path = os.path.join(sandbox.path, "taken")
    told = sandbox.shfs("export", "--with-data", "-o", path, "sh", "top", check=3).stderr
    assert told.count("warning") == 1 and "raw/7.txt@1" in told and len(contents(f"{path}.data")) == 39
    done = sandbox.run("bash", path, empty(sandbox), cwd="/", check=1)
    assert "raw/7.txt is not archived, and not the same any more" in done.stderr


@pytest.mark.users("ordinary")
def test_verify(study, sandbox):
    study.run("sh run.sh; sort -rn out.csv > top")
    study.run("date +%N > now; cat top now > end")
    for name in "sh", "make":
        done = sandbox.shfs("export", "--verify", name, "top")
        assert "top@1 comes out the same" in done.stderr and "SHFS_STORE" in done.stdout
        path = os.path.join(sandbox.path, name)
        done = sandbox.shfs("export", "--verify", "-o", path, name, "out.csv", "end", check=1)
        assert "out.csv@1 comes out the same" in done.stdout and "end@1 comes out with other bytes" in done.stderr
        assert os.path.exists(path)
    study.run("[ -e ~/project/config.yaml ] && cat top > last".replace("~/project/", "../project/"))
    assert "it failed: bash ended with 1" in sandbox.shfs("export", "--verify", "sh", "last", check=1).stderr
    assert "not made to be run" in sandbox.shfs("export", "--verify", "dot", "top", check=2).stderr
    for name in "cwl", "snakemake":
        assert "top@1 comes out the same" in sandbox.shfs("export", "--verify", name, "top", timeout=60).stderr
    assert not [n for n in os.listdir(f"{sandbox.path}/tmp") if n.startswith("shfs-verify")]
