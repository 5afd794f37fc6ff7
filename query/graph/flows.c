/* SPDX-License-Identifier: MIT */
/*
 * Flows between the processes of a command. A process's results depend on what it has
 * read itself, and on
 *
 * - what its parent had read before it was forked: that decides on its arguments;
 * - what went into the pipes that it reads;
 * - what a child tells it: one that makes nothing and feeds no other tells by its status,
 *   and one whose output nobody else takes may be read by it.
 *
 * Where the other end of a pipe is not seen (a sort between two others touches no file of
 * the project), or what the streams are is not known, all are joined that may be meant: a
 * false dependence is a nuisance, a missing one a lie.
 */
#include "query/graph/jobs-internal.h"

#include "common/fnv.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* --- streams --- */

/* A program's standard streams. A pipe is a number, the same at both ends. */
struct streams {
	int64_t in, out[2];
	char *elsewhere; /* its output is this file outside of the project; or NULL */
};

struct loading {
	struct shfs_graph *g;
	struct graph_jobs *jobs;
	struct shfs_id_table streams;   /* by streams_id */
	struct shfs_id_table pipes;     /* by number: struct pipe_ends */
	struct shfs_id_table temporary; /* files, likewise, by a hash of the name */
	uint32_t others; /* node: between outputs and inputs whose other ends are not seen
	                  */
	uint32_t *
		buses; /* by the node of a parent: passes things to all of its children */
};

struct pipe_ends {
	uint32_t node;
	bool read, written;
};

static int64_t pipe_number(const char *text)
{
	uint32_t inode; /* the kernel's own numbers have no more bits */

	if (sscanf(text, "pipe:[%" SCNu32 "]", &inode) == 1)
		return (int64_t)inode << 1;
	return sscanf(text, "socket:[%" SCNu32 "]", &inode) == 1 ? (int64_t)inode << 1 | 1
	                                                         : 0;
}

/* Is it a file that is none of the project's, where someone else may read it? */
static int is_elsewhere(struct shfs_graph *g, const char *text)
{
	const char *slash = strchr(text, '/'); /* behind the name of a tree */

	return slash && strncmp(slash, "/dev/", 5) != 0 ? shfs_graph_is_outside(g, text)
	                                                : 0;
}

static int parse_streams(struct shfs_graph *g, const struct shfs_buf *text,
                         struct streams *out)
{
	const char *at = text->data, *end = text->data + text->len;
	int r = 0;

	for (int i = 0; i < 3 && at < end && r >= 0; i++, at += strlen(at) + 1) {
		if (i == 0) {
			out->in = pipe_number(at);
			continue;
		}
		out->out[i - 1] = pipe_number(at);
		r = i == 1 ? is_elsewhere(g, at) : 0;
		if (r > 0 && !(out->elsewhere = strdup(at)))
			r = -ENOMEM;
	}
	return MIN(r, 0);
}

static int load_streams(struct loading *l, int64_t id, struct streams *out)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };
	int r = shfs_facts_string(l->g->facts, id, &text);

	if (r >= 0)
		shfs_buf_u8(&text, 0); /* the last one may have no end */
	if (r >= 0 && text.failed)
		r = -ENOMEM;
	if (r > 0)
		text.len--;
	return r > 0 ? parse_streams(l->g, &text, out) : r;
}

static int get_streams(struct loading *l, int64_t id, const struct streams **out)
{
	struct streams *s = id ? shfs_id_table_get(&l->streams, id) : NULL;
	static const struct streams unknown;
	int r;

	*out = s ? s : &unknown;
	if (s || !id)
		return 0;
	s = calloc(1, sizeof(*s));
	r = s ? load_streams(l, id, s) : -ENOMEM;
	if (!r)
		r = shfs_id_table_add(&l->streams, id, s);
	if (r) {
		free(s ? s->elsewhere : NULL);
		free(s);
	} else {
		*out = s;
	}
	return r;
}

static struct pipe_ends *get_pipe(struct loading *l, struct shfs_id_table *table,
                                  int64_t number)
{
	struct pipe_ends *p = shfs_id_table_get(table, number);

	if (p)
		return p;
	p = calloc(1, sizeof(*p));
	if (!p || shfs_id_table_add(table, number, p)) {
		free(p);
		return NULL;
	}
	p->node = l->jobs->n_nodes++;
	return p;
}

/* --- flows --- */

static int add_flow(struct loading *l, uint32_t from, uint32_t to, int64_t until_ns)
{
	struct graph_jobs *jobs = l->jobs;

	if (!MAKE_ROOM(jobs->flows, jobs->n_flows, jobs->cap_flows))
		return -ENOMEM;
	jobs->flows[jobs->n_flows++] = (struct job_flow){ from, to, until_ns };
	return 0;
}

