/* SPDX-License-Identifier: MIT */
/*
 * loop read|write WORKERS N DIR: opens, reads or writes 1 KiB, closes, N times, by so
 * many processes at once; each goes round the files of its own directory, DIR/0 and so
 * on. loop stat 1 N DIR: takes the status of all files below DIR, N times. Prints the
 * nanoseconds of all divided by the number of rounds of all (of files, for stat).
 */
#include <dirent.h>
#include <err.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char **paths;
static size_t n_paths;

static int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * INT64_C(1000000000) + ts.tv_nsec;
}

static int add_loop_path(const char *path, const struct stat *st, int type,
                         struct FTW *ftw)
{
	(void)st;
	(void)ftw;
	if (type != FTW_F)
		return 0;
	paths = reallocarray(paths, n_paths + 1, sizeof(*paths));
	if (!paths)
		err(1, "%s", path);
	paths[n_paths] = strdup(path);
	return paths[n_paths++] ? 0 : -1;
}

static void find_loop_paths(const char *dir)
{
	n_paths = 0;
	if (nftw(dir, add_loop_path, 20, FTW_PHYS) || !n_paths)
		err(1, "%s", dir);
}

/* What is written is never twice the same: each round makes a version. */
static void round_trip(const char *path, int writing, long number)
{
	char data[1024] = { 0 };
	int fd = open(path, writing ? O_WRONLY : O_RDONLY);
	ssize_t n;

	if (fd < 0)
		err(1, "%s", path);
	snprintf(data, sizeof(data), "%ld %" PRId64, number, writing ? now_ns() : 0);
	n = writing ? write(fd, data, sizeof(data)) : read(fd, data, sizeof(data));
	if (close(fd) < 0 || n != sizeof(data))
		err(1, "%s", path);
}

static void stat_all(long rounds)
{
	struct stat st;

	for (long i = 0; i < rounds; i++)
		for (size_t k = 0; k < n_paths; k++)
			if (lstat(paths[k], &st))
				err(1, "%s", paths[k]);
}

/* Waits until begin is closed. */
static void run_round_trips(int writing, long rounds, const char *dir, int worker,
                            int begin)
{
	char path[4096], c;

	snprintf(path, sizeof(path), "%s/%d", dir, worker);
	find_loop_paths(path);
	if (read(begin, &c, 1))
		err(1, "pipe");
	for (long i = 0; i < rounds; i++)
		round_trip(paths[i % n_paths], writing, i);
	_exit(0);
}

/* Nanoseconds from the moment at which all begin to the end of the last. */
static int64_t all_at_once(int writing, long workers, long rounds, const char *dir)
{
	int64_t begin;
	int fds[2], status, bad = 0;

	if (pipe(fds))
		err(1, "pipe");
	for (long i = 0; i < workers; i++) {
		pid_t pid = fork();

		if (pid < 0)
			err(1, "fork");
		if (!pid) {
			close(fds[1]);
			run_round_trips(writing, rounds, dir, i, fds[0]);
		}
	}
	/* they find their files meanwhile */
	usleep(50000);
	begin = now_ns();
	close(fds[1]);
	while (wait(&status) > 0)
		bad |= status;
	if (bad)
		exit(1);
	return now_ns() - begin;
}

int main(int argc, char **argv)
{
	long workers = argc == 5 ? atol(argv[2]) : 0,
	     rounds = argc == 5 ? atol(argv[3]) : 0;
	int64_t ns;

	if (workers < 1 || rounds < 1)
		errx(2, "usage: loop read|write|stat WORKERS N DIR");
	if (strcmp(argv[1], "stat")) {
		ns = all_at_once(!strcmp(argv[1], "write"), workers, rounds, argv[4]);
		ns /= workers;
	} else {
		find_loop_paths(argv[4]);
		ns = now_ns();
		stat_all(rounds);
		ns = (now_ns() - ns) / (int64_t)n_paths;
	}
	printf("ns=%.3f\n", (double)ns / rounds);
	return 0;
}
