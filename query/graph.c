/* SPDX-License-Identifier: MIT */
#include "query/graph-internal.h"

#include <errno.h>
#include <string.h>

struct shfs_graph *shfs_graph_new(struct shfs_index *index,
                                  const struct shfs_graph_limits *limits,
                                  const char *const *questions)
{
	struct shfs_graph *g = calloc(1, sizeof(*g));

	if (!g)
		return NULL;
	g->index = index;
	g->limits = *limits;
	g->questions = questions;
	g->last_version = &g->first_version;
	g->last_maker = &g->first_maker;
	return g;
}

static void version_free(struct version_node *node)
{
	shfs_version_clear(&node->v.version);
	free(node->v.readers);
	free(node);
}

static void maker_free(struct maker_node *node)
{
	shfs_entry_clear(&node->m.entry);
	free(node->m.inputs);
	free(node->results);
	free(node->gone);
	free(node);
}

void shfs_graph_free(struct shfs_graph *g)
{
	struct version_node *v, *next_v;
	struct maker_node *m, *next_m;

	if (!g)
		return;
	HASH_ITER (hh, g->versions, v, next_v) {
		HASH_DEL(g->versions, v);
		version_free(v);
	}
	HASH_ITER (hh, g->makers, m, next_m) {
		HASH_DEL(g->makers, m);
		maker_free(m);
	}
	shfs_rows_close(g->makers_rows);
	for (int i = 0; i < QUESTIONS_MAX; i++)
		shfs_rows_close(g->rows[i]);
	free(g);
}

int shfs_graph_prepare(struct shfs_graph *g, int question, struct shfs_rows **rows)
{
	int r = 0;

	if (!g->rows[question])
		r = shfs_rows_open(g->index, g->questions[question], &g->rows[question]);
	*rows = g->rows[question];
	return r;
}

int shfs_graph_ask(struct shfs_graph *g, int question, int64_t first, int64_t second,
                   struct shfs_rows **rows)
{
	int r = shfs_graph_prepare(g, question, rows);

	if (!r)
		r = shfs_rows_bind_int(*rows, 1, first);
	if (!r && strstr(g->questions[question], "?2"))
		r = shfs_rows_bind_int(*rows, 2, second);
	return r ? r : shfs_rows_next(*rows);
}

bool shfs_graph_is_full(const struct shfs_graph *g)
{
	return g->limits.max_versions && g->n_versions >= g->limits.max_versions;
}

/* --- makers --- */

struct maker_key shfs_graph_maker_of(const struct shfs_version *v)
{
	return (struct maker_key){ v->command_id ? v->command_id : v->process_id,
		                   !v->command_id };
}

static int load_maker(struct shfs_graph *g, struct maker_node *m)
{
	struct shfs_entry *e = &m->m.entry;
	struct shfs_rows **rows = &g->makers_rows;
	int r = 0;

	e->is_process = m->key.is_process;
	if (e->is_process)
		return shfs_process_load(g->index, m->key.id, &e->process);
	if (!*rows)
		r = shfs_rows_open(g->index,
		                   "SELECT" SHFS_COMMAND_COLUMNS
		                   "FROM v_command WHERE command_id = ?1",
		                   rows);
	if (!r)
		r = shfs_rows_bind_int(*rows, 1, m->key.id);
	if (!r)
		r = shfs_rows_next(*rows);
	return r > 0 ? shfs_command_from_row(*rows, &e->command) : r;
}

int shfs_graph_maker(struct shfs_graph *g, struct maker_key key, struct maker_node **out)
{
	struct maker_node *m;
	int r;

	if (!key.id)
		return 0;
	HASH_FIND(hh, g->makers, &key, sizeof(key), m);
	if (!m) {
		m = calloc(1, sizeof(*m));
		if (!m)
			return -ENOMEM;
		m->key = key;
		m->m.until_ns = INT64_MIN;
		m->m.depth = SIZE_MAX;
		m->since_ns[0] = m->since_ns[1] = INT64_MAX;
		r = load_maker(g, m);
		if (r > 0)
			HASH_ADD(hh, g->makers, key, sizeof(key), m);
		if (r <= 0 || !m->hh.tbl) {
			maker_free(m);
			return r <= 0 ? r : -ENOMEM;
		}
		m->m.number = ++g->n_makers;
		*g->last_maker = &m->m;
		g->last_maker = &m->m.next;
	}
	*out = m;
	return 1;
}