/* Notes the ends of pipes, so that it is known of each whether both are seen. */
static int note_pipes(struct loading *l, const struct job_task *task)
{
	const struct streams *s;
	struct pipe_ends *p = NULL;

	for (size_t i = 0; i < task->n_programs; i++) {
		int r = get_streams(l, task->programs[i].f.streams_id, &s);

		if (r)
			return r;
		if (s->in && !(p = get_pipe(l, &l->pipes, s->in)))
			return -ENOMEM;
		if (s->in)
			p->read = true;
		for (int n = 0; n < 2; n++) {
			if (s->out[n] && !(p = get_pipe(l, &l->pipes, s->out[n])))
				return -ENOMEM;
			if (s->out[n])
				p->written = true;
		}
	}
	return 0;
}

/* Does the parent have the pipe or file, so that the child's is its own, passed on? */
static int is_inherited(struct loading *l, const struct job_task *task, int64_t number,
                        const char *elsewhere)
{
	const struct job_task *parent = task->parent;
	const struct streams *s;

	for (size_t i = 0; parent && i < parent->n_programs; i++) {
		int r = get_streams(l, parent->programs[i].f.streams_id, &s);

		if (r)
			return r;
		if (number ? s->in == number || s->out[0] == number || s->out[1] == number
		           : s->elsewhere && !strcmp(s->elsewhere, elsewhere))
			return 1;
	}
	return 0;
}

/* A task's streams, those of all its programs together. */
struct ends {
	bool to_parent; /* its output goes where only its parent can read it */
	bool to_others, from_others; /* the other end is not seen */
	bool from_parent;            /* its input is its parent's */
	bool feeds;                  /* another one reads its output */
};

static int look_at_output(struct loading *l, const struct job_task *task, int64_t number,
                          struct ends *ends)
{
	struct pipe_ends *p = number ? shfs_id_table_get(&l->pipes, number) : NULL;
	int r;

	if (!p)
		return 0;
	r = add_flow(l, job_node_of(l->jobs, task), p->node, INT64_MAX);
	if (!r && task->said)
		r = add_flow(l, task->said, p->node, INT64_MAX);
	ends->feeds |= p->read;
	if (r || p->read)
		return r;
	ends->to_others = true;
	r = is_inherited(l, task, number, NULL);
	ends->to_parent |= !r;
	return MIN(r, 0);
}

static int look_at_streams(struct loading *l, const struct job_task *task,
                           struct ends *ends)
{
	const struct streams *s;

	for (size_t i = 0; i < task->n_programs; i++) {
		struct pipe_ends *p;
		int r = get_streams(l, task->programs[i].f.streams_id, &s);

		r = r ? r : look_at_output(l, task, s->out[0], ends);
		r = r ? r : look_at_output(l, task, s->out[1], ends);
		if (r)
			return r;
		r = s->elsewhere ? is_inherited(l, task, 0, s->elsewhere) : 1;
		if (r < 0)
			return r;
		ends->to_parent |= !r;
		p = s->in ? shfs_id_table_get(&l->pipes, s->in) : NULL;
		if (!p)
			continue;
		r = add_flow(l, p->node, job_node_of(l->jobs, task), INT64_MAX);
		r = r ? r : is_inherited(l, task, s->in, NULL);
		if (r < 0)
			return r;
		ends->from_parent |= r;
		ends->from_others |= !r && !p->written;
	}
	return 0;
}

/* A name below a directory for temporary files, in an argument as it is, or behind
 * something as "of=" or "-o". */
static const char *temporary_name(const char *argument)
{
	static const char *const directories[] = { "/tmp/", "/var/tmp/", "/dev/shm/" };
	const char *found = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(directories) && !found; i++)
		found = strstr(argument, directories[i]);
	return found;
}

/* The number of a temporary file that children of this parent (its node) name; above 0.
 */
static int64_t hash_name(const char *name, uint32_t parent)
{
	return (int64_t)(shfs_fnv(SHFS_FNV_BEGIN ^ parent, name, strlen(name)) >> 1 | 1);
}

/* Adds flows from and to siblings whose arguments name the same temporary file, which may
 * pass something on. */
static int add_by_arguments(struct loading *l, const struct job_task *task)
{
	const struct job_program *last = &task->programs[task->n_programs - 1];
	uint32_t node = job_node_of(l->jobs, task);
	_cleanup_buf_ struct shfs_buf argv = { 0 };
	int r = shfs_facts_argv(l->g->facts, last->f.process_id, &argv);

	shfs_buf_u8(&argv, 0);
	if (r < 0 || argv.failed)
		return r < 0 ? r : -ENOMEM;
	r = 0;
	for (const char *at = argv.data; at < argv.data + argv.len && !r;
	     at += strlen(at) + 1) {
		const char *name = temporary_name(at);
		const struct pipe_ends *file;

		if (!name)
			continue;
		file = get_pipe(l, &l->temporary,
		                hash_name(name, job_node_of(l->jobs, task->parent)));
		r = file ? add_flow(l, node, file->node, INT64_MAX)
		                    ?: add_flow(l, file->node, node, INT64_MAX)
		         : -ENOMEM;
	}
	return r;
}

