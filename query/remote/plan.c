/* SPDX-License-Identifier: MIT */
/* Which pieces of packs a pull needs: those with objects that are not here, and with the
 * bases of such objects. */
#include "query/remote/pull-internal.h"

#include "common/io.h"
#include "store/objects/content.h"
#include "store/objects/objects.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CONTENTS_MAX (1u << 30)
#define CHAIN_MAX    600 /* deltas, one of another */
#define ROUNDS_MAX   600 /* through all packs, for their bases */

struct plan {
	struct pull *pull;
	struct pulled_store *o;
	struct fetcher *f;
	int incoming;
	struct shfs_objects bases; /* that are needed, and in none of the packs so far */
};

/* The pack that is looked at. */
struct marking {
	struct plan *plan;
	const struct contents *contents;
	struct fetched_pack *pack;
	const struct remote_file *file;
	size_t n_pieces;
	bool any;
};

static const char *pack_of(const struct remote_file *file)
{
	return strrchr(file->name, '/') + 1;
}

int incoming_contents(const struct pulled_store *o, int incoming,
                      const struct remote_file *pack, struct contents *out)
{
	_cleanup_buf_ struct shfs_buf bytes = { 0 };
	char path[300];
	int r;

	if (o->lists >= 0)
		return elsewhere_contents(o->lists, &o->now, pack, out);
	snprintf(path, sizeof(path), "made/contents/%s", pack_of(pack));
	r = shfs_read_file_at(incoming, path, CONTENTS_MAX, &bytes);
	return r ? r : contents_parse(bytes.data ?: "", bytes.len, out);
}

/* --- marking --- */

static void mark_piece(void *arg, size_t piece)
{
	struct marking *m = arg;

	m->pack->pieces[piece] = true;
	m->any = true;
}

/* Marks the pieces of an object, and those of its bases that are not here. */
static int mark_object(struct marking *m, const struct packed_object *object)
{
	for (unsigned i = 0; i < CHAIN_MAX; i++) {
		const struct packed_object *base;
		int r;

		each_piece_of(object, m->n_pieces, mark_piece, m);
		if (!object->has_base)
			return 0;
		r = content_look(m->plan->pull->place->store, &object->base);
		if (r != -ENOENT && r != -EBADMSG)
			return MIN(r, 0);
		base = contents_find(m->contents, &object->base);
		if (!base)
			return shfs_objects_add(&m->plan->bases, &object->base);
		object = base;
	}
	return 0;
}

static int mark_wanted(struct marking *m)
{
	int r = 0;

	for (size_t i = 0; i < m->contents->n && !r; i++) {
		r = object_is_wanted(m->plan->pull->place->store, m->plan->o, m->file,
		                     &m->contents->list[i].id);
		if (r > 0)
			r = mark_object(m, &m->contents->list[i]);
	}
	return r;
}

/* --- packs --- */

/* The entry of a pack, made if it is new. NULL: no memory. */
static struct fetched_pack *pack_entry(struct pulled_store *o, size_t file)
{
	struct fetched_pack *pack;

	for (size_t i = 0; i < o->n_packs; i++)
		if (o->packs[i].file == file)
			return &o->packs[i];
	if (!MAKE_ROOM(o->packs, o->n_packs, o->cap_packs))
		return NULL;
	pack = &o->packs[o->n_packs];
	*pack = (struct fetched_pack){
		.file = file,
		.pieces = calloc(o->now.files[file].n + 1, sizeof(*pack->pieces)),
	};
	o->n_packs += pack->pieces != NULL;
	return pack->pieces ? pack : NULL;
}

static int fetch_marked(struct plan *p, struct fetched_pack *pack)
{
	struct remote_file *file = &p->o->now.files[pack->file];
	char path[64];
	int r;

	if (file->n)
		pack->pieces[0] = true; /* it says that this is a pack */
	for (size_t i = 0; i < file->n; i++) {
		uint64_t bytes = pack->pieces[i] ? file->pieces[i].bytes : 0;

		p->f->all_bytes += bytes;
		p->pull->stats.bytes += bytes;
	}
	if (p->pull->options.dry_run)
		return 0;
	incoming_pack(pack_of(file), path);
	r = fetch_file(p->f, file, p->incoming, path, pack->pieces);
	if (r > 0)
		p->o->left_out[pack->file] = true;
	return r == -ENOENT ? -ENODATA : MIN(r, 0);
}

