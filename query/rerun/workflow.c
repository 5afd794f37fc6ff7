/* SPDX-License-Identifier: MIT */
#include "query/rerun/workflow.h"

#include "common/path.h"
#include "common/quote.h"
#include "query/history/program.h"

#include <errno.h>
#include <string.h>

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

static void names_clear(struct shfs_names *names)
{
	for (size_t i = 0; i < names->n; i++)
		free(names->list[i]);
	free(names->list);
}

static void step_free(struct shfs_step *step)
{
	free(step->cwd);
	free(step->shell);
	free(step->after);
	free(step->inputs.list);
	free(step->outputs.list);
	names_clear(&step->dirs);
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
		free(wf->files.list[i]);
	}
	for (size_t i = 0; i < wf->n_steps; i++)
		step_free(wf->steps[i]);
	for (size_t i = 0; i < wf->n_touches; i++)
		free(wf->touches[i].path);
	free(wf->files.list);
	free(wf->targets.list);
	names_clear(&wf->roots);
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

static int add_touch(struct shfs_workflow *wf, struct shfs_step *step, const char *path,
                     int64_t version_id, enum shfs_touch_kind kind, bool writes)
{
	if (!MAKE_ROOM(wf->touches, wf->n_touches, wf->cap_touches))
		return -ENOMEM;
	wf->touches[wf->n_touches] =
		(struct shfs_touch){ strdup(path), version_id, kind, writes, step };
	return wf->touches[wf->n_touches++].path ? 0 : -ENOMEM;
}

static int add_workflow_step(struct shfs_workflow *wf, struct shfs_step **out)
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

/* --- commands that can be run again --- */

#define BLANKS     " \t\n"
#define SEPARATORS "\n;|&()`"

static bool is_prefix_assignment(const char *word, size_t len)
{
	return memchr(word, '=', len) && *word != '=';
}

/* Does text begin with a command that waits for a person, or restores contents? */
static bool begins_not_again(const char *text)
{
	static const char *const before[] = { "sudo", "command", "exec", "time", "env" };
	const char *word;
	size_t len;

	for (;; text = word + len) {
		word = text + strspn(text, " \t{");
		len = strcspn(word, BLANKS SEPARATORS);
		if (!len ||
		    (!is_prefix_assignment(word, len) &&
		     !shfs_program_is_one_of(word, len, before, ARRAY_SIZE(before))))
			break;
	}
	for (const char *slash; (slash = memchr(word, '/', len)); word = slash + 1)
		len -= slash + 1 - word;
	return shfs_program_is_editor(word, len) ||
	       shfs_program_keeps_contents(word, len);
}

/* Quotes are ignored: a quoted text that looks like such a command makes a source,
 * too. */
bool shfs_command_runs_again(const struct shfs_command_row *command)
{
	if (command->hidden || command->redacted || !command->text)
		return false;
	for (const char *p = command->text;; p++) {
		if (begins_not_again(p))
			return false;
		p = strpbrk(p, SEPARATORS);
		if (!p)
			return true;
	}
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
	return path.failed ? -ENOMEM : add_touch(wf, step, path.data, 0, kind, false);
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
};

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
	int r = add_workflow_step(b->wf, &file->step);

	if (r)
		return r;
	file->left_by = left_by;
	file->step->source = file;
	r = add_dir(b->wf, file->step, NULL, file->version.path, true);
	if (!r)
		r = files_add(&file->step->outputs, file);
	return r ? r
	         : add_touch(b->wf, file->step, file->version.path,
	                     file->version.version_id, SHFS_TOUCH_WRITE, true);
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
		r = add_workflow_step(b->wf, &m->step);
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
	if (!v->maker || v->maker->entry.is_process ||
	    !shfs_command_runs_again(&v->maker->entry.command) ||
	    (b->wf->by_name && is_changed_in_place(v)))
		return add_source_step(b, file, v->maker);
	return get_step(b, v->maker, &file->step);
}

static int add_step_input(struct builder *b, struct shfs_step *step,
                          struct shfs_graph_version *v)
{
	struct shfs_workflow_file *file;
	int r = need(b, v, &file);

	if (!r)
		r = files_add(&step->inputs, file);
	return r ? r
	         : add_touch(b->wf, step, file->version.path, file->version.version_id,
	                     SHFS_TOUCH_READ, false);
}

