/* SPDX-License-Identifier: MIT */
/* shfs-browse: mounts the past of a project, to be read, and serves it until it is
 * unmounted. */
#include "browse/notices.h"
#include "browse/operations.h"

#include "common/clock.h"
#include "common/io.h"
#include "common/path.h"
#include "fusefs/transport/mountpoint.h"
#include "query/base/context.h"
#include "query/care/detach.h"
#include "recording/daemon.h"
#include "recording/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <locale.h>
#include <malloc.h>
#include <poll.h>
#include <string.h>
#include <sys/inotify.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

#define QUIET_MS 10000 /* then nothing is kept in memory */

struct options {
	const char *store, *root, *mountpoint;
	bool foreground;
};

static const char usage[] =
	"usage: shfs-browse --store DIR --root PATH [--foreground] MOUNTPOINT\n";

static int parse_options(int argc, char **argv, struct options *out)
{
	static const struct option longs[] = {
		{ "store", required_argument, NULL, 's' },
		{ "root", required_argument, NULL, 'r' },
		{ "foreground", no_argument, NULL, 'f' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	int c = shfs_daemon_choose_debug();

	if (c)
		return c;
	while ((c = getopt_long(argc, argv, "", longs, NULL)) >= 0) {
		if (c == 's')
			out->store = optarg;
		else if (c == 'r')
			out->root = optarg;
		else if (c == 'f')
			out->foreground = true;
		else
			return shfs_daemon_show_usage(usage, c == 'h');
	}
	if (optind + 1 != argc || !out->root)
		return shfs_daemon_show_usage(usage, false);
	out->mountpoint = argv[optind];
	return 0;
}

/* --- the parts --- */

static struct shfs_browse browse = { .refresher = { .ask = -1, .answer = -1 } };

/* Opens the index as a reader: the other process writes. It is made if nothing asked it
 * before, also since an upgrade. */
static int open_index(void)
{
	_cleanup_index_ struct shfs_index *made = NULL;
	int r = shfs_index_open(browse.store, SHFS_INDEX_READ, &browse.index);

	if (r != -ENOENT && r != -ESTALE)
		return r;
	r = shfs_index_open(browse.store, SHFS_INDEX_WRITE, &made);
	return r ? r : shfs_index_open(browse.store, SHFS_INDEX_READ, &browse.index);
}

static int open_store(const struct options *options)
{
	_cleanup_free_ char *path = shfs_path_store(options->store);
	int r = path ? shfs_store_open(path, 0, &browse.store) : -ENOMEM;

	if (r)
		return shfs_daemon_fail_path(SHFS_EXIT_NO_STORE, path ?: "",
		                             shfs_store_strerror(r));
	r = open_index();
	if (!r)
		r = shfs_index_look(browse.index, &browse.state);
	if (r)
		return shfs_daemon_fail(SHFS_EXIT_FAILURE, "cannot use the index: %s",
		                        strerror(-r));
	browse.contents.store = browse.store;
	browse.root = shfs_path_absolute(options->root);
	if (!browse.root || shfs_nodes_init(&browse.nodes))
		return shfs_daemon_fail(SHFS_EXIT_FAILURE, "out of memory");
	if (strchr(options->root, ':') && *options->root != '/') {
		free(browse.root); /* in another tree */
		browse.root = strdup(options->root);
	}
	browse.uid = geteuid();
	browse.gid = getegid();
	browse.since_ns = shfs_clock_ns(CLOCK_REALTIME);
	return 0;
}

static struct shfs_notices *notices;

static void drop_what_the_kernel_keeps(void)
{
	(void)!shfs_notices_add(notices, &browse.nodes);
}

static void free_browse(void)
{
	shfs_operations_end();
	shfs_at_drop(&browse);
	shfs_commands_drop(&browse);
	if (browse.store)
		shfs_contents_drop(&browse.contents);
	shfs_nodes_free(&browse.nodes);
	shfs_index_close(browse.index);
	shfs_store_close(browse.store);
	free(browse.root);
}

static struct fuse_session *new_session(void)
{
	struct fuse_args args = FUSE_ARGS_INIT(0, NULL);
	struct fuse_session *session = NULL;
	char source[SHFS_STORE_SOURCE_MAX], options[128];

	if (shfs_store_source(browse.store->dirfd, "", source))
		return NULL;
	snprintf(options, sizeof(options),
	         "-oro,nosuid,nodev,fsname=%s,subtype=" SHFS_BROWSE_SUBTYPE, source);
	if (!fuse_opt_add_arg(&args, "shfs-browse") && !fuse_opt_add_arg(&args, options))
		session = fuse_session_new(&args, &shfs_browse_operations,
		                           sizeof(shfs_browse_operations), &browse);
	fuse_opt_free_args(&args);
	return session;
}

/* --- serving --- */

static void drop_all_kept(void)
{
	shfs_at_drop(&browse);
	shfs_commands_drop(&browse);
	shfs_contents_drop(&browse.contents);
	malloc_trim(0);
}

/* Watches for what may be a removal of records or contents: an index that was closed
 * behind a writer, a pack that was removed. Without it, the next request finds out. */
static int watch_store(void)
{
	_cleanup_free_ char *packs = shfs_path_join(browse.store->path, "objects/packs");
	int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);

	if (fd < 0 || !packs)
		return fd;
	if (browse.store->index_path)
		inotify_add_watch(fd, browse.store->index_path, IN_CLOSE_WRITE);
	inotify_add_watch(fd, packs, IN_DELETE | IN_ONLYDIR);
	return fd;
}

static void take_removals(int watch)
{
	char events[4096];

	while (read(watch, events, sizeof(events)) > 0)
		;
	shfs_contents_drop(&browse.contents);
	(void)!shfs_browse_look(&browse);
}

/* Serves until it is unmounted, or a signal comes: then true. */
static bool serve(struct fuse_session *session, int signals)
{
	_cleanup_close_ int watch = watch_store();
	struct pollfd fds[3] = { { .fd = fuse_session_fd(session), .events = POLLIN },
		                 { .fd = signals, .events = POLLIN },
		                 { .fd = watch, .events = POLLIN } };
	struct fuse_buf request = { 0 };
	bool quiet = true;
	int r = 0;

	while (!fuse_session_exited(session)) {
		int n = poll(fds, ARRAY_SIZE(fds), quiet ? -1 : QUIET_MS);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 || fds[1].revents)
			break;
		if (!n) {
			drop_all_kept();
			quiet = true;
		}
		if (fds[2].revents)
			take_removals(watch);
		if (!fds[0].revents)
			continue;
		r = fuse_session_receive_buf(session, &request);
		if (r == -EINTR || r == -EAGAIN)
			continue;
		if (r <= 0)
			break;
		fuse_session_process_buf(session, &request);
		quiet = false;
	}
	free(request.mem);
	return fds[1].revents;
}

