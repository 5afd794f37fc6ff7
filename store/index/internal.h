/* SPDX-License-Identifier: MIT */
/*
 * internal.h - shared by the files of store/index and store/care: SQL with typed
 * arguments, the state of one ingest, and the functions of each file.
 */
#pragma once

#include "common/ids.h"
#include "common/record.h"
#include "store/index/facts.h"
#include "store/index/index.h"
#include "store/objects/lease.h"
#include "store/objects/object.h"
#include "store/trees.h"

#define SHFS_BUSY_MS 10000 /* default wait for another writer */

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
	struct codecs *codecs;    /* for strings and runs */
	struct shfs_stmt *stmts;  /* prepared statements, by the address of their text */
	sqlite3_stmt *kept[16];   /* of closed shfs_rows, to be used again */
	size_t next_kept;
	int read_only;            /* error for which it is not written, or 0 */
	struct shfs_trace *trace; /* filled by its ingest; or NULL */
	bool is_mirror;           /* it has the tables of mirror.h */
};

/* A draft: a new index beside the other, made of the whole journal, which no other
 * process has open. Only one at a time on this host: a second one waits; -EBUSY. Closing
 * NULL is fine. */
struct shfs_draft;
_must_check_ int shfs_draft_open(struct shfs_store *store, const char *hook_dir,
                                 struct shfs_trace *trace,
                                 struct shfs_ingest_stats *stats,
                                 struct shfs_draft **out);
struct shfs_index *shfs_draft_index(struct shfs_draft *draft);
void shfs_draft_close(struct shfs_draft *draft);

/* Opens another database in the directory of a store's index, to write, with a log and
 * the functions of SQL; made if it is missing. */
_must_check_ int shfs_index_open_file(struct shfs_store *store, const char *name,
                                      struct shfs_index **out);
/* Drops all tables and views. */
_must_check_ int shfs_index_drop_all(struct shfs_index *index);

/* Finalizes the kept statements, before the database is closed. */
void shfs_rows_drop_kept(struct shfs_index *index);

/* Returns a result of SQLite as a negative errno; 0 for OK, ROW and DONE. */
int shfs_index_errno(sqlite3 *db, int rc);
/* Returns 0 or a negative errno as a result of SQLite, for functions that SQLite calls.
 */
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

/* An argument with an id; 0 becomes NULL. */
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
 * row, or 0; in either case the caller resets *out (_cleanup_stmt_), and must not use the
 * same sql before.
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
/* Moves to the next row of a _get: 1; 0; or a negative errno. */
_must_check_ int shfs_sql_next(struct shfs_index *index, sqlite3_stmt *stmt);

/* Gets the first column of the first row: 1. 0: there is no row; *out stays as it is. */
#define shfs_sql_int(index, out, sql, ...)                                               \
	shfs_sql_int_args(index, out, sql, SHFS_ARGS(__VA_ARGS__))
_must_check_ int shfs_sql_int_args(struct shfs_index *index, int64_t *out,
                                   const char *sql, const struct shfs_arg *args,
                                   size_t n);

/* Takes a statement for the caller alone, which may be called again before it is done
 * with it. sql as above. shfs_stmt_give keeps it for the next take; NULL is fine. */
_must_check_ int shfs_stmt_take(struct shfs_index *index, const char *sql,
                                sqlite3_stmt **out);
void shfs_stmt_give(struct shfs_index *index, const char *sql, sqlite3_stmt *stmt);

static inline void shfs_stmt_resetp(sqlite3_stmt **stmt)
{
	if (*stmt)
		sqlite3_reset(*stmt);
}
#define _cleanup_stmt_ _cleanup_(shfs_stmt_resetp)

/* Register the table access and the functions of SQL with db; return a SQLite result. */
int shfs_access_table_register(sqlite3 *db, struct shfs_index *index);
int shfs_version_functions_register(sqlite3 *db);
int shfs_functions_register(sqlite3 *db, struct shfs_index *index);

/* Packs an object's id as the table version has it; returns the length. */
size_t shfs_object_pack(const struct shfs_object_id *id, uint8_t out[static 20]);
/* Unpacks an object's id. -EINVAL: it is none. */
int shfs_object_unpack(const void *data, size_t len, struct shfs_object_id *out);

/* Splits an absolute path at its last slash; both parts are borrowed from it. */
static inline void shfs_path_split(struct shfs_bytes path, struct shfs_bytes *dir,
                                   struct shfs_bytes *name)
{
	const char *slash = memrchr(path.data, '/', path.len);
	size_t len = slash ? slash - path.data : 0;

	*dir = (struct shfs_bytes){ path.data, len };
	*name = slash ? (struct shfs_bytes){ slash + 1, path.len - len - 1 } : path;
}

/* --- the state of one ingest --- */

/* The session and the command of a process or an access; 0: none. */
struct shfs_owner {
	int64_t session_id, command_id;
	bool shell; /* a registered shell: each access is attributed by its own time */
};

