/* SPDX-License-Identifier: MIT */
/* Commits puts: gives them their final names, makes solid frames, and writes a batch. */
#include "store/objects/put-internal.h"

#include "common/debug.h"
#include "common/io.h"
#include "store/objects/lease.h"
#include "store/objects/object-cache.h"
#include "store/objects/objects.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define SOLID_LEVEL 1 /* of zstd, at most: for many small contents at once */

/* Bytes of contents in a solid frame. With 1 MiB packs would be 1 % smaller; but to read
 * one content, its frame is unpacked, and what damages a frame costs all of it. */
#define SOLID_FILL (256u << 10)

struct batch {
	struct shfs_store *store;
	struct shfs_put **puts;
	size_t n;
	struct shfs_buf bytes; /* of frames */
	struct packs_frame *frames;
	size_t n_frames;
	struct solid_group *groups;
	size_t n_groups;
	struct shfs_put *
		*written; /* puts that this batch writes, with their final names */
	size_t n_written;
};

static int piece_append(void *arg, const void *data, size_t len)
{
	shfs_buf_add(arg, data, len);
	return ((struct shfs_buf *)arg)->failed ? -ENOMEM : 0;
}

/* Decodes the content of the put. */
static int put_content(struct shfs_put *put, char **out)
{
	struct content base = { 0 };
	struct shfs_buf b = { 0 };
	unsigned char *stored = put->coded.bytes + put->coded.head;
	int r = 0;

	if (put->loose) {
		shfs_buf_add(&b, "", 0);
		r = loose_each_piece(put->file.fd, piece_append, &b);
		if (!r && b.len != put->len)
			r = -EBADMSG;
		if (!r)
			*out = TAKE_PTR(b.data);
		shfs_buf_free(&b);
		return r;
	}
	if (put->frame.kind == FRAME_SOLID) {
		*out = malloc(put->len + 1);
		if (*out)
			memcpy(*out, stored, put->len);
		return *out ? 0 : -ENOMEM;
	}
	if (put->frame.kind != FRAME_DELTA)
		return content_decode(put->store, &put->frame, stored, NULL, 0, out);
	if (put->base)
		return content_decode(put->store, &put->frame, stored, put->base->data,
		                      put->base->len, out);
	r = content_read(put->store, &put->frame.base, DELTA_LEN_MAX, &base);
	if (!r)
		r = content_decode(put->store, &put->frame, stored, base.data, base.len,
		                   out);
	content_free(&base);
	return r;
}

static struct shfs_put *batch_find(struct batch *b, const struct shfs_object_id *id)
{
	for (size_t i = 0; i < b->n_written; i++)
		if (shfs_object_equal(&b->written[i]->id, id))
			return b->written[i];
	return NULL;
}

static bool name_is_taken(struct batch *b, const struct shfs_object_id *id)
{
	uint64_t size;
	_cleanup_close_ int fd = -1;

	if (batch_find(b, id) || packs_may_have(b->store, id) ||
	    lease_condemns(b->store, id))
		return true;
	if (!loose_may_have(b->store, id))
		return false;
	fd = loose_open(b->store, id, &size);
	return fd != -ENOENT;
}

static int is_same_put(struct shfs_put *other, const char *data, size_t len)
{
	_cleanup_free_ char *content = NULL;
	int r;

	if (other->len != len)
		return 0;
	r = put_content(other, &content);
	return r ? r : !memcmp(content, data, len);
}

/* Finds a name for a put whose name was taken since, by another process or by another put
 * of this batch, with this content or with another. */
static int find_name(struct batch *b, struct shfs_put *put)
{
	_cleanup_free_ char *data = NULL;
	int r = put_content(put, &data);

	for (; !r && put->id.nth < COLLISIONS_MAX; put->id.nth++) {
		struct shfs_put *other = batch_find(b, &put->id);
		struct content found = { 0 };

		put->heal = false;
		if (lease_condemns(b->store, &put->id))
			continue;
		r = other ? is_same_put(other, data, put->len)
		          : content_is(b->store, &put->id, data, put->len, &found);
		if (r == 1) {
			put->there = put->just_there = true;
			put->there_loose = other ? other->loose : found.loose;
			put->unsynced = found.unsynced;
			put->cost = other ? other->cost
			                  : (struct recent_cost){ found.depth,
				                                  found.chain_bytes };
			return 0;
		}
		put->heal = !other && r == -EBADMSG;
		if (!other && (r == -ENOENT || put->heal))
			return 0;
	}
	return r ? r : -EEXIST;
}

