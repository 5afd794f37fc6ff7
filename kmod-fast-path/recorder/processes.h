/* SPDX-License-Identifier: MIT */
/*
 * processes.h - the user's processes, from their events: the parent of each, and the
 * program that it runs. A process that is asked for gets a record, after its ancestors,
 * and another one once it has executed another program.
 *
 * Events come late: a process may have ended, or executed another program, when its
 * events are read. So a process is described by its FORK and EXEC, and by /proc at the
 * time they were read; a process that is older than the recording by /proc alone. Its
 * parent is the process that forked it, even if that has ended since. Behind its record
 * come the files outside that it names (outside.h), and before it the other stages of its
 * pipeline, which may use no file of the directory.
 *
 * One thread.
 */
#pragma once

#include "common/event.h"
#include "store/capture/capture.h"

struct shfs_processes;

/* Starts the thread of software.h. capture, config, and root, the directory that is
 * recorded, are borrowed. above: of interest is what this process makes from now on, and
 * all that descends from that; 0: all processes. -ESRCH: it is gone. */
_must_check_ int shfs_processes_new(struct shfs_capture *capture,
                                    const struct shfs_config *config, const char *root,
                                    int root_fd, pid_t above,
                                    struct shfs_processes **out);
void shfs_processes_free(struct shfs_processes *processes); /* NULL is fine */

/* Takes in a FORK, EXEC or EXIT. */
void shfs_processes_note(struct shfs_processes *processes,
                         const struct shfs_event *event);

/* Does the process descend from the one above? True of all, where there is none above. */
bool shfs_processes_is_below(struct shfs_processes *processes,
                             const struct shfs_event_process *who);

/* Looks for processes that descend from the one above, of which no event came: forks were
 * lost. Those that have ended meanwhile are not found. */
void shfs_processes_look_below(struct shfs_processes *processes);

/* Do paths mean to the process what they mean here? Of one that has ended, what they mean
 * to the next one above that lives. */
bool shfs_processes_sees_root(struct shfs_processes *processes,
                              const struct shfs_event_process *who);

/* Does one live that descends from the one above? */
bool shfs_processes_any_below(struct shfs_processes *processes);

/* Is it a daemon of shfs that reads the files of others to record them? */
bool shfs_processes_is_shfs(struct shfs_processes *processes,
                            const struct shfs_event_process *who);

/* Are its reads not recorded ([record] ignore-reads)? */
bool shfs_processes_scans(struct shfs_processes *processes,
                          const struct shfs_event_process *who);

/* Returns the sequence number of the process's record; 0 if it is unknown. */
uint64_t shfs_processes_record(struct shfs_processes *processes,
                               const struct shfs_event_process *who);
