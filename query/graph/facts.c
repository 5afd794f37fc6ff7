/* SPDX-License-Identifier: MIT */
/* Questions of upstream.c, downstream.c and stale.c to the index. */
#include "common/program.h"
#include "query/graph/internal.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

/* --- versions --- */

/* The writer that wrote a found version again, and the first other use of it. */
struct again {
	struct shfs_graph *g;
	int64_t n;
	struct shfs_access first; /* access_id 0: none yet */
	int64_t used_ns;
};

static int look_for_writer(const struct shfs_access *a, void *arg)
{
	struct again *again = arg;
	struct shfs_access *first = &again->first;
	enum by by;
	int r;

	if (a->made_n == again->n && a->flags & SHFS_WRITTEN_ANEW) {
		if (!first->access_id || a->end_us < first->end_us)
			*first = *a;
		return 0;
	}
	if (a->seen_n != again->n || !(a->flags & SHFS_ACCESS_READ))
		return 0;
	r = shfs_graph_by(again->g, a->access_id >> 32, &by);
	if (!r && by != BY_SHFS)
		again->used_ns = MIN(again->used_ns, shfs_access_begin_ns(a));
	return r;
}

/* Notes when the version was renamed or linked: that is a use, too. */
static int look_at_moved(int64_t version_id, void *arg)
{
	struct again *again = arg;
	struct shfs_version_fact w;
	int r = shfs_facts_version(again->g->facts, version_id, &w);

	if (r > 0)
		again->used_ns = MIN(again->used_ns, w.time_ns);
	return MIN(r, 0);
}

int shfs_graph_attribute(struct shfs_graph *g, struct shfs_version *v)
{
	struct again again = { .g = g, .n = v->n, .used_ns = INT64_MAX };
	const struct shfs_access *first = &again.first;
	struct shfs_file_fact file;
	int r;

	if (v->access_id || v->carried || strcmp(v->source, "found"))
		return 0;
	r = shfs_facts_file(g->facts, v->file_id, &file);
	if (r <= 0 || (file.versions == v->n && file.last_ns <= v->time_ns))
		return MIN(r, 0);
	r = shfs_facts_opens_of_file(g->facts, v->file_id, look_for_writer, &again);
	if (!r && first->access_id)
		r = shfs_facts_moved(g->facts, v->version_id, look_at_moved, &again);
	if (r || !first->access_id || again.used_ns < shfs_access_end_ns(first))
		return r;
	v->access_id = first->access_id;
	v->process_id = first->access_id >> 32;
	return MIN(shfs_facts_owner(g->facts, first->access_id, &v->command_id), 0);
}

static int version_of(struct shfs_graph *g, const struct shfs_version_fact *f,
                      struct shfs_version *out)
{
	struct shfs_version v = {
		.version_id = f->version_id,
		.file_id = f->file_id,
		.n = f->n,
		.origin_version_id = f->origin_version_id,
		.access_id = f->access_id,
		.process_id = f->process_id,
		.command_id = f->command_id,
		.object = f->content.object,
		.flags = shfs_index_content_flags(g->index, &f->content),
		.mode = f->content.mode,
		.size = f->content.size,
		.phash = f->content.phash,
		.mtime_ns = f->content.mtime_ns,
		.time_ns = f->time_ns,
		.carried = f->carried,
		.once = !f->again,
	};
	int r = shfs_facts_path(g->facts, f->file_id, &v.path);

	if (r <= 0)
		return r;
	strcpy(v.source, shfs_version_source_name(f->source) ?: "");
	r = shfs_graph_attribute(g, &v);
	if (r) {
		free(v.path);
		return r;
	}
	*out = v;
	return 1;
}

int shfs_graph_version(struct shfs_graph *g, int64_t id, struct shfs_version *out)
{
	struct shfs_version_fact fact;
	int r = shfs_graph_load_making(g, id, &fact);

	return r > 0 ? version_of(g, &fact, out) : r;
}

