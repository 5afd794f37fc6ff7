# SPDX-License-Identifier: MIT
"""shfs record --by helper: one command, with every file of the machine, without namespaces."""

import json
import os
import random
import re
import shutil
import signal
import subprocess

import pytest

from harness import Helper, seeds, wait_until
from test_capture import rows
from test_record import fingerprint, recorded
from watching import refusal

# alone: the recorder hears of all processes of its user, also those of other cases
pytestmark = [pytest.mark.users("ordinary"), pytest.mark.alone, pytest.mark.timeout(120)]
BY = "shfs record --by helper"


@pytest.fixture(autouse=True)
def _helped(request, sandbox):
    if os.geteuid() != 0:
        pytest.skip("needs root")
    if refusal("bpf-tracepoints"):
        pytest.skip(refusal("bpf-tracepoints"))
    sandbox.env["SHFS_HELPER"] = request.getfixturevalue("helper").socket
    sandbox.allow_exit(5)  # shfs mount tries drivers that this kernel may not offer


def record(sandbox, *argv, **options):
    options.setdefault("timeout", 60)
    return sandbox.shfs("record", "--by", "helper", "--", *argv, **options)


def wait_for_the_end(sandbox):
    recorders = "ps -u $(id -u) -o stat=,comm= | grep -v ^Z | grep shfs-watch"
    wait_until(lambda: sandbox.sh(recorders, check=False).status, "the recording to end")


def known_project(sandbox, name="known"):
    project = sandbox.mkdir(f"{sandbox.home}/{name}")
    sandbox.shfs("mount", project)
    sandbox.shfs("umount", project, cwd="/")
    return project


def paths(sandbox):
    return {path for path, in rows(sandbox, "SELECT DISTINCT path FROM v_version")}


@pytest.mark.users("ordinary", "root")
def test_files_of_the_whole_machine(sandbox, user):
    """Programs, libraries, configuration, data, results: without a mount, in any place."""
    data = sandbox.write_outside(f"{sandbox.home}/data/in", "b\na\n")
    assert record(sandbox, "sort", data, "-o", "out").stderr == ""
    assert sandbox.read("out") == b"a\nb\n"
    uses = recorded(sandbox, f"sort {data} -o out")
    assert uses[f"{sandbox.project}/out"] == "wrote" and uses[data] == "read"
    for name in r"/libc\.so\.6$", r"/ld-linux[^/]*$", r"/bin/sort$":
        assert any(re.search(name, path) for path in uses), (name, uses)
    why = sandbox.shfs("why", "out").stdout
    assert data.replace(sandbox.home, "~") in why and "libc" not in why
    assert sandbox.sh("id -u").stdout == record(sandbox, "id", "-u").stdout == f"{user.uid}\n"


@pytest.mark.users("ordinary", "root")
def test_as_without(sandbox):
    """Status, signals, streams, environment and namespaces are as without it."""
    lines = ["exit 7", "kill -9 $$", "kill -TERM $$", "no-such-program", "cat /no/such", "cat",
             "echo a; echo b >&2; pwd; umask; ulimit -n; nice; tty", "readlink /proc/self/ns/*",
             "mkfifo p; (echo through > p &) ; cat p; rm p; head -c 3 /dev/zero | wc -c", "stat -c %d:%i,%h /etc/passwd /usr/bin"]
    for line in lines:
        plain = sandbox.run("sh", "-c", line, input="given\n", check=False)
        found = record(sandbox, "sh", "-c", line, input="given\n", check=False)
        ended = 128 - plain.status if plain.status == -9 else plain.status
        assert (found.status, found.stdout, found.stderr) == (ended, plain.stdout, plain.stderr), line
    assert record(sandbox, "no-such-program", check=False).status == 127
    assert record(sandbox, "/etc/passwd", check=False).status == 126


