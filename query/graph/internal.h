/* SPDX-License-Identifier: MIT */
/* internal.h - a graph under construction: only for upstream.c, downstream.c, stale.c and
 * compare.c. */
#pragma once

#include "query/graph/graph.h"
#include "query/graph/id-table.h"
#include "store/index/facts.h"

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

struct version_node {
	struct shfs_graph_version v;
	int64_t id;                  /* of its making (makings.c) */
	struct maker_node *input_of; /* the last maker that got it as an input */
	int64_t made_ns; /* when its maker had finished it; INT64_MIN: not looked up
	                  * yet */
	size_t depth;    /* downstream: makers between it and the target */
};

struct maker_key {
	int64_t id;
	int64_t is_process;
	int64_t job; /* of the command (jobs.c); 0: the shell itself, or all of it */
};

static inline bool maker_key_equal(const struct maker_key *a, const struct maker_key *b)
{
	return a->id == b->id && a->is_process == b->is_process && a->job == b->job;
}

/* A version that a maker read: its first read, by time and in the order of the
 * journal. */
struct graph_read {
	int64_t version_id, begin_ns, seq;
	bool told; /* another job, or the shell, read it, and it flowed into this one */
};
struct graph_reads {
	struct graph_read *list;
	size_t n, cap;
};

/* The program behind a read or write: version control restores contents that it has
 * kept. */
enum by {
	BY_ANOTHER,
	BY_VERSION_CONTROL,
	BY_SHFS,
};

/* A command, shared by all of its jobs. */
struct command_node {
	struct shfs_entry entry; /* without its uses */
	bool made;               /* the graph has a maker of it */
};

struct maker_node {
	struct shfs_graph_maker m;
	struct maker_key key;
	struct graph_jobs *jobs; /* of the command; NULL: it has none */
	bool queued;
	struct maker_node *next;  /* in the queue */
	struct graph_reads reads; /* upstream: reads that are too late so far */
	bool by_time;             /* reads are sorted by time, the last first */
	enum by most;             /* upstream: the kinds of programs whose reads count */
	bool not_restored;        /* upstream: some of its results were not restored */
	size_t asked_depth;       /* upstream: its depth when it was expanded last */
	struct shfs_graph_version *last_made;   /* upstream: the last result that was
	                                         * looked at */
	struct shfs_graph_version *last_joined; /* upstream: likewise, of joins */
	struct version_node *last_read; /* downstream: the last version that it was
	                                 * added to as a reader */
	struct made *results;           /* downstream: its results, the last first */
	size_t n_results;
	struct gone *gone; /* downstream: the names that it removed */
	size_t n_gone;
	bool asked; /* its inputs or results were looked up at least once */
	int64_t since_ns[2];
	size_t reached[2]; /* number of results that were looked at */
	UT_hash_handle hh;
};

/* How much the name of a program says of what a job does: shells say least, then those
 * that only move files. */
enum program_says { SAYS_LITTLE, SAYS_SOME, SAYS_MUCH };

struct program {
	int64_t id;
	char *exe;
	enum by by;
	enum program_says says;
	bool drives;              /* it runs programs for work of its own */
	bool looked_for, outside; /* outside: the index has no
	                           * versions of it */
	bool builds;              /* it runs jobs */
	bool launches;            /* shfs_program_is_launcher */
	bool listed;              /* while a list is made */
	bool classified, interactive, interpreter; /* by stale.c */
	UT_hash_handle hh;
};

