/* SPDX-License-Identifier: MIT */
/*
 * For tests and by hand: shows the events of a driver while a command runs.
 *
 *   shfs-watch-tool DRIVER DIR [OPTION...] -- COMMAND [ARGUMENT...]
 *
 *   --uid N      watch that user (default: the caller; 0: all users)
 *   --as N       run the command as that user
 *   --hash       hash the content of pinned files at their event: FNV-1a, 64 bits
 *   --late       drain nothing before the command has ended
 *   --quiet MS   end after so long without an event of a file (default 200)
 *   --count      print only the number of events of each type, at the end
 *   --usage      print the cost of draining, to standard error
 *
 * One line for each event:
 *
 *   TYPE FLAGS PID "text" "text2" SIZE key=value...
 *
 * FLAGS are joined by "|"; "-" where there are none. Texts are JSON strings (NUL between
 * arguments is \u0000). Exits with the command's status; with 126 if it cannot watch
 * (standard error says why), with 125 if the driver broke.
 */
#include "common/clock.h"
#include "common/fnv.h"
#include "common/quote.h"
#include "kmod-fast-path/drivers/driver.h"

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <grp.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define EXIT_BROKEN  125
#define EXIT_REFUSED 126
#define DRAIN_MS     10

static const struct {
	unsigned type;
	const char *name;
} types[] = {
	{ SHFS_EVENT_CLOSE, "CLOSE" },
	{ SHFS_EVENT_WRITE, "WRITE" },
	{ SHFS_EVENT_RENAME, "RENAME" },
	{ SHFS_EVENT_LINK, "LINK" },
	{ SHFS_EVENT_UNLINK, "UNLINK" },
	{ SHFS_EVENT_TRUNCATE, "TRUNCATE" },
	{ SHFS_EVENT_MAKE, "MAKE" },
	{ SHFS_EVENT_CHANGE, "CHANGE" },
	{ SHFS_EVENT_FORK, "FORK" },
	{ SHFS_EVENT_EXEC, "EXEC" },
	{ SHFS_EVENT_EXIT, "EXIT" },
	{ SHFS_EVENT_LOST, "LOST" },
	{ 0, "UNKNOWN" },
};

static const struct {
	unsigned flag;
	const char *name;
} flags[] = {
	{ SHFS_EVENT_READABLE, "READABLE" },
	{ SHFS_EVENT_WRITABLE, "WRITABLE" },
	{ SHFS_EVENT_WRITTEN, "WRITTEN" },
	{ SHFS_EVENT_MAPPED, "MAPPED" },
	{ SHFS_EVENT_CREATED, "CREATED" },
	{ SHFS_EVENT_TRUNCATED, "TRUNCATED" },
	{ SHFS_EVENT_APPEND, "APPEND" },
	{ SHFS_EVENT_EXECUTED, "EXECUTED" },
	{ SHFS_EVENT_SHARED, "SHARED" },
	{ SHFS_EVENT_LAST_WRITER, "LAST_WRITER" },
	{ SHFS_EVENT_INEXACT, "INEXACT" },
	{ SHFS_EVENT_CONFIRMED, "CONFIRMED" },
	{ SHFS_EVENT_EXCHANGED, "EXCHANGED" },
	{ SHFS_EVENT_REPLACED, "REPLACED" },
	{ SHFS_EVENT_DIRECTORY_FILE, "DIRECTORY_FILE" },
	{ SHFS_EVENT_CUT, "CUT" },
	{ SHFS_EVENT_BELOW, "BELOW" },
	{ SHFS_EVENT_PINNED, "PINNED" },
	{ SHFS_EVENT_HIDDEN, "HIDDEN" },
	{ SHFS_EVENT_SHOWN, "SHOWN" },
	{ SHFS_EVENT_USAGE, "USAGE" },
};

struct watch {
	uid_t uid;
	int run_as; /* -1: as the caller */
	bool hash, late, count, usage;
	int quiet_ms;
	const struct shfs_driver_ops *ops;
	struct shfs_driver *driver;
	uint64_t told[ARRAY_SIZE(types)], lost;
	bool heard; /* the last drain had events */
};

static void add_flags(struct shfs_buf *line, unsigned value)
{
	const char *separator = " ";

	for (size_t i = 0; i < ARRAY_SIZE(flags); i++) {
		if (!(value & flags[i].flag))
			continue;
		shfs_buf_printf(line, "%s%s", separator, flags[i].name);
		separator = "|";
	}
	if (*separator == ' ')
		shfs_buf_str(line, " -");
}

