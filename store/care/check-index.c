/* SPDX-License-Identifier: MIT */
/*
 * Checks index.db: is it sound, and does it agree with the journal? For the latter, a new
 * index is made of the whole journal: each row of each view, without the numbers that
 * depend on the order of rows, must be in both.
 */
#include "store/care/index-check.h"

#include "common/io.h"
#include "store/index/internal.h"
#include "store/journal/journal.h"
#include "store/objects/collect.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#define INDEX_NAME "index.db"
#define TOLD_MAX   20 /* differences of one view that are reported */
#define TRIES      3

/* --- is it sound? --- */

static int check_pages(struct check_run *run, struct shfs_index *index)
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	int r = shfs_sql_get_args(index, &stmt, "PRAGMA integrity_check(20)", NULL, 0);

	for (; r > 0; r = shfs_sql_next(index, stmt)) {
		const char *text = (const char *)sqlite3_column_text(stmt, 0);

		if (text && strcmp(text, "ok"))
			check_say(check_flaw(run, SHFS_FLAW_INDEX, 0, 0, INDEX_NAME),
			          "%s", text);
	}
	return r;
}

/* Does the journal have all that the index has read? */
static int check_positions(struct check_run *run, struct shfs_index *index)
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	int r = shfs_sql_get_args(index, &stmt,
	                          "SELECT host, name, offset, done FROM segment_position"
	                          " WHERE owner_id IS NOT NULL",
	                          NULL, 0);

	for (; r > 0; r = shfs_sql_next(index, stmt)) {
		_cleanup_buf_ struct shfs_buf path = { 0 };
		int64_t offset = sqlite3_column_int64(stmt, 2);
		struct stat st;
		bool plain;

		shfs_buf_printf(&path, "journal/%s/%s", sqlite3_column_text(stmt, 0),
		                sqlite3_column_text(stmt, 1));
		if (path.failed)
			return -ENOMEM;
		plain = !fstatat(run->store->dirfd, path.data, &st, AT_SYMLINK_NOFOLLOW);
		if (plain && st.st_size >= offset)
			continue;
		shfs_buf_str(&path, ".zst");
		if (!plain && !path.failed &&
		    !faccessat(run->store->dirfd, path.data, F_OK, AT_SYMLINK_NOFOLLOW))
			continue;
		run->damaged = true; /* or a power cut kept it from the disk */
		check_say(check_flaw(run, SHFS_FLAW_INDEX, 0, 0, INDEX_NAME),
		          "it has read %" PRId64 " bytes of journal/%s/%s, which are not "
		          "there any more",
		          offset, sqlite3_column_text(stmt, 0),
		          sqlite3_column_text(stmt, 1));
	}
	return r;
}

static const char *why_unusable(int r)
{
	switch (r) {
	case -EBADMSG:
		return "it is damaged, or another program's";
	case -EPROTONOSUPPORT:
		return "a newer shfs made it, or it is damaged";
	default:
		return strerror(-r);
	}
}

static bool is_indexs_fault(int r)
{
	return r < 0 && r != -ENOMEM && r != -EBUSY;
}

int check_index(struct check_run *run, struct shfs_index **out)
{
	_cleanup_index_ struct shfs_index *index = NULL;
	size_t flaws = run->out->n_flaws;
	bool sound;
	int r = shfs_index_open_to_ask(run->store, &index);

	*out = NULL;
	if (!r)
		r = check_pages(run, index);
	sound = run->out->n_flaws == flaws;
	if (!r && sound)
		r = check_positions(run, index);
	if (shfs_takes_nothing(r)) /* none, or an older one, and none can be made */
		return 0;
	if (is_indexs_fault(r)) {
		check_say(check_flaw(run, SHFS_FLAW_INDEX, 0, 0, INDEX_NAME), "%s",
		          why_unusable(r));
		return 0;
	}
	if (!r && sound)
		*out = TAKE_PTR(index);
	return r;
}

/* --- does it agree with the journal? --- */

/* The views to compare; the first column names the row. Counts and numbers of many rows
 * differ if the journal has lost one record: they are not compared then. */
