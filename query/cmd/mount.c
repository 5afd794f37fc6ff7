/* SPDX-License-Identifier: MIT */
/* `shfs mount`: record what happens in a directory, or list the mounts. */
#include "query/base/context.h"
#include "query/base/hook.h"
#include "query/base/model.h"
#include "query/base/mounts.h"
#include "query/base/projects.h"
#include "query/base/time.h"
#include "query/care/detach.h"

#include "common/path.h"
#include "common/recorders.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/wait.h>

/* The values of --backend: "fuse" and "auto", and the drivers of shfs-watch. */
static const char *const backends[] = {
	"auto", "fuse", "module", "bpf", "bpf-tracepoints", "fanotify"
};

static struct {
	bool foreground, allow_other, enabled;
	const char *backend;
} opts = { .backend = "auto" };

static bool is_auto(void)
{
	return !strcmp(opts.backend, "auto");
}

static bool is_recorder(void)
{
	return !is_auto() && strcmp(opts.backend, "fuse") != 0;
}

static int set_backend(const struct shfs_option *opt, const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(backends); i++) {
		if (!strcmp(backends[i], name)) {
			opts.backend = backends[i];
			return 0;
		}
	}
	shfs_error("--backend is auto, fuse, module, bpf, bpf-tracepoints or fanotify");
	return SHFS_EXIT_USAGE;
}

/* --- without DIR: what is mounted --- */

static void show_listed_mount(struct shfs_buf *out, const struct shfs_mount *m)
{
	shfs_show_directory(out, m->dir);
	if (m->error == -EXDEV) {
		shfs_buf_str(out, "  records into another store\n");
	} else if (m->error == -ENOTCONN) {
		shfs_buf_str(out, "  dead: shfs umount removes it\n");
	} else if (m->error) {
		shfs_buf_printf(out, "  does not answer: %s\n", strerror(-m->error));
	} else {
		shfs_buf_printf(out, "  %s, since ",
		                m->status.backend ? m->status.backend : "fuse");
		shfs_time_show(out, m->status.since_ns);
		shfs_buf_char(out, '\n');
	}
}

static int show_mount_list(struct shfs_context *ctx)
{
	_cleanup_mounts_ struct shfs_mounts mounts = { 0 };
	_cleanup_buf_ struct shfs_buf out = { 0 };
	int r = shfs_mounts_list(SHFS_MOUNTS_ASK, shfs_context_store_path(ctx), &mounts);

	if (r) {
		shfs_error("cannot look for mounts: %s", strerror(-r));
		return SHFS_EXIT_FAILURE;
	}
	for (size_t i = 0; i < mounts.n; i++)
		if (mounts.list[i].owner == geteuid())
			show_listed_mount(&out, &mounts.list[i]);
	if (!out.len)
		shfs_buf_str(&out, "nothing is mounted; shfs mount DIR begins\n");
	return shfs_show_flush(&out) ? SHFS_EXIT_OK : SHFS_EXIT_FAILURE;
}

/* --- the background ingest --- */

/* In a child: becomes `shfs ingest --follow`, independent of this session. It finds out
 * itself whether another one serves this store. */
static void become_follower(const char *store, const char *config)
{
	int null = open("/dev/null", O_RDWR);
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	setsid();
	if (null < 0 || n < 0 || chdir("/") || fork())
		_exit(0);
	self[n] = '\0';
	for (int fd = 0; fd < 3; fd++)
		dup2(null, fd);
	close_range(3, ~0U, 0);
	execl(self, "shfs", "ingest", "--follow", "--store", store,
	      config ? "--config" : NULL, config, NULL);
	_exit(1);
}

