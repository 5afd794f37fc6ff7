/* SPDX-License-Identifier: MIT */
/*
 * Ingests new records of the journal into the index: their order, transactions, and how
 * far each file was read.
 */
#include "store/index/internal.h"

#include "common/debug.h"
#include "store/index/heap.h"
#include "store/journal/hooklog.h"
#include "store/journal/journal.h"
#include "store/journal/runtime.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

/* The limits of a transaction, whichever comes first. The longer it is, the fewer times a
 * row is written; but others wait for it no longer than SHFS_BUSY_MS, and records that a
 * kill undoes are read again. */
unsigned shfs_ingest_batch = 200000;
unsigned shfs_ingest_batch_ms = 2000;

/* Length of SQLite's log, in pages, at which a transaction copies it into the database.
 * If further transactions follow at once, they change the same pages again, so the limit
 * is higher and a page is copied once for several of them. */
#define LOG_PAGES      1000
#define LOG_PAGES_MORE 65536

#define MANY_RECORDS 20000 /* from then on it is worth its huge pages */
#define RETRY_TASKS  1000  /* processes attributed again between two looks at the clock */

/* --- transactions --- */

/* Is the caller's time over? */
static bool is_over(const struct shfs_ingest *ing)
{
	return ing->until_ns && shfs_clock_ns(CLOCK_MONOTONIC) >= ing->until_ns;
}

static void forget_ingest_memory(struct shfs_ingest *ing)
{
	shfs_files_forget(ing);
	shfs_processes_forget(ing);
	shfs_chunks_forget(ing);
	shfs_file_uses_forget(ing);
	shfs_strings_forget(ing);
	shfs_seen_forget(ing);
	ing->producer.id = 0;
	ing->session.session_id = 0;
}

static int state_load(struct shfs_ingest *ing)
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	int r = shfs_sql_get(ing->index, &stmt,
	                     "SELECT accesses, seq, files, versions, objects, retry_due,"
	                     " (SELECT coalesce(max(file_id), 0) + 1 FROM file),"
	                     " (SELECT max(process_id) FROM process) FROM state");

	if (r <= 0)
		return r ?: -EBADMSG;
	ing->totals.accesses = sqlite3_column_int64(stmt, 0);
	ing->totals.seq = sqlite3_column_int64(stmt, 1);
	ing->totals.files = sqlite3_column_int64(stmt, 2);
	ing->totals.versions = sqlite3_column_int64(stmt, 3);
	ing->totals.objects = sqlite3_column_int64(stmt, 4);
	ing->retry_due = sqlite3_column_int(stmt, 5);
	ing->next_file_id = sqlite3_column_int64(stmt, 6);
	ing->last_process_id = sqlite3_column_int64(stmt, 7);
	return 0;
}

static int state_store(struct shfs_ingest *ing)
{
	return shfs_sql_run(ing->index,
	                    "UPDATE state SET accesses = ?, seq = ?, files = ?,"
	                    " versions = ?, objects = ?, retry_due = ?",
	                    shfs_arg_int(ing->totals.accesses),
	                    shfs_arg_int(ing->totals.seq),
	                    shfs_arg_int(ing->totals.files),
	                    shfs_arg_int(ing->totals.versions),
	                    shfs_arg_int(ing->totals.objects),
	                    shfs_arg_int(ing->retry_due));
}

/* Waits for another writer: until the caller's time is over, or as long as that writer
 * goes on. */
static int lock_for_writing(struct shfs_ingest *ing)
{
	int64_t seq = -1, before, left_ms = SHFS_BUSY_MS;
	int r;

	do {
		before = seq;
		r = shfs_sql_int(ing->index, &seq, "SELECT seq FROM state");
		if (r < 0 || (before >= 0 && seq == before))
			return r < 0 ? r : -EBUSY;
		if (ing->until_ns)
			left_ms = (ing->until_ns - shfs_clock_ns(CLOCK_MONOTONIC)) /
			          (SHFS_NSEC_PER_SEC / 1000);
		sqlite3_busy_timeout(ing->index->db, (int)MAX(left_ms, (int64_t)0));
		r = shfs_sql_run(ing->index, "BEGIN IMMEDIATE");
		sqlite3_busy_timeout(ing->index->db, SHFS_BUSY_MS);
	} while (r == -EBUSY && !ing->until_ns);
	return r;
}

