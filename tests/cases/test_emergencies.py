# SPDX-License-Identifier: MIT
"""What one turns to when something has gone wrong: undelete, restore, rerun, a full store, mounts in
each other's way."""

import contextlib
import glob
import json
import os
import re
import signal
import subprocess

import harness
import pytest
from test_hook import plain
from test_mount_cli import pids_of, status_of


def offered(sandbox, *args):
    """The names that undelete would bring back."""
    listed = sandbox.shfs("undelete", "--list", *args, check=False).stdout.splitlines()
    return {line.split("@")[0] for line in listed if not line.startswith(" ")}


# --- undelete: who would want it back? ---


@pytest.mark.users("ordinary")
def test_last_life_counts(work, sandbox):
    """A lock is made and removed again and again, with the same content by other commands."""
    for _ in range(3):
        work.run("touch t.lock; rm t.lock")
    work.run("echo kept > notes; echo first > later")
    work.run("rm later; echo again > later; rm later")
    work.run("echo more >> notes; rm notes")
    assert offered(sandbox) == {"later", "notes"}
    assert offered(sandbox, "--all") == {"later", "notes", "t.lock"}
    sandbox.shfs("undelete", "t.lock")
    assert sandbox.read("t.lock") == b""


@pytest.mark.users("ordinary")
def test_what_moved_with_its_directory_is_there(work, sandbox):
    """It was removed once, made again, and is elsewhere now: its own name tells nothing of that."""
    work.run("mkdir d; echo 1 > d/f; mkdir d/empty; ln -s x d/link")
    work.run("rm d/f d/link; rmdir d/empty")
    work.run("echo 2 > d/f; mkdir d/empty; ln -s y d/link")
    work.run("mv d e")
    assert offered(sandbox) == set()
    work.run("mv e d")
    work.run("rm d/f")
    assert offered(sandbox) == {"d/f"}
    sandbox.shfs("undelete", "d")
    assert sandbox.read("d/f") == b"2\n"


@pytest.mark.users("ordinary")
def test_what_was_there_before_is_offered(sandbox, work):
    """One command replaced and removed what it had not made."""
    work.run("echo kept > a; echo kept > b; echo kept > c")
    work.run("sed -i s/k/K/ a; rm a")
    work.run("echo x > n; mv n b; rm b")
    work.run("exec 3> late; rm late; echo late >&3; exec 3>&-")
    work.run("cat c; rm c")
    assert offered(sandbox) == {"a", "b", "c"}


@pytest.mark.users("ordinary")
def test_git_is_left_to_git(work, sandbox):
    work.run("git init -q -b one; git config user.name n; git config user.email e@x")
    work.run("echo 1 > of-one; echo 1 > both; git add .; git commit -qm 1")
    work.run("git checkout -q -b two; echo 2 > of-two; git add .; git commit -qm 2")
    work.run("git checkout -q one")
    work.run("git -C . checkout -q two")
    work.run("git -c a.b=c switch -q one; git pack-refs --all; git gc -q")
    work.run("echo new > staged; echo new > untracked; touch .git/mine; git add staged")
    work.run("git reset -q --hard; git clean -qf; rm .git/mine")
    assert offered(sandbox) == {"staged", "untracked"}
    assert {"of-two", ".git/mine"} < offered(sandbox, "--git")
    assert not {name for name in offered(sandbox, "--git") if name.endswith(".lock")}
    assert offered(sandbox, ".git") >= {".git/mine"} and "of-two" not in offered(sandbox, ".git")
    work.run("git checkout -q two; echo work >> of-two")
    work.run("git checkout -q --force one")
    assert "of-two" in offered(sandbox), "that of-two was not in git"
    sandbox.shfs("undelete", ".")
    assert sandbox.read("staged") == b"new\n" and sandbox.read("of-two") == b"2\nwork\n"
    assert work.run("git status --short .git; git fsck --strict && echo well").endswith("well")
    work.run("rm of-two; git checkout -q two")
    assert not {name for name in offered(sandbox, "--git") if name.startswith(".git/HEAD")}


FORCED = ["checkout -qf one", "checkout -fq one", "checkout -fB three one", "checkout -q --forc one",
          "switch -qf one", "switch -q --disc one", "switch -fC three one"]  # fmt: skip


@pytest.mark.users("ordinary")
@pytest.mark.parametrize("forced", FORCED)
def test_what_git_was_forced_to_remove(work, sandbox, forced):
    work.run("git init -q -b one; git config user.name n; git config user.email e@x")
    work.run("echo 1 > f1; git add .; git commit -qm 1; git checkout -q -b two")
    work.run("echo 2 > f2; git add .; git commit -qm 2")
    work.run("git checkout -q one; git checkout -q two")
    assert offered(sandbox) == set()
    work.run("echo edited > f2")
    work.run(f"git {forced}")
    assert offered(sandbox) == {"f2"}
    sandbox.shfs("undelete", "f2")
    assert sandbox.read("f2") == b"edited\n"


