/* SPDX-License-Identifier: MIT */
/* `shfs forget`: remove commands, files or versions from the journal, for good. */
#include "query/base/cmd.h"
#include "query/base/model.h"
#include "query/base/mounts.h"
#include "query/history/entry.h"
#include "query/history/filter.h"
#include "query/history/version-spec.h"
#include "query/remote/place.h"
#include "query/rerun/before.h"
#include "query/team/ask.h"
#include "query/team/published.h"

#include "common/quote.h"
#include "store/care/forget.h"
#include "store/journal/runtime.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#define SHOWN_MAX 20 /* commands and files that are listed for people */

static struct shfs_filter commands, files; /* conditions on commands; on files that
                                            * they used */
static struct {
	bool dry_run, yes, json, everywhere;
} opts;

/* One pass over the journal: what was asked for, and what goes with it. */
struct job {
	struct shfs_context *ctx;
	struct shfs_store *store;
	char *hook_dir;
	int argc;
	char **argv;
	struct shfs_forget *forget;
	struct shfs_forget_beside beside;
	struct shfs_index *index;
	char *busy;            /* a mount that does not do what was asked */
	bool of_commands;      /* there are conditions on commands */
	bool of_files;         /* likewise on files, or files are named */
	struct shfs_ids taken; /* the commands (or processes) that match; sorted once
	                        * all are there */
	struct shfs_forget_stats stats;
	bool show, finished; /* finished: an interrupted one was completed */
	bool notes_stay; /* notes have the text that is asked for, among other things */
	size_t shown;
	struct shfs_buf out;
};

/* --- recordings that must not run --- */

static int refuse_forget(const char *what, const char *name, const char *hint)
{
	_cleanup_buf_ struct shfs_buf shown = { 0 };

	shfs_quote_display(&shown, name, strlen(name));
	shfs_error("nothing is forgotten: %s%s", what, shown.data ? shown.data : "");
	shfs_hint("%s", hint);
	return SHFS_EXIT_REFUSED;
}

static int seal_mounted_segments(void *arg, struct shfs_buf *segments)
{
	struct job *j = arg;

	free(TAKE_PTR(j->busy));
	return shfs_mounts_seal(j->store->path, segments, &j->busy);
}

/* Checks for producers of another machine or container: they may be alive. */
static int check_producers(struct job *j)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open(j->index,
	                       "SELECT iif(root LIKE '/%', host || ':', '') || root"
	                       " FROM v_producer"
	                       " WHERE end_ns IS NULL AND dead = 0",
	                       &rows);

	if (!r)
		r = shfs_rows_next(rows);
	if (r > 0)
		return refuse_forget(
			"this may still be recorded: ", shfs_rows_text(rows, 0),
			"unmount it there, or mount and unmount it there once more");
	return r ? shfs_fail_index(j->index, r) : 0;
}

static int refuse_unlocked(const struct job *j)
{
	_cleanup_free_ char *over = shfs_mounts_over(j->store->path);
	_cleanup_buf_ struct shfs_buf shown = { 0 };

	if (!over)
		return refuse_forget(
			"the store is on a network file system, where nothing can "
			"be locked",
			"", "end all mounts on all machines first");
	shfs_show_directory(&shown, over);
	shfs_error("nothing is forgotten: the store is inside the mount %s", shown.data);
	shfs_hint("shfs umount %s first", shown.data);
	return SHFS_EXIT_REFUSED;
}

static int explain_forget_failure(struct job *j, int error)
{
	if (error == -EBUSY && j->busy)
		return refuse_forget(
			"no answer from the mount ", j->busy,
			"shfs umount it first, and mount it again afterwards");
	if (error == -EBUSY)
		return refuse_forget("a prune, repair or another forget is at work, or "
		                     "something uses the index, just now",
		                     "", "try again");
	if (error == -EINPROGRESS)
		return refuse_forget(
			"some of it may still be recorded, by a process that "
			"cannot be asked",
			"", "end that recording first (it may run in a container)");
	if (error == -EOPNOTSUPP)
		return refuse_unlocked(j);
	if (error == -ENOSPC || error == -EDQUOT) {
		shfs_error("the forget is not complete: %s", strerror(-error));
		shfs_hint("if the disk is full, make room with shfs prune; then forget "
		          "again");
		return SHFS_EXIT_FAILURE;
	}
	if (error == -EPROTONOSUPPORT)
		return refuse_forget("another version of shfs wrote some of the journal",
		                     "", "use that version");
	if (j->index)
		return shfs_fail_index(j->index, error);
	shfs_error("cannot read the journal: %s", strerror(-error));
	return SHFS_EXIT_FAILURE;
}

