/* SPDX-License-Identifier: MIT */
/* graph-internal.h - a graph in the making: for upstream.c and downstream.c alone. */
#pragma once

#include "query/graph.h"

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

struct version_node {
	struct shfs_graph_version v;
	int64_t version_id;
	struct maker_node *input_of; /* the last that it was added to */
	int64_t made_ns; /* when what made it ended; INT64_MIN: not asked yet */
	size_t depth;    /* downstream: makers between it and the target */
	UT_hash_handle hh;
};

struct maker_key {
	int64_t id;
	int64_t is_process;
};

struct maker_node {
	struct shfs_graph_maker m;
	struct maker_key key;
	bool queued;
	struct maker_node *next;        /* in the queue */
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

#define QUESTIONS_MAX 16

struct shfs_graph {
	struct shfs_index *index;
	struct shfs_graph_limits limits;
	size_t n_versions, n_makers;
	struct version_node *versions;
	struct maker_node *makers;
	struct shfs_graph_version *first_version, **last_version;
	struct shfs_graph_maker *first_maker, **last_maker;
	const char *const *questions; /* each prepared once */
	struct shfs_rows *rows[QUESTIONS_MAX], *makers_rows;
};

/* Is p.exe one of version control, which brings back contents that it has kept; shfs? */
#define SQL_BY_VERSION_CONTROL                                                           \
	"(p.exe GLOB '*/git' OR p.exe GLOB '*/git-*' OR p.exe GLOB '*/hg'"               \
	" OR p.exe GLOB '*/svn')"
#define SQL_BY_SHFS "p.exe GLOB '*/shfs'"

/* v is version ?1. */
#define SQL_IS_V SHFS_SQL_VERSION_OF("v", "?1")
#define SQL_VERSION                                                                      \
	"SELECT" SHFS_VERSION_COLUMNS "FROM v_version WHERE" SHFS_SQL_VERSION("?1")

/* What there is of makers in the views. */
#define SQL_COMMAND "command_id = ?1"
#define SQL_PROCESS "process_id = ?1 AND command_id IS NULL"

/* What was there before an append, or before some bytes of the file were changed; ?2:
 * flags of accesses that left nothing of it. */
#define SQL_PAST                                                                         \
	"SELECT w.version_id FROM v_version v JOIN v_version w"                          \
	" ON w.file_id = v.file_id AND w.n = v.n - 1"                                    \
	" JOIN v_access a ON a.access_id = v.access_id"                                  \
	" WHERE" SQL_IS_V "AND v.source = 'written' AND NOT a.flags & ?2"
#define WRITTEN_ANEW (SHFS_ACCESS_TRUNCATED | SHFS_ACCESS_CREATED)

/* What shfs restored, or version control checked out, is an earlier content again, of the
 * same path if it can be. */
#define SQL_RESTORED                                                                     \
	"SELECT w.version_id FROM v_version v JOIN v_process p USING (process_id)"       \
	" JOIN v_version w ON w.object_key = v.object_key AND w.object = v.object"       \
	" WHERE" SQL_IS_V "AND w.version_id <> ?2 AND w.time_ns <= v.time_ns"            \
	" AND w.process_id IS NOT v.process_id"                                          \
	" AND (" SQL_BY_SHFS " OR " SQL_BY_VERSION_CONTROL ")"                           \
	" ORDER BY w.file_id = v.file_id DESC, w.time_ns, w.version_id LIMIT 1"

/* questions: texts of SQL with at most ?1 and ?2, for shfs_graph_ask; borrowed. NULL: no
 * memory. */
struct shfs_graph *shfs_graph_new(struct shfs_index *index,
                                  const struct shfs_graph_limits *limits,
                                  const char *const *questions);

/* *rows is the question, for one that asks with something else than numbers. */
_must_check_ int shfs_graph_prepare(struct shfs_graph *g, int question,
                                    struct shfs_rows **rows);
/* 1 with *rows at an answer, 0, or a negative errno. *rows is good until the same is
 * asked again. */
_must_check_ int shfs_graph_ask(struct shfs_graph *g, int question, int64_t first,
                                int64_t second, struct shfs_rows **rows);

/* 1 and *out, 0 where there is no such command or process. */
_must_check_ int shfs_graph_maker(struct shfs_graph *g, struct maker_key key,
                                  struct maker_node **out);
/* Who made v; id 0: nobody. */
struct maker_key shfs_graph_maker_of(const struct shfs_version *v);

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
