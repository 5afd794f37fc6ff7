/* SPDX-License-Identifier: MIT */
/*
 * `shfs enable`, `shfs disable` and `shfs prompt`: which projects are recorded always,
 * and what happens when a shell enters one that is not recorded.
 */
#include "query/base/child.h"
#include "query/base/context.h"
#include "query/base/json.h"
#include "query/base/model.h"
#include "query/base/mounts.h"
#include "query/base/projects.h"
#include "query/base/unit.h"

#include "common/path.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define PROMPT_MS 5000 /* how long a prompt waits at most for a mount */
#define UNIT      "shfs.service"

static struct {
	bool list, json;
} opts;

static bool unmounts; /* disable --now */

/* --- running shfs itself, and systemctl --- */

/* Starts `shfs VERB DIR...` on the same store. */
static pid_t start_verb(struct shfs_context *ctx, const char *verb, int n,
                        const char *const *dirs, enum shfs_child_says says)
{
	const char *store = shfs_context_store_path(ctx);
	_cleanup_free_ const char **argv = calloc((size_t)n + 8, sizeof(*argv));
	int i = 0;

	if (!argv)
		return -1;
	argv[i++] = "shfs";
	argv[i++] = verb;
	argv[i++] = "--store";
	argv[i++] = store;
	if (ctx->config_option) {
		argv[i++] = "--config";
		argv[i++] = ctx->config_option;
	}
	argv[i++] = "--";
	memcpy(argv + i, dirs, (size_t)n * sizeof(*dirs));
	return shfs_child_start("/proc/self/exe", argv, says);
}

static int run_verb(struct shfs_context *ctx, const char *verb, int n,
                    const char *const *dirs)
{
	pid_t pid = start_verb(ctx, verb, n, dirs, SHFS_CHILD_ALL);

	if (pid >= 0)
		return shfs_child_wait(pid);
	shfs_error("cannot start a process: %s", strerror(errno));
	return SHFS_EXIT_FAILURE;
}

/* Has the user's systemd mount the projects at login, before there is a shell. Where
 * there is none, the hook mounts them, when a shell enters one. */
static void enable_unit(void)
{
	if (shfs_unit_enable(UNIT, false) == SHFS_UNIT_REFUSED)
		shfs_warn(
			"systemd does not mount it at login, but a shell that enters it "
			"does: systemctl --user enable " UNIT " failed");
}

/* --- the list --- */

static bool list_json(const struct shfs_projects *projects,
                      const struct shfs_mounts *mounts)
{
	_cleanup_json_ struct shfs_json json = { 0 };

	shfs_json_begin(&json, "enable");
	shfs_json_array(&json, "projects");
	for (size_t i = 0; i < projects->n; i++) {
		const struct shfs_project *one = &projects->list[i];

		shfs_json_object(&json, NULL);
		shfs_json_str(&json, "path", one->dir);
		shfs_json_str(&json, "state", shfs_project_state_name(one->state));
		shfs_json_bool(&json, "mounted", shfs_mounts_record(mounts, one->dir));
		shfs_json_object_end(&json);
	}
	shfs_json_array_end(&json);
	return shfs_json_end(&json);
}

static bool list_text(const struct shfs_projects *projects,
                      const struct shfs_mounts *mounts)
{
	_cleanup_buf_ struct shfs_buf out = { 0 };

	for (size_t i = 0; i < projects->n; i++) {
		const struct shfs_project *one = &projects->list[i];

		if (one->state != SHFS_PROJECT_ENABLED)
			continue;
		shfs_show_directory(&out, one->dir);
		shfs_buf_str(&out, shfs_mounts_record(mounts, one->dir) ? "  mounted\n"
		                   : access(one->dir, F_OK)             ? "  is missing\n"
		                                            : "  not mounted\n");
	}
	if (!out.len)
		shfs_buf_str(&out, "no project is enabled; shfs enable DIR begins\n");
	return shfs_show_flush(&out);
}

static int fail_projects(int r)
{
	shfs_error("cannot read which projects are enabled: %s", strerror(-r));
	return SHFS_EXIT_FAILURE;
}

