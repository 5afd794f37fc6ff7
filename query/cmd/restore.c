/* SPDX-License-Identifier: MIT */
/* `shfs restore`: put a version of a file back, or a directory as it was, so that nothing
 * is lost by it. */
#include "query/base/cmd.h"
#include "query/history/uses.h"
#include "query/history/version-spec.h"
#include "query/past/effects.h"
#include "query/restore/restore-set.h"
#include "query/undo/restore-past.h"

#include "common/path.h"
#include "common/quote.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

static struct {
	struct shfs_restore_options restore;
	struct shfs_restore_past past;
	const char *to, *command, *before;
	bool read, wrote;
} opts;

static bool is_directory_name(const char *path)
{
	struct stat st;
	size_t len = strlen(path);

	return (len && path[len - 1] == '/') || (!stat(path, &st) && S_ISDIR(st.st_mode));
}

/* The path of --to, from the real working directory: links on the way are not
 * followed. */
static char *absolute_destination(void)
{
	_cleanup_free_ char *cwd = NULL, *joined = NULL;

	if (*opts.to == '/')
		return shfs_path_absolute(opts.to);
	cwd = getcwd(NULL, 0);
	joined = cwd ? shfs_path_join(cwd, opts.to) : NULL;
	return joined ? shfs_path_absolute(joined) : NULL;
}

/* Adds the version: --to is the new file, or a directory for it. */
static int add_named_version(struct shfs_restore_set *set, struct shfs_index *index,
                             struct shfs_version *version)
{
	_cleanup_free_ char *to = NULL, *path = NULL;

	if (!opts.to)
		return shfs_restore_set_add(set, index, version, NULL);
	to = absolute_destination();
	if (!to)
		return -ENOMEM;
	if (!is_directory_name(opts.to))
		return shfs_restore_set_add_as(set, version, to);
	path = shfs_path_join(to, strrchr(version->path, '/') + 1);
	return path ? shfs_restore_set_add_as(set, version, path) : -ENOMEM;
}

static int collect_named(struct shfs_restore_set *set, struct shfs_index *index, int argc,
                         char **argv)
{
	if (argc > 1 && opts.to && !is_directory_name(opts.to)) {
		shfs_error("--to must be a directory for several files");
		return SHFS_EXIT_USAGE;
	}
	for (int i = 0; i < argc; i++) {
		_cleanup_version_ struct shfs_version version = { 0 };
		int r = shfs_version_spec_find(index, argv[i], &version);

		if (r)
			return r;
		r = add_named_version(set, index, &version);
		if (r)
			return shfs_fail_index(index, r);
	}
	return 0;
}

/* The version to restore for a use; 0: none. */
static int64_t wanted(const struct shfs_use *use)
{
	if (use->directory || use->kind == SHFS_USE_REMOVED)
		return 0;
	return opts.read ? use->read_id : use->made_id;
}

static int collect_used_versions(struct shfs_restore_set *set, struct shfs_index *index,
                                 const struct shfs_uses *uses, const char *dir)
{
	for (size_t i = 0; i < uses->n; i++) {
		_cleanup_version_ struct shfs_version version = { 0 };
		int64_t id = wanted(&uses->list[i]);
		int r = id ? shfs_version_load(index, id, &version) : 0;

		if (r > 0)
			r = shfs_restore_set_add(set, index, &version, dir);
		if (r < 0)
			return r;
	}
	return 0;
}

static int collect_command(struct shfs_restore_set *set, struct shfs_index *index)
{
	_cleanup_uses_ struct shfs_uses uses = { 0 };
	_cleanup_free_ char *dir = opts.to ? absolute_destination() : NULL;
	_cleanup_buf_ struct shfs_buf shown = { 0 };
	int64_t command_id;
	int r = shfs_command_find(index, opts.command, &command_id);

	shfs_quote_display(&shown, opts.command, strlen(opts.command));
	if (!r)
		shfs_error("no command's id begins with %s", shown.data);
	if (!r || r == -ENOTUNIQ)
		return SHFS_EXIT_NOT_FOUND;
	if (r > 0)
		r = shfs_uses_load(index, command_id, 0, 0, &uses);
	if (!r)
		r = collect_used_versions(set, index, &uses, dir);
	if (r)
		return shfs_fail_index(index, r);
	if (set->n)
		return 0;
	shfs_error("command %s %s no files", shown.data, opts.read ? "read" : "wrote");
	return SHFS_EXIT_NOT_FOUND;
}

