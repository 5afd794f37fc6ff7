/* SPDX-License-Identifier: MIT */
/*
 * The jobs of a command: the processes in it that make something without one another, as
 * the rounds of a loop, what xargs runs, or the recipes of make. Each is a maker of its
 * own; flows.c says what went into it.
 *
 * A task (a process) that makes something belongs to a job with its parent if that has no
 * other child that does, or if the parent may pass something from one to another by files
 * that are not seen, as a compiler does; with an earlier one whose result it changes,
 * moves, or gets by a copy or a temporary file; and with those that write through the
 * same open file. So a job is what one would take for a step. Children of a build tool
 * are always apart from it. What the shell itself makes is job 0. A command whose results
 * all come from one job has none: it is a maker as a whole.
 */
#include "common/program.h"
#include "query/graph/jobs-internal.h"

#include <errno.h>
#include <string.h>

/* Shared by all commands that are not split. */
static struct graph_jobs none;

static void jobs_free(struct graph_jobs *jobs)
{
	job_flows_free(jobs);
	free(jobs->programs);
	free(jobs->tasks);
	free(jobs->own);
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

/* --- programs and tasks --- */

struct loading {
	struct shfs_graph *g;
	struct graph_jobs *jobs;
	struct shfs_id_table makers;  /* by version: struct version_maker */
	struct shfs_id_table removed; /* files: when they were removed last, in us */
	int64_t process_id; /* the process of the last look-up; task is its result */
	struct job_task *task;
};

static int add_job_program(const struct shfs_process_fact *fact, void *arg)
{
	struct loading *l = arg;
	struct graph_jobs *jobs = l->jobs;
	struct program *program;
	int r = shfs_graph_find_program(l->g, fact->program_id, &program);

	if (r < 0)
		return r;
	if (!MAKE_ROOM(jobs->programs, jobs->n_programs, jobs->cap_programs))
		return -ENOMEM;
	jobs->programs[jobs->n_programs++] = (struct job_program){
		.f = *fact,
		.builds = r && program->builds,
		.launches = r && program->launches,
	};
	return 0;
}

/* Sorts by process, then by program. */
static int compare_programs(const void *a, const void *b)
{
	const struct job_program *x = a, *y = b;

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

static bool is_same_task(const struct job_program *a, const struct job_program *b)
{
	return a->f.pid == b->f.pid && a->f.start_ticks == b->f.start_ticks;
}

static int make_tasks(struct graph_jobs *jobs)
{
	int r = 0;

	jobs->tasks = calloc(MAX(jobs->n_programs, (size_t)1), sizeof(*jobs->tasks));
	if (!jobs->tasks)
		return -ENOMEM;
	for (size_t i = 0; i < jobs->n_programs && !r; i++) {
		struct job_program *p = &jobs->programs[i];
		struct job_task *task;

		if (!i || !is_same_task(p - 1, p))
			jobs->tasks[jobs->n_tasks++] = (struct job_task){
				.programs = p,
				.made_ns = INT64_MAX,
			};
		task = &jobs->tasks[jobs->n_tasks - 1];
		task->n_programs++;
		task->builds |= p->builds;
		task->launches = p->launches;
		task->unknown = !p->f.streams_id; /* of the last one */
		jobs->builds |= p->builds;
		task->job = task;
		p->task = task;
		r = shfs_id_table_add(&jobs->by_id, p->f.process_id, p);
	}
	return r;
}

/* The last process with the parent's pid that began before it; NULL: it is not in the
 * list. */
static struct job_task *find_parent_task(const struct graph_jobs *jobs,
                                         const struct shfs_process_fact *f)
{
	size_t low = 0, high = jobs->n_tasks; /* the first that is later */

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct shfs_process_fact *q = &jobs->tasks[middle].programs->f;

		if (q->pid < f->ppid ||
		    (q->pid == f->ppid && q->start_ticks <= f->start_ticks))
			low = middle + 1;
		else
			high = middle;
	}
	return low && jobs->tasks[low - 1].programs->f.pid == f->ppid
	               ? &jobs->tasks[low - 1]
	               : NULL;
}

/* Damaged or hostile records may name parents in a circle: a parent began before, and was
 * seen before. */
static bool may_be_parent(const struct job_task *parent, const struct job_task *child)
{
	const struct shfs_process_fact *p = &parent->programs->f,
				       *c = &child->programs->f;

	if (p->start_ticks != c->start_ticks)
		return p->start_ticks < c->start_ticks;
	return p->first_ns != c->first_ns ? p->first_ns < c->first_ns : parent < child;
}

static void find_parents(struct graph_jobs *jobs)
{
	for (size_t i = 0; i < jobs->n_tasks; i++) {
		struct job_task *task = &jobs->tasks[i];
		struct job_task *parent = find_parent_task(jobs, &task->programs->f);

		if (parent && may_be_parent(parent, task))
			task->parent = parent;
	}
}

static struct job_program *find_job_program(const struct graph_jobs *jobs,
                                            int64_t process_id)
{
	return jobs ? shfs_id_table_get(&jobs->by_id, process_id) : NULL;
}

/* --- what they make --- */

static struct job_task *first_of_job(struct job_task *task)
{
	while (task->job != task)
		task = task->job = task->job->job;
	return task;
}

static void join_tasks(struct job_task *a, struct job_task *b)
{
	a = first_of_job(a);
	b = first_of_job(b);
	if (b->programs->f.first_ns < a->programs->f.first_ns ||
	    (b->programs->f.first_ns == a->programs->f.first_ns && b < a)) {
		struct job_task *later = a;

		a = b;
		b = later;
	}
	a->makes_anew |= b->makes_anew;
	b->job = a;
}

/* Keeps the last answer: many accesses in a row are of one process. */
static struct job_task *task_of_access(struct loading *l, const struct shfs_access *a)
{
	int64_t process_id = a->access_id >> 32;

	if (process_id != l->process_id) {
		const struct job_program *p = find_job_program(l->jobs, process_id);

		l->process_id = process_id;
		l->task = p ? p->task : NULL;
	}
	return l->task;
}

/* The first maker of a version. */
struct version_maker {
	struct job_task *task; /* NULL: the shell itself */
	int64_t begin_us;      /* of its access */
};

/* Notes a writer of the version. An open file may have several: what they write is one.
 */
static int note_version_maker(struct loading *l, int64_t version_id,
                              const struct shfs_access *a, struct job_task *task)
{
	struct version_maker *maker = shfs_id_table_get(&l->makers, version_id);
	int r;

	if (maker && maker->begin_us != a->begin_us)
		return 0;
	if (maker && maker->task && task) {
		join_tasks(maker->task, task);
	} else if (maker && maker->task != task) {
		maker->task = maker->task ? maker->task : task;
		maker->task->shares = true;
	}
	if (maker)
		return 0;
	maker = malloc(sizeof(*maker));
	if (!maker)
		return -ENOMEM;
	*maker = (struct version_maker){ task, a->begin_us };
	r = shfs_id_table_add(&l->makers, version_id, maker);
	if (r)
		free(maker);
	return r;
}

static int add_own_access(struct graph_jobs *jobs, const struct shfs_access *a)
{
	if (!MAKE_ROOM(jobs->own, jobs->n_own, jobs->cap_own))
		return -ENOMEM;
	jobs->own[jobs->n_own++] = *a;
	return 0;
}

static int note_removed(struct loading *l, const struct shfs_access *a)
{
	void *at = (void *)(intptr_t)a->end_us;

	if (!at)
		return 0;
	if (!shfs_id_table_get(&l->removed, a->file_id))
		return shfs_id_table_add(&l->removed, a->file_id, at);
	shfs_id_table_slot(&l->removed, a->file_id)->value = at;
	return 0;
}

static int note_maker(const struct shfs_access *a, void *arg)
{
	struct loading *l = arg;
	struct job_task *task = task_of_access(l, a);
	int r = 0;

	if (a->op == SHFS_OP_UNLINK)
		r = note_removed(l, a);
	if (r || !a->made_n)
		return r;
	l->jobs->rest_makes |= !task;
	if (task) {
		task->makes = true;
		task->makes_anew |= !a->file2_id && a->flags & SHFS_WRITTEN_ANEW;
	}
	return note_version_maker(l, (a->file2_id ?: a->file_id) << 32 | a->made_n, a,
	                          task);
}

static struct job_task *first_maker(const struct loading *l, int64_t version_id)
{
	const struct version_maker *maker = shfs_id_table_get(&l->makers, version_id);

	return maker ? maker->task : NULL;
}

static void note_makers_above(struct graph_jobs *jobs)
{
	for (size_t i = 0; i < jobs->n_tasks; i++) {
		struct job_task *task = jobs->tasks[i].makes ? &jobs->tasks[i] : NULL;

		for (; task && !task->makes_below; task = task->parent)
			task->makes_below = true;
	}
	for (size_t i = 0; i < jobs->n_tasks; i++) {
		const struct job_task *task = &jobs->tasks[i];
		struct job_task *tool = task->parent;

		if (tool && tool->builds && task->makes_below)
			tool->made_ns = MIN(tool->made_ns, task->programs->f.first_ns);
	}
}

/* --- tasks of one job --- */

/* The children of a task, or of the shell, that make something. */
struct family {
	struct job_task *child;   /* the last one; NULL: none yet */
	struct job_task *unknown; /* the last one of which the streams are not known */
	bool apart;               /* they are of several jobs */
};

static bool is_apart(const struct job_task *task)
{
	return !task->makes_below || (task->parent && task->parent->builds);
}

/* Joins what is one step with its parent. families: by the node of the parent. */
static void join_families(struct graph_jobs *jobs, struct family *families)
{
	for (size_t i = 0; i < jobs->n_tasks; i++) {
		struct job_task *task = &jobs->tasks[i], *parent = task->parent;
		struct family *family = &families[job_node_of(jobs, parent)];

		if (is_apart(task))
			continue;
		if (parent && !parent->launches)
			join_tasks(parent, task);
		if (task->unknown && family->unknown)
			join_tasks(family->unknown, task);
		if (task->unknown)
			family->unknown = task;
	}
	for (size_t i = 0; i < jobs->n_tasks; i++) {
		struct job_task *task = &jobs->tasks[i];
		struct family *family = &families[job_node_of(jobs, task->parent)];

		if (is_apart(task))
			continue;
		family->apart |= family->child &&
		                 first_of_job(family->child) != first_of_job(task);
		family->child = task;
	}
	for (size_t i = 0; i < jobs->n_tasks; i++) {
		const struct family *family = &families[i + 1];

		if (family->child && !family->apart)
			join_tasks(&jobs->tasks[i], family->child);
	}
}

/* The recipe that the task is of: what a build tool ran; NULL: none. */
static const struct job_task *recipe_of(const struct job_task *task)
{
	while (task && !(task->parent && task->parent->builds))
		task = task->parent;
	return task;
}

/* Does the version only carry something from its maker to the one that reads it: a file
 * that the command removes again, or a copy, unless that is a recipe of its own? What was
 * moved to its place (sort x > t && mv t y) is a result. */
static int is_passed_on(struct loading *l, const struct shfs_access *a,
                        const struct job_task *maker, const struct job_task *reader)
{
	const struct job_program *last = &maker->programs[maker->n_programs - 1];
	struct program *program;
	const char *name;
	int r;

	if ((intptr_t)shfs_id_table_get(&l->removed, a->file_id) > a->begin_us)
		return 1;
	r = shfs_graph_find_program(l->g, last->f.program_id, &program);
	if (r <= 0)
		return r;
	name = basename(program->exe);
	return shfs_program_is_copier(name, strlen(name)) && strcmp(name, "mv") != 0 &&
	       recipe_of(maker) == recipe_of(reader);
}

/* Gets the version with whose maker the one that accesses it belongs together: that it
 * changes or moves, or of which its job makes a new version; 0. But many jobs may append
 * a line to the same log. task: NULL: the shell itself. */
static int64_t changed_by(const struct loading *l, const struct shfs_access *a,
                          struct job_task *task)
{
	int64_t seen = a->file_id << 32 | a->seen_n;
	struct job_task *job = task ? first_of_job(task) : NULL, *maker;

	if (a->file2_id)
		return seen;
	if (a->made_n && !(a->flags & SHFS_WRITTEN_ANEW) && !(job && job->makes_anew))
		return a->file_id << 32 | (a->made_n - 1);
	if (!a->seen_n || !(a->flags & SHFS_ACCESS_READ) || !job)
		return 0;
	maker = first_maker(l, seen + 1);
	return maker && first_of_job(maker) == job ? seen : 0;
}

static int join_by_access(const struct shfs_access *a, void *arg)
{
	struct loading *l = arg;
	struct job_task *task = task_of_access(l, a);
	struct job_task *maker = first_maker(l, changed_by(l, a, task));
	int r = task ? 0 : add_own_access(l->jobs, a);

	if (r)
		return r;
	if (!maker && a->seen_n && a->flags & SHFS_ACCESS_READ) {
		maker = first_maker(l, a->file_id << 32 | a->seen_n);
		r = maker ? is_passed_on(l, a, maker, task) : 0;
		if (r <= 0)
			return r;
	}
	if (maker && !task)
		maker->shares = true;
	else if (maker && first_of_job(maker) != first_of_job(task))
		join_tasks(maker, task);
	return 0;
}

/* Lists the tasks of each job behind its first. Returns how many jobs make something. */
static size_t list_jobs(struct graph_jobs *jobs)
{
	size_t n = jobs->rest_makes;

	for (size_t i = 0; i < jobs->n_tasks; i++) {
		struct job_task *task = &jobs->tasks[i], *first = first_of_job(task);

		if (task != first) {
			task->next = first->next;
			first->next = task;
		}
		n += task->makes && !first->job_makes;
		first->job_makes |= task->makes;
	}
	return n;
}

static size_t count_makers(const struct graph_jobs *jobs)
{
	size_t n = jobs->rest_makes;

	for (size_t i = 0; i < jobs->n_tasks; i++)
		n += jobs->tasks[i].makes;
	return n;
}

/* Most jobs, times what may have been told to each: so many steps take seconds. */
#define TELLING_MAX 10000000

/* Returns whether the command is split. */
static int split_command(struct loading *l, int64_t command_id)
{
	struct graph_jobs *jobs = l->jobs;
	struct family *families;
	size_t n;
	int r = shfs_facts_of_command(l->g->facts, command_id, note_maker, l);

	if (r || count_makers(jobs) < 2)
		return r;
	note_makers_above(jobs);
	families = calloc(jobs->n_tasks + 1, sizeof(*families));
	if (!families)
		return -ENOMEM;
	join_families(jobs, families);
	free(families);
	r = shfs_facts_of_command(l->g->facts, command_id, join_by_access, l);
	n = r ? 0 : list_jobs(jobs);
	if (n < 2)
		return r;
	r = job_flows_load(l->g, jobs);
	return r ? r : jobs->n_informing + jobs->n_own <= TELLING_MAX / n;
}

static int load_jobs(struct shfs_graph *g, int64_t command_id, struct graph_jobs **out)
{
	struct graph_jobs *jobs = calloc(1, sizeof(*jobs));
	struct loading l = { .g = g, .jobs = jobs, .process_id = -1 };
	int r = jobs ? shfs_facts_processes(g->facts, command_id, add_job_program, &l)
	             : -ENOMEM;

	if (!r && jobs->n_programs) {
		qsort(jobs->programs, jobs->n_programs, sizeof(*jobs->programs),
		      compare_programs);
		r = make_tasks(jobs);
		if (!r)
			find_parents(jobs);
		r = r ? r : split_command(&l, command_id);
	}
	shfs_id_table_free_values(&l.makers);
	free(l.removed.slots);
	*out = r > 0 ? jobs : &none;
	if (jobs && r <= 0)
		jobs_free(jobs);
	return MIN(r, 0);
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

static int64_t id_of_job(const struct job_task *task)
{
	return task ? task->job->programs->f.process_id : 0;
}

int64_t shfs_graph_job_of(const struct graph_jobs *jobs, int64_t process_id)
{
	const struct job_program *p = find_job_program(jobs, process_id);

	return p ? id_of_job(p->task) : 0;
}

static int has_name_of_note(struct shfs_graph *g, int64_t file_id)
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
	return shfs_name_is_one_of(name, names, ARRAY_SIZE(names));
}

/* Is it a note of earlier jobs for the tool, about the dependencies between files? The
 * tool reads it to know what to make again, not how. */
static int is_note(struct shfs_graph *g, int64_t file_id)
{
	static char no, yes; /* the table's values: each file is asked for many times */
	const char *known = shfs_id_table_get(&g->notes, file_id);
	int r;

	if (known)
		return known == &yes;
	r = has_name_of_note(g, file_id);
	return r < 0 ? r : shfs_id_table_add(&g->notes, file_id, r ? &yes : &no) ?: r;
}

/* Passes on what another job, or the shell, read before it flowed into this one. */
struct telling {
	struct shfs_graph *g;
	const struct graph_jobs *jobs;
	int64_t until_ns;
	shfs_access_fn fn;
	void *arg;
};

static int pass_access_on(const struct shfs_access *a, void *arg)
{
	struct telling *t = arg;
	int r;

	if (!(a->flags & SHFS_ACCESS_READ) || shfs_access_begin_ns(a) > t->until_ns)
		return 0;
	r = t->jobs->builds ? is_note(t->g, a->file_id) : 0;
	return r ? MIN(r, 0) : t->fn(a, t->arg);
}

/* Calls fn for the accesses of a task; NULL: of the shell itself. */
static int each_access(struct shfs_graph *g, const struct graph_jobs *jobs,
                       const struct job_task *task, shfs_access_fn fn, void *arg)
{
	int r = 0;

	for (size_t i = 0; task && i < task->n_programs && !r; i++)
		r = shfs_facts_of_process(g->facts, task->programs[i].f.process_id, fn,
		                          arg);
	for (size_t i = 0; !task && i < jobs->n_own && !r; i++)
		r = fn(&jobs->own[i], arg);
	return r;
}

/* Calls fn for the accesses of the job itself, and begins the search with it. */
static int pass_job(struct shfs_graph *g, struct graph_jobs *jobs,
                    const struct job_task *first, shfs_access_fn fn, void *arg)
{
	const struct job_task *task = first;
	int r;

	do {
		job_search_add(jobs, job_node_of(jobs, task), INT64_MAX);
		if (task && task->said)
			job_search_add(jobs, task->said, INT64_MAX);
		r = each_access(g, jobs, task, fn, arg);
		task = task ? task->next : NULL;
	} while (task && !r);
	return r;
}

int shfs_graph_job_accesses(struct shfs_graph *g, struct graph_jobs *jobs, int64_t job,
                            shfs_access_fn fn, void *arg)
{
	const struct job_program *program = find_job_program(jobs, job);
	const struct job_task *first = program ? program->task->job : NULL;
	struct telling t = { .g = g, .jobs = jobs, .fn = fn, .arg = arg };
	int r;

	job_search_begin(jobs);
	r = pass_job(g, jobs, first, fn, arg);
	job_search_sources(jobs);
	for (uint32_t i = 0; i < jobs->n_found && !r; i++) {
		uint32_t node = jobs->found[i];
		const struct job_task *task = job_task_at(jobs, node);

		t.until_ns = jobs->nodes[node].until_ns;
		if (node == NODE_SHELL ? !!first : task && task->job != first)
			r = each_access(g, jobs, task, pass_access_on, &t);
	}
	return r;
}

bool shfs_graph_is_recipe(const struct graph_jobs *jobs, int64_t job)
{
	const struct job_program *p = find_job_program(jobs, job);

	return p && job_tool_above(p->task);
}

/* Calls fn for the jobs that were found, and make something. Returns how many, or what fn
 * returned. */
static int each_found_job(struct graph_jobs *jobs, shfs_id_fn fn, void *arg)
{
	int n = 0, r = 0;

	for (uint32_t i = 0; i < jobs->n_found && !r; i++) {
		struct job_task *task = job_task_at(jobs, jobs->found[i])
		                                ?: job_tool_at(jobs, jobs->found[i]);

		if (jobs->found[i] == NODE_SHELL && jobs->rest_makes) {
			r = fn(0, arg);
			n++;
		} else if (task && task->job->job_makes &&
		           task->job->stamp != jobs->stamp) {
			task->job->stamp = jobs->stamp;
			r = fn(id_of_job(task), arg);
			n++;
		}
	}
	return r ? r : n;
}

int shfs_graph_readers(struct shfs_graph *g, int64_t command_id,
                       const struct shfs_access *a, shfs_id_fn fn, void *arg)
{
	const struct job_program *p;
	struct graph_jobs *jobs;
	int64_t own;
	int r = shfs_graph_jobs(g, command_id, &jobs);

	if (r || !jobs)
		return r ? r : fn(0, arg);
	p = find_job_program(jobs, a->access_id >> 32);
	own = p ? id_of_job(p->task) : 0;
	r = jobs->builds ? is_note(g, a->file_id) : 0;
	if (r)
		return r < 0 ? r : fn(own, arg);
	job_search_begin(jobs);
	job_search_add(jobs, job_node_of(jobs, p ? p->task : NULL), INT64_MAX);
	job_search_targets(jobs, shfs_access_begin_ns(a));
	r = each_found_job(jobs, fn, arg);
	return r ? MIN(r, 0) : fn(own, arg);
}

/* The processes of a job and those above them, each once. */
struct above {
	const struct job_task **list;
	size_t n, cap;
};

static int add_task_above(struct above *a, const struct job_task *task)
{
	for (size_t i = 0; i < a->n; i++)
		if (a->list[i] == task)
			return 0;
	if (!MAKE_ROOM(a->list, a->n, a->cap))
		return -ENOMEM;
	a->list[a->n++] = task;
	return 0;
}

static int each_of_job(const struct graph_jobs *jobs, int64_t job, bool is_above,
                       shfs_process_fn fn, void *arg)
{
	const struct job_program *p = find_job_program(jobs, job);
	struct above above = { 0 };
	int r = 0;

	for (const struct job_task *task = p ? p->task->job : NULL; task && !r;
	     task = task->next)
		for (const struct job_task *t = task; t && !r;
		     t = is_above ? t->parent : NULL)
			r = add_task_above(&above, t);
	for (size_t i = 0; i < above.n && !r; i++) {
		const struct job_task *task = above.list[i];
		size_t k = is_above ? 0 : task->n_programs - 1;

		/* a fork of a shell has the words of its script */
		if (!is_above && task->parent && task->launches)
			continue;
		for (; k < task->n_programs && !r; k++)
			r = fn(&task->programs[k].f, arg);
	}
	free(above.list);
	return r;
}

int shfs_graph_processes(struct shfs_graph *g, struct maker_key key, bool above,
                         size_t all, shfs_process_fn fn, void *arg)
{
	struct shfs_process_fact p = { .process_id = key.id, .outside = true };
	struct graph_jobs *jobs = NULL;
	int r;

	if (key.is_process)
		return fn(&p, arg);
	r = shfs_graph_jobs(g, key.id, &jobs);
	if (r)
		return r;
	if (!jobs)
		return shfs_facts_processes(g->facts, key.id, fn, arg);
	for (size_t i = 0; i < jobs->n_programs && jobs->n_programs <= all && !r; i++)
		r = fn(&jobs->programs[i].f, arg);
	return r || jobs->n_programs <= all ? r
	                                    : each_of_job(jobs, key.job, above, fn, arg);
}

/* The last program of a task; NULL: it is not known. */
static int last_program(struct shfs_graph *g, const struct job_task *task,
                        const struct program **out)
{
	struct program *program = NULL;
	int r = shfs_graph_find_program(g,
	                                task->programs[task->n_programs - 1].f.program_id,
	                                &program);

	*out = r > 0 ? program : NULL;
	return MIN(r, 0);
}

/* Goes up to the driver that ran a task for its own work: from as and ld to gcc. */
static int find_driver(struct shfs_graph *g, const struct job_task **task)
{
	const struct program *program;

	for (const struct job_task *p = (*task)->parent; p; p = p->parent) {
		int r = last_program(g, p, &program);

		if (r || !program || !program->drives)
			return r;
		*task = p;
	}
	return 0;
}

int shfs_graph_job_program(struct shfs_graph *g, const struct graph_jobs *jobs,
                           int64_t job, int64_t *process_id)
{
	const struct job_program *p = find_job_program(jobs, job);
	const struct job_task *best = NULL;
	const struct program *program, *of_best = NULL;
	int r = 0;

	*process_id = job;
	for (const struct job_task *task = p ? p->task->job : NULL; task && !r;
	     task = task->next) {
		enum program_says says, most;

		r = task->makes ? last_program(g, task, &program) : 0;
		if (r || !task->makes)
			continue;
		says = program ? program->says : SAYS_LITTLE;
		most = of_best ? of_best->says : SAYS_LITTLE;
		if (best &&
		    (says < most || (says == most && best->programs->f.first_ns <=
		                                             task->programs->f.first_ns)))
			continue;
		best = task;
		of_best = program;
	}
	if (best && !r)
		r = find_driver(g, &best);
	if (best && !r)
		*process_id = best->programs[best->n_programs - 1].f.process_id;
	return r;
}
