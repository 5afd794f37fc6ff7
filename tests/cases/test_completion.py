# SPDX-License-Identifier: MIT
"""TAB in real shells: what stands on the line after it."""

import os
import re

import pytest

import harness

KINDS = ["bash", "zsh", "fish"]
SHARE = os.path.join(harness.PREFIX, "share")

# Loads the completion as an installed one, and makes ^X^D write down the line and empty it.
RC = {
    "bash": f"""source {SHARE}/bash-completion/completions/shfs
dump() {{ printf '%s\\n' "$READLINE_LINE" > "$HOME/line"; READLINE_LINE=; }}
bind -x '"\\C-x\\C-d": dump'
bind 'set bell-style none'
bind 'set page-completions off'
""",
    "zsh": f"""fpath=({SHARE}/zsh/site-functions $fpath)
autoload -Uz compinit; compinit -u -D
unsetopt beep
dump() {{ print -r -- "$BUFFER" > ~/line; BUFFER= }}
zle -N dump; bindkey '^X^D' dump
""",
    "fish": """bind \\cx\\cd 'commandline > ~/line; commandline ""'
""",
}

pytestmark = pytest.mark.users("ordinary")


class Typist:
    """A shell in which lines are typed up to a TAB."""

    def __init__(self, sandbox, kind, rc="", **options):
        self.line = os.path.join(sandbox.home, "line")
        env = {"XDG_DATA_DIRS": f"{SHARE}:/usr/share"}
        self.shell = sandbox.shell(kind, init=False, after=RC[kind] + rc, env=env, **options)

    def tab(self, text, tabs=1):
        """The line after TAB; seen is what the screen got."""
        if os.path.exists(self.line):
            os.unlink(self.line)
        self.shell.send(text + "\t" * tabs + "\x18\x04")
        harness.wait_until(self._dumped, f"the line {text!r}")
        with open(self.line, encoding="utf-8") as line:
            result = line.read().rstrip("\n")
        self.shell.send("\r")
        self.shell.pty.expect_exact(self.shell.READY)
        self.seen = self.shell.plain(self.shell.pty.before)
        self.shell.pty.expect_exact(self.shell.PROMPT)
        self.shell.at_prompt = True
        return result

    def _dumped(self):
        return os.path.exists(self.line) and open(self.line, encoding="utf-8").read().endswith("\n")


@pytest.fixture(params=KINDS)
def typist(request, sandbox):
    return Typist(sandbox, request.param)


@pytest.fixture
def study(sandbox, mounted, shell):
    """A project with a past: versions, names with blanks, something removed."""
    sh = shell("bash")
    for line in (
        "mkdir data",
        "echo 1 > config.yaml",
        "echo 2 > config.yaml",
        "echo 3 > config.yaml",
        "echo 1 > 'my notes.txt'",
        "echo 2 > 'my notes.txt'",
        "echo 1 > data/a:b=c.csv",
        "echo 2 > data/a:b=c.csv",
        "echo 1 > data/gone.csv",
        "rm data/gone.csv",
        "shfs sync",
    ):
        sh.run(line)
    return sandbox


def test_commands_and_options(typist):
    assert typist.tab("shfs hi") == "shfs history "
    assert typist.tab("shfs rei") == "shfs reindex "
    assert typist.tab("shfs log --rev") == "shfs log --reverse "
    assert typist.tab("shfs --no") == "shfs --no-pager "
    assert typist.tab("shfs --no-pager hi") == "shfs --no-pager history "
    assert typist.tab("shfs --color always hi") == "shfs --color always history "
    assert typist.tab("shfs help unde") == "shfs help undelete "
    assert typist.tab("shfs init z") == "shfs init zsh "
    assert typist.tab("shfs log --color=al") == "shfs log --color=always "
    assert typist.tab("shfs log --color al") == "shfs log --color always "
    assert typist.tab("shfs history --status f") == "shfs history --status fail "
    assert typist.tab("shfs log -o ver") == "shfs log -o versions "
    assert typist.tab("shfs log --output=n,ver") == "shfs log --output=n,versions "
    assert typist.tab("shfs remote list -o +gen") == "shfs remote list -o +generation "
    assert typist.tab("shfs nothing x") == "shfs nothing x"
    assert typist.tab("shfs log -- --rev") == "shfs log -- --rev"


def test_lists(typist):
    typist.tab("shfs ", 2)
    for word in "mount", "history", "export", "enable":  # fish shows the first page
        assert word in typist.seen
    for word in "complete", "ingest":
        assert word not in typist.seen
    typist.tab("shfs log --", 2)
    for word in "--patch", "--limit", "--reverse", "--json", "--store":
        assert word in typist.seen
    assert "at most N entries" in typist.seen


