/* SPDX-License-Identifier: MIT */
#include "store/objects/object.h"

#include "common/debug.h"
#include "common/io.h"
#include "store/objects/content.h"
#include "store/objects/lease.h"
#include "store/objects/object-cache.h"
#include "store/objects/object-internal.h"
#include "store/objects/put-internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

void shfs_object_hash_xxh3(const void *data, size_t len, uint8_t out[16])
{
	XXH128_canonical_t c;

	XXH128_canonicalFromHash(&c, XXH3_128bits(data, len));
	memcpy(out, c.digest, 16);
}

void (*shfs_object_hash)(const void *data, size_t len,
                         uint8_t out[16]) = shfs_object_hash_xxh3;

uint64_t shfs_object_hash64(const void *data, size_t len)
{
	return XXH3_64bits(data, len);
}

void shfs_object_name(const struct shfs_object_id *id, char out[static 44])
{
	for (int i = 0; i < 16; i++)
		snprintf(out + 2 * i, 3, "%02x", id->hash[i]);
	if (id->nth)
		snprintf(out + 32, 12, "-%" PRIu32, id->nth);
}

int shfs_object_parse(const char *name, struct shfs_object_id *id)
{
	static const char hex[] = "0123456789abcdef";
	struct shfs_object_id v = { 0 };
	unsigned long nth;
	char *end;

	for (int i = 0; i < 32; i++) {
		const char *digit = name[i] ? strchr(hex, name[i]) : NULL;

		if (!digit)
			return -EINVAL;
		v.hash[i / 2] = v.hash[i / 2] << 4 | (digit - hex);
	}
	if (name[32]) {
		errno = 0;
		nth = strtoul(name + 33, &end, 10);
		if (name[32] != '-' || name[33] < '1' || name[33] > '9' || *end ||
		    errno || nth > UINT32_MAX)
			return -EINVAL;
		v.nth = nth;
	}
	*id = v;
	return 0;
}

/* --- partial hash --- */

#define SAMPLE 256

uint64_t shfs_object_partial_hash_mem(const void *data, size_t len)
{
	unsigned char sample[3 * SAMPLE];

	if (len <= sizeof(sample))
		return XXH3_64bits(data, len);
	memcpy(sample, data, SAMPLE);
	memcpy(sample + SAMPLE, (const char *)data + len / 2 - SAMPLE / 2, SAMPLE);
	memcpy(sample + 2 * SAMPLE, (const char *)data + len - SAMPLE, SAMPLE);
	return XXH3_64bits(sample, sizeof(sample));
}

int shfs_object_partial_hash(int fd, uint64_t size, uint64_t *out)
{
	unsigned char sample[3 * SAMPLE];
	ssize_t n;

	if (size <= sizeof(sample)) {
		n = shfs_pread_full(fd, sample, size, 0);
		if (n >= 0)
			*out = XXH3_64bits(sample, n);
		return MIN(n, 0);
	}
	if ((n = shfs_pread_full(fd, sample, SAMPLE, 0)) < 0 ||
	    (n = shfs_pread_full(fd, sample + SAMPLE, SAMPLE, size / 2 - SAMPLE / 2)) <
	            0 ||
	    (n = shfs_pread_full(fd, sample + 2 * SAMPLE, SAMPLE, size - SAMPLE)) < 0)
		return n;
	*out = XXH3_64bits(sample, sizeof(sample));
	return 0;
}

#define PIECE (256u << 10)

static int hash_all(int fd, uint64_t size, uint64_t *out)
{
	_cleanup_free_ char *piece = malloc(PIECE);
	XXH3_state_t *state = piece ? XXH3_createState() : NULL;
	ssize_t n = state && XXH3_64bits_reset(state) == XXH_OK ? 0 : -ENOMEM;

	for (uint64_t at = 0; at < size && n >= 0; at += (uint64_t)n) {
		n = shfs_pread_full(fd, piece, MIN(size - at, (uint64_t)PIECE),
		                    (off_t)at);
		if (!n) /* it has become shorter */
			break;
		if (n > 0)
			XXH3_64bits_update(state, piece, (size_t)n);
	}
	if (n >= 0)
		*out = XXH3_64bits_digest(state);
	XXH3_freeState(state);
	return MIN(n, 0);
}

