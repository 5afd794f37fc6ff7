/* SPDX-License-Identifier: MIT */
/*
 * argv.h - reads the arguments of processes and the files outside that these name, and of
 * their environments the command that they name and the selected variables, in threads of
 * its own.
 *
 * A read of /proc/PID/cmdline or environ waits for the memory map of that process; its
 * threads may hold it until we have answered their page faults on our files. So threads
 * that answer requests never read it themselves: they ask here, and wait only for a
 * moment. A process that holds its map for longer blocks one of the few threads here;
 * when all are blocked, arguments are not recorded, and nobody waits.
 */
#pragma once

#include "common/buf.h"
#include "recording/outside.h"

struct shfs_argv_readers;
struct shfs_argv; /* of one process, being read */

/* Starts the threads. view: NULL: no files outside; environment: [record] environment of
 * the configuration; both borrowed. */
_must_check_ int shfs_argv_readers_new(struct shfs_outside_view *view,
                                       const char *environment,
                                       struct shfs_argv_readers **out);
/* Ends the threads, except stuck ones: false, and these use the view if they go on. All
 * questions must have been taken. NULL is fine. */
bool shfs_argv_readers_free(struct shfs_argv_readers *readers);

/* The texts of a process; empty if they could not be read. */
struct shfs_argv_text {
	struct shfs_buf argv, marker, environment; /* as in a PROCESS record */
	int hidden;                                /* as of shfs_environ_hidden */
	struct shfs_outside outside;
};
void shfs_argv_text_free(struct shfs_argv_text *text);

/* Begins to read the texts of the process of shfs_proc_open, which has this stat. NULL:
 * they cannot be read. */
struct shfs_argv *shfs_argv_ask(struct shfs_argv_readers *readers, int procfd,
                                const struct shfs_proc_stat *stat);

/* Waits until the texts have been read, at most until until_ns (CLOCK_MONOTONIC), and
 * moves them to out. NULL is fine. */
void shfs_argv_take(struct shfs_argv_readers *readers, struct shfs_argv *argv,
                    int64_t until_ns, struct shfs_argv_text *out);
