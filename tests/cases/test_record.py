# SPDX-License-Identifier: MIT
"""shfs record: one command, with every file of the machine that it uses."""

import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess

import pytest

from harness import wait_until
from test_capture import rows

pytestmark = [pytest.mark.users("ordinary"), pytest.mark.timeout(120)]


def record(sandbox, *argv, **options):
    options.setdefault("timeout", 60)
    return sandbox.shfs("record", "--", *argv, **options)


def recorded(sandbox, text):
    """{path: use} of the last command with this text, from show."""
    found = json.loads(sandbox.shfs("history", "--all", "--json", cwd="/").stdout)["commands"]
    command = [one for one in found if one["text"] == text][-1]
    shown = json.loads(sandbox.shfs("show", "--json", command["id"], cwd="/").stdout)
    return {use["path"]: use["use"] for use in shown["files"]}


def used(sandbox):
    command = json.loads(sandbox.shfs("history", "--all", "--json", cwd="/").stdout)["commands"][-1]["id"]
    return json.loads(sandbox.shfs("show", "--json", command, cwd="/").stdout)["files"]


def wait_for_the_end(sandbox):
    servers = "ps -u $(id -u) -o stat=,comm= | grep -v ^Z | grep shfs-fuse"
    wait_until(lambda: sandbox.sh(servers, check=False).status, "the mount to end")


@pytest.mark.users("ordinary", "root")
def test_files_of_the_whole_machine(sandbox, user):
    """Programs, libraries, configuration, data, results: without a mount, in any place."""
    data = sandbox.write_outside(f"{sandbox.home}/data/in", "b\na\n")
    record(sandbox, "sort", data, "-o", "out")
    assert sandbox.read("out") == b"a\nb\n"
    uses = recorded(sandbox, f"sort {data} -o out")
    assert uses[f"{sandbox.project}/out"] == "wrote" and uses[data] == "read"
    assert any(re.search(r"/libc\.so\.6$|/libc-", path) for path in uses), uses
    assert any(path.endswith("/bin/sort") for path in uses), uses
    why = sandbox.shfs("why", "out").stdout
    assert data.replace(sandbox.home, "~") in why and "libc" not in why
    shown = sandbox.shfs("history").stdout
    assert "/usr/lib (" in shown and "libc.so" not in shown and "1 not archived" in shown
    assert sandbox.sh("id -u").stdout == record(sandbox, "id", "-u").stdout == f"{user.uid}\n"
    assert not os.listdir(f"{sandbox.store}/record")


@pytest.mark.users("ordinary", "root")
def test_as_without(sandbox):
    """Status, signals, streams, environment and permissions are as without it."""
    lines = {
        "exit 7": 7, "kill -9 $$": 137, "no-such-program": 127, "cat /no/such": 1, "cat": 0,
        "echo a; echo b >&2; pwd; umask; ulimit -n; nice; tty": 1,
        "touch /etc/shfs-test-new; echo x > /usr/shfs-test-new; rm /etc/hostname.no; id": 0,
        "test -w /etc/passwd; echo $?; test -x /bin/sh; echo $?; test -r /etc/shadow; echo $?": 0,
        "echo x > f; chmod 000 f; cat f; echo $?; chmod 400 f; echo y > f; cat f; rm -f f": 0,
        "mkdir d; echo > d/f; chmod 500 d; rm d/f; chmod 100 d; ls d; cat d/f; chmod 700 d; rm -r d": 0,
        "T=$(mktemp) && echo x > $T && cat $T && rm $T; ls -d /tmp": 0,
        "ln -s /etc/hostname l; cat l | wc -l; readlink l; rm l; ls -l /proc/self/exe | wc -l": 0,
        "mkfifo p; (echo through > p &) ; cat p; rm p; echo x > /dev/null; head -c 3 /dev/zero | wc -c": 0,
        "stat -c %A,%s,%Y,%h /etc/passwd /usr/bin /bin/sh": 0,
        "readlink -f /bin/sh; df . > /dev/null && echo ok; cp /etc/hostname h && cmp h /etc/hostname; rm h": 0,
    }
    if sandbox.user.uid == 0:
        lines = {line: status for line, status in lines.items() if "/etc/shfs-test" not in line}
    for line, status in lines.items():
        plain = sandbox.run("sh", "-c", line, input="given\n", check=False)
        found = record(sandbox, "sh", "-c", line, input="given\n", check=False)
        ended = 128 - plain.status if plain.status < 0 else plain.status  # by a signal
        assert (found.status, found.stdout) == (ended, plain.stdout), line
        assert [l.split(": ", 1)[-1] for l in found.stderr.splitlines()] == [l.split(": ", 1)[-1] for l in plain.stderr.splitlines()]


