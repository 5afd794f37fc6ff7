/* SPDX-License-Identifier: MIT */
/*
 * A file outside of all recorded directories joins two commands of one session:
 * "sort in > /tmp/x", then "head /tmp/x > top". Only their words tell of it: the first
 * command has the file as its output, or names it; the second names it, too. The reads of
 * the first are inputs of what the second makes. What was run again has the session in
 * which it was run before, too.
 *
 * The first is the nearest earlier command that left the file: it has the file as its
 * output, or names it where an output stands, or names it and ran when the file was
 * changed last. An earlier one does not count, as the file was overwritten since, unless
 * the nearest may only have appended to it. Two commands that only read the file, or that
 * append to the same log, are not joined. What the shell itself wrote is seen by no
 * process: the text of a redirection tells of it. What was copied with a directory is
 * found by copied.c; only the file of that name went into it.
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
#define RUNS_MAX      8        /* of one command, that are looked at */
#define DEPTH_MAX     8        /* files that one thing went through */
#define TICK_NS       10000000 /* times of files may be so much too early */
#define APPENDS_MAX   64       /* to one file, one after the other */
#define WALKS_MAX     5000     /* of one graph */
#define LEFT_MAX      100000   /* answers that one graph remembers */

/* The files outside that the processes of a command name. */
struct shfs_named {
	struct named_file {
		char *path;
		int64_t process_id, first_ns; /* of the process */
		enum outside_as as;
	} * list;
	size_t n, cap;
	/* while they are listed */
	struct shfs_graph *g;
	int64_t process_id, first_ns;
	size_t processes;
	bool of_one; /* maker: who names it does not matter */
};

static void named_clear(struct shfs_named *named)
{
	for (size_t i = 0; i < named->n; i++)
		free(named->list[i].path);
	free(named->list);
}

static void named_free(struct shfs_named *named)
{
	if (named)
		named_clear(named);
	free(named);
}

static void named_freep(struct shfs_named **named)
{
	named_free(*named);
}

static int add_named(const char *path, enum outside_as as, void *arg)
{
	struct shfs_named *named = arg;
	char *copy;

	for (size_t i = 0; i < named->n; i++)
		if (named->list[i].as == as && !strcmp(named->list[i].path, path) &&
		    (named->of_one || named->list[i].process_id == named->process_id)) {
			named->list[i].first_ns =
				MIN(named->list[i].first_ns, named->first_ns);
			return 0;
		}
	if (named->n == NAMES_MAX)
		return 0;
	copy = MAKE_ROOM(named->list, named->n, named->cap) ? strdup(path) : NULL;
	if (!copy)
		return -ENOMEM;
	named->list[named->n++] =
		(struct named_file){ copy, named->process_id, named->first_ns, as };
	return 0;
}

