/* SPDX-License-Identifier: MIT */
/*
 * Three processes besides the caller:
 *
 *   the keeper    enters the namespaces, mounts, and unmounts at the end
 *   the reaper    its child: parent of all that the command leaves behind
 *   the command   its child: `shfs run`, which records it as typed; or a shell
 *
 * The mount's server is a child of the keeper, so the reaper does not end it.
 */
#include "query/try/inside.h"

#include "common/io.h"
#include "common/path.h"
#include "query/base/child.h"
#include "query/base/cmd.h"
#include "query/base/foreground.h"
#include "query/base/model.h"
#include "query/base/namespace.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define END_MS 2000    /* what the command leaves has so long after SIGTERM */
#define CACHE  "cache" /* the part of a layer that covers caches */

/* A program may want to talk to itself. */
static void raise_loopback(void)
{
	_cleanup_close_ int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq lo = { .ifr_name = "lo", .ifr_flags = IFF_UP };

	if (fd >= 0)
		ioctl(fd, SIOCSIFFLAGS, &lo);
}

/* --- the mounts --- */

static int set_writable(const char *path, bool writable, bool all)
{
	struct mount_attr attr = { 0 };

	*(writable ? &attr.attr_clr : &attr.attr_set) = MOUNT_ATTR_RDONLY;
	return mount_setattr(AT_FDCWD, path, all ? AT_RECURSIVE : 0, &attr, sizeof(attr))
	               ? -errno
	               : 0;
}

