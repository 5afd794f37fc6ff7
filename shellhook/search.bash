# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2154
#
# search.bash - a key for `shfs search`: puts the choice on the command line, without running it.
# The line is passed in the environment, which other users cannot read.
#
# Sourced by what `shfs init bash --search-key` prints, after it has set:
#   _shfs_search_key  the key, as for bind

_shfs_search()
{
	local _line

	_line=$(SHFS_LINE=$READLINE_LINE command shfs search --shell bash) || return 0
	READLINE_LINE=$_line READLINE_POINT=${#_line}
}

_shfs_bind_search()
{
	local _map

	[[ $- == *i* ]] || return 0
	for _map in emacs-standard vi-insert vi-command; do
		builtin bind -m "$_map" -x "\"$_shfs_search_key\": _shfs_search"
	done 2>/dev/null
}

_shfs_bind_search
