/* SPDX-License-Identifier: MIT */
/* `shfs ingest`: read the journal into the index. */
#include "query/base/context.h"
#include "query/base/mounts.h"
#include "query/care/prune.h"

#include "common/clock.h"
#include "common/debug.h"
#include "common/io.h"
#include "common/path.h"
#include "common/proc.h"
#include "store/journal/runtime.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <malloc.h>
#include <poll.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

#define ROUND_MS      30000
#define FIRST_WAIT_MS 10000 /* for a mount that is being made */
#define DRAIN_MS      60000 /* for a daemon to end after its unmount */
#define COPY_MS       1000  /* hook logs are copied within this time */
#define LOG_MAX_BYTES (1 << 20)
#define PRUNE_MS      15000 /* for mounts to release objects before a prune */

static struct {
	bool follow;
} opts;

/* --- in the background --- */

/*
 * State of the background ingest. Between its rounds it has no file of the store open and
 * its working directory is elsewhere: the store may be inside a mount, which it must not
 * keep busy.
 */
struct follower {
	const char *store_path;
	char *config_path; /* absolute */
	int mountinfo;     /* poll reports changes of the table of mounts */
	char *hook_dir;    /* shfs_runtime_hook_dir */
	int changes;       /* inotify on it; -1: it does not exist */
	int lock;
	int *ids; /* of all mounts of shfs, at the last look */
	size_t n_ids;
	/* the daemons of this store's mounts; n_daemons 0: nothing left to follow */
	int *daemons;
	size_t n_daemons;
	int last_error;     /* already in the log */
	uint64_t max_bytes; /* of the store; 0: any */
	int last_prune_error;
};

/* Locks the store: one background ingest each. -EADDRINUSE: another one runs. */
static int follower_lock(struct follower *f)
{
	f->lock = shfs_store_lock(f->store_path, "ingest", 0);
	return MIN(f->lock, 0);
}

/* Writes a line to a log of this host: it has no terminal. */
static void follower_line(const struct shfs_store *store, const char *line)
{
	_cleanup_close_ int fd = -1;
	char name[sizeof(store->host) + 16];
	struct stat st;

	snprintf(name, sizeof(name), "ingest-%s.log", store->host);
	fd = openat(store->log_fd, name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (fd < 0 || fstat(fd, &st) || st.st_size > LOG_MAX_BYTES)
		return;
	dprintf(fd, "%lld %s\n", (long long)time(NULL), line);
}

static void follower_log(const struct shfs_store *store, const char *what, int error)
{
	_cleanup_buf_ struct shfs_buf line = { 0 };

	shfs_buf_printf(&line, "%s: %s", what, strerror(-error));
	if (!line.failed)
		follower_line(store, line.data);
}

static const struct shfs_store *debugged; /* while it is open */

static void follower_debug(const char *line)
{
	if (debugged)
		follower_line(debugged, line);
}

static void follower_dropped(const struct shfs_store *store, const char *file,
                             uint64_t from, uint64_t to)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };

	shfs_buf_printf(&text, "%s, byte %" PRIu64 " to %" PRIu64 ": is not kept", file,
	                from, to - 1);
	if (!text.failed)
		follower_log(store, text.data, -EBADMSG);
}

/* Reads the limit anew, which may have been set meanwhile. While the configuration cannot
 * be read, the last one holds. */
static void follower_read_limit(struct follower *f)
{
	_cleanup_free_ char *message = NULL;
	struct shfs_config config;

	if (!f->config_path || shfs_config_init(&config))
		return;
	if (!shfs_config_read(&config, f->config_path, &message))
		f->max_bytes = config.store_max_bytes;
	shfs_config_free(&config);
}

/* Prunes to a bit below the limit, so that not every round prunes. */
static void follower_prune(struct follower *f, struct shfs_store *store,
                           struct shfs_index *index)
{
	struct shfs_prune prune = {
		.store = store,
		.index = index,
		.hook_dir = f->hook_dir,
		.policy = { .max_bytes = f->max_bytes - f->max_bytes / 20 },
		.wait_ms = PRUNE_MS,
	};
	struct shfs_usage usage;
	int r = shfs_store_usage(store, &usage);

	if (r || shfs_usage_total(&usage) <= f->max_bytes)
		return;
	store->on_dropped = follower_dropped;
	r = shfs_prune_run(&prune);
	if (!r && shfs_usage_total(&prune.after) > f->max_bytes)
		r = -EDQUOT;
	if (r && r != f->last_prune_error)
		follower_log(store, "the store is larger than [store] max-size", r);
	f->last_prune_error = r;
}

