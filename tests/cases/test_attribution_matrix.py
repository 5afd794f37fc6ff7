# SPDX-License-Identifier: MIT
"""Whose was it, in less usual places. Each case lists what is typed and what that writes; then
every write must be credited to its line, and nothing else to anybody."""

import json
import os

import pytest

from harness import PREFIX, User, wait_until

pytestmark = [pytest.mark.backends, pytest.mark.either]
# these tell no writes, only closes
WRITES = pytest.mark.backends(without=["fanotify", "bpf-tracepoints"])
# and no lines but of the shell of a terminal
LINES = pytest.mark.backends(without=["fanotify", "bpf-tracepoints", "module", "bpf"])
TIMES = pytest.mark.backends(without=["fanotify"])  # and this no times

SHELLS = pytest.mark.parametrize("kind", ["bash", "zsh"])
ALL_SHELLS = pytest.mark.parametrize("kind", ["bash", "zsh", "fish"])


def makers(shfs):
    """{file: texts of what wrote it}; None: a process of no command."""
    found = json.loads(shfs("history", "--all", "--limit", "100000", "--json").stdout)["commands"]
    made = {}
    for command in found:
        for file in command["files"]:
            if file["use"] in ("wrote", "changed", "renamed"):
                name = file["path"].rsplit("/", 1)[1]
                made.setdefault(name, []).append(command.get("text"))
    return {name: sorted(set(texts), key=str) for name, texts in made.items()}


def versions(shfs, name):
    """Texts of what made each version, the first first."""
    log = json.loads(shfs("log", "--json", name).stdout)
    return [(v.get("command") or {}).get("text") for v in log["versions"]][::-1]


def check(shfs, expected, *others):
    """expected: {line: files}. Others: dictionaries {file: [text]} of what is known otherwise."""
    wanted = {name: [line] for line, names in expected.items() for name in names.split()}
    for other in others:
        wanted.update(other)
    assert makers(shfs) == wanted


def type_into(terminal, begin, *lines):
    """A program that has a prompt of its own, and what is typed into it."""
    terminal.start(begin)
    terminal.pty.expect_exact(terminal.BEGIN)
    for line in lines:
        terminal.pty.expect(r"[#$%] ")
        terminal.send(line + "\r")
    terminal.wait()


def wait_for(sandbox, *names):
    for name in names:
        wait_until(lambda: sandbox.sh(f"test -s {name}", check=False).status == 0, name)


@ALL_SHELLS
@pytest.mark.both
def test_the_simple_ones(shfs, mounted, shell, kind):
    lines = {
        "cp /etc/hostname simple": "simple",
        "echo x > redirected": "redirected",
        "echo y >> redirected2": "redirected2",
        "echo z | tr a-z A-Z | tee piped > piped2": "piped piped2",
        "tr a b < simple | cat | cat > piped3": "piped3",
    }
    terminal = shell(kind)
    for line in lines:
        terminal.run(line)
    check(shfs, lines)


@SHELLS
def test_make_and_scripts_of_scripts(sandbox, shfs, mounted, shell, kind):
    rules = "all: a b c d e f g h\n\t@true\n%:\n\t@sh -c 'echo $@ > $@.tmp && mv $@.tmp $@'\n"
    sandbox.write("Makefile", rules)
    sandbox.write("one.sh", "echo 1 > one\nbash two.sh\necho 3 > three\n")
    sandbox.write("two.sh", "echo 2 > two\n(sh three.sh &)\nwait\nperl -e 'open(F, q(>four)); print F 4'")
    sandbox.write("three.sh", "echo 5 > five; exec sh -c 'echo 6 > six'")
    before = set(makers(shfs))
    lines = {
        "make -s -j4": "a b c d e f g h",
        "bash one.sh": "one two three four five six",
        "seq 16 | xargs -P8 -I@ sh -c 'echo @ > n@'": " ".join(f"n{n}" for n in range(1, 17)),
        "find . -name 'n1*' -exec cp {} {}.copy ';'": " ".join(f"n1{s}.copy" for s in ["", *range(7)]),
        "true": "",
    }
    terminal = shell(kind)
    for line in lines:
        terminal.run(line)
    wait_for(sandbox, "six")
    check(shfs, lines, {name: [None] for name in before})


