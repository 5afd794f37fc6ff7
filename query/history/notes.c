/* SPDX-License-Identifier: MIT */
#include "query/history/notes.h"

#include "common/quote.h"

#include <errno.h>
#include <string.h>

int shfs_notes_add(struct shfs_notes *notes, const char *tag, const char *text,
                   int64_t time_ns)
{
	char *copy = strdup(*tag ? tag : text);

	notes->time_ns = MAX(notes->time_ns, time_ns);
	if (!copy)
		return -ENOMEM;
	if (!*tag) {
		free(notes->text);
		notes->text = copy;
		return 0;
	}
	if (!MAKE_ROOM(notes->tags, notes->n_tags, notes->cap)) {
		free(copy);
		return -ENOMEM;
	}
	notes->tags[notes->n_tags++] = copy;
	return 0;
}

void shfs_notes_clear(struct shfs_notes *notes)
{
	for (size_t i = 0; i < notes->n_tags; i++)
		free(notes->tags[i]);
	free(notes->tags);
	free(notes->text);
	*notes = (struct shfs_notes){ 0 };
}

static int add_rows(struct shfs_rows *rows, struct shfs_notes *out)
{
	int r;

	while ((r = shfs_rows_next(rows)) > 0) {
		r = shfs_notes_add(out, shfs_rows_text(rows, 0), shfs_rows_text(rows, 1),
		                   shfs_rows_int(rows, 2));
		if (r)
			break;
	}
	if (r)
		shfs_notes_clear(out);
	return r;
}

int shfs_notes_of_command(struct shfs_index *index,
                          const struct shfs_command_row *command, struct shfs_notes *out)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r;

	if (!command->noted)
		return 0;
	/* a team's database may have several commands of one id */
	r = shfs_rows_open_str(index,
	                       "SELECT tag, text, time_ns FROM v_note WHERE command = ?1"
	                       " AND command_id = ?2 ORDER BY tag",
	                       command->id, &rows);
	if (!r)
		r = shfs_rows_bind_int(rows, 2, command->command_id);
	return r ? r : add_rows(rows, out);
}

int shfs_notes_of_version(struct shfs_index *index, const struct shfs_version *version,
                          struct shfs_notes *out)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open_str(
		index,
		"SELECT tag, text, time_ns FROM v_note WHERE command = ''"
		" AND path = ?1 AND version_ns = ?2 ORDER BY tag",
		version->path, &rows);

	if (!r)
		r = shfs_rows_bind_int(rows, 2, version->time_ns);
	return r ? r : add_rows(rows, out);
}

int shfs_notes_find_version(struct shfs_index *index, const char *path, int64_t time_ns,
                            int64_t *n)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open_str(index,
	                           "SELECT max(n) FROM v_version WHERE " SHFS_SQL_FILE(
					   "?1") " AND time_ns = ?2",
	                           path, &rows);

	if (!r)
		r = shfs_rows_bind_int(rows, 2, time_ns);
	if (!r)
		r = shfs_rows_next(rows);
	*n = r > 0 ? shfs_rows_int(rows, 0) : 0;
	return MIN(r, 0);
}

static void show_tags(struct shfs_buf *out, const struct shfs_notes *notes)
{
	for (size_t i = 0; i < notes->n_tags; i++) {
		shfs_buf_str(out, i ? " #" : "#");
		shfs_quote_display(out, notes->tags[i], strlen(notes->tags[i]));
	}
}

void shfs_notes_show(struct shfs_buf *out, const struct shfs_style *style,
                     const struct shfs_notes *notes, size_t columns)
{
	_cleanup_buf_ struct shfs_buf tags = { 0 };
	size_t width;

	show_tags(&tags, notes);
	if (tags.failed) {
		out->failed = true;
		return;
	}
	width = tags.len ? shfs_quote_width(tags.data, tags.len) + 2 : 0;
	if (tags.len) {
		shfs_buf_printf(out, "%s%s%s", style->id, tags.data, style->off);
		shfs_buf_str(out, notes->text ? "  " : "");
	}
	if (notes->text)
		shfs_show_first_line(out, notes->text, strlen(notes->text),
		                     columns - MIN(width, columns / 2));
}

void shfs_notes_show_all(struct shfs_buf *out, const struct shfs_style *style,
                         const struct shfs_notes *notes, const char *indent)
{
	const char *line = notes->text;

	if (notes->n_tags) {
		shfs_buf_printf(out, "%s%s", indent, style->id);
		show_tags(out, notes);
		shfs_buf_printf(out, "%s\n", style->off);
	}
	while (line && *line) {
		size_t len = strcspn(line, "\n");

		shfs_buf_str(out, indent);
		shfs_quote_text(out, line, len);
		shfs_buf_char(out, '\n');
		line += len + (line[len] == '\n');
	}
}

void shfs_notes_json(struct shfs_json *json, const struct shfs_notes *notes)
{
	if (notes->text)
		shfs_json_text(json, "note", notes->text, strlen(notes->text));
	else
		shfs_json_null(json, "note");
	shfs_json_array(json, "tags");
	for (size_t i = 0; i < notes->n_tags; i++)
		shfs_json_text(json, NULL, notes->tags[i], strlen(notes->tags[i]));
	shfs_json_array_end(json);
}