struct shfs_process {
	int64_t process_id, task_id;
	struct shfs_owner owner;
	bool records; /* a producer of this store: it acts for other processes */
};

struct shfs_string {
	int64_t id;
	size_t len;
	char value[240];
};

/* An access of a file. */
struct shfs_file_use {
	int64_t file_id, access_id;
	bool change; /* a change of names or attributes, not an open */
	bool made;   /* it made a version, of this file or of the other one */
};
struct shfs_file_uses {
	struct shfs_file_use *list;
	size_t n, cap;
};

/* The base with which strings with the same begin are packed. */
struct shfs_string_base {
	uint32_t key;      /* the first bytes */
	int64_t string_id; /* 0: none yet */
	struct shfs_buf value;
};

/* Chunks of this transaction that are full. */
struct shfs_packed_chunks {
	struct shfs_packed_chunk {
		int64_t chunk_id;
		size_t at, len; /* offset and length in data */
	} * list;
	size_t n, cap;
	struct shfs_buf data;
};

/*
 * The row that each record of the journal led to: the access_id; of PROCESS the
 * process_id; of PROGRAM the program_id; of BEGIN the command_id; 0: none.
 */
struct shfs_trace {
	struct shfs_trace_file {
		char *host, *name;
		bool hook_log;
		struct shfs_ids rows; /* one for each record, in order */
	} * list;
	size_t n, cap;
	struct shfs_trace_file *now; /* the file that is being read */
};
void shfs_trace_free(struct shfs_trace *trace);

struct shfs_ingest {
	struct shfs_index *index;
	int64_t row; /* made of the record, for the trace */
	struct shfs_ingest_stats stats;

	int64_t until_ns; /* end of the caller's time, monotonic; 0: none */
	bool in_transaction;
	bool retry_due;       /* in the table state */
	size_t pending;       /* records in this transaction */
	int64_t begin_ns;     /* of the transaction, monotonic */
	int64_t data_version; /* changes when another process has written */

	/* the table state, as it is after this transaction */
	struct {
		int64_t accesses, seq, files, versions, objects;
	} totals;
	struct shfs_left_out {
		uint32_t flags;
		int64_t versions; /* number to add */
	} left_out[16];
	size_t n_left_out;

	/* the producer whose segment is being read; id 0: none, or not valid */
	struct {
		int64_t id, boot_id, root_id;
		uint64_t pid_namespace, last_seq, lost_seq, records, lost;
		int64_t last_ns; /* of the last record */
		struct shfs_buf root;
		char tree[SHFS_TREE_NAME_MAX]; /* "": this one */
	} producer;

	/* the hook log that is being read */
	struct {
		int64_t session_id, boot_id;
	} session;

	struct shfs_trees *trees; /* which records are of another machine */

	/* file.c: by path; in the order of last use; changed ones */
	struct shfs_file *files, *oldest, *dirty;
	/* inode.c: by dev and ino; those with changes not yet applied to all names */
	struct shfs_inode *inodes, *changed_inodes;
	struct shfs_directory *dirs;
	int64_t next_file_id;
	int64_t last_process_id; /* before this transaction */
	bool flushed_early;      /* some chunks of this transaction are written already */
	unsigned round;          /* counts transactions */
	/* process.c: by producer and seq; the last used one */
	struct shfs_process_cache *procs, *proc;
	struct shfs_chunk *chunks, *chunk; /* chunk.c: by process; the last used one */
	struct shfs_packed_chunks packed;
	struct shfs_file_uses uses;      /* byfile.c: of this transaction */
	struct shfs_string strings[512]; /* string.c: recently used ones */
	struct shfs_string_base bases[64];
	struct shfs_news *news; /* attribute.c: news of hook logs */
	uint8_t *seen;          /* seen.c; NULL: not loaded */

	/* the clock slot that is being filled */
	int64_t clock_boot_id, clock_slot, clock_offset_ns;

	struct shfs_buf path, path2; /* absolute paths of the record */
	struct shfs_buf in_tree;     /* one with the name of its tree before it */
};

/* --- seen.c --- */

/* May a version have this packed object? 1: maybe; 0: no, but the caller is about to add
 * one; or a negative errno. */
_must_check_ int shfs_seen_object(struct shfs_ingest *ing, struct shfs_bytes object);
void shfs_seen_forget(struct shfs_ingest *ing);

/* --- apply.c, apply-hook.c --- */

/* Result of shfs_apply_* for an implausible record, which counts as damage. */
#define SHFS_DROPPED 1

/* Applies one record of the segment or hook log that is being read. host: the name of its
 * directory in the journal. */
_must_check_ int shfs_apply_record(struct shfs_ingest *ing, const char *host,
                                   struct shfs_record *rec);
_must_check_ int shfs_apply_hook_record(struct shfs_ingest *ing, const char *host,
                                        struct shfs_record *rec);

