/* SPDX-License-Identifier: MIT */
/*
 * beneath.h - notices who changes the tree beneath the mount, and not through it.
 *
 * What the kernel is told of names and attributes it may believe for long only where we
 * would notice that somebody else changes them: from before the mount (a directory that a
 * shell stood in, a file that was open), by another mount or in another namespace. So the
 * directories whose entries are told are marked with fanotify(7), which needs no
 * privilege (Linux 5.13) and tells our own changes from those of others. What others have
 * changed becomes suspect (node.h), and the kernel drops its attributes, so that it asks
 * again; told ESTALE, it looks the name up. That takes none of its locks, so a daemon
 * that is killed at it holds nobody up.
 *
 * Not noticed are changes on a network file system by another machine, so nothing is
 * marked there; those of a file by a name in another directory (a file with several names
 * is never believed for long); and stores to a mapping, until its file is closed
 * (with passthrough.h: until it is opened).
 *
 * Thread-safe.
 */
#pragma once

#include "fusefs/nodes/node.h"

struct shfs_beneath;
struct shfs_fs;

/* Starts a thread (so: after a fork into the background), before the first request. fs
 * with its tree and its transport. -EOPNOTSUPP: here it cannot be noticed; and what
 * fanotify_init(2) says. */
_must_check_ int shfs_beneath_new(struct shfs_fs *fs, struct shfs_beneath **out);
void shfs_beneath_free(struct shfs_beneath *beneath); /* NULL is fine */

/* From now on changes to the entries of this directory are noticed, if they can be:
 * call it before they are looked at. beneath: NULL is fine. */
void shfs_beneath_watch(struct shfs_beneath *beneath, struct shfs_node *directory);

/* What is written to the file behind fd, no O_PATH, is the doing of who uses the mount:
 * from now on, or no longer. beneath: NULL is fine. */
void shfs_beneath_ignore(struct shfs_beneath *beneath, int fd, bool ignore);

enum shfs_watched { SHFS_WATCHED_NEVER = -1, SHFS_WATCHED_NOT_YET, SHFS_WATCHED };

static inline bool shfs_beneath_is_watched(const struct shfs_node *directory)
{
	return atomic_load(&directory->watched) == SHFS_WATCHED;
}