/* Passes what the task has read to all children of its parent. */
static int add_to_siblings(struct loading *l, const struct job_task *task)
{
	uint32_t *bus = &l->buses[job_node_of(l->jobs, task->parent)];

	if (!*bus)
		*bus = l->jobs->n_nodes++;
	return add_flow(l, job_node_of(l->jobs, task), *bus, INT64_MAX);
}

/* Does a child of a build tool, which tells nothing by what it makes, tell its tool what
 * to do? Only until the first recipe makes anything. */
static bool informs_tool(const struct job_task *task)
{
	return !task->makes_below && task->programs->f.first_ns < task->parent->made_ns;
}

/* A build tool passes on what the processes below it print: adds that flow. */
static int add_said(struct loading *l, const struct job_task *task)
{
	const struct job_task *tool = job_tool_above(task);
	int r;

	if (!tool)
		return 0;
	r = add_flow(l, job_node_of(l->jobs, task), tool->said, INT64_MAX);
	return r || !task->said ? r : add_flow(l, task->said, tool->said, INT64_MAX);
}

static int add_task_flows(struct loading *l, struct job_task *task)
{
	uint32_t node = job_node_of(l->jobs, task),
		 parent = job_node_of(l->jobs, task->parent);
	bool of_tool = task->parent && task->parent->builds, informs;
	struct ends ends = { 0 };
	int r = look_at_streams(l, task, &ends);

	/* the parent may write into a pipe later */
	if (!r)
		r = add_flow(l, parent, node,
		             task->unknown || ends.from_others || ends.from_parent
		                     ? INT64_MAX
		                     : task->programs->f.first_ns);
	if (!r && task->shares)
		r = add_flow(l, node, NODE_SHELL, INT64_MAX);
	if (!r && task->shares)
		r = add_flow(l, NODE_SHELL, node, INT64_MAX);
	r = r ? r : add_said(l, task);
	if (!r && task->makes_below && !of_tool)
		r = add_by_arguments(l, task);
	if (r)
		return r;
	informs = of_tool ? informs_tool(task)
	                  : task->unknown || ends.to_parent ||
	                            (!task->makes_below && !ends.feeds);
	l->jobs->n_informing += informs;
	if (informs)
		r = add_flow(l, node, parent, INT64_MAX);
	if (r || of_tool)
		return r;
	if (task->unknown || ends.to_parent)
		r = add_to_siblings(l, task);
	if (!r && (task->unknown || ends.to_others))
		r = add_flow(l, node, l->others, INT64_MAX);
	if (!r && (task->unknown || ends.from_others))
		r = add_flow(l, l->others, node, INT64_MAX);
	return r;
}

static int add_buses(struct loading *l)
{
	int r = 0;

	for (size_t i = 0; i < l->jobs->n_tasks && !r; i++) {
		const struct job_task *task = &l->jobs->tasks[i];
		uint32_t bus = l->buses[job_node_of(l->jobs, task->parent)];

		if (bus)
			r = add_flow(l, bus, job_node_of(l->jobs, task), INT64_MAX);
	}
	return r;
}

/* --- the order of flows --- */

static int compare_target(const void *a, const void *b)
{
	const struct job_flow *x = a, *y = b;

	return (x->to > y->to) - (x->to < y->to);
}

static int compare_source(const void *a, const void *b, void *arg)
{
	const struct job_flow *flows = arg;
	uint32_t x = flows[*(const uint32_t *)a].from,
		 y = flows[*(const uint32_t *)b].from;

	return (x > y) - (x < y);
}

static int sort_flows(struct graph_jobs *jobs)
{
	size_t n = jobs->n_flows, in = 0, out = 0;

	jobs->nodes = calloc(jobs->n_nodes + 1, sizeof(*jobs->nodes));
	jobs->queue = calloc(jobs->n_nodes, sizeof(*jobs->queue));
	jobs->found = calloc(jobs->n_nodes, sizeof(*jobs->found));
	jobs->by_source = calloc(MAX(n, (size_t)1), sizeof(*jobs->by_source));
	if (!jobs->nodes || !jobs->queue || !jobs->found || !jobs->by_source)
		return -ENOMEM;
	if (n)
		qsort(jobs->flows, n, sizeof(*jobs->flows), compare_target);
	for (size_t i = 0; i < n; i++)
		jobs->by_source[i] = (uint32_t)i;
	if (n)
		qsort_r(jobs->by_source, n, sizeof(*jobs->by_source), compare_source,
		        jobs->flows);
	for (uint32_t node = 0; node <= jobs->n_nodes; node++) {
		while (in < n && jobs->flows[in].to < node)
			in++;
		while (out < n && jobs->flows[jobs->by_source[out]].from < node)
			out++;
		jobs->nodes[node].first_in = (uint32_t)in;
		jobs->nodes[node].first_out = (uint32_t)out;
	}
	return 0;
}

