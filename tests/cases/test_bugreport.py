# SPDX-License-Identifier: MIT
"""shfs bugreport: it has what an issue needs, and nothing that the user typed, named or set."""

import os
import re
import stat

import pytest

pytestmark = pytest.mark.users("ordinary")

# one for each place that a text of the user can come from; letters alone, which look like words
PLANTED = {
    "command": "zanzibar",
    "argument": "quetzal",
    "file": "wombatfile",
    "directory": "okapidir",
    "environment": "xylophone",
    "config": "marmoset",
    "pager": "bandicoot",
    "key": "axolotl",
    "section": "pangolin",
    "remote": "capybara",
    "credentials": "tardigrade",
    "log": "echidna",
    "ignored": "numbatfile",
}


@pytest.fixture
def full(sandbox, shell):
    """A store in which each of the places has its word."""
    p = PLANTED
    config = (
        f"[record]\nsoftware = no\nenvironment = {p['environment'].upper()}\n[archive]\nmax-size = 3M\nwait = {p['config']}\n"
        f"ignore = {p['ignored']}\n[query]\npager = {p['pager']} -S\n{p['key']} = 1\n[{p['section']}]\nx = 1\n"
        f"[secrets]\npatterns = {p['config']}=<word>\n"
    )
    sandbox.write_outside(f"{sandbox.home}/.config/shfs/config.ini", config)
    sandbox.mount()
    env = {p["environment"].upper(): p["environment"]}
    sandbox.run("sh", "-c", 'mkdir -p "$1"; echo x > "$1/$2"; : > "$3"', p["argument"], p["directory"], p["file"], p["ignored"], env=env)
    bash = shell("bash")
    bash.run(f"echo {p['command']} > {p['file']}.txt")
    remote = f"{sandbox.path}/{p['remote']}"
    sandbox.shfs("remote", "add", p["remote"], remote)
    place = f"{sandbox.store}/remote/{p['remote']}/url"
    sandbox.sh('test -e "$1" && printf "s3://b/%s?endpoint=https://u:%s@h\\n" x "$2" > "$1" || :', place, p["credentials"])
    sandbox.sh(
        'mkdir -p "$1/log"; printf "shfs: cannot archive %s: Permission denied\\nshfs: the store /home/%s is full\\n" "$2" "$2" > "$1/log/fuse-7.log"',
        sandbox.store,
        p["log"],
    )
    sandbox.shfs("sync")
    yield sandbox
    sandbox.run("rm", f"{sandbox.store}/log/fuse-7.log")  # it is no fault of this case


def test_has_no_word_of_the_user(full):
    env = {"SECRET_TOKEN": PLANTED["environment"], "LAB_KEY": PLANTED["credentials"]}
    result = full.shfs("bugreport", env=env)
    for place, word in PLANTED.items():
        assert word.encode() not in result.stdout_bytes.lower(), (place, result.stdout)
    nodename = os.uname().nodename
    for name in full.home, full.path, full.store, "/project", f" {nodename} ":
        assert name.encode() not in result.stdout_bytes, (name, result.stdout)


def test_each_planted_word_is_somewhere(full):
    """The test above can fail: the words were recorded, and a report that prints all would have them."""
    stored = full.shfs("export", "jsonl", "--all", check=False).stdout + full.shfs("history", "--json").stdout
    config = full.run("cat", f"{full.home}/.config/shfs/config.ini").stdout
    log = full.run("cat", f"{full.store}/log/fuse-7.log").stdout
    remote = full.shfs("remote", "list").stdout
    for place in "command", "file":
        assert PLANTED[place] in stored, place
    for place in "config", "pager", "key", "section", "ignored":
        assert PLANTED[place] in config, place
    assert PLANTED["log"] in log and PLANTED["remote"] in remote


def test_has_what_an_issue_needs(full):
    text = full.shfs("bugreport").stdout
    number = re.match(r"[0-9.]+", os.uname().release)[0]
    assert f"kernel: {number} {os.uname().machine}\n" in text
    assert re.search(r"^distribution: [a-z0-9._-]+( [a-z0-9._-]+)?$", text, re.M), text
    version = full.shfs("--version").stdout.split()[1]
    assert f"shfs: {version}\n" in text
    for line in "archive.max-size = 3M", "archive.wait = (a bad value)", "query.pager = (not shown)", "unknown keys: 2":
        assert f"{line}\n" in text, text
    assert "mount 1: backend " in text and "transport " in text, text
    assert "commands: " in text and "journal: files " in text
    assert "  … cannot archive … Permission denied\n" in text or "  shfs: cannot archive … Permission denied\n" in text, text
    assert "\n[doctor]\nok    install: " in text and "ok    store: the store … is yours alone" in text


# Many of them are somewhere in the bytes of a program, in symbols and in its code, and some are short words of its messages.
NAMES = """al ann anna ben bob cy dan eva ida jan jo joe john kim lee leo lisa mark mary max mia ming nina otto patient peter sam ted
    tim tom wu yi zoe Ali Amy Anna David Eve Ian Jane John Maria Mark Max Peter Rose Tom sick hiv""".split()


def test_log_has_no_names(sandbox, mounted):
    """A path with blanks in it is words like others."""
    lines = [f"shfs: cannot archive /data/x {name} (smith): Permission denied\n" for name in NAMES]
    for i in range(0, len(lines), 20):  # as many as the report has of a log
        sandbox.sh('mkdir -p "$1/log"; printf %s "$2" > "$1/log/fuse-$3.log"', sandbox.store, "".join(lines[i : i + 20]), str(i))
    result = sandbox.shfs("bugreport").stdout
    sandbox.sh('rm "$1"/log/fuse-*.log', sandbox.store)
    logs = result[result.index("\n[logs]\n") : result.index("\n[doctor]\n")]
    assert logs.count("Permission denied\n") == len(lines), logs
    assert not set(re.findall("[A-Za-z]+", logs)) & {*NAMES, "smith"}, logs


def test_writes_a_file(sandbox):
    """Also where there is nothing to report on."""
    sandbox.shfs("bugreport", "-o", "report.txt")
    path = f"{sandbox.project}/report.txt"
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    text = sandbox.read("report.txt").decode()
    assert text.startswith("A report of shfs") and "[doctor]\nok" in text
    sandbox.shfs("bugreport", "-o", "report.txt", check=4)
    sandbox.shfs("bugreport", "-o", "report.txt", "--force")


def test_doctor_without_names(full):
    named = full.shfs("doctor", check=False).stdout
    plain = full.shfs("doctor", "--anonymous", check=False).stdout
    assert full.home in named or "~/" in named or full.path in named
    assert full.home not in plain and "~/" not in plain and full.path not in plain
    levels = [line[:4] for line in plain.splitlines()]
    assert levels == [line[:4] for line in named.splitlines() if not line.startswith("      fix:")]
