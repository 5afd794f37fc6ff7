/* SPDX-License-Identifier: MIT */
#include "query/history/uses.h"

#include "common/path.h"
#include "common/quote.h"
#include "store/index/facts.h"

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
	bool born;    /* did not exist before the command */
	bool old;     /* existed before */
	bool created; /* by an open */
	bool gone;    /* does not exist now */
	bool read, written, renamed, linked, made, touched;
	bool own;                /* made_n is a version of this command */
	int64_t went_id, went_n; /* the version that it became when it was renamed */
	uint32_t went_flags;
	size_t len;
	char path[];
};

/* The name of a file, by its id. */
struct name_of_file {
	int64_t file_id;
	char *path;        /* NULL: the index has no such file */
	struct name *name; /* NULL: not used so far */
};

struct names {
	struct shfs_index *index;
	struct name *table, *first, **last;
	struct name_of_file *files; /* all files that are used */
	size_t n_files;
	uint32_t *slots; /* by hash of the id: position in files plus 1; 0: none */
	unsigned bits;   /* the table has 2 to this power slots */
};

/* One access. */
struct event {
	uint32_t op; /* as in struct shfs_access */
	char *path2; /* of a symbolic link */
	int64_t begin_us, seq;
	int64_t file_id, file2_id, access_id, owner_ns;
	bool read, written, directory, created;
	bool named;  /* SHFS_ACCESS_NAMED */
	bool flawed; /* seen may be incomplete or not archived */
	int64_t seen_id, made_id, seen_n, made_n;
	int64_t past_id; /* the version before, if this appended to it or changed parts */
	uint32_t seen_flags, made_flags;
	bool emptied; /* the open created or truncated it */
	bool carried;
	bool own;      /* the version that it made is this command's */
	bool seen_new; /* it saw a content of a file that this command had still open */
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

/* The slot where the file is, or would be. */
static uint32_t *slot_of_file(struct names *all, int64_t file_id)
{
	size_t mask = ((size_t)1 << all->bits) - 1;
	size_t i = (uint64_t)file_id * 0x9e3779b97f4a7c15 >> (64 - all->bits);

	while (all->slots[i] && all->files[all->slots[i] - 1].file_id != file_id)
		i = (i + 1) & mask;
	return &all->slots[i];
}

/* Finds or adds the name of a file. NULL: no memory. */
static struct name *name_of_file(struct names *all, int64_t file_id, bool *fresh)
{
	struct name_of_file *f = &all->files[*slot_of_file(all, file_id) - 1];

