/* SPDX-License-Identifier: MIT */
/*
 * encrypted.h - a backend around another one, which has the bytes encrypted there
 * (docs/remotes.md, Encryption). What is got is what was put under that name on that
 * remote by somebody who has the key; anything else is -EBADMSG.
 *
 * The file shfs-remote is the only thing that is there as it is: the label. It tells
 * that the remote is encrypted, which one it is, and whether a key is its key.
 */
#pragma once

#include "query/remote/backend.h"
#include "query/remote/encryption/key.h"

#define LABEL_MAX 256 /* bytes, with the NUL */

/* Is the remote of this label encrypted? */
bool label_is_encrypted(const char *label);
/* Makes the label of a new remote. */
_must_check_ int label_make(const struct remote_key *key, char out[static LABEL_MAX]);
/* Is it the key of that remote? -EKEYREJECTED: no, or the label is damaged; -EBADMSG: it
 * is surely damaged; -EPROTONOSUPPORT: a newer shfs wrote it. */
_must_check_ int label_check(const struct remote_key *key, const char *label);

/* Puts the encryption around a remote, which *out owns then. The key is checked as above.
 * Where that label is there, a get of it has the text of a remote that is not encrypted;
 * -EKEYREVOKED: there is the label of another one. On an error the remote is the
 * caller's still. */
_must_check_ int remote_encrypt(struct shfs_remote *inner, const struct remote_key *key,
                                const char *label, struct shfs_remote **out);
