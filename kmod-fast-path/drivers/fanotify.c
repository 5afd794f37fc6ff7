/* SPDX-License-Identifier: MIT */
/* The fanotify driver: closes, and the events made of them. */
#include "kmod-fast-path/drivers/fanotify-closes.h"
#include "kmod-fast-path/drivers/fanotify-internal.h"

#include "common/clock.h"
#include "common/path.h"
#include "common/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/fanotify.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>

#define CTIME_LAG_NS 20000000 /* behind a change: a tick, and more where CPUs sleep */

#ifndef STATX_MNT_ID
#define STATX_MNT_ID 0x1000
#endif

#define CLOSES_AT_ONCE 170

struct close {
	int fd;
	uint64_t mask;
	uint32_t pid;
	bool inside, deleted;
	char *path;
	struct fan_object *object;
	struct statx st;
};

/* --- events --- */

struct shfs_event *fan_event(struct shfs_driver *d, unsigned type, uint32_t pid)
{
	uint64_t now_ns = (uint64_t)shfs_clock_ns(CLOCK_BOOTTIME);
	struct shfs_event *e = &d->room.event;
	const struct shfs_life *life;
	bool sure;

	if (pid == (uint32_t)getpid() || (d->watcher && pid == (uint32_t)d->watcher))
		return NULL;
	life = shfs_connector_find(d->processes, pid, &sure);
	if (!life)
		return NULL;
	memset(e, 0, sizeof(*e));
	e->type = (uint16_t)type;
	e->time_ns = life->exit_ns ? MIN(life->exit_ns, now_ns) : now_ns;
	e->process = life->process;
	if (!sure)
		e->flags |= SHFS_EVENT_INEXACT;
	return e;
}

void fan_tell(struct shfs_driver *d, int content_fd)
{
	d->told = true;
	d->room.event.sequence = shfs_connector_sequence(d->processes);
	d->sink(d->arg, &d->room.event, content_fd);
}

static void report_lost_events(struct shfs_driver *d)
{
	struct shfs_event *e = &d->room.event;

	if (!d->lost)
		return;
	memset(e, 0, sizeof(*e));
	e->type = SHFS_EVENT_LOST;
	e->time_ns = (uint64_t)shfs_clock_ns(CLOCK_BOOTTIME);
	e->lost.count = d->lost;
	d->lost = 0;
	shfs_event_set_text(&d->room, (struct shfs_bytes){ 0 }, (struct shfs_bytes){ 0 });
	fan_tell(d, -1);
}

void fan_file_of_stat(struct shfs_event_file *file, const struct stat *st)
{
	*file = (struct shfs_event_file){
		.dev = st->st_dev,
		.ino = st->st_ino,
		.bytes = (uint64_t)st->st_size,
		.mtime_ns = shfs_timespec_ns(st->st_mtim),
		.ctime_ns = shfs_timespec_ns(st->st_ctim),
		.mode = st->st_mode,
		.nlink = (uint32_t)st->st_nlink,
		.uid = st->st_uid,
	};
}

static int64_t statx_ns(struct statx_timestamp t)
{
	return shfs_time_ns(t.tv_sec, t.tv_nsec);
}

static void file_of_close(struct shfs_event_file *file, const struct close *c)
{
	*file = (struct shfs_event_file){
		.dev = makedev(c->st.stx_dev_major, c->st.stx_dev_minor),
		.ino = c->st.stx_ino,
		.bytes = c->st.stx_size,
		.mtime_ns = statx_ns(c->st.stx_mtime),
		.ctime_ns = statx_ns(c->st.stx_ctime),
		.mode = c->st.stx_mode,
		.nlink = c->st.stx_nlink,
		.uid = c->st.stx_uid,
	};
	if (c->object)
		file->generation = fan_object_generation(c->object);
}

/* --- paths --- */

static const char *path_below_root(const char *path, const char *root)
{
	const char *relative = root ? shfs_path_relative(path, root) : NULL;

	return relative && *relative ? relative : NULL;
}

const char *fan_below(struct shfs_driver *d, const char *path)
{
	const char *relative = path_below_root(path, d->root);

	return relative ? relative : path_below_root(path, d->old_root);
}

static char *read_link(const struct shfs_driver *d, int fd)
{
	char name[16], target[SHFS_EVENT_PATH_MAX + 16];
	ssize_t n;

	snprintf(name, sizeof(name), "%d", fd);
	n = readlinkat(d->self_fds, name, target, sizeof(target));
	return n < 0 || n == sizeof(target) ? NULL : strndup(target, (size_t)n);
}

