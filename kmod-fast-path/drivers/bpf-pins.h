/* SPDX-License-Identifier: MIT */
/*
 * bpf-pins.h - holds written files open from their close until the driver has drained, by
 * fanotify on the mount of the root. It does not hold files of other mounts, nor closes
 * beyond what the kernel queues (16,384).
 */
#pragma once

#include "common/event.h"

#include <stdbool.h>

struct shfs_pins; /* NULL: no file is held */

/* Returns NULL if fanotify cannot do it. */
struct shfs_pins *shfs_pins_open(int root_fd);

/* An O_PATH descriptor of the file of a close event; -1: it is not held. */
int shfs_pins_find(struct shfs_pins *p, const struct shfs_event *event);

/* May the pin of this close still come? The event of a close comes a little before
 * fanotify's. Waits for it. */
bool shfs_pins_wait(struct shfs_pins *p, const struct shfs_event *event);

/* Called around a drain. Closes that are queued when it begins belong to events that it
 * reports, and are released when it ends. */
void shfs_pins_begin(struct shfs_pins *p);
void shfs_pins_end(struct shfs_pins *p);
void shfs_pins_close(struct shfs_pins *p);
