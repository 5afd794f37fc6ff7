# SPDX-License-Identifier: MIT
"""Names and commands of any bytes, damaged stores, bad configurations and arguments: a clear
error, nothing lost, and the work goes on."""

import glob
import json
import os
import re
import shutil
import sqlite3
import struct

import pexpect
import pytest

import harness

pytestmark = pytest.mark.users("ordinary")

PROGRAM = os.path.join(harness.PREFIX, "bin/shfs")
UNSAFE = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]")


def shown_safely(result, what):
    for text in result.stdout_bytes, result.stderr_bytes:
        assert not UNSAFE.search(text), (what, text)
        text.decode()


def one_line(result):
    """The message of a failure, with at most a hint behind it."""
    lines = result.stderr.splitlines()
    assert lines and lines[0].startswith("shfs: "), result
    assert len(lines) <= 2 and all(line.startswith("  hint: ") for line in lines[1:]), result
    shown_safely(result, result.argv)
    return lines[0]


# --- names and commands of any bytes ---

NAMES = [
    b"new\nline", b"tab\there", b"esc\x1b[31mred\x1b]0;title\x07", b"not-\xff\xfe-utf8", b"cut \xe2\x82",
    b"quo'te\"back\\slash$(touch owned)`id`", b"-n", b"--help", b" lead and trail ", b"c1\xc2\x9b31m", b"%s%n",
    b"bidi\xe2\x80\xaeabc", b"del\x7f", b"at@2", b"at@{now}", b"*?[a]", b"\x01\x02", b"x" * 255, b"~a", b"#c",
    b"cr\rover",
]  # fmt: skip


@pytest.fixture
def odd(sandbox, shell):
    """Files of odd names in directories of odd names, made by odd commands of a real shell."""
    sandbox.mount()
    for number, name in enumerate(NAMES):
        sandbox.run("sh", "-c", 'printf "one%s" "$2" > "$1"; printf "two%s" "$2" > "$1"', "sh", b"./" + name, str(number))
    deep = b"d\n\xff\x1b[1m"
    sandbox.run("mkdir", deep)
    sandbox.run("sh", "-c", 'cd "$1" && echo deep > file', "sh", deep)
    bash = shell("bash")
    bash.run("cd $'d\\n\\xff\\e[1m'")
    bash.run("echo \x16\x1b[31m >$'by\\nshell'; : '\udcff\udcfe' \"\n\tof lines\" '</script>'")
    bash.run("cd ..; exec 9</dev/null")
    bash.close()
    sandbox.shfs("sync")
    return sandbox


def test_odd_names_in_every_query(odd):
    for number, name in enumerate(NAMES):
        spec = b"./" + name
        for args in (["log"], ["why"], ["show"]):
            result = odd.shfs(*args, "--", spec)
            shown_safely(result, (args, name))
        assert odd.shfs("cat", "--", spec + b"@1").stdout_bytes == b"one%d" % number
        assert odd.shfs("cat", "--", spec).stdout_bytes == b"two%d" % number
        diff = odd.shfs("diff", "--", spec + b"@1", spec + b"@2", check=1)
        assert b"-one" in diff.stdout_bytes and b"+two" in diff.stdout_bytes
        shown_safely(diff, name)
        log = json.loads(odd.shfs("log", "--json", "--", spec).stdout)
        assert os.path.basename(log["path"].encode("utf-8", "surrogateescape")) == name
    for args in ["history", "--all"], ["history"], ["status"], ["doctor"], ["undelete", "--list"]:
        shown_safely(odd.shfs(*args, check=False), args)
    assert not os.path.exists(os.path.join(odd.project, "owned"))


def test_odd_names_are_put_back(odd):
    for number, name in enumerate(NAMES):
        spec = b"./" + name
        result = odd.shfs("restore", "--", spec + b"@1")
        shown_safely(result, name)
        assert odd.run("cat", "--", spec).stdout_bytes == b"one%d" % number
        odd.run("rm", "--", spec)
    listed = odd.shfs("undelete", "--list")
    shown_safely(listed, "undelete --list")
    result = odd.shfs("undelete", "--", *[b"./" + name for name in NAMES])
    shown_safely(result, "undelete")
    names = odd.run("find", ".", "-maxdepth", "1", "-type", "f", "-print0").stdout_bytes.split(b"\0")
    assert {b"./" + name for name in NAMES} <= set(names)