@pytest.mark.users("ordinary")
def test_what_git_removed_as_it_gave_up(work, sandbox):
    work.run("git init -q -b one; git config user.name n; git config user.email e@x")
    work.run("echo 1 > f; git add .; git commit -qm 1; git checkout -q -b two; echo 2 > f; git commit -qam 2")
    work.run("git checkout -q one; echo 3 > f; echo 3 > up; git add .; git commit -qm 3; git checkout -q two")
    assert offered(sandbox) == set()
    work.run("git rebase -q one")
    work.run("echo edited > up")
    work.run("git rebase --abort")
    assert "up" in offered(sandbox)


# --- undelete: all that was there ---


@pytest.fixture
def tree(sandbox):
    """What a directory may hold, made before the mount and while it is there."""
    sandbox.sh("mkdir tree tree/private tree/private/empty tree/shared; chmod 700 tree/private; chmod 2770 tree/shared"
               "; chmod 1755 tree/private/empty; echo old > tree/private/secret; ln -s no/where tree/before"
               "; ln -s private/secret tree/shared/'to secret'; mkfifo tree/fifo")
    there = sandbox.mount()
    sandbox.sh("mkdir tree/new; chmod 750 tree/new; mkdir tree/new/empty; cd tree; ln -s new after; echo x > new/one"
               "; ln new/one new/two; echo kept > kept; ln kept new/three; ln -s a swapped; ln -s b tmp; mv -T tmp swapped"
               "; echo file > was-file; rm was-file")
    sandbox.sh("cat tree/private/secret; ln -s link tree/was-file")
    return there


def look_at(sandbox, where="tree"):
    """{name: type, mode, what a link says}, but times."""
    return sandbox.sh(f"find {where} ! -name fifo -printf '%p %M %l\\n' | sort").stdout


@pytest.mark.users("ordinary")
def test_undelete_gives_back_all_of_it(sandbox, tree):
    sandbox.sh("chmod g+w tree/private/secret")
    before = look_at(sandbox)
    assert "drwx------" in before and "drwxrws---" in before and "was-file" in before
    sandbox.sh("mv tree/kept kept; rm -r tree")
    listed = offered(sandbox)
    assert {"tree/private/empty/", "tree/before -> no/where", "tree/new/one"} <= {n.strip() for n in listed}
    # of "three" is known what its other name was, not is
    told = sandbox.shfs("undelete", ".", check=1)
    assert told.stderr.count("\n") == 1 and "tree/new/three had other names" in told.stderr
    assert look_at(sandbox) == before.replace("tree/kept -rw-r--r-- \n", "")
    assert sandbox.sh("cat tree/private/secret tree/new/one tree/new/two kept").stdout == "old\nx\nx\nkept\n"
    assert sandbox.sh("[ tree/new/one -ef tree/new/two ] && echo same").stdout == "same\n"
    # nothing is left to be done, and what is there stays
    assert "nothing to bring back" in sandbox.shfs("undelete", ".", check=3).stderr
    assert not [n for n in sandbox.sh("find . -name '*shfs-restore*'").stdout.split()]


def are_one(sandbox, *names):
    return len(set(sandbox.sh(f"stat -c %i {' '.join(names)}").stdout.split())) == 1


APART = {
    "rm b; cp a b": "rm a",
    "cp a t; mv t b": "rm a",
    "rm b": "rm a; cp c b",
    "rm a": "cp b a; rm a",
}


@pytest.mark.users("ordinary")
@pytest.mark.parametrize("parted", list(APART))
def test_what_was_no_other_name_any_more(work, sandbox, parted):
    work.run("echo hi > a; cp a c; ln a b")
    work.run(parted)
    work.run(APART[parted])
    assert "another name" not in sandbox.shfs("undelete", "a").stdout
    assert not are_one(sandbox, "a", "b") and sandbox.read("a") == sandbox.read("b") == b"hi\n"


@pytest.mark.users("ordinary")
@pytest.mark.parametrize("beside", [False, True])
def test_names_again_and_again(sandbox, mount, beside):
    there = mount()
    sandbox.sh("echo hi > z; ln z a; ln z b; ln b c; mkdir d; ln c d/e; exec 3> open; ln open too; echo x >&3")
    if beside:
        there.unmount()
    for names in ("a", "b", "z"), ("b",), ("a", "b", "c", "d/e", "z", "open", "too"):
        if beside:
            there = mount()
        sandbox.sh("rm " + " ".join(names))
        sandbox.sh("touch .shfs-restore-name; rm -f t")
        if beside:
            there.unmount()
        sandbox.shfs("undelete", *names)
        assert are_one(sandbox, "a", "b", "c", "d/e", "z") and are_one(sandbox, "open", "too"), names
    assert sandbox.read("a") == b"hi\n" and sandbox.read("too") == b"x\n"


