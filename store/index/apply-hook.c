/* SPDX-License-Identifier: MIT */
/* Makes rows of the index of a record of a hook log. */
#include "store/index/internal.h"

#include "store/journal/hooklog.h"
#include "store/objects/object.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* Makes an id that is the same after a rebuild, and on every host. */
int shfs_public_id(struct shfs_bytes host, struct shfs_bytes boot, uint32_t pid,
                   uint64_t start_ticks, const uint64_t *more, size_t n,
                   char out[static 17])
{
	_cleanup_buf_ struct shfs_buf b = { 0 };

	shfs_buf_bytes(&b, host.data, host.len);
	shfs_buf_bytes(&b, boot.data, boot.len);
	shfs_buf_u32(&b, pid);
	shfs_buf_u64(&b, start_ticks);
	for (size_t i = 0; i < n; i++)
		shfs_buf_u64(&b, more[i]);
	if (b.failed)
		return -ENOMEM;
	snprintf(out, 17, "%016" PRIx64, shfs_object_hash64(b.data, b.len));
	return 0;
}

static int apply_session(struct shfs_ingest *ing, const char *host,
                         const struct shfs_record *rec)
{
	const struct shfs_rec_session *s = &rec->session;
	int64_t boot_id = 0, session_id = 0;
	struct shfs_bytes cwd;
	char id[17];
	int known, r = shfs_boot_get(ing, shfs_bytes_str(host), s->boot_id, &boot_id);

	if (!r)
		r = shfs_path_in_tree(ing,
		                      shfs_trees_of_boot(ing->trees, shfs_bytes_str(host),
		                                         s->boot_id),
		                      s->cwd, &cwd);
	if (!r)
		r = shfs_public_id(shfs_bytes_str(host), s->boot_id, s->pid,
		                   s->start_ticks, NULL, 0, id);
	if (r)
		return r;
	known = shfs_sql_int(ing->index, &session_id,
	                     "SELECT session_id FROM session WHERE id = ?",
	                     shfs_arg_text(shfs_bytes_str(id)));
	if (known < 0)
		return known;
	r = shfs_sql_run(
		ing->index,
		"INSERT INTO session (id, boot_id, pid_namespace, pid, start_ticks,"
		" shell, tty, cwd, begin_ns, end_ns)"
		" VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?10, ?10)"
		" ON CONFLICT DO UPDATE SET shell = excluded.shell,"
		" pid_namespace = max(pid_namespace, excluded.pid_namespace),"
		" end_ns = max(end_ns, excluded.end_ns)",
		shfs_arg_text(shfs_bytes_str(id)), shfs_arg_int(boot_id),
		shfs_arg_int(s->pid_namespace), shfs_arg_int(s->pid),
		shfs_arg_int(s->start_ticks), shfs_arg_text(s->shell),
		shfs_arg_text(s->tty), shfs_arg_text(cwd), shfs_arg_id(0),
		shfs_arg_int(rec->time.real_ns));
	if (r)
		return r;
	if (!known)
		session_id = sqlite3_last_insert_rowid(ing->index->db);
	ing->session.session_id = session_id;
	ing->session.boot_id = boot_id;
	return known ? 0
	             : shfs_news_add(ing, session_id, rec->time.boot_ns, s->start_ticks);
}

/* Ends the command that ran, if the next one begins without a finish (the hook was
 * hindered). Not of a history that was taken over (pid 0): that has no ends. */
static int close_open_command(struct shfs_ingest *ing, int64_t end_ns)
{
	return shfs_sql_run(
		ing->index,
		"UPDATE command SET end_ns = max(begin_ns, ?) WHERE end_ns IS NULL"
		" AND command_id = (SELECT command_id FROM session"
		"  WHERE session_id = ? AND pid <> 0)",
		shfs_arg_int(end_ns), shfs_arg_int(ing->session.session_id));
}

