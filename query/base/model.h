/* SPDX-License-Identifier: MIT */
/*
 * model.h - rows of the views as structs, and the one way in which each is shown.
 *
 * Loaders return 1 and fill *out (cleared by the caller), 0 if there is no such row, or a
 * negative errno, which shfs_fail_index turns into a message.
 */
#pragma once

#include "common/buf.h"
#include "common/ids.h"
#include "query/base/cmd.h"
#include "query/base/json.h"
#include "store/objects/object.h"

/*
 * Prints that reading the index failed (error is a negative errno); returns the exit
 * code.
 */
int shfs_fail_index(struct shfs_index *index, int error);
/* Prints that pruned_look found the file of tombstones damaged. Returns an exit code. */
int shfs_fail_pruned(void);

/* --- versions --- */

struct shfs_version {
	int64_t version_id, file_id, n;
	int64_t origin_version_id, access_id, process_id, command_id; /* 0: none */
	char *path;
	struct shfs_object_id object; /* if flags have SHFS_CONTENT_OBJECT */
	uint32_t flags, mode;
	uint64_t size, phash;
	int64_t mtime_ns, time_ns;
	char source[12];
	bool carried;
	bool once; /* not made again (facts.h); set by graphs alone */
};

/* A SELECT over v_version begins with these columns, for shfs_version_from_row. */
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
/* Are its bytes at this path now, judged by size and time? */
bool shfs_version_lies_at(const struct shfs_version *version, const char *path);
#define _cleanup_version_ _cleanup_(shfs_version_clear)

/* Why there is no object: "larger than the limit". NULL if there is one. */
const char *shfs_version_why_not_archived(uint32_t flags);

/* --- commands --- */

struct shfs_command_row {
	int64_t command_id;
	char *id, *session, *host, *cwd, *text;
	size_t text_len;
	char *invoker; /* "agent claude": the program that gave it; "": it was typed */
	int64_t begin_ns, end_ns, status;
	bool ended, has_status, hidden;
	bool redacted; /* text had secrets */
	bool noted;    /* it has a note or a tag (query/history/notes.h) */
};

#define SHFS_COMMAND_COLUMNS                                                             \
	" command_id, id, session, host, cwd, text, begin_ns, end_ns, status, hidden,"   \
	" redacted, invoker, noted "

/* The shell that the command was typed into, or given to: "bash", "zsh", "fish", "sh"; or
 * unknown. */
_must_check_ int shfs_command_shell(struct shfs_index *index,
                                    const struct shfs_command_row *command,
                                    const char *unknown, char **shell);

/* Gets the number of the session that this was typed in ($SHFS_SESSION); 0: there is
 * none, or the index does not have it yet. */
_must_check_ int shfs_session_own(struct shfs_index *index, int64_t *session_id);

_must_check_ int shfs_command_from_row(struct shfs_rows *rows,
                                       struct shfs_command_row *out);
_must_check_ int shfs_command_load(struct shfs_index *index, int64_t command_id,
                                   struct shfs_command_row *out);
void shfs_command_clear(struct shfs_command_row *command);
#define _cleanup_command_ _cleanup_(shfs_command_clear)

/* Appends, of a command that a program gave, "agent claude › "; if that was started from
 * another host, "ssh sshd of 3f2c9a1 on hosta › ". */
void shfs_show_invoker(struct shfs_index *index, struct shfs_buf *out,
                       const struct shfs_command_row *command);

/* Appends the commands that programs gave which one of these has started, and what those
 * started, and so on; none that is one of these. elsewhere: also on other hosts. */
_must_check_ int shfs_commands_given(struct shfs_index *index, const struct shfs_ids *by,
                                     bool elsewhere, struct shfs_ids *out);

/* Did it run at this time? */
bool shfs_command_ran_at(const struct shfs_command_row *command, int64_t ns);

/* Finds the command whose id begins with prefix (at least 4 hex digits). -ENOTUNIQ: there
 * are several, and a message has listed them. */
_must_check_ int shfs_command_find(struct shfs_index *index, const char *prefix,
                                   int64_t *command_id);

/* The number of records that the mounts of its time could not write. */
_must_check_ int shfs_command_lost(struct shfs_index *index,
                                   const struct shfs_command_row *command, int64_t *out);

/* Did the command execute a program of that name, in whatever directory? */
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
 * The index's path for what the user names, malloc'ed: absolute, with the links in its
 * directories resolved as far as they exist; "hostb:~/p" as the path of another tree
 * (store/trees.h). NULL: no memory.
 */
char *shfs_operand_path(const char *operand);

/* Does a path of the index lie on this machine? Else it is another tree's
 * (store/trees.h), and nothing here is meant by it. */
bool shfs_path_is_here(const char *path);
/* Are both of one tree? */
bool shfs_path_is_same_tree(const char *a, const char *b);
#define SHFS_NOT_HERE " is a file of another machine"

/* The path of another tree that a path here stands for by the i-th map, malloc'ed. NULL:
 * there is none, or no memory. */
char *shfs_path_mapped(const char *path, size_t i);

/* As shfs_operand_path, but a link that the index does not have is followed, too. 1; 0 if
 * the index has no version of either (*path is set all the same); or a negative errno. */
_must_check_ int shfs_operand_file(struct shfs_index *index, const char *operand,
                                   char **path);

/* The reverse: the operand for a path of the index; relative if it is below the working
 * directory. malloc'ed; NULL: no memory. */
char *shfs_path_operand(const char *path);

/* Does the index have the file at path? 1, 0, or a negative errno. */
_must_check_ int shfs_file_is_recorded(struct shfs_index *index, const char *path);
/* Does the index have path, something below it, or a command that ran there? 1, 0, or a
 * negative errno. */