	*fresh = false;
	if (!f->name)
		f->name = name_get(all, f->path ?: "", fresh);
	return f->name;
}

static void used_names_free(struct names *all)
{
	struct name *next;

	for (size_t i = 0; i < all->n_files; i++)
		free(all->files[i].path);
	free(all->files);
	free(all->slots);
	HASH_CLEAR(hh, all->table);
	for (struct name *f = all->first; f; f = next) {
		next = f->next;
		free(f->use.path);
		free(f->use.from);
		free(f);
	}
}
#define _cleanup_names_ _cleanup_(used_names_free)

/* --- access by access --- */

static void note_name_read(struct name *f, const struct event *e)
{
	/* what it wrote itself is no input */
	if (f->written || f->born || f->renamed || f->read)
		return;
	f->read = true;
	f->use.read_id = e->seen_id;
	f->use.read_n = e->seen_n;
	f->use.read_flags = e->seen_flags;
	f->use.read_ns = e->begin_us * 1000;
}

/* With several writers, the last to open need not be the last to close. */
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
	/* after this, reads see only its own content */
	f->use.named = e->named;
	if (e->read && (e->seen_id || !e->emptied))
		note_name_read(f, e);
	if (e->past_id && !f->read && !f->written && !f->born && !f->renamed) {
		f->read = true;
		f->use.read_id = e->past_id;
		f->use.read_n = e->made_n - 1;
		f->use.read_ns = e->begin_us * 1000;
	}
	if (e->written || e->created) {
		f->written = true;
		f->gone = false;
		/* a content that came by a rename is replaced */
		f->renamed &= e->made_n <= f->use.made_n;
		f->use.left_ns = e->begin_us * 1000;
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
	f->use.left_ns = e->begin_us * 1000;
	leave_version(f, e);
}

/* Renames src to dst. A file that the command made for dst counts as made there, else as
 * moved. */
static void apply_rename(struct name *src, struct name *dst, const struct event *e,
                         bool fresh)
{
	/* the file is still open: its record has the new name, or comes later */
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
	src->went_id = e->made_id;
	src->went_n = e->made_n;
	src->went_flags = e->made_flags;
	src->use.left_ns = e->begin_us * 1000;
	if (!src->use.read_id) {
		src->use.read_id = e->seen_id;
		src->use.read_n = e->seen_n;
	}
}

/* Finds the version that came with the rename of its directory. */
static int load_carried(struct names *all, const struct name *f, struct event *e)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open_str(all->index,
	                           "SELECT version_id, n, flags FROM v_version"
	                           " WHERE " SHFS_SQL_FILE(
					   "?1") "AND origin_version_id = ?2",
	                           e->path2, &rows);

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

/* Moves what the command made in a renamed directory. */
static int move_contents(struct names *all, const char *from, const char *to,
                         int64_t begin_us)
{
	int r = 0;

	for (struct name *f = all->first; f && !r; f = f->next) {
		const char *rest = shfs_path_relative(f->path, from);
		_cleanup_free_ char *path = NULL;
		struct event e = { .directory = f->use.directory, .begin_us = begin_us };
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
		apply_rename(f, g, &e, fresh);
	}
	return r;
}

static void apply_remove(struct name *f, const struct event *e)
{
	f->old |= !f->born;
	f->gone = true;
	f->to = NULL;
	f->use.directory = e->directory;
	f->use.left_ns = e->begin_us * 1000;
	if (e->seen_id) {
		f->use.read_id = e->seen_id;
		f->use.read_n = e->seen_n;
		f->use.read_flags = e->seen_flags;
	}
}

static void apply_make(struct name *f, const struct event *e, bool fresh)
{
	f->born |= fresh;
	f->gone = false;
	f->made = true;
	f->use.directory = e->op == SHFS_OP_MKDIR;
}

static int apply_symlink(struct name *f, const struct event *e, bool fresh)
{
	f->born |= fresh;
	f->gone = false;
	f->linked = true;
	f->from = NULL;
	free(f->use.from);
	f->use.from = strdup(e->path2 ?: "");
	return f->use.from ? 0 : -ENOMEM;
}

/* Must the version that it saw be looked up? Most need not. */
static bool needs_seen(const struct name *f, const struct event *e)
{
	return e->seen_n && e->flawed && !(f->read && !e->op);
}

/* Loads the versions that it saw and made. */
static int load_seen(struct names *all, struct event *e)
{
	struct shfs_version_fact v;
	int r = shfs_version_look(all->index, e->seen_id, &v);

	if (r <= 0)
		return r;
	e->seen_flags = v.content.flags;
	e->seen_new = e->op == SHFS_OP_RENAME && e->seen_n == 1 &&
	              v.source == SHFS_SOURCE_FOUND && v.time_ns >= e->owner_ns;
	return 0;
}

/* Was the version made by another access of the command or process? */
static int is_own_version(struct names *all, const struct shfs_version_fact *v,
                          int64_t command_id, int64_t process_id)
{
	int64_t owner;
	int r = shfs_access_command(all->index, v->access_id, &owner);

	if (r)
		return r;
	return owner == command_id && (command_id || v->process_id == process_id);
}

static int load_made(struct names *all, struct event *e, int64_t command_id,
                     int64_t process_id)
{
	struct shfs_version_fact v;
	int r = shfs_version_look(all->index, e->made_id, &v);
	bool made;

	if (r <= 0)
		return r;
	made = v.access_id == e->access_id;
	e->made_flags = v.content.flags;
	e->carried = v.carried;
	/* the version before it */
	if (!e->emptied && e->made_n > 1 && made && (!e->op || e->op == SHFS_OP_TRUNCATE))
		e->past_id = e->made_id - 1;
	r = made ? 1 : is_own_version(all, &v, command_id, process_id);
	e->own = r > 0;
	return MIN(r, 0);
}

static int apply_two_names(struct names *all, const struct event *e, struct name *f)
{
	bool fresh;
	struct name *g = name_of_file(all, e->file2_id, &fresh);

	if (!g)
		return -ENOMEM;
	if (f == g)
		return 0;
	if (e->op == SHFS_OP_RENAME) {
		apply_rename(f, g, e, fresh);
		return e->directory ? move_contents(all, f->path, g->path, e->begin_us)
		                    : 0;
	}
	if (e->op == SHFS_OP_LINK) {
		come(g, f, e, fresh);
		g->linked = true;
	} else { /* they were exchanged */
		come(g, f, e, false);
		g->renamed = true;
		f->from = g;
		f->renamed = true;
	}
	return 0;
}

static int apply_use_event(struct names *all, struct event *e, int64_t command_id,
                           int64_t process_id)
{
	bool fresh;
	struct name *f = name_of_file(all, e->file_id, &fresh);
	int r = 0;

	if (!f)
		return -ENOMEM;
	if (needs_seen(f, e))
		r = load_seen(all, e);
	if (!r && e->made_n)
		r = load_made(all, e, command_id, process_id);
	if (r)
		return r;
	f->use.directory |= e->directory;
	switch (e->op) {
	case 0:
	case SHFS_OP_TRUNCATE:
		on_open(f, e);
		return 0;
	case SHFS_OP_RENAME:
	case SHFS_OP_LINK:
	case SHFS_OP_EXCHANGE:
		return apply_two_names(all, e, f);
	case SHFS_OP_UNLINK:
	case SHFS_OP_RMDIR:
		apply_remove(f, e);
		return 0;
	case SHFS_OP_MKDIR:
	case SHFS_OP_MKNOD:
		apply_make(f, e, fresh);
		return 0;
	case SHFS_OP_SYMLINK:
		return apply_symlink(f, e, fresh);
	default:
		f->touched = true;
		return 0;
	}
}

#define EMPTIED (SHFS_ACCESS_TRUNCATED | SHFS_ACCESS_CREATED)

struct events {
	struct event *list;
	size_t n, cap;
	int64_t max; /* number of accesses; 0: all */
};

static void events_free(struct events *events)
{
	for (size_t i = 0; i < events->n; i++)
		free(events->list[i].path2);
	free(events->list);
}
#define _cleanup_events_ _cleanup_(events_free)

/* The id of a version; 0 if there is none. */
static int64_t version_id(int64_t file_id, int64_t n)
{
	return n ? file_id << 32 | n : 0;
}

static int events_add(const struct shfs_access *a, void *arg)
{
	struct events *events = arg;

	if (events->max && (int64_t)events->n == events->max)
		return 1;
	if (!MAKE_ROOM(events->list, events->n, events->cap))
		return -ENOMEM;
	events->list[events->n++] = (struct event){
		.op = a->op,
		.created = a->flags & SHFS_ACCESS_CREATED,
		.emptied = a->flags & EMPTIED,
		.read = a->flags & SHFS_ACCESS_READ,
		.named = a->flags & SHFS_ACCESS_NAMED,
		.written = shfs_access_is_written(a),
		.file_id = a->file_id,
		.file2_id = a->file2_id,
		.directory = a->directory,
		.seen_id = version_id(a->file_id, a->seen_n),
		.seen_n = a->seen_n,
		.made_id = version_id(a->file2_id ?: a->file_id, a->made_n),
		.made_n = a->made_n,
		.access_id = a->access_id,
		.flawed = a->flawed,
		.begin_us = a->begin_us,
		.seq = a->seq,
	};
	return 0;
}

/*
 * Sorts by begin: the record of an open file is written when it is closed, which may be
 * after it was renamed, or after another process had read it.
 */
static int compare_events(const void *a, const void *b)
{
	const struct event *x = a, *y = b;

	if (x->begin_us != y->begin_us)
		return x->begin_us < y->begin_us ? -1 : 1;
	return (x->seq > y->seq) - (x->seq < y->seq);
}

/* Sorts the events; those of one process alone are in order already. */
static void sort_events(struct events *events)
{
	for (size_t i = 1; i < events->n; i++) {
		if (compare_events(&events->list[i - 1], &events->list[i]) <= 0)
			continue;
		qsort(events->list, events->n, sizeof(*events->list), compare_events);
		return;
	}
}

static void note_file_once(struct names *all, int64_t file_id)
{
	uint32_t *slot = slot_of_file(all, file_id);

	if (*slot)
		return;
	all->files[all->n_files++].file_id = file_id;
	*slot = (uint32_t)all->n_files;
}

/* Lists each file of the events once. */
static int list_files_of_events(struct names *all, const struct events *events)
{
	for (all->bits = 4; (size_t)1 << all->bits < 4 * events->n; all->bits++)
		;
	all->files = calloc(2 * events->n + 1, sizeof(*all->files));
	all->slots = calloc((size_t)1 << all->bits, sizeof(*all->slots));
	if (!all->files || !all->slots)
		return -ENOMEM;
	for (size_t i = 0; i < events->n; i++) {
		note_file_once(all, events->list[i].file_id);
		if (events->list[i].file2_id)
			note_file_once(all, events->list[i].file2_id);
	}
	return 0;
}

static int set_path_of_file(int64_t file_id, const char *path, void *arg)
{
	struct names *all = arg;
	struct name_of_file *f = &all->files[*slot_of_file(all, file_id) - 1];

	f->path = strdup(path);
	return f->path ? 0 : -ENOMEM;
}

static int load_paths(struct names *all)
{
	_cleanup_free_ int64_t *ids = calloc(all->n_files + 1, sizeof(*ids));

	if (!ids)
		return -ENOMEM;
	for (size_t i = 0; i < all->n_files; i++)
		ids[i] = all->files[i].file_id;
	qsort(ids, all->n_files, sizeof(*ids), shfs_compare_int64);
	return shfs_paths_of(all->index, ids, all->n_files, set_path_of_file, all);
}

/* Loads the target of a symbolic link. */
static int load_text(struct shfs_index *index, struct event *e)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open_ints(index,
	                            "SELECT path2 FROM v_access WHERE access_id = ?1",
	                            SHFS_INTS(e->access_id), &rows);

