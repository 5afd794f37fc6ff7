/* SPDX-License-Identifier: MIT */
/*
 * unlock.h - opens remotes: finds the key of an encrypted one, and says what is wrong if
 * there is none. It is looked for in the environment (SHFS_REMOTE_KEY,
 * SHFS_REMOTE_KEY_FILE), then where the user has said, then where keys are by default
 * (key.h). Each of these returns an exit code, or 0.
 */
#pragma once

#include "query/remote/backend.h"
#include "query/remote/place.h"

/* The key, as options of a command say it. */
struct key_options {
	bool encrypt;
	bool makes;                 /* a remote where there is none */
	const char *file, *command; /* or NULL */
};

/* Opens the remote of a place, encrypted if it is known to be. what: as for remote_fail.
 * rate: "500K" bytes for a second, or NULL. */
_must_check_ int remote_connect(const char *what, const struct place *place,
                                const char *rate, struct shfs_remote **out);

/*
 * Goes on with an open remote of which nothing is known yet: looks whether it is
 * encrypted, asks for the key if need be, and fills in place->encryption. If a key is
 * given and the remote is not encrypted, that is an error: nobody can make us trust a
 * remote, or write to it, as it is. If there is no remote and it is to be encrypted, a
 * key is made unless there is one.
 */
_must_check_ int remote_meet(const char *what, struct place *place,
                             const struct key_options *options,
                             struct shfs_remote **remote);
