/* SPDX-License-Identifier: MIT */
/* `shfs record`: one command, with every file of the machine that it uses. */
#include "query/base/cmd.h"
#include "query/base/context.h"
#include "query/base/foreground.h"
#include "query/base/mounts.h"
#include "query/base/projects.h"
#include "query/record/by-helper.h"
#include "query/record/whole.h"

#include "common/redact.h"
#include "common/secrets.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct {
	bool bundle;
	const char *by; /* NULL: by a mount */
} opts;

/* Programs that need the privileges of their owner, root, which no program gets in the
 * user namespace. */
static void warn_of_privileged(const char *program)
{
	static const char *const names[] = { "sudo", "su", "doas", "pkexec", "ping" };
	const char *slash = strrchr(program, '/'), *name = slash ? slash + 1 : program;

	for (size_t i = 0; i < ARRAY_SIZE(names) && geteuid(); i++)
		if (!strcmp(name, names[i]) && opts.by)
			shfs_warn(
				"%s runs, but what it does with other privileges is "
				"not recorded; to record it as root: sudo shfs record …",
				name);
		else if (!strcmp(name, names[i]))
			shfs_warn("%s gets no privileges here: what a user records has "
			          "none; to record it as root: sudo shfs record …",
			          name);
}

/* Within a record all files are recorded already: this adds the command. */
static int run_only(struct shfs_context *ctx, char **argv)
{
	size_t n = 0;

	while (argv[n])
		n++;
	const char *words[n + 3];

	words[0] = "run";
	words[1] = "--";
	memcpy(words + 2, argv, (n + 1) * sizeof(*words));
	return shfs_context_exec(ctx, words);
}

/* Can the caller use it as a directory, now? */
static bool is_directory(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISDIR(st.st_mode) && !access(path, X_OK);
}

static int record_whole(struct shfs_context *ctx, const struct shfs_mounts *mounts,
                        char **argv)
{
	_cleanup_projects_ struct shfs_projects projects = { 0 };
	_cleanup_free_ char *store = realpath(shfs_context_store_path(ctx), NULL);
	_cleanup_free_ char **dirs = calloc(mounts->n + 1, sizeof(*dirs)), **known = NULL;
	struct shfs_whole whole = {
		.store = store,
		.config = ctx->config_option,
		.bundle = opts.bundle,
		.argv = argv,
	};
	const struct shfs_config *config;
	int status = 0, r, code;

	config = shfs_context_config(ctx, &code);
	if (!config)
		return code;
	r = shfs_secrets_redactor(config, &whole.redactor);
	if (r) {
		shfs_error("cannot read which texts are secret: %s", strerror(-r));
		return SHFS_EXIT_FAILURE;
	}
	r = shfs_projects_read(shfs_context_store_path(ctx), &projects);
	known = calloc(projects.n + 1, sizeof(*known));
	if (!store || !dirs || !known || r == -ENOMEM) {
		shfs_no_memory();
		return SHFS_EXIT_FAILURE;
	}
	if (r)
		shfs_warn("cannot read which projects are known: %s", strerror(-r));
	for (size_t i = 0; i < mounts->n; i++)
		if ((opts.by || !shfs_mount_is_recorder(&mounts->list[i])) &&
		    mounts->list[i].owner == geteuid())
			dirs[whole.n_mounted++] = mounts->list[i].dir;
	for (size_t i = 0; i < projects.n; i++)
		if (is_directory(projects.list[i].dir))
			known[whole.n_projects++] = projects.list[i].dir;
	whole.mounted = dirs;
	whole.projects = known;
	code = opts.by ? shfs_whole_run_by_helper(&whole, &status)
	               : shfs_whole_run(&whole, &status);
	shfs_redactor_free(whole.redactor);
	return code ? code : shfs_foreground_end(status);
}

static int run_record(struct shfs_context *ctx, int argc, char **argv)
{
	_cleanup_mounts_ struct shfs_mounts mounts = { 0 };
	int code = 0, r;
	bool within;

	(void)argc;
	if (!shfs_context_store(ctx, true, &code))
		return code;
	r = shfs_mounts_list(SHFS_MOUNTS_BROWSE, NULL, &mounts);
	if (r) {
		shfs_error("cannot list the mounts: %s", strerror(-r));
		return SHFS_EXIT_FAILURE;
	}
	within = shfs_mounts_at(&mounts, "/") || shfs_whole_is_by_helper();
	if (within && opts.bundle)
		shfs_warn("what is recorded here already is archived as that "
		          "recording says, not as a bundle");
	if (within)
		return run_only(ctx, argv);
	warn_of_privileged(argv[0]);
	return record_whole(ctx, &mounts, argv);
}

static int check_options(struct shfs_context *ctx, int argc)
{
	(void)ctx;
	(void)argc;
	if (opts.by && strcmp(opts.by, "helper") != 0) {
		shfs_error("--by is helper; without it, the command runs in a mount");
		return SHFS_EXIT_USAGE;
	}
	if (!opts.by || !opts.bundle)
		return SHFS_EXIT_OK;
	shfs_error("--bundle needs the links and names that the command looks up, of "
	           "which the helper does not report: leave out --by helper");
	return SHFS_EXIT_USAGE;
}

const struct shfs_command shfs_cmd_record = {
	.name = "record",
	.args = "[OPTION…] [--] COMMAND [ARG…]",
	.summary = "Run a command and record every file of the machine that it uses",
	.description =
		"Also outside of what is mounted: programs, libraries, configuration,\n"
		"data. Contents are archived in the projects that shfs knows; elsewhere\n"
		"files are known by their fingerprints. Ends as the command does.",
	.options = {
	{ "bundle", 0, NULL, "archive all that it reads, to be exported whole later",
	  .flag = &opts.bundle },
	{ "by", 0, "RECORDER",
	  "helper: where namespaces are forbidden, and root runs shfs-helper",
	  .text = &opts.by },
	},
	.operands = { 1, -1 },
	.rest = true,
	.check = check_options,
	.run = run_record,
};
