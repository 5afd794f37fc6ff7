// SPDX-License-Identifier: GPL-2.0-only
/* /dev/shfs: each open file of it is a watch. */
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/nsproxy.h>
#include <linux/poll.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/user_namespace.h>
#include <linux/vmalloc.h>

#include "shfs.h"

#define WATCHES_MAX 128

LIST_HEAD(shfs_watches);
static DEFINE_MUTEX(watches_lock); /* for changes of the list and of watches */
static unsigned int watch_count;
static u64 last_serial;

/* --- pins: written files, until they are taken --- */

static int make_pins(struct shfs_watch *watch)
{
	watch->pins = vzalloc(array_size(SHFS_PINS, sizeof(*watch->pins)));
	if (!watch->pins)
		return -ENOMEM;
	for (u32 i = 0; i < SHFS_PINS; i++)
		watch->pins[i].next = i + 1;
	return 0;
}

u64 shfs_pin(struct shfs_watch *watch, const struct path *path)
{
	struct shfs_pin *pin;
	u64 id = 0;

	spin_lock(&watch->pins_lock);
	if (watch->free_pin < SHFS_PINS) {
		pin = &watch->pins[watch->free_pin];
		/* an id is never 0 */
		pin->generation++;
		id = (u64)pin->generation << 32 | (watch->free_pin + 1);
		watch->free_pin = pin->next;
		watch->pin_count++;
		pin->path = *path;
		path_get(&pin->path);
	} else {
		watch->unpinned++;
	}
	spin_unlock(&watch->pins_lock);
	return id;
}

/* Removes the pin; the caller owns path then. */
static bool unpin(struct shfs_watch *watch, u64 id, struct path *path)
{
	u32 i = (u32)id - 1;
	struct shfs_pin *pin;
	bool found = false;

	if (i >= SHFS_PINS)
		return false;
	pin = &watch->pins[i];
	spin_lock(&watch->pins_lock);
	if (pin->path.dentry && pin->generation == id >> 32) {
		found = true;
		*path = pin->path;
		pin->path.dentry = NULL;
		pin->next = watch->free_pin;
		watch->free_pin = i;
		watch->pin_count--;
	}
	spin_unlock(&watch->pins_lock);
	return found;
}

static void free_pins(struct shfs_watch *watch)
{
	if (!watch->pins)
		return;
	for (u32 i = 0; i < SHFS_PINS; i++)
		if (watch->pins[i].path.dentry)
			path_put(&watch->pins[i].path);
	vfree(watch->pins);
}

static long open_pinned_file(struct shfs_watch *watch,
			     struct shfs_device_take __user *argument)
{
	struct shfs_device_take order;
	struct file *file;
	struct path path;
	int fd;

	if (copy_from_user(&order, argument, sizeof(order)))
		return -EFAULT;
	fd = get_unused_fd_flags(O_CLOEXEC);
	if (fd < 0)
		return fd;
	if (!unpin(watch, order.pin, &path)) {
		put_unused_fd(fd);
		return -ENOENT;
	}
	file = dentry_open(&path, O_PATH, current_cred());
	path_put(&path);
	order.fd = fd;
	if (!IS_ERR(file) && copy_to_user(argument, &order, sizeof(order))) {
		fput(file);
		file = ERR_PTR(-EFAULT);
	}
	if (IS_ERR(file)) {
		put_unused_fd(fd);
		return PTR_ERR(file);
	}
	fd_install(fd, file);
	return 0;
}

/* --- what is mounted below the root --- */

static void free_mounts(struct shfs_mounts *mounts)
{
	if (!mounts)
		return;
	for (u32 i = 0; i < mounts->count; i++)
		kfree(mounts->mount[i].text);
	kfree(mounts);
}

static int copy_mount(struct shfs_mount *mount, const struct shfs_device_mount *from)
{
	struct file *file;
	char *text;

	if (from->text_len > SHFS_EVENT_PATH_MAX)
		return -ENAMETOOLONG;
	text = memdup_user(u64_to_user_ptr(from->text), from->text_len);
	if (IS_ERR(text))
		return PTR_ERR(text);
	file = fget_raw(from->fd);
	if (!file) {
		kfree(text);
		return -EBADF;
	}
	mount->dentry = file->f_path.dentry;
	mount->sb = mount->dentry->d_sb;
	mount->ino = d_inode(mount->dentry)->i_ino;
	mount->dev = from->dev;
	mount->text = text;
	mount->len = from->text_len;
	fput(file);
	return 0;
}

