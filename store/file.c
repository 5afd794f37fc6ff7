/* SPDX-License-Identifier: MIT */
#include "store/index-internal.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <utlist.h>

#define FILES_MAX 200000 /* kept in memory from one transaction to the next */
#define DIRS_MAX  20000

/* --- directories --- */

struct shfs_directory {
	int64_t id, root_id;
	UT_hash_handle hh;
	size_t len;
	char path[];
};

static int directory_load(struct shfs_ingest *ing, struct shfs_directory *d)
{
	struct shfs_bytes path = { d->path, d->len };
	int r;

	{
		_cleanup_stmt_ sqlite3_stmt *stmt = NULL;

		r = shfs_sql_get(ing->index, &stmt,
		                 "SELECT directory_id, root_id FROM directory"
		                 " WHERE path = ?",
		                 shfs_arg_text(path));
		if (r > 0) {
			d->id = sqlite3_column_int64(stmt, 0);
			d->root_id = sqlite3_column_int64(stmt, 1);
		}
		if (r)
			return MIN(r, 0);
	}
	d->root_id = ing->producer.root_id;
	r = shfs_sql_run(ing->index,
	                 "INSERT INTO directory (path, root_id) VALUES (?, ?)",
	                 shfs_arg_text(path), shfs_arg_int(d->root_id));
	d->id = sqlite3_last_insert_rowid(ing->index->db);
	return r;
}

static int directory_get(struct shfs_ingest *ing, struct shfs_bytes path,
                         struct shfs_directory **out)
{
	struct shfs_directory *d;
	int r;

	HASH_FIND(hh, ing->dirs, path.data, path.len, d);
	if (d) {
		*out = d;
		return 0;
	}
	d = calloc(1, sizeof(*d) + path.len + 1);
	if (!d)
		return -ENOMEM;
	d->len = path.len;
	memcpy(d->path, path.data, path.len);
	r = directory_load(ing, d);
	if (!r) {
		HASH_ADD(hh, ing->dirs, path, d->len, d);
		r = d->hh.tbl ? 0 : -ENOMEM;
	}
	if (r) {
		free(d);
		return r;
	}
	*out = d;
	return 0;
}

static void directories_forget(struct shfs_ingest *ing)
{
	struct shfs_directory *d, *next;

	HASH_ITER (hh, ing->dirs, d, next) {
		HASH_DEL(ing->dirs, d);
		free(d);
	}
}

/* --- from the table --- */

enum state {
	STATE_GONE = 1,
	STATE_DIRECTORY = 2,
	STATE_TOUCHED = 4,
};

/* A column that need not be there. */
static int64_t column_or(sqlite3_stmt *stmt, int col, int64_t usual)
{
	return sqlite3_column_type(stmt, col) == SQLITE_NULL
	               ? usual
	               : sqlite3_column_int64(stmt, col);
}

static int content_row(sqlite3_stmt *stmt, int col, struct shfs_file *f)
{
	struct shfs_version_row row;
	int r = shfs_version_unpack(sqlite3_column_blob(stmt, col),
	                            sqlite3_column_bytes(stmt, col), &row);

	if (r)
		return r;
	f->content = row.content;
	f->source = row.source;
	f->maker_id = row.access_id;
	f->time_ns = row.time_ns;
	(void)!shfs_object_unpack(sqlite3_column_blob(stmt, col + 1),
	                          sqlite3_column_bytes(stmt, col + 1),
	                          &f->content.object);
	return 0;
}

static int file_row(sqlite3_stmt *stmt, struct shfs_file *f)
{
	int state = sqlite3_column_int(stmt, 2), r = 0;

	f->id = sqlite3_column_int64(stmt, 0);
	f->versions = sqlite3_column_int64(stmt, 1);
	if (f->versions)
		r = content_row(stmt, 12, f);
	f->present = !(state & STATE_GONE);
	f->directory = state & STATE_DIRECTORY;
	f->root_id = sqlite3_column_int64(stmt, 3);
	f->last_ns = column_or(stmt, 4, f->time_ns);
	f->known = (struct shfs_known){
		.mtime_ns = column_or(stmt, 5, f->content.mtime_ns),
		.touched = state & STATE_TOUCHED,
		.ctime_first_ns = column_or(stmt, 6, f->content.ctime_ns),
		.by = sqlite3_column_int64(stmt, 8),
		.seq = sqlite3_column_int64(stmt, 9),
	};
	f->known.ctime_last_ns = column_or(stmt, 7, f->known.ctime_first_ns);
	f->dev = sqlite3_column_int64(stmt, 10);
	f->ino = sqlite3_column_int64(stmt, 11);
	f->stored = true;
	return r;
}

