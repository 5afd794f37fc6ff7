/* SPDX-License-Identifier: MIT */
/*
 * internal.h - what the files of store/index and store/care share: SQL with typed
 * arguments, the state of one ingest, and the functions of each file.
 */
#pragma once

#include "common/record.h"
#include "store/index/facts.h"
#include "store/index/index.h"
#include "store/objects/lease.h"
#include "store/objects/object.h"

#define SHFS_BUSY_MS                                                                     \
	10000 /* who writes is waited for so long, if nothing else is said               \
	       */

#define HASH_NONFATAL_OOM            1
#define HASH_FUNCTION(key, len, out) ((out) = (unsigned)shfs_object_hash64(key, len))
#include <sqlite3.h>
#include <stdbool.h>
#include <string.h>
#include <uthash.h>

/* --- index.c: the database --- */

struct shfs_stmt;
struct codecs;

struct shfs_index {
	sqlite3 *db;
	struct shfs_store *store; /* borrowed */
	struct codecs *codecs;    /* of strings and runs */
	struct shfs_stmt *stmts;  /* prepared statements, by the address of their text */
	sqlite3_stmt *kept[16];   /* of closed shfs_rows, to be used again */
	size_t next_kept;
	int read_only;            /* why nothing is written to it, or 0 */
	struct shfs_trace *trace; /* of its ingest; NULL: none is wanted */
};

/* An index beside the other, made of the whole journal; nobody else has it open. NULL is
 * fine to close. Two at once on this host wait for each other; -EBUSY. */
struct shfs_draft;
_must_check_ int shfs_draft_open(struct shfs_store *store, const char *hook_dir,
                                 struct shfs_trace *trace,
                                 struct shfs_ingest_stats *stats,
                                 struct shfs_draft **out);
struct shfs_index *shfs_draft_index(struct shfs_draft *draft);
void shfs_draft_close(struct shfs_draft *draft);

/* Before the database is closed. */
void shfs_rows_drop_kept(struct shfs_index *index);

/* SQLite's result as a negative errno; 0 for OK, ROW and DONE. */
int shfs_index_errno(sqlite3 *db, int rc);
/* The other way, for what SQLite calls: 0 or a negative errno as its result. */
int shfs_index_rc(int r);

struct shfs_arg {
	enum { SHFS_ARG_NULL, SHFS_ARG_INT, SHFS_ARG_TEXT, SHFS_ARG_BLOB } type;
	int64_t value;
	struct shfs_bytes bytes;
};

static inline struct shfs_arg shfs_arg_int(int64_t value)
{
	return (struct shfs_arg){ .type = SHFS_ARG_INT, .value = value };
}

/* 0 is NULL. */
static inline struct shfs_arg shfs_arg_id(int64_t id)
{
	return (struct shfs_arg){ .type = id ? SHFS_ARG_INT : SHFS_ARG_NULL,
		                  .value = id };
}

static inline struct shfs_arg shfs_arg_text(struct shfs_bytes bytes)
{
	return (struct shfs_arg){ .type = SHFS_ARG_TEXT, .bytes = bytes };
}

static inline struct shfs_arg shfs_arg_blob(struct shfs_bytes bytes)
{
	return (struct shfs_arg){ .type = SHFS_ARG_BLOB, .bytes = bytes };
}

/*
 * Both prepare sql once (it must be a literal: its address is the key) and bind the
 * arguments in order. _run steps to the end. _get steps once: 1 and the statement at its
 * row, or 0; *out is to be reset by the caller in either case (_cleanup_stmt_), and the
 * same sql must not be asked again before.
 */
_must_check_ int shfs_sql_run_args(struct shfs_index *index, const char *sql,
                                   const struct shfs_arg *args, size_t n);
_must_check_ int shfs_sql_get_args(struct shfs_index *index, sqlite3_stmt **out,
                                   const char *sql, const struct shfs_arg *args,
                                   size_t n);
