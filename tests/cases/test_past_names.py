# SPDX-License-Identifier: MIT
"""The past in the mount itself: .shfs, and NAME@{WHEN}. Both beside what was there then, and what they must not do
to any program that does not ask for them. SHFS_TEST_SEEDS says with which numbers."""

import contextlib
import errno
import os
import random
import re
import shutil
import signal
import subprocess
import time

import pytest

from harness import User, disk, mounts_below, project_files, seeds, stopped, wait_until
from test_browse import now_in
from test_daemon import kill_daemon
from test_mount_cli import daemon_pid, is_mounted, pids_of

SEEDS = seeds(2, an_hour=60)


def moment(sandbox):
    """A moment between what was done and what will be."""
    time.sleep(0.05)
    at = now_in(sandbox)
    time.sleep(0.05)
    return at


def browses(sandbox):
    """Where shfs-browse is mounted for mounts."""
    return [where for where in mounts_below(sandbox.path) if "/run/shfs/browse/" in where]


def pid_of(sandbox, name):
    """Of the process with this name; 0."""
    found = subprocess.run(["pgrep", "-u", str(sandbox.user.uid), "-x", name], capture_output=True, text=True, check=False)
    for pid in found.stdout.split():
        with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as cmdline:
            if sandbox.path in cmdline.read():
                return int(pid)
    return 0


def config(sandbox, value):
    return "--config", sandbox.write_outside(f"{sandbox.home}/{value}.ini", f"[mount]\nbrowse = {value}\n[record]\nsoftware = no\n")


def start(sandbox, *argv):
    return sandbox.popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


# --- what is there ---


@pytest.mark.parametrize("seed", SEEDS)
def test_beside_copies(sandbox, mounted, seed):
    """The project at moments, by each way, beside what was there."""
    chosen = random.Random(seed)
    names = ["a", "b b", "d/c", "d/e/grün", "d/-n", "d/x@1", "f@{", "f@{}", "d/1}"]
    then = []
    sandbox.sh("mkdir -p d/e")
    for _ in range(6):
        for _ in range(3):
            name = chosen.choice(names)
            if chosen.random() < 0.2:
                sandbox.run("rm", "-f", "--", name)
            else:
                sandbox.write(name, chosen.randbytes(chosen.choice([0, 10, 5000])))
        at = moment(sandbox)
        then.append((at, project_files(sandbox)))
    now = project_files(sandbox)
    for at, files in chosen.sample(then, len(then)):
        found = sandbox.run("find", f".shfs/at/{at}/", "-type", "f", "-printf", "%P\\0").stdout.split("\0")[:-1]
        assert sorted(found) == sorted(files)
        for name, data in files.items():
            assert sandbox.read(f".shfs/at/{at}/{name}") == data, name
            if name in now:
                assert sandbox.read(f"{name}@{{{at}}}") == data, name
        for name in set(now) - set(files):
            assert "No such file" in sandbox.run("cat", "--", f"{name}@{{{at}}}", check=1).stderr, name
        assert sandbox.run("ls", f"d@{{{at}}}/e").stdout.split() == [os.path.basename(n) for n in files if n.startswith("d/e/")]


def test_without_a_word_before(sandbox, mounted):
    """As a user would look: nothing was asked of shfs before, and no index is there."""
    sandbox.sh("mkdir src; echo foo > src/f")
    at = moment(sandbox)
    sandbox.sh("echo bar > src/f")
    assert not browses(sandbox)
    assert sandbox.sh(f"grep -r foo .shfs/at/{at}/src").stdout == f".shfs/at/{at}/src/f:foo\n"
    assert sandbox.sh(f"diff 'src/f@{{{at}}}' src/f", check=1).stdout == "1c1\n< foo\n---\n> bar\n"
    assert sandbox.sh("cat 'src/f@{now}'").stdout == "bar\n"
    assert sandbox.sh("ls .shfs/at/yesterday .shfs/at/'2 hours ago'", check=False).stdout.split() in ([], [
        ".shfs/at/2", "hours", "ago:", ".shfs/at/yesterday:"])
    assert sandbox.sh("ls .shfs").stdout.split() == ["at", "commands", "versions"]
    assert sandbox.sh("cat .shfs/versions/src/f/1; cd src; cat ../.shfs/versions/src/f/2").stdout == "foo\nbar\n"
    assert len(browses(sandbox)) == 1