/* Removes the mark that the kernel puts behind the name of a deleted file. */
static bool take_off_deleted(char *path)
{
	static const char mark[] = " (deleted)";
	size_t len = strlen(path), mark_len = sizeof(mark) - 1;

	if (len <= mark_len || strcmp(path + len - mark_len, mark))
		return false;
	path[len - mark_len] = '\0';
	return true;
}

char *fan_path_of(struct shfs_driver *d, int fd)
{
	char *path = read_link(d, fd);
	struct stat st;

	if (path && !fstat(fd, &st) && !st.st_nlink)
		take_off_deleted(path);
	return path;
}

/* The root may have been renamed, or a directory that it is in. */
static void refresh_root(struct shfs_driver *d)
{
	char *root = read_link(d, d->root_fd);

	if (!root || (d->root && !strcmp(root, d->root))) {
		free(root);
		return;
	}
	free(d->old_root);
	d->old_root = d->root;
	d->root = root;
	d->epoch++;
}

/* --- closes: what they are of --- */

static bool path_leads_to_statx(const char *path, const struct statx *st)
{
	struct stat named;

	return !lstat(path, &named) && named.st_ino == st->stx_ino &&
	       named.st_dev == makedev(st->stx_dev_major, st->stx_dev_minor);
}

/* Finds another name of a file whose own is gone, or that never had one: O_TMPFILE. */
static void find_other_name(struct shfs_driver *d, struct close *c)
{
	const char *slash = strrchr(c->path, '/');
	_cleanup_close_ int fd = -1;
	char number[32], *other;

	snprintf(number, sizeof(number), "/#%llu", (unsigned long long)c->st.stx_ino);
	if (!slash || strcmp(slash, number) || !c->object)
		return;
	other = fan_remembered(d, c->object);
	if (!other || !path_leads_to_statx(other, &c->st)) {
		free(other);
		fd = fan_object_open(d, c->object);
		other = fd < 0 ? NULL : fan_path_of(d, fd);
	}
	if (!other)
		return;
	free(c->path);
	c->path = other;
	c->deleted = false;
}

static struct fan_object *object_of_close(struct shfs_driver *d, struct close *c)
{
	if (!c->object)
		c->object = fan_object_of_fd(d, c->fd,
		                             makedev(c->st.stx_dev_major,
		                                     c->st.stx_dev_minor));
	return c->object;
}

static void set_path(struct close *c, char *path, bool deleted)
{
	free(c->path);
	c->path = path;
	c->deleted = deleted;
}

/* The path of the file below the first mount of its file system, where names are
 * reported. NULL: it is gone. */
static char *first_name(struct shfs_driver *d, struct close *c, bool *deleted)
{
	const struct fan_object *object = object_of_close(d, c);
	_cleanup_close_ int fd = object ? fan_object_open(d, object) : -1;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) || st.st_ino != c->st.stx_ino)
		return NULL;
	*deleted = !st.st_nlink;
	return fan_path_of(d, fd);
}

/* Finds the path here of a file that was closed through another mount or namespace. */
static bool find_here(struct shfs_driver *d, struct close *c)
{
	bool deleted;
	char *path = first_name(d, c, &deleted);

	if (!path)
		return false;
	set_path(c, path, deleted);
	return fan_below(d, path);
}

/*
 * A mount in the root may show a part of it a second time. Renames there are reported
 * with its first path, so closes are, too.
 */
static void find_first_name(struct shfs_driver *d, struct close *c)
{
	const struct fan_object *object = object_of_close(d, c);
	_cleanup_free_ char *path = NULL;
	bool deleted;

	if (!object || d->mounts[object->key.mount].mount_id == c->st.stx_mnt_id)
		return;
	path = first_name(d, c, &deleted);
	if (path && fan_below(d, path))
		set_path(c, TAKE_PTR(path), deleted);
}

/* Was it closed through a mount that is watched? */
static bool is_here(struct shfs_driver *d, const struct close *c)
{
	if (fan_mounts_has_mount(d, c->st.stx_mnt_id))
		return true;
	fan_mounts_refresh(d);
	return fan_mounts_has_mount(d, c->st.stx_mnt_id);
}

