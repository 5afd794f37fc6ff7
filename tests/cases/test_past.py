# SPDX-License-Identifier: MIT
"""Directories as they were at a time: restore beside what was there then, after random lines that change files in
all ways. SHFS_TEST_SEEDS says with which numbers."""

import json
import time

import pytest

from harness import ALL, PREFIX, seeds
from test_put_back import differences
from test_undo import LOOK, last_id, lay_out, line_of, tree

SEEDS = seeds(3, an_hour=200)


@pytest.fixture
def work(sandbox, mount, shell):
    """A shell in a project with some files; and how it waits until all is recorded."""
    there = mount()
    lay_out(sandbox)
    there.settle()
    there.shell = shell()
    return there


def now(there):
    """A moment, as it is typed; nothing happens at it."""
    there.settle()
    time.sleep(0.02)
    moment = time.time()
    time.sleep(0.02)
    return f"@{moment:.6f}"


def look(sandbox, directory):
    """{path: all about it} of a directory outside."""
    found = json.loads(sandbox.run("python3", "-c", LOOK, cwd=directory).stdout)
    return {p: about for p, about in found.items() if not p.startswith("./.git/") and p != "./.git"}


def without_root(found):
    """A copy is no project: .git, which it has not, has made the time of its root another."""
    return {p: about for p, about in found.items() if p != "."}


@pytest.mark.parametrize("seed", SEEDS)
def test_as_it_was(sandbox, work, user, seed):
    moments, lines = [], []
    for i in range(3):
        moments.append((now(work), tree(sandbox)))
        lines.append(line_of(seed * 3 + i, user.name == "root"))
        work.shell.run(lines[-1])
    work.settle()
    left = tree(sandbox)
    for i, (moment, then) in enumerate(moments):
        copy = f"{sandbox.home}/copy{i}"
        run = sandbox.shfs("restore", f".@{{{moment}}}", "--to", copy)
        different = differences(without_root(then), without_root(look(sandbox, copy)))
        assert not different, f"{lines[i:]}\n{run!r}\n{different}"
    # a copy changes nothing
    assert not differences(left, tree(sandbox))
    for i, (moment, then) in reversed(list(enumerate(moments))):
        typed = f"shfs restore --exact '.@{{{moment}}}'"
        said = work.shell.run(f"{typed}; echo =$?")
        work.settle()
        assert not (different := differences(then, tree(sandbox))), f"{lines[i:]}\n{said}\n{different}"
        assert said.endswith("=0"), said
    # it can be undone
    said = work.shell.run(f"shfs undo --yes {last_id(sandbox, typed + '; echo =$?')}; echo =$?")
    work.settle()
    assert not differences(moments[1][1], tree(sandbox)) or "nothing that was selected" in said, f"{lines}\n{said}"


@pytest.mark.parametrize("seed", SEEDS)
def test_what_was_added_stays(sandbox, work, seed):
    moment, then = now(work), tree(sandbox)
    line = line_of(seed, False)
    work.shell.run(line)
    work.shell.run("mkdir -p d/mine; echo mine > d/mine/x; echo mine > mine")
    work.settle()
    left = tree(sandbox)
    run = sandbox.shfs("restore", f".@{{{moment}}}", "--partly", check=False)
    work.settle()
    after = tree(sandbox)
    left_alone = "Left alone" in run.stdout or "Cannot be" in run.stdout
    assert run.status == (4 if left_alone else 0), run
    if left_alone:
        return
    for name in {"./mine", "./d/mine/x"} & {*left}:
        assert name in after and after[name][6] == b"mine\n".hex(), f"{line}\n{run!r}"
    for path, about in then.items():
        # more names and entries may have come
        known = about[:4] + about[5:8] if about[0] == 0o40000 else about[:8]
        found = after[path][:4] + after[path][5:8] if about[0] == 0o40000 else after[path][:8]
        assert known == found, f"{path}: {line}\n{run!r}"


