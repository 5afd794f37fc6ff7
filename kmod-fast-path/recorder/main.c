/* SPDX-License-Identifier: MIT */
/* shfs-watch: records what happens below one directory without a FUSE layer over it, from
 * the events of a driver (driver.h) that runs in the helper. */
#include "kmod-fast-path/recorder/baseline.h"
#include "kmod-fast-path/recorder/connection.h"
#include "kmod-fast-path/recorder/control.h"

#include "common/io.h"
#include "common/path.h"
#include "common/proc.h"
#include "common/quote.h"
#include "common/recorders.h"
#include "recording/daemon.h"
#include "recording/guardian.h"
#include "recording/sandbox.h"
#include "store/capture/alert.h"
#include "store/capture/log.h"
#include "store/capture/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#define RETRY_MS  1000  /* between attempts to reach a helper that is gone */
#define LAST_MS   30000 /* for the last events of a command, which are all of it */
#define LOOK_MS   5000  /* between looks at the directory, where nothing happens */
#define SYNCS_MAX 64    /* syncs that wait for the helper */
#define TURN      64    /* events between two looks at the control socket */

struct options {
	const char *store, *config, *driver, *helper, *dir;
	struct shfs_scope scope; /* above: 0: a directory is recorded */
	bool foreground, probe;
};

/* Trouble that the next prompt reports. */
enum trouble {
	NO_TROUBLE,
	NO_HELPER,
	RENAMED,
	REMOVED,
};

/* The state of this process. */
struct watch {
	struct shfs_recorder recorder;
	struct options options;
	struct shfs_baseline *baseline;
	struct shfs_connection *connection; /* NULL: the helper is gone */
	char driver[32];                    /* the first one that was used */
	struct shfs_buf why;                /* why no other driver */
	int listening, signals;
	int above;  /* a pidfd of the process that waits for the command; -1 */
	int ending; /* fd of the caller of "end" that waits for the answer; -1 */
	uint64_t cookie, synced; /* of the last sync: asked for, answered */
	int syncs[SYNCS_MAX];    /* the callers, by cookie modulo SYNCS_MAX; -1 */
	bool seals[SYNCS_MAX];   /* the caller wants young segments */
	enum trouble trouble;
	bool ends;
};

static const char usage[] =
	"usage: shfs-watch --store DIR [--config FILE] [--driver NAME] "
	"[--helper SOCKET] [--foreground] DIR\n"
	"       shfs-watch --store DIR [...] --below PID [--except DIR]... / "
	"[PROJECT]...\n"
	"       shfs-watch [--helper SOCKET] --probe\n";

/* The command of which the files are recorded descends from this process. */
static int set_above(const char *text, pid_t *out)
{
	char *end;
	long pid = strtol(text, &end, 10);

	if (*end || pid <= 0 || pid > INT_MAX)
		return shfs_daemon_show_usage(usage, false);
	*out = (pid_t)pid;
	return 0;
}

