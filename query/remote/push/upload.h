/* SPDX-License-Identifier: MIT */
/*
 * upload.h - the bytes of a push: cuts files into pieces, gathers small ones in parcels,
 * and puts what is not on the remote yet.
 *
 * No byte that no file has stays on the remote: when a file of a parcel changes or goes,
 * the others move to another parcel.
 */
#pragma once

#include "query/remote/blobs.h"
#include "query/remote/push/push.h"

struct upload {
	struct shfs_store *store;
	struct place *place;
	struct shfs_remote *remote;
	const struct push_options *options;
	struct manifest old;  /* what is on the remote */
	struct manifest now;  /* what is to be there */
	struct blobs there;   /* blobs that are on the remote */
	struct blobs bad;     /* damaged ones: put anew */
	struct manifest away; /* files that are only on the remote, and stay there */
	bool looks;           /* an earlier push may have put more than is noted */
	/* files that are made for the remote */
	struct shfs_buf made_trees, made_alive;
	/* the parcel that is gathered */
	struct shfs_buf parcel;
	size_t *members, n_members, cap_members; /* indexes of files */
	uint64_t done_bytes, all_bytes;
	struct push_stats stats;
};

void upload_clear(struct upload *u);

/* Finds all pieces of the files of u->now, and puts them. -EAGAIN: a file has changed its
 * name meanwhile. */
_must_check_ int upload_files(struct upload *u);

/* Puts the bytes, whose SHA-256 is sha, as a blob, if they are not there. blob: its
 * name. */
_must_check_ int upload_blob(struct upload *u, const void *data, size_t len,
                             const char *sha, char blob[static SHFS_SHA256_SIZE]);

/* Sets *out to bytes of a file of u->now, as upload_files has found it. -EAGAIN: it has
 * changed its name since. */
_must_check_ int upload_read(struct upload *u, const struct remote_file *file,
                             uint64_t at, size_t len, struct shfs_buf *out);