/* Begins a transaction. The caches in memory are valid unless another process has
 * written.
 */
static int transaction_begin(struct shfs_ingest *ing)
{
	int64_t version = 0;
	int r;

	if (ing->in_transaction)
		return 0;
	r = lock_for_writing(ing);
	if (r)
		return r;
	ing->in_transaction = true;
	ing->begin_ns = shfs_clock_ns(CLOCK_MONOTONIC);
	ing->pending = 0;
	r = shfs_sql_int(ing->index, &version, "PRAGMA data_version");
	if (r >= 0 && version != ing->data_version)
		forget_ingest_memory(ing);
	ing->data_version = version;
	ing->round++;
	ing->flushed_early = false;
	shfs_files_trim(ing);
	return r < 0 ? r : state_load(ing);
}

/* Commits; more: the next transaction follows at once. */
static int transaction_commit(struct shfs_ingest *ing, bool more)
{
	int r;

	if (!ing->in_transaction)
		return 0;
	sqlite3_wal_autocheckpoint(ing->index->db, more ? LOG_PAGES_MORE : LOG_PAGES);
	ing->clock_boot_id = 0;
	r = shfs_chunks_flush(ing);
	if (!r)
		r = shfs_file_uses_flush(ing);
	if (!r)
		r = shfs_inodes_settle(ing);
	if (!r)
		r = shfs_files_flush(ing);
	if (!r)
		r = shfs_left_out_flush(ing);
	if (!r)
		r = state_store(ing);
	if (!r)
		r = shfs_news_apply(ing);
	if (!r)
		r = shfs_sql_run(ing->index, "COMMIT");
	if (!r)
		ing->in_transaction = false;
	return r;
}

static bool is_batch_late(const struct shfs_ingest *ing)
{
	return is_over(ing) || shfs_clock_ns(CLOCK_MONOTONIC) - ing->begin_ns >=
	                               shfs_ingest_batch_ms * (SHFS_NSEC_PER_SEC / 1000);
}

/* Has the transaction reached a limit? It has one record at least. */
static bool is_full(const struct shfs_ingest *ing)
{
	return ing->pending && (ing->pending >= shfs_ingest_batch || is_batch_late(ing));
}

/* Commits a full transaction between two files of the journal. 1: the time is over. */
static int commit_if_late(struct shfs_ingest *ing)
{
	int r = 0;

	if (ing->in_transaction && is_batch_late(ing))
		r = transaction_commit(ing, true);
	return r ? r : is_over(ing);
}

/* Commits a full transaction within a file. 1: the time is over. */
static int commit_full(struct shfs_ingest *ing)
{
	int r = transaction_commit(ing, true);

	return r ? r : is_over(ing);
}

/* Makes room in memory for an ingest that takes long. */
static void expect_many(struct shfs_ingest *ing)
{
	shfs_heap_reserve();
	/* if this fails, it is only slower */
	sqlite3_exec(ing->index->db, "PRAGMA cache_size = -65536", NULL, NULL, NULL);
}

static void count_record(struct shfs_ingest *ing)
{
	ing->pending++;
	if (++ing->stats.records == MANY_RECORDS)
		expect_many(ing);
	ing->retry_due = true;
}

/* --- positions --- */

struct position {
	uint64_t offset, damaged;
	bool known, done;
	int64_t owner_id;
};

static int position_load(struct shfs_ingest *ing, const char *host, const char *name,
                         struct position *out)
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	int r = shfs_sql_get(
		ing->index, &stmt,
		"SELECT offset, damaged, done, owner_id FROM segment_position"
		" WHERE host = ? AND name = ?",
		shfs_arg_text(shfs_bytes_str(host)), shfs_arg_text(shfs_bytes_str(name)));

	*out = (struct position){ 0 };
	if (r <= 0)
		return r;
	out->known = true;
	out->offset = sqlite3_column_int64(stmt, 0);
	out->damaged = sqlite3_column_int64(stmt, 1);
	out->done = sqlite3_column_int(stmt, 2);
	out->owner_id = sqlite3_column_int64(stmt, 3);
	return 0;
}

