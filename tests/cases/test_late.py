# SPDX-License-Identifier: MIT
"""Readers that end long after the file that they have open was changed, renamed or replaced: they
say what was there when they began, and never what a file holds now."""

import os

import pytest

from test_capture import contents, rows, versions
from twins import python

pytestmark = pytest.mark.either


def holds(sandbox, name):
    """What it holds now is its newest version, and not one that is only said to be."""
    assert contents(sandbox, name)[-1] == sandbox.read(name), name
    assert not [v["n"] for v in versions(sandbox, name) if v["source"] == "found"], name


def seen_by(sandbox, name):
    """By what names a file was read, and which version of each that was."""
    sql = f"SELECT path, seen_n FROM v_access WHERE op = 'open' AND is_read AND path LIKE '%/{name}' ORDER BY seq_key"
    return [(os.path.relpath(path, sandbox.project), n) for path, n in rows(sandbox, sql)]


def test_a_reader_of_what_was_renamed_over(sandbox, mounted):
    """What it has open has another name by the time it ends, and is another content."""
    shell = sandbox.shell()
    for line in (
        "echo out-old > out",
        "echo draft-1 > draft",
        "exec 3<draft",
        "echo draft-2-longer > draft",
        "/bin/true",
        "mv draft out",
        "exec 3<&-",
    ):
        shell.run(line)
    shell.close()
    assert contents(sandbox, "out") == [b"out-old\n", b"draft-2-longer\n"]
    # it read what was called draft
    assert seen_by(sandbox, "draft") == [("draft", 1)] and not seen_by(sandbox, "out")
    holds(sandbox, "out")


def test_what_is_pruned_is_not_what_the_file_holds(sandbox, mounted):
    """The newest version is what lies there: so the next overwrite loses nothing."""
    python(sandbox, """
write("out", b"out-old"); write("draft", b"draft-1"); fd = os.open("draft", os.O_RDONLY); os.read(fd, 9)
write("draft", b"draft-2-longer"); os.rename("draft", "out"); os.close(fd)
""")
    sandbox.shfs("prune", "--keep-last", "1")
    sandbox.sh("echo new > out")
    assert contents(sandbox, "out")[-2:] == [b"draft-2-longer", b"new\n"]


REPLACED = {
    "renamed over": "write('new', b'new'); os.rename('new', f)",
    "made anew": "os.unlink(f); write(f, b'new')",
    "exchanged": "write('new', b'new'); renameat2('new', f, 2); os.unlink('new')",
    "linked": "write('new', b'new'); os.unlink(f); os.link('new', f); os.unlink('new')",
}


@pytest.mark.parametrize("gone", ["os.unlink(f)", "os.rename(f, 'away%d' % n)"])
@pytest.mark.parametrize("first", ["first", ""], ids=["closed before", "made and not closed"])
def test_a_writer_of_what_was_replaced(sandbox, mounted, first, gone):
    """What it writes later was never at the path, also where nothing is there any more."""
    before = 'write(f, b"first"); ' if first else ""
    out = python(sandbox, "".join(f"""
n, f = {n}, "f{n}"
{before}fd = os.open(f, os.O_RDWR | os.O_CREAT, 0o644); {how}; {gone}; os.write(fd, b"later"); os.close(fd)
""" for n, how in enumerate(REPLACED.values())))
    assert not out.strip(b"0\n"), out
    for n, how in enumerate(REPLACED):
        assert [c for c in contents(sandbox, f"f{n}") if c] == [b"first", b"new"][not first:], how


@pytest.mark.backends()
@pytest.mark.users("ordinary")
@pytest.mark.parametrize("replaced", ["mv new f", "rm f; mv new f", "rm f; cat new > f"])
@pytest.mark.parametrize("gone", ["mv f away", "rm f"])
@pytest.mark.parametrize("later", ["", "echo later >&3; "])
def test_closed_when_its_name_has_gone_on(sandbox, mounted, replaced, gone, later):
    """Each step is recorded before the next: when the file was opened may be unknown, but it was before it lost its name."""
    for step in ("echo first > f; echo new > new", replaced, gone):
        if step == replaced:
            holder = sandbox.shell()
            holder.run("exec 3<>f")
            holder.run("read line <&3")
        sandbox.sh(step)
        mounted.settle()
    holder.run(f"{later}exec 3>&-")
    holder.close()
    mounted.settle()
    assert contents(sandbox, "f") == [b"first\n", b"new\n"]


@pytest.mark.both
def test_exchanged(sandbox, mounted):
    """Both files are open as they change places, and later."""
    python(sandbox, """
write("a", b"a-1"); write("b", b"b-1")
a = os.open("a", os.O_RDONLY); b = os.open("b", os.O_RDONLY); os.read(a, 9); os.read(b, 9)
write("a", b"a-two"); write("b", b"b-two")
say(renameat2("a", "b", 2)); os.close(a); os.close(b)
""")
    assert contents(sandbox, "a") == [b"a-1", b"a-two", b"b-two"]
    assert contents(sandbox, "b") == [b"b-1", b"b-two", b"a-two"]
    assert seen_by(sandbox, "a") == [("a", 1)] and seen_by(sandbox, "b") == [("b", 1)]


