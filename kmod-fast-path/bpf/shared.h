/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * shared.h - what both sets of BPF programs share: which processes are watched, which
 * files are below the root, and how records are written to the ring.
 *
 * Each task has a fast case with loads through typed pointers, which the verifier makes
 * safe without a call; its loops are unrolled, as Linux 6.1 accepts no others. Rare cases
 * (other mounts, deep directories) are slow: they call bpf_probe_read_kernel. A function
 * that is not static is verified once, not at each call; it takes no typed pointers.
 */
#ifndef SHFS_BPF_SHARED_H
#define SHFS_BPF_SHARED_H

#include "kernel.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define SHFS_EVENT_NO_TYPES
#include "common/event.h"
#include "kmod-fast-path/bpf/record.h"

char LICENSE[] SEC("license") = "GPL";

#define WAKE_BYTES (256 << 10)
#define WAKE_NS    1000000    /* wakeups for one closed file come no more often */
#define NSEC_MASK  0x7fffffff /* since 6.13, bit 31 is a flag: the time was read */
#define KEY_MIX    0x9E3779B97F4A7C15ull
#define VOLUME_INO 256 /* inode number of the top of each btrfs subvolume */

const volatile struct shfs_bpf_config config;
struct shfs_bpf_state state;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, SHFS_BPF_RING_SIZE);
} ring SEC(".maps");

/* Keys of the directories whose path was sent. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 32768);
	__type(key, u64);
	__type(value, u8);
} told SEC(".maps");

/* The process that does something, or did it. */
struct who {
	u32 pid, tid;
	u64 start_ns;
	u32 uid;
};

/* An open file that was written to; the map has it by the file's address. */
struct written {
	u64 id;
	struct who who; /* the last writer */
	u64 exec_id;    /* the program that it runs */
	u64 told_ns;
	u32 flags;           /* enum shfs_event_flags */
	s64 ctime_ns, bytes; /* of the file, when it was mapped */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768);
	__type(key, u64);
	__type(value, struct written);
} files SEC(".maps");

/* Bounds len below limit, a power of two, right where it is used: 6.1 forgets earlier
 * bounds. */
static __always_inline u32 bound_len(u32 len, u32 limit)
{
	asm volatile("" : "+r"(len));
	return len & (limit - 1);
}

/* The address alone, for slow cases: a function that is not static takes no pointer. */
static __always_inline u64 pointer_value(const void *pointer)
{
	u64 address = 0;

	bpf_probe_read_kernel(&address, sizeof(address), &pointer);
	return address;
}

/* --- processes --- */

/* The task that runs. Each set of programs has its own way. */
static __always_inline struct task_struct *this_task(void);

static __always_inline bool watched(void)
{
	struct task_struct *task = this_task();
	const struct cred *cred = task->cred;

	if (config.all_users)
		return true;
	return cred->uid.val == config.uid && cred->euid.val == config.uid;
}

static __noinline u32 pid_of_level(u64 pid_address)
{
	struct pid *pid = (void *)pid_address;
	struct upid upid;

	if (!pid || BPF_CORE_READ(pid, level) < state.level)
		return 0;
	if (bpf_probe_read_kernel(&upid, sizeof(upid),
	                          (void *)pid +
	                                  bpf_core_field_offset(struct pid, numbers) +
	                                  state.level * sizeof(upid)))
		return 0;
	return (u64)upid.ns == state.namespace ? upid.nr : 0;
}

/* The process id in the pid namespace of the watcher. */
static __always_inline u32 process_id(struct task_struct *task)
{
	if (!state.level)
		return task->tgid;
	return pid_of_level((u64)BPF_CORE_READ(task, signal, pids[PIDTYPE_TGID]));
}

static __always_inline u32 thread_id(struct task_struct *task)
{
	if (!state.level)
		return task->pid;
	return pid_of_level((u64)BPF_CORE_READ(task, thread_pid));
}

static __always_inline void who_is(struct task_struct *task, struct who *who)
{
	who->pid = process_id(task);
	who->tid = thread_id(task);
	who->start_ns = task->group_leader->start_boottime;
	who->uid = task->cred->uid.val;
}

/* --- places --- */

static __always_inline u64 mix_key(u64 key, u64 with)
{
	return (key ^ with) * KEY_MIX;
}

