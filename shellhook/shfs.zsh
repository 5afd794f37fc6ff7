# SPDX-License-Identifier: MIT
#
# shfs.zsh - tells the journal which commands are typed in this shell.
#
# Sourced by what `shfs init zsh` prints, after it has set:
#   _shfs_dir    where this shell's log of commands goes
#   _shfs_alert  a file that is there while something is wrong, with lines to show
#   _shfs_host, _shfs_boot, _shfs_pidns, _shfs_tty   what the log says of this session
#
# preexec and precmd are begin and end of a command. Nothing forks. Each entry first leaves
# the user's options, without a trace under xtrace.

# Once in a session, however often this is sourced or tried.
_shfs_say() {
	[[ $_shfs_said == *"<$1>"* ]] || builtin print -r -- "shfs: $1" >&2
	_shfs_said+="<$1>"
}

# FIELD...: appends a record with one write.
_shfs_append() {
	local fd failed=1

	if sysopen -w -a -o creat,cloexec,nofollow -m 600 -u fd -- $_shfs_log; then
		syswrite -o $fd -- $'\x1e'"${(pj:\0:)@}"$'\0\n' && failed=0
		exec {fd}>&-
	fi 2>/dev/null
	((failed)) || return 0
	_shfs_say "the commands of this shell are not recorded: cannot write to $_shfs_log"
	return 1
}

_shfs_session() {
	local -a now=($epochtime)
	local boot

	sysread boot </proc/uptime
	((++_shfs_seq))
	_shfs_append S1 $_shfs_seq $$ $_shfs_start "$_shfs_boot" "$_shfs_pidns" \
		$now[1].${(l:9::0:)now[2]} ${boot%% *} "$_shfs_host" zsh "$_shfs_tty" "${PWD:P}" \
		$_shfs_seq
}

# TAG FIELD...: writes the begin or the end of a command. A log that is new, or was taken
# away meanwhile, begins with the session.
_shfs_write() {
	local -a now=($epochtime)
	local boot=0 last=0

	sysread boot </proc/uptime
	sysread last </proc/loadavg
	[[ -s $_shfs_log ]] || _shfs_session
	((++_shfs_seq))
	_shfs_append $1 $_shfs_seq $_shfs_number $now[1].${(l:9::0:)now[2]} ${boot%% *} \
		${${last##* }%$'\n'} "${@:2}" $_shfs_seq
}

# A shell that stood in a project when it was mounted stands below the mount, unseen; one
# that stood on it when it was unmounted is off it. Both go to what $PWD says, if that is
# the same directory. zstat fails on a mount whose daemon is gone.
_shfs_follow_mount() {
	local old=$OLDPWD
	local -A here there

	zstat -H there -- $PWD 2>/dev/null || return
	zstat -H here . 2>/dev/null && ((here[inode] != there[inode])) && return
	builtin cd -q -- $PWD 2>/dev/null && OLDPWD=$old
}

# A pattern that is none matches nothing, as for zsh itself.
_shfs_is_ignored() {
	{ [[ $1 == ${~HISTORY_IGNORE} ]] } always { TRY_BLOCK_ERROR=0 } 2>/dev/null
}

# $1 is the line as typed; it is empty where zsh was told to keep it out of its history.
_shfs_preexec() {
	{ emulate -L zsh; setopt no_err_exit no_err_return unset no_xtrace } 2>/dev/null
	local text=$1 hidden=0

	[[ $sysparams[pid] == $$ && -z $SHFS_DISABLE ]] || return 0
	[[ . -ef $PWD ]] || _shfs_follow_mount
	[[ -n $text && $text != [[:blank:]]* ]] || hidden=1 text=
	[[ -n $HISTORY_IGNORE ]] && _shfs_is_ignored "$text" && hidden=1 text=
	typeset -gx SHFS_COMMAND=$((++_shfs_number))
	_shfs_write B1 $hidden "${PWD:P}" "$text" && _shfs_open=1
	return 0
}

_shfs_precmd() {
	local stat=$?
	{ emulate -L zsh; setopt no_err_exit no_err_return unset no_xtrace } 2>/dev/null

	[[ $sysparams[pid] == $$ ]] || return 0
	SHFS_COMMAND=0
	if ((_shfs_open)); then
		_shfs_open=0
		_shfs_write F1 $stat
	fi
	if [[ -e $_shfs_alert && -z $SHFS_DISABLE ]]; then
		_shfs_show_alert
	else
		_shfs_shown=
	fi
	return 0
}

# Each line again only if it was gone in between.
_shfs_show_alert() {
	local line seen= new=

	while IFS= builtin read -r line; do
		[[ -z $line || $'\n'$_shfs_shown == *$'\n'$line$'\n'* ]] ||
			new+=${line//[[:cntrl:]]/?}$'\n'
		seen+=$line$'\n'
	done 2>/dev/null <$_shfs_alert
	builtin print -rn -- $new >&2
	_shfs_shown=$seen
}

# The marker, which programs find in their environment. Numbers go on where this shell was
# executed by itself (exec zsh).
_shfs_mark() {
	[[ $SHFS_SESSION- == $1-* && $SHFS_COMMAND == <-> ]] && _shfs_number=$SHFS_COMMAND
	typeset -gx SHFS_SESSION=$1${INVOCATION_ID:+-$INVOCATION_ID} SHFS_COMMAND=0
}

_shfs_main() {
	emulate -L zsh
	setopt no_err_exit no_err_return
	local stat log

	[[ -o interactive && -z $SHFS_DISABLE ]] || return 0
	typeset -g _shfs_said=${_shfs_said-}
	if ! zmodload zsh/datetime zsh/system 2>/dev/null ||
		! zmodload -F zsh/stat b:zstat 2>/dev/null; then
		_shfs_say 'nothing is recorded: this zsh lacks the modules datetime, system or stat'
		return 0
	fi
	[[ $sysparams[pid] == $$ ]] || return 0
	sysread stat </proc/self/stat
	typeset -g _shfs_start=${${(z)stat##*\) }[20]}
	log=$_shfs_dir/shell-${_shfs_boot[1,8]}-$$-$_shfs_start.log
	# First at the end, so that others' hooks do not count; last before the command.
	precmd_functions=(_shfs_precmd ${precmd_functions:#_shfs_precmd})
	preexec_functions=(${preexec_functions:#_shfs_preexec} _shfs_preexec)
	[[ $log == ${_shfs_log-} ]] && return 0
	typeset -g _shfs_log=$log _shfs_shown=
	typeset -gi _shfs_open=0 _shfs_number=0 _shfs_seq=0
	_shfs_mark $_shfs_boot[1,8]-$$-$_shfs_start
	_shfs_session
	return 0
}

_shfs_main
