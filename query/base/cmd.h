/* SPDX-License-Identifier: MIT */
/*
 * cmd.h - the table of subcommands and options, and the context of a command.
 *
 * One table (query/main.c lists the commands, each file of query/cmd/ defines its own)
 * makes the parser, the help, the completions and the check of the man pages.
 */
#pragma once

#include "common/config.h"
#include "common/exit.h"
#include "store/index/index.h"
#include "store/trees.h"

#include <stdbool.h>

struct shfs_option {
	const char *name; /* long name, without dashes */
	char letter;      /* short name, or 0 */
	const char *arg;  /* metavariable ("N", "PATH"), or NULL for a flag; "[=DIR]":
	                   * the value is optional */
	const char *help; /* one line, no full stop */
	/* Where its value goes. If nowhere, the command's option() is called. */
	bool *flag;        /* is made true */
	int64_t *count;    /* a number above 0 */
	int64_t *time_ns;  /* a time (time.h) */
	const char **text; /* as it stands; borrowed */
};

#define SHFS_OPTIONS_MAX 31 /* of one command */

enum shfs_column_kind {
	SHFS_COLUMN_SHORT,
	SHFS_COLUMN_NUMBER, /* at the right */
};

/* A column of the table that a command lists its rows in (query/table/table.h). */
struct shfs_column {
	const char *name; /* as in --json where that has it */
	const char *help; /* one line, no full stop */
	enum shfs_column_kind kind;
};

struct shfs_context; /* what the common options and the environment say */

struct shfs_command {
	const char *name;
	const char *args;        /* "[PATH…]" */
	const char *summary;     /* one line for the list of commands */
	const char *description; /* for --help; may hold newlines */
	struct shfs_option options[SHFS_OPTIONS_MAX + 1]; /* ends with a NULL name */
	const struct shfs_column *columns; /* of --output; ends with a NULL name */
	const char *usual_columns;         /* "id,time" */
	struct {
		int min, max; /* -1: any number */
	} operands;
	int trouble;  /* the exit code where the index cannot be opened; or 0 */
	bool hidden;  /* not in lists: for hooks and completions */
	bool at_once; /* it answers by what is in the index in a moment, and says what is
	                 not */
	bool on_demand; /* contents that only a remote has are fetched when it reads them
	                 */
	bool rest;      /* its options end at the first operand: that is a command line */
	/* With rest: first operands (not behind "--") that are no command line but say
	 * what to do; options may follow them. Where that one goes. */
	const char *const *verbs, **verb;
	bool alone; /* it runs no other program but the pager: so it may not */
	/*
	 * Called for each option in turn whose value goes nowhere by the table; value is
	 * NULL for a flag. Returns 0, or an exit code after it has said what is wrong.
	 * NULL if there are no such options.
	 */
	int (*option)(const struct shfs_option *opt, const char *value);
	/* Called first: do the options and operands go together? Returns an exit code
	 * after it has said what is wrong. May be NULL. */
	int (*check)(struct shfs_context *ctx, int argc);
	/*
	 * One of these, by what it needs; where that cannot be opened, it is not called.
	 * argv holds the operands alone, argv[argc] is NULL. Returns an exit code; with
	 * the index also a negative errno, of which shfs_fail_index tells (of -EIO: main,
	 * if the output failed).
	 */
	int (*run)(struct shfs_context *ctx, int argc, char **argv);
	int (*run_on_store)(struct shfs_context *ctx, struct shfs_store *store, int argc,
	                    char **argv);
	int (*run_on_index)(struct shfs_context *ctx, struct shfs_index *index, int argc,
	                    char **argv);
};

extern const struct shfs_command shfs_cmd_browse, shfs_cmd_bugreport, shfs_cmd_cat,
	shfs_cmd_check, shfs_cmd_clone, shfs_cmd_compare, shfs_cmd_complete,
	shfs_cmd_config, shfs_cmd_diff, shfs_cmd_disable, shfs_cmd_doctor,
	shfs_cmd_enable, shfs_cmd_export, shfs_cmd_fetch, shfs_cmd_forget, shfs_cmd_gc,
	shfs_cmd_help, shfs_cmd_history, shfs_cmd_impact, shfs_cmd_import,
	shfs_cmd_ingest, shfs_cmd_init, shfs_cmd_log, shfs_cmd_map, shfs_cmd_mount,
	shfs_cmd_note, shfs_cmd_prompt, shfs_cmd_prune, shfs_cmd_publish, shfs_cmd_pull,
	shfs_cmd_push, shfs_cmd_record, shfs_cmd_reindex, shfs_cmd_remote,
	shfs_cmd_repair, shfs_cmd_rerun, shfs_cmd_restore, shfs_cmd_run, shfs_cmd_search,
	shfs_cmd_select, shfs_cmd_serve, shfs_cmd_show, shfs_cmd_stale, shfs_cmd_stats,
	shfs_cmd_status, shfs_cmd_sync, shfs_cmd_try, shfs_cmd_umount, shfs_cmd_undelete,
	shfs_cmd_undo, shfs_cmd_web, shfs_cmd_why;

