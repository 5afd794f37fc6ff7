/* SPDX-License-Identifier: MIT */
/*
 * capture-internal.h - what capture.c (events), writer.c (the writer's thread) and
 * snapshot.c (snapshots, the archivers' threads) share. One lock guards all of it; nobody
 * reads or writes a file while holding it.
 *
 * An archive job goes through three lists: reads (its file is still to be read), stores
 * (its bytes are still to be put into an object), puts (its object is still to be
 * committed). Archivers take it up to puts, the writer commits. It commits objects as
 * they come, not when the turn of their event has come, so archivers that wait for room
 * in puts never wait for themselves.
 */
#pragma once

#include "common/hash.h"
#include "store/capture/allowance.h"
#include "store/capture/capture.h"
#include "store/objects/lease.h"
#include "store/objects/object.h"
#include "store/objects/objects.h"

#include <pthread.h>
#include <stdatomic.h>

#define CAPTURE_QUEUE_MAX       100000
#define CAPTURE_EVENT_BYTES_MAX (64u << 20)
#define CAPTURE_READS_MAX       128         /* jobs that hold an fd of a user's file */
#define CAPTURE_PUTS_MAX        512         /* uncommitted objects: an fd each */
#define CAPTURE_MEMORY_MAX      (40u << 20) /* bytes read and not committed yet */
#define CAPTURE_JOB_BYTES       1024        /* of a job, besides those of its file */
#define CAPTURE_INLINE_MAX      (16u << 10) /* files up to this are read by the caller */
#define CAPTURE_BATCH           4096        /* events that share a sync */
#define CAPTURE_COMMIT          256         /* objects that do */
#define CAPTURE_TAKE            256 /* events taken off the queue with the lock held */
#define CAPTURE_BATCH_NS        (SHFS_NSEC_PER_SEC / 5)
#define CAPTURE_RETRY_NS        SHFS_NSEC_PER_SEC
#define CAPTURE_QUIET_NS        (3 * SHFS_NSEC_PER_SEC)
#define CAPTURE_LEASE_NS        (SHFS_NSEC_PER_SEC / 2) /* a collection waits so long */
#define CAPTURE_TICK_NS                                                                  \
	(SHFS_NSEC_PER_SEC / 50) /* of a local file system: 10 ms at most */
#define CAPTURE_NICE        5
#define CAPTURE_THREADS_MAX 16

struct capture_event {
	struct capture_event *next;
	struct shfs_record rec;           /* its strings are in text */
	struct shfs_snapshot *content[2]; /* references */
	int64_t queued_ns;                /* CLOCK_MONOTONIC */
	size_t bytes;
	char text[];
};

struct capture_job {
	struct capture_job *prev, *next;
	struct shfs_snapshot *snapshot; /* a reference */
	uint64_t claim;                 /* of the snapshot, when the job was made */
	int fd;                         /* while in reads, else -1 */
	struct stat before;             /* the state that is wanted */
	uint64_t max_bytes;
	bool changed; /* the file was in another state once it had been read */
	bool touched; /* ... but in its times alone, and reading again gave the same */
	struct shfs_content content;
	char *data;
	size_t len;
	size_t reserved; /* bytes counted in capture->memory, until the end */
	struct shfs_put *put;
	bool dropped;     /* what was put is secret */
	unsigned forgets; /* as the snapshot has it */
	bool leased;    /* for its object: the snapshot's, if that becomes its content */
	int64_t put_ns; /* CLOCK_MONOTONIC */
};

