/* SPDX-License-Identifier: MIT */
#include "query/try/layer.h"

#include "common/clock.h"
#include "common/io.h"
#include "common/path.h"
#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define PLACE    "try" /* the directory of the store */
#define INFO     "info"
#define ENDED    "ended"
#define FORMAT   1
#define INFO_MAX (16 << 20)

/* --- the directory of all --- */

static int open_place(const struct shfs_store *store, bool make)
{
	int fd;

	if (make && mkdirat(store->dirfd, PLACE, 0700) && errno != EEXIST)
		return -errno;
	fd = openat(store->dirfd, PLACE, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* 0: it is no number of a layer. */
static int64_t layer_number(const char *name)
{
	char *end;
	int64_t n;

	errno = 0;
	n = strtoll(name, &end, 10);
	return *name < '1' || *name > '9' || *end || errno ? 0 : n;
}

static int compare_numbers(const void *a, const void *b)
{
	const int64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

int shfs_layers_list(const struct shfs_store *store, int64_t **out, size_t *n)
{
	int fd = open_place(store, false), r = 0;
	size_t cap = 0;
	struct dirent *entry;
	DIR *dir;

	*out = NULL;
	*n = 0;
	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	dir = fdopendir(fd);
	if (!dir) {
		close(fd);
		return -errno;
	}
	while (!r && (entry = shfs_readdir(dir, &r))) {
		int64_t number = layer_number(entry->d_name);

		if (!number)
			continue;
		if (!MAKE_ROOM(*out, *n, cap))
			r = -ENOMEM;
		else
			(*out)[(*n)++] = number;
	}
	closedir(dir);
	if (*n)
		qsort(*out, *n, sizeof(**out), compare_numbers);
	return r;
}

/* --- one of them --- */

static int open_directory(const struct shfs_store *store, int place, int64_t n,
                          struct shfs_layer *out)
{
	_cleanup_buf_ struct shfs_buf path = { 0 };
	char name[24];

	snprintf(name, sizeof(name), "%" PRId64, n);
	*out = (struct shfs_layer){ .n = n, .lock_fd = -1 };
	out->dirfd = openat(place, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (out->dirfd < 0)
		return -errno;
	shfs_buf_printf(&path, "%s/" PLACE "/%s", store->path, name);
	out->path = path.failed ? NULL : shfs_buf_take(&path);
	return out->path ? 0 : -ENOMEM;
}

static int write_info(const struct shfs_layer *layer)
{
	_cleanup_buf_ struct shfs_buf out = { 0 };

	shfs_buf_u32(&out, FORMAT);
	shfs_buf_u64(&out, (uint64_t)layer->began_ns);
	shfs_buf_bytes(&out, layer->project, strlen(layer->project) + 1);
	shfs_buf_bytes(&out, layer->command, strlen(layer->command) + 1);
	return out.failed
	               ? -ENOMEM
	               : shfs_write_file_at(layer->dirfd, INFO, 0600, out.data, out.len);
}

static char *read_text(struct shfs_cursor *in)
{
	size_t len = shfs_cursor_u32(in);
	char *text;

	if (in->failed || !len || len > (size_t)(in->end - in->p) || in->p[len - 1]) {
		in->failed = true;
		return NULL;
	}
	text = strdup((const char *)in->p);
	in->p += len;
	return text;
}

static int read_info(struct shfs_layer *layer)
{
	_cleanup_buf_ struct shfs_buf info = { 0 }, ended = { 0 };
	struct shfs_cursor in;
	int r = shfs_read_file_at(layer->dirfd, INFO, INFO_MAX, &info);

	if (r)
		return r;
	in = (struct shfs_cursor){ (unsigned char *)info.data,
		                   (unsigned char *)info.data + info.len, false };
	if (shfs_cursor_u32(&in) != FORMAT)
		return -EBADMSG;
	layer->began_ns = (int64_t)shfs_cursor_u64(&in);
	layer->project = read_text(&in);
	layer->command = read_text(&in);
	if (in.failed || !layer->project || *layer->project != '/' || !layer->command)
		return -EBADMSG;
	r = shfs_read_file_at(layer->dirfd, ENDED, INFO_MAX, &ended);
	if (r)
		return r == -ENOENT ? 0 : r;
	in = (struct shfs_cursor){ (unsigned char *)ended.data,
		                   (unsigned char *)ended.data + ended.len, false };
	layer->ended_ns = (int64_t)shfs_cursor_u64(&in);
	layer->status = (int)shfs_cursor_u32(&in);
	return in.failed ? -EBADMSG : 0;
}

int shfs_layer_open(const struct shfs_store *store, int64_t n, struct shfs_layer *out)
{
	_cleanup_close_ int place = open_place(store, false);
	int r = place < 0 ? place : open_directory(store, place, n, out);

	if (r) {
		if (place < 0)
			*out = (struct shfs_layer){ .dirfd = -1, .lock_fd = -1 };
		return r;
	}
	r = read_info(out);
	/* one that was not made to its end */
	return r == -ENOENT ? -EBADMSG : r;
}

void shfs_layer_close(struct shfs_layer *layer)
{
	shfs_closep(&layer->dirfd);
	shfs_closep(&layer->lock_fd);
	free(layer->path);
	free(layer->project);
	free(layer->command);
}

/* Makes the directory of the next number: numbers do not come again while one of them is
 * there. */
static int make_directory(const struct shfs_store *store, int place,
                          struct shfs_layer *out)
{
	_cleanup_free_ int64_t *numbers = NULL;
	size_t n;
	int64_t next;
	int r = shfs_layers_list(store, &numbers, &n);
	char name[24];

	if (r)
		return r;
	for (next = n ? numbers[n - 1] + 1 : 1;; next++) {
		snprintf(name, sizeof(name), "%" PRId64, next);
		if (!mkdirat(place, name, 0700))
			return open_directory(store, place, next, out);
		if (errno != EEXIST)
			return -errno;
	}
}

int shfs_layer_new(const struct shfs_store *store, const char *project,
                   const char *command, struct shfs_layer *out)
{
	_cleanup_close_ int place = open_place(store, true);
	int r;

	*out = (struct shfs_layer){ .dirfd = -1, .lock_fd = -1 };
	r = place < 0 ? place : make_directory(store, place, out);
	if (r)
		return r;
	out->project = strdup(project);
	out->command = strdup(command);
	if (!out->project || !out->command)
		return -ENOMEM;
	r = shfs_layer_begin(out);
	return r ? r : shfs_layer_lock(out);
}

int shfs_layer_begin(struct shfs_layer *layer)
{
	const struct timespec tick = { .tv_nsec = 10000000 };
	struct timespec now;

	if (layer->began_ns) /* what others changed since the first time counts */
		return unlinkat(layer->dirfd, ENDED, 0) && errno != ENOENT ? -errno : 0;
	/* times of files come from this clock; a change before now has another time */
	nanosleep(&tick, NULL);
	clock_gettime(CLOCK_REALTIME_COARSE, &now);
	layer->began_ns = shfs_timespec_ns(now);
	return write_info(layer);
}

int shfs_layer_end(struct shfs_layer *layer, int status)
{
	_cleanup_buf_ struct shfs_buf out = { 0 };

	layer->ended_ns = shfs_clock_ns(CLOCK_REALTIME);
	layer->status = status;
	shfs_buf_u64(&out, (uint64_t)layer->ended_ns);
	shfs_buf_u32(&out, (uint32_t)status);
	return out.failed
	               ? -ENOMEM
	               : shfs_write_file_at(layer->dirfd, ENDED, 0600, out.data, out.len);
}

int shfs_layer_lock(struct shfs_layer *layer)
{
	int fd = openat(layer->dirfd, INFO, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	if (flock(fd, LOCK_EX | LOCK_NB)) {
		close(fd);
		return -EBUSY;
	}
	layer->lock_fd = fd;
	return 0;
}

bool shfs_layer_runs(struct shfs_layer *layer)
{
	if (layer->lock_fd >= 0)
		return false;
	if (shfs_layer_lock(layer) == -EBUSY)
		return true;
	shfs_closep(&layer->lock_fd);
	layer->lock_fd = -1;
	return false;
}

/* --- removing it --- */

static int remove_entry(int dirfd, const char *name);

static int remove_entries(int fd)
{
	struct dirent *entry;
	int r = 0;
	DIR *dir = fdopendir(fd);

	if (!dir) {
		close(fd);
		return -errno;
	}
	while (!r && (entry = shfs_readdir(dir, &r)))
		if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
			r = remove_entry(dirfd(dir), entry->d_name);
	closedir(dir);
	return r;
}

/* A directory of overlayfs or of the command may be closed even for its owner. */
static int remove_entry(int dirfd, const char *name)
{
	int fd, r;

	if (!unlinkat(dirfd, name, 0) || errno == ENOENT)
		return 0;
	if (errno != EISDIR && errno != EPERM)
		return -errno;
	fd = openat(dirfd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	close(fd);
	if (fchmodat(dirfd, name, 0700, 0))
		return -errno;
	fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	r = fd < 0 ? -errno : remove_entries(fd);
	return r ? r : unlinkat(dirfd, name, AT_REMOVEDIR) ? -errno : 0;
}

int shfs_layer_remove(struct shfs_layer *layer)
{
	return remove_entry(AT_FDCWD, layer->path);
}
