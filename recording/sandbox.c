/* SPDX-License-Identifier: MIT */
#include "recording/sandbox.h"

#include "common/debug.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <seccomp.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>

static const struct {
	int call;
	unsigned but; /* needs for which it is allowed */
} denied[] = {
	/* programs */
	{ SCMP_SYS(execve), 0 },
	{ SCMP_SYS(execveat), 0 },
	{ SCMP_SYS(fork), 0 },
	{ SCMP_SYS(vfork), 0 },
#ifndef __SANITIZE_ADDRESS__ /* its leak check uses ptrace */
	{ SCMP_SYS(ptrace), 0 },
#endif
	/* the network */
	{ SCMP_SYS(socket), SHFS_SANDBOX_SOCKETS | SHFS_SANDBOX_LOCKS },
	{ SCMP_SYS(socketpair), 0 },
	{ SCMP_SYS(connect), SHFS_SANDBOX_SOCKETS },
	{ SCMP_SYS(bind), SHFS_SANDBOX_LOCKS },
	{ SCMP_SYS(listen), 0 },
	{ SCMP_SYS(accept), SHFS_SANDBOX_SOCKETS | SHFS_SANDBOX_ACCEPT },
	{ SCMP_SYS(accept4), SHFS_SANDBOX_SOCKETS | SHFS_SANDBOX_ACCEPT },
	/* other processes */
	{ SCMP_SYS(process_vm_readv), 0 },
	{ SCMP_SYS(process_vm_writev), 0 },
	{ SCMP_SYS(pidfd_getfd), 0 },
	{ SCMP_SYS(kcmp), 0 },
	/* mounts and namespaces */
	{ SCMP_SYS(mount), 0 },
	{ SCMP_SYS(umount2), 0 },
	{ SCMP_SYS(pivot_root), 0 },
	{ SCMP_SYS(chroot), 0 },
	{ SCMP_SYS(setns), 0 },
	{ SCMP_SYS(move_mount), 0 },
	{ SCMP_SYS(fsopen), 0 },
	{ SCMP_SYS(fsmount), 0 },
	{ SCMP_SYS(fspick), 0 },
	{ SCMP_SYS(open_tree), 0 },
	{ SCMP_SYS(mount_setattr), 0 },
	/* the filter does not see what goes through a ring: existing rings were limited
	 * when they were made (fusefs/transport/uring.c) */
	{ SCMP_SYS(io_uring_setup), 0 },
	{ SCMP_SYS(io_uring_register), 0 },
	/* the kernel */
	{ SCMP_SYS(bpf), 0 },
	{ SCMP_SYS(init_module), 0 },
	{ SCMP_SYS(finit_module), 0 },
	{ SCMP_SYS(delete_module), 0 },
	{ SCMP_SYS(kexec_load), 0 },
	{ SCMP_SYS(kexec_file_load), 0 },
	{ SCMP_SYS(reboot), 0 },
	{ SCMP_SYS(swapon), 0 },
	{ SCMP_SYS(acct), 0 },
	{ SCMP_SYS(keyctl), 0 },
	{ SCMP_SYS(add_key), 0 },
	{ SCMP_SYS(request_key), 0 },
	{ SCMP_SYS(userfaultfd), 0 },
	{ SCMP_SYS(perf_event_open), 0 },
};

/* Calls that change a file. */
static const int changes[] = {
	SCMP_SYS(pwrite64),
	SCMP_SYS(pwritev),
	SCMP_SYS(pwritev2),
	SCMP_SYS(sendfile),
	SCMP_SYS(splice),
	SCMP_SYS(vmsplice),
	SCMP_SYS(tee),
	SCMP_SYS(truncate),
	SCMP_SYS(ftruncate),
	SCMP_SYS(fallocate),
	SCMP_SYS(creat),
	SCMP_SYS(link),
	SCMP_SYS(linkat),
	SCMP_SYS(symlink),
	SCMP_SYS(symlinkat),
	SCMP_SYS(unlink),
	SCMP_SYS(unlinkat),
	SCMP_SYS(rename),
	SCMP_SYS(renameat),
	SCMP_SYS(renameat2),
	SCMP_SYS(mkdir),
	SCMP_SYS(mkdirat),
	SCMP_SYS(rmdir),
	SCMP_SYS(mknod),
	SCMP_SYS(mknodat),
	SCMP_SYS(chmod),
	SCMP_SYS(fchmod),
	SCMP_SYS(fchmodat),
	SCMP_SYS(chown),
	SCMP_SYS(fchown),
	SCMP_SYS(lchown),
	SCMP_SYS(fchownat),
	SCMP_SYS(utime),
	SCMP_SYS(utimes),
	SCMP_SYS(futimesat),
	SCMP_SYS(utimensat),
	SCMP_SYS(setxattr),
	SCMP_SYS(lsetxattr),
	SCMP_SYS(fsetxattr),
	SCMP_SYS(removexattr),
	SCMP_SYS(lremovexattr),
	SCMP_SYS(fremovexattr),
	SCMP_SYS(open_by_handle_at),
	SCMP_SYS(copy_file_range),
};

