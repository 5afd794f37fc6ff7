/* SPDX-License-Identifier: MIT */
#include "shellhook/hook.h"

#include "common/clock.h"
#include "common/redact.h"
#include "shellhook/held.h"
#include "shellhook/origin.h"
#include "shellhook/uses.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#define ALERT_MAX 4096

static struct {
	pid_t pid; /* of the shell; 0: not started. A subshell has another pid. */
	uint64_t start;
	/* state: the directory of alert */
	char *log, *alert, *state, *host, *boot, *pidns, *tty;
	char *program, *store;
	char *projects; /* those that the shell has not entered yet, one in each line */
	char *visited;  /* the directory of the last prompt, while there are projects */
	bool greeted;   /* the log has the S1 of this shell */
	uint64_t seq, number;
	struct rusage usage[2];         /* as it was when the last command began */
	bool open;                      /* the last command has a begin and no end yet */
	bool unlimited;                 /* files may grow; false: unknown */
	int told;                       /* errno of the last trouble that was reported */
	struct text begun;              /* fields of the last command's B1 */
	bool redacted;                  /* its record is a B2 */
	bool hides;                     /* SHFS_HIDDEN is 1 */
	struct text record;             /* kept to reuse its memory */
	bool settled;                   /* the working directory is what $PWD says */
	struct timespec no_alert;       /* time of the directory when it had no alert */
	char shown[ALERT_MAX];          /* the alerts that were shown */
	struct shfs_redactor *redactor; /* NULL: no patterns of secrets */
} hook;

static struct uses uses; /* of the last command */

static struct held held_log, held_state, held_loadavg, held_mounts;

bool hook_is_ours(void)
{
	return hook.pid && hook.pid == getpid();
}

bool hook_is_disabled(void)
{
	const char *value = shell_get("SHFS_DISABLE");

	return value && *value;
}

bool hook_is_running(void)
{
	return hook.open;
}

void hook_forget(void)
{
	hook.open = false;
}

/* --- text --- */

void text_add(struct text *t, const char *data, size_t len)
{
	if (t->cap - t->len < len) {
		size_t cap = (t->len + len) * 2 + 256;
		char *larger = t->failed ? NULL : realloc(t->data, cap);

		if (!larger) {
			t->failed = true;
			return;
		}
		t->data = larger;
		t->cap = cap;
	}
	if (len)
		memcpy(t->data + t->len, data, len);
	t->len += len;
}

void text_clear(struct text *t)
{
	if (t->cap > 65536 || t->failed) {
		free(t->data);
		*t = (struct text){ 0 };
	}
	t->len = 0;
}

/* Adds a field of a record. */
static void text_add_field(struct text *t, const char *s)
{
	text_add(t, s, strlen(s) + 1);
}

#define NUMBER_MAX 24

/* Writes the digits of n, at least width of them, before end. */
static char *digits(char *end, uint64_t n, int width)
{
	for (; n || width > 0; n /= 10, width--)
		*--end = (char)('0' + n % 10);
	return end;
}

static void text_add_number(struct text *t, uint64_t n)
{
	char s[NUMBER_MAX] = "";

	text_add_field(t, digits(s + sizeof(s) - 1, n, 1));
}

static void text_add_clock(struct text *t, clockid_t id)
{
	char s[2 * NUMBER_MAX] = "", *p = s + sizeof(s) - 1;
	struct timespec ts;

	clock_gettime(id, &ts);
	p = digits(p, ts.tv_nsec, 9);
	*--p = '.';
	text_add_field(t, digits(p, ts.tv_sec, 1));
}

static void text_add_times(struct text *t)
{
	text_add_clock(t, CLOCK_REALTIME);
	text_add_clock(t, CLOCK_BOOTTIME);
}

/* --- facts from /proc and the shell --- */

static ssize_t read_small_file(const char *path, char *out, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	ssize_t n;

	if (fd < 0)
		return -1;
	n = read(fd, out, size - 1);
	close(fd);
	out[n > 0 ? n : 0] = '\0';
	return n;
}

/* Reads field 22 of /proc/self/stat; the name in field 2 may have blanks and
 * parentheses. */
static uint64_t start_ticks(void)
{
	char stat[1024], *p = NULL;

	if (read_small_file("/proc/self/stat", stat, sizeof(stat)) > 0)
		p = strrchr(stat, ')');
	for (int field = 2; p && field < 22; field++)
		p = strchr(p + 1, ' ');
	return p ? strtoull(p, NULL, 10) : 0;
}

