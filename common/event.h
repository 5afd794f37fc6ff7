/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * event.h - events of files and processes that the kernel reports without FUSE: one
 * layout for the module, the BPF programs, and their readers.
 *
 * An event is a header, one of four bodies by its type, and text. All of it is in host
 * order and never stored: the journal has its own records (record.h), which
 * kmod-fast-path/recorder/recorder.c makes of events. An incompatible change raises
 * SHFS_EVENT_VERSION; module, helper and recorder of different versions refuse each
 * other.
 *
 * The kernel includes this header and nothing else of the project.
 */
#ifndef SHFS_COMMON_EVENT_H
#define SHFS_COMMON_EVENT_H

#ifndef SHFS_EVENT_NO_TYPES /* defined by files that get the types elsewhere */
#include <linux/types.h>
#endif

#define SHFS_EVENT_VERSION 1

enum shfs_event_type {
	/* with shfs_event_file; text: its path below the root, or its last one */
	SHFS_EVENT_CLOSE =
		1, /* an open file has ended: all its descriptors and mappings */
	SHFS_EVENT_WRITE = 2, /* a program writes through an open file that it has not
	                         written last; for the shell of a terminal, each
	                         SHFS_EVENT_LINE_NS. Size and times are those before. */
	SHFS_EVENT_RENAME =
		3, /* text, text2: from, to; an empty one: outside of the root */
	SHFS_EVENT_LINK = 4,     /* text, text2: a name of the file, the new one */
	SHFS_EVENT_UNLINK = 5,   /* also of a directory (by mode) */
	SHFS_EVENT_TRUNCATE = 6, /* truncate(2), no open file */
	SHFS_EVENT_MAKE = 7, /* a directory or other file is made without an open; text2:
	                        the target of a symbolic link */
	SHFS_EVENT_CHANGE = 8, /* its mode, owner or times were set */
	/* with shfs_event_child */
	SHFS_EVENT_FORK = 16, /* the process has made another one */
	/* with shfs_event_file, of the program; text: its name as given, text2:
	   arguments, separated by NUL, cut at SHFS_EVENT_ARGV_MAX */
	SHFS_EVENT_EXEC = 17,
	SHFS_EVENT_EXIT = 18, /* the process's last thread has ended; with USAGE: with
	                         shfs_event_exit */
	/* with shfs_event_lost */
	SHFS_EVENT_LOST = 32, /* events found no room; process: 0 */
	/* with shfs_event_file; text: its path. For SHFS_EVENT_BELOW. */
	SHFS_EVENT_DIRECTORY = 33,
};

enum shfs_event_flags {
	/* of CLOSE: how the file was opened, and what was really done */
	SHFS_EVENT_READABLE = 1 << 0,
	SHFS_EVENT_WRITABLE = 1 << 1,
	SHFS_EVENT_WRITTEN = 1 << 2, /* written, or truncated while it was open */
	SHFS_EVENT_MAPPED = 1 << 3,  /* a shared mapping of it could be written */
	SHFS_EVENT_CREATED = 1 << 4, /* by this open */
	SHFS_EVENT_TRUNCATED = 1 << 5,
	SHFS_EVENT_APPEND = 1 << 6,
	SHFS_EVENT_EXECUTED = 1 << 7, /* opened to be executed */
	SHFS_EVENT_SHARED =
		1 << 8, /* several processes may have written; the last known is named */
	SHFS_EVENT_LAST_WRITER = 1 << 9, /* no other open file may write to it now */
	SHFS_EVENT_INEXACT = 1 << 10,    /* the driver does not know whether it was the
	                                    last reference, or which process wrote */
	/* of RENAME */
	SHFS_EVENT_EXCHANGED = 1 << 12,
	SHFS_EVENT_REPLACED = 1 << 13, /* text2 named another file before */
	/* of LINK, with INEXACT: a later event shows that it is this file */
	SHFS_EVENT_CONFIRMED = 1 << 14,
	/* of any file */
	SHFS_EVENT_DIRECTORY_FILE = 1 << 16,
	SHFS_EVENT_CUT = 1 << 17, /* text was cut */
	/* text is only the last name; parent is its directory, reported before by
	 * SHFS_EVENT_DIRECTORY. Drivers resolve it: the recorder never sees it. */
	SHFS_EVENT_BELOW = 1 << 18,
	SHFS_EVENT_PINNED = 1 << 19, /* the driver keeps the content readable: pin */
	/* of EXEC: from the environment; neither: SHFS_HIDDEN is not set */
	SHFS_EVENT_HIDDEN = 1 << 20, /* SHFS_HIDDEN=1: the arguments are not recorded */
	SHFS_EVENT_SHOWN = 1 << 21,  /* SHFS_HIDDEN=0 */
	/* of EXIT: the driver knows what the process has used */
	SHFS_EVENT_USAGE = 1 << 22,
};

