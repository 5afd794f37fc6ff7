/* SPDX-License-Identifier: MIT */
/*
 * driver.h - one way to learn from the kernel what happens below a directory: the module,
 * BPF (fentry, or tracepoints alone), fanotify. They run in the helper, as root.
 *
 * What a driver needs is tried, when it is opened, never guessed from a version. An open
 * driver watches one directory for one user, and tells events (common/event.h) in the
 * order in which they happened as far as it can know, each once, with the path in full:
 * SHFS_EVENT_BELOW never leaves a driver. What it had no room for it tells as
 * SHFS_EVENT_LOST. It filters in the kernel where it can, and here where it cannot: what
 * comes out is of the processes of that user (real and effective; of all users where that
 * is root), and of files below the root.
 *
 * One thread for each open driver.
 */
#pragma once

#include "common/buf.h"
#include "common/event.h"

#include <stdbool.h>
#include <sys/types.h>

struct shfs_driver;

struct shfs_watch_order {
	int root_fd; /* of the directory, O_RDONLY; borrowed until close */
	uid_t uid;   /* whose events; 0: of all */
	pid_t pid;   /* of the watcher, in whose pid namespace ids are told; 0: this one's
	              */
};

/*
 * content_fd: O_PATH of the file with SHFS_EVENT_PINNED, which is the very file also
 * where it has lost its name, borrowed for the call; -1 else. The event is borrowed too.
 */
typedef void (*shfs_event_sink)(void *arg, const struct shfs_event *event,
                                int content_fd);

struct shfs_driver_ops {
	const char *name; /* "module", "bpf", "bpf-tracepoints", "fanotify" */

	/* -errno: it does not work here, and why has a line without a full stop that a
	 * user understands. */
	int (*open)(const struct shfs_watch_order *order, struct shfs_driver **out,
	            struct shfs_buf *why);

	/* Becomes readable when there is something to drain; drain also every 10 ms while
	 * poll says nothing: small numbers of events wake nobody. */
	int (*fd)(const struct shfs_driver *driver);

	/* Tells all events of what had happened when this was called. -errno: the driver
	 * is broken and is to be closed. */
	int (*drain)(struct shfs_driver *driver, shfs_event_sink sink, void *arg);

	void (*close)(struct shfs_driver *driver); /* NULL is fine */
};

/* All of this build, the best first; ends with NULL. */
extern const struct shfs_driver_ops *const shfs_drivers[];

/* By name; NULL. */
const struct shfs_driver_ops *shfs_driver_find(const char *name);
