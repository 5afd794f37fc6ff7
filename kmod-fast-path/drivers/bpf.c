/* SPDX-License-Identifier: MIT */
/*
 * The drivers "bpf" and "bpf-tracepoints": the first attaches BPF programs to functions
 * of the kernel; the second needs only tracepoints, for kernels that refuse the first.
 * Each open driver has programs, maps and a ring of its own, which end with it.
 *
 * The programs write records to the ring (bpf/record.h); bpf-compose.c makes events of
 * them. A written file is held by bpf-pins.c, or opened by a file handle made of its
 * inode number and generation: that finds it under any name, but not once it has none.
 */
#include "common/clock.h"
#include "common/util.h"
#include "kmod-fast-path/drivers/bpf-calls.h"
#include "kmod-fast-path/drivers/bpf-compose.h"
#include "kmod-fast-path/drivers/bpf-pins.h"
#include "kmod-fast-path/drivers/driver.h"

#include "fentry.skel.h"
#include "tracepoints.skel.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#define TRIM_NS        (60 * 1000000000ll)
#define BUSY_NS        1000000000ll /* a program that takes so long will not end */
#define RECORDS_A_STEP 64           /* the ring's room is given back after so many */
#define AHEAD_BYTES    (SHFS_BPF_RING_SIZE / 8) /* more than that in the ring is copied */
#define AHEAD_MAX      (SHFS_BPF_RING_SIZE * 6u) /* copied, and not drained */

/* How a file system makes a file handle of an inode's number and generation. */
enum handle_form {
	HANDLE_NONE,
	HANDLE_INO32, /* ext4 and most others: ino, generation; 32 bits each */
	HANDLE_INO64, /* xfs: ino in 64 bits */
	HANDLE_BTRFS, /* ino in 64 bits, subvolume, generation */
};

struct handle {
	struct file_handle head;
	unsigned char bytes[MAX_HANDLE_SZ];
};

struct shfs_driver {
	struct fentry_bpf *fentry; /* one of the two */
	struct tracepoints_bpf *tracepoints;
	struct bpf_object *object;
	struct bpf_object_skeleton *skeleton;
	struct shfs_bpf_config *config;
	struct shfs_bpf_state *state;

	int root_fd, namespace_fd;
	dev_t root_stat_dev; /* the st_dev of stat(2) */
	uint32_t own_pid;    /* in the watcher's namespace; 0: it has none there */
	char root_path[PATH_MAX];
	enum handle_form handle_form;
	struct handle root_handle;
	struct shfs_pins *pins;

	struct shfs_composer *composer;
	shfs_event_sink sink; /* set while draining */
	void *sink_arg;
	int64_t trimmed_ns;

	int ring_fd, told_fd;
	unsigned long *consumer, *producer; /* positions; the data lies behind the
	                                     * second */
	unsigned long at, next; /* positions of the record that is drained, and the one
	                         * after it */
	const char *data;
	size_t page;
	/* what was copied out of the ring, so that it has room while the processors are
	 * busy: up to the consumer's position */
	char *ahead;
	unsigned long ahead_from; /* the position of its first byte */
	size_t ahead_len, ahead_cap;

	/* where the ring has changes of names that are not drained yet, up to searched */
	unsigned long *names, searched;
	size_t first_name, n_names, names_cap;
};

/* --- content --- */

static void make_handle(const struct shfs_driver *d, uint64_t ino, uint32_t generation,
                        struct handle *out)
{
	uint32_t ino32 = (uint32_t)ino;

	*out = d->root_handle;
	switch (d->handle_form) {
	case HANDLE_NONE:
		break;
	case HANDLE_INO32:
		memcpy(out->bytes, &ino32, 4);
		memcpy(out->bytes + 4, &generation, 4);
		break;
	case HANDLE_INO64:
		memcpy(out->bytes, &ino, 8);
		memcpy(out->bytes + 8, &generation, 4);
		break;
	case HANDLE_BTRFS:
		memcpy(out->bytes, &ino, 8);
		memcpy(out->bytes + 16, &generation, 4);
		break;
	}
}

