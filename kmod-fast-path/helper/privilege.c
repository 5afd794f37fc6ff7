/* SPDX-License-Identifier: MIT */
#include "kmod-fast-path/helper/privilege.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/bpf.h>
#include <linux/capability.h>
#include <sched.h>
#include <seccomp.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

/* A sanitizer traces its process and writes reports. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

#define CAP(name) (UINT64_C(1) << CAP_##name)

/* fanotify_init and mount marks; open_by_handle_at; BPF programs (the limit: of locked
 * memory, before 5.11); the connector of process events; /proc of others */
#define CAPS_OPEN                                                                        \
	(CAP(SYS_ADMIN) | CAP(DAC_READ_SEARCH) | CAP(BPF) | CAP(PERFMON) |               \
	 CAP(SYS_RESOURCE) | CAP(NET_ADMIN) | CAP(SYS_PTRACE))
/* to become another user, in that user's mount namespace */
#define CAPS_BECOME (CAP(SETUID) | CAP(SETGID) | CAP(SETPCAP) | CAP(SYS_CHROOT))

/* The capabilities that each driver needs while it drains. */
struct needs {
	const char *driver;
	uint64_t caps;
	bool openat2; /* no filter can see its arguments */
};

static const struct needs serving[] = {
	{ "module", 0, false },
	/* look-ups in maps, where the kernel demands it for those too; contents by
	 * handle */
	{ "bpf", CAP(BPF) | CAP(PERFMON) | CAP(DAC_READ_SEARCH) | CAP(SYS_PTRACE), true },
	{ "bpf-tracepoints",
	  CAP(BPF) | CAP(PERFMON) | CAP(DAC_READ_SEARCH) | CAP(SYS_PTRACE), true },
	/* marks, also of later mounts; to leave the connector */
	{ "fanotify",
	  CAP(SYS_ADMIN) | CAP(DAC_READ_SEARCH) | CAP(SYS_PTRACE) | CAP(NET_ADMIN),
	  false },
	{ NULL, CAP(DAC_READ_SEARCH), false }, /* a driver of tests */
};

/* of this process, while it serves */
static struct {
	uint64_t caps;
} state;

static const struct needs *needs_of(const char *driver)
{
	const struct needs *n = serving;

	while (n->driver && strcmp(n->driver, driver) != 0)
		n++;
	return n;
}

/* --- capabilities --- */

static int get_permitted(uint64_t *out)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

	if (syscall(SYS_capget, &head, data))
		return -errno;
	*out = data[0].permitted | (uint64_t)data[1].permitted << 32;
	return 0;
}

static int set_caps(uint64_t permitted, uint64_t effective)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {
		{ (uint32_t)effective, (uint32_t)permitted, 0 },
		{ (uint32_t)(effective >> 32), (uint32_t)(permitted >> 32), 0 },
	};

	return syscall(SYS_capset, &head, data) ? -errno : 0;
}

/* Keeps only these capabilities, as far as it has them. Also limits what a program could
 * have that this process executed, if it could. */
static int keep_caps(uint64_t wanted, uint64_t *kept)
{
	uint64_t had = 0;
	int r = get_permitted(&had);

	if (r)
		return r;
	for (int cap = 0; cap < 64 && had & CAP(SETPCAP); cap++)
		if (!(wanted >> cap & 1) && prctl(PR_CAPBSET_READ, cap, 0, 0, 0) == 1 &&
		    prctl(PR_CAPBSET_DROP, cap, 0, 0, 0))
			return -errno;
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0))
		return -errno;
	r = set_caps(had & wanted, had & wanted);
	if (!r)
		*kept = had & wanted;
	return r;
}

void shfs_privilege_as_peer(bool on)
{
	uint64_t beyond = CAP(DAC_READ_SEARCH);

	if (!(state.caps & beyond))
		return;
	/* better no subscription than one with too many rights */
	if (set_caps(state.caps, on ? state.caps & ~beyond : state.caps))
		abort();
}

/* --- seccomp --- */

enum { FROM_BEGIN, FROM_SERVE };

