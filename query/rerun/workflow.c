/* SPDX-License-Identifier: MIT */
#include "query/rerun/workflow.h"

#include "common/path.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

/* --- lists --- */

static int files_add(struct shfs_files *files, struct shfs_workflow_file *file)
{
	if (!MAKE_ROOM(files->list, files->n, files->cap))
		return -ENOMEM;
	files->list[files->n++] = file;
	return 0;
}

/* Takes ownership of name; it is freed if it is in the list. */
static int names_add(struct shfs_names *names, char *name)
{
	if (!name)
		return -ENOMEM;
	for (size_t i = 0; i < names->n; i++)
		if (!strcmp(names->list[i], name)) {
			free(name);
			return 0;
		}
	if (!MAKE_ROOM(names->list, names->n, names->cap)) {
		free(name);
		return -ENOMEM;
	}
	names->list[names->n++] = name;
	return 0;
}

int shfs_workflow_add_name(struct shfs_names *names, const char *name)
{
	return names_add(names, strdup(name));
}

void shfs_names_clear(struct shfs_names *names)
{
	for (size_t i = 0; i < names->n; i++)
		free(names->list[i]);
	free(names->list);
}

static void step_free(struct shfs_step *step)
{
	free(step->cwd);
	shfs_command_script_clear(&step->script);
	free(step->after);
	free(step->inputs.list);
	free(step->outputs.list);
	free(step->before);
	shfs_names_clear(&step->dirs);
	shfs_names_clear(&step->gone);
	shfs_names_clear(&step->leaves);
	for (size_t i = 0; i < step->n_by_way; i++)
		free(step->by_way[i].path);
	free(step->by_way);
	shfs_step_free_edges(step);
	free(step);
}

void shfs_workflow_free(struct shfs_workflow *wf)
{
	if (!wf)
		return;
	HASH_CLEAR(hh, wf->table);
	for (size_t i = 0; i < wf->files.n; i++) {
		shfs_version_clear(&wf->files.list[i]->version);
		free(wf->files.list[i]->lies_at);
		free(wf->files.list[i]);
	}
	for (size_t i = 0; i < wf->n_steps; i++)
		step_free(wf->steps[i]);
	for (size_t i = 0; i < wf->n_touches; i++)
		free(wf->touches[i].path);
	free(wf->files.list);
	free(wf->targets.list);
	shfs_names_clear(&wf->roots);
	free(wf->steps);
	free(wf->touches);
	free(wf->base);
	shfs_graph_free(wf->graph);
	free(wf);
}

/* Takes ownership of version's contents. */
static int add_workflow_file(struct shfs_workflow *wf, struct shfs_version *version,
                             struct shfs_workflow_file **out)
{
	struct shfs_workflow_file *file = calloc(1, sizeof(*file));

	if (!file)
		return -ENOMEM;
	if (files_add(&wf->files, file)) {
		free(file);
		return -ENOMEM;
	}
	file->id = wf->files.n - 1;
	file->version = *version;
	version->path = NULL;
	HASH_ADD(hh, wf->table, version.version_id, sizeof(int64_t), file);
	*out = file;
	return file->hh.tbl ? 0 : -ENOMEM;
}

struct shfs_workflow_file *shfs_workflow_file_of(struct shfs_workflow *wf,
                                                 int64_t version_id)
{
	struct shfs_workflow_file *file;

	HASH_FIND(hh, wf->table, &version_id, sizeof(version_id), file);
	return file;
}

static int get_workflow_file(struct shfs_workflow *wf, int64_t version_id,
                             struct shfs_workflow_file **out)
{
	_cleanup_version_ struct shfs_version version = { 0 };
	int r;

	*out = shfs_workflow_file_of(wf, version_id);
	if (*out)
		return 0;
	r = shfs_version_load(wf->index, version_id, &version);
	if (r > 0)
		r = shfs_upstream_attribute(wf->graph, &version) ?: 1;
	if (r > 0)
		return add_workflow_file(wf, &version, out);
	return r ? r : -ENOENT;
}