static __always_inline u64 key_end(u64 key)
{
	return (key ^ key >> 32) | 1;
}

/* Where a file is: its name, and the key of its directory. */
struct location {
	u64 key; /* 0: not below the root */
	const unsigned char *name;
	u32 len;
	bool slow;         /* the fast case did not reach the root */
	u64 dentry, mount; /* if slow: the directory and its mount; mount 0: unknown */
};

/* A walk up from a directory, over mounts. It ends at the root (below), at the top of all
 * (top), or at a mount of another mount namespace (neither). */
struct walk {
	u64 dentry, mount, key;
	bool below, top;
};

/* A mount of another mount namespace counts as outside of the root, wherever it is
 * mounted. */
static __always_inline bool is_foreign_mount(struct mount *mount)
{
	return (u64)BPF_CORE_READ(mount, mnt_ns) != state.mounts;
}

enum step {
	STEP_UP,
	STEP_OVER, /* from a mount to its mount point */
	STEP_END,
};

/* Goes one step up: enum step. Of what it leaves in walk the verifier
 * knows nothing, so that a loop over it has one state. */
__noinline int walk_step(struct walk *walk)
{
	struct dentry *dentry, *parent;
	struct mount *mount, *under;

	if (!walk)
		return STEP_END;
	dentry = (void *)walk->dentry;
	mount = (void *)walk->mount;
	if (walk->dentry == state.root) {
		walk->below = true;
		return STEP_END;
	}
	if (mount && BPF_CORE_READ(mount, mnt.mnt_root) == dentry) {
		under = BPF_CORE_READ(mount, mnt_parent);
		if (is_foreign_mount(mount) || !under || under == mount) {
			walk->top = !is_foreign_mount(mount);
			return STEP_END;
		}
		walk->dentry = (u64)BPF_CORE_READ(mount, mnt_mountpoint);
		walk->mount = (u64)under;
		walk->top = walk->dentry == state.root; /* it covers the root */
		return walk->top ? STEP_END : STEP_OVER;
	}
	parent = BPF_CORE_READ(dentry, d_parent);
	if (!parent || parent == dentry) {
		walk->top = true;
		return STEP_END;
	}
	walk->key = mix_key(walk->key, BPF_CORE_READ(dentry, d_name.hash));
	walk->dentry = (u64)parent;
	return STEP_UP;
}

static long walk_one(u32 i, void *arg)
{
	return walk_step(arg) == STEP_END;
}

static __always_inline u64 mount_of(u64 vfsmount)
{
	return vfsmount ? vfsmount - bpf_core_field_offset(struct mount, mnt) : 0;
}

/* Finds the directory of a file where the fast case did not reach the root. */
__noinline int find_slow(u64 address, u64 vfsmount, struct location *location)
{
	struct walk walk = { .mount = mount_of(vfsmount) };
	struct dentry *dentry = (void *)address, *parent;

	if (!location)
		return 0;
	for (int i = 0; i < 2; i++) { /* a file may be mounted upon a file */
		struct mount *mount = (void *)walk.mount, *under;

		if (!mount || BPF_CORE_READ(mount, mnt.mnt_root) != dentry)
			break;
		under = BPF_CORE_READ(mount, mnt_parent);
		if (under == mount || is_foreign_mount(mount))
			break;
		dentry = BPF_CORE_READ(mount, mnt_mountpoint);
		walk.mount = (u64)under;
	}
	parent = BPF_CORE_READ(dentry, d_parent);
	location->dentry = (u64)parent;
	location->mount = walk.mount;
	location->name = BPF_CORE_READ(dentry, d_name.name);
	location->len = BPF_CORE_READ(dentry, d_name.len);
	location->slow = true;
	if (parent == dentry)
		return 0;
	walk.dentry = (u64)parent;
	bpf_loop(SHFS_BPF_DEPTH_MAX, walk_one, &walk, 0);
	if (walk.below)
		location->key =
			key_end(mix_key(walk.key, BPF_CORE_READ(parent, d_inode, i_ino)));
	return 0;
}

