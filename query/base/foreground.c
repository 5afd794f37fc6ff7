/* SPDX-License-Identifier: MIT */
/* A process that runs a command in its own place. */
#include "query/base/foreground.h"

#include "common/exit.h"
#include "common/util.h"
#include "query/base/cmd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile pid_t running;

static void pass_signal(int sig)
{
	int error = errno;

	if (running > 0)
		kill(running, sig);
	errno = error;
}

static const struct {
	int signal;
	void (*handler)(int);
} kept[SHFS_FOREGROUND_SIGNALS] = {
	{ SIGINT, SIG_IGN },     { SIGQUIT, SIG_IGN }, { SIGTERM, pass_signal },
	{ SIGHUP, pass_signal }, { SIGCHLD, SIG_DFL },
};

void shfs_foreground_enter(struct shfs_foreground *foreground)
{
	struct sigaction *before = foreground->before;
	sigset_t ours;

	sigemptyset(&ours);
	for (size_t i = 0; i < ARRAY_SIZE(kept); i++)
		sigaddset(&ours, kept[i].signal);
	sigprocmask(SIG_BLOCK, &ours, &foreground->mask);
	for (size_t i = 0; i < ARRAY_SIZE(kept); i++) {
		struct sigaction keep = { .sa_handler = kept[i].handler,
			                  .sa_flags = SA_RESTART };

		sigaction(kept[i].signal, NULL, &before[i]);
		if (before[i].sa_handler != SIG_IGN || kept[i].signal == SIGCHLD)
			sigaction(kept[i].signal, &keep, NULL);
	}
}

void shfs_foreground_hold(const struct shfs_foreground *foreground)
{
	for (size_t i = 0; i < ARRAY_SIZE(kept); i++)
		if (kept[i].signal != SIGCHLD)
			sigaction(kept[i].signal, &foreground->before[i], NULL);
}

void shfs_foreground_leave(const struct shfs_foreground *foreground)
{
	for (size_t i = 0; i < ARRAY_SIZE(kept); i++)
		sigaction(kept[i].signal, &foreground->before[i], NULL);
	sigprocmask(SIG_SETMASK, &foreground->mask, NULL);
}

void shfs_foreground_wait(const struct shfs_foreground *foreground, pid_t pid,
                          int *status, struct rusage *usage)
{
	struct rusage one_usage;
	int one_status;
	pid_t one = -1;

	running = pid;
	sigprocmask(SIG_SETMASK, &foreground->mask, NULL);
	/* a subreaper gets children that it has not started: those must not stay zombies
	 */
	while (pid > 0 && one != pid) {
		one = wait4(-1, &one_status, 0, &one_usage);
		if (one < 0 && errno != EINTR)
			break;
	}
	running = 0;
	if (one != pid || pid < 0)
		return;
	*status = one_status;
	if (usage)
		*usage = one_usage;
}

int shfs_foreground_keep(void (*keeper)(const void *arg,
                                        const struct shfs_foreground *caller, int began),
                         const void *arg, int *status)
{
	struct shfs_foreground foreground;
	int began[2];
	ssize_t n;
	char byte;
	pid_t pid;

	if (pipe2(began, O_CLOEXEC)) {
		shfs_error("cannot make a pipe: %s", strerror(errno));
		return SHFS_EXIT_FAILURE;
	}
	fflush(NULL);
	shfs_foreground_enter(&foreground);
	pid = fork();
	if (!pid) {
		close(began[0]);
		keeper(arg, &foreground, began[1]);
	}
	close(began[1]);
	if (pid > 0)
		shfs_foreground_wait(&foreground, pid, status, NULL);
	while ((n = read(began[0], &byte, 1)) < 0 && errno == EINTR)
		;
	close(began[0]);
	if (pid < 0)
		shfs_error("cannot start a process: %s", strerror(errno));
	return pid < 0                          ? SHFS_EXIT_FAILURE
	       : n == 1 || WIFSIGNALED(*status) ? 0
	                                        : WEXITSTATUS(*status);
}

int shfs_foreground_end(int status)
{
	if (!WIFSIGNALED(status))
		return WEXITSTATUS(status);
	signal(WTERMSIG(status), SIG_DFL);
	if (WTERMSIG(status) != SIGKILL && !WCOREDUMP(status))
		raise(WTERMSIG(status));
	return 128 + WTERMSIG(status);
}
