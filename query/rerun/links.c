/* SPDX-License-Identifier: MIT */
#include "query/rerun/links.h"

#include "common/operand.h"
#include "common/path.h"
#include "query/history/shell-text.h"
#include "query/rerun/before.h"
#include "store/objects/object.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define WAY_MAX 40 /* links on the way to one file, as the kernel has it */

struct finding {
	const struct shfs_rerun *rr;
	const struct shfs_rerun_step *step;
	struct shfs_rerun_links *out;
	const char *cwd; /* of the words */
};

/* Does the step run on what is there now? */
static bool is_as_now(const struct finding *f)
{
	return f->step->stale;
}

static bool is_below_base(const struct finding *f, const char *path)
{
	return shfs_path_is_below(path, f->rr->base);
}

/* Was the link no input of the step: did it make it, or what holds it? */
static bool is_made(const struct finding *f, const char *path)
{
	const struct shfs_uses *uses = &f->step->entry.uses;
	_cleanup_free_ char *dir = strndup(path, strrchr(path, '/') - path);

	for (size_t i = 0; i < uses->n; i++)
		if (uses->list[i].kind != SHFS_USE_READ && !uses->list[i].read_id &&
		    !strcmp(uses->list[i].path, path))
			return true;
	for (size_t i = 0; i < uses->n_temporary; i++)
		if (!strcmp(uses->temporary[i].path, path))
			return true;
	return !dir || shfs_uses_make_dir(uses, dir);
}

/* Returns the path to which the text leads, as it is written. NULL: no memory. */
static char *find_leads_to(const char *path, const char *text)
{
	_cleanup_free_ char *dir = strndup(path, strrchr(path, '/') - path);
	_cleanup_free_ char *joined = dir ? shfs_path_join(dir, text) : NULL;

	return joined ? shfs_path_absolute(joined) : NULL;
}

/* Returns the text of the link in the copy: the same one, if it leads to the same there.
 * NULL: no memory. */
static char *find_copy_text(const struct finding *f, const char *path, const char *text)
{
	_cleanup_free_ char *leads = find_leads_to(path, text), *dir = NULL;
	_cleanup_free_ char *place = shfs_rerun_place(f->rr, path), *there = NULL;

	if (!leads || !place)
		return NULL;
	if (!is_below_base(f, leads)) {
		/* not made shorter: ".." may stand behind another link */
		dir = strndup(path, strrchr(path, '/') - path);
		return dir ? shfs_path_join(dir, text) : NULL;
	}
	there = find_leads_to(place, text);
	free(TAKE_PTR(place));
	place = shfs_rerun_place(f->rr, leads);
	if (!there || !place)
		return NULL;
	return *text != '/' && !strcmp(there, place) ? strdup(text) : TAKE_PTR(place);
}

static int add_link(struct finding *f, const char *path, const char *text)
{
	struct shfs_rerun_links *out = f->out;
	struct shfs_rerun_link link = { 0 };

	if (!is_below_base(f, path) || is_made(f, path))
		return 0;
	for (size_t i = 0; i < out->n; i++)
		if (!strcmp(out->list[i].path, path))
			return 0;
	if (!MAKE_ROOM(out->list, out->n, out->cap))
		return -ENOMEM;
	link.path = strdup(path);
	link.text = find_copy_text(f, path, text);
	out->list[out->n++] = link;
	return link.path && link.text ? 0 : -ENOMEM;
}

static int add_file(struct finding *f, const char *path)
{
	struct shfs_rerun_links *out = f->out;
	char *copy;

	if (!is_below_base(f, path) || is_made(f, path))
		return 0;
	for (size_t i = 0; i < out->n_files; i++)
		if (!strcmp(out->files[i], path))
			return 0;
	copy = MAKE_ROOM(out->files, out->n_files, out->files_cap) ? strdup(path) : NULL;
	if (!copy)
		return -ENOMEM;
	out->files[out->n_files++] = copy;
	return 0;
}

/* --- links where they lie --- */

struct way {
	struct shfs_rerun_link *list; /* text: as it lies there */
	size_t n, cap;
	char *end; /* where it leads; NULL: to nothing */
};

static void way_clear(struct way *way)
{
	for (size_t i = 0; i < way->n; i++) {
		free(way->list[i].path);
		free(way->list[i].text);
	}
	free(way->list);
	free(way->end);
}
#define _cleanup_way_ _cleanup_(way_clear)

/* Reads a link: 1 and its text, which the caller frees; 0: it is none. */
static int read_text(const char *path, char **out)
{
	char text[PATH_MAX];
	ssize_t n = readlink(path, text, sizeof(text) - 1);

	if (n < 0)
		return 0;
	text[n] = '\0';
	*out = strdup(text);
	return *out ? 1 : -ENOMEM;
}