static bool is_whole(const struct shfs_content *content, uint64_t whole_max)
{
	return content->size > SHFS_OBJECT_PARTIAL && content->size <= whole_max;
}

static void note_fingerprint(struct shfs_content *content, uint64_t whole_max)
{
	content->flags |= SHFS_CONTENT_PHASH |
	                  (is_whole(content, whole_max) ? SHFS_CONTENT_WHOLE : 0);
}

int shfs_object_fingerprint(int fd, uint64_t whole_max, struct shfs_content *content)
{
	int r = is_whole(content, whole_max)
	                ? hash_all(fd, content->size, &content->phash)
	                : shfs_object_partial_hash(fd, content->size, &content->phash);

	if (!r)
		note_fingerprint(content, whole_max);
	return r;
}

void shfs_object_fingerprint_mem(const void *data, uint64_t whole_max,
                                 struct shfs_content *content)
{
	content->phash = is_whole(content, whole_max)
	                         ? XXH3_64bits(data, content->size)
	                         : shfs_object_partial_hash_mem(data, content->size);
	note_fingerprint(content, whole_max);
}

uint64_t shfs_object_whole_max(uint32_t flags)
{
	return flags & SHFS_CONTENT_WHOLE ? UINT64_MAX : 0;
}

/* --- putting --- */

#define DELTA_LEN_MIN 128        /* a smaller content gains nothing as a delta */
#define DELTA_SURE    8          /* a delta so many times smaller is taken at once */
#define FEATURES_OF   (1u << 20) /* bytes that features are made of */

/* Contents go into solid frames when so many new ones wait for a commit. Fewer are
 * compressed each for itself, and better: there is time. */
#define SOLID_FROM    8
#define SOLID_ONE_MAX (64u << 10) /* a larger content is compressed for itself */

/*
 * Finds the name for these bytes, from id->nth on. 1: an object holds them, *found; 0:
 * *id is free, or taken by a damaged object (*heal).
 */
static int find_place(struct shfs_store *store, const void *data, size_t len,
                      struct shfs_object_id *id, bool *heal, struct content *found)
{
	for (; id->nth < COLLISIONS_MAX; id->nth++) {
		int r;

		if (lease_condemns(store, id)) /* it gets another name */
			continue;
		r = content_is(store, id, data, len, found);
		*heal = r == -EBADMSG;
		if (r == -ENOENT || *heal)
			return 0;
		if (r)
			return r;
	}
	return -EEXIST;
}

void shfs_object_id_of(const void *data, size_t len, struct shfs_object_id *id)
{
	*id = (struct shfs_object_id){ 0 };
	shfs_object_hash(data, len, id->hash);
}

int shfs_object_find(struct shfs_store *store, const void *data, size_t len,
                     struct shfs_object_id *id)
{
	struct shfs_object_id v = { 0 };
	struct content found;
	bool heal;
	int r = packs_refresh(store);

	if (r)
		return r;
	shfs_object_hash(data, len, v.hash);
	r = find_place(store, data, len, &v, &heal, &found);
	if (r == 1)
		*id = v;
	return r;
}

/* --- the base of a delta --- */

struct base {
	struct recent *recent;
	struct shfs_object_id id;
	char *read; /* data, if it is not of a recent; owned */
	const char *data;
	size_t len;
	struct recent_cost cost;
	struct pack *unsynced;
};

static void base_free(struct base *b)
{
	recent_unref(b->recent);
	free(b->read);
}

bool cost_fits(struct recent_cost base, size_t len)
{
	uint64_t most = MAX((uint64_t)DELTA_CHAIN_MAX, DELTA_CHAIN_OWN * (uint64_t)len);

	return base.depth < DELTA_DEPTH_MAX && base.chain_bytes + len <= most;
}