/* The key of a directory that find_dentry_place() saw below the root. */
static __noinline u64 dir_key(struct dentry *first, u64 root)
{
	u64 key = 0, ino = first->d_inode->i_ino;
	struct dentry *dir = first;

#pragma clang loop unroll(full)
	for (int i = 0; i < SHFS_BPF_LEVELS; i++) {
		if ((u64)dir == root)
			return key_end(mix_key(key, ino));
		key = mix_key(key, dir->d_name.hash);
		dir = dir->d_parent;
	}
	return 0; /* moved away meanwhile */
}

/*
 * Is it below the root, and where? The root itself is not. Most files are not either:
 * their case is checked first and needs nothing else. file: the open file of this dentry,
 * or NULL.
 */
static __always_inline bool find_dentry_place(struct dentry *dentry, struct file *file,
                                              struct location *location)
{
	struct dentry *first = dentry->d_parent, *dir = first, *parent;
	u64 root = state.root;

	asm volatile("" : "+r"(root)); /* one load for all levels */
#pragma clang loop unroll(full)
	for (int i = 0; i < SHFS_BPF_LEVELS; i++) {
		if ((u64)dir == root)
			goto below;
		parent = dir->d_parent;
		if (parent == dir) {
			if (state.other_mounts)
				break;
			location->key = 0;
			return false;
		}
		dir = parent;
	}
	location->key = 0;
	find_slow(pointer_value(dentry), file ? (u64)BPF_CORE_READ(file, f_path.mnt) : 0,
	          location);
	return location->key;
below:
	location->slow = false;
	location->key = dir_key(first, root);
	location->name = dentry->d_name.name;
	location->len = dentry->d_name.len;
	return location->key;
}

/* --- records --- */

static __always_inline void count_lost(void)
{
	__sync_fetch_and_add(&state.lost, 1);
}

/* The flags to submit with: wakes the reader for urgent records, and before the ring is
 * full. */
static __always_inline u64 wake_flags(u64 now, bool urgent)
{
	if (urgent && now - state.woken_ns > WAKE_NS) {
		state.woken_ns = now;
		return BPF_RB_FORCE_WAKEUP;
	}
	if (!(++state.told & 63) &&
	    bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) > WAKE_BYTES)
		return BPF_RB_FORCE_WAKEUP;
	return BPF_RB_NO_WAKEUP;
}

static __always_inline void begin_record(struct shfs_bpf_record *record, u16 type,
                                         u32 flags, const struct who *who)
{
	record->type = type;
	record->cpu = bpf_get_smp_processor_id();
	record->flags = flags;
	record->time_ns = bpf_ktime_get_boot_ns();
	record->lost = state.lost;
	record->pid = who->pid;
	record->tid = who->tid;
	record->start_ns = who->start_ns;
	record->uid = who->uid;
	record->directory = record->directory2 = 0;
	record->name_len = record->name2_len = record->name2_at = 0;
}

/* Adds the parent, process group, session and terminal of the process. */
static __always_inline void add_session(struct shfs_bpf_record *record,
                                        struct task_struct *task)
{
	struct signal_struct *signal = task->signal;
	struct tty_struct *tty = signal->tty;
	struct pid *pgid = signal->pids[PIDTYPE_PGID], *sid = signal->pids[PIDTYPE_SID];

	record->flags |= SHFS_BPF_SESSION;
	record->ppid = process_id(task->real_parent);
	record->pgid = pid_of_level((u64)pgid);
	record->sid = pid_of_level((u64)sid);
	record->tty = 0;
	if (tty)
		record->tty = (tty->driver->major << 20) +
		              (tty->driver->minor_start + tty->index);
}

struct times {
	s64 mtime_ns, ctime_ns;
};