static void start_follower(struct shfs_context *ctx)
{
	const char *store = shfs_context_store_path(ctx);
	_cleanup_free_ char *config =
		ctx->config_option ? realpath(ctx->config_option, NULL) : NULL;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (!pid)
		become_follower(store, config);
	if (pid < 0)
		shfs_warn("no background ingest, so queries do it: %s", strerror(errno));
	while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

/* --- mounting --- */

/* The programs that record; on failure each prints one line, and exits with an exit code
 * of shfs. */
static const char fuse[] = "shfs-fuse", watch[] = "shfs-watch";

static void fill_argv(struct shfs_context *ctx, const char *program, char *dir,
                      char *argv[static 12])
{
	int n = 0;

	argv[n++] = (char *)program;
	if (program == watch) {
		argv[n++] = (char *)"--driver";
		argv[n++] = (char *)opts.backend;
	}
	argv[n++] = (char *)"--store";
	argv[n++] = (char *)shfs_context_store_path(ctx);
	if (ctx->config_option) {
		argv[n++] = (char *)"--config";
		argv[n++] = (char *)ctx->config_option;
	}
	if (opts.allow_other)
		argv[n++] = (char *)"--allow-other";
	if (opts.foreground)
		argv[n++] = (char *)"--foreground";
	argv[n++] = (char *)"--";
	argv[n++] = dir;
	argv[n] = NULL;
}

static int await_daemon_exit(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return SHFS_EXIT_FAILURE;
	if (WIFEXITED(status))
		return WEXITSTATUS(status);
	shfs_error("the mount process was ended by signal %d (%s)", WTERMSIG(status),
	           strsignal(WTERMSIG(status)));
	shfs_hint("its log is in the folder log of the store: shfs status");
	return SHFS_EXIT_FAILURE;
}

/* Replaces this process by the daemon. */
static int become_daemon(struct shfs_context *ctx, const char *program, char *dir)
{
	_cleanup_free_ char *path = shfs_path_installed("libexec", program);
	char *argv[12];

	if (!path) {
		shfs_error("%s is missing; install shfs as a whole", program);
		return SHFS_EXIT_UNAVAILABLE;
	}
	fill_argv(ctx, program, dir, argv);
	execv(path, argv);
	shfs_error("cannot run %s: %s", path, strerror(errno));
	return SHFS_EXIT_UNAVAILABLE;
}

static int run_daemon(struct shfs_context *ctx, const char *program, char *dir)
{
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid < 0) {
		shfs_error("cannot start a process: %s", strerror(errno));
		return SHFS_EXIT_FAILURE;
	}
	if (!pid)
		_exit(become_daemon(ctx, program, dir));
	return await_daemon_exit(pid);
}

/* Chooses *program, which records. auto: the one that uses the helper, if that works. */
static int start_daemon(struct shfs_context *ctx, char *dir, const char **program)
{
	int code;

	*program = is_recorder() || (is_auto() && shfs_recorders_have_helper()) ? watch
	                                                                        : fuse;
	code = run_daemon(ctx, *program, dir);
	if (code != SHFS_EXIT_UNAVAILABLE || !is_auto() || *program == fuse)
		return code;
	*program = fuse;
	return run_daemon(ctx, fuse, dir);
}

/* The mount at this path, not asked yet; NULL: there is none. *mounts, which the caller
 * clears, holds it. */
static struct shfs_mount *find_mount(const char *path, struct shfs_mounts *mounts)
{
	const struct shfs_mount *found = path && !shfs_mounts_list(0, NULL, mounts)
	                                         ? shfs_mounts_at(mounts, path)
	                                         : NULL;

	return found ? &mounts->list[found - mounts->list] : NULL;
}

static void print_backend(const char *dir)
{
	_cleanup_mounts_ struct shfs_mounts mounts = { 0 };
	_cleanup_free_ char *path = realpath(dir, NULL);
	struct shfs_mount *mount = find_mount(path, &mounts);

	if (mount)
		shfs_mount_ask(mount);
	fputs(mount && mount->status.backend ? mount->status.backend : "fuse", stdout);
}

/* --- existing mounts --- */

/* Names the mounts on a dead mount: no path leads to them, so they go with it. */
static void say_what_goes(const struct shfs_mount *dead)
{
	_cleanup_mounts_ struct shfs_mounts all = { 0 };

	if (shfs_mounts_list(SHFS_MOUNTS_ALL, NULL, &all))
		return;
	for (size_t i = 0; i < all.n; i++) {
		_cleanup_buf_ struct shfs_buf inner = { 0 };

		if (all.list[i].parent_id != dead->mount_id)
			continue;
		shfs_show_directory(&inner, all.list[i].dir);
		shfs_warn("%s, which is mounted inside it, is unmounted, too",
		          inner.data);
	}
}

/* Removes a dead mount of this user that its guardian left, to make room for the new
 * one. */
static int clear_dead(const char *path, const char *shown)
{
	_cleanup_mounts_ struct shfs_mounts mounts = { 0 };
	_cleanup_buf_ struct shfs_buf said = { 0 };
	struct shfs_mount *mount = find_mount(path, &mounts);
	int r;

	if (!mount || shfs_mount_is_recorder(mount))
		return SHFS_EXIT_OK;
	shfs_mount_ask(mount);
	if (mount->error != -ENOTCONN || shfs_mount_goes(mount))
		return SHFS_EXIT_OK;
	say_what_goes(mount);
	r = shfs_detach(path, true, &said);
	if (r)
		return shfs_fail_detach(shown, r, &said);
	printf("%s was dead: it is mounted anew\n"
	       "  programs that have files open in the dead mount have to open them "
	       "again\n",
	       shown);
	return SHFS_EXIT_OK;
}

