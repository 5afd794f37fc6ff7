/* SPDX-License-Identifier: MIT */
/*
 * Gives a thread the caller's identity and umask while it makes or writes a file for that
 * user.
 */
#include "fusefs/operations/operations.h"

#include <string.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/* Sets the groups of this thread only; glibc would set those of all threads. */
static void set_groups(const gid_t *groups, size_t n)
{
	(void)!syscall(SYS_setgroups, n, groups);
}

/* Sets the caller's groups. Not by fuse_req_getgroups, which searches beyond the bytes
 * that it has read. */
static void set_callers_groups(fuse_req_t req)
{
	_cleanup_buf_ struct shfs_buf status = { 0 };
	const char *at = shfs_req_status(req, "Groups:", &status);
	_cleanup_free_ gid_t *groups = NULL;
	size_t n = 0;

	if (at) /* each group takes two bytes or more */
		groups = calloc(strcspn(at, "\n") / 2 + 1, sizeof(gid_t));
	while (groups) {
		at += strspn(at, " \t");
		if (*at < '0' || *at > '9')
			break;
		groups[n++] = (gid_t)strtoul(at, (char **)&at, 10);
	}
	set_groups(groups, n);
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
	setfsuid(ctx->uid); /* last, as it drops the capabilities */
}

void shfs_identity_assume_to_write(fuse_req_t req, int fd, struct shfs_identity *id)
{
	const struct fuse_ctx *ctx = fuse_req_ctx(req);
	struct stat st;

	*id = (struct shfs_identity){ 0 };
	if (!shfs_req_fs(req)->privileged || !ctx->uid)
		return;
	id->assumed = true;
	id->groups = !fstat(fd, &st) && shfs_is_set_gid_alone(st.st_mode);
	if (id->groups)
		set_callers_groups(req);
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