/* --- the selection --- */

static int show_entry(struct job *j, bool is_process, int64_t id)
{
	_cleanup_entry_ struct shfs_entry e = { .is_process = is_process };
	int r;

	if (!j->show || j->shown++ >= SHOWN_MAX)
		return 0;
	r = is_process ? shfs_process_load(j->index, id, &e.process)
	               : shfs_command_load(j->index, id, &e.command);
	if (r > 0)
		r = shfs_entry_show_head(j->index, shfs_style_of(j->ctx), &e,
		                         shfs_show_columns(), &j->out);
	shfs_buf_char(&j->out, '\n');
	return MIN(r, 0);
}

static int take_entry(struct job *j, bool whole, bool is_process, int64_t id)
{
	int r = whole ? shfs_forget_add(j->forget,
	                                is_process ? SHFS_FORGET_PROCESS
	                                           : SHFS_FORGET_COMMAND,
	                                id)
	              : 0;

	if (!r && whole)
		r = show_entry(j, is_process, id);
	if (r || is_process != commands.no_command)
		return r;
	return shfs_ids_add(&j->taken, id);
}

/* Takes all selected commands, with those that an agent gave which one of them started;
 * whole: the commands themselves, not only their uses of some files. */
static int take_commands(struct job *j, bool whole)
{
	_cleanup_query_ struct shfs_query q = { 0 };
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	_cleanup_ids_ struct shfs_ids given = { 0 };
	int r;

	commands.all = true;
	r = shfs_filter_measure(&commands, j->index);
	if (!r)
		r = shfs_filter_query(&commands, &q);
	if (!r)
		r = shfs_query_open(&q, j->index, &rows);
	while (!r && (r = shfs_rows_next(rows)) > 0)
		r = take_entry(j, whole, shfs_rows_int(rows, 0), shfs_rows_int(rows, 1));
	if (!r && !commands.no_command)
		r = shfs_commands_given(j->index, &j->taken, true, &given);
	for (size_t i = 0; i < given.n && !r; i++)
		r = take_entry(j, whole, false, given.ids[i]);
	shfs_ids_sort(&j->taken);
	return r;
}

static bool is_meant(const struct job *j, int64_t command_id, int64_t process_id)
{
	int64_t id = commands.no_command ? process_id : command_id;

	return !j->of_commands || shfs_ids_has(&j->taken, id);
}

static void show_file(struct job *j, const char *path, int64_t n)
{
	if (!j->show || j->shown++ >= SHOWN_MAX)
		return;
	shfs_show_version(&j->out, path, n);
	shfs_buf_char(&j->out, '\n');
}

/* Takes the uses of one version. */
static int take_uses(struct job *j, int64_t file_id, int64_t n)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open_ints(
		j->index,
		"SELECT access_id, command_id, process_id FROM v_access"
		" WHERE (file_id = ?1 OR file2_id = ?1) AND"
		" (seen_version_id = ?1 << 32 | ?2"
		" OR made_version_id = ?1 << 32 | ?2)",
		SHFS_INTS(file_id, n), &rows);

	while (!r && (r = shfs_rows_next(rows)) > 0)
		r = is_meant(j, shfs_rows_int(rows, 1), shfs_rows_int(rows, 2))
		            ? shfs_forget_add(j->forget, SHFS_FORGET_ACCESS,
		                              shfs_rows_int(rows, 0))
		            : 0;
	return r;
}

