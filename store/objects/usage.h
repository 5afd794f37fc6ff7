/* SPDX-License-Identifier: MIT */
/* usage.h - measures how many bytes a store takes on its disk, by kind. */
#pragma once

#include "store/store.h"

struct shfs_usage {
	uint64_t journal, objects, index, other; /* bytes, as allocated */
};

_must_check_ int shfs_store_usage(struct shfs_store *store, struct shfs_usage *out);

static inline uint64_t shfs_usage_total(const struct shfs_usage *u)
{
	return u->journal + u->objects + u->index + u->other;
}