#define SHFS_EVENT_ENVIRON_MAX (1 << 20) /* most bytes of it that are searched */

/* The last 16 bytes of an environment that is read from its beginning; initially zeros.
 */
struct shfs_event_window {
	__u64 before, last;
};

/* Adds a byte. Returns SHFS_EVENT_HIDDEN or SHFS_EVENT_SHOWN if it ends such a variable.
 */
static inline __u32 shfs_event_window_add(struct shfs_event_window *w, __u8 byte)
{
	w->before = w->before >> 8 | w->last << 56;
	w->last = w->last >> 8 | (__u64)byte << 56;
	if (w->before >> 8 != 0x485f5346485300) /* NUL, "SHFS_H" */
		return 0;
	if (w->last == 0x00313d4e45444449) /* "IDDEN=1", NUL */
		return SHFS_EVENT_HIDDEN;
	return w->last == 0x00303d4e45444449 ? SHFS_EVENT_SHOWN : 0;
}

#define SHFS_EVENT_LINE_NS  100000 /* between two lines of a shell */
#define SHFS_EVENT_PATH_MAX 4096
#define SHFS_EVENT_ARGV_MAX 2048
#define SHFS_EVENT_SIZE_MAX 16384

/* The process of an event. Ids are those of the recorder's pid namespace; 0: outside of
 * it. */
struct shfs_event_process {
	__u32 pid, tid; /* of the process, of the thread */
	__u64 start_ns; /* of the process, CLOCK_BOOTTIME; 0 unknown */
	__u32 ppid;     /* at that moment; 0 unknown, as for the others */
	__u32 pgid, sid;
	__u32 tty; /* device number as in /proc/PID/stat */
	__u32 uid;
	__u32 reserved;
};

struct shfs_event_file {
	__u64 id;  /* CLOSE and WRITE: of the open file, unique as long as that exists; 0:
	              no WRITE was reported for it. EXCHANGED: ino of the other file; 0:
	              unknown */
	__u64 dev; /* st_dev of stat(2), if the driver can know it; 0: the file system of
	              the root */
	__u64 ino;
	__u64 parent; /* inode number of the directory */
	__u64 bytes;  /* size of the file */
	__s64 mtime_ns, ctime_ns;
	__u32 generation; /* i_generation, for handles; 0 unknown */
	__u32 mode;       /* type and permissions */
	__u32 nlink;
	__u32 uid; /* of the file's owner */
	__u64 pin; /* number of the module; with PINNED */
};

struct shfs_event_child {
	__u32 pid, reserved;
	__u64 start_ns;
};

/* What all threads of a process have used, in all programs that it executed. */
struct shfs_event_exit {
	__u32 status; /* as wait(2) gives it */
	__u32 reserved;
	__u64 user_us, system_us; /* CPU time */
	__u64 max_rss_kib;        /* the most memory that one of its programs had */
};

struct shfs_event_lost {
	__u64 count;
};

struct shfs_event {
	__u32 size; /* of the whole event, a multiple of 8 */
	__u16 type; /* enum shfs_event_type */
	__u16 cpu;
	__u32 flags;
	__u16 text_len, text2_len; /* text2 follows text at once; neither ends in NUL */
	__u64 sequence; /* rises by one for each event of a ring, also for lost ones */
	__u64 time_ns;  /* CLOCK_BOOTTIME */
	struct shfs_event_process process;
	union {
		struct shfs_event_file file;
		struct shfs_event_child child;
		struct shfs_event_exit exit;
		struct shfs_event_lost lost;
	};
	char text[];
};

#endif
