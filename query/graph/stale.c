/* SPDX-License-Identifier: MIT */
#include "query/graph/stale-internal.h"

#include "common/clock.h"
#include "common/program.h"
#include "query/history/shell-text.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

/* Commands of build tools that read the latest version of a file and ended well. */
struct told {
	const struct shfs_command_row **list; /* sorted */
	size_t n, cap;
};

/* A file outside that one run left and another one took. */
struct taken_file {
	struct shfs_stale_file f;
	struct taken_file *next;
};

static void free_told(struct file_node *f)
{
	if (f->told)
		free(f->told->list);
	free(f->told);
}

void shfs_stale_free(struct shfs_stale *s)
{
	struct run_node *r, *next_r;

	if (!s)
		return;
	shfs_stale_files_free(s, free_told);
	while (s->taken) {
		struct taken_file *taken = s->taken;

		s->taken = taken->next;
		free(taken->f.path);
		free(taken);
	}
	HASH_ITER (hh, s->runs, r, next_r) {
		HASH_DEL(s->runs, r);
		free(r->r.inputs);
		free(r);
	}
	shfs_graph_free(s->graph);
	free(s);
}

/* --- files and runs --- */

/* 1 and *out; 0: there is no such command. */
static int get_run(struct shfs_stale *s, int64_t command_id, int64_t process_id,
                   struct run_node **out)
{
	struct maker_key key = { .id = command_id };
	struct command_node *c;
	struct graph_jobs *jobs;
	struct run_node *run;
	int r = shfs_graph_jobs(s->graph, command_id, &jobs);

	if (r < 0)
		return r;
	key.job = shfs_graph_job_of(jobs, process_id);
	HASH_FIND(hh, s->runs, &key, sizeof(key), run);
	if (!run) {
		r = shfs_graph_command(s->graph, command_id, &c);
		if (r <= 0)
			return r;
		run = calloc(1, sizeof(*run));
		if (!run)
			return -ENOMEM;
		run->r.entry = &c->entry;
		run->key = key;
		run->jobs = jobs;
		run->until_ns = INT64_MIN;
		HASH_ADD(hh, s->runs, key, sizeof(key), run);
		if (!run->hh.tbl) {
			free(run);
			return -ENOMEM;
		}
	}
	*out = run;
	return 1;
}

struct writer {
	int64_t command_id, process_id, end_ns;
};

/* Moves of one content by one command that are followed. */
#define MOVES_MAX 16

/* Did the move only bring back what had been moved away from that path? */
static int is_moved_back(struct shfs_stale *s, const struct shfs_access *a,
                         int64_t version_id)
{
	struct shfs_version_fact f;
	int r = shfs_facts_version(s->graph->facts, a->file_id << 32 | a->seen_n, &f);

	for (int moves = 0;
	     r > 0 && moves < MOVES_MAX && f.origin_version_id && !f.again &&
	     (f.carried || f.source == SHFS_SOURCE_RENAMED ||
	      f.source == SHFS_SOURCE_LINKED);
	     moves++) {
		if (f.origin_version_id == version_id)
			return 1;
		r = shfs_facts_version(s->graph->facts, f.origin_version_id, &f);
	}
	return MIN(r, 0);
}

/* Finds a writer of the same content, or a move to its path, later than w. A command that
 * moves what it has made to its place (cmd > tmp && mv tmp file) has made it by the
 * process that wrote it. */
static int later_writer(struct shfs_stale *s, bool moved,
                        const struct shfs_version_fact *v, struct writer *w)
{
	struct shfs_facts *facts = s->graph->facts;
	struct writer later;
	struct shfs_access a;
	int r = shfs_facts_last_made(facts, v->version_id, moved, &a);

	if (r <= 0 || shfs_access_end_ns(&a) <= w->end_ns)
		return MIN(r, 0);
	r = moved ? is_moved_back(s, &a, v->version_id) : 0;
	if (r)
		return MIN(r, 0);
	later = (struct writer){ .process_id = a.access_id >> 32,
		                 .end_ns = shfs_access_end_ns(&a) };
	r = shfs_facts_owner(facts, a.access_id, &later.command_id);
	if (moved && later.command_id && later.command_id == w->command_id)
		later.process_id = w->process_id;
	*w = later;
	return MIN(r, 0);
}

