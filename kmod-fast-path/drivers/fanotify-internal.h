/* SPDX-License-Identifier: MIT */
/*
 * fanotify-internal.h - the parts of the fanotify driver to each other.
 *
 * The kernel reports closes in one queue, names in a second, processes in a third. Each
 * queue keeps its own order, but no event has a time that would order it against the
 * other queues. The driver merges them so that, where nothing better is known, a file is
 * made before it is closed, and closed before it is renamed or unlinked
 * (docs/fast-path.md, fanotify).
 */
#pragma once

#include "kmod-fast-path/drivers/connector.h"
#include "kmod-fast-path/drivers/event-text.h"

#include <sys/stat.h>
#include <sys/statfs.h>

#define FAN_HANDLE_MAX 128

/* The mount of the root, which is the first, or one below it. Mounts are not held open,
 * so that they can be unmounted. */
struct fan_place {
	uint64_t mount_id; /* 0: it was unmounted */
	char *path;        /* as this process reaches it; NULL: the root */
	dev_t dev;
	fsid_t fsid;
	bool seen;
};

struct fan_key {
	uint32_t place, bytes, type;
	unsigned char handle[FAN_HANDLE_MAX];
};

/* A file or a directory, by its handle: that stays the same when it is renamed. */
struct fan_object {
	struct fan_key key;
	char *path;          /* of a directory: its full path; of a file: a name of it */
	uint64_t path_epoch; /* in which it was looked up; of a file: n_moves */
	int64_t ctime_ns;    /* when it was closed last; 0 unknown */
	bool ctime_unsure;   /* it may have been written again with the same one */
	bool gone;           /* a directory that was removed, from this path */
	uint32_t creator;    /* pid that has made it, and has not closed it yet */
	uint32_t executor;   /* pid that has opened it to execute it */
	struct fan_name *first, *last; /* of it, among those that are not told yet */
	uint32_t waiting;              /* names that are not told yet and point here */
	UT_hash_handle hh;             /* those that were used last at the end */
};

/* An event of a name. */
struct fan_name {
	enum { FAN_NAME_CREATE, FAN_NAME_CHANGE, FAN_NAME_DELETE, FAN_NAME_RENAME } kind;
	uint32_t pid;
	bool is_dir, is_link;
	bool moves_out; /* out of the root */
	bool replaces;  /* another file had the new name */
	bool exchanged; /* with the one before, as part of which it is told */
	unsigned waits; /* for where it was */
	size_t index;
	struct fan_object *dir, *dir2, *child;
	char *name, *name2;
	char *where, *where2;  /* full paths of the directories, at the time of
	                        * reading; NULL: unknown */
	char *from, *to;       /* full paths when it happened; of renamed directories */
	struct stat st;        /* of the child, if it could be read; else zeros */
	struct fan_name *next; /* next event of the same child */
};

/* A close as it was read. */
struct fan_close {
	int fd; /* -1: a file that cannot be reported, or a full kernel queue */
	uint32_t pid;
	uint64_t mask;
};

/* A file that was opened to be executed. */
struct fan_program {
	uint32_t pid;
	char *path;
	uint64_t opened_ns; /* opened no later than this, CLOCK_BOOTTIME */
};

#define FAN_PROGRAMS        1024 /* so many are remembered */
#define FAN_ELSEWHERE_SLOTS 4096
#define FAN_MOVES           64
#define FAN_CLOSES_MAX      65536 /* read, and not reported yet */

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
	bool ignores; /* the kernel can ignore reads in a directory */
	uint64_t not_ignored[FAN_ELSEWHERE_SLOTS]; /* hashes of directories */
	bool armed;                                /* closes and names wake the poller */
	struct shfs_connector *processes;
	struct fan_close *closes; /* a ring */
	size_t first_close, n_closes, room_closes;
	uint64_t lost;                             /* not reported yet */
	struct fan_program programs[FAN_PROGRAMS]; /* a ring */
	size_t n_programs;                         /* all that were ever in it */
	struct fan_object *objects;
	uint64_t epoch; /* rises when a directory is renamed */

	struct fan_name **names; /* not reported yet, in order; NULL: dropped */
	size_t first_name;       /* the index of names[0] */
	size_t n_names, room_names;
	size_t n_moved_out;             /* of names */
	struct fan_name **renamed_dirs; /* those of names that are renames of
	                                 * directories */
	size_t n_renamed_dirs;
	struct fan_move moves[FAN_MOVES]; /* the last renames of directories */
	uint64_t n_moves;
	int64_t names_read_ns; /* CLOCK_REALTIME when the queue was last empty */

	int64_t since_real_ns;  /* when the driver was opened */
	int64_t real_offset_ns; /* CLOCK_BOOTTIME - CLOCK_REALTIME */
	int64_t tick_ns;        /* granularity of inode times */
	bool told;              /* this drain has reported events */
	shfs_event_sink sink;
	void *arg;
	struct shfs_event_room room;
};

