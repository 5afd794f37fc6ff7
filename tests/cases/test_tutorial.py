# SPDX-License-Identifier: MIT
"""docs/tutorial.md: each command in it is typed into a real shell on a real mount, and prints what the page shows.

SHFS_TEST_TUTORIAL_WRITE=1 puts what bash printed into the page."""

import os
import re

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGE = f"{ROOT}/docs/tutorial.md"
BLOCK = re.compile(r"```console\n(.*?)```\n", re.S)

pytestmark = pytest.mark.users("ordinary")


def steps(page):
    """(command, what the page shows of its output), in order."""
    for block in BLOCK.findall(page):
        for step in re.split(r"^\$ ", block, flags=re.M)[1:]:
            line, _, shown = step.partition("\n")
            yield line, shown


class Normal:
    """Ids in the order in which they first appear, one time, one size."""

    def __init__(self):
        self.ids = {}

    def id(self, match):
        number = self.ids.setdefault(match[0][:7], len(self.ids) + 1)
        return f"{0xA0000000 + 0x1234567 * number:08x}"[:7]

    def text(self, text, home):
        text = text.replace(home, "~")
        text = "\n".join(line.rstrip() for line in text.splitlines())
        text = re.sub(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z?", "2026-11-28 10:00:00", text)
        text = re.sub(r"\b\d{4}-\d\d-\d\d\b(?! 10:00)", "2026-11-28", text)
        text = re.sub(r"\b\d+(\.\d+)? (ms|s|min)\b(?! ago)", "0.1 s", text)
        text = re.sub(r"\b(\d+ (seconds?|minutes?)|\d+ ?s(ec)?|\d+ ?min) ago\b|\bjust now\b", "1 minute ago", text)
        text = re.sub(r"(?<![\w.@])[0-9a-f]{7}(?:[0-9a-f]{9})?(?=  |, | \()", self.id, text)  # it may have no letter
        return text + "\n" if text else ""


def filled(page, outputs):
    """The page with these outputs."""
    outputs = iter(outputs)

    def fill(match):
        lines = re.findall(r"^\$ (.*)$", match[1], re.M)
        return "```console\n" + "".join(f"$ {line}\n{next(outputs)}" for line in lines) + "```\n"

    return BLOCK.sub(fill, page)


@pytest.mark.parametrize("kind", ["bash", "zsh"])
def test_the_page_is_what_a_shell_prints(sandbox, shell, kind):
    with open(PAGE, encoding="utf-8") as file:
        page = file.read()
    terminal = shell(kind)
    terminal.run("cd")
    normal = Normal()
    outputs = [normal.text(terminal.run(line), sandbox.home) for line, _ in steps(page)]
    # what was typed into zsh is run again by zsh; else the page is the same for both
    now = filled(page, [output.replace("\nrun 0 zsh ", "\nrun 0 bash ") for output in outputs])
    if "SHFS_TEST_TUTORIAL_WRITE" in os.environ and kind == "bash":
        with open(PAGE, "w", encoding="utf-8") as file:
            file.write(now)
        return
    assert now == page
    assert len(outputs) > 25 and sum(map(bool, outputs)) > 15
