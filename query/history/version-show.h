/* SPDX-License-Identifier: MIT */
/*
 * version-show.h - a version of a file in some lines, for log: when it came, its maker,
 * and how it left its path.
 */
#pragma once

#include "query/history/entry.h"

struct shfs_version_view {
	struct shfs_index *index;
	const struct shfs_style *style;
	size_t columns;
};

_must_check_ int shfs_version_show(const struct shfs_version_view *view,
                                   const struct shfs_version *version,
                                   struct shfs_buf *out);
/* Those from oldest to newest as one entry (fold.h). */
_must_check_ int shfs_version_show_fold(const struct shfs_version_view *view,
                                        const struct shfs_version *newest,
                                        const struct shfs_version *oldest,
                                        struct shfs_buf *out);

/* How version n left its path: deleted, or renamed to path2. Or that it came back later,
 * with the same bytes; or was there, and others wrote the same bytes: the last of them.
 */
struct shfs_gone {
	int64_t n, end_ns, command_id, process_id;
	char *path2; /* NULL: deleted */
	bool back;
	int64_t n_same; /* so many others; 0: it was not there */
};

/* All such events of a file, sorted by n; those of one version are in order. */
struct shfs_gone_list {
	struct shfs_gone *list;
	size_t n, cap;
	struct shfs_ids noted; /* time_ns of versions that have notes (notes.h); sorted */
};

/* Loads all of a file at once: one look-up for each version would take quadratic time.
 * out: empty; the caller clears it in any case. */
_must_check_ int shfs_gone_load(struct shfs_index *index, int64_t file_id,
                                struct shfs_gone_list *out);
void shfs_gone_clear(struct shfs_gone_list *gone);
#define _cleanup_gone_ _cleanup_(shfs_gone_clear)

/* The first event of version n; NULL: there is none. The others follow it. */
const struct shfs_gone *shfs_gone_find(const struct shfs_gone_list *gone, int64_t n);
/* The next event of the same version, or NULL. */
const struct shfs_gone *shfs_gone_next(const struct shfs_gone_list *gone,
                                       const struct shfs_gone *one);
/* The previous event of the same version, or NULL. */
const struct shfs_gone *shfs_gone_before(const struct shfs_gone_list *gone,
                                         const struct shfs_gone *one);
_must_check_ int shfs_version_show_gone(const struct shfs_version_view *view,
                                        const struct shfs_gone *one,
                                        struct shfs_buf *out);

/* The version before: 1, 0, or a negative errno. */
_must_check_ int shfs_version_before(struct shfs_index *index,
                                     const struct shfs_version *version,
                                     struct shfs_version *out);

/* Loads the command, or else the process, without its uses: 1, 0, a negative errno. */
_must_check_ int shfs_doer_load(struct shfs_index *index, int64_t command_id,
                                int64_t process_id, struct shfs_entry *out);
