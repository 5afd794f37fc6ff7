/* SPDX-License-Identifier: MIT */
/* `shfs rerun`: run stale results' commands again, and compare the new results. */
#include "query/rerun/rerun.h"
#include "query/base/cmd.h"
#include "query/base/context.h"
#include "query/base/mounts.h"
#include "query/graph/show.h"
#include "query/history/version-spec.h"
#include "query/rerun/reads.h"
#include "query/rerun/runner.h"

#include "common/io.h"
#include "common/path.h"
#include "common/quote.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>

#define DEVIATIONS_MAX 64

static struct {
	const char *command, *scratch;
	bool in_scratch, in_record, dry_run, yes, force, keep_going, json;
	struct deviation {
		const struct shfs_option *option;
		const char *word;
	} deviations[DEVIATIONS_MAX];
	size_t n_deviations;
} opts;

struct rerun {
	struct shfs_rerun plan;
	struct shfs_stale *stale;
	struct shfs_deviations deviations;
	const struct shfs_style *style;
	char *top; /* of the scratch copy */
	bool top_is_new;
};

/* --- the plan, for people --- */

#define LEAVES_SHOWN 5

/* Names the files outside that a step writes: they are compared with nothing, nor put
 * back. */
static void show_leaves(struct shfs_buf *out, const struct shfs_rerun_step *step)
{
	for (size_t i = 0; i < step->leaves.n; i++) {
		if (i == LEAVES_SHOWN && step->leaves.n > LEAVES_SHOWN + 1) {
			shfs_buf_printf(out, " and %zu more", step->leaves.n - i);
			break;
		}
		shfs_buf_str(out, i ? ", " : "\n         writes outside: ");
		shfs_show_path(out, step->leaves.list[i]);
	}
}

static void show_step_head(struct rerun *rerun, const struct shfs_rerun_step *step)
{
	_cleanup_buf_ struct shfs_buf out = { 0 };

	if (shfs_entry_show_head(rerun->plan.index, rerun->style, &step->entry,
	                         shfs_show_columns(), &out))
		shfs_buf_str(&out, step->entry.command.id);
	shfs_buf_printf(&out, "\n         %sin ", rerun->style->dim);
	shfs_show_directory(&out, step->entry.command.cwd);
	if (step->stale && step->stale->needed)
		shfs_buf_str(&out, ", because its result was removed");
	if (step->edited) {
		shfs_buf_str(&out, "\n         as ");
		shfs_quote_display(&out, step->script.text.data, step->script.text.len);
	}
	show_leaves(&out, step);
	shfs_buf_printf(&out, "%s\n", rerun->style->off);
	(void)!shfs_show_flush(&out);
}

static const char *outcome_words(enum shfs_rerun_outcome outcome)
{
	static const char *const words[] = {
		[SHFS_RERUN_SAME] = "same",
		[SHFS_RERUN_DIFFERENT] = "different",
		[SHFS_RERUN_NEW] = "new",
		[SHFS_RERUN_NOT_MADE] = "not made",
		[SHFS_RERUN_UNCOMPARED] = "made; the earlier content is not archived",
	};

	return words[outcome];
}

static void show_result(struct rerun *rerun, const struct shfs_rerun_step *step,
                        const struct shfs_rerun_result *result)
{
	_cleanup_buf_ struct shfs_buf out = { 0 };
	const char *path = result->use->path;
	bool bad = result->outcome == SHFS_RERUN_NOT_MADE;
	bool put_back =
		step->state == SHFS_RERUN_FAILED && result->outcome == SHFS_RERUN_SAME;

	shfs_buf_str(&out, "         ");
	shfs_show_version(&out, path, result->before.path ? result->before.n : 0);
	shfs_buf_printf(&out, "  %s%s%s\n", bad ? rerun->style->bad : rerun->style->dim,
	                put_back ? "as it was" : outcome_words(result->outcome),
	                rerun->style->off);
	(void)!shfs_show_flush(&out);
}

