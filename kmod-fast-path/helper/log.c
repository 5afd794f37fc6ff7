/* SPDX-License-Identifier: MIT */
#include "kmod-fast-path/helper/log.h"

#include "common/buf.h"
#include "common/clock.h"
#include "common/io.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define USERS  256 /* users with the same remainder count as one */
#define MS_NS  1000000LL
#define LOG_NS (SHFS_HELPER_LOG_MS * MS_NS)

struct share {
	_Atomic int64_t since_ns; /* CLOCK_MONOTONIC */
	atomic_uint lines, left_out, uid;
};

static struct share *shares; /* shared by all processes */

_printf_(1, 0) static void log_line(const char *fmt, va_list ap)
{
	_cleanup_buf_ struct shfs_buf line = { 0 };
	char text[1024];

	vsnprintf(text, sizeof(text), fmt, ap);
	shfs_buf_printf(&line, "shfs-helper[%ld]: %s\n", (long)getpid(), text);
	if (!line.failed)
		(void)!shfs_write_all(STDERR_FILENO, line.data, line.len);
}

void shfs_helper_log(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	log_line(fmt, ap);
	va_end(ap);
}

void shfs_helper_log_share(void)
{
	void *memory = mmap(NULL, USERS * sizeof(*shares), PROT_READ | PROT_WRITE,
	                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	shares = memory == MAP_FAILED ? NULL : memory;
}

static void log_left_out(struct share *s)
{
	unsigned n = atomic_exchange(&s->left_out, 0);

	if (n)
		shfs_helper_log("user %u: %u more lines are left out",
		                atomic_load(&s->uid), n);
}

/* Begins a new period if the last is over; one process of several at once does so. */
static void begin_time(struct share *s)
{
	int64_t now_ns = shfs_clock_ns(CLOCK_MONOTONIC);
	int64_t since_ns = atomic_load(&s->since_ns);

	if (now_ns - since_ns < LOG_NS ||
	    !atomic_compare_exchange_strong(&s->since_ns, &since_ns, now_ns))
		return;
	atomic_store(&s->lines, 0);
	log_left_out(s);
}

void shfs_helper_log_of(uid_t uid, const char *fmt, ...)
{
	struct share *s = shares ? &shares[uid % USERS] : NULL;
	va_list ap;

	if (s) {
		begin_time(s);
		atomic_store(&s->uid, uid);
		if (atomic_fetch_add(&s->lines, 1) >= SHFS_HELPER_LOG_MAX) {
			atomic_fetch_add(&s->left_out, 1);
			return;
		}
	}
	va_start(ap, fmt);
	log_line(fmt, ap);
	va_end(ap);
}

bool shfs_helper_log_left_out(bool all)
{
	bool more = false;

	for (size_t i = 0; shares && i < USERS; i++) {
		if (!atomic_load(&shares[i].left_out))
			continue;
		if (all)
			log_left_out(&shares[i]);
		else
			begin_time(&shares[i]);
		more |= atomic_load(&shares[i].left_out) != 0;
	}
	return more;
}
