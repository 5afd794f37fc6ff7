# SPDX-License-Identifier: MIT
#
# search.zsh - a key for `shfs search`: what is chosen comes to the line, and is not run.
# The line goes there by the environment, which others cannot see.
#
# Sourced by what `shfs init zsh --search-key` prints, after it has set:
#   _shfs_search_key  the key, as bindkey has it

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
