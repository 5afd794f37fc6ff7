/* SPDX-License-Identifier: MIT */
#include "query/graph/upstream.h"

#include "common/path.h"
#include "query/graph/internal.h"

#include <errno.h>
#include <string.h>

/* The access that first moved the version to its path; or the move of a directory
 * there. */
#define MOVED                                                                            \
	"SELECT command_id, process_id FROM v_access WHERE file2_id = ?1"                \
	" AND is_open = 0 AND op = 'rename' AND made_n >= ?2 ORDER BY seq_key LIMIT 1"
#define MOVED_WITH                                                                       \
	"SELECT command_id, process_id FROM v_access"                                    \
	" WHERE is_open = 0 AND op = 'rename' AND directory AND begin_ns >= ?2"          \
	" AND file2_id =" SHFS_SQL_FILE_ID("?1") "ORDER BY seq_key LIMIT 1"

struct upstream {
	struct shfs_graph *graph;
	struct maker_node *queue, **queue_end;
	struct shfs_id_table
		walked; /* earlier versions that were walked: version to maker */
	bool found;     /* the search of limits.until has succeeded */
};

/* --- moves --- */

/* 1 with *rows at the command that moved a directory with the version; 0: none is
 * recorded. */
static int ask_directory(struct shfs_index *index, const struct shfs_version *version,
                         struct shfs_rows **rows)
{
	_cleanup_free_ char *dir = strdup(version->path);
	int r = dir ? shfs_rows_open(index, MOVED_WITH, rows) : -ENOMEM;

	for (char *slash; !r && (slash = strrchr(dir, '/')) && slash > dir;) {
		*slash = 0;
		r = shfs_rows_bind_str(*rows, 1, dir);
		if (!r)
			r = shfs_rows_bind_int(*rows, 2, version->time_ns);
		if (!r)
			r = shfs_rows_next(*rows);
	}
	return r;
}

static int ask_file(struct shfs_index *index, const struct shfs_version *version,
                    struct shfs_rows **rows)
{
	int r = shfs_rows_open_ints(index, MOVED, SHFS_INTS(version->file_id, version->n),
	                            rows);

	return r ? r : shfs_rows_next(*rows);
}

int shfs_upstream_attribute(struct shfs_graph *graph, struct shfs_version *version)
{
	_cleanup_rows_ struct shfs_rows *file = NULL, *directory = NULL;
	struct shfs_rows *rows;
	int r;

	if (!graph->limits.whole || !version->carried || !version->origin_version_id)
		return 0;
	r = ask_file(graph->index, version, &file);
	rows = file;
	if (!r) {
		r = ask_directory(graph->index, version, &directory);
		rows = directory;
	}
	if (r <= 0)
		return r;
	if (!version->command_id || version->command_id != shfs_rows_int(rows, 0)) {
		version->command_id = shfs_rows_int(rows, 0);
		version->process_id = shfs_rows_int(rows, 1);
		strcpy(version->source, "renamed");
	}
	return 0;
}

static int load_attributed_version(struct upstream *up, int64_t id,
                                   struct shfs_version *out)
{
	int r = shfs_graph_version(up->graph, id, out);

	return r > 0 ? shfs_upstream_attribute(up->graph, out) ?: 1 : r;
}

/* --- makers whose inputs must be looked up --- */

static void enqueue_maker(struct upstream *up, struct maker_node *m)
{
	if (m->queued)
		return;
	m->queued = true;
	m->next = NULL;
	*up->queue_end = m;
	up->queue_end = &m->next;
}

static struct maker_node *dequeue(struct upstream *up)
{
	struct maker_node *m = up->queue;

	if (m) {
		up->queue = m->next;
		if (!up->queue)
			up->queue_end = &up->queue;
		m->queued = false;
	}
	return m;
}

/* --- versions --- */

/* Gets the id of the making that was there at_ns. A whole maker is asked for all that it
 * made, whoever wrote the same again. */
static int making_at(struct upstream *up, int64_t version_id, int64_t at_ns, int64_t *id)
{
	*id = version_id;
	return up->graph->limits.whole
	               ? 0
	               : shfs_graph_making(up->graph, version_id, at_ns, id);
}