def test_what_restore_does(sandbox, work):
    sandbox.sh("mkdir private; chmod 700 private; echo secret > private/s; cp -a d d2")
    moment, then = now(work), tree(sandbox)
    work.shell.run("rm -r private; echo more >> a; echo new > new; mv d/e moved; ln two four; rmdir hollow; chmod 600 d/a")
    work.settle()
    left = tree(sandbox)
    shown = sandbox.shfs("restore", "-n", f".@{{{moment}}}").stdout
    assert "To be restored:\n" in shown and "  restore  private/s: private/s@1, 7 B\n" in shown and "remove" not in shown
    assert "  remove   new\n" in sandbox.shfs("restore", "-n", "--exact", f".@{{{moment}}}").stdout
    assert "\n-more\n" in sandbox.shfs("restore", "-n", "-p", f".@{{{moment}}}").stdout
    assert not differences(left, tree(sandbox))
    # a part of it
    sandbox.shfs("restore", f"private@{{{moment}}}")
    work.settle()
    assert tree(sandbox)["./private"][:5] == then["./private"][:5] and tree(sandbox)["./private/s"] == then["./private/s"]
    assert tree(sandbox)["./a"] == left["./a"]
    sandbox.shfs("restore", f".@{{{moment}}}")
    work.settle()
    after = tree(sandbox)
    assert "./moved" not in after and after["./d/e"][:6] == then["./d/e"][:6] and sandbox.read("new") == b"new\n"
    assert after["./four"][8] == ["./four", "./three", "./two"] or "./four" in after
    found = json.loads(sandbox.shfs("restore", "--exact", "--json", f".@{{{moment}}}").stdout)
    work.settle()
    assert found["shfs"] == "restore" and found["done"] and {c["change"] for c in found["changes"]} >= {"remove"}
    assert not differences(then, tree(sandbox))
    assert "Nothing to restore" in sandbox.shfs("restore", f".@{{{moment}}}").stdout


def test_what_is_not_there_or_not_kept(sandbox, work):
    sandbox.write(".shfsignore", "*.big\n")
    sandbox.sh("echo big > d/f.big")
    moment = now(work)
    work.shell.run("mkdir late; echo x > late/x; rm d/f.big; rm d/a")
    left = tree(sandbox)
    assert "was not there at that time" in sandbox.shfs("restore", f"late@{{{moment}}}", check=3).stderr
    run = sandbox.shfs("restore", f"d@{{{moment}}}", check=4)
    assert "d/f.big:" in run.stderr and "nothing is restored" in run.stderr
    copy = f"{sandbox.home}/copy"
    run = sandbox.shfs("restore", f"d@{{{moment}}}", "--to", copy, check=4)
    assert "d/f.big:" in run.stderr and not differences(left, tree(sandbox))
    sandbox.shfs("restore", f"d@{{{moment}}}", "--to", copy, "--partly", check=4)
    assert sandbox.run("sh", "-c", f"cat {copy}/a; ls {copy}").stdout == "1 d/a\n2 d/a\n3 d/a\na\nb\ne\n"
    sandbox.shfs("restore", f"d@{{{moment}}}", "--to", copy, "--partly", check=4)
    assert sandbox.run("ls", f"{copy}/d").stdout == "a\nb\ne\n"
    assert "is there already" in sandbox.shfs("restore", f"d@{{{moment}}}", "--to", copy, "--partly", check=4).stderr
    sandbox.run("mkdir", "-p", f"{sandbox.home}/into")
    sandbox.shfs("restore", f"d/e@{{{moment}}}", "--to", f"{sandbox.home}/into")
    assert sandbox.run("ls", f"{sandbox.home}/into/e").stdout == "a\n"
    sandbox.shfs("restore", f"d@{{{moment}}}", "--partly", check=4)
    assert sandbox.read("d/a") == b"1 d/a\n2 d/a\n3 d/a\n"
    assert "not restored at once" in sandbox.shfs("restore", f"d@{{{moment}}}", "a@1", check=2).stderr
    assert "go with directories" in sandbox.shfs("restore", "--exact", "a@1", check=2).stderr
    # before the first record
    assert "is recorded since" in sandbox.shfs("restore", "-n", ".@{2001-01-01}", check=False).stderr


def test_the_same_bytes_in_another_file(sandbox, work):
    """It has a mode of its own, though the content is one that the name had before: written, and moved there."""
    work.shell.run("echo x > f; echo y > g; chmod 444 f g; cp g l; chmod 600 l")
    work.shell.run("rm -f f; echo x > f; mv -f l g")
    moment = now(work)
    work.shell.run("echo more >> f; echo more >> g; rm f g")
    sandbox.shfs("restore", f".@{{{moment}}}", "--to", "../back")
    assert sandbox.run("stat", "-c", "%a", "../back/f", "../back/g").stdout.split() == ["644", "600"]


def test_before_a_command(sandbox, work):
    before = tree(sandbox)
    line = "echo one >> a; rm -r p; mv b moved; echo new > new"
    work.shell.run(line)
    work.shell.run("echo two >> a; echo mine >> c; mkdir p")
    c = tree(sandbox)["./c"]
    id = last_id(sandbox, line)
    sandbox.shfs("restore", "--before", id, "a")
    assert sandbox.read("a") == b"1 a\n2 a\n3 a\n" and "./moved" in tree(sandbox)
    sandbox.shfs("restore", "--exact", "--before", id)
    work.settle()
    after = tree(sandbox)
    assert after.pop("./c") == c and before.pop("./c") and not differences(without_root(before), without_root(after))
    assert "no command's id" in sandbox.shfs("restore", "--before", "0123456789", check=3).stderr
    # as a command left it
    sandbox.shfs("restore", "--exact", f".@{{{id}}}")
    assert sandbox.read("a").endswith(b"one\n") and sandbox.read("moved") == b"1 b\n2 b\n3 b\n"


