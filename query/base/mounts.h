/* SPDX-License-Identifier: MIT */
/*
 * mounts.h - the live mounts of shfs: who they are, how they are, and waiting for them.
 *
 * They are found in /proc/self/mountinfo; those without a FUSE layer, which mount
 * nothing, by common/watches.h, through which they are asked, too. Daemons are asked
 * through extended
 * attributes of the mount's root, each by a child process of its own: a daemon that is
 * stuck may hold whoever asks it for ever, uninterruptibly, and that must not be us. So
 * everything here returns in bounded time, whatever the mounts do.
 */
#pragma once

#include "common/buf.h"

#include <stdbool.h>
#include <sys/types.h>

/* What a daemon tells of itself: user.shfs.status. Strings are malloc'ed. */
struct shfs_mount_status {
	char *root, *store;
	char *backend, *backend_reason;     /* the latter: why it is no better one */
	char *transport, *transport_reason; /* the latter: why it is not io_uring */
	pid_t pid;
	int64_t since_ns;
	uint64_t restarts; /* after it had died */
	int64_t restarted_ns;
	uint64_t records, lost, queued, objects, object_bytes, stored_bytes;
	uint64_t memory_bytes; /* of what waits, and to compress it */
	uint64_t skipped, incomplete;
	int error;       /* why nothing can be recorded now: a positive errno; 0 */
	int rules_error; /* why .shfsignore is not followed, likewise */
};

struct shfs_mount {
	char *dir;     /* where it is mounted, as bytes */
	char *source;  /* of it, as the table of mounts has it; NULL */
	int mount_id;  /* negative: it is a watch, without a FUSE layer; */
	int parent_id; /* of the mount that it was put on */
	dev_t dev;     /* of the mount; of the directory of a watch, */
	ino_t ino;     /* with this */
	uid_t owner;
	/* 0: the daemon answered, and status holds what it said; -ETIMEDOUT: it hangs;
	 * -ENOTCONN: it is dead; not asked: -EACCES: it is somebody else's; -EXDEV: it
	 * records into another store; -ENODATA */
	int error;
	struct shfs_mount_status status;
};

struct shfs_mounts {
	struct shfs_mount *list; /* in the order of mounting */
	size_t n;
};

enum shfs_mounts_flags {
	SHFS_MOUNTS_ASK = 1 << 0, /* ask the daemons for their status, bounded to 5 s */
	SHFS_MOUNTS_ALL = 1 << 1, /* of any type; without ASK */
};

/* store_path: only those that record into that are asked; NULL: all. *out is to be
 * cleared by the caller. -ENOMEM, and what reading /proc may say. */
_must_check_ int shfs_mounts_list(enum shfs_mounts_flags flags, const char *store_path,
                                  struct shfs_mounts *out);
void shfs_mounts_clear(struct shfs_mounts *mounts);

/* Asks the daemon of one that was listed without, whichever store it records into. */
void shfs_mount_ask(struct shfs_mount *mount);
#define _cleanup_mounts_ _cleanup_(shfs_mounts_clear)

/* Is this the device of a mount of shfs, wherever that is mounted or bound? 1, 0. */
_must_check_ int shfs_mounts_serve(dev_t dev);

/* Is a directory of this absolute path recorded without a FUSE layer? 1, 0. */
_must_check_ int shfs_mounts_watch(const char *path);

/* The mount with this id; NULL. */
const struct shfs_mount *shfs_mounts_find(const struct shfs_mounts *mounts, int id);
/* The mount at this absolute path (the one on top, where there are several), or the
 * innermost one that holds it. NULL. */
const struct shfs_mount *shfs_mounts_at(const struct shfs_mounts *mounts,
                                        const char *path);
const struct shfs_mount *shfs_mounts_around(const struct shfs_mounts *mounts,
                                            const char *path);

/* Of all mounts: the one that an absolute path leads into, as the kernel follows it;
 * NULL. What is mounted over a directory hides what was mounted inside before. */
const struct shfs_mount *shfs_mounts_lead(const struct shfs_mounts *all,
                                          const char *path);

/* Where the mount of shfs is that a path leads into, allocated; NULL if it leads into
 * none. */
char *shfs_mounts_over(const char *path);

/* The mount did not answer, being dead: does its guardian take it away? */
bool shfs_mount_goes(const struct shfs_mount *mount);

/* Is it one without a FUSE layer? */
static inline bool shfs_mount_is_watch(const struct shfs_mount *mount)
{
	return mount->mount_id < 0;
}

/* Is it alive, and does it record into this store? */
bool shfs_mount_is_of_store(const struct shfs_mount *mount, const char *store_path);

/*
 * Tells every live mount of ours that records into this store to make durable what
 * happened so far, all at once, bounded to 5 s in all. Each that could not is left out
 * with one warning. Returns how many those were.
 */
int shfs_mounts_sync(const char *store_path);

/* They close what was taken out of the store: its bytes are free only then. */
void shfs_mounts_let_go(const char *store_path);

/*
 * As shfs_mounts_sync, and each has begun a new segment of its journal
 * (store/capture/capture.h): their names are appended to segments, each with a NUL. 0;
 * -EBUSY: one could not, and is named; or why its disk takes nothing
 * (shfs_takes_nothing).
 */
_must_check_ int shfs_mounts_seal(const char *store_path, struct shfs_buf *segments,
                                  char **busy);
