/* SPDX-License-Identifier: MIT */
/*
 * heir.h - the state that a server needs to take a mount over from one that died: in
 * memory that both share, and that is consistent at any moment.
 *
 * A place is a directory that the kernel knows, or an open file, with the name by which
 * it is reached. Other files are looked up anew. The kernel knows an open file by a
 * number: its index in the table here, and a serial number, as indexes are reused.
 */
#pragma once

#include "common/util.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define SHFS_HEIR_OPENS (1u << 20)

struct shfs_heir_node {
	atomic_bool is_used;
	bool hidden;
	bool gone; /* the file has no name any more; name is its last one */
	mode_t type;
	uint32_t generation;
	uint64_t id, dev, ino;
	uint64_t parent; /* id of the parent */
	char name[NAME_MAX + 1];
};

enum shfs_opened { SHFS_OPENED_NONE, SHFS_OPENED_FILE, SHFS_OPENED_DIRECTORY };

struct shfs_open {
	_Atomic enum shfs_opened what;
	uint32_t serial;
	uint64_t unique; /* of the request that opened it */
	uint64_t node;
	int32_t fd;    /* of the lower file; open in both processes */
	int32_t flags; /* of open(2) */
	uint32_t tid, uid, gid;
	uint64_t boot_ns; /* when it was opened */
	int32_t backing_id;
	uint8_t io;        /* enum shfs_io */
	atomic_bool wrote; /* it was written through */
};

struct shfs_heir;

/* Makes an heir, while there is one thread. NULL: no memory. Each process frees it. */
struct shfs_heir *shfs_heir_new(void);
void shfs_heir_free(struct shfs_heir *heir); /* NULL is fine */
/* Takes the heir: the first call in a server that takes over. */
void shfs_heir_take(struct shfs_heir *heir);

/* Set and get the mount's device, once the mount can be taken over; -1: not yet. */
void shfs_heir_set_device(struct shfs_heir *heir, int fd);
int shfs_heir_device(const struct shfs_heir *heir);

/* Set and get the kernel's first request, INIT, which it sends once for a mount. */
void shfs_heir_set_init(struct shfs_heir *heir, const void *request, size_t size);
const void *shfs_heir_init(const struct shfs_heir *heir, size_t *size);

/* --- nodes; NULL: there are too many --- */

struct shfs_heir_node *shfs_heir_node_new(struct shfs_heir *heir);
void shfs_heir_node_done(struct shfs_heir *heir, struct shfs_heir_node *heir_node);
/* Returns the next used place. NULL as argument: the first; NULL as result: no more. */
struct shfs_heir_node *shfs_heir_next_node(struct shfs_heir *heir,
                                           struct shfs_heir_node *heir_node);

/* Notes before a rename the new name of each place that it moves (NULL: none).
 * shfs_heir_moved follows the rename. */
void shfs_heir_move(struct shfs_heir *heir, struct shfs_heir_node *heir_node,
                    uint64_t parent, const char *name);
void shfs_heir_moved(struct shfs_heir *heir);
/* Gives a file that was being moved when the other server died its new name, if is_there
 * says that it has it. */
void shfs_heir_settle_moves(struct shfs_heir *heir,
                            bool (*is_there)(const struct shfs_heir_node *heir_node,
                                             void *arg),
                            void *arg);

/* --- requests that must not be done twice --- */

/*
 * A request that was not answered is sent again to a server that takes over. _try notes
 * it before its call, with a number that helps to find out whether the call was done;
 * _failed notes that the call has failed. _was_tried: the request may have been carried
 * out; *note is the number that was given to _try (note may be NULL).
 */
void shfs_heir_try(struct shfs_heir *heir, uint64_t unique, uint64_t note);
void shfs_heir_failed(struct shfs_heir *heir, uint64_t unique);
bool shfs_heir_was_tried(const struct shfs_heir *heir, uint64_t unique, uint64_t *note);

/* --- open files --- */

/* Adds an open file; returns the number by which the kernel knows it; 0: there are too
 * many.
 */
uint64_t shfs_heir_open(struct shfs_heir *heir, const struct shfs_open *as, void *opened);
void shfs_heir_open_done(struct shfs_heir *heir, uint64_t fh);
/* Return the open file with this number, as given to shfs_heir_open; NULL: it is not open
 * (any more). */
void *shfs_heir_opened(struct shfs_heir *heir, uint64_t fh);
struct shfs_open *shfs_heir_open_of(struct shfs_heir *heir, uint64_t fh);
/* Returns the number of the file that this request has opened in a dead server; 0: none.
 */
uint64_t shfs_heir_opened_by(struct shfs_heir *heir, uint64_t unique);
/* Get the fds of all open files; there are at most shfs_heir_n_opens. */
size_t shfs_heir_n_opens(const struct shfs_heir *heir);
size_t shfs_heir_fds(const struct shfs_heir *heir, int *fds, size_t max);
/* Calls resume for each open file. shfs_heir_opened returns its result from then on;
 * NULL: resume has closed the fd. */
void shfs_heir_each_open(struct shfs_heir *heir,
                         void *(*resume)(const struct shfs_open *open, uint64_t fh,
                                         void *arg),
                         void *arg);
