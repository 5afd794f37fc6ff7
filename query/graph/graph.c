/* SPDX-License-Identifier: MIT */
#include "query/graph/internal.h"

#include <errno.h>
#include <string.h>

int shfs_graph_new(struct shfs_index *index, const struct shfs_graph_limits *limits,
                   struct shfs_graph **out)
{
	_cleanup_graph_ struct shfs_graph *g = calloc(1, sizeof(*g));
	int r = g ? shfs_facts_new(index, &g->facts) : -ENOMEM;

	if (!r && limits->eager)
		r = shfs_facts_load(g->facts);
	if (r)
		return r;
	g->index = index;
	g->limits = *limits;
	g->last_version = &g->first_version;
	g->last_maker = &g->first_maker;
	*out = TAKE_PTR(g);
	return 0;
}

static void versions_free(struct shfs_graph *g)
{
	struct version_block *next;

	for (struct version_block *b = g->blocks; b; b = next) {
		next = b->next;
		for (size_t i = 0; i < b->n; i++) {
			shfs_version_clear(&b->nodes[i].v.version);
			free(b->nodes[i].v.readers);
		}
		free(b);
	}
	free(g->versions.slots);
}

static void commands_free(struct shfs_graph *g)
{
	for (size_t i = 0; g->commands.bits && i < (size_t)1 << g->commands.bits; i++) {
		struct command_node *c = g->commands.slots[i].value;

		if (c)
			shfs_entry_clear(&c->entry);
		free(c);
	}
	free(g->commands.slots);
	shfs_rows_close(g->command_rows);
}

/* Frees a maker; if that is a command, its entry is borrowed. */
static void maker_free(struct maker_node *node)
{
	if (node->key.is_process)
		shfs_entry_clear(&node->m.entry);
	free(node->m.inputs);
	free(node->reads.list);
	for (size_t k = 0; k < node->m.n_notes; k++)
		free(node->m.notes[k].by_way);
	free(node->m.notes);
	free(node->results);
	free(node->gone);
	free(node);
}

void shfs_graph_free(struct shfs_graph *g)
{
	struct maker_node *m, *next_m;
	struct program *p, *next_p;

	if (!g)
		return;
	versions_free(g);
	HASH_ITER (hh, g->makers, m, next_m) {
		HASH_DEL(g->makers, m);
		maker_free(m);
	}
	HASH_ITER (hh, g->programs, p, next_p) {
		HASH_DEL(g->programs, p);
		free(p->exe);
		free(p);
	}
	free(g->reads.list);
	shfs_graph_jobs_free(g);
	commands_free(g);
	shfs_graph_python_free(g);
	shfs_graph_outside_free(g);
	shfs_graph_passed_free(g);
	shfs_graph_makings_free(g);
	free(g->notes.slots);
	shfs_facts_free(g->facts);
	free(g);
}

bool shfs_graph_is_full(const struct shfs_graph *g)
{
	return g->limits.max_versions && g->n_versions >= g->limits.max_versions;
}

/* --- makers --- */

int shfs_graph_maker_of(struct shfs_graph *g, const struct shfs_version *v,
                        struct maker_key *key)
{
	struct graph_jobs *jobs;
	int r = shfs_graph_jobs(g, v->command_id, &jobs);

	*key = (struct maker_key){ v->command_id ? v->command_id : v->process_id,
		                   !v->command_id,
		                   shfs_graph_job_of(jobs, v->process_id) };
	return r;
}

static int load_maker(struct shfs_graph *g, struct maker_node *m)
{
	struct shfs_entry *e = &m->m.entry;
	struct command_node *c;
	int r;

	e->is_process = m->key.is_process;
	if (e->is_process)
		return shfs_process_load(g->index, m->key.id, &e->process);
	r = shfs_graph_jobs(g, m->key.id, &m->jobs);
	if (!r)
		r = shfs_graph_command(g, m->key.id, &c);
	if (r <= 0)
		return r;
	*e = c->entry;
	if (m->key.job && (r = shfs_graph_job_program(g, m->jobs, m->key.job, &e->job)))
		return r;
	m->m.again = c->made;
	c->made = true;
	return 1;
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
	return m->key.is_process
	               ? !v->command_id && v->process_id == m->key.id
	               : v->command_id == m->key.id &&
	                         shfs_graph_job_of(m->jobs, v->process_id) == m->key.job;
}

