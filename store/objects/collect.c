/* SPDX-License-Identifier: MIT */
#include "store/objects/collect.h"

#include "common/io.h"
#include "store/objects/content.h"
#include "store/objects/inventory.h"
#include "store/objects/object-internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#define LEVEL       6 /* of zstd, for contents that are stored anew */
#define WRITE_BYTES (4u << 20)
#define NEW_SUFFIX  ".new" /* of a pack that is not complete */
#define PACK_MS     5000   /* time to wait for a commit into a pack */
#define POLL_MS     2

struct old_pack;

struct collection {
	unsigned errors; /* packs_read_errors at the begin */
	struct shfs_store *store;
	const struct shfs_object_id *ids; /* the objects to remove; sorted */
	size_t n;
	int dirfd;                         /* objects/packs */
	struct old_pack *old;              /* packs to write anew */
	size_t n_old, n_copied, n_removed; /* so far */
	/* of the pack that is examined */
	bool found, found_leaning, found_needed;
	uint64_t kept;
	struct lean *lean; /* deltas of objects to remove */
	size_t n_lean, cap_lean;
	struct shfs_objects needed; /* objects to remove that deltas which stay need */
	bool tight;     /* each old pack is removed before the next one is read */
	int no_room;    /* error: some packs are left for lack of room */
	size_t skipped; /* packs that were in use all the time */
	/* Names of packs are not used again, as other processes may remember the old pack
	 * of a name. So the slot is a random number, which no producer has. */
	uint32_t slot, next;

	int from; /* the pack that is read */
	const char *now;
	uint64_t end;      /* of its last frame so far */
	shfs_keep_fn keep; /* or NULL */
	int failed;        /* the error of copying a frame */
	void *arg;
	/* the pack that is written; fd -1: none */
	int fd;
	char name[128];
	struct shfs_buf bytes; /* not written yet */
	uint64_t size;
	struct pack_entry *entries;
	size_t n_entries, cap;
};

static bool is_to_remove(const struct collection *c, const struct shfs_object_id *id)
{
	return c->n && bsearch(id, c->ids, c->n, sizeof(*c->ids), shfs_object_compare);
}

static bool has_no_room(int error)
{
	return error == -ENOSPC || error == -EDQUOT;
}

static bool leans(const struct collection *c, const struct frame *f)
{
	return f->kind == FRAME_DELTA && is_to_remove(c, &f->base);
}

/* --- which packs --- */

struct old_pack {
	char name[128];
	bool leans;    /* it has a delta that stays, of an object to remove */
	uint64_t kept; /* bytes of frames that stay as they are */
	int fd;        /* holds a lock, so that nobody appends; -1: not open */
};

struct lean {
	struct shfs_object_id id, base;
};

static int is_concerned(void *arg, const struct frame *f, uint64_t offset)
{
	struct collection *c = arg;

	c->found |= is_to_remove(c, &f->id);
	if (leans(c, f)) {
		c->found_leaning |= !is_to_remove(c, &f->id);
		if (!MAKE_ROOM(c->lean, c->n_lean, c->cap_lean))
			return -ENOMEM;
		c->lean[c->n_lean++] = (struct lean){ f->id, f->base };
	} else if (!is_to_remove(c, &f->id)) {
		c->kept += frame_share(f);
	}
	return 0;
}

static int add_old(struct collection *c, const char *name, bool leans, uint64_t kept)
{
	struct old_pack *old = reallocarray(c->old, c->n_old + 1, sizeof(*old));

	if (!old)
		return -ENOMEM;
	c->old = old;
	old += c->n_old++;
	*old = (struct old_pack){ .leans = leans, .kept = kept, .fd = -1 };
	snprintf(old->name, sizeof(old->name), "%s", name);
	return 0;
}

static int look_at_pack(void *arg, const char *name)
{
	struct collection *c = arg;
	int r;

	c->found = c->found_leaning = false;
	c->kept = 0;
	r = strlen(name) < sizeof(c->old->name)
	            ? inventory_pack(c->dirfd, name, is_concerned, c)
	            : 0;
	if (r == -EIO) /* a pack that cannot be read stays, if it has nothing to remove */
		r = 0;
	if (r < 0 || (!c->found && !c->found_leaning))
		return MIN(r, 0);
	return add_old(c, name, c->found_leaning, c->kept);
}

