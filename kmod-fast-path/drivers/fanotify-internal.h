/* SPDX-License-Identifier: MIT */
/*
 * fanotify-internal.h - the parts of the fanotify driver.
 *
 * The kernel reports closes in one queue, names in another, and processes in a third.
 * Each queue keeps its own order, but no event has a time that would order it among those
 * of the other queues. Where nothing better is known, the events are merged so that a
 * file is created before it is closed, and closed before it is renamed or unlinked
 * (docs/fast-path.md, fanotify).
 */
#pragma once

#include "kmod-fast-path/drivers/connector.h"
#include "kmod-fast-path/drivers/event-text.h"

#include <sys/stat.h>
#include <sys/statfs.h>

#define FAN_HANDLE_MAX 128

/* A mount: the first is that of the root, the others are below it. These are not held
 * open, so that they can be unmounted. */
struct fan_mount {
	uint64_t mount_id; /* 0: the mount is gone */
	char *path;        /* by which this process reaches it; NULL: the root */
	dev_t dev;
	fsid_t fsid;
	bool seen;
};

struct fan_key {
	uint32_t mount, bytes, type;
	unsigned char handle[FAN_HANDLE_MAX];
};

#define FAN_NAMES_BEFORE 3

/* A file or a directory, identified by its handle, whatever its name is now. */
struct fan_object {
	struct fan_key key;
	char *path; /* full; of a directory, or one of the names of a file */
	char *before[FAN_NAMES_BEFORE]; /* of a file: other names, the last ones first */
	uint64_t path_epoch; /* when path was looked up: epoch; of a file: n_moves */
	int64_t ctime_ns;    /* at the last close; 0: unknown */
	bool ctime_unsure;   /* a later write may have left the same ctime */
	bool named;          /* the file is known to have had a name */
	bool gone;           /* the directory was removed; path was its last one */
	uint32_t creator;    /* pid that created the file and has not closed it yet */
	uint32_t executor;   /* pid that opened the file to execute it */
	struct fan_name *first, *last; /* its unreported names */
	uint32_t waiting;              /* number of unreported names that point here */
	UT_hash_handle hh;             /* the most recently used is the last */
};

/* An event that concerns a name. */
struct fan_name {
	enum { FAN_NAME_CREATE, FAN_NAME_CHANGE, FAN_NAME_DELETE, FAN_NAME_RENAME } kind;
	uint32_t pid;
	bool is_dir, is_link;
	bool moves_out; /* from below the root to outside */
	bool replaces;  /* another file had the new name */
	bool exchanged; /* second half of an exchange: reported with the name before it */
	bool placed;    /* whether it is below the root has been decided */
	unsigned waits; /* how often its directory was waited for */
	size_t index;
	struct fan_object *dir, *dir2, *child;
	char *name, *name2;
	char *where, *where2;  /* full paths of dir and dir2 when the event was read;
	                          NULL: unknown */
	char *from, *to;       /* of a renamed directory: full paths at the rename */
	struct stat st;        /* of the child; zeros if it could not be read */
	struct fan_name *next; /* of the same child */
};

/* A close as it was read. */
struct fan_close {
	int fd; /* -1: the kernel lost this close, or several as its queue was full */
	uint32_t pid;
	uint64_t mask;
};

/* A file that was opened to be executed. */
struct fan_program {
	uint32_t pid;
	char *path;
	uint64_t opened_ns; /* upper bound, CLOCK_BOOTTIME */
};

#define FAN_PROGRAMS        1024 /* that are remembered */
#define FAN_ELSEWHERE_SLOTS 4096
#define FAN_MOVES           64
#define FAN_CLOSES_MAX      65536 /* unreported */

struct fan_move {
	char *from, *to;
};

struct shfs_driver {
	uid_t uid;
	pid_t watcher;
	int root_fd, closes_fd, names_fd, mounts_fd, poll_fd;
	int self_fds;          /* /proc/self/fd */
	char *root, *old_root; /* present and previous path of the root */
	struct fan_mount *mounts;
	size_t n_mounts;
	bool ignores; /* the kernel supports ignore marks on directories */
	uint64_t not_ignored[FAN_ELSEWHERE_SLOTS]; /* hashes of directories */
	bool armed;                                /* closes and names wake the poller */
	struct shfs_connector *processes;
	struct fan_close *closes; /* a ring */
	size_t first_close, n_closes, room_closes;
	uint64_t lost;                             /* losses that are not reported yet */
	struct fan_program programs[FAN_PROGRAMS]; /* a ring */
	size_t n_programs;                         /* ever added to the ring */
	struct fan_object *objects;
	uint64_t epoch; /* rises with each renamed directory */

	struct fan_name **names; /* unreported, in order; NULL: dropped */
	size_t first_name;       /* index of names[0] */
	size_t n_names, room_names;
	size_t n_moved_out;             /* names with moves_out */
	struct fan_name **renamed_dirs; /* those of the names that rename a directory */
	size_t n_renamed_dirs;
	struct fan_move moves[FAN_MOVES]; /* a ring: the last renamed directories */
	uint64_t n_moves;
	int64_t names_read_ns; /* when the queue was last empty, CLOCK_REALTIME */