static void show_step_begin(void *arg, const struct shfs_rerun_step *step)
{
	if (!opts.json)
		show_step_head(arg, step);
}

static void show_step_end(void *arg, const struct shfs_rerun_step *step)
{
	struct rerun *rerun = arg;
	_cleanup_buf_ struct shfs_buf shown = { 0 };

	if (step->state == SHFS_RERUN_FAILED || step->state == SHFS_RERUN_LEFT_OUT)
		shfs_command_show(&shown, rerun->plan.index, &step->entry.command);
	fflush(stdout);
	if (step->state == SHFS_RERUN_LEFT_OUT)
		shfs_error("%s was not run: an input of it was not made",
		           shown.data ?: "");
	else if (step->state == SHFS_RERUN_FAILED && shfs_runner_signal())
		shfs_error("%s was interrupted", shown.data ?: "");
	else if (step->state == SHFS_RERUN_FAILED && step->status)
		shfs_error("%s ended with %d", shown.data ?: "", step->status);
	else if (step->state == SHFS_RERUN_FAILED)
		shfs_error("%s did not make all of its recorded results",
		           shown.data ?: "");
	if (opts.json ||
	    (step->state != SHFS_RERUN_RAN && step->state != SHFS_RERUN_FAILED))
		return;
	for (size_t i = 0; i < step->n_results; i++)
		if (step->results[i].outcome)
			show_result(rerun, step, &step->results[i]);
}

/* Hints at files that are missing, and can be restored. */
static void hint_lost(const struct rerun *rerun)
{
	for (size_t i = 0; i < rerun->plan.n; i++) {
		const struct shfs_rerun_step *step = &rerun->plan.steps[i];

		for (size_t k = 0;
		     k < step->n_results && step->state == SHFS_RERUN_FAILED; k++) {
			const struct shfs_rerun_result *result = &step->results[k];
			_cleanup_buf_ struct shfs_buf name = { 0 };

			if (!result->before.path || result->outcome == SHFS_RERUN_SAME ||
			    !(result->before.flags & SHFS_CONTENT_OBJECT))
				continue;
			shfs_show_version(&name, result->use->path, result->before.n);
			shfs_hint("shfs restore %s brings back what it held",
			          name.data ?: "");
		}
	}
}

static size_t count_state(const struct shfs_rerun *plan, enum shfs_rerun_state state)
{
	size_t n = 0;

	for (size_t i = 0; i < plan->n; i++)
		n += plan->steps[i].state == state;
	return n;
}

static size_t count_outcome(const struct shfs_rerun *plan,
                            enum shfs_rerun_outcome outcome)
{
	size_t n = 0;

	for (size_t i = 0; i < plan->n; i++)
		for (size_t k = 0; k < plan->steps[i].n_results; k++)
			n += plan->steps[i].state == SHFS_RERUN_RAN &&
			     plan->steps[i].results[k].outcome == outcome;
	return n;
}

static void show_sum(const struct rerun *rerun)
{
	const struct shfs_rerun *plan = &rerun->plan;
	size_t ran = count_state(plan, SHFS_RERUN_RAN);
	size_t unneeded = count_state(plan, SHFS_RERUN_UNNEEDED);
	size_t failed = count_state(plan, SHFS_RERUN_FAILED);
	size_t refused = count_state(plan, SHFS_RERUN_REFUSED);
	size_t rest = plan->n - ran - unneeded - failed - refused;
	_cleanup_buf_ struct shfs_buf out = { 0 };

	shfs_buf_printf(&out, "%s%zu command%s run", rerun->style->dim, ran,
	                shfs_plural(ran));
	if (unneeded)
		shfs_buf_printf(&out, ", %zu not needed: nothing it reads changed",
		                unneeded);
	if (failed)
		shfs_buf_printf(&out, ", %zu failed", failed);
	if (refused)
		shfs_buf_printf(&out, ", %zu refused", refused);
	if (rest)
		shfs_buf_printf(&out, ", %zu not run", rest);
	shfs_buf_printf(&out, "; results: %zu same, %zu different",
	                count_outcome(plan, SHFS_RERUN_SAME),
	                count_outcome(plan, SHFS_RERUN_DIFFERENT));
	shfs_buf_printf(&out, "%s\n", rerun->style->off);
	if (rerun->top) {
		shfs_buf_str(&out, "in ");
		shfs_quote_display(&out, rerun->top, strlen(rerun->top));
		shfs_buf_char(&out, '\n');
	}
	(void)!shfs_show_flush(&out);
}

