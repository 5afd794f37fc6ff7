/* SPDX-License-Identifier: MIT */
/*
 * forget-plan.h - writes the results of forget.c down as a plan and carries it out, so
 * that it may be killed at any instant.
 */
#pragma once

#include "common/buf.h"
#include "store/care/forget.h"
#include "store/objects/lease.h"
#include "store/objects/object.h"
#include "store/store.h"

/* Locks that are held while forgetting. */
struct forget_hold {
	const struct shfs_forget_beside *beside;
	struct lease_gate gate; /* no other collection runs */
	bool held;
	bool alone;            /* nobody records, either */
	struct shfs_buf young; /* names of the young segments; each with a NUL */
};
struct shfs_forget_beside;
_must_check_ int forget_hold(struct shfs_store *store,
                             const struct shfs_forget_beside *beside,
                             struct forget_hold *out);
void forget_release(struct shfs_store *store, struct forget_hold *hold);

/* Is it a young segment? Has its producer begun a young segment? */
bool forget_is_young(const struct forget_hold *hold, const char *segment);
bool forget_is_followed(const struct forget_hold *hold, const char *segment);

/* Add lines to a plan. */
void forget_plan_segment(struct shfs_buf *plan, const char *host, const char *name);
void forget_plan_blank(struct shfs_buf *plan, const char *host, const char *name,
                       uint64_t offset, uint64_t len);
void forget_plan_object(struct shfs_buf *plan, const struct shfs_object_id *id);

/* Makes the plan durable, and carries it out. */
_must_check_ int forget_plan_run(struct shfs_store *store, const char *hook_dir,
                                 struct forget_hold *hold, const struct shfs_buf *plan);

/* -EPROTONOSUPPORT: a segment of the journal has another format, so that nobody can tell
 * what it names. */
_must_check_ int forget_check_formats(struct shfs_store *store);

/* Removes segments of plans that were never made durable. */
_must_check_ int forget_plan_clear(struct shfs_store *store);

/* Opens the host's directory of the journal. */
_must_check_ int forget_open_host(struct shfs_store *store, const char *host);

/* Opens a segment, sealed or not; name is without ".zst". -EPROTONOSUPPORT: it has
 * another format; 1: it cannot be read. */
struct shfs_segment;
_must_check_ int forget_open_segment(int dirfd, const char *name,
                                     struct shfs_segment **out);
