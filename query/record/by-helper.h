/* SPDX-License-Identifier: MIT */
/*
 * by-helper.h - runs a command in the caller's own namespaces, and has shfs-watch record,
 * with root's helper, what its processes use anywhere: where user namespaces are
 * forbidden. Nothing stands between the command and its files then.
 */
#pragma once

#include "query/record/whole.h"

/* As shfs_whole_run; mounted also names directories that are recorded without a mount.
 * bundle is not for this. Waits until all is recorded that the command has done. */
_must_check_ int shfs_whole_run_by_helper(const struct shfs_whole *whole, int *status);

/* Does such a recording go on for this process already? */
bool shfs_whole_is_by_helper(void);
