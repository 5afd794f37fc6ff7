/* SPDX-License-Identifier: MIT */
/*
 * watch.h - keeps the promises of a mount: captures what a file held before it changed,
 * what each close left, and what each reader saw.
 *
 * A node's watch has the snapshot of the file's present content (current), or notes that
 * the file has been changed since. Before the first change current is archived and, if no
 * close made it, recorded (PREIMAGE); the change waits, at most config.wait_ms, until it
 * has been read. When a written file's last close has come (RELEASE), the content is
 * archived and becomes current, and one ACCESS for each writer names it. RELEASE lags
 * behind close(2); a FLUSH does not. So a reader, the next change, a rename or a sync
 * that needs the content after a FLUSH has it captured then:
 *
 * 1. A writes and closes: FLUSH comes, RELEASE is still on its way.
 * 2. B opens the file.
 * 3. The content is captured by that open, as the one that A left.
 *
 * Commands may share an open file (exec 3>>log). It is also captured between the last
 * write of one job of the shell and the first of another, and between two of the shell's
 * own writes that are not close together; not between the processes of one job, which may
 * be thousands. And it is captured when another process opens it to read while its
 * writers are silent, as with a server's log.
 *
 * Writes that the kernel does without us (passthrough.h) are noticed by the file's size
 * and mtime whenever the watch is locked. They cannot be made to wait. So if another
 * writer closes the file meanwhile, the content is captured at that close. And a capture
 * reads the file again if it has changed during the read, three times at most; then the
 * version is INCOMPLETE.
 *
 * All functions are thread-safe. They do not fail: the capture counts what cannot be
 * recorded. Nodes that are hidden, or not regular files, are ignored.
 */
#pragma once

#include "fusefs/nodes/node.h"
#include "fusefs/watch/caller.h"
#include "fusefs/watch/passthrough.h"

#include <stdatomic.h>

struct shfs_fs;
struct shfs_open;

/* A flag that the kernel adds to those of open(2) when a program is executed. */
#define SHFS_O_EXEC 0x20

/* --- open files --- */

struct shfs_writer {
	uint32_t tid;
	uint64_t process;
	struct shfs_job job;
	struct shfs_time last;
	uint64_t checked_ns; /* last look-up of tid; CLOCK_BOOTTIME */
	uint32_t flags;      /* enum shfs_access_flags */
};

#define SHFS_WRITERS_MAX 8

/* The writes of a process up to a pause, as of a shell's line; later it wrote again. */
struct shfs_line {
	uint64_t process;
	struct shfs_time last;
};

#define SHFS_LINES_MAX 64

struct shfs_handle {
	struct shfs_node *node;  /* referenced */
	struct shfs_name *name;  /* by which it was opened, referenced */
	int fd;                  /* owned; of the lower file */
	uint64_t fh;             /* in fs.heir; 0: the kernel does not know it */
	bool readable, is_quiet; /* is_quiet: reading fd does not set the atime */
	/* once shfs_handle_begin_io was called */
	bool keeps_cache;          /* it may read what the kernel has cached */
	struct shfs_passed passed; /* of passthrough.c */
	/* the rest is of watch.c */
	bool is_mapped; /* it is mappable, and the file was changed, which may go on */
	struct shfs_writer self;
	uint64_t closed_ns; /* last close of a descriptor; CLOCK_BOOTTIME */
	bool reads, writable, flushed;
	bool scans;  /* its opener is a program whose reads are not recorded */
	bool closed; /* as far as is known, all descriptors; mappings may remain */
	bool wrote;  /* since the last capture; not by an open with O_TRUNC */
	unsigned last_writer;
	uint32_t uid; /* of the opener */
	atomic_bool is_dirty, tells_read;
	uint32_t flags;             /* of its ACCESS: CREATED, APPEND, EXEC, ... */
	uint64_t opener;            /* the process of self */
	int64_t directory_mtime_ns; /* of the directory, before it was created; or 0 */
	struct shfs_time begin;
	struct shfs_snapshot *seen; /* content at the open; NULL: being changed */
	struct shfs_writer writers[SHFS_WRITERS_MAX];
	unsigned n_writers;
	struct shfs_line *lines; /* SHFS_LINES_MAX; NULL: none yet */
	unsigned n_lines;
	struct shfs_handle *prev, *next;           /* list of the node's dirty ones */
	struct shfs_handle *prev_open, *next_open; /* list of the mount */
};

/*
 * Makes an open file. Takes ownership of fd, also after an error, and of a reference of
 * node. flags are those of open(2); created: by this open; uid: of the opener. NULL: no
 * memory.
 */
struct shfs_handle *shfs_handle_new(struct shfs_fs *fs, struct shfs_node *node, int fd,
                                    int flags, bool created, uint32_t tid, uint32_t uid);

/* Decides how the kernel is to use it. Called just before the reply, when the open has
 * done all that it does to the file. flags are those of open(2), for a caller uid, gid.
 */
void shfs_handle_begin_io(struct shfs_fs *fs, struct shfs_handle *handle, int flags,
                          uint32_t uid, uint32_t gid);

