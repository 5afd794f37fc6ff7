/* SPDX-License-Identifier: MIT */
#include "query/downstream.h"

#include "query/graph-internal.h"

#include <errno.h>
#include <string.h>

/* Who read: version control looks at files that do not go into what it brings back. */
enum reader { READER, READER_VERSION_CONTROL, READER_SHFS };

#define READS                                                                            \
	"SELECT seen_n, command_id, process_id, begin_ns,"                               \
	" (SELECT CASE WHEN " SQL_BY_SHFS " THEN 2 WHEN " SQL_BY_VERSION_CONTROL         \
	" THEN 1 ELSE 0 END FROM v_process p WHERE p.process_id = a.process_id)"         \
	" FROM v_access a WHERE file_id = ?1 AND is_read = 1"                            \
	" AND seen_n IS NOT NULL AND process_id IS NOT NULL"

/* What it made, and the names that it removed. */
#define MADE(maker)                                                                      \
	"SELECT made_version_id, end_ns, op = 'unlink', file_id FROM v_access"           \
	" WHERE " maker " AND (made_n IS NOT NULL OR op = 'unlink')"                     \
	" ORDER BY end_ns DESC, seq_key DESC"

/* What was appended to it, or changed in it. */
#define NEXT                                                                             \
	"SELECT v.version_id FROM v_version v JOIN v_access a"                           \
	" ON a.access_id = v.access_id WHERE v.file_id = ?1 >> 32"                       \
	" AND v.n = (?1 & 4294967295) + 1 AND v.source = 'written'"                      \
	" AND NOT a.flags & ?2"

/* What it was renamed or linked to; of a past that was carried the end. */
#define MOVED                                                                            \
	"SELECT version_id FROM v_version v WHERE origin_version_id = ?1"                \
	" AND NOT (carried AND EXISTS (SELECT 1 FROM v_version w"                        \
	" WHERE w.file_id = v.file_id AND w.n = v.n + 1 AND w.carried))"

/* Brought back from it, maybe. Nothing comes of an empty file, and many are the same. */
#define AGAIN                                                                            \
	"SELECT w.version_id FROM v_version v JOIN v_version w"                          \
	" ON w.object_key = v.object_key AND w.object = v.object"                        \
	" JOIN v_process p ON p.process_id = w.process_id WHERE" SQL_IS_V                \
	"AND v.size > 0 AND w.version_id <> v.version_id AND w.time_ns >= v.time_ns"     \
	" AND (" SQL_BY_SHFS " OR " SQL_BY_VERSION_CONTROL ")"                           \
	" ORDER BY w.file_id = v.file_id DESC, w.time_ns LIMIT 100"

enum question {
	READS_OF_FILE,
	MADE_BY_COMMAND,
	MADE_BY_PROCESS,
	NEXT_OF,
	MOVED_FROM,
	AGAIN_OF,
	RESTORED_FROM,
	VERSION,
};

static const char *const questions[] = {
	[READS_OF_FILE] = READS,
	[MADE_BY_COMMAND] = MADE(SQL_COMMAND),
	[MADE_BY_PROCESS] = MADE(SQL_PROCESS),
	[NEXT_OF] = NEXT,
	[MOVED_FROM] = MOVED,
	[AGAIN_OF] = AGAIN,
	[RESTORED_FROM] = SQL_RESTORED,
	[VERSION] = SQL_VERSION,
};

struct read {
	int64_t n, begin_ns;
	struct maker_key key;
	enum reader by;
};

/* All reads of a file, by version: looked up once, however many versions it has. */
struct file_reads {
	int64_t file_id;
	struct read *list;
	size_t n, cap;
	UT_hash_handle hh;
};

struct made {
	int64_t version_id, end_ns;
};

struct gone {
	int64_t file_id, end_ns;
};

struct downstream {
	struct shfs_graph *graph;
	struct file_reads *files;
};

/* --- reads of a file --- */

/* Those of one maker stand together. */
static int compare_reads(const void *left, const void *right)
{
	const struct read *a = left, *b = right;

	if (a->n != b->n)
		return a->n < b->n ? -1 : 1;
	if (a->key.is_process != b->key.is_process)
		return a->key.is_process < b->key.is_process ? -1 : 1;
	if (a->key.id != b->key.id)
		return a->key.id < b->key.id ? -1 : 1;
	return a->begin_ns < b->begin_ns ? -1 : a->begin_ns > b->begin_ns;
}

