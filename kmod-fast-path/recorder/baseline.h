/* SPDX-License-Identifier: MIT */
/*
 * baseline.h - archives the scripts and configuration of a project when its recording
 * begins.
 *
 * Without a FUSE layer no process can be held up at its first change to a file until the
 * old content is read. So a thread of the lowest priority archives beforehand the files
 * that the rules keep when they are read (SHFS_RULE_ARCHIVE_READ), and records them as
 * PREIMAGE of no process. Files that this user cannot read are left out.
 */
#pragma once

#include "kmod-fast-path/recorder/recorder.h"

struct shfs_baseline;

/* Begins the baseline. The recorder must outlive it. -errno. */
_must_check_ int shfs_baseline_begin(struct shfs_recorder *recorder,
                                     struct shfs_baseline **out);
/* Ends the baseline, wherever it is. NULL is fine. */
void shfs_baseline_end(struct shfs_baseline *baseline);
