/* SPDX-License-Identifier: MIT */
#include "query/remote/own.h"

#include "common/hash.h"
#include "common/io.h"
#include "query/remote/elsewhere.h"
#include "store/journal/journal.h"
#include "store/objects/content.h"
#include "store/objects/inventory.h"
#include "store/objects/loose.h"
#include "store/objects/object.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#define LEVEL     3 /* of zstd */
#define BATCH_MAX 64

/* A file of the journal or a loose object that was pulled. */
struct pulled_file {
	char *name; /* journal/HOST/NAME, without .zst; objects/ab/... */
	UT_hash_handle hh;
};

struct own {
	struct shfs_store *store;
	int packs; /* objects/packs; -1: there is none */
	struct pulled_file *pulled;
	bool elsewhere;     /* some contents are only at a remote */
	uint64_t n_missing; /* of these, named ones that do not stay at this one */
	/* only where something was pulled, or is elsewhere: */
	struct shfs_objects named; /* by what is pushed; with the bases of deltas */
};

void own_free(struct own *own)
{
	struct pulled_file *file, *next;

	if (!own)
		return;
	HASH_ITER (hh, own->pulled, file, next) {
		HASH_DEL(own->pulled, file);
		free(file->name);
		free(file);
	}
	shfs_objects_free(&own->named);
	shfs_closep(&own->packs);
	free(own);
}

/* --- what was pulled --- */

static int add_pulled_file(struct own *own, const char *name)
{
	struct pulled_file *file;
	size_t len = strlen(name) - (shfs_ends_with(name, ".zst") ? 4 : 0);

	HASH_FIND(hh, own->pulled, name, len, file);
	if (file)
		return 0;
	file = calloc(1, sizeof(*file));
	if (!file || !(file->name = strndup(name, len))) {
		free(file);
		return -ENOMEM;
	}
	HASH_ADD_KEYPTR(hh, own->pulled, file->name, len, file);
	if (file->hh.tbl)
		return 0;
	free(file->name);
	free(file);
	return -ENOMEM;
}

static int add_pulled(void *arg, const struct manifest *m)
{
	int r = 0;

	for (size_t i = 0; i < m->n && !r; i++) {
		enum file_kind kind = file_kind_of(m->files[i].name);

		if (kind == FILE_SEGMENT || kind == FILE_HOOK_LOG || kind == FILE_LOOSE)
			r = add_pulled_file(arg, m->files[i].name);
	}
	return r;
}

static int add_pulled_of_place(void *arg, const struct place *place)
{
	return place_each_pulled(place, add_pulled, arg);
}

bool own_was_pulled(const struct own *own, const char *file)
{
	struct pulled_file *found;

	HASH_FIND(hh, own->pulled, file, strlen(file), found);
	return found;
}

bool own_has_file(const struct own *own, const char *host, const char *name)
{
	_cleanup_buf_ struct shfs_buf file = { 0 };

	if (!own->pulled)
		return true;
	shfs_buf_printf(&file, "journal/%s/%s", host, name);
	return file.failed || !own_was_pulled(own, file.data);
}

/* --- which objects are named --- */

static int add_named(const struct shfs_journal_file *file, void *arg)
{
	struct own *own = arg;
	struct shfs_segment *segment;
	struct shfs_record rec;
	int r;

	if (!own_has_file(own, file->host, file->name))
		return 0;
	r = shfs_segment_open(file->dirfd, file->name, 0, &segment);
	if (r) /* what cannot be read is pushed as it is */
		return r == -ENOMEM ? r : 0;
	while ((r = shfs_segment_next(segment, &rec)) > 0)
		if ((r = shfs_objects_add_of(&own->named, &rec)))
			break;
	shfs_segment_close(segment);
	return r;
}

struct naming {
	const struct own *own;
	bool *is_there; /* for each named object; or NULL */
	bool any;
	struct shfs_objects of_pack,
		bases; /* of deltas: of the pack; of all pushed ones */
};

static int note_named(void *arg, const struct frame *f, uint64_t offset)
{
	struct naming *n = arg;
	size_t i = shfs_objects_find(&n->own->named, &f->id);

	n->any |= i != SIZE_MAX;
	if (i != SIZE_MAX && n->is_there)
		n->is_there[i] = true;
	if (n->is_there && f->kind == FRAME_DELTA)
		return shfs_objects_add(&n->of_pack, &f->base);
	return n->any && !n->is_there ? 1 : 0;
}

/* Are there packs and loose objects that are not pushed? */
static bool is_mixed(const struct own *own)
{
	return own->pulled || own->elsewhere;
}

int own_has_pack(const struct own *own, const char *name)
{
	struct naming n = { .own = own };
	int r;

	if (!is_mixed(own))
		return 1;
	if (shfs_pack_is_pulled(name))
		return 0;
	r = inventory_pack(own->packs, name, note_named, &n);
	return r < 0 && r != -EIO ? r : n.any || r == -EIO;
}

bool own_has_loose(const struct own *own, const struct shfs_object_id *id)
{
	return !is_mixed(own) || shfs_objects_has(&own->named, id);
}

uint64_t own_elsewhere(const struct own *own)
{
	return own->n_missing;
}

/* --- contents that only packs of pulls have --- */

