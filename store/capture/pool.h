/* SPDX-License-Identifier: MIT */
/*
 * pool.h - memory for the bytes of files that are read. Thread-safe.
 *
 * In the heap, large contents of all sizes that come and go leave holes that no other
 * fits: it would grow to several times what they need together. So each has a mapping of
 * its own here. A few that are free are kept for the next files, as to fault in new pages
 * takes about as long as to read and hash what they hold.
 */
#pragma once

#include <stddef.h>

struct pool;

struct pool *pool_new(void); /* NULL: no memory */
/* Called when all is given back. NULL is fine. */
void pool_free(struct pool *pool);

/* Returns a block of at least `size` bytes, and its size, to be given back with that;
 * NULL: no memory. */
char *pool_take(struct pool *pool, size_t size, size_t *room);
void pool_give(struct pool *pool, char *block, size_t room); /* NULL is fine */

/* Gives what is free back to the system. */
void pool_trim(struct pool *pool);