/* --- what the commands read now, and did not then --- */

#define READS_SHOWN 20

static void show_reads(const struct shfs_rerun_paths *paths, const char *lead)
{
	_cleanup_buf_ struct shfs_buf out = { 0 };

	for (size_t i = 0; i < paths->n && i < READS_SHOWN; i++) {
		shfs_buf_printf(&out, "         %s ", lead);
		shfs_show_path(&out, paths->list[i]);
		shfs_buf_char(&out, '\n');
	}
	if (paths->n > READS_SHOWN)
		shfs_buf_printf(&out, "         %s %zu more\n", lead,
		                paths->n - READS_SHOWN);
	if (paths->of_system)
		shfs_buf_printf(&out, "         %s %zu file%s of the system\n", lead,
		                paths->of_system, shfs_plural(paths->of_system));
	(void)!shfs_show_flush(&out);
}

static int show_all_reads(struct rerun *rerun)
{
	for (size_t i = 0; i < rerun->plan.n; i++) {
		const struct shfs_rerun_step *step = &rerun->plan.steps[i];
		_cleanup_reads_ struct shfs_rerun_reads reads = { 0 };
		_cleanup_buf_ struct shfs_buf out = { 0 };
		int r = shfs_rerun_reads_load(&rerun->plan, step, &reads);

		if (r < 0)
			return r;
		if (!r)
			continue;
		shfs_command_show(&out, rerun->plan.index, &step->entry.command);
		shfs_buf_str(&out, reads.added.n || reads.added.of_system ||
		                                   reads.gone.n || reads.gone.of_system
		                           ? "\n"
		                           : "\n         reads the same files as then\n");
		(void)!shfs_show_flush(&out);
		show_reads(&reads.added, "also reads now:");
		show_reads(&reads.gone, "no longer reads:");
	}
	return 0;
}

/* --- JSON --- */

static void json_result(struct shfs_json *json, const struct shfs_rerun_result *result)
{
	static const char *const words[] = {
		[SHFS_RERUN_SAME] = "same",
		[SHFS_RERUN_DIFFERENT] = "different",
		[SHFS_RERUN_NEW] = "new",
		[SHFS_RERUN_NOT_MADE] = "not_made",
		[SHFS_RERUN_UNCOMPARED] = "uncompared",
	};

	shfs_json_object(json, NULL);
	shfs_json_str(json, "path", result->use->path);
	if (result->before.path)
		shfs_json_int(json, "n", result->before.n);
	else
		shfs_json_null(json, "n");
	shfs_json_str(json, "outcome", words[result->outcome]);
	shfs_json_object_end(json);
}

static void json_paths(struct shfs_json *json, const char *key,
                       const struct shfs_rerun_paths *paths)
{
	shfs_json_object(json, key);
	shfs_json_array(json, "paths");
	for (size_t i = 0; i < paths->n; i++)
		shfs_json_str(json, NULL, paths->list[i]);
	shfs_json_array_end(json);
	shfs_json_int(json, "of_system", (int64_t)paths->of_system);
	shfs_json_object_end(json);
}

