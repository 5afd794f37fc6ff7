/* SPDX-License-Identifier: MIT */
#include "query/upstream.h"

#include <errno.h>
#include <string.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

struct version_node {
	struct shfs_upstream_version v;
	int64_t version_id;
	UT_hash_handle hh;
};

struct maker_key {
	int64_t id;
	int64_t is_process;
};

struct maker_node {
	struct shfs_upstream_maker m;
	struct maker_key key;
	bool queued;
	struct maker_node *next; /* in the queue */
	UT_hash_handle hh;
};

struct shfs_upstream {
	struct shfs_index *index;
	size_t max_depth;
	struct version_node *versions;
	struct maker_node *makers;
	struct shfs_upstream_version *first_version, **last_version;
	struct shfs_upstream_maker *first_maker, **last_maker;
	struct maker_node *queue, **queue_end;
};

static void version_free(struct version_node *node)
{
	shfs_version_clear(&node->v.version);
	free(node);
}

static void maker_free(struct maker_node *node)
{
	shfs_entry_clear(&node->m.entry);
	free(node->m.inputs);
	free(node);
}

void shfs_upstream_free(struct shfs_upstream *up)
{
	struct version_node *v, *next_v;
	struct maker_node *m, *next_m;

	if (!up)
		return;
	HASH_ITER (hh, up->versions, v, next_v) {
		HASH_DEL(up->versions, v);
		version_free(v);
	}
	HASH_ITER (hh, up->makers, m, next_m) {
		HASH_DEL(up->makers, m);
		maker_free(m);
	}
	free(up);
}

/* --- makers --- */

static void enqueue(struct shfs_upstream *up, struct maker_node *m)
{
	if (m->queued)
		return;
	m->queued = true;
	m->next = NULL;
	*up->queue_end = m;
	up->queue_end = &m->next;
}

static struct maker_node *dequeue(struct shfs_upstream *up)
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

static int load_maker(struct shfs_upstream *up, struct maker_node *m)
{
	struct shfs_entry *e = &m->m.entry;

	e->is_process = m->key.is_process;
	return e->is_process ? shfs_process_load(up->index, m->key.id, &e->process)
	                     : shfs_command_load(up->index, m->key.id, &e->command);
}

/* 1 and *out, 0 where nobody made the version. */
static int get_maker(struct shfs_upstream *up, const struct shfs_version *v,
                     struct maker_node **out)
{
	struct maker_key key = { .id = v->command_id ? v->command_id : v->process_id,
		                 .is_process = !v->command_id };
	struct maker_node *m;
	int r;

	if (!key.id)
		return 0;
	HASH_FIND(hh, up->makers, &key, sizeof(key), m);
	if (!m) {
		m = calloc(1, sizeof(*m));
		if (!m)
			return -ENOMEM;
		m->key = key;
		m->m.until_ns = INT64_MIN;
		m->m.depth = SIZE_MAX;
		r = load_maker(up, m);
		if (r > 0)
			HASH_ADD(hh, up->makers, key, sizeof(key), m);
		if (r <= 0 || !m->hh.tbl) {
			maker_free(m);
			return r <= 0 ? r : -ENOMEM;
		}
		*up->last_maker = &m->m;
		up->last_maker = &m->m.next;
	}
	*out = m;
	return 1;
}

/* --- versions --- */

/* When the access that made the version ended. */
static int made_at(struct shfs_upstream *up, const struct shfs_version *v, int64_t *ns)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open(up->index,
	                       "SELECT end_ns FROM v_access WHERE access_id = ?1", &rows);

	if (!r)
		r = shfs_rows_bind_int(rows, 1, v->access_id);
	if (!r)
		r = shfs_rows_next(rows);
	*ns = r > 0 ? shfs_rows_int(rows, 0) : v->time_ns;
	return MIN(r, 0);
}

/* The maker has to be asked (again) for what it read up to this version. */
static int require(struct shfs_upstream *up, struct maker_node *m,
                   const struct shfs_version *v, size_t depth)
{
	int64_t ns;
	int r = made_at(up, v, &ns);

	if (r)
		return r;
	if (ns > m->m.until_ns || depth < m->m.depth) {
		m->m.until_ns = MAX(m->m.until_ns, ns);
		m->m.depth = MIN(m->m.depth, depth);
		enqueue(up, m);
	}
	return 0;
}

static struct version_node *new_version(struct shfs_upstream *up,
                                        struct shfs_version *version)
{
	struct version_node *node = calloc(1, sizeof(*node));

	if (!node)
		return NULL;
	node->version_id = version->version_id;
	HASH_ADD(hh, up->versions, version_id, sizeof(int64_t), node);
	if (!node->hh.tbl) {
		free(node);
		return NULL;
	}
	node->v.version = *version;
	version->path = NULL;
	*up->last_version = &node->v;
	up->last_version = &node->v.next;
	return node;
}

/* Takes version over. */
static int add_version(struct shfs_upstream *up, struct shfs_version *version,
                       size_t depth, struct version_node **out)
{
	struct version_node *node = NULL;
	struct maker_node *m = NULL;
	int r;

	HASH_FIND(hh, up->versions, &version->version_id, sizeof(int64_t), node);
	if (!node)
		node = new_version(up, version);
	if (!node)
		return -ENOMEM;
	*out = node;
	r = get_maker(up, &node->v.version, &m);
	if (r <= 0)
		return r;
	if (!node->v.maker) {
		node->v.maker = &m->m;
		node->v.next_made = m->m.made;
		m->m.made = &node->v;
		enqueue(up, m);
	}
	return require(up, m, &node->v.version, depth);
}

