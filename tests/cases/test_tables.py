# SPDX-License-Identifier: MIT
"""Tables: --output of any columns, in any order, is what --json says of the same rows; names are escaped as elsewhere,
columns stand below each other, and nothing is cut but on a terminal."""

import datetime
import json
import random
import re
import unicodedata

import pytest

from harness import seeds
from test_cli import output, terminal
from test_trees import record

assert terminal  # a fixture
pytestmark = pytest.mark.users("ordinary")

RIGHT = {"duration", "status", "n", "versions", "size", "score", "times", "generation", "pulled", "try", "made", "changed", "removed", "conflicts"}
NAMES = ["plain", "new\nline", "tab\there", "esc\x1b[31m", "漢字 wide", "ünï", "e\u0301 combined", "bidi\u202e", "back\\slash", "-dash", "x" * 90]
LINES = [
    "for f in *; do cat -- \"$f\" >> /dev/null; done",
    "echo one > a; echo two > a; echo three > a; echo 漢字 | cat a - > b",
    "i=0; while [ $i -lt 5 ]; do echo $i >> loop; i=$((i + 1)); done",
    "cp a $'bad\\xffname'; cp a $'new\\nline'; mv b b2; cp a b; rm b",
    "false # a text\nof two lines",
    " echo hidden",
    "exit 3 | cat",
]


# --- an oracle: the text of a cell, by what --json has ---


def escaped(text):
    letters = {7: "a", 8: "b", 9: "t", 10: "n", 11: "v", 12: "f", 13: "r", 27: "e"}
    out = ""
    for char in text:
        code = ord(char)
        if 0xDC80 <= code <= 0xDCFF:
            out += f"\\x{code - 0xDC00:02x}"
        elif code in letters:
            out += "\\" + letters[code]
        elif code < 32 or code == 127:
            out += f"\\x{code:02x}"
        elif 0x80 <= code < 0xA0 or 0x202A <= code <= 0x202E:
            out += f"\\u{{{code:x}}}"
        else:
            out += char
    return out


def nanoseconds(time):
    whole, rest = time.rstrip("Z").split(".")
    seconds = datetime.datetime.fromisoformat(whole + "+00:00").timestamp()
    return int(seconds) * 10**9 + int(rest)


def clock(time):
    return time and time[:19].replace("T", " ")


def duration(one):
    ns = nanoseconds(one["end"]) - nanoseconds(one["begin"])
    assert 0 <= ns < 10**10
    return f"{ns / 1e9:.{2 if ns < 10**9 else 1}f} s"


def size(number):
    assert number < 1024
    return f"{number} B"


def tagged(one):
    note = one["note"] and escaped(one["note"].split("\n")[0]) + (" …" if "\n" in one["note"] else "")
    return "  ".join(filter(None, (" ".join("#" + escaped(tag) for tag in one["tags"]), note)))


def named(path, n, project):
    return escaped(path.removeprefix(project + "/")) + f"@{n}"


def of_command(one):
    """The cells of a member "command", or of an element of "commands"."""
    one = one or {}
    cells = {name: one.get(name) for name in ("status", "session", "host", "invoker")}
    cells["id"] = one.get("id")
    cells["begin"], cells["end"] = clock(one.get("begin")), clock(one.get("end"))
    cells["duration"] = duration(one) if one.get("end") else None
    cells["cwd"] = one.get("cwd")
    cells["text"] = one.get("text")
    return {name: value if value is None else escaped(str(value)) for name, value in cells.items()}


def of_history(one, project):
    cells = of_command(one)
    for name, member in ("wrote", "made"), ("read", "read"):
        cells[name] = ", ".join(named(file["path"], file[member], project) for file in one["files"] if member in file)
    return cells | {"note": tagged(one)}