def test_a_log_that_is_rotated(sandbox, mounted):
    """tail -f of what logrotate puts in the place of the log before."""
    python(sandbox, """
write("app.log.1", b"yesterday"); write("app.log", b"one\\n")
tail = os.open("app.log", os.O_RDONLY); os.read(tail, 99)
for line in b"two\\n", b"three\\n":
    write("app.log", line, os.O_WRONLY | os.O_APPEND); os.read(tail, 99)
os.rename("app.log", "app.log.1"); write("app.log", b"new\\n"); os.read(tail, 99)
write("app.log.1", b"late\\n", os.O_WRONLY | os.O_APPEND)
os.close(tail)
""")
    assert contents(sandbox, "app.log.1") == [b"yesterday", b"one\ntwo\nthree\n", b"one\ntwo\nthree\nlate\n"]
    assert seen_by(sandbox, "app.log") == [("app.log", 1)] and not seen_by(sandbox, "app.log.1")


def test_through_several_names(sandbox, mounted):
    """The way back leads over names that had a past of their own, links, and directories."""
    python(sandbox, """
os.mkdir("d"); os.mkdir("e")
for name in "b", "c", "d/f":
    write(name, b"old " + name.encode())
write("a", b"a-1"); fd = os.open("a", os.O_RDONLY); os.read(fd, 9); write("a", b"a-two")
os.rename("a", "b"); os.rename("b", "c"); os.rename("c", "d/f"); os.rename("d", "dd")
os.link("dd/f", "g"); os.remove("dd/f"); os.close(fd)
""")
    assert seen_by(sandbox, "a") == [("a", 1)] and not seen_by(sandbox, "g") and not seen_by(sandbox, "f")
    holds(sandbox, "g")


@pytest.mark.parametrize("touch", ["os.utime('big')", "os.utime('big', (5, 5))", "os.chmod('big', 0o600)", ""])
@pytest.mark.parametrize("before", [False, True], ids=["opened before", "opened after"])
def test_too_large_to_be_archived(sandbox, touch, before):
    """Only its times can tell which version it saw, and they were set meanwhile."""
    config = sandbox.write_outside(f"{sandbox.home}/.config/shfs/config.ini", "[archive]\nmax-size = 1000\n")
    sandbox.mount(None, "--config", config)
    first, second = (f"os.read(fd, 9); {touch}", "") if before else ("", f"{touch}\n")
    python(sandbox, f"""
write("big", bytes(5000)); read("big"); time.sleep(.02)
{second}fd = os.open("big", os.O_RDONLY)
{first}
os.read(fd, 9); time.sleep(.02); write("big", b"more", os.O_WRONLY | os.O_APPEND); os.close(fd)
""")
    assert [v["size"] for v in versions(sandbox, "big")] == [5000, 5004]
    assert seen_by(sandbox, "big") == [("big", 1), ("big", 1)]


def test_results_stay_current(sandbox, mounted):
    """stale goes by the newest version of each input."""
    shell = sandbox.shell()
    for line in (
        "echo in-old > in",
        "echo draft-1 > draft",
        "exec 3<draft",
        "echo draft-2-longer > draft",
        "/bin/true",
        "mv draft in",
        "sort in > result",
        "exec 3<&-",
    ):
        shell.run(line)
    shell.close()
    assert sandbox.shfs("stale").stdout == "0 of 1 result stale\n"


def test_a_writer_of_what_was_renamed_over(sandbox, mounted):
    """What it leaves, without a name, does not come after what has its name now."""
    python(sandbox, """
def begin():
    fd = os.open("a", os.O_WRONLY | os.O_CREAT, 0o644)
    os.write(fd, b"begun"); return fd

first = begin(); os.unlink("a")
second = begin(); os.unlink("a")
third = begin()
os.write(first, b" first"); os.close(first)
os.write(third, b" third"); os.close(third)
os.write(second, b" second"); os.close(second)
""")
    holds(sandbox, "a")


def test_renamed_while_it_is_written(sandbox, mounted):
    """What it held before was never at that name; nor was it where it is linked, or changes places."""
    names = "renamed", "linked", "exchanged"
    for name in names:
        for n in range(2):
            sandbox.write(name, f"{name} {n}".encode())
            sandbox.write(f"{name}-draft", f"draft {n} of {name}".encode())
    python(sandbox, """
open_files = [os.open(f"{name}-draft", os.O_WRONLY) for name in ("renamed", "linked", "exchanged")]
for fd in open_files: os.write(fd, b"what is new")
os.rename("renamed-draft", "renamed")
os.unlink("linked"); os.link("linked-draft", "linked")
renameat2("exchanged-draft", "exchanged", 2)
for fd in open_files: os.close(fd)
""")
    for name in names:
        assert contents(sandbox, name)[:-1] == [f"{name} {n}".encode() for n in range(2)]
        holds(sandbox, name)
