/* SPDX-License-Identifier: MIT */
/*
 * caller.h - who sends a request: a thread's id, made the record of its process.
 *
 * The kernel tells the id of the calling thread, and the caller is blocked in its request
 * meanwhile, so /proc is true. Each process is recorded once, after its ancestors, and
 * again when it executes another program. What is known is checked at each use through
 * an fd of /proc/TID, which never means another process: a reused pid is a new one.
 * Thread-safe.
 */
#pragma once

#include "store/capture.h"

struct shfs_callers;

_must_check_ int shfs_callers_new(struct shfs_capture *capture,
                                  struct shfs_callers **out);
void shfs_callers_free(struct shfs_callers *callers);

/* The sequence number of the PROCESS record; 0 where the kernel did not tell (a caller in
 * another pid namespace), or it is gone. */
uint64_t shfs_caller_process(struct shfs_callers *callers, uint32_t tid);
