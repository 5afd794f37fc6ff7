# SPDX-License-Identifier: MIT
"""Whose was it: each file is tied to the command that wrote or read it, by the process tree."""

import json
import os
import re
import shutil
import tempfile
import time

import pytest

from harness import wait_until
from test_capture import rows

pytestmark = [pytest.mark.backends, pytest.mark.either]
# these tell no writes, only closes
WRITES = pytest.mark.backends(without=["fanotify", "bpf-tracepoints"])
# and FUSE alone the closes of a descriptor that has copies
DESCRIPTORS = pytest.mark.backends(without=["fanotify", "bpf-tracepoints", "module", "bpf"])
# and this no times, nor what was executed and ended at once
TIMES = pytest.mark.backends(without=["fanotify"])

SHELLS = pytest.mark.parametrize("kind", ["bash", "zsh"])


def history(shfs, *args):
    """{text: command}, of those that touched something."""
    found = json.loads(shfs("history", "--json", *args).stdout)["commands"]
    return {c.get("text"): c for c in found}


def names(command, *uses):
    return {f["path"].rsplit("/", 1)[1] for f in command["files"] if f["use"] in uses}


def wrote(command):
    return names(command, "wrote", "changed", "renamed")


# What is typed, and the files that it writes and reads.
LINES = [
    ("echo one > simple", {"simple"}, set()),
    ("cat simple > copied", {"copied"}, {"simple"}),
    ("cat simple | tr a-z A-Z | tee piped > piped2", {"piped", "piped2"}, {"simple"}),
    ("(cd sub && echo x > in-sub)", {"in-sub"}, set()),
    ("for i in 1 2 3; do echo $i > loop$i; done", {"loop1", "loop2", "loop3"}, set()),
    ("seq 8 | xargs -P8 -I@ sh -c 'echo @ > par@'", {f"par{i}" for i in range(1, 9)}, set()),
    ("sh script.sh", {"by-script", "by-inner"}, {"script.sh", "inner.sh"}),
    ("env -i /bin/sh -c 'echo x > bare'", {"bare"}, set()),
    ("setsid -w sh -c 'echo x > in-session'", {"in-session"}, set()),
    ("nohup sh -c 'sleep 0.1; echo x > hung' >/dev/null 2>&1; true", {"hung"}, set()),
    ("{ echo a; echo b; } > grouped; false", {"grouped"}, set()),
    ("exec 3> held; echo x >&3; exec 3>&-", {"held"}, set()),
]


@SHELLS
@pytest.mark.both
def test_each_kind_of_line(sandbox, shfs, mounted, shell, kind):
    sandbox.sh("mkdir sub; echo 'echo x > by-script; sh inner.sh' > script.sh")
    sandbox.sh("echo 'echo y > by-inner' > inner.sh")
    terminal = shell(kind)
    for line, _, _ in LINES:
        terminal.run(line)
    found = history(shfs)
    for line, written, read in LINES:
        assert line in found, f"{line!r} is not in the history"
        assert wrote(found[line]) == written, line
        assert read <= names(found[line], "read"), line
    statuses = {line: found[line]["status"] for line, _, _ in LINES}
    assert statuses["{ echo a; echo b; } > grouped; false"] == 1
    assert statuses["echo one > simple"] == 0


@SHELLS
def test_background_job_keeps_its_command(sandbox, shfs, mounted, shell, kind):
    terminal = shell(kind)
    job = "sh -c 'sleep 1; echo late > late' &"
    terminal.run(job)
    for n in range(3):
        terminal.run(f"echo {n} > between{n}")
    wait_until(lambda: sandbox.sh("test -s late", check=False).status == 0, "the job")
    found = history(shfs)
    assert wrote(found[job]) == {"late"}
    for n in range(3):
        assert wrote(found[f"echo {n} > between{n}"]) == {f"between{n}"}


