/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * record.h - the records that the BPF programs write for the driver; bpf-compose.c makes
 * events of them. They never leave the process that loaded the programs.
 *
 * A path is a directory and a name. A directory has a key: records of type
 * SHFS_EVENT_DIRECTORY give the path of each key once, before another record uses it. A
 * key is computed from the names that lead to the directory, so it never comes to mean
 * another path.
 */
#ifndef SHFS_BPF_RECORD_H
#define SHFS_BPF_RECORD_H

#define SHFS_BPF_RING_SIZE  (16u << 20)
#define SHFS_BPF_NAME_SHORT 64
#define SHFS_BPF_NAME_MAX   256
#define SHFS_BPF_LEVELS     16   /* of directories, in the fast case */
#define SHFS_BPF_DEPTH_MAX  2100 /* PATH_MAX has no room for more */

/* Flags that only records have; event flags never use a bit above 23. */
enum shfs_bpf_flags {
	SHFS_BPF_SESSION = 1u << 24, /* ppid, pgid, sid and tty are set */
	SHFS_BPF_FIRST = 1u << 25,   /* DIRECTORY: the first record of this path */
	SHFS_BPF_LAST = 1u << 26,    /* DIRECTORY: its last record */
	SHFS_BPF_TOP = 1u << 27,     /* DIRECTORY: the path begins at the top of all, not
	                              * at the root */
	SHFS_BPF_VOLUME = 1u << 29,  /* DIRECTORY: may be in another btrfs subvolume */
	SHFS_BPF_GIVEN = 1u << 28,   /* the names are paths as the program gave them to a
	                              * call; relative ones begin at the directories */
};

/* What a system call does; the programs on tracepoints use it. */
enum shfs_bpf_call_kind {
	SHFS_BPF_NOTHING,
	SHFS_BPF_CLOSE, /* of fd; with fd2 (dup2: the copied one) only if fd2 is open */
	SHFS_BPF_CLOSE_RANGE, /* of fd to fd2 */
	SHFS_BPF_OPEN,        /* fd is the result; path: the flags; path2: the address of
	                       * a struct open_how with the flags */
	SHFS_BPF_WRITE,       /* to fd, if the result is above 0 */
	SHFS_BPF_CHANGE_FD,   /* of the file fd; type says which change */
	SHFS_BPF_NAMES,       /* type, with path relative to fd, and path2 relative to
	                       * fd2 */
	SHFS_BPF_MMAP,
	SHFS_BPF_MUNMAP,
	SHFS_BPF_MOUNT,
};

#define SHFS_BPF_CALLS 512 /* above all system call numbers */

/* One system call: which argument is what; -1: it has no such argument. */
struct shfs_bpf_call {
	__u8 kind;
	__u8 type; /* enum shfs_event_type */
	__s8 fd, path, fd2, path2;
	__s8 flags;
	__u8 traits; /* enum shfs_bpf_traits */
};

enum shfs_bpf_traits {
	SHFS_BPF_OF_DIRECTORY = 1 << 0,
	SHFS_BPF_RETURNS_ZERO = 1 << 1, /* it may have written although it returns 0 */
	SHFS_BPF_TRUNCATES = 1 << 2,
};

/* What the driver sets before the programs are loaded. */
struct shfs_bpf_config {
	__u32 uid;
	__u32 all_users;
	__s32 root_fd, namespace_fd; /* of the process that reads the iterator */
};

/* The state of the programs. */
struct shfs_bpf_state {
	__u64 root; /* the dentry of the root; the driver's fd holds it */
	__u64 root_dev;
	__u64 mounts;    /* the mount namespace of the root */
	__u64 namespace; /* the pid namespace; level 0: the first one */
	__u32 level;
	__u32 other_mounts; /* there are, or may be, mounts below the root */
	__u64 reserved[3];
	/* members that change often */
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
	__u64 lost; /* records that had no room in the ring so far */
	__u32 pid, tid;
	__u64 start_ns;
	__u32 uid;
	__u32 ppid, pgid, sid, tty;  /* with SHFS_BPF_SESSION */
	__u32 dev;                   /* the kernel's number; 0: that of the root */
	__u64 directory, directory2; /* keys; 0: not below the root */
	__u64 id;    /* of the open file; FORK: start time of the child; DIRECTORY: of the
	              * thread that sends it, whatever namespace it is in; EXIT: ns that it
	              * ran in all, as the scheduler has measured it */
	__u64 ino;   /* FORK: pid of the child */
	__u64 bytes; /* EXIT: most pages of memory */
	__s64 mtime_ns, ctime_ns; /* EXIT: ns in user mode, in the kernel, as ticks have
	                           * counted them */
	__u32 generation, mode, nlink, owner; /* EXIT: mode: as wait(2) gives it */
	__u16 name_len, name2_len;            /* name2 follows at name2_at */
	__u16 name2_at;
	__u16 reserved;
	char text[]; /* DIRECTORY: names, each ended by NUL, the deepest first */
};

#endif
