# SPDX-License-Identifier: MIT
"""Files with several names, and with none: which name was used, what the others hold since,
and what becomes of a file of O_TMPFILE."""

import json
import os

import pytest

from test_capture import BEFORE, contents, prepare, rows, versions
from twins import python

pytestmark = pytest.mark.either


def written(sandbox):
    """The names by which files were written; those of one file in order."""
    sql = "SELECT path FROM v_access WHERE op = 'open' AND is_written ORDER BY access_id"
    return [os.path.relpath(path, sandbox.project) for (path,) in rows(sandbox, sql)]


def linked_before(sandbox, *names, data=b"old"):
    """One file that had these names before the mount."""
    prepare(sandbox, names[0], data)
    for name in names[1:]:
        os.link(sandbox.project + "/" + names[0], sandbox.project + "/" + name)


def test_the_name_that_was_used(sandbox):
    """By turns, and both open at once."""
    linked_before(sandbox, "a", "b")
    sandbox.mount()
    python(sandbox, """
for n in range(50):
    for name in "a", "b":
        write(name, str(n).encode() + name.encode())
a = os.open("a", os.O_WRONLY | os.O_APPEND); b = os.open("b", os.O_WRONLY | os.O_APPEND)
os.write(a, b"+"); os.close(a); os.stat("b"); os.write(b, b"-"); os.stat("a"); os.close(b)
""")
    assert written(sandbox) == ["a", "b"] * 51


def test_the_name_that_was_used_right_after_the_link(sandbox, mounted):
    """The kernel knows the first name since before there was another, and asks only for that."""
    python(sandbox, """
import threading
def in_a_thread(*args):
    t = threading.Thread(target=write, args=args); t.start(); t.join()
for n in range(20):
    a, b = "a%d" % n, "b%d" % n
    write(a, b"1"); os.link(a, b); os.stat(b); in_a_thread(a, b"2"); in_a_thread(b, b"3")
""")
    # those of different files may come in another order
    assert sorted(written(sandbox)) == sorted(f"{name}{n}" for n in range(20) for name in "aab")


@pytest.mark.both
def test_every_name_has_the_versions(sandbox):
    """Also those that nobody used; from the write by the other name on."""
    linked_before(sandbox, "a", "b")
    sandbox.mount()
    sandbox.sh("cat a b > /dev/null; echo 1 > a; echo 2 >> b; truncate -s 1 a")
    for name in "a", "b":
        assert contents(sandbox, name) == [b"old", b"1\n", b"1\n2\n", b"1"], name
    assert [v["source"] for v in versions(sandbox, "b")][1:] == ["linked", "written", "linked"]


def test_a_name_first_heard_of_by_a_write(sandbox):
    """The others hold what it holds."""
    linked_before(sandbox, "a", "b")
    sandbox.mount()
    sandbox.sh("echo 1 > a; echo 2 >> b; truncate -s 1 a")
    assert contents(sandbox, "a") == [b"old", b"1\n", b"1\n2\n", b"1"]
    assert contents(sandbox, "b") == [b"1\n2\n", b"1"]
    assert [v["source"] for v in versions(sandbox, "a")] == ["found", "written", "linked", "written"]


def test_what_was_there_under_the_other_name(sandbox):
    """Nothing is overwritten unseen: a name that nobody had looked at yet can be asked too."""
    linked_before(sandbox, "a", "b", "dir.txt")
    sandbox.mount()
    sandbox.sh("echo new > b; cat a > /dev/null")
    assert contents(sandbox, "b") == [b"old", b"new\n"]
    assert contents(sandbox, "a")[-1] == b"new\n" and versions(sandbox, "a")[-1]["source"] == "linked"


def test_names_come_and_go(sandbox, mounted):
    """link, rename of one, unlink of one, and a new file in its place, which is another."""
    sandbox.sh("""
echo 1 > a; ln a b; ln a c; mv b d; echo 2 > d; rm a; echo 3 > c; echo other > a; echo 4 > d
""")
    assert contents(sandbox, "d") == [b"1\n", b"2\n", b"3\n", b"4\n"]
    assert contents(sandbox, "c") == [b"1\n", b"2\n", b"3\n", b"4\n"]
    assert contents(sandbox, "a") == [b"1\n", b"2\n", b"other\n"]
    assert contents(sandbox, "b") == [b"1\n"]