/* Bounds the times of a record, so that arithmetic on them does not overflow. */
static inline struct shfs_time shfs_sane_time(struct shfs_time t)
{
	t.real_ns = MAX(0, MIN(t.real_ns, INT64_MAX / 4));
	t.boot_ns = MIN(t.boot_ns, (uint64_t)INT64_MAX / 4);
	return t;
}

/* Gets the id of the row for a boot of a host; adds one if need be. */
_must_check_ int shfs_boot_get(struct shfs_ingest *ing, struct shfs_bytes host,
                               struct shfs_bytes boot, int64_t *out);

/* Writes the public id of a session (more: nothing else), or of a command. -ENOMEM. */
_must_check_ int shfs_public_id(struct shfs_bytes host, struct shfs_bytes boot,
                                uint32_t pid, uint64_t start_ticks, const uint64_t *more,
                                size_t n, char out[static 17]);
/* A column of text, borrowed from the row. */
static inline struct shfs_bytes shfs_bytes_column(sqlite3_stmt *stmt, int col)
{
	const char *text = (const char *)sqlite3_column_text(stmt, col);

	return (struct shfs_bytes){ text, sqlite3_column_bytes(stmt, col) };
}

/* Puts the name of its tree (NULL or "": this one) before an absolute path. *out is valid
 * until the next call. */
_must_check_ int shfs_path_in_tree(struct shfs_ingest *ing, const char *tree,
                                   struct shfs_bytes path, struct shfs_bytes *out);

/* shfs_producer_load makes a producer of the index the current one (id 0: none);
 * shfs_producer_store writes the counts of the current one. */
_must_check_ int shfs_producer_load(struct shfs_ingest *ing, int64_t producer_id);
_must_check_ int shfs_producer_store(struct shfs_ingest *ing);

/* --- string.c --- */

/* Gets the id of the row for these bytes in the table string; adds one if need be. */
_must_check_ int shfs_string_id(struct shfs_ingest *ing, struct shfs_bytes value,
                                int64_t *out);
void shfs_strings_forget(struct shfs_ingest *ing);
/* Unpacks a row that has a base. -EBADMSG. */
_must_check_ int shfs_string_unpack(struct codecs *codecs, struct shfs_bytes packed,
                                    struct shfs_bytes base, struct shfs_buf *out);

/* Has the path no NUL, no empty component, no "." and no ".."? shfs records no others. */
bool shfs_is_plausible_path(struct shfs_bytes path);

/* --- process.c --- */

/* Returns the column pid_namespace of the table task: 0, which takes no room, for the
 * initial namespace of a host. */
static inline int64_t shfs_namespace_column(uint64_t pid_namespace)
{
	return (int64_t)(pid_namespace ^ 0xeffffffc); /* PROC_PID_INIT_INO */
}

/* Adds the process of a PROCESS record of the current producer. */
_must_check_ int shfs_process_add(struct shfs_ingest *ing, const struct shfs_record *rec);

/* Adds a PROGRAM record of the current producer. */
_must_check_ int shfs_program_add(struct shfs_ingest *ing, const struct shfs_record *rec);
_must_check_ int shfs_lookups_add(struct shfs_ingest *ing, const struct shfs_record *rec);

/* Adds an EXIT record of the current producer. */
_must_check_ int shfs_exit_add(struct shfs_ingest *ing, const struct shfs_record *rec);

/* Finds the process of the current producer's record seq: 1; or 0, and *out is zeroed. */
_must_check_ int shfs_process_find(struct shfs_ingest *ing, uint64_t seq,
                                   struct shfs_process *out);

/* Finds the owner of what the process did at this boot time, or up to late_ns earlier. */
_must_check_ int shfs_process_owner(struct shfs_ingest *ing,
                                    const struct shfs_process *process, uint64_t boot_ns,
                                    int64_t late_ns, struct shfs_owner *out);

void shfs_processes_forget(struct shfs_ingest *ing); /* frees the cache */

/* --- attribute.c --- */

/* Bounds a time of a record, which is not trusted, so that arithmetic does not overflow.
 */
static inline int64_t shfs_sane_ns(uint64_t ns)
{
	return MIN(ns, (uint64_t)INT64_MAX / 4);
}

/* Finds the owner of a process, by the rules of docs/index.md. */
_must_check_ int shfs_task_owner(struct shfs_index *index, int64_t task_id,
                                 struct shfs_owner *out);
/* Returns how late the time of an access may be. */
static inline int64_t shfs_late_ns(uint32_t access_flags)
{
	return access_flags & SHFS_ACCESS_LATE ? 40 * (SHFS_NSEC_PER_SEC / 1000) : 0;
}

/* Finds the owner of what a registered shell itself did at this boot time, or up to
 * late_ns earlier. */
_must_check_ int shfs_shell_owner(struct shfs_index *index, int64_t task_id,
                                  int64_t session_id, int64_t boot_ns, int64_t late_ns,
                                  struct shfs_owner *out);
/* --- revise.c --- */

/* Attributes a process and its accesses again; for a shell, only accesses since
 * since_boot_ns. The chunks must have been flushed. */