@pytest.mark.users("ordinary")
def test_names_and_attributes_that_are_not_known(sandbox, mount):
    """Names made before the mount, or that went with a directory, and attributes: it is told."""
    sandbox.sh("mkdir was; echo hi > was/a; ln was/a was/b; ln was/a c")
    mount()
    sandbox.sh("mkdir made; echo ho > made/a; ln made/a made/b; mv made moved; echo alone > alone; ln alone t; rm t")
    sandbox.sh("echo x > x; setfattr -n user.k -v v x; mkdir y; setfattr -n user.k -v v y; mkdir z")
    sandbox.sh("rm -r was moved x y z alone")
    told = sandbox.shfs("undelete", ".", check=1)
    assert are_one(sandbox, "moved/a", "moved/b") and not are_one(sandbox, "was/a", "c")
    assert {*told.stderr.splitlines()} == {
        "shfs: warning: was/a had other names, which are not recorded",
        "shfs: warning: was/b had other names, which are not recorded",
    }
    assert sandbox.sh("cat was/a was/b moved/a moved/b x alone").stdout == "hi\nhi\nho\nho\nx\nalone\n"
    assert sandbox.sh("getfattr --only-values -n user.k x y").stdout == "vv"
    sandbox.sh("rm x; echo y > x; rm x")
    assert not sandbox.shfs("undelete", "x").stderr


@pytest.mark.users("ordinary")
def test_other_name_that_cannot_be(sandbox, mount):
    """It changed where nobody looked: the content comes back, and that it is no other name is told."""
    there = mount()
    sandbox.sh("echo hi > a; ln a b; rm a")
    there.unmount()
    sandbox.sh("echo other > b")
    told = sandbox.shfs("undelete", "a", check=1)
    assert "a was another name of b, and cannot be that again: that has another content now" in told.stderr
    assert sandbox.read("a") == b"hi\n" and sandbox.read("b") == b"other\n"


@pytest.mark.users("ordinary")
def test_undelete_beside_the_mount(sandbox, tree):
    before = look_at(sandbox)
    sandbox.sh("rm -r tree")
    tree.unmount()
    there = look_at(sandbox, ".")
    assert "would be" in sandbox.shfs("undelete", "-n", "tree").stdout and look_at(sandbox, ".") == there
    sandbox.shfs("undelete", "tree")
    assert look_at(sandbox) == before


@pytest.mark.users("ordinary")
def test_directory_whose_mode_is_not_known(sandbox, mount):
    """It was taken away where nobody looked: it is as a new one, but no more open than where it lies."""
    there = mount()
    sandbox.sh("umask 022; mkdir gone; echo x > gone/file; mkdir -m 750 team; mkdir team/gone; echo x > team/gone/file")
    there.unmount()
    sandbox.sh("rm -r gone team/gone; chmod 755 .")
    shfs = f"{harness.PREFIX}/bin/shfs"
    for umask, mode in ("022", "755"), ("027", "750"), ("077", "700"):
        told = sandbox.sh('umask $1; "$2" undelete gone', umask, shfs, check=1)
        assert f"gone has mode 0{mode} now" in told.stderr
        assert sandbox.sh("stat -c %a gone gone/file; cat gone/file; rm -r gone").stdout == f"{mode}\n644\nx\n"
    told = sandbox.sh('umask 022; "$1" undelete team', shfs, check=1)
    assert "team/gone has mode 0750 now" in told.stderr and sandbox.sh("stat -c %a team/gone").stdout == "750\n"
    sandbox.shfs("restore", "gone/file@1", "--to", "elsewhere/file")
    assert sandbox.sh("umask 022; stat -c %a elsewhere").stdout == "755\n", "a new one is as new ones are"


# --- rerun: backups, names that only a shell knows, what failed ---


def stale(sandbox):
    """{text: [result]} of the commands that are to be run again."""
    found = json.loads(sandbox.shfs("stale", "--json", check=False).stdout)["commands"]
    return {c["text"]: [os.path.basename(r["path"]) for r in c["results"]] for c in found}


COPIES = ["cp raw kept 2>&1", "/bin/cp raw kept", "command cp raw kept", "cp raw kept && echo ok",
          "cp raw 'a&b'; cp raw kept | cat", "(cp -p raw kept)", "bak raw kept", "busybox cp raw kept"]  # fmt: skip


