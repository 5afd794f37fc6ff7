/* SPDX-License-Identifier: MIT */
#include "query/uses.h"

#include "common/path.h"
#include "common/quote.h"

#include <errno.h>
#include <string.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

/* A name, and what has happened to it so far. */
struct name {
	struct shfs_use use;
	struct name *from, *to; /* renamed or linked from; renamed away to */
	struct name *next;      /* in the order of first use */
	UT_hash_handle hh;
	bool born;    /* was not there before the command */
	bool old;     /* was */
	bool created; /* by an open */
	bool gone;    /* is not there now */
	bool read, written, renamed, linked, made, touched;
	bool own; /* made_n is a version that the command made */
	size_t len;
	char path[];
};

struct names {
	struct shfs_index *index;
	struct name *table, *first, **last;
};

/* One row of v_access. */
struct event {
	const char *op, *path, *path2;
	bool read, written, directory, created;
	int64_t seen_id, made_id, seen_n, made_n;
	int64_t past_id; /* what was there, if this appended to it or changed some of it
	                  */
	uint32_t seen_flags, made_flags;
	bool emptied; /* the open made it, or cut it to nothing */
	bool carried;
	bool own;      /* what it made is a version of this command */
	bool seen_new; /* what it saw came to be within the command, by a file still open
	                */
};

static struct name *name_get(struct names *all, const char *path, bool *fresh)
{
	size_t len = strlen(path);
	struct name *f;

	HASH_FIND(hh, all->table, path, len, f);
	*fresh = !f;
	if (f)
		return f;
	f = calloc(1, sizeof(*f) + len + 1);
	if (!f)
		return NULL;
	f->len = len;
	memcpy(f->path, path, len);
	HASH_ADD(hh, all->table, path, f->len, f);
	if (!f->hh.tbl) {
		free(f);
		return NULL;
	}
	*all->last = f;
	all->last = &f->next;
	return f;
}

static void names_free(struct names *all)
{
	struct name *next;

	HASH_CLEAR(hh, all->table);
	for (struct name *f = all->first; f; f = next) {
		next = f->next;
		free(f->use.path);
		free(f->use.from);
		free(f);
	}
}
#define _cleanup_names_ _cleanup_(names_free)

/* --- one access after the other --- */

static void see(struct name *f, const struct event *e)
{
	/* What it wrote before is its own, no input. */
	if (f->written || f->born || f->renamed || f->read)
		return;
	f->read = true;
	f->use.read_id = e->seen_id;
	f->use.read_n = e->seen_n;
	f->use.read_flags = e->seen_flags;
}

/* Of several writers the one that opened last need not be the one that closed last. */
static void leave_version(struct name *f, const struct event *e)
{
	f->own |= e->own && e->made_n == f->use.made_n;
	if (e->made_n <= f->use.made_n)
		return;
	f->own = e->own;
	f->use.made_id = e->made_id;
	f->use.made_n = e->made_n;
	f->use.made_flags = e->made_flags;
}

static void on_open(struct name *f, const struct event *e)
{
	f->created |= e->created;
	if (e->created && !f->old)
		f->born = true;
	if (!e->created && !f->born)
		f->old = true;
	/* What is there is its own alone, whatever it may read. */
	if (e->read && (e->seen_id || !e->emptied))
		see(f, e);
	if (e->past_id && !f->read && !f->written && !f->born && !f->renamed) {
		f->read = true;
		f->use.read_id = e->past_id;
		f->use.read_n = e->made_n - 1;
	}
	if (e->written || e->created) {
		f->written = true;
		f->gone = false;
		leave_version(f, e);
	}
}

static void come(struct name *f, struct name *from, const struct event *e, bool fresh)
{
	if (fresh)
		f->born = !e->made_id || e->carried || e->made_n == 1;
	f->gone = false;
	f->from = from;
	f->use.directory = e->directory;
	leave_version(f, e);
}