static int append_read(struct file_reads *f, struct shfs_rows *rows)
{
	int64_t command = shfs_rows_int(rows, 1);

	if (shfs_rows_int(rows, 4) == READER_SHFS)
		return 0;
	if (f->n == f->cap) {
		size_t cap = MAX(f->cap * 2, (size_t)8);
		void *list = reallocarray(f->list, cap, sizeof(*f->list));

		if (!list)
			return -ENOMEM;
		f->list = list;
		f->cap = cap;
	}
	f->list[f->n++] = (struct read){
		.n = shfs_rows_int(rows, 0),
		.begin_ns = shfs_rows_int(rows, 3),
		.key = { command ? command : shfs_rows_int(rows, 2), !command },
		.by = shfs_rows_int(rows, 4),
	};
	return 0;
}

static int load_reads(struct downstream *d, struct file_reads *f)
{
	struct shfs_rows *rows;
	int r = shfs_graph_ask(d->graph, READS_OF_FILE, f->file_id, 0, &rows);

	for (; r > 0; r = shfs_rows_next(rows)) {
		r = append_read(f, rows);
		if (r)
			return r;
	}
	if (!r && f->n)
		qsort(f->list, f->n, sizeof(*f->list), compare_reads);
	return r;
}

static int reads_of(struct downstream *d, int64_t file_id, struct file_reads **out)
{
	struct file_reads *f;

	HASH_FIND(hh, d->files, &file_id, sizeof(file_id), f);
	if (!f) {
		f = calloc(1, sizeof(*f));
		if (!f)
			return -ENOMEM;
		f->file_id = file_id;
		HASH_ADD(hh, d->files, file_id, sizeof(file_id), f);
		if (!f->hh.tbl) {
			free(f);
			return -ENOMEM;
		}
		*out = f;
		return load_reads(d, f);
	}
	*out = f;
	return 0;
}

