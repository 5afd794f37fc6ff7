/* SPDX-License-Identifier: MIT */
#include "query/history/fold.h"

#include <string.h>

/* Versions of which it is not decided yet how they are shown. */
struct pending {
	struct shfs_version first, last; /* as they came; last: if there are several */
	int64_t n;
};

static bool stands_alone(const struct shfs_version *v)
{
	return v->carried || v->flags & SHFS_CONTENT_INCOMPLETE ||
	       !strcmp(v->source, "found") || (!v->command_id && !v->process_id);
}

static bool is_same_maker(const struct shfs_version *a, const struct shfs_version *b)
{
	return a->command_id == b->command_id &&
	       (a->command_id || a->process_id == b->process_id);
}

static bool is_noted(const struct shfs_gone_list *gone, const struct shfs_version *v)
{
	return gone && shfs_ids_has(&gone->noted, v->time_ns);
}

static bool fits(const struct pending *p, const struct shfs_gone_list *gone,
                 const struct shfs_version *v)
{
	const struct shfs_version *beside = p->n > 1 ? &p->last : &p->first;

	return llabs(v->n - beside->n) == 1 && is_same_maker(v, beside) &&
	       !stands_alone(v) && !stands_alone(beside) &&
	       shfs_version_why_not_archived(v->flags) ==
	               shfs_version_why_not_archived(beside->flags) &&
	       !is_noted(gone, v) && !is_noted(gone, beside) &&
	       !(gone && shfs_gone_find(gone, MIN(v->n, beside->n)));
}

static void clear_pending(struct pending *p)
{
	shfs_version_clear(&p->first);
	shfs_version_clear(&p->last);
	*p = (struct pending){ 0 };
}

/* Takes what v owns. */
static void add_pending(struct pending *p, struct shfs_version *v)
{
	struct shfs_version *to = p->n++ ? &p->last : &p->first;

	shfs_version_clear(to);
	*to = *v;
	*v = (struct shfs_version){ 0 };
}

static int end_pending(struct pending *p, shfs_fold_entry *entry, void *arg)
{
	bool up = p->last.n > p->first.n;
	int r = 0;

	if (p->n >= SHFS_FOLD_MIN)
		r = entry(arg, up ? &p->last : &p->first, up ? &p->first : &p->last);
	else if (p->n)
		r = entry(arg, &p->first, &p->first);
	if (!r && p->n > 1 && p->n < SHFS_FOLD_MIN)
		r = entry(arg, &p->last, &p->last);
	clear_pending(p);
	return r;
}

int shfs_fold_each(struct shfs_rows *rows, bool fold, const struct shfs_gone_list *gone,
                   shfs_fold_entry *entry, void *arg)
{
	_cleanup_(clear_pending) struct pending pending = { 0 };
	int r;

	_Static_assert(SHFS_FOLD_MIN == 3, "pending keeps two that are no fold");
	while ((r = shfs_rows_next(rows)) > 0) {
		_cleanup_version_ struct shfs_version v = { 0 };

		r = shfs_version_from_row(rows, &v);
		if (r <= 0)
			return r;
		r = fold && fits(&pending, gone, &v) ? 0
		                                     : end_pending(&pending, entry, arg);
		if (r)
			return r;
		add_pending(&pending, &v);
	}
	return r ? r : end_pending(&pending, entry, arg);
}
