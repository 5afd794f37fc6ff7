#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The demo: a small analysis typed into a real interactive bash, on a real mount.

usage: demo.py DIR    DIR holds install/; HOME of the demo is made in it

What is shown is what the terminal of that bash shows. Ends with 0 only if the first figure was
really lost, really made again, and is equal to the first, byte for byte.
"""

import os
import re
import shutil
import subprocess
import sys
import time

import pexpect

HERE = os.path.dirname(os.path.abspath(__file__))
PACED = sys.stdout.isatty()
COLORS = PACED and "NO_COLOR" not in os.environ

# No screen shows these: one before a command runs, one before each prompt with its status.
BEGIN = "\x1b]7777;begin\x07"
READY = re.compile(r"\x1b\]7777;ready;(\d+)\x07")
TITLES = re.compile(r"\x1b\][^\x07]*\x07|\x1b\[\?2004[hl]")
STYLES = re.compile(r"\x1b\[[0-9;]*[mK]")

BASHRC = r"""
PS1='\w\$ ' PS0='\e]7777;begin\a'
PROMPT_COMMAND='printf "\e]7777;ready;%d\a" "$?"'
eval "$(shfs init bash)"
"""


class Failed(Exception):
    pass


class Terminal:
    """An interactive bash on a terminal of its own, shown as it goes."""

    def __init__(self, home, prefix):
        env = {
            "HOME": home,
            "PATH": f"{prefix}/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "USER": os.environ.get("USER", "you"),
            "SHELL": "/bin/bash",
            "TERM": "xterm",
            "LC_ALL": "C.UTF-8",
            "PAGER": "cat",
        }
        if not COLORS:
            env["NO_COLOR"] = "1"
        self.bash = pexpect.spawn(
            "/bin/bash", ["-i"], env=env, cwd=home, dimensions=(60, 80), encoding="utf-8", timeout=60
        )
        self._wait()

    def _wait(self):
        """Until the next prompt. What was shown before and while the command ran, its status."""
        self.bash.expect(READY)
        text, status = self.bash.before, int(self.bash.match[1])
        self.bash.expect_exact("$ " if os.geteuid() else "# ")
        self.prompt = plain(self.bash.before + self.bash.after)
        typed, _, output = text.rpartition(BEGIN)
        return plain(typed).strip(), plain(output), status

    def type(self, line, status=0):
        """Types a line and shows it with its output. It must end with this status."""
        prompt = self.prompt
        self.bash.send(line + "\r")
        typed, output, ended = self._wait()
        show(f"{prompt}{typed}\n", pause=0.8)
        show(output, pause=0.4 + 0.12 * output.count("\n"))
        if ended != status:
            raise Failed(f"`{line}` ended with {ended}, not {status}")

    def close(self):
        self.bash.close(force=True)


def plain(text):
    """What a screen shows of it."""
    text = TITLES.sub("", text).replace("\r", "")
    return text if COLORS else STYLES.sub("", text)


def show(text, pause=0):
    sys.stdout.write(text)
    sys.stdout.flush()
    if PACED:
        time.sleep(min(pause, 4))


def say(text):
    bold, plain = ("\x1b[1m", "\x1b[0m") if COLORS else ("", "")
    show(f"\n{bold}--- {text}{plain}\n", pause=1.2)


def figure(home):
    with open(f"{home}/study/figure.txt", "rb") as file:
        return file.read()


def tell(home, prefix):
    shell = Terminal(home, prefix)
    try:
        return story(shell, home)
    finally:
        shell.close()


def story(shell, home):
    say('A study, in a shell whose ~/.bashrc has the line: eval "$(shfs init bash)"')
    shell.type("shfs mount ~/study")
    shell.type("cd ~/study")
    shell.type("python3 simulate.py config.yaml data/towns.csv > cases.csv")
    shell.type("sh peaks.sh cases.csv > peaks.txt")
    shell.type("awk -f plot.awk peaks.txt > figure.txt")
    shell.type("cat figure.txt")
    shell.type("cp figure.txt ~/submitted.txt")
    first = figure(home)

    say("Later: two more ideas, all of it made again, and the first figure is gone.")
    shell.type("sed -i 's/contacts: 0.30/contacts: 0.21/' config.yaml")
    shell.type("echo 'season: 0.3' >> config.yaml")
    shell.type("sh run.sh")
    shell.type("cat figure.txt")
    broken = figure(home)

    say("Which commands made this figure, and from what?")
    shell.type("shfs history --wrote figure.txt")
    say("What is upstream of the first one?")
    shell.type("shfs why figure.txt@1")
    say("What happened to that config?")
    shell.type("shfs log config.yaml")
    shell.type("shfs diff config.yaml@1", status=1)
    say("Have it back, and make the figure again.")
    shell.type("shfs restore config.yaml@1")
    shell.type("sh run.sh")
    shell.type("cmp figure.txt ~/submitted.txt && echo the same, byte for byte")
    again = figure(home)
    shell.type("cd; shfs umount ~/study")
    return first, broken, again


def prepare(home):
    """Fills a home that was just made."""
    shutil.copytree(f"{HERE}/study", f"{home}/study")
    with open(f"{home}/.bashrc", "w", encoding="utf-8") as rc:
        rc.write(BASHRC)


def clean(home):
    study = f"{home}/study"
    if os.path.ismount(study):
        tool = ["umount", "-l"] if os.geteuid() == 0 else ["fusermount3", "-u", "-z"]
        subprocess.run([*tool, study], check=False)
    if os.path.ismount(study):
        print(f"demo: {study} is still mounted", file=sys.stderr)
    else:
        shutil.rmtree(home, ignore_errors=True)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    prefix = os.path.join(sys.argv[1], "install/usr/local")
    home = os.path.join(sys.argv[1], "home")
    sys.stdout.reconfigure(errors="replace")  # the locale may be anything
    os.mkdir(home, 0o700)
    try:
        prepare(home)
        first, broken, again = tell(home, prefix)
        # what lies on the disk now that nothing is mounted, not what the mount said
        on_disk = figure(home)
        if broken == first:
            raise Failed("the changed config gave the same figure: this proves nothing")
        if not first or again != first or on_disk != first:
            raise Failed("the figure that was made again is not the first one")
    except (Failed, pexpect.ExceptionPexpect, OSError) as problem:
        print(f"\ndemo: {problem}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        clean(home)
    say("Nothing had to be noted down. For your own work: ./dev install; shfs doctor")
    return 0


if __name__ == "__main__":
    sys.exit(main())