def test_others_replace_what_it_has_looked_up(sandbox):
    """It is seen within a second: at the begin no directory is marked, then they are."""
    names = sandbox.mkdir(f"{sandbox.home}/shared")
    sandbox.write_outside(f"{names}/f", "old\n")
    show = "cat f; stat -c %s f; echo > ../"
    script = show + "up; " + "; ".join(f"while [ ! -e ../n{n} ]; do sleep .05; done; sleep 1; {show}did{n}" for n in (1, 2))
    with sandbox.popen(["shfs", "record", "sh", "-c", script], cwd=names, stdout=subprocess.PIPE, text=True) as recorded_command:
        wait_until(lambda: os.path.exists(f"{sandbox.home}/up"), "the command to begin")
        for n in 1, 2:
            sandbox.sh(f"seq {100 * n} > ../new; mv ../new f; echo {n} > ../n{n}", cwd=names)
            wait_until(lambda: os.path.exists(f"{sandbox.home}/did{n}"), "the command to look again")
        found = recorded_command.stdout.read()
    assert found == "old\n4\n" + "".join("".join(f"{i}\n" for i in range(1, n + 1)) + f"{size}\n" for n, size in ((100, 292), (200, 692))), found


def test_own_files_are_not_buried(sandbox):
    """What a command reads of the system is summed up, and its directory's files come first."""
    beside = sandbox.mkdir(f"{sandbox.home}/beside")
    names = [sandbox.write_outside(f"{beside}/{n}", "x\n") for n in range(30)]
    sandbox.write("in", "y\n")
    sandbox.shfs("record", "sh", "-c", f"cat {' '.join(names)} in > out; python3 -c 'import json'")
    shown = sandbox.shfs("history").stdout
    assert "read     in@1" in shown and shown.count("\n") <= 12, shown
    shown, full = (sandbox.shfs("show", *options, "out").stdout for options in ([], ["--full"]))
    assert re.search(r"\nread\n +in@1 ", shown) and all(name.replace(sandbox.home, "~") + "@1" in shown for name in names)
    assert re.search(r"also read\n +\d+ files \(--full lists them\)", shown) and "libc.so" not in shown
    assert "libc.so" in full and "lists them" not in full.partition("also read")[2].partition("looked up")[0]


def test_streams_that_are_files(sandbox):
    """The shell's redirections are of the tree outside: their files are recorded all the same, and go on."""
    sandbox.write("in", "1\n2\n3\n")
    sandbox.sh("{ shfs record head -c 2; cat; } < in > out1; shfs record sort -r < in > out2; shfs record ls /no/such 2> err;"
               "{ echo a; shfs record echo b; echo c; shfs record cat in; } > out3; shfs record echo more >> out3", check=False, timeout=90)
    assert sandbox.read("out3") == b"a\nb\nc\n1\n2\n3\nmore\n" and sandbox.read("out2") == b"3\n2\n1\n"
    assert sandbox.read("out1") == b"1\n2\n3\n" and b"/no/such" in sandbox.read("err")
    uses = recorded(sandbox, "sort -r")
    assert uses[f"{sandbox.project}/in"] == "read" and uses[f"{sandbox.project}/out2"] in ("wrote", "changed")


