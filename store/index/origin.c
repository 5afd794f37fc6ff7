/* SPDX-License-Identifier: MIT */
/* Finds the command in which a session began, also on another host, as LC_SHFS says
 * there (store/journal/origin.h). What names no command of this store names nothing. */
#include "store/index/internal.h"

#include "store/journal/origin.h"

int shfs_origin_add_to_session(struct shfs_ingest *ing, const struct shfs_record *rec)
{
	int64_t string_id = 0;
	int r = shfs_string_id(ing, rec->origin.value, &string_id);

	return r ? r
	         : shfs_sql_run(ing->index,
	                        "UPDATE session SET origin_id = ?"
	                        " WHERE session_id = ? AND origin_id IS NULL",
	                        shfs_arg_int(string_id),
	                        shfs_arg_int(ing->session.session_id));
}

/* Finds the command that an origin names, and its session: there must be only one. 0:
 * there is none, in this store. */
static int origin_owner(struct shfs_index *index, struct shfs_bytes text,
                        struct shfs_owner *out)
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	struct shfs_origin o;
	struct shfs_owner only;
	int r;

	if (shfs_origin_parse(text, &o))
		return 0;
	r = shfs_sql_get(
		index, &stmt,
		index->is_mirror
			? "SELECT s.session_id, c.command_id FROM m_session s"
			  " CROSS JOIN m_command c"
			  "  ON c.session_id = s.session_id AND c.number = ?5"
			  " WHERE s.start_ticks = ?4 AND s.pid = ?3"
			  " AND s.invoker = '' AND s.host = ?1"
			  " AND substr(s.boot_id, 1, 8) = ?2"
			: "SELECT s.session_id, c.command_id FROM boot b"
			  " CROSS JOIN session s ON s.boot_id = b.boot_id AND s.pid = ?3"
			  "  AND s.start_ticks = ?4 AND s.invoker = ''"
			  " CROSS JOIN command c ON c.session_id = s.session_id"
			  "  AND c.number = ?5"
			  " WHERE b.host = ?1 AND substr(b.boot, 1, 8) = ?2",
		shfs_arg_text(shfs_bytes_str(o.host)),
		shfs_arg_text(shfs_bytes_str(o.boot)), shfs_arg_int(o.pid),
		shfs_arg_int((int64_t)o.start_ticks), shfs_arg_int((int64_t)o.number));
	if (r <= 0)
		return r;
	only = (struct shfs_owner){ sqlite3_column_int64(stmt, 0),
		                    sqlite3_column_int64(stmt, 1) };
	r = shfs_sql_next(index, stmt);
	if (r)
		return MIN(r, 0);
	*out = only;
	return 1;
}

/* Gets the command that the origin of a session names, and its session: 1; 0. */
static int caller_of_origin(struct shfs_index *index, int64_t session_id,
                            struct shfs_owner *out)
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	int r = shfs_sql_get(
		index, &stmt,
		index->is_mirror ? "SELECT origin FROM m_session WHERE session_id = ?"
				   " AND origin IS NOT NULL"
				 : "SELECT t.text FROM session s"
				   " JOIN string_text_of t ON t.string_id = s.origin_id"
				   " WHERE s.session_id = ?",
		shfs_arg_int(session_id));

	return r > 0 ? origin_owner(index, shfs_bytes_column(stmt, 0), out) : r;
}

/* The same, as the store that was published has it. */
static int caller_of_mirror(struct shfs_index *mirror, int64_t session_id,
                            struct shfs_owner *out)
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	int r = shfs_sql_get(mirror, &stmt,
	                     "SELECT s.caller_id, c.session_id FROM m_session s"
	                     " LEFT JOIN m_command c ON c.command_id = s.caller_id"
	                     " WHERE s.session_id = ? AND s.caller_id IS NOT NULL",
	                     shfs_arg_int(session_id));

	if (r > 0)
		*out = (struct shfs_owner){ .command_id = sqlite3_column_int64(stmt, 0),
			                    .session_id = sqlite3_column_int64(stmt, 1) };
	return r;
}

/* Gets the command in which a session began, here or by its origin, and the session of
 * that; zeros: none is known. The hook of a shell says more than that sshd has started
 * it. */
static int caller_anywhere(struct shfs_index *index, int64_t session_id, bool *by_origin,
                           struct shfs_owner *out)
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	bool is_near = false;
	int r;

	*by_origin = false;
	*out = (struct shfs_owner){ 0 };
	if (index->is_mirror)
		is_near = (r = caller_of_mirror(index, session_id, out)) > 0;
	else
		r = shfs_caller_here(index, session_id, &out->command_id);
	if (!r && out->command_id)
		r = shfs_sql_get(
			index, &stmt,
			"SELECT c.session_id, c.task_id IS NULL OR s.invoker <> ''"
			" FROM command c, session s"
			" WHERE c.command_id = ?1 AND s.session_id = ?2",
			shfs_arg_int(out->command_id), shfs_arg_int(session_id));
	if (r > 0 && !index->is_mirror) {
		out->session_id = sqlite3_column_int64(stmt, 0);
		is_near = sqlite3_column_int(stmt, 1);
	}
	if (r < 0 || is_near)
		return MIN(r, 0);
	r = caller_of_origin(index, session_id, out);
	*by_origin = r > 0;
	return MIN(r, 0);
}

/*
 * Does a session lead back to itself, from the command in which it is said to have begun?
 * Only origins that were made up do. So that others, which lead into such a circle, end
 * the search, it also ends at a session that it has seen: `seen` moves on after 2, 4, 8,
 * … steps.
 */
static int is_in_circle(struct shfs_index *index, int64_t session_id, int64_t at)
{
	int64_t seen = at;
	bool unused;

	for (uint64_t steps = 1, until = 2; at; steps++) {
		struct shfs_owner next = { 0 };
		int r;

		if (at == session_id)
			return 1;
		r = caller_anywhere(index, at, &unused, &next);
		if (r)
			return r;
		at = next.session_id;
		if (at == seen && at != session_id)
			return 0;
		if (steps == until) {
			seen = at;
			until *= 2;
		}
	}
	return 0;
}

int shfs_session_caller(struct shfs_index *index, int64_t session_id, int64_t *command_id)
{
	struct shfs_owner owner = { 0 };
	bool by_origin = false;
	int r = caller_anywhere(index, session_id, &by_origin, &owner);

	*command_id = 0;
	if (!r && by_origin) {
		r = is_in_circle(index, session_id, owner.session_id);
		if (r > 0)
			return 0;
	}
	if (!r)
		*command_id = owner.command_id;
	return r;
}
