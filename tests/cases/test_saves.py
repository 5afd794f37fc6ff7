# SPDX-License-Identifier: MIT
"""Programs as they really save: which versions a file gets by it, by which command, under which
names, byte for byte."""

import os

import pytest

from test_capture import BEFORE, contents, rows

pytestmark = pytest.mark.either

PRINT = "printf 'two\\n'"
MMAP = "import mmap; f = open('f', 'r+b'); m = mmap.mmap(f.fileno(), 0); m[0:3] = b'two'"
GROW = "import mmap; f = open('f', 'r+b'); f.truncate(8192); m = mmap.mmap(f.fileno(), 0); f.close(); m[0:4] = b'two\\n'; m[8188:] = b'end\\n'"
GROWN = b"two\n" + bytes(8184) + b"end\n"
PATCH = "printf -- '--- f\\n+++ f\\n@@ -1 +1 @@\\n-one\\n+two\\n'"
EMACS = "emacs -Q --batch f --eval '(progn (while (search-forward \"one\" nil t) (replace-match \"two\")) (save-buffer))'"
EXCHANGE = "import ctypes; ctypes.CDLL(None).renameat2(-100, b'n', -100, b'f', 2)"

# What is typed in a directory with a file f of a line "one", and the versions that f gets.
# Then the names of the other files that have versions and are there afterwards, if any.
SAVES = {
    "shell": (f"{PRINT} > f", [b"two\n"]),
    "append": (f"{PRINT} >> f", [b"one\ntwo\n"]),
    "append twice": ("echo 2 >> f; echo 3 >> f", [b"one\n2\n", b"one\n2\n3\n"]),
    "tee": (f"{PRINT} | tee f > /dev/null", [b"two\n"]),
    "tee -a": (f"{PRINT} | tee -a f > /dev/null", [b"one\ntwo\n"]),
    "sed -i": ("sed -i s/one/two/ f", [b"two\n"]),
    "sed -i, a backup": ("sed -i.bak s/one/two/ f; rm f.bak", [b"two\n"]),
    "perl -i": ("perl -pi -e s/one/two/ f", [b"two\n"]),
    "ed": ("printf '%s\\n' s/one/two/ w q | ed -s f", [b"two\n"]),
    "ex": ("printf '%s\\n' %s/one/two/ wq | vim -Nesu NONE -n f", [b"two\n"]),
    "vim": ("vim -Nesu NONE -c %s/one/two/ -c wq f", [b"two\n"]),
    "vim, keeping a backup": ("vim -Nesu NONE -c 'set backup backupcopy=no' -c %s/one/two/ -c wq f; rm f~", [b"two\n"]),
    "vim, in place": ("vim -Nesu NONE -c 'set backupcopy=yes' -c %s/one/two/ -c wq f", [b"two\n"]),
    "vim, twice": ("vim -Nesu NONE -c %s/one/two/ -c w -c %s/two/three/ -c wq f", [b"two\n", b"three\n"]),
    "emacs": (f"{EMACS}; rm f~", [b"two\n"]),
    "cp": (f"{PRINT} > n; cp n f", [b"two\n"], "n"),
    "cp -p": (f"{PRINT} > n; touch -d 2005-05-05 n; cp -p n f", [b"two\n"], "n"),
    "cp --reflink=auto": (f"{PRINT} > n; cp --reflink=auto n f", [b"two\n"], "n"),
    "cp --remove-destination": (f"{PRINT} > n; cp --remove-destination n f", [b"two\n"], "n"),
    "mv": (f"{PRINT} > n; mv n f", [b"two\n"]),
    "mv from another file system": (f"{PRINT} > $TMPDIR/n; mv $TMPDIR/n f", [b"two\n"]),
    "install": (f"{PRINT} > n; install -m 600 n f", [b"two\n"], "n"),
    "install -b": (f"{PRINT} > n; install -b n f; rm f~", [b"two\n"], "n"),
    "ln -f": (f"{PRINT} > n; ln -f n f", [b"two\n"], "n"),
    "ln -sf": (f"{PRINT} > n; ln -sf n f", [], "n"),
    "dd conv=notrunc": ("printf two | dd of=f bs=1 conv=notrunc status=none", [b"two\n"]),
    "dd seek": ("printf two | dd of=f bs=1 seek=2 conv=notrunc status=none", [b"ontwo"]),
    "truncate": ("truncate -s 2 f; truncate -s 3 f", [b"on", b"on\0"]),
    "touch -d": ("touch -d 2004-04-04 f; touch f; chmod 600 f", []),
    "python": ("python3 -c 'open(\"f\", \"w\").write(\"two\\n\")'", [b"two\n"]),
    "python mmap": (f'python3 -c "{MMAP}"', [b"two\n"]),
    "numpy-like memmap": (f'python3 -c "{GROW}"', [GROWN]),
    "sort -o": ("printf 'b\\na\\n' > f; sort -o f f", [b"b\na\n", b"a\nb\n"]),
    "rsync": (f"{PRINT} > n; rsync -t --ignore-times n f", [b"two\n"], "n"),
    "rsync -a": (f"mkdir s; {PRINT} > s/f; touch -d 2004-04-04 s/f; rsync -a s/ .", [b"two\n"], "s/f"),
    "rsync --inplace": (f"mkdir s; {PRINT} > s/f; touch -d 2004-04-04 s/f; rsync -a --inplace s/ .", [b"two\n"], "s/f"),
    "tar x": (f"mkdir t; {PRINT} > t/f; tar cf t.tar -C t f; rm -r t; tar xf t.tar", [b"two\n"], "t.tar"),
    "tar x --overwrite": (f"mkdir t; {PRINT} > t/f; tar cf t.tar -C t f; rm -r t; tar xf t.tar --overwrite", [b"two\n"], "t.tar"),
    "patch": (f"{PATCH} | patch -s", [b"two\n"]),
    "patch -b": (f"{PATCH} | patch -s -b; rm f.orig", [b"two\n"]),
    "git apply": (f"{PATCH} | git apply -p0", [b"two\n"]),
    "exchange": (f'{PRINT} > n; python3 -c "{EXCHANGE}"', [b"two\n"], "n"),
    "gzip": ("gzip -n f; gunzip f.gz; echo 3 > f", [b"3\n"]),
    "split": ("split -b 2 f; cat xab xaa > f", [b"e\non"], "xaa xab"),
    "shfs restore": (f"{PRINT} > f; shfs restore f@1", [b"two\n", b"one\n"]),
}


