// SPDX-License-Identifier: GPL-2.0-only
/*
 * the path of a file below the root of a subscription.
 *
 * Found by dentries alone, up to the root's own. So it is the same in every
 * mount namespace, and for a part of the root that is mounted elsewhere. The
 * walk also ends at the top of a file system that is mounted below the root:
 * the reader has given its dentry.
 */
#include <linux/dcache.h>
#include <linux/fs.h>
#include <linux/seqlock.h>

#include "shfs.h"

#define TRIES 8

static void put_name(struct shfs_text *text, const char *buffer, const char *name,
		     u32 len)
{
	if (text->cut || text->at - buffer <= len) {
		text->cut = true;
		return;
	}
	text->at -= len;
	text->len += len;
	/* a rename may change both: never copy more than there is */
	for (char *to = text->at; len && *name; len--)
		*to++ = *name++;
}

static void put_separator(struct shfs_text *text, const char *buffer)
{
	if (text->len)
		put_name(text, buffer, "/", 1);
}

static const struct shfs_mount *find_mount(const struct shfs_mounts *mounts,
					   const struct dentry *dentry)
{
	const struct shfs_mount *mount;
	const struct inode *inode;

	for (u32 i = 0; i < mounts->count; i++) {
		mount = &mounts->mount[i];
		if (mount->dentry != dentry || mount->sb != dentry->d_sb)
			continue;
		inode = d_inode_rcu(dentry);
		if (inode && inode->i_ino == mount->ino)
			return mount;
	}
	return NULL;
}

static bool walk_to_root(struct shfs_subscription *sub, const struct dentry *dentry,
			 char *buffer, struct shfs_text *text)
{
	const struct shfs_mounts *mounts = rcu_dereference(sub->mounts);
	const struct dentry *root = sub->root.dentry, *parent;
	const struct shfs_mount *mount;

	text->at = buffer + SHFS_EVENT_PATH_MAX;
	text->len = 0;
	text->cut = false;
	text->dev = 0;
	for (; dentry != root; dentry = parent) {
		if (mounts) {
			mount = find_mount(mounts, dentry);
			if (mount) {
				put_separator(text, buffer);
				put_name(text, buffer, mount->text, mount->len);
				text->dev = mount->dev;
				return true;
			}
		}
		parent = READ_ONCE(dentry->d_parent);
		if (parent == dentry)
			return false;
		put_separator(text, buffer);
		/* read the name before its length, as d_path() does */
		put_name(text, buffer, smp_load_acquire(&dentry->d_name.name),
			 READ_ONCE(dentry->d_name.len));
	}
	return true;
}

bool shfs_path(struct shfs_subscription *sub, struct dentry *dentry, char *buffer,
	       struct shfs_text *text)
{
	unsigned int seq, tries = TRIES;
	bool below;

	do {
		seq = read_seqbegin(&rename_lock);
		below = walk_to_root(sub, dentry, buffer, text);
	} while (read_seqretry(&rename_lock, seq) && --tries);
	return below;
}