/* A block of nodes of versions, as there are many. */
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
	struct shfs_id_table versions;      /* by the ids of their makings */
	struct shfs_id_table makings;       /* makings.c's, by file */
	struct shfs_version_fact last_fact; /* that makings.c looked up last */
	struct version_block *blocks; /* the block that is being filled comes first */
	struct maker_node *makers;
	struct shfs_id_table jobs, commands; /* by command */
	struct program *programs;
	int64_t last_process; /* the process whose program was looked up last */
	struct program *last_program;
	struct shfs_graph_version *first_version, **last_version;
	struct shfs_graph_maker *first_maker, **last_maker;
	struct shfs_rows *command_rows, *file_rows, *compiled_rows, *move_rows;
	struct shfs_id_table sources; /* python.c's */
	struct shfs_id_table notes;   /* jobs.c's, by file */
	struct graph_reads reads;     /* of the maker that is being looked up */
	uint64_t hashed_bytes;        /* joins.c's and copied.c's, of files */
	struct shfs_id_table named;   /* passed.c's, by command */
	struct shfs_left *left;       /* likewise, by command and path */
	size_t n_walks;               /* passed.c's, so far */
	char **roots; /* outside.c's: all directories that were recorded */
	size_t n_roots;
};

/* Flags of an access that kept nothing of the earlier content. */
#define SHFS_WRITTEN_ANEW (SHFS_ACCESS_TRUNCATED | SHFS_ACCESS_CREATED)

/* --- questions to the index; 1; 0: there is none; or a negative errno --- */

/* id: of a version, or of a making of one: that is its maker then. */
_must_check_ int shfs_graph_version(struct shfs_graph *g, int64_t id,
                                    struct shfs_version *out);
/* A version may have been found, and then written again with the same content before its
 * first read: its maker is that writer. shfs_graph_version calls this. */
_must_check_ int shfs_graph_attribute(struct shfs_graph *g, struct shfs_version *v);
/* Finds a command; the graph owns it. */
_must_check_ int shfs_graph_command(struct shfs_graph *g, int64_t command_id,
                                    struct command_node **out);
_must_check_ int shfs_graph_program(struct shfs_graph *g, int64_t process_id,
                                    struct program **out);
/* As shfs_graph_program, by the id of the program. */
_must_check_ int shfs_graph_find_program(struct shfs_graph *g, int64_t program_id,
                                         struct program **out);
/* Does the process belong to version control? BY_ANOTHER also if that is unknown. */
_must_check_ int shfs_graph_by(struct shfs_graph *g, int64_t process_id, enum by *out);

/* The version before an append, or before some bytes of the file were changed. */
_must_check_ int shfs_graph_past(struct shfs_graph *g, const struct shfs_version *v,
                                 int64_t *version_id);
/* The earlier version that shfs restored, or version control checked out; one of the same
 * path if there is one. */
_must_check_ int shfs_graph_restored_from(struct shfs_graph *g,
                                          const struct shfs_version *v,
                                          int64_t *version_id);

/* Reads a file of that size, if it is no larger than 16 MiB: 1 and the object with these
 * bytes; 0: there is none (joins.c). */
_must_check_ int shfs_graph_object_of_file(struct shfs_graph *g, const char *path,
                                           uint64_t size, struct shfs_object_id *id);
/* The version elsewhere that v is a copy of, as far as its content tells (joins.c). */
_must_check_ int shfs_graph_joined(struct shfs_graph *g, const struct shfs_version *v,
                                   int64_t *version_id);

/* Calls fn for all accesses, process by process; for job 0, of the whole command. */
_must_check_ int shfs_graph_accesses(struct shfs_graph *g, struct maker_key key,
                                     shfs_access_fn fn, void *arg);
/* Lists each version that was read once, in the order of first use, by programs up to
 * this kind. Reads of shfs itself, for comparing, do not count. */
_must_check_ int shfs_graph_reads(struct shfs_graph *g, struct maker_key key,
                                  enum by most, struct graph_reads *out);
void shfs_graph_sort_reads(struct graph_read *list, size_t n);

/* --- the makings of a version (makings.c) --- */

/* Gets the id of the last making until at_ns; 0, or a negative errno. */
_must_check_ int shfs_graph_making(struct shfs_graph *g, int64_t version_id,
                                   int64_t at_ns, int64_t *id);
