/* SPDX-License-Identifier: MIT */
/*
 * import.h - takes in what shfs_forget_hand_out handed out, of another store or of this
 * one: bytes of a stranger.
 *
 * Objects are hashed, and segments read and written anew, before anything is believed.
 * What the journal has already is left as it is; where both have some of a segment or of
 * a hook log, the result has all. Nothing is in the journal before
 * shfs_import_finish; objects that were taken in by then and that nothing names harm
 * nobody. Killed at any time, it can be done again. One thread.
 */
#pragma once

#include "store/store.h"

struct shfs_import;

/* The store is borrowed. dry_run: everything is looked at, and nothing stays. -EBUSY:
 * another import or a collection is at work, or something is being forgotten
 * (shfs_forget_pending); -ENOTRECOVERABLE: of pruned_look. */
_must_check_ int shfs_import_new(struct shfs_store *store, bool dry_run,
                                 struct shfs_import **out);
/* Without a finish nothing was imported. NULL is fine. */
void shfs_import_free(struct shfs_import *import);

/* A file of the journal. -EINVAL: no such name may be there; -EEXIST: it came before;
 * -EBADMSG: damaged; -EPROTONOSUPPORT: another version of shfs made it. */
_must_check_ int shfs_import_file(struct shfs_import *import, const char *host,
                                  const char *name, const void *data, size_t len);

/* An object, by its name (shfs_object_name). -EBADMSG: it is another content;
 * -EEXIST: the store has this name for another content that collides with it. */
_must_check_ int shfs_import_object(struct shfs_import *import, const char *name,
                                    const void *data, size_t len);

/* Which contents of the files so far were pruned (store/objects/pruned.h). -EEXIST: it
 * came before; -EBADMSG: damaged. */
_must_check_ int shfs_import_pruned(struct shfs_import *import, const void *data,
                                    size_t len);

/* Which segments of the files so far were of recordings that went on: "HOST/NAME", a line
 * each. -EEXIST: it came before; -EINVAL: no such segment did. */
_must_check_ int shfs_import_alive(struct shfs_import *import, const char *lines,
                                   size_t len);

struct shfs_import_stats {
	uint64_t files, files_known; /* of the journal; that brought nothing new */
	uint64_t objects, objects_known, bytes;
	uint64_t alive; /* recordings that went on when they were archived, and are new */
	uint64_t missing; /* objects that the files name, and that were lost */
};

/* Puts all in its place, and makes the index again. -EBUSY: it goes on in files which
 * something that records into the store may be writing; -EILSEQ: a hook log goes on in
 * another way than the one here. */
_must_check_ int shfs_import_finish(struct shfs_import *import, const char *hook_dir,
                                    struct shfs_import_stats *stats);