/* Is the path below the root, which may have been renamed? */
static bool is_below_now(struct shfs_driver *d, const char *path)
{
	if (!fan_below(d, path))
		refresh_root(d);
	return fan_below(d, path);
}

static bool is_close_inside(struct shfs_driver *d, struct close *c)
{
	dev_t dev = makedev(c->st.stx_dev_major, c->st.stx_dev_minor);

	if (is_here(d, c)) {
		if (!is_below_now(d, c->path))
			return false;
		find_first_name(d, c);
		return true;
	}
	for (size_t i = 0; i < d->n_mounts; i++)
		if (d->mounts[i].mount_id && d->mounts[i].dev == dev)
			return find_here(d, c);
	return false;
}

/* Is it outside, and was it always? Then its path is not looked up: that may lead into a
 * mount whose server never answers. */
static bool is_close_elsewhere(struct shfs_driver *d, const struct close *c)
{
	return !d->n_moved_out && is_here(d, c) && !is_below_now(d, c->path);
}

/* Finds out which file it is; false: it must not be reported. */
static bool identify_file(struct shfs_driver *d, struct close *c)
{
	if (statx(c->fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS | STATX_MNT_ID, &c->st))
		return false;
	if (!S_ISREG(c->st.stx_mode)) {
		fan_closes_ignore(d->closes_fd, c->fd);
		return false;
	}
	c->path = read_link(d, c->fd);
	if (!c->path)
		return false;
	if (is_close_elsewhere(d, c)) {
		c->deleted = !c->st.stx_nlink;
		return true;
	}
	if (!c->st.stx_nlink || !path_leads_to_statx(c->path, &c->st))
		c->deleted = take_off_deleted(c->path);
	c->inside = is_close_inside(d, c);
	return true;
}

/* Is it to be reported? Maybe also when it was moved out of the root since. */
static bool choose_close(struct shfs_driver *d, struct close *c)
{
	if (!c->inside && !d->n_moved_out) {
		if (c->mask & FAN_CLOSE_NOWRITE && !(c->mask & FAN_CLOSE_WRITE) &&
		    !c->deleted)
			fan_ignore_dir_of(d, c->path, &c->st);
		return false;
	}
	object_of_close(d, c);
	if (c->deleted && c->st.stx_nlink)
		find_other_name(d, c);
	return true;
}

/* --- closes: telling --- */

/*
 * Has it been written while it was open? By the time of its last change: other than at
 * its last close, or, where that is not known, since we watch. In doubt, it has.
 */
static bool was_file_written(struct shfs_driver *d, const struct close *c)
{
	struct fan_object *object = c->object;
	int64_t ctime_ns = statx_ns(c->st.stx_ctime);
	bool written = ctime_ns >= d->since_real_ns - d->tick_ns;

	if (!object)
		return written;
	if (object->ctime_ns)
		written = object->ctime_unsure || object->ctime_ns != ctime_ns;
	object->ctime_ns = ctime_ns;
	object->ctime_unsure = shfs_clock_ns(CLOCK_REALTIME) - ctime_ns < 2 * d->tick_ns;
	return written;
}

static void report_close_of_file(struct shfs_driver *d, const struct close *c,
                                 unsigned flags)
{
	struct shfs_event *e = fan_event(d, SHFS_EVENT_CLOSE, c->pid);
	_cleanup_close_ int content_fd = -1;
	const char *path = fan_below(d, c->path);
	uint64_t changed_ns;

	if (!e || !path)
		return;
	e->flags |= flags;
	file_of_close(&e->file, c);
	if (flags & SHFS_EVENT_WRITTEN) {
		/* it was closed behind that, most often at once */
		changed_ns =
			(uint64_t)(e->file.ctime_ns + d->real_offset_ns + CTIME_LAG_NS);
		e->time_ns = MIN(e->time_ns, changed_ns);
	}
	if (flags & SHFS_EVENT_WRITTEN || !c->st.stx_nlink)
		content_fd = fan_closes_pin(c->fd);
	if (content_fd >= 0)
		e->flags |= SHFS_EVENT_PINNED;
	shfs_event_set_text(&d->room, (struct shfs_bytes){ path, strlen(path) },
	                    (struct shfs_bytes){ 0 });
	fan_tell(d, content_fd);
}

