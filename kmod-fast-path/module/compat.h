/* SPDX-License-Identifier: GPL-2.0-only */
/* differences between kernel versions, from 5.10 on, in one place. */
#ifndef SHFS_MODULE_COMPAT_H
#define SHFS_MODULE_COMPAT_H

#include <linux/file.h>
#include <linux/fs.h>
#include <linux/ftrace.h>
#include <linux/kprobes.h>
#include <linux/ptrace.h>
#include <linux/version.h>

#define SHFS_KERNEL(a, b) (KERNEL_VERSION(a, b, 0) <= LINUX_VERSION_CODE)

/*
 * The arguments of a traced function. Saving all registers is only requested
 * where the kernel does not save the arguments on each call, which is cheap.
 */
#if !SHFS_KERNEL(5, 11)
#define ftrace_regs pt_regs
#define SHFS_FTRACE_FLAGS (FTRACE_OPS_FL_SAVE_REGS | FTRACE_OPS_FL_RECURSION_SAFE)
#define shfs_ftrace_argument(regs, n) regs_get_kernel_argument(regs, n)
#elif defined(ftrace_regs_get_argument)
#define SHFS_FTRACE_FLAGS 0
#define shfs_ftrace_argument(regs, n) ftrace_regs_get_argument(regs, n)
#elif defined(CONFIG_X86_64) && defined(CONFIG_DYNAMIC_FTRACE_WITH_ARGS)
#define SHFS_FTRACE_FLAGS 0
#define shfs_ftrace_argument(fregs, n) regs_get_kernel_argument(&(fregs)->regs, n)
#else
#define SHFS_FTRACE_FLAGS FTRACE_OPS_FL_SAVE_REGS
#define shfs_ftrace_argument(fregs, n) regs_get_kernel_argument(ftrace_get_regs(fregs), n)
#endif

/*
 * Calls of the VFS have the mount's user namespace (5.12), later its idmap, as
 * their first argument.
 */
#if SHFS_KERNEL(5, 12)
#define SHFS_IDMAP 1
#else
#define SHFS_IDMAP 0
#endif

/*
 * vfs_rename has its arguments in a structure, also in later releases of 5.10.
 */
#define SHFS_RENAMEDATA                                                                  \
	(SHFS_KERNEL(5, 12) ||                                                           \
	 (!SHFS_KERNEL(5, 11) && LINUX_VERSION_CODE >= KERNEL_VERSION(5, 10, 220)))

/* vfs_create has no argument for the directory. */
#if SHFS_KERNEL(6, 19)
#define SHFS_CREATE_DENTRY 1
#else
#define SHFS_CREATE_DENTRY (SHFS_IDMAP + 1)
#endif

/* vfs_mkdir returns the dentry, which may be another one. */
#define SHFS_MKDIR_RETURNS_DENTRY SHFS_KERNEL(6, 15)

/* The value of an attribute: only in 6.0 the call may change it. */
#if SHFS_KERNEL(6, 0) && !SHFS_KERNEL(6, 1)
#define SHFS_XATTR_VALUE void *
#else
#define SHFS_XATTR_VALUE const void *
#endif

/*
 * Access control lists have calls of their own; before 6.2 they are extended
 * attributes.
 */
#if SHFS_KERNEL(6, 2) && defined(CONFIG_FS_POSIX_ACL)
#define SHFS_SETS_ACL 1
#else
#define SHFS_SETS_ACL 0
#endif

/*
 * Arguments are read by their number. So the build must fail if a function
 * differs from what the kernel's version says, as in stable releases.
 */
#define SHFS_PROTOTYPE(function, result, ...)                                            \
	static_assert(__builtin_types_compatible_p(typeof(function), result(__VA_ARGS__)))

#if SHFS_KERNEL(6, 3)
#define SHFS_IDMAP_ARGUMENT struct mnt_idmap *,
#elif SHFS_IDMAP
#define SHFS_IDMAP_ARGUMENT struct user_namespace *,
#else
#define SHFS_IDMAP_ARGUMENT
#endif

/* The inode whose lease is to be broken; since 6.19 also the directory's. */
#if SHFS_KERNEL(6, 19)
#define SHFS_DELEGATED_ARGUMENT struct delegated_inode *
#define SHFS_DELEGATED_DIRECTORY , struct delegated_inode *
#else
#define SHFS_DELEGATED_ARGUMENT struct inode **
#define SHFS_DELEGATED_DIRECTORY
#endif

static inline s64 shfs_ctime_ns(const struct inode *inode)
{
#if SHFS_KERNEL(6, 6)
	struct timespec64 time = inode_get_ctime(inode);
#else
	struct timespec64 time = inode->i_ctime;
#endif
	return timespec64_to_ns(&time);
}

static inline s64 shfs_mtime_ns(const struct inode *inode)
{
#if SHFS_KERNEL(6, 7)
	struct timespec64 time = inode_get_mtime(inode);
#else
	struct timespec64 time = inode->i_mtime;
#endif
	return timespec64_to_ns(&time);
}

/*
 * Is this a lower file that overlayfs or the like has opened for one of its
 * files? Then the hooks have seen the call for the other file already.
 */
static inline bool shfs_is_backing_file(const struct file *file)
{
#ifdef FMODE_BACKING
	if (file->f_mode & FMODE_BACKING)
		return true;
#endif
	return file_inode(file) != d_inode(file->f_path.dentry);
}

#endif
