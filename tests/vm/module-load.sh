#!/bin/sh
# SPDX-License-Identifier: MIT
# In the machine: the module comes and goes while others fork and write, and its readers are killed.
mkdir -p /tmp/p /tmp/load
mount -t tmpfs tmpfs /tmp/p
cat >/tmp/forks <<'E'
while [ -d /tmp/load ]; do sh -c 'true; true & wait'; done
E
cat >/tmp/writes <<'E'
while [ -d /tmp/load ]; do short /tmp/p 100; done
E
cat >/tmp/names <<'E'
while [ -d /tmp/load ]; do
	mkdir -p /tmp/p/d && echo x >/tmp/p/d/x && mv /tmp/p/d/x /tmp/p/d/y && chmod 600 /tmp/p/d/y && rm -r /tmp/p/d
done
E
for load in forks writes names; do
	nice -n 15 sh /tmp/$load 2>/dev/null &
done

# a reader that is there, until it is killed; an argument: it lets the rings fill
start_reader() {
	rm -f /tmp/watching
	shfs-watch-tool module /tmp/p --uid 0 "${1:---count}" --count -- sh -c 'touch /tmp/watching; sleep 1000' >/dev/null &
	reader=$!
	until [ -e /tmp/watching ]; do usleep 5000; done
}

kill_reader() {
	kill -9 "$reader"
	wait "$reader" 2>/dev/null
}

for i in $(seq "$(cat /times)"); do
	insmod /shfs.ko || exit 1
	case $((i % 4)) in
	1) ;; # nobody watches
	2 | 3) # its reader ends at some instant
		if [ $((i % 4)) = 2 ]; then start_reader; else start_reader --late; fi
		if rmmod shfs 2>/dev/null; then
			echo "unloaded while it was watched"
			exit 3
		fi
		usleep $((i * 4000))
		kill_reader
		;;
	0) # two at once, the other of a user who does nothing
		start_reader --late
		shfs-watch-tool module / --uid 1000 --quiet 0 --count -- true >/dev/null || exit 4
		kill_reader
		;;
	esac
	until [ "$(cat /sys/module/shfs/refcnt)" = 0 ]; do usleep 5000; done
	rmmod shfs || exit 6
done
rmdir /tmp/load
wait
# nothing holds it any more
umount /tmp/p || exit 7
echo "loaded $i times"
