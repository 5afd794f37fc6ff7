# SPDX-License-Identifier: MIT
"""shfs export tar and shfs import: a store, or a part of it, in another store; and archives of a stranger."""

import glob
import io
import json
import os
import random
import signal
import tarfile

import pytest

from harness import wait_until
from test_check import flip
from test_forget import CALLS, SECRET, commands, shfs, snapshot, state, unzstd, work
from test_mount_cli import pids_of

assert shfs and work  # fixtures
FLIPS = int(os.environ.get("SHFS_TEST_FLIPS", "12"))


@pytest.fixture
def archive(work, sandbox, shfs):
    path = f"{sandbox.home}/all.tar.zst"
    shfs("export", "tar", "-o", path)
    return path


@pytest.fixture
def other(sandbox):
    """Another store."""
    return {"SHFS_STORE": f"{sandbox.home}/other"}


def in_other(sandbox, other):
    return lambda *args, **options: sandbox.shfs(*args, **{"cwd": "/", "env": other, **options})


def everything(shfs, sandbox):
    """All that one can ask: commands and what they used, versions and their contents."""
    found = {"commands": commands(shfs)}
    for name in sorted(os.listdir(sandbox.project)):
        log = json.loads(shfs("log", "--json", f"{sandbox.project}/{name}", check=False).stdout or "{}")
        found[name] = [
            {key: v[key] for key in ("n", "size", "object", "command")}
            | {"data": shfs("cat", f"{sandbox.project}/{name}@{v['n']}").stdout if v["object"] else None}
            for v in log.get("versions", [])
        ]
    return found


def read(path):
    with open(path, "rb") as file:
        return file.read()


def entries(archive):
    """Of its bytes, or its name."""
    data = archive if isinstance(archive, bytes) else read(archive)
    with tarfile.open(fileobj=io.BytesIO(unzstd(data))) as tar:
        return [(member, tar.extractfile(member).read()) for member in tar]


def write(path, members):
    """Members: (TarInfo or a name, data)."""
    with tarfile.open(path, "w") as tar:
        for info, data in members:
            if isinstance(info, str):
                info = tarfile.TarInfo(info)
            if info.isreg():
                info.size = len(data)
            tar.addfile(info, io.BytesIO(data) if info.isreg() else None)
    os.chmod(path, 0o644)
    return path


@pytest.mark.users("ordinary")
def test_all_of_it(archive, sandbox, shfs, other):
    there = in_other(sandbox, other)
    assert os.stat(archive).st_mode & 0o777 == 0o600 and "file" in shfs("export", "tar", "-o", archive, check=4).stderr.lower()
    before = everything(shfs, sandbox)
    dry = json.loads(there("import", "-n", "--json", archive).stdout)
    assert not dry["done"] and dry["files"] and not [n for _, _, names in os.walk(other["SHFS_STORE"]) for n in names
                                                     if ".seg" in n or ".new" in n or ".pack" in n]
    said = json.loads(there("import", "--json", archive).stdout)
    assert said["done"] and not said["files_known"] and not said["missing"] and said["objects"] > 5
    assert everything(there, sandbox) == before and len(before["a.txt"]) == 2
    there("reindex")
    assert everything(there, sandbox) == before
    again = json.loads(there("import", "--json", archive).stdout)
    assert again["files_known"] == again["files"] == said["files"]
    assert again["objects_known"] == again["objects"] == said["objects"]
    # to where it came from, and by a pipe
    same = sandbox.sh("shfs export tar | shfs import --json -", cwd="/")
    assert json.loads(same.stdout)["files_known"] == said["files"]
    # it says what it is
    found = entries(archive)
    assert found[0][0].name == "shfs/format" and found[0][1] == b"1\n"
    assert {m.name.split("/")[1] for m, _ in found[1:]} == {"journal", "objects", "trees"}
    assert SECRET + b"\n" in [data for m, data in found if "/objects/" in m.name]


