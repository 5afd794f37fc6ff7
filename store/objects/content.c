/* SPDX-License-Identifier: MIT */
#include "store/objects/content.h"

#include "common/io.h"
#include "store/objects/away.h"
#include "store/objects/object-internal.h"
#include "store/objects/pruned.h"

#include <errno.h>
#include <string.h>
#include <xxhash.h>

/* Of a chain that is read: more than is written (DELTA_DEPTH_MAX), as earlier versions
 * of shfs counted some wrongly. */
#define LINKS_MAX    512
#define KEPT_MAX     (8u << 20) /* bytes of its frames that are not read twice */
#define LINKS_READ   2048       /* of all chains that are tried for one content */
#define LOOKS        3          /* for an object that is not found */
#define STREAM_BYTES (1u << 20) /* a larger content is not copied through memory */

/* --- contents in packs --- */

/* The frames of a delta: from the wanted frame to one that has no base in a pack. */
struct chain {
	struct packed links[LINKS_MAX];
	unsigned n;
	uint8_t skips[LINKS_MAX]; /* for each link: how many frames of its name to skip */
	unsigned links_read;
	size_t kept;
	char *base; /* the loose object that the last link is a delta of; or NULL */
	size_t base_len;
};

static void chain_free(struct chain *c)
{
	if (!c)
		return;
	for (unsigned i = 0; i < c->n; i++)
		packed_free(&c->links[i]);
	free(c->base);
	free(c);
}

static void chain_freep(struct chain **c)
{
	chain_free(*c);
}

static int loose_read(struct shfs_store *store, const struct shfs_object_id *id,
                      uint64_t max_bytes, struct content *out);

/* Reads the base of the last link, a loose object. */
static int chain_end_loose(struct shfs_store *store, struct chain *c,
                           const struct shfs_object_id *id)
{
	struct content base = { 0 };
	int r = loose_read(store, id, DELTA_LEN_MAX, &base);

	if (r)
		return r == -ENOENT || r == -EFBIG ? -EBADMSG : r;
	c->base = base.data;
	c->base_len = base.len;
	return 0;
}

/* Is the last link in the chain already, so that it needs itself? */
static bool chain_is_ring(const struct chain *c)
{
	const struct packed *last = &c->links[c->n - 1];

	for (unsigned i = 0; i < c->n - 1; i++)
		if (c->links[i].pack == last->pack && c->links[i].offset == last->offset)
			return true;
	return false;
}

/* Reads the rest of the chain's frames. */
static int chain_read(struct shfs_store *store, const struct shfs_object_id *wanted,
                      uint64_t max_bytes, struct chain *c)
{
	struct shfs_object_id id = c->n ? c->links[c->n - 1].frame.base : *wanted;

	while (c->n < LINKS_MAX) {
		struct packed *link = &c->links[c->n];
		int r = packs_read(store, &id, c->skips[c->n], link);

		c->links_read++;

		if (c->n && (r == -ENOENT || r == -EBADMSG))
			return chain_end_loose(store, c, &id);
		c->n++; /* also after an error, so that the link is freed */
		if (r)
			return r;
		if (link->frame.size > (c->n > 1 ? DELTA_LEN_MAX : max_bytes))
			return c->n > 1 ? -EBADMSG : -EFBIG;
		if (link->frame.kind != FRAME_DELTA)
			return 0;
		if (link->frame.size > DELTA_LEN_MAX || chain_is_ring(c))
			return -EBADMSG;
		c->kept += link->frame.stored;
		if (c->kept > KEPT_MAX && c->n > 1) /* chain_decode reads it again */
			packed_free(link);
		id = link->frame.base;
	}
	return -EBADMSG; /* longer than any chain that is written */
}

int content_decode(struct shfs_store *store, const struct frame *f, unsigned char *stored,
                   const void *base, size_t base_len, char **out)
{
	char *data;
	int r = 0;

	/* A frame of a few bytes that claims gigabytes is forged: the best that zstd can
	 * do is some 128 KiB for 3 bytes. */
	if (f->size > ((uint64_t)f->stored + 1) << 16 || f->kind == FRAME_SOLID)
		return -EBADMSG;
	data = malloc(f->size + 1);
	if (!data)
		return -ENOMEM;
	data[f->size] = '\0';
	if (f->kind == FRAME_RAW)
		memcpy(data, stored, f->stored);
	else
		r = codec_decompress(store->codecs, stored, f->stored, base, base_len,
		                     data, f->size);
	if (r)
		free(data);
	else
		*out = data;
	return r;
}