/* Did the command make all of it, not only append to it or change it? */
static int is_made_anew(struct shfs_stale *s, const struct shfs_version_fact *v)
{
	struct shfs_facts *facts = s->graph->facts;
	struct shfs_version_fact f = *v;

	while (v->n > 1) {
		struct shfs_access a = { 0 };
		int r = shfs_facts_access(facts, f.access_id, &a);

		if (r < 0 || f.n == 1 || f.source != SHFS_SOURCE_WRITTEN ||
		    a.flags & SHFS_WRITTEN_ANEW)
			return r < 0 ? r : 1;
		r = shfs_facts_version(facts, f.version_id - 1, &f);
		if (r <= 0 || f.command_id != v->command_id)
			return MIN(r, 0);
	}
	return 1;
}

/* Goes from a version that a command moved to its place to the one that the same command
 * wrote. */
static int find_written(struct shfs_stale *s, const struct shfs_version_fact *v,
                        struct writer *w)
{
	struct shfs_version_fact f = *v;
	int r = 1;

	for (int moves = 0; r > 0 && moves < MOVES_MAX &&
	                    f.source == SHFS_SOURCE_RENAMED && f.origin_version_id;
	     moves++) {
		r = shfs_facts_version(s->graph->facts, f.origin_version_id, &f);
		if (r > 0 && f.command_id != v->command_id)
			return 0;
	}
	if (r > 0)
		w->process_id = f.process_id;
	return MIN(r, 0);
}

/* 1 and *w; 0: no command made it (but maybe a process did), or not all of it. */
static int find_version_writer(struct shfs_stale *s, const struct shfs_version_fact *v,
                               bool touched, struct writer *w)
{
	struct shfs_access a;
	int r = is_made_anew(s, v);

	*w = (struct writer){ .end_ns = INT64_MIN };
	if (r > 0)
		r = shfs_facts_access(s->graph->facts, v->access_id, &a);
	/* a found version may have been written again since */
	if (r < 0 || (!r && (v->access_id || !touched)))
		return r;
	if (r)
		*w = (struct writer){ v->command_id, v->process_id,
			              shfs_access_end_ns(&a) };
	r = v->command_id ? find_written(s, v, w) : 0;
	if (r < 0)
		return r;
	r = touched ? later_writer(s, false, v, w) ?: later_writer(s, true, v, w) : 0;
	return r ? r : w->command_id != 0;
}

/* Finds the first maker of a content that shfs or version control restored: *v is that
 * version then. 1 or 0. Version control brings contents of its own to other paths: there
 * it is the maker. */
static int look_behind(struct shfs_stale *s, struct shfs_version_fact *v,
                       struct writer *w)
{
	struct shfs_version_fact older;
	enum by by, own;
	int64_t id;
	int r;

	while (!(r = shfs_graph_by(s->graph, w->process_id, &by)) && by != BY_ANOTHER) {
		struct shfs_version at = { .version_id = v->version_id,
			                   .file_id = v->file_id,
			                   .process_id = v->process_id,
			                   .time_ns = v->time_ns };

		r = shfs_graph_by(s->graph, v->process_id, &own);
		if (!r && own == BY_ANOTHER) /* only its latest writer is one */
			return find_version_writer(s, v, false, w);
		r = r ? r : shfs_graph_restored_from(s->graph, &at, &id);
		if (r > 0)
			r = shfs_facts_version(s->graph->facts, id, &older);
		if (r > 0 && by == BY_VERSION_CONTROL)
			r = older.file_id == v->file_id;
		if (r <= 0 || older.time_ns > v->time_ns ||
		    (older.time_ns == v->time_ns && older.version_id >= v->version_id))
			return MIN(r, 0);
		*v = older;
		r = find_version_writer(s, v, true, w);
		if (r < 0)
			return r;
	}
	return r ? r : w->command_id != 0;
}

/* Does the program report a result, not a failure, by exit status 1; or something that
 * need not concern all of its output? */
