/* SPDX-License-Identifier: MIT */
#include "store/guardian.h"
#include "common/clock.h"
#include "fusefs/again.h"
#include "fusefs/mountpoint.h"

#include <errno.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>

enum { WATCH = 'w', DETACH = 'd' };

static int wait_for(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -1;
	return status;
}

static void unmount(const char *where)
{
	pid_t pid;

	if (!umount2(where, MNT_DETACH | UMOUNT_NOFOLLOW))
		return;
	pid = fork();
	if (pid == 0) {
		execlp("fusermount3", "fusermount3", "-u", "-z", "-q", "--", where,
		       (char *)NULL);
		_exit(127);
	}
	if (pid > 0)
		wait_for(pid);
}

static void detach(struct shfs_guardian *g)
{
	free(g->where);
	g->where = g->dev ? shfs_mountpoint_of(g->dev) : NULL;
	if (g->where)
		unmount(g->where);
}

static void order(struct shfs_guardian *g, char what)
{
	if (what == WATCH && !shfs_mountpoint_is_ours(g->root, &g->dev))
		g->dev = 0;
	if (what == DETACH) {
		detach(g);
		/* what was asked to end is not to come again */
		g->again = NULL;
	}
}

static void become(const struct shfs_again *again, const char *where)
{
	const char *args[SHFS_AGAIN_ARGS + 5];
	char counts[SHFS_AGAIN_TEXT_MAX];
	unsigned n = 0;

	for (; n < again->n_args; n++)
		args[n] = again->args[n];
	shfs_again_write(again, counts);
	args[n++] = "--again";
	args[n++] = counts;
	args[n++] = "--";
	args[n++] = where;
	args[n] = NULL;
	signal(SIGHUP, SIG_DFL);
	/* also where a newer one has taken its place by now */
	execv("/proc/self/exe", (char **)args);
	_exit(127);
}

/* Over the directory wherever that is now. False: it could not. */
static bool mount_again(const struct shfs_guardian *g)
{
	struct shfs_again again;
	pid_t pid;

	if (!g->again || !g->again->n_args)
		return false;
	again = *g->again;
	if (!shfs_again_count(&again, shfs_clock_ns(CLOCK_REALTIME)))
		return false;
	pid = fork();
	if (pid == 0)
		become(&again, g->where);
	/* it ends when the mount is there, or cannot be */
	return pid > 0 && wait_for(pid) == 0;
}

static void last(struct shfs_guardian *g)
{
	/* it is not there where somebody has taken it away, and files were still open */
	if (g->dev && !(g->where && mount_again(g)))
		shfs_guardian_alert(g);
	free(g->where);
}

int shfs_mountpoint_guard(const char *path, const struct shfs_store *store,
                          struct shfs_spool *spool, const struct shfs_again *again)
{
	const struct shfs_guardian guardian = {
		.root = path,
		.spool = spool,
		.order = order,
		.died = detach,
		.last = last,
		.again = again,
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