#define SHFS_ARGS(...)                                                                   \
	(const struct shfs_arg[]){ __VA_ARGS__ },                                        \
		sizeof((const struct shfs_arg[]){ __VA_ARGS__ }) /                       \
			sizeof(struct shfs_arg)
#define shfs_sql_run(index, sql, ...)                                                    \
	shfs_sql_run_args(index, sql, SHFS_ARGS(__VA_ARGS__))
#define shfs_sql_get(index, out, sql, ...)                                               \
	shfs_sql_get_args(index, out, sql, SHFS_ARGS(__VA_ARGS__))
/* The further rows of a _get: 1, 0 or a negative errno. */
_must_check_ int shfs_sql_next(struct shfs_index *index, sqlite3_stmt *stmt);

/* The first column of the first row; *out stays as it is where there is none. 1 or 0. */
#define shfs_sql_int(index, out, sql, ...)                                               \
	shfs_sql_int_args(index, out, sql, SHFS_ARGS(__VA_ARGS__))
_must_check_ int shfs_sql_int_args(struct shfs_index *index, int64_t *out,
                                   const char *sql, const struct shfs_arg *args,
                                   size_t n);

/* A statement of the caller's own, for who may be called again before it is done. sql as
 * above. Given back it is kept, to be taken again; NULL is fine. */
_must_check_ int shfs_stmt_take(struct shfs_index *index, const char *sql,
                                sqlite3_stmt **out);
void shfs_stmt_give(struct shfs_index *index, const char *sql, sqlite3_stmt *stmt);

static inline void shfs_stmt_resetp(sqlite3_stmt **stmt)
{
	if (*stmt)
		sqlite3_reset(*stmt);
}
#define _cleanup_stmt_ _cleanup_(shfs_stmt_resetp)

/* Make the table access and the functions of SQL known to db. A SQLite result. */
int shfs_access_table_register(sqlite3 *db, struct shfs_index *index);
int shfs_version_functions_register(sqlite3 *db);
int shfs_functions_register(sqlite3 *db, struct shfs_index *index);

/* An object's name as the table version has it: its length in out. */
size_t shfs_object_pack(const struct shfs_object_id *id, uint8_t out[static 20]);
/* -EINVAL: it is none. */
int shfs_object_unpack(const void *data, size_t len, struct shfs_object_id *out);

/* The parts before and behind the last slash of an absolute path; borrowed from it. */
static inline void shfs_path_split(struct shfs_bytes path, struct shfs_bytes *dir,
                                   struct shfs_bytes *name)
{
	const char *slash = memrchr(path.data, '/', path.len);
	size_t len = slash ? slash - path.data : 0;

	*dir = (struct shfs_bytes){ path.data, len };
	*name = slash ? (struct shfs_bytes){ slash + 1, path.len - len - 1 } : path;
}

/* --- the state of one ingest --- */

/* A list of numbers that only grows; {0} is empty. */
struct shfs_ids {
	int64_t *ids;
	size_t n, cap;
};
_must_check_ int shfs_ids_add(struct shfs_ids *list, int64_t id);
static inline void shfs_ids_free(struct shfs_ids *list)
{
	free(list->ids);
}
#define _cleanup_ids_ _cleanup_(shfs_ids_free)

/* The session and the command of a process or an access; 0: none. */
struct shfs_owner {
	int64_t session_id, command_id;
	bool shell; /* it is a registered shell: each access goes by its own time */
};

struct shfs_process {
	int64_t process_id, task_id;
	struct shfs_owner owner;
	bool records; /* a mount of this store: what it does is done for others */
};

struct shfs_string {
	int64_t id;
	size_t len;
	char value[240];
};

/* An access that is of a file. */
struct shfs_file_use {
	int64_t file_id, access_id;
	bool change; /* of names or attributes: it is no open */
};
struct shfs_file_uses {
	struct shfs_file_use *list;
	size_t n, cap;
};

