#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Who may know whom, and what else holds for the whole tree. Prints FILE:LINE: what is wrong."""

import functools
import glob
import os
import re
import sqlite3
import sys

import filemap
from filemap import read, tree_files
import reliability

FUNCTION_LINES = 100
PICTURE_BYTES = 200_000
FILE_LINES = 1000
FOLDER_FILES = 40
README_LINES = 25


# folders that know each other; no others may
KNOTS = {
    frozenset(("store", "store/journal")),
    frozenset(("store", "store/objects")),
}

# headers of a library: (the only folders that may include them, its name for meson)
LIBRARIES = {
    r"sqlite3\.h": ({"store/index", "store/care"}, "sqlite3"),
    r"xxh(ash|3)\.h": ({"store/objects", "store/capture", "store/journal"}, "libxxhash"),
    r"(zstd|zstd_errors|zdict)\.h": ({"store/objects", "store/journal"}, "libzstd"),
    r"(fuse3/)?(fuse|fuse_\w+)\.h|linux/fuse\.h": ({"fusefs", "browse"}, "fuse3"),
    r"seccomp\.h": ({"recording", "kmod-fast-path/helper"}, "libseccomp"),
    r"libmount/.*|libmount\.h": ({"fusefs/transport", "query/base", "query/care"}, "mount"),
    r"ini\.h": ({"common"}, "inih"),
    r"archive(_entry)?\.h": ({"query/bundle", "query/export", "query/cmd"}, "libarchive"),
    r"(g|lib)elf\.h": ({"query/bundle"}, "libelf"),
    r"(md5|sha1|sha2)\.h": ({"query/base"}, "libmd"),
    r"curl/curl\.h": ({"query/remote/s3"}, "libcurl"),
    r"expat\.h": ({"query/remote/s3"}, "expat"),
    r"sodium(/.*)?\.h": ({"query/remote/encryption"}, "libsodium"),
    r"libsmartcols(/.*)?\.h": ({"query/table"}, "smartcols"),
    r"microhttpd\.h": ({"query/web"}, "libmicrohttpd"),
    r"libpq-fe\.h": ({"query/team"}, "libpq"),
    r"(ncursesw/)?(n?curses|term)\.h": ({"query/screen"}, "ncursesw"),
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
    return (path for path in tree_files() if not suffixes or path.endswith(suffixes))


@functools.cache
def known_to(folder):
    """The folders, or single headers, that a folder's README.md says it knows; all for tests."""
    text = read(f"{folder}/README.md") if os.path.exists(f"{folder}/README.md") else ""
    found = re.search(r"^Knows: (.*?)\.$", text, re.M | re.S)
    return set(re.findall(r"`([^`]+)`", found[1])) if found else set()


def may_know(path, name):
    folder = os.path.dirname(path)
    known = known_to(folder) | {folder}
    return path.startswith(("tests/", "bench/")) or name in known or os.path.dirname(name) in known


def is_below(path, folders):
    return any(path.startswith(folder + "/") for folder in folders)


def line_of(text, position):
    return text.count("\n", 0, position) + 1


# --- includes ---


def check_includes(path, text):
    for match in re.finditer(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', text, re.M):
        quoted, name = match[1] == '"', match[2]
        line = line_of(text, match.start())
        if quoted and os.path.exists(name):
            if not may_know(path, name):
                folder = os.path.dirname(path)
                problem(path, line, f"{folder} must not know {name}: {folder}/README.md")
        elif quoted and not re.search(r"(^schema|^secrets-list|^map-page|^query/team-schema|^store/mirror-schema|\.skel)\.h$", name) and not is_kernels(path):
            problem(path, line, f'include from the root of the tree: "{name}"')
        for pattern, (owners, _) in LIBRARIES.items():
            if re.fullmatch(pattern, name) and not is_below(path, owners | {"tests"}):
                problem(path, line, f"<{name}> belongs to {', '.join(sorted(owners))} alone")


@functools.cache
def structs():
    """{struct of ours: the only file that defines it}"""
    found = {}
    for path in files(".c", ".h"):
        for name in re.findall(r"^struct (shfs_\w+) \{", read(path), re.M):
            found.setdefault(name, []).append(path)
    return {name: paths[0] for name, paths in found.items() if len(paths) == 1}


def check_declarations(path, text):
    """A header that names a struct of a folder above it knows that folder all the same."""
    folder = os.path.dirname(path)
    for match in re.finditer(r"^\s*(?:const )?struct (shfs_\w+)(;| \*\w+;)", text, re.M):
        where = structs().get(match[1], path)
        owner = os.path.dirname(where)
        if not may_know(path, where) and owner not in downstream_of(folder) | {folder}:
            problem(path, line_of(text, match.start()), f"struct {match[1]} is of {owner}, which {folder} must not know")


def check_folders():
    """No folder is a corridor, each says what it is for, and none knows another by a circle."""
    folders = {}
    for path in files(".c", ".h"):
        folders.setdefault(os.path.dirname(path), []).append(path)
    for folder, inside in folders.items():
        readme = f"{folder}/README.md"
        if len(inside) > FOLDER_FILES and not folder.startswith("tests/"):
            problem(folder, 1, f"{len(inside)} source files (at most {FOLDER_FILES})")
        if folder.startswith(("tests/", "bench")):
            continue
        if not os.path.exists(readme):
            problem(folder, 1, "has no README.md")
        elif read(readme).count("\n") > README_LINES:
            problem(readme, 1, f"more than {README_LINES} lines")
        used = {name for path in inside for name in re.findall(r'#include "([^"]+)"', read(path)) if os.path.exists(name)}
        for known in known_to(folder):
            if not os.path.exists(known):
                problem(readme, 1, f"there is no {known}")
            elif not any(known in (name, os.path.dirname(name)) for name in used):
                problem(readme, 1, f"knows {known}, and does not use it")
    for folder in folders:
        for other in downstream_of(folder):
            if folder in downstream_of(other) and folder < other:
                problem(f"{folder}/README.md", 1, f"{folder} and {other} know each other")


@functools.cache
def downstream_of(folder):
    """All that a folder knows, directly or by others; knots are known and left out."""
    found, todo = set(), [folder]
    while todo:
        at = todo.pop()
        for known in known_to(at):
            if known not in found and frozenset((at, known)) not in KNOTS:
                found.add(known)
                todo.append(known)
    return found


def check_links(path, text):
    """The same for the build's link lists."""
    for owners, name in LIBRARIES.values():
        tops = {owner.split("/")[0] for owner in owners}
        for match in re.finditer(rf"dependency\('{name}'", text):
            if path.split("/")[0] not in tops | {"tests"}:
                problem(path, line_of(text, match.start()), f"{name} belongs to {tops}")


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
    if path == "query/bundle/dockerfile.c" or path.startswith("query/team/"):
        return  # its FROM is Docker's; PostgreSQL's
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
              "how_used(item)", "p->key", "p->table", "table->columns", "table->key", "table->name", "tables[i].name", "tail", "way"}


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
    for path in sorted(f for f in files(".c") if f.startswith(("query/cmd/", "query/remote/cmd/"))):
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
    header = read("query/history/filter.h").replace("\\\n", "\n")
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

def check_map():
    """docs/MAP.md is as ./dev map makes it, and each source file says what it is."""
    if not os.path.exists(filemap.MAP) or read(filemap.MAP) != filemap.make():
        problem(filemap.MAP, 1, "is not as ./dev map makes it")
    for folder, rows in filemap.entries().items():
        for name, text in rows:
            if not text and filemap.needs_words(name):
                problem(os.path.join(folder, name), 1, "its first comment must say what it is")


def check_reliability():
    """Each fault has a page in its form, and docs/RELIABILITY.md a line for each page."""
    if not os.path.exists(reliability.OVERVIEW):
        return
    if read(reliability.OVERVIEW) != reliability.make():
        problem(reliability.OVERVIEW, 1, "is not as ./dev map makes it")
    for fault in reliability.faults_without():
        problem(reliability.OVERVIEW, 1, f"{fault} has edits in tests/broken, and no page")
    for path in reliability.pages():
        for flaw in reliability.flaws(path):
            problem(path, 1, flaw)


def check_broken(path, text):
    """The test that must fail is there: that of a unit test in C, or a function of Python."""
    found = re.match(r"Fails: (?:test_unit\.py::test_unit\[(\w+):(\w+)\]|([\w/]+\.py)::(\w+))", text)
    unit, test, file, function = found.groups() if found else [""] * 4
    source = next(glob.iglob(f"tests/unit/**/test_{unit}.c", recursive=True), "") if unit else f"tests/{file}"
    wanted = f"static void {test}(void **state)" if unit else f"def {function}("
    if not os.path.isfile(source) or wanted not in read(source):
        problem(path, 1, "names no test that is there")


def check_references(path, text):
    """Each relative link of a page leads to a file, and what follows a # to a heading there."""
    for match in re.finditer(r"\]\(([^)\s#]*)(?:#([^)\s]+))?\)", text):
        target = os.path.join(os.path.dirname(path), match[1]) if match[1] else path
        if re.match(r"[a-z]+:", match[1]):
            continue
        if not os.path.exists(target):
            problem(path, line_of(text, match.start()), f"a link to {match[1]}, which is not there")
        elif match[2] and target.endswith(".md") and match[2] not in anchors(read(target)):
            problem(path, line_of(text, match.start()), f"a link to {match[1]}#{match[2]}, a heading that is not there")


def anchors(text):
    """What leads to the headings of a page."""
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in re.findall(r"^#+ (.*)$", text, re.M)}