static bool tells_by_status(const char *name, size_t len)
{
	static const char *const tellers[] = {
		"*grep", "rg",   "ag",      "*diff",      "cmp",      "expr",
		"test",  "git",  "pytest*", "py.test",    "flake8",   "pylint",
		"mypy",  "ruff", "black",   "shellcheck", "cppcheck", "eslint",
		"which", "find", "du",      "ls",         "tar",      "rsync",
	};

	return shfs_program_is_one_of(name, len, tellers, ARRAY_SIZE(tellers));
}

static int look_for_teller(const struct shfs_word *word, void *arg)
{
	struct shfs_bytes name = shfs_word_base(word->text, word->len);

	return tells_by_status(name.data, name.len);
}

/* Versions among which an earlier run of the command line is looked for. */
#define EARLIER_MAX 64

/* How earlier runs of the command line that made the file had ended. */
enum ended {
	ENDED_NEVER, /* there was none, or none ended as below */
	ENDED_SO,    /* one with the same status, and none well */
	ENDED_WELL,  /* one with 0 */
};

static int note_earlier_end(struct shfs_stale *s, int64_t command_id,
                            const struct shfs_command_row *c, enum ended *ended)
{
	const struct shfs_command_row *other;
	struct command_node *node;
	int r = command_id && command_id != c->command_id
	                ? shfs_graph_command(s->graph, command_id, &node)
	                : 0;

	if (r <= 0)
		return r;
	other = &node->entry.command;
	if (!other->has_status || !other->text || other->begin_ns > c->begin_ns ||
	    strcmp(other->text, c->text) || strcmp(other->cwd, c->cwd))
		return 0;
	if (!other->status)
		*ended = ENDED_WELL;
	else if (other->status == c->status && *ended == ENDED_NEVER)
		*ended = ENDED_SO;
	return 0;
}

struct writes {
	int64_t *access_ids;
	size_t n, cap;
};

static int note_write(const struct shfs_access *a, void *arg)
{
	struct writes *writes = arg;

	if (!a->made_n)
		return 0;
	if (!MAKE_ROOM(writes->access_ids, writes->n, writes->cap))
		return -ENOMEM;
	writes->access_ids[writes->n++] = a->access_id;
	return 0;
}

/* A version that was moved there has no open, one that was made again no version. */
static int find_earlier_end(struct shfs_stale *s, const struct shfs_version_fact *v,
                            const struct shfs_command_row *c, enum ended *ended)
{
	struct shfs_facts *facts = s->graph->facts;
	struct shfs_version_fact older;
	struct writes writes = { 0 };
	int64_t owner;
	int r = 0;

	*ended = ENDED_NEVER;
	for (int64_t n = v->n; n > 0 && v->n - n < EARLIER_MAX && r >= 0; n--) {
		r = shfs_facts_version(facts, v->file_id << 32 | n, &older);
		if (r > 0)
			r = note_earlier_end(s, older.command_id, c, ended);
	}
	if (r >= 0)
		r = shfs_facts_opens_of_file(facts, v->file_id, note_write, &writes);
	for (size_t i = writes.n; i-- && writes.n - i <= EARLIER_MAX && r >= 0;) {
		r = shfs_facts_owner(facts, writes.access_ids[i], &owner);
		if (r > 0)
			r = note_earlier_end(s, owner, c, ended);
	}
	free(writes.access_ids);
	return MIN(r, 0);
}

/* A process that wrote a file, and what all the programs that it executed are. */
struct writer_programs {
	struct shfs_graph *g;
	int64_t process_id;
	int64_t pid, start_ticks; /* of that process, once it is known */
	bool tells;               /* one reports results by its status */
	bool executed;            /* one is no shell */
};

static int look_for_writer_process(const struct shfs_process_fact *p, void *arg)
{
	struct writer_programs *w = arg;

	if (p->process_id != w->process_id)
		return 0;
	w->pid = p->pid;
	w->start_ticks = p->start_ticks;
	return 1;
}

static int look_at_writer_program(const struct shfs_process_fact *p, void *arg)
{
	struct writer_programs *w = arg;
	struct program *program;
	int r = p->pid == w->pid && p->start_ticks == w->start_ticks
	                ? shfs_graph_find_program(w->g, p->program_id, &program)
	                : 0;

	if (r <= 0)
		return r;
	w->tells |=
		tells_by_status(basename(program->exe), strlen(basename(program->exe)));
	w->executed |= !shfs_program_is_shell(basename(program->exe));
	return 0;
}

