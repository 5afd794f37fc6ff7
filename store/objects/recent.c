/* SPDX-License-Identifier: MIT */
#include "store/objects/recent.h"

#include "store/objects/objects.h"

#include <pthread.h>
#include <string.h>
#include <utlist.h>

#define WINDOW       48   /* bytes that a feature is made of, about */
#define SAMPLE_SHIFT 59   /* one position of 32 gives a feature */
#define FEATURES     8192 /* features that are remembered */
#define BUCKETS      4096

struct feature_entry {
	uint32_t feature;
	struct recent *recent; /* borrowed; it is kept */
};

struct recents {
	pthread_mutex_t lock;
	struct recent *list; /* the oldest first */
	size_t bytes;
	struct recent *by_id[BUCKETS];
	struct feature_entry features[FEATURES];
};

/* --- features --- */

static uint64_t gear[256];
static pthread_once_t gear_once = PTHREAD_ONCE_INIT;

static void gear_init(void)
{
	uint64_t x = 0x9e3779b97f4a7c15;

	for (int i = 0; i < 256; i++) { /* splitmix64 */
		uint64_t z = x += 0x9e3779b97f4a7c15;

		z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
		z = (z ^ z >> 27) * 0x94d049bb133111eb;
		gear[i] = z ^ z >> 31;
	}
}

/* Keeps the smallest features, ascending, each once. */
static void keep_smallest(uint32_t f[static RECENT_FEATURES], unsigned *n,
                          uint32_t feature)
{
	unsigned i = *n;

	if (*n == RECENT_FEATURES && feature >= f[*n - 1])
		return;
	for (unsigned k = 0; k < *n; k++)
		if (f[k] == feature)
			return;
	if (i == RECENT_FEATURES)
		i--;
	else
		++*n;
	for (; i > 0 && f[i - 1] > feature; i--)
		f[i] = f[i - 1];
	f[i] = feature;
}

void recent_features(const void *data, size_t len, uint32_t out[static RECENT_FEATURES])
{
	const unsigned char *p = data;
	uint64_t h = 0;
	unsigned n = 0;

	pthread_once(&gear_once, gear_init);
	memset(out, 0, RECENT_FEATURES * sizeof(*out));
	for (size_t i = 0; i < len; i++) {
		h = (h << 1) + gear[p[i]];
		if (h >> SAMPLE_SHIFT == 0 && i >= WINDOW)
			keep_smallest(out, &n,
			              (uint32_t)(h * 0x9e3779b97f4a7c15 >> 32) | 1);
	}
}

/* --- the list; with the lock held --- */

static struct feature_entry *entry_of_feature(struct recents *r, uint32_t feature)
{
	return &r->features[feature * 2654435761u >> 19];
}

static struct recent **bucket_of_object(struct recents *r,
                                        const struct shfs_object_id *id)
{
	return &r->by_id[(id->hash[0] | id->hash[1] << 8) % BUCKETS];
}

static size_t weight(const struct recent *recent)
{
	return sizeof(*recent) + recent->len + 32; /* overhead of the allocations */
}

static void drop_recent(struct recents *r, struct recent *recent)
{
	shfs_assert(recent->kept && r->bytes >= weight(recent));
	DL_DELETE(r->list, recent);
	LL_DELETE2(*bucket_of_object(r, &recent->id), recent, also);
	recent->kept = false;
	r->bytes -= weight(recent);
	for (unsigned i = 0; i < RECENT_FEATURES; i++) {
		struct feature_entry *entry = entry_of_feature(r, recent->features[i]);

		if (entry->recent == recent)
			*entry = (struct feature_entry){ 0 };
	}
	recent_unref(recent);
}

static struct recent *reference(struct recents *r, struct recent *recent)
{
	if (!recent)
		return NULL;
	shfs_assert_held(&r->lock);
	shfs_assert(recent->kept && recent->refs);
	DL_DELETE(r->list, recent); /* it becomes the newest again */
	DL_APPEND(r->list, recent);
	atomic_fetch_add(&recent->refs, 1);
	return recent;
}

/* --- --- */

struct recents *recents_new(void)
{
	struct recents *r = calloc(1, sizeof(*r));

	if (r)
		pthread_mutex_init(&r->lock, NULL);
	return r;
}

void recents_free(struct recents *r)
{
	if (!r)
		return;
	while (r->list)
		drop_recent(r, r->list);
	pthread_mutex_destroy(&r->lock);
	free(r);
}