static int position_store(struct shfs_ingest *ing, const char *host, const char *name,
                          const struct position *p)
{
	return shfs_sql_run(ing->index,
	                    "INSERT INTO segment_position (host, name, offset, damaged, "
	                    "done, owner_id)"
	                    " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET"
	                    " offset = excluded.offset, damaged = excluded.damaged,"
	                    " done = excluded.done, owner_id = excluded.owner_id",
	                    shfs_arg_text(shfs_bytes_str(host)),
	                    shfs_arg_text(shfs_bytes_str(name)), shfs_arg_int(p->offset),
	                    shfs_arg_int(p->damaged), shfs_arg_int(p->done),
	                    shfs_arg_id(p->owner_id));
}

/* --- the trace --- */

void shfs_trace_free(struct shfs_trace *t)
{
	for (size_t i = 0; i < t->n; i++) {
		free(t->list[i].host);
		free(t->list[i].name);
		shfs_ids_free(&t->list[i].rows);
	}
	free(t->list);
	*t = (struct shfs_trace){ 0 };
}

/* Finds the entry of a file, or adds it: the file may have been read in part before. */
static int trace_file(struct shfs_ingest *ing, const char *host, const char *name,
                      bool hook_log)
{
	struct shfs_trace *t = ing->index->trace;

	if (!t)
		return 0;
	for (size_t i = t->n; i-- > 0;) {
		t->now = &t->list[i];
		if (!strcmp(t->now->name, name) && !strcmp(t->now->host, host))
			return 0;
	}
	if (!MAKE_ROOM(t->list, t->n, t->cap))
		return -ENOMEM;
	t->now = &t->list[t->n++];
	*t->now = (struct shfs_trace_file){
		.host = strdup(host),
		.name = strdup(name),
		.hook_log = hook_log,
	};
	return t->now->host && t->now->name ? 0 : -ENOMEM;
}

static int trace_row(struct shfs_ingest *ing)
{
	struct shfs_trace *t = ing->index->trace;

	return t ? shfs_ids_add(&t->now->rows, ing->row) : 0;
}

/* --- files of the journal --- */

/* A segment or hook log with new records. */
struct source {
	char *host, *name;
	int dirfd; /* borrowed from the list */
	bool sealed;
	uint64_t size_bytes; /* it is to be read up to here */
	uint64_t left_bytes; /* bytes on the disk that were not read */
	/* the order of segments */
	unsigned char instance[16];
	int64_t begin_ns; /* of the instance */
	uint32_t number;
	bool known; /* the instance is in the index */
};

struct sources {
	struct source *list;
	size_t n, cap;
};

struct walk {
	struct shfs_ingest *ing;
	struct sources logs, segments;
	struct shfs_ids dirs; /* fds */
	struct stat dir;      /* of the last of them */
	/* positions in the index, in the order in which the walk visits their files */
	sqlite3_stmt *positions;
	int more; /* result of shfs_sql_next */
};

static void source_free(struct source *one)
{
	free(one->host);
	free(one->name);
}

static void sources_free(struct sources *s)
{
	for (size_t i = 0; i < s->n; i++)
		source_free(&s->list[i]);
	free(s->list);
}

static void walk_free(struct walk *w)
{
	sources_free(&w->logs);
	sources_free(&w->segments);
	for (size_t i = 0; i < w->dirs.n; i++)
		close(w->dirs.ids[i]);
	shfs_ids_free(&w->dirs);
}

/* Keeps an fd of our own for each directory, as the walk closes its fd. */
static int keep_dir(struct walk *w, int dirfd)
{
	struct stat st;
	int fd, r;

	if (fstat(dirfd, &st))
		return -errno;
	if (w->dirs.n && st.st_dev == w->dir.st_dev && st.st_ino == w->dir.st_ino)
		return w->dirs.ids[w->dirs.n - 1];
	fd = fcntl(dirfd, F_DUPFD_CLOEXEC, 3);
	if (fd < 0)
		return -errno;
	r = shfs_ids_add(&w->dirs, fd);
	if (r) {
		close(fd);
		return r;
	}
	w->dir = st;
	return fd;
}

static int sources_add(struct sources *s, const struct shfs_journal_file *file, int dirfd,
                       uint64_t left_bytes)
{
	struct source *one;

	if (!MAKE_ROOM(s->list, s->n, s->cap))
		return -ENOMEM;
	one = &s->list[s->n++];
	*one = (struct source){ .host = strdup(file->host),
		                .name = strdup(file->name),
		                .dirfd = dirfd,
		                .sealed = file->sealed,
		                .size_bytes =
		                        file->sealed ? UINT64_MAX : file->size_bytes,
		                .left_bytes = left_bytes,
		                .begin_ns = INT64_MAX };
	return one->host && one->name ? 0 : -ENOMEM;
}

