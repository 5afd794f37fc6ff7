// SPDX-License-Identifier: GPL-2.0-only
/*
 * Events from functions of the kernel, where it lets programs be attached to them: exact
 * last closes, and changes of names once they have succeeded.
 */
#include "kmod-fast-path/bpf/shared.h"

static __always_inline struct task_struct *this_task(void)
{
	return (void *)bpf_get_current_task_btf();
}

/* Attached to security_file_release, or to __fput where the kernel has no such
 * function. */
SEC("fentry/__fput")
int BPF_PROG(on_close, struct file *file)
{
	struct inode *inode = file->f_inode;
	u32 mode = file->f_mode;

	if ((mode & FMODE_OPENED) && (inode->i_mode & S_IFMT) == S_IFREG)
		send_close(file, mode, inode, 0);
	return 0;
}

SEC("fentry/security_file_permission")
int BPF_PROG(on_permission, struct file *file, int mask)
{
	if ((mask & MAY_WRITE) && is_regular(file))
		note_written(file, SHFS_EVENT_WRITTEN);
	return 0;
}

SEC("fentry/security_mmap_file")
int BPF_PROG(on_mmap, struct file *file, unsigned long prot, unsigned long flags)
{
	u32 type = flags & MAP_TYPE;

	if (file && (type == MAP_SHARED || type == MAP_SHARED_VALIDATE) &&
	    (file->f_mode & FMODE_WRITE) && is_regular(file))
		note_written(file, SHFS_EVENT_MAPPED);
	return 0;
}

/* --- changes of names --- */

/* Event flags that say what kind of file it is. */
static __always_inline u32 kind_flag(struct inode *inode)
{
	return (inode->i_mode & S_IFMT) == S_IFDIR ? SHFS_EVENT_DIRECTORY_FILE : 0;
}

static __always_inline void send_named(u16 type, struct dentry *dentry)
{
	struct inode *inode = dentry->d_inode;
	struct location location;
	struct who who;

	if (!inode || !watched() || !find_dentry_place(dentry, NULL, &location))
		return;
	who_is(this_task(), &who);
	send_event(type, kind_flag(inode), &who, dentry, inode, &location, 0, false);
}

static __always_inline void send_renamed(struct dentry *from, struct dentry *to,
                                         u32 flags)
{
	struct location location, place2;
	struct inode *inode = from->d_inode, *other = to->d_inode;
	u64 id = 0;
	bool below;

	if (!inode || !watched())
		return;
	below = find_dentry_place(from, NULL, &location);
	if (!find_dentry_place(to, NULL, &place2) && !below)
		return;
	if (other && flags & SHFS_EVENT_EXCHANGED)
		id = other->i_ino;
	else if (other)
		flags |= SHFS_EVENT_REPLACED;
	send_event_of_two(SHFS_EVENT_RENAME, flags | kind_flag(inode), inode, from,
	                  &location, to, &place2, id);
}

/* The kernel calls d_move once a rename has succeeded; both dentries still have their old
 * names. */
SEC("fentry/d_move")
int BPF_PROG(on_move, struct dentry *from, struct dentry *to)
{
	send_renamed(from, to, 0);
	return 0;
}

SEC("fentry/d_exchange")
int BPF_PROG(on_exchange, struct dentry *from, struct dentry *to)
{
	send_renamed(from, to, SHFS_EVENT_EXCHANGED);
	return 0;
}

/* The kernel calls d_delete once an unlink or rmdir has succeeded. */
SEC("fentry/d_delete")
int BPF_PROG(on_delete, struct dentry *dentry)
{
	send_named(SHFS_EVENT_UNLINK, dentry);
	return 0;
}

/* Has the call returned success? It returns an int or (vfs_mkdir, since 6.15) a
 * pointer. */
static __always_inline bool succeeded(void *ctx)
{
	u64 result = 0;

	bpf_get_func_ret(ctx, &result);
	return (u32)result < (u32)-4095 || (result >> 32 && result >> 32 != (u32)-1);
}

SEC("fexit/vfs_mkdir")
int BPF_PROG(on_mkdir, void *idmap, struct inode *dir, struct dentry *dentry)
{
	if (succeeded(ctx))
		send_named(SHFS_EVENT_MAKE, dentry);
	return 0;
}

SEC("fexit/vfs_mknod")
int BPF_PROG(on_mknod, void *idmap, struct inode *dir, struct dentry *dentry)
{
	if (succeeded(ctx))
		send_named(SHFS_EVENT_MAKE, dentry);
	return 0;
}

/* mknod(2) of a regular file; open(2) with O_CREAT does not come here. */
SEC("fexit/vfs_create")
int BPF_PROG(on_create, void *idmap, struct inode *dir, struct dentry *dentry)
{
	if (succeeded(ctx))
		send_named(SHFS_EVENT_MAKE, dentry);
	return 0;
}

