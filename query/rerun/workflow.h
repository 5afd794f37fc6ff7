/* SPDX-License-Identifier: MIT */
/*
 * workflow.h - the commands that make some versions of files again, as the steps of one
 * run in an empty directory.
 *
 * A step runs a command, with all that it read and wrote, or takes a source: a version
 * without a command that can be run again (its maker is unknown, an editor, shfs, version
 * control, or a command whose text was not kept).
 */
#pragma once

#include "query/graph/upstream.h"
#include "query/history/definitions.h"

#include <string.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

struct shfs_step;

struct shfs_workflow_file {
	struct shfs_version version;
	const char *name;       /* its path below the base; borrowed of version */
	struct shfs_step *step; /* the step that makes or takes it */
	struct shfs_graph_maker *left_by; /* maker of a source, or NULL */
	bool target;
	bool needed; /* a target, or an input of a step */
	bool made;   /* it is in the outputs of its step */
	/* Where its bytes lie now if they are not archived, judged by size and time;
	 * NULL: nowhere. Set by shfs_workflow_find_unarchived. */
	char *lies_at;
	bool along; /* the export takes these along */
	bool taken; /* a step takes it */
	/* set by shfs_workflow_order */
	struct shfs_step *removed_by; /* NULL: it stays */
	struct shfs_step *rival;      /* another step that writes to this path, or NULL */
	size_t id;                    /* index in files of the workflow */
	UT_hash_handle hh;
};

struct shfs_files {
	struct shfs_workflow_file **list; /* borrowed, except those of the workflow */
	size_t n, cap;
};

struct shfs_names {
	char **list;
	size_t n, cap;
};

void shfs_names_clear(struct shfs_names *names);
#define _cleanup_names_ _cleanup_(shfs_names_clear)
/* Adds a copy, unless it is there. */
_must_check_ int shfs_workflow_add_name(struct shfs_names *names, const char *name);

struct shfs_step {
	size_t id; /* index in steps of the workflow */
	/* A step takes this source; NULL: it runs the command of entry. */
	struct shfs_workflow_file *source;
	const struct shfs_entry *entry;
	char *cwd; /* relative to the base; "" is the base */
	struct shfs_command_script script;
	struct shfs_files inputs, outputs;
	struct shfs_names dirs; /* that must exist before, relative to the base */
	/* Steps that come before it, besides the makers of its inputs: they make
	 * directories that it uses. */
	struct shfs_step **after;
	size_t n_after;
	size_t n_left_out; /* inputs in .git and the like */
	/* Files outside of all recorded directories that it uses as an earlier command
	 * has left them. */
	struct shfs_by_way {
		char *path;
		struct shfs_step *left_by; /* NULL: no step leaves it so */
	} * by_way;
	size_t n_by_way, cap_by_way;
	struct shfs_names leaves; /* files outside that it writes, or may write */
	/* set by shfs_workflow_follow */
	struct shfs_names gone;    /* paths of files that were gone by then */
	struct shfs_step **before; /* steps that have to be done before */
	size_t n_before, cap_before;
	bool late;                    /* a source that came after a command was run */
	struct shfs_step_edge *edges; /* to later steps */
	size_t n_waits;               /* edges from steps that have no place yet */
	const struct shfs_step *mark; /* for functions that walk the steps */
};

struct shfs_workflow {
	char *base; /* the directory that the run's empty directory stands for */
	struct shfs_files targets, files;
	struct shfs_names roots; /* the projects that the files are in */
	struct shfs_step **steps;
	size_t n_steps, cap_steps;
	struct shfs_touch *touches; /* reads, writes and removals by steps */
	size_t n_touches, cap_touches;
	struct shfs_workflow_file *table;
	struct shfs_graph *graph;
	struct shfs_index *index;
	bool by_name; /* as in shfs_workflow_new */
	/* The inputs of the steps do not say in which order they can be run. Set by
	 * shfs_workflow_order and shfs_workflow_follow. */
	bool by_order;
};

/* by_name: each path has one content. So a file that a command changed in place (sed -i,
 * >>) is a source, as one that was changed by hand. Commands that left outside of all
 * recorded directories what a step uses are steps, too. */