/* Compares the current row of positions with the file, as strcmp does. */
static int position_compare(const struct walk *w, const struct shfs_journal_file *file)
{
	const char *host = (const char *)sqlite3_column_text(w->positions, 0);
	const char *name = (const char *)sqlite3_column_text(w->positions, 1);
	int c = strcmp(host ? host : "", file->host);

	return c ? c : strcmp(name ? name : "", file->name);
}

/*
 * Does the file have bytes that were not read? *left_bytes: how many on the disk (of a
 * sealed segment that was read in part: all). A journal has many files, and few of them
 * have news: so there is no query for each, but a merge of the walk and the positions. A
 * file that is out of order counts as news, which is only slower.
 */
static int has_news(struct walk *w, const struct shfs_journal_file *file,
                    uint64_t *left_bytes)
{
	uint64_t read_bytes;
	int c = 1;

	*left_bytes = file->size_bytes;

	while (w->more > 0 && (c = position_compare(w, file)) < 0)
		w->more = shfs_sql_next(w->ing->index, w->positions);
	if (w->more <= 0 || c)
		return w->more < 0 ? w->more : 1;
	if (sqlite3_column_int(w->positions, 3))
		return 0;
	read_bytes = (uint64_t)sqlite3_column_int64(w->positions, 2);
	if (!file->sealed)
		*left_bytes -= MIN(read_bytes, file->size_bytes);
	return file->sealed || *left_bytes;
}

static int add_source_with_news(const struct shfs_journal_file *file, void *arg)
{
	struct walk *w = arg;
	uint64_t left_bytes;
	int fd, r = has_news(w, file, &left_bytes);

	if (r <= 0)
		return r;
	shfs_debug(INGEST, "%s/%s: has news%s", file->host, file->name,
	           file->sealed ? ", sealed" : "");
	fd = keep_dir(w, file->dirfd);
	return fd < 0 ? fd
	              : sources_add(file->hook_log ? &w->logs : &w->segments, file, fd,
	                            left_bytes);
}

static int walk_files(struct walk *w, enum shfs_journal_kinds kind)
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	int r;

	w->more = shfs_sql_get(w->ing->index, &stmt,
	                       "SELECT host, name, offset, done FROM segment_position"
	                       " WHERE (substr(name, -4) = '.log') = ?"
	                       " ORDER BY host, name",
	                       shfs_arg_int(kind == SHFS_JOURNAL_HOOK_LOGS));
	w->positions = stmt;
	r = w->more < 0 ? w->more
	                : shfs_journal_walk(w->ing->index->store, kind,
	                                    add_source_with_news, w);
	w->positions = NULL;
	return r;
}

/* Is this an error of one file, which must not keep other files out? */
static bool is_files_fault(int r)
{
	return r == -EBADMSG || r == -EPROTONOSUPPORT || r == -ENOENT || r == -EFBIG ||
	       r == -EACCES || r == -ELOOP;
}

/* --- reading hook logs --- */

static int hook_log_read(struct shfs_ingest *ing, const struct source *src,
                         struct shfs_hooklog *log, struct position *p)
{
	struct shfs_record rec;
	uint64_t damaged = shfs_hooklog_damaged(log), before = p->offset;
	int r = 0;

	while (!is_full(ing) && (r = shfs_hooklog_next(log, &rec)) > 0) {
		uint64_t dropped = 0;

		ing->row = 0;
		r = shfs_apply_hook_record(ing, src->host, &rec);
		if (r >= 0 && trace_row(ing))
			r = -ENOMEM;
		if (r < 0)
			return r;
		p->offset = shfs_hooklog_offset(log);
		if (r == SHFS_DROPPED)
			dropped = p->offset - before;
		dropped += shfs_hooklog_damaged(log) - damaged;
		p->damaged += dropped;
		ing->stats.damaged_bytes += dropped;
		damaged = shfs_hooklog_damaged(log);
		before = p->offset;
		count_record(ing);
	}
	return r < 0 ? r : is_full(ing);
}