static int add_named_by_process(const struct shfs_process_fact *p, void *arg)
{
	struct shfs_named *named = arg;

	if (named->processes++ == PROCESSES_MAX)
		return 1;
	named->process_id = p->process_id;
	named->first_ns = p->first_ns;
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

/* The names of a maker, for the caller. */
static int named_by_maker(struct shfs_graph *g, struct maker_key key,
                          struct shfs_named **out)
{
	struct shfs_named *named = calloc(1, sizeof(*named));
	int r;

	*out = named;
	if (!named)
		return -ENOMEM;
	named->g = g;
	named->of_one = true;
	r = shfs_graph_processes(g, key, false, 0, add_named_by_process, named);
	return MIN(r, 0);
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
/* Those of an invoker have no numbers, but times. */
#define GIVEN(order, direction)                                                          \
	" UNION ALL SELECT command_id FROM (" OF_SESSION                                 \
	"o.process_id IS NOT NULL AND c.begin_ns " order " o.begin_ns"                   \
	" ORDER BY c.begin_ns " direction " LIMIT ?2)"
#define BEFORE                                                                           \
	"SELECT command_id FROM (" OF_SESSION                                            \
	"c.number < o.number AND c.number >= o.number - ?2"                              \
	" ORDER BY c.number DESC)" GIVEN("<", "DESC")
#define AFTER                                                                            \
	"SELECT command_id FROM (" OF_SESSION                                            \
	"c.number > o.number AND c.number <= o.number + ?2"                              \
	" ORDER BY c.number)" GIVEN(">", "")

/* The command that was run again without a terminal (shfs rerun), as it was run before.
 */
#define RUN_BEFORE                                                                       \
	"SELECT p.command_id FROM v_command o JOIN v_session s"                          \
	" ON s.session_id = o.session_id AND s.tty = '' AND s.invoker = ''"              \
	" JOIN v_command p"                                                              \
	" ON p.cwd = o.cwd AND p.text = o.text AND p.begin_ns < o.begin_ns"              \
	" WHERE o.command_id = ?1 AND NOT p.hidden ORDER BY p.begin_ns DESC LIMIT 1"

static int find_run_before(struct shfs_graph *g, int64_t command_id, int64_t *out)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open_ints(g->index, RUN_BEFORE, SHFS_INTS(command_id), &rows);

	if (!r)
		r = shfs_rows_next(rows);
	if (r > 0)
		*out = shfs_rows_int(rows, 0);
	return r;
}

/* --- what went into a maker --- */

struct passing {
	struct shfs_graph *g;
	shfs_passed_fn fn;
	void *arg;
	int depth;
	struct shfs_id_table seen; /* makers that were walked */
};

static int pass_into(struct passing *p, struct maker_key key);

static int pass_reads(const char *path, struct maker_key from, int64_t process_id,
                      const struct graph_read *only, void *arg)
{
	struct graph_reads reads = { 0 };
	struct passing *p = arg;
	int r;

	if (only)
		return p->fn(only, path, p->arg);
	r = shfs_graph_reads(p->g, from, BY_ANOTHER, &reads);
	for (size_t i = 0; i < reads.n && !r; i++)
		r = p->fn(&reads.list[i], path, p->arg);
	free(reads.list);
	return r ? r : pass_into(p, from);
}

/* When the file was changed last: 1; 0: it is gone. */
static int changed_ns(const char *path, int64_t *ns)
{
	struct stat st;

	if (lstat(path, &st))
		return 0;
	*ns = shfs_timespec_ns(st.st_mtim);
	return 1;
}

/* The time of a command's neighbour in its session. */
#define NEIGHBOUR(what)                                                                  \
	"SELECT " what " FROM v_command o JOIN v_command c"                              \
	" ON c.session_id = o.session_id WHERE o.command_id = ?1 AND c.begin_ns "
#define NEXT_BEGIN NEIGHBOUR("c.begin_ns") "> o.begin_ns ORDER BY c.begin_ns LIMIT 1"
#define LAST_END   NEIGHBOUR("c.end_ns") "< o.begin_ns ORDER BY c.begin_ns DESC LIMIT 1"

/* Of a command that a program gave, accesses alone are known: it may have begun once the
 * one before it had ended, and gone on until the next one began. */
static int widen_time(struct shfs_graph *g, const struct shfs_command_row *c,
                      const char *sql, int64_t usual_ns, int64_t *ns)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = *c->invoker ? shfs_rows_open_ints(g->index, sql, SHFS_INTS(c->command_id),
	                                          &rows)
	                    : 0;

	if (rows && !r)
		r = shfs_rows_next(rows);
	*ns = r > 0 ? shfs_rows_int(rows, 0) : usual_ns;
	return MIN(r, 0);
}

/* When it began at the earliest. */
static int find_begin(struct shfs_graph *g, const struct shfs_command_row *c, int64_t *ns)
{
	int r = widen_time(g, c, LAST_END, *c->invoker ? 0 : c->begin_ns, ns);

	*ns = MIN(*ns, c->begin_ns);
	return r;
}

