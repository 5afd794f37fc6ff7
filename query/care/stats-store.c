/* SPDX-License-Identifier: MIT */
#include "query/care/stats-store.h"

#include "common/ids.h"
#include "query/base/json.h"
#include "query/base/model.h"
#include "store/objects/collect.h"
#include "store/objects/inventory.h"
#include "store/objects/usage.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

struct object {
	struct shfs_object_id id;
	uint64_t size, stored;
	int64_t file_id; /* that counted it last */
};

struct path_usage {
	char *path; /* of a file, or a directory; owned */
	uint64_t stored;
};

struct store_stats {
	struct shfs_usage usage;
	struct object *objects;
	size_t n, cap;
	uint64_t loose, deltas, content_bytes, stored_bytes;
	uint64_t versions, version_bytes; /* whose content is in the store */
	struct path_usage *files, *dirs;
	size_t n_files, cap_files, n_dirs;
};

static void stats_free(struct store_stats *s)
{
	for (size_t i = 0; i < s->n_files; i++)
		free(s->files[i].path);
	for (size_t i = 0; i < s->n_dirs; i++)
		free(s->dirs[i].path);
	free(s->files);
	free(s->dirs);
	free(s->objects);
}

static int add_object(void *arg, const struct shfs_stored *o)
{
	struct store_stats *s = arg;

	if (s->n == s->cap) {
		size_t cap = MAX(s->cap * 2, (size_t)1024);
		struct object *more = reallocarray(s->objects, cap, sizeof(*more));

		if (!more)
			return -ENOMEM;
		s->objects = more;
		s->cap = cap;
	}
	s->objects[s->n++] = (struct object){ o->id, o->size, o->stored, 0 };
	s->loose += o->loose;
	s->deltas += o->delta;
	return 0;
}

static int compare_measured_objects(const void *a, const void *b)
{
	return shfs_object_compare(&((const struct object *)a)->id,
	                           &((const struct object *)b)->id);
}

/* An object that is stored twice counts once, with the size of both. */
static void merge_objects(struct store_stats *s)
{
	size_t n = 0;

	if (s->n)
		qsort(s->objects, s->n, sizeof(*s->objects), compare_measured_objects);
	for (size_t i = 0; i < s->n; i++) {
		s->stored_bytes += s->objects[i].stored;
		if (n && !compare_measured_objects(&s->objects[i], &s->objects[n - 1])) {
			s->objects[n - 1].stored += s->objects[i].stored;
			continue;
		}
		s->content_bytes += s->objects[i].size;
		s->objects[n++] = s->objects[i];
	}
	s->n = n;
}

static struct path_usage *add_measured_place(struct path_usage **list, size_t *n,
                                             size_t *cap, const char *path, size_t len)
{
	struct path_usage *p;

	if (*n == *cap) {
		size_t more = MAX(*cap * 2, (size_t)256);

		p = reallocarray(*list, more, sizeof(*p));
		if (!p)
			return NULL;
		*list = p;
		*cap = more;
	}
	p = &(*list)[*n];
	*p = (struct path_usage){ .path = strndup(path, len) };
	*n += p->path != NULL;
	return p->path ? p : NULL;
}

/* Lists the versions that a rename took to another name: they count there, and names that
 * programs write to before they rename them take nothing. */
static int list_renamed(struct shfs_index *index, struct shfs_ids *out)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open(index,
	                       "SELECT origin_version_id FROM v_version"
	                       " WHERE origin_version_id IS NOT NULL"
	                       " AND (carried OR source = 'renamed')",
	                       &rows);

	while (!r && (r = shfs_rows_next(rows)) > 0)
		r = shfs_ids_add(out, shfs_rows_int(rows, 0));
	shfs_ids_sort(out);
	return r;
}

static int count_versions(struct store_stats *s, struct shfs_index *index)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	_cleanup_ids_ struct shfs_ids renamed = { 0 };
	struct path_usage *file = NULL;
	int64_t last = 0;
	int r = list_renamed(index, &renamed);

	if (!r)
		r = shfs_rows_open(index,
		                   "SELECT v.file_id, v.path, v.object, v.size,"
		                   " v.version_id FROM v_version v"
		                   " WHERE v.object IS NOT NULL ORDER BY v.file_id",
		                   &rows);
	while (!r && (r = shfs_rows_next(rows)) > 0) {
		struct object key = { 0 }, *o;
		int64_t file_id = shfs_rows_int(rows, 0);

		r = shfs_object_parse(shfs_rows_text(rows, 2), &key.id);
		o = s->n ? bsearch(&key, s->objects, s->n, sizeof(key),
		                   compare_measured_objects)
		         : NULL;
		if (r || !o)
			continue;
		s->versions++;
		s->version_bytes += (uint64_t)shfs_rows_int(rows, 3);
		if (shfs_ids_has(&renamed, shfs_rows_int(rows, 4)))
			continue;
		if (file_id != last || !file) {
			last = file_id;
			file = add_measured_place(&s->files, &s->n_files, &s->cap_files,
			                          shfs_rows_text(rows, 1),
			                          shfs_rows_bytes(rows, 1));
			if (!file)
				return -ENOMEM;
		}
		if (o->file_id != file_id)
			file->stored += o->stored;
		o->file_id = file_id;
	}
	return r;
}

static size_t dir_len(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? (size_t)(slash - path) : 0;
}

static int compare_dirs(const void *a, const void *b)
{
	const struct path_usage *x = a, *y = b;
	size_t n = dir_len(x->path), m = dir_len(y->path);
	int c = memcmp(x->path, y->path, MIN(n, m));

	return c ? c : (n > m) - (n < m);
}

