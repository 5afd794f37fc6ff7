/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * /dev/shfs: the interface of the module and its reader.
 *
 * An open file of the device is one sub, from SHFS_DEVICE_SUBSCRIBE to its end.
 * Its events (common/event.h) lie in one ring for each CPU. The reader maps
 * each ring at SHFS_DEVICE_RING_OFFSET(cpu, map_bytes). The first page of a map
 * is a struct shfs_device_ring; ring_bytes of events follow. An event never
 * wraps: where one would, there is an event of type SHFS_DEVICE_FILLER, of
 * which only size and type can be read.
 *
 * To read all rings in order of time:
 * 1. Take the time.
 * 2. For each ring, wait until it is not busy or its head has moved; then take
 *    its head.
 * 3. Whatever happened before that time lies before these heads.
 */
#ifndef SHFS_MODULE_DEVICE_H
#define SHFS_MODULE_DEVICE_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define SHFS_DEVICE_PATH "/dev/shfs"
#define SHFS_DEVICE_FILLER 0
#define SHFS_DEVICE_MOUNTS_MAX 256
#define SHFS_DEVICE_HEADER_BYTES 4096

#define SHFS_DEVICE_RING_OFFSET(cpu, map_bytes) ((__u64)(cpu) * (map_bytes))

struct shfs_device_ring {
	/* written by the module */
	__u64 head; /* bytes of events so far, fillers too */
	__u64 lost; /* events that found no room */
	__u32 busy; /* an event is being made: its time may be taken already */
	__u32 reserved[11];
	/* written by the reader */
	__u64 tail; /* bytes that it has read */
};

struct shfs_device_subscription {
	__u32 version; /* in: SHFS_EVENT_VERSION */
	__s32 root; /* in: a directory */
	__u32 uid; /* in: the user whose processes are watched; 0: all */
	__s32 pid; /* in: the watcher, whose pid namespace is used; 0: caller */
	__u32 rings; /* out: number of rings: CPUs that there may ever be */
	__u32 ring_bytes; /* out: bytes of events in each, a power of two */
};

/* Takes a written file as an O_PATH descriptor; its pin is gone then. */
struct shfs_device_take {
	__u64 pin; /* in */
	__s32 fd; /* out */
	__u32 reserved;
};

/* Another file system, or another part of the same one, mounted below the root.
 */
struct shfs_device_mount {
	__s32 fd; /* the mounted directory or file */
	__u32 text_len;
	__u64 text; /* pointer: its path below the root */
	__u64 dev; /* its st_dev */
};

/* All mounts below the root; they replace the earlier list. */
struct shfs_device_mounts {
	__u64 mounts; /* pointer */
	__u32 count;
	__u32 reserved;
};

struct shfs_device_status {
	__u64 unseen; /* changes of names, by any process, that were not seen */
	__u64 unpinned; /* written files that found no free pin */
	__u64 untracked; /* writers for which there was no memory */
	__u32 pins; /* now */
	__u32 reserved;
};

#define SHFS_DEVICE_SUBSCRIBE _IOWR('S', 1, struct shfs_device_subscription)
#define SHFS_DEVICE_TAKE _IOWR('S', 2, struct shfs_device_take)
#define SHFS_DEVICE_MOUNTS _IOW('S', 3, struct shfs_device_mounts)
#define SHFS_DEVICE_STATUS _IOR('S', 4, struct shfs_device_status)

#endif
