#!/bin/sh
# SPDX-License-Identifier: MIT
# In the machine: roots in roots, mounts below them and of them, other file systems; by what /driver says.
insmod /shfs.ko || exit 1
driver=$(cat /driver)
watch() { # NAME DIR: while /tmp/work runs
	echo "begin $1"
	shfs-watch-tool "$driver" "$2" -- sh -e /tmp/work || exit 2
	echo "end $1"
}

mkdir -p /tmp/p/sub /tmp/p/in /tmp/p/disk /tmp/p/other /tmp/p/late /tmp/elsewhere /tmp/data
mount -t tmpfs tmpfs /tmp/p/disk
mount --bind /tmp/data /tmp/p/other
mount --bind /tmp/p/sub /tmp/elsewhere
cat >/tmp/work <<'E'
echo 1 >/tmp/p/sub/plain
echo 2 >/tmp/elsewhere/by-another-way
mkdir /tmp/p/disk/dir
echo 3 >/tmp/p/disk/dir/on-another-disk
mv /tmp/p/disk/dir/on-another-disk /tmp/p/disk/moved
echo 4 >/tmp/p/other/bound
echo 5 >/tmp/data/bound-by-its-own-name
unshare -m sh -c 'echo 6 >/tmp/p/in-another-namespace; mount -t tmpfs none /tmp/p/sub; echo 6 >/tmp/p/sub/plain'
mount -t tmpfs tmpfs /tmp/p/late
usleep 300000
echo 7 >/tmp/p/late/mounted-meanwhile
until umount /tmp/p/late 2>/dev/null; do usleep 10000; done # what was written there is held until it is read
echo 8 >/tmp/outside
E
watch mounts /tmp/p
umount /tmp/elsewhere /tmp/p/other /tmp/p/disk || exit 3

cat >/tmp/work <<'E'
echo 1 >/tmp/p/in/both
echo 2 >/tmp/p/outer
E
shfs-watch-tool "$driver" /tmp/p -- sh -c '>/tmp/on; until [ -e /tmp/done ]; do usleep 50000; done' >/tmp/outer.log &
until [ -e /tmp/on ]; do usleep 50000; done
watch inner /tmp/p/in
touch /tmp/done
wait $!
echo "begin outer"
cat /tmp/outer.log
echo "end outer"

cat >/tmp/work <<'E'
echo 1 >/tmp/p/before
mv /tmp/p /tmp/q
echo 2 >/tmp/q/after
rm -r /tmp/q
mkdir /tmp/q
echo 3 >/tmp/q/of-another
E
watch gone /tmp/p

mkdir -p /tmp/lower /tmp/upper /tmp/work.d /tmp/merged
echo lower >/tmp/lower/changed
echo lower >/tmp/lower/read
mount -t overlay overlay -o lowerdir=/tmp/lower,upperdir=/tmp/upper,workdir=/tmp/work.d /tmp/merged || exit 4
cat >/tmp/work <<'E'
cat /tmp/merged/read >/dev/null
echo more >>/tmp/merged/changed
echo new >/tmp/merged/new
stat -c 'stat %n %d %i' /tmp/merged /tmp/merged/changed /tmp/merged/new /tmp/merged/read
E
watch overlay /tmp/merged

truncate -s 160M /tmp/image
mkfs.btrfs -q /tmp/image && mkdir /tmp/btrfs && mount -o loop -t btrfs /tmp/image /tmp/btrfs || exit 5
mkdir /tmp/btrfs/root
btrfs subvolume create /tmp/btrfs/root/volume >/dev/null || exit 6
cat >/tmp/work <<'E'
echo 1 >/tmp/btrfs/root/file
echo 2 >/tmp/btrfs/root/volume/file
cat /tmp/btrfs/root/volume/file >/dev/null
stat -c 'stat %n %d %i' /tmp/btrfs/root /tmp/btrfs/root/file /tmp/btrfs/root/volume/file
E
watch btrfs /tmp/btrfs/root
umount /tmp/btrfs /tmp/merged || exit 7
rmmod shfs
