# SPDX-License-Identifier: MIT
"""A step of a rerun that fails, is interrupted or killed leaves the tree as it was: random lines that change
files in all ways and then fail, with the tree before beside the tree after. SHFS_TEST_SEEDS says with which
numbers; with SHFS_TEST_SOAK it goes on with others (./dev soak)."""

import glob
import json
import os
import random
import signal

import pytest

from harness import PREFIX, disk, ids_of, seeds, stale_results, wait_until
from test_forget import SECRET, places

pytestmark = pytest.mark.either

SEEDS = seeds(8, an_hour=1800)

FILES = "a b c d/a d/b d/e/a empty ro two"
DIRECTORIES = "d d/e hollow"
# {f}, {g}: files that may be there; {d}, {h}: directories; {n}: a name that is new
STEPS = (
    "echo more >> {f}",
    "echo new > {f}",
    "head -c 3 in > {f}",
    "sort in -o {f}",
    ": > {f}",
    "truncate -s 5 {f}",
    "sed -i s/1/7/ {f}",
    "echo x > {n}",
    "cp {f} {g}",
    "cp -p {f} {n}",
    "mv {f} {g}",
    "mv {f} {n}",
    "mv {f} {n}; echo other > {f}",
    "mv {f} {n}; echo other >> {n}",
    "mv {f} .x; mv {g} {f}; mv .x {g}",
    "mv {d} {n}",
    "mv {d} {n}; mkdir {d}; echo other > {d}/a",
    "mv {n} {h}/",
    "rm {f}",
    "rm {f}; mkdir {f}; echo deep > {f}/x",
    "rm -r {d}",
    "rm -r {d}; echo a file > {d}",
    "rmdir {d}",
    "mkdir {n}; echo x > {n}/x; chmod 500 {n}",
    "mkdir -p {h}/{n}/{n}",
    "chmod 600 {f}",
    "chmod 755 {f}; echo more >> {f}",
    "chmod 700 {d}",
    "chmod 0 {h}",
    "chmod 500 {h}",
    "touch {f}",
    "touch -d 2001-01-01 {f} {d}",
    "cp -p {f} .x; echo more > {f}; touch -r .x {f}; rm .x",
    "ln {f} {n}",
    "ln -s {f} {n}",
    "ln -sfn {g} link",
    "rm link; cp in link",
    "echo through >> link",
    "ln -f {f} {g}",
    "rm pipe",
    "mkfifo n0",
    "python3 -c 'import os; os.rename(\"a\", \"{n}\"); os.link(\"{n}\", \"a\")'",
)
ENDS = ("exit 3", "false", "kill -TERM $$", "kill -KILL $$", "set -e; false; echo never > a", "cat nothere")


def tree(sandbox):
    """{path: all about it}."""
    listed = sandbox.sh(
        "find . -printf '%y %m %U %G %T@ %i %n %p -> %l\\n'; find . -type f -exec sha256sum {} +", env={"LC_ALL": "C"}
    ).stdout
    found, inodes = {}, {}
    for line in sorted(listed.splitlines()):
        if " -> " in line:
            kind, mode, uid, gid, time, inode, links, rest = line.split(" ", 7)
            path, _, target = rest.partition(" -> ")
            if kind == "f":
                inodes.setdefault(inode, []).append(path)
            links = links if kind == "f" else ""
            found.setdefault(path, []).append(" ".join((kind, mode, uid, gid, time, links, target)))
        else:
            digest, _, path = line.partition("  ")
            found.setdefault(path, []).append(digest)
    for names in inodes.values():
        for name in names:
            found[name].append(" ".join(names))
    return found


def differences(before, after):
    """{path: (before, after)} of what is not the same."""
    return {p: (before.get(p), after.get(p)) for p in {*before, *after} if before.get(p) != after.get(p)}


def lay_out(sandbox):
    sandbox.sh(f"mkdir -p {DIRECTORIES}; seq 9 > in")
    for name in FILES.split():
        sandbox.sh(f"for i in 1 2 3; do echo $i {name}; done > {name}")
    sandbox.sh(": > empty; chmod 444 ro; ln two three; ln -s a link; mkfifo pipe; chmod 750 d/e; touch -d 2020-02-02 a b d")


def line_of(seed):
    chosen = random.Random(seed)
    steps = []
    for _ in range(chosen.randint(1, 6)):
        f, g = chosen.sample([*FILES.split(), "out", "three"], 2)
        d, h = chosen.choice(DIRECTORIES.split()), chosen.choice(DIRECTORIES.split())
        steps.append(chosen.choice(STEPS).format(f=f, g=g, d=d, h=h, n=f"n{chosen.randint(1, 3)}"))
    return "; ".join(["sort in > out", *(f"[ -e ok ] || {{ {step}; }}" for step in steps), f"[ -e ok ] || {{ {chosen.choice(ENDS)}; }}"])


