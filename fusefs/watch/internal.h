/* SPDX-License-Identifier: MIT */
/*
 * internal.h - the parts of watch.c, which calls them with the file's watch locked: the
 * writers of an open file (writers.c), the open files that have changed the file
 * (dirty.c), whether a call did (result.c), its content (content.c), and its records
 * (records.c).
 */
#pragma once

#include "fusefs/fs.h"
#include "fusefs/watch/watch.h"

/* The last write request, if it may be only a part of a write(2). */
struct shfs_part {
	const struct shfs_handle *handle; /* NULL: it was whole */
	uint32_t tid;
	uint64_t process, until_ns; /* it may go on until then, CLOCK_BOOTTIME */
	off_t end;
	bool sure;      /* the next request at end surely belongs to the same write */
	bool is_marked; /* a capture has made the content INCOMPLETE for it */
};

struct shfs_watch {
	pthread_mutex_t lock;
	struct shfs_snapshot *current; /* the present content; NULL: not taken yet */
	struct shfs_snapshot *before;  /* the content before, until current is taken */
	int asked;                     /* depth that was asked of current; -1: none */
	uint64_t losses;               /* of the capture, when current was taken */
	uint64_t generation;           /* of the store's objects, at that time */
	enum shfs_rule coming;         /* rule of a name that it is about to get */
	int64_t author;                /* uid of the last writer; -1: not known */
	bool secret;                   /* the file has had a secret name */
	bool changed; /* by us, since the last capture (current is NULL then) */
	bool fresh;   /* made by us and never written: there was no content before */
	struct timespec mtime;     /* last seen; another one shows a change by others */
	off_t size;                /* likewise; NO_STAMP: we are changing the file */
	bool stale;                /* changed by others since the kernel cached it */
	struct shfs_handle *dirty; /* handles that changed it since the last capture */
	unsigned n_writable;       /* open handles that may change it */
	struct shfs_part part;
	struct shfs_passing passing;
};

/* Returns the process that writes now, if its thread wrote a moment ago: then it counts
 * as the same without a check. With the watch locked. */
bool shfs_handle_knows_writer(const struct shfs_handle *handle, uint32_t tid,
                              struct shfs_writer *out);
/* Returns the process that writes now. It may read /proc: without the watch locked. */
struct shfs_writer shfs_handle_meet_writer(struct shfs_fs *fs,
                                           const struct shfs_handle *handle,
                                           uint32_t tid);

/* Does `next` belong to another command than the last writer through handle? */
bool shfs_handle_is_handed_on(const struct shfs_handle *handle,
                              const struct shfs_writer *next);

/* Notes that `now` has written: there is one entry for each process; processes of one job
 * that find no room share the last entry. flags: enum shfs_access_flags, to add. */
void shfs_handle_note_writer(struct shfs_handle *handle, const struct shfs_writer *now,
                             uint32_t flags);

/* Notes that thread tid closes a handle that is written unseen: it may have written. */
void shfs_handle_note_sharer(struct shfs_fs *fs, struct shfs_handle *handle,
                             uint32_t tid);

/* Notes a write request of len bytes, by the process that was noted last. */
void shfs_part_note(struct shfs_part *part, const struct shfs_handle *handle,
                    uint32_t tid, off_t offset, size_t len);

/* May more of this write follow? Does this request continue it? */
bool shfs_part_may_go_on(const struct shfs_part *part);
bool shfs_part_goes_on(const struct shfs_part *part, const struct shfs_handle *handle,
                       uint32_t tid, off_t offset);

/* Does tid belong to the process that has written? Then that write(2) has ended. */
bool shfs_part_is_by(struct shfs_fs *fs, const struct shfs_part *part, uint32_t tid);

/* Was the file made or emptied by this open? */
bool shfs_handle_has_emptied(const struct shfs_handle *handle);

/* --- dirty.c: open files that have changed the file since it was last captured --- */

#define SHFS_ENDING_NS (SHFS_NSEC_PER_SEC / 10)

void shfs_dirty_mark(struct shfs_watch *watch, struct shfs_handle *handle);
/* Removes a handle from the dirty ones, after a capture. */
void shfs_dirty_unmark(struct shfs_watch *watch, struct shfs_handle *handle);

/* Has a dirty handle written, not only emptied the file? */
bool shfs_dirty_is_written(const struct shfs_watch *watch);
/* Have dirty handles written, but none within SHFS_TURN_TYPED_NS, and none by the process
 * of `now`? */
bool shfs_dirty_is_silent(const struct shfs_watch *watch, const struct shfs_writer *now);
/* Were all descriptors of a dirty handle other than `but` closed, as far as is known,
 * whether or not a mapping has been written back since? */
bool shfs_dirty_is_some_closed(const struct shfs_watch *watch,
                               const struct shfs_handle *but);
/* Was a descriptor of each dirty handle closed, and nothing written since? */
bool shfs_dirty_is_all_flushed(const struct shfs_watch *watch);
/* May a mapping of a dirty handle other than `but` be about to end, as its last close was
 * a moment ago? */
bool shfs_dirty_is_ending(const struct shfs_watch *watch, const struct shfs_handle *but,
                          uint64_t now_ns);
/* Sorts the dirty handles: the last writer comes first, as it made the content. */
void shfs_dirty_sort(struct shfs_watch *watch);

/* --- result.c --- */

/* Notes before the call what shfs_change_is_done needs. */
void shfs_change_note_size(struct shfs_change *change);
/* Has the call changed the file, or a part of it? Called after it. */
bool shfs_change_is_done(const struct shfs_change *change, ssize_t result);

/* --- content.c --- */

/* Returns the rule of the file, by all its names and the one that it is about to get. */
enum shfs_rule shfs_watch_rule(struct shfs_fs *fs, struct shfs_node *node,
                               struct shfs_watch *watch);

/* Has the file a secret name (shfs_rules_is_secret)? */
bool shfs_watch_is_secret(struct shfs_fs *fs, const struct shfs_node *node);

/* Returns an fd to read the file: that of handle (which may be NULL), or a new one, also
 * in *opened. lend: sets the owner's permission to read for a moment, if need be. */
_must_check_ int shfs_watch_fd(struct shfs_fs *fs, struct shfs_node *node,
                               const struct shfs_handle *handle, bool lend, int *opened);

/* --- records.c: in the order of the changes, as the watch is locked --- */

/* Emits a PREIMAGE. handle: that is about to change the file; or NULL. */
void shfs_watch_emit_preimage(struct shfs_fs *fs, struct shfs_node *node,
                              const struct shfs_handle *handle,
                              struct shfs_snapshot *snapshot, uint64_t process);

/* Emits an ACCESS for each writer, and one for the opener if it read and did not write.
 */
void shfs_watch_emit_writers(struct shfs_fs *fs, struct shfs_handle *handle,
                             struct shfs_snapshot *made);