static bool has_hash(const struct shfs_object_id *id, const void *data, size_t len)
{
	uint8_t hash[16];

	shfs_object_hash(data, len, hash);
	return !memcmp(hash, id->hash, sizeof(hash));
}

/* Decodes a link, whose base is given if it is a delta. */
static int link_decode(struct shfs_store *store, struct packed *link, const void *base,
                       size_t base_len, char **out)
{
	if (link->solid)
		return solid_content(link->solid, store->codecs, &link->frame, out);
	return content_decode(store, &link->frame,
	                      link->bytes + frame_head_bytes(link->frame.kind), base,
	                      base_len, out);
}

/* Decodes the chain from the last link to the first. */
static int chain_decode(struct shfs_store *store, struct chain *c, char **out)
{
	_cleanup_free_ char *base = TAKE_PTR(c->base);
	size_t base_len = c->base_len;
	bool based = base;

	for (unsigned i = c->n; i-- > 0;) {
		struct packed *link = &c->links[i];
		struct shfs_object_id id = link->frame.id;
		char *data;
		int r = link->bytes || link->solid
		                ? 0
		                : packs_read(store, &id, c->skips[i], link);

		if (!r)
			r = link_decode(store, link, based ? base : NULL, base_len,
			                &data);
		if (r)
			return r == -ENOENT ? -EBADMSG : r;
		free(base);
		base = data;
		base_len = link->frame.size;
		based = true;
		if (!has_hash(&id, base, base_len))
			return -EBADMSG;
		packed_free(link);
	}
	*out = TAKE_PTR(base);
	return 0;
}

static int chain_content(struct shfs_store *store, const struct shfs_object_id *id,
                         uint64_t max_bytes, struct chain *c, struct content *out)
{
	struct content v = { 0 };
	int r = chain_read(store, id, max_bytes, c);

	if (r)
		return r;
	for (unsigned i = 0; i < c->n; i++) {
		v.chain_bytes += c->links[i].frame.size;
		if (!v.unsynced && !c->links[i].durable)
			v.unsynced = c->links[i].pack;
	}
	v.chain_bytes += c->base_len;
	v.depth = c->n - 1 + !!c->base;
	v.len = c->links[0].frame.size;
	r = chain_decode(store, c, &v.data);
	if (!r)
		*out = v;
	return r;
}

/* Drops the last link, so that the next frame of its name is tried. */
static void chain_step_back(struct chain *c)
{
	struct packed *link = &c->links[--c->n];

	packed_free(link);
	*link = (struct packed){ 0 };
	c->base_len = 0;
	c->skips[c->n]++;
	memset(c->skips + c->n + 1, 0, LINKS_MAX - c->n - 1);
}

/* Reads the object by the skip+1'th frame of its name. For its bases, too, further frames
 * are tried: the frame that replaced a damaged one is not always found first. */
static int packed_read(struct shfs_store *store, const struct shfs_object_id *id,
                       unsigned skip, uint64_t max_bytes, struct content *out,
                       unsigned *links_read)
{
	_cleanup_(chain_freep) struct chain *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return -ENOMEM;
	c->skips[0] = (uint8_t)skip;
	do {
		r = chain_content(store, id, max_bytes, c, out);
		if (r != -EBADMSG || c->n < 2)
			break;
		chain_step_back(c);
	} while (*links_read + c->links_read < LINKS_READ);
	*links_read += c->links_read;
	return r;
}

/* --- loose contents --- */

struct filling {
	char *data;
	size_t len, size;
};

static int piece_fill(void *arg, const void *data, size_t len)
{
	struct filling *f = arg;

	if (len > f->size - f->len) {
		size_t size = MAX(f->size * 2, f->len + len);
		char *grown = realloc(f->data, size + 1);

		if (!grown)
			return -ENOMEM;
		f->data = grown;
		f->size = size;
	}
	memcpy(f->data + f->len, data, len);
	f->len += len;
	return 0;
}

static int loose_read(struct shfs_store *store, const struct shfs_object_id *id,
                      uint64_t max_bytes, struct content *out)
{
	uint64_t size;
	_cleanup_close_ int fd = loose_open(store, id, &size);
	struct filling f = { 0 };
	int r;

	if (fd < 0)
		return fd;
	if (size > max_bytes)
		return -EFBIG;
	r = loose_each_piece(fd, piece_fill, &f);
	if (!r && !f.data && !(f.data = malloc(1)))
		r = -ENOMEM;
	if (!r && !has_hash(id, f.data, f.len))
		r = -EBADMSG;
	if (r) {
		free(f.data);
		return r;
	}
	f.data[f.len] = '\0';
	*out = (struct content){
		.data = f.data, .len = f.len, .chain_bytes = f.len, .loose = true
	};
	return 0;
}

