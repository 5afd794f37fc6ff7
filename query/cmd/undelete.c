/* SPDX-License-Identifier: MIT */
/* `shfs undelete`: restore files that were removed. */
#include "query/base/cmd.h"
#include "query/base/time.h"
#include "query/restore/leaving.h"
#include "query/restore/names.h"
#include "query/restore/restore-set.h"

#include "common/quote.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

static struct {
	struct shfs_restore_options restore;
	bool list, all, git;
} opts = { .restore.only_absent = true };
static bool partly; /* something does not get back all that it had */

/* Was the file removed on purpose: by the command that made it, or by git? 1 or 0. */
static int is_unwanted(struct shfs_index *index, int64_t file_id,
                       const struct shfs_leaving *leaving)
{
	/* what one command made and removed was for itself */
	int r = opts.all ? 0 : shfs_leaving_of_one(index, file_id, leaving);

	return !r && !opts.git ? shfs_leaving_by_git(index, leaving) : r;
}

/* Can the file be restored, and may the user want that? 1 or 0. */
static int is_candidate(struct shfs_index *index, const struct shfs_version *version,
                        struct shfs_leaving *leaving)
{
	enum shfs_leaving_kind kind;
	struct stat st;
	int r;

	if (!lstat(version->path, &st))
		return 0;
	r = shfs_leaving_load(index, version->file_id, leaving);
	if (r < 0 || leaving->moved)
		return MIN(r, 0);
	/* also since its last removal */
	r = shfs_leaving_moved_along(index, version->file_id, version->path, version->n,
	                             leaving);
	if (r || !leaving->removed)
		return r < 0 ? r : !r;
	r = shfs_leaving_kind(index, version->file_id, leaving, &kind);
	if (r || (kind != SHFS_LEFT_FILE && kind != SHFS_LEFT_UNKNOWN))
		return r; /* it was no regular file at the end */
	r = is_unwanted(index, version->file_id, leaving);
	return r < 0 ? r : !r;
}

