/* SPDX-License-Identifier: MIT */
/* internal.h - a graph in the making: for upstream.c, downstream.c, stale.c and
 * compare.c alone. */
#pragma once

#include "query/graph/graph.h"
#include "query/graph/id-table.h"
#include "store/index/facts.h"

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

struct version_node {
	struct shfs_graph_version v;
	int64_t version_id;
	struct maker_node *input_of; /* the last that it was added to */
	int64_t made_ns; /* when what made it ended; INT64_MIN: not asked yet */
	size_t depth;    /* downstream: makers between it and the target */
};

struct maker_key {
	int64_t id;
	int64_t is_process;
	int64_t job; /* of the command: jobs.c; 0: all that is none */
};

/* A version that a maker read: when first, by time and in the order of the journal. */
struct graph_read {
	int64_t version_id, begin_ns, seq;
	bool told; /* of a job: by who told it what to do, not by itself */
};
struct graph_reads {
	struct graph_read *list;
	size_t n, cap;
};

/* Whose work it is: version control brings back contents that it has kept. */
enum by {
	BY_ANOTHER,
	BY_VERSION_CONTROL,
	BY_SHFS,
};

/* A command, for all of its jobs. */
struct command_node {
	struct shfs_entry entry; /* without its uses */
	bool made;               /* a maker is of it */
};

struct maker_node {
	struct shfs_graph_maker m;
	struct maker_key key;
	struct graph_jobs *jobs; /* of the command; NULL: it has none */
	bool queued;
	struct maker_node *next;  /* in the queue */
	struct graph_reads reads; /* upstream: later ones than were asked for so far */
	bool by_time;             /* they are sorted by it, the last first */
	enum by most;             /* upstream: whose they are */
	bool not_restored;        /* upstream: some of what it made */
	size_t asked_depth;       /* upstream: its depth when it was last asked */
	struct shfs_graph_version *last_made; /* upstream: the last that was looked at */
	struct version_node *last_read; /* downstream: the last that it was added to */
	struct made *results;           /* downstream: what it made, the last first */
	size_t n_results;
	struct gone *gone; /* downstream: which names it removed */
	size_t n_gone;
	bool asked; /* for its inputs, or its results, at least once */
	int64_t since_ns[2];
	size_t reached[2]; /* so many of its results */
	UT_hash_handle hh;
};

struct program {
	int64_t id;
	char *exe;
	enum by by;
	bool looked_for, outside;                  /* no versions of it are known */
	bool builds;                               /* it runs jobs */
	bool listed;                               /* while a list is made */
	bool classified, interactive, interpreter; /* by stale.c */
	UT_hash_handle hh;
};

/* Nodes of versions, which are many. */
struct version_block {
	struct version_block *next;
	size_t n;
	struct version_node nodes[128];
};

struct shfs_graph {
	struct shfs_index *index;
	struct shfs_facts *facts;
	struct shfs_graph_limits limits;
	size_t n_versions, n_makers;
	struct shfs_id_table versions;
	struct version_block *blocks; /* the one that is being filled first */
	struct maker_node *makers;
	struct shfs_id_table jobs, commands; /* by command */
	struct program *programs;
	int64_t last_process; /* that program was last asked for */
	struct program *last_program;
	struct shfs_graph_version *first_version, **last_version;
	struct shfs_graph_maker *first_maker, **last_maker;
	struct shfs_rows *command_rows, *file_rows, *compiled_rows;
	struct shfs_id_table sources; /* python.c's */
	struct graph_reads reads;     /* of the maker that is being asked */
};

/* Accesses that left nothing of what was there. */
#define SHFS_WRITTEN_ANEW (SHFS_ACCESS_TRUNCATED | SHFS_ACCESS_CREATED)

_must_check_ int shfs_graph_new(struct shfs_index *index,
                                const struct shfs_graph_limits *limits,
                                struct shfs_graph **out);

/* --- what is asked of the index; 1, 0: there is none, or a negative errno --- */

_must_check_ int shfs_graph_version(struct shfs_graph *g, int64_t version_id,
                                    struct shfs_version *out);
/* What was found there, but was written again, the same, before anybody had read it, is
 * by who wrote that. shfs_graph_version does it. */
_must_check_ int shfs_graph_attribute(struct shfs_graph *g, struct shfs_version *v);
/* The graph owns it. */
_must_check_ int shfs_graph_command(struct shfs_graph *g, int64_t command_id,
                                    struct command_node **out);
_must_check_ int shfs_graph_program(struct shfs_graph *g, int64_t process_id,
                                    struct program **out);
