# SPDX-License-Identifier: MIT
"""The hooks beside what else people have in their shells: exact records, and nothing of the
user's that is different for them."""

import os
import time

import pytest

import harness
from test_hook import (
    BASH, COMMON, HISTORY, KINDS, PLAIN, POSIX, Begin, check_kinds, commands, log_paths, newest, plain, shell_of,
    octets, records, screen, start,
)  # fmt: skip

pytestmark = pytest.mark.users("ordinary")

# --- prompts and hooks of others, by what they do to a shell ---

# As bash-preexec: it waits in PROMPT_COMMAND to install itself at the first prompt, puts its own
# first and last into the first element, and takes what the DEBUG trap sees behind the last for
# what was typed, unless it is a line of the first element.
PREEXEC = r"""
pe_mode= pe_deep=0 pe_calls=() HISTCONTROL=ignoredups
pe_precmd() { pe_status="$? ${PIPESTATUS[*]}"; }
pe_interactive() { pe_mode=on; }
pe_is_prompt_command() {
    local each lines IFS=$'\n;'
    read -rd '' -a lines <<<"$PROMPT_COMMAND"
    for each in "${lines[@]}"; do [[ $each == "$1" ]] && return 0; done
    return 1
}
pe_debug() {
    ((pe_deep)) && return
    local pe_deep=1
    [[ -t 1 && -z ${COMP_LINE-} && -n $pe_mode ]] || return
    ((BASH_SUBSHELL)) || pe_mode=
    pe_is_prompt_command "$BASH_COMMAND" && { pe_mode=; return; }
    pe_calls+=("$(HISTTIMEFORMAT= builtin history 1 | sed '1 s/^ *[0-9]*[* ] //')")
    : "$1"
}
pe_install() {
    [[ $PROMPT_COMMAND != *pe_precmd* ]] || return 1
    trap 'pe_debug "$_"' DEBUG
    PROMPT_COMMAND=${PROMPT_COMMAND//"$pe_pending"/:}
    PROMPT_COMMAND=$'pe_precmd\n'$PROMPT_COMMAND$'\npe_interactive'
    pe_precmd; pe_interactive
}
pe_pending=$'trap - DEBUG\npe_install'
PROMPT_COMMAND=${PROMPT_COMMAND:+$PROMPT_COMMAND$'\n'}$pe_pending
"""
# As starship: a time in PS0 or the DEBUG trap, a prompt made by a program that is told the status.
STARSHIP = r"""
sr_preexec() { local prev=$1; [[ ${sr_ready:-} ]] && { unset sr_ready; sr_start=$EPOCHREALTIME; }; : "$prev"; }
sr_precmd() {
    sr_status=$? sr_pipe=("${PIPESTATUS[@]}")
    [[ ${BP_PIPESTATUS:-} ]] && sr_pipe=("${BP_PIPESTATUS[@]}")
    local jobs=0 job IFS=$' \t\n'
    for job in $(jobs -p); do [[ $job ]] && ((jobs++)); done
    eval "$sr_user_command"
    PS1='ready> ' sr_ready=yes
    (exit $sr_status)
}
sr_user_command=:
trap 'sr_preexec "$_"' DEBUG
sr_time() { printf '%s' "${EPOCHREALTIME%.*}"; }
PS0='${sr_from:$((sr_from="$(sr_time)",0)):0}'"${PS0-}"
PROMPT_COMMAND+=(sr_precmd)
"""
# As atuin: an id for each command made by a program, kept in a variable, ended in the background.
ATUIN = r"""
at_preexec() { [[ ${at_expanded:-} ]] || at_id=$(printf '%s' "$BASH_COMMAND" | cksum); export ATUIN_HISTORY_ID=$at_id; }
at_precmd() {
    local status=$?
    [[ ${ATUIN_HISTORY_ID:-} ]] || return "$status"
    (true "$ATUIN_HISTORY_ID" "$status" &) >/dev/null 2>&1
    export ATUIN_HISTORY_ID=''
    return "$status"
}
trap '[[ $BASH_COMMAND == at_precmd* ]] || at_preexec' DEBUG
if [[ $(declare -p PROMPT_COMMAND) == 'declare -a'* ]]; then PROMPT_COMMAND=(at_precmd "${PROMPT_COMMAND[@]}")
else PROMPT_COMMAND="at_precmd;$PROMPT_COMMAND"; fi
"""
DIRENV = 'eval "$(direnv hook %s)"\n'
TRAPS = r"""
trap 'errs=$((errs + 1))' ERR; trap 'debugs=$((debugs + 1)); : changes $_' DEBUG
trap 'returns=$((returns + 1))' RETURN; trap ': left' EXIT; trap ': hup' HUP; trap 'usr1=$?' USR1
set -o functrace -o errtrace; shopt -s extdebug
"""
NEIGHBOURS = {
    "preexec": PREEXEC, "starship": STARSHIP, "atuin": ATUIN, "direnv": DIRENV % "bash",
    "traps": TRAPS, "all": PREEXEC + DIRENV % "bash" + STARSHIP,
}  # fmt: skip
LINES = [
    row for row in COMMON + POSIX + BASH + HISTORY
    if row[0] not in ("10 kB", "not UTF-8", "interrupted while typing", "interrupted in the second line")
]  # fmt: skip
# Without the loadable the history has the text: lines joined.
LINES_PLAIN = [row for row in LINES if "\r" not in row[1][:-1] and row not in BASH]


