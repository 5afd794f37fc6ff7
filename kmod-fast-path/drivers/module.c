/* SPDX-License-Identifier: MIT */
/*
 * The driver on top of shfs.ko (module/device.h): events of all CPUs in one order, with
 * the files that were written as descriptors.
 */
#include "kmod-fast-path/drivers/module.h"
#include "common/clock.h"
#include "common/util.h"
#include "kmod-fast-path/drivers/driver.h"
#include "kmod-fast-path/module/device.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#define ENDED_MAX 256 /* processes whose end was reported lately */

struct ring {
	struct shfs_device_ring *shared; /* NULL: there is no such CPU */
	const char *data;
	uint64_t head, tail; /* of the current drain */
	uint64_t lost;       /* reported so far */
};

struct shfs_driver {
	int fd, root, mountinfo;
	unsigned rings_count;
	size_t ring_bytes;
	struct ring *rings;
	int mounts;
	bool is_mapped_fs; /* stat(2) does not say what inodes hold */
	uint64_t unseen, untracked;
	struct {
		uint32_t pid;
		uint64_t start_ns;
	} ended[ENDED_MAX];
	unsigned ended_next;
	_Alignas(8) char copy[SHFS_EVENT_SIZE_MAX];
};

/* --- open and close --- */

static int open_device(struct shfs_buf *why)
{
	int fd = open(SHFS_DEVICE_PATH, O_RDWR | O_CLOEXEC);

	if (fd >= 0)
		return fd;
	fd = -errno;
	if (fd == -ENOENT)
		shfs_buf_str(why, "the kernel module shfs is not loaded (modprobe shfs)");
	else
		shfs_buf_printf(why, "%s: %s", SHFS_DEVICE_PATH, strerror(-fd));
	return fd;
}

static int order_device_watch(int device, const struct shfs_subscription_order *order,
                              struct shfs_device_subscription *answer,
                              struct shfs_buf *why)
{
	int r;

	*answer = (struct shfs_device_subscription){
		.version = SHFS_EVENT_VERSION,
		.root = order->root_fd,
		.uid = order->uid,
		.pid = order->pid,
	};
	if (!ioctl(device, SHFS_DEVICE_SUBSCRIBE, answer))
		return 0;
	r = -errno;
	if (r == -EPROTO || r == -ENOTTY)
		shfs_buf_str(why, "the kernel module shfs is of another version");
	else
		shfs_buf_printf(why, "the kernel module shfs: %s", strerror(-r));
	return r;
}

static int map_rings(struct shfs_driver *d)
{
	size_t bytes = SHFS_DEVICE_HEADER_BYTES + d->ring_bytes;

	d->rings = calloc(d->rings_count, sizeof(*d->rings));
	if (!d->rings)
		return -ENOMEM;
	for (unsigned i = 0; i < d->rings_count; i++) {
		char *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, d->fd,
		                 (off_t)SHFS_DEVICE_RING_OFFSET(i, bytes));

		if (map == MAP_FAILED && errno == ENXIO)
			continue;
		if (map == MAP_FAILED)
			return -errno;
		d->rings[i].shared = (struct shfs_device_ring *)map;
		d->rings[i].data = map + SHFS_DEVICE_HEADER_BYTES;
	}
	return 0;
}

static void module_close(struct shfs_driver *d)
{
	if (!d)
		return;
	for (unsigned i = 0; d->rings && i < d->rings_count; i++)
		if (d->rings[i].shared)
			munmap(d->rings[i].shared,
			       SHFS_DEVICE_HEADER_BYTES + d->ring_bytes);
	free(d->rings);
	shfs_closep(&d->mountinfo);
	shfs_closep(&d->fd);
	free(d);
}

/* Does stat(2) show other numbers than the inode has? btrfs has a device for each
 * subvolume, overlayfs the inode numbers of the file system below. */
static bool is_mapped_fs(int root)
{
	struct statfs fs;

	return fstatfs(root, &fs) < 0 || fs.f_type == BTRFS_SUPER_MAGIC ||
	       fs.f_type == OVERLAYFS_SUPER_MAGIC;
}

static int start_module_watch(struct shfs_driver *d,
                              const struct shfs_subscription_order *order,
                              struct shfs_buf *why)
{
	struct shfs_device_subscription answer;
	int r;

