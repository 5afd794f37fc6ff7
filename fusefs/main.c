/* SPDX-License-Identifier: MIT */
/* shfs-fuse: mounts one directory, and serves it until it is unmounted. */
#include "fusefs/fs.h"

#include "common/io.h"
#include "common/path.h"
#include "common/proc.h"
#include "fusefs/browse-keeper.h"
#include "fusefs/mount-guardian.h"
#include "fusefs/nodes/limit.h"
#include "fusefs/operations/invented.h"
#include "fusefs/operations/operations.h"
#include "fusefs/takeover/again.h"
#include "fusefs/transport/mountpoint.h"
#include "fusefs/transport/transport.h"
#include "fusefs/watch/beneath.h"
#include "fusefs/watch/links.h"
#include "fusefs/watch/lookups.h"
#include "recording/daemon.h"
#include "recording/guardian.h"
#include "recording/sandbox.h"
#include "store/capture/log.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>

#define FD_RESERVE   512 /* for fds that are no users' files */
#define FD_CACHE_MAX 16384
#define BUNDLE_BYTES (128u << 20) /* libraries have no more */
#define DETACH_MS    5000         /* after SIGTERM, for files that are still open */

struct options {
	const char *store, *config, *dir, *transport_name, *at;
	enum shfs_transport_kind transport;
	bool allow_other, foreground, no_passthrough;
	bool bundle;     /* with at: the contents of all files are archived */
	char **projects; /* of argv, n of them; with at */
	size_t n_projects;
};

static const char usage[] =
	"usage: shfs-fuse --store DIR [--config FILE] [--allow-other] "
	"[--transport auto|dev|uring] [--no-passthrough] [--foreground] DIR\n"
	"       shfs-fuse --at MOUNTPOINT [--bundle] [OPTION...] DIR [PROJECT...]\n";

