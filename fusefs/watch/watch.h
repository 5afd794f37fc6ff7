/* SPDX-License-Identifier: MIT */
/*
 * watch.h - the capture promises: what a file held before it changed, what each close
 * left, what each reader saw.
 *
 * A node's watch knows the snapshot of what its file holds now (current), or that it has
 * been changed since. Before the first change current is archived and, where no close
 * made it, recorded (PREIMAGE); the change waits, at most config.wait_ms, until it has
 * been read. When a written file's last close has come (RELEASE), the content is archived
 * and becomes current, and one ACCESS for each writer names it. RELEASE lags behind
 * close(2); a FLUSH does not. So a reader, the next change, a rename or a sync that needs
 * the content after a FLUSH has it captured then:
 *
 * 1. A writes and closes: FLUSH comes, RELEASE is still on its way.
 * 2. B opens the file.
 * 3. The content is captured by that open, as the one that A left.
 *
 * Commands may share an open file (exec 3>>log): between the last write of one job of the
 * shell and the first of another it is captured too, and between two of the shell's own
 * writes that are not close together. It is not captured between the processes of one
 * job, which may be thousands. It is captured, too, when another process opens it to read
 * while its writers are silent, as with a server's log.
 *
 * Writes that the kernel does without us (passthrough.h) are noticed by the file's size
 * and mtime whenever the watch is locked. They cannot be held up. So what another writer
 * leaves beside them is captured as it closes the file, and a capture reads the file
 * until that stays the same meanwhile, three times at most; then the version is
 * INCOMPLETE.
 *
 * All functions are thread-safe. Nothing here fails: what cannot be recorded is counted
 * by the capture. Nodes that are hidden, or no regular files, are left alone.
 */
#pragma once

#include "fusefs/nodes/node.h"
#include "fusefs/watch/caller.h"
#include "fusefs/watch/passthrough.h"

#include <stdatomic.h>

struct shfs_fs;
struct shfs_open;

/* What the kernel adds to the flags of open(2) when a program is executed. */
#define SHFS_O_EXEC 0x20

/* --- open files --- */

struct shfs_writer {
	uint32_t tid;
	uint64_t process;
	struct shfs_job job;
	struct shfs_time last;
	uint64_t checked_ns; /* when tid was last looked up; CLOCK_BOOTTIME */
	uint32_t flags;      /* enum shfs_access_flags */
};

#define SHFS_WRITERS_MAX 8

/* A writer wrote until then, and later again: maybe a shell, in a further line. */
struct shfs_line {
	uint64_t process;
	struct shfs_time last;
};

#define SHFS_LINES_MAX 64

struct shfs_handle {
	struct shfs_node *node;  /* referenced */
	struct shfs_name *name;  /* by which it was opened, referenced */
	int fd;                  /* owned; of the file beneath */
	uint64_t fh;             /* in fs.heir; 0: the kernel does not know it */
	bool readable, is_quiet; /* is_quiet: to read fd does not set its atime */
	/* once shfs_handle_begin_io was called */
	bool keeps_cache; /* what the kernel has cached of the file may be read through it
	                   */
	struct shfs_passed passed; /* passthrough.c's */
	/* the rest is watch.c's */
	bool is_mapped; /* it is mappable, and the file was changed: that may go on unseen
	                 */
	struct shfs_writer self;
	uint64_t closed_ns; /* when it was closed last; CLOCK_BOOTTIME */
	bool reads, writable, flushed;
	bool closed; /* all its descriptors, as far as is known; mappings may be there */
	bool wrote;  /* since it was captured; what an open with O_TRUNC did aside */
	unsigned last_writer;
	uint32_t uid; /* who opened it */
	atomic_bool is_dirty, tells_read;
	uint32_t flags;  /* of its ACCESS: CREATED, APPEND, EXEC, ... */
	uint64_t opener; /* that of self */
	struct shfs_time begin;
	struct shfs_snapshot *seen; /* what was there at open; NULL: being changed */
	struct shfs_writer writers[SHFS_WRITERS_MAX];
	unsigned n_writers;
	struct shfs_line *lines; /* SHFS_LINES_MAX, or NULL: there was none */
	unsigned n_lines;
	struct shfs_handle *prev, *next;           /* of the node's dirty ones */
	struct shfs_handle *prev_open, *next_open; /* of the mount's */
};

/*
 * An open file: takes fd over, whatever happens, and a reference of node. flags are those
 * of open(2); created: by this open; uid: of who opens it. NULL: no memory.
 */
