# SPDX-License-Identifier: MIT
"""tests/lint/check.py finds what it looks for, and nothing in a tree that is right."""

import os
import subprocess
import sys

import pytest

LINT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lint")
CHECK, MAPPER = os.path.join(LINT, "check.py"), os.path.join(LINT, "filemap.py")
SPDX = "/* SPDX-License-Identifier: MIT */\n/* What it is. */\n"

RIGHT = {
    "common/buf.h": SPDX,
    "common/buf.c": SPDX + '#include "common/buf.h"\n',
    "store/objects/object.h": SPDX + '#include "common/buf.h"\n',
    "store/objects/object.c": SPDX + '#include "store/objects/object.h"\n#include <xxhash.h>\n#include <zstd.h>\n',
    "store/index/index.h": SPDX,
    "store/index/index.c": SPDX + '#include "store/objects/object.h"\n#include <sqlite3.h>\n#include "schema.h"\n',
    "fusefs/main.c": SPDX + '#include "store/objects/object.h"\n#include <fuse3/fuse_lowlevel.h>\n',
    "fusefs/nodes/node.h": SPDX + "struct shfs_node {\n};\n",
    "query/base/cmd.h": SPDX + '#include "store/index/index.h"\n',
    "query/cmd/log.c": SPDX
    + """#include "query/base/cmd.h"

static const struct shfs_option options[] = {
	{ "limit", 'n', "N", "at most N" },
	{ NULL },
};

const struct shfs_command shfs_cmd_log = {
	.name = "log",
	.options = options,
};

static const char sql[] = "WITH up(id) AS (SELECT 1)"
			  " SELECT id FROM v_version, up JOIN (SELECT 2 FROM v_file)"; /* FROM x */
""",
    "man/shfs.1.scd": "*shfs log* _FILE_\n",
    "man/shfs-log.1.scd": "*-n*, *--limit* _N_\n",
    "tests/unit/test_index.c": SPDX + '#include "store/index/index.h"\n#include <sqlite3.h>\n\nstatic void empty(void **state)\n{\n}\n',
    "tests/broken/F01-a.break": "Fails: test_unit.py::test_unit[index:empty]\n",
    "common/README.md": "# common\n\nWhat all use.\n\nKnows: nothing else.\n",
    "store/objects/README.md": "# store/objects\n\nContents.\n\nKnows: `common`.\n",
    "store/index/README.md": "# store/index\n\nRows.\n\nKnows: `store/objects`.\n",
    "fusefs/README.md": "# fusefs\n\nA mount.\n\nKnows: `store/objects`.\n",
    "fusefs/nodes/README.md": "# fusefs/nodes\n\nFiles.\n",
    "query/base/README.md": "# query/base\n\nCommands.\n\nKnows: `store/index`.\n",
    "query/cmd/README.md": "# query/cmd\n\nEach of them.\n\nKnows: `query/base`.\n",
    "store/meson.build": "static_library('shfs-capture', 'object.c')\n"
    "static_library('shfs-index',\n  'index.c', 'rows.c',\n  dependencies: dependency('sqlite3'))\n",
    "fusefs/meson.build": "dependency('fuse3')\n",
    "common/config.c": SPDX
    + """const struct shfs_config_key shfs_config_keys[] = {
	{ "archive", "wait", "MILLISECONDS", "2000" },
	{ 0 },
};
""",
    "docs/config.md": "# Keys\n\nAll keys.\n\n## [archive]\n\n| key | |\n|---|---|\n| `wait` | ms |\n\n## [query]\n",
    "man/shfs-config.5.scd": "# [archive]\n\n*wait* = _MS_\n\n# [query]\n",
    "store/index/schema/tables.sql": "-- The tables.\nCREATE TABLE file (path TEXT, mode INTEGER) STRICT;\n",
    "store/index/schema/views.sql": "-- The views.\nCREATE VIEW v_file AS SELECT path FROM file;\n",
    "docs/index.md": "# Index\n\nIts views.\n\n| view | columns |\n|---|---|\n| `v_file` | `path` |\n",
    "docs/RELIABILITY.md": "# Reliability\n\nWhat is promised.\n\n| | fault | promise |\n|---|---|---|\n"
    "| [F1](reliability/F01.md) | it is empty | Nothing is lost |\n",
    "docs/reliability/F01.md": """# F1: it is empty

Nothing is lost.

## How it is held

* `test_index.c`: `em*`,
  `empty`
* `./dev lint`

## How it was tried

## The command

## What broke it

* On purpose: `a`.
""",
    "README.md": "# shfs\n\nA journal, with [a map](docs/MAP.md#map-of-all-files), [others](https://example.org/x)\n",
    "tests/data/one": "",
}


