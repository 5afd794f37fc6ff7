#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes the pictures of the README: the demo as a terminal that plays (SVG), and the page of that study (PNG).

usage: cast.py DIR OUT    DIR holds install/; OUT gets cast.svg and page.png

Ids and times of the cast are always the same, so it changes only when what shfs prints does. Its home is
/tmp/shfs-demo, as the page shows paths; run it as an ordinary user."""

import html
import io
import os
import re
import subprocess
import sys
from contextlib import redirect_stdout

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, f"{HERE}/../cases"]

import browser  # noqa: E402
import demo  # noqa: E402

COLUMNS, LINE, WIDTH = 84, 17, 8.4
ROWS = 34  # what the window shows
TYPED, SHOWN, SECTION = 0.9, 0.06, 1.6  # seconds: after a typed line, after a shown one, after a section
PROMPT = re.compile(r"^(~[\w/]*[$#]) (.*)$")
ID = re.compile(r"(?<![\w.@])[0-9a-f]{7}(?=  )")  # a command's text is behind it
TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")


def normal(text):
    """The text with ids by their order, and one time."""
    ids = {}

    def number(match):
        return ids.setdefault(match[0], f"{0xA3F19C + 0x9E3779 * (len(ids) + 1):07x}"[-7:])

    return ID.sub(number, TIME.sub("2026-11-21 09:18:36", text))


def styled(line):
    """(class, text) of the parts of a line."""
    if line.startswith("--- "):
        return [("s", line[4:])]
    if prompt := PROMPT.match(line):
        return [("p", prompt[1] + " "), ("t", prompt[2])]
    kind = {"-": "m", "+": "a", "@": "h"}.get(line[:1], "o")
    return [(kind, line)]


def svg(text):
    """The lines come one by one, and scroll when the window is full."""
    lines = [line.rstrip() for line in text.strip("\n").splitlines()]
    at, starts = 0.5, []
    for line in lines:
        starts.append(at)
        at += SECTION if line.startswith("---") else TYPED if PROMPT.match(line) else SHOWN
    end = at + 4
    shown, steps = [], []
    for number, (line, start) in enumerate(zip(lines, starts)):
        spans = "".join(f'<tspan class="{kind}">{html.escape(part[:COLUMNS])}</tspan>' for kind, part in styled(line))
        shown.append(
            f'<text y="{(number + 1) * LINE}" visibility="hidden">{spans}'
            f'<set attributeName="visibility" to="visible" begin="loop.begin+{start:.2f}s" dur="{end - start:.2f}s"/></text>'
        )
        if number >= ROWS:
            steps.append(f"{start / end:.4f};{-(number - ROWS + 1) * LINE}")
    times = ";".join(["0", *(step.split(";")[0] for step in steps), "1"])
    values = ";".join([f"0 {y}" for y in ["0", *(step.split(";")[1] for step in steps)]] + [f"0 {steps[-1].split(';')[1]}" if steps else "0 0"])
    width, height = int(COLUMNS * WIDTH) + 24, ROWS * LINE + 30
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img">\n'
        "<title>A terminal: a figure is lost, and made again from the config that shfs has kept</title>\n"
        "<style>text{font:14px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:#d8dee9;white-space:pre}"
        ".p{fill:#81a1c1}.t{fill:#fff;font-weight:bold}.s{fill:#ebcb8b}.m{fill:#e08a8a}.a{fill:#a3be8c}.h{fill:#88c0d0}</style>\n"
        # the clock of all else: it changes nothing itself
        f'<rect width="100%" height="100%" rx="8" fill="#20242c">'
        f'<animate id="loop" attributeName="rx" from="8" to="8" begin="0s;loop.end" dur="{end:.2f}s"/></rect>\n'
        f'<svg x="12" y="10" width="{width - 24}" height="{height - 20}"><g>'
        f'<animateTransform attributeName="transform" type="translate" calcMode="discrete" begin="loop.begin" dur="{end:.2f}s" '
        f'keyTimes="{times}" values="{values}"/>\n' + "\n".join(shown) + "\n</g></svg>\n</svg>\n"
    )


def picture(home, prefix, path):
    """The page of the study, as a browser shows it."""
    page = f"{home}/map.html"
    env = {"HOME": home, "PATH": f"{prefix}/bin:/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
    subprocess.run([f"{prefix}/bin/shfs", "map", "--by", "shell", "-o", page], env=env, check=True)
    tab = browser.Browser()
    try:
        tab.resize(1200, 420)
        tab.open(page)
        tab.picture(path)
    finally:
        tab.close()


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    prefix, home, out = os.path.join(sys.argv[1], "install/usr/local"), "/tmp/shfs-demo", sys.argv[2]
    terminal = io.StringIO()
    os.mkdir(home, 0o700)
    try:
        demo.prepare(home)
        with redirect_stdout(terminal):
            demo.tell(home, prefix)
        picture(home, prefix, f"{out}/page.png")
    finally:
        demo.clean(home)
    with open(f"{out}/cast.svg", "w", encoding="utf-8") as file:
        file.write(svg(normal(terminal.getvalue())))


if __name__ == "__main__":
    main()
