/* SPDX-License-Identifier: MIT */
#include "recording/daemon.h"

#include "common/debug.h"
#include "common/io.h"
#include "common/path.h"
#include "common/quote.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>

#define MMAP_BYTES     (32 << 20)
#define HEAP_END_BYTES (16 << 20) /* free bytes that are kept until all is quiet */

int shfs_daemon_choose_debug(void)
{
	if (!shfs_debug_choose(NULL))
		return 0;
	return shfs_daemon_fail(SHFS_EXIT_USAGE, "SHFS_DEBUG is a list of: %s",
	                        shfs_debug_areas());
}

int shfs_daemon_show_usage(const char *usage, bool asked)
{
	fputs(usage, asked ? stdout : stderr);
	return asked ? -1 : SHFS_EXIT_USAGE;
}

int shfs_daemon_fail(int code, const char *fmt, ...)
{
	va_list ap;

	fputs("shfs: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	return code;
}

int shfs_daemon_fail_path(int code, const char *path, const char *what)
{
	_cleanup_buf_ struct shfs_buf shown = { 0 };

	shfs_quote_display(&shown, path, strlen(path));
	return shfs_daemon_fail(code, "%s: %s", shown.data ? shown.data : "", what);
}

int shfs_daemon_open_root(const char *dir, int mode, const char *done, char **root,
                          int *fd)
{
	*root = realpath(dir, NULL);
	*fd = *root ? open(*root, mode | O_DIRECTORY | O_CLOEXEC) : -1;
	if (*fd < 0)
		return shfs_daemon_fail_path(SHFS_EXIT_USAGE, dir,
		                             errno == ENOENT
		                                     ? "there is no such directory"
		                             : errno == ENOTDIR ? "not a directory"
		                                                : strerror(errno));
	if (done && !strcmp(*root, "/"))
		return shfs_daemon_fail(
			SHFS_EXIT_REFUSED,
			"the root directory cannot be %s: choose a project", done);
	return 0;
}

void shfs_daemon_hide(void)
{
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

void shfs_daemon_bound_heap(void)
{
	/* A heap keeps the most memory that it ever had. With one heap for each thread
	 * that reads contents, they would take many times what the threads need together.
	 */
	mallopt(M_ARENA_MAX, 1);
	/* otherwise glibc raises the thresholds by the largest block that was freed */
	mallopt(M_MMAP_THRESHOLD, MMAP_BYTES);     /* a smaller one is slower */
	mallopt(M_TRIM_THRESHOLD, HEAP_END_BYTES); /* a smaller one is slower */
}

int shfs_daemon_open_store(const char *override, const char *root,
                           struct shfs_store **out)
{
	_cleanup_free_ char *path = shfs_path_store(override);
	int r = path ? shfs_store_open(path, SHFS_STORE_CREATE, out) : -ENOMEM;

	if (r)
		return shfs_daemon_fail_path(SHFS_EXIT_NO_STORE, path ? path : "",
		                             shfs_store_strerror(r));
	if (shfs_path_is_below(root, (*out)->path))
		return shfs_daemon_fail_path(
			SHFS_EXIT_REFUSED, root,
			strcmp(root, (*out)->path)
				? "this is inside the store, which cannot record itself"
				: "this is the store itself: it cannot record itself");
	return 0;
}

int shfs_daemon_read_config(const char *override, struct shfs_config *out)
{
	_cleanup_free_ char *path = override ? strdup(override) : shfs_path_config();
	_cleanup_free_ char *message = NULL;
	int r = shfs_config_init(out);

	if (r || !path)
		return shfs_daemon_fail(SHFS_EXIT_FAILURE, "out of memory");
	if (override && access(override, F_OK))
		return shfs_daemon_fail_path(SHFS_EXIT_USAGE, override, strerror(errno));
	r = shfs_config_read(out, path, &message);
	if (r && override)
		return shfs_daemon_fail(SHFS_EXIT_USAGE, "%s",
		                        message ? message : strerror(-r));
	if (r)
		shfs_daemon_fail(0, "warning: %s", message ? message : strerror(-r));
	return 0;
}

/* --- into the background --- */

static int ready_fd = -1; /* to the parent */

void shfs_daemon_tell(int code)
{
	char told = (char)code;

	if (ready_fd < 0)
		return;
	(void)!write(ready_fd, &told, 1);
	close(TAKE_FD(ready_fd));
}

void shfs_daemon_told(void)
{
	ready_fd = -1;
}

int shfs_daemon_fork(void)
{
	char code = SHFS_EXIT_FAILURE; /* of the child */
	int fds[2];
	pid_t pid;

	shfs_assert(ready_fd < 0);
	if (pipe2(fds, O_CLOEXEC))
		return shfs_daemon_fail(SHFS_EXIT_FAILURE, "%s", strerror(errno));
	pid = fork();
	if (pid < 0)
		return shfs_daemon_fail(SHFS_EXIT_FAILURE, "%s", strerror(errno));
	if (pid > 0) {
		close(fds[1]);
		while (read(fds[0], &code, 1) < 0 && errno == EINTR)
			;
		_exit(code);
	}
	close(fds[0]);
	ready_fd = fds[1];
	setsid();
	return 0;
}

void shfs_daemon_leave_terminal(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int fd = 0; fd <= 2 && null >= 0; fd++)
		dup2(null, fd);
	shfs_closep(&null);
}

int shfs_daemon_signals(void)
{
	sigset_t set;
	int fd;

	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	fd = signalfd(-1, &set, SFD_CLOEXEC);
	return fd < 0 ? -errno : fd;
}
