// SPDX-License-Identifier: GPL-2.0-only
/*
 * changes of names and attributes: reported once they have succeeded, with the
 * names from before. Each call is followed from its begin to its end; one of a
 * fixed number of slots keeps the event in the meantime.
 */
#include <linux/bitmap.h>
#include <linux/dcache.h>
#include <linux/fs.h>
#include <linux/posix_acl.h>
#include <linux/vmalloc.h>
#include <linux/xattr.h>

#include "shfs.h"

#define CHANGES 128
#define CALLS_MAX 128 /* followed at once, of one kind */

struct change {
	struct change *next; /* of the same call, for another subscription */
	u64 serial; /* of the subscription */
	struct dentry *dentry; /* held by the traced function's caller */
	u16 type;
	u32 flags, len, len2;
	u64 other;
	struct shfs_event_file file;
	char text[2 * SHFS_EVENT_PATH_MAX];
};

struct call {
	struct change *first;
};

static struct change *changes;
static DECLARE_BITMAP(changes_used, CHANGES);
static atomic64_t no_room;

/* --- before the call: the event --- */

static struct change *get_change(void)
{
	unsigned long i;

	do {
		i = find_first_zero_bit(changes_used, CHANGES);
		if (i >= CHANGES) {
			atomic64_inc(&no_room);
			return NULL;
		}
	} while (test_and_set_bit_lock(i, changes_used));
	return &changes[i];
}

static void put_change(struct change *change)
{
	clear_bit_unlock(change - changes, changes_used);
}

/* Adds a path to the change, and returns its length; 0: not below the root. */
static u32 add_change_path(struct shfs_subscription *sub, struct change *change,
			   struct dentry *dentry, bool *below)
{
	struct shfs_text text;
	u32 room = sizeof(change->text) - change->len;

	if (!dentry || !shfs_path(sub, dentry, shfs_ring_here(sub)->text, &text))
		return 0;
	*below = true;
	change->file.dev = text.dev;
	if (text.cut)
		change->flags |= SHFS_EVENT_CUT;
	text.len = min(text.len, room);
	memcpy(change->text + change->len, text.at, text.len);
	return text.len;
}

static u32 add_change_string(struct change *change, const char *string)
{
	u32 len = strnlen(string, SHFS_EVENT_PATH_MAX);

	memcpy(change->text + change->len, string, len);
	return len;
}

struct what {
	u16 type;
	u32 flags;
	struct dentry *dentry; /* the file of the event */
	struct dentry *name, *name2; /* text, text2; NULL: none */
	const char *string; /* text2 */
	u64 other; /* inode number of the other file of an exchange */
};

static struct change *make_change(struct shfs_subscription *sub, const struct what *what)
{
	struct change *change = get_change();
	const struct inode *inode = d_inode_rcu(what->dentry);
	bool below = false;
	u64 dev;

	if (!change)
		return NULL;
	change->serial = sub->serial;
	change->dentry = what->dentry;
	change->type = what->type;
	change->flags = what->flags;
	change->other = what->other;
	change->len = 0;
	change->len2 = 0;
	memset(&change->file, 0, sizeof(change->file));
	change->len = add_change_path(sub, change, what->name, &below);
	if (what->name2)
		change->len2 = add_change_path(sub, change, what->name2, &below);
	else if (what->string)
		change->len2 = add_change_string(change, what->string);
	if (!below) {
		put_change(change);
		return NULL;
	}
	dev = change->file.dev;
	if (inode)
		shfs_fill_file(sub, &change->file, inode, what->dentry, dev);
	return change;
}

/* Returns as an entry handler does: 1 if there is nothing to wait for. */
static int begin_call(struct kretprobe_instance *instance, const struct what *what)
{
	struct call *call = (struct call *)instance->data;
	struct shfs_subscription *sub;
	struct change *change;

	call->first = NULL;
	if (!shfs_watched())
		return 1;
	shfs_enter();
	shfs_for_each_subscription(sub) {
		if (!shfs_is_of(sub, current_cred()))
			continue;
		change = make_change(sub, what);
		if (change) {
			change->next = call->first;
			call->first = change;
		}
	}
	shfs_leave();
	return call->first ? 0 : 1;
}

