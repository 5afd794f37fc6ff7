/* SPDX-License-Identifier: MIT */
#include "query/undo/run.h"

#include "common/path.h"
#include "query/base/mounts.h"
#include "query/undo/arrange.h"
#include "query/undo/preview.h"

#include <errno.h>
#include <string.h>

static struct shfs_steps_how how_of(struct shfs_undo_run *run)
{
	return (struct shfs_steps_how){ .store = run->store,
		                        .place = &run->place,
		                        .message = &run->message };
}

static int end_left(struct shfs_undo_run *run)
{
	struct shfs_steps_how how = how_of(run);
	int r = shfs_steps_end_left(&how);

	if (r > 0)
		shfs_warn("an earlier undo or restore was killed: %s",
		          r == 1 ? "what it had begun is taken back"
		                 : "what was left of it is done");
	if (r >= 0)
		return 0;
	shfs_error("an earlier undo or restore was killed, and cannot be ended: %s",
	           run->message.data ?: strerror(-r));
	return SHFS_EXIT_FAILURE;
}

int shfs_undo_begin(struct shfs_undo_run *run)
{
	int code = SHFS_EXIT_OK, r;

	run->place = (struct shfs_steps_place){ -1, -1 };
	run->store = shfs_context_store(run->ctx, false, &code);
	run->config = run->store ? shfs_context_config(run->ctx, &code) : NULL;
	if (!run->config)
		return code;
	r = shfs_steps_open(run->store, &run->place);
	if (r == -EADDRINUSE) {
		shfs_error("another undo or restore is at work");
		return SHFS_EXIT_REFUSED;
	}
	if (r) {
		shfs_error("cannot note what is to be done: %s", strerror(-r));
		return SHFS_EXIT_FAILURE;
	}
	return run->dry_run ? 0 : end_left(run);
}

void shfs_undo_end(struct shfs_undo_run *run)
{
	shfs_steps_close(&run->place);
	shfs_steps_clear(&run->steps);
	shfs_undo_plan_clear(&run->plan);
	shfs_buf_free(&run->message);
}

/* --- carrying it out --- */

/* Is what is done at path recorded? 1, 0, or a negative errno. *there: what exists of it.
 */
static int is_recorded(const char *path, char **there)
{
	struct stat st;
	char *slash;
	int r;

	free(*there);
	*there = strdup(path);
	if (!*there)
		return -ENOMEM;
	while (lstat(*there, &st) && (*there)[1]) {
		slash = strrchr(*there, '/');
		slash[slash == *there] = '\0';
	}
	r = shfs_mounts_serve(st.st_dev);
	return r ? r : shfs_mounts_recorder(*there);
}

/* What is not recorded could not be undone. */
static int check_recorded(struct shfs_undo_run *run)
{
	_cleanup_free_ char *directory = NULL;
	_cleanup_buf_ struct shfs_buf shown = { 0 };

	for (size_t i = 0; i < run->steps.n; i++) {
		const char *path = run->steps.list[i].path;
		int r = directory && shfs_path_is_below(path, directory)
		                ? 1
		                : is_recorded(path, &directory);

		if (r > 0)
			continue;
		if (r)
			return shfs_fail_index(run->index, r);
		shfs_show_directory(&shown, directory);
		shfs_error("%s is not recorded now, so nothing is %s", shown.data ?: "",
		           run->words->done);
		shfs_hint("shfs mount it first: then what is %s is kept, too",
		          run->words->done);
		return SHFS_EXIT_REFUSED;
	}
	return 0;
}

int shfs_undo_take(struct shfs_undo_run *run)
{
	struct shfs_steps_how how = how_of(run);
	int r = shfs_steps_take(&how, &run->steps);

	if (!r) {
		run->carried_out = true;
		return 0;
	}
	shfs_error("nothing is %s: %s", run->words->done,
	           run->message.data ?: strerror(-r));
	return SHFS_EXIT_FAILURE;
}

