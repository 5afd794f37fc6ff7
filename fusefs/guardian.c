/* SPDX-License-Identifier: MIT */
#include "store/guardian.h"
#include "fusefs/mountpoint.h"

#include <sys/mount.h>
#include <sys/wait.h>

enum { WATCH = 'w', DETACH = 'd' };

static void unmount(const struct shfs_guardian *g)
{
	_cleanup_free_ char *where = g->dev ? shfs_mountpoint_of(g->dev) : NULL;
	pid_t pid;

	if (!where || !umount2(where, MNT_DETACH | UMOUNT_NOFOLLOW))
		return;
	pid = fork();
	if (pid == 0) {
		execlp("fusermount3", "fusermount3", "-u", "-z", "-q", "--", where,
		       (char *)NULL);
		_exit(127);
	}
	if (pid > 0)
		waitpid(pid, NULL, 0);
}

static void order(struct shfs_guardian *g, char what)
{
	if (what == WATCH && !shfs_mountpoint_is_ours(g->root, &g->dev))
		g->dev = 0;
	if (what == DETACH)
		unmount(g);
}

static void died(struct shfs_guardian *g)
{
	if (g->dev)
		shfs_guardian_alert(g);
	unmount(g);
}

int shfs_mountpoint_guard(const char *path, const struct shfs_store *store,
                          struct shfs_spool *spool)
{
	const struct shfs_guardian guardian = {
		.root = path, .spool = spool, .order = order, .died = died
	};

	return shfs_guardian_start(&guardian, store);
}

void shfs_mountpoint_guarded(void)
{
	shfs_guardian_order(WATCH);
}

void shfs_mountpoint_detach(void)
{
	shfs_guardian_order(DETACH);
}
