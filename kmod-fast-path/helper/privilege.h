/* SPDX-License-Identifier: MIT */
/*
 * privilege.h - which rights of root are given up, and when.
 *
 *   begin    keeps only what some driver needs to open, and to become another user;
 *            no new programs, no core dumps, no tracing of this process
 *   serve    of one connection, once its driver is open: keeps only what that driver
 *            needs to go on; has the user's file system identity; opens no file for
 *            writing, makes no sockets and no processes; there is no way back
 *
 * Rights that were not there in the first place (an ordinary user's helper, in tests) are
 * not missed.
 */
#pragma once

#include "kmod-fast-path/helper/peer.h"

_must_check_ int shfs_privilege_begin(void);

_must_check_ int shfs_privilege_serve(const char *driver, const struct shfs_peer *peer);

/* While it is on, reads have only the rights of the peer. */
void shfs_privilege_as_peer(bool on);
