# SPDX-License-Identifier: MIT
"""What a recorded command looked up, found or not, beside what strace saw of the same command without a record."""

import json
import os
import re
import shutil
import sqlite3

import pytest

pytestmark = [pytest.mark.users("ordinary"), pytest.mark.timeout(180)]

CALL = re.compile(r'^\d+ +(?!symlink)\w+\((?:(?:AT_FDCWD|\d+)<([^>]*)>, )?"((?:[^"\\]|\\.)*)"', re.M)
TEMPORARY = re.compile(r"/\.git/t\w{6}$|/tmp/cc\w{6}")  # another name each time
OUTSIDE = ("/proc", "/sys", "/dev", "/run", "/tmp")  # not of the record, or of the harness


def lookups(sandbox):
    """{path: {found}} of the last command, what it opened, and the bytes of the lists."""
    command = json.loads(sandbox.shfs("history", "--all", "--json", cwd="/").stdout)["commands"][-1]
    shown = json.loads(sandbox.shfs("show", "--lookups", "--json", command["id"], cwd="/").stdout)
    names = {}
    for one in shown["lookups"]:
        names.setdefault(one["path"], set()).add(one["found"])
    return names, {use["path"] for use in shown["files"]}


def asked(path):
    """The name that the kernel looks up last on the way to the path: behind links, up to the first that is missing."""
    at, rest = "/", [part for part in path.split("/") if part not in ("", ".")]
    while rest:
        part = rest.pop(0)
        at = os.path.realpath(at)
        at = os.path.dirname(at) if part == ".." else os.path.join(at, part)
        if not os.path.lexists(at):
            break
    return at


def seen_by_strace(sandbox, line):
    trace = f"{sandbox.home}/trace"
    sandbox.run("strace", "-f", "-y", "-s", "4096", "-e", "trace=%file", "-o", trace, "sh", "-c", line, timeout=120, check=False)
    text = sandbox.sh(f"cat {trace}").stdout
    paths = {os.path.join(base or sandbox.project, path) for base, path in CALL.findall(text) if path}
    paths = {asked(path) for path in paths}
    above = {sandbox.project[:n] for n in range(len(sandbox.project) + 1)}  # shfs itself goes there first
    return {path for path in paths if not path.startswith(OUTSIDE) or path.startswith(sandbox.home)} - above - {"/"}


@pytest.mark.skipif(not shutil.which("strace"), reason="no strace")
@pytest.mark.parametrize("line", [
    "python3 -c 'import json, argparse, sqlite3'",
    "perl -MPOSIX -e 'print floor(1.5)'",
    "ls -l /etc /usr/lib > /dev/null; test -e no/such/name; test -e /etc/no-such",
    "make -s all",
    "gcc -c u.c -o u.o && gcc u.o -o u && ./u",
    "bash -c '. sub/conf; for f in sub/*.txt; do cat $f; done; readlink sub/link; cat sub/link/a.txt; no-such-program'",
    "git init -q . && git status --short",
])  # fmt: skip
def test_beside_strace(sandbox, line):
    def lay_out():
        sandbox.sh("rm -rf .git u u.o; mkdir -p sub/d; echo a > sub/a.txt; echo b > sub/b.txt; echo V=1 > sub/conf; ln -sfn . sub/link")
        sandbox.write("u.c", "#include <stdio.h>\nint main(void) { puts(\"u\"); return 0; }\n")
        sandbox.write("Makefile", "all: sub/c.txt\nsub/c.txt: sub/a.txt sub/b.txt\n\tcat $^ > $@\n")

    lay_out()
    expected = seen_by_strace(sandbox, line)
    lay_out()
    sandbox.sh("rm -f sub/c.txt")
    sandbox.shfs("record", "--", "sh", "-c", line, timeout=120, check=False)
    names, files = lookups(sandbox)
    missed = {path for path in expected if path not in names and path not in files and not TEMPORARY.search(path)}
    assert not missed, sorted(missed)
    for path, found in names.items():
        if found == {"nothing"}:
            assert not os.path.lexists(path) or path in files, path
        if path.startswith(("/usr", "/etc")):
            kinds = {"nothing"} if not os.path.lexists(path) else {"link"} if os.path.islink(path) else {"directory", "names"} if os.path.isdir(path) else {"file", "other"}
            assert found <= kinds, (path, found)


def lists_bytes(sandbox):
    with sqlite3.connect(f"file:{sandbox.store}/index.db?mode=ro", uri=True) as index:
        return index.execute("SELECT sum(length(list)) FROM lookup").fetchone()[0]


def test_a_start_of_python_is_small(sandbox):
    """The record of 800 names takes no more than 12 KiB."""
    sandbox.write("many.py", "import os\nfor n in range(300):\n    os.path.exists(f'/usr/lib/python3/dist-packages/pkg{n}/__init__.py')\n"
                  "    os.path.exists(f'/usr/share/no-such-{n}/data')\nimport json, argparse, sqlite3, email.message, http.client\n")  # fmt: skip
    sandbox.shfs("record", "--", "python3", "many.py", timeout=60)
    names, files = lookups(sandbox)
    assert len(names) >= 800 and lists_bytes(sandbox) * 800 / len(names) <= 12 << 10, (len(names), lists_bytes(sandbox))


def test_forgotten(sandbox):
    """A forgotten file's name leaves the lists, and a forgotten command's lists go with it."""
    sandbox.write("secret-plan.txt", "x\n")
    sandbox.shfs("record", "--", "sh", "-c", "test -e secret-plan.txt; test -e other-name; cat secret-plan.txt", timeout=60)
    stored = f"cd {sandbox.store}; (zstdcat journal/*/*.zst; cat journal/*/*.seg index.db*) 2> /dev/null | grep -ac "
    assert sandbox.sh(stored + "other-name", check=False).stdout != "0\n"
    sandbox.shfs("forget", "--yes", "secret-plan.txt")
    names, _ = lookups(sandbox)
    assert f"{sandbox.project}/secret-plan.txt" not in names and f"{sandbox.project}/other-name" in names
    command = json.loads(sandbox.shfs("history", "--all", "--json", cwd="/").stdout)["commands"][-1]["id"]
    sandbox.shfs("forget", "--yes", "--command", command)
    assert sandbox.sh(stored + "other-name", check=False).stdout == "0\n"