static int remove_rest(void *arg, const char *name)
{
	struct collection *c = arg;

	return unlinkat(c->dirfd, name, 0) && errno != ENOENT ? -errno : 0;
}

/* Finds the objects to remove that deltas which stay need, be it through other objects to
 * remove. */
static int find_needed(struct collection *c)
{
	size_t before = SIZE_MAX;
	int r = 0;

	while (!r && c->needed.n != before) {
		struct shfs_objects more = { 0 };

		before = c->needed.n;
		for (size_t i = 0; i < c->n_lean && !r; i++)
			if (!is_to_remove(c, &c->lean[i].id) ||
			    shfs_objects_has(&c->needed, &c->lean[i].id))
				r = shfs_objects_add(&more, &c->lean[i].base);
		shfs_objects_sort(&more);
		shfs_objects_free(&c->needed);
		c->needed = more;
	}
	return r;
}

static int compare_kept(const void *a, const void *b)
{
	const struct old_pack *x = a, *y = b;

	return (x->kept > y->kept) - (x->kept < y->kept);
}

/* Finds the packs to write anew. The ones of which the least stays come first: they need
 * the least room. */
static int look_at_packs(struct collection *c)
{
	int r = inventory_names(c->dirfd, ".pack" NEW_SUFFIX, remove_rest, c);

	c->n_old = c->n_lean = 0;
	shfs_objects_free(&c->needed);
	c->needed = (struct shfs_objects){ 0 };
	if (!r)
		r = inventory_names(c->dirfd, ".pack", look_at_pack, c);
	if (!r)
		r = find_needed(c);
	if (c->n_old)
		qsort(c->old, c->n_old, sizeof(*c->old), compare_kept);
	return r;
}

/* --- the packs that replace them --- */

static int write_new_pack(struct collection *c)
{
	int r = c->bytes.failed ? -ENOMEM
	                        : shfs_write_all(c->fd, c->bytes.data, c->bytes.len);

	c->bytes.len = 0;
	return r;
}

static void idx_name(const char *pack, char out[static 128])
{
	snprintf(out, 128, "%.*s.idx", (int)(strlen(pack) - strlen(".pack")), pack);
}

static int remove_pack(struct collection *c, struct old_pack *old)
{
	char idx[128];

	idx_name(old->name, idx);
	if ((unlinkat(c->dirfd, idx, 0) && errno != ENOENT) ||
	    (unlinkat(c->dirfd, old->name, 0) && errno != ENOENT))
		return -errno;
	close(TAKE_FD(old->fd));
	return 0;
}

/* Removes the old packs whose frames are durable elsewhere. */
static int remove_copied(struct collection *c)
{
	bool any = c->n_removed < c->n_copied;

	for (; c->n_removed < c->n_copied; c->n_removed++) {
		struct old_pack *old = &c->old[c->n_removed];
		int r;

		if (old->fd < 0) /* in use: it stays */
			continue;
		r = remove_pack(c, old);
		if (r)
			return r;
	}
	return any && fsync(c->dirfd) ? -errno : 0;
}

static void new_name(struct collection *c)
{
	snprintf(c->name, sizeof(c->name), "%s-%" PRIu32 "-%06" PRIu32 ".pack",
	         c->store->host, c->slot, c->next++);
}

/* Renames without replacing another pack. A file system that cannot do so (NFS) gets a
 * second name for the file instead. */
static int rename_new(int dirfd, const char *from, const char *to)
{
	if (!renameat2(dirfd, from, dirfd, to, RENAME_NOREPLACE))
		return 0;
	if (errno != EINVAL)
		return -errno;
	return linkat(dirfd, from, dirfd, to, 0) || unlinkat(dirfd, from, 0) ? -errno : 0;
}

static int name_pack(struct collection *c, const char *temp)
{
	int r;

	while ((r = rename_new(c->dirfd, temp, c->name))) {
		if (r != -EEXIST)
			return r;
		new_name(c);
	}
	return fsync(c->dirfd) ? -errno : 0;
}

