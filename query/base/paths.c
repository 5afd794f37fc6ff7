/* SPDX-License-Identifier: MIT */
/* Paths of the index: what operands mean, which are known, and how they are shown. */
#include "query/base/context.h"
#include "query/base/model.h"

#include "common/path.h"
#include "common/quote.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- operands --- */

/* Resolves the part of an absolute path that exists, and keeps the rest. */
static char *resolve_prefix(const char *absolute)
{
	_cleanup_free_ char *head = strdup(absolute);
	char *slash;

	while (head && (slash = strrchr(head, '/')) && slash != head) {
		_cleanup_free_ char *real = NULL;

		*slash = '\0';
		real = realpath(head, NULL);
		if (real)
			return shfs_path_join(real, absolute + strlen(head) + 1);
	}
	return head ? strdup(absolute) : NULL;
}

bool shfs_path_is_here(const char *path)
{
	return *path == '/';
}

bool shfs_path_is_same_tree(const char *a, const char *b)
{
	size_t len = strcspn(a, "/");

	return strcspn(b, "/") == len && !memcmp(a, b, len);
}

/* Reads "hostb:~/p", if there is such a tree: 1, and the path that the index has. */
static int read_tree_operand(const char *operand, char **out)
{
	const char *colon = operand + strcspn(operand, ":/"), *home, *rest = colon + 1;
	_cleanup_free_ char *below = NULL, *path = NULL;

	if (*colon != ':' || colon == operand || (*rest != '/' && *rest != '~'))
		return 0;
	home = shfs_context_trees()
	               ? shfs_trees_home(shfs_context_trees(), operand, colon - operand)
	               : NULL;
	if (!home || (*rest == '~' && (!*home || (rest[1] && rest[1] != '/'))))
		return 0;
	if (*rest == '~') {
		below = shfs_path_join(home, rest + 1 + strspn(rest + 1, "/"));
		rest = below;
	}
	path = rest ? shfs_path_absolute(rest) : NULL;
	if (!path || asprintf(out, "%.*s:%s", (int)(colon - operand), operand, path) < 0)
		return -ENOMEM;
	return 1;
}

char *shfs_operand_path(const char *operand)
{
	const char *slash = strrchr(operand, '/');
	const char *base = slash ? slash + 1 : operand;
	_cleanup_free_ char *parent = NULL, *real = NULL, *absolute = NULL;
	char *of_tree = NULL;
	struct stat st;
	int r = read_tree_operand(operand, &of_tree);

	if (r)
		return r > 0 ? of_tree : NULL;
	if (!stat(operand, &st) && S_ISDIR(st.st_mode) &&
	    (real = realpath(operand, NULL)))
		return TAKE_PTR(real);
	if (*base && strcmp(base, ".") && strcmp(base, "..")) {
		parent = slash ? strndup(operand, slash - operand + 1) : strdup(".");
		real = parent ? realpath(parent, NULL) : NULL;
		if (real)
			return shfs_path_join(real, base);
	}
	absolute = shfs_path_absolute(operand);
	return absolute ? resolve_prefix(absolute) : NULL;
}

int shfs_file_is_recorded(struct shfs_index *index, const char *path)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open_str(index,
	                           "SELECT 1 FROM v_file WHERE " SHFS_SQL_FILE("?1"),
	                           path, &rows);

	return r ? r : shfs_rows_next(rows);
}

char *shfs_path_operand(const char *path)
{
	_cleanup_free_ char *cwd = shfs_operand_path(".");
	_cleanup_buf_ struct shfs_buf name = { 0 };
	size_t len = cwd ? strlen(cwd) : 0;

	if (len > 1 && strcmp(path, cwd) != 0 && shfs_path_is_below(path, cwd))
		path += len + 1;
	shfs_buf_printf(&name, "%s%s", *path == '-' ? "./" : "", path);
	return shfs_buf_take(&name);
}

int shfs_operand_file(struct shfs_index *index, const char *operand, char **path)
{
	_cleanup_free_ char *first = shfs_operand_path(operand);
	_cleanup_free_ char *other = NULL;
	int r = first ? shfs_file_is_recorded(index, first) : -ENOMEM;

	if (!r && !shfs_path_is_here(first)) {
		*path = TAKE_PTR(first);
		return 0;
	}
	if (!r && (other = realpath(operand, NULL))) {
		r = shfs_file_is_recorded(index, other);
		if (!r)
			free(TAKE_PTR(other));
	}
	/* the link pointed elsewhere at that time */
	if (!r && (other = shfs_path_absolute(operand))) {
		r = shfs_file_is_recorded(index, other);
		if (!r)
			free(TAKE_PTR(other));
	}
	/* it is a copy of another tree's project */
	for (size_t i = 0; !r && (other = shfs_path_mapped(first, i)); i++) {
		r = shfs_file_is_recorded(index, other);
		if (!r)
			free(TAKE_PTR(other));
	}
	if (r >= 0)
		*path = other ? TAKE_PTR(other) : TAKE_PTR(first);
	return r;
}

