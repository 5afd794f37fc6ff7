/* SPDX-License-Identifier: MIT */
#include "store/objects/known.h"

#include <pthread.h>
#include <string.h>
#include <sys/random.h>
#include <xxhash.h>

#define PLACES 32768 /* each remembers its newest object: 768 KiB */

struct place {
	uint8_t hash[16];
	uint64_t check;
};

struct known {
	pthread_mutex_t lock;
	uint64_t seed;
	struct place places[PLACES];
};

struct known *known_new(void)
{
	struct known *known = calloc(1, sizeof(*known));

	if (!known)
		return NULL;
	if (getrandom(&known->seed, sizeof(known->seed), 0) != sizeof(known->seed)) {
		free(known);
		return NULL;
	}
	pthread_mutex_init(&known->lock, NULL);
	return known;
}

void known_free(struct known *known)
{
	if (!known)
		return;
	pthread_mutex_destroy(&known->lock);
	free(known);
}

uint64_t known_check(const struct known *known, const void *data, size_t len)
{
	return XXH3_64bits_withSeed(data, len, known->seed);
}

static struct place *known_place(struct known *known, const struct shfs_object_id *id)
{
	return &known->places[(id->hash[0] | id->hash[1] << 8) % PLACES];
}

/* Remembers only the first of several contents with the same hash. */
void known_add(struct known *known, const struct shfs_object_id *id, uint64_t check)
{
	struct place *place = known_place(known, id);

	if (id->nth)
		return;
	pthread_mutex_lock(&known->lock);
	memcpy(place->hash, id->hash, sizeof(place->hash));
	place->check = check;
	pthread_mutex_unlock(&known->lock);
}

bool known_has(struct known *known, const struct shfs_object_id *id, uint64_t check)
{
	const struct place *place = known_place(known, id);
	bool has;

	pthread_mutex_lock(&known->lock);
	has = !id->nth && place->check == check &&
	      !memcmp(place->hash, id->hash, sizeof(place->hash));
	pthread_mutex_unlock(&known->lock);
	return has;
}

void known_forget(struct known *known)
{
	pthread_mutex_lock(&known->lock);
	memset(known->places, 0, sizeof(known->places));
	pthread_mutex_unlock(&known->lock);
}
