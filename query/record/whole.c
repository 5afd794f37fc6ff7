/* SPDX-License-Identifier: MIT */
/*
 * Three processes besides the caller, and the mount's server:
 *
 *   the keeper    enters the namespaces, starts the server, which mounts at a directory
 *                 of the store, and waits until it has ended
 *   the entrant   its child: makes another mount namespace, in which that mount becomes
 *                 the root, and runs the command there, recorded as typed
 *   the command   its child
 *
 * The server stays in the keeper's namespace, where nothing is mounted over what it
 * serves: the keeper removes the mount there once the entrant has it. So the mount ends
 * with the last process that sees it, and the server with the mount.
 */
#include "query/record/whole.h"

#include "common/io.h"
#include "common/path.h"
#include "common/recorders.h"
#include "query/base/child.h"
#include "query/base/cmd.h"
#include "query/base/foreground.h"
#include "query/base/model.h"
#include "query/base/mounts.h"
#include "query/base/namespace.h"
#include "query/rerun/as-typed.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define DIRECTORY "record" /* of the store: where the mounts begin */

/* What the entrant says when it ends the wait of the keeper, and of the caller. */
enum said { ENTERED = 'e', LEFT_SOME = 'l', LEFT_NONE = 'n' };

/* --- the mount --- */

static int fail_mount(const char *what, const char *path)
{
	_cleanup_buf_ struct shfs_buf shown = { 0 };
	int error = errno;

	shfs_show_directory(&shown, path);
	shfs_error("cannot %s %s: %s", what, shown.data, strerror(error));
	return SHFS_EXIT_UNAVAILABLE;
}

/* Starts the server, which mounts all of the tree at a directory. */
static int serve_tree(const struct shfs_whole *whole, const char *at)
{
	_cleanup_free_ char *path = shfs_path_installed("libexec", "shfs-fuse");
	const char **argv = calloc(whole->n_projects + 16, sizeof(*argv));
	size_t n = 0;
	pid_t pid;

	if (!path || !argv) {
		free(argv);
		shfs_error("shfs-fuse is missing; install shfs as a whole");
		return SHFS_EXIT_UNAVAILABLE;
	}
	argv[n++] = "shfs-fuse";
	argv[n++] = "--store";
	argv[n++] = whole->store;
	if (whole->config) {
		argv[n++] = "--config";
		argv[n++] = whole->config;
	}
	argv[n++] = "--transport";
	argv[n++] = "dev";
	argv[n++] = "--no-passthrough";
	if (whole->bundle)
		argv[n++] = "--bundle";
	argv[n++] = "--at";
	argv[n++] = at;
	argv[n++] = "--";
	argv[n++] = "/";
	for (size_t i = 0; i < whole->n_projects; i++)
		argv[n++] = whole->projects[i];
	pid = shfs_child_start(path, argv, SHFS_CHILD_MESSAGES);
	free(argv);
	return pid < 0 ? SHFS_EXIT_FAILURE : shfs_child_wait(pid);
}

/* Says errno that the caller, too, cannot use the file? */
static bool is_unusable(void)
{
	return errno == ENOENT || errno == ENOTDIR || errno == EACCES || errno == ELOOP ||
	       errno == ENAMETOOLONG || errno == ENOTCONN; /* a mount without a server */
}

/* Shows a part of the tree as it is. */
static int leave_as_it_is(const char *root, const char *path)
{
	_cleanup_free_ char *to = shfs_path_join(root, path + 1);

	if (!to) {
		shfs_no_memory();
		return SHFS_EXIT_FAILURE;
	}
	if (!mount(path, to, NULL, MS_BIND | MS_REC, NULL) || is_unusable())
		return 0;
	return fail_mount("show", path);
}

static int leave_all_as_they_are(const struct shfs_whole *whole, const char *root)
{
	/* sockets of the session are of no use but as they are */
	static const char *const parts[] = { "/proc", "/sys", "/dev", "/run",
		                             "/tmp/.X11-unix" };
	const char *agent = getenv("SSH_AUTH_SOCK");
	struct stat st;
	int code = 0;

	if (agent && *agent == '/' && !stat(agent, &st) && S_ISSOCK(st.st_mode) &&
	    !shfs_path_is_below(agent, "/run"))
		code = leave_as_it_is(root, agent);
	for (size_t i = 0; i < ARRAY_SIZE(parts) && !code; i++)
		code = leave_as_it_is(root, parts[i]);
	for (size_t i = 0; i < whole->n_mounted && !code; i++)
		code = leave_as_it_is(root, whole->mounted[i]);
	return code ? code : leave_as_it_is(root, whole->store);
}

/* Makes the directory at which the mount is the root of this process. A working directory
 * that was removed, or that the caller may not enter, stays that of the tree outside. */
