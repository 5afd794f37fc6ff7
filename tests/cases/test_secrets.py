# SPDX-License-Identifier: MIT
"""What is secret in a command is in no file of the store, whoever writes it."""

import glob
import json
import os
import re

import pytest

import harness
from test_hook import commands, log_paths, records, shell_of, start

KINDS = ["bash", "plain bash", "zsh", "plain zsh", "fish"]
EXAMPLES = os.path.join(os.path.dirname(__file__), "..", "secrets")
SECRET = "hunter2hunter2"


def examples(name):
    """(typed, kept) of each line."""
    with open(os.path.join(EXAMPLES, name), encoding="utf-8") as file:
        lines = [line[:-1].replace("{}", "").replace("\\n", "\n") for line in file]
    for line in lines:
        if line and line[0] != "#":
            yield re.sub(r"\{\{|\}\}", "", line), re.sub(r"\{\{.*?\}\}", "[redacted]", line, flags=re.S)


def quoted(shell, text):
    """As a word that only this shell reads, in one line."""
    if shell == "fish":
        return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return "'" + text.replace("'", "'\\''") + "'"


def files_with(top, needle):
    """Files below top that have the bytes in them, compressed ones as they are."""
    found = []
    for path in glob.glob(top + "/**", recursive=True):
        if os.path.isfile(path):
            with open(path, "rb") as file:
                if needle.encode() in file.read():
                    found.append(path)
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_typed(sandbox, shell, kind):
    """The examples, as comments."""
    sh = start(shell, kind, before="setopt interactive_comments\n" if "zsh" in kind else "")
    wanted, wanted_tags = [], []
    for name in "secret.txt", "plain.txt":
        for typed, kept in examples(name):
            if "\n" in typed or "!" in typed or "\\" in typed or "`" in typed:
                continue
            sh.run("true # " + typed)
            wanted.append("true # " + kept)
            wanted_tags.append(b"B1" if typed == kept else b"B2")
    sh.close()
    assert [c[0].decode() for c in commands(records(sandbox))][: len(wanted)] == wanted
    [path] = log_paths(sandbox)
    with open(path, "rb") as log:
        tags = re.findall(rb"\x1e(B\d)\0", log.read())
    assert tags[: len(wanted)] == wanted_tags
