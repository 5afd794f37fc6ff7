/* SPDX-License-Identifier: MIT */
#include "query/care/prune.h"

#include "common/clock.h"
#include "query/base/model.h"
#include "query/base/mounts.h"
#include "store/care/garbage.h"
#include "store/objects/inventory.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#define ROUNDS_MAX 16 /* needed if others write meanwhile */

struct candidate {
	struct shfs_object_id id;
	int64_t time_ns; /* of the newest version with this object */
	uint64_t stored;
	bool stays;
};

struct picking {
	struct shfs_prune *prune;
	struct candidate *list;
	size_t n, cap;
	int64_t *meant; /* the versions that the filter selects, sorted */
	size_t n_meant, cap_meant;
	/* the current file; its versions come newest first */
	int64_t file_id, n_kept, kept[SHFS_KEEPS];
	char last[SHFS_KEEPS][32];
};

/* --- which versions stay --- */

static const char *const periods[SHFS_KEEPS] = { "%Y-%m-%d %H", "%Y-%m-%d", "%G-%V",
	                                         "%Y-%m", "%Y" };

/* Is it the newest version of one of the last hours, days, … that have one? */
static bool is_kept_by_period(struct picking *p, int64_t time_ns)
{
	time_t s = time_ns / SHFS_NSEC_PER_SEC;
	bool kept = false;
	struct tm tm;

	if (!localtime_r(&s, &tm))
		return true;
	for (int i = 0; i < SHFS_KEEPS; i++) {
		char period[32];

		if (p->kept[i] >= p->prune->policy.keep[i] ||
		    !strftime(period, sizeof(period), periods[i], &tm) ||
		    !strcmp(period, p->last[i]))
			continue;
		memcpy(p->last[i], period, sizeof(period));
		p->kept[i]++;
		kept = true;
	}
	return kept;
}

static bool is_kept_by_policy(struct picking *p, int64_t time_ns)
{
	const struct shfs_prune_policy *o = &p->prune->policy;
	bool kept = p->n_kept < o->keep_last;

	p->n_kept++;
	if (o->keep_since_ns && time_ns >= o->keep_since_ns)
		kept = true;
	return is_kept_by_period(p, time_ns) || kept;
}

static bool is_version_to_prune(struct picking *p, struct shfs_rows *rows)
{
	const struct shfs_prune_policy *o = &p->prune->policy;
	int64_t file_id = shfs_rows_int(rows, 0), n = shfs_rows_int(rows, 1);
	int64_t time_ns = shfs_rows_int(rows, 2), id = file_id << 32 | n;
	bool kept;

	if (file_id != p->file_id) {
		p->file_id = file_id;
		p->n_kept = 0;
		memset(p->kept, 0, sizeof(p->kept));
		memset(p->last, 0, sizeof(p->last));
	}
	if (shfs_rows_int(rows, 6)) /* the version that it became by a rename decides */
		return true;
	kept = is_kept_by_policy(p, time_ns);
	if (shfs_rows_int(rows, 5) && !o->also_newest)
		return false;
	return !kept && (!o->older_ns || time_ns < o->older_ns) &&
	       (uint64_t)shfs_rows_int(rows, 3) >= o->larger &&
	       (!o->files || (p->n_meant && bsearch(&id, p->meant, p->n_meant, sizeof(id),
	                                            shfs_compare_int64)));
}

/* --- all versions --- */

static int add_candidate(struct picking *p, struct shfs_rows *rows, bool stays)
{
	struct candidate *c;

	if (p->n == p->cap) {
		size_t cap = MAX(p->cap * 2, (size_t)1024);

		c = reallocarray(p->list, cap, sizeof(*c));
		if (!c)
			return -ENOMEM;
		p->list = c;
		p->cap = cap;
	}
	c = &p->list[p->n];
	*c = (struct candidate){ .time_ns = shfs_rows_int(rows, 2), .stays = stays };
	if (shfs_object_parse(shfs_rows_text(rows, 4), &c->id))
		return -EBADMSG;
	p->n++;
	return 0;
}

static int find_meant(struct picking *p)
{
	_cleanup_query_ struct shfs_query q = { 0 };
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r;

	if (!p->prune->policy.files)
		return 0;
	shfs_buf_str(&q.sql, "SELECT v.file_id, v.n FROM v_version v"
	                     " WHERE v.object IS NOT NULL");
	shfs_filter_files(p->prune->policy.files, &q, "v.file_id");
	r = shfs_query_open(&q, p->prune->index, &rows);
	while (!r && (r = shfs_rows_next(rows)) > 0) {
		if (p->n_meant == p->cap_meant) {
			size_t cap = MAX(p->cap_meant * 2, (size_t)1024);
			int64_t *more = reallocarray(p->meant, cap, sizeof(*more));

			if (!more)
				return -ENOMEM;
			p->meant = more;
			p->cap_meant = cap;
		}
		p->meant[p->n_meant++] =
			shfs_rows_int(rows, 0) << 32 | shfs_rows_int(rows, 1);
		r = 0;
	}
	if (p->n_meant)
		qsort(p->meant, p->n_meant, sizeof(*p->meant), shfs_compare_int64);
	return r;
}