/* What the command made for it is what it made; else it has moved. */
static void on_rename(struct name *src, struct name *dst, const struct event *e,
                      bool fresh)
{
	/* A file still open: its record has the name that it got, or comes later. */
	if (!src->old && (e->seen_new || (!e->seen_id && dst->created)))
		src->born = src->written = true;
	src->old |= !src->born;
	come(dst, src, e, fresh);
	dst->written |= src->born && src->written;
	dst->made |= src->born && src->made;
	dst->linked = src->born && src->use.from;
	dst->renamed = src->renamed ||
	               !(src->born && (src->written || src->made || dst->linked));
	if (dst->linked) {
		free(dst->use.from);
		dst->use.from = TAKE_PTR(src->use.from);
		dst->from = NULL;
	}
	src->gone = true;
	src->to = dst;
	if (!src->use.read_id) {
		src->use.read_id = e->seen_id;
		src->use.read_n = e->seen_n;
	}
}

/* The version that came along when the directory of the file was renamed. */
static int load_carried(struct names *all, const struct name *f, struct event *e)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open(all->index,
	                       "SELECT version_id, n, flags FROM v_version"
	                       " WHERE path = ?1 AND origin_version_id = ?2",
	                       &rows);

	if (!r)
		r = shfs_rows_bind_str(rows, 1, e->path2);
	if (!r)
		r = shfs_rows_bind_int(rows, 2, f->use.made_id);
	if (!r)
		r = shfs_rows_next(rows);
	if (r > 0) {
		e->made_id = shfs_rows_int(rows, 0);
		e->made_n = shfs_rows_int(rows, 1);
		e->made_flags = shfs_rows_int(rows, 2);
		e->own = e->carried = true;
	}
	return MIN(r, 0);
}

/* With a directory goes what the command made in it. */
static int move_contents(struct names *all, const char *from, const char *to)
{
	int r = 0;

	for (struct name *f = all->first; f && !r; f = f->next) {
		const char *rest = shfs_path_relative(f->path, from);
		_cleanup_free_ char *path = NULL;
		struct event e = { .directory = f->use.directory };
		struct name *g;
		bool fresh;

		if (!rest || !*rest || !f->born || f->gone)
			continue;
		path = shfs_path_join(to, rest);
		g = path ? name_get(all, path, &fresh) : NULL;
		if (!g)
			return -ENOMEM;
		e.path2 = path;
		if (f->use.made_id)
			r = load_carried(all, f, &e);
		on_rename(f, g, &e, fresh);
	}
	return r;
}

static void on_link(struct name *src, struct name *dst, const struct event *e, bool fresh)
{
	come(dst, src, e, fresh);
	dst->linked = true;
}

static void on_exchange(struct name *a, struct name *b, const struct event *e)
{
	come(b, a, e, false);
	b->renamed = true;
	a->from = b;
	a->renamed = true;
}

static void on_remove(struct name *f, const struct event *e)
{
	f->old |= !f->born;
	f->gone = true;
	f->to = NULL;
	f->use.directory = e->directory;
	if (e->seen_id) {
		f->use.read_id = e->seen_id;
		f->use.read_n = e->seen_n;
		f->use.read_flags = e->seen_flags;
	}
}

static void on_make(struct name *f, const struct event *e, bool fresh)
{
	f->born |= fresh;
	f->gone = false;
	f->made = true;
	f->use.directory = !strcmp(e->op, "mkdir");
}

static int on_symlink(struct name *f, const struct event *e, bool fresh)
{
	f->born |= fresh;
	f->gone = false;
	f->linked = true;
	f->from = NULL;
	free(f->use.from);
	f->use.from = strdup(e->path2);
	return f->use.from ? 0 : -ENOMEM;
}

static int on_event(struct names *all, const struct event *e)
{
	bool fresh, fresh2;
	struct name *f = name_get(all, e->path, &fresh), *g;

	if (!f)
		return -ENOMEM;
	f->use.directory |= e->directory;
	if (!strcmp(e->op, "symlink"))
		return on_symlink(f, e, fresh);
	if (!strcmp(e->op, "rename") || !strcmp(e->op, "link") ||
	    !strcmp(e->op, "exchange")) {
		g = name_get(all, e->path2, &fresh2);
		if (!g)
			return -ENOMEM;
		if (f == g)
			return 0;
		if (e->op[0] == 'r') {
			on_rename(f, g, e, fresh2);
			if (e->directory)
				return move_contents(all, e->path, e->path2);
		} else if (e->op[0] == 'l') {
			on_link(f, g, e, fresh2);
		} else {
			on_exchange(f, g, e);
		}
	} else if (!strcmp(e->op, "open") || !strcmp(e->op, "truncate")) {
		on_open(f, e);
	} else if (!strcmp(e->op, "unlink") || !strcmp(e->op, "rmdir")) {
		on_remove(f, e);
	} else if (!strcmp(e->op, "mkdir") || !strcmp(e->op, "mknod")) {
		on_make(f, e, fresh);
	} else {
		f->touched = true;
	}
	return 0;
}

