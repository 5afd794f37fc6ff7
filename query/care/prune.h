/* SPDX-License-Identifier: MIT */
/*
 * prune.h - removes archived contents of old versions, by age, number, size and the limit
 * of the store, while mounts record.
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
	/* versions of each file that stay; 0: only other rules keep versions */
	int64_t keep_last, keep[SHFS_KEEPS];
	int64_t keep_since_ns;
	/* only such versions are removed */
	int64_t older_ns; /* made before this time; 0: any */
	uint64_t larger;
	const struct shfs_filter *files; /* resolved; NULL: all files */
	uint64_t max_bytes; /* remove only until the store is this small; 0: all */
	bool also_newest;   /* also the newest version of a file that exists */
};

/* Reports a version that is removed. */
typedef void (*shfs_prune_fn)(void *arg, const char *path, int64_t n, uint64_t size);

struct shfs_prune {
	struct shfs_store *store;
	struct shfs_index *index;
	const char *hook_dir;
	struct shfs_prune_policy policy;
	bool dry, alone, despite_damage;
	int wait_ms;
	/* out */
	uint64_t versions, objects, bytes; /* removed; bytes as stored */
	struct shfs_usage before, after;
	shfs_prune_fn show; /* for a dry run; or NULL */
	void *arg;
	bool exhausted; /* nothing more can be removed */
	unsigned rounds, picks;
};

/* Errors: those of shfs_collect; -EBADMSG, -EPROTONOSUPPORT: a part of the journal cannot
 * be read, so nothing is removed. */
_must_check_ int shfs_prune_run(struct shfs_prune *prune);

/* Prints an error of shfs_prune_run or shfs_collect. Returns the exit code. */
int shfs_fail_collect(const struct shfs_store *store, const char *what, int error);
