# SPDX-License-Identifier: MIT
"""What is secret in a command is in no file of the store, whoever writes it."""

import json
import os
import random
import re
import stat
import subprocess
import threading

import pytest

from harness import ALL
from test_forget import places
from test_hook import commands, log_paths, records, start

pytestmark = pytest.mark.either

KINDS = ["bash", "plain bash", "zsh", "plain zsh", "fish"]
EXAMPLES = os.path.join(os.path.dirname(__file__), "..", "secrets")
SECRET = b"hunter2-correct-horse"
TYPED = f"sh -c 'echo $0 $3 > out' a --password {SECRET.decode()} b"


def examples(name):
    """(typed, kept) of each line."""
    with open(os.path.join(EXAMPLES, name), encoding="utf-8") as file:
        lines = [line[:-1].replace("{}", "").replace("\\n", "\n") for line in file]
    for line in lines:
        if line and line[0] != "#":
            yield re.sub(r"\{\{|\}\}", "", line), re.sub(r"\{\{.*?\}\}", "[redacted]", line, flags=re.S)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_typed(sandbox, shell, kind):
    """The examples, as comments."""
    sh = start(shell, kind, before="setopt interactive_comments\n" if "zsh" in kind else "")
    wanted, wanted_tags = [], []
    some = 1 if ALL or kind == "bash" else 4  # what takes them out is the same in all
    for name in "secret.txt", "plain.txt":
        for typed, kept in list(examples(name))[::some]:
            if "\n" in typed or "!" in typed or "\\" in typed or "`" in typed:
                continue
            sh.run("true # " + typed)
            wanted.append("true # " + kept)
            wanted_tags.append(b"B1" if typed == kept else b"B2")
    sh.close()
    assert [c[0].decode() for c in commands(records(sandbox))][: len(wanted)] == wanted
    [path] = log_paths(sandbox)
    with open(path, "rb") as log:
        tags = re.findall(rb"\x1e(B\d)\0", log.read())
    assert tags[: len(wanted)] == wanted_tags


def configure(sandbox, text):
    sandbox.write_outside(sandbox.home + "/.config/shfs/config.ini", text)


def the_command(sandbox, grep):
    [command] = json.loads(sandbox.shfs("history", "--json", "--grep", grep).stdout)["commands"]
    return command


@pytest.mark.both
def test_arguments_of_processes(sandbox, mounted, shell):
    """Nothing that was typed, executed, or run again leaves the secret in the store."""
    bash = shell("bash")
    bash.run(TYPED)
    bash.run("echo plain > plain.txt")
    assert sandbox.read("out") == b"a b\n"
    command = the_command(sandbox, "redacted")
    assert command["redacted"] and command["text"] == TYPED.replace(SECRET.decode(), "[redacted]")
    assert not the_command(sandbox, "plain")["redacted"]
    assert "a secret was taken out" in sandbox.shfs("history", "--grep", "redacted").stdout
    shown = sandbox.shfs("show", command["id"]).stdout
    assert "([redacted]: a secret was taken out)" in shown and shown.count("--password '[redacted]'") + shown.count(
        "--password [redacted]") >= 2
    assert "ok    nothing in the store looks like a secret" in sandbox.shfs("doctor").stdout
    again = sandbox.shfs("rerun", "--command", command["id"], check=False)
    assert again.status and "a secret in it was not kept" in again.stderr
    bash.run("cd /")
    mounted.unmount()
    assert not places(sandbox.store, SECRET)


def test_doctor_names_what_was_recorded_before(sandbox, shell):
    configure(sandbox, "[secrets]\nredact = no\n[archive]\nignore = !*.pem\n")
    mounted = sandbox.mount()
    bash = shell("bash")
    bash.run(TYPED)
    bash.run("echo data > host.pem")
    sandbox.shfs("sync")
    bash.run("cd /")
    mounted.unmount()
    assert places(sandbox.store, SECRET)
    configure(sandbox, "")
    doctor = sandbox.shfs("doctor", cwd="/").stdout
    command = json.loads(sandbox.shfs("history", "--json", "--grep", "password", cwd="/").stdout)["commands"][0]["id"]
    assert doctor.count("looks like a secret") == 1 and f"in command {command[:7]}" in doctor
    assert f"fix: shfs forget --command {command}" in doctor
    assert f"fix: shfs forget --everywhere {sandbox.project}/host.pem" in doctor
    sandbox.shfs("forget", "--yes", "--command", command, cwd="/")
    sandbox.shfs("forget", "--yes", f"{sandbox.project}/host.pem", cwd="/")
    assert "ok    nothing in the store looks like a secret" in sandbox.shfs("doctor", cwd="/").stdout
    assert not places(sandbox.store, SECRET)


