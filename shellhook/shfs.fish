# SPDX-License-Identifier: MIT
#
# shfs.fish - the hook: records the commands that are typed in this shell.
#
# Sourced by what `shfs init fish` prints, after it has set:
#   _shfs_dir    the directory for this shell's hook log
#   _shfs_alert  a file that exists while something is wrong, with lines to show
#   _shfs_host, _shfs_boot, _shfs_pidns, _shfs_tty   facts for the log about this session
#   _shfs_program, _shfs_store   the program shfs, and its store
#   _shfs_projects  directories, one in each line, of which it is told when the shell enters one
#   _shfs_secrets  regular expressions for secrets, one in each line; or empty
#   _shfs_needles  a regular expression that matches their beginnings
#   _shfs_origin  1: LC_SHFS names the running command, for ssh to take along; or empty
#   _shfs_clock  seconds from the boot time to the real time
#
# fish_preexec and fish_postexec notice the begin and the end of a command. Almost nothing forks.

# Prints a message once in a session, however often this file is sourced.
function _shfs_say
    contains -- $argv[1] $_shfs_said; and return
    set -ga _shfs_said $argv[1]
    echo "shfs: $argv[1]" >&2
end

# FIELD...: appends a record. A new log, or one that was removed meanwhile, begins with the
# session. fish always prints the errors of redirections and writes: so this checks first, and
# after a failed write lets a program try.
function _shfs_write
    test $argv[1] = S1 -o -s $_shfs_log; or _shfs_session
    set -g _shfs_seq (math $_shfs_seq + 1)
    set -l fields $argv[1] $_shfs_seq $argv[2..] $_shfs_seq
    set -l format '\036'(string repeat -n (count $fields) '%s\0')'\n'
    if test -w $_shfs_log; or test -d $_shfs_dir -a -w $_shfs_dir
        if set -q _shfs_failed
            command printf $format $fields >>$_shfs_log 2>/dev/null
            and set -e _shfs_failed
            and return
        else if builtin printf $format $fields >>$_shfs_log 2>/dev/null
            return
        end
        set -g _shfs_failed
    end
    _shfs_say "the commands of this shell are not recorded: cannot write to $_shfs_log"
    return 1
end

# _shfs_now SHIFT: prints the real time, the boot time and the last pid. fish has only a coarse
# clock, the boot time. A real time computed from that is no more exact, so it is shifted:
# ingest would take a time that agrees within 30 ms for exact. If the last command was so
# recent that its time could not be told from this one (pasted lines), a program gives the real
# time.
function _shfs_now
    set -l boot 0
    set -l lastpid 0
    set -l real
    read -l -d ' ' boot _ </proc/uptime
    if test (math $boot - $_shfs_ended) -lt 0.05
        set real (command date +%s.%N | string match -r '^\d+\.\d{9}$')
        read -l -d ' ' now _ </proc/uptime
        set boot $now
    end
    read -l -d ' ' _ _ _ _ lastpid </proc/loadavg
    test -n "$real"; or set real (math -s2 $_shfs_clock + $boot + $argv[1])
    echo $real
    echo $boot
    echo $lastpid
end

function _shfs_session
    set -l now (_shfs_now 0.04)
    set -l mask (umask)
    umask 077
    _shfs_write S1 $fish_pid $_shfs_start "$_shfs_boot" "$_shfs_pidns" $now[1] $now[2] \
        "$_shfs_host" fish "$_shfs_tty" (pwd -P | string collect)
    test -z "$_shfs_from"; or _shfs_write O1 $_shfs_from
    umask $mask
end

# Moves the shell into the directory that $PWD names, if that is the same one, in two cases:
# the shell was in a project when it was mounted, and so is below the mount, unseen; or it was
# on a mount that was unmounted. Only then, and if $PWD was replaced, this runs a program.
function _shfs_follow_mount
    test . -ef $PWD; and return
    test -d $PWD; or return
    set -l inodes (command stat -c %i . $PWD 2>/dev/null)
    test -n "$inodes[1]" -a "$inodes[1]" = "$inodes[-1]"
    and builtin cd $PWD 2>/dev/null
end

# Prints the text with its secrets replaced; fails if it has none.
function _shfs_redact
    test -n "$_shfs_needles"; or return
    string match -qir -- $_shfs_needles $argv[1]; or return
    set -l text $argv[1]
    for pattern in (string split -n \n -- $_shfs_secrets)
        set text (string replace -ra -- $pattern '[redacted]' $text | string collect)
    end
    test "$text" != "$argv[1]"
    and echo -n $text
end