def let_be_due(sandbox, work, line):
    """Runs a line that ends well as long as there is ok, which is then removed."""
    sandbox.sh("touch ok")
    work.run(line)
    work.run("rm ok; echo 0 >> in")


@pytest.mark.parametrize("seed", SEEDS)
def test_what_failed_leaves_the_tree_as_it_was(sandbox, mount, shell, seed):
    there = mount()
    lay_out(sandbox)
    line = line_of(seed)
    let_be_due(sandbox, shell(), line)
    there.settle()
    before, was_stale = tree(sandbox), stale_results(sandbox)
    run = sandbox.shfs("rerun", "--yes", check=False)
    there.settle()
    assert run.status == 1 and not differences(before, tree(sandbox)), f"{line}\n{run!r}"
    assert "shfs: warning" not in run.stderr, run.stderr
    assert stale_results(sandbox) == was_stale
    # what has failed remains in history
    commands = json.loads(sandbox.shfs("history", "--json", "--all").stdout)["commands"]
    assert [c["status"] for c in commands if c["text"] == line][0] != 0


def test_what_only_came_back_is_no_result(sandbox, mount, shell):
    """A failed command has moved a file away, and back: it is not the command's work."""
    there = mount()
    lay_out(sandbox)
    move = "import os; os.rename('a', 'n'); os.link('n', 'a'); os.rename('b', 'm'); os.rename('m', 'b')"
    let_be_due(sandbox, shell(), f'sort in > out; [ -e ok ] || {{ python3 -c "{move}"; kill -TERM $$; }}')
    there.settle()
    assert stale_results(sandbox) == {"out"}
    assert sandbox.shfs("rerun", "--yes", check=False).status == 1
    there.settle()
    assert stale_results(sandbox) == {"out"}


# --- killed, interrupted ---

SLEEP = f"sleep 60.{os.getpid()}"  # no other worker's
SLOW = (
    "sort in > out; [ -e ok ] || { echo half > a; mv b n1; rm -r d/e; mkdir n2; echo x > n2/x; chmod 600 c; "
    f"{SLEEP}; }}"
)


@pytest.fixture
def slow(sandbox, mount, shell):
    """A step that is due, and does not end."""
    there = mount()
    lay_out(sandbox)
    work = shell()
    let_be_due(sandbox, work, SLOW)
    there.settle()
    return work


def begin(sandbox, script="stat -c %a c", says="600\n", options=()):
    """A rerun whose step does all but end: then the script says this."""
    process = sandbox.popen([f"{PREFIX}/bin/shfs", "rerun", "--yes", *options])
    wait_until(lambda: sandbox.sh(script, check=False).stdout == says, "the step")
    return process


def ended(sandbox):
    """Whether no process of the step is left."""
    return not sandbox.sh(f"pgrep -f '^{SLEEP}$'", check=False).stdout


def test_interrupted(sandbox, slow):
    before = tree(sandbox)
    process = begin(sandbox)
    process.send_signal(signal.SIGINT)
    sandbox.allow_exit(-signal.SIGINT)
    assert process.wait() == -signal.SIGINT
    assert not differences(before, tree(sandbox)) and ended(sandbox)


@pytest.mark.users("ordinary")
@pytest.mark.parametrize("also", ["", "touch n3; echo mine >> c; echo other > n2/mine"])
def test_killed(sandbox, slow, also):
    """The next one puts it back, but for what was changed since."""
    before = tree(sandbox)
    process = begin(sandbox)
    process.kill()
    process.wait()
    wait_until(lambda: ended(sandbox), "the step to end")
    assert differences(before, tree(sandbox))
    if also:
        slow.run(also)
    run = sandbox.shfs("rerun", "-n", check=False)
    assert "an earlier rerun was killed" in run.stderr and differences(before, tree(sandbox))
    sandbox.sh("touch ok")
    before.update({name: about for name, about in tree(sandbox).items() if name in ("./ok", ".")})
    run = sandbox.shfs("rerun", "--yes")
    assert "what its command changed is put back" in run.stderr
    assert set(differences(before, tree(sandbox))) == {".", "./out"} | ({"./n3", "./c", "./n2", "./n2/mine"} if also else set())
    assert ("c stays as it is: it was changed by another process" in run.stderr) == bool(also)
    assert sandbox.read("out") == b"0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n"
    if also:
        assert sandbox.read("c").endswith(b"mine\n") and sandbox.read("n2/mine") == b"other\n"
    assert not os.listdir(f"{sandbox.store}/rerun") and sandbox.shfs("rerun").stdout == "Nothing is stale.\n"


