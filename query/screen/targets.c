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

struct act {
	struct shfs_context *ctx;
	struct shfs_index *index;
	struct shfs_screen *screen;
	const struct shfs_targets *targets;
};

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
}
#define _cleanup_words_ _cleanup_(clear_words)

static void add_word(struct words *w, const char *word)
{
	w->failed = w->failed || !word || !MAKE_ROOM(w->list, w->n, w->cap);
	if (!w->failed && !(w->list[w->n] = strdup(word)))
		w->failed = true;
	else if (!w->failed)
		w->n++;
}

/* Adds PATH@N. */
static void add_version_word(struct words *w, const char *path, int64_t n)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };

	shfs_buf_printf(&text, "%s@%lld", path, (long long)n);
	add_word(w, text.failed ? NULL : text.data);
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

static int run_words(const struct act *a, struct words *w)
{
	if (w->failed || !MAKE_ROOM(w->list, w->n, w->cap))
		return -ENOMEM;
	w->list[w->n] = NULL;
	shfs_screen_run(a->screen, a->ctx, (const char *const *)w->list);
	return 0;
}

static int show_one(const struct act *a, const struct shfs_hay *hay)
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
	return r ? r : run_words(a, &w);
}

static int diff_versions(const struct act *a, const char *path, int64_t from, int64_t to)
{
	_cleanup_words_ struct words w = { 0 };

	add_word(&w, "diff");
	add_word(&w, "--");
	add_version_word(&w, path, MAX(from, (int64_t)1));
	if (from) /* without a version before: with the file as it is now */
		add_version_word(&w, path, to);
	return run_words(a, &w);
}

/* Compares each file that the command changed, before its first change and after the
 * last one. */
static int diff_command(const struct act *a, int64_t command_id)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open_ints(
		a->index,
		"SELECT v.path, min(v.n), max(v.n) FROM v_access a CROSS JOIN v_version v"
		" ON v.file_id = a.made_file_id AND v.n = a.made_n"
		" WHERE a.command_id = ?1 AND v.n > 1 GROUP BY v.file_id ORDER BY 1",
		SHFS_INTS(command_id), &rows);

	while (!r && (r = shfs_rows_next(rows)) > 0)
		r = diff_versions(a, shfs_rows_text(rows, 0), shfs_rows_int(rows, 1) - 1,
		                  shfs_rows_int(rows, 2));
	return r;
}

static int diff_one(const struct act *a, const struct shfs_hay *hay)
{
	_cleanup_free_ char *path = NULL;
	int r;

	if (!hay->is_file)
		return diff_command(a, hay->id);
	r = shfs_targets_path(a->index, hay->id, &path);
	return r ? r : diff_versions(a, path, (int64_t)hay->times - 1, hay->times);
}

static int restore_one(const struct act *a, const struct shfs_hay *hay, bool dry_run)
{
	_cleanup_words_ struct words w = { 0 };
	_cleanup_free_ char *path = NULL;
	int r;

	add_word(&w, "restore");
	if (dry_run)
		add_word(&w, "--dry-run");
	add_word(&w, hay->is_file ? "--" : "--command");
	r = hay->is_file ? shfs_targets_path(a->index, hay->id, &path)
	                 : add_command_word(a->index, hay->id, &w);
	if (!r && path)
		add_version_word(&w, path, hay->times);
	return r ? r : run_words(a, &w);
}

static int restore_all(const struct act *a)
{
	int r = 0, key;

	for (size_t i = 0; i < a->targets->n && !r; i++)
		r = restore_one(a, &a->targets->list[i], true);
	if (r)
		return r;
	key = shfs_screen_ask(a->screen, "\r\nRestore this? [y/N] ");
	shfs_screen_leave(a->screen);
	for (size_t i = 0; i < a->targets->n && !r && (key == 'y' || key == 'Y'); i++)
		r = restore_one(a, &a->targets->list[i], false);
	return r;
}