def of_log(one, project):
    gone = [f"renamed to {escaped(g['to'].removeprefix(project + '/'))}" if g["what"] == "rename" else "deleted" for g in one["gone"]]
    return of_command(one["command"]) | {
        "n": one["n"], "versions": 1, "path": escaped(one["path"]), "time": clock(one["time"]), "size": size(one["size"]),
        "mode": one["mode"], "mtime": clock(one["mtime"]), "source": one["source"], "object": one["object"],
        "origin": named(one["origin"]["path"], one["origin"]["n"], project) if "origin" in one else None,
        "not_archived": one["not_archived"], "gone": ", ".join(gone), "note": tagged(one),
    }  # fmt: skip


def of_search(one, project):
    cells = {"kind": one["kind"], "score": one["score"]}
    if one["kind"] == "command":
        note = tagged(one)
        return of_command(one) | cells | {
            "time": clock(one["begin"]), "times": one["times"], "note": note,
            "found": escaped(one["text"]) + (f"  # {note}" if note else ""),
        }  # fmt: skip
    notes = "  ".join(f"@{note['n']} {tagged(note)}" for note in one["notes"])
    return cells | {
        "id": "-------", "time": clock(one["time"]), "path": escaped(one["path"]), "n": one["n"], "note": notes,
        "present": "yes" if one["present"] else "no", "found": named(one["path"], one["n"], project) + (f"  # {notes}" if notes else ""),
    }  # fmt: skip


def of_note(one, _project):
    return {
        "command": one["command"], "path": one["path"] and escaped(one["path"]), "n": one["n"], "time": clock(one["time"]),
        "tags": " ".join("#" + escaped(tag) for tag in one["tags"]), "note": one["note"] and escaped(one["note"]),
    }  # fmt: skip


def of_remote(one, _project):
    return {
        "name": one["name"], "url": escaped(one["url"]), "encrypted": "yes" if one["encrypted"] else "no",
        "generation": one["generation"], "pushed": clock(one["pushed"]), "pulled": one["pulled"],
    }  # fmt: skip


def of_try(one, _project):
    kinds = [change["change"] for change in one["changes"]]
    return {name: escaped(one[name]) for name in ("command", "project")} | {
        "try": one["try"], "began": clock(one["began"]), "ended": clock(one["ended"]), "status": one["status"],
        "running": "yes" if one["running"] else "no", "made": kinds.count("made"), "removed": kinds.count("removed"),
        "changed": len(kinds) - kinds.count("made") - kinds.count("removed"),
        "conflicts": sum(change["conflict"] is not None for change in one["changes"]),
    }  # fmt: skip


# --- an oracle: a table, by its cells ---


def width(text):
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def table(columns, rows):
    lines = [[name.upper() for name in columns]]
    lines += [["" if row.get(name) is None else str(row[name]) for name in columns] for row in rows]
    widths = [max(map(width, cells)) for cells in zip(*lines)]
    text = ""
    for cells in lines:
        for i, (name, cell) in enumerate(zip(columns, cells)):
            blanks = " " * (widths[i] - width(cell))
            last = i == len(columns) - 1
            text += cell if last and not cell else blanks + cell if name in RIGHT else cell + blanks * (not last)
            text += "\n" if last else "  "
    return text


# --- the tests ---


@pytest.fixture
def kept(sandbox):
    """A project with names and texts of all kinds, notes, and a remote."""
    for name in NAMES:
        sandbox.write(name, name + "\n")
    record(sandbox, *LINES)
    sandbox.shfs("note", "a@1", "-t", "fig2", "the good\none")
    sandbox.shfs("note", "a@2", "漢字")
    last = json.loads(sandbox.shfs("history", "--json", "--all").stdout)["commands"]
    sandbox.shfs("note", next(c["id"] for c in last if c["text"] and "loop" in c["text"]), "a loop")
    for name in "near", "far":
        sandbox.shfs("remote", "add", name, f"{sandbox.home}/{name}")
    sandbox.shfs("push", "near")
    return sandbox