static int load_made_ns(struct upstream *up, struct version_node *node)
{
	struct shfs_access a;
	int r;

	if (node->made_ns != INT64_MIN)
		return 0;
	if (up->graph->limits.whole) {
		node->made_ns = INT64_MAX;
		return 0;
	}
	r = shfs_facts_access(up->graph->facts, node->v.version.access_id, &a);
	if (r >= 0)
		node->made_ns = r ? shfs_access_end_ns(&a) : node->v.version.time_ns;
	return MIN(r, 0);
}

/*
 * Looks up the inputs of the version's maker (again), if it has one: all that it read
 * until this version.
 */
static int require(struct upstream *up, struct version_node *node, size_t depth)
{
	struct maker_node *m;
	int r;

	if (!node->v.maker)
		return 0;
	m = container_of(node->v.maker, struct maker_node, m);
	r = load_made_ns(up, node);
	if (r)
		return r;
	if (node->made_ns > m->m.until_ns ||
	    (up->graph->limits.max_depth && depth < m->m.depth))
		enqueue_maker(up, m);
	if (node->made_ns > m->m.until_ns) {
		m->m.until_ns = node->made_ns;
		m->m.into = &node->v;
	}
	m->m.depth = MIN(m->m.depth, depth);
	return 0;
}

static int attach_maker(struct upstream *up, struct version_node *node)
{
	struct maker_key key;
	struct maker_node *m;
	int r = shfs_graph_maker_of(up->graph, &node->v.version, &key);

	r = r ? r : shfs_graph_maker(up->graph, key, &m);
	if (r <= 0)
		return r;
	shfs_graph_attach(node, m);
	enqueue_maker(up, m);
	return 0;
}

static void note_found(struct upstream *up, const struct version_node *node)
{
	const char *until = up->graph->limits.until;

	up->found |= until && shfs_path_is_below(node->v.version.path, until);
}

static int add_origin(struct upstream *up, struct version_node *node, size_t depth);

/* Takes ownership of version's contents. */
static int add_upstream_version(struct upstream *up, int64_t id,
                                struct shfs_version *version, size_t depth,
                                struct version_node **out)
{
	struct version_node *node = shfs_graph_add(up->graph, id, version);
	int r = node ? attach_maker(up, node) : -ENOMEM;

	if (!r)
		r = require(up, node, depth);
	if (!r)
		r = add_origin(up, node, depth);
	if (!r)
		*out = node;
	return r;
}

/* Gets the version that v was copied from, if only its content tells. */
static int joined_from(struct upstream *up, const struct shfs_version *v, int64_t *id)
{
	int r = up->graph->limits.whole ? 0 : shfs_graph_joined(up->graph, v, id);

	return r > 0 ? making_at(up, *id, v->time_ns, id) ?: 1 : r;
}

/* Adds the version elsewhere that has the content of one that nobody made. */
static int add_origin(struct upstream *up, struct version_node *node, size_t depth)
{
	_cleanup_version_ struct shfs_version version = { 0 };
	struct version_node *origin;
	int64_t id;
	int r = node->v.maker || shfs_graph_is_full(up->graph)
	                ? 0
	                : joined_from(up, &node->v.version, &id);

	if (r <= 0)
		return r;
	origin = shfs_graph_find(up->graph, id);
	if (origin) {
		r = require(up, origin, depth);
	} else {
		r = load_attributed_version(up, id, &version);
		r = r > 0 ? add_upstream_version(up, id, &version, depth, &origin)
		          : MIN(r, 0);
		if (!r && origin)
			origin->v.via = &node->v;
	}
	if (!r && origin) {
		node->v.origin = &origin->v;
		note_found(up, origin);
	}
	return r;
}

/* --- inputs --- */

static int add_past_version(struct upstream *up, struct maker_node *m,
                            struct shfs_graph_version *into,
                            const struct shfs_version *v);
static int add_maker_input(struct upstream *up, struct maker_node *m,
                           struct shfs_graph_version *into, int64_t version_id,
                           int64_t at_ns);

/* Is it a file outside through which other inputs of m went? These tell more. */
static bool is_way(const struct maker_node *m, const char *path)
{
	for (size_t i = 0; i < m->m.n_notes; i++)
		if (m->m.notes[i].by_way && !strcmp(m->m.notes[i].by_way, path))
			return true;
	return false;
}

/* Adds a making as an input of into, which m made; if m made the input itself, the
 * versions that it was made from. at_ns: when m read it, or INT64_MIN. */
static int add_making_input(struct upstream *up, struct maker_node *m,
                            struct shfs_graph_version *into, int64_t id, int64_t at_ns)
{
	_cleanup_version_ struct shfs_version version = { 0 };
	struct version_node *node = shfs_graph_find(up->graph, id);
	size_t depth = m->m.depth + 1;
	int64_t source_id;
	int r;