/* Learns the form of handles: the one that makes the root's own handle of its numbers. */
static void learn_handles(struct shfs_driver *d)
{
	static const struct {
		enum handle_form form;
		int type;
		unsigned bytes;
	} forms[] = {
		{ HANDLE_INO32, 1, 8 },
		{ HANDLE_INO64, 0x81, 12 },
		{ HANDLE_BTRFS, 0x4d, 20 },
	};
	int generation, mount;
	struct handle made;
	struct stat st;

	d->root_handle.head.handle_bytes = MAX_HANDLE_SZ;
	if (name_to_handle_at(d->root_fd, "", &d->root_handle.head, &mount,
	                      AT_EMPTY_PATH) ||
	    fstat(d->root_fd, &st) || ioctl(d->root_fd, FS_IOC_GETVERSION, &generation))
		return;
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		if (d->root_handle.head.handle_type != forms[i].type ||
		    d->root_handle.head.handle_bytes != forms[i].bytes)
			continue;
		d->handle_form = forms[i].form;
		make_handle(d, st.st_ino, (uint32_t)generation, &made);
		if (!memcmp(made.bytes, d->root_handle.bytes, forms[i].bytes))
			return;
	}
	d->handle_form = HANDLE_NONE;
}

static int open_in_root(const struct shfs_driver *d, const char *path, uint64_t flags,
                        uint64_t resolve)
{
	struct open_how how = {
		.flags = flags | O_PATH | O_CLOEXEC,
		.resolve = resolve | RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS,
	};

	return (int)syscall(SYS_openat2, d->root_fd, path, &how, sizeof(how));
}

/* Finds the file by its path, if that still names it. The inode number is proof enough
 * where the file system has no generations, or reuses no number while it is mounted. */
static int pin_by_path(const struct shfs_driver *d, const struct shfs_event *event)
{
	_cleanup_close_ int fd = -1;
	char path[SHFS_EVENT_PATH_MAX + 1];
	struct stat st;

	if (event->flags & SHFS_EVENT_CUT || event->file.nlink == 0)
		return -1;
	memcpy(path, event->text, event->text_len);
	path[event->text_len] = '\0';
	fd = open_in_root(d, path, O_NOFOLLOW, RESOLVE_NO_SYMLINKS);
	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode) ||
	    st.st_ino != event->file.ino ||
	    shfs_timespec_ns(st.st_ctim) < event->file.ctime_ns)
		return -1;
	return TAKE_FD(fd);
}

/* Finds the file by its handle, or else by its path: only while it has a name. */
static int pin_by_name(const struct shfs_driver *d, const struct shfs_event *event)
{
	struct handle handle;

	if (event->file.dev || d->handle_form == HANDLE_NONE)
		return pin_by_path(d, event);
	make_handle(d, event->file.ino, event->file.generation, &handle);
	return open_by_handle_at(d->root_fd, &handle.head, O_PATH | O_CLOEXEC);
}

/* An O_PATH descriptor of the file of an event, or -1. */
static int pin_event_file(struct shfs_driver *d, const struct shfs_event *event)
{
	int fd;

	if (event->type != SHFS_EVENT_CLOSE ||
	    !(event->flags &
	      (SHFS_EVENT_WRITTEN | SHFS_EVENT_MAPPED | SHFS_EVENT_CREATED)))
		return -1;
	do {
		fd = shfs_pins_find(d->pins, event);
		if (fd < 0)
			fd = pin_by_name(d, event);
	} while (fd < 0 && shfs_pins_wait(d->pins, event));
	return fd;
}

/* --- calls of the composer --- */

static void report_composed_event(void *arg, struct shfs_event *event)
{
	struct shfs_driver *d = arg;
	_cleanup_close_ int content = -1;

	if (d->own_pid && event->process.pid == d->own_pid) /* caused by closing pins */
		return;
	content = pin_event_file(d, event);
	if (content >= 0)
		event->flags |= SHFS_EVENT_PINNED;
	d->sink(d->sink_arg, event, content);
}

