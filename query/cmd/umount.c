/* SPDX-License-Identifier: MIT */
/* `shfs umount`: stop recording in a directory, or browsing at one. */
#include "query/base/cmd.h"
#include "query/base/model.h"
#include "query/base/mounts.h"
#include "query/care/detach.h"
#include "query/care/holders.h"

#include "common/io.h"
#include "common/path.h"
#include "common/quote.h"
#include "common/recorders.h"
#include "store/journal/runtime.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/stat.h>

#define DRAIN_MS      60000
#define LINGER_MS     500 /* a lazily removed mount ends sooner if it is unused */
#define BUSY_TRIES    8   /* a file may be open only for a moment */
#define BUSY_PAUSE_US 50000
#define HOLDERS_SHOWN 10

static struct {
	bool lazy, all;
} opts;

/* The last mount that was removed lazily: its process, which cannot be looked into, holds
 * the mounts that were inside it. */
static const char *lingers;

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
			shfs_buf_str(&line, "  has its working directory there");
		}
		if (!line.failed)
			fprintf(stderr, "  %s\n", line.data);
	}
	if (holders->n > HOLDERS_SHOWN)
		fprintf(stderr, "  and %zu more\n", holders->n - HOLDERS_SHOWN);
}

static bool only_stand(const struct shfs_holders *holders)
{
	for (size_t i = 0; i < holders->n; i++)
		if (holders->list[i].n_files)
			return false;
	return holders->n > 0;
}

static void name_holders(struct shfs_buf *out, const struct shfs_holders *holders)
{
	for (size_t i = 0; i < holders->n && i < HOLDERS_SHOWN; i++) {
		if (i)
			shfs_buf_str(out, ", ");
		show_holder(out, &holders->list[i]);
	}
	if (holders->n > HOLDERS_SHOWN)
		shfs_buf_str(out, ", ...");
}

/* Lists the users of a lazily removed mount. */
static void tell_holders(const struct shfs_holders *holders)
{
	_cleanup_buf_ struct shfs_buf who = { 0 };

	name_holders(&who, holders);
	if (only_stand(holders))
		printf("  still standing in it: %s\n"
		       "  shells with the hook see the plain directory at their next "
		       "prompt,\n"
		       "  others after a cd\n",
		       who.data);
	else
		printf("  still using it: %s\n"
		       "  what they do is recorded until they end\n",
		       who.data);
}

/* Finds who is in the file system that .shfs leads to, which ends with the mount. */
static void find_users_of_past(const struct shfs_mount *mount,
                               struct shfs_holders *holders)
{
	_cleanup_mounts_ struct shfs_mounts all = { 0 };
	const struct shfs_mount *past;

	if (mount->error || !mount->status.browse ||
	    shfs_mounts_list(SHFS_MOUNTS_BROWSE, NULL, &all))
		return;
	past = shfs_mounts_at(&all, mount->status.browse);
	if (past && past->browse && shfs_holders_find(past, holders))
		shfs_holders_clear(holders);
}

static void tell_users_of_past(const struct shfs_holders *holders)
{
	_cleanup_buf_ struct shfs_buf who = { 0 };

	if (!holders->n)
		return;
	name_holders(&who, holders);
	printf("  its .shfs is gone, too, which was still used by: %s\n"
	       "  a shell that stands there has to leave it: cd\n",
	       who.data);
}

/* Refuses a lazy unmount if other mounts stand on this one: they would go, too. Mounts
 * that it hides, which were made inside before, would stay. */
static int check_inside(const struct shfs_mount *mount, const char *shown)
{
	_cleanup_mounts_ struct shfs_mounts all = { 0 };
	int r = shfs_mounts_list(SHFS_MOUNTS_ALL, NULL, &all);

	for (size_t i = 0; !r && i < all.n; i++) {
		_cleanup_buf_ struct shfs_buf inner = { 0 };

		if (all.list[i].parent_id != mount->mount_id)
			continue;
		shfs_show_directory(&inner, all.list[i].dir);
		shfs_error("%s is in use: %s is mounted inside it", shown, inner.data);
		shfs_hint("unmount that first");
		return SHFS_EXIT_REFUSED;
	}
	return SHFS_EXIT_OK;
}

/* Refuses if another mount hides this one: unmounting by this path would remove that. */
static int check_hidden(const struct shfs_mount *mount, const char *shown)
{
	_cleanup_mounts_ struct shfs_mounts all = { 0 };
	_cleanup_buf_ struct shfs_buf order = { 0 };
	const struct shfs_mount *there;

	if (shfs_mounts_list(SHFS_MOUNTS_ALL, NULL, &all) ||
	    !shfs_mounts_find(&all, mount->mount_id)) /* it is gone */
		return SHFS_EXIT_OK;
	for (size_t i = 0; i < all.n; i++) {
		there = shfs_mounts_lead(&all, mount->dir);
		if (!there || there->mount_id == mount->mount_id)
			break;
		shfs_buf_str(&order, order.len ? " " : "");
		shfs_show_directory(&order, there->dir);
		if (!i)
			shfs_error("%s is hidden by the mount %s, which was made after "
			           "it",
			           shown, order.data ?: "");
		all.list[there - all.list].parent_id = -1; /* as if it were gone */
	}
	if (!order.len)
		return SHFS_EXIT_OK;
	shfs_hint("in this order: shfs umount %s %s", order.data, shown);
	return SHFS_EXIT_REFUSED;
}

