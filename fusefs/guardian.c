/* SPDX-License-Identifier: MIT */
#include "fusefs/mountpoint.h"

#include "common/quote.h"
#include "store/alert.h"
#include "store/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define FD_KEPT (STDERR_FILENO + 1)

/* Orders, one byte each; the end of the file means that the daemon died. */
enum { WATCH = 'w', DETACH = 'd', DISMISS = 'x' };

static int orders = -1; /* the daemon's end */

struct guardian {
	const char *path;
	struct shfs_store
		store; /* a copy; of its fds only those that let_go keeps are good */
	struct shfs_spool *spool;
	int orders;
	dev_t dev; /* of the mount; 0 until it is known */
};

static void unmount(const struct guardian *g)
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

/* What the next prompt shows: the recording has stopped. */
static void alert(const struct guardian *g)
{
	_cleanup_buf_ struct shfs_buf text = { 0 }, path = { 0 };

	shfs_quote_display(&path, g->path, strlen(g->path));
	shfs_buf_printf(&text,
	                "shfs: the recording of %s ended unexpectedly; start it again: "
	                "shfs mount %s\n",
	                path.data, path.data);
	if (!text.failed && !path.failed)
		shfs_alert_raise(&g->store, g->path, text.data, NULL);
}

/* Only what it needs: no terminal, and nothing that keeps a file system busy. */
static void let_go(struct guardian *g)
{
	int *kept[] = { &g->orders, &g->store.state_fd, &g->store.journal_fd };
	int null = open("/dev/null", O_RDWR), n = ARRAY_SIZE(kept);

	for (int fd = 0; fd <= STDERR_FILENO && null >= 0; fd++)
		dup2(null, fd);
	/* to the lowest places, by way of some that are free */
	for (int i = 0; i < n; i++)
		*kept[i] = fcntl(*kept[i], F_DUPFD, FD_KEPT + n);
	for (int i = 0; i < n; i++)
		*kept[i] = dup3(*kept[i], FD_KEPT + i, O_CLOEXEC);
	close_range(FD_KEPT + (unsigned)n, ~0u, 0);
}

static void guard(struct guardian *g)
{
	char order;

	for (;;) {
		ssize_t n = read(g->orders, &order, 1);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		if (order == WATCH && !shfs_mountpoint_is_ours(g->path, &g->dev))
			g->dev = 0;
		if (order == DETACH)
			unmount(g);
		if (order == DISMISS)
			_exit(0);
	}
	if (g->dev)
		alert(g);
	unmount(g);
	/* where that fails, it is told that the recording ended without an end */
	(void)!shfs_spool_rescue(g->spool, &g->store, g->path);
	_exit(0);
}

int shfs_guardian_start(const char *path, const struct shfs_store *store,
                        struct shfs_spool *spool)
{
	struct guardian g = { .path = path, .store = *store, .spool = spool };
	int fds[2];
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC))
		return -errno;
	pid = fork();
	if (pid < 0) {
		int error = errno;

		close(fds[0]);
		close(fds[1]);
		return -error;
	}
	if (pid == 0) {
		setsid(); /* ^C at a mount in the foreground is not for it */
		signal(SIGHUP, SIG_IGN);
		close(fds[1]);
		g.orders = fds[0];
		let_go(&g);
		prctl(PR_SET_NAME, "shfs-guardian");
		guard(&g);
	}
	close(fds[0]);
	orders = fds[1];
	return 0;
}

static void order(char what)
{
	if (orders >= 0)
		(void)!write(orders, &what, 1);
}

void shfs_guardian_watch(void)
{
	order(WATCH);
}

void shfs_guardian_detach(void)
{
	order(DETACH);
}

void shfs_guardian_dismiss(void)
{
	order(DISMISS);
	shfs_closep(&orders);
	orders = -1;
	while (waitpid(-1, NULL, 0) < 0 && errno == EINTR)
		;
}
