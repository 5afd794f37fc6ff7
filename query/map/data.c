/* SPDX-License-Identifier: MIT */
/*
 * The data of the page of the map (docs/map.md). Commands are written as they are found;
 * names of files, numbers of versions, and contents are kept until the end: there are not
 * many.
 */
#include "query/map/data.h"

#include "query/history/entry.h"
#include "query/history/gap.h"

#include "common/clock.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <uthash.h>

#define MAP_VERSION 1

/* Documented in docs/map.md and in shfs-map(1). */
#define USES_MAX     200      /* uses of one command that are shown */
#define ACCESSES_MAX 20000    /* accesses of one command that are summed up */
#define VERSIONS_MAX 100000   /* versions with more than a number */
#define CONTENT_MAX  65536    /* bytes of one content */
#define CONTENTS_MAX 16777216 /* bytes of all */

/* --- numbers for names that occur often, in the order of first use --- */

struct shfs_map_name {
	char *text;
	int64_t number;
	UT_hash_handle hh;
};

/* -1: no memory. */
static int64_t name_number(struct shfs_map_name **names, const char *text)
{
	struct shfs_map_name *found;

	HASH_FIND_STR(*names, text, found);
	if (found)
		return found->number;
	found = calloc(1, sizeof(*found));
	if (found && (found->text = strdup(text))) {
		found->number = HASH_COUNT(*names);
		HASH_ADD_KEYPTR(hh, *names, found->text, strlen(found->text), found);
		return found->number;
	}
	free(found);
	return -1;
}

static void map_names_free(struct shfs_map_name **names)
{
	struct shfs_map_name *name, *next;

	HASH_ITER (hh, *names, name, next) {
		HASH_DEL(*names, name);
		free(name->text);
		free(name);
	}
}

struct shfs_map_seen {
	int64_t version_id, path;
	UT_hash_handle hh;
};

void shfs_map_free(struct shfs_map *m)
{
	struct shfs_map_seen *seen, *next;

	HASH_ITER (hh, m->versions, seen, next) {
		HASH_DEL(m->versions, seen);
		free(seen);
	}
	map_names_free(&m->paths);
	map_names_free(&m->directories);
	map_names_free(&m->sessions);
	map_names_free(&m->objects);
	shfs_json_free(&m->json);
	shfs_json_free(&m->contents);
}

/* --- writing --- */

int shfs_map_put(struct shfs_map *m, const void *data, size_t len)
{
	return !len || fwrite(data, len, 1, m->file) ? 0 : -EIO;
}

int shfs_map_put_json(struct shfs_map *m, struct shfs_json *json)
{
	_cleanup_buf_ struct shfs_buf safe = { 0 };
	const char *p = json->out.data, *end = p + json->out.len;

	if (json->out.failed)
		return -ENOMEM;
	shfs_buf_reserve(&safe, json->out.len);
	for (; p < end; p++) {
		if (*p == '<' || *p == '>' || *p == '&')
			shfs_buf_printf(&safe, "\\u%04x", *p);
		else if (!strncmp(p, "\xe2\x80\xa8", 3) || !strncmp(p, "\xe2\x80\xa9", 3))
			shfs_buf_printf(&safe, "\\u20%02x", 0x28 + (p[2] == '\xa9')),
				p += 2;
		else
			shfs_buf_char(&safe, *p);
	}
	json->out.len = 0;
	return safe.failed ? -ENOMEM : shfs_map_put(m, safe.data, safe.len);
}

static int64_t us(int64_t ns)
{
	return ns / 1000;
}

/* --- commands --- */

/* Notes that the version needs an entry. 0, or -ENOMEM. */
static int note_map_version(struct shfs_map *m, int64_t version_id, int64_t path)
{
	struct shfs_map_seen *seen;

	HASH_FIND(hh, m->versions, &version_id, sizeof(version_id), seen);
	if (seen || !version_id || HASH_COUNT(m->versions) >= VERSIONS_MAX)
		return 0;
	seen = calloc(1, sizeof(*seen));
	if (!seen)
		return -ENOMEM;
	seen->version_id = version_id;
	seen->path = path;
	HASH_ADD(hh, m->versions, version_id, sizeof(version_id), seen);
	return 0;
}