@pytest.mark.users("ordinary")
@pytest.mark.parametrize("line", COPIES)
def test_backups_stay(work, sandbox, line):
    work.run("bak() { cp \"$1\" \"$2\"; }; echo precious > raw")
    work.run(line)
    work.run("echo other > raw; sort raw > sorted")
    work.run("echo another > raw")
    assert stale(sandbox) == {"echo other > raw; sort raw > sorted": ["sorted"]} or list(stale(sandbox)) == []
    sandbox.shfs("rerun", "--yes", check=False)
    assert sandbox.read("kept") == b"precious\n"


@pytest.mark.users("ordinary")
def test_backup_beside_a_result(work, sandbox):
    """It cannot be told apart from what is run again: refused, but for one that was named."""
    work.run("echo precious > raw")
    text = "cp raw kept; cp raw mid; sort mid > sorted"
    work.run(text)
    work.run("echo other > raw")
    assert list(stale(sandbox)) == [text] and stale(sandbox)[text] == ["sorted"]
    refused = sandbox.shfs("rerun", "--yes", check=4).stderr
    assert "would overwrite kept, a copy of a file that has changed since" in refused and "mid," not in refused
    assert sandbox.read("kept") == b"precious\n"
    sandbox.shfs("rerun", "--yes", "--force")
    assert sandbox.read("sorted") == b"other\n"


@pytest.mark.users("ordinary")
def test_what_scripts_copy_is_made_again(work, sandbox):
    sandbox.write("build", "cp raw built\n")
    work.run("echo 1 > raw")
    work.run("sh build")
    work.run("echo 2 > raw")
    sandbox.shfs("rerun", "--yes")
    assert sandbox.read("built") == b"2\n"


NAMES = {
    "s raw > mid": "s",
    "cat raw | s > mid": "s",
    "if true; then f raw > mid; fi": "f",
    "x=1 f raw 2>&1 > mid": "f",
    "{ true && f raw; } > mid": "f",
    "cat raw > mid; for i in 1; do f raw >> mid; done": "f",
    "cat <(f raw) > mid": "f",
}


@pytest.mark.users("ordinary")
@pytest.mark.parametrize("kind", ["bash", "zsh"])
def test_names_of_the_shell(sandbox, mounted, shell, kind):
    """Without the compiled hook, which notes the bodies of aliases and functions (test_definitions.py)."""
    there = shell(kind, init=False, after=plain(kind))
    there.run("alias s=sort")
    there.run("f() { sort \"$@\"; }; echo 2 > raw")
    known = [
        "cd . && export A=1 && awk '{ print f }' raw > k1; type true > /dev/null",
        "for i in f s; do echo $i; done > k2",
        "a=1 b=(f s); if [ -e raw ]; then cat raw; else cat raw; fi > k3",
        "while read -r s; do echo \"$s; f\"; done < raw > k4; wait",
        "sort <<< $'it\\'s; f' > k5; echo \"it's; f (\" | cat > k6; ! false && { cat raw > k7; }",
    ]
    for text in list(NAMES) + known:
        there.run(text)
    ids = {c["text"]: c["id"] for c in json.loads(sandbox.shfs("history", "--json", "--all").stdout)["commands"]}
    for text, name in NAMES.items():
        said = sandbox.shfs("rerun", "--command", ids[text], check=4).stderr
        assert f"runs {name}, which is no program" in said, text
    for text in known:
        assert "no program" not in sandbox.shfs("rerun", "-n", "--command", ids[text], check=False).stderr, text
    assert sandbox.read("mid") == b"2\n"


@pytest.mark.users("ordinary")
def test_failed_is_rolled_back_and_not_current(work, sandbox):
    sandbox.write("slow", "sort raw; exit $(cat status)\n")
    work.run("echo 0 > status; echo 2 > raw; touch mid")
    work.run("sh slow > mid")
    work.run("cat mid > last")
    work.run("echo 3 > raw; echo 7 > status")
    run = sandbox.shfs("rerun", "--yes", check=1)
    assert "ended with 7" in run.stderr and sandbox.read("mid") == b"2\n"
    assert sandbox.shfs("cat", "mid@3").stdout == "3\n", "what it left is not lost"
    assert list(stale(sandbox)) == ["sh slow > mid", "cat mid > last"]
    # typed, it is not rolled back
    work.run("sh slow > mid")
    assert sandbox.read("mid") == b"3\n" and list(stale(sandbox)) == ["sh slow > mid", "cat mid > last"]
    assert "ended with 7" in sandbox.shfs("stale", check=1).stdout
    sandbox.shfs("rerun", "--yes", check=1)
    assert list(stale(sandbox)) == ["sh slow > mid", "cat mid > last"]
    work.run("echo 0 > status")
    sandbox.shfs("rerun", "--yes")
    assert stale(sandbox) == {} and sandbox.read("last") == b"3\n"
    # one that always ends so is none that failed
    work.run("grep -c nothing raw > count")
    work.run("diff raw mid > differences")
    work.run("echo nothing >> raw")
    for line in "grep -c nothing raw > count", "diff raw mid > differences":
        work.run(line)
    work.run("echo 3 > raw")
    work.run("grep -c nothing raw > count")
    assert list(stale(sandbox)) == ["diff raw mid > differences"]