/* As stat(2), but st_dev is 0 on the file system of the root. */
static int stat_in_root(void *arg, const char *path, struct stat *out)
{
	struct shfs_driver *d = arg;
	_cleanup_close_ int fd =
		open_in_root(d, path, O_NOFOLLOW, RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV);

	if (fd < 0 || fstat(fd, out))
		return -errno;
	if (out->st_dev == d->root_stat_dev)
		out->st_dev = 0;
	return 0;
}

static int resolve_in_root(void *arg, const char *path, struct shfs_buf *out)
{
	struct shfs_driver *d = arg;
	_cleanup_close_ int fd = open_in_root(d, path, O_DIRECTORY, RESOLVE_NO_XDEV);
	size_t len = strcmp(d->root_path, "/") ? strlen(d->root_path) : 0;
	char link[32], target[PATH_MAX];
	ssize_t n;

	if (fd < 0)
		return -errno;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, target, sizeof(target) - 1);
	if (n < 0)
		return -errno;
	target[n] = '\0';
	if (strncmp(target, d->root_path, len) || (target[len] && target[len] != '/'))
		return -ENOENT;
	shfs_buf_str(out, target[len] ? target + len + 1 : "");
	return 0;
}

static bool is_dir_reported(void *arg, uint64_t key)
{
	struct shfs_driver *d = arg;
	uint8_t value;

	return !bpf_map_lookup_elem(d->told_fd, &key, &value);
}

/* --- the ring --- */

static int map_ring(struct shfs_driver *d)
{
	void *mapped;

	d->ring_fd = bpf_object__find_map_fd_by_name(d->object, "ring");
	d->told_fd = bpf_object__find_map_fd_by_name(d->object, "told");
	mapped = mmap(NULL, d->page, PROT_READ | PROT_WRITE, MAP_SHARED, d->ring_fd, 0);
	if (mapped == MAP_FAILED)
		return -errno;
	d->consumer = mapped;
	/* the data is mapped twice in a row: no record is ever in two pieces */
	mapped = mmap(NULL, d->page + 2 * SHFS_BPF_RING_SIZE, PROT_READ, MAP_SHARED,
	              d->ring_fd, (off_t)d->page);
	if (mapped == MAP_FAILED)
		return -errno;
	d->producer = mapped;
	d->data = (const char *)mapped + d->page;
	return 0;
}

/* Waits until the program that makes a record has ended, and returns the record's
 * head. */
static int await_record(const uint32_t *head, uint32_t *out)
{
	int64_t since = 0, now;

	while ((*out = __atomic_load_n(head, __ATOMIC_ACQUIRE)) & BPF_RINGBUF_BUSY_BIT) {
		now = shfs_clock_ns(CLOCK_MONOTONIC);
		if (!since)
			since = now;
		else if (now - since > BUSY_NS)
			return -EAGAIN;
		sched_yield();
	}
	return 0;
}

/* The bytes of a record without its header, and those that it takes in the ring. */
static size_t size_of_record(uint32_t head)
{
	return head & ~(BPF_RINGBUF_BUSY_BIT | BPF_RINGBUF_DISCARD_BIT);
}

static size_t room_of_record(uint32_t head)
{
	return (BPF_RINGBUF_HDR_SZ + size_of_record(head) + 7) & ~7ul;
}

/* The record at a position of the ring, and the position of the next one. NULL: it was
 * discarded. -EAGAIN: it is not complete yet. */
static int record_at(const struct shfs_driver *d, unsigned long at,
                     const struct shfs_bpf_record **out, size_t *size,
                     unsigned long *next)
{
	const char *record = at < d->ahead_from + d->ahead_len
	                             ? d->ahead + (at - d->ahead_from)
	                             : d->data + (at & (SHFS_BPF_RING_SIZE - 1));
	uint32_t head;
	int r = await_record((const uint32_t *)record, &head);

	if (r)
		return r;
	*size = size_of_record(head);
	*out = head & BPF_RINGBUF_DISCARD_BIT
	               ? NULL
	               : (const void *)(record + BPF_RINGBUF_HDR_SZ);
	*next = at + room_of_record(head);
	return 0;
}