/* The string that those which begin alike are packed against. */
struct shfs_string_base {
	uint32_t key;      /* the begin */
	int64_t string_id; /* 0: none yet */
	struct shfs_buf value;
};

/* Chunks of this transaction that are full. */
struct shfs_packed_chunks {
	struct shfs_packed_chunk {
		int64_t chunk_id;
		size_t at, len; /* in data */
	} * list;
	size_t n, cap;
	struct shfs_buf data;
};

/*
 * Which row each record of the journal led to: the access_id, of PROCESS the process_id,
 * of a begin the command_id; 0: none.
 */
struct shfs_trace {
	struct shfs_trace_file {
		char *host, *name;
		bool hook_log;
		struct shfs_ids rows; /* one for each record, in their order */
	} * list;
	size_t n, cap;
	struct shfs_trace_file *now; /* that is being read */
};
void shfs_trace_free(struct shfs_trace *trace);

struct shfs_ingest {
	struct shfs_index *index;
	int64_t row; /* that the record led to, for the trace */
	struct shfs_ingest_stats stats;

	int64_t until_ns; /* monotonic: nothing more is begun then; 0: never */
	bool in_transaction;
	bool retry_due;       /* in the table state */
	size_t pending;       /* records in this transaction */
	int64_t begin_ns;     /* of it, monotonic */
	int64_t data_version; /* changes when another process has written */

	/* the table state, as it is after this transaction */
	struct {
		int64_t accesses, seq, files, versions, objects;
	} totals;
	struct shfs_left_out {
		uint32_t flags;
		int64_t versions; /* more of them */
	} left_out[16];
	size_t n_left_out;

	/* the producer whose segment is being read; id 0: none that can be used */
	struct {
		int64_t id, boot_id, root_id;
		uint64_t pid_namespace, last_seq, lost_seq, records, lost;
		int64_t last_ns; /* of the last record */
		struct shfs_buf root;
	} producer;

	/* the hook log that is being read */
	struct {
		int64_t session_id, boot_id;
	} session;

	/* file.c: by path; in the order of last use; those that are to be written */
	struct shfs_file *files, *oldest, *dirty;
	/* inode.c: by dev and ino; with changes that not all names have taken in */
	struct shfs_inode *inodes, *changed_inodes;
	struct shfs_directory *dirs;
	int64_t next_file_id;
	int64_t last_process_id; /* before this transaction */
	bool flushed_early;      /* some chunks of this transaction are written already */
	unsigned round;          /* counts transactions */
	struct shfs_process_cache *procs;  /* process.c: by producer and seq */
	struct shfs_chunk *chunks, *chunk; /* chunk.c: by process; the one used last */
	struct shfs_packed_chunks packed;
	struct shfs_file_uses uses;      /* byfile.c: of this transaction */
	struct shfs_string strings[512]; /* string.c: some that were asked for lately */
	struct shfs_string_base bases[64];
	struct shfs_news *news; /* attribute.c: what hook logs told anew */

	/* the clock slot that is being filled */
	int64_t clock_boot_id, clock_slot, clock_offset_ns;

	struct shfs_buf path, path2; /* absolute forms of a record's */
};

/* --- apply.c --- */

/* shfs_apply_* return it for a record that cannot be believed, which counts as damage. */
#define SHFS_DROPPED 1

/* Takes in one record of the segment or hook log that is being read. host: that of its
 * directory in the journal. */
_must_check_ int shfs_apply_record(struct shfs_ingest *ing, const char *host,
                                   struct shfs_record *rec);
_must_check_ int shfs_apply_hook_record(struct shfs_ingest *ing, const char *host,
                                        struct shfs_record *rec);

/* Makes a known producer the current one (id 0 where there is none), and writes what
 * was counted for it. */
_must_check_ int shfs_producer_load(struct shfs_ingest *ing, int64_t producer_id);
_must_check_ int shfs_producer_store(struct shfs_ingest *ing);

/* --- string.c --- */

/* The id of the row for these bytes in the table string. */
_must_check_ int shfs_string_id(struct shfs_ingest *ing, struct shfs_bytes value,
                                int64_t *out);
