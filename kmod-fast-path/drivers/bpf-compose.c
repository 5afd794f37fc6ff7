/* SPDX-License-Identifier: MIT */
#include "kmod-fast-path/drivers/bpf-compose.h"

#include "common/clock.h"
#include "common/proc.h"

#include <errno.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <uthash.h>

#define TRIM_ABOVE 65536 /* directories */

struct directory {
	uint64_t key, ino;
	uint64_t volume; /* device of its btrfs subvolume; 0: that of the root */
	char *path;      /* below the root; with top: absolute, without the first slash */
	size_t len;
	bool top;
	bool doomed; /* the kernel had forgotten it at the last trim */
	UT_hash_handle hh;
};

/* A directory that a thread describes in several records. */
struct part {
	uint64_t id;
	uint64_t key;
	struct shfs_buf names; /* the deepest first, each ends with NUL */
	bool volume;
	UT_hash_handle hh;
};

struct process {
	uint32_t pid;
	uint64_t start_ns;
	uint32_t ppid, pgid, sid, tty;
	UT_hash_handle hh;
};

struct shfs_composer {
	char *root_path;
	uint64_t root_dev;
	bool own_pids;
	struct shfs_composer_ops ops;
	void *arg;
	struct directory *directories;
	struct part *parts;
	struct process *processes;
	uint64_t sequence, lost;
	struct shfs_buf event;
};

int shfs_composer_new(const char *root_path, uint64_t root_dev, bool own_pids,
                      const struct shfs_composer_ops *ops, void *arg,
                      struct shfs_composer **out)
{
	struct shfs_composer *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	/* "/" becomes "": paths below begin with the slash */
	c->root_path = strdup(strcmp(root_path, "/") ? root_path : "");
	if (!c->root_path) {
		free(c);
		return -ENOMEM;
	}
	c->root_dev = root_dev;
	c->own_pids = own_pids;
	c->ops = *ops;
	c->arg = arg;
	*out = c;
	return 0;
}

static void forget_directory(struct shfs_composer *c, struct directory *d)
{
	HASH_DEL(c->directories, d);
	free(d->path);
	free(d);
}

static void forget_part(struct shfs_composer *c, struct part *p)
{
	HASH_DEL(c->parts, p);
	shfs_buf_free(&p->names);
	free(p);
}

static void forget_process(struct shfs_composer *c, struct process *p)
{
	HASH_DEL(c->processes, p);
	free(p);
}

void shfs_composer_free(struct shfs_composer *c)
{
	struct directory *d, *next_d;
	struct part *part, *next_part;
	struct process *p, *next_p;

	if (!c)
		return;
	HASH_ITER (hh, c->directories, d, next_d)
		forget_directory(c, d);
	HASH_ITER (hh, c->parts, part, next_part)
		forget_part(c, part);
	HASH_ITER (hh, c->processes, p, next_p)
		forget_process(c, p);
	shfs_buf_free(&c->event);
	free(c->root_path);
	free(c);
}

/* --- directories --- */

static struct directory *find_directory(struct shfs_composer *c, uint64_t key)
{
	struct directory *d;

	HASH_FIND(hh, c->directories, &key, sizeof(key), d);
	return d;
}

/* Joins names, the deepest first, to a path. */
static int join_names(const char *names, size_t len, struct shfs_buf *path)
{
	while (len) {
		const char *name = memrchr(names, '\0', len - 1);
		size_t at = name ? (size_t)(name - names) + 1 : 0;

		if (path->len)
			shfs_buf_char(path, '/');
		shfs_buf_add(path, names + at, len - 1 - at);
		len = at;
	}
	shfs_buf_add(path, "", 0);
	return path->failed ? -ENOMEM : 0;
}

/* The device of the subvolume: inode numbers are unique only within one. */
static uint64_t volume_of(struct shfs_composer *c, const char *path)
{
	struct stat st;

	if (!c->ops.look || c->ops.look(c->arg, path, &st) < 0)
		return UINT64_MAX; /* gone: it may not have been of the root's
		                    * subvolume */
	return st.st_dev;
}