def test_each_process_has_a_name(sandbox, shfs, mounted, shell):
    """Also one that ended at once; and nobody knows one that lies where nobody looks at programs."""
    elsewhere = tempfile.mkdtemp(dir="/dev/shm")  # a file system of its own
    try:
        os.chmod(elsewhere, 0o755)
        shutil.copy("/bin/dash", elsewhere)
        terminal = shell("bash")
        lines = [f"for i in $(seq 100); do {sh} -c 'echo $$ > {name}$0' $i; done" for sh, name in (("sh", "a"), (f"{elsewhere}/dash", "b"))]
        for line in lines:
            terminal.run(line)
    finally:
        shutil.rmtree(elsewhere)
    for line, name in zip(lines, "ab", strict=True):
        command = history(shfs)[line]
        processes = json.loads(shfs("show", "--json", command["id"]).stdout)["processes"]
        assert {p["pid"] for p in processes} >= {int(pid) for pid in sandbox.sh(f"cat {name}*").stdout.split()}
        assert name == "b" or all(p["exe"] for p in processes), processes
        shown = shfs("show", command["id"]).stdout.partition("processes\n")[2].partition("wrote\n")[0]
        assert not re.search(r"^ *\d+ *$", shown, re.M), shown
        assert ("ended before shfs could look at it" in shown) == any(not p["exe"] for p in processes)


def makers(shfs, name):
    """What made each version of the file, the latest first."""
    log = json.loads(shfs("log", "--json", name).stdout)
    return [v["command"]["text"] for v in log["versions"] if v.get("command")]


@WRITES
@SHELLS
def test_commands_that_share_an_open_file(sandbox, shfs, mounted, shell, kind):
    """Each is the maker of what it left, though the file is closed by the last alone."""
    terminal = shell(kind)
    terminal.run("exec 3>>log")
    lines = [f"/bin/echo {n} >&3" for n in range(12)]
    for line in lines:
        terminal.run(line)
    terminal.run("exec 3>&-")
    assert makers(shfs, "log") == lines[::-1]
    assert shfs("cat", "log@3").stdout == "0\n1\n2\n"


@DESCRIPTORS
@SHELLS
def test_builtins_that_share_an_open_file(sandbox, shfs, mounted, shell, kind):
    terminal = shell(kind)
    terminal.run("exec 3>>log")
    lines = [f"echo {n} >&3" for n in range(4)]
    for line in lines:
        terminal.run(line)
        time.sleep(0.3)
    terminal.run("exec 3>&-")
    assert makers(shfs, "log") == lines[::-1]


def test_one_command_makes_one_version(sandbox, shfs, mounted, shell):
    """However many of its processes share the file."""
    terminal = shell("bash")
    line = "(for i in 1 2 3 4 5 6 7 8 9 10 11 12; do /bin/echo $i; sleep 0.05; done) > log"
    terminal.run(line)
    assert makers(shfs, "log") == [line]


@SHELLS
def test_daemon_that_left_the_tree(sandbox, shfs, mounted, shell, kind):
    """Its parents are gone when it writes; they were seen before."""
    sandbox.write("daemon.sh", "(setsid sh -c 'sleep 0.5; echo x > by-daemon' &) &\n")
    terminal = shell(kind)
    terminal.run("sh daemon.sh")
    terminal.run("echo x > after")
    wait_until(lambda: sandbox.sh("test -s by-daemon", check=False).status == 0, "the daemon")
    found = history(shfs)
    everything = json.loads(shfs("history", "--all", "--json").stdout)["commands"]
    by_daemon = [c.get("text") for c in everything if "by-daemon" in wrote(c)]
    assert by_daemon in (["sh daemon.sh"], [None]), "known or unknown, never another's"
    assert wrote(found["echo x > after"]) == {"after"}


@SHELLS
def test_two_shells_on_one_file(shfs, mounted, shell, kind):
    first, second = shell(kind), shell(kind)
    for n in range(3):
        first.run(f"echo first{n} > shared")
        second.run(f"echo second{n}>shared")
    found = history(shfs)
    versions = json.loads(shfs("log", "shared", "--json").stdout)["versions"]
    assert len(versions) == 6
    for n in range(3):
        a, b = found[f"echo first{n} > shared"], found[f"echo second{n}>shared"]
        assert a["session"] != b["session"]
        assert shfs("cat", f"shared@{2 * n + 1}").stdout == f"first{n}\n"
        assert shfs("cat", f"shared@{2 * n + 2}").stdout == f"second{n}\n"
        assert [f["made"] for f in a["files"]] == [2 * n + 1]
        assert [f["made"] for f in b["files"]] == [2 * n + 2]