void shfs_strings_forget(struct shfs_ingest *ing);
/* Unpacks a row that has a base. -EBADMSG. */
_must_check_ int shfs_string_unpack(struct codecs *codecs, struct shfs_bytes packed,
                                    struct shfs_bytes base, struct shfs_buf *out);

/* --- process.c --- */

/* As the table task has a pid namespace: that of nearly all is 0, which takes no room. */
static inline int64_t shfs_namespace_column(uint64_t pid_namespace)
{
	return (int64_t)(pid_namespace ^ 0xeffffffc); /* PROC_PID_INIT_INO */
}

/* Takes a PROCESS record of the current producer in. */
_must_check_ int shfs_process_add(struct shfs_ingest *ing, const struct shfs_record *rec);

/* The process that the current producer's record seq told of; 1, or 0 and *out zeroed. */
_must_check_ int shfs_process_find(struct shfs_ingest *ing, uint64_t seq,
                                   struct shfs_process *out);

/* The owner of what the process did at this time of its boot, or by late_ns earlier. */
_must_check_ int shfs_process_owner(struct shfs_ingest *ing,
                                    const struct shfs_process *process, uint64_t boot_ns,
                                    int64_t late_ns, struct shfs_owner *out);

void shfs_processes_forget(struct shfs_ingest *ing); /* frees the cache */

/* --- attribute.c --- */

/* Times of records are bytes from a file: no arithmetic on them may overflow. */
static inline int64_t shfs_sane_ns(uint64_t ns)
{
	return MIN(ns, (uint64_t)INT64_MAX / 4);
}

/* The owner of a process, by the rules of docs/index.md. */
_must_check_ int shfs_task_owner(struct shfs_index *index, int64_t task_id,
                                 struct shfs_owner *out);
/* How late the time of an access may be. */
static inline int64_t shfs_late_ns(uint32_t access_flags)
{
	return access_flags & SHFS_ACCESS_LATE ? 40 * (SHFS_NSEC_PER_SEC / 1000) : 0;
}

/* The owner of what a registered shell did itself at this time of its boot, or by late_ns
 * earlier. */
_must_check_ int shfs_shell_owner(struct shfs_index *index, int64_t task_id,
                                  int64_t session_id, int64_t boot_ns, int64_t late_ns,
                                  struct shfs_owner *out);
/* Attributes a process and its accesses again. For a shell, only what it did since then
 * can have changed. The chunks must have been flushed. */
_must_check_ int shfs_task_revise(struct shfs_ingest *ing, int64_t task_id,
                                  int64_t since_boot_ns);

/* Notes that a hook log told something new of a session, from boot_ns on; start_ticks of
 * a session that was not known, else UINT64_MAX. */
_must_check_ int shfs_news_add(struct shfs_ingest *ing, int64_t session_id,
                               uint64_t boot_ns, uint64_t start_ticks);
/* Attributes again all that the news may change. Before each commit. */
_must_check_ int shfs_news_apply(struct shfs_ingest *ing);
void shfs_news_forget(struct shfs_ingest *ing);
/* Looks again at processes that found no session, up to max of those after *task_id,
 * which becomes the last of them. 1: there may be more. */
_must_check_ int shfs_attribute_retry(struct shfs_ingest *ing, int64_t *task_id,
                                      unsigned max);

/* --- owner.c --- */

/* The owner of a process, which all its programs share: 1, or 0 where there is no such
 * process and *out is zeroed. owner.shell: each of its accesses has an owner of its own.
 */
_must_check_ int shfs_owner_of_process(struct shfs_index *index, int64_t process_id,
                                       struct shfs_owner *out);
/* The owner of a process that was asked for last, as many accesses in a row are of one.
 * {0} before the first question. */