int shfs_workflow_touch(struct shfs_workflow *wf, const struct shfs_touch *touch)
{
	struct shfs_touch *t;

	if (!MAKE_ROOM(wf->touches, wf->n_touches, wf->cap_touches))
		return -ENOMEM;
	t = &wf->touches[wf->n_touches];
	*t = *touch;
	t->path = strdup(touch->path);
	wf->n_touches += t->path != NULL;
	return t->path ? 0 : -ENOMEM;
}

static int add_touch(struct shfs_workflow *wf, struct shfs_step *step,
                     const struct shfs_version *version, enum shfs_touch_kind kind,
                     int64_t at_ns)
{
	const struct shfs_touch touch = { version->path, version->version_id, at_ns, kind,
		                          step };

	return shfs_workflow_touch(wf, &touch);
}

int shfs_workflow_add_step(struct shfs_workflow *wf, struct shfs_step **out)
{
	struct shfs_step *step = NULL;

	if (MAKE_ROOM(wf->steps, wf->n_steps, wf->cap_steps))
		step = calloc(1, sizeof(*step));
	if (!step)
		return -ENOMEM;
	step->id = wf->n_steps;
	wf->steps[wf->n_steps++] = step;
	*out = step;
	return 0;
}

/* --- directories: as files, with a trailing slash --- */

static char *copy_directory_part(const char *path)
{
	const char *slash = strrchr(path, '/');

	return strndup(path, slash == path ? 1 : slash - path);
}

static int touch_dir(struct shfs_workflow *wf, struct shfs_step *step, const char *dir,
                     enum shfs_touch_kind kind)
{
	_cleanup_buf_ struct shfs_buf path = { 0 };

	shfs_buf_printf(&path, "%s/", dir);
	return path.failed
	               ? -ENOMEM
	               : shfs_workflow_touch(wf, &(struct shfs_touch){ path.data, 0, 0,
	                                                               kind, step });
}

/* Puts the step after the maker of the directory, or of one above it. */
static int touch_dirs(struct shfs_workflow *wf, struct shfs_step *step, const char *path)
{
	_cleanup_free_ char *dir = strdup(path);
	int r = dir ? 0 : -ENOMEM;

	for (char *slash; !r && (slash = strrchr(dir, '/')); *slash = 0)
		r = touch_dir(wf, step, dir, SHFS_TOUCH_READ);
	return r;
}

/* --- the steps --- */

struct builder {
	struct shfs_workflow *wf;
	struct maker_step {
		struct shfs_graph_maker *maker;
		struct shfs_step *step;
		size_t n_inputs; /* inputs of the maker that the step has already */
		UT_hash_handle hh;
	} * table, *todo;
	struct maker_step **queue;
	size_t n_queued, cap_queue;
	/* what steps remove, move or link: it has to be there */
	struct taken {
		struct shfs_step *step;
		int64_t version_id;
		struct shfs_workflow_file *into; /* NULL: what it holds does not matter */
		int64_t at_ns;
	} * taken;
	size_t n_taken, cap_taken;
	struct times {
		struct time_of_version {
			int64_t version_id, at_ns;
		} * list;
		size_t n, cap;
	} read, left; /* when the step that is being filled read and left versions */
};

/* --- when a step used a version --- */

static int add_time(struct times *times, int64_t version_id, int64_t at_ns)
{
	if (!version_id || !at_ns)
		return 0;
	if (!MAKE_ROOM(times->list, times->n, times->cap))
		return -ENOMEM;
	times->list[times->n++] = (struct time_of_version){ version_id, at_ns };
	return 0;
}

static int compare_times(const void *a, const void *b)
{
	return shfs_compare_int64(&((const struct time_of_version *)a)->version_id,
	                          &((const struct time_of_version *)b)->version_id);
}