static int json_reads(struct shfs_json *json, const struct rerun *rerun,
                      const struct shfs_rerun_step *step)
{
	_cleanup_reads_ struct shfs_rerun_reads reads = { 0 };
	int r = opts.in_record ? shfs_rerun_reads_load(&rerun->plan, step, &reads) : 0;

	if (r <= 0)
		return r;
	json_paths(json, "also_reads", &reads.added);
	json_paths(json, "no_longer_reads", &reads.gone);
	return 0;
}

static int json_step(struct shfs_json *json, const struct rerun *rerun,
                     const struct shfs_rerun_step *step)
{
	int r;

	static const char *const words[] = {
		[SHFS_RERUN_WAITS] = "waits",       [SHFS_RERUN_RAN] = "ran",
		[SHFS_RERUN_FAILED] = "failed",     [SHFS_RERUN_UNNEEDED] = "unneeded",
		[SHFS_RERUN_LEFT_OUT] = "left_out", [SHFS_RERUN_REFUSED] = "refused",
	};

	shfs_json_object(json, NULL);
	shfs_entry_json_head(json, &step->entry);
	shfs_json_str(json, "state", words[step->state]);
	if (step->state == SHFS_RERUN_RAN || step->state == SHFS_RERUN_FAILED)
		shfs_json_int(json, "exit_status", step->status);
	else
		shfs_json_null(json, "exit_status");
	if (step->edited)
		shfs_json_str(json, "as", step->script.text.data);
	shfs_json_array(json, "results");
	for (size_t i = 0; i < step->n_results; i++)
		json_result(json, &step->results[i]);
	shfs_json_array_end(json);
	shfs_json_array(json, "outside");
	for (size_t i = 0; i < step->leaves.n; i++)
		shfs_json_str(json, NULL, step->leaves.list[i]);
	shfs_json_array_end(json);
	r = json_reads(json, rerun, step);
	shfs_json_object_end(json);
	return r;
}

static int json_rerun(const struct rerun *rerun)
{
	_cleanup_json_ struct shfs_json json = { 0 };
	int r = 0;

	shfs_json_begin(&json, "rerun");
	shfs_json_bool(&json, "dry_run", opts.dry_run);
	shfs_json_str(&json, "scratch", rerun->top);
	shfs_json_array(&json, "commands");
	for (size_t i = 0; i < rerun->plan.n && !r; i++)
		r = json_step(&json, rerun, &rerun->plan.steps[i]);
	shfs_json_array_end(&json);
	return r ? r : shfs_json_end(&json) ? 0 : -EIO;
}

/* --- the scratch copy --- */

static int fail_top(const char *top, const char *what)
{
	_cleanup_buf_ struct shfs_buf shown = { 0 };

	shfs_quote_display(&shown, top, strlen(top));
	shfs_error("%s %s", shown.data ?: "", what);
	return SHFS_EXIT_REFUSED;
}

static int make_scratch_dir(struct rerun *rerun)
{
	const char *tmp = getenv("TMPDIR");

	if (asprintf(&rerun->top, "%s/shfs-rerun.XXXXXX",
	             tmp && *tmp == '/' ? tmp : "/tmp") < 0) {
		rerun->top = NULL;
		return shfs_fail_index(NULL, -ENOMEM);
	}
	rerun->top_is_new = mkdtemp(rerun->top);
	if (rerun->top_is_new)
		return 0;
	shfs_error("cannot make a directory for the copy: %s", strerror(errno));
	return SHFS_EXIT_FAILURE;
}

/* Finds the directory of the copy: a new or an empty one. Only a run makes it. */
static int find_top(struct rerun *rerun)
{
	struct stat st;

	if (!opts.scratch)
		return make_scratch_dir(rerun);
	rerun->top = shfs_operand_path(opts.scratch);
	if (!rerun->top)
		return shfs_fail_index(NULL, -ENOMEM);
	if (!stat(rerun->top, &st) && !shfs_is_empty_directory(rerun->top))
		return fail_top(rerun->top, "is not empty");
	return 0;
}

/* --- the commands --- */

