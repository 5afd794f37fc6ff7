/* SPDX-License-Identifier: MIT */
/*
 * bpf-compose.h - makes events of what the BPF programs say: paths of directories and
 * names, processes in full of what was told of them before, SHFS_EVENT_LOST where records
 * are missing.
 */
#pragma once

#include "common/buf.h"
#include "common/event.h"
#include "kmod-fast-path/bpf/record.h"

#include <stdbool.h>
#include <sys/stat.h>

struct shfs_composer;

/* Each may be NULL. */
struct shfs_composer_ops {
	/* Tells an event, borrowed. */
	void (*tell)(void *arg, struct shfs_event *event);
	/* What a path below the root is, no link followed; st_dev: 0 of the root's.
	 * -errno. */
	int (*look)(void *arg, const char *path, struct stat *out);
	/* Replaces a path below the root of a directory, in which links may be, by the
	 * one without. -errno: it cannot be told. */
	int (*real)(void *arg, const char *path, struct shfs_buf *out);
	/* Has the kernel told this directory, and may it name it again? */
	bool (*is_told)(void *arg, uint64_t key);
};

/*
 * root_path: that of the root, absolute, as processes see it; root_dev: the number that
 * the kernel has for its file system. own_pids: ids of processes are those of this
 * process's namespace, so that /proc may be asked. arg is for the ops.
 */
_must_check_ int shfs_composer_new(const char *root_path, uint64_t root_dev,
                                   bool own_pids, const struct shfs_composer_ops *ops,
                                   void *arg, struct shfs_composer **out);
void shfs_composer_free(struct shfs_composer *c); /* NULL is fine */

/* Takes one record of so many bytes. -EBADMSG: it is none; -ENOMEM: an event is missing.
 */
_must_check_ int shfs_compose(struct shfs_composer *c,
                              const struct shfs_bpf_record *record, size_t size);

/* So many were lost until now, all records of before have been taken. */
void shfs_compose_lost(struct shfs_composer *c, uint64_t lost);

/* Forgets directories that the kernel has no longer in mind, once there are many. To be
 * called now and then, with all taken that was told before the call of last time. */
void shfs_composer_trim(struct shfs_composer *c);
