/* SPDX-License-Identifier: MIT */
#include "fusefs/takeover/heir.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define N_PLACES (1u << 17)
#define N_TRIES  4096
#define INIT_MAX 4096

struct move {
	uint32_t heir_node; /* its index */
	uint64_t parent;
	char name[NAME_MAX + 1];
};

struct shared {
	atomic_size_t init_size;
	char init[INIT_MAX];
	struct move moves[2];
	atomic_uint n_moves;
	struct {
		atomic_ullong unique;
		uint64_t note;
	} tries[N_TRIES];
	atomic_int device;                 /* the fd plus 1 */
	atomic_uint n_heir_nodes, n_opens; /* numbers that were ever used */
	struct shfs_heir_node heir_nodes[N_PLACES];
	struct shfs_open opens[SHFS_HEIR_OPENS];
};

/* Indexes that are free again. */
struct stack {
	uint32_t *list;
	uint32_t n, cap;
};

struct shfs_heir {
	struct shared *shared;
	pthread_mutex_t lock;
	struct stack heir_nodes, opens;
	void **opened; /* for each open file */
};

static void push_index(struct stack *stack, uint32_t index)
{
	uint32_t cap = stack->cap ? 2 * stack->cap : 64, *grown;

	if (stack->n == stack->cap) {
		grown = reallocarray(stack->list, cap, sizeof(*grown));
		if (!grown)
			return; /* this index is not used again */
		stack->list = grown;
		stack->cap = cap;
	}
	stack->list[stack->n++] = index;
}

/* Returns an index that is free again, or the next one; max: there is none. */
static uint32_t pop_index(struct stack *stack, atomic_uint *n_used, uint32_t max)
{
	if (stack->n)
		return stack->list[--stack->n];
	return *n_used < max ? atomic_fetch_add(n_used, 1) : max;
}

struct shfs_heir *shfs_heir_new(void)
{
	struct shfs_heir *heir = calloc(1, sizeof(*heir));
	void *memory = mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE,
	                    MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	void **opened = calloc(SHFS_HEIR_OPENS, sizeof(*opened));

	if (!heir || memory == MAP_FAILED || !opened) {
		free(heir);
		free(opened);
		if (memory != MAP_FAILED)
			munmap(memory, sizeof(struct shared));
		return NULL;
	}
	heir->shared = memory;
	heir->opened = opened;
	pthread_mutex_init(&heir->lock, NULL);
	return heir;
}

void shfs_heir_free(struct shfs_heir *heir)
{
	if (!heir)
		return;
	munmap(heir->shared, sizeof(*heir->shared));
	pthread_mutex_destroy(&heir->lock);
	free(heir->heir_nodes.list);
	free(heir->opens.list);
	free(heir->opened);
	free(heir);
}

void shfs_heir_take(struct shfs_heir *heir)
{
	struct shared *s = heir->shared;

	heir->heir_nodes.n = heir->opens.n = 0;
	for (uint32_t i = s->n_heir_nodes; i--;)
		if (!s->heir_nodes[i].is_used)
			push_index(&heir->heir_nodes, i);
	for (uint32_t i = s->n_opens; i--;)
		if (s->opens[i].what == SHFS_OPENED_NONE)
			push_index(&heir->opens, i);
}

void shfs_heir_set_device(struct shfs_heir *heir, int fd)
{
	atomic_store(&heir->shared->device, fd + 1);
}

int shfs_heir_device(const struct shfs_heir *heir)
{
	return atomic_load(&heir->shared->device) - 1;
}

void shfs_heir_set_init(struct shfs_heir *heir, const void *request, size_t size)
{
	if (size > INIT_MAX)
		return;
	memcpy(heir->shared->init, request, size);
	atomic_store(&heir->shared->init_size, size);
}

const void *shfs_heir_init(const struct shfs_heir *heir, size_t *size)
{
	*size = heir->shared->init_size;
	return heir->shared->init;
}

