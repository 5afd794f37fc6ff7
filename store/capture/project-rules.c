/* SPDX-License-Identifier: MIT */
#include "store/capture/project-rules.h"

#include "common/clock.h"
#include "common/io.h"
#include "common/path.h"
#include "store/capture/log.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define IGNORE_FILE      ".shfsignore"
#define IGNORE_MAX_BYTES (1 << 20)
#define RACY_NS          (SHFS_NSEC_PER_SEC / 50) /* most that files' times lag behind */

/* A project below the root. */
struct shfs_project_part {
	char *dir, *ignore_file; /* below the root */
	struct shfs_project_rules rules;
};

/* Makes a stamp of the fields that matter: equal stamps are equal bytes. Zeros: there is
 * no file. */
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

/* Reads a regular file of a sane size only: anything else may keep us waiting. */
static int read_ignore_file(struct shfs_project_rules *p, struct shfs_buf *text)
{
	_cleanup_close_ int fd = openat(p->root_fd, p->ignore_file,
	                                O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	return shfs_read_fd(fd, IGNORE_MAX_BYTES, text);
}

/* Lock held for writing. Reads .shfsignore and makes the rules anew. */
static void load_project_rules(struct shfs_project_rules *p)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };
	struct shfs_rules *rules;
	int r = read_ignore_file(p, &text);

	p->error = r == -ENOENT ? 0 : r;
	if (p->error)
		shfs_log("%s is not followed: %s", IGNORE_FILE, strerror(-r));
	if (p->error && p->rules)
		return;
	if (shfs_rules_new(p->config, r ? NULL : text.data, &rules))
		return;
	shfs_rules_free(p->rules);
	p->rules = rules;
}

/* Was the file read so shortly after its change that another change may have the same
 * times? */
static bool is_racy(const struct shfs_project_rules *p)
{
	const struct statx_timestamp *t = &p->stamp.stx_ctime;

	return p->read_ns - shfs_time_ns(t->tv_sec, t->tv_nsec) < RACY_NS;
}

static void load_if_changed(struct shfs_project_rules *p)
{
	struct statx stx = { 0 }, stamp = { 0 };
	bool same;

	if (!statx(p->root_fd, p->ignore_file, AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS,
	           &stx))
		stamp = stamp_of(&stx);
	pthread_rwlock_rdlock(&p->lock);
	same = p->rules && !memcmp(&stamp, &p->stamp, sizeof(stamp)) && !is_racy(p);
	pthread_rwlock_unlock(&p->lock);
	if (same)
		return;
	pthread_rwlock_wrlock(&p->lock);
	p->read_ns = shfs_clock_ns(CLOCK_REALTIME);
	load_project_rules(p);
	p->stamp = stamp;
	pthread_rwlock_unlock(&p->lock);
}

static void init_rules(struct shfs_project_rules *p, const struct shfs_config *config,
                       int root_fd, const char *ignore_file)
{
	*p = (struct shfs_project_rules){
		.config = config,
		.root_fd = root_fd,
		.ignore_file = ignore_file,
	};
	pthread_rwlock_init(&p->lock, NULL);
	load_if_changed(p);
}

void shfs_project_rules_init(struct shfs_project_rules *p,
                             const struct shfs_config *config, int root_fd)
{
	init_rules(p, config, root_fd, IGNORE_FILE);
}

void shfs_project_rules_free(struct shfs_project_rules *p)
{
	for (size_t i = 0; i < p->n_parts; i++) {
		shfs_project_rules_free(&p->parts[i].rules);
		free(p->parts[i].dir);
		free(p->parts[i].ignore_file);
	}
	free(p->parts);
	shfs_rules_free(p->rules);
}

int shfs_project_rules_add_part(struct shfs_project_rules *p, const char *dir)
{
	size_t n = p->n_parts;
	struct shfs_project_part *parts = reallocarray(p->parts, n + 1, sizeof(*parts));
	_cleanup_free_ char *copy = strdup(dir),
			    *ignore_file = shfs_path_join(dir, IGNORE_FILE);
	struct stat st;

	if (parts)
		p->parts = parts;
	if (!parts || !copy || !ignore_file)
		return -ENOMEM;
	if (fstatat(p->root_fd, dir, &st, 0))
		return -errno;
	if (!S_ISDIR(st.st_mode))
		return -ENOTDIR;
	/* no descriptor: there may be more projects than a process may open files */
	parts[n] = (struct shfs_project_part){
		.dir = TAKE_PTR(copy),
		.ignore_file = TAKE_PTR(ignore_file),
	};
	init_rules(&parts[n].rules, p->config, p->root_fd, parts[n].ignore_file);
	p->n_parts++;
	return 0;
}

/* Returns the innermost project that the path is in, and makes the path that below it;
 * NULL: it is in none. */
static struct shfs_project_rules *find_part(struct shfs_project_rules *p,
                                            const char **path)
{
	struct shfs_project_rules *found = NULL;
	size_t longest = 0;
	const char *below = *path;

	for (size_t i = 0; i < p->n_parts; i++) {
		struct shfs_project_part *part = &p->parts[i];
		size_t len = strlen(part->dir);

		if (len < longest || strncmp(*path, part->dir, len) != 0 ||
		    (*path)[len] != '/')
			continue;
		found = &part->rules;
		longest = len;
		below = *path + len + 1;
	}
	*path = below;
	return found;
}

int shfs_project_rules_error(struct shfs_project_rules *p)
{
	int error;

	load_if_changed(p);
	pthread_rwlock_rdlock(&p->lock);
	error = p->error;
	pthread_rwlock_unlock(&p->lock);
	return error;
}

static bool is_project_secret(struct shfs_project_rules *p, const char *path,
                              bool directory)
{
	bool secret;

	pthread_rwlock_rdlock(&p->lock);
	secret = p->rules && shfs_rules_is_secret(p->rules, path, directory);
	pthread_rwlock_unlock(&p->lock);
	return secret;
}

enum shfs_rule shfs_project_rules_match(struct shfs_project_rules *p, const char *path)
{
	struct shfs_project_rules *part = find_part(p, &path);
	enum shfs_rule rule;
	bool keep_all;

	if (!part && p->is_no_project)
		return is_project_secret(p, path, false) ? SHFS_RULE_IGNORE
		       : p->keep_all                     ? SHFS_RULE_ARCHIVE_READ
		                                         : SHFS_RULE_FINGERPRINT;
	keep_all = p->keep_all;
	p = part ? part : p;
	load_if_changed(p);
	pthread_rwlock_rdlock(&p->lock);
	rule = p->rules ? shfs_rules_match(p->rules, path, false) : SHFS_RULE_ARCHIVE;
	pthread_rwlock_unlock(&p->lock);
	return keep_all && rule == SHFS_RULE_ARCHIVE ? SHFS_RULE_ARCHIVE_READ : rule;
}

bool shfs_project_rules_is_secret(struct shfs_project_rules *p, const char *path,
                                  bool directory)
{
	struct shfs_project_rules *part = find_part(p, &path);

	p = part ? part : p;
	if (!is_project_secret(p, path, directory))
		return false;
	load_if_changed(p);
	return is_project_secret(p, path, directory);
}