@pytest.mark.users("ordinary")
def test_a_part(work, sandbox, shfs, other):
    """Of one file: nothing of the others, nor of commands that did not use it."""
    there, path = in_other(sandbox, other), f"{sandbox.home}/part.tar.zst"
    shfs("export", "tar", f"{sandbox.project}/long", "-o", path)
    text = b"".join(data for _, data in entries(path))
    for gone in b"a.txt", b"echo one", b"mysql", b"notes":
        assert gone not in text, gone
    assert b"seq 2000 > long" in text
    there("import", path)
    for n in 1, 2, 3:
        name = f"{sandbox.project}/long@{n}"
        assert there("cat", name).stdout == shfs("cat", name).stdout
    assert [c["text"] for c in commands(there)] == [c["text"] for c in commands(shfs) if "long" in c["text"]]
    assert there("log", f"{sandbox.project}/a.txt", check=3)
    # more parts, of the same segments and hook logs, become the whole
    shfs("export", "tar", f"{sandbox.project}/a.txt", "--force", "-o", path)
    there("import", path)
    assert there("cat", f"{sandbox.project}/a.txt@1").stdout == "one\n"
    assert there("cat", f"{sandbox.project}/long@1").stdout == shfs("cat", f"{sandbox.project}/long@1").stdout
    shfs("export", "tar", "--force", "-o", path)
    there("import", path)
    assert everything(there, sandbox) == everything(shfs, sandbox)
    assert shfs("export", "tar", "/nonexistent", "-o", f"{path}.2", check=3) and shfs("export", check=2)


@pytest.mark.users("ordinary")
def test_while_it_records(work, sandbox, shfs, mount, archive):
    """Nothing that a live recording has is replaced; what was forgotten comes back only to a store at rest."""
    before = state(sandbox, "no such secret")
    mounted = mount()
    sandbox.write("new", "new\n")
    shfs("import", archive)
    mounted.unmount()
    shfs("forget", "--grep", "seq 2000 > long", "--yes")
    mounted = mount()
    assert "records into the store" in shfs("import", archive, check=4).stderr
    mounted.unmount()
    shfs("import", archive)
    texts, contents = state(sandbox, "no such secret")
    assert contents.pop("new") == {b"new\n"}
    assert texts == before[0] and contents == before[1]


HOST = "shfs/journal/host/"


def link(name, kind, to):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, to
    return info


@pytest.mark.users("ordinary")
def test_of_a_stranger(archive, sandbox, shfs, other):
    there, members = in_other(sandbox, other), entries(archive)
    first, rest = members[0], members[1:]
    segment = next((m, d) for m, d in rest if m.name.endswith(".seg"))
    one = next((m, d) for m, d in rest if "/objects/" in m.name)
    path = f"{sandbox.path}/hostile.tar"
    home = set(os.listdir(sandbox.home))
    sandbox.mkdir(other["SHFS_STORE"], 0o700)

    def refused(changed, word):
        write(path, changed)
        result = there("import", path, check=1)
        assert word in result.stderr and "Sanitizer" not in result.stderr, result
        assert json.loads(there("history", "--json", "--all", check=3).stdout)["commands"] == []
        assert set(os.listdir(sandbox.home)) == home | {"other"}
        left = [n for _, _, names in os.walk(f"{other['SHFS_STORE']}/journal") for n in names if "shell-" not in n]
        assert not [n for n in left if n.endswith((".new", ".seg", ".zst", ".log"))], left

    for name in ("../x", "/tmp/x", "shfs/../x", "shfs/journal/../x.seg", f"{HOST}../x.seg", "shfs/journal/.x/a.seg",
                 f"{HOST}a.txt", f"{HOST}.a.seg", f"{HOST}a/b.seg", f"{HOST}a\n.seg", "shfs/journal/a.seg",
                 "shfs/objects/../../x", "shfs/objects/xyz", "shfs/objects/", "shfs/index.db", "other"):
        refused([first, (name, segment[1])], "no archive of shfs")
    for kind in tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.DIRTYPE:
        refused([first, (link(segment[0].name, kind, f"{sandbox.home}/x"), b"")], "no archive of shfs")
    refused([], "no archive of shfs")
    refused(rest, "no archive of shfs")
    refused([("shfs/format", b"2\n"), *rest], "another version of shfs made it")
    refused([first, segment, segment], "twice")
    refused([first, (segment[0].name, segment[1][:-3] + b"xyz")], "damaged")
    refused([first, (segment[0].name, b"")], "damaged")
    refused([first, (f"{HOST}shell-0-1-2.log", b"no log")], "damaged")
    refused([first, segment, (one[0].name, one[1] + b"x")], "damaged")
    refused([first, (one[0].name, b"")], "damaged")
    write(path, members)
    with tarfile.open(path) as tar:
        begins = [member.offset for member in tar]
    for cut in 512, 1000, 5000, os.stat(path).st_size // 2, *begins[1:], tar.offset:
        with open(path, "r+b") as file:
            data = file.read()
        with open(f"{path}.cut", "wb") as file:
            file.write(data[:cut])
        there("import", f"{path}.cut", check=1)
        assert json.loads(there("history", "--json", "--all", check=3).stdout)["commands"] == []
    assert there("import", "/nonexistent", check=1).stderr == "shfs: /nonexistent: No such file or directory\n"
    assert there("import", check=2)