/* Reads a hook log. 1: there is more, but the transaction is full; the log stays open. */
static int hook_log_batch(struct shfs_ingest *ing, const struct source *src,
                          struct shfs_hooklog **log)
{
	struct position p;
	int more, r = transaction_begin(ing);

	if (!r)
		r = position_load(ing, src->host, src->name, &p);
	if (r)
		return r;
	if (!*log || shfs_hooklog_offset(*log) != p.offset) {
		shfs_hooklog_close(TAKE_PTR(*log));
		r = shfs_hooklog_open(src->dirfd, src->name, p.offset, log);
		if (r)
			return is_files_fault(r) ? 0 : r;
	}
	ing->session.session_id = p.owner_id;
	more = hook_log_read(ing, src, *log, &p);
	if (more < 0)
		return more;
	p.owner_id = ing->session.session_id;
	r = position_store(ing, src->host, src->name, &p);
	return r ? r : more;
}

static int hook_log_ingest(struct shfs_ingest *ing, const struct source *src)
{
	struct shfs_hooklog *log = NULL;
	int r = trace_file(ing, src->host, src->name, true);

	while (!r && (r = hook_log_batch(ing, src, &log)) > 0)
		r = commit_full(ing);
	shfs_hooklog_close(log);
	return r ? r : commit_if_late(ing);
}

/* --- reading segments --- */

static int begin_of_instance(struct shfs_ingest *ing, const struct source *src,
                             const struct shfs_rec_producer *p, int64_t *out)
{
	int r = shfs_sql_int(ing->index, out,
	                     "SELECT begin_ns FROM producer JOIN boot USING (boot_id)"
	                     " WHERE host = ? AND boot = ? AND instance = ?",
	                     shfs_arg_text(shfs_bytes_str(src->host)),
	                     shfs_arg_text(p->boot_id), shfs_arg_blob(p->instance));

	return MIN(r, 0);
}

/* Notes a segment of which nothing can be read as damaged, until it grows. */
static int segment_unreadable(struct shfs_ingest *ing, const struct source *src)
{
	struct position p, next = { .done = src->sealed };
	struct stat st;
	char name[300];
	int r = position_load(ing, src->host, src->name, &p);

	snprintf(name, sizeof(name), "%s%s", src->name, src->sealed ? ".zst" : "");
	if (r || fstatat(src->dirfd, name, &st, AT_SYMLINK_NOFOLLOW))
		return r;
	next.damaged = st.st_size;
	if (p.damaged == next.damaged && p.done == next.done)
		return 0;
	ing->stats.damaged_bytes += next.damaged - MIN(p.damaged, next.damaged);
	r = transaction_begin(ing);
	return r ? r : position_store(ing, src->host, src->name, &next);
}

/* Finds the segment's position in the order. 1: it has none, as it cannot be read. */
static int segment_peek(struct shfs_ingest *ing, struct source *src)
{
	struct shfs_segment *segment;
	const struct shfs_rec_producer *p;
	struct shfs_record rec;
	int64_t known = INT64_MAX;
	int r = shfs_segment_open(src->dirfd, src->name, 0, &segment);

	if (r)
		shfs_debug(INGEST, "%s/%s: passed over: %s", src->host, src->name,
		           r == -EBADMSG           ? "it is no segment, or just begun"
		           : r == -EPROTONOSUPPORT ? "another version of shfs made it"
		                                   : strerrordesc_np(-r));
	if (r == -EBADMSG || r == -EFBIG)
		return segment_unreadable(ing, src) ?: 1;
	if (r)
		return is_files_fault(r) ? 1 : r;
	p = shfs_segment_producer(segment);
	src->number = p->segment;
	memcpy(src->instance, p->instance.data,
	       MIN(p->instance.len, sizeof(src->instance)));
	r = begin_of_instance(ing, src, p, &known);
	if (!r)
		r = shfs_segment_next(segment, &rec);
	if (r > 0)
		src->begin_ns = MIN(known, rec.time.real_ns);
	src->known = known != INT64_MAX;
	shfs_segment_close(segment);
	return MIN(r, 0);
}

static int compare_instance(const void *a, const void *b)
{
	const struct source *x = a, *y = b;

	return memcmp(x->instance, y->instance, sizeof(x->instance));
}

