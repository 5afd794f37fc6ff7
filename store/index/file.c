/* SPDX-License-Identifier: MIT */
/* Paths: reads, caches and writes the rows of files and directories. */
#include "store/index/internal.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <utlist.h>

#define FILES_MAX 200000 /* kept in memory from one transaction to the next */
#define DIRS_MAX  20000

/* --- directories --- */

struct shfs_directory {
	int64_t id, root_id;
	unsigned made; /* the transaction that made it; 0: an earlier ingest */
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
	d->made = ing->round;
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

/* The low bits of the column state; above them is the number of versions. */
enum state {
	STATE_GONE = 1,
	STATE_DIRECTORY = 2,
	STATE_TOUCHED = 4,
	STATE_BITS = 3,
};
_Static_assert(STATE_GONE == 1 && STATE_DIRECTORY == 2 && STATE_BITS == 3,
               "as v_file, and questions here, in version.c and forget-choose.c have it");

/* The column data: a byte of these flags, then the fields in this order. Times are
 * differences from those of the latest version, but for DATA_LAST. Behind them moved_id,
 * if there is one. No data: none of it. */
enum data {
	DATA_ROOT = 1 << 0,
	DATA_LAST = 1 << 1, /* 8 bytes; then since_ns, 0: always */
	DATA_MTIME = 1 << 2,
	DATA_CTIME_FIRST = 1 << 3,
	DATA_CTIME_LAST = 1 << 4, /* differs from the first */
	DATA_KNOWN = 1 << 5,      /* by which producer, and in which record */
	DATA_DEV = 1 << 6,
	DATA_NAMED = 1 << 7,
};
#define DATA_MAX 112

static int64_t get_time(struct shfs_cursor *c, bool told, int64_t usual)
{
	return told ? shfs_wrap_add(usual, shfs_unzigzag(shfs_varint_get(c))) : usual;
}

static int data_get(struct shfs_file *f, const void *data, size_t len)
{
	struct shfs_cursor c = { data, (const uint8_t *)data + len };
	unsigned mask = len ? shfs_cursor_u8(&c) : 0;
	struct shfs_sighting *k = &f->known;
	uint64_t since;

	f->root_id = mask & DATA_ROOT ? shfs_varint_get(&c) : 0;
	f->last_ns = mask & DATA_LAST ? (int64_t)shfs_cursor_u64(&c) : f->time_ns;
	since = mask & DATA_LAST ? shfs_varint_get(&c) : 0;
	f->since_ns = since ? shfs_wrap_add(f->last_ns, shfs_unzigzag(since - 1)) : 0;
	k->mtime_ns = get_time(&c, mask & DATA_MTIME, f->content.mtime_ns);
	k->ctime_first_ns = get_time(&c, mask & DATA_CTIME_FIRST, f->content.ctime_ns);
	k->ctime_last_ns = get_time(&c, mask & DATA_CTIME_LAST, k->ctime_first_ns);
	k->by = mask & DATA_KNOWN ? shfs_varint_get(&c) : 0;
	k->seq = mask & DATA_KNOWN ? shfs_varint_get(&c) : 0;
	k->named = mask & DATA_NAMED;
	f->dev = mask & DATA_DEV ? shfs_varint_get(&c) : 0;
	f->moved_id = c.p < c.end ? shfs_unzigzag(shfs_varint_get(&c)) : 0;
	return c.failed ? -EBADMSG : 0;
}

static uint8_t *put_time(uint8_t *p, unsigned *mask, unsigned bit, int64_t value,
                         int64_t usual)
{
	if (value == usual)
		return p;
	*mask |= bit;
	return shfs_varint_put(p, shfs_zigzag(shfs_wrap_sub(value, usual)));
}

static struct shfs_arg file_data_arg(const struct shfs_file *f,
                                     uint8_t buf[static DATA_MAX])
{
	const struct shfs_sighting *k = &f->known;
	uint8_t *p = buf + 1;
	uint64_t since =
		f->since_ns ? shfs_zigzag(shfs_wrap_sub(f->since_ns, f->last_ns)) + 1 : 0;
	unsigned mask = (f->root_id ? DATA_ROOT : 0) | (k->by ? DATA_KNOWN : 0) |
	                (f->last_ns != f->time_ns || f->since_ns ? DATA_LAST : 0) |
	                (f->dev ? DATA_DEV : 0) | (k->named ? DATA_NAMED : 0);

	if (f->root_id)
		p = shfs_varint_put(p, f->root_id);
	for (int i = 0; i < 8 && mask & DATA_LAST; i++)
		*p++ = (uint8_t)((uint64_t)f->last_ns >> 8 * i);
	if (mask & DATA_LAST)
		p = shfs_varint_put(p, since);
	p = put_time(p, &mask, DATA_MTIME, k->mtime_ns, f->content.mtime_ns);
	p = put_time(p, &mask, DATA_CTIME_FIRST, k->ctime_first_ns, f->content.ctime_ns);
	p = put_time(p, &mask, DATA_CTIME_LAST, k->ctime_last_ns, k->ctime_first_ns);
	if (k->by) {
		p = shfs_varint_put(p, k->by);
		p = shfs_varint_put(p, k->seq);
	}
	if (f->dev)
		p = shfs_varint_put(p, f->dev);
	if (f->moved_id)
		p = shfs_varint_put(p, shfs_zigzag(f->moved_id));
	*buf = mask;
	return p > buf + 1 || mask
	               ? shfs_arg_blob((struct shfs_bytes){ (const char *)buf, p - buf })
	               : shfs_arg_id(0);
}

void shfs_file_root_id(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
	struct shfs_file f = { 0 };

	if (!data_get(&f, sqlite3_value_blob(argv[0]), sqlite3_value_bytes(argv[0])) &&
	    f.root_id)
		sqlite3_result_int64(ctx, f.root_id);
}

bool shfs_file_get_last_ns(const void *data, size_t len, int64_t *out)
{
	struct shfs_file f = { 0 };

	*out = INT64_MIN;
	if (!len || !(*(const uint8_t *)data & DATA_LAST) || data_get(&f, data, len))
		return false;
	*out = f.last_ns;
	return true;
}

void shfs_file_last_ns(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
	int64_t ns;

	if (shfs_file_get_last_ns(sqlite3_value_blob(argv[0]),
	                          sqlite3_value_bytes(argv[0]), &ns))
		sqlite3_result_int64(ctx, ns);
}

void shfs_file_get_state(int64_t state, struct shfs_file_fact *out)
{
	*out = (struct shfs_file_fact){ .versions = state >> STATE_BITS,
		                        .present = !(state & STATE_GONE),
		                        .directory = state & STATE_DIRECTORY };
}

static int content_row(sqlite3_stmt *stmt, int col, struct shfs_file *f)
{
	struct shfs_version_fact latest;
	int r = shfs_version_columns(stmt, col, &latest);

	if (r)
		return r;
	f->content = latest.content;
	f->source = latest.source | (latest.carried ? SHFS_SOURCE_CARRIED : 0) |
	            (latest.again ? SHFS_SOURCE_AGAIN : 0);
	f->maker_id = latest.access_id;
	f->time_ns = latest.time_ns;
	return 0;
}

static int file_row(sqlite3_stmt *stmt, struct shfs_file *f)
{
	int64_t state = sqlite3_column_int64(stmt, 1);
	int r;

	f->id = sqlite3_column_int64(stmt, 0);
	f->versions = state >> STATE_BITS;
	r = f->versions ? content_row(stmt, 4, f) : 0;
	if (!r)
		r = data_get(f, sqlite3_column_blob(stmt, 2),
		             sqlite3_column_bytes(stmt, 2));
	f->present = !(state & STATE_GONE);
	f->directory = state & STATE_DIRECTORY;
	f->known.touched = state & STATE_TOUCHED;
	f->ino = sqlite3_column_int64(stmt, 3);
	f->stored = true;
	return r;
}

static int file_load(struct shfs_ingest *ing, struct shfs_file *f, struct shfs_bytes name)
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	int r = shfs_sql_get(
		ing->index, &stmt,
		"SELECT f.file_id, f.state, f.data, f.ino, v.data, v.object"
		" FROM file f LEFT JOIN version v"
		" ON v.file_id = f.file_id AND v.n = f.state >> 3"
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
	/* All files of a directory that this transaction made are in memory. */
	r = d->made == ing->round ? 0 : file_load(ing, f, name);
	if (r)
		return MIN(r, 0);
	f->id = ing->next_file_id++;
	f->root_id = d->root_id == ing->producer.root_id ? 0 : ing->producer.root_id;
	f->present = true;
	return 0;
}

/* Moves the file to the end of the list, as the one used last. */
static void append_used_file(struct shfs_ingest *ing, struct shfs_file *f)
{
	DL_APPEND(ing->oldest, f);
	f->round = ing->round;
}

int shfs_file_get(struct shfs_ingest *ing, struct shfs_bytes path, struct shfs_file **out)
{
	struct shfs_file *f;
	int r;

	HASH_FIND(hh, ing->files, path.data, path.len, f);
	if (f) {
		if (f->round != ing->round) {
			DL_DELETE(ing->oldest, f);
			append_used_file(ing, f);
		}
		*out = f;
		return shfs_inode_settle(ing, f);
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
	append_used_file(ing, f);
	if (!f->stored)
		shfs_file_changed(ing, f);
	*out = f;
	return 0;
}

/* --- to the table --- */

void shfs_file_changed(struct shfs_ingest *ing, struct shfs_file *f)
{
	if (f->dirty)
		return;
	f->dirty = true;
	f->next_dirty = ing->dirty;
	ing->dirty = f;
}

static int file_store(struct shfs_ingest *ing, struct shfs_file *f)
{
	struct shfs_bytes name = { f->path + f->name_at, f->len - f->name_at };
	int64_t state = f->versions << STATE_BITS | (f->present ? 0 : STATE_GONE) |
	                (f->directory ? STATE_DIRECTORY : 0) |
	                (f->known.touched ? STATE_TOUCHED : 0);
	uint8_t data[DATA_MAX];
	int r;

	if (f->stored)
		r = shfs_sql_run(ing->index,
		                 "UPDATE file SET state = ?, data = ?, ino = ?"
		                 " WHERE file_id = ?",
		                 shfs_arg_int(state), file_data_arg(f, data),
		                 shfs_arg_id(f->ino), shfs_arg_int(f->id));
	else
		r = shfs_sql_run(ing->index,
		                 "INSERT INTO file (file_id, directory_id, name, state,"
		                 " data, ino) VALUES (?, ?, ?, ?, ?, ?)",
		                 shfs_arg_int(f->id), shfs_arg_int(f->directory_id),
		                 shfs_arg_text(name), shfs_arg_int(state),
		                 file_data_arg(f, data), shfs_arg_id(f->ino));
	f->stored |= !r;
	return r;
}

/* A changed file, with a copy of the sort key, as files are scattered in memory. */
struct dirty_file {
	int64_t id;
	struct shfs_file *file;
};

static int compare_dirty(const void *a, const void *b)
{
	const struct dirty_file *x = a, *y = b;

	return (x->id > y->id) - (x->id < y->id);
}

static int list_dirty(struct shfs_ingest *ing, struct dirty_file **list, size_t *n)
{
	size_t cap = 0;

	for (struct shfs_file *f = ing->dirty; f; f = f->next_dirty) {
		if (!MAKE_ROOM(*list, *n, cap))
			return -ENOMEM;
		(*list)[(*n)++] = (struct dirty_file){ f->id, f };
	}
	return 0;
}

/* Writes the files in the order of the table, so that each page is written once. */
int shfs_files_flush(struct shfs_ingest *ing)
{
	_cleanup_free_ struct dirty_file *list = NULL;
	size_t n = 0;
	int r = list_dirty(ing, &list, &n);

	if (n)
		qsort(list, n, sizeof(*list), compare_dirty);
	for (size_t i = 0; i < n && !r; i++)
		r = file_store(ing, list[i].file);
	if (r)
		return r;
	for (size_t i = 0; i < n; i++)
		list[i].file->dirty = false;
	ing->dirty = NULL;
	return 0;
}

void shfs_files_forget(struct shfs_ingest *ing)
{
	struct shfs_file *f, *next;

	shfs_inodes_forget(ing);
	ing->oldest = ing->dirty = NULL;
	HASH_ITER (hh, ing->files, f, next) {
		HASH_DEL(ing->files, f);
		free(f);
	}
	directories_forget(ing);
}

void shfs_files_trim(struct shfs_ingest *ing)
{
	struct shfs_file *f;

	if (HASH_COUNT(ing->dirs) > DIRS_MAX)
		directories_forget(ing);
	while (HASH_COUNT(ing->files) > FILES_MAX) {
		f = ing->oldest;
		shfs_inode_forget(ing, f);
		DL_DELETE(ing->oldest, f);
		HASH_DEL(ing->files, f);
		free(f);
	}
}

/* --- versions without an object --- */

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
