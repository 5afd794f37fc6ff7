# SPDX-License-Identifier: MIT
"""Several installs in one shell (below /usr/local and ~/.local, of one version or two): whichever
was loaded last records, each line once, and no shell dies of it."""

import glob
import itertools
import os
import shlex
import shutil
import socket
import subprocess

import pytest

import harness
from test_hook import ENDED, Begin, octets, records
from test_hook_beside import DIRENV, PREEXEC, STARSHIP

pytestmark = [pytest.mark.users("ordinary"), pytest.mark.timeout(120)]

HERE = os.path.dirname(os.path.abspath(__file__))
OTHERS = {"": "", "others": "unset HISTCONTROL\n" + PREEXEC + DIRENV % "bash" + STARSHIP}


class Installs:
    """Copies of what is installed, each with a store of its own: "a" and "b" are this version, "old"
    is what older ones do, "plain" has nothing that is compiled."""

    def __init__(self, sandbox, kind):
        self.sandbox, self.kind = sandbox, kind

    def __call__(self, name):
        prefix = os.path.join(self.sandbox.path, name)
        if not os.path.isdir(prefix):
            self.copy(name, prefix)
        end = "| source" if self.kind == "fish" else ""
        init = f"{prefix}/bin/shfs init {self.kind}"
        line = f"{init} {end}" if end else f'eval "$({init})"'
        return f"export SHFS_STORE={self.store(name)}; {line}" if not end else f"set -gx SHFS_STORE {self.store(name)}; {line}"

    def copy(self, name, prefix):
        os.makedirs(os.path.join(prefix, "bin"))
        shutil.copy(os.path.join(harness.PREFIX, "bin/shfs"), os.path.join(prefix, "bin"))
        shutil.copytree(os.path.join(harness.PREFIX, "libexec/shfs"), os.path.join(prefix, "libexec/shfs"))
        for found in glob.glob(harness.PREFIX + "/lib/**/shfs*.so", recursive=True):
            place = os.path.join(prefix, os.path.relpath(found, harness.PREFIX))
            os.makedirs(os.path.dirname(place), exist_ok=True)
            if name == "old" and self.kind == "bash":
                self.compile_old(place)
            elif name != "plain":
                shutil.copy(found, place)

    def compile_old(self, place):
        with open(os.path.join(HERE, "older.c"), encoding="utf-8") as source:
            text = source.read()
        flags = subprocess.run(["pkg-config", "--cflags", "bash"], capture_output=True, text=True, check=False)
        if flags.returncode:
            pytest.skip("the headers of bash are not installed")
        shutil.copy(self.sandbox.compile("older", text, "-w", "-shared", *shlex.split(flags.stdout)), place)

    def store(self, name):
        return os.path.join(self.sandbox.home, f"store-{name}")

    def commands_of(self, name):
        """What its hook has told, in order; the number that it begins with is another's."""
        [path] = glob.glob(os.path.join(self.store(name), "journal", socket.gethostname(), "shell-*.log"))
        found = records(self.sandbox, path)
        return [r for r in found if isinstance(r, (Begin, *ENDED))]

    def dots_of_old(self):
        found = glob.glob(os.path.join(self.store("old"), "journal", socket.gethostname(), "older"))
        return sum(map(os.path.getsize, found))


def check_last(sh, installs, last, names):
    """Lines of all kinds are the last one's, once each, and nobody else's."""
    before = {name: len(installs.commands_of(name)) for name in names if name not in ("old", last)}
    dots = installs.dots_of_old() if "old" in names else 0
    lines = ["true here", "for i in 1 2\ndo true\ndone", "sh -c 'exit 3'"]
    for line in lines:
        sh.run(line)
    for name, n in before.items():
        assert len(installs.commands_of(name)) == n, (name, installs.commands_of(name))
    if last == "old":
        assert installs.dots_of_old() == dots + len(lines)
        return
    assert "old" not in names or installs.dots_of_old() == dots
    made = installs.commands_of(last)[-2 * len(lines) :]
    numbers = [int(r.number) for r in made]
    assert numbers == [n for i in range(len(lines)) for n in [numbers[0] + i] * 2]
    told = lines if last != "plain" else [lines[0], "for i in 1 2; do true; done", lines[2]]
    assert [(b.text, int(f.status)) for b, f in zip(made[::2], made[1::2])] == [
        (octets(line), status) for line, status in zip(told, (0, 0, 3))
    ]


ORDERS = ["a b", "b a b", "a a", "old a", "a old", "a old a", "old a old", "a b old b a", "old a old b old a",
          "plain a", "a plain a", "plain a plain"]  # fmt: skip


def some(n, combinations):
    """Each n-th, n having no part in common with the numbers of values: so each value comes; or all."""
    return combinations if harness.ALL else combinations[::n]


@pytest.mark.parametrize("order, place, others", some(5, list(itertools.product(ORDERS, ["rc", "typed", "both"], OTHERS))))
def test_bash_with_several_installs(sandbox, shell, order, place, others):
    installs, names = Installs(sandbox, "bash"), order.split()
    begun = {"rc": len(names), "typed": 1, "both": 2}[place]
    rc = "\n".join(installs(name) for name in names[:begun]) + "\n"
    sh = shell("bash", init=False, after=rc + OTHERS[others])
    check_last(sh, installs, names[begun - 1], set(names[:begun]))
    for i in range(begun, len(names)):
        sh.run(installs(names[i]))
        check_last(sh, installs, names[i], set(names[: i + 1]))
    sh.run("set +o emacs")
    check_last(sh, installs, names[-1], set(names))
    sh.run("set -o vi")
    check_last(sh, installs, names[-1], set(names))
    assert sh.run("echo $((20 + 3))") == "23"


@pytest.mark.parametrize("kind", ["zsh", "fish"])
@pytest.mark.parametrize("place", ["rc", "typed"])
@pytest.mark.parametrize("order", ["a b", "b a b", "a a"])
def test_several_installs(sandbox, shell, kind, order, place):
    installs, names = Installs(sandbox, kind), order.split()
    begun = len(names) if place == "rc" else 1
    sh = shell(kind, init=False, after="\n".join(installs(name) for name in names[:begun]) + "\n")
    for i in range(begun, len(names) + 1):
        before = {name: len(installs.commands_of(name)) for name in names[:i] if name != names[i - 1]}
        sh.run("true here")
        sh.run("false")
        for name, n in before.items():
            assert len(installs.commands_of(name)) == n
        made = installs.commands_of(names[i - 1])[-4:]
        assert [r.text for r in made[::2]] == [b"true here", b"false"]
        assert [int(r.status) for r in made[1::2]] == [0, 1]
        if i < len(names):
            sh.run(installs(names[i]))


def test_the_command_that_loads_another_has_an_end(sandbox, shell):
    """Both write to one log, as they do for one user."""
    installs = Installs(sandbox, "bash")
    same = [installs(name).partition("; ")[2] for name in ("a", "b")]
    sh = shell("bash", init=False, after=same[0] + "\n")
    lines = ["true", same[1] + "; sh -c 'exit 4'", "false", same[0], "true"]
    for line in lines:
        sh.run(line)
    found = [r for r in records(sandbox) if isinstance(r, (Begin, *ENDED))]
    assert [int(r.number) for r in found] == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert [int(r.status) for r in found[1::2]] == [0, 4, 1, 0, 0]
    assert [r.text for r in found[::2]] == [octets(line) for line in lines]
