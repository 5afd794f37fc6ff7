/* SPDX-License-Identifier: MIT */
#include "query/screen/targets.h"

#include "common/path.h"
#include "common/quote.h"
#include "query/base/model.h"

#include <errno.h>
#include <string.h>

void shfs_targets_clear(struct shfs_targets *t)
{
	free(t->list);
	*t = (struct shfs_targets){ 0 };
}

/* --- the set --- */

static size_t index_of(const struct shfs_targets *t, const struct shfs_hay *hay)
{
	size_t i = 0;

	while (i < t->n &&
	       (t->list[i].id != hay->id || t->list[i].is_file != hay->is_file))
		i++;
	return i;
}

bool shfs_targets_has(const struct shfs_targets *t, const struct shfs_hay *hay)
{
	return index_of(t, hay) < t->n;
}

int shfs_targets_toggle(struct shfs_targets *t, const struct shfs_hay *hay)
{
	size_t i = index_of(t, hay);

	if (i < t->n) {
		t->n--;
		memmove(t->list + i, t->list + i + 1, (t->n - i) * sizeof(*t->list));
		return 0;
	}
	if (!MAKE_ROOM(t->list, t->n, t->cap))
		return -ENOMEM;
	t->list[t->n++] = *hay;
	return 0;
}

/* --- texts --- */

int shfs_targets_path(struct shfs_index *index, int64_t file_id, char **path)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open_ints(index, "SELECT path FROM v_file WHERE file_id = ?1",
	                            SHFS_INTS(file_id), &rows);

	if (!r)
		r = shfs_rows_next(rows);
	if (r <= 0)
		return r ? r : -ENOENT;
	*path = strdup(shfs_rows_text(rows, 0));
	return *path ? 0 : -ENOMEM;
}

/* Adds the path as a program takes it: never like an option. */
static void add_path(const char *path, const char *shell, struct shfs_buf *out)
{
	_cleanup_free_ char *name = shfs_path_operand(path);

	if (!name)
		out->failed = true;
	else if (!shell)
		shfs_buf_str(out, name);
	else if (!strcmp(shell, "fish"))
		shfs_quote_fish(out, name, strlen(name));
	else
		shfs_quote_shell(out, name, strlen(name));
}

static int add_text(struct shfs_index *index, const struct shfs_hay *hay,
                    const char *shell, struct shfs_buf *out)
{
	_cleanup_command_ struct shfs_command_row c = { 0 };
	_cleanup_free_ char *path = NULL;
	int r = hay->is_file ? shfs_targets_path(index, hay->id, &path)
	                     : MIN(shfs_command_load(index, hay->id, &c), 0);

	if (r)
		return r;
	if (hay->is_file)
		add_path(path, shell, out);
	else if (c.text)
		shfs_buf_add(out, c.text, c.text_len);
	return out->failed ? -ENOMEM : 0;
}

int shfs_targets_text(struct shfs_index *index, const struct shfs_targets *t,
                      struct shfs_buf *out)
{
	int r = 0;

	for (size_t i = 0; i < t->n && !r; i++) {
		shfs_buf_str(out, i ? "\n" : "");
		r = add_text(index, &t->list[i], NULL, out);
	}
	return r;
}

const char *shfs_last_word(const char *line)
{
	const char *blank = strrchr(line, ' ');

	return blank ? blank + 1 : line;
}

int shfs_targets_line(struct shfs_index *index, const struct shfs_targets *t,
                      const char *line, const char *shell, struct shfs_buf *out)
{
	const char *before = "";
	int r = 0;

	for (size_t i = 0; i < t->n && !r; i++) {
		if (t->list[i].is_file)
			continue;
		shfs_buf_str(out, before);
		r = add_text(index, &t->list[i], shell, out);
		before = "\n";
	}
	if (!*before)
		shfs_buf_add(out, line, shfs_last_word(line) - line);
	before = *before ? " " : "";
	for (size_t i = 0; i < t->n && !r; i++) {
		if (!t->list[i].is_file)
			continue;
		shfs_buf_str(out, before);
		r = add_text(index, &t->list[i], shell, out);
		before = " ";
	}
	return r;
}