static int read_versions(struct picking *p)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open(p->prune->index,
	                       "SELECT v.file_id, v.n, v.time_ns, v.size, v.object,"
	                       " (SELECT f.present AND f.versions = v.n FROM v_file f"
	                       "  WHERE f.file_id = v.file_id),"
	                       " EXISTS (SELECT 1 FROM v_version m"
	                       "  WHERE m.origin_version_id = v.version_id"
	                       "  AND (m.carried OR m.source = 'renamed')"
	                       "  AND m.object = v.object)"
	                       " AND NOT EXISTS (SELECT 1 FROM v_file f"
	                       "  WHERE f.file_id = v.file_id AND f.present)"
	                       " FROM v_version v WHERE v.object IS NOT NULL"
	                       " ORDER BY v.file_id, v.n DESC",
	                       &rows);

	while (!r && (r = shfs_rows_next(rows)) > 0)
		r = add_candidate(p, rows, !is_version_to_prune(p, rows));
	return r;
}

/* --- objects --- */

static int compare_candidate_ids(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	return shfs_object_compare(&x->id, &y->id);
}

static int compare_times(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	return (x->time_ns > y->time_ns) - (x->time_ns < y->time_ns);
}

/* Makes one entry for each object, and drops those of which a version stays. */
static void merge_candidates(struct picking *p)
{
	size_t n = 0, kept = 0;

	if (!p->n)
		return;
	qsort(p->list, p->n, sizeof(*p->list), compare_candidate_ids);
	for (size_t i = 0; i < p->n; i++) {
		struct candidate *c = &p->list[i], *last = n ? &p->list[n - 1] : NULL;

		if (!last || compare_candidate_ids(c, last)) {
			p->list[n++] = *c;
			continue;
		}
		last->stays |= c->stays;
		last->time_ns = MAX(last->time_ns, c->time_ns);
	}
	for (size_t i = 0; i < n; i++)
		if (!p->list[i].stays)
			p->list[kept++] = p->list[i];
	p->n = kept;
}

static struct candidate *find_candidate(struct picking *p,
                                        const struct shfs_object_id *id)
{
	struct candidate key = { .id = *id };

	return p->n ? bsearch(&key, p->list, p->n, sizeof(key), compare_candidate_ids)
	            : NULL;
}

static int add_stored(void *arg, const struct shfs_stored *object)
{
	struct candidate *c = find_candidate(arg, &object->id);

	if (c)
		c->stored += object->stored;
	return 0;
}

/* Chooses, of the objects in the store, the oldest until the store is small enough.
 * Deltas against a removed object take more room afterwards, so each later round removes
 * more. */
static int choose_oldest_objects(struct picking *p)
{
	struct shfs_prune *prune = p->prune;
	uint64_t most = prune->policy.max_bytes, total, excess, sum = 0;
	struct shfs_usage now; /* an earlier round may have made room */
	size_t n = 0;
	int r = shfs_store_usage(prune->store, &now);

	if (!r)
		r = shfs_inventory(prune->store, add_stored, p);

	for (size_t i = 0; i < p->n; i++)
		if (p->list[i].stored)
			p->list[n++] = p->list[i];
	p->n = n;
	if (r || !most)
		return r;
	if (n)
		qsort(p->list, n, sizeof(*p->list), compare_times);
	total = shfs_usage_total(&now);
	excess = (total - MIN(most, total)) << prune->rounds;
	for (n = 0; n < p->n && sum < excess; n++)
		sum += p->list[n].stored;
	p->n = n;
	if (n)
		qsort(p->list, n, sizeof(*p->list), compare_candidate_ids);
	return 0;
}

static int show_pruned_versions(struct picking *p)
{
	struct shfs_prune *prune = p->prune;
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open(prune->index,
	                       "SELECT v.path, v.n, v.size, v.object FROM v_version v"
	                       " WHERE v.object IS NOT NULL ORDER BY v.file_id, v.n",
	                       &rows);

	prune->versions = 0;
	while (!r && (r = shfs_rows_next(rows)) > 0) {
		struct shfs_object_id id;

		r = shfs_object_parse(shfs_rows_text(rows, 3), &id);
		if (r || !find_candidate(p, &id))
			continue;
		prune->versions++;
		if (prune->show)
			prune->show(prune->arg, shfs_rows_text(rows, 0),
			            shfs_rows_int(rows, 1),
			            (uint64_t)shfs_rows_int(rows, 2));
	}
	return r;
}

static void picking_free(struct picking *p)
{
	free(p->list);
	free(p->meant);
}