static int keep_directory(struct shfs_composer *c, const struct shfs_bpf_record *record,
                          const struct part *part)
{
	_cleanup_buf_ struct shfs_buf path = { 0 };
	struct directory *d = find_directory(c, record->directory);
	int r = join_names(part->names.data, part->names.len, &path);

	if (r < 0)
		return r;
	if (d)
		forget_directory(c, d);
	d = calloc(1, sizeof(*d));
	if (!d)
		return -ENOMEM;
	d->key = record->directory;
	d->ino = record->ino;
	d->len = MIN(path.len, SHFS_EVENT_PATH_MAX);
	d->top = record->flags & SHFS_BPF_TOP;
	d->path = path.len ? shfs_buf_take(&path) : calloc(1, 1);
	if (!d->path) {
		free(d);
		return -ENOMEM;
	}
	if (part->volume && !d->top)
		d->volume = volume_of(c, d->path);
	HASH_ADD(hh, c->directories, key, sizeof(d->key), d);
	return 0;
}

static struct part *begin_part(struct shfs_composer *c,
                               const struct shfs_bpf_record *record)
{
	struct part *part;

	HASH_FIND(hh, c->parts, &record->id, sizeof(record->id), part);
	if (part)
		forget_part(c, part); /* its last record had no room in the ring */
	part = calloc(1, sizeof(*part));
	if (!part)
		return NULL;
	part->id = record->id;
	part->key = record->directory;
	HASH_ADD(hh, c->parts, id, sizeof(part->id), part);
	return part;
}

static int take_directory(struct shfs_composer *c, const struct shfs_bpf_record *record)
{
	struct part *part;
	int r = 0;

	if (record->name_len && record->text[record->name_len - 1])
		return -EBADMSG;
	if (record->flags & SHFS_BPF_FIRST) {
		part = begin_part(c, record);
		if (!part)
			return -ENOMEM;
	} else {
		HASH_FIND(hh, c->parts, &record->id, sizeof(record->id), part);
		if (!part || part->key != record->directory)
			return 0;
	}
	part->volume |= record->flags & SHFS_BPF_VOLUME;
	shfs_buf_add(&part->names, record->text, record->name_len);
	if (part->names.failed)
		r = -ENOMEM;
	else if (record->flags & SHFS_BPF_LAST)
		r = keep_directory(c, record, part);
	if (r < 0 || (record->flags & SHFS_BPF_LAST))
		forget_part(c, part);
	return r;
}

void shfs_composer_trim(struct shfs_composer *c)
{
	struct directory *d, *next;

	if (HASH_COUNT(c->directories) <= TRIM_ABOVE || !c->ops.is_told)
		return;
	HASH_ITER (hh, c->directories, d, next) {
		bool told = c->ops.is_told(c->arg, d->key);

		if (!told && d->doomed)
			forget_directory(c, d);
		else
			d->doomed = !told;
	}
}

/* --- processes --- */

static struct process *find_composer_process(struct shfs_composer *c, uint32_t pid)
{
	struct process *p;

	HASH_FIND(hh, c->processes, &pid, sizeof(pid), p);
	return p;
}

static struct process *know_process(struct shfs_composer *c, uint32_t pid,
                                    uint64_t start_ns)
{
	struct process *p = find_composer_process(c, pid);

	if (!p) {
		p = calloc(1, sizeof(*p));
		if (!p)
			return NULL;
		p->pid = pid;
		HASH_ADD(hh, c->processes, pid, sizeof(p->pid), p);
	}
	p->start_ns = start_ns;
	return p;
}

/* Finds a process that began before the driver in /proc, if it still lives. */
static struct process *ask_process(struct shfs_composer *c, uint32_t pid,
                                   uint64_t start_ns)
{
	uint64_t ns_per_tick = SHFS_NSEC_PER_SEC / (uint64_t)sysconf(_SC_CLK_TCK);
	_cleanup_close_ int fd = -1;
	struct shfs_proc_stat stat;
	struct process *p;

	if (!c->own_pids || !pid)
		return NULL;
	fd = shfs_proc_open(pid);
	if (fd < 0 || shfs_proc_read_stat(fd, &stat) < 0 ||
	    stat.start_ticks != start_ns / ns_per_tick)
		return NULL;
	p = know_process(c, pid, start_ns);
	if (!p)
		return NULL;
	p->ppid = stat.ppid;
	p->pgid = stat.pgid;
	p->sid = stat.sid;
	p->tty = stat.tty_nr;
	return p;
}

/* Converts a device number of the kernel to the form that /proc/PID/stat has. */
static uint32_t device_number(uint32_t kernel)
{
	uint32_t major = kernel >> 20, minor = kernel & 0xfffff;

	return (minor & 0xff) | major << 8 | (minor & ~0xffu) << 12;
}