static int note_times(struct builder *b, const struct shfs_uses *uses)
{
	int r = 0;

	b->read.n = b->left.n = 0;
	for (size_t i = 0; i < uses->n && !r; i++) {
		const struct shfs_use *use = &uses->list[i];

		r = add_time(&b->read, use->read_id, use->read_ns)
		            ?: add_time(&b->left, use->made_id, use->left_ns);
	}
	if (b->read.n)
		qsort(b->read.list, b->read.n, sizeof(*b->read.list), compare_times);
	if (b->left.n)
		qsort(b->left.list, b->left.n, sizeof(*b->left.list), compare_times);
	return r;
}

static int64_t time_of(const struct times *times, int64_t version_id, int64_t unknown)
{
	const struct time_of_version key = { version_id, 0 }, *found = NULL;

	if (times->n)
		found = bsearch(&key, times->list, times->n, sizeof(key), compare_times);
	return found ? found->at_ns : unknown;
}

/* Adds the path of a directory, or of the directory of path. */
static int add_dir(struct shfs_workflow *wf, struct shfs_step *step,
                   const struct shfs_uses *uses, const char *path, bool parent)
{
	_cleanup_free_ char *dir = parent ? copy_directory_part(path) : strdup(path);
	size_t n = step->dirs.n;
	int r;

	if (!dir)
		return -ENOMEM;
	if (uses && shfs_uses_make_dir(uses, dir))
		return 0;
	r = names_add(&step->dirs, TAKE_PTR(dir));
	return r || n == step->dirs.n ? r : touch_dirs(wf, step, step->dirs.list[n]);
}

/* Adds a version that is needed, with its maker if that can be run again. */
static int need(struct builder *b, struct shfs_graph_version *v,
                struct shfs_workflow_file **out);

static int add_source_step(struct builder *b, struct shfs_workflow_file *file,
                           struct shfs_graph_maker *left_by)
{
	int r = shfs_workflow_add_step(b->wf, &file->step);

	if (r)
		return r;
	file->left_by = left_by;
	file->taken = true;
	file->step->source = file;
	r = add_dir(b->wf, file->step, NULL, file->version.path, true);
	if (!r)
		r = files_add(&file->step->outputs, file);
	return r ? r
	         : add_touch(b->wf, file->step, &file->version, SHFS_TOUCH_WRITE,
	                     INT64_MIN);
}

/* Can a step run the command of this maker? 1, 0, or a negative errno. */
static int can_be_step(struct builder *b, const struct shfs_graph_maker *maker)
{
	_cleanup_definitions_ struct shfs_definitions definitions = { 0 };
	struct maker_step *m;
	int r;

	if (!maker || maker->entry.is_process)
		return 0;
	HASH_FIND_PTR(b->table, &maker, m);
	if (m)
		return 1;
	r = shfs_definitions_load(b->wf->index, maker->entry.command.command_id,
	                          &definitions);
	return r ? r : shfs_command_runs_again(&maker->entry.command, &definitions);
}

static int get_step(struct builder *b, struct shfs_graph_maker *maker,
                    struct shfs_step **out)
{
	struct maker_step *m;
	int r;

	HASH_FIND_PTR(b->table, &maker, m);
	if (!m) {
		m = calloc(1, sizeof(*m));
		if (!m)
			return -ENOMEM;
		m->maker = maker;
		HASH_ADD_PTR(b->table, maker, m);
		if (!m->hh.tbl) {
			free(m);
			return -ENOMEM;
		}
		r = shfs_workflow_add_step(b->wf, &m->step);
		if (r)
			return r;
		if (!MAKE_ROOM(b->queue, b->n_queued, b->cap_queue))
			return -ENOMEM;
		b->queue[b->n_queued++] = m;
		m->step->entry = &maker->entry;
	}
	*out = m->step;
	return 0;
}

