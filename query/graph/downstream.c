/* SPDX-License-Identifier: MIT */
#include "query/graph/downstream.h"

#include "query/graph/internal.h"

#include <errno.h>
#include <string.h>

struct read {
	int64_t n, begin_ns;
	struct maker_key key;
	enum by by; /* version control looks at files that have no effect on the
	             * contents it restores */
};

/* All reads of a file, by version: the index is asked once, however many versions there
 * are. */
struct file_reads {
	int64_t file_id;
	struct read *list;
	size_t n, cap;
	UT_hash_handle hh;
};

struct made {
	int64_t version_id, end_ns, seq;
};

struct gone {
	int64_t file_id, end_ns;
};

struct downstream {
	struct shfs_graph *graph;
	struct file_reads *files;
};

/* --- reads of a file --- */

/* Sorts the reads of one maker next to each other. */
static int compare_reads(const void *left, const void *right)
{
	const struct read *a = left, *b = right;

	if (a->n != b->n)
		return a->n < b->n ? -1 : 1;
	if (a->key.is_process != b->key.is_process)
		return a->key.is_process < b->key.is_process ? -1 : 1;
	if (a->key.id != b->key.id)
		return a->key.id < b->key.id ? -1 : 1;
	if (a->key.job != b->key.job)
		return a->key.job < b->key.job ? -1 : 1;
	return a->begin_ns < b->begin_ns ? -1 : a->begin_ns > b->begin_ns;
}

struct reads_of {
	struct downstream *d;
	struct file_reads *reads;
	bool compiled;    /* the reads are of a compiled form of the file */
	struct read read; /* template, added for each job that read the file */
};

static int append_job(int64_t job, void *arg)
{
	struct reads_of *of = arg;
	struct file_reads *f = of->reads;

	if (!MAKE_ROOM(f->list, f->n, f->cap))
		return -ENOMEM;
	f->list[f->n] = of->read;
	f->list[f->n++].key.job = job;
	return 0;
}

static int append_read(const struct shfs_access *a, void *arg)
{
	struct reads_of *of = arg;
	struct shfs_graph *g = of->d->graph;
	int64_t process_id = a->access_id >> 32, command_id;
	int64_t begin_ns = shfs_access_begin_ns(a), version_id = a->seen_n;
	enum by by;
	int r;

	if (!(a->flags & SHFS_ACCESS_READ) || !a->seen_n || !process_id)
		return 0;
	r = shfs_graph_by(g, process_id, &by);
	if (r || by == BY_SHFS)
		return r;
	r = shfs_facts_owner(g->facts, a->access_id, &command_id);
	if (r > 0 && of->compiled)
		r = shfs_graph_version_at(g, of->reads->file_id, begin_ns, &version_id);
	if (r <= 0)
		return r;
	of->read = (struct read){
		.n = version_id & UINT32_MAX,
		.begin_ns = begin_ns,
		.key = { command_id ? command_id : process_id, !command_id },
		.by = by,
	};
	return shfs_graph_readers(g, command_id, a, append_job, of);
}

struct ids {
	int64_t *list;
	size_t n, cap;
};

static int append_id(int64_t id, void *arg)
{
	struct ids *ids = arg;

	if (!MAKE_ROOM(ids->list, ids->n, ids->cap))
		return -ENOMEM;
	ids->list[ids->n++] = id;
	return 0;
}

static int load_reads(struct downstream *d, struct file_reads *f, const char *path)
{
	struct reads_of of = { .d = d, .reads = f };
	struct ids compiled = { 0 };
	int r = shfs_facts_opens_of_file(d->graph->facts, f->file_id, append_read, &of);

	if (!r)
		r = shfs_graph_each_compiled(d->graph, path, append_id, &compiled);
	of.compiled = true;
	for (size_t i = 0; i < compiled.n && !r; i++)
		r = shfs_facts_opens_of_file(d->graph->facts, compiled.list[i],
		                             append_read, &of);
	free(compiled.list);
	if (!r && f->n)
		qsort(f->list, f->n, sizeof(*f->list), compare_reads);
	return r;
}

static int reads_of(struct downstream *d, const struct shfs_version *v,
                    struct file_reads **out)
{
	int64_t file_id = v->file_id;
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
		return load_reads(d, f, v->path);
	}
	*out = f;
	return 0;
}

/* The index of the first read that saw version n. */
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