char *shfs_path_mapped(const char *path, size_t i)
{
	const struct shfs_trees *trees = shfs_context_trees();

	return trees ? shfs_trees_mapped(trees, path, i) : NULL;
}

/* Is it below a directory that was ever mounted? */
static bool is_in_project(struct shfs_index *index, const char *path)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;

	if (shfs_rows_open(index, "SELECT DISTINCT root FROM v_producer", &rows))
		return false;
	while (shfs_rows_next(rows) > 0)
		if (shfs_path_is_below(path, shfs_rows_text(rows, 0)))
			return true;
	return false;
}

int shfs_path_is_known(struct shfs_index *index, const char *path)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	_cleanup_buf_ struct shfs_buf sql = { 0 };
	int r;

	shfs_buf_str(&sql, "SELECT EXISTS (");
	shfs_sql_list_files_below(&sql, 1);
	shfs_buf_str(&sql, ") OR EXISTS (SELECT 1 FROM v_command WHERE ");
	shfs_sql_below(&sql, "cwd", 1);
	shfs_buf_str(&sql, ")");
	if (sql.failed)
		return -ENOMEM;
	r = shfs_rows_open_str(index, sql.data, strcmp(path, "/") ? path : "", &rows);
	if (!r)
		r = shfs_rows_next(rows);
	return r > 0 ? shfs_rows_int(rows, 0) != 0 : r;
}

/* --- bookkeeping of programs --- */

static const char *const version_control[] = { ".git", ".hg", ".svn", ".bzr", ".jj" };
static const char *const caches[] = { "__pycache__", ".mypy_cache", ".pytest_cache",
	                              ".ruff_cache", ".tox",        ".ipynb_checkpoints",
	                              ".ninja_log",  ".ninja_deps", ".snakemake" };

/* Where the first component of path that is in names ends; 0: there is none. */
static size_t find_component(const char *path, const char *const *names, size_t n)
{
	const char *end;

	for (const char *p = path; *p; p = end) {
		size_t slashes = 0;

		while (p[slashes] == '/')
			slashes++;
		end = strchrnul(p + slashes, '/');
		if (p[slashes] != '.' && p[slashes] != '_')
			continue; /* none of the names begins like that */
		for (size_t i = 0; i < n; i++)
			if (p[slashes] == names[i][0] &&
			    (size_t)(end - p) == slashes + strlen(names[i]) &&
			    !memcmp(p + slashes, names[i], strlen(names[i])))
				return end - path;
	}
	return 0;
}

size_t shfs_path_bookkeeping(const char *path)
{
	return find_component(path, version_control, ARRAY_SIZE(version_control))
	               ?: find_component(path, caches, ARRAY_SIZE(caches))
	               ?: shfs_path_setting(path);
}

bool shfs_path_is_version_control(const char *path)
{
	return find_component(path, version_control, ARRAY_SIZE(version_control)) != 0;
}

/* --- a file that was never seen --- */

/* Names in the directory that are compared. */
#define NEIGHBOURS_MAX 1000

/* The file in the same directory whose name is most like that of path. NULL: none. */
static char *similar_neighbour(struct shfs_index *index, const char *path)
{
	const char *name = strrchr(path, '/') + 1, *meant;
	_cleanup_free_ char *dir = strndup(path, name - path - 1);
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	_cleanup_buf_ struct shfs_buf sql = { 0 };
	char *names[NEIGHBOURS_MAX], *found = NULL;
	size_t n = 0;

	shfs_buf_str(&sql, "SELECT name FROM v_file WHERE dir = ?1 AND name <> ''");
	if (!dir || sql.failed || shfs_rows_open(index, sql.data, &rows) ||
	    shfs_rows_bind_str(rows, 1, dir))
		return NULL;
	while (n < NEIGHBOURS_MAX && shfs_rows_next(rows) > 0)
		if ((names[n] = strdup(shfs_rows_text(rows, 0))))
			n++;
	meant = shfs_suggest(name, (const char *const *)names, n);
	if (meant)
		found = shfs_path_join(*dir ? dir : "/", meant);
	while (n)
		free(names[--n]);
	return found;
}

/* A file of the same name elsewhere, the last one that changed. NULL: none. */
static char *same_name_elsewhere(struct shfs_index *index, const char *path)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;

	if (shfs_rows_open(index,
	                   "SELECT path FROM v_file WHERE name = substr(?1, 2)"
	                   " ORDER BY last_ns DESC LIMIT 1",
	                   &rows) ||
	    shfs_rows_bind_str(rows, 1, strrchr(path, '/')) || shfs_rows_next(rows) <= 0)
		return NULL;
	return strdup(shfs_rows_text(rows, 0));
}

