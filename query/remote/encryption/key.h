/* SPDX-License-Identifier: MIT */
/*
 * key.h - the key of an encrypted remote, and the places where users keep one. It lies in
 * memory that is not swapped out, nor in a core dump, and that is wiped at the end. One
 * thread.
 *
 * As text a key is "shfs-key-1:" and 64 hexadecimal digits; dashes between them do not
 * count. Lines of a file that begin with "#" do not, either.
 */
#pragma once

#include "common/util.h"

#define KEY_BYTES 32

struct remote_key {
	unsigned char bytes[KEY_BYTES];
};

/* All of these return a key that the caller frees. -EINVAL: that is no key. */

_must_check_ int remote_key_make(struct remote_key **out);
_must_check_ int remote_key_parse(const char *text, size_t len, struct remote_key **out);
/* -ENOENT. */
_must_check_ int remote_key_read(const char *path, struct remote_key **out);
/* Runs a command of the shell, which prints the key. -ECHILD: it failed. */
_must_check_ int remote_key_run(const char *command, struct remote_key **out);
/* Asks at the terminal, without an echo. -ENOTTY: there is none; -ECANCELED. */
_must_check_ int remote_key_ask(const char *prompt, struct remote_key **out);

void remote_key_free(struct remote_key *key);
static inline void remote_key_freep(struct remote_key **key)
{
	remote_key_free(*key);
}
#define _cleanup_key_ _cleanup_(remote_key_freep)

/* Writes a new file, durably, that the user alone may read; its directories are made.
 * -EEXIST. */
_must_check_ int remote_key_write(const struct remote_key *key, const char *path);

/* Where the key of a remote of that name is by default: keys/NAME.key beside the
 * configuration. Freed by the caller; NULL: no memory. */
char *remote_key_path(const char *name);
