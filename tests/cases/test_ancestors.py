# SPDX-License-Identifier: MIT
"""What the ancestors of shfs get wrong, by number: c01 to c20 were seen with shournal 3.3, the
probe_ ones with PROBE. Each is done in a real shell, and asked for by the user's tools."""

import ctypes
import json
import os
import resource
import signal
import subprocess

import pytest

import harness
from harness import ORDINARY, wait_until

pytestmark = [pytest.mark.backends, pytest.mark.either]
# these look size and times up after the close: who writes again at once is taken for who wrote first
WAITS = pytest.mark.backends(without=["fanotify", "bpf-tracepoints"])
# this finds no file that has lost its name
NAMELESS = pytest.mark.backends(without=["bpf"])
# and this tells writing by times, and several closes of one process as one
TIMES = pytest.mark.backends(without=["fanotify"])

SHELLS = pytest.mark.parametrize("kind", ["bash", "zsh"])


def ask(sandbox, *args):
    return json.loads(sandbox.shfs(*args, "--json").stdout)


def commands(sandbox, *args):
    return ask(sandbox, "history", "--limit", "1000", *args)["commands"]


def the(sandbox, line):
    """What show says of the one command that was typed so."""
    known = commands(sandbox, "--all")
    found = [c["id"] for c in known if c["text"] == line]
    assert len(found) == 1, [(c["text"] or c.get("argv"), did(sandbox, c)) for c in known]
    return ask(sandbox, "show", found[0])


def name_of(sandbox, path):
    return os.path.relpath(path, sandbox.project)


def did(sandbox, command):
    """{"wrote f@2", "removed d", ...}"""
    found = set()
    for use in command["files"]:
        n = use.get("made") or use.get("read")
        found.add(f"{use['use']} {name_of(sandbox, use['path'])}" + (f"@{n}" if n else ""))
    return found


def makers(sandbox, name):
    """What made each version of the file, the first one first."""
    versions = ask(sandbox, "log", "--reverse", name)["versions"]
    return [v["command"] and v["command"]["text"] for v in versions]


def contents(sandbox, name):
    versions = ask(sandbox, "log", "--reverse", name)["versions"]
    return [sandbox.shfs("cat", f"{name}@{v['n']}").stdout_bytes for v in versions]


def contents_in_time(sandbox, name):
    """Of each version, or None: without FUSE that of one which was changed again before it was read."""
    found = []
    for version in ask(sandbox, "log", "--reverse", name)["versions"]:
        result = sandbox.shfs("cat", f"{name}@{version['n']}", check=False)
        superseded = "changed again before it could be read" in result.stderr
        assert not result.status or superseded and sandbox.backend != "fuse", result
        found.append(None if superseded else result.stdout_bytes)
    return found


def wait_for(sandbox, *names):
    for name in names:
        wait_until(lambda: sandbox.sh(f"test -s {name}", check=False).status == 0, name)


# --- C1 to C20: shournal ---


@SHELLS
@pytest.mark.both
def test_c01_names_are_those_of_the_time(sandbox, mounted, shell, kind):
    """shournal resolves names late: bar_old alone is known."""
    line = "echo foo > bar; mv bar bar_old"
    terminal = shell(kind)
    terminal.run(line)
    command = the(sandbox, line)
    assert did(sandbox, command) == {"wrote bar_old@1"}
    bar, bar_old = (f"{sandbox.project}/{name}" for name in ("bar", "bar_old"))
    assert command["temporary"] == [{"path": bar, "to": bar_old, "n": 1}]
    shown = sandbox.shfs("show", "bar_old").stdout
    assert "bar@1 -> bar_old" in shown
    [now] = ask(sandbox, "log", "bar_old")["versions"]
    assert now["origin"] == {"path": bar, "n": 1} and now["command"]["text"] == line
    [then] = ask(sandbox, "log", "bar")["versions"]
    assert [(g["what"], g["to"]) for g in then["gone"]] == [("rename", bar_old)]
    assert contents(sandbox, "bar") == contents(sandbox, "bar_old") == [b"foo\n"]
    # in two commands, and the name used again
    for line in "echo one > a", "mv a b", "echo two > a":
        terminal.run(line)
    assert did(sandbox, the(sandbox, "echo one > a")) == {"wrote a@1"}
    assert did(sandbox, the(sandbox, "mv a b")) == {"renamed b@1"}
    assert contents(sandbox, "b") == [b"one\n"] and contents(sandbox, "a")[-1] == b"two\n"
    assert makers(sandbox, "b") == ["echo one > a"]


@WAITS
@SHELLS
def test_c02_each_version_of_one_command(sandbox, mounted, shell, kind):
    """shournal has one event, v1 never existed."""
    line = "echo v1 > f; echo v2222 > f"
    shell(kind).run(line)
    first, second = contents_in_time(sandbox, "f")
    assert first in (b"v1\n", None) and second == b"v2222\n"
    assert makers(sandbox, "f") == [line, line]
    if first:
        sandbox.shfs("restore", "f@1")
        assert sandbox.read("f") == first