static bool base_fits(struct shfs_store *store, const struct base *b, size_t len)
{
	return b->data && b->len >= DELTA_LEN_MIN && b->len <= DELTA_LEN_MAX &&
	       cost_fits(b->cost, len) && !lease_condemns(store, &b->id);
}

static void base_of_recent(struct shfs_store *store, struct base *b,
                           struct recent *recent)
{
	*b = (struct base){
		.recent = recent,
		.data = recent->data,
		.len = recent->len,
	};
	/* a commit may change them */
	recent_state(store->recents, recent, &b->id, &b->cost);
}

static void base_of_object(struct shfs_store *store, struct base *b,
                           const struct shfs_object_id *id)
{
	struct content c;

	if (content_read(store, id, DELTA_LEN_MAX, &c))
		return;
	*b = (struct base){
		.id = *id,
		.read = c.data,
		.data = c.data,
		.len = c.len,
		.cost = { c.depth, c.chain_bytes },
		.unsynced = c.unsynced,
	};
}

/* Finds a base: the file's content before this one, else a similar content. */
static void base_find(struct shfs_store *store, const struct shfs_object_id *before,
                      size_t len, const uint32_t features[static RECENT_FEATURES],
                      unsigned votes_min, struct base *out)
{
	struct recent *recent = before ? recents_find(store->recents, before) : NULL;

	*out = (struct base){ 0 };
	if (recent)
		base_of_recent(store, out, recent);
	else if (before)
		base_of_object(store, out, before);
	if (base_fits(store, out, len))
		return;
	base_free(out);
	*out = (struct base){ 0 };
	recent = recents_similar(store->recents, features, votes_min);
	if (recent)
		base_of_recent(store, out, recent);
	if (base_fits(store, out, len))
		return;
	base_free(out);
	*out = (struct base){ 0 };
}

/* --- encoding --- */

static int raw_code(const void *data, size_t len, struct coded *out)
{
	out->bytes = malloc(FRAME_HEAD_BYTES + len);
	if (!out->bytes)
		return -ENOMEM;
	memcpy(out->bytes + FRAME_HEAD_BYTES, data, len);
	out->head = FRAME_HEAD_BYTES;
	out->len = len;
	return 0;
}

int encode_alone(struct shfs_put *put, const void *data, size_t len, int level,
                 size_t max)
{
	struct coded c = { 0 };
	int r = 1;

	put->cost = (struct recent_cost){ .chain_bytes = len };
	if (len >= 64 && max)
		r = codec_compress(put->store->codecs, data, len, level, NULL, 0,
		                   FRAME_HEAD_BYTES, MIN(max, len), &c);
	if (r < 0 || (r && max <= len))
		return r;
	put->loose = (r ? len : c.len) > FRAME_STORED_MAX;
	if (put->loose) {
		bool packed = !r;

		r = loose_write(put->store, &put->id, len,
		                packed ? c.bytes + c.head - CODEC_MAGIC_BYTES : data,
		                packed ? c.len + CODEC_MAGIC_BYTES : len, packed,
		                &put->file);
		coded_free(&c);
		put->stored =
			LOOSE_HEAD_BYTES + (packed ? c.len + CODEC_MAGIC_BYTES : len);
		return r;
	}
	put->frame = (struct frame){ .kind = r ? FRAME_RAW : FRAME_ZSTD, .size = len };
	if (r && (r = raw_code(data, len, &c)))
		return r;
	put->coded = c;
	put->frame.stored = (uint32_t)c.len;
	put->stored = c.head + c.len;
	return 0;
}

void set_base_cost(struct shfs_put *put, struct recent_cost base)
{
	put->cost = (struct recent_cost){ base.depth + 1, base.chain_bytes + put->len };
	put->frame.depth = (uint8_t)put->cost.depth;
	put->frame.chain_kib = (uint32_t)(put->cost.chain_bytes >> 10);
}