# a command, its list in --json, what of its cells, and names of all columns
LISTS = [
    (["history", "--all"], "commands", of_history),
    (["log", "--all", "a"], "versions", of_log),
    (["log", "--all", "b"], "versions", of_log),
    (["log", "new\nline"], "versions", of_log),
    (["search", "-a", ""], "found", of_search),
    (["search", "'good"], "found", of_search),
    (["note"], "notes", of_note),
    (["remote", "list"], "remotes", of_remote),
]


def columns_of(shfs, command):
    text = shfs(command, "--help").stdout.split("\nColumns of --output")[1].split("\n\n")[0]
    return re.findall(r"^  (\w+) ", text, re.M)


@pytest.mark.parametrize("seed", seeds(1, 30))
def test_columns_are_what_json_says(kept, seed):
    chance = random.Random(seed)
    known = {command: columns_of(kept.shfs, command) for command in ("history", "log", "search", "note", "remote")}
    seen = set()
    for args, key, cells in LISTS:
        found = json.loads(kept.shfs(*args, "--json").stdout)[key]
        rows = [cells(one, kept.project) for one in found]
        # those with a process of no command have an argv and no text
        processes = {i for i, one in enumerate(found) if key == "commands" and not one["id"]}
        assert rows and len(processes) < len(rows)
        ids = {row[name]: row[name][:7] for row in rows for name in ("id", "command") if row.get(name)}
        for row in rows:
            for name in "id", "command":
                row[name] = row.get(name) and ids[row[name]]
        for _ in range(2):
            columns = chance.sample(known[args[0]], chance.randint(1, 7)) + chance.sample(known[args[0]], chance.randint(0, 1))
            if processes and "text" in columns:
                columns = [name for name in columns if name != "text"] or ["host"]
            seen |= {(args[0], name) for name in columns}
            shown = kept.shfs(*args, chance.choice(["-o", "--output"]), ",".join(chance.choice([str, str.upper])(name) for name in columns))
            assert shown.stdout == table(columns, rows), (args, columns)
            # names and their widths do not depend on the locale, signs do
            shown = kept.shfs(*args, "-o", ",".join(columns), env={"LC_ALL": "C"})
            signs = [{name: cell and str(cell).replace("…", "...") for name, cell in row.items()} for row in rows]
            assert shown.stdout == table(columns, signs), (args, columns)
    assert len(seen) > 20


@pytest.mark.parametrize("seed", seeds(1, 30))
def test_what_is_tried(sandbox, mounted, seed):
    chance = random.Random(seed)
    sandbox.write("a", "1\n")
    sandbox.write("b", "2\n")
    for line in "echo 2 > a; echo 漢字 > new; rm b", "echo \x1b[31m > c; exit 3", "echo a line\necho another > a":
        sandbox.shfs("try", "sh", "-c", line, check=False)
    sandbox.write("a", "changed meanwhile\n")
    rows = [of_try(one, sandbox.project) for one in json.loads(sandbox.shfs("try", "list", "--json").stdout)["tries"]]
    assert len(rows) == 3 and sum(row["conflicts"] for row in rows) == 2
    names = columns_of(sandbox.shfs, "try")
    for _ in range(6):
        columns = chance.sample(names, chance.randint(1, len(names)))
        assert sandbox.shfs("try", "list", "-o", ",".join(columns)).stdout == table(columns, rows), columns
    for args in ["try", "-o", "try", "true"], ["try", "diff", "-o", "try"], ["try", "list", "-o", "nosuch"]:
        assert "--output" in sandbox.shfs(*args, check=2).stderr
    for _ in rows:
        sandbox.shfs("try", "drop")
    assert sandbox.shfs("try", "list", "-o", "try").stdout == ""