/* Can the put stay a delta? Its base is an object by now, or earlier in this batch. What
 * that costs is known only now. A content that replaces a damaged one is no delta, see
 * put_new(). */
static bool stays_delta(struct shfs_put *put)
{
	struct recent_cost cost;
	enum recent_state state;

	if (put->heal)
		return false;
	if (!put->base)
		return true;
	state = recent_state(put->store->recents, put->base, &put->frame.base, &cost);
	if ((state != RECENT_COMMITTED && state != RECENT_NAMED) ||
	    lease_condemns(put->store, &put->frame.base) ||
	    shfs_object_equal(&put->frame.base, &put->id) || !cost_fits(cost, put->len))
		return false;
	set_base_cost(put, cost);
	return true;
}

/* Settles the base of a delta. If it cannot stay one, the content is encoded without a
 * base. */
static int settle_base(struct shfs_put *put)
{
	_cleanup_free_ char *data = NULL;
	struct shfs_put alone;
	int r;

	if (put->loose || put->frame.kind != FRAME_DELTA || stays_delta(put))
		return 0;
	r = put_content(put, &data);
	if (r)
		return r;
	alone = *put;
	alone.coded = (struct coded){ 0 };
	r = encode_alone(&alone, data, put->len, 1, SIZE_MAX);
	if (!r && alone.loose && fdatasync(alone.file.fd)) {
		r = -errno;
		loose_drop(put->store, &alone.file);
	}
	if (r) /* the put stays the delta */
		return r;
	alone.base = NULL;
	put->waits = false;
	put_drop_bytes(put);
	*put = alone;
	return 0;
}

static void batch_add_frame(struct batch *b, struct shfs_put *put)
{
	put->frame.id = put->id;
	frame_seal(&put->frame, put->coded.bytes);
	b->frames[b->n_frames++] = (struct packs_frame){ put->id, b->bytes.len };
	shfs_buf_add(&b->bytes, put->coded.bytes, put->coded.head + put->coded.len);
}

/* --- solid frames --- */

/* Puts of a batch that become one solid frame. */
struct solid_group {
	struct shfs_put *puts[SOLID_CONTENTS_MAX];
	struct solid_piece pieces[SOLID_CONTENTS_MAX];
	size_t n, bytes;
	struct coded coded;
	bool stale; /* some of it was found to be there: the others are compressed again
	             */
};

/* Is the content in a group already? The same file may have been copied twice. */
static bool is_grouped(const struct batch *b, const struct shfs_put *put)
{
	for (size_t i = 0; i < b->n_groups; i++)
		for (size_t k = 0; k < b->groups[i].n; k++)
			if (shfs_object_equal(&b->groups[i].puts[k]->id, &put->id))
				return true;
	return false;
}