enum { DIRECTORY = 1, AGAIN = 2, INCOMPLETE = 4, NOT_ARCHIVED = 8 };

static int add_map_use(struct shfs_map *m, const struct shfs_use *use)
{
	uint32_t flags = use->read_flags | use->made_flags;
	int64_t path = name_number(&m->paths, use->path), from = -1;

	/* the target of a symbolic link need not be a path */
	if (use->from && *use->from == '/')
		from = name_number(&m->paths, use->from);
	if (path < 0 || note_map_version(m, use->made_id, path) ||
	    note_map_version(m, use->read_id, path))
		return -ENOMEM;
	shfs_json_int(&m->json, NULL, use->kind);
	shfs_json_int(&m->json, NULL, path);
	shfs_json_int(&m->json, NULL, use->read_n);
	shfs_json_int(&m->json, NULL, use->made_n);
	shfs_json_int(&m->json, NULL, from);
	shfs_json_int(&m->json, NULL,
	              (use->directory ? DIRECTORY : 0) | (use->again ? AGAIN : 0) |
	                      (flags & SHFS_CONTENT_INCOMPLETE ? INCOMPLETE : 0) |
	                      (flags & (SHFS_CONTENT_SKIPPED | SHFS_CONTENT_PRUNED)
	                               ? NOT_ARCHIVED
	                               : 0));
	return 0;
}

static int add_map_uses(struct shfs_map *m, const struct shfs_uses *uses)
{
	int64_t left_out = uses->left_out, bookkeeping = 0, n = 0;
	int r = 0;

	shfs_json_array(&m->json, "uses");
	for (size_t i = 0; i < uses->n && !r; i++) {
		if (uses->list[i].bookkeeping && !m->filter->all)
			bookkeeping++;
		else if (n >= USES_MAX)
			left_out++;
		else if (++n)
			r = add_map_use(m, &uses->list[i]);
	}
	shfs_json_array_end(&m->json);
	if (left_out)
		shfs_json_int(&m->json, "left_out", left_out);
	if (bookkeeping)
		shfs_json_int(&m->json, "bookkeeping", bookkeeping);
	if (uses->n_temporary)
		shfs_json_int(&m->json, "temporary", uses->n_temporary);
	return r;
}

static void add_int_or_null(struct shfs_json *json, const char *key, bool is, int64_t n)
{
	if (is)
		shfs_json_int(json, key, n);
	else
		shfs_json_null(json, key);
}

static int add_map_command(struct shfs_map *m, const struct shfs_entry *e)
{
	const struct shfs_command_row *c = &e->command;
	int64_t cwd = name_number(&m->directories, c->cwd);
	int64_t session = name_number(&m->sessions, c->session);

	if (cwd < 0 || session < 0)
		return -ENOMEM;
	shfs_json_str(&m->json, "id", c->id);
	shfs_json_int(&m->json, "session", session);
	shfs_json_int(&m->json, "cwd", cwd);
	if (c->hidden)
		shfs_json_null(&m->json, "text");
	else
		shfs_json_text(&m->json, "text", c->text, c->text_len);
	shfs_json_int(&m->json, "begin", us(c->begin_ns));
	add_int_or_null(&m->json, "end", c->ended, us(c->end_ns));
	add_int_or_null(&m->json, "status", c->has_status, c->status);
	if (shfs_notes_any(&e->notes))
		shfs_notes_json(&m->json, &e->notes);
	return 0;
}

static int add_map_process(struct shfs_map *m, const struct shfs_process_row *p)
{
	int64_t cwd = name_number(&m->directories, p->cwd);

	if (cwd < 0)
		return -ENOMEM;
	shfs_json_null(&m->json, "id");
	shfs_json_null(&m->json, "session");
	shfs_json_int(&m->json, "cwd", cwd);
	shfs_json_null(&m->json, "text");
	shfs_json_int(&m->json, "begin", us(p->first_ns));
	shfs_json_null(&m->json, "end");
	shfs_json_null(&m->json, "status");
	shfs_process_json(&m->json, p);
	return 0;
}

