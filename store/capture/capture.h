/* SPDX-License-Identifier: MIT */
/*
 * capture.h - makes durable records of a producer's events, in threads of its own.
 *
 * A producer (a mount, a recorder, restore) calls shfs_capture_emit for each event; the
 * order of these calls is the order of the journal. An event may refer to
 * snapshots: contents that are still being read and archived by the capture's own
 * threads. One writer thread takes events off the queue in order, waits for their
 * snapshots, commits the objects of a batch, then appends the batch and syncs: objects
 * are durable before the record that names them. A batch is due after 200 ms or with 4096
 * events.
 *
 * Memory is bounded: beyond queue_max events or bytes in flight, emit waits for room, so
 * that users are no faster than the store (shfs_capture_throttle does so earlier, where
 * nobody else is held up). If there is no room within config.wait_ms, emit drops the
 * event and counts it, and likewise further events until there is room; a LOST record
 * follows as soon as one fits. When the store fails (full, read-only), events are dropped
 * and counted likewise (PROCESS records wait, so that later records can name them by
 * their sequence numbers), the failure is kept in the statistics and in
 * state/alert-<host>, and the writer tries again each second. The user's I/O never fails
 * because of a capture; one emit blocks it for config.wait_ms at most. All functions are
 * thread-safe.
 */
#pragma once

#include "common/config.h"
#include "store/capture/rules.h"
#include "store/capture/spool.h"
#include "store/journal/journal.h"

#include <sys/stat.h>

struct shfs_capture;
struct shfs_snapshot;

/* SHFS_ARGV_MAX bytes of a process's arguments are recorded. Callers read SHFS_ARGV_READ
 * bytes, so that a secret at the cut is recognised. */
#define SHFS_ARGV_MAX  (64u << 10)
#define SHFS_ARGV_READ (SHFS_ARGV_MAX + (16u << 10))
#define SHFS_ARGV_CUT  "\0[cut]" /* appended to arguments that were cut */

struct shfs_capture_options {
	const struct shfs_config *config; /* copied */
	const char *kind, *root;          /* for the journal */
	size_t queue_max;                 /* events; 0: 100000 */
	unsigned threads;                 /* archivers; 0: 2 */
	struct shfs_spool *spool;         /* borrowed; or NULL */
};

/* Opens a capture and starts its threads; so it comes after a fork into the background.
 */
_must_check_ int shfs_capture_open(struct shfs_store *store,
                                   const struct shfs_capture_options *options,
                                   struct shfs_capture **out);
/*
 * Writes all that is queued, ends the journal, joins the threads. Nobody may be in a call
 * on this capture or take a snapshot any more; snapshots may still be unref'ed. NULL is
 * fine.
 */
void shfs_capture_close(struct shfs_capture *capture);

/* --- snapshots: one content of one file at one moment --- */

enum shfs_depth {
	SHFS_DEPTH_STAT,        /* size, times, mode and a reason for no more (skip) */
	SHFS_DEPTH_FINGERPRINT, /* and the partial hash */
	SHFS_DEPTH_ARCHIVE,     /* and the content */
};

/* Makes a snapshot of which nothing is known yet, with one reference. NULL: no memory. */
struct shfs_snapshot *shfs_snapshot_new(struct shfs_capture *capture);
struct shfs_snapshot *shfs_snapshot_ref(struct shfs_snapshot *snapshot);
void shfs_snapshot_unref(struct shfs_snapshot *snapshot); /* NULL is fine */

/* Says that the file held the content of `before` until now, so that the new content is
 * stored as a delta of that. Called before the first take. */
void shfs_snapshot_follow(struct shfs_snapshot *snapshot, struct shfs_snapshot *before);

/* Says which user wrote the content. Contents of users other than the store's owner are
 * archived within their allowance (store/capture/allowance.h); beyond it they become
 * FINGERPRINT with SKIP_USER. Called before the first take. */
void shfs_snapshot_author(struct shfs_snapshot *snapshot, uid_t uid);

/*
 * Takes the snapshot of the file behind fd to at least depth. fd is borrowed; it must be
 * readable (for STAT any fd will do). STAT and FINGERPRINT are done at once in this
 * thread; ARCHIVE is handed to an archiver, and the file must not change (in size,
 * content or mtime) until shfs_snapshot_wait has returned. Does nothing if that depth is
 * known or under way. skip: SHFS_CONTENT_SKIP_* to note, or 0.
 *
 * A file beyond max_bytes becomes FINGERPRINT with SKIP_SIZE; one that is not regular
 * STAT with SKIP_TYPE. Failures to read become SKIP_ERROR: there is nothing for the
 * caller to handle. Small files are read at once. When too much is in flight, this thread
 * reads the file itself, and waits up to config.wait_ms for memory to do so; then it is
 * FINGERPRINT with SKIP_BUDGET. Large files leave some memory to small ones.
 */
void shfs_snapshot_take(struct shfs_snapshot *snapshot, int fd, enum shfs_depth depth,
                        uint64_t max_bytes, uint32_t skip);

