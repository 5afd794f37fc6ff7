#!/bin/sh
# Makes a C string of the patterns, without comments. secrets.sh OUT FILE
set -eu
{
	echo 'static const char secrets_list[] ='
	sed -e '/^#/d; /^$/d; s/\\/\\\\/g; s/"/\\"/g; s/^/\t"/; s/$/\\n"/' "$2"
	echo '	;'
} >"$1"