/* Of a pack whose list is damaged all is fetched. */
static void mark_all(struct marking *m)
{
	for (size_t i = 0; i < m->n_pieces; i++)
		mark_piece(m, i);
	m->pack->unknown = true;
}

static int plan_pack(struct plan *p, size_t i)
{
	const struct remote_file *file = &p->o->now.files[i];
	_cleanup_contents_ struct contents contents = { 0 };
	struct marking m = { p, &contents, pack_entry(p->o, i), file, file->n };
	int r;

	if (!m.pack)
		return -ENOMEM;
	r = incoming_contents(p->o, p->incoming, file, &contents);
	if (!r)
		r = mark_wanted(&m);
	else if (r == -ENOENT || (r == -EBADMSG && p->f->despite_damage))
		mark_all(&m), r = 0;
	if (!r && m.any)
		r = fetch_marked(p, m.pack);
	if (!m.any) {
		free(p->o->packs[--p->o->n_packs].pieces);
	}
	return r;
}

/* --- bases in packs that were pulled before --- */

static int find_bases_in(struct plan *p, size_t i, const struct shfs_objects *wanted)
{
	const struct remote_file *file = &p->o->now.files[i];
	_cleanup_contents_ struct contents contents = { 0 };
	const int lists = p->o->lists >= 0 ? p->o->lists : p->incoming;
	struct marking m = { p, &contents, NULL, file, file->n };
	struct remote_file *list;
	char name[300];
	int r;

	snprintf(name, sizeof(name), "made/contents/%s", pack_of(file));
	list = manifest_find(&p->o->now, name);
	p->f->all_bytes += list ? list->bytes : 0;
	r = list ? fetch_file(p->f, list, lists, name, NULL) : 1;
	if (!r)
		r = incoming_contents(p->o, p->incoming, file, &contents);
	if (r)
		return r == 1 || r == -EBADMSG || r == -ENOENT ? 0 : r;
	for (size_t j = 0; j < wanted->n && !r; j++) {
		const struct packed_object *base =
			contents_find(&contents, &wanted->ids[j]);

		if (!base)
			continue;
		m.pack = pack_entry(p->o, i);
		r = m.pack ? mark_object(&m, base) : -ENOMEM;
		if (m.pack)
			m.pack->bases = true;
	}
	return r || !m.any ? r : fetch_marked(p, m.pack);
}

static int find_bases(struct plan *p)
{
	int r = 0;

	for (int round = 0; p->bases.n && round < ROUNDS_MAX && !r; round++) {
		_cleanup_objects_ struct shfs_objects wanted = p->bases;

		p->bases = (struct shfs_objects){ 0 };
		shfs_objects_sort(&wanted);
		for (size_t i = 0; i < p->o->now.n && !r; i++)
			if (file_kind_of(p->o->now.files[i].name) == FILE_PACK)
				r = find_bases_in(p, i, &wanted);
	}
	return r;
}

int fetch_objects(struct pull *pull, struct pulled_store *o, struct fetcher *f,
                  int incoming, const struct shfs_objects *ids)
{
	struct plan p = { .pull = pull, .o = o, .f = f, .incoming = incoming };
	int r = packs_refresh(pull->place->store);

	for (size_t i = 0; i < ids->n && !r; i++) {
		r = content_look(pull->place->store, &ids->ids[i]);
		r = r != -ENOENT && r != -EBADMSG
		            ? MIN(r, 0)
		            : shfs_objects_add(&p.bases, &ids->ids[i]);
	}
	if (!r)
		r = find_bases(&p);
	shfs_objects_free(&p.bases);
	return r;
}

int fetch_packs(struct pull *pull, struct pulled_store *o, struct fetcher *f,
                int incoming)
{
	struct plan p = { .pull = pull, .o = o, .f = f, .incoming = incoming };
	int r = packs_refresh(pull->place->store);

	for (size_t i = 0; i < o->now.n && !r; i++)
		if (file_kind_of(o->now.files[i].name) == FILE_PACK &&
		    is_new_file(o, &o->now.files[i]))
			r = plan_pack(&p, i);
	if (!r)
		r = find_bases(&p);
	shfs_objects_free(&p.bases);
	return r;
}
