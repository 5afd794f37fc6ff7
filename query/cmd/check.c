/* SPDX-License-Identifier: MIT */
/* `shfs check`: look whether the store is as it was written. */
#include "query/base/cmd.h"
#include "query/base/model.h"
#include "query/base/mounts.h"
#include "query/base/progress.h"
#include "query/base/time.h"
#include "query/care/check-show.h"

#include "common/quote.h"
#include "store/care/forget.h"
#include "store/journal/runtime.h"

#include <inttypes.h>
#include <string.h>

static struct shfs_check_options opts = { .progress = shfs_check_progress };
static bool json;

static bool json_check(const struct shfs_check *c)
{
	struct shfs_json j = { 0 };

	shfs_json_begin(&j, "check");
	shfs_json_bool(&j, "ok", c->n_flaws == c->n_harmless);
	shfs_check_json(&j, c);
	return shfs_json_end(&j);
}

static bool show_check(const struct shfs_check *c)
{
	_cleanup_buf_ struct shfs_buf out = { 0 };
	size_t n = c->n_flaws - c->n_harmless, lost = c->n_losses - c->n_known;

	if (c->resumed_ns) {
		shfs_buf_str(&out, "continuing the check of ");
		shfs_time_show(&out, c->resumed_ns);
		shfs_buf_char(&out, '\n');
	}
	shfs_check_show(&out, c);
	shfs_check_show_counts(&out, c);
	if (n)
		shfs_buf_printf(&out, "%zu flaw%s, %zu version%s lost\n", n,
		                shfs_plural(n), lost, shfs_plural(lost));
	else
		shfs_buf_str(&out, "no flaws\n");
	return shfs_show_flush(&out);
}

static int run_check(struct shfs_context *ctx, struct shfs_store *store, int argc,
                     char **argv)
{
	_cleanup_check_ struct shfs_check check = { 0 };
	_cleanup_free_ char *hook_dir = NULL;
	/* then the index has rows that the journal does not have any more */
	bool is_pending = shfs_forget_pending(store) > 0;
	int r;

	if (is_pending) {
		shfs_warn("an earlier shfs forget is not complete yet");
		shfs_hint("shfs forget --resume completes it");
	}
	shfs_mounts_sync(store->path, false);
	hook_dir = shfs_runtime_hook_dir(store->path);
	shfs_progress_begin("checking the store");
	r = shfs_check_run(store, hook_dir, &opts, &check);
	shfs_progress_end();
	shfs_check_progress_end();
	if (r)
		return shfs_check_fail(r);
	if (!(json ? json_check(&check) : show_check(&check)))
		return SHFS_EXIT_FAILURE;
	if (check.n_flaws == check.n_harmless)
		return SHFS_EXIT_OK;
	if (!json && !is_pending)
		shfs_hint("shfs repair sets aside what is damaged, and keeps the rest");
	return SHFS_EXIT_FAILURE;
}

static int option_part(const struct shfs_option *opt, const char *value)
{
	char rest;

	opts.read_data = true;
	if (sscanf(value, "%u/%u%c", &opts.part, &opts.parts, &rest) == 2 && opts.part &&
	    opts.part <= opts.parts && strspn(value, "0123456789/") == strlen(value))
		return 0;
	shfs_error("--read-data-subset takes N/T: the Nth of T parts, such as 2/10");
	return SHFS_EXIT_USAGE;
}

const struct shfs_command shfs_cmd_check = {
	.name = "check",
	.args = "",
	.summary = "Check whether the store is as it was written",
	.description = "Reads the journal, the headers of all contents and the index, "
		       "and checks\n"
		       "that each content that they name is there. Shows the file and "
		       "the byte of\n"
		       "each flaw, and the versions that are lost by it; the exit code "
		       "is then 1.\n"
		       "Recording may go on meanwhile.",
	.alone = true,
	.options = {
	{ "read-data", 0, NULL, "read and unpack all contents; compare the index, too",
	  .flag = &opts.read_data },
	{ "read-data-subset", 0, "N/T", "the same for the Nth of T parts of the files" },
	{ "restart", 0, NULL, "do not continue an interrupted check",
	  .flag = &opts.restart },
	{ "json", 0, NULL, "for programs: see docs/json.md", .flag = &json },
	},
	.option = option_part,
	.run_on_store = run_check,
};
