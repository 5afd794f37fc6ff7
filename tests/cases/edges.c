/* SPDX-License-Identifier: MIT */
/*
 * Ways to open, write, map and close a file: one after another, each on a file of its own
 * that is called as the way is.
 *
 *   edges prepare      in the working directory: makes the files that must be there
 * before edges run          goes all ways; for each a line: its name, and who has closed
 * last edges loop N       makes, writes, closes and unlinks N files at once, each with a
 *                      content of its own
 *   edges storm N      N processes, each a child of the one before, of which each makes a
 *                      file and ends; prints their pids in this order
 */
#include <err.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096

static const char content[] = "0123456789";
static int closer; /* who has closed last, where it is not this process */

static int check(long result, const char *what)
{
	if (result < 0)
		err(1, "%s", what);
	return (int)result;
}

static int open_new(const char *name)
{
	return check(open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0644), name);
}

static int open_there(const char *name, int flags)
{
	return check(open(name, flags | O_CLOEXEC), name);
}

static void put(int fd, const char *text)
{
	if (write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		err(1, "write");
}

static char *map(int fd, int protection, int flags)
{
	char *p = mmap(NULL, PAGE, protection, flags, fd, 0);

	if (p == MAP_FAILED)
		err(1, "mmap");
	return p;
}

static void await(pid_t pid)
{
	check(waitpid(pid, NULL, 0), "waitpid");
}

/* --- the ways --- */

static void way_write(const char *name)
{
	int fd = open_new(name);

	put(fd, "x");
	close(fd);
}

static void way_read(const char *name)
{
	char byte;
	int fd = open_there(name, O_RDONLY);

	check(read(fd, &byte, 1), "read");
	close(fd);
}

static void way_rdwr_only_read(const char *name)
{
	char byte;
	int fd = open_there(name, O_RDWR);

	check(read(fd, &byte, 1), "read");
	close(fd);
}

static void way_wronly_nothing(const char *name)
{
	close(open_there(name, O_WRONLY));
}

static void way_append_nothing(const char *name)
{
	close(open_there(name, O_WRONLY | O_APPEND));
}

static void way_truncate_by_open(const char *name)
{
	close(open_there(name, O_WRONLY | O_TRUNC));
}

static void way_truncate_open_file(const char *name)
{
	int fd = open_there(name, O_RDWR);

	check(ftruncate(fd, 3), "ftruncate");
	close(fd);
}

static void way_map_then_close_then_write(const char *name)
{
	int fd = open_there(name, O_RDWR);
	char *p = map(fd, PROT_READ | PROT_WRITE, MAP_SHARED);

	close(fd);
	usleep(30000);
	*p = 'M';
	munmap(p, PAGE);
}

static void way_map_shared_write_nothing(const char *name)
{
	int fd = open_there(name, O_RDWR);
	char *p = map(fd, PROT_READ | PROT_WRITE, MAP_SHARED);

	close(fd);
	if (*p != content[0])
		errx(1, "%s", name);
	munmap(p, PAGE);
}

static void way_map_until_exit(const char *name)
{
	pid_t pid = check(fork(), "fork");

	if (!pid) {
		int fd = open_new(name);
		char *p;

		check(ftruncate(fd, PAGE), "ftruncate");
		p = map(fd, PROT_READ | PROT_WRITE, MAP_SHARED);
		close(fd);
		p[1] = 'E';
		_exit(0);
	}
	closer = pid;
	await(pid);
}

static void way_map_private(const char *name)
{
	int fd = open_there(name, O_RDWR);
	char *p = map(fd, PROT_READ | PROT_WRITE, MAP_PRIVATE);

	*p = 'P';
	munmap(p, PAGE);
	close(fd);
}

static void way_map_then_protect(const char *name)
{
	int fd = open_there(name, O_RDWR);
	char *p = map(fd, PROT_READ, MAP_SHARED);

	close(fd);
	check(mprotect(p, PAGE, PROT_READ | PROT_WRITE), "mprotect");
	*p = 'R';
	munmap(p, PAGE);
}

static void way_dup(const char *name)
{
	int fd = open_new(name), other = check(dup(fd), "dup");

	put(other, "d");
	close(fd);
	usleep(30000);
	put(other, "D");
	close(other);
}

/* Until nobody holds the other end any more. */
static void wait_for_end(int fd)
{
	char byte;

	check(read(fd, &byte, 1), "read");
}

static void way_inherited(const char *name)
{
	int fd = open_new(name), ends[2];
	pid_t pid;

	put(fd, "p");
	check(pipe(ends), "pipe");
	pid = check(fork(), "fork");
	if (!pid) {
		close(ends[1]);
		wait_for_end(ends[0]); /* the parent has closed it */
		put(fd, "c");
		_exit(0);
	}
	close(ends[0]);
	close(fd);
	close(ends[1]);
	closer = pid;
	await(pid);
}

static void *write_byte(void *fd)
{
	put(*(int *)fd, "T");
	return NULL;
}

static void way_thread(const char *name)
{
	int fd = open_new(name);
	pthread_t thread;

	if (pthread_create(&thread, NULL, write_byte, &fd))
		errx(1, "pthread_create");
	pthread_join(thread, NULL);
	close(fd);
}

static void submit(int ring, const struct io_uring_params *p, char *sq,
                   struct io_uring_sqe *entry, unsigned done)
{
	unsigned *tail = (void *)(sq + p->sq_off.tail);
	unsigned *array = (void *)(sq + p->sq_off.array);

	array[*tail & (p->sq_entries - 1)] = 0;
	__atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
	check(syscall(SYS_io_uring_enter, ring, 1, done, IORING_ENTER_GETEVENTS, NULL, 0),
	      "io_uring_enter");
	memset(entry, 0, sizeof(*entry));
}

static void way_io_uring(const char *name)
{
	struct io_uring_params p = { 0 };
	int fd = open_new(name), ring = (int)syscall(SYS_io_uring_setup, 4, &p);
	struct io_uring_sqe *entry;
	char *sq;

	if (ring < 0) { /* forbidden here */
		put(fd, "uring");
		close(fd);
		return;
	}
	sq = mmap(NULL, p.sq_off.array + p.sq_entries * sizeof(unsigned),
	          PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQ_RING);
	entry = mmap(NULL, p.sq_entries * sizeof(*entry), PROT_READ | PROT_WRITE,
	             MAP_SHARED, ring, IORING_OFF_SQES);
	if (sq == MAP_FAILED || entry == MAP_FAILED)
		err(1, "mmap");
	entry->opcode = IORING_OP_WRITE;
	entry->flags = IOSQE_ASYNC;
	entry->fd = fd;
	entry->addr = (unsigned long)"uring";
	entry->len = 5;
	submit(ring, &p, sq, entry, 1);
	entry->opcode = IORING_OP_CLOSE;
	entry->flags = IOSQE_ASYNC;
	entry->fd = fd;
	submit(ring, &p, sq, entry, 2);
	close(ring);
}

static void way_copy_file_range(const char *name)
{
	int to = open_new(name), from = open_there("source", O_RDONLY);

	check(copy_file_range(from, NULL, to, NULL, 10, 0), "copy_file_range");
	close(to);
	close(from);
}

static void way_sendfile(const char *name)
{
	int to = open_new(name), from = open_there("source", O_RDONLY);

	check(sendfile(to, from, NULL, 10), "sendfile");
	close(to);
	close(from);
}

static void way_splice(const char *name)
{
	int fd = open_new(name), ends[2];

	check(pipe(ends), "pipe");
	put(ends[1], "abc");
	check(splice(ends[0], NULL, fd, NULL, 3, 0), "splice");
	close(ends[0]);
	close(ends[1]);
	close(fd);
}

static void way_fallocate(const char *name)
{
	int fd = open_new(name);

	if (posix_fallocate(fd, 0, 100))
		errx(1, "posix_fallocate");
	close(fd);
}

static void way_without_name(const char *name)
{
	int fd = check(open(".", O_TMPFILE | O_RDWR, 0644), "O_TMPFILE");
	char path[64];

	put(fd, "t");
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	check(linkat(AT_FDCWD, path, AT_FDCWD, name, AT_SYMLINK_FOLLOW), "linkat");
	close(fd);
}

static void way_orphan(const char *name)
{
	int ends[2];
	pid_t pid;

	check(pipe(ends), "pipe");
	pid = check(fork(), "fork");
	if (!pid) {
		setsid();
		if (fork())
			_exit(0);
		usleep(30000);
		way_write(name);
		pid = getpid();
		if (write(ends[1], &pid, sizeof(pid)) != sizeof(pid))
			_exit(1);
		_exit(0);
	}
	await(pid);
	check(read(ends[0], &closer, sizeof(closer)), "read");
	close(ends[0]);
	close(ends[1]);
}

static void send_fd(int to, int fd)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec part = { "x", 1 };
	struct msghdr m = { .msg_iov = &part,
		            .msg_iovlen = 1,
		            .msg_control = control,
		            .msg_controllen = sizeof(control) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	check(sendmsg(to, &m, 0), "sendmsg");
}

static int receive_fd(int from)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = { 0 };
	char byte;
	struct iovec part = { &byte, 1 };
	struct msghdr m = { .msg_iov = &part,
		            .msg_iovlen = 1,
		            .msg_control = control,
		            .msg_controllen = sizeof(control) };
	int fd;

	check(recvmsg(from, &m, 0), "recvmsg");
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(fd));
	return fd;
}

