/* SPDX-License-Identifier: MIT */
#include "query/team/fetch.h"

#include "common/exit.h"
#include "common/quote.h"
#include "query/base/cmd.h"
#include "query/base/progress.h"
#include "query/team/copy-line.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS_MAX 32
#define ROOM_MIN    1024
#define NUMBERS     (INT64_C(1) << 31) /* of all stores together */
#define ROOM_MAX    (NUMBERS / 4)      /* nobody has that many rows */

/* A store that the role sees. */
struct seen {
	struct shfs_tree_identity id;
	char *owner, *mark;
	const char *tree;        /* "": this one; borrowed from the trees */
	bool whole, is_complete; /* is_complete: its last publish came to its end */
	int64_t store_id;
	char **roots; /* a NULL at the end */
	size_t n_roots, cap_roots;
};

struct fetch {
	struct database *db;
	struct shfs_index *mirror;
	struct shfs_trees *trees;
	struct seen *seen;
	size_t n_seen, cap_seen;
	struct shfs_mirror_store *known; /* what the mirror has */
	size_t n_known;
	int64_t next_base, used; /* used: the rooms of all stores together */
	bool is_full, is_anew;
	size_t n_left_out;
	int error; /* of the mirror, or of a row; -EPROTO: shfs did not publish it */
	/* the table that is read */
	struct shfs_mirror_load *load;
	const struct shfs_mirror_table *table;
	struct shfs_buf line;
	bool out_of_room;
};

static void seen_clear(struct seen *s)
{
	shfs_tree_identity_clear(&s->id);
	free(s->owner);
	free(s->mark);
	for (size_t i = 0; i < s->n_roots; i++)
		free(s->roots[i]);
	free(s->roots);
}

static void fetch_clear(struct fetch *f)
{
	for (size_t i = 0; i < f->n_seen; i++)
		seen_clear(&f->seen[i]);
	free(f->seen);
	for (size_t i = 0; i < f->n_known; i++)
		shfs_mirror_store_clear(&f->known[i]);
	free(f->known);
	shfs_buf_free(&f->line);
}

/* --- the stores --- */

static void put_word(char *out, size_t size, const char *word)
{
	snprintf(out, size, "%s", word && *word ? word : "-");
}

static int note_store(void *arg, const char *const *row)
{
	struct fetch *f = arg;
	struct seen *s;

	if (!MAKE_ROOM(f->seen, f->n_seen, f->cap_seen))
		return f->error = -ENOMEM;
	s = &f->seen[f->n_seen++];
	*s = (struct seen){
		.store_id = strtoll(row[0], NULL, 10),
		.owner = strdup(row[2]),
		.whole = *row[6] == '1',
		.mark = strdup(row[7]),
		.is_complete = *row[8] == '1',
	};
	put_word(s->id.store, sizeof(s->id.store), row[1]);
	put_word(s->id.host, sizeof(s->id.host), row[3]);
	put_word(s->id.machine, sizeof(s->id.machine), row[4]);
	s->id.home = strdup(row[5]);
	if (!s->owner || !s->mark || !s->id.home)
		return f->error = -ENOMEM;
	/* two people may have published copies of one store: it counts once */
	for (size_t i = 0; i + 1 < f->n_seen; i++)
		if (!strcmp(f->seen[i].id.store, s->id.store)) {
			seen_clear(s);
			f->n_seen--;
			break;
		}
	return 0;
}

static int note_root(void *arg, const char *const *row)
{
	struct fetch *f = arg;
	int64_t store_id = strtoll(row[0], NULL, 10);

	for (size_t i = 0; i < f->n_seen; i++) {
		struct seen *s = &f->seen[i];

		if (s->store_id != store_id)
			continue;
		if (s->n_roots + 1 >= s->cap_roots) {
			size_t cap = s->cap_roots * 2 + 4;
			char **roots = reallocarray(s->roots, cap, sizeof(*roots));

			if (!roots)
				return f->error = -ENOMEM;
			s->roots = roots;
			s->cap_roots = cap;
		}
		s->roots[s->n_roots] = strdup(row[1]);
		s->roots[s->n_roots + 1] = NULL;
		if (!s->roots[s->n_roots++])
			return f->error = -ENOMEM;
	}
	return 0;
}

