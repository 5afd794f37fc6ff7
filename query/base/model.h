/* SPDX-License-Identifier: MIT */
/*
 * model.h - rows of the views as structs, and the one way in which each of them is shown.
 *
 * Loaders return 1 and fill *out (to be cleared by the caller), 0 where there is no such
 * row, or a negative errno; shfs_fail_index turns the last into a message.
 */
#pragma once

#include "common/buf.h"
#include "query/base/cmd.h"
#include "query/base/json.h"
#include "store/objects/object.h"

/*
 * Says that reading the index failed (error is a negative errno); returns the exit code.
 */
int shfs_fail_index(struct shfs_index *index, int error);
/* That pruned_look found it damaged. An exit code. */
int shfs_fail_pruned(void);

/* --- versions --- */

struct shfs_version {
	int64_t version_id, file_id, n;
	int64_t origin_version_id, access_id, process_id, command_id; /* 0: none */
	char *path;
	struct shfs_object_id object; /* where flags have SHFS_CONTENT_OBJECT */
	uint32_t flags, mode;
	uint64_t size, phash;
	int64_t mtime_ns, time_ns;
	char source[12];
	bool carried;
};

/* What a SELECT over v_version must begin with for shfs_version_from_row. */
#define SHFS_VERSION_COLUMNS                                                             \
	" version_id, file_id, n, origin_version_id, access_id, process_id, command_id," \
	" path, object, flags, mode, size, phash, mtime_ns, time_ns, source, carried "

_must_check_ int shfs_version_from_row(struct shfs_rows *rows, struct shfs_version *out);
_must_check_ int shfs_version_load(struct shfs_index *index, int64_t version_id,
                                   struct shfs_version *out);
/* The latest version of a path. */
_must_check_ int shfs_version_latest(struct shfs_index *index, const char *path,
                                     struct shfs_version *out);
/* The project that the version's file is in: 1, or 0. */
_must_check_ int shfs_version_root(struct shfs_index *index,
                                   const struct shfs_version *version, char **root);
/* Members of one version: see docs/json.md. */
void shfs_version_json(struct shfs_json *json, const struct shfs_version *version);
void shfs_version_clear(struct shfs_version *version);
#define _cleanup_version_ _cleanup_(shfs_version_clear)

/* Why there is no object: "larger than the limit". NULL if there is one. */
const char *shfs_version_why_not_archived(uint32_t flags);

/* --- commands --- */

struct shfs_command_row {
	int64_t command_id;
	char *id, *session, *host, *cwd, *text;
	size_t text_len;
	int64_t begin_ns, end_ns, status;
	bool ended, has_status, hidden;
	bool redacted; /* secrets were taken out of text */
	int64_t n_accesses;
};

#define SHFS_COMMAND_COLUMNS                                                             \
	" command_id, id, session, host, cwd, text, begin_ns, end_ns, status, hidden,"   \
	" redacted "

/* The shell that it was typed into: "bash", "zsh", "fish"; unknown where that is so. */
_must_check_ int shfs_command_shell(struct shfs_index *index,
                                    const struct shfs_command_row *command,
                                    const char *unknown, char **shell);

/* n_accesses is 0, as it takes a while to count. */
_must_check_ int shfs_command_from_row(struct shfs_rows *rows,
                                       struct shfs_command_row *out);
_must_check_ int shfs_command_load(struct shfs_index *index, int64_t command_id,
                                   struct shfs_command_row *out);
void shfs_command_clear(struct shfs_command_row *command);
#define _cleanup_command_ _cleanup_(shfs_command_clear)

/* The command whose id begins with prefix (at least 4 hex digits). Where there are
 * several: -ENOTUNIQ, and they have been listed with a message. */
_must_check_ int shfs_command_find(struct shfs_index *index, const char *prefix,
                                   int64_t *command_id);

/* How many records the mounts of its time could not write. */
_must_check_ int shfs_command_lost(struct shfs_index *index,
                                   const struct shfs_command_row *command, int64_t *out);

/* Did the command execute a program of that name, whatever directory it was in? */
_must_check_ int shfs_command_executed(struct shfs_index *index, int64_t command_id,
                                       const char *name, size_t len);

/* Can it be the beginning of a command's id: 4 to 16 hex digits? */
bool shfs_command_is_id(const char *text);

/* --- processes --- */

struct shfs_process_row {
	int64_t process_id, command_id; /* 0: none */
	char *host, *exe, *cwd, *argv;
	size_t argv_len;
	int64_t pid, ppid, start_ticks, first_ns;
};

#define SHFS_PROCESS_COLUMNS                                                             \
	" process_id, command_id, host, exe, cwd, argv, pid, ppid, start_ticks, "        \
	"first_ns "

_must_check_ int shfs_process_from_row(struct shfs_rows *rows,
                                       struct shfs_process_row *out);
_must_check_ int shfs_process_load(struct shfs_index *index, int64_t process_id,
                                   struct shfs_process_row *out);
/* Members: pid, parent, argv, exe. */
void shfs_process_json(struct shfs_json *json, const struct shfs_process_row *process);
void shfs_process_clear(struct shfs_process_row *process);
#define _cleanup_process_ _cleanup_(shfs_process_clear)

/* --- paths --- */