static __always_inline void times_of(struct inode *inode, struct times *times)
{
	if (bpf_core_field_exists(inode->i_ctime_sec)) {
		times->mtime_ns = inode->i_mtime_sec * 1000000000ll +
		                  (inode->i_mtime_nsec & NSEC_MASK);
		times->ctime_ns = inode->i_ctime_sec * 1000000000ll +
		                  (inode->i_ctime_nsec & NSEC_MASK);
	} else if (bpf_core_field_exists(((struct inode___since_6_7 *)0)->__i_ctime)) {
		struct inode___since_6_7 *old = (void *)inode;

		times->mtime_ns = BPF_CORE_READ(old, __i_mtime.tv_sec) * 1000000000ll +
		                  BPF_CORE_READ(old, __i_mtime.tv_nsec);
		times->ctime_ns = BPF_CORE_READ(old, __i_ctime.tv_sec) * 1000000000ll +
		                  BPF_CORE_READ(old, __i_ctime.tv_nsec);
	} else {
		struct inode___old *old = (void *)inode;
		struct timespec64 time[2];

		bpf_core_read(&time[0], sizeof(time[0]), &old->i_mtime);
		bpf_core_read(&time[1], sizeof(time[1]), &old->i_ctime);
		times->mtime_ns = time[0].tv_sec * 1000000000ll + time[0].tv_nsec;
		times->ctime_ns = time[1].tv_sec * 1000000000ll + time[1].tv_nsec;
	}
}

static __always_inline void add_inode(struct shfs_bpf_record *record, struct inode *inode)
{
	struct times times;

	times_of(inode, &times);
	record->mtime_ns = times.mtime_ns;
	record->ctime_ns = times.ctime_ns;
	record->ino = inode->i_ino;
	record->bytes = inode->i_size;
	record->generation = inode->i_generation;
	record->mode = inode->i_mode;
	record->nlink = inode->i_nlink;
	record->owner = inode->i_uid.val;
	record->dev = inode->i_sb->s_dev;
}

/* A walk that sends the directories that it passes. */
struct sending {
	struct walk walk;
	u64 key, ino;
	u32 flags;
	bool failed;
};

static long send_level(u32 i, void *arg)
{
	struct sending *sending = arg;
	struct dentry *dentry = (void *)sending->walk.dentry;
	struct shfs_bpf_record *record;
	const struct who nobody = { 0 };
	int step = walk_step(&sending->walk);
	long n = 0;

	if (step == STEP_OVER)
		return 0;
	record = bpf_ringbuf_reserve(&ring, sizeof(*record) + SHFS_BPF_NAME_MAX, 0);
	if (!record) {
		sending->failed = true;
		return 1;
	}
	begin_record(record, SHFS_EVENT_DIRECTORY, sending->flags, &nobody);
	record->id = bpf_get_current_pid_tgid();
	record->directory = sending->key;
	record->ino = sending->ino;
	if (step == STEP_END) {
		record->flags |= SHFS_BPF_LAST | (sending->walk.top ? SHFS_BPF_TOP : 0);
	} else {
		if (BPF_CORE_READ(dentry, d_inode, i_ino) == VOLUME_INO)
			record->flags |= SHFS_BPF_VOLUME;
		n = bpf_probe_read_kernel_str(record->text, SHFS_BPF_NAME_MAX,
		                              BPF_CORE_READ(dentry, d_name.name));
	}
	record->name_len = n > 0 ? n : 0;
	sending->flags = 0;
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	return step == STEP_END;
}

/* Sends the path, each level in a record of its own. */
__noinline int send_path(u64 dentry, u64 mount, u64 key)
{
	struct sending sending = {
		.walk = { .dentry = dentry, .mount = mount },
		.key = key,
		.ino = BPF_CORE_READ((struct dentry *)dentry, d_inode, i_ino),
		.flags = SHFS_BPF_FIRST,
	};

	bpf_loop(SHFS_BPF_DEPTH_MAX, send_level, &sending, 0);
	return sending.failed || !(sending.walk.below || sending.walk.top);
}

/* Makes sure that the path of this directory was sent. */
static __always_inline bool ensure_path_sent(struct dentry *dentry,
                                             const struct location *location)
{
	u64 key = location->key;
	long r;
	u8 one = 1;

	if (bpf_map_lookup_elem(&told, &key))
		return true;
	r = location->slow ? send_path(location->dentry, location->mount, key)
	                   : send_path(pointer_value(dentry->d_parent), 0, key);
	if (r) {
		count_lost();
		return false;
	}
	bpf_map_update_elem(&told, &key, &one, BPF_ANY);
	return true;
}

static __always_inline void fill_record(struct shfs_bpf_record *record, u16 type,
                                        u32 flags, const struct who *who,
                                        struct inode *inode,
                                        const struct location *location, u64 id)
{
	begin_record(record, type, flags, who);
	add_inode(record, inode);
	record->id = id;
	record->directory = location->key;
	record->name_len = location->len;
}