@pytest.mark.users("ordinary")
def test_a_bomb(archive, sandbox, other):
    """Much in little, under a name that is not its own: nothing of it stays."""
    path = f"{sandbox.path}/bomb.tar.zst"
    head, tail = f"{path}.head", f"{path}.tail"
    write(head, entries(archive)[:1])
    info = tarfile.TarInfo("shfs/objects/" + "0" * 32)
    info.size = 1 << 30
    with open(tail, "wb") as file:
        file.write(info.tobuf())
    parts = f"head -c 1024 {head}; cat {tail}; head -c 1G /dev/zero; head -c 1024 /dev/zero"
    sandbox.run("sh", "-c", f"({parts}) | zstd -q > {path}; ls -s {path}", timeout=60)
    assert "damaged" in sandbox.shfs("import", path, cwd="/", env=other, check=1, timeout=60).stderr
    assert int(sandbox.run("du", "-s", other["SHFS_STORE"]).stdout.split()[0]) < 1000


@pytest.mark.users("ordinary")
def test_flipped_bits(archive, sandbox, shfs, other):
    """Each is found, or harms nobody: nothing is ever imported that was not written."""
    there, members, chance = in_other(sandbox, other), entries(archive), random.Random(7)
    path = f"{sandbox.path}/flipped.tar"
    good = everything(shfs, sandbox)
    found = 0
    for _ in range(FLIPS):
        write(path, members)
        with open(path, "r+b") as file:
            data = bytearray(file.read())
            at = chance.randrange(len(data))
            data[at] ^= 1 << chance.randrange(8)
            file.seek(0)
            file.write(data)
        sandbox.run("rm", "-rf", other["SHFS_STORE"])
        result = there("import", path, check=False)
        assert result.status in (0, 1) and "Sanitizer" not in result.stderr, (at, result)
        found += result.status
        if not result.status and result.stdout:
            # names of hosts, times and blanks of tar say nothing of what is inside; a hook log has no sums
            now = everything(there, sandbox)
            assert len(now["commands"]) <= len(good["commands"])
            for name in good.keys() - {"commands"}:
                assert {v["data"] for v in now[name]} <= {v["data"] for v in good[name]}, (at, name)
    assert found


@pytest.mark.users("ordinary")
def test_killed(archive, sandbox, shfs, other):
    there, good = in_other(sandbox, other), everything(shfs, sandbox)
    program, trace = sandbox.run("which", "shfs").stdout.strip(), f"{sandbox.path}/tmp/trace"
    env = {**other, "ASAN_OPTIONS": "detect_leaks=0"}
    strace = "strace", "-f", "-o", trace, "-e", f"trace={CALLS}"
    sandbox.run(*strace, program, "import", archive, cwd="/", env=env)
    with open(trace, encoding="utf-8", errors="replace") as lines:
        calls = sum(1 for _ in lines)
    for n in random.Random(3).sample(range(1, calls), 4):
        sandbox.run("rm", "-rf", other["SHFS_STORE"])
        sandbox.run(*strace, "-e", f"inject={CALLS}:signal=KILL:when={n}", program, "import", archive,
                    cwd="/", env=env, check=False)
        there("import", archive)
        assert everything(there, sandbox) == good, n
        left = [n for _, _, names in os.walk(f"{other['SHFS_STORE']}/journal") for n in names if ".new" in n]
        assert not left


