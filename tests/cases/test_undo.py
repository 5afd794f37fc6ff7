# SPDX-License-Identifier: MIT
"""What undo puts back: random lines that change files in all ways, and the tree before beside the tree after; the
undo undone is the tree that the line left. SHFS_TEST_SEEDS says with which numbers."""

import json
import os
import random

import pytest

from harness import ALL, PREFIX, disk, ids_of, seeds
from test_put_back import differences

SEEDS = seeds(3, an_hour=600)

FILES = "a b c d/a d/b d/e/a empty ro two s p/q/r"
DIRECTORIES = "d d/e hollow p p/q"
# {f}, {g}: files that may be there; {d}, {h}: directories; {n}: a name that is new
STEPS = (
    "echo more >> {f}",
    "echo new > {f}",
    "head -c 3 in > {f}",
    ": > {f}",
    "truncate -s 5 {f}",
    "sed -i s/1/7/ {f}",
    "sort -r {f} -o {f}",
    "echo x > {n}",
    "cp {f} {g}",
    "cp -p {f} {n}",
    "cp -p {f} {g}",
    "rsync -a --inplace d/ p/",
    "cp -a {d} {n}",
    "mv {f} {g}",
    "mv {f} {n}",
    "mv {f} {n}; echo other > {f}",
    "mv {f} {n}; echo other >> {n}",
    "mv {f} .x; mv {g} {f}; mv .x {g}",
    "mv {d} {n}",
    "mv {d} {n}; mkdir {d}; echo other > {d}/a",
    "mv {d} {n}; echo more >> {n}/a; mv {n} {d}",
    "mv {n} {h}/",
    "rm {f}",
    "rm {f}; echo again > {f}",
    "rm {f}; mkdir {f}; echo deep > {f}/x",
    "rm -r {d}",
    "rm -r {d}; echo a file > {d}",
    "rm -r {d}; mkdir -p {d}; echo again > {d}/a",
    "rmdir {d}",
    "mkdir {n}; echo x > {n}/x; chmod 500 {n}",
    "mkdir -p {h}/{n}/{n}",
    "chmod 600 {f}",
    "chmod 755 {f}; echo more >> {f}",
    "chmod 700 {d}",
    "chmod 500 {h}",
    "touch {f}",
    "touch -d 2001-01-01 {f} {d}",
    "cp -p {f} .x; echo more > {f}; touch -r .x {f}; rm .x",
    "ln {f} {n}",
    "ln {f} {n}; echo more >> {n}",
    "ln {f} {n}; rm {f}",
    "ln -f {f} {g}",
    "ln -s {f} {n}",
    "ln -sfn {g} link",
    "rm link; cp in link",
    "mv {f} link",
    "rm link",
    "echo through >> link",
    "rm two three",
    "rm two; echo new > two",
    "echo both >> three",
    "chmod 640 three",
    "rm pipe; mkfifo n0",
    "setfattr -n user.colour -v red {f}",
    "setfattr -n user.old -v new s; rm s",
    "setfattr -x user.old s",
    "setfacl -m u:nobody:r {f}",
    "setfacl -d -m u:nobody:rx {d}",
    "tar cf .t.tar d; rm -r d; tar xf .t.tar; rm .t.tar",
    "rsync -a --delete d/ {n}/",
    "rsync -a --delete hollow/ d/",
    "git add -A; git commit -qm more",
    "git stash -q -u",
    "git checkout -q -b {n}; git checkout -q -",
    "git reset -q --hard; git clean -fdq",
    'python3 -c \'import os; os.rename("a", "{n}"); os.link("{n}", "a")\'',
    'python3 -c \'import ctypes; ctypes.CDLL(None).renameat2(-100, b"a", -100, b"d", 2)\'',
    'python3 -c \'f = open("{n}", "w"); import os; os.rename("{n}", "{f}"); f.write("late")\'',
    "touch .lock; rm .lock",
)
AS_ROOT = ("chown 1234:2345 {f}", "chown 1234 {d}", "chown 1:1 {f}; echo more >> {f}", "chmod 2755 {d}/.", "mknod {n} c 1 3")