def test_streams_that_are_shared(sandbox):
    """Whoever writes through the caller's open file writes behind the others: nothing is overwritten."""
    say = "shfs record sh -c 'for i in 1 2 3; do echo said; sleep 0.1; done'"
    sandbox.sh("shfs record sh -c 'echo a; echo b >&2; echo c' > both 2>&1; (" + f"{say} & " * 3 + "echo said; wait; echo said) > many;"
               "{ shfs record sh -c '(sleep 2; echo late) & echo begun'; echo next; sleep 4; echo last; } > left;"
               "shfs record cat < in > copy; touch -d 2020-01-01 old; shfs record true >> old", check=False, timeout=90)
    assert sandbox.read("both") == b"a\nb\nc\n" and sandbox.read("many") == b"said\n" * 11
    assert sandbox.read("left") == b"begun\nnext\nlate\nlast\n"
    assert sandbox.sh("stat -c %y old").stdout.startswith("2020-01-01")
    both = json.loads(sandbox.shfs("log", "both", "--json").stdout)["versions"]
    assert any("echo b" in version["command"]["text"] and version["size"] == 6 for version in both if version.get("command")), both


def fingerprint(sandbox, name, cwd):
    path = os.path.normpath(os.path.join(cwd, name))
    return int(rows(sandbox, f"SELECT phash FROM v_version WHERE path = '{path}'")[0][0])


def test_bundle(sandbox):
    """With --bundle all that is read is archived, but for secrets and what a project ignores."""
    project = sandbox.mkdir(f"{sandbox.home}/known")
    sandbox.shfs("mount", project)
    sandbox.shfs("umount", project, cwd="/")
    sandbox.sh("echo 'big' > .shfsignore; echo big > big; echo data > raw.csv; mkdir ../data ../.ssh; echo more > ../data/d.bin;"
               "echo unspeakable > ../.ssh/id_ed25519; head -c 20000000 /dev/urandom > ../data/large", cwd=project)
    line = "cat raw.csv big ../data/d.bin ../data/large ../.ssh/id_ed25519 | wc -c"
    sandbox.shfs("record", "--bundle", "--", "sh", "-c", line, cwd=project, timeout=60)
    kept = {use["path"]: use for use in used(sandbox) if use["use"] == "read"}
    secret, = json.loads(sandbox.shfs("log", "--json", "../.ssh/id_ed25519", cwd=project).stdout)["versions"]
    assert not secret["object"] and secret["not_archived"]
    libc, = [path for path in kept if re.search(r"/libc\.so\.6$", path)]
    for path in libc, f"{project}/raw.csv", f"{sandbox.home}/data/d.bin", f"{sandbox.home}/data/large", shutil.which("wc"):
        assert sandbox.run("sh", "-c", 'shfs cat "$1@1" | cmp - "$1"', "sh", os.path.realpath(path), timeout=60, check=False).status == 0, path
    assert sandbox.shfs("cat", f"{project}/big@1", check=False).status != 0


def test_contents(sandbox):
    """They are archived in projects that are known, by their rules; secrets nowhere."""
    project = sandbox.mkdir(f"{sandbox.home}/known")
    mount = sandbox.shfs("mount", project)
    assert mount.status == 0
    sandbox.shfs("umount", project, cwd="/")
    sandbox.sh("printf 'big\\n' > .shfsignore; mkdir ../other ../.ssh; echo key > ../.ssh/id_ed25519", cwd=project)
    line = "echo one > small; echo two > big; echo three > ../other/f; cat ../.ssh/id_ed25519 > /dev/null; echo four > small"
    record(sandbox, "sh", "-c", line, cwd=project)
    assert sandbox.shfs("cat", "small@1", cwd=project).stdout == "one\n" and sandbox.shfs("cat", "small", cwd=project).stdout == "four\n"
    log = lambda name: json.loads(sandbox.shfs("log", "--json", name, cwd=project).stdout)["versions"]
    assert not log("big")[0]["object"] and not log("../other/f")[0]["object"]
    secret, = log("../.ssh/id_ed25519")
    assert not secret["object"] and fingerprint(sandbox, "../.ssh/id_ed25519", project) == 0 != fingerprint(sandbox, "../other/f", project)
    assert sandbox.sh("grep -rl key $SHFS_STORE/objects $SHFS_STORE/packs 2>/dev/null | wc -l").stdout == "0\n"