static int add_version_reader(struct version_node *node, struct maker_node *m)
{
	struct shfs_graph_version *v = &node->v;

	if (node == m->last_read)
		return 0;
	m->last_read = node;
	if (!MAKE_ROOM(v->readers, v->n_readers, v->cap_readers))
		return -ENOMEM;
	v->readers[v->n_readers++] = &m->m;
	return shfs_graph_add_input(m, node);
}

/* Adds a making of a version that m made from from. m NULL: the same content under a new
 * name, and its maker is not in the graph. 1: it was added. */
static int add_derived_version(struct downstream *d, int64_t id,
                               struct shfs_version *version, struct maker_node *m,
                               struct version_node *from)
{
	struct version_node *node;

	if (shfs_graph_is_compiled(version->path))
		return 0;
	if (!d->graph->limits.all && shfs_path_is_version_control(version->path)) {
		if (m)
			m->m.n_left_out++;
		return 0;
	}
	node = shfs_graph_add(d->graph, id, version);
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

/* --- results of a maker --- */

static int compare_gone(const void *left, const void *right)
{
	const struct gone *a = left, *b = right;

	return a->file_id < b->file_id ? -1 : a->file_id > b->file_id;
}

/* Sorts by file, and keeps the last entry of each. */
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

/* Sorts the last one first. */
static int compare_made(const void *left, const void *right)
{
	const struct made *a = left, *b = right;

	if (a->end_ns != b->end_ns)
		return a->end_ns > b->end_ns ? -1 : 1;
	return (a->seq < b->seq) - (a->seq > b->seq);
}

static int grow_doubling_list(void **list, size_t n, size_t size)
{
	void *more;

	if (n & (n - 1)) /* the list doubles */
		return 0;
	more = reallocarray(*list, MAX(2 * n, (size_t)4), size);
	*list = more ? more : *list;
	return more ? 0 : -ENOMEM;
}

static int add_made(const struct shfs_access *a, void *arg)
{
	struct maker_node *m = arg;
	int64_t end_ns = shfs_access_end_ns(a);
	int r = 0;

	if (a->op == SHFS_OP_UNLINK || a->op == SHFS_OP_RENAME) {
		r = grow_doubling_list((void **)&m->gone, m->n_gone, sizeof(*m->gone));
		if (!r)
			m->gone[m->n_gone++] = (struct gone){ a->file_id, end_ns };
	}
	if (!r && a->made_n &&
	    shfs_graph_job_of(m->jobs, a->access_id >> 32) == m->key.job) {
		r = grow_doubling_list((void **)&m->results, m->n_results,
		                       sizeof(*m->results));
		if (!r)
			m->results[m->n_results++] =
				(struct made){ (a->file2_id ?: a->file_id) << 32 |
				                       a->made_n,
				               end_ns, a->seq };
	}
	return r;
}

static int load_results(struct downstream *d, struct maker_node *m)
{
	int r = shfs_graph_accesses(d->graph, m->key, add_made, m);

	m->asked = true;
	if (m->n_results)
		qsort(m->results, m->n_results, sizeof(*m->results), compare_made);
	sort_gone(m);
	return r;
}

/* Did the maker remove the file later? */
static bool is_gone(const struct maker_node *m, int64_t file_id, int64_t end_ns)
{
	struct gone key = { .file_id = file_id };
	const struct gone *g = m->n_gone ? bsearch(&key, m->gone, m->n_gone,
	                                           sizeof(*m->gone), compare_gone)
	                                 : NULL;

	return g && g->end_ns >= end_ns;
}

/* Adds a making, if it is m's: m may have changed bytes to what they were. */
static int add_making_result(struct downstream *d, struct maker_node *m,
                             struct version_node *from, int64_t id)
{
	struct version_node *node = shfs_graph_find(d->graph, id);
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
	r = shfs_graph_version(d->graph, id, &version);
	if (r <= 0 || !shfs_graph_is_own(m, &version))
		return MIN(r, 0);
	return MIN(add_derived_version(d, id, &version, m, from), 0);
}

static int add_maker_result(struct downstream *d, struct maker_node *m,
                            struct version_node *from, const struct made *made)
{
	int64_t id;
	int r = shfs_graph_making(d->graph, made->version_id, made->end_ns, &id);