static int compare_stored(const void *a, const void *b)
{
	const struct path_usage *x = a, *y = b;

	return (x->stored < y->stored) - (x->stored > y->stored);
}

static int sum_dirs(struct store_stats *s)
{
	struct path_usage *dir = NULL;
	size_t cap = 0;

	if (s->n_files)
		qsort(s->files, s->n_files, sizeof(*s->files), compare_dirs);
	for (size_t i = 0; i < s->n_files; i++) {
		const char *path = s->files[i].path;

		if (!dir || compare_dirs(&s->files[i], &s->files[i - 1]))
			dir = add_measured_place(&s->dirs, &s->n_dirs, &cap, path,
			                         dir_len(path));
		if (!dir)
			return -ENOMEM;
		dir->stored += s->files[i].stored;
	}
	if (s->n_files)
		qsort(s->files, s->n_files, sizeof(*s->files), compare_stored);
	if (s->n_dirs)
		qsort(s->dirs, s->n_dirs, sizeof(*s->dirs), compare_stored);
	return 0;
}

/* --- output --- */

static double ratio(uint64_t a, uint64_t b)
{
	return b ? (double)a / (double)b : 1;
}

static void line(struct shfs_buf *out, const char *label, uint64_t bytes)
{
	shfs_buf_printf(out, "%-10s", label);
	shfs_show_size(out, bytes);
	shfs_buf_char(out, '\n');
}

static void show_largest_places(struct shfs_buf *out, const char *title,
                                const struct path_usage *p, size_t n)
{
	shfs_buf_printf(out, "\n%s\n", title);
	for (size_t i = 0; i < n; i++) {
		_cleanup_buf_ struct shfs_buf size = { 0 };

		shfs_show_size(&size, p[i].stored);
		shfs_buf_printf(out, "  %10s  ", size.data ?: "");
		shfs_show_path(out, p[i].path);
		shfs_buf_char(out, '\n');
	}
}

static bool show_store_stats(const struct store_stats *s, int64_t limit)
{
	_cleanup_buf_ struct shfs_buf out = { 0 };

	line(&out, "store", shfs_usage_total(&s->usage));
	line(&out, "  journal", s->usage.journal);
	line(&out, "  objects", s->usage.objects);
	line(&out, "  index", s->usage.index);
	shfs_buf_printf(&out,
	                "%zu objects (%" PRIu64 " deltas, %" PRIu64
	                " files of their own) hold %" PRIu64 " versions\n",
	                s->n, s->deltas, s->loose, s->versions);
	shfs_buf_str(&out, "versions of ");
	shfs_show_size(&out, s->version_bytes);
	shfs_buf_printf(&out,
	                ", deduplication saves a factor of %.1f, compression %.1f\n",
	                ratio(s->version_bytes, s->content_bytes),
	                ratio(s->content_bytes, s->stored_bytes));
	show_largest_places(&out, "Files that take most", s->files,
	                    MIN(s->n_files, (size_t)limit));
	show_largest_places(&out, "Directories that take most", s->dirs,
	                    MIN(s->n_dirs, (size_t)limit));
	return shfs_show_flush(&out);
}

static void json_list(struct shfs_json *json, const char *key, const struct path_usage *p,
                      size_t n)
{
	shfs_json_array(json, key);
	for (size_t i = 0; i < n; i++) {
		shfs_json_object(json, NULL);
		shfs_json_str(json, "path", p[i].path);
		shfs_json_int(json, "stored", (int64_t)p[i].stored);
		shfs_json_object_end(json);
	}
	shfs_json_array_end(json);
}

static bool json_store_stats(const struct store_stats *s, int64_t limit)
{
	struct shfs_json json = { 0 };

	shfs_json_begin(&json, "stats");
	shfs_json_object(&json, "store");
	shfs_json_int(&json, "journal", (int64_t)s->usage.journal);
	shfs_json_int(&json, "objects", (int64_t)s->usage.objects);
	shfs_json_int(&json, "index", (int64_t)s->usage.index);
	shfs_json_int(&json, "other", (int64_t)s->usage.other);
	shfs_json_object_end(&json);
	shfs_json_int(&json, "objects", (int64_t)s->n);
	shfs_json_int(&json, "deltas", (int64_t)s->deltas);
	shfs_json_int(&json, "loose", (int64_t)s->loose);
	shfs_json_int(&json, "versions", (int64_t)s->versions);
	shfs_json_int(&json, "version_bytes", (int64_t)s->version_bytes);
	shfs_json_int(&json, "content_bytes", (int64_t)s->content_bytes);
	shfs_json_int(&json, "stored_bytes", (int64_t)s->stored_bytes);
	json_list(&json, "files", s->files, MIN(s->n_files, (size_t)limit));
	json_list(&json, "directories", s->dirs, MIN(s->n_dirs, (size_t)limit));
	return shfs_json_end(&json);
}

int shfs_stats_store(struct shfs_context *ctx, struct shfs_index *index,
                     struct shfs_store *store, int64_t limit, bool json)
{
	_cleanup_(stats_free) struct store_stats s = { 0 };
	int r = shfs_store_usage(store, &s.usage);

	if (!r)
		r = shfs_inventory(store, add_object, &s);
	merge_objects(&s);
	if (!r)
		r = count_versions(&s, index);
	if (!r)
		r = sum_dirs(&s);
	if (r)
		return shfs_fail_index(index, r);
	shfs_context_pager(ctx);
	return (json ? json_store_stats(&s, limit) : show_store_stats(&s, limit))
	               ? SHFS_EXIT_OK
	               : SHFS_EXIT_FAILURE;
}
