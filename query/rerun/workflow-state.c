/* SPDX-License-Identifier: MIT */
/* Follows which files each step of a workflow finds if all run in one directory. */
#include "query/rerun/workflow.h"

#include "common/path.h"
#include "common/program.h"

#include <errno.h>

struct place {
	const char *path; /* borrowed from a touch */
	int64_t now;      /* the version that is there; 0: none */
	int64_t since_ns;
	struct shfs_step *writer; /* the last one that wrote or removed it */
	struct shfs_step **readers;
	size_t n_readers, cap_readers;
	const struct shfs_step *checked; /* the last step that was to find a version */
	UT_hash_handle hh;
};

/* A file was removed or renamed, whether by a step or not. */
struct removal {
	int64_t at_ns, n;
	struct place *place;
};

struct follower {
	struct shfs_workflow *wf;
	struct place *table;
	struct removal *removals;
	size_t n_removals, cap_removals, next_removal;
	struct shfs_touch **touches; /* by step */
	struct shfs_step **order;    /* with the steps that are added */
	size_t n, cap;
	struct place **leaving; /* what had been removed before the step */
	size_t n_leaving, cap_leaving;
	struct shfs_step *lister; /* the last one that lists directories */
	bool has_run;             /* a command was run */
};

static int get_place(struct follower *f, const char *path, struct place **out)
{
	HASH_FIND_STR(f->table, path, *out);
	if (*out)
		return 0;
	*out = calloc(1, sizeof(**out));
	if (!*out)
		return -ENOMEM;
	(*out)->path = path;
	HASH_ADD_KEYPTR(hh, f->table, path, strlen(path), *out);
	if ((*out)->hh.tbl)
		return 0;
	free(*out);
	return -ENOMEM;
}

static void follower_clear(struct follower *f)
{
	struct place *place, *next;

	HASH_ITER (hh, f->table, place, next) {
		HASH_DEL(f->table, place);
		free(place->readers);
		free(place);
	}
	free(f->removals);
	free(f->touches);
	free(f->order);
	free(f->leaving);
}

/* --- when files were removed --- */

#define REMOVALS                                                                         \
	"SELECT begin_ns, seen_n FROM v_access WHERE file_id = ?1 AND is_open = 0"       \
	" AND op IN ('unlink', 'rename', 'exchange') AND seen_n IS NOT NULL"

static int compare_removals(const void *a, const void *b)
{
	const struct removal *x = a, *y = b;

	return (x->at_ns > y->at_ns) - (x->at_ns < y->at_ns);
}

static int load_removals(struct follower *f)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open(f->wf->index, REMOVALS, &rows);

	for (size_t i = 0; i < f->wf->files.n && !r; i++) {
		const struct shfs_version *v = &f->wf->files.list[i]->version;
		struct place *place;

		shfs_rows_reset(rows);
		r = shfs_rows_bind_int(rows, 1, v->file_id);
		if (!r)
			r = get_place(f, v->path, &place);
		while (!r && (r = shfs_rows_next(rows)) > 0) {
			if (!MAKE_ROOM(f->removals, f->n_removals, f->cap_removals))
				return -ENOMEM;
			f->removals[f->n_removals++] =
				(struct removal){ shfs_rows_int(rows, 0),
				                  shfs_rows_int(rows, 1), place };
			r = 0;
		}
	}
	if (f->n_removals)
		qsort(f->removals, f->n_removals, sizeof(*f->removals), compare_removals);
	return r;
}

/* Notes what is there and had been removed before the step; or a later version, which no
 * step makes, was removed from there. */
static int note_leaving(struct follower *f, const struct shfs_step *step)
{
	f->n_leaving = 0;
	for (; f->next_removal < f->n_removals; f->next_removal++) {
		struct removal *removal = &f->removals[f->next_removal];
		struct place *place = removal->place;

		if (removal->at_ns > step->entry->command.begin_ns)
			break;
		if ((place->now & UINT32_MAX) > removal->n ||
		    place->since_ns > removal->at_ns)
			continue;
		if (!MAKE_ROOM(f->leaving, f->n_leaving, f->cap_leaving))
			return -ENOMEM;
		f->leaving[f->n_leaving++] = place;
	}
	return 0;
}

/* --- what comes after what --- */