/* The same by the number of the program. */
_must_check_ int shfs_graph_find_program(struct shfs_graph *g, int64_t program_id,
                                         struct program **out);
/* Whose work a process does; BY_ANOTHER also where it is not known. */
_must_check_ int shfs_graph_by(struct shfs_graph *g, int64_t process_id, enum by *out);

/* What was there before an append, or before some bytes of the file were changed. */
_must_check_ int shfs_graph_past(struct shfs_graph *g, const struct shfs_version *v,
                                 int64_t *version_id);
/* What shfs restored, or version control checked out, is an earlier content again, of the
 * same path if it can be. */
_must_check_ int shfs_graph_restored_from(struct shfs_graph *g,
                                          const struct shfs_version *v,
                                          int64_t *version_id);

/* All of them, process by process; of a job 0, of the whole command. */
_must_check_ int shfs_graph_accesses(struct shfs_graph *g, struct maker_key key,
                                     shfs_access_fn fn, void *arg);
/* Each version once, in the order of first use, by what is at most this. shfs itself
 * reads a file to compare it: that goes into nothing. */
_must_check_ int shfs_graph_reads(struct shfs_graph *g, struct maker_key key,
                                  enum by most, struct graph_reads *out);
void shfs_graph_sort_reads(struct graph_read *list, size_t n);

/* --- the jobs of a build tool --- */

/* The jobs of a command, which the graph owns; NULL where it has none, or in a graph in
 * which commands are whole. */
_must_check_ int shfs_graph_jobs(struct shfs_graph *g, int64_t command_id,
                                 struct graph_jobs **out);
void shfs_graph_jobs_free(struct shfs_graph *g);

/* jobs may be NULL; 0: of none. */
int64_t shfs_graph_job_of(const struct graph_jobs *jobs, int64_t process_id);

/* Is the process a build tool that runs jobs? jobs may be NULL. */
bool shfs_graph_builds(const struct graph_jobs *jobs, int64_t process_id);

/* All of the job, then what those read who told it what to do. */
_must_check_ int shfs_graph_job_accesses(struct shfs_graph *g,
                                         const struct graph_jobs *jobs, int64_t job,
                                         shfs_access_fn fn, void *arg);

/* All jobs of the command that have it for an input, 0 for what is none. */
_must_check_ int shfs_graph_readers(struct shfs_graph *g, int64_t command_id,
                                    const struct shfs_access *a, shfs_id_fn fn,
                                    void *arg);

/* What the job first executed: a process_id. */
int64_t shfs_graph_job_program(const struct graph_jobs *jobs, int64_t job);

/* --- the modules of Python (python.c) --- */

bool shfs_graph_is_compiled(const char *path);
/* 1 and the version of the source that the file stood for at that time; 0: it is not
 * compiled, or there was none. path: NULL where it may be known from before. */
_must_check_ int shfs_graph_compiled_from(struct shfs_graph *g, int64_t file_id,
                                          const char *path, int64_t at_ns,
                                          int64_t *version_id);
/* The files that stand for the one at path. */
_must_check_ int shfs_graph_each_compiled(struct shfs_graph *g, const char *path,
                                          shfs_id_fn fn, void *arg);
/* 1, or 0 where there was none yet. */
_must_check_ int shfs_graph_version_at(struct shfs_graph *g, int64_t file_id,
                                       int64_t at_ns, int64_t *version_id);
void shfs_graph_python_free(struct shfs_graph *g);

/* --- the graph --- */

/* 1 and *out, 0 where there is no such command or process. */
_must_check_ int shfs_graph_maker(struct shfs_graph *g, struct maker_key key,
                                  struct maker_node **out);
/* The maker of v; id 0: nobody. */
_must_check_ int shfs_graph_maker_of(struct shfs_graph *g, const struct shfs_version *v,
                                     struct maker_key *key);

struct version_node *shfs_graph_find(struct shfs_graph *g, int64_t version_id);
/* Takes version over. NULL: no memory. */
struct version_node *shfs_graph_add(struct shfs_graph *g, struct shfs_version *version);
void shfs_graph_attach(struct version_node *node, struct maker_node *m);
_must_check_ int shfs_graph_add_input(struct maker_node *m, struct version_node *node);

bool shfs_graph_is_full(const struct shfs_graph *g);
bool shfs_graph_is_own(const struct maker_node *m, const struct shfs_version *v);
/* Nobody made it, in the time of the maker: a new file that was renamed while it was
 * still open. The record of its writing has the name that it got. */
bool shfs_graph_is_unfinished(const struct maker_node *m, const struct shfs_version *v);
