/* SPDX-License-Identifier: MIT */
/*
 * protocol.h - the FUSE protocol since 7.39, as far as neither libfuse 3.14 nor the
 * headers of Debian 12 know it. The names are our own, so that newer headers can define
 * theirs.
 */
#pragma once

#include <linux/fuse.h>
#include <stdint.h>
#include <sys/ioctl.h>

/* --- requests and notices --- */

#define SHFS_FUSE_STATX            52 /* 7.39, Linux 6.6 */
#define SHFS_FUSE_NOTIFY_RESEND    7  /* 7.40, Linux 6.9 */
#define SHFS_FUSE_NOTIFY_INC_EPOCH 8  /* 7.44, Linux 6.16 */
#define SHFS_FUSE_NOTIFY_PRUNE     9  /* 7.45, Linux 6.18 */

/* Set in the unique of an INTERRUPT, which otherwise is that of its request. */
#define SHFS_FUSE_INTERRUPT_BIT 1ull

/* Set in the unique of a request that was sent before, to a server that died. */
#define SHFS_FUSE_RESENT_BIT (1ull << 63)

struct shfs_fuse_time {
	int64_t sec;
	uint32_t nsec;
	int32_t reserved;
};

struct shfs_fuse_statx_out {
	uint64_t valid_sec;
	uint32_t valid_nsec, flags;
	uint64_t spare[2];
	uint32_t mask, blksize;
	uint64_t attributes;
	uint32_t nlink, uid, gid;
	uint16_t mode, spare2;
	uint64_t ino, size, blocks, attributes_mask;
	struct shfs_fuse_time atime, btime, ctime, mtime;
	uint32_t rdev_major, rdev_minor, dev_major, dev_minor;
	uint64_t spare3[14];
};

/* Followed by count node ids. */
struct shfs_fuse_prune_out {
	uint32_t count, padding;
	uint64_t spare;
};

/* --- the handshake --- */

/* Flags of INIT; from the 32nd bit on they are in flags2. */
#define SHFS_FUSE_PASSTHROUGH   (1ull << 37) /* 7.40, Linux 6.9 */
#define SHFS_FUSE_HAS_RESEND    (1ull << 39) /* 7.40, Linux 6.9 */
#define SHFS_FUSE_OVER_IO_URING (1ull << 41) /* 7.42, Linux 6.14 */

struct shfs_fuse_init_out {
	uint32_t major, minor, max_readahead, flags;
	uint16_t max_background, congestion_threshold;
	uint32_t max_write, time_gran;
	uint16_t max_pages, map_alignment;
	uint32_t flags2;
	uint32_t max_stack_depth; /* with PASSTHROUGH: lower file systems, and this one */
	uint16_t request_timeout, unused[11];
};

/* --- passthrough: reads and writes that the kernel does itself --- */

#define SHFS_FOPEN_PASSTHROUGH (1u << 7)

struct shfs_fuse_open_out {
	uint64_t fh;
	uint32_t open_flags;
	int32_t backing_id; /* with FOPEN_PASSTHROUGH */
};

struct shfs_fuse_backing_map {
	int32_t fd;
	uint32_t flags;
	uint64_t padding;
};

/* ioctls of the device; BACKING_OPEN returns a backing_id, and needs CAP_SYS_ADMIN. */
#define SHFS_FUSE_BACKING_OPEN  _IOW(FUSE_DEV_IOC_MAGIC, 1, struct shfs_fuse_backing_map)
#define SHFS_FUSE_BACKING_CLOSE _IOW(FUSE_DEV_IOC_MAGIC, 2, uint32_t)

/* --- io_uring: requests without /dev/fuse --- */

enum {
	SHFS_FUSE_URING_REGISTER = 1,     /* offers a buffer; completes with a request */
	SHFS_FUSE_URING_COMMIT_AND_FETCH, /* replies; completes with the next request */
};

/* The command in a submission. */
struct shfs_fuse_uring_command {
	uint64_t flags;
	uint64_t commit_id; /* of the request that is answered */
	uint16_t qid;       /* number of the queue, which is that of a CPU */
	uint8_t padding[6];
};

/* The first part of a buffer. The second part, as large as the largest request, is for
 * the data behind the headers, of requests and replies. */
struct shfs_fuse_uring_header {
	union {
		struct fuse_in_header in;
		struct fuse_out_header out;
		uint8_t space[128];
	};
	uint8_t op[128]; /* the first part of the request's arguments */
	uint64_t flags;
	uint64_t commit_id;
	uint32_t payload_size, padding;
	uint64_t reserved;
};

_Static_assert(sizeof(struct shfs_fuse_statx_out) == 288, "as the kernel has it");
_Static_assert(sizeof(struct shfs_fuse_init_out) == 64, "as the kernel has it");
_Static_assert(sizeof(struct shfs_fuse_open_out) == 16, "as the kernel has it");
_Static_assert(sizeof(struct shfs_fuse_uring_command) == 24, "as the kernel has it");
_Static_assert(sizeof(struct shfs_fuse_uring_header) == 288, "as the kernel has it");
