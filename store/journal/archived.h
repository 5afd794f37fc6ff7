/* SPDX-License-Identifier: MIT */
/*
 * archived.h - recordings that went on while the archive was made that brought them here
 * (state/archived). Such a recording has no END in this store, and did not end
 * unexpectedly.
 */
#pragma once

#include "store/store.h"

#define ARCHIVED_INSTANCE_MAX 64 /* hexadecimal digits; ours has 32 */

struct archived {
	char host[65], instance[ARCHIVED_INSTANCE_MAX + 1];
	uint64_t seq; /* of its last record in the archive */
};

/* -EINVAL: no producer of ours names itself so. */
_must_check_ int archived_set(struct archived *a, const char *host,
                              struct shfs_bytes instance, uint64_t seq);

/* Adds what is new of these, durably. One process. */
_must_check_ int archived_add(struct shfs_store *store, const struct archived *list,
                              size_t n);

/* Is a's last record here the last one that an archive had? 1, 0. */
_must_check_ int archived_has(struct shfs_store *store, const struct archived *a);
