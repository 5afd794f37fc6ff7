/* SPDX-License-Identifier: MIT */
/*
 * The jobs of a build tool: the recipes that make and its like run know of one another by
 * files alone, so each is a maker of its own. A job is a child of the tool, with all that
 * came of it; where a tool runs another one, a child of the inner one. What is left of
 * the command is job 0: whoever may have had the output of any job.
 */
#include "query/graph-internal.h"
#include "query/program.h"

#include <errno.h>
#include <string.h>

/* A program that a process executed; all those of one process are a task. */
struct job_process {
	int64_t process_id, pid, ppid, start_ticks;
	bool builds;              /* it is a build tool */
	int64_t task;             /* the process_id of its first program */
	int64_t job, tool;        /* such ones, or 0: of no build tool */
	struct job_process *next; /* of the same job; the list begins with its task */
};

struct graph_jobs {
	struct job_process *list; /* tasks stand together, their programs in order */
	size_t n, cap;
	struct shfs_id_table by_id;
	enum { NOT_ASKED, MAKES_NOTHING, MAKES } rest; /* job 0 */
};

/* Of all commands without a build tool. */
static struct graph_jobs none;

static void jobs_free(struct graph_jobs *jobs)
{
	free(jobs->list);
	free(jobs->by_id.slots);
	free(jobs);
}

void shfs_graph_jobs_free(struct shfs_graph *g)
{
	for (size_t i = 0; g->jobs.bits && i < (size_t)1 << g->jobs.bits; i++)
		if (g->jobs.slots[i].value && g->jobs.slots[i].value != &none)
			jobs_free(g->jobs.slots[i].value);
	free(g->jobs.slots);
}

/* --- which process is of which job --- */

/* Those of a command that are build tools. */
struct tools {
	struct shfs_graph *g;
	int64_t *process_ids;
	size_t n, cap;
};

static int add_tool(int64_t process_id, int64_t program_id, int64_t first_ns, void *arg)
{
	struct tools *tools = arg;
	struct program *program;
	int r = shfs_graph_find_program(tools->g, program_id, &program);

	if (r <= 0 || !program->builds)
		return MIN(r, 0);
	if (!MAKE_ROOM(tools->process_ids, tools->n, tools->cap))
		return -ENOMEM;
	tools->process_ids[tools->n++] = process_id;
	return 0;
}

static bool is_tool(const struct tools *tools, int64_t process_id)
{
	for (size_t i = 0; i < tools->n; i++)
		if (tools->process_ids[i] == process_id)
			return true;
	return false;
}

static int load_processes(struct shfs_graph *g, int64_t command_id,
                          const struct tools *tools, struct graph_jobs *jobs)
{
	struct shfs_rows **rows = &g->processes;
	int r = 0;

	if (!*rows)
		r = shfs_rows_open(g->index,
		                   "SELECT process_id, pid, ppid, start_ticks"
		                   " FROM v_process WHERE command_id = ?1"
		                   " ORDER BY pid, start_ticks, first_ns, process_id",
		                   rows);
	if (!r)
		r = shfs_rows_bind_int(*rows, 1, command_id);
	while (!r && (r = shfs_rows_next(*rows)) > 0) {
		if (!MAKE_ROOM(jobs->list, jobs->n, jobs->cap))
			return -ENOMEM;
		jobs->list[jobs->n++] = (struct job_process){
			.process_id = shfs_rows_int(*rows, 0),
			.pid = shfs_rows_int(*rows, 1),
			.ppid = shfs_rows_int(*rows, 2),
			.start_ticks = shfs_rows_int(*rows, 3),
			.builds = is_tool(tools, shfs_rows_int(*rows, 0)),
		};
		r = 0;
	}
	return r;
}

/* The last program of its parent, which began before it; NULL: that is not among them. */
static const struct job_process *parent_of(const struct graph_jobs *jobs,
                                           const struct job_process *p)
{
	size_t low = 0, high = jobs->n; /* the first that lies behind it */

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct job_process *q = &jobs->list[middle];

		if (q->pid < p->ppid ||
		    (q->pid == p->ppid && q->start_ticks <= p->start_ticks))
			low = middle + 1;
		else
			high = middle;
	}
	return low && jobs->list[low - 1].pid == p->ppid && p->ppid != p->pid
	               ? &jobs->list[low - 1]
	               : NULL;
}

static void find_job(const struct graph_jobs *jobs, struct job_process *p)
{
	const struct job_process *at = p, *parent;

	/* hostile records may go round in circles */
	for (size_t i = 0; i < jobs->n && (parent = parent_of(jobs, at)); i++) {
		if (parent->builds) {
			p->job = at->task;
			p->tool = parent->task;
			return;
		}
		at = parent;
	}
}

static int sort_out(struct graph_jobs *jobs)
{
	int r = 0;

	for (size_t i = 0; i < jobs->n && !r; i++) {
		struct job_process *p = &jobs->list[i];

		p->task = i && p[-1].pid == p->pid && p[-1].start_ticks == p->start_ticks
		                  ? p[-1].task
		                  : p->process_id;
		r = shfs_id_table_add(&jobs->by_id, p->process_id, p);
	}
	for (size_t i = 0; i < jobs->n && !r; i++) {
		struct job_process *p = &jobs->list[i], *first;

		find_job(jobs, p);
		first = p->job ? shfs_id_table_get(&jobs->by_id, p->job) : p;
		if (first != p) {
			p->next = first->next;
			first->next = p;
		}
	}
	return r;
}