static bool is_home(const char *path)
{
	const char *home = getenv("HOME");
	_cleanup_free_ char *real = home && *home ? realpath(home, NULL) : NULL;

	return real && !strcmp(real, path);
}

static void warn_of_mounts(const char *path, const char *shown)
{
	_cleanup_mounts_ struct shfs_mounts mounts = { 0 };

	if (shfs_mounts_list(0, NULL, &mounts))
		return;
	for (size_t i = 0; i < mounts.n; i++) {
		const struct shfs_mount *m = &mounts.list[i];
		_cleanup_buf_ struct shfs_buf inner = { 0 };

		if (!strcmp(m->dir, path) || !shfs_path_is_below(m->dir, path))
			continue;
		shfs_show_directory(&inner, m->dir);
		shfs_warn("%s is mounted already, inside %s: both record what happens "
		          "there, and %s has to be unmounted first",
		          inner.data, shown, shown);
	}
}

static bool holds_store(struct shfs_context *ctx, const char *path)
{
	const char *store = shfs_context_store_path(ctx);
	_cleanup_free_ char *real = store ? realpath(store, NULL) : NULL;

	/* a store that does not exist yet may be one that cannot be made */
	return real && shfs_path_is_below(real, path) && strcmp(real, path) != 0;
}

/* Warns of conditions that the user may have overlooked, but mounts all the same. Returns
 * an exit code. */
static int warn_before_mount(struct shfs_context *ctx, const char *dir)
{
	_cleanup_free_ char *path = shfs_path_absolute(dir), *real = NULL;
	_cleanup_buf_ struct shfs_buf shown = { 0 };
	int code = SHFS_EXIT_OK;

	shfs_show_directory(&shown, path ? path : dir);
	if (path)
		code = clear_dead(path, shown.data);
	real = code ? NULL : realpath(dir, NULL);
	if (!real || !strcmp(real, "/")) /* which is refused */
		return code;
	if (is_home(real))
		shfs_warn(
			"%s is the home directory: everything that any program does "
			"there is recorded, caches and mail, too; better mount a project",
			shown.data);
	warn_of_mounts(real, shown.data);
	if (holds_store(ctx, real) && !is_recorder())
		shfs_warn("the store is inside %s: prune, gc and forget refuse to work "
		          "as long as that is mounted",
		          shown.data);
	return code;
}

/* Is the directory recorded into this store by a mount of the user's that answers? */
static bool is_mounted_already(struct shfs_context *ctx, const char *dir)
{
	_cleanup_mounts_ struct shfs_mounts mounts = { 0 };
	_cleanup_free_ char *path = realpath(dir, NULL);
	struct shfs_mount *mount = find_mount(path, &mounts);

	if (!mount || mount->owner != geteuid())
		return false;
	shfs_mount_ask(mount);
	return shfs_mount_is_of_store(mount, shfs_context_store_path(ctx));
}

/* So that a shell which enters it while it is not mounted can say so. */
static void note_project(struct shfs_context *ctx, const char *dir)
{
	_cleanup_free_ char *real = realpath(dir, NULL);
	int r = real ? shfs_projects_note(shfs_context_store_path(ctx), real) : -EINVAL;

	if (r && r != -EINVAL)
		shfs_warn("cannot note that it was mounted: %s", strerror(-r));
}

static int mount_one(struct shfs_context *ctx, char *dir, const char **program)
{
	_cleanup_buf_ struct shfs_buf shown = { 0 };
	_cleanup_free_ char *path = shfs_path_absolute(dir);
	const char *what = " is mounted already: every file is recorded (";
	int code = SHFS_EXIT_OK;

	if (!is_mounted_already(ctx, dir)) {
		code = warn_before_mount(ctx, dir);
		if (!code)
			code = start_daemon(ctx, dir, program);
		/* another process may have been faster */
		if (code == SHFS_EXIT_REFUSED && is_mounted_already(ctx, dir))
			code = SHFS_EXIT_OK;
		what = *program == watch ? " is watched: every file is now recorded ("
		                         : " is mounted: every file is now recorded (";
	}
	if (code)
		return code;
	note_project(ctx, dir);
	shfs_show_directory(&shown, path ? path : dir);
	printf("%s%s", shown.data, what);
	print_backend(dir);
	puts(")");
	return SHFS_EXIT_OK;
}