/* The position up to which the ring has records that are complete, from this one on, and
 * no more than most bytes. */
static unsigned long end_of_complete(const struct shfs_driver *d, unsigned long at,
                                     size_t most)
{
	unsigned long end = __atomic_load_n(d->producer, __ATOMIC_ACQUIRE), from = at;

	while (at < end) {
		const char *record = d->data + (at & (SHFS_BPF_RING_SIZE - 1));
		uint32_t head =
			__atomic_load_n((const uint32_t *)record, __ATOMIC_ACQUIRE);
		size_t bytes = room_of_record(head);

		if (head & BPF_RINGBUF_BUSY_BIT || at + bytes - from > most)
			break;
		at += bytes;
	}
	return at;
}

/* Makes room for a whole ring behind what was copied and is not drained. */
static bool make_room_ahead(struct shfs_driver *d)
{
	size_t done = MIN(d->at - d->ahead_from, d->ahead_len), cap;
	char *ahead;

	d->ahead_len -= done;
	d->ahead_from += done;
	if (d->ahead_len && done)
		memmove(d->ahead, d->ahead + done, d->ahead_len);
	if (d->ahead_len + SHFS_BPF_RING_SIZE <= d->ahead_cap)
		return true;
	cap = MIN(d->ahead_cap + 2 * SHFS_BPF_RING_SIZE, (size_t)AHEAD_MAX);
	if (cap <= d->ahead_cap)
		return false;
	ahead = realloc(d->ahead, cap);
	if (!ahead)
		return false;
	d->ahead = ahead;
	d->ahead_cap = cap;
	return true;
}

/* Copies records out of the ring, if that fills: to make events of them takes longer than
 * the kernel needs to write them. What finds no room stays in the ring. */
static void copy_ahead(struct shfs_driver *d)
{
	unsigned long from = *d->consumer, end;

	if (__atomic_load_n(d->producer, __ATOMIC_ACQUIRE) - from < AHEAD_BYTES)
		return;
	if (from == d->at) {
		d->ahead_from = from;
		d->ahead_len = 0;
	}
	if (d->ahead_len + SHFS_BPF_RING_SIZE > d->ahead_cap && !make_room_ahead(d))
		return;
	end = end_of_complete(d, from, d->ahead_cap - d->ahead_len);
	memcpy(d->ahead + d->ahead_len, d->data + (from & (SHFS_BPF_RING_SIZE - 1)),
	       end - from);
	d->ahead_len += end - from;
	__atomic_store_n(d->consumer, end, __ATOMIC_RELEASE);
}

/* Gives back the ring's room of what was drained, and the memory of what was copied. */
static void give_back_room(struct shfs_driver *d)
{
	if (*d->consumer < d->at)
		__atomic_store_n(d->consumer, d->at, __ATOMIC_RELEASE);
	if (!d->ahead || d->at < d->ahead_from + d->ahead_len)
		return;
	free(TAKE_PTR(d->ahead));
	d->ahead_len = d->ahead_cap = 0;
	d->ahead_from = d->at;
}

static int drain_ring(struct shfs_driver *d)
{
	unsigned long end = __atomic_load_n(d->producer, __ATOMIC_ACQUIRE);
	const struct shfs_bpf_record *record;
	size_t size;
	int r = 0, n = 0;

	copy_ahead(d);
	while (d->at < end && !r) {
		if (record_at(d, d->at, &record, &size, &d->next))
			break; /* the next drain goes on here */
		if (record)
			r = shfs_compose(d->composer, record, size);
		d->at = d->next;
		if (++n % RECORDS_A_STEP)
			continue;
		if (*d->consumer < d->at)
			__atomic_store_n(d->consumer, d->at, __ATOMIC_RELEASE);
		copy_ahead(d);
	}
	give_back_room(d);
	return r;
}