static int group_put(struct batch *b, struct shfs_put *put)
{
	struct solid_group *g = b->n_groups ? &b->groups[b->n_groups - 1] : NULL;

	if (!g || g->n == SOLID_CONTENTS_MAX || g->bytes + put->len > SOLID_FILL) {
		struct solid_group *grown =
			reallocarray(b->groups, b->n_groups + 1, sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		b->groups = grown;
		g = &grown[b->n_groups++];
		*g = (struct solid_group){ 0 };
	}
	g->puts[g->n++] = put;
	g->bytes += put->len;
	return 0;
}

/* Lists what is to be written of the group. */
static void group_list(struct solid_group *g)
{
	size_t n = 0;

	g->bytes = 0;
	for (size_t i = 0; i < g->n; i++) {
		struct shfs_put *put = g->puts[i];

		if (put->there)
			continue;
		g->pieces[n] =
			(struct solid_piece){ put->id, put->coded.bytes + put->coded.head,
			                      put->len };
		g->puts[n++] = put;
		g->bytes += put->len;
	}
	g->n = n;
}

/* Compresses the group. 1: that is not worth it, and the puts have left it. */
static int group_compress(struct batch *b, struct solid_group *g)
{
	int level = SOLID_LEVEL, r = 1;

	coded_free(&g->coded);
	g->coded = (struct coded){ 0 };
	g->stale = false;
	group_list(g);
	for (size_t i = 0; i < g->n; i++)
		level = MIN(level, g->puts[i]->level);
	if (g->n > 1)
		r = solid_compress(b->store->codecs, g->pieces, g->n, level, &g->coded);
	for (size_t i = 0; i < g->n && r == 1; i++) {
		int error = put_leave_solid(g->puts[i]);

		if (error)
			return error;
	}
	return r;
}

/* Before other processes are kept from committing: puts get their groups, which are
 * compressed. */
static int batch_group(struct batch *b)
{
	int r = 0;

	for (size_t i = 0; i < b->n && !r; i++)
		if (!b->puts[i]->there && b->puts[i]->frame.kind == FRAME_SOLID &&
		    !is_grouped(b, b->puts[i]))
			r = group_put(b, b->puts[i]);
	for (size_t i = 0; i < b->n_groups && r >= 0; i++) {
		struct solid_group *g = &b->groups[i];

		for (size_t k = 0; k < g->n; k++)
			g->puts[k]->group = g;
		r = group_compress(b, g);
		if (r == 1)
			g->n = 0;
	}
	return MIN(r, 0);
}

/* Adds the group's frame to the batch, now that all names are final. */
static int batch_add_group(struct batch *b, struct solid_group *g)
{
	int r = g->stale ? group_compress(b, g) : 0;

	if (r < 0)
		return r;
	for (size_t i = 0; i < g->n; i++) {
		struct shfs_put *put = g->puts[i];

		if (r == 1) {
			batch_add_frame(b, put);
			continue;
		}
		g->pieces[i].id = put->id;
		put->stored =
			FRAME_MEMBER_BYTES + (uint64_t)g->coded.len * put->len / g->bytes;
		b->frames[b->n_frames++] = (struct packs_frame){ put->id, b->bytes.len };
	}
	if (r == 1 || !g->n)
		return b->bytes.failed ? -ENOMEM : 0;
	solid_seal(&g->coded, g->pieces, g->n);
	shfs_buf_add(&b->bytes, g->coded.bytes, g->coded.head + g->coded.len);
	return b->bytes.failed ? -ENOMEM : 0;
}

static void batch_free_groups(struct batch *b)
{
	for (size_t i = 0; i < b->n_groups; i++)
		coded_free(&b->groups[i].coded);
	free(b->groups);
}

static int name_loose(struct batch *b, struct shfs_put *put)
{
	int r;

	if (put->heal)
		loose_remove(b->store, &put->id);
	r = loose_name(b->store, &put->file, &put->id);
	if (r == -EEXIST) /* made by a version of shfs without packs */
		r = -EAGAIN;
	return r;
}

/* Gives the put its final name, and adds it to the batch. */
static int batch_add(struct batch *b, struct shfs_put *put)
{
	int r = 0;

	put->added = true;
	while (!put->there) {
		r = name_is_taken(b, &put->id) ? find_name(b, put) : 0;
		if (r || put->there)
			break;
		r = settle_base(put);
		if (!r && put->loose)
			r = name_loose(b, put);
		if (r != -EAGAIN)
			break;
	}
	if (r)
		return r;
	if (put->there && put->group)
		put->group->stale = true;
	if (!put->there && put->frame.kind == FRAME_SOLID && !put->group)
		r = put_leave_solid(put);
	if (r)
		return r;
	if (!put->there) {
		if (!put->loose && !put->group)
			batch_add_frame(b, put);
		b->written[b->n_written++] = put;
	}
	if (put->self)
		recent_name(b->store->recents, put->self, &put->id, put->cost);
	return b->bytes.failed ? -ENOMEM : 0;
}

/* Adds the solid frames: first of all, as deltas of their contents must lie behind them,
 * so that a write that is cut short leaves no delta without its base. */
static int batch_add_groups(struct batch *b)
{
	int r = 0;

	for (size_t i = 0; !r && i < b->n; i++)
		if (b->puts[i]->group)
			r = batch_add(b, b->puts[i]);
	for (size_t i = 0; !r && i < b->n_groups; i++)
		r = batch_add_group(b, &b->groups[i]);
	return r;
}

/* Syncs existing objects and bases of deltas: the process that wrote them may not have
 * synced them yet. */
static int sync_others(struct batch *b)
{
	bool done[256] = { false };
	struct pack *synced = NULL;
	int r = 0;

	for (size_t i = 0; !r && i < b->n; i++) {
		struct shfs_put *put = b->puts[i];
		uint8_t dir = put->id.hash[0];

		if (put->unsynced && put->unsynced != synced)
			r = packs_sync(b->store, synced = put->unsynced);
		if (r || done[dir] || !(put->there ? put->there_loose : put->loose))
			continue;
		done[dir] = true;
		r = loose_sync_name(b->store, &put->id);
	}
	return r;
}

static int batch_write(struct batch *b)
{
	int r = packs_commit_begin(b->store);

	if (r)
		return r;
	loose_refresh(b->store);
	r = batch_add_groups(b);
	for (size_t i = 0; !r && i < b->n; i++)
		if (!b->puts[i]->added)
			r = batch_add(b, b->puts[i]);
	if (!r && b->bytes.len)
		r = packs_append(b->store, b->bytes.data, b->bytes.len);
	packs_commit_written(b->store);
	if (!r)
		r = sync_others(b);
	return packs_commit_end(b->store, r, b->frames, b->n_frames);
}

/* After an error the puts are as before: they can be committed again. */
static void batch_end(struct batch *b, int error)
{
	for (size_t i = 0; i < b->n; i++) {
		struct shfs_put *put = b->puts[i];

		put->group = NULL;
		put->added = false;
		if (put->self)
			recent_settle(b->store->recents, put->self,
			              error ? RECENT_PENDING : RECENT_COMMITTED);
		if (error && put->just_there)
			put->there = false;
		put->just_there = false;
		if (error)
			continue;
		if (!(put->there ? put->there_loose : put->loose))
			object_cache_add(b->store->object_cache, &put->id, put->check);
		put->unsynced = NULL;
		put_drop_bytes(put);
	}
	batch_free_groups(b);
	free(b->frames);
	free(b->written);
	shfs_buf_free(&b->bytes);
}

static void debug_put(const struct shfs_put *put, int error)
{
	char name[44];

	shfs_object_name(&put->id, name);
	shfs_debug(OBJECTS, "%s, %zu bytes: %s", name, (size_t)put->len,
	           error                            ? strerrordesc_np(-error)
	           : put->there                     ? "was there"
	           : put->loose                     ? "a file of its own"
	           : put->frame.kind == FRAME_DELTA ? "a delta in the pack"
	           : put->frame.kind == FRAME_SOLID ? "with others in the pack"
	                                            : "whole in the pack");
}

int shfs_object_commit(struct shfs_store *store, struct shfs_put **puts, size_t n)
{
	struct batch b = { .store = store, .puts = puts, .n = n };
	bool all_there = true;
	int r = 0;

	for (size_t i = 0; i < n; i++) {
		all_there = all_there && puts[i]->there;
		if (puts[i]->file.fd >= 0 && fdatasync(puts[i]->file.fd))
			return -errno;
	}
	if (all_there) {
		r = sync_others(&b);
	} else {
		b.frames = calloc(n, sizeof(*b.frames));
		b.written = calloc(n, sizeof(struct shfs_put *));
		r = b.frames && b.written ? batch_group(&b) : -ENOMEM;
		if (!r)
			r = batch_write(&b);
	}
	for (size_t i = 0; shfs_debug_on(OBJECTS) && i < n; i++)
		debug_put(puts[i], r);
	batch_end(&b, r);
	return r;
}
