/* SPDX-License-Identifier: MIT */
/*
 * upstream.h - where a version comes from: the commands behind it, and the versions that
 * each of them had read by then, back to what nobody made.
 *
 * A graph of versions and makers. A maker is a command, or a process that belongs to
 * none. Its inputs are what it read before the last of its versions in the graph was
 * done, but for what it made itself; also the past of a file that it appended to or
 * changed in place, and what it moved or linked. What shfs or a program of version
 * control wrote again comes from the version that it equals; what lies in .git and the
 * like is counted and left out unless it is asked for, or all history would lead to all
 * other. Versions cannot go round in circles; makers can (one long session of an editor),
 * so whoever walks the graph marks them.
 */
#pragma once

#include "query/entry.h"

struct shfs_upstream_version {
	struct shfs_version version;
	struct shfs_upstream_maker *maker;  /* NULL: nobody that we know of: a source */
	struct shfs_upstream_version *next; /* in the order of discovery */
	struct shfs_upstream_version *next_made; /* by the same maker */
};

struct shfs_upstream_maker {
	struct shfs_entry entry;               /* without its uses */
	struct shfs_upstream_version **inputs; /* in the order of first use */
	size_t n_inputs, cap_inputs;
	size_t n_left_out; /* inputs in .git and the like */
	size_t n_more;     /* inputs that would have been more than max_versions */
	struct shfs_upstream_version *made;
	struct shfs_upstream_maker *next;
	bool cut;         /* too far up: its inputs were not looked for */
	bool mark;        /* for whoever walks the graph */
	int64_t until_ns; /* reads that began later are no inputs */
	size_t depth;     /* makers between it and the target, at least */
};

struct shfs_upstream;

/* max_depth: how many makers one behind the other; max_versions: how many versions are
 * looked at, about; 0: all. all: also through .git, as also if target lies in there. */
_must_check_ int shfs_upstream_new(struct shfs_index *index,
                                   const struct shfs_version *target, size_t max_depth,
                                   size_t max_versions, bool all,
                                   struct shfs_upstream **out);
void shfs_upstream_free(struct shfs_upstream *up);

static inline void shfs_upstream_freep(struct shfs_upstream **up)
{
	shfs_upstream_free(*up);
}
#define _cleanup_upstream_ _cleanup_(shfs_upstream_freep)

/* The first is the target. */
struct shfs_upstream_version *shfs_upstream_versions(struct shfs_upstream *up);
struct shfs_upstream_maker *shfs_upstream_makers(struct shfs_upstream *up);
