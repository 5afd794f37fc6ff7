/* SPDX-License-Identifier: MIT */
/* pull-internal.h - what the two halves of a pull share: pull.c, take.c. */
#pragma once

#include "query/remote/contents.h"
#include "query/remote/elsewhere.h"
#include "query/remote/fetch.h"
#include "query/remote/pull.h"

/* A pack of which pieces were fetched. */
struct fetched_pack {
	size_t file;  /* index in `now` */
	bool *pieces; /* for each piece: it was fetched */
	bool unknown; /* there is no list of its contents */
	bool bases;   /* contents of other packs may be deltas of what it has */
};

/* A store that has pushed. */
struct pulled_store {
	char store_id[STORE_ID_SIZE];
	struct manifest known, now; /* known: when it was pulled last */
	struct manifest away;       /* files that are only there (elsewhere.h) */
	int lists;      /* directory of lists of contents; -1: with the rest */
	bool on_demand; /* only contents that are away are brought */
	bool is_own;    /* another copy of this store has pushed */
	bool replaces;  /* records were changed or removed there since */
	bool *left_out; /* for each file of now: it was not fetched whole */
	struct fetched_pack *packs;
	size_t n_packs, cap_packs;
};

struct pull {
	struct place *place;
	struct shfs_remote *remote; /* only while it fetches */
	struct pull_options options;
	struct pulled_store *list;
	size_t n, cap;
	const char *host; /* at work */
	struct pull_stats stats;
};

/* remote/NAME/incoming/STORE, and its path below the store: malloc'ed. */
_must_check_ int incoming_open(const struct pull *pull, const struct pulled_store *o);
char *incoming_path(const struct pull *pull, const struct pulled_store *o);

/* The name of a pack's copy there. */
void incoming_pack(const char *pack, char out[static 64]);

/* Was the file not there, or another one, at the last pull? */
bool is_new_file(const struct pulled_store *o, const struct remote_file *file);

/* Is the object of this file to be taken: not here, and not pruned or forgotten here? 1,
 * 0, -errno. */
_must_check_ int object_is_wanted(struct shfs_store *store, const struct pulled_store *o,
                                  const struct remote_file *file,
                                  const struct shfs_object_id *id);

/* Reads the list of a pack's contents that was fetched. -ENOENT; -EBADMSG. */
_must_check_ int incoming_contents(const struct pulled_store *o, int incoming,
                                   const struct remote_file *pack, struct contents *out);

/* Calls fn for each piece, by its number, that has some of an object's frame. */
static inline void each_piece_of(const struct packed_object *o, size_t n_pieces,
                                 void (*fn)(void *arg, size_t piece), void *arg)
{
	uint64_t end = (uint64_t)o->at + MAX(o->bytes, 1u);

	for (uint64_t i = o->at / PIECE_BYTES; i * PIECE_BYTES < end && i < n_pieces; i++)
		fn(arg, (size_t)i);
}

/* Fetches the objects, and what they are deltas of, wherever they lie. */
_must_check_ int fetch_objects(struct pull *pull, struct pulled_store *o,
                               struct fetcher *f, int incoming,
                               const struct shfs_objects *ids);
/* Fetches a loose object, if it is wanted. */
_must_check_ int fetch_loose(struct pull *pull, struct pulled_store *o, struct fetcher *f,
                             int incoming, const struct remote_file *file);
/* Takes over the objects that were fetched, and nothing else. */
_must_check_ int take_objects(struct pull *pull, struct pulled_store *o);

/* Finds the pieces of packs that are to be fetched, and fetches these. */
_must_check_ int fetch_packs(struct pull *pull, struct pulled_store *o, struct fetcher *f,
                             int incoming);