/* When it had ended at the latest. */
static int find_end(struct shfs_graph *g, const struct shfs_command_row *c, int64_t *ns)
{
	int r = widen_time(g, c, NEXT_BEGIN, *c->invoker ? INT64_MAX : c->end_ns, ns);

	*ns = MAX(*ns, c->end_ns);
	return r;
}

int shfs_graph_has_left(struct shfs_graph *g, int64_t command_id, const char *path)
{
	struct command_node *c;
	int64_t ns, begin_ns, end_ns;
	int r = changed_ns(path, &ns) ? shfs_graph_command(g, command_id, &c) : 0;

	if (r <= 0 || !c->entry.command.ended)
		return MIN(r, 0);
	r = find_begin(g, &c->entry.command, &begin_ns);
	if (!r)
		r = find_end(g, &c->entry.command, &end_ns);
	return r ? r : ns >= begin_ns && ns <= end_ns;
}

/* Was the file changed last between the two commands, by something that was not seen? */
static int has_changed_between(struct shfs_graph *g, int64_t first_id, int64_t second_id,
                               const char *path)
{
	struct command_node *first, *second;
	int64_t ns, end_ns, begin_ns;
	struct stat st;
	/* what comes into a directory changes that, too */
	int r = changed_ns(path, &ns) && (lstat(path, &st) || !S_ISDIR(st.st_mode))
	                ? shfs_graph_command(g, first_id, &first)
	                : 0;

	if (r > 0)
		r = shfs_graph_command(g, second_id, &second);
	if (r <= 0 || !first->entry.command.ended)
		return MIN(r, 0);
	r = find_end(g, &first->entry.command, &end_ns);
	if (!r)
		r = find_begin(g, &second->entry.command, &begin_ns);
	return r ? r : ns > end_ns && ns < begin_ns - TICK_NS;
}

/* Did the command run when the file was changed last, as far as its accesses tell? */
static int ran_at_change(struct shfs_graph *g, int64_t command_id, const char *path)
{
	struct command_node *c;
	int64_t ns;
	int r = changed_ns(path, &ns) ? shfs_graph_command(g, command_id, &c) : 0;

	return r > 0 ? shfs_command_ran_at(&c->entry.command, ns) : r;
}

/* Gets the name by which the command left the file: 1; 0: it did not. */
static int find_left(struct shfs_graph *g, int64_t command_id, const char *path,
                     const struct named_file **out)
{
	const struct shfs_named *named;
	int r = named_by_command(g, command_id, &named);

	*out = NULL;
	for (size_t i = 0; i < (r ? 0 : named->n); i++) {
		const struct named_file *f = &named->list[i];

		if (f->as != OUTSIDE_INTO && !strcmp(f->path, path) &&
		    (!*out || f->as > (*out)->as))
			*out = f;
	}
	if (r || !*out)
		return r;
	return (*out)->as != OUTSIDE_NAMED || ran_at_change(g, command_id, path);
}

/* The commands before one in its session, and before it when it was run earlier. */
struct before {
	int64_t command_id, list[COMMANDS_MAX];
	size_t n;
};

static int load_before(struct shfs_graph *g, int64_t command_id, struct before *b)
{
	b->command_id = command_id;
	return list_commands(g, command_id, BEFORE, b->list, &b->n);
}

struct leaver {
	int64_t command_id;
	int64_t process_id; /* that named the file; 0: only the text tells of it */
	/* whether the command kept what the file held before */
	enum keeps { KEEPS_NOTHING, MAY_KEEP, KEEPS } keeps;
	bool copied; /* into a directory: */
	struct graph_read read;
};

/* May the command have left out a part of its text? */
static bool may_leave_out(const struct shfs_command_row *c)
{
	static const char *const words[] = { "&&", "||", "if ", "case " };

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (strstr(c->text, words[i]))
			return true;
	return !c->has_status || c->status;
}

