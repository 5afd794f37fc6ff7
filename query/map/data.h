/* SPDX-License-Identifier: MIT */
/*
 * data.h - the data of the page of the map, for `shfs map` and `shfs web` (docs/map.md).
 */
#pragma once

#include "query/base/json.h"
#include "query/history/filter.h"

#include <stdio.h>

struct shfs_map {
	/* given; borrowed */
	struct shfs_index *index;
	struct shfs_store *store;
	const struct shfs_filter *filter; /* its limit is one above what is wanted */
	FILE *file;                       /* the output */
	const char *project;              /* that the page is of, or NULL */
	bool no_contents;
	bool live;        /* a server gives contents, and the commands before these */
	const char *mark; /* which state of the index it is, for the page; or NULL */
	/* what is to be written yet: the end of the data; and contents */
	struct shfs_json json, contents;
	/* of data.c */
	struct shfs_map_name *paths, *directories, *sessions, *objects;
	struct shfs_map_seen *versions;
	int64_t n_contents, content_bytes, contents_left_out;
	int64_t n, first_ns, next_ns; /* number of commands; begin of the first one, and
	                               * of the last row */
	bool cut;
};

/* Writes the data of the commands in rows (of shfs_filter_query); its end is left in
 * m->json, the contents in m->contents. -EIO: the output failed. */
_must_check_ int shfs_map_add(struct shfs_map *m, struct shfs_rows *rows);

/* Writes bytes as they are. -EIO. */
_must_check_ int shfs_map_put(struct shfs_map *m, const void *data, size_t len);

/* Writes JSON, with escapes for characters that HTML or scripts could interpret, and
 * empties it. -EIO, -ENOMEM. */
_must_check_ int shfs_map_put_json(struct shfs_map *m, struct shfs_json *json);

void shfs_map_free(struct shfs_map *m);
#define _cleanup_map_ _cleanup_(shfs_map_free)