@pytest.mark.parametrize("kind", ["bash", "plain bash"])
@pytest.mark.parametrize("place", ["before", "after"])
@pytest.mark.parametrize("name", NEIGHBOURS)
def test_bash_neighbours(sandbox, shell, name, place, kind):
    init = PLAIN if kind == "plain bash" else harness.Shell.INIT["bash"]
    other = "unset HISTCONTROL\n" + NEIGHBOURS[name]
    sh = shell("bash", init=False, after=other + init if place == "before" else init + other)
    sandbox.write(".envrc", "export FROM_DIRENV=1\n")
    lines = LINES_PLAIN if kind == "plain bash" else LINES
    if name in ("traps", "all", "starship", "preexec", "atuin"):
        # the trap of another may change the status of these, or bash's number of them
        lines = [row for row in lines if row[0] not in ("coproc", "process substitution")]
    check_kinds(sh, sandbox, lines)
    if name in ("starship", "all"):
        sh.run("true | sh -c 'exit 6'")
        assert sh.run('echo "$sr_status ${sr_pipe[*]}"') == "6 0 6"
    if name == "direnv":
        sh.run("direnv allow", timeout=30)
        assert sh.run("echo $FROM_DIRENV") == "1"
        sh.run("cd /")
        assert sh.run("echo $FROM_DIRENV.") == "."



@pytest.mark.parametrize("kind", ["bash", "plain bash"])
@pytest.mark.parametrize("place", ["before", "after"])
@pytest.mark.parametrize("more", ["", "direnv"])
def test_bash_preexec_calls_stay_right(sandbox, shell, place, kind, more):
    """What is told to others' functions is each typed line once, whatever we do."""
    sandbox.env["HISTFILE"] = sandbox.write_outside(os.path.join(sandbox.home, "old"), "old line\n")
    init = PLAIN if kind == "plain bash" else harness.Shell.INIT["bash"]
    other = PREEXEC + (DIRENV % "bash" if more else "")
    sh = shell("bash", init=False, after=other + init if place == "before" else init + other)
    lines = ["true one", "", "false", "", "", "true | sh -c 'exit 4'"]
    for line in lines:
        sh.run(line)
    assert sh.run('echo "$pe_status"') == "4 0 4"
    sh.run('set | grep ^pe_calls=')
    calls = sh.run('printf "%s;" "${pe_calls[@]}"').split(";")
    if kind == "plain bash" and calls[0] == "old line":
        del calls[0]  # at its first prompt, where it must wait for others to be installed
        calls.insert(0, "true one")
    typed = [line for line in lines if line] + ['echo "$pe_status"']
    assert calls[: len(typed)] == typed, calls
    assert sh.run("trap -p DEBUG") == "trap -- 'pe_debug \"$_\"' DEBUG"
    found = commands(records(sandbox))
    assert found[:4] == [(b"true one", 0), (b"false", 1), (octets(lines[-1]), 4), (b'echo "$pe_status"', 0)]


# --- whatever there is of the user's stays as it is ---