static int finish_pack(struct collection *c)
{
	char temp[160], idx[128];
	int r;

	if (c->fd < 0)
		return 0;
	snprintf(temp, sizeof(temp), "%s" NEW_SUFFIX, c->name);
	r = write_new_pack(c);
	if (!r && fsync(c->fd))
		r = -errno;
	if (!r)
		r = name_pack(c, temp);
	idx_name(c->name, idx);
	if (!r) /* last: an index is trusted for any pack of its name */
		r = pack_index_write(c->dirfd, idx, c->size, c->entries, c->n_entries);
	if (has_no_room(r) && !faccessat(c->dirfd, c->name, F_OK, 0))
		r = 0; /* readers scan a pack without an index */
	shfs_closep(&c->fd);
	c->fd = -1;
	c->n_entries = 0;
	return r ? r : remove_copied(c);
}

static int begin_pack(struct collection *c)
{
	char temp[160];
	int r;

	new_name(c);
	snprintf(temp, sizeof(temp), "%s" NEW_SUFFIX, c->name);
	if ((r = shfs_store_raise(c->store)))
		return r;
	c->fd = openat(c->dirfd, temp,
	               O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (c->fd < 0)
		return -errno;
	shfs_buf_add(&c->bytes, PACK_MAGIC, PACK_HEAD_BYTES);
	c->size = PACK_HEAD_BYTES;
	return 0;
}

/* Adds a frame of n contents, len bytes. */
static int new_pack_add_frame(struct collection *c, const struct solid_piece *pieces,
                              size_t n, const void *bytes, size_t len)
{
	int r = 0;

	if (c->fd >= 0 && c->size + len > packs_full_bytes)
		r = finish_pack(c);
	if (!r && c->fd < 0)
		r = begin_pack(c);
	if (r)
		return r;
	shfs_buf_add(&c->bytes, bytes, len);
	if (c->bytes.failed)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		if (!MAKE_ROOM(c->entries, c->n_entries, c->cap))
			return -ENOMEM;
		c->entries[c->n_entries++] =
			(struct pack_entry){ pack_prefix(&pieces[i].id),
			                     (uint32_t)c->size };
	}
	c->size += len;
	return c->bytes.len >= WRITE_BYTES ? write_new_pack(c) : 0;
}

/* --- deltas of objects to remove --- */

static int add_loose(struct collection *c, const struct shfs_object_id *id,
                     const struct content *v, const struct coded *coded)
{
	struct loose_file file = LOOSE_FILE_NONE;
	const void *bytes = v->data;
	size_t len = v->len;
	int r;

	if (coded) {
		bytes = coded->bytes + coded->head - CODEC_MAGIC_BYTES;
		len = coded->len + CODEC_MAGIC_BYTES;
	}
	r = loose_write(c->store, id, v->len, bytes, len, coded, &file);
	if (!r && fdatasync(file.fd))
		r = -errno;
	if (!r)
		r = loose_name(c->store, &file, id);
	if (!r || r == -EEXIST)
		r = loose_sync_name(c->store, id);
	loose_drop(c->store, &file);
	return r;
}

static int add_one(struct collection *c, const struct shfs_object_id *id,
                   const void *bytes, size_t len)
{
	const struct solid_piece piece = { .id = *id };

	return new_pack_add_frame(c, &piece, 1, bytes, len);
}

static int add_raw(struct collection *c, const struct shfs_object_id *id,
                   const struct content *v)
{
	_cleanup_buf_ struct shfs_buf frame = { 0 };
	struct frame f = {
		.kind = FRAME_RAW, .id = *id, .size = v->len, .stored = (uint32_t)v->len
	};

	if (v->len > FRAME_STORED_MAX)
		return add_loose(c, id, v, NULL);
	shfs_buf_reserve(&frame, FRAME_HEAD_BYTES + v->len);
	if (frame.failed)
		return -ENOMEM;
	memcpy(frame.data + FRAME_HEAD_BYTES, v->data, v->len);
	frame_seal(&f, (unsigned char *)frame.data);
	return add_one(c, id, frame.data, FRAME_HEAD_BYTES + v->len);
}

static int add_without_base(struct collection *c, const struct shfs_object_id *id,
                            const struct content *v)
{
	_cleanup_coded_ struct coded coded = { 0 };
	struct frame f = { .kind = FRAME_ZSTD, .id = *id, .size = v->len };
	int r = 1;

	if (v->len >= 64)
		r = codec_compress(c->store->codecs, v->data, v->len, LEVEL, NULL, 0,
		                   FRAME_HEAD_BYTES, v->len, &coded);
	if (r)
		return r < 0 ? r : add_raw(c, id, v);
	if (coded.len > FRAME_STORED_MAX)
		return add_loose(c, id, v, &coded);
	f.stored = (uint32_t)coded.len;
	frame_seal(&f, coded.bytes);
	return add_one(c, id, coded.bytes, FRAME_HEAD_BYTES + coded.len);
}