/* May a command that has the file as its output have kept what it held before? */
static enum keeps may_keep(const struct shfs_command_row *c, enum outside_as as,
                           enum word_role roles)
{
	static const char *const hints[] = { "tee -a", "append", "notrunc" };

	if (c->hidden || !c->text)
		return KEEPS_NOTHING; /* as far as it is known */
	if (as == OUTSIDE_NAMED)
		return roles & WORD_APPENDED ? KEEPS : KEEPS_NOTHING;
	if (as == OUTSIDE_STREAM_OUT)
		return roles & (WORD_APPENDED | WORD_MAY_APPEND) ? KEEPS
		       : strchr(c->text, '>')                    ? KEEPS_NOTHING
		                                                 : MAY_KEEP;
	for (size_t i = 0; i < ARRAY_SIZE(hints); i++)
		if (strstr(c->text, hints[i]))
			return KEEPS;
	return c->status ? MAY_KEEP : KEEPS_NOTHING; /* cp and the like may have failed */
}

/* Has the command copied the file there, with a directory? */
static int has_copied(struct shfs_graph *g, int64_t command_id, const char *path,
                      struct leaver *out)
{
	const struct shfs_named *named;
	int r = named_by_command(g, command_id, &named);

	for (size_t i = 0; i < (r ? 0 : named->n) && !r; i++) {
		const struct named_file *f = &named->list[i];

		if (f->as == OUTSIDE_INTO)
			r = shfs_graph_copied_to(g, f->process_id, f->path, path,
			                         &out->read);
		if (r > 0)
			out->process_id = f->process_id;
	}
	out->copied = r > 0;
	out->keeps = KEEPS_NOTHING;
	return r;
}

static int look_for_leaver(struct shfs_graph *g, int64_t command_id, const char *path,
                           struct leaver *out)
{
	const struct named_file *file;
	enum word_role roles = 0;
	struct command_node *c;
	int left = find_left(g, command_id, path, &file);
	int r = left < 0 ? left : shfs_graph_command(g, command_id, &c);

	if (r > 0)
		r = shfs_graph_text_names(&c->entry.command, path, &roles) ?: 1;
	if (r <= 0)
		return r;
	*out = (struct leaver){ .command_id = command_id };
	if (left) {
		out->process_id = file->process_id;
		out->keeps = may_keep(&c->entry.command, file->as, roles);
		return 1;
	}
	out->keeps =
		roles & WORD_WRITTEN
			? (may_leave_out(&c->entry.command) ? MAY_KEEP : KEEPS_NOTHING)
		: roles & WORD_APPENDED ? KEEPS
					: MAY_KEEP;
	/* a process that only named the file is taken for a reader */
	if (roles & (WORD_WRITTEN | WORD_APPENDED | (file ? WORD_CHANGED : WORD_OTHER)))
		return 1;
	return has_copied(g, command_id, path, out);
}

/* Whether a command left a file, as it was found once: many ask about the same ones. */
struct shfs_left {
	int is_left;
	struct leaver leaver;
	UT_hash_handle hh;
	struct {
		int64_t command_id;
		char path[];
	} key;
};

static int note_leaver(struct shfs_graph *g, const struct leaver *leaver, int is_left,
                       const void *key, size_t key_len)
{
	struct shfs_left *left = malloc(sizeof(*left) + key_len);

	if (!left)
		return -ENOMEM;
	left->is_left = is_left;
	left->leaver = *leaver;
	memcpy(&left->key, key, key_len);
	HASH_ADD_KEYPTR(hh, g->left, &left->key, key_len, left);
	if (left->hh.tbl)
		return is_left;
	free(left);
	return -ENOMEM;
}

/* Did the command leave the file? 1 and *out, or 0. */
static int is_leaver(struct shfs_graph *g, int64_t command_id, const char *path,
                     struct leaver *out)
{
	_cleanup_buf_ struct shfs_buf key = { 0 };
	struct shfs_left *left;
	int r;