struct shfs_last_owner {
	int64_t process_id;
	struct shfs_owner owner;
};
/* Whose an access is. */
_must_check_ int shfs_owner_of_access(struct shfs_index *index, int64_t access_id,
                                      struct shfs_last_owner *last,
                                      struct shfs_owner *out);
/* The other way: the accesses of a command are those of these processes, and these. Both
 * are appended in the order of their numbers. */
_must_check_ int shfs_owner_processes(struct shfs_index *index, int64_t command_id,
                                      struct shfs_ids *out);
_must_check_ int shfs_owner_shell_accesses(struct shfs_index *index, int64_t command_id,
                                           struct shfs_ids *out);
/* How many these are, with those that no view shows. */
_must_check_ int shfs_owner_count(struct shfs_index *index, int64_t command_id,
                                  int64_t *out);
/* Both write what attribute.c has found. */
_must_check_ int shfs_owner_set_of_task(struct shfs_index *index, int64_t task_id,
                                        const struct shfs_owner *owner);
_must_check_ int shfs_owner_set_of_shell_access(struct shfs_index *index,
                                                int64_t access_id,
                                                const struct shfs_owner *owner);
/* Functions of SQL: access_command(access_id), NULL for none;
 * command_accesses(command_id), how many there are. */
void shfs_owner_access_command(sqlite3_context *ctx, int argc, sqlite3_value **argv);
void shfs_owner_command_accesses(sqlite3_context *ctx, int argc, sqlite3_value **argv);

/* --- gap.c --- */

/* The producers without END whose process is dead (as far as can be told from here), or
 * that were archived while they recorded, and that are not noted yet: their ids. */
_must_check_ int shfs_gaps_find(struct shfs_ingest *ing, struct shfs_ids *out);
/* Notes them, but for those whose END was read meanwhile. */
_must_check_ int shfs_gaps_note(struct shfs_ingest *ing, const struct shfs_ids *dead);

/* --- chunk.c --- */

/* Numbers that two parts make, a file's or process's and one within it. */
static inline int64_t shfs_access_id(int64_t process_id, uint32_t n)
{
	return process_id << 32 | n;
}

static inline int64_t shfs_version_id(int64_t file_id, int64_t n)
{
	return n ? file_id << 32 | n : 0;
}

#define SHFS_OP_PREIMAGE 100 /* one that was cut or torn counts for its command */

/* Times of records may be any number; a difference wraps, so that the sum gives them
 * back. */
static inline int64_t shfs_wrap_sub(int64_t a, int64_t b)
{
	return (int64_t)((uint64_t)a - (uint64_t)b);
}
static inline int64_t shfs_wrap_add(int64_t a, int64_t b)
{
	return (int64_t)((uint64_t)a + (uint64_t)b);
}

static inline int64_t shfs_us_to_ns(int64_t us)
{
	return (int64_t)((uint64_t)us * 1000);
}

uint8_t *shfs_varint_put(uint8_t *p, uint64_t value); /* up to 10 bytes */
static inline uint64_t shfs_varint_get(struct shfs_cursor *c)
{
	uint64_t value = 0;

	if (c->end - c->p >= 2) { /* most are short */
		if (c->p[0] < 0x80)
			return *c->p++;
		if (c->p[1] < 0x80) {
			c->p += 2;
			return (c->p[-2] & 0x7f) | (unsigned)c->p[-1] << 7;
		}
	}
	for (unsigned shift = 0; shift < 64 && c->p < c->end; shift += 7) {
		uint8_t byte = *c->p++;

		value |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return value;
	}
	c->failed = true;
	return 0;
}
static inline uint64_t shfs_zigzag(int64_t value)
{
	return (uint64_t)value << 1 ^ (uint64_t)(value >> 63);
}
static inline int64_t shfs_unzigzag(uint64_t value)
{
	return (int64_t)(value >> 1 ^ -(value & 1));
}

struct shfs_chunk_reader {
	struct shfs_cursor at;
	struct shfs_access first, access; /* access: after next returned 1 */
};
void shfs_chunk_open(struct shfs_chunk_reader *r, int64_t chunk_id, const void *data,
                     size_t len);
