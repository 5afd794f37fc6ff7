/* SPDX-License-Identifier: MIT */
#include "recording/guardian.h"

#include "common/debug.h"
#include "common/quote.h"
#include "store/capture/alert.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define FD_KEPT (STDERR_FILENO + 1)
#define DISMISS '\0' /* without it, end of file means that the process died */

static int orders = -1; /* the guarded process's end of the socket */

void shfs_guardian_alert(const struct shfs_guardian *g)
{
	_cleanup_buf_ struct shfs_buf text = { 0 }, path = { 0 };

	shfs_quote_display(&path, g->root, strlen(g->root));
	shfs_buf_printf(&text,
	                "shfs: the recording of %s ended unexpectedly; start it again: "
	                "shfs mount %s\n",
	                path.data, path.data);
	if (!text.failed && !path.failed)
		shfs_alert_raise(&g->store, g->root, text.data, NULL);
}

/* Closes all but what the guardian needs: no terminal, and nothing that keeps a file
 * system busy. */
static void close_unneeded_fds(struct shfs_guardian *g)
{
	int *kept[] = { &g->orders, &g->guarded, &g->store.state_fd,
		        &g->store.journal_fd };
	int null = open("/dev/null", O_RDWR), n = ARRAY_SIZE(kept);

	for (int fd = 0; fd <= STDERR_FILENO && null >= 0; fd++)
		dup2(null, fd);
	/* first to free numbers above, then to the lowest numbers */
	for (int i = 0; i < n; i++)
		*kept[i] = fcntl(*kept[i], F_DUPFD, FD_KEPT + n);
	for (int i = 0; i < n; i++)
		*kept[i] = dup3(*kept[i], FD_KEPT + i, O_CLOEXEC);
	close_range(FD_KEPT + (unsigned)n, ~0u, 0);
}

/* Forks as fork(2), but with a shared table of fds: an fd that one process opens is open
 * in the other, too, and stays open when the first dies. */
static pid_t fork_with_fds(void)
{
	struct clone_args args = {
		.flags = CLONE_FILES | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID,
		.exit_signal = SIGCHLD,
	};
	int *tid; /* where libc keeps this thread's id */

	if (prctl(PR_GET_TID_ADDRESS, &tid))
		return -1;
	args.child_tid = (uintptr_t)tid;
	return (pid_t)syscall(SYS_clone3, &args, sizeof(args));
}

static void obey(struct shfs_guardian *g)
{
	char order;
	ssize_t n;

	shfs_assert(g->orders >= 0);
	n = read(g->orders, &order, 1);

	if (n < 0 && errno == EINTR)
		return;
	if (n <= 0)
		g->orders = -1;
	else if (order == DISMISS)
		_exit(0);
	else if (g->order)
		g->order(g, order);
}

/* Waits until all threads of the guarded process have ended. */
static void await_death(struct shfs_guardian *g)
{
	struct pollfd fds[2] = {
		{ .fd = g->orders, .events = POLLIN },
		{ .fd = g->guarded, .events = POLLIN },
	};

	while (fds[0].revents || !fds[1].revents) {
		if (poll(fds, 2, -1) < 0)
			fds[0].revents = fds[1].revents = 0;
		if (fds[0].revents)
			obey(g);
		fds[0].fd = g->orders;
	}
}

/* Guards the process. Returns only if the guardian is to take its place. */
static void guard(struct shfs_guardian *g)
{
	await_death(g);
	shfs_debug(RECORDING, "the process that recorded %s has died", g->root);
	if (g->succeeds && g->succeeds(g)) {
		(void)!shfs_spool_rescue(g->spool, &g->store, g->root);
		return;
	}
	g->died(g);
	/* if this fails, the missing END record shows the gap */
	(void)!shfs_spool_rescue(g->spool, &g->store, g->root);
	if (g->last)
		g->last(g);
	_exit(0);
}

int shfs_guardian_start(const struct shfs_guardian *guardian,
                        const struct shfs_store *store)
{
	struct shfs_guardian g = *guardian;
	int fds[2], error;
	pid_t pid = -1;

	shfs_assert(guardian->spool && guardian->died);
	shfs_assert(orders < 0); /* one guardian in a process */
	if (pipe2(fds, O_CLOEXEC))
		return -errno;
	g.guarded = pidfd_open(getpid(), 0);
	if (g.guarded >= 0 && g.succeeds)
		pid = fork_with_fds();
	if (g.guarded >= 0 && pid < 0) {
		g.succeeds = NULL;
		pid = fork();
	}
	if (pid < 0) {
		error = errno;
		close(fds[0]);
		close(fds[1]);
		shfs_closep(&g.guarded);
		return -error;
	}
	if (pid == 0) {
		setsid(); /* ^C at a mount in the foreground must not reach the guardian
		           */
		signal(SIGHUP, SIG_IGN);
		g.orders = fds[0];
		g.store = *store;
		if (!g.succeeds) {
			close(fds[1]);
			close_unneeded_fds(&g);
		}
		prctl(PR_SET_NAME, "shfs-guardian");
		prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
		guard(&g);
		prctl(PR_SET_NAME, program_invocation_short_name);
		signal(SIGHUP, SIG_DFL);
		return 1;
	}
	if (!g.succeeds) {
		close(fds[0]);
		close(g.guarded);
	}
	orders = fds[1];
	return 0;
}

void shfs_guardian_order(char order)
{
	if (orders >= 0)
		(void)!write(orders, &order, 1);
}

void shfs_guardian_dismiss(void)
{
	shfs_guardian_order(DISMISS);
	shfs_closep(&orders);
	orders = -1;
	while (waitpid(-1, NULL, 0) < 0 && errno == EINTR)
		;
}
