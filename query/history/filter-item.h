/* SPDX-License-Identifier: MIT */
/* filter-item.h - what filter.c, which makes items, shares with filter-query.c. */
#pragma once

#include "query/history/filter.h"

struct shfs_filter_item {
	enum shfs_filter_kind kind;
	int group;  /* between two --or; of a PATH it does not count */
	bool every; /* it is of each group */
	bool pattern;
	bool broad; /* most commands use one of its files */
	bool many;  /* its files are too many for a list */
	char *text; /* NULL: value */
	int64_t value;
	/* the ids of versions, if they are few */
	int64_t *hits;
	size_t n_hits;
	/* of a CONTENT that is not archived: its fingerprint */
	bool resolved, by_phash;
	uint64_t size;
	int64_t phash[2]; /* as kept: of samples, of the whole; -1: not known */
};

/* The last item of this kind, or NULL; group_last: in the group. */
const struct shfs_filter_item *item_last(const struct shfs_filter *filter,
                                         enum shfs_filter_kind kind);
const struct shfs_filter_item *group_last(const struct shfs_filter *filter,
                                          enum shfs_filter_kind kind, int group);

/* Is it a condition of this group, or of all? */
bool item_is_in(const struct shfs_filter_item *item, int group);

/* Is it a condition on versions that were used? */
bool item_is_of_versions(const struct shfs_filter_item *item);

/* Has the group such a condition? */
bool group_is_of_versions(const struct shfs_filter *filter, int group);

/* Does it name files, whose users are meant? */
bool item_names_files(const struct shfs_filter_item *item);

/* Does the item select versions of a file, not the file? */
bool item_is_by_versions(const struct shfs_filter *filter,
                         const struct shfs_filter_item *item);

/* Is it a condition of its own? If its group has conditions on versions, a name is one of
 * these. */
bool item_stands_alone(const struct shfs_filter *filter,
                       const struct shfs_filter_item *item);

/* Can a process without a command meet the conditions of the group? */
bool group_fits_processes(const struct shfs_filter *filter, int group);