static int look_for_last(const struct shfs_access *a, void *arg)
{
	struct shfs_stale *s = arg;

	if (!a->made_n || shfs_access_end_ns(a) < s->last_made_ns)
		return 0;
	s->last_made_ns = shfs_access_end_ns(a);
	s->last_file = a->file2_id ?: a->file_id;
	return 0;
}

/* Is it what the command made last, so that it was cut short when that failed? */
static int is_last_result(struct shfs_stale *s, const struct shfs_version_fact *v,
                          const struct writer *w)
{
	int r = 0;

	if (s->last_command != w->command_id) {
		s->last_made_ns = INT64_MIN;
		r = shfs_facts_of_command(s->graph->facts, w->command_id, look_for_last,
		                          s);
		s->last_command = r ? 0 : w->command_id;
	}
	return r ? r : w->end_ns >= s->last_made_ns || v->file_id == s->last_file;
}

#define STATUS_NOT_RUN 126 /* of a shell: 126, 127 */
#define STATUS_SIGNAL  128 /* 128 + the number of the signal */
#define STATUS_PIPE    141 /* head had enough */

/* Does the status say that its program failed? It does if it is that of one program, and
 * not of another one after it; what had ended so before is as it should be. last: the
 * command made nothing after the file. */
static int is_failure(struct shfs_stale *s, const struct shfs_version_fact *v,
                      const struct shfs_command_row *c, bool last)
{
	enum ended ended;
	int r = find_earlier_end(s, v, c, &ended);

	if (r || ended != ENDED_NEVER)
		return r ? r : ended == ENDED_WELL;
	return last && c->status != STATUS_PIPE && shfs_text_is_pipeline(c->text) &&
	       (c->status != 1 || !shfs_text_words(c->text, look_for_teller, NULL));
}

static int has_failed(struct shfs_stale *s, const struct shfs_version_fact *v,
                      const struct writer *w, const struct shfs_command_row *c)
{
	struct writer_programs programs = { .g = s->graph, .process_id = w->process_id };
	bool empty = v->content.flags & SHFS_CONTENT_KNOWN && !v->content.size;
	int r;

	if (!c->has_status || !c->status || !c->text)
		return 0;
	r = shfs_facts_processes(s->graph->facts, w->command_id, look_for_writer_process,
	                         &programs);
	/* a search that finds nothing writes nothing: its shell has opened the file */
	if (r > 0)
		r = shfs_facts_processes(s->graph->facts, w->command_id,
		                         look_at_writer_program, &programs);
	if (r < 0 || (programs.tells && c->status == 1))
		return MIN(r, 0);
	r = is_last_result(s, v, w);
	if (r < 0)
		return r;
	/* what was killed, or not even found, left no result; nor did what left nothing
	 */
	if (r && (empty || (c->status > STATUS_SIGNAL && c->status != STATUS_PIPE) ||
	          (c->status >= STATUS_NOT_RUN && c->status < STATUS_SIGNAL &&
	           !programs.executed)))
		return 1;
	return is_failure(s, v, c, r);
}

/* Finds the run that made the latest version. touched: the file was accessed since
 * then. */
static int find_run(struct shfs_stale *s, struct file_node *f,
                    const struct shfs_version_fact *latest, bool touched)
{
	struct shfs_version_fact made = *latest;
	struct writer w;
	struct run_node *run;
	int r = find_version_writer(s, latest, touched, &w);

	if (r >= 0)
		r = look_behind(s, &made, &w);
	if (r > 0)
		r = get_run(s, w.command_id, w.process_id, &run);
	if (r > 0)
		r = shfs_stale_is_computed(s, w.process_id, &run->r.entry->command);
	if (r <= 0)
		return r;
	r = shfs_graph_is_recipe(run->jobs, run->key.job)
	            ? 0
	            : has_failed(s, &made, &w, &run->r.entry->command);
	if (r < 0)
		return r;
	run->r.failed |= r;
	f->f.run = &run->r;
	f->made_ns = w.end_ns;
	run->n_files++;
	run->until_ns = MAX(run->until_ns, w.end_ns);
	return 0;
}