static int list_one(struct shfs_index *index, const struct shfs_version *version,
                    const struct shfs_leaving *leaving)
{
	_cleanup_buf_ struct shfs_buf line = { 0 };
	_cleanup_command_ struct shfs_command_row command = { 0 };
	int r = leaving->by.command_id
	                ? shfs_command_load(index, leaving->by.command_id, &command)
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

/* Opens rows of every file with versions at or below path, with its latest version; not
 * of links, whose versions are only known by their fingerprints. */
static int open_files(struct shfs_index *index, const char *path, struct shfs_rows **rows)
{
	_cleanup_buf_ struct shfs_buf sql = { 0 };
	int r;

	_Static_assert(S_IFMT == 61440 && S_IFLNK == 40960, "as the question says");
	shfs_buf_str(&sql, "SELECT" SHFS_VERSION_COLUMNS "FROM v_version v WHERE n ="
	                   " (SELECT versions FROM v_file f WHERE f.file_id = v.file_id)"
	                   " AND mode & 61440 != 40960 AND ");
	shfs_sql_files_below(&sql, "file_id", 1);
	shfs_buf_str(&sql, " ORDER BY path");
	if (sql.failed)
		return -ENOMEM;
	r = shfs_rows_open(index, sql.data, rows);
	return r ? r : shfs_rows_bind_str(*rows, 1, strcmp(path, "/") ? path : "");
}

/* Something that is no regular file, or that had other names. */
struct other {
	enum shfs_leaving_kind kind;
	char *path, *text;
	struct shfs_version version; /* for a file */
};

static struct {
	struct other *list;
	size_t n, cap;
	struct shfs_names *names;
} others;

static int add_other_deletion(enum shfs_leaving_kind kind, const char *path,
                              const char *text)
{
	struct other *o;

	if (!MAKE_ROOM(others.list, others.n, others.cap))
		return -ENOMEM;
	o = &others.list[others.n++];
	*o = (struct other){ kind, strdup(path), strdup(text ?: ""), { 0 } };
	return o->path && o->text ? 0 : -ENOMEM;
}

/* Takes version over if the file had other names: 1 or 0. */
static int add_deleted_name(struct shfs_index *index, struct shfs_version *version)
{
	int r = shfs_names_add(&others.names, index, version->file_id, version->path);

	if (r <= 0)
		return r;
	r = add_other_deletion(SHFS_LEFT_FILE, version->path, NULL);
	if (r)
		return r;
	others.list[others.n - 1].version = *version;
	*version = (struct shfs_version){ 0 };
	return 1;
}

static void clear_others(void)
{
	for (size_t i = 0; i < others.n; i++) {
		free(others.list[i].path);
		free(others.list[i].text);
		shfs_version_clear(&others.list[i].version);
	}
	free(others.list);
	shfs_names_free(&others.names);
}

/* Warns that something besides the content cannot be restored. */
static void warn_lost(const char *path, const char *what)
{
	_cleanup_buf_ struct shfs_buf shown = { 0 };

	shfs_show_path(&shown, path);
	shfs_warn("%s had %s", shown.data ?: "", what);
	partly = true;
}

static int warn_attributes(struct shfs_index *index, int64_t file_id, const char *path,
                           const struct shfs_leaving *leaving)
{
	int r = shfs_leaving_attributes(index, file_id, leaving);

	if (r > 0)
		warn_lost(path, "extended attributes, which are not recorded");
	return MIN(r, 0);
}

struct found {
	size_t known, candidates;
	bool git; /* asked for, or the operand is in .git itself */
};

static int take_deleted_version(struct shfs_index *index, struct shfs_version *version,
                                bool named, struct shfs_restore_set *set,
                                struct found *found)
{
	_cleanup_leaving_ struct shfs_leaving leaving = { 0 };
	int r;

	found->known++;
	if (!found->git && shfs_path_is_version_control(version->path))
		return 0;
	r = is_candidate(index, version, &leaving);
	/* a named file is tried, so that the reason is printed */
	if (r < 0 || (!r && !(named && !opts.list)))
		return r;
	found->candidates++;
	if (opts.list)
		return list_one(index, version, &leaving);
	if (r > 0) {
		r = warn_attributes(index, version->file_id, version->path, &leaving);
		if (!r)
			r = add_deleted_name(index, version);
		if (!r && leaving.linked)
			warn_lost(version->path, "other names, which are not recorded");
	}
	return r ? MIN(r, 0) : shfs_restore_set_add(set, index, version, NULL);
}

/* --- links and directories --- */

static int list_other(enum shfs_leaving_kind kind, const char *path,
                      const struct shfs_leaving *leaving)
{
	_cleanup_buf_ struct shfs_buf line = { 0 };
	const char *text = leaving->text ?: "";

	shfs_show_path(&line, path);
	if (kind == SHFS_LEFT_DIRECTORY) {
		shfs_buf_char(&line, '/');
	} else if (kind == SHFS_LEFT_LINK) {
		shfs_buf_str(&line, " -> ");
		shfs_quote_display(&line, text, strlen(text));
	} else {
		shfs_buf_str(&line, "  (no file: only its name is recorded)");
	}
	shfs_buf_str(&line, "\n    removed ");
	shfs_time_show_relative(&line, leaving->time_ns);
	shfs_buf_char(&line, '\n');
	return shfs_show_flush(&line) ? 0 : -EIO;
}

static int take_other(struct shfs_index *index, int64_t file_id, const char *path,
                      bool has_versions, struct found *found)
{
	_cleanup_leaving_ struct shfs_leaving leaving = { 0 };
	enum shfs_leaving_kind kind;
	struct stat st;
	int r;

	if (!found->git && shfs_path_is_version_control(path))
		return 0;
	found->known += !has_versions;
	if (!lstat(path, &st))
		return 0;
	r = shfs_leaving_load(index, file_id, &leaving);
	if (r <= 0 || !leaving.removed)
		return MIN(r, 0);
	r = shfs_leaving_kind(index, file_id, &leaving, &kind);
	if (r || kind == SHFS_LEFT_FILE || (kind == SHFS_LEFT_UNKNOWN && has_versions))
		return r;
	r = shfs_leaving_moved_along(index, file_id, path, 0, &leaving);
	if (!r)
		r = is_unwanted(index, file_id, &leaving);
	if (r)
		return MIN(r, 0);
	found->candidates++;
	if (opts.list)
		return list_other(kind, path, &leaving);
	r = warn_attributes(index, file_id, path, &leaving);
	return r ? r : add_other_deletion(kind, path, leaving.text);
}

/* Collects paths, each before those below it. */
static int collect_others(struct shfs_index *index, const char *path, struct found *found)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	_cleanup_buf_ struct shfs_buf sql = { 0 };
	int r;

	shfs_buf_str(&sql, "SELECT p.file_id, p.path, EXISTS (SELECT 1 FROM v_file f"
	                   " WHERE f.file_id = p.file_id) FROM v_path p WHERE ");
	shfs_sql_files_below(&sql, "p.file_id", 1);
	shfs_buf_str(&sql, " ORDER BY p.path");
	if (sql.failed)
		return -ENOMEM;
	r = shfs_rows_open_str(index, sql.data, strcmp(path, "/") ? path : "", &rows);
	while (!r && (r = shfs_rows_next(rows)) > 0)
		r = take_other(index, shfs_rows_int(rows, 0), shfs_rows_text(rows, 1),
		               shfs_rows_int(rows, 2), found);
	return r;
}

