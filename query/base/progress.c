/* SPDX-License-Identifier: MIT */
#include "query/base/progress.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static struct {
	pthread_t thread;
	pthread_mutex_t mutex;
	pthread_cond_t ended;
	const char *what;           /* NULL: nothing is in progress */
	_Atomic uint64_t done, all; /* bytes; all 0: not known */
} progress = { .mutex = PTHREAD_MUTEX_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER };

static void draw_bytes(void)
{
	uint64_t done = progress.done, all = progress.all, unit = 1 << 20;
	const char *name = "MiB";

	if (all >= UINT64_C(10) << 30) {
		unit = 1 << 30;
		name = "GiB";
	}
	dprintf(STDERR_FILENO, ", %.1f of %.1f %s", (double)done / (double)unit,
	        (double)all / (double)unit, name);
}

static void draw_line(int seconds)
{
	dprintf(STDERR_FILENO, "\r%s, %d s", progress.what, seconds);
	if (progress.all)
		draw_bytes();
	dprintf(STDERR_FILENO, "\033[K");
}

static void *draw_progress(void *arg)
{
	struct timespec next;
	int seconds = 0;

	clock_gettime(CLOCK_REALTIME, &next);
	pthread_mutex_lock(&progress.mutex);
	while (progress.what) {
		next.tv_sec++;
		while (progress.what &&
		       !pthread_cond_timedwait(&progress.ended, &progress.mutex, &next))
			;
		if (progress.what)
			draw_line(++seconds);
	}
	pthread_mutex_unlock(&progress.mutex);
	if (seconds)
		dprintf(STDERR_FILENO, "\r\033[K");
	return NULL;
}

bool shfs_progress_begin(const char *what)
{
	if (progress.what || !isatty(STDERR_FILENO))
		return false;
	progress.what = what;
	progress.done = progress.all = 0;
	if (pthread_create(&progress.thread, NULL, draw_progress, NULL))
		progress.what = NULL;
	return progress.what;
}

void shfs_progress_bytes(uint64_t done, uint64_t all)
{
	progress.done = done;
	progress.all = all;
}

void shfs_progress_end(void)
{
	if (!progress.what)
		return;
	pthread_mutex_lock(&progress.mutex);
	progress.what = NULL;
	pthread_cond_signal(&progress.ended);
	pthread_mutex_unlock(&progress.mutex);
	pthread_join(progress.thread, NULL);
}