LOOK = r"""
import errno, hashlib, json, os, stat
found, names = {}, {}
def look(path):
    st = os.lstat(path)
    kind = stat.S_IFMT(st.st_mode)
    text = os.readlink(path) if stat.S_ISLNK(st.st_mode) else None
    digest = None
    if stat.S_ISREG(st.st_mode):
        names.setdefault(st.st_ino, []).append(path)
        try:
            digest = open(path, "rb").read().hex()
        except OSError as error:  # also of what was there too short to be kept
            if error.errno not in (errno.EACCES, errno.ENODATA):
                raise
    try:
        xattrs = {n: os.getxattr(path, n, follow_symlinks=False).hex() for n in os.listxattr(path, follow_symlinks=False)}
    except OSError:
        xattrs = None
    found[path] = [kind, oct(st.st_mode & 0o7777), st.st_uid, st.st_gid, st.st_mtime_ns, text, digest, xattrs]
    if stat.S_ISDIR(st.st_mode):
        for name in sorted(os.listdir(path)):
            look(os.path.join(path, name))
look(".")
for group in names.values():
    for name in group:
        found[name].append(group)
print(json.dumps(found))
"""


def tree(sandbox, git=False):
    """{path: all about it}."""
    found = json.loads(sandbox.run("python3", "-c", LOOK).stdout)
    mine = "./.git/objects" if git else "./.git"
    return {p: about for p, about in found.items() if p != mine and not p.startswith(mine + "/")}


def lay_out(sandbox):
    sandbox.sh(f"git init -q; git config user.name me; git config user.email me@here; mkdir -p {DIRECTORIES}; seq 9 > in")
    for name in FILES.split():
        sandbox.sh(f"for i in 1 2 3; do echo $i {name}; done > {name}")
    sandbox.sh("git add -A; git commit -qm first; git gc -q")
    sandbox.sh(
        ": > empty; chmod 444 ro; ln two three; ln -s a link; mkfifo pipe; chmod 750 d/e; touch -d 2020-02-02 a b d;"
        " setfattr -n user.old -v 1 s; echo uncommitted >> c; echo untracked > u; touch -h -d 2020-03-03 link;"
    )


def line_of(seed, root):
    chosen = random.Random(seed)
    steps = []
    for _ in range(chosen.randint(1, 8)):
        f, g = chosen.sample([*FILES.split(), "out", "three", "u"], 2)
        d, h = chosen.choice(DIRECTORIES.split()), chosen.choice(DIRECTORIES.split())
        step = chosen.choice(STEPS + (AS_ROOT if root else ()))
        steps.append(step.format(f=f, g=g, d=d, h=h, n=f"n{chosen.randint(1, 3)}"))
    return "; ".join(f"{{ {step}; }} </dev/null 2>/dev/null" for step in steps)


def last_id(sandbox, text):
    return ids_of(sandbox, text)[-1]


def undo(sandbox, work, text, *options):
    """Undoes the last command with this text, as one that is typed. Its own text, and what it printed."""
    line = " ".join(("shfs undo --yes", *options, last_id(sandbox, text)))
    return line, work.run(f"{line}; echo =$?")


@pytest.mark.parametrize("seed", SEEDS)
def test_the_tree_is_as_it_was(sandbox, shell, user, seed):
    check_the_tree(sandbox, shell, user, seed)


@pytest.mark.parametrize("kind", ["btrfs", "xfs"])
@pytest.mark.parametrize("seed", SEEDS if ALL else SEEDS[:1])
def test_the_tree_is_as_it_was_on(sandbox, shell, user, kind, seed):
    with disk(sandbox, 400, kind=kind, where=sandbox.project) as top:
        os.chown(top, user.uid, user.gid)
        check_the_tree(sandbox, shell, user, seed + 100)


def check_the_tree(sandbox, shell, user, seed):
    """A line, the undo of it, and the undo of that."""
    there = sandbox.mount()
    lay_out(sandbox)
    work = shell()
    try:
        check_the_line(sandbox, there, work, line_of(seed, user.name == "root"), seed % 2)
    finally:
        work.close()


