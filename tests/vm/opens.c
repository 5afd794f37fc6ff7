/* SPDX-License-Identifier: MIT */
/*
 * What opening and closing a file costs, where a nanosecond is an instruction (run
 * --icount): opens FILE [write|create]. Prints the least of many rounds, of
 * which most are not interrupted.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS 40
#define TIMES  100

static long long now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

int main(int argc, char **argv)
{
	const char *how = argc > 2 ? argv[2] : "read";
	int write_it = !strcmp(how, "write"), create = !strcmp(how, "create");
	int flags = create ? O_WRONLY | O_CREAT : write_it ? O_WRONLY : O_RDONLY;
	long long best = -1;

	if (argc < 2)
		return 2;
	for (int round = 0; round < ROUNDS; round++) {
		long long begin = now(), each;

		for (int i = 0; i < TIMES; i++) {
			int fd = open(argv[1], flags, 0644);

			if (fd < 0 || ((write_it || create) && write(fd, "x", 1) != 1))
				return 1;
			close(fd);
			if (create)
				unlink(argv[1]);
		}
		each = (now() - begin) / TIMES;
		if (best < 0 || each < best)
			best = each;
	}
	printf("%s %lld\n", how, best);
	return 0;
}