static unsigned flags_of_write(struct shfs_driver *d, const struct close *c)
{
	unsigned flags = SHFS_EVENT_WRITABLE;

	if (c->object && c->object->creator == c->pid) {
		flags |= SHFS_EVENT_CREATED;
		c->object->creator = 0;
	}
	if (was_file_written(d, c))
		return flags | SHFS_EVENT_WRITTEN | SHFS_EVENT_INEXACT;
	return flags | SHFS_EVENT_READABLE;
}

static unsigned flags_of_read(const struct close *c)
{
	unsigned flags = SHFS_EVENT_READABLE;

	if (c->mask & FAN_OPEN_EXEC || (c->object && c->object->executor == c->pid))
		flags |= SHFS_EVENT_EXECUTED;
	return flags;
}

/*
 * A close by the kernel may come long after the descriptor was given up. Then, if the
 * file belongs to the user, the process that made it counts as the closer.
 */
static void find_closer(struct shfs_driver *d, struct close *c)
{
	if (d->uid && c->object && c->object->creator && c->st.stx_uid == d->uid &&
	    shfs_connector_is_kernel(d->processes, c->pid))
		c->pid = c->object->creator;
}

/* Reports the closes that one process made and the kernel merged. What it read may be
 * what it wrote, or what it wrote over; a file that it made was written first. */
static void report_closes(struct shfs_driver *d, struct close *c)
{
	bool reads = c->mask & FAN_CLOSE_NOWRITE;
	unsigned flags = 0;

	find_closer(d, c);
	if (c->mask & FAN_OPEN_EXEC && !reads && c->object)
		c->object->executor = c->pid;
	if (c->mask & FAN_CLOSE_WRITE)
		flags = flags_of_write(d, c);
	if (reads && !(flags & SHFS_EVENT_CREATED))
		report_close_of_file(d, c, flags_of_read(c));
	if (flags)
		report_close_of_file(d, c, flags);
	if (reads && flags & SHFS_EVENT_CREATED)
		report_close_of_file(d, c, flags_of_read(c));
	if (reads && c->object && c->object->executor == c->pid)
		c->object->executor = 0;
}

static void report_close_in_order(struct shfs_driver *d, struct close *c)
{
	struct fan_closer closer = { .deleted = c->deleted, .path = &c->path };
	const struct shfs_life *life;
	bool sure;

	if (d->n_names) {
		life = shfs_connector_find(d->processes, c->pid, &sure);
		if (life && sure) {
			closer.start_ns = life->process.start_ns;
			closer.exit_ns = life->exit_ns;
		}
		fan_names_tell(d, fan_names_put(d, c->object, &closer));
	}
	report_closes(d, c);
	if (c->object && c->st.stx_nlink && !c->deleted && fan_below(d, c->path))
		fan_remember(d, c->object, c->path);
}

/* --- closes: reading --- */

static void keep_close(struct shfs_driver *d, struct fan_close c)
{
	d->closes[(d->first_close + d->n_closes++) % d->room_closes] = c;
}

/* How many there were, -errno. */
static int read_closes(struct shfs_driver *d)
{
	_Alignas(8) char data[CLOSES_AT_ONCE * sizeof(struct fanotify_event_metadata)];
	const struct fanotify_event_metadata *e = (const void *)data;
	ssize_t n = read(d->closes_fd, data, sizeof(data));
	int seen = 0;

	if (n < 0)
		return -errno;
	for (; FAN_EVENT_OK(e, n); e = FAN_EVENT_NEXT(e, n), seen++) {
		uint32_t pid = (uint32_t)e->pid;

		if (pid && (pid == (uint32_t)getpid() || pid == (uint32_t)d->watcher)) {
			close(e->fd);
			continue;
		}
		if (e->mask & FAN_OPEN_EXEC && e->fd >= 0)
			fan_programs_note(d, pid, read_link(d, e->fd));
		keep_close(d, (struct fan_close){ e->fd, pid, e->mask });
	}
	return seen;
}

static int count_queued(const struct shfs_driver *d)
{
	int bytes = 0;

	if (ioctl(d->closes_fd, FIONREAD, &bytes))
		return -errno;
	return bytes / (int)sizeof(struct fanotify_event_metadata);
}

/* Out of the kernel's queue as soon as can be: that has room for few. How many it had,
 * -errno. */