static int compare_order(const void *a, const void *b)
{
	const struct source *x = a, *y = b;
	int c = (x->begin_ns > y->begin_ns) - (x->begin_ns < y->begin_ns);

	if (!c)
		c = compare_instance(a, b);
	if (!c)
		c = (x->number > y->number) - (x->number < y->number);
	return c ? c : strcmp(x->name, y->name);
}

/* Gives all segments of an instance the earliest begin of them. */
static void share_begin(struct source *list, size_t n)
{
	qsort(list, n, sizeof(*list), compare_instance);
	for (size_t i = 1; i < n; i++)
		if (!compare_instance(&list[i], &list[i - 1]))
			list[i].begin_ns = MIN(list[i].begin_ns, list[i - 1].begin_ns);
	for (size_t i = n; i-- > 1;)
		if (!compare_instance(&list[i], &list[i - 1]))
			list[i - 1].begin_ns = list[i].begin_ns;
}

/* Sorts segments by the begin of their instance, then by instance and number, so that
 * each rebuild has the same order. */
static int segments_sort(struct shfs_ingest *ing, struct sources *s)
{
	size_t kept = 0;

	for (size_t i = 0; i < s->n; i++) {
		struct source src = s->list[i];
		int r = segment_peek(ing, &src);

		if (r < 0)
			return r;
		if (r)
			continue;
		s->list[i] = s->list[kept];
		s->list[kept++] = src;
	}
	while (s->n > kept)
		source_free(&s->list[--s->n]);
	if (kept) {
		share_begin(s->list, kept);
		qsort(s->list, kept, sizeof(*s->list), compare_order);
	}
	return 0;
}

/* Reads a segment. 1: there is more, but the transaction is full. */
static int segment_read(struct shfs_ingest *ing, const struct source *src,
                        struct shfs_segment *segment, struct position *p)
{
	uint64_t damaged = shfs_segment_damaged(segment);
	struct shfs_record rec;
	int r = 0;

	while (!is_full(ing)) {
		uint64_t before = p->offset, dropped;

		r = shfs_segment_next(segment, &rec);
		/* Later records may belong to commands that were not read. */
		if (r <= 0 || shfs_segment_offset(segment) > src->size_bytes)
			break;
		ing->row = 0;
		r = shfs_apply_record(ing, src->host, &rec);
		if (r >= 0 && trace_row(ing))
			r = -ENOMEM;
		if (r < 0)
			return r;
		p->offset = shfs_segment_offset(segment);
		dropped = shfs_segment_damaged(segment) - damaged;
		damaged += dropped;
		if (r == SHFS_DROPPED)
			dropped = p->offset - before;
		if (dropped)
			shfs_debug(INGEST,
			           "%s: record %" PRIu64 " at byte %" PRIu64
			           ": %s, %" PRIu64 " bytes",
			           src->name, rec.seq, before,
			           r == SHFS_DROPPED ? "makes no sense and is dropped"
			                             : "there is damage in front of it",
			           dropped);
		p->damaged += dropped;
		ing->stats.damaged_bytes += dropped;
		count_record(ing);
	}
	if (r < 0 || is_full(ing))
		return r < 0 ? r : 1;
	p->done = src->sealed;
	return 0;
}

static int segment_batch(struct shfs_ingest *ing, const struct source *src,
                         struct shfs_segment **segment, uint64_t *read_to)
{
	struct position p;
	int more, r = transaction_begin(ing);

	if (!r)
		r = position_load(ing, src->host, src->name, &p);
	if (r || p.done)
		return r;
	if (!p.owner_id)
		p.damaged = 0; /* the segment could not be opened before */
	if (!*segment || *read_to != p.offset) {
		shfs_segment_close(TAKE_PTR(*segment));
		r = shfs_segment_open(src->dirfd, src->name, p.offset, segment);
		if (r)
			return is_files_fault(r) ? 0 : r;
	}
	r = shfs_producer_load(ing, p.owner_id);
	if (r < 0)
		return r;
	more = segment_read(ing, src, *segment, &p);
	if (more < 0)
		return more;
	*read_to = p.offset;
	p.owner_id = ing->producer.id;
	r = shfs_producer_store(ing);
	if (!r)
		r = position_store(ing, src->host, src->name, &p);
	return r ? r : more;
}

