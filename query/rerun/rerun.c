/* SPDX-License-Identifier: MIT */
/* Decides what has to be run again, and whether it can be. */
#include "query/rerun/rerun.h"

#include "common/clock.h"
#include "common/io.h"
#include "common/path.h"
#include "query/base/mounts.h"
#include "query/history/shell-text.h"
#include "query/rerun/links.h"
#include "query/rerun/runner.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>

#define COMPARE_MAX (256ULL << 20)
#define REASONS_MAX 20 /* messages for one command */

/* The first step that makes a path. */
struct shfs_rerun_maker {
	const char *path; /* borrowed from a use */
	size_t step;
	UT_hash_handle hh;
};

static void clear_before(struct shfs_rerun_step *step)
{
	for (size_t i = 0; i < step->n_results; i++) {
		shfs_version_clear(&step->results[i].before);
		step->results[i].before = (struct shfs_version){ 0 };
	}
}

void shfs_rerun_clear(struct shfs_rerun *rr)
{
	struct shfs_rerun_maker *m, *next;

	HASH_ITER (hh, rr->makers, m, next) {
		HASH_DEL(rr->makers, m);
		free(m);
	}
	for (size_t i = 0; i < rr->n; i++) {
		struct shfs_rerun_step *step = &rr->steps[i];

		clear_before(step);
		free(step->results);
		shfs_names_clear(&step->leaves);
		shfs_command_script_clear(&step->script);
		shfs_entry_clear(&step->entry);
		free(step->session);
	}
	free(rr->steps);
	free(rr->base);
}

/* --- steps --- */

static bool is_result(const struct shfs_use *use)
{
	return use->made_id && !use->directory && !use->bookkeeping &&
	       (use->kind == SHFS_USE_WROTE || use->kind == SHFS_USE_CHANGED ||
	        use->kind == SHFS_USE_RENAMED || use->kind == SHFS_USE_LINKED);
}

static int add_step_results(struct shfs_rerun_step *step)
{
	const struct shfs_uses *uses = &step->entry.uses;

	step->results = calloc(uses->n + 1, sizeof(*step->results));
	for (size_t i = 0; i < uses->n && step->results; i++)
		if (is_result(&uses->list[i]))
			step->results[step->n_results++].use = &uses->list[i];
	return step->results ? 0 : -ENOMEM;
}

static int load_step(struct shfs_rerun *rr, int64_t command_id,
                     struct shfs_rerun_step *step)
{
	int r = shfs_entry_load(rr->index, false, command_id, 0, &step->entry);

	if (r <= 0)
		return r ? r : -ENOENT;
	return shfs_command_script_load(rr->index, &step->entry.command, &step->script)
	               ?: add_step_results(step);
}

static int note_makers(struct shfs_rerun *rr, const struct shfs_rerun_step *step)
{
	for (size_t i = 0; i < step->n_results; i++) {
		const char *path = step->results[i].use->path;
		struct shfs_rerun_maker *m;

		HASH_FIND_STR(rr->makers, path, m);
		if (m)
			continue;
		m = calloc(1, sizeof(*m));
		if (!m)
			return -ENOMEM;
		m->path = path;
		m->step = step - rr->steps;
		HASH_ADD_KEYPTR(hh, rr->makers, m->path, strlen(m->path), m);
		if (!m->hh.tbl) {
			free(m);
			return -ENOMEM;
		}
	}
	return 0;
}

int shfs_rerun_add(struct shfs_rerun *rr, int64_t command_id,
                   const struct shfs_stale_run *stale)
{
	struct shfs_rerun_step *step;
	int r;

	if (!MAKE_ROOM(rr->steps, rr->n, rr->cap))
		return -ENOMEM;
	step = &rr->steps[rr->n++];
	*step = (struct shfs_rerun_step){ .stale = stale };
	r = load_step(rr, command_id, step);
	return r ? r : note_makers(rr, step);
}

