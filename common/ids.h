/* SPDX-License-Identifier: MIT */
/* ids.h - a list of numbers, which can be made a sorted set. */
#pragma once

#include "common/util.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* A list of numbers; {0} is empty. It owns ids. */
struct shfs_ids {
	int64_t *ids;
	size_t n, cap;
};

/* Appends a number. -ENOMEM. */
_must_check_ int shfs_ids_add(struct shfs_ids *list, int64_t id);

/* Sorts the list, and keeps each number once. */
void shfs_ids_sort(struct shfs_ids *list);

/* Is the number in the list? That must be sorted. */
bool shfs_ids_has(const struct shfs_ids *list, int64_t id);
/* The same of a list that is not sorted; looks at each number. */
bool shfs_ids_lists(const struct shfs_ids *list, int64_t id);

static inline void shfs_ids_free(struct shfs_ids *list)
{
	free(list->ids);
}
#define _cleanup_ids_ _cleanup_(shfs_ids_free)
