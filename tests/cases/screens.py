# SPDX-License-Identifier: MIT
"""Programs on a whole terminal: pyte is the terminal, and knows what it shows."""

import os
import termios

import pexpect
import pyte

import harness

PROGRAM = os.path.join(harness.PREFIX, "bin/shfs")


class Screen:
    """A terminal. What is typed is sent as it is."""

    def __init__(self, sandbox, *argv, rows=24, columns=80, env=None, cwd=None):
        def become():
            if os.geteuid() == 0:
                os.fchown(0, sandbox.user.uid, -1)
            sandbox.user.become()
            os.chdir(cwd or sandbox.project)

        sandbox.shells.append(self)
        self.screen = pyte.Screen(columns, rows)
        self.stream = pyte.ByteStream(self.screen)
        self.raw = b""
        self.pty = pexpect.spawn(
            argv[0], [*argv[1:]],
            env={**sandbox.env, "TERM": "screen-256color", **(env or {})},
            preexec_fn=become, dimensions=(rows, columns), timeout=20 * harness.PATIENCE,
        )  # fmt: skip
        self.pty.delaybeforesend = None
        self.before = None

    def read(self, seconds=0.02):
        try:
            data = self.pty.read_nonblocking(1 << 16, timeout=seconds)
        except pexpect.TIMEOUT:
            return True
        except pexpect.EOF:
            return False
        self.raw += data
        self.stream.feed(data)
        return True

    def lines(self):
        return [line.rstrip() for line in self.screen.display]

    def text(self):
        return "\n".join(self.lines())

    def wait(self, condition, what):
        """Until condition(text) holds of what is shown."""

        def holds():
            self.read()
            return condition(self.text())

        try:
            harness.wait_until(holds, what)
        except BaseException as error:
            raise AssertionError(f"{what}:\n{self.text()}") from error

    def expect(self, *texts):
        self.wait(lambda shown: all(t in shown for t in texts), f"the screen to show {texts}")

    def expect_not(self, text):
        self.wait(lambda shown: text not in shown, f"the screen not to show {text!r}")

    def type(self, keys):
        self.pty.send(keys)

    def resize(self, rows, columns):
        self.screen.resize(rows, columns)
        self.pty.setwinsize(rows, columns)

    def kill(self, sig):
        os.kill(self.pty.pid, sig)

    def end(self):
        """Until it has ended; its exit status, or minus the signal."""
        while self.read():
            pass
        self.pty.wait()
        return -self.pty.signalstatus if self.pty.signalstatus else self.pty.exitstatus

    def attributes(self):
        return termios.tcgetattr(self.pty.child_fd)

    def is_restored(self):
        """Did it leave the other screen, and is the cursor there?"""
        return self.raw.rfind(b"\x1b[?1049l") > self.raw.rfind(b"\x1b[?1049h")

    @property
    def pid(self):
        return self.pty.pid

    def close(self):
        self.pty.close(force=True)