def check_the_line(sandbox, there, work, line, git):
    options = ["--git"] if git else []
    before = tree(sandbox, git)
    work.run(line)
    there.settle()
    after = tree(sandbox, git)
    typed, said = undo(sandbox, work, line, *options)
    there.settle()
    assert not differences(before, tree(sandbox, git)), f"{line}\n{said}"
    if "nothing that was selected" not in said:
        assert said.endswith("=0") or not differences(before, after), f"{line}\n{said}"
        typed, said = undo(sandbox, work, f"{typed}; echo =$?", *options)
        there.settle()
        assert not differences(after, tree(sandbox, git)), f"{line}\n{said}"


def test_one_file_by_two_names(sandbox, mount, shell):
    """What is written by a name that was never seen before is the same file's, too."""
    there = mount()
    lay_out(sandbox)
    lines = (
        "setfattr -n user.c -v 1 two; setfattr -n user.c -v 2 three",
        "setfattr -n user.d -v 1 three; chmod 600 two; setfattr -n user.d -v 2 two; setfattr -n user.d -v 3 three",
        ": > two; echo both >> three",
        "echo 1 >> three; sed -i s/1/7/ two; echo 2 >> three",
        "ln a n1; : > n1; echo more >> a",
        "setfattr -n user.e -v 1 n1; setfattr -n user.f -v 2 a; setfattr -n user.e -v 3 n1; rm a",
    )
    for line in lines:
        check_the_line(sandbox, there, shell(), line, 0)


def test_a_file_by_a_name_that_it_lost(sandbox, mount, shell):
    """What was changed by a name that is gone is put back by one that the file has kept, which no command has named."""
    there = mount()
    lay_out(sandbox)
    lines = (
        "echo more >> two; rm two",
        ": > two; chmod 600 two; setfattr -n user.new -v 1 two; rm two",
        "sed -i s/1/7/ two > /dev/null; echo more >> three; rm three",
        "cp -p empty two; mv -f u two",
        "mv three p/n1; echo more >> two; rm two",
        "mkdir n1; mv d n1/; ln two n1/d/n2; cp -p u n1/d/n2",
        'python3 -c \'import os; os.rename("a", "n3"); os.link("n3", "a")\'; cp -p empty n3',
        "ln -f in a; ln -f s b",
        "echo more >> a; rm a; echo more >> in",
        "chmod 600 b; touch -d 2001-01-01 b; : > b; rm b; mv s n4; echo more >> n4",
    )
    for line in lines:
        check_the_line(sandbox, there, shell(), line, 0)


@pytest.mark.users("ordinary")
def test_what_may_not_be_written(sandbox, mount, shell):
    """What its owner has closed is opened for a moment."""
    there = mount()
    lay_out(sandbox)
    lines = (
        "echo more >> two; chmod 444 three",
        ": > three; chmod 0 three; rm -f two",
        "setfattr -n user.new -v 1 a; chmod 444 a",
        "setfattr -n user.new -v 1 b; chmod 0 b",
        "chmod 644 ro; setfattr -n user.new -v 1 ro; echo more >> ro; chmod 444 ro",
        "setfattr -n user.new -v 1 d; chmod 555 d",
        "setfattr -n user.new -v 1 hollow; chmod 500 hollow; mv hollow n1",
    )
    for line in lines:
        check_the_line(sandbox, there, shell(), line, 0)


WRITER = "python3 -c 'import ctypes, os; f = open(\"b\", \"{mode}\"); {then}; f.write(\"late\")'"


@pytest.mark.parametrize(
    "mode, then",
    [
        ("w", 'os.rename("b", "d/a")'),
        ("a", 'f.write("x"); f.flush(); os.rename("b", "d/a")'),
        ("w", 'os.rename("b", "d/a"); os.rename("d/a", "c"); os.chmod("c", 0o600); os.utime("c", (5, 5))'),
        ("w", 'os.rename("b", "n1"); os.rename("n1", "c"); os.rename("c", "n2")'),
        ("w", 'os.rename("b", "d/a"); g = open("d/a", "a"); g.write("g"); g.close()'),
        ("w", 'os.rename("d", "n1"); os.rename("b", "n1/a")'),
        ("w", 'os.link("b", "n1"); os.unlink("b")'),
        ("w", 'ctypes.CDLL(None).renameat2(-100, b"b", -100, b"c", 2)'),
        ("w", 'ctypes.CDLL(None).renameat2(-100, b"c", -100, b"b", 2)'),
        ("w", 'os.rename("b", "d/a"); os.rename("c", "d/a")'),
        ("w", 'os.unlink("b")'),
        ("w", 'os.rename("c", "b")'),
        ("w", 'g = open("n1", "w"); h = open("n1", "a"); os.rename("b", "n1"); g.write("g"); h.write("h")'),
    ],
)
def test_moved_while_it_is_written(sandbox, mount, shell, mode, then):
    """What it held before is not what was at its new name; a write of which the end comes later has set its time."""
    there = mount()
    lay_out(sandbox)
    check_the_line(sandbox, there, shell(), WRITER.format(mode=mode, then=then), 0)
    check_the_line(sandbox, there, shell(), "echo 1 >> b; echo 2 >> c; rm -f b", 0)


