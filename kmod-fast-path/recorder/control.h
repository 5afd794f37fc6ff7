/* SPDX-License-Identifier: MIT */
/* control.h - what a recording answers to those who ask (common/watches.h). */
#pragma once

#include "kmod-fast-path/recorder/recorder.h"

/* What a status tells besides: of the driver. */
struct shfs_control_driver {
	const char *name, *why; /* why: it is not another one; may be empty */
	uint64_t waiting_bytes; /* of packets */
};

/* The lines of a status. */
void shfs_control_status(struct shfs_recorder *recorder,
                         const struct shfs_control_driver *driver, struct shfs_buf *out);

/* Answers on fd, which is taken over, once all that was emitted is durable. */
void shfs_control_sync(struct shfs_recorder *recorder, int fd);

/* The same, once that lies in other segments than what comes. */
void shfs_control_seal(struct shfs_recorder *recorder, int fd);

/* Answers this, and closes fd. */
void shfs_control_answer(int fd, const char *text, size_t len);
