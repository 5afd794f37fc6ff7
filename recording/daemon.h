/* SPDX-License-Identifier: MIT */
/*
 * daemon.h - what the programs that record have in common as programs: how they begin,
 * what they say then, how they leave the terminal. A library of its own, as it prints,
 * forks and sets signals; for the main of a program, before it has threads.
 *
 * Functions that fail have said so on standard error, in one line, and return an exit
 * code of exit.h; 0: all is well.
 */
#pragma once

#include "common/config.h"
#include "common/exit.h"
#include "store/store.h"

/* Turns on the areas of SHFS_DEBUG (common/debug.h). */
_must_check_ int shfs_daemon_choose_debug(void);

/* asked: on standard output, and -1 is returned; else as an error. */
int shfs_daemon_show_usage(const char *usage, bool asked);

/* Says it, and returns the code. */
_printf_(2, 3) int shfs_daemon_fail(int code, const char *fmt, ...);
int shfs_daemon_fail_path(int code, const char *path, const char *what);

/* The directory to be recorded: *root is its real path, to be freed; *fd, to be closed,
 * is opened with mode (O_RDONLY or O_PATH) besides. done: "mounted", say, which "/" is
 * not. */
_must_check_ int shfs_daemon_open_root(const char *dir, int mode, const char *done,
                                       char **root, int *fd);

/* What others wrote passes through the memory: from here on no core is dumped, and no
 * debugger is let in. */
void shfs_daemon_hide(void);

/* It runs for weeks: the heap is not to keep the most that contents ever took. */
void shfs_daemon_bound_heap(void);

/* The store of this user, made if there is none. root: what is to be recorded. override:
 * --store; NULL. *out is to be closed, also after a failure; NULL: it was not opened. */
_must_check_ int shfs_daemon_open_store(const char *override, const char *root,
                                        struct shfs_store **out);

/* *out is to be freed, also after a failure. A broken configuration is told, and what
 * could be read of it holds; one that was asked for (override: --config) is a failure. */
_must_check_ int shfs_daemon_read_config(const char *override, struct shfs_config *out);

/* Returns in a child with a session of its own. Its parent waits until it is ready, or
 * has ended, and ends with its code. */
_must_check_ int shfs_daemon_fork(void);
/* Tells the parent how it went, once; without one, does nothing. */
void shfs_daemon_tell(int code);
/* Somebody else has told it. */
void shfs_daemon_told(void);
/* Standard input, output and error are /dev/null from now on. */
void shfs_daemon_leave_terminal(void);

/* SIGTERM, SIGINT and SIGHUP come by this signalfd from now on, which is to be closed;
 * what a full log or a limit would raise is an error of the call instead. -errno. */
_must_check_ int shfs_daemon_signals(void);
