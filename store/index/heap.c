/* SPDX-License-Identifier: MIT */
#include "store/index/heap.h"

#include <limits.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#define HEAP_BYTES ((size_t)256 << 20)
#define HUGE_BYTES ((size_t)2 << 20)
#define MMAP_BYTES (16 << 20) /* larger blocks would be mapped by themselves */

static bool allowed;

void shfs_heap_allow(void)
{
	allowed = true;
}

void shfs_heap_reserve(void)
{
	char *room;

	if (!allowed)
		return;
	allowed = false;
	if (!mallopt(M_TRIM_THRESHOLD, 2 * HEAP_BYTES)) /* another malloc is in use */
		return;
	mallopt(M_MMAP_MAX, 0); /* all blocks go to the heap, however large */
	room = malloc(HEAP_BYTES);
	if (room)
		madvise(room + (-(uintptr_t)room & (HUGE_BYTES - 1)),
		        HEAP_BYTES - HUGE_BYTES, MADV_HUGEPAGE);
	free(room);
	mallopt(M_MMAP_MAX, INT_MAX);
	mallopt(M_MMAP_THRESHOLD, MMAP_BYTES);
}