/* Its last descriptor lies in a socket that nobody holds any more: the kernel collects it
 * when it likes to; a further socket makes it. */
static void way_left_in_a_socket(const char *name)
{
	int fd = open_new(name), pair[2];

	put(fd, "g");
	check(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair), "socketpair");
	send_fd(pair[0], pair[0]);
	send_fd(pair[0], pair[1]);
	send_fd(pair[0], fd);
	close(fd);
	close(pair[0]);
	close(pair[1]);
	close(check(socket(AF_UNIX, SOCK_DGRAM, 0), "socket"));
	closer = -1; /* a thread of the kernel, maybe */
}

static void way_passed(const char *name)
{
	int pair[2], fd = open_new(name);
	pid_t pid;

	check(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), "socketpair");
	put(fd, "s");
	pid = check(fork(), "fork");
	if (!pid) {
		close(fd);
		close(pair[0]);
		fd = receive_fd(pair[1]);
		wait_for_end(pair[1]); /* the parent has closed it */
		put(fd, "r");
		_exit(0);
	}
	close(pair[1]);
	send_fd(pair[0], fd);
	close(fd);
	close(pair[0]);
	closer = pid;
	await(pid);
}

static void way_close_on_exec(const char *name)
{
	pid_t pid = check(fork(), "fork");

	if (!pid) {
		put(open_new(name), "e");
		execlp("true", "true", NULL);
		_exit(1);
	}
	closer = pid;
	await(pid);
}

