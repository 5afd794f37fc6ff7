/* SPDX-License-Identifier: MIT */
/*
 * What one command left for a later one of the same session in a file outside of all
 * recorded directories: "sort in > /tmp/x", then "head /tmp/x > top". Only their words
 * tell of it: the first has the file as its output, or names it; the second names it,
 * too. What the first one read went into what the second one makes.
 *
 * Looked for is the nearest earlier command that has the file as its output, or that
 * names it, has made nothing that is recorded, and may have written it: the file has
 * changed since, or it was a temporary one and is gone. So nothing goes from one to the
 * other of those that read the same file. One that may have written it and has made
 * something as well counts if there is no other.
 */
#include "query/graph/internal.h"

#include "common/clock.h"
#include "common/path.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#define COMMANDS_MAX  64  /* that are looked at, before and after a command */
#define PROCESSES_MAX 200 /* of one of them */
#define NAMES_MAX     500
#define DEPTH_MAX     8 /* files that one thing went through */

/* The files outside that the processes of a command name. */
struct shfs_named {
	struct named_file {
		char *path;
		int64_t process_id;
		bool is_output;
	} * list;
	size_t n, cap;
	/* while they are listed */
	struct shfs_graph *g;
	int64_t process_id;
	size_t processes;
};

static void named_free(struct shfs_named *named)
{
	for (size_t i = 0; named && i < named->n; i++)
		free(named->list[i].path);
	free(named ? named->list : NULL);
	free(named);
}

static void named_freep(struct shfs_named **named)
{
	named_free(*named);
}

void shfs_graph_passed_free(struct shfs_graph *g)
{
	struct shfs_id_table *t = &g->named;

	for (size_t i = 0; t->bits && i < (size_t)1 << t->bits; i++)
		named_free(t->slots[i].value);
	free(t->slots);
}

static int add_named(const char *path, bool is_output, void *arg)
{
	struct shfs_named *named = arg;
	char *copy;

	if (named->n == NAMES_MAX)
		return 0;
	copy = MAKE_ROOM(named->list, named->n, named->cap) ? strdup(path) : NULL;
	if (!copy)
		return -ENOMEM;
	named->list[named->n++] =
		(struct named_file){ copy, named->process_id, is_output };
	return 0;
}

static int add_named_by_process(const struct shfs_process_fact *p, void *arg)
{
	struct shfs_named *named = arg;

	if (named->processes++ == PROCESSES_MAX)
		return 1;
	named->process_id = p->process_id;
	return shfs_graph_named(named->g, p, false, add_named, named);
}

/* The names of a command; the graph owns them. */
static int named_by_command(struct shfs_graph *g, int64_t command_id,
                            const struct shfs_named **out)
{
	struct shfs_named *named = shfs_id_table_get(&g->named, command_id);
	int r = 0;

	if (!named) {
		named = calloc(1, sizeof(*named));
		if (!named)
			return -ENOMEM;
		named->g = g;
		r = shfs_facts_processes(g->facts, command_id, add_named_by_process,
		                         named);
		r = r < 0 ? r : shfs_id_table_add(&g->named, command_id, named);
		if (r) {
			named_free(named);
			return r;
		}
	}
	*out = named;
	return 0;
}

/* --- the commands before and after --- */

static int list_commands(struct shfs_graph *g, int64_t command_id, const char *sql,
                         int64_t list[static COMMANDS_MAX], size_t *n)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open_ints(g->index, sql, SHFS_INTS(command_id, COMMANDS_MAX),
	                            &rows);

	*n = 0;
	while (!r && *n < COMMANDS_MAX && (r = shfs_rows_next(rows)) > 0) {
		list[(*n)++] = shfs_rows_int(rows, 0);
		r = 0;
	}
	return MIN(r, 0);
}

#define OF_SESSION                                                                       \
	"SELECT c.command_id FROM v_command o JOIN v_command c"                          \
	" ON c.session_id = o.session_id WHERE o.command_id = ?1 AND "
#define BEFORE                                                                           \
	OF_SESSION "c.number < o.number AND c.number >= o.number - ?2"                   \
		   " ORDER BY c.number DESC"
#define AFTER                                                                            \
	OF_SESSION "c.number > o.number AND c.number <= o.number + ?2 ORDER BY c.number"

/* --- what went into a maker --- */

struct passing {
	struct shfs_graph *g;
	shfs_passed_fn fn;
	void *arg;
	int depth;
};

static int look_for_made(const struct shfs_access *a, void *arg)
{
	return a->made_n != 0;
}

/* Passes on what went into the maker that left the file: 1; 0: nothing did. */
static int pass_reads(struct passing *p, struct maker_key from, const char *path);

static int pass_from_command(struct passing *p, int64_t command_id,
                             const struct named_file *file, const char *path)
{
	struct maker_key from = { .id = command_id };
	struct graph_jobs *jobs;
	int r = shfs_graph_jobs(p->g, command_id, &jobs);

	if (r)
		return r;
	from.job = shfs_graph_job_of(jobs, file->process_id);
	return pass_reads(p, from, path);
}

static bool is_temporary(const char *path)
{
	static const char *const directories[] = { "/tmp", "/var/tmp", "/dev/shm" };

	for (size_t i = 0; i < ARRAY_SIZE(directories); i++)
		if (shfs_path_is_below(path, directories[i]))
			return true;
	return false;
}