struct shfs_rerun_step *shfs_rerun_maker(const struct shfs_rerun *rr, const char *path,
                                         const struct shfs_rerun_step *step)
{
	struct shfs_rerun_maker *m;

	HASH_FIND_STR(rr->makers, path, m);
	return m && m->step < (size_t)(step - rr->steps) ? &rr->steps[m->step] : NULL;
}

struct shfs_rerun_result *shfs_rerun_result_of(struct shfs_rerun_step *step,
                                               const char *path)
{
	for (size_t i = 0; i < step->n_results; i++)
		if (!strcmp(step->results[i].use->path, path))
			return &step->results[i];
	return NULL;
}

/* Is the command run again, and not before step? */
static bool comes_later(const struct shfs_rerun *rr, const struct shfs_rerun_step *step,
                        int64_t command_id)
{
	for (size_t i = step - rr->steps; i < rr->n; i++)
		if (rr->steps[i].entry.command.command_id == command_id)
			return rr->steps[i].state == SHFS_RERUN_WAITS;
	return false;
}

/* --- files --- */

static bool need_of(const struct shfs_use *use, struct shfs_rerun_need *out)
{
	*out = (struct shfs_rerun_need){ use, use->path, use->read_id, false };
	/* a file outside is used where it lies, also by a scratch copy; of links, see
	 * links.h */
	if (use->named || (use->bookkeeping && !shfs_path_is_version_control(use->path)))
		return false;
	switch (use->kind) {
	case SHFS_USE_RENAMED:
	case SHFS_USE_LINKED:
		out->path = use->from;
		out->version_id = 0;
		out->as_then = use->kind == SHFS_USE_RENAMED;
		return use->from && (use->made_id || use->directory);
	case SHFS_USE_CHANGED:
	case SHFS_USE_REMOVED:
		out->as_then = true;
		return use->read_id && !use->directory;
	default:
		return use->read_id && !use->directory;
	}
}

/* A file that a later step makes had another content when this step read it. */
bool shfs_rerun_need(const struct shfs_rerun *rr, const struct shfs_rerun_step *step,
                     const struct shfs_use *use, struct shfs_rerun_need *out,
                     struct shfs_rerun_step **maker)
{
	struct shfs_rerun_maker *m;

	*maker = NULL;
	if (!need_of(use, out))
		return false;
	HASH_FIND_STR(rr->makers, out->path, m);
	if (!m || m->step == (size_t)(step - rr->steps))
		return true;
	if (m->step < (size_t)(step - rr->steps))
		*maker = &rr->steps[m->step];
	else
		out->as_then = true;
	return !*maker;
}

static bool is_undone(const struct shfs_rerun_step *step)
{
	return step->state == SHFS_RERUN_FAILED || step->state == SHFS_RERUN_LEFT_OUT ||
	       step->state == SHFS_RERUN_REFUSED;
}

/* Is the run one of a step that was not done? */
static bool is_run_undone(const struct shfs_rerun *rr, const struct shfs_stale_run *run)
{
	for (size_t i = 0; i < rr->n; i++)
		for (const struct shfs_stale_run *r = rr->steps[i].stale; r;
		     r = r->next_job)
			if (r == run)
				return is_undone(&rr->steps[i]);
	return false;
}

/* Does it take a file outside that should have been made anew? */
static bool lacks_file_outside(const struct shfs_rerun *rr,
                               const struct shfs_rerun_step *step)
{
	for (const struct shfs_stale_run *run = step->stale; run; run = run->next_job)
		for (size_t i = 0; i < run->n_inputs; i++)
			if (!run->inputs[i].n &&
			    is_run_undone(rr, run->inputs[i].file->run))
				return true;
	return false;
}

