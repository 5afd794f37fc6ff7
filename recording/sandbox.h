/* SPDX-License-Identifier: MIT */
/*
 * sandbox.h - a seccomp filter for processes that record, or that parse untrusted bytes.
 * It denies what they never need: other programs, the network, other processes, mounts.
 * In the library of daemon.h.
 */
#pragma once

#include "common/util.h"

/* As root, drops the right to go beyond quotas, reserved blocks and limits, which all
 * users who write through us would have. Called before there are threads. */
void shfs_sandbox_drop_resource(void);

enum {
	SHFS_SANDBOX_SOCKETS = 1, /* connect and accept, on this host */
	SHFS_SANDBOX_LOCKS = 2,   /* take locks (common/lock.h) */
	SHFS_SANDBOX_ACCEPT = 4,  /* accept on a socket that it has */
};

/* Installs the filter for all threads, also those that run already. needs: the above.
 * -errno. */
_must_check_ int shfs_sandbox_enter(unsigned needs);

/*
 * Lets all threads change no file, in whatever way: no call is left that writes, but
 * write and writev to one of these descriptors, none that makes, renames or removes a
 * name or sets an attribute, and none that opens a file for more than reading. openat2,
 * whose flags a filter does not see, is not there at all (ENOSYS). -errno.
 */
_must_check_ int shfs_sandbox_forbid_changes(const int *fds, size_t n);
/* The same for a process that serves a socket: what is sent to sockets, which are no
 * files, is sent. -errno. */
_must_check_ int shfs_sandbox_forbid_changes_of_files(const int *fds, size_t n);