@TIMES
def test_c03_each_append_of_two_processes(sandbox, mounted, shell):
    """shournal has 3 events of 6."""
    appends = "exec 9>lock; for i in 1 2 3; do flock 9; echo $0$i >> f; flock -u 9; done"
    by_turns = f"for p in a b; do sh -c '{appends}' $p & done; wait"
    at_once = "for p in a b; do sh -c 'for i in 1 2 3; do echo $0$i >> g; done' $p & done; wait"
    terminal = shell()
    terminal.run(by_turns)
    terminal.run(at_once)
    held = contents_in_time(sandbox, "f")
    assert len(held) == 6
    assert all(h is None or len(h.split()) == n for n, h in enumerate(held, 1))
    assert makers(sandbox, "f") == [by_turns] * 6
    programs = [p["argv"][-1] for p in the(sandbox, by_turns)["processes"]]
    assert {"a", "b"} <= set(programs)
    for name, line in ("f", by_turns), ("g", at_once):
        held = [h for h in contents_in_time(sandbox, name) if h is not None]
        assert held[-1] == sandbox.read(name), "the last version is what is there"
        assert sorted(held[-1].split()) == [b"a1", b"a2", b"a3", b"b1", b"b2", b"b3"]
        assert all(held[-1].startswith(h) for h in held), "nothing torn, and in order"
        assert set(makers(sandbox, name)) == {line}


@NAMELESS
@SHELLS
def test_c04_created_and_deleted_at_once(sandbox, mounted, shell, kind):
    """shournal records nothing."""
    terminal = shell(kind)
    line = "echo alpha > brief; rm brief"
    nameless = "exec 3>held; rm held; echo beta >&3; exec 3>&-"
    terminal.run(line)
    terminal.run(nameless)
    command = the(sandbox, line)
    assert command["temporary"] == [{"path": f"{sandbox.project}/brief", "n": 1}]
    assert "brief@1" in sandbox.shfs("show", command["id"]).stdout
    versions = ask(sandbox, "log", "brief")["versions"]
    assert len(versions) == 1, versions
    [version] = versions
    assert version["command"]["text"] == line and version["gone"][0]["command"]["text"] == line
    sandbox.shfs("restore", "brief@1")
    assert sandbox.read("brief") == b"alpha\n"
    assert contents_in_time(sandbox, "held")[-1] == b"beta\n"
    assert makers(sandbox, "held")[-1] == nameless


# what is typed, and what is said of it
ALONE = [
    ("mkdir d", "made d"),
    ("rmdir d", "removed d"),
    ("ln base hard", "linked hard"),
    ("rm hard", "removed hard"),
    ("ln -s nowhere soft", "linked soft"),
    ("rm soft", "removed soft"),
    ("chmod 600 base", "touched base"),
    ("chown $(id -u):$(id -g) base", "touched base"),
    ("touch base", "touched base"),
    ("touch -d 2001-01-01 base", "touched base"),
    ("setfattr -n user.key -v 1 base", "touched base"),
    ("setfattr -x user.key base", "touched base"),
    ("setfacl -m u:0:r base", "touched base"),
    ("mv base moved", "renamed moved@1"),
    ("mkfifo pipe", "made pipe"),
    ("mv pipe pipe2", "renamed pipe2"),
    ("truncate -s 1 moved", "changed moved@2"),
    ("rm moved", "removed moved@2"),
    ("touch empty", "wrote empty@1"),
    ("mv dir dir2", "renamed dir2"),
    ("chmod 700 dir2", "touched dir2"),
    ("rm -r dir2", "removed dir2"),
]
NO_ATTRIBUTES = "module", "bpf"  # they tell no extended ones


def test_c05_each_change_leaves_a_trace(sandbox, mounted, shell):
    """shournal has no trace of rm, mkdir, ln, ln -s, chmod, rename alone."""
    sandbox.sh("echo text > base; mkdir dir; echo x > dir/file")
    told = [(line, said) for line, said in ALONE if sandbox.backend not in NO_ATTRIBUTES or "attr" not in line and "acl" not in line]
    terminal = shell()
    for line, _ in told:
        assert terminal.run(line) == "", line
    for line, expected in told:
        found = did(sandbox, the(sandbox, line))
        alike = {expected}
        if sandbox.backend == "fanotify" and line.startswith(("touch", "truncate")):
            name = expected.partition("@")[0].split()[1]
            alike |= {f"{use} {name}" for use in ("wrote", "changed", "read")}  # it tells that by times
        assert alike & (found | {use.partition("@")[0] for use in found}), line
    listed = sandbox.shfs("history", "--limit", "100").stdout
    for line, expected in told if sandbox.backend != "fanotify" else ():
        entry = listed[listed.index(f"  {line}\n") :].split("\n\n")[0]
        word, name = expected.split()
        assert word in entry and name in entry, entry
    assert "removed" in sandbox.shfs("history", "soft").stdout
    assert "has no versions" in sandbox.shfs("log", "soft", check=3).stderr