def test_a_name_taken_over(sandbox, mounted):
    """rename over one of two names leaves the other with what it held."""
    sandbox.sh("echo 1 > a; ln a b; echo 2 > n; mv n a; echo 3 > b; echo 4 > a")
    assert contents(sandbox, "a") == [b"1\n", b"2\n", b"4\n"]
    assert contents(sandbox, "b") == [b"1\n", b"3\n"]


def test_directories_with_names_in_them_move(sandbox, mounted):
    sandbox.sh("mkdir d; echo 1 > d/a; ln d/a b; mv d e; echo 2 > b; echo 3 > e/a")
    assert contents(sandbox, "e/a") == contents(sandbox, "b") == [b"1\n", b"2\n", b"3\n"]


def test_a_mode_set_by_one_name(sandbox):
    """It makes no version of the other, and is that one's too."""
    linked_before(sandbox, "a", "b", data=b"x" * 3000)
    sandbox.mount()
    sandbox.sh("cat a b > /dev/null; chmod 600 a; touch -d 2001-01-01 b; cat a b > /dev/null")
    assert len(versions(sandbox, "a")) == len(versions(sandbox, "b")) == 1
    sandbox.sh("chmod 751 a; rm a b")
    sandbox.shfs("restore", "b@1")
    assert sandbox.sh("stat -c %a b").stdout == "751\n"


def test_the_numbers_of_a_file_that_is_gone(sandbox):
    """An inode number that is used again is another file: its writes are not the old one's."""
    linked_before(sandbox, "a", "b")
    beneath = os.open(sandbox.project, os.O_PATH)
    sandbox.mount()
    sandbox.sh("cat a b > /dev/null")
    for name in "a", "b":
        os.unlink(name, dir_fd=beneath)
    os.close(beneath)
    for n in range(20):
        sandbox.sh(f"echo {n} > c{n}; ln c{n} d{n}; echo more >> d{n}")
    assert contents(sandbox, "a")[1:] == contents(sandbox, "b")[1:] == []


def test_one_name_used_by_several_at_once(sandbox):
    """Long after the link."""
    sandbox.mount()
    sandbox.sh("echo 1 > a; ln a b; sleep 1.2; for i in 1 2 3 4; do (for j in $(seq 50); do cat b; done) & done; wait")
    assert rows(sandbox, "SELECT count(*) FROM v_access WHERE is_read AND path LIKE '%/a'") == [(0,)]


def test_a_link_that_was_broken_unwatched(sandbox):
    """A name that became another file meanwhile has nothing of what is written by the other."""
    mount = sandbox.mount()
    sandbox.sh("echo same > a; ln a b; ln a c")
    mount.unmount()
    mount.wait()
    sandbox.sh("cp a n; mv n a")
    sandbox.mount()
    sandbox.sh("cat a > /dev/null")
    sandbox.shfs("sync")  # that a is another file is told at the end of its use, which comes after the close
    sandbox.sh("echo changed > b; echo again > b")
    assert contents(sandbox, "c") == [b"same\n", b"changed\n", b"again\n"]
    assert b"changed\n" not in contents(sandbox, "a")


def test_history_names_the_one_used(sandbox, mounted, shell):
    bash = shell()
    bash.run("echo 1 > a; ln a b")
    bash.run("echo 2 >> a; cat b")
    bash.run("echo 3 >> b")
    log = versions(sandbox, "a")
    assert [v["command"]["text"] for v in log] == ["echo 1 > a; ln a b", "echo 2 >> a; cat b", "echo 3 >> b"]
    last = sandbox.shfs("history", "-n", "1").stdout
    assert " b@3" in last and " a@" not in last


TMPFILE = "fd = os.open('.', os.O_TMPFILE | os.O_RDWR, 0o640); os.write(fd, b'made')\n"


@pytest.mark.both
def test_unnamed_then_named(sandbox, mounted):
    python(sandbox, TMPFILE + """
os.link(f"/proc/self/fd/{fd}", "f", src_dir_fd=fd)
print(os.stat("f").st_nlink, oct(os.stat("f").st_mode), os.fstat(fd).st_ino == os.stat("f").st_ino)
os.write(fd, b' it'); os.close(fd)
""")
    assert contents(sandbox, "f") == [b"made it"]
    assert sandbox.read("f") == b"made it" and written(sandbox) == ["f"]