static int parse_mount_options(int argc, char **argv, struct options *out,
                               struct shfs_again *again)
{
	static const struct option longs[] = {
		{ "store", required_argument, NULL, 's' },
		{ "config", required_argument, NULL, 'c' },
		{ "allow-other", no_argument, NULL, 'a' },
		{ "foreground", no_argument, NULL, 'f' },
		{ "transport", required_argument, NULL, 't' },
		{ "no-passthrough", no_argument, NULL, 'p' },
		{ "at", required_argument, NULL, 'm' },
		{ "bundle", no_argument, NULL, 'b' },
		{ "again", required_argument, NULL, 'g' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	const char *transport = getenv("SHFS_TRANSPORT");
	int c;

	c = shfs_daemon_choose_debug();
	if (c)
		return c;
	if (transport && shfs_config_parse_transport(transport, &out->transport))
		return shfs_daemon_fail(SHFS_EXIT_USAGE,
		                        "SHFS_TRANSPORT is auto, dev or uring");
	while ((c = getopt_long(argc, argv, "", longs, NULL)) >= 0) {
		if (c == 's')
			out->store = optarg;
		else if (c == 'c')
			out->config = optarg;
		else if (c == 'a')
			out->allow_other = true;
		else if (c == 'f')
			out->foreground = true;
		else if (c == 'p')
			out->no_passthrough = true;
		else if (c == 'm')
			out->at = optarg;
		else if (c == 'b')
			out->bundle = true;
		else if (c == 't' &&
		         !shfs_config_parse_transport(optarg, &out->transport))
			out->transport_name = optarg;
		else if (c != 'g' || !shfs_again_read(again, optarg))
			return shfs_daemon_show_usage(usage, c == 'h');
	}
	if (optind >= argc || (optind + 1 != argc && !out->at))
		return shfs_daemon_show_usage(usage, false);
	out->dir = argv[optind];
	out->projects = argv + optind + 1;
	out->n_projects = (size_t)(argc - optind - 1);
	return 0;
}

/* Notes how the guardian is to start us again, from any directory; *config must live as
 * long. */
static int note_options(struct shfs_fs *fs, const struct options *options, char **config)
{
	struct shfs_again *again = fs->again;
	unsigned n = 0;

	if (options->foreground || options->at)
		return 0;
	again->args[n++] = "shfs-fuse";
	again->args[n++] = "--store";
	again->args[n++] = fs->store->path;
	if (options->config) {
		*config = realpath(options->config, NULL);
		if (!*config)
			return shfs_daemon_fail_path(SHFS_EXIT_USAGE, options->config,
			                             strerror(errno));
		again->args[n++] = "--config";
		again->args[n++] = *config;
	}
	if (options->transport_name) {
		again->args[n++] = "--transport";
		again->args[n++] = options->transport_name;
	}
	if (options->allow_other)
		again->args[n++] = "--allow-other";
	if (options->no_passthrough)
		again->args[n++] = "--no-passthrough";
	again->n_args = n;
	return 0;
}

/* --- the parts of a mount --- */

/*
 * Raises the limits of the caller's shell, which would hold for all users of the mount.
 * Refuses to mount with a limit that cannot be raised, and that would fail writes or end
 * us.
 */
static int raise_limits(bool for_one)
{
	static const struct {
		int resource;
		const char *option; /* of ulimit; NULL: a low limit is only slower */
	} limits[] = {
		{ RLIMIT_FSIZE, "-f" }, { RLIMIT_CPU, "-t" },    { RLIMIT_AS, "-v" },
		{ RLIMIT_DATA, "-d" },  { RLIMIT_NOFILE, NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		if (!shfs_proc_raise_limit(limits[i].resource) && limits[i].option)
			return shfs_daemon_fail(
				SHFS_EXIT_REFUSED,
				for_one ? "the limit of this shell (ulimit %s) would "
					  "apply to the recording as well; record from "
					  "a shell without it, and set it inside: shfs "
					  "record sh -c 'ulimit ...; exec ...'"
					: "the limit of this shell (ulimit %s) would "
					  "apply to all users of the mount; mount from "
					  "a shell without it",
				limits[i].option);
	}
	return 0;
}

/* Raises the limit of fds, and shares them out. Each open file may lose its name and is
 * then held by a second fd (node.h): so, but for a reserve, half of the fds are for open
 * files. Those that they do not use are for the cache of nodes. */
static void share_out_fds(size_t *for_nodes, size_t *for_handles)
{
	struct rlimit limit;
	size_t reserve;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		limit.rlim_cur = 2 * FD_RESERVE;
	reserve = MIN(FD_RESERVE, limit.rlim_cur / 4);
	*for_handles = (limit.rlim_cur - reserve) / 2;
	*for_nodes = limit.rlim_cur < 3 * FD_RESERVE ? limit.rlim_cur / 4
	                                             : MIN(*for_handles, FD_CACHE_MAX);
}

/* Has all contents archived that are read, as far as memory allows. */
static void archive_all(struct shfs_fs *fs)
{
	struct shfs_config *config = &fs->config;

	fs->rules.keep_all = true;
	config->archive_max_bytes =
		MAX(config->archive_max_bytes, (uint64_t)BUNDLE_BYTES);
	config->read_max_bytes = config->archive_max_bytes;
}

/* Archives contents of these projects alone: those that can be used now. */
static void archive_projects(struct shfs_fs *fs, const struct options *options)
{
	fs->rules.is_no_project = fs->at;
	for (size_t i = 0; i < options->n_projects; i++) {
		const char *dir = shfs_path_relative(options->projects[i], fs->root);
		int r = dir && *dir ? shfs_project_rules_add_part(&fs->rules, dir)
		                    : -EINVAL;

		if (r)
			shfs_daemon_fail_path(0, options->projects[i], strerror(-r));
	}
}

/* Starts the capture, which starts threads: so in the process that stays. */
static int start_capture(struct shfs_fs *fs, const struct options *options)
{
	struct shfs_capture_options for_capture = {
		.config = &fs->config,
		.kind = "fuse",
		.root = fs->root,
		.spool = fs->spool,
	};
	const struct shfs_reach reach = { .root = fs->root,
		                          .root_fd = fs->root_fd,
		                          .store = fs->store };
	struct stat st;
	size_t for_nodes;
	int r;

	pthread_mutex_init(&fs->handles_lock, NULL);
	shfs_project_rules_init(&fs->rules, &fs->config, fs->root_fd);
	if (shfs_project_rules_error(&fs->rules))
		shfs_daemon_fail(0, "warning: .shfsignore is not followed: %s",
		                 strerror(-shfs_project_rules_error(&fs->rules)));
	archive_projects(fs, options);
	if (options->bundle)
		archive_all(fs);
	fs->proc_fd = open("/proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fs->proc_fd < 0)
		return shfs_daemon_fail(SHFS_EXIT_FAILURE, "/proc: %s", strerror(errno));
	share_out_fds(&for_nodes, &fs->max_open);
	fs->max_open = MIN(fs->max_open, (size_t)SHFS_HEIR_OPENS - 4096);
	r = shfs_tree_new(fs->root_fd, fs->proc_fd, for_nodes, shfs_watch_free,
	                  &fs->tree);
	if (!r && !fstat(fs->store->dirfd, &st))
		shfs_tree_hide(fs->tree, st.st_dev, st.st_ino);
	if (!r)
		r = shfs_capture_open(fs->store, &for_capture, &fs->capture);
	fs->links = shfs_links_new();
	fs->lookups = fs->at ? shfs_lookups_new() : NULL;
	if (!r && (!fs->links || (fs->at && !fs->lookups)))
		r = -ENOMEM;
	if (!r)
		r = shfs_callers_new(fs->capture, &fs->config, &reach, &fs->callers);
	return r ? shfs_daemon_fail(SHFS_EXIT_NO_STORE, "cannot begin a journal: %s",
	                            strerror(-r))
	         : 0;
}

/* Is the mount one of a user namespace, in which most owners of files have no ids? */
static bool is_for_one_user(const struct shfs_fs *fs)
{
	return fs->at && !fs->privileged;
}

static struct fuse_session *new_session(struct shfs_fs *fs, bool allow_other)
{
	static struct fuse_lowlevel_ops ops;
	struct fuse_args args = FUSE_ARGS_INIT(0, NULL);
	struct fuse_session *session = NULL;
	char source[SHFS_STORE_SOURCE_MAX], options[128];

	if (shfs_store_source(fs->store->dirfd, "", source))
		return NULL;
	snprintf(options, sizeof(options), "-ofsname=%s,subtype=shfs%s", source,
	         is_for_one_user(fs) ? "" : ",default_permissions");
	if (is_for_one_user(fs))
		shfs_ops_show_unmapped_as_own();
	shfs_ops_init(&ops);
	if (!fuse_opt_add_arg(&args, "shfs-fuse") && !fuse_opt_add_arg(&args, options) &&
	    (!allow_other || !fuse_opt_add_arg(&args, "-oallow_other")))
		session = fuse_session_new(&args, &ops, sizeof(ops), fs);
	fuse_opt_free_args(&args);
	return session;
}

static void free_fs(struct shfs_fs *fs)
{
	shfs_passthrough_end(fs);
	shfs_callers_free(fs->callers);
	shfs_links_free(fs->links);
	shfs_lookups_free(fs->lookups);
	shfs_capture_close(fs->capture);
	shfs_spool_free(fs->spool);
	shfs_tree_free(fs->tree);
	shfs_invented_free(fs->invented);
	shfs_heir_free(fs->heir);
	shfs_project_rules_free(&fs->rules);
	shfs_config_free(&fs->config);
	shfs_store_close(fs->store);
	shfs_closep(&fs->root_fd);
	shfs_closep(&fs->proc_fd);
	free(fs->root);
	free(fs->at);
}

/* --- serving --- */

/*
 * Waits until the mount is gone, or a signal asks to end (true); then waits a moment for
 * files that are still open.
 */
static bool wait_for_end(struct shfs_fs *fs, int signals)
{
	struct pollfd fds[3] = {
		{ .fd = shfs_transport_ended_fd(fs->transport), .events = POLLIN },
		{ .fd = signals, .events = POLLIN },
		{ .fd = shfs_invented_fd(fs->invented), .events = POLLIN },
	};
	int timeout = -1, n;

	for (;;) {
		n = poll(fds, 3, timeout);
		if (n < 0 && errno == EINTR)
			continue;
		if (n > 0 && fds[2].revents)
			shfs_invented_attend(fs->invented);
		if (n > 0 && !fds[0].revents && !fds[1].revents)
			continue;
		/* a second signal ends at once */
		if (n <= 0 || fds[0].revents || timeout >= 0)
			return timeout >= 0;
		/* before the detach, so that a second signal during it is not lost */
		(void)!read(signals, &(struct signalfd_siginfo){ 0 },
		            sizeof(struct signalfd_siginfo));
		shfs_mountpoint_detach();
		timeout = DETACH_MS;
	}
}

/* Can the mount be taken over? Not if the store is in it: a successor that opens it by
 * its path would wait for itself. */
static bool can_be_taken(const struct shfs_fs *fs)
{
	return fs->again->n_args && shfs_transport_can_be_taken(fs->transport) &&
	       !shfs_path_is_below(fs->store->path, fs->root);
}

static int serve_mount(struct shfs_fs *fs, int signals, int device_fd, bool foreground)
{
	struct shfs_pruner *pruner = NULL;
	int r = shfs_beneath_new(fs, &fs->beneath);

	if (r)
		shfs_log("names and attributes are cached for a second: changes in the "
		         "lower file system cannot be noticed: %s",
		         strerror(-r));
	r = shfs_passthrough_begin(fs, device_fd);
	if (!r)
		r = shfs_transport_start(fs->transport);
	if (r == -ENODEV) /* unmounted already */
		return 0;
	if (r == -EOPNOTSUPP)
		return shfs_daemon_fail(SHFS_EXIT_UNAVAILABLE,
		                        "no FUSE over io_uring: %s",
		                        shfs_transport_reason(fs->transport));
	if (!r)
		r = shfs_pruner_new(fs->tree, fs->transport, fs->config.known_files,
		                    &pruner);
	if (r)
		return shfs_daemon_fail(SHFS_EXIT_FAILURE,
		                        "the kernel sends no requests: %s", strerror(-r));
	if (can_be_taken(fs))
		shfs_heir_set_device(fs->heir, device_fd);
	if (!foreground)
		shfs_daemon_leave_terminal();
	r = shfs_sandbox_enter(0);
	if (r)
		shfs_log("no seccomp filter: %s", strerror(-r));
	shfs_daemon_tell(SHFS_EXIT_OK);
	fs->died = !wait_for_end(fs, signals) && shfs_mountpoint_is_dead(fs->mounted);
	if (fs->died)
		shfs_log("the connection to the kernel was cut, but the mount is still "
		         "there");
	shfs_heir_set_device(fs->heir, -1);
	shfs_invented_stop(fs->invented);
	shfs_pruner_free(pruner);
	shfs_transport_stop(fs->transport);
	shfs_beneath_free(fs->beneath);
	shfs_watch_release_all(fs);
	shfs_directories_release_all(fs);
	return 0;
}

static int lock = -1; /* of the mount point; released when it is mounted */

static void let_go_of_lock(void)
{
	shfs_closep(&lock);
	lock = -1;
}

/* Starts the guardian. Returns in the process that serves. -errno. */
static int start_guardian(struct shfs_fs *fs)
{
	int r;

	for (;;) {
		fs->spool = shfs_spool_new();
		r = fs->spool ? shfs_mountpoint_guard(fs) : -ENOMEM;
		if (r <= 0)
			return r;
		/* we are the guardian, and take the place of the dead server */
		lock = -1;
		shfs_daemon_told();
		shfs_spool_free(TAKE_PTR(fs->spool));
		shfs_heir_take(fs->heir);
		free(fs->root);
		fs->root = TAKE_PTR(fs->moved_to);
		fs->since_ns = shfs_clock_ns(CLOCK_REALTIME);
	}
}

/* Has the past shown in the mount, if that can be. Returns the keeper's process; 0. */
static pid_t start_keeper(struct shfs_fs *fs)
{
	_cleanup_free_ char *place = NULL;
	pid_t pid = 0;
	int fd, r;

	/* shfs-browse would keep a mount busy that the store is in */
	if (fs->config.browse == SHFS_BROWSE_OFF || fs->at ||
	    shfs_path_is_below(fs->store->path, fs->root))
		return 0;
	r = shfs_browse_keeper_start(fs->store->path, fs->root, &place, &fd, &pid);
	if (!r)
		r = shfs_invented_new(place, fd, fs->config.browse == SHFS_BROWSE_ON,
		                      &fs->invented);
	if (r)
		shfs_daemon_fail(0, "warning: the past is not shown in .shfs: %s",
		                 r == -ENOTDIR ? "there is no directory of yours for "
		                                 "that outside of the project"
		                               : strerror(-r));
	return MAX(pid, 0);
}

static int mount_or_take(struct shfs_fs *fs, struct fuse_session *session)
{
	_cleanup_buf_ struct shfs_buf message = { 0 };
	char device[24];
	int code;

	if (fs->device >= 0) {
		snprintf(device, sizeof(device), "/dev/fd/%d", fs->device);
		return fuse_session_mount(session, device) ? SHFS_EXIT_FAILURE : 0;
	}
	code = shfs_mountpoint_mount(session, fs->at ?: fs->root, &message);
	let_go_of_lock();
	if (code)
		shfs_daemon_fail(code, "%s",
		                 message.data ? message.data : "out of memory");
	return code;
}

static int run_mount(struct shfs_fs *fs, const struct options *options)
{
	_cleanup_close_ int signals = -1;
	struct fuse_session *session;
	pid_t keeper;
	int code, r;

	shfs_sandbox_drop_resource();
	fs->heir = shfs_heir_new();
	r = fs->heir ? start_guardian(fs) : -ENOMEM;
	if (r)
		return shfs_daemon_fail(SHFS_EXIT_FAILURE, "%s", strerror(-r));
	keeper = start_keeper(fs);
	signals = shfs_daemon_signals();
	code = start_capture(fs, options);
	if (code)
		return code;
	session = new_session(fs, options->allow_other || fs->privileged);
	if (!session)
		return shfs_daemon_fail(SHFS_EXIT_FAILURE, "out of memory");
	code = mount_or_take(fs, session);
	if (code)
		goto out;
	if (fs->device < 0) {
		shfs_mountpoint_is_ours(fs->at ?: fs->root, &fs->mounted);
		shfs_mountpoint_guarded();
	}
	r = shfs_transport_new(fs, session, &shfs_ops_calls,
	                       options->transport ? options->transport
	                                          : fs->config.transport,
	                       &fs->transport);
	if (r)
		code = shfs_daemon_fail(SHFS_EXIT_FAILURE, "%s", strerror(-r));
	if (!code && fs->device >= 0)
		shfs_transport_take(fs->transport);
	if (!code && fs->privileged && fs->config.passthrough && !options->no_passthrough)
		shfs_transport_want_passthrough(fs->transport);
	shfs_log_open(fs->store, "fuse", options->foreground ? STDERR_FILENO : -1);
	if (!code)
		code = serve_mount(fs, signals, fuse_session_fd(session),
		                   options->foreground);
out:
	shfs_lookups_flush(fs);
	shfs_callers_end(fs->callers);
	/* first, as it answers requests for a sync, for which threads wait */
	shfs_capture_close(TAKE_PTR(fs->capture));
	if (fs->transport)
		shfs_transport_join(fs->transport);
	fuse_session_unmount(session); /* the mount is gone; this closes the device */
	fuse_session_destroy(session);
	shfs_transport_free(fs->transport);
	shfs_invented_free(TAKE_PTR(fs->invented));
	shfs_browse_keeper_end(keeper);
	return code;
}

int main(int argc, char **argv)
{
	struct shfs_again again = { 0 };
	struct shfs_fs fs = {
		.root_fd = -1, .proc_fd = -1, .device = -1, .again = &again
	};
	_cleanup_buf_ struct shfs_buf message = { 0 };
	struct options options = { 0 };
	_cleanup_free_ char *config = NULL;
	int code = parse_mount_options(argc, argv, &options, &again);

	if (code)
		return MAX(code, 0);
	close_range(STDERR_FILENO + 1, ~0u, 0);
	umask(0);
	shfs_daemon_hide();
	shfs_daemon_bound_heap();
	fs.privileged = geteuid() == 0;
	fs.since_ns = shfs_clock_ns(CLOCK_REALTIME);
	code = shfs_daemon_open_root(options.dir, O_PATH, options.at ? NULL : "mounted",
	                             &fs.root, &fs.root_fd);
	if (!code && options.at) {
		fs.at = realpath(options.at, NULL);
		if (!fs.at)
			code = shfs_daemon_fail_path(SHFS_EXIT_USAGE, options.at,
			                             strerror(errno));
	}
	if (!code) {
		fs.served = shfs_fd_is_served(fs.root_fd);
		lock = shfs_mountpoint_lock(fs.root_fd);
		code = shfs_mountpoint_check(fs.at ?: fs.root, &message);
		if (code)
			shfs_daemon_fail(code, "%s",
			                 message.data ? message.data : "out of memory");
	}
	if (!code)
		code = raise_limits(options.at);
	if (!code)
		code = shfs_daemon_open_store(options.store, fs.root, &fs.store);
	if (!code)
		code = shfs_daemon_read_config(options.config, &fs.config);
	if (!code)
		code = note_options(&fs, &options, &config);
	if (!code && chdir("/"))
		code = shfs_daemon_fail(SHFS_EXIT_FAILURE, "%s", strerror(errno));
	if (!code && !options.foreground)
		code = shfs_daemon_fork();
	if (!code)
		code = run_mount(&fs, &options);
	let_go_of_lock();
	/* without dismissing the guardian, which tries again, or unmounts */
	if (fs.died || (code && fs.device >= 0))
		_exit(code);
	free_fs(&fs);
	shfs_daemon_tell(code);
	shfs_guardian_dismiss();
	return code;
}
