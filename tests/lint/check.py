#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Who may know whom, and what else holds for the whole tree. Prints FILE:LINE: what is wrong."""

import functools
import os
import re
import sys

FUNCTION_LINES = 100
FILE_LINES = 1000


# layer: the layers whose headers its files may include
LAYERS = {
    "common": {"common"},
    "capture": {"common", "capture"},
    "index": {"common", "capture", "index"},
    "fusefs": {"common", "capture", "fusefs"},
    "query": {"common", "capture", "index", "query"},
    "shellhook": {"shellhook"},
    "tests": {"common", "capture", "index", "fusefs", "query", "tests"},
}

# headers of a library: (the only layers that may include them, its name for meson)
LIBRARIES = {
    r"sqlite3\.h": ({"index"}, "sqlite3"),
    r"xxh(ash|3)\.h": ({"capture"}, "libxxhash"),
    r"(zstd|zstd_errors|zdict)\.h": ({"capture"}, "libzstd"),
    r"(fuse3/)?(fuse|fuse_\w+)\.h|linux/fuse\.h": ({"fusefs"}, "fuse3"),
    r"seccomp\.h": ({"fusefs"}, "libseccomp"),
    r"libsmartcols/.*|libsmartcols\.h": ({"query"}, "smartcols"),
    r"ini\.h": ({"common"}, "inih"),
}

problems = []


def problem(path, line, text):
    problems.append(f"{path}:{line}: {text}")


def files(*suffixes):
    for top, dirs, names in os.walk("."):
        dirs[:] = [d for d in sorted(dirs) if not re.match(r"build|\.git$|__pycache__", d)]
        for name in sorted(names):
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
    return "index" if path in index_files() or path.startswith("store/index") else "capture"


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
            if target not in LAYERS.get(layer, set()):
                problem(path, line, f"{layer} must not know {target} ({name})")
        elif quoted and not name.endswith("schema.h"):
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
    return re.findall(r'\{\s*(?:\.name\s*=\s*)?"([a-z][a-z0-9-]*)"', body[1]) if body else []


def check_commands():
    """Each command has a page (or a section of shfs(1)) that names each of its options."""
    found = commands()
    for name, (path, line, options) in found.items():
        page = f"man/shfs-{name}.1.scd"
        if not os.path.exists(page):
            problem(path, line, f"shfs {name} has no page {page}")
            continue
        text = read(page).replace("\\", "")
        for option in options:
            if not re.search(rf"--{option}(?![a-z0-9-])", text):
                problem(page, 1, f"does not name --{option}")
    overview = read("man/shfs.1.scd") if os.path.exists("man/shfs.1.scd") else ""
    for name, (path, line, _) in found.items():
        if not re.search(rf"\bshfs(\*?-|\* \*| ){name}\b|\*{name}\*", overview):
            problem(path, line, f"shfs {name} is not in man/shfs.1.scd")


# --- the text of every file ---


def check_text(path, text):
    """No path of the machine that it was written on; a licence in every source file."""
    for match in re.finditer(r"(?<![\w.}$*/])/(?:work|root)/\w", text):
        problem(path, line_of(text, match.start()), "a path of one machine")
    if path.endswith((".c", ".h")) and not text.startswith("/* SPDX-License-Identifier: MIT */\n"):
        problem(path, 1, "the first line must be /* SPDX-License-Identifier: MIT */")


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
        if path.endswith((".c", ".h", ".py", ".sql", ".bash", ".zsh", ".fish", ".sh")):
            check_file_size(path, text)
    check_commands()
    print("\n".join(problems), end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
