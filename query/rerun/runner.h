/* SPDX-License-Identifier: MIT */
/*
 * runner.h - a process that runs texts of commands one after the other, each by a shell
 * of its own. It writes each to a hook log, as the hook of a shell does: so accesses are
 * attributed to the commands as if they had been typed.
 *
 * The process is in a session of its own without a terminal: no command can ask the user.
 * The shells read no files of the user (bash -c, zsh -f, fish --no-config). If the
 * process that started it is killed, the command that runs gets SIGTERM.
 */
#pragma once

#include "common/buf.h"
#include "query/rerun/hook-log.h"

#include <stdbool.h>
#include <sys/types.h>

struct shfs_definitions;
struct shfs_redactor;

struct shfs_runner {
	pid_t pid;
	int fd; /* a socket to it */
	/* The beginning of its boot's id, its pid and its start time, with dashes; "": it
	 * has no hook log. */
	char session[SHFS_HOOK_LOG_NAME_MAX];
	uint64_t number; /* of its last command in the hook log */
};

struct shfs_runner_options {
	const char *shell;              /* "bash", "zsh", "fish" */
	const char *store_path;         /* the store of the hook log; NULL: no hook log */
	struct shfs_redactor *redactor; /* for the hook log; NULL: nothing is a secret */
	bool to_stderr;                 /* where output of the commands goes */
	int end_fd; /* shfs_before_note_end there when a command ends; -1: nowhere */
};

/* Starts a runner; the caller ends it. A negative errno. */
_must_check_ int shfs_runner_begin(const struct shfs_runner_options *options,
                                   struct shfs_runner *out);
/* Ends it; does nothing if it is all 0. */
void shfs_runner_end(struct shfs_runner *runner);

struct shfs_runner_command {
	const char *cwd;
	/* The text and the definitions are recorded; the script has both, and is run. */
	const char *text, *script;
	const struct shfs_definitions *definitions;
	/* Paths, each with a NUL: files that are removed first. A path that ends in a
	 * slash is a directory, removed if it is empty. */
	struct shfs_buf away;
};

/*
 * Runs the command, and waits for it and all that it leaves in the background: *status is
 * as in $?. -EINTR: this process got a signal (shfs_runner_signal), which was passed on
 * to the command, and that has ended. Else a negative errno.
 */
_must_check_ int shfs_runner_run(struct shfs_runner *runner,
                                 const struct shfs_runner_command *command, int *status);

/* Is there a program of this name in PATH? */
bool shfs_runner_has_program(const char *name);

/* Does the shell (as above) know the name: is it a program, a builtin? 1, 0, or a
 * negative errno. The name has only letters, digits and characters that need no
 * quotes. */
_must_check_ int shfs_runner_knows(const char *shell, const char *name, size_t len);

/* From now on SIGINT, SIGTERM and SIGHUP end the command that runs, and no further one
 * begins. shfs_runner_signal: the signal that came, or 0. */
void shfs_runner_catch(void);
int shfs_runner_signal(void);
