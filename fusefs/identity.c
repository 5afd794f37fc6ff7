/* SPDX-License-Identifier: MIT */
#include "fusefs/ops.h"

#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define GROUPS_MAX 65536

/* This thread's alone: glibc would set those of all. */
static void set_groups(const gid_t *groups, size_t n)
{
	(void)!syscall(SYS_setgroups, n, groups);
}

static void set_callers_groups(fuse_req_t req)
{
	gid_t few[64], *groups = few;
	int n = fuse_req_getgroups(req, ARRAY_SIZE(few), few);

	if (n > (int)ARRAY_SIZE(few) && n <= GROUPS_MAX) {
		groups = calloc((size_t)n, sizeof(gid_t));
		n = groups ? MIN(n, fuse_req_getgroups(req, n, groups)) : 0;
	}
	set_groups(groups ? groups : few, n > 0 && n <= GROUPS_MAX ? (size_t)n : 0);
	if (groups != few)
		free(groups);
}

void shfs_identity_assume(fuse_req_t req, struct shfs_identity *id)
{
	const struct fuse_ctx *ctx = fuse_req_ctx(req);

	*id = (struct shfs_identity){ 0 };
	umask(ctx->umask);
	if (!shfs_req_fs(req)->privileged || (!ctx->uid && !ctx->gid))
		return;
	id->assumed = true;
	if (ctx->uid)
		set_callers_groups(req);
	setfsgid(ctx->gid);
	setfsuid(ctx->uid); /* last: with it go the capabilities */
}

void shfs_identity_assume_to_write(fuse_req_t req, const struct shfs_node *node,
                                   struct shfs_identity *id)
{
	if (node->set_id && shfs_req_fs(req)->privileged && fuse_req_ctx(req)->uid)
		shfs_identity_assume(req, id);
}

/* Only who has the privilege to keep the bits must take care that they go. */
void shfs_look_for_set_id(struct shfs_fs *fs, struct shfs_node *node, int fd)
{
	struct stat st;

	if (fs->privileged && !fstat(fd, &st) && (st.st_mode & (S_ISUID | S_ISGID)))
		node->set_id = true;
}

void shfs_identity_restore(struct shfs_identity *id)
{
	if (!id->assumed)
		return;
	setfsuid(0);
	setfsgid(0);
	set_groups(NULL, 0);
}