/* 1, 0 at the end, or -EBADMSG. */
_must_check_ int shfs_chunk_next(struct shfs_chunk_reader *r);

/* The id that the next access of the process gets; process_id 0: an unknown one. */
_must_check_ int shfs_chunk_next_id(struct shfs_ingest *ing, int64_t process_id,
                                    int64_t *out);
/* Adds it, with that id, and with the seq it has. */
_must_check_ int shfs_chunk_add(struct shfs_ingest *ing, int64_t process_id,
                                const struct shfs_access *access);
/* Before the table access is asked, and before each commit. */
_must_check_ int shfs_chunks_flush(struct shfs_ingest *ing);
void shfs_chunks_forget(struct shfs_ingest *ing);

/* --- reader.c --- */

/* Reads accesses. {index} before the first question. */
struct shfs_reader {
	struct shfs_index *index;
	struct shfs_chunk_reader chunk; /* chunk.access: what next or find came to */
	sqlite3_stmt *range, *single;
	bool in_range;
	int64_t process_id; /* whose chunk find has left open; -1: none */
};
/* Gives back what it took. */
void shfs_reader_end(struct shfs_reader *reader);
#define _cleanup_reader_ _cleanup_(shfs_reader_end)
/* From now on next gives those with these numbers and between them, in their order: 1, 0
 * behind the last, or a negative errno. */
_must_check_ int shfs_reader_range(struct shfs_reader *reader, int64_t first_id,
                                   int64_t last_id);
_must_check_ int shfs_reader_next(struct shfs_reader *reader);
/* One access: 1, 0: there is none, or a negative errno. Ends the range. The next one of
 * the same chunk costs little. */
_must_check_ int shfs_reader_find(struct shfs_reader *reader, int64_t access_id);

/* --- walk.c --- */

/* One access, as in shfs_accesses_of_command. */
_must_check_ int shfs_access_walk(struct shfs_reader *reader, int64_t access_id,
                                  shfs_access_fn fn, void *arg);

/* --- byfile.c --- */

_must_check_ int shfs_file_uses_append(struct shfs_file_uses *uses,
                                       struct shfs_file_use use);
_must_check_ int shfs_file_use_add(struct shfs_ingest *ing, int64_t file_id,
                                   int64_t access_id, bool change);
/* Before each commit. */
_must_check_ int shfs_file_uses_flush(struct shfs_ingest *ing);
void shfs_file_uses_forget(struct shfs_ingest *ing);
/* Adds the accesses of the files, which are sorted and no two the same, in no order:
 * opens, if they are wanted, and changes of names or attributes. */
_must_check_ int shfs_file_uses_find(struct shfs_index *index,
                                     const struct shfs_ids *files,
                                     struct shfs_file_uses *opens,
                                     struct shfs_ids *changes);

/* --- file.c, inode.c, version.c --- */

#define SHFS_VERSION_PACKED 80
#define SHFS_PHASH_KEPT     24 /* bits; equal ones decide only where times agree too */

static inline int64_t shfs_phash_kept(const struct shfs_content *c)
{
	return c->phash & ((1 << SHFS_PHASH_KEPT) - 1);
}

/* version-row.c. What the column data tells of a version: its content without the object
 * (of phash the low bits), source, carried, access_id and time_ns. Returns the length. */
size_t shfs_version_pack(const struct shfs_version_fact *version,
                         uint8_t out[static SHFS_VERSION_PACKED]);
/* What the columns data and object tell; version_id, origin_version_id and command_id are
 * 0, and so is what follows from them. -EBADMSG. */
_must_check_ int shfs_version_unpack(struct shfs_bytes data, struct shfs_bytes object,
                                     struct shfs_version_fact *out);
/* The same of the columns col and the one behind it. */
_must_check_ int shfs_version_columns(sqlite3_stmt *stmt, int col,
                                      struct shfs_version_fact *out);

