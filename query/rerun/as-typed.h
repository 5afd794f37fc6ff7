/* SPDX-License-Identifier: MIT */
/*
 * as-typed.h - runs one command that is recorded as if it had been typed.
 */
#pragma once

#include "query/rerun/hook-log.h"

/* What to do in the child before it executes the command. May be NULL. */
typedef void (*shfs_child_fn)(void *arg);

/* Runs it in the foreground; log may record nothing. Returns its status as of waitpid(2);
 * as of a shell if it could not be started, after a message. */
int shfs_run_as_typed(struct shfs_hook_log *log, char *const *argv, shfs_child_fn prepare,
                      void *arg);
