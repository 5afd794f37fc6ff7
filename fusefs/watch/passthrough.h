/* SPDX-License-Identifier: MIT */
/*
 * passthrough.h - reads and writes that the kernel does on the file beneath by itself.
 *
 * Where the kernel and our privilege allow it (Linux 6.9, CAP_SYS_ADMIN), an open may be
 * passed: its reads, writes and mappings go to the file beneath without us. The kernel
 * wants all opens of a file to be of one kind while there are any:
 *
 *     CACHED    through the page cache of the mount; we see each write, and a read of
 *               what is not cached
 *     PASSED    we see none
 *     JOINED    while others are passed: we see each read and write, nothing is cached,
 *               mappings are of the file beneath
 *
 * The first open of a file decides, and later ones follow: readers are PASSED, writers
 * JOINED. The first is PASSED if it only reads and that pays (passthrough.c), or if it
 * writes a file that it has made or emptied itself, alone. Nothing is overwritten unseen
 * by such a writer, and its process is known, unless it hands the descriptor on. That is
 * noticed when others close it, and recorded (SHFS_ACCESS_SHARED). Shells hand
 * descriptors on, so a shell is never passed.
 *
 * An open file is blind if the file may be changed through it unseen: a PASSED writer, or
 * a JOINED one that may map the file to write. The change is noticed by the file's size
 * and mtime. So writers are passed only on file systems where each change after a look at
 * the file has an mtime of its own (Linux 6.13: ext4, xfs, btrfs, tmpfs), which is tried.
 */
#pragma once

#include "common/util.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <time.h>

struct shfs_fs;
struct shfs_handle;
struct shfs_node;
struct shfs_open;

/* The kernel may do this input and output of the mount without us. */
enum shfs_passing_mode {
	SHFS_PASSING_UNKNOWN,
	SHFS_PASSING_NONE,
	SHFS_PASSING_READS,
	SHFS_PASSING_ALL,
};

enum shfs_io {
	SHFS_IO_NONE, /* not open for the kernel yet */
	SHFS_IO_CACHED,
	SHFS_IO_PASSED,
	SHFS_IO_JOINED,
};

/* The passthrough keeps this of each open file. */
struct shfs_passed {
	enum shfs_io io;
	int32_t backing_id;                          /* where io is not CACHED */
	bool is_blind;                               /* it changes the file unseen */
	bool is_mappable;                            /* by a mapping, if at all */
	struct shfs_handle *prev_blind, *next_blind; /* of the file's */
};

/* Before the first request. device_fd is that of the mount, borrowed. */
_must_check_ int shfs_passthrough_begin(struct shfs_fs *fs, int device_fd);
void shfs_passthrough_end(struct shfs_fs *fs);

/* What may be passed here, as is found out with the first use. */
enum shfs_passing_mode shfs_passthrough_mode(struct shfs_fs *fs);

/* Is it a set-gid file that its group may not execute? Then a write takes the bit, unless
 * the writer is in that group. */
static inline bool shfs_is_set_gid_alone(mode_t mode)
{
	return (mode & (S_ISGID | S_IXGRP)) == S_ISGID;
}

/* --- of one file; its watch is locked --- */

struct shfs_passing {
	unsigned n_cached, n_passed; /* open files; those JOINED are passed too */
	int32_t backing_id;          /* with n_passed; one for all */
	bool was_read;               /* by an open before */
	bool was_cached;             /* the kernel may have some of it still */
	bool was_joined;             /* and somebody may have changed it since */
	uint32_t uid, gid;           /* whose rights its writes have */
	struct shfs_handle *blind;   /* list */
	struct timespec mtime;       /* as a blind one, or we, left it */
	off_t size;
};

/* What an open would like to be. */
struct shfs_passing_wish {
	uint32_t uid, gid;
	int flags;    /* of open(2) */
	bool emptied; /* the file was made or truncated by it */
	bool alone;   /* its process does not hand it on */
};

/* Decides how handle is used, notes it there and here, and that it is there. */
void shfs_passing_enter(struct shfs_fs *fs, struct shfs_passing *passing,
                        struct shfs_handle *handle, const struct shfs_passing_wish *wish);
/* The same, where the kernel was told so by a server before us. */
void shfs_passing_resume(struct shfs_fs *fs, struct shfs_passing *passing,
                         struct shfs_handle *handle, const struct shfs_open *open);
/* It is gone. */
void shfs_passing_leave(struct shfs_fs *fs, struct shfs_passing *passing,
                        struct shfs_handle *handle);

/* May another one write the file, and not be held up at it? */
bool shfs_passing_beside(const struct shfs_passing *passing,
                         const struct shfs_handle *handle);

/* Is the file another than it was at the last stamp? */
bool shfs_passing_is_other(const struct shfs_passing *passing);
/* The same, and it is stamped then. */
bool shfs_passing_is_changed(struct shfs_passing *passing);
/* The file is as we have left it ourselves. */
void shfs_passing_stamp(struct shfs_passing *passing);

/* Returns when the writes have ended that had begun before: they are told by the mtime
 * from their beginning on. */
void shfs_passing_finish_writes(const struct shfs_passing *passing);