static long set_mounts(struct shfs_watch *watch,
		       struct shfs_device_mounts __user *argument)
{
	struct shfs_device_mount __user *list;
	struct shfs_device_mount one;
	struct shfs_mounts *mounts, *before;
	struct shfs_device_mounts order;
	int r = 0;

	if (copy_from_user(&order, argument, sizeof(order)))
		return -EFAULT;
	if (order.count > SHFS_DEVICE_MOUNTS_MAX)
		return -E2BIG;
	mounts = kzalloc(struct_size(mounts, mount, order.count), GFP_KERNEL);
	if (!mounts)
		return -ENOMEM;
	list = u64_to_user_ptr(order.mounts);
	while (!r && mounts->count < order.count) {
		if (copy_from_user(&one, &list[mounts->count], sizeof(one)))
			r = -EFAULT;
		else
			r = copy_mount(&mounts->mount[mounts->count], &one);
		if (!r)
			mounts->count++;
	}
	if (r) {
		free_mounts(mounts);
		return r;
	}
	if (!mounts->count) {
		kfree(mounts);
		mounts = NULL;
	}
	mutex_lock(&watches_lock);
	before = rcu_replace_pointer(watch->mounts, mounts,
				     lockdep_is_held(&watches_lock));
	mutex_unlock(&watches_lock);
	synchronize_rcu();
	free_mounts(before);
	return 0;
}

/* --- a watch --- */

static void destroy_watch(struct shfs_watch *watch)
{
	if (!watch)
		return;
	free_pins(watch);
	shfs_writers_free(watch);
	shfs_rings_free(watch);
	free_mounts(rcu_dereference_protected(watch->mounts, true));
	if (watch->pid_ns)
		put_pid_ns(watch->pid_ns);
	put_user_ns(watch->user_ns);
	path_put(&watch->root);
	kvfree(watch);
}

static struct pid_namespace *pid_ns_of(pid_t number)
{
	struct pid_namespace *ns = NULL;
	struct task_struct *task;

	rcu_read_lock();
	task = number ? pid_task(find_vpid(number), PIDTYPE_PID) : current;
	if (task)
		ns = task_active_pid_ns(task);
	if (ns)
		ns = get_pid_ns(ns);
	rcu_read_unlock();
	return ns;
}

static struct shfs_watch *alloc_watch(const struct file *root)
{
	struct shfs_watch *watch = kvzalloc(sizeof(*watch), GFP_KERNEL);

	if (!watch)
		return NULL;
	watch->root = root->f_path;
	path_get(&watch->root);
	watch->user_ns = get_user_ns(current_user_ns());
	spin_lock_init(&watch->writers_lock);
	spin_lock_init(&watch->pins_lock);
	init_waitqueue_head(&watch->wait);
	return watch;
}

static int fill_watch(struct shfs_watch *watch, const struct shfs_device_watch *order)
{
	int r;

	watch->uid = make_kuid(watch->user_ns, order->uid);
	watch->all_users = !order->uid;
	if (!uid_valid(watch->uid))
		return -EINVAL;
	watch->pid_ns = pid_ns_of(order->pid);
	if (!watch->pid_ns)
		return -ESRCH;
	r = make_pins(watch);
	return r ? r : shfs_rings_make(watch);
}

static struct shfs_watch *make_watch(const struct shfs_device_watch *order)
{
	struct shfs_watch *watch;
	struct file *root;
	int r;

	if (order->version != SHFS_EVENT_VERSION)
		return ERR_PTR(-EPROTO);
	root = fget(order->root);
	if (!root)
		return ERR_PTR(-EBADF);
	watch = d_is_dir(root->f_path.dentry) ? alloc_watch(root) : ERR_PTR(-ENOTDIR);
	fput(root);
	if (IS_ERR_OR_NULL(watch))
		return watch ? watch : ERR_PTR(-ENOMEM);
	r = fill_watch(watch, order);
	if (r) {
		destroy_watch(watch);
		return ERR_PTR(r);
	}
	return watch;
}

