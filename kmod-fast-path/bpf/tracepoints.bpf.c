// SPDX-License-Identifier: GPL-2.0-only
/*
 * Events from tracepoints, where the kernel lets no programs be attached to its
 * functions: from the begin and end of system calls, and from the end of processes. A
 * close is reported when a call is about to drop the only reference to a file; where that
 * is a guess, the event says so. Names are reported as the program gave them, with the
 * directory that they are relative to.
 */
#include "kmod-fast-path/bpf/shared.h"

#define MAPS_MAX 8     /* per process, shared and writable */
#define FDS_MAX  65536 /* more than most limits allow */

#define RENAME_EXCHANGE 2
#define AT_REMOVEDIR    0x200

extern void *bpf_rdonly_cast(void *object, __u32 type) __ksym;

const volatile struct shfs_bpf_call calls[SHFS_BPF_CALLS];

/* Files that a process has mapped, shared and writable. */
struct maps {
	u64 file[MAPS_MAX], ino[MAPS_MAX];
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, u32); /* pid in the first namespace */
	__type(value, struct maps);
} mapped SEC(".maps");

/* Open files, by address, that are mapped but not writable. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, u64);
	__type(value, u8);
} mapped_to_read SEC(".maps");

/* Files that io_uring was asked to close: their inode numbers, by address. A process that
 * ends may still have them in its table. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, u64);
	__type(value, u64);
} closing SEC(".maps");

/*
 * Not bpf_get_current_task_btf: at each load of a pointer through a pointer that it
 * trusts, the verifier of Linux 6.4 and later searches all types of the kernel for what
 * it may trust then. That took most of the time in which the programs are loaded.
 */
static __always_inline struct task_struct *this_task(void)
{
	return bpf_rdonly_cast((void *)bpf_get_current_task(),
	                       bpf_core_type_id_kernel(struct task_struct));
}

/* --- files --- */

static __always_inline struct file *cast(u64 address)
{
	return bpf_rdonly_cast((void *)address, bpf_core_type_id_kernel(struct file));
}

/* The address of an open file; 0: fd is not open. */
static __always_inline u64 file_of_fd(u32 fd)
{
	struct task_struct *task = this_task();
	struct fdtable *table;
	u64 file = 0;

	if (!task->files)
		return 0;
	table = task->files->fdt;
	if (fd >= table->max_fds ||
	    bpf_probe_read_kernel(&file, sizeof(file), table->fd + fd))
		return 0;
	return file;
}

static __always_inline long references(struct file *file)
{
	struct file___since_6_13 *now = (void *)file;
	struct file___before *before = (void *)file;

	if (bpf_core_field_exists(now->f_ref))
		return BPF_CORE_READ(now, f_ref.refcnt.counter) + 1;
	return BPF_CORE_READ(before, f_count.counter);
}

__noinline int close_at(u64 address, u32 flags)
{
	struct file *file = cast(address);

	send_close(file, file->f_mode, file->f_inode, flags);
	return 0;
}

__noinline int written_at(u64 address, u32 flags)
{
	note_written(cast(address), flags);
	return 0;
}

/* Drops a reference of this process; its maps may hold others. */
static __always_inline void close_one(u64 address, long by_maps)
{
	struct file *file = cast(address);
	long count;

	if (!is_regular(file))
		return;
	count = references(file);
	if (count == 1) {
		close_at(address, 0);
	} else if (!(file->f_mode & FMODE_WRITE)) {
		if (bpf_map_lookup_elem(&mapped_to_read, &address)) {
			bpf_map_delete_elem(&mapped_to_read, &address);
			close_at(address, SHFS_EVENT_INEXACT);
		}
	} else if (count <= 1 + by_maps) {
		close_at(address, SHFS_EVENT_INEXACT);
	}
}

