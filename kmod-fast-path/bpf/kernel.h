/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * kernel.h - the parts of the kernel's structures that these programs read. libbpf puts
 * in the offsets when it loads a program, from the BTF of the running kernel. So no
 * kernel header is needed to build them, and members that are left out here do not
 * matter.
 */
#ifndef SHFS_BPF_KERNEL_H
#define SHFS_BPF_KERNEL_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef __u8 u8;
typedef __s8 s8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;
typedef __s64 s64;
typedef _Bool bool;

#define true 1
#define false 0

#define NULL ((void *)0)

/* The kernel's names for them; these numbers are old and part of its interface. */
#define BPF_ANY               0
#define BPF_NOEXIST           1
#define BPF_F_NO_PREALLOC     1
#define BPF_RB_NO_WAKEUP      1
#define BPF_RB_FORCE_WAKEUP   2
#define BPF_RB_AVAIL_DATA     0
#define BPF_MAP_TYPE_HASH     1
#define BPF_MAP_TYPE_LRU_HASH 9
#define BPF_MAP_TYPE_ARRAY    2
#define BPF_MAP_TYPE_RINGBUF  27

#define S_IFMT  0170000
#define S_IFREG 0100000
#define S_IFDIR 0040000

#define FMODE_READ    0x1
#define FMODE_WRITE   0x2
#define FMODE_OPENED  0x80000
#define FMODE_CREATED 0x100000
#define FLAG_EXEC     0x20 /* __FMODE_EXEC, in f_flags */
#define O_TRUNC       01000
#define O_APPEND      02000
#define AT_FDCWD      -100
#define TS_COMPAT     2 /* x86: a 32-bit system call, with other numbers */

#define MAY_WRITE           2
#define MAP_TYPE            0xf
#define MAP_SHARED          1
#define MAP_SHARED_VALIDATE 3
#define MAP_ANONYMOUS       0x20

#define ATTR_MODE (1 << 0)
#define ATTR_UID  (1 << 1)
#define ATTR_GID  (1 << 2)
#define ATTR_SIZE (1 << 3)

#define SIGNAL_GROUP_EXIT 4 /* group_exit_code holds for all threads */

#define PIDTYPE_TGID 1
#define PIDTYPE_PGID 2
#define PIDTYPE_SID  3

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

typedef struct {
	u32 val;
} kuid_t;

typedef struct {
	int counter;
} atomic_t;

struct timespec64 {
	s64 tv_sec;
	long tv_nsec;
};

struct qstr {
	u32 hash;
	u32 len;
	const unsigned char *name;
};

struct hlist_bl_node {
	struct hlist_bl_node *next, **pprev;
};

struct hlist_node {
	struct hlist_node *next, **pprev;
};

struct hlist_head {
	struct hlist_node *first;
};

struct super_block {
	u32 s_dev;
};

struct inode {
	u16 i_mode;
	kuid_t i_uid;
	struct super_block *i_sb;
	unsigned long i_ino;
	u32 i_nlink;
	s64 i_size;
	s64 i_mtime_sec, i_ctime_sec; /* since 6.11 */
	u32 i_mtime_nsec, i_ctime_nsec;
	atomic_t i_writecount;
	u32 i_generation;
	struct hlist_head i_dentry;
	void *i_private;
};

struct inode___since_6_7 {
	struct timespec64 __i_mtime, __i_ctime;
};

struct inode___old {
	struct timespec64 i_mtime, i_ctime;
};

struct dentry {
	struct hlist_bl_node d_hash;
	struct dentry *d_parent;
	struct qstr d_name;
	struct inode *d_inode;
	struct super_block *d_sb;
	union {
		struct hlist_node d_alias;
	} d_u;
};

struct dentry___since_7 {
	struct hlist_node d_alias;
};

struct vfsmount {
	struct dentry *mnt_root;
};

struct mount {
	struct mount *mnt_parent;
	struct dentry *mnt_mountpoint;
	struct vfsmount mnt;
	void *mnt_ns;
};

struct cred {
	kuid_t uid, euid;
};

struct path {
	struct vfsmount *mnt;
	struct dentry *dentry;
};

struct file {
	u32 f_mode;
	u32 f_flags;
	struct inode *f_inode;
	const struct cred *f_cred;
	struct path f_path;
};

struct file___since_6_13 {
	struct {
		struct {
			long counter;
		} refcnt;
	} f_ref;
};

struct file___before {
	struct {
		long counter;
	} f_count;
};

struct iattr {
	u32 ia_valid;
};

struct pid_namespace {
	u32 level;
	struct ns_common {
		u32 inum;
	} ns;
};

struct upid {
	int nr;
	struct pid_namespace *ns;
};

struct pid {
	u32 level;
	struct upid numbers[];
};

struct tty_driver {
	int major, minor_start;
};

struct tty_struct {
	struct tty_driver *driver;
	int index;
};

struct list_head {
	struct list_head *next, *prev;
};

struct signal_struct {
	atomic_t live;
	int nr_threads;
	struct list_head thread_head;
	int group_exit_code;
	u32 flags;
	struct pid *pids[4];
	struct tty_struct *tty;
	int leader;
	u64 utime, stime; /* of threads that are gone, as the next */
	u64 sum_sched_runtime;
	unsigned long maxrss;
};

struct sched_entity {
	u64 sum_exec_runtime;
};

struct mm_struct {
	unsigned long arg_start, arg_end;
	unsigned long env_start, env_end;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
	unsigned long *close_on_exec;
};

struct files_struct {
	atomic_t count;
	struct fdtable *fdt;
};

struct fs_struct {
	struct path root, pwd;
};

struct task_struct {
	struct {
		u32 status;
	} thread_info;
	u32 flags;
	struct sched_entity se;
	int exit_code;
	int pid, tgid;
	u64 utime, stime;
	u64 start_boottime, self_exec_id;
	struct list_head thread_node;
	struct task_struct *real_parent, *group_leader;
	struct pid *thread_pid;
	const struct cred *cred;
	struct signal_struct *signal;
	struct mm_struct *mm;
	struct files_struct *files;
	struct fs_struct *fs;
};

struct linux_binprm {
	struct file *file;
	const char *filename;
	const char *interp;
};

/* The arguments of a system call, on x86 and arm64. */
struct pt_regs {
	unsigned long di, si, dx, r10, r8, r9, orig_ax;
};

struct user_pt_regs {
	u64 regs[31];
};

struct pt_regs___64 {
	u64 orig_x0;
	int syscallno;
};

struct io_kiocb {
	u8 opcode;
};

struct io_close {
	int fd;
};

#pragma clang attribute pop

/* The context of an iterator: a part of the kernel's interface, which needs no
 * relocation. */
struct bpf_iter__task_file {
	void *meta;
	struct task_struct *task;
	u32 fd __attribute__((aligned(8)));
	struct file *file;
};

#endif
