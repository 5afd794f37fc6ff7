/* SPDX-License-Identifier: MIT */
/* graphkit.h - what the tests of the graph of versions have in common. */
#pragma once

#include "tests/unit/indexkit.h"

#include "query/base/model.h"

static void kit_find(struct shfs_index *index, const char *path, int64_t n,
                     struct shfs_version *out)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;

	assert_ok(shfs_rows_open(index,
	                         "SELECT" SHFS_VERSION_COLUMNS
	                         "FROM v_version WHERE path = ?1 AND n = ?2",
	                         &rows));
	assert_ok(shfs_rows_bind_str(rows, 1, path));
	assert_ok(shfs_rows_bind_int(rows, 2, n));
	assert_int_equal(shfs_rows_next(rows), 1);
	assert_int_equal(shfs_version_from_row(rows, out), 1);
}
