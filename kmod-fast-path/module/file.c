// SPDX-License-Identifier: GPL-2.0-only
/* open files: their writers, and their last close. */
#include <linux/hash.h>
#include <linux/kdev_t.h>
#include <linux/mman.h>
#include <linux/sched/signal.h>
#include <linux/security.h>
#include <linux/slab.h>

#include "shfs.h"

#define CONTENT                                                                          \
	(SHFS_EVENT_WRITTEN | SHFS_EVENT_MAPPED | SHFS_EVENT_TRUNCATED |                 \
	 SHFS_EVENT_CREATED)

void shfs_fill_file(const struct shfs_subscription *sub, struct shfs_event_file *file,
		    const struct inode *inode, const struct dentry *dentry, u64 dev)
{
	const struct super_block *sb = inode->i_sb;
	const struct inode *parent = d_inode_rcu(READ_ONCE(dentry->d_parent));

	if (!dev && sb != sub->root.dentry->d_sb)
		dev = new_encode_dev(sb->s_dev);
	file->id = 0;
	file->dev = dev;
	file->ino = inode->i_ino;
	file->parent = parent ? parent->i_ino : 0;
	file->bytes = i_size_read(inode);
	file->mtime_ns = shfs_mtime_ns(inode);
	file->ctime_ns = shfs_ctime_ns(inode);
	file->generation = inode->i_generation;
	file->mode = inode->i_mode;
	file->nlink = inode->i_nlink;
	file->uid = from_kuid_munged(sub->user_ns, inode->i_uid);
	file->pin = 0;
}

/* --- writers --- */

static struct hlist_head *writers_bucket(struct shfs_subscription *sub,
					 const struct file *file)
{
	return &sub->writers[hash_ptr(file, SHFS_WRITERS_BITS)];
}

static struct shfs_writer *find_file_writer(struct shfs_subscription *sub,
					    const struct file *file)
{
	struct shfs_writer *writer;

	hlist_for_each_entry_rcu(writer, writers_bucket(sub, file), node)
		if (writer->file == file)
			return writer;
	return NULL;
}

/* Removes the writer of a file that is closed: no process has it any more. */
static struct shfs_writer *take_writer(struct shfs_subscription *sub,
				       const struct file *file)
{
	struct shfs_writer *writer = find_file_writer(sub, file);

	if (writer) {
		spin_lock(&sub->writers_lock);
		hlist_del_rcu(&writer->node);
		spin_unlock(&sub->writers_lock);
	}
	return writer;
}

void shfs_writers_free(struct shfs_subscription *sub)
{
	struct shfs_writer *writer;
	struct hlist_node *next;

	for (int i = 0; i < ARRAY_SIZE(sub->writers); i++)
		hlist_for_each_entry_safe(writer, next, &sub->writers[i], node)
			kfree(writer);
}

static bool is_by_current(const struct shfs_writer *writer)
{
	return writer->tgid == current->tgid &&
	       writer->process.start_ns == current->group_leader->start_boottime;
}

/* The shell of a terminal writes by itself: maybe for another command line. */
static bool is_next_shell_line(const struct shfs_writer *writer)
{
	return current->signal->leader && current->signal->tty &&
	       ktime_get_boottime_ns() - READ_ONCE(writer->told_ns) > SHFS_EVENT_LINE_NS;
}

/* Was this writer reported already? */
static bool is_writer_reported(const struct shfs_writer *writer)
{
	return is_by_current(writer) && writer->exec_id == current->self_exec_id &&
	       !is_next_shell_line(writer);
}

static void write_now(const struct shfs_subscription *sub, struct shfs_writer *writer)
{
	writer->tgid = current->tgid;
	writer->exec_id = current->self_exec_id;
	if (current->signal->leader)
		writer->told_ns = ktime_get_boottime_ns();
	shfs_fill_process(sub, &writer->process, current);
}

/*
 * Adds fresh; or returns the writer that another CPU has added meanwhile, and
 * frees fresh.
 */
static struct shfs_writer *add_file_writer(struct shfs_subscription *sub,
					   struct shfs_writer *fresh)
{
	struct shfs_writer *writer;

	writer = find_file_writer(sub, fresh->file);
	if (writer) {
		kfree(fresh);
		return writer;
	}
	fresh->id = ++sub->next_id;
	hlist_add_head_rcu(&fresh->node, writers_bucket(sub, fresh->file));
	return fresh;
}

/*
 * Notes that the current process writes. true: it is a new writer, and told is
 * the writer to report.
 */
static bool note_writer(struct shfs_subscription *sub, const struct file *file, u32 flags,
			struct shfs_writer *fresh, struct shfs_writer *told)
{
	struct shfs_writer *writer;
	bool is_new = false;

