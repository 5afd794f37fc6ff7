/* SPDX-License-Identifier: MIT */
/* hash.h - uthash that survives a lack of memory: then an element is not added, and its
 * hh.tbl is NULL. */
#pragma once

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

/* Moves an element behind all others. There must be several: so no memory is needed. */
#define SHFS_HASH_MOVE_LAST(head, field, len, element)                                   \
	do {                                                                             \
		unsigned was = (head)->hh.tbl->noexpand;                                 \
                                                                                         \
		HASH_DEL(head, element);                                                 \
		(head)->hh.tbl->noexpand = 1;                                            \
		HASH_ADD(hh, head, field, len, element);                                 \
		(head)->hh.tbl->noexpand = was;                                          \
	} while (0)
