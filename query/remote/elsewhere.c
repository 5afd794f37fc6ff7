/* SPDX-License-Identifier: MIT */
#include "query/remote/elsewhere.h"

#include "common/io.h"
#include "store/objects/away.h"
#include "store/objects/inventory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define AWAY      "away"
#define LISTS_MAX (1u << 30)

bool elsewhere_may_stay(enum file_kind kind)
{
	return kind == FILE_PACK || kind == FILE_LOOSE || kind == FILE_CONTENTS;
}

/* --- which files --- */

static void away_file(const char *store_id, char out[static STORE_ID_SIZE + 8])
{
	snprintf(out, STORE_ID_SIZE + 8, AWAY "/%s", store_id);
}

int elsewhere_read(const struct place *place, const char *store_id, struct manifest *out)
{
	char file[STORE_ID_SIZE + 8];
	int r;

	away_file(store_id, file);
	r = place_read(place, file, out);
	return r == -ENOENT ? 0 : r;
}

struct each {
	const struct place *place;
	int (*fn)(void *arg, const char *store_id, const struct manifest *files);
	void *arg;
	int damage;
};

static int read_store(void *arg, const char *store_id)
{
	struct each *each = arg;
	_cleanup_manifest_ struct manifest files = { 0 };
	int r;

	if (!store_id_is_valid(store_id))
		return 0;
	r = elsewhere_read(each->place, store_id, &files);
	if (r == -EBADMSG) {
		each->damage = r;
		return 0;
	}
	return r ? r : each->fn(each->arg, store_id, &files);
}