static int file_load(struct shfs_ingest *ing, struct shfs_file *f, struct shfs_bytes name)
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	int r = shfs_sql_get(
		ing->index, &stmt,
		"SELECT f.file_id, f.versions, f.state, f.root_id, f.last_ns, f.mtime_ns,"
		" f.ctime_first_ns, f.ctime_last_ns, f.known_by, f.known_seq, f.dev,"
		" f.ino,"
		" v.data, v.object FROM file f LEFT JOIN version v"
		" ON v.file_id = f.file_id AND v.n = f.versions"
		" WHERE f.directory_id = ?1 AND name_key(f.name) = name_key(?2)"
		" AND +f.name = ?2",
		shfs_arg_int(f->directory_id), shfs_arg_text(name));

	return r > 0 ? file_row(stmt, f) ?: 1 : r;
}

static int file_find(struct shfs_ingest *ing, struct shfs_file *f)
{
	struct shfs_bytes dir, name;
	struct shfs_directory *d;
	int r;

	shfs_path_split((struct shfs_bytes){ f->path, f->len }, &dir, &name);
	r = directory_get(ing, dir, &d);
	if (r)
		return r;
	f->directory_id = d->id;
	f->name_at = f->len - name.len;
	r = file_load(ing, f, name);
	if (r)
		return MIN(r, 0);
	f->id = ing->next_file_id++;
	f->root_id = d->root_id == ing->producer.root_id ? 0 : ing->producer.root_id;
	f->present = f->dirty = true;
	return 0;
}

/* It is the one that was used last. */
static void append(struct shfs_ingest *ing, struct shfs_file *f)
{
	DL_APPEND(ing->oldest, f);
	f->round = ing->round;
	if (!ing->recent)
		ing->recent = f;
}

int shfs_file_get(struct shfs_ingest *ing, struct shfs_bytes path, struct shfs_file **out)
{
	struct shfs_file *f;
	int r;

	HASH_FIND(hh, ing->files, path.data, path.len, f);
	if (f) {
		if (f->round != ing->round) {
			DL_DELETE(ing->oldest, f);
			append(ing, f);
		}
		*out = f;
		return 0;
	}
	f = calloc(1, sizeof(*f) + path.len + 1);
	if (!f)
		return -ENOMEM;
	f->len = path.len;
	memcpy(f->path, path.data, path.len);
	r = file_find(ing, f);
	if (!r) {
		HASH_ADD(hh, ing->files, path, f->len, f);
		r = f->hh.tbl ? 0 : -ENOMEM;
	}
	if (r) {
		free(f);
		return r;
	}
	append(ing, f);
	*out = f;
	return 0;
}

/* --- to the table --- */

static struct shfs_arg unless(int64_t value, int64_t usual)
{
	return value == usual ? (struct shfs_arg){ .type = SHFS_ARG_NULL }
	                      : shfs_arg_int(value);
}

static int file_update(struct shfs_ingest *ing, struct shfs_file *f, int state)
{
	const struct shfs_known *k = &f->known;

	return shfs_sql_run(ing->index,
	                    "UPDATE file SET versions = ?, state = ?, last_ns = ?,"
	                    " mtime_ns = ?, ctime_first_ns = ?, ctime_last_ns = ?,"
	                    " known_by = ?, known_seq = ?, dev = ?, ino = ?"
	                    " WHERE file_id = ?",
	                    shfs_arg_int(f->versions), shfs_arg_int(state),
	                    unless(f->last_ns, f->time_ns),
	                    unless(k->mtime_ns, f->content.mtime_ns),
	                    unless(k->ctime_first_ns, f->content.ctime_ns),
	                    unless(k->ctime_last_ns, k->ctime_first_ns),
	                    shfs_arg_int(k->by), shfs_arg_int(k->by ? k->seq : 0),
	                    shfs_arg_id(f->dev), shfs_arg_id(f->ino),
	                    shfs_arg_int(f->id));
}