@SHELLS
def test_nested_shell_is_a_session_of_its_own(sandbox, shfs, mounted, shell, kind):
    terminal = shell(kind)
    terminal.run("echo 1 > outer")
    terminal.run(kind)
    terminal.run("echo 2 > inner")
    terminal.run("exit")
    terminal.run("echo 3 > outer2")
    found = history(shfs)
    outer, inner = found["echo 1 > outer"], found["echo 2 > inner"]
    assert outer["session"] != inner["session"]
    assert found["echo 3 > outer2"]["session"] == outer["session"]
    assert wrote(inner) == {"inner"}


@TIMES
@SHELLS
def test_pasted_lines(shfs, mounted, shell, kind):
    """Two commands within a tick of the clock of /proc."""
    terminal = shell(kind)
    lines = [f"/bin/sh -c 'echo {n} > pasted{n}'" for n in range(12)]
    terminal.send("".join(line + "\r" for line in lines))
    for _ in lines:
        terminal.wait()
    found = history(shfs)
    for n, line in enumerate(lines):
        assert wrote(found[line]) == {f"pasted{n}"}


@SHELLS
def test_leading_blank_keeps_the_text_out(sandbox, shfs, mounted, shell, kind):
    terminal = shell(kind)
    terminal.run(" echo secret > hidden-file")
    found = json.loads(shfs("history", "--json").stdout)["commands"]
    assert [c["text"] for c in found] == [None]
    assert wrote(found[0]) == {"hidden-file"}
    stored = sandbox.sh('grep -rlF "echo secret" "$SHFS_STORE" || true').stdout
    assert stored == "", "the text is somewhere in the store"


def test_static_binary_and_raw_system_calls(sandbox, shfs, mounted, shell):
    source = r"""
        #include <fcntl.h>
        #include <sys/syscall.h>
        #include <unistd.h>
        int main(void)
        {
            int fd = syscall(SYS_openat, AT_FDCWD, "raw", O_WRONLY | O_CREAT, 0644);
            return syscall(SYS_write, fd, "x", 1) != 1;
        }
    """
    program = sandbox.compile("raw-writer", source)
    shell("bash").run(program)
    assert wrote(history(shfs)[program]) == {"raw"}


@TIMES
def test_no_shell_is_recorded_under_its_process(sandbox, shfs, mounted):
    sandbox.sh("echo x > by-nobody")
    assert history(shfs) == {}
    found = json.loads(shfs("history", "--all", "--json").stdout)["commands"]
    mine = [c for c in found if "by-nobody" in wrote(c)]
    assert len(mine) == 1 and mine[0]["id"] is None and mine[0]["argv"][0] == "/bin/sh"


@WRITES
def test_the_program_that_wrote_is_named(sandbox, mounted):
    """Not the shell that opened the file for it, and executed it only then."""
    sandbox.run("bash", "-c", "/bin/cat /proc/self/comm > a; /bin/echo b >> a; (echo c; /bin/echo d) > c; : > e")
    found = rows(sandbox, f"""
SELECT a.path, p.exe FROM v_access a JOIN v_process p USING (process_id)
WHERE a.path GLOB '{sandbox.project}/?' AND a.is_written AND a.op = 'open' ORDER BY a.seq_key""")
    found = [(os.path.basename(path), os.path.basename(exe)) for path, exe in found]
    assert found[:2] == [("a", "cat"), ("a", "echo")] and found[-1] == ("e", "bash")
    assert sorted(found[2:-1]) == [("c", "bash"), ("c", "echo")]


def test_reindex_gives_the_same_answers(sandbox, shfs, mounted, shell):
    terminal = shell("bash")
    for line in "echo 1 > a", "cat a > b", "mv b c", "echo 2 >> a", "rm c", "cp a d & wait":
        terminal.run(line)
    asked = [("history", "--all"), ("log", "a"), ("log", "c"), ("why", "d")]
    before = [shfs(*args, "--json").stdout for args in asked]
    shfs("reindex")
    assert [shfs(*args, "--json").stdout for args in asked] == before


def test_shell_that_stood_inside_before_the_mount(sandbox, shfs, shell):
    """Its directory lies below the mount: the hook moves it onto it."""
    terminal = shell("bash")
    sandbox.mount()
    terminal.run("true")
    terminal.run("echo x > after-mount")
    assert wrote(history(shfs)["echo x > after-mount"]) == {"after-mount"}
