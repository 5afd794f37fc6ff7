/* SPDX-License-Identifier: MIT */
/*
 * The jobs of a build tool. The recipes that make and similar tools run depend on one
 * another only through files, so each is a maker of its own.
 *
 * A job is a child of the tool, with all its descendants; if a tool runs another tool, a
 * child of the inner one. A later job that changed or moved what the job had made is a
 * further line of the same recipe, and belongs to it.
 *
 * The inputs of a job include what its tool had read itself (the Makefile), or had other
 * programs read before the first recipe made anything ($(shell cat VERSION)). The rest of
 * the command is job 0: it may have used the output of any job.
 */
#include "query/graph/internal.h"

#include <errno.h>
#include <fnmatch.h>
#include <string.h>

/* A program that a process executed; all programs of one process are a task. */
struct job_process {
	struct shfs_process_fact f;
	bool builds;              /* it is a build tool */
	int64_t task;             /* the process_id of its first program */
	int64_t job, tool;        /* process ids, or 0: of no build tool */
	struct job_process *next; /* of the same job; the list begins with its task */
	/* set where a job begins */
	bool makes, makes_anew;
	struct job_process *joined; /* an earlier job that it is a part of */
	/* set where a task begins: processes that inform its jobs */
	int64_t made_ns; /* begin of the first of its jobs that makes anything */
	struct job_process *tellers, *next_teller;
};

struct graph_jobs {
	struct job_process *list; /* programs of a task are adjacent, in order */
	size_t n, cap;
	struct shfs_id_table by_id;
	bool rest_makes; /* job 0 makes something */
};

/* Shared by all commands without a build tool. */
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

/* --- processes to jobs --- */

struct loading {
	struct shfs_graph *g;
	struct graph_jobs *jobs;
	bool builds; /* one of them is a build tool */
};

static int add_job_process(const struct shfs_process_fact *fact, void *arg)
{
	struct loading *l = arg;
	struct graph_jobs *jobs = l->jobs;
	struct program *program;
	int r = shfs_graph_find_program(l->g, fact->program_id, &program);

	if (r < 0)
		return r;
	if (!MAKE_ROOM(jobs->list, jobs->n, jobs->cap))
		return -ENOMEM;
	jobs->list[jobs->n++] = (struct job_process){
		.f = *fact,
		.made_ns = INT64_MAX,
		.builds = r && program->builds,
	};
	l->builds |= r && program->builds;
	return 0;
}

/* Sorts by process, then by program. */
static int compare_processes(const void *a, const void *b)
{
	const struct job_process *x = a, *y = b;

#define COMPARE(member)                                                                  \
	if (x->f.member != y->f.member)                                                  \
	return x->f.member < y->f.member ? -1 : 1
	COMPARE(pid);
	COMPARE(start_ticks);
	COMPARE(first_ns);
	COMPARE(process_id);
#undef COMPARE
	return 0;
}

/* The last program of its parent that began before p; NULL: the parent is not in the
 * list. */
static const struct job_process *find_parent_program(const struct graph_jobs *jobs,
                                                     const struct job_process *p)
{
	size_t low = 0, high = jobs->n; /* the first that is later */

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct job_process *q = &jobs->list[middle];

		if (q->f.pid < p->f.ppid ||
		    (q->f.pid == p->f.ppid && q->f.start_ticks <= p->f.start_ticks))
			low = middle + 1;
		else
			high = middle;
	}
	return low && jobs->list[low - 1].f.pid == p->f.ppid && p->f.ppid != p->f.pid
	               ? &jobs->list[low - 1]
	               : NULL;
}

static struct job_process *find_job_process(const struct graph_jobs *jobs,
                                            int64_t process_id)
{
	return jobs ? shfs_id_table_get(&jobs->by_id, process_id) : NULL;
}

static void find_job(const struct graph_jobs *jobs, struct job_process *p)
{
	const struct job_process *at = p, *parent,
				 *first = find_job_process(jobs, p->task);

	if (first != p) { /* damaged or hostile records may name different parents */
		p->job = first->job;
		p->tool = first->tool;
		return;
	}

	/* or form a circle */
	for (size_t i = 0; i < jobs->n && (parent = find_parent_program(jobs, at)); i++) {
		if (parent->builds) {
			p->job = at->task;
			p->tool = parent->task;
			return;
		}
		at = find_job_process(jobs, parent->task);
	}
}

static int sort_out(struct graph_jobs *jobs)
{
	int r = 0;

	for (size_t i = 0; i < jobs->n && !r; i++) {
		struct job_process *p = &jobs->list[i];

		p->task = i && p[-1].f.pid == p->f.pid &&
		                          p[-1].f.start_ticks == p->f.start_ticks
		                  ? p[-1].task
		                  : p->f.process_id;
		r = shfs_id_table_add(&jobs->by_id, p->f.process_id, p);
	}
	for (size_t i = 0; i < jobs->n && !r; i++)
		find_job(jobs, &jobs->list[i]);
	return r;
}

/* --- jobs of one recipe --- */