/* The next record behind *at that is whole and of until_ns at the latest; NULL: none. */
static const struct shfs_bpf_record *look_ahead(const struct shfs_driver *d,
                                                unsigned long *at, uint64_t until_ns)
{
	unsigned long end = __atomic_load_n(d->producer, __ATOMIC_ACQUIRE);
	const struct shfs_bpf_record *record;
	size_t size;

	while (*at < end && !record_at(d, *at, &record, &size, at))
		if (record && shfs_bpf_record_is_whole(record, size))
			return record->time_ns > until_ns ? NULL : record;
	return NULL;
}

/* Finds the changes of names up to until_ns that are not drained yet. Each record is
 * looked at once, however many paths are asked for. */
static int find_name_changes(struct shfs_driver *d, uint64_t until_ns)
{
	unsigned long end = __atomic_load_n(d->producer, __ATOMIC_ACQUIRE), next;
	const struct shfs_bpf_record *record;
	size_t size;

	while (d->first_name < d->n_names && d->names[d->first_name] < d->next)
		d->first_name++;
	d->searched = MAX(d->searched, d->next);
	for (; d->searched < end && !record_at(d, d->searched, &record, &size, &next);
	     d->searched = next) {
		if (!record || !shfs_bpf_record_is_whole(record, size))
			continue;
		if (record->time_ns > until_ns)
			break;
		if (!shfs_bpf_record_changes_names(record))
			continue;
		if (!MAKE_ROOM(d->names, d->n_names, d->names_cap))
			return -ENOMEM;
		d->names[d->n_names++] = d->searched;
	}
	return 0;
}

/* Gives back the room of the changes that were drained. */
static void drop_name_changes(struct shfs_driver *d)
{
	d->n_names -= d->first_name;
	if (d->first_name && d->n_names)
		memmove(d->names, d->names + d->first_name,
		        d->n_names * sizeof(*d->names));
	d->first_name = 0;
}

static bool is_changed_again(void *arg, const char *path, uint64_t until_ns)
{
	struct shfs_driver *d = arg;
	const struct shfs_bpf_record *record;
	unsigned long next;
	size_t size;

	if (find_name_changes(d, until_ns))
		return true;
	for (size_t i = d->first_name; i < d->n_names; i++) {
		if (record_at(d, d->names[i], &record, &size, &next) ||
		    record->time_ns > until_ns)
			break;
		if (shfs_composer_may_change(d->composer, record, path))
			return true;
	}
	return false;
}

static bool is_confirmed(void *arg, const char *path, uint64_t ino, uint64_t until_ns)
{
	const struct shfs_driver *d = arg;
	const struct shfs_bpf_record *record;
	unsigned long at = d->next;
	int r = 0;

	while (!r && (record = look_ahead(d, &at, until_ns)))
		r = shfs_composer_confirms(d->composer, record, path, ino);
	return r > 0;
}

static const struct shfs_composer_ops composer_ops = {
	report_composed_event, stat_in_root,     resolve_in_root,
	is_dir_reported,       is_changed_again, is_confirmed,
};

static int driver_drain(struct shfs_driver *d, shfs_event_sink sink, void *arg)
{
	uint64_t lost = __atomic_load_n(&d->state->lost, __ATOMIC_ACQUIRE);
	int64_t now = shfs_clock_ns(CLOCK_MONOTONIC);
	int r;

	d->sink = sink;
	d->sink_arg = arg;
	shfs_pins_begin(d->pins);
	drop_name_changes(d);
	r = drain_ring(d);
	shfs_pins_end(d->pins);
	if (!r)
		shfs_compose_lost(d->composer, lost);
	if (!r && now - d->trimmed_ns > TRIM_NS) {
		d->trimmed_ns = now;
		shfs_composer_trim(d->composer);
	}
	return r;
}

static int driver_fd(const struct shfs_driver *d)
{
	return d->ring_fd;
}

/* --- programs --- */

static int print_nothing(enum libbpf_print_level level, const char *format, va_list args)
{
	return 0;
}

static int print_all(enum libbpf_print_level level, const char *format, va_list args)
{
	return level == LIBBPF_DEBUG ? 0 : vfprintf(stderr, format, args);
}