static void add_hash(struct shfs_buf *line, int content_fd)
{
	char path[32], data[16384];
	_cleanup_close_ int fd = -1;
	uint64_t hash = SHFS_FNV_BEGIN;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", content_fd);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0) {
		shfs_buf_printf(line, " hash=error-%d", errno);
		return;
	}
	while ((n = read(fd, data, sizeof(data))) > 0)
		hash = shfs_fnv(hash, data, (size_t)n);
	shfs_buf_printf(line, " hash=%016" PRIx64, hash);
}

static void append_file_fields(struct shfs_buf *line, const struct shfs_event_file *file)
{
	shfs_buf_printf(line,
	                " id=%llu dev=%llu ino=%llu parent=%llu generation=%u mode=%o "
	                "nlink=%u owner=%u mtime=%lld ctime=%lld",
	                file->id, file->dev, file->ino, file->parent, file->generation,
	                file->mode, file->nlink, file->uid, file->mtime_ns,
	                file->ctime_ns);
}

static size_t type_index(unsigned type)
{
	size_t i = 0;

	while (types[i].type && types[i].type != type)
		i++;
	return i;
}

/* Adds "text", SIZE and the rest of the line. */
static void add_body(struct shfs_buf *line, const struct shfs_event *event)
{
	bool is_file = event->type <= SHFS_EVENT_CHANGE ||
	               event->type == SHFS_EVENT_EXEC ||
	               event->type == SHFS_EVENT_DIRECTORY;

	shfs_buf_char(line, ' ');
	shfs_quote_json(line, event->text, event->text_len);
	shfs_buf_char(line, ' ');
	shfs_quote_json(line, event->text + event->text_len, event->text2_len);
	shfs_buf_printf(line, " %llu", is_file ? event->file.bytes : 0);
	if (is_file)
		append_file_fields(line, &event->file);
	else if (event->type == SHFS_EVENT_FORK)
		shfs_buf_printf(line, " child=%u child_start=%llu", event->child.pid,
		                event->child.start_ns);
	else if (event->flags & SHFS_EVENT_USAGE)
		shfs_buf_printf(line, " status=%u user=%llu system=%llu rss=%llu",
		                event->exit.status, event->exit.user_us,
		                event->exit.system_us, event->exit.max_rss_kib);
	else if (event->type == SHFS_EVENT_LOST)
		shfs_buf_printf(line, " count=%llu", event->lost.count);
}

static void print_event(void *arg, const struct shfs_event *event, int content_fd)
{
	const struct shfs_event_process *p = &event->process;
	_cleanup_buf_ struct shfs_buf line = { 0 };
	struct watch *w = arg;
	size_t type = type_index(event->type);

	/* processes do not count: others of the user may never be quiet */
	w->heard |= event->type < SHFS_EVENT_FORK || event->type > SHFS_EVENT_EXIT;
	w->told[type]++;
	if (event->type == SHFS_EVENT_LOST)
		w->lost += event->lost.count;
	if (w->count)
		return;
	shfs_buf_str(&line, types[type].name);
	add_flags(&line, event->flags);
	shfs_buf_printf(&line, " %u", p->pid);
	add_body(&line, event);
	shfs_buf_printf(&line,
	                " tid=%u start=%llu ppid=%u pgid=%u sid=%u uid=%u time=%llu "
	                "cpu=%u sequence=%llu",
	                p->tid, p->start_ns, p->ppid, p->pgid, p->sid, p->uid,
	                event->time_ns, event->cpu, event->sequence);
	if (w->hash && content_fd >= 0)
		add_hash(&line, content_fd);
	if (line.failed)
		errx(EXIT_BROKEN, "no memory");
	puts(line.data);
}

static void drain_events(struct watch *w)
{
	int r;

	w->heard = false;
	r = w->ops->drain(w->driver, print_event, w);
	if (r < 0)
		errx(EXIT_BROKEN, "%s: %s", w->ops->name, strerror(-r));
}

static void wait_for_events(struct watch *w)
{
	struct pollfd poll_fd = { .fd = w->ops->fd(w->driver), .events = POLLIN };

	fflush(stdout); /* a test may wait for an event */
	if (poll(&poll_fd, 1, DRAIN_MS) < 0)
		err(EXIT_BROKEN, "poll");
}