static int add_entry(struct shfs_map *m, const struct shfs_entry *e)
{
	int r;

	m->first_ns = e->is_process ? e->process.first_ns : e->command.begin_ns;
	shfs_json_object(&m->json, NULL);
	r = e->is_process ? add_map_process(m, &e->process) : add_map_command(m, e);
	if (!r)
		r = add_map_uses(m, &e->uses);
	shfs_json_object_end(&m->json);
	return r ?: shfs_map_put_json(m, &m->json);
}

static int add_map_commands(struct shfs_map *m, struct shfs_rows *rows)
{
	char next[24];
	int r;

	shfs_json_array(&m->json, "commands");
	while ((r = shfs_rows_next(rows)) > 0) {
		_cleanup_entry_ struct shfs_entry entry = { 0 };

		if (m->n >= m->filter->limit - 1 &&
		    shfs_rows_int(rows, 2) != m->next_ns) {
			m->cut = true;
			r = 0;
			break;
		}
		r = shfs_entry_load(m->index, shfs_rows_int(rows, 0),
		                    shfs_rows_int(rows, 1), ACCESSES_MAX, &entry);
		if (r > 0)
			r = add_entry(m, &entry);
		if (r < 0)
			return r;
		m->next_ns = shfs_rows_int(rows, 2);
		m->n++;
	}
	shfs_json_array_end(&m->json);
	shfs_json_bool(&m->json, "cut", m->cut);
	if (m->project)
		shfs_json_str(&m->json, "project", m->project);
	if (m->mark)
		shfs_json_str(&m->json, "mark", m->mark);
	if (m->live && m->cut) {
		snprintf(next, sizeof(next), "%" PRId64, m->next_ns);
		shfs_json_str(&m->json, "next", next);
	}
	return r;
}

/* --- sessions, names --- */

static int add_sessions(struct shfs_map *m)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	struct shfs_map_name *name, *next;
	int r = shfs_rows_open(m->index,
	                       "SELECT host, shell, tty FROM v_session WHERE id = ?1",
	                       &rows);

	shfs_json_array(&m->json, "sessions");
	HASH_ITER (hh, m->sessions, name, next) {
		if (!r)
			r = shfs_rows_bind_str(rows, 1, name->text);
		if (!r)
			r = shfs_rows_next(rows);
		if (r < 0)
			return r;
		shfs_json_object(&m->json, NULL);
		shfs_json_str(&m->json, "id", name->text);
		shfs_json_str(&m->json, "host", r ? shfs_rows_text(rows, 0) : "");
		shfs_json_str(&m->json, "shell", r ? shfs_rows_text(rows, 1) : "");
		shfs_json_str(&m->json, "tty", r ? shfs_rows_text(rows, 2) : "");
		shfs_json_object_end(&m->json);
		shfs_rows_reset(rows);
		r = 0;
	}
	shfs_json_array_end(&m->json);
	return r;
}

static int add_map_names(struct shfs_map *m, const char *key, struct shfs_map_name *names)
{
	struct shfs_map_name *name, *next;
	int r = 0;

	shfs_json_array(&m->json, key);
	HASH_ITER (hh, names, name, next) {
		shfs_json_str(&m->json, NULL, name->text);
		if (!r)
			r = shfs_map_put_json(m, &m->json);
	}
	shfs_json_array_end(&m->json);
	return r;
}

/* --- versions, contents --- */

/* A row of v_version with only the columns that are found fast. */
#define VERSION_SQL                                                                      \
	"SELECT n, time_ns, size, flags, source, object, origin_version_id"              \
	" FROM v_version WHERE" SHFS_SQL_VERSION("?1")

enum { N, TIME_NS, SIZE, FLAGS, SOURCE, OBJECT, ORIGIN };