struct shfs_snapshot {
	atomic_uint refs;
	atomic_bool touched; /* its times may have been set since they were looked at */
	struct shfs_capture *capture;
	/* under capture->lock */
	uint64_t claim;     /* counts takes: the result of the last one stays */
	int depth;          /* known or under way; -1 */
	int told;           /* that was, when an event with it was emitted last; -1 */
	unsigned reading;   /* takes that still need the file as it is */
	unsigned unsettled; /* takes whose result is not in content yet */
	int64_t late_ns; /* CLOCK_REALTIME when a wait gave up: the file may have changed
	                    since; 0 */
	bool spoiled;    /* its content is INCOMPLETE, whatever comes */
	bool counted;    /* in the statistics */
	bool is_put;     /* put names its object, which may not be committed yet */
	struct shfs_object_id put;
	bool was_there; /* ... and another file's before */
	bool secret;    /* its file has a secret name */
	bool gone;      /* that name is gone */
	bool holds;     /* it is one of the holders of its content */
	bool held; /* its object is in no record yet: it has a lease, and is in a list */
	struct shfs_snapshot *held_prev, *held_next;
	struct shfs_snapshot *before; /* what the file held before; a reference */
	struct capture_job *job;      /* while it is in reads; borrowed */
	uid_t author;                 /* whose allowance it is archived by */
	unsigned forgets; /* of the capture, before its object was looked for */
	struct shfs_content content;
};

/* done or sealed: the latter is of shfs_capture_seal. */
struct capture_sync {
	struct capture_sync *next;
	void (*done)(void *arg, int error);
	void (*sealed)(void *arg, int error, const char *segment);
	void *arg;
	uint64_t seq; /* the last event that it waits for */
};

struct capture_secret;
struct capture_holders;

/* An object that was forgotten, by which of the forgets that this capture knows of. */
struct capture_forgotten {
	struct shfs_object_id id;
	unsigned forget;
};

struct shfs_capture {
	struct shfs_store *store;
	struct shfs_journal *journal; /* the writer's, while its thread runs */
	struct shfs_spool *spool;     /* borrowed; or NULL */
	char *root;
	struct shfs_redactor *redactor; /* or NULL */
	pthread_mutex_t redactor_lock;  /* no other is taken with it */
	bool private_keys;              /* they are archived */
	int compression, alert_fd; /* alert_fd: an unnamed file with room for the alert */
	struct shfs_allowance *allowance;
	bool alerts; /* it is a mount: whoever restores sees his errors */
	uint32_t wait_ms;
	size_t queue_max, reads_max, puts_max;
	pthread_t writer, archivers[CAPTURE_THREADS_MAX];
	unsigned n_threads; /* archivers to join */

	pthread_mutex_t lock;
	pthread_cond_t work;    /* archivers: a job, room, the end */
	pthread_cond_t written; /* the writer: something to write, the end */
	pthread_cond_t change;  /* who waits for a read or for memory */

	/* events, in the order of their sequence numbers */
	struct capture_event *head, *tail;
	size_t n_events, event_bytes;
	uint64_t seq; /* last one given out */
	struct capture_sync *syncs;
	uint64_t lost_pending; /* told by no LOST record yet */
	int lost_error;        /* what began lost_pending */
	_Atomic uint64_t losses;
	int unsynced_error; /* a loss that no sync has told yet */

	/* jobs; n_puts also counts those that are being put or committed */
	struct capture_job *reads, *stores, *puts;
	struct capture_job *commits; /* those that are being committed */
	size_t n_storing;            /* that are being put */
	size_t n_reads, n_stores, n_puts, memory;
	pthread_mutex_t held_lock; /* of these; taken behind lock */
	struct shfs_snapshot *held;
	atomic_size_t n_held;
	struct capture_forgotten *forgotten; /* sorted by id */
	size_t n_forgotten;
	uint64_t forgotten_in; /* the generation of the last ones */
	atomic_uint forgets;   /* how often some were */
	bool renewing;         /* a collection waits for what is put to be committed */
	unsigned n_up;         /* archivers that do not wait for work */
	unsigned n_waiters;    /* on change: for room, or until a file has been read */
	atomic_bool crowded;   /* the queue is more than half full */

	/* secrecy.c's */
	struct capture_secret *secrets;  /* contents; the oldest first */
	struct capture_holders *holders; /* of those that are new; the oldest first */
	struct shfs_objects purge;       /* that are to go */
	pthread_t purger;
	pthread_cond_t purging; /* there are some; the end */
	bool has_purger;