	return r ? r : add_making_result(d, m, from, id);
}

static int restored_from(struct downstream *d, int64_t version_id, int64_t *from)
{
	_cleanup_version_ struct shfs_version version = { 0 };
	int r = shfs_graph_version(d->graph, version_id, &version);

	return r > 0 ? shfs_graph_restored_from(d->graph, &version, from) : r;
}

/* Adds the results since m began to read, unless they were added before. */
static int add_maker_results(struct downstream *d, struct maker_node *m,
                             struct version_node *from, enum by by)
{
	int r = m->asked ? 0 : load_results(d, m);

	while (!r && m->reached[by] < m->n_results &&
	       m->results[m->reached[by]].end_ns >= m->since_ns[by]) {
		const struct made *made = &m->results[m->reached[by]++];
		int64_t other;

		r = by == BY_VERSION_CONTROL ? restored_from(d, made->version_id, &other)
		                             : 0;
		r = r ? MIN(r, 0) : add_maker_result(d, m, from, made);
	}
	return r;
}

/* --- derivatives of a version --- */

static int add_version_read(struct downstream *d, struct version_node *node,
                            const struct read *read);

/* A maker that took a file outside that another one left, which had read the version. */
struct taking {
	struct downstream *d;
	struct version_node *node;
	struct maker_key key;
	int64_t begin_ns; /* when that other one read it */
	bool found;
};

static int look_for_version(const struct graph_read *read, const char *path, void *arg)
{
	struct taking *t = arg;

	t->found |= read->version_id == t->node->v.version.version_id;
	return 0;
}

static int add_taker(struct maker_key key, void *arg)
{
	struct taking *t = arg;
	struct read read = { .begin_ns = t->begin_ns, .key = key, .by = BY_ANOTHER };
	int r;

	t->found = false;
	r = shfs_graph_passed(t->d->graph, key, look_for_version, t);
	return r || !t->found ? r : add_version_read(t->d, t->node, &read);
}

static int add_takers(struct downstream *d, struct version_node *node,
                      const struct read *read)
{
	struct taking t = { .d = d, .node = node, .begin_ns = read->begin_ns };

	return shfs_graph_takers(d->graph, read->key, add_taker, &t);
}

static int add_version_read(struct downstream *d, struct version_node *node,
                            const struct read *read)
{
	enum by by = d->graph->limits.all ? BY_ANOTHER : read->by;
	size_t n_readers = node->v.n_readers;
	struct maker_node *m;
	int r = shfs_graph_maker(d->graph, read->key, &m);

	if (r <= 0)
		return r;
	if (!shfs_graph_is_own(m, &node->v.version))
		r = add_version_reader(node, m)
		            ?: (node->v.n_readers > n_readers ? add_takers(d, node, read)
		                                              : 0);
	else if (node->v.via)
		r = 0; /* m made it from others, and reads it for more */
	else
		return 0;
	if (r || read->begin_ns >= m->since_ns[by])
		return r;
	m->since_ns[by] = read->begin_ns;
	return add_maker_results(d, m, node, by);
}

/* Adds the same content under a new name; the maker stays. */
static int add_carried(struct downstream *d, struct version_node *node,
                       struct shfs_version *version)
{
	struct shfs_graph_maker *maker = node->v.maker;
	int r;

