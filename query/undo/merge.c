/* SPDX-License-Identifier: MIT */
#include "query/undo/merge.h"

#include "common/io.h"
#include "query/history/diff.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MERGED_MAX (1ULL << 30)
#define BINARY_MAX 8000 /* as git: a NUL in so many bytes */

enum { OURS, BASE, THEIRS, SIDES };

static void close_sides(int fds[static SIDES])
{
	for (int i = 0; i < SIDES; i++)
		shfs_closep(&fds[i]);
}

static bool is_binary(int fd)
{
	char bytes[BINARY_MAX];
	ssize_t n = pread(fd, bytes, sizeof(bytes), 0);

	return n > 0 && memchr(bytes, 0, (size_t)n);
}

/* Runs it: 0, the number of places that cannot be merged, or a negative errno. */
static int run_merge(const int fds[static SIDES], int out)
{
	char names[SIDES][40];
	char *argv[] = { (char *)"git", (char *)"merge-file", (char *)"-p",  (char *)"-q",
		         names[OURS],   names[BASE],          names[THEIRS], NULL };
	posix_spawn_file_actions_t actions;
	int status, r = posix_spawn_file_actions_init(&actions);
	pid_t pid;

	if (r)
		return -r;
	for (int i = 0; i < SIDES; i++) {
		int fd = 10 + i;

		snprintf(names[i], sizeof(names[i]), "/proc/self/fd/%d", fd);
		r = r ?: posix_spawn_file_actions_adddup2(&actions, fds[i], fd);
	}
	r = r ?: posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
	r = r ?: posix_spawnp(&pid, "git", &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	if (r)
		return -r;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return !WIFEXITED(status)           ? -EIO
	       : WEXITSTATUS(status) >= 128 ? -EIO
	                                    : WEXITSTATUS(status);
}

/* Opens one side: 1; 0, and why not. */
static int open_side(struct shfs_undo_plan *p, const struct shfs_version *version,
                     int *fd, struct shfs_buf *why)
{
	if (version->version_id && !version->size) {
		*fd = memfd_create("empty", MFD_CLOEXEC);
		return *fd >= 0;
	}
	return !shfs_version_content(p->store, version, fd, why);
}

static int open_sides(struct shfs_undo_plan *p, const struct shfs_undo_file *u,
                      int fds[static SIDES], struct shfs_buf *why)
{
	fds[OURS] = open(u->path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fds[OURS] < 0)
		return -errno;
	return open_side(p, &u->left, &fds[BASE], why) &&
	       open_side(p, &u->before, &fds[THEIRS], why);
}

static int merge_file(struct shfs_undo_plan *p, struct shfs_undo_file *u)
{
	_cleanup_buf_ struct shfs_buf why = { 0 };
	_cleanup_close_ int out = memfd_create("merged", MFD_CLOEXEC);
	int fds[SIDES] = { -1, -1, -1 };
	int r = out < 0 ? -errno : open_sides(p, u, fds, &why);

	if (r > 0 &&
	    (is_binary(fds[OURS]) || is_binary(fds[BASE]) || is_binary(fds[THEIRS])))
		shfs_buf_str(&why, "was changed since, and is binary");
	else if (r > 0) {
		r = run_merge(fds, out);
		if (r > 0)
			shfs_buf_str(&why, "was changed since, in the same lines");
		else if (r == -ENOENT)
			shfs_buf_str(&why,
			             "was changed since, and there is no git to merge");
		else if (r)
			shfs_buf_printf(&why, "cannot be merged: %s", strerror(-r));
		else if (lseek(out, 0, SEEK_SET) ||
		         shfs_read_fd(out, MERGED_MAX, &u->merged))
			shfs_buf_str(&why, "cannot be merged");
	} else if (!why.len) {
		shfs_buf_printf(&why, "cannot be merged: %s", strerror(-r));
	}
	close_sides(fds);
	if (why.failed)
		return -ENOMEM;
	return why.len ? shfs_undo_add_reason(p, SHFS_UNDO_CONFLICT, u->group, u->path,
	                                      why.data, u)
	               : 0;
}

int shfs_undo_merge(struct shfs_undo_plan *p)
{
	int r = 0;

	for (struct shfs_past_file *f = p->past.files; f && !r; f = f->next) {
		struct shfs_undo_file *u = f->plan;

		if (u && u->merge && shfs_undo_is_done(p, u->group))
			r = merge_file(p, u);
	}
	return r;
}
