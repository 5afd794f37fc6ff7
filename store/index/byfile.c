/* SPDX-License-Identifier: MIT */
/*
 * Finds the accesses of a file, in sorted runs. The additions of a transaction are
 * written as one sorted run, and runs of about the same size are merged when there are
 * many: so nothing is ever written in the middle of a large table, and few runs are
 * searched.
 *
 * A run has pages with ascending page_ids: run_id, the first file in the page, a number.
 * A page is the length of its entries, and the entries packed by zstd; or 0, and the
 * entries as they are. An entry has the differences from the one before in its page:
 * file, whether it has made a version and whether it changes names or attributes (the
 * lowest bits), process, number of the access.
 */
#include "store/index/internal.h"

#include "store/objects/codec.h"

#include <errno.h>
#include <string.h>

#define PAGE_BYTES  4040 /* fill a page of the database */
#define ROOM        240  /* left free, as later entries may be packed less well */
#define RAW_MAX     16384
#define PACK_MIN    256
#define LEVEL       3
#define ENTRY_MAX   32
#define MERGE_RUNS  16        /* of one size */
#define SIZE_FIRST  4096      /* entries; smaller runs count as one size */
#define ENTRIES_MAX (1 << 24) /* larger runs are not merged again */
#define K_BITS      16
#define RUN_SHIFT   (32 + K_BITS)
#define RUN_MAX     ((1 << 15) - 1)

static int64_t page_id(int64_t run_id, int64_t file_id, int64_t k)
{
	return run_id << RUN_SHIFT | file_id << K_BITS | k;
}

/* --- pages --- */

/* Opens a page; raw has room for RAW_MAX unpacked bytes. */
static int page_open(struct codecs *codecs, sqlite3_stmt *row, int col, uint8_t *raw,
                     struct shfs_cursor *c, struct shfs_file_use *u)
{
	uint8_t stored[CODEC_MAGIC_BYTES + RAW_MAX];
	const uint8_t *data = sqlite3_column_blob(row, col);
	uint64_t len;
	size_t n;
	int r;

	*c = (struct shfs_cursor){ data, data + sqlite3_column_bytes(row, col) };
	*u = (struct shfs_file_use){ 0 };
	len = shfs_varint_get(c);
	n = c->end - c->p;
	if (c->failed || len > RAW_MAX || n > RAW_MAX)
		return -EBADMSG;
	if (!len)
		return 0;
	memcpy(stored + CODEC_MAGIC_BYTES, c->p, n);
	r = codec_decompress(codecs, stored + CODEC_MAGIC_BYTES, n, NULL, 0, raw, len);
	*c = (struct shfs_cursor){ raw, raw + len };
	return r;
}

/* Reads the next entry: 1; 0: the end; or -EBADMSG. */
static int page_next(struct shfs_cursor *c, struct shfs_file_use *u)
{
	uint64_t file, process, n;

	if (c->p == c->end)
		return 0;
	file = shfs_varint_get(c);
	process = shfs_unzigzag(shfs_varint_get(c));
	n = shfs_varint_get(c);
	if (!process)
		n = (uint32_t)u->access_id + shfs_unzigzag(n);
	u->change = file & 1;
	u->made = file & 2;
	u->file_id += file >> 2;
	u->access_id =
		shfs_access_id((u->access_id >> 32) + (int64_t)process, (uint32_t)n);
	return c->failed ? -EBADMSG : 1;
}

static uint8_t *page_put(uint8_t *p, const struct shfs_file_use *last,
                         const struct shfs_file_use *u)
{
	int64_t process = (u->access_id >> 32) - (last->access_id >> 32);
	int64_t n = (uint32_t)u->access_id;

	p = shfs_varint_put(p, (uint64_t)(u->file_id - last->file_id) << 2 |
	                               (unsigned)u->made << 1 | u->change);
	p = shfs_varint_put(p, shfs_zigzag(process));
	return shfs_varint_put(p, process ? (uint64_t)n
	                                  : shfs_zigzag(n - (uint32_t)last->access_id));
}

/* --- writing a run --- */

struct run_writer {
	struct shfs_index *index;
	int64_t run_id, entries, first_file, k;
	struct shfs_file_use last;
	size_t len, full; /* full: so many bytes make about a page when packed */
	uint8_t data[RAW_MAX];
};