static int compress_delta(struct shfs_put *put, const void *data, size_t len, int level,
                          const struct base *base, size_t max, struct coded *out)
{
	return codec_compress(put->store->codecs, data, len, level, base->data, base->len,
	                      FRAME_DELTA_BYTES, MIN(max, (size_t)FRAME_STORED_MAX), out);
}

static void become_delta(struct shfs_put *put, struct coded delta, struct base *base)
{
	put->coded = delta;
	put->stored = delta.head + delta.len;
	put->frame = (struct frame){
		.kind = FRAME_DELTA,
		.size = put->len,
		.stored = (uint32_t)delta.len,
		.base = base->id,
	};
	set_base_cost(put, base->cost);
	put->base = TAKE_PTR(base->recent);
	if (base->unsynced)
		put->unsynced = base->unsynced;
}

/* Encodes as a delta, if that is clearly smaller. 1: it is not. */
static int encode_delta(struct shfs_put *put, const void *data, size_t len, int level,
                        struct base *base)
{
	struct coded delta = { 0 };
	size_t extra = FRAME_DELTA_BYTES - FRAME_HEAD_BYTES;
	int r = compress_delta(put, data, len, level, base, len, &delta);

	if (r)
		return r;
	if (delta.len > len / DELTA_SURE) {
		r = encode_alone(put, data, len, level,
		                 delta.len + extra + delta.len / 8);
		if (r <= 0) {
			coded_free(&delta);
			return r;
		}
	}
	become_delta(put, delta, base);
	return 0;
}

/* Encodes as a delta, if that is so small that nothing else can be smaller. 1: it is not.
 */
static int encode_sure_delta(struct shfs_put *put, const void *data, size_t len,
                             int level, struct base *base)
{
	struct coded delta = { 0 };
	int r = compress_delta(put, data, len, level, base, len / DELTA_SURE, &delta);

	if (!r)
		become_delta(put, delta, base);
	return r;
}

/*
 * Is this a small first version, one of many that come just now? It waits for the commit,
 * uncompressed, as FRAME_SOLID, to be compressed together with others.
 */
static bool is_for_solid(const struct shfs_put *put, const struct shfs_object_id *before)
{
	return !before && !put->heal && put->len && put->len <= SOLID_ONE_MAX &&
	       atomic_load(&put->store->n_waiting) >= SOLID_FROM;
}

static int put_solid(struct shfs_put *put, const void *data)
{
	int r = raw_code(data, put->len, &put->coded);

	put->frame = (struct frame){ .kind = FRAME_SOLID, .size = put->len };
	put->cost = (struct recent_cost){ .chain_bytes = put->len };
	put->stored = put->coded.head + put->len; /* until it is known */
	return r;
}

int put_leave_solid(struct shfs_put *put)
{
	struct shfs_put alone = *put;
	int r;

	alone.coded = (struct coded){ 0 };
	r = encode_alone(&alone, put->coded.bytes + put->coded.head, put->len, put->level,
	                 SIZE_MAX);
	if (r)
		return r;
	alone.group = NULL;
	coded_free(&put->coded);
	*put = alone;
	return 0;
}

static int put_new(struct shfs_put *put, const void *data, size_t len, int level,
                   const struct shfs_object_id *before)
{
	struct base base = { 0 };
	uint32_t features[RECENT_FEATURES] = { 0 };
	bool solid = is_for_solid(put, before);
	int r = 1;

	recent_features(data, MIN(len, (size_t)FEATURES_OF), features);
	/* An object that replaces a damaged one is no delta: its base might be a delta of
	 * the damaged one. */
	if (len >= DELTA_LEN_MIN && len <= DELTA_LEN_MAX && !put->heal)
		base_find(put->store, before, len, features,
		          solid ? RECENT_ALIKE : RECENT_SIMILAR, &base);
	if (base.data)
		r = solid ? encode_sure_delta(put, data, len, level, &base)
		          : encode_delta(put, data, len, level, &base);
	if (r == 1)
		r = solid ? put_solid(put, data)
		          : encode_alone(put, data, len, level, SIZE_MAX);
	base_free(&base);
	if (!r) {
		put->waits = true;
		atomic_fetch_add(&put->store->n_waiting, 1);
	}
	if (!r && len >= DELTA_LEN_MIN)
		put->self = recents_add(put->store->recents, &put->id, data, len,
		                        features, put->cost);
	return r;
}

