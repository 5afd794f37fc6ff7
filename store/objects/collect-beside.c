/* SPDX-License-Identifier: MIT */
/* A collection beside producers: waits until no process can name what is removed. */
#include "store/objects/collect.h"

#include "store/objects/away.h"
#include "store/objects/lease.h"
#include "store/objects/packs.h"
#include "store/objects/pruned.h"
#include "store/reserve.h"

#include <errno.h>
#include <stdlib.h>

#define TRIES 3 /* if there is no room */

/* Keeps the ids of a that are in b, or (in_b false) that are not; both are sorted. */
static size_t intersect(struct shfs_object_id *a, size_t n,
                        const struct shfs_object_id *b, size_t m, bool in_b)
{
	size_t kept = 0;

	for (size_t i = 0; i < n; i++) {
		bool found = m && bsearch(&a[i], b, m, sizeof(*b), shfs_object_compare);

		if (found == in_b)
			a[kept++] = a[i];
	}
	return kept;
}

static int pick_sorted(const struct shfs_collect *how, struct shfs_objects *out)
{
	int r = how->pick(how->arg, out);

	shfs_objects_sort(out);
	return r;
}

/* Condemns the picked objects, and keeps those that are picked again once all records
 * that were under way are in the journal. */
static int condemn_picked(struct shfs_store *store, const struct shfs_collect *how,
                          struct lease_gate *gate, struct shfs_objects *o)
{
	_cleanup_objects_ struct shfs_objects again = { 0 }, claims = { 0 };
	const struct lease_condemnation condemnation = { how->wait_ms, how->forget,
		                                         how->tell, how->tell_arg };
	int r = lease_gate_condemn(gate, o->ids, o->n, &condemnation);

	if (!r)
		r = lease_gate_claims(gate, &claims.ids, &claims.n);
	if (!r)
		r = pick_sorted(how, &again);
	if (r)
		return r;
	o->n = intersect(o->ids, o->n, again.ids, again.n, true);
	o->n = intersect(o->ids, o->n, claims.ids, claims.n, false);
	r = packs_refresh(store);
	if (!r)
		r = shfs_objects_measure(store, o->ids, o->n, how->bytes);
	*how->objects = o->n;
	if (!r && how->named && o->n)
		r = pruned_add(store, o->ids, o->n);
	/* what only a remote has is removed there by the next push */
	if (!r && (how->named || how->forget) && o->n)
		r = away_drop(store, o->ids, o->n);
	return r;
}

int shfs_collect_at(struct shfs_store *store, struct lease_gate *gate,
                    const struct shfs_collect *how)
{
	_cleanup_objects_ struct shfs_objects o = { 0 };
	int r = pick_sorted(how, &o);

	*how->objects = *how->bytes = 0;
	if (!r && o.n)
		r = condemn_picked(store, how, gate, &o);
	return r || !o.n ? r : shfs_objects_remove(store, o.ids, o.n);
}

static int collect_once(struct shfs_store *store, const struct shfs_collect *how)
{
	struct lease_gate gate;
	int r = lease_gate_open(store, &gate);

	if (r)
		return r;
	r = shfs_collect_at(store, &gate, how);
	lease_gate_close(&gate);
	return r;
}

int shfs_collect(struct shfs_store *store, const struct shfs_collect *how)
{
	int r;

	if (shfs_store_may_hang(store->path) && !how->alone)
		return -EOPNOTSUPP;
	r = how->shared ? 0 : shfs_store_share(store, 0);
	if (r)
		return r;
	r = collect_once(store, how);
	/* the objects removed so far have made some room */
	for (int i = 0; i < TRIES && (r == -ENOSPC || r == -EDQUOT); i++) {
		reserve_give_up(store);
		r = collect_once(store, how);
	}
	reserve_make(store);
	if (!how->shared)
		shfs_store_unshare(store);
	return r;
}
