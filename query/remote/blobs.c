/* SPDX-License-Identifier: MIT */
#include "query/remote/blobs.h"

#include <errno.h>
#include <string.h>

void blobs_clear(struct blobs *blobs)
{
	struct blob *blob, *next;

	HASH_ITER (hh, blobs->set, blob, next) {
		HASH_DEL(blobs->set, blob);
		free(blob);
	}
}

struct blob *blobs_find(const struct blobs *blobs, const char *name)
{
	struct blob *blob;

	HASH_FIND(hh, blobs->set, name, SHFS_SHA256_SIZE - 1, blob);
	return blob;
}

struct blob *blobs_add(struct blobs *blobs, const char *name)
{
	struct blob *blob = blobs_find(blobs, name);

	if (blob)
		return blob;
	blob = calloc(1, sizeof(*blob));
	if (!blob)
		return NULL;
	memcpy(blob->name, name, SHFS_SHA256_SIZE - 1);
	HASH_ADD(hh, blobs->set, name, SHFS_SHA256_SIZE - 1, blob);
	if (blob->hh.tbl)
		return blob;
	free(blob);
	return NULL;
}

void blobs_drop(struct blobs *blobs, const char *name)
{
	struct blob *blob = blobs_find(blobs, name);

	if (!blob)
		return;
	HASH_DEL(blobs->set, blob);
	free(blob);
}

int blobs_add_all(struct blobs *blobs, const struct manifest *m)
{
	struct blob *blob;

	for (size_t i = 0; i < m->n; i++)
		for (size_t j = 0; j < m->files[i].n; j++) {
			const struct piece *piece = &m->files[i].pieces[j];

			blob = blobs_add(blobs, piece->blob);
			if (!blob)
				return -ENOMEM;
			blob->bytes =
				MAX(blob->bytes, (uint64_t)piece->at + piece->bytes);
		}
	for (size_t i = 0; i < m->n_lists; i++) {
		blob = blobs_add(blobs, m->lists[i].blob);
		if (!blob)
			return -ENOMEM;
		blob->bytes = MAX(blob->bytes, (uint64_t)m->lists[i].bytes);
	}
	return 0;
}
