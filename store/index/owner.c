/* SPDX-License-Identifier: MIT */
/*
 * Reads and writes the owners of accesses, as attribute.c has found them.
 *
 * The programs of a process have its owner (the table task), and so have their accesses.
 * But an access of a registered shell itself is attributed by its own time, so each of
 * them has a row of its own (the table shell_access). facts-all.c follows the same rule
 * in memory.
 */
#include "store/index/internal.h"

#include <errno.h>

int shfs_owner_of_process(struct shfs_index *index, int64_t process_id,
                          struct shfs_owner *out)
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	int r = shfs_sql_get(
		index, &stmt,
		"SELECT t.session_id, t.command_id, t.shell FROM process p"
		" JOIN task t ON t.task_id = coalesce(p.task_id, p.process_id)"
		" WHERE p.process_id = ?",
		shfs_arg_int(process_id));

	*out = (struct shfs_owner){ 0 };
	if (r > 0)
		*out = (struct shfs_owner){
			.session_id = sqlite3_column_int64(stmt, 0),
			.command_id = sqlite3_column_int64(stmt, 1),
			.shell = sqlite3_column_int(stmt, 2),
		};
	return r;
}

static int owner_by_itself(struct shfs_index *index, int64_t access_id,
                           struct shfs_owner *out)
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	int r = shfs_sql_get(index, &stmt,
	                     "SELECT session_id, command_id FROM shell_access"
	                     " WHERE access_id = ?",
	                     shfs_arg_int(access_id));

	*out = (struct shfs_owner){ .shell = true };
	if (r > 0) {
		out->session_id = sqlite3_column_int64(stmt, 0);
		out->command_id = sqlite3_column_int64(stmt, 1);
	}
	return MIN(r, 0);
}

int shfs_owner_of_access(struct shfs_index *index, int64_t access_id,
                         struct shfs_last_owner *last, struct shfs_owner *out)
{
	int64_t process_id = access_id >> 32;
	int r = 0;

	if (process_id != last->process_id)
		r = shfs_owner_of_process(index, process_id, &last->owner);
	if (r < 0)
		return r;
	last->process_id = process_id;
	*out = last->owner;
	return out->shell ? owner_by_itself(index, access_id, out) : 0;
}

int shfs_access_command(struct shfs_index *index, int64_t access_id, int64_t *command_id)
{
	struct shfs_last_owner last = { 0 };
	struct shfs_owner owner = { 0 };
	int r;

	if (index->is_mirror) {
		*command_id = 0;
		return MIN(shfs_sql_int(index, command_id,
		                        "SELECT command_id FROM m_access"
		                        " WHERE access_id = ?",
		                        shfs_arg_int(access_id)),
		           0);
	}
	r = shfs_owner_of_access(index, access_id, &last, &owner);
	*command_id = owner.command_id;
	return r;
}

static int add_ids(struct shfs_index *index, const char *sql, int64_t command_id,
                   struct shfs_ids *out)
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	int r = shfs_sql_get(index, &stmt, sql, shfs_arg_int(command_id));

	for (; r > 0; r = shfs_sql_next(index, stmt))
		if (shfs_ids_add(out, sqlite3_column_int64(stmt, 0)))
			return -ENOMEM;
	return r;
}

int shfs_owner_processes(struct shfs_index *index, int64_t command_id,
                         struct shfs_ids *out)
{
	return add_ids(index,
	               "SELECT p.process_id FROM task t JOIN process p"
	               " ON p.process_id = t.task_id OR p.task_id = t.task_id"
	               " WHERE t.command_id = ? AND NOT t.shell ORDER BY p.process_id",
	               command_id, out);
}

int shfs_owner_shell_accesses(struct shfs_index *index, int64_t command_id,
                              struct shfs_ids *out)
{
	return add_ids(index,
	               "SELECT access_id FROM shell_access WHERE command_id = ?"
	               " ORDER BY access_id",
	               command_id, out);
}

int shfs_owner_count(struct shfs_index *index, int64_t command_id, int64_t *out)
{
	return shfs_sql_int(
		index, out,
		"SELECT (SELECT coalesce(sum(p.accesses), 0) FROM task t"
		"  JOIN process p"
		"  ON p.process_id = t.task_id OR p.task_id = t.task_id"
		"  WHERE t.command_id = ?1 AND NOT t.shell)"
		" + (SELECT count(*) FROM shell_access WHERE command_id = ?1)",
		shfs_arg_int(command_id));
}

int shfs_owner_set_of_task(struct shfs_index *index, int64_t task_id,
                           const struct shfs_owner *owner)
{
	return shfs_sql_run(index,
	                    "UPDATE task SET session_id = ?1, command_id = ?2, shell = ?4"
	                    " WHERE task_id = ?3 AND (session_id IS NOT ?1"
	                    " OR command_id IS NOT ?2 OR shell <> ?4)",
	                    shfs_arg_id(owner->session_id),
	                    shfs_arg_id(owner->command_id), shfs_arg_int(task_id),
	                    shfs_arg_int(owner->shell));
}

int shfs_owner_set_of_shell_access(struct shfs_index *index, int64_t access_id,
                                   const struct shfs_owner *owner)
{
	return shfs_sql_run(index,
	                    "INSERT INTO shell_access (access_id, session_id, command_id)"
	                    " VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET"
	                    " session_id = excluded.session_id,"
	                    " command_id = excluded.command_id",
	                    shfs_arg_int(access_id), shfs_arg_id(owner->session_id),
	                    shfs_arg_id(owner->command_id));
}

/* --- functions of SQL --- */

/* Returns a number from a function: as it is, or NULL if it is 0. */
static void give_number(sqlite3_context *ctx, int r, int64_t n, bool null_for_0)
{
	if (r < 0)
		sqlite3_result_error_code(ctx, shfs_index_rc(r));
	else if (n || !null_for_0)
		sqlite3_result_int64(ctx, n);
}

void shfs_owner_access_command(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
	int64_t command_id = 0;
	int r = sqlite3_value_type(argv[0]) == SQLITE_NULL
	                ? 0
	                : shfs_access_command(sqlite3_user_data(ctx),
	                                      sqlite3_value_int64(argv[0]), &command_id);

	give_number(ctx, r, command_id, true);
}

void shfs_owner_command_accesses(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
	int64_t n = 0;
	int r = shfs_owner_count(sqlite3_user_data(ctx), sqlite3_value_int64(argv[0]),
	                         &n);

	give_number(ctx, r, n, false);
}

void shfs_owner_command_last(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
	int64_t ns = 0;
	int r = shfs_sql_int(
		sqlite3_user_data(ctx), &ns,
		"SELECT max(a.end_ns) FROM task t JOIN process p"
		" ON p.process_id = t.task_id OR p.task_id = t.task_id"
		" JOIN access a ON a.access_id = p.process_id << 32 | p.accesses"
		" WHERE t.command_id = ?1 AND NOT t.shell",
		shfs_arg_int(sqlite3_value_int64(argv[0])));

	give_number(ctx, r, ns, true);
}

void shfs_owner_session_caller(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
	int64_t command_id = 0;
	int r = shfs_session_caller(sqlite3_user_data(ctx), sqlite3_value_int64(argv[0]),
	                            &command_id);

	give_number(ctx, r, command_id, true);
}