static int pick_objects_to_prune(void *arg, struct shfs_objects *out)
{
	struct shfs_prune *prune = arg;
	_cleanup_(picking_free) struct picking p = { .prune = prune };
	int r = 0;

	if (prune->picks++) /* count what was recorded meanwhile */
		r = shfs_index_ingest(prune->index, prune->hook_dir, NULL);
	if (!r)
		r = find_meant(&p);
	if (!r)
		r = read_versions(&p);
	merge_candidates(&p);
	if (!r)
		r = choose_oldest_objects(&p);
	if (!r && prune->dry) {
		prune->objects = p.n;
		prune->bytes = 0;
		for (size_t i = 0; i < p.n; i++)
			prune->bytes += p.list[i].stored;
	}
	if (!r)
		r = show_pruned_versions(&p);
	for (size_t i = 0; i < p.n && !r; i++)
		r = shfs_objects_add(out, &p.list[i].id);
	return r;
}

/* --- running --- */

static int run_once(struct shfs_prune *prune)
{
	_cleanup_objects_ struct shfs_objects none = { 0 };
	struct shfs_collect how = {
		.pick = pick_objects_to_prune,
		.arg = prune,
		.named = true,
		.alone = prune->alone,
		.wait_ms = prune->wait_ms,
		.objects = &prune->objects,
		.bytes = &prune->bytes,
	};

	prune->picks = 0;
	return prune->dry ? pick_objects_to_prune(prune, &none)
	                  : shfs_collect(prune->store, &how);
}

static bool is_too_large(const struct shfs_prune *prune)
{
	return prune->policy.max_bytes &&
	       shfs_usage_total(&prune->after) > prune->policy.max_bytes;
}

int shfs_prune_run(struct shfs_prune *prune)
{
	uint64_t versions = 0, objects = 0, bytes = 0;
	struct shfs_usage begin = { 0 };
	int r = prune->despite_damage ? 0 : shfs_journal_is_whole(prune->store);

	if (!r)
		r = shfs_store_usage(prune->store, &begin);
	prune->before = prune->after = begin;
	for (prune->rounds = 0; !r; prune->rounds++) {
		r = run_once(prune);
		if (!r || r == -EBUSY) {
			versions += prune->versions;
			objects += prune->objects;
			bytes += prune->bytes;
		}
		if (!r)
			r = shfs_store_usage(prune->store, &prune->after);
		prune->exhausted = !prune->objects;
		if (r || prune->dry || prune->exhausted || !is_too_large(prune) ||
		    prune->rounds == ROUNDS_MAX)
			break;
	}
	prune->versions = versions;
	prune->objects = objects;
	prune->bytes = bytes;
	if (prune->dry)
		prune->after.objects -= MIN(bytes, prune->after.objects);
	else if (objects)
		shfs_mounts_let_go(prune->store->path);
	return r;
}

static int fail_unlocked(const struct shfs_store *store, const char *what)
{
	_cleanup_free_ char *over = shfs_mounts_over(store->path);
	_cleanup_buf_ struct shfs_buf shown = { 0 };

	if (over) {
		shfs_show_directory(&shown, over);
		shfs_error("nothing is %s: the store is inside the mount %s", what,
		           shown.data);
		shfs_hint("shfs umount %s first", shown.data);
	} else {
		shfs_error("nothing is %s: the store is on a network file system, where "
		           "nothing can be locked",
		           what);
		shfs_hint("unmount everything on all machines, and use --offline");
	}
	return SHFS_EXIT_REFUSED;
}

int shfs_fail_collect(const struct shfs_store *store, const char *what, int error)
{
	switch (error) {
	case -EBUSY:
		shfs_error("not all is %s: something in the store is in use", what);
		shfs_hint("a mount that does not answer, or another prune, gc or forget; "
		          "try again, and see shfs status");
		return SHFS_EXIT_REFUSED;
	case -EOPNOTSUPP:
		return fail_unlocked(store, what);
	case -EBADMSG:
		shfs_error("nothing is %s: a part of the journal is damaged, and may "
		           "name an object that would be removed",
		           what);
		shfs_hint("--despite-damage goes on anyway");
		return SHFS_EXIT_REFUSED;
	case -ENOSPC:
	case -EDQUOT:
		shfs_error("not all is %s: %s", what, strerror(-error));
		shfs_hint("the store's disk needs some room for what is written before "
		          "anything is removed");
		return SHFS_EXIT_FAILURE;
	case -ENOTRECOVERABLE:
		shfs_error("nothing is %s: the list of pruned objects is damaged", what);
		shfs_hint("run shfs repair");
		return SHFS_EXIT_REFUSED;
	case -ENOTEMPTY:
		shfs_error("nothing is %s: the files that shfs repair set aside may name "
		           "objects that would be removed",
		           what);
		shfs_hint("remove the directory quarantine of the store when you no "
		          "longer need it; --despite-damage goes on anyway");
		return SHFS_EXIT_REFUSED;
	case -EPROTONOSUPPORT:
		shfs_error("nothing is %s: another version of shfs wrote some of the "
		           "journal",
		           what);
		shfs_hint("use that version");
		return SHFS_EXIT_REFUSED;
	default:
		shfs_error("not all is %s: %s", what, strerror(-error));
		return SHFS_EXIT_FAILURE;
	}
}
