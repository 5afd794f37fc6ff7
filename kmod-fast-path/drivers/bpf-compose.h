/* SPDX-License-Identifier: MIT */
/*
 * bpf-compose.h - makes events of the records that the BPF programs write: it joins
 * directories and names to paths, completes processes from earlier records, and reports
 * SHFS_EVENT_LOST where records are missing.
 */
#pragma once

#include "common/buf.h"
#include "common/event.h"
#include "kmod-fast-path/bpf/record.h"

#include <stdbool.h>
#include <sys/stat.h>

struct shfs_composer;

/* Calls that the composer makes; each may be NULL. */
struct shfs_composer_ops {
	/* Reports an event; it is borrowed. */
	void (*tell)(void *arg, struct shfs_event *event);
	/* Stats a path below the root without following links; st_dev is 0 on the root's
	 * file system. -errno. */
	int (*look)(void *arg, const char *path, struct stat *out);
	/* Replaces the path of a directory below the root by the one without symbolic
	 * links. -errno: there is none. */
	int (*real)(void *arg, const char *path, struct shfs_buf *out);
	/* Does the kernel still remember that it sent this directory? Then it may use the
	 * key again. */
	bool (*is_told)(void *arg, uint64_t key);
	/* May a record that follows, of until_ns at the latest, change what this path
	 * below the root leads to (shfs_composer_may_change)? */
	bool (*is_changed_again)(void *arg, const char *path, uint64_t until_ns);
	/* Does a record that follows, of until_ns at the latest, show that the path led
	 * to the file with this inode number (shfs_composer_confirms)? */
	bool (*is_confirmed)(void *arg, const char *path, uint64_t ino,
	                     uint64_t until_ns);
};

/*
 * root_path: the absolute path of the root, as processes see it; root_dev: the kernel's
 * number of its file system. own_pids: process ids are those of this process's namespace,
 * so /proc may be read. arg is passed to the ops.
 */
_must_check_ int shfs_composer_new(const char *root_path, uint64_t root_dev,
                                   bool own_pids, const struct shfs_composer_ops *ops,
                                   void *arg, struct shfs_composer **out);
void shfs_composer_free(struct shfs_composer *c); /* NULL is fine */

/* Do its texts lie within the record, of size bytes? */
bool shfs_bpf_record_is_whole(const struct shfs_bpf_record *record, size_t size);

/* Takes one record of size bytes. -EBADMSG: it is malformed; -ENOMEM: an event is
 * missing. */
_must_check_ int shfs_compose(struct shfs_composer *c,
                              const struct shfs_bpf_record *record, size_t size);

/* Is it of a change of names: a rename, a link, or an unlink? */
bool shfs_bpf_record_changes_names(const struct shfs_bpf_record *record);

/* May this record, which was not taken yet, change what the path below the root leads to?
 * True also where a directory that it names is not known yet. */
bool shfs_composer_may_change(struct shfs_composer *c,
                              const struct shfs_bpf_record *record, const char *path);

/* The record, which was not taken yet, shows of the file that the path led to before: 1:
 * its inode number is ino; -1: it is another one, or the path leads to another from now
 * on; 0: nothing. */
int shfs_composer_confirms(struct shfs_composer *c, const struct shfs_bpf_record *record,
                           const char *path, uint64_t ino);

/* Reports that the kernel has lost this many records in total, once all earlier records
 * were taken. */
void shfs_compose_lost(struct shfs_composer *c, uint64_t lost);

/* Once there are many directories, forgets those that the kernel has forgotten. Call it
 * now and then, when all records from before the previous call were taken. */
void shfs_composer_trim(struct shfs_composer *c);
