/* SPDX-License-Identifier: MIT */
/*
 * The makings of a version: a number names bytes, and one command after another may write
 * the same bytes. Whoever did so last before a read has made what was read.
 *
 * The id of a making is that of its version (the first making, or one that was found), or
 * the negative id of the access that wrote the same bytes again.
 */
#include "query/graph/internal.h"

#include <errno.h>

/* Times are of microseconds: ends are rounded up, begins down. */
#define ROUNDED_NS 1000
#define MOVES_MAX  32 /* names of a file, one after another, that are gone through */

/* Moves of files to the path. */
#define MOVES                                                                            \
	"SELECT access_id FROM v_access WHERE file2_id = ?1 AND is_open = 0"             \
	" AND op = 'rename' AND made_n IS NOT NULL"

struct making {
	int64_t n, begin_us, end_ns, seq, access_id;
	int64_t moved_id; /* the version that was moved there; 0: it was written there */
	struct maker_key key; /* id 0: not looked up yet */
	bool anew;
};

struct graph_makings {
	struct making *list; /* in the order of time, once loaded */
	size_t n, cap;
	bool has_moves; /* moves to the path were looked up, too */
};

struct makings_of {
	struct shfs_graph *g;
	struct graph_makings *makings;
};

static int add_making(const struct shfs_access *a, void *arg)
{
	struct makings_of *of = arg;
	struct graph_makings *m = of->makings;

	if (!a->made_n)
		return 0;
	if (!MAKE_ROOM(m->list, m->n, m->cap))
		return -ENOMEM;
	m->list[m->n++] = (struct making){
		.n = a->made_n,
		.begin_us = a->begin_us,
		.end_ns = shfs_access_end_ns(a),
		.seq = a->seq,
		.access_id = a->access_id,
		.moved_id = a->op ? a->file_id << 32 | a->seen_n : 0,
		.anew = a->op || a->flags & SHFS_WRITTEN_ANEW,
	};
	return 0;
}

/* Sorts those side by side that wrote through the same open file, the first one first. */
static int compare_open(const void *left, const void *right)
{
	const struct making *a = left, *b = right;

	if (a->n != b->n)
		return a->n < b->n ? -1 : 1;
	if (a->begin_us != b->begin_us)
		return a->begin_us < b->begin_us ? -1 : 1;
	return (a->seq > b->seq) - (a->seq < b->seq);
}

static int compare_end(const void *left, const void *right)
{
	const struct making *a = left, *b = right;

	if (a->end_ns != b->end_ns)
		return a->end_ns < b->end_ns ? -1 : 1;
	return (a->seq > b->seq) - (a->seq < b->seq);
}

/* Keeps what made all of the bytes: of several processes that wrote through one open
 * file, the first, as the index does. Not what brought back what others had made. */
static int keep_made_anew(struct shfs_graph *g, struct graph_makings *m)
{
	size_t n = 0;

	if (!m->n)
		return 0;
	qsort(m->list, m->n, sizeof(*m->list), compare_open);
	for (size_t i = 0, next; i < m->n; i = next) {
		struct making one = m->list[i];
		enum by by;
		int r = shfs_graph_by(g, one.access_id >> 32, &by);

		if (r)
			return r;
		for (next = i + 1; next < m->n && m->list[next].n == one.n &&
		                   m->list[next].begin_us == one.begin_us;
		     next++)
			one.anew |= m->list[next].anew;
		if (one.anew && by == BY_ANOTHER)
			m->list[n++] = one;
	}
	m->n = n;
	qsort(m->list, m->n, sizeof(*m->list), compare_end);
	return 0;
}

static int add_moves(struct makings_of *of, int64_t file_id)
{
	struct shfs_graph *g = of->g;
	struct shfs_access a;
	int r = g->move_rows ? 0 : shfs_rows_open(g->index, MOVES, &g->move_rows);

	if (!r)
		r = shfs_rows_bind_int(g->move_rows, 1, file_id);
	while (!r && (r = shfs_rows_next(g->move_rows)) > 0) {
		r = shfs_facts_access(g->facts, shfs_rows_int(g->move_rows, 0), &a);
		r = r > 0 ? add_making(&a, of) : r;
	}
	return r;
}

/* Gets the makings of a file that has this version. Moves are asked for where there is
 * one: the index has to look for them. */
static int load_makings(struct shfs_graph *g, int64_t version_id,
                        struct graph_makings **out)
{
	int64_t file_id = version_id >> 32;
	struct makings_of of = { g, shfs_id_table_get(&g->makings, file_id) };
	struct shfs_access a;
	int r = 0;

	if (!of.makings) {
		of.makings = calloc(1, sizeof(*of.makings));
		r = of.makings ? shfs_id_table_add(&g->makings, file_id, of.makings)
		               : -ENOMEM;
		if (r) {
			free(of.makings);
			return r;
		}
		r = shfs_facts_opens_of_file(g->facts, file_id, add_making, &of);
		r = r ? r : keep_made_anew(g, of.makings);
	}
	if (!r && !of.makings->has_moves)
		r = shfs_facts_last_made(g->facts, version_id, true, &a);
	if (r > 0) {
		of.makings->has_moves = true;
		r = add_moves(&of, file_id);
		r = r ? r : keep_made_anew(g, of.makings);
	}
	*out = of.makings;
	return r;
}

static int maker_of(struct shfs_graph *g, int64_t command_id, int64_t process_id,
                    struct maker_key *key)
{
	const struct shfs_version by = { .command_id = command_id,
		                         .process_id = process_id };