# --- what others did ---

LINES = "\n".join(f"line {n}" for n in range(1, 10))


@pytest.fixture
def work(sandbox, mount, shell):
    """A shell in a project with some files."""
    there = mount()
    lay_out(sandbox)
    sandbox.write("text", f"{LINES}\n")
    there.settle()
    return shell()


def done(sandbox, *options, status=0):
    return sandbox.shfs("undo", "--yes", *options, check=status)


def test_what_others_changed_since_stays(sandbox, work):
    line = "echo one >> a; echo one >> b; rm c; mv d/a moved; mkdir n; echo x > n/x; chmod 600 s"
    work.run(line)
    before_others = tree(sandbox)
    work.run("echo mine >> b; echo mine > c; touch n/mine; echo mine >> s; echo mine > d/a")
    id = last_id(sandbox, line)
    shown = sandbox.shfs("undo", "-n", id, check=4).stdout
    assert "b: was changed since, by" in shown and "c: is there again, by" in shown and "echo mine >> b" in shown
    assert "n: holds mine" in shown and "d/a: is there again" in shown
    run = done(sandbox, id, status=4)
    assert sandbox.read("a") == b"1 a\n2 a\n3 a\n" and sandbox.read("b").endswith(b"one\nmine\n")
    assert sandbox.read("c") == b"mine\n" and sandbox.read("moved") == b"1 d/a\n2 d/a\n3 d/a\n", run
    now = tree(sandbox)
    assert now["./s"][1] == "0o644" and sandbox.read("s").endswith(b"mine\n")
    assert "./n/mine" in now and "./n/x" not in now and before_others["./s"][1] == "0o600"


def test_a_mode_of_others_stays(sandbox, work):
    """Though an ACL is put back, which changes it."""
    line = "chmod 600 s; setfacl -m u:nobody:r s; chmod 600 c; setfattr -n user.new -v 1 c"
    work.run(line)
    work.run("chmod 640 c; chmod 666 s")
    run = done(sandbox, last_id(sandbox, line))
    now = tree(sandbox)
    assert now["./c"][1] == "0o640" and now["./c"][7] == {} and "system.posix_acl_access" not in now["./s"][7], run
    assert now["./s"][1] == "0o666", run


def test_merged(sandbox, work):
    line = "sed -i s/1/one/ text; printf 'a\\0b' > binary; echo 1 > same"
    sandbox.sh("printf 'x\\0y' > binary; echo 0 > same")
    work.run(line)
    work.run("sed -i s/9/nine/ text; printf more >> binary; echo 2 > same")
    id = last_id(sandbox, line)
    assert "merge    text" in sandbox.shfs("undo", "-n", "--merge", id, check=4).stdout
    assert "-line one\n+line 1\n" in sandbox.shfs("undo", "-n", "-p", "--merge", id, check=4).stdout
    run = done(sandbox, "--merge", id, status=4)
    assert sandbox.read("text").decode() == LINES.replace("9", "nine") + "\n"
    assert "binary: was changed since, and is binary" in run.stdout and sandbox.read("binary") == b"a\0bmore"
    assert "same: was changed since, in the same lines" in run.stdout and sandbox.read("same") == b"2\n"


SAVES = ("sed -i '{n}s/.*/{text}/' {file}", "sed '{n}s/.*/{text}/' {file} > .t; cat .t > {file}; rm .t", "cp {file} .t; sed '{n}s/.*/{text}/' .t > {file}; rm .t")