	shfs_buf_add(&key, &command_id, sizeof(command_id));
	shfs_buf_str(&key, path);
	if (key.failed)
		return -ENOMEM;
	HASH_FIND(hh, g->left, key.data, key.len, left);
	if (left) {
		*out = left->leaver;
		return left->is_left;
	}
	*out = (struct leaver){ 0 };
	r = look_for_leaver(g, command_id, path, out);
	return r < 0 || HASH_COUNT(g->left) >= LEFT_MAX
	               ? r
	               : note_leaver(g, out, r, key.data, key.len);
}

void shfs_graph_passed_free(struct shfs_graph *g)
{
	struct shfs_id_table *t = &g->named;
	struct shfs_left *left, *next;

	for (size_t i = 0; t->bits && i < (size_t)1 << t->bits; i++)
		named_free(t->slots[i].value);
	free(t->slots);
	HASH_ITER (hh, g->left, left, next) {
		HASH_DEL(g->left, left);
		free(left);
	}
}

/* Finds the last of these commands that left the file: 1; 0: none did, or it was changed
 * since. */
static int find_leaver_in(struct shfs_graph *g, const struct before *b, const char *path,
                          struct leaver *out)
{
	int r = 0;

	for (size_t i = 0; i < b->n && !r; i++) {
		r = is_leaver(g, b->list[i], path, out);
		if (r <= 0)
			continue;
		r = has_changed_between(g, b->list[i], b->command_id, path);
		return r < 0 ? r : !r;
	}
	return r;
}

/* As above, also of the sessions in which the command was run before. */
static int find_leaver(struct shfs_graph *g, const struct before *b, const char *path,
                       struct leaver *out)
{
	struct before earlier = { .command_id = b->command_id };
	int64_t id;
	int r = find_leaver_in(g, b, path, out);

	for (int n = 0; !r && n < RUNS_MAX; n++) {
		r = find_run_before(g, earlier.command_id, &id);
		if (r > 0)
			r = load_before(g, id, &earlier);
		else
			return r;
		if (!r)
			r = find_leaver_in(g, &earlier, path, out);
	}
	return r;
}

/* Calls fn for those that left what the file held: the last one that wrote it anew, and
 * all that may have changed it since, the last first. path NULL: what it held before they
 * appended to it is not known. */
typedef int (*leaver_fn)(const char *path, const struct leaver *leaver, void *arg);
static int each_leaver(struct shfs_graph *g, const struct before *b, const char *path,
                       leaver_fn fn, void *arg)
{
	struct leaver last = { .keeps = MAY_KEEP };
	struct before at = *b;
	int r = 0;

	for (int n = 0; n < APPENDS_MAX && last.keeps && !r; n++) {
		struct leaver leaver;

		r = find_leaver(g, &at, path, &leaver);
		if (!r)
			return last.keeps == KEEPS ? fn(NULL, &last, arg) : 0;
		if (r < 0)
			break;
		last = leaver;
		r = fn(path, &last, arg) ?: load_before(g, last.command_id, &at);
	}
	return r;
}

struct first_word {
	const char *path;
	bool is_written;
};

static int compare_first(const char *path, enum word_role role, void *arg)
{
	struct first_word *first = arg;

	first->is_written = role == WORD_WRITTEN;
	return !strcmp(path, first->path);
}

/* Does the text name the file first where it is written anew? */
static int is_written_first(struct shfs_graph *g, int64_t command_id, const char *path)
{
	struct first_word first = { .path = path };
	struct command_node *c;
	int r = shfs_graph_command(g, command_id, &c);

	if (r > 0)
		r = shfs_graph_words(&c->entry.command, compare_first, &first);
	return r > 0 ? first.is_written : r;
}

