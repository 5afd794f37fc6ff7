/* SPDX-License-Identifier: MIT */
/* packs-internal.h - what packs.c (finding) and packs-commit.c (producing) share. */
#pragma once

#include "store/objects/packs.h"

#include <pthread.h>

#define PACK_NAME_BYTES 128

/* Entries by prefix, open addressing; offset 0: free. */
struct pack_table {
	struct pack_entry *entries;
	size_t n, size;
};

struct pack {
	char name[PACK_NAME_BYTES];
	int fd;                  /* for reading; -1: not open */
	struct pack_index index; /* covered 0: none */
	uint8_t *filter;         /* a bit for each prefix in the index; NULL: not made */
	unsigned filter_shift;
	struct pack_table tail; /* frames behind those of the index */
	uint64_t scanned;       /* frames up to here are in the index or the tail */
	uint64_t durable_bytes; /* frames up to here are surely on the disk */
	bool settled;           /* nobody will append to it */
	bool unreadable;        /* the tail lacks frames that could not be read */
	bool own;               /* we append to it */
	bool gone;              /* it was collected */
	ino_t ino;              /* 0: not known yet */
};

#define SOLIDS_MAX 64

/* A solid frame that was read: who reads one of its contents mostly reads more of them.
 */
struct pack_solid {
	const struct pack *pack;
	uint32_t offset;
	int64_t read_ns;
	uint64_t used;       /* the newest has the highest number */
	struct solid *solid; /* a reference; NULL: none */
};

struct packs {
	pthread_mutex_t lock; /* guards all else, and packs */
	pthread_mutex_t
		commit; /* guards what follows, up to appended; taken before lock */
	int own_fd;     /* the pack that we append to; -1 */
	int lock_fd;    /* our slot; -1 */
	struct pack *own;
	uint32_t slot, next; /* the number of the pack after ours */
	bool locks;          /* flock may be used */
	bool looks_again;    /* for an object that was not found */
	uint64_t append_at;  /* begin of the batch */
	uint64_t append_end; /* its end: others may have appended behind it */
	bool appended;

	/* under lock */
	int dirfd; /* objects/packs; -1: there is none yet */
	pid_t pid;
	bool producer;
	struct timespec dir_mtime;
	int64_t dir_seen_ns;
	struct pack **list; /* in the order in which they were found; none is freed */
	size_t n;
	unsigned n_open, next_close;
	unsigned read_errors;
	struct pack_solid solids[SOLIDS_MAX];
	uint64_t solids_used;
	size_t solids_bytes; /* of memory */
};

/* The functions below are called with packs->lock held. */

_must_check_ int pack_table_add(struct pack_table *t, struct pack_entry e);

/* Returns an fd for reading, which the pack owns. */
_must_check_ int pack_fd(struct packs *p, struct pack *pack);

/* Adds the frames behind `scanned` to the tail. */
_must_check_ int pack_scan_tail(struct packs *p, struct pack *pack);

/* Moves the tail into the index. The pack must be durable up to `scanned`. -ENOENT: the
 * pack is gone. */
_must_check_ int pack_write_index(struct packs *p, struct pack *pack);

/* Removes the index. 0 also if there is none. */
_must_check_ int pack_remove_index(struct packs *p, const struct pack *pack);

/* Opens the directory, and makes it if create. -ENOENT. */
_must_check_ int packs_open_dir(struct shfs_store *store, struct packs *p, bool create);

/* Adds a pack that is not in the list. */
_must_check_ int packs_add(struct packs *p, const char *name, struct pack **out);

/* Drops the solid frames that are in memory. */
void packs_drop_solids(struct packs *p);

/* Closes packs that were collected. */
void packs_find_gone(struct packs *p);

/* Finds packs and frames that others wrote. */
_must_check_ int packs_learn(struct shfs_store *store, struct packs *p);

/* Ends being a producer. Called without the lock. */
void packs_end(struct packs *p);
