/* SPDX-License-Identifier: MIT */
/*
 * import.h - imports the files of an archive that shfs_forget_hand_out made, of another
 * store or of this one. The archive is not trusted.
 *
 * Objects are hashed, and segments read and written anew. What the journal has already is
 * left as it is; a segment or hook log of which both have a part gets all. Nothing is in
 * the journal before shfs_import_finish; objects that were stored by then and that
 * nothing names do no harm. If it is killed, it can be called again. One thread.
 */
#pragma once

#include "store/objects/object.h"
#include "store/store.h"
#include "store/trees.h"

/* The first member of an archive, shfs/format (docs/archive.md). */
#define SHFS_ARCHIVE_FORMAT "1\n"

struct shfs_import;

/* Begins an import. The store is borrowed. dry_run: everything is checked, nothing is
 * kept. -EBUSY: another import or a collection is at work, or a plan to forget is pending
 * (shfs_forget_pending); -ENOTRECOVERABLE: as for pruned_look. */
_must_check_ int shfs_import_new(struct shfs_store *store, bool dry_run,
                                 struct shfs_import **out);
/* Ends the import; without shfs_import_finish nothing was imported. NULL is fine. */
void shfs_import_free(struct shfs_import *import);

/* Adds a file of the journal; a segment may be sealed (NAME.seg.zst). -EINVAL: the name
 * is not valid; -EEXIST: it came before; -EBADMSG: damaged; -EPROTONOSUPPORT: another
 * version of shfs made it. */
_must_check_ int shfs_import_file(struct shfs_import *import, const char *host,
                                  const char *name, const void *data, size_t len);
/* From now on a file replaces the one of its name here, instead of being merged with it:
 * it is from the store that recorded it, which may have forgotten some of it. */
void shfs_import_replace(struct shfs_import *import, bool replaces);

/* Adds an object, by its name (shfs_object_name). before: as for shfs_object_put.
 * -EBADMSG: it is another content; -EEXIST: the store has this name for another content
 * that collides with it. */
_must_check_ int shfs_import_object(struct shfs_import *import, const char *name,
                                    const void *data, size_t len,
                                    const struct shfs_object_id *before);
/* Makes the objects that were added so far durable, so that they can be read. -EEXIST as
 * above. */
_must_check_ int shfs_import_commit(struct shfs_import *import);

/* Adds the list of pruned objects (store/objects/pruned.h), among those of the files so
 * far. -EEXIST: it came before; -EBADMSG: damaged. */
_must_check_ int shfs_import_pruned(struct shfs_import *import, const void *data,
                                    size_t len);

/* Adds the list of segments, among the files so far, whose recordings had not ended:
 * "HOST/NAME", a line each. -EEXIST: it came before; -EINVAL: there is no such segment.
 */
_must_check_ int shfs_import_alive(struct shfs_import *import, const char *lines,
                                   size_t len);

/* Adds the archive's list of trees (store/trees.h). Without one, each host is a tree.
 * -EEXIST: it came before; -EBADMSG: damaged. */
_must_check_ int shfs_import_trees(struct shfs_import *import, const char *text,
                                   size_t len);

/* Decides of which trees the files are that were added so far; *trees, borrowed, has
 * those of the store and of the archive, unless it is NULL. Once all files were added.
 * -EBADMSG: a list is damaged. */
_must_check_ int shfs_import_place(struct shfs_import *import,
                                   const struct shfs_trees **trees);
/* Maps a directory of a tree, as shfs_trees_map does, or does so no more. -ENOENT: there
 * is no such tree, or no such map. */
_must_check_ int shfs_import_map(struct shfs_import *import, const char *tree,
                                 const char *from, const char *to, bool unmap);

struct shfs_import_stats {
	uint64_t files, files_known; /* files of the journal; those with nothing new */
	uint64_t objects, objects_known, bytes;
	uint64_t alive;   /* new recordings that had not ended when they were archived */
	uint64_t missing; /* objects that the files name, and that were lost */
	uint64_t completed; /* objects of which the journal here had the fingerprint alone
	                     */
	/* a tree of another machine that files are of; "": there is none */
	char tree[SHFS_TREE_NAME_MAX];
	bool several_trees;
};

/* Has shfs_import_finish leave the index as it is: the caller makes it again
 * (shfs_index_rebuild), if any file was added. */
void shfs_import_leave_index(struct shfs_import *import);
/* Records here of which only the fingerprint is known stay so: no objects come that could
 * be compared with it. */
void shfs_import_learn_nothing(struct shfs_import *import);

/* Installs all files, and makes the index again. -EBUSY: the archive has more of files
 * that a producer may be writing now; -EILSEQ: a hook log differs from the one here. */
_must_check_ int shfs_import_finish(struct shfs_import *import, const char *hook_dir,
                                    struct shfs_import_stats *stats);
