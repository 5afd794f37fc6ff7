/* SPDX-License-Identifier: MIT */
/* Writes a hook log, where a program runs commands in the place of a shell. */
#include "query/rerun/hook-log.h"

#include "common/buf.h"
#include "common/clock.h"
#include "common/io.h"
#include "common/redact.h"
#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>

static void add_log_field(struct shfs_buf *rec, const char *text)
{
	shfs_buf_add(rec, text, strlen(text) + 1);
}

static void add_log_number(struct shfs_buf *rec, uint64_t number)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, number);
	add_log_field(rec, text);
}

static void add_log_clock(struct shfs_buf *rec, clockid_t id)
{
	struct timespec now;
	char text[40];

	clock_gettime(id, &now);
	snprintf(text, sizeof(text), "%lld.%09ld", (long long)now.tv_sec, now.tv_nsec);
	add_log_field(rec, text);
}

static void begin_run_record(struct shfs_hook_log *log, struct shfs_buf *rec,
                             const char *tag)
{
	shfs_buf_char(rec, '\x1e');
	add_log_field(rec, tag);
	add_log_number(rec, ++log->seq);
}

static void add_log_times(struct shfs_buf *rec)
{
	add_log_clock(rec, CLOCK_REALTIME);
	add_log_clock(rec, CLOCK_BOOTTIME);
}

/* A record that cannot be written is lost; the command runs all the same. */
static void end_run_record(struct shfs_hook_log *log, struct shfs_buf *rec)
{
	add_log_number(rec, log->seq);
	shfs_buf_char(rec, '\n');
	if (!rec->failed && log->fd >= 0)
		(void)!shfs_write_all(log->fd, rec->data, rec->len);
}

/* Adds the last pid that the kernel has assigned. */
static void add_log_last_pid(struct shfs_buf *rec)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };
	const char *last = NULL;

	if (!shfs_read_file_at(AT_FDCWD, "/proc/loadavg", 4096, &text) && text.len)
		last = strrchr(text.data, ' ');
	add_log_number(rec, last ? strtoull(last, NULL, 10) : 0);
}

static void add_log_cwd(struct shfs_buf *rec)
{
	_cleanup_free_ char *cwd = getcwd(NULL, 0);

	add_log_field(rec, cwd ? cwd : "");
}

static void log_session(struct shfs_hook_log *log, const char *shell)
{
	_cleanup_buf_ struct shfs_buf rec = { 0 };
	uint64_t pid_namespace = 0;
	char host[65];

	if (shfs_proc_pid_namespace(&pid_namespace))
		pid_namespace = 0;
	shfs_proc_host(host);
	begin_run_record(log, &rec, "S1");
	add_log_number(&rec, log->self.pid);
	add_log_number(&rec, log->self.start_ticks);
	add_log_field(&rec, log->boot);
	add_log_number(&rec, pid_namespace);
	add_log_times(&rec);
	add_log_field(&rec, host);
	add_log_field(&rec, shell);
	add_log_field(&rec, ""); /* no terminal */
	add_log_cwd(&rec);
	end_run_record(log, &rec);
}

int shfs_hook_log_open(struct shfs_hook_log *log, const char *store_path,
                       const char *shell)
{
	_cleanup_free_ char *dir = shfs_store_hook_dir(store_path), *path = NULL;
	_cleanup_close_ int self = shfs_proc_open(getpid());
	const char *unit = getenv("INVOCATION_ID");
	int r = self < 0 ? self : shfs_proc_read_stat(self, &log->self);

	if (!r)
		r = shfs_proc_boot_id(log->boot);
	if (!r)
		r = dir ? shfs_mkdir_p_at(AT_FDCWD, dir, 0700) : -ENOMEM;
	if (r)
		return r;
	snprintf(log->name, sizeof(log->name), "%.8s-%" PRIu32 "-%" PRIu64, log->boot,
	         log->self.pid, log->self.start_ticks);
	snprintf(log->session, sizeof(log->session), "%s%s%.100s", log->name,
	         unit && *unit ? "-" : "", unit ? unit : "");
	if (asprintf(&path, "%s/shell-%s.log", dir, log->name) < 0) {
		path = NULL;
		return -ENOMEM;
	}
	log->fd =
		open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (log->fd < 0)
		return -errno;
	log_session(log, shell);
	return 0;
}

/* Records one of the definitions, that begins with its kind. */
static void log_definition(struct shfs_hook_log *log, const char *kind)
{
	const char *name = kind + 1, *body = name + strlen(name) + 1;
	_cleanup_buf_ struct shfs_buf rec = { 0 };
	_cleanup_free_ char *redacted = NULL;
	size_t len;
	int r = shfs_redact(log->redactor, body, strlen(body), false, &redacted, &len);

	begin_run_record(log, &rec, "D1");
	shfs_buf_add(&rec, kind, 1);
	shfs_buf_char(&rec, '\0');
	add_log_field(&rec, r < 0 ? "2" : r > 0 ? "1" : "0");
	add_log_field(&rec, name);
	add_log_field(&rec, r < 0 ? "" : redacted ?: body);
	end_run_record(log, &rec);
}

void shfs_hook_log_uses(struct shfs_hook_log *log, const char *uses, size_t len)
{
	_cleanup_buf_ struct shfs_buf rec = { 0 }, list = { 0 };

	for (const char *p = uses; p < uses + len;) {
		log_definition(log, p);
		shfs_buf_printf(&list, "%s%" PRIu64, list.len ? " " : "", log->seq);
		p += strlen(p) + 1;
		p += strlen(p) + 1;
	}
	if (!list.len)
		return;
	begin_run_record(log, &rec, "U1");
	add_log_number(&rec, log->number);
	add_log_number(&rec, 0);
	add_log_field(&rec, list.data);
	end_run_record(log, &rec);
}

void shfs_hook_log_begin(struct shfs_hook_log *log, const char *text)
{
	_cleanup_buf_ struct shfs_buf rec = { 0 };
	_cleanup_free_ char *redacted = NULL;
	size_t len;
	int r = shfs_redact(log->redactor, text, strlen(text), false, &redacted, &len);

	begin_run_record(log, &rec, r > 0 ? "B2" : "B1");
	add_log_number(&rec, ++log->number);
	add_log_times(&rec);
	add_log_last_pid(&rec);
	add_log_field(&rec, r < 0 ? "1" : "0");
	add_log_cwd(&rec);
	add_log_field(&rec, r < 0 ? "" : redacted ?: text);
	end_run_record(log, &rec);
}

void shfs_hook_log_finish(struct shfs_hook_log *log, int status,
                          const struct rusage *usage)
{
	_cleanup_buf_ struct shfs_buf rec = { 0 };

	begin_run_record(log, &rec, "F2");
	add_log_number(&rec, log->number);
	add_log_times(&rec);
	add_log_last_pid(&rec);
	add_log_number(&rec, status);
	add_log_number(&rec, (uint64_t)shfs_timeval_us(usage->ru_utime));
	add_log_number(&rec, (uint64_t)shfs_timeval_us(usage->ru_stime));
	add_log_number(&rec, (uint64_t)usage->ru_maxrss);
	end_run_record(log, &rec);
}

void shfs_hook_log_mark(const struct shfs_hook_log *log)
{
	char number[24];

	if (log->fd < 0)
		return;
	snprintf(number, sizeof(number), "%" PRIu64, log->number);
	setenv("SHFS_SESSION", log->session, 1);
	setenv("SHFS_COMMAND", number, 1);
}
