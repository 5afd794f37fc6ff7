/* SPDX-License-Identifier: MIT */
#include "kmod-fast-path/recorder/baseline.h"

#include "common/io.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define NICE          19
#define IOPRIO_IDLE   (3 << 13) /* ioprio_set(2): class idle */
#define IOPRIO_THREAD 1

struct shfs_baseline {
	struct shfs_recorder *recorder;
	pthread_t thread;
	atomic_bool ending;
};

/* path: relative to the root. */
static void record_found_file(struct shfs_recorder *r, const char *path, int fd,
                              const struct stat *st)
{
	const struct shfs_event_file file = shfs_contents_file(st, 0);
	struct shfs_held held = shfs_contents_found(r->contents, fd, &file);
	struct shfs_snapshot *content[2] = { held.snapshot, NULL };
	struct shfs_record rec = {
		.type = SHFS_REC_PREIMAGE,
		.preimage = {
			.path = { path, strlen(path) },
			.ino = file.ino,
		},
	};

	if (held.snapshot)
		shfs_capture_emit(r->capture, &rec, content);
	shfs_snapshot_unref(held.snapshot);
}

static void archive_found_file(struct shfs_recorder *r, const char *path)
{
	bool secret = shfs_project_rules_is_secret(&r->rules, path, false);
	_cleanup_close_ int fd = -1;
	struct stat st;

	if (!secret &&
	    shfs_project_rules_match(&r->rules, path) != SHFS_RULE_ARCHIVE_READ)
		return;
	fd = openat(r->root_fd, path,
	            O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC);
	if (fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode) &&
	    (uint64_t)st.st_size <= r->config.read_max_bytes) {
		if (secret)
			shfs_contents_learn_secret(r->contents, fd);
		else
			record_found_file(r, path, fd, &st);
	}
}

/* Is nothing archived below this directory, and no secret to be learned there? */
static bool is_passed_over(struct shfs_recorder *r, const char *path)
{
	return !shfs_project_rules_is_secret(&r->rules, path, true) &&
	       shfs_project_rules_match(&r->rules, path) == SHFS_RULE_IGNORE;
}

static void *walk_project(void *arg)
{
	struct shfs_baseline *b = arg;
	struct shfs_recorder *r = b->recorder;
	char *paths[] = { r->root, NULL };
	FTS *fts = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR | FTS_NOSTAT, NULL);
	size_t skip = strlen(r->root) + 1;
	FTSENT *entry;

	pthread_setname_np(pthread_self(), "baseline");
	setpriority(PRIO_PROCESS, (id_t)gettid(), NICE);
	(void)!syscall(SYS_ioprio_set, IOPRIO_THREAD, 0, IOPRIO_IDLE);
	while (fts && !atomic_load(&b->ending) && (entry = fts_read(fts))) {
		const char *path = entry->fts_path + skip;

		if (entry->fts_pathlen < skip)
			continue;
		if (entry->fts_info == FTS_D &&
		    ((r->hidden && !strcmp(path, r->hidden)) || is_passed_over(r, path)))
			fts_set(fts, entry, FTS_SKIP);
		else if (entry->fts_info == FTS_F || entry->fts_info == FTS_NSOK)
			archive_found_file(r, path);
	}
	if (fts)
		fts_close(fts);
	return NULL;
}

int shfs_baseline_begin(struct shfs_recorder *recorder, struct shfs_baseline **out)
{
	_cleanup_free_ struct shfs_baseline *b = calloc(1, sizeof(*b));
	int r;

	if (!b)
		return -ENOMEM;
	b->recorder = recorder;
	r = -pthread_create(&b->thread, NULL, walk_project, b);
	if (!r)
		*out = TAKE_PTR(b);
	return r;
}

void shfs_baseline_end(struct shfs_baseline *b)
{
	if (!b)
		return;
	atomic_store(&b->ending, true);
	pthread_join(b->thread, NULL);
	free(b);
}