	int64_t since_real_ns;  /* when the driver was opened */
	int64_t real_offset_ns; /* CLOCK_BOOTTIME - CLOCK_REALTIME */
	int64_t tick_ns;        /* of the clock of inodes */
	bool told;              /* this drain has reported an event */
	shfs_event_sink sink;
	void *arg;
	struct shfs_event_room room;
};

/* --- fanotify.c --- */

/* Begins an event of this process, with its time and number; NULL: the process is not
 * watched. */
struct shfs_event *fan_event(struct shfs_driver *d, unsigned type, uint32_t pid);
void fan_tell(struct shfs_driver *d, int content_fd);

/* The part of path below the root, borrowed from it; NULL: path is outside. */
const char *fan_below(struct shfs_driver *d, const char *path);

/* The path that fd was opened by, as it is now; of a deleted file the last one; NULL. */
char *fan_path_of(struct shfs_driver *d, int fd);

void fan_file_of_stat(struct shfs_event_file *file, const struct stat *st);

/* --- fanotify-mounts.c --- */

/* Finds the mounts below the root and marks them. -errno, with why: the mount of the root
 * cannot be marked. */
int fan_mounts_open(struct shfs_driver *d, const struct shfs_subscription_order *order,
                    struct shfs_buf *why);
/* Reads the mounts again if they have changed since. */
void fan_mounts_refresh(struct shfs_driver *d);
void fan_mounts_free(struct shfs_driver *d);
bool fan_mounts_has_mount(const struct shfs_driver *d, uint64_t mount_id);
/* Opens a file or directory of the mount, any one; -errno. */
int fan_mount_open(const struct shfs_driver *d, uint32_t mount);

int fan_closes_mark(struct shfs_driver *d, int dir_fd);

/* Notes that a file outside the root was read: the kernel may ignore its directory from
 * now on. */
void fan_ignore_dir_of(struct shfs_driver *d, const char *path, const struct statx *st);
void fan_ignore_none(struct shfs_driver *d);

/* --- fanotify-programs.c --- */

/* Has the queue of closes also report programs that are executed from the usual
 * directories, which may be on other file systems than the root. */
void fan_programs_mark(struct shfs_driver *d);
/* Takes path, which may be NULL. */
void fan_programs_note(struct shfs_driver *d, uint32_t pid, char *path);
/* The program that the process executed last (of a script its interpreter), borrowed;
 * NULL: unknown. start_ns: of the process, CLOCK_BOOTTIME. */
const char *fan_programs_find(const struct shfs_driver *d, uint32_t pid,
                              uint64_t start_ns);
void fan_programs_free(struct shfs_driver *d);

/* --- fanotify-objects.c --- */

struct fan_object *fan_object(struct shfs_driver *d, uint32_t mount, uint32_t type,
                              const void *handle, uint32_t bytes);
/* The object of an open file on this device. NULL: the file has no handle. */
struct fan_object *fan_object_of_fd(struct shfs_driver *d, int fd, dev_t dev);
/* Opens the object with O_PATH; -errno, -ESTALE: it is gone. */
int fan_object_open(struct shfs_driver *d, const struct fan_object *object);
uint64_t fan_object_ino(const struct fan_object *object); /* 0: unknown */
uint32_t fan_object_generation(const struct fan_object *object);
void fan_objects_trim(struct shfs_driver *d);
/* Called when closes were lost: the creator or executor of a file may have closed it. */
void fan_objects_forget_users(struct shfs_driver *d);
void fan_objects_free(struct shfs_driver *d);

/* --- fanotify-names.c --- */

int fan_names_open(struct shfs_driver *d, struct shfs_buf *why);
int fan_names_mark(struct shfs_driver *d, int dir_fd);

/* Reads all events in the queue; returns their number, or -errno. */
int fan_names_read(struct shfs_driver *d);

/* The index of the first name whose directory is gone and was not located yet, or an
 * index behind the last name: there is none. A name is not waited for forever. */
size_t fan_names_known(struct shfs_driver *d);

/* Reports the names before this index. */
void fan_names_tell(struct shfs_driver *d, size_t end);
void fan_names_free(struct shfs_driver *d);

/* The full path before the name with this index, of what has this path after all names
 * that were read. Takes path; the result is owned. */
char *fan_names_rewind(struct shfs_driver *d, char *path, size_t index);
/* Returns the full path, owned, of the name in a directory before the name with this
 * index; where, the directory's path by now, is borrowed. NULL: where is NULL, or no
 * memory. */
char *fan_names_then(struct shfs_driver *d, const char *where, const char *name,
                     size_t index);

/* Remembers a path of a file, for when it gets another. */
void fan_remember(struct shfs_driver *d, struct fan_object *file, const char *path);
/* Returns the remembered path of a file as later renames of directories have left it;
 * owned. NULL: unknown. */
char *fan_remembered(const struct shfs_driver *d, const struct fan_object *file);

/* --- fanotify-order.c --- */

struct fan_closer {
	uint64_t start_ns, exit_ns; /* of the process that closed; 0: unknown, running */
	bool deleted;               /* path is the last name of a deleted file */
	char **path; /* present path, maybe outside; owned, replaced by that at the close
	              */
};
/* Returns the index of the name before which a close of this file is to be reported, and
 * sets *closer->path to the path at the close. */
size_t fan_names_put(struct shfs_driver *d, const struct fan_object *object,
                     struct fan_closer *closer);
