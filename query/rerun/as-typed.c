/* SPDX-License-Identifier: MIT */
#include "query/rerun/as-typed.h"

#include "common/quote.h"
#include "query/base/cmd.h"
#include "query/base/foreground.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOT_FOUND  127 /* as in shells */
#define NOT_TO_RUN 126

static void become_command(const struct shfs_hook_log *log, char *const *argv)
{
	signal(SIGXFSZ, SIG_DFL);
	shfs_hook_log_mark(log);
	execvp(argv[0], argv);
	shfs_error("cannot run %s: %s", argv[0], strerror(errno));
	_exit(errno == ENOENT ? NOT_FOUND : NOT_TO_RUN);
}

int shfs_run_as_typed(struct shfs_hook_log *log, char *const *argv, shfs_child_fn prepare,
                      void *arg)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };
	struct rusage usage = { 0 };
	struct shfs_foreground foreground;
	int status = 0;
	pid_t pid;

	shfs_quote_command(&text, argv);
	if (!text.failed)
		shfs_hook_log_begin(log, text.data);
	fflush(NULL);
	shfs_foreground_enter(&foreground);
	pid = fork();
	if (!pid) {
		if (prepare)
			prepare(arg);
		shfs_foreground_leave(&foreground);
		become_command(log, argv);
	}
	shfs_foreground_wait(&foreground, pid, &status, &usage);
	if (pid < 0) {
		shfs_error("cannot start a process: %s", strerror(errno));
		status = W_EXITCODE(NOT_TO_RUN, 0);
	}
	if (!text.failed)
		shfs_hook_log_finish(log,
		                     WIFSIGNALED(status) ? 128 + WTERMSIG(status)
		                                         : WEXITSTATUS(status),
		                     &usage);
	return status;
}