static void report_dropped(struct collection *c, uint64_t from, uint64_t to)
{
	char file[160];

	snprintf(file, sizeof(file), "objects/packs/%s", c->now);
	if (c->store->on_dropped)
		c->store->on_dropped(c->store, file, from, to);
}

/* Reports damage between the last frame and `to`, which is not kept. A torn write or a
 * frame of an object to remove is not reported. */
static int report_gap(struct collection *c, uint64_t to, bool at_end)
{
	uint64_t from = c->end;
	size_t len = (size_t)MIN(to - from, (uint64_t)FRAME_MAX);
	_cleanup_free_ unsigned char *bytes = NULL;
	struct frame f;
	ssize_t n;

	if (to == from || c->keep) /* repair has reported it */
		return 0;
	bytes = malloc(len);
	if (!bytes)
		return -ENOMEM;
	n = shfs_pread_full(c->from, bytes, len, (off_t)from);
	if (n >= 0 && pack_is_torn(bytes, (size_t)n, at_end))
		return 0;
	if (n >= FRAME_HEAD_BYTES && !frame_parse(bytes, (size_t)n, &f) &&
	    is_to_remove(c, &f.id))
		return 0;
	report_dropped(c, from, to);
	return 0;
}

/* Stores a delta that stays anew, without its base, while the base still exists. */
static int keep_leaning(void *arg, const struct frame *f, uint64_t offset)
{
	struct collection *c = arg;
	_cleanup_content_ struct content v = { 0 };
	int r;

	if (!leans(c, f) || is_to_remove(c, &f->id))
		return 0;
	r = content_read(c->store, &f->id, DELTA_LEN_MAX, &v);
	if (r == -EBADMSG || r == -ENOENT) { /* damaged, or not readable now */
		if (!c->keep && c->errors != packs_read_errors(c->store))
			return -EIO;
		report_dropped(c, offset, offset + frame_head_bytes(f->kind) + f->stored);
		return 0;
	}
	return r ? r : add_without_base(c, &f->id, &v);
}

/* --- frames that stay --- */

static bool stays(struct collection *c, const struct frame *f, uint64_t offset)
{
	return !is_to_remove(c, &f->id) && !leans(c, f) &&
	       (!c->keep || c->keep(c->arg, c->now, offset, &f->id));
}

/* The contents of a solid frame that stay. */
struct staying {
	struct solid_piece pieces[SOLID_CONTENTS_MAX];
	size_t n;
};

static void staying_freep(struct staying **s)
{
	for (size_t i = 0; *s && i < (*s)->n; i++)
		free((void *)(*s)->pieces[i].data);
	free(*s);
}

static int add_contents_alone(struct collection *c, const struct staying *s)
{
	int r = 0;

	for (size_t i = 0; i < s->n && !r; i++) {
		const struct content v = { .data = (char *)s->pieces[i].data,
			                   .len = s->pieces[i].len };

		r = add_without_base(c, &s->pieces[i].id, &v);
	}
	return r;
}

/* Adds contents of a solid frame anew: nothing is left of the others. */
static int add_staying(struct collection *c, const struct staying *s)
{
	_cleanup_coded_ struct coded coded = { 0 };
	int r = s->n < 2 ? 1
	                 : solid_compress(c->store->codecs, s->pieces, s->n, LEVEL,
	                                  &coded);

	if (r)
		return r < 0 ? r : add_contents_alone(c, s);
	solid_seal(&coded, s->pieces, s->n);
	return new_pack_add_frame(c, s->pieces, s->n, coded.bytes,
	                          coded.head + coded.len);
}

/* Gets the contents of a solid frame that stay. One that is damaged is dropped. */
static int unpack_staying(struct collection *c, struct solid *solid, uint64_t offset,
                          struct staying *out)
{
	int r = 0;

