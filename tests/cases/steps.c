/* SPDX-License-Identifier: MIT */
/*
 * Does to files what it is told, one step at a time, for steps.py.
 *
 *   steps
 *
 * Each line on standard input is one step: a word and its arguments. The answer is a line
 * with the result, or with "-" and the number of the error. Descriptors have numbers of
 * our own ("slots"), which a child that "fork" made inherits. Lines that begin with
 * "child " are for that child; "join" ends it.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#define SLOTS     64
#define DATA_SIZE (8 << 20)
#define ALIGNED   4096

static int fds[SLOTS];
static struct {
	char *at;
	size_t len;
} maps[SLOTS];
static char *data;
static FILE *to_child, *from_child;
static pid_t child_pid;

/* Bytes that depend on the seed and on where they are. */
static char *fill(size_t len, unsigned seed)
{
	unsigned x = seed * 2654435761u + 1;

	if (len > DATA_SIZE)
		errx(1, "%zu bytes are too many", len);
	for (size_t i = 0; i < len; i++) {
		if (i % 16 == 0)
			x = x * 1664525u + 1013904223u;
		data[i] = (char)('a' + (x >> 24 ^ i) % 26);
	}
	return data;
}

static long by_uring(int fd, size_t len, off_t off)
{
	struct io_uring ring;
	struct io_uring_cqe *cqe;
	long result;

	if (io_uring_queue_init(2, &ring, 0))
		return -ENOSYS;
	io_uring_prep_write(io_uring_get_sqe(&ring), fd, data, (unsigned)len, (__u64)off);
	io_uring_submit(&ring);
	result = io_uring_wait_cqe(&ring, &cqe);
	if (!result)
		result = cqe->res;
	io_uring_queue_exit(&ring);
	return result;
}

static long copy_range(int in, off_t in_off, int out, off_t out_off, size_t len)
{
	return copy_file_range(in, &in_off, out, &out_off, len, 0);
}

static long map(int slot, size_t len)
{
	char *at = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fds[slot], 0);

	if (at == MAP_FAILED)
		return -1;
	maps[slot].at = at;
	maps[slot].len = len;
	return 0;
}

static long store(int slot, size_t off, size_t len, unsigned seed)
{
	memcpy(maps[slot].at + off, fill(len, seed), len);
	return (long)len;
}

static long unmap(int slot)
{
	long result = munmap(maps[slot].at, maps[slot].len);

	maps[slot].at = NULL;
	return result;
}

static long link_nameless(int fd, const char *path)
{
	char name[64];

	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	return linkat(AT_FDCWD, name, AT_FDCWD, path, AT_SYMLINK_FOLLOW);
}

static long serve(FILE *in, FILE *out);

static long begin_child(void)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		return -1;
	fflush(stdout);
	child_pid = fork();
	if (!child_pid) {
		FILE *in = fdopen(pair[1], "r"), *out = fdopen(dup(pair[1]), "w");

		close(pair[0]);
		_exit((int)serve(in, out));
	}
	close(pair[1]);
	from_child = fdopen(pair[0], "r");
	to_child = fdopen(dup(pair[0]), "w");
	return child_pid < 0 ? -1 : 0;
}

static long end_child(void)
{
	fclose(to_child);
	fclose(from_child);
	return waitpid(child_pid, NULL, 0) == child_pid ? 0 : -1;
}

static long tell_child(const char *line)
{
	char answer[64];
	long result, number;

	fputs(line, to_child);
	fflush(to_child);
	if (!fgets(answer, sizeof(answer), from_child))
		errx(1, "the child is gone");
	if (sscanf(answer, "- %ld", &number) == 1) {
		errno = (int)number;
		return -1;
	}
	return sscanf(answer, "%ld", &result) == 1 ? result : 0;
}

