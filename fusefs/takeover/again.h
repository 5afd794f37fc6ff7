/* SPDX-License-Identifier: MIT */
/*
 * again.h - the mount of a process that died is made again by its guardian, unless it was
 * in the foreground, where whoever started it sees that it has ended: how the program was
 * called, and how often that has happened.
 */
#pragma once

#include "common/util.h"

#include <stdbool.h>

#define SHFS_AGAIN_ARGS 12
/* As often in a minute: then there is something wrong that will not go. */
#define SHFS_AGAIN_MAX 5

struct shfs_again {
	unsigned count;  /* since somebody asked for the mount */
	int64_t last_ns; /* CLOCK_REALTIME; 0: never */
	unsigned recent; /* of them, since */
	int64_t recent_ns;

	const char *args[SHFS_AGAIN_ARGS]; /* but for the last: where it is mounted */
	unsigned n_args;                   /* 0: it is not made again */
};

/* Counts one more at now_ns (CLOCK_REALTIME); false: it is one too many. */
bool shfs_again_count(struct shfs_again *again, int64_t now_ns);

/* The counts as a text for --again, and back; false: it is none. */
#define SHFS_AGAIN_TEXT_MAX 96
void shfs_again_write(const struct shfs_again *again,
                      char text[static SHFS_AGAIN_TEXT_MAX]);
bool shfs_again_read(struct shfs_again *again, const char *text);