/* Sends an event of a file with one name. */
static __always_inline void send_event(u16 type, u32 flags, const struct who *who,
                                       struct dentry *dentry, struct inode *inode,
                                       const struct location *location, u64 id,
                                       bool urgent)
{
	struct shfs_bpf_record *record;
	u32 len = location->len;

	if (!ensure_path_sent(dentry, location))
		return;
	if (len < SHFS_BPF_NAME_SHORT) {
		record = bpf_ringbuf_reserve(&ring, sizeof(*record) + SHFS_BPF_NAME_SHORT,
		                             0);
		if (!record)
			goto full;
		fill_record(record, type, flags, who, inode, location, id);
		bpf_probe_read_kernel(record->text, bound_len(len, SHFS_BPF_NAME_SHORT),
		                      location->name);
	} else {
		record = bpf_ringbuf_reserve(&ring, sizeof(*record) + SHFS_BPF_NAME_MAX,
		                             0);
		if (!record)
			goto full;
		fill_record(record, type, flags, who, inode, location, id);
		bpf_probe_read_kernel(record->text, bound_len(len, SHFS_BPF_NAME_MAX),
		                      location->name);
	}
	if (type == SHFS_EVENT_WRITE)
		add_session(record, this_task());
	bpf_ringbuf_submit(record, wake_flags(record->time_ns, urgent));
	return;
full:
	count_lost();
}

/* Sends an event with two names: either of them may be outside of the root (key 0). id:
 * inode number of the other file of an exchange. */
static __always_inline void send_event_of_two(u16 type, u32 flags, struct inode *inode,
                                              struct dentry *from,
                                              const struct location *location,
                                              struct dentry *to,
                                              const struct location *place2, u64 id)
{
	struct shfs_bpf_record *record;
	struct who who;

	if ((location->key && !ensure_path_sent(from, location)) ||
	    (place2->key && !ensure_path_sent(to, place2)))
		return;
	record = bpf_ringbuf_reserve(&ring, sizeof(*record) + 2 * SHFS_BPF_NAME_MAX, 0);
	if (!record) {
		count_lost();
		return;
	}
	who_is(this_task(), &who);
	fill_record(record, type, flags, &who, inode, location, id);
	record->directory2 = place2->key;
	record->name_len = 0;
	if (location->key) {
		record->name_len = location->len;
		bpf_probe_read_kernel(record->text,
		                      bound_len(location->len, SHFS_BPF_NAME_MAX),
		                      location->name);
	}
	if (place2->key) {
		record->name2_len = place2->len;
		record->name2_at = SHFS_BPF_NAME_MAX;
		bpf_probe_read_kernel(record->text + SHFS_BPF_NAME_MAX,
		                      bound_len(place2->len, SHFS_BPF_NAME_MAX),
		                      place2->name);
	}
	bpf_ringbuf_submit(record, wake_flags(record->time_ns, false));
}

/* --- open files --- */

static __always_inline u32 open_flags(struct file *file)
{
	u32 mode = file->f_mode, flags = file->f_flags, told_flags = 0;

	if (mode & FMODE_READ)
		told_flags |= SHFS_EVENT_READABLE;
	if (mode & FMODE_WRITE) {
		told_flags |= SHFS_EVENT_WRITABLE;
		if (mode & FMODE_CREATED)
			told_flags |= SHFS_EVENT_CREATED;
		if (flags & O_APPEND)
			told_flags |= SHFS_EVENT_APPEND;
		if (file->f_inode->i_writecount.counter == 1)
			told_flags |= SHFS_EVENT_LAST_WRITER;
	} else {
		if (mode & FMODE_CREATED)
			told_flags |= SHFS_EVENT_CREATED;
		if (flags & FLAG_EXEC)
			told_flags |= SHFS_EVENT_EXECUTED;
	}
	return told_flags;
}

static __always_inline bool is_regular(const struct file *file)
{
	return (file->f_inode->i_mode & S_IFMT) == S_IFREG;
}

/* Before 6.5, overlayfs opens the lower file with the path of its own file. */
static __always_inline bool is_backing(struct file *file)
{
	return file->f_inode != file->f_path.dentry->d_inode;
}

/* Remembers the times and size of a mapped file. A store to a map is not seen, but the
 * first store to a page sets the times of most files. */