/* The option of commands that can ask a team's database, and its value. */
extern const char *shfs_db_url;
#define SHFS_DB_OPTION                                                                   \
	{                                                                                \
		"db", 0, "URL", "ask a team's database: what others have shared",        \
			.text = &shfs_db_url                                             \
	}

/* The option of commands with columns, and its value. */
extern const char *shfs_output_columns;
#define SHFS_OUTPUT_OPTION                                                               \
	{                                                                                \
		"output", 'o', "COLUMNS",                                                \
			"a table of these, with commas; +COLUMN adds one",               \
			.text = &shfs_output_columns                                     \
	}

/* --- the context --- */

/* Each of these opens on first use and keeps the result until the program ends. On
 * failure it prints one line that says what to do, sets *code to the exit code and
 * returns NULL. */

struct shfs_store *shfs_context_store(struct shfs_context *ctx, bool create, int *code);
/* The trees of the store (store/trees.h), borrowed. NULL: there is no store, or they
 * cannot be read. */
const struct shfs_trees *shfs_context_trees(void);

/* The index, after the user's live mounts were asked to flush (bounded) and the journal
 * was ingested: an answer is never stale. A command that is at_once waits for that for
 * 0.2 s (SHFS_INDEX_WAIT), and says if something is missing then. */
struct shfs_index *shfs_context_index(struct shfs_context *ctx, int *code);

/* The store of the index that is open. */
struct shfs_store *shfs_context_opened(struct shfs_context *ctx);

const struct shfs_config *shfs_context_config(struct shfs_context *ctx, int *code);

/* The path of the store, whether it exists or not; borrowed. */
const char *shfs_context_store_path(struct shfs_context *ctx);

bool shfs_context_color(struct shfs_context *ctx); /* of standard output, with NO_COLOR */
bool shfs_context_screen_color(struct shfs_context *ctx); /* of the terminal */

/* Sends standard output through the pager if it is a terminal (as git: $SHFS_PAGER,
 * config, $PAGER, less; LESS=FRX where unset; --no-pager). Call before the first output.
 */
void shfs_context_pager(struct shfs_context *ctx);

/* From now on no program but the pager can be run: the input may be a stranger's, so call
 * it before reading that. Goes on if the filter (recording/sandbox.h) is not
 * available. */
void shfs_context_alone(struct shfs_context *ctx);

/*
 * --- messages: "shfs: ..." on standard error; user bytes are escaped by the caller ---
 */

void shfs_error(const char *fmt, ...) _printf_(1, 2);
/* From now on shfs_error warns, or not any more: this process may succeed otherwise. */
void shfs_soften_errors(bool soften);
/* Prints "out of memory"; or, if a path was NULL for that reason, why there is no current
 * directory. */
void shfs_no_memory(void);
void shfs_warn(const char *fmt, ...) _printf_(1, 2);
void shfs_hint(const char *fmt, ...) _printf_(1, 2); /* "  hint: ..." */

/* Asks on standard error; does the answer begin with a y? */
bool shfs_ask(const char *question);

/*
 * --- values of options. Each returns an exit code, after it has said what is wrong ---
 */

/* A verb of a command, and how many operands it takes: "a key and a value". */
struct shfs_verb {
	const char *name;
	int min, max;
	const char *wanted;
};

/* Checks the operands of a verb; NULL stands for "list". verbs ends with a NULL name.
 * Returns an exit code after it has said what is wanted. */
int shfs_check_verb(const struct shfs_command *command, const struct shfs_verb *verbs,
                    const char *verb, int argc);

/* "--limit x: not a number above 0" */
int shfs_bad_value(const struct shfs_option *opt, const char *value, const char *wanted);
/* A time (time.h). */
_must_check_ int shfs_time_option(const struct shfs_option *opt, const char *value,
                                  int64_t *ns);
/* A number above 0. */
_must_check_ int shfs_count_option(const struct shfs_option *opt, const char *value,
                                   int64_t *n);
/* Does the path name a descriptor of this process, in /dev or /proc? */
bool shfs_is_descriptor(const char *path);
/* Opens a file for writing; an existing one is not overwritten unless forced. "-" or
 * NULL: standard output. mode: of a new file. */
_must_check_ int shfs_output_option(const char *path, bool force, mode_t mode,
                                    FILE **file);
/* Says why path cannot be written. An exit code. */
_must_check_ int shfs_fail_output(const char *path, int error);
