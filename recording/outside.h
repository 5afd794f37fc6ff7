/* SPDX-License-Identifier: MIT */
/*
 * outside.h - the files outside of the recorded directory that a process names: in its
 * arguments, or as its standard input, also by a link in the directory that leads to
 * them. Nothing is seen of their use. So each is recorded
 * as it is when the process is first seen, by its fingerprint, as an access with
 * SHFS_ACCESS_NAMED.
 *
 * Not recorded: programs and libraries of the system (shfs_path_is_system); what stands
 * where a program has its output; and files that have changed since the process's job
 * began, which are likely its own.
 */
#pragma once

#include "common/record.h"
#include "recording/local.h"
#include "store/capture/rules.h"

struct shfs_capture;
struct shfs_proc_stat;

/* Where to look. Thread-safe. */
struct shfs_outside_view {
	char *root;               /* the recorded directory */
	struct shfs_rules *rules; /* which names are secret: these get no fingerprint */
	struct shfs_local local;
	uint64_t whole_max; /* [archive] fingerprint */
};
/* config is borrowed for the call. -ENOMEM. */
_must_check_ int shfs_outside_view_new(const char *root, int root_fd,
                                       const struct shfs_config *config,
                                       struct shfs_outside_view **out);
void shfs_outside_view_free(struct shfs_outside_view *view); /* NULL is fine */

/* A file that was named; path: as in an ACCESS record. */
struct shfs_named {
	char *path;
	uint64_t dev, ino;
	struct shfs_content content;
};
/* Sets its content to what is open there, with a fingerprint of the whole up to whole_max
 * bytes; of a secret without one. */
void shfs_named_take(struct shfs_named *named, int fd, const struct stat *st,
                     bool is_secret, uint64_t whole_max);
/* Records it for a process that was recorded with this number, at this time. */
void shfs_named_emit(const struct shfs_named *named, struct shfs_capture *capture,
                     uint64_t process, struct shfs_time time);

struct shfs_outside {
	struct shfs_named *list;
	size_t n, cap;
};
void shfs_outside_clear(struct shfs_outside *files);

/*
 * Looks at the files that the process of shfs_proc_open names by these arguments (each
 * ended by a NUL), and adds them. What cannot be looked at is left out: also where
 * paths mean something else to the process (chroot, containers), where it is another
 * user's, and what local.h does not reach. A forked process has the words of its parent.
 */
void shfs_outside_look(struct shfs_outside_view *view, int procfd,
                       const struct shfs_proc_stat *stat, const struct shfs_buf *argv,
                       struct shfs_outside *out);

/* A process whose names are known; it may have ended. */
struct shfs_outside_process {
	int procfd;                    /* of shfs_proc_open: of itself, or of the next one
	                                * above that lives: its namespaces count */
	const char *exe, *cwd, *input; /* input: its descriptor 0; "": not known */
	struct shfs_bytes argv;        /* each ended by a NUL; empty: its parent's */
	uint64_t job_ticks;            /* when its job began, since the boot */
};
/* Looks likewise at the files that this process names. */
void shfs_outside_look_at(struct shfs_outside_view *view,
                          const struct shfs_outside_process *process,
                          struct shfs_outside *out);

/* Records all of them. */
void shfs_outside_emit(const struct shfs_outside *files, struct shfs_capture *capture,
                       uint64_t process, struct shfs_time time);