/* Looks at a file outside, or at a link, as it is now. One that cannot be looked at
 * counts as it was. */
static int look_at_unwatched(struct shfs_stale *s, struct file_node *f,
                             const struct shfs_content *then)
{
	bool is_link = S_ISLNK(then->mode);
	struct shfs_content now;
	int r = !shfs_path_is_here(f->f.path) ? 0
	        : is_link                     ? 1
	                  : shfs_graph_is_outside(s->graph, f->f.path);

	if (r <= 0)
		return r;
	f->unwatched = malloc(sizeof(*f->unwatched));
	if (!f->unwatched)
		return -ENOMEM;
	f->unwatched->then = *then;
	r = shfs_stale_read_now(f->f.path, then, &now);
	if (!r)
		f->f.moved_on = !shfs_content_is_unchanged(then, &now);
	f->f.present = r ? r != -ENOENT && r != -ENOTDIR : true;
	f->unwatched->changed_ns = r ? INT64_MIN : MAX(now.mtime_ns, now.ctime_ns);
	return 0;
}

static int load_file(struct shfs_stale *s, int64_t file_id, struct file_node *f)
{
	struct shfs_facts *facts = s->graph->facts;
	struct shfs_version_fact latest;
	struct shfs_file_fact fact;
	int r = shfs_facts_file(facts, file_id, &fact);

	if (r > 0)
		r = shfs_facts_version(facts, file_id << 32 | fact.versions, &latest);
	if (r > 0)
		r = shfs_stale_keep_path(s, file_id, f);
	if (r <= 0)
		return r;
	f->known = true;
	f->f.n = latest.n;
	f->f.present = fact.present;
	f->command_id = latest.command_id;
	f->process_id = latest.process_id;
	f->object = latest.content.object;
	f->named = latest.content.flags & SHFS_CONTENT_NAMED;
	f->directory = fact.directory;
	f->bookkeeping = shfs_path_bookkeeping(f->f.path);
	if (!f->bookkeeping)
		r = find_run(s, f, &latest, fact.last_ns > latest.time_ns)
		            ?: look_at_unwatched(s, f, &latest.content);
	return r < 0 ? r : 1;
}

/* 1, or 0 if the file has no version. */
static int get_file_node(struct shfs_stale *s, int64_t file_id, struct file_node **out)
{
	int r = shfs_stale_file_node(s, file_id, out);

	return r ? r : (*out)->known ? 1 : load_file(s, file_id, *out);
}

/* --- inputs --- */

/* Does the process belong to the run? A run without jobs is the whole command. */
static bool is_process_of_run(const struct run_node *run, int64_t command_id,
                              int64_t process_id)
{
	return command_id == run->key.id &&
	       (!run->jobs || shfs_graph_job_of(run->jobs, process_id) == run->key.job);
}

/* Looks at a read of an older version of f: 1 if it is an input, and *same if the content
 * is still the same; 0 if the run made it itself. */
static int look_at_older(struct shfs_stale *s, const struct run_node *run,
                         const struct file_node *f, int64_t version_id, bool *same)
{
	struct shfs_version_fact seen;
	int r = shfs_facts_version(s->graph->facts, version_id, &seen);

	if (r <= 0 || is_process_of_run(run, seen.command_id, seen.process_id))
		return MIN(r, 0);
	if (f->unwatched)
		*same = shfs_content_is_unchanged(&seen.content, &f->unwatched->then);
	else
		*same = (seen.content.flags & SHFS_CONTENT_NAMED) && f->named &&
		        !memcmp(&seen.content.object, &f->object, sizeof(f->object));
	return 1;
}

/*
 * A changed Makefile need not change each recipe. If the same command, which is nothing
 * but the tool, was run again, read the Makefile and ended well, it has decided on each
 * file that it makes: the files that it left count as right.
 */
struct readers {
	int64_t n, *access_ids;
	size_t n_ids, cap;
};

static int note_version_reader(const struct shfs_access *a, void *arg)
{
	struct readers *readers = arg;

	if (!(a->flags & SHFS_ACCESS_READ) || a->seen_n != readers->n)
		return 0;
	if (!MAKE_ROOM(readers->access_ids, readers->n_ids, readers->cap))
		return -ENOMEM;
	readers->access_ids[readers->n_ids++] = a->access_id;
	return 0;
}

