/* SPDX-License-Identifier: MIT */
/*
 * archived.h - imported recordings that had not ended when their archive was made
 * (state/archived). Such a recording has no END in this store, but that does not mean
 * that it ended unexpectedly.
 */
#pragma once

#include "store/store.h"

#define ARCHIVED_INSTANCE_MAX 64 /* hexadecimal digits; an instance of shfs has 32 */

struct archived {
	char host[65], instance[ARCHIVED_INSTANCE_MAX + 1];
	uint64_t seq; /* of its last record in the archive */
};

/* Fills in *a. -EINVAL: no producer of shfs has such a host or instance name. */
_must_check_ int archived_set(struct archived *a, const char *host,
                              struct shfs_bytes instance, uint64_t seq);

/* Adds the recordings of list that are new, durably. Only one process may do so at a
 * time. */
_must_check_ int archived_add(struct shfs_store *store, const struct archived *list,
                              size_t n);

/* Returns 1 if a->seq is no later than the last record of a's recording that an archive
 * had, else 0. */
_must_check_ int archived_has(struct shfs_store *store, const struct archived *a);
