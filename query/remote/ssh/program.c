/* SPDX-License-Identifier: MIT */
#include "query/remote/ssh/program.h"

#include "common/debug.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <wordexp.h>

#define WORDS_MAX   64 /* of SHFS_SSH_COMMAND */
#define ARGS_MAX    (WORDS_MAX + 16)
#define PATIENCE_MS 2000 /* for an end, before each signal */
#define LOST        255  /* the exit status of ssh when ssh itself failed */

/* --- its arguments --- */

struct arguments {
	const char *list[ARGS_MAX];
	size_t n;
	char port[16];
};

static void add(struct arguments *a, const char *word)
{
	shfs_assert(a->n + 1 < ARGS_MAX);
	a->list[a->n++] = word;
	a->list[a->n] = NULL;
}

static bool asks_nothing;

void ssh_ask_nothing(bool nothing)
{
	asks_nothing = nothing;
}

static bool has_terminal(void)
{
	_cleanup_close_ int fd = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);

	return fd >= 0;
}

/* Takes apart what is run in place of ssh. No shell is run for it, which could die alone.
 */
static int find_program(wordexp_t *out)
{
	const char *text = getenv("SHFS_SSH_COMMAND");
	int r = wordexp(text && *text ? text : "ssh", out, WRDE_NOCMD);

	if (r)
		return r == WRDE_NOSPACE ? -ENOMEM : -EINVAL;
	if (out->we_wordc && out->we_wordc <= WORDS_MAX)
		return 0;
	wordfree(out);
	return -EINVAL;
}

static void make_arguments(struct arguments *a, const wordexp_t *program,
                           const struct ssh_url *url, const char *command, bool subsystem)
{
	a->n = 0;
	for (size_t i = 0; i < program->we_wordc; i++)
		add(a, program->we_wordv[i]);
	/* nothing of what the user's configuration has for shells; as sftp(1) */
	add(a, "-xaT");
	add(a, "-oClearAllForwardings=yes");
	add(a, "-oPermitLocalCommand=no");
	add(a, "-oRemoteCommand=none");
	if (asks_nothing || !has_terminal())
		add(a, "-oBatchMode=yes");
	if (url->port) {
		snprintf(a->port, sizeof(a->port), "-p%u", url->port);
		add(a, a->port);
	}
	if (subsystem)
		add(a, "-s");
	add(a, "--");
	add(a, url->host);
	add(a, command);
}

/* --- start and end --- */

/* In the child. It must not outlive this process, which may be killed. */
_Noreturn static void run(const struct arguments *a, int fd, pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent || dup2(fd, STDIN_FILENO) < 0 ||
	    dup2(fd, STDOUT_FILENO) < 0)
		_exit(LOST);
	execvp(a->list[0], (char *const *)a->list);
	dprintf(STDERR_FILENO, "%s: %s\n", a->list[0], strerrordesc_np(errno));
	_exit(127); /* as a shell says it */
}

int ssh_program_start(const struct ssh_url *url, const char *command, bool subsystem,
                      struct ssh_program *out)
{
	pid_t parent = getpid(), pid;
	_cleanup_(wordfree) wordexp_t program = { 0 };
	struct arguments a;
	int fds[2], error = find_program(&program);

	if (error)
		return error;
	make_arguments(&a, &program, url, command, subsystem);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds))
		return -errno;
	fflush(NULL);
	pid = fork();
	error = errno;
	if (!pid)
		run(&a, fds[1], parent);
	close(fds[1]);
	if (pid < 0) {
		close(fds[0]);
		return -error;
	}
	*out = (struct ssh_program){ .pid = pid, .fd = fds[0] };
	shfs_debug(QUERY, "ssh %s has pid %d", url->host, (int)pid);
	return 0;
}

/* Did it end within so many milliseconds? */
static bool wait_for(pid_t pid, int ms, int *status)
{
	const struct timespec step = { 0, 5000000 };
	pid_t r;

	for (;; ms -= 5) {
		r = waitpid(pid, status, WNOHANG);
		if (r == pid)
			return true;
		if ((r < 0 && errno != EINTR) || ms <= 0)
			return false;
		nanosleep(&step, NULL);
	}
}

int ssh_program_end(struct ssh_program *program)
{
	static const int signals[] = { 0, SIGTERM, SIGKILL };
	int status = LOST << 8;
	bool ended = false;

	if (program->pid <= 0)
		return 0;
	close(program->fd);
	for (size_t i = 0; i < ARRAY_SIZE(signals) && !ended; i++) {
		if (signals[i])
			kill(program->pid, signals[i]);
		ended = wait_for(program->pid, PATIENCE_MS, &status);
	}
	*program = (struct ssh_program){ .fd = -1 };
	return WIFEXITED(status) ? WEXITSTATUS(status) : LOST;
}
