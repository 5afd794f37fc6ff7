/* SPDX-License-Identifier: MIT */
#include "fusefs/watch/beneath.h"

#include "fusefs/fs.h"
#include "fusefs/transport/transport.h"
#include "fusefs/watch/passthrough.h"

#include "common/clock.h"
#include "common/hash.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/fanotify.h>
#include <unistd.h>

#define CHANGES                                                                          \
	(FAN_MODIFY | FAN_ATTRIB | FAN_CREATE | FAN_DELETE | FAN_MOVED_FROM |            \
	 FAN_MOVED_TO | FAN_DELETE_SELF | FAN_ONDIR | FAN_EVENT_ON_CHILD)

/* Most marks. Each keeps a directory in the kernel's memory, and counts for its user. */
#define MARKS_MAX 16384
#define EVENTS    65536 /* bytes */
#define READS_MAX 64
#define PAUSE_NS  5000000 /* so that events come in batches, merged by the kernel */
#define IDLE      16      /* pause: so many times as long as handling the events takes */
#define AGAIN_NS  SHFS_NSEC_PER_SEC

#define NSEC_PER_MSEC 1000000
/* To mark a directory takes the kernel as long as it has names of it cached:
 * milliseconds. One command (shfs record) has often ended before; until then, what it has
 * looked up is cached for a second. */
#define YOUNG_NS (200 * NSEC_PER_MSEC)

/* A marked directory, by its file handle. */
struct marked {
	UT_hash_handle hh;
	uint64_t id;            /* of its node */
	unsigned char handle[]; /* key_len bytes: type and handle */
};

/* A name that another process has changed; "." is the directory itself. */
struct change {
	UT_hash_handle hh;
	int64_t noted_ns; /* CLOCK_MONOTONIC */
	bool leads_elsewhere;
	uint64_t parent; /* the key goes on from here to the end of the name */
	char name[];
};

struct shfs_beneath {
	struct shfs_fs *fs;
	int fanotify_fd, stop_fd;
	int64_t not_before_ns; /* CLOCK_MONOTONIC: when marks may be set */
	pthread_t thread;
	pthread_mutex_t lock; /* guards marked */
	struct marked *marked;
	/* of the thread */
	struct change *changes; /* the oldest first */
	bool leads_elsewhere;   /* of the change that is_name_changed found last */
	bool expires;           /* a name that the kernel has cached leads elsewhere */
	int64_t all_ns; /* when events were lost, so that anything may have changed; or 0
	                 */
};

/* --- marks --- */

struct handle_key {
	struct file_handle head;
	unsigned char bytes[MAX_HANDLE_SZ];
};

static unsigned key_len(const struct file_handle *handle)
{
	return (unsigned)sizeof(handle->handle_type) + handle->handle_bytes;
}

/* Lock held. Finds a directory by its handle, whose bytes follow the struct. */
static struct marked *find_marked(struct shfs_beneath *b,
                                  const struct file_handle *handle)
{
	struct marked *marked;

	HASH_FIND(hh, b->marked, &handle->handle_type, key_len(handle), marked);
	return marked;
}

/* Returns the events to listen to. With passthrough the kernel closes lower files for
 * other processes, after we have closed them: so closes are not among the events then. */
static uint64_t events_of(struct shfs_beneath *b)
{
	return CHANGES |
	       (shfs_passthrough_mode(b->fs) == SHFS_PASSING_ALL ? 0 : FAN_CLOSE_WRITE);
}

static int add_marked(struct shfs_beneath *b, const struct file_handle *handle,
                      uint64_t id, int fd)
{
	struct marked *marked;
	unsigned len = key_len(handle);

	if (HASH_COUNT(b->marked) >= MARKS_MAX)
		return -ENOSPC;
	marked = malloc(sizeof(*marked) + len);
	if (!marked)
		return -ENOMEM;
	if (fanotify_mark(b->fanotify_fd, FAN_MARK_ADD | FAN_MARK_ONLYDIR, events_of(b),
	                  fd, ".")) {
		free(marked);
		return -errno;
	}
	marked->id = id;
	memcpy(marked->handle, &handle->handle_type, len);
	HASH_ADD_KEYPTR(hh, b->marked, marked->handle, len, marked);
	if (marked->hh.tbl)
		return 0;
	free(marked);
	return -ENOMEM;
}

static int mark_directory(struct shfs_beneath *b, struct shfs_node *directory, int fd)
{
	struct handle_key key = { .head.handle_bytes = MAX_HANDLE_SZ };
	int mount_id, r = 0;

	if (name_to_handle_at(fd, "", &key.head, &mount_id, AT_EMPTY_PATH))
		return -errno;
	pthread_mutex_lock(&b->lock);
	if (!find_marked(b,
	                 &key.head)) /* also again, if the kernel has dropped the mark */
		r = add_marked(b, &key.head, directory->id, fd);
	pthread_mutex_unlock(&b->lock);
	return r;
}