/* The public id of a command that begins, and its directory. */
static int identify_command(struct shfs_ingest *ing, const struct shfs_record *rec,
                            char out[static 17], struct shfs_bytes *cwd)
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	uint64_t more[2] = { rec->begin.number, rec->time.real_ns };
	int r = shfs_sql_get(ing->index, &stmt,
	                     "SELECT b.host, b.boot, s.pid, s.start_ticks, b.tree"
	                     " FROM session s JOIN boot b USING (boot_id)"
	                     " WHERE s.session_id = ?",
	                     shfs_arg_int(ing->session.session_id));
	const char *tree;

	if (r <= 0)
		return r ? r : -EBADMSG;
	tree = (const char *)sqlite3_column_text(stmt, 4);
	r = shfs_path_in_tree(ing, tree, rec->begin.cwd, cwd);
	if (r)
		return r;
	return shfs_public_id(shfs_bytes_column(stmt, 0), shfs_bytes_column(stmt, 1),
	                      sqlite3_column_int64(stmt, 2),
	                      sqlite3_column_int64(stmt, 3), more, 2, out);
}

static int apply_begin(struct shfs_ingest *ing, const struct shfs_record *rec)
{
	const struct shfs_rec_begin *b = &rec->begin;
	struct shfs_bytes cwd;
	char id[17];
	int r = close_open_command(ing, rec->time.real_ns);

	if (!r)
		r = identify_command(ing, rec, id, &cwd);
	if (!r)
		r = shfs_sql_run(
			ing->index,
			"INSERT INTO command (id, session_id, number, text, hidden,"
			" redacted, cwd, begin_ns, begin_boot_ns, begin_resolution_ns,"
			" begin_pid)"
			" VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO "
			"NOTHING",
			shfs_arg_text(shfs_bytes_str(id)),
			shfs_arg_int(ing->session.session_id), shfs_arg_int(b->number),
			shfs_arg_text(b->text), shfs_arg_int(b->hidden != 0),
			shfs_arg_int(b->redacted), shfs_arg_text(cwd),
			shfs_arg_int(rec->time.real_ns), shfs_arg_int(rec->time.boot_ns),
			shfs_arg_int(rec->boot_resolution_ns), shfs_arg_int(b->last_pid));
	if (r)
		return r;
	if (!sqlite3_changes(ing->index->db)) /* a copy of a record that was read */
		return MIN(0, shfs_sql_int(ing->index, &ing->row,
		                           "SELECT command_id FROM command WHERE id = ?",
		                           shfs_arg_text(shfs_bytes_str(id))));
	ing->row = sqlite3_last_insert_rowid(ing->index->db);
	ing->stats.commands++;
	r = shfs_sql_run(ing->index,
	                 "UPDATE session SET commands = commands + 1, command_id = ?,"
	                 " end_ns = max(end_ns, ?) WHERE session_id = ?",
	                 shfs_arg_int(ing->row), shfs_arg_int(rec->time.real_ns),
	                 shfs_arg_int(ing->session.session_id));
	return r ? r
	         : shfs_news_add(ing, ing->session.session_id, rec->time.boot_ns,
	                         UINT64_MAX);
}

static int apply_finish(struct shfs_ingest *ing, const struct shfs_record *rec)
{
	const struct shfs_rec_finish *f = &rec->finish;
	int r = shfs_sql_run(
		ing->index,
		"UPDATE command SET status = ?, end_ns = max(begin_ns, ?), end_boot_ns = "
		"?,"
		" end_resolution_ns = ?, end_pid = ?, user_us = ?, system_us = ?,"
		" max_rss_kib = ? WHERE number = ? AND end_boot_ns IS NULL"
		" AND command_id = (SELECT command_id FROM session WHERE session_id = ?)",
		shfs_arg_int(f->status), shfs_arg_int(rec->time.real_ns),
		shfs_arg_int(rec->time.boot_ns), shfs_arg_int(rec->boot_resolution_ns),
		shfs_arg_int(f->last_pid),
		f->has_usage ? shfs_arg_int((int64_t)f->user_us) : shfs_arg_id(0),
		f->has_usage ? shfs_arg_int((int64_t)f->system_us) : shfs_arg_id(0),
		shfs_arg_id((int64_t)f->max_rss_kib), shfs_arg_int(f->number),
		shfs_arg_int(ing->session.session_id));

	if (!r)
		r = shfs_sql_run(ing->index,
		                 "UPDATE session SET end_ns = max(end_ns, ?)"
		                 " WHERE session_id = ?",
		                 shfs_arg_int(rec->time.real_ns),
		                 shfs_arg_int(ing->session.session_id));
	return r ? r
	         : shfs_news_add(ing, ing->session.session_id, rec->time.boot_ns,
	                         UINT64_MAX);
}

