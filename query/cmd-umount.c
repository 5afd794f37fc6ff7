/* SPDX-License-Identifier: MIT */
#include "query/cmd.h"
#include "query/holders.h"
#include "query/model.h"
#include "query/mounts.h"

#include "common/io.h"
#include "common/path.h"
#include "common/quote.h"
#include "common/watches.h"
#include "store/runtime.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define DRAIN_MS      60000
#define BUSY_TRIES    8 /* a file may be open for a moment only */
#define BUSY_PAUSE_US 50000
#define HOLDERS_SHOWN 10

static struct {
	bool lazy, all;
} opts;

static int set_option(struct shfs_context *ctx, const struct shfs_option *opt,
                      const char *value)
{
	*(opt->letter == 'a' ? &opts.all : &opts.lazy) = true;
	return 0;
}

/* --- taking a mount away --- */

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

/* umount2 tells the kernel's own error; who may not use it needs the set-id program. */
static int detach(const char *dir, bool lazy, struct shfs_buf *said)
{
	if (!umount2(dir, UMOUNT_NOFOLLOW | (lazy ? MNT_DETACH : 0)))
		return 0;
	return errno == EPERM ? run_fusermount(dir, lazy, said) : -errno;
}

static int fail_detach(const char *shown, int error, const struct shfs_buf *said)
{
	if (error == -ENOENT) {
		shfs_error("cannot unmount %s: fusermount3 is not installed", shown);
		shfs_hint("install the package fuse3; shfs doctor tells more");
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

/* --- what keeps it busy --- */

static void show_holder(struct shfs_buf *out, const struct shfs_holder *h)
{
	shfs_quote_display(out, h->comm, strlen(h->comm));
	shfs_buf_printf(out, " (%d)", (int)h->pid);
}

static void list_holders(const struct shfs_holders *holders)
{
	for (size_t i = 0; i < holders->n && i < HOLDERS_SHOWN; i++) {
		const struct shfs_holder *h = &holders->list[i];
		_cleanup_buf_ struct shfs_buf line = { 0 };

		show_holder(&line, h);
		if (h->file) {
			shfs_buf_str(&line, "  ");
			shfs_show_directory(&line, h->file);
			if (h->n_files > 1)
				shfs_buf_printf(&line, " and %u more", h->n_files - 1);
		} else {
			shfs_buf_str(&line, "  stands in it");
		}
		if (!line.failed)
			fprintf(stderr, "  %s\n", line.data);
	}
	if (holders->n > HOLDERS_SHOWN)
		fprintf(stderr, "  and %zu more\n", holders->n - HOLDERS_SHOWN);
}

static int fail_busy(const char *shown, const struct shfs_holders *holders)
{
	shfs_error("%s is in use%s", shown,
	           holders->n ? ":" : ", by processes that cannot be looked into");
	list_holders(holders);
	shfs_hint("shfs umount --lazy takes it away now and lets them finish");
	return SHFS_EXIT_REFUSED;
}

static bool only_stand(const struct shfs_holders *holders)
{
	for (size_t i = 0; i < holders->n; i++)
		if (holders->list[i].n_files)
			return false;
	return holders->n > 0;
}

/* Who still uses what was taken away lazily. */
static void tell_holders(const struct shfs_holders *holders)
{
	_cleanup_buf_ struct shfs_buf who = { 0 };

	for (size_t i = 0; i < holders->n && i < HOLDERS_SHOWN; i++) {
		if (i)
			shfs_buf_str(&who, ", ");
		show_holder(&who, &holders->list[i]);
	}
	if (holders->n > HOLDERS_SHOWN)
		shfs_buf_str(&who, ", ...");
	if (only_stand(holders))
		printf("  still standing in it: %s\n"
		       "  shells with the hook see the plain directory at their next "
		       "prompt,\n"
		       "  others after a cd\n",
		       who.data);
	else
		printf("  still using it: %s\n"
		       "  that is recorded until they end\n",
		       who.data);
}

/* A lazy unmount would take away what is mounted inside as well. */
static int check_inside(const struct shfs_mount *mount, const char *shown)
{
	_cleanup_mounts_ struct shfs_mounts all = { 0 };
	int r = shfs_mounts_list(SHFS_MOUNTS_ALL, NULL, &all);

	for (size_t i = 0; !r && i < all.n; i++) {
		_cleanup_buf_ struct shfs_buf inner = { 0 };

		if (!shfs_path_is_below(all.list[i].dir, mount->dir) ||
		    !strcmp(all.list[i].dir, mount->dir))
			continue;
		shfs_show_directory(&inner, all.list[i].dir);
		shfs_error("%s is in use: %s is mounted inside it", shown, inner.data);
		shfs_hint("unmount that first");
		return SHFS_EXIT_REFUSED;
	}
	return SHFS_EXIT_OK;
}

/* Busy for a moment only, or for good? 0: unmounted. */
static int detach_patiently(const struct shfs_mount *mount, struct shfs_buf *said,
                            struct shfs_holders *holders)
{
	int r;

	for (int i = 0;; i++) {
		r = detach(mount->dir, false, said);
		if (r != -EBUSY || i == BUSY_TRIES)
			return r;
		shfs_holders_clear(holders);
		if (shfs_holders_find(mount, holders) || only_stand(holders))
			return r;
		shfs_buf_free(said);
		usleep(BUSY_PAUSE_US);
	}
}

/* Nothing is lost by it where processes only stand inside, nor where the mount is dead.
 * In one that hangs, it may be our own question that keeps it busy. */
static bool may_detach(const struct shfs_mount *mount, const struct shfs_holders *holders)
{
	return mount->error == -ENOTCONN || only_stand(holders) ||
	       (mount->error == -ETIMEDOUT && !holders->n);
}

/* *lazily: it lives on until the last one has left it. Returns an exit code. */
static int take_away(const struct shfs_mount *mount, const char *shown, bool *lazily,
                     struct shfs_holders *holders)
{
	_cleanup_buf_ struct shfs_buf said = { 0 };
	int code, r = -EBUSY;

	if (!opts.lazy)
		r = detach_patiently(mount, &said, holders);
	else if (shfs_holders_find(mount, holders))
		shfs_holders_clear(holders);
	if (!r || r != -EBUSY)
		return r ? fail_detach(shown, r, &said) : SHFS_EXIT_OK;
	code = check_inside(mount, shown);
	if (code)
		return code;
	if (!opts.lazy && !may_detach(mount, holders))
		return fail_busy(shown, holders);
	shfs_buf_free(&said);
	r = detach(mount->dir, true, &said);
	if (r)
		return fail_detach(shown, r, &said);
	*lazily = true;
	return SHFS_EXIT_OK;
}

/* --- before and after --- */

/* What is recorded last is written after the unmounting. */
static void wait_for_daemon(int pidfd, const char *shown, bool lazily)
{
	struct pollfd p = { pidfd, POLLIN, 0 };

	if (pidfd < 0 || poll(&p, 1, lazily ? 500 : DRAIN_MS))
		return;
	if (!lazily)
		shfs_warn(
			"%s is unmounted, but its latest records are still being written",
			shown);
}

/* The store of the mount, which may be another one than this command would use. */
static void ingest(const char *store_path)
{
	_cleanup_store_ struct shfs_store *store = NULL;
	_cleanup_index_ struct shfs_index *index = NULL;
	_cleanup_free_ char *hook_dir = shfs_runtime_hook_dir(store_path);
	int r = shfs_store_open(store_path, 0, &store);

	if (!r)
		r = shfs_index_open(store, SHFS_INDEX_WRITE, &index);
	if (!r)
		r = shfs_index_ingest(index, hook_dir, NULL);
	if (r)
		shfs_warn("the index is not up to date yet: %s", strerror(-r));
}

static int check_owner(const struct shfs_mount *mount, const char *shown)
{
	struct passwd *pw;

	if (mount->owner == geteuid() || !geteuid())
		return SHFS_EXIT_OK;
	pw = getpwuid(mount->owner);
	if (pw)
		shfs_error("%s was mounted by %s, who can unmount it", shown,
		           pw->pw_name);
	else
		shfs_error("%s was mounted by user %u, who can unmount it", shown,
		           (unsigned)mount->owner);
	return SHFS_EXIT_REFUSED;
}

/* Asks it to end, and waits until it has. */
static int end_watch(const struct shfs_mount *mount, const char *shown)
{
	const struct shfs_watch_name name = { mount->dev, mount->ino };
	int fd = shfs_watches_ask(&name, "end");
	struct pollfd p = { fd, POLLIN, 0 };
	char word[8];

	if (fd < 0 && fd != -ECONNREFUSED) {
		shfs_error("cannot end the recording of %s: %s", shown, strerror(-fd));
		return SHFS_EXIT_FAILURE;
	}
	while (fd >= 0 && poll(&p, 1, DRAIN_MS) > 0 && read(fd, word, sizeof(word)) > 0)
		;
	shfs_closep(&fd);
	printf("%s is no longer recorded\n", shown);
	if (mount->status.store)
		ingest(mount->status.store);
	return SHFS_EXIT_OK;
}

static int unmount(const struct shfs_mount *mount)
{
	_cleanup_holders_ struct shfs_holders holders = { 0 };
	_cleanup_buf_ struct shfs_buf shown = { 0 };
	_cleanup_close_ int pidfd = -1;
	bool lazily = false;
	int code;

	shfs_show_directory(&shown, mount->dir);
	code = check_owner(mount, shown.data);
	if (code)
		return code;
	if (shfs_mount_is_watch(mount))
		return end_watch(mount, shown.data);
	if (!mount->error && mount->status.store) {
		pidfd = pidfd_open(mount->status.pid, 0);
		/* the kernel drops what it has not told the daemon when it unmounts */
		shfs_mounts_sync(mount->status.store);
	}
	if (chdir("/")) /* or this process might be what keeps it busy */
		shfs_warn("cannot leave the working directory: %s", strerror(errno));
	code = take_away(mount, shown.data, &lazily, &holders);
	if (code)
		return code;
	wait_for_daemon(pidfd, shown.data, lazily);
	printf("%s is unmounted\n", shown.data);
	if (lazily && holders.n)
		tell_holders(&holders);
	if (mount->status.store)
		ingest(mount->status.store);
	return SHFS_EXIT_OK;
}

/* --- which one is meant --- */

static int fail_not_mounted(const struct shfs_mounts *mounts, const char *path)
{
	const struct shfs_mount *around = shfs_mounts_around(mounts, path);
	_cleanup_buf_ struct shfs_buf shown = { 0 }, mount = { 0 };
	struct stat st;

	shfs_show_directory(&shown, path);
	if (around) {
		shfs_show_directory(&mount, around->dir);
		shfs_error("%s is inside the mount %s", shown.data, mount.data);
		shfs_hint("shfs umount %s unmounts it", mount.data);
		return SHFS_EXIT_USAGE;
	}
	if (lstat(path, &st))
		shfs_error("cannot unmount %s: %s", shown.data, strerror(errno));
	else
		shfs_error("%s is not mounted by shfs", shown.data);
	shfs_hint("shfs mount lists what is mounted");
	return SHFS_EXIT_NOT_FOUND;
}

/* As it was typed first: resolving links asks the mount, which may hang. */
static int unmount_path(struct shfs_mounts *mounts, const char *path)
{
	const struct shfs_mount *mount = shfs_mounts_at(mounts, path);
	_cleanup_free_ char *resolved = NULL;

	if (!mount && !shfs_mounts_around(mounts, path)) {
		resolved = realpath(path, NULL);
		mount = resolved ? shfs_mounts_at(mounts, resolved) : NULL;
	}
	if (!mount)
		return fail_not_mounted(mounts, resolved ? resolved : path);
	shfs_mount_ask(&mounts->list[mount - mounts->list]);
	return unmount(mount);
}

/* The inner ones first. */
static int unmount_all(const struct shfs_mounts *mounts)
{
	int worst = SHFS_EXIT_OK;

	for (size_t i = mounts->n; i--;) {
		int code = SHFS_EXIT_OK;

		if (mounts->list[i].owner == geteuid() && mounts->list[i].error != -EXDEV)
			code = unmount(&mounts->list[i]);
		worst = worst ? worst : code;
	}
	return worst;
}

static int run(struct shfs_context *ctx, int argc, char **argv)
{
	_cleanup_mounts_ struct shfs_mounts mounts = { 0 };
	char *paths[argc + 1];
	int worst = SHFS_EXIT_OK, r;

	if (!opts.all == !argc) {
		shfs_error(opts.all ? "--all takes no directories"
		                    : "which directory? shfs umount DIR, or --all");
		return SHFS_EXIT_USAGE;
	}
	r = shfs_mounts_list(opts.all ? SHFS_MOUNTS_ASK : 0,
	                     opts.all ? shfs_context_store_path(ctx) : NULL, &mounts);
	if (r) {
		shfs_error("cannot look for mounts: %s", strerror(-r));
		return SHFS_EXIT_FAILURE;
	}
	if (opts.all)
		return unmount_all(&mounts);
	for (int i = 0; i < argc; i++) /* all, before the working directory changes */
		paths[i] = shfs_path_absolute(argv[i]);
	for (int i = 0; i < argc; i++) {
		int code = SHFS_EXIT_FAILURE;

		if (paths[i]) {
			code = unmount_path(&mounts, paths[i]);
		} else {
			shfs_error("cannot tell the working directory: %s",
			           strerror(errno));
			shfs_hint("name the whole path");
		}
		worst = worst ? worst : code;
		free(paths[i]);
	}
	return worst;
}

static const struct shfs_option options[] = {
	{ "all", 'a', NULL, "all that you have mounted with this store" },
	{ "lazy", 'l', NULL, "also while files are open in it: they stay usable" },
	{ 0 },
};

const struct shfs_command shfs_cmd_umount = {
	.name = "umount",
	.args = "[DIR…]",
	.summary = "Stop recording in a directory",
	.description =
		"Waits until all that was recorded is in the store. A shell that stands "
		"in the\n"
		"directory does not hinder it; files that are open do (exit code 4).",
	.options = options,
	.max_args = -1,
	.option = set_option,
	.run = run,
};
