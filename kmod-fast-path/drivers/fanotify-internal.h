/* SPDX-License-Identifier: MIT */
/*
 * fanotify-internal.h - the parts of the fanotify driver.
 *
 * The kernel tells of closes and of names in two queues, and of processes in a third,
 * none of them with a time in it that would order them. Each queue keeps its own order.
 * What is read is put together so that a file is made before it is closed, and closed
 * before it is renamed or unlinked, where nothing better is known (docs/fast-path.md,
 * fanotify).
 */
#pragma once

#include "kmod-fast-path/drivers/connector.h"
#include "kmod-fast-path/drivers/event-text.h"

#include <sys/stat.h>
#include <sys/statfs.h>

#define FAN_HANDLE_MAX 128

/* The mount of the root, which is the first, or one below it. Those are not held open, so
 * that they can be unmounted. */
struct fan_place {
	uint64_t mount_id; /* 0: it is gone */
	char *path;        /* for us; NULL: the root */
	dev_t dev;
	fsid_t fsid;
	bool seen;
};

struct fan_key {
	uint32_t place, bytes, type;
	unsigned char handle[FAN_HANDLE_MAX];
};

/* A file or a directory, by its handle: it is the same where it is called otherwise. */
struct fan_object {
	struct fan_key key;
	char *path;          /* of a directory: its full path; of a file: a name of it */
	char *path_before;   /* of a file: the one that was remembered before that */
	uint64_t path_epoch; /* in which it was looked up; of a file: n_moves */
	int64_t ctime_ns;    /* when it was closed last; 0 unknown */
	bool ctime_unsure;   /* it may have been written again with the same one */
	bool named;          /* a file: it is known to have had a name */
	bool gone;           /* a directory that was removed, from this path */
	uint32_t creator;    /* pid that has made it, and has not closed it yet */
	uint32_t executor;   /* pid that has opened it to execute it */
	struct fan_name *first, *last; /* of it, among those that are not told yet */
	uint32_t waiting;              /* names that are not told yet and point here */
	UT_hash_handle hh;             /* those that were used last at the end */
};

/* Something that happened to a name. */
struct fan_name {
	enum { FAN_NAME_CREATE, FAN_NAME_CHANGE, FAN_NAME_DELETE, FAN_NAME_RENAME } kind;
	uint32_t pid;
	bool is_dir, is_link;
	bool moves_out; /* of the root */
	bool replaces;  /* another file had the new name */
	bool exchanged; /* with the one before, as part of which it is told */
	bool placed;    /* it is known whether it is below the root */
	unsigned waits; /* for where it was */
	size_t index;
	struct fan_object *dir, *dir2, *child;
	char *name, *name2;
	char *where, *where2;  /* full paths of the directories, as they were when it was
	                          read; NULL: unknown */
	char *from, *to;       /* full paths when it happened; of renamed directories */
	struct stat st;        /* of the child, where it could be seen; else zeros */
	struct fan_name *next; /* of the same child */
};

/* A close as it was read. */
struct fan_close {
	int fd; /* -1: one that cannot be told, or more: the kernel's queue was full */
	uint32_t pid;
	uint64_t mask;
};

/* A file that was opened to be executed. */
struct fan_program {
	uint32_t pid;
	char *path;
	uint64_t opened_ns; /* at the latest, CLOCK_BOOTTIME */
};

#define FAN_PROGRAMS        1024 /* the last ones */
#define FAN_ELSEWHERE_SLOTS 4096
#define FAN_MOVES           64
#define FAN_CLOSES_MAX      65536 /* that are read, and not told yet */

struct fan_move {
	char *from, *to;
};

struct shfs_driver {
	uid_t uid;
	pid_t watcher;
	int root_fd, closes_fd, names_fd, mounts_fd, poll_fd;
	int self_fds;          /* /proc/self/fd */
	char *root, *old_root; /* its path now, and before */
	struct fan_place *places;
	size_t n_places;
	bool ignores; /* the kernel can ignore what is read in a directory */
	uint64_t not_ignored[FAN_ELSEWHERE_SLOTS]; /* hashes of directories */
	bool armed;                                /* closes and names wake who waits */
	struct shfs_connector *processes;
	struct fan_close *closes; /* a ring */
	size_t first_close, n_closes, room_closes;
	uint64_t lost;                             /* and not told yet */
	struct fan_program programs[FAN_PROGRAMS]; /* a ring */
	size_t n_programs;                         /* that were ever in it */
	struct fan_object *objects;
	uint64_t epoch; /* rises with each directory that is renamed */

	struct fan_name **names; /* not told yet, in their order; NULL: dropped */
	size_t first_name;       /* index of the first of these */
	size_t n_names, room_names;
	size_t n_moved_out;             /* of these */
	struct fan_name **renamed_dirs; /* of these */
	size_t n_renamed_dirs;
	struct fan_move moves[FAN_MOVES]; /* the last directories that were renamed */
	uint64_t n_moves;
	int64_t names_read_ns; /* CLOCK_REALTIME, when none were left */

