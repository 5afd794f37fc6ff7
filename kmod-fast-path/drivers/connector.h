/* SPDX-License-Identifier: MIT */
/*
 * connector.h - who lives: all processes of this machine, as the kernel's process
 * connector (netlink, CONFIG_PROC_EVENTS) tells of their forks, programs, user ids and
 * ends, in the order of these. For drivers whose file events name no more than a pid.
 *
 * The users of a process are followed from the process that it was forked by on: /proc is
 * believed for those alone that lived when this was opened. So it is also known whose a
 * process was that is gone before anybody looked.
 *
 * FORK and EXEC are told as they are read, EXIT when the files that the process closed
 * are through: the caller says when. Of a program that is gone when its EXEC is read,
 * no more is known than what the driver knows of it (SHFS_EVENT_INEXACT).
 */
#pragma once

#include "kmod-fast-path/drivers/driver.h"

#include <uthash.h>

struct shfs_life {
	struct shfs_event_process process;
	uid_t real, effective;
	uint64_t exit_ns;           /* CLOCK_BOOTTIME; 0: it lives */
	uint32_t threads;           /* that have not ended */
	bool known;                 /* the ids of users are */
	bool mixed;                 /* a thread has had other users than its process */
	uint64_t other_until;       /* turn; lately it was not the watched user's */
	bool told;                  /* the watcher knows it */
	uint8_t turns;              /* since its end was told */
	struct shfs_life *older;    /* has had this pid before */
	struct shfs_life *next_end; /* ended after this one */
	UT_hash_handle hh;
};

struct shfs_connector;

/* The processes of this user are told (0: all). -errno, and why as of a driver. */
_must_check_ int shfs_connector_open(uid_t uid, struct shfs_connector **out,
                                     struct shfs_buf *why);
void shfs_connector_close(struct shfs_connector *c); /* NULL is fine */

/* Becomes readable when there is something to read. */
int shfs_connector_fd(const struct shfs_connector *c);

/* Reads all that there is, and tells what began; no sink: tells nothing. */
_must_check_ int shfs_connector_read(struct shfs_connector *c, shfs_event_sink sink,
                                     void *arg);

/*
 * A turn tells the ends that were known at the mark, and forgets those of the turn before
 * the last: to be called when the files that had been closed before the mark are told.
 */
void shfs_connector_mark(struct shfs_connector *c);
void shfs_connector_turn(struct shfs_connector *c, shfs_event_sink sink, void *arg);

/*
 * Who has done something as pid since the turn before the last. NULL: it is not certain
 * that the watched user has. sure: no other process has had this pid in this time.
 */
const struct shfs_life *shfs_connector_find(const struct shfs_connector *c, uint32_t pid,
                                            bool *sure);

/* What this process executed last, where /proc does not tell it any more: borrowed; NULL
 * where that is not known. */
typedef const char *shfs_connector_program(void *arg,
                                           const struct shfs_event_process *process);
void shfs_connector_ask(struct shfs_connector *c, shfs_connector_program *program_of,
                        void *arg);

/* Is it a thread of the kernel, that does what somebody has left to it? */
bool shfs_connector_is_kernel(const struct shfs_connector *c, uint32_t pid);

/* For all events of one driver: the next number. */
uint64_t shfs_connector_sequence(struct shfs_connector *c);
