/* SPDX-License-Identifier: MIT */
/*
 * Two processes besides the command:
 *
 *   this one      starts the recorder, then the command, whose orphans it gets; waits
 *   shfs-watch    records what descends from this process; ends when it is asked to, or
 *                 once this process and all that descends from it have ended
 */
#include "query/record/by-helper.h"

#include "common/io.h"
#include "common/path.h"
#include "common/proc.h"
#include "common/recorders.h"
#include "query/base/child.h"
#include "query/base/cmd.h"
#include "query/base/foreground.h"
#include "query/base/mounts.h"
#include "query/rerun/as-typed.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define DEPTH_MAX 256

/* Starts the recorder, which goes into the background once events come. */
static int start_recorder(const struct shfs_whole *whole)
{
	_cleanup_free_ char *path = shfs_path_installed("libexec", "shfs-watch");
	const char **argv =
		calloc(whole->n_projects + 2 * whole->n_mounted + 12, sizeof(*argv));
	char self[16];
	size_t n = 0;
	pid_t pid;

	if (!path || !argv) {
		free(argv);
		shfs_error("shfs-watch is missing; install shfs as a whole");
		return SHFS_EXIT_UNAVAILABLE;
	}
	snprintf(self, sizeof(self), "%d", (int)getpid());
	argv[n++] = "shfs-watch";
	argv[n++] = "--store";
	argv[n++] = whole->store;
	if (whole->config) {
		argv[n++] = "--config";
		argv[n++] = whole->config;
	}
	argv[n++] = "--below";
	argv[n++] = self;
	for (size_t i = 0; i < whole->n_mounted; i++) {
		argv[n++] = "--except";
		argv[n++] = whole->mounted[i];
	}
	argv[n++] = "--";
	argv[n++] = "/";
	for (size_t i = 0; i < whole->n_projects; i++)
		argv[n++] = whole->projects[i];
	pid = shfs_child_start(path, argv, SHFS_CHILD_MESSAGES);
	free(argv);
	if (pid >= 0)
		return shfs_child_wait(pid);
	shfs_error("cannot start a process: %s", strerror(errno));
	return SHFS_EXIT_FAILURE;
}

/*
 * In the process that becomes the command. A standard input that is a file is open in
 * this process and its caller, too, so no close of the command's is its last: the
 * command's process opens and closes it once more. What is written is seen as it is
 * written.
 */
static void prepare_command(void *arg)
{
	struct stat st;
	int fd;

	(void)arg;
	if (fstat(STDIN_FILENO, &st) || !S_ISREG(st.st_mode) || !st.st_nlink)
		return;
	fd = open("/proc/self/fd/0", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd >= 0)
		close(fd);
}

/* Asks the recorder, and waits for its answer as long as it lives. -errno. */
static int ask_recorder(const char *word, char *answer, size_t size)
{
	_cleanup_close_ int fd = shfs_recorders_ask_tree(getpid(), word);
	struct pollfd p = { .fd = fd, .events = POLLIN };
	ssize_t n;

	if (fd < 0)
		return fd;
	while (poll(&p, 1, -1) < 0)
		if (errno != EINTR)
			return -errno;
	n = recv(fd, answer, size - 1, 0);
	if (n <= 0)
		return n ? -errno : -ECONNRESET;
	answer[n] = '\0';
	return 0;
}

/* Has the recorder recorded all that has happened, and says so if it has not. */
static void sync_recorder(void)
{
	_cleanup_free_ char *answer = malloc(SHFS_WATCH_ANSWER_MAX);
	int r = answer ? ask_recorder("sync", answer, SHFS_WATCH_ANSWER_MAX) : -ENOMEM;
	const char *lost;

	if (!r && strcmp(answer, "ok") != 0)
		r = -abs(atoi(answer));
	if (r) {
		shfs_warn("the end of the recording was not seen: %s", strerror(-r));
		return;
	}
	r = ask_recorder("status", answer, SHFS_WATCH_ANSWER_MAX);
	lost = r ? NULL : strstr(answer, "\nlost=");
	if (lost && strtoull(lost + 6, NULL, 10))
		shfs_warn("%llu events were lost, for which there was no room: files may "
		          "be missing in the recording",
		          strtoull(lost + 6, NULL, 10));
}

/* Has the command left processes in the background? They are this one's children now. */
static bool has_left_some(void)
{
	pid_t left;

	do
		left = waitpid(-1, NULL, WNOHANG);
	while (left > 0);
	return !left;
}

int shfs_whole_run_by_helper(const struct shfs_whole *whole, int *status)
{
	struct shfs_hook_log log = { .fd = -1, .redactor = whole->redactor };
	char answer[16];
	int r, code;

	code = start_recorder(whole);
	if (code)
		return code;
	r = shfs_hook_log_open(&log, whole->store, "run");
	if (r)
		shfs_warn("the command is not in history: %s", strerror(-r));
	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	*status = shfs_run_as_typed(&log, whole->argv, prepare_command, NULL);
	shfs_mounts_sync(whole->store, true);
	sync_recorder();
	if (!has_left_some())
		(void)!ask_recorder("end", answer, sizeof(answer));
	return 0;
}

bool shfs_whole_is_by_helper(void)
{
	pid_t pid = getpid();

	for (int depth = 0; depth < DEPTH_MAX && pid > 1; depth++) {
		_cleanup_close_ int procfd = shfs_proc_open((uint32_t)pid), fd = -1;
		struct shfs_proc_stat stat;

		if (procfd < 0 || shfs_proc_read_stat(procfd, &stat))
			return false;
		pid = (pid_t)stat.ppid;
		fd = shfs_recorders_ask_tree(pid, "root");
		if (fd >= 0)
			return true;
	}
	return false;
}