/* --- inputs --- */

static bool is_own(const struct maker_node *m, const struct shfs_version *v)
{
	return m->key.is_process ? !v->command_id && v->process_id == m->key.id
	                         : v->command_id == m->key.id;
}

static int add_input(struct shfs_upstream *up, struct maker_node *m, int64_t version_id)
{
	_cleanup_version_ struct shfs_version version = { 0 };
	struct shfs_upstream_maker *maker = &m->m;
	struct version_node *node;
	int r;

	for (size_t i = 0; i < maker->n_inputs; i++)
		if (maker->inputs[i]->version.version_id == version_id)
			return 0;
	r = shfs_version_load(up->index, version_id, &version);
	if (r <= 0 || is_own(m, &version))
		return MIN(r, 0);
	r = add_version(up, &version, maker->depth + 1, &node);
	if (r)
		return r;
	if (maker->n_inputs == maker->cap_inputs) {
		size_t cap = MAX(maker->cap_inputs * 2, (size_t)8);
		void *inputs = reallocarray(maker->inputs, cap, sizeof(*maker->inputs));

		if (!inputs)
			return -ENOMEM;
		maker->inputs = inputs;
		maker->cap_inputs = cap;
	}
	maker->inputs[maker->n_inputs++] = &node->v;
	return 0;
}

#define READS(maker)                                                                     \
	"SELECT seen_version_id FROM v_access WHERE " maker                              \
	" AND is_read = 1 AND begin_ns <= ?2 AND seen_version_id IS NOT NULL"            \
	" GROUP BY seen_version_id ORDER BY min(seq_key)"

static int add_reads(struct shfs_upstream *up, struct maker_node *m)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open(up->index,
	                       m->key.is_process
	                               ? READS("process_id = ?1 AND command_id IS NULL")
	                               : READS("command_id = ?1"),
	                       &rows);

	if (!r)
		r = shfs_rows_bind_int(rows, 1, m->key.id);
	if (!r)
		r = shfs_rows_bind_int(rows, 2, m->m.until_ns);
	while (!r && (r = shfs_rows_next(rows)) > 0)
		r = add_input(up, m, shfs_rows_int(rows, 0));
	return r;
}

/* What was there before an append, or before some bytes of the file were changed. */
#define PAST                                                                             \
	"SELECT w.version_id FROM v_version v JOIN v_version w"                          \
	" ON w.file_id = v.file_id AND w.n = v.n - 1"                                    \
	" JOIN v_access a ON a.access_id = v.access_id"                                  \
	" WHERE v.version_id = ?1 AND v.source = 'written' AND NOT a.flags & ?2"

static int past_of(struct shfs_upstream *up, const struct shfs_version *v, int64_t *out)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r;

	*out = v->origin_version_id;
	if (*out)
		return 1;
	r = shfs_rows_open(up->index, PAST, &rows);
	if (!r)
		r = shfs_rows_bind_int(rows, 1, v->version_id);
	if (!r)
		r = shfs_rows_bind_int(rows, 2,
		                       SHFS_ACCESS_TRUNCATED | SHFS_ACCESS_CREATED);
	if (!r)
		r = shfs_rows_next(rows);
	if (r > 0)
		*out = shfs_rows_int(rows, 0);
	return r;
}

/* The last version before v that went into it and that another maker made. */
static int add_past(struct shfs_upstream *up, struct maker_node *m,
                    const struct shfs_version *v)
{
	_cleanup_version_ struct shfs_version own = { 0 };
	int64_t id;
	int r;

	while ((r = past_of(up, v, &id)) > 0) {
		_cleanup_version_ struct shfs_version past = { 0 };

		r = shfs_version_load(up->index, id, &past);
		if (r <= 0 || !is_own(m, &past))
			return r > 0 ? add_input(up, m, id) : r;
		shfs_version_clear(&own);
		own = past;
		past.path = NULL;
		v = &own;
	}
	return r;
}

static int expand(struct shfs_upstream *up, struct maker_node *m)
{
	int r;

	m->m.cut = up->max_depth && m->m.depth >= up->max_depth;
	if (m->m.cut)
		return 0;
	r = add_reads(up, m);
	for (struct shfs_upstream_version *v = m->m.made; v && !r; v = v->next_made)
		r = add_past(up, m, &v->version);
	return r;
}

int shfs_upstream_new(struct shfs_index *index, const struct shfs_version *target,
                      size_t max_depth, struct shfs_upstream **out)
{
	_cleanup_upstream_ struct shfs_upstream *up = calloc(1, sizeof(*up));
	_cleanup_version_ struct shfs_version copy = *target;
	struct version_node *node;
	struct maker_node *m;
	int r;

	copy.path = strdup(target->path);
	if (!up || !copy.path)
		return -ENOMEM;
	up->index = index;
	up->max_depth = max_depth;
	up->queue_end = &up->queue;
	up->last_version = &up->first_version;
	up->last_maker = &up->first_maker;
	r = add_version(up, &copy, 0, &node);
	/* Ends: until_ns only rises and depth only falls, over finitely many versions. */
	while (!r && (m = dequeue(up)))
		r = expand(up, m);
	if (!r)
		*out = TAKE_PTR(up);
	return r;
}

struct shfs_upstream_version *shfs_upstream_versions(struct shfs_upstream *up)
{
	return up->first_version;
}

struct shfs_upstream_maker *shfs_upstream_makers(struct shfs_upstream *up)
{
	return up->first_maker;
}
