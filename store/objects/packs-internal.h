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
	int fd;                  /* for reading, where it is held open */
	struct pack_index index; /* covered 0: none */
	uint8_t *filter;         /* a bit for each prefix in the index; NULL: not made */
	unsigned filter_shift;
	struct pack_table tail; /* what lies behind the index */
	uint64_t scanned;       /* up to here it is known */
	uint64_t durable_bytes; /* up to here it is on the disk for sure */
	bool settled;           /* nobody will append to it */
	bool unreadable;        /* some of it: what the tail has is not all there is */
	bool own;               /* we append to it */
	bool gone;              /* it was collected */
	ino_t ino;              /* 0: not known yet */
};

struct packs {
	pthread_mutex_t lock;   /* of all but commits */
	pthread_mutex_t commit; /* of what follows; taken before lock */
	int own_fd;             /* the end of the pack that we append to; -1 */
	int lock_fd;            /* our slot; -1 */
	struct pack *own;
	uint32_t slot, next; /* the number of the pack after ours */
	bool locks;          /* flock may be used */
	bool looks_again;    /* for what was not found */
	uint64_t append_at;  /* where the batch begins */
	uint64_t append_end; /* and ends: behind it others may have appended */
	bool appended;

	/* under lock */
	int dirfd; /* objects/packs; -1: there is none yet */
	pid_t pid;
	bool producer;
	struct timespec dir_mtime;
	int64_t dir_seen_ns;
	struct pack **list; /* as they were found; each stays until the end */
	size_t n;
	unsigned n_open, next_close;
	unsigned read_errors;
};

/* The rest is called with packs->lock held. */

_must_check_ int pack_table_add(struct pack_table *t, struct pack_entry e);

/* For reading; stays the pack's. */
_must_check_ int pack_fd(struct packs *p, struct pack *pack);

/* Learns of what lies behind what is known. */
_must_check_ int pack_scan_tail(struct packs *p, struct pack *pack);

/* The tail goes into the index. The pack is durable that far. -ENOENT: it is gone. */
_must_check_ int pack_write_index(struct packs *p, struct pack *pack);

/* 0 also where there is none. */
_must_check_ int pack_remove_index(struct packs *p, const struct pack *pack);

/* Opens the directory, made first if asked to. -ENOENT. */
_must_check_ int packs_open_dir(struct shfs_store *store, struct packs *p, bool create);

/* A pack that was not known. */
_must_check_ int packs_add(struct packs *p, const char *name, struct pack **out);

/* Closes those that were collected. */
void packs_find_gone(struct packs *p);

/* Learns what others wrote. */
_must_check_ int packs_learn(struct shfs_store *store, struct packs *p);

/* No longer a producer. Without the lock. */
void packs_end(struct packs *p);
