/* SPDX-License-Identifier: MIT */
/*
 * Python modules: a program that imports one mostly reads
 * __pycache__/NAME.cpython-311.pyc. Python has compiled that from NAME.py in the
 * directory above, and uses it as long as NAME.py has the same time and size (PEP 3147).
 * So its read counts as a read of NAME.py as it was then.
 */
#include "query/graph/internal.h"

#include <errno.h>
#include <string.h>

#define DIRECTORY     "/__pycache__/"
#define FIND_COMPILED "SELECT file_id, path FROM v_path WHERE dir = ?1"

/* Splits the path of a compiled file into directory and module name; false: it is
 * none. */
static bool is_compiled(const char *path, size_t *dir_len, struct shfs_bytes *module)
{
	const char *name = basename(path), *tag;
	size_t len = strlen(DIRECTORY);

	if ((size_t)(name - path) < len || strncmp(name - len, DIRECTORY, len) ||
	    !shfs_ends_with(name, ".pyc"))
		return false;
	tag = strstr(name, ".cpython-") ?: strstr(name, ".pypy");
	if (!tag || tag == name)
		return false;
	*dir_len = (size_t)(name - path) - len;
	*module = (struct shfs_bytes){ name, (size_t)(tag - name) };
	return true;
}

bool shfs_graph_is_compiled(const char *path)
{
	struct shfs_bytes module;
	size_t dir_len;

	return is_compiled(path, &dir_len, &module);
}

/* Finds the source of a compiled file. 0: there is none. */
static int find_source(struct shfs_graph *g, const char *path, int64_t *file_id)
{
	_cleanup_buf_ struct shfs_buf source = { 0 };
	struct shfs_rows **rows = &g->file_rows;
	struct shfs_bytes module;
	size_t dir_len;
	int r = 0;

	*file_id = 0;
	if (!is_compiled(path, &dir_len, &module))
		return 0;
	shfs_buf_add(&source, path, dir_len);
	shfs_buf_char(&source, '/');
	shfs_buf_add(&source, module.data, module.len);
	shfs_buf_str(&source, ".py");
	if (!*rows)
		r = shfs_rows_open(g->index, "SELECT" SHFS_SQL_FILE_ID("?1"), rows);
	if (!r)
		r = source.failed ? -ENOMEM : shfs_rows_bind_str(*rows, 1, source.data);
	if (!r)
		r = shfs_rows_next(*rows);
	if (r > 0)
		*file_id = shfs_rows_int(*rows, 0);
	return MIN(r, 0);
}

int shfs_graph_version_at(struct shfs_graph *g, int64_t file_id, int64_t at_ns,
                          int64_t *version_id)
{
	struct shfs_file_fact file;
	int r = shfs_facts_file(g->facts, file_id, &file);

	for (int64_t n = file.versions; r > 0 && n > 0; n--) {
		struct shfs_version_fact v;

		r = shfs_facts_version(g->facts, file_id << 32 | n, &v);
		if (r > 0 && v.time_ns <= at_ns) {
			*version_id = v.version_id;
			return 1;
		}
	}
	return MIN(r, 0);
}

int shfs_graph_compiled_from(struct shfs_graph *g, int64_t file_id, const char *path,
                             int64_t at_ns, int64_t *version_id)
{
	const int64_t *known = shfs_id_table_get(&g->sources, file_id);
	int64_t source;
	int r = 0;

	if (!known && (!path || !shfs_graph_is_compiled(path)))
		return 0;
	source = known ? *known : 0;
	if (!known)
		r = find_source(g, path, &source);
	if (!r && !known) {
		int64_t *kept = malloc(sizeof(*kept));

		r = kept ? shfs_id_table_add(&g->sources, file_id, kept) : -ENOMEM;
		if (r)
			free(kept);
		else
			*kept = source;
	}
	return r || !source ? r : shfs_graph_version_at(g, source, at_ns, version_id);
}

int shfs_graph_each_compiled(struct shfs_graph *g, const char *path, shfs_id_fn fn,
                             void *arg)
{
	_cleanup_buf_ struct shfs_buf dir = { 0 };
	struct shfs_rows **rows = &g->compiled_rows;
	const char *name = strrchr(path, '/') + 1;
	size_t len = strlen(name);
	int r = 0;

	if (!shfs_ends_with(name, ".py"))
		return 0;
	len -= strlen(".py");
	shfs_buf_add(&dir, path, (size_t)(name - path) - 1);
	shfs_buf_add(&dir, DIRECTORY, strlen(DIRECTORY) - 1);
	if (!*rows)
		r = shfs_rows_open(g->index, FIND_COMPILED, rows);
	if (!r)
		r = dir.failed ? -ENOMEM : shfs_rows_bind_str(*rows, 1, dir.data);
	while (!r && (r = shfs_rows_next(*rows)) > 0) {
		struct shfs_bytes module;
		size_t dir_len;

		r = 0;
		if (is_compiled(shfs_rows_text(*rows, 1), &dir_len, &module) &&
		    module.len == len && !memcmp(module.data, name, len))
			r = fn(shfs_rows_int(*rows, 0), arg);
	}
	return r;
}

void shfs_graph_python_free(struct shfs_graph *g)
{
	shfs_id_table_free_values(&g->sources);
	shfs_rows_close(g->file_rows);
	shfs_rows_close(g->compiled_rows);
}