static __always_inline void note_mapped(struct inode *inode, struct written *known)
{
	struct times times;

	times_of(inode, &times);
	known->ctime_ns = times.ctime_ns;
	known->bytes = inode->i_size;
}

static __always_inline bool changed_by_map(struct inode *inode,
                                           const struct written *known)
{
	struct times times;

	if ((known->flags & (SHFS_EVENT_MAPPED | SHFS_EVENT_WRITTEN)) !=
	    SHFS_EVENT_MAPPED)
		return false;
	times_of(inode, &times);
	return known->ctime_ns != times.ctime_ns || known->bytes != inode->i_size;
}

static __always_inline bool is_by(const struct written *known, struct task_struct *task)
{
	return known->who.start_ns == task->group_leader->start_boottime &&
	       known->who.pid == process_id(task);
}

/* Is this writer recorded already? The shell of a terminal is reported again after a
 * while: it may write for another command line. */
static __always_inline bool is_told(const struct written *known, struct task_struct *task)
{
	return is_by(known, task) && known->exec_id == task->self_exec_id &&
	       (!task->signal->leader || !task->signal->tty ||
	        bpf_ktime_get_boot_ns() - known->told_ns < SHFS_EVENT_LINE_NS);
}

static __always_inline void note_last_write(struct written *known,
                                            struct task_struct *task)
{
	who_is(task, &known->who);
	known->exec_id = task->self_exec_id;
	if (task->signal->leader)
		known->told_ns = bpf_ktime_get_boot_ns();
}

/* Notes that this process writes, maps or truncates through an open file. */
static __always_inline void note_written(struct file *file, u32 flags)
{
	struct task_struct *task = this_task();
	struct written *known, first = {};
	struct location location;
	u64 address = (u64)file;
	/* also counted: writes of others (programs with other rights) to a file that the
	 * user opened */
	bool mine = watched() || file->f_cred->uid.val == config.uid;

	known = bpf_map_lookup_elem(&files, &address);
	if (known) {
		if ((known->flags & flags) != flags) {
			known->flags |= flags;
			if (flags & SHFS_EVENT_MAPPED)
				note_mapped(file->f_inode, known);
		}
		if (!mine) {
			known->flags |= SHFS_EVENT_SHARED;
			return;
		}
		if (is_told(known, task))
			return;
		if (!is_by(known, task))
			known->flags |= SHFS_EVENT_SHARED;
		note_last_write(known, task);
		first = *known;
	} else if (!mine) {
		return;
	}
	if (!find_dentry_place(file->f_path.dentry, file, &location) || is_backing(file))
		return;
	if (!known) {
		first.id = __sync_fetch_and_add(&state.next_id, 1) + 1;
		note_last_write(&first, task);
		first.flags = flags;
		if (flags & SHFS_EVENT_MAPPED)
			note_mapped(file->f_inode, &first);
		if (bpf_map_update_elem(&files, &address, &first, BPF_ANY)) {
			count_lost();
			return;
		}
	}
	send_event(SHFS_EVENT_WRITE, first.flags | open_flags(file), &first.who,
	           file->f_path.dentry, file->f_inode, &location, first.id, false);
}

/* Finds the name of a file made by O_TMPFILE: linkat(2) may have given it one since, and
 * its open file does not know that. */
static __always_inline bool find_linked(struct dentry *dentry, struct inode *inode,
                                        struct file *file, struct location *location)
{
	const unsigned char *name = dentry->d_name.name;
	struct dentry *linked;
	u8 first = 0;
	u64 node;

	bpf_probe_read_kernel(&first, 1, name);
	node = (u64)BPF_CORE_READ(inode, i_dentry.first);
	if (first != '#' || !node)
		return false;
	if (bpf_core_field_exists(struct dentry, d_u.d_alias))
		linked = (void *)node - bpf_core_field_offset(struct dentry, d_u.d_alias);
	else
		linked = (void *)node -
		         bpf_core_field_offset(struct dentry___since_7, d_alias);
	if (!BPF_CORE_READ(linked, d_hash.pprev))
		return false;
	find_slow((u64)linked, (u64)BPF_CORE_READ(file, f_path.mnt), location);
	return true;
}