/* Undoes in the file what made its last version; it is undone there alone. */
static int undo_file(const struct act *a, const struct shfs_hay *hay)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	_cleanup_words_ struct words w = { 0 };
	_cleanup_free_ char *path = NULL;
	int r = shfs_targets_path(a->index, hay->id, &path);

	if (!r)
		r = shfs_rows_open_ints(
			a->index,
			"SELECT command_id FROM v_version WHERE file_id = ?1"
			" AND command_id IS NOT NULL ORDER BY n DESC LIMIT 1",
			SHFS_INTS(hay->id), &rows);
	if (!r)
		r = shfs_rows_next(rows);
	if (r <= 0) {
		shfs_screen_ask(a->screen, "no command made it: a key goes on ");
		return r;
	}
	add_word(&w, "undo");
	r = add_command_word(a->index, shfs_rows_int(rows, 0), &w);
	add_word(&w, path);
	return r ? r : run_words(a, &w);
}

/* Adds all targets of a kind, commands each behind the option, if there is one. */
static int add_targets(const struct act *a, bool files, const char *option,
                       struct words *w)
{
	int r = 0;

	for (size_t i = 0; i < a->targets->n && !r; i++) {
		const struct shfs_hay *hay = &a->targets->list[i];
		_cleanup_free_ char *path = NULL;

		if (hay->is_file != files)
			continue;
		if (option)
			add_word(w, option);
		r = files ? shfs_targets_path(a->index, hay->id, &path)
		          : add_command_word(a->index, hay->id, w);
		if (!r && files)
			add_word(w, path);
	}
	return r;
}

/* All commands are undone at once, shown as a whole and asked for once; then each file.
 */
static int undo_all(const struct act *a)
{
	_cleanup_words_ struct words w = { 0 };
	int r;

	add_word(&w, "undo");
	r = add_targets(a, false, NULL, &w);
	if (!r && w.n > 1)
		r = run_words(a, &w);
	for (size_t i = 0; i < a->targets->n && !r; i++)
		if (a->targets->list[i].is_file)
			r = undo_file(a, &a->targets->list[i]);
	return r;
}

/* Together, commands and files would select what these commands did with these files.
 * After the first, no id is valid. */
static int forget_all(const struct act *a)
{
	_cleanup_words_ struct words commands = { 0 }, files = { 0 };
	int r;

	add_word(&commands, "forget");
	r = add_targets(a, false, "--command", &commands);
	add_word(&files, "forget");
	add_word(&files, "--");
	if (!r)
		r = add_targets(a, true, NULL, &files);
	if (!r && commands.n > 1)
		r = run_words(a, &commands);
	if (!r && files.n > 2)
		r = run_words(a, &files);
	return r;
}

static int do_action(const struct act *a, enum shfs_action action)
{
	int r = 0;

	switch (action) {
	case SHFS_ACTION_SHOW:
	case SHFS_ACTION_DIFF:
		for (size_t i = 0; i < a->targets->n && !r; i++)
			r = (action == SHFS_ACTION_SHOW
			             ? show_one
			             : diff_one)(a, &a->targets->list[i]);
		return r;
	case SHFS_ACTION_RESTORE:
		return restore_all(a);
	case SHFS_ACTION_UNDO:
		return undo_all(a);
	case SHFS_ACTION_FORGET:
		return forget_all(a);
	}
	return r;
}

int shfs_targets_act(struct shfs_context *ctx, struct shfs_index *index,
                     struct shfs_screen *screen, enum shfs_action action,
                     const struct shfs_targets *targets)
{
	const struct act a = { ctx, index, screen, targets };
	int r;

	shfs_screen_leave(screen);
	r = do_action(&a, action);
	if (!r)
		shfs_screen_ask(screen, "\r\nany key: back to the search ");
	shfs_screen_return(screen);
	return r == -ENOENT ? 0 : r; /* it was forgotten meanwhile */
}