@pytest.mark.parametrize("seed", SEEDS)
def test_lines_of_others_survive(sandbox, work, seed):
    """A command changes the first lines of files, somebody else meanwhile the last ones."""
    chosen = random.Random(seed)
    files = {f"m{i}": [f"line {n}" for n in range(60)] for i in range(4)}
    for name, lines in files.items():
        sandbox.write(name, "\n".join(lines) + "\n")
    theirs, mine = [], []
    for name, lines in files.items():
        for _ in range(chosen.randint(1, 3)):
            theirs.append(chosen.choice(SAVES).format(n=chosen.randint(1, 20), text="theirs", file=name))
        for _ in range(chosen.randint(0, 3)):
            n = chosen.randint(40, 60)
            mine.append(chosen.choice(SAVES).format(n=n, text="mine", file=name))
            lines[n - 1] = "mine"
    line = "; ".join(theirs)
    modes = {name: about[1] for name, about in tree(sandbox).items()}
    work.run(line)
    for step in mine:
        work.run(step)
    done(sandbox, "--merge", last_id(sandbox, line))
    for name, lines in files.items():
        assert sandbox.read(name).decode().splitlines() == lines, (name, theirs, mine)
    assert {name: about[1] for name, about in tree(sandbox).items()} == modes


def test_uncommitted_work_comes_back(sandbox, work):
    """What a child of a program has thrown away."""
    before = tree(sandbox)
    line = "python3 -c 'import os; os.system(\"git reset -q --hard; git clean -fdq\")'"
    work.run(line)
    assert sandbox.read("c") == b"1 c\n2 c\n3 c\n"
    done(sandbox, "--last")
    assert not differences(before, tree(sandbox)) and sandbox.read("c").endswith(b"uncommitted\n")


def test_what_is_not_archived(sandbox, work):
    sandbox.write(".shfsignore", "*.big\n")
    sandbox.sh("echo big > f.big; echo old > g.big")
    line = "rm f.big; echo more >> a; echo new > g.big; echo new > h.big"
    work.run(line)
    left = tree(sandbox)
    id = last_id(sandbox, line)
    run = done(sandbox, id, status=4)
    assert "nothing is undone" in run.stderr and "h.big: its content is not archived" in run.stderr
    assert not differences(left, tree(sandbox))
    done(sandbox, "--partly", id, status=4)
    assert sandbox.read("a") == b"1 a\n2 a\n3 a\n" and sandbox.read("h.big") == b"new\n"
    done(sandbox, "--force", id, "h.big")
    assert "./h.big" not in tree(sandbox)


def test_a_diff_of_what_another_file_replaced(sandbox, work):
    """As a person reads it, though it is another file that is made again."""
    work.run("sed -i s/1/one/ a; : 1")
    shown = sandbox.shfs("undo", "-n", "-p", last_id(sandbox, "sed -i s/1/one/ a; : 1")).stdout
    assert "--- a\t" in shown and "+++ a@1\t" in shown and "/dev/null" not in shown, shown


def test_a_dry_run_changes_nothing(sandbox, work):
    line = "echo more >> a; rm b; mv c d/c"
    work.run(line)
    left = tree(sandbox)
    id = last_id(sandbox, line)
    shown = sandbox.shfs("undo", "-n", "-p", id).stdout
    assert "  content  a: a@1, 12 B\n" in shown and "  restore  b: b@1, 12 B\n" in shown
    assert "  rename   d/c -> c\n" in shown and "\n-more\n" in shown and "\n+1 b\n" in shown
    found = json.loads(sandbox.shfs("undo", "-n", "--json", id).stdout)
    assert found["shfs"] == "undo" and not found["done"] and not found["left_alone"]
    changes = {c["path"].rsplit("/", 1)[1]: c for c in found["changes"]}
    assert changes["c"]["change"] == "rename" and changes["c"]["from"].endswith("d/c")
    assert changes["a"]["change"] == "content" and changes["a"]["n"] == 1
    assert sandbox.shfs("undo", id, check=4).stderr.endswith("nothing is undone\n")
    assert not differences(left, tree(sandbox))
    assert json.loads(sandbox.shfs("undo", "--yes", "--json", id).stdout)["done"]
    # what is undone was changed since: by the undo
    assert "d/c: is gone, by" in sandbox.shfs("undo", "-n", id, check=4).stdout


