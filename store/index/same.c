/* SPDX-License-Identifier: MIT */
/* Whether two contents are the same, and whether a file holds one still. */
#include "store/index/internal.h"

#include <string.h>

static bool same_object(const struct shfs_content *a, const struct shfs_content *b)
{
	return !memcmp(a->object.hash, b->object.hash, sizeof(a->object.hash)) &&
	       a->object.nth == b->object.nth;
}

/* Compares the low bits only: the index does not store the whole hash. */
bool shfs_same_phash(const struct shfs_content *a, const struct shfs_content *b)
{
	return shfs_phash_kept(a->phash) == shfs_phash_kept(b->phash);
}

/* Are these the same snapshot in two records? Only then are incomplete contents equal, as
 * it is not known what the file held. It may have got another name in between. */
bool shfs_same_capture(const struct shfs_content *a, const struct shfs_content *b)
{
	return !((a->flags ^ b->flags) & ~SHFS_CONTENT_LINKED) && a->size == b->size &&
	       a->mtime_ns == b->mtime_ns && a->ctime_ns == b->ctime_ns &&
	       shfs_same_phash(a, b) && same_object(a, b);
}

/* May the contents be the same, by the hashes that both have? */
static bool may_be_same(const struct shfs_content *a, const struct shfs_content *b)
{
	return !shfs_content_hashed_alike(a->flags, b->flags) || shfs_same_phash(a, b);
}

/*
 * Is the file unchanged? Any change sets the ctime, also one that sets the mtime back. So
 * a file is unchanged if its ctime is one that it had while it was known to hold this
 * content: that of the version, or one that recorded changes of its names and attributes
 * have set.
 */
bool shfs_file_is_same_by_times(const struct shfs_file *f, const struct shfs_content *c)
{
	const struct shfs_sighting *k = &f->known;

	if (c->ctime_ns == f->content.ctime_ns && c->mtime_ns == f->content.mtime_ns)
		return true;
	return c->ctime_ns >= k->ctime_first_ns && c->ctime_ns <= k->ctime_last_ns &&
	       (k->touched || c->mtime_ns == k->mtime_ns);
}

/* Is this certainly the content of the file's latest version? */
bool shfs_file_holds(const struct shfs_file *f, const struct shfs_content *c)
{
	const struct shfs_content *now = &f->content;

	if (!f->versions)
		return false;
	if (shfs_same_capture(now, c))
		return true;
	if (!shfs_is_complete(now) || !shfs_is_complete(c))
		return false;
	if (now->flags & c->flags & SHFS_CONTENT_OBJECT)
		return same_object(now, c);
	return now->size == c->size && may_be_same(now, c) &&
	       shfs_file_is_same_by_times(f, c);
}

/* Has a write left the content as it was? Only the bytes decide. */
bool shfs_file_left_the_same(const struct shfs_file *f, const struct shfs_content *c)
{
	const struct shfs_content *now = &f->content;

	if (!f->versions)
		return false;
	return shfs_same_capture(now, c) ||
	       (shfs_is_complete(now) && shfs_is_complete(c) &&
	        (now->flags & c->flags & SHFS_CONTENT_OBJECT) && same_object(now, c));
}