	node->v.passing = true;
	if (shfs_graph_find(d->graph, version->version_id))
		return 0;
	r = add_derived_version(d, version->version_id, version,
	                        maker ? container_of(maker, struct maker_node, m) : NULL,
	                        node);
	return MIN(r, 0);
}

/* Adds a version that was made from node, even if its maker did not read that. */
static int add_derived(struct downstream *d, struct version_node *node,
                       int64_t version_id)
{
	_cleanup_version_ struct shfs_version version = { 0 };
	struct maker_key key;
	struct maker_node *m;
	int r = shfs_graph_version(d->graph, version_id, &version);

	if (r <= 0)
		return r;
	if (version.carried)
		return add_carried(d, node, &version);
	r = shfs_graph_maker_of(d->graph, &version, &key);
	r = r ? r : shfs_graph_maker(d->graph, key, &m);
	if (r <= 0 || shfs_graph_is_unfinished(m, &node->v.version))
		return MIN(r, 0);
	if (node->v.maker == &m->m)
		node->v.passing |= !strcmp(version.source, "renamed");
	else
		r = add_version_reader(node, m);
	return r < 0 ? r : add_making_result(d, m, node, version_id);
}

/* Was it this making of the version that was there at_ns? All are, of a target. */
static int was_there(struct downstream *d, const struct version_node *node, int64_t at_ns)
{
	int64_t id;
	int r;

	if (!node->v.via)
		return 1;
	r = shfs_graph_making(d->graph, node->v.version.version_id, at_ns, &id);
	return r ? r : id == node->id;
}

/* Adds the next version, if it was made by an append or by changing parts. */
static int add_next(struct downstream *d, struct version_node *node)
{
	_cleanup_version_ struct shfs_version next = { 0 };
	int64_t id;
	int r = shfs_graph_version(d->graph, node->v.version.version_id + 1, &next);

	if (r > 0)
		r = shfs_graph_past(d->graph, &next, &id);
	if (r > 0)
		r = was_there(d, node, next.time_ns);
	if (r <= 0)
		return r;
	r = shfs_graph_restored_from(d->graph, &next, &id);
	return r ? MIN(r, 0) : add_derived(d, node, next.version_id);
}

/* A search for other versions, and its result. */
struct others {
	struct downstream *d;
	const struct version_node *node;
	const struct shfs_version *of;
	struct other {
		int64_t version_id, time_ns;
		bool elsewhere; /* at another path */
	} * list;
	size_t n;
	bool copies; /* those are looked for that no program which restores has made */
};

#define COPIES_MAX 256 /* more are alike by chance (joins.c) */

static int add_moved_version(struct others *o, const struct shfs_version_fact *w)
{
	int r = grow_doubling_list((void **)&o->list, o->n, sizeof(*o->list));

	if (!r)
		o->list[o->n++] = (struct other){ w->version_id, w->time_ns,
			                          w->file_id != o->of->file_id };
	return r;
}

/* Takes the last of versions that were carried on by renames. */
static int take_moved(int64_t version_id, void *arg)
{
	struct others *o = arg;
	struct shfs_facts *facts = o->d->graph->facts;
	struct shfs_version_fact w, next;
	int r = shfs_facts_version(facts, version_id, &w);

	if (r <= 0)
		return r;
	r = was_there(o->d, o->node, w.time_ns);
	if (r <= 0)
		return r;
	r = w.carried ? shfs_facts_version(facts, version_id + 1, &next) : 0;
	return r < 0 || (r && next.carried) ? MIN(r, 0) : add_moved_version(o, &w);
}

/* Takes a version that a restore or version control may have made, or a copy that was not
 * seen to be made. */
static int take_again(int64_t version_id, void *arg)
{
	struct others *o = arg;
	struct shfs_version_fact w;
	enum by by;
	int r = shfs_facts_version(o->d->graph->facts, version_id, &w);

	if (r <= 0 || version_id == o->of->version_id)
		return MIN(r, 0);
	r = shfs_graph_by(o->d->graph, w.process_id, &by);
	if (r || (by == BY_ANOTHER) != o->copies ||
	    (by != BY_ANOTHER && w.time_ns < o->of->time_ns))
		return r;
	return o->n < COPIES_MAX || !o->copies ? add_moved_version(o, &w) : 0;
}

static int compare_other(const void *left, const void *right)
{
	const struct other *a = left, *b = right;

	if (a->elsewhere != b->elsewhere)
		return a->elsewhere ? 1 : -1;
	return (a->time_ns > b->time_ns) - (a->time_ns < b->time_ns);
}

/* Adds versions to which it was renamed or linked. */
static int add_moved_versions(struct downstream *d, struct version_node *node)
{
	struct others o = { .d = d, .node = node, .of = &node->v.version };
	int r = shfs_facts_moved(d->graph->facts, node->v.version.version_id, take_moved,
	                         &o);

	for (size_t i = 0; i < o.n && !r; i++)
		r = add_derived(d, node, o.list[i].version_id);
	free(o.list);
	return r;
}

/* The version that w was restored or copied from, without a read that was recorded. */
static int copied_from(struct downstream *d, const struct shfs_version *w, int64_t *from)
{
	int r = shfs_graph_restored_from(d->graph, w, from);

	return r ? r : shfs_graph_joined(d->graph, w, from);
}

/* Adds a copy that nobody was seen to make. */
static int add_found_copy(struct downstream *d, struct version_node *node,
                          struct shfs_version *version)
{
	int r = shfs_graph_find(d->graph, version->version_id) ||
	                        shfs_graph_is_full(d->graph)
	                ? 0
	                : add_derived_version(d, version->version_id, version, NULL,
	                                      node);

