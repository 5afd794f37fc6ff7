/* SPDX-License-Identifier: MIT */
/*
 * invented.h - the links that a mount shows and the file system below does not have:
 *
 *     .shfs          in the root: to where shfs-browse shows the past of this project
 *     NAME@{WHEN}    beside NAME: to what NAME was then, in that file system
 *
 * A lookup finds them, for the user who mounted alone; no directory lists them.
 * A real file of that name comes first, and can be made; nobody can change them, and no
 * use of them is recorded. This process reads nothing of the past: the keeper
 * (fusefs/browse-keeper.h), a process beside it, runs shfs-browse, from the first time on
 * that a link is read.
 *
 * A lookup never waits, as the kernel holds a lock of the directory meanwhile:
 *
 * 1. A looks up a name in D. The kernel has locked D.
 * 2. B makes a file in D: it waits for the lock, and all others in D wait behind it.
 * 3. If the answer to A waited for shfs-browse, and that looked into D, it would wait
 *    for B, which waits for A.
 *
 * So a lookup is answered by what lies below, by the form of the name, and by its caller.
 * Only the reading of a link waits, which the kernel does without a lock, and only for
 * the start of shfs-browse, which needs nothing of the project:
 *
 * 1. A reads a link. Its request is put aside, and the keeper is asked; no thread waits.
 * 2. shfs-browse is mounted. Requests of others are served meanwhile.
 * 3. The keeper says so. A gets its answer, and goes on in the file system of
 *    shfs-browse. This process has no part in that.
 * 4. shfs-browse has the mounts flush, and looks into the project: these are requests
 *    like any other, and none of them waits for A.
 */
#pragma once

#include "fusefs/operations/operations.h"

/* The server sends the keeper WAKE. The keeper answers UP, or DOWN and why behind it; it
 * says ENDED unasked. Each is one byte. */
#define SHFS_KEEPER_WAKE  'w'
#define SHFS_KEEPER_UP    'u'
#define SHFS_KEEPER_DOWN  'd'
#define SHFS_KEEPER_ENDED 'e' /* shfs-browse, which was up */
#define SHFS_KEEPER_SAID  256 /* bytes of an answer, at most */

struct shfs_invented;

/* place (copied) is where the keeper at the other end of the socket (taken, also on
 * failure) has shfs-browse mounted. */
_must_check_ int shfs_invented_new(const char *place, int keeper, bool with_names,
                                   struct shfs_invented **out);
/* Answers all requests that wait; later ones do not wait. NULL is fine. */
void shfs_invented_stop(struct shfs_invented *invented);
/* Closes the socket, too, when no request can come any more. NULL is fine. */
void shfs_invented_free(struct shfs_invented *invented);

/* Where shfs-browse is mounted. */
const char *shfs_invented_place(const struct shfs_invented *invented);

/* Return an fd that is readable when attend is to be called; NULL: -1. */
int shfs_invented_fd(const struct shfs_invented *invented);
void shfs_invented_attend(struct shfs_invented *invented);

/* Answers the lookup of a name that is not there below, if it may be a link's: true. */
bool shfs_invented_lookup(fuse_req_t req, struct shfs_node *parent, const char *name);
/* Does the caller see such a link by this name, which is not there below? */
bool shfs_invented_is_seen(fuse_req_t req, struct shfs_node *parent, const char *name);

/* Is this the id of such a link? */
static inline bool shfs_invented_is_id(uint64_t id)
{
	return (id & SHFS_NODE_INVENTED) == SHFS_NODE_INVENTED;
}

/* These three take the id of such a link. stat fails with -ESTALE if it is not known (any
 * more). */
_must_check_ int shfs_invented_stat(struct shfs_fs *fs, uint64_t id, struct statx *out);
void shfs_invented_read(fuse_req_t req, uint64_t id);
void shfs_invented_forget(struct shfs_fs *fs, uint64_t id, uint64_t n);
