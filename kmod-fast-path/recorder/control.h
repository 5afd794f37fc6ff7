/* SPDX-License-Identifier: MIT */
/* control.h - the answers of a recording to queries (common/recorders.h). */
#pragma once

#include "kmod-fast-path/recorder/recorder.h"

/* What a status says about the driver. */
struct shfs_control_driver {
	const char *name, *why; /* why: it is not a better one; may be empty */
	uint64_t waiting_bytes; /* of packets */
};

/* Appends the lines of a status. */
void shfs_control_status(struct shfs_recorder *recorder,
                         const struct shfs_control_driver *driver, struct shfs_buf *out);

/* Takes ownership of fd; answers on it once everything that was emitted is durable. */
void shfs_control_sync(struct shfs_recorder *recorder, int fd);

/* As shfs_control_sync, but begins new segments too: all earlier records are in the old
 * ones. */
void shfs_control_seal(struct shfs_recorder *recorder, int fd);

/* Sends this answer, and closes fd. */
void shfs_control_answer(int fd, const char *text, size_t len);
