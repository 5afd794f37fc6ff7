/* SPDX-License-Identifier: MIT */
#include "kmod-fast-path/recorder/control.h"

#include "recording/status.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

void shfs_control_answer(int fd, const char *text, size_t len)
{
	(void)!send(fd, text, len, MSG_NOSIGNAL);
	close(fd);
}

void shfs_control_status(struct shfs_recorder *r,
                         const struct shfs_control_driver *driver, struct shfs_buf *out)
{
	const struct shfs_status common = {
		.root = r->root,
		.store = r->store,
		.capture = r->capture,
		.rules = &r->rules,
		.since_ns = r->since_ns,
		.lost = r->lost,
		.waiting_bytes = driver->waiting_bytes,
	};

	shfs_status_write(out, &common);
	shfs_status_line(out, "backend", driver->name);
	if (*driver->why)
		shfs_status_line(out, "backend_reason", driver->why);
}

struct sync {
	int fd;
};

static void answer_sealed(void *arg, int error, const char *segment)
{
	struct sync *sync = arg;
	char text[16];
	int len = snprintf(text, sizeof(text), "%d", error);

	if (error)
		shfs_control_answer(sync->fd, text, (size_t)len);
	else
		shfs_control_answer(sync->fd, segment, strlen(segment));
	free(sync);
}

static void answer_synced(void *arg, int error)
{
	answer_sealed(arg, error, "ok");
}

static void begin_capture_sync(struct shfs_recorder *r, int fd, bool seal)
{
	struct sync *sync = malloc(sizeof(*sync));
	int error;

	if (!sync) {
		close(fd);
		return;
	}
	sync->fd = fd;
	error = seal ? shfs_capture_seal(r->capture, answer_sealed, sync)
	             : shfs_capture_sync(r->capture, answer_synced, sync);
	if (error)
		answer_synced(sync, error);
}

void shfs_control_sync(struct shfs_recorder *r, int fd)
{
	begin_capture_sync(r, fd, false);
}

void shfs_control_seal(struct shfs_recorder *r, int fd)
{
	begin_capture_sync(r, fd, true);
}
