#!/bin/sh
# SPDX-License-Identifier: MIT
# In the machine, with --icount: instructions for each open and close.
mkdir /tmp/p
echo 0123456789 >/tmp/p/file
chmod -R 777 /tmp/p
echo "without $(opens /tmp/p/file)"
insmod /shfs.ko || exit 1
echo "loaded $(opens /tmp/p/file)"
for user in 0 1000; do
	for how in read write; do
		shfs-watch-tool module /tmp/p --uid 1000 --as $user --late --count -- opens /tmp/p/file $how >/tmp/log || exit 2
		grep -q '^events lost' /tmp/log && exit 3
		echo "user $user $(grep "^$how" /tmp/log)"
	done
done
rmmod shfs
