/* SPDX-License-Identifier: MIT */
/*
 * libfuse 3.14 does not know FUSE_STATX, the only request by which the kernel (since 6.6)
 * learns a file's time of birth. It is answered here, before libfuse sees it.
 */
#include "fusefs/ops.h"

#include <errno.h>
#include <linux/fuse.h>
#include <string.h>
#include <sys/uio.h>

#define OP_STATX 52

/* linux/fuse.h has these since 6.6 under names with fuse_ */
struct statx_time {
	int64_t sec;
	uint32_t nsec;
	int32_t reserved;
};

struct statx_reply {
	uint64_t valid_sec;
	uint32_t valid_nsec, flags;
	uint64_t spare[2];
	uint32_t mask, blksize;
	uint64_t attributes;
	uint32_t nlink, uid, gid;
	uint16_t mode, spare2;
	uint64_t ino, size, blocks, attributes_mask;
	struct statx_time atime, btime, ctime, mtime;
	uint32_t rdev_major, rdev_minor, dev_major, dev_minor;
	uint64_t spare3[14];
};

static struct statx_time time_of(struct statx_timestamp t)
{
	return (struct statx_time){ .sec = t.tv_sec, .nsec = t.tv_nsec };
}

static struct statx_reply reply_of(const struct statx *stx)
{
	return (struct statx_reply){
		.valid_sec = (uint64_t)SHFS_TIMEOUT,
		.mask = stx->stx_mask,
		.blksize = stx->stx_blksize,
		.nlink = stx->stx_nlink,
		.uid = stx->stx_uid,
		.gid = stx->stx_gid,
		.mode = stx->stx_mode,
		.ino = stx->stx_ino,
		.size = stx->stx_size,
		.blocks = stx->stx_blocks,
		.atime = time_of(stx->stx_atime),
		.btime = time_of(stx->stx_btime),
		.ctime = time_of(stx->stx_ctime),
		.mtime = time_of(stx->stx_mtime),
		.rdev_major = stx->stx_rdev_major,
		.rdev_minor = stx->stx_rdev_minor,
	};
}

bool shfs_statx_serve(struct shfs_fs *fs, int fd, const void *request, size_t size)
{
	const struct fuse_in_header *in = request;
	struct fuse_out_header out = { .len = sizeof(out) };
	struct statx_reply reply;
	struct shfs_node *node;
	struct statx stx;
	struct iovec iov[2] = {
		{ &out, sizeof(out) },
		{ &reply, sizeof(reply) },
	};

	if (size < sizeof(*in) || in->opcode != OP_STATX)
		return false;
	out.unique = in->unique;
	node = shfs_node_find(fs->tree, in->nodeid);
	out.error = node ? shfs_node_stat(fs->tree, node, &stx) : -ESTALE;
	if (!out.error) {
		reply = reply_of(&stx);
		out.len += sizeof(reply);
	}
	/* fails only for a mount that has gone */
	(void)!writev(fd, iov, out.error ? 1 : 2);
	return true;
}