/* Is there an intact frame of the object, and was its content seen to be this one since
 * the last collection (which may have removed its base)? */
static bool put_is_known(struct shfs_put *put)
{
	_cleanup_packed_ struct packed p = { 0 };

	if (lease_condemns(put->store, &put->id) ||
	    !object_cache_has(put->store->object_cache, &put->id, put->check) ||
	    packs_read(put->store, &put->id, 0, &p))
		return false;
	if (!p.durable)
		put->unsynced = p.pack;
	return true;
}

/* Is the content stored already? 1: nothing needs to be written. 0: its name is found. */
static int put_find(struct shfs_put *put, const void *data)
{
	struct content found;
	int r;

	if (put_is_known(put)) {
		put->there = true;
		return 1;
	}
	r = find_place(put->store, data, put->len, &put->id, &put->heal, &found);
	if (r == 1) {
		put->there = true;
		put->there_loose = found.loose;
		put->unsynced = found.unsynced;
		/* the next content may be a delta of it */
		put->self = recents_find(put->store->recents, &put->id);
	}
	return r;
}

int shfs_object_put(struct shfs_store *store, const void *data, size_t len, int level,
                    const struct shfs_object_id *before, struct shfs_put **out)
{
	struct shfs_put *put = calloc(1, sizeof(*put));
	int r;

	if (!put)
		return -ENOMEM;
	put->store = store;
	put->len = len;
	put->level = level;
	put->file = LOOSE_FILE_NONE;
	shfs_object_hash(data, len, put->id.hash);
	put->check = object_cache_check(store->object_cache, data, len);
	r = shfs_lease_begin(store);
	put->leased = !r;
	if (!r)
		r = packs_begin(store);
	if (!r)
		r = put_find(put, data);
	if (!r)
		r = put_new(put, data, len, level, before);
	if (r < 0) {
		shfs_put_free(put);
		return r;
	}
	*out = put;
	return 0;
}

size_t shfs_object_memory(struct shfs_store *store)
{
	return recents_bytes(store->recents) + codecs_bytes(store->codecs);
}

struct shfs_object_id shfs_put_id(const struct shfs_put *put)
{
	return put->id;
}

uint64_t shfs_put_stored_bytes(const struct shfs_put *put)
{
	return put->there ? 0 : put->stored;
}

uint64_t shfs_put_memory(const struct shfs_put *put)
{
	/* self counts: recents may have dropped it, and only the put keeps it */
	return (put->coded.bytes ? put->coded.head + put->coded.len : 0) +
	       (put->self ? put->self->len : 0);
}

void put_drop_bytes(struct shfs_put *put)
{
	if (put->waits)
		atomic_fetch_sub(&put->store->n_waiting, 1);
	put->waits = false;
	loose_drop(put->store, &put->file);
	coded_free(&put->coded);
	put->coded = (struct coded){ 0 };
	recent_unref(put->base);
	put->base = NULL;
}

void shfs_put_free(struct shfs_put *put)
{
	struct shfs_object_id id;

	if (!put)
		return;
	if (put->self &&
	    recent_state(put->store->recents, put->self, &id, NULL) == RECENT_PENDING)
		recent_settle(put->store->recents, put->self, RECENT_DEAD);
	recent_unref(put->self);
	put_drop_bytes(put);
	if (put->leased)
		shfs_lease_end(put->store);
	free(put);
}

int shfs_object_begin(struct shfs_store *store)
{
	int r = shfs_lease_prepare(store);

	return r ? r : packs_begin(store);
}