/* Since 6.19 vfs_create has no argument for the directory. */
SEC("fexit/vfs_create")
int BPF_PROG(on_create_by_dentry, void *idmap, struct dentry *dentry)
{
	if (succeeded(ctx))
		send_named(SHFS_EVENT_MAKE, dentry);
	return 0;
}

SEC("fexit/vfs_symlink")
int BPF_PROG(on_symlink, void *idmap, struct inode *dir, struct dentry *dentry,
             const char *target)
{
	struct inode *inode = dentry->d_inode;
	struct shfs_bpf_record *record;
	struct location location;
	struct who who;
	long n;

	if (!succeeded(ctx) || !inode || !watched() ||
	    !find_dentry_place(dentry, NULL, &location) ||
	    !ensure_path_sent(dentry, &location))
		return 0;
	record = bpf_ringbuf_reserve(
		&ring, sizeof(*record) + SHFS_BPF_NAME_MAX + SHFS_EVENT_PATH_MAX, 0);
	if (!record) {
		count_lost();
		return 0;
	}
	who_is(this_task(), &who);
	fill_record(record, SHFS_EVENT_MAKE, 0, &who, inode, &location, 0);
	bpf_probe_read_kernel(record->text, bound_len(location.len, SHFS_BPF_NAME_MAX),
	                      location.name);
	n = bpf_probe_read_kernel_str(record->text + SHFS_BPF_NAME_MAX,
	                              SHFS_EVENT_PATH_MAX, target);
	record->name2_at = SHFS_BPF_NAME_MAX;
	record->name2_len = n > 0 ? n - 1 : 0;
	bpf_ringbuf_submit(record, wake_flags(record->time_ns, false));
	return 0;
}

SEC("fexit/vfs_link")
int BPF_PROG(on_link, struct dentry *from, void *idmap, struct inode *dir,
             struct dentry *to)
{
	struct inode *inode = from->d_inode;
	struct location location, place2;

	if (!succeeded(ctx) || !inode || !watched() ||
	    !find_dentry_place(to, NULL, &place2))
		return 0;
	find_dentry_place(from, NULL, &location);
	if (!from->d_hash.pprev) /* made by O_TMPFILE: it had no name */
		location.key = location.len = 0;
	send_event_of_two(SHFS_EVENT_LINK, 0, inode, from, &location, to, &place2, 0);
	return 0;
}

/* Also runs for ftruncate(2) and O_TRUNC; these have an open file. */
SEC("fexit/do_truncate")
int BPF_PROG(on_truncate, void *idmap, struct dentry *dentry, long long length,
             unsigned int times, struct file *file)
{
	if (!succeeded(ctx))
		return 0;
	if (file) /* what was cut to some length still has older content */
		note_written(file, length ? SHFS_EVENT_WRITTEN
		                          : SHFS_EVENT_WRITTEN | SHFS_EVENT_TRUNCATED);
	else
		send_named(SHFS_EVENT_TRUNCATE, dentry);
	return 0;
}

SEC("fexit/notify_change")
int BPF_PROG(on_change, void *idmap, struct dentry *dentry, struct iattr *attr)
{
	if (!(attr->ia_valid & ATTR_SIZE) && succeeded(ctx))
		send_named(SHFS_EVENT_CHANGE, dentry);
	return 0;
}

/* Sets an extended attribute; before 6.2 also an access control list. */
SEC("fexit/vfs_setxattr")
int BPF_PROG(on_setxattr, void *idmap, struct dentry *dentry)
{
	if (succeeded(ctx))
		send_named(SHFS_EVENT_CHANGE, dentry);
	return 0;
}

SEC("fexit/vfs_removexattr")
int BPF_PROG(on_removexattr, void *idmap, struct dentry *dentry)
{
	if (succeeded(ctx))
		send_named(SHFS_EVENT_CHANGE, dentry);
	return 0;
}

SEC("fexit/vfs_set_acl")
int BPF_PROG(on_set_acl, void *idmap, struct dentry *dentry)
{
	if (succeeded(ctx))
		send_named(SHFS_EVENT_CHANGE, dentry);
	return 0;
}

SEC("fexit/vfs_remove_acl")
int BPF_PROG(on_remove_acl, void *idmap, struct dentry *dentry)
{
	if (succeeded(ctx))
		send_named(SHFS_EVENT_CHANGE, dentry);
	return 0;
}

/* --- rare events --- */

SEC("fentry/security_sb_mount")
int on_mount(void *ctx)
{
	state.other_mounts = 1;
	return 0;
}

SEC("fentry/security_move_mount")
int on_move_mount(void *ctx)
{
	state.other_mounts = 1;
	return 0;
}

/* Runs after the files of the process were closed. Attached to proc_exit_connector, or to
 * cgroup_exit. */
SEC("fentry/proc_exit_connector")
int BPF_PROG(on_exit, struct task_struct *task)
{
	/* the other threads are gone or about to be: their closes were reported */
	if (task->signal->nr_threads <= 1 && watched() && claim_end(task))
		send_exit(task);
	return 0;
}