static int add_named_command(struct rerun *rerun)
{
	_cleanup_buf_ struct shfs_buf shown = { 0 };
	int64_t id;
	int r = shfs_command_find(rerun->plan.index, opts.command, &id);

	if (r > 0)
		r = shfs_rerun_add(&rerun->plan, id, NULL) ?: 1;
	if (r > 0)
		return 0;
	if (r < 0 && r != -ENOTUNIQ)
		return shfs_fail_index(rerun->plan.index, r);
	shfs_quote_display(&shown, opts.command, strlen(opts.command));
	if (!r)
		shfs_error("no command's id begins with %s", shown.data ?: "");
	return SHFS_EXIT_NOT_FOUND;
}

static int add_stale(struct rerun *rerun, char *const *paths, size_t n)
{
	int r = shfs_stale_new(rerun->plan.index, paths, n, &rerun->stale);

	for (const struct shfs_stale_run *run = r ? NULL : shfs_stale_runs(rerun->stale);
	     run && !r; run = run->next)
		if ((run->stale || run->needed) && !run->again)
			r = shfs_rerun_add(&rerun->plan, run->entry->command.command_id,
			                   run);
	return r ? shfs_fail_index(rerun->plan.index, r) : 0;
}

static int add_paths(struct rerun *rerun, int argc, char **argv)
{
	static char here[] = ".", *all[] = { here };
	size_t n = argc ? argc : 1;
	char **paths = calloc(n, sizeof(*paths));
	int code = paths ? shfs_fail_if_empty(rerun->plan.index)
	                 : shfs_fail_index(NULL, -ENOMEM);

	if (!code)
		code = shfs_operand_paths(rerun->plan.index, n, argc ? argv : all, paths);
	if (!code)
		code = add_stale(rerun, paths, n);
	for (size_t i = 0; i < n && paths; i++)
		free(paths[i]);
	free(paths);
	return code;
}

/* --- what is otherwise --- */

static int read_deviations(struct rerun *rerun)
{
	int code = 0;

	for (size_t i = 0; i < opts.n_deviations && !code; i++) {
		const struct deviation *d = &opts.deviations[i];

		if (!strcmp(d->option->name, "with"))
			code = shfs_deviations_add_file(&rerun->deviations, d->word);
		else if (!strcmp(d->option->name, "env"))
			code = shfs_deviations_add_variable(&rerun->deviations, d->word);
		else
			code = shfs_deviations_add_edit(&rerun->deviations, d->word);
	}
	rerun->plan.options.deviations = &rerun->deviations;
	return code;
}

static int add_deviating(int64_t command_id, void *arg)
{
	struct rerun *rerun = arg;

	return shfs_rerun_add(&rerun->plan, command_id, NULL);
}

static int edit_commands(struct rerun *rerun)
{
	for (size_t i = 0; i < rerun->plan.n; i++) {
		struct shfs_rerun_step *step = &rerun->plan.steps[i];
		int r = shfs_deviations_edit(&rerun->deviations, &step->script.text);

		if (r < 0)
			return shfs_fail_index(rerun->plan.index, r);
		step->edited = r;
	}
	return 0;
}

/* Adds the commands behind the results that come out otherwise. */
static int add_otherwise(struct rerun *rerun, int argc, char **argv)
{
	struct shfs_version *targets = calloc((size_t)argc + 1, sizeof(*targets));
	int code = targets ? 0 : shfs_fail_index(NULL, -ENOMEM), r;

	if (!code && !argc) {
		shfs_error("which results? name their files, or a command by --command");
		code = SHFS_EXIT_USAGE;
	}
	for (int i = 0; i < argc && !code; i++)
		code = shfs_version_spec_find(rerun->plan.index, argv[i], &targets[i]);
	if (!code) {
		r = shfs_deviations_choose(&rerun->deviations, rerun->plan.index, targets,
		                           (size_t)argc, add_deviating, rerun);
		code = r ? shfs_fail_index(rerun->plan.index, r) : 0;
	}
	if (!code && !rerun->plan.n) {
		shfs_error("nothing behind these results would be otherwise");
		shfs_hint("shfs why shows the files and commands behind them");
		code = SHFS_EXIT_NOT_FOUND;
	}
	for (int i = 0; i < argc && targets; i++)
		shfs_version_clear(&targets[i]);
	free(targets);
	return code;
}