/* The mark of a store says all that decides which rows of it a role sees. Its own stores
 * come first. */
static bool ask_stores(struct fetch *f)
{
	static const char stores[] =
		"SELECT s.store_id, s.store, s.owner, s.host, s.machine, s.home,"
		" (w.store_id IS NOT NULL)::int,"
		" concat_ws(' ', s.changes, (w.store_id IS NOT NULL)::int,"
		"  (SELECT string_agg(t.tree_id::text, ',' ORDER BY t.tree_id)"
		"   FROM shfs.tree t WHERE t.store_id = s.store_id)),"
		" (s.published_ns IS NOT NULL)::int"
		" FROM shfs.store s LEFT JOIN shfs.whole_store w USING (store_id)"
		" ORDER BY s.owner <> current_user, s.store_id";

	return database_ask(f->db, stores, NULL, note_store, f) &&
	       database_ask(f->db,
	                    "SELECT store_id, root FROM shfs.tree ORDER BY tree_id", NULL,
	                    note_root, f);
}

/* Is another store, before this one, of the same tree? It would have the same paths. */
static bool is_tree_taken(const struct fetch *f, size_t n)
{
	const struct seen *s = &f->seen[n];

	for (size_t i = 0; i < n; i++)
		if (!strcmp(f->seen[i].tree, s->tree))
			return true;
	return false;
}

/* Names the tree of a store, as an import of it would. A second store of one tree gets
 * one of its own, named after its owner, as the two have recorded the same paths. */
static int name_tree(struct fetch *f, size_t n)
{
	struct seen *s = &f->seen[n];
	struct shfs_tree_identity other = { .home = s->id.home };
	const char *name = NULL;
	int r = shfs_trees_add(f->trees, &s->id, &name);

	s->tree = name ?: "";
	if (r || !is_tree_taken(f, n))
		return r;
	snprintf(other.store, sizeof(other.store), "-");
	snprintf(other.machine, sizeof(other.machine), "%.16s", s->id.store);
	snprintf(other.host, sizeof(other.host), "%.32s.%.31s", s->id.host, s->owner);
	r = shfs_trees_add(f->trees, &other, &name);
	s->tree = name ?: "";
	return r;
}

/* --- rows --- */

static int take_line(void *arg, const char *line, size_t len)
{
	struct fetch *f = arg;
	struct shfs_mirror_value values[COLUMNS_MAX];

	if (f->out_of_room || f->error)
		return 0; /* the connection goes on once all has come */
	f->error = copy_line_read(&f->line, line, len, f->table->kinds, values)
	                   ? shfs_mirror_add(f->load, values)
	                   : -EPROTO;
	if (f->error == -ERANGE) {
		f->out_of_room = true;
		f->error = 0;
	}
	return 0;
}

/* Reads the rows of a table with keys from first to last. */
static bool read_rows(struct fetch *f, const struct shfs_mirror_store *store,
                      const struct shfs_mirror_table *table, int64_t first, int64_t last)
{
	_cleanup_mirror_load_ struct shfs_mirror_load *load = NULL;
	_cleanup_buf_ struct shfs_buf sql = { 0 };

	shfs_buf_printf(&sql, "COPY (SELECT %s, escaped FROM shfs.%s WHERE store_id = ",
	                table->columns, table->name);
	shfs_buf_int(&sql, store->store_id);
	shfs_buf_printf(&sql, " AND %s BETWEEN ", table->key);
	shfs_buf_int(&sql, first);
	shfs_buf_str(&sql, " AND ");
	shfs_buf_int(&sql, last);
	shfs_buf_printf(&sql, " ORDER BY %s) TO STDOUT", table->key);
	f->error =
		sql.failed ? -ENOMEM : shfs_mirror_load(f->mirror, store, table, &load);
	if (f->error)
		return false;
	f->load = load;
	f->table = table;
	return database_copy_out(f->db, sql.data, take_line, f) && !f->error;
}