static const struct {
	int from, call;
} denied[] = {
	/* programs */
	{ FROM_BEGIN, SCMP_SYS(execve) },
	{ FROM_BEGIN, SCMP_SYS(execveat) },
#if !SANITIZED
	{ FROM_BEGIN, SCMP_SYS(ptrace) },
#endif
	/* other processes */
	{ FROM_BEGIN, SCMP_SYS(process_vm_readv) },
	{ FROM_BEGIN, SCMP_SYS(process_vm_writev) },
	{ FROM_BEGIN, SCMP_SYS(pidfd_getfd) },
	{ FROM_BEGIN, SCMP_SYS(kcmp) },
	/* mounts and namespaces */
	{ FROM_BEGIN, SCMP_SYS(umount2) },
	{ FROM_BEGIN, SCMP_SYS(pivot_root) },
	{ FROM_BEGIN, SCMP_SYS(chroot) },
	/* the kernel */
	{ FROM_BEGIN, SCMP_SYS(init_module) },
	{ FROM_BEGIN, SCMP_SYS(finit_module) },
	{ FROM_BEGIN, SCMP_SYS(delete_module) },
	{ FROM_BEGIN, SCMP_SYS(kexec_load) },
	{ FROM_BEGIN, SCMP_SYS(kexec_file_load) },
	{ FROM_BEGIN, SCMP_SYS(reboot) },
	{ FROM_BEGIN, SCMP_SYS(swapon) },
	{ FROM_BEGIN, SCMP_SYS(swapoff) },
	{ FROM_BEGIN, SCMP_SYS(acct) },
	{ FROM_BEGIN, SCMP_SYS(quotactl) },
	{ FROM_BEGIN, SCMP_SYS(syslog) },
	{ FROM_BEGIN, SCMP_SYS(sethostname) },
	{ FROM_BEGIN, SCMP_SYS(settimeofday) },
	{ FROM_BEGIN, SCMP_SYS(clock_settime) },
	{ FROM_BEGIN, SCMP_SYS(keyctl) },
	{ FROM_BEGIN, SCMP_SYS(add_key) },
	{ FROM_BEGIN, SCMP_SYS(request_key) },
	{ FROM_BEGIN, SCMP_SYS(userfaultfd) },
	{ FROM_BEGIN, SCMP_SYS(io_uring_setup) },
	/* calls that a driver may need to open */
	{ FROM_SERVE, SCMP_SYS(mount) },
	{ FROM_SERVE, SCMP_SYS(setns) },
	{ FROM_SERVE, SCMP_SYS(unshare) },
	{ FROM_SERVE, SCMP_SYS(move_mount) },
	{ FROM_SERVE, SCMP_SYS(fsopen) },
	{ FROM_SERVE, SCMP_SYS(open_tree) },
	{ FROM_SERVE, SCMP_SYS(mount_setattr) },
	{ FROM_SERVE, SCMP_SYS(perf_event_open) },
	{ FROM_SERVE, SCMP_SYS(fanotify_init) },
	/* other processes, and the network */
	{ FROM_SERVE, SCMP_SYS(fork) },
	{ FROM_SERVE, SCMP_SYS(vfork) },
	{ FROM_SERVE, SCMP_SYS(socket) },
	{ FROM_SERVE, SCMP_SYS(socketpair) },
	{ FROM_SERVE, SCMP_SYS(connect) },
	{ FROM_SERVE, SCMP_SYS(bind) },
	{ FROM_SERVE, SCMP_SYS(listen) },
	{ FROM_SERVE, SCMP_SYS(accept) },
	{ FROM_SERVE, SCMP_SYS(accept4) },
#if !SANITIZED
	{ FROM_SERVE, SCMP_SYS(kill) },
	{ FROM_SERVE, SCMP_SYS(tkill) },
#endif
	/* the way back to root */
	{ FROM_SERVE, SCMP_SYS(setuid) },
	{ FROM_SERVE, SCMP_SYS(setgid) },
	{ FROM_SERVE, SCMP_SYS(setreuid) },
	{ FROM_SERVE, SCMP_SYS(setregid) },
	{ FROM_SERVE, SCMP_SYS(setresuid) },
	{ FROM_SERVE, SCMP_SYS(setresgid) },
	{ FROM_SERVE, SCMP_SYS(setfsuid) },
	{ FROM_SERVE, SCMP_SYS(setfsgid) },
	{ FROM_SERVE, SCMP_SYS(setgroups) },
	/* changing files */
	{ FROM_SERVE, SCMP_SYS(creat) },
	{ FROM_SERVE, SCMP_SYS(truncate) },
	{ FROM_SERVE, SCMP_SYS(rename) },
	{ FROM_SERVE, SCMP_SYS(renameat) },
	{ FROM_SERVE, SCMP_SYS(renameat2) },
	{ FROM_SERVE, SCMP_SYS(link) },
	{ FROM_SERVE, SCMP_SYS(linkat) },
	{ FROM_SERVE, SCMP_SYS(symlink) },
	{ FROM_SERVE, SCMP_SYS(symlinkat) },
	{ FROM_SERVE, SCMP_SYS(unlink) },
	{ FROM_SERVE, SCMP_SYS(unlinkat) },
	{ FROM_SERVE, SCMP_SYS(mkdir) },
	{ FROM_SERVE, SCMP_SYS(mkdirat) },
	{ FROM_SERVE, SCMP_SYS(rmdir) },
	{ FROM_SERVE, SCMP_SYS(mknod) },
	{ FROM_SERVE, SCMP_SYS(mknodat) },
	{ FROM_SERVE, SCMP_SYS(chmod) },
	{ FROM_SERVE, SCMP_SYS(fchmod) },
	{ FROM_SERVE, SCMP_SYS(fchmodat) },
	{ FROM_SERVE, SCMP_SYS(chown) },
	{ FROM_SERVE, SCMP_SYS(fchown) },
	{ FROM_SERVE, SCMP_SYS(lchown) },
	{ FROM_SERVE, SCMP_SYS(fchownat) },
	{ FROM_SERVE, SCMP_SYS(setxattr) },
	{ FROM_SERVE, SCMP_SYS(lsetxattr) },
	{ FROM_SERVE, SCMP_SYS(fsetxattr) },
	{ FROM_SERVE, SCMP_SYS(removexattr) },
	{ FROM_SERVE, SCMP_SYS(lremovexattr) },
	{ FROM_SERVE, SCMP_SYS(fremovexattr) },
};

