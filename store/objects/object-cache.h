/* SPDX-License-Identifier: MIT */
/*
 * object-cache.h - remembers objects whose content this process has stored, or compared
 * byte by byte, so that the same content is not read and compared again. Bounded;
 * thread-safe.
 *
 * An object is named by a hash, for which an attacker may have made two contents. So a
 * second hash is remembered, with a seed that is secret.
 */
#pragma once

#include "common/record.h"

#include <stdbool.h>

struct object_cache;

struct object_cache *object_cache_new(void); /* NULL: no memory, or no random numbers */
void object_cache_free(struct object_cache *cache);

/* Returns the second hash of a content. */
uint64_t object_cache_check(const struct object_cache *cache, const void *data,
                            size_t len);

/* Remembers a durable object and the second hash of its content. */
void object_cache_add(struct object_cache *cache, const struct shfs_object_id *id,
                      uint64_t check);
bool object_cache_has(struct object_cache *cache, const struct shfs_object_id *id,
                      uint64_t check);

/* Forgets all objects: a collection may have removed the bases of some. */
void object_cache_forget(struct object_cache *cache);
