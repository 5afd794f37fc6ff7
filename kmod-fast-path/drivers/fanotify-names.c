/* SPDX-License-Identifier: MIT */
/* fanotify: events of names, from the queue to their report. */
#include "kmod-fast-path/drivers/fanotify-internal.h"

#include "common/clock.h"
#include "common/path.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/fanotify.h>
#include <sys/sysmacros.h>

#ifndef FAN_RENAME
#define FAN_RENAME                        0x10000000
#define FAN_REPORT_TARGET_FID             0x00001000
#define FAN_EVENT_INFO_TYPE_OLD_DFID_NAME 10
#define FAN_EVENT_INFO_TYPE_NEW_DFID_NAME 12
#endif

#define NAME_EVENTS        (FAN_CREATE | FAN_DELETE | FAN_RENAME | FAN_ATTRIB | FAN_ONDIR)
#define READ_BYTES         (64 << 10)
#define LATE_NS            1000000000LL /* longest delay of an event after its change */
#define BESIDE_MAX         256          /* names that other processes change meanwhile */
#define TELL_TRIES         5
#define TELL_WAIT_US       1000
#define WAITS_MAX          100
#define EXCHANGE_WAITS_MAX 3
#define READ_TRIES         4
#define NAMES_MAX          65536 /* unreported */

/* A parsed event of the kernel. The names are borrowed from the buffer. */
struct name_event {
	uint64_t mask;
	uint32_t pid;
	struct fan_object *dir, *dir2, *child;
	const char *name, *name2;
};

/* --- lists --- */

static void fan_name_free(struct fan_name *n)
{
	if (!n)
		return;
	free(n->name);
	free(n->name2);
	free(n->where);
	free(n->where2);
	free(n->from);
	free(n->to);
	free(n);
}

static size_t end_index(const struct shfs_driver *d)
{
	return d->first_name + d->n_names;
}

static void count_waiting(struct fan_object *object, int step)
{
	if (object)
		object->waiting += (uint32_t)step;
}

/* Adds n to the list of its child, which is in the order of the indices. */
static void link_child(struct fan_name *n)
{
	struct fan_object *child = n->child;
	struct fan_name **at;

	if (!child)
		return;
	at = child->last && child->last->index < n->index ? &child->last->next
	                                                  : &child->first;
	while (*at && (*at)->index < n->index)
		at = &(*at)->next;
	n->next = *at;
	*at = n;
	if (!n->next)
		child->last = n;
}

/* Adds n, whose owner is the list then. false: no memory. */
static bool append_name(struct shfs_driver *d, struct fan_name *n)
{
	if (d->n_names == d->room_names) {
		size_t room = d->room_names ? d->room_names * 2 : 256;
		struct fan_name **names = reallocarray(d->names, room, sizeof(*names));

		if (!names)
			return false;
		d->names = names;
		d->room_names = room;
	}
	n->index = end_index(d);
	d->names[d->n_names++] = n;
	count_waiting(n->dir, 1);
	count_waiting(n->dir2, 1);
	count_waiting(n->child, 1);
	link_child(n);
	return true;
}

/* Removes n from the list of its child. */
static void unlink_child(struct fan_name *n)
{
	struct fan_object *child = n->child;
	struct fan_name **at;

	if (!child)
		return;
	for (at = &child->first; *at && *at != n; at = &(*at)->next)
		;
	if (*at)
		*at = n->next;
	child->last = child->first;
	while (child->last && child->last->next)
		child->last = child->last->next;
}

static void drop_name_event(struct shfs_driver *d, struct fan_name *n)
{
	unlink_child(n);
	count_waiting(n->dir, -1);
	count_waiting(n->dir2, -1);
	count_waiting(n->child, -1);
	d->n_moved_out -= n->moves_out;
	d->names[n->index - d->first_name] = NULL;
	fan_name_free(n);
}

/* --- paths --- */

static char *join_child_name(const char *dir, const char *name)
{
	return strcmp(name, ".") ? shfs_path_join(dir, name) : strdup(dir);
}

