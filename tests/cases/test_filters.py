# SPDX-License-Identifier: MIT
"""What filters select, and in which order, is what a predicate over the whole history says: groups with --or,
--user, --sort, with -n and -r."""

import datetime
import json
import os
import random
import re

import pytest

from harness import seeds

pytestmark = pytest.mark.either

FILES = ["a.csv", "b.csv", "sub/a.csv", "sub/deep/c.txt", "notes.txt"]
STEPS = [
    "echo {n} > {a}",
    "cat {a} > {b}",
    "cp {a} {b}",
    "sort {a} -o {a}",
    "mv {a} {b}",
    "false {n}",
    "true {n}",
    "sh -c 'exit {n}'",
    "cat {a} nothere",
    "sleep 0.0{n}",
    "echo {n} >> {a}; false",
    " echo hidden > {a}",
    "rm -f {a}",
]
DIRECTORIES = [".", "sub", "sub/deep"]
SORTS = ["time", "duration", "status", "cwd", "command", "host"]
DESCENDING = ["time", "duration", "status"]


def nanoseconds(text):
    whole, fraction = re.fullmatch(r"(.*)\.(\d{9})Z", text).groups()
    return int(datetime.datetime.fromisoformat(whole + "+00:00").timestamp()) * 10**9 + int(fraction)


def rows(sandbox, *args):
    return json.loads(sandbox.shfs("history", "--json", *args).stdout)["commands"]


def name_of(row):
    """Of a command, or of a process that belongs to none."""
    return row["id"] or (row["begin"], row["pid"])


def make_history(sandbox, shell, chance):
    sandbox.run("mkdir", "-p", "sub/deep")
    for name in FILES:
        sandbox.write(name, f"{name}\n")  # by no command
    shells = [shell() for _ in range(2)]
    for n in range(30):
        one = chance.choice(shells)
        if chance.random() < 0.2:
            one.run(f"cd {sandbox.project}/{chance.choice(DIRECTORIES)}")
        a, b = (f"{sandbox.project}/{name}" for name in chance.sample(FILES, 2))
        one.run(chance.choice(STEPS).format(a=a, b=b, n=n % 10))
        if chance.random() < 0.2:
            sandbox.write(chance.choice(FILES), f"{n}\n")


