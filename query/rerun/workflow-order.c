/* SPDX-License-Identifier: MIT */
/* The order of the steps of a workflow. */
#include "query/rerun/workflow.h"

#include <errno.h>
#include <string.h>

struct shfs_step_edge {
	struct shfs_step *to;
	const char *path; /* the reason: this file; borrowed from a touch */
	struct shfs_step_edge *next;
};

void shfs_step_free_edges(struct shfs_step *step)
{
	for (struct shfs_step_edge *e = step->edges, *next; e; e = next) {
		next = e->next;
		free(e);
	}
	step->edges = NULL;
}

static int64_t number_of_touch(const struct shfs_touch *t)
{
	return t->version_id & UINT32_MAX;
}

static int compare_touches(const void *a, const void *b)
{
	const struct shfs_touch *s = a, *t = b;
	int r = strcmp(s->path, t->path);

	if (!r)
		r = (number_of_touch(s) > number_of_touch(t)) -
		    (number_of_touch(s) < number_of_touch(t));
	if (!r)
		r = (s->at_ns > t->at_ns) - (s->at_ns < t->at_ns);
	if (!r)
		r = (s->kind > t->kind) - (s->kind < t->kind);
	return r ? r : (s->step->id > t->step->id) - (s->step->id < t->step->id);
}

static int add_edge(const struct shfs_touch *from, const struct shfs_touch *to)
{
	struct shfs_step_edge *edge;

	if (from->step == to->step ||
	    (from->step->edges && from->step->edges->to == to->step))
		return 0;
	edge = malloc(sizeof(*edge));
	if (!edge)
		return -ENOMEM;
	*edge = (struct shfs_step_edge){ to->step, to->path, from->step->edges };
	from->step->edges = edge;
	to->step->n_waits++;
	return 0;
}

/* The end of a group: touches that may come in any order, as they read one version. */
static size_t end_of_group(const struct shfs_workflow *wf, size_t begin, size_t end)
{
	const struct shfs_touch *first = &wf->touches[begin];
	size_t i = begin + 1;

	while (i < end && first->kind == SHFS_TOUCH_READ &&
	       number_of_touch(&wf->touches[i]) == number_of_touch(first) &&
	       wf->touches[i].kind == first->kind)
		i++;
	return i;
}

/* Puts each group after the one before it. */
static int order_path(struct shfs_workflow *wf, size_t begin, size_t end)
{
	size_t old, next;
	int r = 0;

	while (begin < end && wf->touches[begin].kind == SHFS_TOUCH_TEMPORARY)
		begin++;
	old = begin;

	for (size_t now = begin; now < end; old = now, now = next) {
		next = end_of_group(wf, now, end);
		for (size_t i = old; i < now && !r; i++)
			for (size_t k = now; k < next && !r; k++)
				r = add_edge(&wf->touches[i], &wf->touches[k]);
	}
	return r;
}

static int64_t time_of_step(const struct shfs_step *step)
{
	const struct shfs_version *v = step->source ? &step->source->version : NULL;

	return v ? MIN(v->mtime_ns, v->time_ns) : step->entry->command.begin_ns;
}

static bool is_step_before(const struct shfs_step *a, const struct shfs_step *b)
{
	return time_of_step(a) != time_of_step(b) ? time_of_step(a) < time_of_step(b)
	                                          : a->id < b->id;
}

/* Puts the first maker of a directory before all users of it. */
static int order_directory(struct shfs_workflow *wf, size_t begin, size_t end)
{
	struct shfs_touch *maker = &wf->touches[begin];

	for (size_t i = begin; i < end && wf->touches[i].kind == SHFS_TOUCH_WRITE; i++)
		if (is_step_before(wf->touches[i].step, maker->step))
			maker = &wf->touches[i];
	for (size_t i = begin; i < end && maker->kind == SHFS_TOUCH_WRITE; i++) {
		struct shfs_step *step = wf->touches[i].step;
		void *after;
		int r;

		if (wf->touches[i].kind != SHFS_TOUCH_READ || step == maker->step)
			continue;
		after = reallocarray(step->after, step->n_after + 1,
		                     sizeof(*step->after));
		if (!after)
			return -ENOMEM;
		step->after = after;
		step->after[step->n_after++] = maker->step;
		r = add_edge(maker, &wf->touches[i]);
		if (r)
			return r;
	}
	return 0;
}

/* Notes for each version of a path which other step writes there, and which removes
 * it. */
static void note_touches_of_path(struct shfs_workflow *wf, size_t begin, size_t end)
{
	struct shfs_step *first = NULL, *second = NULL;

	for (size_t i = begin; i < end; i++) {
		struct shfs_touch *t = &wf->touches[i];
		struct shfs_workflow_file *file =
			shfs_workflow_file_of(wf, t->version_id);

		if (t->kind == SHFS_TOUCH_REMOVE && file)
			file->removed_by = t->step;
		if (t->kind != SHFS_TOUCH_WRITE)
			continue;
		if (!first)
			first = t->step;
		else if (first != t->step)
			second = t->step;
	}
	for (size_t i = begin; i < end && second; i++) {
		struct shfs_workflow_file *file =
			shfs_workflow_file_of(wf, wf->touches[i].version_id);

		if (file && file->step)
			file->rival = file->step == first ? second : first;
	}
}

/* --- by time, and after dependencies --- */

struct heap {
	struct shfs_step **list;
	size_t n;
};

static void heap_push(struct heap *heap, struct shfs_step *step)
{
	size_t i = heap->n++;

	for (; i && is_step_before(step, heap->list[(i - 1) / 2]); i = (i - 1) / 2)
		heap->list[i] = heap->list[(i - 1) / 2];
	heap->list[i] = step;
}