static int note_named_in_pack(void *arg, const char *name)
{
	struct naming *n = arg;
	int r;

	if (shfs_pack_is_pulled(name))
		return 0;
	n->any = false;
	n->of_pack.n = 0;
	r = inventory_pack(n->own->packs, name, note_named, n);
	r = r == -EIO ? 0 : MIN(r, 0);
	for (size_t i = 0; i < n->of_pack.n && n->any && !r; i++)
		r = shfs_objects_add(&n->bases, &n->of_pack.ids[i]);
	return r;
}

/* Names bases too, though no record does: a delta that is pushed is lost without its
 * base. Returns whether one of them is new. */
static int name_bases(struct own *own, const struct shfs_objects *bases)
{
	_cleanup_objects_ struct shfs_objects more = { 0 };
	int r = objects_select(bases, &own->named, false, &more);

	for (size_t i = 0; i < more.n && !r; i++)
		r = shfs_objects_add(&own->named, &more.ids[i]);
	shfs_objects_sort(&own->named);
	return r ? r : more.n > 0;
}

/* Finds which named objects packs have that are pushed: *is_there. Bases may lie in packs
 * that have nothing else that is named. */
static int find_there(struct own *own, bool **is_there)
{
	struct naming n = { .own = own };
	int r = 1;

	while (r > 0) {
		free(*is_there);
		*is_there = calloc(own->named.n + 1, sizeof(**is_there));
		n.is_there = *is_there;
		n.bases.n = 0;
		r = *is_there
		            ? inventory_names(own->packs, ".pack", note_named_in_pack, &n)
		            : -ENOMEM;
		shfs_objects_sort(&n.bases);
		if (!r)
			r = name_bases(own, &n.bases);
	}
	shfs_objects_free(&n.of_pack);
	shfs_objects_free(&n.bases);
	return r;
}

static int commit_adopted(struct shfs_store *to, struct shfs_put **puts, size_t *n)
{
	int r = *n ? shfs_object_commit(to, puts, *n) : 0;

	for (size_t i = 0; i < *n; i++)
		shfs_put_free(puts[i]);
	*n = 0;
	return r;
}

/* Puts the content into a store that does not see the packs of pulls. */
static int adopt(struct shfs_store *from, struct shfs_store *to,
                 const struct shfs_object_id *id, struct shfs_put **put)
{
	_cleanup_buf_ struct shfs_buf bytes = { 0 };
	struct shfs_object_id is;
	int r = shfs_object_read(from, id, UINT64_MAX, &bytes);

	if (!r)
		r = shfs_object_put(to, bytes.data ?: "", bytes.len, LEVEL, NULL, put);
	if (r)
		return r;
	is = shfs_put_id(*put);
	/* it collides with another content of ours: that keeps the name */
	return shfs_object_equal(&is, id) ? 0 : -EEXIST;
}

static int adopt_all(struct own *own, const bool *is_there,
                     const struct shfs_objects *there)
{
	_cleanup_store_ struct shfs_store *to = NULL;
	struct shfs_put *puts[BATCH_MAX];
	size_t n = 0;
	int r = shfs_store_open(own->store->path, 0, &to);

	if (!r)
		to->hides_pulled = true;
	for (size_t i = 0; i < own->named.n && !r; i++) {
		const struct shfs_object_id *id = &own->named.ids[i];
		uint64_t size;
		int fd;

		if (is_there[i] || shfs_objects_has(there, id))
			continue;
		fd = loose_open(own->store, id, &size);
		shfs_closep(&fd);
		if (fd >= 0)
			continue;
		r = adopt(own->store, to, id, &puts[n]);
		n += !r || r == -EEXIST;
		own->n_missing += r == -EREMOTE;
		/* what is not here, or damaged, is not pushed */
		if (r == -ENOENT || r == -EREMOTE || r == -ENODATA || r == -EBADMSG ||
		    r == -EEXIST)
			r = 0;
		if (!r && n == BATCH_MAX)
			r = commit_adopted(to, puts, &n);
	}
	return commit_adopted(to, puts, &n) ?: r;
}

static int find_named(struct own *own, bool dry_run, const struct shfs_objects *there,
                      const struct shfs_objects *bases)
{
	_cleanup_free_ bool *is_there = NULL;
	int r = shfs_journal_walk(own->store, SHFS_JOURNAL_SEGMENTS, add_named, own);

	for (size_t i = 0; i < bases->n && !r; i++)
		r = shfs_objects_add(&own->named, &bases->ids[i]);
	shfs_objects_sort(&own->named);
	if (r || own->packs < 0)
		return r;
	r = find_there(own, &is_there);
	return r || dry_run ? r : adopt_all(own, is_there, there);
}

int own_find_files(struct shfs_store *store, struct own **out)
{
	_cleanup_own_ struct own *own = calloc(1, sizeof(*own));
	int r;

	if (!own)
		return -ENOMEM;
	own->store = store;
	own->packs = openat(store->objects_fd, "packs",
	                    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (own->packs < 0 && errno != ENOENT)
		return -errno;
	r = place_each_source(store, add_pulled_of_place, NULL, own);
	if (!r)
		r = elsewhere_any(store);
	if (r < 0)
		return r;
	own->elsewhere = r;
	*out = TAKE_PTR(own);
	r = 0;
	return r;
}

int own_find(struct shfs_store *store, bool dry_run, const struct shfs_objects *there,
             const struct shfs_objects *bases, struct own **out)
{
	_cleanup_own_ struct own *own = NULL;
	int r = own_find_files(store, &own);

	if (!r && is_mixed(own))
		r = find_named(own, dry_run, there, bases);
	if (!r)
		*out = TAKE_PTR(own);
	return r;
}