def test_a_mounted_project_records_itself(sandbox, mounted):
    sandbox.write("in", "x\n")
    record(sandbox, "sh", "-c", "cat in > out; cat /etc/hostname >> out")
    uses = recorded(sandbox, "sh -c 'cat in > out; cat /etc/hostname >> out'")
    assert uses[f"{sandbox.project}/out"] == "wrote" and uses[f"{sandbox.project}/in"] == "read" and uses["/etc/hostname"] == "read"
    assert sandbox.shfs("cat", "out@1").stdout.startswith("x\n")
    assert "shfs-fuse" not in sandbox.shfs("why", "out").stdout


def test_in_the_background(sandbox):
    """What the command leaves goes on, and is recorded until its end; the mount ends with it."""
    record(sandbox, "sh", "-c", "(sleep 1; echo late > late) > /dev/null 2>&1 & echo begun")
    wait_until(lambda: sandbox.sh("cat late", check=False).stdout == "late\n", "the background job")
    wait_for_the_end(sandbox)
    found = json.loads(sandbox.shfs("log", "late", "--json").stdout)["versions"]
    assert "echo late > late" in found[0]["command"]["text"]


def test_within(sandbox, mounted):
    """Programs that make namespaces, static ones, other sessions, an empty environment, and itself."""
    sandbox.write("in", "x\n")
    static = sandbox.compile("static", "#include <fcntl.h>\n#include <unistd.h>\n"
                             "int main(int n, char **v) { char c; int f = open(v[1], 0); return read(f, &c, 1) != 1; }", "-static")
    data = sandbox.write_outside(f"{sandbox.home}/data/in", "b\n")
    lines = {
        f"{static} {data}": data,
        f"unshare -Urm sh -c 'cat {data}'": data,
        f"env -i /bin/cat {data}": data,
        f"setsid -w cat {data}": data,
        f"shfs record cat {data}": data,
    }
    if shutil.which("bwrap"):
        lines[f"bwrap --ro-bind / / --dev /dev --proc /proc cat {data}"] = data
    for line, path in lines.items():
        found = record(sandbox, "sh", "-c", line, check=False)
        assert found.status == 0, (line, found)
        text = f"cat {data}" if "shfs record" in line else "sh -c " + sandbox.sh('printf %s "$1"', line).stdout
        all_uses = [use["path"] for one in json.loads(sandbox.shfs("history", "--json", "-n", "2").stdout)["commands"] for use in one["files"]]
        assert path in all_uses, (line, text, all_uses)


def test_beside_strace(sandbox):
    """No file that a command opens is missed."""
    if not shutil.which("strace"):
        pytest.skip("needs strace")
    sandbox.write("a.c", '#include <stdio.h>\n#include "a.h"\nint main(void) { puts(A); }\n')
    sandbox.write("a.h", '#define A "a"\n')
    sandbox.write("Makefile", "all: a\n\t./a > out\na: a.c a.h\n\tcc -o a a.c\n")
    for line in ("make -j3", "python3 -c 'import json, email.message; print(json.dumps(1))'", "perl -MPOSIX -e 'print floor(2.5)'",
                 "bash -c 'sort /etc/services | head -3 | awk \"{print \\$1}\"'"):
        sandbox.sh("rm -f a out a.o")
        sandbox.run("strace", "-f", "-qq", "-y", "-etrace=open,openat,execve", "-o../trace", "sh", "-c", line, timeout=90)
        sandbox.sh("rm -f a out a.o")
        record(sandbox, "sh", "-c", line)
        shown = json.loads(sandbox.shfs("history", "--json", "-n", "1").stdout)["commands"][0]
        uses = json.loads(sandbox.shfs("show", "--json", shown["id"]).stdout)["files"]
        found = {os.path.realpath(use["path"]) for use in uses}
        trace = sandbox.sh("cat ../trace").stdout
        opened = set(re.findall(r"= \d+<([^>]+)>", trace))
        ours = re.compile(r"^/(proc|sys|dev|run)/|^/tmp/cc|^/tmp/sh|\(deleted\)$|^pipe:|/trace$")
        missed = {path for path in opened if not ours.search(path) and not os.path.isdir(path) and os.path.realpath(path) not in found}
        assert not missed, (line, missed)