/* Had the command read the earlier content of the file? */
static bool is_changed_in_place(const struct shfs_graph_version *v)
{
	const struct shfs_graph_maker *m = v->maker;

	for (size_t i = 0; i < m->n_inputs; i++)
		if (m->inputs[i]->version.file_id == v->version.file_id)
			return true;
	return false;
}

/* Did it come by a write through another name of the file? */
static int is_by_other_name(struct builder *b, const struct shfs_version *version)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r;

	if (strcmp(version->source, "linked") != 0 || !version->access_id)
		return 0;
	r = shfs_rows_open_ints(b->wf->index,
	                        "SELECT is_open FROM v_access WHERE access_id = ?1",
	                        SHFS_INTS(version->access_id), &rows);
	if (!r)
		r = shfs_rows_next(rows);
	return r > 0 ? shfs_rows_int(rows, 0) != 0 : r;
}

static int need(struct builder *b, struct shfs_graph_version *v,
                struct shfs_workflow_file **out)
{
	struct shfs_workflow_file *file;
	int r = get_workflow_file(b->wf, v->version.version_id, &file);

	if (r)
		return r;
	*out = file;
	file->needed = true;
	if (file->step)
		return 0;
	r = is_by_other_name(b, &v->version);
	if (r)
		return r < 0 ? r : add_source_step(b, file, v->maker);
	r = can_be_step(b, v->maker);
	if (r < 0)
		return r;
	if (!r || (b->wf->by_name && is_changed_in_place(v)))
		return add_source_step(b, file, v->maker);
	return get_step(b, v->maker, &file->step);
}

static int add_step_input(struct builder *b, struct shfs_step *step,
                          struct shfs_graph_version *v)
{
	struct shfs_workflow_file *file;
	int r = S_ISLNK(v->version.mode)
	                ? 1
	                : shfs_graph_is_outside(b->wf->graph, v->version.path);

	if (r) /* only its fingerprint is known: it stays where it is */
		return MIN(r, 0);
	r = need(b, v, &file);
	if (!r)
		r = files_add(&step->inputs, file);
	return r ? r
	         : add_touch(b->wf, step, &file->version, SHFS_TOUCH_READ,
	                     time_of(&b->read, file->version.version_id,
	                             step->entry->command.begin_ns));
}

static bool has_input(const struct shfs_step *step, int64_t version_id)
{
	for (size_t i = 0; i < step->inputs.n; i++)
		if (step->inputs.list[i]->version.version_id == version_id)
			return true;
	return false;
}

/* Notes a version that the step removes, moves or links: it has to exist then. into: the
 * version that it becomes. */
static int note_taken(struct builder *b, struct shfs_step *step, int64_t version_id,
                      struct shfs_workflow_file *into, int64_t at_ns, bool removes)
{
	_cleanup_version_ struct shfs_version version = { 0 };
	int r = shfs_version_load(b->wf->index, version_id, &version);

	if (r > 0 && removes)
		r = add_touch(b->wf, step, &version, SHFS_TOUCH_REMOVE, at_ns) ?: 1;
	if (r <= 0)
		return r;
	if (!MAKE_ROOM(b->taken, b->n_taken, b->cap_taken))
		return -ENOMEM;
	b->taken[b->n_taken++] = (struct taken){ step, version_id, into, at_ns };
	return 0;
}

static int note_origin(struct builder *b, struct shfs_step *step,
                       const struct shfs_version *version,
                       struct shfs_workflow_file *into)
{
	bool renamed = !strcmp(version->source, "renamed");

	if (!renamed && strcmp(version->source, "linked") != 0)
		return 0;
	return note_taken(b, step, version->origin_version_id, into,
	                  time_of(&b->left, version->version_id,
	                          MAX(version->time_ns, step->entry->command.begin_ns)),
	                  renamed);
}

/* Makes what was noted an input: with its history if the step hands it on, else as a
 * source. */