/* --- after the call: the report --- */

static void finish_file(struct shfs_subscription *sub, struct change *change)
{
	const struct inode *inode = d_inode_rcu(change->dentry);

	if (change->type == SHFS_EVENT_UNLINK) {
		if (S_ISDIR(change->file.mode))
			change->file.nlink = 0;
		else if (change->file.nlink)
			change->file.nlink--;
	} else if (inode) {
		shfs_fill_file(sub, &change->file, inode, change->dentry,
			       change->file.dev);
	}
	if (S_ISDIR(change->file.mode))
		change->flags |= SHFS_EVENT_DIRECTORY_FILE;
}

static void report_change(struct shfs_subscription *sub, struct change *change)
{
	struct shfs_ring *ring = shfs_ring_here(sub);
	struct shfs_event *event;

	finish_file(sub, change);
	change->file.id = change->other;
	shfs_event_begin(ring);
	event = shfs_event_make(sub, ring, change->type, change->len, change->len2);
	if (event) {
		event->flags = change->flags;
		shfs_fill_process(sub, &event->process, current);
		event->file = change->file;
		shfs_copy(event->text, change->text, change->len + change->len2);
	}
	shfs_event_end(sub, ring, event);
}

static void end_call(struct kretprobe_instance *instance, bool done)
{
	struct call *call = (struct call *)instance->data;
	struct change *change, *next;
	struct shfs_subscription *sub;

	shfs_enter();
	for (change = call->first; change; change = next) {
		next = change->next;
		shfs_for_each_subscription(sub)
			if (done && sub->serial == change->serial)
				report_change(sub, change);
		put_change(change);
	}
	shfs_leave();
}

static int after(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	end_call(instance, (int)regs_return_value(regs) == 0);
	return 0;
}

static int after_mkdir(struct kretprobe_instance *instance, struct pt_regs *regs)
{
#if SHFS_MKDIR_RETURNS_DENTRY
	end_call(instance, !IS_ERR((void *)regs_return_value(regs)));
	return 0;
#else
	return after(instance, regs);
#endif
}

/* --- calls that are followed --- */

#define ARGUMENT(type, n) ((type)regs_get_kernel_argument(regs, n))

static int enter_rename(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	struct what what = {.type = SHFS_EVENT_RENAME};
	struct dentry *from, *to;
	unsigned int flags;

#if SHFS_RENAMEDATA
	struct renamedata *data = ARGUMENT(struct renamedata *, 0);

	from = data->old_dentry;
	to = data->new_dentry;
	flags = data->flags;
#else
	from = ARGUMENT(struct dentry *, 1);
	to = ARGUMENT(struct dentry *, 3);
	flags = ARGUMENT(unsigned int, 5);
#endif
	/* two names of one file: the call changes nothing */
	if (d_inode(from) == d_inode(to))
		return 1;
	if (flags & RENAME_EXCHANGE) {
		what.flags = SHFS_EVENT_EXCHANGED;
		what.other = d_is_positive(to) ? d_inode(to)->i_ino : 0;
	} else if (d_is_positive(to)) {
		what.flags = SHFS_EVENT_REPLACED;
	}
	what.dentry = from;
	what.name = from;
	what.name2 = to;
	return begin_call(instance, &what);
}

static int enter_link(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	struct dentry *from = ARGUMENT(struct dentry *, 0);
	struct dentry *to = ARGUMENT(struct dentry *, 2 + SHFS_IDMAP);
	struct what what = {
		.type = SHFS_EVENT_LINK,
		.dentry = to,
		/* the dentry of a temporary file has a number for a name */
		.name = d_inode(from)->i_nlink ? from : NULL,
		.name2 = to,
	};

	return begin_call(instance, &what);
}

static int enter_unlink(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	struct dentry *dentry = ARGUMENT(struct dentry *, 1 + SHFS_IDMAP);
	struct what what = {
		.type = SHFS_EVENT_UNLINK,
		.dentry = dentry,
		.name = dentry,
	};

	return begin_call(instance, &what);
}

static int begin_make(struct kretprobe_instance *instance, struct dentry *dentry,
		      const char *string)
{
	struct what what = {
		.type = SHFS_EVENT_MAKE,
		.dentry = dentry,
		.name = dentry,
		.string = string,
	};

	return begin_call(instance, &what);
}