static const struct {
	const char *what, *sql;
	bool counted;
} views[] = {
	{ "definition of", "SELECT name, type, tbl_name, sql FROM sqlite_schema" },
	{ "count of", "SELECT 'all', accesses, files, versions, objects FROM v_stats",
	  true },
	{ "count of", "SELECT 'what was left out', flags, versions FROM v_left_out",
	  true },
	{ "session",
	  "SELECT id, host, boot_id, pid, start_ticks, shell, tty, cwd, begin_ns, end_ns,"
	  " commands FROM v_session",
	  true },
	{ "command",
	  "SELECT id, session, host, number, text, hidden, cwd, begin_ns, end_ns, status"
	  " FROM v_command" },
	{ "definition of", "SELECT (SELECT id FROM command c WHERE c.command_id = "
	                   "v_definition.command_id),"
	                   " position, definition FROM v_definition" },
	{ "process",
	  "SELECT pid, host, start_ticks, ppid, pgid, sid, uid, exe, cwd, argv,"
	  " environment, first_ns, shell, n_accesses, (SELECT package || version FROM"
	  " v_program g WHERE g.program_id = v_process.program_id),"
	  " (SELECT id FROM command c WHERE c.command_id ="
	  " v_process.command_id) FROM v_process",
	  true },
	{ "program",
	  "SELECT path, host, since_ns, size, mtime_ns, phash, manager, package,"
	  " version FROM v_program",
	  true },
	{ "note on",
	  "SELECT iif(command = '', path, command), version_ns, tag, text, time_ns, host"
	  " FROM v_note" },
	{ "names looked up in", "SELECT root, begin_ns, list FROM v_lookup", true },
	{ "file", "SELECT path, root, versions, present, last_ns, directory FROM v_file",
	  true },
	{ "version", "SELECT path || '@' || n, path, object, flags, size, mode, "
	             "mtime_ns, phash, source,"
	             " time_ns, carried FROM v_version" },
	{ "use of",
	  "SELECT path, op, flags, path2, directory, begin_ns, end_ns, seen_n, made_n,"
	  " seen_flawed, host, (SELECT id FROM command c WHERE c.command_id ="
	  " v_access.command_id) FROM v_access",
	  true },
	{ "former state of",
	  "SELECT (SELECT path || ' ' || begin_ns FROM v_access a WHERE a.access_id ="
	  " v_former.access_id), n, (SELECT path FROM v_file f WHERE f.file_id ="
	  " v_former.file_id), data FROM v_former",
	  true },
	{ "recording of",
	  "SELECT root, host, kind, pid, boot_id, begin_ns, end_ns, records, lost"
	  " FROM v_producer",
	  true },
};

static int64_t row_hash(sqlite3_stmt *stmt, bool named, struct shfs_buf *b)
{
	b->len = 0;
	for (int i = !named; i < sqlite3_column_count(stmt); i++) {
		shfs_buf_u8(b, (uint8_t)sqlite3_column_type(stmt, i));
		shfs_buf_bytes(b, sqlite3_column_blob(stmt, i),
		               (size_t)sqlite3_column_bytes(stmt, i));
	}
	return (int64_t)shfs_object_hash64(b->data, b->len);
}

/* Gets the hashes of all rows, sorted. */
static int view_hashes(struct shfs_index *index, size_t view, bool named,
                       struct shfs_ids *out)
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	_cleanup_buf_ struct shfs_buf b = { 0 };
	int r = shfs_sql_get_args(index, &stmt, views[view].sql, NULL, 0);

	while (r > 0) {
		r = shfs_ids_add(out, row_hash(stmt, named, &b));
		if (!r)
			r = b.failed ? -ENOMEM : shfs_sql_next(index, stmt);
	}
	if (!r && out->n)
		qsort(out->ids, out->n, sizeof(*out->ids), shfs_compare_int64);
	return r;
}

/* Reports rows of index that are not among the others. */
static int tell_rows(struct check_run *run, struct shfs_index *index, size_t view,
                     const struct shfs_ids *others, const char *how)
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	_cleanup_buf_ struct shfs_buf b = { 0 };
	size_t most = run->damaged ? SIZE_MAX : TOLD_MAX, told = 0;
	int r = shfs_sql_get_args(index, &stmt, views[view].sql, NULL, 0);

	for (; r > 0 && told < most; r = shfs_sql_next(index, stmt)) {
		int64_t hash = row_hash(stmt, !run->damaged, &b);

		if (b.failed)
			return -ENOMEM;
		if (others->n && bsearch(&hash, others->ids, others->n, sizeof(hash),
		                         shfs_compare_int64))
			continue;
		check_say(check_flaw(run, SHFS_FLAW_INDEX, 0, 0, INDEX_NAME), how,
		          views[view].what, (const char *)sqlite3_column_text(stmt, 0));
		told++;
	}
	return MIN(r, 0);
}