char *fan_names_rewind(struct shfs_driver *d, char *path, size_t index)
{
	for (size_t i = d->n_renamed_dirs; path && i-- > 0;) {
		const struct fan_name *r = d->renamed_dirs[i];
		const char *rest;
		char *before;

		if (r->index < index)
			break;
		if (!r->to || !r->from || !shfs_path_is_below(path, r->to))
			continue;
		rest = shfs_path_relative(path, r->to);
		before = *rest ? shfs_path_join(r->from, rest) : strdup(r->from);
		free(path);
		path = before;
		if (r->exchanged && i)
			i--;
	}
	return path;
}

char *fan_names_then(struct shfs_driver *d, const char *where, const char *name,
                     size_t index)
{
	_cleanup_free_ char *dir = NULL;

	if (!where)
		return NULL;
	dir = fan_names_rewind(d, strdup(where), index);
	return dir ? join_child_name(dir, name) : NULL;
}

/* Returns the present path of a directory. NULL: it is gone. */
static char *look_up_dir(struct shfs_driver *d, struct fan_object *dir)
{
	_cleanup_close_ int fd = -1;
	char *path;

	if (dir->path && dir->path_epoch == d->epoch)
		return strdup(dir->path);
	fd = fan_object_open(d, dir);
	if (fd < 0)
		return NULL;
	path = fan_path_of(d, fd);
	if (path) {
		free(dir->path);
		dir->path = strdup(path);
		dir->path_epoch = d->epoch;
	}
	return path;
}

static void look_up_dirs(struct shfs_driver *d, struct fan_name *n)
{
	if (!n->where)
		n->where = look_up_dir(d, n->dir);
	if (n->dir2 && !n->where2)
		n->where2 = look_up_dir(d, n->dir2);
}

/* Returns the last path of a directory that is gone, if its removal was read already. */
static char *look_up_gone_dir(const struct fan_object *dir)
{
	const struct fan_name *n = dir->last;

	if (n && n->kind == FAN_NAME_DELETE && n->where)
		return join_child_name(n->where, n->name);
	return dir->gone && dir->path ? strdup(dir->path) : NULL;
}

/* Finds the paths of the directories that are gone. False: the removal of one was not
 * read yet. */
static bool resolve_gone(struct shfs_driver *d)
{
	bool known = true;

	/* a directory is removed after its contents, and needs its path before them */
	for (size_t i = d->n_names; i-- > 0;) {
		struct fan_name *n = d->names[i];

		if (!n)
			continue;
		if (!n->where)
			n->where = look_up_gone_dir(n->dir);
		if (n->dir2 && !n->where2)
			n->where2 = look_up_gone_dir(n->dir2);
		known &= n->where && (!n->dir2 || n->where2);
		if (n->kind == FAN_NAME_DELETE && n->is_dir && n->child && n->where &&
		    !n->child->gone) {
			free(n->child->path);
			n->child->path = join_child_name(n->where, n->name);
			n->child->path_epoch = d->epoch;
			n->child->gone = true;
		}
	}
	return known;
}

static void resolve_renamed_dirs(struct shfs_driver *d)
{
	for (size_t i = d->n_renamed_dirs; i-- > 0;) {
		struct fan_name *r = d->renamed_dirs[i];

		free(r->from);
		free(r->to);
		r->from = fan_names_then(d, r->where, r->name, r->index + 1);
		r->to = fan_names_then(d, r->where2, r->name2, r->index + 1);
	}
}

/* --- reading --- */

static struct fan_object *object_in(struct shfs_driver *d,
                                    const struct fanotify_event_info_fid *info,
                                    const char **name)
{
	const struct file_handle *handle = (const void *)info->handle;
	uint32_t mount = 0;

	for (uint32_t i = 0; i < d->n_mounts; i++)
		if (d->mounts[i].mount_id &&
		    !memcmp(&d->mounts[i].fsid, &info->fsid, sizeof(info->fsid))) {
			mount = i;
			break;
		}
	if (name)
		*name = (const char *)handle->f_handle + handle->handle_bytes;
	return fan_object(d, mount, (uint32_t)handle->handle_type, handle->f_handle,
	                  handle->handle_bytes);
}