/* --- pieces --- */

/* A table of a store that is read. */
struct reading {
	struct fetch *f;
	const struct shfs_mirror_store *store;
	const struct shfs_mirror_table *table;
};

static int list_piece(void *arg, const char *const *row)
{
	const struct reading *reading = arg;
	struct shfs_mirror_piece piece = {
		.first = strtoll(row[1], NULL, 10),
		.last = strtoll(row[2], NULL, 10),
		.hash = strtoll(row[3], NULL, 10),
		.rows = strtoll(row[4], NULL, 10),
	};

	snprintf(piece.name, sizeof(piece.name), "%s", row[0]);
	if (!reading->f->error)
		reading->f->error = shfs_mirror_list_piece(reading->f->mirror,
		                                           reading->store, &piece);
	return 0; /* the connection goes on once all has come */
}

/* Lists the pieces that the database has of a store, and removes others. */
static bool list_pieces(struct fetch *f, const char *store_id,
                        const struct shfs_mirror_store *store)
{
	struct reading reading = { f, store, NULL };

	f->error = shfs_mirror_list(f->mirror);
	if (f->error ||
	    !database_ask(f->db,
	                  "SELECT name, first, last, hash, rows FROM shfs.piece"
	                  " WHERE store_id = $1::int",
	                  (const char *const[]){ store_id, NULL }, list_piece, &reading))
		return false;
	if (!f->error)
		f->error = shfs_mirror_remove_unlisted(f->mirror, store);
	return !f->error;
}

/* 1: it failed; that was said, or f->error says it. */
static int read_range(void *arg, int64_t first, int64_t last)
{
	const struct reading *r = arg;

	return !read_rows(r->f, r->store, r->table, first, last);
}

/* Reads the pieces of a table that the mirror lacks: those in a row at once. */
static bool read_pieces(struct fetch *f, const struct shfs_mirror_store *store,
                        const struct shfs_mirror_table *table)
{
	struct reading reading = { f, store, table };
	int r = shfs_mirror_take_listed(f->mirror, store, table, read_range, &reading);

	if (r < 0)
		f->error = r;
	return !r;
}

/* --- a store --- */

/* Estimates how many numbers a store needs. Rows that are seen may name some that are
 * not, and are larger. */
static bool ask_room(struct fetch *f, const char *store_id, int64_t *out)
{
	static const char sql[] =
		"SELECT greatest((SELECT max(producer_id) FROM shfs.producer"
		"  WHERE store_id = $1::int),"
		" (SELECT max(session_id) FROM shfs.session WHERE store_id = $1::int),"
		" (SELECT max(command_id) FROM shfs.command WHERE store_id = $1::int),"
		" (SELECT max(process_id) FROM shfs.process WHERE store_id = $1::int),"
		" (SELECT max(program_id) FROM shfs.program WHERE store_id = $1::int),"
		" (SELECT max(lookup_id) FROM shfs.lookup WHERE store_id = $1::int),"
		" (SELECT max(note_id) FROM shfs.note WHERE store_id = $1::int),"
		" (SELECT max(file_id) FROM shfs.file WHERE store_id = $1::int))";
	int64_t most;

	if (!database_ask_int(f->db, sql, (const char *const[]){ store_id, NULL }, &most))
		return false;
	*out = ROOM_MIN;
	while (*out <= most && *out < NUMBERS)
		*out *= 2;
	return true;
}

/* Reads a store's rows: all of them, or the pieces that have changed. */
static bool read_store(struct fetch *f, const struct seen *s, const char *store_id,
                       const struct shfs_mirror_store *store)
{
	bool ok = !s->whole || list_pieces(f, store_id, store);

	for (const struct shfs_mirror_table *t = shfs_mirror_tables; t->name && ok; t++)
		ok = s->whole ? read_pieces(f, store, t)
		              : read_rows(f, store, t, 0, INT64_MAX);
	return ok;
}