	if (r > 0)
		node->v.carried->joined = true;
	return MIN(r, 0);
}

#define AGAIN_MAX 100

/* Adds versions that restored this content, or copies of it. Not of an empty file:
 * nothing comes of it, and many are equal. */
static int add_again(struct downstream *d, struct version_node *node, bool copies)
{
	struct others o = {
		.d = d, .node = node, .of = &node->v.version, .copies = copies
	};
	int r = o.of->size && o.of->flags & SHFS_CONTENT_NAMED
	                ? shfs_facts_same(d->graph->facts, node->v.version.version_id,
	                                  take_again, &o)
	                : 0;

	if (o.n)
		qsort(o.list, o.n, sizeof(*o.list), compare_other);
	for (size_t i = 0; i < MIN(o.n, (size_t)AGAIN_MAX) && !r; i++) {
		_cleanup_version_ struct shfs_version w = { 0 };
		int64_t from = 0;

		r = shfs_graph_version(d->graph, o.list[i].version_id, &w);
		if (r > 0)
			r = copied_from(d, &w, &from);
		if (r > 0 && from == node->v.version.version_id)
			r = w.command_id || w.process_id
			            ? add_derived(d, node, w.version_id)
			            : add_found_copy(d, node, &w);
		r = MIN(r, 0);
	}
	free(o.list);
	return r;
}

/* Does the read have another maker or version than the one before it? */
static bool is_distinct_read(const struct file_reads *f, size_t i)
{
	const struct read *a = i ? &f->list[i - 1] : NULL, *b = &f->list[i];

	return !a || a->n != b->n || !maker_key_equal(&a->key, &b->key);
}

static int add_reader_then(struct downstream *d, struct version_node *node,
                           const struct read *read)
{
	int r = was_there(d, node, read->begin_ns);

	return r > 0 ? add_version_read(d, node, read) : r;
}

static int expand_version(struct downstream *d, struct version_node *node)
{
	const struct shfs_version *v = &node->v.version;
	size_t max_depth = d->graph->limits.max_depth;
	struct file_reads *f;
	int r = reads_of(d, v, &f);
	size_t i = r ? 0 : first_read(f, v->n);

	if (!r && max_depth && node->depth >= max_depth) {
		node->v.cut = i < f->n && f->list[i].n == v->n;
		return 0;
	}
	for (; !r && i < f->n && f->list[i].n == v->n; i++)
		if (!shfs_graph_is_full(d->graph))
			r = add_reader_then(d, node, &f->list[i]);
		else
			node->v.n_more += is_distinct_read(f, i);
	if (shfs_graph_is_full(d->graph))
		return r;
	r = r ?: add_next(d, node) ?: add_moved_versions(d, node);
	return r ?: add_again(d, node, false) ?: add_again(d, node, true);
}

/* --- temporary names within a command --- */

static bool is_passing(const struct shfs_graph_version *v)
{
	const struct maker_node *m =
		v->maker ? container_of(v->maker, struct maker_node, m) : NULL;

	return m && !v->n_readers && !v->n_more && !v->carried &&
	       (v->passing || is_gone(m, v->version.file_id, v->version.time_ns));
}

/* Removes versions from the lists that led only to other versions of the same maker. */
static void drop_passing_versions(struct shfs_graph *g)
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
	return copy.path && shfs_graph_add(d->graph, copy.version_id, &copy) ? 0
	                                                                     : -ENOMEM;
}

int shfs_downstream_new(struct shfs_index *index, const struct shfs_version *targets,
                        size_t n, const struct shfs_graph_limits *limits,
                        struct shfs_graph **out)
{
	_cleanup_graph_ struct shfs_graph *graph = NULL;
	int r = shfs_graph_new(index, limits, &graph);
	struct downstream d = { .graph = graph };
	struct file_reads *f, *next;

	r = r ? r : shfs_facts_hold(graph->facts);
	for (size_t i = 0; i < n && !r; i++)
		r = add_target(&d, &targets[i]);
	if (!r && graph->limits.max_versions)
		graph->limits.max_versions += n;
	for (struct shfs_graph_version *v = r ? NULL : graph->first_version; v && !r;
	     v = v->next)
		r = expand_version(&d, container_of(v, struct version_node, v));
	if (!r)
		drop_passing_versions(graph);
	if (graph)
		shfs_facts_release(graph->facts);
	HASH_ITER (hh, d.files, f, next) {
		HASH_DEL(d.files, f);
		free(f->list);
		free(f);
	}
	if (!r)
		*out = TAKE_PTR(graph);
	return r;
}
