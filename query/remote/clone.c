/* SPDX-License-Identifier: MIT */
#include "query/remote/clone.h"

#include "common/io.h"
#include "query/remote/elsewhere.h"
#include "query/remote/fetch.h"
#include "store/journal/archived.h"
#include "store/journal/journal.h"
#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CLONING    "cloning"    /* below remote/NAME */
#define INSTALLING "installing" /* all is fetched, and gets its names */
#define METADATA   "metadata"   /* all but contents, which stay there */
#define DAMAGED    "damaged"    /* not all of it is what is there */

struct clone {
	struct clone_options options;
	int dirfd; /* the store's directory */
	int lock;
	struct place place; /* remote/NAME there */
	int cloning, lists; /* lists: of the contents of packs */
	struct manifest now;
	uint64_t files, damaged, away;
	bool is_whole; /* the files are what the remote has */
};

void clone_free(struct clone *clone)
{
	if (!clone)
		return;
	clone->place.name = NULL; /* borrowed */
	clone->place.url = NULL;
	place_close(&clone->place);
	manifest_clear(&clone->now);
	shfs_closep(&clone->cloning);
	shfs_closep(&clone->lists);
	shfs_closep(&clone->lock);
	shfs_closep(&clone->dirfd);
	free(clone);
}

const struct remote_head *clone_head(const struct clone *clone)
{
	return &clone->now.head;
}

uint64_t clone_files(const struct clone *clone)
{
	return clone->files;
}

uint64_t clone_damaged(const struct clone *clone)
{
	return clone->damaged;
}

uint64_t clone_away(const struct clone *clone)
{
	return clone->away;
}

/* Which files the store gets; NULL: it is not one of them. */
static const char *cloned_path(const struct clone *c, const struct remote_file *file)
{
	enum file_kind kind = file_kind_of(file->name);

	return c->options.metadata && elsewhere_may_stay(kind)
	               ? NULL
	               : file_path(file->name, kind);
}

uint64_t clone_bytes(const struct clone *clone)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < clone->now.n; i++)
		if (cloned_path(clone, &clone->now.files[i]))
			bytes += clone->now.files[i].bytes;
	return bytes;
}

/* --- the directories --- */

static bool has(int dirfd, const char *name)
{
	return !faccessat(dirfd, name, F_OK, AT_SYMLINK_NOFOLLOW);
}

