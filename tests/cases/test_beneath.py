# SPDX-License-Identifier: MIT
"""What the kernel is told, it believes for a day; what others change beneath the mount is seen
all the same."""

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import time

import pytest

from harness import stopped, wait_until
from test_capture import rows

KEPT = 1.3  # seconds: longer than what is kept where changes would not be noticed


@pytest.fixture
def beneath(sandbox, project):
    """The directory under the mount; some files are there already, and are known through it."""
    sandbox.sh("mkdir -p d/sub; echo one > d/f; echo two > d/g; echo sub > d/sub/s; mkdir e")
    fd = os.open(project, os.O_PATH)
    sandbox.mount()
    sandbox.sh("find . -ls; cat d/f d/g d/sub/s; ls d e")
    yield lambda name: f"/proc/self/fd/{fd}/{name}"
    os.close(fd)


def outcome(sandbox, text):
    """Of Python in the project, in a process of its own, that would hang where the mount does."""
    return sandbox.run(sys.executable, "-I", "-c", "import os\n" + text, timeout=10, check=False).stdout.strip()


def test_names_and_attributes_are_kept(sandbox, project):
    """Nothing is asked for again, by whatever name, while the mount cannot answer."""
    sandbox.sh("mkdir -p d/sub; echo one > d/f; echo sub > d/sub/s")
    mount = sandbox.mount()
    sandbox.sh(f"find . -ls; sleep {KEPT}; find . -ls")  # those of directories once they were used
    time.sleep(KEPT)
    with stopped(mount.process.pid):
        assert outcome(sandbox, "print(os.stat('d/f').st_size, os.stat('d/sub/s').st_size)") == "4 4"


def test_our_own_changes_are_not_those_of_others(sandbox, project):
    """What was written through the mount is kept as well, once it was asked for."""
    mount = sandbox.mount()
    sandbox.sh("mkdir d; echo one > d/f; chmod 640 d/f; mv d/f d/g")
    time.sleep(0.1)
    sandbox.sh("find . -ls")
    time.sleep(KEPT)
    with stopped(mount.process.pid):
        assert outcome(sandbox, "print(os.stat('d/g').st_size, oct(os.stat('d/g').st_mode))") == "4 0o100640"


def soon(sandbox, text, expected, seconds=10):
    wait_until(lambda: outcome(sandbox, text) == expected, f"{expected} of {text}", seconds)


def replace(sandbox, path, content):
    """By the file of another, with a rename."""
    sandbox.write_outside(f"{path}.new", content)
    os.rename(f"{path}.new", path)


@contextlib.contextmanager
def holding(sandbox, name):
    """A process that has a file open: what it says to an expression of its fd."""
    script = """
import os, subprocess, sys
fd = os.open(sys.argv[1], os.O_RDWR)
for line in sys.stdin:
    try: print(eval(line), flush=True)
    except (OSError, subprocess.CalledProcessError) as error: print(error, flush=True)
"""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with sandbox.popen([sys.executable, "-I", "-c", script, name], text=True, **pipes) as process:

        def ask(text):
            process.stdin.write(text + "\n")
            process.stdin.flush()
            return process.stdout.readline().rstrip("\n")

        assert ask("'open'") == "open"
        yield ask


def test_written(sandbox, beneath):
    with open(beneath("d/f"), "ab") as file:
        file.write(b" and more")
        file.flush()  # and stays open
        soon(sandbox, "print(os.stat('d/f').st_size)", "13")
    assert sandbox.sh("cat d/f").stdout == "one\n and more"


def test_attributes(sandbox, beneath):
    os.chmod(beneath("d/f"), 0o604)
    os.utime(beneath("d/g"), (1, 1))
    os.chmod(beneath("d/sub"), 0o711)
    soon(sandbox, "print(oct(os.stat('d/f').st_mode), os.stat('d/g').st_mtime, oct(os.stat('d/sub').st_mode))",
         "0o100604 1.0 0o40711")


def test_replaced(sandbox, beneath):
    with open(beneath("d/new"), "wb") as file:
        file.write(b"another")
    os.rename(beneath("d/new"), beneath("d/f"))
    soon(sandbox, "print(os.stat('d/f').st_size)", "7")
    assert sandbox.sh("cat d/f; ls d").stdout == "anotherf\ng\nsub\n"


