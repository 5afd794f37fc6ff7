/* SPDX-License-Identifier: MIT */
/* stale-internal.h - runs that made results: only for stale.c and the files
 * whose names begin with stale-. */
#pragma once

#include "query/graph/internal.h"
#include "query/graph/stale.h"

struct run_node {
	struct shfs_stale_run r;
	struct maker_key key;    /* a command, or a job of it */
	struct graph_jobs *jobs; /* of the command; NULL: it has none */
	int64_t until_ns; /* end of the last of its results that were asked about */
	enum { RUN_NEW, RUN_OPEN, RUN_DONE } state;
	size_t n_files;         /* its results */
	size_t at;              /* the input that is being looked at */
	struct run_node *below; /* next on the stack */
	struct run_node *queued;
	/* of the first job of a command: the one that is being looked at; placed: it is
	 * in the order of commands */
	struct run_node *job, *head;
	bool placed;
	UT_hash_handle hh;
};

/* A file. One is looked up for each read, in any order: so a node is two lines of the
 * processor's cache, and what few files have is elsewhere. */
struct file_node {
	struct shfs_stale_file f;
	/* of its latest version */
	int64_t command_id, process_id;
	/* the last run that read it, and the version */
	const struct run_node *reader;
	int64_t made_ns; /* when its run had finished it */
	struct shfs_object_id object;
	uint32_t seen_n;
	struct told *told;           /* NULL: not looked up */
	struct unwatched *unwatched; /* of a file outside or a link; else NULL */
	bool named;                  /* object is set */
	bool known;
	bool asked; /* the caller asked about it */
	bool directory;
	bool bookkeeping; /* in the bookkeeping of a program */
} __attribute__((aligned(128)));
_Static_assert(sizeof(struct file_node) == 128, "there may be a million of them");

/* A file that nothing watches. */
struct unwatched {
	struct shfs_content then; /* its latest version */
	int64_t changed_ns;       /* when it was changed last, as it is now */
};

struct shfs_stale {
	struct shfs_graph *graph;   /* only for its questions to the index */
	struct file_block **blocks; /* NULL: nothing in the block was looked up */
	size_t n_blocks;
	struct path_block *paths; /* of the files; the one that is being filled first */
	struct shfs_buf path;     /* scratch */
	struct run_node *runs;
	struct taken_file *taken;
	struct shfs_stale_run *first, **last;
	int64_t judged; /* the process of the last is_computed */
	bool computes;
	/* of the command that was asked about last: its last result, and when it was made
	 */
	int64_t last_command, last_file, last_made_ns;
};

static inline struct run_node *run_of(struct shfs_stale_run *run)
{
	return run ? container_of(run, struct run_node, r) : NULL;
}

/* Finds the node of a file, or makes it. */
_must_check_ int shfs_stale_file_node(struct shfs_stale *s, int64_t file_id,
                                      struct file_node **out);
/* Sets the path of a node; it lives as long as s. 1, 0 if there is no such file, or
 * -errno. */
_must_check_ int shfs_stale_keep_path(struct shfs_stale *s, int64_t file_id,
                                      struct file_node *f);
/* Frees all nodes and their paths. clear: frees told of each. */
void shfs_stale_files_free(struct shfs_stale *s, void (*clear)(struct file_node *f));

/* Adds what must be run, too; joins the jobs of a command, and puts the commands into an
 * order in which they can be run. */
_must_check_ int shfs_stale_order(struct shfs_stale *s);

/* Did the process compute what it wrote? 1, 0, or a negative errno. */
_must_check_ int shfs_stale_is_computed(struct shfs_stale *s, int64_t process_id,
                                        const struct shfs_command_row *command);

/* Gets what a file outside, or a link, holds now, with a fingerprint as it had then.
 * -errno. */
_must_check_ int shfs_stale_read_now(const char *path, const struct shfs_content *then,
                                     struct shfs_content *out);