_must_check_ int shfs_path_is_known(struct shfs_index *index, const char *path);

/* The paths of n operands; the index must have each. Returns an exit code; if that is not
 * 0, a message was printed. The caller frees paths[i]. */
_must_check_ int shfs_operand_paths(struct shfs_index *index, size_t n, char **operands,
                                    char **paths);

/*
 * The length of the part of path that leads to bookkeeping of a program: of version
 * control (.git), a cache (__pycache__), a build tool (.ninja_log); or to what is of the
 * system (shfs_path_setting). 0: there is none.
 */
size_t shfs_path_bookkeeping(const char *path);
/* Is the path in bookkeeping of version control? */
bool shfs_path_is_version_control(const char *path);

/* No version was found: prints "config.yaml: never seen", similar names, and what to look
 * at; or that such a file has no versions. Returns SHFS_EXIT_NOT_FOUND. */
int shfs_fail_unseen(struct shfs_index *index, const char *path);

/* If nothing was ever recorded, says so and returns SHFS_EXIT_NOT_FOUND; else 0. */
int shfs_fail_if_empty(struct shfs_index *index);

/* As shfs_fail_if_empty, and for each of n operands whose path was never seen. */
int shfs_fail_if_unknown(struct shfs_index *index, int n, char **operands);

/* --- SQL conditions --- */

/* SQL conditions on v_version, v_access: the version with this id; the file at the path
 * in a parameter. SHFS_SQL_FILE_ID is the id of that file, or NULL. */
#define SHFS_SQL_VERSION_OF(v, id)                                                       \
	" " v ".file_id = (" id ") >> 32 AND " v ".n = (" id ") & 4294967295 "
#define SHFS_SQL_VERSION(id) SHFS_SQL_VERSION_OF("v_version", id)
#define SHFS_SQL_FILE_ID(path)                                                           \
	" (SELECT file_id FROM v_path WHERE dir = path_dir(" path ")"                    \
	" AND name_key = name_key(path_name(" path "))"                                  \
	" AND +name = path_name(" path ")) "
#define SHFS_SQL_FILE(path) "file_id =" SHFS_SQL_FILE_ID(path)

/*
 * Adds the condition "expr is the path in parameter ?n, or below it". The parameter must
 * not end in a slash; the root directory is "".
 */
void shfs_sql_below(struct shfs_buf *sql, const char *expr, int n);
/* As shfs_sql_below, for a column with a file_id; uses the index of paths. */
void shfs_sql_files_below(struct shfs_buf *sql, const char *column, int n);
/* Adds only the SELECT of these files. */
void shfs_sql_list_files_below(struct shfs_buf *sql, int n);

/* --- showing: each appends to out, escaped --- */

/*
 * Shows path relative to the working directory if it is below that; else with "~" if it
 * can.
 */
void shfs_show_path(struct shfs_buf *out, const char *path);
/* config.yaml@3; n 0: the path alone. */
void shfs_show_version(struct shfs_buf *out, const char *path, int64_t n);
/* A directory with the user's home as "~". */
void shfs_show_directory(struct shfs_buf *out, const char *path);
/* --- signs.c: how the signs of shfs look that are not ASCII: branches of trees, arrows,
 * ellipses. In the source they are what a UTF-8 terminal shows. --- */

/* Returns one of the signs as this locale can show it. Static. */
const char *shfs_sign(const char *sign);

/* Appends a text of shfs (none of a user) likewise. */
void shfs_show_signs(struct shfs_buf *out, const char *text);

/* Returns the columns that it takes there. */
size_t shfs_signs_width(const char *text);

/* The first line, cut to width columns with an ellipsis. */
void shfs_show_first_line(struct shfs_buf *out, const char *text, size_t len,
                          size_t width);
/* Shows text that is escaped already; if it is wider than width columns, its end after an
 * ellipsis. */
void shfs_show_tail(struct shfs_buf *out, const char *text, size_t width);
/* Shows how the process was called, cut to width columns. */
void shfs_show_process(struct shfs_buf *out, const struct shfs_process_row *process,
                       size_t width);
/* 812 B, 1.5 KiB. */
void shfs_show_size(struct shfs_buf *out, uint64_t bytes);

/* Shows the shortest beginning of id, at least 7 digits, that no other command has. */
_must_check_ int shfs_show_id(struct shfs_index *index, struct shfs_buf *out,
                              const char *id);

/* For a message: "4f2a91c (sort …)". */
void shfs_command_show(struct shfs_buf *out, struct shfs_index *index,
                       const struct shfs_command_row *command);

/* Columns of the terminal, or 80. */
size_t shfs_show_columns(void);

/* Escape sequences; all are "" without colour. */
struct shfs_style {
	const char *id, *bad, *dim, *bold, *off;
};
const struct shfs_style *shfs_style_of(struct shfs_context *ctx);
extern const struct shfs_style shfs_style_colors, shfs_style_none;
/* Shows why a content could not be copied out of the store: error is a negative errno. */
void shfs_show_content_error(struct shfs_buf *out, const struct shfs_version *version,
                             int error);

/* Shows text that is escaped already in a dim colour; "" adds nothing. */
void shfs_show_dim(struct shfs_buf *out, const struct shfs_style *style,
                   const char *text);

/* Returns the ending of a noun that counts n things: "s", or "" where n is 1. */
static inline const char *shfs_plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

/* Writes out to standard output and empties it. False: no memory, or the write failed. */
bool shfs_show_flush(struct shfs_buf *out);