static int add_tools(struct graph_jobs *jobs)
{
	size_t n = 0;

	for (size_t i = 0; i < jobs->n_tasks; i++)
		n += jobs->tasks[i].builds;
	jobs->tools = calloc(MAX(n, (size_t)1), sizeof(*jobs->tools));
	if (!jobs->tools)
		return -ENOMEM;
	jobs->first_said = jobs->n_nodes;
	for (size_t i = 0; i < jobs->n_tasks; i++)
		if (jobs->tasks[i].builds) {
			jobs->tasks[i].said = jobs->n_nodes++;
			jobs->tools[jobs->n_tools++] = &jobs->tasks[i];
		}
	return 0;
}

int job_flows_load(struct shfs_graph *g, struct graph_jobs *jobs)
{
	struct loading l = { .g = g, .jobs = jobs };
	int r = 0;

	jobs->n_nodes = (uint32_t)jobs->n_tasks + 1;
	l.others = jobs->n_nodes++;
	l.buses = calloc(jobs->n_tasks + 1, sizeof(*l.buses));
	if (!l.buses)
		return -ENOMEM;
	r = add_tools(jobs);
	for (size_t i = 0; i < jobs->n_tasks && !r; i++)
		r = note_pipes(&l, &jobs->tasks[i]);
	for (size_t i = 0; i < jobs->n_tasks && !r; i++)
		r = add_task_flows(&l, &jobs->tasks[i]);
	r = r ? r : add_buses(&l);
	r = r ? r : sort_flows(jobs);
	for (size_t i = 0; l.streams.bits && i < (size_t)1 << l.streams.bits; i++)
		if (l.streams.slots[i].value)
			free(((struct streams *)l.streams.slots[i].value)->elsewhere);
	shfs_id_table_free_values(&l.streams);
	shfs_id_table_free_values(&l.pipes);
	shfs_id_table_free_values(&l.temporary);
	free(l.buses);
	return r;
}

void job_flows_free(struct graph_jobs *jobs)
{
	free(jobs->flows);
	free(jobs->by_source);
	free(jobs->nodes);
	free(jobs->queue);
	free(jobs->found);
	free(jobs->tools);
}

/* --- questions --- */

void job_search_begin(struct graph_jobs *jobs)
{
	jobs->stamp++;
	jobs->n_found = jobs->n_queued = jobs->queue_at = 0;
}

void job_search_add(struct graph_jobs *jobs, uint32_t node, int64_t until_ns)
{
	struct job_node *n = &jobs->nodes[node];

	if (n->stamp != jobs->stamp) {
		*n = (struct job_node){
			.stamp = jobs->stamp,
			.until_ns = INT64_MIN,
			.first_in = n->first_in,
			.first_out = n->first_out,
		};
		jobs->found[jobs->n_found++] = node;
	}
	if (until_ns <= n->until_ns)
		return;
	n->until_ns = until_ns;
	if (n->queued)
		return;
	n->queued = true;
	jobs->queue[(jobs->queue_at + jobs->n_queued++) % jobs->n_nodes] = node;
}

static uint32_t take_node(struct graph_jobs *jobs)
{
	uint32_t node = jobs->queue[jobs->queue_at];

	jobs->queue_at = (jobs->queue_at + 1) % jobs->n_nodes;
	jobs->n_queued--;
	jobs->nodes[node].queued = false;
	return node;
}

/* This ends: until_ns of a node only rises, to the until_ns of one of the flows. */
void job_search_sources(struct graph_jobs *jobs)
{
	while (jobs->n_queued) {
		uint32_t node = take_node(jobs);

		for (uint32_t i = jobs->nodes[node].first_in;
		     i < jobs->nodes[node + 1].first_in; i++)
			job_search_add(jobs, jobs->flows[i].from,
			               MIN(jobs->flows[i].until_ns,
			                   jobs->nodes[node].until_ns));
	}
}

void job_search_targets(struct graph_jobs *jobs, int64_t at_ns)
{
	while (jobs->n_queued) {
		uint32_t node = take_node(jobs);

		for (uint32_t i = jobs->nodes[node].first_out;
		     i < jobs->nodes[node + 1].first_out; i++) {
			const struct job_flow *f = &jobs->flows[jobs->by_source[i]];

			if (f->until_ns >= at_ns)
				job_search_add(jobs, f->to, INT64_MAX);
		}
	}
}
