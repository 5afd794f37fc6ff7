/* SPDX-License-Identifier: MIT */
#include "query/base/progress.h"

#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static struct {
	pthread_t thread;
	pthread_mutex_t mutex;
	pthread_cond_t ended;
	const char *what; /* NULL: nothing is in progress */
} progress = { .mutex = PTHREAD_MUTEX_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER };

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
			dprintf(STDERR_FILENO, "\r%s, %d s\033[K", progress.what,
			        ++seconds);
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
	if (pthread_create(&progress.thread, NULL, draw_progress, NULL))
		progress.what = NULL;
	return progress.what;
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
