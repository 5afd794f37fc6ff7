/* SPDX-License-Identifier: MIT */
/*
 * Answers FUSE_STATX, by which the kernel (since 6.6) learns a file's time of birth, and
 * which libfuse 3.14 does not know.
 */
#include "fusefs/operations/operations.h"
#include "fusefs/transport/protocol.h"

#include <errno.h>

static struct shfs_fuse_time fuse_time_of(struct statx_timestamp t)
{
	return (struct shfs_fuse_time){ .sec = t.tv_sec, .nsec = t.tv_nsec };
}

static struct shfs_fuse_statx_out reply_of(const struct shfs_node *node,
                                           const struct statx *stx)
{
	return (struct shfs_fuse_statx_out){
		.valid_sec = (uint64_t)shfs_attr_timeout(node, stx),
		.mask = stx->stx_mask,
		.blksize = stx->stx_blksize,
		.nlink = stx->stx_nlink,
		.uid = stx->stx_uid,
		.gid = stx->stx_gid,
		.mode = stx->stx_mode,
		.ino = stx->stx_ino,
		.size = stx->stx_size,
		.blocks = stx->stx_blocks,
		.atime = fuse_time_of(stx->stx_atime),
		.btime = fuse_time_of(stx->stx_btime),
		.ctime = fuse_time_of(stx->stx_ctime),
		.mtime = fuse_time_of(stx->stx_mtime),
		.rdev_major = stx->stx_rdev_major,
		.rdev_minor = stx->stx_rdev_minor,
	};
}

bool shfs_statx_answer(struct shfs_fs *fs, const void *request, size_t size,
                       struct fuse_out_header *out, struct shfs_fuse_statx_out *reply)
{
	const struct fuse_in_header *in = request;
	struct shfs_node *node;
	struct statx stx;

	if (size < sizeof(*in) || in->opcode != SHFS_FUSE_STATX)
		return false;
	*out = (struct fuse_out_header){ .len = sizeof(*out), .unique = in->unique };
	node = shfs_fs_node(fs, in->nodeid);
	out->error = node ? shfs_stat_node(fs, node, &stx) : -ESTALE;
	if (out->error == -ESTALE)
		shfs_tree_told_stale(fs->tree, in->pid);
	if (!out->error) {
		*reply = reply_of(node, &stx);
		out->len += sizeof(*reply);
	}
	return true;
}