/* Enters the filters: nothing can be written to but the device, the questions and
 * standard error. The parent is told in between, while that can be. */
static int enter_sandbox(int device)
{
	int writable[] = { STDERR_FILENO, device, browse.refresher.ask };
	int r = shfs_sandbox_enter(0);

#ifdef __SANITIZE_ADDRESS__ /* it could not open a file for its report */
	__sanitizer_set_report_fd((void *)(uintptr_t)STDERR_FILENO);
#endif
	if (r)
		return r;
	shfs_daemon_tell(SHFS_EXIT_OK);
	return shfs_sandbox_forbid_changes(writable, browse.refresher.ask < 0 ? 2 : 3);
}

/* The refresher, a process beside this one, closes and unmounts these. */
struct beside {
	const char *mountpoint;
	dev_t device; /* of the mount */
	int closes[2];
};

static void leave_this_process(void *closure)
{
	struct beside *b = closure;
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (size_t i = 0; i < ARRAY_SIZE(b->closes); i++)
		close(b->closes[i]);
	for (int fd = 0; fd <= STDERR_FILENO && null >= 0; fd++)
		dup2(null, fd);
	shfs_daemon_told();
}

static void unmount_what_is_left(void *closure)
{
	struct beside *b = closure;
	_cleanup_free_ char *where = shfs_mountpoint_of(b->device);
	_cleanup_buf_ struct shfs_buf said = { 0 };

	if (where && !strcmp(where, b->mountpoint))
		(void)!shfs_detach(where, true, &said);
}