@SHELLS
def test_jobs_that_write_later(sandbox, shfs, mounted, shell, kind):
    """Each is at work at the same time as the later commands, of which it is none."""
    flag = os.path.join(sandbox.path, "flag")
    wait = f"while ! test -e {flag}; do sleep 0.05; done"
    lines = {
        f"sh -c '{wait}; echo x > by-job' &": "by-job",
        f"({wait}; echo x > by-subshell) &": "by-subshell",
        f"nohup sh -c '{wait}; echo x > by-nohup' > /dev/null 2>&1 &": "by-nohup",
        f"setsid sh -c '{wait}; echo x > by-setsid' &": "by-setsid",
        f"{{ {wait}; echo x | cat > by-group; }} & disown": "by-group",
        "echo 1 > later1": "later1",
        "sh -c 'echo 2 > later2'": "later2",
        f"touch {flag}; sh -c 'until [ -s by-group ]; do sleep 0.01; done; echo 3 > later3'": "later3",
        "echo 4 > later4": "later4",
    }
    terminal = shell(kind)
    for line in lines:
        terminal.run(line)
    wait_for(sandbox, "by-job", "by-subshell", "by-nohup", "by-setsid", "by-group")
    check(shfs, lines)


@TIMES
@ALL_SHELLS
def test_pasted_builtins(shfs, mounted, shell, kind):
    """Nothing but their times tells what the shell itself does in one and the next."""
    terminal = shell(kind)
    lines = {f"echo {n} > pasted{n}": f"pasted{n}" for n in range(20)}
    terminal.send("".join(line + "\r" for line in lines))
    for _ in lines:
        terminal.wait()
    check(shfs, lines)


@TIMES
@SHELLS
def test_lines_in_one_paste(shfs, mounted, shell, kind):
    """As a terminal marks it: what follows has no prompt in front of it."""
    terminal = shell(kind)
    lines = [f"echo {n} > a{n}; sh -c 'echo {n} > b{n}'" for n in range(6)]
    terminal.send("\x1b[200~" + "\n".join(lines) + "\x1b[201~\r")
    terminal.wait()
    made = makers(shfs)
    assert set(made) == {f"{c}{n}" for c in "ab" for n in range(6)}
    for n, line in enumerate(lines):
        # bash runs them one by one, zsh as one command
        whole = [line] if kind == "bash" else ["\n".join(lines)]
        assert made[f"a{n}"] == made[f"b{n}"] == whole


@WRITES
def test_two_shells_at_once(sandbox, shfs, mounted, shell):
    """What they do is mixed in time, in one file even."""
    first, second = shell("bash"), shell("zsh")
    lines = {}
    for n in range(10):
        for terminal, who in (first, "first"), (second, "second"):
            line = f"sh -c 'echo {n} > {who}{n}; echo {who}{n} >> shared'"
            lines[line] = f"{who}{n}"
            terminal.send(line + "\r")
    for _ in range(10):
        first.wait()
        second.wait()
    made = makers(shfs)
    assert made.pop("shared") == sorted(lines)
    assert made == {name: [line] for line, name in lines.items()}
    assert set(versions(shfs, "shared")) <= set(lines)


@pytest.mark.parametrize("following", ["bash", "zsh"])
@SHELLS
def test_exec_of_a_shell(shfs, mounted, shell, kind, following):
    """The process is the same, and the session; the text is told by another hook."""
    shell(following).close()
    terminal = shell(kind)
    lines = {"echo 1 > before": "before", f"exec {following}": "", "echo 2 > after": "after"}
    lines |= {"sh -c 'echo 3 > after-too'": "after-too", "echo 4 | cat > after-pipe": "after-pipe"}
    for line in lines:
        terminal.run(line)
    check(shfs, lines)