/*
 * Between which ctimes a file is known to hold its latest version: from the one it had
 * when that was last found by its bytes, to the one that the last change of its names or
 * attributes has set. Such a change counts if its producer (by) has seen the content
 * itself before (in the record seq), and lost no record since: then nobody wrote in
 * between.
 */
struct shfs_known {
	int64_t ctime_first_ns, ctime_last_ns;
	int64_t mtime_ns;
	bool touched; /* its times were set meanwhile: mtime_ns says nothing */
	bool named;   /* only that dev and ino are at the path, not what they hold */
	int64_t by;   /* producer_id; 0: nobody has */
	uint64_t seq;
};

/* A path and what it holds, as the table file has it; cached, written back at commit. */
struct shfs_file {
	int64_t id, versions, last_ns;
	int64_t since_ns;                /* its file replaced another; 0: none */
	int64_t directory_id, root_id;   /* root_id 0: the directory's */
	bool present, directory, stored; /* stored: the table has it */
	bool dirty;                      /* by shfs_file_changed */
	unsigned round;                  /* the transaction in which it was used last */
	struct shfs_file *prev, *next, *next_dirty;
	struct shfs_content content; /* of the latest version */
	unsigned source;             /* of that too, as are the next two */
	int64_t maker_id, time_ns;
	struct shfs_known known;
	uint64_t dev, ino;        /* where it was seen with several names; else 0 */
	struct shfs_inode *inode; /* NULL: it was not asked for */
	size_t inode_at;          /* among its names */
	uint64_t changes;         /* of those of inode, how many it has taken in */
	UT_hash_handle hh;
	size_t len, name_at;
	char path[];
};

/* The id of its latest version; 0: none. */
static inline int64_t shfs_file_latest(const struct shfs_file *f)
{
	return shfs_version_id(f->id, f->versions);
}

/* The file at an absolute path, made where it is new; all that was noted for the names of
 * its inode is in it. Valid until shfs_files_forget or _trim. */
_must_check_ int shfs_file_get(struct shfs_ingest *ing, struct shfs_bytes path,
                               struct shfs_file **out);
/* Notes that the file differs from the table: the next flush writes it. */
void shfs_file_changed(struct shfs_ingest *ing, struct shfs_file *f);
_must_check_ int shfs_files_flush(struct shfs_ingest *ing);
void shfs_files_forget(struct shfs_ingest *ing);
/* Functions of SQL of the column data; NULL where it does not tell. */
void shfs_file_root_id(sqlite3_context *ctx, int argc, sqlite3_value **argv);
void shfs_file_last_ns(sqlite3_context *ctx, int argc, sqlite3_value **argv);
/* What the columns state and data tell; false, and INT64_MIN: not the time, it is that of
 * the latest version. */
void shfs_file_get_state(int64_t state, struct shfs_file_fact *out);
bool shfs_file_get_last_ns(const void *data, size_t len, int64_t *out);
/* At the begin of a transaction: forgets those that were not used lately, where there are
 * many. */
void shfs_files_trim(struct shfs_ingest *ing);
/* Adds to the versions without object of these flags. */
_must_check_ int shfs_left_out_add(struct shfs_ingest *ing, uint32_t flags, int64_t n);
_must_check_ int shfs_left_out_flush(struct shfs_ingest *ing);

/* A change of one name of a file, or of its attributes, as all of its names see it. */
struct shfs_inode_change {
	int64_t ctime_ns;               /* INT64_MIN: nothing is said of it */
	bool times;                     /* its times were set */
	const struct shfs_content *now; /* whole, with the attributes that it has since;
	                                 * NULL: they did not change */
};
/* Notes the change for all names; f, which has taken in all before, has it in already. */
_must_check_ int shfs_inode_note(struct shfs_ingest *ing, struct shfs_file *f,
                                 const struct shfs_inode_change *change);