static bool same_ids(const struct shfs_ids *a, const struct shfs_ids *b)
{
	return a->n == b->n && (!a->n || !memcmp(a->ids, b->ids, a->n * sizeof(*a->ids)));
}

static int compare_view(struct check_run *run, struct shfs_index *index,
                        struct shfs_index *truth, size_t view)
{
	_cleanup_ids_ struct shfs_ids ours = { 0 }, theirs = { 0 };
	size_t before = run->out->n_flaws;
	int r = view_hashes(index, view, !run->damaged, &ours);

	if (!r)
		r = view_hashes(truth, view, !run->damaged, &theirs);
	if (r || same_ids(&ours, &theirs))
		return r;
	r = tell_rows(run, index, view, &theirs,
	              run->damaged ? "%s %s: lost by the journal, the index still has it"
	                           : "of %s %s it does not say what the journal says");
	if (run->damaged)
		return r;
	if (!r && run->out->n_flaws == before)
		r = tell_rows(run, truth, view, &ours, "it lacks %s %s");
	if (!r && run->out->n_flaws == before) /* the same rows, but more often */
		check_say(check_flaw(run, SHFS_FLAW_INDEX, 0, 0, INDEX_NAME),
		          "a %s is in it more than once", views[view].what);
	return r;
}

/* --- the way from files to accesses --- */

static int count_uses(struct shfs_index *index, const char *sql, struct shfs_ids *out)
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	int r = shfs_sql_get_args(index, &stmt, sql, NULL, 0);

	while (r > 0) {
		int64_t id = sqlite3_column_int64(stmt, 0);

		r = id ? shfs_ids_add(out, id) : 0;
		if (!r)
			r = shfs_sql_next(index, stmt);
	}
	if (!r && out->n)
		qsort(out->ids, out->n, sizeof(*out->ids), shfs_compare_int64);
	return r;
}

/* Do the sorted runs have the same accesses of each file as the table of accesses? */
static int check_runs(struct check_run *run, struct shfs_index *index)
{
	_cleanup_ids_ struct shfs_ids uses = { 0 };
	int r = count_uses(index,
	                   "SELECT file_id FROM access UNION ALL"
	                   " SELECT file2_id FROM access WHERE file2_id <> file_id",
	                   &uses);

	for (size_t i = 0, n; i < uses.n && !r; i += n) {
		int64_t found = 0;

		for (n = 1; i + n < uses.n && uses.ids[i + n] == uses.ids[i]; n++)
			;
		r = shfs_uses_count(index, &uses.ids[i], 1, &found);
		if (!r && found == (int64_t)n)
			continue;
		if (!r || is_indexs_fault(r))
			check_say(check_flaw(run, SHFS_FLAW_INDEX, 0, 0, INDEX_NAME),
			          "it does not find all uses of its files");
		return is_indexs_fault(r) ? 0 : r;
	}
	return r;
}

/* --- both --- */

static int add_size(const struct shfs_journal_file *file, void *arg)
{
	*(uint64_t *)arg += file->sealed ? 1 : file->size_bytes << 1;
	return 0;
}

static int compare_all(struct check_run *run, struct shfs_index *index,
                       struct shfs_index *truth)
{
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(views) && !r; i++)
		if (!views[i].counted || !run->damaged)
			r = compare_view(run, index, truth, i);
	if (!r)
		r = check_runs(run, index);
	if (is_indexs_fault(r)) {
		check_say(check_flaw(run, SHFS_FLAW_INDEX, 0, 0, INDEX_NAME), "%s",
		          why_unusable(r));
		r = 0;
	}
	return r;
}

/* Begins a transaction, so that the index stays the same for us while others ingest. */
static int hold(struct shfs_index *index)
{
	int64_t n;
	int r = shfs_sql_run(index, "BEGIN");

	return r ? r : MIN(shfs_sql_int(index, &n, "SELECT count(*) FROM state"), 0);
}

