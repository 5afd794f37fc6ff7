/* SPDX-License-Identifier: MIT */
/*
 * faults.h - a backend around another one, which has the faults that remotes have: for
 * tests, and in the developer build alone (SHFS_ASSERTS). SHFS_REMOTE_FAULTS is a list of
 *
 *     kill=N    this process is killed before its Nth request; kill-after=N: behind it
 *     fail=N    the Nth request fails (EIO), and all after it with fail-from=N
 *     flip=N    the Nth get has a flipped bit; flip-all: each get
 *     cut=N     the Nth get lacks its last byte
 *     gone=N    the Nth get finds nothing
 *     full=N    puts fail (ENOSPC) after N bytes
 *     slow=MS   each request takes so many milliseconds
 *     late      a listing of heads lacks the newest one
 */
#pragma once

#include "query/remote/backend.h"

/* *out: the remote, or one around it, which owns it. On an error it is closed. */
_must_check_ int remote_faults_wrap(struct shfs_remote *remote, struct shfs_remote **out);