/* f, or each name, takes in what was noted. All of them before each commit. */
_must_check_ int shfs_inode_settle(struct shfs_ingest *ing, struct shfs_file *f);
_must_check_ int shfs_inodes_settle(struct shfs_ingest *ing);
/* Finds the names of f's inode, where that was not done; f becomes one of them. */
_must_check_ int shfs_inode_of(struct shfs_ingest *ing, struct shfs_file *f);
/* f has taken in what was noted, and is no name of its inode any more. */
_must_check_ int shfs_inode_leave(struct shfs_ingest *ing, struct shfs_file *f);
/* All names of f's inode by their ids, f among them, and NULL for some that have gone;
 * not all of them are present. Valid until a name comes or goes. */
_must_check_ int shfs_inode_names(struct shfs_ingest *ing, struct shfs_file *f,
                                  struct shfs_file *const **list, size_t *n);
/* Before f goes from memory; before all do. Nothing must be noted, or all is undone. */
void shfs_inode_forget(struct shfs_ingest *ing, struct shfs_file *f);
void shfs_inodes_forget(struct shfs_ingest *ing);

/* f, which its producer knew when it told of the change, takes it in. */
_must_check_ int shfs_version_change(struct shfs_ingest *ing, struct shfs_file *f,
                                     const struct shfs_inode_change *change);

/* The file has, or had a moment ago, several names: the paths that were said to be the
 * same file get each other's versions from now on. */
_must_check_ int shfs_version_linked(struct shfs_ingest *ing, struct shfs_file *file,
                                     uint64_t dev, uint64_t ino);

/* Each gives the number of the version that a content of this file is, 0 where it is none
 * (not KNOWN, or not of a regular file), and numbers it where it is new: what the file
 * holds now (before a change), what access_id left. */
_must_check_ int shfs_version_now(struct shfs_ingest *ing, struct shfs_file *file,
                                  const struct shfs_content *content, int64_t real_ns,
                                  int64_t *out);
_must_check_ int shfs_version_made(struct shfs_ingest *ing, struct shfs_file *file,
                                   const struct shfs_content *content, int64_t access_id,
                                   int64_t real_ns, int64_t *out);

/*
 * The same for what a reader saw that opened the file at begin_ns. It may be told long
 * after: what is known to have changed since then is newer, whatever is told when. So it
 * may be an earlier version of the file, or one of a name that the file had then; n is 0
 * if it is of neither.
 */
struct shfs_sight {
	int64_t file_id, n;
};
_must_check_ int shfs_version_seen(struct shfs_ingest *ing, struct shfs_file *file,
                                   const struct shfs_content *content, int64_t begin_ns,
                                   struct shfs_sight *out);

/* The producer saw names or attributes of the file change, its times too if times is set:
 * that set its ctime to ctime_ns, or to a time shortly before. */
_must_check_ int shfs_version_metadata(struct shfs_ingest *ing, struct shfs_file *file,
                                       int64_t ctime_ns, bool times);
/* The mode or the times of the file were set, and not its bytes: so its version is
 * restored. */
_must_check_ int shfs_version_attributes(struct shfs_ingest *ing, struct shfs_file *file,
                                         const struct shfs_content *now);
/* From now on it is not known whether the path holds its latest version. */
void shfs_version_unknown(struct shfs_ingest *ing, struct shfs_file *file);

/* Names change. seen: the number of the version that was moved, linked or removed; made:
 * that of path2's; 0 for directories and where nothing is known. */
struct shfs_name_change {
	struct shfs_file *file, *file2;
	const struct shfs_rec_pathop *op;
	int64_t access_id, real_ns;
	int64_t seen, made;
};
_must_check_ int shfs_version_rename(struct shfs_ingest *ing, struct shfs_name_change *c);
_must_check_ int shfs_version_exchange(struct shfs_ingest *ing,
                                       struct shfs_name_change *c);
_must_check_ int shfs_version_link(struct shfs_ingest *ing, struct shfs_name_change *c);
_must_check_ int shfs_version_unlink(struct shfs_ingest *ing, struct shfs_name_change *c);