_must_check_ int shfs_task_revise(struct shfs_ingest *ing, int64_t task_id,
                                  int64_t since_boot_ns);

/* Attributes a process, and all that were begun since, again. */
_must_check_ int shfs_task_revise_below(struct shfs_ingest *ing, int64_t task_id);

/* Notes that a hook log has news of a session, from boot_ns on. start_ticks: of a session
 * that is new, else UINT64_MAX. */
_must_check_ int shfs_news_add(struct shfs_ingest *ing, int64_t session_id,
                               uint64_t boot_ns, uint64_t start_ticks);
/* Attributes again all that the news may change. Called before each commit. */
_must_check_ int shfs_news_apply(struct shfs_ingest *ing);
void shfs_news_forget(struct shfs_ingest *ing);
/* Attributes processes again that found no session, up to max of those after *task_id,
 * which becomes the last of them. 1: there may be more. */
_must_check_ int shfs_attribute_retry(struct shfs_ingest *ing, int64_t *task_id,
                                      unsigned max);

/* A process, its parent, and so on: a way up. at_shell: the last one is a child of a
 * registered shell. */
struct shfs_way_step {
	int64_t task_id, boot_id, mark_id, origin_id;
	uint64_t pid_namespace, start_ticks, parent_start_ticks;
	uint32_t pid, ppid, sid;
	unsigned role; /* enum shfs_role, of all its programs */
};
#define SHFS_WAY_MAX 256
struct shfs_way {
	struct shfs_way_step steps[SHFS_WAY_MAX];
	size_t n;
	bool at_shell;
};

#define SHFS_TICK_NS (SHFS_NSEC_PER_SEC / 100) /* of /proc/PID/stat, everywhere */
#define SHFS_CLOCKS_AGREE_NS                                                             \
	30000000 /* most that coarse boot time and real time differ */

/* Times of records are not trusted: nothing may overflow. */
static inline int64_t shfs_ticks_ns(uint64_t ticks)
{
	return MIN(ticks, (uint64_t)INT64_MAX / 4 / SHFS_TICK_NS) * SHFS_TICK_NS;
}

/* Gets the process that started this one: 1; 0: it is not recorded. */
_must_check_ int shfs_task_parent(struct shfs_index *index, int64_t task_id,
                                  struct shfs_way_step *out);
/* Gets the command that the marker of a process names; 0: none. */
_must_check_ int shfs_marker_command(struct shfs_index *index, int64_t task_id,
                                     int64_t *command_id);
/* Gets the command in which a session began, by what the processes of its machine tell;
 * 0: none. */
_must_check_ int shfs_caller_here(struct shfs_index *index, int64_t session_id,
                                  int64_t *command_id);

/* --- origin.c --- */

/* Notes the origin of the session whose hook log is read; its first one counts. */
_must_check_ int shfs_origin_add_to_session(struct shfs_ingest *ing,
                                            const struct shfs_record *rec);
/* Gets the command in which the shell or the invoker of a session was started: on this
 * machine, or by its origin (store/journal/origin.h) on another; 0: none is known. */
_must_check_ int shfs_session_caller(struct shfs_index *index, int64_t session_id,
                                     int64_t *command_id);

/* --- invoker.c --- */

enum shfs_role {
	SHFS_ROLE_INVOKER = 1 << 0,    /* runs commands for somebody: claude, sshd */
	SHFS_ROLE_TOLD = 1 << 1,       /* was told what to do: bash -c TEXT */
	SHFS_ROLE_BARE_SHELL = 1 << 2, /* a shell without arguments */
};

/* Says what a program is by its name and its arguments: enum shfs_role. -ENOMEM. */
_must_check_ int shfs_invoker_role(const struct shfs_rec_process *process,
                                   unsigned *role);

/*
 * Finds which process on the way up is a command that an invoker gave: 1, and the
 * command's owner, which is made if there is none (make); 0: none is. told: the outermost
 * one of the same origin, or with -c TEXT, where nothing else tells whose a process is.
 */
_must_check_ int shfs_invoker_command(struct shfs_index *index,
                                      const struct shfs_way *way, bool told, bool make,
                                      struct shfs_owner *out);
/* Finds the command of an invoker whose first process leads this group and session, which
 * the process is in: 1, or 0. */
_must_check_ int shfs_invoker_of_group(struct shfs_index *index,
                                       const struct shfs_way_step *step, uint32_t pgid,
                                       struct shfs_owner *out);
/* Reads again what the command is whose first process this is, if it is one: another of
 * its programs is known. */
_must_check_ int shfs_invoker_command_refresh(struct shfs_index *index, int64_t task_id);
/* Removes the command of an invoker if no process is left in it. */
_must_check_ int shfs_invoker_command_drop(struct shfs_index *index, int64_t command_id);

/* --- owner.c --- */

/* Gets the owner of a process, which all its programs share: 1; 0: there is no such
 * process, and *out is zeroed. out->shell: each of its accesses has an owner of its own.
 */