int check_index_against_journal(struct check_run *run, struct shfs_index *index)
{
	for (int i = 0; i < TRIES; i++) {
		struct shfs_draft *draft = NULL;
		uint64_t before = 0, after = 0;
		int r = shfs_journal_walk(run->store, SHFS_JOURNAL_ALL, add_size,
		                          &before);

		if (!r)
			r = shfs_index_ingest(index, run->hook_dir, NULL);
		if (!shfs_takes_nothing(r) && is_indexs_fault(r)) {
			check_say(check_flaw(run, SHFS_FLAW_INDEX, 0, 0, INDEX_NAME),
			          "nothing can be ingested into it: %s", why_unusable(r));
			return 0;
		}
		if (!r)
			r = hold(index);
		if (!r)
			r = shfs_draft_open(run->store, run->hook_dir, NULL, NULL,
			                    &draft);
		if (!r)
			r = shfs_journal_walk(run->store, SHFS_JOURNAL_ALL, add_size,
			                      &after);
		run->out->index_compared = !r && before == after;
		if (run->out->index_compared)
			r = compare_all(run, index, shfs_draft_index(draft));
		if (!sqlite3_get_autocommit(index->db))
			sqlite3_exec(index->db, "ROLLBACK", NULL, NULL, NULL);
		shfs_draft_close(draft);
		if (shfs_takes_nothing(r)) /* the index cannot be compared */
			return 0;
		if (r || run->out->index_compared)
			return r;
	}
	return 0; /* not compared: too much is being recorded */
}

/* --- versions of lost objects --- */

int check_named_by_index(struct check_run *run, struct shfs_index *index)
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	int r = shfs_sql_get_args(index, &stmt,
	                          "SELECT object FROM version WHERE object IS NOT NULL",
	                          NULL, 0);

	while (r > 0) {
		struct shfs_object_id id;

		r = shfs_object_unpack(sqlite3_column_blob(stmt, 0),
		                       (size_t)sqlite3_column_bytes(stmt, 0), &id)
		            ? 0
		            : shfs_objects_add(&run->named, &id);
		if (!r)
			r = shfs_sql_next(index, stmt);
	}
	return is_indexs_fault(r) ? 0 : r;
}

static int add_loss(struct check_run *run, sqlite3_stmt *stmt,
                    const struct shfs_object_id *id)
{
	struct shfs_check *c = run->out;
	struct shfs_loss *list = reallocarray(c->losses, c->n_losses + 1, sizeof(*list));
	struct shfs_loss loss = {
		.path = strdup((const char *)sqlite3_column_text(stmt, 1) ?: ""),
		.n = (uint64_t)sqlite3_column_int64(stmt, 2),
		.object = *id,
		.known = shfs_objects_has(&run->known.objects, id),
	};

	if (list)
		c->losses = list;
	if (!list || !loss.path) {
		free(loss.path);
		return -ENOMEM;
	}
	c->losses[c->n_losses++] = loss;
	c->n_known += loss.known;
	return 0;
}

static int find_losses(struct check_run *run, struct shfs_index *index)
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	int r = shfs_sql_get_args(index, &stmt,
	                          "SELECT v.object, d.path || '/' || f.name, v.n"
	                          " FROM version v JOIN file f USING (file_id)"
	                          " JOIN directory d USING (directory_id)"
	                          " WHERE v.object IS NOT NULL",
	                          NULL, 0);

	while (r > 0) {
		struct shfs_object_id id;

		r = 0;
		if (!shfs_object_unpack(sqlite3_column_blob(stmt, 0),
		                        (size_t)sqlite3_column_bytes(stmt, 0), &id) &&
		    shfs_objects_has(&run->lost, &id))
			r = add_loss(run, stmt, &id);
		if (!r)
			r = shfs_sql_next(index, stmt);
	}
	return r;
}

int check_losses(struct check_run *run, struct shfs_index *index)
{
	struct shfs_draft *draft = NULL;
	int r = 0;

	if (!run->lost.n)
		return 0;
	if (!index)
		r = shfs_draft_open(run->store, run->hook_dir, NULL, NULL, &draft);
	if (!r)
		r = find_losses(run, index ? index : shfs_draft_index(draft));
	shfs_draft_close(draft);
	return r;
}