/*
 * Reports the last close of an open file; flags: SHFS_EVENT_INEXACT if that is a guess.
 * The process reported for a written file is its last writer, not the process that closes
 * it.
 */
static __always_inline void send_close(struct file *file, u32 mode, struct inode *inode,
                                       u32 flags)
{
	struct written *known = NULL;
	u64 address = (u64)file, id = 0;
	struct dentry *dentry;
	struct location location;
	struct who who;

	if (mode & FMODE_WRITE)
		known = bpf_map_lookup_elem(&files, &address);
	else if (!(mode & FMODE_READ)) /* O_PATH */
		return;
	if (!known && !watched())
		return;
	dentry = file->f_path.dentry;
	if (!find_dentry_place(dentry, file, &location) || is_backing(file)) {
		if (known)
			bpf_map_delete_elem(&files, &address);
		return;
	}
	if (!dentry->d_hash.pprev && inode->i_nlink && known)
		find_linked(dentry, inode, file, &location);
	if (known) {
		who = known->who;
		id = known->id;
		flags |= known->flags;
		if (changed_by_map(inode, known))
			flags |= SHFS_EVENT_WRITTEN;
		bpf_map_delete_elem(&files, &address);
	} else {
		who_is(this_task(), &who);
	}
	send_event(SHFS_EVENT_CLOSE, flags | open_flags(file), &who, dentry, inode,
	           &location, id, id);
}

/* --- processes --- */

SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
	struct shfs_bpf_record *record;
	struct who who;

	if (child->pid != child->tgid || !watched())
		return 0;
	record = bpf_ringbuf_reserve(&ring, sizeof(*record), 0);
	if (!record) {
		count_lost();
		return 0;
	}
	who_is(this_task(), &who);
	begin_record(record, SHFS_EVENT_FORK, 0, &who);
	add_session(record, this_task());
	record->ino = process_id(child);
	record->id = child->start_boottime;
	bpf_ringbuf_submit(record, wake_flags(record->time_ns, false));
	return 0;
}

#define EXEC_NAME_SHORT 256
#define EXEC_ARGV_SHORT 512

#define ENVIRON_PIECE 128

struct environment {
	u64 at, end;
	struct shfs_event_window window;
	u32 said; /* SHFS_EVENT_HIDDEN or SHFS_EVENT_SHOWN */
};

/* As walk_step(), for the loop over an environment. */
__noinline int add_to_window(struct shfs_event_window *window, u32 byte)
{
	return window ? shfs_event_window_add(window, byte) : 0;
}

static long look_at_environment(u32 i, void *data)
{
	struct environment *env = data;
	u8 piece[ENVIRON_PIECE];
	u64 len = env->end - env->at;

	if (len > ENVIRON_PIECE)
		len = ENVIRON_PIECE;
	if (!len || bpf_probe_read_user(piece, len, (void *)env->at))
		return 1;
	for (u32 n = 0; n < ENVIRON_PIECE && n < len; n++) {
		env->said = add_to_window(&env->window, piece[n]);
		if (env->said)
			return 1;
	}
	env->at += len;
	return 0;
}

/* Looks for the marker: returns SHFS_EVENT_HIDDEN, SHFS_EVENT_SHOWN or 0. */
static __always_inline u32 environment_flags(struct task_struct *task)
{
	struct environment env = { .at = task->mm->env_start, .end = task->mm->env_end };

	bpf_loop(SHFS_EVENT_ENVIRON_MAX / ENVIRON_PIECE, look_at_environment, &env, 0);
	return env.said;
}

static __always_inline void fill_exec(struct shfs_bpf_record *record,
                                      struct linux_binprm *bprm)
{
	struct task_struct *task = this_task();
	struct who who;

	who_is(task, &who);
	begin_record(record, SHFS_EVENT_EXEC, environment_flags(task), &who);
	add_session(record, task);
	add_inode(record, bprm->file->f_inode);
	record->id = 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *task, int old_pid, struct linux_binprm *bprm)
{
	struct mm_struct *mm = this_task()->mm;
	struct shfs_bpf_record *record;
	const char *name = bprm->filename;
	u64 argv, len;
	long n;