static struct name_event parse_name_event(struct shfs_driver *d,
                                          const struct fanotify_event_metadata *e,
                                          const char *p)
{
	struct name_event t = { .mask = e->mask, .pid = (uint32_t)e->pid };
	const char *end = p + e->event_len;

	p += e->metadata_len;
	while (p + sizeof(struct fanotify_event_info_header) <= end) {
		const struct fanotify_event_info_fid *info = (const void *)p;

		switch (info->hdr.info_type) {
		case FAN_EVENT_INFO_TYPE_DFID_NAME:
		case FAN_EVENT_INFO_TYPE_OLD_DFID_NAME:
			t.dir = object_in(d, info, &t.name);
			break;
		case FAN_EVENT_INFO_TYPE_NEW_DFID_NAME:
			t.dir2 = object_in(d, info, &t.name2);
			break;
		case FAN_EVENT_INFO_TYPE_FID:
			t.child = object_in(d, info, NULL);
			break;
		}
		if (!info->hdr.len)
			break;
		p += info->hdr.len;
	}
	return t;
}

/* Finds out what the file with the name is, and whether it had another name before. */
static void look_at_child(struct shfs_driver *d, struct fan_name *n)
{
	_cleanup_close_ int fd = n->child ? fan_object_open(d, n->child) : -1;
	struct statx st;

	if (fd < 0 || fstat(fd, &n->st))
		return;
	if (n->kind != FAN_NAME_CREATE || n->is_dir)
		return;
	if (n->child->first || n->child->named)
		n->is_link = true;
	else if (!statx(fd, "", AT_EMPTY_PATH, STATX_BTIME, &st) &&
	         st.stx_mask & STATX_BTIME)
		n->is_link = shfs_time_ns(st.stx_btime.tv_sec, st.stx_btime.tv_nsec) <
		             d->names_read_ns - LATE_NS;
	else
		n->is_link = n->st.st_nlink > 1;
}

static int add_name_event(struct shfs_driver *d, const struct name_event *t,
                          unsigned kind)
{
	struct fan_name *n = calloc(1, sizeof(*n));

	if (!n)
		return -ENOMEM;
	n->kind = kind;
	n->pid = t->pid;
	n->is_dir = t->mask & FAN_ONDIR;
	n->dir = t->dir;
	n->child = t->child;
	n->name = strdup(t->name);
	if (kind == FAN_NAME_RENAME) {
		n->dir2 = t->dir2;
		n->name2 = strdup(t->name2);
	}
	if (!n->name || (n->dir2 && !n->name2)) {
		fan_name_free(n);
		return -ENOMEM;
	}
	if (kind != FAN_NAME_DELETE)
		look_at_child(d, n);
	if (!append_name(d, n)) {
		fan_name_free(n);
		return -ENOMEM;
	}
	return 0;
}

static bool is_exchange(const struct fan_name *a, const struct fan_name *b)
{
	return a && a->kind == FAN_NAME_RENAME && !a->exchanged && a->pid == b->pid &&
	       a->dir == b->dir2 && a->dir2 == b->dir && a->child != b->child &&
	       !strcmp(a->name, b->name2) && !strcmp(a->name2, b->name);
}

/* Returns the index in names of the last event of the process before that one; SIZE_MAX:
 * there is none. */
static size_t find_last_of(const struct shfs_driver *d, uint32_t pid, size_t before)
{
	size_t least = before > BESIDE_MAX ? before - BESIDE_MAX : 0;

	for (size_t i = before; i-- > least;)
		if (d->names[i] && d->names[i]->pid == pid)
			return i;
	return SIZE_MAX;
}

/* Moves the last name to i, before the names that other processes changed meanwhile. */
static void move_last_to(struct shfs_driver *d, size_t i)
{
	struct fan_name *n = d->names[d->n_names - 1];

	unlink_child(n);
	memmove(d->names + i + 1, d->names + i, (d->n_names - 1 - i) * sizeof(*d->names));
	d->names[i] = n;
	for (; i < d->n_names; i++)
		if (d->names[i])
			d->names[i]->index = d->first_name + i;
	link_child(n);
}

