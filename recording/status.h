/* SPDX-License-Identifier: MIT */
/*
 * status.h - the status of a recording process, for `shfs status`: lines KEY=VALUE
 * (query/base/mounts.c reads them, and skips unknown keys).
 */
#pragma once

#include "common/buf.h"
#include "store/capture/capture.h"
#include "store/capture/project-rules.h"

struct shfs_status {
	const char *root;
	const struct shfs_store *store;
	struct shfs_capture *capture;
	struct shfs_project_rules *rules;
	int64_t since_ns;       /* CLOCK_REALTIME */
	uint64_t lost;          /* before they reached the capture */
	uint64_t waiting_bytes; /* in memory, before they reached it */
};

/* Writes the lines that all kinds of recordings have. */
void shfs_status_write(struct shfs_buf *out, const struct shfs_status *status);

/* Writes one more line, whatever is in the text. */
void shfs_status_line(struct shfs_buf *out, const char *key, const char *text);
