# SPDX-License-Identifier: MIT
"""The form of *.break files, and how an edit finds its place by a function and a few words.

    Fails: FILE::TEST       what must notice the break; then, for each edit:

    In: PATH, FUNCTION      where; without a function anywhere in the file
    Replace: WORDS          stand there exactly once, whatever the blanks and line ends between them
    With: OTHERS            or nothing

A line that begins with a blank goes on with the line above it. A function that is not at PATH any
more, or a whole file that has gone, is looked for in all files of its kind."""

import collections
import os
import re

Edit = collections.namedtuple("Edit", "path function words others")


class Misplaced(Exception):
    """An edit that does not find its place, or a file that has another form."""


def read(path):
    with open(path, encoding="utf-8", errors="surrogateescape", newline="") as file:
        return file.read()


def write(path, text):
    with open(path, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
        file.write(text)


def parse(text):
    """(the test, its edits)"""
    test = re.match(r"Fails: (\S+::.+)\n", text)
    if not test:
        raise Misplaced("the first line must be Fails: FILE::TEST")
    one = r"\nIn: ([^,\n]+)(?:, (\w+))?\nReplace: (.+(?:\n[ \t].*)*)\nWith:(.*(?:\n[ \t].*)*)\n"
    if not re.fullmatch(f"(?:{one})+", text[test.end():]):
        raise Misplaced("wants In:, Replace: and With: for each edit, and an empty line before each")
    return test[1], [Edit(*found) for found in re.findall(one, text[test.end():])]


def pattern_of(words):
    """The words with any blanks between them, and not as a part of longer ones."""
    tokens = re.findall(r"\w+|\S", words)
    begin, end = r"\b" if re.match(r"\w", tokens[0]) else "", r"\b" if re.match(r"\w", tokens[-1]) else ""
    return re.compile(begin + r"\s*".join(map(re.escape, tokens)) + end)


def definitions(text, function):
    """Where those of a function of C begin and end: all of the text without a name."""
    if not function:
        return [(0, len(text))]
    found = re.finditer(rf"^(?:\w[^\n;{{}}()]*[ *])?{function}\([^;{{}}]*\n\{{\n.*?^\}}", text, re.M | re.S)
    return [match.span() for match in found]


class Tree:
    """The sources below a folder, which edits change in memory until they are written."""

    def __init__(self, top):
        self.top, self.paths, self.before, self.now = top, [], {}, {}
        for folder, dirs, names in os.walk(top):
            dirs[:] = [d for d in dirs if not re.match(r"build|\.git$|node_modules", d)]
            self.paths += [os.path.relpath(os.path.join(folder, name), top) for name in sorted(names)]

    def text(self, path):
        if path not in self.now:
            self.before[path] = self.now[path] = read(os.path.join(self.top, path))
        return self.now[path]

    def places(self, paths, edit):
        """Whether any of the files has the function, and each (path, match) of the words there."""
        spans = [(path, span) for path in paths for span in definitions(self.text(path), edit.function)]
        return bool(spans), [(path, m) for path, span in spans for m in pattern_of(edit.words).finditer(self.text(path), *span)]

    def apply(self, edit):
        kind = [path for path in self.paths if path.endswith(os.path.splitext(edit.path)[1])]
        there, found = self.places([path for path in kind if path == edit.path], edit)
        if not there:
            there, found = self.places(kind, edit)
        if len(found) != 1:
            others = self.places(kind, edit._replace(function=""))[1]
            lines = [f"{path}:{self.text(path).count(chr(10), 0, m.start()) + 1}" for path, m in others[:4]]
            where = f"{edit.function or edit.path} has them {len(found)} times" if there else f"there is no {edit.function}"
            raise Misplaced(f"'{edit.words}': {where}; they stand in {', '.join(lines) or 'no file'}")
        path, match = found[0]
        text = self.text(path)
        self.now[path] = text[:match.start()] + edit.others.strip() + text[match.end():]

    def changed(self):
        return [path for path in self.now if self.now[path] != self.before[path]]

    def write(self):
        for path in self.changed():
            write(os.path.join(self.top, path), self.now[path])

    def revert(self):
        for path in self.changed():
            write(os.path.join(self.top, path), self.before[path])
        self.forget()

    def forget(self):
        self.now = dict(self.before)
