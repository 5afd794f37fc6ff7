#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Who may know whom, and what else holds for the whole tree. Prints FILE:LINE: what is wrong."""

import functools
import os
import re
import sqlite3
import sys

FUNCTION_LINES = 100
FILE_LINES = 1000


# layer: the layers whose headers its files may include
LAYERS = {
    "common": {"common"},
    "capture": {"common", "capture"},
    "index": {"common", "capture", "index"},
    "fusefs": {"common", "capture", "fusefs"},
    "kmod-fast-path": {"common", "capture", "kmod-fast-path"},
    "query": {"common", "capture", "index", "query"},
    "shellhook": {"shellhook"},
    "tests": {"common", "capture", "index", "fusefs", "kmod-fast-path", "query", "tests"},
}

# which is linked with hooks as it is
SHARED = ("shellhook", "common/redact.h")

# headers of a library: (the only layers that may include them, its name for meson)
LIBRARIES = {
    r"sqlite3\.h": ({"index"}, "sqlite3"),
    r"xxh(ash|3)\.h": ({"capture"}, "libxxhash"),
    r"(zstd|zstd_errors|zdict)\.h": ({"capture"}, "libzstd"),
    r"(fuse3/)?(fuse|fuse_\w+)\.h|linux/fuse\.h": ({"fusefs"}, "fuse3"),
    r"seccomp\.h": ({"capture", "kmod-fast-path"}, "libseccomp"),
    r"libmount/.*|libmount\.h": ({"fusefs", "query"}, "mount"),
    r"ini\.h": ({"common"}, "inih"),
    r"archive(_entry)?\.h": ({"query"}, "libarchive"),
    r"(ncursesw/)?(n?curses|term)\.h": ({"query"}, "ncursesw"),
}

# what is not MIT: the kernel's
LICENCES = {
    "common/event.h": "GPL-2.0-only OR MIT",
    "kmod-fast-path/bpf": "GPL-2.0-only",
    "kmod-fast-path/module": "GPL-2.0-only",
    "kmod-fast-path/bpf/record.h": "GPL-2.0-only OR MIT",
    "kmod-fast-path/module/device.h": "GPL-2.0-only OR MIT",
}

problems = []


def is_kernels(path):
    return os.path.dirname(path) in ("kmod-fast-path/bpf", "kmod-fast-path/module")


def problem(path, line, text):
    problems.append(f"{path}:{line}: {text}")


def files(*suffixes):
    for top, dirs, names in os.walk("."):
        dirs[:] = [d for d in sorted(dirs) if not re.match(r"build|\.git$|__pycache__|node_modules", d)]
        for name in sorted(set(names) - {".git"}):
            path = os.path.normpath(os.path.join(top, name))
            if not suffixes or path.endswith(suffixes):
                yield path


def read(path):
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        return file.read()


@functools.cache
def index_files():
    """store/ is two libraries; the build says which file belongs to libshfs-index."""
    library = re.search(r"static_library\('shfs-index',(.*?)\n\n", read("store/meson.build") + "\n\n", re.S)
    return {f"store/{name}" for name in re.findall(r"'([\w-]+\.c)'", library[1])}


def layer_of(path):
    top = path.split("/")[0]
    if top != "store":
        return "tests" if top == "bench" else top
    ours = re.sub(r"\.h$", ".c", path) in index_files() or path.startswith("store/index")
    return "index" if ours else "capture"


def line_of(text, position):
    return text.count("\n", 0, position) + 1


# --- includes ---


