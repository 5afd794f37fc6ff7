/* SPDX-License-Identifier: MIT */
/*
 * program.h - runs the system's ssh, so that its configuration, its keys and agents
 * hold; or what SHFS_SSH_COMMAND names: a command with options, in the quotes of the
 * shell. What ssh says goes to standard error; what it asks, it asks at the terminal.
 * Where there is none, it asks nothing (BatchMode).
 */
#pragma once

#include "query/remote/ssh/url.h"

#include <sys/types.h>

struct ssh_program {
	pid_t pid; /* 0: none */
	int fd;    /* a socket: its standard input and output */
};

/* From now on ssh asks nothing, or again what it must: for a process that has not the
 * terminal to itself. */
void ssh_ask_nothing(bool nothing);

/* Starts it. -EINVAL: SHFS_SSH_COMMAND is no such command. command: what runs there; a
 * subsystem: the name of one ("sftp"). */
_must_check_ int ssh_program_start(const struct ssh_url *url, const char *command,
                                   bool subsystem, struct ssh_program *out);

/* Ends it, by the end of its input, or else by signals. Returns its exit status; 255 if a
 * signal ended it. It may have none: 0. */
int ssh_program_end(struct ssh_program *program);