static int take_version(struct job *j, int64_t file_id, int64_t n, const char *path)
{
	int r = shfs_forget_add(j->forget, SHFS_FORGET_VERSION, file_id << 32 | n);

	show_file(j, path, n);
	return r ? r : take_uses(j, file_id, n);
}

/* Takes matching versions of selected commands. */
static int take_versions(struct job *j)
{
	_cleanup_query_ struct shfs_query q = { 0 };
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r;

	shfs_buf_str(&q.sql, "SELECT v.file_id, v.n, v.command_id, v.path, v.process_id"
	                     " FROM v_version v WHERE 1");
	shfs_filter_files(&files, &q, "v.file_id");
	r = shfs_query_open(&q, j->index, &rows);
	while (!r && (r = shfs_rows_next(rows)) > 0)
		r = is_meant(j, shfs_rows_int(rows, 2), shfs_rows_int(rows, 4))
		            ? take_version(j, shfs_rows_int(rows, 0),
		                           shfs_rows_int(rows, 1),
		                           shfs_rows_text(rows, 3))
		            : 0;
	return r;
}

/* Takes the accesses of selected commands to files. */
static int take_accesses(struct job *j)
{
	_cleanup_query_ struct shfs_query q = { 0 };
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int id = shfs_query_int(&q, 0), r;

	shfs_buf_printf(&q.sql, "SELECT a.access_id FROM v_access a WHERE a.%s = ?%d",
	                commands.no_command ? "process_id" : "command_id", id);
	shfs_filter_files(&files, &q, "+a.file_id");
	r = shfs_query_open(&q, j->index, &rows);
	for (size_t i = 0; i < j->taken.n && !r; i++) {
		shfs_rows_reset(rows);
		r = shfs_rows_bind_int(rows, id, j->taken.ids[i]);
		while (!r && (r = shfs_rows_next(rows)) > 0)
			r = shfs_forget_add(j->forget, SHFS_FORGET_ACCESS,
			                    shfs_rows_int(rows, 0));
	}
	return r;
}

static int take_files(struct job *j)
{
	_cleanup_query_ struct shfs_query q = { 0 };
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r;

	shfs_buf_str(&q.sql, "SELECT p.file_id, p.path FROM v_path p WHERE 1");
	shfs_filter_files(&files, &q, "p.file_id");
	r = shfs_query_open(&q, j->index, &rows);
	while (!r && (r = shfs_rows_next(rows)) > 0) {
		r = shfs_forget_add(j->forget, SHFS_FORGET_FILE, shfs_rows_int(rows, 0));
		show_file(j, shfs_rows_text(rows, 1), 0);
	}
	return r;
}

/* FILE@N, or a path: 0, and it is in files or in the selection; or an exit code. */
static int take_operand(struct job *j, const char *operand)
{
	_cleanup_version_ struct shfs_version v = { 0 };
	_cleanup_free_ char *path = shfs_operand_path(operand);
	int r = path ? shfs_path_is_known(j->index, path) : -ENOMEM;
	int code;

	if (!r && strrchr(operand, '@')) {
		code = shfs_version_spec_find(j->index, operand, &v);
		if (code)
			return code;
		r = take_version(j, v.file_id, v.n, v.path);
		return r ? explain_forget_failure(j, r) : 0;
	}
	if (!r)
		return shfs_fail_unseen(j->index, path);
	r = r < 0 ? r : shfs_filter_add(&files, SHFS_FILTER_PATH, operand);
	return r < 0 ? explain_forget_failure(j, r) : 0;
}

static int choose_forgotten(struct job *j)
{
	bool of_versions = shfs_filter_is_of_versions(&files);
	int r = 0;

	if (!files.n)
		return j->of_commands ? take_commands(j, true) : 0;
	if (j->of_commands)
		r = take_commands(j, false);
	if (r || (!j->of_commands && !of_versions))
		return r ? r : take_files(j);
	r = take_versions(j);
	return r || of_versions ? r : take_accesses(j);
}

#define NOTES "SELECT note_id FROM v_note_record WHERE "

/* Takes the notes with that text or tag, replaced and removed ones too, whatever they are
 * about: if it is all that is asked for. */