/* Did all of the command end well? Other programs in it would hide the tool's status. */
static bool ended_well(const struct shfs_command_row *c)
{
	const char *word = c->text + strspn(c->text, " \t");
	struct shfs_bytes name = shfs_word_base(word, strcspn(word, " \t"));

	return c->has_status && !c->status && !strpbrk(c->text, "|;!&$`\n") &&
	       shfs_program_is_build_tool(name.data, name.len);
}

static int add_told(struct shfs_stale *s, struct told *told, int64_t access_id)
{
	struct program *program;
	struct command_node *c;
	int64_t command_id;
	int r = shfs_facts_owner(s->graph->facts, access_id, &command_id);

	if (r > 0)
		r = shfs_graph_program(s->graph, access_id >> 32, &program);
	if (r <= 0 || !program->builds)
		return MIN(r, 0);
	r = shfs_graph_command(s->graph, command_id, &c);
	if (r <= 0 || !ended_well(&c->entry.command))
		return MIN(r, 0);
	if (!MAKE_ROOM(told->list, told->n, told->cap))
		return -ENOMEM;
	told->list[told->n++] = &c->entry.command;
	return 0;
}

static int compare_commands(const void *a, const void *b)
{
	const struct shfs_command_row *x = *(const struct shfs_command_row *const *)a;
	const struct shfs_command_row *y = *(const struct shfs_command_row *const *)b;

	if (x->text_len != y->text_len)
		return x->text_len < y->text_len ? -1 : 1;
	return memcmp(x->text, y->text, x->text_len) ?: strcmp(x->cwd, y->cwd);
}

static int load_told(struct shfs_stale *s, int64_t file_id, struct file_node *f)
{
	struct readers readers = { .n = f->f.n };
	int r;

	f->told = calloc(1, sizeof(*f->told));
	if (!f->told)
		return -ENOMEM;
	r = shfs_facts_opens_of_file(s->graph->facts, file_id, note_version_reader,
	                             &readers);
	for (size_t i = 0; i < readers.n_ids && !r; i++)
		r = add_told(s, f->told, readers.access_ids[i]);
	free(readers.access_ids);
	if (f->told->n)
		qsort(f->told->list, f->told->n, sizeof(*f->told->list),
		      compare_commands);
	return r;
}

/* Was the same command run again with the latest version of f? 1, 0, or a negative
 * errno. */
static int is_decided(struct shfs_stale *s, const struct run_node *run, int64_t file_id,
                      struct file_node *f)
{
	const struct shfs_command_row *command = &run->r.entry->command;
	int r = f->told ? 0 : load_told(s, file_id, f);

	return r ? r
	         : f->told->n && bsearch(&command, f->told->list, f->told->n,
	                                 sizeof(*f->told->list), compare_commands);
}

static int add_run_input(struct shfs_stale *s, struct run_node *run,
                         const struct graph_read *read);

/* Adds the origin of a link that the run itself made and read. Damaged or hostile links
 * may form a circle: the search ends at a version that it met before (Brent's
 * algorithm). */
static int add_link_origin(struct shfs_stale *s, struct run_node *run,
                           const struct graph_read *read)
{
	struct shfs_version_fact v;
	struct graph_read origin = *read;
	int64_t met = 0;
	int r;

	for (size_t n = 1;
	     (r = shfs_facts_version(s->graph->facts, origin.version_id, &v)) > 0 &&
	     is_process_of_run(run, v.command_id, v.process_id);
	     n++) {
		if (!v.origin_version_id || v.origin_version_id == met)
			return 0;
		if (!(n & (n - 1)))
			met = origin.version_id;
		origin.version_id = v.origin_version_id;
	}
	return r > 0 ? add_run_input(s, run, &origin) : r;
}

/* Bookkeeping of a program is no input, except a compiled module of Python: adds its
 * source. */
