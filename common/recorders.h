/* SPDX-License-Identifier: MIT */
/*
 * recorders.h - finds and asks recordings without a mount.
 *
 * Each recorder listens on a socket whose name, in the abstract namespace (unix(7)), is
 * made of the user and of the device and inode number of its directory. So a second
 * recorder of a directory finds the name taken, and the name ends with its process.
 * /proc/net/unix lists all of them (in the same network namespace).
 *
 * A question is a packet with a word, answered by a packet:
 *   root     the path of the directory
 *   status   lines key=value, as user.shfs.status of a mount
 *   sync     "ok" once all that happened before is durable; else the number of an errno
 *   seal     as sync, but the answer is the name of the segment that was begun then
 *   end      "ok"; then it ends, and closes the connection when all is durable
 *
 * The recorder of a command (shfs record --by helper) has a name of its own, made of the
 * process below which all is recorded. It is in no list: it records no directory.
 */
#pragma once

#include "common/buf.h"

#include <stdbool.h>
#include <sys/types.h>

/* Where the helper listens (kmod-fast-path/protocol/protocol.h), unless the environment
 * has SHFS_HELPER. */
#define SHFS_HELPER_SOCKET "/run/shfs/helper.sock"

#define SHFS_WATCH_ANSWER_MAX  65536
#define SHFS_RECORDER_WORD_MAX 16

struct shfs_recorder_name {
	dev_t dev;
	ino_t ino;
};

/* Takes the name of the directory behind root_fd: returns a socket to accept from.
 * -EADDRINUSE: the directory is recorded already. */
_must_check_ int shfs_recorders_listen(int root_fd);

/* Accepts the next question: returns the fd to answer on. word ends with a NUL. -EACCES:
 * another user asked; no error is a reason to stop. */
_must_check_ int shfs_recorders_accept(int listening,
                                       char word[static SHFS_RECORDER_WORD_MAX]);

/* Lists the recorders of this user. *out: malloc'ed. */
_must_check_ int shfs_recorders_list(struct shfs_recorder_name **out, size_t *n);

/* Asks a recorder: returns an fd on which the answer comes. -ECONNREFUSED: it has ended.
 * -EACCES: it belongs to another user. */
_must_check_ int shfs_recorders_ask(const struct shfs_recorder_name *name,
                                    const char *word);

/* As shfs_recorders_listen and shfs_recorders_ask, of what descends from a process. */
_must_check_ int shfs_recorders_listen_tree(pid_t above);
_must_check_ int shfs_recorders_ask_tree(pid_t above, const char *word);

/* Is there a socket of a helper to ask? */
bool shfs_recorders_have_helper(void);

/* Asks a recorder, waits for the answer, a second at most (-EAGAIN), and appends it to
 * out.
 */
_must_check_ int shfs_recorders_answer(const struct shfs_recorder_name *name,
                                       const char *word, struct shfs_buf *out);