static int open_below(int dirfd, const char *path)
{
	int r = shfs_mkdir_p_at(dirfd, path, 0700), fd;

	if (r)
		return r;
	fd = openat(dirfd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* The store is the user's alone, also if its directory was made before. */
static int tighten(int dirfd)
{
	struct stat st;

	if (fstat(dirfd, &st))
		return -errno;
	if (st.st_uid != geteuid())
		return -EPERM;
	return st.st_mode & 077 && fchmod(dirfd, 0700) ? -errno : 0;
}

/* Is there a store that no clone has begun? Before, a hook may have made its own
 * directories. */
static bool is_taken(int dirfd, const char *name)
{
	char path[PLACE_NAME_MAX + 20], installing[PLACE_NAME_MAX + 40];

	snprintf(path, sizeof(path), "remote/%s", name);
	snprintf(installing, sizeof(installing), "%s/" INSTALLING, path);
	return (has(dirfd, "format") && !has(dirfd, installing)) ||
	       (has(dirfd, "objects") && !has(dirfd, path));
}

int clone_check(const char *store, const char *name)
{
	_cleanup_close_ int dirfd = open(store, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (dirfd < 0)
		return errno == ENOENT ? 0 : -errno;
	return is_taken(dirfd, name) ? -EEXIST : 0;
}

/* Opens the directory of the store to be, and what is known of the remote there. */
static int open_directories(struct clone *c)
{
	char path[PLACE_NAME_MAX + 20];
	int r = shfs_mkdir_p_at(AT_FDCWD, c->options.store, 0700);

	if (r)
		return r;
	c->dirfd = open(c->options.store, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (c->dirfd < 0)
		return -errno;
	c->lock = shfs_store_lock(c->options.store, "remote", 0);
	if (c->lock < 0)
		return c->lock == -EADDRINUSE ? -EBUSY : c->lock;
	if (is_taken(c->dirfd, c->options.name))
		return -EEXIST;
	r = tighten(c->dirfd);
	if (r)
		return r;
	snprintf(path, sizeof(path), "remote/%s", c->options.name);
	r = c->place.dirfd = open_below(c->dirfd, path);
	if (r < 0)
		return r;
	c->place.name = (char *)c->options.name;
	c->place.url = (char *)c->options.url;
	r = c->cloning = open_below(c->place.dirfd, CLONING);
	return MIN(r, 0);
}

/* --- fetching --- */

static int fetch_all(struct clone *c, struct fetcher *f)
{
	int r = 0;

	for (size_t i = 0; i < c->now.n && !r; i++) {
		const struct remote_file *file = &c->now.files[i];
		const char *path = cloned_path(c, file);
		const bool is_list =
			c->options.metadata && file_kind_of(file->name) == FILE_CONTENTS;

		if (!path && !is_list && file_kind_of(file->name) != FILE_ALIVE)
			continue;
		if (is_list)
			f->all_bytes += file->bytes;
		r = fetch_file(f, file, is_list ? c->lists : c->cloning,
		               path ?: file->name, NULL);
		if (r > 0)
			r = 0; /* it is counted */
		c->files += path != NULL;
	}
	c->damaged = f->damaged;
	return r == -ENOENT ? -ENODATA : r;
}

/* Notes the remote as it is now: the next push goes on from there. */
static int note_remote(struct clone *c)
{
	int r = place_note(c->place.dirfd, c->options.url, c->options.encryption);

	return r ? r : place_write(&c->place, "pushed", &c->now);
}

/* Notes that all is fetched. */
static int note_fetched(struct clone *c)
{
	char how[sizeof(METADATA " " DAMAGED)];

	snprintf(how, sizeof(how), "%s%s", c->options.metadata ? METADATA : "all",
	         c->is_whole ? "" : " " DAMAGED);
	return place_add_line(&c->place, INSTALLING, how);
}

/* Reads what an interrupted clone has fetched, with contents or without. */
static int read_installing(struct clone *c)
{
	_cleanup_buf_ struct shfs_buf how = { 0 };
	int r = place_read_lines(&c->place, INSTALLING, &how);

	if (!r)
		r = place_read(&c->place, "pushed", &c->now);
	if (r)
		return r;
	c->options.metadata = how.len && !strncmp(how.data, METADATA, strlen(METADATA));
	c->is_whole = how.len && !strstr(how.data, DAMAGED);
	if (c->options.metadata && c->lists < 0)
		c->lists = elsewhere_lists(&c->place, c->now.head.store_id);
	return c->options.metadata ? MIN(c->lists, 0) : 0;
}

int clone_fetch(struct shfs_remote *remote, const char *store_id, uint64_t generation,
                const struct clone_options *options, struct clone **out)
{
	struct clone *c = calloc(1, sizeof(*c));
	struct fetcher f = { .remote = remote,
		             .store_id = store_id,
		             .despite_damage = options->despite_damage,
		             .progress = options->progress };
	int r;

	if (!c)
		return -ENOMEM;
	*c = (struct clone){ .options = *options,
		             .dirfd = -1,
		             .lock = -1,
		             .place.dirfd = -1,
		             .cloning = -1,
		             .lists = -1 };
	*out = c;
	r = open_directories(c);
	if (!r && options->metadata)
		r = MIN(c->lists = elsewhere_lists(&c->place, store_id), 0);
	if (!r && has(c->place.dirfd, INSTALLING)) /* all was fetched by then */
		return read_installing(c);
	if (!r)
		r = head_fetch(remote, store_id, generation, NULL, &c->now);
	if (!r)
		r = head_fetch_lists(remote, NULL, &c->now,
		                     options->despite_damage ? &f.damaged : NULL);
	f.all_bytes = clone_bytes(c);
	if (!r && !manifest_find(&c->now, "store/format"))
		r = -EBADMSG;
	if (!r)
		r = fetch_all(c, &f);
	if (!r)
		r = note_remote(c);
	if (!r && syncfs(c->cloning))
		r = -errno;
	c->is_whole = !f.damaged;
	if (!r)
		r = note_fetched(c);
	fetcher_clear(&f);
	return r;
}

/* --- installing --- */

/* Gives a file its name in the store, unless it has it already. */
static int install(struct clone *c, const char *path)
{
	const char *slash = strrchr(path, '/');
	_cleanup_free_ char *dir = slash ? strndup(path, (size_t)(slash - path)) : NULL;
	int r = 0;

	if (slash && !dir)
		return -ENOMEM;
	if (!has(c->cloning, path))
		return 0;
	if (dir)
		r = shfs_mkdir_p_at(c->dirfd, dir, 0700);
	if (!r && renameat(c->cloning, path, c->dirfd, path))
		r = -errno;
	return r;
}

/* Notes the contents that stay there. */
static int note_elsewhere(struct clone *c)
{
	struct shfs_store store = { .dirfd = c->dirfd }; /* there is none yet */
	struct place place = { .store = &store, .dirfd = c->place.dirfd };
	_cleanup_objects_ struct shfs_objects objects = { 0 };
	_cleanup_manifest_ struct manifest away = { .head = c->now.head };
	int r = 0;

	for (size_t i = 0; i < c->now.n && !r; i++)
		if (elsewhere_may_stay(file_kind_of(c->now.files[i].name)) &&
		    !manifest_add_copy(&away, &c->now.files[i]))
			r = -ENOMEM;
	if (!r)
		r = elsewhere_objects(c->lists, &away, &objects);
	shfs_objects_sort(&objects);
	c->away = objects.n;
	return r ? r : elsewhere_change(&place, c->now.head.store_id, &away, -1);
}

/* Notes by what the files here are known to be those that are there: nothing of them is
 * new to it, and the first push need not read them. */
static int note_states(struct clone *c)
{
	for (size_t i = 0; i < c->now.n && c->is_whole; i++) {
		struct remote_file *file = &c->now.files[i];
		const char *path = cloned_path(c, file);
		struct stat st;

		if (path && !fstatat(c->dirfd, path, &st, AT_SYMLINK_NOFOLLOW) &&
		    (uint64_t)st.st_size == file->bytes)
			file->state = file_state_of(&st);
	}
	return place_write(&c->place, "pushed", &c->now);
}

static int install_all(struct clone *c)
{
	int r = 0;

	for (size_t i = 0; i < c->now.n && !r; i++) {
		const char *path = cloned_path(c, &c->now.files[i]);

		if (path && strcmp(path, "format") != 0)
			r = install(c, path);
	}
	if (!r && c->options.metadata)
		r = note_elsewhere(c);
	if (!r)
		r = note_states(c);
	/* all of it is durable before there is a store */
	if (!r && syncfs(c->dirfd))
		r = -errno;
	if (!r)
		r = install(c, "format");
	return !r && fsync(c->dirfd) ? -errno : r;
}

/* --- recordings that had not ended --- */

static int read_alive_segment(struct shfs_store *store, const char *host,
                              const char *name, struct archived *out)
{
	_cleanup_buf_ struct shfs_buf path = { 0 };
	_cleanup_close_ int dirfd = -1;
	struct shfs_segment *segment;
	struct shfs_record rec;
	uint64_t seq = 0;
	int r;

	if (!shfs_journal_is_host(host) || strchr(name, '/'))
		return -EINVAL;
	shfs_buf_printf(&path, "journal/%s", host);
	if (path.failed)
		return -ENOMEM;
	dirfd = openat(store->dirfd, path.data, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dirfd < 0)
		return -errno;
	r = shfs_segment_open(dirfd, name, 0, &segment);
	if (r)
		return r;
	while ((r = shfs_segment_next(segment, &rec)) > 0)
		seq = MAX(seq, rec.seq);
	if (!r)
		r = archived_set(out, host, shfs_segment_producer(segment)->instance,
		                 seq);
	shfs_segment_close(segment);
	return r;
}

static int note_alive(struct clone *c, struct shfs_store *store)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };
	char *rest = NULL;
	int r = shfs_read_file_at(c->cloning, "made/alive", 1u << 30, &text);

	if (r || !text.len)
		return r == -ENOENT ? 0 : r;
	for (char *line = strtok_r(text.data, "\n", &rest); line && !r;
	     line = strtok_r(NULL, "\n", &rest)) {
		char *slash = strchr(line, '/');
		struct archived archived;

		if (!slash)
			continue;
		*slash = '\0';
		/* one that cannot be read counts as one that ended unexpectedly */
		if (!read_alive_segment(store, line, slash + 1, &archived))
			r = archived_add(store, &archived, 1);
	}
	return r;
}

int clone_finish(struct clone *c)
{
	_cleanup_store_ struct shfs_store *store = NULL;
	int r = install_all(c);

	if (!r)
		r = shfs_store_open(c->options.store, SHFS_STORE_CREATE, &store);
	if (!r)
		r = note_alive(c, store);
	if (!r)
		r = place_remove_file(&c->place, CLONING);
	return r ? r : place_remove_file(&c->place, INSTALLING);
}
