# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016,SC2128,SC2154,SC2178
#
# shfs.bash - tells the journal which commands are typed in this shell.
#
# Sourced by what `shfs init bash` prints, after it has set:
#   _shfs_dir    where this shell's log of commands goes
#   _shfs_alert  a file that is there while something is wrong, with lines to show
#   _shfs_lib    the loadable builtin (shfs-bash.c), or empty
#   _shfs_host, _shfs_boot, _shfs_pidns, _shfs_tty   what the log says of this session
#
# PS0 is expanded once before each line is executed, PROMPT_COMMAND is run before each
# prompt: begin and end of a command. With the loadable builtin neither forks. Without it,
# bash 5.3 does not fork either, older versions do. The DEBUG trap, HISTCONTROL and the
# history are left alone. Names are prefixed and everything is a builtin by name, so that
# neither aliases nor functions of the user come between.

# Once in a session, however often this is sourced or tried.
_shfs_say()
{
	[[ ${_shfs_said-} == *"<$1>"* ]] || builtin printf 'shfs: %s\n' "$1" >&2
	_shfs_said+="<$1>"
}

# Puts our word last into PS0, so that nothing else of it belongs to the command; takes it
# out where it would be shown itself. printf -v, because it does not end the line that the
# shell is in where PS0 is read-only.
_shfs_arm()
{
	local rest=${PS0-}

	rest=${rest//"$_shfs_ps0"/}
	if ! builtin shopt -q promptvars; then
		_shfs_say 'nothing is recorded while the shell option promptvars is off'
		[[ ${PS0-} == "$rest" ]] && return 0
	else
		rest+=$_shfs_ps0
		[[ ${PS0-} == "$rest" ]] && return 0
	fi
	builtin printf -v PS0 %s "$rest" 2>/dev/null ||
		_shfs_say 'nothing is recorded: PS0 is read-only'
	return 0
}

# Puts $1 before and behind what is in PROMPT_COMMAND: the first one sees the end before
# other prompt commands take time, the last one survives an assignment to PROMPT_COMMAND,
# which replaces the first element alone. Before 5.1 it is not an array.
_shfs_prompt_command()
{
	local item kept=()

	if ! builtin printf -v PROMPT_COMMAND %s "${PROMPT_COMMAND-}" 2>/dev/null; then
		_shfs_say 'ends of commands are not recorded: PROMPT_COMMAND is read-only'
	elif ((_shfs_version >= 501)); then
		for item in "${PROMPT_COMMAND[@]}"; do
			[[ -z $item || $item == "$1" ]] || kept+=("$item")
		done
		PROMPT_COMMAND=("$1" ${kept[@]+"${kept[@]}"} "$1")
	elif [[ $PROMPT_COMMAND != *"$1"* ]]; then
		PROMPT_COMMAND=$1${PROMPT_COMMAND:+;$PROMPT_COMMAND}
	fi
}

_shfs_builtin()
{
	[[ -n $_shfs_lib ]] && ((_shfs_version == 502 || _shfs_version == 503)) &&
		builtin enable -f "$_shfs_lib" _shfs_hook 2>/dev/null &&
		_shfs_hook start "$_shfs_dir" "$_shfs_alert" "$_shfs_host" "$_shfs_boot" \
			"$_shfs_pidns" "$_shfs_tty"
}

# --- the same in bash, where the builtin cannot be loaded ---

# _shfs_write TAG SEQ FIELD...: appends a record. printf with one format is one write,
# up to the size of its buffer.
_shfs_write()
{
	local format='\036' i

	for ((i = 0; i <= $#; i++)); do
		format+='%s\0'
	done
	# shellcheck disable=SC2059 # the format is made above
	{ builtin printf "$format\n" "$@" "$2" >>"$_shfs_log"; } 2>/dev/null
}

# Sets real, boot and lastpid.
_shfs_now()
{
	local IFS=' '

	real=${EPOCHREALTIME-} boot=0 lastpid=0
	[[ -n $real ]] || builtin printf -v real '%(%s)T' -1
	builtin read -r boot _ </proc/uptime
	builtin read -r _ _ _ _ lastpid </proc/loadavg
}

# The number before the next record's is kept free for it.
_shfs_session()
{
	local real boot lastpid

	_shfs_now
	(umask 077 && : >>"$_shfs_log") 2>/dev/null
	_shfs_write S1 $((_shfs_seq - 1)) $$ "$_shfs_start" "$_shfs_boot" "$_shfs_pidns" \
		"$real" "$boot" "$_shfs_host" bash "$_shfs_tty" "$PWD" || _shfs_trouble
}

# In PS0, mostly in a subshell; what must stay set has been set by PS0 itself. The last
# line of the history is this command if it is a new one. Where it is not, it is a
# repetition or was not to be saved; where that cannot be told apart, the text is left out.
_shfs_begin()
{
	local - real boot lastpid line cwd hidden=0

	set +eux
	((_shfs_open)) || return 0
	_shfs_now
	builtin eval "$_shfs_look"
	line=${line#"${line%%[0-9]*}"}
	line=${line#*[ *] }
	if [[ -z $line || $line == [[:blank:]]* || ! -o history ]] ||
		[[ $HISTCMD == "$_shfs_history" &&
			${HISTCONTROL-}${HISTIGNORE:+ignoreboth} == *@(ignorespace|ignoreboth)* ]]; then
		hidden=1 line=
	fi
	[[ -s $_shfs_log ]] || _shfs_session
	_shfs_write B1 "$_shfs_seq" "$_shfs_number" "$real" "$boot" "$lastpid" "$hidden" \
		"${cwd:-$PWD}" "$line"
}

_shfs_end()
{
	local real boot lastpid

	_shfs_open=0
	_shfs_now
	((_shfs_seq += 2))
	[[ -s $_shfs_log ]] || _shfs_session
	_shfs_write F1 "$_shfs_seq" "$_shfs_number" "$real" "$boot" "$lastpid" "$1" ||
		_shfs_trouble
}

_shfs_trouble()
{
	_shfs_say "the commands of this shell are not recorded: cannot write to $_shfs_log"
}

# Each line again only if it was gone in between.
_shfs_show_alert()
{
	local line seen='' new=''

	if [[ -e $_shfs_alert ]]; then
		while IFS='' builtin read -r line; do
			[[ -z $line || $'\n'$_shfs_shown == *$'\n'"$line"$'\n'* ]] ||
				new+=${line//[[:cntrl:]]/?}$'\n'
			seen+=$line$'\n'
		done 2>/dev/null <"$_shfs_alert"
	fi
	builtin printf %s "$new" >&2
	_shfs_shown=$seen
}

# A shell that stood in a project when it was mounted stands below the mount, unseen; one
# that stood on it when it was unmounted is off it. Both go to what $PWD says, if that is
# the same directory.
_shfs_follow_mount()
{
	local inodes old=${OLDPWD-}

	[[ . -ef $PWD || ! -d $PWD ]] && return
	inodes=$(command stat -c %i . "$PWD" 2>/dev/null)
	[[ -n $inodes && ${inodes%$'\n'*} == "${inodes#*$'\n'}" ]] &&
		builtin cd "$PWD" && OLDPWD=$old
}

# $? is kept where a string of commands follows; but with set -e it would end the shell.
_shfs_finish()
{
	local status=$? flags=$-
	local -

	{ set +eux; } 2>/dev/null
	[[ $BASHPID == "$$" ]] || return 0
	((_shfs_open)) && _shfs_end "$status"
	_shfs_show_alert
	_shfs_follow_mount
	_shfs_arm
	_shfs_history=$HISTCMD
	((_shfs_version >= 501)) || [[ $flags == *e* ]] || return "$status"
	return 0
}

_shfs_plain()
{
	local stat IFS=' ' history='HISTTIMEFORMAT= builtin history 1'

	builtin read -r stat </proc/self/stat
	stat=${stat##*) }
	# shellcheck disable=SC2086 # fields
	builtin set -- $stat
	_shfs_start=${20} _shfs_log=$_shfs_dir/shell-${_shfs_boot:0:8}-$$-${20}.log
	# An array is never exported: where these words reach another shell, they are nothing.
	_shfs_none=('')
	_shfs_ps0='${_shfs_none[_shfs_open=0${SHFS_DISABLE:+1}==0,'
	_shfs_ps0+='_shfs_number+=_shfs_open,_shfs_seq+=2,0]-}'
	if ((_shfs_version >= 503)); then
		_shfs_ps0+='${_shfs_none+${ { _shfs_begin; } 2>/dev/null; }}'
		_shfs_look="line=\${ $history; } cwd=\${ builtin pwd -P; }"
	else
		_shfs_ps0+='${_shfs_none+$({ _shfs_begin; } 2>/dev/null)}'
		_shfs_look="line=\$($history); builtin cd -P .; cwd=\$PWD"
	fi
	[[ ${_shfs_begun-} == "$_shfs_log" ]] && return
	_shfs_begun=$_shfs_log _shfs_open=0 _shfs_number=0 _shfs_seq=2 _shfs_shown=
	_shfs_session
}

# --- the start ---

_shfs_main()
{
	_shfs_version=$((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1]))
	[[ $- == *i* && -z ${SHFS_DISABLE-} && $BASHPID == "$$" ]] || return 0
	if ((_shfs_version < 404)); then
		_shfs_say "bash $BASH_VERSION is too old: bash 4.4 or later is needed"
	elif _shfs_builtin; then
		_shfs_ps0='${SHFS_PRE-}'
		_shfs_prompt_command '_shfs_hook finish || _shfs_arm'
		_shfs_arm
	else
		_shfs_plain
		_shfs_prompt_command _shfs_finish
		_shfs_arm
	fi
}

_shfs_main