#define EMPTIED (SHFS_ACCESS_TRUNCATED | SHFS_ACCESS_CREATED)

static void event_from_row(struct shfs_rows *rows, struct event *e)
{
	uint32_t flags = shfs_rows_int(rows, 1);

	*e = (struct event){
		.op = shfs_rows_text(rows, 0),
		.created = flags & SHFS_ACCESS_CREATED,
		.emptied = flags & EMPTIED,
		.read = shfs_rows_int(rows, 2),
		.written = shfs_rows_int(rows, 3),
		.path = shfs_rows_text(rows, 4),
		.path2 = shfs_rows_text(rows, 5),
		.directory = shfs_rows_int(rows, 6),
		.seen_id = shfs_rows_int(rows, 7),
		.seen_n = shfs_rows_int(rows, 8),
		.seen_flags = shfs_rows_int(rows, 9),
		.made_id = shfs_rows_int(rows, 10),
		.made_n = shfs_rows_int(rows, 11),
		.made_flags = shfs_rows_int(rows, 12),
		.carried = shfs_rows_int(rows, 13),
		.past_id = flags & EMPTIED ? 0 : shfs_rows_int(rows, 14),
		.seen_new = shfs_rows_int(rows, 15),
		.own = shfs_rows_int(rows, 16),
	};
}

/*
 * In the order in which they began: the record of an open file is written when it is
 * closed, which may be after it was renamed or another had read it.
 */
#define ORDER " ORDER BY begin_ns, seq_key"
#define EVENTS                                                                           \
	"SELECT op, flags, is_read, is_written, path, path2, directory,"                 \
	" seen_version_id,"                                                              \
	" (SELECT n FROM v_version WHERE version_id = seen_version_id),"                 \
	" (SELECT flags FROM v_version WHERE version_id = seen_version_id),"             \
	" made_version_id,"                                                              \
	" (SELECT n FROM v_version WHERE version_id = made_version_id),"                 \
	" (SELECT flags FROM v_version WHERE version_id = made_version_id),"             \
	" (SELECT carried FROM v_version WHERE version_id = made_version_id),"           \
	" (SELECT w.version_id FROM v_version v JOIN v_version w"                        \
	"  ON w.file_id = v.file_id AND w.n = v.n - 1 WHERE op IN ('open', 'truncate')"  \
	"  AND v.version_id = made_version_id AND v.access_id = c.access_id),"           \
	" op = 'rename' AND EXISTS (SELECT 1 FROM v_version v"                           \
	"  WHERE v.version_id = seen_version_id AND v.source = 'found' AND v.n = 1"      \
	"  AND v.time_ns >= coalesce("                                                   \
	"   (SELECT begin_ns FROM v_command WHERE command_id = c.command_id),"           \
	"   (SELECT first_ns FROM v_process WHERE process_id = c.process_id))),"         \
	" (SELECT v.command_id IS c.command_id AND"                                      \
	"  (v.command_id IS NOT NULL OR v.process_id IS c.process_id)"                   \
	"  FROM v_version v WHERE v.version_id = made_version_id)"                       \
	" FROM v_access c WHERE "

static int read_events(struct shfs_index *index, int64_t command_id, int64_t process_id,
                       struct names *all)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open(index,
	                       command_id ? EVENTS "command_id = ?1" ORDER
	                                  : EVENTS "process_id = ?1 AND command_id IS"
	                                           " NULL" ORDER,
	                       &rows);

	if (!r)
		r = shfs_rows_bind_int(rows, 1, command_id ? command_id : process_id);
	while (!r && (r = shfs_rows_next(rows)) > 0) {
		struct event e;

		event_from_row(rows, &e);
		r = on_event(all, &e);
	}
	return r;
}

/* --- the sum --- */