@TIMES
def test_c06_opened_is_not_yet_written(sandbox, mounted, shell):
    """shournal calls r+ that only reads, and append that writes nothing, "written"; what was opened
    to read and write never counts as read."""
    sandbox.sh("for f in a b c d e; do echo text > $f; done")
    terminal = shell()
    # without FUSE, what was opened to be read was read, or written
    d, c = (set(), 1) if sandbox.backend == "fuse" else ({"read d@1"}, 0)
    lines = {
        "python3 -c 'open(\"a\", \"r+\").read()'": {"read a@1"},
        ": >> b": set(),
        "python3 -c 'f = open(\"c\", \"r+\"); f.read(); f.write(\"more\")'": {"changed c@2"},
        "exec 3<>d; exec 3>&-": d,
        "exec 3<>e; read -u 3 x; exec 3>&-": {"read e@1"},
    }
    for line in lines:
        terminal.run(line)
    found = {c["text"]: did(sandbox, c) for c in commands(sandbox, "--all")}
    assert {line: found[line] for line in lines} == lines
    assert contents(sandbox, "c") == [b"text\n", b"text\nmore"]
    for name, read, wrote in ("a", 1, 0), ("c", c, 1), ("b", 0, 0), ("e", 1, 0):
        for use, expected in ("--read", read), ("--wrote", wrote):
            users = [c["text"] for c in commands(sandbox, use, name) if c["text"]]
            assert len(users) == expected, (name, use)


STORE_AFTER_CLOSE = r"""
    #include <fcntl.h>
    #include <string.h>
    #include <sys/mman.h>
    #include <unistd.h>
    int main(void)
    {
        int fd = open("f", O_RDWR);
        char *m = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (m == MAP_FAILED || close(fd))
            return 1;
        memcpy(m + 5000, "after", 5);
        return 0; /* it ends as it stands */
    }
"""


def test_c07_stores_after_the_close(sandbox, mounted, shell):
    """shournal never has what is stored in a mapping after its file was closed."""
    sandbox.sh("head -c 8192 /dev/zero > f")
    program = sandbox.compile("store", STORE_AFTER_CLOSE)
    shell().run(program)
    before, after = contents(sandbox, "f")
    assert before == bytes(8192)
    assert after == bytes(5000) + b"after" + bytes(3187) == sandbox.read("f")
    assert makers(sandbox, "f") == [None, program]


@SHELLS
def test_c08_what_outlives_its_parent(sandbox, mounted, shell, kind):
    """shournal loses a background child that outlives its parent, and setsid."""
    sandbox.write("daemon.sh", "sleep 0.5; echo x > by-session\n")
    terminal = shell(kind)
    job = "sh -c '(sleep 0.5; echo x > by-orphan) &'"
    daemon = "setsid sh daemon.sh &"
    unseen = "sh -c 'setsid sh -c \"sleep 0.5; echo x > unseen\" &'"
    last = "nohup sh -c 'sleep 0.5; echo x > after-the-shell' > /dev/null 2>&1 & disown"
    for line in job, daemon, unseen, "echo x > between":
        terminal.run(line)
    wait_for(sandbox, "by-orphan", "by-session", "unseen")
    terminal.run(last)
    terminal.close()
    wait_for(sandbox, "after-the-shell")
    by = {}
    for command in commands(sandbox, "--all"):
        for use in command["files"]:
            if use["use"] == "wrote":
                by[name_of(sandbox, use["path"])] = command["text"]
    assert by["by-orphan"] == job
    assert by["by-session"] == daemon
    assert by["after-the-shell"] == last
    assert by["between"] == "echo x > between"
    assert by["unseen"] == unseen


@pytest.mark.both
def test_c09_namespaces(sandbox, mounted, shell):
    """shournal loses what runs in mount and pid namespaces: unshare -m, bwrap, containers."""
    root = "" if sandbox.user.uid == 0 else "-Ur "
    lines = {
        f"unshare {root}-m sh -c 'echo x > in-mounts'": {"wrote in-mounts@1"},
        f"unshare {root}-pf --mount-proc sh -c 'echo x > in-pids'": {"wrote in-pids@1"},
        "bwrap --dev-bind / / sh -c 'cat in-pids > in-bwrap'": {"wrote in-bwrap@1", "read in-pids@1"},
        "bwrap --dev-bind / / --unshare-all --die-with-parent sh -c 'echo x > in-all'": {"wrote in-all@1"},
        "bwrap --dev-bind / / --tmpfs /tmp --bind $PWD /mnt --chdir /mnt sh -c 'echo x > in-mnt'": {
            "wrote in-mnt@1"
        },
    }
    terminal = shell()
    for line in lines:
        assert terminal.run(line) == "", line
    assert {c["text"]: did(sandbox, c) for c in commands(sandbox)} == lines
    assert contents(sandbox, "in-mnt") == [b"x\n"]