def test_odd_commands(odd):
    shown = odd.shfs("history", "--all")
    shown_safely(shown, "history")
    assert r"\e[31m" in shown.stdout and r"\xff" in shown.stdout
    text = odd.shfs("history", "--all", "--json").stdout
    entries = json.loads(text)["commands"]
    assert any(e["text"] and e["text"].startswith("echo \x1b[31m >") and e["text"].endswith("'</script>'") and
               "'\udcff\udcfe' \"\n" in e["text"] for e in entries)
    for entry in entries:
        if entry["id"]:
            shown_safely(odd.shfs("show", entry["id"]), entry)


def test_odd_names_on_a_terminal(odd):
    def become():
        odd.user.become()
        os.chdir(odd.project)

    for args in ["history", "--all"], ["log", "--", b"./" + NAMES[2]], ["why", "--", b"./" + NAMES[0]], ["undelete", "--list"]:
        env = {**odd.env, "PAGER": "cat", "NO_COLOR": "1"}
        pty = pexpect.spawn(PROGRAM, [os.fsdecode(a) for a in args], env=env, preexec_fn=become, dimensions=(24, 80), timeout=20 * harness.PATIENCE)
        pty.expect(pexpect.EOF)
        text = pty.before.replace(b"\r\n", b"\n")
        pty.close()
        assert not UNSAFE.search(text), text


# --- terminals and outputs ---


@pytest.fixture
def recorded(sandbox):
    mount = sandbox.mount()
    sandbox.sh("echo one > file; echo two > file; cp file copy")
    mount.unmount()
    sandbox.shfs("log", "file")
    return sandbox


@pytest.mark.parametrize(
    "env",
    [{"TERM": "dumb"}, {"TERM": ""}, {"TERM": "no-such"}, {"COLUMNS": "1"}, {"COLUMNS": "0"}, {"COLUMNS": "-3"},
     {"COLUMNS": "x"}, {"COLUMNS": "99999999999999999999"}, {"LC_ALL": "", "LANG": ""}, {"LC_ALL": "no_SUCH.locale"},
     {"LC_ALL": "C"}, {"TZ": "nonsense"}, {"TZ": ""}, {"HOME": ""}, {"PAGER": "", "SHFS_PAGER": "\n"}],
)  # fmt: skip
def test_odd_environments(recorded, env):
    for args in ["history", "--all"], ["log", "file"], ["why", "copy"], ["log", "-p", "file"], ["status"]:
        result = recorded.shfs(*args, env=env)
        assert result.stdout and result.stderr == "", (args, result)

        def become():
            recorded.user.become()
            os.chdir(recorded.project)

        if args[0] in ("log", "why"):
            pty = pexpect.spawn(PROGRAM, [*args, "--no-pager"], env={**recorded.env, **env}, preexec_fn=become, timeout=20 * harness.PATIENCE)
            pty.expect(pexpect.EOF)
            pty.close()
            assert pty.exitstatus == 0, (args, pty.before)


# --- arguments ---


@pytest.mark.parametrize(
    "args",
    [["history", "-n", "99999999999999999999"], ["history", "-n", "1e3"], ["history", "-n", " 1"],
     ["history", "--since", "2024-02-30"], ["history", "--since", "2024-13-01"], ["history", "--since", "25:00"],
     ["history", "--until", "99999999999 days ago"], ["history", "--since", ""], ["history", "--since", "0000-00-00"],
     ["history", "--status", "256x"], ["history", "--status", "99999999999"], ["history", "--session", ""],
     ["history", "--regex", "[" * 5], ["history", "--cwd", ""], ["log", ""], ["log", "-n", "0", "file"],
     ["cat", ""], ["cat", "file@"], ["cat", "file@{}"], ["cat", "file@99999999999999999999"],
     ["cat", "file@{2024-02-30}"], ["diff", "file", ""], ["diff", "-U", "-1", "file"], ["diff", "-U", "99999999999999999999", "file"],
     ["why", ""], ["why", "--depth", "-1", "file"], ["why", "--depth", "99999999999999999999", "file"],
     ["show", ""], ["restore", ""], ["restore", "--to", "", "file@1"], ["undelete", ""], ["mount", ""], ["umount", ""],
     ["init", ""], ["help", ""], ["--color", "", "history"], ["--config", "", "status"], ["mount", "--backend", ""],
     ["log", "x" * 5000], ["cat", "x" * 5000 + "@1"], ["restore", "--to", "x" * 5000, "file@1"], ["mount", "x" * 5000]],
)  # fmt: skip
def test_bad_arguments(recorded, args):
    result = recorded.shfs(*args, check=False)
    message = one_line(result)
    assert result.stdout == "" and len(message) < 400 + sum(map(len, args))
    # what is no word of the language is a usage error; what could be there and is not, is not found
    fine = (2, 3) if args[0] in ("log", "cat", "show", "why", "diff", "restore", "undelete", "umount", "help") else (2,)
    if args[0] == "restore" and len(args) > 2 and args[2]:
        fine = (1,)  # a name that the file system refuses
    assert result.status in fine, result


