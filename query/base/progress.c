/* SPDX-License-Identifier: MIT */
#include "query/base/progress.h"

#include "common/debug.h"

#include <inttypes.h>
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

#define RATE_FROM_S 2 /* before that, a rate says little */

/* A time that shrinks: no finer than it can be known. */
static void add_rest(struct shfs_buf *out, uint64_t seconds)
{
	if (seconds < 100)
		shfs_buf_printf(out, ", %" PRIu64 " s left", seconds);
	else if (seconds < 100 * 60)
		shfs_buf_printf(out, ", %" PRIu64 " min left", (seconds + 30) / 60);
	else
		shfs_buf_printf(out, ", %" PRIu64 " h left", (seconds + 1800) / 3600);
}

static void add_bytes(struct shfs_buf *out, int seconds, uint64_t done, uint64_t all)
{
	bool large = all >= UINT64_C(10) << 30;
	double unit = large ? 1 << 30 : 1 << 20;

	shfs_buf_printf(out, ", %.1f of %.1f %s", (double)done / unit, (double)all / unit,
	                large ? "GiB" : "MiB");
	if (seconds < RATE_FROM_S || !done)
		return;
	shfs_buf_printf(out, ", %.1f MiB/s", (double)done / seconds / (1 << 20));
	if (done < all)
		add_rest(out,
		         (uint64_t)((double)(all - done) / (double)done * seconds + 0.5));
}

void shfs_progress_text(struct shfs_buf *out, const char *what, int seconds,
                        uint64_t done, uint64_t all)
{
	shfs_buf_printf(out, "%s, %d s", what, seconds);
	if (all)
		add_bytes(out, seconds, done, all);
}

static void draw_line(int seconds)
{
	_cleanup_buf_ struct shfs_buf line = { 0 };

	shfs_progress_text(&line, progress.what, seconds, progress.done, progress.all);
	if (!line.failed)
		dprintf(STDERR_FILENO, "\r%s\033[K", line.data);
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
	const char *what = progress.what;

	if (!what)
		return;
	pthread_mutex_lock(&progress.mutex);
	progress.what = NULL;
	pthread_cond_signal(&progress.ended);
	pthread_mutex_unlock(&progress.mutex);
	pthread_join(progress.thread, NULL);
	shfs_debug(QUERY, "%s: ended at %" PRIu64 " of %" PRIu64 " bytes", what,
	           (uint64_t)progress.done, (uint64_t)progress.all);
}
