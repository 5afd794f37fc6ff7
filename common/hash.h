/* SPDX-License-Identifier: MIT */
/* hash.h - uthash for those that outlive a lack of memory: an element that there is none
 * for is not added, and its hh.tbl is NULL then. */
#pragma once

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

/* Behind all others: of several, so that no memory is needed. */
#define SHFS_HASH_MOVE_LAST(head, field, len, element)                                   \
	do {                                                                             \
		unsigned was = (head)->hh.tbl->noexpand;                                 \
                                                                                         \
		HASH_DEL(head, element);                                                 \
		(head)->hh.tbl->noexpand = 1;                                            \
		HASH_ADD(hh, head, field, len, element);                                 \
		(head)->hh.tbl->noexpand = was;                                          \
	} while (0)
