/* SPDX-License-Identifier: MIT */
/*
 * held.h - files that a compiled hook keeps open from one command to the next.
 *
 * Enter wakes a shell whose part of the kernel has gone cold: there a name that is looked
 * up costs ten times what it costs in a loop, and this is what a prompt waits for. What
 * is executed does not inherit them.
 */
#pragma once

#include <fcntl.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* The user's own descriptors are below. */
#define HELD_MIN 200

struct held {
	int fd; /* 0: none */
	dev_t dev;
	ino_t ino;
};

/* The user may have closed it, and have another file there now. */
static inline bool is_held(struct held *h, struct stat *st)
{
	if (h->fd && (fstat(h->fd, st) || st->st_dev != h->dev || st->st_ino != h->ino))
		h->fd = 0;
	return h->fd;
}

/* Takes fd over. Returns the one to use, and use_end: it is the same where it cannot be
 * held. */
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

/* A file of /proc, which is not asked whether it is still there. */
static inline int use_proc(struct held *h, const char *path)
{
	if (h->fd)
		return h->fd;
	return hold(h, open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY));
}

/* Lets go what does not have this name any more. */
static inline void check_name(struct held *h, const char *path)
{
	struct stat st, there;

	if (is_held(h, &st) && (lstat(path, &there) || there.st_ino != st.st_ino ||
	                        there.st_dev != st.st_dev))
		let_go(h);
}

/* On a mount of ours it would keep that busy. */
static inline bool may_hold(int fd)
{
	struct statfs fs;

	return !fstatfs(fd, &fs) && fs.f_type != FUSE_SUPER_MAGIC;
}