ASKED = [
    "true | false | (exit 3)", 'echo "$? $_ ${PIPESTATUS[*]}"',
    "false", 'echo "${PIPESTATUS[*]} $?"', ": last word", "echo $_", "", "echo $?",
    "sh -c 'exit 9'", "# nothing", 'echo "$?"',
    "set -o; shopt; trap -p; echo $- $HISTCONTROL.$HISTIGNORE.$PS1.$PS2.$PS4.$IFS",
    "history; echo $HISTCMD", "alias; enable -n; complete -p | head -3; umask; ulimit -n; jobs",
    "compgen -v | grep -vx '_*shfs.*\\|SHFS_.*\\|LC_SHFS\\|__LLVM.*'; compgen -e | grep -v SHFS; declare -F | grep -v _shfs",
    "echo ${#BASH_REMATCH[@]} ${#DIRSTACK[@]} $OLDPWD $PWD $OPTIND $SHLVL $BASH_SUBSHELL",
    "[[ abc =~ b(.) ]]", "echo ${BASH_REMATCH[*]}", "set -- a b", 'echo "$# $*"',
    "mapfile -t m < /dev/null; read -r r <<< reply; REPLY=mine", "echo $REPLY",
    "RANDOM=7", "echo $RANDOM", "shopt -s nullglob failglob nocasematch extglob globstar; set -o noglob -o pipefail -o noclobber",
    "false | true", "echo $? $-", "IFS=0123456789:/x", 'echo "$IFS"', "IFS=$' \\t\\n'; set +o noglob",
    "cd /; cd - >/dev/null", "echo $OLDPWD $?", "trap : USR1; kill -USR1 $$", "trap -p USR1; LC_ALL=C LANG=C", "false", "echo $?",
    "LC_ALL=C.UTF-8; set -o posix", "false", "echo $?", "set +o posix; shopt -s localvar_inherit localvar_unset compat44", "false", "echo $?",
]  # fmt: skip


@pytest.mark.parametrize("kind", ["bash", "plain bash"])
def test_bash_is_as_without_us(sandbox, shell, kind):
    sandbox.env["HISTFILE"] = "/dev/null"  # or the first shell's history is the second's

    def answers(sh):
        out = [sh.run(line) for line in ASKED]
        sh.close()
        # PROMPT_COMMAND and PS0 are ours, too: everything else must be equal
        return out

    plain = answers(shell("bash", init=False, after=": start\n"))
    ours = answers(shell("bash", init=False, after=(PLAIN if kind == "plain bash" else harness.Shell.INIT["bash"]) + ": start\n"))
    # the ids of processes, and the time
    for index, (theirs, mine) in enumerate(zip(plain, ours)):
        assert mine == theirs, ASKED[index]
    texts = [text for text, _ in commands(records(sandbox))]
    if kind == "bash":
        assert texts == [*[octets(line) for line in ASKED if line and not line.startswith("#")], b"exit"]
    else:
        assert len(texts) == 1 + len([line for line in ASKED if line and not line.startswith("#")])


ASKED_ZSH = [
    "true | false | (exit 3)", 'echo "$? $_ $pipestatus"', "false", 'echo "$pipestatus $?"',
    ": last word", "echo $_", "", "echo $?",
    "setopt; trap; echo $- $HISTCHARS.$PS1.$PS2.$IFS.$WORDCHARS; alias; jobs; umask",
    "fc -l 1 2>&1; echo $HISTCMD", "echo $OLDPWD $PWD $SHLVL $ZSH_SUBSHELL $dirstack",
    "print -l ${(k)parameters} | grep -v '^_*shfs\\|^SHFS\\|^LC_SHFS$\\|^epochtime\\|^EPOCH\\|^sysparams\\|^errnos\\|^fd$' | sort",
    "print -l ${(k)functions} | grep -v '^_shfs' | sort; zle -l; bindkey | md5sum; print -l ${(k)widgets} | md5sum",
    "[[ abc =~ 'b(.)' ]]", "echo $MATCH $match", "set -- a b", 'echo "$# $*"', "REPLY=mine reply=(a b)", "echo $REPLY $reply",
    "setopt ksh_arrays sh_word_split null_glob extended_glob no_clobber no_glob pipe_fail glob_subst rc_expand_param",
    "false | true", "echo $?", "IFS=0123456789:/x", 'echo "$IFS"', "IFS=$' \\t\\n\\0'; setopt glob",
    "setopt err_return no_unset prompt_subst warn_nested_var typeset_silent", ": a", "echo $? $_", "setopt no_err_return",
    "cd /; cd - >/dev/null", "echo $OLDPWD $?",
]  # fmt: skip


@pytest.mark.parametrize("kind", ["zsh", "plain zsh"])
def test_zsh_is_as_without_us(sandbox, shell, kind):
    def answers(sh):
        out = [sh.run(line) for line in ASKED_ZSH]
        sh.close()
        return out

    plain = answers(shell("zsh", init=False))
    ours = answers(start(shell, kind))
    for index, (theirs, mine) in enumerate(zip(plain, ours)):
        assert mine == theirs, ASKED_ZSH[index]
    assert [text for text, _ in commands(records(sandbox))] == [*[octets(line) for line in ASKED_ZSH if line], b"exit"]