/* Begins a run with the next free number. */
static int run_begin(struct run_writer *w, struct shfs_index *index)
{
	int r;

	w->index = index;
	w->run_id = 1;
	w->entries = w->k = 0;
	w->first_file = -1;
	w->len = 0;
	w->full = PAGE_BYTES;
	r = shfs_sql_int(index, &w->run_id,
	                 "SELECT coalesce(min(run_id) + 1, 1) FROM run a WHERE NOT EXISTS"
	                 " (SELECT 1 FROM run b WHERE b.run_id = a.run_id + 1)");
	return r < 0 ? r : w->run_id > RUN_MAX ? -EOVERFLOW : 0;
}

static int run_insert_page(struct run_writer *w, size_t len, const uint8_t *data,
                           size_t n)
{
	uint8_t page[10 + RAW_MAX], *p = shfs_varint_put(page, len);

	memcpy(p, data, n);
	p += n;
	return shfs_sql_run(w->index,
	                    "INSERT INTO run_page (page_id, data) VALUES (?, ?)",
	                    shfs_arg_int(page_id(w->run_id, w->first_file, w->k)),
	                    shfs_arg_blob(
				    (struct shfs_bytes){ (const char *)page, p - page }));
}

/* Writes a page. How well it was packed decides how many bytes the next one may have. */
static int run_write_page(struct run_writer *w)
{
	_cleanup_coded_ struct coded coded = { 0 };
	size_t len = w->len;
	int r;

	if (!len)
		return 0;
	w->len = 0;
	r = len < PACK_MIN ? 1
	                   : codec_compress(w->index->codecs, w->data, len, LEVEL, NULL,
	                                    0, CODEC_MAGIC_BYTES, len, &coded);
	if (r < 0)
		return r;
	if (r) {
		w->full = PAGE_BYTES;
		return run_insert_page(w, 0, w->data, len);
	}
	w->full = MIN(len * (PAGE_BYTES - ROOM) / coded.len, (size_t)RAW_MAX);
	return run_insert_page(w, len, coded.bytes + CODEC_MAGIC_BYTES, coded.len);
}

static int run_add(struct run_writer *w, const struct shfs_file_use *u)
{
	int r = w->len > w->full - ENTRY_MAX ? run_write_page(w) : 0;

	if (!w->len) {
		w->k = u->file_id == w->first_file ? w->k + 1 : 0;
		w->first_file = u->file_id;
		w->last = (struct shfs_file_use){ 0 };
		if (w->k >> K_BITS)
			return -EOVERFLOW;
	}
	w->len = page_put(w->data + w->len, &w->last, u) - w->data;
	w->last = *u;
	w->entries++;
	return r;
}

static int run_end(struct run_writer *w)
{
	int r = run_write_page(w);

	return r ? r
	         : shfs_sql_run(w->index,
	                        "INSERT INTO run (run_id, entries) VALUES (?, ?)",
	                        shfs_arg_int(w->run_id), shfs_arg_int(w->entries));
}

/* --- merging --- */

struct run_reader {
	int64_t run_id;
	sqlite3_stmt *pages;
	struct shfs_cursor at;
	struct shfs_file_use use;
	bool end;
	uint8_t *raw;
};

static int compare_use(const void *a, const void *b)
{
	const struct shfs_file_use *x = a, *y = b;

	if (x->file_id != y->file_id)
		return x->file_id < y->file_id ? -1 : 1;
	return (x->access_id > y->access_id) - (x->access_id < y->access_id);
}

static int reader_next(struct shfs_index *index, struct run_reader *r)
{
	int n;

	while (!(n = r->at.p ? page_next(&r->at, &r->use) : 0)) {
		n = shfs_sql_next(index, r->pages);
		if (n <= 0) {
			r->end = true;
			return n;
		}
		n = page_open(index->codecs, r->pages, 0, r->raw, &r->at, &r->use);
		if (n)
			return n;
	}
	return MIN(n, 0);
}

static int reader_open(struct shfs_index *index, struct run_reader *r)
{
	int rc = sqlite3_prepare_v2(index->db,
	                            "SELECT data FROM run_page WHERE page_id >= ?1"
	                            " AND page_id < ?2 ORDER BY page_id",
	                            -1, &r->pages, NULL);

	if (rc)
		return shfs_index_errno(index->db, rc);
	r->raw = malloc(RAW_MAX);
	if (!r->raw)
		return -ENOMEM;
	sqlite3_bind_int64(r->pages, 1, page_id(r->run_id, 0, 0));
	sqlite3_bind_int64(r->pages, 2, page_id(r->run_id + 1, 0, 0));
	return reader_next(index, r);
}