static int add_renamed_dir(struct shfs_driver *d, struct fan_name *n)
{
	struct fan_name **dirs =
		reallocarray(d->renamed_dirs, d->n_renamed_dirs + 1, sizeof(*dirs));
	size_t i = d->n_renamed_dirs;

	if (!dirs)
		return -ENOMEM;
	d->renamed_dirs = dirs;
	for (; i && dirs[i - 1]->index > n->index; i--)
		dirs[i] = dirs[i - 1];
	dirs[i] = n;
	d->n_renamed_dirs++;
	d->epoch++;
	return 0;
}

/* Adds a rename. The kernel reports an exchange as two renames, maybe with events of
 * other processes between them: these two are made neighbours. */
static int add_rename_event(struct shfs_driver *d, const struct name_event *t)
{
	int r = add_name_event(d, t, FAN_NAME_RENAME);
	struct fan_name *n;
	size_t first;

	if (r < 0)
		return r;
	n = d->names[d->n_names - 1];
	first = find_last_of(d, n->pid, d->n_names - 1);
	n->exchanged = first != SIZE_MAX && is_exchange(d->names[first], n);
	if (n->exchanged) {
		move_last_to(d, first + 1);
		look_up_dirs(d, n);
	}
	return n->is_dir ? add_renamed_dir(d, n) : 0;
}

/* Notes that the number of links of the file changed. If the last event of this process
 * was a rename, the file had the new name before. false: it was another event. */
static bool note_replaced(struct shfs_driver *d, const struct name_event *t,
                          const struct fan_object *file)
{
	size_t last = find_last_of(d, t->pid, d->n_names);
	struct fan_name *n = last == SIZE_MAX ? NULL : d->names[last];

	if (!n || n->kind != FAN_NAME_RENAME || n->child == file || n->exchanged)
		return false;
	n->replaces = true;
	return true;
}

/* Is this an event of a directory itself ("."), and the directory gone? */
static bool is_of_gone(struct shfs_driver *d, const struct name_event *t)
{
	_cleanup_close_ int fd = -1;

	if (!(t->mask & FAN_ATTRIB) || strcmp(t->name, ".") != 0)
		return false;
	fd = fan_object_open(d, t->dir);
	return fd < 0;
}

static int take_name_event(struct shfs_driver *d, const struct name_event *t)
{
	int r = 0;

	if (t->mask & FAN_Q_OVERFLOW || d->n_names >= NAMES_MAX) {
		d->lost++;
		/* remembered names may be wrong */
		d->epoch++;
		d->n_moves += FAN_MOVES + 1;
		fan_ignore_none(d);
		return 0;
	}
	if (t->mask & FAN_RENAME)
		return t->dir && t->dir2 ? add_rename_event(d, t) : 0;
	if (!t->dir) {
		if (t->child)
			note_replaced(d, t, t->child);
		return 0;
	}
	if (is_of_gone(d, t) && note_replaced(d, t, t->dir))
		return 0;
	/* the kernel merges events of the same name while they wait */
	if (t->mask & FAN_CREATE)
		r = add_name_event(d, t, FAN_NAME_CREATE);
	if (t->mask & FAN_ATTRIB && r >= 0)
		r = add_name_event(d, t, FAN_NAME_CHANGE);
	if (t->mask & FAN_DELETE && r >= 0)
		r = add_name_event(d, t, FAN_NAME_DELETE);
	return r;
}

/* Takes all events of the buffer. They lie at multiples of 4 bytes. */
static int take_name_events(struct shfs_driver *d, const char *p, size_t len)
{
	struct fanotify_event_metadata e;
	int count = 0;

	for (; len >= sizeof(e); p += e.event_len, len -= e.event_len, count++) {
		struct name_event t;
		int r;

		memcpy(&e, p, sizeof(e));
		if (e.event_len < sizeof(e) || e.event_len > len)
			return -EBADMSG;
		t = parse_name_event(d, &e, p);
		r = take_name_event(d, &t);
		if (r < 0)
			return r;
	}
	return count;
}

