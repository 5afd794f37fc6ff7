/* SPDX-License-Identifier: MIT */
/* `shfs run`: one command of a script, of cron or of a program, recorded as if typed. */
#include "query/base/cmd.h"
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

static volatile pid_t running;

/* Signals that are sent to this process alone are meant for the command. */
static void pass_signal(int sig)
{
	int error = errno;

	if (running > 0)
		kill(running, sig);
	errno = error;
}

/* The terminal sends its signals to the command, too, which decides what they do. */
static const struct {
	int signal;
	void (*handler)(int);
} kept[] = {
	{ SIGINT, SIG_IGN },
	{ SIGQUIT, SIG_IGN },
	{ SIGTERM, pass_signal },
	{ SIGHUP, pass_signal },
};

/* Keeps the signals, which are blocked until they are kept, and the command runs. What
 * was ignored (nohup) stays so. */
static void keep_signals(struct sigaction before[static ARRAY_SIZE(kept)], sigset_t *mask)
{
	sigset_t ours;

	sigemptyset(&ours);
	for (size_t i = 0; i < ARRAY_SIZE(kept); i++)
		sigaddset(&ours, kept[i].signal);
	sigprocmask(SIG_BLOCK, &ours, mask);
	for (size_t i = 0; i < ARRAY_SIZE(kept); i++) {
		struct sigaction keep = { .sa_handler = kept[i].handler,
			                  .sa_flags = SA_RESTART };

		sigaction(kept[i].signal, NULL, &before[i]);
		if (before[i].sa_handler != SIG_IGN)
			sigaction(kept[i].signal, &keep, NULL);
	}
}

static char *command_text(char **argv)
{
	struct shfs_buf text = { 0 };

	for (char **word = argv; *word; word++) {
		if (word > argv)
			shfs_buf_char(&text, ' ');
		shfs_quote_shell(&text, *word, strlen(*word));
	}
	if (!text.failed)
		return text.data;
	shfs_buf_free(&text);
	return NULL;
}

static void become_command(const struct shfs_hook_log *log, char **argv,
                           const struct sigaction before[static ARRAY_SIZE(kept)],
                           const sigset_t *mask)
{
	for (size_t i = 0; i < ARRAY_SIZE(kept); i++)
		sigaction(kept[i].signal, &before[i], NULL);
	sigprocmask(SIG_SETMASK, mask, NULL);
	signal(SIGXFSZ, SIG_DFL);
	shfs_hook_log_mark(log);
	execvp(argv[0], argv);
	shfs_error("cannot run %s: %s", argv[0], strerror(errno));
	_exit(errno == ENOENT ? NOT_FOUND : NOT_TO_RUN);
}

/* Ends as the command did. */
static int end_as(int status)
{
	if (!WIFSIGNALED(status))
		return WEXITSTATUS(status);
	signal(WTERMSIG(status), SIG_DFL);
	if (WTERMSIG(status) != SIGKILL && !WCOREDUMP(status))
		raise(WTERMSIG(status));
	return 128 + WTERMSIG(status);
}

static int run_command(struct shfs_hook_log *log, char **argv)
{
	_cleanup_free_ char *text = command_text(argv);
	struct rusage usage = { 0 };
	struct sigaction before[ARRAY_SIZE(kept)];
	sigset_t mask;
	int status = 0;
	pid_t pid;

	if (text)
		shfs_hook_log_begin(log, text);
	fflush(NULL);
	keep_signals(before, &mask);
	pid = fork();
	if (!pid)
		become_command(log, argv, before, &mask);
	running = pid;
	sigprocmask(SIG_SETMASK, &mask, NULL);
	while (pid > 0 && wait4(pid, &status, 0, &usage) < 0 && errno == EINTR)
		;
	running = 0;
	if (pid < 0) {
		shfs_error("cannot start a process: %s", strerror(errno));
		status = W_EXITCODE(NOT_TO_RUN, 0);
	}
	if (text)
		shfs_hook_log_finish(log,
		                     WIFSIGNALED(status) ? 128 + WTERMSIG(status)
		                                         : WEXITSTATUS(status),
		                     &usage);
	return end_as(status);
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
