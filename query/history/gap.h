/* SPDX-License-Identifier: MIT */
/*
 * gap.h - gaps: places where a recording ended unexpectedly, so that its last records may
 * be missing.
 */
#pragma once

#include "query/base/json.h"
#include "store/index/index.h"

struct shfs_gap {
	char *host, *root;
	int64_t begin_ns; /* of the last record */
	int64_t end_ns;   /* when it was mounted again; 0: it was not */
};

struct shfs_gaps {
	struct shfs_gap *list; /* the latest first */
	size_t n;
};

_must_check_ int shfs_gaps_load(struct shfs_index *index, struct shfs_gaps *out);
void shfs_gaps_clear(struct shfs_gaps *gaps);
#define _cleanup_gaps_ _cleanup_(shfs_gaps_clear)

/* Shows "the recording of ~/x ended unexpectedly after 2026-11-21 18:04:05". */
void shfs_gap_show(struct shfs_buf *out, const struct shfs_gap *gap);
#define SHFS_GAP_MEANS "what happened in its last moments may be missing"

/* Adds an object: see docs/json.md. */
void shfs_gap_json(struct shfs_json *json, const struct shfs_gap *gap);