static int list_projects(struct shfs_context *ctx)
{
	_cleanup_projects_ struct shfs_projects projects = { 0 };
	_cleanup_mounts_ struct shfs_mounts mounts = { 0 };
	int r = shfs_projects_read(shfs_context_store_path(ctx), &projects);

	if (!r)
		r = shfs_mounts_list(0, NULL, &mounts);
	if (r)
		return fail_projects(r);
	return (opts.json ? list_json : list_text)(&projects, &mounts)
	               ? SHFS_EXIT_OK
	               : SHFS_EXIT_FAILURE;
}

/* --- enable --- */

static int fail_set(const char *dir, int r)
{
	_cleanup_buf_ struct shfs_buf shown = { 0 };

	shfs_show_directory(&shown, dir);
	shfs_error("cannot note the state of %s: %s", shown.data,
	           r == -EINVAL ? "its name has a newline" : strerror(-r));
	return r == -EINVAL ? SHFS_EXIT_USAGE : SHFS_EXIT_FAILURE;
}

static int enable_one(struct shfs_context *ctx, const char *dir)
{
	_cleanup_free_ char *real = realpath(dir, NULL);
	_cleanup_buf_ struct shfs_buf shown = { 0 };
	struct stat st;
	int r;

	shfs_show_directory(&shown, real ? real : dir);
	if (!real || stat(real, &st) || !S_ISDIR(st.st_mode)) {
		shfs_error("cannot enable %s: %s", shown.data,
		           real ? "not a directory" : strerror(errno));
		return SHFS_EXIT_USAGE;
	}
	r = shfs_projects_set(shfs_context_store_path(ctx), real, SHFS_PROJECT_ENABLED);
	return r ? fail_set(real, r) : SHFS_EXIT_OK;
}

static int run_enable(struct shfs_context *ctx, int argc, char **argv)
{
	int worst = SHFS_EXIT_OK, code;

	if (opts.list || opts.json || !argc) {
		if (!argc)
			return list_projects(ctx);
		shfs_error("--list and --json take no directories");
		return SHFS_EXIT_USAGE;
	}
	if (!shfs_context_store(ctx, true, &code))
		return code;
	/* what cannot be mounted now is not to be mounted always */
	worst = run_verb(ctx, "mount", argc, (const char *const *)argv);
	for (int i = 0; i < argc && !worst; i++)
		worst = enable_one(ctx, argv[i]);
	if (worst)
		return worst;
	enable_unit();
	puts(argc > 1 ? "  they are recorded from now on, also after a reboot"
	              : "  it is recorded from now on, also after a reboot");
	return SHFS_EXIT_OK;
}

const struct shfs_command shfs_cmd_enable = {
	.name = "enable",
	.args = "[DIR…]",
	.summary = "Record what happens in a directory always, also after a reboot",
	.description =
		"Mounts it now, and again at each login and when a shell with the hook "
		"enters\nit. Without DIR, lists what is enabled.",
	.options = {
	{ "list", 'l', NULL, "list what is enabled, and whether it is mounted",
	  .flag = &opts.list },
	{ "json", 0, NULL, "the same, and what is not enabled, for programs",
	  .flag = &opts.json },
	},
	.operands = { 0, -1 },
	.run = run_enable,
};

/* --- disable --- */

/* The path of a project as it is kept: it may not exist any more. */
static char *kept_path(const struct shfs_projects *projects, const char *dir)
{
	_cleanup_free_ char *absolute = shfs_path_absolute(dir);
	char *real;

	if (absolute && shfs_projects_at(projects, absolute)) {
		real = absolute;
		absolute = NULL;
		return real;
	}
	return realpath(dir, NULL);
}

/* *mounted: its path, allocated, if it is to be unmounted. */
static int disable_one(struct shfs_context *ctx, const struct shfs_projects *projects,
                       const struct shfs_mounts *mounts, const char *dir, char **mounted)
{
	_cleanup_free_ char *path = kept_path(projects, dir);
	_cleanup_buf_ struct shfs_buf shown = { 0 };
	const struct shfs_project *project =
		path ? shfs_projects_at(projects, path) : NULL;
	int r;

	shfs_show_directory(&shown, path ? path : dir);
	if (!project) {
		shfs_error("%s is not enabled", shown.data);
		shfs_hint("shfs enable --list shows what is");
		return SHFS_EXIT_NOT_FOUND;
	}
	r = shfs_projects_set(shfs_context_store_path(ctx), path, SHFS_PROJECT_QUIET);
	if (r)
		return fail_set(path, r);
	printf("%s is not mounted by itself any more\n", shown.data);
	if (unmounts && shfs_mounts_at(mounts, path))
		*mounted = TAKE_PTR(path);
	else if (shfs_mounts_at(mounts, path))
		printf("  it is still recorded: shfs umount %s ends that\n", shown.data);
	return SHFS_EXIT_OK;
}