def test_which_names(sandbox, mounted):
    """Only NAME@{WHEN} where NAME is there, and WHEN may be a time."""
    sandbox.sh("echo 1 > f; mkdir d; ln -s f l; echo odd > 'g@{2}'")
    links = ("f@{yesterday}", "d@{2 hours ago}", "l@{now}", "f@{2026-11-21}", "f@{14:00}", "f@{3d}", "f@{last friday}",
             "f@{@1795284245.5}", "f@{an hour ago}", "f@{1h 30min}", "g@{2}@{1 week ago}", "f@{today}", "f@{2026-11-21T14:00}")
    others = ("f@{0}", "f@{12}", "f@{u}", "f@{upstream}", "f@{push}", "f@{-1}", "f@{}", "@{yesterday}", "x@{yesterday}", "f@yesterday",
              "f@{yesterday}x", "f@{yesterday", "f{yesterday}", "f@{4f2a91c}", "..@{yesterday}", "f@{yester}day}", ".shfs@{now}",
              "d/.shfs", ".shf", ".shfsx", "f@{\nyesterday}")
    for name in links:
        assert sandbox.run("readlink", name).stdout, name
    for name in others:
        assert "No such file" in sandbox.run("stat", name, check=1).stderr, name
    assert sandbox.run("stat", "-c", "%F %A %h", ".shfs", "f@{now}").stdout == "symbolic link lrwxrwxrwx 1\n" * 2
    size = int(sandbox.run("stat", "-c", "%s", ".shfs").stdout)
    assert size == len(sandbox.run("readlink", "-n", ".shfs").stdout)


def test_many_names(sandbox, mounted):
    """More than the mount remembers, each again, and one that is held all the while."""
    sandbox.sh("for i in $(seq 3000); do echo $i > f$i; done")
    at = moment(sandbox)
    script = """
import os, sys
at, place = sys.argv[1], os.readlink(".shfs")
held = os.open(f"f1@{{{at}}}", os.O_PATH | os.O_NOFOLLOW)
for when in at, "now", "yesterday", at:
    for i in range(1, 3001):
        assert os.readlink(f"f{i}@{{{when}}}") == f"{place}/at/{when}/f{i}"
assert open(f"f3000@{{{at}}}").read() == "3000\\n" and os.readlink(".shfs") == place
assert os.lstat(f"f1@{{{at}}}").st_size == os.fstat(held).st_size
"""
    sandbox.run("python3", "-c", script, at, timeout=100)


def test_settings(sandbox, mount):
    sandbox.write("f", "1\n")
    first = mount(sandbox.project, *config(sandbox, "directory"))
    at = moment(sandbox)
    assert sandbox.sh(f"cat .shfs/at/{at}/f").stdout == "1\n"
    assert "No such file" in sandbox.sh(f"cat 'f@{{{at}}}'", check=1).stderr
    first.unmount()
    second = mount(sandbox.project, *config(sandbox, "off"))
    sandbox.sh("! ls -d .shfs; mkdir .shfs; echo mine > .shfs/f; echo too > 'f@{now}'")
    assert sandbox.sh("cat .shfs/f 'f@{now}'").stdout == "mine\ntoo\n" and "browse" not in second.status()
    assert not pid_of(sandbox, "shfs-keeper")
    second.unmount()


# --- what must not see it ---


def test_not_listed(sandbox, mounted):
    """Programs that walk, copy, pack, synchronise or remove a project."""
    sandbox.sh("mkdir -p d/e; echo 1 > f; echo 2 > d/e/g; ls .shfs 'f@{now}' >/dev/null; cat 'f@{now}'")
    at = now_in(sandbox)
    wanted = ["./d", "./d/e", "./d/e/g", "./f"]
    for _ in range(2):  # with both in the kernel's cache
        sandbox.sh(f"ls .shfs/at/{at} >/dev/null; cat 'f@{{{at}}}'")
        assert sorted(sandbox.sh("find . -mindepth 1").stdout.split()) == wanted
        assert sandbox.sh("ls -A").stdout.split() == ["d", "f"] and sandbox.sh("echo .[!.]*").stdout == ".[!.]*\n"
        assert sorted(name.rstrip("/") for name in sandbox.sh("tar c . | tar t").stdout.split()) == [".", *wanted]
        sandbox.sh("rm -rf ../copy; cp -a . ../copy; rsync -a --delete ./ ../copy2/; rsync -a --delete ../copy/ ./")
        assert sandbox.sh("find -L . -mindepth 1 | sort; du -a . | wc -l; ls -A ../copy ../copy2").stdout.split() == [
            *wanted, "5", "../copy:", "d", "f", "../copy2:", "d", "f"]
    sandbox.sh("rm -rf ./* ./.[!.]* 2>/dev/null; rm -rf ../project", check=False)
    assert sandbox.sh("ls -A").stdout == "" and sandbox.run("ls", f".shfs/at/{at}").stdout.split() == ["d", "f"]