static bool is_temporary(const struct name *f)
{
	return f->born && f->gone;
}

/* Where what was at this name has gone in the end; NULL: it was removed. */
static const struct name *destination(const struct name *f)
{
	size_t steps = 0;

	for (f = f->to; f && f->gone; f = f->to)
		if (++steps > 1000)
			return NULL;
	return f;
}

/* Where it came from, past names that are gone. */
static const struct name *origin(const struct name *f)
{
	size_t steps = 0;

	for (f = f->from; f && is_temporary(f) && f->from; f = f->from)
		if (++steps > 1000)
			return NULL;
	return f;
}

static enum shfs_use_kind kind_of(const struct name *f)
{
	if (f->gone)
		return SHFS_USE_REMOVED;
	if (f->renamed)
		return SHFS_USE_RENAMED;
	if (f->written)
		return f->read && (!f->use.made_n || f->use.read_n != f->use.made_n)
		               ? SHFS_USE_CHANGED
		               : SHFS_USE_WROTE;
	if (f->linked)
		return SHFS_USE_LINKED;
	if (f->made)
		return SHFS_USE_MADE;
	return f->read ? SHFS_USE_READ : SHFS_USE_TOUCHED;
}

/* 1: it is to be shown; 0: its story is told elsewhere, or it is temporary. */
static int sum_up(struct name *f, struct shfs_uses *out)
{
	const struct name *from = origin(f);

	if (is_temporary(f)) {
		out->n_temporary++;
		return 0;
	}
	if (f->gone && destination(f))
		return 0;
	/* Written under another name, and that was taken away: renamed, but for the word.
	 */
	if (from && f->linked && is_temporary(from) && from->written) {
		f->written = true;
		f->linked = false;
	}
	f->use.kind = kind_of(f);
	f->use.again = f->use.made_n && !f->own && f->written && !f->renamed;
	f->use.bookkeeping = shfs_path_bookkeeping(f->path);
	/* An open of which nothing is known but that it was: neither read nor written. */
	if (f->use.kind == SHFS_USE_TOUCHED && !f->touched)
		return 0;
	if (from && (f->renamed || f->linked)) {
		free(f->use.from);
		f->use.from = strdup(from->path);
		if (!f->use.from)
			return -ENOMEM;
	}
	f->use.path = strdup(f->path);
	return f->use.path ? 1 : -ENOMEM;
}

static int temporary_from_name(const struct name *f, struct shfs_temporary *out)
{
	const struct name *to = destination(f);

	out->path = strdup(f->path);
	out->to = to ? strdup(to->path) : NULL;
	out->directory = f->use.directory;
	out->n = f->use.made_n ?: f->use.read_n;
	return out->path && (out->to || !to) ? 0 : -ENOMEM;
}

static int collect_temporary(const struct names *all, struct shfs_uses *out)
{
	struct shfs_temporary *next = calloc(out->n_temporary + 1, sizeof(*next));
	int r = next ? 0 : -ENOMEM;

	out->temporary = next;
	for (const struct name *f = all->first; f && !r; f = f->next)
		if (is_temporary(f))
			r = temporary_from_name(f, next++);
	return r;
}

static int collect(struct names *all, struct shfs_uses *out)
{
	size_t n = 0, at[SHFS_USE_KINDS] = { 0 };

	for (struct name *f = all->first; f; f = f->next) {
		int r = sum_up(f, out);

		if (r < 0)
			return r;
		if (r)
			out->count[f->use.kind]++;
		n += r;
	}
	out->list = calloc(n + 1, sizeof(*out->list));
	if (!out->list)
		return -ENOMEM;
	for (int kind = 1; kind < SHFS_USE_KINDS; kind++)
		at[kind] = at[kind - 1] + out->count[kind - 1];
	for (struct name *f = all->first; f; f = f->next) {
		if (!f->use.path)
			continue;
		out->list[at[f->use.kind]++] = f->use;
		f->use.path = f->use.from = NULL;
	}
	out->n = n;
	return 0;
}

int shfs_uses_load(struct shfs_index *index, int64_t command_id, int64_t process_id,
                   struct shfs_uses *out)
{
	_cleanup_names_ struct names all = { 0 };
	struct shfs_uses uses = { 0 };
	int r;

