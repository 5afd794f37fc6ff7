/* SPDX-License-Identifier: MIT */
/*
 * capture-internal.h - what capture.c (events), writer.c (the writer's thread) and
 * snapshot.c (snapshots, the archivers' threads) share. One lock guards all of it; no
 * thread reads or writes a file while holding it.
 *
 * An archive job goes through three lists: reads (its file is still to be read), stores
 * (its bytes are still to be put into an object), puts (its object is still to be
 * committed). Archivers take it up to puts, the writer commits it. The writer commits
 * objects as they come, not in the order of events, so that archivers that wait for room
 * in puts never wait for themselves.
 */
#pragma once

#include "common/hash.h"
#include "store/capture/allowance.h"
#include "store/capture/capture.h"
#include "store/capture/pool.h"
#include "store/capture/secrecy.h"
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
#define CAPTURE_SMALL_MAX       (8u << 20) /* those of small files, whatever the others' */
#define CAPTURE_JOB_BYTES       1024       /* memory of a job, besides its file's bytes */
#define CAPTURE_INLINE_MAX      (16u << 10) /* files up to this are read by the caller */
#define CAPTURE_BATCH           4096        /* events that share a sync */
#define CAPTURE_COMMIT          256         /* objects that share a sync */
#define CAPTURE_TAKE            256 /* events taken off the queue with the lock held */
#define CAPTURE_BATCH_NS        (SHFS_NSEC_PER_SEC / 5)
#define CAPTURE_RETRY_NS        SHFS_NSEC_PER_SEC
#define CAPTURE_QUIET_NS        (3 * SHFS_NSEC_PER_SEC)
#define CAPTURE_LEASE_NS        (SHFS_NSEC_PER_SEC / 2) /* most that a collection waits */
#define CAPTURE_TICK_NS                                                                  \
	(SHFS_NSEC_PER_SEC / 50) /* of a local file system: 10 ms at most */
#define CAPTURE_NICE        5
#define CAPTURE_THREADS_MAX 16
#define CAPTURE_STRINGS_MAX 6 /* of a record */

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
	struct stat before;             /* the file's state that is to be archived */
	uint64_t max_bytes;
	bool changed; /* the file was in another state once it had been read */
	bool touched; /* ... but in its times alone, and reading again gave the same */
	struct shfs_content content;
	char *data; /* a block of capture->pool, of this room */
	size_t room;
	size_t len;
	size_t reserved; /* bytes counted in capture->memory, until the end */
	struct shfs_put *put;
	bool dropped;     /* the content is secret */
	unsigned forgets; /* see struct shfs_snapshot */
	bool leased;      /* it holds a lease, which the snapshot gets with the object */
	int64_t put_ns;   /* CLOCK_MONOTONIC */
};

struct shfs_snapshot {
	atomic_uint refs;
	atomic_bool touched; /* the file's times may have been set since they were read */
	struct shfs_capture *capture;
	/* under capture->lock */
	uint64_t claim;     /* counts takes: the result of the last one stays */
	int depth;          /* known or under way; -1 */
	int told;           /* depth when the last event with it was emitted; -1 */
	unsigned reading;   /* takes that still need the file as it is */
	unsigned unsettled; /* takes whose result is not in content yet */
	int64_t late_ns; /* CLOCK_REALTIME when a wait gave up: the file may have changed
	                    since; 0 */
	bool spoiled;    /* its content is INCOMPLETE for good */
	bool counted;    /* in the statistics */
	bool is_put;     /* put names its object, which may not be committed yet */
	struct shfs_object_id put;
	bool was_there; /* the object existed before, of another file */
	bool secret;    /* its file has a secret name */
	bool gone;      /* its file has lost its last name */
	bool holds;     /* it counts in the struct capture_holders of its content */
	bool overtaken; /* the snapshot after it was put first: as the object overtaker */
	struct shfs_object_id overtaker;
	bool held; /* no record names its object yet: it has a lease, and is in a list */
	struct shfs_snapshot *held_prev, *held_next;
	struct shfs_snapshot *before; /* of the file's content before; a reference */
	struct capture_job *job;      /* while it is in reads; borrowed */
	uid_t author;                 /* its allowance is used for the content */
	unsigned forgets; /* capture->forgets before its object was looked for */
	struct shfs_content content;
};

/* A shfs_capture_sync (done is set) or a shfs_capture_seal (sealed is). */
struct capture_sync {
	struct capture_sync *next;
	void (*done)(void *arg, int error);
	void (*sealed)(void *arg, int error, const char *segment);
	void *arg;
	uint64_t seq; /* the last event that it waits for */
};

struct capture_secret;
struct capture_holders;

