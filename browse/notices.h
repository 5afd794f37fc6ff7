/* SPDX-License-Identifier: MIT */
/*
 * notices.h - tells the kernel that what it keeps of files is not valid any more.
 *
 * The kernel may let a notice wait until it has the answer to a request for the same
 * file. So a thread of its own gives them.
 */
#pragma once

#include "browse/nodes.h"

#include <fuse3/fuse_lowlevel.h>

struct shfs_notices;

_must_check_ int shfs_notices_start(struct fuse_session *session,
                                    struct shfs_notices **out);
/* Call when the session has ended, so that no notice waits. */
void shfs_notices_end(struct shfs_notices *notices);

/* Has the kernel drop the contents of all files that it knows. -ENOMEM. */
_must_check_ int shfs_notices_add(struct shfs_notices *notices,
                                  const struct shfs_nodes *nodes);