# --- what is kept out ---


@pytest.mark.parametrize("before", ["", "HISTCONTROL=ignoredups\n", "HISTCONTROL=ignoreboth:erasedups\n"])
def test_histignore_keeps_texts_out(sandbox, shell, shfs, mounted, before):
    """Bash is told not to keep a line: nor do we. What it did stays known."""
    sh = shell("bash", before=before + "HISTIGNORE='*secret*:[ ]*:&'\n")
    lines = ["echo a > plain", "echo secret > kept", "false", "false", "for i in secret\ndo :\ndone", "!!", "echo b > plain"]
    for line in lines:
        sh.run(line)
    found = commands(records(sandbox))
    assert [text for text, _ in found] == [
        b"echo a > plain", None, b"false", b"false", None, None, b"echo b > plain"
    ]
    assert [status for _, status in found] == [0, 0, 1, 1, 0, 1, 0]
    shfs("sync")
    assert "secret" not in shfs("history", "--all", "--json").stdout.replace("secret\\n", "")
    assert '"text":null' in shfs("show", "kept@1", "--json").stdout.replace(" ", "")


def test_histignore_of_plain_bash(sandbox, shell):
    sh = start(shell, "plain bash", before="unset HISTCONTROL; HISTIGNORE='*secret*'\n")
    for line in "true a", "true secret", "false":
        sh.run(line)
    assert commands(records(sandbox)) == [(b"true a", 0), (None, 0), (b"false", 1)]


@pytest.mark.parametrize("kind", [*KINDS, "plain bash", "plain zsh"])
def test_a_hidden_command_keeps_its_accesses(sandbox, shell, shfs, mounted, kind):
    sh = start(shell, kind, before="HISTCONTROL=ignorespace\n" if "bash" in kind else "")
    sh.run(" echo password > made")
    sh.run("cat made > copy")
    shfs("sync")
    shown = shfs("show", "made@1").stdout
    assert "password" not in shown and "not recorded" in shown or "hidden" in shown, shown
    assert "cat made" in shfs("log", "copy").stdout


def test_fish_private_mode(sandbox, shell):
    sh = shell("fish")
    sh.run("true a")
    sh.run("set -g fish_private_mode 1")
    sh.run("false secret")
    assert commands(records(sandbox))[2] == (None, 1)


@pytest.mark.parametrize("kind", ["zsh", "plain zsh"])
def test_history_ignore_of_zsh(sandbox, shell, kind):
    sh = start(shell, kind, before="HISTORY_IGNORE='(*secret*|ls)'\n")
    lines = "true a", "false secret", "HISTORY_IGNORE='(('", "false b"
    assert "".join(sh.run(line) for line in lines) == ""
    assert commands(records(sandbox)) == [(b"true a", 0), (None, 1), (octets(lines[2]), 0), (b"false b", 1)]


# --- jobs, and ends that are none ---


@pytest.mark.parametrize("kind", [*KINDS, "plain zsh"])
def test_stopped_and_gone_on(sandbox, shell, kind):
    sh = start(shell, kind)
    sh.send("perl -e 'sleep 60'\r")  # sh would have a child by vfork, whose stop holds it up
    sh.wait_for_job("perl")
    sh.send("\x1a")
    sh.wait()
    sh.run("bg")
    sh.send("fg\r")
    sh.wait_for_job("perl")
    sh.send("\x03")
    sh.wait()
    sh.run("true last")
    found = commands(records(sandbox))
    assert [text for text, _ in found] == [b"perl -e 'sleep 60'", b"bg", b"fg", b"true last"]
    assert found[1][1] == 0 and (found[2][1] == 130 or kind == "fish") and found[3][1] == 0


@pytest.mark.parametrize("kind", [*KINDS, "plain zsh"])
def test_killed_shell(sandbox, shell, shfs, mounted, kind):
    sh = start(shell, kind)
    sh.run("echo one > made")
    sh.send("echo two > made; kill -9 %s; echo three > made\r" % ("$fish_pid" if kind == "fish" else "$$"))
    harness.wait_until(lambda: not sh.pty.isalive(), "the shell to die")
    shfs("sync")
    assert commands(records(sandbox))[-1][1] is None
    log = shfs("log", "made").stdout
    assert "made@2" in log and "kill -9" in log and "three" not in sandbox.read("made").decode()