static bool has_input(const struct shfs_step *step, int64_t version_id)
{
	for (size_t i = 0; i < step->inputs.n; i++)
		if (step->inputs.list[i]->version.version_id == version_id)
			return true;
	return false;
}

/* Adds a version that the step removes or links to: it has to exist, even if its result
 * is not needed. */
static int add_taken(struct builder *b, struct shfs_step *step, int64_t version_id,
                     bool removes)
{
	_cleanup_version_ struct shfs_version version = { 0 };
	struct shfs_graph_version *v;
	int r = shfs_version_load(b->wf->index, version_id, &version);

	if (r <= 0)
		return r;
	if (has_input(step, version_id))
		version_id = 0;
	r = version_id ? shfs_upstream_add(b->wf->graph, &version, &v) : 0;
	if (!r && version_id && (!v->maker || &v->maker->entry != step->entry))
		r = add_step_input(b, step, v);
	if (!r && removes)
		r = add_touch(b->wf, step, version.path, version.version_id,
		              SHFS_TOUCH_REMOVE, true);
	return r;
}

static int add_step_origin(struct builder *b, struct shfs_step *step,
                           const struct shfs_version *version)
{
	if (!strcmp(version->source, "renamed"))
		return add_taken(b, step, version->origin_version_id, true);
	if (!strcmp(version->source, "linked"))
		return add_taken(b, step, version->origin_version_id, false);
	return 0;
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
			r = add_step_origin(b, step, &version) ?: 1;
		carried = version.carried;
	}
	return MIN(r, 0);
}

static int add_output(struct builder *b, struct shfs_step *step, int64_t version_id)
{
	struct shfs_workflow_file *file;
	int r = get_workflow_file(b->wf, version_id, &file);

	if (r || file->made)
		return r;
	file->step = step;
	file->made = true;
	r = files_add(&step->outputs, file);
	if (!r)
		r = add_touch(b->wf, step, file->version.path, version_id,
		              SHFS_TOUCH_WRITE, true);
	if (!r)
		r = add_step_origin(b, step, &file->version);
	return r || file->version.carried ? r : add_moved_away(b, step, version_id);
}

static int add_step_use(struct builder *b, struct shfs_step *step,
                        const struct shfs_use *use)
{
	if (use->directory &&
	    (use->kind == SHFS_USE_MADE || use->kind == SHFS_USE_RENAMED))
		return touch_dir(b->wf, step, use->path, SHFS_TOUCH_WRITE);
	if (use->directory)
		return 0;
	if (use->kind == SHFS_USE_REMOVED && use->read_id)
		return add_taken(b, step, use->read_id, true);
	if (use->kind == SHFS_USE_READ || !use->made_id)
		return 0;
	if (use->again)
		return add_touch(b->wf, step, use->path, use->made_id, SHFS_TOUCH_READ,
		                 true);
	return add_output(b, step, use->made_id);
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
	for (size_t i = 0; i < uses->n_temporary && !r; i++)
		r = add_dir(wf, step, uses, uses->temporary[i].path, true);
	return r;
}

static int fill_step(struct builder *b, struct maker_step *m)
{
	_cleanup_uses_ struct shfs_uses uses = { 0 };
	struct shfs_step *step = m->step;
	int r = shfs_command_shell(b->wf->index, &step->entry->command, "bash",
	                           &step->shell);

	step->n_left_out = m->maker->n_left_out;
	for (; m->n_inputs < m->maker->n_inputs && !r; m->n_inputs++)
		r = add_step_input(b, step, m->maker->inputs[m->n_inputs]);
	if (!r)
		r = shfs_uses_load(b->wf->index, step->entry->command.command_id, 0, 0,
		                   &uses);
	for (size_t i = 0; i < uses.n && !r; i++)
		r = add_step_use(b, step, &uses.list[i]);
	for (struct shfs_graph_version *v = m->maker->made; v && !r; v = v->next_made)
		r = add_output(b, step, v->version.version_id);
	return r ? r : add_dirs(b->wf, step, &uses);
}

/* Adds late inputs: the earlier version of a removed file may be an input of an earlier
 * step. */
static int add_late_inputs(struct builder *b)
{
	struct maker_step *m, *next;
	int r = 0;

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
}

/* --- the base --- */

void shfs_base_widen(char *base, const char *path)
{
	while (!shfs_path_is_below(path, base)) {
		char *slash = strrchr(base, '/');

		slash[slash == base] = 0;
	}
}

