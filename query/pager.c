/* SPDX-License-Identifier: MIT */
#include "query/context.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

static pid_t pager;

static void wait_for_pager(void)
{
	while (waitpid(pager, NULL, 0) < 0 && errno == EINTR)
		;
}

/* The reader has seen enough: no failure of ours. */
static void on_sigpipe(int sig)
{
	wait_for_pager();
	_exit(SHFS_EXIT_OK);
}

static void finish(void)
{
	fflush(stdout);
	close(STDOUT_FILENO);
	wait_for_pager();
}

static void run(const char *command, int input)
{
	/* as git has it: quit on one screen, raw colours, leave the screen as it is */
	setenv("LESS", "FRX", 0);
	setenv("LV", "-c", 0);
	dup2(input, STDIN_FILENO);
	execl("/bin/sh", "sh", "-c", command, (char *)NULL);
	_exit(127);
}

void shfs_pager_start(const char *command)
{
	struct sigaction action = { .sa_handler = on_sigpipe };
	int fds[2];

	if (pipe2(fds, O_CLOEXEC))
		return;
	fflush(NULL);
	pager = fork();
	if (pager == 0)
		run(command, fds[0]);
	if (pager > 0) {
		dup2(fds[1], STDOUT_FILENO);
		sigaction(SIGPIPE, &action, NULL);
		/* ^C is for the pager */
		signal(SIGINT, SIG_IGN);
		signal(SIGQUIT, SIG_IGN);
		atexit(finish);
	}
	close(fds[0]);
	close(fds[1]);
}