static int take_notes(struct job *j)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	const char *grep = shfs_filter_text(&commands, SHFS_FILTER_GREP);
	const char *text = grep ?: shfs_filter_text(&commands, SHFS_FILTER_REGEX);
	bool alone = commands.n == 1 && !commands.no_command && !j->of_files;
	int r;

	j->notes_stay = false;
	if (!text)
		return 0;
	r = shfs_rows_open_str(j->index,
	                       grep ? NOTES "instr(text, ?1) > 0 OR instr(tag, ?1) > 0"
	                            : NOTES "text REGEXP ?1 OR tag REGEXP ?1",
	                       text, &rows);
	while (!r && !j->notes_stay && (r = shfs_rows_next(rows)) > 0) {
		j->notes_stay = !alone;
		r = alone ? shfs_forget_add(j->forget, SHFS_FORGET_NOTE,
		                            shfs_rows_int(rows, 0))
		          : 0;
	}
	return r;
}

/* --- one pass --- */

static void job_end(struct job *j)
{
	shfs_forget_close(TAKE_PTR(j->forget));
	shfs_ids_free(&j->taken);
	shfs_buf_free(&j->out);
	j->index = NULL;
	j->taken = (struct shfs_ids){ 0 };
	j->shown = 0;
}

static int job_begin(struct job *j, bool to_forget)
{
	int r = shfs_forget_open(j->store, j->hook_dir, to_forget ? &j->beside : NULL,
	                         &j->forget);
	size_t n = files.n;
	int code = 0;

	if (r)
		return explain_forget_failure(j, r);
	j->index = shfs_forget_index(j->forget);
	if (to_forget && shfs_forget_is_alone(j->forget))
		code = check_producers(j);
	for (int i = 0; i < j->argc && !code; i++)
		code = take_operand(j, j->argv[i]);
	if (!code)
		code = shfs_filter_resolve(&files, j->ctx, j->index);
	r = code ? 0 : choose_forgotten(j) ?: take_notes(j);
	shfs_filter_cut(&files, n);
	if (opts.everywhere)
		shfs_forget_everywhere(j->forget);
	if (!code && !r)
		r = shfs_forget_measure(j->forget, &j->stats);
	return r ? explain_forget_failure(j, r) : code;
}

static void hint_at_notes(const struct job *j)
{
	if (j->notes_stay)
		shfs_hint("notes have that text, too, and stay: --grep or --regex alone "
		          "takes them");
}

/* 0; an exit code, or -1: nothing is left to do. */
static int check_any(const struct job *j)
{
	const struct shfs_forget_stats *s = &j->stats;

	if (s->commands || s->processes || s->accesses || s->versions || s->notes)
		return 0;
	if (j->finished)
		return -1;
	shfs_error("nothing matches, so nothing is forgotten");
	hint_at_notes(j);
	return SHFS_EXIT_NOT_FOUND;
}

/* --- output --- */

static int json_forget(const struct job *j, bool done)
{
	struct shfs_json json = { 0 };

	shfs_json_begin(&json, "forget");
	shfs_json_bool(&json, "done", done);
	shfs_json_int(&json, "commands", (int64_t)j->stats.commands);
	shfs_json_int(&json, "processes", (int64_t)j->stats.processes);
	shfs_json_int(&json, "accesses", (int64_t)j->stats.accesses);
	shfs_json_int(&json, "versions", (int64_t)j->stats.versions);
	shfs_json_int(&json, "notes", (int64_t)j->stats.notes);
	shfs_json_int(&json, "elsewhere", (int64_t)j->stats.elsewhere);
	shfs_json_int(&json, "objects", (int64_t)j->stats.objects);
	shfs_json_int(&json, "bytes", (int64_t)j->stats.bytes);
	return shfs_json_end(&json) ? SHFS_EXIT_OK : SHFS_EXIT_FAILURE;
}