def test_signals_and_jobs(sandbox, shell):
    """^C reaches the command, ^Z stops it, fg goes on: as without."""
    work = shell()
    runs = lambda: sandbox.sh("pgrep -u $(id -u) -x sleep", check=False).status == 0
    work.send("shfs record sh -c 'trap \"echo caught; exit 5\" INT; echo ready; sleep 60'\r")
    work.wait_for_job("shfs")
    wait_until(runs, "the command")
    work.send("\x03")
    assert "caught" in work.wait()
    assert work.run("echo $?").endswith("5")
    wait_until(lambda: not runs(), "the command to end")
    work.send("shfs record sleep 60\r")
    work.wait_for_job("shfs")
    wait_until(runs, "the command")
    work.send("\x1a")
    assert "Stopped" in work.wait()
    work.send("fg\r")
    work.wait_for_job("shfs")
    work.send("\x03")
    work.wait()
    assert work.run("echo =$?").endswith("=130")
    wait_until(lambda: not runs(), "the command to end")


def test_killed(sandbox):
    """The command goes on when who waits for it is killed; its record ends with it."""
    process = sandbox.popen(["shfs", "record", "sh", "-c", "sleep 2; echo done > out"], stdout=subprocess.DEVNULL)
    wait_until(lambda: sandbox.sh("pgrep -u $(id -u) -x sleep", check=False).status == 0, "the command")
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    wait_until(lambda: sandbox.sh("cat out", check=False).stdout == "done\n", "the command to go on")
    wait_for_the_end(sandbox)
    assert json.loads(sandbox.shfs("log", "out", "--json").stdout)["versions"]


def test_interrupted_at_the_start(sandbox):
    """Whenever the signal comes: neither server nor directory stays."""
    for n in range(12):
        for name in "INT", "TERM", "QUIT":
            sandbox.run("timeout", "-s", name, str(0.02 + n * 0.03), "shfs", "record", "sleep", "0.3", check=False)
    wait_for_the_end(sandbox)
    assert not sandbox.sh("ls -A $SHFS_STORE/record 2>/dev/null", check=False).stdout


def test_caller_that_ignores_its_children(sandbox):
    for command in "record", "run":
        line = f"env --ignore-signal=CHLD shfs {command} sh -c 'cat /proc/$$/status > status; exit 3'"
        assert sandbox.sh(line, check=False).status == 3
    assert sandbox.sh("env --ignore-signal=CHLD shfs record cat /proc/self/status | grep SigIgn").stdout.endswith("10000\n")


def test_no_zombies(sandbox):
    """What the command leaves and what ends before the command is waited for."""
    line = "for i in 1 2 3 4 5 6 7 8 9; do (sleep 0.01 &); done; sleep 1; ps -u $(id -u) -o stat= | grep -c Z"
    assert record(sandbox, "sh", "-c", line, check=False).stdout == "0\n"


