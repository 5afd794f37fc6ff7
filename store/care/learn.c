/* SPDX-License-Identifier: MIT */
#include "store/care/learn.h"

#include "store/care/forget-choose.h"
#include "store/journal/journal.h"
#include "store/objects/object.h"
#include "store/objects/pruned.h"

#include <errno.h>
#include <string.h>

struct learned {
	struct shfs_object_id id;
	struct shfs_content content; /* as it is here: its fingerprint */
	bool came;
};

void learning_clear(struct learning *l)
{
	free(l->list);
	shfs_ids_free(&l->here);
	*l = (struct learning){ .store = l->store };
}

/* --- what the journal here has --- */

/* The paths that a record is about, as they were on its machine. */
struct about {
	struct shfs_buf path, path2;
};

static void about_clear(struct about *a)
{
	shfs_buf_free(&a->path);
	shfs_buf_free(&a->path2);
}
#define _cleanup_about_ _cleanup_(about_clear)

static int read_about(struct about *a, struct shfs_bytes root,
                      const struct shfs_record *rec)
{
	forget_read_paths(rec, root, &a->path, &a->path2);
	return a->path.failed || a->path2.failed ? -ENOMEM : 0;
}

static int64_t key_of(const struct shfs_buf *path, const struct shfs_content *c)
{
	return forget_key_of_content(forget_path_bytes(path), c);
}

static int note_here(struct learning *l, const struct about *a,
                     const struct shfs_content *c)
{
	int r = 0;

	if (c->flags & SHFS_CONTENT_OBJECT && a->path.len)
		r = shfs_ids_add(&l->here, key_of(&a->path, c));
	if (c->flags & SHFS_CONTENT_OBJECT && a->path2.len && !r)
		r = shfs_ids_add(&l->here, key_of(&a->path2, c));
	return r;
}

static int note_segment(const struct shfs_journal_file *file, void *arg)
{
	_cleanup_about_ struct about about = { 0 };
	struct shfs_segment *segment;
	struct shfs_content *contents[3];
	struct shfs_record rec;
	int r = shfs_segment_open(file->dirfd, file->name, 0, &segment);

	if (r) /* what cannot be read is in no index either */
		return r == -EBADMSG ? 0 : r == -ENOENT ? -EAGAIN : r;
	while ((r = shfs_segment_next(segment, &rec)) > 0) {
		r = read_about(&about, shfs_segment_producer(segment)->root, &rec);
		shfs_record_contents(&rec, contents);
		for (int i = 0; contents[i] && !r; i++)
			r = note_here(arg, &about, contents[i]);
		if (r)
			break;
	}
	shfs_segment_close(segment);
	return r;
}

static int load_here(struct learning *l)
{
	int r = l->has_here ? 0
	                    : shfs_journal_walk(l->store, SHFS_JOURNAL_SEGMENTS,
	                                        note_segment, l);

	if (!r && !l->has_here)
		shfs_ids_sort(&l->here);
	l->has_here = true;
	return r;
}

/* --- records --- */

static bool may_learn(const struct shfs_content *ours, const struct shfs_content *theirs)
{
	return ours->flags & theirs->flags & SHFS_CONTENT_KNOWN &&
	       !(ours->flags & SHFS_CONTENT_OBJECT) &&
	       theirs->flags & SHFS_CONTENT_OBJECT &&
	       !((ours->flags | theirs->flags) & SHFS_CONTENT_INCOMPLETE) &&
	       shfs_content_fingerprinted_alike(ours, theirs);
}

/* Takes the object of a content: 1, or 0. */
static int learn_content(struct learning *l, const struct about *a,
                         struct shfs_content *ours, const struct shfs_content *theirs)
{
	int r = load_here(l);

	if (r || shfs_ids_has(&l->here, key_of(&a->path, theirs)) ||
	    (a->path2.len && shfs_ids_has(&l->here, key_of(&a->path2, theirs))))
		return r;
	if (!MAKE_ROOM(l->list, l->n, l->cap))
		return -ENOMEM;
	l->list[l->n++] = (struct learned){ .id = theirs->object, .content = *ours };
	l->is_sorted = false;
	shfs_content_give_object(ours, &theirs->object);
	return 1;
}

int learning_record(struct learning *l, const struct shfs_rec_producer *producer,
                    struct shfs_record *ours, struct shfs_record *theirs)
{
	struct shfs_content *here[3], *there[3];
	_cleanup_about_ struct about about = { 0 };
	int r = ours->type == theirs->type ? read_about(&about, producer->root, ours) : 0;
	bool learned = false;

	if (r || ours->type != theirs->type)
		return r;
	shfs_record_contents(ours, here);
	shfs_record_contents(theirs, there);
	for (int i = 0; here[i] && there[i] && r >= 0; i++) {
		r = may_learn(here[i], there[i])
		            ? learn_content(l, &about, here[i], there[i])
		            : 0;
		learned |= r > 0;
	}
	return r < 0 ? r : learned;
}

/* --- objects --- */

static int compare_learned(const void *a, const void *b)
{
	return shfs_object_compare(&((const struct learned *)a)->id,
	                           &((const struct learned *)b)->id);
}

static void sort_learned(struct learning *l)
{
	if (!l->is_sorted && l->n)
		qsort(l->list, l->n, sizeof(*l->list), compare_learned);
	l->is_sorted = true;
}

static size_t first_of(struct learning *l, const struct shfs_object_id *id)
{
	size_t first = 0, end = l->n;

	sort_learned(l);
	while (first < end) {
		size_t middle = first + (end - first) / 2;

		if (shfs_object_compare(&l->list[middle].id, id) < 0)
			first = middle + 1;
		else
			end = middle;
	}
	return first;
}

static bool has_fingerprint(const void *data, size_t len, const struct shfs_content *c)
{
	struct shfs_content is = { .size = len };

	if (c->size != len)
		return false;
	shfs_object_fingerprint_mem(data, shfs_object_whole_max(c->flags), &is);
	return shfs_content_hashed_alike(is.flags, c->flags) && is.phash == c->phash;
}

int learning_object(struct learning *l, const struct shfs_object_id *id, const void *data,
                    size_t len)
{
	for (size_t i = first_of(l, id);
	     i < l->n && !shfs_object_compare(&l->list[i].id, id); i++) {
		if (!has_fingerprint(data, len, &l->list[i].content))
			return -EBADMSG;
		l->list[i].came = true;
	}
	return 0;
}

int learning_finish(struct learning *l, const struct shfs_objects *pruned,
                    uint64_t *completed)
{
	sort_learned(l);
	*completed = 0;
	for (size_t i = 0; i < l->n; i++)
		if (l->list[i].came)
			*completed += !i || compare_learned(&l->list[i - 1], &l->list[i]);
		else if (!shfs_objects_has(pruned, &l->list[i].id) &&
		         shfs_object_is_pruned(l->store, &l->list[i].id) <= 0)
			return -EBADMSG;
	return 0;
}
