/* SPDX-License-Identifier: MIT */
/* blobs.h - a set of blobs, by their names, with a count for each. */
#pragma once

#include "query/remote/manifest.h"

#include "common/hash.h"

struct blob {
	char name[SHFS_SHA256_SIZE];
	uint64_t bytes; /* that pieces of it reach to */
	size_t total, kept;
	UT_hash_handle hh;
};

/* Initialised by zeros. */
struct blobs {
	struct blob *set;
};

void blobs_clear(struct blobs *blobs);
#define _cleanup_blobs_ _cleanup_(blobs_clear)

/* Adds a name if it is new. NULL: no memory. */
struct blob *blobs_add(struct blobs *blobs, const char *name);
struct blob *blobs_find(const struct blobs *blobs, const char *name);
void blobs_drop(struct blobs *blobs, const char *name);

/* Adds all blobs of a manifest, with the bytes that they have; those of its lists, too.
 */
_must_check_ int blobs_add_all(struct blobs *blobs, const struct manifest *m);