/* Adds the last field of /proc/loadavg. */
static void text_add_last_pid(struct text *t)
{
	int fd = use_proc(&held_loadavg, "/proc/loadavg");
	char loadavg[128], *last;
	ssize_t n = fd < 0 ? -1 : pread(fd, loadavg, sizeof(loadavg), 0);

	use_end(&held_loadavg, fd);
	last = n > 0 && loadavg[n - 1] == '\n' ? memrchr(loadavg, ' ', n) : NULL;
	if (!last) {
		text_add_number(t, 0);
		return;
	}
	loadavg[n - 1] = '\0';
	text_add_field(t, last + 1);
}

static void text_add_cwd(struct text *t)
{
	char near[PATH_MAX], *far = NULL;
	const char *cwd = getcwd(near, sizeof(near));

	if (!cwd)
		cwd = far = getcwd(NULL, 0);
	if (!cwd || *cwd != '/')
		cwd = shell_get("PWD");
	text_add_field(t, cwd ? cwd : "");
	free(far);
}

/* --- the marker in the environment of programs --- */

/* number 0: at the prompt. hidden: processes are recorded without their arguments. */
static void mark_command(uint64_t number, bool hidden)
{
	char s[NUMBER_MAX] = "";
	const char *text = digits(s + sizeof(s) - 1, number, 1);

	if (hidden != hook.hides)
		shell_export("SHFS_HIDDEN", hidden ? "1" : "0");
	hook.hides = hidden;
	shell_mark(MARK_COMMAND, text);
	origin_mark(text);
}

/* Sets the marker. The numbers continue where this shell was executed by itself (exec
 * bash), and where the hook of another install has counted; a command that it began ends
 * now. */
static void mark_session(bool is_new, bool sets_origin)
{
	const char *before = shell_get("SHFS_SESSION");
	const char *number = shell_get("SHFS_COMMAND"), *hidden;
	const char *unit = shell_get("INVOCATION_ID");
	char id[64], s[256];
	uint64_t theirs = 0;
	size_t len;

	snprintf(id, sizeof(id), "%.8s-%ld-%" PRIu64, hook.boot, (long)hook.pid,
	         hook.start);
	origin_start(hook.host, id, sets_origin);
	len = strlen(id);
	if (before && number && !strncmp(before, id, len) &&
	    (!before[len] || before[len] == '-'))
		theirs = strtoull(number, NULL, 10);
	if (theirs > hook.number) {
		hook.number = theirs;
		text_clear(&hook.begun);
	}
	if (is_new && theirs == hook.number)
		hook.open = theirs && shell_is_executing();
	snprintf(s, sizeof(s), "%s%s%.128s", id, unit && *unit ? "-" : "",
	         unit ? unit : "");
	shell_export("SHFS_SESSION", s);
	hidden = shell_get("SHFS_HIDDEN");
	hook.hides = hidden && *hidden == '1';
	mark_command(hook.open ? hook.number : 0, hook.open && hook.hides);
}

/* The text without its secrets, malloc'ed; NULL: it has none. Without memory for the
 * search the text is hidden. */
static char *redact(const char *text, bool *hidden)
{
	char *redacted = NULL;
	size_t len;

	if (shfs_redact(hook.redactor, text, strlen(text), false, &redacted, &len) < 0)
		*hidden = true;
	return redacted;
}

/* --- the log --- */

/* Reports trouble: once for each kind, however long it lasts. */
static void trouble(int error)
{
	if (hook.told == error)
		return;
	hook.told = error;
	fprintf(stderr, "shfs: the commands of this shell are not recorded: %s: %s\n",
	        hook.log, strerror(error));
	fflush(stderr); /* zsh buffers it, and forks */
}

/* Writes everything. Beyond `ulimit -f` that is an error, and must not end the shell. */
static bool write_log_record(int fd, const char *data, size_t len)
{
	struct sigaction ignore = { .sa_handler = SIG_IGN }, before;
	bool unlimited = hook.unlimited;
	ssize_t n = 0;

	if (!unlimited)
		sigaction(SIGXFSZ, &ignore, &before);
	while (len && ((n = write(fd, data, len)) > 0 || (n < 0 && errno == EINTR))) {
		data += n > 0 ? n : 0;
		len -= n > 0 ? (size_t)n : 0;
	}
	if (!unlimited)
		sigaction(SIGXFSZ, &before, NULL);
	if (!n)
		errno = EIO;
	return !len;
}