static int add_taken(struct builder *b, const struct taken *t)
{
	_cleanup_version_ struct shfs_version version = { 0 };
	struct shfs_workflow_file *file;
	struct shfs_graph_version *v;
	int r;

	if (has_input(t->step, t->version_id))
		return 0;
	r = shfs_version_load(b->wf->index, t->version_id, &version);
	if (r > 0)
		r = shfs_upstream_attribute(b->wf->graph, &version) ?: 1;
	if (r <= 0 || version.command_id == t->step->entry->command.command_id)
		return MIN(r, 0);
	if (t->into && t->into->needed) {
		r = shfs_upstream_add(b->wf->graph, &version, &v);
		return r ? r : add_step_input(b, t->step, v);
	}
	r = get_workflow_file(b->wf, t->version_id, &file);
	if (r)
		return r;
	file->needed = true;
	r = file->step ? 0 : add_source_step(b, file, NULL);
	if (!r)
		r = files_add(&t->step->inputs, file);
	return r ? r
	         : add_touch(b->wf, t->step, &file->version, SHFS_TOUCH_READ, t->at_ns);
}

/* Adds what was noted: first what is handed on to a version that is needed, and only that
 * if it brings other steps. */
static int add_all_taken(struct builder *b)
{
	size_t n = 0;
	int r = 0;

	for (size_t i = 0; i < b->n_taken && !r; i++) {
		struct taken t = b->taken[i];

		if (t.into && t.into->needed)
			r = add_taken(b, &t);
		else
			b->taken[n++] = t;
	}
	b->n_taken = n;
	if (b->n_queued)
		return r;
	for (size_t i = 0; i < b->n_taken && !r; i++)
		r = add_taken(b, &b->taken[i]);
	b->n_taken = 0;
	return r;
}

/* Adds what the step had moved to the path before it left something else there. */
static int add_moved_away(struct builder *b, struct shfs_step *step, int64_t version_id)
{
	bool carried = false;
	int r = 1;

	while (r > 0 && !carried && (version_id & UINT32_MAX) > 1) {
		_cleanup_version_ struct shfs_version version = { 0 };

		r = shfs_version_load(b->wf->index, --version_id, &version);
		if (r > 0)
			r = shfs_upstream_attribute(b->wf->graph, &version) ?: 1;
		if (r > 0 && version.command_id != step->entry->command.command_id)
			return 0;
		if (r > 0)
			r = note_origin(b, step, &version, NULL) ?: 1;
		carried = version.carried;
	}
	return MIN(r, 0);
}

static int add_output(struct builder *b, struct shfs_step *step, int64_t version_id)
{
	_cleanup_version_ struct shfs_version version = { 0 };
	struct shfs_workflow_file *file;
	int r = shfs_version_load(b->wf->index, version_id, &version);

	/* the names need not be linked when the step is run again */
	if (r > 0)
		r = is_by_other_name(b, &version);
	if (r)
		return MIN(r, 0);
	r = get_workflow_file(b->wf, version_id, &file);
	if (r || file->made)
		return r;
	file->step = step;
	file->made = true;
	r = files_add(&step->outputs, file);
	if (!r)
		r = add_touch(b->wf, step, &file->version, SHFS_TOUCH_WRITE,
		              time_of(&b->left, version_id,
		                      MAX(file->version.time_ns,
		                          step->entry->command.begin_ns)));
	if (!r)
		r = note_origin(b, step, &file->version, file);
	return r || file->version.carried ? r : add_moved_away(b, step, version_id);
}

static int add_step_use(struct builder *b, struct shfs_step *step,
                        const struct shfs_use *use)
{
	int r;

	if (use->directory &&
	    (use->kind == SHFS_USE_MADE || use->kind == SHFS_USE_RENAMED))
		return touch_dir(b->wf, step, use->path, SHFS_TOUCH_WRITE);
	if (use->directory)
		return 0;
	if (use->kind == SHFS_USE_REMOVED && use->read_id)
		return note_taken(b, step, use->read_id, NULL, use->left_ns, true);
	if (use->kind == SHFS_USE_READ || !use->made_id)
		return 0;
	if (use->again)
		return shfs_workflow_touch(b->wf,
		                           &(struct shfs_touch){
						   use->path, use->made_id, use->left_ns,
						   SHFS_TOUCH_WRITE, step });
	r = add_output(b, step, use->made_id);
	if (r || use->kind != SHFS_USE_CHANGED || !use->read_id)
		return r;
	return note_taken(b, step, use->read_id,
	                  shfs_workflow_file_of(b->wf, use->made_id), use->read_ns,
	                  false);
}