struct joining {
	struct graph_jobs *jobs;
	struct shfs_id_table makers; /* by version: the first program of the job that
	                              * made it */
	int64_t process_id;          /* the process of the last look-up; job is its
	                              * result */
	struct job_process *job;
};

/* Keeps the last answer: many accesses in a row are of one process. */
static struct job_process *job_at(struct joining *j, const struct shfs_access *a)
{
	int64_t process_id = a->access_id >> 32;

	if (process_id != j->process_id) {
		j->process_id = process_id;
		j->job =
			find_job_process(j->jobs, shfs_graph_job_of(j->jobs, process_id));
	}
	return j->job;
}

static int note_maker(const struct shfs_access *a, void *arg)
{
	struct joining *j = arg;
	struct job_process *job = job_at(j, a);
	int64_t id = (a->file2_id ?: a->file_id) << 32 | a->made_n;

	if (!a->made_n)
		return 0;
	if (!job) {
		j->jobs->rest_makes = true;
		return 0;
	}
	job->makes = true;
	job->makes_anew |= !a->file2_id && a->flags & SHFS_WRITTEN_ANEW;
	return shfs_id_table_get(&j->makers, id) ? 0
	                                         : shfs_id_table_add(&j->makers, id, job);
}

/* The version that the access changes or moves, or of which its job makes a new version.
 * But many recipes may append a line to the same log. */
static int64_t changed_by(const struct joining *j, const struct shfs_access *a,
                          const struct job_process *job)
{
	int64_t seen = a->file_id << 32 | a->seen_n;

	if (a->file2_id)
		return seen;
	if (a->made_n && !(a->flags & SHFS_WRITTEN_ANEW) && !job->makes_anew)
		return a->file_id << 32 | (a->made_n - 1);
	return a->seen_n && a->flags & SHFS_ACCESS_READ &&
	                       shfs_id_table_get(&j->makers, seen + 1) == job
	               ? seen
	               : 0;
}

static struct job_process *joined(struct job_process *p)
{
	for (; p->joined; p = p->joined)
		if (p->joined->joined)
			p->joined = p->joined->joined;
	return p;
}

static int join_job_by_access(const struct shfs_access *a, void *arg)
{
	struct joining *j = arg;
	struct job_process *job = job_at(j, a);
	struct job_process *other =
		job ? shfs_id_table_get(&j->makers, changed_by(j, a, job)) : NULL;

	if (!other)
		return 0;
	job = joined(job);
	other = joined(other);
	if (job->f.first_ns < other->f.first_ns)
		other->joined = job;
	else if (job != other)
		job->joined = other;
	return 0;
}

static void list_programs(struct graph_jobs *jobs)
{
	for (size_t i = 0; i < jobs->n; i++) {
		struct job_process *p = &jobs->list[i];
		struct job_process *first =
			p->job ? joined(find_job_process(jobs, p->job)) : p;

		if (first == p)
			continue;
		p->job = first->f.process_id;
		p->tool = first->tool;
		first->makes |= p->makes;
		p->next = first->next;
		first->next = p;
	}
}

static int join_jobs_of_command(struct shfs_graph *g, int64_t command_id,
                                struct graph_jobs *jobs)
{
	struct joining j = { .jobs = jobs };
	int r = shfs_facts_of_command(g->facts, command_id, note_maker, &j);

	r = r ? r : shfs_facts_of_command(g->facts, command_id, join_job_by_access, &j);
	free(j.makers.slots);
	list_programs(jobs);
	return r;
}

/* --- processes that inform the jobs --- */

static void add_teller(struct job_process *tool, struct job_process *p)
{
	p->next_teller = tool->tellers;
	tool->tellers = p;
}

static void find_tellers(struct graph_jobs *jobs)
{
	for (size_t i = 0; i < jobs->n; i++) {
		const struct job_process *p = &jobs->list[i];
		struct job_process *tool = find_job_process(jobs, p->tool);

		if (p->f.process_id == p->job && p->makes)
			tool->made_ns = MIN(tool->made_ns, p->f.first_ns);
	}
	for (size_t i = 0; i < jobs->n; i++) {
		struct job_process *p = &jobs->list[i],
				   *job = find_job_process(jobs, p->job);
		struct job_process *tool = find_job_process(jobs, p->tool);

		if (p->builds)
			add_teller(find_job_process(jobs, p->task), p);
		else if (job && !job->makes && job->f.first_ns < tool->made_ns)
			add_teller(tool, p);
	}
}

static int sort_jobs(struct shfs_graph *g, int64_t command_id, struct graph_jobs *jobs)
{
	int r;

	qsort(jobs->list, jobs->n, sizeof(*jobs->list), compare_processes);
	r = sort_out(jobs) ?: join_jobs_of_command(g, command_id, jobs);
	if (!r)
		find_tellers(jobs);
	return r;
}