static void drain_until_quiet(struct watch *w)
{
	int64_t since = shfs_clock_ns(CLOCK_MONOTONIC);

	for (;;) {
		int64_t now = shfs_clock_ns(CLOCK_MONOTONIC);

		drain_events(w);
		if (w->heard)
			since = now;
		else if (now - since >= w->quiet_ms * 1000000LL)
			break;
		wait_for_events(w);
	}
}

static pid_t start_watched_command(const struct watch *w, char **argv)
{
	pid_t pid = fork();

	if (pid < 0)
		err(EXIT_REFUSED, "fork");
	if (pid)
		return pid;
	if (w->run_as >= 0) {
		uid_t uid = (uid_t)w->run_as;

		if (setgroups(0, NULL) || setresgid(uid, uid, uid) ||
		    setresuid(uid, uid, uid))
			err(EXIT_REFUSED, "user %d", w->run_as);
	}
	execvp(argv[0], argv);
	warn("%s", argv[0]);
	_exit(127);
}

static int run_watched_command(struct watch *w, char **argv)
{
	pid_t pid = start_watched_command(w, argv);
	int status;

	while (!waitpid(pid, &status, w->late ? 0 : WNOHANG)) {
		drain_events(w);
		wait_for_events(w);
	}
	drain_until_quiet(w);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void print_summary(const struct watch *w)
{
	struct rusage usage;

	for (size_t i = 0; w->count && i < ARRAY_SIZE(types); i++)
		if (w->told[i])
			printf("%s %" PRIu64 "\n", types[i].name, w->told[i]);
	if (w->count && w->lost)
		printf("events lost %" PRIu64 "\n", w->lost);
	if (!w->usage)
		return;
	getrusage(RUSAGE_SELF, &usage);
	fprintf(stderr, "user %ld.%06ld s, system %ld.%06ld s, at most %ld KiB\n",
	        usage.ru_utime.tv_sec, usage.ru_utime.tv_usec, usage.ru_stime.tv_sec,
	        usage.ru_stime.tv_usec, usage.ru_maxrss);
}

static const struct option options[] = {
	{ "uid", required_argument, NULL, 'u' },   { "as", required_argument, NULL, 'a' },
	{ "quiet", required_argument, NULL, 'q' }, { "hash", no_argument, NULL, 'h' },
	{ "late", no_argument, NULL, 'l' },        { "count", no_argument, NULL, 'c' },
	{ "usage", no_argument, NULL, 's' },       { 0 },
};

/* Parses the options; the command's own arguments begin at optind. */
static bool parse_tool_options(struct watch *w, int argc, char **argv)
{
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 'u':
			w->uid = (uid_t)strtoul(optarg, NULL, 10);
			break;
		case 'a':
			w->run_as = atoi(optarg);
			break;
		case 'q':
			w->quiet_ms = atoi(optarg);
			break;
		case 'h':
			w->hash = true;
			break;
		case 'l':
			w->late = true;
			break;
		case 'c':
			w->count = true;
			break;
		case 's':
			w->usage = true;
			break;
		default:
			return false;
		}
	}
	return true;
}

int main(int argc, char **argv)
{
	struct watch w = { .uid = getuid(), .run_as = -1, .quiet_ms = 200 };
	_cleanup_buf_ struct shfs_buf why = { 0 };
	_cleanup_close_ int root = -1;
	int status;

	if (!parse_tool_options(&w, argc, argv))
		return EXIT_REFUSED;
	argv += optind; /* DRIVER DIR COMMAND... */
	if (argc - optind < 3)
		errx(EXIT_REFUSED, "usage: shfs-watch-tool DRIVER DIR [OPTION...] -- "
		                   "COMMAND [ARGUMENT...]");
	w.ops = shfs_driver_find(argv[0]);
	if (!w.ops)
		errx(EXIT_REFUSED, "no such driver: %s", argv[0]);
	root = open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		err(EXIT_REFUSED, "%s", argv[1]);
	status = w.ops->open(&(struct shfs_subscription_order){ .root_fd = root,
	                                                        .uid = w.uid,
	                                                        .pid = getpid() },
	                     &w.driver, &why);
	if (status < 0)
		errx(EXIT_REFUSED, "%s: %s", argv[0], why.data ? why.data : "?");
	status = run_watched_command(&w, argv + 2);
	w.ops->close(w.driver);
	print_summary(&w);
	return status;
}