void shfs_beneath_watch(struct shfs_beneath *b, struct shfs_node *directory)
{
	int fd, r;

	if (!b || atomic_load(&directory->watched) != SHFS_WATCHED_NOT_YET ||
	    shfs_clock_ns(CLOCK_MONOTONIC_COARSE) < b->not_before_ns)
		return;
	fd = shfs_node_fd(b->fs->tree, directory);
	if (fd < 0)
		return;
	r = directory->dev == shfs_tree_root(b->fs->tree)->dev
	            ? mark_directory(b, directory, fd)
	            : -EXDEV;
	shfs_node_fd_done(b->fs->tree, directory);
	atomic_store(&directory->watched, r ? SHFS_WATCHED_NEVER : SHFS_WATCHED);
}

void shfs_beneath_ignore(struct shfs_beneath *b, int fd, bool ignore)
{
	if (b) /* an error only costs requests for attributes */
		(void)!fanotify_mark(b->fanotify_fd,
		                     FAN_MARK_IGNORED_MASK |
		                             FAN_MARK_IGNORED_SURV_MODIFY |
		                             (ignore ? FAN_MARK_ADD : FAN_MARK_REMOVE),
		                     FAN_MODIFY, fd, NULL);
}

/* --- changes --- */

static void drop_change(struct shfs_beneath *b, struct change *change)
{
	HASH_DEL(b->changes, change);
	free(change);
}

static void note_change(struct shfs_beneath *b, uint64_t parent, const char *name,
                        bool leads_elsewhere, int64_t now_ns)
{
	unsigned len = (unsigned)(sizeof(parent) + strlen(name));
	struct change *change = malloc(sizeof(*change) + strlen(name) + 1), *known;

	if (!change) {
		b->all_ns = now_ns;
		return;
	}
	change->noted_ns = now_ns;
	change->leads_elsewhere = leads_elsewhere;
	change->parent = parent;
	strcpy(change->name, name);
	HASH_FIND(hh, b->changes, &change->parent, len, known);
	if (known) {
		change->leads_elsewhere |= known->leads_elsewhere;
		drop_change(b, known);
	}
	HASH_ADD(hh, b->changes, parent, len, change);
	if (!change->hh.tbl) {
		free(change);
		b->all_ns = now_ns;
	}
}

static void forget_changes(struct shfs_beneath *b, int64_t noted_until_ns)
{
	while (b->changes && b->changes->noted_ns <= noted_until_ns)
		drop_change(b, b->changes);
	if (b->all_ns <= noted_until_ns)
		b->all_ns = 0;
}

/* A copy of one event, which is aligned; events in the buffer are not. */
union event {
	struct fanotify_event_metadata head;
	char bytes[1024]; /* handle and name are 128 and 256 at most */
};

/* Takes an event. True: another process has changed something. */
static bool take_event(struct shfs_beneath *b, const union event *e, int64_t now_ns)
{
	const struct fanotify_event_metadata *event = &e->head;
	const struct fanotify_event_info_fid *info = (const void *)(event + 1);
	const struct file_handle *handle = (const void *)info->handle;
	struct marked *marked;
	uint64_t id = 0;

	if (event->mask & FAN_Q_OVERFLOW) {
		b->all_ns = now_ns;
		return true;
	}
	if (event->event_len <= sizeof(*event) + sizeof(*info) ||
	    info->hdr.info_type != FAN_EVENT_INFO_TYPE_DFID_NAME ||
	    (event->pid == getpid() && !(event->mask & FAN_DELETE_SELF)))
		return false;
	pthread_mutex_lock(&b->lock);
	marked = find_marked(b, handle);
	if (marked)
		id = marked->id;
	if (marked && (event->mask & FAN_DELETE_SELF)) {
		HASH_DEL(b->marked, marked);
		free(marked);
	}
	pthread_mutex_unlock(&b->lock);
	if (!id || event->pid == getpid())
		return false;
	note_change(b, id, (const char *)handle->f_handle + handle->handle_bytes,
	            event->mask &
	                    (FAN_CREATE | FAN_DELETE | FAN_MOVED_FROM | FAN_MOVED_TO),
	            now_ns);
	return true;
}

static bool is_name_changed(uint64_t parent, const char *name, void *arg)
{
	struct shfs_beneath *b = arg;
	struct change *change;
	size_t len = strlen(name);
	struct {
		uint64_t parent;
		char name[NAME_MAX + 1];
	} key = { .parent = parent };

	b->leads_elsewhere = true;
	if (b->all_ns || len > NAME_MAX)
		return true;
	memcpy(key.name, name, len);
	HASH_FIND(hh, b->changes, &key, sizeof(parent) + len, change);
	b->leads_elsewhere = change && change->leads_elsewhere;
	return change;
}

static void invalidate_id(uint64_t id, void *arg)
{
	struct shfs_beneath *b = arg;

	shfs_transport_invalidate(b->fs->transport, id, false);
}

/* Drops what the kernel has cached of a node. Asked for its attributes, we check the name
 * by which we reach it; a file that has another one, or is open, would still be found by
 * the name that is gone: so names expire, too. */