	if (!r)
		r = shfs_rows_next(rows);
	if (r <= 0 || shfs_rows_is_null(rows, 0))
		return MIN(r, 0);
	e->path2 = strdup(shfs_rows_text(rows, 0));
	return e->path2 ? 0 : -ENOMEM;
}

static int ask_number(struct shfs_index *index, const char *sql, int64_t id, int64_t *out)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open_ints(index, sql, SHFS_INTS(id), &rows);

	if (!r)
		r = shfs_rows_next(rows);
	*out = r > 0 ? shfs_rows_int(rows, 0) : 0;
	return MIN(r, 0);
}

/* The begin of the command, or of the process. */
static int load_begin(struct shfs_index *index, int64_t command_id, int64_t process_id,
                      int64_t *out)
{
	return command_id ? ask_number(index,
	                               "SELECT begin_ns FROM v_command"
	                               " WHERE command_id = ?1",
	                               command_id, out)
	                  : ask_number(index,
	                               "SELECT first_ns FROM v_process"
	                               " WHERE process_id = ?1",
	                               process_id, out);
}

/* Counts the accesses that were not read. */
static int count_left_out(struct shfs_index *index, int64_t command_id,
                          int64_t process_id, int64_t max, int64_t *out)
{
	int64_t n;
	int r = command_id ? ask_number(index,
	                                "SELECT n_accesses FROM v_command"
	                                " WHERE command_id = ?1",
	                                command_id, &n)
	                   : ask_number(index,
	                                "SELECT n_accesses FROM v_process"
	                                " WHERE process_id = ?1",
	                                process_id, &n);

	*out = n > max ? n - max : 0;
	return r;
}

