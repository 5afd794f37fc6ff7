# SPDX-License-Identifier: MIT
# Completion of shfs for fish. The candidates come from `shfs complete` (query/cmd/complete.c).

# Prints a word without its quotes; the last quote may not be closed.
function __shfs_unquote
    string unescape -- $argv[1]
    or string unescape -- $argv[1]\'
    or string unescape -- $argv[1]\"
    or echo -- $argv[1]
end

function __shfs_complete
    set -l typed (commandline -ct)
    set -l current (__shfs_unquote "$typed")
    set -l asked (string replace -r '^~/' "$HOME/" -- $current)
    set -l before (commandline -opc)[2..]
    set -l behind ''
    set -l gone
    for line in (shfs complete -- $before "$asked" 2>/dev/null)
        switch $line
            case ':behind ='
                set behind (string replace -r '=.*' '=' -- $current)
                set typed (string replace -r '^[^=]*=' '' -- $typed)
            case ':behind @'
                set behind (string replace -r '@[^@]*$' '@' -- $current)
            case ':file *'
                set -a gone (string sub -s 7 -- $line)
            case :directories
                printf '%s\n' $behind(__fish_complete_directories "$typed")
            case ':files*'
                set -l at (string sub -s 8 -- $line)
                for name in (complete -C "'' $typed" | string replace -r '\t.*' '')
                    string match -q '*/' -- $name
                    or set name $name$at
                    echo -- $behind$name
                end
                for name in $gone
                    printf '%s\tremoved\n' $name$at
                end
            case '*'
                echo -- $behind$line
        end
    end
end

complete -c shfs -f -k -a '(__shfs_complete)'
