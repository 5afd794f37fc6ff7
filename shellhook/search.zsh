# SPDX-License-Identifier: MIT
#
# search.zsh - a key for `shfs search`: puts the choice on the command line, without running it.
# The line is passed in the environment, which other users cannot read.
#
# Sourced by what `shfs init zsh --search-key` prints, after it has set:
#   _shfs_search_key  the key, as for bindkey

_shfs_search() {
	emulate -L zsh
	local line

	line=$(SHFS_LINE=$BUFFER command shfs search --shell zsh) && BUFFER=$line CURSOR=$#line
	zle reset-prompt
}

if [[ -o interactive ]]; then
	zle -N _shfs_search
	bindkey -M emacs -- $_shfs_search_key _shfs_search
	bindkey -M viins -- $_shfs_search_key _shfs_search
	bindkey -M vicmd -- $_shfs_search_key _shfs_search
fi
