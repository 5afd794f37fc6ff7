/* SPDX-License-Identifier: MIT */
/* Finds gaps: producers that ended without an END record, so that their last records may
 * be missing. */
#include "store/index/internal.h"

#include "common/io.h"
#include "common/proc.h"
#include "store/journal/archived.h"

#include <errno.h>
#include <string.h>

/* This machine, as PRODUCER records name it. */
struct here {
	const char *host;
	char boot_id[37];
	uint64_t pid_namespace;
};

/* Has the process ended, without its parent having waited for it? */
static bool is_zombie(int procfd)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };
	const char *state;

	if (shfs_read_file_at(procfd, "stat", 4096, &text))
		return false;
	state = strrchr(text.data, ')');
	return state && (!strncmp(state, ") Z", 3) || !strncmp(state, ") X", 3));
}

/* Is the process running? True also if that cannot be found out. */
static bool is_running(uint32_t pid, uint64_t start_ticks)
{
	_cleanup_close_ int fd = shfs_proc_open(pid);
	struct shfs_proc_stat stat;
	int r;

	if (fd < 0)
		return fd != -ENOENT;
	r = shfs_proc_read_stat(fd, &stat);
	return r ? r != -ESRCH : stat.start_ticks == start_ticks && !is_zombie(fd);
}

static bool is_column(sqlite3_stmt *stmt, int col, const char *value)
{
	const char *text = (const char *)sqlite3_column_text(stmt, col);

	return text && !strcmp(text, value);
}

/*
 * Is the producer's process dead? One of another host, or of another pid namespace,
 * cannot be looked for: it is if a later record shows that its host was booted again, or
 * its project recorded again.
 */
static bool is_dead(const struct here *here, sqlite3_stmt *stmt)
{
	bool followed = sqlite3_column_int(stmt, 6);

	if (!is_column(stmt, 2, here->boot_id))
		return followed ||
		       (is_column(stmt, 1, here->host) && is_column(stmt, 7, ""));
	if ((uint64_t)sqlite3_column_int64(stmt, 3) != here->pid_namespace)
		return followed;
	return !is_running(sqlite3_column_int64(stmt, 4), sqlite3_column_int64(stmt, 5));
}

/* Had the producer not ended where it recorded, when an archive was made of it? 1, 0. */
static int was_archived(struct shfs_ingest *ing, int64_t producer_id)
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	struct shfs_bytes instance;
	struct archived a;
	int r = shfs_sql_get(ing->index, &stmt,
	                     "SELECT b.host, p.instance, p.last_seq FROM producer p"
	                     " JOIN boot b USING (boot_id) WHERE p.producer_id = ?",
	                     shfs_arg_int(producer_id));

	if (r <= 0)
		return r;
	instance.data = sqlite3_column_blob(stmt, 1);
	instance.len = (size_t)sqlite3_column_bytes(stmt, 1);
	if (archived_set(&a, (const char *)sqlite3_column_text(stmt, 0), instance,
	                 (uint64_t)sqlite3_column_int64(stmt, 2)))
		return 0;
	return archived_has(ing->index->store, &a);
}

int shfs_gaps_find(struct shfs_ingest *ing, struct shfs_ids *out)
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	struct here here = { .host = ing->index->store->host };
	int r = shfs_proc_boot_id(here.boot_id);

	if (!r)
		r = shfs_proc_pid_namespace(&here.pid_namespace);
	if (r)
		return r;
	r = shfs_sql_get(
		ing->index, &stmt,
		"SELECT p.producer_id, b.host, b.boot, p.pid_namespace, p.pid,"
		" p.start_ticks, EXISTS (SELECT 1 FROM producer q JOIN boot c"
		"  USING (boot_id) WHERE c.host = b.host AND c.tree = b.tree"
		"  AND q.begin_ns > max(p.begin_ns, p.last_ns)"
		"  AND (q.boot_id <> p.boot_id OR (q.root = p.root AND q.kind = "
		"p.kind))),"
		" b.tree"
		" FROM producer p JOIN boot b USING (boot_id)"
		/* shfs restore waits for each record, and reports errors */
		" WHERE p.end_ns IS NULL AND p.dead = 0 AND p.kind <> 'restore'");
	for (; r > 0; r = shfs_sql_next(ing->index, stmt)) {
		int64_t id = sqlite3_column_int64(stmt, 0);

		r = is_dead(&here, stmt) ? 1 : was_archived(ing, id);
		if (r > 0)
			r = shfs_ids_add(out, id);
		if (r)
			return r;
	}
	return r;
}

int shfs_gaps_note(struct shfs_ingest *ing, const struct shfs_ids *dead)
{
	int r = 0;

	for (size_t i = 0; i < dead->n && !r; i++) {
		r = was_archived(ing, dead->ids[i]);
		if (r >= 0)
			r = shfs_sql_run(ing->index,
			                 "UPDATE producer SET dead = ?2"
			                 " WHERE producer_id = ?1 AND end_ns IS NULL",
			                 shfs_arg_int(dead->ids[i]),
			                 shfs_arg_int(r ? 2 : 1));
	}
	return r;
}
