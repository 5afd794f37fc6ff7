/* SPDX-License-Identifier: MIT */
/*
 * heap.h - room for the heap of a process that looks things up all over its memory.
 */
#pragma once

/*
 * Reserves room for the heap in huge pages, if the kernel has them on request: an ingest
 * of many records, or a walk over the whole index, would spend a fourth of its time on
 * address translation. A question that is answered in milliseconds would spend them on
 * clearing these pages instead, so this is called where it is known that there is much to
 * do. Does nothing when called again, and in a process that has not allowed it.
 */
void shfs_heap_reserve(void);
/* Allows it: this is a process for one question, of one thread. */
void shfs_heap_allow(void);
