/* SPDX-License-Identifier: MIT */
/*
 * prune.h - which archived contents of versions may go, by age, number, size, and what
 * the store may take; and their removal, while mounts record.
 */
#pragma once

#include "query/history/filter.h"
#include "store/objects/collect.h"
#include "store/objects/usage.h"

enum {
	SHFS_KEEP_HOURLY,
	SHFS_KEEP_DAILY,
	SHFS_KEEP_WEEKLY,
	SHFS_KEEP_MONTHLY,
	SHFS_KEEP_YEARLY,
	SHFS_KEEPS
};

struct shfs_prune_policy {
	/* versions of a file that stay; 0: by others alone */
	int64_t keep_last, keep[SHFS_KEEPS];
	int64_t keep_since_ns;
	/* those that go are */
	int64_t older_ns; /* made before it; 0: any */
	uint64_t larger;
	const struct shfs_filter *files; /* resolved; NULL: of all files */
	uint64_t max_bytes; /* no more go than the store has above this; 0: all */
	bool also_newest;   /* also the newest of a file that is there */
};

/* A version that goes. */
typedef void (*shfs_prune_fn)(void *arg, const char *path, int64_t n, uint64_t size);

struct shfs_prune {
	struct shfs_store *store;
	struct shfs_index *index;
	const char *hook_dir;
	struct shfs_prune_policy policy;
	bool dry, alone, despite_damage;
	int wait_ms;
	/* out */
	uint64_t versions, objects, bytes; /* that go; bytes as they are stored */
	struct shfs_usage before, after;
	shfs_prune_fn show; /* of a dry one; or NULL */
	void *arg;
	bool exhausted; /* no more may go */
	unsigned rounds, picks;
};

/* Errors: of shfs_collect; -EBADMSG, -EPROTONOSUPPORT: not all of the journal can be
 * read, so nothing is taken. */
_must_check_ int shfs_prune_run(struct shfs_prune *prune);

/* For an error of these and of shfs_collect: says why. Returns the exit code. */
int shfs_fail_collect(const struct shfs_store *store, const char *what, int error);
