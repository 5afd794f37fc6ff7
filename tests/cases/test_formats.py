# SPDX-License-Identifier: MIT
"""The numbers of formats: those of docs/formats.md are those of the code, and of what lies there; a newer one is refused, and
nothing is changed."""

import contextlib
import ctypes
import glob
import hashlib
import io
import json
import os
import pathlib
import re
import sqlite3
import subprocess
import tarfile

import pytest

from test_remotes import in_store

TOP = pathlib.Path(__file__).resolve().parents[2]
NO_STORE = 6
# Numbers of others, and a magic without one.
OF_OTHERS = {("XFS_SUPER_MAGIC", "fusefs/watch/passthrough.c"), ("VERSION", "query/remote/ssh/sftp.c"), ("SHFS_FRAME_MAGIC", "store/journal/frame.h")}


def formats():
    """{name: (number, what it reads, constant, its source)} of the tables of the chapter."""
    found = {}
    for line in (TOP / "docs/formats.md").read_text().splitlines():
        row = re.fullmatch(r"\| (.*) \| (\d+) \| ([\d, ]*)\| (.*) \| `(\w+)` of (\S+) \|", line)
        if row:
            found[re.sub(r"[\[\]`]|\(\S+\)", "", row[1])] = int(row[2]), [int(n) for n in re.findall(r"\d+", row[3])], row[5], row[6]
    return found


def number_in(value):
    """The last number of what a constant is; None: it has none."""
    numbers = re.findall(r"\d+", value.split("/*")[0].replace(r"\n", ""))
    return int(numbers[-1]) if numbers else None


def constants():
    """{(name, source): number} of all that look like a format's."""
    found = {}
    for folder in "common", "store", "recording", "query", "browse", "fusefs", "kmod-fast-path", "shellhook":
        for path in (TOP / folder).rglob("*.[ch]"):
            for name, value in re.findall(r"^#define[ \t]+(\w*(?:MAGIC|FORMAT|VERSION|FIRST_LINE|GREETING))[ \t]+(\S.*)$", path.read_text(), re.M):
                number = number_in(value)
                if number is not None:
                    found[name, str(path.relative_to(TOP))] = number
    return found


def test_the_chapter_says_what_the_code_does():
    """Of each number, and of no other one; and of each tag of a hook log."""
    chapter = {(name, source): number for number, _, name, source in formats().values()}
    assert len(chapter) > 20
    assert chapter == {key: number for key, number in constants().items() if key not in OF_OTHERS}
    assert all(number in reads for number, reads, *_ in formats().values() if reads)
    tags = re.findall(r'\{ "([A-Z]\d)", SHFS_REC', (TOP / "store/journal/hooklog.c").read_text())
    listed = re.search(r"Written are (.*?), and `X1`", (TOP / "docs/formats.md").read_text(), re.S)[1]
    assert sorted(tags) == sorted(re.findall(r"`(\w\d)`", listed))


# --- in the bytes ---


def at_first_field(segment):
    """Where that of the first record begins: journal.md, A record."""
    head, at = segment[16], 17
    assert segment[8:12] == b"SHFB" and head & 7 == 1
    for bit in 0x10, 0, 0x20, 0x08:  # seq, boot, clock, length
        if not bit or head & bit:
            while segment[at] & 0x80:
                at += 1
            at += 1
    return at


@pytest.fixture
def rich(sandbox, shfs, mounted):
    """A store that has one of each, and is mounted no more."""
    sandbox.sh("for i in 1 2 3; do echo $i > a; done; head -c 100000 /dev/urandom > noise; head -c 1200000 /dev/urandom > large")
    shfs("prune", "--keep-last", "1", "--name", "a")
    mounted.unmount()
    return sandbox


def of_zstd(data):
    return subprocess.run(["zstd", "-dcq"], input=data, stdout=subprocess.PIPE, check=True).stdout


def read(path):
    with open(path, "rb") as file:
        return file.read()


def user_version(path):
    with contextlib.closing(sqlite3.connect(path)) as db:
        return db.execute("PRAGMA user_version").fetchone()[0]


