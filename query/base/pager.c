/* SPDX-License-Identifier: MIT */
/* Output through the pager, by a child that was forked before the store was opened. */
#include "query/base/context.h"

#include "common/buf.h"
#include "common/io.h"
#include "common/path.h"
#include "common/quote.h"
#include "query/base/model.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

/* the shell's exit status if it cannot run a program */
#define STATUS_NOT_RUN 126

#define COMMAND_MAX 4096 /* a pipe takes this much at once */

/* A child that becomes the pager once it gets the command: this process may have
 * forbidden itself to run programs by then. */
static struct {
	pid_t pid;
	int control, output;
} prepared;
static pid_t pager; /* the child, once it is the pager */
static const int ends[] = { SIGINT, SIGHUP, SIGTERM, SIGQUIT };

static int wait_for_pager(void)
{
	int status;

	while (waitpid(pager, &status, 0) < 0)
		if (errno != EINTR)
			return -1;
	return status;
}

/* The reader has seen enough: that is no failure, but a pager that never ran is. */
static void on_sigpipe(int sig)
{
	int status = wait_for_pager();

	_exit(WIFEXITED(status) && WEXITSTATUS(status) >= STATUS_NOT_RUN
	              ? SHFS_EXIT_FAILURE
	              : SHFS_EXIT_OK);
}

/* ^C ends this program, not the pager: that shows the output until the user leaves it. */
static void end_with_pager(int sig)
{
	close(STDOUT_FILENO);
	close(STDERR_FILENO);
	wait_for_pager();
	signal(sig, SIG_DFL);
	raise(sig);
}

static void finish_pager(void)
{
	fflush(stdout);
	close(STDOUT_FILENO);
	close(STDERR_FILENO);
	wait_for_pager();
}

static void exec_pager(const char *command, int input)
{
	/* as git does: quit on one screen, raw colours, leave the screen as it is */
	setenv("LESS", "FRX", 0);
	setenv("LV", "-c", 0);
	dup2(input, STDIN_FILENO);
	execl("/bin/sh", "sh", "-c", command, (char *)NULL);
	_exit(STATUS_NOT_RUN);
}

static bool in_path(const char *name)
{
	_cleanup_free_ char *path = strdup(getenv("PATH") ?: "/usr/bin:/bin");
	char *rest = path, *dir;

	if (strchr(name, '/'))
		return !access(name, X_OK);
	while (rest && (dir = strsep(&rest, ":"))) {
		_cleanup_free_ char *file = shfs_path_join(*dir ? dir : ".", name);

		if (file && !access(file, X_OK))
			return true;
	}
	return false;
}

/* Can the first word of the command be run? Shell syntax is left to the shell. */
static bool can_run(const char *command)
{
	_cleanup_free_ char *name = NULL;
	_cleanup_buf_ struct shfs_buf shown = { 0 };

	command += strspn(command, " \t\n");
	if (strpbrk(command, "|&;<>()$`\\\"'*?[#~={"))
		return true;
	name = strndup(command, strcspn(command, " \t\n"));
	if (!name || in_path(name))
		return true;
	if (strcmp(name, "less") != 0) { /* the default need not be installed */
		shfs_quote_display(&shown, name, strlen(name));
		shfs_warn("there is no pager %s", shown.data);
	}
	return false;
}

static void handle_signals(void)
{
	struct sigaction action = { .sa_handler = on_sigpipe };

	sigaction(SIGPIPE, &action, NULL);
	action.sa_handler = end_with_pager;
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
		sigaction(ends[i], &action, NULL);
}

/* The child: runs the command that it gets; without one it ends with its parent. */
static void wait_for_command(int control, int input)
{
	struct sigaction ignored = { .sa_handler = SIG_IGN }, before[ARRAY_SIZE(ends)];
	struct shfs_buf command = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
		sigaction(ends[i], &ignored, &before[i]);
	if (shfs_read_fd(control, COMMAND_MAX, &command) || !command.len)
		_exit(0);
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
		sigaction(ends[i], &before[i], NULL);
	exec_pager(command.data, input);
}

void shfs_pager_prepare(void)
{
	int control[2], output[2];

	if (prepared.pid || !isatty(STDOUT_FILENO) || pipe2(control, O_CLOEXEC))
		return;
	if (pipe2(output, O_CLOEXEC)) {
		close(control[0]);
		close(control[1]);
		return;
	}
	fflush(NULL);
	prepared.pid = fork();
	if (prepared.pid == 0) {
		close(control[1]);
		close(output[1]);
		wait_for_command(control[0], output[0]);
	}
	close(control[0]);
	close(output[0]);
	prepared.control = control[1];
	prepared.output = output[1];
}

void shfs_pager_start(const char *command)
{
	size_t len = strlen(command);
	char columns[24];

	shfs_pager_prepare();
	if (prepared.pid <= 0 || !can_run(command))
		return;
	if (len >= COMMAND_MAX) {
		shfs_warn("the command of the pager is too long");
		return;
	}
	fflush(NULL);
	signal(SIGPIPE, SIG_IGN); /* in case the pager was killed */
	if (shfs_write_all(prepared.control, command, len)) {
		signal(SIGPIPE, SIG_DFL);
		return;
	}
	close(prepared.control);
	pager = prepared.pid;
	/* behind the pipe a program cannot ask the terminal for its width */
	snprintf(columns, sizeof(columns), "%zu", shfs_show_columns());
	setenv("COLUMNS", columns, true);
	dup2(prepared.output, STDOUT_FILENO);
	if (isatty(STDERR_FILENO))
		dup2(prepared.output, STDERR_FILENO);
	close(prepared.output);
	handle_signals();
	atexit(finish_pager);
}
