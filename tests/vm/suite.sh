#!/bin/sh
# SPDX-License-Identifier: MIT
# In the machine: pytest on what /arguments say behind the driver and a setting, in the root file system of the
# disk. Not by a chroot alone: who enters the mount namespace has that one's root.
insmod /shfs.ko && mount -t ext4 /dev/vda /mnt || exit 2
for dir in /proc /sys /dev; do
	mount --rbind $dir /mnt$dir || exit 2
done
hostname vm
mkdir -p /mnt/srv
eval "set -- $(cat /arguments)"
driver=$1 setting=$2
# and, for the cases of drivers by themselves, another
case $driver in
module) drivers="module fanotify" ;;
bpf) drivers="bpf bpf-tracepoints" ;;
esac
shift 2
cd /mnt && mount --move . / || exit 2
exec chroot . env -i HOME=/root PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
	SHFS_TEST_DIR=/srv SHFS_TEST_BUILD=/build SHFS_TEST_PREFIX=/usr/local SHFS_TEST_PATIENCE=20 SHFS_TEST_LEAKS=0 \
	SHFS_TEST_BACKENDS="$driver" SHFS_TEST_DRIVERS="$drivers" "$setting" PYTHONDONTWRITEBYTECODE=1 \
	python3 -m pytest -c /tests/pytest.ini --rootdir /tests --basetemp /srv/pytest --color=no "$@"
