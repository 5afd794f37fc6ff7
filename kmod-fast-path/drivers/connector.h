/* SPDX-License-Identifier: MIT */
/*
 * connector.h - which processes live: the kernel's process connector (netlink,
 * CONFIG_PROC_EVENTS) reports their forks, programs, user ids and ends, in this order.
 * For drivers whose file events name only a pid.
 *
 * The user of a process is followed from its parent on; /proc is believed only for
 * processes that lived when the connector was opened. So the user of a process is known
 * even if it ended before /proc was read.
 *
 * FORK and EXEC are reported as they are read, EXIT once the files that the process
 * closed are reported: the caller says when. If a program is gone when its EXEC is read,
 * only the driver may know it (SHFS_EVENT_INEXACT).
 */
#pragma once

#include "kmod-fast-path/drivers/driver.h"

#include <uthash.h>

struct shfs_life {
	struct shfs_event_process process;
	uid_t real, effective;
	uint64_t exit_ns;           /* CLOCK_BOOTTIME; 0: it lives */
	uint32_t threads;           /* threads that have not ended */
	bool known;                 /* its user ids are known */
	bool mixed;                 /* a thread had other user ids than its process */
	uint64_t other_until;       /* turn; lately it was not the watched user's */
	bool told;                  /* the watcher knows it */
	uint8_t turns;              /* since its end was reported */
	struct shfs_life *older;    /* the process that had this pid before */
	struct shfs_life *next_end; /* the process that ended next */
	UT_hash_handle hh;
};

struct shfs_connector;

/* Opens the connector; it reports the processes of this user (0: all). -errno; why as of
 * a driver. */
_must_check_ int shfs_connector_open(uid_t uid, struct shfs_connector **out,
                                     struct shfs_buf *why);
void shfs_connector_close(struct shfs_connector *c); /* NULL is fine */

/* Becomes readable when there is something to read. */
int shfs_connector_fd(const struct shfs_connector *c);

/* Reads all messages and reports what began. Without a sink it reports nothing. */
_must_check_ int shfs_connector_read(struct shfs_connector *c, shfs_event_sink sink,
                                     void *arg);

/*
 * A turn reports the ends that were known at the mark, and forgets those of the turn
 * before the last. Call it when the files that were closed before the mark are reported.
 */
void shfs_connector_mark(struct shfs_connector *c);
void shfs_connector_turn(struct shfs_connector *c, shfs_event_sink sink, void *arg);

/*
 * The process that has acted as pid since the turn before the last. NULL: it is not
 * certain that it was the watched user's. sure: no other process has had this pid in this
 * time.
 */
const struct shfs_life *shfs_connector_find(const struct shfs_connector *c, uint32_t pid,
                                            bool *sure);

/* The program that a process executed last, where /proc no longer has it: borrowed; NULL
 * if it is not known. */
typedef const char *shfs_connector_program(void *arg,
                                           const struct shfs_event_process *process);
void shfs_connector_ask(struct shfs_connector *c, shfs_connector_program *program_of,
                        void *arg);

/* Is it a kernel thread, which may act on behalf of another process? */
bool shfs_connector_is_kernel(const struct shfs_connector *c, uint32_t pid);

/* The next sequence number, for all events of one driver. */
uint64_t shfs_connector_sequence(struct shfs_connector *c);
