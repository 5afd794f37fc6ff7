# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016,SC2128,SC2154,SC2178
#
# shfs.bash - the hook: records the commands that are typed in this shell.
#
# Sourced by what `shfs init bash` prints, after it has set:
#   _shfs_dir    the directory for this shell's hook log
#   _shfs_alert  a file that exists while something is wrong, with lines to show
#   _shfs_lib    the loadable builtin (shfs-bash.c), or empty
#   _shfs_host, _shfs_boot, _shfs_pidns, _shfs_tty   facts for the log about this session
#   _shfs_program, _shfs_store   the program shfs, and its store
#   _shfs_projects  directories, one in each line, of which it is told when the shell enters one
#   _shfs_secrets  patterns of secrets (common/redact.h), one in each line; or empty
#   _shfs_needles  a pattern that matches their beginnings, in lower case
#   _shfs_origin  1: LC_SHFS names the running command, for ssh to take along; or empty
#
# The begin of a command is noticed when PS0 is expanded, once before each line is executed;
# its end when PROMPT_COMMAND is run before each prompt. With the loadable builtin neither
# forks. Without it, bash 5.3 does not fork either, older versions do. The DEBUG trap,
# HISTCONTROL and the history are left alone. Names have a prefix and builtins are called by
# `builtin`, so that aliases, functions and read-only variables of the user do not interfere.

# Prints a message once in a session, however often this file is sourced.
_shfs_say()
{
	[[ ${_shfs_said-} == *"<$1>"* ]] || builtin printf 'shfs: %s\n' "$1" >&2
	_shfs_said+="<$1>"
}