@TIMES
@pytest.mark.parametrize("inner", ["bash", "zsh", "bash --norc", "zsh -f", "sh"])
def test_nested_shells(sandbox, shfs, mounted, shell, inner):
    """One with the hook has commands of its own; without, all is part of the one that began it."""
    hooked = inner in ("bash", "zsh")
    if hooked:
        shell(inner).close()
    terminal = shell("bash")
    terminal.run("echo 1 > before")
    if hooked:
        terminal.run(inner)
        terminal.run("echo 2 > inside; true")
        terminal.run("sh -c 'echo 3 > inside2'")
        terminal.run("exit")
    else:
        type_into(terminal, inner, "echo 2 > inside; true", "sh -c 'echo 3 > inside2'", "exit")
    terminal.run("echo 4 > after")
    inside = {"echo 2 > inside; true": "inside", "sh -c 'echo 3 > inside2'": "inside2"}
    if not hooked:
        inside = {inner: "inside inside2"}
    check(shfs, {"echo 1 > before": "before", **inside, "echo 4 > after": "after"})


@TIMES
def test_panes_of_tmux(sandbox, shfs, mounted, shell):
    """A server that left the terminal; shells on other terminals, at the same time."""
    shell("bash").close()
    terminal = shell("bash")
    socket = os.path.join(sandbox.path, "tmp/tmux")
    tmux = ["tmux", "-f", "/dev/null", "-S", socket]
    command = " ".join(tmux)
    begin = f"{command} new-session -d -x 80 -y 24 bash"
    try:
        terminal.run(begin)
        terminal.run(f"{command} split-window -d bash")
        lines = {}
        for n in range(3):
            for pane in 0, 1:
                line = f"echo {n} > pane{pane}-{n}; sh -c 'echo {n} > child{pane}-{n}'"
                lines[line] = f"pane{pane}-{n} child{pane}-{n}"
                sandbox.run(*tmux, "send-keys", "-t", f"0.{pane}", line, "Enter")
        terminal.run("echo x > outside")
        lines["echo x > outside"] = "outside"
        sandbox.run(*tmux, "new-window", "-d", "sh -c 'echo x > by-window'")
        wait_for(sandbox, "by-window", *(f"child{p}-{n}" for p in (0, 1) for n in range(3)))
    finally:
        sandbox.run(*tmux, "kill-server", check=False)
    lines[begin] = "by-window"  # of the server, which that began
    check(shfs, lines)


SETUID = r"""
    #include <sys/types.h>
    #include <unistd.h>
    int main(int argc, char **argv)
    {
        return setuid(0) || execv(argv[1], argv + 1);
    }
"""


@pytest.mark.users("root")
@SHELLS
def test_su_and_sudo(sandbox, shfs, mount, shell, kind):
    """To another user and back, who have no part in the store."""
    other = User("ordinary").login
    mount(sandbox.project, "--allow-other")
    sandbox.sh("chmod 777 .")
    as_root = sandbox.compile("setuid", SETUID)
    os.chmod(as_root, 0o4755)
    lines = {
        f"su {other} -s /bin/sh -c 'echo x > by-su'": "by-su",
        f"sudo -n -u {other} sh -c 'echo x > by-sudo'": "by-sudo",
        f"sudo -n -u {other} {as_root} /bin/sh -c 'id -u > by-root'": "by-root",
        f"sudo -n -u {other} setsid -w sh -c 'echo x > by-sudo-setsid'": "by-sudo-setsid",
        "echo x > by-us": "by-us",
    }
    terminal = shell(kind)
    for line in lines:
        terminal.run(line)
    su = f"su {other} -s /bin/sh"
    type_into(terminal, su, "echo x > inside-su", "cat by-us > inside-su2", "exit")
    lines[su] = "inside-su inside-su2"
    terminal.run("echo x > at-the-end")
    lines["echo x > at-the-end"] = "at-the-end"
    assert sandbox.read("by-root") == b"0\n"
    check(shfs, lines)


STATIC = r"""
    #include <fcntl.h>
    #include <sys/syscall.h>
    #include <unistd.h>
    int main(int argc, char **argv)
    {
        for (int i = 1; i < argc; i++) {
            int fd = syscall(SYS_openat, AT_FDCWD, argv[i], O_WRONLY | O_CREAT, 0644);
            syscall(SYS_write, fd, "x", 1);
            syscall(SYS_close, fd);
        }
        return 0;
    }
"""

