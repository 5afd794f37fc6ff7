# SPDX-License-Identifier: MIT
"""What the hook adds between Enter and the next prompt: the same lines typed into two real shells
on a terminal, one with the hook and one without, by turns."""

import os
import pty
import re
import select
import shutil
import signal
import statistics
import subprocess
import time

import report
from place import ORDINARY, fail
from variants import ALL

MOUNT = next(v for v in ALL if v.name == "shfs-dev")
TITLE = "what the hook adds to a prompt"
PROMPT = b"ready> "
LINES = [":", "x=1", "cd .", "echo done", "y=$((x + 1))", "[[ -e data ]]", "pwd", "true", "echo $x > note",
         "cat note", "for i in 1 2 3; do echo $i; done", "false", "z=(a b c)", "ls", "type cd", "test -d .",
         "export MODE=fast", "printf '%s\\n' $y", "echo \"$x of $y\"", "umask"]
RC = {
    "bash": (".bashrc", "PS1='ready> '\n", 'eval "$(shfs init bash)"\n'),
    "zsh": (".zshrc", "PS1='ready> '; unsetopt prompt_sp\n", 'eval "$(shfs init zsh)"\n'),
}


class Shell:
    """An interactive one in the directory, on a terminal."""

    def __init__(self, place, kind, cwd, home, with_hook, store):
        user = place.users[ORDINARY]
        name, rc, hook = RC[kind]
        place.directory(home, user)
        with open(f"{home}/{name}", "w", encoding="ascii") as out:
            out.write(rc + (hook if with_hook else ""))
        env = place.environment(user, SHFS_STORE=store)
        env.update(HOME=home, XDG_CONFIG_HOME=f"{home}/.config", XDG_RUNTIME_DIR=place.directory(f"{home}/run", user))
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            try:
                os.fchown(0, user.uid, -1)
                user.become(cwd)
                os.execvpe(kind, [kind, "-i"], env)
            finally:
                os._exit(127)
        self.until_prompt()

    def until_prompt(self):
        """The time at which it was there."""
        said = b""
        while not said.endswith(PROMPT) and PROMPT not in said[-40:]:
            if not select.select([self.fd], [], [], 20)[0]:
                fail(f"no prompt, but {said!r}")
            said += os.read(self.fd, 65536)
        now = time.perf_counter()
        self.quiet()
        return now

    def quiet(self, seconds=0.003):
        while select.select([self.fd], [], [], seconds)[0]:
            os.read(self.fd, 65536)

    def enter(self, line):
        """Seconds from Enter to the next prompt."""
        os.write(self.fd, line.encode())
        self.quiet(0.01)
        begin = time.perf_counter()
        os.write(self.fd, b"\r")
        return self.until_prompt() - begin

    def close(self):
        os.close(self.fd)
        os.kill(self.pid, signal.SIGHUP)
        os.waitpid(self.pid, 0)


def times(place, kind, mount, rounds):
    """[(line, seconds without, seconds with)]; the first round warms up."""
    shells = [Shell(place, kind, mount.directory, f"{mount.base}/home-{kind}-{hook}", hook, f"{mount.base}/store")
              for hook in (False, True)]
    found = []
    try:
        for number in range(rounds + 1):
            for at, line in enumerate(LINES):
                order = shells if (number + at) % 2 else shells[::-1]
                took = {shell: shell.enter(line) for shell in order}
                if number:
                    found.append((line, *(took[shell] for shell in shells)))
    finally:
        for shell in shells:
            shell.close()
    return found


def commands_recorded(place, mount):
    """So that it is not the absence of a hook that is measured."""
    out = subprocess.run([f"{place.prefix}/bin/shfs", "history", "--all", "-n", "100000"],
                         env=place.environment(place.users[ORDINARY], SHFS_STORE=f"{mount.base}/store"),
                         capture_output=True, text=True, preexec_fn=lambda: place.users[ORDINARY].become("/"),
                         check=True).stdout
    return len(re.findall(r"^[0-9a-f]+ +umask$", out, re.M))


def measure(place, rounds):
    mount = MOUNT
    mount.settle_in(place)
    shells = {}
    try:
        mount.start()
        for kind in RC:
            if shutil.which(kind):
                shells[kind] = times(place, kind, mount, rounds)
        mount.wait()
        wanted, found = (rounds + 1) * len(shells), commands_recorded(place, mount)
        if found != wanted:
            fail(f"prompt: {found} of {wanted} commands were recorded")
    finally:
        mount.stop()
        mount.leave()
    return {"name": "prompt", "title": TITLE, "shells": shells}


def show(data):
    rows = []
    for kind, found in data["shells"].items():
        without, with_hook = ([times[k] for times in found] for k in (1, 2))
        added = [b - a for _, a, b in found]
        median, low, _ = report.spread(added)
        rows.append([kind, report.show_spread(without, report.show_time), report.show_spread(with_hook, report.show_time),
                     report.show_time(low), report.show_time(median),
                     f"≤ {report.show_time(report.BAR_PROMPT)} {'met' if median <= report.BAR_PROMPT else 'MISSED'}"])
    head = ["shell", "without (p10–p90)", "with (p10–p90)", "added, p10", "added, median", "bar"]
    per_line = "; ".join(
        f"{kind} {report.show_time(statistics.median(b - a for l, a, b in found if l == ':'))}"
        for kind, found in data["shells"].items())
    return (f"{report.table(head, rows)}\n\n{len(LINES)} lines, from Enter to the next prompt, in a mounted project."
            f" Added to `:` alone (median): {per_line}.")


def versions(place):
    found = [subprocess.run([kind, "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]
             for kind in RC if shutil.which(kind)]
    return [MOUNT.version(place), *found]
