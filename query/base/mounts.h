/* SPDX-License-Identifier: MIT */
/*
 * mounts.h - the live mounts of shfs: finds them, asks for their status, waits for them.
 *
 * Mounts are found in /proc/self/mountinfo. Recorders without a FUSE layer mount nothing:
 * they are found and asked by common/recorders.h. The daemon of a mount is asked through
 * extended attributes of the mount's root, each by a child process of its own: a daemon
 * that hangs may hold the process that asks it forever, uninterruptibly. So everything
 * here returns in bounded time, whatever the mounts do.
 */
#pragma once

#include "common/buf.h"

#include <stdbool.h>
#include <sys/types.h>

/* The status of a daemon: user.shfs.status. Strings are malloc'ed. */
struct shfs_mount_status {
	char *root, *store;
	char *backend, *backend_reason;     /* reason: why it is not a better one */
	char *transport, *transport_reason; /* reason: why it is not io_uring */
	char *browse;                       /* where .shfs leads; NULL: nowhere */
	pid_t pid;
	int64_t since_ns;
	uint64_t restarts; /* after the daemon had died */
	int64_t restarted_ns;
	uint64_t records, lost, queued, objects, object_bytes, stored_bytes;
	uint64_t memory_bytes; /* of what waits, and for compressing it */
	uint64_t skipped, incomplete;
	int error;       /* why nothing can be recorded now: a positive errno; 0 */
	int rules_error; /* why .shfsignore is not followed, likewise */
};

struct shfs_mount {
	char *dir;     /* the mount point, as bytes */
	char *source;  /* the source in the table of mounts; NULL */
	int mount_id;  /* negative: a recorder without a FUSE layer */
	int parent_id; /* of the mount that it is mounted on */
	dev_t dev;     /* of the mount; of a recorder's directory, */
	ino_t ino;     /* together with this */
	uid_t owner;
	bool browse; /* of shfs browse: it records nothing, and is not asked */
	/* 0: the daemon answered, and status holds its answer; -ETIMEDOUT: it hangs;
	 * -ENOTCONN: it is dead; not asked: -EACCES: it is another user's; -EXDEV: it
	 * records into another store; -ENODATA */
	int error;
	struct shfs_mount_status status;
};

struct shfs_mounts {
	struct shfs_mount *list; /* in the order of mounting */
	size_t n;
};

enum shfs_mounts_flags {
	SHFS_MOUNTS_ASK = 1 << 0, /* ask the daemons for their status, bounded to 5 s; to
	                           * 10 s where some end meanwhile */
	SHFS_MOUNTS_ALL = 1 << 1, /* of any type; without ASK */
	SHFS_MOUNTS_BROWSE = 1 << 2, /* also those of shfs browse; their error is
	                              * -EOPNOTSUPP, or -EXDEV */
};

/* Lists the mounts. store_path: asks only those that record into that store; NULL: all.
 * The caller clears *out. -ENOMEM, or an error of reading /proc. */
_must_check_ int shfs_mounts_list(enum shfs_mounts_flags flags, const char *store_path,
                                  struct shfs_mounts *out);
void shfs_mounts_clear(struct shfs_mounts *mounts);

/* Asks the daemon of a mount that was listed without ASK, whichever store it records
 * into. */
void shfs_mount_ask(struct shfs_mount *mount);
#define _cleanup_mounts_ _cleanup_(shfs_mounts_clear)

/* Is this the device of a mount of shfs, wherever that is mounted or bound? 1, 0. */
_must_check_ int shfs_mounts_serve(dev_t dev);

/* Is a directory of this absolute path recorded without a FUSE layer? 1, 0. */
_must_check_ int shfs_mounts_recorder(const char *path);

/* The mount with this id; NULL. */
const struct shfs_mount *shfs_mounts_find(const struct shfs_mounts *mounts, int id);
/* The mount at this absolute path (the one on top, where there are several), or the
 * innermost one that holds it. NULL. */
const struct shfs_mount *shfs_mounts_at(const struct shfs_mounts *mounts,
                                        const char *path);
const struct shfs_mount *shfs_mounts_around(const struct shfs_mounts *mounts,
                                            const char *path);

/* The mount that an absolute path leads into, as the kernel follows it, among all mounts;
 * NULL. A mount over a directory hides the mounts that were made inside before. */
const struct shfs_mount *shfs_mounts_lead(const struct shfs_mounts *all,
                                          const char *path);

/* Is what happens in the directory of this absolute path recorded by one of these mounts,
 * which is the user's own and not dead? */
bool shfs_mounts_record(const struct shfs_mounts *mounts, const char *dir);

/* Where the mount of shfs is that path leads into, allocated; NULL if it leads into
 * none. */
char *shfs_mounts_over(const char *path);

/* The mount is dead and did not answer: does its guardian remove it? */
bool shfs_mount_goes(const struct shfs_mount *mount);

/* Is it a recorder without a FUSE layer? */
static inline bool shfs_mount_is_recorder(const struct shfs_mount *mount)
{
	return mount->mount_id < 0;
}

/* Is it alive, and does it record into this store? */
bool shfs_mount_is_of_store(const struct shfs_mount *mount, const char *store_path);

/*
 * Asks the user's live mounts that record into this store to make durable what has
 * happened so far; all at once, for at most 5 s, or 15 s if patient, for a command whose
 * purpose that is. Prints a warning for each mount that could not. Returns the number of
 * those.
 */
int shfs_mounts_sync(const char *store_path, bool patient);

/* The mounts close objects that were removed from the store: only then their bytes are
 * free. */
void shfs_mounts_let_go(const char *store_path);

/*
 * As shfs_mounts_sync, but each mount also begins a new segment of its journal
 * (store/capture/capture.h). The names of the new segments are appended to segments, each
 * with a NUL. 0; -EBUSY: a mount could not, and is named in *busy; or the error of a disk
 * that cannot be written to (shfs_takes_nothing).
 */
_must_check_ int shfs_mounts_seal(const char *store_path, struct shfs_buf *segments,
                                  char **busy);
