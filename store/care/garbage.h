/* SPDX-License-Identifier: MIT */
/* garbage.h - finds garbage: objects that no record of the journal names. */
#pragma once

#include "store/objects/collect.h"

struct shfs_garbage {
	struct shfs_store *store;
	bool despite_damage; /* go on though damaged records may have named objects */
};

/* Picks the garbage, for struct shfs_collect; arg: the struct above. -EBADMSG: some of
 * the journal is damaged; -ENOTEMPTY: a repair set some of it aside; -EPROTONOSUPPORT:
 * another version of shfs wrote some. */
_must_check_ int shfs_garbage_pick(void *arg, struct shfs_objects *out);

/* Can all of the journal be read? Errors as above. */
_must_check_ int shfs_journal_is_whole(struct shfs_store *store);
