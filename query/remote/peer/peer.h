/* SPDX-License-Identifier: MIT */
/* peer.h - the store of another host, as a remote that can only be read (serve.h). */
#pragma once

#include "query/remote/backend.h"
#include "query/remote/ssh/url.h"

/* Runs a command on the host, which serves a store there. *why, if it is not NULL, gets
 * what is to be said of an error; the caller frees it. -ENOLINK; -EPROTO;
 * -EPROTONOSUPPORT: a newer shfs answers. */
_must_check_ int peer_open(const struct ssh_url *host, const char *command,
                           struct shfs_buf *why, struct shfs_remote **out);