/* Adds its directories, as absolute paths: the base is not known yet. */
static int add_dirs(struct shfs_workflow *wf, struct shfs_step *step,
                    const struct shfs_uses *uses)
{
	int r = add_dir(wf, step, uses, step->entry->command.cwd, false);

	for (size_t i = 0; i < step->outputs.n && !r; i++)
		r = add_dir(wf, step, uses, step->outputs.list[i]->version.path, true);
	for (size_t i = 0; i < uses->n && !r; i++)
		if (uses->list[i].directory && uses->list[i].kind == SHFS_USE_REMOVED)
			r = add_dir(wf, step, uses, uses->list[i].path, false);
	for (size_t i = 0; i < uses->n_temporary && !r; i++) {
		char *path = uses->temporary[i].path;

		r = add_dir(wf, step, uses, path, true);
		if (!r && !uses->temporary[i].directory)
			r = shfs_workflow_touch(wf, &(struct shfs_touch){
							    path, 0,
							    step->entry->command.begin_ns,
							    SHFS_TOUCH_TEMPORARY, step });
	}
	return r;
}

/* --- files outside --- */

static int touch_outside(struct shfs_workflow *wf, struct shfs_step *step,
                         const char *path, enum shfs_touch_kind kind)
{
	return shfs_workflow_touch(wf,
	                           &(struct shfs_touch){ (char *)path, 0,
	                                                 step->entry->command.begin_ns,
	                                                 kind, step });
}

struct filling {
	struct builder *b;
	struct shfs_step *step;
};

static int add_by_way(const char *path, int64_t command_id, void *arg);

/* The step writes the file. */
static int add_leaves(const char *path, void *arg)
{
	struct filling *f = arg;
	size_t n = f->step->leaves.n;
	int r = shfs_workflow_add_name(&f->step->leaves, path);

	if (!r && f->step->leaves.n != n)
		r = touch_outside(f->b->wf, f->step, path, SHFS_TOUCH_WRITE)
		            ?: shfs_graph_directories_left(f->b->wf->graph,
		                                           &f->step->entry->command, path,
		                                           add_by_way, f);
	return r;
}

/* Gets a step that runs the command; NULL: none can. */
static int get_step_of_command(struct builder *b, int64_t command_id,
                               struct shfs_step **out)
{
	struct shfs_graph_maker *maker;
	int r = command_id ? shfs_upstream_add_command(b->wf->graph, command_id, &maker)
	                   : 0;

	*out = NULL;
	if (r > 0)
		r = can_be_step(b, maker);
	return r > 0 ? get_step(b, maker, out) : r;
}

/* The step uses the file as it finds it, so it comes before those that write it later. */
static int add_used(const char *path, void *arg)
{
	struct filling *f = arg;

	return touch_outside(f->b->wf, f->step, path, SHFS_TOUCH_READ);
}

/* The step uses the file as the command has left it. */
static int add_by_way(const char *path, int64_t command_id, void *arg)
{
	struct filling *f = arg;
	struct shfs_step *step = f->step;
	struct shfs_by_way *way;
	int r;

	if (!MAKE_ROOM(step->by_way, step->n_by_way, step->cap_by_way))
		return -ENOMEM;
	way = &step->by_way[step->n_by_way];
	way->path = strdup(path);
	if (!way->path)
		return -ENOMEM;
	step->n_by_way++;
	r = get_step_of_command(f->b, command_id, &way->left_by);
	return r || !way->left_by
	               ? r
	               : add_leaves(path, &(struct filling){ f->b, way->left_by });
}

