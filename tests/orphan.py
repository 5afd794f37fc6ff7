#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs a program as if nobody had started it: orphan.py PROGRAM [ARGUMENT...]

What an agent, a CI runner or "sh -c TEXT" runs is a command of theirs: shfs knows them by the
processes above and by the environment. The tests must find the same below each of them. So the
program becomes a grandchild of init, in the process group that it was started in, and sees only
those variables of the environment that KEPT names. Its exit status is passed on. When the process
that was started is killed, the program is sent SIGTERM."""

import os
import re
import signal
import subprocess
import sys
import threading
import time

KEPT = re.compile(
    r"PATH|HOME|USER|LOGNAME|SHELL|TERM|TMPDIR|TZ|LANG|LC_.*|SHFS_(TEST|UNIT|VM|KILLS|PRUNE|SEED).*"
    r"|.SAN_OPTIONS|PY.*|pip_.*|npm_.*|.*_proxy",
    re.IGNORECASE,
)


def run(argv, is_alive, tell):
    """Runs the program to its end, or until nothing more is read from is_alive."""
    program = subprocess.Popen(argv)
    threading.Thread(target=lambda: os.read(is_alive, 1) or program.terminate(), daemon=True).start()
    status = program.wait()
    os.write(tell, bytes([status if status >= 0 else 128 - status]))


def main(argv):
    kept = {name: value for name, value in os.environ.items() if KEPT.fullmatch(name)}
    if kept != os.environ:  # /proc shows what a process began with
        os.execve(sys.executable, [sys.executable, __file__, *argv], kept)
    is_alive, alive = os.pipe()
    told, tell = os.pipe()
    # the program hears of them, too, and says how far it came
    for number in signal.SIGINT, signal.SIGTERM:
        signal.signal(number, lambda *_: None)
    middle = os.fork()
    if not middle:
        middle = os.getpid()
        if not os.fork():
            os.close(alive)
            while os.getppid() == middle:
                time.sleep(0.001)
            run(argv, is_alive, tell)
        os._exit(0)
    os.close(tell)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.waitpid(middle, 0)
    status = os.read(told, 1)
    return status[0] if status else 126


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
