/* SPDX-License-Identifier: MIT */
/* check.h - looks whether a remote has all that stores have pushed to it. */
#pragma once

#include "query/remote/backend.h"
#include "query/remote/manifest.h"

enum remote_problem_kind {
	REMOTE_MISSING, /* a blob */
	REMOTE_LENGTH,  /* it has another length */
	REMOTE_DAMAGED, /* it has other bytes */
	REMOTE_HEAD,    /* the head cannot be read */
};

struct remote_problem {
	enum remote_problem_kind kind;
	const char *store_id, *host; /* host: "" if the head cannot be read */
	const char *blob;            /* NULL: it is a head */
	const char *file;            /* one that has bytes in the blob; NULL: a list */
};

struct remote_check {
	/* in */
	bool read_data; /* get all blobs, and compare their bytes */
	int (*problem)(void *arg, const struct remote_problem *problem);
	void (*progress)(uint64_t done_bytes, uint64_t all_bytes);
	void *arg;
	/* out */
	uint64_t stores, blobs, bytes;
	uint64_t unneeded; /* blobs that no head needs: of a push that is at work, or was
	                    * interrupted */
};

/* Errors as remote_look; the result of problem if that is not 0. */
_must_check_ int remote_check_run(struct shfs_remote *remote, struct remote_check *check);
