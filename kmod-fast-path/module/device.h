/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * /dev/shfs: what the module and its reader say to each other.
 *
 * An open file of the device is one watch, from SHFS_DEVICE_WATCH to its end.
 * Its events (common/event.h) lie in one ring for each CPU, which the reader
 * maps, each at SHFS_DEVICE_RING_OFFSET(cpu, map_bytes). The first page of a
 * map is a struct shfs_device_ring, behind it ring_bytes of events, which never
 * wrap: where one would, there is an event of type SHFS_DEVICE_FILLER, of which
 * only size and type can be read.
 *
 * To read in order of time: take the time; from each ring wait until it is not
 * busy, or its head has moved, and then take its head. Whatever happened before
 * that time lies before these heads.
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
	/* of the module */
	__u64 head; /* bytes of events so far, fillers too */
	__u64 lost; /* events that found no room */
	__u32 busy; /* an event is being made: its time may be taken already */
	__u32 reserved[11];
	/* of the reader */
	__u64 tail; /* bytes that it has read */
};

struct shfs_device_watch {
	__u32 version; /* in: SHFS_EVENT_VERSION */
	__s32 root; /* in: a directory */
	__u32 uid; /* in: whose processes; 0: all */
	__s32 pid; /* in: the watcher, whose pid namespace ids are of; 0: caller */
	__u32 rings; /* out: how many: CPUs that there may ever be */
	__u32 ring_bytes; /* out: of events in each, a power of two */
};

/* A file that was written, as an O_PATH descriptor; the pin is gone then. */
struct shfs_device_take {
	__u64 pin; /* in */
	__s32 fd; /* out */
	__u32 reserved;
};

/* Another file system, or another part of the same one, mounted below the root.
 */
struct shfs_device_mount {
	__s32 fd; /* of what is mounted: the directory, or the file */
	__u32 text_len;
	__u64 text; /* pointer: where it is, below the root */
	__u64 dev; /* what stat(2) says of it */
};

/* All of them; those of before are forgotten. */
struct shfs_device_mounts {
	__u64 mounts; /* pointer */
	__u32 count;
	__u32 reserved;
};

struct shfs_device_status {
	__u64 unseen; /* changes of names, of anybody, that could not be followed */
	__u64 unpinned; /* files that were written while there were too many pins */
	__u64 untracked; /* writers that there was no memory for */
	__u32 pins; /* now */
	__u32 reserved;
};

#define SHFS_DEVICE_WATCH _IOWR('S', 1, struct shfs_device_watch)
#define SHFS_DEVICE_TAKE _IOWR('S', 2, struct shfs_device_take)
#define SHFS_DEVICE_MOUNTS _IOW('S', 3, struct shfs_device_mounts)
#define SHFS_DEVICE_STATUS _IOR('S', 4, struct shfs_device_status)

#endif