function _shfs_preexec --on-event fish_preexec
    test -z "$SHFS_DISABLE"; or return
    set -l text $argv[1]
    set -l hidden 0
    set -l tag B1
    # blanks and comments are no command, but the event comes for them, too
    string match -qr '^\s*(#[^\n]*)?$' -- $text; and return
    _shfs_follow_mount
    if set -q fish_private_mode; or string match -qr '^[ \t]' -- $text
        set hidden 1
        set text ''
    else if set -l redacted (_shfs_redact $text | string collect; or true)
        and test -n "$redacted"
        set tag B2
        set text $redacted
    end
    set -l now (_shfs_now -0.04)
    set -g _shfs_number (math $_shfs_number + 1)
    set -gx SHFS_COMMAND $_shfs_number
    set -gx SHFS_HIDDEN $hidden
    test -z "$_shfs_here"; or set -gx LC_SHFS $_shfs_here$_shfs_number
    _shfs_write $tag $_shfs_number $now $hidden (pwd -P | string collect) $text
    and set -g _shfs_open 1
end

function _shfs_postexec --on-event fish_postexec
    set -l code $status
    set -gx SHFS_COMMAND 0
    set -gx SHFS_HIDDEN 0
    test -z "$_shfs_here"; or set -gx LC_SHFS ''
    test $_shfs_open = 1; or return
    set -g _shfs_open 0
    set -g _shfs_ended 0
    set -l now (_shfs_now 0.04)
    set -g _shfs_ended $now[2]
    _shfs_write F1 $_shfs_number $now $code
end

# Shows the alert; a line that was shown comes again only if it was gone in between.
function _shfs_prompt --on-event fish_prompt
    set -l seen
    if test -z "$SHFS_DISABLE" -a -e $_shfs_alert
        while read -l line
            test -z "$line"; or contains -- $line $_shfs_shown
            or string replace -ar '[[:cntrl:]]' '?' -- $line >&2
            set -a seen $line
        end <$_shfs_alert
    end
    set -g _shfs_shown $seen
    test -z "$_shfs_projects" -o -n "$SHFS_DISABLE"; or test "$PWD" = "$_shfs_visited"
    or _shfs_visit
end

# Tells shfs when the shell has entered a project, once for each: it may be mounted now.
function _shfs_visit
    set -g _shfs_visited $PWD
    set -l kept
    set -l found
    set -l here (pwd -P | string collect)
    for project in (string split -n \n -- $_shfs_projects)
        if test (string sub -l (string length -- $project/) -- $here/) = $project/
            set found 1
        else
            set -a kept $project
        end
    end
    set -g _shfs_projects (string join \n -- $kept | string collect)
    # shfs may have been removed since
    if set -q found[1]; and test -x $_shfs_program
        command $_shfs_program prompt --store $_shfs_store -- $here </dev/null
        _shfs_follow_mount
    end
end

# Keeps what LC_SHFS was when the shell began, unless it names a command of this host (docs/ssh.md).
# Sets what commands are named by, if they are to be.
function _shfs_mark_origin
    set -g _shfs_here
    string match -qr '^[!-~]{1,160}$' -- "$LC_SHFS"
    and not string match -q -- "$_shfs_host:*" $LC_SHFS
    and set -g _shfs_from $LC_SHFS
    test -n "$_shfs_origin"; or return
    set -g _shfs_here $_shfs_host:$argv[1]:
    set -gx LC_SHFS ''
end

# Sets the marker in the environment of programs. The numbers continue if this shell was executed
# by itself (exec fish).
function _shfs_mark
    _shfs_mark_origin $argv[1]
    string match -q -- "$argv[1]-*" "$SHFS_SESSION-"
    and string match -qr '^\d+$' -- $SHFS_COMMAND
    and set -g _shfs_number $SHFS_COMMAND
    set -gx SHFS_SESSION (string join -n - $argv[1] "$INVOCATION_ID")
    set -gx SHFS_COMMAND 0
    set -gx SHFS_HIDDEN 0
end

function _shfs_main
    read -l -z stat </proc/self/stat
    set -g _shfs_start (string replace -r '^.*\) ' '' -- $stat | string split ' ')[20]
    set -l log $_shfs_dir/shell-(string sub -l 8 -- $_shfs_boot)-$fish_pid-$_shfs_start.log
    test "$log" = "$_shfs_log"; and return
    set -g _shfs_log $log
    set -g _shfs_said
    set -g _shfs_shown
    set -g _shfs_open 0
    set -g _shfs_number 0
    set -g _shfs_from
    _shfs_mark (string sub -l 8 -- $_shfs_boot)-$fish_pid-$_shfs_start
    set -g _shfs_ended 0
    set -g _shfs_seq 0
    _shfs_session
end

if status is-interactive; and test -z "$SHFS_DISABLE"
    _shfs_main
else
    functions -e _shfs_preexec _shfs_postexec _shfs_prompt
end