	spin_lock(&sub->writers_lock);
	writer = fresh ? add_file_writer(sub, fresh) : find_file_writer(sub, file);
	if (writer) {
		is_new = writer == fresh;
		writer->flags |= flags;
		if (!is_new && !is_writer_reported(writer)) {
			if (!is_by_current(writer))
				writer->flags |= SHFS_EVENT_SHARED;
			write_now(sub, writer);
			is_new = true;
		}
		*told = *writer;
	}
	spin_unlock(&sub->writers_lock);
	return is_new;
}

static struct shfs_writer *make_writer(struct shfs_subscription *sub,
				       const struct file *file)
{
	struct shfs_writer *writer = kzalloc(sizeof(*writer), GFP_ATOMIC | __GFP_NOWARN);

	if (!writer) {
		atomic64_inc(&sub->untracked);
		return NULL;
	}
	writer->file = file;
	write_now(sub, writer);
	return writer;
}

static u32 flags_of(const struct file *file, const struct shfs_writer *writer)
{
	const struct inode *inode = file_inode(file);
	u32 flags = writer ? writer->flags : 0;

	if (file->f_mode & FMODE_READ)
		flags |= SHFS_EVENT_READABLE;
	if (file->f_flags & __FMODE_EXEC)
		flags |= SHFS_EVENT_EXECUTED;
	if (!(file->f_mode & FMODE_WRITE))
		return flags;
	flags |= SHFS_EVENT_WRITABLE;
	if (file->f_mode & FMODE_CREATED)
		flags |= SHFS_EVENT_CREATED;
	if (file->f_flags & O_APPEND)
		flags |= SHFS_EVENT_APPEND;
	if (atomic_read(&inode->i_writecount) == 1)
		flags |= SHFS_EVENT_LAST_WRITER;
	/*
	 * core dumps are written without a permission check; other processes
	 * that have the mapping may write
	 */
	if (!writer && (file->f_mode & FMODE_CREATED) && i_size_read(inode))
		flags |= SHFS_EVENT_WRITTEN;
	if (writer && (flags & SHFS_EVENT_MAPPED) && !is_by_current(writer))
		flags |= SHFS_EVENT_SHARED;
	return flags;
}

static void report_write(struct shfs_subscription *sub, const struct file *file,
			 const struct shfs_text *text, const struct shfs_writer *writer)
{
	struct shfs_ring *ring = shfs_ring_here(sub);
	struct shfs_event *event;

	shfs_event_begin(ring);
	event = shfs_event_make(sub, ring, SHFS_EVENT_WRITE, text->len, 0);
	if (event) {
		event->flags = flags_of(file, writer) | (text->cut ? SHFS_EVENT_CUT : 0);
		event->process = writer->process;
		shfs_fill_file(sub, &event->file, file_inode(file), file->f_path.dentry,
			       text->dev);
		event->file.id = writer->id;
		shfs_copy(event->text, text->at, text->len);
	}
	shfs_event_end(sub, ring, event);
}

/*
 * Is the opener or the current process watched? The opener counts for a program
 * with more rights that writes to its output.
 */
static bool is_use_watched(const struct shfs_subscription *sub, const struct file *file)
{
	return shfs_is_of(sub, current_cred()) || shfs_is_of(sub, file->f_cred);
}

static void write_in(struct shfs_subscription *sub, struct file *file, u32 flags)
{
	struct shfs_writer *writer = find_file_writer(sub, file), told;
	struct shfs_text text;

	if (writer && is_writer_reported(writer) &&
	    (READ_ONCE(writer->flags) & flags) == flags)
		return;
	if (!is_use_watched(sub, file) ||
	    !shfs_path(sub, file->f_path.dentry, shfs_ring_here(sub)->text, &text))
		return;
	if (!writer) {
		writer = make_writer(sub, file);
		if (!writer)
			return;
	} else {
		writer = NULL;
	}
	if (note_writer(sub, file, flags, writer, &told))
		report_write(sub, file, &text, &told);
}

static void write_to(struct file *file, u32 flags)
{
	struct shfs_subscription *sub;

	if (!(file->f_mode & FMODE_WRITE) || shfs_is_backing_file(file))
		return;
	shfs_enter();
	shfs_for_each_subscription(sub)
		write_in(sub, file, flags);
	shfs_leave();
}

/* --- hooks --- */

static void notrace on_permission(unsigned long ip, unsigned long parent_ip,
				  struct ftrace_ops *op, struct ftrace_regs *regs)
{
	struct file *file = (struct file *)shfs_ftrace_argument(regs, 0);
	int mask = shfs_ftrace_argument(regs, 1);

	if ((mask & MAY_WRITE) && shfs_watched() && S_ISREG(file_inode(file)->i_mode))
		write_to(file, SHFS_EVENT_WRITTEN);
}