static int fill_step(struct builder *b, struct maker_step *m)
{
	_cleanup_uses_ struct shfs_uses uses = { 0 };
	struct shfs_step *step = m->step;
	struct filling filling = { b, step };
	int r = shfs_command_script_load(b->wf->index, &step->entry->command,
	                                 &step->script);

	step->n_left_out = m->maker->n_left_out;
	if (!r)
		r = shfs_uses_load(b->wf->index, step->entry->command.command_id, 0, 0,
		                   &uses);
	if (!r)
		r = note_times(b, &uses);
	for (; m->n_inputs < m->maker->n_inputs && !r; m->n_inputs++)
		r = add_step_input(b, step, m->maker->inputs[m->n_inputs]);
	for (size_t i = 0; i < uses.n && !r; i++)
		r = add_step_use(b, step, &uses.list[i]);
	for (struct shfs_graph_version *v = m->maker->made; v && !r; v = v->next_made)
		r = add_output(b, step, v->version.version_id);
	if (!r)
		r = shfs_graph_leaves(b->wf->graph, &step->entry->command, add_leaves,
		                      &filling);
	if (!r)
		r = shfs_graph_left_before(b->wf->graph, m->maker, add_used, add_by_way,
		                           &filling);
	return r ? r : add_dirs(b->wf, step, &uses);
}

/* Adds late inputs: the earlier version of a removed file may be an input of an earlier
 * step. */
static int add_late_inputs(struct builder *b)
{
	struct maker_step *m, *next;
	int r = 0;

	b->read.n = b->left.n = 0;
	HASH_ITER (hh, b->table, m, next)
		for (; m->n_inputs < m->maker->n_inputs && !r; m->n_inputs++)
			if (!has_input(m->step,
			               m->maker->inputs[m->n_inputs]->version.version_id))
				r = add_step_input(b, m->step,
				                   m->maker->inputs[m->n_inputs]);
	return r;
}

static int build_steps(struct builder *b)
{
	struct shfs_workflow *wf = b->wf;
	int r = 0;

	for (struct shfs_graph_version *v = shfs_graph_versions(wf->graph); v && !r;
	     v = v->next) {
		struct shfs_workflow_file *file;

		for (size_t i = 0; i < wf->targets.n && !r; i++)
			if (wf->targets.list[i]->version.version_id ==
			    v->version.version_id)
				r = need(b, v, &file);
	}
	while (!r && b->n_queued) {
		r = fill_step(b, b->queue[--b->n_queued]);
		if (!r && !b->n_queued)
			r = add_late_inputs(b);
		if (!r && !b->n_queued)
			r = add_all_taken(b);
		if (!r && !b->n_queued)
			r = add_late_inputs(b);
	}
	return r;
}

static void builder_clear(struct builder *b)
{
	struct maker_step *m, *next;

	HASH_ITER (hh, b->table, m, next) {
		HASH_DEL(b->table, m);
		free(m);
	}
	free(b->queue);
	free(b->taken);
	free(b->read.list);
	free(b->left.list);
}

/* --- the whole --- */

static int add_workflow_targets(struct shfs_workflow *wf,
                                const struct shfs_version *targets, size_t n)
{
	struct shfs_graph_version *v;
	static const struct shfs_graph_limits limits = { .whole = true };
	int r = shfs_upstream_new(wf->index, &targets[0], &limits, &wf->graph);

	for (size_t i = 1; i < n && !r; i++)
		r = shfs_upstream_add(wf->graph, &targets[i], &v);
	for (size_t i = 0; i < n && !r; i++) {
		struct shfs_workflow_file *file;

		r = get_workflow_file(wf, targets[i].version_id, &file);
		if (!r && !file->target)
			r = files_add(&wf->targets, file);
		if (!r)
			file->target = true;
	}
	return r;
}

