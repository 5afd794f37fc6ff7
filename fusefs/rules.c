/* SPDX-License-Identifier: MIT */
/* The rules of a mount: the built-in ones, the configuration's, and ROOT/.shfsignore. */
#include "fusefs/fs.h"

#include "common/clock.h"
#include "common/io.h"
#include "fusefs/log.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define IGNORE_FILE      ".shfsignore"
#define IGNORE_MAX_BYTES (1 << 20)
#define RACY_NS          (SHFS_NSEC_PER_SEC / 50) /* what file systems' clocks lag behind */

/* No field but these is used: equal stamps are equal bytes. Zeros: there is no file. */
static struct statx stamp_of(const struct statx *stx)
{
	return (struct statx){
		.stx_ino = stx->stx_ino,
		.stx_mode = stx->stx_mode,
		.stx_size = stx->stx_size,
		.stx_mtime = stx->stx_mtime,
		.stx_ctime = stx->stx_ctime,
	};
}

/* Nothing but a plain file of a sane size: anything else may keep us waiting. */
static int read_ignore_file(struct shfs_fs *fs, struct shfs_buf *text)
{
	_cleanup_close_ int fd = openat(fs->root_fd, IGNORE_FILE,
	                                O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	return shfs_read_fd(fd, IGNORE_MAX_BYTES, text);
}

/* Lock held for writing. */
static void load(struct shfs_fs *fs)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };
	struct shfs_rules *rules;
	int r = read_ignore_file(fs, &text);

	fs->rules_error = r == -ENOENT ? 0 : r;
	if (fs->rules_error)
		shfs_log("%s is not followed: %s", IGNORE_FILE, strerror(-r));
	if (fs->rules_error && fs->rules)
		return;
	if (shfs_rules_new(&fs->config, r ? NULL : text.data, &rules))
		return;
	shfs_rules_free(fs->rules);
	fs->rules = rules;
}

/* Changed so shortly before it was read that another change may have the same times. */
static bool is_racy(const struct shfs_fs *fs)
{
	const struct statx_timestamp *t = &fs->rules_stamp.stx_ctime;

	return fs->rules_read_ns - shfs_time_ns(t->tv_sec, t->tv_nsec) < RACY_NS;
}

static void load_if_changed(struct shfs_fs *fs)
{
	struct statx stx = { 0 }, stamp = { 0 };
	bool same;

	if (!shfs_node_statx(fs->root_fd, IGNORE_FILE, &stx))
		stamp = stamp_of(&stx);
	pthread_rwlock_rdlock(&fs->rules_lock);
	same = fs->rules && !memcmp(&stamp, &fs->rules_stamp, sizeof(stamp)) &&
	       !is_racy(fs);
	pthread_rwlock_unlock(&fs->rules_lock);
	if (same)
		return;
	pthread_rwlock_wrlock(&fs->rules_lock);
	fs->rules_read_ns = shfs_clock_ns(CLOCK_REALTIME);
	load(fs);
	fs->rules_stamp = stamp;
	pthread_rwlock_unlock(&fs->rules_lock);
}

void shfs_fs_rules_init(struct shfs_fs *fs)
{
	pthread_rwlock_init(&fs->rules_lock, NULL);
	load_if_changed(fs);
}

int shfs_fs_rules_error(struct shfs_fs *fs)
{
	int error;

	load_if_changed(fs);
	pthread_rwlock_rdlock(&fs->rules_lock);
	error = fs->rules_error;
	pthread_rwlock_unlock(&fs->rules_lock);
	return error;
}

enum shfs_rule shfs_fs_rule(struct shfs_fs *fs, const char *path)
{
	enum shfs_rule rule;

	load_if_changed(fs);
	pthread_rwlock_rdlock(&fs->rules_lock);
	rule = fs->rules ? shfs_rules_match(fs->rules, path, false) : SHFS_RULE_ARCHIVE;
	pthread_rwlock_unlock(&fs->rules_lock);
	return rule;
}
