/* SPDX-License-Identifier: MIT */
/*
 * contents.h - the contents of files, read after the event: the bytes are those of the
 * event, or known not to be.
 *
 * No process in the kernel waits for the recorder, so a file may have changed again when
 * its event is read. Before and after reading, its size and mtime are compared with those
 * of the event. While it is read it is under a read lease (fcntl(2), F_SETLEASE), where
 * the kernel gives one: then a process that opens the file to write waits for that
 * moment, as on a mount. A content that was superseded before it could be read is
 * recorded with its size and times alone, as INCOMPLETE.
 *
 * Thread-safe.
 */
#pragma once

#include "common/clock.h"
#include "common/event.h"
#include "store/capture/capture.h"
#include "store/capture/project-rules.h"

#include <sys/stat.h>

struct shfs_contents;

/* A content for a record: a snapshot (a reference, to be released by the caller), or
 * where that is NULL a value. */
struct shfs_held {
	struct shfs_snapshot *snapshot;
	struct shfs_content value;
};

/* All arguments are borrowed. late: the driver has looked up size and times of an event
 * after the close. If a process has the file open to write by then, it may hold half of a
 * write, so its content is INCOMPLETE. -ENOMEM. */
_must_check_ int shfs_contents_new(struct shfs_capture *capture,
                                   const struct shfs_config *config,
                                   struct shfs_project_rules *rules, int root_fd,
                                   bool late, struct shfs_contents **out);
void shfs_contents_free(struct shfs_contents *contents); /* NULL is fine */

/* Why a content is wanted. */
enum shfs_contents_why {
	SHFS_CONTENTS_READ,  /* archived if it is a script or configuration, else a
	                      * fingerprint */
	SHFS_CONTENTS_NAMED, /* it got another name: archived */
	SHFS_CONTENTS_RENAMED_SECRET, /* the same, but the old name was secret: it
	                               * stays secret */
	SHFS_CONTENTS_WRITTEN, /* archived; also read if size and mtime are as before */
	SHFS_CONTENTS_LEFT,    /* the same of a file that others may have open to write,
	                        * though they do not write: no lease is waited for */
};

/* The content of the event's file then, at path. content_fd: as in driver.h, or -1: the
 * file is opened by its path. at_ns: time of the event (CLOCK_REALTIME). author: as in
 * shfs_snapshot_author. */
struct shfs_held shfs_contents_take(struct shfs_contents *contents,
                                    const struct shfs_event_file *file, const char *path,
                                    int content_fd, int64_t at_ns,
                                    enum shfs_contents_why why, uid_t author);

/* Takes the content that the file at path has now, if it is still the event's file. */
void shfs_contents_look(struct shfs_contents *contents,
                        const struct shfs_event_file *file, const char *path);

/* The content that was taken last of a file that can be found no more. */
struct shfs_held shfs_contents_last(struct shfs_contents *contents,
                                    const struct shfs_event_file *file);

/* The file at path has lost this name, see shfs_snapshot_gone. */
void shfs_contents_gone(struct shfs_contents *contents, const char *path);

/* A directory was renamed from was to path: files below it may have got, or lost, a
 * secret name by that. */
void shfs_contents_conceal_below(struct shfs_contents *contents, const char *was,
                                 const char *path);

/* path, which was called was before, has got its name, but it was not seen which file
 * that is: conceals, where the name is secret, the file that is known to have had it (ino
 * 0: none), and what has it by now. */
void shfs_contents_conceal_unseen(struct shfs_contents *contents,
                                  const struct shfs_event_file *file, const char *was,
                                  const char *path);

/* Does its size or mtime differ from when it was last taken? True if it never was. */
bool shfs_contents_is_changed(struct shfs_contents *contents,
                              const struct shfs_event_file *file);

/* Only its mtime was set; the content is unchanged. */
void shfs_contents_touch(struct shfs_contents *contents,
                         const struct shfs_event_file *file);

/* A file that was found has a secret name: see shfs_snapshot_take_secret. fd:
 * readable. */
void shfs_contents_learn_secret(struct shfs_contents *contents, int fd);

/* A file as events describe it. dev: as there. */
static inline struct shfs_event_file shfs_contents_file(const struct stat *st,
                                                        uint64_t dev)
{
	return (struct shfs_event_file){
		.dev = dev,
		.ino = st->st_ino,
		.bytes = (uint64_t)st->st_size,
		.mtime_ns = shfs_timespec_ns(st->st_mtim),
		.ctime_ns = shfs_timespec_ns(st->st_ctim),
		.mode = st->st_mode,
		.nlink = (uint32_t)st->st_nlink,
		.uid = st->st_uid,
	};
}

/* Archives the content of a file that the baseline found. fd: readable. */
struct shfs_held shfs_contents_found(struct shfs_contents *contents, int fd,
                                     const struct shfs_event_file *file);
