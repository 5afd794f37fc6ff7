/* SPDX-License-Identifier: MIT */
/*
 * origin.h - reads the variable LC_SHFS: the command of another host in which a process
 * was started.
 *
 * A hook sets it while a command runs, and ssh carries it (docs/ssh.md). Its value,
 * HOST:BOOT-PID-START:NUMBER, comes from outside, and any program may have made it up:
 * only what is written as here is taken. So two values are the same origin just if they
 * are the same text.
 */
#pragma once

#include "common/buf.h"

#define SHFS_ORIGIN_VARIABLE "LC_SHFS"
#define SHFS_ORIGIN_MAX      160 /* no value that is taken is longer */

struct shfs_origin {
	char host[65];
	char boot[9]; /* the first 8 digits of its id */
	uint32_t pid; /* of the shell */
	uint64_t start_ticks, number;
};

/* Parses a value. -EBADMSG: it is none. */
_must_check_ int shfs_origin_parse(struct shfs_bytes value, struct shfs_origin *out);

/* Appends to a marker '@' and the origin that an environment (variables, each ended by a
 * NUL) has; nothing if there is none, or if it is a command of this host: of these the
 * marker alone tells, which a service or sudo does not get by chance. */
void shfs_origin_add(struct shfs_bytes environ, struct shfs_buf *out);

/* Returns the origin in a marker without its marks, borrowed; its data are NULL if there
 * is none. */
struct shfs_bytes shfs_origin_of_marker(struct shfs_bytes marker);
