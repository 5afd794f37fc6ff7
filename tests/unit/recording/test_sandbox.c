/* SPDX-License-Identifier: MIT */
/* What the filter of recording/sandbox.c leaves a process, also threads that ran before.
 */
#include "tests/unit/unit.h"

#include "common/lock.h"
#include "recording/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

#define BAD (-1)

/* Without the filter none of them fails with EPERM for root; harmless if it succeeds. */
static const struct attempt {
	const char *name;
	long call, args[6];
	unsigned but; /* who needs one of these may do it */
	bool root;    /* others may not do it anyway */
} attempts[] = {
	{ "execve", SYS_execve, { (long)"/bin/true" } },
	{ "execveat", SYS_execveat, { AT_FDCWD, (long)"/bin/true" } },
#if !SANITIZED
	{ "ptrace", SYS_ptrace, { PTRACE_TRACEME } },
#endif
	{ "socket of the net", SYS_socket, { AF_INET, SOCK_STREAM } },
	{ "socket of packets", SYS_socket, { AF_NETLINK, SOCK_RAW } },
	{ "socket",
	  SYS_socket,
	  { AF_UNIX, SOCK_DGRAM },
	  SHFS_SANDBOX_SOCKETS | SHFS_SANDBOX_LOCKS },
	{ "socketpair", SYS_socketpair, { AF_UNIX, SOCK_STREAM, 0, 0 } },
	{ "connect", SYS_connect, { BAD }, SHFS_SANDBOX_SOCKETS },
	{ "accept", SYS_accept4, { BAD }, SHFS_SANDBOX_SOCKETS | SHFS_SANDBOX_ACCEPT },
	{ "bind", SYS_bind, { BAD }, SHFS_SANDBOX_LOCKS },
	{ "listen", SYS_listen, { BAD } },
	{ "process_vm_readv", SYS_process_vm_readv, { 0 } },
	{ "process_vm_writev", SYS_process_vm_writev, { 0 } },
	{ "pidfd_getfd", SYS_pidfd_getfd, { BAD, BAD } },
	{ "mount", SYS_mount, { 0 }, 0, true },
	{ "umount2", SYS_umount2, { 0 }, 0, true },
	{ "chroot", SYS_chroot, { 0 } },
	{ "setns", SYS_setns, { BAD } },
	{ "unshare", SYS_unshare, { CLONE_NEWNS }, 0, true },
	{ "move_mount", SYS_move_mount, { BAD, 0, BAD, 0 }, 0, true },
	{ "fsopen", SYS_fsopen, { 0 }, 0, true },
	{ "open_tree", SYS_open_tree, { BAD, 0 } },
	{ "mount_setattr", SYS_mount_setattr, { BAD, 0 }, 0, true },
	{ "io_uring_setup", SYS_io_uring_setup, { 1, 0 }, 0, true },
	{ "bpf", SYS_bpf, { BAD }, 0, true },
	{ "init_module", SYS_init_module, { 0 }, 0, true },
	{ "add_key", SYS_add_key, { 0 } },
	{ "keyctl", SYS_keyctl, { BAD } },
	{ "perf_event_open", SYS_perf_event_open, { 0 }, 0, true },
};

/* In a process of its own, which may become another program or die. */
static int error_of(const struct attempt *a)
{
	int error = 0, status;
	pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);

	if (pid)
		return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status)
		               ? WEXITSTATUS(status)
		               : -1;
	if (syscall(a->call, a->args[0], a->args[1], a->args[2], a->args[3], a->args[4],
	            a->args[5]) < 0)
		error = errno;
	_exit(error);
}

struct report {
	unsigned needs;
	char failed[100];
	pthread_barrier_t entered;
};

static void try_all(struct report *report, const char *who)
{
	for (size_t i = 0; i < ARRAY_SIZE(attempts) && !report->failed[0]; i++) {
		const struct attempt *a = &attempts[i];
		int error = error_of(a);

		if ((error == EPERM) == !(a->but & report->needs) ||
		    (a->but & report->needs && a->root))
			continue;
		snprintf(report->failed, sizeof(report->failed), "%s, %s: %s", who,
		         a->name, strerror(error));
	}
}

static void *before_it(void *arg)
{
	struct report *report = arg;

	pthread_barrier_wait(&report->entered);
	try_all(report, "a thread from before");
	return NULL;
}

