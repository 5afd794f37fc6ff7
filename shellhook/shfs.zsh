# SPDX-License-Identifier: MIT
#
# shfs.zsh - the hook: records the commands that are typed in this shell.
#
# Sourced by what `shfs init zsh` prints, after it has set:
#   _shfs_dir    the directory for this shell's hook log
#   _shfs_alert  a file that exists while something is wrong, with lines to show
#   _shfs_lib    the module (shfs-zsh.c), or empty
#   _shfs_host, _shfs_boot, _shfs_pidns, _shfs_tty   facts for the log about this session
#   _shfs_program, _shfs_store   the program shfs, and its store
#   _shfs_projects  directories, one in each line, of which it is told when the shell enters one
#   _shfs_secrets  patterns of secrets (common/redact.h), one in each line; or empty
#   _shfs_needles  a pattern that matches their beginnings, in lower case
#   _shfs_origin  1: LC_SHFS names the running command, for ssh to take along; or empty
#
# preexec and precmd notice the begin and the end of a command. Nothing forks, but for a line that may
# hold a secret, and only without the module. A prompt waits for them, and in zsh function calls,
# redirections and name look-ups take most of the time: so in the usual case each is a single
# function. The module, if it fits this zsh, avoids even these calls: it notices that zsh looks the
# functions up. Without the module, the log stays open from one command to the next. A sticky
# emulation (_shfs_functions) keeps the user's options away, and prints nothing under xtrace.

# Prints a message once in a session, however often this file is sourced.
_shfs_say() {
	[[ $_shfs_said == *"<$1>"* ]] || builtin print -r -- "shfs: $1" >&2
	_shfs_said+="<$1>"
}

# The module refuses every zsh but the one it was built for.
_shfs_module() {
	[[ -n $_shfs_lib && ! -o restricted ]] || return
	local -a module_path

	module_path=($_shfs_lib:h)
	zmodload ${_shfs_lib:t:r} 2>/dev/null &&
		_shfs_hook start "$_shfs_dir" "$_shfs_alert" "$_shfs_host" "$_shfs_boot" "$_shfs_pidns" "$_shfs_tty" \
			"$_shfs_program" "$_shfs_store" "$_shfs_projects" "$_shfs_secrets" "$_shfs_origin"
}

# --- the same in zsh, if the module cannot be loaded ---

# Closes the log, unless the user has closed it, and opened another file there.
_shfs_close() {
	local -A file

	((_shfs_fd)) && zstat -H file -f $_shfs_fd 2>/dev/null &&
		[[ $file[device]:$file[inode] == $_shfs_file ]] && { exec {_shfs_fd}>&- } 2>/dev/null
	_shfs_fd=0
}

_shfs_trouble() {
	_shfs_close
	_shfs_say "the commands of this shell are not recorded: cannot write to $_shfs_log"
	return 1
}