@pytest.mark.parametrize("kind", ["bash", "zsh"])
def test_timeout_of_the_prompt(sandbox, shell, kind):
    sh = shell(kind)
    sh.run("true before")
    sh.send("TMOUT=1\r")
    sh.pty.expect(harness.pexpect.EOF)
    assert commands(records(sandbox)) == [(b"true before", 0), (b"TMOUT=1", 0)]


# --- lines: long, of any bytes, edited ---


FILL = {
    "bash": """long() { printf -v READLINE_LINE ': %0102400d' 7; }; bind -x '"\\C-g": long'\n""",
    "zsh": "long() { BUFFER=\": ${(l:102400::0:):-7}\" }; zle -N long; bindkey '^G' long\n",
    "fish": "function long; commandline -r ': '(string repeat -n 102399 0)7; end; bind \\cg long\n",
}


@pytest.mark.parametrize("kind", [*KINDS, "plain zsh"])
def test_100_kib_in_the_line_editor(sandbox, shell, kind):
    sh = start(shell, kind, before=FILL[shell_of(kind)])
    sh.send("\x07\r")
    sh.wait()
    sh.run("false")
    (text, status), last = commands(records(sandbox))
    assert (len(text), status, last) == (102402, 0, (b"false", 1))
    assert text == b": " + b"0" * 102399 + b"7"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_bytes_in_any_locale(sandbox, shell, kind, locale):
    sh = shell(kind, env={"LC_ALL": locale, "LANG": locale}, before="bind 'set meta-flag on' 2>/dev/null; set -o emacs 2>/dev/null\n" if kind == "bash" else "")
    # the editors of zsh and fish take such input apart themselves in the locale C
    line = "true 'a\u00e4\u20ac'" if kind == "bash" or locale != "C" else "true"
    sh.run(line)
    sh.run(": $(printf '\\377\\1')")
    assert commands(records(sandbox)) == [(octets(line), 0), (b": $(printf '\\377\\1')", 0)]
    assert sh.run("echo ok") == "ok"


@pytest.mark.parametrize("kind", KINDS)
def test_lines_made_by_editing(sandbox, shell, kind):
    """Completion menus, searches in the history, a yank, a window of another size."""
    sandbox.write("only-one-file", "")
    sandbox.write("many-1", ""), sandbox.write("many-2", "")
    sh = shell(kind)
    sh.run("true first-line")
    sh.run("false second-line")
    sh.send("cat only\t")
    time.sleep(0.3)
    sh.send("\r")
    sh.wait()
    sh.send("echo many\t\t")
    time.sleep(0.3)
    sh.send("\x03")
    if kind == "fish":  # which closes the menu first
        time.sleep(0.3)
        sh.send("\x03")
        time.sleep(0.3)
    else:
        sh.wait()
    if kind != "fish":
        sh.send("\x12first")
        time.sleep(0.2)
        sh.send("\r")
        sh.wait()
    sh.send("true resi")
    sh.pty.setwinsize(10, 30)
    time.sleep(0.2)
    sh.send("zed\r")
    sh.wait()
    sh.send("\x1b[A")  # up
    time.sleep(0.2)
    sh.send("\r")
    sh.wait()
    texts = [text.rstrip() for text, _ in commands(records(sandbox))]
    expected = [b"true first-line", b"false second-line", b"cat only-one-file", b"true first-line", b"true resized", b"true resized"]
    if kind == "fish":
        del expected[3]
    assert texts == expected


@pytest.mark.parametrize("kind", KINDS)
def test_pasted_lines(sandbox, shell, kind):
    """Bracketed, so that the shell edits them as one text."""
    sh = shell(kind)
    sh.run("true")
    sh.send("\x1b[200~echo a\necho 'b\nc'\x1b[201~")
    time.sleep(0.3)
    sh.send("\r")
    sh.wait()
    time.sleep(0.2)
    sh.run("true last")
    joined = b"\n".join(text for text, _ in commands(records(sandbox)))
    assert joined.replace(b"\r", b"") == b"true\necho a\necho 'b\nc'\ntrue last"


# --- shells in odd places ---