	if (node) {
		if (shfs_graph_is_own(m, &node->v.version) ||
		    is_way(m, node->v.version.path))
			return 0;
		r = require(up, node, depth);
	} else if (shfs_graph_is_full(up->graph)) {
		m->m.n_more++;
		return 0;
	} else {
		r = load_attributed_version(up, id, &version);
		if (r <= 0)
			return r;
		if (shfs_graph_is_own(m, &version))
			return add_past_version(up, m, into, &version);
		if (is_way(m, version.path))
			return 0;
		r = shfs_graph_compiled_from(up->graph, version.file_id, version.path,
		                             at_ns, &source_id);
		if (r)
			return r < 0 ? r : add_maker_input(up, m, into, source_id, at_ns);
		if (!up->graph->limits.all &&
		    shfs_path_is_version_control(version.path)) {
			m->m.n_left_out++;
			return 0;
		}
		if (!up->graph->limits.all && shfs_path_setting(version.path))
			return 0;
		r = add_upstream_version(up, id, &version, depth, &node);
		if (!r) {
			node->v.via = into;
			note_found(up, node);
		}
	}
	return r ? r : shfs_graph_add_input(m, node);
}

/* As above, of a version that m read at_ns. */
static int add_maker_input(struct upstream *up, struct maker_node *m,
                           struct shfs_graph_version *into, int64_t version_id,
                           int64_t at_ns)
{
	int64_t id;
	int r = shfs_graph_compiled_from(up->graph, version_id >> 32, NULL, at_ns,
	                                 &version_id);

	if (r >= 0)
		r = making_at(up, version_id, at_ns, &id);
	return r ? r : add_making_input(up, m, into, id, at_ns);
}

static int keep_later(struct maker_node *m, const struct graph_read *read)
{
	struct graph_reads *later = &m->reads;

	if (!MAKE_ROOM(later->list, later->n, later->cap))
		return -ENOMEM;
	later->list[later->n++] = *read;
	return 0;
}

/* Adds the reads until until_ns: mostly all. */
static int add_first_reads(struct upstream *up, struct maker_node *m, enum by most)
{
	const struct graph_reads *reads = &up->graph->reads;
	int64_t until_ns = m->m.until_ns;
	int r = shfs_graph_reads(up->graph, m->key, most, &up->graph->reads);

	m->reads.n = 0;
	m->by_time = false;
	for (size_t i = 0; i < reads->n && !r; i++)
		r = reads->list[i].begin_ns <= until_ns
		            ? add_maker_input(up, m, m->m.into, reads->list[i].version_id,
		                              reads->list[i].begin_ns)
		            : keep_later(m, &reads->list[i]);
	return r;
}

static int compare_time(const void *a, const void *b)
{
	const struct graph_read *x = a, *y = b;

	return (x->begin_ns < y->begin_ns) - (x->begin_ns > y->begin_ns);
}

/* Adds reads that are now early enough. Each is looked at once, however often m is
 * expanded. */
static int add_later_reads(struct upstream *up, struct maker_node *m)
{
	struct graph_reads *reads = &m->reads;
	size_t n = reads->n;
	int r = 0;

	if (!m->by_time && n)
		qsort(reads->list, n, sizeof(*reads->list), compare_time);
	m->by_time = true;
	while (reads->n && reads->list[reads->n - 1].begin_ns <= m->m.until_ns)
		reads->n--;
	shfs_graph_sort_reads(reads->list + reads->n, n - reads->n);
	for (size_t i = reads->n; i < n && !r; i++)
		r = add_maker_input(up, m, m->m.into, reads->list[i].version_id,
		                    reads->list[i].begin_ns);
	return r;
}

static int past_of(struct upstream *up, const struct shfs_version *v, int64_t *out)
{
	*out = v->origin_version_id;
	return *out ? 1 : shfs_graph_past(up->graph, v, out);
}

static int note_walked(struct upstream *up, int64_t version_id, struct maker_node *m)
{
	if (!shfs_id_table_get(&up->walked, version_id))
		return shfs_id_table_add(&up->walked, version_id, m);
	shfs_id_table_slot(&up->walked, version_id)->value = m;
	return 0;
}

/* Adds the last version before v that went into it and is not m's own: an input of
 * into. */