static void follower_ingest(struct follower *f)
{
	_cleanup_store_ struct shfs_store *store = NULL;
	_cleanup_index_ struct shfs_index *index = NULL;
	int r;

	if (shfs_store_open(f->store_path, 0, &store))
		return; /* the store was removed, or its disk is gone: no log */
	debugged = store;
	shfs_debug_to(follower_debug);
	r = shfs_index_open(store, SHFS_INDEX_WRITE, &index);
	if (!r)
		r = shfs_index_ingest(index, f->hook_dir, NULL);
	if (!r)
		follower_read_limit(f);
	if (!r && f->max_bytes)
		follower_prune(f, store, index);
	if (r && r != f->last_error)
		follower_log(store, "the index is not up to date", r);
	f->last_error = r;
	debugged = NULL;
}

static bool same_mounts(const struct follower *f, const struct shfs_mounts *mounts)
{
	if (f->n_ids != mounts->n)
		return false;
	for (size_t i = 0; i < mounts->n; i++)
		if (f->ids[i] != mounts->list[i].mount_id)
			return false;
	return true;
}

static void follower_forget(struct follower *f)
{
	for (size_t i = 0; i < f->n_daemons; i++)
		shfs_closep(&f->daemons[i]);
	free(f->daemons);
	free(f->ids);
	f->daemons = f->ids = NULL;
	f->n_daemons = f->n_ids = 0;
}

/* Remembers the daemons by pidfds, as a pid may be used again. */
static int follower_remember(struct follower *f, const struct shfs_mounts *mounts)
{
	follower_forget(f);
	f->ids = calloc(mounts->n + 1, sizeof(*f->ids));
	f->daemons = calloc(mounts->n + 1, sizeof(*f->daemons));
	if (!f->ids || !f->daemons)
		return -ENOMEM;
	for (size_t i = 0; i < mounts->n; i++) {
		const struct shfs_mount *m = &mounts->list[i];
		int fd = -1;

		f->ids[f->n_ids++] = m->mount_id;
		if (shfs_mount_is_of_store(m, f->store_path))
			fd = pidfd_open(m->status.pid, 0);
		if (fd >= 0)
			f->daemons[f->n_daemons++] = fd;
	}
	return 0;
}

static bool has_pidfd_ended(int pidfd)
{
	struct pollfd p = { pidfd, POLLIN, 0 };

	return poll(&p, 1, 0) == 1;
}

/* Waits for the daemons: they write their last records after the unmount. */
static void wait_for_daemons(const struct follower *f)
{
	int64_t until = shfs_clock_ns(CLOCK_MONOTONIC) + DRAIN_MS * 1000000LL;

	for (size_t i = 0; i < f->n_daemons; i++) {
		struct pollfd p = { f->daemons[i], POLLIN, 0 };
		int64_t left = until - shfs_clock_ns(CLOCK_MONOTONIC);

		if (left > 0)
			poll(&p, 1, (int)(left / 1000000));
	}
}

/*
 * Looks at the mounts again, if their table has changed. Daemons are asked only then,
 * because one that hangs would keep this process forever. 1: there is a mount to follow.
 */
static int follower_look(struct follower *f)
{
	_cleanup_mounts_ struct shfs_mounts mounts = { 0 }, asked = { 0 };
	int r = shfs_mounts_list(0, NULL, &mounts);
	size_t n_alive = 0;

	if (r)
		return r;
	if (!same_mounts(f, &mounts)) {
		r = shfs_mounts_list(SHFS_MOUNTS_ASK, f->store_path, &asked);
		if (r)
			return r;
		for (size_t i = 0; i < asked.n; i++)
			n_alive += shfs_mount_is_of_store(&asked.list[i], f->store_path);
		if (!n_alive)
			wait_for_daemons(f);
		r = follower_remember(f, &asked);
		if (r)
			return r;
	}
	for (size_t i = 0; i < f->n_daemons; i++)
		if (!has_pidfd_ended(f->daemons[i]))
			return 1;
	return 0;
}

static int64_t now_ms(void)
{
	return shfs_clock_ns(CLOCK_MONOTONIC) / 1000000;
}

/*
 * Watches the hooks' directory, used if the store may hang. It is removed at logout and
 * may come back: so hook logs are copied soon, and the watch is renewed in each round.
 */
static void follower_watch(struct follower *f)
{
	uint32_t events = IN_MODIFY | IN_CREATE | IN_MOVED_TO | IN_ONLYDIR;

	free(f->hook_dir);
	f->hook_dir = shfs_runtime_hook_dir(f->store_path);
	/* before the first shell needs it */
	if (f->hook_dir && shfs_store_may_hang(f->store_path))
		(void)!shfs_mkdir_p_at(AT_FDCWD, f->hook_dir, 0700);
	shfs_closep(&f->changes);
	f->changes = f->hook_dir ? inotify_init1(IN_CLOEXEC | IN_NONBLOCK) : -1;
	if (f->changes >= 0 && inotify_add_watch(f->changes, f->hook_dir, events) < 0) {
		shfs_closep(&f->changes);
		f->changes = -1;
	}
}