	d->fd = open_device(why);
	if (d->fd < 0)
		return d->fd;
	r = order_device_watch(d->fd, order, &answer, why);
	if (r < 0)
		return r;
	d->root = order->root_fd;
	d->rings_count = answer.rings;
	d->ring_bytes = answer.ring_bytes;
	d->is_mapped_fs = is_mapped_fs(d->root);
	d->mountinfo = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
	r = d->mountinfo < 0 ? -errno : map_rings(d);
	if (r >= 0) {
		d->mounts = shfs_module_mounts(d->fd, d->root, d->mountinfo);
		r = d->mounts == -E2BIG ? 0 : d->mounts;
	}
	if (r < 0)
		shfs_buf_printf(why, "the kernel module shfs: %s", strerror(-r));
	return r < 0 ? r : 0;
}

static int module_open(const struct shfs_subscription_order *order,
                       struct shfs_driver **out, struct shfs_buf *why)
{
	struct shfs_driver *d = calloc(1, sizeof(*d));
	int r;

	if (!d)
		return -ENOMEM;
	d->fd = d->mountinfo = -1;
	r = start_module_watch(d, order, why);
	if (r < 0) {
		module_close(d);
		return r;
	}
	*out = d;
	return 0;
}

static int module_fd(const struct shfs_driver *d)
{
	return d->fd;
}

/* --- drain --- */

/*
 * Waits for an event that is being made: so all events with a time before this call lie
 * before the returned head.
 */
static uint64_t settled_head(struct shfs_device_ring *shared)
{
	uint64_t before = __atomic_load_n(&shared->head, __ATOMIC_ACQUIRE);
	uint64_t head = before;

	while (__atomic_load_n(&shared->busy, __ATOMIC_ACQUIRE) && head == before) {
		sched_yield();
		head = __atomic_load_n(&shared->head, __ATOMIC_ACQUIRE);
	}
	return __atomic_load_n(&shared->head, __ATOMIC_ACQUIRE);
}

static void free_read(struct ring *ring)
{
	__atomic_store_n(&ring->shared->tail, ring->tail, __ATOMIC_RELEASE);
}

/* The next event of a ring; NULL: there is none. */
static const struct shfs_event *peek_event(const struct shfs_driver *d, struct ring *ring)
{
	while (ring->tail != ring->head) {
		const struct shfs_event *event =
			(const void *)(ring->data + ring->tail % d->ring_bytes);

		if (event->type != SHFS_DEVICE_FILLER)
			return event;
		ring->tail += event->size;
		free_read(ring);
	}
	return NULL;
}

/* The ring with the oldest event that is not younger than until. */
static struct ring *oldest_ring(const struct shfs_driver *d, uint64_t until)
{
	struct ring *best = NULL;
	uint64_t best_ns = until;

	for (unsigned i = 0; i < d->rings_count; i++) {
		struct ring *ring = &d->rings[i];
		const struct shfs_event *event =
			ring->shared ? peek_event(d, ring) : NULL;

		if (event && event->time_ns <= best_ns &&
		    (!best || event->time_ns < best_ns)) {
			best = ring;
			best_ns = event->time_ns;
		}
	}
	return best;
}

/* Was the end of this process reported? Threads that end at once may each be the last. */
static bool was_exit_reported(struct shfs_driver *d, const struct shfs_event *event)
{
	const struct shfs_event_process *p = &event->process;

	if (event->type != SHFS_EVENT_EXIT)
		return false;
	for (unsigned i = 0; i < ENDED_MAX; i++)
		if (d->ended[i].pid == p->pid && d->ended[i].start_ns == p->start_ns)
			return true;
	d->ended[d->ended_next % ENDED_MAX].pid = p->pid;
	d->ended[d->ended_next++ % ENDED_MAX].start_ns = p->start_ns;
	return false;
}

static int take_pinned_file(struct shfs_driver *d, const struct shfs_event *event)
{
	struct shfs_device_take order = { .pin = event->file.pin };

	return ioctl(d->fd, SHFS_DEVICE_TAKE, &order) < 0 ? -errno : order.fd;
}

