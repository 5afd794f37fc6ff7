/* SPDX-License-Identifier: MIT */
/*
 * watches.h - recordings without a mount: how they are found and asked.
 *
 * Each listens on a socket whose name, in the abstract namespace (unix(7)), is made of
 * the user and of the device and inode number of its directory: so of two that would
 * record one directory, one learns of the other, and the name is gone with its process.
 * All of them are listed by /proc/net/unix (so: those of the same network namespace).
 *
 * Asking: a packet with a word, answered by a packet:
 *   root     the path of the directory
 *   status   lines key=value, as user.shfs.status of a mount
 *   sync     "ok" once all that happened before is durable; else the number of an errno
 *   seal     the same, and the answer is the name of the segment that was begun then
 *   end      "ok"; then it ends, and closes the connection when all is durable
 */
#pragma once

#include "common/buf.h"

#include <sys/types.h>

/* Where the helper listens (kmod-fast-path/protocol/protocol.h); SHFS_HELPER in the
 * environment says otherwise. */
#define SHFS_HELPER_SOCKET "/run/shfs/helper.sock"

#define SHFS_WATCH_ANSWER_MAX 65536
#define SHFS_WATCH_WORD_MAX   16

struct shfs_watch_name {
	dev_t dev;
	ino_t ino;
};

/* Takes the name of the directory behind root_fd: a socket to accept from. -EADDRINUSE:
 * it is recorded already. */
_must_check_ int shfs_watches_listen(int root_fd);

/* The next question: the fd to answer on. word ends with a NUL. -EACCES: not one of ours
 * asked; it, and all other errors, are no reason to stop. */
_must_check_ int shfs_watches_accept(int listening,
                                     char word[static SHFS_WATCH_WORD_MAX]);

/* Those of this user. *out: to be freed by the caller. */
_must_check_ int shfs_watches_list(struct shfs_watch_name **out, size_t *n);

/* Asks one: an fd on which the answer comes. -ECONNREFUSED: it has ended. -EACCES: it is
 * not one of ours, whatever its name is. */
_must_check_ int shfs_watches_ask(const struct shfs_watch_name *name, const char *word);

/* The same, and waits for the answer, a second at most (-EAGAIN): appended to out. */
_must_check_ int shfs_watches_answer(const struct shfs_watch_name *name, const char *word,
                                     struct shfs_buf *out);
