/* SPDX-License-Identifier: MIT */
/*
 * Files with several names. A change of one name, or of the attributes, sets the ctime
 * that all names have. It is noted once, in the inode, and applied to a name when that is
 * next used: at the next record of its path, or before the commit. So a change costs the
 * same however many names there are.
 *
 * How a change applies to a name depends on the state of the name when the change was
 * noted. The name still has this state, as it was not used since.
 */
#include "store/index/internal.h"

#include <errno.h>
#include <utlist.h>

/* The identity of a file on a disk. */
struct inode_key {
	uint64_t dev, ino;
};

/* The latest ctime that the changes from number `at` on have set. */
struct ctime_set {
	uint64_t at;
	int64_t ns;
};

struct shfs_inode {
	struct inode_key key;
	UT_hash_handle hh;
	struct shfs_file **names; /* NULL: the name was removed */
	size_t n, cap, gone;
	bool sorted; /* by the id of the file */

	/* Changes, counted from 0 on; each name has the number of those applied to it.
	 * All are of one producer, which has lost nothing after lost_seq. */
	uint64_t changes;
	int64_t producer_id;
	uint64_t lost_seq;
	struct ctime_set *ctimes; /* only those that no later one exceeds */
	size_t n_ctimes, cap_ctimes;
	uint64_t times;      /* number of changes up to the last one of times */
	uint64_t attributes; /* and up to the last one of attributes, to those in now */
	struct shfs_content now;
	struct shfs_inode *prev, *next; /* inodes with changes */
};

/* --- changes --- */

static int64_t ctime_since(const struct shfs_inode *inode, uint64_t at)
{
	size_t low = 0, high = inode->n_ctimes;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (inode->ctimes[mid].at < at)
			low = mid + 1;
		else
			high = mid;
	}
	return low < inode->n_ctimes ? inode->ctimes[low].ns : INT64_MIN;
}

static int note_ctime(struct shfs_inode *inode, int64_t ns)
{
	while (inode->n_ctimes && inode->ctimes[inode->n_ctimes - 1].ns <= ns)
		inode->n_ctimes--;
	if (!MAKE_ROOM(inode->ctimes, inode->n_ctimes, inode->cap_ctimes))
		return -ENOMEM;
	inode->ctimes[inode->n_ctimes++] = (struct ctime_set){ inode->changes, ns };
	return 0;
}

int shfs_inode_settle(struct shfs_ingest *ing, struct shfs_file *f)
{
	const struct shfs_inode *inode = f->inode;
	uint64_t since = f->changes;
	struct shfs_inode_change change;

	if (!inode || since == inode->changes)
		return 0;
	f->changes = inode->changes;
	if (!f->present || f->known.by != inode->producer_id ||
	    f->known.seq <= inode->lost_seq || f->known.named)
		return 0;
	change = (struct shfs_inode_change){
		.ctime_ns = ctime_since(inode, since),
		.times = inode->times > since,
		.now = inode->attributes > since ? &inode->now : NULL,
	};
	return shfs_version_change(ing, f, &change);
}

static int settle_names(struct shfs_ingest *ing, struct shfs_inode *inode)
{
	int r = 0;

	for (size_t i = 0; i < inode->n && !r; i++)
		if (inode->names[i])
			r = shfs_inode_settle(ing, inode->names[i]);
	if (r || !inode->changes)
		return r;
	for (size_t i = 0; i < inode->n; i++)
		if (inode->names[i])
			inode->names[i]->changes = 0;
	inode->changes = inode->times = inode->attributes = 0;
	inode->n_ctimes = 0;
	DL_DELETE(ing->changed_inodes, inode);
	return 0;
}

int shfs_inodes_settle(struct shfs_ingest *ing)
{
	int r = 0;

	while (ing->changed_inodes && !r)
		r = settle_names(ing, ing->changed_inodes);
	return r;
}

/* Can this change be applied together with those that were noted before it? */
static bool goes_with(const struct shfs_ingest *ing, const struct shfs_inode *inode,
                      const struct shfs_inode_change *change)
{
	return inode->producer_id == ing->producer.id &&
	       inode->lost_seq == ing->producer.lost_seq &&
	       (!change->now || !inode->attributes ||
	        inode->now.size == change->now->size);
}

int shfs_inode_note(struct shfs_ingest *ing, struct shfs_file *f,
                    const struct shfs_inode_change *change)
{
	struct shfs_inode *inode;
	int r = f->ino ? shfs_inode_of(ing, f) : 0;

	inode = f->inode;
	if (r || !inode)
		return r;
	if (inode->changes && !goes_with(ing, inode, change))
		r = settle_names(ing, inode);
	if (!r && change->ctime_ns != INT64_MIN)
		r = note_ctime(inode, change->ctime_ns);
	if (r)
		return r;
	if (!inode->changes++)
		DL_APPEND(ing->changed_inodes, inode);
	inode->producer_id = ing->producer.id;
	inode->lost_seq = ing->producer.lost_seq;
	if (change->times)
		inode->times = inode->changes;
	if (change->now) {
		inode->attributes = inode->changes;
		inode->now = *change->now;
	}
	f->changes = inode->changes;
	return 0;
}