class Model:
    def __init__(self, sandbox):
        self.sandbox = sandbox
        self.rows = rows(sandbox, "--all")
        self.busy = {name_of(row) for row in rows(sandbox)}
        self.used = {}  # what other tests are about

    def users(self, option, path):
        if (option, path) not in self.used:
            self.used[option, path] = {name_of(row) for row in rows(self.sandbox, option, path, "--all")}
        return self.used[option, path]

    def of_path(self, path):
        if path not in self.used:
            self.used[path] = {name_of(row) for row in rows(self.sandbox, path, "--all")}
        return self.used[path]

    def atom(self, chance):
        """(words, predicate, kinds): kinds are those that group() looks at."""
        some = chance.choice([row for row in self.rows if row["id"]])
        one = chance.choice(self.rows)
        text = chance.choice(["echo", "cat", "a.csv", "sub/", "false", "1", "%", "never"])
        directory = os.path.normpath(f"{self.sandbox.project}/{chance.choice(DIRECTORIES)}")
        pattern = chance.choice(["^(cp|mv)", r"[0-4]$", "csv.*txt"])
        name = chance.choice([*FILES, "sub", "*.csv"])
        status = chance.choice([0, 1, 3, 127])
        time = nanoseconds(one["begin"])
        me, other = self.sandbox.user.uid, 4242
        return chance.choice([
            (["--grep", text], lambda row: text in (row["text"] or ""), {"text"}),
            (["--regex", pattern], lambda row: re.search(pattern, row["text"] or ""), {"text"}),
            (["--cwd", directory], lambda row: (row["cwd"] + "/").startswith(directory + "/"), set()),
            (["--status", str(status)], lambda row: row["status"] == status, {"failed", "command"} if status else {"command"}),
            (["--status", f"!{status}"], lambda row: row["status"] not in (None, status), {"command"} if status else {"failed", "command"}),
            (["--failed"], lambda row: row["status"], {"failed", "command"}),
            (["--since", one["begin"]], lambda row: nanoseconds(row["begin"]) >= time, set()),
            (["--until", one["begin"]], lambda row: nanoseconds(row["begin"]) < time, set()),
            (["--session", some["session"][:9]], lambda row: row["session"] == some["session"], {"command"}),
            (["--command", some["id"][:9]], lambda row: row["id"] == some["id"], {"command"}),
            (["--here"], lambda row: True, set()),
            (["--host", "elsewhere"], lambda row: False, set()),
            (["--by", "shell"], lambda row: row["invoker"] is None, {"command"}),
            (["--user", str(me)], lambda row: True, set()),
            (["--user", str(other)], lambda row: False, set()),
            (["--read", name], lambda row: name_of(row) in self.users("--read", name), {"files"}),
            (["--wrote", name], lambda row: name_of(row) in self.users("--wrote", name), {"files"}),
        ])

    def group(self, chance):
        """(words, predicate)"""
        atoms, commands = [], []
        for _ in range(chance.choice([1, 1, 2, 3])):
            atom = self.atom(chance)
            (commands if atom[0][0] == "--command" else atoms).append(atom)
        kinds = set().union(*(atom[2] for atom in atoms + commands))

        def holds(row, all, paths):
            if not (all or "failed" in kinds and row["id"] or name_of(row) in self.busy or not row["id"]):
                return False
            if not row["id"] and (kinds & {"text", "command"} or not (all or paths or "files" in kinds)):
                return False
            return all_of(row)

        def all_of(row):
            return all(atom[1](row) for atom in atoms) and (not commands or any(atom[1](row) for atom in commands))

        return [word for atom in atoms + commands for word in atom[0]], holds

    def ask(self, chance):
        groups = [self.group(chance) for _ in range(chance.choice([1, 2, 2, 3]))]
        paths = chance.sample(["sub", "a.csv", "."], chance.choice([0, 0, 0, 1, 2]))
        everything, reverse = chance.random() < 0.3, chance.random() < 0.4
        key = chance.choice(SORTS)
        limit = chance.choice([None, None, 1, 3, 7])
        words = []
        for n, (more, _) in enumerate(groups):
            words += (["--or"] if n else []) + more
        words += ["--all"] * everything + ["-r"] * reverse
        words += [] if key == "time" and chance.random() < 0.5 else ["--sort", key]
        words += ["-n", str(limit)] if limit else []
        found = [
            row for row in self.rows
            if (not paths or any(name_of(row) in self.of_path(path) for path in paths))
            and any(holds(row, everything, paths) for _, holds in groups)
        ]
        return [*words, *paths], self.ordered(found, key, reverse)[:limit]

    def ordered(self, found, key, reverse):
        """Rows are those of the whole history: the newest first."""
        def value(row):
            if key == "time":
                return 0
            if key == "duration":
                return row["end"] and nanoseconds(row["end"]) - nanoseconds(row["begin"])
            if key == "command":
                text = row["text"] if row["id"] else " ".join(row["argv"])
                return text if text is None else text.encode()
            return row[key]

        found = found[::-1] if reverse else found[:]
        without = [row for row in found if value(row) is None]
        found = [row for row in found if value(row) is not None]
        if key != "time":
            found.sort(key=value, reverse=(key in DESCENDING) != reverse)  # stable, also then
        return found + without


@pytest.mark.users("ordinary")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", seeds(2, 60))
def test_like_a_predicate(sandbox, mounted, shell, seed):
    chance = random.Random(seed)
    make_history(sandbox, shell, chance)
    model = Model(sandbox)
    for _ in range(60):
        words, expected = model.ask(chance)
        assert list(map(name_of, rows(sandbox, *words))) == list(map(name_of, expected)), (seed, words)


@pytest.mark.users("ordinary")
def test_text_has_that_order(sandbox, work):
    """Also with a gap's line, and a limit."""
    for line in ("sh -c 'exit 3' > x", "echo b > a; false", "cat a > c"):
        work.run(line)
    shown = sandbox.shfs("history", "--sort", "status", "--failed", "--or", "-g", "cat").stdout
    first = [entry.splitlines()[0].split("  ", 1)[1] for entry in shown.split("\n\n")]
    assert first == ["sh -c 'exit 3' > x", "echo b > a; false", "cat a > c"]
    assert sandbox.shfs("history", "-n", "2", "--sort", "status", "-r").stdout.count("\n\n") == 1


@pytest.mark.users("ordinary")
def test_bad_expressions(sandbox, work):
    work.run("echo > a")
    for words in (["--or"], ["--or", "-g", "a"], ["-g", "a", "--or"], ["-g", "a", "--or", "--or", "-g", "b"]):
        assert sandbox.shfs("history", *words, check=2).stderr == "shfs: --or stands between conditions\n"
    assert sandbox.shfs("history", "--sort", "size", check=2).stderr.startswith("shfs: --sort size:")
    for user in ("", "nobody-of-that-name", "-1", "4294967295", "1x"):
        assert sandbox.shfs("history", f"--user={user}", check=2).stderr.startswith("shfs: --user")
    assert sandbox.shfs("history", "--user", "root", "--or", "--user", "1", check=False).status in (0, 3)
