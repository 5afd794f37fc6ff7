/* SPDX-License-Identifier: MIT */
#include "kmod-fast-path/control.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/socket.h>

void shfs_control_answer(int fd, const char *text, size_t len)
{
	(void)!send(fd, text, len, MSG_NOSIGNAL);
	close(fd);
}

/* A value is one line, whatever the path. */
static void add_path(struct shfs_buf *out, const char *key, const char *path)
{
	shfs_buf_printf(out, "%s=", key);
	for (; *path; path++) {
		if (*path == '\n' || *path == '\\')
			shfs_buf_char(out, '\\');
		shfs_buf_char(out, *path == '\n' ? 'n' : *path);
	}
	shfs_buf_char(out, '\n');
}

void shfs_control_status(struct shfs_recorder *r,
                         const struct shfs_control_driver *driver, struct shfs_buf *out)
{
	struct shfs_capture_stats stats;

	shfs_capture_get_stats(r->capture, &stats);
	shfs_buf_printf(out, "pid=%ld\n", (long)getpid());
	add_path(out, "root", r->root);
	add_path(out, "store", r->store->path);
	shfs_buf_printf(out, "backend=%s\n", driver->name);
	if (*driver->why)
		add_path(out, "backend_reason", driver->why);
	shfs_buf_printf(out, "since=%" PRId64 "\n", r->since_ns);
	shfs_buf_printf(out,
	                "records=%" PRIu64 "\nlost=%" PRIu64 "\nqueued=%" PRIu64 "\n",
	                stats.records, stats.lost + r->lost, stats.queued);
	shfs_buf_printf(out,
	                "objects=%" PRIu64 "\nobject_bytes=%" PRIu64
	                "\nstored_bytes=%" PRIu64 "\n",
	                stats.objects, stats.object_bytes, stats.stored_bytes);
	shfs_buf_printf(out, "skipped=%" PRIu64 "\nincomplete=%" PRIu64 "\nerror=%d\n",
	                stats.skipped, stats.incomplete, stats.error);
	shfs_buf_printf(out, "rules_error=%d\n", shfs_project_rules_error(&r->rules));
}

struct sync {
	int fd;
};

static void synced(void *arg, int error)
{
	struct sync *sync = arg;
	char text[16];
	int len = snprintf(text, sizeof(text), "%d", error);

	if (error)
		shfs_control_answer(sync->fd, text, (size_t)len);
	else
		shfs_control_answer(sync->fd, "ok", 2);
	free(sync);
}

void shfs_control_sync(struct shfs_recorder *r, int fd)
{
	struct sync *sync = malloc(sizeof(*sync));
	int error;

	if (!sync) {
		close(fd);
		return;
	}
	sync->fd = fd;
	error = shfs_capture_sync(r->capture, synced, sync);
	if (error)
		synced(sync, error);
}