/* --- both --- */

/* Tries all frames of the name: one of them may have replaced a damaged one. */
int content_read(struct shfs_store *store, const struct shfs_object_id *id,
                 uint64_t max_bytes, struct content *out)
{
	unsigned links_read = 0;
	bool damaged = false;
	int r;

	for (unsigned skip = 0; skip < COLLISIONS_MAX && links_read < LINKS_READ;
	     skip++) {
		r = packed_read(store, id, skip, max_bytes, out, &links_read);
		if (r != -EBADMSG && r != -ENOENT)
			return r;
		if (r == -ENOENT)
			break;
		damaged = true;
	}
	r = loose_read(store, id, max_bytes, out);
	return r == -ENOENT && damaged ? -EBADMSG : r;
}

/* *left: frames that may still be looked at. */
static int find_intact_content(struct shfs_store *store, const struct shfs_object_id *id,
                               unsigned *left)
{
	_cleanup_close_ int fd = -1;
	uint64_t size;

	for (unsigned skip = 0; skip < COLLISIONS_MAX; skip++) {
		struct packed p = { 0 };
		int r = (*left)-- ? packs_read(store, id, skip, &p) : -EBADMSG;

		packed_free(&p);
		if (r == -ENOENT)
			break;
		if (r || p.frame.kind != FRAME_DELTA)
			return r;
		r = find_intact_content(store, &p.frame.base, left);
		if (r != -ENOENT)
			return r;
	}
	fd = loose_open(store, id, &size);
	return MIN(fd, 0);
}

int content_look(struct shfs_store *store, const struct shfs_object_id *id)
{
	unsigned left = LINKS_READ;

	return find_intact_content(store, id, &left);
}

struct comparing {
	const char *p;
	size_t left;
};

static int piece_compare(void *arg, const void *data, size_t len)
{
	struct comparing *c = arg;

	if (len > c->left || memcmp(c->p, data, len))
		return 1;
	c->p += len;
	c->left -= len;
	return 0;
}

/* Does the loose object have this content? Compared without reading it into memory. */
static int loose_is(struct shfs_store *store, const struct shfs_object_id *id,
                    const void *data, size_t len)
{
	struct comparing c = { data, len };
	uint64_t size;
	_cleanup_close_ int fd = loose_open(store, id, &size);
	int r;

	if (fd < 0)
		return fd;
	if (size == len) {
		r = loose_each_piece(fd, piece_compare, &c);
		return r == 1 ? 0 : r ? r : 1;
	}
	return 0;
}

int content_is(struct shfs_store *store, const struct shfs_object_id *id,
               const void *data, size_t len, struct content *out)
{
	bool packed = packs_may_have(store, id);
	struct content found = { .len = len, .chain_bytes = len, .loose = true };
	int r = packed                      ? -EBADMSG
	        : loose_may_have(store, id) ? loose_is(store, id, data, len)
	                                    : -ENOENT;

	if (r == 1)
		*out = found;
	if (r && r != -EBADMSG)
		return r;
	/* The object is in a pack, or differs. It may be damaged: its hash shows that. */
	found = (struct content){ 0 };
	r = content_read(store, id, MAX((uint64_t)len, DELTA_LEN_MAX), &found);
	if (r)
		return r == -EFBIG ? 0 : r;
	r = found.len == len && !memcmp(found.data, data, len);
	free(TAKE_PTR(found.data));
	if (r)
		*out = found;
	return r;
}

/* --- reading, for all --- */

/* Returns -ENODATA in place of r if the object was pruned, not lost. */
static int why_not_there(struct shfs_store *store, const struct shfs_object_id *id, int r)
{
	if ((r != -ENOENT && r != -EBADMSG) || shfs_object_is_pruned(store, id) <= 0)
		return r;
	return r == -ENOENT || content_look(store, id) == -ENOENT ? -ENODATA : r;
}

/* Brings an object that could not be read (r) if only a remote has it. 1: it is here now;
 * -EREMOTE; or r. */
static int bring(struct shfs_store *store, const struct shfs_object_id *id, int r)
{
	if ((r != -ENOENT && r != -EBADMSG) || shfs_object_is_away(store, id) <= 0 ||
	    (r == -EBADMSG && content_look(store, id) != -ENOENT))
		return r;
	r = away_supply(store, id);
	return r ? r : packs_relearn(store) ?: 1;
}

/* Reads an object, and looks again if it is not found: a mount may just have written it,
 * or a collection may be moving it. */