def test_a_damaged_note_can_be_removed(sandbox, slow):
    process = begin(sandbox)
    process.kill()
    process.wait()
    wait_until(lambda: ended(sandbox), "the step to end")
    [note] = glob.glob(f"{sandbox.store}/rerun/*/before")
    sandbox.sh(f"truncate -s 40 {note}")
    left = tree(sandbox)
    for options in ("-n", "--yes"):
        run = sandbox.shfs("rerun", options, check=False)
        assert run.status == 1 and f"remove {os.path.dirname(note)}" in run.stderr, repr(run)
        assert not differences(left, tree(sandbox))
    sandbox.sh(f"rm -r {os.path.dirname(note)}")
    assert "put back" not in sandbox.shfs("rerun", "-n", check=False).stderr


@pytest.mark.parametrize("then", ["rerun", "forget"])
def test_a_killed_rerun_whose_command_ended_well(sandbox, mount, shell, then):
    """It is kept: shfs had only not heard of its end."""
    mount()
    lay_out(sandbox)
    work = shell()
    work.run("sort in > out; sleep 1 & trap '' TERM; sleep 1")
    work.run("echo 0 >> in")
    process = begin(sandbox, "head -c 1 out", "0")
    process.kill()
    process.wait()
    wait_until(lambda: glob.glob(f"{sandbox.store}/rerun/*/ended"), "the end of the step")
    if then == "forget":
        wait_until(lambda: not sandbox.sh("pgrep -xf 'sleep 1'", check=False).stdout, "all of the step to end")
        sandbox.shfs("forget", "--yes", "a")
        assert not os.listdir(f"{sandbox.store}/rerun")
    assert "put back" not in sandbox.shfs("rerun", "--yes").stderr
    assert sandbox.read("out").startswith(b"0\n1")


@pytest.mark.users("ordinary")
def test_nothing_is_forgotten_while_a_rerun_keeps_it(sandbox, mount, shell):
    """What a command that is run again overwrites is copied into the store, if that does not archive it."""
    sandbox.write_outside(f"{sandbox.home}/.config/shfs/config.ini", "[archive]\nmax-size = 1000\nmax-read-size = 1000\n")
    there = mount()
    sandbox.write("long", SECRET.decode() + "\n" * 2000)
    sandbox.sh("touch ok")
    work = shell()
    line = f"cat long > key; [ -e ok ] || {{ : > key; {SLEEP}; }}"
    work.run(line)
    work.run("rm ok")
    there.settle()
    process = begin(sandbox, "wc -c < key", "0\n", ["--force", "--command", *ids_of(sandbox, line)])
    assert sandbox.shfs("forget", "--yes", "key", check=False).status == 4
    process.kill()
    process.wait()
    wait_until(lambda: ended(sandbox), "the step to end")
    [kept] = places(sandbox.store, SECRET)
    assert kept.startswith("rerun/")
    run = sandbox.shfs("forget", "--yes", "key", check=False)
    assert run.status == 4 and "nothing is forgotten: a rerun" in run.stderr and os.path.dirname(kept) in run.stderr
    sandbox.sh("touch ok")
    sandbox.shfs("rerun", "--yes")
    assert sandbox.read("key") == sandbox.read("long")
    sandbox.shfs("forget", "--yes", "key")
    assert not places(sandbox.store, SECRET) and not os.listdir(f"{sandbox.store}/rerun")


def test_what_others_change_meanwhile_stays(sandbox, slow):
    before = tree(sandbox)
    process = begin(sandbox)
    slow.run("echo theirs >> a; echo theirs > theirs; echo theirs > n2/theirs; echo theirs > d/a")
    process.terminate()
    sandbox.allow_exit(-signal.SIGTERM)
    process.wait()
    assert set(differences(before, tree(sandbox))) == {".", "./a", "./d/a", "./theirs", "./n2", "./n2/theirs"}
    assert sandbox.read("a") == b"half\ntheirs\n" and sandbox.read("b") == b"1 b\n2 b\n3 b\n"


@pytest.mark.users("root")
def test_a_full_disk(sandbox, shell):
    """The half of a file is given up before the whole of the old one is written."""
    project = sandbox.project
    with disk(sandbox, 20, where=project):
        sandbox.mount()
        sandbox.sh("head -c 6M /dev/urandom > in; seq 9 > a")
        work = shell()
        let_be_due(sandbox, work, "cat in > out; [ -e ok ] || { cat in in in in > a; cat in in > b; }")
        work.run("cd /")
        before = tree(sandbox)
        run = sandbox.shfs("rerun", "--yes", check=1)
        after = tree(sandbox)
        assert "No space left" in run.stderr and not differences(before, after), run
