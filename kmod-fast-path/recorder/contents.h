/* SPDX-License-Identifier: MIT */
/*
 * contents.h - what files hold, read after the fact: the bytes are those of the event, or
 * known not to be.
 *
 * Nobody waits for us in the kernel, so when an event is read, its file may have been
 * changed again. What is read is compared with what the event says of size and mtime,
 * before and after. While it is read it is under a read lease (fcntl(2), F_SETLEASE),
 * where the kernel gives one: then who opens the file to write waits for that moment, as
 * on a mount. A content that was superseded before it could be read is known by its size
 * and times alone, and INCOMPLETE.
 *
 * Thread-safe.
 */
#pragma once

#include "common/event.h"
#include "store/capture/capture.h"
#include "store/capture/project-rules.h"

struct shfs_contents;

/* A content for a record: as a snapshot (a reference; to be unref'ed), or where that is
 * NULL by value. */
struct shfs_held {
	struct shfs_snapshot *snapshot;
	struct shfs_content value;
};

/* All borrowed. late: size and times of an event are those that the driver has looked up
 * after the close; a file that somebody has open to write by then may hold half of what
 * they write, so its content is INCOMPLETE. -ENOMEM. */
_must_check_ int shfs_contents_new(struct shfs_capture *capture,
                                   const struct shfs_config *config,
                                   struct shfs_project_rules *rules, int root_fd,
                                   bool late, struct shfs_contents **out);
void shfs_contents_free(struct shfs_contents *contents); /* NULL is fine */

/* Why a content is wanted. */
enum shfs_contents_why {
	SHFS_CONTENTS_READ, /* kept if it is a script or configuration, recognised else */
	SHFS_CONTENTS_NAMED,          /* it has another name: kept */
	SHFS_CONTENTS_RENAMED_SECRET, /* so, and had a secret name: it stays secret */
	SHFS_CONTENTS_WRITTEN, /* kept, and read also where size and mtime are as before
	                        */
};

/* What the file of the event held then, at path. content_fd: as in driver.h, or -1: it is
 * opened by its path. at_ns: when that was (CLOCK_REALTIME). author: as in
 * shfs_snapshot_author. */
struct shfs_held shfs_contents_take(struct shfs_contents *contents,
                                    const struct shfs_event_file *file, const char *path,
                                    int content_fd, int64_t at_ns,
                                    enum shfs_contents_why why, uid_t author);

/* Takes what the file at path holds now, if it is still that of the event. */
void shfs_contents_look(struct shfs_contents *contents,
                        const struct shfs_event_file *file, const char *path);

/* What it held when it was last taken, of a file that is not to be found any more. */
struct shfs_held shfs_contents_last(struct shfs_contents *contents,
                                    const struct shfs_event_file *file);

/* The file at path has lost this name: as shfs_snapshot_gone. */
void shfs_contents_gone(struct shfs_contents *contents, const char *path);

/* A directory is at path now, and was at was: files below it may have got, or lost, a
 * secret name by that. */
void shfs_contents_conceal_below(struct shfs_contents *contents, const char *was,
                                 const char *path);

/* Has it another size or mtime than when it was last taken? True where it never was. */
bool shfs_contents_is_changed(struct shfs_contents *contents,
                              const struct shfs_event_file *file);

/* Nobody has changed it, but its mtime was set. */
void shfs_contents_touch(struct shfs_contents *contents,
                         const struct shfs_event_file *file);

/* A file that is found has a secret name: as shfs_snapshot_take_secret. fd: readable. */
void shfs_contents_learn_secret(struct shfs_contents *contents, int fd);

/* What a file that is found holds, of the baseline: archived. fd: readable. */
struct shfs_held shfs_contents_found(struct shfs_contents *contents, int fd,
                                     const struct shfs_event_file *file);