static int read_queue(struct shfs_driver *d)
{
	_Alignas(8) static _Thread_local char data[READ_BYTES];
	int count = 0;

	for (;;) {
		int64_t now_ns = shfs_clock_ns(CLOCK_REALTIME);
		ssize_t n = read(d->names_fd, data, sizeof(data));
		int r;

		if (n < 0 && errno == EAGAIN) {
			d->names_read_ns = now_ns;
			return count;
		}
		r = n < 0 ? -errno : take_name_events(d, data, (size_t)n);
		if (r < 0)
			return r;
		count += r;
	}
}

static bool is_outside_root(struct shfs_driver *d, struct fan_name *n)
{
	_cleanup_free_ char *from = fan_names_then(d, n->where, n->name, n->index + 1);
	_cleanup_free_ char *to =
		n->dir2 ? fan_names_then(d, n->where2, n->name2, n->index + 1) : NULL;

	if (!from || (n->dir2 && !to))
		return false;
	if (n->is_dir && n->kind == FAN_NAME_RENAME && to && !fan_below(d, from) &&
	    fan_below(d, to))
		fan_ignore_none(d);
	n->moves_out = to && fan_below(d, from) && !fan_below(d, to);
	d->n_moved_out += n->moves_out;
	return !fan_below(d, from) && (!to || !fan_below(d, to));
}

/* Is names[i] the first half of an exchange? */
static bool is_followed(const struct shfs_driver *d, size_t i)
{
	const struct fan_name *next = i + 1 < d->n_names ? d->names[i + 1] : NULL;

	return next && next->exchanged;
}

static void drop_outside_root(struct shfs_driver *d, size_t first)
{
	size_t kept = 0;

	for (size_t i = first; i < d->n_names; i++) {
		struct fan_name *n = d->names[i];

		if (!n || n->placed)
			continue;
		n->placed = true;
		if (!n->exchanged && is_outside_root(d, n) && !is_followed(d, i)) {
			if (n->is_dir && n->kind == FAN_NAME_RENAME)
				n->index = SIZE_MAX; /* dropped by the last loop */
			else
				drop_name_event(d, n);
		}
	}
	for (size_t i = 0; i < d->n_renamed_dirs; i++)
		if (d->renamed_dirs[i]->index != SIZE_MAX)
			d->renamed_dirs[kept++] = d->renamed_dirs[i];
	d->n_renamed_dirs = kept;
	for (size_t i = first; i < d->n_names; i++) {
		struct fan_name *n = d->names[i];

		if (n && n->index == SIZE_MAX) {
			n->index = d->first_name + i;
			drop_name_event(d, n);
		}
	}
	while (d->n_names > first && !d->names[d->n_names - 1])
		d->n_names--;
}

int fan_names_read(struct shfs_driver *d)
{
	size_t first = d->n_names, n_dirs = d->n_renamed_dirs;
	int count = 0;

	for (int i = 0; i < READ_TRIES; i++) {
		size_t before = d->n_names;
		int r = read_queue(d);

		if (r < 0)
			return r;
		count += r;
		for (size_t k = before; k < d->n_names; k++) {
			struct fan_name *n = d->names[k];

			if (n)
				look_up_dirs(d, n);
		}
		if (resolve_gone(d) && !r)
			break;
	}
	if (d->n_renamed_dirs != n_dirs)
		resolve_renamed_dirs(d);
	if (d->n_names > first)
		drop_outside_root(d, first);
	return count;
}

/*
 * May the second half of an exchange follow?
 *
 * 1. The kernel queues the first half.
 * 2. This process reads it.
 * 3. The kernel queues the second half.
 *
 * At step 2 the old name leads to the other file already. After a rename it leads to a
 * file only if one was created with that name since.
 */
static bool may_be_exchange(const struct shfs_driver *d, size_t i)
{
	const struct fan_name *n = d->names[i];
	_cleanup_free_ char *from = NULL;
	struct stat st;

	if (n->kind != FAN_NAME_RENAME || n->exchanged || !n->where ||
	    find_last_of(d, n->pid, d->n_names) != i)
		return false;
	from = join_child_name(n->where, n->name);
	return from && !lstat(from, &st);
}