@pytest.mark.parametrize("kind", KINDS)
def test_inside_script(sandbox, shell, kind):
    sh = shell(kind)
    own = set(log_paths(sandbox))
    option = "-i " if kind == "bash" else ""
    sh.run(f"script -qc '{kind} {option}' /dev/null")
    [inner] = set(log_paths(sandbox)) - own
    sh.run("false inner")
    sh.run("exit")
    sh.run("true outer")
    assert (b"false inner", 1) in commands(records(sandbox, inner))
    assert commands(records(sandbox, own.pop()))[-1] == (b"true outer", 0)


def test_in_tmux(sandbox, shell):
    """Two panes are two sessions."""
    sh = shell("bash", before="PS1='ready> '; [[ -z $TMUX ]] || PROMPT_COMMAND=; unset TMUX_TMPDIR\n")
    own = set(log_paths(sandbox))
    tmux = ["tmux", "-L", f"shfs-{os.getpid()}"]
    env = {"TMUX_TMPDIR": sandbox.path + "/tmp", "SHELL": "/bin/bash"}
    try:
        sandbox.run(*tmux, "-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", "bash -i", env=env)
        sandbox.run(*tmux, "split-window", "bash -i", env=env)
        harness.wait_until(lambda: len(set(log_paths(sandbox)) - own) == 2, "two shells")
        for pane in "0", "1":
            sandbox.run(*tmux, "send-keys", "-t", f":.{pane}", f"false pane{pane}", "Enter", env=env)
            sandbox.run(*tmux, "resize-pane", "-t", f":.{pane}", "-U", "3", env=env)
        logs = set(log_paths(sandbox)) - own
        harness.wait_until(
            lambda: sorted(c for p in logs for c in commands(records(sandbox, p))) == [(b"false pane0", 1), (b"false pane1", 1)],
            "the commands",
        )
        for pane in "1", "0":
            sandbox.run(*tmux, "send-keys", "-t", f":.{pane}", "exit 0", "Enter", env=env)
        harness.wait_until(lambda: sandbox.run(*tmux, "list-sessions", env=env, check=False).status, "tmux to end")
    finally:
        sandbox.run(*tmux, "kill-server", env=env, check=False)


ZSH_PLUGINS = """
autoload -Uz compinit add-zsh-hook vcs_info; compinit -u -D; zstyle ':completion:*' menu select
source /usr/share/zsh-autosuggestions/zsh-autosuggestions.zsh
others_preexec() { others_line=$1 } ; others_precmd() { others_status=$?; vcs_info }
add-zsh-hook preexec others_preexec; add-zsh-hook precmd others_precmd
preexec() { own_line=$1 } ; precmd() { own_status=$? } ; setopt prompt_subst share_history
TRAPDEBUG() { : } ; TRAPZERR() { errs=1 }
"""
SLOW = "interrupted while typing", "interrupted in the second line", "escape", "leading tab"  # for the plugins
HIGHLIGHT = "source /usr/share/zsh-syntax-highlighting/zsh-syntax-highlighting.zsh\n"


@pytest.mark.parametrize("kind, place", [
    ("zsh", "before"), ("plain zsh", "after"), *([("zsh", "after"), ("plain zsh", "before")] if harness.ALL else []),
])
def test_zsh_plugins(sandbox, shell, kind, place):
    for package in "autosuggestions/zsh-autosuggestions", "syntax-highlighting/zsh-syntax-highlighting":
        if not os.path.exists(f"/usr/share/zsh-{package}.zsh"):
            pytest.skip("zsh-autosuggestions or zsh-syntax-highlighting is not installed")
    other, init = ZSH_PLUGINS + HIGHLIGHT, harness.Shell.INIT["zsh"] if kind == "zsh" else plain("zsh")
    sh = shell("zsh", init=False, after=other + init if place == "before" else init + other)
    check_kinds(sh, sandbox, COMMON[:16] + [row for row in POSIX if row[0] not in SLOW])
    sh.run("sh -c 'exit 9'")
    assert sh.run('echo "$others_status $own_status $own_line" "$others_line"') == (
        '9 9 echo "$others_status $own_status $own_line" "$others_line" echo "$others_status $own_status $own_line" "$others_line"'
    )


def test_zsh_calls_no_function_of_ours(sandbox, shell):
    """Its look for them is enough, so a prompt does not wait for the call."""
    sh = shell("zsh", after="zmodload zsh/zprof\n")
    for line in "true", "false":
        sh.run(line)
    profile = sh.run("zprof")
    assert "test_begin" in profile and "_shfs" not in profile
    assert commands(records(sandbox))[:2] == [(b"true", 0), (b"false", 1)]