bool shfs_rerun_lacks_input(const struct shfs_rerun *rr,
                            const struct shfs_rerun_step *step)
{
	const struct shfs_uses *uses = &step->entry.uses;

	for (size_t i = 0; i < uses->n; i++) {
		struct shfs_rerun_need need;
		struct shfs_rerun_step *maker;

		shfs_rerun_need(rr, step, &uses->list[i], &need, &maker);
		if (maker && is_undone(maker))
			return true;
	}
	return lacks_file_outside(rr, step);
}

char *shfs_rerun_place(const struct shfs_rerun *rr, const char *path)
{
	return rr->options.top ? shfs_path_join(rr->options.top,
	                                        shfs_path_relative(path, rr->base))
	                       : strdup(path);
}

static int compare_bytes(const struct shfs_rerun *rr, int fd,
                         const struct shfs_version *version)
{
	_cleanup_buf_ struct shfs_buf there = { 0 }, archived = { 0 };
	int r = shfs_read_fd(fd, COMPARE_MAX, &there);

	if (r == -EFBIG)
		return 0;
	if (!r)
		r = shfs_object_read(rr->store, &version->object, COMPARE_MAX, &archived);
	if (r)
		return r;
	return there.len == archived.len &&
	       (!there.len || !memcmp(there.data, archived.data, there.len));
}