def test_beside_strace(sandbox):
    """No file that a command opens is missed."""
    if not shutil.which("strace"):
        pytest.skip("needs strace")
    data = sandbox.write_outside(f"{sandbox.home}/data/in", "b\na\n")
    sandbox.write("a.c", '#include <stdio.h>\n#include "a.h"\nint main(void) { puts(A); }\n')
    sandbox.write("a.h", '#define A "a"\n')
    sandbox.write("Makefile", "all: a b\n\t./a > out\na b: a.c a.h\n\tcc -o $@ a.c\n")
    sandbox.sh("printf '#!/usr/bin/env python3\\nprint(1)\\n' > s; chmod +x s")
    for line in (f"sort {data} -o sorted", "python3 -c 'import json, email.message; print(json.dumps(1))'", "make -j3",
                 "bash -c 'sort /etc/services | head -3 | awk \"{print \\$1}\"'", "./s; cp s t; mv t u; rm u"):
        sandbox.sh("rm -f a b out sorted")
        sandbox.run("strace", "-f", "-qq", "-y", "-etrace=open,openat,execve", "-o../trace", "sh", "-c", line, timeout=90)
        sandbox.sh("rm -f a b out sorted")
        record(sandbox, "sh", "-c", line)
        shown = json.loads(sandbox.shfs("history", "--json", "-n", "1").stdout)["commands"][0]
        uses = json.loads(sandbox.shfs("show", "--json", shown["id"]).stdout)["files"]
        found = {os.path.realpath(use["path"]) for use in uses}
        trace = sandbox.sh("cat ../trace").stdout
        opened = set(re.findall(r"= \d+<([^>]+)>", trace))
        opened |= {os.path.realpath(os.path.join(sandbox.project, path)) for path in re.findall(r'execve\("([^"]+)".*= 0$', trace, re.M)}
        ours = re.compile(r"^/(proc|sys|dev|run)/|/tmp/cc[^/]*$|/tmp/sh|\(deleted\)$|^pipe:|/trace$")
        missed = {path for path in opened if not ours.search(path) and not os.path.isdir(path) and os.path.realpath(path) not in found}
        assert len(opened) > 10 and not missed, (line, missed)


def test_strangers(sandbox):
    """What the same user does meanwhile is not recorded: neither files nor names nor writes to what the command wrote."""
    meddle = "while :; do echo x > ../strange; cat ../strange > ../other; mkdir ../sd; rmdir ../sd; mv ../other ../third; done"
    with sandbox.popen(["sh", "-c", meddle]) as stranger:
        record(sandbox, "sh", "-c", "for i in 1 2 3 4 5 6 7 8; do cat /etc/hostname > mine$i; sleep 0.1; done; cat /proc/self/status /sys/kernel/mm/ksm/run > /dev/null")
        os.killpg(stranger.pid, signal.SIGKILL)
    found = paths(sandbox)
    assert {f"{sandbox.project}/mine{i}" for i in range(1, 9)} <= found and "/etc/hostname" in found
    assert not {path for path in found if re.search("strange|other|third|/sd|^/(proc|sys|dev|run)/", path)}
    assert not rows(sandbox, "SELECT path FROM v_access WHERE path LIKE '%/sd' OR path LIKE '%strange' OR path2 LIKE '%third'")


def test_short_commands(sandbox):
    """A command that ends at once is complete; also each of many at the same time."""
    static = sandbox.compile("static", "#include <fcntl.h>\n#include <unistd.h>\n"
                             "int main(int n, char **v) { int f = open(v[1], O_CREAT | O_WRONLY, 0644); return write(f, \"x\", 1) != 1; }", "-static")
    for i in range(5):
        record(sandbox, static, f"f{i}")
        assert recorded(sandbox, f"{static} f{i}") == {static: "read", f"{sandbox.project}/f{i}": "wrote"}
    sandbox.sh("for i in 1 2 3 4 5; do " + BY + " sh -c \"echo $i > g$i\" & done; wait", timeout=90)
    for i in range(1, 6):
        version, = json.loads(sandbox.shfs("log", f"g{i}", "--json").stdout)["versions"]
        assert version["command"]["text"] == f"sh -c 'echo {i} > g{i}'"
    wait_for_the_end(sandbox)


def test_names(sandbox):
    """Renames, links, removals and directories are recorded, as in a mount."""
    record(sandbox, "sh", "-c", "mkdir d; echo one > d/a; mv d/a d/b; ln d/b d/c; ln -s b d/l; chmod 600 d/c; rm d/b; mv d e; echo two > e/n; rm -r e/l")
    found = paths(sandbox)
    assert {f"{sandbox.project}/{name}" for name in ("d/a", "d/b", "d/c", "e/c", "e/n")} <= found, found
    log = json.loads(sandbox.shfs("log", "e/c", "--json").stdout)["versions"]
    assert log and log[0]["size"] == 4


