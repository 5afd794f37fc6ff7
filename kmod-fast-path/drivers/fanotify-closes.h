/* SPDX-License-Identifier: MIT */
/*
 * fanotify-closes.h - a queue of fanotify in which each close comes with a descriptor of
 * the file: it holds the file until the event is read, even if its name is gone.
 */
#pragma once

#include "common/buf.h"

/* limits: FAN_UNLIMITED_QUEUE and FAN_UNLIMITED_MARKS, or 0. -errno, with why. */
int fan_closes_open(unsigned limits, struct shfs_buf *why);

/* Ignores all further closes of fd, which is not a regular file: opening a FIFO here
 * could be noticed by others. */
void fan_closes_ignore(int closes_fd, int fd);

/* An O_PATH descriptor of the same file; -1. */
int fan_closes_pin(int fd);