static bool has_function(const struct btf *btf, const char *name)
{
	return btf__find_by_name_kind(btf, name, BTF_KIND_FUNC) > 0;
}

static unsigned count_arguments(const struct btf *btf, const char *function)
{
	int id = btf__find_by_name_kind(btf, function, BTF_KIND_FUNC);
	const struct btf_type *type = id > 0 ? btf__type_by_id(btf, (unsigned)id) : NULL;

	type = type ? btf__type_by_id(btf, type->type) : NULL;
	return type ? btf_vlen(type) : 0;
}

static bool has_tracepoint(const struct btf *btf, const char *name)
{
	char type[64];

	snprintf(type, sizeof(type), "btf_trace_%s", name);
	return btf__find_by_name_kind(btf, type, BTF_KIND_TYPEDEF) > 0;
}

/* Attaches the program to the first of these functions that the kernel has. */
static int choose_function(const struct btf *btf, struct bpf_program *program,
                           const char *const *names, struct shfs_buf *why)
{
	const char *const *name = names;

	while (*name && !has_function(btf, *name))
		name++;
	if (*name)
		return bpf_program__set_attach_target(program, 0, *name);
	shfs_buf_printf(why, "the kernel has no function %s", names[0]);
	return -EOPNOTSUPP;
}

static int prepare_fentry(struct shfs_driver *d, const struct btf *btf,
                          struct shfs_buf *why)
{
	static const char *const close[] = { "security_file_release", "__fput", NULL };
	static const char *const exit[] = { "proc_exit_connector", "cgroup_task_exit",
		                            "cgroup_exit", NULL };
	struct bpf_program *program;
	int r;

	r = choose_function(btf, d->fentry->progs.on_close, close, why);
	if (r < 0)
		return r;
	r = choose_function(btf, d->fentry->progs.on_exit, exit, why);
	if (r < 0)
		return r;
	/* programs for functions that this kernel lacks are not needed on it */
	bpf_object__for_each_program(program, d->object)
	{
		const char *section = bpf_program__section_name(program);
		const char *name = strchr(section, '/');

		if (!strncmp(section, "fe", 2) && program != d->fentry->progs.on_close &&
		    program != d->fentry->progs.on_exit && !has_function(btf, name + 1))
			bpf_program__set_autoload(program, false);
	}
	bpf_program__set_autoload(count_arguments(btf, "vfs_create") < 5
	                                  ? d->fentry->progs.on_create
	                                  : d->fentry->progs.on_create_by_dentry,
	                          false);
	return 0;
}

static int open_fentry(struct shfs_driver *d, const struct btf *btf, struct shfs_buf *why)
{
	d->fentry = fentry_bpf__open();
	if (!d->fentry)
		return -errno;
	d->object = d->fentry->obj;
	d->skeleton = d->fentry->skeleton;
	d->config = (struct shfs_bpf_config *)&d->fentry->rodata->config;
	d->state = &d->fentry->bss->state;
	return prepare_fentry(d, btf, why);
}

static int open_tracepoints(struct shfs_driver *d, const struct btf *btf,
                            struct shfs_buf *why)
{
	d->tracepoints = tracepoints_bpf__open();
	if (!d->tracepoints)
		return -errno;
	d->object = d->tracepoints->obj;
	d->skeleton = d->tracepoints->skeleton;
	d->config = (struct shfs_bpf_config *)&d->tracepoints->rodata->config;
	d->state = &d->tracepoints->bss->state;
	shfs_bpf_calls_fill((struct shfs_bpf_call *)d->tracepoints->rodata->calls);
	bpf_program__set_autoload(d->tracepoints->progs.on_prepare_exec,
	                          has_tracepoint(btf, "sched_prepare_exec"));
	bpf_program__set_autoload(d->tracepoints->progs.on_uring_file,
	                          has_tracepoint(btf, "io_uring_file_get"));
	bpf_program__set_autoload(d->tracepoints->progs.on_uring_submit,
	                          has_tracepoint(btf, "io_uring_submit_req"));
	if (!has_function(btf, "bpf_rdonly_cast")) {
		shfs_buf_str(why, "the kernel is older than 6.2");
		return -EOPNOTSUPP;
	}
	return 0;
}