def test_doctor_names_contents_under_other_names(sandbox):
    """What a file of secrets was before a rename, became by one, and its copies; and not what only was beside it."""
    configure(sandbox, "[archive]\nignore = !*.pem\n")
    mounted = sandbox.mount()
    sandbox.sh("echo old > host.pem; echo ordinary > other; cp other other2; echo topsecret2 > sedX; mv sedX host.pem;"
               "cp host.pem copy; ln host.pem link; mv host.pem away; echo no > host.pem")
    sandbox.shfs("sync")
    mounted.unmount()
    configure(sandbox, "")
    checks = json.loads(sandbox.shfs("doctor", "--json", cwd="/").stdout)["checks"]
    told = {re.search(r"name: \S*/(\w+) ", c["text"])[1] for c in checks if "under another name" in c["text"]}
    assert told == {"sedX", "copy", "link", "away"}
    fix = f"shfs forget --everywhere {sandbox.project}/host.pem"
    assert {c["fix"] for c in checks if "under another name" in c["text"]} == {fix}
    assert places(sandbox.store, b"topsecret2")
    sandbox.shfs("forget", "--yes", "--everywhere", f"{sandbox.project}/host.pem", cwd="/")
    assert not [place for place in places(sandbox.store, b"topsecret2") if "object" in place]
    assert "ok    nothing in the store looks like a secret" in sandbox.shfs("doctor", cwd="/").stdout
    assert sandbox.shfs("cat", f"{sandbox.project}/other2", cwd="/").stdout == "ordinary\n"


def test_doctor_names_nothing_that_was_taken_out(sandbox):
    mounted = sandbox.mount()
    sandbox.sh("echo topsecret2 > notes")
    sandbox.shfs("sync")
    sandbox.sh("mv notes .env")
    mounted.unmount()
    assert not [place for place in places(sandbox.store, b"topsecret2") if "object" in place]
    assert "ok    nothing in the store looks like a secret" in sandbox.shfs("doctor", cwd="/").stdout


HIDDEN = {
    "program": "cat in --{0}",
    "nested": "sh -c 'cat in; (cat in; :); sh -c \"cat in # {0}\"; :' a {0}",
    "forks": "perl -e 'unless (fork) {{ open(F, q(in)); exit }} wait; open(F, q(in))' {0}",
    "no environment": "sh -c 'cat in; env -i cat in {0}; :'",
    "background": "sh -c 'sleep 0.2; cat in; : {0}' &",
}


def test_doctor_names_a_command_once(sandbox, shell):
    """Its alias and its processes have the same secret."""
    configure(sandbox, "[secrets]\nredact = no\n")
    sandbox.mount()
    sandbox.write_outside(sandbox.home + "/aliases", f'alias up="{TYPED}"\n'.replace("$", "\\$"))
    bash = shell("bash")
    bash.run(". ~/aliases")
    bash.run("up")
    sandbox.shfs("sync")
    configure(sandbox, "")
    command = the_command(sandbox, "up")
    assert SECRET.decode() in json.dumps(json.loads(sandbox.shfs("show", "--json", command["id"]).stdout)["definitions"])
    doctor = sandbox.shfs("doctor").stdout
    assert doctor.count("looks like a secret") == 1 and f"in command {command['id'][:7]}" in doctor


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.backends()
def test_arguments_of_hidden_lines(sandbox, project, shell, kind):
    """A leading blank keeps out the text and all arguments: of children, without an environment, in the background."""
    sandbox.write("in", "x\n")
    mounted = sandbox.mount()
    sh = start(shell, kind)
    words = {name: f"word{random.getrandbits(48):012x}" for name in HIDDEN}
    for name, line in HIDDEN.items():
        sh.run(" " + line.format(words[name]))
        sh.run(f"cat in --shown-{name[:4]}; true")
    sh.run("sleep 0.5")
    sh.run("cd /")
    sandbox.shfs("sync")
    shown = [c for c in json.loads(sandbox.shfs("history", "--all", "--json", cwd="/").stdout)["commands"] if c["id"]]
    hidden = [c for c in shown if c["text"] is None]
    assert len(hidden) == len(HIDDEN)
    argvs = [p["argv"] for c in hidden
             for p in json.loads(sandbox.shfs("show", "--json", c["id"], cwd="/").stdout)["processes"]]
    assert argvs and not any(argvs), argvs
    sh.close()
    mounted.unmount()
    left = [name for name, word in words.items() if places(sandbox.store, word.encode())]
    assert not left
    assert all(places(sandbox.store, f"--shown-{name[:4]}".encode()) for name in HIDDEN)