/* How many maps of this process hold the file? */
static __always_inline long maps_of(struct maps *maps, u64 file)
{
	long n = 0;

	if (!maps)
		return 0;
#pragma clang loop unroll(full)
	for (int i = 0; i < MAPS_MAX; i++)
		n += maps->file[i] == file;
	return n;
}

static __always_inline struct maps *own_maps(void)
{
	u32 pid = bpf_get_current_pid_tgid() >> 32;

	return bpf_map_lookup_elem(&mapped, &pid);
}

/* Reports the close of mapped files that have at most this many references left: 1 where
 * the map of this process still holds one. */
__noinline int close_maps(long most)
{
	struct maps *maps = own_maps();

	if (!maps)
		return 0;
	for (int i = 0; i < MAPS_MAX; i++) {
		u64 address = maps->file[i];
		struct file *file;

		if (!address)
			continue;
		file = cast(address);
		if (file->f_inode->i_ino != maps->ino[i]) {
			maps->file[i] = 0;
		} else if (references(file) <= most) {
			maps->file[i] = 0;
			close_at(address, SHFS_EVENT_INEXACT);
		}
	}
	return 0;
}

static __always_inline void note_map(u64 file, u64 ino)
{
	u32 pid = bpf_get_current_pid_tgid() >> 32;
	struct maps *maps = own_maps(), none = {};

	if (!maps) {
		bpf_map_update_elem(&mapped, &pid, &none, BPF_ANY);
		maps = own_maps();
	}
	if (!maps)
		return;
	for (int i = 0; i < MAPS_MAX; i++) {
		if (maps->file[i])
			continue;
		maps->file[i] = file;
		maps->ino[i] = ino;
		return;
	}
}

/* --- arguments --- */

static __always_inline u64 argument(struct pt_regs *regs, int i)
{
#if defined(__TARGET_ARCH_x86)
	switch (i) {
	case 0:
		return regs->di;
	case 1:
		return regs->si;
	case 2:
		return regs->dx;
	case 3:
		return regs->r10;
	case 4:
		return regs->r8;
	default:
		return regs->r9;
	}
#else
	u64 value = 0;

	if (i == 0)
		return BPF_CORE_READ((struct pt_regs___64 *)regs, orig_x0);
	bpf_probe_read_kernel(&value, sizeof(value),
	                      &((struct user_pt_regs *)regs)->regs[i & 7]);
	return value;
#endif
}

static __always_inline long syscall_number(struct pt_regs *regs)
{
#if defined(__TARGET_ARCH_x86)
	return regs->orig_ax;
#else
	return BPF_CORE_READ((struct pt_regs___64 *)regs, syscallno);
#endif
}

/* What the call is to this driver; kind is SHFS_BPF_NOTHING for most. */
static __always_inline const volatile struct shfs_bpf_call *call_of(long id)
{
	u32 at = id;

	if (at >= SHFS_BPF_CALLS)
		return NULL;
	return &calls[at];
}

static __always_inline bool is_compat(void)
{
	struct task_struct *task = this_task();

	if (!bpf_core_field_exists(task->thread_info.status))
		return false;
	return task->thread_info.status & TS_COMPAT;
}

/* --- calls that begin --- */

struct range {
	u32 first;
	bool cloexec;
};

static long close_in_range(u32 i, void *arg)
{
	struct range *range = arg;
	u64 file = file_of_fd(range->first + i);

	if (file)
		close_one(file, 0);
	return 0;
}

