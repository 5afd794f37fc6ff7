/* SPDX-License-Identifier: MIT */
/*
 * sandbox.h - takes from a process that records, or that parses the bytes of strangers,
 * what it never needs once it serves: other programs, the network, other processes,
 * mounts. In the library of daemon.h.
 */
#pragma once

#include "common/util.h"

/* Before there are threads: as root, the right to go beyond quotas, reserved blocks and
 * limits, which would be everybody's who writes through us. */
void shfs_sandbox_drop_resource(void);

enum {
	SHFS_SANDBOX_SOCKETS = 1, /* it goes on to connect and to accept, on this host */
	SHFS_SANDBOX_LOCKS = 2,   /* it goes on to take locks (common/lock.h) */
};

/* For all threads, those that run already too. -errno. */
_must_check_ int shfs_sandbox_enter(unsigned needs);
