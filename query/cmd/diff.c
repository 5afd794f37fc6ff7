/* SPDX-License-Identifier: MIT */
/* `shfs diff`: compare two versions of a file, or one with the file as it is now. */
#include "query/history/diff.h"
#include "query/base/cmd.h"
#include "query/history/version-spec.h"

#include <string.h>

/* 1 means that they differ, so trouble is 2; other failures have the exit codes of every
 * command, from 3 on. */
#define TROUBLE 2

static struct shfs_diff_options opts;

/* Finds the first version; if the operand names none, the latest archived one. */
static int find_first(struct shfs_index *index, const char *operand,
                      struct shfs_version *out)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r, code = shfs_version_spec_find(index, operand, out);
	struct shfs_version_spec spec;

	if (code || (out->flags & SHFS_CONTENT_OBJECT) ||
	    shfs_version_spec_parse(operand, &spec))
		return code;
	code = spec.kind == SHFS_SPEC_LATEST;
	shfs_version_spec_clear(&spec);
	if (!code)
		return 0;
	r = shfs_rows_open_str(index,
	                       "SELECT" SHFS_VERSION_COLUMNS
	                       "FROM v_version WHERE " SHFS_SQL_FILE(
				       "?1") "AND object IS NOT NULL"
	                                     " ORDER BY n DESC LIMIT 1",
	                       out->path, &rows);
	if (!r)
		r = shfs_rows_next(rows);
	if (r > 0) {
		shfs_version_clear(out);
		r = shfs_version_from_row(rows, out);
	}
	return r < 0 ? shfs_fail_index(index, r) : 0;
}

static int run_diff_command(struct shfs_context *ctx, struct shfs_index *index, int argc,
                            char **argv)
{
	_cleanup_version_ struct shfs_version first = { 0 }, second = { 0 };
	struct shfs_diff_side side[2] = { { .fd = -1 }, { .fd = -1 } };
	struct shfs_store *store = shfs_context_opened(ctx);
	int code = find_first(index, argv[0], &first);

	if (!code && argc > 1)
		code = shfs_version_spec_find(index, argv[1], &second);
	if (code == SHFS_EXIT_FAILURE)
		code = TROUBLE;
	if (!code)
		code = shfs_diff_version(store, &first, &side[0]);
	if (!code)
		code = argc > 1 ? shfs_diff_version(store, &second, &side[1])
		                : shfs_diff_now(first.path, &side[1]);
	if (!code) {
		shfs_context_pager(ctx);
		opts.color = shfs_context_color(ctx);
		code = shfs_diff_run(side, &opts);
	}
	shfs_diff_side_clear(&side[0]);
	shfs_diff_side_clear(&side[1]);
	return code;
}

static int set_diff_option(const struct shfs_option *opt, const char *value)
{
	if (!*value || strlen(value) > 6 || value[strspn(value, "0123456789")])
		return shfs_bad_value(opt, value, "a number of lines");
	opts.context = value;
	return 0;
}

const struct shfs_command shfs_cmd_diff = {
	.name = "diff",
	.args = "FILE[@N] [FILE@M]",
	.summary = "Compare two versions of a file, or one with the file as it is now",
	.description =
		"Without @N, the latest version that is archived.\n"
		"Exit status: 0 the same, 1 different, 2 trouble; 3 no such version.",
	.options = {
	{ "unified", 'U', "N", "show N lines around each change (default 3)" },
	{ "brief", 'q', NULL, "only report whether they differ", .flag = &opts.brief },
	},
	.operands = { 1, 2 },
	.option = set_diff_option,
	.at_once = true,
	.trouble = TROUBLE,
	.run_on_index = run_diff_command,
};
