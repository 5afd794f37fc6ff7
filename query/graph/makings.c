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
#define MOVES_MAX  32 /* of a making, one after another */

/* Moves of files to the path. */
#define MOVES                                                                            \
	"SELECT access_id FROM v_access WHERE file2_id = ?1 AND is_open = 0"             \
	" AND op = 'rename' AND made_n IS NOT NULL"

struct making {
	int64_t n, end_ns, access_id;
	struct maker_key key; /* id 0: not looked up yet */
	bool moved;
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
	enum by by;
	int r;

	if (!a->made_n || (!a->op && !(a->flags & SHFS_WRITTEN_ANEW)))
		return 0;
	r = shfs_graph_by(of->g, a->access_id >> 32, &by);
	if (r || by != BY_ANOTHER)
		return r;
	if (!MAKE_ROOM(m->list, m->n, m->cap))
		return -ENOMEM;
	m->list[m->n++] = (struct making){ .n = a->made_n,
		                           .end_ns = shfs_access_end_ns(a),
		                           .access_id = a->access_id,
		                           .moved = a->op != 0 };
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

static int compare_end(const void *left, const void *right)
{
	const struct making *a = left, *b = right;

	return (a->end_ns > b->end_ns) - (a->end_ns < b->end_ns);
}

static void sort_makings(struct graph_makings *m)
{
	if (m->n)
		qsort(m->list, m->n, sizeof(*m->list), compare_end);
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
		sort_makings(of.makings);
	}
	if (!r && !of.makings->has_moves)
		r = shfs_facts_last_made(g->facts, version_id, true, &a);
	if (r > 0) {
		of.makings->has_moves = true;
		r = add_moves(&of, file_id);
		sort_makings(of.makings);
	}
	*out = of.makings;
	return r;
}

static int find_maker(struct shfs_graph *g, struct making *m)
{
	struct shfs_version by = { .process_id = m->access_id >> 32 };
	int r = m->key.id ? 0 : shfs_facts_owner(g->facts, m->access_id, &by.command_id);

	return r > 0 ? shfs_graph_maker_of(g, &by, &m->key) : r;
}

static bool is_same_maker(const struct maker_key *a, const struct maker_key *b)
{
	return a->id == b->id && a->is_process == b->is_process && a->job == b->job;
}

/* Finds the last making until at_ns by another maker than the one before. A file that
 * came by a move was made by the first of these. */
static int last_making(struct shfs_graph *g, struct graph_makings *all,
                       const struct shfs_version_fact *v, int64_t at_ns, int64_t *id)
{
	const struct shfs_version by = { .command_id = v->command_id,
		                         .process_id = v->process_id };
	bool came = v->carried || v->source == SHFS_SOURCE_RENAMED;
	struct maker_key last = { 0 };

	for (size_t i = 0; i < all->n; i++) {
		struct making *m = &all->list[i];
		int r = 0;

		if (m->n != v->n)
			continue;
		if (came && m->moved) {
			came = false;
			continue;
		}
		if (m->end_ns < v->time_ns || m->end_ns > at_ns)
			continue;
		if (!last.id)
			r = shfs_graph_maker_of(g, &by, &last);
		r = r ? r : find_maker(g, m);
		if (r)
			return r;
		if (is_same_maker(&m->key, &last))
			continue;
		last = m->key;
		*id = m->access_id == v->access_id ? v->version_id : -m->access_id;
	}
	return 0;
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

int shfs_graph_making(struct shfs_graph *g, int64_t version_id, int64_t at_ns,
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
	return last_making(g, all, &v, at_ns, id);
}

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
	if (!a.op || !a.seen_n || moves >= MOVES_MAX)
		return shfs_facts_owner(g->facts, -id, &out->command_id);
	/* whoever wrote it by its earlier name has made it */
	out->carried = true;
	out->origin_version_id = a.file_id << 32 | a.seen_n;
	r = shfs_graph_making(g, out->origin_version_id, shfs_access_begin_ns(&a), &from);
	r = r ? r : load_making(g, from, &origin, moves + 1);
	if (r > 0) {
		out->source = origin.source;
		out->access_id = origin.access_id;
		out->process_id = origin.process_id;
		out->command_id = origin.command_id;
	}
	return r;
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
