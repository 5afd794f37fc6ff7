/* SPDX-License-Identifier: MIT */
#include "query/upstream.h"

#include <errno.h>
#include <string.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

struct version_node {
	struct shfs_upstream_version v;
	int64_t version_id;
	struct maker_node *input_of; /* the last that it was added to */
	int64_t made_ns; /* when what made it ended; INT64_MIN: not asked yet */
	UT_hash_handle hh;
};

struct maker_key {
	int64_t id;
	int64_t is_process;
};

struct maker_node {
	struct shfs_upstream_maker m;
	struct maker_key key;
	bool queued, asked;      /* asked: for its inputs, at least once */
	struct maker_node *next; /* in the queue */
	UT_hash_handle hh;
};

/* --- questions to the index, each prepared once --- */

/* These bring back contents that they have kept. */
#define VERSION_CONTROL(p)                                                               \
	"(" p ".exe GLOB '*/git' OR " p ".exe GLOB '*/git-*' OR " p                      \
	".exe GLOB '*/hg' OR " p ".exe GLOB '*/svn')"

/* shfs itself reads a file to compare it: that goes into nothing. */
#define READS(maker, but_for)                                                            \
	"SELECT seen_version_id FROM v_access a WHERE " maker                            \
	" AND is_read = 1 AND begin_ns <= ?2 AND seen_version_id IS NOT NULL"            \
	" AND coalesce(process_id, 0) NOT IN (SELECT process_id FROM v_process p "       \
	"WHERE " maker " AND (p.exe GLOB '*/shfs'" but_for "))"                          \
	" GROUP BY seen_version_id ORDER BY min(seq_key)"
#define BUT_FOR_VERSION_CONTROL " OR " VERSION_CONTROL("p")
#define COMMAND                 "command_id = ?1"
#define PROCESS                 "process_id = ?1 AND command_id IS NULL"

/* What was there before an append, or before some bytes of the file were changed. */
#define PAST                                                                             \
	"SELECT w.version_id FROM v_version v JOIN v_version w"                          \
	" ON w.file_id = v.file_id AND w.n = v.n - 1"                                    \
	" JOIN v_access a ON a.access_id = v.access_id"                                  \
	" WHERE" SHFS_SQL_VERSION_OF("v", "?1") "AND v.source = 'written'"               \
						" AND NOT a.flags & ?2"

/* What shfs restored, or version control checked out, is an earlier content again, of the
 * same path if it can be. */
#define RESTORED                                                                         \
	"SELECT w.version_id FROM v_version v JOIN v_process p USING (process_id)"       \
	" JOIN v_version w ON w.object_key = v.object_key AND w.object = v.object"       \
	" WHERE" SHFS_SQL_VERSION_OF(                                                    \
		"v", "?1") "AND w.version_id <> ?2"                                      \
			   " AND w.time_ns <= v.time_ns"                                 \
			   " AND w.process_id IS NOT v.process_id"                       \
			   " AND (p.exe GLOB '*/shfs' OR " VERSION_CONTROL(              \
				   "p") ")" BEST_RESTORED
#define BEST_RESTORED                                                                    \
	" ORDER BY w.file_id = v.file_id DESC, w.time_ns, w.version_id LIMIT 1"

enum question {
	READS_OF_COMMAND,
	READS_OF_PROCESS,
	OTHER_READS_OF_COMMAND, /* but for version control's */
	OTHER_READS_OF_PROCESS,
	MADE_NS,
	PAST_OF,
	RESTORED_FROM,
	N_QUESTIONS
};

static const char *const questions[N_QUESTIONS] = {
	[READS_OF_COMMAND] = READS(COMMAND, ""),
	[READS_OF_PROCESS] = READS(PROCESS, ""),
	[OTHER_READS_OF_COMMAND] = READS(COMMAND, BUT_FOR_VERSION_CONTROL),
	[OTHER_READS_OF_PROCESS] = READS(PROCESS, BUT_FOR_VERSION_CONTROL),
	[MADE_NS] = "SELECT end_ns FROM v_access WHERE access_id = ?1 AND ?2 = 0",
	[PAST_OF] = PAST,
	[RESTORED_FROM] = RESTORED,
};