def test_streams_that_are_files(sandbox):
    """Their files are open in the caller, too: they are recorded all the same, and nothing in them changes."""
    sandbox.write("in", "1\n2\n3\n")
    sandbox.sh(f"{{ {BY} head -c 2; cat; }} < in > out1; {BY} sort -r < in > out2; {BY} ls /no/such 2> err;"
               f"{{ echo a; {BY} echo b; echo c; {BY} cat in; }} > out3; {BY} echo more >> out3", check=False, timeout=90)
    assert sandbox.read("out3") == b"a\nb\nc\n1\n2\n3\nmore\n" and sandbox.read("out2") == b"3\n2\n1\n"
    assert b"/no/such" in sandbox.read("err")
    uses = recorded(sandbox, "sort -r")
    assert uses[f"{sandbox.project}/in"] == "read" and uses[f"{sandbox.project}/out2"] in ("wrote", "changed")
    for text in "echo b", "echo more":
        assert recorded(sandbox, text)[f"{sandbox.project}/out3"] in ("wrote", "changed")
    last = json.loads(sandbox.shfs("log", "out2", "--json").stdout)["versions"][0]
    assert last["size"] == 6 and fingerprint(sandbox, "out2", sandbox.project)


def test_contents(sandbox):
    """They are archived in projects that are known, by their rules; secrets nowhere. What is not used is not looked at."""
    project = known_project(sandbox)
    sandbox.sh("printf 'big\\n' > .shfsignore; mkdir ../other ../.ssh; echo key > ../.ssh/id_ed25519; echo 'echo no' > idle.sh; echo s=1 > idle.ini", cwd=project)
    line = "echo one > small; sleep 0.2; echo two > big; echo three > ../other/f; cat ../.ssh/id_ed25519 > ../.ssh/id_rsa; echo four > small"
    record(sandbox, "sh", "-c", line, cwd=project)
    assert sandbox.shfs("cat", "small@1", cwd=project).stdout == "one\n" and sandbox.shfs("cat", "small", cwd=project).stdout == "four\n"
    log = lambda name: json.loads(sandbox.shfs("log", "--json", name, cwd=project).stdout)["versions"]
    assert not log("big")[0]["object"] and not log("../other/f")[0]["object"]
    for name in "../.ssh/id_ed25519", "../.ssh/id_rsa":
        secret, = log(name)
        assert not secret["object"] and fingerprint(sandbox, name, project) == 0 != fingerprint(sandbox, "../other/f", project)
    assert sandbox.sh("grep -rl key $SHFS_STORE/objects $SHFS_STORE/packs 2>/dev/null | wc -l").stdout == "0\n"
    assert not {path for path in paths(sandbox) if "idle" in path}
    walks = "for pid in $(pgrep -u $(id -u) shfs-watch); do cat /proc/$pid/task/*/comm; done | sort -u"
    assert "baseline" not in (threads := record(sandbox, "sh", "-c", walks).stdout) and "shfs-watch" in threads


@pytest.mark.parametrize("backend", ["fuse", "bpf-tracepoints"])
def test_recorded_already(sandbox, backend):
    """A project that is mounted or watched goes on recording itself; nothing is there twice."""
    project = sandbox.mkdir(f"{sandbox.home}/known")
    sandbox.shfs("mount", f"--backend={backend}", project)
    line = f"echo one > {project}/in; cat {project}/in > out; mv out {project}/moved"
    record(sandbox, "sh", "-c", line)
    sandbox.shfs("umount", project, cwd="/")
    version, = json.loads(sandbox.shfs("log", f"{project}/in", "--json").stdout)["versions"]
    assert version["object"] and "echo one" in version["command"]["text"]
    reads = rows(sandbox, f"SELECT count(*) FROM v_access WHERE path = '{project}/in' AND process_id IS NOT NULL")
    assert reads == [(2,)], reads
    assert f"{sandbox.project}/out" in paths(sandbox)


def test_left_in_the_background(sandbox):
    """What the command leaves goes on, and is recorded until its end; also of one that was killed."""
    record(sandbox, "sh", "-c", "(sleep 1; echo late > late) > /dev/null 2>&1 & setsid sh -c 'sleep 1; echo later > later' > /dev/null 2>&1 & true")
    wait_for_the_end(sandbox)
    process = sandbox.popen([*BY.split(), "sh", "-c", "sleep 2; echo done > out"], stdout=subprocess.DEVNULL)
    wait_until(lambda: sandbox.sh("pgrep -u $(id -u) -x sleep", check=False).status == 0, "the command")
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    wait_until(lambda: sandbox.sh("cat out", check=False).stdout == "done\n", "the command to go on")
    wait_for_the_end(sandbox)
    for name in "late", "later", "out":
        version, = json.loads(sandbox.shfs("log", name, "--json").stdout)["versions"]
        assert f"{'done' if name == 'out' else name} > {name}" in version["command"]["text"]
    record(sandbox, "sh", "-c", "sleep 2 > /dev/null 2>&1 & echo now > now")
    assert json.loads(sandbox.shfs("log", "now", "--json").stdout)["versions"]
    wait_for_the_end(sandbox)