static int take_closes(struct shfs_driver *d)
{
	int queued = count_queued(d), left = queued;

	while (left > 0 && d->n_closes + CLOSES_AT_ONCE <= d->room_closes) {
		int r = read_closes(d);

		if (!r)
			break;
		if (r == -EMFILE || r == -ENFILE || r == -ENOMEM)
			return r;
		if (r < 0) /* a file that cannot be opened: gone, or leased */
			keep_close(d, (struct fan_close){ .fd = -1 });
		left -= MAX(r, 1);
	}
	return queued;
}

/* The program of a process that is gone. Its open is among the closes, read or not. */
static const char *find_ended_program(void *arg, const struct shfs_event_process *process)
{
	struct shfs_driver *d = arg;

	if (take_closes(d) < 0)
		return NULL; /* the caller gets this error at the drain */
	return fan_programs_find(d, process->pid, process->start_ns);
}

static void drop_close(struct close *c)
{
	shfs_closep(&c->fd);
	free(c->path);
}

/* Takes the next close; false: it must not be reported. */
static bool next_close(struct shfs_driver *d, struct close *out)
{
	const struct fan_close *next = &d->closes[d->first_close];

	*out = (struct close){ .fd = next->fd, .pid = next->pid, .mask = next->mask };
	d->first_close = (d->first_close + 1) % d->room_closes;
	d->n_closes--;
	if (out->fd < 0) {
		d->lost++;
		if (out->mask & FAN_Q_OVERFLOW)
			fan_objects_forget_users(d);
		return false;
	}
	if (identify_file(d, out))
		return true;
	drop_close(out);
	return false;
}

/* Reads names, and the processes that caused them. */
static int read_names(struct shfs_driver *d)
{
	int r = fan_names_read(d);

	return r < 0 ? r : shfs_connector_read(d->processes, d->sink, d->arg);
}

static int drain_some_closes(struct shfs_driver *d, size_t most)
{
	struct close closes[CLOSES_AT_ONCE];
	size_t count = 0;
	int r = 0;

	for (; most && d->n_closes; most--)
		count += next_close(d, &closes[count]);
	/* what they are called was asked before: names tell how it has changed since */
	if (count)
		r = read_names(d);
	for (size_t i = 0; i < count; i++) {
		if (r >= 0 && choose_close(d, &closes[i]))
			report_close_in_order(d, &closes[i]);
		drop_close(&closes[i]);
	}
	return MIN(r, 0);
}

/* Reports the closes that there are by now. */
static int drain_closes(struct shfs_driver *d)
{
	size_t left = d->n_closes, some;
	int r = take_closes(d);

	if (r > 0)
		left += (size_t)r;
	while (r >= 0 && left && d->n_closes) {
		some = MIN(MIN(left, d->n_closes), (size_t)CLOSES_AT_ONCE);
		left -= some;
		r = drain_some_closes(d, some);
		if (r >= 0)
			r = take_closes(d);
	}
	return MIN(r, 0);
}

/* --- the driver --- */

/* Has the queues wake the poller, but only after a quiet drain: a wakeup costs the
 * watched processes, and a busy reader drains again soon. */
static void arm_queues(struct shfs_driver *d)
{
	struct epoll_event e = { .events = EPOLLIN | EPOLLONESHOT };

	if (d->told)
		return;
	epoll_ctl(d->poll_fd, EPOLL_CTL_MOD, d->closes_fd, &e);
	epoll_ctl(d->poll_fd, EPOLL_CTL_MOD, d->names_fd, &e);
}

static int drain_fanotify(struct shfs_driver *d, shfs_event_sink sink, void *arg)
{
	size_t end, known;
	int r;

	d->sink = sink;
	d->arg = arg;
	d->told = false;
	d->real_offset_ns = shfs_clock_distance_ns(CLOCK_BOOTTIME, CLOCK_REALTIME);
	r = shfs_connector_read(d->processes, sink, arg);
	if (r < 0)
		return r;
	shfs_connector_mark(d->processes);
	fan_mounts_refresh(d);
	refresh_root(d);
	if (!d->root)
		return -ESTALE;
	r = read_names(d);
	if (r < 0)
		return r;
	/* whatever happened before one of these names is already among the closes */
	end = d->first_name + d->n_names;
	r = drain_closes(d);
	if (r < 0)
		return r;
	known = fan_names_known(d);
	fan_names_tell(d, MIN(end, known));
	report_lost_events(d);
	/* processes of names that still wait must not be forgotten */
	if (known >= end)
		shfs_connector_turn(d->processes, sink, arg);
	fan_objects_trim(d);
	arm_queues(d);
	return 0;
}