static int enter_make(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	return begin_make(instance, ARGUMENT(struct dentry *, 1 + SHFS_IDMAP), NULL);
}

static int enter_create(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	return begin_make(instance, ARGUMENT(struct dentry *, SHFS_CREATE_DENTRY), NULL);
}

static int enter_symlink(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	return begin_make(instance, ARGUMENT(struct dentry *, 1 + SHFS_IDMAP),
			  ARGUMENT(const char *, 2 + SHFS_IDMAP));
}

/* truncate(2); the truncation of an open file is in file.c. */
static int enter_truncate(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	struct dentry *dentry = ARGUMENT(struct dentry *, SHFS_IDMAP);
	struct what what = {
		.type = SHFS_EVENT_TRUNCATE,
		.dentry = dentry,
		.name = dentry,
	};

	if (ARGUMENT(struct file *, 3 + SHFS_IDMAP))
		return 1;
	return begin_call(instance, &what);
}

static int enter_setattr(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	struct dentry *dentry = ARGUMENT(struct dentry *, SHFS_IDMAP);
	unsigned int set = ARGUMENT(struct iattr *, 1 + SHFS_IDMAP)->ia_valid;
	struct what what = {
		.type = SHFS_EVENT_CHANGE,
		.dentry = dentry,
		.name = dentry,
	};

	if ((set & ATTR_SIZE) ||
	    !(set & (ATTR_MODE | ATTR_UID | ATTR_GID | ATTR_ATIME | ATTR_MTIME)))
		return 1;
	return begin_call(instance, &what);
}

/* Extended attributes, and access control lists. */
static int enter_xattr(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	struct dentry *dentry = ARGUMENT(struct dentry *, SHFS_IDMAP);
	struct what what = {
		.type = SHFS_EVENT_CHANGE,
		.dentry = dentry,
		.name = dentry,
	};

	return begin_call(instance, &what);
}

/*
 * Reports a directory that was removed. Some kernels (5.10) inline vfs_rmdir,
 * so that it cannot be followed.
 */
static void notrace on_delete(unsigned long ip, unsigned long parent_ip,
			      struct ftrace_ops *op, struct ftrace_regs *regs)
{
	struct dentry *dentry = (struct dentry *)shfs_ftrace_argument(regs, 0);
	const struct inode *inode = d_inode_rcu(dentry);
	struct what what = {
		.type = SHFS_EVENT_UNLINK,
		.dentry = dentry,
		.name = dentry,
	};
	struct shfs_subscription *sub;
	struct change *change;

	if (!inode || !S_ISDIR(inode->i_mode) || !IS_DEADDIR(inode) || !shfs_watched())
		return;
	shfs_enter();
	shfs_for_each_subscription(sub) {
		if (!shfs_is_of(sub, current_cred()))
			continue;
		change = make_change(sub, &what);
		if (!change)
			continue;
		report_change(sub, change);
		put_change(change);
	}
	shfs_leave();
}

#define FOLLOW(symbol, entry, exit)                                                      \
	{                                                                                \
		.kp.symbol_name = symbol, .entry_handler = entry, .handler = exit,       \
		.data_size = sizeof(struct call), .maxactive = CALLS_MAX,                \
	}

#if SHFS_RENAMEDATA
SHFS_PROTOTYPE(vfs_rename, int, struct renamedata *);
#else
SHFS_PROTOTYPE(vfs_rename, int, struct inode *, struct dentry *, struct inode *,
	       struct dentry *, struct inode **, unsigned int);
#endif
SHFS_PROTOTYPE(vfs_link, int, struct dentry *, SHFS_IDMAP_ARGUMENT struct inode *,
	       struct dentry *, SHFS_DELEGATED_ARGUMENT);
SHFS_PROTOTYPE(vfs_unlink, int, SHFS_IDMAP_ARGUMENT struct inode *, struct dentry *,
	       SHFS_DELEGATED_ARGUMENT);
#if SHFS_MKDIR_RETURNS_DENTRY
SHFS_PROTOTYPE(vfs_mkdir, struct dentry *, SHFS_IDMAP_ARGUMENT struct inode *,
	       struct dentry *, umode_t SHFS_DELEGATED_DIRECTORY);