def check_book():
    """The index of docs/ leads to each page."""
    index = "docs/README.md"
    if not os.path.exists(index):
        return
    text = read(index)
    for name in sorted(os.listdir("docs")):
        if name.endswith(".md") and name not in text and name != "README.md":
            problem(index, 1, f"does not name {name}")
    for name in sorted(os.listdir("docs/pictures")) if os.path.exists("docs/pictures") else []:
        if os.path.getsize(f"docs/pictures/{name}") > PICTURE_BYTES:
            problem(f"docs/pictures/{name}", 1, f"more than {PICTURE_BYTES} bytes")


def config_keys():
    """(line, section, key) of each key that the configuration knows."""
    text = without_comments(read("common/config.c"))
    for match in re.finditer(r'^\t\{ "([\w-]+)", "([\w-]+)",', text, re.M):
        yield line_of(text, match.start()), match[1], match[2]


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
    page, schema = "docs/index.md", [f"store/index/schema/{name}.sql" for name in ("tables", "views")]
    if not os.path.exists(schema[1]):
        return
    database = sqlite3.connect(":memory:")
    for source in filter(os.path.exists, ("store/index/functions.c", "store/index/access-table.c")):
        for name, n in re.findall(r'\{ "(\w+)", (\d), \w+ \}', read(source)):
            database.create_function(name, int(n), lambda *_: None, deterministic=True)
        for made in re.findall(r"#define COLUMNS(.*?)\n\n", read(source), re.S):
            database.execute("".join(re.findall(r'"(.*)"', made)))
    for name in re.findall(r'\] = "(\w+)"', read("store/index/version-row.c") if os.path.exists("store/index/version-row.c") else ""):
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
        if path.endswith(".h"):
            check_declarations(path, text)
        if path.startswith("query/") and path.endswith((".c", ".h")):
            check_sql(path, text)
        if path.startswith(("query/", "store/")) and path.endswith(".c"):
            check_sql_text(path, text)
        if path.endswith(".break"):
            check_broken(path, text)
        if path.endswith(".md"):
            check_references(path, text)
        if path.endswith((".c", ".h", ".py", ".sql", ".bash", ".zsh", ".fish", ".sh")):
            check_file_size(path, text)
    check_folders()
    check_commands()
    check_map()
    check_reliability()
    check_book()
    check_config()
    check_record()
    check_views()
    print("\n".join(problems), end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