static int add_commands(struct rerun *rerun, int argc, char **argv)
{
	int code;

	if (opts.command)
		code = add_named_command(rerun);
	else if (opts.n_deviations)
		code = add_otherwise(rerun, argc, argv);
	else
		code = add_paths(rerun, argc, argv);
	return code ? code : edit_commands(rerun);
}

/* --- the run --- */

/* Shows what is to be run: what is refused was named with the reason. */
static void show_waiting(struct rerun *rerun)
{
	for (size_t i = 0; i < rerun->plan.n; i++)
		if (rerun->plan.steps[i].state == SHFS_RERUN_WAITS)
			show_step_head(rerun, &rerun->plan.steps[i]);
}

/* Asks whether to run: the user has not seen a list that was computed. */
static int confirm_rerun(const struct rerun *rerun)
{
	char answer[16];

	if (opts.yes || opts.command)
		return 0;
	if (!isatty(STDIN_FILENO) || opts.json) {
		shfs_error("these commands run again only after confirmation");
		shfs_hint("--yes confirms, --dry-run shows them");
		return SHFS_EXIT_REFUSED;
	}
	show_waiting((struct rerun *)rerun);
	printf("\nRun %s? [y/N] ", count_state(&rerun->plan, SHFS_RERUN_WAITS) == 1
	                                   ? "this command"
	                                   : "these commands");
	fflush(stdout);
	if (fgets(answer, sizeof(answer), stdin) && (*answer == 'y' || *answer == 'Y')) {
		putchar('\n');
		return 0;
	}
	puts("Nothing was run.");
	return SHFS_EXIT_REFUSED;
}

static int run_plan(struct rerun *rerun)
{
	struct shfs_rerun_watcher watcher = { show_step_begin, show_step_end, rerun };
	int taken = 0, r;

	rerun->top_is_new = false; /* the copy is kept */
	if (rerun->top && mkdir(rerun->top, 0777) && errno != EEXIST) {
		shfs_error("cannot make the directory of the copy: %s", strerror(errno));
		return SHFS_EXIT_FAILURE;
	}
	r = shfs_rerun_run(&rerun->plan, &watcher);
	if (r < 0 && r != -EINTR) {
		shfs_error("cannot go on: %s", strerror(-r));
		return SHFS_EXIT_FAILURE;
	}
	if (opts.in_record && (taken = shfs_rerun_take_in(&rerun->plan)))
		shfs_warn("what the commands read cannot be told: %s", strerror(-taken));
	if (opts.json && json_rerun(rerun))
		return SHFS_EXIT_FAILURE; /* main says so */
	if (!opts.json)
		show_sum(rerun);
	if (!opts.json && opts.in_record && !taken && show_all_reads(rerun))
		shfs_warn("what the commands read cannot be told");
	fflush(stdout);
	if (r && !rerun->top)
		hint_lost(rerun);
	if (r == -EINTR) { /* end by the signal, as its sender expects */
		signal(shfs_runner_signal(), SIG_DFL);
		raise(shfs_runner_signal());
	}
	if (r)
		return SHFS_EXIT_FAILURE;
	return count_state(&rerun->plan, SHFS_RERUN_REFUSED) ? SHFS_EXIT_REFUSED
	                                                     : SHFS_EXIT_OK;
}

static int show_dry(struct rerun *rerun)
{
	if (opts.json)
		return json_rerun(rerun) ? SHFS_EXIT_FAILURE : SHFS_EXIT_OK;
	show_waiting(rerun);
	for (size_t i = 0; i < rerun->plan.n; i++)
		if (rerun->plan.steps[i].state == SHFS_RERUN_LEFT_OUT)
			show_step_end(rerun, &rerun->plan.steps[i]);
	return SHFS_EXIT_OK;
}