def made_below(sandbox):
    """{name of a directory: {path below it: (content, command) of each version, None where there is none}}."""
    sql = """
SELECT v.path, v.n, v.object IS NOT NULL, v.size, c.text FROM v_version v LEFT JOIN v_command c USING (command_id)
WHERE NOT v.carried ORDER BY v.path, v.n"""
    versions = rows(sandbox, sql)
    data = sandbox.shfs("cat", *(f"{path}@{n}" for path, n, archived, *_ in versions if archived), timeout=60).stdout_bytes
    found = {}
    for path, n, archived, size, text in versions:
        where, name = os.path.relpath(path, sandbox.project).split("/", 1)
        made = found.setdefault(where, {}).setdefault(name, [])
        assert n == len(made) + 1
        made.append((data[:size] if archived else None, text))
        data = data[size if archived else 0 :]
    assert not data
    return found


def present(sandbox):
    """Paths of files that have versions and are there."""
    sql = "SELECT path FROM v_file WHERE present AND versions"
    return {os.path.relpath(path, sandbox.project) for (path,) in rows(sandbox, sql)}


@pytest.mark.users("ordinary")
@pytest.mark.timeout(120)
def test_each_way_to_save(sandbox, shell):
    for n in range(len(SAVES)):
        os.utime(sandbox.write_outside(f"{sandbox.project}/{n}/f", "one\n"), ns=BEFORE)
    sandbox.mount()
    bash = shell()
    lines = {}
    for n, (what, (line, *_)) in enumerate(SAVES.items()):
        lines[what] = f"{line}  # {n}"
        bash.run(f"cd {sandbox.project}/{n}")
        bash.run(lines[what])

    got, expected = {}, {}
    made_in, there_now = made_below(sandbox), present(sandbox)
    for n, (what, (_, saved, *names)) in enumerate(SAVES.items()):
        made = made_in.get(str(n), {})
        got[what] = made.get("f", []), {path for path in there_now if path.startswith(f"{n}/")}
        first = [(b"one\n", None)] if what != "touch -d" else []
        there = {"f"} if first else set()
        there |= set(" ".join(names).split())
        expected[what] = first + [(held, lines[what]) for held in saved], {f"{n}/{name}" for name in there}
        others = [text for name, versions in made.items() if name != "f" for _, text in versions]
        assert all(text == lines[what] for text in others if text), what
    wrong = {what: (got[what], expected[what]) for what in SAVES if got[what] != expected[what]}
    assert not wrong, "\n".join(f"{what}: {pair}" for what, pair in wrong.items())


# --- on a terminal ---


