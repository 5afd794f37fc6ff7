# SPDX-License-Identifier: MIT
"""The line that long work shows on a terminal: of how much it is, as what it works on says, and all of it in the end."""

import json
import re

import pytest

from test_cli import output, terminal
from test_trees import record

assert terminal  # a fixture
pytestmark = pytest.mark.users("ordinary")

LINES = [
    "head -c 3000000 /dev/urandom > large; cp large same; cp large changed",
    "echo more >> changed; seq 9 > small; : > empty; rm same",
    "f() { echo $1; }; alias g='echo an alias'; f x; g y > of-a-shell; cat < small > password.txt",
]


def ended(text, what):
    """How far it was when it ended: (bytes, of how many)."""
    found = re.search(rf"{what}: ended at (\d+) of (\d+) bytes", text)
    return int(found[1]), int(found[2])


def test_of_an_export_and_a_search_for_secrets(sandbox, terminal):
    record(sandbox, *LINES)
    # contents count once each, whoever has them
    sizes = {}
    for name in "large", "same", "changed", "small", "empty", "of-a-shell", "password.txt":
        for version in json.loads(sandbox.shfs("log", "--json", name).stdout)["versions"]:
            sizes |= {version["object"]: version["size"]} if version["object"] else {}
    whole = output(terminal("export", "tar", "--debug=query", "-o", f"{sandbox.home}/all.tar.zst"))
    assert ended(whole, "writing the archive") == (sum(sizes.values()),) * 2 and len(sizes) >= 4
    part = output(terminal("export", "tar", "--debug=query", "-o", f"{sandbox.home}/part.tar.zst", "small"))
    done, of = ended(part, "writing the archive")
    assert 0 < done == of < 100_000
    shell = sandbox.shell()
    shown = shell.run("shfs export tar -o - | (sleep 3; cat > /dev/null)")
    assert re.search(r"writing the archive, [23] s, [\d.]+ of 5\.7 MiB, [\d.]+ MiB/s, \d+ (s|min) left", shown), repr(shown)
    assert "writing" not in sandbox.shfs("export", "tar", "--debug=query", "-o", f"{sandbox.home}/quiet.tar").stderr

    before = ended(output(terminal("doctor", "--debug=query")), "looking for secrets")
    shell.close()
    record(sandbox, "true " + "x" * 1000)
    sandbox.shfs("history", "--all")
    after = ended(output(terminal("doctor", "--debug=query")), "looking for secrets")
    assert before[0] == before[1] > 500 and after[0] == after[1] >= before[1] + 1000