/* --- what is done --- */

/* The words of a command line; owns those that were made for it. */
struct words {
	char **list; /* ends with NULL */
	size_t n, cap;
	bool failed;
};

static void clear_words(struct words *w)
{
	for (size_t i = 0; i < w->n; i++)
		free(w->list[i]);
	free(w->list);
	*w = (struct words){ 0 };
}
#define _cleanup_words_ _cleanup_(clear_words)

/*
 * The commands of an action are all made before the first one runs: then each names what
 * was on the screen by names that stay (an id of a command, a path, the number of a
 * version), however long the user looks at one, and whatever another terminal does.
 */
struct act {
	struct shfs_context *ctx;
	struct shfs_index *index;
	struct shfs_screen *screen;
	const struct shfs_targets *targets;
	struct words *list; /* a command line each */
	size_t n, cap;
	size_t gone;   /* targets that are no longer in the history */
	size_t unmade; /* files to undo whose last version no command made */
};

static void clear_act(struct act *a)
{
	for (size_t i = 0; i < a->n; i++)
		clear_words(&a->list[i]);
	free(a->list);
}
#define _cleanup_act_ _cleanup_(clear_act)

static void add_word(struct words *w, const char *word)
{
	w->failed = w->failed || !word || !MAKE_ROOM(w->list, w->n, w->cap);
	if (!w->failed && !(w->list[w->n] = strdup(word)))
		w->failed = true;
	else if (!w->failed)
		w->n++;
}

/* Adds PATH@N: with zeros before the number, as long as there is a file of this name. */
static int add_version_word(struct shfs_index *index, struct words *w, const char *path,
                            int64_t n)
{
	int r = 1;

	for (int digits = 1; r > 0; digits++) {
		_cleanup_buf_ struct shfs_buf text = { 0 };
		_cleanup_free_ char *file = NULL;

		shfs_buf_printf(&text, "%s@%0*lld", path, digits, (long long)n);
		r = text.failed ? -ENOMEM : shfs_operand_file(index, text.data, &file);
		if (!r)
			add_word(w, text.data);
	}
	return r;
}

/* Adds the id of a command. */
static int add_command_word(struct shfs_index *index, int64_t id, struct words *w)
{
	_cleanup_command_ struct shfs_command_row c = { 0 };
	int r = shfs_command_load(index, id, &c);

	if (r > 0)
		add_word(w, c.id);
	return r > 0 ? 0 : r ? r : -ENOENT;
}

/* Adds a command line, which it takes over. */
static int add_line(struct act *a, struct words *w)
{
	if (w->failed || !MAKE_ROOM(w->list, w->n, w->cap) ||
	    !MAKE_ROOM(a->list, a->n, a->cap))
		return -ENOMEM;
	w->list[w->n] = NULL;
	a->list[a->n++] = *w;
	*w = (struct words){ 0 };
	return 0;
}

static void run_lines(const struct act *a)
{
	for (size_t i = 0; i < a->n; i++)
		shfs_screen_run(a->screen, a->ctx, (const char *const *)a->list[i].list);
}

static int add_show(struct act *a, const struct shfs_hay *hay)
{
	_cleanup_words_ struct words w = { 0 };
	_cleanup_free_ char *path = NULL;
	int r;

	add_word(&w, hay->is_file ? "log" : "show");
	add_word(&w, "--");
	r = hay->is_file ? shfs_targets_path(a->index, hay->id, &path)
	                 : add_command_word(a->index, hay->id, &w);
	if (!r && path)
		add_word(&w, path);
	return r ? r : add_line(a, &w);
}

static int add_diff_versions(struct act *a, const char *path, int64_t from, int64_t to)
{
	_cleanup_words_ struct words w = { 0 };
	int r;

	add_word(&w, "diff");
	add_word(&w, "--");
	r = add_version_word(a->index, &w, path, MAX(from, (int64_t)1));
	if (!r && from) /* without a version before: with the file as it is now */
		r = add_version_word(a->index, &w, path, to);
	return r ? r : add_line(a, &w);
}