def test_usual_columns_and_more(kept):
    for args in ["history"], ["log", "a"], ["search", ""], ["note"], ["remote"]:
        text = kept.shfs(args[0], "--help").stdout
        usual = re.search(r"\(usual: ([\w,]+)\)", text)[1]
        names = columns_of(kept.shfs, args[0])
        assert set(usual.split(",")) < set(names) or set(usual.split(",")) == set(names)
        for name in random.Random(len(names)).sample(names, 2):
            more = kept.shfs(*args, "-o", f"+{name}").stdout
            assert more == kept.shfs(*args, "-o", f"{usual},{name}").stdout and more.split("\n")[0].split()[-1] == name.upper()
    # without the option, remotes are a table, matches are one without a heading, and others are no table
    assert kept.shfs("remote").stdout == kept.shfs("remote", "-o", "name,url,encrypted,pushed,pulled").stdout
    assert kept.shfs("search", "-l", "").stdout.splitlines()[0] == kept.shfs("search", "-o", "id,time,found", "").stdout.splitlines()[1]
    assert "BEGIN" not in kept.shfs("history").stdout and "TEXT" not in kept.shfs("log", "a").stdout + kept.shfs("note").stdout


def test_folds_and_terminals(kept, terminal):
    # a fold has its number
    rows = [line.split() for line in kept.shfs("log", "-o", "n,versions", "loop").stdout.splitlines()]
    assert rows == [["N", "VERSIONS"], ["5", "5"]]
    assert len(kept.shfs("log", "--all", "-o", "n", "loop").stdout.splitlines()) == 6
    assert [line.strip() for line in kept.shfs("log", "-n2", "-r", "-o", "n", "a").stdout.splitlines()[1:]] == ["1", "2"]
    # on a terminal nothing is cut: that would be another name
    long = kept.shfs("history", "--all", "-o", "id,text,status,cwd").stdout
    assert max(map(width, long.splitlines())) > 120
    assert output(terminal("history", "--all", "-o", "id,text,status,cwd", columns=70)) == long
    assert output(terminal("log", "a", "-o", "object,object,begin", columns=50)) == kept.shfs("log", "a", "-o", "object,object,begin").stdout


def test_what_is_refused(kept):
    for args in ["history"], ["log", "a"], ["search", ""], ["note"], ["remote"]:
        names = columns_of(kept.shfs, args[0])
        bad_lists = ["", ",", "nosuch", f"{names[0]},", f"{names[0]},,{names[1]}", f"-{names[0]}", "+", f"{names[0]},+{names[1]}", "\x1b[31m"]
        for bad in bad_lists if args == ["log", "a"] else ["nosuch"]:
            result = kept.shfs(*args, "-o", bad, check=2)
            assert result.stdout == "" and "\x1b" not in result.stderr
            assert f"  hint: columns: {', '.join(names)}\n" in result.stderr, result
        assert "--json" in kept.shfs(*args, "-o", names[0], "--json", check=2).stderr
        if args != ["log", "a"]:
            continue
        assert "at most 64" in kept.shfs(*args, "-o", ",".join([names[0]] * 65), check=2).stderr
        assert kept.shfs(*args, "-o", ",".join([names[0]] * 64)).stdout.splitlines()[0].split() == [names[0].upper()] * 64
    name, url = kept.path, f"{kept.home}/other"
    for args in ["log", "-p", "a"], ["log", "-i", "a"], ["search", "-i", ""], ["search", "--shell", "bash"], ["note", "-d", "a@1"], \
            ["note", "a@1", "text"], ["note", "-t", "x", "a@1"], ["remote", "add", name, url], ["remote", "check"], ["remote", "remove", "far"]:  # fmt: skip
        assert "--output" in kept.shfs(*args, "-o", columns_of(kept.shfs, args[0])[0], check=2).stderr, args
    assert len(json.loads(kept.shfs("remote", "--json").stdout)["remotes"]) == 2
    assert kept.shfs("history", "-o", "id", "--grep", "nothing has this", check=3).stdout == ""
    assert kept.shfs("log", "-o", "n", "nosuch", check=3).stdout == ""
