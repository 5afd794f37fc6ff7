/* SPDX-License-Identifier: MIT */
/*
 * passthrough.h - reads and writes that the kernel does itself on the lower file.
 *
 * If the kernel and our privilege allow it (Linux 6.9, CAP_SYS_ADMIN), an open may be
 * passed: its reads, writes and mappings go to the lower file without us. The kernel
 * demands that all concurrent opens of a file are of one kind:
 *
 *     CACHED    through the page cache of the mount; we see each write, and reads that
 * are not cached PASSED    we see neither reads nor writes JOINED    while others are
 * passed: we see each read and write, nothing is cached, mappings are of the lower file
 *
 * The first open of a file decides, and later ones follow: readers are PASSED, writers
 * JOINED. The first is PASSED if it only reads and that pays (passthrough.c), or if it
 * only writes a file that it has made or emptied itself. Such a writer overwrites nothing
 * unseen, and its process is known, unless it hands the descriptor on. That is noticed
 * when others close it, and recorded (SHFS_ACCESS_SHARED). Shells hand descriptors on, so
 * a shell is never passed.
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

/* The input and output that the kernel may do without us. */
enum shfs_passing_mode {
	SHFS_PASSING_UNKNOWN,
	SHFS_PASSING_NONE,
	SHFS_PASSING_READS,
	SHFS_PASSING_ALL,
};

enum shfs_io {
	SHFS_IO_NONE, /* open was not replied yet */
	SHFS_IO_CACHED,
	SHFS_IO_PASSED,
	SHFS_IO_JOINED,
};

/* State of an open file for the passthrough. */
struct shfs_passed {
	enum shfs_io io;
	int32_t backing_id;                          /* if io is not CACHED */
	bool is_blind;                               /* it may change the file unseen */
	bool is_mappable;                            /* but only by a mapping */
	struct shfs_handle *prev_blind, *next_blind; /* list of the file */
};

/* Begins, before the first request. device_fd is that of the mount, borrowed. */
_must_check_ int shfs_passthrough_begin(struct shfs_fs *fs, int device_fd);
void shfs_passthrough_end(struct shfs_fs *fs);

/* Returns what may be passed here; found out at the first use. */
enum shfs_passing_mode shfs_passthrough_mode(struct shfs_fs *fs);

/* Is it a set-gid file that its group may not execute? Then a write clears the bit,
 * unless the writer is in that group. */
static inline bool shfs_is_set_gid_alone(mode_t mode)
{
	return (mode & (S_ISGID | S_IXGRP)) == S_ISGID;
}

/* --- of one file; its watch is locked --- */

struct shfs_passing {
	unsigned n_cached, n_passed; /* open files; JOINED ones count as passed */
	int32_t backing_id;          /* if n_passed; one for all */
	bool was_read;               /* by an earlier open */
	bool was_cached;             /* the kernel may still have some of it cached */
	bool was_joined;             /* it may have been changed since it was cached */
	uint32_t uid, gid;           /* identity with which the kernel writes */
	struct shfs_handle *blind;   /* list */
	struct timespec mtime;       /* the last stamp */
	off_t size;
};

/* The properties of an open that decide how it is used. */
struct shfs_passing_wish {
	uint32_t uid, gid;
	int flags;    /* of open(2) */
	bool emptied; /* the open made or truncated the file */
	bool alone;   /* its process does not hand the descriptor on */
};

/* Decides how handle is used, and notes that in both structs. */
void shfs_passing_enter(struct shfs_fs *fs, struct shfs_passing *passing,
                        struct shfs_handle *handle, const struct shfs_passing_wish *wish);
/* Notes how handle is used, as a dead server has told the kernel. */
void shfs_passing_resume(struct shfs_fs *fs, struct shfs_passing *passing,
                         struct shfs_handle *handle, const struct shfs_open *open);
/* Notes that handle is closed. */
void shfs_passing_leave(struct shfs_fs *fs, struct shfs_passing *passing,
                        struct shfs_handle *handle);

/* May another open file write the file without us, so that it cannot be made to wait? */
bool shfs_passing_beside(const struct shfs_passing *passing,
                         const struct shfs_handle *handle);

/* Has the file changed since the last stamp? */
bool shfs_passing_is_other(const struct shfs_passing *passing);
/* Has the file changed since the last stamp? Stamps it anew. */
bool shfs_passing_is_changed(struct shfs_passing *passing);
/* Stamps the file: notes its present size and mtime. */
void shfs_passing_stamp(struct shfs_passing *passing);

/* Waits until writes that have begun before have ended: the mtime shows a write from its
 * beginning on. */
void shfs_passing_finish_writes(const struct shfs_passing *passing);