/* Gets the version with the maker and the time of this making. */
_must_check_ int shfs_graph_load_making(struct shfs_graph *g, int64_t id,
                                        struct shfs_version_fact *out);
void shfs_graph_makings_free(struct shfs_graph *g);

/* --- the jobs of a command --- */

/* The jobs of a command; the graph owns them. NULL: it has none, or the graph does not
 * split commands. */
_must_check_ int shfs_graph_jobs(struct shfs_graph *g, int64_t command_id,
                                 struct graph_jobs **out);
void shfs_graph_jobs_free(struct shfs_graph *g);

/* jobs may be NULL; 0: it is the shell itself, or the command has no jobs. */
int64_t shfs_graph_job_of(const struct graph_jobs *jobs, int64_t process_id);

/* Calls fn for the processes of the job, as they ended; above: and as they were before,
 * and for those above them. all: where there are no more than that many, for all of the
 * command. */
_must_check_ int shfs_graph_processes(struct shfs_graph *g, struct maker_key key,
                                      bool above, size_t all, shfs_process_fn fn,
                                      void *arg);

/* Does a build tool run the job? */
bool shfs_graph_is_recipe(const struct graph_jobs *jobs, int64_t job);

/* Calls fn for the accesses of the job (0: of the shell itself), then for the reads of
 * others that flowed into it. fn asks nothing about jobs. */
_must_check_ int shfs_graph_job_accesses(struct shfs_graph *g, struct graph_jobs *jobs,
                                         int64_t job, shfs_access_fn fn, void *arg);

/* Calls fn for all jobs of the command that have the access as an input; 0 for the
 * rest. */
_must_check_ int shfs_graph_readers(struct shfs_graph *g, int64_t command_id,
                                    const struct shfs_access *a, shfs_id_fn fn,
                                    void *arg);

/* The program that stands for the job: the first one that makes something, but a shell or
 * what only moves files where there is no other; or the driver that ran it (gcc). */
_must_check_ int shfs_graph_job_program(struct shfs_graph *g,
                                        const struct graph_jobs *jobs, int64_t job,
                                        int64_t *process_id);

/* --- the modules of Python (python.c) --- */

bool shfs_graph_is_compiled(const char *path);
/* 1 and the version of the source that the compiled file was made from at that time; 0:
 * it is not compiled, or it has no source. path: NULL if it may be remembered. */
_must_check_ int shfs_graph_compiled_from(struct shfs_graph *g, int64_t file_id,
                                          const char *path, int64_t at_ns,
                                          int64_t *version_id);
/* Calls fn for the compiled files of the source at path. */
_must_check_ int shfs_graph_each_compiled(struct shfs_graph *g, const char *path,
                                          shfs_id_fn fn, void *arg);
/* 1, or 0 if the file had no version then. */
_must_check_ int shfs_graph_version_at(struct shfs_graph *g, int64_t file_id,
                                       int64_t at_ns, int64_t *version_id);
void shfs_graph_python_free(struct shfs_graph *g);

/* --- files outside of all recorded directories (outside.c) --- */

/* How a process uses such a file, as far as words tell. */
enum outside_as {
	OUTSIDE_INTO, /* a directory that a program may have copied files into */
	OUTSIDE_NAMED,
	OUTSIDE_WORD_OUT, /* named where outputs are: cp x FILE, -o FILE */
	OUTSIDE_STREAM_OUT
};
typedef int (*shfs_outside_fn)(const char *path, enum outside_as as, void *arg);
/* Calls fn for those that the process names, or has as a stream; links: also where links
 * in recorded directories lead. */
_must_check_ int shfs_graph_named(struct shfs_graph *g, const struct shfs_process_fact *p,
                                  bool links, shfs_outside_fn fn, void *arg);
void shfs_graph_outside_free(struct shfs_graph *g);

/* --- what the text of a command tells of such files (words.c) --- */