/* Compares each file that the command changed, before its first change and after the
 * last one. */
static int add_diff_command(struct act *a, int64_t command_id)
{
	_cleanup_command_ struct shfs_command_row c = { 0 };
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_command_load(a->index, command_id, &c);

	if (r <= 0)
		return r ? r : -ENOENT;
	r = shfs_rows_open_ints(
		a->index,
		"SELECT v.path, min(v.n), max(v.n) FROM v_access a CROSS JOIN v_version v"
		" ON v.file_id = a.made_file_id AND v.n = a.made_n"
		" WHERE a.command_id = ?1 AND v.n > 1 GROUP BY v.file_id ORDER BY 1",
		SHFS_INTS(command_id), &rows);
	while (!r && (r = shfs_rows_next(rows)) > 0)
		r = add_diff_versions(a, shfs_rows_text(rows, 0),
		                      shfs_rows_int(rows, 1) - 1, shfs_rows_int(rows, 2));
	return r;
}

static int add_diff(struct act *a, const struct shfs_hay *hay)
{
	_cleanup_free_ char *path = NULL;
	int r;

	if (!hay->is_file)
		return add_diff_command(a, hay->id);
	r = shfs_targets_path(a->index, hay->id, &path);
	return r ? r : add_diff_versions(a, path, (int64_t)hay->times - 1, hay->times);
}

#define DRY_RUN 1 /* the word that run_restores leaves out when it is answered */

static int add_restore(struct act *a, const struct shfs_hay *hay)
{
	_cleanup_words_ struct words w = { 0 };
	_cleanup_free_ char *path = NULL;
	int r;

	add_word(&w, "restore");
	add_word(&w, "--dry-run");
	add_word(&w, hay->is_file ? "--" : "--command");
	r = hay->is_file ? shfs_targets_path(a->index, hay->id, &path)
	                 : add_command_word(a->index, hay->id, &w);
	if (!r && path)
		r = add_version_word(a->index, &w, path, hay->times);
	return r ? r : add_line(a, &w);
}

static void run_restores(struct act *a)
{
	int key;

	run_lines(a);
	key = shfs_screen_ask(a->screen, "\r\nRestore this? [y/N] ");
	shfs_screen_leave(a->screen);
	if (key != 'y' && key != 'Y')
		return;
	for (size_t i = 0; i < a->n; i++) {
		struct words *w = &a->list[i];

		free(w->list[DRY_RUN]);
		memmove(w->list + DRY_RUN, w->list + DRY_RUN + 1,
		        (w->n - DRY_RUN) * sizeof(*w->list)); /* the NULL, too */
		w->n--;
	}
	run_lines(a);
}

/* Undoes in the file what made its last version; it is undone there alone. */
static int add_undo_file(struct act *a, const struct shfs_hay *hay)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	_cleanup_words_ struct words w = { 0 };
	_cleanup_free_ char *path = NULL;
	int r = shfs_targets_path(a->index, hay->id, &path);

	if (!r)
		r = shfs_rows_open_ints(a->index,
		                        "SELECT command_id FROM v_version"
		                        " WHERE file_id = ?1 ORDER BY n DESC LIMIT 1",
		                        SHFS_INTS(hay->id), &rows);
	if (!r)
		r = shfs_rows_next(rows);
	if (r < 0)
		return r;
	if (!r || !shfs_rows_int(rows, 0)) {
		a->unmade++;
		return 0;
	}
	add_word(&w, "undo");
	r = add_command_word(a->index, shfs_rows_int(rows, 0), &w);
	add_word(&w, path);
	return r ? r : add_line(a, &w);
}

static int add_one(struct act *a, enum shfs_action action, const struct shfs_hay *hay)
{
	switch (action) {
	case SHFS_ACTION_SHOW:
		return add_show(a, hay);
	case SHFS_ACTION_DIFF:
		return add_diff(a, hay);
	case SHFS_ACTION_RESTORE:
		return add_restore(a, hay);
	default:
		return add_undo_file(a, hay);
	}
}