def write(tmp_path, tree):
    for name, text in tree.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    subprocess.run([sys.executable, MAPPER], cwd=tmp_path, check=True, stderr=subprocess.DEVNULL)


LONG = "int f(void)\n{\n" + "\tx();\n" * 101 + "}\n"

# what is added to which file, and what is then said of it
WRONG = [
    ("common/buf.c", '#include "store/objects/object.h"\n', "common must not know store/objects/object.h"),
    ("store/objects/object.c", '#include "store/index/index.h"\n', "store/objects must not know store/index/index.h"),
    ("store/objects/object.c", "#include <sqlite3.h>\n", "<sqlite3.h> belongs to store/care, store/index"),
    ("store/index/index.c", "#include <zstd.h>\n", "<zstd.h> belongs to store/journal, store/objects"),
    ("store/index/index.c", '#include "fusefs/nodes/node.h"\n', "store/index must not know fusefs/nodes/node.h"),
    ("fusefs/main.c", '#include "store/index/index.h"\n', "fusefs must not know store/index/index.h"),
    ("fusefs/main.c", '#include "query/base/cmd.h"\n', "fusefs must not know query/base/cmd.h"),
    ("query/cmd/log.c", '#include "fusefs/nodes/node.h"\n', "query/cmd must not know fusefs/nodes/node.h"),
    ("query/cmd/log.c", "#include <sqlite3.h>\n", "<sqlite3.h> belongs to store/care, store/index"),
    ("query/cmd/log.c", "#include <fuse3/fuse.h>\n", "belongs to browse, fusefs"),
    ("query/cmd/log.c", '#include "cmd.h"\n', "include from the root"),
    ("query/cmd/log.c", 'char *a = "SELECT 1 FROM version";\n', "reads version"),
    ("query/cmd/log.c", 'char *a = "SELECT 1 FROM v_file JOIN "\n"access USING (x)";\n', "reads access"),
    ("query/cmd/log.c", 'char *a = "SELECT 1 FROM v_file, process";\n', "reads process"),
    ("query/cmd/log.c", 'char *a = "SELECT 1 FROM " T;\n', "cannot be seen"),
    ("query/cmd/log.c", 'char *a = "select 1 from session";\n', "reads session"),
    ("query/cmd/log.c", 'char *a = "DELETE FROM v_file";\n', "only reads views"),
    ("query/cmd/log.c", 'void f(void)\n{\n\tshfs_buf_printf(sql, " AND path = %s", name);\n}\n', "name in a text of SQL"),
    ("query/cmd/log.c", LONG, "a function of 101 lines"),
    ("common/buf.c", "\n" * 1000, "more than 1000 lines"),
    ("common/new.c", "int a;\n", "the first line must be"),
    ("common/buf.c", 'char *a = "/' + 'root/x";\n', "a path of one machine"),
    ("query/meson.build", "dependency('sqlite3')\n", "sqlite3 belongs to"),
    (
        "query/cmd/new.c",
        SPDX + 'const struct shfs_command shfs_cmd_new = {\n\t.name = "new",\n};\n',
        "has no page man/shfs-new.1.scd",
    ),
    ("query/cmd/new.c", SPDX.split("\n")[0] + "\n", "query/cmd/new.c:1: its first comment must say what it is"),
    ("docs/new.md", "", "docs/new.md:1: its first comment must say what it is"),
    ("common/hidden.h", SPDX + "struct shfs_node;\n", "struct shfs_node is of fusefs/nodes, which common must not know"),
    ("shellhook/a.c", SPDX, "shellhook:1: has no README.md"),
    ("common/README.md", "\n" * 25, "common/README.md:1: more than 25 lines"),
    ("fusefs/nodes/README.md", "\nKnows: `common`.\n", "knows common, and does not use it"),
    ("fusefs/nodes/README.md", "\nKnows: `store/nowhere`.\n", "there is no store/nowhere"),
    ("docs/config.md", "[the log](../man/shfs-log.1)\n", "a link to ../man/shfs-log.1"),
    ("docs/config.md", "[the map](docs/MAP.md)\n", "a link to docs/MAP.md"),
    ("docs/config.md", "[a key](#archived)\n", "a link to #archived, a heading that is not there"),
    ("docs/config.md", "[a word](index.md#wait)\n", "a link to index.md#wait, a heading"),
    ("docs/README.md", "# docs\n\nNo page.\n", "does not name config.md"),
    ("store/index/schema/views.sql", "CREATE VIEW v_mode AS SELECT mode FROM file;\n", "v_mode.mode is not in"),
    ("common/record.h", SPDX + "enum f {\n\tSHFS_ACCESS_NEW = 1,\n};\n", "SHFS_ACCESS_NEW is not in"),
    ("docs/index.md", "| `v_path` | `path` |\n", "there is no v_path"),
    ("docs/RELIABILITY.md", "| F2 |\n", "docs/RELIABILITY.md:1: is not as ./dev map makes it"),
    ("docs/reliability/F02.md", "# F2: it is full\n\nIt is told.\n", "F02.md:1: wants its title"),
    ("docs/reliability/F01.md", "\n## More\n", "F01.md:1: wants its title"),
    ("docs/reliability/F01.md", None, "F01 has edits in tests/broken, and no page"),
    ("tests/broken/F02-b.break", "Fails: test_unit.py::test_unit[index:full]\n", "names no test"),
    ("tests/broken/F02-b.break", "Fails: test_unit.py::test_unit[index:empty]\n", "F02 has edits in tests/broken, and no page"),
    ("tests/broken/F01-b.break", "Fails: test_unit.py::test_unit[index:empty]\n", "F01.md:1: does not name b of tests/broken"),
    ("tests/broken/F02-b.break", "In: common/buf.c\n", "names no test"),
    ("man/shfs-log.1.scd", None, "has no page"),
    ("man/shfs.1.scd", None, "is not in man/shfs.1.scd"),
    ("docs/config.md", None, "[archive] wait is not in docs/config.md"),
    ("man/shfs-config.5.scd", None, "[archive] wait is not in man/shfs-config.5.scd"),
]


