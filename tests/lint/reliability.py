# SPDX-License-Identifier: MIT
"""The overview in docs/RELIABILITY.md, one line for each page of docs/reliability: ./dev map."""

import glob
import os
import re

import filemap

OVERVIEW = "docs/RELIABILITY.md"
HEADINGS = ["How it is held", "How it was tried", "The command", "What broke it"]
TABLE = "| | fault | promise |\n|---|---|---|\n"


def pages():
    return sorted(glob.glob("docs/reliability/F*.md"))


def row(path):
    """The fault is the title, the promise the first sentence."""
    title = re.match(r"# (F\d+): (.*)\n", filemap.read(path))
    number, fault = title.groups() if title else ("", "")
    return f"| [{number}]({os.path.relpath(path, 'docs')}) | {fault} | {filemap.first_sentence(path)} |\n"


def make():
    """What stands before the table is written by hand."""
    return filemap.read(OVERVIEW).split(TABLE)[0] + TABLE + "".join(map(row, pages()))


def section(text, heading):
    return re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", text, re.M | re.S)[1]


def names_missing(text):
    """FILE, or NAME of FILE, of each test on the page that is not there: an item is `FILE`: `NAME`, ..."""
    for item in re.findall(r"^\* `(\w+\.\w+)`((?:.*\n(?:  .*\n)*))", text, re.M):
        source = next(glob.iglob(f"tests/**/{item[0]}", recursive=True), None)
        if not source:
            yield item[0]
            continue
        words = set(re.findall(r"\w+", filemap.read(source)))
        begins = [name for name in re.findall(r"`(\w+\*?)`", item[1]) if name.rstrip("*") not in words]
        yield from (f"{name} of {item[0]}" for name in begins if not name.endswith("*") or not any(w.startswith(name[:-1]) for w in words))


def flaws(path):
    """What a page lacks."""
    text, number = filemap.read(path), os.path.basename(path)[:-3]
    if not re.match(rf"# F{int(number[1:])}: .+\n\n[^#]", text) or re.findall(r"^## (.*)", text, re.M) != HEADINGS:
        yield f"wants its title, the promise, and then {', '.join(HEADINGS)}"
        return
    yield from (f"there is no {name}" for name in names_missing(section(text, HEADINGS[0])))
    edits = {os.path.basename(edit)[len(number) + 1:-len(".break")] for edit in glob.glob(f"tests/broken/{number}-*.break")}
    named = re.search(r"^\* On purpose: ((?:.*\n)(?:  .*\n)*)", section(text, HEADINGS[3]), re.M)
    named = set(re.findall(r"`([\w-]+)`", named[1])) if named else set()
    yield from (f"does not name {edit} of tests/broken" for edit in sorted(edits - named))
    yield from (f"{number}-{name} is not in tests/broken" for name in sorted(named - edits))


def faults_without():
    """The faults that have edits in tests/broken, and no page."""
    faults = {os.path.basename(path)[:3] for path in glob.glob("tests/broken/F*.break")}
    return sorted(fault for fault in faults if not os.path.exists(f"docs/reliability/{fault}.md"))


if __name__ == "__main__":
    made = make()
    with open(OVERVIEW, "w", encoding="utf-8") as out:
        out.write(made)