static void way_killed(const char *name)
{
	int ends[2];
	char byte;
	pid_t pid;

	check(pipe(ends), "pipe");
	pid = check(fork(), "fork");
	if (!pid) {
		put(open_new(name), "k");
		put(ends[1], "!");
		pause();
	}
	check(read(ends[0], &byte, 1), "read");
	kill(pid, SIGKILL);
	await(pid);
	close(ends[0]);
	close(ends[1]);
	closer = pid;
}

static void way_renamed_behind(const char *name)
{
	way_write("renamed.tmp");
	check(rename("renamed.tmp", name), "rename");
}

static void way_unlinked_before(const char *name)
{
	int fd = open_new(name);

	put(fd, "u");
	check(unlink(name), "unlink");
	close(fd);
}

static void way_unlinked_behind(const char *name)
{
	way_write(name);
	check(unlink(name), "unlink");
}

static void way_called_deleted(const char *name)
{
	way_write(name);
}

static void way_write_of_nothing(const char *name)
{
	int fd = open_new(name);

	put(fd, "");
	close(fd);
}

static const struct way {
	const char *name;
	void (*go)(const char *name);
	bool there; /* the file is there before */
} ways[] = {
	{ "write", way_write, false },
	{ "read", way_read, true },
	{ "rdwr-only-read", way_rdwr_only_read, true },
	{ "wronly-nothing", way_wronly_nothing, true },
	{ "append-nothing", way_append_nothing, true },
	{ "truncate-by-open", way_truncate_by_open, true },
	{ "truncate-open-file", way_truncate_open_file, true },
	{ "map-then-close-then-write", way_map_then_close_then_write, true },
	{ "map-shared-write-nothing", way_map_shared_write_nothing, true },
	{ "map-until-exit", way_map_until_exit, false },
	{ "map-private", way_map_private, true },
	{ "map-then-protect", way_map_then_protect, true },
	{ "dup", way_dup, false },
	{ "inherited", way_inherited, false },
	{ "thread", way_thread, false },
	{ "io-uring", way_io_uring, false },
	{ "copy-file-range", way_copy_file_range, false },
	{ "sendfile", way_sendfile, false },
	{ "splice", way_splice, false },
	{ "fallocate", way_fallocate, false },
	{ "without-name", way_without_name, false },
	{ "orphan", way_orphan, false },
	{ "left-in-a-socket", way_left_in_a_socket, false },
	{ "passed", way_passed, false },
	{ "close-on-exec", way_close_on_exec, false },
	{ "killed", way_killed, false },
	{ "renamed-behind", way_renamed_behind, false },
	{ "unlinked-before", way_unlinked_before, false },
	{ "unlinked-behind", way_unlinked_behind, false },
	{ "called (deleted)", way_called_deleted, false },
	{ "write-of-nothing", way_write_of_nothing, false },
};

static void prepare(const char *name)
{
	int fd = open_new(name);

	put(fd, content);
	close(fd);
}

static void run(void)
{
	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
		closer = getpid();
		ways[i].go(ways[i].name);
		printf("%s\t%d\n", ways[i].name, closer);
	}
	fflush(stdout);
	usleep(100000); /* what the kernel closes by and by */
}

static void loop(int n)
{
	char name[32], text[64];

	for (int i = 0; i < n; i++) {
		int fd;

		snprintf(name, sizeof(name), "loop%d", i);
		snprintf(text, sizeof(text), "the content of file %d", i);
		fd = open_new(name);
		put(fd, text);
		close(fd);
		check(unlink(name), name);
	}
}

static void storm(int n)
{
	char name[32];
	pid_t pid = check(fork(), "fork");

	if (pid) {
		await(pid);
		return;
	}
	snprintf(name, sizeof(name), "storm%d", n);
	way_write(name);
	printf("%d\n", getpid());
	fflush(stdout);
	if (n > 1)
		storm(n - 1);
	_exit(0);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	int n = argc > 2 ? atoi(argv[2]) : 0;

	if (!strcmp(what, "prepare")) {
		prepare("source");
		for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++)
			if (ways[i].there)
				prepare(ways[i].name);
	} else if (!strcmp(what, "run")) {
		run();
	} else if (!strcmp(what, "loop")) {
		loop(n);
	} else if (!strcmp(what, "storm")) {
		storm(n);
	} else {
		errx(2, "usage: edges prepare | run | loop N | storm N");
	}
	return 0;
}
