/* SPDX-License-Identifier: MIT */
/*
 * baseline.h - what a project's scripts and configuration hold when its recording begins.
 *
 * Without a FUSE layer nobody can hold up the first change to a file until what it held
 * is read. So those that the rules name to be kept when they are read (SHFS_RULE_ARCHIVE_
 * READ) are archived beforehand, by a thread of the lowest priority, and recorded as
 * PREIMAGE of no process. Files of others, which we may not read, are passed over.
 */
#pragma once

#include "kmod-fast-path/recorder/recorder.h"

struct shfs_baseline;

/* Begins. The recorder must outlive it. -errno. */
_must_check_ int shfs_baseline_begin(struct shfs_recorder *recorder,
                                     struct shfs_baseline **out);
/* Ends it, wherever it is. NULL is fine. */
void shfs_baseline_end(struct shfs_baseline *baseline);