/* Warns if the working directory of the shell is still below the mount. */
static void explain_place(int n, char **dirs)
{
	_cleanup_free_ char *here = shfs_path_absolute(".");

	for (int i = 0; i < n && here; i++) {
		_cleanup_free_ char *path = shfs_path_absolute(dirs[i]);

		if (path && shfs_path_is_below(here, path)) {
			puts("  this shell stands in it from before: cd . takes it into "
			     "the mount");
			return;
		}
	}
}

/* Explains, once for all directories, what to do next. */
static void explain_next_steps(struct shfs_context *ctx, const char *program, int n,
                               char **dirs)
{
	const char *shell = shfs_hook_shell();

	puts(program == watch
	             ? "  without FUSE nothing waits for shfs; man shfs-mount says what "
	               "is weaker then"
	             : "  fuse: needs no privilege, and nothing inside the directory "
	               "can bypass it");
	if (shfs_hook_of_ancestor(shfs_context_store_path(ctx)))
		return;
	if (program == fuse)
		explain_place(n, dirs);
	puts("  this shell has no hook: what it runs is recorded without command text");
	printf("  hint: %s\n", shfs_hook_line(shell));
}

/* Mounts what is enabled and not recorded, as at login; says nothing of the rest. */
static int mount_enabled(struct shfs_context *ctx)
{
	_cleanup_projects_ struct shfs_projects projects = { 0 };
	_cleanup_mounts_ struct shfs_mounts mounts = { 0 };
	int worst = SHFS_EXIT_OK, n_mounted = 0;
	const char *program = fuse;
	int r = shfs_projects_read(shfs_context_store_path(ctx), &projects);

	if (!r)
		r = shfs_mounts_list(0, NULL, &mounts);
	if (r) {
		shfs_error("cannot read which projects are enabled: %s", strerror(-r));
		return SHFS_EXIT_FAILURE;
	}
	for (size_t i = 0; i < projects.n; i++) {
		int code;

		if (projects.list[i].state != SHFS_PROJECT_ENABLED ||
		    shfs_mounts_record(&mounts, projects.list[i].dir))
			continue;
		code = mount_one(ctx, projects.list[i].dir, &program);
		n_mounted += !code;
		worst = worst ? worst : code;
	}
	if (n_mounted)
		start_follower(ctx);
	return worst;
}

static int run_mount_command(struct shfs_context *ctx, int argc, char **argv)
{
	int worst = SHFS_EXIT_OK, n_mounted = 0;
	const char *program = fuse;

	if (opts.enabled && (argc || opts.foreground)) {
		shfs_error("--enabled takes no directories, and not --foreground");
		return SHFS_EXIT_USAGE;
	}
	if (opts.enabled)
		return mount_enabled(ctx);
	if (!argc)
		return show_mount_list(ctx);
	if (opts.foreground && argc > 1) {
		shfs_error("--foreground takes one directory");
		return SHFS_EXIT_USAGE;
	}
	if (is_recorder() && opts.allow_other) {
		shfs_error("--allow-other is for mounts with FUSE: without it, others "
		           "can enter the directory as before");
		return SHFS_EXIT_USAGE;
	}
	if (opts.foreground) {
		int code = warn_before_mount(ctx, argv[0]);

		if (code)
			return code;
		start_follower(ctx);
		fflush(NULL);
		return become_daemon(ctx, is_recorder() ? watch : fuse, argv[0]);
	}
	for (int i = 0; i < argc; i++) {
		int code = mount_one(ctx, argv[i], &program);

		n_mounted += !code;
		worst = worst ? worst : code;
	}
	if (n_mounted) {
		start_follower(ctx);
		explain_next_steps(ctx, program, argc, argv);
	}
	return worst;
}

const struct shfs_command shfs_cmd_mount = {
	.name = "mount",
	.args = "[DIR…]",
	.summary = "Record what happens in a directory, or list what is mounted",
	.description =
		"The directory is mounted over itself: its files stay where they are, "
		"and\n"
		"every use of them is recorded in the store until shfs umount DIR.",
	.options = {
	{ "backend", 0, "NAME",
	  "auto (the best that this machine offers), fuse, module, bpf or fanotify" },
	{ "allow-other", 0, NULL, "let other users and root enter the mount",
	  .flag = &opts.allow_other },
	{ "foreground", 'f', NULL, "stay in the foreground, and end with the mount",
	  .flag = &opts.foreground },
	{ "enabled", 0, NULL, "all that is enabled and not mounted: shfs help enable",
	  .flag = &opts.enabled },
	},
	.operands = { 0, -1 },
	.option = set_backend,
	.run = run_mount_command,
};
