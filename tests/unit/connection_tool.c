/* SPDX-License-Identifier: MIT */
/*
 * A recorder that only shows what it is told, for cases/test_helper.py:
 *
 *   connection_tool SOCKET|--spawn=PROGRAM DRIVER DIR
 *
 * Each line of standard input is a cookie: it syncs, prints what came before it, an event
 * a line, and "synced COOKIE". The content of a file is read as its user may.
 */
#include "kmod-fast-path/recorder/connection.h"

#include "common/io.h"
#include "kmod-fast-path/protocol/packet.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>

static int fail(const char *what, int r, const struct shfs_buf *why)
{
	fprintf(stderr, "%s: %s (%s)\n", what, why->data ? why->data : "", strerror(-r));
	return 1;
}

static void show_content(int fd)
{
	_cleanup_buf_ struct shfs_buf content = { 0 };
	_cleanup_close_ int readable = -1;
	char path[40];
	int r;

	if (fd < 0)
		return;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	readable = open(path, O_RDONLY | O_CLOEXEC);
	r = readable < 0 ? -errno : shfs_read_fd(readable, 1 << 20, &content);
	if (r)
		printf(" content=%s", strerror(-r));
	else
		printf(" content=%zu:%s", content.len, content.len ? content.data : "");
	close(fd);
}

static void show(const struct shfs_told *told)
{
	const struct shfs_event *e = told->event;

	if (e->type == SHFS_EVENT_LOST) {
		printf("lost %" PRIu64 "\n", (uint64_t)e->lost.count);
		return;
	}
	printf("%u %u %u %.*s %.*s%s", e->type, e->process.uid, e->process.pid,
	       e->text_len, e->text, e->text2_len, e->text + e->text_len,
	       e->flags & SHFS_EVENT_PINNED ? " pinned" : "");
	show_content(told->content_fd);
	putchar('\n');
}

/* Until the cookie is back. */
static int take(struct shfs_connection *c, uint64_t cookie)
{
	struct pollfd fd = { shfs_connection_fd(c), POLLIN };
	struct shfs_told told;
	int r;

	while ((r = shfs_connection_next(c, &told)) >= 0) {
		if (r == SHFS_TOLD_EVENT)
			show(&told);
		else if (!r)
			poll(&fd, 1, 1000);
		else if (told.cookie == cookie)
			break;
	}
	return r < 0 ? r : 0;
}

static int work(struct shfs_connection *c)
{
	uint64_t cookie;
	int r = 0;

	while (!r && scanf("%" SCNu64, &cookie) == 1) {
		r = shfs_connection_sync(c, cookie);
		if (!r || r == -EPIPE)
			r = take(c, cookie);
		if (r)
			printf("ended %s\n", strerror(-r));
		else
			printf("synced %" PRIu64 "\n", cookie);
		fflush(stdout);
	}
	return 0;
}

int main(int argc, char **argv)
{
	_cleanup_buf_ struct shfs_buf why = { 0 };
	_cleanup_close_ int root = argc == 4 ? open(argv[3], O_RDONLY | O_CLOEXEC) : -1;
	struct shfs_connection *c;
	int r;

	if (root < 0)
		return 2;
	if (!strncmp(argv[1], "--spawn=", 8))
		r = shfs_connection_spawn(argv[1] + 8, &c, &why);
	else
		r = shfs_connection_open(argv[1], &c, &why);
	if (r)
		return fail("open", r, &why);
	r = shfs_connection_subscribe(c, root, argv[2], &why);
	if (!r) {
		printf("ready %s; %s\n", shfs_connection_driver(c),
		       shfs_connection_why(c));
		fflush(stdout);
		r = work(c);
	} else {
		r = fail("watch", r, &why);
	}
	shfs_connection_close(c);
	return r;
}