static int run_disable(struct shfs_context *ctx, int argc, char **argv)
{
	_cleanup_projects_ struct shfs_projects projects = { 0 };
	_cleanup_mounts_ struct shfs_mounts mounts = { 0 };
	_cleanup_free_ char **mounted = calloc((size_t)argc, sizeof(*mounted));
	int r = mounted ? shfs_projects_read(shfs_context_store_path(ctx), &projects)
	                : -ENOMEM;
	int worst = SHFS_EXIT_OK, code = SHFS_EXIT_OK, n = 0;

	if (!r)
		r = shfs_mounts_list(0, NULL, &mounts);
	if (r)
		return fail_projects(r);
	for (int i = 0; i < argc; i++) {
		code = disable_one(ctx, &projects, &mounts, argv[i], &mounted[n]);
		n += mounted[n] != NULL;
		worst = worst ? worst : code;
	}
	/* this process itself may stand in one */
	if (n && !chdir("/"))
		code = run_verb(ctx, "umount", n, (const char *const *)mounted);
	for (int i = 0; i < n; i++)
		free(mounted[i]);
	return worst ? worst : code;
}

const struct shfs_command shfs_cmd_disable = {
	.name = "disable",
	.args = "DIR…",
	.summary = "Mount a directory no more by itself",
	.description = "A mount stays as it is, but with --now. A shell that enters the "
		       "directory says\nnothing of it from now on.",
	.options = {
	{ "now", 0, NULL, "unmount it, too", .flag = &unmounts },
	},
	.operands = { 1, -1 },
	.run = run_disable,
};

/* --- what a shell runs when it enters a project --- */

/* Mounts an enabled project before the prompt; one that takes long, behind it. */
static int mount_at_prompt(struct shfs_context *ctx, const char *dir, const char *shown)
{
	pid_t pid = start_verb(ctx, "mount", 1, &dir, SHFS_CHILD_MESSAGES);
	_cleanup_close_ int pidfd = pid > 0 ? pidfd_open(pid, 0) : -1;
	struct pollfd end = { .fd = pidfd, .events = POLLIN };

	if (pidfd >= 0 && !poll(&end, 1, PROMPT_MS)) {
		shfs_warn(
			"%s is still being mounted: what happens there until then is not "
			"recorded",
			shown);
		return SHFS_EXIT_OK;
	}
	return pid > 0 ? shfs_child_wait(pid) : SHFS_EXIT_FAILURE;
}

static int run_prompt(struct shfs_context *ctx, int argc, char **argv)
{
	_cleanup_projects_ struct shfs_projects projects = { 0 };
	_cleanup_mounts_ struct shfs_mounts mounts = { 0 };
	_cleanup_buf_ struct shfs_buf shown = { 0 };
	const struct shfs_project *project;

	if (shfs_projects_read(shfs_context_store_path(ctx), &projects) ||
	    shfs_mounts_list(0, NULL, &mounts))
		return SHFS_EXIT_FAILURE;
	project = shfs_projects_around(&projects, argv[0]);
	if (!project || shfs_mounts_record(&mounts, project->dir))
		return SHFS_EXIT_OK;
	shfs_show_directory(&shown, project->dir);
	if (project->state == SHFS_PROJECT_ENABLED)
		return mount_at_prompt(ctx, project->dir, shown.data);
	if (project->state == SHFS_PROJECT_KNOWN)
		fprintf(stderr,
		        "shfs: %s is not recorded now: shfs mount %s, or shfs enable for "
		        "always (disable: say no more)\n",
		        shown.data, shown.data);
	return SHFS_EXIT_OK;
}

const struct shfs_command shfs_cmd_prompt = {
	.name = "prompt",
	.args = "DIR",
	.summary = "For the hooks: a shell has entered a project",
	.hidden = true,
	.operands = { 1, 1 },
	.run = run_prompt,
};
