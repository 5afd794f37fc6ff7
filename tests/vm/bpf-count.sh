#!/bin/sh
# SPDX-License-Identifier: MIT
# In the machine, with --icount: instructions for each open and close. Permissions cost the
# user of files more than root, watched or not.
mkdir -p /tmp/p /tmp/o/1/2
echo 0123456789 >/tmp/p/file
echo 0123456789 >/tmp/o/1/2/file
chmod -R 777 /tmp/p /tmp/o
echo "root without $(opens /tmp/p/file)"
echo "user without $(su user -c 'opens /tmp/p/file')"
echo "outside without $(su user -c 'opens /tmp/o/1/2/file')"
for user in 0 1000; do
	shfs-watch-tool bpf /tmp/p --uid 1000 --as $user --late --count -- opens /tmp/p/file >/tmp/log || exit 2
	grep -q '^events lost' /tmp/log && exit 3
	echo "watching $user $(grep "^read" /tmp/log)"
done
shfs-watch-tool bpf /tmp/p --uid 1000 --as 1000 --late --count -- opens /tmp/o/1/2/file >/tmp/log || exit 2
echo "watching outside $(grep "^read" /tmp/log)"