static void notrace on_mmap(unsigned long ip, unsigned long parent_ip,
			    struct ftrace_ops *op, struct ftrace_regs *regs)
{
	struct file *file = (struct file *)shfs_ftrace_argument(regs, 0);
	unsigned long flags = shfs_ftrace_argument(regs, 2) & MAP_TYPE;

	if (file && flags != MAP_PRIVATE && shfs_watched() &&
	    S_ISREG(file_inode(file)->i_mode))
		write_to(file, SHFS_EVENT_MAPPED);
}

static void notrace on_file_truncate(unsigned long ip, unsigned long parent_ip,
				     struct ftrace_ops *op, struct ftrace_regs *regs)
{
	struct file *file = (struct file *)shfs_ftrace_argument(regs, 3 + SHFS_IDMAP);

	unsigned long length = shfs_ftrace_argument(regs, 1 + SHFS_IDMAP);

	/* what was cut to some length still has older content */
	if (file && shfs_watched() && S_ISREG(file_inode(file)->i_mode))
		write_to(file, length ? SHFS_EVENT_WRITTEN
				      : SHFS_EVENT_WRITTEN | SHFS_EVENT_TRUNCATED);
}

static void report_close(struct shfs_subscription *sub, const struct file *file,
			 const struct shfs_text *text, const struct shfs_writer *writer)
{
	struct shfs_ring *ring = shfs_ring_here(sub);
	struct shfs_event *event;
	u32 flags;

	shfs_event_begin(ring);
	event = shfs_event_make(sub, ring, SHFS_EVENT_CLOSE, text->len, 0);
	if (!event)
		goto end;
	flags = flags_of(file, writer);
	if (text->cut)
		flags |= SHFS_EVENT_CUT;
	shfs_fill_file(sub, &event->file, file_inode(file), file->f_path.dentry,
		       text->dev);
	if (writer) {
		event->file.id = writer->id;
		event->process = writer->process;
	} else {
		shfs_fill_process(sub, &event->process, current);
		if (current->flags & PF_KTHREAD)
			flags |= SHFS_EVENT_INEXACT;
	}
	if (flags & CONTENT) {
		event->file.pin = shfs_pin(sub, &file->f_path);
		if (event->file.pin)
			flags |= SHFS_EVENT_PINNED;
	}
	event->flags = flags;
	shfs_copy(event->text, text->at, text->len);
end:
	shfs_event_end(sub, ring, event);
}

static void close_in(struct shfs_subscription *sub, const struct file *file)
{
	struct shfs_writer *writer = NULL;
	struct shfs_text text;

	if (file->f_mode & FMODE_WRITE)
		writer = take_writer(sub, file);
	if ((writer || is_use_watched(sub, file)) &&
	    shfs_path(sub, file->f_path.dentry, shfs_ring_here(sub)->text, &text))
		report_close(sub, file, &text, writer);
	if (writer)
		kfree_rcu(writer, rcu);
}

static void notrace on_fput(unsigned long ip, unsigned long parent_ip,
			    struct ftrace_ops *op, struct ftrace_regs *regs)
{
	struct file *file = (struct file *)shfs_ftrace_argument(regs, 0);
	struct shfs_subscription *sub;

	if (!shfs_watched() ||
	    (file->f_mode & (FMODE_OPENED | FMODE_PATH)) != FMODE_OPENED ||
	    !S_ISREG(file_inode(file)->i_mode) || shfs_is_backing_file(file))
		return;
	shfs_enter();
	shfs_for_each_subscription(sub)
		close_in(sub, file);
	shfs_leave();
}

SHFS_PROTOTYPE(security_file_permission, int, struct file *, int);
SHFS_PROTOTYPE(security_mmap_file, int, struct file *, unsigned long, unsigned long);

static struct shfs_ftrace fput_hook = {.name = "__fput"};
static struct shfs_ftrace release_hook = {.name = "security_file_release"};
static struct shfs_ftrace permission = {.name = "security_file_permission"};
static struct shfs_ftrace mmap_hook = {.name = "security_mmap_file"};
static struct shfs_ftrace truncate_hook = {.name = "do_truncate"};

int shfs_file_hook(void)
{
	int r;

	r = shfs_ftrace_on(&permission, on_permission);
	if (!r)
		r = shfs_ftrace_on(&mmap_hook, on_mmap);
	if (!r)
		r = shfs_ftrace_on(&truncate_hook, on_file_truncate);
	if (!r && shfs_ftrace_on(&fput_hook, on_fput))
		r = shfs_ftrace_on(&release_hook, on_fput);
	if (r)
		pr_err("this kernel does not let see open files: %d\n", r);
	return r;
}

void shfs_file_unhook(void)
{
	shfs_ftrace_off(&release_hook);
	shfs_ftrace_off(&fput_hook);
	shfs_ftrace_off(&truncate_hook);
	shfs_ftrace_off(&mmap_hook);
	shfs_ftrace_off(&permission);
}