def test_git(sandbox, mounted):
    """For git NAME@{...} is a revision: also where a branch has the name of a file."""
    git = "git -c user.name=a -c user.email=a@b -c init.defaultBranch=main"
    sandbox.sh(f"""set -e; {git} init -q .; mkdir main; echo 1 > main/f; echo 1 > f; git add .; {git} commit -qm one
echo 2 > main/f; {git} commit -qam two; git branch f; echo 3 > f; {git} stash -q
ls .shfs 'f@{{now}}' 'main@{{now}}' > /dev/null""")
    for line in ("git log --format=%s -1 'main@{now}'", "git log --format=%s -1 'HEAD@{0}'", "git log --format=%s -1 'f@{1 second ago}'",
                 "git log --format=%s 'main@{0}' -1", "git show -s --format=%s 'f@{0}'"):
        assert sandbox.sh(line).stdout == "two\n", line
    assert "WIP on main" in sandbox.sh("git stash list; git show 'stash@{0}'").stdout
    for line in "git status --porcelain --ignored", "git clean -ndffx", "git ls-files -o", "git add -An":
        assert sandbox.sh(line).stdout == "", line
    sandbox.sh(f"set -e; git stash pop -q; git checkout -q .; {git} rebase -q HEAD^; git fsck --strict; git clean -qdffx; git gc -q")
    assert sandbox.sh("git status --porcelain; cat f main/f").stdout == "1\n2\n"


def test_a_real_one_comes_first(sandbox, mount):
    """Also one that is made later: below, or by a rename."""
    sandbox.sh("mkdir .shfs; echo mine > .shfs/x; echo 1 > f; echo mine > 'f@{now}'")
    mounted = mount()
    assert sandbox.sh("cat .shfs/x 'f@{now}'; ls -A").stdout.split() == ["mine", "mine", ".shfs", "f", "f@{now}"]
    sandbox.sh("rm -r .shfs 'f@{now}'")
    at = moment(sandbox)
    sandbox.sh("echo 2 > f")
    assert sandbox.sh(f"cat .shfs/at/{at}/f 'f@{{{at}}}'; ls -A").stdout.split() == ["1", "1", "f"]
    sandbox.sh(f"echo real > new; mv -T new 'f@{{{at}}}'; echo real > new; mv -T new .shfs")
    assert sandbox.sh(f"cat .shfs 'f@{{{at}}}'; ls -A").stdout.split() == ["real", "real", ".shfs", "f", f"f@{{{at}}}"]
    sandbox.sh(f"mv .shfs a; mv 'f@{{{at}}}' b; rm b")
    assert sandbox.sh(f"cat .shfs/at/{at}/f 'f@{{{at}}}' a").stdout.split() == ["1", "1", "real"]
    mounted.unmount()
    assert sandbox.sh("ls -A").stdout.split() == ["a", "f"]


def test_made_below_meanwhile(sandbox, mounted):
    """By a process that does not see the mount."""
    if os.geteuid():
        pytest.skip("needs root")
    sandbox.sh("echo 1 > f; ls .shfs 'f@{now}'")
    beneath = ["unshare", "-m", "sh", "-c", 'umount "$1" && cd "$1" && shift && exec "$@"', "sh", sandbox.project]
    subprocess.run([*beneath, "sh", "-c", "echo real > .shfs; echo real > 'f@{now}'; chmod 666 .shfs 'f@{now}'"], check=True, cwd="/")
    assert sandbox.sh("cat .shfs 'f@{now}'").stdout == "real\nreal\n"
    subprocess.run([*beneath, "rm", ".shfs", "f@{now}"], check=True, cwd="/")
    wait_until(lambda: sandbox.sh("ls .shfs", check=False).stdout.split() == ["at", "commands", "versions"], "the past")


def test_it_cannot_be_changed(sandbox, mounted):
    sandbox.sh("echo 1 > f; echo 2 > g; mkdir d; ls .shfs 'f@{now}'")
    for name in ".shfs", "f@{now}":
        before = sandbox.run("stat", name).stdout
        sandbox.run("rm", name)  # makes way, where nothing is
        for line in "mv -T $1 other", "ln -PT $1 other", "chown -h 0 $1", "touch -h -d 2020-01-01 $1", "rmdir $1", \
                    "mv --exchange -T g $1", "setfattr -h -n user.x -v 1 $1", "! test -d $1 && dd if=/dev/null of=$1 conv=nocreat":
            sandbox.sh(line.replace("$1", f"'{name}'") + " 2>/dev/null && exit 3 || exit 0")
        assert sandbox.run("stat", name).stdout == before, name
        for wanted, line in (errno.EPERM, "os.chown(n, 0, 0, follow_symlinks=False)"), (errno.ENOTDIR, "os.rmdir(n)"), \
                (errno.EPERM, "os.utime(n, follow_symlinks=False)"), (errno.EPERM, "os.setxattr(n, 'trusted.x', b'', follow_symlinks=False)"):
            script = f"import os, sys\nn = sys.argv[1]\ntry: {line}\nexcept OSError as e: print(e.errno)"
            assert sandbox.run("python3", "-c", script, name).stdout == f"{wanted}\n", (name, line)
        assert sandbox.run("getfattr", "-hd", "-m", "-", name, check=False).stdout == ""
        assert sandbox.run("readlink", "-e", name).stdout
    assert sandbox.sh("ls -A; cat f g").stdout.split() == ["d", "f", "g", "1", "2"]