	for (unsigned i = 0; i < solid_count(solid) && r != -ENOMEM; i++) {
		struct frame f = solid_member(solid, i);
		uint8_t hash[16];
		char *data;

		if (!stays(c, &f, offset))
			continue;
		r = solid_content(solid, c->store->codecs, &f, &data);
		if (!r)
			shfs_object_hash(data, f.size, hash);
		if (!r && !memcmp(hash, f.id.hash, sizeof(hash))) {
			out->pieces[out->n++] =
				(struct solid_piece){ f.id, data, f.size };
			continue;
		}
		if (!r)
			free(data);
		if (r != -ENOMEM && !c->keep) /* repair has reported it */
			report_dropped(c, offset, offset + solid_frame_bytes(solid));
	}
	return r == -ENOMEM ? r : 0;
}

static int keep_part(struct collection *c, const unsigned char *bytes, size_t len,
                     uint64_t offset)
{
	unsigned char *copy = malloc(len);
	struct solid *solid = NULL;
	_cleanup_(staying_freep) struct staying *staying = calloc(1, sizeof(*staying));
	int r;

	if (copy)
		memcpy(copy, bytes, len);
	if (copy && staying)
		solid = solid_new(copy, len);
	if (!solid) {
		free(copy);
		return -ENOMEM;
	}
	r = unpack_staying(c, solid, offset, staying);
	if (!r)
		r = add_staying(c, staying);
	solid_unref(solid);
	return r;
}

/* Notes the contents of a frame that stay. */
static size_t list_staying(struct collection *c, const struct frame *f,
                           const unsigned char *bytes, uint64_t offset,
                           struct solid_piece pieces[static SOLID_CONTENTS_MAX])
{
	struct frame m = *f;
	size_t n = 0, all = f->kind == FRAME_SOLID ? f->n_members : 1;

	for (unsigned i = 0; i < all; i++) {
		if (f->kind == FRAME_SOLID)
			frame_next_member(bytes, i, &m);
		if (stays(c, &m, offset))
			pieces[n++] = (struct solid_piece){ .id = m.id };
	}
	return n;
}

static int keep_frame(void *arg, const struct frame *f, const unsigned char *bytes,
                      uint64_t offset)
{
	struct collection *c = arg;
	struct solid_piece pieces[SOLID_CONTENTS_MAX];
	size_t len = frame_bytes(f), n;
	int r = report_gap(c, offset, false);

	c->end = offset + len;
	if (r)
		return r;
	n = list_staying(c, f, bytes, offset, pieces);
	if (!n)
		return 0;
	if (f->kind == FRAME_SOLID && n < f->n_members)
		c->failed = keep_part(c, bytes, len, offset);
	else
		c->failed = new_pack_add_frame(c, pieces, n, bytes, len);
	return c->failed;
}

/* Opens an old pack. -ENOENT: an earlier collection has removed it. */
static int open_old_pack(struct collection *c, const char *name)
{
	int fd = openat(c->dirfd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);

	return fd < 0 ? -errno : fd;
}

/* Locks the pack, so that its producer begins another one: 1. 0: it is in use. */
static int lock_pack(struct collection *c, struct old_pack *old)
{
	old->fd = open_old_pack(c, old->name);
	if (old->fd < 0)
		return old->fd;
	if (shfs_store_may_hang(c->store->path))
		return 1;
	for (int ms = 0; flock(old->fd, LOCK_EX | LOCK_NB); ms += POLL_MS) {
		if ((errno != EWOULDBLOCK && errno != EINTR) || ms >= PACK_MS) {
			close(TAKE_FD(old->fd));
			return 0;
		}
		nanosleep(&(struct timespec){ .tv_nsec = POLL_MS * 1000000L }, NULL);
	}
	return 1;
}

static int copy_leaning(struct collection *c)
{
	int r = 0;

	for (size_t i = 0; !r && i < c->n_old; i++) {
		_cleanup_close_ int fd = -1;
		uint64_t end;

		if (!c->old[i].leans)
			continue;
		c->now = c->old[i].name;
		r = fd = open_old_pack(c, c->now);
		if (fd >= 0)
			r = pack_scan(fd, 0, keep_leaning, c, &end);
	}
	return r;
}

static int find_needed_frame(void *arg, const struct frame *f, uint64_t offset)
{
	struct collection *c = arg;

	c->found_needed |= shfs_objects_has(&c->needed, &f->id);
	return c->found_needed;
}