@pytest.mark.users("root")
def test_c10_mounts_inside_a_command(sandbox, mounted, shell):
    """shournal loses what follows, and the mount vanishes with the command."""
    sandbox.sh("mkdir disk bound source")
    elsewhere = sandbox.mkdir(f"{sandbox.path}/elsewhere")
    terminal = shell()
    try:
        lines = [
            "echo 1 > one; mount -t tmpfs none disk; echo 2 > disk/two; echo 3 > three",
            "mount --bind source bound; echo 4 > bound/four",
            f"mount --bind . {elsewhere}; echo 5 > {elsewhere}/five",
            "cat disk/two bound/four",
        ]
        assert [terminal.run(line) for line in lines] == ["", "", "", "2\n4"]
        below = set() if sandbox.backend == "fuse" else {"wrote disk/two@1"}
        assert did(sandbox, the(sandbox, lines[0])) - below == {"wrote one@1", "wrote three@1"}
        four = {"wrote source/four@1", "wrote bound/four@1"}  # by the one name or the other
        assert len(did(sandbox, the(sandbox, lines[1])) & four) == 1
        assert did(sandbox, the(sandbox, lines[2])) == {"wrote five@1"}
        # the project itself covered, and back again
        over = "mount -t tmpfs none $PWD; cd $PWD; echo lost > f; umount -l $PWD; cd $PWD; echo kept > f"
        assert terminal.run(over) == ""
        assert contents(sandbox, "f") == [b"kept\n"] and makers(sandbox, "f") == [over]
    finally:
        left = sandbox.run("umount", "-l", "bound", "disk", elsewhere, check=False)
    assert left.status == 0, left
    assert sandbox.sh("ls disk").stdout == ""


@TIMES
def test_c11_a_byte_outside_the_samples(sandbox, project, shell):
    """shournal calls it "up to date" where size and mtime are the same. The pause: tracepoints tell of a close
    late, and the mtime that is set right behind it makes what it left another one."""
    text = bytes(range(256)) * 400
    changed = text[:30000] + b"X" + text[30001:]
    change = "touch -r f ref; printf X | dd of=f bs=1 seek=30000 conv=notrunc status=none; sleep .4; touch -r ref f"
    mount = sandbox.mount()
    sandbox.write("f", text)
    terminal = shell(cwd="/")
    terminal.run(f"cd {project}")
    terminal.run("cksum < f")
    terminal.run(change)
    assert contents(sandbox, "f") == [text, changed]
    sandbox.shfs("restore", "f@1")
    assert sandbox.read("f") == text
    # beneath, while nothing watches
    terminal.run("cd /")
    mount.unmount()
    sandbox.sh(change)
    sandbox.mount()
    terminal.run(f"cd {project}")
    terminal.run("cksum < f #again")
    [again] = the(sandbox, "cksum < f #again")["files"]
    assert (again["use"], again["read"]) == ("read", 4)  # 3 is what restore wrote
    assert makers(sandbox, "f")[1:4:2] == [change, None]


def test_c12_scripts_alike(sandbox, mounted, shell):
    """shournal restores B where A ran: size, second and samples are the same."""
    filler = "# filler\n" * 500
    a, b = (f"{filler}echo {x} > out\n{filler}".encode() for x in "AB")
    sandbox.write("a", a)
    sandbox.write("b", b)
    same = "touch -d 2020-01-01 run.sh"
    lines = [f"cp a run.sh; sleep .4; {same}", "sh run.sh #A", f"cp b run.sh; sleep .4; {same}", "sh run.sh #B"]
    terminal = shell()
    for line in lines:
        terminal.run(line)
    for line, content, out in (lines[1], a, b"A\n"), (lines[3], b, b"B\n"):
        command = the(sandbox, line)
        read = {name_of(sandbox, f["path"]): f["read"] for f in command["files"] if f["use"] == "read"}
        assert sandbox.shfs("cat", f"run.sh@{read['run.sh']}").stdout_bytes == content
        assert sandbox.shfs("cat", f"run.sh@{{{command['id']}}}").stdout_bytes == content
        sandbox.shfs("restore", "--command", command["id"], "--read")
        assert sandbox.read("run.sh") == content
        sandbox.shfs("restore", f"out@{{{command['id']}}}")
        assert sandbox.read("out") == out


@TIMES
def test_c13_touched_and_not_changed(sandbox, mounted, shell):
    """shournal stores 3 more full copies of a script that was touched 3 times."""

    def objects():
        return sandbox.run("find", f"{sandbox.store}/objects", "-type", "f", "-printf", "%p %s\n").stdout.splitlines()

    terminal = shell()
    terminal.run("echo 'cat run.sh > /dev/null' > run.sh")
    terminal.run("sh run.sh")
    sandbox.shfs("sync")
    before = objects()
    for n in range(3):
        terminal.run(f"touch -d 2020-01-0{n + 1} run.sh; sh run.sh #{n}")
    terminal.run("cat run.sh > copy; cp copy run.sh")
    sandbox.shfs("sync")
    assert objects() == before and len(before) == 1
    assert len(ask(sandbox, "log", "run.sh")["versions"]) == 1
    for n in range(3):
        files = the(sandbox, f"touch -d 2020-01-0{n + 1} run.sh; sh run.sh #{n}")["files"]
        assert [(f["use"], f["read"]) for f in files] == [("read", 1)]