static struct shfs_mirror_store *find_known(struct fetch *f, int64_t store_id)
{
	for (size_t i = 0; i < f->n_known; i++)
		if (f->known[i].store_id == store_id)
			return &f->known[i];
	return NULL;
}

/* Takes a new room, twice as large as needed, as a store grows. */
static bool take_room(struct fetch *f, int64_t needed, struct shfs_mirror_store *store)
{
	f->used += needed * 2 - store->room;
	store->room = needed * 2;
	store->base = f->next_base;
	f->next_base += store->room;
	if (store->room > ROOM_MAX)
		f->error = -EPROTO;
	else if (f->next_base > NUMBERS)
		f->is_full = true;
	return !f->error && !f->is_full;
}

static bool replace_rows(struct fetch *f, const struct seen *s)
{
	struct shfs_mirror_store *known = find_known(f, s->store_id);
	struct shfs_mirror_store store = { .store_id = s->store_id,
		                           .tree = (char *)s->tree,
		                           .mark = s->mark,
		                           .roots = s->roots };
	char store_id[24];
	int64_t needed;
	bool keep = false;

	snprintf(store_id, sizeof(store_id), "%" PRId64, s->store_id);
	if (!ask_room(f, store_id, &needed))
		return false;
	if (known) {
		store.base = known->base;
		store.room = known->room;
	}
	if (known && s->whole && known->room >= needed) {
		int r = shfs_mirror_has_pieces(f->mirror, known->store_id);

		f->error = MIN(r, 0);
		keep = r > 0;
	}
	if (!f->error && known && !keep)
		f->error = shfs_mirror_remove_store(f->mirror, known);
	if (f->error || (store.room < needed && !take_room(f, needed, &store)))
		return false;
	for (;;) {
		f->out_of_room = false;
		if (!read_store(f, s, store_id, &store))
			return false;
		if (!f->out_of_room)
			break;
		f->error = shfs_mirror_remove_store(f->mirror, &store);
		if (f->error || !take_room(f, store.room * 4, &store))
			return false;
	}
	f->error = shfs_mirror_put_store(f->mirror, &store);
	return !f->error;
}

static void warn_left_out(const struct seen *s, const char *why)
{
	_cleanup_buf_ struct shfs_buf owner = { 0 };

	shfs_progress_end();
	shfs_quote_display(&owner, s->owner, strlen(s->owner));
	shfs_warn("the store of %s is left out: %s", owner.data ?: "?", why);
}

/* Reads a store anew, or what has changed of it. Whoever publishes rows that shfs does
 * not must not end the answers about all others: such a store is left out. */
static bool replace_store(struct fetch *f, const struct seen *s)
{
	int64_t next_base = f->next_base, used = f->used;
	struct shfs_mirror_store *known = find_known(f, s->store_id);
	int r;
	bool ok;

	f->error = shfs_mirror_begin_store(f->mirror);
	if (f->error)
		return false;
	ok = replace_rows(f, s);
	if (!ok && !f->is_full && f->error != -EPROTO)
		return false;
	r = shfs_mirror_end_store(f->mirror, ok);
	if (ok || r) {
		f->error = r;
		return !r;
	}
	/* room that is between others is of use once all are numbered anew */
	if (f->is_full && !f->is_anew && f->used <= NUMBERS)
		return false;
	warn_left_out(s, f->is_full ? "there are too many rows for one answer"
	                            : "it has rows that shfs did not publish");
	f->n_left_out++;
	f->is_full = false;
	f->next_base = next_base;
	f->used = used - (known ? known->room : 0);
	f->error = known ? shfs_mirror_remove_store(f->mirror, known) : 0;
	return !f->error;
}

/* Removes what is not seen any more, or has another name here by now. */
static int remove_unseen(struct fetch *f)
{
	int r = 0;

	for (size_t i = 0; i < f->n_known && !r; i++) {
		struct shfs_mirror_store *known = &f->known[i];
		bool stays = false;

		for (size_t j = 0; j < f->n_seen; j++)
			stays |= f->seen[j].store_id == known->store_id &&
			         !strcmp(f->seen[j].tree, known->tree);
		if (stays) {
			f->next_base = MAX(f->next_base, known->base + known->room);
			f->used += known->room;
			continue;
		}
		r = shfs_mirror_remove_store(f->mirror, known);
		known->store_id = 0;
	}
	return r;
}

