/* SPDX-License-Identifier: MIT */
#include "store/capture/alert.h"

#include "common/io.h"
#include "store/journal/runtime.h"
#include "store/objects/object.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#define LINE_BYTES 4096
#define ALERT_MAX  (64 << 10)
#define ROUNDS_MAX 100

static void trouble_name(const struct shfs_store *store, const char *root,
                         char out[static SHFS_ALERT_NAME_MAX])
{
	snprintf(out, SHFS_ALERT_NAME_MAX, "trouble-%s-%016" PRIx64, store->host,
	         shfs_object_hash64(root, strlen(root)));
}

static void alert_name(const struct shfs_store *store,
                       char out[static SHFS_ALERT_NAME_MAX])
{
	snprintf(out, SHFS_ALERT_NAME_MAX, "alert-%s", store->host);
}

/* --- all lines as one file --- */

/* Lists them in the order of names, so that each process makes the same file of them. */
static int list_troubles(const struct shfs_store *store, struct dirent ***out)
{
	char prefix[SHFS_ALERT_NAME_MAX];
	struct dirent **list;
	int n = scandirat(store->state_fd, ".", &list, NULL, alphasort), kept = 0;

	if (n < 0)
		return -errno;
	snprintf(prefix, sizeof(prefix), "trouble-%s-", store->host);
	for (int i = 0; i < n; i++) {
		const char *name = list[i]->d_name;
		size_t len = strlen(prefix);

		/* exactly so long: a write that was cut short may have left other files
		 */
		if (!strncmp(name, prefix, len) && strlen(name) == len + 16)
			list[kept++] = list[i];
		else
			free(list[i]);
	}
	*out = list;
	return kept;
}

static int read_troubles(const struct shfs_store *store, struct shfs_buf *out)
{
	struct dirent **list = NULL;
	int n = list_troubles(store, &list);

	if (n < 0)
		return n;
	out->len = 0;
	for (int i = 0; i < n; i++) {
		_cleanup_buf_ struct shfs_buf line = { 0 };

		/* a line may have been removed since it was listed */
		if (!shfs_read_file_at(store->state_fd, list[i]->d_name, LINE_BYTES,
		                       &line) &&
		    line.len && out->len + line.len < ALERT_MAX) {
			shfs_buf_add(out, line.data, strcspn(line.data, "\n"));
			shfs_buf_char(out, '\n');
		}
		free(list[i]);
	}
	free(list);
	shfs_buf_add(out, "", 0);
	return out->failed ? -ENOMEM : 0;
}

static bool is_shown(const struct shfs_store *store, const char *name,
                     const struct shfs_buf *text)
{
	_cleanup_buf_ struct shfs_buf shown = { 0 };

	return !shfs_read_file_at(store->state_fd, name, ALERT_MAX, &shown) &&
	       shown.len == text->len && !memcmp(shown.data, text->data, text->len);
}

/* mine: the name of a trouble file, which is linked if there is no room to write. */
static void publish_alert(const struct shfs_store *store, const struct shfs_buf *text,
                          const char *mine)
{
	char name[SHFS_ALERT_NAME_MAX];
	int fd = store->state_fd;

	alert_name(store, name);
	if (!text->len)
		unlinkat(fd, name, 0);
	else if (!is_shown(store, name, text) &&
	         shfs_write_file_at(fd, name, 0600, text->data, text->len) && mine)
		(void)!linkat(fd, mine, fd, name, 0);
	shfs_runtime_alert(store->path, name, text->len ? text->data : NULL);
}

/*
 * Each process that changes a line reads all lines again after it has written the whole,
 * so the last writer of the whole has seen the last change.
 */
static void publish_all(const struct shfs_store *store, const char *mine)
{
	_cleanup_buf_ struct shfs_buf text = { 0 }, before = { 0 };

	for (int round = 0; round < ROUNDS_MAX; round++) {
		if (read_troubles(store, &text))
			return;
		if (round && text.len == before.len &&
		    !memcmp(text.data, before.data, text.len))
			return;
		publish_alert(store, &text, mine);
		before.len = 0;
		shfs_buf_add(&before, text.data, text.len);
		shfs_buf_add(&before, "", 0);
		if (before.failed)
			return;
	}
}

/* --- one line --- */

int shfs_alert_reserve(const struct shfs_store *store)
{
	int fd = openat(store->state_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (fd >= 0 && fallocate(fd, 0, 0, LINE_BYTES)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static void use_reserve(const struct shfs_store *store, const char *name,
                        const char *line, int *reserve)
{
	_cleanup_close_ int fd = TAKE_FD(*reserve);
	ssize_t len = (ssize_t)strlen(line);
	char path[40];

	if (fd < 0 || pwrite(fd, line, len, 0) != len || ftruncate(fd, len))
		return;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	unlinkat(store->state_fd, name, 0);
	(void)!linkat(AT_FDCWD, path, store->state_fd, name, AT_SYMLINK_FOLLOW);
}

void shfs_alert_raise(const struct shfs_store *store, const char *root, const char *line,
                      int *reserve)
{
	char name[SHFS_ALERT_NAME_MAX], shown[SHFS_ALERT_NAME_MAX];
	struct shfs_buf text = { .data = (char *)line, .len = strlen(line) };

	trouble_name(store, root, name);
	alert_name(store, shown);
	if (is_shown(store, name, &text) && !faccessat(store->state_fd, shown, F_OK, 0))
		return;
	/* The runtime directory comes first: the store may hang. */
	shfs_runtime_alert(store->path, shown, line);
	if (shfs_write_file_at(store->state_fd, name, 0600, line, text.len) && reserve)
		use_reserve(store, name, line, reserve);
	publish_all(store, name);
}

void shfs_alert_clear(const struct shfs_store *store, const char *root)
{
	char name[SHFS_ALERT_NAME_MAX];

	trouble_name(store, root, name);
	unlinkat(store->state_fd, name, 0);
	publish_all(store, NULL);
}
