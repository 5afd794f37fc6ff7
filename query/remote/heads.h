/* SPDX-License-Identifier: MIT */
/* heads.h - which stores have pushed to a remote, and what; nothing of it is trusted. */
#pragma once

#include "query/remote/backend.h"
#include "query/remote/manifest.h"

/* A store on a remote, with its newest head. */
struct head_ref {
	char store_id[STORE_ID_SIZE];
	uint64_t generation;
};

struct heads {
	struct head_ref *list; /* by store_id */
	size_t n, cap;
	/* Heads that newer ones have replaced. */
	struct head_ref *old;
	size_t n_old, cap_old;
};

void heads_free(struct heads *heads);
#define _cleanup_heads_ _cleanup_(heads_free)

/* Is there a remote of this format? -ENOENT: there is nothing; -ENOTEMPTY: there is
 * something else; -EPROTONOSUPPORT: a newer shfs made it; -ENOKEY: it is encrypted, and
 * that was not known; -EKEYREVOKED: it is not the encrypted one that is known. */
_must_check_ int remote_look(struct shfs_remote *remote);
/* Makes one. Nothing is there. */
_must_check_ int remote_make(struct shfs_remote *remote);

_must_check_ int heads_find(struct shfs_remote *remote, struct heads *out);
/* 0: the store has none. */
uint64_t heads_newest(const struct heads *heads, const char *store_id);

/* Gets a head, whose lists are not read yet. sha, if not NULL: of its text. -ENOENT;
 * -EBADMSG: it is damaged, or another one's. */
_must_check_ int head_fetch(struct shfs_remote *remote, const char *store_id,
                            uint64_t generation, char *sha, struct manifest *out);
/* Reads the lists of a head. known: lists that it has too are not fetched; or NULL.
 * damaged: counts the lists that cannot be read, which are left out; NULL: that is an
 * error; -ENODATA: a list is missing. */
_must_check_ int head_fetch_lists(struct shfs_remote *remote,
                                  const struct manifest *known, struct manifest *m,
                                  uint64_t *damaged);

/* Gets bytes of a blob, and checks that they have the hash. -EBADMSG: the blob is
 * damaged, or too short; -ENOENT: it is missing. */
_must_check_ int blob_fetch(struct shfs_remote *remote, const char *store_id,
                            const char *blob, uint32_t at, uint32_t bytes,
                            const char *sha, struct shfs_buf *out);
