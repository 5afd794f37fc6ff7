/* SPDX-License-Identifier: MIT */
/* Attributes processes again, when records that came later may have changed whose they
 * are. */
#include "store/index/internal.h"

#include "common/debug.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* Attributes each access of a shell, from a time on, by the access's time. */
static int revise_accesses(struct shfs_index *index, int64_t task_id,
                           const struct shfs_owner *owner, int64_t since_boot_ns)
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	int r = shfs_sql_get(
		index, &stmt,
		"SELECT a.access_id, a.moment_ns, a.flags FROM process p"
		" CROSS JOIN access a USING (process_id)"
		" WHERE (p.process_id = ?1 OR p.task_id = ?1) AND a.moment_ns >= ?2",
		shfs_arg_int(task_id), shfs_arg_int(since_boot_ns));

	for (; r > 0; r = shfs_sql_next(index, stmt)) {
		struct shfs_owner one;

		r = shfs_shell_owner(index, task_id, owner->session_id,
		                     sqlite3_column_int64(stmt, 1),
		                     shfs_late_ns(sqlite3_column_int64(stmt, 2)), &one);
		if (!r)
			r = shfs_owner_set_of_shell_access(index,
			                                   sqlite3_column_int64(stmt, 0),
			                                   &one);
		if (r)
			return r;
	}
	return r;
}

/* Accesses have the owner of their process, but each access of a shell has its own: all
 * of them are revised if the process was not known to be a shell. */
int shfs_task_revise(struct shfs_ingest *ing, int64_t task_id, int64_t since_boot_ns)
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	struct shfs_owner owner;
	int64_t was_of = 0;
	bool was_shell = false;
	int r = shfs_task_owner(ing->index, task_id, &owner);

	if (!r)
		r = shfs_sql_get(ing->index, &stmt,
		                 "SELECT shell, command_id FROM task WHERE task_id = ?",
		                 shfs_arg_int(task_id));
	if (r > 0) {
		was_shell = sqlite3_column_int(stmt, 0);
		was_of = sqlite3_column_int64(stmt, 1);
	}
	shfs_stmt_resetp(&stmt);
	if (r >= 0)
		r = shfs_owner_set_of_task(ing->index, task_id, &owner);
	if (!r && was_of && was_of != owner.command_id)
		r = shfs_invoker_command_drop(ing->index, was_of);
	if (!r && owner.shell)
		r = revise_accesses(ing->index, task_id, &owner,
		                    was_shell ? since_boot_ns : 0);
	return r;
}

static int revise_all(struct shfs_ingest *ing, const struct shfs_ids *tasks,
                      int64_t since_boot_ns)
{
	int r = tasks->n ? shfs_chunks_flush(ing) : 0;

	for (size_t i = 0; i < tasks->n && !r; i++)
		r = shfs_task_revise(ing, tasks->ids[i], since_boot_ns);
	if (tasks->n)
		shfs_processes_forget(ing);
	return r;
}

static int collect_ids(struct shfs_ingest *ing, sqlite3_stmt *stmt, int r,
                       struct shfs_ids *out)
{
	for (; r > 0; r = shfs_sql_next(ing->index, stmt)) {
		r = shfs_ids_add(out, sqlite3_column_int64(stmt, 0));
		if (r)
			return r;
	}
	return r;
}

int shfs_task_revise_below(struct shfs_ingest *ing, int64_t task_id)
{
	_cleanup_ids_ struct shfs_ids tasks = { 0 };
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	int r = shfs_sql_get(
		ing->index, &stmt,
		"SELECT o.task_id FROM task t JOIN task o ON o.boot_id = t.boot_id"
		" AND o.start_ticks >= t.start_ticks WHERE t.task_id = ?",
		shfs_arg_int(task_id));

	r = collect_ids(ing, stmt, r, &tasks);
	shfs_stmt_resetp(&stmt);
	return r ? r : revise_all(ing, &tasks, INT64_MAX);
}

int shfs_attribute_retry(struct shfs_ingest *ing, int64_t *task_id, unsigned max)
{
	_cleanup_ids_ struct shfs_ids tasks = { 0 };
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	int r = shfs_sql_get(ing->index, &stmt,
	                     "SELECT task_id FROM task WHERE task_id > ?"
	                     " AND session_id IS NULL ORDER BY task_id LIMIT ?",
	                     shfs_arg_int(*task_id), shfs_arg_int(max));

	r = collect_ids(ing, stmt, r, &tasks);
	shfs_stmt_resetp(&stmt);
	if (!r)
		r = revise_all(ing, &tasks, 0);
	if (r || tasks.n < max)
		return r;
	*task_id = tasks.ids[max - 1];
	return 1;
}

/* --- news of hook logs --- */

/*
 * News: records of a hook log that came after the processes of its session were ingested
 * (from another host, say). They may change the owners of processes that were forked
 * since, and of what the shell itself did since. Usually there are none.
 */
struct shfs_news {
	int64_t session_id;
	int64_t boot_ns;     /* of the first access that can change */
	int64_t start_ticks; /* of the first process that can change */
	UT_hash_handle hh;
};

int shfs_news_add(struct shfs_ingest *ing, int64_t session_id, uint64_t boot_ns,
                  uint64_t start_ticks)
{
	int64_t boot = MIN(shfs_sane_ns(boot_ns), shfs_ticks_ns(start_ticks));
	int64_t ticks = boot / SHFS_TICK_NS;
	struct shfs_news *news;

	HASH_FIND(hh, ing->news, &session_id, sizeof(session_id), news);
	if (!news) {
		news = calloc(1, sizeof(*news));
		if (!news)
			return -ENOMEM;
		*news = (struct shfs_news){ session_id, boot, ticks };
		HASH_ADD(hh, ing->news, session_id, sizeof(session_id), news);
		if (!news->hh.tbl) {
			free(news);
			return -ENOMEM;
		}
	}
	news->boot_ns = MIN(news->boot_ns, boot);
	news->start_ticks = MIN(news->start_ticks, ticks);
	return 0;
}

static int news_apply_one(struct shfs_ingest *ing, const struct shfs_news *news)
{
	_cleanup_ids_ struct shfs_ids tasks = { 0 };
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	int r = shfs_sql_get(ing->index, &stmt,
	                     "SELECT t.task_id FROM session s JOIN task t"
	                     " ON t.boot_id = s.boot_id AND t.start_ticks >= ?2"
	                     " WHERE s.session_id = ?1 UNION"
	                     " SELECT t.task_id FROM session s JOIN task t"
	                     " ON t.boot_id = s.boot_id AND t.pid = s.pid"
	                     " AND t.start_ticks = s.start_ticks WHERE s.session_id = ?1",
	                     shfs_arg_int(news->session_id),
	                     shfs_arg_int(news->start_ticks - 4));

	r = collect_ids(ing, stmt, r, &tasks);
	shfs_debug(COMMAND,
	           "session %" PRId64
	           ": its hook log came late: %zu processes are looked at again",
	           news->session_id, tasks.n);
	return r ? r : revise_all(ing, &tasks, news->boot_ns - SHFS_CLOCKS_AGREE_NS);
}

void shfs_news_forget(struct shfs_ingest *ing)
{
	struct shfs_news *news, *next;

	HASH_ITER (hh, ing->news, news, next) {
		HASH_DEL(ing->news, news);
		free(news);
	}
}

int shfs_news_apply(struct shfs_ingest *ing)
{
	int r = 0;

	for (struct shfs_news *news = ing->news; news && !r; news = news->hh.next)
		r = news_apply_one(ing, news);
	shfs_news_forget(ing);
	return r;
}