int elsewhere_each(const struct place *place,
                   int (*fn)(void *arg, const char *store_id,
                             const struct manifest *files),
                   void *arg)
{
	struct each each = { place, fn, arg, 0 };
	_cleanup_close_ int fd = openat(place->dirfd, AWAY,
	                                O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int r;

	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	r = inventory_names(fd, NULL, read_store, &each);
	return r ? r : each.damage;
}

static int note_files(void *arg, const char *store_id, const struct manifest *files)
{
	bool *any = arg;

	*any |= files->n > 0;
	return 0;
}

static int note_place(void *arg, const struct place *place)
{
	return elsewhere_each(place, note_files, arg);
}

int elsewhere_any(struct shfs_store *store)
{
	bool any = false;
	int r = place_each_source(store, note_place, NULL, &any);

	return r == -EBADMSG ? 1 : r ? r : any;
}

int elsewhere_count(struct shfs_store *store, uint64_t *out)
{
	return shfs_away_count(store, out);
}

/* --- lists of contents --- */

int elsewhere_lists(const struct place *place, const char *store_id)
{
	char path[STORE_ID_SIZE + 8];
	int r, fd;

	snprintf(path, sizeof(path), "lists/%s", store_id);
	r = shfs_mkdir_p_at(place->dirfd, path, 0700);
	if (r)
		return r;
	fd = openat(place->dirfd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* Are these the bytes of the file? */
static bool is_whole(const struct remote_file *file, const struct shfs_buf *bytes)
{
	uint64_t at = 0;

	if (file->bytes != bytes->len)
		return false;
	for (size_t i = 0; i < file->n; at += file->pieces[i++].bytes) {
		char sha[SHFS_SHA256_SIZE];

		if (file->pieces[i].bytes > bytes->len - at)
			return false;
		shfs_sha256_of(bytes->data + at, file->pieces[i].bytes, sha);
		if (strcmp(sha, file->pieces[i].sha) != 0)
			return false;
	}
	return at == bytes->len;
}

static int read_list(int lists, const struct remote_file *file, struct contents *out)
{
	_cleanup_buf_ struct shfs_buf bytes = { 0 };
	int r = shfs_read_file_at(lists, file->name, LISTS_MAX, &bytes);

	if (r)
		return r;
	return is_whole(file, &bytes) ? contents_parse(bytes.data ?: "", bytes.len, out)
	                              : -EBADMSG;
}

int elsewhere_contents(int lists, const struct manifest *files,
                       const struct remote_file *pack, struct contents *out)
{
	char name[FILE_NAME_MAX + 20];
	const struct remote_file *list;

	snprintf(name, sizeof(name), "made/contents/%s", strrchr(pack->name, '/') + 1);
	list = manifest_find(files, name);
	return list ? read_list(lists, list, out) : -ENOENT;
}

int elsewhere_list_is_whole(int lists, const struct remote_file *list)
{
	_cleanup_contents_ struct contents contents = { 0 };
	int r = read_list(lists, list, &contents);

	return r == -ENOENT || r == -EBADMSG ? 0 : r ? r : 1;
}

int elsewhere_lists_are_whole(int lists, const struct manifest *files)
{
	int r = 1;

	for (size_t i = 0; i < files->n && r > 0; i++)
		if (file_kind_of(files->files[i].name) == FILE_CONTENTS)
			r = elsewhere_list_is_whole(lists, &files->files[i]);
	return r;
}

static int add_contents(const struct contents *contents, struct shfs_objects *out)
{
	int r = 0;

	for (size_t i = 0; i < contents->n && !r; i++)
		r = shfs_objects_add(out, &contents->list[i].id);
	return r;
}

/* The lists in `first`, if not -1, come before those in `lists`. */
static int add_objects(int first, int lists, const struct manifest *files,
                       struct shfs_objects *out)
{
	int r = 0;

	for (size_t i = 0; i < files->n && !r; i++) {
		const struct remote_file *file = &files->files[i];
		_cleanup_contents_ struct contents contents = { 0 };
		struct shfs_object_id id;

		if (file_kind_of(file->name) == FILE_LOOSE) {
			r = file_loose_id(file->name, &id);
			r = r ? 0 : shfs_objects_add(out, &id);
		} else if (file_kind_of(file->name) == FILE_CONTENTS) {
			r = first < 0 ? -ENOENT : read_list(first, file, &contents);
			if (r == -ENOENT || r == -EBADMSG)
				r = read_list(lists, file, &contents);
			r = r == -ENOENT || r == -EBADMSG ? 0 : r;
			if (!r)
				r = add_contents(&contents, out);
		}
	}
	return r;
}

int elsewhere_objects(int lists, const struct manifest *files, struct shfs_objects *out)
{
	return add_objects(-1, lists, files, out);
}

static int add_bases(const struct contents *contents, const struct shfs_objects *objects,
                     struct shfs_objects *out)
{
	int r = 0;

	for (size_t i = 0; i < contents->n && !r; i++)
		if (contents->list[i].has_base &&
		    !shfs_objects_has(objects, &contents->list[i].base))
			r = shfs_objects_add(out, &contents->list[i].base);
	return r;
}

int elsewhere_bases(int lists, const struct manifest *files,
                    const struct shfs_objects *objects, struct shfs_objects *out)
{
	int r = 0;

	for (size_t i = 0; i < files->n && !r; i++) {
		const struct remote_file *file = &files->files[i];
		_cleanup_contents_ struct contents contents = { 0 };

		if (file_kind_of(file->name) != FILE_CONTENTS)
			continue;
		r = read_list(lists, file, &contents);
		if (!r)
			r = add_bases(&contents, objects, out);
		r = r == -ENOENT || r == -EBADMSG ? 0 : r;
	}
	return r;
}

/* --- changes --- */

struct gathering {
	const struct place *place;
	struct shfs_objects *out;
};

static int gather_store(void *arg, const char *store_id, const struct manifest *files)
{
	struct gathering *g = arg;
	_cleanup_close_ int lists = elsewhere_lists(g->place, store_id);

	return lists < 0 ? lists : elsewhere_objects(lists, files, g->out);
}

static int gather_place(void *arg, const struct place *place)
{
	struct gathering g = { place, arg };

	return elsewhere_each(place, gather_store, &g);
}

/* All objects of all files that are only at remotes, sorted. -EUCLEAN: what is known of
 * some is damaged. */
static int gather(struct shfs_store *store, struct shfs_objects *out)
{
	int r = place_each_source(store, gather_place, NULL, out);

	shfs_objects_sort(out);
	return r == -EBADMSG ? -EUCLEAN : r;
}

int objects_select(const struct shfs_objects *more, const struct shfs_objects *set,
                   bool in, struct shfs_objects *out)
{
	int r = 0;

	for (size_t i = 0; i < more->n && !r; i++)
		if (shfs_objects_has(set, &more->ids[i]) == in)
			r = shfs_objects_add(out, &more->ids[i]);
	return r;
}

/* Moves new lists to where they stay. */
static int move_lists(int from, int lists, const struct manifest *files)
{
	int r = from < 0 ? 0 : shfs_mkdir_p_at(lists, "made/contents", 0700);

	for (size_t i = 0; i < files->n && from >= 0 && !r; i++) {
		const char *name = files->files[i].name;

		if (file_kind_of(name) == FILE_CONTENTS &&
		    renameat(from, name, lists, name) && errno != ENOENT)
			r = -errno;
	}
	return r;
}

static int write_files(const struct place *place, const char *store_id,
                       const struct manifest *files)
{
	char file[STORE_ID_SIZE + 8], lists[STORE_ID_SIZE + 8];
	int r;

	away_file(store_id, file);
	if (files->n)
		return place_write(place, file, files);
	snprintf(lists, sizeof(lists), "lists/%s", store_id);
	r = place_remove_file(place, file);
	return r ? r : place_remove_file(place, lists);
}

/* Objects that were pruned or forgotten here: of the files, and not away. A list that was
 * damaged or missing here may be among the new ones. */
static int find_removed(const struct place *place, const char *store_id, int from,
                        int lists, const struct shfs_objects *away,
                        struct shfs_objects *out)
{
	_cleanup_objects_ struct shfs_objects all = { 0 };
	_cleanup_manifest_ struct manifest files = { 0 };
	int r = gather(place->store, &all);

	if (!r && from >= 0)
		r = elsewhere_read(place, store_id, &files);
	if (!r && from >= 0)
		r = add_objects(from, lists, &files, &all);
	shfs_objects_sort(&all);
	return r ? r : objects_select(&all, away, false, out);
}

/* Names the objects of the new files before the files, so that none of them is taken for
 * one that was forgotten. */
static int add_away(struct shfs_store *store, const struct shfs_objects *away,
                    const struct shfs_objects *removed, struct shfs_objects *now)
{
	_cleanup_objects_ struct shfs_objects both = { 0 };
	int r;

	shfs_objects_sort(now);
	r = objects_select(now, removed, false, &both);
	for (size_t i = 0; i < away->n && !r; i++)
		r = shfs_objects_add(&both, &away->ids[i]);
	shfs_objects_sort(&both);
	return r ? r : away_write(store->dirfd, &both);
}

int elsewhere_change(const struct place *place, const char *store_id,
                     const struct manifest *files, int from)
{
	_cleanup_objects_ struct shfs_objects away = { 0 }, removed = { 0 }, now = { 0 },
					      all = { 0 }, left = { 0 };
	_cleanup_close_ int lists = elsewhere_lists(place, store_id), lock = -1;
	int r = MIN(lists, 0);

	if (!r && place->store->path) /* a clone has none yet */
		r = MIN(lock = away_lock(place->store), 0);
	if (!r)
		r = away_load(place->store, &away);
	if (r == -EBADMSG) /* the list is made anew */
		r = 0;
	else if (!r)
		r = find_removed(place, store_id, from, lists, &away, &removed);
	if (!r)
		r = add_objects(from, lists, files, &now);
	if (!r)
		r = add_away(place->store, &away, &removed, &now);
	if (!r)
		r = move_lists(from, lists, files);
	if (!r)
		r = write_files(place, store_id, files);
	if (!r)
		r = gather(place->store, &all);
	if (!r)
		r = objects_select(&all, &removed, false, &left);
	return r       ? r
	       : all.n ? away_write(place->store->dirfd, &left)
	               : away_remove(place->store->dirfd);
}

int elsewhere_mend(struct shfs_store *store)
{
	_cleanup_objects_ struct shfs_objects all = { 0 };
	_cleanup_close_ int lock = -1;
	int r = elsewhere_any(store);

	if (r > 0)
		r = (lock = away_lock(store)) < 0 ? lock : 1;
	if (r > 0)
		r = away_is_whole(store) ?: 2;
	if (r != 2)
		return MIN(r, 0);
	r = gather(store, &all);
	return r ? r : away_write(store->dirfd, &all);
}
