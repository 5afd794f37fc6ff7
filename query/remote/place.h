/* SPDX-License-Identifier: MIT */
/*
 * place.h - what a store knows of its remotes: the directory remote/ of the store.
 *
 *     remote/rewrites            how often records were changed or removed
 *     remote/NAME/url            where the remote is
 *     remote/NAME/encrypted      its label, and where its key is: not the key
 *     remote/NAME/pushed         what this store has there, as of its last push
 *     remote/NAME/unfinished     blobs that a push has put whose end is not noted yet
 *     remote/NAME/bad            blobs of this store that shfs remote check found damaged
 *     remote/NAME/pulled/STORE  what was taken from there of another store
 *     remote/NAME/incoming/      what a pull has fetched, and not taken yet
 *     remote/from@HASH           the same of a host that is fetched from
 *     remote/from@HASH/host      how it is reached for contents that stay there
 *     remote/served@             what this store was when another one fetched it last
 *
 * One process at a time changes it (place_lock).
 */
#pragma once

#include "query/remote/manifest.h"
#include "store/store.h"

#define PLACE_NAME_MAX 64

/* The encryption of a remote, as far as it is known here. All are malloc'ed. */
struct place_encryption {
	char *label; /* encrypted.h; NULL: it is not encrypted */
	/* where its key is, or NULL; both may be */
	char *key_file, *key_command;
};

void place_encryption_clear(struct place_encryption *encryption);

struct place {
	struct shfs_store *store; /* borrowed */
	char *name, *url;
	struct place_encryption encryption;
	int dirfd; /* remote/NAME */
};

bool place_name_is_valid(const char *name);

/* Makes the place of a new remote. -EEXIST: there is one of that name. */
_must_check_ int place_new(struct shfs_store *store, const char *name, const char *url,
                           const struct place_encryption *encryption);
/* Notes where a remote is in its directory remote/NAME. */
_must_check_ int place_note(int dirfd, const char *url,
                            const struct place_encryption *encryption);
/* Opens a place. name NULL: the only one; -ENOTUNIQ: there are several. -ENOENT. */
_must_check_ int place_open(struct shfs_store *store, const char *name,
                            struct place *out);
/* Opens the place of a host that is fetched from, url, or makes it. url NULL: the place
 * of those that fetch from this store. These have no names: place_open does not open
 * them. */
_must_check_ int place_open_unnamed(struct shfs_store *store, const char *url,
                                    struct place *out);
void place_close(struct place *place);
#define _cleanup_place_ _cleanup_(place_close)
/* Removes it, with all that it has. */
_must_check_ int place_remove(struct shfs_store *store, const char *name);
/* Removes what pulls have fetched and not taken. -EBUSY: one may be at work. */
_must_check_ int place_remove_incoming(struct shfs_store *store);
/* Calls fn for the name of each place, in order. */
_must_check_ int place_each(struct shfs_store *store,
                            int (*fn)(void *arg, const char *name), void *arg);
/* Calls fn for each place from which something was taken, also if it has no name; and
 * damaged for one that cannot be opened. If that is NULL, such a place ends it. */
_must_check_ int
place_each_source(struct shfs_store *store,
                  int (*fn)(void *arg, const struct place *place),
                  void (*damaged)(void *arg, const char *name, int error), void *arg);

/* Takes the lock of all places of the store, or waits for it some seconds. Returns an fd;
 * -EBUSY. */
_must_check_ int place_lock(const struct shfs_store *store);

/* A number that grows each time that records of the store were changed or removed, as
 * seen by these calls. least: it becomes so much at least. */
_must_check_ int place_rewrites(struct shfs_store *store, uint64_t least, uint64_t *out);

/* Reads and writes a manifest below remote/NAME. -ENOENT; -EBADMSG. */
_must_check_ int place_read(const struct place *place, const char *file,
                            struct manifest *out);
_must_check_ int place_write(const struct place *place, const char *file,
                             const struct manifest *m);

/* Calls fn for each manifest in remote/NAME/pulled. A damaged one is left out. */
_must_check_ int place_each_pulled(const struct place *place,
                                   int (*fn)(void *arg, const struct manifest *m),
                                   void *arg);

/* Lines of words: reads the file (there may be none), and adds a line durably. */
_must_check_ int place_read_lines(const struct place *place, const char *file,
                                  struct shfs_buf *out);
_must_check_ int place_add_line(const struct place *place, const char *file,
                                const char *line);
/* Removes a file, or a directory with all in it. There may be none. */
_must_check_ int place_remove_file(const struct place *place, const char *file);