	struct shfs_capture_stats stats;
	int error;            /* why the store cannot be written; 0 */
	uint64_t error_bytes; /* what there was no room for */
	int64_t used_ns;      /* since then memory has not been given back; 0: it has */
	bool writer_timed;    /* the writer sleeps until its batch is due */
	bool stalled;         /* no event was taken off the full queue for wait_ms */
	bool closing;
	unsigned n_started, n_archivers; /* threads: that have begun; that run */
};

/* The strings of a record that producers may emit; -1: they may not. */
int capture_record_strings(struct shfs_record *rec, struct shfs_bytes *out[static 4]);
/* Copies them to where there is room for all, one behind another: there they lie then. */
void capture_move_strings(struct shfs_bytes *const strings[static 4], int n, char *to);
/* Its two contents; NULL: it has not so many. */
void capture_record_contents(struct shfs_record *rec, struct shfs_content *out[static 2]);

int64_t capture_now(void); /* CLOCK_MONOTONIC */

/* Waits on cond until then, with the lock held. false: it is later. */
bool capture_wait(struct shfs_capture *c, pthread_cond_t *cond, int64_t until_ns);

/* What each thread does first. */
void capture_thread_begin(struct shfs_capture *c, const char *name);

/* Threads; arg is the capture. */
void *capture_archiver(void *arg);
void *capture_writer(void *arg);
void *capture_purger(void *arg);

/* What an earlier producer did not come to take away. */
_must_check_ int capture_purge_resume(struct shfs_capture *c);
/* The last of it, once all threads have ended. */
void capture_purge_end(struct shfs_capture *c);

/* Takes the alert away and reserves room for the next one. Without the lock. */
void capture_clear_alert(struct shfs_capture *c);

/* --- the rest is called with the lock held --- */

void capture_free_event(struct capture_event *event); /* without it, too */

/* Why a content with these flags has no object, for debug.h. */
const char *capture_why_not(uint32_t flags);

/* Counts n events as lost. */
void capture_lose(struct shfs_capture *c, uint64_t n, int error);

/* Events came or went. */
void capture_note_crowd(struct shfs_capture *c);

/* Queues a LOST record if there is a loss to tell. */
void capture_tell_lost(struct shfs_capture *c);

/* Is error one of the store, not of this one content? */
bool capture_is_store_error(int error);

/* The store failed when asked for so many bytes: the writer deals with it. */
void capture_fail(struct shfs_capture *c, int error, uint64_t bytes);

/* Call when something may have become ready to be written. */
void capture_wake_writer(struct shfs_capture *c);

/* May its object be gone, as it was forgotten? */
bool capture_is_forgotten(const struct shfs_snapshot *snapshot);

/* Its object is in the journal, or will never be. */
void capture_let_go(struct shfs_snapshot *snapshot);

/* If what was put is secret, it is no object, and the job is done: true. */
bool capture_drop_secret(struct capture_job *job);

/* The job is done, with its object or (NULL) without; frees it. */
void capture_finish_job(struct capture_job *job, const struct shfs_object_id *id);

/* --- secrecy.c --- */

/* Does it begin as a private key does? Without the lock. */
bool capture_is_private_key(const char *data, size_t len);

/* Must it be told as one that a rule excludes? Where its object is: so does capture_hide.
 */
bool capture_is_secret(const struct shfs_snapshot *snapshot);
void capture_hide(struct shfs_content *content);

/* Its file, which held before (or NULL), is one of those that hold what was put. */
void capture_note_holder(struct shfs_snapshot *snapshot, struct shfs_snapshot *before);

/* Its content of size bytes is about to be this object, or (there) is one already: must
 * it not? */
bool capture_must_drop(struct shfs_snapshot *snapshot, const struct shfs_object_id *id,
                       uint64_t size, bool there);

/* Its content of size bytes has become this object: does that go? */
void capture_note_object(struct shfs_snapshot *snapshot, const struct shfs_object_id *id,
                         uint64_t size);