def test_what_the_caller_cannot_use(sandbox):
    """A working directory, a socket, a project, a mount: the command runs all the same."""
    for line in ("mkdir d; cd d; rmdir ../d; RECORD echo ran", "D=$PWD/d; mkdir d; cd d; chmod 0 .; RECORD echo ran; chmod 700 $D; rmdir $D",
                 "SSH_AUTH_SOCK=/etc/hostname/x RECORD echo ran", "chmod 0 ../closed; SSH_AUTH_SOCK=$(realpath ..)/closed/x RECORD echo ran"):
        sandbox.sh("mkdir -p ../closed")
        assert sandbox.sh(line.replace("RECORD", "shfs record")).stdout == "ran\n", line
    sandbox.write("in", "x\n")
    record(sandbox, "cat", "in", env={"SSH_AUTH_SOCK": "/"})
    assert recorded(sandbox, "cat in")[f"{sandbox.project}/in"] == "read"
    project = sandbox.mkdir(f"{sandbox.home}/known")
    sandbox.shfs("mount", project)
    sandbox.shfs("umount", project, cwd="/")
    sandbox.sh(f"rmdir {project}; printf '#!/bin/sh\\n' > {project}; chmod +x {project}")
    assert record(sandbox, "echo", "ran").stdout == "ran\n"


def test_more_projects_than_open_files(sandbox):
    project = sandbox.mkdir(f"{sandbox.home}/known")
    sandbox.shfs("mount", project)
    sandbox.shfs("umount", project, cwd="/")
    sandbox.sh("i=0; while [ $i -lt 400 ]; do mkdir -p ~/many/$i; echo known $HOME/many/$i; i=$((i + 1)); done >> $SHFS_STORE/projects")
    sandbox.sh("ulimit -n 256; shfs record sh -c 'echo kept > f'", cwd=f"{sandbox.home}/many/399")
    assert sandbox.shfs("cat", "f@1", cwd=f"{sandbox.home}/many/399").stdout == "kept\n"


def test_within_with_another_store(sandbox):
    """Of a record within, too, the store is the one that it names."""
    record(sandbox, "shfs", "--store", f"{sandbox.home}/other", "record", "echo", "within")
    assert "echo within" in sandbox.shfs("--store", f"{sandbox.home}/other", "history", "--all", cwd="/").stdout


def test_who_may_execute(sandbox):
    """That others may execute a file is not enough."""
    program = sandbox.write_outside(f"{sandbox.home}/program", "#!/bin/sh\necho ran\n")
    sandbox.sh(f"chmod 654 {program}")
    plain, found = sandbox.run("sh", "-c", program, check=False), record(sandbox, "sh", "-c", program, check=False)
    assert plain.status == found.status == 126, (plain, found)


def test_sockets_of_the_session(sandbox):
    """That of ssh's agent is the one outside."""
    serve = "import socket; s = socket.socket(socket.AF_UNIX); s.bind('../agent'); s.listen(); s.accept()[0].send(b'keys')"
    with sandbox.popen(["python3", "-c", serve]) as server:
        wait_until(lambda: sandbox.sh("test -S ../agent", check=False).status == 0, "the agent")
        ask = "import os, socket; s = socket.socket(socket.AF_UNIX); s.connect(os.environ['SSH_AUTH_SOCK']); print(s.recv(9))"
        agent = os.path.join(os.path.dirname(sandbox.project), "agent")
        assert record(sandbox, "python3", "-c", ask, env={"SSH_AUTH_SOCK": agent}).stdout == "b'keys'\n"
        server.wait()


def test_said(sandbox):
    """Where it cannot work, in a word."""
    assert "sudo gets no privileges here" in record(sandbox, "sudo", "-n", "true", check=False).stderr
    assert sandbox.shfs("record", check=2).stderr
    forbidden = "echo 0 > /proc/sys/user/max_user_namespaces; shfs record echo ran"
    done = sandbox.run("unshare", "--map-current-user", "--keep-caps", "sh", "-c", forbidden, check=False)
    assert done.status and "user namespaces may be forbidden here" in done.stderr and not done.stdout, done