/* --- names --- */

static int inode_add_name(struct shfs_inode *inode, struct shfs_file *f)
{
	const struct shfs_file *last = inode->n ? inode->names[inode->n - 1] : NULL;

	if (!MAKE_ROOM(inode->names, inode->n, inode->cap))
		return -ENOMEM;
	inode->sorted = inode->sorted && (!inode->n || (last && last->id < f->id));
	f->inode = inode;
	f->inode_at = inode->n;
	f->changes = inode->changes;
	inode->names[inode->n++] = f;
	return 0;
}

/* Closes the gaps that names have left. */
static void close_gaps(struct shfs_inode *inode)
{
	size_t n = 0;

	for (size_t i = 0; i < inode->n; i++) {
		if (!inode->names[i])
			continue;
		inode->names[i]->inode_at = n;
		inode->names[n++] = inode->names[i];
	}
	inode->n = n;
	inode->gone = 0;
}

static int load_names(struct shfs_ingest *ing, struct shfs_inode *inode)
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	int r = shfs_sql_get(ing->index, &stmt,
	                     "SELECT d.path || '/' || f.name FROM file f"
	                     " JOIN directory d USING (directory_id)"
	                     " WHERE f.ino = ?",
	                     shfs_arg_int((int64_t)inode->key.ino));

	for (; r > 0; r = shfs_sql_next(ing->index, stmt)) {
		struct shfs_bytes path = { (const char *)sqlite3_column_text(stmt, 0),
			                   sqlite3_column_bytes(stmt, 0) };
		struct shfs_file *f;

		r = shfs_file_get(ing, path, &f);
		if (!r && f->ino == inode->key.ino && f->dev == inode->key.dev)
			r = inode_add_name(inode, f);
		if (r)
			return r;
	}
	return r;
}

static void inode_drop(struct shfs_ingest *ing, struct shfs_inode *inode)
{
	for (size_t i = 0; i < inode->n; i++)
		if (inode->names[i])
			inode->names[i]->inode = NULL;
	if (inode->changes)
		DL_DELETE(ing->changed_inodes, inode);
	HASH_DEL(ing->inodes, inode);
	free(inode->names);
	free(inode->ctimes);
	free(inode);
}

static int inode_get(struct shfs_ingest *ing, uint64_t dev, uint64_t ino,
                     struct shfs_inode **out)
{
	struct inode_key key = { dev, ino };
	struct shfs_inode *inode;
	int r;

	HASH_FIND(hh, ing->inodes, &key, sizeof(key), inode);
	*out = inode;
	if (inode)
		return 0;
	inode = calloc(1, sizeof(*inode));
	if (!inode)
		return -ENOMEM;
	inode->key = key;
	inode->sorted = true;
	HASH_ADD(hh, ing->inodes, key, sizeof(inode->key), inode);
	if (!inode->hh.tbl) {
		free(inode);
		return -ENOMEM;
	}
	r = load_names(ing, inode);
	if (r)
		inode_drop(ing, inode);
	else
		*out = inode;
	return r;
}

int shfs_inode_of(struct shfs_ingest *ing, struct shfs_file *f)
{
	struct shfs_inode *inode;
	int r = f->inode ? 0 : inode_get(ing, f->dev, f->ino, &inode);

	/* it is among the names of the table, or became one since */
	return r || f->inode ? r : inode_add_name(inode, f);
}

int shfs_inode_leave(struct shfs_ingest *ing, struct shfs_file *f)
{
	struct shfs_inode *inode = f->inode;
	int r = shfs_inode_settle(ing, f);

	if (r || !inode)
		return r;
	inode->names[f->inode_at] = NULL;
	f->inode = NULL;
	if (++inode->gone == inode->n)
		inode_drop(ing, inode);
	else if (inode->gone > inode->n / 2)
		close_gaps(inode);
	return 0;
}

static int compare_id(const void *a, const void *b)
{
	const struct shfs_file *const *x = a, *const *y = b;

	return ((*x)->id > (*y)->id) - ((*x)->id < (*y)->id);
}

int shfs_inode_names(struct shfs_ingest *ing, struct shfs_file *f,
                     struct shfs_file *const **list, size_t *n)
{
	struct shfs_inode *inode;
	int r = f->ino ? shfs_inode_of(ing, f) : 0;

	*n = 0;
	inode = f->inode;
	if (r || !inode)
		return r;
	if (!inode->sorted) {
		close_gaps(inode);
		qsort(inode->names, inode->n, sizeof(struct shfs_file *), compare_id);
		close_gaps(inode);
		inode->sorted = true;
	}
	*list = inode->names;
	*n = inode->n;
	return 0;
}

void shfs_inode_forget(struct shfs_ingest *ing, struct shfs_file *f)
{
	if (f->inode)
		inode_drop(ing, f->inode);
}

void shfs_inodes_forget(struct shfs_ingest *ing)
{
	struct shfs_inode *inode, *next;

	HASH_ITER (hh, ing->inodes, inode, next)
		inode_drop(ing, inode);
}