def test_store_paths(sandbox):
    sandbox.sh("echo x > file")
    loop = os.path.join(sandbox.home, "loop")
    os.symlink("loop", loop)
    for path, code in ((loop + "/store", 6), (loop, 6), ("/" + "x" * 300 + "/store", 6), ("x/" * 2100 + "s", 6), ("/dev/null", 6), ("/proc/store", 6)):
        for command in ["mount", sandbox.project], ["history"], ["status"]:
            result = sandbox.shfs("--store", path, *command, check=False)
            assert result.status in (code, 3 if command == ["status"] else code), (path[:40], command, result)
            if result.status:
                one_line(result)
    for name in "with space", "new\nline", "quo'te\"$(x)", "not-\udcff", "-dash", "~", "a:b,c=d":
        store = os.path.join(sandbox.home, name)
        sandbox.shfs("--store", store, "mount", sandbox.project)
        sandbox.sh(f"echo $$ > made")
        result = sandbox.shfs("--store", store, "log", "made")
        shown_safely(result, name)
        assert "made@1" in result.stdout
        shown_safely(sandbox.shfs("--store", store, "status"), name)
        sandbox.shfs("--store", store, "umount", sandbox.project)
    # a relative one is that of the directory where it is named
    sandbox.shfs("--store", "../relative", "mount", sandbox.project)
    sandbox.sh("echo 2 > made")
    assert "made@" in sandbox.shfs("--store", os.path.join(sandbox.home, "relative"), "log", "made").stdout
    sandbox.shfs("umount", sandbox.project, env={"SHFS_STORE": os.path.join(sandbox.home, "relative")})


# --- the configuration ---


def bad_directory(path, sandbox):
    os.makedirs(path)
    sandbox.user.own(path)


def text_of(data, mode=0o644):
    return lambda path, sandbox: sandbox.write_outside(path, data, mode)