def test_the_names_can_be_made(sandbox, mounted):
    """By every call that makes a name, as in a plain directory. It is a real one until it is removed."""
    if not os.access("/proc/self/syscall", os.R_OK):
        pytest.skip("the kernel does not say who makes a name")
    sandbox.sh("echo 1 > f; echo 2 > g; mkdir -p d; ls .shfs 'f@{now}'")
    script = """
import ctypes, os, stat, sys
libc = ctypes.CDLL(None, use_errno=True)
n = sys.argv[1]
def make_open(flags):
    os.close(os.open(n, flags, 0o600))
def make_tmpfile():
    fd = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o600)
    assert not libc.linkat(-100, f"/proc/self/fd/{fd}".encode(), -100, n.encode(), 0x400)  # AT_SYMLINK_FOLLOW
def make_unless_there():
    assert not libc.renameat2(-100, b"g2", -100, n.encode(), 1)  # RENAME_NOREPLACE
open("g2", "w").close()
os.mkdir("d2")
makers = (lambda: os.mkdir(n), lambda: os.mkfifo(n), lambda: os.symlink("x", n), lambda: os.link("g", n), lambda: os.rename("g2", n),
          lambda: os.rename("d2", n), lambda: make_open(os.O_CREAT | os.O_WRONLY), lambda: make_open(os.O_CREAT | os.O_EXCL | os.O_RDWR),
          lambda: make_open(os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW), make_tmpfile, make_unless_there)
for i, make in enumerate(makers):
    if make is make_unless_there:
        open("g2", "w").close()
    assert stat.S_ISLNK(os.lstat(n).st_mode) and os.path.isdir(n) == (n == ".shfs"), i
    make()
    st = os.lstat(n)
    assert st.st_ino < 1 << 62 and n in os.listdir(), i
    assert not stat.S_ISLNK(st.st_mode) or os.readlink(n) == "x", i
    os.rmdir(n) if stat.S_ISDIR(st.st_mode) else os.unlink(n)
    assert n not in os.listdir(), i
print(os.readlink(n))
"""
    for name in ".shfs", "f@{now}":
        assert "/run/shfs/browse/" in sandbox.run("python3", "-c", script, name).stdout
    assert sandbox.sh("echo real > 'f@{now}'; cat 'f@{now}' f; rm 'f@{now}'; ls -A").stdout.split() == ["real", "1", "d", "f", "g"]
    sandbox.sh("mkdir ../copy ../copy/.shfs; echo 1 > ../copy/.shfs/f; tar c -C ../copy . | tar x; test -f .shfs/f; rm -r .shfs; "
               "rsync -a ../copy/ ./; test -f .shfs/f; ls -A | grep -qx .shfs; rm -r .shfs")
    git = "git -c user.name=a -c user.email=a@b"
    sandbox.sh(f"set -e; cd ../copy; {git} init -q .; {git} add .; {git} commit -qm one; cd ../project; {git} init -q .; "
               f"{git} pull -q ../copy; test -f .shfs/f; {git} status --porcelain -uno | grep . && exit 1; {git} checkout -q HEAD .shfs")


@pytest.mark.transports
def test_the_names_are_made_by_many(sandbox, mounted):
    """Also by a caller that the processor is taken from before it waits for the answer."""
    if not os.access("/proc/self/syscall", os.R_OK):
        pytest.skip("the kernel does not say who makes a name")
    script = """
import os, sys
os.mkdir(sys.argv[1])
os.chdir(sys.argv[1])
open("f", "w").close()
for i in range(150):
    assert os.readlink("f@{now}")
    os.mkdir("f@{now}")
    os.rmdir("f@{now}")
    os.close(os.open("f@{now}", os.O_CREAT | os.O_EXCL))
    os.unlink("f@{now}")
"""
    running = [start(sandbox, "python3", "-c", script, str(i)) for i in range(8)]
    for process in running:
        assert process.communicate(timeout=100) == (b"", b"") and not process.returncode