def test_unnamed_over_another(sandbox):
    """As programs save that want the old file or the new one, and nothing between."""
    prepare(sandbox, "f", b"old")
    sandbox.mount()
    python(sandbox, TMPFILE + """
os.fsync(fd); os.link(f"/proc/self/fd/{fd}", "f.new", src_dir_fd=fd)
os.rename("f.new", "f"); os.close(fd)
""")
    assert contents(sandbox, "f") == [b"old", b"made"]


def test_captured_before_it_was_named(sandbox, mounted):
    """A copy of the descriptor was closed: what it held is known by then."""
    python(sandbox, TMPFILE + """
os.close(os.dup(fd)); os.link(f"/proc/self/fd/{fd}", "f", src_dir_fd=fd); os.stat("f"); os.close(fd)
""")
    assert contents(sandbox, "f") == [b"made"]


def test_never_named(sandbox, mounted):
    """It leaves nothing but its trace; and one that may not be named is not."""
    out = python(sandbox, TMPFILE + """
print(os.fstat(fd).st_nlink, os.listdir(".")); os.close(fd)
fd = os.open(".", os.O_TMPFILE | os.O_WRONLY | os.O_EXCL)
try:
    os.link(f"/proc/self/fd/{fd}", "f", src_dir_fd=fd)
except OSError as e:
    print(e.strerror)
""")
    assert out == b"0 []\nNo such file or directory\n"
    assert {name[0] for name in written(sandbox)} == {"#"}


def test_many_names_of_one_file_at_once(sandbox, mounted):
    """More names of a file are in use at once than are kept: each can be moved and removed."""
    out = python(sandbox, r"""
write("f", b"x")
for p in range(10):
    os.mkdir("d%d" % p)
    for n in range(60): os.link("f", "d%d/%d" % (p, n))
for p in range(10):
    if not os.fork():
        failed = [attempt(os.rename, "d%d/%d" % (p, n), "d%d/x%d" % (p, n)) or attempt(os.unlink, "d%d/x%d" % (p, n)) for n in range(60)]
        os._exit(any(failed))
say([os.wait()[1] for p in range(10)], os.stat("f").st_nlink)
""")
    assert out == b"[0, 0, 0, 0, 0, 0, 0, 0, 0, 0] 1\n"


# How programs put a new file in place by a link, each told by what it does once the link is there.
PLACED = {
    "closed last": "os.link('tmp', 'dest'); os.remove('tmp'); os.close(fd)",
    "closed before the first name goes": "os.link('tmp', 'dest'); os.close(fd); os.remove('tmp')",
    "closed first": "os.close(fd); os.link('tmp', 'dest'); os.remove('tmp')",
    "written again": "os.link('tmp', 'dest'); os.remove('tmp'); os.write(fd, b' and more'); os.close(fd)",
    "by its descriptor": "say(call('linkat', -100, b'/proc/self/fd/%d' % fd, -100, b'dest', 0x400)); os.remove('tmp'); os.close(fd)",
    "and renamed": "os.link('tmp', 'dest'); os.rename('dest', 'there'); os.remove('tmp'); os.rename('there', 'dest'); os.close(fd)",
}


@pytest.mark.parametrize("steps", PLACED.values(), ids=PLACED)
def test_put_in_place_by_a_link(sandbox, mounted, steps):
    """As python-atomicwrites does: what the file is called at last has what was written, and by whom;
    and neither prune nor the next write loses it."""
    python(sandbox, f"fd = os.open('tmp', os.O_RDWR | os.O_CREAT | os.O_EXCL); os.write(fd, b'result'); {steps}")
    data = b"result and more" if "more" in steps else b"result"
    assert contents(sandbox, "dest")[-1] == data == sandbox.read("dest")
    maker = "SELECT count(*) FROM v_version WHERE path LIKE '%/dest' AND process_id IS NOT NULL"
    assert rows(sandbox, maker) != [(0,)], versions(sandbox, "dest")
    sandbox.shfs("prune", "--keep-last", "1")
    sandbox.sh("echo other > dest")
    assert contents(sandbox, "dest")[-2:] == [data, b"other\n"]


