/* SPDX-License-Identifier: MIT */
/*
 * Packs accesses: a chunk has accesses of one process in the order of the journal, each
 * as the differences from the one before. All numbers are varints (7 bits a byte, the
 * lowest first), signed ones in zigzag.
 *
 *     chunk:   the seq before the first, its begin and its moment, then accesses
 *     access:  head, then the fields that the head announces
 */
#include "store/index/internal.h"

#include <errno.h>
#include <string.h>

#define CHUNK_BYTES 950 /* four fill a page */
#define ACCESS_MAX  96  /* bytes of an access */

enum head {
	HAS_SEEN = 1 << 0,
	HAS_MADE = 1 << 1,
	HAS_MOMENT = 1 << 2, /* not usual_moment */
	HAS_FLAGS = 1 << 3,  /* not usual_flags */
	HAS_OP = 1 << 4,     /* not an open */
	HAS_MORE = 1 << 5,   /* a byte of enum more */
	SAME_FILE = 1 << 6,
	OTHER_SEQ = 1 << 7, /* not the next one */
};

enum more {
	MORE_DIRECTORY = 1 << 0,
	MORE_FILE2 = 1 << 1,
	MORE_TEXT = 1 << 2,
	MORE_CUT = 1 << 3,
	MORE_TORN = 1 << 4,
	MORE_FLAWED = 1 << 5,
	MORE_CUT_ONE = 1 << 6, /* the count is 1, and left out */
};

/* --- varints --- */

uint8_t *shfs_varint_put(uint8_t *p, uint64_t value)
{
	for (; value >= 0x80; value >>= 7)
		*p++ = (uint8_t)value | 0x80;
	*p++ = (uint8_t)value;
	return p;
}

/* --- one access --- */

/* Returns the flags of an open for reading; a change of names has none. */
static uint32_t usual_flags(uint32_t op)
{
	return op ? 0 : SHFS_ACCESS_READ;
}

/* Returns the moment that follows from the other times: that of the begin, or for a
 * writer, which writes shortly before it closes, that of the end. */
static int64_t usual_moment(const struct shfs_access *first, const struct shfs_access *a)
{
	int64_t us = shfs_access_is_written(a) ? a->end_us : a->begin_us;

	return shfs_wrap_add(first->moment_us, shfs_wrap_sub(us, first->begin_us));
}

static uint8_t *put_more(uint8_t *p, const struct shfs_access *a)
{
	uint8_t *mask = p++;

	*mask = (a->directory ? MORE_DIRECTORY : 0) | (a->file2_id ? MORE_FILE2 : 0) |
	        (a->text_id ? MORE_TEXT : 0) |
	        (a->cut == 1 ? MORE_CUT_ONE
	         : a->cut    ? MORE_CUT
	                     : 0) |
	        (a->torn ? MORE_TORN : 0) | (a->flawed ? MORE_FLAWED : 0);
	if (a->file2_id)
		p = shfs_varint_put(p, a->file2_id);
	if (a->text_id)
		p = shfs_varint_put(p, a->text_id);
	if (a->cut > 1)
		p = shfs_varint_put(p, a->cut);
	if (a->torn)
		p = shfs_varint_put(p, a->torn);
	return p;
}

static uint8_t *pack_access(uint8_t *p, const struct shfs_access *first,
                            const struct shfs_access *last, const struct shfs_access *a)
{
	bool more = a->directory || a->flawed || a->file2_id || a->text_id || a->cut ||
	            a->torn;
	int64_t moment = shfs_wrap_sub(a->moment_us, usual_moment(first, a));
	unsigned head = (a->seen_n ? HAS_SEEN : 0) | (a->made_n ? HAS_MADE : 0) |
	                (moment ? HAS_MOMENT : 0) |
	                (a->flags != usual_flags(a->op) ? HAS_FLAGS : 0) |
	                (a->op ? HAS_OP : 0) | (more ? HAS_MORE : 0) |
	                (a->file_id == last->file_id ? SAME_FILE : 0) |
	                (a->seq != last->seq + 1 ? OTHER_SEQ : 0);

	*p++ = (uint8_t)head;
	if (head & OTHER_SEQ)
		p = shfs_varint_put(p, a->seq - last->seq);
	if (!(head & SAME_FILE))
		p = shfs_varint_put(p, shfs_zigzag(a->file_id - last->file_id));
	p = shfs_varint_put(p, shfs_zigzag(a->begin_us - last->end_us));
	p = shfs_varint_put(p, a->end_us - a->begin_us);
	if (head & HAS_SEEN)
		p = shfs_varint_put(p, a->seen_n);
	if (head & HAS_MADE)
		p = shfs_varint_put(p, a->made_n);
	if (head & HAS_MOMENT)
		p = shfs_varint_put(p, shfs_zigzag(moment));
	if (head & HAS_OP)
		p = shfs_varint_put(p, a->op);
	if (head & HAS_FLAGS)
		p = shfs_varint_put(p, a->flags);
	return head & HAS_MORE ? put_more(p, a) : p;
}