#else
SHFS_PROTOTYPE(vfs_mkdir, int, SHFS_IDMAP_ARGUMENT struct inode *, struct dentry *,
	       umode_t);
#endif
SHFS_PROTOTYPE(vfs_mknod, int, SHFS_IDMAP_ARGUMENT struct inode *, struct dentry *,
	       umode_t, dev_t SHFS_DELEGATED_DIRECTORY);
#if SHFS_KERNEL(6, 19)
SHFS_PROTOTYPE(vfs_create, int, SHFS_IDMAP_ARGUMENT struct dentry *,
	       umode_t SHFS_DELEGATED_DIRECTORY);
#else
SHFS_PROTOTYPE(vfs_create, int, SHFS_IDMAP_ARGUMENT struct inode *, struct dentry *,
	       umode_t, bool);
#endif
SHFS_PROTOTYPE(vfs_symlink, int, SHFS_IDMAP_ARGUMENT struct inode *, struct dentry *,
	       const char *SHFS_DELEGATED_DIRECTORY);
SHFS_PROTOTYPE(do_truncate, int, SHFS_IDMAP_ARGUMENT struct dentry *, loff_t,
	       unsigned int, struct file *);
SHFS_PROTOTYPE(notify_change, int, SHFS_IDMAP_ARGUMENT struct dentry *, struct iattr *,
	       SHFS_DELEGATED_ARGUMENT);
SHFS_PROTOTYPE(vfs_setxattr, int, SHFS_IDMAP_ARGUMENT struct dentry *, const char *,
	       SHFS_XATTR_VALUE, size_t, int);
SHFS_PROTOTYPE(vfs_removexattr, int, SHFS_IDMAP_ARGUMENT struct dentry *, const char *);
#if SHFS_SETS_ACL
SHFS_PROTOTYPE(vfs_set_acl, int, SHFS_IDMAP_ARGUMENT struct dentry *, const char *,
	       struct posix_acl *);
SHFS_PROTOTYPE(vfs_remove_acl, int, SHFS_IDMAP_ARGUMENT struct dentry *, const char *);
#endif

static struct kretprobe follow[] = {
	FOLLOW("vfs_rename", enter_rename, after),
	FOLLOW("vfs_link", enter_link, after),
	FOLLOW("vfs_unlink", enter_unlink, after),
	FOLLOW("vfs_mkdir", enter_make, after_mkdir),
	FOLLOW("vfs_mknod", enter_make, after),
	FOLLOW("vfs_create", enter_create, after),
	FOLLOW("vfs_symlink", enter_symlink, after),
	FOLLOW("do_truncate", enter_truncate, after),
	FOLLOW("notify_change", enter_setattr, after),
	FOLLOW("vfs_setxattr", enter_xattr, after),
	FOLLOW("vfs_removexattr", enter_xattr, after),
#if SHFS_SETS_ACL
	FOLLOW("vfs_set_acl", enter_xattr, after),
	FOLLOW("vfs_remove_acl", enter_xattr, after),
#endif
};

static struct shfs_ftrace delete_hook = {.name = "d_delete"};

static struct kretprobe *followed[ARRAY_SIZE(follow)];
static int followed_count;

u64 shfs_name_unseen(void)
{
	u64 unseen = atomic64_read(&no_room);

	for (int i = 0; i < followed_count; i++)
		unseen += followed[i]->nmissed;
	return unseen;
}

int shfs_name_hook(void)
{
	int r;

	changes = vmalloc(array_size(CHANGES, sizeof(*changes)));
	if (!changes)
		return -ENOMEM;
	for (int i = 0; i < ARRAY_SIZE(follow); i++) {
		r = register_kretprobe(&follow[i]);
		if (r) {
			pr_err("cannot follow %s: %d\n", follow[i].kp.symbol_name, r);
			return r;
		}
		followed[followed_count++] = &follow[i];
	}
	return shfs_ftrace_on(&delete_hook, on_delete);
}

void shfs_name_unhook(void)
{
	shfs_ftrace_off(&delete_hook);
	unregister_kretprobes(followed, followed_count);
	followed_count = 0;
	vfree(changes);
}
