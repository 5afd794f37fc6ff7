/* SPDX-License-Identifier: MIT */
/* others.h - what others have changed since, of what the selected commands changed. */
#pragma once

#include "query/undo/plan.h"

/* Finds what others changed at a path since its first change. *between: they did it
 * before the last one. */
_must_check_ int shfs_undo_find_others(struct shfs_undo_plan *plan, int64_t file_id,
                                       int64_t first_seq, int64_t last_seq,
                                       struct shfs_undo_file *file, bool *between);

/* Which of it is not as the commands left it: others may have set it back. enum
 * shfs_past_change. */
uint32_t shfs_undo_by_others(const struct shfs_undo_file *file);
