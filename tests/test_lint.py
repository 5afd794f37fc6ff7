# SPDX-License-Identifier: MIT
"""tests/lint/check.py finds what it looks for, and nothing in a tree that is right."""

import os
import subprocess
import sys

import pytest

CHECK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lint/check.py")
SPDX = "/* SPDX-License-Identifier: MIT */\n"

RIGHT = {
    "common/buf.h": SPDX,
    "common/buf.c": SPDX + '#include "common/buf.h"\n',
    "store/object.h": SPDX + '#include "common/buf.h"\n',
    "store/object.c": SPDX + '#include "store/object.h"\n#include <xxhash.h>\n#include <zstd.h>\n',
    "store/index.h": SPDX,
    "store/index.c": SPDX + '#include "store/object.h"\n#include <sqlite3.h>\n#include "schema.h"\n',
    "fusefs/main.c": SPDX + '#include "store/object.h"\n#include <fuse3/fuse_lowlevel.h>\n',
    "fusefs/node.h": SPDX,
    "query/cmd.h": SPDX + '#include "store/index.h"\n',
    "query/cmd-log.c": SPDX
    + """#include "query/cmd.h"

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
    "tests/unit/test_index.c": SPDX + '#include "store/index.h"\n#include <sqlite3.h>\n\nstatic void empty(void **state)\n{\n}\n',
    "tests/broken/F01-a.patch": "Fails: test_unit.py::test_unit[index:empty]\n",
    "store/meson.build": "static_library('shfs-capture', 'object.c')\n"
    "static_library('shfs-index',\n  'index.c', 'rows.c',\n  dependencies: dependency('sqlite3'))\n",
    "fusefs/meson.build": "dependency('fuse3')\n",
    "common/config.c": SPDX
    + """static int set_archive(struct shfs_config *cfg, const char *name, const char *value)
{
	if (!strcmp(name, "wait"))
		return 0;
	return -1;
}
""",
    "docs/config.md": "# Keys\n\n## [archive]\n\n| key | |\n|---|---|\n| `wait` | ms |\n\n## [query]\n",
    "man/shfs-config.5.scd": "# [archive]\n\n*wait* = _MS_\n\n# [query]\n",
    "store/schema/tables.sql": "CREATE TABLE file (path TEXT, mode INTEGER) STRICT;\n",
    "store/schema/views.sql": "CREATE VIEW v_file AS SELECT path FROM file;\n",
    "docs/index.md": "| view | columns |\n|---|---|\n| `v_file` | `path` |\n",
    "README.md": "[the map](docs/ARCHITECTURE.md#map), [others](https://example.org/x)\n",
    "tests/data/one": "",
}


def make_map(tree):
    """The map of a tree, with tests/data/ as a whole."""
    lines = ["# Architecture", "", "## Map", ""]
    for folder in sorted({os.path.dirname(path) for path in tree} - {"", "tests/data"}):
        names = [f"`{os.path.basename(path)}`" for path in tree if os.path.dirname(path) == folder]
        lines += [f"### {folder}/", "", f"| {' '.join(names)} | what `it` is |", ""]
    return "\n".join(lines + ["### tests/", "", "| `data/` | |", "", "## Words", "", "| `no file` | |", ""])


RIGHT["docs/ARCHITECTURE.md"] = make_map([*RIGHT, "docs/ARCHITECTURE.md"])

LONG = "int f(void)\n{\n" + "\tx();\n" * 101 + "}\n"

# what is added to which file, and what is then said of it
WRONG = [
    ("common/buf.c", '#include "store/object.h"\n', "common must not know capture"),
    ("store/object.c", '#include "store/index.h"\n', "capture must not know index"),
    ("store/object.c", "#include <sqlite3.h>\n", "<sqlite3.h> belongs to index"),
    ("store/index.c", "#include <zstd.h>\n", "<zstd.h> belongs to capture"),
    ("store/index.c", '#include "fusefs/node.h"\n', "index must not know fusefs"),
    ("fusefs/main.c", '#include "store/index.h"\n', "fusefs must not know index"),
    ("fusefs/main.c", '#include "query/cmd.h"\n', "fusefs must not know query"),
    ("query/cmd-log.c", '#include "fusefs/node.h"\n', "query must not know fusefs"),
    ("query/cmd-log.c", "#include <sqlite3.h>\n", "<sqlite3.h> belongs to index"),
    ("query/cmd-log.c", "#include <fuse3/fuse.h>\n", "belongs to fusefs"),
    ("query/cmd-log.c", '#include "cmd.h"\n', "include from the root"),
    ("query/cmd-log.c", 'char *a = "SELECT 1 FROM version";\n', "reads version"),
    ("query/cmd-log.c", 'char *a = "SELECT 1 FROM v_file JOIN "\n"access USING (x)";\n', "reads access"),
    ("query/cmd-log.c", 'char *a = "SELECT 1 FROM v_file, process";\n', "reads process"),
    ("query/cmd-log.c", 'char *a = "SELECT 1 FROM " T;\n', "cannot be seen"),
    ("query/cmd-log.c", 'char *a = "select 1 from session";\n', "reads session"),
    ("query/cmd-log.c", 'char *a = "DELETE FROM v_file";\n', "only reads views"),
    ("query/cmd-log.c", 'void f(void)\n{\n\tshfs_buf_printf(sql, " AND path = %s", name);\n}\n', "name in a text of SQL"),
    ("query/cmd-log.c", LONG, "a function of 101 lines"),
    ("common/buf.c", "\n" * 1000, "more than 1000 lines"),
    ("common/new.c", "int a;\n", "the first line must be"),
    ("common/buf.c", 'char *a = "/' + 'root/x";\n', "a path of one machine"),
    ("query/meson.build", "dependency('sqlite3')\n", "sqlite3 belongs to"),
    (
        "query/cmd-new.c",
        SPDX + 'const struct shfs_command shfs_cmd_new = {\n\t.name = "new",\n};\n',
        "has no page man/shfs-new.1.scd",
    ),
    ("query/new.c", SPDX, "query/new.c:1: is not in the map"),
    ("docs/new.md", "", "docs/new.md:1: is not in the map"),
    ("tests/data2/one", "", "tests/data2/one:1: is not in the map"),
    ("docs/config.md", "[the log](../man/shfs-log.1)\n", "a link to ../man/shfs-log.1"),
    ("docs/config.md", "[the map](docs/ARCHITECTURE.md)\n", "a link to docs/ARCHITECTURE.md"),
    ("store/schema/views.sql", "CREATE VIEW v_mode AS SELECT mode FROM file;\n", "v_mode.mode is not in"),
    ("common/record.h", SPDX + "enum f {\n\tSHFS_ACCESS_NEW = 1,\n};\n", "SHFS_ACCESS_NEW is not in"),
    ("docs/index.md", "| `v_path` | `path` |\n", "there is no v_path"),
    ("tests/broken/F02-b.patch", "Fails: test_unit.py::test_unit[index:full]\n", "names no test"),
    ("tests/broken/F02-b.patch", "--- a/common/buf.c\n", "names no test"),
    ("man/shfs-log.1.scd", None, "has no page"),
    ("man/shfs.1.scd", None, "is not in man/shfs.1.scd"),
    ("common/buf.c", None, "there is no common/buf.c"),
    ("tests/data/one", None, "there is no tests/data/"),
    ("docs/config.md", None, "[archive] wait is not in docs/config.md"),
    ("man/shfs-config.5.scd", None, "[archive] wait is not in man/shfs-config.5.scd"),
]


def check(tmp_path, tree):
    for name, text in tree.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
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
    assert name.split("/")[-1] in out or added is None


def test_option_without_a_word_in_the_page(tmp_path):
    tree = dict(RIGHT)
    tree["man/shfs-log.1.scd"] = "*--limits*\n"
    assert "man/shfs-log.1.scd:1: does not name --limit" in check(tmp_path, tree)[1]


@pytest.mark.parametrize("page", ["docs/config.md", "man/shfs-config.5.scd"])
def test_key_under_another_section(tmp_path, page):
    tree = dict(RIGHT)
    tree[page] = tree[page].replace("[archive]", "[other]").replace("[query]", "[archive]")
    assert f"common/config.c:4: [archive] wait is not in {page}" in check(tmp_path, tree)[1]