struct shfs_upstream {
	struct shfs_index *index;
	size_t max_depth, max_versions, n_versions;
	bool all;
	struct version_node *versions;
	struct maker_node *makers;
	struct shfs_upstream_version *first_version, **last_version;
	struct shfs_upstream_maker *first_maker, **last_maker;
	struct maker_node *queue, **queue_end;
	struct shfs_rows *rows[N_QUESTIONS];
};

/* Asks with ?1 and ?2. 1 with *rows at an answer, 0, or a negative errno. */
static int ask(struct shfs_upstream *up, enum question question, int64_t first,
               int64_t second, struct shfs_rows **rows)
{
	int r = 0;

	if (!up->rows[question])
		r = shfs_rows_open(up->index, questions[question], &up->rows[question]);
	*rows = up->rows[question];
	if (!r)
		r = shfs_rows_bind_int(*rows, 1, first);
	if (!r)
		r = shfs_rows_bind_int(*rows, 2, second);
	return r ? r : shfs_rows_next(*rows);
}

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
	for (int i = 0; i < N_QUESTIONS; i++)
		shfs_rows_close(up->rows[i]);
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

static int load_made_ns(struct shfs_upstream *up, struct version_node *node)
{
	struct shfs_rows *rows;
	int r;

	if (node->made_ns != INT64_MIN)
		return 0;
	r = ask(up, MADE_NS, node->v.version.access_id, 0, &rows);
	if (r >= 0)
		node->made_ns = r ? shfs_rows_int(rows, 0) : node->v.version.time_ns;
	return MIN(r, 0);
}

static struct version_node *new_version(struct shfs_upstream *up,
                                        struct shfs_version *version)
{
	struct version_node *node = calloc(1, sizeof(*node));

	if (!node)
		return NULL;
	node->version_id = version->version_id;
	node->made_ns = INT64_MIN;
	HASH_ADD(hh, up->versions, version_id, sizeof(int64_t), node);
	if (!node->hh.tbl) {
		free(node);
		return NULL;
	}
	node->v.version = *version;
	version->path = NULL;
	up->n_versions++;
	*up->last_version = &node->v;
	up->last_version = &node->v.next;
	return node;
}

/*
 * Its maker, if it has one, has to be asked (again) for what it read up to this version.
 */
static int require(struct shfs_upstream *up, struct version_node *node, size_t depth)
{
	struct maker_node *m;
	int r;

	if (!node->v.maker)
		return 0;
	m = container_of(node->v.maker, struct maker_node, m);
	r = load_made_ns(up, node);
	if (r)
		return r;
	if (node->made_ns > m->m.until_ns || (up->max_depth && depth < m->m.depth))
		enqueue(up, m);
	m->m.until_ns = MAX(m->m.until_ns, node->made_ns);
	m->m.depth = MIN(m->m.depth, depth);
	return 0;
}

static int attach_maker(struct shfs_upstream *up, struct version_node *node)
{
	struct maker_node *m;
	int r = get_maker(up, &node->v.version, &m);

	if (r <= 0)
		return r;
	node->v.maker = &m->m;
	node->v.next_made = m->m.made;
	m->m.made = &node->v;
	enqueue(up, m);
	return 0;
}

/* Takes version over. */
static int add_version(struct shfs_upstream *up, struct shfs_version *version,
                       size_t depth, struct version_node **out)
{
	struct version_node *node = new_version(up, version);
	int r = node ? attach_maker(up, node) : -ENOMEM;

	if (!r)
		r = require(up, node, depth);
	if (!r)
		*out = node;
	return r;
}

/* --- inputs --- */

static bool is_own(const struct maker_node *m, const struct shfs_version *v)
{
	return m->key.is_process ? !v->command_id && v->process_id == m->key.id
	                         : v->command_id == m->key.id;
}

/* Nobody made it, in the time of the maker: a new file that was renamed while it was
 * still open. The record of its writing has the name that it got. */
static bool is_unfinished(const struct maker_node *m, const struct shfs_version *v)
{
	const struct shfs_entry *e = &m->m.entry;

	return !strcmp(v->source, "found") && v->n == 1 &&
	       v->time_ns >= (e->is_process ? e->process.first_ns : e->command.begin_ns);
}

static bool has_input(const struct shfs_upstream_maker *maker,
                      const struct shfs_upstream_version *input)
{
	for (size_t i = 0; i < maker->n_inputs; i++)
		if (maker->inputs[i] == input)
			return true;
	return false;
}