_must_check_ int shfs_owner_of_process(struct shfs_index *index, int64_t process_id,
                                       struct shfs_owner *out);
/* Caches the owner of the last process, as many accesses in a row are of one. Initialised
 * by {0}. */
struct shfs_last_owner {
	int64_t process_id;
	struct shfs_owner owner;
};
/* Gets the owner of an access. */
_must_check_ int shfs_owner_of_access(struct shfs_index *index, int64_t access_id,
                                      struct shfs_last_owner *last,
                                      struct shfs_owner *out);
/* Get the accesses of a command: all of these processes, and these single ones. Both are
 * appended in the order of their numbers. */
_must_check_ int shfs_owner_processes(struct shfs_index *index, int64_t command_id,
                                      struct shfs_ids *out);
_must_check_ int shfs_owner_shell_accesses(struct shfs_index *index, int64_t command_id,
                                           struct shfs_ids *out);
/* Counts the accesses of a command, with those that no view shows. */
_must_check_ int shfs_owner_count(struct shfs_index *index, int64_t command_id,
                                  int64_t *out);
/* Write the owners that attribute.c has found. */
_must_check_ int shfs_owner_set_of_task(struct shfs_index *index, int64_t task_id,
                                        const struct shfs_owner *owner);
_must_check_ int shfs_owner_set_of_shell_access(struct shfs_index *index,
                                                int64_t access_id,
                                                const struct shfs_owner *owner);
/* Functions of SQL: access_command(access_id), NULL: none; command_accesses(command_id),
 * the number of its accesses; command_last_ns(command_id), the end of its last one;
 * session_caller(session_id). */
void shfs_owner_access_command(sqlite3_context *ctx, int argc, sqlite3_value **argv);
void shfs_owner_command_accesses(sqlite3_context *ctx, int argc, sqlite3_value **argv);
void shfs_owner_command_last(sqlite3_context *ctx, int argc, sqlite3_value **argv);
void shfs_owner_session_caller(sqlite3_context *ctx, int argc, sqlite3_value **argv);

/* --- gap.c --- */

/* Gets the ids of the producers without END that are not noted yet, and whose process is
 * dead (as far as this host can see), or that had not ended when they were archived. */
_must_check_ int shfs_gaps_find(struct shfs_ingest *ing, struct shfs_ids *out);
/* Notes these as ended, except those whose END was read meanwhile. */
_must_check_ int shfs_gaps_note(struct shfs_ingest *ing, const struct shfs_ids *dead);

/* --- chunk.c --- */

/* Ids of two parts: the number of a file or process, and a number within it. */
static inline int64_t shfs_access_id(int64_t process_id, uint32_t n)
{
	return process_id << 32 | n;
}

static inline int64_t shfs_version_id(int64_t file_id, int64_t n)
{
	return n ? file_id << 32 | n : 0;
}

static inline struct shfs_bytes shfs_value_bytes(sqlite3_value *value)
{
	const char *data = sqlite3_value_blob(value);

	return (struct shfs_bytes){ data ?: "", sqlite3_value_bytes(value) };
}

#define SHFS_OP_PREIMAGE 100 /* its cut and torn count for its command */

/* Subtracts with wrap-around, as times of records may be any number; shfs_wrap_add is the
 * inverse. */
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

	if (c->end - c->p >= 2) { /* most varints have one or two bytes */
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
	struct shfs_access first, access; /* access: set if next returned 1 */
};
void shfs_chunk_open(struct shfs_chunk_reader *r, int64_t chunk_id, const void *data,
                     size_t len);
/* Unpacks the next access: 1; 0: the end; or -EBADMSG. */
_must_check_ int shfs_chunk_next(struct shfs_chunk_reader *r);

/* Gets the id for the next access of the process; process_id 0: an unknown process. */
_must_check_ int shfs_chunk_next_id(struct shfs_ingest *ing, int64_t process_id,
                                    int64_t *out);
/* Adds the access, with that id. */
_must_check_ int shfs_chunk_add(struct shfs_ingest *ing, int64_t process_id,
                                const struct shfs_access *access);
/* Writes the chunks; called before queries of the table access, and before each commit.
 */
_must_check_ int shfs_chunks_flush(struct shfs_ingest *ing);
void shfs_chunks_forget(struct shfs_ingest *ing);

/* --- note.c --- */

/* Adds a NOTE record of the current producer. */
_must_check_ int shfs_note_add(struct shfs_ingest *ing, const struct shfs_record *rec);

/* --- former.c --- */

/* Adds what an access did away with, if anything is known of it. held: a version, as
 * shfs_file_held has it. */
_must_check_ int shfs_former_add(struct shfs_ingest *ing, int64_t access_id, int64_t held,
                                 const struct shfs_former *former);
/* Adds to out what the file is, as far as is known, before it is written. *held: as
 * shfs_file_held. */
_must_check_ int shfs_former_of_file(struct shfs_ingest *ing, const struct shfs_file *f,
                                     struct shfs_former *out, int64_t *held);
