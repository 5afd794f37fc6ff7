/* SPDX-License-Identifier: MIT */
/* put-internal.h - what object.c (puts) and object-commit.c (commits) share. */
#pragma once

#include "store/objects/content.h"
#include "store/objects/object.h"

struct solid_group;

struct shfs_put {
	struct shfs_store *store; /* borrowed */
	bool leased;
	struct shfs_object_id id;
	uint64_t check;   /* of the content, see object-cache.h */
	size_t len;       /* of the content */
	uint64_t stored;  /* bytes */
	bool there;       /* the object exists: nothing to write */
	bool just_there;  /* found by the commit under way, which may fail */
	bool heal;        /* the object of that name is damaged: replace it */
	bool there_loose; /* the existing object is loose */
	bool loose;       /* the new object is loose */
	bool waits;       /* it is counted by n_waiting */
	int level;
	struct solid_group *group; /* that it is in during a commit; or NULL */
	bool added;                /* the commit under way has given it its name */
	struct loose_file file;
	struct frame frame; /* if it is not loose: its head, for coded */
	struct coded coded;
	struct pack *unsynced; /* holds the content or its base: must be durable first */
	struct recent *self;
	struct recent *base;     /* base of a delta, which may not be an object yet */
	struct recent_cost cost; /* of the object, that is written or there */
};

/* Encodes without a base, in less than max bytes: as a frame, or loose. 1: not possible.
 */
_must_check_ int encode_alone(struct shfs_put *put, const void *data, size_t len,
                              int level, size_t max);

/* Compresses a content for itself that was meant for a solid frame. After an error the
 * put is as before. */
_must_check_ int put_leave_solid(struct shfs_put *put);

/* Is a delta of so many bytes cheap enough that has a base of this cost? */
bool cost_fits(struct recent_cost base, size_t len);

/* Notes what the base of a delta costs. */
void set_base_cost(struct shfs_put *put, struct recent_cost base);

/* Frees the encoded bytes, which are not needed or were written. */
void put_drop_bytes(struct shfs_put *put);
