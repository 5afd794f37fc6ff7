/* SPDX-License-Identifier: MIT */
/*
 * sandbox.h - takes from this process what it never needs once it serves: other programs,
 * the network, other processes, mounts.
 */
#pragma once

#include "common/util.h"

/* For all threads, those that run already too. -errno. */
_must_check_ int shfs_sandbox_enter(void);
