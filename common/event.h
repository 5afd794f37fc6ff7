/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * event.h - what the kernel tells of files and processes where no FUSE layer stands
 * between: one layout for the module, the BPF programs, and those who read them.
 *
 * An event is a header, one of three bodies by its type, and text. All of it is in host
 * order and never stored: the journal has its own records (record.h), which
 * kmod-fast-path/recorder/recorder.c makes of these. A change that is not compatible
 * raises SHFS_EVENT_VERSION; module, helper and recorder of different versions refuse
 * each other.
 *
 * The kernel includes this header and nothing else of the project.
 */
#ifndef SHFS_COMMON_EVENT_H
#define SHFS_COMMON_EVENT_H

#ifndef SHFS_EVENT_NO_TYPES /* who has them of elsewhere */
#include <linux/types.h>
#endif

#define SHFS_EVENT_VERSION 1

enum shfs_event_type {
	/* with shfs_event_file; text: its path below the root, or what was its last one
	 */
	SHFS_EVENT_CLOSE =
		1, /* an open file has ended: all its descriptors and mappings */
	SHFS_EVENT_WRITE = 2, /* this program is the first, or another than the one
	                         before, that writes through an open file; of the shell
	                         of a terminal each SHFS_EVENT_LINE_NS. The size and times
	                         are those from before it. */
	SHFS_EVENT_RENAME =
		3, /* text, text2: from, to; one of them may be empty: outside */
	SHFS_EVENT_LINK = 4,     /* text, text2: a name of it, the new one */
	SHFS_EVENT_UNLINK = 5,   /* also of a directory (by mode) */
	SHFS_EVENT_TRUNCATE = 6, /* truncate(2), no open file */
	SHFS_EVENT_MAKE = 7, /* a directory or another file that nobody opens to make it;
	                        text2: of a symbolic link, what it says */
	SHFS_EVENT_CHANGE = 8, /* its mode, owner or times were set */
	/* with shfs_event_child */
	SHFS_EVENT_FORK = 16, /* this process has made another */
	/* with shfs_event_file, of the program; text: as it was named, text2: arguments,
	   separated by NUL, cut at SHFS_EVENT_ARGV_MAX */
	SHFS_EVENT_EXEC = 17,
	SHFS_EVENT_EXIT = 18, /* its last thread has ended */
	/* with shfs_event_lost */
	SHFS_EVENT_LOST = 32, /* events that found no room; process: 0 */
	/* with shfs_event_file; text: where it is. Of SHFS_EVENT_BELOW. */
	SHFS_EVENT_DIRECTORY = 33,
};

enum shfs_event_flags {
	/* of CLOSE: how it was opened, and what was really done */
	SHFS_EVENT_READABLE = 1 << 0,
	SHFS_EVENT_WRITABLE = 1 << 1,
	SHFS_EVENT_WRITTEN = 1 << 2, /* written, or truncated while it was open */
	SHFS_EVENT_MAPPED = 1 << 3,  /* it was mapped, shared, and could be written so */
	SHFS_EVENT_CREATED = 1 << 4, /* by this open */
	SHFS_EVENT_TRUNCATED = 1 << 5,
	SHFS_EVENT_APPEND = 1 << 6,
	SHFS_EVENT_EXECUTED = 1 << 7, /* opened to be executed */
	SHFS_EVENT_SHARED =
		1 << 8, /* several may have written; the last known is named */
	SHFS_EVENT_LAST_WRITER = 1 << 9, /* no other open file may write to it now */
	SHFS_EVENT_INEXACT = 1 << 10,    /* the driver cannot tell whether it was the last
	                                    reference, or who wrote */
	/* of RENAME */
	SHFS_EVENT_EXCHANGED = 1 << 12,
	SHFS_EVENT_REPLACED = 1 << 13, /* text2 named another file before */
	/* of any file */
	SHFS_EVENT_DIRECTORY_FILE = 1 << 16,
	SHFS_EVENT_CUT = 1 << 17,   /* text is not all of it */
	SHFS_EVENT_BELOW = 1 << 18, /* text is the last name alone; parent is the
	                               directory, told before by SHFS_EVENT_DIRECTORY.
	                               Drivers resolve it: the recorder never sees it. */
	SHFS_EVENT_PINNED =
		1 << 19, /* what it holds is kept at hand by the driver: pin */
	/* of EXEC: what its environment says of the line it was run by; neither: nothing
	 */
	SHFS_EVENT_HIDDEN = 1 << 20, /* SHFS_HIDDEN=1: the arguments stay out */
	SHFS_EVENT_SHOWN = 1 << 21,  /* SHFS_HIDDEN=0 */
};

#define SHFS_EVENT_ENVIRON_MAX (1 << 20) /* so much of it is looked at */

/* The last 16 bytes of an environment that is read from its beginning; zeros before. */
struct shfs_event_window {
	__u64 before, last;
};

/* Adds a byte. Returns SHFS_EVENT_HIDDEN or SHFS_EVENT_SHOWN where it ends such a
 * variable. */
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

/* Who did it. Ids are those of the watcher's pid namespace, 0 for one outside of it. */
struct shfs_event_process {
	__u32 pid, tid; /* of the process, of the thread */
	__u64 start_ns; /* of the process, CLOCK_BOOTTIME; 0 unknown */
	__u32 ppid;     /* now; 0 unknown, as are the others */
	__u32 pgid, sid;
	__u32 tty; /* device number as in /proc/PID/stat */
	__u32 uid;
	__u32 reserved;
};

struct shfs_event_file {
	__u64 id;  /* CLOSE and WRITE: of the open file, unique for as long as that is
	              there;  0: no WRITE was told of it */
	__u64 dev; /* as stat(2) tells it in user space where the driver can know; 0: the
	              root's file system */
	__u64 ino;
	__u64 parent; /* inode number of the directory */
	__u64 bytes;  /* its size */
	__s64 mtime_ns, ctime_ns;
	__u32 generation; /* i_generation, for handles; 0 unknown */
	__u32 mode;       /* type and permissions */
	__u32 nlink;
	__u32 uid; /* of its owner */
	__u64 pin; /* the module's; with PINNED */
};

struct shfs_event_child {
	__u32 pid, reserved;
	__u64 start_ns;
};

struct shfs_event_lost {
	__u64 count;
};

struct shfs_event {
	__u32 size; /* of all of it, a multiple of 8 */
	__u16 type; /* enum shfs_event_type */
	__u16 cpu;
	__u32 flags;
	__u16 text_len,
		text2_len; /* text2 lies right behind text; no NUL at their ends */
	__u64 sequence;    /* rises by one for each event of one ring, lost or not */
	__u64 time_ns;     /* CLOCK_BOOTTIME */
	struct shfs_event_process process;
	union {
		struct shfs_event_file file;
		struct shfs_event_child child;
		struct shfs_event_lost lost;
	};
	char text[];
};

#endif