static int note_staying(void *arg, const struct frame *f, uint64_t offset)
{
	struct collection *c = arg;

	c->found_needed |= (offset != c->end && !f->member) || !is_to_remove(c, &f->id) ||
	                   leans(c, f) || shfs_objects_has(&c->needed, &f->id);
	c->end = offset + frame_bytes(f);
	return c->found_needed;
}

/* Does nothing stay of the pack? Its lock is held, as its producer may have appended
 * since it was first examined. Damaged bytes stay. */
static bool goes_whole(struct collection *c, const struct old_pack *old)
{
	uint64_t end;
	struct stat st;

	c->found_needed = false;
	c->end = PACK_HEAD_BYTES;
	return !pack_scan(old->fd, 0, note_staying, c, &end) && !fstat(old->fd, &st) &&
	       (uint64_t)st.st_size == c->end;
}

/* Removes packs of which nothing stays: that needs no room, and makes some. */
static int remove_whole(struct collection *c)
{
	bool any = false;

	for (size_t i = 0; i < c->n_old && !c->keep && !c->old[i].kept; i++) {
		struct old_pack *old = &c->old[i];
		int r;

		c->found_needed = false;
		if (old->leans ||
		    inventory_pack(c->dirfd, old->name, find_needed_frame, c) ||
		    lock_pack(c, old) != 1)
			continue;
		if (!goes_whole(c, old)) {
			close(TAKE_FD(old->fd));
			continue;
		}
		r = remove_pack(c, old);
		if (r)
			return r;
		*old->name = '\0';
		any = true;
	}
	return any && fsync(c->dirfd) ? -errno : 0;
}

/* Drops the new pack that is not complete, and keeps the old packs that it was to
 * replace.
 */
static void give_up_pack(struct collection *c, size_t n_given_up)
{
	char temp[160];

	snprintf(temp, sizeof(temp), "%s" NEW_SUFFIX, c->name);
	if (*c->name)
		unlinkat(c->dirfd, temp, 0);
	shfs_closep(&c->fd);
	c->fd = -1;
	c->bytes.len = 0;
	c->n_entries = 0;
	for (; c->n_removed < n_given_up; c->n_removed++) {
		shfs_closep(&c->old[c->n_removed].fd);
		c->old[c->n_removed].fd = -1;
	}
	c->n_copied = n_given_up;
}

static int copy_pack(struct collection *c, struct old_pack *old)
{
	struct stat st;
	uint64_t end;
	int r = lock_pack(c, old);

	c->skipped += !r;
	if (r <= 0)
		return r;
	c->now = old->name;
	c->from = old->fd;
	c->end = PACK_HEAD_BYTES;
	c->failed = 0;
	r = pack_scan_frames(c->from, 0, keep_frame, c, &end);
	if (!r && fstat(c->from, &st))
		r = -errno;
	else if (!r)
		r = report_gap(c, MAX((uint64_t)st.st_size, c->end), true);
	c->from = -1;
	if (r == -EIO && c->keep && !c->failed)
		r = 0; /* the frames that can be read are kept */
	return r;
}

static int finish_now(struct collection *c)
{
	return c->fd >= 0 ? finish_pack(c) : remove_copied(c);
}

static int copy_packs(struct collection *c)
{
	int r = copy_leaning(c);

	if (!r) /* before any pack is removed */
		r = finish_pack(c);
	for (size_t i = 0; !r && i < c->n_old; i++) {
		if (*c->old[i].name)
			r = copy_pack(c, &c->old[i]);
		if (!r)
			c->n_copied = i + 1;
		if (!r && c->tight)
			r = finish_now(c);
		if (!has_no_room(r))
			continue;
		c->no_room = r;
		c->tight = true;
		give_up_pack(c, i + 1);
		r = 0;
	}
	return r ? r : finish_now(c);
}

/* Keeps the objects that deltas need, for now, because there is no room to store these
 * deltas anew. */
static int keep_needed(struct collection *c, struct shfs_object_id *ids)
{
	size_t n = 0;

	give_up_pack(c, c->n_old); /* and all locks, as packs are locked anew */
	c->n_removed = c->n_copied = 0;
	for (size_t i = 0; i < c->n; i++)
		if (!shfs_objects_has(&c->needed, &ids[i]))
			ids[n++] = ids[i];
	c->n = n;
	return look_at_packs(c);
}

/* --- all of it --- */