static int attach_watch(struct file *file, struct shfs_watch *watch)
{
	int r = 0;

	mutex_lock(&watches_lock);
	if (file->private_data) {
		r = -EBUSY;
	} else if (watch_count >= WATCHES_MAX) {
		r = -EMFILE;
	} else {
		watch_count++;
		watch->serial = ++last_serial;
		list_add_tail_rcu(&watch->node, &shfs_watches);
		/* complete before watch_of() can see it */
		smp_store_release(&file->private_data, watch);
	}
	mutex_unlock(&watches_lock);
	return r;
}

static long start_watch(struct file *file, struct shfs_device_watch __user *argument)
{
	struct shfs_device_watch order;
	struct shfs_watch *watch;
	int r;

	if (copy_from_user(&order, argument, sizeof(order)))
		return -EFAULT;
	watch = make_watch(&order);
	if (IS_ERR(watch))
		return PTR_ERR(watch);
	order.rings = nr_cpu_ids;
	order.ring_bytes = watch->ring_bytes;
	r = copy_to_user(argument, &order, sizeof(order)) ? -EFAULT : 0;
	if (!r)
		r = attach_watch(file, watch);
	if (r)
		destroy_watch(watch);
	return r;
}

static long copy_watch_status(struct shfs_watch *watch,
			      struct shfs_device_status __user *argument)
{
	struct shfs_device_status status = {
		.unseen = shfs_name_unseen(),
		.untracked = atomic64_read(&watch->untracked),
	};

	spin_lock(&watch->pins_lock);
	status.unpinned = watch->unpinned;
	status.pins = watch->pin_count;
	spin_unlock(&watch->pins_lock);
	return copy_to_user(argument, &status, sizeof(status)) ? -EFAULT : 0;
}

/* --- the device --- */

static struct shfs_watch *watch_of(struct file *file)
{
	/* written by attach_watch() */
	return smp_load_acquire(&file->private_data);
}

/* misc_open() has set private_data to the device. */
static int device_open(struct inode *inode, struct file *file)
{
	file->private_data = NULL;
	return nonseekable_open(inode, file);
}

static long device_ioctl(struct file *file, unsigned int request, unsigned long argument)
{
	struct shfs_watch *watch = watch_of(file);
	void __user *pointer = (void __user *)argument;

	if (request == SHFS_DEVICE_WATCH)
		return start_watch(file, pointer);
	if (!watch)
		return -ENODEV;
	switch (request) {
	case SHFS_DEVICE_TAKE:
		return open_pinned_file(watch, pointer);
	case SHFS_DEVICE_MOUNTS:
		return set_mounts(watch, pointer);
	case SHFS_DEVICE_STATUS:
		return copy_watch_status(watch, pointer);
	}
	return -ENOTTY;
}

static int device_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct shfs_watch *watch = watch_of(file);
	unsigned long bytes, cpu;

	if (!watch)
		return -ENODEV;
	bytes = SHFS_DEVICE_HEADER_BYTES + watch->ring_bytes;
	cpu = vma->vm_pgoff / (bytes >> PAGE_SHIFT);
	if (vma->vm_pgoff % (bytes >> PAGE_SHIFT) || cpu >= nr_cpu_ids ||
	    vma->vm_end - vma->vm_start != bytes)
		return -EINVAL;
	if (!watch->rings[cpu])
		return -ENXIO;
	return remap_vmalloc_range(vma, watch->rings[cpu]->shared, 0);
}

static __poll_t device_poll(struct file *file, poll_table *table)
{
	struct shfs_watch *watch = watch_of(file);

	if (!watch)
		return EPOLLERR;
	poll_wait(file, &watch->wait, table);
	if (READ_ONCE(watch->pin_count) > SHFS_PINS / 8 || shfs_rings_want_reader(watch))
		return EPOLLIN | EPOLLRDNORM;
	return 0;
}

static int device_release(struct inode *inode, struct file *file)
{
	struct shfs_watch *watch = file->private_data;

	if (!watch)
		return 0;
	mutex_lock(&watches_lock);
	list_del_rcu(&watch->node);
	watch_count--;
	mutex_unlock(&watches_lock);
	synchronize_rcu();
	destroy_watch(watch);
	return 0;
}

const struct file_operations shfs_device = {
	.owner = THIS_MODULE,
	.open = device_open,
	.release = device_release,
	.unlocked_ioctl = device_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.mmap = device_mmap,
	.poll = device_poll,
};
