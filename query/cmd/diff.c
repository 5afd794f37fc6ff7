/* SPDX-License-Identifier: MIT */
/* `shfs diff`: compare two versions of a file, or one with the file as it is now; also
 * directories at two times. */
#include "query/history/diff.h"
#include "query/base/cmd.h"
#include "query/history/version-spec.h"
#include "query/past/tree-diff.h"

#include "common/clock.h"
#include "common/path.h"

#include <errno.h>
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

/* --- directories --- */

/* The path and the time of an operand; without @{WHEN} it is now. */
static int read_moment(struct shfs_index *index, const char *operand, char **path,
                       int64_t *time_ns)
{
	_cleanup_free_ char *when = NULL;
	int r = shfs_directory_spec_read(index, operand, path, &when);

	if (r > 0)
		return shfs_moment_find(index, when, false, time_ns);
	*time_ns = shfs_time_now().real_ns;
	*path = r ? NULL : shfs_operand_path(operand);
	return *path ? 0 : shfs_fail_index(index, r ? r : -ENOMEM);
}

static int open_trees(struct shfs_index *index, int argc, char **argv, const char *path,
                      int64_t time_ns, struct shfs_tree tree[2])
{
	_cleanup_free_ char *second = NULL;
	int64_t second_ns = shfs_time_now().real_ns;
	int code = argc > 1 ? read_moment(index, argv[1], &second, &second_ns) : 0, r;

	if (code)
		return code;
	if (second && strcmp(second, path) != 0) {
		shfs_error("one directory at two times is compared, not two directories");
		return TROUBLE;
	}
	r = shfs_tree_open(&tree[0], index, path, -1, time_ns);
	if (!r)
		r = shfs_tree_open(&tree[1], index, path, -1, second_ns);
	return r ? shfs_fail_index(index, r) : 0;
}

static int diff_directories(struct shfs_context *ctx, struct shfs_index *index, int argc,
                            char **argv, const char *path, const char *when)
{
	struct shfs_tree tree[2] = { { .now_fd = -1 }, { .now_fd = -1 } };
	int64_t time_ns = 0;
	int code = shfs_moment_find(index, when, false, &time_ns);

	if (!code)
		code = open_trees(index, argc, argv, path, time_ns, tree);
	if (code == SHFS_EXIT_FAILURE)
		code = TROUBLE;
	if (!code) {
		shfs_context_pager(ctx);
		opts.color = shfs_context_color(ctx);
		code = shfs_tree_diff(shfs_context_opened(ctx), &tree[0], &tree[1],
		                      &opts);
	}
	shfs_tree_close(&tree[0]);
	shfs_tree_close(&tree[1]);
	return code;
}

static int diff_files(struct shfs_context *ctx, struct shfs_index *index, int argc,
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

static int run_diff_command(struct shfs_context *ctx, struct shfs_index *index, int argc,
                            char **argv)
{
	_cleanup_free_ char *path = NULL, *when = NULL;
	int r = shfs_directory_spec_read(index, argv[0], &path, &when);

	if (r < 0)
		return shfs_fail_index(index, r);
	return r ? diff_directories(ctx, index, argc, argv, path, when)
	         : diff_files(ctx, index, argc, argv);
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
		"Without @N, the latest version that is archived. DIRECTORY@{yesterday}: all that\n"
		"differs in it; a second one of another time, or as it is now.\n"
		"Exit status: 0 the same, 1 different, 2 trouble; 3 no such version.",
	.options = {
	{ "unified", 'U', "N", "show N lines around each change (default 3)" },
	{ "brief", 'q', NULL, "only report whether they differ", .flag = &opts.brief },
	},
	.on_demand = true,
	.operands = { 1, 2 },
	.option = set_diff_option,
	.at_once = true,
	.trouble = TROUBLE,
	.run_on_index = run_diff_command,
};
