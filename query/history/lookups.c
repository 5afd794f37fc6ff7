/* SPDX-License-Identifier: MIT */
#include "query/history/lookups.h"

#include <errno.h>
#include <string.h>

static void clear_one(struct shfs_looked_up *one)
{
	free(one->path);
	free(one->text);
}

void shfs_lookups_clear(struct shfs_lookups_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		clear_one(&l->list[i]);
	free(l->list);
	*l = (struct shfs_lookups_list){ 0 };
}

static int add_one(struct shfs_lookups_list *l, const char *path,
                   const struct shfs_lookup *lookup)
{
	bool has_text = lookup->found == SHFS_FOUND_TEXT;
	struct shfs_looked_up *one;

	if (!MAKE_ROOM(l->list, l->n, l->cap))
		return -ENOMEM;
	one = &l->list[l->n];
	*one = (struct shfs_looked_up){
		.path = strdup(path),
		.found = lookup->found,
		.text = has_text ? strndup(lookup->text.data, lookup->text.len) : NULL,
	};
	if (one->path && !has_text == !one->text) {
		l->n++;
		return 0;
	}
	clear_one(one);
	return -ENOMEM;
}

/* Adds the names of one record. */
static int add_list(struct shfs_lookups_list *l, struct shfs_bytes root,
                    struct shfs_bytes list)
{
	const unsigned char *data = (const unsigned char *)list.data;
	struct shfs_cursor in = { data, data + list.len, false };
	_cleanup_buf_ struct shfs_buf last = { 0 }, path = { 0 };
	struct shfs_lookup lookup;
	int r = 0;

	while (!r && shfs_lookup_next(&in, &last, &lookup)) {
		shfs_buf_set_path(&path, root, lookup.path);
		r = path.failed ? -ENOMEM : add_one(l, path.data, &lookup);
	}
	return last.failed ? -ENOMEM : r;
}

static int compare(const void *a, const void *b)
{
	const struct shfs_looked_up *x = a, *y = b;
	int r = strcmp(x->path, y->path) ?: (int)x->found - (int)y->found;

	return r ? r : strcmp(x->text ?: "", y->text ?: "");
}

static void sort_once(struct shfs_lookups_list *l)
{
	size_t n = 0;

	if (l->n)
		qsort(l->list, l->n, sizeof(*l->list), compare);
	for (size_t i = 0; i < l->n; i++)
		if (n && !compare(&l->list[n - 1], &l->list[i]))
			clear_one(&l->list[i]);
		else
			l->list[n++] = l->list[i];
	l->n = n;
}

int shfs_lookups_load(struct shfs_index *index, int64_t command_id, bool recording,
                      struct shfs_lookups_list *out)
{
	static const char own[] = "SELECT root, list FROM v_lookup WHERE command_id = ?1";
	static const char all[] =
		"SELECT root, list FROM v_lookup WHERE producer_id IN"
		" (SELECT l.producer_id FROM v_lookup l, v_command c"
		" WHERE c.command_id = ?1 AND l.session_id = c.session_id"
		" AND l.begin_ns <= coalesce(c.end_ns, l.begin_ns)"
		" AND l.last_ns >= c.begin_ns)";
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open_ints(index, recording ? all : own, SHFS_INTS(command_id),
	                            &rows);

	*out = (struct shfs_lookups_list){ 0 };
	while (!r && (r = shfs_rows_next(rows)) > 0)
		r = add_list(out, shfs_bytes_str(shfs_rows_text(rows, 0)),
		             (struct shfs_bytes){ shfs_rows_text(rows, 1),
		                                  shfs_rows_bytes(rows, 1) });
	if (r < 0)
		shfs_lookups_clear(out);
	sort_once(out);
	return r;
}

const char *shfs_found_name(uint32_t found)
{
	static const char *const names[] = {
		[SHFS_FOUND_NOTHING] = "nothing",     [SHFS_FOUND_FILE] = "file",
		[SHFS_FOUND_DIRECTORY] = "directory", [SHFS_FOUND_NAMES] = "names",
		[SHFS_FOUND_LINK] = "link",           [SHFS_FOUND_TEXT] = "link",
		[SHFS_FOUND_OTHER] = "other",
	};

	return found < ARRAY_SIZE(names) ? names[found] : "other";
}

void shfs_lookups_json(struct shfs_json *json, const struct shfs_lookups_list *lookups)
{
	shfs_json_array(json, "lookups");
	for (size_t i = 0; i < lookups->n; i++) {
		const struct shfs_looked_up *one = &lookups->list[i];

		shfs_json_object(json, NULL);
		shfs_json_str(json, "path", one->path);
		shfs_json_str(json, "found", shfs_found_name(one->found));
		if (one->text)
			shfs_json_str(json, "target", one->text);
		shfs_json_object_end(json);
	}
	shfs_json_array_end(json);
}