def test_what_is_selected(sandbox, work, shell):
    before = tree(sandbox)
    work.run("echo 1 >> a")
    work.run("cat a > /dev/null")
    work.run("echo 2 >> b; echo 2 >> c")
    other = shell()
    other.run("echo 3 >> d/a")
    work.run("perl -e 'system(\"echo 4 >> d/b\")'; echo 5 >> s")
    # by program, with its children
    done(sandbox, "--program", "perl")
    now = tree(sandbox)
    assert now["./d/b"] == before["./d/b"] and sandbox.read("s").endswith(b"5\n")
    # by a path
    id = last_id(sandbox, "echo 2 >> b; echo 2 >> c")
    done(sandbox, id, "b")
    assert sandbox.read("b") == b"1 b\n2 b\n3 b\n" and sandbox.read("c").endswith(b"2\n")
    # by session: what others have undone meanwhile is a change
    session = json.loads(sandbox.shfs("history", "--json", "--by", "shell").stdout)["commands"][0]["session"]
    done(sandbox, "--session", session)
    assert sandbox.read("a") == b"1 a\n2 a\n3 a\n" and sandbox.read("d/a").endswith(b"3\n")
    done(sandbox, "--since", "1 hour ago", "d")
    assert not differences({k: v for k, v in before.items() if k[:3] == "./d"}, {k: v for k, v in tree(sandbox).items() if k[:3] == "./d"})
    assert sandbox.shfs("undo", check=2).stderr.startswith("shfs: undo what?")
    assert "never seen" in sandbox.shfs("undo", "--last", "nothere", check=3).stderr


def test_a_path_gets_its_directories(sandbox, work):
    before = tree(sandbox)
    work.run("rm -r p d")
    done(sandbox, "--last", "p/q/r")
    now = tree(sandbox)
    assert now["./p/q/r"] == before["./p/q/r"] and now["./p/q"] == before["./p/q"] and "./d" not in now


def test_nothing_is_undone_unrecorded(sandbox, shell):
    there = sandbox.mount()
    sandbox.sh("echo 1 > a")
    work = shell()
    work.run("echo 2 > a")
    work.run("cd /")
    there.unmount()
    assert "is not recorded now, so nothing is undone" in done(sandbox, "--last", status=4).stderr
    assert sandbox.read("a") == b"2\n"


def test_a_link_planted_meanwhile_is_not_followed(sandbox, work):
    sandbox.write_outside(f"{sandbox.home}/outside/a", "mine")
    line = "rm -r d"
    work.run(line)
    sandbox.sh(f"ln -s {sandbox.home}/outside d")
    run = done(sandbox, last_id(sandbox, line), status=4)
    assert "d: is there again" in run.stdout
    assert sandbox.run("ls", f"{sandbox.home}/outside").stdout == "a\n"


def test_others_changed_a_kept_name(sandbox, work):
    """The name that a file has kept is as good as that which it lost: what others did by it is theirs."""
    line = "echo more >> two; chmod 600 two; setfattr -n user.new -v 1 two; rm two"
    work.run(line)
    work.run("chmod 640 three")
    run = done(sandbox, last_id(sandbox, line))
    now = tree(sandbox)
    assert now["./two"] == now["./three"] and now["./two"][1] == "0o640" and now["./two"][7] == {}, run
    assert "three: its mode was changed since, by" in run.stdout and sandbox.read("two") == b"1 two\n2 two\n3 two\n"
    line = "echo more >> three; rm three"
    work.run(line)
    work.run("echo mine >> two")
    run = done(sandbox, last_id(sandbox, line))
    assert "three: its other names are not found: it is a file of its own" in run.stdout
    assert sandbox.read("two").endswith(b"more\nmine\n") and sandbox.read("three") == b"1 two\n2 two\n3 two\n"