def test_nothing_is_recorded(sandbox, mounted, shell):
    """Neither a use of the names, nor where they lead, nor what shfs-browse reads for them."""
    work = shell()
    work.run("echo 1 > f; mkdir d; echo 2 > d/g; echo 3 > other")
    at = moment(sandbox)
    work.run("echo 2 > f")
    for line in (f"cat 'f@{{{at}}}' .shfs/at/{at}/d/g 'd@{{{at}}}/g'", f"wc -l < 'f@{{{at}}}'", f"readlink .shfs; ls -lR .shfs/at/{at}",
                 f"cp .shfs/at/{at}/f '/tmp/../{sandbox.path}/copy'", "rm .shfs; touch -h .shfs; mv .shfs x; chown -h 0 .shfs", f"cat .shfs/at/{at}/other"):
        work.run(line)
    mounted.settle()
    sql = "SELECT path, op FROM v_access WHERE path GLOB '*.shfs*' OR path GLOB '*@{*' OR path GLOB '*/shfs/browse/*' OR path GLOB '*/other'"
    assert sandbox.shfs("select", "--plain", sql, check=False).stdout.split() in ([f"{sandbox.project}/other", "open"], [])
    sql = "SELECT count(*) FROM v_access a JOIN v_process p USING (process_id) WHERE p.exe GLOB '*shfs-*'"
    assert "0" in sandbox.shfs("select", sql).stdout
    stale = sandbox.shfs("status", "--json", cwd="/").stdout
    assert '"lost": 0' in stale or '"lost":0' in stale


def test_watchers(sandbox, mounted):
    """inotify tells of nothing but that shfs-browse reads, as any reader does."""
    sandbox.sh("echo 1 > f; ls .shfs")
    at = now_in(sandbox)
    script = """
import ctypes, os, subprocess, sys
libc = ctypes.CDLL(None)
fd = libc.inotify_init1(os.O_NONBLOCK)
assert libc.inotify_add_watch(fd, b".", 0xfff) > 0
subprocess.run(["cat", f".shfs/at/{sys.argv[1]}/f", f"f@{{{sys.argv[1]}}}"], check=True)
subprocess.run(["ls", "-lR", f".shfs/at/{sys.argv[1]}/"], check=True, stdout=subprocess.DEVNULL)
try:
    events = os.read(fd, 65536)
except BlockingIOError:
    events = b""
names = set()
while events:
    mask, length = int.from_bytes(events[4:8], "little"), int.from_bytes(events[12:16], "little")
    names.add((events[16:16 + length].rstrip(b"\\0").decode(), hex(mask & 0xfff)))
    events = events[16 + length:]
print(sorted((name, mask) for name, mask in names if name not in ("", "f") or int(mask, 16) & ~0x31))
"""
    assert sandbox.run("python3", "-c", script, at).stdout == "1\n1\n[]\n"


def test_not_in_the_past_itself(sandbox, mounted):
    """shfs-browse, and what it reads for the past, do not come to it again."""
    sandbox.sh("echo 1 > f")
    at = moment(sandbox)
    assert sandbox.sh(f"cat .shfs/at/{at}/f .shfs/at/now/f").stdout == "1\n1\n"
    for name in f".shfs/at/{at}/.shfs", ".shfs/at/now/.shfs", ".shfs/at/now/f@{now}", f"f@{{{at}}}@{{now}}", ".shfs/.shfs":
        assert "No such file" in sandbox.run("stat", name, check=1).stderr, name


# --- who may see it ---