def test_removed(sandbox, beneath):
    os.unlink(beneath("d/f"))
    os.unlink(beneath("d/sub/s"))
    os.rmdir(beneath("d/sub"))
    soon(sandbox, "print([os.path.lexists(p) for p in ('d/f', 'd/g', 'd/sub', 'd/sub/s')])", "[False, True, False, False]")
    assert sandbox.sh("ls d; cat d/f 2>&1", check=False).stdout == "g\ncat: d/f: No such file or directory\n"


def test_made(sandbox, beneath):
    assert outcome(sandbox, "print(os.path.exists('e/new'))") == "False"
    with open(beneath("e/new"), "wb") as file:
        file.write(b"12345")
    soon(sandbox, "print(os.path.exists('e/new') and os.stat('e/new').st_size, os.listdir('e'))", "5 ['new']")


def test_moved(sandbox, beneath):
    """A directory with what is below it, and a file to where another was."""
    os.rename(beneath("d"), beneath("moved"))
    soon(sandbox, "print(os.path.exists('d/f'), os.path.exists('d'), os.stat('moved/f').st_size)", "False False 4")
    os.rename(beneath("moved/g"), beneath("moved/f"))
    soon(sandbox, "print(open('moved/f').read(), os.path.exists('moved/g'))", "two\n False")
    sandbox.sh("echo three > moved/f; rm -r moved/sub")
    assert rows(sandbox, "SELECT DISTINCT path FROM v_access WHERE op = 'unlink'") == [
        (f"{sandbox.project}/moved/sub/s",)]


def test_removed_while_it_is_open(sandbox, beneath):
    """Who has it open keeps it; nobody opens it any more."""
    script = """
import os, sys
f = open('d/f'); print('open', flush=True); sys.stdin.readline()
print(os.fstat(f.fileno()).st_size, f.read())
"""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    holder = sandbox.popen([sys.executable, "-c", script], text=True, **pipes)
    assert holder.stdout.readline() == "open\n"
    os.unlink(beneath("d/f"))
    soon(sandbox, "try: open('d/f')\nexcept OSError as e: print(e.errno)", "2")
    assert holder.communicate("\n", timeout=20)[0] == "4 one\n\n"


def test_changed_by_descriptor_when_removed(sandbox, beneath):
    """What has lost its name is still that of who has it open."""
    with holding(sandbox, "d/f") as ask:
        os.unlink(beneath("d/f"))
        soon(sandbox, "try: open('d/f')\nexcept OSError as e: print(e.errno)", "2")
        changes = "ftruncate(fd, 2)", "fchmod(fd, 0o604)", "setxattr(fd, 'user.a', b'1')", "utime(fd, (1, 1))"
        assert [ask(f"os.{change}") for change in changes] == ["None"] * 4
        assert ask("os.getxattr(fd, 'user.a'), os.pread(fd, 9, 0)") == "(b'1', b'on')"
        assert ask("oct(os.fstat(fd).st_mode), os.fstat(fd).st_mtime, os.fstat(fd).st_size") == "('0o100604', 1.0, 2)"


def test_time_of_birth_when_removed(sandbox, beneath):
    with holding(sandbox, "d/f") as ask:
        ino = os.stat(beneath("d/f")).st_ino
        os.unlink(beneath("d/f"))
        said = ask("subprocess.check_output(['stat', '-c', '%W %i %s %h', '-'], stdin=fd).decode()[:-1]")
        assert said.split()[1:] == [str(ino), "4", "0"]


@pytest.mark.parametrize("name", ["d/f", "d/sub"])
def test_time_of_birth_when_replaced(sandbox, beneath, name):
    """Asked for with the attributes, it has them asked of the file that is there."""

    def ino():
        return sandbox.sh(f"stat -c '%W %i' {name}").stdout.split()[1]

    sandbox.sh(f"chmod u+x {name}")  # the mount has an fd of it now
    assert ino() == str(os.stat(beneath(name)).st_ino)
    if name == "d/f":
        replace(sandbox, beneath(name), "another")
    else:
        os.rename(beneath(name), beneath("moved"))
        os.mkdir(beneath(name))
    wait_until(lambda: ino() == str(os.stat(beneath(name)).st_ino), "the other file")