static int make_jobs(struct shfs_graph *g, int64_t command_id, const struct tools *tools,
                     struct graph_jobs **out)
{
	struct graph_jobs *jobs = calloc(1, sizeof(*jobs));
	int r = jobs ? load_processes(g, command_id, tools, jobs) ?: sort_out(jobs)
	             : -ENOMEM;

	if (!r)
		*out = jobs;
	else if (jobs)
		jobs_free(jobs);
	return r;
}

static int load_jobs(struct shfs_graph *g, int64_t command_id, struct graph_jobs **out)
{
	struct tools tools = { .g = g };
	int r = shfs_facts_processes(g->facts, command_id, add_tool, &tools);

	*out = &none;
	if (!r && tools.n)
		r = make_jobs(g, command_id, &tools, out);
	free(tools.process_ids);
	return r;
}

int shfs_graph_jobs(struct shfs_graph *g, int64_t command_id, struct graph_jobs **out)
{
	struct graph_jobs *jobs;
	int r = 0;

	*out = NULL;
	if (!command_id || g->limits.whole)
		return 0;
	jobs = shfs_id_table_get(&g->jobs, command_id);
	if (!jobs) {
		r = load_jobs(g, command_id, &jobs);
		if (!r)
			r = shfs_id_table_add(&g->jobs, command_id, jobs);
		if (r && jobs != &none)
			jobs_free(jobs);
	}
	*out = r || jobs == &none ? NULL : jobs;
	return r;
}

/* --- what is asked of them --- */

static const struct job_process *find(const struct graph_jobs *jobs, int64_t process_id)
{
	return jobs ? shfs_id_table_get(&jobs->by_id, process_id) : NULL;
}

int64_t shfs_graph_job_of(const struct graph_jobs *jobs, int64_t process_id)
{
	const struct job_process *p = find(jobs, process_id);

	return p ? p->job : 0;
}

/* What tells a build tool what to do. */
static int is_makefile(struct shfs_graph *g, int64_t file_id)
{
	static const char *const names[] = { "[Mm]akefile*", "GNUmakefile*", "*.mk",
		                             "*.ninja" };
	_cleanup_free_ char *path = NULL;
	const char *name;
	int r = shfs_facts_path(g->facts, file_id, &path);

	if (r <= 0)
		return r;
	name = strrchr(path, '/') + 1;
	return shfs_program_is_one_of(name, strlen(name), names, ARRAY_SIZE(names));
}

struct reads {
	struct shfs_graph *g;
	shfs_access_fn fn;
	void *arg;
};

static int read_by_tool(const struct shfs_access *a, void *arg)
{
	struct reads *reads = arg;
	int r = is_makefile(reads->g, a->file_id);

	return r > 0 ? reads->fn(a, reads->arg) : r;
}

int shfs_graph_job_accesses(struct shfs_graph *g, const struct graph_jobs *jobs,
                            int64_t job, shfs_access_fn fn, void *arg)
{
	const struct job_process *first = find(jobs, job), *tool;
	struct reads reads = { g, fn, arg };
	int r = 0;

	for (const struct job_process *p = first; p && !r; p = p->next)
		r = shfs_facts_of_process(g->facts, p->process_id, fn, arg);
	tool = first ? find(jobs, first->tool) : NULL;
	for (const struct job_process *p = tool;
	     p && p < jobs->list + jobs->n && p->task == tool->task && !r; p++)
		r = shfs_facts_of_process(g->facts, p->process_id, read_by_tool, &reads);
	return r;
}

static int makes(const struct shfs_access *a, void *arg)
{
	return a->made_n && !shfs_graph_job_of(arg, a->access_id >> 32);
}

/* Does job 0 make anything? */
static int rest_makes(struct shfs_graph *g, int64_t command_id, struct graph_jobs *jobs)
{
	int r = 0;

	if (jobs->rest == NOT_ASKED) {
		r = shfs_facts_of_command(g->facts, command_id, makes, jobs);
		jobs->rest = r > 0 ? MAKES : MAKES_NOTHING;
	}
	return r < 0 ? r : jobs->rest == MAKES;
}

int shfs_graph_readers(struct shfs_graph *g, int64_t command_id,
                       const struct shfs_access *a, shfs_id_fn fn, void *arg)
{
	struct graph_jobs *jobs;
	const struct job_process *p;
	int r = shfs_graph_jobs(g, command_id, &jobs);

	if (r || !jobs)
		return r ? r : fn(0, arg);
	p = find(jobs, a->access_id >> 32);
	r = rest_makes(g, command_id, jobs);
	r = r > 0 ? fn(0, arg) : r;
	if (!r && p && p->job)
		r = fn(p->job, arg);
	if (r || !p || !p->builds)
		return r;
	r = is_makefile(g, a->file_id);
	for (size_t i = 0; r > 0 && i < jobs->n; i++)
		if (jobs->list[i].tool == p->task &&
		    jobs->list[i].process_id == jobs->list[i].job)
			r = fn(jobs->list[i].job, arg) ?: 1;
	return MIN(r, 0);
}

int64_t shfs_graph_job_program(const struct graph_jobs *jobs, int64_t job)
{
	const struct job_process *p = find(jobs, job);
	const struct job_process *end = jobs->list + jobs->n;

	/* what the tool forked, before that executed anything */
	while (p && p->builds && p + 1 < end && p[1].task == job)
		p++;
	return p ? p->process_id : 0;
}
