/* SPDX-License-Identifier: MIT */
/*
 * bpf-pins.h - what was written, held from its close until the driver has drained: by
 * fanotify, on the mount of the root. Other mounts' files, and closes beyond what the
 * kernel queues (16,384), are not.
 */
#pragma once

#include "common/event.h"

#include <stdbool.h>

struct shfs_pins; /* NULL: it holds nothing */

/* NULL: fanotify cannot do it. */
struct shfs_pins *shfs_pins_open(int root_fd);

/* O_PATH of the file of a close; -1. */
int shfs_pins_find(struct shfs_pins *p, const struct shfs_event *event);

/* May it still come? A close is told a little before it is done. Waits for that. */
bool shfs_pins_wait(struct shfs_pins *p, const struct shfs_event *event);

/* Around a drain: what is queued at its begin was told before, and is let go at its end.
 */
void shfs_pins_begin(struct shfs_pins *p);
void shfs_pins_end(struct shfs_pins *p);
void shfs_pins_close(struct shfs_pins *p);