@pytest.mark.users("root")
def test_other_users_see_nothing(sandbox, mount):
    """An ordinary user in root's mount; the kernel asks again for each user what it has cached."""
    other = User("ordinary")
    os.chmod(sandbox.home, 0o755)
    sandbox.sh("echo 1 > f; chmod 600 f; echo 2 > g; chmod 755 .")
    mount(sandbox.project, "--allow-other")
    at = moment(sandbox)
    place = sandbox.run("readlink", ".shfs").stdout.strip()
    for _ in range(3):
        assert sandbox.sh(f"cat .shfs/at/{at}/f 'f@{{{at}}}'").stdout == "1\n1\n"
        for name in ".shfs", f".shfs/at/{at}/g", f"g@{{{at}}}", f"f@{{{at}}}", f"{place}/at/{at}/g":
            with other.popen(["stat", "--", name], sandbox.project, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
                out, err = run.communicate()
            assert not out and re.search(b"No such file|Permission denied", err), name
    # and that other user's own file of this name is seen by all
    with other.popen(["sh", "-c", "cat g; ls -A"], sandbox.project, stdout=subprocess.PIPE) as run:
        assert run.communicate()[0].split() == [b"2", b"f", b"g"]


@pytest.mark.users("ordinary")
def test_root_sees_nothing_of_a_users(sandbox, mount):
    if os.geteuid():
        pytest.skip("needs root")
    with open("/etc/fuse.conf", encoding="ascii") as conf:
        if not re.search("^user_allow_other", conf.read(), re.M):
            pytest.skip("needs user_allow_other")
    mount(sandbox.project, "--allow-other")
    sandbox.sh("echo 1 > f; ls .shfs 'f@{now}'")
    assert os.listdir(sandbox.project) == ["f"]
    for name in ".shfs", "f@{now}":
        with pytest.raises(FileNotFoundError):
            os.lstat(f"{sandbox.project}/{name}")


@pytest.mark.parametrize("name", ["nfsd", "git", "shfs", "cat"])
def test_who_is_left_out(sandbox, mounted, name):
    """By the name of the process: a server of NFS, and git; shfs by what it reads in braces itself."""
    program = f"{sandbox.path}/{name}"
    subprocess.run(["cp", "/usr/bin/stat", program], check=True)
    os.chmod(program, 0o755)
    sandbox.sh("echo 1 > f; ls -d .shfs 'f@{now}'")
    for link, seen in (".shfs", name in ("shfs", "cat")), ("f@{now}", name == "cat"):
        for _ in range(2):
            sandbox.run(program, link, check=0 if seen else 1)
            assert sandbox.run("readlink", link).stdout


def test_the_server_reads_nothing_of_the_past(sandbox, mounted):
    """It is under its filter as before, and neither index nor object is open in it."""
    sandbox.sh("echo 1 > f; echo 2 > f")
    at = now_in(sandbox)
    assert sandbox.sh(f"cat .shfs/versions/f/1 .shfs/at/{at}/f").stdout == "1\n2\n"
    pid = mounted.process.pid
    with open(f"/proc/{pid}/status", encoding="utf-8") as status:
        assert "Seccomp:\t2\n" in status.read()
    opened = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
    assert not [path for path in opened if "index" in path or "/run/shfs/browse" in path], opened
    keeper = pid_of(sandbox, "shfs-keeper")
    opened = [os.readlink(f"/proc/{keeper}/fd/{fd}") for fd in os.listdir(f"/proc/{keeper}/fd")]
    assert not [path for path in opened if path.startswith("/") and path not in ("/dev/null", "/memfd:shfs-browse (deleted)")], opened


# --- nobody waits for himself ---


@pytest.mark.transports
def test_others_work_while_links_wait(sandbox, mounted):
    """The keeper does not answer: those who read links wait, and nobody else does, nor a sync of the mount; they can be
    interrupted. As it answers, they go on. More than can wait are told so."""
    sandbox.sh("echo 1 > f; mkdir d")
    at = moment(sandbox)
    keeper = wait_until(lambda: pid_of(sandbox, "shfs-keeper"), "the keeper")
    with stopped(keeper):
        waiting = [start(sandbox, "cat", f"f@{{{at}}}") for _ in range(8)]
        waiting += [start(sandbox, "ls", ".shfs") for _ in range(4)]
        killed = [start(sandbox, "cat", f".shfs/at/{at}/f") for _ in range(2)]
        wait_until(lambda: all("S" in open(f"/proc/{p.pid}/stat").read().rpartition(")")[2][:3] for p in waiting), "them to wait")
        time.sleep(0.3)
        assert all(p.poll() is None for p in waiting)
        for process in killed:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)
        # what holds the directory, makes files in it, and looks up such names to make them
        sandbox.sh("set -e; for i in 1 2 3 4 5 6 7 8; do echo $i > n$i; mkdir d/$i; mv n$i d/n; done; rm -r d; mkdir .shfs; mkdir 'f@{now}'; rmdir .shfs 'f@{now}'; "
                   "ls -la > /dev/null; ls -d .shfs 'f@{now}'")
        sandbox.shfs("sync")
        assert all(p.poll() is None for p in waiting)
    for process in waiting:
        out, err = process.communicate(timeout=60)
        assert not err and out.split() in ([b"1"], [b"at", b"commands", b"versions"])
    with stopped(keeper):  # it is up: nobody needs the keeper
        assert sandbox.sh(f"cat 'f@{{{at}}}'").stdout == "1\n"


@pytest.mark.transports
def test_names_are_made_beside_lookups(sandbox, mounted):
    """Lookups of the past by many, makers of files in the same directory, and shfs-browse, which looks into it, too."""
    sandbox.sh("mkdir d; for i in $(seq 50); do echo $i > d/$i; done")
    at = moment(sandbox)
    script = """
import os, sys, random
me, at = int(sys.argv[1]), sys.argv[2]
for i in range(60):
    n = random.randrange(1, 51)
    open(f"d/{me}-{i}", "w").write("x")
    assert open(f"d/{n}@{{{at}}}").read() == f"{n}\\n"
    assert open(f".shfs/at/{at}/d/{n}").read() == f"{n}\\n"
    try:
        os.open(f"d/{n}@{{now}}", os.O_CREAT | os.O_EXCL)
        os.unlink(f"d/{n}@{{now}}")
    except FileExistsError:
        pass
    os.rename(f"d/{me}-{i}", f"d/{me}")
"""
    running = [start(sandbox, "python3", "-c", script, str(i + 100), at) for i in range(6)]
    for process in running:
        assert process.communicate(timeout=100) == (b"", b"") and not process.returncode