typedef int open_programs_fn(struct shfs_driver *d, const struct btf *btf,
                             struct shfs_buf *why);

static void driver_close(struct shfs_driver *d)
{
	if (!d)
		return;
	if (d->consumer)
		munmap(d->consumer, d->page);
	if (d->producer)
		munmap(d->producer, d->page + 2 * SHFS_BPF_RING_SIZE);
	shfs_pins_close(d->pins);
	shfs_composer_free(d->composer);
	fentry_bpf__destroy(d->fentry);
	tracepoints_bpf__destroy(d->tracepoints);
	shfs_closep(&d->root_fd);
	shfs_closep(&d->namespace_fd);
	free(d->names);
	free(d->ahead);
	free(d);
}

static void driver_closep(struct shfs_driver **d)
{
	driver_close(*d);
}

/* Makes the programs learn the root and the pid namespace from the files of this
 * process. */
static int learn_root(struct shfs_driver *d)
{
	union bpf_iter_link_info info = { .task.pid = (uint32_t)getpid() };
	LIBBPF_OPTS(bpf_iter_attach_opts, options, .link_info = &info,
	            .link_info_len = sizeof(info));
	struct bpf_program *program =
		bpf_object__find_program_by_name(d->object, "learn");
	struct bpf_link *link = bpf_program__attach_iter(program, &options);
	_cleanup_close_ int fd = -1;
	char nothing[64];

	if (!link) /* before 6.1 an iterator runs over all processes */
		link = bpf_program__attach_iter(program, NULL);
	if (!link)
		return -errno;
	fd = bpf_iter_create(bpf_link__fd(link));
	bpf_link__destroy(link);
	if (fd < 0)
		return fd;
	while (read(fd, nothing, sizeof(nothing)) > 0)
		;
	return d->state->root && d->state->namespace ? 0 : -ENODATA;
}

/* May there be a mount below the root, in the mount namespace of this process? */
static bool has_other_mounts(const struct shfs_driver *d)
{
	size_t len = strcmp(d->root_path, "/") ? strlen(d->root_path) : 0;
	_cleanup_fclose_ FILE *mounts = fopen("/proc/self/mountinfo", "re");
	_cleanup_free_ char *line = NULL, *path = NULL;
	size_t cap = 0;

	if (!mounts)
		return true;
	while (getline(&line, &cap, mounts) > 0) {
		char at[PATH_MAX + 1];

		/* a mount point with escapes is not compared: it counts as below the
		 * root */
		if (sscanf(line, "%*d %*d %*s %*s %4096s", at) != 1 || strchr(at, '\\'))
			return true;
		if (!strncmp(at, d->root_path, len) && at[len] == '/' && at[len + 1])
			return true;
	}
	return false;
}

static int open_order(struct shfs_driver *d, const struct shfs_subscription_order *order,
                      struct shfs_buf *why)
{
	struct stat st;
	char path[64];
	ssize_t n;

	d->root_fd = fcntl(order->root_fd, F_DUPFD_CLOEXEC, 3);
	if (d->root_fd < 0)
		return -errno;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", d->root_fd);
	n = readlink(path, d->root_path, sizeof(d->root_path) - 1);
	if (n < 0 || fstat(d->root_fd, &st))
		return -errno;
	d->root_stat_dev = st.st_dev;
	snprintf(path, sizeof(path), "/proc/%d/ns/pid",
	         (int)(order->pid ? order->pid : getpid()));
	d->namespace_fd = open(path, O_RDONLY | O_CLOEXEC);
	if (d->namespace_fd < 0) {
		shfs_buf_str(why, "the process that asks is gone");
		return -errno;
	}
	d->config->uid = order->uid;
	d->config->all_users = order->uid == 0;
	d->config->root_fd = d->root_fd;
	d->config->namespace_fd = d->namespace_fd;
	return 0;
}