static int enter_root(const char *at, const char *cwd)
{
	/* the old root comes to lie over the new one (pivot_root(2), NOTES) */
	if (syscall(SYS_pivot_root, at, at) || umount2("/", MNT_DETACH))
		return fail_mount("enter", at);
	if (!cwd || chdir(cwd))
		shfs_warn("cannot enter the working directory: files that are named "
		          "relative to it are not recorded");
	return 0;
}

/* --- the command --- */

/*
 * The caller's standard streams that are files: "shfs record sort < in > out". The
 * command uses them as they are: other processes may share them, and with them the place
 * that the next write goes to. But they are of the tree outside, where nothing is
 * recorded. So the command's process opens the same files in the tree that is recorded,
 * and uses them there: it reads what it is given to read, and makes a hole far behind the
 * end of what it is given to write, which changes nothing. What is written to is captured
 * when it is closed, which must come last: until then it waits in a socket.
 */
struct streams {
	char *path[STDERR_FILENO + 1]; /* absolute; NULL: no file that has a name */
	ino_t ino[STDERR_FILENO + 1];
	int socket[2]; /* either end keeps what is sent to the other; -1: there is none */
};

#define FAR_BEHIND ((off_t)1 << 40) /* file systems end at 2 TiB and above */

/* Finds the streams' names: outside, where they are told apart by device numbers. */
static void find_streams(struct streams *streams)
{
	for (int fd = 0; fd <= STDERR_FILENO; fd++) {
		struct stat st, named;
		char name[32];

		snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
		if (fstat(fd, &st) || !S_ISREG(st.st_mode))
			continue;
		streams->path[fd] = realpath(name, NULL);
		if (!streams->path[fd] || lstat(streams->path[fd], &named) ||
		    named.st_dev != st.st_dev || named.st_ino != st.st_ino)
			free(TAKE_PTR(streams->path[fd]));
		streams->ino[fd] = st.st_ino;
	}
}

/* A descriptor on its way (cmsg(3)). */
union passed {
	struct cmsghdr head;
	char room[CMSG_SPACE(sizeof(int))];
};

static void keep_open(int socket, int fd)
{
	union passed passed = { 0 };
	struct iovec iov = { (char[1]){ 0 }, 1 };
	struct msghdr message = { .msg_iov = &iov,
		                  .msg_iovlen = 1,
		                  .msg_control = &passed,
		                  .msg_controllen = sizeof(passed) };

	passed.head.cmsg_level = SOL_SOCKET;
	passed.head.cmsg_type = SCM_RIGHTS;
	passed.head.cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(&passed.head), &fd, sizeof(fd));
	(void)!sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Uses the file of a stream in the tree that is recorded. */
static void use_stream(const struct streams *streams, int number)
{
	const char *path = streams->path[number];
	int mode = path ? fcntl(number, F_GETFL) & O_ACCMODE : 0;
	_cleanup_close_ int fd = path ? open(path, mode | O_NONBLOCK | O_CLOEXEC) : -1;
	struct stat st, before;

	if (fd < 0 || fstat(fd, &st) || st.st_ino != streams->ino[number] ||
	    fstat(number, &before) || st.st_dev == before.st_dev)
		return; /* of the same device: what stays as it is */
	if (mode != O_WRONLY)
		(void)!pread(fd, &(char){ 0 }, 1, 0);
	if (mode == O_RDONLY || before.st_size >= FAR_BEHIND / 2)
		return;
	if (!fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, FAR_BEHIND, 1))
		futimens(number, (struct timespec[2]){ { .tv_nsec = UTIME_OMIT },
		                                       before.st_mtim });
	keep_open(streams->socket[1], fd);
}

/* Is it the file of the stream before, as that of "> out 2>&1"? */
static bool is_same_stream(const struct streams *streams, int number)
{
	return number && streams->path[number] && streams->path[number - 1] &&
	       !strcmp(streams->path[number], streams->path[number - 1]) &&
	       fcntl(number, F_GETFL) == fcntl(number - 1, F_GETFL);
}

static void prepare_command(void *arg)
{
	const struct streams *streams = arg;

	for (int number = 0; number <= STDERR_FILENO; number++)
		if (!is_same_stream(streams, number))
			use_stream(streams, number);
	shfs_namespace_drop_privileges();
}

/* The command has ended: what it has written to is captured. */
static void close_streams(struct streams *streams)
{
	shfs_closep(&streams->socket[0]);
	shfs_closep(&streams->socket[1]);
}

/* Records the command as typed, as far as that can be. */
static void open_log(const struct shfs_whole *whole, struct shfs_hook_log *log)
{
	int r;

	log->redactor = whole->redactor;
	r = shfs_hook_log_open(log, whole->store, "run");
	if (r)
		shfs_warn("the command is not in history: %s", strerror(-r));
}

static void say(int fd, enum said what)
{
	(void)!write(fd, &(char){ (char)what }, 1);
}

