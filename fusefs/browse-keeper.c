/* SPDX-License-Identifier: MIT */
#include "fusefs/browse-keeper.h"

#include "common/fnv.h"
#include "common/io.h"
#include "common/lock.h"
#include "common/path.h"
#include "fusefs/operations/invented.h"
#include "fusefs/transport/mountpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define PLACE_MS 10000
#define START_MS 10000
#define END_MS   2000 /* after SIGTERM, and again after SIGKILL */
#define NAP_MS   5
#define SAID_MAX 4096

struct keeper {
	pid_t self;
	int server; /* the socket to the process of the mount */
	const char *store, *root, *place;
	char *program; /* NULL: it is missing */
	int lock;      /* of the place; negative: another keeper has it */
	pid_t pid;     /* of shfs-browse, and of its process group; 0: it does not run */
	int pidfd;
	int said; /* its standard error: a memfd */
};

/* --- shfs-browse --- */

static bool is_mounted(const char *place)
{
	dev_t dev;

	return shfs_mountpoint_is_ours(place, &dev);
}

/* Waits for all processes of the group, which are children of ours. False: some are
 * left. */
static bool await_group(pid_t group)
{
	for (int ms = 0; ms < END_MS; ms += NAP_MS) {
		pid_t pid = waitpid(-group, NULL, WNOHANG);

		if (pid < 0)
			return true;
		if (!pid)
			nanosleep(&(struct timespec){ .tv_nsec = NAP_MS * 1000000L },
			          NULL);
	}
	return false;
}

/* Ends shfs-browse and the process beside it, which would unmount by a device number:
 * that may be of another mount by then. */
static void end_browse(struct keeper *k, int signal)
{
	if (!k->pid && k->lock < 0)
		return; /* another keeper may be at the place */
	if (k->pid) {
		kill(k->pid, signal);
		if (signal == SIGKILL || !await_group(k->pid)) {
			kill(-k->pid, SIGKILL);
			await_group(k->pid);
		}
		shfs_closep(&k->pidfd);
		shfs_closep(&k->said);
		k->pidfd = k->said = -1;
		k->pid = 0;
	}
	if (is_mounted(k->place))
		shfs_mountpoint_unmount_lazily(k->place);
	rmdir(k->place);
}

/* In a child. */
static _Noreturn void become_browse(const struct keeper *k)
{
	setpgid(0, 0);
	dup2(k->said, STDERR_FILENO);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() == k->self)
		execl(k->program, "shfs-browse", "--store", k->store, "--root", k->root,
		      "--foreground", "--", k->place, (char *)NULL);
	_exit(127);
}

/* Makes room for what shfs-browse says: for so much, however long it runs. */
static int open_said(void)
{
	_cleanup_close_ int fd =
		memfd_create("shfs-browse", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || ftruncate(fd, SAID_MAX) ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK))
		return -errno;
	return TAKE_FD(fd);
}

static int run_browse(struct keeper *k)
{
	/* the runtime directory may be another one since a logout */
	int r = shfs_mkdir_p_at(AT_FDCWD, k->place, 0700);

	if (r)
		return r;
	k->said = open_said();
	if (k->said < 0)
		return k->said;
	k->pid = fork();
	if (!k->pid)
		become_browse(k);
	if (k->pid < 0) {
		k->pid = 0;
		return -errno;
	}
	setpgid(k->pid, k->pid); /* whichever of both comes first */
	k->pidfd = pidfd_open(k->pid, 0);
	return k->pidfd < 0 ? -errno : 0;
}

/* Waits until it is mounted: requests wait in the kernel until it serves. False: it has
 * ended, or takes too long. */
static bool await_mount(struct keeper *k)
{
	_cleanup_close_ int table = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
	struct pollfd fds[] = { { .fd = table, .events = POLLPRI },
		                { .fd = k->pidfd, .events = POLLIN },
		                { .fd = k->server } /* for its end */ };

	while (!is_mounted(k->place)) {
		if (poll(fds, ARRAY_SIZE(fds), START_MS) <= 0 || fds[1].revents ||
		    fds[2].revents)
			return false;
	}
	return true;
}

/* --- the process of the mount --- */

static void tell(const struct keeper *k, char what, const char *why)
{
	char answer[SHFS_KEEPER_SAID];
	int n = snprintf(answer, sizeof(answer), "%c%s", what, why);

	(void)!send(k->server, answer, MIN((size_t)n, sizeof(answer) - 1), MSG_NOSIGNAL);
}

static void tell_failure(const struct keeper *k, int error)
{
	static const char prefix[] = "shfs: ";
	char said[SHFS_KEEPER_SAID] = "";

	if (k->said >= 0)
		(void)!pread(k->said, said, sizeof(said) - 1, 0);
	said[strcspn(said, "\n")] = '\0';
	if (!strncmp(said, prefix, strlen(prefix)))
		memmove(said, said + strlen(prefix), strlen(said + strlen(prefix)) + 1);
	tell(k, SHFS_KEEPER_DOWN,
	     *said   ? said
	     : error ? strerror(-error)
	             : "shfs-browse does not start");
}