@SHELLS
def test_c14_one_of_two_hard_links(sandbox, mounted, shell, kind):
    """shournal stores the path as "... (deleted)"."""
    terminal = shell(kind)
    terminal.run("echo one > a")
    for line in "ln a b", "rm a", "echo two >> b", "ln b c; rm c; echo three >> b":
        terminal.run(line)
    terminal.run("exec 3>>b; ln b d; rm b; echo four >&3; exec 3>&-; cat d")
    assert did(sandbox, the(sandbox, "ln a b")) == {"linked b@1"}
    assert did(sandbox, the(sandbox, "rm a")) == {"removed a@1"}
    assert did(sandbox, the(sandbox, "echo two >> b")) == {"changed b@2"}
    assert contents(sandbox, "b")[:3] == [b"one\n", b"one\ntwo\n", b"one\ntwo\nthree\n"]
    assert contents(sandbox, "a") == [b"one\n"]
    assert contents(sandbox, "d")[-1] == b"one\ntwo\nthree\nfour\n" == sandbox.read("d")
    known = {name_of(sandbox, f["path"]) for c in commands(sandbox) for f in c["files"]}
    assert known <= {"a", "b", "c", "d"}
    for name in "abcd":
        assert "deleted)" not in sandbox.shfs("log", name).stdout


@pytest.mark.users("ordinary")
@SHELLS
def test_c15_names_that_are_no_text(sandbox, mounted, shell, kind):
    """shournal stores U+FFFD, and the file is never found again."""
    terminal = shell(kind)
    names = [b"caf\xe9", b"\xff\xfe", b"\xc3", b"line\nfeed", b"\xed\xa0\x80", "naïve ✓".encode()]
    for name in names:
        quoted = "".join(f"\\x{byte:02x}" for byte in name)
        terminal.run(f"echo one > $'{quoted}'")
        terminal.run(f"echo two > $'{quoted}'")
    for name in names:
        log = sandbox.shfs("log", "--json", name).stdout_bytes
        log.decode("utf-8")
        path = os.path.join(sandbox.project.encode(), name)
        assert json.loads(log)["path"].encode("utf-8", "surrogateescape") == path
        assert sandbox.shfs("cat", name + b"@1").stdout_bytes == b"one\n"
        assert len(sandbox.shfs("log", name).stdout.splitlines()) == 4
        sandbox.shfs("restore", name + b"@1")
        assert sandbox.run("cat", "--", name).stdout_bytes == b"one\n"
        for command in commands(sandbox, "--wrote", name, "--grep", "echo"):
            assert [f["path"].encode("utf-8", "surrogateescape") for f in command["files"]] == [path]
        sandbox.run("rm", "--", name)
        sandbox.shfs("undelete", name)
        assert sandbox.run("cat", "--", name).stdout_bytes == b"one\n"


HARM = (
    "</script><script>alert(1)</script>\"'`id`$(id)${HOME}\\n%s&amp;\u2028\u2029"
    "\x1b[31m\x1b]0;title\x07\x9b"
)


@SHELLS
def test_c16_text_that_is_meant_to_harm(sandbox, mounted, shell, kind):
    """shournal's HTML runs a script that is in a command."""
    quoted = HARM.replace("'", "'\\''")
    typed = "".join(f"\x16{c}" if c < " " or c == "\x9b" else c for c in f"printf %s '{quoted}' > out")
    terminal = shell(kind)
    terminal.send(typed + "\r")
    terminal.wait()
    assert sandbox.read("out") == HARM.encode()
    [command] = commands(sandbox)
    assert command["text"] == f"printf %s '{quoted}' > out"
    questions = ["history"], ["show", command["id"]], ["log", "out"], ["why", "out"]
    completed = ["complete", "--", "show", ""], ["complete", "--", "cat", "out@"]
    for question in *questions, *completed, ["history", "--all"], ["status"]:
        out = sandbox.shfs(*question, check=False).stdout_bytes.decode("utf-8")
        controls = {c for c in out if c < " " or "\x7f" <= c < "\xa0"} - {"\n", "\t"}
        assert not controls, question
        assert "</script>" in out or question[0] in ("why", "status") or "cat" in question
    for question in questions:
        document = sandbox.shfs(*question, "--json").stdout_bytes
        assert json.loads(document.decode("utf-8")) and b"\x1b" not in document


SECRET = "open-sesame-6f1d9c"

# What another user of the machine can read: files below the directories, whatever they hold,
# and of our processes what holds the secret.
SPY = r"""
import os, sys
secret, places, ours = os.environb[b"SECRET"], sys.argv[1:-1], sys.argv[-1]
def read(path):
    try:
        with open(path, "rb") as f:
            return f.read(1 << 20)
    except OSError:
        return b""
for place in places:
    for top, directories, files in os.walk(place):
        for name in files:
            if read(os.path.join(top, name)):
                print("can read", os.path.join(top, name))
    try:
        open(os.path.join(place, "planted"), "w")
        print("can write to", place)
    except OSError:
        pass
for pid in filter(str.isdigit, os.listdir("/proc")):
    if read(f"/proc/{pid}/environ") and not os.stat(f"/proc/{pid}").st_uid == os.getuid():
        print("can read the environment of", pid)
    for name in "cmdline", "comm", "status", "stat", "wchan", "maps":
        if secret in read(f"/proc/{pid}/{name}"):
            print("secret in", name, "of", read(f"/proc/{pid}/comm"))
for line in read("/proc/net/unix").splitlines():
    if b"shfs" in line and ours.encode() in line:
        print("socket", line)
print("looked")
"""