/* Is names[i] as complete as it can get by waiting? */
static bool is_name_resolved(const struct shfs_driver *d, size_t i)
{
	const struct fan_name *n = d->names[i];

	return !n || (n->where && (!n->dir2 || n->where2) && !may_be_exchange(d, i));
}

size_t fan_names_known(struct shfs_driver *d)
{
	for (size_t i = 0; i < d->n_names; i++) {
		struct fan_name *n = d->names[i];

		if (!is_name_resolved(d, i) &&
		    n->waits++ < (n->where ? EXCHANGE_WAITS_MAX : WAITS_MAX))
			return n->index;
	}
	return end_index(d);
}

/* --- reporting --- */

static struct shfs_bytes path_in_root(struct shfs_driver *d, const char *path)
{
	const char *relative = path ? fan_below(d, path) : NULL;

	return (struct shfs_bytes){ relative ? relative : "",
		                    relative ? strlen(relative) : 0 };
}

/* Keeps the name that was remembered before path, in the place of path or the oldest. */
static void note_before(struct fan_object *file, const char *path, char *name)
{
	size_t i = 0;

	while (i + 1 < FAN_NAMES_BEFORE && file->before[i] &&
	       strcmp(file->before[i], path) != 0)
		i++;
	free(file->before[i]);
	memmove(&file->before[1], &file->before[0], i * sizeof(file->before[0]));
	file->before[0] = name;
}

void fan_remember(struct shfs_driver *d, struct fan_object *file, const char *path)
{
	if (!file)
		return;
	if (path && file->path && strcmp(path, file->path) != 0)
		note_before(file, path, TAKE_PTR(file->path));
	free(file->path);
	file->path = path ? strdup(path) : NULL;
	file->named |= path != NULL;
	file->path_epoch = d->n_moves;
}

char *fan_remembered(const struct shfs_driver *d, const struct fan_object *file)
{
	char *path;

	if (!file->path || d->n_moves - file->path_epoch > FAN_MOVES)
		return NULL;
	path = strdup(file->path);
	for (uint64_t i = file->path_epoch; path && i < d->n_moves; i++) {
		const struct fan_move *move = &d->moves[i % FAN_MOVES];
		char *moved;

		if (!move->from || !move->to || !shfs_path_is_below(path, move->from))
			continue;
		moved = shfs_path_join(move->to, shfs_path_relative(path, move->from));
		free(path);
		path = moved;
	}
	return path;
}

static void note_move(struct shfs_driver *d, const char *from, const char *to)
{
	struct fan_move *move = &d->moves[d->n_moves++ % FAN_MOVES];

	free(move->from);
	free(move->to);
	move->from = from ? strdup(from) : NULL;
	move->to = to ? strdup(to) : NULL;
}

static bool path_leads_to_fd(const char *path, int fd)
{
	struct stat st, named;

	return path && !fstat(fd, &st) && !lstat(path, &named) &&
	       named.st_ino == st.st_ino && named.st_dev == st.st_dev;
}

/* The remembered name is gone: remembers another one, if the file has one. */
static void remember_other(struct shfs_driver *d, struct fan_object *file)
{
	_cleanup_close_ int fd = fan_object_open(d, file);
	_cleanup_free_ char *other = NULL;

	for (size_t i = 0; i < FAN_NAMES_BEFORE && !other; i++)
		if (path_leads_to_fd(file->before[i], fd))
			other = TAKE_PTR(file->before[i]);
	if (!other && fd >= 0)
		other = fan_path_of(d, fd);
	free(TAKE_PTR(file->path));
	fan_remember(d, file, path_leads_to_fd(other, fd) ? other : NULL);
}

/* Returns a name that the file had before path: best one that it still has, or one that
 * is gone; one that another file has now only if no other is known, as that may have got
 * it since. NULL: none. */
