/* SPDX-License-Identifier: MIT */
#include "query/history/diff.h"

#include "common/clock.h"
#include "query/base/time.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* exit statuses of diff(1) */
enum { DIFFERENT = 1, TROUBLE = 2 };

void shfs_diff_side_clear(struct shfs_diff_side *s)
{
	shfs_closep(&s->fd);
	shfs_buf_free(&s->label);
}

static void label(struct shfs_diff_side *s, const char *path, int64_t n, int64_t time_ns)
{
	shfs_show_version(&s->label, path, n);
	shfs_buf_char(&s->label, '\t');
	shfs_time_show(&s->label, time_ns);
}

int shfs_version_content(struct shfs_store *store, const struct shfs_version *version,
                         int *out, struct shfs_buf *why)
{
	_cleanup_close_ int fd = -1;
	int r;

	if (!(version->flags & SHFS_CONTENT_OBJECT)) {
		shfs_show_version(why, version->path, version->n);
		shfs_buf_printf(why, " is not archived: %s",
		                shfs_version_why_not_archived(version->flags));
		return -ENODATA;
	}
	fd = memfd_create("shfs-content", MFD_CLOEXEC);
	r = fd < 0 ? -errno : shfs_object_copy(store, &version->object, fd);
	if (!r && lseek(fd, 0, SEEK_SET))
		r = -errno;
	if (r)
		shfs_show_content_error(why, version, r);
	else
		*out = TAKE_FD(fd);
	return r;
}

int shfs_diff_version(struct shfs_store *store, const struct shfs_version *version,
                      struct shfs_diff_side *s)
{
	_cleanup_buf_ struct shfs_buf why = { 0 };

	label(s, version->path, version->n, version->time_ns);
	if (!shfs_version_content(store, version, &s->fd, &why))
		return 0;
	shfs_error("%s", why.data ? why.data : "");
	return TROUBLE;
}

int shfs_diff_now(const char *path, struct shfs_diff_side *s)
{
	_cleanup_buf_ struct shfs_buf name = { 0 };
	struct stat st;

	shfs_show_path(&name, path);
	if (!shfs_path_is_here(path)) {
		shfs_error("%s" SHFS_NOT_HERE, name.data);
		shfs_hint("compare two versions");
		return TROUBLE;
	}
	s->fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (s->fd < 0 || fstat(s->fd, &st)) {
		if (errno == ENOENT) {
			shfs_error("%s does not exist now", name.data);
			shfs_hint("compare two versions, or restore it: shfs undelete");
		} else {
			shfs_error("cannot read %s: %s", name.data, strerror(errno));
		}
		return TROUBLE;
	}
	if (!S_ISREG(st.st_mode)) {
		shfs_error("%s is not a regular file now", name.data);
		return TROUBLE;
	}
	label(s, path, 0, shfs_timespec_ns(st.st_mtim));
	return 0;
}

int shfs_diff_nothing(struct shfs_diff_side *s)
{
	shfs_buf_str(&s->label, "/dev/null");
	s->fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (s->fd >= 0)
		return 0;
	shfs_error("cannot open /dev/null: %s", strerror(errno));
	return TROUBLE;
}

/* Starts diff -u; the two descriptors become 3 and 4 in it. */
int shfs_diff_start(const struct shfs_diff_side side[2],
                    const struct shfs_diff_options *o, int out, pid_t *pid)
{
	_cleanup_buf_ struct shfs_buf context = { 0 };
	posix_spawn_file_actions_t actions;
	const char *argv[12] = { "diff", o->color ? "--color=always" : "--color=never" };
	int n = 2, fds[2], r;

	shfs_buf_printf(&context, "--unified=%s", o->context ? o->context : "3");
	argv[n++] = o->brief ? "--brief" : context.data;
	for (int i = 0; i < 2; i++) {
		argv[n++] = "--label";
		argv[n++] = side[i].label.data;
	}
	argv[n++] = "/dev/fd/3";
	argv[n++] = "/dev/fd/4";
	if (context.failed || side[0].label.failed || side[1].label.failed)
		return -ENOMEM;
	/* above 4, so that neither is overwritten */
	for (int i = 0; i < 2; i++)
		fds[i] = fcntl(side[i].fd, F_DUPFD_CLOEXEC, 5);
	r = fds[0] < 0 || fds[1] < 0 ? errno : posix_spawn_file_actions_init(&actions);
	if (r)
		return -r;
	if (out >= 0)
		r = posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
	for (int i = 0; i < 2 && !r; i++)
		r = posix_spawn_file_actions_adddup2(&actions, fds[i], 3 + i);
	if (!r)
		r = posix_spawnp(pid, argv[0], &actions, NULL, (char **)argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	close(fds[0]);
	close(fds[1]);
	return -r;
}

/* The exit status of diff(1), or its equivalent. */
static int wait_for_diff(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	/* a user who ends the pager has seen enough */
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE)
		return DIFFERENT;
	return WIFEXITED(status) ? WEXITSTATUS(status) : TROUBLE;
}

int shfs_diff_run(const struct shfs_diff_side side[2],
                  const struct shfs_diff_options *options)
{
	pid_t pid;
	int r;

	fflush(stdout);
	r = shfs_diff_start(side, options, -1, &pid);
	if (!r)
		r = wait_for_diff(pid);
	if (r == -ENOENT) {
		shfs_error("there is no diff(1); install the package diffutils");
		return SHFS_EXIT_UNAVAILABLE;
	}
	if (r < 0)
		shfs_error("cannot run diff: %s", strerror(-r));
	return r < 0 ? TROUBLE : r;
}