@pytest.mark.both
def test_c17_secrets_of_the_environment(sandbox, project, shell):
    """shournal has them in a helper's arguments, which everybody can read."""
    sandbox.env["API_TOKEN"] = SECRET
    sandbox.shfs("mount", f"--backend={sandbox.backend}", project)
    terminal = shell()
    terminal.run("export MORE=$API_TOKEN")
    for line in "umask 077", "echo 1 > f", "cat f > g", "echo 2 > f":
        terminal.run(line)
    for question in ["history"], ["show", "f"], ["diff", "f@1", "f@2"], ["why", "g"], ["status"], ["doctor"]:
        terminal.run("shfs " + " ".join(question) + " | cat")
    places = [sandbox.store, f"{sandbox.path}/run", project, f"{sandbox.path}/tmp"]
    become = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]
    spy = [*become, "/usr/bin/python3", "-", *places, sandbox.path]
    env = {"SECRET": SECRET}
    found = subprocess.run(spy, input=SPY.encode(), capture_output=True, env=env, check=False)
    assert (found.stdout.decode(), found.stderr.decode()) == ("looked\n", "")
    mine = ["find", sandbox.store, f"{sandbox.path}/run", "-perm", "/077", "!", "-type", "l"]
    assert sandbox.run(*mine).stdout == ""
    # nor is it kept
    terminal.run("shfs sync")
    kept = sandbox.sh(f'grep -rlaF {SECRET} "$SHFS_STORE" "$XDG_RUNTIME_DIR" "$TMPDIR"', check=False)
    assert (kept.status, kept.stdout) == (1, "")
    # nor is it told to what lives too short to be seen
    trace = f"{sandbox.path}/trace"
    for question in ["diff", "f@1", "f@2"], ["history"], ["log", "-p", "f"]:
        sandbox.run("strace", "-f", "-qq", "-s99999", "-etrace=execve", "-o", trace, "shfs", *question,
                    env={"ASAN_OPTIONS": "detect_leaks=0"}, check=False)
        with open(trace, encoding="utf-8") as lines:
            executed = lines.read()
        assert "execve(" in executed and SECRET not in executed


def rewrote(sandbox):
    """What is said of one that was truncated and written anew: fanotify does not tell the first."""
    return "changed" if sandbox.backend == "fanotify" else "wrote"


class Unanswered:
    """A FUSE mount that nobody ever answers for."""

    def __init__(self, where):
        self.where, self.fd = where, os.open("/dev/fuse", os.O_RDWR)
        options = f"fd={self.fd},rootmode=40000,user_id=0,group_id=0,allow_other"
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.mount(b"hung", where.encode(), b"fuse.hung", 0, options.encode()):
            raise OSError(ctypes.get_errno(), "mount")

    def end(self):
        os.close(self.fd)  # who waits gets an error
        subprocess.run(["umount", "-l", self.where], check=True)


@pytest.mark.users("root")
@SHELLS
def test_c18_a_mount_that_hangs(sandbox, mounted, shell, kind):
    """shournal hangs at the start of every command."""
    sandbox.sh("mkdir below")
    beside = sandbox.mkdir(f"{sandbox.home}/beside")
    hung = []
    try:
        for where in beside, f"{sandbox.project}/below":
            hung.append(Unanswered(where))
        terminal = shell(kind)
        for n in range(3):
            assert terminal.run(f"echo {n} > f") == ""
        assert did(sandbox, the(sandbox, "echo 2 > f")) == {f"{rewrote(sandbox)} f@3"}
        for question in "log f", "why f", "history", "cat f@1", "restore f@1", "mount":
            sandbox.shfs(*question.split())
        for question in "status", "doctor":
            sandbox.shfs(question, check=False)
    finally:
        for mount in hung:
            mount.end()


@pytest.mark.alone  # all of this user would ask it
@pytest.mark.backends(without=["fanotify", "bpf-tracepoints"])  # what hangs is of FUSE
@pytest.mark.users("ordinary")
@SHELLS
def test_c18_a_mount_of_ours_that_hangs(sandbox, mounted, shell, kind):
    """shournal hangs at the start of every command."""
    sandbox.allow_exit(-signal.SIGKILL)
    hung = sandbox.mount(sandbox.mkdir(f"{sandbox.home}/hung"))
    os.kill(hung.process.pid, signal.SIGSTOP)
    try:
        terminal = shell(kind)
        for n in range(3):
            assert terminal.run(f"echo {n} > f") == ""
        if kind == "bash":  # the wait is bounded: this one gives up on the mount, and answers
            result = sandbox.shfs("log", "f")
            assert "does not answer" in result.stderr and "f@3" in result.stdout
    finally:
        os.kill(hung.process.pid, signal.SIGCONT)
    assert did(sandbox, the(sandbox, "echo 2 > f")) == {f"{rewrote(sandbox)} f@3"}