static char *other_name(struct shfs_driver *d, const struct fan_name *n, const char *path)
{
	struct fan_object *file = n->child;
	_cleanup_close_ int fd = file ? fan_object_open(d, file) : -1;
	_cleanup_free_ char *last = file ? fan_remembered(d, file) : NULL;
	const char *gone = NULL, *taken = NULL;
	size_t n_known = 0;
	struct stat st;

	for (size_t i = 0; file && i <= FAN_NAMES_BEFORE; i++) {
		const char *name = i ? file->before[i - 1] : last;

		if (!name || !strcmp(name, path))
			continue;
		if (path_leads_to_fd(name, fd))
			return strdup(name);
		if (lstat(name, &st))
			gone = gone ? gone : name;
		else
			taken = name;
		n_known++;
	}
	if (gone)
		return strdup(gone);
	return n_known == 1 ? strdup(taken) : NULL;
}

static char *link_target(struct shfs_driver *d, const struct fan_name *n)
{
	_cleanup_close_ int fd = n->child ? fan_object_open(d, n->child) : -1;
	char target[SHFS_EVENT_PATH_MAX];
	ssize_t len = fd < 0 ? -1 : readlinkat(fd, "", target, sizeof(target) - 1);

	return len < 0 ? NULL : strndup(target, (size_t)len);
}

static void set_file_of_name(struct shfs_event *e, const struct fan_name *n)
{
	fan_file_of_stat(&e->file, &n->st);
	if (!e->file.ino && n->child)
		e->file.ino = fan_object_ino(n->child);
	if (n->child)
		e->file.generation = fan_object_generation(n->child);
	e->file.parent = fan_object_ino(n->dir2 ? n->dir2 : n->dir);
	if (n->is_dir) {
		e->flags |= SHFS_EVENT_DIRECTORY_FILE;
		if (!e->file.mode)
			e->file.mode = S_IFDIR;
	}
}

static void report_event_of_name(struct shfs_driver *d, const struct fan_name *n,
                                 unsigned type, const char *path, const char *path2)
{
	struct shfs_event *e = fan_event(d, type, n->pid);
	bool is_text = type == SHFS_EVENT_MAKE; /* path2: the target of a symbolic link */

	if (!e)
		return;
	set_file_of_name(e, n);
	shfs_event_set_text(&d->room, path_in_root(d, path),
	                    is_text && path2 ? (struct shfs_bytes){ path2, strlen(path2) }
	                                     : path_in_root(d, path2));
	fan_tell(d, -1);
}

static void report_create(struct shfs_driver *d, struct fan_name *n, const char *path)
{
	_cleanup_free_ char *other = NULL;

	if (n->is_link) {
		other = other_name(d, n, path);
		report_event_of_name(d, n, SHFS_EVENT_LINK, other, path);
	} else if (n->is_dir || (n->st.st_mode && !S_ISREG(n->st.st_mode))) {
		if (S_ISLNK(n->st.st_mode))
			other = link_target(d, n);
		report_event_of_name(d, n, SHFS_EVENT_MAKE, path, other);
	} else if (n->child) {
		n->child->creator = n->pid;
	}
	if (!n->is_dir)
		fan_remember(d, n->child, path);
}

static void report_rename(struct shfs_driver *d, struct fan_name *n, const char *from,
                          const char *to)
{
	struct fan_name *with = n->index + 1 < end_index(d)
	                                ? d->names[n->index + 1 - d->first_name]
	                                : NULL;
	struct shfs_event *e = fan_below(d, from) || fan_below(d, to)
	                               ? fan_event(d, SHFS_EVENT_RENAME, n->pid)
	                               : NULL;

	if (!e)
		return;
	set_file_of_name(e, n);
	if (n->replaces)
		e->flags |= SHFS_EVENT_REPLACED;
	if (n->child && n->child->creator == n->pid)
		e->flags |= SHFS_EVENT_CREATED;
	if (with && with->exchanged) {
		e->flags |= SHFS_EVENT_EXCHANGED;
		e->file.id = with->child ? fan_object_ino(with->child) : 0;
	}
	shfs_event_set_text(&d->room, path_in_root(d, from), path_in_root(d, to));
	fan_tell(d, -1);
}