/* Opens it by its path: the layer's descriptor is of the mount outside. */
static int open_part(const struct shfs_layer *layer, const char *name, const char *part)
{
	_cleanup_buf_ struct shfs_buf path = { 0 };
	int r, fd;

	shfs_buf_printf(&path, "%s/%s/%s", layer->path, name, part);
	if (path.failed)
		return -ENOMEM;
	r = shfs_mkdir_p_at(AT_FDCWD, path.data, 0700);
	if (r)
		return r;
	fd = open(path.data, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* Covers a directory by an overlay, whose upper layer is name/upper. It is given by
 * descriptors: a path may hold what the options of a mount end at. */
static int cover(const struct shfs_layer *layer, const char *dir, const char *name)
{
	_cleanup_close_ int lower = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	_cleanup_close_ int upper = -1, work = -1;
	char options[160];
	struct stat st;

	if (lower < 0 || fstat(lower, &st))
		return -errno;
	upper = open_part(layer, name, "upper");
	work = open_part(layer, name, "work");
	if (upper < 0 || work < 0)
		return upper < 0 ? upper : work;
	/* the directory that is seen has the attributes of the upper one */
	snprintf(options, sizeof(options), "/proc/self/fd/%d", upper);
	if (chmod(options, st.st_mode & 07777))
		return -errno;
	snprintf(options, sizeof(options),
	         "userxattr,lowerdir=/proc/self/fd/%d,upperdir=/proc/self/fd/%d,"
	         "workdir=/proc/self/fd/%d",
	         lower, upper, work);
	return mount("shfs-try", dir, "overlay", MS_NOSUID | MS_NODEV, options) ? -errno
	                                                                        : 0;
}

/* Covers a directory by an empty one of the layer, where an overlay cannot: something is
 * mounted inside it. Programs fill a cache again, and nobody need know. */
static int cover_empty(const struct shfs_layer *layer, const char *dir, const char *name)
{
	_cleanup_close_ int upper = open_part(layer, name, "upper");
	_cleanup_buf_ struct shfs_buf shown = { 0 };
	char proc[40];

	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", upper);
	if (upper < 0 || mount(proc, dir, NULL, MS_BIND, NULL))
		return upper < 0 ? upper : -errno;
	if (!strcmp(name, CACHE))
		return 0;
	shfs_show_directory(&shown, dir);
	shfs_warn("%s is empty there: something is mounted inside it", shown.data);
	return 0;
}

/* Shows a directory of the layer at its own path, so that it can be writable. */
static int show_own(const struct shfs_layer *layer, const char *name, const char *part)
{
	_cleanup_close_ int own = open_part(layer, name, part);
	char proc[40], path[PATH_MAX];
	ssize_t len;

	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", own);
	len = own < 0 ? -1 : readlink(proc, path, sizeof(path) - 1);
	if (len < 0)
		return own < 0 ? own : -errno;
	path[len] = '\0';
	return mount(proc, path, NULL, MS_BIND, NULL) ? -errno : 0;
}

static int fail_mount(const char *dir, int r)
{
	_cleanup_buf_ struct shfs_buf shown = { 0 };

	shfs_show_directory(&shown, dir);
	shfs_error("cannot cover %s by a layer: %s", shown.data, strerror(-r));
	if (r == -EINVAL)
		shfs_hint(
			"nothing may be mounted inside it, and the store must be local");
	return SHFS_EXIT_UNAVAILABLE;
}

/* Directories that programs write to wherever they work. */
struct usual {
	const char *name;
	char *dir; /* NULL: there is none */
	bool covered;
};

/* One that holds the layer cannot be covered by it. */
static bool can_cover(const struct shfs_layer *layer, const char *dir)
{
	return dir && !access(dir, F_OK) && !shfs_path_is_below(layer->path, dir) &&
	       !shfs_path_is_below(dir, layer->project);
}

static int cover_usual(const struct shfs_layer *layer, struct usual *usual, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		int r;

		if (!can_cover(layer, usual[i].dir))
			continue;
		r = cover(layer, usual[i].dir, usual[i].name);
		if (r == -EINVAL)
			r = cover_empty(layer, usual[i].dir, usual[i].name);
		if (r)
			return fail_mount(usual[i].dir, r);
		usual[i].covered = true;
	}
	return 0;
}

/* Makes all read-only but the layer. */
static int close_rest(const struct shfs_layer *layer, const struct usual *usual, size_t n)
{
	_cleanup_free_ char *store = shfs_path_join(layer->path, SHFS_LAYER_STORE);
	_cleanup_free_ char *temporary = shfs_path_join(layer->path, SHFS_LAYER_TMP);
	int r = store && temporary ? set_writable("/", false, true) : -ENOMEM;

	for (size_t i = 0; i < n && !r; i++)
		if (usual[i].covered)
			r = set_writable(usual[i].dir, true, false);
	if (!r)
		r = set_writable(layer->project, true, false);
	if (!r)
		r = set_writable(store, true, false);
	if (!r)
		r = set_writable(temporary, true, false);
	if (!r && geteuid()) /* sandboxes of programs write there; root could do more */
		r = set_writable("/proc", true, false);
	/* memory that is shared by name */
	if (!r &&
	    mount("shfs-try", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777") &&
	    errno != ENOENT)
		r = -errno;
	if (!r)
		return 0;
	shfs_error("cannot make all else read-only: %s", strerror(-r));
	return SHFS_EXIT_UNAVAILABLE;
}

static int cover_directories(const struct shfs_layer *layer)
{
	_cleanup_free_ char *own = shfs_path_cache();
	_cleanup_free_ char *cache = own ? strndup(own, strrchr(own, '/') - own) : NULL;
	struct usual usual[] = {
		{ "tmp", (char *)"/tmp" },
		{ "var-tmp", (char *)"/var/tmp" },
		{ CACHE, cache },
	};
	int code = cover_usual(layer, usual, ARRAY_SIZE(usual)), r;

	if (code)
		return code;
	r = cover(layer, layer->project, SHFS_LAYER_PROJECT);
	if (!r)
		r = show_own(layer, SHFS_LAYER_STORE, ".");
	if (!r)
		r = show_own(layer, SHFS_LAYER_TMP, ".");
	if (r)
		return fail_mount(layer->project, r);
	if (!usual[0].covered) {
		_cleanup_free_ char *tmp = shfs_path_join(layer->path, SHFS_LAYER_TMP);

		if (!tmp || setenv("TMPDIR", tmp, true))
			return SHFS_EXIT_FAILURE;
	}
	return close_rest(layer, usual, ARRAY_SIZE(usual));
}

/* --- the mount of shfs --- */

static int run_on_layer(const struct shfs_inside *inside, const char *verb)
{
	_cleanup_free_ char *store =
		shfs_path_join(inside->layer->path, SHFS_LAYER_STORE);
	const char *argv[] = { "shfs",
		               verb,
		               "--store",
		               store,
		               inside->layer->project,
		               inside->config ? "--config" : NULL,
		               inside->config,
		               NULL };
	pid_t pid = store ? shfs_child_start("/proc/self/exe", argv, SHFS_CHILD_MESSAGES)
	                  : -1;

	return pid < 0 ? SHFS_EXIT_FAILURE : shfs_child_wait(pid);
}

/* --- the command --- */

/* Root has privileges by his id: those that could undo the mounts go. */
static void drop_privileges(void)
{
	static const int kept[] = { CAP_CHOWN,  CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH,
		                    CAP_FOWNER, CAP_FSETID,       CAP_KILL,
		                    CAP_SETGID, CAP_SETUID };

	shfs_namespace_pass_mounting(false);
	for (int cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++) {
		bool keep = false;

		for (size_t i = 0; i < ARRAY_SIZE(kept); i++)
			keep |= kept[i] == cap;
		if (!keep)
			prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
	}
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

static void become_command(const struct shfs_inside *inside,
                           const struct shfs_foreground *foreground)
{
	_cleanup_free_ char *store =
		shfs_path_join(inside->layer->path, SHFS_LAYER_STORE);
	const char *shell = getenv("SHELL");
	char number[24];
	size_t n = 0;

	while (inside->argv && inside->argv[n])
		n++;
	const char *argv[n + 4];

	snprintf(number, sizeof(number), "%lld", (long long)inside->layer->n);
	drop_privileges();
	if (!store || setenv("SHFS_STORE", store, true) ||
	    setenv("SHFS_TRY", number, true))
		_exit(SHFS_EXIT_FAILURE);
	shfs_foreground_leave(foreground);
	if (!inside->argv) {
		shell = shell && *shell ? shell : "/bin/sh";
		execl(shell, shell, NULL);
		shfs_error("cannot run %s: %s", shell, strerror(errno));
		_exit(SHFS_EXIT_FAILURE);
	}
	argv[0] = "shfs";
	argv[1] = "run";
	argv[2] = "--";
	memcpy(argv + 3, inside->argv, (n + 1) * sizeof(*argv));
	execv("/proc/self/exe", (char *const *)argv);
	_exit(SHFS_EXIT_FAILURE);
}

/* Signals the children of this process, which is single-threaded. */
static void signal_children(int sig)
{
	_cleanup_buf_ struct shfs_buf pids = { 0 };
	char path[64], *at, *end;

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", getpid());
	if (shfs_read_file_at(AT_FDCWD, path, 1 << 20, &pids))
		return;
	shfs_buf_char(&pids, '\0');
	for (at = pids.data; at; at = end) {
		long pid = strtol(at, &end, 10);

		if (end == at)
			break;
		kill((pid_t)pid, sig);
	}
}

/* Ends what the command has left: children of children become ours. */
static void end_rest(void)
{
	const struct timespec pause = { .tv_nsec = 10000000 };

	for (int ms = 0;; ms += 10) {
		pid_t pid;

		signal_children(ms < END_MS ? SIGTERM : SIGKILL);
		do
			pid = waitpid(-1, NULL, WNOHANG);
		while (pid > 0);
		if (pid < 0)
			return;
		nanosleep(&pause, NULL);
	}
}

static void be_reaper(const struct shfs_inside *inside,
                      const struct shfs_foreground *keeper)
{
	struct shfs_foreground foreground;
	int status = 0;
	pid_t pid;

	shfs_foreground_leave(keeper);
	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	shfs_foreground_enter(&foreground);
	pid = fork();
	if (!pid)
		become_command(inside, &foreground);
	if (pid < 0)
		_exit(SHFS_EXIT_FAILURE);
	shfs_foreground_wait(&foreground, pid, &status, NULL);
	end_rest();
	_exit(shfs_foreground_end(status));
}

/* Its cwd is the one from before, in the layer. */
static void be_keeper(const void *arg, const struct shfs_foreground *caller, int began)
{
	const struct shfs_inside *inside = arg;
	_cleanup_free_ char *cwd = getcwd(NULL, 0);
	struct shfs_foreground foreground;
	int r, status = 0, code;
	pid_t pid;

	shfs_foreground_leave(caller);
	r = shfs_namespace_enter(inside->no_net ? CLONE_NEWNET : 0);
	if (r)
		_exit(shfs_namespace_fail(r));
	if (inside->no_net)
		raise_loopback();
	code = cover_directories(inside->layer);
	if (code)
		_exit(code);
	shfs_namespace_pass_mounting(true);
	if (chdir("/") || run_on_layer(inside, "mount")) {
		shfs_error("cannot record in the layer");
		_exit(SHFS_EXIT_FAILURE);
	}
	if (!cwd || chdir(cwd)) {
		shfs_error("cannot enter the working directory: %s", strerror(errno));
		_exit(SHFS_EXIT_FAILURE);
	}
	if (write(began, "", 1) != 1)
		_exit(SHFS_EXIT_FAILURE);
	close(began);
	fflush(NULL);
	shfs_foreground_enter(&foreground);
	pid = fork();
	if (!pid)
		be_reaper(inside, &foreground);
	if (pid > 0)
		shfs_foreground_wait(&foreground, pid, &status, NULL);
	if (chdir("/") || run_on_layer(inside, "umount"))
		shfs_warn("the record of the layer may lack its end");
	_exit(shfs_foreground_end(status));
}

int shfs_inside_run(const struct shfs_inside *inside, int *status)
{
	return shfs_foreground_keep(be_keeper, inside, status);
}
