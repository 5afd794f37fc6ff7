/* SPDX-License-Identifier: MIT */
/*
 * runner.h - a process that runs texts of commands one after the other, each by a shell
 * of its own, and tells a hook log of each as the hook of a shell does: so what they do
 * is theirs, as if they had been typed.
 *
 * It is in a session of its own without a terminal: nobody can be asked anything. The
 * shells read no files of the user (bash -c, zsh -f, fish --no-config).
 */
#pragma once

#include "common/buf.h"

#include <stdbool.h>
#include <sys/types.h>

struct shfs_redactor;

struct shfs_runner {
	pid_t pid;
	int fd; /* to it, and back */
};

struct shfs_runner_options {
	const char *shell;              /* "bash", "zsh", "fish" */
	const char *store_path;         /* whose hook log is written; NULL: none */
	struct shfs_redactor *redactor; /* for that; NULL: nothing is a secret */
	bool to_stderr;                 /* what the commands print */
};

/* *out is to be ended. A negative errno. */
_must_check_ int shfs_runner_begin(const struct shfs_runner_options *options,
                                   struct shfs_runner *out);
/* Also one that is all 0. */
void shfs_runner_end(struct shfs_runner *runner);

struct shfs_runner_command {
	const char *text, *cwd;
	size_t text_len;
	int expected; /* it may end so, or with 0 */
	/* Paths, each with a NUL: files that are taken away first, and put back if it
	 * ends in another way and has made no others; one that ends in a slash: a
	 * directory, taken away if it is empty. */
	struct shfs_buf away;
};

/*
 * Runs it, with all that it leaves in the background, and waits: *status as a shell has
 * it in $?. -EINTR: a signal of ours came (shfs_runner_signal), and the command was given
 * it and has ended. Else a negative errno.
 */
_must_check_ int shfs_runner_run(struct shfs_runner *runner,
                                 const struct shfs_runner_command *command, int *status);

/* Is there a program of this name in PATH? */
bool shfs_runner_has_program(const char *name);

/* Does the shell (as above) know what the name stands for: a program, a builtin? 1, 0, or
 * a negative errno. The name is of letters, digits, and what needs no quotes. */
_must_check_ int shfs_runner_knows(const char *shell, const char *name, size_t len);

/* From now on SIGINT, SIGTERM and SIGHUP end the command that runs, or no further one
 * begins: the signal that came, or 0. */
void shfs_runner_catch(void);
int shfs_runner_signal(void);