/* Sets out to what a record says. Of records of older versions that is less. */
void shfs_former_of_record(const struct shfs_rec_pathop *op, struct shfs_former *out);

/* --- reader.c --- */

/* Reads accesses. Initialised by { .index }. */
struct shfs_reader {
	struct shfs_index *index;
	struct shfs_chunk_reader chunk; /* chunk.access: the result of next or find */
	sqlite3_stmt *range, *single;
	bool in_range;
	int64_t process_id; /* of the chunk that find has left open; -1: none */
};
/* Gives back the reader's statements. */
void shfs_reader_end(struct shfs_reader *reader);
#define _cleanup_reader_ _cleanup_(shfs_reader_end)
/* Sets the range: from now on shfs_reader_next returns the accesses from first_id to
 * last_id, in order: 1; 0: the end; or a negative errno. */
_must_check_ int shfs_reader_range(struct shfs_reader *reader, int64_t first_id,
                                   int64_t last_id);
_must_check_ int shfs_reader_next(struct shfs_reader *reader);
/* Finds one access: 1; 0: there is none; or a negative errno. Ends the range. A further
 * one of the same chunk costs little. */
_must_check_ int shfs_reader_find(struct shfs_reader *reader, int64_t access_id);

/* --- mirror-facts.c: questions about a mirror, as facts.h has them --- */

int shfs_mirror_version(struct shfs_index *mirror, int64_t version_id,
                        struct shfs_version_fact *out);
int shfs_mirror_file(struct shfs_index *mirror, int64_t file_id,
                     struct shfs_file_fact *out);
int shfs_mirror_paths(struct shfs_index *mirror, const int64_t *file_ids, size_t n,
                      shfs_path_fn fn, void *arg);
/* Call fn for the accesses of a command or a process; nobody: those of no command. */
int shfs_mirror_of_command(struct shfs_index *mirror, int64_t command_id,
                           shfs_access_fn fn, void *arg);
int shfs_mirror_of_process(struct shfs_index *mirror, int64_t process_id, bool nobody,
                           shfs_access_fn fn, void *arg);
int shfs_mirror_opens_of_file(struct shfs_index *mirror, int64_t file_id,
                              shfs_access_fn fn, void *arg);
int shfs_mirror_access(struct shfs_index *mirror, int64_t access_id,
                       struct shfs_access *out);
int shfs_mirror_last_made(struct shfs_index *mirror, int64_t version_id, bool moved,
                          struct shfs_access *out);
int shfs_mirror_processes(struct shfs_index *mirror, int64_t command_id,
                          shfs_process_fn fn, void *arg);
/* The number of a program is that of the first process that executed it. */
int shfs_mirror_program(struct shfs_index *mirror, int64_t process_id,
                        int64_t *program_id);
int shfs_mirror_count_uses(struct shfs_index *mirror, const int64_t *file_ids, size_t n,
                           int64_t *out);
/* Has a version an object of these bytes, that was not pruned? */
int shfs_mirror_find_object(struct shfs_index *mirror, const void *data, size_t len,
                            struct shfs_object_id *id);

/* --- walk.c --- */

/* Calls fn for one access, as shfs_accesses_of_command does. */
_must_check_ int shfs_access_walk(struct shfs_reader *reader, int64_t access_id,
                                  shfs_access_fn fn, void *arg);

/* --- byfile.c --- */

_must_check_ int shfs_file_uses_append(struct shfs_file_uses *uses,
                                       struct shfs_file_use use);
_must_check_ int shfs_file_use_add(struct shfs_ingest *ing, struct shfs_file_use use);
/* Writes the uses of this transaction; called before each commit. */
_must_check_ int shfs_file_uses_flush(struct shfs_ingest *ing);
void shfs_file_uses_forget(struct shfs_ingest *ing);
/* Adds the accesses of the files (sorted, without duplicates), in no order: opens, if
 * they are wanted, and changes of names or attributes. made: of the opens only those that
 * have made a version. */
_must_check_ int shfs_file_uses_find(struct shfs_index *index,
                                     const struct shfs_ids *files, bool made,
                                     struct shfs_file_uses *opens,
                                     struct shfs_ids *changes);

/* --- same.c --- */

/* Compares the low bits only: the index does not store the whole hash. */
bool shfs_same_phash(const struct shfs_content *a, const struct shfs_content *b);
/* Are these the same snapshot in two records? It may have got another name in between. */
bool shfs_same_capture(const struct shfs_content *a, const struct shfs_content *b);
static inline bool shfs_is_complete(const struct shfs_content *c)
{
	return !(c->flags & SHFS_CONTENT_INCOMPLETE);
}
/* Is the file unchanged since it was known to hold the latest version, by its times? */
bool shfs_file_is_same_by_times(const struct shfs_file *f, const struct shfs_content *c);
/* Is this certainly the content of the file's latest version? */
bool shfs_file_holds(const struct shfs_file *f, const struct shfs_content *c);
/* Has a write left the content as it was? Only the bytes decide. */
bool shfs_file_left_the_same(const struct shfs_file *f, const struct shfs_content *c);