static void report_name(struct shfs_driver *d, struct fan_name *n)
{
	_cleanup_free_ char *path = fan_names_then(d, n->where, n->name, n->index);
	_cleanup_free_ char *to = NULL;

	if (n->dir2)
		to = fan_names_then(d, n->where2, n->name2, n->index + 1);
	if (!path || (n->dir2 && !to)) {
		/* the directory was never located */
		if (fan_event(d, SHFS_EVENT_LOST, n->pid))
			d->lost++;
		return;
	}
	switch (n->kind) {
	case FAN_NAME_CREATE:
		if (fan_below(d, path))
			report_create(d, n, path);
		break;
	case FAN_NAME_CHANGE:
		if (fan_below(d, path))
			report_event_of_name(d, n, SHFS_EVENT_CHANGE, path, NULL);
		break;
	case FAN_NAME_DELETE:
		if (fan_below(d, path))
			report_event_of_name(d, n, SHFS_EVENT_UNLINK, path, NULL);
		if (n->child && n->child->path && !strcmp(n->child->path, path))
			remember_other(d, n->child);
		break;
	case FAN_NAME_RENAME:
		if (!n->exchanged)
			report_rename(d, n, path, to);
		if (n->is_dir) {
			note_move(d, path, to);
			break;
		}
		if (n->child && n->child->path && !strcmp(n->child->path, path))
			free(TAKE_PTR(n->child->path));
		fan_remember(d, n->child, to);
		break;
	}
}

static void report_names(struct shfs_driver *d, size_t end)
{
	size_t n_reported = MIN(end, end_index(d)), n_dirs = 0;

	n_reported = n_reported > d->first_name ? n_reported - d->first_name : 0;
	for (size_t i = 0; i < n_reported; i++)
		if (d->names[i])
			report_name(d, d->names[i]);
	while (n_dirs < d->n_renamed_dirs &&
	       d->renamed_dirs[n_dirs]->index < d->first_name + n_reported)
		n_dirs++;
	d->n_renamed_dirs -= n_dirs;
	if (n_dirs)
		memmove(d->renamed_dirs, d->renamed_dirs + n_dirs,
		        d->n_renamed_dirs * sizeof(*d->renamed_dirs));
	for (size_t i = 0; i < n_reported; i++)
		if (d->names[i])
			drop_name_event(d, d->names[i]);
	d->n_names -= n_reported;
	if (n_reported)
		memmove(d->names, d->names + n_reported, d->n_names * sizeof(*d->names));
	d->first_name += n_reported;
}

static bool are_names_resolved(const struct shfs_driver *d, size_t end)
{
	for (size_t i = 0; i < d->n_names && d->first_name + i < end; i++)
		if (!is_name_resolved(d, i))
			return false;
	return true;
}

void fan_names_tell(struct shfs_driver *d, size_t end)
{
	/* a directory is gone a moment before the kernel reports that */
	for (int i = 0; i < TELL_TRIES && !are_names_resolved(d, end); i++) {
		usleep(TELL_WAIT_US);
		if (fan_names_read(d) < 0)
			break;
	}
	report_names(d, end);
}

/* --- open and close --- */

int fan_names_mark(struct shfs_driver *d, int dir_fd)
{
	return fanotify_mark(d->names_fd, FAN_MARK_ADD | FAN_MARK_FILESYSTEM, NAME_EVENTS,
	                     dir_fd, NULL)
	               ? -errno
	               : 0;
}

int fan_names_open(struct shfs_driver *d, struct shfs_buf *why)
{
	d->names_fd = fanotify_init(FAN_CLASS_NOTIF | FAN_CLOEXEC | FAN_NONBLOCK |
	                                    FAN_UNLIMITED_MARKS | FAN_REPORT_DFID_NAME |
	                                    FAN_REPORT_FID | FAN_REPORT_TARGET_FID,
	                            O_RDONLY | O_CLOEXEC | O_LARGEFILE);
	if (d->names_fd >= 0)
		return 0;
	shfs_buf_printf(why, "fanotify does not report names here (Linux 5.17 does): %s",
	                strerror(errno));
	return -errno;
}

void fan_names_free(struct shfs_driver *d)
{
	for (size_t i = 0; i < d->n_names; i++)
		fan_name_free(d->names[i]);
	for (size_t i = 0; i < FAN_MOVES; i++) {
		free(d->moves[i].from);
		free(d->moves[i].to);
	}
	free(d->names);
	free(d->renamed_dirs);
}
