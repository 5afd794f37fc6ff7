/* SPDX-License-Identifier: MIT */
/* `shfs run`: one command of a script, of cron or of a program, recorded as if typed. */
#include "query/base/cmd.h"
#include "query/base/foreground.h"
#include "query/rerun/hook-log.h"

#include "common/quote.h"
#include "common/redact.h"
#include "common/secrets.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#define NOT_FOUND  127 /* as in shells */
#define NOT_TO_RUN 126

static void become_command(const struct shfs_hook_log *log, char **argv,
                           const struct shfs_foreground *foreground)
{
	shfs_foreground_leave(foreground);
	signal(SIGXFSZ, SIG_DFL);
	shfs_hook_log_mark(log);
	execvp(argv[0], argv);
	shfs_error("cannot run %s: %s", argv[0], strerror(errno));
	_exit(errno == ENOENT ? NOT_FOUND : NOT_TO_RUN);
}

static int run_command(struct shfs_hook_log *log, char **argv)
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
	if (!pid)
		become_command(log, argv, &foreground);
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
	return shfs_foreground_end(status);
}

/* A command runs also where it cannot be recorded. */
static int run_run(struct shfs_context *ctx, int argc, char **argv)
{
	struct shfs_hook_log log = { .fd = -1 };
	const struct shfs_config *config;
	int code, r;

	config = shfs_context_config(ctx, &code);
	if (!config || shfs_secrets_redactor(config, &log.redactor) ||
	    !shfs_context_store(ctx, true, &code)) {
		shfs_warn("the command is run, and not recorded");
	} else {
		r = shfs_hook_log_open(&log, shfs_context_store_path(ctx), "run");
		if (r)
			shfs_warn("the command is run, and not recorded: %s",
			          strerror(-r));
	}
	code = run_command(&log, argv);
	shfs_redactor_free(log.redactor);
	return code;
}

const struct shfs_command shfs_cmd_run = {
	.name = "run",
	.args = "[--] COMMAND [ARG…]",
	.summary = "Run a command and record it, where no shell with the hook does",
	.description =
		"For scripts, cron and CI. What it reads and writes below a mount is "
		"tied "
		"to it\nin history, as if it had been typed. Ends as the command does.",
	.operands = { 1, -1 },
	.rest = true,
	.run = run_run,
};
