/* SPDX-License-Identifier: MIT */
/*
 * internal.h - the parts of watch.c, which calls them with the file's watch locked: the
 * writers of an open file (writers.c), which open files have changed it (dirty.c),
 * whether a call did (result.c), what it holds (content.c), and its records (records.c).
 */
#pragma once

#include "fusefs/fs.h"
#include "fusefs/watch/watch.h"

/* The last write, where the kernel may have cut it. */
struct shfs_part {
	const struct shfs_handle *handle; /* NULL: it was a whole one */
	uint32_t tid;
	uint64_t process, until_ns; /* when it may go on, CLOCK_BOOTTIME */
	off_t end;
	bool sure;      /* what follows is hardly another one */
	bool is_marked; /* a capture has marked the content as incomplete for it */
};

struct shfs_watch {
	pthread_mutex_t lock;
	struct shfs_snapshot *current; /* what the file holds; NULL: not known yet */
	struct shfs_snapshot *before;  /* what it held before, until current is known */
	int asked;                     /* the depth that was asked of current; -1 */
	uint64_t losses;               /* of the capture, then */
	uint64_t generation;           /* of the store's objects, then */
	enum shfs_rule coming;         /* of the name that it is about to get, if any */
	int64_t author;                /* uid of who has changed it last; -1: not known */
	bool secret;                   /* the file has had a secret name */
	bool changed; /* by us, since current was known (which is NULL then) */
	bool fresh;   /* made by us and never written: nothing was there before */
	struct timespec mtime;     /* as we saw it last: another tells a change beneath */
	off_t size;                /* too; or NO_STAMP, while we change it ourselves */
	bool stale;                /* it was changed beneath since the kernel cached it */
	struct shfs_handle *dirty; /* that changed it since it was last captured */
	unsigned n_writable;       /* open handles that may change it */
	struct shfs_part part;
	struct shfs_passing passing;
};

#define SHFS_BUILTIN_NS                                                                  \
	(SHFS_NSEC_PER_SEC / 5) /* between two commands that are typed                   \
	                         */

/* Who writes now. A thread that wrote a moment ago is still the same process. */
struct shfs_writer shfs_handle_writer_now(struct shfs_fs *fs,
                                          const struct shfs_handle *handle, uint32_t tid);

/* Has another command than the one that wrote through handle last come to write? */
bool shfs_handle_is_handed_on(const struct shfs_handle *handle,
                              const struct shfs_writer *next);

/* It has written. One entry for each process; those of one job that have no room share
 * the last. flags: enum shfs_access_flags, to add. */
void shfs_handle_note_writer(struct shfs_handle *handle, const struct shfs_writer *now,
                             uint32_t flags);

/* Thread tid closes what is written unseen: it may be one of its writers. */
void shfs_handle_note_sharer(struct shfs_fs *fs, struct shfs_handle *handle,
                             uint32_t tid);

/* It was written to by the process that was noted last: len bytes, by one request. */
void shfs_part_note(struct shfs_part *part, const struct shfs_handle *handle,
                    uint32_t tid, off_t offset, size_t len);

/* May more of it follow? And is it this? */
bool shfs_part_may_go_on(const struct shfs_part *part);
bool shfs_part_goes_on(const struct shfs_part *part, const struct shfs_handle *handle,
                       uint32_t tid, off_t offset);

/* Is tid of the process that has written? Then that does something else now. */
bool shfs_part_is_by(struct shfs_fs *fs, const struct shfs_part *part, uint32_t tid);

/* Was the file made or emptied by this open? */
bool shfs_handle_has_emptied(const struct shfs_handle *handle);

/* --- dirty.c: open files that have changed the file since it was last captured --- */

#define SHFS_ENDING_NS (SHFS_NSEC_PER_SEC / 10)

void shfs_dirty_mark(struct shfs_watch *watch, struct shfs_handle *handle);
/* It was captured. */
void shfs_dirty_unmark(struct shfs_watch *watch, struct shfs_handle *handle);

/* Has one of them written, and not only emptied the file? */
bool shfs_dirty_is_written(const struct shfs_watch *watch);
/* Has some open file written, none of them for SHFS_BUILTIN_NS, and none for the process
 * of now? */
bool shfs_dirty_is_silent(const struct shfs_watch *watch, const struct shfs_writer *now);
/* Was a descriptor of one but this one closed? Was one of each? */
bool shfs_dirty_is_some_flushed(const struct shfs_watch *watch,
                                const struct shfs_handle *but);
bool shfs_dirty_is_all_flushed(const struct shfs_watch *watch);
/* Is a mapping of one but this one about to end, maybe? Its last close was a moment ago.
 */
bool shfs_dirty_is_ending(const struct shfs_watch *watch, const struct shfs_handle *but,
                          uint64_t now_ns);
/* The last writer comes first: it made the content. */
void shfs_dirty_sort(struct shfs_watch *watch);

/* --- result.c --- */

/* Before the call: notes what is_done needs to know. */
void shfs_change_note_size(struct shfs_change *change);
/* After it: has it changed the file, or a part of it? */
bool shfs_change_is_done(const struct shfs_change *change, ssize_t result);

/* --- content.c --- */

/* By all names that it has, and the one that is coming. */
enum shfs_rule shfs_watch_rule(struct shfs_fs *fs, struct shfs_node *node,
                               struct shfs_watch *watch);

/* Has it a secret name (shfs_rules_is_secret)? */
bool shfs_watch_is_secret(struct shfs_fs *fs, const struct shfs_node *node);

/* An fd to read it: the handle's (which may be NULL), or a new one in *opened. lend: its
 * owner's permission, too. */
_must_check_ int shfs_watch_fd(struct shfs_fs *fs, struct shfs_node *node,
                               const struct shfs_handle *handle, bool lend, int *opened);

/* --- records.c: in the order of the changes, as the watch is locked --- */

/* handle: that is about to change it; or NULL. */
void shfs_watch_emit_preimage(struct shfs_fs *fs, struct shfs_node *node,
                              const struct shfs_handle *handle,
                              struct shfs_snapshot *snapshot, uint64_t process);

/* One ACCESS for each writer, and one for the opener if it read and did not write. */
void shfs_watch_emit_writers(struct shfs_fs *fs, struct shfs_handle *handle,
                             struct shfs_snapshot *made);