static void show_forget_counts(struct shfs_buf *out, const struct shfs_forget_stats *s)
{
	shfs_buf_printf(out, "%" PRIu64 " command%s, ", s->commands,
	                shfs_plural(s->commands));
	if (s->processes)
		shfs_buf_printf(out, "%" PRIu64 " process%s of no command, ",
		                s->processes, s->processes == 1 ? "" : "es");
	if (s->notes)
		shfs_buf_printf(out, "%" PRIu64 " note%s, ", s->notes,
		                shfs_plural(s->notes));
	shfs_buf_printf(out,
	                "%" PRIu64 " access%s, %" PRIu64 " version%s; %" PRIu64
	                " content%s, ",
	                s->accesses, s->accesses == 1 ? "" : "es", s->versions,
	                shfs_plural(s->versions), s->objects, shfs_plural(s->objects));
	shfs_show_size(out, s->bytes);
}

/* what: "would be forgotten" */
static int show_forgotten(struct job *j, FILE *to, const char *what)
{
	_cleanup_buf_ struct shfs_buf counts = { 0 };

	show_forget_counts(&counts, &j->stats);
	if (j->shown > SHOWN_MAX)
		shfs_buf_printf(&j->out, "%s and %zu more\n", shfs_sign("…"),
		                j->shown - SHOWN_MAX);
	if (counts.failed || j->out.failed)
		return explain_forget_failure(j, -ENOMEM);
	fprintf(to, "%s%s: %s\n", j->out.data ? j->out.data : "", what, counts.data);
	return SHFS_EXIT_OK;
}

/* Reports other files and versions that have the same contents. */
static int say_elsewhere(struct job *j, FILE *to)
{
	_cleanup_buf_ struct shfs_buf out = { 0 };
	size_t n;
	const int64_t *ids = shfs_forget_elsewhere(j->forget, &n);
	int r = 0;

	for (size_t i = 0; i < MIN(n, (size_t)SHOWN_MAX) && !r; i++) {
		_cleanup_rows_ struct shfs_rows *rows = NULL;

		r = shfs_rows_open(j->index, "SELECT path FROM v_path WHERE file_id = ?",
		                   &rows);
		if (!r)
			r = shfs_rows_bind_int(rows, 1, ids[i] >> 32);
		if (!r)
			r = shfs_rows_next(rows);
		if (r > 0) {
			shfs_buf_str(&out, "elsewhere: ");
			shfs_show_version(&out, shfs_rows_text(rows, 0),
			                  ids[i] & UINT32_MAX);
			shfs_buf_char(&out, '\n');
			r = 0;
		}
	}
	if (n > SHOWN_MAX)
		shfs_buf_printf(&out, "%s and %zu more\n", shfs_sign("…"), n - SHOWN_MAX);
	if (r || out.failed)
		return explain_forget_failure(j, r ? r : -ENOMEM);
	fprintf(to, "%sthe same content stays in %zu version%s elsewhere\n",
	        out.data ? out.data : "", n, shfs_plural(n));
	return SHFS_EXIT_OK;
}

static int confirm_forget(struct job *j)
{
	int code = SHFS_EXIT_OK;

	if (j->of_files && j->stats.elsewhere)
		code = say_elsewhere(j, stderr);
	if (code)
		return code;
	if (j->of_files && j->stats.elsewhere)
		opts.everywhere = shfs_ask("Forget these, too? [y/N] ");
	if (shfs_ask("Forget this? It cannot be brought back. [y/N] "))
		return SHFS_EXIT_OK;
	shfs_error("nothing is forgotten");
	return SHFS_EXIT_REFUSED;
}

/* Shows the selection. 0: go on; an exit code, or -1: done. */
static int preview(struct job *j)
{
	int code;

	j->show = !opts.json;
	code = job_begin(j, false);
	if (!code)
		code = check_any(j);
	if (!code && opts.dry_run && !opts.json && j->of_files && j->stats.elsewhere)
		code = say_elsewhere(j, stdout);
	if (!code && opts.dry_run)
		code = (opts.json ? json_forget(j, false)
		                  : show_forgotten(j, stdout, "would be forgotten"))
		               ?: -1;
	if (!code && !opts.dry_run) {
		code = show_forgotten(j, stderr, "this is to be forgotten");
		if (!code)
			code = confirm_forget(j);
	}
	job_end(j);
	return code;
}

