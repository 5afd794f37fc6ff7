/* SPDX-License-Identifier: MIT */
/* Loads how processes ended, and what they had used. */
#include "query/history/ended.h"

#define COLUMNS "SELECT process_id, status, user_us, system_us, max_rss_kib FROM v_exit "

static struct shfs_ended ended_from_row(struct shfs_rows *rows)
{
	return (struct shfs_ended){
		.known = true,
		.status = shfs_rows_int(rows, 1),
		.user_us = shfs_rows_int(rows, 2),
		.system_us = shfs_rows_int(rows, 3),
		.max_rss_kib = shfs_rows_int(rows, 4),
	};
}

int shfs_ended_load(struct shfs_index *index, int64_t process_id, struct shfs_ended *out)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open_ints(index, COLUMNS "WHERE process_id = ?1",
	                            SHFS_INTS(process_id), &rows);

	*out = (struct shfs_ended){ 0 };
	if (!r)
		r = shfs_rows_next(rows);
	if (r > 0)
		*out = ended_from_row(rows);
	return MIN(r, 0);
}

int shfs_ended_load_all(struct shfs_index *index, int64_t command_id,
                        const struct shfs_process_row *processes, size_t n,
                        struct shfs_ended *out)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open_ints(index, COLUMNS "WHERE command_id = ?1",
	                            SHFS_INTS(command_id), &rows);

	while (!r && (r = shfs_rows_next(rows)) > 0) {
		for (size_t i = 0; i < n; i++)
			if (processes[i].process_id == shfs_rows_int(rows, 0))
				out[i] = ended_from_row(rows);
		r = 0;
	}
	return r;
}