/* --- paths as they were at a time --- */

static int add_past_path(char *path)
{
	char **more = reallocarray(opts.past.paths, opts.past.n_paths + 1, sizeof(*more));

	if (!more || !path)
		return -ENOMEM;
	opts.past.paths = more;
	more[opts.past.n_paths++] = path;
	return 0;
}

/* Adds the operand if it is DIRECTORY@{WHEN}; all have one time. Returns an exit code. */
static int add_directory(struct shfs_index *index, const char *operand, size_t nth)
{
	_cleanup_free_ char *path = NULL, *when = NULL;
	int64_t time_ns;
	int r = shfs_directory_spec_read(index, operand, &path, &when), code;

	if (r < 0)
		return shfs_fail_index(index, r);
	if (r != (nth > 0 && opts.past.n_paths) && nth) {
		shfs_error("files and directories are not restored at once");
		return SHFS_EXIT_USAGE;
	}
	if (!r)
		return 0;
	code = shfs_moment_find(index, when, false, &time_ns);
	if (code)
		return code;
	if (nth && time_ns != opts.past.time_ns) {
		shfs_error("directories are restored to one time at once");
		return SHFS_EXIT_USAGE;
	}
	opts.past.time_ns = time_ns;
	r = add_past_path(TAKE_PTR(path));
	return r ? shfs_fail_index(index, r) : 0;
}

/* Adds what the command changed. */
static int add_changed_paths(struct shfs_index *index, int64_t command_id)
{
	_cleanup_effects_ struct shfs_effects effects = { 0 };
	int r = shfs_effects_add_command(&effects, index, command_id);

	opts.past.may_be_new = true;
	for (size_t i = 0; i < effects.n && !r; i++) {
		struct shfs_effect *e = &effects.list[i];

		if (shfs_path_is_here(e->path))
			r = add_past_path(TAKE_PTR(e->path));
		if (!r && e->file2_id)
			r = add_past_path(TAKE_PTR(e->path2));
	}
	if (r)
		return shfs_fail_index(index, r);
	if (opts.past.n_paths)
		return 0;
	shfs_error("that command has changed no file");
	return SHFS_EXIT_NOT_FOUND;
}

static int collect_before(struct shfs_index *index, int argc, char **argv)
{
	_cleanup_buf_ struct shfs_buf shown = { 0 };
	int64_t command_id;
	int r = shfs_command_find(index, opts.before, &command_id), code;

	if (r == -ENOTUNIQ)
		return SHFS_EXIT_NOT_FOUND;
	if (r < 0)
		return shfs_fail_index(index, r);
	if (!r) {
		shfs_quote_display(&shown, opts.before, strlen(opts.before));
		shfs_error("no command's id begins with %s", shown.data);
		return SHFS_EXIT_NOT_FOUND;
	}
	code = shfs_moment_find(index, opts.before, true, &opts.past.time_ns);
	if (!code && !argc)
		code = add_changed_paths(index, command_id);
	for (int i = 0; i < argc && !code; i++) {
		r = add_past_path(shfs_operand_path(argv[i]));
		if (!r)
			r = shfs_path_is_known(index, opts.past.paths[i]);
		code = r < 0 ? shfs_fail_index(index, r)
		       : r   ? 0
		             : shfs_fail_unseen(index, opts.past.paths[i]);
	}
	return code;
}

static int collect_past(struct shfs_index *index, int argc, char **argv)
{
	int code = 0;

	if (opts.before)
		return collect_before(index, argc, argv);
	for (int i = 0; i < argc && !code && !opts.command; i++)
		code = add_directory(index, argv[i], i);
	return code;
}

static int run_past(struct shfs_context *ctx, struct shfs_index *index)
{
	_cleanup_free_ char *to = NULL, *inside = NULL;

	opts.past.dry_run = opts.restore.dry_run;
	opts.past.force = opts.restore.force;
	if (opts.to && opts.past.n_paths > 1) {
		shfs_error("--to takes one directory at once");
		return SHFS_EXIT_USAGE;
	}
	if (opts.to) {
		to = absolute_destination();
		inside = to ? shfs_path_join(to, strrchr(opts.past.paths[0], '/') + 1)
		            : NULL;
		if (!inside)
			return shfs_fail_index(index, -ENOMEM);
		opts.past.to = is_directory_name(opts.to) ? inside : to;
	}
	return shfs_restore_past(ctx, index, &opts.past);
}