# May the log stay open? On a mount of shfs it would keep the mount busy, so there it is opened for
# each record.
_shfs_may_stay_open() {
	local -A file
	local -a mounts

	mounts=("${(@f)$(</proc/self/mountinfo)}")
	zstat -H file -f $_shfs_fd 2>/dev/null || return
	_shfs_file=$file[device]:$file[inode]
	[[ ${(M)mounts:#* $((file[device] >> 8 & 0xfff)):$((file[device] & 0xff | file[device] >> 12 & 0xfff00)) *} != *' - fuse'* ]]
}

# Opens the log. A new one, or one that was removed meanwhile, begins with the session, and
# continues with the running command.
_shfs_open_log() {
	local boot=0
	local -a now

	_shfs_close
	if ! sysopen -w -a -o creat,cloexec,nofollow -m 600 -u _shfs_fd -- $_shfs_log 2>/dev/null; then
		_shfs_fd=0
		_shfs_trouble
		return
	fi
	_shfs_may_stay_open
	_shfs_stays_open=$((!$?))
	((_shfs_seq)) && [[ -s $_shfs_log ]] && return
	sysread boot </proc/uptime
	now=($epochtime)
	_shfs_append S1 $$ $_shfs_ticks "$_shfs_boot" "$_shfs_pidns" $now[1].${(l:9::0:)now[2]} ${boot%% *} \
		"$_shfs_host" zsh "$_shfs_tty" "${PWD:P}" || return
	[[ -z $_shfs_from ]] || _shfs_append O1 $_shfs_from || return
	((!_shfs_running)) || _shfs_append $_shfs_tag "$_shfs_begun"
}

# TAG FIELD...: writes a record with one write. Frequent records are written without this call.
_shfs_append() {
	((++_shfs_seq))
	syswrite -o $_shfs_fd -- $'\x1e'$1$'\0'$_shfs_seq$'\0'"${(pj:\0:)@:2}"$'\0'$_shfs_seq$'\0\n' ||
		_shfs_trouble
}

# Moves the shell into the directory that $PWD names, if that is the same one, in two cases:
# the shell was in a project when it was mounted, and so is below the mount, unseen; or it was
# on a mount that was unmounted. zstat fails on a mount whose daemon is gone.
_shfs_follow_mount() {
	local old=$OLDPWD
	local -A here there

	zstat -H there -- $PWD 2>/dev/null || return
	zstat -H here . 2>/dev/null && ((here[inode] != there[inode])) && return
	builtin cd -q -- $PWD 2>/dev/null && OLDPWD=$old
}

# Does HISTORY_IGNORE match? An invalid pattern matches nothing, as in zsh itself.
_shfs_is_ignored() {
	{ [[ $1 == ${~HISTORY_IGNORE} ]] } always { TRY_BLOCK_ERROR=0 } 2>/dev/null
}

# Replaces the secrets in the caller's variable text; if there are any, sets _shfs_tag. Without the
# module regex no text is kept. The module calls malloc without holding signals back: a job of the
# background that ended meanwhile would have zsh corrupt its memory. So a subshell, which has no jobs,
# looks for secrets; the x keeps the newlines at the end.
_shfs_redact() {
	emulate -L zsh
	local typed=$text

	text=$(_shfs_print_redacted)
	text=${${text:-[redacted]x}%x}
	[[ $text == "$typed" ]] || _shfs_tag=B2
}

# In the locale C bytes are characters.
_shfs_print_redacted() {
	local LC_ALL=C pattern secret before kept rest MATCH
	local -i MBEGIN MEND
	local -a match mbegin mend

	zmodload zsh/regex 2>/dev/null || return
	for pattern in "${(@f)_shfs_secrets}"; do
		[[ $pattern == '(?i)'* ]]
		local -i folds=$((!$?))
		pattern=${pattern#'(?i)'} rest=$text text=
		while
			((!folds)) || unsetopt case_match
			[[ $rest -regex-match $pattern && -n $MATCH ]]
		do
			setopt case_match
			secret=${match[1]:-$MATCH}
			before=${rest%%"$MATCH"*} kept=${MATCH%"$secret"*}
			text+=$before$kept'[redacted]'
			rest=${rest:$(($#before + $#kept + $#secret))}
		done
		setopt case_match
		text+=$rest
	done
	builtin print -rn -- "${text}x"
}

# $1 is the line as typed; it is empty if zsh was told to keep it out of its history. If the log was
# removed, that is noticed at the end of the command.
_shfs_preexec() {
	local text=$1 hidden=0 boot=0 last=0
	local -a now

	[[ $sysparams[pid] == $$ && -z $SHFS_DISABLE ]] || return 0
	[[ . -ef $PWD ]] || _shfs_follow_mount
	[[ -n $text && $text != [[:blank:]]* ]] || hidden=1 text=
	[[ -n $HISTORY_IGNORE ]] && _shfs_is_ignored "$text" && hidden=1 text=
	[[ $PWD == $_shfs_pwd ]] || _shfs_pwd=$PWD _shfs_cwd=${PWD:P}
	typeset -gx SHFS_COMMAND=$((++_shfs_number)) SHFS_HIDDEN=$hidden
	[[ -z $_shfs_here ]] || typeset -gx LC_SHFS=$_shfs_here$_shfs_number
	_shfs_running=0 _shfs_tag=B1
	[[ -n $_shfs_needles && ${(L)text} == *(${~_shfs_needles})* ]] && _shfs_redact
	((_shfs_fd)) || _shfs_open_log || return 0
	now=($epochtime)
	sysread boot </proc/uptime
	sysread last </proc/loadavg
	printf -v _shfs_begun '%d\0%d.%09d\0%s\0%d\0%d\0%s\0%s' $_shfs_number $now ${boot%% *} ${last##* } \
		$hidden "$_shfs_cwd" "$text"
	syswrite -o $_shfs_fd -- $'\x1e'$_shfs_tag$'\0'$((++_shfs_seq))$'\0'$_shfs_begun$'\0'$_shfs_seq$'\0\n' &&
		_shfs_running=1 || _shfs_trouble
	((_shfs_stays_open)) || _shfs_close
	return 0
}

_shfs_precmd() {
	local stat=$? boot=0 last=0
	local -a now

	[[ $sysparams[pid] == $$ ]] || return 0
	SHFS_COMMAND=0 SHFS_HIDDEN=0
	[[ -z $_shfs_here ]] || LC_SHFS=
	if ((_shfs_running)); then
		now=($epochtime)
		sysread boot </proc/uptime
		sysread last </proc/loadavg
		[[ /proc/self/fd/$_shfs_fd -ef $_shfs_log ]] && ((_shfs_fd)) || _shfs_open_log
		_shfs_running=0
		((++_shfs_seq))
		printf -v last '\x1eF1\0%d\0%d\0%d.%09d\0%s\0%d\0%d\0%d\0\n' $_shfs_seq $_shfs_number $now ${boot%% *} \
			${last##* } $stat $_shfs_seq
		((!_shfs_fd)) || syswrite -o $_shfs_fd -- $last || _shfs_trouble
		((_shfs_stays_open)) || _shfs_close
	fi
	if [[ -e $_shfs_alert && -z $SHFS_DISABLE ]]; then
		_shfs_show_alert
	else
		_shfs_shown=
	fi
	[[ -z $_shfs_projects || $PWD == $_shfs_visited || -n $SHFS_DISABLE ]] || _shfs_visit
	return 0
}

# Tells shfs when the shell has entered a project, once for each: it may be mounted now.
_shfs_visit() {
	local project found=0
	local -a kept

	_shfs_visited=$PWD
	for project in "${(@f)_shfs_projects}"; do
		if [[ ${PWD:P}/ == $project/* ]]; then found=1; else kept+=("$project"); fi
	done
	_shfs_projects=${(F)kept}
	((found)) && [[ -x $_shfs_program ]] || return # shfs may have been removed since
	command "$_shfs_program" prompt --store "$_shfs_store" -- "${PWD:P}" </dev/null
	[[ . -ef $PWD ]] || _shfs_follow_mount
}

# Shows new lines; a line that was shown comes again only if it was gone in between.
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

# Keeps what LC_SHFS was when the shell began, unless it names a command of this host (docs/ssh.md).
# Sets what preexec names the commands by, if it is to.
_shfs_mark_origin() {
	[[ -z $LC_SHFS || $LC_SHFS == $_shfs_host:* || $LC_SHFS == *[^[:graph:]]* ]] ||
		(($#LC_SHFS > 160)) || _shfs_from=$LC_SHFS
	typeset -g _shfs_here=
	[[ -n $_shfs_origin && ${(t)LC_SHFS} != *readonly* ]] || return 0
	_shfs_here=$_shfs_host:$1:
	typeset -gx LC_SHFS=
}

# Sets the marker in the environment of programs. The numbers continue if this shell was executed
# by itself (exec zsh).
_shfs_mark() {
	_shfs_mark_origin $1
	[[ $SHFS_SESSION- == $1-* && $SHFS_COMMAND == <-> ]] && _shfs_number=$SHFS_COMMAND
	typeset -gx SHFS_SESSION=$1${INVOCATION_ID:+-$INVOCATION_ID} SHFS_COMMAND=0 SHFS_HIDDEN=0
}

_shfs_plain() {
	local stat log

	if ! zmodload zsh/datetime zsh/system 2>/dev/null ||
		! zmodload -F zsh/stat b:zstat 2>/dev/null; then
		_shfs_say 'nothing is recorded: this zsh lacks the modules datetime, system or stat'
		return 1
	fi
	[[ $sysparams[pid] == $$ ]] || return
	sysread stat </proc/self/stat
	typeset -g _shfs_ticks=${${(z)stat##*\) }[20]}
	log=$_shfs_dir/shell-${_shfs_boot[1,8]}-$$-$_shfs_ticks.log
	[[ $log == ${_shfs_log-} ]] && return
	((!${_shfs_fd-0})) || _shfs_close
	typeset -g _shfs_log=$log _shfs_shown= _shfs_begun= _shfs_tag=B1 _shfs_file= _shfs_pwd= _shfs_cwd= _shfs_from=
	typeset -gi _shfs_fd=0 _shfs_stays_open=0 _shfs_running=0 _shfs_number=0 _shfs_seq=0
	_shfs_mark $_shfs_boot[1,8]-$$-$_shfs_ticks
	_shfs_open_log && ((!_shfs_stays_open)) && _shfs_close
	return 0
}

# --- start ---

# BEGIN END: bodies of the functions. The end is noticed before other hooks run, so that they do not
# count; the begin after them, right before the command.
_shfs_functions() {
	emulate zsh -o no_err_exit -o no_err_return -o unset -o no_xtrace -c '
		functions[_shfs_preexec]=$1
		functions[_shfs_precmd]=$2'
	precmd_functions=(_shfs_precmd ${precmd_functions:#_shfs_precmd})
	preexec_functions=(${preexec_functions:#_shfs_preexec} _shfs_preexec)
}

_shfs_main() {
	emulate -L zsh
	setopt no_err_exit no_err_return

	[[ -o interactive && -z $SHFS_DISABLE ]] || return 0
	typeset -g _shfs_said=${_shfs_said-} _shfs_visited=
	if _shfs_module; then
		_shfs_functions '_shfs_hook begin "$1"' '_shfs_hook end'
	elif _shfs_plain; then
		_shfs_functions $functions[_shfs_preexec] $functions[_shfs_precmd]
	fi
	return 0
}

_shfs_main
