/* SPDX-License-Identifier: MIT */
/* `shfs undo`: put back what commands did, and nothing else. */
#include "query/base/cmd.h"
#include "query/history/filter.h"
#include "query/undo/run.h"
#include "query/undo/selection.h"

#include "common/path.h"
#include "common/quote.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct shfs_filter filter;
static struct shfs_undo_options options;
static struct {
	bool dry_run, patch, yes, json, partly, last;
	int64_t n_last;
	const char *program;
} opts;

struct job {
	struct shfs_context *ctx;
	struct shfs_index *index;
	struct shfs_undo_selection selection; /* with --program by process */
	struct shfs_undo_run run;
};

/* --- what is selected --- */

/* Takes the last commands of this session that changed something. */
static int take_last(struct job *j)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int64_t session_id, n = opts.n_last ?: 1;
	int r = shfs_session_own(j->index, &session_id);

	if (!r)
		r = shfs_rows_open_ints(j->index,
		                        "SELECT command_id FROM v_command"
		                        " WHERE ?1 = 0 OR session_id = ?1"
		                        " ORDER BY begin_ns DESC",
		                        SHFS_INTS(session_id), &rows);
	while (!r && n && (r = shfs_rows_next(rows)) > 0) {
		r = shfs_undo_select_command(&j->selection, shfs_rows_int(rows, 0));
		n -= r > 0;
		r = MIN(r, 0);
	}
	return MIN(r, 0);
}

/* A process, as far as its children are to be found. */
struct process {
	int64_t process_id, pid, ppid, start, command_id, first_ns;
	bool taken;
};

/* name: of its file, or what it was called as. */
static bool is_program(const char *name)
{
	return !strcmp(name, opts.program) || !strcmp(basename(name), opts.program);
}

/* Takes the processes that ran the program, and those that they started. */
static int take_processes(struct job *j, struct shfs_rows *rows)
{
	_cleanup_free_ struct process *list = NULL;
	size_t n = 0, cap = 0;
	bool again = true;
	int r;

	while ((r = shfs_rows_next(rows)) > 0) {
		if (!MAKE_ROOM(list, n, cap))
			return -ENOMEM;
		list[n++] = (struct process){
			.process_id = shfs_rows_int(rows, 0),
			.pid = shfs_rows_int(rows, 1),
			.ppid = shfs_rows_int(rows, 2),
			.start = shfs_rows_int(rows, 3),
			.first_ns = shfs_rows_int(rows, 4),
			.taken = is_program(shfs_rows_text(rows, 5)) ||
			         is_program(shfs_rows_text(rows, 6)),
		};
	}
	while (!r && again) {
		again = false;
		for (size_t i = 0; i < n; i++)
			for (size_t k = 0; k < n && !list[i].taken; k++)
				if (list[k].taken && list[i].ppid == list[k].pid &&
				    list[i].start >= list[k].start)
					again = list[i].taken = true;
	}
	for (size_t i = 0; i < n && !r; i++)
		if (list[i].taken)
			r = shfs_ids_add(&j->selection.ids, list[i].process_id);
	shfs_ids_sort(&j->selection.ids);
	return r;
}

static int take_processes_of(struct job *j, int64_t command_id)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open_ints(
		j->index,
		"SELECT process_id, pid, ppid, start_ticks, first_ns, exe, argv"
		" FROM v_process WHERE command_id = ?1",
		SHFS_INTS(command_id), &rows);

	return r ? r : take_processes(j, rows);
}

static int take_loose_processes(struct job *j)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open(
		j->index,
		"SELECT process_id, pid, ppid, start_ticks, first_ns, exe, argv"
		" FROM v_loose_process",
		&rows);

	return r ? r : take_processes(j, rows);
}

static int take_entry(struct job *j, bool is_process, int64_t id)
{
	int r = opts.program && !is_process ? take_processes_of(j, id) : 0;

	if (!r && !is_process)
		return shfs_undo_select_alone(&j->selection, id);
	return r ? r : shfs_effects_add_process(&j->selection.effects, j->index, id);
}

static int take_selected(struct job *j)
{
	_cleanup_query_ struct shfs_query query = { 0 };
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r;

	filter.all = true;
	if (opts.program && shfs_filter_fits_processes(&filter)) {
		r = take_loose_processes(j);
		if (r)
			return r;
	}
	r = shfs_filter_measure(&filter, j->index);
	if (!r)
		r = shfs_filter_query(&filter, &query);
	if (!r)
		r = shfs_query_open(&query, j->index, &rows);
	while (!r && (r = shfs_rows_next(rows)) > 0) {
		bool is_process = shfs_rows_int(rows, 0);

		/* a process of no command only by its program */
		r = is_process && !opts.program
		            ? 0
		            : take_entry(j, is_process, shfs_rows_int(rows, 1));
		r = MIN(r, 0);
	}
	if (!r && !opts.program)
		return MIN(shfs_undo_select_given(&j->selection, &j->selection.ids), 0);
	if (!r)
		shfs_undo_selection_filter(&j->selection);
	return r;
}