	all.index = index;
	all.last = &all.first;
	r = read_events(index, command_id, process_id, &all);
	if (!r)
		r = collect(&all, &uses) ?: collect_temporary(&all, &uses);
	if (r)
		shfs_uses_clear(&uses);
	else
		*out = uses;
	return r;
}

void shfs_uses_clear(struct shfs_uses *uses)
{
	for (size_t i = 0; i < uses->n; i++) {
		free(uses->list[i].path);
		free(uses->list[i].from);
	}
	free(uses->list);
	for (size_t i = 0; uses->temporary && i < uses->n_temporary; i++) {
		free(uses->temporary[i].path);
		free(uses->temporary[i].to);
	}
	free(uses->temporary);
	memset(uses, 0, sizeof(*uses));
}

/* --- shown --- */

const char *shfs_use_word(enum shfs_use_kind kind)
{
	static const char *const words[SHFS_USE_KINDS] = {
		[SHFS_USE_WROTE] = "wrote",     [SHFS_USE_CHANGED] = "changed",
		[SHFS_USE_RENAMED] = "renamed", [SHFS_USE_LINKED] = "linked",
		[SHFS_USE_MADE] = "made",       [SHFS_USE_REMOVED] = "removed",
		[SHFS_USE_TOUCHED] = "touched", [SHFS_USE_READ] = "read",
	};

	return words[kind];
}

void shfs_use_show(struct shfs_buf *out, const struct shfs_use *use)
{
	int64_t n = use->kind == SHFS_USE_READ || use->kind == SHFS_USE_REMOVED
	                    ? use->read_n
	                    : use->made_n;
	bool in_words = use->kind == SHFS_USE_WROTE || use->kind == SHFS_USE_CHANGED;

	if (use->kind == SHFS_USE_RENAMED && use->from) {
		shfs_show_path(out, use->from);
		shfs_buf_str(out, use->directory ? "/ -> " : " -> ");
	}
	shfs_show_version(out, use->path, use->directory ? 0 : n);
	if (use->directory)
		shfs_buf_char(out, '/');
	if (in_words && use->again)
		shfs_buf_str(out, " (again)");
	else if (use->kind == SHFS_USE_CHANGED && use->read_n)
		shfs_buf_printf(out, " (from @%lld)", (long long)use->read_n);
	if (use->kind == SHFS_USE_LINKED && use->from) {
		shfs_buf_str(out, " -> ");
		if (use->made_id)
			shfs_show_path(out, use->from);
		else
			shfs_quote_display(out, use->from, strlen(use->from));
	}
	if ((use->read_flags | use->made_flags) & SHFS_CONTENT_INCOMPLETE)
		shfs_buf_str(out, "  (incomplete: changed while it was captured)");
}

void shfs_temporary_show(struct shfs_buf *out, const struct shfs_temporary *t)
{
	const char *slash = t->directory ? "/" : "";

	shfs_show_version(out, t->path, t->directory ? 0 : t->n);
	shfs_buf_str(out, slash);
	if (!t->to)
		return;
	shfs_buf_str(out, " -> ");
	shfs_show_path(out, t->to);
	shfs_buf_str(out, slash);
}

void shfs_uses_show_cuts(struct shfs_buf *out, const struct shfs_uses *uses, bool all,
                         const char *indent)
{
	static const uint32_t reasons[] = { SHFS_CONTENT_SKIP_SIZE,
		                            SHFS_CONTENT_SKIP_RULE,
		                            SHFS_CONTENT_SKIP_BUDGET,
		                            SHFS_CONTENT_SKIP_ERROR };

	for (size_t k = 0; k < ARRAY_SIZE(reasons); k++) {
		size_t n = 0;

		for (size_t i = 0; i < uses->n; i++) {
			const struct shfs_use *use = &uses->list[i];

			if (!all && use->bookkeeping &&
			    reasons[k] == SHFS_CONTENT_SKIP_RULE)
				continue;
			n += (use->read_flags & reasons[k]) ||
			     (use->made_flags & reasons[k]);
		}
		if (n)
			shfs_buf_printf(out, "%s%zu not archived: %s\n", indent, n,
			                shfs_version_why_not_archived(reasons[k]));
	}
}
