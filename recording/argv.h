/* SPDX-License-Identifier: MIT */
/*
 * argv.h - the arguments of processes, and the command that their environment names, read
 * by threads that hold nothing.
 *
 * Whoever reads /proc/PID/cmdline or environ waits for the memory map of that process;
 * its threads may keep it until their page faults on our files have been answered. So
 * those who answer never read it themselves: they ask here, and wait for a moment only. A
 * process that keeps its map for longer costs one of the few threads until it lets go;
 * when there are none left, nobody's arguments are known, and nobody waits.
 */
#pragma once

#include "common/buf.h"

struct shfs_argv_readers;
struct shfs_argv; /* of one process, being read */

/* Starts the threads. */
_must_check_ int shfs_argv_readers_new(struct shfs_argv_readers **out);
/* Everything asked for must have been taken. Leaves threads behind that are stuck. NULL
 * is fine. */
void shfs_argv_readers_free(struct shfs_argv_readers *readers);

/* What is read: empty where it could not be. */
struct shfs_argv_text {
	struct shfs_buf argv, marker; /* as in a PROCESS record */
	int hidden;                   /* as of shfs_environ_hidden */
};
void shfs_argv_text_free(struct shfs_argv_text *text);

/* Begins to read that of the process of shfs_proc_open. NULL: they are not to be had. */
struct shfs_argv *shfs_argv_ask(struct shfs_argv_readers *readers, int procfd);

/* Waits until it has been read, at most until then (CLOCK_MONOTONIC), and moves it to
 * out. NULL is fine. */
void shfs_argv_take(struct shfs_argv_readers *readers, struct shfs_argv *argv,
                    int64_t until_ns, struct shfs_argv_text *out);