@pytest.mark.users("ordinary")
def test_the_numbers_lie_where_the_chapter_says(rich, shfs):
    def one(pattern, store=rich.store):
        return glob.glob(f"{store}/{pattern}")[0]

    def line(data, beginning):
        assert data.startswith(beginning)
        return int(data[len(beginning) :].split(b"\n")[0])

    remote, away = f"{rich.home}/remote", f"{rich.home}/away"
    shfs("remote", "add", "r", remote)
    shfs("remote", "add", "--encrypt", "e", away)
    for name in "r", "e":
        shfs("push", name)
    archive = f"{rich.home}/archive"
    shfs("export", "tar", "-o", archive)
    with tarfile.open(fileobj=io.BytesIO(of_zstd(read(archive)))) as tar:
        first = tar.next()
        assert first.name == "shfs/format"
        of_archive = int(tar.extractfile(first).read())
    segment = of_zstd(read(one("journal/*/fuse-*.seg.zst")))
    blobs = [read(path) for path in glob.glob(f"{remote}/data/*/*/*")]
    [manifest] = [blob for blob in blobs if blob.startswith(b"shfs list ")]
    contents = next(blob[at + 7] for blob in blobs if (at := blob.find(b"shfscon")) >= 0)
    [head] = glob.glob(f"{remote}/heads/*")
    assert line(manifest, b"shfs list ") == line(read(head), b"shfs head ")
    seen = {
        "the store": int(read(f"{rich.store}/format")),
        "a segment of the journal": segment[7],
        "the records of a segment": segment[at_first_field(segment)],
        "a pack": read(one("objects/packs/*.pack"))[7],
        "the index of a pack": read(one("objects/packs/*.idx"))[7],
        "a loose object": read(one("objects/[0-9a-f][0-9a-f]/*"))[7],
        "pruned and away": read(f"{rich.store}/pruned")[7],
        "an archive": of_archive,
        "a remote": line(read(f"{remote}/shfs-remote"), b"shfs remote "),
        "an encrypted remote": line(read(f"{away}/shfs-remote"), b"shfs remote 1 encrypted "),
        "heads and lists of a remote": line(manifest, b"shfs list "),
        "the contents of a pack on a remote": contents,
        "the key of an encrypted remote": int(re.search(rb"^shfs-key-(\d+):", read(f"{rich.home}/.config/shfs/keys/e.key"), re.M)[1]),
        "what shfs serve says to shfs fetch": line(shfs("serve").stdout_bytes, b"shfs serve "),
        "JSON": json.loads(shfs("stats", "--json").stdout)["version"],
        "the index, its tables and views": user_version(f"{rich.store}/index.db"),
    }
    assert seen == {name: formats()[name][0] for name in seen}


# --- a newer one ---


def snapshot(top):
    """All that lies there."""
    found = {}
    for where, dirs, names in os.walk(top):
        for name in dirs + names:
            path = os.path.join(where, name)
            about = os.lstat(path)
            with open(path if name in names and os.path.isfile(path) else os.devnull, "rb") as file:
                found[os.path.relpath(path, top)] = about.st_mode, about.st_size if name in names else 0, about.st_mtime_ns, file.read()
    return found


# All that open a store, by what they are to do with it.
ASK = [["history"], ["search", "a"], ["show", "00"], ["log", "a"], ["why", "a"], ["impact", "a"], ["stale"], ["stats"], ["map", "-o", "m"], ["web"],
       ["cat", "a@3"], ["diff", "a@3", "a"], ["browse", "b"], ["compare", "a@3", "a@3"], ["check"], ["export", "sh", "a"], ["export", "tar", "-o", "t"]]  # fmt: skip
CHANGE = [["mount", "."], ["enable", "."], ["record", "true"], ["note", "a@3", "text"], ["rerun", "a"], ["import", "archive"],
          ["remote", "add", "s", "s"], ["push"], ["pull"], ["fetch", "h"], ["restore", "a@3"], ["undelete", "a"], ["undo", "-n", "1", "--yes"], ["try", "true"],
          ["repair"], ["prune", "--keep-last", "1"], ["gc"], ["forget", "--yes", "a"], ["reindex"], ["ingest"], ["sync"], ["serve"]]  # fmt: skip