static int check_rerun(struct rerun *rerun)
{
	int r = shfs_rerun_check(&rerun->plan);

	if (r < 0)
		return shfs_fail_index(rerun->plan.index, r);
	if (!r && rerun->top && rerun->plan.base && strcmp(rerun->plan.base, "/") != 0 &&
	    shfs_path_is_below(rerun->top, rerun->plan.base))
		return fail_top(rerun->top,
		                "is in the project, which must not be touched");
	return r;
}

static int carry_out_rerun(struct rerun *rerun)
{
	int code;

	if (!rerun->plan.n && !opts.json)
		puts("Nothing is stale.");
	if (!rerun->plan.n)
		return opts.json ? show_dry(rerun) : SHFS_EXIT_OK;
	if (opts.in_scratch) {
		code = find_top(rerun);
		if (code)
			return code;
		rerun->plan.options.top = rerun->top;
	}
	code = check_rerun(rerun);
	if (opts.dry_run) {
		int shown = show_dry(rerun);

		return code                                            ? code
		       : count_state(&rerun->plan, SHFS_RERUN_REFUSED) ? SHFS_EXIT_REFUSED
		                                                       : shown;
	}
	if (!code)
		code = confirm_rerun(rerun);
	return code ? code : run_plan(rerun);
}

static int open_rerun(struct shfs_context *ctx, struct rerun *rerun)
{
	int code = SHFS_EXIT_OK;

	rerun->plan.index = shfs_context_index(ctx, &code);
	if (rerun->plan.index)
		rerun->plan.store = shfs_context_store(ctx, false, &code);
	if (rerun->plan.store)
		rerun->plan.config = shfs_context_config(ctx, &code);
	if (!rerun->plan.config)
		return code;
	rerun->style = shfs_style_of(ctx);
	rerun->plan.options = (struct shfs_rerun_options){
		.store_path = shfs_context_store_path(ctx),
		.force = opts.force,
		.keep_going = opts.keep_going,
		.recorded = opts.in_record,
		.to_stderr = opts.json,
	};
	return 0;
}

/* Nothing is run as long as an earlier command's work may lie about. */
static int put_back_left(struct rerun *rerun)
{
	_cleanup_free_ char *place = NULL;
	int r = shfs_rerun_put_back_left(&rerun->plan, opts.dry_run, &place);

	if (r > 0 && opts.dry_run) {
		shfs_warn("an earlier rerun was killed while a command ran");
		shfs_hint("shfs rerun puts back what that changed, before all else");
	}
	if (r >= 0)
		return 0;
	shfs_error("what the command of a killed rerun left cannot be put back: %s",
	           strerror(-r));
	if (place)
		shfs_hint("remove %s to leave it as it is", place);
	return SHFS_EXIT_FAILURE;
}

/* Is this below shfs record, which shows all of the tree through a mount? */
static bool is_in_record(void)
{
	_cleanup_mounts_ struct shfs_mounts mounts = { 0 };

	return !shfs_mounts_list(SHFS_MOUNTS_BROWSE, NULL, &mounts) &&
	       shfs_mounts_at(&mounts, "/");
}

#define ARGS_BYTES_MAX (4u << 20) /* more than a process can be given */

/* Runs this command line by shfs record. */
static int go_into_record(struct shfs_context *ctx)
{
	_cleanup_free_ char *exe = realpath("/proc/self/exe", NULL);
	_cleanup_buf_ struct shfs_buf line = { 0 };
	_cleanup_free_ const char **words = NULL;
	size_t n = 0;
	int r = shfs_read_file_at(AT_FDCWD, "/proc/self/cmdline", ARGS_BYTES_MAX, &line);

	words = r ? NULL : calloc(line.len + 4, sizeof(*words));
	if (!exe || !words)
		return shfs_fail_index(NULL, r ? r : -ENOMEM);
	words[n++] = "record";
	words[n++] = "--";
	words[n++] = exe;
	for (size_t at = strlen(line.data) + 1; at < line.len;
	     at += strlen(line.data + at) + 1)
		words[n++] = line.data + at;
	return shfs_context_exec(ctx, words);
}

