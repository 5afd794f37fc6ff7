// SPDX-License-Identifier: GPL-2.0-only
/* /dev/shfs: each open file of it is a subscription. */
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

LIST_HEAD(shfs_subscriptions);
static DEFINE_MUTEX(
	subscriptions_lock); /* for changes of the list and of subscriptions */
static unsigned int subscription_count;
static u64 last_serial;

/* --- pins: written files, until they are taken --- */

static int make_pins(struct shfs_subscription *sub)
{
	sub->pins = vzalloc(array_size(SHFS_PINS, sizeof(*sub->pins)));
	if (!sub->pins)
		return -ENOMEM;
	for (u32 i = 0; i < SHFS_PINS; i++)
		sub->pins[i].next = i + 1;
	return 0;
}

u64 shfs_pin(struct shfs_subscription *sub, const struct path *path)
{
	struct shfs_pin *pin;
	u64 id = 0;

	spin_lock(&sub->pins_lock);
	if (sub->free_pin < SHFS_PINS) {
		pin = &sub->pins[sub->free_pin];
		/* an id is never 0 */
		pin->generation++;
		id = (u64)pin->generation << 32 | (sub->free_pin + 1);
		sub->free_pin = pin->next;
		sub->pin_count++;
		pin->path = *path;
		path_get(&pin->path);
	} else {
		sub->unpinned++;
	}
	spin_unlock(&sub->pins_lock);
	return id;
}

/* Removes the pin; the caller owns path then. */
static bool unpin(struct shfs_subscription *sub, u64 id, struct path *path)
{
	u32 i = (u32)id - 1;
	struct shfs_pin *pin;
	bool found = false;

	if (i >= SHFS_PINS)
		return false;
	pin = &sub->pins[i];
	spin_lock(&sub->pins_lock);
	if (pin->path.dentry && pin->generation == id >> 32) {
		found = true;
		*path = pin->path;
		pin->path.dentry = NULL;
		pin->next = sub->free_pin;
		sub->free_pin = i;
		sub->pin_count--;
	}
	spin_unlock(&sub->pins_lock);
	return found;
}

static void free_pins(struct shfs_subscription *sub)
{
	if (!sub->pins)
		return;
	for (u32 i = 0; i < SHFS_PINS; i++)
		if (sub->pins[i].path.dentry)
			path_put(&sub->pins[i].path);
	vfree(sub->pins);
}