static int apply_definition(struct shfs_ingest *ing, const struct shfs_record *rec)
{
	const struct shfs_rec_definition *d = &rec->definition;
	_cleanup_buf_ struct shfs_buf b = { 0 };
	int64_t string_id = 0;
	int r;

	shfs_buf_printf(&b, "%c%u", d->kind, (unsigned)d->kept);
	shfs_buf_add(&b, d->name.data, d->name.len);
	shfs_buf_add(&b, "", 1);
	shfs_buf_add(&b, d->body.data, d->body.len);
	if (b.failed)
		return -ENOMEM;
	r = shfs_string_id(ing, (struct shfs_bytes){ b.data, b.len }, &string_id);
	return r ? r
	         : shfs_sql_run(
			   ing->index,
			   "INSERT INTO definition (session_id, seq, string_id)"
			   " VALUES (?, ?, ?)"
			   " ON CONFLICT DO UPDATE SET string_id = excluded.string_id",
			   shfs_arg_int(ing->session.session_id), shfs_arg_int(rec->seq),
			   shfs_arg_int(string_id));
}

/* The command that the session began last, if it has that number: 1, or 0. */
static int find_begun(struct shfs_ingest *ing, uint64_t number, int64_t *command_id)
{
	return shfs_sql_int(ing->index, command_id,
	                    "SELECT c.command_id FROM session s JOIN command c"
	                    " USING (command_id) WHERE s.session_id = ? AND c.number = ?",
	                    shfs_arg_int(ing->session.session_id), shfs_arg_int(number));
}

static int add_use(struct shfs_ingest *ing, int64_t command_id, int64_t position,
                   uint64_t seq)
{
	return shfs_sql_run(ing->index,
	                    "INSERT INTO command_definition VALUES (?, ?,"
	                    " (SELECT string_id FROM definition"
	                    "  WHERE session_id = ? AND seq = ?)) ON CONFLICT DO NOTHING",
	                    shfs_arg_int(command_id), shfs_arg_int(position),
	                    shfs_arg_int(ing->session.session_id), shfs_arg_int(seq));
}

static int apply_uses(struct shfs_ingest *ing, const struct shfs_record *rec)
{
	struct shfs_bytes list = rec->uses.list;
	int64_t command_id = 0, position = 0;
	uint64_t seq;
	int r = find_begun(ing, rec->uses.number, &command_id);

	if (r <= 0)
		return r;
	for (r = 0; !r && shfs_hooklog_next_use(&list, &seq);)
		r = add_use(ing, command_id, position++, seq);
	return !r && rec->uses.more ? add_use(ing, command_id, position, 0) : r;
}

int shfs_apply_hook_record(struct shfs_ingest *ing, const char *host,
                           struct shfs_record *rec)
{
	rec->time = shfs_sane_time(rec->time);
	if (!ing->session.session_id && rec->type != SHFS_REC_SESSION)
		return SHFS_DROPPED;
	switch (rec->type) {
	case SHFS_REC_SESSION:
		return apply_session(ing, host, rec);
	case SHFS_REC_BEGIN:
		return apply_begin(ing, rec);
	case SHFS_REC_FINISH:
		return apply_finish(ing, rec);
	case SHFS_REC_DEFINITION:
		return apply_definition(ing, rec);
	case SHFS_REC_ORIGIN:
		return shfs_origin_add_to_session(ing, rec);
	default:
		return apply_uses(ing, rec);
	}
}