/* --- file.c, inode.c, version.c --- */

#define SHFS_VERSION_PACKED 80

/* version-row.c. Packs the column data of a version: its content without the object (of
 * phash the low bits), source, carried, access_id and time_ns. Returns the length. */
size_t shfs_version_pack(const struct shfs_version_fact *version,
                         uint8_t out[static SHFS_VERSION_PACKED]);
/* Unpacks the columns data and object; version_id, origin_version_id and command_id
 * become 0, and so do fields that depend on them. -EBADMSG. */
_must_check_ int shfs_version_unpack(struct shfs_bytes data, struct shfs_bytes object,
                                     struct shfs_version_fact *out);
/* Unpacks data and object of the columns col and col + 1. */
_must_check_ int shfs_version_columns(sqlite3_stmt *stmt, int col,
                                      struct shfs_version_fact *out);

/*
 * The range of ctimes at which a file is known to hold its latest version: from the ctime
 * it had when that was last found by its bytes, to the one that the last change of its
 * names or attributes has set. Such a change counts if its producer (by) has seen the
 * content before (in the record seq), and has lost no record since: then nobody wrote in
 * between.
 */
struct shfs_sighting {
	int64_t ctime_first_ns, ctime_last_ns;
	int64_t mtime_ns;
	bool touched; /* its times were set meanwhile: mtime_ns is of no use */
	bool named;   /* only dev and ino at the path are known, not their content */
	int64_t by;   /* producer_id; 0: none */
	uint64_t seq;
};

/* A path and its state, as the table file has it; cached, written back at commit. */
struct shfs_file {
	int64_t id, versions, last_ns;
	int64_t since_ns;                /* its file replaced another; 0: none */
	int64_t directory_id, root_id;   /* root_id 0: the directory's */
	bool present, directory, stored; /* stored: the table has it */
	bool dirty;                      /* set by shfs_file_changed */
	unsigned round;                  /* transaction of its last use */
	struct shfs_file *prev, *next, *next_dirty;
	struct shfs_content content; /* of the latest version */
	int64_t moved_id; /* the version that the file held when it came here while it
	                   * was written, which may be of another path: the latest one is
	                   * of the file before; -1: not known; 0: the latest one is its
	                   */
	unsigned source;  /* of the latest version, as the next two */
	int64_t maker_id, time_ns;
	struct shfs_sighting known;
	uint64_t dev, ino;        /* if it was seen with several names; else 0 */
	struct shfs_inode *inode; /* NULL: not looked for yet */
	size_t inode_at;          /* index among the names of inode */
	uint64_t changes;         /* number of inode's changes applied to it */
	UT_hash_handle hh;
	size_t len, name_at;
	char path[];
};

/* Returns the id of its latest version; 0: none. */
static inline int64_t shfs_file_latest(const struct shfs_file *f)
{
	return shfs_version_id(f->id, f->versions);
}

/* Returns the version that the file at the path holds, as far as that is known: its n; or
 * the id of another path's; 0: not known. */
static inline int64_t shfs_file_held(const struct shfs_file *f)
{
	return !f->present ? 0 : f->moved_id ? MAX(f->moved_id, 0) : f->versions;
}

/* Gets the file at an absolute path, made if it is new; all changes noted in its inode
 * are applied to it. Valid until shfs_files_forget or _trim. */
_must_check_ int shfs_file_get(struct shfs_ingest *ing, struct shfs_bytes path,
                               struct shfs_file **out);
/* Notes that the file differs from the table: the next flush writes it. */
void shfs_file_changed(struct shfs_ingest *ing, struct shfs_file *f);
_must_check_ int shfs_files_flush(struct shfs_ingest *ing);
void shfs_files_forget(struct shfs_ingest *ing);
/* Functions of SQL on the column data; NULL: it does not have the field. */
void shfs_file_root_id(sqlite3_context *ctx, int argc, sqlite3_value **argv);
void shfs_file_last_ns(sqlite3_context *ctx, int argc, sqlite3_value **argv);
/* Unpack the columns state and data. shfs_file_get_last_ns returns false, and INT64_MIN,
 * if the time is that of the latest version. */
void shfs_file_get_state(int64_t state, struct shfs_file_fact *out);
bool shfs_file_get_last_ns(const void *data, size_t len, int64_t *out);
/* Drops files that were not used lately from memory, if there are many. Called at the
 * begin of a transaction. */
void shfs_files_trim(struct shfs_ingest *ing);
/* Adds n to the number of versions without an object with these flags. */
_must_check_ int shfs_left_out_add(struct shfs_ingest *ing, uint32_t flags, int64_t n);
_must_check_ int shfs_left_out_flush(struct shfs_ingest *ing);

