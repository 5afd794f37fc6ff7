/* SPDX-License-Identifier: MIT */
#include "kmod-fast-path/drivers/bpf-calls.h"

#include "common/util.h"

#include <sys/syscall.h>

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif
#ifndef SYS_setxattrat
#define SYS_setxattrat    463
#define SYS_removexattrat 466
#endif

#define NAMES SHFS_BPF_NAMES

/* kind, type, fd, path, fd2, path2, flags, traits; -1: it has no such argument */
static const struct {
	long number;
	struct shfs_bpf_call call;
} table[] = {
	{ SYS_close, { SHFS_BPF_CLOSE, 0, 0, -1, -1, -1, -1, 0 } },
	{ SYS_dup3, { SHFS_BPF_CLOSE, 0, 1, -1, 0, -1, -1, 0 } },
#ifdef SYS_close_range
	{ SYS_close_range, { SHFS_BPF_CLOSE_RANGE, 0, 0, -1, 1, -1, -1, 0 } },
#endif

	{ SYS_openat, { SHFS_BPF_OPEN, 0, -1, 2, -1, -1, -1, 0 } },
	{ SYS_openat2, { SHFS_BPF_OPEN, 0, -1, -1, -1, 2, -1, 0 } },

	{ SYS_write, { SHFS_BPF_WRITE, 0, 0, -1, -1, -1, -1, 0 } },
	{ SYS_pwrite64, { SHFS_BPF_WRITE, 0, 0, -1, -1, -1, -1, 0 } },
	{ SYS_writev, { SHFS_BPF_WRITE, 0, 0, -1, -1, -1, -1, 0 } },
	{ SYS_pwritev, { SHFS_BPF_WRITE, 0, 0, -1, -1, -1, -1, 0 } },
	{ SYS_pwritev2, { SHFS_BPF_WRITE, 0, 0, -1, -1, -1, -1, 0 } },
	{ SYS_sendfile, { SHFS_BPF_WRITE, 0, 0, -1, -1, -1, -1, 0 } },
	{ SYS_splice, { SHFS_BPF_WRITE, 0, 2, -1, -1, -1, -1, 0 } },
	{ SYS_copy_file_range, { SHFS_BPF_WRITE, 0, 2, -1, -1, -1, -1, 0 } },
	{ SYS_fallocate,
	  { SHFS_BPF_WRITE, 0, 0, -1, -1, -1, -1, SHFS_BPF_RETURNS_ZERO } },
	{ SYS_ftruncate,
	  { SHFS_BPF_WRITE, 0, 0, -1, -1, -1, -1,
	    SHFS_BPF_RETURNS_ZERO | SHFS_BPF_TRUNCATES } },
	{ SYS_mmap, { SHFS_BPF_MMAP, 0, 4, -1, -1, -1, 3, 0 } },
	{ SYS_munmap, { SHFS_BPF_MUNMAP, 0, -1, -1, -1, -1, -1, 0 } },

	{ SYS_renameat2, { NAMES, SHFS_EVENT_RENAME, 0, 1, 2, 3, 4, 0 } },
	{ SYS_linkat, { NAMES, SHFS_EVENT_LINK, 0, 1, 2, 3, -1, 0 } },
	{ SYS_symlinkat, { NAMES, SHFS_EVENT_MAKE, 1, 2, -1, 0, -1, 0 } },
	{ SYS_unlinkat, { NAMES, SHFS_EVENT_UNLINK, 0, 1, -1, -1, 2, 0 } },
	{ SYS_mkdirat,
	  { NAMES, SHFS_EVENT_MAKE, 0, 1, -1, -1, -1, SHFS_BPF_OF_DIRECTORY } },
	{ SYS_mknodat, { NAMES, SHFS_EVENT_MAKE, 0, 1, -1, -1, -1, 0 } },
	{ SYS_truncate, { NAMES, SHFS_EVENT_TRUNCATE, -1, 0, -1, -1, -1, 0 } },

	{ SYS_fchmod, { SHFS_BPF_CHANGE_FD, SHFS_EVENT_CHANGE, 0, -1, -1, -1, -1, 0 } },
	{ SYS_fchown, { SHFS_BPF_CHANGE_FD, SHFS_EVENT_CHANGE, 0, -1, -1, -1, -1, 0 } },
	{ SYS_fchmodat, { NAMES, SHFS_EVENT_CHANGE, 0, 1, -1, -1, -1, 0 } },
	{ SYS_fchmodat2, { NAMES, SHFS_EVENT_CHANGE, 0, 1, -1, -1, -1, 0 } },
	{ SYS_fchownat, { NAMES, SHFS_EVENT_CHANGE, 0, 1, -1, -1, -1, 0 } },
	{ SYS_utimensat, { NAMES, SHFS_EVENT_CHANGE, 0, 1, -1, -1, -1, 0 } },
	{ SYS_setxattr, { NAMES, SHFS_EVENT_CHANGE, -1, 0, -1, -1, -1, 0 } },
	{ SYS_lsetxattr, { NAMES, SHFS_EVENT_CHANGE, -1, 0, -1, -1, -1, 0 } },
	{ SYS_fsetxattr,
	  { SHFS_BPF_CHANGE_FD, SHFS_EVENT_CHANGE, 0, -1, -1, -1, -1, 0 } },
	{ SYS_setxattrat, { NAMES, SHFS_EVENT_CHANGE, 0, 1, -1, -1, -1, 0 } },
	{ SYS_removexattr, { NAMES, SHFS_EVENT_CHANGE, -1, 0, -1, -1, -1, 0 } },
	{ SYS_lremovexattr, { NAMES, SHFS_EVENT_CHANGE, -1, 0, -1, -1, -1, 0 } },
	{ SYS_fremovexattr,
	  { SHFS_BPF_CHANGE_FD, SHFS_EVENT_CHANGE, 0, -1, -1, -1, -1, 0 } },
	{ SYS_removexattrat, { NAMES, SHFS_EVENT_CHANGE, 0, 1, -1, -1, -1, 0 } },

	{ SYS_mount, { SHFS_BPF_MOUNT, 0, -1, -1, -1, -1, -1, 0 } },
	{ SYS_move_mount, { SHFS_BPF_MOUNT, 0, -1, -1, -1, -1, -1, 0 } },

/* newer architectures have only the calls above */
#ifdef SYS_open
	{ SYS_dup2, { SHFS_BPF_CLOSE, 0, 1, -1, 0, -1, -1, 0 } },
	{ SYS_open, { SHFS_BPF_OPEN, 0, -1, 1, -1, -1, -1, 0 } },
	{ SYS_creat, { SHFS_BPF_OPEN, 0, -1, -1, -1, -1, -1, 0 } },
	{ SYS_rename, { NAMES, SHFS_EVENT_RENAME, -1, 0, -1, 1, -1, 0 } },
	{ SYS_renameat, { NAMES, SHFS_EVENT_RENAME, 0, 1, 2, 3, -1, 0 } },
	{ SYS_link, { NAMES, SHFS_EVENT_LINK, -1, 0, -1, 1, -1, 0 } },
	{ SYS_symlink, { NAMES, SHFS_EVENT_MAKE, -1, 1, -1, 0, -1, 0 } },
	{ SYS_unlink, { NAMES, SHFS_EVENT_UNLINK, -1, 0, -1, -1, -1, 0 } },
	{ SYS_rmdir,
	  { NAMES, SHFS_EVENT_UNLINK, -1, 0, -1, -1, -1, SHFS_BPF_OF_DIRECTORY } },
	{ SYS_mkdir,
	  { NAMES, SHFS_EVENT_MAKE, -1, 0, -1, -1, -1, SHFS_BPF_OF_DIRECTORY } },
	{ SYS_mknod, { NAMES, SHFS_EVENT_MAKE, -1, 0, -1, -1, -1, 0 } },
	{ SYS_chmod, { NAMES, SHFS_EVENT_CHANGE, -1, 0, -1, -1, -1, 0 } },
	{ SYS_chown, { NAMES, SHFS_EVENT_CHANGE, -1, 0, -1, -1, -1, 0 } },
	{ SYS_lchown, { NAMES, SHFS_EVENT_CHANGE, -1, 0, -1, -1, -1, 0 } },
	{ SYS_utime, { NAMES, SHFS_EVENT_CHANGE, -1, 0, -1, -1, -1, 0 } },
	{ SYS_utimes, { NAMES, SHFS_EVENT_CHANGE, -1, 0, -1, -1, -1, 0 } },
	{ SYS_futimesat, { NAMES, SHFS_EVENT_CHANGE, 0, 1, -1, -1, -1, 0 } },
#endif
};

void shfs_bpf_calls_fill(struct shfs_bpf_call calls[static SHFS_BPF_CALLS])
{
	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		if (table[i].number < SHFS_BPF_CALLS)
			calls[table[i].number] = table[i].call;
}
