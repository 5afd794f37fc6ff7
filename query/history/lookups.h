/* SPDX-License-Identifier: MIT */
/* lookups.h - the names that a command looked up, found or not: of one that shfs record
 * ran, or that was typed in a shell which shfs record ran. */
#pragma once

#include "query/base/model.h"

#include "common/record.h"

struct shfs_looked_up {
	char *path;     /* absolute, in the tree of the recording (store/trees.h) */
	uint32_t found; /* enum shfs_found */
	char *text;     /* with TEXT; else NULL */
};

/* Sorted by path, then by what was found there at first, later or by different means:
 * each once. */
struct shfs_lookups_list {
	struct shfs_looked_up *list;
	size_t n, cap;
};

/* Loads the names that processes of the command were the first to look up; recording: and
 * all others of the same recording, whose mount tells a name once: an earlier command may
 * have looked it up for this one. */
_must_check_ int shfs_lookups_load(struct shfs_index *index, int64_t command_id,
                                   bool recording, struct shfs_lookups_list *out);
void shfs_lookups_clear(struct shfs_lookups_list *lookups);
#define _cleanup_lookups_ _cleanup_(shfs_lookups_clear)

/* "nothing", "file", "directory", "names" (a directory was listed), "link", "other". */
const char *shfs_found_name(uint32_t found);

/* Member lookups: see docs/json.md. */
void shfs_lookups_json(struct shfs_json *json, const struct shfs_lookups_list *lookups);