struct shfs_handle *shfs_handle_new(struct shfs_fs *fs, struct shfs_node *node, int fd,
                                    int flags, bool created, uint32_t tid, uint32_t uid);

/* How the kernel is to use it, once all that its open does to the file is done: just
 * before the reply. flags are those of open(2), for a caller uid, gid. */
void shfs_handle_begin_io(struct shfs_fs *fs, struct shfs_handle *handle, int flags,
                          uint32_t uid, uint32_t gid);

/* The same for one that a server before us has opened, and that is used as it said. */
void shfs_handle_resume_io(struct shfs_fs *fs, struct shfs_handle *handle,
                           const struct shfs_open *open, uint32_t tid);

/* The call that is about to be made: with its result, this tells whether the file was
 * changed. */
enum shfs_change_kind {
	SHFS_CHANGE_WRITE,
	SHFS_CHANGE_MAPPED, /* what was stored to a mapping is written back */
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
	bool is_first; /* that the heir is told of */
	bool done;     /* a part of it at least */
};

/*
 * Begin and end enclose one call that may change the file through handle, by thread tid
 * (MAPPED: 0). In between the file is locked: nothing is captured while it changes. The
 * end takes the call's result, bytes or 0 or -errno: where that tells that nothing was
 * done, there was no change.
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
 * 2. Somebody reads or closes the file, and it is captured: that version is INCOMPLETE.
 * 3. The next request comes, and goes on with the same write.
 */
struct shfs_change shfs_watch_begin_write(struct shfs_fs *fs, struct shfs_handle *handle,
                                          uint32_t tid, off_t offset);

/* It was read through. */
void shfs_watch_read(struct shfs_handle *handle);

/* One of its descriptors was closed by thread tid. */
void shfs_watch_flush(struct shfs_fs *fs, struct shfs_handle *handle, uint32_t tid);

/* The end of its use: records it and frees the handle. */
void shfs_watch_release(struct shfs_fs *fs, struct shfs_handle *handle);

/* Releases what is still open, after the last request: the kernel tells no RELEASE of
 * files that were closed just before the mount went. */
void shfs_watch_release_all(struct shfs_fs *fs);

/* --- files that are not open --- */

/* Begins the change of a truncate(2) of fd. The caller records it before it calls
 * shfs_watch_end_change. */
struct shfs_change shfs_watch_begin_truncate(struct shfs_fs *fs, struct shfs_node *node,
                                             int fd, uint32_t tid);
/* Has it changed the file, by its result? Then *content is what that holds now, as
 * shfs_watch_content. */
bool shfs_watch_has_truncated(struct shfs_fs *fs, struct shfs_node *node,
                              struct shfs_change *change, int result,
                              struct shfs_snapshot **content);

/* What the file holds now, for a record that names it; archive: so that it can be brought
 * back. coming: the rule of a name that it is about to get, which may want that too, or
 * IGNORE. NULL while it is being changed. To be unref'ed. */
struct shfs_snapshot *shfs_watch_content(struct shfs_fs *fs, struct shfs_node *node,
                                         bool archive, enum shfs_rule coming);

/* The same of a file that is about to lose its name, archived: also where it is still
 * being written, for it may not be found by that name any more. */
struct shfs_snapshot *shfs_watch_last_content(struct shfs_fs *fs, struct shfs_node *node);

/* Around setting its mode, owner or times, until that is recorded: that makes no other
 * content. *changing: it is being written, so what is set is no state of a version. What
 * begin returned (NULL: not watched) goes to end. */
struct shfs_watch *shfs_watch_begin_touch(struct shfs_fs *fs, struct shfs_node *node,
                                          bool times, bool *changing);
void shfs_watch_end_touch(struct shfs_watch *watch, int fd);

/* Captures it if its last close has been seen; all such files. */
void shfs_watch_settle(struct shfs_fs *fs, struct shfs_node *node);
void shfs_watch_settle_all(struct shfs_fs *fs);

/* The file has got a secret name, or is a directory that has got another one, which makes
 * files below it secret: as shfs_snapshot_conceal. */
void shfs_watch_conceal(struct shfs_fs *fs, struct shfs_node *node);

/* Is the file (NULL: any file) open for a reader that is still to be recorded? */
bool shfs_watch_is_read(struct shfs_fs *fs, const struct shfs_node *node);

/* Is it open elsewhere so that it may be stored to by a mapping of the mount's pages? */
bool shfs_watch_may_be_mapped(struct shfs_fs *fs, const struct shfs_handle *but);

/* For shfs_tree_new. */
void shfs_watch_free(struct shfs_watch *watch);
