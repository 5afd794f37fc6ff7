/* SPDX-License-Identifier: MIT */
#include "store/objects/object-cache.h"

#include <pthread.h>
#include <string.h>
#include <sys/random.h>
#include <xxhash.h>

#define ENTRIES 32768 /* each remembers its newest object: 768 KiB */

struct entry {
	uint8_t hash[16];
	uint64_t check;
};

struct object_cache {
	pthread_mutex_t lock;
	uint64_t seed;
	struct entry entries[ENTRIES];
};

struct object_cache *object_cache_new(void)
{
	struct object_cache *cache = calloc(1, sizeof(*cache));

	if (!cache)
		return NULL;
	if (getrandom(&cache->seed, sizeof(cache->seed), 0) != sizeof(cache->seed)) {
		free(cache);
		return NULL;
	}
	pthread_mutex_init(&cache->lock, NULL);
	return cache;
}

void object_cache_free(struct object_cache *cache)
{
	if (!cache)
		return;
	pthread_mutex_destroy(&cache->lock);
	free(cache);
}

uint64_t object_cache_check(const struct object_cache *cache, const void *data,
                            size_t len)
{
	return XXH3_64bits_withSeed(data, len, cache->seed);
}

static struct entry *known_place(struct object_cache *cache,
                                 const struct shfs_object_id *id)
{
	return &cache->entries[(id->hash[0] | id->hash[1] << 8) % ENTRIES];
}

/* Remembers only the first of several contents with the same hash. */
void object_cache_add(struct object_cache *cache, const struct shfs_object_id *id,
                      uint64_t check)
{
	struct entry *entry = known_place(cache, id);

	if (id->nth)
		return;
	pthread_mutex_lock(&cache->lock);
	memcpy(entry->hash, id->hash, sizeof(entry->hash));
	entry->check = check;
	pthread_mutex_unlock(&cache->lock);
}

bool object_cache_has(struct object_cache *cache, const struct shfs_object_id *id,
                      uint64_t check)
{
	const struct entry *entry = known_place(cache, id);
	bool has;

	pthread_mutex_lock(&cache->lock);
	has = !id->nth && entry->check == check &&
	      !memcmp(entry->hash, id->hash, sizeof(entry->hash));
	pthread_mutex_unlock(&cache->lock);
	return has;
}

void object_cache_forget(struct object_cache *cache)
{
	pthread_mutex_lock(&cache->lock);
	memset(cache->entries, 0, sizeof(cache->entries));
	pthread_mutex_unlock(&cache->lock);
}