/* Reads the accesses. They are sorted here: SQLite would spend most of its time on
 * that. */
static int load_events(struct shfs_index *index, int64_t command_id, int64_t process_id,
                       struct events *events, int64_t *left_out)
{
	int64_t begin_ns;
	int r = load_begin(index, command_id, process_id, &begin_ns);

	if (!r)
		r = command_id ? shfs_accesses_of_command(index, command_id, events_add,
		                                          events)
		               : shfs_accesses_of_nobody(index, process_id, events_add,
		                                         events);
	if (r > 0)
		r = count_left_out(index, command_id, process_id, events->max, left_out);
	for (size_t i = 0; i < events->n && !r; i++) {
		events->list[i].owner_ns = begin_ns;
		if (events->list[i].op == SHFS_OP_SYMLINK)
			r = load_text(index, &events->list[i]);
	}
	sort_events(events);
	return r;
}

/* --- the sum --- */

static bool is_temporary(const struct name *f)
{
	return f->born && f->gone;
}

/* The last name of what was at this name; NULL: it was removed. */
static const struct name *final_name(const struct name *f)
{
	size_t steps = 0;

	for (f = f->to; f && f->gone; f = f->to)
		if (++steps > 1000)
			return NULL;
	return f;
}

/* The first name, through names that are gone. */
static const struct name *origin(const struct name *f)
{
	size_t steps = 0;

	for (f = f->from; f && is_temporary(f) && f->from; f = f->from)
		if (++steps > 1000)
			return NULL;
	return f;
}