/* Counts a target that is gone; the others are not less asked for. */
static int count_gone(struct act *a, int r)
{
	a->gone += r == -ENOENT;
	return r == -ENOENT ? 0 : r;
}

/* Adds a command line of all targets of a kind, commands each behind the option, if there
 * is one. */
static int add_together(struct act *a, const char *verb, bool files, const char *option)
{
	_cleanup_words_ struct words w = { 0 };
	size_t n;
	int r = 0;

	add_word(&w, verb);
	if (files)
		add_word(&w, "--");
	n = w.n;
	for (size_t i = 0; i < a->targets->n && !r; i++) {
		const struct shfs_hay *hay = &a->targets->list[i];
		_cleanup_words_ struct words found = { 0 };
		_cleanup_free_ char *path = NULL;

		if (hay->is_file != files)
			continue;
		r = files ? shfs_targets_path(a->index, hay->id, &path)
		          : add_command_word(a->index, hay->id, &found);
		if (!r && option)
			add_word(&w, option);
		if (!r)
			add_word(&w, files ? path : found.n ? found.list[0] : NULL);
		r = count_gone(a, r);
	}
	return r ? r : w.n > n || w.failed ? add_line(a, &w) : 0;
}

static int add_each(struct act *a, enum shfs_action action, bool only_files)
{
	int r = 0;

	for (size_t i = 0; i < a->targets->n && !r; i++)
		if (a->targets->list[i].is_file || !only_files)
			r = count_gone(a, add_one(a, action, &a->targets->list[i]));
	return r;
}

/*
 * All commands are undone at once, shown as a whole and asked for once; then each file.
 * To forget, commands and files are apart: together, they would select what these
 * commands did with these files.
 */
static int add_lines(struct act *a, enum shfs_action action)
{
	int r;

	switch (action) {
	case SHFS_ACTION_UNDO:
		r = add_together(a, "undo", false, NULL);
		return r ? r : add_each(a, action, true);
	case SHFS_ACTION_FORGET:
		r = add_together(a, "forget", false, "--command");
		return r ? r : add_together(a, "forget", true, NULL);
	default:
		return add_each(a, action, false);
	}
}

/* Waits for a key, and says before what was not done. */
static int wait_for_key(const struct act *a)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };

	if (a->unmade)
		shfs_buf_printf(&text,
		                "\r\nno command made the last version of %zu file%s",
		                a->unmade, a->unmade == 1 ? "" : "s");
	if (a->gone)
		shfs_buf_printf(&text, "\r\n%zu %s no longer in the history", a->gone,
		                a->gone == 1 ? "is" : "are");
	shfs_buf_str(&text, "\r\nany key: back to the search ");
	if (text.failed)
		return -ENOMEM;
	shfs_screen_ask(a->screen, text.data);
	return 0;
}

int shfs_targets_check(struct shfs_index *index, int64_t rebuilt)
{
	struct shfs_index_state state;
	int r = shfs_index_look(index, &state);

	return r ? r : state.rebuilt == rebuilt ? 0 : -ESTALE;
}

int shfs_targets_act(struct shfs_context *ctx, struct shfs_index *index, int64_t rebuilt,
                     struct shfs_screen *screen, enum shfs_action action,
                     const struct shfs_targets *targets)
{
	_cleanup_act_ struct act a = {
		.ctx = ctx, .index = index, .screen = screen, .targets = targets
	};
	int r = add_lines(&a, action);

	/* at last, for all that was read before */
	if (!r)
		r = shfs_targets_check(index, rebuilt);
	if (r)
		return r;
	shfs_screen_leave(screen);
	if (action == SHFS_ACTION_RESTORE && a.n)
		run_restores(&a);
	else
		run_lines(&a);
	r = wait_for_key(&a);
	shfs_screen_return(screen);
	return r;
}