/* Has an earlier process of the command written the file anew? */
static int has_own(struct shfs_graph *g, int64_t command_id,
                   const struct named_file *file)
{
	const struct shfs_named *named;
	enum word_role roles = 0;
	struct command_node *c;
	int r = named_by_command(g, command_id, &named);

	for (size_t i = 0; i < (r ? 0 : named->n) && !r; i++) {
		const struct named_file *f = &named->list[i];

		if (f->as <= OUTSIDE_NAMED || f->first_ns >= file->first_ns ||
		    strcmp(f->path, file->path) != 0)
			continue;
		r = shfs_graph_command(g, command_id, &c);
		if (r > 0)
			r = shfs_graph_text_names(&c->entry.command, f->path, &roles);
		r = r ? r : may_keep(&c->entry.command, f->as, roles) == KEEPS_NOTHING;
	}
	return r ? r : is_written_first(g, command_id, file->path);
}

/* Calls fn for the files that the maker may have taken from an earlier command. */
typedef int (*take_fn)(struct shfs_graph *g, const struct before *before,
                       const char *path, void *arg);
static int each_taken(struct shfs_graph *g, struct maker_key key, take_fn fn, void *arg)
{
	_cleanup_(named_freep) struct shfs_named *named = NULL;
	struct before before;
	int r = key.is_process ? 0 : named_by_maker(g, key, &named);

	if (r || !named || !named->n)
		return r;
	r = load_before(g, key.id, &before);
	for (size_t i = 0; i < named->n && !r; i++) {
		if (named->list[i].as != OUTSIDE_NAMED)
			continue;
		r = has_own(g, key.id, &named->list[i]);
		r = r ? MIN(r, 0) : fn(g, &before, named->list[i].path, arg);
	}
	return r;
}

/* Notes that the maker is walked: 1; 0: it was. */
static int note_walk(struct passing *p, struct maker_key key)
{
	int64_t id = key.job ? key.job : key.id | INT64_C(1) << 62;
	static char mark;

	if (p->depth == DEPTH_MAX || p->g->n_walks == WALKS_MAX ||
	    shfs_id_table_get(&p->seen, id))
		return 0;
	p->g->n_walks++;
	return shfs_id_table_add(&p->seen, id, &mark) ?: 1;
}

static int pass_into(struct passing *p, struct maker_key key)
{
	int r = key.is_process ? 0 : note_walk(p, key);

	if (r <= 0)
		return r;
	p->depth++;
	r = shfs_graph_taken(p->g, key, pass_reads, p);
	p->depth--;
	return r;
}

int shfs_graph_passed(struct shfs_graph *g, struct maker_key key, shfs_passed_fn fn,
                      void *arg)
{
	struct passing p = { .g = g, .fn = fn, .arg = arg };
	int r = pass_into(&p, key);

	free(p.seen.slots);
	return r;
}

struct taking {
	struct shfs_graph *g;
	shfs_taken_fn fn;
	void *arg;
};

static int take_from_leaver(const char *path, const struct leaver *leaver, void *arg)
{
	const struct taking *t = arg;
	struct graph_jobs *jobs;
	struct maker_key by;
	int r;

	if (!path || !leaver->process_id) /* it has read nothing that is known */
		return 0;
	r = shfs_graph_jobs(t->g, leaver->command_id, &jobs);
	if (r)
		return r;
	by = (struct maker_key){ leaver->command_id, 0,
		                 shfs_graph_job_of(jobs, leaver->process_id) };
	return t->fn(path, by, leaver->process_id, leaver->copied ? &leaver->read : NULL,
	             t->arg);
}

static int take(struct shfs_graph *g, const struct before *before, const char *path,
                void *arg)
{
	return each_leaver(g, before, path, take_from_leaver, arg);
}

int shfs_graph_taken(struct shfs_graph *g, struct maker_key key, shfs_taken_fn fn,
                     void *arg)
{
	struct taking t = { g, fn, arg };

	return each_taken(g, key, take, &t);
}

