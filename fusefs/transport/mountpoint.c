/* SPDX-License-Identifier: MIT */
#include "fusefs/transport/mountpoint.h"

#include "common/lock.h"
#include "common/path.h"
#include "common/quote.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libmount.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#define LOCK_WAIT_MS 5000
#define GOING_MS     200
#define GOING_NAP_MS 10

static struct libmnt_table *read_mount_table(void)
{
	return mnt_new_table_from_file("/proc/self/mountinfo");
}

static bool is_shfs_mount(struct libmnt_fs *fs)
{
	const char *type = mnt_fs_get_fstype(fs);

	return type && (!strcmp(type, "fuse.shfs") || !strcmp(type, "fuse.shfs-browse"));
}

bool shfs_mountpoint_is_ours(const char *path, dev_t *dev)
{
	struct libmnt_table *table = read_mount_table();
	/* the topmost mount */
	struct libmnt_fs *fs = mnt_table_find_target(table, path, MNT_ITER_BACKWARD);
	bool ours = fs && is_shfs_mount(fs);

	if (ours)
		*dev = mnt_fs_get_devno(fs);
	mnt_unref_table(table);
	return ours;
}

char *shfs_mountpoint_of(dev_t dev)
{
	struct libmnt_table *table = read_mount_table();
	struct libmnt_fs *fs = mnt_table_find_devno(table, dev, MNT_ITER_FORWARD);
	char *where = fs && is_shfs_mount(fs) ? strdup(mnt_fs_get_target(fs)) : NULL;

	mnt_unref_table(table);
	return where;
}

bool shfs_mountpoint_is_dead(dev_t dev)
{
	struct statx stx;

	/* umount -f cuts the connection before it removes the mount */
	for (int ms = 0; ms <= GOING_MS; ms += GOING_NAP_MS) {
		_cleanup_free_ char *where = dev ? shfs_mountpoint_of(dev) : NULL;

		/* a mount that answers is another one, which has got the number */
		if (!where ||
		    !statx(AT_FDCWD, where, AT_STATX_FORCE_SYNC, STATX_BASIC_STATS,
		           &stx) ||
		    errno != ENOTCONN)
			return false;
		nanosleep(&(struct timespec){ .tv_nsec = GOING_NAP_MS * 1000000L }, NULL);
	}
	return true;
}

int shfs_mountpoint_lock(int root_fd)
{
	char name[80];
	struct stat st;

	if (fstat(root_fd, &st))
		return -errno;
	snprintf(name, sizeof(name), "mount-%" PRIu64 "-%" PRIu64, (uint64_t)st.st_dev,
	         (uint64_t)st.st_ino);
	return shfs_lock_take(name, LOCK_WAIT_MS);
}

static void say_path(struct shfs_buf *message, const char *path)
{
	shfs_quote_display(message, path, strlen(path));
}

int shfs_mountpoint_check(const char *path, struct shfs_buf *message)
{
	dev_t dev;

	if (shfs_mountpoint_is_ours(path, &dev)) {
		say_path(message, path);
		shfs_buf_str(message, " is mounted already");
		return SHFS_EXIT_REFUSED;
	}
	if (access("/dev/fuse", F_OK)) {
		shfs_buf_str(message,
		             "this machine has no /dev/fuse; load the module "
		             "(modprobe fuse), or give the container the device");
		return SHFS_EXIT_UNAVAILABLE;
	}
	if (access("/dev/fuse", R_OK | W_OK)) {
		shfs_buf_str(message, "you may not use /dev/fuse; ask for mode 0666, as "
		                      "distributions have it (shfs doctor)");
		return SHFS_EXIT_UNAVAILABLE;
	}
	/* without it fusermount3 can mount, but not unmount */
	if (getuid() && access("/etc/mtab", F_OK)) {
		shfs_buf_str(message, "this machine has no /etc/mtab; as root: "
		                      "ln -s ../proc/self/mounts /etc/mtab");
		return SHFS_EXIT_UNAVAILABLE;
	}
	return 0;
}

/* Appends the first line that libfuse or fusermount3 has printed. */
static void add_first_line(int fd, struct shfs_buf *message)
{
	char text[512];
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
	const char *line = text;

	if (n <= 0)
		return;
	text[n] = 0;
	text[strcspn(text, "\n")] = 0;
	if (!strncmp(line, "fusermount3: ", 13))
		line += 13;
	shfs_buf_str(message, ": ");
	shfs_quote_display(message, line, strlen(line));
}

static int explain_mount_error(int said, const char *path, struct shfs_buf *message)
{
	char text[512] = "";

	(void)!pread(said, text, sizeof(text) - 1, 0);
	if (strstr(text, "failed to exec") || strstr(text, "fusermount3: not found")) {
		shfs_buf_str(message,
		             "fusermount3 is missing: install the package fuse3");
		return SHFS_EXIT_UNAVAILABLE;
	}
	shfs_buf_str(message, "cannot mount ");
	say_path(message, path);
	add_first_line(said, message);
	return strstr(text, "Operation not permitted") ? SHFS_EXIT_UNAVAILABLE
	                                               : SHFS_EXIT_REFUSED;
}

#ifdef __SANITIZE_ADDRESS__
/*
 * libfuse forks, and its child calls setenv for the number of a descriptor. ASan's
 * malloc, other than glibc's, may hang there: another thread held its lock at the fork.
 * But glibc keeps all values that a variable ever had, and needs no memory for one of
 * them.
 */
static void know_descriptors(void)
{
	char number[12];

	for (int fd = 0; fd < 256; fd++) {
		snprintf(number, sizeof(number), "%d", fd);
		setenv("_FUSE_COMMFD", number, 1);
	}
}
#else
static void know_descriptors(void)
{
}
#endif

int shfs_mountpoint_mount(struct fuse_session *session, const char *path,
                          struct shfs_buf *message)
{
	/* Both print on standard error, of which the first line becomes the message. */
	_cleanup_close_ int said = memfd_create("shfs-mount", MFD_CLOEXEC);
	_cleanup_close_ int err = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	int r;

	know_descriptors();
	if (said >= 0)
		dup2(said, STDERR_FILENO);
	r = fuse_session_mount(session, path);
	if (err >= 0)
		dup2(err, STDERR_FILENO);
	return r ? explain_mount_error(said, path, message) : 0;
}

void shfs_mountpoint_unmount_lazily(const char *path)
{
	pid_t pid;

	if (!umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW))
		return;
	pid = fork();
	if (pid == 0) {
		execlp("fusermount3", "fusermount3", "-u", "-z", "-q", "--", path,
		       (char *)NULL);
		_exit(127);
	}
	while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}