	return shfs_graph_maker_of(g, &by, key);
}

static int find_maker(struct shfs_graph *g, struct making *m)
{
	int64_t command_id;
	int r = m->key.id ? 0 : shfs_facts_owner(g->facts, m->access_id, &command_id);

	return r > 0 ? maker_of(g, command_id, m->access_id >> 32, &m->key) : r;
}

/* Keeps the last answer: who asks for the making of a version then loads that. */
static int find_version(struct shfs_graph *g, int64_t version_id,
                        struct shfs_version_fact *out)
{
	int r = 1;

	if (g->last_fact.version_id != version_id) {
		struct shfs_version_fact v;

		r = shfs_facts_version(g->facts, version_id, &v);
		if (r <= 0)
			return r;
		g->last_fact = v;
	}
	*out = g->last_fact;
	return r;
}

static int making_at(struct shfs_graph *g, int64_t version_id, int64_t at_ns, int moves,
                     int64_t *id);

static int load_making(struct shfs_graph *g, int64_t id, struct shfs_version_fact *out,
                       int moves)
{
	struct shfs_version_fact origin;
	struct shfs_access a;
	int64_t from;
	int r;

	if (id > 0)
		return find_version(g, id, out);
	r = shfs_facts_access(g->facts, -id, &a);
	if (r > 0)
		r = find_version(g, (a.file2_id ?: a.file_id) << 32 | a.made_n, out);
	if (r <= 0)
		return r;
	out->access_id = -id;
	out->process_id = -id >> 32;
	out->time_ns = shfs_access_end_ns(&a);
	out->source = SHFS_SOURCE_WRITTEN;
	out->carried = false;
	out->origin_version_id = 0;
	r = shfs_facts_owner(g->facts, -id, &out->command_id);
	if (r <= 0 || !a.op || !a.seen_n || moves >= MOVES_MAX)
		return r;
	/* whoever wrote it by its earlier name has made it */
	r = making_at(g, a.file_id << 32 | a.seen_n, shfs_access_end_ns(&a), moves + 1,
	              &from);
	r = r ? r : load_making(g, from, &origin, moves + 1);
	if (r > 0) {
		out->carried = true;
		out->origin_version_id = a.file_id << 32 | a.seen_n;
		out->source = origin.source;
		out->access_id = origin.access_id;
		out->process_id = origin.process_id;
		out->command_id = origin.command_id;
	}
	return r < 0 ? r : 1;
}

/* The move that brought v: it was made by who wrote it last by its name before. */
static int look_at_carrying(struct shfs_graph *g, const struct making *m, int moves,
                            struct maker_key *last, int64_t *id)
{
	struct shfs_version_fact v;
	int64_t from;
	int r;

	if (moves >= MOVES_MAX)
		return 0;
	r = making_at(g, m->moved_id, m->end_ns, moves + 1, &from);
	if (r || from == m->moved_id)
		return r;
	*id = -m->access_id;
	r = load_making(g, from, &v, moves + 1);
	return r > 0 ? maker_of(g, v.command_id, v.process_id, last) : r;
}

/* Finds the last making until at_ns by another maker than the one before. */
static int last_making(struct shfs_graph *g, struct graph_makings *all,
                       const struct shfs_version_fact *v, int64_t at_ns, int moves,
                       int64_t *id)
{
	int64_t carried_from = v->carried ? v->origin_version_id : 0;
	struct maker_key last;
	int r = maker_of(g, v->command_id, v->process_id, &last);

	for (size_t i = 0; i < all->n && !r; i++) {
		struct making *m = &all->list[i];

		if (m->n != v->n || m->end_ns > at_ns)
			continue;
		if (carried_from && m->moved_id == carried_from) {
			carried_from = 0;
			r = look_at_carrying(g, m, moves, &last, id);
			continue;
		}
		if (m->end_ns < v->time_ns)
			continue;
		r = find_maker(g, m);
		if (r || maker_key_equal(&m->key, &last))
			continue;
		last = m->key;
		*id = m->access_id == v->access_id ? v->version_id : -m->access_id;
	}
	return r;
}

static int making_at(struct shfs_graph *g, int64_t version_id, int64_t at_ns, int moves,
                     int64_t *id)
{
	const struct version_node *node = shfs_graph_find(g, version_id);
	struct graph_makings *all;
	struct shfs_version_fact v;
	int r;

	*id = version_id;
	if (node && node->v.version.once)
		return 0;
	r = find_version(g, version_id, &v);
	if (r <= 0 || !v.again)
		return MIN(r, 0);
	r = load_makings(g, version_id, &all);
	if (r)
		return r;
	at_ns = at_ns > INT64_MAX - ROUNDED_NS ? INT64_MAX : at_ns + ROUNDED_NS;
	return last_making(g, all, &v, at_ns, moves, id);
}

int shfs_graph_making(struct shfs_graph *g, int64_t version_id, int64_t at_ns,
                      int64_t *id)
{
	return making_at(g, version_id, at_ns, 0, id);
}

int shfs_graph_load_making(struct shfs_graph *g, int64_t id,
                           struct shfs_version_fact *out)
{
	return load_making(g, id, out, 0);
}

void shfs_graph_makings_free(struct shfs_graph *g)
{
	for (size_t i = 0; g->makings.bits && i < (size_t)1 << g->makings.bits; i++) {
		struct graph_makings *m = g->makings.slots[i].value;

		if (m)
			free(m->list);
	}
	shfs_id_table_free_values(&g->makings);
	shfs_rows_close(g->move_rows);
}