def test_put_in_place_by_a_link_where_others_were(sandbox, mounted):
    """Both names had a past: what they held then is not what the new file does."""
    python(sandbox, """
write("tmp", b"old tmp"); write("dest", b"old dest"); os.remove("dest")
fd = os.open("tmp", os.O_RDWR | os.O_TRUNC); os.write(fd, b"result"); os.link("tmp", "dest"); os.link("dest", "more")
os.remove("tmp"); os.close(fd)
write("tmp", b"third")
""")
    assert contents(sandbox, "dest") == [b"old dest", b"result"]
    assert contents(sandbox, "more") == [b"result"]
    assert contents(sandbox, "tmp") == [b"old tmp", b"result", b"third"]


@pytest.mark.backends()
@pytest.mark.users("ordinary")
@pytest.mark.parametrize("change", ["", "chmod 600 old", "touch -r / old", "cat old"])
def test_linked_and_changed(sandbox, mounted, change):
    """What was known of it before it had two names does not hide that it has: what one gets, the other has."""
    for step in ("echo first > new", "mv new old", "ln old b", change, "echo second > b", change, "echo third > old"):
        sandbox.sh(step)
        mounted.settle()
    for name in "old", "b":
        assert contents(sandbox, name) == [b"first\n", b"second\n", b"third\n"], name


def test_linked_before_the_last_writer_closed(sandbox, mounted):
    """What is told of it after the link was looked at before it; it has both names all the same."""
    python(sandbox, """
early = os.open("a", os.O_WRONLY | os.O_CREAT, 0o644); os.write(early, b"first")
late = os.open("a", os.O_WRONLY); os.write(late, b"FIRST"); os.close(late)
time.sleep(0.3); os.link("a", "b"); os.close(early)
time.sleep(0.3); write("b", b"second"); write("a", b"third")
""")
    for name in "a", "b":
        assert contents(sandbox, name)[-3:] == [b"FIRST", b"second", b"third"], name


def test_linked_to_a_name_that_a_reader_has_open(sandbox, mounted):
    """What the reader saw tells nothing of the file that has its name now, and is still written to."""
    python(sandbox, """
write("a", b"first"); reader = os.open("a", os.O_RDONLY); os.read(reader, 9); os.unlink("a")
writer = os.open("b", os.O_WRONLY | os.O_CREAT, 0o644); os.write(writer, b"second"); os.link("b", "a")
os.close(reader); time.sleep(0.3); os.write(writer, b"third"); os.close(writer)
""")
    assert contents(sandbox, "a") == [b"first", b"secondthird"]


@pytest.mark.parametrize("call", ["rename", "link"])
def test_named_right_after_a_close(sandbox, mounted, call):
    """The mount may hear of the close later, while another goes on to write: the old name has what was left."""
    python(sandbox, f"""
early = os.open("a", os.O_WRONLY | os.O_CREAT, 0o644); os.write(early, b"first")
late = os.open("a", os.O_WRONLY); os.write(late, b"FIRST"); kept = os.dup(late); os.close(late)
os.{call}("a", "b"); os.write(early, b"second"); os.close(kept); os.close(early)
""")
    assert contents(sandbox, "a")[0] == b"FIRST"
    assert contents(sandbox, "b")[-1] == b"FIRSTsecond"


@pytest.mark.backends()
@pytest.mark.users("ordinary")
def test_renamed_before_it_is_closed(sandbox, mounted):
    """As by Python's NamedTemporaryFile: what it is called then was made by who wrote it."""
    sandbox.write("old", b"what was there")
    for name in "new", "old":
        python(sandbox, f"""
fd = os.open("tmp-{name}", os.O_RDWR | os.O_CREAT | os.O_EXCL); os.write(fd, b"result")
os.rename("tmp-{name}", "{name}"); time.sleep(0.2); os.close(fd)
""")
        mounted.settle()
    for name in "new", "old":
        why = json.loads(sandbox.shfs("why", "--json", name).stdout)
        assert not [v for v in why["versions"] if v["is_source"]], why["versions"]
