/* SPDX-License-Identifier: MIT */
/*
 * software.h - records which software programs are: PROGRAM records, made in a thread of
 * its own, which reads files that requests must not wait for. It has the lowest priority
 * and begins half a second after the first of them was executed, or at once for a sync.
 *
 * Each program that a process executes is looked at once, and again when its file has
 * changed. If it had changed again before it could be looked at, nothing is recorded.
 * For an interpreter the script is looked at, too: a package may have that.
 *
 * A process of R (libraries.h) is looked at again and again while it lives, at least
 * every 16 seconds: each package of which it has loaded code is recorded for it, also if
 * it is recorded for others. What it loads just before it ends is not seen.
 *
 * A program of the user's own, which lies outside of the recorded directory and belongs
 * to no package, is recorded as a file that each process which executes it names
 * (outside.h).
 */
#pragma once

#include "recording/local.h"
#include "recording/package.h"
#include "store/capture/capture.h"

struct shfs_software;

/* Starts the thread (so after a fork into the background). capture and what reach names
 * are borrowed. */
_must_check_ int shfs_software_new(struct shfs_capture *capture,
                                   const struct shfs_reach *reach,
                                   struct shfs_software **out);
/* Records what was noted, for a second at most, and ends the thread, before the capture
 * is closed. What is noted afterwards is not recorded. */
void shfs_software_end(struct shfs_software *software);  /* NULL is fine, also below */
void shfs_software_free(struct shfs_software *software); /* and ends it */

/* Notes the program of a PROCESS record that was emitted. Does not wait. */
void shfs_software_note(struct shfs_software *software, const struct shfs_record *rec);

/* Waits until the programs noted before have been looked at, until until_ns
 * (CLOCK_MONOTONIC) at most. */
void shfs_software_settle(struct shfs_software *software, int64_t until_ns);