# As the runtime of Go does it: a goroutine's calls come from any thread, of which the first has
# been locked away or has ended.
THREADS = r"""
    #include <fcntl.h>
    #include <pthread.h>
    #include <stdio.h>
    #include <unistd.h>

    static void *work(void *arg)
    {
        for (int i = 0; i < 4; i++) {
            char name[32];
            snprintf(name, sizeof(name), "thread%ld-%d", (long)arg, i);
            int fd = open(name, O_CREAT | O_WRONLY, 0644);
            if (write(fd, "x", 1) != 1 || close(fd))
                _exit(1);
        }
        return NULL;
    }

    int main(void)
    {
        pthread_t t;
        for (long i = 0; i < 8; i++)
            pthread_create(&t, NULL, work, (void *)i);
        pthread_exit(NULL);
    }
"""


@SHELLS
def test_programs_that_no_library_sees(sandbox, shfs, mounted, shell, kind):
    static = sandbox.compile("static", STATIC, "-static")
    threads = sandbox.compile("threads", THREADS)
    lines = {
        f"{static} raw1 raw2": "raw1 raw2",
        f"env -i {static} bare": "bare",
        f"{threads}": " ".join(f"thread{t}-{i}" for t in range(8) for i in range(4)),
        f"env -i sh -c '{static} bare2 & wait'": "bare2",
        f"echo 'import os; os.posix_spawn(\"{static}\", [\"x\", \"spawned\"], {{}}); os.wait()' | python3": "spawned",
    }
    terminal = shell(kind)
    for line in lines:
        terminal.run(line)
    check(shfs, lines)


@SHELLS
@pytest.mark.both
def test_namespaces_of_pids(sandbox, shfs, mounted, shell, kind):
    """The pids that a process has of its own are others than those that we see."""
    unshare = "unshare -p -f" if sandbox.user.uid == 0 else "unshare -U -r -p -f"
    if sandbox.run(*unshare.split(), "true", check=False).status:
        pytest.skip("no namespaces for this user")
    lines = {
        f"{unshare} sh -c 'echo $$ > first'": "first",
        f"{unshare} sh -c '(sh -c \"echo \\$\\$ > second\") & wait; true'": "second",
        f"{unshare} sh -c 'setsid -f sh -c \"sleep 0.2; echo x > third\"; sleep 0.4'": "third",
        "echo x > last": "last",
    }
    terminal = shell(kind)
    for line in lines:
        terminal.run(line)
    assert sandbox.read("first") == b"1\n"
    check(shfs, lines)


@pytest.mark.users("root")
def test_daemon_in_a_namespace_of_pids(sandbox, shfs, shell):
    """It cannot know who calls from outside. Where /proc is of another namespace, the numbers of
    those inside are other processes there, so it knows nobody."""
    fuse = os.path.join(PREFIX, "libexec/shfs/shfs-fuse")
    script = f"""
        {fuse} --store {sandbox.store} {sandbox.project} || exit
        cd {sandbox.project}; echo x > inside; sh -c 'echo y > inside2; true'; cd /
        while ! test -e {sandbox.path}/flag; do sleep 0.02; done
        umount {sandbox.project}
    """
    with sandbox.popen(["unshare", "-p", "-f", "sh", "-c", script], cwd="/") as process:
        wait_until(lambda: os.path.exists(f"{sandbox.project}/inside2"), "the mount")
        terminal = shell("bash")
        terminal.run("echo x > outside")
        terminal.run("sh -c 'echo x > outside2'")
        names = ["inside", "inside2", "outside", "outside2"]
        logs = [json.loads(shfs("log", "--json", name).stdout)["versions"] for name in names]
        terminal.close()
        sandbox.write_outside(f"{sandbox.path}/flag", "")
        assert process.wait(20) == 0
    for log in logs:
        assert len(log) == 1 and not log[0].get("command") and not log[0].get("process"), log