/* Resumes one that a dead server has opened, and that is used as that has decided. */
void shfs_handle_resume_io(struct shfs_fs *fs, struct shfs_handle *handle,
                           const struct shfs_open *open, uint32_t tid);

/* The call that is about to be made: with its result, this tells whether the file was
 * changed. */
enum shfs_change_kind {
	SHFS_CHANGE_WRITE,
	SHFS_CHANGE_MAPPED, /* data of a mapping is written back */
	SHFS_CHANGE_COPY,   /* copy_file_range(2) */
	SHFS_CHANGE_TRUNCATE,
	SHFS_CHANGE_ALLOCATE, /* fallocate(2) that adds room */
	SHFS_CHANGE_EMPTY,    /* fallocate(2) that empties or removes a range */
};

struct shfs_change {
	enum shfs_change_kind kind;
	struct shfs_watch *watch;   /* NULL: not watched */
	struct shfs_handle *handle; /* NULL: by name */
	int fd;
	struct shfs_writer writer;
	off_t offset, size_before;
	bool is_first; /* the first one through the handle, noted in the heir */
	bool done;     /* the file was changed, at least in part */
};

/*
 * Begin and end enclose one call that may change the file through handle, by thread tid
 * (MAPPED: 0). In between the watch is locked: nothing is captured while the file
 * changes. The end takes the call's result (bytes, 0 or -errno), which may show that
 * nothing was changed.
 */
struct shfs_change shfs_watch_begin_change(struct shfs_fs *fs, struct shfs_handle *handle,
                                           uint32_t tid, enum shfs_change_kind kind);
void shfs_watch_end_change(struct shfs_fs *fs, struct shfs_change *change,
                           ssize_t result);

/*
 * Begins the change of a WRITE request at offset, as shfs_watch_begin_change. The kernel
 * may make several requests of one write(2):
 *
 * 1. The first request has written its part.
 * 2. Another process reads or closes the file, and it is captured: that version is
 *    INCOMPLETE.
 * 3. The next request comes, and goes on with the same write.
 */
struct shfs_change shfs_watch_begin_write(struct shfs_fs *fs, struct shfs_handle *handle,
                                          uint32_t tid, off_t offset);

/* Notes that the file was read through handle. */
void shfs_watch_read(struct shfs_handle *handle);

/* Notes that thread tid has closed one of its descriptors. */
void shfs_watch_flush(struct shfs_fs *fs, struct shfs_handle *handle, uint32_t tid);

/* Ends the access: records it and frees the handle. */
void shfs_watch_release(struct shfs_fs *fs, struct shfs_handle *handle);

/* Releases files that are still open, after the last request: the kernel sends no RELEASE
 * for files that were closed just before the unmount. */
void shfs_watch_release_all(struct shfs_fs *fs);

/* --- files that are not open --- */

/* Begins the change of a truncate(2) of fd by process. The caller records it before it
 * calls shfs_watch_end_change. */
struct shfs_change shfs_watch_begin_truncate(struct shfs_fs *fs, struct shfs_node *node,
                                             int fd, uint64_t process);
/* Has the truncate(2) changed the file, by its result? Then *content is the present
 * content, as of shfs_watch_content. */
bool shfs_watch_has_truncated(struct shfs_fs *fs, struct shfs_node *node,
                              struct shfs_change *change, int result,
                              struct shfs_snapshot **content);

/* Returns the file's present content, for a record; the caller unrefs it. archive:
 * archive it. coming: the rule of a name that the file is about to get, which may demand
 * that too, or IGNORE. NULL: the file is being changed. */
struct shfs_snapshot *shfs_watch_content(struct shfs_fs *fs, struct shfs_node *node,
                                         bool archive, enum shfs_rule coming);

/* Returns the content of a file that is about to lose its name, archived; also if it is
 * still being written, as it may not be found by that name any more. */
struct shfs_snapshot *shfs_watch_last_content(struct shfs_fs *fs, struct shfs_node *node);

/* Begin and end enclose setting a file's mode, owner or times, and the record of that,
 * which makes no new version. *changing: the file is being written, so the attributes do
 * not belong to a version. The result of begin (NULL: not watched) is passed to end. */
struct shfs_watch *shfs_watch_begin_touch(struct shfs_fs *fs, struct shfs_node *node,
                                          bool times, bool *changing);
void shfs_watch_end_touch(struct shfs_watch *watch, int fd);

/* Capture the file if its last close has been seen; or all such files. */
void shfs_watch_settle(struct shfs_fs *fs, struct shfs_node *node);
void shfs_watch_settle_all(struct shfs_fs *fs);

/* Conceals (shfs_snapshot_conceal) the content of a file that has got a secret name; or
 * of files in a directory whose new name makes them secret. */
void shfs_watch_conceal(struct shfs_fs *fs, struct shfs_node *node);

/* Is the file (NULL: any file) open for a reader that is not recorded yet? */
bool shfs_watch_is_read(struct shfs_fs *fs, const struct shfs_node *node);

/* Has the file another open file through which it may be mapped, so that stores to pages
 * of the mount may come late? */
bool shfs_watch_may_be_mapped(struct shfs_fs *fs, const struct shfs_handle *but);

/* Frees a watch; passed to shfs_tree_new. */
void shfs_watch_free(void *watch);