int shfs_graph_past(struct shfs_graph *g, const struct shfs_version *v,
                    int64_t *version_id)
{
	struct shfs_access a;
	int r;

	if (strcmp(v->source, "written") || v->n <= 1)
		return 0;
	r = shfs_facts_access(g->facts, v->access_id, &a);
	if (r <= 0 || a.flags & SHFS_WRITTEN_ANEW)
		return MIN(r, 0);
	*version_id = v->version_id - 1;
	return 1;
}

struct restored {
	struct shfs_graph *g;
	const struct shfs_version *v;
	struct shfs_version_fact best; /* version_id 0: none yet */
};

static bool is_better(const struct restored *s, const struct shfs_version_fact *w)
{
	const struct shfs_version_fact *best = &s->best;
	bool same = w->file_id == s->v->file_id;

	if (!best->version_id || same != (best->file_id == s->v->file_id))
		return !best->version_id || same;
	if (w->time_ns != best->time_ns)
		return w->time_ns < best->time_ns;
	return w->version_id < best->version_id;
}

static int look_for_earlier(int64_t version_id, void *arg)
{
	struct restored *s = arg;
	struct shfs_version_fact w;
	int r;

	if (version_id == s->v->version_id)
		return 0;
	r = shfs_facts_version(s->g->facts, version_id, &w);
	if (r > 0 && w.time_ns <= s->v->time_ns && w.process_id != s->v->process_id &&
	    is_better(s, &w))
		s->best = w;
	return MIN(r, 0);
}

int shfs_graph_restored_from(struct shfs_graph *g, const struct shfs_version *v,
                             int64_t *version_id)
{
	struct restored s = { .g = g, .v = v };
	enum by by;
	int r = shfs_graph_by(g, v->process_id, &by);

	if (!r && by != BY_ANOTHER)
		r = shfs_facts_same(g->facts, v->version_id, look_for_earlier, &s);
	if (r || !s.best.version_id)
		return r;
	*version_id = s.best.version_id;
	return 1;
}

/* --- commands and programs --- */

static int load_command(struct shfs_graph *g, int64_t command_id,
                        struct shfs_command_row *out)
{
	struct shfs_rows **rows = &g->command_rows;
	int r = 0;

	if (!*rows)
		r = shfs_rows_open(g->index,
		                   "SELECT" SHFS_COMMAND_COLUMNS
		                   "FROM v_command WHERE command_id = ?1",
		                   rows);
	if (!r)
		r = shfs_rows_bind_int(*rows, 1, command_id);
	if (!r)
		r = shfs_rows_next(*rows);
	return r > 0 ? shfs_command_from_row(*rows, out) : r;
}

int shfs_graph_command(struct shfs_graph *g, int64_t command_id,
                       struct command_node **out)
{
	struct command_node *c = shfs_id_table_get(&g->commands, command_id);
	int r = 1;

	if (!c) {
		c = calloc(1, sizeof(*c));
		r = c ? load_command(g, command_id, &c->entry.command) : -ENOMEM;
		if (r > 0)
			r = shfs_id_table_add(&g->commands, command_id, c) ?: 1;
		if (r <= 0) {
			if (c)
				shfs_entry_clear(&c->entry);
			free(c);
			return r;
		}
	}
	*out = c;
	return 1;
}

static enum by by_of(const char *exe)
{
	if (shfs_ends_with(exe, "/shfs"))
		return BY_SHFS;
	return shfs_ends_with(exe, "/git") || strstr(exe, "/git-") ||
	                       shfs_ends_with(exe, "/hg") || shfs_ends_with(exe, "/svn")
	               ? BY_VERSION_CONTROL
	               : BY_ANOTHER;
}