static int add_python_source(struct shfs_stale *s, struct run_node *run,
                             const struct graph_read *read, const struct file_node *f)
{
	struct graph_read source = *read;
	int r = shfs_graph_compiled_from(s->graph, read->version_id >> 32, f->f.path,
	                                 read->begin_ns, &source.version_id);

	return r > 0 ? add_run_input(s, run, &source) : r;
}

/* Adds an input. What the run made itself is none, even if it wrote the same bytes again;
 * and a result that it had read before was edited in place. The list has room for one
 * more. */
static int add_run_input(struct shfs_stale *s, struct run_node *run,
                         const struct graph_read *read)
{
	uint32_t n = (uint32_t)read->version_id;
	struct file_node *f;
	bool same = true, own;
	int r = get_file_node(s, read->version_id >> 32, &f);

	if (r > 0 && f->bookkeeping)
		return add_python_source(s, run, read, f);
	if (r <= 0)
		return r;
	own = is_process_of_run(run, f->command_id, f->process_id);
	if (f->f.n != n)
		r = look_at_older(s, run, f, read->version_id, &same);
	else if (own)
		r = 0;
	if (r <= 0)
		return r ? r : add_link_origin(s, run, read);
	if (f->f.run == &run->r) {
		if (f->f.n == n && read->begin_ns >= f->made_ns)
			return 0;
		f->f.run = NULL;
		run->n_files--;
		return 0;
	}
	if (own || (f->reader == run && f->seen_n == n))
		return 0;
	if (!same && read->told) {
		r = is_decided(s, run, read->version_id >> 32, f);
		if (r < 0)
			return r;
		same = r;
	}
	/* what the command itself has changed outside is likely its own */
	if (f->f.moved_on &&
	    shfs_command_ran_at(&run->r.entry->command, f->unwatched->changed_ns))
		return 0;
	same &= !f->f.moved_on;
	f->reader = run;
	f->seen_n = n;
	run->r.inputs[run->r.n_inputs++] =
		(struct shfs_stale_input){ .file = &f->f, .n = n, .changed = !same };
	return 0;
}

struct taking {
	struct shfs_stale *s;
	struct run_node *run;
	size_t cap;
};

/* Adds a file outside as a result of the run that left it, and an input of this one. */
static int add_taken(const char *path, struct maker_key by, int64_t process_id,
                     const struct graph_read *only, void *arg)
{
	struct taking *t = arg;
	struct shfs_stale *s = t->s;
	struct shfs_stale_run *r = &t->run->r;
	struct taken_file *taken;
	struct run_node *maker;
	int is = get_run(s, by.id, process_id, &maker);

	if (is > 0 && maker != t->run)
		is = shfs_stale_is_computed(s, process_id, &maker->r.entry->command);
	if (is <= 0 || maker == t->run)
		return MIN(is, 0);
	is = shfs_graph_has_left(s->graph, by.id, path);
	if (is < 0)
		return is;
	taken = calloc(1, sizeof(*taken));
	if (!taken)
		return -ENOMEM;
	taken->next = s->taken;
	s->taken = taken;
	taken->f = (struct shfs_stale_file){ .run = &maker->r,
		                             .path = strdup(path),
		                             .present = is };
	if (!taken->f.path || !MAKE_ROOM(r->inputs, r->n_inputs, t->cap))
		return -ENOMEM;
	r->inputs[r->n_inputs++] = (struct shfs_stale_input){ .file = &taken->f };
	maker->n_files++;
	if (maker->r.entry->command.ended)
		maker->until_ns = MAX(maker->until_ns, maker->r.entry->command.end_ns);
	return 0;
}

static int load_inputs(struct shfs_stale *s, struct run_node *run)
{
	struct taking taking = { .s = s, .run = run };
	const struct graph_reads *reads = &s->graph->reads;
	int64_t until_ns = run->until_ns; /* a result may be found in the loop */
	int r = shfs_graph_reads(s->graph, run->key, BY_ANOTHER, &s->graph->reads);

	if (!r && reads->n)
		run->r.inputs = calloc(reads->n, sizeof(*run->r.inputs));
	if (!r && reads->n && !run->r.inputs)
		r = -ENOMEM;
	for (size_t i = 0; i < reads->n && !r; i++)
		if (reads->list[i].begin_ns <= until_ns)
			r = add_run_input(s, run, &reads->list[i]);
	taking.cap = reads->n;
	return r ? r : shfs_graph_taken(s->graph, run->key, add_taken, &taking);
}

