#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes a man page by topic of a page of docs/, for scdoc.

usage: topic.py NAME SECTION SUMMARY PAGE > NAME.SECTION.scd

It takes what these pages use: headings, paragraphs, lists, blocks of code, tables of two columns or more as
paragraphs, code in a line, bold, and links, of which the text stays. What it does not know ends it."""

import re
import sys


def inline(text):
    """A text of Markdown in scdoc's marks."""
    parts = re.split(r"(`[^`]+`|\*\*[^*]+\*\*|\[[^]]+\]\([^)]+\))", text)
    return "".join(map(part, parts))


def escaped(text):
    return re.sub(r"([\\*_#~`<>\[\]])", r"\\\1", text)


def part(text):
    if text.startswith("`"):
        return f"*{escaped(text[1:-1])}*"
    if text.startswith("**"):
        return f"*{escaped(text[2:-2])}*"
    if link := re.fullmatch(r"\[([^]]+)\]\(([^)]+)\)", text):
        return inline(link[1]) + (f" ({escaped(link[2])})" if "://" in link[2] else "")
    return escaped(text)


def table(lines):
    """Each row as an entry: its first column, and below it the others."""
    rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    for first, *others in rows[2:]:
        yield inline(first) + "++"
        yield "\n".join(f"\t{inline(cell)}" for cell in others if cell) + "\n"


def block(text):
    """One piece of the page between empty lines."""
    lines = text.split("\n")
    if heading := re.fullmatch(r"(#+) (.*)", lines[0]):
        return f"# {escaped(heading[2]).upper()}\n" if len(heading[1]) == 2 else f"## {inline(heading[2])}\n"
    if lines[0].startswith("|"):
        return "\n".join(table(lines))
    if re.match(r"[*-] ", lines[0]):
        items = re.split(r"\n[*-] ", text[2:])
        return "".join(f"- {inline(' '.join(item.split()))}\n" for item in items)
    if lines[0].startswith("<"):
        sys.exit(f"topic.py: cannot turn this into a man page: {lines[0]}")
    return "\n".join(inline(line.strip()) for line in lines) + "\n"


def code(text):
    return "```\n" + text.strip("\n").replace("\\", "\\\\") + "\n```\n"


def pieces(page):
    """(is it code, text) in order."""
    for part in re.split(r"(^```\w*\n(?:.|\n)*?^```\n|(?:^    .*\n(?:\n(?=    ))*)+)", page, flags=re.M):
        if part.startswith("```"):
            yield True, re.sub(r"^```\w*\n|```\n$", "", part)
        elif part.startswith("    "):
            yield True, re.sub(r"^    ", "", part, flags=re.M)
        else:
            for text in re.split(r"\n\n+", part.strip("\n")):
                if text:
                    yield False, text


def main():
    name, section, summary, path = sys.argv[1:]
    with open(path, encoding="utf-8") as file:
        title, page = file.read().split("\n", 1)
    if not title.startswith("# "):
        sys.exit(f"topic.py: {path} has no title")
    out = [f"{name}({section})\n", f"# NAME\n\n{name} - {summary}\n", "# DESCRIPTION\n"]
    out += [code(text) if is_code else block(text) for is_code, text in pieces(page)]
    out.append("# SEE ALSO\n\n*shfs*(1), *shfs-tutorial*(7), *shfs-recovery*(7), *shfs-versions*(7)")
    sys.stdout.write("\n".join(out) + "\n")


if __name__ == "__main__":
    main()
