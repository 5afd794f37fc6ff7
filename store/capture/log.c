/* SPDX-License-Identifier: MIT */
#include "store/capture/log.h"

#include "common/clock.h"
#include "common/debug.h"
#include "common/io.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>

static struct {
	pthread_mutex_t lock;
	int dirfd, fd;
	const char *name;
} log_state = { PTHREAD_MUTEX_INITIALIZER, -1, -1, "" };

static void log_debug(const char *line)
{
	shfs_log("%s", line);
}

void shfs_log_open(const struct shfs_store *store, const char *name, int fd)
{
	pthread_mutex_lock(&log_state.lock);
	log_state.dirfd = store->log_fd;
	log_state.fd = fd;
	log_state.name = name;
	pthread_mutex_unlock(&log_state.lock);
	shfs_debug_to(log_debug);
}

static int log_fd(void)
{
	char name[40];

	if (log_state.fd < 0 && log_state.dirfd >= 0) {
		snprintf(name, sizeof(name), "%.16s-%ld.log", log_state.name,
		         (long)getpid());
		log_state.fd = openat(log_state.dirfd, name,
		                      O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	}
	return log_state.fd;
}

void shfs_log(const char *fmt, ...)
{
	_cleanup_buf_ struct shfs_buf line = { 0 };
	time_t now = time(NULL);
	struct tm tm;
	char text[512], when[32];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	localtime_r(&now, &tm);
	strftime(when, sizeof(when), "%F %T%z", &tm);
	pthread_mutex_lock(&log_state.lock);
	shfs_buf_printf(&line, "%s shfs-%s[%ld]: %s\n", when, log_state.name,
	                (long)getpid(), text);
	if (!line.failed && log_fd() >= 0)
		(void)!shfs_write_all(log_state.fd, line.data, line.len);
	pthread_mutex_unlock(&log_state.lock);
}
