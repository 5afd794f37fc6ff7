/* SPDX-License-Identifier: MIT */
/*
 * daemon.h - the start of the programs that record: messages, fork, leaving the terminal.
 * A library of its own, as it prints, forks and sets signals; for the main of a program,
 * before it has threads.
 *
 * A function that fails has printed one line on standard error, and returns an exit code
 * of exit.h; 0: success.
 */
#pragma once

#include "common/config.h"
#include "common/exit.h"
#include "store/store.h"

/* Turns on the areas of SHFS_DEBUG (common/debug.h). */
_must_check_ int shfs_daemon_choose_debug(void);

/* Prints the usage: on standard output if it was asked for, and returns -1; else as an
 * error, and returns its code. */
int shfs_daemon_show_usage(const char *usage, bool asked);

/* Prints the message, and returns the code. */
_printf_(2, 3) int shfs_daemon_fail(int code, const char *fmt, ...);
int shfs_daemon_fail_path(int code, const char *path, const char *what);

/* Opens the directory to be recorded: *root is its real path, malloc'ed; *fd is opened
 * with mode (O_RDONLY or O_PATH), for the caller to close. done: "mounted", say, for the
 * message that "/" cannot be; NULL: it can. */
_must_check_ int shfs_daemon_open_root(const char *dir, int mode, const char *done,
                                       char **root, int *fd);

/* Prevents core dumps and debuggers from here on, as contents of other users pass through
 * the memory. */
void shfs_daemon_hide(void);

/* Bounds the heap, which otherwise would keep the most memory that contents ever took. */
void shfs_daemon_bound_heap(void);

/* Opens the store of this user, made if there is none. root: the directory to be
 * recorded. override: --store, or NULL. The caller closes *out, also after a failure;
 * NULL: it was not opened. */
_must_check_ int shfs_daemon_open_store(const char *override, const char *root,
                                        struct shfs_store **out);

/* Reads the configuration. The caller frees *out, also after a failure. An invalid
 * configuration is reported, and used as far as it could be read; but one that was asked
 * for (override: --config) is a failure. */
_must_check_ int shfs_daemon_read_config(const char *override, struct shfs_config *out);

/* Returns in a child with a session of its own. Its parent waits until it is ready, or
 * has ended, and ends with its code. */
_must_check_ int shfs_daemon_fork(void);
/* Reports the exit code to the parent, once; does nothing without a parent. */
void shfs_daemon_tell(int code);
/* Notes that another process has reported to the parent. */
void shfs_daemon_told(void);
/* Makes standard input, output and error /dev/null. */
void shfs_daemon_leave_terminal(void);

/* Returns a signalfd for SIGTERM, SIGINT and SIGHUP, which the caller closes. Signals of
 * a full log or a limit are ignored, so that the call fails instead. -errno. */
_must_check_ int shfs_daemon_signals(void);