enum word_role {
	WORD_OTHER = 1,
	WORD_WRITTEN = 2,    /* > FILE */
	WORD_APPENDED = 4,   /* >> FILE */
	WORD_MAY_APPEND = 8, /* >> to a file whose name is not known */
	WORD_CHANGED = 16,   /* by a program that changes, moves or removes files */
};
/* path: absolute; or the last part of the name; or "", if that is not known. */
typedef int (*shfs_word_fn)(const char *path, enum word_role role, void *arg);
/* Calls fn for the words that may name files, in their order. */
_must_check_ int shfs_graph_words(const struct shfs_command_row *command, shfs_word_fn fn,
                                  void *arg);
/* Gets how the text names the path. WORD_OTHER: and not only to look at it. */
_must_check_ int shfs_graph_text_names(const struct shfs_command_row *command,
                                       const char *path, enum word_role *roles);

/* --- what was copied into a directory outside (copied.c) --- */

/* Has the process copied the file to this path outside, in that directory? 1, and the
 * read of the file; 0, or a negative errno. */
_must_check_ int shfs_graph_copied_to(struct shfs_graph *g, int64_t process_id,
                                      const char *dir, const char *path,
                                      struct graph_read *read);

/* --- from command to command by way of such a file (passed.c) --- */

/* Calls fn for each read of an earlier command that went into what the maker makes, with
 * the last file outside that it went through. */
typedef int (*shfs_passed_fn)(const struct graph_read *read, const char *path, void *arg);
_must_check_ int shfs_graph_passed(struct shfs_graph *g, struct maker_key key,
                                   shfs_passed_fn fn, void *arg);
/* Calls fn for each file outside that the maker took from an earlier one of its session:
 * with the one that left it, and the process of that which named it; only: the one read
 * that went into it, or NULL: all of that maker. */
typedef int (*shfs_taken_fn)(const char *path, struct maker_key by, int64_t process_id,
                             const struct graph_read *only, void *arg);
_must_check_ int shfs_graph_taken(struct shfs_graph *g, struct maker_key key,
                                  shfs_taken_fn fn, void *arg);
/* Is the file as the command left it, which has written it: was it changed last while
 * that ran? 1, 0, or a negative errno. */
_must_check_ int shfs_graph_has_left(struct shfs_graph *g, int64_t command_id,
                                     const char *path);
/* Calls fn for the makers that may have taken a file outside that this one left. */
typedef int (*shfs_key_fn)(struct maker_key key, void *arg);
_must_check_ int shfs_graph_takers(struct shfs_graph *g, struct maker_key key,
                                   shfs_key_fn fn, void *arg);
void shfs_graph_passed_free(struct shfs_graph *g);

/* --- the graph --- */

/* 1 and *out, 0 where there is no such command or process. */
_must_check_ int shfs_graph_maker(struct shfs_graph *g, struct maker_key key,
                                  struct maker_node **out);
/* The maker of v; id 0: none. */
_must_check_ int shfs_graph_maker_of(struct shfs_graph *g, const struct shfs_version *v,
                                     struct maker_key *key);

struct version_node *shfs_graph_find(struct shfs_graph *g, int64_t id);
/* Takes ownership of version's contents. id: of its making. NULL: no memory. */
struct version_node *shfs_graph_add(struct shfs_graph *g, int64_t id,
                                    struct shfs_version *version);
void shfs_graph_attach(struct version_node *node, struct maker_node *m);
_must_check_ int shfs_graph_add_input(struct maker_node *m, struct version_node *node);

bool shfs_graph_is_full(const struct shfs_graph *g);
bool shfs_graph_is_own(const struct maker_node *m, const struct shfs_version *v);
/* Is v without a maker because m renamed the new file while it was open? The record of
 * its writing has the new name. */
bool shfs_graph_is_unfinished(const struct maker_node *m, const struct shfs_version *v);
