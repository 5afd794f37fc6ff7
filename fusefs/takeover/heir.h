/* SPDX-License-Identifier: MIT */
/*
 * heir.h - what a server must know to take a mount over from one that died: in memory
 * that both share, and that is right at any moment.
 *
 * A place is a directory that the kernel knows, or a file that is open, with the name
 * that it is reached by. Other files are looked up anew. An open file has a number that
 * the kernel knows it by: its index in the table here, and a serial number, as each index
 * is used again and again.
 */
#pragma once

#include "common/util.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define SHFS_HEIR_OPENS (1u << 20)

struct shfs_place {
	atomic_bool is_used;
	bool hidden;
	bool gone; /* the file has no name any more; this was its last one */
	mode_t type;
	uint32_t generation;
	uint64_t id, dev, ino;
	uint64_t parent; /* its id */
	char name[NAME_MAX + 1];
};

enum shfs_opened { SHFS_OPENED_NONE, SHFS_OPENED_FILE, SHFS_OPENED_DIRECTORY };

struct shfs_open {
	_Atomic enum shfs_opened what;
	uint32_t serial;
	uint64_t unique; /* of the request that it answers */
	uint64_t node;
	int32_t fd;    /* of the file beneath: both have it */
	int32_t flags; /* of open(2) */
	uint32_t tid, uid, gid;
	uint64_t boot_ns; /* when it was opened */
	int32_t backing_id;
	uint8_t io;        /* enum shfs_io */
	atomic_bool wrote; /* through it */
};

struct shfs_heir;

/* While there is one thread. NULL: no memory. To be freed in each process. */
struct shfs_heir *shfs_heir_new(void);
void shfs_heir_free(struct shfs_heir *heir); /* NULL is fine */
/* The first call in the server that takes over. */
void shfs_heir_take(struct shfs_heir *heir);

/* The mount's device, once the mount can be taken over; -1: not yet. */
void shfs_heir_set_device(struct shfs_heir *heir, int fd);
int shfs_heir_device(const struct shfs_heir *heir);

/* The kernel's first request, INIT: the kernel sends it once for a mount. */
void shfs_heir_set_init(struct shfs_heir *heir, const void *request, size_t size);
const void *shfs_heir_init(const struct shfs_heir *heir, size_t *size);

/* --- places; NULL: there are too many --- */

struct shfs_place *shfs_heir_place(struct shfs_heir *heir);
void shfs_heir_place_done(struct shfs_heir *heir, struct shfs_place *place);
/* The next place that is used. NULL as an argument begins; NULL as a result: no more. */
struct shfs_place *shfs_heir_next_place(struct shfs_heir *heir, struct shfs_place *place);

/* Before a rename, for each place that it moves (NULL: none): where that will be. _moved
 * follows the rename. */
void shfs_heir_move(struct shfs_heir *heir, struct shfs_place *place, uint64_t parent,
                    const char *name);
void shfs_heir_moved(struct shfs_heir *heir);
/* A file that was being moved when the other server died gets its new place, if is_there
 * says that it is there. */
void shfs_heir_settle_moves(struct shfs_heir *heir,
                            bool (*is_there)(const struct shfs_place *place, void *arg),
                            void *arg);

/* --- what must not be done twice --- */

/*
 * A request that was not answered is sent again to the one that takes over. It is noted
 * with _try before what it asks for is done, together with what may be needed to tell
 * whether it was done; and with _failed after that has failed. _was_tried: it may have
 * been carried out; *note is what was given to _try (note may be NULL).
 */
void shfs_heir_try(struct shfs_heir *heir, uint64_t unique, uint64_t note);
void shfs_heir_failed(struct shfs_heir *heir, uint64_t unique);
bool shfs_heir_was_tried(const struct shfs_heir *heir, uint64_t unique, uint64_t *note);

/* --- what is open --- */

/* Adds an open file: the number by which the kernel knows it; 0: there are too many. */
uint64_t shfs_heir_open(struct shfs_heir *heir, const struct shfs_open *as, void *opened);
void shfs_heir_open_done(struct shfs_heir *heir, uint64_t fh);
/* The open file with this number, as it was given to shfs_heir_open; NULL: it is not open
 * (any more). */
void *shfs_heir_opened(struct shfs_heir *heir, uint64_t fh);
struct shfs_open *shfs_heir_open_of(struct shfs_heir *heir, uint64_t fh);
/* The number of what this request has opened, for one that died; 0: nothing. */
uint64_t shfs_heir_opened_by(struct shfs_heir *heir, uint64_t unique);
/* The fds of all open files, of which there are shfs_heir_n_opens at most. */
size_t shfs_heir_n_opens(const struct shfs_heir *heir);
size_t shfs_heir_fds(const struct shfs_heir *heir, int *fds, size_t max);
/* Calls resume for each open file. What it returns is what shfs_heir_opened returns from
 * then on; where that is NULL, resume has closed the fd. */
void shfs_heir_each_open(struct shfs_heir *heir,
                         void *(*resume)(const struct shfs_open *open, uint64_t fh,
                                         void *arg),
                         void *arg);