/* --- the order, and staleness --- */

static void decide_staleness(struct shfs_stale *s, struct run_node *run)
{
	for (size_t i = 0; i < run->r.n_inputs && run->n_files; i++) {
		const struct shfs_stale_input *input = &run->r.inputs[i];

		run->r.stale |=
			input->changed || (input->file->run && input->file->run->stale);
	}
	run->r.stale |= run->r.failed && run->n_files;
	run->state = RUN_DONE;
	*s->last = &run->r;
	s->last = &run->r.next;
}

/* Puts a run after all runs that made its inputs; runs in a circle come in any order. */
static int order_run(struct shfs_stale *s, struct run_node *top)
{
	int r = 0;

	while (top && !r) {
		struct run_node *next = NULL;

		if (top->state == RUN_NEW) {
			top->state = RUN_OPEN;
			r = load_inputs(s, top);
			if (!top->n_files) /* all its results were edited */
				top->at = top->r.n_inputs;
		}
		while (!next && top->at < top->r.n_inputs) {
			next = run_of(top->r.inputs[top->at++].file->run);
			if (next && next->state != RUN_NEW)
				next = NULL;
		}
		if (next) {
			next->below = top;
			top = next;
		} else {
			decide_staleness(s, top);
			top = top->below;
		}
	}
	return r;
}

/* --- the files in question --- */

static int add_stale_result(struct shfs_stale *s, int64_t file_id)
{
	struct file_node *f;
	int r = get_file_node(s, file_id, &f);

	if (r <= 0 || !f->f.present || f->directory || !f->f.run || f->asked ||
	    f->bookkeeping)
		return MIN(r, 0);
	f->asked = true;
	f->f.next_result = f->f.run->results;
	f->f.run->results = &f->f;
	return 0;
}

static int take_file_below(int64_t file_id, void *arg)
{
	return add_stale_result(arg, file_id);
}

/* Drops runs without inputs: only now it is known which files were edited in place. */
static void drop_other_results(struct shfs_stale_run *run)
{
	if (!run->n_inputs && !run->failed)
		run->results = NULL;
	for (struct shfs_stale_file **f = &run->results; *f;) {
		if ((*f)->run) {
			run->n_results++;
			f = &(*f)->next_result;
		} else {
			*f = (*f)->next_result;
		}
	}
}

/* Copies what is asked again and again of each input: millions of files are all over the
 * memory. */
static void settle_inputs(struct shfs_stale_run *run)
{
	for (size_t i = 0; i < run->n_inputs; i++) {
		struct shfs_stale_input *input = &run->inputs[i];

		input->run = input->file->run;
		input->reason = input->changed || (input->run && input->run->stale);
	}
}

static int find_stale_runs(struct shfs_stale *s, char *const *paths, size_t n)
{
	struct run_node *run, *next;
	int r = 0;

	for (size_t i = 0; i < n && !r; i++)
		r = shfs_facts_below(s->graph->facts, paths[i], take_file_below, s);
	HASH_ITER (hh, s->runs, run, next)
		if (!r && run->state == RUN_NEW && run->r.results)
			r = order_run(s, run);
	return r;
}

int shfs_stale_new(struct shfs_index *index, char *const *paths, size_t n,
                   struct shfs_stale **out)
{
	static const struct shfs_graph_limits limits;
	_cleanup_stale_ struct shfs_stale *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return -ENOMEM;
	s->last = &s->first;
	r = shfs_graph_new(index, &limits, &s->graph);
	if (r)
		return r;
	r = shfs_facts_hold(s->graph->facts);
	if (!r)
		r = find_stale_runs(s, paths, n);
	shfs_facts_release(s->graph->facts);
	for (struct shfs_stale_run *one = s->first; one && !r; one = one->next) {
		drop_other_results(one);
		settle_inputs(one);
	}
	r = r ? r : shfs_stale_order(s);
	if (!r)
		*out = TAKE_PTR(s);
	return r;
}

struct shfs_stale_run *shfs_stale_runs(struct shfs_stale *s)
{
	return s->first;
}