static int remove_loose(struct collection *c)
{
	for (size_t i = 0; i < c->n; i++) {
		uint64_t size;
		int fd = loose_open(c->store, &c->ids[i], &size), r;

		if (fd == -ENOENT)
			continue;
		shfs_closep(&fd);
		r = loose_remove(c->store, &c->ids[i]);
		if (!r)
			r = loose_sync_name(c->store, &c->ids[i]);
		if (r)
			return r;
	}
	return 0;
}

static void collection_free(struct collection *c)
{
	for (size_t i = 0; i < c->n_old; i++)
		shfs_closep(&c->old[i].fd);
	free(c->old);
	free(c->lean);
	shfs_objects_free(&c->needed);
	free(c->entries);
	shfs_buf_free(&c->bytes);
	shfs_closep(&c->fd);
	shfs_closep(&c->dirfd);
}

static bool is_tight(int dirfd)
{
	struct statvfs disk;

	return !fstatvfs(dirfd, &disk) &&
	       (uint64_t)disk.f_bavail * disk.f_frsize < 2 * packs_full_bytes;
}

static int remove_packed(struct collection *c, struct shfs_object_id *ids)
{
	int r = look_at_packs(c);

	c->tight = is_tight(c->dirfd);
	if (!r)
		r = remove_whole(c);
	if (!r)
		r = copy_packs(c);
	if (!has_no_room(r) || !c->needed.n)
		return r;
	c->no_room = r;
	r = keep_needed(c, ids);
	return r ? r : copy_packs(c);
}

int shfs_objects_remove(struct shfs_store *store, struct shfs_object_id *ids, size_t n)
{
	_cleanup_(collection_free) struct collection c = {
		.store = store,
		.ids = ids,
		.n = n,
		.dirfd = -1,
		.from = -1,
		.fd = -1,
		.errors = packs_read_errors(store),
	};
	int r = packs_refresh(store);

	if (!n || r)
		return r;
	if (getrandom(&c.slot, sizeof(c.slot), 0) != sizeof(c.slot))
		return -EIO;
	c.slot |= 1u << 31;
	qsort(ids, n, sizeof(*ids), shfs_object_compare);
	c.dirfd = openat(store->objects_fd, "packs",
	                 O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (c.dirfd < 0 && errno != ENOENT)
		return -errno;
	if (c.dirfd >= 0)
		r = remove_packed(&c, ids);
	if (!r)
		r = remove_loose(&c);
	return r ? r : c.no_room ? c.no_room : c.skipped ? -EBUSY : 0;
}

int shfs_packs_salvage(struct shfs_store *store, char *const *packs, size_t n,
                       shfs_keep_fn keep, void *arg)
{
	_cleanup_(collection_free) struct collection c = { .store = store,
		                                           .dirfd = -1,
		                                           .from = -1,
		                                           .fd = -1,
		                                           .keep = keep,
		                                           .arg = arg };
	int r;

	c.dirfd = openat(store->objects_fd, "packs",
	                 O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (c.dirfd < 0)
		return -errno;
	if (getrandom(&c.slot, sizeof(c.slot), 0) != sizeof(c.slot))
		return -EIO;
	c.slot |= 1u << 31;
	r = inventory_names(c.dirfd, ".pack" NEW_SUFFIX, remove_rest, &c);
	for (size_t i = 0; i < n && !r; i++)
		r = add_old(&c, packs[i], false, UINT64_MAX);
	if (!r)
		r = copy_packs(&c);
	return r ? r : c.no_room ? c.no_room : c.skipped ? -EBUSY : 0;
}

int shfs_objects_measure(struct shfs_store *store, const struct shfs_object_id *ids,
                         size_t n, uint64_t *bytes)
{
	int r = packs_refresh(store);

	*bytes = 0;
	for (size_t i = 0; i < n && !r; i++) {
		_cleanup_packed_ struct packed p = { 0 };
		struct stat st;
		uint64_t size;
		int fd;

		r = packs_read(store, &ids[i], 0, &p);
		if (!r)
			*bytes += frame_share(&p.frame);
		if (r != -ENOENT && r != -EBADMSG)
			continue;
		r = 0;
		fd = loose_open(store, &ids[i], &size);
		if (fd >= 0 && !fstat(fd, &st))
			*bytes += (uint64_t)st.st_size;
		shfs_closep(&fd);
	}
	return r;
}
