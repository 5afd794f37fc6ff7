/* SPDX-License-Identifier: MIT */
#include "fusefs/mountpoint.h"

#include "common/lock.h"
#include "common/path.h"
#include "common/quote.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <mntent.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define LOCK_WAIT_MS 5000

/* Octal escapes of mountinfo, in place. */
static void unescape(char *s)
{
	char *to = s;

	while (*s) {
		if (s[0] == '\\' && s[1] && s[2] && s[3]) {
			*to++ = (char)((s[1] - '0') << 6 | (s[2] - '0') << 3 |
			               (s[3] - '0'));
			s += 4;
		} else {
			*to++ = *s++;
		}
	}
	*to = 0;
}

/* A line of mountinfo. */
struct mounted {
	char dev[24];
	char *where; /* malloc'ed */
	bool is_shfs;
};

static bool parse_mounted(char *line, struct mounted *out)
{
	char *type = strstr(line, " - ");

	if (!type || sscanf(line, "%*d %*d %23s %*s %ms", out->dev, &out->where) != 2)
		return false;
	unescape(out->where);
	out->is_shfs = !strncmp(type, " - fuse.shfs ", strlen(" - fuse.shfs "));
	return true;
}

/* Calls visit for each mount; those on top come last. */
static void each_mounted(void (*visit)(const struct mounted *m, void *arg), void *arg)
{
	_cleanup_fclose_ FILE *f = fopen("/proc/self/mountinfo", "re");
	_cleanup_free_ char *line = NULL;
	size_t cap = 0;

	while (f && getline(&line, &cap, f) > 0) {
		struct mounted m = { .where = NULL };

		if (parse_mounted(line, &m))
			visit(&m, arg);
		free(m.where);
	}
}

struct at_path {
	const char *path;
	char *dev;
	bool ours;
};

static void look_at_path(const struct mounted *m, void *arg)
{
	struct at_path *at = arg;

	if (strcmp(m->where, at->path) != 0)
		return;
	at->ours = m->is_shfs;
	strcpy(at->dev, m->dev);
}

bool shfs_mountpoint_is_ours(const char *path, char dev[static 24])
{
	struct at_path at = { .path = path, .dev = dev };

	each_mounted(look_at_path, &at);
	return at.ours;
}

struct by_dev {
	const char *dev;
	char *where;
};

static void look_for_dev(const struct mounted *m, void *arg)
{
	struct by_dev *by = arg;

	if (m->is_shfs && !by->where && !strcmp(m->dev, by->dev))
		by->where = strdup(m->where);
}

char *shfs_mountpoint_of(const char *dev)
{
	struct by_dev by = { .dev = dev };

	each_mounted(look_for_dev, &by);
	return by.where;
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
	char dev[24];

	if (shfs_mountpoint_is_ours(path, dev)) {
		say_path(message, path);
		shfs_buf_str(message, " is mounted already");
		return SHFS_FUSE_REFUSED;
	}
	if (access("/dev/fuse", F_OK)) {
		shfs_buf_str(message,
		             "this machine has no /dev/fuse; load the module "
		             "(modprobe fuse), or give the container the device");
		return SHFS_FUSE_UNAVAILABLE;
	}
	if (access("/dev/fuse", R_OK | W_OK)) {
		shfs_buf_str(message, "you may not use /dev/fuse; ask for mode 0666, as "
		                      "distributions have it (shfs doctor)");
		return SHFS_FUSE_UNAVAILABLE;
	}
	/* fusermount3 mounts without it, and then cannot unmount */
	if (getuid() && access("/etc/mtab", F_OK)) {
		shfs_buf_str(message, "this machine has no /etc/mtab; as root: "
		                      "ln -s ../proc/self/mounts /etc/mtab");
		return SHFS_FUSE_UNAVAILABLE;
	}
	return 0;
}

/* The first line of what libfuse and fusermount3 had to say. */
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

static int explain(int said, const char *path, struct shfs_buf *message)
{
	char text[512] = "";

	(void)!pread(said, text, sizeof(text) - 1, 0);
	if (strstr(text, "failed to exec") || strstr(text, "fusermount3: not found")) {
		shfs_buf_str(message,
		             "fusermount3 is missing: install the package fuse3");
		return SHFS_FUSE_UNAVAILABLE;
	}
	shfs_buf_str(message, "cannot mount ");
	say_path(message, path);
	add_first_line(said, message);
	return strstr(text, "Operation not permitted") ? SHFS_FUSE_UNAVAILABLE
	                                               : SHFS_FUSE_REFUSED;
}

int shfs_mountpoint_mount(struct fuse_session *session, const char *path,
                          struct shfs_buf *message)
{
	/* Both write to standard error: one line is made of that. */
	_cleanup_close_ int said = memfd_create("shfs-mount", MFD_CLOEXEC);
	_cleanup_close_ int err = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	int r;

	if (said >= 0)
		dup2(said, STDERR_FILENO);
	r = fuse_session_mount(session, path);
	if (err >= 0)
		dup2(err, STDERR_FILENO);
	return r ? explain(said, path, message) : 0;
}