@pytest.mark.alone
@pytest.mark.users("ordinary")
@pytest.mark.timeout(240)
def test_c19_many_files_in_one_command(sandbox, mounted, shell):
    """shournal loses half of 20,000 files, and its summary looks normal."""
    n = 20000 if harness.ALL else 2500
    if harness.TSAN and sandbox.backend == "fanotify":
        n = min(n, 8000)  # the kernel holds 16,384 events for a reader that is late
    source = sandbox.mkdir(f"{sandbox.path}/source")
    for i in range(n):
        with open(f"{source}/{i}", "w", encoding="ascii") as out:
            out.write(f"{i}\n")
    line = f"cp -r {source} copy"
    shell().run(line, timeout=200)
    command = the(sandbox, line)
    expected = {f"wrote copy/{i}@1" for i in range(n)} | {"made copy"}
    assert command["lost"] == 0 and mounted.status()["lost"] == "0"
    assert list(did(sandbox, command) ^ expected)[:10] == []
    for i in 0, n // 2, n - 1:
        assert sandbox.shfs("cat", f"copy/{i}").stdout == f"{i}\n"


def cpu_seconds(sandbox, *args):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    sandbox.shfs(*args)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


@pytest.mark.users("ordinary")
def test_c20_many_reads_in_one_directory(sandbox, project, shell):
    """shournal's ingest is super-linear: 5 s."""
    sandbox.sh("mkdir d; seq 10000 17999 | (cd d; xargs touch)")
    sandbox.mount()
    terminal = shell()
    work = []
    for line, n in ("cat d/1[01]??? > /dev/null", 2000), ("cat d/1[2-7]??? > /dev/null", 6000):
        terminal.run(line)
        assert len(the(sandbox, line)["files"]) == n
        work.append(min(cpu_seconds(sandbox, "reindex") for _ in range(2)))
    assert work[1] < 8 * work[0], "linear is 4, quadratic 16"
    size = sandbox.sh('cd "$SHFS_STORE" && cat journal/*/* index.db | wc -c').stdout
    assert int(size) < 600 * 8000, "bytes an access, first sight of each file included"


# --- what its users complain about, and what else it does not do ---


@pytest.mark.users("ordinary")
@pytest.mark.parametrize(
    "before", ["HISTCONTROL=ignoreboth", "unset HISTSIZE", "unset HISTFILE HISTSIZE HISTCONTROL"]
)
def test_history_settings_stop_nothing(sandbox, mounted, shell, before):
    """shournal refuses Debian's default HISTCONTROL and an unset HISTSIZE: nothing is recorded, and
    nothing says so."""
    terminal = shell(before=before + "\n")
    assert "shfs" not in terminal.greeting
    for line in "echo 1 > a", "echo 1 > a", "cat a > b":
        terminal.run(line)
    assert [c["text"] for c in commands(sandbox, "--reverse")] == ["echo 1 > a", "echo 1 > a", "cat a > b"]
    assert contents(sandbox, "b") == [b"1\n"]


@pytest.mark.backends(without=["fanotify", "bpf-tracepoints"])  # all write a journal alike
@pytest.mark.users("ordinary")
def test_locked_store(sandbox, mounted, shell):
    """shournal needed six fixes for lock errors and deadlocks on NFS homes."""
    terminal = shell()
    terminal.run("echo 1 > f")
    sandbox.shfs("history")
    hold = """if True:
        import sqlite3, sys, time
        index = sqlite3.connect(sys.argv[1])
        index.execute("BEGIN EXCLUSIVE")
        print("held", flush=True)
        time.sleep(60)
    """
    argv = ["/usr/bin/python3", "-c", hold, f"{sandbox.store}/index.db"]
    holder = sandbox.popen(argv, stdout=subprocess.PIPE)
    try:
        holder.stdout.readline()
        for n in range(2, 5):  # no prompt, no file waits for it
            assert terminal.run(f"echo {n} > f") == ""
        answer = sandbox.shfs("log", "f")  # it does not wait for ever, and says what it is
        assert "f@1" in answer.stdout and "may not be up to date" in answer.stderr
    finally:
        holder.kill()
        holder.communicate()
    assert contents(sandbox, "f") == [b"1\n", b"2\n", b"3\n", b"4\n"]
    assert makers(sandbox, "f") == [f"echo {n} > f" for n in range(1, 5)]


@pytest.mark.users("root")
def test_hosts_share_a_store(sandbox, shfs, mounted, shell):
    """shournal's one database breaks where several hosts use it."""
    sandbox.allow_exit(0)
    there = sandbox.mkdir(f"{sandbox.home}/there")
    terminal = shell()
    terminal.run("echo here > f")
    terminal.run("unshare -u bash -c 'hostname elsewhere; exec bash -i'")
    terminal.run(f"shfs mount --backend={sandbox.backend} {there}; cd {there}")
    terminal.run("echo there > g; cat ../project/f >> g")
    terminal.run(f"cd /; shfs umount {there}")
    terminal.run("exit")
    terminal.run("cat f > h")
    by_host = {c["text"]: c["host"] for c in commands(sandbox)}
    here = os.uname().nodename
    assert by_host["echo here > f"] == by_host["cat f > h"] == here
    assert by_host["echo there > g; cat ../project/f >> g"] == "elsewhere"
    assert len(commands(sandbox, "--host", "elsewhere")) == 1
    for reindexed in False, True:
        log = ask(sandbox, "log", f"{there}/g")["versions"]
        # without FUSE what was changed again at once is not known to be what is found there then
        assert {v["command"]["host"] for v in log if sandbox.backend == "fuse" or v["source"] != "found"} == {"elsewhere"}
        assert sandbox.shfs("cat", f"{there}/g").stdout == "there\nhere\n"
        shfs("reindex")
    assert sorted(os.listdir(f"{sandbox.store}/journal")) == sorted(["elsewhere", here])