static int run_rerun(struct shfs_context *ctx, int argc, char **argv)
{
	struct rerun rerun = { 0 };
	int code;

	if (opts.command && argc) {
		shfs_error("--command takes no files");
		return SHFS_EXIT_USAGE;
	}
	if (opts.in_record && !opts.dry_run && !is_in_record())
		return go_into_record(ctx);
	code = open_rerun(ctx, &rerun);
	if (!code && !opts.in_scratch)
		code = put_back_left(&rerun);
	if (!code)
		code = read_deviations(&rerun);
	if (!code)
		code = add_commands(&rerun, argc, argv);
	if (!code)
		code = carry_out_rerun(&rerun);
	if (rerun.top_is_new)
		rmdir(rerun.top);
	shfs_rerun_clear(&rerun.plan);
	shfs_stale_free(rerun.stale);
	shfs_deviations_clear(&rerun.deviations);
	free(rerun.top);
	return code;
}

static int set_rerun_option(const struct shfs_option *opt, const char *value)
{
	if (!strcmp(opt->name, "command")) {
		opts.command = value;
	} else if (!strcmp(opt->name, "scratch")) {
		opts.in_scratch = true;
		opts.scratch = value;
	} else if (opts.n_deviations == DEVIATIONS_MAX) {
		shfs_error("--with, --env and --arg: at most %d", DEVIATIONS_MAX);
		return SHFS_EXIT_USAGE;
	} else {
		opts.in_scratch = true; /* what would be is no result */
		opts.deviations[opts.n_deviations++] = (struct deviation){ opt, value };
	}
	if (value && !*value) {
		shfs_error("--%s wants a value that is not empty", opt->name);
		return SHFS_EXIT_USAGE;
	}
	return 0;
}

const struct shfs_command shfs_cmd_rerun = {
	.name = "rerun",
	.args = "[PATH…]",
	.summary = "Run the commands behind stale results again, and compare the outcome",
	.description = "Runs the commands that shfs stale lists, in order, each by its "
		       "shell in its\n"
		       "directory, and shows whether each result has the same bytes as "
		       "before. Without\n"
		       "PATH: for everything below the working directory. Refuses (exit "
		       "status 4) what\n"
		       "could give a wrong result, or would lose something, and runs the "
		       "rest.",
	.options = {
	{ "command", 0, "ID", "run this command, whether or not it is stale" },
	{ "scratch", 0, "[=DIR]", "run in a copy, and leave the project as it is" },
	{ "with", 0, "FILE=OTHER", "in a copy: what would be if FILE held what OTHER does" },
	{ "env", 0, "NAME=VALUE", "in a copy: likewise, with a variable" },
	{ "arg", 0, "s/OLD/NEW/", "in a copy: likewise, with other words in the commands" },
	{ "in-record", 0, NULL, "record them as shfs record does; show what they read anew",
	  .flag = &opts.in_record },
	{ "dry-run", 'n', NULL, "only show what would be run", .flag = &opts.dry_run },
	{ "yes", 'y', NULL, "do not ask", .flag = &opts.yes },
	{ "keep-going", 'k', NULL, "go on with commands that do not need a failed one",
	  .flag = &opts.keep_going },
	{ "force", 'f', NULL, "overwrite what was changed since, or is not recorded",
	  .flag = &opts.force },
	{ "json", 0, NULL, "for programs: see docs/json.md", .flag = &opts.json },
	},
	.on_demand = true,
	.operands = { 0, -1 },
	.option = set_rerun_option,
	.run = run_rerun,
};