static int segment_ingest(struct shfs_ingest *ing, const struct source *src)
{
	struct shfs_segment *segment = NULL;
	uint64_t read_to = 0;
	int r = trace_file(ing, src->host, src->name, false);

	while (!r && (r = segment_batch(ing, src, &segment, &read_to)) > 0)
		r = commit_full(ing);
	shfs_segment_close(segment);
	return r ? r : commit_if_late(ing);
}

/* Inserts the producer of a segment, before records of this or other segments. */
static int producer_ingest(struct shfs_ingest *ing, const struct source *src)
{
	struct shfs_segment *segment;
	struct shfs_record rec;
	int r = shfs_segment_open(src->dirfd, src->name, 0, &segment);

	if (r)
		return is_files_fault(r) ? 0 : r;
	r = shfs_segment_next(segment, &rec);
	if (r > 0)
		r = transaction_begin(ing);
	if (!r && rec.type == SHFS_REC_PRODUCER)
		r = shfs_apply_record(ing, src->host, &rec);
	shfs_segment_close(segment);
	return r < 0 ? r : commit_if_late(ing);
}

/* --- the whole --- */

void (*shfs_ingest_progress)(uint64_t done_bytes, uint64_t all_bytes);

static uint64_t count_left(const struct sources *s)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < s->n; i++)
		bytes += s->list[i].left_bytes;
	return bytes;
}

/* Says that one more file was read. */
static void say_progress(const struct walk *w, const struct source *one,
                         uint64_t *done_bytes)
{
	*done_bytes += one->left_bytes;
	if (shfs_ingest_progress)
		shfs_ingest_progress(*done_bytes,
		                     count_left(&w->logs) + count_left(&w->segments));
}

/*
 * Ingests all files. 1: the time is over.
 *
 * 1. The sizes of segments are noted.
 * 2. Hook logs are copied, and read to their ends.
 * 3. Segments are read up to these sizes.
 *
 * A shell writes a command's begin before the command starts, so each record up to these
 * sizes finds its command.
 */
static int ingest_all(struct shfs_ingest *ing, struct walk *w, const char *hook_dir,
                      int *not_copied)
{
	uint64_t done_bytes = 0;
	int r = walk_files(w, SHFS_JOURNAL_SEGMENTS);

	if (!r && hook_dir)
		*not_copied = shfs_runtime_collect(ing->index->store, hook_dir);
	if (*not_copied)
		shfs_debug(INGEST, "hook logs in %s are not copied: %s", hook_dir,
		           strerrordesc_np(-*not_copied));
	if (!r)
		r = walk_files(w, SHFS_JOURNAL_HOOK_LOGS);
	for (size_t i = 0; i < w->logs.n && !r; i++) {
		r = hook_log_ingest(ing, &w->logs.list[i]);
		say_progress(w, &w->logs.list[i], &done_bytes);
	}
	/* News of hook logs are applied before accesses are attributed by them. */
	if (!r)
		r = shfs_news_apply(ing);
	if (!r)
		r = segments_sort(ing, &w->segments);
	for (size_t i = 0; i < w->segments.n && !r; i++)
		if (!w->segments.list[i].known)
			r = producer_ingest(ing, &w->segments.list[i]);
	for (size_t i = 0; i < w->segments.n && !r; i++) {
		r = segment_ingest(ing, &w->segments.list[i]);
		say_progress(w, &w->segments.list[i], &done_bytes);
	}
	return r;
}

static int retry_note(struct shfs_ingest *ing, int64_t task_id)
{
	return shfs_sql_run(ing->index, "UPDATE state SET retry_task_id = ?",
	                    shfs_arg_int(task_id));
}

/* Attributes processes again that found no session: their ancestors may have been
 * recorded after them, or in the next batch. So those of this ingest, after last_task_id,
 * are attributed by the next one, too. This is due from the first record until an ingest
 * has done it. 1: the time is over. */
static int retry(struct shfs_ingest *ing, int64_t last_task_id)
{
	int64_t mark = 0, due = 0;
	int r = shfs_sql_int(ing->index, &due, "SELECT retry_due FROM state");

	if (r < 0 || !(due || ing->stats.records))
		return MIN(r, 0);
	r = transaction_begin(ing);
	if (!r)
		r = shfs_sql_int(ing->index, &mark, "SELECT retry_task_id FROM state");
	while (r >= 0 && (r = shfs_attribute_retry(ing, &mark, RETRY_TASKS)) > 0) {
		if (!is_batch_late(ing))
			continue;
		r = retry_note(ing, MIN(mark, last_task_id));
		if (!r)
			r = commit_full(ing);
		if (r)
			return r;
		r = transaction_begin(ing);
	}
	ing->retry_due = false;
	return r ? r : retry_note(ing, last_task_id);
}

