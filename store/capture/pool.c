/* SPDX-License-Identifier: MIT */
/* Memory for the bytes of files that are read: large blocks are mapped, and used again.
 */
#include "store/capture/pool.h"

#include "common/util.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

#define LARGE_BYTES ((size_t)512 << 10) /* a smaller block is of the heap */
#define STEP_BYTES  ((size_t)256 << 10)
#define HUGE_BYTES  ((size_t)2 << 20) /* a page of this size takes one fault */
#define KEPT_BYTES  ((size_t)24 << 20)
#define KEPT_MAX    16
#define WASTE_MAX   4 /* times the size that is asked for */

struct pool {
	pthread_mutex_t lock;
	struct kept {
		char *block;
		size_t room;
	} kept[KEPT_MAX]; /* the longest unused first */
	unsigned n;
	size_t bytes;
};

struct pool *pool_new(void)
{
	struct pool *p = calloc(1, sizeof(*p));

	if (p)
		pthread_mutex_init(&p->lock, NULL);
	return p;
}

/* Lock held. */
static struct kept take_kept(struct pool *p, unsigned at)
{
	struct kept taken = p->kept[at];

	p->n--;
	p->bytes -= taken.room;
	for (unsigned i = at; i < p->n; i++)
		p->kept[i] = p->kept[i + 1];
	return taken;
}

/* Lock held. Returns the smallest kept block that fits; NULL: there is none. */
static char *find_kept(struct pool *p, size_t size, size_t *room)
{
	struct kept taken;
	unsigned best = p->n;

	for (unsigned i = 0; i < p->n; i++)
		if (p->kept[i].room >= size && p->kept[i].room / WASTE_MAX <= size &&
		    (best == p->n || p->kept[i].room < p->kept[best].room))
			best = i;
	if (best == p->n)
		return NULL;
	taken = take_kept(p, best);
	*room = taken.room;
	return taken.block;
}

static char *map_block(size_t size, size_t *room)
{
	size_t rounded = (size + STEP_BYTES - 1) / STEP_BYTES * STEP_BYTES;
	char *block = rounded < size ? MAP_FAILED
	                             : mmap(NULL, rounded, PROT_READ | PROT_WRITE,
	                                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (block == MAP_FAILED)
		return NULL;
	if (size >= HUGE_BYTES)
		(void)!madvise(block, rounded, MADV_HUGEPAGE);
	*room = rounded;
	return block;
}

char *pool_take(struct pool *p, size_t size, size_t *room)
{
	char *block;

	if (size < LARGE_BYTES) {
		*room = MAX(size, (size_t)1);
		return malloc(*room);
	}
	pthread_mutex_lock(&p->lock);
	block = find_kept(p, size, room);
	pthread_mutex_unlock(&p->lock);
	return block ? block : map_block(size, room);
}

/* Lock held. Removes the longest unused blocks until there is room for one of this size.
 */
static unsigned make_room(struct pool *p, size_t room, struct kept out[static KEPT_MAX])
{
	unsigned n = 0;

	while (p->n && (p->n == KEPT_MAX || p->bytes + room > KEPT_BYTES))
		out[n++] = take_kept(p, 0);
	return n;
}

static void unmap_blocks(const struct kept *blocks, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		munmap(blocks[i].block, blocks[i].room);
}

void pool_give(struct pool *p, char *block, size_t room)
{
	struct kept out[KEPT_MAX];
	unsigned n;

	if (!block || room < LARGE_BYTES) {
		free(block);
		return;
	}
	if (room > KEPT_BYTES) {
		munmap(block, room);
		return;
	}
	pthread_mutex_lock(&p->lock);
	n = make_room(p, room, out);
	p->kept[p->n++] = (struct kept){ block, room };
	p->bytes += room;
	pthread_mutex_unlock(&p->lock);
	unmap_blocks(out, n);
}

void pool_trim(struct pool *p)
{
	struct kept out[KEPT_MAX];
	unsigned n;

	pthread_mutex_lock(&p->lock);
	n = make_room(p, KEPT_BYTES, out);
	pthread_mutex_unlock(&p->lock);
	unmap_blocks(out, n);
}

void pool_free(struct pool *p)
{
	if (!p)
		return;
	pool_trim(p);
	pthread_mutex_destroy(&p->lock);
	free(p);
}
