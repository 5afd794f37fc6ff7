/* SPDX-License-Identifier: MIT */
#include "query/base/namespace.h"

#include "common/io.h"
#include "query/base/cmd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static int write_proc(const char *path, const char *text)
{
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CLOEXEC);

	return fd < 0 ? -errno : shfs_write_all(fd, text, strlen(text));
}

int shfs_namespace_enter(int more)
{
	bool root = geteuid() == 0;
	char uids[48], gids[48];
	int r = 0;

	snprintf(uids, sizeof(uids), "%u %u 1", geteuid(), geteuid());
	snprintf(gids, sizeof(gids), "%u %u 1", getegid(), getegid());
	if (unshare(CLONE_NEWNS | (root ? 0 : CLONE_NEWUSER) | more))
		return -errno;
	if (!root)
		r = write_proc("/proc/self/setgroups", "deny");
	if (!r && !root)
		r = write_proc("/proc/self/uid_map", uids);
	if (!r && !root)
		r = write_proc("/proc/self/gid_map", gids);
	if (!r && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
		r = -errno;
	return r;
}

int shfs_namespace_fail(int r)
{
	shfs_error("cannot make a namespace: %s", strerror(-r));
	shfs_hint("user namespaces may be forbidden here: sysctl "
	          "user.max_user_namespaces, kernel.unprivileged_userns_clone, "
	          "kernel.apparmor_restrict_unprivileged_userns");
	return SHFS_EXIT_UNAVAILABLE;
}

void shfs_namespace_pass_mounting(bool pass)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { 0 };
	unsigned bit = 1u << CAP_SYS_ADMIN;

	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	if (syscall(SYS_capget, &head, data))
		return;
	data[0].inheritable = pass ? data[0].inheritable | bit : 0;
	data[1].inheritable = pass ? data[1].inheritable : 0;
	if (!syscall(SYS_capset, &head, data) && pass)
		prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_SYS_ADMIN, 0, 0);
}

void shfs_namespace_drop_privileges(void)
{
	if (!geteuid())
		return;
	shfs_namespace_pass_mounting(false);
	for (int cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
		prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
}