/* --- fanotify.c --- */

/* An event of this process, with its time and number; NULL: it must not be reported. */
struct shfs_event *fan_event(struct shfs_driver *d, unsigned type, uint32_t pid);
void fan_tell(struct shfs_driver *d, int content_fd);

/* The path relative to the root, borrowed from path; NULL: it is outside. */
const char *fan_below(struct shfs_driver *d, const char *path);

/* The current path of the file that fd is open on; NULL. */
char *fan_path_of(struct shfs_driver *d, int fd);

void fan_file_of_stat(struct shfs_event_file *file, const struct stat *st);

/* --- fanotify-places.c --- */

/* Finds the mounts below the root, and has them watched. -errno, with why: the mount of
 * the root cannot be watched. */
int fan_places_open(struct shfs_driver *d, const struct shfs_watch_order *order,
                    struct shfs_buf *why);
/* Reads the mounts again if they have changed. */
void fan_places_refresh(struct shfs_driver *d);
void fan_places_free(struct shfs_driver *d);
bool fan_places_has_mount(const struct shfs_driver *d, uint64_t mount_id);
/* Opens any file or directory of that mount; -errno. */
int fan_place_open(const struct shfs_driver *d, uint32_t place);

int fan_closes_mark(struct shfs_driver *d, int dir_fd);

/* Called when a file outside the root was read: ignores its directory from now on, if no
 * file there can get below the root. */
void fan_ignore_dir_of(struct shfs_driver *d, const char *path, const struct statx *st);
void fan_ignore_none(struct shfs_driver *d);

/* --- fanotify-programs.c --- */

/* Has the queue of closes also report executed programs, in the directories where they
 * usually are. */
void fan_programs_mark(struct shfs_driver *d);
/* Takes ownership of path, which may be NULL. */
void fan_programs_note(struct shfs_driver *d, uint32_t pid, char *path);
/* The program that the process (start_ns: CLOCK_BOOTTIME) executed last, or the
 * interpreter of a script; borrowed. NULL: not known. */
const char *fan_programs_find(const struct shfs_driver *d, uint32_t pid,
                              uint64_t start_ns);
void fan_programs_free(struct shfs_driver *d);

/* --- fanotify-objects.c --- */

struct fan_object *fan_object(struct shfs_driver *d, uint32_t place, uint32_t type,
                              const void *handle, uint32_t bytes);
/* The object of an open file on this device. NULL: it has no handle. */
struct fan_object *fan_object_of_fd(struct shfs_driver *d, int fd, dev_t dev);
/* An O_PATH descriptor; -errno, -ESTALE if the object is gone. */
int fan_object_open(struct shfs_driver *d, const struct fan_object *object);
uint64_t fan_object_ino(const struct fan_object *object); /* 0: unknown */
uint32_t fan_object_generation(const struct fan_object *object);
void fan_objects_trim(struct shfs_driver *d);
/* Closes were lost: a process that made a file, or executes it, may have closed it. */
void fan_objects_forget_users(struct shfs_driver *d);
void fan_objects_free(struct shfs_driver *d);

/* --- fanotify-names.c --- */

int fan_names_open(struct shfs_driver *d, struct shfs_buf *why);
int fan_names_mark(struct shfs_driver *d, int dir_fd);

/* Reads all queued names. Returns their number, or -errno. */
int fan_names_read(struct shfs_driver *d);

/* The index of the first name whose directory is gone and has no known path yet; the end
 * if there is none. Such a name does not wait forever. */
size_t fan_names_known(struct shfs_driver *d);

/* Reports the names before this index. */
void fan_names_tell(struct shfs_driver *d, size_t end);
void fan_names_free(struct shfs_driver *d);

/* Rewinds a full path (owned, replaced) from its state after all names that were read to
 * its state before the name with this index. */
char *fan_names_rewind(struct shfs_driver *d, char *path, size_t index);
/* The same for a name (owned) in the directory where (borrowed; NULL: unknown, as is the
 * result). */
char *fan_names_then(struct shfs_driver *d, const char *where, const char *name,
                     size_t index);

/* Remembers a current name of the file, for when it gets another. */
void fan_remember(struct shfs_driver *d, struct fan_object *file, const char *path);
char *fan_remembered(const struct shfs_driver *d, const struct fan_object *file);

/* --- fanotify-order.c --- */

/*
 * Finds the position among the names where a close of this file belongs, and the path
 * that the file had then.
 */
struct fan_closer {
	uint64_t start_ns, exit_ns; /* of the process that closed it; 0: unknown, still
	                             * alive */
	bool deleted;               /* path is the one that the file had when it lost
	                             * its name */
	char **path;                /* the current path; owned, replaced; maybe outside */
};
size_t fan_names_place(struct shfs_driver *d, const struct fan_object *object,
                       struct fan_closer *closer);
