/* SPDX-License-Identifier: MIT */
/* `shfs restore`: put a version of a file back, so that nothing is lost by it. */
#include "query/base/cmd.h"
#include "query/history/uses.h"
#include "query/history/version-spec.h"
#include "query/restore/restore-set.h"

#include "common/path.h"
#include "common/quote.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

static struct {
	struct shfs_restore_options restore;
	const char *to, *command;
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

static int check_restore_options(struct shfs_context *ctx, int argc)
{
	if (opts.command && argc)
		shfs_error("--command takes no files");
	else if (!opts.command && !argc)
		shfs_error("restore what? Name FILE@N, or --command ID");
	else if (!opts.command && (opts.read || opts.wrote))
		shfs_error("--read and --wrote go with --command");
	else if (opts.read && opts.wrote)
		shfs_error("--read and --wrote exclude each other");
	else
		return 0;
	return SHFS_EXIT_USAGE;
}

static int run_restore(struct shfs_context *ctx, struct shfs_index *index, int argc,
                       char **argv)
{
	_cleanup_restore_set_ struct shfs_restore_set set = { .no_links = opts.to };
	int code = opts.command ? collect_command(&set, index)
	                        : collect_named(&set, index, argc, argv);

	return code ? code : shfs_restore_set_run(&set, ctx, index, opts.restore);
}

static int set_restore_option(const struct shfs_option *opt, const char *value)
{
	*(strcmp(opt->name, "to") ? &opts.command : &opts.to) = value;
	if (!*value) {
		shfs_error("--%s needs a value that is not empty", opt->name);
		return SHFS_EXIT_USAGE;
	}
	return 0;
}

const struct shfs_command shfs_cmd_restore = {
	.name = "restore",
	.args = "FILE@N…",
	.summary = "Put a version of a file back, without losing anything",
	.description = "Refuses (exit status 4) to overwrite content that is not itself\n"
		       "archived, to follow symbolic links, and to replace anything but "
		       "a regular\n"
		       "file. Of several files, either all are restored, or none if one "
		       "is refused.",
	.alone = true,
	.options = {
	{ "to", 0, "PATH", "restore to another file, or into a directory" },
	{ "force", 'f', NULL, "overwrite content that is not archived; replace links",
	  .flag = &opts.restore.force },
	{ "dry-run", 'n', NULL, "only show what would be done",
	  .flag = &opts.restore.dry_run },
	{ "command", 0, "ID", "restore all files of a command, as it left them" },
	{ "read", 0, NULL, "with --command: the files it read, as it saw them",
	  .flag = &opts.read },
	{ "wrote", 0, NULL, "with --command: the files it wrote (this is the default)",
	  .flag = &opts.wrote },
	},
	.operands = { 0, -1 },
	.option = set_restore_option,
	.check = check_restore_options,
	.run_on_index = run_restore,
};