/* Makes a step of the command, whatever it is: who asks for it has named it. */
static int add_named_command(struct builder *b, int64_t command_id,
                             struct shfs_step **out)
{
	static const struct shfs_graph_limits limits = { .whole = true };
	struct shfs_graph_maker *maker;
	int r = shfs_graph_new(b->wf->index, &limits, &b->wf->graph);

	if (!r)
		r = shfs_upstream_add_command(b->wf->graph, command_id, &maker);
	if (r <= 0)
		return r ? r : -ENOENT;
	if (!maker->entry.command.hidden && !maker->entry.command.redacted &&
	    maker->entry.command.text)
		return get_step(b, maker, out);
	shfs_error("the text of %s is not kept: it cannot be run again",
	           maker->entry.command.id);
	return SHFS_EXIT_REFUSED;
}

/* Makes what the step left a target, also bytes that were there before. */
static int add_result(struct shfs_workflow *wf, struct shfs_step *step,
                      int64_t version_id)
{
	struct shfs_workflow_file *file;
	int r = get_workflow_file(wf, version_id, &file);

	if (r || file->target || shfs_path_bookkeeping(file->version.path))
		return r;
	file->target = file->needed = true;
	if (!file->made) {
		file->step = step;
		file->made = true;
		r = files_add(&step->outputs, file);
	}
	return r ? r : files_add(&wf->targets, file);
}

static int add_results_of(struct shfs_workflow *wf, struct shfs_step *step)
{
	_cleanup_uses_ struct shfs_uses uses = { 0 };
	int r = shfs_uses_load(wf->index, step->entry->command.command_id, 0, 0, &uses);

	for (size_t i = 0; i < uses.n && !r; i++)
		if (!uses.list[i].directory && uses.list[i].made_id &&
		    uses.list[i].kind <= SHFS_USE_LINKED)
			r = add_result(wf, step, uses.list[i].made_id);
	return r;
}

static int new_workflow(struct shfs_index *index, struct shfs_workflow **out)
{
	struct shfs_workflow *wf = calloc(1, sizeof(*wf));

	if (!wf)
		return -ENOMEM;
	wf->index = index;
	*out = wf;
	return 0;
}

int shfs_workflow_new(struct shfs_index *index, const struct shfs_version *targets,
                      size_t n, bool by_name, struct shfs_workflow **out)
{
	_cleanup_workflow_ struct shfs_workflow *wf = NULL;
	int r = new_workflow(index, &wf);
	struct builder b = { .wf = wf };

	if (r)
		return r;
	wf->by_name = by_name;
	r = add_workflow_targets(wf, targets, n);
	if (!r)
		r = build_steps(&b);
	builder_clear(&b);
	if (!r)
		r = shfs_workflow_find_base(wf);
	if (!r)
		*out = TAKE_PTR(wf);
	return r;
}

int shfs_workflow_new_of_command(struct shfs_index *index, int64_t command_id,
                                 struct shfs_workflow **out)
{
	_cleanup_workflow_ struct shfs_workflow *wf = NULL;
	int r = new_workflow(index, &wf);
	struct builder b = { .wf = wf };
	struct shfs_step *step;

	if (r)
		return r;
	r = add_named_command(&b, command_id, &step);
	if (!r)
		r = build_steps(&b);
	builder_clear(&b);
	if (!r)
		r = add_results_of(wf, step);
	if (!r)
		r = shfs_workflow_find_base(wf);
	if (!r)
		*out = TAKE_PTR(wf);
	return r;
}

void shfs_step_show(struct shfs_buf *out, struct shfs_workflow *wf,
                    const struct shfs_step *step)
{
	if (step->source) {
		shfs_buf_str(out, "the source ");
		shfs_show_version(out, step->source->version.path,
		                  step->source->version.n);
		return;
	}
	shfs_command_show(out, wf->index, &step->entry->command);
}