@pytest.mark.parametrize("kind", ["zsh", "plain zsh"])
def test_zsh_hooks_of_others(sandbox, shell, kind):
    """They run before the command begins and after it has ended, and may change the history; they may
    call our functions as zsh does."""
    pids = os.path.join(sandbox.path, "tmp/pids")
    other = f"""
before() {{ sh -c 'echo $$ >>{pids}'; print -s changed; print -s twice }}; preexec_functions+=(before)
after() {{ sh -c 'echo $$ >>{pids}' }}; precmd_functions+=(after)
chpwd() {{ _shfs_precmd }}
"""
    sh = start(shell, kind, before=other)
    assert sh.run("cd .") == ""
    sh.run("false")
    [begin, end] = records(sandbox)[-2:]
    assert begin.text == b"false" and end.status == b"1"
    with open(pids, encoding="ascii") as file:
        before, after = [int(line) for line in file][-2:]
    assert before <= int(begin.lastpid) <= int(end.lastpid) < after


def test_fish_prompts(sandbox, shell):
    prompt = """
function fish_prompt; set -g seen $status $pipestatus; false; echo -n 'ready> '; end
function fish_right_prompt; true; date +%s >/dev/null; end
function others --on-event fish_postexec; set -g others_status $status; false; end
function others_pre --on-event fish_preexec; set -g others_line $argv; false; end
"""
    for before, after in ((prompt, ""), ("", prompt)):
        sh = shell("fish", before=before, after=after)
        sh.run("true | sh -c 'exit 4'")
        assert sh.run("echo $seen $others_status $others_line") == "4 0 4 4 echo $seen $others_status $others_line"
        sh.run("sh -c 'exit 3'")
        assert sh.run("echo $status $pipestatus") == "3 3"
        found = commands(records(sandbox, newest(sandbox)))
        assert found[0] == (b"true | sh -c 'exit 4'", 4) and found[2] == (b"sh -c 'exit 3'", 3)


# --- shells that refuse ---

NAMES = "real boot lastpid line cwd hidden seen new inodes old status flags item kept rest format i stat IFS_ history log text now last failed fd here there PWD_ name"


@pytest.mark.parametrize("kind", ["bash", "plain bash", "zsh", "plain zsh"])
def test_readonly_variables(sandbox, shell, kind):
    """Whatever the user made read-only, by whatever name."""
    names = " ".join(n for n in NAMES.split() if not (kind.endswith("zsh") and n in ("status", "history")))
    sh = start(shell, kind, before="echo; " + "; ".join(f"{n}=mine" for n in names.split()) + f"; readonly {names}\n")
    assert "shfs" not in sh.greeting and "read" not in sh.greeting, sh.greeting
    for line in "false", "(exit 4)", "true":
        assert sh.run(line) == ""
    assert commands(records(sandbox)) == [(b"false", 1), (b"(exit 4)", 4), (b"true", 0)]
    assert sh.run("echo $line.$text.$real") == "mine.mine.mine"


@pytest.mark.parametrize("kind", ["bash", "plain bash"])
def test_restricted_bash(sandbox, shell, kind):
    """It may load the builtin, if it did so before it was restricted; else it says so, once."""
    sh = start(shell, kind)
    sh.run("set -r")
    said = "".join(screen(sh, line) for line in ("false", "true", "false"))
    assert sh.run("echo $?") == "1"
    if kind == "bash":
        assert "shfs" not in said and "restricted" not in said
        assert commands(records(sandbox))[-2] == (b"false", 1)
    else:
        assert said.count("shfs: ") <= 1 and said.count("restricted") == 0, said


@pytest.mark.parametrize("kind", ["bash", "plain bash"])
def test_prompt_command_unset(sandbox, shell, kind):
    sh = start(shell, kind)
    sh.run("false")
    sh.send("unset PROMPT_COMMAND\r")
    sh.pty.expect_exact(sh.PROMPT)
    sh.send("sh -c 'exit 6'\r")
    sh.pty.expect_exact(sh.PROMPT)
    sh.run(r"PROMPT_COMMAND=$'printf \'\e]7777;ready\a\''")
    sh.run("sh -c 'exit 7'")
    sh.run("true")
    found = commands(records(sandbox))
    if kind == "bash":
        assert [status for _, status in found] == [1, 0, 6, 0, 7, 0]
    else:
        assert [text for text, _ in found][:3] == [b"false", b"unset PROMPT_COMMAND", b"sh -c 'exit 6'"]
        assert {status for _, status in found[1:]} <= {None, 0, 7}