def test_files(typist, sandbox):
    for name in "config.yaml", "my notes.txt", "data/x.csv", "übung.txt":
        sandbox.write_outside(f"{sandbox.project}/{name}", "x")
    assert typist.tab("shfs log conf") == "shfs log config.yaml "
    assert typist.tab("shfs cat my") == "shfs cat my\\ notes.txt "
    assert typist.tab("shfs why 'my") in ("shfs why 'my notes.txt' ", "shfs why 'my notes.txt'")
    assert typist.tab("shfs diff data/") == "shfs diff data/x.csv "
    assert typist.tab("shfs export ma") == "shfs export make "
    assert typist.tab("shfs export make conf") == "shfs export make config.yaml "
    assert typist.tab("shfs history ~/proj") == "shfs history ~/project/"
    assert typist.tab("shfs log ü") == "shfs log übung.txt "
    assert typist.tab("shfs mount da") == "shfs mount data/"
    assert typist.tab("shfs umount conf") == "shfs umount conf"
    assert typist.tab("shfs history --cwd da") == "shfs history --cwd data/"
    assert typist.tab("shfs --store=da") == "shfs --store=data/"
    assert typist.tab("shfs restore --to da") == "shfs restore --to data/"
    assert typist.tab("shfs restore conf") == "shfs restore config.yaml@"
    assert typist.tab("shfs restore my") == "shfs restore my\\ notes.txt@"
    assert typist.tab("shfs restore dat") == "shfs restore data/"
    assert typist.tab("shfs restore data/") == "shfs restore data/x.csv@"
    assert typist.tab("shfs restore ~/project/con") == "shfs restore ~/project/config.yaml@"


def test_versions(study, typist):
    typist.tab("shfs cat config.yaml@", 2)
    for word in "1", "2", "3", "echo 2 > config.yaml":
        assert word in typist.seen
    assert typist.seen.index("echo 3") < typist.seen.index("echo 1")
    assert typist.tab("shfs cat config.yaml@2") == "shfs cat config.yaml@2 "
    assert typist.tab("shfs diff config.yaml@1 config.yaml@3") == (
        "shfs diff config.yaml@1 config.yaml@3 "
    )
    assert typist.tab("shfs log nothing@") == "shfs log nothing@"
    typist.tab("shfs restore my\\ notes.txt@", 2)
    assert "echo 2 > 'my notes.txt'" in typist.seen
    typist.tab("shfs restore 'my notes.txt@", 2)
    assert "echo 2 > 'my notes.txt'" in typist.seen
    typist.tab("shfs show ~/project/config.yaml@", 2)
    assert "echo 3 > config.yaml" in typist.seen


def test_one_version_is_inserted(study, typist, shell):
    shell("bash").run("echo 1 > one.txt; echo 1 > 'is one'; echo 1 > x:y=z; shfs sync")
    assert typist.tab("shfs cat one.txt@") == "shfs cat one.txt@1 "
    assert typist.tab("shfs cat is\\ one@") == "shfs cat is\\ one@1 "
    assert typist.tab('shfs cat "is one@') in ('shfs cat "is one@1" ', 'shfs cat "is one@1"')
    assert typist.tab("shfs cat ~/project/one.txt@") == "shfs cat ~/project/one.txt@1 "
    assert typist.tab("shfs cat x:y=z@") == "shfs cat x:y=z@1 "
    assert typist.tab("true;  shfs   cat one.txt@") == "true;  shfs   cat one.txt@1 "


def test_bash_without_host_names(study):
    """Then "@" does not split words."""
    typist = Typist(study, "bash", "shopt -u hostcomplete; COMP_WORDBREAKS=${COMP_WORDBREAKS//@}\n")
    study.sh("echo 1 > 'is one'; shfs sync")
    assert typist.tab("shfs cat is\\ one@") == "shfs cat is\\ one@1 "
    assert typist.tab("shfs cat config.yaml@2") == "shfs cat config.yaml@2 "


def test_ids(study, typist):
    ids = re.findall(r'"id": "(\w{16})"', study.shfs("history", "--json").stdout)
    assert len(ids) > 5
    typist.tab("shfs show ", 2)
    for id in ids[:5]:
        assert id[:7] in typist.seen
    assert "echo 3 > config.yaml" in typist.seen
    assert typist.tab("shfs show " + ids[0][:6]) == f"shfs show {ids[0][:7]} "
    assert typist.tab(f"shfs restore --command {ids[1][:6]}") == (
        f"shfs restore --command {ids[1][:7]} "
    )


def test_removed_files(study, typist):
    assert typist.tab("shfs undelete data/g") == "shfs undelete data/gone.csv "


def test_removed_files_have_versions(study, typist):
    study.sh("echo 1 > 'gone away.txt'; rm 'gone away.txt'; shfs sync")
    assert typist.tab("shfs log data/g") == "shfs log data/gone.csv "
    assert typist.tab("shfs restore data/g") == "shfs restore data/gone.csv@"
    assert typist.tab("shfs restore data/gone.csv@") == "shfs restore data/gone.csv@1 "
    assert typist.tab("shfs restore gone") == "shfs restore gone\\ away.txt@"


def test_without_a_store(typist, sandbox):
    sandbox.env["SHFS_STORE"] = sandbox.home + "/no store"
    assert typist.tab("shfs cat x@") == "shfs cat x@"
    assert typist.tab("shfs show ") == "shfs show "
    assert not os.path.exists(sandbox.home + "/no store")


def test_bash_with_strict_options(study):
    typist = Typist(study, "bash", "set -u; set -f; IFS=e; shopt -s nullglob failglob\n")
    assert typist.tab("shfs hi") == "shfs history "
    assert typist.tab("shfs cat config.yaml@2") == "shfs cat config.yaml@2 "


def test_versions_of_many(study):
    """Of what one command made in a row the ends are offered, and the newest that begin with what is typed."""
    study.sh("i=0; while [ $i -lt 300 ]; do echo $i > many.txt; i=$((i + 1)); done; shfs sync")
    for typed, numbers in ("", [300, 1]), ("2", range(299, 249, -1)), ("11", [*range(119, 109, -1), 11]):
        _, *offered = study.shfs("complete", "--", "cat", f"many.txt@{typed}").stdout.splitlines()
        assert [line.split("\t")[0] for line in offered] == [str(n) for n in numbers]
