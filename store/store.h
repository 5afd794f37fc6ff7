/* SPDX-License-Identifier: MIT */
/*
 * store.h - the directory that holds everything: journal/, objects/, index.db, log/,
 * state/.
 *
 * A store is held open by directory fds taken once, so a mount that later covers the
 * store's path does not come between. Directories are 0700 and files 0600 whatever the
 * umask. Thread-safe after opening: nothing in it changes.
 */
#pragma once

#include "common/buf.h"

#include <stdatomic.h>
#include <stdbool.h>

/* In state/: the packages of programs that were executed (recording/package.c). */
#define SHFS_STORE_PACKAGES "packages"

enum shfs_store_flags {
	SHFS_STORE_CREATE = 1 << 0, /* make what is missing */
};

struct shfs_store {
	char *path; /* absolute */
	char host[65];
	int dirfd; /* the store itself */
	int objects_fd;
	int journal_fd; /* journal/<host>/ */
	int state_fd;   /* state/: small files, one fact each; what a hook looks at */
	int log_fd;     /* log/ */
	/* directory of index.db (store/index-dir.h): the store itself unless it is on a
	 * network; NULL: there is none, and index_fd is the error */
	char *index_path;
	int index_fd;
	/* Called for each damaged range of a file (relative to the store) that is left
	 * out when the file is written anew; or NULL. */
	void (*on_dropped)(const struct shfs_store *store, const char *file,
	                   uint64_t from, uint64_t to);
	/* of objects/; they lock themselves */
	struct packs *packs;
	struct loose_dirs *loose_dirs;
	struct recents *recents;
	struct object_cache *object_cache;
	struct codecs *codecs;
	struct leases *leases;
	struct pruned *pruned;
	struct pruned *away;   /* a list of the same kind */
	atomic_uint n_waiting; /* new contents that wait for a commit */
	/* Packs of contents that were pulled are told from others (shfs_pack_is_pulled).
	 */
	bool pulls;        /* puts go to such a pack; set before the first one */
	bool hides_pulled; /* such packs are not seen */
};

/*
 * Opens the store at path (made by shfs_path_store). Refuses a store that belongs to
 * another user (-EPERM), that others may write to (-EACCES), or that has another format
 * (-EPROTONOSUPPORT, by the number in its file "format"; -EBADMSG: that is damaged).
 * -ENOENT without CREATE: there is no store, or only the directories that a hook makes.
 */
_must_check_ int shfs_store_open(const char *path, enum shfs_store_flags flags,
                                 struct shfs_store **out);
void shfs_store_close(struct shfs_store *store);

/* Notes, durably, that the store has what an shfs that knows only format 1 cannot read: a
 * pack of format 2. */
_must_check_ int shfs_store_raise(struct shfs_store *store);

/* Writes a damaged file "format" anew: 1. 0: it is sound. Errors as shfs_store_open. */
_must_check_ int shfs_store_mend(const char *path);

static inline void shfs_store_closep(struct shfs_store **s)
{
	shfs_store_close(*s);
}
#define _cleanup_store_ _cleanup_(shfs_store_closep)

/* One line that says what to do, for an error of shfs_store_open; static storage. */
const char *shfs_store_strerror(int error);

/*
 * Makes the source that a mount has in the table of mounts: "shfs:" with device and inode
 * number of the store at path (relative to dirfd, or "" for dirfd itself). By it the
 * mounts of a store are found without asking them. -errno of stat(2).
 */
#define SHFS_STORE_SOURCE_MAX 48
_must_check_ int shfs_store_source(int dirfd, const char *path,
                                   char out[static SHFS_STORE_SOURCE_MAX]);

/* Takes the lock (common/lock.h) of an activity (one word) on this store and host. */
_must_check_ int shfs_store_lock(const char *path, const char *what, int wait_ms);

/*
 * Locks the store: a producer shares it as long as it has it open; a process that removes
 * records (store/care/forget.h) excludes others. Nothing is locked on a network file
 * system. shfs_store_share waits up to wait_ms; -EBUSY.
 */
_must_check_ int shfs_store_share(struct shfs_store *store, int wait_ms);
_must_check_ int shfs_store_exclude(struct shfs_store *store);
void shfs_store_unshare(struct shfs_store *store);

/*
 * May access to the store wait for another machine or program? It may on a network file
 * system (NFS, SMB, Lustre, ...) and on FUSE, so also in one of our own mounts. Decided
 * by statfs f_type.
 */
bool shfs_store_may_hang(const char *path);

/* Is the store on a network file system (FUSE excepted), so that other hosts may use it
 * too? */
bool shfs_store_is_on_network(const char *path);

/* Return where hooks write the logs of this host, and where they look for alerts:
 * journal/<host> and state in the store, or in shfs_runtime_dir (store/journal/runtime.h)
 * if the store may hang and there is one. malloc'ed; NULL: no memory. */
char *shfs_store_hook_dir(const char *store_path);
char *shfs_store_hook_state_dir(const char *store_path);

/* Returns the path of this host's journal below base, which has the layout of a store.
 * malloc'ed; NULL: no memory. */
char *shfs_store_journal_dir(const char *base);
