/* SPDX-License-Identifier: MIT */
/* id-table.h - a hash table from numbers, but 0, to pointers. {0} is empty. */
#pragma once

#include "common/util.h"

#include <errno.h>
#include <stdlib.h>

struct shfs_id_table {
	struct shfs_id_slot {
		int64_t id; /* 0: free */
		void *value;
	} * slots;
	size_t n;
	unsigned bits; /* the table has 2 to this power slots; 0: none */
};

static inline struct shfs_id_slot *shfs_id_table_slot(const struct shfs_id_table *t,
                                                      int64_t id)
{
	size_t mask = ((size_t)1 << t->bits) - 1;
	size_t at = (uint64_t)id * 0x9e3779b97f4a7c15 >> (64 - t->bits);

	while (t->slots[at].id && t->slots[at].id != id)
		at = (at + 1) & mask;
	return &t->slots[at];
}

static inline void *shfs_id_table_get(const struct shfs_id_table *t, int64_t id)
{
	return t->bits ? shfs_id_table_slot(t, id)->value : NULL;
}

static inline int shfs_id_table_grow(struct shfs_id_table *t)
{
	struct shfs_id_table more = { .n = t->n, .bits = t->bits ? t->bits + 1 : 4 };

	more.slots = calloc((size_t)1 << more.bits, sizeof(*more.slots));
	if (!more.slots)
		return -ENOMEM;
	for (size_t i = 0; t->bits && i < (size_t)1 << t->bits; i++)
		if (t->slots[i].id)
			*shfs_id_table_slot(&more, t->slots[i].id) = t->slots[i];
	free(t->slots);
	*t = more;
	return 0;
}

/* Adds an id that is not in the table. */
_must_check_ static inline int shfs_id_table_add(struct shfs_id_table *t, int64_t id,
                                                 void *value)
{
	int r = !t->bits || t->n >= (size_t)1 << (t->bits - 1) ? shfs_id_table_grow(t)
	                                                       : 0;

	if (r)
		return r;
	t->n++;
	*shfs_id_table_slot(t, id) = (struct shfs_id_slot){ id, value };
	return 0;
}

/* Frees the table and its values, which were malloc'ed. */
static inline void shfs_id_table_free_values(struct shfs_id_table *t)
{
	for (size_t i = 0; t->bits && i < (size_t)1 << t->bits; i++)
		free(t->slots[i].value);
	free(t->slots);
}