def test_interrupted_at_the_start(sandbox):
    """Whenever the signal comes: no recorder stays."""
    sandbox.allow_exit(-signal.SIGINT, -signal.SIGTERM, 1, 6)
    for n in range(10):
        for name in "INT", "TERM":
            sandbox.run("timeout", "-s", name, str(0.02 + n * 0.06), *BY.split(), "sleep", "0.3", check=False)
    wait_for_the_end(sandbox)


def test_signals_and_jobs(sandbox, shell):
    """^C reaches the command, ^Z stops it, fg goes on: as without."""
    work = shell()
    runs = lambda: sandbox.sh("pgrep -u $(id -u) -x sleep", check=False).status == 0
    work.send(BY + " sh -c 'trap \"echo caught; exit 5\" INT; echo ready; sleep 60'\r")
    work.wait_for_job("shfs")
    wait_until(runs, "the command")
    work.send("\x03")
    assert "caught" in work.wait()
    assert work.run("echo $?").endswith("5")
    wait_until(lambda: not runs(), "the command to end")
    work.send(BY + " sleep 60\r")
    work.wait_for_job("shfs")
    wait_until(runs, "the command")
    work.send("\x1a")
    assert "Stopped" in work.wait()
    work.send("fg\r")
    work.wait_for_job("shfs")
    work.send("\x03")
    work.wait()
    assert work.run("echo =$?").endswith("=130")
    wait_for_the_end(sandbox)


def test_within(sandbox):
    """Programs that make namespaces, an empty environment, other sessions, and itself: all is recorded once."""
    data = sandbox.write_outside(f"{sandbox.home}/data/in", "b\n")
    for line in f"unshare -Urm cat {data}", f"env -i /bin/cat {data}", f"setsid -w cat {data}", f"{BY} cat {data}", f"shfs record cat {data}":
        before = rows(sandbox, f"SELECT count(*) FROM v_access WHERE path = '{data}'")[0][0] if os.path.exists(f"{sandbox.store}/journal") else 0
        assert record(sandbox, "sh", "-c", line).stdout == "b\n", line
        assert rows(sandbox, f"SELECT count(*) FROM v_access WHERE path = '{data}'") == [(before + 1,)], line


def test_said(sandbox):
    """Where it cannot work, in a word."""
    none = {"SHFS_HELPER": f"{sandbox.home}/none.sock"}
    done = record(sandbox, "touch", "ran", env=none, check=5)
    assert "no helper runs here" in done.stderr and "shfs-helper" in done.stderr and not os.path.exists(f"{sandbox.project}/ran")
    assert "--by is helper" in sandbox.shfs("record", "--by", "magic", "true", check=2).stderr
    assert "--by helper" in sandbox.shfs("record", "--by", "helper", "--bundle", "true", check=2).stderr
    assert "not recorded" in record(sandbox, "sudo", "-n", "true", check=False).stderr
    forbidden = "echo 0 > /proc/sys/user/max_user_namespaces; shfs record echo ran; shfs doctor"
    for env, hints in ({}, True), (none, False):
        done = sandbox.run("unshare", "--map-current-user", "--keep-caps", "sh", "-c", forbidden, env=env, check=False)
        assert ("shfs record --by helper" in done.stderr) == hints, done
    assert sandbox.shfs("complete", "--", "shfs", "record", "--by", "").stdout.split() == ["helper"]
    assert "shfs record --by helper works" in sandbox.shfs("doctor", check=False).stdout


def test_limits(sandbox):
    """Limits of the shell that would cut the recording are refused; others are the command's."""
    done = sandbox.sh(f"ulimit -f 10; {BY} true", check=False)
    assert done.status == 4 and "ulimit -f" in done.stderr, done
    assert sandbox.sh(f"ulimit -Sf 10; {BY} sh -c 'ulimit -f'").stdout == "10\n"


def test_mounted_by_the_command(sandbox):
    """What the command does in a project that it mounts itself is recorded by that mount alone."""
    project = sandbox.mkdir(f"{sandbox.home}/to mount")
    line = f"shfs mount '{project}' > ../said; cd '{project}'; echo one > in; cat in > /dev/null; mv in moved; rm moved; cd /; shfs umount '{project}'; echo x > {sandbox.project}/behind"
    record(sandbox, "sh", "-c", line)
    accesses = rows(sandbox, f"SELECT op, count(*) FROM v_access WHERE path = '{project}/in' AND process_id IS NOT NULL GROUP BY 1 ORDER BY 1")
    assert accesses == [("open", 2), ("rename", 1)], accesses
    assert f"{sandbox.project}/behind" in paths(sandbox)


