/* SPDX-License-Identifier: MIT */
/*
 * privilege.h - what root's rights are given up, and when.
 *
 *   begin    nothing but what some driver needs to open, and to become another;
 *            no new programs, no core dumps, no one that looks into this process
 *   serve    of one connection, once its driver is open: nothing but what that driver
 *            needs to go on; the user's file system identity; no file opened to be
 *            written, no sockets, no processes, no way back
 *
 * What is not permitted in the first place (an ordinary user's helper, in tests) is not
 * missed.
 */
#pragma once

#include "kmod-fast-path/helper/peer.h"

_must_check_ int shfs_privilege_begin(void);

_must_check_ int shfs_privilege_serve(const char *driver, const struct shfs_peer *peer);

/* While it is true, not even what serves reads beyond the rights of the peer. */
void shfs_privilege_as_peer(bool on);