def test_what_was_changed_unseen(sandbox, mount):
    there = mount()
    sandbox.sh("mkdir d; echo 1 > d/a; echo 1 > d/b; cat d/a d/b")
    moment = now(there)
    there.unmount()
    sandbox.sh("echo unseen > d/a")
    there = mount()
    sandbox.sh("cat d/a; echo 2 > d/b")
    there.settle()
    # what was found there is not archived yet
    assert "d/a: its content is not archived" in sandbox.shfs("restore", f"d@{{{moment}}}", check=4).stderr
    sandbox.shfs("restore", "--force", f"d@{{{moment}}}")
    assert sandbox.read("d/a") == b"1\n" and sandbox.read("d/b") == b"1\n"


ALL_KINDS = "echo more >> a; rm b; mv c d/moved; rm -r p; mkdir p; echo x > p/x; chmod 600 s; mv d/e n; rm pipe; chmod 500 hollow"
CALLS = "mkdirat,renameat,renameat2,linkat,unlinkat,symlinkat,mknodat,fchownat,utimensat,chmod,setxattr,removexattr,pwrite64,fsync"


@pytest.mark.users("ordinary")
@pytest.mark.parametrize("to", (False, True))
@pytest.mark.parametrize("nth", range(1, 100, 1 if ALL else 24))
def test_killed_at_a_call(sandbox, work, nth, to):
    """The next one takes back what it had begun, or ends it."""
    moment, then = now(work), tree(sandbox)
    work.shell.run(ALL_KINDS)
    work.settle()
    copy = f"{sandbox.home}/copy"
    options = ["restore", f".@{{{moment}}}", *(["--to", copy] if to else ["--exact"])]
    run = sandbox.run(
        "strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={CALLS}", "-e", f"inject={CALLS}:signal=KILL:when={nth}",
        f"{PREFIX}/bin/shfs", *options, check=False, env={"ASAN_OPTIONS": "detect_leaks=0"},
    )  # fmt: skip
    if run.status:
        sandbox.allow_exit(-9)
        again = sandbox.shfs(*options, check=False)
        assert not again.status or (to and "is there already" in again.stderr), again
    work.settle()
    found = without_root(look(sandbox, copy)) if to else tree(sandbox)
    assert not differences(without_root(then) if to else then, found)


# --- undelete ---

GONE = (
    "mkdir -p t/private/empty t/shared t/new; chmod 700 t/private; chmod 2770 t/shared; echo s > t/private/s; chmod 600 t/private/s;"
    " ln -s no/where t/before; mkfifo t/fifo; echo x > t/new/one; ln t/new/one t/new/two; ln t/new/one t/shared/three;"
    " setfattr -n user.k -v v t/new/one t/new; setfacl -m u:nobody:r t/private/s; setfacl -d -m u:nobody:rx t/shared;"
    " touch -h -d 2003-03-03 t/before t/fifo t/new/one; touch -d 2004-04-04 t/private/empty t/shared t/new t/private t"
)


def part(found, name):
    return {p: about for p, about in found.items() if p.startswith(name)}


def test_undelete_gives_back_all_that_it_was(sandbox, mount, shell):
    sandbox.sh("mkdir was; echo 1 > was/a; ln was/a was/b; setfattr -n user.k -v v was/a; touch -d 2001-01-01 was was/a")
    there = mount()
    sandbox.sh(GONE)
    there.settle()
    before = tree(sandbox)
    work = shell()
    work.run("rm -r t was")
    there.settle()
    id = last_id(sandbox, "rm -r t was")
    copy = f"{sandbox.home}/copy"
    run = sandbox.shfs("undelete", "--command", id, "--to", copy)
    found = look(sandbox, copy)
    assert not differences(part(before, "./t"), part(found, "./t")), repr(run)
    assert not differences(part(before, "./was"), part(found, "./was")), repr(run)
    run = sandbox.shfs("undelete", ".")
    there.settle()
    assert not differences(without_root(before), without_root(tree(sandbox))), repr(run)
    assert not run.stderr


def test_undelete_keeps_the_shape_and_the_modes(sandbox, mount):
    there = mount()
    sandbox.sh("mkdir -p open/private/deep; echo 1 > open/private/deep/a; echo 2 > open/b; chmod 751 open; chmod 700 open/private; rm open/private/deep/a open/b")
    there.settle()
    sandbox.shfs("undelete", "--to", f"{sandbox.home}/copy", ".")
    assert sandbox.sh(f"cd {sandbox.home}/copy; find . -mindepth 1 -printf '%p %m\\n' | sort").stdout == (
        "./open 751\n./open/b 644\n./open/private 700\n./open/private/deep 755\n./open/private/deep/a 644\n"
    )