/* Options that go with directories alone. */
static bool has_past_options(void)
{
	return opts.past.exact || opts.past.git || opts.past.partly || opts.past.json ||
	       opts.past.patch;
}

static int check_restore_options(struct shfs_context *ctx, int argc)
{
	if (opts.command && argc)
		shfs_error("--command takes no files");
	else if (opts.command && opts.before)
		shfs_error("--command and --before exclude each other");
	else if (!opts.command && !opts.before && !argc)
		shfs_error("restore what? Name FILE@N, or --command ID");
	else if (opts.past.patch && (opts.past.json || !opts.restore.dry_run || opts.to))
		shfs_error("--patch goes with --dry-run alone");
	else if (opts.past.exact && opts.to)
		shfs_error("--exact and --to exclude each other: a copy is exact");
	else if (!opts.command && (opts.read || opts.wrote))
		shfs_error("--read and --wrote go with --command");
	else if (opts.read && opts.wrote)
		shfs_error("--read and --wrote exclude each other");
	else
		return opts.past.patch ? 0 : (shfs_context_alone(ctx), 0); /* runs diff */
	return SHFS_EXIT_USAGE;
}

static int run_restore(struct shfs_context *ctx, struct shfs_index *index, int argc,
                       char **argv)
{
	_cleanup_restore_set_ struct shfs_restore_set set = { .no_links = opts.to };
	int code = collect_past(index, argc, argv);

	if (!code && opts.past.n_paths)
		code = run_past(ctx, index);
	else if (!code && has_past_options()) {
		shfs_error(
			"--exact, --git, --partly, --patch and --json go with directories"
			" and --before");
		code = SHFS_EXIT_USAGE;
	} else if (!code) {
		code = opts.command ? collect_command(&set, index)
		                    : collect_named(&set, index, argc, argv);
		if (!code)
			code = shfs_restore_set_run(&set, ctx, index, opts.restore);
	}
	while (opts.past.n_paths)
		free(opts.past.paths[--opts.past.n_paths]);
	free(TAKE_PTR(opts.past.paths));
	return code;
}

static int set_restore_option(const struct shfs_option *opt, const char *value)
{
	*(!strcmp(opt->name, "to")        ? &opts.to
	  : !strcmp(opt->name, "command") ? &opts.command
	                                  : &opts.before) = value;
	if (!*value) {
		shfs_error("--%s needs a value that is not empty", opt->name);
		return SHFS_EXIT_USAGE;
	}
	return 0;
}

const struct shfs_command shfs_cmd_restore = {
	.name = "restore",
	.args = "FILE@N|PATH@{WHEN}…",
	.summary = "Put back a version of a file, or a directory as it was",
	.description = "Refuses (exit status 4) to overwrite content that is not itself\n"
		       "archived, to follow symbolic links, and to replace anything but "
		       "a regular\n"
		       "file. Either all is restored, or nothing if a part of it is "
		       "refused.\n"
		       "DIRECTORY@{yesterday}: contents, names, modes, times, links; "
		       "names that were\n"
		       "added since stay (but with --exact).",
	.options = {
	{ "to", 0, "PATH", "restore to another file, or into a directory" },
	{ "before", 0, "ID", "paths as they were before this command; without paths, those"
	                     " that it changed" },
	{ "exact", 0, NULL, "of a directory: also remove what was added since",
	  .flag = &opts.past.exact },
	{ "git", 0, NULL, "of a directory: also what is in .git", .flag = &opts.past.git },
	{ "partly", 0, NULL, "of a directory: go on where something cannot be put back",
	  .flag = &opts.past.partly },
	{ "force", 'f', NULL, "overwrite content that is not archived; replace links",
	  .flag = &opts.restore.force },
	{ "dry-run", 'n', NULL, "only show what would be done",
	  .flag = &opts.restore.dry_run },
	{ "command", 0, "ID", "restore all files of a command, as it left them" },
	{ "read", 0, NULL, "with --command: the files it read, as it saw them",
	  .flag = &opts.read },
	{ "wrote", 0, NULL, "with --command: the files it wrote (this is the default)",
	  .flag = &opts.wrote },
	{ "patch", 'p', NULL, "of a directory, with --dry-run: contents as a diff",
	  .flag = &opts.past.patch },
	{ "json", 0, NULL, "of a directory, for programs: see docs/json.md",
	  .flag = &opts.past.json },
	},
	.on_demand = true,
	.operands = { 0, -1 },
	.option = set_restore_option,
	.check = check_restore_options,
	.run_on_index = run_restore,
};