@pytest.mark.parametrize("kind", KINDS)
def test_own_patterns(sandbox, shell, kind):
    configure(sandbox, "[secrets]\npatterns = \\bACME-[0-9]{4}\npatterns = [0-9]\npatterns = (?i)lab\\.code=<word>\n")
    sh = start(shell, kind)
    sh.run("true ACME-1234 LAB.code='a b' xACME-1234 1")
    assert commands(records(sandbox))[0][0] == b"true [redacted] LAB.code=[redacted] xACME-1234 1"
    doctor = sandbox.shfs("doctor", check=False).stdout
    assert 'bad value "[0-9]" for patterns: it must begin with three plain characters' in doctor


@pytest.mark.users("ordinary")
@pytest.mark.parametrize("kind", KINDS)
def test_none(sandbox, shell, kind):
    configure(sandbox, "[secrets]\nredact = no\n")
    sh = start(shell, kind)
    sh.run("true --password=x")
    assert commands(records(sandbox))[0][0] == b"true --password=x"


@pytest.mark.users("ordinary")
@pytest.mark.parametrize("kind", KINDS)
def test_a_log_that_is_begun_again(sandbox, shell, kind):
    """What is written a second time has no secret either; the user's own matches stay."""
    sh = start(shell, kind)
    if "bash" in kind:
        sh.run("[[ abc =~ b ]]")
    [path] = log_paths(sandbox)
    sh.run(f"rm {path}; true --password=x")
    sh.run("true")
    with open(path, "rb") as log:
        assert b"password=x" not in log.read()
    if "bash" in kind:
        assert sh.run("echo \"<$BASH_REMATCH>\"").strip() == "<b>"


def test_long_arguments(sandbox, mounted, shell):
    """Of arguments as long as the kernel lets them be all is recorded, or the cut is marked; a secret at
    the cut is known for one."""
    bash = shell("bash")
    for size in 1000, 65536 - 60, 131071 - 30:
        script = f"exec /bin/sh -c 'echo > out' {'x' * size} {'x' * size} --password={SECRET.decode()} end\n"
        sandbox.write_outside(sandbox.home + "/run", script)
        bash.run("sh ~/run")
    sandbox.shfs("sync")
    rows = sandbox.shfs("select", "SELECT hex(argv) FROM v_process").stdout
    argvs = [bytes.fromhex(row) for row in re.findall(r"[0-9A-F]{1000,}", rows)]
    argvs = [argv for argv in argvs if b"echo > out" in argv]
    lengths = sorted(len(argv) for argv in argvs)
    assert lengths[0] < 3000 and lengths[-1] <= 65536 + 6
    for argv in argvs:
        assert argv.endswith(b"\0end" if len(argv) < 65536 else b"\0[cut]")
    assert b"--password=[redacted]\0" in min(argvs, key=len)
    bash.run("cd /")
    mounted.unmount()
    assert not places(sandbox.store, b"hunter2")


def modes(top):
    """What of the store others may touch."""
    found = []
    for directory, names, files in os.walk(top):
        for name in [".", *names, *files]:
            try:
                st = os.lstat(os.path.join(directory, name))
            except FileNotFoundError:
                continue
            if stat.S_IMODE(st.st_mode) & 0o077:
                found.append(os.path.join(directory, name))
    return found


@pytest.mark.both
def test_the_store_is_for_its_owner_alone(sandbox, shell):
    """Whatever the umask, at any moment."""
    found, over = [], threading.Event()

    def watch():
        while not over.is_set():
            found.extend(modes(sandbox.store))

    before = os.umask(0)
    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        mounted = sandbox.mount()
        bash = shell("bash", before="umask 0\n")
        for n in range(20):
            bash.run(f"seq {n * 1000} > f{n % 3}; cat f{n % 3} > g")
        sandbox.shfs("history")
        bash.run("cd /")
        mounted.unmount()
        sandbox.shfs("forget", "--yes", f"{sandbox.project}/g", cwd="/")
        sandbox.shfs("reindex", cwd="/")
    finally:
        os.umask(before)
        over.set()
        watcher.join()
    assert not found and not modes(sandbox.store)


@pytest.mark.users("ordinary")
def test_no_core_is_dumped(sandbox, mounted):
    """Of the mount, nor of its guardian."""
    pid = mounted.process.pid
    guardian = subprocess.run(["pgrep", "-P", str(pid), "-x", "shfs-guardian"], capture_output=True, text=True, check=False)
    for process in [pid, *map(int, guardian.stdout.split())]:
        assert os.stat(f"/proc/{process}/mem").st_uid == 0
        assert sandbox.run("head", "-c1", f"/proc/{process}/environ", check=False).status
        if os.path.exists("/usr/bin/gcore"):
            assert sandbox.run("gcore", "-o", sandbox.home + "/core", str(process), check=False).status
    assert not [name for name in os.listdir(sandbox.home) if name.startswith("core")]