/* Sorts the operands: ids of commands, and paths. A file of such a name is one. */
static int take_operands(struct job *j, int argc, char **argv)
{
	options.paths = calloc(argc + 1, sizeof(*options.paths));
	for (int i = 0; i < argc && options.paths; i++) {
		int64_t id;
		int r = shfs_command_is_id(argv[i]) && access(argv[i], F_OK)
		                ? shfs_command_find(j->index, argv[i], &id)
		                : 0;
		char *path;

		if (r == -ENOTUNIQ)
			return SHFS_EXIT_NOT_FOUND;
		if (r > 0)
			r = shfs_filter_add(&filter, SHFS_FILTER_COMMAND, argv[i]) ?: 1;
		if (r < 0)
			return shfs_fail_index(j->index, r);
		if (r > 0)
			continue;
		path = shfs_operand_path(argv[i]);
		if (!path)
			return shfs_fail_index(j->index, -ENOMEM);
		options.paths[options.n_paths++] = path;
		r = shfs_path_is_known(j->index, path);
		if (r <= 0)
			return r ? shfs_fail_index(j->index, r)
			         : shfs_fail_unseen(j->index, path);
	}
	return options.paths ? 0 : shfs_fail_index(j->index, -ENOMEM);
}

static int select_effects(struct job *j, int argc, char **argv)
{
	int code = take_operands(j, argc, argv), r;

	if (!code && !filter.n && !opts.last && !opts.program) {
		shfs_error("undo what? Name commands, or use --last, --since, --session");
		shfs_hint("shfs history shows their ids");
		return SHFS_EXIT_USAGE;
	}
	if (!code)
		code = shfs_filter_resolve(&filter, j->ctx, j->index);
	if (code)
		return code;
	r = opts.last ? take_last(j) : take_selected(j);
	if (r < 0)
		return shfs_fail_index(j->index, r);
	shfs_undo_selection_sort(&j->selection);
	if (j->selection.effects.n)
		return 0;
	shfs_error("nothing that was selected has changed a file");
	if (!options.git)
		shfs_hint("what was done in .git counts only with --git");
	return SHFS_EXIT_NOT_FOUND;
}

static int run_alone(struct job *j, int argc, char **argv)
{
	int code = shfs_undo_begin(&j->run);

	if (!code)
		code = select_effects(j, argc, argv);
	j->run.plan.selected = &j->selection.ids;
	j->run.plan.by_process = opts.program;
	return code ? code
	            : shfs_undo_plan_and_run(&j->run, &options, &j->selection.effects);
}

static int run_undo(struct shfs_context *ctx, struct shfs_index *index, int argc,
                    char **argv)
{
	static const struct shfs_undo_words words = {
		.command = "undo",
		.done = "undone",
		.heads = { "To be undone", "Undone" },
		.question = "Undo this? [y/N] ",
		.all_as_it_was = "Nothing to undo: all is as it was before.",
	};
	struct job j = {
		.ctx = ctx,
		.index = index,
		.selection = { .index = index,
		               .by_process = opts.program,
		               .git = options.git },
		.run = { .words = &words,
		         .dry_run = opts.dry_run,
		         .patch = opts.patch,
		         .yes = opts.yes,
		         .json = opts.json,
		         .partly = opts.partly,
		         .ctx = ctx,
		         .index = index },
	};
	int code = run_alone(&j, argc, argv);

	shfs_undo_end(&j.run);
	shfs_undo_selection_clear(&j.selection);
	shfs_filter_free(&filter);
	while (options.n_paths)
		free(options.paths[--options.n_paths]);
	free(TAKE_PTR(options.paths));
	return code;
}

static int set_undo_option(const struct shfs_option *opt, const char *value)
{
	if (strcmp(opt->name, "last") != 0)
		return shfs_filter_option(&filter, opt, value);
	opts.last = true;
	return value ? shfs_count_option(opt, value, &opts.n_last) : 0;
}

static int check_undo_options(struct shfs_context *ctx, int argc)
{
	if (opts.patch && opts.json)
		shfs_error("--patch and --json exclude each other");
	else if (opts.last && (filter.n || opts.program))
		shfs_error("--last goes with no other selection");
	else if (opts.json && !opts.dry_run && !opts.yes)
		shfs_error("--json goes with --dry-run or --yes");
	else
		return 0;
	return SHFS_EXIT_USAGE;
}

const struct shfs_command shfs_cmd_undo = {
	.name = "undo",
	.args = "[COMMAND…] [PATH…]",
	.summary = "Put back what commands did, and nothing else",
	.description = "Contents, names, modes, times, links and directories become what "
		       "they were\n"
		       "before; what others have changed since is left alone, and named "
		       "(exit status 4).\n"
		       "Shows what is to be done, and asks. With PATH, only what lies "
		       "there. An undo\n"
		       "is a command like others: undone, it is a redo.",
	.options = {
	SHFS_FILTER_OPTIONS,
	{ "last", 0, "[=N]", "the last N commands of this session that changed files" },
	{ "program", 0, "PROGRAM", "only what processes of this program did, and their children",
	  .text = &opts.program },
	{ "dry-run", 'n', NULL, "only show what would be done", .flag = &opts.dry_run },
	{ "patch", 'p', NULL, "with --dry-run: contents as a diff", .flag = &opts.patch },
	{ "yes", 'y', NULL, "do not ask", .flag = &opts.yes },
	{ "merge", 0, NULL, "merge files that others have changed since (git merge-file)",
	  .flag = &options.merge },
	{ "git", 0, NULL, "also what was done in .git", .flag = &options.git },
	{ "partly", 0, NULL, "go on where something cannot be put back",
	  .flag = &opts.partly },
	{ "force", 'f', NULL, "remove contents that are not archived",
	  .flag = &options.force },
	{ "json", 0, NULL, "for programs: see docs/json.md", .flag = &opts.json },
	},
	.on_demand = true,
	.operands = { 0, -1 },
	.option = set_undo_option,
	.check = check_undo_options,
	.run_on_index = run_undo,
};
