/* SPDX-License-Identifier: MIT */
#include "fusefs/mount-guardian.h"

#include "common/clock.h"
#include "fusefs/fs.h"
#include "fusefs/takeover/again.h"
#include "fusefs/takeover/heir.h"
#include "fusefs/transport/mountpoint.h"
#include "recording/guardian.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

enum { WATCH = 'w', DETACH = 'd' };

/* The guardian of a mount knows this besides. */
struct mount {
	struct shfs_fs *fs;
	const struct shfs_again *again; /* NULL: it is not to be mounted again */
	dev_t dev;                      /* its device number; 0: it is not mounted */
	char *where;                    /* its last known path; malloc'ed, or NULL */
};

static int wait_for_child(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -1;
	return status;
}

static void detach_dead_mount(struct shfs_guardian *g)
{
	struct mount *m = g->data;

	free(m->where);
	m->where = m->dev ? shfs_mountpoint_of(m->dev) : NULL;
	if (m->where)
		shfs_mountpoint_unmount_lazily(m->where);
}

static int compare_ints(const void *a, const void *b)
{
	const int *one = a, *two = b;

	return (*one > *two) - (*one < *two);
}

/* Closes all fds of the dead server but these. */
static void close_but(int *kept, size_t n)
{
	unsigned next = STDERR_FILENO + 1;

	qsort(kept, n, sizeof(*kept), compare_ints);
	for (size_t i = 0; i < n; i++) {
		if (kept[i] < (int)next)
			continue;
		if (kept[i] > (int)next)
			close_range(next, (unsigned)kept[i] - 1, 0);
		next = (unsigned)kept[i] + 1;
	}
	close_range(next, ~0u, 0);
}

/* Can the guardian take over? Yes if the mount still exists and its device is known. */
static bool can_take_over(struct mount *m)
{
	if (shfs_heir_device(m->fs->heir) < 0 || !m->again || !m->dev)
		return false;
	m->where = shfs_mountpoint_of(m->dev);
	return m->where && shfs_again_count(m->fs->again, shfs_clock_ns(CLOCK_REALTIME));
}

/* Takes over. If it cannot, all fds of the dead server are closed first, so that no
 * process waits for an answer any more. */
static bool succeed_server(struct shfs_guardian *g)
{
	struct mount *m = g->data;
	struct shfs_fs *fs = m->fs;
	const struct shfs_store *store = &g->store;
	int ours[] = { store->dirfd,    store->objects_fd, store->journal_fd,
		       store->state_fd, store->log_fd,     fs->root_fd };
	size_t n = ARRAY_SIZE(ours), n_opens = shfs_heir_n_opens(fs->heir);
	_cleanup_free_ int *kept = calloc(n + 1 + n_opens, sizeof(*kept));

	if (!kept || !can_take_over(m)) {
		close_but(ours, n);
		return false;
	}
	fs->device = shfs_heir_device(fs->heir);
	fs->mounted = m->dev;
	fs->moved_to = TAKE_PTR(m->where);
	memcpy(kept, ours, sizeof(ours));
	kept[n++] = fs->device;
	n += shfs_heir_fds(fs->heir, kept + n, n_opens);
	close_but(kept, n);
	return true;
}

static void handle_order(struct shfs_guardian *g, char what)
{
	struct mount *m = g->data;

	if (what == WATCH && !shfs_mountpoint_is_ours(g->root, &m->dev))
		m->dev = 0;
	if (what == DETACH) {
		detach_dead_mount(g);
		/* a mount that was asked to end is not made again */
		m->again = NULL;
	}
}

static void exec_mount(const struct shfs_again *again, const char *where)
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
	/* our own program, also if a newer one was installed over it */
	execv("/proc/self/exe", (char **)args);
	_exit(127);
}

/* Mounts again over the directory, wherever that is now. False: it failed. */
static bool mount_root_again(const struct mount *m)
{
	struct shfs_again again;
	pid_t pid;

	if (!m->again || !m->again->n_args)
		return false;
	again = *m->again;
	if (!shfs_again_count(&again, shfs_clock_ns(CLOCK_REALTIME)))
		return false;
	pid = fork();
	if (pid == 0)
		exec_mount(&again, m->where);
	/* the child ends when it has mounted, or failed to */
	return pid > 0 && wait_for_child(pid) == 0;
}

static void remount_or_alert(struct shfs_guardian *g)
{
	struct mount *m = g->data;

	/* dev is 0 if it was unmounted while files were still open */
	if (m->dev && !(m->where && mount_root_again(m)))
		shfs_guardian_alert(g);
	free(m->where);
}

int shfs_mountpoint_guard(struct shfs_fs *fs)
{
	struct mount mount = { .fs = fs, .dev = fs->mounted, .again = fs->again };
	const struct shfs_guardian guardian = {
		.root = fs->root,
		.spool = fs->spool,
		.order = handle_order,
		.died = detach_dead_mount,
		.last = remount_or_alert,
		.succeeds = fs->again->n_args ? succeed_server : NULL,
		.data = &mount,
	};

	return shfs_guardian_start(&guardian, fs->store);
}

void shfs_mountpoint_guarded(void)
{
	shfs_guardian_order(WATCH);
}

void shfs_mountpoint_detach(void)
{
	shfs_guardian_order(DETACH);
}