/* Unmounts, with some tries if it is busy: it may be so for a moment only. 0:
 * unmounted. */
static int detach_patiently(const struct shfs_mount *mount, struct shfs_buf *said,
                            struct shfs_holders *holders)
{
	int r;

	for (int i = 0;; i++) {
		r = shfs_detach(mount->dir, false, said);
		if (r != -EBUSY || i == BUSY_TRIES)
			return r;
		shfs_holders_clear(holders);
		if (shfs_holders_find(mount, holders) || only_stand(holders))
			return r;
		shfs_buf_free(said);
		usleep(BUSY_PAUSE_US);
	}
}

/* May it be removed lazily? Nothing is lost if processes only stand inside, or the mount
 * is dead. If it hangs, our own question may keep it busy. */
static bool may_detach(const struct shfs_mount *mount, const struct shfs_holders *holders)
{
	bool is_held = lingers && shfs_path_is_below(mount->dir, lingers);

	return mount->error == -ENOTCONN || only_stand(holders) ||
	       ((is_held || mount->error == -ETIMEDOUT) && !holders->n);
}

/* Removes the mount. *lazily: it lives on until its last user has left it. Returns an
 * exit code. */
static int detach_mount(const struct shfs_mount *mount, const char *shown, bool *lazily,
                        struct shfs_holders *holders)
{
	_cleanup_buf_ struct shfs_buf said = { 0 };
	int code, r = -EBUSY;

	if (!opts.lazy)
		r = detach_patiently(mount, &said, holders);
	else if (shfs_holders_find(mount, holders))
		shfs_holders_clear(holders);
	if (!r || r != -EBUSY)
		return r ? shfs_fail_detach(shown, r, &said) : SHFS_EXIT_OK;
	code = check_inside(mount, shown);
	if (code)
		return code;
	if (!opts.lazy && !may_detach(mount, holders)) {
		shfs_error("%s is in use%s", shown,
		           holders->n ? ":"
		                      : ", by processes that cannot be looked into");
		list_holders(holders);
		shfs_hint("shfs umount --lazy unmounts it now and lets them finish");
		return SHFS_EXIT_REFUSED;
	}
	shfs_buf_free(&said);
	r = shfs_detach(mount->dir, true, &said);
	if (r)
		return shfs_fail_detach(shown, r, &said);
	*lazily = true;
	return SHFS_EXIT_OK;
}

/* --- before and after --- */

static bool has_daemon_ended(int pidfd, int ms)
{
	struct pollfd p = { pidfd, POLLIN, 0 };

	return pidfd < 0 || poll(&p, 1, ms);
}

/* Waits for the daemon: it writes the last records after the unmount. */
static void wait_for_daemon(int pidfd, const struct shfs_mount *mount, const char *shown,
                            bool lazily)
{
	_cleanup_buf_ struct shfs_buf who = { 0 };
	_cleanup_holders_ struct shfs_holders there = { 0 };

	if (has_daemon_ended(pidfd, LINGER_MS))
		return;
	if (!shfs_holders_elsewhere(mount, &there) && there.n) {
		show_holder(&who, &there.list[0]);
		printf("  %s still has the mount, in another mount namespace (a "
		       "container?):\n"
		       "  recording goes on there until that process ends\n",
		       who.data);
		return;
	}
	if (!lazily && !has_daemon_ended(pidfd, DRAIN_MS))
		shfs_warn(
			"%s is unmounted, but its latest records are still being written",
			shown);
}

/* Ingests the mount's store, which may be another one than this command would use. */
static void ingest_store_of_mount(const char *store_path)
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

static int check_mount_owner(const struct shfs_mount *mount, const char *shown)
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

/* Asks a recorder to end, and waits until it has. */
static int end_watch(const struct shfs_mount *mount, const char *shown)
{
	const struct shfs_recorder_name name = { mount->dev, mount->ino };
	int fd = shfs_recorders_ask(&name, "end");
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
		ingest_store_of_mount(mount->status.store);
	return SHFS_EXIT_OK;
}

static int end_mount(const struct shfs_mount *mount)
{
	_cleanup_holders_ struct shfs_holders holders = { 0 }, past = { 0 };
	_cleanup_buf_ struct shfs_buf shown = { 0 };
	_cleanup_close_ int pidfd = -1;
	bool lazily = false;
	int code;

	shfs_show_directory(&shown, mount->dir);
	code = check_mount_owner(mount, shown.data);
	if (code)
		return code;
	if (shfs_mount_is_recorder(mount))
		return end_watch(mount, shown.data);
	code = check_hidden(mount, shown.data);
	if (code)
		return code;
	if (!mount->error && mount->status.store) {
		pidfd = pidfd_open(mount->status.pid, 0);
		/* the kernel drops requests that the daemon has not got yet */
		shfs_mounts_sync(mount->status.store, false);
	}
	if (chdir("/")) /* this process itself may keep it busy */
		shfs_warn("cannot leave the working directory: %s", strerror(errno));
	find_users_of_past(mount, &past);
	code = detach_mount(mount, shown.data, &lazily, &holders);
	if (code)
		return code;
	if (lazily)
		lingers = mount->dir;
	printf("%s is unmounted\n", shown.data);
	fflush(stdout);
	wait_for_daemon(pidfd, mount, shown.data, lazily);
	if (lazily && holders.n)
		tell_holders(&holders);
	if (!lazily)
		tell_users_of_past(&past);
	if (mount->status.store)
		ingest_store_of_mount(mount->status.store);
	return SHFS_EXIT_OK;
}