static __always_inline u32 table_size(struct task_struct *task)
{
	u32 size = task->files ? task->files->fdt->max_fds : 0;

	return size < FDS_MAX ? size : FDS_MAX;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(on_enter, struct pt_regs *regs, long id)
{
	const volatile struct shfs_bpf_call *call = call_of(id);
	struct task_struct *task;
	struct range range = {};
	u32 last, size;
	u64 file;

	if (!call || (call->kind != SHFS_BPF_CLOSE && call->kind != SHFS_BPF_CLOSE_RANGE))
		return 0;
	if (!watched() || is_compat())
		return 0;
	if (call->kind == SHFS_BPF_CLOSE) {
		if (call->fd2 >= 0 &&
		    ((u32)argument(regs, call->fd2) == (u32)argument(regs, call->fd) ||
		     !file_of_fd(argument(regs, call->fd2))))
			return 0;
		file = file_of_fd(argument(regs, call->fd));
		if (file)
			close_one(file, 0);
		return 0;
	}
	if (argument(regs, 2)) /* close_range flags: marks them only, or unshares the
	                        * table first */
		return 0;
	task = this_task();
	range.first = argument(regs, 0);
	last = argument(regs, 1);
	size = table_size(task);
	if (range.first < size && range.first <= last)
		bpf_loop((last < size ? last + 1 : size) - range.first, close_in_range,
		         &range, 0);
	return 0;
}

/* --- names as they were given --- */

struct base {
	u64 dentry, mount, key;
};

/* Finds the directory that a path with this first character is relative to. 0: its path
 * cannot be sent; -1: it is in another mount namespace, and not below the root. */
__noinline int find_base_of(struct base *base, u32 first, u64 fd)
{
	struct task_struct *task = this_task();
	struct walk walk = {};
	struct dentry *dentry;
	struct file *file;
	u64 address;
	u8 one = 1;

	if (!base)
		return 0;
	if (first == '/') {
		base->dentry = (u64)BPF_CORE_READ(task, fs, root.dentry);
		base->mount = mount_of((u64)BPF_CORE_READ(task, fs, root.mnt));
	} else if ((s32)fd == AT_FDCWD) {
		base->dentry = (u64)BPF_CORE_READ(task, fs, pwd.dentry);
		base->mount = mount_of((u64)BPF_CORE_READ(task, fs, pwd.mnt));
	} else {
		address = file_of_fd(fd);
		if (!address)
			return 0;
		file = cast(address);
		base->dentry = (u64)BPF_CORE_READ(file, f_path.dentry);
		base->mount = mount_of((u64)BPF_CORE_READ(file, f_path.mnt));
	}
	walk.dentry = base->dentry;
	walk.mount = base->mount;
	bpf_loop(SHFS_BPF_DEPTH_MAX, walk_one, &walk, 0);
	if (!walk.below && !walk.top)
		return -1;
	dentry = (void *)base->dentry;
	base->key = key_end(mix_key(walk.key, BPF_CORE_READ(dentry, d_inode, i_ino)));
	if (bpf_map_lookup_elem(&told, &base->key))
		return 1;
	if (send_path(base->dentry, base->mount, base->key))
		return 0;
	bpf_map_update_elem(&told, &base->key, &one, BPF_ANY);
	return 1;
}

static __always_inline bool find_path_base(struct base *base, u64 fd, u64 path)
{
	u8 first = 0;
	int r = 0;

	if (!bpf_probe_read_user(&first, 1, (void *)path))
		r = find_base_of(base, first, fd);
	if (!r)
		count_lost();
	return r > 0;
}

struct names {
	u64 path, path2;
	struct base base, base2;
	u32 type, flags, mode;
};

static __always_inline void begin_names(struct shfs_bpf_record *record,
                                        const struct names *names)
{
	struct who who;

	who_is(this_task(), &who);
	begin_record(record, names->type,
	             names->flags | SHFS_BPF_GIVEN | SHFS_EVENT_INEXACT, &who);
	record->directory = names->base.key;
	record->directory2 = names->base2.key;
	record->mode = names->mode;
}

/* 0: sent; 1: the names need more room; -1: they cannot be sent. */
static __always_inline int send_names_of(const struct names *names, const u32 room,
                                         const bool two)
{
	struct shfs_bpf_record *record;
	long n, n2 = 0;

	if (two)
		record = bpf_ringbuf_reserve(&ring, sizeof(*record) + 2 * room, 0);
	else
		record = bpf_ringbuf_reserve(&ring, sizeof(*record) + room, 0);
	if (!record)
		return -1;
	begin_names(record, names);
	n = bpf_probe_read_user_str(record->text, room, (void *)names->path);
	if (two)
		n2 = bpf_probe_read_user_str(record->text + room, room,
		                             (void *)names->path2);
	if (n <= 0 || n2 < 0 || n >= room || n2 >= room) {
		bpf_ringbuf_discard(record, BPF_RB_NO_WAKEUP);
		return n <= 0 || n2 < 0 ? -1 : 1;
	}
	record->name_len = n - 1;
	if (n2) {
		record->name2_at = room;
		record->name2_len = n2 - 1;
	}
	bpf_ringbuf_submit(record, wake_flags(record->time_ns, false));
	return 0;
}

__noinline int send_names(struct names *names)
{
	int r;

	if (!names)
		return 0;
	if (names->path2) {
		r = send_names_of(names, SHFS_BPF_NAME_MAX, true);
		if (r > 0)
			r = send_names_of(names, SHFS_EVENT_PATH_MAX, true);
	} else {
		r = send_names_of(names, SHFS_BPF_NAME_SHORT, false);
		if (r > 0)
			r = send_names_of(names, SHFS_EVENT_PATH_MAX, false);
	}
	if (r)
		count_lost();
	return 0;
}

static __always_inline u64 fd_argument(struct pt_regs *regs, s8 i)
{
	return i < 0 ? (u64)AT_FDCWD : argument(regs, i);
}

static __always_inline void names_changed(struct pt_regs *regs,
                                          const volatile struct shfs_bpf_call *call)
{
	struct names names = { .type = call->type };
	u64 flags = call->flags < 0 ? 0 : argument(regs, call->flags);

	names.path = argument(regs, call->path);
	if (!find_path_base(&names.base, fd_argument(regs, call->fd), names.path))
		return;
	if (call->path2 >= 0) {
		names.path2 = argument(regs, call->path2);
		/* the target of a symbolic link is plain text */
		if (call->type != SHFS_EVENT_MAKE &&
		    !find_path_base(&names.base2, fd_argument(regs, call->fd2),
		                    names.path2))
			return;
	}
	if (call->type == SHFS_EVENT_RENAME && (flags & RENAME_EXCHANGE))
		names.flags |= SHFS_EVENT_EXCHANGED;
	if ((call->traits & SHFS_BPF_OF_DIRECTORY) ||
	    (call->type == SHFS_EVENT_UNLINK && (flags & AT_REMOVEDIR))) {
		names.flags |= SHFS_EVENT_DIRECTORY_FILE;
		names.mode = S_IFDIR;
	}
	send_names(&names);
}

/* --- calls that have ended --- */

/* A function of its own: the stack of on_return must stay small (before 6.13). */
__noinline int file_changed(u64 address, u32 type)
{
	struct file *file = cast(address);
	struct dentry *dentry = file->f_path.dentry;
	struct location location;
	struct who who;

	if (!find_dentry_place(dentry, file, &location))
		return 0;
	who_is(this_task(), &who);
	send_event(type, 0, &who, dentry, file->f_inode, &location, 0, false);
	return 0;
}

static __always_inline void opened(struct pt_regs *regs,
                                   const volatile struct shfs_bpf_call *call, u32 fd)
{
	struct file *file;
	u64 flags, address;

	if (call->path >= 0) {
		flags = argument(regs, call->path);
	} else {
		flags = O_TRUNC; /* creat(2) */
		if (call->path2 >= 0 &&
		    bpf_probe_read_user(&flags, sizeof(flags),
		                        (void *)argument(regs, call->path2)))
			return;
	}
	if (!(flags & O_TRUNC))
		return;
	address = file_of_fd(fd);
	if (!address)
		return;
	file = cast(address);
	if ((file->f_mode & FMODE_WRITE) && !(file->f_mode & FMODE_CREATED) &&
	    is_regular(file))
		written_at(address, SHFS_EVENT_WRITTEN | SHFS_EVENT_TRUNCATED);
}

static __always_inline void mapped_file(struct pt_regs *regs)
{
	u32 type = argument(regs, 3) & MAP_TYPE;
	u64 address = file_of_fd(argument(regs, 4));
	struct location location;
	struct file *file;
	u8 one = 1;

	if ((argument(regs, 3) & MAP_ANONYMOUS) || !address)
		return;
	file = cast(address);
	if (!is_regular(file))
		return;
	if (!(file->f_mode & FMODE_WRITE)) {
		if (find_dentry_place(file->f_path.dentry, file, &location))
			bpf_map_update_elem(&mapped_to_read, &address, &one, BPF_ANY);
	} else if (type == MAP_SHARED || type == MAP_SHARED_VALIDATE) {
		written_at(address, SHFS_EVENT_MAPPED);
		if (bpf_map_lookup_elem(&files, &address))
			note_map(address, file->f_inode->i_ino);
	}
}

SEC("tp_btf/sys_exit")
int BPF_PROG(on_return, struct pt_regs *regs, long result)
{
	const volatile struct shfs_bpf_call *call = call_of(syscall_number(regs));
	struct file *file;
	u64 address;

	if (!call || call->kind < SHFS_BPF_OPEN || (result < 0 && result >= -4095))
		return 0;
	if (call->kind == SHFS_BPF_MOUNT) {
		state.other_mounts = 1;
		return 0;
	}
	if (!watched() || is_compat())
		return 0;
	switch (call->kind) {
	case SHFS_BPF_OPEN:
		opened(regs, call, result);
		break;
	case SHFS_BPF_WRITE:
		if (!result && !(call->traits & SHFS_BPF_RETURNS_ZERO))
			break;
		address = file_of_fd(argument(regs, call->fd));
		if (!address)
			break;
		file = cast(address);
		if ((file->f_mode & FMODE_WRITE) && is_regular(file))
			written_at(address,
			           call->traits & SHFS_BPF_TRUNCATES &&
			                           !argument(regs, 1) /* length */
			                   ? SHFS_EVENT_WRITTEN | SHFS_EVENT_TRUNCATED
			                   : SHFS_EVENT_WRITTEN);
		break;
	case SHFS_BPF_CHANGE_FD:
		address = file_of_fd(argument(regs, call->fd));
		if (address)
			file_changed(address, call->type);
		break;
	case SHFS_BPF_NAMES:
		if (argument(regs, call->path)) {
			names_changed(regs, call);
		} else { /* utimensat(2) without a path */
			address = file_of_fd(fd_argument(regs, call->fd));
			if (address)
				file_changed(address, call->type);
		}
		break;
	case SHFS_BPF_MMAP:
		mapped_file(regs);
		break;
	case SHFS_BPF_MUNMAP:
		close_maps(0);
		break;
	}
	return 0;
}

/* --- closes by exit and exec --- */

/* Was io_uring asked to close the file, and was it not written to since? */
static __always_inline bool is_closing(u64 file)
{
	u64 *ino = bpf_map_lookup_elem(&closing, &file);

	return ino && *ino == cast(file)->f_inode->i_ino &&
	       !bpf_map_lookup_elem(&files, &file);
}

static long close_at_end(u32 i, void *arg)
{
	struct task_struct *task = this_task();
	struct range *range = arg;
	u64 bits = ~0ull, file;

	if (range->cloexec &&
	    bpf_probe_read_kernel(&bits, sizeof(bits),
	                          task->files->fdt->close_on_exec + i / 64))
		return 1;
	if (!(bits >> (i & 63) & 1))
		return 0;
	file = file_of_fd(i);
	if (file && !is_closing(file))
		close_one(file, maps_of(own_maps(), file));
	return 0;
}

/* On a kernel without this tracepoint, closes by O_CLOEXEC are not reported. */
SEC("tp_btf/sched_prepare_exec")
int BPF_PROG(on_prepare_exec, struct task_struct *task, struct linux_binprm *bprm)
{
	struct range range = { .cloexec = true };

	if (!watched())
		return 0;
	close_maps(1);
	bpf_loop(table_size(this_task()), close_at_end, &range, 0);
	return 0;
}

/* Reports the script that the kernel has read: no process has opened or closed it. */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_script, struct task_struct *task, int old_pid, struct linux_binprm *bprm)
{
	struct names names = { .type = SHFS_EVENT_CLOSE,
		               .flags = SHFS_EVENT_READABLE | SHFS_EVENT_EXECUTED };
	struct shfs_bpf_record *record;
	u8 first = 0;
	long n;

	if (!watched())
		return 0;
	if (is_regular(bprm->file))
		close_at((u64)BPF_CORE_READ(bprm, file),
		         SHFS_EVENT_EXECUTED | SHFS_EVENT_INEXACT);
	if (bprm->interp == bprm->filename)
		return 0;
	bpf_probe_read_kernel(&first, 1, bprm->filename);
	if (find_base_of(&names.base, first, (u64)AT_FDCWD) <= 0)
		return 0;
	record = bpf_ringbuf_reserve(&ring, sizeof(*record) + SHFS_EVENT_PATH_MAX, 0);
	if (!record) {
		count_lost();
		return 0;
	}
	begin_names(record, &names);
	n = bpf_probe_read_kernel_str(record->text, SHFS_EVENT_PATH_MAX, bprm->filename);
	record->name_len = n > 0 ? n - 1 : 0;
	bpf_ringbuf_submit(record, wake_flags(record->time_ns, false));
	return 0;
}