static void set_process(struct shfs_composer *c, const struct shfs_bpf_record *record,
                        struct shfs_event_process *out)
{
	struct process *p;

	out->pid = record->pid;
	out->tid = record->tid;
	out->start_ns = record->start_ns;
	out->uid = record->uid;
	if (record->flags & SHFS_BPF_SESSION) {
		p = know_process(c, record->pid, record->start_ns);
		if (p) {
			p->ppid = record->ppid;
			p->pgid = record->pgid;
			p->sid = record->sid;
			p->tty = device_number(record->tty);
		}
	} else {
		p = find_composer_process(c, record->pid);
		if (!p || p->start_ns != record->start_ns)
			p = ask_process(c, record->pid, record->start_ns);
	}
	if (!p)
		return;
	out->ppid = p->ppid;
	out->pgid = p->pgid;
	out->sid = p->sid;
	out->tty = p->tty;
}

/* Remembers a child: at first it has the ids of its parent. */
static void set_child(struct shfs_composer *c, const struct shfs_bpf_record *record,
                      struct shfs_event *event)
{
	struct process *child = know_process(c, (uint32_t)record->ino, record->id);

	event->child.pid = (uint32_t)record->ino;
	event->child.start_ns = record->id;
	if (!child)
		return;
	child->ppid = event->process.pid;
	child->pgid = event->process.pgid;
	child->sid = event->process.sid;
	child->tty = event->process.tty;
}

/* --- events --- */

static struct shfs_event *begin_event(struct shfs_composer *c, unsigned type)
{
	static const struct shfs_event none;
	struct shfs_event *event;

	c->event.len = 0;
	c->event.failed = false;
	shfs_buf_reserve(&c->event, SHFS_EVENT_SIZE_MAX);
	shfs_buf_add(&c->event, &none, sizeof(none));
	if (c->event.failed)
		return NULL;
	event = (struct shfs_event *)c->event.data;
	event->type = (uint16_t)type;
	return event;
}

/* With what each record tells. */
static struct shfs_event *begin_recorded(struct shfs_composer *c,
                                         const struct shfs_bpf_record *record)
{
	struct shfs_event *event = begin_event(c, record->type);

	if (!event)
		return NULL;
	event->flags = record->flags & (SHFS_BPF_SESSION - 1);
	event->cpu = record->cpu;
	event->time_ns = record->time_ns;
	set_process(c, record, &event->process);
	return event;
}

static void end_event(struct shfs_composer *c, struct shfs_event *event)
{
	while (c->event.len % 8)
		shfs_buf_char(&c->event, '\0');
	event->size = (uint32_t)c->event.len;
	event->sequence = c->sequence++;
	if (c->ops.tell)
		c->ops.tell(c->arg, event);
}

void shfs_compose_lost(struct shfs_composer *c, uint64_t lost)
{
	struct shfs_event *event;

	if (lost <= c->lost)
		return;
	event = begin_event(c, SHFS_EVENT_LOST);
	if (!event)
		return; /* the next event reports them */
	event->lost.count = lost - c->lost;
	event->time_ns = (uint64_t)shfs_clock_ns(CLOCK_BOOTTIME);
	c->sequence += event->lost.count;
	c->lost = lost;
	end_event(c, event);
}

static void set_file_of_record(struct shfs_composer *c,
                               const struct shfs_bpf_record *record,
                               struct shfs_event_file *file)
{
	file->id = record->id;
	if (record->dev != c->root_dev)
		file->dev = makedev(record->dev >> 20, record->dev & 0xfffff);
	file->ino = record->ino;
	file->bytes = record->bytes;
	file->mtime_ns = record->mtime_ns;
	file->ctime_ns = record->ctime_ns;
	file->generation = record->generation;
	file->mode = record->mode;
	file->nlink = record->nlink;
	file->uid = record->owner;
}

/* Appends directory/name, at most PATH_MAX bytes; returns the number of bytes. */
static size_t append_event_path(struct shfs_composer *c, struct shfs_event *event,
                                const struct directory *d, const char *name, size_t len)
{
	size_t before = c->event.len;

	if (!d)
		event->flags |= SHFS_EVENT_CUT;
	if (d && d->len) {
		shfs_buf_add(&c->event, d->path, d->len);
		shfs_buf_char(&c->event, '/');
	}
	shfs_buf_add(&c->event, name, len);
	if (c->event.len - before > SHFS_EVENT_PATH_MAX) {
		c->event.len = before + SHFS_EVENT_PATH_MAX;
		event->flags |= SHFS_EVENT_CUT;
	}
	return c->event.len - before;
}