/* Follows the first link below the base on the way to *path: 1, and *path is where it
 * leads; 0: there is none. */
static int follow_first(const struct finding *f, struct way *way, char **path)
{
	const char *rest = shfs_path_relative(*path, f->rr->base);

	while (rest && *rest) {
		size_t len = strcspn(rest, "/");
		_cleanup_free_ char *link = strndup(*path, rest + len - *path);
		_cleanup_free_ char *text = NULL, *leads = NULL, *joined = NULL;
		int r = link ? read_text(link, &text) : -ENOMEM;

		rest += len + !!rest[len];
		if (r < 0)
			return r;
		if (!r)
			continue;
		leads = find_leads_to(link, text);
		joined = leads ? shfs_path_join(leads, rest) : NULL;
		if (!joined || !MAKE_ROOM(way->list, way->n, way->cap))
			return -ENOMEM;
		way->list[way->n++] =
			(struct shfs_rerun_link){ TAKE_PTR(link), TAKE_PTR(text) };
		free(*path);
		*path = shfs_path_absolute(joined);
		return *path ? 1 : -ENOMEM;
	}
	return 0;
}

static int follow_way(const struct finding *f, const char *path, struct way *out)
{
	_cleanup_free_ char *at = strdup(path);
	int r = at ? 1 : -ENOMEM;

	while (r > 0 && out->n < WAY_MAX)
		r = follow_first(f, out, &at);
	if (!r)
		out->end = TAKE_PTR(at);
	return MIN(r, 0);
}

/* Did the step use the file, or one in this directory? */
static bool is_used(const struct finding *f, const char *path)
{
	const struct shfs_uses *uses = &f->step->entry.uses;

	for (size_t i = 0; i < uses->n; i++)
		if (shfs_path_is_below(uses->list[i].path, path))
			return true;
	return false;
}

/* Adds what is in a directory now. */
static int add_directory(struct finding *f, const char *path)
{
	_cleanup_before_ struct shfs_before there = { 0 };
	int r = shfs_before_add_root(&there, path);

	if (!r)
		r = shfs_before_look(&there, f->rr->store);
	for (size_t i = 0; i < there.n && !r; i++) {
		if (S_ISREG(there.list[i]->mode))
			r = add_file(f, there.list[i]->path);
		else if (S_ISLNK(there.list[i]->mode))
			r = add_link(f, there.list[i]->path, there.list[i]->text ?: "");
	}
	return r;
}

/* Adds the links on the way to path as they lie there. moved: the first of them led
 * elsewhere then. Of a past run only those that lead outside, or to what it used. */
static int add_way(struct finding *f, const char *path, bool moved)
{
	_cleanup_way_ struct way way = { 0 };
	struct stat st;
	int r = follow_way(f, path, &way);

	if (r || !way.n)
		return r;
	if (!is_as_now(f) &&
	    (!way.end || (is_below_base(f, way.end) && !is_used(f, way.end))))
		return 0;
	for (size_t i = 0; i < way.n && !r; i++)
		r = add_link(f, way.list[i].path, way.list[i].text);
	if (r || !is_as_now(f) || !way.end || !is_below_base(f, way.end) ||
	    lstat(way.end, &st))
		return r;
	if (S_ISREG(st.st_mode))
		return add_file(f, way.end);
	return moved && S_ISDIR(st.st_mode) ? add_directory(f, way.end) : 0;
}

/* --- recorded links --- */

static bool is_text_of(const struct shfs_version *link, const char *text)
{
	size_t len = strlen(text);

	return link->size == len &&
	       shfs_phash_kept(link->phash) ==
	               shfs_phash_kept(shfs_object_hash64(text, len));
}

/* Looks for the text in the links that were made or removed there, or moved there. */
static int look_up_text(const struct finding *f, const struct shfs_version *link,
                        char **out)
{
	static const char *const questions[] = {
		"SELECT path2 FROM v_access WHERE file_id = ?1 AND is_open = 0"
		" AND op IN ('symlink', 'unlink') AND path2 IS NOT NULL",
		"SELECT s.path2 FROM v_access AS r JOIN v_access AS s"
		" ON s.file_id = r.file_id WHERE r.file2_id = ?1 AND r.is_open = 0"
		" AND r.op = 'rename' AND s.is_open = 0 AND s.op = 'symlink'"
		" AND s.path2 IS NOT NULL",
	};

	for (size_t i = 0; i < ARRAY_SIZE(questions); i++) {
		_cleanup_rows_ struct shfs_rows *rows = NULL;
		int r = shfs_rows_open_ints(f->rr->index, questions[i],
		                            SHFS_INTS(link->file_id), &rows);

		while (!r && (r = shfs_rows_next(rows)) > 0) {
			if (is_text_of(link, shfs_rows_text(rows, 0))) {
				*out = strdup(shfs_rows_text(rows, 0));
				return *out ? 1 : -ENOMEM;
			}
			r = 0;
		}
		if (r < 0)
			return r;
	}
	return 0;
}