size_t recents_bytes(struct recents *r)
{
	size_t bytes;

	pthread_mutex_lock(&r->lock);
	bytes = r->bytes;
	pthread_mutex_unlock(&r->lock);
	return bytes;
}

void recent_unref(struct recent *recent)
{
	if (!recent || atomic_fetch_sub(&recent->refs, 1) != 1)
		return;
	free(recent->data);
	free(recent);
}

struct recent *recents_add(struct recents *r, const struct shfs_object_id *id,
                           const void *data, size_t len,
                           const uint32_t features[static RECENT_FEATURES],
                           struct recent_cost cost)
{
	struct recent *recent = len <= RECENT_ONE_MAX ? calloc(1, sizeof(*recent)) : NULL;

	if (!recent)
		return NULL;
	recent->data = malloc(len + 1);
	if (!recent->data) {
		free(recent);
		return NULL;
	}
	if (len)
		memcpy(recent->data, data, len);
	recent->len = len;
	recent->cost = cost;
	recent->id = *id;
	recent->kept = true;
	memcpy(recent->features, features, sizeof(recent->features));
	atomic_init(&recent->refs, 2);
	pthread_mutex_lock(&r->lock);
	DL_APPEND(r->list, recent);
	LL_PREPEND2(*bucket_of_object(r, id), recent, also);
	r->bytes += weight(recent);
	for (unsigned i = 0; i < RECENT_FEATURES; i++)
		if (features[i])
			*entry_of_feature(r, features[i]) =
				(struct feature_entry){ features[i], recent };
	while (r->bytes > RECENT_BYTES_MAX)
		drop_recent(r, r->list);
	pthread_mutex_unlock(&r->lock);
	return recent;
}

struct recent *recents_find(struct recents *r, const struct shfs_object_id *id)
{
	struct recent *found;

	pthread_mutex_lock(&r->lock);
	LL_FOREACH2(*bucket_of_object(r, id), found, also)
	if (shfs_object_equal(&found->id, id))
		break;
	found = reference(r, found);
	pthread_mutex_unlock(&r->lock);
	return found;
}

struct recent *recents_similar(struct recents *r,
                               const uint32_t features[static RECENT_FEATURES],
                               unsigned votes_min)
{
	struct recent *voted[RECENT_FEATURES], *best = NULL;
	unsigned votes, most = votes_min - 1;

	pthread_mutex_lock(&r->lock);
	for (unsigned i = 0; i < RECENT_FEATURES; i++) {
		const struct feature_entry *entry = entry_of_feature(r, features[i]);

		voted[i] = features[i] && entry->feature == features[i] ? entry->recent
		                                                        : NULL;
	}
	for (unsigned i = 0; i < RECENT_FEATURES; i++) {
		votes = 0;
		for (unsigned k = 0; voted[i] && k < RECENT_FEATURES; k++)
			votes += voted[k] == voted[i];
		if (votes > most) {
			most = votes;
			best = voted[i];
		}
	}
	best = reference(r, best);
	pthread_mutex_unlock(&r->lock);
	return best;
}

void recent_name(struct recents *r, struct recent *recent,
                 const struct shfs_object_id *id, struct recent_cost cost)
{
	pthread_mutex_lock(&r->lock);
	if (recent->state == RECENT_PENDING) {
		recent->state = RECENT_NAMED;
		recent->id = *id;
		recent->cost = cost;
	}
	pthread_mutex_unlock(&r->lock);
}

void recent_settle(struct recents *r, struct recent *recent, enum recent_state state)
{
	pthread_mutex_lock(&r->lock);
	if (recent->state != RECENT_COMMITTED)
		recent->state = state;
	if (recent->state == RECENT_DEAD && recent->kept)
		drop_recent(r, recent);
	pthread_mutex_unlock(&r->lock);
}

void recents_forget(struct recents *r)
{
	struct recent *recent, *next;

	pthread_mutex_lock(&r->lock);
	DL_FOREACH_SAFE (r->list, recent, next)
		if (recent->state == RECENT_COMMITTED)
			drop_recent(r, recent);
	pthread_mutex_unlock(&r->lock);
}

enum recent_state recent_state(struct recents *r, const struct recent *recent,
                               struct shfs_object_id *id, struct recent_cost *cost)
{
	enum recent_state state;

	pthread_mutex_lock(&r->lock);
	state = recent->state;
	*id = recent->id;
	if (cost)
		*cost = recent->cost;
	pthread_mutex_unlock(&r->lock);
	return state;
}