static void be_entrant(const struct shfs_whole *whole,
                       const struct shfs_foreground *keeper, const char *at, int tell)
{
	_cleanup_free_ char *cwd = getcwd(NULL, 0);
	struct shfs_hook_log log = { .fd = -1 };
	struct streams streams = { .socket = { -1, -1 } };
	int status, code;
	pid_t left;

	shfs_foreground_leave(keeper);
	if (unshare(CLONE_NEWNS))
		_exit(shfs_namespace_fail(-errno));
	code = leave_all_as_they_are(whole, at);
	find_streams(&streams);
	if (!code)
		code = enter_root(at, cwd);
	if (code)
		_exit(code);
	say(tell, ENTERED);
	(void)!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, streams.socket);
	open_log(whole, &log);
	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	status = shfs_run_as_typed(&log, whole->argv, prepare_command, &streams);
	close_streams(&streams);
	shfs_mounts_sync(whole->store, true);
	do
		left = waitpid(-1, NULL, WNOHANG);
	while (left > 0);
	say(tell, left ? LEFT_NONE : LEFT_SOME);
	_exit(shfs_foreground_end(status));
}

/* --- the keeper --- */

/* Makes a directory for the mount, allocated. */
static char *make_place(const struct shfs_whole *whole)
{
	_cleanup_free_ char *dir = shfs_path_join(whole->store, DIRECTORY);
	char *place = NULL;

	if (!dir || asprintf(&place, "%s/XXXXXX", dir) < 0) {
		shfs_no_memory();
		return NULL;
	}
	if (!shfs_mkdir_p_at(AT_FDCWD, dir, 0700) && mkdtemp(place))
		return place;
	fail_mount("make", dir);
	free(place);
	return NULL;
}

static char heard(int fd)
{
	char byte = 0;

	while (read(fd, &byte, 1) < 0 && errno == EINTR)
		;
	return byte;
}

/* Ends with the server, unless what the command has left goes on. */
static void await_server(char left)
{
	while (left != LEFT_SOME && (waitpid(-1, NULL, 0) > 0 || errno == EINTR))
		;
}

/* Ends the mount, but for the processes that have it as their root. */
static void leave_mount(const char *at)
{
	umount2(at, MNT_DETACH);
	rmdir(at);
}

/* Passes on what has come while there was no process to pass it to. */
static void pass_early(const sigset_t *early, pid_t pid)
{
	for (int signal = 1; signal < SIGRTMIN; signal++)
		if (sigismember(early, signal) == 1)
			kill(pid, signal);
}

/* Starts the entrant, as a command in the foreground. -1, after a message. */
static pid_t start_entrant(const struct shfs_whole *whole,
                           const struct shfs_foreground *caller,
                           struct shfs_foreground *foreground, const char *at, int began,
                           int *tells)
{
	sigset_t early;
	int ends[2];
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC)) {
		shfs_error("cannot make a pipe: %s", strerror(errno));
		return -1;
	}
	fflush(NULL);
	sigpending(&early);
	shfs_foreground_enter(foreground);
	*foreground = *caller; /* which is what the command is to have */
	pid = fork();
	if (!pid) {
		close(began);
		close(ends[0]);
		be_entrant(whole, foreground, at, ends[1]);
	}
	close(ends[1]);
	*tells = ends[0];
	if (pid < 0)
		shfs_error("cannot start a process: %s", strerror(errno));
	else
		pass_early(&early, pid);
	return pid;
}

static int fail_namespace(int r)
{
	int code = shfs_namespace_fail(r);

	if (shfs_recorders_have_helper())
		shfs_hint(
			"a helper runs here: shfs record --by helper needs no namespace");
	return code;
}

static void be_keeper(const void *arg, const struct shfs_foreground *caller, int began)
{
	const struct shfs_whole *whole = arg;
	_cleanup_free_ char *at = NULL;
	struct shfs_foreground foreground;
	int tells, status = 0, r, code;
	bool entered;
	pid_t pid;

	/* a signal that ended the keeper now would leave the mount behind */
	shfs_foreground_hold(caller);
	r = shfs_namespace_enter(0);
	if (r)
		_exit(fail_namespace(r));
	at = make_place(whole);
	if (!at)
		_exit(SHFS_EXIT_UNAVAILABLE);
	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); /* of the server */
	shfs_namespace_pass_mounting(true);
	code = serve_tree(whole, at);
	pid = code ? -1 : start_entrant(whole, caller, &foreground, at, began, &tells);
	if (pid < 0) {
		leave_mount(at);
		_exit(code ? code : SHFS_EXIT_FAILURE);
	}
	signal(SIGPIPE, SIG_IGN); /* the caller may be gone */
	entered = heard(tells) == ENTERED;
	leave_mount(at);
	if (entered)
		say(began, ENTERED);
	close(began);
	shfs_foreground_wait(&foreground, pid, &status, NULL);
	await_server(entered ? heard(tells) : LEFT_NONE);
	_exit(shfs_foreground_end(status));
}

int shfs_whole_run(const struct shfs_whole *whole, int *status)
{
	return shfs_foreground_keep(be_keeper, whole, status);
}