def test_files_that_changed_or_went_away(sandbox, mounted, shell):
    """shournal says "no results" for a file that was changed, a stack trace for a deleted one, and
    archives nothing that was written."""
    terminal = shell()
    for line in "echo 1 > changed; echo 1 > deleted", "sh -c 'echo 2 >> changed'", "rm deleted":
        terminal.run(line)
    sandbox.sh("echo 3 >> changed")  # by nobody's shell
    for name in "changed", "deleted":
        found = [c["text"] for c in commands(sandbox, "--wrote", name)]
        assert "echo 1 > changed; echo 1 > deleted" in found, name
        assert sandbox.shfs("cat", f"{name}@1").stdout == "1\n"
    assert [c and c[:4] for c in makers(sandbox, "changed")] == ["echo", "sh -", None]
    assert "deleted" in sandbox.shfs("log", "deleted").stdout.splitlines()[0]
    assert [c["text"] for c in commands(sandbox, "deleted")][0] == "rm deleted"


# --- PROBE ---


RAW = r"""
    #include <asm/unistd.h>
    static long call(long n, long a, long b, long c, long d)
    {
        register long r10 __asm__("r10") = d;
        __asm__ volatile("syscall" : "+a"(n) : "D"(a), "S"(b), "d"(c), "r"(r10) : "rcx", "r11", "memory");
        return n;
    }
    void _start(void)
    {
        char text[64];
        long in = call(__NR_openat, -100, (long)"in", 0, 0);
        long out = call(__NR_openat, -100, (long)"by-raw", 01101, 0644);
        long n = call(__NR_read, in, (long)text, sizeof(text), 0);
        call(__NR_write, out, (long)text, n, 0);
        call(__NR_exit_group, n <= 0, 0, 0, 0);
        __builtin_unreachable();
    }
"""
COPY = r"""
    #include <fcntl.h>
    #include <sys/syscall.h>
    #include <unistd.h>
    int main(int argc, char **argv)
    {
        char text[64];
        int in = syscall(SYS_open, "in", O_RDONLY);
        int out = syscall(SYS_open, argv[1], O_WRONLY | O_CREAT, 0666);
        long n = syscall(SYS_read, in, text, sizeof(text));
        return n <= 0 || syscall(SYS_write, out, text, n) != n;
    }
"""


@pytest.fixture
def probed(sandbox, project, shell):
    """Runs a line that copies `in` to a file, and sees that it is all recorded."""
    sandbox.sh("echo text > in; chmod 666 in; chmod 777 .")
    sandbox.mount(project, *(["--allow-other"] if sandbox.user.uid == 0 else []))

    def run(kind, line, name):
        assert shell(kind).run(line) == ""
        assert did(sandbox, the(sandbox, line)) >= {"read in@1", f"wrote {name}@1"}
        assert contents(sandbox, name) == [b"text\n"] and makers(sandbox, name) == [line]

    return run


@SHELLS
def test_probe_1_static_binary(sandbox, probed, kind):
    """PROBE does not record it at all."""
    program = sandbox.compile("static", COPY, "-static")
    probed(kind, f"{program} by-static", "by-static")


def test_probe_1_program_without_libc(sandbox, probed):
    """PROBE does not record it at all; Go's are such."""
    program = sandbox.compile("raw", RAW, "-static", "-nostdlib", "-fno-stack-protector")
    probed("bash", program, "by-raw")


@SHELLS
def test_probe_2_raw_system_call(sandbox, probed, kind):
    """PROBE does not record syscall(SYS_open)."""
    program = sandbox.compile("calls", COPY)
    probed(kind, f"{program} by-call", "by-call")


@SHELLS
def test_probe_3_empty_environment(sandbox, probed, kind):
    """PROBE hangs for ever."""
    probed(kind, "env -i cat in > by-cat", "by-cat")
    probed(kind, "env -i /bin/sh -c 'cat in > by-sh'", "by-sh")


@pytest.mark.users("root")
def test_probe_setuid_program(sandbox, probed):
    """The dynamic linker ignores LD_PRELOAD there, and so PROBE."""
    program = sandbox.compile("setuid", COPY)
    os.chown(program, harness.User("ordinary").uid, -1)
    os.chmod(program, 0o4755)
    probed("bash", f"{program} by-setuid", "by-setuid")
    assert sandbox.run("stat", "-c", "%U", "by-setuid").stdout.strip() == ORDINARY
