/* SPDX-License-Identifier: MIT */
#include "query/care/detach.h"
#include "query/base/cmd.h"

#include "common/io.h"
#include "common/quote.h"

#include <errno.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/wait.h>

/* -ENOENT: there is no fusermount3. -EIO: it failed; what it said is in *said. */
static int run_fusermount(const char *dir, bool lazy, struct shfs_buf *said)
{
	char *argv[] = { (char *)"fusermount3", (char *)(lazy ? "-uz" : "-u"),
		         (char *)"--", (char *)dir, NULL };
	_cleanup_close_ int out = memfd_create("fusermount3", MFD_CLOEXEC);
	posix_spawn_file_actions_t actions;
	int status, r;
	pid_t pid;

	if (out < 0)
		return -errno;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, out, STDERR_FILENO);
	r = -posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	if (r)
		return r;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	if (WIFEXITED(status) && !WEXITSTATUS(status))
		return 0;
	if (lseek(out, 0, SEEK_SET) < 0 || shfs_read_fd(out, 4096, said))
		return -EIO;
	return shfs_ends_with(said->data, ": Device or resource busy\n") ? -EBUSY : -EIO;
}

/* umount2 gives the kernel's own error; without the right to call it, the set-uid
 * program is needed. */
int shfs_detach(const char *dir, bool lazy, struct shfs_buf *said)
{
	if (!umount2(dir, UMOUNT_NOFOLLOW | (lazy ? MNT_DETACH : 0)))
		return 0;
	return errno == EPERM ? run_fusermount(dir, lazy, said) : -errno;
}

int shfs_fail_detach(const char *shown, int error, const struct shfs_buf *said)
{
	if (error == -ENOENT) {
		shfs_error("cannot unmount %s: fusermount3 is not installed", shown);
		shfs_hint("install the package fuse3; see shfs doctor");
		return SHFS_EXIT_UNAVAILABLE;
	}
	if (said->len) {
		_cleanup_buf_ struct shfs_buf line = { 0 };

		shfs_quote_display(&line, said->data, strcspn(said->data, "\n"));
		shfs_error("cannot unmount %s: %s", shown, line.data);
	} else {
		shfs_error("cannot unmount %s: %s", shown, strerror(-error));
	}
	return SHFS_EXIT_FAILURE;
}
