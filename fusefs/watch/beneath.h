/* SPDX-License-Identifier: MIT */
/*
 * beneath.h - notices changes of the lower file system that do not go through the mount.
 *
 * The kernel may cache names and attributes for long only if we would notice that others
 * change them. They can do so by what they had before the mount (a working directory, an
 * open file), by another mount, or in another namespace. So directories whose entries the
 * kernel gets are marked with fanotify(7), which needs no privilege (Linux 5.13) and
 * distinguishes our own changes from those of others. A file that others have changed
 * becomes suspect (node.h), and the kernel drops its attributes, so that it asks again;
 * told ESTALE, it looks the name up. That takes none of the kernel's locks, so a server
 * that is killed meanwhile blocks no process.
 *
 * Not noticed are changes on a network file system by another machine, so nothing is
 * marked there; changes of a file by a name in another directory (a file with several
 * names is never cached for long); and stores to a mapping, until its file is closed
 * (with passthrough.h: until it is opened).
 *
 * Thread-safe.
 */
#pragma once

#include "fusefs/nodes/node.h"

struct shfs_beneath;
struct shfs_fs;

/* Starts a thread (so after a fork into the background), before the first request. fs has
 * its tree and its transport. -EOPNOTSUPP: changes cannot be noticed here; and errors of
 * fanotify_init(2). */
_must_check_ int shfs_beneath_new(struct shfs_fs *fs, struct shfs_beneath **out);
void shfs_beneath_free(struct shfs_beneath *beneath); /* NULL is fine */

/* Notices changes of the entries of this directory from now on, if possible; called
 * before they are looked at. beneath: NULL is fine. */
void shfs_beneath_watch(struct shfs_beneath *beneath, struct shfs_node *directory);

/* Ignores writes to the file behind fd (no O_PATH) from now on, or no longer: users of
 * the mount make them (passthrough). beneath: NULL is fine. */
void shfs_beneath_ignore(struct shfs_beneath *beneath, int fd, bool ignore);

enum shfs_watched { SHFS_WATCHED_NEVER = -1, SHFS_WATCHED_NOT_YET, SHFS_WATCHED };

static inline bool shfs_beneath_is_watched(const struct shfs_node *directory)
{
	return atomic_load(&directory->watched) == SHFS_WATCHED;
}
