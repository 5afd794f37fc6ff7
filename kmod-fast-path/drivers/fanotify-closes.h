/* SPDX-License-Identifier: MIT */
/*
 * fanotify-closes.h - a queue of fanotify in which each close comes with an fd of the
 * file: what was written is held by it until it is read, whatever becomes of its name.
 */
#pragma once

#include "common/buf.h"

/* limits: FAN_UNLIMITED_QUEUE and FAN_UNLIMITED_MARKS, or 0. -errno, with why. */
int fan_closes_open(unsigned limits, struct shfs_buf *why);

/* Nothing more of this file, which is none: to open a FIFO is seen by others. */
void fan_closes_ignore(int closes_fd, int fd);

/* O_PATH of the same file; -1. */
int fan_closes_pin(int fd);
