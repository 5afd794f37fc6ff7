# SPDX-License-Identifier: MIT
"""What shfs prints beside names of users is ASCII where the locale has no UTF-8: trees, arrows, ellipses."""

import json

import pytest

import harness

pytestmark = pytest.mark.users("ordinary")


# all of them by ./dev test --all
LOCALES = [{"LC_ALL": "C"}, {"LC_ALL": "no_SUCH.locale"}, {"LC_ALL": "POSIX"}, {"LC_ALL": "", "LANG": ""}]


@pytest.mark.parametrize("locale", LOCALES if harness.ALL else LOCALES[:2])
def test_signs_are_ascii_where_the_locale_is_not_utf8(sandbox, mounted, shell, locale):
    bash = shell()
    bash.run("seq 5 > in; for i in a b c d e f; do sort in > $i; done; cat a b > ab; sort ab > z")
    bash.run("cat in > one; cat one > two; cat two > three; : " + "long " * 40 + "\n")
    bash.run("false > none; bash -c 'cat in; (cat one & wait)' > sub; echo more >> in")
    sandbox.shfs("sync")
    number = json.loads(sandbox.shfs("history", "--json", "--wrote", "sub").stdout)["commands"][0]["id"]
    tried = [
        ("history",), ("history", "--all"), ("log", "in"), ("log", "--patch", "in"), ("why", "z"), ("why", "z", "--depth", "1"),
        ("impact", "in"), ("impact", "in", "--depth", "1"), ("stale",), ("show", number), ("show", "--full", number),
        ("show", "z"), ("compare", number, number), ("stats",), ("stats", "--store"), ("status",), ("search", "-l", ""), ("help",),
        ("search", "--help"), ("undo", "--dry-run", number), ("restore", "--dry-run", "in@1"), ("prune", "--dry-run"),
        ("forget", "--dry-run", "z"), ("diff", "in@1"), ("rerun", "--dry-run"), ("rerun", "nosuch"), ("history", "--limit", "x"),
        ("diff",), ("show",), ("show", "a", "b"), ("doctor",), ("check",), ("gc", "--dry-run"), ("remote",), ("enable", "--list"),
    ]  # fmt: skip
    utf8 = ascii_too = 0
    for args in tried:
        for columns in "80", "30":
            with_signs = sandbox.shfs(*args, check=False, env={"COLUMNS": columns})
            done = sandbox.shfs(*args, check=False, env={"COLUMNS": columns, **locale})
            assert done.status == with_signs.status, args
            assert (done.stdout + done.stderr).isascii(), f"{args}: {done.stdout}{done.stderr}"
            utf8 += not (with_signs.stdout + with_signs.stderr).isascii()
            ascii_too += "`-" in done.stdout or "|-" in done.stdout
    assert utf8 > 10 and ascii_too > 5, "there is something to show"
    # what a user has named stays as it is
    sandbox.write("Übung", "x")
    assert "Übung" in sandbox.shfs("log", "Übung", env=locale).stdout
