/* SPDX-License-Identifier: MIT */
/*
 * capture.h - the way from "something happened" to a durable record, off the caller's
 * path.
 *
 * A producer (the mount, restore, later the kernel reader) calls shfs_capture_emit for
 * each event; the order of these calls is the order of the journal. An event may refer to
 * snapshots: contents that are still being read and archived by the capture's own
 * threads. One writer thread takes events off the queue in order, waits for their
 * snapshots, commits the objects of a batch, then appends the batch and syncs: objects
 * are durable before the record that names them. A batch is due after 200 ms or with 4096
 * events; it takes what has come until then.
 *
 * Memory is bounded: beyond queue_max events or bytes in flight, emit waits for room, so
 * that users are no faster than the store (shfs_capture_throttle does so earlier and
 * where nobody else is held up); where none comes within config.wait_ms, it drops the
 * event and counts it (a LOST record follows as soon as one fits), and so those that
 * follow until there is some. When the store fails (full, read-only), events are dropped
 * and counted likewise (PROCESS records wait, so that a sequence number that was given
 * out stays good), the failure is kept in the statistics and in state/alert-<host>, and
 * the writer tries again each second. Nothing here ever fails the user's I/O; one emit
 * blocks it for config.wait_ms at most. All functions are thread-safe.
 */
#pragma once

#include "common/config.h"
#include "store/capture/rules.h"
#include "store/capture/spool.h"
#include "store/journal/journal.h"

#include <sys/stat.h>

struct shfs_capture;
struct shfs_snapshot;

/* Of the arguments of a process so much is recorded; who reads them reads more, so that a
 * secret at the cut is known for one. */
#define SHFS_ARGV_MAX  (64u << 10)
#define SHFS_ARGV_READ (SHFS_ARGV_MAX + (16u << 10))
#define SHFS_ARGV_CUT  "\0[cut]" /* what is behind arguments of which more follow */

struct shfs_capture_options {
	const struct shfs_config *config; /* copied */
	const char *kind, *root;          /* for the journal */
	size_t queue_max;                 /* events; 0: 100000 */
	unsigned threads;                 /* archivers; 0: 2 */
	struct shfs_spool *spool;         /* borrowed; or NULL */
};

/* Starts the threads (so: after a fork into the background). */
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

/* A new one, nothing known yet, one reference. NULL: no memory. */
struct shfs_snapshot *shfs_snapshot_new(struct shfs_capture *capture);
struct shfs_snapshot *shfs_snapshot_ref(struct shfs_snapshot *snapshot);
void shfs_snapshot_unref(struct shfs_snapshot *snapshot); /* NULL is fine */

/* The file held before until now: what is alike is stored once. Before the first take. */
void shfs_snapshot_follow(struct shfs_snapshot *snapshot, struct shfs_snapshot *before);

/* Who wrote the content: if that is not the store's owner, no more of his is archived
 * than his allowance (store/capture/allowance.h); what is beyond is FINGERPRINT with
 * SKIP_USER. Before the first take. */
void shfs_snapshot_author(struct shfs_snapshot *snapshot, uid_t uid);

/*
 * Makes the snapshot know at least depth of the file behind fd, which is dup'ed where
 * needed and stays the caller's; it must be readable (for STAT any fd will do). STAT and
 * FINGERPRINT are done at once in this thread; ARCHIVE is handed to an archiver, and the
 * file must not change (in size, content or mtime) until shfs_snapshot_wait has returned.
 * A no-op where that depth is known or under way; a deeper call deepens it. skip:
 * SHFS_CONTENT_SKIP_* to note, or 0.
 *
 * A file beyond max_bytes becomes FINGERPRINT with SKIP_SIZE; one that is not regular
 * STAT with SKIP_TYPE. Failures to read become SKIP_ERROR: there is nothing for the
 * caller to handle. Small files are read at once. When too much is in flight, this thread
 * reads the file itself, and waits up to config.wait_ms for memory to do so; then it is
 * FINGERPRINT with SKIP_BUDGET.
 */
void shfs_snapshot_take(struct shfs_snapshot *snapshot, int fd, enum shfs_depth depth,
                        uint64_t max_bytes, uint32_t skip);

/* The depth known or under way; -1 for none. Less than was asked for where the file was
 * too large or could not be archived: a take may then get further than the one before. */
int shfs_snapshot_depth(const struct shfs_snapshot *snapshot);

/* Would a take tell more than is known or under way? */
bool shfs_snapshot_wants(const struct shfs_snapshot *snapshot, enum shfs_depth depth,
                         uint64_t max_bytes);