/* Restores a name; if that cannot be a name of the same file, it gets a content of its
 * own. */
static int restore_name(struct shfs_restorer *restorer, const struct other *o,
                        struct shfs_buf *message)
{
	const struct shfs_restore_target target = { "/", o->path + 1, false };
	const char *other = shfs_names_other(others.names, o->path);
	int code = SHFS_EXIT_FAILURE;

	if (other && (o->version.flags & SHFS_CONTENT_OBJECT)) {
		code = shfs_restore_name(restorer, &o->version, other, message);
		if (code == SHFS_EXIT_FAILURE) {
			shfs_warn("%s", message->data ?: "");
			*opts.restore.partly = true;
			shfs_buf_free(message);
		}
	}
	if (code != SHFS_EXIT_FAILURE)
		return code;
	code = shfs_restore(restorer, &o->version, &target, message);
	if (!code)
		shfs_names_is_there(others.names, o->path);
	return code;
}

static int restore_other(struct shfs_restorer *restorer, const struct other *o,
                         struct shfs_buf *message)
{
	struct stat st;

	switch (o->kind) {
	case SHFS_LEFT_FILE:
		return restore_name(restorer, o, message);
	case SHFS_LEFT_LINK:
		return shfs_restore_link(restorer, o->path, o->text, message);
	case SHFS_LEFT_DIRECTORY: /* restoring a file in it may have made it */
		return lstat(o->path, &st)
		               ? shfs_restore_directory(restorer, o->path, message)
		               : SHFS_EXIT_OK;
	default:
		shfs_show_path(message, o->path);
		shfs_buf_str(message, " is not brought back: it was no file, and only "
		                      "its name is recorded");
		return SHFS_EXIT_FAILURE;
	}
}

