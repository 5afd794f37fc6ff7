/* SPDX-License-Identifier: MIT */
/* messages.h - what is said when something of a remote fails. Each returns an exit code.
 */
#pragma once

#include "query/remote/backend.h"
#include "query/remote/place.h"

/* Says that a remote failed. what: "push to", "pull from". remote: or NULL. */
int remote_fail(const char *what, const struct place *place,
                const struct shfs_remote *remote, int error);

/* Opens the place of that name (NULL: the only one), after a message if that fails. 0, or
 * an exit code. */
_must_check_ int remote_choose(struct shfs_store *store, const char *name,
                               struct place *out);
/* Takes the lock of all places of the store; the same. *fd holds it. */
_must_check_ int remote_lock(const struct shfs_store *store, int *fd);