def test_another_file_system(sandbox):
    """Names and contents on a file system that is mounted below the root directory are recorded as others."""
    disk = sandbox.mkdir(f"{sandbox.home}/disk")
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", disk, "-o", f"uid={sandbox.user.uid}"], check=True)
    try:
        record(sandbox, "sh", "-c", "echo 1 > a; mv a b; mkdir d; ln b d/c; rm b; cat d/c > e", cwd=disk)
        assert {f"{disk}/{name}" for name in ("a", "b", "d/c", "e")} <= paths(sandbox)
        assert fingerprint(sandbox, "e", disk)
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


def test_helper_that_ends(sandbox):
    """A gap is told, and what goes on after it is recorded again: also of processes that began in the gap."""
    sandbox.allow_log("the helper|events were lost")
    os.mkdir(f"{sandbox.path}/own", 0o755)
    own = Helper(f"{sandbox.path}/own")
    line = "echo > before; sleep 1; touch go; while [ -e go ]; do sleep 0.1; done; (echo > within; sleep 4; echo > after); sh -c 'sleep 0.5; echo > last'"
    with sandbox.popen([*BY.split(), "sh", "-c", line], env={"SHFS_HELPER": own.socket}, stderr=subprocess.PIPE, text=True) as process:
        wait_until(lambda: os.path.exists(f"{sandbox.project}/go"), "the command")
        own.kill()
        stranger = sandbox.popen(["sh", "-c", "sleep 3; echo > strange; sleep 1"])
        sandbox.sh("rm go")
        wait_until(lambda: os.path.exists(f"{sandbox.project}/within"), "a process to begin")
        own.start()
        said = process.stderr.read()
        stranger.wait()
    own.close()
    assert process.returncode == 0 and "events were lost" in said, said
    found = paths(sandbox)
    assert {f"{sandbox.project}/{name}" for name in ("before", "after", "last")} <= found
    assert f"{sandbox.project}/strange" not in found


def random_script(random):
    """Lines that each change or read something, of which names and commands depend on the seed."""
    names, lines = ["a", "b", "c", "d/e", "d/f", "g/h"], ["mkdir -p d g", "echo 0 > a", "echo 0 > d/e"]
    for i in range(30):
        x, y = random.sample(names, 2)
        lines.append(random.choice((
            f"echo {i} > {x}", f"echo {i} >> {x}", f"cat {x}", f"cp {x} {y}", f"mv -f {x} {y}", f"rm -f {y}; ln {x} {y}", f"rm -f {x}",
            f"sort {x} {y} -o {x}", f"cat {x} | tr 0 1 > {y}", f"chmod 600 {x}", f"head -c 3 {x} > {y}", f"mv d k; mv k d",
            f"python3 -c 'open(\"{x}\", \"a\").write(\"{i}\")'", f"[ -e {x} ] && gzip -c {x} > {y}", f"(cat {x}; echo {i}) > {y}")))
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("seed", seeds(2, 120))
def test_as_by_a_mount(sandbox, seed):
    """The same lines, recorded by a mount and by the helper: the same uses of the same names."""
    script = sandbox.write_outside(f"{sandbox.home}/script", random_script(random.Random(seed)))
    found = []
    for way in ["shfs", "record"], BY.split():
        there = sandbox.mkdir(f"{sandbox.home}/{len(way)}")
        sandbox.run(*way, "sh", script, cwd=there, check=False, timeout=90)
        uses = rows(sandbox, f"SELECT DISTINCT op, path, path2, is_read, is_written FROM v_access WHERE path LIKE '{there}/%' AND process_id IS NOT NULL")
        found.append({tuple(part.replace(f"{there}/", "") if isinstance(part, str) else part for part in use) for use in uses})
    assert len(found[0]) > 12 and found[0] == found[1], (found[0] - found[1], found[1] - found[0])


def test_each_loader(sandbox):
    """The loader of each of many programs is known, also of one that ends as it is looked at."""
    record(sandbox, "sh", "-c", "i=0; while [ $i -lt 300 ]; do /bin/true; i=$((i+1)); done")
    wait_for_the_end(sandbox)
    count = "SELECT count(*) FROM v_access WHERE path LIKE '%/{}'"
    assert rows(sandbox, count.format("true")) == [(300,)]
    assert rows(sandbox, count.format("ld-linux%")) == [(301,)]