def check_includes(path, text):
    layer = layer_of(path)
    for match in re.finditer(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', text, re.M):
        quoted, name = match[1] == '"', match[2]
        line = line_of(text, match.start())
        if quoted and os.path.exists(name):
            target = layer_of(name)
            if target not in LAYERS.get(layer, set()) and (layer, name) != SHARED:
                problem(path, line, f"{layer} must not know {target} ({name})")
        elif quoted and not re.search(r"(^schema|^secrets-list|^map-page|\.skel)\.h$", name) and not is_kernels(path):
            problem(path, line, f'include from the root of the tree: "{name}"')
        for pattern, (owners, _) in LIBRARIES.items():
            if re.fullmatch(pattern, name) and layer not in owners | {"tests"}:
                problem(path, line, f"<{name}> belongs to {', '.join(owners)} alone")


def check_links(path, text):
    """The same for the build's link lists."""
    folder = {"capture": "store", "index": "store"}
    for owners, name in LIBRARIES.values():
        for match in re.finditer(rf"dependency\('{name}'", text):
            allowed = {folder.get(owner, owner) for owner in owners}
            if path.split("/")[0] not in allowed | {"tests"}:
                problem(path, line_of(text, match.start()), f"{name} belongs to {allowed}")


# --- SQL ---

LITERAL = r'"(?:[^"\\\n]|\\.)*"'


def without_comments(text):
    """Comments become blanks; line numbers and literals stay."""

    def blank(match):
        if match[0].startswith('"') or match[0].startswith("'"):
            return match[0]
        return re.sub(r"[^\n]", " ", match[0])

    pattern = rf"{LITERAL}|'(?:[^'\\\n]|\\.)+'|/\*.*?\*/|//[^\n]*"
    return re.sub(pattern, blank, text, flags=re.S)


def strings(text):
    """(line, value) of each run of adjacent string literals."""
    for match in re.finditer(rf"{LITERAL}(?:\s*{LITERAL})*", without_comments(text)):
        parts = re.findall(LITERAL, match[0])
        value = "".join(part[1:-1] for part in parts).replace(r"\n", "\n").replace(r"\t", "\t")
        yield line_of(text, match.start()), value


def check_sql(path, text):
    """query/ reads views and nothing else."""
    found = list(strings(text))
    everything = " ".join(value for _, value in found)
    named_here = set(re.findall(r"(\w+)\s*(?:\([^()]*\))?\s+AS\s+(?:MATERIALIZED\s*)?\(", everything))
    for line, value in found:
        if re.match(r"\s*(INSERT|UPDATE|DELETE|REPLACE|CREATE|DROP|ALTER|ATTACH|PRAGMA)\s", value):
            problem(path, line, f"only reads views: {value.strip()[:40]}")
        flags = re.I if re.search(r"\bselect\b.*\bfrom\b", value, re.I | re.S) else 0
        for match in re.finditer(r"\b(?:FROM|JOIN)\b([^()]*?)(?=[()]|\b(?:WHERE|ON|LEFT|INNER|CROSS|"
                                 r"JOIN|GROUP|ORDER|LIMIT|UNION|EXCEPT|FROM)\b|$)", value, flags):
            for table in match[1].split(","):
                name = (table.split() or [""])[0].strip(";")
                after = value[match.end():match.end() + 1]
                if name.startswith("v_") or name in named_here or (not name and after == "("):
                    continue
                if name.startswith("json_each") or name.startswith("json_tree"):
                    continue
                problem(path, line, f"reads {name or 'what cannot be seen here'}, not a view v_*")


# what texts of SQL are made of besides literals; none of them is a user's
SQL_PIECES = {"before", "busy", "column", "condition", "expr", "h->all", "h->begin", "h->id", "h->row", "h->text", "head", "how",
              "how_used(item)", "tail", "way"}


def arguments(call):
    """Of what stands between the parentheses of a call."""
    found, depth = [""], 0
    for part in re.findall(rf"{LITERAL}|'(?:[^'\\]|\\.)+'|.", call, re.S):
        depth += (part in "([{") - (part in ")]}") if len(part) == 1 else 0
        if part == "," and not depth:
            found.append("")
        else:
            found[-1] += part
    return [" ".join(argument.split()) for argument in found]


def is_sql_piece(argument):
    choices = argument.split(" ? ", 1)[-1].split(" : ") if " ? " in argument else [argument]
    return all(choice in SQL_PIECES or re.fullmatch(rf"(\s*({LITERAL}|[A-Z][A-Z_]+(\(\"[^()]*\"\))?))+", choice) for choice in choices)


def check_sql_text(path, text):
    """What a user typed or named is bound to a parameter, never printed into SQL."""
    code = without_comments(text)
    for match in re.finditer(r"\b(shfs_buf_(?:printf|str|add)|\w*sn?printf|sqlite3_v?mprintf)\((.*?)\);", code, re.S):
        target, *rest = arguments(match[2])
        literals = " ".join(re.findall(LITERAL, match[2]))
        if not re.fullmatch(r"&?(\w+(->|\.))*sql", target) and not re.search(r"\b(SELECT|UPDATE|INSERT INTO|DELETE FROM)\b.*%[^d]", literals):
            continue
        if "printf" not in match[1]:
            wrong = [a for a in rest[:1] if not is_sql_piece(a)]
        elif rest and rest[0].startswith('"'):
            kinds = re.findall(r"%[-0-9.*]*(?:ll|l|z)?([a-z])", "".join(re.findall(LITERAL, rest[0])))
            wrong = [a for kind, a in zip(kinds, rest[1:]) if kind == "s" and not is_sql_piece(a)]
        else:
            wrong = [a for a in rest if not is_sql_piece(a)]
        for argument in wrong:
            problem(path, line_of(code, match.start()), f"{argument} in a text of SQL: bind it (?N)")


# --- sizes ---


def check_file_size(path, text):
    lines = text.count("\n")
    if lines > FILE_LINES:
        problem(path, lines, f"more than {FILE_LINES} lines")


def check_function_sizes(path, text):
    """A function is what stands between braces in the first column: clang-format sees to it."""
    start = None
    for number, line in enumerate(text.splitlines(), 1):
        if line == "{":
            start = number
        elif line == "}" and start:
            if number - start - 1 > FUNCTION_LINES:
                length = number - start - 1
                problem(path, start, f"a function of {length} lines (at most {FUNCTION_LINES})")
            start = None


# --- commands and their pages ---


OPTION = r'\{\s*(?:\.name\s*=\s*)?"([a-z][a-z0-9-]*)"'


def commands():
    """name -> (path, line, options) of each command that is not hidden."""
    found = {}
    for path in sorted(f for f in files(".c") if f.startswith("query/cmd-")):
        text = without_comments(read(path))
        for match in re.finditer(r"^const struct shfs_command (shfs_cmd_\w+) = \{(.*?)^\};", text,
                                 re.S | re.M):
            name = re.search(r'\.name\s*=\s*"([^"]+)"', match[2])
            if not name:
                problem(path, line_of(text, match.start()), f"{match[1]} has no .name")
            elif not re.search(r"\.hidden\s*=\s*true", match[2]):
                found[name[1]] = (path, line_of(text, match.start()), options_of(text, match[2]))
    return found


def options_of(text, command):
    table = re.search(r"\.options\s*=\s*(\w+)", command)
    body = table and re.search(rf"\b{table[1]}\[\]\s*=\s*\{{(.*?)^\}};", text, re.S | re.M)
    return re.findall(OPTION, body[1]) if body else []


def filter_options():
    """Of SHFS_FILTER_OPTIONS: history's page tells of them, others that have them refer to it."""
    header = read("query/filter.h").replace("\\\n", "\n")
    return re.findall(OPTION, re.search(r"#define SHFS_FILTER_OPTIONS(.*?)\n\n", header, re.S)[1])


def check_commands():
    """Each command has a page (or a section of shfs(1)) that names each of its options."""
    found = commands()
    for name, (path, line, options) in found.items():
        page = f"man/shfs-{name}.1.scd"
        if not os.path.exists(page):
            problem(path, line, f"shfs {name} has no page {page}")
            continue
        text = read(page).replace("\\", "")
        for option in options + (filter_options() if name == "history" else []):
            if not re.search(rf"--{option}(?![a-z0-9-])", text):
                problem(page, 1, f"does not name --{option}")
    overview = read("man/shfs.1.scd") if os.path.exists("man/shfs.1.scd") else ""
    for name, (path, line, _) in found.items():
        if not re.search(rf"\bshfs(\*?-|\* \*| ){name}\b|\*{name}\*", overview):
            problem(path, line, f"shfs {name} is not in man/shfs.1.scd")


# --- the pages ---

MAP = "docs/ARCHITECTURE.md"
MAPPED = ("common/", "store/", "fusefs/", "shellhook/", "query/", "tests/", "bench/", "docs/", "man/",
          "completions/", "map/")


def map_entries(text):
    """(line, path) of each name in the map: headings name folders, first columns of tables files.
    A name that ends in a slash stands for all below it."""
    folder = None
    for number, line in enumerate(text.splitlines(), 1):
        heading = re.match(r"(#+) (.*)", line)
        if heading and heading[1] != "###":
            folder = "" if heading[2] == "Map" else None
        elif heading and folder is not None:
            folder = heading[2] if heading[2].endswith("/") else ""
        elif folder is not None and line.startswith("|"):
            for name in re.findall(r"`([^`]+)`", line.split("|")[1]):
                yield number, folder + name


def check_map():
    """Every file is in the map, and everything in the map is there."""
    entries = list(map_entries(read(MAP))) if os.path.exists(MAP) else []
    for number, path in entries:
        if not os.path.exists(path):
            problem(MAP, number, f"there is no {path}")
    names = {path for _, path in entries}
    folders = tuple(path for path in names if path.endswith("/"))
    for path in files():
        if path.startswith(MAPPED) and path not in names and not path.startswith(folders):
            problem(path, 1, f"is not in the map of {MAP}")


def check_broken(path, text):
    """The test that must fail is there: that of a unit test in C, or a function of Python."""
    found = re.match(r"Fails: (?:test_unit\.py::test_unit\[(\w+):(\w+)\]|([\w/]+\.py)::(\w+))", text)
    unit, test, file, function = found.groups() if found else [""] * 4
    source = f"tests/unit/test_{unit}.c" if unit else f"tests/{file}"
    wanted = f"static void {test}(void **state)" if unit else f"def {function}("
    if not os.path.isfile(source) or wanted not in read(source):
        problem(path, 1, "names no test that is there")


def check_references(path, text):
    """Each relative link of a page leads to a file."""
    for match in re.finditer(r"\]\(([^)\s#]+)", text):
        target = os.path.join(os.path.dirname(path), match[1])
        if not re.match(r"[a-z]+:", match[1]) and not os.path.exists(target):
            problem(path, line_of(text, match.start()), f"a link to {match[1]}, which is not there")


def config_keys():
    """(line, section, key) of each key that the configuration knows."""
    text = without_comments(read("common/config.c"))
    for function in re.finditer(r"^static int set_(\w+)\(struct shfs_config \*.*?^\}", text, re.S | re.M):
        for match in re.finditer(r'strcmp\(name, "([^"]+)"\)', function[0]):
            yield line_of(text, function.start() + match.start()), function[1], match[1]


def check_config():
    """Each key stands under its section, in the page and in the man page."""
    if not os.path.exists("common/config.c"):
        return
    pages = (("docs/config.md", "## [{}]", "| `{}` |"), ("man/shfs-config.5.scd", "# [{}]", "*{}* ="))
    keys = list(config_keys())
    if not keys:
        problem("common/config.c", 1, "has no keys that can be seen here")
    for line, section, key in keys:
        for page, heading, entry in pages:
            text = read(page) if os.path.exists(page) else ""
            part = re.search(rf"^{re.escape(heading.format(section))}\n(.*?)(?=^#+ |\Z)", text, re.S | re.M)
            if not part or entry.format(key) not in part[1]:
                problem("common/config.c", line, f"[{section}] {key} is not in {page}")


def check_record():
    """Each flag and operation of the records stands in a table of the page."""
    page = "docs/journal.md"
    if not os.path.exists("common/record.h"):
        return
    header = without_comments(read("common/record.h"))
    rows = "\n".join(re.findall(r"^\|.*", read(page), re.M)) if os.path.exists(page) else ""
    for match in re.finditer(r"\b(SHFS_(ACCESS|CONTENT|OP)_(\w+))\s*=", header):
        name = match[3].lower() if match[2] == "OP" else match[3]
        if not re.search(rf"\b{name}\b", rows):
            problem("common/record.h", line_of(header, match.start()), f"{match[1]} is not in {page}")


def check_views():
    """The table of views names each column, and has no row for a view that is not there."""
    page, schema = "docs/index.md", [f"store/schema/{name}.sql" for name in ("tables", "views")]
    if not os.path.exists(schema[1]):
        return
    database = sqlite3.connect(":memory:")
    for source in filter(os.path.exists, ("store/functions.c", "store/access-table.c")):
        for name, n in re.findall(r'\{ "(\w+)", (\d), \w+ \}', read(source)):
            database.create_function(name, int(n), lambda *_: None, deterministic=True)
        for made in re.findall(r"#define COLUMNS(.*?)\n\n", read(source), re.S):
            database.execute("".join(re.findall(r'"(.*)"', made)))
    for name in re.findall(r'\] = "(\w+)"', read("store/version-row.c") if os.path.exists("store/version-row.c") else ""):
        database.create_function(name, 1, lambda *_: None, deterministic=True)
    for path in schema:
        database.executescript(read(path))
    text = read(page) if os.path.exists(page) else ""
    rows = dict(re.findall(r"^\| `(v_\w+)` \|(.*)", text, re.M))
    views = [name for name, in database.execute("SELECT name FROM sqlite_schema WHERE type = 'view' AND name GLOB 'v_*'")]
    for view in views:
        for _, column, *_ in database.execute(f"PRAGMA table_info({view})"):
            if f"`{column}`" not in rows.get(view, ""):
                problem(schema[1], 1, f"{view}.{column} is not in {page}")
    for view in rows.keys() - set(views):
        problem(page, 1, f"there is no {view}")


# --- the text of every file ---


def check_text(path, text):
    """No path of the machine that it was written on; a licence in every source file."""
    for match in re.finditer(r"(?<![\w.}$*/])/(?:work|root)/\w", text):
        problem(path, line_of(text, match.start()), "a path of one machine")
    licence = LICENCES.get(path, LICENCES.get(os.path.dirname(path), "MIT"))
    if path.endswith((".c", ".h")) and not re.match(rf"(//|/\*) SPDX-License-Identifier: {licence}( \*/)?\n", text):
        problem(path, 1, f"the first line must be /* SPDX-License-Identifier: {licence} */")


def main():
    for path in files():
        text = read(path)
        check_text(path, text)
        if path.endswith("meson.build"):
            check_links(path, text)
        if path.endswith((".c", ".h")):
            check_includes(path, text)
            check_function_sizes(path, text)
        if path.startswith("query/") and path.endswith((".c", ".h")):
            check_sql(path, text)
        if path.startswith(("query/", "store/")) and path.endswith(".c"):
            check_sql_text(path, text)
        if path.endswith(".patch"):
            check_broken(path, text)
        if path.endswith(".md"):
            check_references(path, text)
        if path.endswith((".c", ".h", ".py", ".sql", ".bash", ".zsh", ".fish", ".sh")):
            check_file_size(path, text)
    check_commands()
    check_map()
    check_config()
    check_record()
    check_views()
    print("\n".join(problems), end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