_must_check_ int shfs_workflow_new(struct shfs_index *index,
                                   const struct shfs_version *targets, size_t n,
                                   bool by_name, struct shfs_workflow **out);
/* The same for a command that the user has named: its last step runs it, and the targets
 * are what it left (there may be none). SHFS_EXIT_REFUSED after a message: its text is
 * not known. -ENOENT. */
_must_check_ int shfs_workflow_new_of_command(struct shfs_index *index,
                                              int64_t command_id,
                                              struct shfs_workflow **out);
void shfs_workflow_free(struct shfs_workflow *wf);

/* The file whose version this is; NULL: the workflow does not have it. */
struct shfs_workflow_file *shfs_workflow_file_of(struct shfs_workflow *wf,
                                                 int64_t version_id);

static inline void shfs_workflow_freep(struct shfs_workflow **wf)
{
	shfs_workflow_free(*wf);
}
#define _cleanup_workflow_ _cleanup_(shfs_workflow_freep)

/*
 * Puts the steps in an order in which they can be run. A step that needs a version comes
 * after its maker, and before a step that overwrites or removes it; else by time. If
 * there is no such order, or a result would be missing at the end: strict:
 * SHFS_EXIT_REFUSED after a message; else the remaining steps go by time.
 */
_must_check_ int shfs_workflow_order(struct shfs_workflow *wf, bool strict);

/* Has each step find what it found then, if the steps run in their order in one
 * directory: a file is taken once more, by a step that is added, or is removed before.
 * Also finds which steps have to come before which, where some run side by side. */
_must_check_ int shfs_workflow_follow(struct shfs_workflow *wf);

/*
 * SHFS_EXIT_REFUSED after a message if a command names its project by an absolute path:
 * run elsewhere, it would use the files there.
 */
_must_check_ int shfs_workflow_check(struct shfs_workflow *wf);

/* Finds where the files lie that are not archived. */
_must_check_ int shfs_workflow_find_unarchived(struct shfs_workflow *wf);

/* Warns of files of the project (scripts, lists) that name it so. */
void shfs_workflow_look_at_contents(struct shfs_workflow *wf, struct shfs_store *store);

/* Does the command have a text in which nothing, with the aliases and functions that it
 * used, waits for a person (an editor) or restores contents (version control, shfs)? */
bool shfs_command_runs_again(const struct shfs_command_row *command,
                             const struct shfs_definitions *definitions);
/* Does the text contain the path, absolute or with a home directory's short form? */
bool shfs_text_names_path(const char *text, const char *path);

/* Shortens the directory base until path is below it. */
void shfs_base_widen(char *base, const char *path);

/* Shows a step in a message: "4f2a91c sort …". */
void shfs_step_show(struct shfs_buf *out, struct shfs_workflow *wf,
                    const struct shfs_step *step);

/* --- between the files workflow*.c --- */

enum shfs_touch_kind {
	SHFS_TOUCH_WRITE,
	SHFS_TOUCH_READ,
	SHFS_TOUCH_REMOVE,
	SHFS_TOUCH_TEMPORARY, /* it was made and removed; without a version */
};

struct shfs_touch {
	char *path;         /* owned; of a directory with a slash at the end */
	int64_t version_id; /* 0: of a directory, or a file outside */
	int64_t at_ns;
	enum shfs_touch_kind kind;
	struct shfs_step *step;
};

/* Copies the path. */
_must_check_ int shfs_workflow_touch(struct shfs_workflow *wf,
                                     const struct shfs_touch *touch);
/* A new step at the end. */
_must_check_ int shfs_workflow_add_step(struct shfs_workflow *wf, struct shfs_step **out);
/* Finds the base: the project of the first target, or a directory that contains all
 * files; and names files, directories of steps and their working directories below it. */
_must_check_ int shfs_workflow_find_base(struct shfs_workflow *wf);
void shfs_step_free_edges(struct shfs_step *step);

static inline bool shfs_touch_is_directory(const struct shfs_touch *touch)
{
	return touch->path[strlen(touch->path) - 1] == '/';
}
