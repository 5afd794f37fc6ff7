/* SPDX-License-Identifier: MIT */
/*
 * jobs-internal.h - the processes of a command, and what flows between them: only for
 * jobs.c and flows.c.
 */
#pragma once

#include "query/graph/internal.h"

/* A program that a process executed; all programs of one process are a task. */
struct job_program {
	struct shfs_process_fact f;
	bool builds; /* it is a build tool */
	bool launches;
	struct job_task *task;
};

struct job_task {
	struct job_program *programs; /* adjacent, in order */
	size_t n_programs;
	struct job_task *parent; /* NULL: the shell, or one that is not known */
	struct job_task *job;    /* the first task of its job; itself */
	struct job_task *next;   /* of the same job */
	bool builds;             /* one of its programs is a build tool */
	bool launches;           /* its last program is a launcher */
	bool unknown;            /* what its streams are was not seen */
	bool makes, makes_anew;  /* it makes a version; not from an earlier one alone */
	bool makes_below;        /* it or a descendant does */
	bool shares; /* it writes through an open file that the shell itself has, too */
	int64_t made_ns; /* of a build tool: when the first job began that makes anything
	                  */
	bool job_makes;  /* of the first task of a job: one of them makes something */
	uint32_t stamp;  /* of the last search that came to the job */
	uint32_t said;   /* of a build tool: a node for what its jobs said; 0 */
};

/* A flow: the reads of `from` until then went into what `to` makes. */
struct job_flow {
	uint32_t from, to;
	int64_t until_ns;
};

/* The nodes: the shell itself, then the tasks, then pipes and what else passes things
 * on. */
#define NODE_SHELL 0

struct job_node {
	int64_t until_ns; /* of the search with this stamp */
	uint32_t stamp;
	uint32_t first_in,
		first_out; /* in flows, by_source; they end where the next's begin */
	bool queued;
};

struct graph_jobs {
	struct job_program *programs;
	size_t n_programs, cap_programs;
	struct job_task *tasks;
	size_t n_tasks;
	struct shfs_id_table by_id;
	bool rest_makes; /* the shell itself makes something */
	bool builds;     /* one of the tasks is a build tool */
	/* the accesses of the shell itself */
	struct shfs_access *own;
	size_t n_own, cap_own;
	/* of flows.c */
	struct job_flow *flows; /* by `to` */
	size_t n_flows, cap_flows;
	uint32_t *by_source;     /* their places, by `from` */
	struct job_task **tools; /* build tools, in the order of their `said` */
	uint32_t n_tools, first_said;
	size_t n_informing; /* tasks that tell their parent something */
	struct job_node *nodes;
	uint32_t n_nodes, stamp;
	uint32_t *queue, *found; /* found: the nodes of the search so far */
	uint32_t queue_at, n_queued, n_found;
};

static inline uint32_t job_node_of(const struct graph_jobs *jobs,
                                   const struct job_task *task)
{
	return task ? (uint32_t)(task - jobs->tasks) + 1 : NODE_SHELL;
}

static inline struct job_task *job_task_at(const struct graph_jobs *jobs, uint32_t node)
{
	return node && node <= jobs->n_tasks ? &jobs->tasks[node - 1] : NULL;
}

/* The build tool that passes on what comes to the node; NULL: it is another node. */
static inline struct job_task *job_tool_at(const struct graph_jobs *jobs, uint32_t node)
{
	uint32_t n = node - jobs->first_said;

	return node >= jobs->first_said && n < jobs->n_tools ? jobs->tools[n] : NULL;
}

/* The nearest build tool above the task; NULL: there is none. */
static inline struct job_task *job_tool_above(const struct job_task *task)
{
	struct job_task *tool = task->parent;

	while (tool && !tool->builds)
		tool = tool->parent;
	return tool;
}

/* Finds out what flows where. */
_must_check_ int job_flows_load(struct shfs_graph *g, struct graph_jobs *jobs);
void job_flows_free(struct graph_jobs *jobs);

/* A search begins with some nodes, and finds with them in jobs->found those from which
 * something flows into them, each until nodes[].until_ns; or those into which flows what
 * they had read at at_ns. */
void job_search_begin(struct graph_jobs *jobs);
void job_search_add(struct graph_jobs *jobs, uint32_t node, int64_t until_ns);
void job_search_sources(struct graph_jobs *jobs);
void job_search_targets(struct graph_jobs *jobs, int64_t at_ns);