/* Waits for an earlier keeper, whose server has died, to leave the place. */
static void take_place(struct keeper *k)
{
	char name[80];
	struct stat st;

	if (k->lock >= 0 || stat("/proc/self/ns/mnt", &st))
		return;
	snprintf(name, sizeof(name), "browse-%s-%ju", strrchr(k->place, '/') + 1,
	         (uintmax_t)st.st_ino);
	k->lock = shfs_lock_take(name, PLACE_MS);
}

static void wake(struct keeper *k)
{
	int r;

	if (k->pid) {
		tell(k, SHFS_KEEPER_UP, "");
		return;
	}
	if (!k->program) {
		tell(k, SHFS_KEEPER_DOWN, "shfs-browse is not installed");
		return;
	}
	take_place(k);
	/* what an earlier keeper left, if it was killed */
	if (is_mounted(k->place))
		shfs_mountpoint_unmount_lazily(k->place);
	r = run_browse(k);
	if (!r && await_mount(k)) {
		tell(k, SHFS_KEEPER_UP, "");
		return;
	}
	tell_failure(k, r);
	end_browse(k, SIGKILL);
}

static _Noreturn void keep(struct keeper *k)
{
	char what;

	for (;;) {
		struct pollfd fds[] = { { .fd = k->server, .events = POLLIN },
			                { .fd = k->pidfd, .events = POLLIN } };

		if (poll(fds, ARRAY_SIZE(fds), -1) < 0)
			continue;
		if (fds[1].revents) {
			end_browse(k, SIGKILL);
			tell(k, SHFS_KEEPER_ENDED, "");
		} else if (recv(k->server, &what, 1, 0) != 1) {
			break;
		} else if (what == SHFS_KEEPER_WAKE) {
			wake(k);
		}
	}
	end_browse(k, SIGTERM);
	_exit(0);
}

/* --- the start --- */

/* In the child: keeps nothing open but the socket: no terminal, no mount. */
static void close_others(struct keeper *k)
{
	int null = open("/dev/null", O_RDWR);

	for (int fd = 0; fd <= STDERR_FILENO && null >= 0; fd++)
		dup2(null, fd);
	if (k->server != STDERR_FILENO + 1)
		k->server = dup3(k->server, STDERR_FILENO + 1, O_CLOEXEC);
	close_range(STDERR_FILENO + 2, ~0u, 0);
}

/* The directory of the user for such mounts below this one (taken), which is made; NULL:
 * it cannot be used. */
static char *prepare_directory(char *base, const char *root)
{
	_cleanup_free_ char *owned = base;
	_cleanup_free_ char *dir = base ? shfs_path_join(base, "browse") : NULL,
			    *real = NULL;
	struct stat st;

	if (!dir || shfs_path_is_below(dir, root) || shfs_mkdir_p_at(AT_FDCWD, dir, 0700))
		return NULL;
	real = realpath(dir, NULL);
	if (!real || shfs_path_is_below(real, root) || stat(real, &st) ||
	    st.st_uid != geteuid() || st.st_mode & 022)
		return NULL;
	return TAKE_PTR(real);
}

static char *choose_place(const char *root)
{
	_cleanup_free_ char *dir = prepare_directory(shfs_path_runtime(), root);
	char name[20];

	if (!dir)
		dir = prepare_directory(shfs_path_cache(), root);
	snprintf(name, sizeof(name), "%016" PRIx64,
	         shfs_fnv(SHFS_FNV_BEGIN, root, strlen(root)));
	return dir ? shfs_path_join(dir, name) : NULL;
}

int shfs_browse_keeper_start(const char *store, const char *root, char **place, int *fd,
                             pid_t *pid)
{
	_cleanup_free_ char *chosen = choose_place(root);
	int fds[2];

	if (!chosen)
		return -ENOTDIR;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds))
		return -errno;
	*pid = fork();
	if (!*pid) {
		struct keeper keeper = {
			.server = fds[1],
			.store = store,
			.root = root,
			.place = chosen,
			.program = shfs_path_installed("libexec", "shfs-browse"),
			.lock = -1,
			.pidfd = -1,
			.said = -1,
		};

		setsid(); /* ^C at a mount in the foreground must not reach it */
		signal(SIGHUP, SIG_IGN);
		signal(SIGPIPE, SIG_IGN);
		close_others(&keeper);
		keeper.self = getpid();
		prctl(PR_SET_NAME, "shfs-keeper");
		prctl(PR_SET_CHILD_SUBREAPER, 1);
		keep(&keeper);
	}
	close(fds[1]);
	if (*pid < 0) {
		close(fds[0]);
		return -errno;
	}
	*fd = fds[0];
	*place = TAKE_PTR(chosen);
	return 0;
}

void shfs_browse_keeper_end(pid_t pid)
{
	while (pid && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}