static void close_driver(struct shfs_driver *d)
{
	if (!d)
		return;
	shfs_connector_close(d->processes);
	for (size_t i = 0; i < d->n_closes; i++)
		shfs_closep(&d->closes[(d->first_close + i) % d->room_closes].fd);
	free(d->closes);
	fan_names_free(d);
	fan_objects_free(d);
	fan_mounts_free(d);
	fan_programs_free(d);
	shfs_closep(&d->closes_fd);
	shfs_closep(&d->names_fd);
	shfs_closep(&d->mounts_fd);
	shfs_closep(&d->poll_fd);
	shfs_closep(&d->self_fds);
	free(d->root);
	free(d->old_root);
	free(d);
}

/* Limits the closes that wait: each holds a descriptor. */
static int alloc_closes(struct shfs_driver *d)
{
	d->room_closes =
		MAX(shfs_proc_share_of_fds(2, FAN_CLOSES_MAX), (size_t)CLOSES_AT_ONCE);
	d->closes = calloc(d->room_closes, sizeof(*d->closes));
	return d->closes ? 0 : -ENOMEM;
}

static int open_poll(struct shfs_driver *d)
{
	const int fds[] = { shfs_connector_fd(d->processes), d->closes_fd, d->names_fd };

	d->poll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (d->poll_fd < 0)
		return -errno;
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		struct epoll_event e = { .events = EPOLLIN | (i ? EPOLLONESHOT : 0) };

		if (epoll_ctl(d->poll_fd, EPOLL_CTL_ADD, fds[i], &e))
			return -errno;
	}
	return 0;
}

static int same_pid_namespace(pid_t pid)
{
	char path[64];
	struct stat ours, theirs;

	snprintf(path, sizeof(path), "/proc/%d/ns/pid", (int)pid);
	if (stat("/proc/self/ns/pid", &ours) || stat(path, &theirs))
		return -errno;
	return ours.st_ino == theirs.st_ino ? 0 : -EOPNOTSUPP;
}

static int open_queues(struct shfs_driver *d, const struct shfs_subscription_order *order,
                       struct shfs_buf *why)
{
	struct timespec tick;
	int r = order->pid ? same_pid_namespace(order->pid) : 0;

	if (r < 0) {
		shfs_buf_str(why, "the watcher is in another pid namespace");
		return r;
	}
	clock_getres(CLOCK_REALTIME_COARSE, &tick);
	d->tick_ns = shfs_timespec_ns(tick);
	d->since_real_ns = shfs_clock_ns(CLOCK_REALTIME);
	d->names_read_ns = d->since_real_ns;
	d->self_fds = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (d->self_fds < 0)
		return -errno;
	refresh_root(d);
	if (!d->root)
		return -ENOENT;
	d->closes_fd = fan_closes_open(FAN_UNLIMITED_MARKS, why);
	if (d->closes_fd < 0)
		return d->closes_fd;
	r = alloc_closes(d);
	if (r >= 0)
		r = fan_names_open(d, why);
	if (r >= 0)
		r = shfs_connector_open(order->uid, &d->processes, why);
	if (r >= 0)
		r = fan_mounts_open(d, order, why);
	if (r >= 0) {
		fan_programs_mark(d);
		shfs_connector_ask(d->processes, find_ended_program, d);
	}
	return r < 0 ? r : open_poll(d);
}

static int open_fanotify_driver(const struct shfs_subscription_order *order,
                                struct shfs_driver **out, struct shfs_buf *why)
{
	struct shfs_driver *d = calloc(1, sizeof(*d));
	int r;

	if (!d)
		return -ENOMEM;
	d->uid = order->uid;
	d->watcher = order->pid;
	d->root_fd = order->root_fd;
	d->closes_fd = d->names_fd = d->mounts_fd = d->poll_fd = d->self_fds = -1;
	d->ignores = true;
	r = open_queues(d, order, why);
	if (r < 0) {
		if (!why->len)
			shfs_buf_str(why, strerror(-r));
		close_driver(d);
		return r;
	}
	*out = d;
	return 0;
}

static int poll_fd(const struct shfs_driver *d)
{
	return d->poll_fd;
}

const struct shfs_driver_ops shfs_driver_fanotify = {
	.name = "fanotify",
	.open = open_fanotify_driver,
	.fd = poll_fd,
	.drain = drain_fanotify,
	.close = close_driver,
};
