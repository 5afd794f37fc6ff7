/* SPDX-License-Identifier: MIT */
#include "query/undo/selection.h"

#include "query/base/model.h"
#include "query/undo/plan.h"

#include <errno.h>

static bool does_count(const struct shfs_effect *e, void *arg)
{
	const struct shfs_undo_selection *s = arg;

	return shfs_undo_may_touch(e, s->git) &&
	       (!s->by_process || shfs_ids_has(&s->ids, e->process_id));
}

/* Moves all effects of more. */
static int take_effects(struct shfs_undo_selection *s, struct shfs_effects *more)
{
	for (size_t i = 0; i < more->n; i++) {
		if (!MAKE_ROOM(s->effects.list, s->effects.n, s->effects.cap))
			return -ENOMEM;
		s->effects.list[s->effects.n++] = more->list[i];
		more->list[i] = (struct shfs_effect){ 0 };
	}
	return 0;
}

int shfs_undo_select_alone(struct shfs_undo_selection *s, int64_t command_id)
{
	_cleanup_effects_ struct shfs_effects more = { 0 };
	bool any;
	int r;

	if (!s->by_process && shfs_ids_lists(&s->ids, command_id))
		return 0;
	r = shfs_effects_add_command(&more, s->index, command_id);
	if (r)
		return r;
	shfs_effects_filter(&more, does_count, s);
	any = more.n;
	r = take_effects(s, &more);
	if (!r && !s->by_process)
		r = shfs_ids_add(&s->ids, command_id);
	return r ?: any;
}

int shfs_undo_select_given(struct shfs_undo_selection *s, const struct shfs_ids *by)
{
	_cleanup_ids_ struct shfs_ids given = { 0 };
	bool any = false;
	int r = shfs_commands_given(s->index, by, false, &given);

	for (size_t i = 0; i < given.n && r >= 0; i++) {
		r = shfs_undo_select_alone(s, given.ids[i]);
		any |= r > 0;
	}
	return r < 0 ? r : any;
}

int shfs_undo_select_command(struct shfs_undo_selection *s, int64_t command_id)
{
	const struct shfs_ids by = { &command_id, 1, 1 };
	int any = shfs_undo_select_alone(s, command_id), more;

	if (any < 0 || s->by_process)
		return any;
	more = shfs_undo_select_given(s, &by);
	return more < 0 ? more : any || more;
}

void shfs_undo_selection_filter(struct shfs_undo_selection *s)
{
	shfs_effects_filter(&s->effects, does_count, s);
}

void shfs_undo_selection_sort(struct shfs_undo_selection *s)
{
	shfs_ids_sort(&s->ids);
	shfs_effects_sort(&s->effects);
}

void shfs_undo_selection_clear(struct shfs_undo_selection *s)
{
	shfs_ids_free(&s->ids);
	shfs_effects_clear(&s->effects);
}