int shfs_rerun_compare(const struct shfs_rerun *rr, const char *file,
                       const struct shfs_version *version)
{
	_cleanup_close_ int fd =
		open(file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;

	if (!(version->flags & SHFS_CONTENT_OBJECT))
		return -ENODATA;
	if (fd < 0 || fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size != version->size)
		return 0;
	return compare_bytes(rr, fd, version);
}

static int load_origin_of_version(const struct shfs_rerun *rr, int64_t version_id,
                                  struct shfs_version *out)
{
	_cleanup_version_ struct shfs_version made = { 0 };
	int r = shfs_version_load(rr->index, version_id, &made);

	return r > 0 && made.origin_version_id
	               ? shfs_version_load(rr->index, made.origin_version_id, out)
	               : MIN(r, 0);
}

int shfs_rerun_load_need(const struct shfs_rerun *rr, const struct shfs_rerun_step *step,
                         const struct shfs_rerun_need *need, struct shfs_version *out)
{
	if (step->stale && !need->as_then)
		return shfs_version_latest(rr->index, need->path, out);
	if (need->version_id)
		return shfs_version_load(rr->index, need->version_id, out);
	return need->use->made_id ? load_origin_of_version(rr, need->use->made_id, out)
	                          : 0;
}

/* --- refusals of a command --- */

struct check {
	struct shfs_rerun *rr;
	struct shfs_rerun_step *step;
	struct shfs_mounts mounts;
	size_t n_refused;
	int code;
	bool in_place, unrecorded;
};

static void refuse_rerun(struct check *c, const char *fmt, ...) _printf_(2, 3);

static void refuse_rerun(struct check *c, const char *fmt, ...)
{
	_cleanup_buf_ struct shfs_buf shown = { 0 };
	_cleanup_free_ char *why = NULL;
	va_list args;

	va_start(args, fmt);
	if (vasprintf(&why, fmt, args) < 0)
		why = NULL;
	va_end(args);
	c->code = SHFS_EXIT_REFUSED;
	if (c->n_refused++ >= REASONS_MAX)
		return;
	shfs_command_show(&shown, c->rr->index, &c->step->entry.command);
	shfs_error("%s %s", shown.data ?: "", why ?: "");
}

struct unknown {
	struct shfs_index *index;
	const struct shfs_rerun_step *step;
	struct shfs_word word;
};

static int look_for_unknown(const struct shfs_word *word, void *arg)
{
	struct unknown *unknown = arg;
	int r;

	if (!word->is_command || memchr(word->text, '/', word->len) ||
	    shfs_definitions_has(&unknown->step->script.definitions, word->text,
	                         word->len))
		return 0;
	r = shfs_runner_knows(unknown->step->script.shell, word->text, word->len);
	if (!r) /* it is in a PATH that the text sets itself */
		r = shfs_command_executed(unknown->index,
		                          unknown->step->entry.command.command_id,
		                          word->text, word->len);
	if (r)
		return MIN(r, 0);
	unknown->word = *word;
	return 1;
}

/* Refuses words that are no programs, and no recorded aliases or functions. */
static int check_words(struct check *c)
{
	struct unknown unknown = { .index = c->rr->index, .step = c->step };
	_cleanup_buf_ struct shfs_buf shown = { 0 };
	int r = shfs_text_words(c->step->entry.command.text, look_for_unknown, &unknown);

	if (r <= 0)
		return r;
	shfs_text_show_unknown(&shown, unknown.word.text, unknown.word.len);
	refuse_rerun(c, "%s", shown.data ?: "");
	return 0;
}

/* Checks the text and the record of the command. */
static int check_command(struct check *c)
{
	const struct shfs_command_row *command = &c->step->entry.command;
	_cleanup_buf_ struct shfs_buf what = { 0 };
	int64_t lost = 0;
	int r = shfs_command_lost(c->rr->index, command, &lost);

	if (command->hidden)
		refuse_rerun(c, "cannot be run again: its text was not kept");
	else if (command->redacted)
		refuse_rerun(c, "cannot be run again: a secret in it was not kept");
	else if (!command->ended)
		refuse_rerun(c,
		             "has no recorded end: it is still running, or its shell was "
		             "killed");
	else if (!shfs_command_runs_again(command, &c->step->script.definitions))
		refuse_rerun(
			c,
			"waits for the user, or restores contents that it has kept (an "
			"editor, git, shfs)");
	else if (shfs_text_needs_shell(command->text, &what))
		refuse_rerun(c, "%s, which is not recorded", what.data ?: "");
	else if (shfs_definitions_lack(&c->step->script.definitions, command->text,
	                               &what))
		refuse_rerun(c, "%s", what.data ?: "");
	else if (r >= 0)
		r = check_words(c);
	if (lost)
		shfs_warn("%lld records of the time of %.7s were lost: it may have used "
		          "more",
		          (long long)lost, command->id);
	return r;
}

/* --- in place --- */

static void say_version(struct shfs_buf *out, const struct shfs_rerun *rr,
                        const char *path, int64_t version_id)
{
	_cleanup_version_ struct shfs_version v = { 0 };

	if (version_id && shfs_version_load(rr->index, version_id, &v) > 0)
		shfs_show_version(out, path, v.n);
	else
		shfs_show_path(out, path);
}

static int check_need(struct check *c, const struct shfs_rerun_need *need)
{
	_cleanup_version_ struct shfs_version then = { 0 };
	_cleanup_buf_ struct shfs_buf name = { 0 }, version = { 0 };
	struct stat st;
	int r;

	if (need->use->kind == SHFS_USE_READ && need->use->bookkeeping)
		return 0;
	shfs_show_path(&name, need->path);
	say_version(&version, c->rr, need->path, need->version_id);
	if (lstat(need->path, &st)) {
		refuse_rerun(c, "needs %s, which does not exist now", version.data ?: "");
		return 0;
	}
	if (!need->as_then || need->use->directory)
		return 0;
	r = shfs_rerun_load_need(c->rr, c->step, need, &then);
	if (r > 0)
		r = shfs_rerun_compare(c->rr, need->path, &then);
	if (r < 0 && r != -ENODATA)
		return r;
	if (r <= 0)
		refuse_rerun(c, "%s %s, which had another content then (%s)",
		             need->use->kind == SHFS_USE_CHANGED ? "changes"
		             : need->use->kind == SHFS_USE_READ
		                     ? "reads, and a later command makes,"
		                     : "removes",
		             name.data ?: "", version.data ?: "");
	return 0;
}

static int refuse_overwriting(struct check *c, const struct shfs_rerun_result *result,
                              const struct shfs_version *now, int same)
{
	_cleanup_buf_ struct shfs_buf name = { 0 }, by = { 0 };
	_cleanup_command_ struct shfs_command_row command = { 0 };
	int r = 0;

	shfs_show_path(&name, result->use->path);
	if (same == -ENODATA) {
		refuse_rerun(c, "would overwrite %s, which is not archived (%s)",
		             name.data ?: "",
		             shfs_version_why_not_archived(now->flags) ?: "unknown");
		return 0;
	}
	if (!same) {
		refuse_rerun(
			c, "would overwrite %s, which changed while nothing was recorded",
			name.data ?: "");
		return 0;
	}
	if (now->command_id)
		r = shfs_command_load(c->rr->index, now->command_id, &command);
	if (r > 0) {
		shfs_buf_str(&by, ", by ");
		shfs_command_show(&by, c->rr->index, &command);
	}
	refuse_rerun(c, "would overwrite %s, which was changed since%s", name.data ?: "",
	             by.data ?: "");
	return MIN(r, 0);
}

static bool is_same_object(const struct shfs_version *a, const struct shfs_version *b)
{
	return (a->flags & SHFS_CONTENT_NAMED) && (b->flags & SHFS_CONTENT_NAMED) &&
	       !memcmp(&a->object, &b->object, sizeof(a->object));
}

static bool is_own_work(const struct check *c, const struct shfs_rerun_result *result,
                        const struct shfs_version *now)
{
	_cleanup_version_ struct shfs_version made = { 0 };

	if (now->version_id == result->use->made_id ||
	    (now->command_id && comes_later(c->rr, c->step, now->command_id)))
		return true;
	return shfs_version_load(c->rr->index, result->use->made_id, &made) > 0 &&
	       is_same_object(&made, now);
}

/* --- backups --- */

/* Did another process of the command read the copy: is it a step on the way? */
static int is_read_again(struct shfs_index *index, const struct shfs_version *made)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open_ints(
		index,
		"SELECT 1 FROM v_access WHERE file_id = ?1 AND seen_n = ?2"
		" AND command_id = ?3 AND process_id <> ?4 AND is_read",
		SHFS_INTS(made->file_id, made->n, made->command_id, made->process_id),
		&rows);

	return r ? r : shfs_rows_next(rows);
}