/* The number of its content, or -1: it is not embedded. */
static int add_content(struct shfs_map *m, struct shfs_rows *version, int64_t *number)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };
	const char *object = shfs_rows_text(version, OBJECT);
	int64_t size = shfs_rows_int(version, SIZE);
	uint32_t flags = (uint32_t)shfs_rows_int(version, FLAGS);
	struct shfs_object_id id;
	struct shfs_map_name *found;
	int r;

	*number = -1;
	if (m->no_contents || !*object)
		return 0;
	if (shfs_object_parse(object, &id))
		return -EBADMSG;
	if (m->live) { /* the page asks for it */
		*number = flags & SHFS_CONTENT_PRUNED ? -1 : 0;
		return 0;
	}
	HASH_FIND_STR(m->objects, object, found);
	if (found)
		*number = found->number;
	if (found)
		return 0;
	if (size > CONTENT_MAX || m->content_bytes + size > CONTENTS_MAX) {
		m->contents_left_out++;
		return 0;
	}
	r = shfs_object_read(m->store, &id, CONTENT_MAX, &text);
	if (r == -ENOMEM || text.failed)
		return -ENOMEM;
	/* a damaged or binary content cannot be shown, the rest can */
	if (r || memchr(text.data ?: "", 0, text.len))
		return 0;
	*number = name_number(&m->objects, object);
	shfs_json_text(&m->contents, NULL, text.data ?: "", text.len);
	m->content_bytes += text.len;
	return *number < 0 ? -ENOMEM : 0;
}

static const char *const sources[] = { "written", "found", "renamed", "linked" };

static int64_t source_number(const char *source)
{
	for (size_t i = 0; i < ARRAY_SIZE(sources); i++)
		if (!strcmp(sources[i], source))
			return i;
	return 0;
}

static int add_map_origin(struct shfs_map *m, int64_t version_id)
{
	_cleanup_version_ struct shfs_version origin = { 0 };
	int64_t path = -1;
	int r = version_id ? shfs_version_load(m->index, version_id, &origin) : 0;

	if (r < 0)
		return r;
	if (r && (path = name_number(&m->paths, origin.path)) < 0)
		return -ENOMEM;
	shfs_json_int(&m->json, NULL, path);
	shfs_json_int(&m->json, NULL, r ? origin.n : 0);
	return 0;
}

static int add_map_version(struct shfs_map *m, struct shfs_rows *version, int64_t path,
                           struct shfs_map_name **reasons)
{
	int64_t content, reason = -1;
	uint32_t flags = (uint32_t)shfs_rows_int(version, FLAGS);
	bool archived =
		!shfs_rows_is_null(version, OBJECT) && !(flags & SHFS_CONTENT_PRUNED);
	const char *why = shfs_version_why_not_archived(
		flags & SHFS_CONTENT_PRUNED ? flags & ~SHFS_CONTENT_OBJECT : flags);
	int r = add_content(m, version, &content);

	if (!r && !archived && why && (reason = name_number(reasons, why)) < 0)
		r = -ENOMEM;
	if (r)
		return r;
	shfs_json_array(&m->json, NULL);
	shfs_json_int(&m->json, NULL, path);
	shfs_json_int(&m->json, NULL, shfs_rows_int(version, N));
	shfs_json_int(&m->json, NULL, us(shfs_rows_int(version, TIME_NS)));
	shfs_json_int(&m->json, NULL, shfs_rows_int(version, SIZE));
	shfs_json_int(&m->json, NULL, source_number(shfs_rows_text(version, SOURCE)));
	shfs_json_int(&m->json, NULL, content);
	shfs_json_int(&m->json, NULL, reason);
	r = add_map_origin(m, shfs_rows_int(version, ORIGIN));
	shfs_json_array_end(&m->json);
	return r ?: shfs_map_put_json(m, &m->json);
}

/* Adds the noted versions, in that order. */
static int add_seen(struct shfs_map *m, struct shfs_map_name **reasons)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	struct shfs_map_seen *seen, *next;
	int r = shfs_rows_open(m->index, VERSION_SQL, &rows);

	HASH_ITER (hh, m->versions, seen, next) {
		if (!r)
			r = shfs_rows_bind_int(rows, 1, seen->version_id);
		if (!r)
			r = shfs_rows_next(rows);
		if (r > 0)
			r = add_map_version(m, rows, seen->path, reasons);
		if (r)
			return r;
		shfs_rows_reset(rows);
	}
	return r;
}