static int note_unknown(struct finding *f, const char *path)
{
	if (f->out->unknown || is_made(f, path))
		return 0;
	f->out->unknown = strdup(path);
	return f->out->unknown ? 0 : -ENOMEM;
}

static int add_recorded(struct finding *f, const struct shfs_version *link)
{
	_cleanup_free_ char *now = NULL, *then = NULL;
	bool here = shfs_path_is_here(link->path);
	int r = here ? read_text(link->path, &now) : 0;
	struct stat st;

	if (r < 0)
		return r;
	if (now && (is_as_now(f) || is_text_of(link, now)))
		return is_as_now(f) ? add_way(f, link->path, !is_text_of(link, now))
		                    : add_link(f, link->path, now);
	if (is_as_now(f) && here && !lstat(link->path, &st))
		return S_ISDIR(st.st_mode) ? add_directory(f, link->path)
		                           : add_file(f, link->path);
	r = look_up_text(f, link, &then);
	if (r > 0)
		return add_link(f, link->path, then);
	return r ? r : note_unknown(f, link->path);
}

static int add_all_recorded(struct finding *f)
{
	const struct shfs_uses *uses = &f->step->entry.uses;
	int r = 0;

	for (size_t i = 0; i < uses->n && r >= 0; i++) {
		_cleanup_version_ struct shfs_version link = { 0 };

		if (!uses->list[i].named || !uses->list[i].read_id ||
		    !is_below_base(f, uses->list[i].path))
			continue;
		r = shfs_version_load(f->rr->index, uses->list[i].read_id, &link);
		if (r > 0 && S_ISLNK(link.mode))
			r = add_recorded(f, &link);
	}
	return MIN(r, 0);
}

/* --- what the words name --- */

static int add_word(struct finding *f, const char *word)
{
	_cleanup_free_ char *joined = shfs_path_join(f->cwd, word);
	_cleanup_free_ char *path = joined ? shfs_path_absolute(joined) : NULL;

	if (!path)
		return -ENOMEM;
	return is_below_base(f, path) ? add_way(f, path, false) : 0;
}

static int add_text_word(const struct shfs_word *word, void *arg)
{
	_cleanup_free_ char *text = strndup(word->text, word->len);

	return text ? add_word(arg, text) : -ENOMEM;
}

static int add_operand(const char *operand, bool is_output, void *arg)
{
	(void)is_output;
	return add_word(arg, operand);
}

static int add_named(struct finding *f)
{
	const struct shfs_command_row *c = &f->step->entry.command;
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r;

	if (!shfs_path_is_here(c->cwd))
		return 0;
	f->cwd = c->cwd;
	r = shfs_text_words(c->text ?: "", add_text_word, f);
	if (!r)
		r = shfs_rows_open_ints(f->rr->index,
		                        "SELECT" SHFS_PROCESS_COLUMNS
		                        "FROM v_process WHERE command_id = ?1",
		                        SHFS_INTS(c->command_id), &rows);
	while (!r && (r = shfs_rows_next(rows)) > 0) {
		_cleanup_process_ struct shfs_process_row p = { 0 };

		r = shfs_process_from_row(rows, &p);
		f->cwd = p.cwd;
		r = r < 0 || !p.cwd || *p.cwd != '/'
		            ? MIN(r, 0)
		            : shfs_operands_each(p.exe, p.argv, p.argv_len, add_operand,
		                                 f);
	}
	return r;
}

int shfs_rerun_links_find(const struct shfs_rerun *rr, const struct shfs_rerun_step *step,
                          struct shfs_rerun_links *out)
{
	struct finding f = { .rr = rr, .step = step, .out = out };

	return add_all_recorded(&f) ?: add_named(&f);
}

void shfs_rerun_links_clear(struct shfs_rerun_links *links)
{
	for (size_t i = 0; i < links->n; i++) {
		free(links->list[i].path);
		free(links->list[i].text);
	}
	for (size_t i = 0; i < links->n_files; i++)
		free(links->files[i]);
	free(links->list);
	free(links->files);
	free(links->unknown);
	*links = (struct shfs_rerun_links){ 0 };
}