/* Was the copy made of the command's own file, or does its original still hold the
 * same? */
static int is_of_same(struct check *c, const struct shfs_version *made)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open_ints(
		c->rr->index,
		"SELECT seen_version_id FROM v_access WHERE process_id = ?1"
		" AND is_read AND seen_n IS NOT NULL",
		SHFS_INTS(made->process_id), &rows);

	while (!r && (r = shfs_rows_next(rows)) > 0) {
		_cleanup_version_ struct shfs_version from = { 0 }, now = { 0 };

		r = shfs_version_load(c->rr->index, shfs_rows_int(rows, 0), &from);
		if (r <= 0 || !is_same_object(&from, made)) {
			r = MIN(r, 0);
			continue;
		}
		r = shfs_version_latest(c->rr->index, from.path, &now);
		if (r > 0)
			return from.command_id == made->command_id ||
			       is_same_object(&now, made);
	}
	return r;
}

/* Has the command moved to its place what it has made? */
static int is_moved_work(struct shfs_index *index, const struct shfs_version *made)
{
	_cleanup_version_ struct shfs_version from = { 0 };
	int r = 0;

	if (!strcmp(made->source, "renamed") && made->origin_version_id)
		r = shfs_version_load(index, made->origin_version_id, &from);
	return r > 0 ? from.command_id && from.command_id == made->command_id : r;
}

/* Refuses to overwrite a backup: a user who keeps config.bak does not want it to follow
 * the original. */
