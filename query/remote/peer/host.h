/* SPDX-License-Identifier: MIT */
/*
 * host.h - the host that a fetch asks: how it is named, and how it is reached again for
 * contents that stay there (the file remote/from@HASH/host).
 */
#pragma once

#include "query/remote/backend.h"
#include "query/remote/place.h"
#include "query/remote/ssh/url.h"

/* HOST, HOST:DIR, ssh://HOST or ssh://HOST/DIR; the directory may be ".". -EINVAL: it is
 * none of these. */
_must_check_ int host_parse(const char *text, struct ssh_url *out);

/* Notes the host of a place, as it was named, and what runs shfs there; durable with what
 * is written to the place next. */
_must_check_ int host_note(const struct place *place, const char *host,
                           const char *program);
/* Reads both: malloc'ed. -ENOENT: the place is no host's. */
_must_check_ int host_read(const struct place *place, char **host, char **program);

/* Connects to the store at url, which program serves there. Errors and *why as of
 * peer_open. */
_must_check_ int host_open(const struct ssh_url *url, const char *program,
                           struct shfs_buf *why, struct shfs_remote **out);
