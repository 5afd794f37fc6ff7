/* SPDX-License-Identifier: MIT */
#include "fusefs/sandbox.h"

#include <errno.h>
#include <linux/capability.h>
#include <seccomp.h>
#include <sys/syscall.h>

static const int denied[] = {
	/* programs */
	SCMP_SYS(execve),
	SCMP_SYS(execveat),
	SCMP_SYS(fork),
	SCMP_SYS(vfork),
#ifndef __SANITIZE_ADDRESS__ /* its search for leaks traces us */
	SCMP_SYS(ptrace),
#endif
	/* the network */
	SCMP_SYS(socket),
	SCMP_SYS(socketpair),
	SCMP_SYS(connect),
	SCMP_SYS(bind),
	SCMP_SYS(listen),
	SCMP_SYS(accept),
	SCMP_SYS(accept4),
	/* other processes */
	SCMP_SYS(process_vm_readv),
	SCMP_SYS(process_vm_writev),
	SCMP_SYS(pidfd_getfd),
	SCMP_SYS(kcmp),
	/* mounts and namespaces */
	SCMP_SYS(mount),
	SCMP_SYS(umount2),
	SCMP_SYS(pivot_root),
	SCMP_SYS(chroot),
	SCMP_SYS(setns),
	SCMP_SYS(move_mount),
	SCMP_SYS(fsopen),
	SCMP_SYS(open_tree),
	/* what goes through a ring is not seen here: those that there are were limited as
	 * they were made (transport-uring.c) */
	SCMP_SYS(io_uring_setup),
	SCMP_SYS(io_uring_register),
	/* the kernel */
	SCMP_SYS(bpf),
	SCMP_SYS(init_module),
	SCMP_SYS(finit_module),
	SCMP_SYS(kexec_load),
	SCMP_SYS(reboot),
	SCMP_SYS(swapon),
	SCMP_SYS(acct),
	SCMP_SYS(keyctl),
	SCMP_SYS(add_key),
	SCMP_SYS(request_key),
	SCMP_SYS(userfaultfd),
	SCMP_SYS(perf_event_open),
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

int shfs_sandbox_enter(void)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
	int r = filter ? 0 : -ENOMEM;

	if (!r)
		r = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);
	for (size_t i = 0; i < ARRAY_SIZE(denied) && !r; i++)
		r = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), denied[i], 0);
	if (!r)
		r = seccomp_load(filter);
	seccomp_release(filter);
	return r;
}