static int check_backup(struct check *c, const struct shfs_rerun_result *result)
{
	_cleanup_version_ struct shfs_version made = { 0 };
	_cleanup_buf_ struct shfs_buf name = { 0 };
	int r;

	if (!c->step->stale || c->rr->options.force ||
	    (result->use->kind != SHFS_USE_WROTE &&
	     result->use->kind != SHFS_USE_CHANGED))
		return 0;
	r = shfs_version_load(c->rr->index, result->use->made_id, &made);
	if (r > 0)
		r = shfs_stale_is_copy(c->rr->index, made.process_id,
		                       &c->step->entry.command);
	if (r <= 0)
		return r;
	r = is_moved_work(c->rr->index, &made)
	            ?: is_read_again(c->rr->index, &made) ?: is_of_same(c, &made);
	if (r)
		return MIN(r, 0);
	shfs_show_path(&name, result->use->path);
	refuse_rerun(
		c,
		"would overwrite %s, a copy of a file that has changed since: a backup?",
		name.data ?: "");
	return 0;
}

static int check_result(struct check *c, struct shfs_rerun_result *result)
{
	const char *path = result->use->path;
	const struct shfs_mount *mount = shfs_mounts_around(&c->mounts, path);
	_cleanup_buf_ struct shfs_buf name = { 0 };
	struct stat st;
	int r, same;

	if (!mount || mount->error || mount->status.error)
		c->unrecorded = true;
	if (lstat(path, &st))
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISREG(st.st_mode)) {
		shfs_show_path(&name, path);
		refuse_rerun(c, "would overwrite %s, which is no regular file now",
		             name.data ?: "");
		return 0;
	}
	r = shfs_version_latest(c->rr->index, path, &result->before);
	if (r <= 0)
		return r;
	same = shfs_rerun_compare(c->rr, path, &result->before);
	if (same < 0 && same != -ENODATA)
		return same;
	if (!same) /* the current content may be nowhere else */
		result->before.flags &= ~SHFS_CONTENT_OBJECT;
	if (c->rr->options.force || (same > 0 && is_own_work(c, result, &result->before)))
		return check_backup(c, result);
	return refuse_overwriting(c, result, &result->before, same);
}

/* All that it needs, until a call fails. */
static int each_need(struct check *c,
                     int (*call)(struct check *c, const struct shfs_rerun_need *need))
{
	const struct shfs_uses *uses = &c->step->entry.uses;
	int r = 0;

	for (size_t i = 0; i < uses->n && !r; i++) {
		struct shfs_rerun_step *maker;
		struct shfs_rerun_need need;

		if (shfs_rerun_need(c->rr, c->step, &uses->list[i], &need, &maker))
			r = call(c, &need);
	}
	return r;
}

static int check_in_place(struct check *c)
{
	_cleanup_buf_ struct shfs_buf cwd = { 0 };
	int r;

	if (access(c->step->entry.command.cwd, X_OK)) {
		shfs_show_directory(&cwd, c->step->entry.command.cwd);
		refuse_rerun(c, "was run in %s, which does not exist now",
		             cwd.data ?: "");
		return 0;
	}
	r = each_need(c, check_need);
	for (size_t i = 0; i < c->step->n_results && !r; i++)
		r = check_result(c, &c->step->results[i]);
	return r;
}

/* --- in a scratch copy --- */

/* Is it a link of a project, not a file outside? */
static bool is_link(const struct shfs_rerun *rr, const struct shfs_use *use)
{
	_cleanup_version_ struct shfs_version v = { 0 };

	return use->read_id && shfs_version_load(rr->index, use->read_id, &v) > 0 &&
	       S_ISLNK(v.mode);
}