/* Rows of a publish that has not come to its end may be missing, or be old. */
static void warn_incomplete(const struct seen *s)
{
	_cleanup_buf_ struct shfs_buf owner = { 0 }, host = { 0 };

	shfs_progress_end();
	shfs_quote_display(&owner, s->owner, strlen(s->owner));
	shfs_quote_display(&host, s->id.host, strlen(s->id.host));
	shfs_warn("the store of %s on %s is being published, or its publish was "
	          "interrupted",
	          owner.data ?: "?", host.data ?: "?");
}

static bool replace_stores(struct fetch *f)
{
	for (size_t i = 0; i < f->n_seen; i++) {
		const struct seen *s = &f->seen[i];
		const struct shfs_mirror_store *known = find_known(f, s->store_id);

		if (known && !strcmp(known->mark, s->mark))
			continue;
		if (!replace_store(f, s))
			return false;
	}
	return true;
}

static int load_known(struct fetch *f)
{
	for (size_t i = 0; i < f->n_known; i++)
		shfs_mirror_store_clear(&f->known[i]);
	free(TAKE_PTR(f->known));
	f->n_known = 0;
	return shfs_mirror_stores(f->mirror, &f->known, &f->n_known);
}

/* Removes all stores, so that numbers begin anew. */
static bool begin_anew(struct fetch *f)
{
	f->error = load_known(f);
	for (size_t i = 0; i < f->n_known && !f->error; i++) {
		f->error = shfs_mirror_remove_store(f->mirror, &f->known[i]);
		f->known[i].store_id = 0;
	}
	f->next_base = f->used = 0;
	f->n_left_out = 0;
	f->is_full = false;
	f->is_anew = true;
	return !f->error;
}

/* --- all --- */

/* Compiling the conditions of row-level security would take longer than to check them. */
static bool fetch_all(struct fetch *f)
{
	bool ok;

	if (!database_run(f->db, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;"
	                         "SET LOCAL bytea_output = hex; SET LOCAL jit = off") ||
	    !ask_stores(f))
		return false;
	for (size_t i = 0; i < f->n_seen && !f->error; i++)
		f->error = name_tree(f, i);
	if (!f->error)
		f->error = load_known(f);
	if (!f->error)
		f->error = remove_unseen(f);
	if (f->error)
		return false;
	for (size_t i = 0; i < f->n_seen; i++)
		if (!f->seen[i].is_complete)
			warn_incomplete(&f->seen[i]);
	ok = replace_stores(f) || (f->is_full && begin_anew(f) && replace_stores(f));
	return ok && database_run(f->db, "COMMIT");
}

static void say_error(struct fetch *f)
{
	if (f->error == -ENOMEM)
		shfs_no_memory();
	else
		shfs_error("cannot write what the database has into the cache: %s",
		           strerror(-f->error));
}

int fetch_mirror(struct database *db, struct shfs_index *mirror, struct shfs_trees *trees)
{
	_cleanup_(fetch_clear) struct fetch f = { .db = db,
		                                  .mirror = mirror,
		                                  .trees = trees };
	bool ok = false;

	shfs_progress_begin("reading the database");
	/* a later fetch must not have an older state of the database */
	f.error = shfs_mirror_begin(mirror);
	if (!f.error)
		ok = fetch_all(&f);
	if (ok)
		f.error = shfs_mirror_commit(mirror);
	else
		shfs_mirror_rollback(mirror);
	shfs_progress_end();
	if (f.error == -EBADMSG && database_run(db, "ROLLBACK"))
		return f.error;
	if (f.error)
		say_error(&f);
	else if (ok && f.n_left_out && f.n_left_out == f.n_seen)
		shfs_error("the database has no other store that this role may see");
	else if (ok)
		return SHFS_EXIT_OK;
	return SHFS_EXIT_FAILURE;
}
