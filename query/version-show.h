/* SPDX-License-Identifier: MIT */
/*
 * version-show.h - a version of a file in some lines, as log has it: when it came, who
 * made it, and how it left its path.
 */
#pragma once

#include "query/entry.h"

struct shfs_version_view {
	struct shfs_index *index;
	const struct shfs_style *style;
	size_t columns;
};

_must_check_ int shfs_version_show(const struct shfs_version_view *view,
                                   const struct shfs_version *version,
                                   struct shfs_buf *out);

/* The rows of how it left its path (op, path2, end_ns, command_id, process_id), for
 * shfs_version_show_gone. */
_must_check_ int shfs_version_gone(struct shfs_index *index,
                                   const struct shfs_version *version,
                                   struct shfs_rows **out);
_must_check_ int shfs_version_show_gone(const struct shfs_version_view *view,
                                        struct shfs_rows *rows, struct shfs_buf *out);

/* The version before it: 1, 0, or a negative errno. */
_must_check_ int shfs_version_before(struct shfs_index *index,
                                     const struct shfs_version *version,
                                     struct shfs_version *out);

/* Without what it used. Where there is no command, the process: 1, 0, a negative errno.
 */
_must_check_ int shfs_doer_load(struct shfs_index *index, int64_t command_id,
                                int64_t process_id, struct shfs_entry *out);
