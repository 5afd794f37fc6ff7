#!/bin/sh
# SPDX-License-Identifier: MIT
# In the machine: what 20,000 files held that were gone at once.
insmod /shfs.ko || exit 1
mkdir /tmp/p
shfs-watch-tool module /tmp/p --hash -- short /tmp/p 20000 >/tmp/log || exit 2
grep -F LOST /tmp/log
grep -F hash= /tmp/log >/tmp/contents
echo "pinned $(wc -l </tmp/contents)"
echo "hash $(cut -d" " -f4,26 /tmp/contents | tr -d "\"" | sha256sum)"
rmmod shfs