static void follower_copy(struct follower *f)
{
	_cleanup_store_ struct shfs_store *store = NULL;
	char events[4096];

	/* all events at once: later ones are for the next copy */
	while (read(f->changes, events, sizeof(events)) > 0)
		;
	if (shfs_store_open(f->store_path, 0, &store))
		return;
	/* the next round reports errors */
	(void)!shfs_runtime_collect(store, f->hook_dir);
}

/* Sleeps until then, or until the table of mounts changes, or a daemon ends (it need not
 * have a mount); copies hook logs meanwhile. */
static void follower_sleep(struct follower *f, int64_t until_ms)
{
	struct pollfd p[2 + f->n_daemons];
	size_t n = 0;
	int64_t ms;

	p[n++] = (struct pollfd){ f->mountinfo, POLLPRI, 0 };
	for (size_t i = 0; i < f->n_daemons; i++)
		if (!has_pidfd_ended(f->daemons[i]))
			p[n++] = (struct pollfd){ f->daemons[i], POLLIN, 0 };
	p[n] = (struct pollfd){ f->changes, POLLIN, 0 };
	while ((ms = until_ms - now_ms()) > 0) {
		/* other changes can wait as long as the hooks */
		if (poll(p, n + 1, (int)ms) <= 0 || !p[n].revents || poll(p, n, COPY_MS))
			return;
		follower_copy(f);
	}
}

static int follower_wait_first(struct follower *f)
{
	int64_t until = now_ms() + FIRST_WAIT_MS;
	int r;

	while (!(r = follower_look(f)) && now_ms() < until)
		follower_sleep(f, until);
	return r;
}

/* Runs rounds until no mount of the store is left. */
static int follower_rounds(struct follower *f)
{
	int64_t due = 0;
	int r;

	while ((r = follower_look(f)) > 0) {
		if (now_ms() >= due) {
			follower_watch(f); /* before copying, so that nothing is missed */
			follower_ingest(f);
			malloc_trim(0); /* free the memory of a long round; this
			                 * process may live for weeks */
			due = now_ms() + ROUND_MS;
		}
		follower_sleep(f, due);
	}
	follower_ingest(f);
	return r;
}

/*
 * Runs under the lock, then looks once more without it:
 * 1. The last round runs.
 * 2. A mount is made, and starts another background ingest. That finds the lock taken,
 *    and ends.
 * 3. This process would end, too, and the new mount would have none.
 */
static int follower_run(struct follower *f)
{
	int r = follower_lock(f);

	if (!r)
		r = follower_wait_first(f);
	while (r > 0) {
		r = follower_rounds(f);
		close(TAKE_FD(f->lock));
		follower_forget(f);
		if (!r)
			r = follower_look(f);
		if (r > 0 && follower_lock(f))
			return 0;
	}
	return r == -EADDRINUSE ? 0 : r;
}

static int follow_journal(struct shfs_context *ctx)
{
	struct follower f = { .mountinfo = -1, .changes = -1, .lock = -1 };
	int r;

	f.config_path = ctx->config_option ? shfs_path_absolute(ctx->config_option)
	                                   : shfs_path_config();
	f.store_path = shfs_context_store_path(ctx);
	prctl(PR_SET_NAME, "shfs-ingest");
	setpriority(PRIO_PROCESS, 0, 19);
	/* it outlives the shell with these limits */
	shfs_proc_raise_limit(RLIMIT_FSIZE);
	shfs_proc_raise_limit(RLIMIT_CPU);
	if (chdir("/"))
		return SHFS_EXIT_FAILURE;
	f.mountinfo = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
	r = f.mountinfo < 0 ? -errno : follower_run(&f);
	follower_forget(&f);
	shfs_closep(&f.lock);
	shfs_closep(&f.mountinfo);
	shfs_closep(&f.changes);
	free(f.hook_dir);
	free(f.config_path);
	if (r >= 0)
		return SHFS_EXIT_OK;
	shfs_error("no background ingest: %s", strerror(-r));
	return SHFS_EXIT_FAILURE;
}

static int run_ingest(struct shfs_context *ctx, int argc, char **argv)
{
	int code = SHFS_EXIT_OK;

	if (opts.follow)
		return follow_journal(ctx);
	return shfs_context_index(ctx, &code) ? SHFS_EXIT_OK : code;
}

const struct shfs_command shfs_cmd_ingest = {
	.name = "ingest",
	.args = "",
	.summary = "Ingest the journal into the index",
	.description =
		"Every query does this first. shfs mount starts it with --follow in\n"
		"the background, once for each store.",
	.alone = true,
	.options = {
	{ "follow", 0, NULL, "repeat while something is mounted", .flag = &opts.follow },
	},
	.hidden = true,
	.run = run_ingest,
};