/*
 * Notes the gaps.
 *
 * 1. Dead producers without END are found. They write nothing any more.
 * 2. All that came since the first reading is read.
 * 3. A producer whose END is still missing has none.
 */
static int note_gaps(struct shfs_ingest *ing, const char *hook_dir, int *not_copied)
{
	_cleanup_(walk_free) struct walk w = { .ing = ing };
	_cleanup_ids_ struct shfs_ids dead = { 0 };
	int r = shfs_gaps_find(ing, &dead);

	if (r || !dead.n)
		return r;
	shfs_debug(INGEST, "%zu producers have died: their ends are looked for", dead.n);
	r = ingest_all(ing, &w, hook_dir, not_copied);
	if (!r)
		r = transaction_begin(ing);
	return r ? r : shfs_gaps_note(ing, &dead);
}

/* Measures how much of the journal is not in the index. */
static int measure_left(struct shfs_ingest *ing, uint64_t *out_bytes)
{
	_cleanup_(walk_free) struct walk w = { .ing = ing };
	int r = walk_files(&w, SHFS_JOURNAL_SEGMENTS);

	if (!r)
		r = walk_files(&w, SHFS_JOURNAL_HOOK_LOGS);
	*out_bytes = count_left(&w.segments) + count_left(&w.logs);
	return r;
}

static int ingest_journal(struct shfs_ingest *ing, const char *hook_dir)
{
	struct shfs_index *index = ing->index;
	_cleanup_(walk_free) struct walk w = { .ing = ing };
	int64_t last_task_id = 0;
	int r, end, not_copied = 0;

	if (index->read_only)
		return index->read_only;
	ing->data_version = -1;
	r = shfs_trees_load(index->store, &ing->trees);
	/* where nothing can be written now, a later ingest does it */
	if (!r && shfs_trees_settle(index->store, ing->trees))
		shfs_debug(INGEST, "the trees of this store are not written down yet");
	if (!r)
		r = shfs_sql_int(index, &last_task_id,
		                 "SELECT coalesce(max(task_id), 0) FROM task");
	if (r >= 0)
		r = ingest_all(ing, &w, hook_dir, &not_copied);
	if (!r)
		r = note_gaps(ing, hook_dir, &not_copied);
	if (!r)
		r = retry(ing, last_task_id);
	end = r < 0 ? r : transaction_commit(ing, false);
	shfs_debug(INGEST, "%" PRIu64 " records, %" PRIu64 " bytes of damage: %s",
	           (uint64_t)ing->stats.records, (uint64_t)ing->stats.damaged_bytes,
	           r == 1 ? "the time has passed" : strerrordesc_np(-MIN(end, 0)));
	if (end && !sqlite3_get_autocommit(index->db))
		sqlite3_exec(index->db, "ROLLBACK", NULL, NULL, NULL);
	forget_ingest_memory(ing);
	shfs_news_forget(ing);
	shfs_buf_free(&ing->producer.root);
	shfs_buf_free(&ing->path);
	shfs_buf_free(&ing->path2);
	shfs_buf_free(&ing->in_tree);
	shfs_trees_free(ing->trees);
	if (end || r)
		return end ? end : r;
	return not_copied;
}

int shfs_index_ingest(struct shfs_index *index, const char *hook_dir,
                      struct shfs_ingest_stats *stats)
{
	struct shfs_ingest ing = { .index = index };
	int r = ingest_journal(&ing, hook_dir);

	if (!r && stats)
		*stats = ing.stats;
	return r;
}

int shfs_index_ingest_within(struct shfs_index *index, const char *hook_dir, unsigned ms,
                             uint64_t *left_bytes)
{
	struct shfs_ingest ing = {
		.index = index,
		.until_ns =
			shfs_clock_ns(CLOCK_MONOTONIC) + ms * (SHFS_NSEC_PER_SEC / 1000),
	};
	int r = ingest_journal(&ing, hook_dir);

	*left_bytes = 0;
	if (r != 1 && r != -EBUSY)
		return r;
	r = measure_left(&ing, left_bytes);
	return r ? r : 1;
}
