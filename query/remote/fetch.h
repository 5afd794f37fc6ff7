/* SPDX-License-Identifier: MIT */
/* fetch.h - gets files of a store from a remote, each piece checked by its hash. */
#pragma once

#include "query/remote/backend.h"
#include "query/remote/manifest.h"

struct fetcher {
	struct shfs_remote *remote;
	const char *store_id;
	/* A piece that is damaged or missing is left out, and counted; else it ends a
	 * fetch. */
	bool despite_damage;
	uint64_t damaged;
	void (*progress)(uint64_t done_bytes, uint64_t all_bytes);
	uint64_t done_bytes, all_bytes;
	/* the last blob: several files may lie in it */
	char blob[SHFS_SHA256_SIZE];
	struct shfs_buf bytes;
};

void fetcher_clear(struct fetcher *f);

/* Sets out to the bytes of a piece. -EBADMSG: it is damaged; -ENOENT: it is missing. */
_must_check_ int fetch_piece(struct fetcher *f, const struct piece *piece,
                             struct shfs_buf *out);

/*
 * Gets a file to path below dirfd, whose directories are made. wanted: for each piece;
 * the others become a hole, or stay as they are; NULL: all. What is there already is not
 * got again. 1: some of it was left out (despite_damage).
 */
_must_check_ int fetch_file(struct fetcher *f, const struct remote_file *file, int dirfd,
                            const char *path, const bool *wanted);