def names_of(members):
    return [m.name for m, _ in members if "/objects/" in m.name]


def tmpfile_call(sandbox, program, link, directory):
    """Which of its openat is that of a file without a name in the archive's directory."""
    trace = f"{sandbox.path}/tmp/trace"
    sandbox.run("strace", "-f", "-y", "-o", trace, "-e", "trace=openat", program, "export", "tar", "--force", "-o", link, cwd="/",
                env={"ASAN_OPTIONS": "detect_leaks=0"})
    with open(trace, encoding="utf-8", errors="replace") as lines:
        calls = [line for line in lines if "openat(" in line]
    return 1 + next(n for n, call in enumerate(calls) if "O_TMPFILE" in call and directory + ">, \".\"" in call)


@pytest.mark.users("ordinary")
def test_the_archive_before(archive, sandbox, shfs, mount):
    """It stays until the next one is whole: also if that is killed, or finds no room; damage costs only what is damaged."""
    before, names = read(archive), set(os.listdir(sandbox.home))
    program, trace = sandbox.run("which", "shfs").stdout.strip(), f"{sandbox.path}/tmp/trace"
    write_calls = "trace=write,pwrite64,fsync,renameat2"
    sandbox.run("strace", "-f", "-o", trace, "-e", write_calls, program, "export", "tar", "--force", "-o", archive, cwd="/",
                env={"ASAN_OPTIONS": "detect_leaks=0"})
    with open(trace, encoding="utf-8", errors="replace") as lines:
        fsyncs = sum("fsync(" in line for line in lines)
    for inject in f"fsync:signal=KILL:when={fsyncs}", f"fsync:error=ENOSPC:when={fsyncs}", "renameat2:error=EIO":
        sandbox.run("strace", "-f", "-o", trace, "-e", write_calls, "-e", f"inject={inject}", program, "export", "tar", "--force",
                    "-o", archive, cwd="/", env={"ASAN_OPTIONS": "detect_leaks=0"}, check=False)
        assert read(archive) == before, inject
        assert set(os.listdir(sandbox.home)) == names, inject
    assert "never seen" in shfs("export", "tar", "--force", "-o", archive, "/typo", check=3).stderr
    link = f"{sandbox.home}/link.tar"
    os.symlink(archive, link)
    shfs("export", "tar", "--force", "-o", link, "/typo", check=3)
    assert read(archive) == before and os.path.islink(link)
    os.chmod(archive, 0o640)
    # without O_TMPFILE, and on a file system without links
    for calls in "", "openat:error=EOPNOTSUPP:when={}", "linkat,link:error=EPERM":
        nth = tmpfile_call(sandbox, program, link, os.path.dirname(archive))
        inject = ("-e", f"inject={calls.format(nth)}") if calls else ()
        sandbox.run("strace", "-f", "-o", trace, "-e", "trace=openat,linkat,link", *inject, program, "export", "tar", "--force",
                    "-o", link, cwd="/", env={"ASAN_OPTIONS": "detect_leaks=0"}, check=not calls.startswith("link"))
        assert os.path.islink(link) and os.stat(archive).st_mode & 0o777 == 0o640
        assert [(m.name, d) for m, d in entries(archive)] == [(m.name, d) for m, d in entries(before)], calls
        assert set(os.listdir(sandbox.home)) == names | {"link.tar"}, calls
    os.unlink(link)
    mounted = mount()
    sandbox.write("large", os.urandom(1_200_000))
    mounted.unmount()
    [large] = glob.glob(f"{sandbox.store}/objects/??/*")
    flip(large, 5000)
    assert "damaged in the store" in shfs("export", "tar", "--force", "-o", archive, check=1).stderr
    assert set(names_of(entries(archive))) >= set(names_of(entries(before)))