bool shfs_graph_is_own(const struct maker_node *m, const struct shfs_version *v)
{
	struct maker_key key = shfs_graph_maker_of(v);

	return key.id == m->key.id && key.is_process == m->key.is_process;
}

bool shfs_graph_is_unfinished(const struct maker_node *m, const struct shfs_version *v)
{
	const struct shfs_entry *e = &m->m.entry;

	return !strcmp(v->source, "found") && v->n == 1 &&
	       v->time_ns >= (e->is_process ? e->process.first_ns : e->command.begin_ns);
}

/* --- versions --- */

struct version_node *shfs_graph_find(struct shfs_graph *g, int64_t version_id)
{
	struct version_node *node;

	HASH_FIND(hh, g->versions, &version_id, sizeof(version_id), node);
	return node;
}

struct version_node *shfs_graph_add(struct shfs_graph *g, struct shfs_version *version)
{
	struct version_node *node = calloc(1, sizeof(*node));

	if (!node)
		return NULL;
	node->version_id = version->version_id;
	node->made_ns = INT64_MIN;
	HASH_ADD(hh, g->versions, version_id, sizeof(int64_t), node);
	if (!node->hh.tbl) {
		free(node);
		return NULL;
	}
	node->v.version = *version;
	version->path = NULL;
	node->v.number = ++g->n_versions;
	*g->last_version = &node->v;
	g->last_version = &node->v.next;
	return node;
}

void shfs_graph_attach(struct version_node *node, struct maker_node *m)
{
	node->v.maker = &m->m;
	node->v.next_made = m->m.made;
	m->m.made = &node->v;
}

int shfs_graph_add_input(struct maker_node *m, struct version_node *node)
{
	struct shfs_graph_maker *maker = &m->m;

	if (node->input_of == m)
		return 0;
	node->input_of = m;
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

/* --- what is asked of one that is done --- */

struct shfs_graph_version *shfs_graph_versions(struct shfs_graph *g)
{
	return g->first_version;
}

struct shfs_graph_maker *shfs_graph_makers(struct shfs_graph *g)
{
	return g->first_maker;
}

#define PROGRAMS(maker)                                                                  \
	"SELECT DISTINCT exe FROM v_process WHERE " maker                                \
	" AND first_ns <= ?2 AND exe GLOB '/*' AND NOT EXISTS (SELECT 1 FROM v_path"     \
	" JOIN v_file USING (file_id) WHERE v_path.dir = path_dir(exe)"                  \
	" AND v_path.name_key = name_key(path_name(exe))"                                \
	" AND +v_path.name = path_name(exe)) ORDER BY first_ns"

int shfs_graph_programs(struct shfs_graph *g, const struct shfs_graph_maker *maker,
                        shfs_program_fn fn, void *arg)
{
	static const char *const texts[] = { PROGRAMS(SQL_COMMAND),
		                             PROGRAMS("process_id = ?1") };
	const struct maker_node *m = container_of(maker, struct maker_node, m);
	struct shfs_rows **rows = &g->rows[QUESTIONS_MAX - 1 - m->key.is_process];
	int r = 0;

	if (!*rows)
		r = shfs_rows_open(g->index, texts[m->key.is_process], rows);
	if (!r)
		r = shfs_rows_bind_int(*rows, 1, m->key.id);
	if (!r)
		r = shfs_rows_bind_int(*rows, 2, maker->until_ns);
	while (!r && (r = shfs_rows_next(*rows)) > 0)
		r = fn(shfs_rows_text(*rows, 0), arg);
	return r;
}
