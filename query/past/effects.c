/* SPDX-License-Identifier: MIT */
#include "query/past/effects.h"

#include "common/path.h"
#include "query/base/model.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void clear_effect(struct shfs_effect *e)
{
	free(e->path);
	free(e->path2);
	free(e->data);
}

void shfs_effects_clear(struct shfs_effects *effects)
{
	for (size_t i = 0; i < effects->n; i++)
		clear_effect(&effects->list[i]);
	free(effects->list);
	*effects = (struct shfs_effects){ 0 };
}

void shfs_effects_filter(struct shfs_effects *effects,
                         bool (*keep)(const struct shfs_effect *effect, void *arg),
                         void *arg)
{
	size_t n = 0;

	for (size_t i = 0; i < effects->n; i++)
		if (keep(&effects->list[i], arg))
			effects->list[n++] = effects->list[i];
		else
			clear_effect(&effects->list[i]);
	effects->n = n;
}

static int compare_effects(const void *a, const void *b)
{
	const struct shfs_effect *x = a, *y = b;

	if (x->seq != y->seq)
		return x->seq < y->seq ? -1 : 1;
	/* what an access found, was there before it */
	return (x->access_id > y->access_id) - (x->access_id < y->access_id);
}

void shfs_effects_sort(struct shfs_effects *effects)
{
	if (effects->n)
		qsort(effects->list, effects->n, sizeof(*effects->list), compare_effects);
}

#define COLUMNS                                                                          \
	"SELECT a.seq_key, a.access_id, a.op, a.flags, a.directory, a.path, a.path2,"    \
	" a.file_id, a.file2_id, a.seen_n, a.made_n, a.begin_ns, a.end_ns,"              \
	" a.command_id, a.process_id,"                                                   \
	" (SELECT f.n FROM v_former f WHERE f.access_id = a.access_id),"                 \
	" (SELECT f.data FROM v_former f WHERE f.access_id = a.access_id),"              \
	" (SELECT f.file_id FROM v_former f WHERE f.access_id = a.access_id)"            \
	" FROM v_access a WHERE (a.is_written OR a.is_open = 0) AND "

/* The number of an operation (enum shfs_pathop); 0: an open. */
static unsigned op_of(const char *name)
{
	const char *one;

	for (unsigned op = 1; (one = shfs_index_op_name(op)); op++)
		if (!strcmp(one, name))
			return op;
	return 0;
}

/* A state that cannot be unpacked (a damaged index) is not known. */
static int read_former(struct shfs_rows *rows, struct shfs_effect *e)
{
	const char *data = shfs_rows_text(rows, 16);
	size_t len = shfs_rows_bytes(rows, 16);

	if (shfs_rows_is_null(rows, 16))
		return 0;
	e->former_n = shfs_rows_int(rows, 15);
	e->former_file_id = shfs_rows_int(rows, 17);
	e->data = malloc(len + 1);
	if (!e->data)
		return -ENOMEM;
	memcpy(e->data, data, len);
	(void)!shfs_former_unpack(e->data, len, &e->former);
	return 0;
}

static int add_row(struct shfs_effects *effects, struct shfs_rows *rows)
{
	struct shfs_effect *e;

	if (!MAKE_ROOM(effects->list, effects->n, effects->cap))
		return -ENOMEM;
	e = &effects->list[effects->n++];
	*e = (struct shfs_effect){
		.seq = shfs_rows_int(rows, 0),
		.access_id = shfs_rows_int(rows, 1),
		.op = op_of(shfs_rows_text(rows, 2)),
		.flags = (uint32_t)shfs_rows_int(rows, 3),
		.directory = shfs_rows_int(rows, 4),
		.path = strdup(shfs_rows_text(rows, 5)),
		.path2 = shfs_rows_is_null(rows, 6) ? NULL
		                                    : strdup(shfs_rows_text(rows, 6)),
		.file_id = shfs_rows_int(rows, 7),
		.file2_id = shfs_rows_int(rows, 8),
		.seen_n = shfs_rows_int(rows, 9),
		.made_n = shfs_rows_int(rows, 10),
		.begin_ns = shfs_rows_int(rows, 11),
		.end_ns = shfs_rows_int(rows, 12),
		.command_id = shfs_rows_int(rows, 13),
		.process_id = shfs_rows_int(rows, 14),
	};
	if (!e->path || (!e->path2 && !shfs_rows_is_null(rows, 6)))
		return -ENOMEM;
	return read_former(rows, e);
}

static int add_rows(struct shfs_effects *effects, struct shfs_rows *rows)
{
	int r;

	while ((r = shfs_rows_next(rows)) > 0) {
		r = add_row(effects, rows);
		if (r)
			return r;
	}
	return r;
}

int shfs_effects_add_command(struct shfs_effects *effects, struct shfs_index *index,
                             int64_t command_id)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open_ints(index, COLUMNS "a.command_id = ?1",
	                            SHFS_INTS(command_id), &rows);

	return r ? r : add_rows(effects, rows);
}

int shfs_effects_add_process(struct shfs_effects *effects, struct shfs_index *index,
                             int64_t process_id)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open_ints(index, COLUMNS "a.process_id = ?1",
	                            SHFS_INTS(process_id), &rows);

	return r ? r : add_rows(effects, rows);
}

