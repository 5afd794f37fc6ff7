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

struct shfs_stale {
	struct shfs_graph *graph;   /* only for its questions to the index */
	struct file_block **blocks; /* NULL: nothing in the block was looked up */
	size_t n_blocks;
	struct run_node *runs;
	struct taken_file *taken;
	struct shfs_stale_run *first, **last;
	int64_t judged; /* the process of the last is_computed */
	bool computes;
	/* of the command that was asked about last: its last result, and when it was made
	 */
	int64_t last_command, last_file, last_made_ns;
};

static inline struct run_node *run_of(const struct shfs_stale_file *f)
{
	return f->run ? container_of(f->run, struct run_node, r) : NULL;
}

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