# Puts the hook's word at the end of PS0, so that no other part of it belongs to the command;
# removes the word if it would be printed. printf -v is used because it does not abort the
# current line if PS0 is read-only.
_shfs_arm()
{
	local _rest=${PS0-}

	_rest=${_rest//"$_shfs_ps0"/}
	if [[ $- == *r* ]]; then
		_shfs_say 'nothing is recorded: this shell is restricted'
		[[ ${PS0@a} == *r* ]] || PS0=$_rest
		return 0
	fi
	if ! builtin shopt -q promptvars; then
		_shfs_say 'nothing is recorded while the shell option promptvars is off'
		[[ ${PS0-} == "$_rest" ]] && return 0
	else
		_rest+=$_shfs_ps0
		[[ ${PS0-} == "$_rest" ]] && return 0
	fi
	builtin printf -v PS0 %s "$_rest" 2>/dev/null ||
		_shfs_say 'nothing is recorded: PS0 is read-only'
	return 0
}

# Puts $1 into PROMPT_COMMAND: last while the shell starts, so that programs which install
# themselves later find what they expect; first at the first prompt, to notice the end of a
# command before other prompt commands take time. It does not stay last: hooks that use the
# DEBUG trap (bash-preexec) would take it for a typed command. Before 5.1 it is no array.
_shfs_prompt_command()
{
	local _item _kept=()

	if ! builtin printf -v PROMPT_COMMAND %s "${PROMPT_COMMAND-}" 2>/dev/null; then
		_shfs_say 'ends of commands are not recorded: PROMPT_COMMAND is read-only'
	elif ((_shfs_version >= 501)); then
		for _item in "${PROMPT_COMMAND[@]}"; do
			[[ -z $_item || $_item == "$1" ]] || _kept+=("$_item")
		done
		if [[ $2 == first ]]; then
			PROMPT_COMMAND=("$1" ${_kept[@]+"${_kept[@]}"})
		else
			PROMPT_COMMAND=("${_kept[@]-}" "$1")
		fi
	elif [[ $PROMPT_COMMAND != *"$1"* ]]; then
		PROMPT_COMMAND=$1${PROMPT_COMMAND:+;$PROMPT_COMMAND}
	fi
}

_shfs_builtin()
{
	[[ -n $_shfs_lib ]] && ((_shfs_version == 502 || _shfs_version == 503)) &&
		builtin enable -f "$_shfs_lib" _shfs_hook 2>/dev/null &&
		_shfs_hook start "$_shfs_dir" "$_shfs_alert" "$_shfs_host" "$_shfs_boot" \
			"$_shfs_pidns" "$_shfs_tty" "$_shfs_program" "$_shfs_store" "$_shfs_projects" \
			"$_shfs_secrets" "$_shfs_origin"
}

# --- the same in bash, if the builtin cannot be loaded ---

# _shfs_write TAG SEQ FIELD...: appends a record. A single printf makes a single write, up to
# the size of its buffer.
_shfs_write()
{
	local _format='\036' _i

	for ((_i = 0; _i <= $#; _i++)); do
		_format+='%s\0'
	done
	# shellcheck disable=SC2059 # the format is made above
	{ builtin printf "$_format\n" "$@" "$2" >>"$_shfs_log"; } 2>/dev/null
}

# Sets real, boot and lastpid.
_shfs_now()
{
	local IFS=' '

	_real=${EPOCHREALTIME-} _boot=0 _lastpid=0
	[[ -n $_real ]] || builtin printf -v _real '%(%s)T' -1
	builtin read -r _boot _ </proc/uptime
	builtin read -r _ _ _ _ _lastpid </proc/loadavg
}

# Writes the session with the sequence number before the next record's, which is kept free.
_shfs_session()
{
	local _real _boot _lastpid

	_shfs_now
	(umask 077 && : >>"$_shfs_log") 2>/dev/null
	_shfs_write S1 $((_shfs_seq - 1)) $$ "$_shfs_start" "$_shfs_boot" "$_shfs_pidns" \
		"$_real" "$_boot" "$_shfs_host" bash "$_shfs_tty" "$PWD" || _shfs_trouble
	[[ -z $_shfs_from ]] || _shfs_write O1 $((_shfs_seq - 1)) "$_shfs_from"
}

# Replaces the secrets in _line; if there are any, sets _tag. In the locale C bytes are
# characters.
_shfs_redact()
{
	local LC_ALL=C _pattern _match _secret _before _kept _rest _fold _typed=$_line

	builtin shopt -q nocasematch
	_fold=$?
	while builtin read -r _pattern; do
		builtin shopt -u nocasematch
		[[ $_pattern != '(?i)'* ]] || builtin shopt -s nocasematch
		_rest=$_line _line=
		while [[ $_rest =~ ${_pattern#'(?i)'} && -n ${BASH_REMATCH[0]} ]]; do
			_match=${BASH_REMATCH[0]} _secret=${BASH_REMATCH[1]:-${BASH_REMATCH[0]}}
			builtin shopt -u nocasematch
			_before=${_rest%%"$_match"*} _kept=${_match%"$_secret"*}
			_line+=$_before$_kept'[redacted]'
			_rest=${_rest:${#_before}+${#_kept}+${#_secret}}
			[[ $_pattern != '(?i)'* ]] || builtin shopt -s nocasematch
		done
		_line+=$_rest
	done <<<"$_shfs_secrets"
	builtin shopt -u nocasematch
	[[ $_line == "$_typed" ]] || _tag=B2
	((_fold)) || builtin shopt -s nocasematch
}

# Runs in PS0, mostly in a subshell; variables that must stay set are set by PS0 itself. If
# the last line of the history is new, it is this command. If not, the command is a repetition
# or was not to be saved; if it is unknown which, the text is left out.
_shfs_begin()
{
	local - _real _boot _lastpid _line _cwd _hidden=0 _tag=B1 _matched=()

	set +eux
	((_shfs_open)) || return 0
	_shfs_now
	builtin eval "$_shfs_look"
	_line=${_line#"${_line%%[0-9]*}"}
	_line=${_line#*[ *] }
	if [[ -z $_line || $_line == [[:blank:]]* || ! -o history ]] ||
		[[ $HISTCMD == "$_shfs_history" &&
			${HISTCONTROL-}${HISTIGNORE:+ignoreboth} == *@(ignorespace|ignoreboth)* ]]; then
		_hidden=1 _line=
	fi
	# If this is no subshell, keep the user's BASH_REMATCH.
	((_shfs_version < 503)) || _matched=("${BASH_REMATCH[@]}")
	[[ -n $_shfs_needles && ${_line,,} =~ $_shfs_needles ]] && _shfs_redact
	((_shfs_version < 503)) || BASH_REMATCH=("${_matched[@]}")
	builtin eval "$_shfs_tell"
	[[ -s $_shfs_log ]] || _shfs_session
	_shfs_write "$_tag" "$_shfs_seq" "$_shfs_number" "$_real" "$_boot" "$_lastpid" "$_hidden" \
		"${_cwd:-$PWD}" "$_line"
}

_shfs_end()
{
	local _real _boot _lastpid

	_shfs_open=0 SHFS_COMMAND=0 SHFS_HIDDEN=0
	[[ -z ${_shfs_here[1]} ]] || LC_SHFS=
	_shfs_now
	((_shfs_seq += 2))
	[[ -s $_shfs_log ]] || _shfs_session
	_shfs_write F1 "$_shfs_seq" "$_shfs_number" "$_real" "$_boot" "$_lastpid" "$1" ||
		_shfs_trouble
}

_shfs_trouble()
{
	_shfs_say "the commands of this shell are not recorded: cannot write to $_shfs_log"
}

# Shows new lines; a line that was shown comes again only if it was gone in between.
_shfs_show_alert()
{
	local _line _seen='' _new=''

	if [[ -e $_shfs_alert ]]; then
		while IFS='' builtin read -r _line; do
			[[ -z $_line || $'\n'$_shfs_shown == *$'\n'"$_line"$'\n'* ]] ||
				_new+=${_line//[[:cntrl:]]/?}$'\n'
			_seen+=$_line$'\n'
		done 2>/dev/null <"$_shfs_alert"
	fi
	builtin printf %s "$_new" >&2
	_shfs_shown=$_seen
}

# Tells shfs when the shell has entered a project, once for each: it may be mounted now.
_shfs_visit()
{
	local _project _kept='' _found=0

	[[ -n $_shfs_projects && $PWD != "${_shfs_visited-}" ]] || return 0
	_shfs_visited=$PWD
	while IFS='' builtin read -r _project; do
		if [[ $PWD/ == "$_project"/* ]]; then
			_found=1
		else
			_kept+=${_kept:+$'\n'}$_project
		fi
	done <<<"$_shfs_projects"
	_shfs_projects=$_kept
	# shfs may have been removed since
	((!_found)) || [[ ! -x $_shfs_program ]] ||
		command "$_shfs_program" prompt --store "$_shfs_store" -- "$PWD" </dev/null
}

# Moves the shell into the directory that $PWD names, if that is the same one, in two cases:
# the shell was in a project when it was mounted, and so is below the mount, unseen; or it was
# on a mount that was unmounted.
_shfs_follow_mount()
{
	local _inodes _old=${OLDPWD-}

	[[ . -ef $PWD || ! -d $PWD ]] && return
	_inodes=$(command stat -c %i . "$PWD" 2>/dev/null)
	[[ -n $_inodes && ${_inodes%$'\n'*} == "${_inodes#*$'\n'}" ]] &&
		builtin cd "$PWD" && OLDPWD=$_old
}

# Runs before the prompt. Returns $? for other prompt commands in the same string; but not with
# set -e, as that would end the shell.
_shfs_finish()
{
	local _status=$? _flags=$-
	local -

	if [[ $_flags == *r* ]]; then
		_shfs_arm
		return "$_status"
	fi
	{ set +eux; } 2>/dev/null
	[[ $BASHPID == "$$" && -n ${_shfs_begun-} ]] || return 0
	((_shfs_open)) && _shfs_end "$_status"
	_shfs_show_alert
	[[ -n ${SHFS_DISABLE-} ]] || _shfs_visit
	_shfs_follow_mount
	_shfs_arm
	if [[ -z $_shfs_placed ]]; then
		_shfs_placed=1
		_shfs_prompt_command _shfs_finish first
	fi
	_shfs_history=$HISTCMD
	((_shfs_version >= 501)) || [[ $_flags == *e* ]] || return "$_status"
	return 0
}

# Keeps what LC_SHFS was when the shell began, unless it names a command of this host (docs/ssh.md).
# Sets what PS0 names the commands by, if it is to.
_shfs_mark_origin()
{
	local _value=${LC_SHFS-}

	[[ -z $_value || $_value == "$_shfs_host":* || $_value == *[![:graph:]]* ]] ||
		((${#_value} > 160)) || _shfs_from=$_value
	_shfs_here=('' '')
	[[ -n $_shfs_origin && ${LC_SHFS+${LC_SHFS@a}} != *r* ]] || return 0
	_shfs_here[1]=$_shfs_host:$1:
	export LC_SHFS=
}

# Sets the marker in the environment of programs. The numbers continue if this shell was executed
# by itself (exec bash).
_shfs_mark()
{
	_shfs_mark_origin "$1"
	[[ ${SHFS_SESSION-}- == "$1"-* && ${SHFS_COMMAND-} == +([0-9]) ]] &&
		_shfs_number=$SHFS_COMMAND
	export SHFS_SESSION=$1${INVOCATION_ID:+-$INVOCATION_ID} SHFS_COMMAND=0 SHFS_HIDDEN=0
}

# Ends the recording of an install without the builtin: its _shfs_finish stays in
# PROMPT_COMMAND, and does nothing.
_shfs_end_plain()
{
	[[ -n ${_shfs_begun-} ]] || return 0
	builtin unset -v _shfs_begun
	builtin printf -v PS0 %s "${PS0//"$_shfs_ps0"/}" 2>/dev/null
}

_shfs_plain()
{
	local _stat IFS=' ' _history='HISTTIMEFORMAT= builtin history 1'

	builtin read -r _stat </proc/self/stat
	_stat=${_stat##*) }
	# shellcheck disable=SC2086 # fields
	builtin set -- $_stat
	_shfs_start=${20} _shfs_log=$_shfs_dir/shell-${_shfs_boot:0:8}-$$-${20}.log
	# An array is never exported: if these words reach another shell, they expand to nothing.
	_shfs_none=('')
	_shfs_ps0='${_shfs_none[_shfs_open=0${SHFS_DISABLE:+1}==0,'
	_shfs_ps0+='SHFS_COMMAND=_shfs_number+=_shfs_open,_shfs_seq+=2,0]-}'
	# LC_SHFS is set, if it is empty, within a pattern that removes the blank
	_shfs_blank=(' ')
	_shfs_ps0+='${_shfs_blank#[ ${_shfs_here[_shfs_open]:+${LC_SHFS:=${_shfs_here[1]}$SHFS_COMMAND}}]}'
	if ((_shfs_version >= 503)); then
		_shfs_ps0+='${_shfs_none+${ { _shfs_begin; } 2>/dev/null; }}'
		_shfs_tell='SHFS_HIDDEN=$_hidden'
		_shfs_look="_line=\${ $_history; } _cwd=\${ builtin pwd -P; }"
	else
		# the output of the subshell becomes part of an assignment in this shell
		_shfs_ps0+='${_shfs_none+${_shfs_none[SHFS_HIDDEN=0$({ _shfs_begin; } 2>/dev/null),0]-}}'
		_shfs_tell='builtin printf %s "$_hidden"'
		_shfs_look="_line=\$($_history); builtin cd -P .; _cwd=\$PWD"
	fi
	[[ $- == *r* ]] || builtin enable -d _shfs_hook 2>/dev/null # of another install
	[[ ${_shfs_begun-} == "$_shfs_log" ]] && return
	_shfs_begun=$_shfs_log _shfs_open=0 _shfs_number=0 _shfs_seq=2 _shfs_from='' _shfs_shown=
	_shfs_mark "${_shfs_boot:0:8}-$$-$_shfs_start"
	_shfs_session
}

# --- start ---

_shfs_main()
{
	_shfs_version=$((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1]))
	[[ $- == *i* && -z ${SHFS_DISABLE-} && $BASHPID == "$$" ]] || return 0
	if ((_shfs_version < 404)); then
		_shfs_say "bash $BASH_VERSION is too old: bash 4.4 or later is needed"
	elif _shfs_builtin; then
		_shfs_end_plain
	else
		_shfs_plain
		_shfs_prompt_command _shfs_finish last
		_shfs_placed=
		_shfs_arm
	fi
}

_shfs_main