int shfs_effects_add_since(struct shfs_effects *effects, struct shfs_index *index,
                           const char *path, int64_t since_ns)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	_cleanup_buf_ struct shfs_buf sql = { 0 };
	int r;

	shfs_buf_str(&sql, COLUMNS "a.end_ns >= ?2 AND (");
	shfs_sql_files_below(&sql, "a.file_id", 1);
	shfs_buf_str(&sql, " OR ");
	shfs_sql_files_below(&sql, "a.file2_id", 1);
	shfs_buf_str(&sql, ")");
	if (sql.failed)
		return -ENOMEM;
	r = shfs_rows_open_str(index, sql.data, strcmp(path, "/") ? path : "", &rows);
	if (!r)
		r = shfs_rows_bind_int(rows, 2, since_ns);
	return r ? r : add_rows(effects, rows);
}

/* --- a tree --- */

/* The roots that changes were added of. */
struct roots {
	char **list;
	size_t n, cap;
};

static bool is_below_any(const struct roots *roots, const char *path)
{
	for (size_t i = 0; i < roots->n; i++)
		if (shfs_path_is_below(path, roots->list[i]))
			return true;
	return false;
}

/* The content of n, before a version was found. */
static int set_former(struct shfs_effect *e, int64_t n, struct shfs_index *index)
{
	_cleanup_version_ struct shfs_version v = { 0 };
	int r = shfs_version_load(index, e->file_id << 32 | n, &v);

	if (r <= 0)
		return r;
	e->former_n = n;
	e->former = (struct shfs_former){ .flags = SHFS_FORMER_TIME,
		                          .mode = v.mode,
		                          .mtime_ns = v.mtime_ns };
	return 0;
}

static int add_found(struct shfs_effects *effects, struct shfs_index *index,
                     struct shfs_rows *rows)
{
	struct shfs_effect *e;

	if (!MAKE_ROOM(effects->list, effects->n, effects->cap))
		return -ENOMEM;
	e = &effects->list[effects->n++];
	*e = (struct shfs_effect){
		.file_id = shfs_rows_int(rows, 0),
		.made_n = shfs_rows_int(rows, 1),
		.begin_ns = shfs_rows_int(rows, 2),
		.end_ns = shfs_rows_int(rows, 2),
		.path = strdup(shfs_rows_text(rows, 3)),
		.seq = shfs_rows_int(rows, 4),
	};
	return e->path ? set_former(e, e->made_n - 1, index) : -ENOMEM;
}

/* Adds what was found changed: while nothing recorded, since that time. */
static int add_all_found(struct shfs_effects *effects, struct shfs_index *index,
                         const char *path, int64_t since_ns)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	_cleanup_buf_ struct shfs_buf sql = { 0 };
	int r;

	shfs_buf_str(&sql,
	             "SELECT v.file_id, v.n, v.time_ns, v.path,"
	             " coalesce((SELECT min(a.seq_key) FROM v_access a"
	             "  WHERE a.file_id = v.file_id"
	             "  AND (a.seen_n >= v.n OR a.made_n > v.n)), 1 << 62)"
	             " FROM v_version v"
	             " WHERE v.n > 1 AND v.source = 'found' AND v.time_ns >= ?2 AND ");
	shfs_sql_files_below(&sql, "v.file_id", 1);
	if (sql.failed)
		return -ENOMEM;
	r = shfs_rows_open_str(index, sql.data, strcmp(path, "/") ? path : "", &rows);
	if (!r)
		r = shfs_rows_bind_int(rows, 2, since_ns);
	while (!r && (r = shfs_rows_next(rows)) > 0)
		r = add_found(effects, index, rows);
	return r;
}

static int add_root(struct shfs_effects *effects, struct shfs_index *index,
                    const char *path, int64_t since_ns, struct roots *roots)
{
	int r;

	if (!MAKE_ROOM(roots->list, roots->n, roots->cap))
		return -ENOMEM;
	roots->list[roots->n] = strdup(path);
	if (!roots->list[roots->n])
		return -ENOMEM;
	roots->n++;
	r = shfs_effects_add_since(effects, index, path, since_ns);
	return r ? r : add_all_found(effects, index, path, since_ns);
}

/* Adds the changes of another name of a file. */
static int add_other(struct shfs_effects *effects, struct shfs_index *index,
                     const char *path, int64_t since_ns, struct roots *roots)
{
	_cleanup_free_ char *copy = NULL;

	if (is_below_any(roots, path))
		return 0;
	copy = strdup(path);
	return copy ? add_root(effects, index, copy, since_ns, roots) : -ENOMEM;
}

/* Of changes that were added twice, the first. */
static bool is_first(const struct shfs_effect *e, void *arg)
{
	const struct shfs_effect *last = arg;
	bool first = e->seq != last->seq || e->access_id != last->access_id ||
	             e->file_id != last->file_id;

	*(struct shfs_effect *)arg = *e;
	return first;
}

int shfs_effects_add_tree(struct shfs_effects *effects, struct shfs_index *index,
                          const char *path, int64_t since_ns)
{
	struct shfs_effect last = { .seq = -1 };
	struct roots roots = { 0 };
	int r = add_root(effects, index, path, since_ns, &roots);

	for (size_t i = 0; i < effects->n && !r; i++) {
		r = add_other(effects, index, effects->list[i].path, since_ns, &roots);
		if (!r && effects->list[i].file2_id)
			r = add_other(effects, index, effects->list[i].path2, since_ns,
			              &roots);
	}
	while (roots.n)
		free(roots.list[--roots.n]);
	free(roots.list);
	shfs_effects_sort(effects);
	shfs_effects_filter(effects, is_first, &last);
	return r;
}
