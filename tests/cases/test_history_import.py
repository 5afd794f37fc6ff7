# SPDX-License-Identifier: MIT
"""shfs init --import: what a shell kept of earlier commands, as the shell itself wrote it, becomes history."""

import datetime
import json
import os
import time

import pytest

pytestmark = pytest.mark.users("ordinary")

USAGE, NOT_FOUND = 2, 3

# kind: what is set, whether it keeps times
KINDS = {
    "bash": ("HISTTIMEFORMAT='%F '\n", True),
    "bash without times": ("", False),
    "zsh": ("HISTFILE=~/.zsh_history HISTSIZE=900 SAVEHIST=900\nsetopt extended_history hist_save_no_dups no_bang_hist\n", True),
    "zsh without times": ("HISTFILE=~/.zsh_history HISTSIZE=900 SAVEHIST=900\nsetopt no_bang_hist\n", False),
    "fish": ("", True),
}
LINES = [
    "true one",
    "echo 'two  blanks' > /dev/null",
    "true föö bär £ ☃ 日本",
    "true a\\\\b 'c\\d' \\'",
    ': "#1600000000" : 1600000000:0',
    "true - cmd: x; true when: 5",
    "true last",
]
MULTI = {  # what is typed, and what is kept of it
    "bash": ("for i in 1 2; do\rtrue $i\rdone", "for i in 1 2; do true $i; done"),
    "zsh": ("for i in 1 2; do\rtrue $i\rdone", "for i in 1 2; do\ntrue $i\ndone"),
}


def imported(sandbox):
    """(text, begin) of each, the oldest first."""
    found = json.loads(sandbox.shfs("history", "--all", "--json").stdout)["commands"]
    return [(one["text"], one["begin"]) for one in reversed(found) if not one["cwd"]]


@pytest.mark.parametrize("kind", KINDS)
def test_as_the_shell_wrote_it(sandbox, shell, project, kind):
    name = kind.split()[0]
    setting, times = KINDS[kind]
    began = time.time()
    sh = shell(name, init=False, after=setting)
    wanted = list(LINES)
    for line in LINES:
        sh.run(line)
    if name in MULTI and times:  # without times, nothing says which lines of bash are one
        typed, kept = MULTI[name]
        sh.send(typed + "\r")
        sh.wait()
        wanted.append(kept)
    sh.close()
    assert "in the history now" in sandbox.shfs("init", "--import").stdout
    found = [(text, begin) for text, begin in imported(sandbox) if text != "exit"]
    assert [text for text, _ in found] == wanted
    stamps = [datetime.datetime.fromisoformat(begin[:19] + "+00:00").timestamp() for _, begin in found]
    assert stamps == sorted(stamps) and began - 2 < stamps[0] and stamps[-1] < time.time() + 2
    assert "was imported before" in sandbox.shfs("init", "--import", name).stdout
    assert len([1 for text, _ in imported(sandbox) if text != "exit"]) == len(wanted)
    sandbox.shfs("check")


def test_secrets_and_search(sandbox, project):
    """Secrets are taken out; search finds the rest; where and how it was run is not claimed."""
    sandbox.write_outside(f"{sandbox.home}/.bash_history", "curl -u me:hunter2-correct x\n#1600000000\nmake all\nsecond line\n#1600000010\nls\n\n")
    assert "3 commands" in sandbox.shfs("init", "--import").stdout
    assert [text for text, _ in imported(sandbox)] == ["curl -u me:[redacted] x", "make all\nsecond line", "ls"]
    assert imported(sandbox)[0][1] == imported(sandbox)[1][1] == "2020-09-13T12:26:40.000000000Z"
    assert not sandbox.sh(f"grep -r hunter2 {sandbox.store}", check=False).stdout
    assert "make all" in sandbox.shfs("search", "make").stdout
    [command] = [c for c in json.loads(sandbox.shfs("history", "--all", "--json").stdout)["commands"] if c["text"] == "ls"]
    assert command["end"] is None and command["status"] is None
    assert sandbox.shfs("show", command["id"]).stdout.count("not recorded") == 2
    for verb in "reindex", "check", "stats":
        sandbox.shfs(verb)
    assert len(imported(sandbox)) == 3
    sandbox.shfs("forget", "--yes", "--grep", "make all")
    assert len(imported(sandbox)) == 2


def test_bad_input(sandbox, project):
    """Files that no shell wrote, and none at all."""
    assert "no history" in sandbox.shfs("init", "--import", check=NOT_FOUND).stderr
    assert "wants a shell" in sandbox.shfs("init", check=USAGE).stderr
    assert "wants the shell" in sandbox.shfs("init", "--import=x", check=USAGE).stderr
    assert "bash, zsh and fish" in sandbox.shfs("init", "--import", "ksh", check=USAGE).stderr
    assert "No such file" in sandbox.shfs("init", "--import=/nonexistent", "zsh", check=1).stderr
    for n, data in enumerate((b"", b"\n\n#\n#12x\n", os.urandom(5000), b"\x83", b"\\", b": 5:", b"- cmd: \\", b"\0\x1e\0B1\0\n" * 9)):
        for name in "bash", "zsh", "fish":
            path = f"{sandbox.home}/{n}.{name}"
            with open(path, "wb") as file:
                file.write(data)
            os.chmod(path, 0o644)
            sandbox.shfs("init", f"--import={path}", name)
    sandbox.shfs("history", "--all")
    sandbox.shfs("check")