def test_rc_read_again(sandbox, shell):
    """Nothing of ours is in PROMPT_COMMAND."""
    sh = shell("bash", before="PROMPT_COMMAND=\"printf '\\\\e]7777;ready\\\\a'\"; PROMPT_COMMAND+='; : more'\n")
    sh.run("false")
    before = sh.run('printf "%s|" "${PROMPT_COMMAND[@]}"')
    assert before.startswith("printf") and before.count("|") == 1 and "shfs" not in before
    for _ in range(3):
        sh.run(". ~/.bashrc")
    assert sh.run('printf "%s|" "${PROMPT_COMMAND[@]}"') == before
    sh.run("false")
    assert commands(records(sandbox))[-1] == (b"false", 1)


@pytest.mark.parametrize("kind", [*KINDS, "plain bash", "plain zsh"])
@pytest.mark.parametrize("mask", ["000", "077"])
def test_umask(sandbox, shell, kind, mask):
    sh = start(shell, kind, before=f"umask {mask}\n")
    sh.run("false")
    [path] = log_paths(sandbox)
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert int(sh.run("umask"), 8) == int(mask, 8)
    assert commands(records(sandbox))[0] == (b"false", 1)


@pytest.mark.parametrize("kind", [*KINDS, "plain bash", "plain zsh"])
def test_without_a_home(sandbox, shell, kind):
    """Unset later, or a directory that cannot be written: the store has its place already."""
    sh = start(shell, kind, before="echo\n")
    sh.run("set -e HOME" if kind == "fish" else "unset HOME")
    sh.run("false")
    sh.run("set -gx HOME /nonexistent" if kind == "fish" else "export HOME=/nonexistent")
    assert sh.run("true") == ""
    assert [c for c in commands(records(sandbox))][1] == (b"false", 1)


@pytest.mark.parametrize("kind", ["zsh", "fish", "plain bash", "plain zsh"])
def test_no_room_for_the_log(sandbox, shell, kind):
    sh = start(shell, kind, before="trap '' XFSZ\n" if kind == "plain bash" else "")
    sh.run("true before")
    [log] = log_paths(sandbox)
    size = os.path.getsize(log)
    os.rename(log, log + ".away")
    os.symlink("/dev/full", log)
    said = "".join(screen(sh, "sh -c 'exit 3'") for _ in range(3))
    assert said.count("shfs: ") == 1 and said.count("No space") <= 1, said
    assert sh.run("echo $status" if kind == "fish" else "echo $?") == "3"
    os.unlink(log)
    os.rename(log + ".away", log)
    sh.run("false")
    assert commands_after(sandbox, size)[-1] == (b"false", 1)


def commands_after(sandbox, size):
    begins = {r.number: r for r in records(sandbox) if isinstance(r, Begin)}
    ends = {r.number: int(r.status) for r in records(sandbox) if not isinstance(r, Begin) and hasattr(r, "status")}
    return [(b.text, ends.get(n)) for n, b in begins.items()]


KINDS_MORE = [
    ("not", "! true\r", [("! true", 1)]),
    ("source", ". ./script\r", [(". ./script", 6)]),
    ("exec of a function", "f() { false; }; f\r", [("f() { false; }; f", 1)]),
    ("subshell in the background", "( false; true )&\r", [("( false; true )&", 0)]),
    ("eval of lines", "eval 'for i in 1\rdo false; done'\r", [("eval 'for i in 1\ndo false; done'", 1)]),
    ("quoted heredoc", "cat > /dev/null <<'E'; false\r$x `y`\rE\r", [("cat > /dev/null <<'E'; false\n$x `y`\nE", 1)]),
    ("control characters", ": '\x16\x01\x16\x7f\x16\x0b'\r", [(": '\x01\x7f\x0b'", 0)]),
]


@pytest.mark.parametrize("kind", ["bash", "zsh", "plain zsh"])
def test_more_kinds_of_lines(sandbox, shell, kind):
    sandbox.write("script", "true\n(exit 6)\n")
    sh = start(shell, kind)
    check_kinds(sh, sandbox, KINDS_MORE)
    if kind == "bash":
        check_kinds_after(sh, sandbox, [("echo aa bb >/dev/null\r", "echo aa bb >/dev/null"), ("^aa^cc^\r", "echo cc bb >/dev/null")])


def check_kinds_after(sh, sandbox, rows):
    for typed, text in rows:
        sh.send(typed)
        sh.wait()
        assert commands(records(sandbox))[-1] == (octets(text), 0)