# --- restore, and stale ---


@pytest.mark.users("ordinary")
def test_stale_after_restore(work, sandbox):
    work.run("echo 1 > in; sort in > mid")
    work.run("sort in > mid")
    work.run("sort mid > out")
    work.run("echo 2 > in")
    work.run("sort in > mid")
    assert list(stale(sandbox)) == ["sort mid > out"]
    work.run("shfs restore mid@1")
    # out is of what lies there again; mid is not of the newer input
    assert list(stale(sandbox)) == ["sort in > mid", "sort mid > out"]
    work.run("echo 1 > in")
    assert stale(sandbox) == {}
    work.run("rm mid")
    work.run("shfs undelete mid")
    assert stale(sandbox) == {}
    work.run("echo 3 > in")
    assert list(stale(sandbox)) == ["sort in > mid", "sort mid > out"]
    sandbox.shfs("rerun", "--yes")
    assert sandbox.read("out") == b"3\n" and stale(sandbox) == {}


@pytest.mark.users("ordinary")
def test_stale_after_version_control(work, sandbox):
    """What git puts back at its path is the result that it was; what git has alone is none."""
    work.run("git init -q; git config user.name n; git config user.email e@x")
    work.run("echo 1 > in")
    work.run("sort in > mid")
    work.run("sort mid > out")
    work.run(": > empty")
    work.run("git add .; git commit -qm 1")
    work.run("echo 2 > in")
    work.run("sort in > mid")
    work.run("git stash -q")
    assert stale(sandbox) == {} and sandbox.read("mid") == b"1\n"
    work.run("git stash pop -q")
    assert stale(sandbox) == {"sort mid > out": ["out"]}
    work.run("git checkout -q mid")
    assert list(stale(sandbox)) == ["sort in > mid", "sort mid > out"]
    work.run("git mv empty other; git commit -qm 2; rm other; git checkout -q other")
    assert not [n for names in stale(sandbox).values() for n in names if n == "other"]
    work.run("git checkout -q .; echo 3 > in")
    assert list(stale(sandbox)) == ["sort in > mid", "sort mid > out"]


# --- mounts in each other's way ---


@pytest.fixture
def around(sandbox):
    """A directory inside the home directory was mounted, then that: what it said then."""
    inner = sandbox.mkdir(f"{sandbox.home}/q")
    assert not sandbox.shfs("mount", inner).stderr
    return sandbox.shfs("mount", sandbox.home, cwd="/").stderr


@pytest.mark.alone  # where the store lies on a mount, all are asked, also those that hang for a test
def test_mount_around_what_is_mounted(sandbox, around):
    assert "warning: ~ is the home directory" in around
    assert "warning: ~/q is mounted already" in around
    assert "warning: the store is inside ~" in around
    sandbox.sh("echo text > notes", cwd=sandbox.home)
    for tool in ("prune", "--keep-last=1"), ("gc",), ("forget", "--yes", f"{sandbox.home}/notes"):
        told = sandbox.shfs(*tool, cwd="/", check=4).stderr
        assert "the store is inside the mount ~" in told and "network" not in told
        assert "shfs umount ~" in told
    told = sandbox.shfs("umount", f"{sandbox.home}/q", cwd="/", check=4).stderr
    assert "~/q is hidden by the mount ~" in told and "shfs umount ~ ~/q" in told
    assert sandbox.shfs("umount", f"{sandbox.home}/q", sandbox.home, cwd="/").stdout.count("is unmounted") == 2
    assert not harness.mounts_below(sandbox.path)
    assert sandbox.shfs("cat", f"{sandbox.home}/notes", cwd="/").stdout == "text\n"
    sandbox.shfs("gc", cwd="/")


@pytest.mark.alone
@pytest.mark.users("ordinary")  # root's are also those of other runs of the tests
@pytest.mark.parametrize("args", [("--all",), ("--lazy", "--all"), ("--lazy", "~", "~/q"), ("~",)])
def test_unmounted_in_the_order_that_works(sandbox, around, args):
    here = [a.replace("~", sandbox.home) for a in args]
    with sandbox.popen(["cat"], stdin=subprocess.PIPE, cwd=sandbox.home) as stands:
        sandbox.shfs("umount", *here, cwd="/")
        stands.communicate()
    assert harness.mounts_below(sandbox.path) == ([f"{sandbox.home}/q"] if args == ("~",) else [])
    sandbox.shfs("umount", "--all", cwd="/")