/* Returns the depth known or under way; -1: none. It is less than was asked for if the
 * file was too large or could not be archived: another take may then get further. */
int shfs_snapshot_depth(const struct shfs_snapshot *snapshot);

/* Would a take give more than is known or under way? */
bool shfs_snapshot_wants(const struct shfs_snapshot *snapshot, enum shfs_depth depth,
                         uint64_t max_bytes);

/* Was an event with the snapshot emitted at its present depth? */
bool shfs_snapshot_is_told(const struct shfs_snapshot *snapshot);

/* Was its object forgotten since it was taken? Then records have it without its object.
 */
bool shfs_snapshot_is_forgotten(const struct shfs_snapshot *snapshot);

/* Says that the times of the file are about to be set without a change of its bytes. */
void shfs_snapshot_touch(struct shfs_snapshot *snapshot);

/* Marks the content INCOMPLETE: the file changed while it was read. */
void shfs_snapshot_spoil(struct shfs_snapshot *snapshot);

/*
 * Takes a file with a secret name (shfs_rules_is_secret): STAT, with SKIP_RULE. If it has
 * no more than max_bytes it is read, so that its content is not archived under another
 * name either, unless that was archived before.
 */
void shfs_snapshot_take_secret(struct shfs_snapshot *snapshot, int fd,
                               uint64_t max_bytes);

/* Says that the file has got a secret name: records, also those that are not written yet,
 * have the content as left out by a rule. Its object is removed if this file brought it
 * to the store. */
void shfs_snapshot_conceal(struct shfs_snapshot *snapshot);

/* Says that the file has got another name: the content is recorded as one of several. */
void shfs_snapshot_linked(struct shfs_snapshot *snapshot);

/* Says that the file has lost its last name. If it existed only for a moment, and a file
 * with a secret name has the same content, the object is removed. */
void shfs_snapshot_gone(struct shfs_snapshot *snapshot);

/*
 * Waits until the file's bytes have been read (it may then change). false: timeout_ms has
 * passed; the content will be INCOMPLETE if it turns out to have changed during the read.
 * Never waits for compression or for the disk of the store.
 */
bool shfs_snapshot_wait(struct shfs_snapshot *snapshot, unsigned timeout_ms);

/* --- events --- */

/*
 * Queues a PROCESS, ACCESS, PATHOP, PREIMAGE, PROGRAM or LOOKUP record; its strings are
 * copied (arguments and environment of a process redacted, the arguments up to
 * SHFS_ARGV_MAX). Sets rec->seq, and rec->time if its real_ns is 0. content[0] fills seen
 * (ACCESS) or content (PATHOP, PREIMAGE, PROGRAM); content[1] fills made (ACCESS) or
 * victim (PATHOP). Snapshots are referenced, the caller keeps its own; NULL leaves the
 * field as it is in rec. Returns the sequence number, by which later records name a
 * PROCESS; 0: the event is lost.
 */
uint64_t shfs_capture_emit(struct shfs_capture *capture, struct shfs_record *rec,
                           struct shfs_snapshot *const content[2]);

/* Counts an event (or a content of one) as lost that could not even be emitted. */
void shfs_capture_lose(struct shfs_capture *capture, int error);

/* Returns a number that grows with each loss. As long as it stays the same, all that was
 * emitted is in the journal or will be. */
uint64_t shfs_capture_losses(struct shfs_capture *capture);

/*
 * Waits until the queue is less than half full, for config.wait_ms at most, and not again
 * while nothing is taken off it. To be called before an operation that ends in events,
 * and before it takes locks: emit itself is called with locks that others wait for.
 */
void shfs_capture_throttle(struct shfs_capture *capture);

/* Calls done(arg, error) from the writer thread once everything emitted before is durable
 * (0), or some of it was lost since the last sync (a negative errno; -ENOBUFS: the queue
 * was full). done must not call back. -ENOMEM. */
_must_check_ int shfs_capture_sync(struct shfs_capture *capture,
                                   void (*done)(void *arg, int error), void *arg);

/*
 * Syncs as shfs_capture_sync, then begins a new segment of the journal, whose name is
 * passed to sealed. From then on no record names an object that is being forgotten now
 * (store/objects/lease.h), though an older snapshot has it. error: nothing was begun.
 */
_must_check_ int
shfs_capture_seal(struct shfs_capture *capture,
                  void (*done)(void *arg, int error, const char *segment), void *arg);

struct shfs_capture_stats {
	uint64_t records, lost, queued; /* events; their sum is what was emitted */
	uint64_t objects, object_bytes,
		stored_bytes;         /* new objects; before and after compression */
	uint64_t skipped, incomplete; /* contents in the journal with such a flag */
	uint64_t memory_bytes; /* of contents that wait for the store, and compressors */
	int error;             /* why nothing is written now: a negative errno; or 0 */
};
void shfs_capture_get_stats(struct shfs_capture *capture, struct shfs_capture_stats *out);