/* May a command that names the file have written it? */
static int may_have_written(struct shfs_graph *g, int64_t command_id, const char *path)
{
	struct command_node *c;
	struct stat st;
	int r;

	if (lstat(path, &st))
		return is_temporary(path);
	r = shfs_graph_command(g, command_id, &c);
	return r > 0 ? shfs_timespec_ns(st.st_mtim) >= c->entry.command.begin_ns : r;
}

/* 1: it left the file; 2: it may have read it; 0: it does not name it, or has not written
 * it. */
static int find_in_command(struct passing *p, int64_t command_id, const char *path,
                           const struct named_file **out)
{
	const struct shfs_named *named;
	int r = named_by_command(p->g, command_id, &named);

	*out = NULL;
	for (size_t i = 0; i < (r ? 0 : named->n); i++) {
		const struct named_file *f = &named->list[i];

		if (!strcmp(f->path, path) && (!*out || f->is_output))
			*out = f;
	}
	if (r || !*out)
		return r;
	if ((*out)->is_output)
		return 1;
	r = may_have_written(p->g, command_id, path);
	if (r <= 0)
		return r;
	r = shfs_graph_accesses(p->g, (struct maker_key){ .id = command_id },
	                        look_for_made, NULL);
	return r < 0 ? r : 1 + r;
}

static int pass_by_name(struct passing *p, const int64_t *before, size_t n,
                        const char *path)
{
	const struct named_file *file, *other = NULL;
	int64_t other_id = 0;
	int r = 0;

	for (size_t i = 0; i < n && !r; i++) {
		r = find_in_command(p, before[i], path, &file);
		if (r == 2 && !other) {
			other = file;
			other_id = before[i];
		}
		r = r == 1 ? pass_from_command(p, before[i], file, path) : MIN(r, 0);
	}
	return r || !other ? r : pass_from_command(p, other_id, other, path);
}

static int pass_into(struct passing *p, struct maker_key key)
{
	_cleanup_(named_freep) struct shfs_named *named = calloc(1, sizeof(*named));
	int64_t before[COMMANDS_MAX];
	size_t n = 0;
	int passed = 0, r = named ? 0 : -ENOMEM;

	if (r || key.is_process || p->depth == DEPTH_MAX)
		return r;
	named->g = p->g;
	r = shfs_graph_processes(p->g, key, 0, add_named_by_process, named);
	if (r < 0 || !named->n)
		return MIN(r, 0);
	r = list_commands(p->g, key.id, BEFORE, before, &n);
	p->depth++;
	for (size_t i = 0; i < named->n && r >= 0; i++) {
		r = named->list[i].is_output
		            ? 0
		            : pass_by_name(p, before, n, named->list[i].path);
		passed |= r;
	}
	p->depth--;
	return r < 0 ? r : passed;
}

static int pass_reads(struct passing *p, struct maker_key from, const char *path)
{
	struct graph_reads reads = { 0 };
	int r = shfs_graph_reads(p->g, from, BY_ANOTHER, &reads), more;

	for (size_t i = 0; i < reads.n && !r; i++)
		r = p->fn(&reads.list[i], path, p->arg);
	more = r ? r : pass_into(p, from);
	r = more < 0 ? more : more || reads.n;
	free(reads.list);
	return r;
}

int shfs_graph_passed(struct shfs_graph *g, struct maker_key key, shfs_passed_fn fn,
                      void *arg)
{
	struct passing p = { .g = g, .fn = fn, .arg = arg };

	return MIN(pass_into(&p, key), 0);
}

/* --- who took it --- */

static int name_all(struct shfs_graph *g, int64_t command_id,
                    const struct shfs_named *left, shfs_key_fn fn, void *arg)
{
	const struct shfs_named *named;
	struct graph_jobs *jobs;
	int r = named_by_command(g, command_id, &named);

	r = r ? r : named->n ? shfs_graph_jobs(g, command_id, &jobs) : 0;
	for (size_t i = 0; i < (r ? 0 : named->n) && !r; i++) {
		const struct named_file *f = &named->list[i];
		bool is_left = false;

		for (size_t k = 0; k < left->n && !is_left; k++)
			is_left = !strcmp(left->list[k].path, f->path);
		if (is_left && !f->is_output)
			r = fn((struct maker_key){ command_id, 0,
			                           shfs_graph_job_of(jobs,
			                                             f->process_id) },
			       arg);
	}
	return r;
}

int shfs_graph_takers(struct shfs_graph *g, struct maker_key key, shfs_key_fn fn,
                      void *arg)
{
	_cleanup_(named_freep) struct shfs_named *left = calloc(1, sizeof(*left));
	int64_t after[COMMANDS_MAX];
	size_t n = 0;
	int r = left ? 0 : -ENOMEM;

	if (r || key.is_process)
		return r;
	left->g = g;
	r = shfs_graph_processes(g, key, 0, add_named_by_process, left);
	r = r < 0 ? r : left->n ? list_commands(g, key.id, AFTER, after, &n) : 0;
	for (size_t i = 0; i < n && !r; i++)
		r = name_all(g, after[i], left, fn, arg);
	return r;
}