/* The first that saw version n. */
static size_t first_read(const struct file_reads *f, int64_t n)
{
	size_t low = 0, high = f->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (f->list[middle].n < n)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* --- edges --- */

static int add_reader(struct version_node *node, struct maker_node *m)
{
	struct shfs_graph_version *v = &node->v;

	if (node == m->last_read)
		return 0;
	m->last_read = node;
	if (v->n_readers == v->cap_readers) {
		size_t cap = MAX(v->cap_readers * 2, (size_t)2);
		void *readers = reallocarray(v->readers, cap, sizeof(*v->readers));

		if (!readers)
			return -ENOMEM;
		v->readers = readers;
		v->cap_readers = cap;
	}
	v->readers[v->n_readers++] = &m->m;
	return shfs_graph_add_input(m, node);
}

static int load_version(struct downstream *d, int64_t version_id,
                        struct shfs_version *out)
{
	struct shfs_rows *rows;
	int r = shfs_graph_ask(d->graph, VERSION, version_id, 0, &rows);

	return r > 0 ? shfs_version_from_row(rows, out) : r;
}

/* What m made of from. NULL: nobody that is in the graph, it is the same under a new
 * name. 1 if it was added. */
static int add_version(struct downstream *d, struct shfs_version *version,
                       struct maker_node *m, struct version_node *from)
{
	struct version_node *node;

	if (!d->graph->limits.all && shfs_path_is_version_control(version->path)) {
		if (m)
			m->m.n_left_out++;
		return 0;
	}
	node = shfs_graph_add(d->graph, version);
	if (!node)
		return -ENOMEM;
	node->v.via = &from->v;
	node->depth = from->depth + 1;
	if (m) {
		shfs_graph_attach(node, m);
	} else {
		node->v.next_carried = from->v.carried;
		from->v.carried = &node->v;
	}
	return 1;
}

/* --- what a maker made --- */

static int compare_gone(const void *left, const void *right)
{
	const struct gone *a = left, *b = right;

	return a->file_id < b->file_id ? -1 : a->file_id > b->file_id;
}

/* By file; of several of one the last. */
static void sort_gone(struct maker_node *m)
{
	size_t n = 0;

	if (m->n_gone)
		qsort(m->gone, m->n_gone, sizeof(*m->gone), compare_gone);
	for (size_t i = 0; i < m->n_gone; i++)
		if (!n || m->gone[n - 1].file_id != m->gone[i].file_id)
			m->gone[n++] = m->gone[i];
		else if (m->gone[n - 1].end_ns < m->gone[i].end_ns)
			m->gone[n - 1] = m->gone[i];
	m->n_gone = n;
}

/* There is room for n more of both. */
static void take_result(struct maker_node *m, struct shfs_rows *rows)
{
	int64_t end_ns = shfs_rows_int(rows, 1);

	if (!shfs_rows_int(rows, 2))
		m->results[m->n_results++] =
			(struct made){ shfs_rows_int(rows, 0), end_ns };
	else
		m->gone[m->n_gone++] = (struct gone){ shfs_rows_int(rows, 3), end_ns };
}

static int make_room(struct maker_node *m, size_t *cap)
{
	void *results, *gone;

	if (MAX(m->n_results, m->n_gone) < *cap)
		return 0;
	*cap = MAX(*cap * 2, (size_t)4);
	results = reallocarray(m->results, *cap, sizeof(*m->results));
	m->results = results ? results : m->results;
	gone = reallocarray(m->gone, *cap, sizeof(*m->gone));
	m->gone = gone ? gone : m->gone;
	return results && gone ? 0 : -ENOMEM;
}

static int load_results(struct downstream *d, struct maker_node *m)
{
	enum question question = m->key.is_process ? MADE_BY_PROCESS : MADE_BY_COMMAND;
	struct shfs_rows *rows;
	size_t cap = 0;
	int r = shfs_graph_ask(d->graph, question, m->key.id, 0, &rows);

	m->asked = true;
	for (; r > 0; r = shfs_rows_next(rows)) {
		r = make_room(m, &cap);
		if (r)
			return r;
		take_result(m, rows);
	}
	sort_gone(m);
	return r;
}

/* Did its maker remove it later? */
static bool is_gone(const struct maker_node *m, int64_t file_id, int64_t end_ns)
{
	struct gone key = { .file_id = file_id };
	const struct gone *g = m->n_gone ? bsearch(&key, m->gone, m->n_gone,
	                                           sizeof(*m->gone), compare_gone)
	                                 : NULL;

	return g && g->end_ns >= end_ns;
}

/* One that it wrote again is another's. */
static int add_result(struct downstream *d, struct maker_node *m,
                      struct version_node *from, int64_t version_id)
{
	struct version_node *node = shfs_graph_find(d->graph, version_id);
	_cleanup_version_ struct shfs_version version = { 0 };
	int r;

	if (!node && shfs_graph_is_full(d->graph)) {
		m->m.n_more++;
		return 0;
	}
	if (node) {
		if (!node->v.maker && shfs_graph_is_own(m, &node->v.version))
			shfs_graph_attach(node, m);
		return 0;
	}
	r = load_version(d, version_id, &version);
	if (r <= 0 || !shfs_graph_is_own(m, &version))
		return MIN(r, 0);
	return MIN(add_version(d, &version, m, from), 0);
}

static int is_restored(struct downstream *d, int64_t version_id, int64_t *from)
{
	struct shfs_rows *rows;
	int r = shfs_graph_ask(d->graph, RESTORED_FROM, version_id, version_id, &rows);

	if (r > 0)
		*from = shfs_rows_int(rows, 0);
	return r;
}

/* What it made since it began to read; of that what was not looked at yet. */
static int add_results(struct downstream *d, struct maker_node *m,
                       struct version_node *from, enum reader by)
{
	int r = m->asked ? 0 : load_results(d, m);

	while (!r && m->reached[by] < m->n_results &&
	       m->results[m->reached[by]].end_ns >= m->since_ns[by]) {
		int64_t id = m->results[m->reached[by]++].version_id, other;

		r = by == READER_VERSION_CONTROL ? is_restored(d, id, &other) : 0;
		r = r ? MIN(r, 0) : add_result(d, m, from, id);
	}
	return r;
}

/* --- what comes of a version --- */

static int add_read(struct downstream *d, struct version_node *node,
                    const struct read *read)
{
	enum reader by = d->graph->limits.all ? READER : read->by;
	struct maker_node *m;
	int r = shfs_graph_maker(d->graph, read->key, &m);

	if (r <= 0 || shfs_graph_is_own(m, &node->v.version))
		return MIN(r, 0);
	r = add_reader(node, m);
	if (r || read->begin_ns >= m->since_ns[by])
		return r;
	m->since_ns[by] = read->begin_ns;
	return add_results(d, m, node, by);
}

/* The same under a new name, which is its maker's too. */
static int add_carried(struct downstream *d, struct version_node *node,
                       struct shfs_version *version)
{
	struct shfs_graph_maker *maker = node->v.maker;
	int r;

	node->v.passing = true;
	if (shfs_graph_find(d->graph, version->version_id))
		return 0;
	r = add_version(d, version,
	                maker ? container_of(maker, struct maker_node, m) : NULL, node);
	return MIN(r, 0);
}

/* It was made from node, whether or not its maker read that. */
static int add_derived(struct downstream *d, struct version_node *node,
                       int64_t version_id)
{
	_cleanup_version_ struct shfs_version version = { 0 };
	struct maker_node *m;
	int r = load_version(d, version_id, &version);

	if (r <= 0)
		return r;
	if (version.carried)
		return add_carried(d, node, &version);
	r = shfs_graph_maker(d->graph, shfs_graph_maker_of(&version), &m);
	if (r <= 0 || shfs_graph_is_unfinished(m, &node->v.version))
		return MIN(r, 0);
	if (node->v.maker == &m->m)
		node->v.passing |= !strcmp(version.source, "renamed");
	else
		r = add_reader(node, m);
	return r < 0 ? r : add_result(d, m, node, version_id);
}

static int add_all_derived(struct downstream *d, struct version_node *node,
                           enum question question)
{
	struct shfs_rows *rows;
	int r = shfs_graph_ask(d->graph, question, node->version_id, WRITTEN_ANEW, &rows);

	for (; r > 0; r = shfs_rows_next(rows)) {
		int64_t id = shfs_rows_int(rows, 0), from = 0;

		if (question != MOVED_FROM) {
			r = is_restored(d, id, &from);
			if (r < 0)
				return r;
			if (question == AGAIN_OF ? from != node->version_id : from)
				continue;
		}
		r = add_derived(d, node, id);
		if (r)
			return r;
	}
	return r;
}

/* Is the read by another maker, or of another version, than the one before it? */
static bool is_another(const struct file_reads *f, size_t i)
{
	const struct read *a = i ? &f->list[i - 1] : NULL, *b = &f->list[i];

	return !a || a->n != b->n || a->key.id != b->key.id ||
	       a->key.is_process != b->key.is_process;
}

static int expand(struct downstream *d, struct version_node *node)
{
	const struct shfs_version *v = &node->v.version;
	size_t max_depth = d->graph->limits.max_depth;
	struct file_reads *f;
	int r = reads_of(d, v->file_id, &f);
	size_t i = r ? 0 : first_read(f, v->n);

	if (!r && max_depth && node->depth >= max_depth) {
		node->v.cut = i < f->n && f->list[i].n == v->n;
		return 0;
	}
	for (; !r && i < f->n && f->list[i].n == v->n; i++)
		if (!shfs_graph_is_full(d->graph))
			r = add_read(d, node, &f->list[i]);
		else
			node->v.n_more += is_another(f, i);
	if (shfs_graph_is_full(d->graph))
		return r;
	r = r ?: add_all_derived(d, node, NEXT_OF);
	r = r ?: add_all_derived(d, node, MOVED_FROM);
	return r ?: add_all_derived(d, node, AGAIN_OF);
}

/* --- names that came and went within a command --- */

static bool is_passing(const struct shfs_graph_version *v)
{
	const struct maker_node *m =
		v->maker ? container_of(v->maker, struct maker_node, m) : NULL;

	return m && !v->n_readers && !v->n_more && !v->carried &&
	       (v->passing || is_gone(m, v->version.file_id, v->version.time_ns));
}

/* The lists lose those that led to nothing but what their maker made of them. */
static void prune(struct shfs_graph *g)
{
	struct shfs_graph_version **next = &g->first_version;

	for (struct shfs_graph_version *v = g->first_version; v; v = v->next) {
		v->passing = is_passing(v);
		while (v->via && v->via->passing)
			v->via = v->via->via;
	}
	for (struct shfs_graph_maker *m = g->first_maker; m; m = m->next)
		for (struct shfs_graph_version **v = &m->made; *v;)
			if ((*v)->passing)
				*v = (*v)->next_made;
			else
				v = &(*v)->next_made;
	while (*next)
		if ((*next)->passing)
			*next = (*next)->next;
		else
			next = &(*next)->next;
	g->last_version = next;
}

static int add_target(struct downstream *d, const struct shfs_version *target)
{
	_cleanup_version_ struct shfs_version copy = *target;

	copy.path = strdup(target->path);
	d->graph->limits.all |= shfs_path_is_version_control(target->path);
	return copy.path && shfs_graph_add(d->graph, &copy) ? 0 : -ENOMEM;
}

int shfs_downstream_new(struct shfs_index *index, const struct shfs_version *targets,
                        size_t n, const struct shfs_graph_limits *limits,
                        struct shfs_graph **out)
{
	_cleanup_graph_ struct shfs_graph *graph =
		shfs_graph_new(index, limits, questions);
	struct downstream d = { .graph = graph };
	struct file_reads *f, *next;
	int r = graph ? 0 : -ENOMEM;

	for (size_t i = 0; i < n && !r; i++)
		r = add_target(&d, &targets[i]);
	if (!r && graph->limits.max_versions)
		graph->limits.max_versions += n;
	for (struct shfs_graph_version *v = r ? NULL : graph->first_version; v && !r;
	     v = v->next)
		r = expand(&d, container_of(v, struct version_node, v));
	if (!r)
		prune(graph);
	HASH_ITER (hh, d.files, f, next) {
		HASH_DEL(d.files, f);
		free(f->list);
		free(f);
	}
	if (!r)
		*out = TAKE_PTR(graph);
	return r;
}
