# SPDX-License-Identifier: MIT
"""What the kernel is told, it believes for a day; what others change beneath the mount is seen
all the same."""

import contextlib
import os
import signal
import subprocess
import sys
import time

import pytest

from harness import wait_until
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


@contextlib.contextmanager
def stopped(pid):
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


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


def soon(sandbox, text, expected):
    wait_until(lambda: outcome(sandbox, text) == expected, f"{expected} of {text}")


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


def test_many_at_once(sandbox, beneath):
    """More than the kernel keeps events of, while the mount does not look."""
    sandbox.sh("mkdir -p e/many; cd e/many; seq 2000 | xargs touch; ls -l")
    for n in range(1, 2001):
        with open(beneath(f"e/many/{n}"), "wb") as file:
            file.write(b"x" * n)
    soon(sandbox, "print(sum(os.stat(f'e/many/{n}').st_size for n in range(1, 2001)))", "2001000")
