/* SPDX-License-Identifier: MIT */
/*
 * held.h - files that a compiled hook keeps open from one command to the next.
 *
 * Enter wakes a shell whose data in the kernel's caches has gone cold: there looking up a
 * name takes ten times as long as in a loop, and the prompt waits for it. Programs that
 * the shell executes do not inherit these files.
 */
#pragma once

#include <fcntl.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* Higher than the user's own descriptors. */
#define HELD_MIN 200

struct held {
	int fd; /* 0: none */
	dev_t dev;
	ino_t ino;
};

/* Is the file still open? The user may have closed it, and opened another one there. */
static inline bool is_held(struct held *h, struct stat *st)
{
	if (h->fd && (fstat(h->fd, st) || st->st_dev != h->dev || st->st_ino != h->ino))
		h->fd = 0;
	return h->fd;
}

/* Takes ownership of fd. Returns the descriptor to use until use_end; that is fd if it
 * cannot be held. */
static inline int hold(struct held *h, int fd)
{
	int high = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, HELD_MIN);
	struct stat st;

	if (high < 0)
		return fd;
	if (fstat(high, &st)) {
		close(high);
		return fd;
	}
	close(fd);
	*h = (struct held){ .fd = high, .dev = st.st_dev, .ino = st.st_ino };
	return high;
}

static inline void use_end(const struct held *h, int fd)
{
	if (fd >= 0 && fd != h->fd)
		close(fd);
}

static inline void let_go(struct held *h)
{
	struct stat st;

	if (is_held(h, &st))
		close(h->fd);
	h->fd = 0;
}

/* Holds a file of /proc; such a file cannot be replaced, so that is not checked. */
static inline int use_proc(struct held *h, const char *path)
{
	if (h->fd)
		return h->fd;
	return hold(h, open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY));
}

/* Closes the file if its name leads to another one, or to none. */
static inline void check_name(struct held *h, const char *path)
{
	struct stat st, there;

	if (is_held(h, &st) && (lstat(path, &there) || there.st_ino != st.st_ino ||
	                        there.st_dev != st.st_dev))
		let_go(h);
}

/* May the file be held? On a mount of shfs it would keep the mount busy. */
static inline bool may_hold(int fd)
{
	struct statfs fs;

	return !fstatfs(fd, &fs) && fs.f_type != FUSE_SUPER_MAGIC;
}