static void begin_log_record(struct text *t, const char *tag)
{
	text_add(t, "\x1e", 1);
	text_add_field(t, tag);
	text_add_number(t, ++hook.seq);
}

static void end_log_record(struct text *t)
{
	text_add_number(t, hook.seq);
	text_add(t, "\n", 1);
}

/* Writes records with one write. If the disk is full they are cut, and readers skip that
 * part. */
static bool write_records(const struct text *t, int fd)
{
	errno = ENOMEM;
	if (!t->failed && write_log_record(fd, t->data, t->len))
		return true;
	trouble(errno);
	return false;
}

/* --- what commands use --- */

/* The definitions that the log has, as far as is remembered. */
#define NOTED_MAX   256
#define NOTED_BYTES (256 << 10)
static struct {
	struct noted {
		char *raw; /* as in uses */
		size_t len;
		uint64_t seq; /* of its record */
		off_t at;     /* where it begins; while fresh, in the text of records */
		bool fresh;
	} list[NOTED_MAX];
	size_t n, bytes;
} noted;

static void remove_noted(size_t i)
{
	noted.bytes -= noted.list[i].len;
	free(noted.list[i].raw);
	noted.list[i] = noted.list[--noted.n];
}

static void forget_noted(void)
{
	while (noted.n)
		remove_noted(noted.n - 1);
}

/* Sets where the fresh definitions were written, at the end of the log; forgets them if
 * they were not. */
static void settle_noted(int fd, size_t len, bool written)
{
	off_t end = noted.n && written ? lseek(fd, 0, SEEK_CUR) : -1;

	for (size_t i = noted.n; i--;) {
		struct noted *n = &noted.list[i];

		if (!n->fresh)
			continue;
		n->fresh = false;
		n->at += end - (off_t)len;
		if (end < (off_t)len)
			remove_noted(i);
	}
}

/* Finds the record of a definition, unless it was forgotten (overwritten by shfs
 * forget). 0: it has none. */
static uint64_t find_noted(int fd, const char *raw, size_t len)
{
	static const char tag[] = "\x1e"
				  "D1";
	char there[sizeof(tag)];

	for (size_t i = 0; i < noted.n; i++) {
		const struct noted *n = &noted.list[i];

		if (n->len != len || memcmp(n->raw, raw, len) != 0)
			continue;
		if (pread(fd, there, sizeof(there), n->at) == sizeof(there) &&
		    !memcmp(there, tag, sizeof(tag)))
			return n->seq;
		remove_noted(i);
		break;
	}
	return 0;
}

/* Remembers the record that is begun at the end of t. */
static void remember_noted(const struct text *t, const char *raw, size_t len)
{
	struct noted *n;
	char *copy = malloc(len);

	if (!copy)
		return;
	if (noted.n == NOTED_MAX || noted.bytes + len > NOTED_BYTES)
		forget_noted();
	n = &noted.list[noted.n++];
	*n = (struct noted){ copy, len, hook.seq + 1, (off_t)t->len, true };
	memcpy(copy, raw, len);
	noted.bytes += len;
}

/* Adds a D1 record, unless the log has one. Returns its sequence number. */
static uint64_t add_definition(struct text *t, int fd, const struct use *use)
{
	const char *raw = uses.raw + use->at, *body = raw + 1 + strlen(raw + 1) + 1;
	uint64_t seq = use->whole ? find_noted(fd, raw, use->len) : 0;
	bool hidden = !use->whole;
	char *redacted;

	if (seq)
		return seq;
	if (use->whole)
		remember_noted(t, raw, use->len);
	redacted = redact(body, &hidden);
	begin_log_record(t, "D1");
	text_add(t, raw, 1);
	text_add(t, "", 1);
	text_add_field(t, hidden ? "2" : redacted ? "1" : "0");
	text_add_field(t, raw + 1);
	text_add_field(t, hidden ? "" : redacted ?: body);
	end_log_record(t);
	free(redacted);
	return hook.seq;
}

/* Adds what the command uses: D1 records, and U1. */
static void add_uses(struct text *t, int fd)
{
	uint64_t seqs[USES_MAX];

	if (!uses.n && !uses.more)
		return;
	for (size_t i = 0; i < uses.n; i++)
		seqs[i] = add_definition(t, fd, &uses.list[i]);
	begin_log_record(t, "U1");
	text_add_number(t, hook.number);
	text_add_field(t, uses.more ? "1" : "0");
	for (size_t i = 0; i < uses.n; i++) {
		char s[NUMBER_MAX] = "", *p = digits(s + sizeof(s) - 1, seqs[i], 1);

		text_add(t, " ", i > 0);
		text_add(t, p, strlen(p));
	}
	text_add(t, "", 1);
	end_log_record(t);
}