def test_5000_short_lived_processes(sandbox, shfs, mounted, shell):
    source = r"""
        #include <fcntl.h>
        #include <stdio.h>
        #include <stdlib.h>
        #include <sys/wait.h>
        #include <unistd.h>
        int main(int argc, char **argv)
        {
            for (int i = 0; i < 1000; i++) {
                if (fork()) {
                    if (i % 4 == 3)
                        while (wait(NULL) > 0)
                            ;
                    continue;
                }
                char name[32];
                snprintf(name, sizeof(name), "%s%d", argv[1], i % 10);
                _exit(close(open(name, O_CREAT | O_WRONLY | O_APPEND, 0644)));
            }
            while (wait(NULL) > 0)
                ;
            return 0;
        }
    """
    program = sandbox.compile("short", source)
    lines = {f"{program} {c}": " ".join(f"{c}{i}" for i in range(10)) for c in "abcde"}
    terminal = shell("bash" if sandbox.user.uid == 0 else "zsh")
    for line in lines:
        terminal.run(line, timeout=60)
    check(shfs, lines)


# as PID PROGRAM...: forks until a child has that number, which executes the program.
AS = r"""
    #include <stdlib.h>
    #include <sys/wait.h>
    #include <unistd.h>
    int main(int argc, char **argv)
    {
        pid_t wanted = atoi(argv[1]);
        for (int i = 0; i < 40000; i++) {
            pid_t child = vfork();
            int status;
            if (!child && getpid() == wanted) {
                execvp(argv[2], argv + 2);
                _exit(127);
            }
            if (!child)
                _exit(0);
            waitpid(child, &status, 0);
            if (child == wanted)
                return WEXITSTATUS(status);
        }
        return 1;
    }
"""


@pytest.fixture
def few_pids():
    """They go round in half a second."""
    path = "/proc/sys/kernel/pid_max"
    with open(path, encoding="ascii") as file:
        before = file.read()
    try:
        with open(path, "w", encoding="ascii") as file:
            file.write("4096")
    except OSError:
        pytest.skip("cannot lower pid_max here")
    yield
    with open(path, "w", encoding="ascii") as file:
        file.write(before)


def free_pid():
    """One that nobody has now."""
    return next(pid for pid in range(2000, 4000) if not os.path.exists(f"/proc/{pid}"))


@TIMES
@pytest.mark.alone
@pytest.mark.users("root")
@SHELLS
def test_pids_that_come_again(few_pids, sandbox, shfs, mounted, shell, kind):
    """In one command and from one to the next; also those of the parents, and of a shell."""
    run_as = sandbox.compile("as", AS)
    flag = os.path.join(sandbox.path, "flag")
    wait = f"while ! test -e {flag}; do sleep 0.05; done"
    former = shell(kind)
    former.run("echo 0 > by-former")
    former.close()
    pid = free_pid()
    again = f"{run_as} {pid} sh -c"
    lines = {
        "echo 0 > by-former": "by-former",
        f"sh -c '{wait}; echo x > by-job' &": "by-job",
        f"(setsid sh -c '{wait}; echo x > by-daemon' &)": "by-daemon",
        f"{again} 'echo 1 > first'; {again} 'echo 2 > second'": "first second",
        f"{again} 'echo 3 > third'": "third",
        f"sh -c 'echo 4 > fourth'; {again} 'sh -c \"echo 5 > fifth; true\"; true'": "fourth fifth",
        f"{run_as} {former.pid} sh -c 'sh -c \"echo 6 > sixth\"; echo 6 > sixth2'": "sixth sixth2",
        "sh -c 'echo 7 > seventh'": "seventh",
    }
    terminal = shell(kind)
    for line in lines:
        if line != "echo 0 > by-former":
            terminal.run(line)
    # nobody knows where it comes from but by its group, whose number all later commands passed
    orphan = f"(env -i sh -c '{wait}; echo x > by-orphan' &)"
    terminal.run(orphan)
    for n in range(2):
        lines[f"{again} 'echo {n} > round{n}'"] = f"round{n}"
        terminal.run(f"{again} 'echo {n} > round{n}'")
    sandbox.write_outside(flag, "")
    wait_for(sandbox, "by-job", "by-daemon", "by-orphan")
    made = makers(shfs)
    assert made["by-orphan"] in ([None], [orphan])
    check(shfs, lines, {"by-orphan": made["by-orphan"]})


