#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""docs/MAP.md, made of what each file says of itself first: ./dev map."""

import os
import re
import sys

MAP = "docs/MAP.md"
HEAD = """# Map of all files

Made by `./dev map` of the first sentence of each file; `./dev lint` compares. What a folder is
for, and what it may know, is in its README.md.
"""
MANY = ("docs/reliability/", "tests/data/", "tests/fuzz/corpus/", "tests/cases/stores/", "tests/demo/study/")  # each one line for all below
SKIPPED = re.compile(r"(^|/)(build[\w-]*|\.git|__pycache__|node_modules)(/|$)")


def tree_files():
    for top, dirs, names in os.walk("."):
        dirs[:] = [d for d in sorted(dirs) if not SKIPPED.search(d)]
        for name in sorted(set(names) - {".git"}):
            yield os.path.normpath(os.path.join(top, name))


def read(path):
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        return file.read()


# the first comment of a file, by how its language writes one; after the licence and #!
COMMENTS = (
    ((".c", ".h", ".js", ".mjs", ".css"), r"\s*(?:/\*(.*?)\*/|((?://[^\n]*\n)+))"),
    ((".py",), r'"""(.*?)"""'),
    ((".md",), r"# [^\n]*\n+((?!```)(?:[^\n#|>].*\n)+)"),
    ((".sql",), r"((?:--[^\n]*\n)+)"),
    ((".html",), r"(?:<!doctype[^\n]*\n)?\s*<!--(.*?)-->"),
    (("",), r"((?:#[^\n]*\n)+)"),
)


def first_sentence(path):
    """What a file says of itself, in one line; "" where it says nothing."""
    pattern = next(pattern for endings, pattern in COMMENTS if path.endswith(endings))
    found = re.match(pattern, re.sub(r"^(#compdef.*\n|#!.*\n|# shellcheck.*\n|.*SPDX-License.*\n)+", "", read(path)), re.S)
    text = next((group for group in found.groups() if group), "") if found else ""
    text = " ".join(re.sub(r"^\s*(\*|//|#|--)?\s?", "", line).strip() or "\n" for line in text.strip().splitlines())
    text = text.split("\n")[0].strip()
    text = re.sub(rf"^{re.escape(os.path.basename(path))} - ", "", text)
    return re.split(r"(?<=[a-z)`\"0-9])[.:](?= [A-Z]|$)", text)[0].strip().rstrip(".:")


def described(path):
    """A .c file without a word of its own is told of by the header of the same name."""
    text = first_sentence(path)
    header = re.sub(r"\.c$", ".h", path)
    return text or (header != path and os.path.exists(header) and first_sentence(header)) or ""


def needs_words(path):
    return path.endswith((".c", ".h", ".py", ".sh", ".sql", ".js", ".mjs", ".md")) and path != "NEWS.md"


def entries():
    """{folder: [(name, what it says)]}"""
    found = {}
    for path in tree_files():
        many = next((top for top in MANY if path.startswith(top)), None)
        folder, name = os.path.split(many.rstrip("/") if many else path)
        if path == MAP:
            continue
        if path.endswith(".break"):
            name = "*.break"
        row = (name + ("/" if many else ""), "" if many or name.startswith("*") else described(path))
        rows = found.setdefault(folder, [])
        if row not in rows:
            rows.append(row)
    return found


def make():
    lines = [HEAD]
    for folder, rows in sorted(entries().items()):
        readme = f"{folder}/README.md"
        title = f"[{folder}/](../{readme})" if folder and os.path.exists(readme) else f"{folder}/" if folder else "The top"
        lines += [f"## {title}\n", "| | |", "|---|---|"]
        lines += [f"| `{name}` | {text.replace('|', chr(92) + '|')} |" for name, text in rows if f"{folder}/{name}" != readme]
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    with open(MAP, "w", encoding="utf-8") as out:
        out.write(make())
    silent = [f"{f}/{n}" for f, rows in entries().items() for n, text in rows if not text and needs_words(n)]
    print(*(f"{path} says nothing of itself" for path in silent), sep="\n", file=sys.stderr, end="\n" if silent else "")