/*
 * Reports closes and the end of a process. Threads end side by side, and each may see
 * another that still has the table of files. So the first thread that sees the end of all
 * threads reports everything.
 */
SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit)
{
	struct task_struct *task = this_task();
	struct range range = {};
	u32 pid = task->tgid;
	bool last;

	if (!watched())
		return 0;
	last = claim_end(task);
	if (last || (task->files && task->files->count.counter == 1 &&
	             task->signal->live.counter))
		bpf_loop(table_size(task), close_at_end, &range, 0);
	if (!last)
		return 0;
	close_maps(1);
	bpf_map_delete_elem(&mapped, &pid);
	send_exit(task);
	return 0;
}

/* --- io_uring, of files with descriptors --- */

static __always_inline bool uring_writes(u8 operation)
{
	return operation == 2 /* WRITEV */ || operation == 5 /* WRITE_FIXED */ ||
	       operation == 17 /* FALLOCATE */ || operation == 23 /* WRITE */ ||
	       operation == 30 /* SPLICE */ || operation == 55 /* FTRUNCATE */;
}

SEC("tp_btf/io_uring_file_get")
int BPF_PROG(on_uring_file, struct io_kiocb *request, int fd)
{
	struct file *file;
	u64 address;

	if (!uring_writes(request->opcode) || !watched())
		return 0;
	address = file_of_fd(fd);
	if (!address)
		return 0;
	file = cast(address);
	if ((file->f_mode & FMODE_WRITE) && is_regular(file))
		written_at(address, SHFS_EVENT_WRITTEN);
	return 0;
}

SEC("tp_btf/io_uring_submit_req")
int BPF_PROG(on_uring_submit, struct io_kiocb *request)
{
	struct io_close *close = (void *)request;
	u64 file, ino;

	if (request->opcode != 19 /* CLOSE */ || !watched())
		return 0;
	file = file_of_fd(BPF_CORE_READ(close, fd));
	if (!file)
		return 0;
	close_one(file, 0);
	ino = cast(file)->f_inode->i_ino;
	bpf_map_update_elem(&closing, &file, &ino, BPF_ANY);
	return 0;
}