static long step(const char *line)
{
	char word[32] = "", a[512] = "", b[512] = "";
	long n[6] = { 0 };
	int slot;

	sscanf(line, "%31s", word);
	if (!strcmp(word, "child"))
		return tell_child(line + strlen("child "));
	if (!strcmp(word, "fork"))
		return begin_child();
	if (!strcmp(word, "join"))
		return end_child();
	if (sscanf(line, "%*s %511s %511s %ld", a, b, &n[0]) >= 2) {
		if (!strcmp(word, "rename"))
			return renameat2(AT_FDCWD, a, AT_FDCWD, b, (unsigned)n[0]);
		if (!strcmp(word, "link"))
			return link(a, b);
		if (!strcmp(word, "truncate"))
			return truncate(a, atol(b));
		if (!strcmp(word, "chmod"))
			return chmod(a, (mode_t)strtol(b, NULL, 8));
	}
	if (!strcmp(word, "unlink"))
		return unlink(a);
	if (!strcmp(word, "touch"))
		return utimensat(AT_FDCWD, a, NULL, 0);
	if (!strcmp(word, "label"))
		return setxattr(a, "user.label", "x", 1, 0);
	/* the rest is of slots */
	slot = atoi(a);
	if (slot < 0 || slot >= SLOTS)
		errx(1, "no such slot: %s", line);
	if (sscanf(line, "%*s %*s %511s %ld %ld", b, &n[0], &n[1]) >= 1) {
		if (!strcmp(word, "open"))
			return fds[slot] = open(b, (int)n[0] | O_CLOEXEC, 0644);
		if (!strcmp(word, "linkfd"))
			return link_nameless(fds[slot], b);
	}
	sscanf(line, "%*s %*s %ld %ld %ld %ld", &n[0], &n[1], &n[2], &n[3]);
	if (!strcmp(word, "close"))
		return close(fds[slot]);
	if (!strcmp(word, "write"))
		return write(fds[slot], fill((size_t)n[0], (unsigned)n[1]), (size_t)n[0]);
	if (!strcmp(word, "pwrite"))
		return pwrite(fds[slot], fill((size_t)n[1], (unsigned)n[2]), (size_t)n[1],
		              n[0]);
	if (!strcmp(word, "uring")) {
		fill((size_t)n[1], (unsigned)n[2]);
		errno = 0;
		long result = by_uring(fds[slot], (size_t)n[1], n[0]);
		if (result < 0)
			errno = (int)-result;
		return result < 0 ? -1 : result;
	}
	if (!strcmp(word, "pread"))
		return pread(fds[slot], data, (size_t)n[1], n[0]);
	if (!strcmp(word, "ftruncate"))
		return ftruncate(fds[slot], n[0]);
	if (!strcmp(word, "fallocate"))
		return fallocate(fds[slot], (int)n[0], n[1], n[2]);
	if (!strcmp(word, "copy"))
		return copy_range(fds[slot], n[1], fds[n[0]], n[2], (size_t)n[3]);
	if (!strcmp(word, "fsync"))
		return fsync(fds[slot]);
	if (!strcmp(word, "map"))
		return map(slot, (size_t)n[0]);
	if (!strcmp(word, "store"))
		return store(slot, (size_t)n[0], (size_t)n[1], (unsigned)n[2]);
	if (!strcmp(word, "msync"))
		return msync(maps[slot].at, maps[slot].len, MS_SYNC);
	if (!strcmp(word, "unmap"))
		return unmap(slot);
	errx(1, "no such step: %s", line);
}

static long serve(FILE *in, FILE *out)
{
	char line[2048];

	while (fgets(line, sizeof(line), in)) {
		long result = step(line);

		if (result < 0)
			fprintf(out, "- %d\n", errno);
		else
			fprintf(out, "%ld\n", result);
		fflush(out);
	}
	return 0;
}

int main(void)
{
	data = aligned_alloc(ALIGNED, DATA_SIZE);
	if (!data)
		err(1, "no memory");
	return (int)serve(stdin, stdout);
}