static int restore_others(struct shfs_context *ctx, struct shfs_index *index)
{
	_cleanup_restorer_ struct shfs_restorer *restorer = NULL;
	int code = SHFS_EXIT_OK, worst = SHFS_EXIT_OK, r = -ENOMEM;
	struct shfs_store *store = shfs_context_store(ctx, false, &code);
	const struct shfs_config *config = store ? shfs_context_config(ctx, &code) : NULL;

	if (config)
		r = shfs_restorer_new(store, index, config, opts.restore, &restorer);
	if (!config || r)
		return config ? shfs_fail_index(index, r) : code;
	for (size_t i = 0; i < others.n; i++) {
		_cleanup_buf_ struct shfs_buf message = { 0 };

		code = restore_other(restorer, &others.list[i], &message);
		if (message.len && code)
			shfs_error("%s", message.data);
		else if (message.len)
			puts(message.data);
		worst = MAX(worst, code);
	}
	return worst;
}

static int collect_deleted_below(struct shfs_index *index, const char *path,
                                 struct shfs_restore_set *set, struct found *found)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = open_files(index, path, &rows);

	while (!r && (r = shfs_rows_next(rows)) > 0) {
		_cleanup_version_ struct shfs_version version = { 0 };

		r = shfs_version_from_row(rows, &version);
		if (r > 0)
			r = take_deleted_version(index, &version,
			                         !strcmp(version.path, path), set, found);
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

	if (path && !shfs_path_is_here(path)) {
		shfs_show_path(&shown, path);
		shfs_error("%s" SHFS_NOT_HERE, shown.data);
		shfs_hint("shfs restore --to DIR brings a version of it here");
		return SHFS_EXIT_REFUSED;
	}
	if (r >= 0 && path) {
		found.git = opts.git || shfs_path_is_version_control(path);
		r = collect_deleted_below(index, path, set, &found);
		if (r >= 0)
			r = collect_others(index, path, &found);
	}
	if (r < 0 || !path)
		return shfs_fail_index(index, path ? r : -ENOMEM);
	if (!found.known)
		return shfs_fail_unseen(index, path);
	if (found.candidates)
		return 0;
	shfs_show_path(&shown, path);
	shfs_error(
		"%s: nothing to bring back: all that is known below it is there, or has"
		" moved",
		shown.data);
	if (!opts.all || !opts.git)
		shfs_hint("temporary files of one command (--all) and files of git "
		          "(--git) are left out");
	return SHFS_EXIT_NOT_FOUND;
}

static int check_undelete_options(struct shfs_context *ctx, int argc)
{
	if (argc || opts.list)
		return 0;
	shfs_error("undelete what? Name a file or a directory, or use --list");
	return SHFS_EXIT_USAGE;
}

static int run_undelete(struct shfs_context *ctx, struct shfs_index *index, int argc,
                        char **argv)
{
	_cleanup_restore_set_ struct shfs_restore_set set = { 0 };
	static char dot[] = ".", *here[] = { dot, NULL };
	int code = SHFS_EXIT_OK, rest;

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
	opts.restore.partly = &partly;
	if (set.n)
		code = shfs_restore_set_run(&set, ctx, index, opts.restore);
	rest = code == SHFS_EXIT_REFUSED ? code : restore_others(ctx, index);
	clear_others();
	code = MAX(code, rest);
	return partly ? MAX(code, SHFS_EXIT_FAILURE) : code;
}

const struct shfs_command shfs_cmd_undelete = {
	.name = "undelete",
	.args = "[FILE|DIRECTORY]…",
	.summary = "Bring back files that were removed",
	.description =
		"Each gets its last content. Existing files are never replaced, and\n"
		"files that were renamed are not brought back.",
	.alone = true,
	.options = {
	{ "list", 'l', NULL, "only list what can be brought back", .flag = &opts.list },
	{ "all", 'a', NULL, "also what one command made and removed again",
	  .flag = &opts.all },
	{ "git", 0, NULL, "also in .git, and what git removed for another branch",
	  .flag = &opts.git },
	{ "dry-run", 'n', NULL, "only show what would be done",
	  .flag = &opts.restore.dry_run },
	},
	.operands = { 0, -1 },
	.check = check_undelete_options,
	.run_on_index = run_undelete,
};