static int file_insert(struct shfs_ingest *ing, struct shfs_file *f, int state)
{
	const struct shfs_known *k = &f->known;
	struct shfs_bytes name = { f->path + f->name_at, f->len - f->name_at };

	return shfs_sql_run(ing->index,
	                    "INSERT INTO file (file_id, directory_id, name, root_id,"
	                    " versions, state, last_ns, mtime_ns, ctime_first_ns,"
	                    " ctime_last_ns, known_by, known_seq, dev, ino)"
	                    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
	                    shfs_arg_int(f->id), shfs_arg_int(f->directory_id),
	                    shfs_arg_text(name), shfs_arg_id(f->root_id),
	                    shfs_arg_int(f->versions), shfs_arg_int(state),
	                    unless(f->last_ns, f->time_ns),
	                    unless(k->mtime_ns, f->content.mtime_ns),
	                    unless(k->ctime_first_ns, f->content.ctime_ns),
	                    unless(k->ctime_last_ns, k->ctime_first_ns),
	                    shfs_arg_int(k->by), shfs_arg_int(k->by ? k->seq : 0),
	                    shfs_arg_id(f->dev), shfs_arg_id(f->ino));
}

int shfs_file_store(struct shfs_ingest *ing, struct shfs_file *f)
{
	int state = (f->present ? 0 : STATE_GONE) | (f->directory ? STATE_DIRECTORY : 0) |
	            (f->known.touched ? STATE_TOUCHED : 0);
	int r = f->stored ? file_update(ing, f, state) : file_insert(ing, f, state);

	f->dirty = r != 0;
	f->stored |= !r;
	return r;
}

static int compare_file(const void *a, const void *b)
{
	const struct shfs_file *x = *(struct shfs_file *const *)a,
			       *y = *(struct shfs_file *const *)b;

	return (x->id > y->id) - (x->id < y->id);
}

/* In the order of the table, where those that lie in one page are next to each other. */
int shfs_files_flush(struct shfs_ingest *ing)
{
	_cleanup_free_ struct shfs_file **list = NULL;
	struct shfs_file *f;
	size_t n = 0;
	int r = 0;

	for (f = ing->recent; f; f = f->next)
		n += f->dirty;
	if (!n)
		return 0;
	list = calloc(n, sizeof(struct shfs_file *));
	if (!list)
		return -ENOMEM;
	n = 0;
	for (f = ing->recent; f; f = f->next)
		if (f->dirty)
			list[n++] = f;
	qsort(list, n, sizeof(struct shfs_file *), compare_file);
	for (size_t i = 0; i < n && !r; i++)
		r = shfs_file_store(ing, list[i]);
	return r;
}

void shfs_files_forget(struct shfs_ingest *ing)
{
	struct shfs_file *f, *next;

	ing->oldest = ing->recent = NULL;
	HASH_ITER (hh, ing->files, f, next) {
		HASH_DEL(ing->files, f);
		free(f);
	}
	directories_forget(ing);
}

void shfs_files_trim(struct shfs_ingest *ing)
{
	struct shfs_file *f;

	ing->recent = NULL;
	if (HASH_COUNT(ing->dirs) > DIRS_MAX)
		directories_forget(ing);
	while (HASH_COUNT(ing->files) > FILES_MAX) {
		f = ing->oldest;
		DL_DELETE(ing->oldest, f);
		HASH_DEL(ing->files, f);
		free(f);
	}
}

/* --- versions that were left out --- */

int shfs_left_out_flush(struct shfs_ingest *ing)
{
	int r = 0;

	for (size_t i = 0; i < ing->n_left_out && !r; i++)
		r = shfs_sql_run(ing->index,
		                 "INSERT INTO left_out (flags, versions) VALUES (?, ?)"
		                 " ON CONFLICT DO UPDATE"
		                 " SET versions = versions + excluded.versions",
		                 shfs_arg_int(ing->left_out[i].flags),
		                 shfs_arg_int(ing->left_out[i].versions));
	ing->n_left_out = 0;
	return r;
}

int shfs_left_out_add(struct shfs_ingest *ing, uint32_t flags, int64_t n)
{
	size_t i = 0;
	int r = 0;

	while (i < ing->n_left_out && ing->left_out[i].flags != flags)
		i++;
	if (i == ARRAY_SIZE(ing->left_out)) {
		r = shfs_left_out_flush(ing);
		i = 0;
	}
	if (i == ing->n_left_out)
		ing->left_out[ing->n_left_out++] = (struct shfs_left_out){ flags, 0 };
	ing->left_out[i].versions += n;
	return r;
}