/* --- the choice of mounts --- */

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

/* Chooses by the path as typed first: resolving links asks the mount, which may hang. */
static int choose_mount(const struct shfs_mounts *mounts, const char *path, bool *chosen)
{
	const struct shfs_mount *mount = shfs_mounts_at(mounts, path);
	_cleanup_free_ char *resolved = NULL;

	if (!mount && !shfs_mounts_around(mounts, path)) {
		resolved = realpath(path, NULL);
		mount = resolved ? shfs_mounts_at(mounts, resolved) : NULL;
	}
	if (!mount)
		return fail_not_mounted(mounts, resolved ? resolved : path);
	chosen[mount - mounts->list] = true;
	return SHFS_EXIT_OK;
}

static int choose_all(const struct shfs_mounts *mounts, int n, char **dirs, bool *chosen)
{
	int worst = SHFS_EXIT_OK;

	for (int i = 0; i < n; i++) {
		_cleanup_free_ char *path = shfs_path_absolute(dirs[i]);
		int code = SHFS_EXIT_FAILURE;

		if (path) {
			code = choose_mount(mounts, path, chosen);
		} else {
			shfs_error("cannot tell the working directory: %s",
			           strerror(errno));
			shfs_hint("name the whole path");
		}
		worst = worst ? worst : code;
	}
	return worst;
}

/* Unmounts the last mount first: it stands on earlier ones, or hides them. */
static int unmount_chosen(struct shfs_mounts *mounts, const bool *chosen)
{
	int worst = SHFS_EXIT_OK;

	for (size_t i = mounts->n; i--;) {
		struct shfs_mount *mount = &mounts->list[i];
		int code;

		if (!chosen[i])
			continue;
		if (mount->error == -ENODATA) /* not asked, or hidden until now */
			shfs_mount_ask(mount);
		code = end_mount(mount);
		worst = worst ? worst : code;
	}
	return worst;
}

/* Does the file system belong to one of the mounts, whose .shfs leads there? It ends with
 * that. */
static bool is_past_of_mount(const struct shfs_mounts *mounts,
                             const struct shfs_mount *one)
{
	for (size_t i = 0; one->browse && i < mounts->n; i++) {
		const char *place = mounts->list[i].status.browse;

		if (place && !strcmp(place, one->dir))
			return true;
	}
	return false;
}

static int run_umount(struct shfs_context *ctx, int argc, char **argv)
{
	_cleanup_mounts_ struct shfs_mounts mounts = { 0 };
	int worst = SHFS_EXIT_OK, r;
	_cleanup_free_ bool *chosen = NULL;

	if (!opts.all == !argc) {
		shfs_error(opts.all ? "--all takes no directories"
		                    : "which directory? shfs umount DIR, or --all");
		return SHFS_EXIT_USAGE;
	}
	r = shfs_mounts_list(SHFS_MOUNTS_BROWSE | (opts.all ? SHFS_MOUNTS_ASK : 0),
	                     opts.all ? shfs_context_store_path(ctx) : NULL, &mounts);
	if (!r && !(chosen = calloc(mounts.n + 1, sizeof(*chosen))))
		r = -ENOMEM;
	if (r) {
		shfs_error("cannot look for mounts: %s", strerror(-r));
		return SHFS_EXIT_FAILURE;
	}
	for (size_t i = 0; opts.all && i < mounts.n; i++)
		chosen[i] = mounts.list[i].owner == geteuid() &&
		            mounts.list[i].error != -EXDEV &&
		            !is_past_of_mount(&mounts, &mounts.list[i]);
	worst = choose_all(&mounts, argc, argv, chosen);
	r = unmount_chosen(&mounts, chosen);
	return worst ? worst : r;
}

const struct shfs_command shfs_cmd_umount = {
	.name = "umount",
	.args = "[DIR…]",
	.summary = "Stop recording in a directory",
	.description = "Waits until everything that was recorded is in the store. A "
		       "shell in the\n"
		       "directory does not prevent it; open files do (exit code 4).\n"
		       "Also unmounts what shfs browse has mounted.",
	.options = {
	{ "all", 'a', NULL, "all that you have mounted with this store",
	  .flag = &opts.all },
	{ "lazy", 'l', NULL, "unmount even while files are open: they stay usable",
	  .flag = &opts.lazy },
	},
	.operands = { 0, -1 },
	.run = run_umount,
};