	int64_t since_real_ns;  /* when this was opened */
	int64_t real_offset_ns; /* CLOCK_BOOTTIME - CLOCK_REALTIME */
	int64_t tick_ns;        /* of the clock of inodes */
	bool told;              /* something, in this drain */
	shfs_event_sink sink;
	void *arg;
	struct shfs_event_room room;
};

/* --- driver-fanotify.c --- */

/* An event of this process, with its time and number; NULL: it is not to be told. */
struct shfs_event *fan_event(struct shfs_driver *d, unsigned type, uint32_t pid);
void fan_tell(struct shfs_driver *d, int content_fd);

/* The path below the root; NULL: outside. Borrowed from path. */
const char *fan_below(struct shfs_driver *d, const char *path);

/* The path that fd was opened by as it is now called; NULL. */
char *fan_path_of(struct shfs_driver *d, int fd);

void fan_file_of_stat(struct shfs_event_file *file, const struct stat *st);

/* --- fanotify-places.c --- */

/* Finds the mounts below the root, and has them watched. -errno, with why: that of the
 * root cannot be. */
int fan_places_open(struct shfs_driver *d, const struct shfs_watch_order *order,
                    struct shfs_buf *why);
/* Where mounts have changed since. */
void fan_places_refresh(struct shfs_driver *d);
void fan_places_free(struct shfs_driver *d);
bool fan_places_has_mount(const struct shfs_driver *d, uint64_t mount_id);
/* Of any file or directory there; -errno. */
int fan_place_open(const struct shfs_driver *d, uint32_t place);

int fan_closes_mark(struct shfs_driver *d, int dir_fd);

/* A file outside the root was read: is nothing to be heard of its directory again? */
void fan_ignore_dir_of(struct shfs_driver *d, const char *path, const struct statx *st);
void fan_ignore_none(struct shfs_driver *d);

/* --- fanotify-programs.c --- */

/* Has the closes' queue tell of programs that are executed where these usually are. */
void fan_programs_mark(struct shfs_driver *d);
/* Takes path, which may be NULL. */
void fan_programs_note(struct shfs_driver *d, uint32_t pid, char *path);
/* What the process (CLOCK_BOOTTIME of its start) executed last, its interpreter if that
 * is a script; borrowed. NULL: not known. */
const char *fan_programs_find(const struct shfs_driver *d, uint32_t pid,
                              uint64_t start_ns);
void fan_programs_free(struct shfs_driver *d);

/* --- fanotify-objects.c --- */

struct fan_object *fan_object(struct shfs_driver *d, uint32_t place, uint32_t type,
                              const void *handle, uint32_t bytes);
/* Of an open file, on this device. NULL: it has no handle. */
struct fan_object *fan_object_of_fd(struct shfs_driver *d, int fd, dev_t dev);
/* O_PATH; -errno, -ESTALE when it is gone. */
int fan_object_open(struct shfs_driver *d, const struct fan_object *object);
uint64_t fan_object_ino(const struct fan_object *object); /* 0 where it cannot be told */
uint32_t fan_object_generation(const struct fan_object *object);
void fan_objects_trim(struct shfs_driver *d);
/* Closes were lost: who has made a file, or executes it, may have closed it. */
void fan_objects_forget_users(struct shfs_driver *d);
void fan_objects_free(struct shfs_driver *d);

/* --- fanotify-names.c --- */

int fan_names_open(struct shfs_driver *d, struct shfs_buf *why);
int fan_names_mark(struct shfs_driver *d, int dir_fd);

/* Reads all that there is. A count, -errno. */
int fan_names_read(struct shfs_driver *d);

/* The index of the first that is in a directory that is gone, and of which is not told
 * yet where that was; behind all where there is none. It is not waited for forever. */
size_t fan_names_known(struct shfs_driver *d);

/* Tells those before this index. */
void fan_names_tell(struct shfs_driver *d, size_t end);
void fan_names_free(struct shfs_driver *d);

/* The full path (owned, replaced) that was called so after the names that were read, as
 * it was before the one with this index. */
char *fan_names_rewind(struct shfs_driver *d, char *path, size_t index);
/* The same for a name (owned) in the directory where (borrowed; NULL: unknown, as is the
 * result). */
char *fan_names_then(struct shfs_driver *d, const char *where, const char *name,
                     size_t index);

/* A name of a file, for when it gets another; as it is by now. */
void fan_remember(struct shfs_driver *d, struct fan_object *file, const char *path);
char *fan_remembered(const struct shfs_driver *d, const struct fan_object *file);

/* --- fanotify-order.c --- */

/*
 * Where among the names a close of this file belongs, and what the file was called then.
 */
struct fan_closer {
	uint64_t start_ns, exit_ns; /* of who has closed it; 0: unknown, not yet */
	bool deleted;               /* path is what it was called when it lost its name */
	char **path; /* what it is called now; owned, replaced. Maybe outside. */
};
size_t fan_names_place(struct shfs_driver *d, const struct fan_object *object,
                       struct fan_closer *closer);