CONFIGS = {
    "unknown key": (text_of("[archive]\nmax-siez = 1\n"), r"config\.ini:2: there is no key \"max-siez\" in \[archive\]"),
    "bad value": (text_of("[archive]\n\nmax-size = many\n"), r"config\.ini:3: bad value \"many\" for max-size"),
    "no section": (text_of("[archiv\nwait = 1\n"), r"config\.ini:1: "),
    "escapes": (text_of("[archive]\n\x1b[31mkey = \x07\n"), r"config\.ini:2: there is no key \"\\e\[31mkey\""),
    "not UTF-8": (text_of(b"[archive]\nmax-size = \xff\xfe\n"), r"config\.ini:2: bad value \"\\xff\\xfe\""),
    "garbage": (text_of(bytes(range(256)) * 8), r"config\.ini:\d+: "),
    "NUL": (text_of(b"[archive]\nwait = 1\0\n"), r"config\.ini:2: a NUL byte"),
    "a line of 1 MB": (text_of("[archive]\nignore = " + "x" * 1000000 + "\n"), r"config\.ini:2: the line is too long"),
    "2 MB": (text_of("# c\n" * 500000), r"config\.ini: .*too (large|big)"),
    "a directory": (bad_directory, r"config\.ini: Is a directory"),
    "no permission": (text_of("[archive]\n", 0), r"config\.ini: Permission denied"),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_bad_configuration(sandbox, shfs, name):
    make, pattern = CONFIGS[name]
    path = os.path.join(sandbox.home, ".config/shfs/config.ini")
    os.unlink(path)  # that of all tests
    make(path, sandbox)
    result = shfs("mount", sandbox.project)  # the user's own file does not hinder
    shown_safely(result, name)
    assert re.search(pattern, result.stderr), result
    assert sum("config.ini" in line for line in result.stderr.splitlines()) == 1
    sandbox.sh("echo one > file; echo two > file")
    log = shfs("log", "file")
    assert "file@2" in log.stdout
    shown_safely(log, name)
    shfs("umount", sandbox.project)
    result = shfs("mount", "--config", path, sandbox.project, check=2)  # the named one does
    assert re.search(pattern, one_line(result)), result
    assert sandbox.project not in harness.mounts_below(sandbox.project)
    sandbox.allow_log(".")


def test_configuration_as_editors_leave_it(sandbox, shfs):
    """CRLF, a BOM, a key given twice: the later one counts."""
    path = os.path.join(sandbox.home, ".config/shfs/config.ini")
    sandbox.write_outside(path, b"\xef\xbb\xbf[archive]\r\nmax-size = 1\r\nmax-size = 5\r\n")
    assert "config.ini" not in shfs("mount", sandbox.project).stderr
    sandbox.sh("printf 12345 > five; printf 123456 > six")
    kept = [json.loads(shfs("log", "--json", name).stdout) for name in ("five", "six")]
    shfs("umount", sandbox.project)
    assert "12345" == shfs("cat", "five@1").stdout
    assert "larger than the limit" in one_line(shfs("cat", "six@1", check=1)), kept


def test_bad_lines_of_shfsignore(sandbox, shfs, mounted):
    sandbox.write(".shfsignore", b"[\n[a-\n\\\n!\n/\n**\\\n\xff\xfe*\n\x1b[31m\n" + b"y" * 100000 + b"\n[[:nonsense:]]\n*.no\r\n*.off\n")
    sandbox.sh("echo 1 > file; echo 1 > x.off")
    shfs("sync")
    assert shfs("cat", "file@1").stdout == "1\n"
    assert "excluded by a rule" in one_line(shfs("cat", "x.off@1", check=1))
    shown_safely(shfs("status", check=False), "status")


# --- a damaged store ---


def segments(sandbox):
    return sorted(glob.glob(sandbox.store + "/journal/*/*.seg*"))


def objects(sandbox):
    return sorted(p for p in glob.glob(sandbox.store + "/objects/*/*") if os.path.isfile(p))


def forget_index(sandbox):
    for path in glob.glob(sandbox.store + "/index.db*"):
        os.unlink(path)


@pytest.fixture
def crashed(sandbox):
    """A journal whose last segment has no END: its daemon was killed."""
    mount = sandbox.mount()
    for command in "echo one > file", "echo two > file", "echo y > another", "echo x > other":
        sandbox.sh(command)  # each in a batch of its own
        sandbox.run("getfattr", "--only-values", "-n", "user.shfs.sync", ".", check=False)
    mount.expected_status = -9
    os.kill(mount.process.pid, 9)
    mount.wait()
    harness.wait_until(lambda: not harness.mounts_below(sandbox.project), "the guardian")
    [path] = segments(sandbox)
    assert path.endswith(".seg")
    sandbox.shfs("log", "file")
    return sandbox


def frames(data):
    """Offsets of the frames, and the end."""
    at, found = 8, []
    while at + 16 <= len(data):
        assert data[at : at + 4] == b"SHFB"
        found.append(at)
        at += 16 + struct.unpack_from("<I", data, at + 4)[0]
    return found, at


TAILS = {
    "garbage": lambda d: d + os.urandom(777),
    "zeros": lambda d: d + bytes(70000),
    "half a frame": lambda d: d + d[frames(d)[0][-1] :][:50],
    "huge length": lambda d: d + b"SHFB\xff\xff\xff\x00" + bytes(100),
}


@pytest.mark.parametrize("tail", TAILS)
def test_torn_tail(crashed, tail):
    expected = crashed.shfs("log", "--json", "file").stdout
    [path] = segments(crashed)
    with open(path, "rb") as segment:
        data = segment.read()
    crashed.write_outside(path, TAILS[tail](data), 0o600)
    assert crashed.shfs("log", "--json", "file").stdout == expected
    forget_index(crashed)
    assert crashed.shfs("log", "--json", "file").stdout == expected
    assert crashed.shfs("cat", "file@1").stdout == "one\n"


def test_cut_and_flipped(crashed):
    """Cut anywhere in the last record, or a byte flipped in the middle: the rest is read."""
    [path] = segments(crashed)
    with open(path, "rb") as segment:
        data = segment.read()
    starts, end = frames(data)
    assert end == len(data) and len(starts) > 4
    for cut in {starts[-1], starts[-1] + 1, starts[-1] + 20, end - 1}:
        crashed.write_outside(path, data[:cut], 0o600)
        forget_index(crashed)
        assert "file@2" in crashed.shfs("log", "file").stdout, cut
    middle = starts[len(starts) // 2]
    flipped = bytearray(data)
    flipped[middle + 50] ^= 4
    crashed.write_outside(path, bytes(flipped), 0o600)
    forget_index(crashed)
    crashed.shfs("history", "--all")
    assert "damage" in crashed.shfs("status", check=False).stdout
    crashed.write_outside(path, data, 0o600)
    forget_index(crashed)
    assert crashed.shfs("cat", "file@1").stdout == "one\n"


def put_directory(path, sandbox):
    sandbox.mkdir(path)


JOURNAL = {
    "empty segment": ("fuse-00000000-00000000-000000.seg", text_of(b"", 0o600)),
    "empty sealed": ("fuse-00000000-00000000-000000.seg.zst", text_of(b"", 0o600)),
    "garbage": ("fuse-00000000-00000000-000000.seg", text_of(os.urandom(5000), 0o600)),
    "garbage sealed": ("fuse-00000000-00000000-000000.seg.zst", text_of(os.urandom(5000), 0o600)),
    "newer format": ("fuse-00000000-00000000-000000.seg", text_of(b"shfsseg\x09" + bytes(100), 0o600)),
    "older format": ("fuse-00000000-00000000-000000.seg", text_of(b"shfsseg\x01" + bytes(100), 0o600)),
    "directory": ("fuse-00000000-00000000-000000.seg", put_directory),
    "unreadable": ("fuse-00000000-00000000-000000.seg", text_of(b"shfsseg\2", 0)),
    "unreadable log": ("shell-00000000-1-1.log", text_of(b"\x1eS1\0", 0)),
    "torn log": ("shell-00000000-1-1.log", text_of(b"\x1eS1\0" b"1\0" + os.urandom(300), 0o600)),
    "log of zeros": ("shell-00000000-1-1.log", text_of(bytes(5000), 0o600)),
    "link": ("fuse-00000000-00000000-000000.seg", lambda path, sandbox: os.symlink("/etc/passwd", path)),
    "link to itself": ("shell-00000000-1-1.log", lambda path, sandbox: os.symlink(path, path)),
    "fifo": ("fuse-00000000-00000000-000000.seg", lambda path, sandbox: (os.mkfifo(path), sandbox.user.own(path))),
}


@pytest.mark.parametrize("name", JOURNAL)
def test_foreign_files_in_the_journal(recorded, name):
    expected = [recorded.shfs(*args).stdout for args in (["log", "file"], ["history", "--all"])]
    where, make = JOURNAL[name]
    [host] = glob.glob(recorded.store + "/journal/*")
    make(os.path.join(host, where), recorded)
    for _ in range(2):
        results = [recorded.shfs(*args) for args in (["log", "file"], ["history", "--all"])]
        assert [r.stdout for r in results] == expected
        assert [r.stderr for r in results] == ["", ""]
        forget_index(recorded)
    shown_safely(recorded.shfs("status", check=False), "status")
    mount = recorded.mount()  # and work goes on
    recorded.sh("echo three > file")
    mount.unmount()
    assert recorded.shfs("cat", "file@3").stdout == "three\n"


@pytest.mark.users("ordinary")
def test_a_segment_of_another_format(recorded):
    """It is named, and nothing is pruned or forgotten meanwhile."""
    [host] = glob.glob(recorded.store + "/journal/*")
    recorded.write_outside(f"{host}/fuse-00000000-00000000-000000.seg", b"shfsseg\x01" + bytes(100), 0o600)
    assert "another version of shfs made it" in recorded.shfs("check", check=False).stdout
    for words in (("prune", "--keep-last", "1"), ("forget", "--yes", "file")):
        refused = recorded.shfs(*words, check=4).stderr
        assert "another version of shfs wrote some of the journal" in refused
    assert "not complete" not in recorded.shfs("log", "file").stderr


def test_a_segment_that_vanishes(recorded):
    """What is known of it stays known, until somebody rebuilds the index."""
    before = recorded.shfs("log", "file").stdout
    for path in segments(recorded):
        os.unlink(path)
    assert recorded.shfs("log", "file").stdout == before
    recorded.shfs("reindex")
    recorded.shfs("log", "file", check=3)


# --- objects ---

OBJECT_DAMAGE = {
    "missing": lambda path, sandbox: os.unlink(path),
    "empty": text_of(b"", 0o600),
    "cut": lambda path, sandbox: os.truncate(path, os.path.getsize(path) - 3),
    "garbage": text_of(b"garbage" * 9, 0o600),
    "unreadable": lambda path, sandbox: os.chmod(path, 0),
    "directory": lambda path, sandbox: (os.unlink(path), sandbox.mkdir(path)),
}


def frame_at(sandbox, name):
    """The pack that has the object, and where its frame begins: 40 bytes, then what is stored."""
    [pack] = glob.glob(sandbox.store + "/objects/packs/*.pack")
    with open(pack, "rb") as file:
        return pack, file.read().index(bytes.fromhex(name)) - 8


def overwrite(path, at, data):
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(data)


def flip(path, at):
    with open(path, "rb") as file:
        file.seek(at)
        [byte] = file.read(1)
    overwrite(path, at, bytes([byte ^ 1]))


FRAME_DAMAGE = {
    "flip": lambda path, at: flip(path, at + 100),
    "zeros": lambda path, at: overwrite(path, at, bytes(200)),
    "head": lambda path, at: overwrite(path, at + 9, b"garbage"),
    "length": lambda path, at: overwrite(path, at + 28, b"\xff\xff\x0f\0"),
}


def object_of(shfs, number):
    log = json.loads(shfs("log", "--json", "file").stdout)
    [name] = [v["object"] for v in log["versions"] if v["n"] == number]
    return name


def version_1_is_lost(sandbox, shfs):
    for args in ["cat", "file@1"], ["restore", "file@1"], ["restore", "--to", "new", "file@1"], ["diff", "file@1", "file@2"]:
        result = shfs(*args, check=False)
        assert result.status == (2 if args[0] == "diff" else 1), result
        assert "file@1" in one_line(result) and "Traceback" not in result.stderr
        assert args[0] != "restore" or result.stdout == ""
    assert sandbox.read("file") == b"now\n", "nothing half restored"
    assert not os.path.exists(os.path.join(sandbox.project, "new"))
    assert sorted(os.listdir(sandbox.project)) == ["file"]
    assert shfs("cat", "file@2").stdout.startswith("2\n"), "the others are there"
    shfs("log", "file")
    assert shfs("log", "-p", "file", check=False).status in (0, 1)


@pytest.mark.parametrize("name", [*OBJECT_DAMAGE, "another"])
def test_bad_object(sandbox, shfs, name):
    """A large content, which has a file of its own."""
    mount = sandbox.mount()
    sandbox.sh("head -c 1200000 /dev/urandom > file; (echo 2; head -c 1200000 /dev/urandom | base64) > file; echo now > file")
    mount.unmount()
    name_in_store = object_of(shfs, 1)
    [wanted] = [p for p in objects(sandbox) if (os.path.basename(os.path.dirname(p)) + os.path.basename(p)) == name_in_store]
    os.chmod(wanted, 0o600)
    if name == "another":
        shutil.copyfile(next(p for p in objects(sandbox) if p != wanted and "/packs/" not in p), wanted)
    else:
        OBJECT_DAMAGE[name](wanted, sandbox)
    version_1_is_lost(sandbox, shfs)


@pytest.mark.parametrize("name", FRAME_DAMAGE)
def test_bad_frame(sandbox, shfs, name):
    """A small one, in a pack."""
    mount = sandbox.mount()
    sandbox.sh("head -c 400 /dev/urandom > file; (echo 2; head -c 400 /dev/urandom | base64) > file; echo now > file")
    mount.unmount()
    FRAME_DAMAGE[name](*frame_at(sandbox, object_of(shfs, 1)))
    version_1_is_lost(sandbox, shfs)


# --- the index ---


def set_version(sandbox, number):
    db = sqlite3.connect(sandbox.store + "/index.db")
    db.execute(f"PRAGMA user_version = {number}")
    db.commit()
    db.close()


def test_older_index_is_made_again(recorded):
    before = recorded.shfs("log", "--json", "file").stdout
    set_version(recorded, 1)
    result = recorded.shfs("log", "--json", "file")
    assert result.stdout == before and result.stderr == ""


def test_newer_index_is_not_touched(recorded):
    set_version(recorded, 4711)
    with open(recorded.store + "/index.db", "rb") as index:
        before = index.read()
    for args in ["log", "file"], ["history"], ["why", "copy"], ["cat", "file@1"], ["restore", "file@1"]:
        result = recorded.shfs(*args, check=1)
        assert "newer version" in one_line(result) and "reindex" in result.stderr
    mount = recorded.mount()  # recording needs no index
    recorded.sh("echo three > file")
    mount.unmount()
    with open(recorded.store + "/index.db", "rb") as index:
        assert index.read() == before
    recorded.shfs("reindex")
    assert recorded.shfs("cat", "file@3").stdout == "three\n"
    assert os.path.exists(recorded.store + "/index.db.damaged"), "kept aside"


INDEXES = {
    "garbage": text_of(os.urandom(20000), 0o600),
    "text": text_of("not a database\n", 0o600),
    "another database": lambda path, sandbox: (os.unlink(path), foreign_database(path, sandbox)),
    "directory": lambda path, sandbox: (os.unlink(path), sandbox.mkdir(path)),
    "link": lambda path, sandbox: (os.unlink(path), os.symlink("/etc/passwd", path)),
}


def foreign_database(path, sandbox):
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE mine (x)")
    db.commit()
    db.close()
    sandbox.user.own(path)


@pytest.mark.parametrize("name", INDEXES)
def test_corrupt_index(recorded, name):
    path = recorded.store + "/index.db"
    for extra in glob.glob(path + "-*"):
        os.unlink(extra)
    INDEXES[name](path, recorded)
    result = recorded.shfs("log", "file", check=1)
    assert "the index is damaged" in one_line(result) and "reindex" in result.stderr
    recorded.shfs("reindex")
    assert "file@2" in recorded.shfs("log", "file").stdout
    assert os.path.lexists(path + ".damaged"), "kept aside"


def test_empty_index_is_filled(recorded):
    before = recorded.shfs("log", "--json", "file").stdout
    forget_index(recorded)
    recorded.write_outside(recorded.store + "/index.db", b"", 0o600)
    assert recorded.shfs("log", "--json", "file").stdout == before


def test_index_locked_by_another(recorded):
    """Waited for; then the answer is the one there was, and says so."""
    mount = recorded.mount()
    recorded.sh("echo three > file")
    mount.unmount()
    db = sqlite3.connect(recorded.store + "/index.db", isolation_level=None)
    db.execute("BEGIN EXCLUSIVE")
    result = recorded.shfs("log", "file", timeout=60)
    db.execute("ROLLBACK")
    db.close()
    assert "file@2" in result.stdout and "file@3" not in result.stdout
    assert "the answer may not be up to date" in one_line(result)
    assert "file@3" in recorded.shfs("log", "file").stdout


def test_read_only_store(recorded):
    before = recorded.shfs("log", "file").stdout
    for directory, _, files in os.walk(recorded.store):
        for name in files:
            os.chmod(os.path.join(directory, name), 0o400)
        os.chmod(directory, 0o500)
    result = recorded.shfs("log", "file", check=False)
    for directory, _, _ in os.walk(recorded.store):
        os.chmod(directory, 0o700)
    if result.status == 0:
        assert result.stdout == before
    else:
        one_line(result)