def test_a_lost_name_of_what_is_not_archived(sandbox, work):
    """It lies there by its other name."""
    sandbox.write(".shfsignore", "*.big\n")
    sandbox.sh("echo big > f.big; ln f.big g.big; cat g.big")
    before = tree(sandbox)
    work.run("rm g.big")
    assert "link     g.big, a name of f.big\n" in done(sandbox, "--last").stdout
    assert not differences(before, tree(sandbox))
    line = "echo more >> g.big; rm g.big"
    work.run(line)
    left = tree(sandbox)
    assert "f.big: its content is not archived" in done(sandbox, last_id(sandbox, line), status=4).stderr
    assert not differences(left, tree(sandbox))


# --- errors, kills ---

ALL_KINDS = (
    "echo more >> a; rm b; mv c d/moved; rm -r p; mkdir p; echo x > p/x; chmod 600 s; setfattr -n user.x -v 1 s;"
    " ln -sfn b link; mv d/e n; echo both >> two; chmod 400 two; rm -f two; rm pipe; chmod 500 hollow;"
    " chmod 644 ro; setfattr -n user.x -v 1 ro; chmod 400 ro"
)


@pytest.mark.users("ordinary")
@pytest.mark.parametrize("nth", range(1, 100, 1 if ALL else 12))
def test_killed_at_a_call(sandbox, mount, shell, nth):
    """The next one takes back what it had begun, or ends it."""
    there = mount()
    lay_out(sandbox)
    before = tree(sandbox)
    shell().run(ALL_KINDS)
    there.settle()
    left = tree(sandbox)
    id = last_id(sandbox, ALL_KINDS)
    calls = "mkdirat,renameat,renameat2,linkat,unlinkat,symlinkat,mknodat,fchownat,utimensat,chmod,setxattr,removexattr,pwrite64,fsync"
    run = sandbox.run(
        "strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={calls}", "-e", f"inject={calls}:signal=KILL:when={nth}",
        f"{PREFIX}/bin/shfs", "undo", "--yes", id, check=False, env={"ASAN_OPTIONS": "detect_leaks=0"},
    )  # fmt: skip
    there.settle()
    if run.status == 0:
        assert not differences(before, tree(sandbox))
        return
    sandbox.allow_exit(-9)
    again = sandbox.shfs("undo", "--yes", id)
    there.settle()
    assert not differences(before, tree(sandbox)), (differences(left, tree(sandbox)), repr(again))
    assert not [n for n in tree(sandbox) if "shfs-undo" in n]


@pytest.mark.users("ordinary")
@pytest.mark.parametrize("big", ["", "*\n"])
def test_going_back_to_what_others_left(sandbox, work, big):
    """Also where that is not archived; a file with two names is overwritten, and so again."""
    sandbox.sh("ln text text.2")
    line = "sed '1s/.*/one/' text > .t; cat .t > text; rm .t; rm -r p"
    work.run(line)
    sandbox.write(".shfsignore", big)
    work.run("sed '9s/.*/nine/' text > .t; cat .t > text.2; rm .t")
    left, id = tree(sandbox), last_id(sandbox, line)
    inject = ("strace", "-f", "-qq", "-o", "/dev/null", "-e", "inject=mkdirat:error=ENOSPC:when=2+", f"{PREFIX}/bin/shfs")
    run = sandbox.run(*inject, "undo", "--yes", "--merge", id, check=1, env={"ASAN_OPTIONS": "detect_leaks=0"})
    assert "p: No space left on device" in run.stderr and not differences(left, tree(sandbox)), run
    done(sandbox, "--merge", id)
    assert sandbox.read("text.2").decode() == LINES.replace("line 9", "nine") + "\n"


@pytest.mark.users("root")
def test_all_or_nothing_on_a_full_disk(sandbox, shell):
    project = sandbox.project
    with disk(sandbox, 20, where=project):
        sandbox.mount()
        sandbox.sh("head -c 6M /dev/urandom > a; head -c 6M /dev/urandom > b; echo 1 > c")
        work = shell()
        line = "echo 2 > c; rm a; echo 3 > b"
        work.run(line)
        sandbox.sh("head -c 10M /dev/zero > full")
        work.run("cd /")
        left = tree(sandbox)
        run = done(sandbox, last_id(sandbox, line), status=1)
        assert "nothing is undone" in run.stderr and "No space left" in run.stderr
        assert not differences(left, tree(sandbox))
