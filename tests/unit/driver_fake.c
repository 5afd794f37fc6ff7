/* SPDX-License-Identifier: MIT */
#include "tests/unit/driver_fake.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>

struct shfs_driver {
	int root_fd, script_fd, early_fd, event_fd;
	int played_fd;        /* counts lines, for who looks into /proc/PID/fdinfo */
	struct shfs_buf text; /* of the script, not told yet */
	uint64_t sequence;
};

static int unable(const struct shfs_subscription_order *order, struct shfs_driver **out,
                  struct shfs_buf *why)
{
	shfs_buf_str(why, "it never works");
	return -EOPNOTSUPP;
}

static int fake_open(const struct shfs_subscription_order *order,
                     struct shfs_driver **out, struct shfs_buf *why)
{
	struct shfs_driver *d = calloc(1, sizeof(*d));

	if (!d)
		return -ENOMEM;
	d->root_fd = order->root_fd;
	d->event_fd = eventfd(0, EFD_CLOEXEC);
	d->played_fd = eventfd(0, EFD_CLOEXEC);
	d->early_fd = openat(order->root_fd, "locked/early", O_PATH | O_CLOEXEC);
	d->script_fd = openat(order->root_fd, "script", O_RDONLY | O_CLOEXEC);
	*out = d;
	if (d->script_fd >= 0)
		return 0;
	shfs_buf_str(why, "there is no script");
	shfs_driver_fake.close(d);
	return -ENOENT;
}

static int fake_fd(const struct shfs_driver *d)
{
	return d->event_fd;
}

static void fake_close(struct shfs_driver *d)
{
	if (!d)
		return;
	shfs_closep(&d->script_fd);
	shfs_closep(&d->early_fd);
	shfs_closep(&d->event_fd);
	shfs_closep(&d->played_fd);
	shfs_buf_free(&d->text);
	free(d);
}

static uint16_t type_of(const char *word)
{
	static const struct {
		const char *word;
		uint16_t type;
	} types[] = {
		{ "close", SHFS_EVENT_CLOSE },   { "pinned", SHFS_EVENT_CLOSE },
		{ "early", SHFS_EVENT_CLOSE },   { "rename", SHFS_EVENT_RENAME },
		{ "link", SHFS_EVENT_LINK },     { "unlink", SHFS_EVENT_UNLINK },
		{ "fork", SHFS_EVENT_FORK },     { "exec", SHFS_EVENT_EXEC },
		{ "exit", SHFS_EVENT_EXIT },     { "directory", SHFS_EVENT_DIRECTORY },
		{ "exists", SHFS_EVENT_CHANGE },
	};

	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if (!strcmp(types[i].word, word))
			return types[i].type;
	return 0;
}

struct line {
	unsigned n, uid, pid;
	char type[16], path[4200], path2[4200];
};

static void tell(struct shfs_driver *d, const struct line *l, int fd,
                 shfs_event_sink sink, void *arg)
{
	size_t len = strlen(l->path), len2 = strlen(l->path2);
	size_t size = (sizeof(struct shfs_event) + len + len2 + 7) & ~(size_t)7;
	struct shfs_event *event = calloc(1, size);

	if (!event)
		abort();
	event->size = (uint32_t)size;
	event->type = type_of(l->type);
	event->text_len = (uint16_t)len;
	event->text2_len = (uint16_t)len2;
	event->process.uid = l->uid;
	event->process.pid = event->process.tid = l->pid;
	event->flags = fd >= 0 ? SHFS_EVENT_PINNED : 0;
	memcpy(event->text, l->path, len);
	memcpy(event->text + len, l->path2, len2);
	if (!strcmp(l->type, "broken"))
		event->size = 4;
	for (unsigned i = 0; i < l->n; i++) {
		event->sequence = d->sequence++;
		sink(arg, event, fd);
	}
	free(event);
}

static int play(struct shfs_driver *d, const char *text, shfs_event_sink sink, void *arg)
{
	struct line l = { .n = 1 };
	int fd = -1, at = 0;

	if (sscanf(text, "%u%n", &l.n, &at) == 1)
		text += at;
	sscanf(text, "%15s %u %u %4199s %4199s", l.type, &l.uid, &l.pid, l.path, l.path2);
	if (!strcmp(l.type, "end"))
		return -EIO;
	if (!strcmp(l.type, "crash"))
		_exit(66);
	while (!strcmp(l.type, "hang"))
		pause();
	if (!strcmp(l.type, "exists")) {
		if (faccessat(AT_FDCWD, l.path, F_OK, AT_EACCESS))
			return 0;
		strcpy(l.path, "x");
	}
	if (!strcmp(l.type, "pinned"))
		fd = openat(d->root_fd, l.path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	tell(d, &l, strcmp(l.type, "early") ? fd : d->early_fd, sink, arg);
	shfs_closep(&fd);
	return 0;
}

static int drain(struct shfs_driver *d, shfs_event_sink sink, void *arg)
{
	char chunk[4096], *end;
	ssize_t n;
	int r = 0;

	while ((n = read(d->script_fd, chunk, sizeof(chunk))) > 0)
		shfs_buf_add(&d->text, chunk, (size_t)n);
	while (!r && d->text.data && (end = memchr(d->text.data, '\n', d->text.len))) {
		size_t len = (size_t)(end - d->text.data) + 1;

		*end = '\0';
		r = play(d, d->text.data, sink, arg);
		eventfd_write(d->played_fd, 1);
		d->text.len -= len;
		memmove(d->text.data, d->text.data + len, d->text.len);
	}
	return r;
}

const struct shfs_driver_ops shfs_driver_fake = {
	.name = "fake",
	.open = fake_open,
	.fd = fake_fd,
	.drain = drain,
	.close = fake_close,
};

const struct shfs_driver_ops shfs_driver_unable = {
	.name = "unable",
	.open = unable,
};

const struct shfs_driver_ops *const shfs_drivers_fake[] = {
	&shfs_driver_unable,
	&shfs_driver_fake,
	NULL,
};