/* Looks for what commands that are run again have put into the store: it names files, and
 * may hold their contents. */
static int check_reruns(struct job *j)
{
	_cleanup_free_ char *path = NULL;
	int r = shfs_before_remove_ended(j->store, &path);

	if (r)
		return explain_forget_failure(j, r);
	return path ? refuse_forget("a rerun that is at work, or was killed, keeps files "
	                            "as they were: ",
	                            path,
	                            "let it end; after a kill, shfs rerun puts them back "
	                            "(on the machine where it ran)")
	            : 0;
}

/* Removes what a pull has fetched and not taken. */
static int check_pulls(struct job *j)
{
	int r = place_remove_incoming(j->store);

	if (r == -EBUSY)
		return refuse_forget("a pull or push of this store is at work", "",
		                     "try again when it has ended");
	return r ? explain_forget_failure(j, r) : 0;
}

static int note_pushed(void *arg, const char *name)
{
	struct job *j = arg;
	_cleanup_place_ struct place place = { .dirfd = -1 };
	int r = place_open(j->store, name, &place);

	if (!r && (!faccessat(place.dirfd, "pushed", F_OK, 0) ||
	           !faccessat(place.dirfd, "unfinished", F_OK, 0)))
		shfs_buf_printf(&j->out, "%s%s", j->out.len ? ", " : "", name);
	return r;
}

/* A remote has it until the next push. */
static void hint_at_remotes(struct job *j)
{
	j->out.len = 0;
	if (!place_each(j->store, note_pushed, j) && j->out.len)
		shfs_hint("it is still on what was pushed to (%s): shfs push removes it "
		          "there",
		          j->out.data);
}

/* A team's database has it until the next publish. */
static void hint_at_databases(struct job *j)
{
	j->out.len = 0;
	if (!published_list(j->store, &j->out) && j->out.len)
		shfs_hint("it is still in what was published (%s): shfs publish removes "
		          "it there",
		          j->out.data);
}

static int do_it(struct job *j)
{
	int r, code;

	j->show = false;
	code = check_reruns(j) ?: check_pulls(j) ?: job_begin(j, true);
	if (!code)
		code = check_any(j);
	if (code)
		return code;
	if (opts.yes && j->of_files && j->stats.elsewhere && !opts.json)
		code = say_elsewhere(j, stderr); /* afterwards nothing shows where they
		                                  * are */
	if (code)
		return code;
	j->index = NULL;
	r = shfs_forget_run(j->forget);
	team_forget(); /* what --db has kept may have it as well */
	if (r && shfs_forget_pending(j->store) > 0) {
		shfs_error("the forget is not complete: %s", strerror(-r));
		shfs_hint("shfs forget --resume completes it");
		return SHFS_EXIT_FAILURE;
	}
	if (r)
		return explain_forget_failure(j, r);
	code = opts.json ? json_forget(j, true) : show_forgotten(j, stdout, "forgotten");
	if (code)
		return code;
	hint_at_notes(j);
	hint_at_remotes(j);
	hint_at_databases(j);
	return 0;
}

/* Completes an interrupted forget. */
static int finish_pending_forget(struct job *j)
{
	int r = shfs_forget_pending(j->store);

	if (r <= 0)
		return r ? explain_forget_failure(j, r) : 0;
	r = shfs_forget_finish(j->store, j->hook_dir, &j->beside);
	team_forget();
	if (r)
		return explain_forget_failure(j, r);
	shfs_warn("an earlier, interrupted shfs forget is complete now");
	j->finished = true;
	return 0;
}

/* --- the command --- */

static bool resume;

/* Reads --content FILE before the time up to which records count: a mount would record
 * the read. */
static int read_contents(struct job *j)
{
	size_t n = files.n;
	int code = 0;

	if (!shfs_filter_text(&files, SHFS_FILTER_CONTENT))
		return 0;
	if (!shfs_context_index(j->ctx, &code))
		return code;
	code = shfs_filter_resolve(&files, j->ctx, shfs_context_index(j->ctx, &code));
	shfs_filter_cut(&files, n);
	return code;
}