void hook_find_uses(const char *line)
{
	uses_find(&uses, line);
}

static bool write_session(int fd)
{
	struct text *t = &hook.record;

	forget_noted();
	fchmod(fd, 0600); /* despite the umask */
	text_clear(t);
	begin_log_record(t, "S1");
	text_add_number(t, hook.pid);
	text_add_number(t, hook.start);
	text_add_field(t, hook.boot);
	text_add_field(t, hook.pidns);
	text_add_times(t);
	text_add_field(t, hook.host);
	text_add_field(t, shell_kind);
	text_add_field(t, hook.tty);
	text_add_cwd(t);
	end_log_record(t);
	if (origin_kept()) {
		begin_log_record(t, "O1");
		text_add_field(t, origin_kept());
		end_log_record(t);
	}
	return write_records(t, fd);
}

static bool write_begun(int fd)
{
	struct text *t = &hook.record;
	bool written;

	if (!hook.begun.len)
		return true; /* another install's hook wrote the record */
	text_clear(t);
	begin_log_record(t, hook.redacted ? "B2" : "B1");
	text_add(t, hook.begun.data, hook.begun.len);
	end_log_record(t);
	add_uses(t, fd);
	t->failed |= hook.begun.failed;
	written = write_records(t, fd);
	settle_noted(fd, t->len, written);
	return written;
}

/* Opens the log. A new one, or one that was removed meanwhile, begins with the session,
 * and continues with the running command. */
static int begin_hook_log(void)
{
	int fd = open(hook.log,
	              O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY,
	              0600);
	struct stat st;

	if (fd < 0) {
		trouble(errno);
		return -1;
	}
	if (!hook.greeted || fstat(fd, &st) || !st.st_size) {
		hook.greeted = write_session(fd);
		if (!hook.greeted || (hook.open && !write_begun(fd))) {
			close(fd);
			return -1;
		}
	}
	return may_hold(fd) ? hold(&held_log, fd) : fd;
}

/* Opens the log; log_close follows. -1: trouble. at_end: checks whether the log was
 * removed since the last prompt, and begins it again. */
static int open_hook_log(bool at_end)
{
	struct stat st;

	if (held_log.fd && !at_end)
		return held_log.fd;
	if (is_held(&held_log, &st) && st.st_nlink && st.st_size)
		return held_log.fd;
	let_go(&held_log);
	return begin_hook_log();
}

static void log_close(int fd)
{
	use_end(&held_log, fd);
}

/* --- the mount --- */

static bool is_fuse(const char *path)
{
	struct statfs fs;

	return !statfs(path, &fs) && fs.f_type == FUSE_SUPER_MAGIC;
}

/* Has the table of mounts changed since the last call? True if that is unknown. */
static bool have_mounts_changed(void)
{
	bool was_held = held_mounts.fd;
	struct pollfd mounts = { .events = POLLPRI };
	bool changed;

	mounts.fd = use_proc(&held_mounts, "/proc/self/mountinfo");
	changed = !was_held || mounts.fd < 0 || poll(&mounts, 1, 0) != 0;
	use_end(&held_mounts, mounts.fd);
	return changed;
}

/* Moves the shell into the directory that $PWD names, if that is the same one, in two
 * cases: the shell was in a project when it was mounted, and so is below the mount,
 * unseen; or it was on a mount that was unmounted. */
static void follow_mount(void)
{
	struct stat here, there;
	const char *pwd;

	if (have_mounts_changed())
		hook.settled = false;
	if (hook.settled)
		return;
	pwd = shell_get("PWD");
	if (!pwd || *pwd != '/')
		return;
	if (stat(".", &here)) {
		if (errno != ENOTCONN)
			return;
	} else if (stat(pwd, &there)) {
		return;
	} else if (here.st_ino == there.st_ino && here.st_dev == there.st_dev) {
		hook.settled = true;
		return;
	} else if (here.st_ino != there.st_ino || (!is_fuse(".") && !is_fuse(pwd))) {
		return;
	}
	if (chdir(pwd))
		return; /* not worse than before */
}

/* --- the commands --- */

/* Gets the usage of the shell, and of the children that it has waited for. */
static void get_usage(struct rusage usage[static 2])
{
	getrusage(RUSAGE_SELF, &usage[0]);
	getrusage(RUSAGE_CHILDREN, &usage[1]);
}

