/* SPDX-License-Identifier: MIT */
/*
 * loop read|write FILE N: opens, reads or writes 1 KiB, closes, N times; prints the
 * nanoseconds of one round.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * INT64_C(1000000000) + ts.tv_nsec;
}

static int round_trip(const char *path, int writing)
{
	static char data[1024];
	int fd = open(path, writing ? O_WRONLY | O_CREAT : O_RDONLY, 0644);
	ssize_t n;

	if (fd < 0)
		return -1;
	n = writing ? write(fd, data, sizeof(data)) : read(fd, data, sizeof(data));
	return close(fd) < 0 || n != sizeof(data) ? -1 : 0;
}

int main(int argc, char **argv)
{
	int64_t begin;
	long n;

	if (argc != 4 || (n = atol(argv[3])) < 1) {
		fprintf(stderr, "usage: loop read|write FILE N\n");
		return 2;
	}
	begin = now_ns();
	for (long i = 0; i < n; i++) {
		if (round_trip(argv[2], strcmp(argv[1], "write") == 0) < 0) {
			perror(argv[2]);
			return 1;
		}
	}
	printf("%" PRId64 "\n", (now_ns() - begin) / n);
	return 0;
}