	if (!watched())
		return 0;
	argv = mm->arg_start;
	len = mm->arg_end - argv;
	if (len < EXEC_ARGV_SHORT) {
		record = bpf_ringbuf_reserve(
			&ring, sizeof(*record) + EXEC_NAME_SHORT + EXEC_ARGV_SHORT, 0);
		if (!record)
			goto full;
		n = bpf_probe_read_kernel_str(record->text, EXEC_NAME_SHORT, name);
		if (n > 0 && n < EXEC_NAME_SHORT) {
			fill_exec(record, bprm);
			record->name_len = n - 1;
			record->name2_at = EXEC_NAME_SHORT;
			if (!bpf_probe_read_user(record->text + EXEC_NAME_SHORT,
			                         bound_len(len, EXEC_ARGV_SHORT),
			                         (void *)argv))
				record->name2_len = len;
			bpf_ringbuf_submit(record, wake_flags(record->time_ns, true));
			return 0;
		}
		bpf_ringbuf_discard(record, BPF_RB_NO_WAKEUP);
		len = mm->arg_end - argv;
	}
	record = bpf_ringbuf_reserve(
		&ring, sizeof(*record) + SHFS_EVENT_PATH_MAX + SHFS_EVENT_ARGV_MAX, 0);
	if (!record)
		goto full;
	fill_exec(record, bprm);
	n = bpf_probe_read_kernel_str(record->text, SHFS_EVENT_PATH_MAX, name);
	record->name_len = n > 0 ? n - 1 : 0;
	record->name2_at = SHFS_EVENT_PATH_MAX;
	if (len >= SHFS_EVENT_ARGV_MAX) {
		len = SHFS_EVENT_ARGV_MAX - 1;
		record->flags |= SHFS_EVENT_CUT;
	}
	if (!bpf_probe_read_user(record->text + SHFS_EVENT_PATH_MAX,
	                         bound_len(len, SHFS_EVENT_ARGV_MAX), (void *)argv))
		record->name2_len = len;
	bpf_ringbuf_submit(record, wake_flags(record->time_ns, true));
	return 0;
full:
	count_lost();
	return 0;
}

#include "usage.h"

/* Processes whose end was sent, or is about to be: two threads may each see themselves as
 * the last. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, u64);
	__type(value, u8);
} ended SEC(".maps");

/* Is this thread the one that reports the end of its process? */
static __always_inline bool claim_end(struct task_struct *task)
{
	u64 key = mix_key(task->group_leader->start_boottime, task->tgid);
	u8 one = 1;

	return !task->signal->live.counter &&
	       !bpf_map_update_elem(&ended, &key, &one, BPF_NOEXIST);
}

static __always_inline void send_exit(struct task_struct *task)
{
	struct shfs_bpf_record *record;
	struct who who;

	record = bpf_ringbuf_reserve(&ring, sizeof(*record), 0);
	if (!record) {
		count_lost();
		return;
	}
	who_is(task, &who);
	begin_record(record, SHFS_EVENT_EXIT, 0, &who);
	add_session(record, task);
	add_usage(record, task);
	bpf_ringbuf_submit(record, wake_flags(record->time_ns, false));
}

/* --- before the first event --- */

/* Finds the root and the pid namespace among the open files of the process that reads
 * this iterator. */
SEC("iter/task_file")
int learn(struct bpf_iter__task_file *ctx)
{
	struct task_struct *task = ctx->task;
	struct file *file = ctx->file;
	struct pid_namespace *pids;
	struct mount *mount;

	if (!task || !file || task->tgid != (u32)(bpf_get_current_pid_tgid() >> 32))
		return 0;
	if (ctx->fd == (u32)config.root_fd) {
		mount = (void *)mount_of((u64)BPF_CORE_READ(file, f_path.mnt));
		state.mounts = (u64)BPF_CORE_READ(mount, mnt_ns);
		state.root = (u64)BPF_CORE_READ(file, f_path.dentry);
		state.root_dev = BPF_CORE_READ(file, f_inode, i_sb, s_dev);
	}
	if (ctx->fd == (u32)config.namespace_fd) {
		pids = BPF_CORE_READ(file, f_inode, i_private) -
		       bpf_core_field_offset(struct pid_namespace, ns);
		state.namespace = (u64)pids;
		state.level = BPF_CORE_READ(pids, level);
	}
	return 0;
}

#endif
