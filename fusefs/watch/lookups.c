/* SPDX-License-Identifier: MIT */
#include "fusefs/watch/lookups.h"

#include "common/clock.h"
#include "fusefs/fs.h"
#include "fusefs/nodes/node.h"
#include "fusefs/watch/caller.h"
#include "store/objects/object.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <uthash.h>

#define KEPT_MAX 1024 /* names, then they are emitted */
#define KEPT_NS  200000000
#define SEEN_MAX (1u << 18) /* then each may be told again */

/* One name, which owns its strings. */
struct kept {
	uint64_t process;
	enum shfs_found found;
	char *path, *text;
};

/* A name that was kept so far, emitted or not: the hash of it and of what was found. */
struct seen {
	uint64_t key;
	UT_hash_handle hh;
};

struct shfs_lookups {
	pthread_mutex_t lock;
	struct seen *seen;
	struct kept *list; /* KEPT_MAX */
	size_t n;
	int64_t first_ns; /* CLOCK_MONOTONIC, when the first of the list came */
};

struct shfs_lookups *shfs_lookups_new(void)
{
	struct shfs_lookups *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	pthread_mutex_init(&l->lock, NULL);
	l->list = calloc(KEPT_MAX, sizeof(*l->list));
	if (l->list)
		return l;
	shfs_lookups_free(l);
	return NULL;
}

static void forget_seen(struct shfs_lookups *l)
{
	struct seen *seen, *next;

	HASH_ITER (hh, l->seen, seen, next) {
		HASH_DEL(l->seen, seen);
		free(seen);
	}
}

static void free_list(struct kept *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(list[i].path);
		free(list[i].text);
	}
	free(list);
}

void shfs_lookups_free(struct shfs_lookups *l)
{
	if (!l)
		return;
	forget_seen(l);
	free_list(l->list, l->n);
	pthread_mutex_destroy(&l->lock);
	free(l);
}

/* Lock held. Was it kept before? Adds it to what was. */
static bool was_seen(struct shfs_lookups *l, const struct shfs_buf *path,
                     enum shfs_found found)
{
	uint64_t key = shfs_object_hash64(path->data ?: "", path->len) + found;
	struct seen *seen;

	HASH_FIND(hh, l->seen, &key, sizeof(key), seen);
	if (seen)
		return true;
	if (HASH_COUNT(l->seen) >= SEEN_MAX)
		forget_seen(l);
	seen = malloc(sizeof(*seen));
	if (seen) {
		seen->key = key;
		HASH_ADD(hh, l->seen, key, sizeof(key), seen);
		if (!seen->hh.tbl) /* no memory: it may be told again */
			free(seen);
	}
	return false;
}

/* --- records --- */

static int compare_kept(const void *a, const void *b)
{
	const struct kept *x = a, *y = b;

	if (x->process != y->process)
		return x->process < y->process ? -1 : 1;
	return strcmp(x->path, y->path) ?: (int)x->found - (int)y->found;
}

/* Emits one record of names of one process. */
static void emit_names(struct shfs_fs *fs, const struct kept *list, size_t n)
{
	_cleanup_buf_ struct shfs_buf names = { 0 }, last = { 0 };
	struct shfs_record rec = { .type = SHFS_REC_LOOKUP };

	for (size_t i = 0; i < n; i++)
		shfs_lookup_add(&names, &last,
		                &(struct shfs_lookup){
					.found = list[i].found,
					.path = shfs_bytes_str(list[i].path),
					.text = shfs_bytes_str(list[i].text),
				});
	if (names.failed) {
		shfs_capture_lose(fs->capture, -ENOMEM);
		return;
	}
	rec.lookup = (struct shfs_rec_lookup){
		.process = list->process,
		.list = { names.data, names.len },
	};
	shfs_capture_emit(fs->capture, &rec, NULL);
}

/* Sorts and emits the list, and frees it. No lock held: the capture may wait for room. */
static void emit_list(struct shfs_fs *fs, struct kept *list, size_t n)
{
	qsort(list, n, sizeof(*list), compare_kept);
	for (size_t i = 0, end; i < n; i = end) {
		for (end = i + 1; end < n && list[end].process == list[i].process; end++)
			;
		emit_names(fs, &list[i], end - i);
	}
	free_list(list, n);
}

/* Lock held. Takes the list, and leaves an empty one. NULL: there is no memory for it, or
 * nothing in it. */
static struct kept *take_list(struct shfs_lookups *l, size_t *n)
{
	struct kept *empty = l->n ? calloc(KEPT_MAX, sizeof(*empty)) : NULL;
	struct kept *list = empty ? l->list : NULL;

	*n = empty ? l->n : 0;
	if (empty) {
		l->list = empty;
		l->n = 0;
	}
	return list;
}

void shfs_lookups_flush(struct shfs_fs *fs)
{
	struct shfs_lookups *l = fs->lookups;
	struct kept *list;
	size_t n;

	if (!l)
		return;
	pthread_mutex_lock(&l->lock);
	list = take_list(l, &n);
	pthread_mutex_unlock(&l->lock);
	if (list)
		emit_list(fs, list, n);
}

/* --- what is found --- */

/* Lock held. False: there is no room or no memory. */
static bool keep(struct shfs_lookups *l, uint64_t process, struct shfs_buf *path,
                 enum shfs_found found, const char *text)
{
	struct kept *at = &l->list[l->n];

	if (l->n == KEPT_MAX)
		return false;
	*at = (struct kept){
		.process = process,
		.found = found,
		.path = path->len ? shfs_buf_take(path) : strdup(""),
		.text = text ? strdup(text) : NULL,
	};
	if (!at->path || (text && !at->text)) {
		free(at->path);
		free(at->text);
		return false;
	}
	if (!l->n++)
		l->first_ns = shfs_clock_ns(CLOCK_MONOTONIC_COARSE);
	return true;
}

void shfs_lookups_note(struct shfs_fs *fs, uint32_t tid, const struct shfs_node *node,
                       const char *name, enum shfs_found found, const char *text)
{
	struct shfs_lookups *l = fs->lookups;
	_cleanup_buf_ struct shfs_buf path = { 0 };
	bool kept, is_due, seen;
	uint64_t process;

	if (!l)
		return;
	shfs_tree_lock_read(fs->tree);
	shfs_node_path(node, name, &path);
	shfs_tree_unlock(fs->tree);
	pthread_mutex_lock(&l->lock);
	seen = !path.failed && was_seen(l, &path, found);
	pthread_mutex_unlock(&l->lock);
	if (seen)
		return;
	process = shfs_caller_process(fs->callers, tid); /* reads /proc */
	pthread_mutex_lock(&l->lock);
	kept = !path.failed && keep(l, process, &path, found, text);
	is_due = l->n == KEPT_MAX ||
	         shfs_clock_ns(CLOCK_MONOTONIC_COARSE) - l->first_ns > KEPT_NS;
	pthread_mutex_unlock(&l->lock);
	if (!kept)
		shfs_capture_lose(fs->capture, -ENOMEM);
	if (is_due)
		shfs_lookups_flush(fs);
}

void shfs_lookups_note_mode(struct shfs_fs *fs, uint32_t tid,
                            const struct shfs_node *node, const char *name, uint32_t mode)
{
	enum shfs_found found = S_ISREG(mode)   ? SHFS_FOUND_FILE
	                        : S_ISDIR(mode) ? SHFS_FOUND_DIRECTORY
	                        : S_ISLNK(mode) ? SHFS_FOUND_LINK
	                                        : SHFS_FOUND_OTHER;

	shfs_lookups_note(fs, tid, node, name, found, NULL);
}