static int add_project_root(struct shfs_workflow *wf, const struct shfs_version *version)
{
	char *root;
	int r;

	for (size_t i = 0; i < wf->roots.n; i++)
		if (shfs_path_is_below(version->path, wf->roots.list[i]))
			return 0;
	r = shfs_version_root(wf->index, version, &root);
	return r > 0 ? names_add(&wf->roots, root) : r;
}

/* Finds the project of the first target, or a directory that contains all files. */
static int find_workflow_base(struct shfs_workflow *wf)
{
	struct shfs_version *first = &wf->targets.list[0]->version;
	int r = 0;

	for (size_t i = 0; i < wf->files.n && !r; i++)
		r = add_project_root(wf, &wf->files.list[i]->version);
	if (r)
		return r;
	for (size_t i = 0; i < wf->roots.n; i++)
		if (!wf->base && shfs_path_is_below(first->path, wf->roots.list[i]))
			wf->base = strdup(wf->roots.list[i]);
	if (!wf->base)
		wf->base = copy_directory_part(first->path);
	if (!wf->base)
		return -ENOMEM;
	for (size_t i = 0; i < wf->files.n; i++)
		shfs_base_widen(wf->base, wf->files.list[i]->version.path);
	for (size_t i = 0; i < wf->n_steps; i++) {
		if (wf->steps[i]->entry)
			shfs_base_widen(wf->base, wf->steps[i]->entry->command.cwd);
		for (size_t k = 0; k < wf->steps[i]->dirs.n; k++)
			shfs_base_widen(wf->base, wf->steps[i]->dirs.list[k]);
	}
	return 0;
}

static int shorten(struct shfs_workflow *wf, char **path)
{
	char *relative = strdup(shfs_path_relative(*path, wf->base) ?: "");

	free(*path);
	*path = relative;
	return relative ? 0 : -ENOMEM;
}