static int add_versions(struct shfs_map *m)
{
	struct shfs_map_name *reasons = NULL;
	int r;

	shfs_json_array(&m->contents, NULL);
	shfs_json_array(&m->json, "versions");
	r = add_seen(m, &reasons);
	shfs_json_array_end(&m->json);
	shfs_json_array_end(&m->contents);
	shfs_json_array(&m->json, "sources");
	for (size_t i = 0; i < ARRAY_SIZE(sources); i++)
		shfs_json_str(&m->json, NULL, sources[i]);
	shfs_json_array_end(&m->json);
	r = r ?: add_map_names(m, "reasons", reasons);
	map_names_free(&reasons);
	return r;
}

/* Adds what was noted of a version, if its path is one of those named. */
static int add_version_notes(struct shfs_map *m, const char *path, int64_t time_ns)
{
	_cleanup_notes_ struct shfs_notes notes = { 0 };
	struct shfs_version version = { .path = (char *)path, .time_ns = time_ns };
	struct shfs_map_name *name;
	int64_t n = 0;
	int r;

	HASH_FIND_STR(m->paths, path, name);
	if (!name)
		return 0;
	r = shfs_notes_find_version(m->index, path, time_ns, &n);
	if (!r && n)
		r = shfs_notes_of_version(m->index, &version, &notes);
	if (r || !n)
		return r;
	shfs_json_array(&m->json, NULL);
	shfs_json_int(&m->json, NULL, name->number);
	shfs_json_int(&m->json, NULL, n);
	if (notes.text)
		shfs_json_text(&m->json, NULL, notes.text, strlen(notes.text));
	else
		shfs_json_null(&m->json, NULL);
	shfs_json_array(&m->json, NULL);
	for (size_t i = 0; i < notes.n_tags; i++)
		shfs_json_text(&m->json, NULL, notes.tags[i], strlen(notes.tags[i]));
	shfs_json_array_end(&m->json);
	shfs_json_array_end(&m->json);
	return 0;
}

static int add_notes(struct shfs_map *m)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open(m->index,
	                       "SELECT DISTINCT path, version_ns FROM v_note"
	                       " WHERE command = ''",
	                       &rows);

	shfs_json_array(&m->json, "notes");
	while (!r && (r = shfs_rows_next(rows)) > 0)
		r = add_version_notes(m, shfs_rows_text(rows, 0), shfs_rows_int(rows, 1));
	shfs_json_array_end(&m->json);
	return r;
}

static int add_gaps(struct shfs_map *m)
{
	_cleanup_gaps_ struct shfs_gaps gaps = { 0 };
	int r = shfs_gaps_load(m->index, &gaps);

	shfs_json_array(&m->json, "gaps");
	for (size_t i = 0; i < gaps.n; i++)
		if (gaps.list[i].begin_ns >= m->first_ns)
			shfs_gap_json(&m->json, &gaps.list[i]);
	shfs_json_array_end(&m->json);
	return r;
}

/* --- the whole --- */

static void begin_data(struct shfs_map *m)
{
	shfs_json_object(&m->json, NULL);
	shfs_json_str(&m->json, "shfs", "map");
	shfs_json_int(&m->json, "version", MAP_VERSION);
	shfs_json_str(&m->json, "by", SHFS_VERSION);
	shfs_json_int(&m->json, "made", us(shfs_time_now().real_ns));
	shfs_json_array(&m->json, "kinds");
	for (int kind = 0; kind < SHFS_USE_KINDS; kind++)
		shfs_json_str(&m->json, NULL, shfs_use_word(kind));
	shfs_json_array_end(&m->json);
}

int shfs_map_add(struct shfs_map *m, struct shfs_rows *rows)
{
	int r;

	begin_data(m);
	r = add_map_commands(m, rows);
	if (!r)
		r = add_sessions(m);
	if (!r)
		r = add_versions(m); /* this adds paths */
	if (!r)
		r = add_map_names(m, "paths", m->paths);
	if (!r)
		r = add_map_names(m, "directories", m->directories);
	if (!r)
		r = add_notes(m);
	if (!r)
		r = add_gaps(m);
	shfs_json_int(&m->json, "contents_left_out", m->contents_left_out);
	shfs_json_close(&m->json);
	return r;
}
