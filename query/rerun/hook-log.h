/* SPDX-License-Identifier: MIT */
/*
 * hook-log.h - writes a hook log (docs/shellhook.md), as the hook of a shell does: for a
 * process that runs commands in the place of a shell. What the commands do is attributed
 * to them as if they had been typed.
 *
 * A record that cannot be written is lost; the command runs all the same.
 */
#pragma once

#include "common/proc.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>

struct shfs_redactor;

#define SHFS_HOOK_LOG_NAME_MAX 48

/* Begins as { .fd = -1 }, maybe with a redactor: such a log records nothing. */
struct shfs_hook_log {
	int fd;
	uint64_t seq, number; /* of the last record, and of the last command */
	char boot[37];
	/* The beginning of its boot's id, the pid and the start time, with dashes; and
	 * the same with the unit of systemd, for the marker. */
	char name[SHFS_HOOK_LOG_NAME_MAX], session[160];
	struct shfs_proc_stat self;
	struct shfs_redactor *redactor; /* borrowed; NULL: nothing is a secret */
};

/* Begins the log of this process, below which the commands will run: a session of this
 * shell ("bash", …) without a terminal. A negative errno. The end of the process closes
 * it. */
_must_check_ int shfs_hook_log_open(struct shfs_hook_log *log, const char *store_path,
                                    const char *shell);

struct shfs_index;
struct shfs_shell_history;

/*
 * Writes a log of its own with all commands of a history that a shell kept (from path):
 * those of a session without a shell (pid 0), of which nobody knows where they were run,
 * and how they ended. One without a time gets that of the next one, or else_s, also in
 * history. Durable on return. -EEXIST: that history was taken before.
 */
_must_check_ int shfs_hook_log_import(const char *store_path, const char *shell,
                                      const char *path,
                                      struct shfs_shell_history *history, int64_t else_s,
                                      struct shfs_redactor *redactor);

/* Records that a command begins, now and in the working directory; its secrets are taken
 * out. */
void shfs_hook_log_begin(struct shfs_hook_log *log, const char *text);
/* Records definitions that the command uses: of each its kind, one byte, its name and its
 * body, each with a NUL. */
void shfs_hook_log_uses(struct shfs_hook_log *log, const char *uses, size_t len);
/* Records that it has ended. */
void shfs_hook_log_finish(struct shfs_hook_log *log, int status,
                          const struct rusage *usage);

/* Finds the command in the index by the session of its log (shfs_runner) and its number
 * there: 1; 0: there is none; or a negative errno. */
_must_check_ int shfs_hook_log_command(struct shfs_index *index, const char *session,
                                       uint64_t number, int64_t *out);

/* Names the command in the environment of this process, a child that will execute it. */
void shfs_hook_log_mark(const struct shfs_hook_log *log);