static int append_input(struct maker_node *m, struct version_node *node)
{
	struct shfs_upstream_maker *maker = &m->m;
	struct shfs_upstream_version *input = &node->v;

	if (node->input_of == m || (m->asked && has_input(maker, input)))
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
	maker->inputs[maker->n_inputs++] = input;
	return 0;
}

/* Unless the maker made it itself. */
static int add_input(struct shfs_upstream *up, struct maker_node *m, int64_t version_id)
{
	_cleanup_version_ struct shfs_version version = { 0 };
	size_t depth = m->m.depth + 1;
	struct version_node *node;
	int r;

	HASH_FIND(hh, up->versions, &version_id, sizeof(version_id), node);
	if (node) {
		if (is_own(m, &node->v.version))
			return 0;
		r = require(up, node, depth);
	} else if (up->max_versions && up->n_versions >= up->max_versions) {
		m->m.n_more++;
		return 0;
	} else {
		r = shfs_version_load(up->index, version_id, &version);
		if (r <= 0 || is_own(m, &version))
			return MIN(r, 0);
		if (!up->all && shfs_path_is_version_control(version.path)) {
			m->m.n_left_out++;
			return 0;
		}
		r = add_version(up, &version, depth, &node);
	}
	return r ? r : append_input(m, node);
}

static int add_reads(struct shfs_upstream *up, struct maker_node *m, bool others)
{
	enum question question =
		m->key.is_process ? (others ? OTHER_READS_OF_PROCESS : READS_OF_PROCESS)
				  : (others ? OTHER_READS_OF_COMMAND : READS_OF_COMMAND);
	struct shfs_rows *rows;
	int r = ask(up, question, m->key.id, m->m.until_ns, &rows);

	/* those of an earlier round are asked for again */
	m->m.n_left_out = m->m.n_more = 0;
	for (; r > 0; r = shfs_rows_next(rows)) {
		r = add_input(up, m, shfs_rows_int(rows, 0));
		if (r)
			break;
	}
	return r;
}

static int past_of(struct shfs_upstream *up, const struct shfs_version *v, int64_t *out)
{
	struct shfs_rows *rows;
	int r;

	*out = v->origin_version_id;
	if (*out)
		return 1;
	r = ask(up, PAST_OF, v->version_id, SHFS_ACCESS_TRUNCATED | SHFS_ACCESS_CREATED,
	        &rows);
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
		if (r <= 0 || is_unfinished(m, &past))
			return MIN(r, 0);
		if (!is_own(m, &past))
			return add_input(up, m, id);
		shfs_version_clear(&own);
		own = past;
		past.path = NULL;
		v = &own;
	}
	return r;
}

/* 1 if it was restored, and from what is known; else 0. */
static int add_restored(struct shfs_upstream *up, struct maker_node *m,
                        const struct shfs_version *v)
{
	struct shfs_rows *rows;
	int r = ask(up, RESTORED_FROM, v->version_id, v->version_id, &rows);

	if (r > 0)
		r = add_input(up, m, shfs_rows_int(rows, 0)) ?: 1;
	return r;
}

/* Where all that is asked for was brought back as it had been, version control has read
 * other files to see whether they changed: that goes into nothing either. */
static int expand(struct shfs_upstream *up, struct maker_node *m)
{
	bool restored = !up->all;
	int r = 0;

	m->m.cut = (up->max_depth && m->m.depth >= up->max_depth) ||
	           (!m->asked && up->max_versions && up->n_versions >= up->max_versions);
	if (m->m.cut)
		return 0;
	for (struct shfs_upstream_version *v = m->m.made; v && r >= 0; v = v->next_made) {
		r = add_restored(up, m, &v->version);
		restored &= r > 0;
		if (!r)
			r = add_past(up, m, &v->version);
	}
	r = r < 0 ? r : add_reads(up, m, restored);
	m->asked = true;
	return r;
}

int shfs_upstream_new(struct shfs_index *index, const struct shfs_version *target,
                      size_t max_depth, size_t max_versions, bool all,
                      struct shfs_upstream **out)
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
	up->max_versions = max_versions;
	up->all = all || shfs_path_is_version_control(target->path);
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