/* --- paths that a program gave to a call --- */

/* Removes empty and "." components, and ".." together with the component before it. */
static void normalize_path(struct shfs_buf *path)
{
	char *in = path->data, *out = path->data;

	while (*in) {
		size_t len = strcspn(in, "/");

		if (len == 2 && !memcmp(in, "..", 2)) {
			while (out > path->data && *--out != '/')
				;
		} else if (len && !(len == 1 && *in == '.')) {
			if (out > path->data)
				*out++ = '/';
			memmove(out, in, len);
			out += len;
		}
		in += len + (in[len] == '/');
	}
	*out = '\0';
	path->len = (size_t)(out - path->data);
}

/* Makes a path from the top of all, without its first slash, relative to the root. */
static int below_root(struct shfs_composer *c, struct shfs_buf *path)
{
	const char *root = c->root_path + (*c->root_path == '/');
	size_t len = strlen(root);

	if (len && (strncmp(path->data, root, len) || path->data[len] != '/'))
		return -ENOENT;
	if (len)
		len++;
	memmove(path->data, path->data + len, path->len - len + 1);
	path->len -= len;
	return path->len ? 0 : -ENOENT;
}

/* Resolves symbolic links in all components but the last. */
static int without_links(struct shfs_composer *c, struct shfs_buf *path)
{
	_cleanup_buf_ struct shfs_buf real = { 0 };
	char *name = memrchr(path->data, '/', path->len);
	int r;

	if (!name || !c->ops.real)
		return 0;
	*name = '\0';
	r = c->ops.real(c->arg, path->data, &real);
	*name = '/';
	if (r < 0)
		return 0; /* gone since: the path stays as it was given */
	if (real.len)
		shfs_buf_char(&real, '/');
	shfs_buf_str(&real, name + 1);
	if (real.failed)
		return -ENOMEM;
	shfs_buf_free(path);
	*path = real;
	real = (struct shfs_buf){ 0 };
	return 0;
}

/* The path below the root of what a program named: a path relative to a directory.
 * -ENOENT: it is not below the root. */
static int given_path(struct shfs_composer *c, uint64_t key, const char *text, size_t len,
                      struct shfs_buf *out)
{
	struct directory *d = find_directory(c, key);
	int r;

	if (!d || !len || memchr(text, '\0', len))
		return -ENOENT;
	if (!d->top) {
		shfs_buf_str(out, c->root_path + (*c->root_path == '/'));
		shfs_buf_char(out, '/');
	}
	shfs_buf_add(out, d->path, d->len);
	shfs_buf_char(out, '/');
	shfs_buf_add(out, text, len);
	if (out->failed)
		return -ENOMEM;
	normalize_path(out);
	r = below_root(c, out);
	if (r < 0)
		return r;
	r = without_links(c, out);
	return r < 0 ? r : (out->len <= SHFS_EVENT_PATH_MAX ? 0 : -ENOENT);
}

/* Is the second text a path too? */
static bool has_two_paths(uint16_t type)
{
	return type == SHFS_EVENT_RENAME || type == SHFS_EVENT_LINK;
}

/* Is this the path? 1, 0; -1: its directory is not known yet. */
static int leads_to(struct shfs_composer *c, uint64_t key, const char *text, size_t len,
                    const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	size_t n = strlen(name);
	_cleanup_buf_ struct shfs_buf found = { 0 };
	int r;

	/* most have another last name, which costs nothing */
	if (len < n || memcmp(text + len - n, name, n) != 0 ||
	    (len > n && text[len - n - 1] != '/'))
		return 0;
	if (!find_directory(c, key))
		return -1;
	r = given_path(c, key, text, len, &found);
	return r ? (r == -ENOENT ? 0 : -1) : !strcmp(found.data, path);
}

bool shfs_bpf_record_changes_names(const struct shfs_bpf_record *record)
{
	return record->type == SHFS_EVENT_RENAME || record->type == SHFS_EVENT_LINK ||
	       record->type == SHFS_EVENT_UNLINK;
}

bool shfs_composer_may_change(struct shfs_composer *c,
                              const struct shfs_bpf_record *record, const char *path)
{
	if (!shfs_bpf_record_changes_names(record))
		return false;
	return (record->type != SHFS_EVENT_LINK &&
	        leads_to(c, record->directory, record->text, record->name_len, path)) ||
	       (has_two_paths(record->type) &&
	        leads_to(c, record->directory2, record->text + record->name2_at,
	                 record->name2_len, path));
}