static int add_past_version(struct upstream *up, struct maker_node *m,
                            struct shfs_graph_version *into, const struct shfs_version *v)
{
	_cleanup_version_ struct shfs_version own = { 0 };
	int64_t id;
	int r;

	while ((r = past_of(up, v, &id)) > 0) {
		_cleanup_version_ struct shfs_version past = { 0 };

		r = making_at(up, id, v->time_ns, &id);
		if (r)
			return r;
		if (shfs_id_table_get(&up->walked, id) == m)
			return 0;
		r = note_walked(up, id, m);
		if (r)
			return r;
		r = load_attributed_version(up, id, &past);
		if (r <= 0 || shfs_graph_is_unfinished(m, &past))
			return MIN(r, 0);
		if (!shfs_graph_is_own(m, &past))
			return add_making_input(up, m, into, id, INT64_MIN);
		shfs_version_clear(&own);
		own = past;
		past.path = NULL;
		v = &own;
	}
	return r;
}

/* Adds the version that into was restored from: 1; 0 if it was not restored. */
static int add_restored(struct upstream *up, struct maker_node *m,
                        struct version_node *into)
{
	int64_t id;
	int r = shfs_graph_restored_from(up->graph, &into->v.version, &id);

	if (r > 0)
		r = making_at(up, id, into->v.version.time_ns, &id) ?: 1;
	if (r > 0)
		r = add_making_input(up, m, &into->v, id, INT64_MIN) ?: 1;
	return r;
}

/* Adds earlier versions as inputs, without counting those left out: m may not have read
 * them. */
static int add_origins(struct upstream *up, struct maker_node *m)
{
	size_t left_out = m->m.n_left_out, more = m->m.n_more;
	int r = 0;

	for (struct shfs_graph_version *v = m->m.made; v != m->last_made && r >= 0;
	     v = v->next_made) {
		struct version_node *node = container_of(v, struct version_node, v);

		r = add_restored(up, m, node);
		m->not_restored |= !r;
		if (!r)
			r = add_past_version(up, m, v, &v->version);
	}
	m->last_made = m->m.made;
	m->m.n_left_out = left_out;
	m->m.n_more = more;
	return MIN(r, 0);
}

/* Adds the reads. If all results in question were restored, version control has read
 * other files only to see whether they changed: these reads are no inputs. */
static int add_reads(struct upstream *up, struct maker_node *m, bool anew)
{
	bool all = m->not_restored || up->graph->limits.all;
	enum by most = all ? BY_VERSION_CONTROL : BY_ANOTHER;

	if (!anew && m->most == most)
		return add_later_reads(up, m);
	m->most = most;
	m->m.n_left_out = m->m.n_more = 0;
	return add_first_reads(up, m, most);
}

/* Notes how an input went into m; by_way NULL: m made a copy of it. */
static int note_input(struct maker_node *m, const struct shfs_graph_version *input,
                      const char *by_way)
{
	struct shfs_graph_maker *maker = &m->m;
	char *copy = by_way ? strdup(by_way) : NULL;

	if ((by_way && !copy) ||
	    !MAKE_ROOM(maker->notes, maker->n_notes, maker->cap_notes)) {
		free(copy);
		return -ENOMEM;
	}
	maker->notes[maker->n_notes++] = (struct shfs_graph_note){ input, copy };
	return 0;
}

/* Adds what the results were copied from, if m has read nothing. */
static int add_joined(struct upstream *up, struct maker_node *m)
{
	int r = 0;

	for (struct shfs_graph_version *v = m->m.made; v != m->last_joined && r >= 0;
	     v = v->next_made) {
		size_t n = m->m.n_inputs;
		int64_t id;

		r = joined_from(up, &v->version, &id);
		if (r > 0)
			r = add_making_input(up, m, v, id, INT64_MIN);
		if (!r && m->m.n_inputs > n)
			r = note_input(m, m->m.inputs[n], NULL);
	}
	m->last_joined = m->m.made;
	return MIN(r, 0);
}

struct passed {
	struct upstream *up;
	struct maker_node *m;
};

static int add_passed_read(const struct graph_read *read, const char *path, void *arg)
{
	struct passed *p = arg;
	size_t n = p->m->m.n_inputs;
	int r = add_maker_input(p->up, p->m, p->m->m.into, read->version_id,
	                        read->begin_ns);

	return r || p->m->m.n_inputs == n ? r : note_input(p->m, p->m->m.inputs[n], path);
}