@pytest.mark.users("ordinary")
@pytest.mark.parametrize("below", ["", "/journal"])
def test_the_store_does_not_record_itself(sandbox, below):
    sandbox.mount().unmount()
    assert "cannot record itself" in sandbox.shfs("mount", sandbox.store + below, cwd="/", check=4).stderr
    assert not harness.mounts_below(sandbox.path)


@pytest.mark.alone
def test_hidden_by_one_and_another(sandbox):
    """All that are in the way are named."""
    sandbox.allow_log("names and attributes are cached for a second")
    deep = [f"{sandbox.project}/a", f"{sandbox.project}/a/b", f"{sandbox.project}/a/b/c"]
    for path in deep:
        sandbox.mkdir(path)
    for path in deep[::-1]:
        sandbox.shfs("mount", path, cwd="/")
    told = sandbox.shfs("umount", deep[2], cwd="/", check=4).stderr
    assert "c is hidden by the mount ~/project/a, which" in told
    assert "shfs umount ~/project/a ~/project/a/b ~/project/a/b/c\n" in told
    sandbox.shfs("umount", *deep, cwd="/")
    assert not harness.mounts_below(sandbox.path)


@pytest.mark.alone
@pytest.mark.users("root")
def test_mounted_inside_goes_first(sandbox):
    sandbox.allow_log("names and attributes are cached for a second")
    inner = sandbox.mkdir(f"{sandbox.project}/inside")
    sandbox.shfs("mount", sandbox.project, cwd="/")
    sandbox.shfs("mount", inner, cwd="/")
    assert "~/project/inside is mounted inside it" in sandbox.shfs("umount", "-l", sandbox.project, cwd="/", check=4).stderr
    sandbox.shfs("umount", sandbox.project, inner, sandbox.project, cwd="/")
    assert not harness.mounts_below(sandbox.path)


def kill_mounts(sandbox):
    """With their guardians, so that nobody takes them away, while a file of the project is open."""
    sandbox.allow_exit(-signal.SIGKILL)
    sandbox.allow_log("ended")
    sandbox.sh("echo 1 > f")
    holder = sandbox.popen(["sh", "-c", "exec 3<f; read -r end"], stdin=subprocess.PIPE)
    harness.wait_until(lambda: os.path.lexists(f"/proc/{holder.pid}/fd/3"), "the file to be open")
    sandbox.shfs("sync")
    killed = pids_of(sandbox, "shfs-fuse")
    for signo in signal.SIGSTOP, signal.SIGKILL:
        for pid in killed:
            os.kill(pid, signo)
    harness.wait_until(lambda: not pids_of(sandbox, "shfs-fuse"), "them to die")
    return holder


def test_dead_mount_is_mended(sandbox):
    sandbox.shfs("mount", sandbox.project)
    holder = kill_mounts(sandbox)
    told = sandbox.shfs("mount", sandbox.project, cwd="/")
    assert "~/project was dead" in told.stdout and "is mounted" in told.stdout and not told.stderr
    assert harness.mounts_below(sandbox.path) == [sandbox.project]
    sandbox.sh("echo 2 >> f")
    assert sandbox.shfs("cat", "f").stdout == "1\n2\n"
    holder.communicate(timeout=20)
    sandbox.shfs("umount", sandbox.project)


@pytest.mark.users("root")
def test_what_stands_on_a_dead_mount(sandbox):
    """No path leads there any more; it is not taken away unsaid."""
    sandbox.allow_log("changes in the lower file system cannot be noticed")
    inner = sandbox.mkdir(f"{sandbox.project}/inside")
    sandbox.shfs("mount", sandbox.project)
    sandbox.shfs("mount", inner)
    holder = kill_mounts(sandbox)
    told = sandbox.shfs("mount", sandbox.project, cwd="/")
    assert "~/project/inside, which is mounted inside it, is unmounted, too" in told.stderr
    holder.communicate(timeout=20)
    sandbox.shfs("umount", sandbox.project)


