/* SPDX-License-Identifier: MIT */
#include "store/objects/objects.h"

#include "common/util.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int shfs_object_compare(const void *a, const void *b)
{
	const struct shfs_object_id *x = a, *y = b;
	int c = memcmp(x->hash, y->hash, sizeof(x->hash));

	return c ? c : (x->nth > y->nth) - (x->nth < y->nth);
}

int shfs_objects_add(struct shfs_objects *o, const struct shfs_object_id *id)
{
	if (!MAKE_ROOM(o->ids, o->n, o->cap))
		return -ENOMEM;
	o->ids[o->n++] = *id;
	return 0;
}

int shfs_objects_add_of(struct shfs_objects *o, struct shfs_record *rec)
{
	struct shfs_content *contents[3];
	int r = 0;

	shfs_record_contents(rec, contents);
	for (int i = 0; contents[i] && !r; i++)
		if (contents[i]->flags & SHFS_CONTENT_OBJECT)
			r = shfs_objects_add(o, &contents[i]->object);
	return r;
}

void shfs_objects_sort(struct shfs_objects *o)
{
	size_t n = 0;

	if (!o->n)
		return;
	qsort(o->ids, o->n, sizeof(*o->ids), shfs_object_compare);
	for (size_t i = 0; i < o->n; i++)
		if (!n || shfs_object_compare(&o->ids[i], &o->ids[n - 1]))
			o->ids[n++] = o->ids[i];
	o->n = n;
}

size_t shfs_objects_find(const struct shfs_objects *o, const struct shfs_object_id *id)
{
	const struct shfs_object_id *found =
		o->n ? bsearch(id, o->ids, o->n, sizeof(*id), shfs_object_compare) : NULL;

	return found ? (size_t)(found - o->ids) : SIZE_MAX;
}

bool shfs_objects_has(const struct shfs_objects *o, const struct shfs_object_id *id)
{
	return shfs_objects_find(o, id) != SIZE_MAX;
}

void shfs_objects_free(struct shfs_objects *o)
{
	free(o->ids);
	*o = (struct shfs_objects){ 0 };
}