static enum shfs_use_kind kind_of_use(const struct name *f)
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

/* Sums up a renamed name: the use is shown at its last name, unless that was written or
 * replaced since. */
static int sum_up_gone(struct name *f)
{
	const struct name *to = final_name(f), *last = f;

	if (to->renamed && origin(to) == f)
		return 0;
	while (last->to != to)
		last = last->to;
	free(f->use.from);
	f->use.kind = SHFS_USE_RENAMED;
	f->use.made_id = last->went_id;
	f->use.made_n = last->went_n;
	f->use.made_flags = last->went_flags;
	f->use.bookkeeping = shfs_path_bookkeeping(to->path);
	f->use.path = strdup(to->path);
	f->use.from = strdup(f->path);
	return f->use.path && f->use.from ? 1 : -ENOMEM;
}

/* 1: to be shown; 0: another name's use includes it, or it is temporary. */
static int sum_up(struct name *f, struct shfs_uses *out)
{
	const struct name *from = origin(f);

	if (is_temporary(f)) {
		out->n_temporary++;
		return 0;
	}
	if (f->gone && final_name(f))
		return sum_up_gone(f);
	/* written under another name, which was then removed: as good as renamed */
	if (from && f->linked && is_temporary(from) && from->written) {
		f->written = true;
		f->linked = false;
	}
	f->use.kind = kind_of_use(f);
	f->use.again = f->use.made_n && !f->own && f->written && !f->renamed;
	f->use.born = f->born;
	f->use.bookkeeping = shfs_path_bookkeeping(f->path);
	/* an open without a read or write */
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
	const struct name *to = final_name(f);

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

static int collect_used_names(struct names *all, struct shfs_uses *out)
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

static int count_cuts(struct shfs_index *index, int64_t command_id, struct shfs_uses *out)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open_ints(index,
	                            "SELECT n_skipped, n_incomplete FROM v_command"
	                            " WHERE command_id = ?1",
	                            SHFS_INTS(command_id), &rows);

	if (!r)
		r = shfs_rows_next(rows);
	if (r > 0) {
		out->n_skipped = shfs_rows_int(rows, 0);
		out->n_incomplete = shfs_rows_int(rows, 1);
	}
	return MIN(r, 0);
}

int shfs_uses_load(struct shfs_index *index, int64_t command_id, int64_t process_id,
                   int64_t max, struct shfs_uses *out)
{
	_cleanup_names_ struct names all = { 0 };
	_cleanup_events_ struct events events = { .max = max };
	struct shfs_uses uses = { 0 };
	int r;

	all.index = index;
	all.last = &all.first;
	r = load_events(index, command_id, process_id, &events, &uses.left_out);
	if (!r)
		r = list_files_of_events(&all, &events) ?: load_paths(&all);
	for (size_t i = 0; i < events.n && !r; i++)
		r = apply_use_event(&all, &events.list[i], command_id, process_id);
	if (!r)
		r = collect_used_names(&all, &uses) ?: collect_temporary(&all, &uses);
	if (!r && command_id && !max)
		r = count_cuts(index, command_id, &uses);
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

bool shfs_uses_make_dir(const struct shfs_uses *uses, const char *dir)
{
	for (size_t i = 0; i < uses->n; i++)
		if (uses->list[i].directory &&
		    (uses->list[i].kind == SHFS_USE_MADE ||
		     uses->list[i].kind == SHFS_USE_RENAMED) &&
		    shfs_path_is_below(dir, uses->list[i].path))
			return true;
	for (size_t i = 0; i < uses->n_temporary; i++)
		if (uses->temporary[i].directory &&
		    shfs_path_is_below(dir, uses->temporary[i].path))
			return true;
	return false;
}

/* --- showing --- */

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
	static const uint32_t reasons[] = {
		SHFS_CONTENT_SKIP_SIZE, SHFS_CONTENT_SKIP_RULE, SHFS_CONTENT_SKIP_BUDGET,
		SHFS_CONTENT_SKIP_USER, SHFS_CONTENT_SKIP_ERROR
	};

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