static struct run_reader *smallest(struct run_reader *list, size_t n)
{
	struct run_reader *best = NULL;

	for (size_t i = 0; i < n; i++)
		if (!list[i].end && (!best || compare_use(&list[i].use, &best->use) < 0))
			best = &list[i];
	return best;
}

static int merge_readers(struct shfs_index *index, struct run_reader *list, size_t n)
{
	struct run_writer w;
	struct run_reader *from;
	int r = run_begin(&w, index);

	for (size_t i = 0; i < n && !r; i++)
		r = reader_open(index, &list[i]);
	while (!r && (from = smallest(list, n))) {
		r = run_add(&w, &from->use);
		if (!r)
			r = reader_next(index, from);
	}
	return r ? r : run_end(&w);
}

static int run_delete(struct shfs_index *index, int64_t run_id)
{
	int r = shfs_sql_run(index,
	                     "DELETE FROM run_page WHERE page_id >= ? AND page_id < ?",
	                     shfs_arg_int(page_id(run_id, 0, 0)),
	                     shfs_arg_int(page_id(run_id + 1, 0, 0)));

	return r ? r
	         : shfs_sql_run(index, "DELETE FROM run WHERE run_id = ?",
	                        shfs_arg_int(run_id));
}

static int merge_sorted_runs(struct shfs_index *index, const int64_t *run_ids, size_t n)
{
	struct run_reader list[MERGE_RUNS] = { 0 };
	int r;

	for (size_t i = 0; i < n; i++)
		list[i].run_id = run_ids[i];
	r = merge_readers(index, list, n);
	for (size_t i = 0; i < n; i++) {
		sqlite3_finalize(list[i].pages);
		free(list[i].raw);
	}
	for (size_t i = 0; i < n && !r; i++)
		r = run_delete(index, run_ids[i]);
	return r;
}

static unsigned size_of(int64_t entries)
{
	unsigned size = 0;

	for (entries /= SIZE_FIRST; entries; entries /= MERGE_RUNS)
		size++;
	return size;
}

/* Merges runs of one size. 1: there were many, and there may be many of another size now.
 */
static int merge_one_size(struct shfs_index *index)
{
	int64_t ids[16][MERGE_RUNS];
	size_t n[16] = { 0 };
	unsigned full = 16;
	int r;

	{
		_cleanup_stmt_ sqlite3_stmt *stmt = NULL;

		r = shfs_sql_get(index, &stmt,
		                 "SELECT run_id, entries FROM run WHERE entries < ?"
		                 " ORDER BY run_id",
		                 shfs_arg_int(ENTRIES_MAX));
		for (; r > 0 && full == 16; r = shfs_sql_next(index, stmt)) {
			unsigned size = size_of(sqlite3_column_int64(stmt, 1)) % 16;

			ids[size][n[size]++] = sqlite3_column_int64(stmt, 0);
			if (n[size] == MERGE_RUNS)
				full = size;
		}
	}
	if (r < 0 || full == 16)
		return MIN(r, 0);
	return merge_sorted_runs(index, ids[full], MERGE_RUNS) ?: 1;
}

/* --- additions of an ingest --- */

int shfs_file_uses_append(struct shfs_file_uses *uses, struct shfs_file_use use)
{
	if (!MAKE_ROOM(uses->list, uses->n, uses->cap))
		return -ENOMEM;
	uses->list[uses->n++] = use;
	return 0;
}

int shfs_file_use_add(struct shfs_ingest *ing, struct shfs_file_use use)
{
	return shfs_file_uses_append(&ing->uses, use);
}

int shfs_file_uses_flush(struct shfs_ingest *ing)
{
	struct run_writer w;
	struct shfs_file_use *list = ing->uses.list;
	size_t n = ing->uses.n;
	int r;

	if (!n)
		return 0;
	ing->uses.n = 0;
	qsort(list, n, sizeof(*list), compare_use);
	r = run_begin(&w, ing->index);
	for (size_t i = 0; i < n && !r; i++)
		r = run_add(&w, &list[i]);
	if (!r)
		r = run_end(&w);
	while (!r && (r = merge_one_size(ing->index)) > 0)
		r = 0;
	return r;
}