bool shfs_graph_is_unfinished(const struct maker_node *m, const struct shfs_version *v)
{
	const struct shfs_entry *e = &m->m.entry;

	return !strcmp(v->source, "found") && v->n == 1 &&
	       v->time_ns >= (e->is_process ? e->process.first_ns : e->command.begin_ns);
}

/* --- versions --- */

struct version_node *shfs_graph_find(struct shfs_graph *g, int64_t id)
{
	return shfs_id_table_get(&g->versions, id);
}

static struct version_node *new_node(struct shfs_graph *g)
{
	struct version_block *b = g->blocks;

	if (!b || b->n == ARRAY_SIZE(b->nodes)) {
		b = malloc(sizeof(*b));
		if (!b)
			return NULL;
		b->n = 0;
		b->next = g->blocks;
		g->blocks = b;
	}
	memset(&b->nodes[b->n], 0, sizeof(b->nodes[b->n]));
	return &b->nodes[b->n++];
}

struct version_node *shfs_graph_add(struct shfs_graph *g, int64_t id,
                                    struct shfs_version *version)
{
	struct version_node *node = new_node(g);

	if (!node || shfs_id_table_add(&g->versions, id, node))
		return NULL;
	node->id = id;
	node->made_ns = INT64_MIN;
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
	if (!MAKE_ROOM(maker->inputs, maker->n_inputs, maker->cap_inputs))
		return -ENOMEM;
	maker->inputs[maker->n_inputs++] = &node->v;
	return 0;
}

/* --- questions to a finished graph --- */

struct shfs_graph_version *shfs_graph_versions(struct shfs_graph *g)
{
	return g->first_version;
}

struct shfs_graph_maker *shfs_graph_makers(struct shfs_graph *g)
{
	return g->first_maker;
}

struct executed {
	struct shfs_graph *g;
	const struct maker_node *m;
	int64_t until_ns;
	struct first_run {
		struct program *program;
		int64_t first_ns;
	} * list;
	size_t n, cap;
};

static int add_executed(const struct shfs_process_fact *p, void *arg)
{
	struct executed *e = arg;
	const struct maker_key *key = &e->m->key;
	struct program *program;
	int r;

	if (key->job && shfs_graph_job_of(e->m->jobs, p->process_id) != key->job)
		return 0;
	r = shfs_graph_find_program(e->g, p->program_id, &program);
	if (r <= 0 || p->first_ns > e->until_ns || program->listed)
		return MIN(r, 0);
	if (!MAKE_ROOM(e->list, e->n, e->cap))
		return -ENOMEM;
	e->list[e->n++] = (struct first_run){ program, p->first_ns };
	program->listed = true;
	return 0;
}

static int compare_first(const void *a, const void *b)
{
	const struct first_run *x = a, *y = b;

	return (x->first_ns > y->first_ns) - (x->first_ns < y->first_ns);
}

static int is_outside(struct shfs_graph *g, struct program *program)
{
	int r = 0;

	if (!program->looked_for && strchr(program->exe, '/')) {
		r = shfs_graph_is_outside(g, program->exe);
		program->outside = r > 0;
	}
	program->looked_for = true;
	return r < 0 ? r : program->outside;
}

static int show_executed(struct executed *e, shfs_program_fn fn, void *arg)
{
	int r = 0;

	for (size_t i = 0; i < e->n; i++)
		e->list[i].program->listed = false;
	if (e->n)
		qsort(e->list, e->n, sizeof(*e->list), compare_first);
	for (size_t i = 0; i < e->n && !r; i++) {
		r = is_outside(e->g, e->list[i].program);
		r = r > 0 ? fn(e->list[i].program->exe, arg) : r;
	}
	return r;
}

int shfs_graph_programs(struct shfs_graph *g, const struct shfs_graph_maker *maker,
                        shfs_program_fn fn, void *arg)
{
	const struct maker_node *m = container_of(maker, struct maker_node, m);
	struct executed e = { .g = g, .m = m, .until_ns = maker->until_ns };
	struct shfs_process_fact p = { .process_id = m->key.id };
	int r;

	if (!m->key.is_process) {
		r = shfs_facts_processes(g->facts, m->key.id, add_executed, &e);
	} else {
		p.first_ns = maker->entry.process.first_ns;
		r = shfs_facts_program(g->facts, m->key.id, &p.program_id);
		if (r > 0)
			r = add_executed(&p, &e);
	}
	r = r ? r : show_executed(&e, fn, arg);
	free(e.list);
	return r;
}
