/* SPDX-License-Identifier: MIT */
#include "query/cmd.h"
#include "query/restore-set.h"
#include "query/time.h"

#include "common/quote.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

static struct {
	struct shfs_restore_options restore;
	bool list, all;
} opts = { .restore.only_absent = true };

/* How a file left its path, as far as it is known. */
struct leaving {
	bool removed, moved;
	int64_t command_id, time_ns;
};

static int last_leaving(struct shfs_index *index, const struct shfs_version *version,
                        struct leaving *out)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open(index,
	                       "SELECT op, command_id, begin_ns FROM v_access"
	                       " WHERE file_id = ?1 AND is_open = 0"
	                       " AND op IN ('unlink', 'rename')"
	                       " ORDER BY seq_key DESC LIMIT 1",
	                       &rows);

	*out = (struct leaving){ 0 };
	if (!r)
		r = shfs_rows_bind_int(rows, 1, version->file_id);
	if (!r)
		r = shfs_rows_next(rows);
	if (r <= 0)
		return r;
	out->removed = !strcmp(shfs_rows_text(rows, 0), "unlink");
	out->moved = !out->removed;
	out->command_id = shfs_rows_int(rows, 1);
	out->time_ns = shfs_rows_int(rows, 2);
	return 1;
}

/* With its directory, it moved without an access of its own. */
static int moved_along(struct shfs_index *index, const struct shfs_version *version)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open(index,
	                       "SELECT 1 FROM v_version WHERE origin_version_id = ?1"
	                       " AND (carried OR source = 'renamed') LIMIT 1",
	                       &rows);

	if (!r)
		r = shfs_rows_bind_int(rows, 1, version->version_id);
	return r ? r : shfs_rows_next(rows);
}

/* Can it be brought back, and would anybody want that? 1 or 0. */
static int is_candidate(struct shfs_index *index, const struct shfs_version *version,
                        struct leaving *leaving)
{
	struct stat st;
	int r;

	if (!lstat(version->path, &st))
		return 0;
	r = last_leaving(index, version, leaving);
	if (r < 0 || leaving->moved)
		return MIN(r, 0);
	if (!leaving->removed) {
		r = moved_along(index, version);
		return r < 0 ? r : !r;
	}
	/* What one command made and removed was for itself. */
	return opts.all || !leaving->command_id ||
	       leaving->command_id != version->command_id;
}

static int list_one(struct shfs_index *index, const struct shfs_version *version,
                    const struct leaving *leaving)
{
	_cleanup_buf_ struct shfs_buf line = { 0 };
	_cleanup_command_ struct shfs_command_row command = { 0 };
	int r = leaving->command_id
	                ? shfs_command_load(index, leaving->command_id, &command)
	                : 0;

	if (r < 0)
		return r;
	shfs_show_version(&line, version->path, version->n);
	if (!(version->flags & SHFS_CONTENT_OBJECT))
		shfs_buf_printf(&line, "  (not archived: %s)",
		                shfs_version_why_not_archived(version->flags));
	shfs_buf_str(&line, "\n    ");
	shfs_show_size(&line, version->size);
	if (leaving->removed) {
		shfs_buf_str(&line, ", removed ");
		shfs_time_show_relative(&line, leaving->time_ns);
	} else {
		shfs_buf_str(&line, ", gone unseen");
	}
	if (r > 0) {
		shfs_buf_str(&line, " by ");
		r = shfs_show_id(index, &line, command.id);
		if (r)
			return r;
		shfs_buf_char(&line, ' ');
		shfs_show_first_line(&line, command.text, command.text_len, 36);
	}
	shfs_buf_char(&line, '\n');
	return shfs_show_flush(&line) ? 0 : -EIO;
}

/* Every file that had versions at path or below it, with its latest. */
static int open_files(struct shfs_index *index, const char *path, struct shfs_rows **rows)
{
	_cleanup_buf_ struct shfs_buf sql = { 0 };
	int r;

	shfs_buf_str(&sql, "SELECT" SHFS_VERSION_COLUMNS "FROM v_version v WHERE n ="
	                   " (SELECT versions FROM v_file f WHERE f.file_id = v.file_id)"
	                   " AND ");
	shfs_sql_files_below(&sql, "file_id", 1);
	shfs_buf_str(&sql, " ORDER BY path");
	if (sql.failed)
		return -ENOMEM;
	r = shfs_rows_open(index, sql.data, rows);
	return r ? r : shfs_rows_bind_str(*rows, 1, strcmp(path, "/") ? path : "");
}