/* An object that was forgotten. forget: the number of that forget in this capture. */
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
	bool private_keys;              /* archive private keys */
	int compression, alert_fd; /* alert_fd: an unnamed file with room for the alert */
	struct shfs_allowance *allowance;
	bool alerts; /* errors raise alerts: not for shfs restore, which prints them */
	uint32_t wait_ms;
	uint64_t whole_max; /* of the contents that have a fingerprint of the whole */
	size_t queue_max, reads_max, puts_max;
	pthread_t writer, archivers[CAPTURE_THREADS_MAX];
	unsigned n_threads; /* archivers to join */

	pthread_mutex_t lock;
	pthread_cond_t work;    /* archivers: a job, room, the end */
	pthread_cond_t written; /* the writer: something to write, the end */
	pthread_cond_t change;  /* takers: a file was read, memory or room became free */

	/* events, in the order of their sequence numbers */
	struct capture_event *head, *tail;
	size_t n_events, event_bytes;
	uint64_t seq; /* last one given out */
	struct capture_sync *syncs;
	uint64_t lost_pending; /* losses that are in no LOST record yet */
	int lost_error;        /* error of the first of them */
	_Atomic uint64_t losses;
	int unsynced_error; /* error of a loss that no sync has reported yet */

	/* jobs; n_puts also counts those that are being put or committed */
	struct capture_job *reads, *stores, *puts;
	struct capture_job *commits; /* being committed */
	size_t n_storing;            /* jobs that are being put */
	size_t n_reads, n_stores, n_puts;
	struct pool *pool;
	size_t memory, small_memory; /* bytes; of all jobs, and of those of small files */
	pthread_mutex_t held_lock;   /* guards held and n_held; taken after lock */
	struct shfs_snapshot *held;
	atomic_size_t n_held;
	struct capture_forgotten *forgotten; /* sorted by id */
	size_t n_forgotten;
	uint64_t forgotten_in; /* generation of the last forgotten objects */
	atomic_uint forgets;   /* how often objects were forgotten */
	bool renewing;         /* a collection waits until all puts are committed */
	unsigned n_up;         /* archivers that do not wait for work */
	unsigned n_waiters;    /* on change: for room, or until a file has been read */
	atomic_bool crowded;   /* the queue is more than half full */

	/* of secrecy.c */
	struct capture_secret *secrets;  /* secret contents; the oldest first */
	struct capture_holders *holders; /* of new contents; the oldest first */
	struct shfs_objects purge;       /* secret objects to remove */
	pthread_t purger;
	pthread_cond_t purging; /* the purger: an object to remove, the end */
	bool has_purger;

	struct shfs_capture_stats stats;
	int error;            /* why the store cannot be written; 0 */
	uint64_t error_bytes; /* so many bytes found no room */
	int64_t used_ns;      /* last use of memory that is not given back; 0: all is */
	bool writer_timed;    /* the writer sleeps until its batch is due */
	bool stalled;         /* no event was taken off the full queue for wait_ms */
	bool closing;
	unsigned n_started, n_archivers; /* threads that have begun; archivers that run */
};

/* Lists the strings of a record; -1: producers may not emit records of its type. */
int capture_record_strings(struct shfs_record *rec,
                           struct shfs_bytes *out[static CAPTURE_STRINGS_MAX]);
/* Copies the strings to `to`, one behind another, and points them there. */
void capture_move_strings(struct shfs_bytes *const strings[static CAPTURE_STRINGS_MAX],
                          int n, char *to);
/* Gets the up to two contents of a record; NULL: it has no such content. */
void capture_record_contents(struct shfs_record *rec, struct shfs_content *out[static 2]);

int64_t capture_now(void); /* CLOCK_MONOTONIC */

/* Waits on cond, with the lock held. false: until_ns has passed. */
bool capture_wait(struct shfs_capture *c, pthread_cond_t *cond, int64_t until_ns);

/* Sets up the calling thread; each thread calls it first. */
void capture_thread_begin(struct shfs_capture *c, const char *name);

/* Threads; arg is the capture. */
void *capture_archiver(void *arg);
void *capture_writer(void *arg);
void *capture_purger(void *arg);

/* Resumes the removal of secret objects that an earlier producer has left. */
_must_check_ int capture_purge_resume(struct shfs_capture *c);
/* Removes the rest of them, once all threads have ended. */
void capture_purge_end(struct shfs_capture *c);

/* Clears the alert and reserves room for the next one. Called without the lock. */
void capture_clear_alert(struct shfs_capture *c);

/* --- the functions below are called with the lock held --- */

void capture_free_event(struct capture_event *event); /* without it, too */

/* Says why a content with these flags has no object, for debug.h. */
const char *capture_why_not(uint32_t flags);

/* Counts n events as lost. */
void capture_lose(struct shfs_capture *c, uint64_t n, int error);

/* Sets crowded, after events were queued or taken off. */
void capture_note_crowd(struct shfs_capture *c);

/* Queues a LOST record if there are losses that are in none. */
void capture_tell_lost(struct shfs_capture *c);

/* Is this an error of the store, not only of one content? */
bool capture_is_store_error(int error);

/* Notes that the store failed to write so many bytes; the writer deals with it. */
void capture_fail(struct shfs_capture *c, int error, uint64_t bytes);

/* Wakes the writer, when an event may have become ready to be written. */
void capture_wake_writer(struct shfs_capture *c);

/* Was the snapshot's object forgotten, so that it may be removed? */
bool capture_is_forgotten(const struct shfs_snapshot *snapshot);

/* Ends the snapshot's lease: a record names its object now, or will never do so. */
void capture_let_go(struct shfs_snapshot *snapshot);

/* Drops the put and finishes the job if the content is secret: true. */
bool capture_drop_secret(struct capture_job *job);

/* Finishes the job, with its object or (NULL) without; frees it. */
void capture_finish_job(struct capture_job *job, const struct shfs_object_id *id);

/* --- secrecy.c --- */

/* Is the content secret? Then records have it as one that a rule left out, without its
 * object: capture_hide makes it so. */
bool capture_is_secret(const struct shfs_snapshot *snapshot);
void capture_hide(struct shfs_content *content);

/* Notes that the snapshot's file holds the content that was put. before: the file's
 * snapshot before, or NULL. */
void capture_note_holder(struct shfs_snapshot *snapshot, struct shfs_snapshot *before);

/* Must the content of size bytes, which was put, not become this object, as it is secret?
 * Then one that is there is removed. was_there: there was one when it was put. */
bool capture_must_drop(struct shfs_snapshot *snapshot, const struct shfs_object_id *id,
                       uint64_t size, bool was_there);

/* Notes that the content of size bytes has become this object, and has that removed if it
 * is secret. */
void capture_note_object(struct shfs_snapshot *snapshot, const struct shfs_object_id *id,
                         uint64_t size);