/* --- nodes --- */

struct shfs_heir_node *shfs_heir_node_new(struct shfs_heir *heir)
{
	struct shared *s = heir->shared;
	uint32_t index;

	pthread_mutex_lock(&heir->lock);
	index = pop_index(&heir->heir_nodes, &s->n_heir_nodes, N_PLACES);
	pthread_mutex_unlock(&heir->lock);
	return index < N_PLACES ? &s->heir_nodes[index] : NULL;
}

void shfs_heir_node_done(struct shfs_heir *heir, struct shfs_heir_node *heir_node)
{
	pthread_mutex_lock(&heir->lock);
	atomic_store(&heir_node->is_used, false);
	push_index(&heir->heir_nodes, (uint32_t)(heir_node - heir->shared->heir_nodes));
	pthread_mutex_unlock(&heir->lock);
}

struct shfs_heir_node *shfs_heir_next_node(struct shfs_heir *heir,
                                           struct shfs_heir_node *heir_node)
{
	struct shared *s = heir->shared;

	for (heir_node = heir_node ? heir_node + 1 : s->heir_nodes;
	     heir_node < s->heir_nodes + s->n_heir_nodes; heir_node++)
		if (heir_node->is_used)
			return heir_node;
	return NULL;
}

void shfs_heir_move(struct shfs_heir *heir, struct shfs_heir_node *heir_node,
                    uint64_t parent, const char *name)
{
	struct shared *s = heir->shared;
	struct move *m = &s->moves[s->n_moves];

	if (!heir_node)
		return;
	m->heir_node = (uint32_t)(heir_node - s->heir_nodes);
	m->parent = parent;
	strcpy(m->name, name);
	atomic_fetch_add(&s->n_moves, 1);
}

void shfs_heir_moved(struct shfs_heir *heir)
{
	atomic_store(&heir->shared->n_moves, 0);
}

void shfs_heir_settle_moves(struct shfs_heir *heir,
                            bool (*is_there)(const struct shfs_heir_node *heir_node,
                                             void *arg),
                            void *arg)
{
	struct shared *s = heir->shared;

	for (uint32_t i = 0; i < s->n_moves; i++) {
		struct shfs_heir_node *heir_node = &s->heir_nodes[s->moves[i].heir_node],
				      moved = *heir_node;

		moved.parent = s->moves[i].parent;
		memcpy(moved.name, s->moves[i].name, sizeof(moved.name));
		if (!is_there(&moved, arg))
			continue;
		heir_node->parent = moved.parent;
		memcpy(heir_node->name, moved.name, sizeof(moved.name));
		heir_node->gone = false;
	}
	shfs_heir_moved(heir);
}

/* --- tried requests --- */

/* Returns the slot of a request. Requests that are served at the same time mostly have
 * different ones. */
static size_t request_slot(uint64_t unique)
{
	return (size_t)(unique * 0x9e3779b97f4a7c15u >> 32) % N_TRIES;
}

void shfs_heir_try(struct shfs_heir *heir, uint64_t unique, uint64_t note)
{
	struct shared *s = heir->shared;
	size_t i = request_slot(unique);

	atomic_store(&s->tries[i].unique, 0);
	s->tries[i].note = note;
	atomic_store(&s->tries[i].unique, unique);
}

void shfs_heir_failed(struct shfs_heir *heir, uint64_t unique)
{
	atomic_ullong *tried = &heir->shared->tries[request_slot(unique)].unique;

	atomic_compare_exchange_strong(tried, &(unsigned long long){ unique }, 0);
}

bool shfs_heir_was_tried(const struct shfs_heir *heir, uint64_t unique, uint64_t *note)
{
	const struct shared *s = heir->shared;
	size_t i = request_slot(unique);

	if (note)
		*note = s->tries[i].note;
	return atomic_load(&s->tries[i].unique) == unique;
}

/* --- open files --- */