/* Calls that send to a socket, and so perhaps to a process that changes a file. */
static const int sendings[] = {
	SCMP_SYS(sendto),
	SCMP_SYS(sendmsg),
	SCMP_SYS(sendmmsg),
};

void shfs_sandbox_drop_resource(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

	if (syscall(SYS_capget, &head, data))
		return;
	data[CAP_TO_INDEX(CAP_SYS_RESOURCE)].effective &= ~CAP_TO_MASK(CAP_SYS_RESOURCE);
	data[CAP_TO_INDEX(CAP_SYS_RESOURCE)].permitted &= ~CAP_TO_MASK(CAP_SYS_RESOURCE);
	(void)!syscall(SYS_capset, &head, data);
}

/* Denies calls by their arguments: allows only sockets of this host, and unshare(2) only
 * of the umask (CLONE_FS), no namespaces. */
static int deny_by_arguments(scmp_filter_ctx filter, unsigned needs)
{
	int r = 0;

	if (needs & (SHFS_SANDBOX_SOCKETS | SHFS_SANDBOX_LOCKS))
		r = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(socket), 1,
		                     SCMP_A0(SCMP_CMP_NE, AF_UNIX));
	if (!r)
		r = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(unshare), 1,
		                     SCMP_A0(SCMP_CMP_NE, CLONE_FS));
	return r;
}

int shfs_sandbox_enter(unsigned needs)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
	int r = filter ? 0 : -ENOMEM;

	if (!r)
		r = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);
	for (size_t i = 0; i < ARRAY_SIZE(denied) && !r; i++)
		if (!(denied[i].but & needs))
			r = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM),
			                     denied[i].call, 0);
	if (!r)
		r = deny_by_arguments(filter, needs);
	if (!r)
		r = seccomp_load(filter);
	seccomp_release(filter);
	shfs_debug(RECORDING, "seccomp filter (but for %#x): %s", needs,
	           r ? strerrordesc_np(-r) : "on");
	return r;
}

/* Denies a call that writes to descriptors but these. A rule compares an argument once:
 * so there is one for each number between them. */
static int deny_write(scmp_filter_ctx filter, int call, const int *fds, size_t n)
{
	int last = 0, r = 0;

	for (size_t i = 0; i < n; i++)
		last = MAX(last, fds[i]);
	for (int fd = 0; fd <= last && !r; fd++) {
		bool allowed = false;

		for (size_t i = 0; i < n; i++)
			allowed |= fds[i] == fd;
		if (!allowed)
			r = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), call, 1,
			                     SCMP_A0(SCMP_CMP_EQ, (unsigned)fd));
	}
	return r ? r
	         : seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), call, 1,
	                            SCMP_A0(SCMP_CMP_GT, (unsigned)last));
}

/* Denies to open a file for more than reading; flags are the argument of that number. */
static int deny_opening(scmp_filter_ctx filter, int call, unsigned argument)
{
	static const unsigned masks[][2] = { { O_ACCMODE, O_WRONLY },
		                             { O_ACCMODE, O_RDWR },
		                             { O_ACCMODE, O_ACCMODE },
		                             { O_CREAT, O_CREAT },
		                             { O_TRUNC, O_TRUNC } };
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(masks) && !r; i++)
		r = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), call, 1,
		                     SCMP_CMP(argument, SCMP_CMP_MASKED_EQ, masks[i][0],
		                              masks[i][1]));
	return r;
}

static int forbid_changes(const int *fds, size_t n, bool sends)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
	int r = filter ? 0 : -ENOMEM;

	if (!r)
		r = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);
	for (size_t i = 0; i < ARRAY_SIZE(changes) && !r; i++)
		r = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), changes[i], 0);
	for (size_t i = 0; i < ARRAY_SIZE(sendings) && !r && !sends; i++)
		r = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), sendings[i], 0);
	if (!r)
		r = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(openat2),
		                     0);
	if (!r)
		r = deny_write(filter, SCMP_SYS(write), fds, n);
	if (!r)
		r = deny_write(filter, SCMP_SYS(writev), fds, n);
	if (!r)
		r = deny_opening(filter, SCMP_SYS(open), 1);
	if (!r)
		r = deny_opening(filter, SCMP_SYS(openat), 2);
	if (!r)
		r = seccomp_load(filter);
	seccomp_release(filter);
	shfs_debug(RECORDING, "seccomp filter against changes: %s",
	           r ? strerrordesc_np(-r) : "on");
	return r;
}

int shfs_sandbox_forbid_changes(const int *fds, size_t n)
{
	return forbid_changes(fds, n, false);
}

int shfs_sandbox_forbid_changes_of_files(const int *fds, size_t n)
{
	return forbid_changes(fds, n, true);
}