@pytest.mark.users("root")
def test_no_room_in_tmp(archive, sandbox, shfs, other):
    """Contents pass through a file there: it is told, and nothing is half there."""
    top, made = os.environ["SHFS_TEST_DIR"], f"{sandbox.home}/made.tar.zst"
    full = "mount --bind $0 /mnt && mount -t tmpfs -o size=4k tmpfs /tmp && mkdir -p $0 && mount --bind /mnt $0 && exec shfs $@"

    def without_room(*args, **env):
        result = sandbox.run("unshare", "-m", "--propagation", "private", "sh", "-c", full, top, *args, cwd="/", env=env, check=1)
        assert "No space left" in result.stderr and "Sanitizer" not in result.stderr, result

    without_room("import", archive, **other)
    left = [n for _, _, names in os.walk(f"{other['SHFS_STORE']}/journal") for n in names]
    assert not [n for n in left if n.endswith((".new", ".seg", ".zst"))], left
    there = in_other(sandbox, other)
    there("import", archive)
    assert everything(there, sandbox) == everything(shfs, sandbox)
    without_room("export", "tar", "-o", made)
    assert not os.path.exists(made)
    shfs("export", "tar", "-o", made)
    assert [(m.name, data) for m, data in entries(made)] == [(m.name, data) for m, data in entries(archive)]


def test_snapshot_is_untouched(archive, sandbox, shfs):
    """Neither touches a file of the project."""
    files = snapshot(sandbox.project)
    shfs("import", archive)
    assert snapshot(sandbox.project) == files


@pytest.mark.users("ordinary")
def test_what_was_pruned(work, sandbox, shfs, mount, other):
    """All else is in the archive; and that it was, for who takes it in."""
    mounted = mount()
    sandbox.sh("for i in 1 2 3; do echo $i > often; done; echo once > once")
    mounted.unmount()
    assert json.loads(shfs("prune", "--keep-last", "1", "--json").stdout)["objects"] > 2
    path = f"{sandbox.home}/pruned.tar.zst"
    shfs("export", "tar", "-o", path)
    members, there = entries(path), in_other(sandbox, other)
    assert [m.name for m, _ in members].count("shfs/pruned") == 1 == len({m.name.split("/")[1] for m, _ in members} - {"format", "journal", "objects", "trees"})
    said = json.loads(there("import", "--json", path).stdout)
    assert said["missing"] == 0 and everything_of(there, sandbox) == everything_of(shfs, sandbox)
    assert "pruned" in there("cat", f"{sandbox.project}/often@1", check=1).stderr
    there("check", "--read-data")
    # what the archive calls pruned and this store has is not; and what is pruned here comes back
    once = f"{sandbox.project}/once"
    assert json.loads(there("prune", "--also-newest", "--json", once).stdout)["objects"] <= 1
    assert json.loads(there("import", "--json", path).stdout)["missing"] == 0
    assert there("cat", f"{once}@1").stdout == "once\n" and everything_of(there, sandbox) == everything_of(shfs, sandbox)
    # nor is what it has told as pruned once it is lost
    here = {"SHFS_STORE": f"{sandbox.home}/third"}
    third = in_other(sandbox, here)
    sandbox.run("cp", "-r", sandbox.store, here["SHFS_STORE"])
    third("prune", "--also-newest", once)
    third("import", path)
    third("import", path)
    assert third("cat", f"{once}@1").stdout == "once\n"
    third("prune", "--also-newest", f"{sandbox.project}/a.txt")  # which writes the list anew
    for pack in glob.glob(f"{here['SHFS_STORE']}/objects/packs/*"):
        os.unlink(pack)
    assert "pruned" not in third("cat", f"{once}@1", check=1).stderr and "pruned" in third("cat", f"{sandbox.project}/often@1", check=1).stderr
    assert "once@1" in third("check", check=1).stdout and "often@1" not in third("check", check=1).stdout
    # a stranger's
    list_at = next(i for i, (m, _) in enumerate(members) if m.name == "shfs/pruned")
    for damaged in members[list_at][1][:-1], b"", members[list_at][1][:30] + b"x" + members[list_at][1][31:]:
        changed = [*members[:list_at], ("shfs/pruned", damaged), *members[list_at + 1:]]
        assert "damaged" in there("import", write(path, changed), check=1).stderr
    assert "twice" in there("import", write(path, [*members, members[list_at]]), check=1).stderr
    # before the journal, or of contents that it does not name: it says nothing
    write(path, [members[0], members[list_at], *members[1:list_at]])
    sandbox.run("rm", "-r", other["SHFS_STORE"])
    assert json.loads(there("import", "--json", path).stdout)["missing"] > 0
    assert there("check", check=1)