static int run(struct fuse_session *session, const char *mountpoint, int signals,
               bool foreground)
{
	int device = fuse_session_fd(session), r = 0;
	struct beside beside = { mountpoint, 0, { device, signals } };
	struct shfs_refresher_duties duties = { leave_this_process, unmount_what_is_left,
		                                &beside };

	if (shfs_mountpoint_is_ours(mountpoint, &beside.device))
		r = shfs_refresher_start(&browse.refresher, browse.store->path, &duties);
	if (!r)
		r = shfs_notices_start(session, &notices);
	browse.on_rebuilt = drop_what_the_kernel_keeps;
	if (!r && !foreground)
		shfs_daemon_leave_terminal();
	if (!r)
		r = enter_sandbox(device);
	if (r)
		return shfs_daemon_fail(SHFS_EXIT_FAILURE, "cannot serve: %s",
		                        strerror(-r));
	/* the other process unmounts what this one leaves */
	if (serve(session, signals))
		_exit(SHFS_EXIT_OK);
	shfs_notices_end(notices);
	return SHFS_EXIT_OK;
}

static int mount_and_run(const char *mountpoint, bool foreground)
{
	_cleanup_buf_ struct shfs_buf message = { 0 };
	/* before it is mounted, which nothing would undo after a signal */
	_cleanup_close_ int signals = shfs_daemon_signals();
	struct fuse_session *session = signals < 0 ? NULL : new_session();
	int code;

	if (!session)
		return shfs_daemon_fail(SHFS_EXIT_FAILURE, "out of memory");
	code = shfs_mountpoint_mount(session, mountpoint, &message);
	if (code) {
		shfs_daemon_fail(code, "%s", message.data ?: "out of memory");
	} else {
		code = run(session, mountpoint, signals, foreground);
		fuse_session_unmount(session); /* it is gone: this closes the device */
	}
	fuse_session_destroy(session);
	return code;
}

int main(int argc, char **argv)
{
	_cleanup_buf_ struct shfs_buf message = { 0 };
	_cleanup_free_ char *mountpoint = NULL;
	_cleanup_close_ int fd = -1, lock = -1;
	struct options options = { 0 };
	struct shfs_context context;
	int code = parse_options(argc, argv, &options);

	if (code)
		return MAX(code, 0);
	close_range(STDERR_FILENO + 1, ~0u, 0);
	setlocale(LC_ALL, "");
	shfs_daemon_hide();
	shfs_daemon_bound_heap();
	tzset();
	shfs_context_begin(&context);
	context.store_option = options.store;
	code = shfs_daemon_open_root(options.mountpoint, O_PATH, "mounted", &mountpoint,
	                             &fd);
	if (!code) {
		lock = shfs_mountpoint_lock(fd);
		code = shfs_mountpoint_check(mountpoint, &message);
		if (code)
			shfs_daemon_fail(code, "%s", message.data ?: "out of memory");
	}
	shfs_closep(&fd);
	fd = -1;
	if (!code && !options.foreground)
		code = shfs_daemon_fork();
	/* in the process that stays: SQLite's locks are those of one process */
	if (!code)
		code = open_store(&options);
	if (!code && chdir("/"))
		code = shfs_daemon_fail(SHFS_EXIT_FAILURE, "%s", strerror(errno));
	if (!code)
		code = mount_and_run(mountpoint, options.foreground);
	shfs_daemon_tell(code);
	free_browse();
	shfs_context_clear(&context);
	return code;
}