def check(tmp_path, tree):
    write(tmp_path, tree)
    run = subprocess.run([sys.executable, CHECK], cwd=tmp_path, capture_output=True, text=True)
    assert run.stderr == ""
    return run.returncode, run.stdout


def test_right_tree(tmp_path):
    assert check(tmp_path, RIGHT) == (0, "")


@pytest.mark.parametrize("name, added, said", WRONG, ids=[said for _, _, said in WRONG])
def test_wrong_tree(tmp_path, name, added, said):
    tree = dict(RIGHT)
    if added is None:
        del tree[name]
    else:
        tree[name] = tree.get(name, "") + added
    status, out = check(tmp_path, tree)
    assert status == 1
    assert said in out
    assert name.split("/")[-1] in out or os.path.dirname(name) in out or added is None


def test_option_without_a_word_in_the_page(tmp_path):
    tree = dict(RIGHT)
    tree["man/shfs-log.1.scd"] = "*--limits*\n"
    assert "man/shfs-log.1.scd:1: does not name --limit" in check(tmp_path, tree)[1]


@pytest.mark.parametrize("page", ["docs/config.md", "man/shfs-config.5.scd"])
def test_key_under_another_section(tmp_path, page):
    tree = dict(RIGHT)
    tree[page] = tree[page].replace("[archive]", "[other]").replace("[query]", "[archive]")
    assert f"common/config.c:4: [archive] wait is not in {page}" in check(tmp_path, tree)[1]


def test_folders_in_a_circle(tmp_path):
    tree = dict(RIGHT)
    tree["common/README.md"] = tree["common/README.md"].replace("nothing else", "`store/objects`")
    tree["common/buf.c"] += '#include "store/objects/object.h"\n'
    assert "common and store/objects know each other" in check(tmp_path, tree)[1]


def test_too_many_files(tmp_path):
    tree = RIGHT | {f"common/a{n}.c": SPDX for n in range(40)}
    assert "source files (at most 40)" in check(tmp_path, tree)[1]


def test_an_old_map(tmp_path):
    write(tmp_path, RIGHT)
    (tmp_path / "common/buf.c").write_text(SPDX.replace("What it is", "Something else"))
    run = subprocess.run([sys.executable, CHECK], cwd=tmp_path, capture_output=True, text=True)
    assert "docs/MAP.md:1: is not as ./dev map makes it" in run.stdout


@pytest.mark.parametrize("old, new, said", [
    ("`em*`", "`full*`", "there is no full* of test_index.c"),
    ("`empty`", "`full`", "there is no full of test_index.c"),
    ("`test_index.c`", "`test_none.c`", "there is no test_none.c"),
    ("`a`.", "`a`, `b`.", "F01-b is not in tests/broken"),
])
def test_a_page_of_what_is_not_there(tmp_path, old, new, said):
    page = "docs/reliability/F01.md"
    assert f"{page}:1: {said}" in check(tmp_path, RIGHT | {page: RIGHT[page].replace(old, new)})[1]
