/* SPDX-License-Identifier: MIT */
/*
 * environment.h - selects the variables of a process's environment that are recorded:
 * those that change what programs do with the same arguments and files.
 *
 * docs/config.md, [record], has the list. Secrets are taken out by the capture.
 */
#pragma once

#include "common/buf.h"

/* Most bytes that are selected. A value beyond them becomes SHFS_ENVIRONMENT_CUT. */
#define SHFS_ENVIRONMENT_MAX (16u << 10)
#define SHFS_ENVIRONMENT_CUT "[cut]"

/*
 * Appends the selected variables of environ (variables, each ended by a NUL) as in a
 * PROCESS record: never nothing. patterns: [record] environment of the configuration,
 * which comes behind the built-in list. Never LC_SHFS (store/journal/origin.h). -ENOMEM.
 */
_must_check_ int shfs_environment_select(struct shfs_bytes environ, const char *patterns,
                                         struct shfs_buf *out);

/* Appends what an environment says of who runs the commands in it, each with a blank
 * before it: " job slurm 12", " agent claude"; nothing if it says nothing of that. */
void shfs_environment_marks(struct shfs_bytes environ, struct shfs_buf *out);

/*
 * Reads the environment that the process of shfs_proc_open had when it executed its
 * program. Appends its marker (shfs_environ_marker, its origin, and the marks), and the
 * selected variables; *hidden as of shfs_environ_hidden. Waits as shfs_proc_cmdline does.
 * An error: it cannot be read, *hidden is SHFS_HIDDEN_UNSAID, and nothing was appended.
 */
_must_check_ int shfs_environment_read(int procfd, const char *patterns,
                                       struct shfs_buf *marker, int *hidden,
                                       struct shfs_buf *selected);