static int forget_selection(struct job *j)
{
	int code = finish_pending_forget(j);

	if (code || resume)
		return code;
	code = shfs_filter_split(&commands, &files);
	if (code)
		return explain_forget_failure(j, code);
	j->of_commands = commands.n || commands.no_command;
	j->of_files = files.n || j->argc;
	code = read_contents(j);
	if (!code && (opts.dry_run || !opts.yes))
		code = preview(j);
	if (!code)
		code = do_it(j);
	job_end(j);
	return MAX(code, 0);
}

/* Does the hook have logs? It keeps what was typed before there is a store, and that must
 * be forgotten in a new one. */
static bool has_hook_logs(struct shfs_context *ctx)
{
	_cleanup_free_ char *path = NULL;

	return asprintf(&path, "%s/journal", shfs_context_store_path(ctx)) >= 0 &&
	       !access(path, F_OK);
}

static int run_forget(struct shfs_context *ctx, int argc, char **argv)
{
	struct job j = { .ctx = ctx, .argc = argc, .argv = argv };
	int code = SHFS_EXIT_OK;

	if (!commands.n && !commands.no_command && !argc && !resume) {
		shfs_error("forget what? Name files, or say which commands");
		shfs_hint("shfs help forget");
		return SHFS_EXIT_USAGE;
	}
	if (commands.no_command && !shfs_filter_fits_processes(&commands)) {
		shfs_error("--no-command: a process without a command has no id, session "
		           "or status");
		return SHFS_EXIT_USAGE;
	}
	if (!opts.yes && !opts.dry_run && !resume && !isatty(STDIN_FILENO)) {
		shfs_error("without a terminal to ask, --yes or --dry-run is needed");
		return SHFS_EXIT_USAGE;
	}
	commands.in_definitions = true;
	j.beside = (struct shfs_forget_beside){ seal_mounted_segments, &j };
	j.store = shfs_context_store(ctx, has_hook_logs(ctx), &code);
	if (!j.store)
		return code;
	shfs_mounts_sync(j.store->path, false);
	j.hook_dir = shfs_runtime_hook_dir(j.store->path);
	code = forget_selection(&j);
	if (!opts.dry_run)
		shfs_mounts_let_go(j.store->path);
	free(j.hook_dir);
	free(j.busy);
	shfs_filter_free(&commands);
	shfs_filter_free(&files);
	return code;
}

static int set_forget_option(const struct shfs_option *opt, const char *value)
{
	return shfs_filter_option(&commands, opt, value);
}

const struct shfs_command shfs_cmd_forget = {
	.name = "forget",
	.args = "[FILE[@N]]…",
	.summary = "Remove commands, files or versions from the journal, for good",
	.description =
		"Conditions on commands (--grep, --since, …) select commands, all that "
		"they\n"
		"did, and the versions that they made. A FILE (or all below a "
		"directory)\n"
		"selects its versions and uses by any program; so do --name, --content,\n"
		"--size and --modified-*. Both kinds together select what these "
		"commands\n"
		"did with these files. --no-command selects processes that belong to no\n"
		"command; --grep then searches their arguments.\n"
		"Contents that nothing names any more are removed. Your files are not\n"
		"touched. Mounts go on recording meanwhile; later uses of a file that "
		"is\n"
		"still there are recorded as usual.",
	.alone = true,
	.options = {
	SHFS_FILTER_OPTIONS,
	{ "no-command", 0, NULL,
	  "processes of no command (of cron, an IDE), with their arguments",
	  .flag = &commands.no_command },
	{ "everywhere", 0, NULL, "also files with the same content under other names",
	  .flag = &opts.everywhere },
	{ "dry-run", 'n', NULL, "only show what would go, and how many bytes",
	  .flag = &opts.dry_run },
	{ "yes", 'y', NULL, "do not ask", .flag = &opts.yes },
	{ "resume", 0, NULL, "only complete an interrupted forget", .flag = &resume },
	{ "json", 0, NULL, "for programs: see docs/json.md", .flag = &opts.json },
	},
	.operands = { 0, -1 },
	.option = set_forget_option,
	.run = run_forget,
};