static void text_add_usage(struct text *t)
{
	const struct rusage *before = hook.usage;
	struct rusage now[2];
	int64_t user = 0, system = 0;

	get_usage(now);
	for (int i = 0; i < 2; i++) {
		user += shfs_timeval_us(now[i].ru_utime) -
		        shfs_timeval_us(before[i].ru_utime);
		system += shfs_timeval_us(now[i].ru_stime) -
		          shfs_timeval_us(before[i].ru_stime);
	}
	text_add_number(t, (uint64_t)(user > 0 ? user : 0));
	text_add_number(t, (uint64_t)(system > 0 ? system : 0));
	/* the kernel tells the largest of all children so far */
	text_add_number(t, now[1].ru_maxrss > before[1].ru_maxrss
	                           ? (uint64_t)now[1].ru_maxrss
	                           : 0);
}

void hook_begin(const char *text, bool hidden)
{
	struct text *t = &hook.begun;
	char *redacted = hidden ? NULL : redact(text, &hidden);
	int fd;

	hook.open = false;
	hook.redacted = redacted;
	if (hidden || redacted) /* it cannot be run again */
		uses_clear(&uses);
	follow_mount();
	fd = open_hook_log(false);
	text_clear(t);
	text_add_number(t, ++hook.number);
	text_add_times(t);
	text_add_last_pid(t);
	text_add_field(t, hidden ? "1" : "0");
	text_add_cwd(t);
	text_add_field(t, hidden ? "" : redacted ?: text);
	free(redacted);
	hook.open = fd >= 0 && write_begun(fd);
	log_close(fd);
	hook.unlimited = false;
	mark_command(hook.number, hidden);
	get_usage(hook.usage);
}

void hook_end(int status)
{
	struct text *t = &hook.record;
	int fd = open_hook_log(true);

	hook.open = false;
	mark_command(0, false);
	uses_clear(&uses);
	if (fd < 0)
		return;
	text_clear(t);
	begin_log_record(t, "F2");
	text_add_number(t, hook.number);
	text_add_times(t);
	text_add_last_pid(t);
	if (status < 0)
		text_add(t, "-", 1);
	text_add_number(t, status < 0 ? -(int64_t)status : status);
	text_add_usage(t);
	end_log_record(t);
	(void)!write_records(t, fd);
	log_close(fd);
}

/* Checks the held files: the user may have closed one, or moved it with the store. */
void hook_at_prompt(void)
{
	struct rlimit size;
	struct stat st;

	is_held(&held_loadavg, &st);
	is_held(&held_mounts, &st);
	check_name(&held_log, hook.log);
	check_name(&held_state, hook.state);
	hook.unlimited =
		!getrlimit(RLIMIT_FSIZE, &size) && size.rlim_cur == RLIM_INFINITY;
}

static bool replace_string(char **to, const char *s)
{
	free(*to);
	*to = strdup(s);
	return *to != NULL;
}

/* --- the alert --- */

static bool was_shown(const char *line, size_t len)
{
	for (const char *p = hook.shown; *p; p += strcspn(p, "\n"), p += *p == '\n')
		if (strcspn(p, "\n") == len && !memcmp(p, line, len))
			return true;
	return false;
}

static void print_alert_line(const char *line, size_t len)
{
	for (; len; line++, len--)
		putc((unsigned char)*line < ' ' || *line == '\x7f' ? '?' : *line, stderr);
	putc('\n', stderr);
}

/* Was there no alert, and has its directory not changed since? Changes within one second
 * may leave the same time. */
static bool is_still_quiet(void)
{
	struct timespec now;
	struct stat st;
	bool quiet;
	int fd;

	if (!held_state.fd) {
		fd = open(hook.state, O_PATH | O_DIRECTORY | O_CLOEXEC);
		use_end(&held_state,
		        fd >= 0 && may_hold(fd) ? hold(&held_state, fd) : fd);
	}
	if (!is_held(&held_state, &st))
		return false;
	quiet = !memcmp(&st.st_mtim, &hook.no_alert, sizeof(st.st_mtim));
	clock_gettime(CLOCK_REALTIME, &now);
	hook.no_alert =
		st.st_mtim.tv_sec < now.tv_sec - 1 ? st.st_mtim : (struct timespec){ 0 };
	return quiet;
}

