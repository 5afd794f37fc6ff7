/* SPDX-License-Identifier: MIT */
/*
 * overview.h - how much was done when, over the whole record, for the page of `shfs web`
 * (docs/map.md): so the page can say what it has not loaded.
 */
#pragma once

#include "query/base/json.h"

struct shfs_index;

/* Writes the member "spans": how many commands the page has once all are loaded.
 * project: a path, or NULL: all. -ENOMEM, or another -errno of the index. */
_must_check_ int shfs_map_overview(struct shfs_index *index, const char *project,
                                   struct shfs_json *json);