static long open_pinned_file(struct shfs_subscription *sub,
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
	if (!unpin(sub, order.pin, &path)) {
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

static long set_mounts(struct shfs_subscription *sub,
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
	mutex_lock(&subscriptions_lock);
	before = rcu_replace_pointer(sub->mounts, mounts,
				     lockdep_is_held(&subscriptions_lock));
	mutex_unlock(&subscriptions_lock);
	synchronize_rcu();
	free_mounts(before);
	return 0;
}

/* --- a subscription --- */

static void destroy_watch(struct shfs_subscription *sub)
{
	if (!sub)
		return;
	free_pins(sub);
	shfs_writers_free(sub);
	shfs_rings_free(sub);
	free_mounts(rcu_dereference_protected(sub->mounts, true));
	if (sub->pid_ns)
		put_pid_ns(sub->pid_ns);
	put_user_ns(sub->user_ns);
	path_put(&sub->root);
	kvfree(sub);
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

static struct shfs_subscription *alloc_subscription(const struct file *root)
{
	struct shfs_subscription *sub = kvzalloc(sizeof(*sub), GFP_KERNEL);

	if (!sub)
		return NULL;
	sub->root = root->f_path;
	path_get(&sub->root);
	sub->user_ns = get_user_ns(current_user_ns());
	spin_lock_init(&sub->writers_lock);
	spin_lock_init(&sub->pins_lock);
	init_waitqueue_head(&sub->wait);
	return sub;
}

static int fill_subscription(struct shfs_subscription *sub,
			     const struct shfs_device_subscription *order)
{
	int r;

	sub->uid = make_kuid(sub->user_ns, order->uid);
	sub->all_users = !order->uid;
	if (!uid_valid(sub->uid))
		return -EINVAL;
	sub->pid_ns = pid_ns_of(order->pid);
	if (!sub->pid_ns)
		return -ESRCH;
	r = make_pins(sub);
	return r ? r : shfs_rings_make(sub);
}

static struct shfs_subscription *
make_subscription(const struct shfs_device_subscription *order)
{
	struct shfs_subscription *sub;
	struct file *root;
	int r;

	if (order->version != SHFS_EVENT_VERSION)
		return ERR_PTR(-EPROTO);
	root = fget(order->root);
	if (!root)
		return ERR_PTR(-EBADF);
	sub = d_is_dir(root->f_path.dentry) ? alloc_subscription(root)
					    : ERR_PTR(-ENOTDIR);
	fput(root);
	if (IS_ERR_OR_NULL(sub))
		return sub ? sub : ERR_PTR(-ENOMEM);
	r = fill_subscription(sub, order);
	if (r) {
		destroy_watch(sub);
		return ERR_PTR(r);
	}
	return sub;
}

static int attach_watch(struct file *file, struct shfs_subscription *sub)
{
	int r = 0;

	mutex_lock(&subscriptions_lock);
	if (file->private_data) {
		r = -EBUSY;
	} else if (subscription_count >= WATCHES_MAX) {
		r = -EMFILE;
	} else {
		subscription_count++;
		sub->serial = ++last_serial;
		list_add_tail_rcu(&sub->node, &shfs_subscriptions);
		/* complete before subscription_of() can see it */
		smp_store_release(&file->private_data, sub);
	}
	mutex_unlock(&subscriptions_lock);
	return r;
}

static long start_watch(struct file *file,
			struct shfs_device_subscription __user *argument)
{
	struct shfs_device_subscription order;
	struct shfs_subscription *sub;
	int r;

	if (copy_from_user(&order, argument, sizeof(order)))
		return -EFAULT;
	sub = make_subscription(&order);
	if (IS_ERR(sub))
		return PTR_ERR(sub);
	order.rings = nr_cpu_ids;
	order.ring_bytes = sub->ring_bytes;
	r = copy_to_user(argument, &order, sizeof(order)) ? -EFAULT : 0;
	if (!r)
		r = attach_watch(file, sub);
	if (r)
		destroy_watch(sub);
	return r;
}

static long copy_watch_status(struct shfs_subscription *sub,
			      struct shfs_device_status __user *argument)
{
	struct shfs_device_status status = {
		.unseen = shfs_name_unseen(),
		.untracked = atomic64_read(&sub->untracked),
	};

	spin_lock(&sub->pins_lock);
	status.unpinned = sub->unpinned;
	status.pins = sub->pin_count;
	spin_unlock(&sub->pins_lock);
	return copy_to_user(argument, &status, sizeof(status)) ? -EFAULT : 0;
}

/* --- the device --- */

static struct shfs_subscription *subscription_of(struct file *file)
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
	struct shfs_subscription *sub = subscription_of(file);
	void __user *pointer = (void __user *)argument;

	if (request == SHFS_DEVICE_SUBSCRIBE)
		return start_watch(file, pointer);
	if (!sub)
		return -ENODEV;
	switch (request) {
	case SHFS_DEVICE_TAKE:
		return open_pinned_file(sub, pointer);
	case SHFS_DEVICE_MOUNTS:
		return set_mounts(sub, pointer);
	case SHFS_DEVICE_STATUS:
		return copy_watch_status(sub, pointer);
	}
	return -ENOTTY;
}

static int device_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct shfs_subscription *sub = subscription_of(file);
	unsigned long bytes, cpu;

	if (!sub)
		return -ENODEV;
	bytes = SHFS_DEVICE_HEADER_BYTES + sub->ring_bytes;
	cpu = vma->vm_pgoff / (bytes >> PAGE_SHIFT);
	if (vma->vm_pgoff % (bytes >> PAGE_SHIFT) || cpu >= nr_cpu_ids ||
	    vma->vm_end - vma->vm_start != bytes)
		return -EINVAL;
	if (!sub->rings[cpu])
		return -ENXIO;
	return remap_vmalloc_range(vma, sub->rings[cpu]->shared, 0);
}

static __poll_t device_poll(struct file *file, poll_table *table)
{
	struct shfs_subscription *sub = subscription_of(file);

	if (!sub)
		return EPOLLERR;
	poll_wait(file, &sub->wait, table);
	if (READ_ONCE(sub->pin_count) > SHFS_PINS / 8 || shfs_rings_want_reader(sub))
		return EPOLLIN | EPOLLRDNORM;
	return 0;
}

static int device_release(struct inode *inode, struct file *file)
{
	struct shfs_subscription *sub = file->private_data;

	if (!sub)
		return 0;
	mutex_lock(&subscriptions_lock);
	list_del_rcu(&sub->node);
	subscription_count--;
	mutex_unlock(&subscriptions_lock);
	synchronize_rcu();
	destroy_watch(sub);
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
