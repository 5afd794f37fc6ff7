# SPDX-License-Identifier: MIT
#
# search.fish - a key for `shfs search`: what is chosen comes to the line, and is not run.
# The line goes there by the environment, which others cannot see.
#
# Sourced by what `shfs init fish --search-key` prints, after it has set:
#   _shfs_search_key  the key, as bind has it

function _shfs_search
    set -lx SHFS_LINE (commandline | string collect)
    set -l line (command shfs search --shell fish | string collect)
    and commandline -r -- $line
    commandline -f repaint
end

if status is-interactive
    bind $_shfs_search_key _shfs_search
    bind -M insert $_shfs_search_key _shfs_search
end