/* Is what its second path leads to now this file? */
static bool leads_on_to(struct shfs_composer *c, const struct shfs_bpf_record *record,
                        uint64_t ino)
{
	_cleanup_buf_ struct shfs_buf path = { 0 };
	struct stat st;

	return !given_path(c, record->directory2, record->text + record->name2_at,
	                   record->name2_len, &path) &&
	       c->ops.look && !c->ops.look(c->arg, path.data, &st) && st.st_ino == ino;
}

int shfs_composer_confirms(struct shfs_composer *c, const struct shfs_bpf_record *record,
                           const char *path, uint64_t ino)
{
	bool names = record->type == SHFS_EVENT_WRITE || record->type == SHFS_EVENT_CLOSE;

	if (names &&
	    leads_to(c, record->directory, record->text, record->name_len, path) > 0)
		return record->ino == ino ? 1 : -1;
	if (has_two_paths(record->type) &&
	    leads_to(c, record->directory, record->text, record->name_len, path) > 0 &&
	    leads_on_to(c, record, ino))
		return 1;
	return shfs_composer_may_change(c, record, path) ? -1 : 0;
}

/* Was another file looked up, which got the name later? After more time than this, that
 * shows in its ctime, which is as exact as the kernel's tick. */
#define CTIME_SHOWS_NS 20000000

static bool is_looked_late(struct shfs_composer *c, const struct shfs_event *event,
                           const char *path)
{
	return c->ops.is_changed_again &&
	       c->ops.is_changed_again(c->arg, path, event->time_ns + CTIME_SHOWS_NS);
}

/* The file of the event was looked up by its second path; first: its first one. */
static bool is_confirmed(struct shfs_composer *c, const struct shfs_event *event,
                         const char *first)
{
	return first && c->ops.is_confirmed &&
	       c->ops.is_confirmed(c->arg, first, event->file.ino,
	                           event->time_ns + CTIME_SHOWS_NS);
}

static void set_looked(struct shfs_composer *c, struct shfs_event *event,
                       const char *path, const char *first)
{
	struct stat st;

	if (!path || !c->ops.look || c->ops.look(c->arg, path, &st) < 0 ||
	    is_looked_late(c, event, path))
		return;
	event->file.ino = st.st_ino;
	event->file.bytes = (uint64_t)st.st_size;
	event->file.mtime_ns = shfs_timespec_ns(st.st_mtim);
	event->file.ctime_ns = shfs_timespec_ns(st.st_ctim);
	event->file.mode = st.st_mode;
	event->file.nlink = (uint32_t)st.st_nlink;
	event->file.uid = st.st_uid;
	event->file.dev = st.st_dev;
	if (S_ISDIR(st.st_mode))
		event->flags |= SHFS_EVENT_DIRECTORY_FILE;
	if (is_confirmed(c, event, first))
		event->flags |= SHFS_EVENT_CONFIRMED;
}

/* Which other file was exchanged: it has the first path since. */
static void set_exchanged(struct shfs_composer *c, struct shfs_event *event,
                          const char *path)
{
	struct stat st;

	if (event->flags & SHFS_EVENT_EXCHANGED && c->ops.look &&
	    !c->ops.look(c->arg, path, &st) && !is_looked_late(c, event, path))
		event->file.id = st.st_ino;
}

static int take_given(struct shfs_composer *c, const struct shfs_bpf_record *record)
{
	_cleanup_buf_ struct shfs_buf path = { 0 }, path2 = { 0 };
	bool two = has_two_paths(record->type), is_below, is_below2 = false;
	struct shfs_event *event;
	int r;

	r = given_path(c, record->directory, record->text, record->name_len, &path);
	if (r < 0 && r != -ENOENT)
		return r;
	is_below = !r;
	if (two) {
		r = given_path(c, record->directory2, record->text + record->name2_at,
		               record->name2_len, &path2);
		if (r < 0 && r != -ENOENT)
			return r;
		is_below2 = !r;
	}
	if (!is_below2 && (!is_below || record->type == SHFS_EVENT_LINK))
		return 0;
	event = begin_recorded(c, record);
	if (!event)
		return -ENOMEM;
	event->file.mode = record->mode;
	if (record->type != SHFS_EVENT_UNLINK)
		set_looked(c, event, is_below2 ? path2.data : (two ? NULL : path.data),
		           record->type == SHFS_EVENT_LINK && is_below ? path.data
		                                                       : NULL);
	if (is_below && is_below2)
		set_exchanged(c, event, path.data);
	if (is_below)
		shfs_buf_add(&c->event, path.data, path.len);
	event->text_len = (uint16_t)(is_below ? path.len : 0);
	if (is_below2)
		shfs_buf_add(&c->event, path2.data, path2.len);
	else if (!two)
		shfs_buf_add(&c->event, record->text + record->name2_at,
		             record->name2_len);
	event->text2_len = (uint16_t)(c->event.len - sizeof(*event) - event->text_len);
	if (c->event.failed)
		return -ENOMEM;
	end_event(c, event);
	return 0;
}