static bool is_own_namespace(const struct shfs_driver *d)
{
	struct stat theirs, ours;

	return !fstat(d->namespace_fd, &theirs) && !stat("/proc/self/ns/pid", &ours) &&
	       theirs.st_ino == ours.st_ino;
}

/* Writes one line for the user about why programs were refused. */
static void explain_bpf_error(int error, const char *what, struct shfs_buf *why)
{
	if (why->len)
		return;
	shfs_buf_printf(why, "the kernel does not take BPF programs %s: %s", what,
	                strerror(error == -EACCES ? EPERM : -error));
}

static int attach_programs(struct shfs_driver *d, const char *what, struct shfs_buf *why)
{
	struct bpf_program *program;
	int r;

	program = bpf_object__find_program_by_name(d->object, "learn");
	bpf_program__set_autoattach(program, false);
	r = bpf_object__attach_skeleton(d->skeleton);
	if (r < 0)
		explain_bpf_error(r, what, why);
	return r;
}

static int open_loaded(struct shfs_driver *d, const struct shfs_subscription_order *order,
                       open_programs_fn *open_programs, const char *what,
                       struct shfs_buf *why)
{
	struct btf *btf = btf__load_vmlinux_btf();
	int r;

	if (!btf) {
		shfs_buf_str(why, "the kernel does not describe its types (BTF)");
		return -EOPNOTSUPP;
	}
	r = open_programs(d, btf, why);
	btf__free(btf);
	if (r < 0)
		return r;
	r = open_order(d, order, why);
	if (r < 0)
		return r;
	r = bpf_object__load_skeleton(d->skeleton);
	if (r < 0) {
		explain_bpf_error(r, what, why);
		return r;
	}
	r = learn_root(d);
	if (r < 0)
		return r;
	d->state->other_mounts = has_other_mounts(d);
	learn_handles(d);
	r = map_ring(d);
	if (r < 0)
		return r;
	if (is_own_namespace(d))
		d->own_pid = (uint32_t)getpid();
	r = shfs_composer_new(d->root_path, d->state->root_dev, d->own_pid, &composer_ops,
	                      d, &d->composer);
	return r < 0 ? r : attach_programs(d, what, why);
}

static int open_bpf_driver(const struct shfs_subscription_order *order,
                           open_programs_fn *open_programs, const char *what,
                           struct shfs_driver **out, struct shfs_buf *why)
{
	_cleanup_(driver_closep) struct shfs_driver *d = calloc(1, sizeof(*d));
	int r;

	if (!d)
		return -ENOMEM;
	d->root_fd = d->namespace_fd = -1;
	d->page = (size_t)sysconf(_SC_PAGESIZE);
	libbpf_set_print(getenv("SHFS_BPF_DEBUG") ? print_all : print_nothing);
	r = open_loaded(d, order, open_programs, what, why);
	if (r < 0) {
		explain_bpf_error(r, what, why);
		return r;
	}
	*out = TAKE_PTR(d);
	return 0;
}

#define ON_FUNCTIONS   "on its functions (fentry)"
#define ON_TRACEPOINTS "on its tracepoints"

static int fentry_open(const struct shfs_subscription_order *order,
                       struct shfs_driver **out, struct shfs_buf *why)
{
	return open_bpf_driver(order, open_fentry, ON_FUNCTIONS, out, why);
}

static int tracepoints_open(const struct shfs_subscription_order *order,
                            struct shfs_driver **out, struct shfs_buf *why)
{
	int r = open_bpf_driver(order, open_tracepoints, ON_TRACEPOINTS, out, why);

	if (!r)
		(*out)->pins = shfs_pins_open((*out)->root_fd);
	return r;
}

const struct shfs_driver_ops shfs_driver_bpf = {
	"bpf", fentry_open, driver_fd, driver_drain, driver_close,
};

const struct shfs_driver_ops shfs_driver_bpf_tracepoints = {
	"bpf-tracepoints", tracepoints_open, driver_fd, driver_drain, driver_close,
};