static int come_after(struct shfs_step *step, struct shfs_step *before)
{
	if (!before || before == step || before->mark == step)
		return 0;
	before->mark = step;
	if (!MAKE_ROOM(step->before, step->n_before, step->cap_before))
		return -ENOMEM;
	step->before[step->n_before++] = before;
	return 0;
}

static int read_place(struct place *place, struct shfs_step *step)
{
	if (!MAKE_ROOM(place->readers, place->n_readers, place->cap_readers))
		return -ENOMEM;
	place->readers[place->n_readers++] = step;
	return come_after(step, place->writer);
}

static int write_place(struct place *place, struct shfs_step *step, int64_t now,
                       int64_t since_ns)
{
	int r = come_after(step, place->writer);

	for (size_t i = 0; i < place->n_readers && !r; i++)
		r = come_after(step, place->readers[i]);
	place->n_readers = 0;
	place->writer = step;
	place->now = now;
	place->since_ns = since_ns;
	return r;
}

/* --- who looks at whole directories --- */

#define PROGRAMS                                                                         \
	"SELECT DISTINCT exe FROM v_process WHERE command_id = ?1 AND exe IS NOT NULL"

/* Would a file that comes too early be seen, as the command lists directories? 1 or 0.
 * Listings are not recorded: its text and its programs tell. */
static int lists_directories(struct follower *f, const struct shfs_step *step)
{
	static const char *const names[] = { "find", "ls", "tar",  "rsync", "du",
		                             "zip",  "fd", "tree", "make" };
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r;

	if (!step->entry)
		return 0;
	if (strpbrk(step->script.text.data ?: "", "*?["))
		return 1;
	r = shfs_rows_open_ints(f->wf->index, PROGRAMS,
	                        SHFS_INTS(step->entry->command.command_id), &rows);
	while (!r && (r = shfs_rows_next(rows)) > 0) {
		const char *exe = shfs_rows_text(rows, 0), *slash = strrchr(exe, '/');
		const char *name = slash ? slash + 1 : exe;

		r = 0;
		if (shfs_program_is_one_of(name, strlen(name), names, ARRAY_SIZE(names)))
			return 1;
	}
	return r;
}

/* --- step by step --- */

static int append_step(struct follower *f, struct shfs_step *step)
{
	if (!MAKE_ROOM(f->order, f->n, f->cap))
		return -ENOMEM;
	f->order[f->n++] = step;
	return 0;
}

/* Takes the file again before the step. */
static int take_again(struct follower *f, struct shfs_workflow_file *file,
                      struct place *place)
{
	const char *slash = strrchr(file->name, '/');
	_cleanup_free_ char *dir = strndup(file->name, slash ? slash - file->name : 0);
	struct shfs_step *step;
	int r = dir ? shfs_workflow_add_step(f->wf, &step) : -ENOMEM;

	if (r)
		return r;
	step->source = file;
	file->taken = true;
	step->late = f->has_run;
	r = shfs_workflow_add_name(&step->dirs, dir) ?: append_step(f, step);
	if (!r && f->lister)
		r = come_after(step, f->lister);
	return r ?: write_place(place, step, file->version.version_id, INT64_MIN);
}

/* The step is to find the version. */
static int find_version(struct follower *f, struct shfs_step *step,
                        const struct shfs_touch *touch)
{
	struct shfs_workflow_file *file = shfs_workflow_file_of(f->wf, touch->version_id);
	struct place *place;
	int r = get_place(f, touch->path, &place);

	if (r || (file && file->made && file->step == step))
		return r;
	if (file && place->now != touch->version_id && place->checked != step)
		r = take_again(f, file, place);
	place->checked = step;
	return r ?: read_place(place, step);
}

static int find_all(struct follower *f, struct shfs_step *step,
                    struct shfs_touch *const *touches, size_t n)
{
	int r = 0;

	for (size_t i = 0; i < n && !r; i++) {
		struct place *place;

		if (!shfs_touch_is_directory(touches[i])) {
			if (touches[i]->kind == SHFS_TOUCH_READ ||
			    touches[i]->kind == SHFS_TOUCH_REMOVE)
				r = find_version(f, step, touches[i]);
			continue;
		}
		r = get_place(f, touches[i]->path, &place);
		if (!r && touches[i]->kind == SHFS_TOUCH_READ)
			r = come_after(step, place->writer);
		else if (!r && !place->writer)
			place->writer = step;
	}
	return r;
}