static struct shfs_step *heap_pop(struct heap *heap)
{
	struct shfs_step *first = heap->list[0], *last = heap->list[--heap->n];
	size_t i = 0, child;

	while ((child = 2 * i + 1) < heap->n) {
		if (child + 1 < heap->n &&
		    is_step_before(heap->list[child + 1], heap->list[child]))
			child++;
		if (!is_step_before(heap->list[child], last))
			break;
		heap->list[i] = heap->list[child];
		i = child;
	}
	heap->list[i] = last;
	return first;
}

/* Reports a circle: each remaining step comes after another one, so walking back leads
 * into it. */
static int say_circle(struct shfs_workflow *wf)
{
	_cleanup_free_ struct shfs_step **before = calloc(wf->n_steps, sizeof(*before));
	_cleanup_buf_ struct shfs_buf shown = { 0 };
	struct shfs_step *step = NULL;
	const struct shfs_step_edge *e;

	if (!before)
		return -ENOMEM;
	for (size_t i = 0; i < wf->n_steps; i++) {
		if (!wf->steps[i]->n_waits)
			continue;
		step = wf->steps[i];
		for (e = step->edges; e; e = e->next)
			before[e->to->id] = step;
	}
	for (size_t i = 0; i < wf->n_steps; i++)
		step = before[step->id];
	for (e = before[step->id]->edges; e->to != step; e = e->next)
		;
	shfs_show_path(&shown, e->path);
	shfs_buf_str(&shown, ": ");
	shfs_step_show(&shown, wf, before[step->id]);
	shfs_buf_str(&shown, " and ");
	shfs_step_show(&shown, wf, step);
	shfs_error(
		"%s cannot be run one after the other: each used a result of the other",
		shown.data ?: "");
	return SHFS_EXIT_REFUSED;
}

static int compare_steps(const void *a, const void *b)
{
	struct shfs_step *const *s = a, *const *t = b;

	return is_step_before(*s, *t) ? -1 : is_step_before(*t, *s);
}

/* Appends the steps that a circle holds up, by time. */
static void append_rest(struct shfs_workflow *wf, struct shfs_step **order, size_t n)
{
	size_t done = n;

	for (size_t i = 0; i < wf->n_steps; i++)
		if (wf->steps[i]->n_waits)
			order[n++] = wf->steps[i];
	qsort(order + done, n - done, sizeof(*order), compare_steps);
}

static int sort_steps(struct shfs_workflow *wf, bool strict)
{
	_cleanup_free_ struct shfs_step **order = calloc(wf->n_steps, sizeof(*order));
	_cleanup_free_ struct shfs_step **waiting = calloc(wf->n_steps, sizeof(*waiting));
	struct heap heap = { waiting, 0 };
	size_t n = 0;

	if (!order || !waiting)
		return -ENOMEM;
	for (size_t i = 0; i < wf->n_steps; i++)
		if (!wf->steps[i]->n_waits)
			heap_push(&heap, wf->steps[i]);
	while (heap.n) {
		struct shfs_step *step = heap_pop(&heap);

		order[n++] = step;
		for (struct shfs_step_edge *e = step->edges; e; e = e->next)
			if (!--e->to->n_waits)
				heap_push(&heap, e->to);
	}
	if (n < wf->n_steps && strict)
		return say_circle(wf);
	wf->by_order |= n < wf->n_steps;
	append_rest(wf, order, n);
	memcpy(wf->steps, order, wf->n_steps * sizeof(*order));
	for (size_t i = 0; i < wf->n_steps; i++)
		wf->steps[i]->id = i;
	return 0;
}

/* --- targets at the end --- */

/* Checks that the last touch of a target's path makes or reads the target. */
static int check_target(struct shfs_workflow *wf, size_t begin, size_t end, bool strict)
{
	struct shfs_touch *last = &wf->touches[end - 1];
	_cleanup_buf_ struct shfs_buf shown = { 0 };

	for (size_t i = begin; i < end; i++) {
		struct shfs_touch *t = &wf->touches[i];
		struct shfs_workflow_file *file =
			shfs_workflow_file_of(wf, t->version_id);

		if (!file || !file->target ||
		    (last->version_id == t->version_id &&
		     last->kind != SHFS_TOUCH_REMOVE))
			continue;
		wf->by_order = true;
		if (!strict)
			continue;
		shfs_show_version(&shown, file->version.path, file->version.n);
		shfs_buf_printf(&shown, " does not exist at the end: it is %s by ",
		                last->kind == SHFS_TOUCH_REMOVE ? "removed"
		                                                : "overwritten");
		shfs_step_show(&shown, wf, last->step);
		shfs_error("%s", shown.data ?: "");
		return SHFS_EXIT_REFUSED;
	}
	return 0;
}

int shfs_workflow_order(struct shfs_workflow *wf, bool strict)
{
	int r = 0;

	qsort(wf->touches, wf->n_touches, sizeof(*wf->touches), compare_touches);
	for (size_t i = 0, end; i < wf->n_touches && !r; i = end) {
		for (end = i + 1; end < wf->n_touches &&
		                  !strcmp(wf->touches[i].path, wf->touches[end].path);)
			end++;
		if (shfs_touch_is_directory(&wf->touches[i])) {
			r = order_directory(wf, i, end);
			continue;
		}
		note_touches_of_path(wf, i, end);
		r = order_path(wf, i, end);
		if (!r)
			r = check_target(wf, i, end, strict);
	}
	return r ? r : sort_steps(wf, strict);
}