static int carry_out(struct shfs_undo_run *run)
{
	int r = shfs_undo_arrange(&run->plan, &run->steps);
	int code = r ? shfs_fail_index(run->index, r) : check_recorded(run);

	return code ? code : shfs_undo_take(run);
}

/* --- output --- */

static int print_preview(struct shfs_undo_run *run, FILE *to, bool done)
{
	_cleanup_buf_ struct shfs_buf out = { 0 };
	int r = shfs_undo_show(&run->plan, run->words->heads[done], &out);

	if (!r)
		r = shfs_undo_show_reasons(&run->plan, &out);
	if (r)
		return shfs_fail_index(run->index, r);
	fputs(out.data ?: "", to);
	return 0;
}

static int print_json(struct shfs_undo_run *run)
{
	_cleanup_json_ struct shfs_json json = { 0 };
	int r;

	shfs_json_begin(&json, run->words->command);
	shfs_json_bool(&json, "done", run->carried_out);
	r = shfs_undo_json(&run->plan, &json);
	if (r)
		return shfs_fail_index(run->index, r);
	return shfs_json_end(&json) ? SHFS_EXIT_OK : SHFS_EXIT_FAILURE;
}

static int confirm(struct shfs_undo_run *run)
{
	int code = print_preview(run, stderr, false);

	if (code)
		return code;
	if (shfs_ask(run->words->question))
		return 0;
	shfs_error("nothing is %s", run->words->done);
	return SHFS_EXIT_REFUSED;
}

static int refuse(struct shfs_undo_run *run)
{
	if (run->json)
		return print_json(run) ?: SHFS_EXIT_REFUSED;
	if (print_preview(run, stderr, false))
		return SHFS_EXIT_FAILURE;
	shfs_error("not all of it can be put back, so nothing is %s", run->words->done);
	shfs_hint("--partly puts back the rest");
	return SHFS_EXIT_REFUSED;
}

static int show_only(struct shfs_undo_run *run, struct shfs_undo_counts n)
{
	int code;

	if (!run->json && run->patch)
		shfs_context_pager(run->ctx);
	code = run->json ? print_json(run) : print_preview(run, stdout, false);
	if (!code && run->patch && !run->json)
		code = shfs_undo_diff(&run->plan, shfs_context_color(run->ctx));
	if (!code && !n.changes && !n.conflicts && !n.cannot && !run->json)
		puts(run->words->all_as_it_was);
	return code ?: n.conflicts || n.cannot ? SHFS_EXIT_REFUSED : SHFS_EXIT_OK;
}

static int go_on(struct shfs_undo_run *run)
{
	struct shfs_undo_counts n = shfs_undo_count(&run->plan);
	bool asks = run->words->question && !run->yes && n.changes;
	int code;

	if (run->dry_run)
		return show_only(run, n);
	if ((n.cannot || (run->whole && n.conflicts)) && !run->partly)
		return refuse(run);
	code = asks ? confirm(run) : 0;
	if (!code)
		code = carry_out(run);
	if (code)
		return code;
	if (run->json)
		code = print_json(run);
	else if (!asks)
		code = print_preview(run, stdout, true);
	if (!code && !n.changes && !n.conflicts && !n.cannot && !run->json)
		puts(run->words->all_as_it_was);
	return code ?: n.conflicts || n.cannot ? SHFS_EXIT_REFUSED : SHFS_EXIT_OK;
}

int shfs_undo_plan_and_run(struct shfs_undo_run *run,
                           const struct shfs_undo_options *options,
                           const struct shfs_effects *effects)
{
	int r;

	run->plan.store = run->store;
	run->plan.index = run->index;
	run->plan.config = run->config;
	run->plan.options = options;
	r = shfs_undo_plan(&run->plan, effects);
	return r ? shfs_fail_index(run->index, r) : go_on(run);
}