static int name_all(struct shfs_workflow *wf)
{
	int r = 0;

	for (size_t i = 0; i < wf->files.n; i++) {
		struct shfs_workflow_file *file = wf->files.list[i];

		file->name = shfs_path_relative(file->version.path, wf->base);
	}
	for (size_t i = 0; i < wf->n_steps && !r; i++) {
		struct shfs_step *step = wf->steps[i];

		for (size_t k = 0; k < step->dirs.n && !r; k++)
			r = shorten(wf, &step->dirs.list[k]);
		if (step->entry && !r) {
			step->cwd = strdup(step->entry->command.cwd);
			r = step->cwd ? shorten(wf, &step->cwd) : -ENOMEM;
		}
	}
	return r;
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

int shfs_workflow_new(struct shfs_index *index, const struct shfs_version *targets,
                      size_t n, bool by_name, struct shfs_workflow **out)
{
	_cleanup_workflow_ struct shfs_workflow *wf = calloc(1, sizeof(*wf));
	struct builder b = { .wf = wf };
	int r;

	if (!wf)
		return -ENOMEM;
	wf->index = index;
	wf->by_name = by_name;
	r = add_workflow_targets(wf, targets, n);
	if (!r)
		r = build_steps(&b);
	builder_clear(&b);
	if (!r)
		r = find_workflow_base(wf);
	if (!r)
		r = name_all(wf);
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

/* --- can it be run elsewhere? --- */

static bool continues_name(char c)
{
	return c && (strchr("_-.", c) || (c >= '0' && c <= '9') ||
	             (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c & 0x80);
}

static bool mentions(const char *text, const char *start, const char *path)
{
	_cleanup_buf_ struct shfs_buf sought = { 0 };

	shfs_buf_printf(&sought, "%s%s", start, path);
	for (const char *p = text; !sought.failed && (p = strstr(p, sought.data)); p++)
		if (!continues_name(p[sought.len]))
			return true;
	return false;
}

bool shfs_text_names_path(const char *text, const char *root)
{
	const char *home = getenv("HOME"), *below;

	if (strlen(root) > 1 && mentions(text, "", root))
		return true;
	below = home && *home == '/' ? shfs_path_relative(root, home) : NULL;
	if (!below)
		return false;
	if (!*below)
		return strstr(text, "~/") || strstr(text, "$HOME") ||
		       strstr(text, "${HOME}");
	below -= below[-1] == '/';
	return mentions(text, "~", below) || mentions(text, "$HOME", below) ||
	       mentions(text, "${HOME}", below) || mentions(text, "\"$HOME\"", below);
}

/* Adds the target of a "cd", as far as it is known: the word without its quotes. */
static void add_cd_target(struct shfs_buf *out, const char *word)
{
	static const char *const homes[] = { "~", "$HOME", "${HOME}" };
	const char *home = getenv("HOME") ?: "";
	size_t len;

	word += strspn(word, " \t");
	if (!strncmp(word, "-- ", 3))
		word += 3 + strspn(word + 3, " \t");
	len = strcspn(word, BLANKS SEPARATORS);
	if (!len)
		shfs_buf_str(out, home);
	word += strspn(word, "\"'");
	for (size_t i = 0; i < ARRAY_SIZE(homes); i++) {
		size_t n = strlen(homes[i]);

		if (strncmp(word, homes[i], n) != 0 || continues_name(word[n]))
			continue;
		shfs_buf_str(out, home);
		word += n;
		break;
	}
	for (; *word && !strchr(BLANKS SEPARATORS, *word); word++)
		if (!strchr("\"'\\", *word))
			shfs_buf_char(out, *word);
	while (out->len > 1 && out->data[out->len - 1] == '/')
		out->data[--out->len] = 0;
}

/* Does the text go to a directory above root, and name files from there? */
static bool goes_above(const char *text, const char *root)
{
	for (const char *p = text;; p++) {
		_cleanup_buf_ struct shfs_buf target = { 0 };

		p += strspn(p, " \t{");
		if (p[0] == 'c' && p[1] == 'd' &&
		    (!p[2] || strchr(BLANKS SEPARATORS, p[2])))
			add_cd_target(&target, p + 2);
		if (target.len && *target.data == '/' &&
		    shfs_path_is_below(root, target.data))
			return true;
		p = strpbrk(p, SEPARATORS);
		if (!p)
			return false;
	}
}

static int check_step(struct shfs_workflow *wf, const struct shfs_step *step)
{
	_cleanup_buf_ struct shfs_buf shown = { 0 };
	const char *text = step->entry->command.text;

	for (size_t i = 0; i < wf->roots.n; i++) {
		if (!shfs_text_names_path(text, wf->roots.list[i]) &&
		    !goes_above(text, wf->roots.list[i]))
			continue;
		shfs_step_show(&shown, wf, step);
		shfs_error("%s names files by their absolute paths: run elsewhere, it "
		           "would use those",
		           shown.data ?: "");
		return SHFS_EXIT_REFUSED;
	}
	return 0;
}

static void warn_of_source(const struct shfs_version *version)
{
	_cleanup_buf_ struct shfs_buf shown = { 0 };

	shfs_show_version(&shown, version->path, version->n);
	if (!(version->flags & SHFS_CONTENT_OBJECT))
		shfs_warn("%s is not archived: the file of that name is used, if it is "
		          "still the same",
		          shown.data ?: "");
	else if (version->flags & SHFS_CONTENT_INCOMPLETE)
		shfs_warn("%s is incomplete: it changed while it was captured",
		          shown.data ?: "");
}

int shfs_workflow_check(struct shfs_workflow *wf)
{
	int r = 0;

	for (size_t i = 0; i < wf->n_steps && !r; i++)
		if (wf->steps[i]->entry)
			r = check_step(wf, wf->steps[i]);
	for (size_t i = 0; i < wf->n_steps && !r; i++)
		if (wf->steps[i]->source)
			warn_of_source(&wf->steps[i]->source->version);
	return r;
}

#define LOOK_AT_MAX 65536 /* bytes of a file */

void shfs_workflow_look_at_contents(struct shfs_workflow *wf, struct shfs_store *store)
{
	for (size_t i = 0; i < wf->files.n; i++) {
		const struct shfs_version *v = &wf->files.list[i]->version;
		_cleanup_buf_ struct shfs_buf text = { 0 }, shown = { 0 };
		bool found = false;

		if (!wf->files.list[i]->needed || !(v->flags & SHFS_CONTENT_OBJECT) ||
		    v->size > LOOK_AT_MAX ||
		    shfs_object_read(store, &v->object, LOOK_AT_MAX, &text))
			continue;
		for (size_t k = 0; k < wf->roots.n && text.len && !found; k++)
			found = shfs_text_names_path(text.data, wf->roots.list[k]);
		if (!found)
			continue;
		shfs_show_version(&shown, v->path, v->n);
		shfs_warn("%s names files by their absolute paths: run elsewhere, a "
		          "command that reads it may use those",
		          shown.data ?: "");
	}
}