void shfs_file_uses_forget(struct shfs_ingest *ing)
{
	free(ing->uses.list);
	ing->uses = (struct shfs_file_uses){ 0 };
}

/* --- searching --- */

static const char runs_sql[] = "SELECT run_id FROM run";
/* Selects the pages of a run from where a file would begin to an end. The page before
 * those that begin with the file may end with it, too. */
static const char pages_sql[] =
	"SELECT page_id, data FROM run_page WHERE page_id >= coalesce((SELECT"
	" max(page_id) FROM run_page WHERE page_id >= ?1 AND page_id < ?2), ?2)"
	" AND page_id < ?3 ORDER BY page_id";

/* A search in a run; the files before next are done. */
struct search {
	const struct shfs_ids *files;
	size_t next;
	struct shfs_file_uses *opens;
	struct shfs_ids *changes;
	bool made; /* only opens that have made a version */
	struct shfs_index *index;
};

/* Searches one page; *last: the last file in it. */
static int search_page(struct search *s, sqlite3_stmt *pages, int64_t *last)
{
	const struct shfs_ids *files = s->files;
	uint8_t raw[RAW_MAX];
	struct shfs_file_use u;
	struct shfs_cursor c;
	int r = page_open(s->index->codecs, pages, 1, raw, &c, &u);

	if (r)
		return r;
	while ((r = page_next(&c, &u)) > 0) {
		while (s->next < files->n && files->ids[s->next] < u.file_id)
			s->next++;
		if (s->next == files->n)
			return 0;
		if (u.file_id != files->ids[s->next])
			continue;
		if (u.change)
			r = shfs_ids_add(s->changes, u.access_id);
		else
			r = s->opens && (u.made || !s->made)
			            ? shfs_file_uses_append(s->opens, u)
			            : 0;
		if (r)
			return r;
	}
	*last = u.file_id;
	return r;
}

/* Searches page after page, as long as the next file is likely in the next one. 1: it is
 * further away. */
static int search_on(struct search *s, sqlite3_stmt *pages)
{
	int64_t first, last = 0;
	bool sought = true; /* the query has found this page for the next file */
	int r;

	for (; (r = shfs_sql_next(s->index, pages)) > 0; sought = false) {
		first = sqlite3_column_int64(pages, 0) >> K_BITS & UINT32_MAX;
		r = search_page(s, pages, &last);
		if (r || s->next == s->files->n)
			return r;
		/* the last file in the page may go on in the next one */
		if (!sought && s->files->ids[s->next] > last + 2 * (last - first))
			return 1;
	}
	s->next = s->files->n;
	return r;
}

static int search_run(struct search *s, sqlite3_stmt *pages, int64_t run_id)
{
	int64_t end = s->files->ids[s->files->n - 1] + 1;
	int r = 1;

	for (s->next = 0; r > 0 && s->next < s->files->n;) {
		sqlite3_reset(pages);
		sqlite3_bind_int64(pages, 1, page_id(run_id, 0, 0));
		sqlite3_bind_int64(pages, 2, page_id(run_id, s->files->ids[s->next], 0));
		sqlite3_bind_int64(pages, 3, page_id(run_id, end, 0));
		r = search_on(s, pages);
	}
	sqlite3_reset(pages);
	return r;
}

int shfs_file_uses_find(struct shfs_index *index, const struct shfs_ids *files, bool made,
                        struct shfs_file_uses *opens, struct shfs_ids *changes)
{
	struct search s = { .files = files,
		            .opens = opens,
		            .changes = changes,
		            .made = made,
		            .index = index };
	sqlite3_stmt *runs = NULL, *pages = NULL;
	int r = 0;

	if (!files->n)
		return 0;
	r = shfs_stmt_take(index, runs_sql, &runs)
	            ?: shfs_stmt_take(index, pages_sql, &pages);
	while (!r && (r = shfs_sql_next(index, runs)) > 0)
		r = search_run(&s, pages, sqlite3_column_int64(runs, 0));
	shfs_stmt_give(index, runs_sql, runs);
	shfs_stmt_give(index, pages_sql, pages);
	return r;
}