/* --- for exports: also as far as only the text tells --- */

struct finding {
	struct shfs_graph *g;
	struct before before;
	const struct shfs_named *named; /* by the command */
	struct shfs_named own;          /* written by it, as its text tells so far */
	const char *path;
	shfs_program_fn used;
	shfs_left_fn left;
	void *arg;
	bool any;
};

static int find_one(const char *path, const struct leaver *leaver, void *arg)
{
	struct finding *f = arg;

	f->any = true;
	return f->left(f->path, path ? leaver->command_id : 0, f->arg);
}

static int find_left_before(struct shfs_graph *g, const struct before *before,
                            const char *path, void *arg)
{
	struct finding *f = arg;
	struct leaver leaver;
	int r;

	f->path = path;
	f->any = false;
	r = f->used(path, f->arg) ?: each_leaver(g, before, path, find_one, f);
	if (r || f->any)
		return r;
	/* somebody did, and it was changed since; or it has appended to it itself */
	for (size_t i = 0; i < before->n && !r; i++) {
		r = is_leaver(g, before->list[i], path, &leaver);
		if (r > 0) /* and not only perhaps */
			r = leaver.process_id || leaver.keeps != MAY_KEEP;
	}
	if (!r && (r = is_leaver(g, before->command_id, path, &leaver)) > 0)
		r = leaver.keeps == KEEPS;
	return r > 0 ? f->left(path, 0, f->arg) : r;
}

static bool has_name(const struct shfs_named *named, const char *path)
{
	for (size_t i = 0; i < named->n; i++)
		if (!strcmp(named->list[i].path, path))
			return true;
	return false;
}

static int is_word_outside(struct shfs_graph *g, const char *path)
{
	return *path != '/' || shfs_path_is_system(path) ? 0
	                                                 : shfs_graph_is_outside(g, path);
}

static int find_word(const char *path, enum word_role role, void *arg)
{
	struct finding *f = arg;
	int r = is_word_outside(f->g, path);

	if (r <= 0 || has_name(f->named, path) || has_name(&f->own, path))
		return MIN(r, 0);
	if (role == WORD_WRITTEN)
		return add_named(path, OUTSIDE_STREAM_OUT, &f->own);
	return role & WORD_OTHER ? find_left_before(f->g, &f->before, path, f) : 0;
}

int shfs_graph_left_before(struct shfs_graph *g, const struct shfs_graph_maker *maker,
                           shfs_program_fn used, shfs_left_fn left, void *arg)
{
	const struct shfs_command_row *c = &maker->entry.command;
	struct finding f = { .g = g, .used = used, .left = left, .arg = arg };
	int r = each_taken(g, container_of(maker, struct maker_node, m)->key,
	                   find_left_before, &f);

	if (r || maker->entry.is_process)
		return r;
	r = named_by_command(g, c->command_id, &f.named)
	            ?: load_before(g, c->command_id, &f.before)
	            ?: shfs_graph_words(c, find_word, &f);
	named_clear(&f.own);
	return r;
}

/* Is it a directory that is there anyway? */
static bool is_given_directory(const char *dir)
{
	const char *const given[] = { "/tmp", "/var/tmp", "/dev/shm", getenv("TMPDIR"),
		                      getenv("HOME") };

	for (size_t i = 0; i < ARRAY_SIZE(given); i++)
		if (given[i] && !strcmp(dir, given[i]))
			return true;
	return shfs_path_is_system(dir);
}

static int find_directory_left(struct finding *f, const struct shfs_command_row *c,
                               const char *dir)
{
	enum word_role own = 0;
	int r = shfs_graph_text_names(c, dir, &own);

	f->path = dir;
	return r || own ? r : each_leaver(f->g, &f->before, dir, find_one, f);
}

