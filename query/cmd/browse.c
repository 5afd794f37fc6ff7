/* SPDX-License-Identifier: MIT */
/* `shfs browse`: mount the past of a project, to be read. */
#include "query/base/cmd.h"
#include "query/base/model.h"
#include "query/base/mounts.h"
#include "query/care/detach.h"

#include "common/path.h"

#include <errno.h>
#include <spawn.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

static bool foreground;

/* The project that the working directory is in: the innermost directory above it that was
 * ever recorded; or that directory itself. */
static int find_project(struct shfs_index *index, char **out)
{
	_cleanup_free_ char *here = shfs_operand_path("."), *found = NULL;
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = here ? shfs_rows_open(index,
	                              "SELECT DISTINCT root FROM v_producer"
	                              " ORDER BY length(root)",
	                              &rows)
	             : -ENOMEM;

	while (!r && (r = shfs_rows_next(rows)) > 0) {
		r = 0;
		if (!shfs_path_is_below(here, shfs_rows_text(rows, 0)))
			continue;
		free(found);
		found = strdup(shfs_rows_text(rows, 0));
		if (!found)
			return -ENOMEM;
	}
	if (!r)
		*out = found ? TAKE_PTR(found) : TAKE_PTR(here);
	return r;
}

/* Removes what is left of a mount at the mount point whose processes were killed. */
static int clear_dead(const char *mountpoint)
{
	_cleanup_free_ char *path = shfs_path_absolute(mountpoint);
	_cleanup_mounts_ struct shfs_mounts mounts = { 0 };
	_cleanup_buf_ struct shfs_buf said = { 0 }, shown = { 0 };
	const struct shfs_mount *mount;
	struct stat st;
	int r;

	if (!path || !stat(path, &st) || errno != ENOTCONN)
		return SHFS_EXIT_OK;
	if (shfs_mounts_list(SHFS_MOUNTS_BROWSE, NULL, &mounts))
		return SHFS_EXIT_OK;
	mount = shfs_mounts_at(&mounts, path);
	if (!mount || !mount->browse)
		return SHFS_EXIT_OK;
	shfs_show_directory(&shown, path);
	r = shfs_detach(path, true, &said);
	return r ? shfs_fail_detach(shown.data ?: "", r, &said) : SHFS_EXIT_OK;
}

/* Runs shfs-browse until it serves; in the foreground until it ends. */
static int run_server(struct shfs_context *ctx, const char *root, const char *mountpoint)
{
	_cleanup_free_ char *path = shfs_path_installed("libexec", "shfs-browse");
	const char *argv[10] = { "shfs-browse", "--store", shfs_context_store_path(ctx),
		                 "--root", root };
	int n = 5, status, r;
	pid_t pid;

	if (!path) {
		shfs_error("shfs-browse is missing; install shfs as a whole");
		return SHFS_EXIT_UNAVAILABLE;
	}
	if (foreground)
		argv[n++] = "--foreground";
	argv[n++] = "--";
	argv[n++] = mountpoint;
	fflush(NULL);
	r = posix_spawn(&pid, path, NULL, NULL, (char **)argv, environ);
	if (r) {
		shfs_error("cannot run %s: %s", path, strerror(r));
		return SHFS_EXIT_UNAVAILABLE;
	}
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return SHFS_EXIT_FAILURE;
	if (WIFEXITED(status))
		return WEXITSTATUS(status);
	shfs_error("shfs-browse was ended by signal %d (%s)", WTERMSIG(status),
	           strsignal(WTERMSIG(status)));
	return SHFS_EXIT_FAILURE;
}

static int run_browse(struct shfs_context *ctx, struct shfs_index *index, int argc,
                      char **argv)
{
	const char *mountpoint = argv[argc - 1];
	_cleanup_free_ char *root = NULL, *place = NULL;
	_cleanup_buf_ struct shfs_buf of = { 0 }, at = { 0 };
	int r = 0, code;

	if (argc == 2)
		root = shfs_operand_path(argv[0]);
	else
		r = find_project(index, &root);
	if (!r)
		r = root ? shfs_path_is_known(index, root) : -ENOMEM;
	if (r < 0)
		return shfs_fail_index(index, r);
	if (!r)
		return shfs_fail_unseen(index, root);
	code = clear_dead(mountpoint);
	if (!code)
		code = run_server(ctx, root, mountpoint);
	if (code || foreground)
		return code;
	place = shfs_path_absolute(mountpoint);
	shfs_show_directory(&of, root);
	shfs_show_directory(&at, place ?: mountpoint);
	printf("the past of %s can be read in %s: at/TIME, commands/ID, versions/FILE\n"
	       "  shfs umount %s ends that\n",
	       of.data ?: "", at.data ?: "", at.data ?: "");
	return SHFS_EXIT_OK;
}

const struct shfs_command shfs_cmd_browse = {
	.name = "browse",
	.args = "[DIR] MOUNTPOINT",
	.summary = "Show the past of a project as files in a directory",
	.description = "Read-only. at/TIME is the project as it was then, versions/FILE/N "
		       "each\n"
		       "version, commands/ID/{before,after,read,wrote} what a command did. "
		       "DIR is\n"
		       "the project, else that of the working directory. shfs umount ends "
		       "it.",
	.options = {
	{ "foreground", 'f', NULL, "stay in the foreground", .flag = &foreground },
	},
	.operands = { 1, 2 },
	.run_on_index = run_browse,
};