static void invalidate_node(const struct shfs_node *node, bool is_left, void *arg)
{
	struct shfs_beneath *b = arg;

	b->expires |= b->leads_elsewhere && is_left && !S_ISDIR(node->type);
	invalidate_id(node->id, b);
}

/* Reports the changed names, and their directories. */
static void report_changes(struct shfs_beneath *b)
{
	struct change *change, *next;

	b->expires = false;
	shfs_tree_suspect(b->fs->tree, is_name_changed, invalidate_node, b);
	if (b->expires)
		shfs_transport_expire_names(b->fs->transport);
	if (b->all_ns)
		invalidate_id(SHFS_NODE_ROOT, b);
	HASH_ITER (hh, b->changes, change, next)
		invalidate_id(change->parent, b);
}

static bool is_due(const struct shfs_beneath *b, int64_t noted_until_ns)
{
	return (b->all_ns && b->all_ns <= noted_until_ns) ||
	       (b->changes && b->changes->noted_ns <= noted_until_ns);
}

/* Reads the events of this moment, not without an end: others may write all the time.
 * True: other processes have changed something. */
static bool read_beneath_events(struct shfs_beneath *b, int64_t now_ns)
{
	char events[EVENTS];
	union event event;
	bool changed = false;
	ssize_t n;

	for (int i = 0; i < READS_MAX; i++) {
		n = read(b->fanotify_fd, events, sizeof(events));
		for (ssize_t at = 0; at < n; at += event.head.event_len) {
			memcpy(&event, events + at, MIN((size_t)(n - at), sizeof(event)));
			changed |= take_event(b, &event, now_ns);
		}
		if (n <= 0)
			break;
	}
	return changed;
}

/*
 * Reports each change at once, and again a second later. Otherwise:
 *
 * 1. A request reads a file's attributes.
 * 2. Another process changes the file. The change is reported; the kernel, which does not
 *    know the file yet, has nothing to drop.
 * 3. The reply to the request comes, and the kernel caches the old attributes.
 */
static void *run_beneath(void *arg)
{
	struct shfs_beneath *b = arg;
	struct pollfd fds[2] = {
		{ .fd = b->stop_fd, .events = POLLIN },
		{ .fd = b->fanotify_fd, .events = POLLIN },
	};
	int64_t now_ns, busy_ns;

	pthread_setname_np(pthread_self(), "beneath");
	do {
		now_ns = shfs_clock_ns(CLOCK_MONOTONIC);
		if (read_beneath_events(b, now_ns) || is_due(b, now_ns - AGAIN_NS))
			report_changes(b);
		forget_changes(b, now_ns - AGAIN_NS);
		busy_ns = shfs_clock_ns(CLOCK_MONOTONIC) - now_ns;
		poll(fds, 1, (int)((PAUSE_NS + IDLE * busy_ns) / NSEC_PER_MSEC));
		poll(fds, 2, b->changes || b->all_ns ? AGAIN_NS / NSEC_PER_MSEC : -1);
	} while (!fds[0].revents);
	return NULL;
}

/* --- begin and end --- */

int shfs_beneath_new(struct shfs_fs *fs, struct shfs_beneath **out)
{
	struct shfs_beneath *b;
	int r;

	if (fs->served)
		return -EOPNOTSUPP;
	b = calloc(1, sizeof(*b));
	if (!b)
		return -ENOMEM;
	b->fs = fs;
	pthread_mutex_init(&b->lock, NULL);
	if (fs->at)
		b->not_before_ns = shfs_clock_ns(CLOCK_MONOTONIC_COARSE) + YOUNG_NS;
	b->stop_fd = eventfd(0, EFD_CLOEXEC);
	b->fanotify_fd = fanotify_init(FAN_CLASS_NOTIF | FAN_CLOEXEC | FAN_NONBLOCK |
	                                       FAN_REPORT_DFID_NAME,
	                               O_RDONLY);
	r = b->stop_fd < 0 || b->fanotify_fd < 0 ? -errno : 0;
	if (!r)
		r = -pthread_create(&b->thread, NULL, run_beneath, b);
	if (r) {
		shfs_closep(&b->stop_fd);
		shfs_closep(&b->fanotify_fd);
		free(b);
		return r;
	}
	/* The root is in no directory of ours. It is not watched before it is used: the
	 * kernel must know its permissions before it is asked to forget them. */
	atomic_store(&shfs_tree_root(fs->tree)->lasting, true);
	*out = b;
	return 0;
}

void shfs_beneath_free(struct shfs_beneath *b)
{
	struct marked *marked, *next;

	if (!b)
		return;
	eventfd_write(b->stop_fd, 1);
	pthread_join(b->thread, NULL);
	forget_changes(b, INT64_MAX);
	HASH_ITER (hh, b->marked, marked, next) {
		HASH_DEL(b->marked, marked);
		free(marked);
	}
	shfs_closep(&b->stop_fd);
	shfs_closep(&b->fanotify_fd);
	pthread_mutex_destroy(&b->lock);
	free(b);
}
