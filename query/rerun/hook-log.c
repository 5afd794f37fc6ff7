/* SPDX-License-Identifier: MIT */
/* Writes a hook log, where a program runs commands in the place of a shell. */
#include "query/rerun/hook-log.h"

#include "common/buf.h"
#include "common/clock.h"
#include "common/fnv.h"
#include "common/io.h"
#include "common/redact.h"
#include "query/base/model.h"
#include "query/history/shell-history.h"
#include "store/journal/journal.h"
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

/* --- a history that a shell kept --- */

#define NO_BOOT "00000000-0000-0000-0000-000000000000"

static void add_log_seconds(struct shfs_buf *rec, int64_t real_s, uint64_t nth)
{
	char text[40];

	snprintf(text, sizeof(text), "%" PRId64 ".0", real_s);
	add_log_field(rec, text);
	/* there is no such clock, but an order */
	snprintf(text, sizeof(text), "%" PRIu64 ".000000000", nth);
	add_log_field(rec, text);
}

static void import_session(struct shfs_hook_log *log, struct shfs_buf *out,
                           const char *shell, uint64_t id, int64_t real_s)
{
	char host[65], what[40];

	shfs_proc_host(host);
	snprintf(what, sizeof(what), "history of %s", shell);
	begin_run_record(log, out, "S1");
	add_log_number(out, 0);
	add_log_number(out, id);
	add_log_field(out, NO_BOOT);
	add_log_number(out, 0);
	add_log_seconds(out, real_s, 0);
	add_log_field(out, host);
	add_log_field(out, what);
	add_log_field(out, ""); /* no terminal */
	add_log_field(out, "");
	add_log_number(out, log->seq);
	shfs_buf_char(out, '\n');
}

static int import_command(struct shfs_hook_log *log, struct shfs_buf *out,
                          const char *text, int64_t real_s)
{
	_cleanup_free_ char *redacted = NULL;
	size_t len;
	int r = shfs_redact(log->redactor, text, strlen(text), false, &redacted, &len);

	if (r < 0)
		return r;
	begin_run_record(log, out, r ? "B2" : "B1");
	add_log_number(out, ++log->number);
	add_log_seconds(out, real_s, log->number);
	add_log_number(out, 0); /* the last pid: not known */
	add_log_number(out, 0); /* it was not hidden */
	add_log_field(out, ""); /* the directory: not known */
	add_log_field(out, redacted ?: text);
	add_log_number(out, log->seq);
	shfs_buf_char(out, '\n');
	return out->failed ? -ENOMEM : 0;
}

static int compose_import(struct shfs_shell_history *history, const char *shell,
                          uint64_t id, int64_t else_s, struct shfs_redactor *redactor,
                          struct shfs_buf *out)
{
	struct shfs_hook_log log = { .fd = -1, .redactor = redactor };
	int r = 0;

	for (size_t i = history->n; i--; else_s = history->list[i].time_s)
		if (!history->list[i].time_s)
			history->list[i].time_s = else_s;
	import_session(&log, out, shell, id, else_s);
	for (size_t i = 0; i < history->n && !r; i++)
		r = import_command(&log, out, history->list[i].text,
		                   history->list[i].time_s);
	return r;
}

int shfs_hook_log_import(const char *store_path, const char *shell, const char *path,
                         struct shfs_shell_history *history, int64_t else_s,
                         struct shfs_redactor *redactor)
{
	_cleanup_free_ char *dir = shfs_store_hook_dir(store_path);
	_cleanup_buf_ struct shfs_buf out = { 0 };
	_cleanup_close_ int dirfd = -1;
	uint64_t id = shfs_fnv(SHFS_FNV_BEGIN, path, strlen(path)) >> 1;
	char name[64];
	int r = dir ? shfs_mkdir_p_at(AT_FDCWD, dir, 0700) : -ENOMEM;

	if (r)
		return r;
	dirfd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dirfd < 0)
		return -errno;
	snprintf(name, sizeof(name), "shell-%.8s-0-%" PRIu64 ".log", NO_BOOT, id);
	if (!faccessat(dirfd, name, F_OK, AT_SYMLINK_NOFOLLOW))
		return -EEXIST;
	r = compose_import(history, shell, id, else_s, redactor, &out);
	return r ? r : shfs_write_file_at(dirfd, name, 0600, out.data, out.len);
}

/* --- commands --- */

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

int shfs_hook_log_command(struct shfs_index *index, const char *session, uint64_t number,
                          int64_t *out)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open_str(
		index,
		"SELECT command_id FROM v_session s JOIN v_command c USING (session_id)"
		" WHERE substr(s.boot_id, 1, ?3) || '-' || s.pid || '-' || s.start_ticks"
		" = ?1 AND c.number = ?2",
		session, &rows);

	if (!r)
		r = shfs_rows_bind_int(rows, 2, (int64_t)number);
	if (!r)
		r = shfs_rows_bind_int(rows, 3, SHFS_JOURNAL_BOOT_DIGITS);
	if (!r)
		r = shfs_rows_next(rows);
	if (r > 0)
		*out = shfs_rows_int(rows, 0);
	return r;
}
