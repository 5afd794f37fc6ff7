/* SPDX-License-Identifier: MIT */
/* Ends in many ways, and prints what wait4(2) says of each: NAME PID STATUS USER SYSTEM
 * KIB. */
#include <err.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MILLISECOND 1000000
#define MEMORY      (100 << 20)

static void burn(clockid_t clock, long ms)
{
	struct timespec now, begin;
	volatile unsigned n = 0;

	clock_gettime(clock, &begin);
	do {
		for (int i = 0; i < 10000; i++)
			n++;
		clock_gettime(clock, &now);
	} while ((now.tv_sec - begin.tv_sec) * 1000 +
	                 (now.tv_nsec - begin.tv_nsec) / MILLISECOND <
	         ms);
}

static void fill_memory(void)
{
	char *memory = malloc(MEMORY);

	if (!memory)
		err(1, "malloc");
	memset(memory, 1, MEMORY);
	__asm__ volatile("" : : "r"(memory) : "memory");
}

static void *burn_in_thread(void *ms)
{
	burn(CLOCK_THREAD_CPUTIME_ID, (long)ms);
	return NULL;
}

static void *outlive(void *nothing)
{
	usleep(50000);
	burn(CLOCK_THREAD_CPUTIME_ID, 200);
	fill_memory();
	exit(7);
}

static void start(pthread_t *thread, void *(*work)(void *), long ms)
{
	if (pthread_create(thread, NULL, work, (void *)ms))
		errx(1, "pthread_create");
}

static void burn_in_threads(int n, int join)
{
	pthread_t threads[8];

	for (int i = 0; i < n; i++)
		start(&threads[i], burn_in_thread, join ? 60 : 10000);
	if (!join)
		usleep(200000);
	for (int i = 0; i < n && join; i++)
		pthread_join(threads[i], NULL);
}

static void be(const char *name)
{
	pthread_t thread;

	if (!strcmp(name, "user")) {
		fill_memory();
		burn(CLOCK_PROCESS_CPUTIME_ID, 200);
		exit(3);
	} else if (!strcmp(name, "system")) {
		for (int i = 0; i < 2000000; i++)
			syscall(SYS_getppid);
	} else if (!strcmp(name, "threads")) {
		burn_in_threads(4, 1);
	} else if (!strcmp(name, "all-at-once")) {
		burn_in_threads(8, 0);
		exit(5);
	} else if (!strcmp(name, "leader-first")) {
		burn(CLOCK_THREAD_CPUTIME_ID, 200);
		start(&thread, outlive, 0);
		pthread_exit(NULL);
	} else if (!strcmp(name, "exec")) {
		fill_memory();
		burn(CLOCK_PROCESS_CPUTIME_ID, 200);
		execl("/bin/sleep", "sleep", "0", NULL);
	} else if (!strcmp(name, "killed")) {
		burn(CLOCK_PROCESS_CPUTIME_ID, 200);
		raise(SIGKILL);
	}
}

static long long microseconds(const struct timeval *time)
{
	return time->tv_sec * 1000000LL + time->tv_usec;
}

int main(void)
{
	static const char *const names[] = { "nothing", "user",       "system",
		                             "threads", "exec",       "leader-first",
		                             "killed",  "all-at-once" };

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		struct rusage usage;
		pid_t pid = fork();
		int status;

		if (pid < 0)
			err(1, "fork");
		if (!pid) {
			be(names[i]);
			exit(0);
		}
		if (wait4(pid, &status, 0, &usage) != pid)
			err(1, "wait4");
		printf("%s %d %d %lld %lld %ld\n", names[i], (int)pid, status,
		       microseconds(&usage.ru_utime), microseconds(&usage.ru_stime),
		       usage.ru_maxrss);
		fflush(stdout);
	}
	return 0;
}
