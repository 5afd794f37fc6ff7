/* SPDX-License-Identifier: MIT */
/*
 * elsewhere.h - what a store knows of contents that are not here, and that a remote has:
 * after `shfs pull --metadata` and `shfs clone --metadata`; or the host of a fetch.
 *
 *     away                              the objects (store/objects/away.h)
 *     remote/NAME/away/STORE            the files of STORE there that have them: packs,
 *                                       loose objects, and lists of packs' contents
 *     remote/NAME/lists/STORE/made/...  these lists
 *
 * An object of these files that is neither in "away" nor here was pruned or forgotten
 * here. The lock of places is held where something is changed.
 */
#pragma once

#include "query/remote/contents.h"
#include "query/remote/fetch.h"
#include "query/remote/place.h"
#include "store/objects/objects.h"

/* May a file of this kind stay on the remote? */
bool elsewhere_may_stay(enum file_kind kind);

/* Reads the files of a store that are only at the remote; there may be none. */
_must_check_ int elsewhere_read(const struct place *place, const char *store_id,
                                struct manifest *out);
/* Calls fn for each store of which the remote has such files. -EBADMSG: what is known of
 * some is damaged; fn was called for the others. */
_must_check_ int elsewhere_each(const struct place *place,
                                int (*fn)(void *arg, const char *store_id,
                                          const struct manifest *files),
                                void *arg);
/* Counts the objects that are away and not here. */
_must_check_ int elsewhere_count(struct shfs_store *store, uint64_t *out);
/* Has any remote such files, or may it, as what is known of them is damaged? 1; 0;
 * -errno. */
_must_check_ int elsewhere_any(struct shfs_store *store);

/* Opens the directory of lists, made if need be. */
_must_check_ int elsewhere_lists(const struct place *place, const char *store_id);
/* Reads the list of a pack's contents from such a directory. -ENOENT; -EBADMSG: it is not
 * the one that these files have. */
_must_check_ int elsewhere_contents(int lists, const struct manifest *files,
                                    const struct remote_file *pack, struct contents *out);
/* Are all lists that these files have here, and whole? 1; 0; -errno. */
_must_check_ int elsewhere_lists_are_whole(int lists, const struct manifest *files);
/* Is this list here, and whole? 1; 0; -errno. */
_must_check_ int elsewhere_list_is_whole(int lists, const struct remote_file *list);
/* Adds all objects of the files, as far as there are lists. Not sorted. */
_must_check_ int elsewhere_objects(int lists, const struct manifest *files,
                                   struct shfs_objects *out);

/* Adds the bases of deltas among these objects that are not in the sorted set of all of
 * them. */
_must_check_ int elsewhere_bases(int lists, const struct manifest *files,
                                 const struct shfs_objects *objects,
                                 struct shfs_objects *out);

/*
 * Notes that from now on these are the files of the store that are only at the remote.
 * New lists are taken from below `from` (-1: they are in place). Objects that were pruned
 * or forgotten here stay so. It may be killed, and called again.
 */
_must_check_ int elsewhere_change(const struct place *place, const char *store_id,
                                  const struct manifest *files, int from);

/* Makes the list of all objects that are away anew if it is damaged or missing. What was
 * forgotten or pruned here is in it again, until the next forget. */
_must_check_ int elsewhere_mend(struct shfs_store *store);

/* Adds the sorted objects of `more` for which it is `in` the sorted set. */
_must_check_ int objects_select(const struct shfs_objects *more,
                                const struct shfs_objects *set, bool in,
                                struct shfs_objects *out);