static int leave_all(struct follower *f, struct shfs_step *step,
                     struct shfs_touch *const *touches, size_t n)
{
	int r = 0;

	for (size_t i = 0; i < n && !r; i++) {
		const struct shfs_touch *t = touches[i];
		struct place *place;

		if (t->kind == SHFS_TOUCH_READ || shfs_touch_is_directory(t))
			continue;
		r = get_place(f, t->path, &place);
		if (!r)
			r = write_place(place, step,
			                t->kind == SHFS_TOUCH_WRITE ? t->version_id : 0,
			                t->at_ns);
	}
	return r;
}

/* Has what the step does not look for removed before it. */
static int remove_leaving(struct follower *f, struct shfs_step *step)
{
	int r = 0;

	for (size_t i = 0; i < f->n_leaving && !r; i++) {
		struct place *place = f->leaving[i];

		if (place->checked == step || !place->now)
			continue;
		r = shfs_workflow_add_name(&step->gone,
		                           shfs_path_relative(place->path, f->wf->base));
		if (!r)
			r = write_place(place, step, 0, INT64_MIN);
	}
	return r;
}

static int follow_step(struct follower *f, struct shfs_step *step,
                       struct shfs_touch *const *touches, size_t n)
{
	int r = step->entry ? note_leaving(f, step) : 0;

	step->late = step->source && f->has_run;
	f->has_run |= step->entry != NULL;
	if (!r)
		r = find_all(f, step, touches, n);
	if (!r && step->entry)
		r = remove_leaving(f, step);
	if (!r)
		r = leave_all(f, step, touches, n);
	if (!r && f->lister)
		r = come_after(step, f->lister);
	if (!r)
		r = lists_directories(f, step);
	if (r > 0)
		f->lister = step;
	return r < 0 ? r : append_step(f, step);
}

static int compare_by_step(const void *a, const void *b)
{
	const struct shfs_touch *s = *(struct shfs_touch *const *)a,
				*t = *(struct shfs_touch *const *)b;

	if (s->step->id != t->step->id)
		return s->step->id < t->step->id ? -1 : 1;
	if (s->at_ns != t->at_ns)
		return s->at_ns < t->at_ns ? -1 : 1;
	return (s->kind > t->kind) - (s->kind < t->kind);
}

static int sort_touches(struct follower *f)
{
	size_t n = f->wf->n_touches;

	f->touches = calloc(n + 1, sizeof(struct shfs_touch *));
	if (!f->touches)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		f->touches[i] = &f->wf->touches[i];
	if (n)
		qsort(f->touches, n, sizeof(struct shfs_touch *), compare_by_step);
	return 0;
}

/* Does a step come after another one of which it needs no file? */
static bool needs_order(const struct shfs_step *step)
{
	for (size_t i = 0; i < step->n_before; i++)
		step->before[i]->mark = NULL;
	for (size_t i = 0; i < step->inputs.n; i++)
		step->inputs.list[i]->step->mark = step;
	for (size_t i = 0; i < step->n_after; i++)
		step->after[i]->mark = step;
	for (size_t i = 0; i < step->n_before; i++)
		if (step->before[i]->mark != step)
			return true;
	return step->gone.n;
}

static void renumber_steps(struct follower *f)
{
	struct shfs_workflow *wf = f->wf;

	memcpy(wf->steps, f->order, f->n * sizeof(*f->order));
	for (size_t i = 0; i < wf->n_steps; i++) {
		wf->steps[i]->id = i;
		wf->by_order |= needs_order(wf->steps[i]);
	}
}

int shfs_workflow_follow(struct shfs_workflow *wf)
{
	struct follower f = { .wf = wf };
	size_t n = wf->n_steps, i = 0, end;
	int r = sort_touches(&f);

	if (!r)
		r = load_removals(&f);
	for (size_t k = 0; k < n && !r; k++, i = end) {
		struct shfs_step *step = wf->steps[k];

		for (end = i; end < wf->n_touches && f.touches[end]->step == step;)
			end++;
		r = follow_step(&f, step, f.touches + i, end - i);
	}
	if (!r)
		renumber_steps(&f);
	follower_clear(&f);
	return r;
}
