/* SPDX-License-Identifier: MIT */
/* Answers a SELECT over the views, for tests and for questions beyond the other commands:
 * the index is no use to other programs, which lack its functions. */
#include "query/base/cmd.h"
#include "query/base/context.h"
#include "query/base/json.h"
#include "query/base/model.h"

#include <errno.h>
#include <string.h>

static void put_value(struct shfs_json *json, struct shfs_rows *rows, int col)
{
	if (shfs_rows_is_null(rows, col))
		shfs_json_null(json, NULL);
	else if (shfs_rows_is_int(rows, col))
		shfs_json_int(json, NULL, shfs_rows_int(rows, col));
	else
		shfs_json_text(json, NULL, shfs_rows_text(rows, col),
		               shfs_rows_bytes(rows, col));
}

static int json_selected_rows(struct shfs_json *json, struct shfs_rows *rows)
{
	int r;

	shfs_json_begin(json, "select");
	shfs_json_array(json, "rows");
	while ((r = shfs_rows_next(rows)) > 0) {
		shfs_json_array(json, NULL);
		for (int i = 0; i < shfs_rows_columns(rows); i++)
			put_value(json, rows, i);
		shfs_json_array_end(json);
		if (!shfs_json_flush(json))
			return -EIO;
	}
	shfs_json_array_end(json);
	return r ? r : shfs_json_end(json) ? 0 : -EIO;
}

/* Asks the index as it is, without an ingest before. */
static int run_select(struct shfs_context *ctx, struct shfs_store *store, int argc,
                      char **argv)
{
	_cleanup_index_ struct shfs_index *index = NULL;
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	_cleanup_json_ struct shfs_json json = { 0 };
	int r;

	r = shfs_index_open(store, SHFS_INDEX_READ, &index);
	if (r) {
		shfs_error("cannot use the index: %s", strerror(-r));
		return SHFS_EXIT_FAILURE;
	}
	r = shfs_rows_open(index, argv[0], &rows);
	if (!r)
		r = json_selected_rows(&json, rows);
	if (r == -EIO)
		return SHFS_EXIT_FAILURE; /* main says that the output failed */
	return r ? shfs_fail_index(index, r) : SHFS_EXIT_OK;
}

const struct shfs_command shfs_cmd_select = {
	.name = "select",
	.args = "SQL",
	.summary = "Answer a SELECT over the views of the index, as JSON",
	.description =
		"docs/index.md describes the views. The index is queried as it is;\n"
		"shfs sync brings it up to date.",
	.operands = { 1, 1 },
	.hidden = true,
	.alone = true,
	.run_on_store = run_select,
};
