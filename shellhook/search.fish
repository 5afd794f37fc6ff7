# SPDX-License-Identifier: MIT
#
# search.fish - a key for `shfs search`: puts the choice on the command line, without running it.
# The line is passed in the environment, which other users cannot read.
#
# Sourced by what `shfs init fish --search-key` prints, after it has set:
#   _shfs_search_key  the key, as for bind

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