/* Shows new lines; a line that was shown comes again only if it was gone in between. */
static void show_new(void)
{
	char text[sizeof(hook.shown)];

	if (read_small_file(hook.alert, text, sizeof(text)) <= 0)
		*text = '\0';
	for (const char *p = text; *p; p += *p == '\n') {
		size_t len = strcspn(p, "\n");

		if (len && !was_shown(p, len))
			print_alert_line(p, len);
		p += len;
	}
	fflush(stderr);
	strcpy(hook.shown, text);
}

/* --- projects --- */

/* Removes the lines of the projects that hold dir. Were there any? */
static bool take_projects(const char *dir)
{
	char *kept = hook.projects;
	bool found = false;

	for (char *line = hook.projects, *next; *line; line = next) {
		size_t len = strcspn(line, "\n");

		next = line + len + (line[len] == '\n');
		if (!strncmp(dir, line, len) && (!dir[len] || dir[len] == '/')) {
			found = true;
			continue;
		}
		memmove(kept, line, (size_t)(next - line));
		kept += next - line;
	}
	*kept = '\0';
	return found;
}

/* Tells shfs that the shell has entered a project, and waits: it may be mounted now. The
 * shell's own handler must not see the end of the process. */
static void run_prompt(const char *dir)
{
	char *argv[] = { (char[]){ "shfs" },
		         (char[]){ "prompt" },
		         (char[]){ "--store" },
		         hook.store,
		         (char[]){ "--" },
		         (char *)dir,
		         NULL };
	posix_spawnattr_t attr;
	sigset_t all, none, child, before;
	int status;
	pid_t pid;

	sigfillset(&all);
	sigemptyset(&none);
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	if (posix_spawnattr_init(&attr))
		return;
	posix_spawnattr_setsigdefault(&attr, &all);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
	sigprocmask(SIG_BLOCK, &child, &before);
	if (!posix_spawn(&pid, hook.program, NULL, &attr, argv, environ))
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
	sigprocmask(SIG_SETMASK, &before, NULL);
	posix_spawnattr_destroy(&attr);
}

static void visit_project(void)
{
	const char *pwd;
	char *here;

	if (!hook.projects || !*hook.projects)
		return;
	pwd = shell_get("PWD");
	if (!pwd || (hook.visited && !strcmp(pwd, hook.visited)) ||
	    !replace_string(&hook.visited, pwd))
		return;
	here = realpath(pwd, NULL);
	if (here && take_projects(here)) {
		run_prompt(here);
		hook.settled = false;
		follow_mount();
	}
	free(here);
}

void hook_show_alert(void)
{
	if ((*hook.shown || !is_still_quiet()) && !hook_is_disabled())
		show_new();
	if (!hook_is_disabled())
		visit_project();
}

/* --- start --- */

static bool set_state_dir(void)
{
	char *slash;

	if (!replace_string(&hook.state, hook.alert))
		return false;
	slash = strrchr(hook.state, '/');
	if (slash)
		*slash = '\0';
	let_go(&held_state);
	return true;
}

static bool set_log(const char *dir)
{
	char *log;

	if (asprintf(&log, "%s/shell-%.8s-%ld-%" PRIu64 ".log", dir, hook.boot,
	             (long)hook.pid, hook.start) < 0)
		return false;
	if (!hook.log || strcmp(hook.log, log)) {
		hook.greeted = hook.open = false;
		hook.told = 0;
	}
	let_go(&held_log);
	free(hook.log);
	hook.log = log;
	return true;
}

static bool set_redactor(const char *patterns)
{
	shfs_redactor_free(hook.redactor);
	hook.redactor = *patterns ? shfs_redactor_new(patterns) : NULL;
	return !*patterns || hook.redactor;
}

bool hook_start(const char *const *args)
{
	char **const places[] = {
		&hook.alert, &hook.host,    &hook.boot,  &hook.pidns,
		&hook.tty,   &hook.program, &hook.store, &hook.projects
	};
	const size_t n = sizeof(places) / sizeof(*places);
	bool is_new = !hook.pid;

	if (hook.pid && hook.pid != getpid())
		return false;
	hook.pid = getpid();
	hook.start = start_ticks();
	for (size_t i = 0; i < n; i++)
		if (!replace_string(places[i], args[i + 1]))
			return false;
	if (!set_redactor(args[n + 1]) || !set_state_dir() || !set_log(args[0]))
		return false;
	mark_session(is_new, *args[n + 2]);
	log_close(open_hook_log(true));
	return true;
}

void hook_stop(void)
{
	hook.pid = 0;
	hook.open = hook.greeted = false;
	let_go(&held_log);
	let_go(&held_state);
	let_go(&held_loadavg);
	let_go(&held_mounts);
}