def test_shfs_browse_hangs(sandbox, mounted):
    """It is stopped: only who is in it waits."""
    sandbox.sh("echo 1 > f; ls .shfs")
    at = moment(sandbox)
    with stopped(wait_until(lambda: pid_of(sandbox, "shfs-browse"), "shfs-browse")):
        process = start(sandbox, "cat", f"f@{{{at}}}")
        sandbox.sh("set -e; for i in 1 2 3; do echo $i > n$i; mkdir d$i; ls -la .; done; ls -d .shfs 'f@{now}'; rm n1")
        sandbox.shfs("sync")
        assert process.poll() is None
    assert process.communicate(timeout=60) == (b"1\n", b"")


# --- its life ---


def test_killed_it_comes_back(sandbox, mounted):
    sandbox.sh("echo 1 > f")
    at = moment(sandbox)
    assert sandbox.sh("ls .shfs").stdout
    for signals in ("shfs-browse",), ("shfs-refresh", "shfs-browse"), ("shfs-browse", "shfs-refresh"):
        was = pid_of(sandbox, "shfs-browse")
        for name in signals:
            pid = pid_of(sandbox, name)
            if pid:
                os.kill(pid, signal.SIGKILL)
        wait_until(lambda: sandbox.sh(f"cat 'f@{{{at}}}' .shfs/at/{at}/f", check=False).stdout == "1\n1\n", "the past")
        assert pid_of(sandbox, "shfs-browse") not in (was, 0) and len(browses(sandbox)) == 1
    sandbox.unmount(browses(sandbox)[0])  # by hand
    wait_until(lambda: not pid_of(sandbox, "shfs-browse"), "its end")
    shutil.rmtree(f"{sandbox.path}/run/shfs")  # as a logout does
    wait_until(lambda: sandbox.sh("ls .shfs", check=False).stdout.split() == ["at", "commands", "versions"], "the past")


def test_without_the_keeper(sandbox, mounted):
    """All else goes on, and shfs-browse ends with it."""
    sandbox.sh("echo 1 > f; ls .shfs")
    os.kill(pid_of(sandbox, "shfs-keeper"), signal.SIGKILL)
    wait_until(lambda: not pid_of(sandbox, "shfs-browse") and not browses(sandbox), "the end of shfs-browse")
    sandbox.sh("! ls .shfs/at; ! cat 'f@{now}'; echo 2 > g; mkdir .shfs; rmdir .shfs")
    assert sandbox.sh("cat f g").stdout == "1\n2\n"


def test_it_cannot_start(sandbox, mount):
    """Another file is where it would be mounted: the reason is in the log, the project is as ever."""
    place = f"{sandbox.path}/run/shfs/browse"
    mounted = mount()
    sandbox.allow_log("the past is not shown in")
    sandbox.write_outside(f"{place}/{os.path.basename(mounted.status()['browse'])}", "")
    sandbox.sh("echo 1 > f; ! ls .shfs/; ! cat 'f@{now}'; echo 2 > f; cat f")
    assert "the past is not shown in" in mounted.stderr()
    os.unlink(mounted.status()["browse"])
    assert sandbox.sh("cat 'f@{now}'").stdout == "2\n"


@pytest.mark.parametrize("by", ["shfs", "fusermount3"])
def test_unmount_removes_it(sandbox, shfs, project, shell, by):
    """Also where a shell stands in it; nothing is left in the runtime directory."""
    shfs("mount", project, cwd="/")
    sandbox.sh("echo 1 > f")
    work = shell(cwd="/")
    assert "at" in work.run(f"cd {project}/.shfs && ls")
    assert work.run("cd at/now && ls") == "f"
    if by == "shfs":
        said = shfs("umount", project, cwd="/").stdout
        assert said.startswith(f"{said.split(' is ')[0]} is unmounted\n") and f"bash ({work.pid})" in said and "cd" in said
        if "namespace" not in said:  # of others on this machine, which still has the mount
            assert not browses(sandbox) and not pid_of(sandbox, "shfs-keeper"), said
    else:
        sandbox.unmount(project)
    wait_until(lambda: not pids_of(sandbox, "shfs-fuse") and not pid_of(sandbox, "shfs-browse"), "the end of all")
    assert not mounts_below(sandbox.path) and not os.listdir(f"{sandbox.path}/run/shfs/browse")
    assert work.run("ls >/dev/null 2>&1 || echo gone") == "gone"
    assert work.run(f"cd {project} && ls -A").split()[0] == "f"


