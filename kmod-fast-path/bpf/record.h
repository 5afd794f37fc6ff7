/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * record.h - what the BPF programs say to the driver around them (bpf-compose.c makes
 * events of it). It never leaves the process that loaded them.
 *
 * A path is a directory and a name. Directories have keys: each key is told with its path
 * once, by records of type SHFS_EVENT_DIRECTORY, before another record uses it. A key is
 * made of the names that lead to the directory, so it never comes to mean another path.
 */
#ifndef SHFS_BPF_RECORD_H
#define SHFS_BPF_RECORD_H

#define SHFS_BPF_RING_SIZE  (16u << 20)
#define SHFS_BPF_NAME_SHORT 64
#define SHFS_BPF_NAME_MAX   256
#define SHFS_BPF_NAMES_MAX  1024 /* of several directories in one record */
#define SHFS_BPF_LEVELS     16   /* how many of them */
#define SHFS_BPF_DEPTH_MAX  2100 /* PATH_MAX has no room for more */

/* Flags of the records alone; those of events are never above bit 23. */
enum shfs_bpf_flags {
	SHFS_BPF_SESSION = 1u << 24, /* ppid, pgid, sid and tty are told */
	SHFS_BPF_FIRST = 1u << 25,   /* DIRECTORY: first of the records of this path */
	SHFS_BPF_LAST = 1u << 26,    /* DIRECTORY: last of them */
	SHFS_BPF_TOP = 1u << 27, /* DIRECTORY: from the top of all, not from the root */
	SHFS_BPF_VOLUME = 1u << 29, /* DIRECTORY: maybe of another volume of btrfs */
	SHFS_BPF_GIVEN =
		1u << 28, /* the names are paths as a program gave them to a call,
	                   * to be taken from the directories if not absolute */
};

/* What a system call does, for the tracepoints. */
enum shfs_bpf_call_kind {
	SHFS_BPF_NOTHING,
	SHFS_BPF_CLOSE, /* of fd, if fd2 (dup2: the one that is copied) is open or not
	                   given */
	SHFS_BPF_CLOSE_RANGE, /* of fd until fd2 */
	SHFS_BPF_OPEN,      /* fd is what it returns; path: the flags; path2: the same in
	                     * struct open_how */
	SHFS_BPF_WRITE,     /* to fd, if more than 0 is returned */
	SHFS_BPF_CHANGE_FD, /* to fd: type */
	SHFS_BPF_NAMES,     /* type, of path from fd, and path2 from fd2 */
	SHFS_BPF_MMAP,
	SHFS_BPF_MUNMAP,
	SHFS_BPF_MOUNT,
};

#define SHFS_BPF_CALLS 512 /* numbers of system calls are below */

/* Of one system call: which of its arguments are what; -1: there is none of that. */
struct shfs_bpf_call {
	__u8 kind;
	__u8 type; /* enum shfs_event_type */
	__s8 fd, path, fd2, path2;
	__s8 flags;
	__u8 traits; /* enum shfs_bpf_traits */
};

enum shfs_bpf_traits {
	SHFS_BPF_OF_DIRECTORY = 1 << 0,
	SHFS_BPF_RETURNS_ZERO = 1 << 1, /* also where it has written */
	SHFS_BPF_TRUNCATES = 1 << 2,
};

/* What the driver says to the programs before they are loaded. */
struct shfs_bpf_config {
	__u32 uid;
	__u32 all_users;
	__s32 root_fd, namespace_fd; /* of the process that makes them learn */
};

/* What the programs know. */
struct shfs_bpf_state {
	__u64 root; /* its dentry, which the fd of the driver holds */
	__u64 root_dev;
	__u64 mounts;    /* the mount namespace of the root */
	__u64 namespace; /* of pids; its level: 0 the first of all */
	__u32 level;
	__u32 other_mounts; /* are, or may be, below the root */
	__u64 reserved[3];
	/* what changes often */
	__u64 lost;
	__u64 next_id;
	__u64 woken_ns;
	__u64 told;
};

struct shfs_bpf_record {
	__u16 type; /* enum shfs_event_type */
	__u16 cpu;
	__u32 flags; /* enum shfs_event_flags, enum shfs_bpf_flags */
	__u64 time_ns;
	__u64 lost; /* records that found no room until now */
	__u32 pid, tid;
	__u64 start_ns;
	__u32 uid;
	__u32 ppid, pgid, sid, tty;  /* with SHFS_BPF_SESSION */
	__u32 dev;                   /* the kernel's number; 0: the root's */
	__u64 directory, directory2; /* 0: not below the root */
	__u64 id;                    /* of the open file; FORK: when the child began */
	__u64 ino;                   /* FORK: pid of the child */
	__u64 bytes;
	__s64 mtime_ns, ctime_ns;
	__u32 generation, mode, nlink, owner;
	__u16 name_len, name2_len; /* name2 follows at name2_at */
	__u16 name2_at;
	__u16 reserved;
	char text[]; /* DIRECTORY: names, each ended by NUL, the deepest first */
};

#endif