static inline void get_more(struct shfs_cursor *c, struct shfs_access *a)
{
	uint8_t mask = shfs_cursor_u8(c);

	a->directory = mask & MORE_DIRECTORY;
	a->flawed = mask & MORE_FLAWED;
	if (mask & MORE_FILE2)
		a->file2_id = shfs_varint_get(c);
	if (mask & MORE_TEXT)
		a->text_id = shfs_varint_get(c);
	a->cut = !!(mask & MORE_CUT_ONE);
	if (mask & MORE_CUT)
		a->cut = shfs_varint_get(c);
	if (mask & MORE_TORN)
		a->torn = shfs_varint_get(c);
}

/* Unpacks the next access. The cursor is a local copy, so that it stays in registers. */
static void unpack_access(struct shfs_chunk_reader *r)
{
	struct shfs_cursor c = r->at;
	uint8_t head = shfs_cursor_u8(&c);
	struct shfs_access *a = &r->access;
	int64_t moment = 0;

	/* field by field: that is faster than clearing all of it at once */
	a->file2_id = a->text_id = a->seen_n = a->made_n = 0;
	a->op = a->cut = a->torn = 0;
	a->directory = a->flawed = false;
	a->access_id++;
	a->seq = shfs_wrap_add(a->seq, head & OTHER_SEQ ? shfs_varint_get(&c) : 1);
	if (!(head & SAME_FILE))
		a->file_id =
			shfs_wrap_add(a->file_id, shfs_unzigzag(shfs_varint_get(&c)));
	a->begin_us = shfs_wrap_add(a->end_us, shfs_unzigzag(shfs_varint_get(&c)));
	a->end_us = shfs_wrap_add(a->begin_us, shfs_varint_get(&c));
	if (head & HAS_SEEN)
		a->seen_n = shfs_varint_get(&c);
	if (head & HAS_MADE)
		a->made_n = shfs_varint_get(&c);
	if (head & HAS_MOMENT)
		moment = shfs_unzigzag(shfs_varint_get(&c));
	if (head & HAS_OP)
		a->op = shfs_varint_get(&c);
	a->flags = usual_flags(a->op);
	if (head & HAS_FLAGS)
		a->flags = shfs_varint_get(&c);
	a->moment_us = shfs_wrap_add(usual_moment(&r->first, a), moment);
	if (head & HAS_MORE)
		get_more(&c, a);
	r->at = c;
}

/* --- reading --- */

void shfs_chunk_open(struct shfs_chunk_reader *r, int64_t chunk_id, const void *data,
                     size_t len)
{
	*r = (struct shfs_chunk_reader){ .at = { data, (const uint8_t *)data + len } };
	r->access.access_id = chunk_id - 1;
	r->access.seq = shfs_varint_get(&r->at);
	r->access.begin_us = shfs_varint_get(&r->at);
	r->access.moment_us = shfs_varint_get(&r->at);
	r->access.end_us = r->access.begin_us;
	r->first = r->access;
}

int shfs_chunk_next(struct shfs_chunk_reader *r)
{
	if (!r->at.failed && r->at.p == r->at.end)
		return 0;
	unpack_access(r);
	return r->at.failed ? -EBADMSG : 1;
}

/* --- writing --- */

/* The accesses of a process that this transaction has not written yet. */
struct shfs_chunk {
	int64_t process_id;
	uint32_t first_n, n; /* number of the first access in data; last number given */
	struct shfs_access first, last;
	size_t len;
	uint8_t data[CHUNK_BYTES + ACCESS_MAX];
	UT_hash_handle hh;
};

/* Gets the last number given to an access of the process; 0 for a process of this
 * transaction, unless its accesses were written already. */
static int last_number(struct shfs_ingest *ing, int64_t process_id, int64_t *out)
{
	int r;

	*out = 0;
	if (process_id > ing->last_process_id && !ing->flushed_early)
		return 0;
	r = shfs_sql_int(ing->index, out,
	                 "SELECT accesses FROM process WHERE process_id = ?",
	                 shfs_arg_int(process_id));
	return r < 0 ? r : r ? 0 : -EBADMSG;
}

