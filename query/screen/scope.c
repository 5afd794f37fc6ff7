/* SPDX-License-Identifier: MIT */
#include "query/screen/scope.h"

#include "common/proc.h"
#include "query/base/model.h"
#include "query/base/time.h"

#include <errno.h>
#include <string.h>

enum place { EVERYWHERE, HOST, SESSION, PROJECT, DIRECTORY, PLACES };

static const char *const names[SHFS_SCOPE_DIALS][PLACES + 1] = {
	[SHFS_SCOPE_PLACE] = { "", "this host", "this session", "this project",
	                       "this directory" },
	[SHFS_SCOPE_END] = { "", "succeeded", "failed" },
	[SHFS_SCOPE_AGE] = { "", "last hour", "today", "last 7 days", "last 30 days" },
};
static const char *const ends[] = { NULL, "ok", "fail" };
static const char *const since[] = { NULL, "1 hour ago", "today", "7 days ago",
	                             "30 days ago" };

/* Gets the id of the session in which this was typed, if it is in one. */
static int load_session(struct shfs_index *index, char **id)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int64_t session_id;
	int r = shfs_session_own(index, &session_id);

	if (!r)
		r = shfs_rows_open_ints(index,
		                        "SELECT id FROM v_session WHERE session_id = ?1",
		                        SHFS_INTS(session_id), &rows);
	if (!r)
		r = shfs_rows_next(rows);
	*id = r > 0 ? strdup(shfs_rows_text(rows, 0)) : NULL;
	return r > 0 && !*id ? -ENOMEM : MIN(r, 0);
}

/* Gets the innermost directory that was recorded and holds this one. */
static int load_project(struct shfs_index *index, const char *here, char **root)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open_str(index,
	                           "SELECT root FROM v_producer WHERE root = ?1 OR"
	                           " substr(?1, 1, length(root) + 1) = root || '/'"
	                           " ORDER BY length(root) DESC LIMIT 1",
	                           here, &rows);

	if (!r)
		r = shfs_rows_next(rows);
	*root = r > 0 ? strdup(shfs_rows_text(rows, 0)) : NULL;
	return r > 0 && !*root ? -ENOMEM : MIN(r, 0);
}

int shfs_scope_begin(struct shfs_scope *s, struct shfs_filter *filter,
                     struct shfs_index *index)
{
	int r;

	*s = (struct shfs_scope){ .filter = filter,
		                  .n_given = filter->n,
		                  .here = shfs_operand_path(".") };
	r = s->here ? load_project(index, s->here, &s->project) : 0;
	return r ? r : load_session(index, &s->session);
}

void shfs_scope_clear(struct shfs_scope *s)
{
	free(TAKE_PTR(s->here));
	free(TAKE_PTR(s->project));
	free(TAKE_PTR(s->session));
}

/* --- conditions --- */

static int add_place(const struct shfs_scope *s)
{
	char host[65];

	switch ((enum place)s->at[SHFS_SCOPE_PLACE]) {
	case HOST:
		shfs_proc_host(host);
		return shfs_filter_add(s->filter, SHFS_FILTER_HOST, host);
	case SESSION:
		return shfs_filter_add(s->filter, SHFS_FILTER_SESSION, s->session);
	case PROJECT:
		return shfs_filter_add(s->filter, SHFS_FILTER_CWD, s->project);
	case DIRECTORY:
		return shfs_filter_add(s->filter, SHFS_FILTER_CWD, s->here);
	default:
		return 0;
	}
}

static int add_age(const struct shfs_scope *s)
{
	const char *text = since[s->at[SHFS_SCOPE_AGE]];
	int64_t ns;
	int r = text ? shfs_time_parse(text, &ns) : 0;

	return text && !r ? shfs_filter_add_int(s->filter, SHFS_FILTER_SINCE, ns) : r;
}

static bool is_possible(const struct shfs_scope *s)
{
	switch ((enum place)s->at[SHFS_SCOPE_PLACE]) {
	case SESSION:
		return s->session;
	case PROJECT:
		return s->project;
	case DIRECTORY:
		return s->here;
	default:
		return true;
	}
}

int shfs_scope_turn(struct shfs_scope *s, enum shfs_scope_dial dial,
                    struct shfs_index *index)
{
	unsigned int *at = &s->at[dial];
	const char *end;
	int r;

	do
		*at = names[dial][*at + 1] ? *at + 1 : 0;
	while (!is_possible(s));
	shfs_filter_cut(s->filter, s->n_given);
	end = ends[s->at[SHFS_SCOPE_END]];
	r = add_place(s);
	if (!r && end)
		r = shfs_filter_add_status(s->filter, end);
	if (!r)
		r = add_age(s);
	shfs_filter_put_in_all(s->filter, s->n_given);
	return r ? r : shfs_filter_measure(s->filter, index);
}

void shfs_scope_show(const struct shfs_scope *s, struct shfs_buf *out)
{
	for (int dial = 0; dial < SHFS_SCOPE_DIALS; dial++)
		if (s->at[dial])
			shfs_buf_printf(out, ", %s", names[dial][s->at[dial]]);
	shfs_buf_str(out, s->n_given ? ", filtered" : "");
}