/*
 * The path by which the index knows what the user names, malloc'ed: absolute, links in
 * its directories resolved, as far as they exist. NULL: no memory.
 */
char *shfs_operand_path(const char *operand);

/* The same, but a link that the index does not know is followed too. 1, 0 where the index
 * knows no version of any of them (*path is set all the same), or a negative errno. */
_must_check_ int shfs_operand_file(struct shfs_index *index, const char *operand,
                                   char **path);

/* The other way: how a program is given a path of the index; relative where it is below
 * the working directory. malloc'ed; NULL: no memory. */
char *shfs_path_operand(const char *path);

/* Does the index know path, something below it, or a command that ran there? 1, 0, or a
 * negative errno. */
_must_check_ int shfs_path_is_known(struct shfs_index *index, const char *path);

/* The paths of n operands, each of which the index must know. Returns an exit code; where
 * it is not 0, the reason has been said. The caller frees paths[i]. */
_must_check_ int shfs_operand_paths(struct shfs_index *index, size_t n, char **operands,
                                    char **paths);

/*
 * The length of the beginning of path that is what a program keeps for itself: of version
 * control (.git), a cache (__pycache__), of a build tool (.ninja_log). 0: path is in
 * none.
 */
size_t shfs_path_bookkeeping(const char *path);
/* Is it in one of version control? */
bool shfs_path_is_version_control(const char *path);

/* No version was found: "config.yaml: never seen", what may have been meant, and what to
 * look at; or that it is none of the files that have versions. Returns
 * SHFS_EXIT_NOT_FOUND. */
int shfs_fail_unseen(struct shfs_index *index, const char *path);

/* Says so, and returns SHFS_EXIT_NOT_FOUND, if nothing was ever recorded; else 0. */
int shfs_fail_if_empty(struct shfs_index *index);

/* The same, and for each of n operands whose path was never seen. */
int shfs_fail_if_unknown(struct shfs_index *index, int n, char **operands);

/* --- SQL conditions --- */

/* Conditions on v_version, v_access: the version with this id; the file at the path in a
 * parameter. Both are texts of SQL. */
#define SHFS_SQL_VERSION_OF(v, id)                                                       \
	" " v ".file_id = (" id ") >> 32 AND " v ".n = (" id ") & 4294967295 "
#define SHFS_SQL_VERSION(id) SHFS_SQL_VERSION_OF("v_version", id)
#define SHFS_SQL_FILE(path)                                                              \
	"file_id = (SELECT file_id FROM v_path WHERE dir = path_dir(" path ")"           \
	" AND name_key = name_key(path_name(" path "))"                                  \
	" AND +name = path_name(" path ")) "

/*
 * A condition for "expr is the path in parameter ?n, or below it". The parameter must not
 * end in a slash; the root directory is "".
 */
void shfs_sql_below(struct shfs_buf *sql, const char *expr, int n);
/* The same for a column with a file_id, by the index of paths. */
void shfs_sql_files_below(struct shfs_buf *sql, const char *column, int n);
/* The SELECT of these files alone. */
void shfs_sql_list_files_below(struct shfs_buf *sql, int n);

/* --- what is shown; each appends to out, escaped --- */

/*
 * Relative to the working directory where it is below that; else below "~" if it can be.
 */
void shfs_show_path(struct shfs_buf *out, const char *path);
/* config.yaml@3; n 0: the path alone. */
void shfs_show_version(struct shfs_buf *out, const char *path, int64_t n);
/* A directory with the user's home as "~". */
void shfs_show_directory(struct shfs_buf *out, const char *path);
/* The first line, cut to width columns with an ellipsis. */
void shfs_show_first_line(struct shfs_buf *out, const char *text, size_t len,
                          size_t width);
/* Text that is escaped already; where it is wider than width columns, its end behind an
 * ellipsis. */
void shfs_show_tail(struct shfs_buf *out, const char *text, size_t width);
/* What the process was called by, cut to width columns. */
void shfs_show_process(struct shfs_buf *out, const struct shfs_process_row *process,
                       size_t width);
/* 812 B, 1.5 KiB. */
void shfs_show_size(struct shfs_buf *out, uint64_t bytes);

/* The shortest beginning of id, of 7 digits or more, that no other command has. */
_must_check_ int shfs_show_id(struct shfs_index *index, struct shfs_buf *out,
                              const char *id);

/* For a message: "4f2a91c (sort …)". */
void shfs_command_show(struct shfs_buf *out, struct shfs_index *index,
                       const struct shfs_command_row *command);

/* Columns of the terminal, or 80. */
size_t shfs_show_columns(void);

/* Escape sequences; all "" where there is no colour. */
struct shfs_style {
	const char *id, *bad, *dim, *bold, *off;
};
const struct shfs_style *shfs_style_of(struct shfs_context *ctx);
extern const struct shfs_style shfs_style_colors;
/* Why the content of a version could not be copied out of the store: a negative errno. */
void shfs_show_content_error(struct shfs_buf *out, const struct shfs_version *version,
                             int error);

/* Text that is escaped already; "" adds nothing. */
void shfs_show_dim(struct shfs_buf *out, const struct shfs_style *style,
                   const char *text);

/* Writes out to standard output and empties it. False: no memory, or the write failed. */
bool shfs_show_flush(struct shfs_buf *out);