static void enter_and_try(struct report *report)
{
	pthread_t thread;
	char name[64];
	int lock;

	pthread_barrier_init(&report->entered, NULL, 2);
	if (pthread_create(&thread, NULL, before_it, report) ||
	    shfs_sandbox_enter(report->needs)) {
		snprintf(report->failed, sizeof(report->failed), "no filter");
		return;
	}
	pthread_barrier_wait(&report->entered);
	pthread_join(thread, NULL);
	if (!report->failed[0])
		try_all(report, "the one that entered");
	snprintf(name, sizeof(name), "test-sandbox-%d", (int)getpid());
	lock = shfs_lock_take(name, 0);
	if ((lock >= 0) != !!(report->needs & SHFS_SANDBOX_LOCKS))
		snprintf(report->failed, sizeof(report->failed), "lock: %d", lock);
	if (unshare(CLONE_FS))
		snprintf(report->failed, sizeof(report->failed), "no umask of its own");
}

static void in_sandbox(unsigned needs)
{
	struct report report = { .needs = needs };
	int status, pipes[2];
	pid_t pid;

	assert_int_equal(pipe(pipes), 0);
	pid = fork();
	if (!pid) {
		enter_and_try(&report);
		(void)!write(pipes[1], report.failed, sizeof(report.failed));
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(read(pipes[0], report.failed, sizeof(report.failed)),
	                 sizeof(report.failed));
	close(pipes[0]);
	close(pipes[1]);
	if (report.failed[0])
		fail_msg("%s", report.failed);
}

static void nothing_gets_through(void **state)
{
	in_sandbox(0);
}

static void sockets_of_this_host(void **state)
{
	in_sandbox(SHFS_SANDBOX_SOCKETS);
}

static void locks(void **state)
{
	in_sandbox(SHFS_SANDBOX_LOCKS);
}

static void accepting(void **state)
{
	in_sandbox(SHFS_SANDBOX_ACCEPT);
}

static void both(void **state)
{
	in_sandbox(SHFS_SANDBOX_SOCKETS | SHFS_SANDBOX_LOCKS);
}

/* It is the filter that refuses: without it each fails in another way, or not. */
static void without_it(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(attempts); i++)
		if ((!geteuid() || !attempts[i].root) && error_of(&attempts[i]) == EPERM)
			fail_msg("%s", attempts[i].name);
}

/* --- no changes --- */

/* Each changes the file at PATH, open to read and write as FD, but for the filter. */
#define PATH  ((long)path)
#define OTHER ((long)other)
#define FD    ((long)fd)