static int widen_by(struct shfs_rerun *rr, const struct shfs_rerun_step *step)
{
	const struct shfs_uses *uses = &step->entry.uses;
	struct shfs_rerun_need need;

	shfs_base_widen(rr->base, step->entry.command.cwd);
	for (size_t i = 0; i < uses->n; i++) {
		if (!uses->list[i].named || is_link(rr, &uses->list[i]))
			shfs_base_widen(rr->base, uses->list[i].path);
		if (need_of(&uses->list[i], &need))
			shfs_base_widen(rr->base, need.path);
	}
	for (size_t i = 0; i < uses->n_temporary; i++)
		shfs_base_widen(rr->base, uses->temporary[i].path);
	return 0;
}

/* Finds the project of the first file that is used; or the directory of the first
 * command. */
static int find_rerun_base(struct shfs_rerun *rr)
{
	const struct shfs_entry *first = &rr->steps[0].entry;
	int r = 0;

	for (size_t i = 0; i < first->uses.n && !rr->base && r >= 0; i++) {
		const struct shfs_use *use = &first->uses.list[i];
		_cleanup_version_ struct shfs_version v = { 0 };

		if (!use->made_id && !use->read_id)
			continue;
		r = shfs_version_load(rr->index, use->made_id ?: use->read_id, &v);
		if (r > 0)
			r = shfs_version_root(rr->index, &v, &rr->base);
	}
	if (r < 0)
		return r;
	if (!rr->base)
		rr->base = strdup(first->command.cwd);
	if (!rr->base)
		return -ENOMEM;
	for (size_t i = 0; i < rr->n; i++)
		widen_by(rr, &rr->steps[i]);
	return 0;
}

/* A file outside is used where it lies: another one cannot take its place. */
static void check_replaced(struct check *c)
{
	const struct shfs_uses *uses = &c->step->entry.uses;

	for (size_t i = 0; i < uses->n; i++) {
		_cleanup_buf_ struct shfs_buf name = { 0 };

		if (!uses->list[i].named ||
		    !shfs_deviations_other(c->rr->options.deviations, uses->list[i].path))
			continue;
		shfs_show_path(&name, uses->list[i].path);
		refuse_rerun(c, "reads %s where it lies, outside of the copy",
		             name.data ?: "");
	}
}

static int check_source(struct check *c, const struct shfs_rerun_need *need)
{
	_cleanup_version_ struct shfs_version v = { 0 };
	_cleanup_buf_ struct shfs_buf name = { 0 };
	int r;

	if (shfs_deviations_other(c->rr->options.deviations, need->path))
		return 0;
	r = shfs_rerun_load_need(c->rr, c->step, need, &v);
	if (r < 0)
		return r;
	if (need->use->directory) {
		shfs_show_path(&name, need->path);
		refuse_rerun(c, "moves the directory %s, which cannot be copied",
		             name.data ?: "");
		return 0;
	}
	say_version(&name, c->rr, need->path, r ? v.version_id : 0);
	if (!r)
		refuse_rerun(c, "needs %s, of which no version is recorded",
		             name.data ?: "");
	else if (!(v.flags & SHFS_CONTENT_OBJECT) && !shfs_version_lies_at(&v, v.path))
		refuse_rerun(c, "needs %s, which is not archived: %s", name.data ?: "",
		             shfs_version_why_not_archived(v.flags) ?: "unknown");
	else if (v.flags & SHFS_CONTENT_INCOMPLETE)
		refuse_rerun(
			c,
			"needs %s, which is incomplete: it changed while it was captured",
			name.data ?: "");
	return 0;
}

static int load_before(struct check *c, struct shfs_rerun_result *result)
{
	int r = c->step->stale ? shfs_version_latest(c->rr->index, result->use->path,
	                                             &result->before)
	                       : shfs_version_load(c->rr->index, result->use->made_id,
	                                           &result->before);

	return MIN(r, 0);
}

static int check_links(struct check *c)
{
	_cleanup_rerun_links_ struct shfs_rerun_links links = { 0 };
	_cleanup_buf_ struct shfs_buf name = { 0 };
	int r = shfs_rerun_links_find(c->rr, c->step, &links);

	if (r || !links.unknown)
		return r;
	shfs_show_path(&name, links.unknown);
	refuse_rerun(c, "went through the link %s, and where that led is not known",
	             name.data ?: "");
	return 0;
}