def edited(sandbox, name):
    """The commands that made the versions of a file."""
    return [text for (text,) in rows(sandbox, f"""
SELECT c.text FROM v_version v LEFT JOIN v_command c USING (command_id)
WHERE v.path = '{sandbox.project}/{name}' ORDER BY v.n""")]


EDITORS = {
    "vim": ("vim -Nu NONE f", "~", "otwo\x1b:w\rothree\x1b:wq\r"),
    "nano": ("nano -I f", "Help", "\x1b/two\x0f\r\rthree\x0f\r\x18"),
    "emacs": ("emacs -nw -Q f", "All", "\x1b>two\r\x18\x13three\r\x18\x13\x18\x03"),
}


@pytest.mark.parametrize("editor", EDITORS)
def test_an_editor_on_a_terminal(sandbox, mounted, shell, editor):
    """Saved twice, as a person does; the past of the file stays with its name."""
    bash = shell()
    bash.run("echo one > f")
    line, ready, keys = EDITORS[editor]
    bash.send(line + "\r")
    bash.pty.expect_exact(ready)
    bash.send(keys)
    bash.wait()
    assert contents(sandbox, "f") == [b"one\n", b"one\ntwo\n", b"one\ntwo\nthree\n"]
    assert edited(sandbox, "f") == ["echo one > f", line, line]


# --- programs with files of their own ---


GIT = """
export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a
git init -q -b main .; echo one > f; git add f; git commit -qm 1
git checkout -qb side; echo two > f; git commit -qam 2; git checkout -q main; git checkout -q side
git mv f g; git commit -qm 3; git checkout -q main
"""


def test_git(sandbox, mounted, shell):
    """Back and forth between branches, then one on top of the other: each is a version."""
    bash = shell()
    for line in GIT.strip().splitlines():
        bash.run(line)
    one, two = b"one\n", b"two\n"
    assert contents(sandbox, "f") == [one, two, one, two, one]
    assert contents(sandbox, "g")[-1] == two
    bash.run("echo main > h; git add h; git commit -qm 4; git checkout -q side; echo 3 >> g; git commit -qam 5")
    bash.run("git rebase -q main")
    assert sandbox.sh("git log --format=%s").stdout.split() == ["5", "3", "2", "4", "1"]
    # what side had goes away, and comes again commit by commit; g has the past of f
    assert contents(sandbox, "f") == [one, two, one, two, one, two]
    assert contents(sandbox, "g") == [one, two, one, two, two + b"3\n", two, two + b"3\n"]
    assert edited(sandbox, "f")[-1] == "git rebase -q main"


@pytest.mark.parametrize("journal", ["delete", "wal"])
@pytest.mark.both
def test_sqlite(sandbox, mounted, shell, journal):
    """A database after each command is one that can be opened, with what was in it then."""
    bash = shell()
    bash.run(f"sqlite3 db 'PRAGMA journal_mode={journal}; CREATE TABLE t(x)' > /dev/null")
    for n in range(3):
        bash.run(f"sqlite3 db 'INSERT INTO t VALUES({n}); PRAGMA wal_checkpoint(TRUNCATE)' > /dev/null")
    sql = f"""
SELECT max(v.n) FROM v_version v JOIN v_command c USING (command_id)
WHERE v.path = '{sandbox.project}/db' GROUP BY command_id ORDER BY c.number"""
    last = [n for (n,) in rows(sandbox, sql)]
    assert len(last) == 4
    for n, version in enumerate(last):
        sandbox.shfs("restore", f"db@{version}", "--to", f"then{n}")
        read = sandbox.run("sqlite3", f"then{n}", "PRAGMA integrity_check; SELECT group_concat(x) FROM t")
        assert read.stdout.split() == ["ok", *[",".join(map(str, range(n)))] * bool(n)]


def test_a_log_that_stays_open(sandbox, mounted, shell):
    """By a program that ends with the session: what each command read of it is known."""
    bash = shell()
    sandbox.write("serve.py", b"import sys\nfor line in sys.stdin: print(line, end='', flush=True)\n")
    bash.run("mkfifo pipe; python3 serve.py < pipe >> log &")
    bash.run("exec 4> pipe")
    for n in range(3):
        bash.run(f"echo {n} >&4; sleep 0.4")
        bash.run(f"cp log copy{n}")
    bash.run("exec 4>&-; wait")
    assert contents(sandbox, "log") == [b"0\n", b"0\n1\n", b"0\n1\n2\n"]
    for n in range(3):
        sandbox.shfs("why", f"copy{n}").stdout.index(f"log@{n + 1}")