static uint32_t index_of(uint64_t fh)
{
	return (uint32_t)fh - 1;
}

static uint64_t number_of(const struct shfs_open *open, uint32_t index)
{
	return (uint64_t)open->serial << 32 | (index + 1);
}

static struct shfs_open *open_of(struct shfs_heir *heir, uint64_t fh)
{
	uint32_t index = index_of(fh);
	struct shfs_open *open;

	if (index >= heir->shared->n_opens)
		return NULL;
	open = &heir->shared->opens[index];
	return open->what != SHFS_OPENED_NONE && open->serial == fh >> 32 ? open : NULL;
}

uint64_t shfs_heir_open(struct shfs_heir *heir, const struct shfs_open *as, void *opened)
{
	struct shared *s = heir->shared;
	struct shfs_open *open;
	uint32_t index;

	pthread_mutex_lock(&heir->lock);
	index = pop_index(&heir->opens, &s->n_opens, SHFS_HEIR_OPENS);
	pthread_mutex_unlock(&heir->lock);
	if (index == SHFS_HEIR_OPENS)
		return 0;
	open = &s->opens[index];
	open->serial++;
	open->unique = as->unique;
	open->node = as->node;
	open->flags = as->flags;
	open->tid = as->tid;
	open->uid = as->uid;
	open->gid = as->gid;
	open->fd = as->fd;
	open->boot_ns = as->boot_ns;
	open->backing_id = as->backing_id;
	open->io = as->io;
	atomic_store(&open->wrote, as->wrote);
	heir->opened[index] = opened;
	atomic_store(&open->what, as->what);
	return number_of(open, index);
}

void shfs_heir_open_done(struct shfs_heir *heir, uint64_t fh)
{
	struct shfs_open *open = fh ? open_of(heir, fh) : NULL;

	if (!open)
		return;
	pthread_mutex_lock(&heir->lock);
	heir->opened[index_of(fh)] = NULL;
	atomic_store(&open->what, SHFS_OPENED_NONE);
	push_index(&heir->opens, index_of(fh));
	pthread_mutex_unlock(&heir->lock);
}

void *shfs_heir_opened(struct shfs_heir *heir, uint64_t fh)
{
	return open_of(heir, fh) ? heir->opened[index_of(fh)] : NULL;
}

struct shfs_open *shfs_heir_open_of(struct shfs_heir *heir, uint64_t fh)
{
	return fh ? open_of(heir, fh) : NULL;
}

uint64_t shfs_heir_opened_by(struct shfs_heir *heir, uint64_t unique)
{
	struct shared *s = heir->shared;

	for (uint32_t i = 0; i < s->n_opens; i++)
		if (s->opens[i].what != SHFS_OPENED_NONE && s->opens[i].unique == unique)
			return heir->opened[i] ? number_of(&s->opens[i], i) : 0;
	return 0;
}

size_t shfs_heir_n_opens(const struct shfs_heir *heir)
{
	return heir->shared->n_opens;
}

size_t shfs_heir_fds(const struct shfs_heir *heir, int *fds, size_t max)
{
	const struct shared *s = heir->shared;
	size_t n = 0;

	for (uint32_t i = 0; i < s->n_opens && n < max; i++)
		if (s->opens[i].what != SHFS_OPENED_NONE)
			fds[n++] = s->opens[i].fd;
	return n;
}

void shfs_heir_each_open(struct shfs_heir *heir,
                         void *(*resume)(const struct shfs_open *open, uint64_t fh,
                                         void *arg),
                         void *arg)
{
	struct shared *s = heir->shared;

	for (uint32_t i = 0; i < s->n_opens; i++) {
		struct shfs_open *open = &s->opens[i];

		if (open->what == SHFS_OPENED_NONE)
			continue;
		heir->opened[i] = resume(open, number_of(open, i), arg);
		if (!heir->opened[i])
			open->fd = -1;
	}
}