@pytest.mark.parametrize("kept", ["pass", "os.utime('d/f')"], ids=["without-fd", "with-fd"])
def test_replaced_while_it_is_open(sandbox, beneath, kept):
    """By its name it is the new one for all, while who has the old one open keeps that; also
    where the mount has an fd of its own of that."""
    if tuple(map(int, os.uname().release.split(".")[:2])) < (6, 16):
        pytest.skip("needs Linux 6.16: FUSE_NOTIFY_INC_EPOCH")
    with holding(sandbox, "d/f") as ask:
        outcome(sandbox, kept)
        replace(sandbox, beneath("d/f"), "new content")
        soon(sandbox, "print(open('d/f').read())", "new content")
        soon(sandbox, "print(os.stat('d/f').st_ino, os.stat('d/f').st_size)", f"{os.stat(beneath('d/f')).st_ino} 11")
        sandbox.sh("chmod 604 d/f")
        assert oct(os.stat(beneath("d/f")).st_mode) == "0o100604"
        assert ask("oct(os.fstat(fd).st_mode), os.pread(fd, 99, 0)") == "('0o100644', b'one\\n')"


def test_link_replaced(sandbox, beneath):
    """It is followed to where it leads now, though nobody asks for its attributes."""
    sandbox.sh("ln -s f d/link; cat d/link; readlink d/link")
    os.symlink("g", beneath("d/new"))
    os.rename(beneath("d/new"), beneath("d/link"))
    soon(sandbox, "print(open('d/link').read(), os.readlink('d/link'))", "two\n g", seconds=3)


@pytest.mark.users("root")
def test_first_file_made_has_its_times(sandbox, beneath):
    """Whether writes may be passed is tried with it: that leaves no trace."""
    for name in "d/first", "d/second":
        said = outcome(sandbox, f"fd = os.open('{name}', os.O_WRONLY | os.O_CREAT); print(os.fstat(fd).st_mtime_ns)")
        assert said == str(os.stat(beneath(name)).st_mtime_ns)
        assert outcome(sandbox, f"print(os.stat('{name}').st_mtime_ns)") == said


def test_ends_while_an_open_waits_for_a_lease(sandbox, beneath):
    """Told to, it waits no longer for who holds the lease."""
    sandbox.allow_log("fuse: failed to unmount")  # libfuse tries, the sandbox says no
    mount = sandbox.mounts[0]
    lower = os.open(beneath("d/f"), os.O_RDONLY)
    before = signal.signal(signal.SIGIO, signal.SIG_IGN)
    try:
        fcntl.fcntl(lower, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        child = sandbox.popen(["sh", "-c", "echo >> d/f"], stderr=subprocess.DEVNULL)
        wait_until(lambda: fcntl.fcntl(lower, fcntl.F_GETLEASE) != fcntl.F_RDLCK, "the open")
        mount.process.send_signal(signal.SIGTERM)
        mount.wait()
        assert child.wait(10) != 0
    finally:
        os.close(lower)
        signal.signal(signal.SIGIO, before)


def test_many_at_once(sandbox, beneath):
    """More than the kernel keeps events of, while the mount does not look."""
    sandbox.sh("mkdir -p e/many; cd e/many; seq 2000 | xargs touch; ls -l")
    for n in range(1, 2001):
        with open(beneath(f"e/many/{n}"), "wb") as file:
            file.write(b"x" * n)
    soon(sandbox, "print(sum(os.stat(f'e/many/{n}').st_size for n in range(1, 2001)))", "2001000")


def test_made_where_the_time_is_set_back(sandbox, beneath):
    """As who unpacks an archive does: the directory has the time that it had, and another entry."""
    sandbox.sh("touch -d @1000000 d; sleep 0.1; ls d; ls d")
    with open(beneath("d/new"), "w", encoding="ascii"):
        pass
    os.utime(beneath("d"), (1000000, 1000000))
    soon(sandbox, "print(*sorted(os.listdir('d')))", "f g new sub")


def test_the_first_of_two_names(sandbox, project, beneath):
    """The kernel was told of it when the file had no other, and keeps it for a day."""
    for make in "touch", "mkfifo":
        for change in os.unlink, lambda name: os.rename(name, name + ".moved"):
            sandbox.sh(f"{make} d/first; ls -l d/first; ln d/first d/second; ls -l d/second")
            change(beneath("d/first"))
            soon(sandbox, "print(os.path.exists('d/first'), os.path.exists('d/second'))", "False True")
            sandbox.sh("rm d/second")
