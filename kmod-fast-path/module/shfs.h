/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * the interfaces between the parts of the module.
 *
 * The hooks run with preemption off, between shfs_enter() and shfs_leave():
 * nothing else makes an event on that CPU, and the subscriptions that they see stay.
 * They take no lock and allocate nothing for files that are only read.
 */
#ifndef SHFS_MODULE_SHFS_H
#define SHFS_MODULE_SHFS_H

#include <linux/atomic.h>
#include <linux/cred.h>
#include <linux/list.h>
#include <linux/path.h>
#include <linux/pid_namespace.h>
#include <linux/rculist.h>
#include <linux/spinlock.h>
#include <linux/uidgid.h>
#include <linux/wait.h>

#include "common/event.h"
#include "compat.h"
#include "device.h"

#define SHFS_PINS 32768
#define SHFS_WRITERS_BITS 12

/*
 * A ring of a subscription. Only its CPU uses it, but the reader maps the shared part.
 */
struct shfs_ring {
	struct shfs_device_ring *shared;
	char *data;
	u64 head, lost, sequence;
	u64 time_ns; /* of the event that is being made */
	char text[SHFS_EVENT_PATH_MAX]; /* a path, at its end */
};

struct shfs_mount {
	struct dentry *dentry; /* not held: only compared, never dereferenced */
	struct super_block *sb;
	u64 ino, dev;
	char *text;
	u32 len;
};

struct shfs_mounts {
	struct rcu_head rcu;
	u32 count;
	struct shfs_mount mount[];
};

struct shfs_pin {
	struct path path;
	u32 generation, next;
};

/* An open file that was written, with its last writer. */
struct shfs_writer {
	struct hlist_node node;
	struct rcu_head rcu;
	const struct file *file;
	pid_t tgid; /* identifies the process, with process.start_ns */
	u64 exec_id, told_ns;
	u64 id;
	u32 flags; /* enum shfs_event_flags */
	struct shfs_event_process process;
};

struct shfs_subscription {
	struct list_head node;
	u64 serial;
	struct path root;
	kuid_t uid;
	bool all_users;
	struct user_namespace *user_ns;
	struct pid_namespace *pid_ns;
	struct shfs_mounts __rcu *mounts;
	wait_queue_head_t wait;

	u32 ring_bytes;
	struct shfs_ring **rings; /* nr_cpu_ids; NULL for a CPU that cannot
				   * exist */

	spinlock_t writers_lock; /* for changes of the table */
	struct hlist_head writers[1 << SHFS_WRITERS_BITS];
	u64 next_id;
	atomic64_t untracked;

	spinlock_t pins_lock; /* for the members below */
	struct shfs_pin *pins;
	u32 free_pin, pin_count; /* SHFS_PINS: none is free */
	u64 unpinned;
};

/* --- subscription.c --- */

extern struct list_head shfs_subscriptions;
extern const struct file_operations shfs_device;

#define shfs_for_each_subscription(sub)                                                  \
	list_for_each_entry_rcu(sub, &shfs_subscriptions, node, true)

static inline bool shfs_watched(void)
{
	return !list_empty(&shfs_subscriptions);
}

static inline void shfs_enter(void)
{
	preempt_disable_notrace();
	rcu_read_lock();
}

static inline void shfs_leave(void)
{
	rcu_read_unlock();
	preempt_enable_notrace();
}

/* Do the credentials belong to the watched user? */
static inline bool shfs_is_of(const struct shfs_subscription *sub,
			      const struct cred *cred)
{
	return sub->all_users ||
	       (uid_eq(cred->uid, sub->uid) && uid_eq(cred->euid, sub->uid));
}

/*
 * Keeps the file until it is taken, or the subscription ends. 0: there are too many.
 */
u64 shfs_pin(struct shfs_subscription *sub, const struct path *path);

/* --- ring.c --- */

/* The ring of this CPU, which has room for a path. */
static inline struct shfs_ring *shfs_ring_here(const struct shfs_subscription *sub)
{
	return sub->rings[raw_smp_processor_id()];
}

/* Begins an event by taking its time. shfs_event_end must follow. */
void shfs_event_begin(struct shfs_ring *ring);

/*
 * Returns room for the event, with type, text lengths and time set; NULL: there
 * is none.
 */
struct shfs_event *shfs_event_make(struct shfs_subscription *sub, struct shfs_ring *ring,
				   u16 type, u32 len, u32 len2);

/* Ends an event; NULL if none was made. */
void shfs_event_end(struct shfs_subscription *sub, struct shfs_ring *ring,
		    struct shfs_event *event);

int shfs_rings_make(struct shfs_subscription *sub);
void shfs_rings_free(struct shfs_subscription *sub);
bool shfs_rings_want_reader(const struct shfs_subscription *sub);

/* Most texts are short: this is neither a call nor a string instruction. */
static inline void shfs_copy(char *to, const char *from, u32 len)
{
	for (; len >= sizeof(u64); len -= sizeof(u64)) {
		*(u64 *)to = *(const u64 *)from;
		to += sizeof(u64);
		from += sizeof(u64);
	}
	while (len--)
		*to++ = *from++;
}

/* --- path.c --- */

struct shfs_text {
	char *at; /* begins here, ends with the buffer */
	u32 len;
	bool cut;
	u64 dev; /* 0: the root's file system */
};

/* Finds the path below the root; false: the file is not below it. */
bool shfs_path(struct shfs_subscription *sub, struct dentry *dentry, char *buffer,
	       struct shfs_text *text);

/* --- process.c --- */

void shfs_fill_process(const struct shfs_subscription *sub,
		       struct shfs_event_process *process, struct task_struct *task);
int shfs_process_hook(void);
void shfs_process_unhook(void);

/* --- file.c --- */

void shfs_fill_file(const struct shfs_subscription *sub, struct shfs_event_file *file,
		    const struct inode *inode, const struct dentry *dentry, u64 dev);
void shfs_writers_free(struct shfs_subscription *sub);
int shfs_file_hook(void);
void shfs_file_unhook(void);

/* --- name.c --- */

u64 shfs_name_unseen(void);
int shfs_name_hook(void);
void shfs_name_unhook(void);

/* --- main.c --- */

struct shfs_ftrace {
	const char *name;
	struct ftrace_ops ops;
	bool on;
};

int shfs_ftrace_on(struct shfs_ftrace *ftrace, ftrace_func_t func);
void shfs_ftrace_off(struct shfs_ftrace *ftrace);

#endif