def test_another_namespace_holds_it(sandbox):
    if os.geteuid() != 0:
        pytest.skip("needs root")
    sandbox.shfs("mount", sandbox.project)
    argv = ["unshare", "--mount", "--propagation", "private", "sh", "-c", "echo there; read -r end"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"there\n"
        told = sandbox.shfs("umount", sandbox.project, cwd="/")
        # this one, or one of another case that runs now
        assert re.search(r"\w+ \(\d+\) still has the mount, in another mount namespace", told.stdout)
        assert "being written" not in told.stderr
        holder.communicate(b"\n", timeout=20)
    harness.wait_until(lambda: not pids_of(sandbox, "shfs-fuse"), "it to end")


# --- a disk that is full to the last byte ---


def fill(where):
    """Until not a byte more goes on it; the file that takes the room."""
    path = f"{where}/filler"
    with open(path, "ab", buffering=0) as filler:
        for size in 1 << 20, 4096, 1:
            with contextlib.suppress(OSError):
                while filler.write(b"x" * size):
                    pass
    return path


@pytest.fixture(params=["ext4", "tmpfs"])
def small_disk(request, sandbox):
    """The store is on a disk of its own."""
    options = ["-m", "0"] if request.param == "ext4" else []
    with harness.disk(sandbox, 40, *options, kind=request.param) as where:
        sandbox.allow_log("No space left|not up to date|lost|without an index")
        sandbox.store = sandbox.env["SHFS_STORE"] = f"{where}/store"
        sandbox.disk = where
        yield where


@pytest.mark.users("ordinary")
def test_full_disk_is_asked(sandbox, small_disk):
    """What was archived just before the disk was full, and is in no index."""
    mounted = sandbox.mount()
    sandbox.write("known", b"known")
    assert sandbox.shfs("cat", "known").stdout == "known"
    sandbox.write("new", b"just before")
    sandbox.run("getfattr", "--only-values", "-n", "user.shfs.sync", ".")
    filler = fill(small_disk)
    answer = sandbox.shfs("cat", "new")
    assert answer.stdout == "just before" and "up to date" not in answer.stderr
    assert "new" in sandbox.shfs("history", "--all").stdout
    mounted.unmount()
    assert sandbox.shfs("cat", f"{sandbox.project}/new", cwd="/").stdout == "just before"
    # nor is there any index at all
    for name in os.listdir(sandbox.store):
        if name.startswith("index.db"):
            os.unlink(f"{sandbox.store}/{name}")
    fill(small_disk)
    assert sandbox.shfs("cat", f"{sandbox.project}/new", cwd="/").stdout == "just before"
    os.unlink(filler)
    assert "no flaws" in sandbox.shfs("check", "--read-data").stdout


@pytest.mark.users("ordinary")
@pytest.mark.parametrize("tool", ["prune", "gc"])
def test_full_disk_is_pruned(sandbox, small_disk, tool):
    """With no room at all, what is archived last is answered, room is made, and nothing else is lost."""
    mounted = sandbox.mount()
    sandbox.write("kept", b"kept")
    sandbox.run("python3", "-c", "import os\nfor i in range(60): open('big', 'wb').write(os.urandom(90000))")
    sandbox.write("chain", os.urandom(20000))
    sandbox.run("sh", "-c", "for i in 1 2 3 4 5 6; do echo $i >> chain; cp chain copy; done")
    last, chain = sandbox.read("big"), sandbox.read("chain")
    sandbox.write("new", b"just before")
    sandbox.shfs("sync")
    if tool == "gc":  # the journal names nothing that went
        mounted.unmount()
        for path in glob.glob(f"{sandbox.store}/journal/*/*.seg*"):
            os.unlink(path)
    filler = fill(small_disk)
    before = sum(os.stat(p).st_size for p in glob.glob(f"{sandbox.store}/objects/packs/*.pack"))
    if tool == "gc":
        assert "collected: " in sandbox.shfs("gc", cwd="/").stdout
    else:
        forget = "forget", "--yes", f"{sandbox.project}/kept"
        assert "make room with shfs prune" in sandbox.shfs(*forget, cwd="/", check=1).stderr
        assert "pruned: " in sandbox.shfs("prune", "--keep-last", "1", cwd="/").stdout
    after = sum(os.stat(p).st_size for p in glob.glob(f"{sandbox.store}/objects/packs/*.pack"))
    assert before > 4 << 20 and after < 1 << 20
    if tool == "prune":
        for name, held in ("kept", b"kept"), ("new", b"just before"), ("big", last), ("chain", chain):
            assert sandbox.shfs("cat", f"{sandbox.project}/{name}", cwd="/").stdout_bytes == held, name
        harness.wait_until(lambda: status_of(sandbox.shfs, sandbox.project)[0]["state"] == "recording", "it to go on")
        sandbox.write("after", b"recorded")
        mounted.unmount()
        assert sandbox.shfs("cat", f"{sandbox.project}/after", cwd="/").stdout == "recorded"
        sandbox.shfs(*forget, cwd="/")
        sandbox.shfs("log", f"{sandbox.project}/kept", cwd="/", check=3)
    os.unlink(filler)
    sandbox.shfs("reindex", cwd="/")
    assert "no flaws" in sandbox.shfs("check", "--read-data", cwd="/").stdout


@pytest.mark.users("ordinary")
@pytest.mark.parametrize("failing", [False, True])
def test_room_of_what_is_pruned_is_free(sandbox, small_disk, failing):
    """A mount that has nothing to write, or that cannot, has the pack open in which that was."""

    def state():
        return status_of(sandbox.shfs, sandbox.project)[0]["state"]

    mounted = sandbox.mount()
    sandbox.run("python3", "-c", "import os\nfor i in range(60): open('big', 'wb').write(os.urandom(90000))")
    sandbox.shfs("sync")
    fill(small_disk)
    if failing:
        sandbox.write("late", os.urandom(100000))
        harness.wait_until(lambda: state() != "recording", "it to fail")
    assert "pruned: " in sandbox.shfs("prune", "--keep-last", "1", cwd="/").stdout
    disk = os.statvfs(small_disk)
    assert disk.f_bavail * disk.f_frsize > 4 << 20
    harness.wait_until(lambda: state() == "recording", "it to go on")
    sandbox.write("after", b"recorded")
    mounted.unmount()
    assert sandbox.shfs("cat", f"{sandbox.project}/after", cwd="/").stdout == "recorded"


@pytest.mark.users("ordinary")
def test_reserve_is_made_and_not_counted(sandbox, small_disk):
    reserve = f"{sandbox.store}/state/reserve"
    sandbox.mount().unmount()
    assert os.stat(reserve).st_blocks * 512 >= 1 << 20
    assert json.loads(sandbox.shfs("status", "--json", cwd="/").stdout)["store"]["bytes"] < 1 << 20
    assert json.loads(sandbox.shfs("prune", "--keep-last", "1", "--json", cwd="/").stdout)["store_after"] < 1 << 20
    os.unlink(reserve)
    sandbox.shfs("gc", cwd="/")
    assert os.path.exists(reserve)
    mounted = sandbox.mount()
    sandbox.write("secret", b"secret")
    sandbox.shfs("sync")
    os.unlink(reserve)
    sandbox.shfs("forget", "--yes", "secret")  # the mount begins another segment for that
    assert os.path.exists(reserve)
    mounted.unmount()


@pytest.mark.users("ordinary")
def test_the_laptop_is_lost(sandbox):
    """As docs/recovery.md has it: a clone, and the files are back; a restore says how, if nothing is there."""
    remote = f"{sandbox.path}/remote"
    mount = sandbox.mount()
    sandbox.sh("mkdir d; echo 1 > f; echo 2 > f; echo 3 > d/g; echo gone > h; rm h")
    sandbox.sh("echo 1 > saved; mv saved saved.old; echo 2 > saved; echo 1 > again; rm again; echo 2 > again")
    sandbox.shfs("remote", "add", "away", remote)
    mount.unmount()
    sandbox.shfs("push", cwd="/")
    sandbox.sh('rm -rf "$1" *', sandbox.store)
    sandbox.shfs("clone", remote, cwd="/")
    sandbox.mount()
    for when in "now", "an hour ago":
        assert "shfs undelete" in sandbox.shfs("restore", f"{sandbox.project}@{{{when}}}", check=False).stderr
    listed = sandbox.shfs("undelete", "-l").stdout
    assert re.findall(r"^(\S+)@\d\n.*, (gone unseen|removed)", listed, re.M) == [
        *((name, "gone unseen") for name in ("again", "d/g", "f")), ("h", "removed"), ("saved", "gone unseen"), ("saved.old", "gone unseen")]
    assert "its old mode is not recorded" in sandbox.shfs("undelete", "f", "d", "saved", "saved.old", "again", check=1).stderr
    assert sandbox.sh("cat f d/g saved saved.old again").stdout == "2\n3\n2\n1\n2\n"
    assert "shfs undelete" not in sandbox.shfs("restore", f"{sandbox.project}@{{now}}").stderr
    sandbox.sh("rm -r d")
    assert "shfs undelete" not in sandbox.shfs("restore", f"{sandbox.project}@{{now}}").stderr, "that it was removed is recorded"


@pytest.mark.users("ordinary")
def test_a_directory_that_is_gone(sandbox):
    mount = sandbox.mount()
    sandbox.sh("mkdir d; echo 1 > d/f; echo 2 > d/f")
    mount.unmount()
    sandbox.sh("rm -r d")
    gone = sandbox.shfs("restore", "d@{now}", "--to", f"{sandbox.home}/x", check=3).stderr
    assert "not there" in gone and "cannot read" not in gone