AGAIN = r"""
    #define _GNU_SOURCE
    #include <fcntl.h>
    #include <linux/sched.h>
    #include <signal.h>
    #include <stdint.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <sys/syscall.h>
    #include <sys/wait.h>
    #include <unistd.h>
    int main(int argc, char **argv) /* pid command times: each child writes a file of its own */
    {
        pid_t wanted = atoi(argv[1]);
        for (int i = 0; i < atoi(argv[3]); i++) {
            struct clone_args args = { .exit_signal = SIGCHLD, .set_tid = (uintptr_t)&wanted, .set_tid_size = 1 };
            char name[80], run[100];
            int status;
            snprintf(name, sizeof(name), "r%s-%d", argv[2], i);
            snprintf(run, sizeof(run), "echo %d > %s", i, name);
            pid_t child = syscall(SYS_clone3, &args, sizeof(args));
            if (!child && i % 4 == 0)
                execlp("sh", "sh", "-c", run, NULL);
            if (!child) {
                int fd = open(name, O_WRONLY | O_CREAT, 0600);
                _exit(fd < 0 || write(fd, name, 1) != 1 || close(fd));
            }
            if (child != wanted || waitpid(child, &status, 0) != child || status)
                return 1;
        }
        return 0;
    }
"""
PIDS = int(os.environ.get("SHFS_TEST_PIDS", "400"))
LINES_OF_PIDS = 20


@TIMES
@pytest.mark.alone
@pytest.mark.timeout(120 + PIDS // 10)
@pytest.mark.users("root")
def test_one_pid_again_and_again(sandbox, shfs, mounted, shell):
    """SHFS_TEST_PIDS processes in a row that have one number; shells come and go meanwhile. What is
    known is right, and nothing is of nobody."""
    again, pid, terminal = sandbox.compile("again", AGAIN), free_pid(), shell()
    lines = {}
    for n in range(LINES_OF_PIDS):
        line = f"{again} {pid} {n} {PIDS // LINES_OF_PIDS}"
        lines[line] = " ".join(f"r{n}-{i}" for i in range(PIDS // LINES_OF_PIDS))
        assert terminal.run(line + " || echo failed", timeout=60 + PIDS // 10) == ""
        if n % 5 == 4:
            other = shell()
            other.run(f"{again} {pid} other{n} 1")
            lines[f"{again} {pid} other{n} 1"] = f"rother{n}-0"
            other.close()
    check(shfs, {f"{line} || echo failed" if " other" not in line else line: names for line, names in lines.items()})


def check_lines_at_once(shfs, terminal):
    """All is the shell itself, by one descriptor: what tells the lines apart is when they wrote.
    The contents between them are not kept, but each is shown to have written."""
    terminal.run("exec 3>>log")
    lines = [f"echo {n} >&3" for n in range(20)]
    terminal.send("".join(line + "\r" for line in lines))
    for _ in lines:
        terminal.wait()
    terminal.run("exec 3>&-")
    assert set(lines) <= set(makers(shfs)["log"]) <= {*lines, "exec 3>>log"}
    found = versions(shfs, "log")
    assert found[-1] == lines[-1] and set(found) <= {*lines, "exec 3>>log"}


@WRITES
@SHELLS
def test_builtins_that_share_an_open_file_at_once(shfs, mounted, shell, kind):
    check_lines_at_once(shfs, shell(kind))


@LINES
@SHELLS
def test_builtins_of_a_nested_shell_that_share_an_open_file_at_once(shfs, mounted, shell, kind):
    terminal = shell(kind)
    terminal.run(kind)
    check_lines_at_once(shfs, terminal)


@SHELLS
def test_programs_at_the_same_addresses(sandbox, shfs, mounted, shell, kind):
    """Where addresses are not made at random, an exec of the same program with arguments of the
    same length looks as if nothing had happened. Its writes are the command's all the same."""
    sandbox.write("again.sh", "echo $1 > by$1\n[ $1 = 3 ] || exec sh again.sh $(($1 + 1))\n")
    lines = {"setarch -R sh again.sh 1": "by1 by2 by3", "setarch -R sh -c 'echo 4 > by4'": "by4"}
    terminal = shell(kind)
    for line in lines:
        terminal.run(line)
    check(shfs, lines, {"again.sh": [None]})
