/* SPDX-License-Identifier: MIT */
/*
 * again.h - how the guardian mounts again after the server died: the arguments of the
 * program, and how often that has happened. Not for a mount in the foreground, where the
 * user sees that it has ended.
 */
#pragma once

#include "common/util.h"

#include <stdbool.h>

#define SHFS_AGAIN_ARGS 12
/* If it dies so often in a minute, it is not mounted again. */
#define SHFS_AGAIN_MAX 5

struct shfs_again {
	unsigned count;  /* since the user has mounted */
	int64_t last_ns; /* CLOCK_REALTIME; 0: never */
	unsigned recent; /* count since recent_ns */
	int64_t recent_ns;

	const char *args[SHFS_AGAIN_ARGS]; /* without the last, the directory */
	unsigned n_args;                   /* 0: it is not mounted again */
};

/* Counts a death at now_ns (CLOCK_REALTIME); false: it is one too many. */
bool shfs_again_count(struct shfs_again *again, int64_t now_ns);

/* Write the counts as a text for --again, and read them; false: the text is not valid. */
#define SHFS_AGAIN_TEXT_MAX 96
void shfs_again_write(const struct shfs_again *again,
                      char text[static SHFS_AGAIN_TEXT_MAX]);
bool shfs_again_read(struct shfs_again *again, const char *text);