struct found {
	size_t known, candidates;
};

static int take(struct shfs_index *index, struct shfs_version *version, bool named,
                struct shfs_restore_set *set, struct found *found)
{
	struct leaving leaving = { 0 };
	int r = is_candidate(index, version, &leaving);

	found->known++;
	/* One that was named is tried, so that it is said why it cannot be. */
	if (r < 0 || (!r && !(named && !opts.list)))
		return r;
	found->candidates++;
	if (opts.list)
		return list_one(index, version, &leaving);
	return shfs_restore_set_add(set, index, version, NULL);
}

static int collect(struct shfs_index *index, const char *path,
                   struct shfs_restore_set *set, struct found *found)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = open_files(index, path, &rows);

	while (!r && (r = shfs_rows_next(rows)) > 0) {
		_cleanup_version_ struct shfs_version version = { 0 };

		r = shfs_version_from_row(rows, &version);
		if (r > 0)
			r = take(index, &version, !strcmp(version.path, path), set,
			         found);
	}
	return r;
}

static int collect_operand(struct shfs_index *index, const char *operand,
                           struct shfs_restore_set *set)
{
	_cleanup_free_ char *path = NULL;
	_cleanup_buf_ struct shfs_buf shown = { 0 };
	struct found found = { 0 };
	int r = shfs_operand_file(index, operand, &path);

	if (r >= 0)
		r = path ? collect(index, path, set, &found) : -ENOMEM;
	if (r < 0)
		return shfs_fail_index(index, r);
	if (!found.known)
		return shfs_fail_unseen(index, path);
	if (found.candidates)
		return 0;
	shfs_show_path(&shown, path);
	shfs_error(
		"%s: nothing to bring back: all that is known below it is there, or has"
		" moved",
		shown.data);
	if (!opts.all)
		shfs_hint("temporary files of one command are left out; --all has them");
	return SHFS_EXIT_NOT_FOUND;
}

static int run(struct shfs_context *ctx, int argc, char **argv)
{
	_cleanup_restore_set_ struct shfs_restore_set set = { 0 };
	static char dot[] = ".", *here[] = { dot, NULL };
	int code = SHFS_EXIT_OK;
	struct shfs_index *index;

	if (!argc && !opts.list) {
		shfs_error("undelete what? Name a file or a directory, or use --list");
		return SHFS_EXIT_USAGE;
	}
	index = shfs_context_index(ctx, &code);
	if (!index)
		return code;
	if (!argc) {
		argv = here;
		argc = 1;
	}
	if (opts.list)
		shfs_context_pager(ctx);
	for (int i = 0; i < argc && !code; i++)
		code = collect_operand(index, argv[i], &set);
	if (code || opts.list)
		return code;
	return shfs_restore_set_run(&set, ctx, index, opts.restore);
}

static int option(struct shfs_context *ctx, const struct shfs_option *opt,
                  const char *value)
{
	if (opt->letter == 'l')
		opts.list = true;
	else if (opt->letter == 'n')
		opts.restore.dry_run = true;
	else
		opts.all = true;
	return 0;
}

static const struct shfs_option options[] = {
	{ "list", 'l', NULL, "only list what can be brought back" },
	{ "all", 'a', NULL, "also what one command made and removed again" },
	{ "dry-run", 'n', NULL, "only say what would be done" },
	{ 0 },
};

const struct shfs_command shfs_cmd_undelete = {
	.name = "undelete",
	.args = "[FILE|DIRECTORY]…",
	.summary = "Bring back files that were removed",
	.description = "Each gets the content that it held last. What is there is never\n"
		       "replaced, and files that were renamed are not brought back.",
	.alone = true,
	.options = options,
	.min_args = 0,
	.max_args = -1,
	.option = option,
	.run = run,
};
