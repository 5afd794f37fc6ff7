/* SPDX-License-Identifier: MIT */
#include "query/remote/push/forgotten.h"

#include "query/remote/elsewhere.h"
#include "query/remote/heads.h"
#include "query/remote/pull.h"
#include "store/objects/away.h"
#include "store/objects/content.h"
#include "store/objects/object.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct mending {
	struct shfs_objects away; /* of the store */
	struct shfs_objects wanted;
	struct manifest kept;
	bool by_base; /* something was removed that others are deltas of */
};

static void mending_clear(struct mending *m)
{
	shfs_objects_free(&m->away);
	shfs_objects_free(&m->wanted);
	manifest_clear(&m->kept);
}

static void list_name(const struct remote_file *pack, char out[static FILE_NAME_MAX + 20])
{
	snprintf(out, FILE_NAME_MAX + 20, "made/contents/%s",
	         strrchr(pack->name, '/') + 1);
}

/* Fetches the list of a pack's contents, which is damaged or missing here. */
static int fetch_list(struct upload *u, int lists, const struct remote_file *pack)
{
	struct fetcher f = { .remote = u->remote, .store_id = u->now.head.store_id };
	char name[FILE_NAME_MAX + 20];
	const struct remote_file *list;
	int r = remote_look(u->remote);

	if (r)
		return r;
	list_name(pack, name);
	list = manifest_find(&u->away, name);
	r = list ? fetch_file(&f, list, lists, name, NULL) : -EBADMSG;
	fetcher_clear(&f);
	return r == -ENOENT ? -EBADMSG : r;
}

/* Lists the objects of a file there. -EBADMSG: there is no list to judge by. */
static int read_contents(struct upload *u, int lists, const struct remote_file *file,
                         struct contents *out)
{
	int r;

	if (file_kind_of(file->name) == FILE_LOOSE) {
		if (!MAKE_ROOM(out->list, out->n, out->cap))
			return -ENOMEM;
		out->list[out->n] = (struct packed_object){ 0 };
		return file_loose_id(file->name, &out->list[out->n++].id);
	}
	r = elsewhere_contents(lists, &u->away, file, out);
	if (r != -ENOENT && r != -EBADMSG)
		return r;
	r = fetch_list(u, lists, file);
	return r ? r : elsewhere_contents(lists, &u->away, file, out);
}

/* Was the base of a delta forgotten or pruned here? It may have been brought here before,
 * and lie in packs that are pushed. */
static bool lacks_base(struct upload *u, const struct mending *m,
                       const struct packed_object *object)
{
	return object->has_base && !shfs_objects_has(&m->away, &object->base) &&
	       content_look(u->store, &object->base) == -ENOENT;
}

/* Has this file objects that were forgotten or pruned here, or deltas of such? Then what
 * is left of them is wanted. 1; 0; -errno. */
static int has_removed(struct upload *u, int lists, const struct remote_file *file,
                       struct mending *m)
{
	_cleanup_contents_ struct contents all = { 0 };
	bool touched = false;
	int r = read_contents(u, lists, file, &all);

	for (size_t i = 0; i < all.n && !r; i++) {
		const bool by_base = lacks_base(u, m, &all.list[i]);

		m->by_base |= by_base;
		touched |= by_base || !shfs_objects_has(&m->away, &all.list[i].id);
	}
	for (size_t i = 0; i < all.n && touched && !r; i++)
		if (shfs_objects_has(&m->away, &all.list[i].id))
			r = shfs_objects_add(&m->wanted, &all.list[i].id);
	return r ? r : touched;
}

static int keep_there(struct upload *u, const char *name, struct mending *m)
{
	const struct remote_file *old = manifest_find(&u->away, name);

	return !old || manifest_add_copy(&m->kept, old) ? 0 : -ENOMEM;
}

/* Finds the files that can stay there as they are, and what is wanted of the others. */
static int choose_kept(struct upload *u, int lists, struct mending *m)
{
	int r = away_load(u->store, &m->away);

	m->kept.head = u->away.head;
	if (!r)
		r = packs_refresh(u->store);
	for (size_t i = 0; i < u->away.n && !r; i++) {
		const struct remote_file *file = &u->away.files[i];
		char list[FILE_NAME_MAX + 20];

		if (file_kind_of(file->name) == FILE_CONTENTS)
			continue;
		r = has_removed(u, lists, file, m);
		if (r) {
			r = MIN(r, 0);
			continue;
		}
		list_name(file, list);
		r = keep_there(u, file->name, m);
		if (!r && file_kind_of(file->name) == FILE_PACK)
			r = keep_there(u, list, m);
	}
	manifest_sort(&m->kept);
	shfs_objects_sort(&m->wanted);
	return r;
}

/* Looks whether all came that is wanted. -ENODATA: the name of one that did not is noted.
 */
static int look_for_wanted(struct upload *u, const struct mending *m)
{
	int r = packs_relearn(u->store);

	for (size_t i = 0; i < m->wanted.n && !r; i++) {
		r = content_look(u->store, &m->wanted.ids[i]);
		if (r == -ENOENT || r == -EBADMSG) {
			shfs_object_name(&m->wanted.ids[i], u->stats.not_brought);
			r = -ENODATA;
		}
	}
	return r;
}

/* Brings what is left of files that do not stay there. What it is a delta of may lie in
 * all that was pushed. */
static int bring_wanted(struct upload *u, const struct mending *m)
{
	const char *store_id = u->now.head.store_id;
	_cleanup_manifest_ struct manifest pushed = { 0 };
	const struct manifest *files = &u->away;
	int r = m->by_base ? place_read(u->place, "pushed", &pushed) : -ENOENT;

	if (!r && !strcmp(pushed.head.store_id, store_id))
		files = &pushed;
	for (size_t i = 0; i < u->away.n && files == &pushed; i++)
		if (!manifest_find(&pushed, u->away.files[i].name))
			files = &u->away;
	r = pull_bring(u->place, u->remote, store_id, files, &m->wanted,
	               u->options->progress);
	return r ? r : look_for_wanted(u, m);
}

static int mend(struct upload *u)
{
	_cleanup_(mending_clear) struct mending m = { 0 };
	const char *store_id = u->now.head.store_id;
	_cleanup_close_ int lists = elsewhere_lists(u->place, store_id);
	int r = MIN(lists, 0);

	/* by a list that is damaged all would seem to be forgotten */
	if (!r)
		r = away_is_whole(u->store) ?: -ENOTRECOVERABLE;
	r = MIN(r, 0);
	if (!r)
		r = choose_kept(u, lists, &m);
	if (r || m.kept.n == u->away.n)
		return r;
	r = bring_wanted(u, &m);
	return r ? r : elsewhere_change(u->place, store_id, &m.kept, -1);
}

int forgotten_remove(struct upload *u)
{
	int r = elsewhere_read(u->place, u->now.head.store_id, &u->away);

	if (!r && u->away.n)
		r = mend(u);
	manifest_clear(&u->away);
	return r;
}

int forgotten_any(struct upload *u)
{
	_cleanup_(mending_clear) struct mending m = { 0 };
	_cleanup_close_ int lists = elsewhere_lists(u->place, u->now.head.store_id);
	int r = lists < 0 ? lists : choose_kept(u, lists, &m);

	return r ? r : m.kept.n != u->away.n;
}
