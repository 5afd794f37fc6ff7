/* SPDX-License-Identifier: MIT */
/*
 * Answers FUSE_STATX, by which the kernel (since 6.6) learns a file's time of birth, and
 * which libfuse 3.14 does not know.
 */
#include "fusefs/operations/invented.h"
#include "fusefs/operations/operations.h"
#include "fusefs/transport/protocol.h"

#include <errno.h>

static struct shfs_fuse_time fuse_time_of(struct statx_timestamp t)
{
	return (struct shfs_fuse_time){ .sec = t.tv_sec, .nsec = t.tv_nsec };
}

static struct shfs_fuse_statx_out reply_of(double timeout, const struct statx *stx)
{
	return (struct shfs_fuse_statx_out){
		.valid_sec = (uint64_t)timeout,
		.mask = stx->stx_mask,
		.blksize = stx->stx_blksize,
		.nlink = stx->stx_nlink,
		.uid = shfs_shown_uid(stx),
		.gid = shfs_shown_gid(stx),
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

/* Stats a file by its id, and finds for how long the kernel may keep that. */
static int stat_id(struct shfs_fs *fs, uint64_t id, struct statx *stx, double *timeout)
{
	struct shfs_node *node;
	int r;

	*timeout = SHFS_TIMEOUT_LONG;
	if (shfs_invented_is_id(id))
		return shfs_invented_stat(fs, id, stx);
	node = shfs_fs_node(fs, id);
	r = node ? shfs_stat_node(fs, node, stx) : -ESTALE;
	if (!r)
		*timeout = shfs_attr_timeout(node, stx);
	return r;
}

bool shfs_statx_answer(struct shfs_fs *fs, const void *request, size_t size,
                       struct fuse_out_header *out, struct shfs_fuse_statx_out *reply)
{
	const struct fuse_in_header *in = request;
	struct statx stx;
	double timeout;

	if (size < sizeof(*in) || in->opcode != SHFS_FUSE_STATX)
		return false;
	*out = (struct fuse_out_header){ .len = sizeof(*out), .unique = in->unique };
	out->error = stat_id(fs, in->nodeid, &stx, &timeout);
	if (out->error == -ESTALE)
		shfs_tree_told_stale(fs->tree, in->pid);
	if (!out->error) {
		*reply = reply_of(timeout, &stx);
		out->len += sizeof(*reply);
	}
	return true;
}