/* --- records --- */

static void set_texts(struct shfs_composer *c, const struct shfs_bpf_record *record,
                      struct shfs_event *event)
{
	const struct directory *d = NULL, *d2 = NULL;

	if (record->type == SHFS_EVENT_EXEC) {
		shfs_buf_add(&c->event, record->text, record->name_len);
		event->text_len = record->name_len;
	} else if (record->directory) {
		d = find_directory(c, record->directory);
		event->text_len = (uint16_t)append_event_path(c, event, d, record->text,
		                                              record->name_len);
		event->file.parent = d ? d->ino : 0;
		if (d && !event->file.dev)
			event->file.dev = d->volume;
	}
	if (!record->name2_len)
		return;
	if (!has_two_paths(record->type)) {
		size_t len = record->name2_len;

		/* arguments must each end with NUL; the last one may lack it */
		if (record->type == SHFS_EVENT_EXEC &&
		    !record->text[record->name2_at + len - 1])
			len--;
		shfs_buf_add(&c->event, record->text + record->name2_at, len);
		event->text2_len = (uint16_t)len;
	} else if (record->directory2) {
		d2 = find_directory(c, record->directory2);
		event->text2_len =
			(uint16_t)append_event_path(c, event, d2,
		                                    record->text + record->name2_at,
		                                    record->name2_len);
		if (!d)
			event->file.parent = d2 ? d2->ino : 0;
	}
}

/* Sets what the process has used. Ticks say in which mode it ran; the scheduler, more
 * exactly, for how long: the kernel itself shares it out so for getrusage(2). */
static void set_usage(const struct shfs_bpf_record *record, struct shfs_event *event)
{
	double user_ns = (double)(uint64_t)record->mtime_ns,
	       system_ns = (double)(uint64_t)record->ctime_ns,
	       part = system_ns > 0 ? system_ns / (user_ns + system_ns) : 0;
	uint64_t run_us = record->id / 1000;

	if (!(record->flags & SHFS_EVENT_USAGE))
		return;
	event->exit = (struct shfs_event_exit){
		.status = record->mode & 0xffff,
		.system_us = (uint64_t)((double)run_us * part),
		.max_rss_kib = record->bytes * ((uint64_t)sysconf(_SC_PAGESIZE) >> 10),
	};
	event->exit.user_us = run_us - MIN(event->exit.system_us, run_us);
}

bool shfs_bpf_record_is_whole(const struct shfs_bpf_record *record, size_t size)
{
	size_t room = size - sizeof(*record);

	return size >= sizeof(*record) && record->name_len <= room &&
	       record->name2_at <= room && record->name2_len <= room - record->name2_at;
}

int shfs_compose(struct shfs_composer *c, const struct shfs_bpf_record *record,
                 size_t size)
{
	struct shfs_event *event;
	struct process *p;

	if (!shfs_bpf_record_is_whole(record, size))
		return -EBADMSG;
	shfs_compose_lost(c, record->lost);
	if (record->type == SHFS_EVENT_DIRECTORY)
		return take_directory(c, record);
	if (record->flags & SHFS_BPF_GIVEN)
		return take_given(c, record);

	event = begin_recorded(c, record);
	if (!event)
		return -ENOMEM;
	if (record->type == SHFS_EVENT_FORK) {
		set_child(c, record, event);
	} else if (record->type == SHFS_EVENT_EXIT) {
		set_usage(record, event);
	} else {
		set_file_of_record(c, record, &event->file);
		set_texts(c, record, event);
	}
	if (c->event.failed)
		return -ENOMEM;
	end_event(c, event);
	if (record->type == SHFS_EVENT_EXIT &&
	    (p = find_composer_process(c, record->pid)))
		forget_process(c, p);
	return 0;
}