static const char *try_changes(const char *path, const char *other, int fd, bool filtered)
{
	struct iovec iov = { (void *)"x", 1 };
	struct open_how how = { .flags = O_WRONLY };
	const struct attempt changes[] = {
		{ "write", SYS_write, { FD, (long)"x", 1 } },
		{ "writev", SYS_writev, { FD, (long)&iov, 1 } },
		{ "pwrite", SYS_pwrite64, { FD, (long)"x", 1, 0 } },
		{ "pwritev", SYS_pwritev, { FD, (long)&iov, 1, 0, 0 } },
		{ "pwritev2", SYS_pwritev2, { FD, (long)&iov, 1, 0, 0, 0 } },
		{ "sendfile", SYS_sendfile, { FD, FD, 0, 1 } },
		{ "copy_file_range", SYS_copy_file_range, { FD, 0, FD, 0, 0, 0 } },
		{ "ftruncate", SYS_ftruncate, { FD, 0 } },
		{ "truncate", SYS_truncate, { PATH, 0 } },
		{ "fallocate", SYS_fallocate, { FD, 0, 0, 1 } },
		{ "open to write", SYS_open, { PATH, O_WRONLY } },
		{ "open to read and write", SYS_open, { PATH, O_RDWR | O_CLOEXEC } },
		{ "open to append", SYS_open, { PATH, O_APPEND | O_WRONLY } },
		{ "open and truncate", SYS_open, { PATH, O_RDONLY | O_TRUNC } },
		{ "openat to write", SYS_openat, { AT_FDCWD, PATH, O_WRONLY } },
		{ "openat and make", SYS_openat, { AT_FDCWD, PATH, O_CREAT, 0600 } },
		{ "openat unnamed",
		  SYS_openat,
		  { AT_FDCWD, (long)"/tmp", O_TMPFILE | O_RDWR, 0600 } },
		{ "openat2", SYS_openat2, { AT_FDCWD, PATH, (long)&how, sizeof(how) } },
		{ "creat", SYS_creat, { PATH, 0600 } },
		{ "chmod", SYS_chmod, { PATH, 0600 } },
		{ "fchmod", SYS_fchmod, { FD, 0600 } },
		{ "chown", SYS_chown, { PATH, -1, -1 } },
		{ "utimensat", SYS_utimensat, { AT_FDCWD, PATH, 0, 0 } },
		{ "setxattr", SYS_setxattr, { PATH, (long)"user.x", (long)"x", 1, 0 } },
		{ "link", SYS_link, { PATH, OTHER } },
		{ "rename", SYS_rename, { OTHER, PATH } }, /* of one file: OTHER stays */
		{ "unlink", SYS_unlink, { OTHER } },
		{ "symlink", SYS_symlink, { (long)"x", OTHER } },
		{ "unlink", SYS_unlink, { OTHER } },
		{ "mkdir", SYS_mkdir, { OTHER, 0700 } },
		{ "rmdir", SYS_rmdir, { OTHER } },
		{ "mknod", SYS_mknod, { OTHER, S_IFREG | 0600, 0 } },
		{ "unlink", SYS_unlink, { OTHER } },
	};

	for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
		int error = error_of(&changes[i]);

		if (filtered ? error != (changes[i].call == SYS_openat2 ? ENOSYS : EPERM)
		             : error && error != EOPNOTSUPP)
			return changes[i].name;
	}
	return NULL;
}

/* Can a socket that was there be sent to? */
static bool can_send(void)
{
	int ends[2];

	return !socketpair(AF_UNIX, SOCK_STREAM, 0, ends) &&
	       send(ends[0], "x", 1, 0) == 1;
}

/* Nothing but one pipe can be written to, and a file be read. */
static void forbids_changes(int (*forbid)(const int *fds, size_t n), bool sends)
{
	char path[] = "/tmp/shfs-unit.XXXXXX", other[sizeof(path) + 2], told[64] = "";
	int fd = mkstemp(path), pipes[2], status;
	const char *failed;
	pid_t pid;

	snprintf(other, sizeof(other), "%s.2", path);
	assert_true(fd >= 0 && write(fd, "text", 4) == 4 && !pipe(pipes));
	failed = try_changes(path, other, fd, false);
	if (failed)
		fail_msg("without the filter: %s", failed);
	assert_int_equal(pwrite(fd, "text", 4, 0), 4);
	pid = fork();
	if (!pid) {
		if (forbid(&pipes[1], 1))
			failed = "no filter";
		else
			failed = try_changes(path, other, fd, true);
		if (!failed && open(path, O_RDONLY | O_CLOEXEC) < 0)
			failed = "open to read";
		if (!failed && can_send() != sends)
			failed = "send";
		snprintf(told, sizeof(told), "%s", failed ? failed : "");
		_exit(write(pipes[1], told, sizeof(told)) != sizeof(told));
	}
	close(pipes[1]);
	assert_int_equal(read(pipes[0], told, sizeof(told)), sizeof(told));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_string_equal(told, "");
	assert_int_equal(pread(fd, told, sizeof(told), 0), 4);
	assert_memory_equal(told, "text", 4);
	assert_int_equal(access(other, F_OK), -1);
	unlink(path);
	close(fd);
	close(pipes[0]);
}

static void nothing_changes(void **state)
{
	forbids_changes(shfs_sandbox_forbid_changes, false);
}

static void nothing_changes_but_it_sends(void **state)
{
	forbids_changes(shfs_sandbox_forbid_changes_of_files, true);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_gets_through),
		cmocka_unit_test(sockets_of_this_host),
		cmocka_unit_test(locks),
		cmocka_unit_test(accepting),
		cmocka_unit_test(both),
		cmocka_unit_test(without_it),
		cmocka_unit_test(nothing_changes),
		cmocka_unit_test(nothing_changes_but_it_sends),
	};

	return shfs_unit_main(tests, argc, argv);
}
