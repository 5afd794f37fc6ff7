/* SPDX-License-Identifier: MIT */
/*
 * processes.h - the user's processes, as events tell them: who made whom, and which
 * program each runs. Each that is asked for gets a record, after its ancestors, and
 * another one once it has executed another program.
 *
 * Events come late: a process may have ended, or gone on to another program, when its own
 * are read. So what is told of a process is what its FORK and EXEC said, and what /proc
 * said when those were read. Of one that is older than the watch, /proc alone tells. A
 * parent is who forked, also where that has ended since.
 *
 * One thread.
 */
#pragma once

#include "common/event.h"
#include "store/capture/capture.h"

struct shfs_processes;

/* -ENOMEM. capture is borrowed. */
_must_check_ int shfs_processes_new(struct shfs_capture *capture,
                                    struct shfs_processes **out);
void shfs_processes_free(struct shfs_processes *processes); /* NULL is fine */

/* Takes in a FORK, EXEC or EXIT. */
void shfs_processes_note(struct shfs_processes *processes,
                         const struct shfs_event *event);

/* Is it of the daemons that read what others left, to record it? */
bool shfs_processes_is_shfs(struct shfs_processes *processes,
                            const struct shfs_event_process *who);

/* The sequence number of the record of who did something; 0 where nobody knows. */
uint64_t shfs_processes_record(struct shfs_processes *processes,
                               const struct shfs_event_process *who);