/* Adds what went in by way of files outside. */
static int add_passed(struct upstream *up, struct maker_node *m)
{
	struct passed p = { up, m };

	return up->graph->limits.whole
	               ? 0
	               : shfs_graph_passed(up->graph, m->key, add_passed_read, &p);
}

static int expand_maker(struct upstream *up, struct maker_node *m)
{
	const struct shfs_graph_limits *limits = &up->graph->limits;
	bool anew = !m->asked || (limits->max_depth && m->m.depth < m->asked_depth);
	int r;

	m->m.cut = (limits->max_depth && m->m.depth >= (size_t)limits->max_depth) ||
	           (!m->asked && shfs_graph_is_full(up->graph));
	if (m->m.cut)
		return 0;
	for (size_t i = 0; i < m->m.n_inputs; i++)
		container_of(m->m.inputs[i], struct version_node, v)->input_of = m;
	if (anew)
		m->last_made = NULL;
	r = add_origins(up, m);
	r = r || m->asked ? r : add_passed(up, m);
	r = r ? r : add_reads(up, m, anew);
	if (!r && !m->m.n_inputs && !m->m.n_left_out && !m->m.n_more)
		r = add_joined(up, m);
	m->asked = true;
	m->asked_depth = m->m.depth;
	return r;
}

/* Gives the target its last maker. */
static int attribute_target(struct upstream *up, struct shfs_version *target, int64_t *id)
{
	struct shfs_version last;
	int r = making_at(up, target->version_id, INT64_MAX, id);

	if (r || *id == target->version_id)
		return r ?: shfs_graph_attribute(up->graph, target)
		            ?: shfs_upstream_attribute(up->graph, target);
	r = shfs_graph_version(up->graph, *id, &last);
	if (r <= 0)
		return r ? r : -EIO;
	shfs_version_clear(target);
	*target = last;
	return 0;
}

/* This ends: until_ns only rises and depth only falls, over finitely many versions. */
static int expand_makers(struct upstream *up)
{
	struct maker_node *m;
	int r = 0;

	while (!r && !up->found && (m = dequeue(up)))
		r = expand_maker(up, m);
	free(up->walked.slots);
	return r;
}

static int find_all(struct shfs_graph *graph, struct shfs_version *target,
                    struct version_node **node)
{
	struct upstream up = { .graph = graph, .queue_end = &up.queue };
	int64_t id;
	int r = attribute_target(&up, target, &id);

	if (!r) {
		*node = shfs_graph_find(graph, id);
		r = *node ? require(&up, *node, 0)
		          : add_upstream_version(&up, id, target, 0, node);
	}
	return r ? r : expand_makers(&up);
}

int shfs_upstream_add(struct shfs_graph *graph, const struct shfs_version *target,
                      struct shfs_graph_version **out)
{
	_cleanup_version_ struct shfs_version copy = *target;
	struct version_node *node;
	int r;

	copy.path = strdup(target->path);
	if (!copy.path)
		return -ENOMEM;
	graph->limits.all |= shfs_path_is_version_control(target->path);
	r = shfs_facts_hold(graph->facts);
	if (!r)
		r = find_all(graph, &copy, &node);
	shfs_facts_release(graph->facts);
	if (!r)
		*out = &node->v;
	return r;
}

int shfs_upstream_add_command(struct shfs_graph *graph, int64_t command_id,
                              struct shfs_graph_maker **out)
{
	struct upstream up = { .graph = graph, .queue_end = &up.queue };
	struct maker_node *m;
	int r = shfs_graph_maker(graph, (struct maker_key){ command_id }, &m);

	if (r <= 0)
		return r;
	m->m.until_ns = INT64_MAX;
	m->m.depth = 0;
	enqueue_maker(&up, m);
	r = shfs_facts_hold(graph->facts) ?: expand_makers(&up);
	shfs_facts_release(graph->facts);
	*out = &m->m;
	return r ? r : 1;
}

int shfs_upstream_new(struct shfs_index *index, const struct shfs_version *target,
                      const struct shfs_graph_limits *limits, struct shfs_graph **out)
{
	_cleanup_graph_ struct shfs_graph *graph = NULL;
	struct shfs_graph_version *first;
	int r = shfs_graph_new(index, limits, &graph);

	if (!r)
		r = shfs_upstream_add(graph, target, &first);
	if (!r)
		*out = TAKE_PTR(graph);
	return r;
}