static int read_fresh(struct shfs_store *store, const struct shfs_object_id *id,
                      uint64_t max_bytes, struct content *out)
{
	int r = content_read(store, id, max_bytes, out);

	for (int i = 0; i < LOOKS && (r == -ENOENT || r == -EBADMSG); i++) {
		r = packs_relearn(store);
		if (!r)
			r = content_read(store, id, max_bytes, out);
	}
	r = bring(store, id, why_not_there(store, id, r));
	return r == 1 ? content_read(store, id, max_bytes, out) : r;
}

int shfs_object_read(struct shfs_store *store, const struct shfs_object_id *id,
                     uint64_t max_bytes, struct shfs_buf *out)
{
	_cleanup_content_ struct content c = { 0 };
	int r = read_fresh(store, id, max_bytes, &c);

	if (r)
		return r;
	shfs_buf_add(out, c.data, c.len);
	return out->failed ? -ENOMEM : 0;
}

struct copying {
	int fd;
	bool begun;
	XXH3_state_t *hash;
};

static int piece_write(void *arg, const void *data, size_t len)
{
	struct copying *c = arg;

	c->begun = true;
	XXH3_128bits_update(c->hash, data, len);
	return shfs_write_all(c->fd, data, len);
}

static int copy_whole(struct shfs_store *store, const struct shfs_object_id *id,
                      struct copying *c)
{
	_cleanup_content_ struct content whole = { 0 };
	int r = content_read(store, id, DELTA_LEN_MAX, &whole);

	if (r)
		return r == -EFBIG ? -EBADMSG : r;
	return piece_write(c, whole.data, whole.len);
}

/* Copies an object; a large one without a base piece by piece. */
static int copy(struct shfs_store *store, const struct shfs_object_id *id,
                struct copying *c)
{
	_cleanup_packed_ struct packed p = { 0 };
	_cleanup_close_ int fd = -1;
	uint64_t size;
	int r = packs_read(store, id, 0, &p);

	if (r == -ENOENT) {
		fd = loose_open(store, id, &size);
		return fd < 0 ? fd : loose_each_piece(fd, piece_write, c);
	}
	if (r)
		return r;
	if (p.frame.kind != FRAME_ZSTD || p.frame.size <= STREAM_BYTES)
		return copy_whole(store, id, c);
	return codec_each_piece(p.bytes + FRAME_HEAD_BYTES, p.frame.stored, p.frame.size,
	                        piece_write, c);
}

int shfs_object_copy(struct shfs_store *store, const struct shfs_object_id *id, int fd)
{
	struct copying c = { .fd = fd, .hash = XXH3_createState() };
	XXH128_canonical_t hash;
	int r = c.hash ? 0 : -ENOMEM;

	if (!r) {
		XXH3_128bits_reset(c.hash);
		r = copy(store, id, &c);
	}
	for (int i = 0; i < LOOKS && !c.begun && (r == -ENOENT || r == -EBADMSG); i++) {
		r = packs_relearn(store);
		if (!r)
			r = copy(store, id, &c);
		if (!c.begun && r == -EBADMSG)
			r = copy_whole(store, id, &c);
	}
	if (!c.begun)
		r = bring(store, id, why_not_there(store, id, r));
	if (r == 1)
		r = copy(store, id, &c);
	if (!r) {
		XXH128_canonicalFromHash(&hash, XXH3_128bits_digest(c.hash));
		/* (a test may have replaced the hash that names objects) */
		if (shfs_object_hash == shfs_object_hash_xxh3 &&
		    memcmp(hash.digest, id->hash, 16))
			r = -EBADMSG;
	}
	XXH3_freeState(c.hash);
	return why_not_there(store, id, r);
}

/* --- a hash of pieces --- */

struct object_hash {
	XXH3_state_t *state;
};

struct object_hash *object_hash_new(void)
{
	_cleanup_free_ struct object_hash *h = malloc(sizeof(*h));

	if (!h || !(h->state = XXH3_createState()))
		return NULL;
	XXH3_128bits_reset(h->state);
	return TAKE_PTR(h);
}

void object_hash_add(struct object_hash *h, const void *data, size_t len)
{
	XXH3_128bits_update(h->state, data, len);
}

void object_hash_end(struct object_hash *h, uint8_t out[16])
{
	XXH128_canonical_t hash;

	if (!h)
		return;
	XXH128_canonicalFromHash(&hash, XXH3_128bits_digest(h->state));
	memcpy(out, hash.digest, 16);
	XXH3_freeState(h->state);
	free(h);
}
