/* SPDX-License-Identifier: MIT */
/*
 * packs.h - finds objects in all packs of a store, and appends to one.
 *
 * Packs are found by reading the directory. The entries of an index stay in its file; the
 * frames behind them (the tail) are scanned into memory, and scanned on when an object is
 * not found. A producer appends to a pack of its own, chosen by a lock
 * (common/lock.h), so a pack has one writer; the directory is flock'ed while a batch is
 * appended, so that two producers never give one name to two contents (not on a network
 * file system, where nothing takes a lock). Thread-safe.
 */
#pragma once

#include "store/objects/pack.h"
#include "store/objects/solid.h"
#include "store/store.h"

struct packs;

/* A frame that was read and is intact. */
struct packed {
	struct frame frame;
	unsigned char
		*bytes;      /* head and stored bytes; owned; NULL: it is a solid frame */
	struct solid *solid; /* the solid frame, a reference */
	struct pack *pack;   /* borrowed */
	uint32_t offset;     /* in the pack */
	bool durable;        /* if not: packs_sync(pack) makes it so */
};

static inline void packed_free(struct packed *p)
{
	free(p->bytes);
	solid_unref(p->solid);
	p->bytes = NULL;
	p->solid = NULL;
}
#define _cleanup_packed_ _cleanup_(packed_free)

/* Makes an empty list; nothing is read yet. NULL: no memory. */
struct packs *packs_new(void);
/* Ends what packs_begin began. */
void packs_free(struct shfs_store *store, struct packs *packs);

/* Is it a pack of contents that came from another store by a pull (shfs_store.pulls)? A
 * collection may move them to other packs. */
bool shfs_pack_is_pulled(const char *name);
#define PACK_PULLED_PREFIX "pulled+"

/* Makes this process a producer: takes the lock of a slot, and reads the directory. Does
 * nothing if it is one. */
_must_check_ int packs_begin(struct shfs_store *store);

/*
 * Reads the newest intact frame of the object, or with skip an older one. A solid frame
 * that was read within the last second is not read again. -ENOENT: there is none;
 * -EBADMSG: there are only damaged ones.
 */
_must_check_ int packs_read(struct shfs_store *store, const struct shfs_object_id *id,
                            unsigned skip, struct packed *out);

/* Returns how many reads have failed so far (-EIO). Their frames were taken as damaged or
 * missing, which need not be true. */
unsigned packs_read_errors(struct shfs_store *store);

/* May a pack that this process knows have an object of this name? */
bool packs_may_have(struct shfs_store *store, const struct shfs_object_id *id);

/* Finds what others wrote, and packs that were collected. */
_must_check_ int packs_relearn(struct shfs_store *store);

/* Closes collected packs, whose bytes become free only then. */
void packs_let_go(struct shfs_store *store);

/* Finds what others wrote. */
_must_check_ int packs_refresh(struct shfs_store *store);

_must_check_ int packs_sync(struct shfs_store *store, struct pack *pack);

/*
 * A commit has four steps:
 *
 * 1. packs_commit_begin finds what others wrote.
 * 2. packs_append, at most once, appends all frames.
 * 3. packs_commit_written: nothing is left to write that others must see.
 * 4. packs_commit_end makes the frames durable, and visible to this process.
 *
 * From 1 to 4 no other thread, and from 1 to 3 no other process commits. After an error
 * of packs_append nothing was appended; the error is passed to packs_commit_end.
 */
struct packs_frame {
	struct shfs_object_id id;
	size_t at; /* offset in data */
};

_must_check_ int packs_commit_begin(struct shfs_store *store);
_must_check_ int packs_append(struct shfs_store *store, const void *data, size_t len);
void packs_commit_written(struct shfs_store *store);
_must_check_ int packs_commit_end(struct shfs_store *store, int error,
                                  const struct packs_frame *frames, size_t n);

/* Size of a full pack; tests change it. */
extern uint64_t packs_full_bytes;