static int chunk_get(struct shfs_ingest *ing, int64_t process_id, struct shfs_chunk **out)
{
	struct shfs_chunk *c = ing->chunk;
	int64_t n = 0;
	int r;

	if (c && c->process_id == process_id) {
		*out = c;
		return 0;
	}
	HASH_FIND(hh, ing->chunks, &process_id, sizeof(process_id), c);
	if (!c) {
		r = last_number(ing, process_id, &n);
		if (r)
			return r;
		c = malloc(sizeof(*c));
		if (!c)
			return -ENOMEM;
		c->process_id = process_id;
		c->n = n;
		c->len = 0;
		HASH_ADD(hh, ing->chunks, process_id, sizeof(process_id), c);
		if (!c->hh.tbl) {
			free(c);
			return -ENOMEM;
		}
	}
	ing->chunk = *out = c;
	return 0;
}

/* Puts a full chunk aside: all chunks of the transaction are written together, in the
 * order of the table. */
static int chunk_put_by(struct shfs_ingest *ing, struct shfs_chunk *c)
{
	struct shfs_packed_chunks *all = &ing->packed;

	if (!c->len)
		return 0;
	if (!MAKE_ROOM(all->list, all->n, all->cap))
		return -ENOMEM;
	all->list[all->n++] = (struct shfs_packed_chunk){
		.chunk_id = shfs_access_id(c->process_id, c->first_n),
		.at = all->data.len,
		.len = c->len,
	};
	shfs_buf_add(&all->data, c->data, c->len);
	c->len = 0;
	return all->data.failed ? -ENOMEM : 0;
}

static void chunk_begin(struct shfs_chunk *c, const struct shfs_access *a)
{
	uint8_t *p = c->data;

	c->first = *a;
	c->last = (struct shfs_access){ .seq = a->seq - 1, .end_us = a->begin_us };
	c->first_n = c->n + 1;
	p = shfs_varint_put(p, c->last.seq);
	p = shfs_varint_put(p, a->begin_us);
	p = shfs_varint_put(p, a->moment_us);
	c->len = p - c->data;
}

int shfs_chunk_next_id(struct shfs_ingest *ing, int64_t process_id, int64_t *out)
{
	struct shfs_chunk *c;
	int r = chunk_get(ing, process_id, &c);

	if (!r)
		*out = shfs_access_id(process_id, c->n + 1);
	return r;
}

int shfs_chunk_add(struct shfs_ingest *ing, int64_t process_id,
                   const struct shfs_access *a)
{
	struct shfs_chunk *c;
	int r = chunk_get(ing, process_id, &c);

	if (r)
		return r;
	if (!c->len)
		chunk_begin(c, a);
	c->len = pack_access(c->data + c->len, &c->first, &c->last, a) - c->data;
	c->last = *a;
	c->n++;
	return c->len > CHUNK_BYTES ? chunk_put_by(ing, c) : 0;
}

static int compare_process(struct shfs_chunk *a, struct shfs_chunk *b)
{
	return (a->process_id > b->process_id) - (a->process_id < b->process_id);
}

static int compare_chunk_ids(const void *a, const void *b)
{
	const struct shfs_packed_chunk *x = a, *y = b;

	return (x->chunk_id > y->chunk_id) - (x->chunk_id < y->chunk_id);
}

static int write_packed(struct shfs_ingest *ing)
{
	struct shfs_packed_chunks *all = &ing->packed;
	int r = 0;

	if (all->n)
		qsort(all->list, all->n, sizeof(*all->list), compare_chunk_ids);
	for (size_t i = 0; i < all->n && !r; i++) {
		struct shfs_packed_chunk *c = &all->list[i];
		struct shfs_bytes data = { all->data.data + c->at, c->len };

		r = shfs_sql_run(ing->index,
		                 "INSERT INTO chunk (chunk_id, data) VALUES (?, ?)",
		                 shfs_arg_int(c->chunk_id), shfs_arg_blob(data));
	}
	return r;
}

int shfs_chunks_flush(struct shfs_ingest *ing)
{
	struct shfs_chunk *c;
	int r = 0;

	ing->flushed_early = true;
	HASH_SORT(ing->chunks, compare_process);
	for (c = ing->chunks; c && !r; c = c->hh.next) {
		r = chunk_put_by(ing, c);
		if (!r)
			r = shfs_sql_run(ing->index,
			                 "UPDATE process SET accesses = ?"
			                 " WHERE process_id = ?",
			                 shfs_arg_int(c->n), shfs_arg_int(c->process_id));
	}
	if (!r)
		r = write_packed(ing);
	shfs_chunks_forget(ing);
	return r;
}

void shfs_chunks_forget(struct shfs_ingest *ing)
{
	struct shfs_chunk *c, *next;

	free(ing->packed.list);
	shfs_buf_free(&ing->packed.data);
	ing->packed = (struct shfs_packed_chunks){ 0 };
	ing->chunk = NULL;
	HASH_ITER (hh, ing->chunks, c, next) {
		HASH_DEL(ing->chunks, c);
		free(c);
	}
}
