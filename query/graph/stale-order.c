/* SPDX-License-Identifier: MIT */
/* In what order commands are to be run again. */
#include "query/graph/stale-internal.h"

#include <errno.h>

/* Adds the makers of inputs that were removed since. */
static void add_needed(struct shfs_stale *s)
{
	struct run_node *queue = NULL;

	for (struct shfs_stale_run *run = s->first; run; run = run->next)
		if (run->stale) {
			struct run_node *node = container_of(run, struct run_node, r);

			node->queued = queue;
			queue = node;
		}
	while (queue) {
		struct run_node *run = queue;

		queue = run->queued;
		for (size_t i = 0; i < run->r.n_inputs; i++) {
			const struct shfs_stale_input *input = &run->r.inputs[i];
			struct run_node *maker = run_of(input->run);

			if (!maker || maker->r.stale || maker->r.needed ||
			    input->file->present)
				continue;
			maker->r.needed = true;
			maker->queued = queue;
			queue = maker;
		}
	}
}

/* Joins the stale jobs of a command: it is run only once. */
static int join_stale_jobs(struct shfs_stale *s)
{
	struct shfs_id_table last = { 0 }; /* the last job of each command */
	int r = 0;

	for (struct shfs_stale_run *run = s->first; run && !r; run = run->next) {
		struct run_node *node = container_of(run, struct run_node, r), *before;

		if (!node->jobs || (!run->stale && !run->needed))
			continue;
		before = shfs_id_table_get(&last, node->key.id);
		if (before) {
			node->head = before->head ?: before;
			before->r.next_job = run;
			run->again = true;
			shfs_id_table_slot(&last, node->key.id)->value = node;
		} else {
			r = shfs_id_table_add(&last, node->key.id, node);
		}
	}
	free(last.slots);
	return r;
}

static bool is_run_again(const struct run_node *run)
{
	return run && (run->r.stale || run->r.needed);
}

/* Finds the next command that made an input of the jobs of this one, and is not in the
 * order yet; NULL: there is none. */
static struct run_node *next_before(struct run_node *top)
{
	for (; top->job;
	     top->job = top->job->r.next_job
	                        ? container_of(top->job->r.next_job, struct run_node, r)
	                        : NULL)
		while (top->job->at < top->job->r.n_inputs) {
			struct run_node *run =
				run_of(top->job->r.inputs[top->job->at++].run);

			if (is_run_again(run) && !(run->head ?: run)->placed)
				return run->head ?: run;
		}
	return NULL;
}

static void begin_placing(struct run_node *run, struct run_node *below)
{
	run->placed = true;
	run->below = below;
	run->job = run;
	for (struct shfs_stale_run *job = &run->r; job; job = job->next_job)
		container_of(job, struct run_node, r)->at = 0;
}

static void append_run(struct shfs_stale *s, struct shfs_stale_run *run)
{
	*s->last = run;
	s->last = &run->next;
}

/* A run and when its command began: a copy, as runs are all over the memory. */
struct begun {
	int64_t begin_ns;
	struct run_node *run;
};

static int compare_begins(const void *left, const void *right)
{
	const struct begun *a = left, *b = right;

	return (a->begin_ns > b->begin_ns) - (a->begin_ns < b->begin_ns);
}

/* Puts each command that is run again, with all of its jobs, behind those that make
 * inputs of any of them; those in a circle come in any order. Else in the order in which
 * they were run: what one overwrites of another's is its own in the end. The other runs
 * follow. */
static int order_commands(struct shfs_stale *s)
{
	_cleanup_free_ struct begun *all = NULL;
	size_t n = 0, i = 0;

	for (const struct shfs_stale_run *run = s->first; run; run = run->next)
		n++;
	all = calloc(n + 1, sizeof(*all));
	if (!all)
		return -ENOMEM;
	for (struct shfs_stale_run *run = s->first; run; run = run->next)
		all[i++] = (struct begun){ run->entry->command.begin_ns, run_of(run) };
	qsort(all, n, sizeof(*all), compare_begins);
	s->last = &s->first;
	for (i = 0; i < n; i++) {
		struct run_node *top = all[i].run, *before;

		if (!is_run_again(top) || top->r.again || top->placed)
			continue;
		begin_placing(top, NULL);
		while (top) {
			before = next_before(top);
			if (before) {
				begin_placing(before, top);
				top = before;
				continue;
			}
			for (struct shfs_stale_run *job = &top->r; job;
			     job = job->next_job)
				append_run(s, job);
			top = top->below;
		}
	}
	for (i = 0; i < n; i++)
		if (!is_run_again(all[i].run))
			append_run(s, &all[i].run->r);
	*s->last = NULL;
	return 0;
}

int shfs_stale_order(struct shfs_stale *s)
{
	int r;

	add_needed(s);
	r = join_stale_jobs(s);
	return r ? r : order_commands(s);
}