def everything_of(shfs, sandbox):
    return {name: [(v["n"], v["object"], v["not_archived"]) for v in json.loads(shfs("log", "--json", f"{sandbox.project}/{name}").stdout)["versions"]]
            for name in ("often", "once", "a.txt", "long")}


def gaps(shfs):
    shown = shfs("history", "--all")
    found = json.loads(shfs("history", "--json", "--all").stdout)["gaps"]
    assert ("unexpectedly" in shown.stdout + shown.stderr) == bool(found)
    return len(found)


@pytest.mark.users("ordinary")
def test_of_a_live_store(work, sandbox, shfs, mount, other):
    """What was still recorded when it was archived did not end; what is killed did."""
    sandbox.allow_exit(-signal.SIGKILL)
    sandbox.allow_log("ended|lost")
    there, path = in_other(sandbox, other), f"{sandbox.home}/live.tar"
    mounted = mount()
    sandbox.write("new", "new\n")
    sandbox.write("beside", "beside\n")
    shfs("export", "tar", f"{sandbox.project}/new", "-o", f"{path}.part")
    shfs("export", "tar", "-o", path)
    sandbox.write("later", "later\n")
    alive = [data for member, data in entries(path) if member.name == "shfs/alive"]
    assert len(alive) == 1 and alive[0].count(b"\n") == 1, alive
    mounted.unmount()
    assert gaps(shfs) == 0
    for archive in f"{path}.part", path:
        assert json.loads(there("import", "-n", "--json", archive).stdout)["alive"] == 1
        assert "1 recording went on" in there("import", archive).stdout
        assert there("cat", f"{sandbox.project}/new").stdout == "new\n"
        assert gaps(there) == 0
    there("reindex")
    assert gaps(there) == 0
    # handed on, it is as unknown
    third = in_other(sandbox, {"SHFS_STORE": f"{sandbox.home}/third"})
    there("export", "tar", "-o", f"{path}.on")
    third("import", f"{path}.on")
    assert gaps(third) == 0
    there("forget", "--yes", f"{sandbox.project}/new")
    # by now it has ended, as that one knows
    shfs("export", "tar", "-o", f"{path}.whole")
    assert "shfs/alive" not in [member.name for member, _ in entries(f"{path}.whole")]
    assert "went on" not in third("import", f"{path}.whole").stdout
    assert gaps(third) == 0
    # and one that is killed without leaving an end
    mounted = mount()
    sandbox.write("newest", "1\n")
    shfs("export", "tar", "-o", f"{path}.before")
    sandbox.write("newest", "2\n")
    shfs("sync")
    mounted.expected_status = None
    for signo in signal.SIGSTOP, signal.SIGKILL:  # with its guardian
        for pid in pids_of(sandbox, "shfs-fuse"):
            os.kill(pid, signo)
    sandbox.unmount(sandbox.project)
    # a process that was killed may take a moment to end
    wait_until(lambda: json.loads(shfs("history", "--json", "--all").stdout)["gaps"], "its end to be seen")
    assert gaps(shfs) == 1
    third("import", f"{path}.before")
    assert gaps(third) == 0
    shfs("export", "tar", "-o", f"{path}.after")
    third("import", f"{path}.after")
    assert gaps(third) == 1


def test_progress_on_a_terminal(archive, sandbox, shell, other):
    """Where reading takes a while."""
    there = shell("bash", env=other)
    shown = there.run(f"mkfifo {sandbox.home}/slow; (sleep 3; cat {archive} > {sandbox.home}/slow) & shfs import {sandbox.home}/slow")
    assert "reading the archive, 1 s" in shown and "imported: " in shown
