/* SPDX-License-Identifier: MIT */
#include "kmod-fast-path/drivers/bpf-pins.h"

#include "common/clock.h"
#include "common/util.h"
#include "kmod-fast-path/drivers/fanotify-closes.h"

#include <errno.h>
#include <linux/fs.h>
#include <poll.h>
#include <sys/fanotify.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <uthash.h>

#define PINS_MAX   16384 /* the kernel queues at most so many closes */
#define AT_ONCE    128
#define CLOSING_NS 2000000 /* fanotify reports a close at most so much later */

struct pin {
	uint64_t ino;
	int fd;
	unsigned turn; /* the turn in which it was read */
	UT_hash_handle hh;
};

struct shfs_pins {
	int closes_fd;
	dev_t dev;
	unsigned turn, max;
	struct pin *pins; /* by ino: a held file keeps its number; the oldest pin first */
};

struct shfs_pins *shfs_pins_open(int root_fd)
{
	_cleanup_buf_ struct shfs_buf why = { 0 };
	struct shfs_pins *p = calloc(1, sizeof(*p));
	struct rlimit fds = { 0 };
	struct stat st;

	if (!p)
		return NULL;
	p->closes_fd = fan_closes_open(0, &why);
	if (p->closes_fd >= 0 && !fstat(root_fd, &st) &&
	    !fanotify_mark(p->closes_fd, FAN_MARK_ADD | FAN_MARK_MOUNT, FAN_CLOSE_WRITE,
	                   root_fd, NULL)) {
		p->dev = st.st_dev;
		getrlimit(RLIMIT_NOFILE, &fds);
		p->max = (unsigned)MIN(fds.rlim_cur / 2, (rlim_t)PINS_MAX);
		return p;
	}
	shfs_pins_close(p);
	return NULL;
}

static void drop_pin(struct shfs_pins *p, struct pin *pin)
{
	HASH_DEL(p->pins, pin);
	close(pin->fd);
	free(pin);
}

void shfs_pins_close(struct shfs_pins *p)
{
	struct pin *pin, *next;

	if (!p)
		return;
	HASH_ITER (hh, p->pins, pin, next)
		drop_pin(p, pin);
	shfs_closep(&p->closes_fd);
	free(p);
}

/* Takes ownership of file_fd. */
static void add_pin(struct shfs_pins *p, int file_fd)
{
	_cleanup_close_ int fd = file_fd;
	struct pin *pin;
	struct stat st;

	if (fstat(fd, &st))
		return;
	if (!S_ISREG(st.st_mode))
		fan_closes_ignore(p->closes_fd, fd);
	if (!S_ISREG(st.st_mode) || st.st_dev != p->dev)
		return;
	HASH_FIND(hh, p->pins, &st.st_ino, sizeof(st.st_ino), pin);
	if (pin)
		drop_pin(p, pin);
	pin = calloc(1, sizeof(*pin));
	if (!pin)
		return;
	*pin = (struct pin){ .ino = st.st_ino, .fd = TAKE_FD(fd), .turn = p->turn };
	HASH_ADD(hh, p->pins, ino, sizeof(pin->ino), pin);
}

static bool has_room(const struct shfs_pins *p)
{
	return HASH_COUNT(p->pins) + AT_ONCE <= p->max;
}

/* Reads a batch of closes; false: the queue is empty. */
static bool read_closes_batch(struct shfs_pins *p)
{
	_Alignas(8) char data[AT_ONCE * sizeof(struct fanotify_event_metadata)];
	const struct fanotify_event_metadata *e = (const void *)data;
	ssize_t n = read(p->closes_fd, data, sizeof(data));
	size_t count = 0;

	if (n < 0) /* another error: the kernel dropped a file it could not open */
		return errno != EAGAIN;
	for (; FAN_EVENT_OK(e, n); e = FAN_EVENT_NEXT(e, n), count++)
		if (e->fd >= 0) /* no overflow */
			add_pin(p, e->fd);
	return count == AT_ONCE;
}

static const struct pin *find_pin(const struct shfs_pins *p,
                                  const struct shfs_event_file *file)
{
	struct pin *pin;
	int generation;

	HASH_FIND(hh, p->pins, &file->ino, sizeof(file->ino), pin);
	/* an earlier file may have had this number, and its close was not queued */
	if (pin && file->generation && !ioctl(pin->fd, FS_IOC_GETVERSION, &generation) &&
	    (uint32_t)generation != file->generation)
		return NULL;
	return pin;
}

int shfs_pins_find(struct shfs_pins *p, const struct shfs_event *event)
{
	const struct pin *pin;
	bool more = true;

	if (!p || event->file.dev)
		return -1;
	while (!(pin = find_pin(p, &event->file)) && more)
		more = has_room(p) && read_closes_batch(p);
	if (!pin)
		return -1;
	if (!has_room(p)) /* both queues have closes in almost the same order */
		while (p->pins != pin)
			drop_pin(p, p->pins);
	return fan_closes_pin(pin->fd);
}

bool shfs_pins_wait(struct shfs_pins *p, const struct shfs_event *event)
{
	struct pollfd fd = { p ? p->closes_fd : -1, POLLIN, 0 };

	return p && !event->file.dev && event->flags & SHFS_EVENT_WRITABLE &&
	       shfs_clock_ns(CLOCK_BOOTTIME) - (int64_t)event->time_ns < CLOSING_NS &&
	       poll(&fd, 1, 1) >= 0;
}

void shfs_pins_begin(struct shfs_pins *p)
{
	if (!p)
		return;
	while (has_room(p) && read_closes_batch(p))
		;
	p->turn++;
}

void shfs_pins_end(struct shfs_pins *p)
{
	struct pin *pin, *next;

	if (!p)
		return;
	HASH_ITER (hh, p->pins, pin, next) {
		if (pin->turn == p->turn)
			break;
		drop_pin(p, pin);
	}
}
