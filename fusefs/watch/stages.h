/* SPDX-License-Identifier: MIT */
/*
 * stages.h - looks at the other stages of a pipeline. In "zcat ~/a.gz | sort > out" only
 * sort uses a file of the mount; what zcat does is seen by nobody, but goes into out. So
 * when a process with a pipe as its standard input comes into sight, the other children
 * of its parent that are in its process group are looked at: soon, and some times more,
 * as the shell may not have started them yet. A stage that has ended by then is not seen.
 */
#pragma once

#include "common/util.h"

#include <stdint.h>

struct shfs_stages;

/* is_last: the process is not looked at again. */
typedef void shfs_stages_look(void *arg, uint32_t pid, bool is_last);

/* Starts the thread. look is called in it for each process to look at. */
_must_check_ int shfs_stages_new(shfs_stages_look *look, void *arg,
                                 struct shfs_stages **out);
/* Ends the thread: look is not called any more. NULL is fine. */
void shfs_stages_end(struct shfs_stages *stages);
void shfs_stages_free(struct shfs_stages *stages); /* and ends it; NULL is fine */

/* Has the processes of the group looked at that are children of parent. Thread-safe; does
 * not wait. */
void shfs_stages_expect(struct shfs_stages *stages, uint32_t parent, uint32_t group);