static int load_program(struct shfs_graph *g, int64_t id, struct program **out)
{
	struct program *p = calloc(1, sizeof(*p));
	int r = p ? shfs_facts_exe(g->facts, id, &p->exe) : -ENOMEM;

	if (r > 0) {
		const char *name = basename(p->exe);

		p->id = id;
		p->by = by_of(p->exe);
		p->builds = shfs_program_is_build_tool(name, strlen(name));
		p->launches = shfs_program_is_launcher(name, strlen(name));
		p->drives = shfs_program_is_driver(name, strlen(name));
		p->says = shfs_program_is_shell(name)                     ? SAYS_LITTLE
		          : shfs_program_is_file_tool(name, strlen(name)) ? SAYS_SOME
		                                                          : SAYS_MUCH;
		HASH_ADD(hh, g->programs, id, sizeof(id), p);
		*out = p;
		if (p->hh.tbl)
			return 1;
		r = -ENOMEM;
	}
	free(p ? p->exe : NULL);
	free(p);
	return r;
}

int shfs_graph_find_program(struct shfs_graph *g, int64_t program_id,
                            struct program **out)
{
	HASH_FIND(hh, g->programs, &program_id, sizeof(program_id), *out);
	return *out ? 1 : load_program(g, program_id, out);
}

static int program_of_process(struct shfs_graph *g, int64_t process_id,
                              struct program **out)
{
	int64_t id;
	int r = shfs_facts_program(g->facts, process_id, &id);

	return r > 0 ? shfs_graph_find_program(g, id, out) : r;
}

/* Keeps the last answer: many accesses in a row are of one process. */
int shfs_graph_program(struct shfs_graph *g, int64_t process_id, struct program **out)
{
	struct program *p = NULL;
	int r;

	if (!process_id || process_id != g->last_process) {
		r = process_id ? program_of_process(g, process_id, &p) : 0;
		if (r < 0)
			return r;
		g->last_process = process_id;
		g->last_program = r ? p : NULL;
	}
	*out = g->last_program;
	return !!g->last_program;
}

int shfs_graph_by(struct shfs_graph *g, int64_t process_id, enum by *out)
{
	struct program *p;
	int r = shfs_graph_program(g, process_id, &p);

	*out = r > 0 ? p->by : BY_ANOTHER;
	return MIN(r, 0);
}

/* --- accesses --- */

int shfs_graph_accesses(struct shfs_graph *g, struct maker_key key, shfs_access_fn fn,
                        void *arg)
{
	struct graph_jobs *jobs;
	int r;

	if (key.is_process)
		return shfs_facts_of_nobody(g->facts, key.id, fn, arg);
	r = shfs_graph_jobs(g, key.id, &jobs);
	if (r)
		return r;
	return jobs ? shfs_graph_job_accesses(g, jobs, key.job, fn, arg)
	            : shfs_facts_of_command(g->facts, key.id, fn, arg);
}

struct reads_of {
	struct shfs_graph *g;
	enum by most;
	struct graph_reads *reads;
	const struct graph_jobs *jobs;
	int64_t job;
	int64_t process_id; /* of the last read; -1: none yet */
	enum by by;
	bool told;
	struct maker_key key;
};

#define RAN_BEFORE                                                                       \
	"SELECT 1 FROM (SELECT end_ns FROM v_command WHERE begin_ns < ?1"                \
	" ORDER BY begin_ns DESC LIMIT 16) WHERE end_ns IS NULL OR end_ns >= ?2"

/* May a command that began before this one have changed what bears this time? */
static int may_be_changed_before(struct shfs_graph *g, const struct shfs_command_row *c,
                                 int64_t mtime_ns)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open_ints(g->index, RAN_BEFORE,
	                            SHFS_INTS(c->begin_ns, mtime_ns), &rows);

	return r ? r : shfs_rows_next(rows);
}

/* Is a file outside, which a process only named, one that its command itself had made or
 * changed? Then it is no input of that. The time of a file may lag behind: one shortly
 * before the begin is the command's own if no other command ran then. Of a link in a
 * recorded directory, the record has who made it. */