/* Sets the numbers that stat(2) shows, where the inode has others. */
static void fix_identity(struct shfs_driver *d, struct shfs_event *event, int content_fd)
{
	char path[SHFS_EVENT_PATH_MAX + 1];
	struct stat st;

	if (content_fd >= 0) {
		if (fstat(content_fd, &st) < 0)
			return;
	} else {
		memcpy(path, event->text, event->text_len);
		path[event->text_len] = 0;
		if (fstatat(d->root, event->text_len ? path : ".", &st,
		            AT_SYMLINK_NOFOLLOW) < 0 ||
		    shfs_timespec_ns(st.st_mtim) != event->file.mtime_ns ||
		    (uint64_t)st.st_size != event->file.bytes)
			return;
	}
	event->file.dev = st.st_dev;
	event->file.ino = st.st_ino;
}

static bool has_file(const struct shfs_event *event)
{
	return event->type <= SHFS_EVENT_CHANGE;
}

static void report_ring_event(struct shfs_driver *d, const struct shfs_event *event,
                              shfs_event_sink sink, void *arg)
{
	_cleanup_close_ int content_fd = -1;
	struct shfs_event *copy = (struct shfs_event *)d->copy;

	if (was_exit_reported(d, event))
		return;
	if (!(event->flags & SHFS_EVENT_PINNED) &&
	    !(d->is_mapped_fs && has_file(event))) {
		sink(arg, event, -1);
		return;
	}
	memcpy(copy, event, MIN(event->size, sizeof(d->copy)));
	if (copy->flags & SHFS_EVENT_PINNED) {
		content_fd = take_pinned_file(d, copy);
		if (content_fd < 0)
			copy->flags &= ~(unsigned)SHFS_EVENT_PINNED;
	}
	if (d->is_mapped_fs)
		fix_identity(d, copy, content_fd);
	sink(arg, copy, content_fd);
}

static void report_ring_loss(uint64_t count, unsigned cpu, shfs_event_sink sink,
                             void *arg)
{
	struct shfs_event event = {
		.size = sizeof(event),
		.type = SHFS_EVENT_LOST,
		.cpu = (__u16)cpu,
		.time_ns = (uint64_t)shfs_clock_ns(CLOCK_BOOTTIME),
		.lost.count = count,
	};

	sink(arg, &event, -1);
}

/* Reports a loss if there is a new mount: it was not watched until now. */
static void look_at_mounts(struct shfs_driver *d, shfs_event_sink sink, void *arg)
{
	struct pollfd changed = { .fd = d->mountinfo, .events = POLLPRI };
	int before = d->mounts;

	if (poll(&changed, 1, 0) <= 0 || !(changed.revents & POLLPRI))
		return;
	d->mounts = shfs_module_mounts(d->fd, d->root, d->mountinfo);
	if (d->mounts < 0 || d->mounts > before)
		report_ring_loss(1, 0, sink, arg);
}

static int look_at_status(struct shfs_driver *d, shfs_event_sink sink, void *arg)
{
	struct shfs_device_status status;
	uint64_t lost;

	if (ioctl(d->fd, SHFS_DEVICE_STATUS, &status) < 0)
		return -errno;
	lost = status.unseen - d->unseen + status.untracked - d->untracked;
	d->unseen = status.unseen;
	d->untracked = status.untracked;
	if (lost)
		report_ring_loss(lost, 0, sink, arg);
	return 0;
}

static int module_drain(struct shfs_driver *d, shfs_event_sink sink, void *arg)
{
	uint64_t until = (uint64_t)shfs_clock_ns(CLOCK_BOOTTIME), lost;
	struct ring *ring;

	for (unsigned i = 0; i < d->rings_count; i++)
		if (d->rings[i].shared)
			d->rings[i].head = settled_head(d->rings[i].shared);
	while ((ring = oldest_ring(d, until))) {
		const struct shfs_event *event = peek_event(d, ring);

		report_ring_event(d, event, sink, arg);
		ring->tail += event->size;
		free_read(ring);
	}
	/* lost events come after those that were drained */
	for (unsigned i = 0; i < d->rings_count; i++) {
		if (!d->rings[i].shared)
			continue;
		lost = __atomic_load_n(&d->rings[i].shared->lost, __ATOMIC_RELAXED);
		if (lost != d->rings[i].lost)
			report_ring_loss(lost - d->rings[i].lost, i, sink, arg);
		d->rings[i].lost = lost;
	}
	look_at_mounts(d, sink, arg);
	return look_at_status(d, sink, arg);
}

const struct shfs_driver_ops shfs_driver_module = {
	.name = "module",
	.open = module_open,
	.fd = module_fd,
	.drain = module_drain,
	.close = module_close,
};
