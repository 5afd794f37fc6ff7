/* SPDX-License-Identifier: MIT */
/*
 * foreground.h - a process that runs a command in its own place: on the same terminal,
 * with the same signals and the same end.
 *
 * The terminal sends its signals to the command as well, which decides what they do; what
 * is sent to this process alone is passed on. Signals that were ignored before (nohup)
 * stay so for both. Only of SIGCHLD that holds for the command alone: a process that
 * ignores it gets no status of its children.
 */
#pragma once

#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>

#define SHFS_FOREGROUND_SIGNALS 5

struct shfs_foreground {
	struct sigaction before[SHFS_FOREGROUND_SIGNALS];
	sigset_t mask;
};

/* Before the fork: signals wait until shfs_foreground_wait. */
void shfs_foreground_enter(struct shfs_foreground *foreground);
/* In the child: all is as before; or all but that the signals go on waiting, for a child
 * that enters one itself. */
void shfs_foreground_leave(const struct shfs_foreground *foreground);
void shfs_foreground_hold(const struct shfs_foreground *foreground);
/* In the parent: waits for the child (usage may be NULL), and for all others that end
 * before. A pid below 0: there is none. */
void shfs_foreground_wait(const struct shfs_foreground *foreground, pid_t pid,
                          int *status, struct rusage *usage);

/*
 * Forks a keeper, which prepares the place of the command and runs it: keeper does not
 * return, and writes a byte to `began` once the command runs. Waits for its end. 0: the
 * command began, or a signal ended the keeper; *status: as of waitpid(2). Else an exit
 * code, after a message.
 */
int shfs_foreground_keep(void (*keeper)(const void *arg,
                                        const struct shfs_foreground *caller, int began),
                         const void *arg, int *status);

/* Ends by the signal that ended the child, if that is possible; else returns the exit
 * status, as a shell has it. */
int shfs_foreground_end(int status);