int shfs_fail_unseen(struct shfs_index *index, const char *path)
{
	_cleanup_buf_ struct shfs_buf shown = { 0 }, meant = { 0 };
	_cleanup_free_ char *other = NULL;
	int r = shfs_fail_if_empty(index);

	if (r)
		return r;
	shfs_show_path(&shown, path);
	r = shfs_path_is_known(index, path);
	if (r < 0)
		return shfs_fail_index(index, r);
	if (r) {
		shfs_error("%s has no versions", shown.data ? shown.data : "?");
		shfs_hint("shfs history %s shows what was done to it",
		          shown.data ? shown.data : "");
		return SHFS_EXIT_NOT_FOUND;
	}
	shfs_error("%s: never seen", shown.data ? shown.data : "?");
	other = similar_neighbour(index, path);
	if (!other)
		other = same_name_elsewhere(index, path);
	if (other) {
		shfs_show_path(&meant, other);
		shfs_hint("did you mean %s?", meant.data ? meant.data : "?");
	} else if (is_in_project(index, path)) {
		shfs_hint("no use of it was recorded while its project was mounted");
	} else {
		shfs_hint("is it below a mounted project? see: shfs status");
	}
	return SHFS_EXIT_NOT_FOUND;
}

int shfs_fail_if_empty(struct shfs_index *index)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open(index,
	                       "SELECT EXISTS (SELECT 1 FROM v_command) OR"
	                       " EXISTS (SELECT 1 FROM v_access)",
	                       &rows);

	if (!r)
		r = shfs_rows_next(rows);
	if (r < 0)
		return shfs_fail_index(index, r);
	if (r && shfs_rows_int(rows, 0))
		return 0;
	if (shfs_db_url) {
		shfs_error("the database has nothing that this role may see");
		shfs_hint("docs/team.md says how its owner shares a project");
		return SHFS_EXIT_NOT_FOUND;
	}
	shfs_error("nothing has been recorded yet");
	shfs_hint("mount a project (shfs mount DIR) and work in it");
	return SHFS_EXIT_NOT_FOUND;
}

int shfs_operand_paths(struct shfs_index *index, size_t n, char **operands, char **paths)
{
	for (size_t i = 0; i < n; i++) {
		int r = shfs_operand_file(index, operands[i], &paths[i]);

		if (!r)
			r = shfs_path_is_known(index, paths[i]);
		if (!r)
			return shfs_fail_unseen(index, paths[i]);
		if (r < 0)
			return shfs_fail_index(index, r);
	}
	return SHFS_EXIT_OK;
}

int shfs_fail_if_unknown(struct shfs_index *index, int n, char **operands)
{
	int r = shfs_fail_if_empty(index);

	for (int i = 0; i < n && !r; i++) {
		_cleanup_free_ char *path = shfs_operand_path(operands[i]);

		r = path ? shfs_path_is_known(index, path) : -ENOMEM;
		if (r < 0)
			return shfs_fail_index(index, r);
		r = r ? 0 : shfs_fail_unseen(index, path);
	}
	return r;
}

/* --- showing --- */

void shfs_show_path(struct shfs_buf *out, const char *path)
{
	static char *cwd;
	const char *rest;

	if (!cwd)
		cwd = getcwd(NULL, 0);
	rest = cwd && cwd[1] ? shfs_path_relative(path, cwd) : NULL;
	if (rest)
		shfs_quote_display(out, *rest ? rest : ".", MAX(strlen(rest), (size_t)1));
	else
		shfs_show_directory(out, path);
}

/* Shows the name of the tree, and returns the rest of the path; relative to the home
 * directory of that tree, if it is below it. */
static const char *show_tree(struct shfs_buf *out, const char *path)
{
	const struct shfs_trees *trees = shfs_context_trees();
	const char *colon = strchr(path, ':'), *home, *rest;

	if (!colon)
		return path;
	home = trees ? shfs_trees_home(trees, path, colon - path) : NULL;
	shfs_quote_display(out, path, colon + 1 - path);
	path = colon + 1;
	rest = home && *home ? shfs_path_relative(path, home) : NULL;
	if (rest)
		shfs_buf_str(out, *rest ? "~/" : "~");
	return rest ?: path;
}

void shfs_show_directory(struct shfs_buf *out, const char *path)
{
	static const char *home;
	const char *rest;

	if (!shfs_path_is_here(path)) {
		rest = show_tree(out, path);
		shfs_quote_display(out, rest, strlen(rest));
		return;
	}
	if (!home)
		home = getenv("HOME") ?: "";
	rest = home[0] == '/' && home[1] ? shfs_path_relative(path, home) : NULL;
	if (rest) {
		shfs_buf_str(out, *rest ? "~/" : "~");
		path = rest;
	}
	shfs_quote_display(out, path, strlen(path));
}
