/* SPDX-License-Identifier: MIT */
/*
 * Unusual ways to open, write, map and close a file: edges DIR. Each uses one file, of
 * its own name, in DIR (a few have a second one), and test_vm.py knows what is to be told
 * of it.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#define CREATE (O_WRONLY | O_CREAT)

static void check(int ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	exit(1);
}

static int open_it(const char *name, int flags)
{
	int fd = open(name, flags, 0644);

	check(fd >= 0, name);
	return fd;
}

static void put(int fd, const char *text)
{
	check(write(fd, text, strlen(text)) == (ssize_t)strlen(text), "write");
}

/* A file of ten bytes; its making is told as any other. */
static void make(const char *name)
{
	int fd = open_it(name, CREATE);

	put(fd, "0123456789");
	close(fd);
}

static char *map(int fd, int protection, int flags)
{
	char *at = mmap(NULL, 10, protection, flags, fd, 0);

	check(at != MAP_FAILED, "mmap");
	return at;
}

static void wait_for(pid_t pid)
{
	check(waitpid(pid, NULL, 0) == pid, "waitpid");
}

static void maps(void)
{
	char *at, seen;
	pid_t pid;
	int fd;

	fd = open_it("map-written-after-close", O_RDWR);
	at = map(fd, PROT_READ | PROT_WRITE, MAP_SHARED);
	close(fd);
	usleep(2000);
	at[0] = 'M';
	munmap(at, 10);

	fd = open_it("map-private", O_RDWR);
	at = map(fd, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	at[0] = 'P';
	munmap(at, 10);
	close(fd);

	fd = open_it("map-read-only", O_RDONLY);
	at = map(fd, PROT_READ, MAP_SHARED);
	close(fd);
	seen = at[0];
	(void)seen;
	munmap(at, 10);

	fd = open_it("map-mprotect", O_RDWR);
	at = map(fd, PROT_READ, MAP_SHARED);
	close(fd);
	check(!mprotect(at, 10, PROT_READ | PROT_WRITE), "mprotect");
	at[0] = 'R';
	munmap(at, 10);

	pid = fork();
	if (!pid) {
		fd = open_it("map-until-exit", O_RDWR);
		at = map(fd, PROT_READ | PROT_WRITE, MAP_SHARED);
		close(fd);
		at[1] = 'E';
		_exit(0);
	}
	wait_for(pid);
}

static void descriptors(void)
{
	pid_t pid;
	int fd, copy;

	fd = open_it("dup", CREATE);
	copy = dup(fd);
	put(copy, "d");
	close(fd);
	usleep(1000);
	close(copy);

	fd = open_it("inherited", CREATE);
	put(fd, "p");
	pid = fork();
	if (!pid) {
		usleep(10000);
		_exit(0); /* the last to close */
	}
	close(fd);
	wait_for(pid);

	fd = open_it("written-by-two", CREATE);
	put(fd, "p");
	pid = fork();
	if (!pid) {
		put(fd, "c");
		_exit(0);
	}
	wait_for(pid);
	close(fd);

	fd = open_it("killed", CREATE);
	put(fd, "k");
	pid = fork();
	if (!pid) {
		pause();
		_exit(0);
	}
	close(fd);
	kill(pid, SIGKILL);
	wait_for(pid);

	pid = fork();
	if (!pid) {
		open_it("close-on-exec", CREATE | O_CLOEXEC);
		put(3, "e");
		execl("/bin/true", "true", NULL);
		_exit(1);
	}
	wait_for(pid);

	/* what a program with more rights writes to its output */
	fd = open_it("written-by-setuid", CREATE);
	pid = fork();
	if (!pid) {
		dup2(fd, STDOUT_FILENO);
		execl("/bin/edges-setuid", "edges", ".", "put", NULL);
		_exit(1);
	}
	wait_for(pid);
	close(fd);
}

static void send_fd(int to, int fd)
{
	char byte = 'x', control[CMSG_SPACE(sizeof(fd))] = { 0 };
	struct iovec data = { &byte, 1 };
	struct msghdr message = { .msg_iov = &data,
		                  .msg_iovlen = 1,
		                  .msg_control = control,
		                  .msg_controllen = sizeof(control) };
	struct cmsghdr *head = CMSG_FIRSTHDR(&message);

	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(sizeof(fd));
	memcpy(CMSG_DATA(head), &fd, sizeof(fd));
	check(sendmsg(to, &message, 0) == 1, "sendmsg");
}

/* In flight in a socket that nobody can reach: closed by a thread of the kernel. */
static void in_flight(void)
{
	int fd = open_it("in-flight", CREATE), pair[2];

	put(fd, "g");
	check(!socketpair(AF_UNIX, SOCK_DGRAM, 0, pair), "socketpair");
	send_fd(pair[0], pair[0]);
	send_fd(pair[0], pair[1]);
	send_fd(pair[0], fd);
	close(fd);
	close(pair[0]);
	close(pair[1]);
	close(socket(AF_UNIX, SOCK_DGRAM, 0));
}

static void copies(void)
{
	int from = open_it("source", O_RDONLY), fd, pipes[2];

	fd = open_it("copied", CREATE);
	check(copy_file_range(from, NULL, fd, NULL, 10, 0) == 10, "copy_file_range");
	close(fd);
	fd = open_it("sent", CREATE);
	lseek(from, 0, SEEK_SET);
	check(sendfile(fd, from, NULL, 10) == 10, "sendfile");
	close(fd);
	close(from);
	fd = open_it("spliced", CREATE);
	check(!pipe(pipes), "pipe");
	put(pipes[1], "abc");
	check(splice(pipes[0], NULL, fd, NULL, 3, 0) == 3, "splice");
	close(pipes[0]);
	close(pipes[1]);
	close(fd);
	fd = open_it("allocated", CREATE);
	check(!fallocate(fd, 0, 0, 100), "fallocate");
	close(fd);
}

static void *write_in_thread(void *fd)
{
	put(*(int *)fd, "T");
	return NULL;
}

static void opens(void)
{
	pthread_t thread;
	int fd;

	fd = open_it("created", CREATE);
	close(fd);
	fd = open_it("read-write-only-read", O_RDWR);
	check(read(fd, (char[4]){ 0 }, 4) == 4, "read");
	close(fd);
	fd = open_it("not-written", O_WRONLY);
	close(fd);
	fd = open_it("truncated-by-open", O_WRONLY | O_TRUNC);
	close(fd);
	fd = open_it("truncated", O_RDWR);
	check(!ftruncate(fd, 3), "ftruncate");
	close(fd);
	check(!truncate("truncated-by-name", 3), "truncate");
	fd = open_it("appended", O_WRONLY | O_APPEND);
	put(fd, "a");
	close(fd);
	fd = open_it("by-thread", CREATE);
	check(!pthread_create(&thread, NULL, write_in_thread, &fd), "thread");
	pthread_join(thread, NULL);
	close(fd);
	close(open_it("path-only", O_PATH));
}

static void names(void)
{
	char link[32];
	int fd;

	fd = open_it("saved.tmp", CREATE);
	put(fd, "new");
	close(fd);
	check(!rename("saved.tmp", "saved"), "rename");
	fd = open_it("renamed-while-open", O_WRONLY);
	put(fd, "r");
	check(!rename("renamed-while-open", "renamed"), "rename");
	close(fd);
	fd = open_it("unlinked-while-open", CREATE);
	put(fd, "u");
	check(!unlink("unlinked-while-open"), "unlink");
	close(fd);
	fd = open(".", O_TMPFILE | O_RDWR, 0644);
	if (fd < 0)
		return; /* not with every file system */
	put(fd, "t");
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	check(!linkat(AT_FDCWD, link, AT_FDCWD, "linked", AT_SYMLINK_FOLLOW), "linkat");
	close(fd);
}

static void attributes(void)
{
	static const struct {
		uint32_t version;
		struct {
			uint16_t tag, permissions;
			uint32_t id;
		} of[5]; /* owner, user 0, group, mask, others */
	} acl = { 2,
		  { { 0x01, 6, -1 },
		    { 0x02, 4, 0 },
		    { 0x04, 4, -1 },
		    { 0x10, 4, -1 },
		    { 0x20, 4, -1 } } };
	static const char name[] = "system.posix_acl_access";

	make("acl");
	check(!setxattr("acl", name, &acl, sizeof(acl), 0), "setxattr");
	check(!removexattr("acl", name), "removexattr");
	check(removexattr("acl", "user.none"), "removexattr of none");
	make("attribute");
	if (!setxattr("attribute", "user.a", "1", 1, 0)) /* not with every tmpfs */
		check(!removexattr("attribute", "user.a"), "removexattr");
}

/* Written and closed by a worker of the kernel. */
static void by_ring(void)
{
	struct io_uring_params p = { 0 };
	int ring = (int)syscall(SYS_io_uring_setup, 4, &p), fd;
	struct io_uring_sqe *entries;
	uint32_t *tail, *array;
	char *queue;

	if (ring < 0 && (errno == ENOSYS || errno == EPERM))
		return;
	check(ring >= 0, "io_uring_setup");
	queue = mmap(NULL, p.sq_off.array + p.sq_entries * 4, PROT_READ | PROT_WRITE,
	             MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQ_RING);
	entries = mmap(NULL, p.sq_entries * sizeof(*entries), PROT_READ | PROT_WRITE,
	               MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQES);
	check(queue != MAP_FAILED && entries != MAP_FAILED, "io_uring");
	tail = (uint32_t *)(queue + p.sq_off.tail);
	array = (uint32_t *)(queue + p.sq_off.array);
	fd = open_it("by-ring", CREATE);
	for (int i = 0; i < 2; i++) {
		memset(entries, 0, sizeof(*entries));
		entries->opcode = i ? IORING_OP_CLOSE : IORING_OP_WRITE;
		entries->fd = fd;
		entries->addr = i ? 0 : (uintptr_t) "ring";
		entries->len = i ? 0 : 4;
		entries->flags = IOSQE_ASYNC;
		array[0] = 0;
		__atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
		check(syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS,
		              NULL, 0) == 1,
		      "io_uring_enter");
	}
	close(ring);
}

int main(int argc, char **argv)
{
	static const char *const made[] = {
		"map-written-after-close",
		"map-private",
		"map-read-only",
		"map-mprotect",
		"map-until-exit",
		"source",
		"read-write-only-read",
		"not-written",
		"truncated-by-open",
		"truncated",
		"truncated-by-name",
		"appended",
		"path-only",
		"renamed-while-open",
		"saved",
	};

	check(argc > 1 && !chdir(argv[1]), "the directory");
	if (argc > 2 && !strcmp(argv[2], "put")) {
		put(STDOUT_FILENO, "o");
		return 0;
	}
	if (argc > 2) { /* prepare */
		for (size_t i = 0; i < sizeof(made) / sizeof(made[0]); i++)
			make(made[i]);
		return 0;
	}
	opens();
	descriptors();
	maps();
	copies();
	names();
	attributes();
	by_ring();
	in_flight();
	return 0;
}