/* Was an event emitted that tells of it what is known or under way? */
bool shfs_snapshot_is_told(const struct shfs_snapshot *snapshot);

/* Was its object forgotten since it was taken? Then records tell of it without. */
bool shfs_snapshot_is_forgotten(const struct shfs_snapshot *snapshot);

/* The times of the file are about to be set by somebody who does not change its bytes. */
void shfs_snapshot_touch(struct shfs_snapshot *snapshot);

/* What is being read, or was, is of no one moment: it is INCOMPLETE. */
void shfs_snapshot_spoil(struct shfs_snapshot *snapshot);

/*
 * A file with a secret name (shfs_rules_is_secret): STAT, with SKIP_RULE. Up to max_bytes
 * of it are read, so that its content is not archived under another name either, unless
 * that was before.
 */
void shfs_snapshot_take_secret(struct shfs_snapshot *snapshot, int fd,
                               uint64_t max_bytes);

/* The file has got a secret name: the content is told as one that a rule excludes, also
 * by records that are not written yet, and goes from the store if this file brought it
 * there. */
void shfs_snapshot_conceal(struct shfs_snapshot *snapshot);

/* The file has got another name: the content is told as one of several names. */
void shfs_snapshot_linked(struct shfs_snapshot *snapshot);

/* The file has lost its last name. If it was there for a moment, and a file with a secret
 * name has the content, that goes, too. */
void shfs_snapshot_gone(struct shfs_snapshot *snapshot);

/*
 * Returns once the file's bytes have been read (it may then change), at the latest after
 * timeout_ms: then the content is marked INCOMPLETE if it turns out to have changed under
 * the read and false is returned. Never waits for compression or for the disk of the
 * store.
 */
bool shfs_snapshot_wait(struct shfs_snapshot *snapshot, unsigned timeout_ms);

/* --- events --- */

/*
 * Queues a PROCESS, ACCESS, PATHOP or PREIMAGE record; its strings are copied (the
 * arguments of a process without secrets, up to SHFS_ARGV_MAX), rec->seq
 * and rec->time are set here (time only where real_ns is 0). content[0] fills seen
 * (ACCESS) or content (PATHOP, PREIMAGE); content[1] fills made (ACCESS) or victim
 * (PATHOP). Snapshots are referenced, not taken over; NULL leaves the field as it is in
 * rec. Returns the sequence number, by which later records name a PROCESS; 0 if lost.
 */
uint64_t shfs_capture_emit(struct shfs_capture *capture, struct shfs_record *rec,
                           struct shfs_snapshot *const content[2]);

/* An event, or a content of one, that could not even be told is counted as lost. */
void shfs_capture_lose(struct shfs_capture *capture, int error);

/* Grows with each loss: what was recorded before, and since another number, is in the
 * journal or will be. */
uint64_t shfs_capture_losses(struct shfs_capture *capture);

/*
 * Waits until the queue is less than half full, as emit does for room: at once where it
 * is, config.wait_ms at most, and not again while nothing is taken off it. For who is
 * about to do what ends in events, before he takes locks: emit is called with locks that
 * others wait for.
 */
void shfs_capture_throttle(struct shfs_capture *capture);

/* Calls done(arg, error) from the writer thread once everything emitted before is durable
 * (0), or some of it since the last sync is known to be lost (its negative errno:
 * -ENOBUFS where the queue was full). done must not call back. -ENOMEM. */
_must_check_ int shfs_capture_sync(struct shfs_capture *capture,
                                   void (*done)(void *arg, int error), void *arg);

/*
 * As shfs_capture_sync, and begins a new segment of the journal behind all that, whose
 * name is told. What is being forgotten now (store/objects/lease.h) no record names from
 * then on, though a snapshot of before has it. error: nothing was begun.
 */
_must_check_ int
shfs_capture_seal(struct shfs_capture *capture,
                  void (*done)(void *arg, int error, const char *segment), void *arg);

struct shfs_capture_stats {
	uint64_t records, lost, queued; /* events; their sum is what was emitted */
	uint64_t objects, object_bytes,
		stored_bytes;         /* new objects; before and after compression */
	uint64_t skipped, incomplete; /* contents in the journal with such a flag */
	uint64_t memory_bytes; /* of what waits for the store, and to compress it */
	int error;             /* why the journal stands still now: a negative errno; 0 */
};
void shfs_capture_get_stats(struct shfs_capture *capture, struct shfs_capture_stats *out);
