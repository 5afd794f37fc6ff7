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
	id->groups = ctx->uid != 0;
	if (id->groups)
		set_callers_groups(req);
	setfsgid(ctx->gid);
	setfsuid(ctx->uid); /* last: with it go the capabilities */
}

void shfs_identity_assume_to_write(fuse_req_t req, struct shfs_identity *id)
{
	const struct fuse_ctx *ctx = fuse_req_ctx(req);

	*id = (struct shfs_identity){ 0 };
	if (!shfs_req_fs(req)->privileged || !ctx->uid)
		return;
	id->assumed = true;
	setfsgid(ctx->gid);
	setfsuid(ctx->uid);
}

void shfs_identity_restore(struct shfs_identity *id)
{
	if (!id->assumed)
		return;
	setfsuid(0);
	setfsgid(0);
	if (id->groups)
		set_groups(NULL, 0);
	id->assumed = false;
}