def test_two_mounts(sandbox, shfs, project):
    """Each has its own, which ends with it; umount --all takes both."""
    other = sandbox.mkdir(f"{sandbox.home}/other")
    for where in project, other:
        shfs("mount", where, cwd="/")
        sandbox.run("sh", "-c", 'echo "$1" > f', "sh", where, cwd=where)
    for where in project, other, project:
        at = moment(sandbox)
        assert sandbox.sh(f"cat .shfs/at/{at}/f 'f@{{{at}}}'", cwd=where).stdout == f"{where}\n" * 2
    assert len(browses(sandbox)) == 2
    shfs("umount", other, cwd="/")
    wait_until(lambda: len(browses(sandbox)) == 1, "the end of one")
    assert sandbox.sh("ls .shfs").stdout
    shfs("mount", other, cwd="/")
    assert sandbox.sh("ls .shfs", cwd=other).stdout
    said = shfs("umount", "--all", cwd="/")
    assert said.stdout.count("is unmounted") == 2 and not said.stderr
    wait_until(lambda: not mounts_below(sandbox.path), "the end of both")


@pytest.mark.parametrize("transport", ["dev", "auto"])
def test_the_server_is_killed(sandbox, shfs, project, transport):
    """Whether the guardian takes the mount over, or makes it again."""
    sandbox.env["SHFS_TRANSPORT"] = transport
    sandbox.allow_exit(-signal.SIGKILL)
    sandbox.allow_log("ended")
    shfs("mount", project, cwd="/")
    sandbox.sh("echo 1 > f")
    at = moment(sandbox)
    for _ in range(2):
        assert sandbox.sh(f"cat .shfs/at/{at}/f 'f@{{{at}}}'").stdout == "1\n1\n"
        os.kill(daemon_pid(shfs, project), signal.SIGKILL)
        wait_until(lambda: sandbox.sh(f"cat .shfs/at/{at}/f 'f@{{{at}}}'", check=False, cwd="/").stdout
                   or sandbox.run("cat", f"{project}/f@{{{at}}}", check=False, cwd="/").stdout == "1\n", "the past")
        wait_until(lambda: len(browses(sandbox)) == 1, "one mount of it")
    shfs("umount", project, cwd="/")
    wait_until(lambda: not pids_of(sandbox, "shfs-fuse"), "the daemon and its guardian to end")
    wait_until(lambda: not mounts_below(sandbox.path), "the end of all")


def test_everything_is_killed(sandbox, shfs, project):
    """As after a crash: what is left is cleared by the next mount that is asked."""
    sandbox.allow_exit(-signal.SIGKILL)
    sandbox.allow_log("ended")
    shfs("mount", project, cwd="/")
    sandbox.sh("echo 1 > f; ls .shfs")
    pids = [*pids_of(sandbox, "shfs-fuse"), pid_of(sandbox, "shfs-browse"), pid_of(sandbox, "shfs-refresh")]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not pids_of(sandbox, "shfs-fuse"), "their end")
    shfs("umount", project, cwd="/", check=False)
    shfs("mount", project, cwd="/")
    assert sandbox.sh("cat 'f@{now}'; ls .shfs").stdout.split() == ["1", "at", "commands", "versions"]
    shfs("umount", project, cwd="/")
    wait_until(lambda: not mounts_below(sandbox.path), "the end of all")


def test_no_runtime_directory(sandbox, mount):
    """Then below ~/.cache; and where that is in the project itself, nowhere."""
    sandbox.env["XDG_RUNTIME_DIR"] = "/nonexistent"
    if os.path.isdir(f"/run/user/{sandbox.user.uid}"):
        pytest.skip("there is one")
    mounted = mount()
    sandbox.sh("echo 1 > f")
    assert sandbox.run("readlink", ".shfs").stdout.startswith(f"{sandbox.home}/.cache/shfs/browse/")
    assert sandbox.sh("cat 'f@{now}'").stdout == "1\n"
    mounted.unmount()
    sandbox.env["XDG_CACHE_HOME"] = f"{sandbox.project}/cache"
    inside = mount()
    assert "the past is not shown" in inside.stderr()
    assert "No such file" in sandbox.run("ls", ".shfs", check=2).stderr
    inside.unmount()
    home = mount(sandbox.home)  # the store is in it
    assert "No such file" in sandbox.run("ls", ".shfs", cwd=sandbox.home, check=2).stderr
    home.unmount()
