#!/bin/sh
# The worst day of each town, the worst town first: peaks.sh CASES > PEAKS
tail -n +2 "$1" | sort -t , -k 3,3nr -k 2,2n | awk -F , '!seen[$1]++ { print $1, $2, $3 }'