static int check_scratch(struct check *c)
{
	int r;

	if (shfs_text_names_path(c->step->script.text.data ?: "", c->rr->base))
		refuse_rerun(c, "names files by their absolute paths: run elsewhere, it "
		                "would use those");
	check_replaced(c);
	r = each_need(c, check_source);
	if (!r)
		r = check_links(c);
	for (size_t i = 0; i < c->step->n_results && !r; i++)
		r = load_before(c, &c->step->results[i]);
	return r;
}

static void refuse_unrecorded(struct check *c)
{
	if (!c->unrecorded || c->rr->options.force)
		return;
	shfs_error("the project is not recorded now: overwritten contents could not be "
	           "restored");
	shfs_hint("shfs mount it first, or run in a copy: --scratch");
	c->code = SHFS_EXIT_REFUSED;
}

/* Checks a step that is neither refused nor left out yet. *changed: it is now. */
static int check_step(struct check *c, bool first, bool *changed)
{
	int r = 0;

	c->code = 0;
	if (first)
		r = check_command(c);
	if (!r && !c->code && shfs_rerun_lacks_input(c->rr, c->step)) {
		c->step->state = SHFS_RERUN_LEFT_OUT;
		*changed = true;
	} else if (!r && !c->code) {
		clear_before(c->step);
		r = c->in_place ? check_in_place(c) : check_scratch(c);
	}
	if (c->code) {
		c->step->state = SHFS_RERUN_REFUSED;
		*changed = true;
	}
	return r;
}

/* Checks all steps until no more fall out: a step may overwrite what a later one makes
 * anew, but only if that is run. */
static int check_steps(struct check *c)
{
	bool first = true, changed = true;
	int r = 0;

	for (; changed && !r; first = false) {
		changed = false;
		c->unrecorded = false;
		for (size_t i = 0; i < c->rr->n && !r; i++) {
			c->step = &c->rr->steps[i];
			if (c->step->state == SHFS_RERUN_WAITS)
				r = check_step(c, first, &changed);
		}
	}
	return r;
}

static int add_leaf(const char *path, void *arg)
{
	return shfs_workflow_add_name(arg, path);
}

/* Finds what the steps that wait write outside of all recorded directories. */
static int find_leaves(struct shfs_rerun *rr)
{
	static const struct shfs_graph_limits limits;
	_cleanup_graph_ struct shfs_graph *graph = NULL;
	int r = shfs_graph_new(rr->index, &limits, &graph);

	for (size_t i = 0; i < rr->n && !r; i++) {
		struct shfs_rerun_step *step = &rr->steps[i];

		if (step->state == SHFS_RERUN_WAITS)
			r = shfs_graph_leaves(graph, &step->entry.command, add_leaf,
			                      &step->leaves);
	}
	return r;
}

int shfs_rerun_check(struct shfs_rerun *rr)
{
	struct check c = { .rr = rr, .in_place = !rr->options.top };
	bool some = false;
	int r = 0;

	if (!rr->n)
		return 0;
	r = c.in_place
	            ? shfs_mounts_list(SHFS_MOUNTS_ASK, rr->options.store_path, &c.mounts)
	            : find_rerun_base(rr);
	if (!r)
		r = check_steps(&c) ?: find_leaves(rr);
	if (c.n_refused > REASONS_MAX)
		shfs_error("… and for %zu more reasons", c.n_refused - REASONS_MAX);
	for (size_t i = 0; i < rr->n; i++)
		some |= rr->steps[i].state == SHFS_RERUN_WAITS;
	c.code = some ? 0 : SHFS_EXIT_REFUSED;
	if (!r)
		refuse_unrecorded(&c);
	shfs_mounts_clear(&c.mounts);
	return r ? r : c.code;
}