static int is_of_command(struct reads_of *of, const struct shfs_access *a)
{
	struct shfs_version_fact v;
	struct command_node *c;
	int r = of->key.is_process ? 0 : shfs_graph_command(of->g, of->key.id, &c);
	int64_t early_ns;

	if (r > 0)
		r = shfs_facts_version(of->g->facts, a->file_id << 32 | a->seen_n, &v);
	if (r <= 0)
		return r;
	early_ns = c->entry.command.begin_ns - v.content.mtime_ns;
	if (early_ns <= 0 || early_ns >= SHFS_FILE_TIME_LAG_NS || S_ISLNK(v.content.mode))
		return early_ns <= 0;
	r = may_be_changed_before(of->g, &c->entry.command, v.content.mtime_ns);
	return r < 0 ? r : !r;
}

static int add_graph_read(const struct shfs_access *a, void *arg)
{
	struct reads_of *of = arg;
	struct graph_reads *reads = of->reads;
	int64_t process_id = a->access_id >> 32;
	int r = 0;

	if (!(a->flags & SHFS_ACCESS_READ) || !a->seen_n)
		return 0;
	if (process_id != of->process_id) {
		r = shfs_graph_by(of->g, process_id, &of->by);
		of->told = shfs_graph_job_of(of->jobs, process_id) != of->job;
		of->process_id = process_id;
	}
	if (!r && of->by <= of->most && a->flags & SHFS_ACCESS_NAMED)
		r = is_of_command(of, a);
	if (r || of->by > of->most)
		return MIN(r, 0);
	if (!MAKE_ROOM(reads->list, reads->n, reads->cap))
		return -ENOMEM;
	reads->list[reads->n++] = (struct graph_read){
		.version_id = a->file_id << 32 | a->seen_n,
		.begin_ns = shfs_access_begin_ns(a),
		.seq = a->seq,
		.told = of->told,
	};
	return 0;
}

static int compare_seq(const void *a, const void *b)
{
	const struct graph_read *x = a, *y = b;

	return (x->seq > y->seq) - (x->seq < y->seq);
}

void shfs_graph_sort_reads(struct graph_read *list, size_t n)
{
	/* accesses of one process are in order */
	for (size_t i = 1; i < n; i++)
		if (list[i - 1].seq > list[i].seq) {
			qsort(list, n, sizeof(*list), compare_seq);
			return;
		}
}

/* Keeps the first read of each version. slots: positions in the list, plus 1; there are 2
 * to the power of bits. */
static void drop_repeated_reads(struct graph_reads *reads, uint32_t *slots, unsigned bits)
{
	struct graph_read *list = reads->list;
	size_t n = 0, mask = ((size_t)1 << bits) - 1;

	for (size_t i = 0; i < reads->n; i++) {
		size_t at =
			(uint64_t)list[i].version_id * 0x9e3779b97f4a7c15 >> (64 - bits);

		while (slots[at] && list[slots[at] - 1].version_id != list[i].version_id)
			at = (at + 1) & mask;
		if (slots[at]) {
			struct graph_read *first = &list[slots[at] - 1];

			first->begin_ns = MIN(first->begin_ns, list[i].begin_ns);
			first->told &= list[i].told;
			continue;
		}
		list[n++] = list[i];
		slots[at] = (uint32_t)n;
	}
	reads->n = n;
}

int shfs_graph_reads(struct shfs_graph *g, struct maker_key key, enum by most,
                     struct graph_reads *out)
{
	struct reads_of of = {
		.g = g,
		.most = most,
		.reads = out,
		.job = key.job,
		.process_id = -1,
		.key = key,
	};
	_cleanup_free_ uint32_t *slots = NULL;
	struct graph_jobs *jobs = NULL;
	unsigned bits = 4;
	int r = key.is_process ? 0 : shfs_graph_jobs(g, key.id, &jobs);

	out->n = 0;
	of.jobs = jobs;
	r = r ? r : shfs_graph_accesses(g, key, add_graph_read, &of);
	if (r)
		return r;
	while ((size_t)1 << bits < 2 * out->n)
		bits++;
	slots = calloc((size_t)1 << bits, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	shfs_graph_sort_reads(out->list, out->n);
	drop_repeated_reads(out, slots, bits);
	return 0;
}
