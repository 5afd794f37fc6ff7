/* SPDX-License-Identifier: MIT */
/*
 * driver.h - one way to learn from the kernel what happens below a directory: the module,
 * BPF (on functions, or on tracepoints alone), fanotify. Drivers run in the helper, as
 * root.
 *
 * Whether a driver works is found out by opening it, never guessed from a version. An
 * open driver watches one directory for one user. It reports each event (common/event.h)
 * once, in the order in which they happened as far as it can know, with the full path:
 * SHFS_EVENT_BELOW never leaves a driver. It reports events that it had no room for as
 * SHFS_EVENT_LOST. It filters in the kernel where it can, and here where it cannot: all
 * its events are of processes of that user (real and effective; of all users if the user
 * is root), and of files below the root.
 *
 * One thread uses an open driver.
 */
#pragma once

#include "common/buf.h"
#include "common/event.h"

#include <stdbool.h>
#include <sys/types.h>

struct shfs_driver;

struct shfs_subscription_order {
	int root_fd; /* of the directory, O_RDONLY; borrowed until close */
	uid_t uid;   /* the user whose events are reported; 0: all users */
	pid_t pid;   /* the watcher; process ids are those of its pid namespace; 0: of
	              * this process's */
};

/*
 * content_fd: with SHFS_EVENT_PINNED an O_PATH descriptor of the file itself, even if it
 * has lost its name; else -1. The descriptor and the event are borrowed for the call.
 */
typedef void (*shfs_event_sink)(void *arg, const struct shfs_event *event,
                                int content_fd);

struct shfs_driver_ops {
	const char *name; /* "module", "bpf", "bpf-tracepoints", "fanotify" */

	/* -errno: it does not work here, and why has a line for the user, without a full
	 * stop. */
	int (*open)(const struct shfs_subscription_order *order, struct shfs_driver **out,
	            struct shfs_buf *why);

	/* Becomes readable when there are events to drain. A few events make nothing
	 * readable: drain also every 10 ms. */
	int (*fd)(const struct shfs_driver *driver);

	/* Reports all events from before the call. -errno: the driver is broken, and must
	 * be closed. */
	int (*drain)(struct shfs_driver *driver, shfs_event_sink sink, void *arg);

	void (*close)(struct shfs_driver *driver); /* NULL is fine */
};

/* All drivers of this build, the best first; ends with NULL. */
extern const struct shfs_driver_ops *const shfs_drivers[];

/* Finds a driver by its name; NULL: there is none. */
const struct shfs_driver_ops *shfs_driver_find(const char *name);