static int parse_recorder_options(int argc, char **argv, struct options *out)
{
	static const struct option longs[] = {
		{ "store", required_argument, NULL, 's' },
		{ "config", required_argument, NULL, 'c' },
		{ "driver", required_argument, NULL, 'd' },
		{ "helper", required_argument, NULL, 'r' },
		{ "foreground", no_argument, NULL, 'f' },
		{ "below", required_argument, NULL, 'b' },
		{ "except", required_argument, NULL, 'x' },
		{ "probe", no_argument, NULL, 'p' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	int c;

	char **except = calloc((size_t)argc, sizeof(*except)); /* kept to the end */

	*out = (struct options){ .driver = "",
		                 .helper = getenv("SHFS_HELPER"),
		                 .scope.mounts.table_fd = -1 };
	out->scope.except = except;
	c = shfs_daemon_choose_debug();
	if (c)
		return c;
	while ((c = getopt_long(argc, argv, "", longs, NULL)) >= 0) {
		if (c == 'b' && set_above(optarg, &out->scope.above))
			return SHFS_EXIT_USAGE;
		if (c == 'b')
			continue;
		if (c == 'x' && except)
			except[out->scope.n_except++] = optarg;
		else if (c == 'p')
			out->probe = true;
		else if (c == 's')
			out->store = optarg;
		else if (c == 'c')
			out->config = optarg;
		else if (c == 'd')
			out->driver = optarg;
		else if (c == 'r')
			out->helper = optarg;
		else if (c == 'f')
			out->foreground = true;
		else
			return shfs_daemon_show_usage(usage, c == 'h');
	}
	if (out->probe         ? optind != argc
	    : out->scope.above ? optind >= argc || strcmp(argv[optind], "/") != 0
	                       : optind + 1 != argc)
		return shfs_daemon_show_usage(usage, false);
	out->dir = out->probe ? "/" : argv[optind];
	out->scope.projects = argv + optind + 1;
	out->scope.n_projects = out->probe ? 0 : (size_t)(argc - optind - 1);
	return 0;
}

/* --- the parts --- */

/* Finds the process above the command: the recording ends some time after it. */
static int open_above(struct watch *w)
{
	pid_t pid = w->options.scope.above;

	if (!pid)
		return 0;
	w->recorder.scope = &w->options.scope;
	w->above = (int)syscall(SYS_pidfd_open, pid, 0);
	return w->above < 0 ? shfs_daemon_fail(SHFS_EXIT_FAILURE, "process %d: %s",
	                                       (int)pid, strerror(errno))
	                    : 0;
}

/* The limits of the shell are those of the command, not of the recording. */
static int raise_limits(void)
{
	static const struct {
		int resource;
		const char *option; /* of ulimit */
	} limits[] = {
		{ RLIMIT_FSIZE, "-f" },
		{ RLIMIT_CPU, "-t" },
		{ RLIMIT_AS, "-v" },
		{ RLIMIT_DATA, "-d" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(limits); i++)
		if (!shfs_proc_raise_limit(limits[i].resource))
			return shfs_daemon_fail(
				SHFS_EXIT_REFUSED,
				"the limit of this shell (ulimit %s) would apply to the "
				"recording as well; record from a shell without it, and "
				"set it inside: shfs record sh -c 'ulimit ...; exec ...'",
				limits[i].option);
	return 0;
}

static int take_name(struct watch *w)
{
	w->listening = w->above >= 0 ? shfs_recorders_listen_tree(w->options.scope.above)
	                             : shfs_recorders_listen(w->recorder.root_fd);
	if (w->listening == -EADDRINUSE)
		return shfs_daemon_fail_path(SHFS_EXIT_REFUSED, w->recorder.root,
		                             "is recorded already");
	return w->listening < 0 ? shfs_daemon_fail(SHFS_EXIT_FAILURE, "%s",
	                                           strerror(-w->listening))
	                        : 0;
}

/* --- the helper --- */

static bool may_start_helper(const struct watch *w)
{
	return !geteuid() && !w->options.helper;
}

/* Connects to the helper of this machine; root may start one of its own. */
static int open_connection(struct watch *w)
{
	_cleanup_free_ char *program = shfs_path_installed("sbin", "shfs-helper");
	int r = shfs_connection_open(w->options.helper, &w->connection, &w->why);

	if (!r || !may_start_helper(w) || !program)
		return r;
	w->why.len = 0;
	return shfs_connection_spawn(program, &w->connection, &w->why);
}

static int reach_driver(struct watch *w, const char *driver)
{
	int r;

	w->why.len = 0;
	r = open_connection(w);
	if (!r)
		r = shfs_connection_subscribe(w->connection, w->recorder.root_fd, driver,
		                              &w->why);
	if (r)
		shfs_connection_close(TAKE_PTR(w->connection));
	else
		shfs_buf_str(&w->why, shfs_connection_why(w->connection));
	return r;
}

/* Uses the first of two drivers that works. */
static int reach_either(struct watch *w, const char *const drivers[static 2])
{
	_cleanup_free_ char *first = NULL;
	int r = reach_driver(w, drivers[0]);

	if (!r)
		return 0;
	first = shfs_buf_take(&w->why);
	r = reach_driver(w, drivers[1]);
	if (first && (!w->why.len || strcmp(first, w->why.data) != 0))
		shfs_buf_printf(&w->why, "%s%s", w->why.len ? "; " : "", first);
	return r;
}

/* The driver that reports each use of all files of the machine. The others do not report:
 * bpf, new names on file systems that are mounted somewhere; fanotify, the arguments of
 * programs that end at once, and on a busy machine it loses events. */
static const char whole_driver[] = "bpf-tracepoints";

/* Backend bpf: on functions where the kernel allows that, else on tracepoints. auto: the
 * most exact driver that there is without FUSE. */
static int reach_helper(struct watch *w)
{
	const struct {
		const char *name, *drivers[2];
	} choices[] = {
		{ "auto", { "module", "bpf" } },
		{ "bpf", { "bpf", "bpf-tracepoints" } },
	};
	const char *name = w->options.driver;

	for (size_t i = 0; i < ARRAY_SIZE(choices); i++)
		if (!strcmp(choices[i].name, name))
			return reach_either(w, choices[i].drivers);
	return reach_driver(w, *name ? name : NULL);
}

static void answer_error(int fd, int error)
{
	char text[16];
	int len = snprintf(text, sizeof(text), "%d", error);

	shfs_control_answer(fd, text, (size_t)len);
}

/* Records the loss: until the helper is back, no event is seen. */
static void lose_helper(struct watch *w, int error)
{
	const struct shfs_event lost = { .type = SHFS_EVENT_LOST, .lost = { 1 } };

	shfs_connection_close(TAKE_PTR(w->connection));
	shfs_recorder_event(&w->recorder, &lost, -1);
	for (size_t i = 0; i < SYNCS_MAX; i++)
		if (w->syncs[i] >= 0)
			answer_error(TAKE_FD(w->syncs[i]), error);
	shfs_log("the helper has gone: %s", strerror(-error));
}

/* Lets a burst of events wait in this process, which has more room than the helper. */
static void receive_ahead(struct watch *w)
{
	int r = shfs_connection_receive_ahead(w->connection);

	if (r)
		shfs_log("no thread to receive events: %s", strerror(-r));
}

static void end_sync(struct watch *w, uint64_t cookie)
{
	int *fd = &w->syncs[cookie % SYNCS_MAX];

	w->synced = cookie;
	if (w->recorder.scope)
		shfs_recorder_settle(&w->recorder);
	if (*fd >= 0 && w->seals[cookie % SYNCS_MAX])
		shfs_control_seal(&w->recorder, TAKE_FD(*fd));
	else if (*fd >= 0)
		shfs_control_sync(&w->recorder, TAKE_FD(*fd));
}

/* true: there may be more. */
static bool receive_events(struct watch *w)
{
	struct shfs_told told;
	int r = 1;

	for (unsigned n = 0; n < TURN; n++) {
		r = shfs_connection_next(w->connection, &told);
		if (r <= 0)
			break;
		if (r == SHFS_TOLD_SYNCED) {
			end_sync(w, told.cookie);
			continue;
		}
		shfs_recorder_event(&w->recorder, told.event, told.content_fd);
		shfs_closep(&told.content_fd);
	}
	if (r < 0)
		lose_helper(w, r);
	return r > 0;
}

/* --- trouble --- */

/* Finds out what is wrong: everything is recorded by the directory's first name. */
static enum trouble find_trouble(const struct watch *w)
{
	char link[32], name[PATH_MAX];
	struct stat st;
	ssize_t len;

	if (!w->connection)
		return NO_HELPER;
	if (!fstat(w->recorder.root_fd, &st) && !st.st_nlink)
		return REMOVED;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", w->recorder.root_fd);
	len = readlink(link, name, sizeof(name) - 1);
	if (len < 0)
		return NO_TROUBLE;
	name[len] = '\0';
	return strcmp(name, w->recorder.root) ? RENAMED : NO_TROUBLE;
}

static void raise_alert(struct watch *w, const char *before, const char *after)
{
	_cleanup_buf_ struct shfs_buf line = { 0 }, path = { 0 };

	shfs_quote_display(&path, w->recorder.root, strlen(w->recorder.root));
	shfs_buf_printf(&line, "shfs: %s%s%s\n", before, path.data ? path.data : "",
	                after);
	if (!line.failed)
		shfs_alert_raise(w->recorder.store, w->recorder.root, line.data, NULL);
}

/* Reports new trouble; if the directory was removed, the recording ends. */
static void look_for_trouble(struct watch *w)
{
	static const char *const lines[][2] = {
		[NO_HELPER] = { "nothing of ",
		                " is recorded: shfs-helper has ended; start it again" },
		[RENAMED] = { "", " was renamed, and is recorded by its old name: shfs "
		                  "umount that, and mount the new one" },
		[REMOVED] = { "", " was removed, and its recording has ended with it; "
		                  "shfs mount begins a new one" },
	};
	enum trouble found = find_trouble(w);

	if (found == w->trouble)
		return;
	w->trouble = found;
	w->ends = w->ends || found == REMOVED;
	if (found)
		raise_alert(w, lines[found][0], lines[found][1]);
	else
		shfs_alert_clear(w->recorder.store, w->recorder.root);
	if (found > NO_HELPER)
		shfs_log("the directory was %s",
		         found == REMOVED ? "removed" : "renamed");
}

/* --- the control socket --- */

static void begin_client_sync(struct watch *w, int fd, bool seal)
{
	int *slot = &w->syncs[++w->cookie % SYNCS_MAX];
	int r = w->connection ? shfs_connection_sync(w->connection, w->cookie)
	                      : -ENOTCONN;

	if (r || *slot >= 0) {
		answer_error(fd, r ? r : -EBUSY);
		return;
	}
	*slot = fd;
	w->seals[w->cookie % SYNCS_MAX] = seal;
}

static void answer_status(struct watch *w, int fd)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };
	const struct shfs_control_driver driver = {
		.name = w->connection ? shfs_connection_driver(w->connection) : "none",
		.why = w->why.len ? w->why.data : "",
		.waiting_bytes = w->connection ? shfs_connection_bytes(w->connection) : 0,
	};

	shfs_control_status(&w->recorder, &driver, &text);
	if (!w->connection)
		shfs_buf_printf(&text, "error=%d\n", -ENOTCONN);
	shfs_control_answer(fd, text.data, text.len);
}

static void answer_client(struct watch *w)
{
	char word[SHFS_RECORDER_WORD_MAX];
	int fd = shfs_recorders_accept(w->listening, word);

	if (fd < 0)
		return;
	if (!strcmp(word, "root")) {
		shfs_control_answer(fd, w->recorder.root, strlen(w->recorder.root));
	} else if (!strcmp(word, "status")) {
		answer_status(w, fd);
	} else if (!strcmp(word, "sync")) {
		begin_client_sync(w, fd, false);
	} else if (!strcmp(word, "seal")) {
		begin_client_sync(w, fd, true);
	} else if (!strcmp(word, "end") && w->ending < 0) {
		w->ending = fd;
		w->ends = true;
	} else {
		close(fd);
	}
}

/* --- serving --- */

/* Has all ended that descends from the process above, which has ended itself? */
static bool is_command_over(struct watch *w)
{
	return w->above < 0 && w->recorder.scope &&
	       !shfs_processes_any_below(w->recorder.processes);
}

static int wait_ms(const struct watch *w)
{
	bool alone = w->recorder.scope && w->above < 0;

	return w->connection && !alone ? LOOK_MS : RETRY_MS;
}

static void serve_recording(struct watch *w)
{
	bool more = false;

	while (!w->ends) {
		struct pollfd fds[] = {
			{ .fd = w->signals, .events = POLLIN },
			{ .fd = w->listening, .events = POLLIN },
			{ .fd = w->connection ? shfs_connection_fd(w->connection) : -1,
			  .events = POLLIN },
			{ .fd = w->above, .events = POLLIN },
		};
		int n = poll(fds, ARRAY_SIZE(fds), more ? 0 : wait_ms(w));

		if (n < 0)
			continue;
		if (fds[0].revents)
			return;
		if (!w->connection && !reach_helper(w)) {
			receive_ahead(w);
			shfs_processes_look_below(w->recorder.processes);
			shfs_log("the helper is back");
		}
		if (more || fds[2].revents)
			more = receive_events(w);
		look_for_trouble(w);
		if (fds[1].revents)
			answer_client(w);
		if (fds[3].revents)
			close(TAKE_FD(w->above));
		if (!more && is_command_over(w))
			return;
	}
}

/* Records what had happened when the end was asked for. */
static void record_last_events(struct watch *w)
{
	uint64_t last = ++w->cookie;
	struct pollfd p;
	bool more = false;

	if (!w->connection || shfs_connection_sync(w->connection, last))
		return;
	p = (struct pollfd){ .fd = shfs_connection_fd(w->connection), .events = POLLIN };
	while (w->connection && w->synced != last &&
	       (more || poll(&p, 1, w->recorder.scope ? LAST_MS : RETRY_MS) > 0))
		more = receive_events(w);
}

/* Tells nobody: shfs record itself says that it has not seen the end of the recording. */
static void guardian_of_command_died(struct shfs_guardian *g)
{
	(void)g;
}

static void guardian_died(struct shfs_guardian *g)
{
	shfs_guardian_alert(g);
}

static int start_recorder(struct watch *w)
{
	struct shfs_recorder *r = &w->recorder;
	struct shfs_guardian guardian = { .root = r->root,
		                          .died = r->scope ? guardian_of_command_died
		                                           : guardian_died };
	int error;

	r->spool = shfs_spool_new();
	guardian.spool = r->spool;
	error = r->spool ? shfs_guardian_start(&guardian, r->store) : -ENOMEM;
	if (error)
		return shfs_daemon_fail(SHFS_EXIT_FAILURE, "%s", strerror(-error));
	w->signals = shfs_daemon_signals();
	signal(SIGIO, SIG_IGN); /* a lease is being broken: the opener waits */
	error = shfs_recorder_begin(r);
	if (error)
		return shfs_daemon_fail(SHFS_EXIT_NO_STORE, "cannot begin a journal: %s",
		                        strerror(-error));
	if (shfs_project_rules_error(&r->rules))
		shfs_daemon_fail(0, "warning: .shfsignore is not followed: %s",
		                 strerror(-shfs_project_rules_error(&r->rules)));
	return 0;
}

static int run_recording(struct watch *w)
{
	int code, r = reach_helper(w);

	if (r)
		return shfs_daemon_fail(SHFS_EXIT_UNAVAILABLE, "%s",
		                        w->why.len ? w->why.data : strerror(-r));
	snprintf(w->driver, sizeof(w->driver), "%s",
	         shfs_connection_driver(w->connection));
	w->recorder.driver = w->driver;
	shfs_daemon_hide(); /* afterwards this process cannot write to /proc/self */
	shfs_daemon_bound_heap();
	code = start_recorder(w);
	if (code)
		return code;
	/* of a command is recorded what it uses, and nothing before */
	r = w->recorder.scope ? 0 : shfs_baseline_begin(&w->recorder, &w->baseline);
	if (r)
		return shfs_daemon_fail(SHFS_EXIT_FAILURE, "%s", strerror(-r));
	shfs_log_open(w->recorder.store, "watch",
	              w->options.foreground ? STDERR_FILENO : -1);
	if (!w->options.foreground)
		shfs_daemon_leave_terminal();
	/* a helper that this process starts would be in the sandbox too, and useless */
	r = may_start_helper(w) ? 0 : shfs_sandbox_enter(SHFS_SANDBOX_SOCKETS);
	if (r)
		shfs_log("no seccomp filter: %s", strerror(-r));
	receive_ahead(w);
	shfs_daemon_tell(SHFS_EXIT_OK);
	serve_recording(w);
	record_last_events(w);
	if (w->trouble && w->trouble != REMOVED)
		shfs_alert_clear(w->recorder.store, w->recorder.root);
	return SHFS_EXIT_OK;
}

static void free_recording(struct watch *w)
{
	shfs_baseline_end(w->baseline);
	shfs_connection_close(w->connection);
	shfs_recorder_end(&w->recorder);
	shfs_spool_free(w->recorder.spool);
	shfs_config_free(&w->recorder.config);
	shfs_store_close(w->recorder.store);
	shfs_closep(&w->recorder.root_fd);
	shfs_closep(&w->listening);
	shfs_closep(&w->signals);
	shfs_closep(&w->above);
	shfs_buf_free(&w->why);
	free(w->recorder.root);
	if (w->ending >= 0)
		shfs_control_answer(w->ending, "ok", 2);
}

/* Finds out whether the helper works for the recording of a command. */
static int probe_helper(struct watch *w)
{
	int r = reach_helper(w);

	if (r)
		shfs_daemon_fail(0, "%s", w->why.len ? w->why.data : strerror(-r));
	free_recording(w);
	return r ? SHFS_EXIT_UNAVAILABLE : SHFS_EXIT_OK;
}

int main(int argc, char **argv)
{
	static struct watch w = { .recorder = { .root_fd = -1 },
		                  .listening = -1,
		                  .signals = -1,
		                  .above = -1,
		                  .ending = -1 };
	int code = parse_recorder_options(argc, argv, &w.options);

	if (code)
		return MAX(code, 0);
	for (size_t i = 0; i < SYNCS_MAX; i++)
		w.syncs[i] = -1;
	w.recorder.since_ns = shfs_clock_ns(CLOCK_REALTIME);
	if (w.options.scope.above || w.options.probe)
		w.options.driver = whole_driver;
	code = shfs_daemon_open_root(w.options.dir, O_RDONLY,
	                             w.options.driver == whole_driver ? NULL : "recorded",
	                             &w.recorder.root, &w.recorder.root_fd);
	if (!code && w.options.probe)
		return probe_helper(&w);
	if (!code && w.options.scope.above)
		code = raise_limits();
	if (!code)
		code = open_above(&w);
	if (!code)
		code = take_name(&w);
	if (!code)
		code = shfs_daemon_open_store(w.options.store, w.recorder.root,
		                              &w.recorder.store);
	if (!code)
		code = shfs_daemon_read_config(w.options.config, &w.recorder.config);
	if (!code && !w.options.foreground)
		code = shfs_daemon_fork();
	if (!code)
		code = run_recording(&w);
	free_recording(&w);
	shfs_daemon_tell(code);
	shfs_guardian_dismiss();
	return code;
}