def listed(sandbox, *options):
    shown = sandbox.shfs("undelete", "--list", *options, check=False).stdout.splitlines()
    return {line.split("@")[0] for line in shown if not line.startswith(" ")}


def differing(shown):
    """Paths that diff -q names."""
    found = set()
    for line in shown.splitlines():
        if line.startswith("Files "):
            found.add(line.removeprefix("Files ").split(" and ")[1].split("\t")[0].split("@")[0])
        else:
            found.add(line.rsplit(": ", 1)[0].split(" -> ")[0].rstrip("/"))
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_diff_of_a_directory(sandbox, work, seed):
    moments = []
    for i in range(3):
        moments.append((now(work), tree(sandbox)))
        work.shell.run(line_of(seed * 3 + i, False))
    work.settle()
    moments.append((now(work), tree(sandbox)))
    for a, b in (0, 3), (1, 3), (0, 2), (1, 2):
        (first, before), (second, after) = moments[a], moments[b]
        operands = [f".@{{{first}}}", *([f".@{{{second}}}"] if b < 3 else [])]
        run = sandbox.shfs("diff", "-q", *operands, check=False)
        wanted = set()
        for path in {*before, *after}:
            one, other = before.get(path), after.get(path)
            names = (one or [])[8:] + (other or [])[8:]
            if any(len(group) > 1 for group in names):
                continue  # changed by another name
            if not one or not other or [one[0], one[1], *one[5:7]] != [other[0], other[1], *other[5:7]]:
                wanted.add(path[2:] or ".")
        linked = {p[2:] for found in (before, after) for p, about in found.items() if len(about[8:]) and len(about[8]) > 1}
        assert differing(run.stdout) - linked == wanted, repr(run)
        assert run.status == bool(differing(run.stdout)), repr(run)


def test_diff_shows_contents(sandbox, work):
    moment = now(work)
    work.shell.run("echo more >> a; rm b; ln -sfn c link; mkdir new; echo x > new/x; chmod 600 c; mv d/e moved")
    work.settle()
    shown = sandbox.shfs("diff", f".@{{{moment}}}", check=1).stdout
    assert "+++ a\t" in shown and "\n+more\n" in shown and "\n-1 b\n" in shown and "\n+x\n" in shown
    assert "link -> c: another link\n" in shown and "new/: new\n" in shown and "c: mode 0600, was 0644\n" in shown
    assert "d/e/: removed\n" in shown and "moved/: new\n" in shown and "\n+1 d/e/a\n" in shown
    assert not sandbox.shfs("diff", f"p@{{{moment}}}").stdout
    assert "not two directories" in sandbox.shfs("diff", f"d@{{{moment}}}", f"p@{{{moment}}}", check=2).stderr


def test_which_are_undeleted(sandbox, mount, shell):
    there = mount()
    work = shell()
    work.run("git init -q -b one; git config user.name n; git config user.email e@x; echo 1 > one; git add .; git commit -qm 1")
    work.run("git checkout -q -b two; echo 2 > two; mkdir sub; echo 3 > sub/f; git add .; git commit -qm 2; echo 1 > a; echo 1 > b; echo 1 > lock")
    work.run("rm a lock")
    first = last_id(sandbox, "rm a lock")
    moment = now(there)
    # a later life of the same name ends it
    work.run("touch lock; rm lock")
    work.run("git checkout -q one")
    by_git = last_id(sandbox, "git checkout -q one")
    work.run("for i in 1 2 3; do touch .lock; rm .lock; done; echo x > tmp; rm tmp; rm b")
    last = last_id(sandbox, "for i in 1 2 3; do touch .lock; rm .lock; done; echo x > tmp; rm tmp; rm b")
    assert listed(sandbox, "--command", first) == {"a"}
    assert listed(sandbox, "--command", last) == {"b"}
    assert listed(sandbox, "--command", by_git) == set()
    assert listed(sandbox, "--git", "--command", by_git) >= {"two", "sub/f"}
    assert listed(sandbox, "--until", moment) == {"a"} and listed(sandbox, "--since", moment) == {"b"}
    assert listed(sandbox) == {"a", "b"}
    sandbox.shfs("undelete", "--since", moment)
    assert sandbox.read("b") == b"1\n" and "./a" not in tree(sandbox)
    assert "no command's id" in sandbox.shfs("undelete", "--command", "0123456789", check=3).stderr
    assert "a time" in sandbox.shfs("undelete", "--since", "whenever", check=2).stderr
