/* SPDX-License-Identifier: MIT */
#include "common/ids.h"

#include <errno.h>

int shfs_ids_add(struct shfs_ids *list, int64_t id)
{
	if (!MAKE_ROOM(list->ids, list->n, list->cap))
		return -ENOMEM;
	list->ids[list->n++] = id;
	return 0;
}

void shfs_ids_sort(struct shfs_ids *list)
{
	size_t n = 0;

	if (!list->n)
		return;
	qsort(list->ids, list->n, sizeof(*list->ids), shfs_compare_int64);
	for (size_t i = 0; i < list->n; i++)
		if (!n || list->ids[i] != list->ids[n - 1])
			list->ids[n++] = list->ids[i];
	list->n = n;
}

bool shfs_ids_has(const struct shfs_ids *list, int64_t id)
{
	return list->n &&
	       bsearch(&id, list->ids, list->n, sizeof(id), shfs_compare_int64);
}

bool shfs_ids_lists(const struct shfs_ids *list, int64_t id)
{
	for (size_t i = 0; i < list->n; i++)
		if (list->ids[i] == id)
			return true;
	return false;
}