/* A change of one name of a file, or of its attributes, as all of its names see it. */
struct shfs_inode_change {
	int64_t ctime_ns;               /* INT64_MIN: not known */
	bool times;                     /* its times were set */
	const struct shfs_content *now; /* the content with its new attributes; NULL:
	                                 * these did not change */
};
/* Notes the change for all names. It is already applied to f, as are all changes before.
 */
_must_check_ int shfs_inode_note(struct shfs_ingest *ing, struct shfs_file *f,
                                 const struct shfs_inode_change *change);
/* Apply the noted changes to f, or to all names of all inodes (before each commit). */
_must_check_ int shfs_inode_settle(struct shfs_ingest *ing, struct shfs_file *f);
_must_check_ int shfs_inodes_settle(struct shfs_ingest *ing);
/* Finds the names of f's inode, unless that was done; f becomes one of them. */
_must_check_ int shfs_inode_of(struct shfs_ingest *ing, struct shfs_file *f);
/* Applies the noted changes to f, and removes f from the names of its inode. */
_must_check_ int shfs_inode_leave(struct shfs_ingest *ing, struct shfs_file *f);
/* Gets all names of f's inode, sorted by id, f among them, and NULL for some that were
 * removed; not all of them are present. Valid until a name is added or removed. */
_must_check_ int shfs_inode_names(struct shfs_ingest *ing, struct shfs_file *f,
                                  struct shfs_file *const **list, size_t *n);
/* Called before f, or all files, are dropped from memory. No changes may be noted any
 * more, unless all is undone. */
void shfs_inode_forget(struct shfs_ingest *ing, struct shfs_file *f);
void shfs_inodes_forget(struct shfs_ingest *ing);

/* Applies the change to f, whose content its producer knew at that time. */
_must_check_ int shfs_version_change(struct shfs_ingest *ing, struct shfs_file *f,
                                     const struct shfs_inode_change *change);

/* Notes that the file has, or had a moment ago, several names: the paths of the same dev
 * and ino get each other's versions from now on. */
_must_check_ int shfs_version_linked(struct shfs_ingest *ing, struct shfs_file *file,
                                     uint64_t dev, uint64_t ino);

/* Return the number of the version with this content of the file, and number it if it is
 * new; 0: it is no version (not KNOWN, or not of a regular file). _now: the content
 * before a change; _made: the content that access_id left. */
_must_check_ int shfs_version_now(struct shfs_ingest *ing, struct shfs_file *file,
                                  const struct shfs_content *content, int64_t real_ns,
                                  int64_t *out);
_must_check_ int shfs_version_made(struct shfs_ingest *ing, struct shfs_file *file,
                                   const struct shfs_content *content, int64_t access_id,
                                   int64_t real_ns, int64_t *out);

/* Notes that the producer has seen this content, if the file certainly holds it as its
 * latest version. */
_must_check_ int shfs_version_same(struct shfs_ingest *ing, struct shfs_file *file,
                                   const struct shfs_content *content);

/*
 * Finds the version that a reader saw which opened the file at begin_ns. Its record may
 * come long after, when the file has changed. So it may be an earlier version of the
 * file, or one of an earlier name of the file; n is 0 if it is neither. begin_ns 0:
 * another file has the path by now, of which the content tells nothing.
 */
struct shfs_sight {
	int64_t file_id, n;
};
_must_check_ int shfs_version_seen(struct shfs_ingest *ing, struct shfs_file *file,
                                   const struct shfs_content *content, int64_t begin_ns,
                                   struct shfs_sight *out);

/* Notes that the producer saw a change of names or attributes of the file, with times
 * also of its times, which set its ctime to ctime_ns or to a time shortly before. */
_must_check_ int shfs_version_metadata(struct shfs_ingest *ing, struct shfs_file *file,
                                       int64_t ctime_ns, bool times);
/* Notes new attributes of the file, whose bytes did not change, in its version: shfs
 * restore sets them. */
_must_check_ int shfs_version_attributes(struct shfs_ingest *ing, struct shfs_file *file,
                                         const struct shfs_content *now);
/* Notes that the path may no longer hold its latest version. */
void shfs_version_unknown(struct shfs_ingest *ing, struct shfs_file *file);

/* A change of names. seen: number of the version that was moved, linked or removed; made:
 * that of path2; 0 for directories and if it is not known. */
struct shfs_name_change {
	struct shfs_file *file, *file2;
	const struct shfs_rec_pathop *op;
	int64_t access_id, real_ns;
	int64_t seen, made, victim; /* victim: of path2 before; of path with TRUNCATE */
	struct shfs_former former;
};
_must_check_ int shfs_version_rename(struct shfs_ingest *ing, struct shfs_name_change *c);
_must_check_ int shfs_version_exchange(struct shfs_ingest *ing,
                                       struct shfs_name_change *c);
_must_check_ int shfs_version_link(struct shfs_ingest *ing, struct shfs_name_change *c);
_must_check_ int shfs_version_unlink(struct shfs_ingest *ing, struct shfs_name_change *c);