@pytest.mark.users("ordinary")
def test_a_store_of_a_newer_version_is_not_touched(rich, shfs):
    shfs("export", "tar", "-o", "archive")
    shfs("remote", "add", "r", f"{rich.home}/remote")
    rich.write_outside(f"{rich.store}/format", b"%d\n" % (formats()["the store"][0] + 1), 0o600)
    before = snapshot(rich.store), snapshot(rich.project)
    for args in ASK + CHANGE:
        result = shfs(*args, check=NO_STORE)
        assert "a newer shfs made it; upgrade shfs" in result.stderr, (args, result)
    went_on = shfs("run", "echo", "done")
    assert went_on.stdout == "done\n" and "run, and not recorded" in went_on.stderr
    assert (snapshot(rich.store), snapshot(rich.project)) == before
    rich.write_outside(f"{rich.store}/format", b"2\n", 0o600)
    assert "a@3" in shfs("log", "a").stdout
    shfs("check", "--read-data")


@pytest.fixture
def newer_segment(rich):
    """Makes a segment of a newer version of the journal: its first frame is right."""

    def make(sealed):
        [path] = glob.glob(f"{rich.store}/journal/*/fuse-*.seg.zst")
        whole = of_zstd(read(path))
        end = 16 + int.from_bytes(whole[12:16], "little")
        data = bytearray(whole)
        data[7] += 1
        data[at_first_field(whole)] += 1
        hash64 = ctypes.CDLL("libxxhash.so.0").XXH3_64bits
        hash64.restype = ctypes.c_uint64
        data[end : end + 8] = hash64(bytes(data[8:end]), ctypes.c_size_t(end - 8)).to_bytes(8, "little")
        name = path.replace(".seg.zst", "").rsplit("-", 2)[0] + "-ffffffff-000000.seg"
        if sealed:
            name, data = name + ".zst", subprocess.run(["zstd", "-qc", f"--stream-size={len(data)}"], input=bytes(data), stdout=subprocess.PIPE, check=True).stdout
        return rich.write_outside(name, bytes(data), 0o600)

    return make


@pytest.mark.users("ordinary")
@pytest.mark.parametrize("sealed", [False, True])
def test_a_segment_of_a_newer_version_is_left_alone(rich, shfs, newer_segment, sealed):
    """What is known of the others is answered; nothing is removed or repaired meanwhile."""
    path = newer_segment(sealed)
    answers = [shfs(*args).stdout for args in (["log", "a"], ["history", "--all"])]
    with open(path, "rb") as file:
        before = file.read()
    assert "another version of shfs made it" in shfs("check", check=False).stdout
    for args in ["prune", "--keep-last", "1"], ["gc"], ["forget", "--yes", "a"]:
        assert "another version of shfs wrote some of the journal" in shfs(*args, check=4).stderr
    shfs("repair", check=False)
    assert [shfs(*args).stdout for args in (["log", "a"], ["history", "--all"])] == answers
    with open(path, "rb") as file:
        assert file.read() == before
    assert not glob.glob(f"{rich.store}/quarantine/*/journal/**/*.seg*", recursive=True)


@pytest.mark.users("ordinary")
@pytest.mark.parametrize("what", ["shfs remote", "shfs head"])
def test_a_remote_of_a_newer_version_is_not_touched(rich, shfs, what):
    remote = f"{rich.home}/remote"
    shfs("remote", "add", "r", remote)
    shfs("push")
    path = {"shfs remote": f"{remote}/shfs-remote", "shfs head": glob.glob(f"{remote}/heads/*")[0]}[what]
    old = f"{what} 1\n".encode()
    text = read(path)
    assert text.startswith(old)
    text = text.replace(old, old.replace(b"1", b"2"), 1)
    if what == "shfs head":
        text = text[: text.index(b"sum ")]
        text += b"sum " + hashlib.sha256(text).hexdigest().encode() + b"\n"
    rich.write_outside(path, text, 0o600)
    before = snapshot(remote)
    new = in_store(rich, f"{rich.home}/new")
    # the head of this store itself is neither pulled nor needed for a push
    ours = [["push"], ["pull"]] if what == "shfs remote" else []
    for ask, args in [*((shfs, args) for args in [*ours, ["remote", "check"]]), (new, ["clone", remote])]:
        assert "a newer shfs made what is there" in ask(*args, check=4).stderr
    assert snapshot(remote) == before and not os.path.exists(f"{rich.home}/new/format")