static int load_jobs(struct shfs_graph *g, int64_t command_id, struct graph_jobs **out)
{
	struct loading l = { .g = g, .jobs = calloc(1, sizeof(*l.jobs)) };
	int r = l.jobs ? shfs_facts_processes(g->facts, command_id, add_job_process, &l)
	               : -ENOMEM;

	if (!r && l.builds)
		r = sort_jobs(g, command_id, l.jobs);
	*out = l.builds ? l.jobs : &none;
	if (l.jobs && (r || !l.builds))
		jobs_free(l.jobs);
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

/* --- questions --- */

int64_t shfs_graph_job_of(const struct graph_jobs *jobs, int64_t process_id)
{
	const struct job_process *p = find_job_process(jobs, process_id);

	return p ? p->job : 0;
}

/* Is it a note of earlier jobs for the tool, about the dependencies between files? The
 * tool reads it to know what to make again, not how. */
static int is_note(struct shfs_graph *g, int64_t file_id)
{
	static const char *const names[] = { "*.d",
		                             "*.dep",
		                             "*.deps",
		                             "*.Po",
		                             "*.Plo",
		                             "*.Tpo",
		                             ".*.cmd",
		                             ".depend",
		                             ".depend.*",
		                             "depend.make",
		                             "compiler_depend.*",
		                             ".ninja_*" };
	_cleanup_free_ char *path = NULL;
	const char *name;
	int r = shfs_facts_path(g->facts, file_id, &path);

	if (r <= 0)
		return r;
	name = strrchr(path, '/') + 1;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (!fnmatch(names[i], name, 0))
			return 1;
	return 0;
}

struct telling {
	struct shfs_graph *g;
	shfs_access_fn fn;
	void *arg;
};

static int pass_access_on(const struct shfs_access *a, void *arg)
{
	struct telling *t = arg;
	int r = is_note(t->g, a->file_id);

	return r ? MIN(r, 0) : t->fn(a, t->arg);
}

int shfs_graph_job_accesses(struct shfs_graph *g, const struct graph_jobs *jobs,
                            int64_t job, shfs_access_fn fn, void *arg)
{
	const struct job_process *first = find_job_process(jobs, job);
	const struct job_process *tool =
		first ? find_job_process(jobs, first->tool) : NULL;
	struct telling telling = { g, fn, arg };
	int r = 0;

	for (const struct job_process *p = first; p && !r; p = p->next)
		r = shfs_facts_of_process(g->facts, p->f.process_id, fn, arg);
	for (size_t i = 0; tool && i < jobs->n;
	     i++, tool = find_job_process(jobs, tool->tool))
		for (const struct job_process *p = tool->tellers; p && !r;
		     p = p->next_teller)
			if (p->job != job)
				r = shfs_facts_of_process(g->facts, p->f.process_id,
				                          pass_access_on, &telling);
	return r;
}

static bool is_below_tool(const struct graph_jobs *jobs, const struct job_process *p,
                          const struct job_process *tool)
{
	for (size_t i = 0; p && i < jobs->n; i++, p = find_job_process(jobs, p->tool))
		if (p->tool == tool->f.process_id)
			return true;
	return false;
}

/* Calls fn for jobs that make something and belong to this tool, or to a tool that it
 * ran. */
static int each_job(const struct graph_jobs *jobs, const struct job_process *tool,
                    shfs_id_fn fn, void *arg)
{
	int r = 0;

	for (size_t i = 0; i < jobs->n && !r; i++) {
		const struct job_process *p = &jobs->list[i];

		if (p->f.process_id == p->job && p->makes && is_below_tool(jobs, p, tool))
			r = fn(p->job, arg);
	}
	return r;
}

static bool is_teller(const struct job_process *tool, const struct job_process *p)
{
	const struct job_process *q = tool ? tool->tellers : NULL;

	while (q && q != p)
		q = q->next_teller;
	return q;
}

bool shfs_graph_builds(const struct graph_jobs *jobs, int64_t process_id)
{
	const struct job_process *p = find_job_process(jobs, process_id);

	return p && p->builds;
}

int shfs_graph_readers(struct shfs_graph *g, int64_t command_id,
                       const struct shfs_access *a, shfs_id_fn fn, void *arg)
{
	const struct job_process *p, *tool;
	struct graph_jobs *jobs;
	int r = shfs_graph_jobs(g, command_id, &jobs);

	if (r || !jobs)
		return r ? r : fn(0, arg);
	p = find_job_process(jobs, a->access_id >> 32);
	r = !p || jobs->rest_makes ? fn(0, arg) : 0;
	if (r || !p)
		return r;
	tool = find_job_process(jobs, p->builds ? p->task : p->tool);
	if (!is_teller(tool, p))
		return p->job ? fn(p->job, arg) : 0;
	r = is_note(g, a->file_id);
	return r ? MIN(r, 0) : each_job(jobs, tool, fn, arg);
}

int64_t shfs_graph_job_program(const struct graph_jobs *jobs, int64_t job)
{
	const struct job_process *p = find_job_process(jobs, job);
	const struct job_process *end = jobs->list + jobs->n;

	/* skip what the tool forked, before that executed anything */
	while (p && p->builds && p + 1 < end && p[1].task == job)
		p++;
	return p ? p->f.process_id : 0;
}
