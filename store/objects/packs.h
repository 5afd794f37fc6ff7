/* SPDX-License-Identifier: MIT */
/*
 * packs.h - all packs of a store, as this process knows them.
 *
 * Packs are found by reading the directory. Of one with an index the entries stay in the
 * file; what lies behind those is scanned and kept in memory, and looked at again when
 * something is not found. A producer appends to a pack of its own, chosen by a lock
 * (common/lock.h), so a pack has one writer; the directory is flock'ed while a batch is
 * appended, so that two producers never give one name to two contents (not on a network
 * file system, where nothing takes a lock). Thread-safe.
 */
#pragma once

#include "store/objects/pack.h"
#include "store/store.h"

struct packs;

/* A frame that was read and is intact. */
struct packed {
	struct frame frame;
	unsigned char *bytes; /* head and stored bytes; owned */
	struct pack *pack;    /* borrowed */
	uint32_t offset;      /* in it */
	bool durable;         /* if not: packs_sync(pack) makes it so */
};

static inline void packed_free(struct packed *p)
{
	free(p->bytes);
}
#define _cleanup_packed_ _cleanup_(packed_free)

/* Nothing is read yet. NULL: no memory. */
struct packs *packs_new(void);
/* Ends what packs_begin began. */
void packs_free(struct shfs_store *store, struct packs *packs);

/* Takes the lock on a pack, and learns what is there. Nothing if that was done. */
_must_check_ int packs_begin(struct shfs_store *store);

/*
 * The newest intact frame of the object; skip: the next ones. -ENOENT: there is none;
 * -EBADMSG: but damaged ones.
 */
_must_check_ int packs_read(struct shfs_store *store, const struct shfs_object_id *id,
                            unsigned skip, struct packed *out);

/* How often something could not be read so far: it counts as damaged, or as if it were
 * not there, which need not be true. */
unsigned packs_read_errors(struct shfs_store *store);

/* May there be an object of this name, as far as is known? */
bool packs_may_have(struct shfs_store *store, const struct shfs_object_id *id);

/* Learns what others took away, too. */
_must_check_ int packs_relearn(struct shfs_store *store);

/* Closes what others took away: its bytes are free only then. */
void packs_let_go(struct shfs_store *store);

/* Learns what others wrote. */
_must_check_ int packs_refresh(struct shfs_store *store);

_must_check_ int packs_sync(struct shfs_store *store, struct pack *pack);

/*
 * One commit: begin, which learns what others wrote; append, at most once, that many
 * frames; written, when nothing that others must see is left to write; end, which makes
 * the frames durable, and visible to this process. Between begin and end no other thread,
 * between begin and written no other process commits. After an error of append nothing
 * was appended; end must be called all the same, with it.
 */
struct packs_frame {
	struct shfs_object_id id;
	size_t at; /* in data */
};

_must_check_ int packs_commit_begin(struct shfs_store *store);
_must_check_ int packs_append(struct shfs_store *store, const void *data, size_t len);
void packs_commit_written(struct shfs_store *store);
_must_check_ int packs_commit_end(struct shfs_store *store, int error,
                                  const struct packs_frame *frames, size_t n);

/* For the tests: a pack is full at so many bytes. */
extern uint64_t packs_full_bytes;