/* Commands of bpf(2) that bring something new into the kernel. */
static const int denied_bpf[] = {
	BPF_MAP_CREATE,    BPF_PROG_LOAD,   BPF_OBJ_PIN,      BPF_OBJ_GET,
	BPF_PROG_ATTACH,   BPF_BTF_LOAD,    BPF_LINK_CREATE,  BPF_RAW_TRACEPOINT_OPEN,
	BPF_PROG_BIND_MAP, BPF_LINK_UPDATE, BPF_ENABLE_STATS,
};

static int deny_if(scmp_filter_ctx filter, int call, unsigned arg, uint64_t mask,
                   uint64_t value)
{
	struct scmp_arg_cmp cmp = { arg, SCMP_CMP_MASKED_EQ, mask, value };

	return seccomp_rule_add_array(filter, SCMP_ACT_ERRNO(EPERM), call, 1, &cmp);
}

static int deny_bpf_and_writes(scmp_filter_ctx filter)
{
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(denied_bpf) && !r; i++)
		r = deny_if(filter, SCMP_SYS(bpf), 0, UINT32_MAX,
		            (uint64_t)denied_bpf[i]);
	if (SANITIZED || r)
		return r;
	static const uint64_t to_write[] = { O_WRONLY, O_RDWR };
	for (size_t i = 0; i < ARRAY_SIZE(to_write) && !r; i++) {
		r = deny_if(filter, SCMP_SYS(openat), 2, O_ACCMODE, to_write[i]);
		if (!r)
			r = deny_if(filter, SCMP_SYS(open), 1, O_ACCMODE, to_write[i]);
	}
	if (!r)
		r = deny_if(filter, SCMP_SYS(openat), 2, O_CREAT, O_CREAT);
	if (!r)
		r = deny_if(filter, SCMP_SYS(open), 1, O_CREAT, O_CREAT);
	/* threads are no processes; clone3 hides its arguments, and libc does without
	 * it */
	if (!r)
		r = deny_if(filter, SCMP_SYS(clone), 0, CLONE_THREAD, 0);
	if (!r)
		r = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
	return r;
}

/* needs: NULL for FROM_BEGIN. */
static int filter_calls(int from, const struct needs *needs)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
	int r = filter ? 0 : -ENOMEM;

	if (!r)
		r = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);
	for (size_t i = 0; i < ARRAY_SIZE(denied) && !r; i++)
		if (denied[i].from == from)
			r = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM),
			                     denied[i].call, 0);
	if (!r && needs)
		r = deny_bpf_and_writes(filter);
	if (!r && needs && !needs->openat2)
		r = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(openat2),
		                     0);
	if (!r)
		r = seccomp_load(filter);
	seccomp_release(filter);
	return r;
}

/* --- begin and serve --- */

/* Forbids core dumps, tracing and new privileges. The kernel forgets the first two with
 * each change of ids. */
static int close_shutters(void)
{
	if (prctl(PR_SET_DUMPABLE, SANITIZED, 0, 0, 0) ||
	    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -errno;
	return 0;
}

int shfs_privilege_begin(void)
{
	int r = keep_caps(CAPS_OPEN | CAPS_BECOME, &state.caps);

	if (!r)
		r = close_shutters();
	return r ? r : filter_calls(FROM_BEGIN, NULL);
}

static int become_peer(const struct shfs_peer *peer)
{
	if (geteuid())
		return peer->uid == geteuid() ? 0 : -EPERM;
	if (setgroups(peer->n_groups, peer->groups))
		return -errno;
	setfsgid(peer->gid);
	setfsuid(peer->uid);
	/* neither call reports whether it worked */
	if ((uid_t)setfsuid((uid_t)-1) != peer->uid ||
	    (gid_t)setfsgid((gid_t)-1) != peer->gid)
		return -EPERM;
	return 0;
}

int shfs_privilege_serve(const char *driver, const struct shfs_peer *peer)
{
	const struct needs *needs = needs_of(driver);
	pid_t parent = getppid();
	int at_its_death = 0, r;

	if (prctl(PR_GET_PDEATHSIG, &at_its_death, 0, 0, 0))
		return -errno;
	r = become_peer(peer);
	if (!r)
		r = keep_caps(needs->caps, &state.caps);
	if (!r)
		r = close_shutters();
	/* the kernel has forgotten this as well */
	if (!r && at_its_death &&
	    (prctl(PR_SET_PDEATHSIG, at_its_death, 0, 0, 0) || getppid() != parent))
		r = -ESRCH;
	return r ? r : filter_calls(FROM_SERVE, needs);
}
