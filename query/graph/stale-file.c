/* SPDX-License-Identifier: MIT */
/* The files that stale looks at, and their paths: there may be millions. */
#include "query/graph/stale-internal.h"

#include <errno.h>
#include <string.h>

/* A block of files, indexed by their numbers. */
#define BLOCK_FILES 256
struct file_block {
	struct file_node files[BLOCK_FILES];
};

static int make_block(struct shfs_stale *s, size_t at)
{
	struct file_block **blocks = s->blocks, *block;

	if (at >= s->n_blocks) {
		size_t n = MAX(at + 1, s->n_blocks * 2);

		blocks = reallocarray(blocks, n, sizeof(*blocks));
		if (!blocks)
			return -ENOMEM;
		memset(blocks + s->n_blocks, 0, (n - s->n_blocks) * sizeof(*blocks));
		s->blocks = blocks;
		s->n_blocks = n;
	}
	block = aligned_alloc(_Alignof(struct file_block), sizeof(*block));
	if (!block)
		return -ENOMEM;
	memset(block, 0, sizeof(*block));
	blocks[at] = block;
	return 0;
}

int shfs_stale_file_node(struct shfs_stale *s, int64_t file_id, struct file_node **out)
{
	size_t at = (uint32_t)file_id / BLOCK_FILES;
	int r = at >= s->n_blocks || !s->blocks[at] ? make_block(s, at) : 0;

	if (!r)
		*out = &s->blocks[at]->files[(uint32_t)file_id % BLOCK_FILES];
	return r;
}

/* Paths, one behind another: each by itself would take more memory, and time to free. */
struct path_block {
	struct path_block *next;
	size_t len, cap;
	char text[];
};

#define PATHS_BYTES ((size_t)64 << 10)

int shfs_stale_keep_path(struct shfs_stale *s, int64_t file_id, struct file_node *f)
{
	struct path_block *block = s->paths;
	size_t len;
	int r;

	s->path.len = 0;
	r = shfs_facts_add_path(s->graph->facts, file_id, &s->path);
	if (r <= 0)
		return r;
	len = s->path.len + 1;
	if (!block || block->cap - block->len < len) {
		size_t cap = MAX(PATHS_BYTES - sizeof(*block), len);

		block = malloc(sizeof(*block) + cap);
		if (!block)
			return -ENOMEM;
		*block = (struct path_block){ .next = s->paths, .cap = cap };
		s->paths = block;
	}
	f->f.path = memcpy(block->text + block->len, s->path.data, len);
	block->len += len;
	return 1;
}

void shfs_stale_files_free(struct shfs_stale *s, void (*clear)(struct file_node *f))
{
	for (size_t i = 0; i < s->n_blocks; i++) {
		for (size_t k = 0; s->blocks[i] && k < BLOCK_FILES; k++) {
			struct file_node *f = &s->blocks[i]->files[k];

			if (f->told)
				clear(f);
			free(f->unwatched);
		}
		free(s->blocks[i]);
	}
	free(s->blocks);
	while (s->paths) {
		struct path_block *next = s->paths->next;

		free(s->paths);
		s->paths = next;
	}
	shfs_buf_free(&s->path);
}
