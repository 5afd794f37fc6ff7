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
	struct maker_key key;
	bool moved;
};

struct graph_makings {
	struct making *list; /* in the order of time, once loaded */
	size_t n, cap;
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

static int find_makers(struct shfs_graph *g, struct graph_makings *m)
{
	int r = 0;

	for (size_t i = 0; i < m->n && r >= 0; i++) {
		struct shfs_version by = { .process_id = m->list[i].access_id >> 32 };

		r = shfs_facts_owner(g->facts, m->list[i].access_id, &by.command_id);
		if (r >= 0)
			r = shfs_graph_maker_of(g, &by, &m->list[i].key);
	}
	if (m->n)
		qsort(m->list, m->n, sizeof(*m->list), compare_end);
	return MIN(r, 0);
}

static int load_makings(struct shfs_graph *g, int64_t file_id, struct graph_makings **out)
{
	struct makings_of of = { g, shfs_id_table_get(&g->makings, file_id) };
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
		r = r ? r : add_moves(&of, file_id);
		r = r ? r : find_makers(g, of.makings);
	}
	*out = of.makings;
	return r;
}

/* Was the file changed since the version was first there? */
static int is_changed_since(struct shfs_graph *g, const struct shfs_version_fact *v)
{
	struct shfs_file_fact file;
	int r = shfs_facts_file(g->facts, v->file_id, &file);

	return r > 0 ? file.versions != v->n || file.last_ns > v->time_ns : r;
}

static bool is_same_maker(const struct maker_key *a, const struct maker_key *b)
{
	return a->id == b->id && a->is_process == b->is_process && a->job == b->job;
}

/* Finds the last making until at_ns by another maker than the one before; NULL: first
 * made v. A file that came by a move was made by the first of these. */
static const struct making *last_making(const struct graph_makings *all,
                                        const struct shfs_version_fact *v,
                                        const struct maker_key *first, int64_t at_ns)
{
	bool came = v->carried || v->source == SHFS_SOURCE_RENAMED;
	const struct making *last = NULL;

	for (size_t i = 0; i < all->n; i++) {
		const struct making *m = &all->list[i];

		if (m->n != v->n)
			continue;
		if (came && m->moved) {
			came = false;
			continue;
		}
		if (m->end_ns < v->time_ns || m->end_ns > at_ns ||
		    is_same_maker(&m->key, last ? &last->key : first))
			continue;
		last = m->access_id == v->access_id ? NULL : m;
	}
	return last;
}

int shfs_graph_making(struct shfs_graph *g, int64_t version_id, int64_t at_ns,
                      int64_t *id)
{
	const struct making *last = NULL;
	struct graph_makings *all;
	struct shfs_version_fact v;
	struct maker_key first;
	int r = shfs_facts_version(g->facts, version_id, &v);

	*id = version_id;
	r = r > 0 ? is_changed_since(g, &v) : r;
	if (r <= 0)
		return r;
	r = load_makings(g, v.file_id, &all);
	if (!r && all->n)
		r = shfs_graph_maker_of(g,
		                        &(struct shfs_version){
						.command_id = v.command_id,
						.process_id = v.process_id },
		                        &first);
	if (!r && all->n)
		last = last_making(all, &v, &first,
		                   at_ns > INT64_MAX - ROUNDED_NS ? INT64_MAX
		                                                  : at_ns + ROUNDED_NS);
	if (last)
		*id = -last->access_id;
	return r;
}

static int load_making(struct shfs_graph *g, int64_t id, struct shfs_version_fact *out,
                       int moves)
{
	struct shfs_version_fact origin;
	struct shfs_access a;
	int64_t from;
	int r;

	if (id > 0)
		return shfs_facts_version(g->facts, id, out);
	r = shfs_facts_access(g->facts, -id, &a);
	if (r > 0)
		r = shfs_facts_version(g->facts,
		                       (a.file2_id ?: a.file_id) << 32 | a.made_n, out);
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