int shfs_graph_directories_left(struct shfs_graph *g, const struct shfs_command_row *c,
                                const char *path, shfs_left_fn left, void *arg)
{
	struct finding f = { .g = g, .left = left, .arg = arg };
	_cleanup_free_ char *dir = strdup(path);
	int r = dir ? load_before(g, c->command_id, &f.before) : -ENOMEM;

	for (char *slash; !r && (slash = strrchr(dir, '/')) && slash != dir;) {
		*slash = 0;
		if (is_given_directory(dir))
			break;
		r = find_directory_left(&f, c, dir);
	}
	return r;
}

struct leaving {
	struct shfs_graph *g;
	shfs_program_fn fn;
	void *arg;
};

/* Is there, or could there be, a file of that name? Else it is a word of another kind:
 * "s/old/new/". */
static bool is_file_name(const char *path)
{
	_cleanup_free_ char *dir = strndup(path, strrchr(path, '/') + 1 - path);
	struct stat st;

	return (lstat(path, &st) || !S_ISDIR(st.st_mode)) && dir && !stat(dir, &st);
}

static int leave_word(const char *path, enum word_role role, void *arg)
{
	const struct leaving *l = arg;
	int r = role == WORD_OTHER ? 0 : is_word_outside(l->g, path);

	return r > 0 && is_file_name(path) ? l->fn(path, l->arg) : MIN(r, 0);
}

int shfs_graph_leaves(struct shfs_graph *g, const struct shfs_command_row *c,
                      shfs_program_fn fn, void *arg)
{
	struct leaving l = { g, fn, arg };
	const struct shfs_named *named;
	int r = named_by_command(g, c->command_id, &named);

	for (size_t i = 0; i < (r ? 0 : named->n) && !r; i++) {
		const struct named_file *f = &named->list[i];

		/* else the shell itself may have had it from the beginning */
		if (f->as == OUTSIDE_WORD_OUT || f->as == OUTSIDE_INTO ||
		    (f->as == OUTSIDE_STREAM_OUT && c->text && strchr(c->text, '>')))
			r = fn(f->path, arg);
	}
	return r ? r : shfs_graph_words(c, leave_word, &l);
}

/* --- who took it --- */

static int name_all(struct shfs_graph *g, int64_t command_id,
                    const struct shfs_named *left, shfs_key_fn fn, void *arg)
{
	struct maker_key key, last = { 0 };
	const struct shfs_named *named;
	struct graph_jobs *jobs;
	int r = named_by_command(g, command_id, &named);

	r = r ? r : named->n ? shfs_graph_jobs(g, command_id, &jobs) : 0;
	for (size_t i = 0; i < (r ? 0 : named->n) && !r; i++) {
		const struct named_file *f = &named->list[i];
		bool is_left = false;

		for (size_t k = 0; k < left->n && !is_left; k++)
			is_left =
				left->list[k].as == OUTSIDE_INTO
					? shfs_path_is_below(f->path, left->list[k].path)
					: !strcmp(left->list[k].path, f->path);
		key = (struct maker_key){ command_id, 0,
			                  is_left ? shfs_graph_job_of(jobs, f->process_id)
			                          : 0 };
		if (!is_left || f->as != OUTSIDE_NAMED ||
		    (last.id && maker_key_equal(&key, &last)))
			continue;
		last = key;
		r = fn(key, arg);
	}
	return r;
}

int shfs_graph_takers(struct shfs_graph *g, struct maker_key key, shfs_key_fn fn,
                      void *arg)
{
	_cleanup_(named_freep) struct shfs_named *left = NULL;
	int64_t after[COMMANDS_MAX];
	size_t n = 0;
	int r = key.is_process ? 0 : named_by_maker(g, key, &left);

	if (r || !left || !left->n)
		return r;
	r = list_commands(g, key.id, AFTER, after, &n);
	for (size_t i = 0; i < n && !r; i++)
		r = name_all(g, after[i], left, fn, arg);
	return r;
}
