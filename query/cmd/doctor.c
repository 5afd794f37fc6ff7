/* SPDX-License-Identifier: MIT */
/* `shfs doctor`: report what this machine lacks, and how to fix it. */
#include "query/base/child.h"
#include "query/base/context.h"
#include "query/base/hook.h"
#include "query/base/json.h"
#include "query/base/model.h"
#include "query/base/mounts.h"
#include "query/base/namespace.h"
#include "query/base/progress.h"
#include "query/base/projects.h"
#include "query/care/secret.h"
#include "query/history/gap.h"

#include "common/io.h"
#include "common/path.h"
#include "common/proc.h"
#include "common/quote.h"
#include "common/recorders.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pwd.h>
#include <spawn.h>
#include <stdarg.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/wait.h>

#define ROOM_BYTES    (512ULL << 20)
#define SECRETS_SHOWN 5
#define RC_MAX        (4 << 20)

/* The oldest kernel that Debian still supports. */
#define KERNEL_MAJOR 5
#define KERNEL_MINOR 10

/* Below the prefix of a user there is no profile: AppArmor is root's. */
#ifdef SHFS_APPARMOR
#define PROFILE "; for the last, " SHFS_APPARMOR " is a profile"
#else
#define PROFILE ""
#endif

static struct {
	bool json, anonymous;
} opts;

enum level { LEVEL_OK, LEVEL_WARN, LEVEL_FAIL, N_LEVELS };

static const char *const level_names[N_LEVELS] = { "ok", "warn", "fail" };

struct doctor {
	struct shfs_context *ctx;
	const struct shfs_style *style;
	const char *check; /* the current check */
	struct shfs_buf text;
	struct shfs_json json;
	unsigned counts[N_LEVELS];
};

/* Makes a format that leaves its texts out, malloc'ed: the numbers stay. Texts may be
 * names of the user's. */
static char *anonymous_format(const char *fmt)
{
	_cleanup_buf_ struct shfs_buf out = { 0 };

	while (*fmt) {
		size_t len = strcspn(fmt, "%"), spec;

		shfs_buf_add(&out, fmt, len);
		fmt += len;
		spec = *fmt ? 1 + strspn(fmt + 1, "-+ #0123456789.") : 0;
		if (*fmt && fmt[spec] == 's') {
			shfs_buf_str(&out, "…%.0s");
			spec++;
		} else {
			shfs_buf_add(&out, fmt, spec);
		}
		fmt += spec;
		if (spec && *fmt == '%' && fmt[-1] == '%') /* "%%" */
			shfs_buf_char(&out, *fmt++);
	}
	return shfs_buf_take(&out);
}

/* Prints a result. fix: a line that says what to do, or NULL. The caller escapes user
 * bytes. */
static void _printf_(4, 5) report_finding(struct doctor *d, enum level level,
                                          const char *fix, const char *fmt, ...)
{
	const char *color = level == LEVEL_OK ? "" : d->style->bad;
	_cleanup_free_ char *what = NULL, *form = NULL;
	va_list ap;

	if (opts.anonymous) {
		form = anonymous_format(fmt);
		fmt = form;
		fix = NULL;
	}
	va_start(ap, fmt);
	if (!fmt || vasprintf(&what, fmt, ap) < 0)
		what = NULL;
	va_end(ap);
	d->counts[level]++;
	if (!what) {
		d->text.failed = d->json.out.failed = true;
	} else if (opts.json) {
		shfs_json_object(&d->json, NULL);
		shfs_json_str(&d->json, "check", d->check);
		shfs_json_str(&d->json, "level", level_names[level]);
		shfs_json_str(&d->json, "text", what);
		shfs_json_str(&d->json, "fix", fix);
		shfs_json_object_end(&d->json);
	} else {
		shfs_buf_printf(&d->text, "%s%-4s%s  %s%s%s\n", color, level_names[level],
		                *color ? d->style->off : "",
		                opts.anonymous ? d->check : "",
		                opts.anonymous ? ": " : "", what);
		if (fix)
			shfs_buf_printf(&d->text, "      fix: %s\n", fix);
	}
}

/* --- programs --- */

/* The first executable file of that name in PATH, malloc'ed; NULL. */
static char *find_in_path(const char *name)
{
	const char *path = getenv("PATH");

	path = path ? path : "/usr/bin:/bin";
	while (*path) {
		size_t len = strcspn(path, ":");
		_cleanup_free_ char *dir = strndup(path, len);
		_cleanup_free_ char *file =
			dir && *dir ? shfs_path_join(dir, name) : NULL;

		if (file && !access(file, X_OK))
			return TAKE_PTR(file);
		path += len + (path[len] == ':');
	}
	return NULL;
}

/* Runs a shell on a script of ours, without the user's settings; returns its exit status,
 * or -1. With -c, bash reads no files, and with -f zsh only the system's. */
static int run_shell(const char *shell, const char *flag, const char *script,
                     const char *arg)
{
	char *argv[] = { (char *)shell, (char *)flag, (char *)script,
		         (char *)shell, (char *)arg,  NULL };
	posix_spawn_file_actions_t actions;
	int status, r;
	pid_t pid;

	posix_spawn_file_actions_init(&actions);
	for (int fd = 0; fd < 3; fd++)
		posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR, 0);
	r = posix_spawn(&pid, shell, &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	if (r)
		return -1;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* --- the machine --- */

static void check_kernel(struct doctor *d)
{
	unsigned major = 0, minor = 0;
	struct utsname u;

	uname(&u);
	sscanf(u.release, "%u.%u", &major, &minor);
	if (major > KERNEL_MAJOR || (major == KERNEL_MAJOR && minor >= KERNEL_MINOR))
		report_finding(d, LEVEL_OK, NULL, "Linux %s", u.release);
	else
		report_finding(d, LEVEL_WARN, "use a newer kernel",
		               "Linux %s is older than what shfs is tested with (%d.%d)",
		               u.release, KERNEL_MAJOR, KERNEL_MINOR);
}

static void check_device(struct doctor *d)
{
	_cleanup_close_ int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);

	if (fd >= 0)
		report_finding(d, LEVEL_OK, NULL, "/dev/fuse can be opened");
	else if (errno == ENOENT)
		report_finding(
			d, LEVEL_FAIL,
			"as root: modprobe fuse; for a container: --device /dev/fuse",
			"there is no /dev/fuse");
	else if (errno == EACCES)
		report_finding(d, LEVEL_FAIL, "as root: chmod 666 /dev/fuse",
		               "/dev/fuse may not be opened");
	else
		report_finding(d, LEVEL_FAIL, "for a container: --device /dev/fuse",
		               "/dev/fuse cannot be opened: %s", strerror(errno));
}

/* Why the set-id bit of this program has no effect; NULL: it has one. */
static const char *why_not_setuid(const char *program)
{
	struct statvfs fs;
	struct stat st;

	if (stat(program, &st) || !(st.st_mode & S_ISUID) || st.st_uid)
		return "is not set-user-id root";
	if (!statvfs(program, &fs) && fs.f_flag & ST_NOSUID)
		return "is on a file system mounted nosuid";
	if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1)
		return "has no effect: this process may gain no privileges "
		       "(no_new_privs)";
	return NULL;
}

static void check_fusermount(struct doctor *d)
{
	_cleanup_free_ char *program = find_in_path("fusermount3");
	enum level bad = geteuid() ? LEVEL_FAIL : LEVEL_WARN; /* root needs none */
	const char *why;

	if (!program) {
		report_finding(d, bad, "as root: apt install fuse3",
		               "fusermount3 is not in PATH");
		return;
	}
	why = why_not_setuid(program);
	if (why)
		report_finding(d, bad, "as root: apt install --reinstall fuse3", "%s %s",
		               program, why);
	else if (geteuid() && access("/etc/mtab", F_OK))
		report_finding(d, LEVEL_FAIL,
		               "as root: ln -s ../proc/self/mounts /etc/mtab",
		               "without /etc/mtab fusermount3 cannot unmount");
	else
		report_finding(d, LEVEL_OK, NULL, "%s is set-user-id root", program);
}

/* Does the text have this line, not in a comment? */
static bool has_line(const char *text, const char *line)
{
	size_t len = strlen(line);

	while (text) {
		text += strspn(text, " \t\n");
		if (!strncmp(text, line, len) && strchr(" \t\n", text[len]))
			return true;
		text = strchr(text, '\n');
	}
	return false;
}

static void check_allow_other(struct doctor *d)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };

	if (!geteuid() ||
	    (!shfs_read_file_at(AT_FDCWD, "/etc/fuse.conf", RC_MAX, &text) &&
	     has_line(text.data, "user_allow_other")))
		report_finding(d, LEVEL_OK, NULL,
		               "a mount can be opened to others (--allow-other)");
	else
		report_finding(d, LEVEL_WARN,
		               "only if you need that, as root: echo user_allow_other "
		               ">>/etc/fuse.conf",
		               "sudo and other users cannot enter your mounts");
}

/* Warns of a pid namespace: processes outside of it cannot be named from here. */
static void check_namespace(struct doctor *d)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };
	const char *pids;
	unsigned outer, inner;

	if (shfs_read_file_at(AT_FDCWD, "/proc/self/status", RC_MAX, &text)) {
		report_finding(d, LEVEL_FAIL, "mount it: mount -t proc proc /proc",
		               "there is no /proc");
		return;
	}
	pids = strstr(text.data, "\nNSpid:");
	if (pids && sscanf(pids + 7, "%u %u", &outer, &inner) == 2)
		report_finding(d, LEVEL_WARN, NULL,
		               "in a pid namespace: processes outside of it are recorded "
		               "without a name");
}

/* Can a user mount for himself alone? */
static void check_user_namespace(struct doctor *d)
{
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (!pid)
		_exit(-shfs_namespace_enter(0));
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (pid > 0 && WIFEXITED(status) && !WEXITSTATUS(status))
		report_finding(d, LEVEL_OK, NULL,
		               "shfs record and shfs try can make namespaces");
	else /* where a helper runs, its finding says whether that can record instead */
		report_finding(d, LEVEL_WARN,
		               "sysctl user.max_user_namespaces, "
		               "kernel.unprivileged_userns_clone, "
		               "kernel.apparmor_restrict_unprivileged_userns" PROFILE,
		               "shfs record and shfs try cannot make namespaces: %s",
		               pid > 0 && WIFEXITED(status)
		                       ? strerror(WEXITSTATUS(status))
		                       : strerror(errno));
}

static void check_program(struct doctor *d)
{
	_cleanup_free_ char *program = shfs_path_installed("libexec", "shfs-fuse");

#ifdef SHFS_HAVE_MAP
	const char *complete = "shfs " SHFS_VERSION " is complete";
#else
	const char *complete =
		"shfs " SHFS_VERSION
		" is complete, except for shfs map (it was built without npm's packages)";
#endif

	if (program && !access(program, X_OK))
		report_finding(d, LEVEL_OK, NULL, "%s", complete);
	else
		report_finding(d, LEVEL_FAIL, "install shfs as a whole: ./dev install",
		               "shfs-fuse is not installed beside shfs");
}

/* --- the shells --- */

static char *home_file(const char *name)
{
	const char *home = getenv("HOME");
	struct passwd *pw = home ? NULL : getpwuid(getuid());

	return shfs_path_join(home ? home : pw ? pw->pw_dir : "/", name);
}

static char *rc_file(const char *shell)
{
	const char *zdotdir = getenv("ZDOTDIR"), *config = getenv("XDG_CONFIG_HOME");

	if (!strcmp(shell, "bash"))
		return home_file(".bashrc");
	if (!strcmp(shell, "zsh"))
		return zdotdir && *zdotdir ? shfs_path_join(zdotdir, ".zshrc")
		                           : home_file(".zshrc");
	return config && *config ? shfs_path_join(config, "fish/config.fish")
	                         : home_file(".config/fish/config.fish");
}

/* Does a line that is no comment load the hook? */
static bool loads_hook(const char *text)
{
	while (text) {
		size_t len;

		text += strspn(text, " \t\n");
		len = strcspn(text, "\n");
		if (*text != '#' && memmem(text, len, "shfs init", strlen("shfs init")))
			return true;
		text = strchr(text, '\n');
	}
	return false;
}

/* Checks the completion; bash needs another package for it. */
static void check_completion(struct doctor *d, const char *shell)
{
	if (!strcmp(shell, "bash") &&
	    access("/usr/share/bash-completion/bash_completion", R_OK))
		report_finding(
			d, LEVEL_WARN, "as root: apt install bash-completion",
			"bash: TAB does not complete shfs without bash-completion");
}

/* Checks a shell: the user's own must have the hook; for others it is only reported. */
static void check_shell(struct doctor *d, const char *shell)
{
	_cleanup_free_ char *program = find_in_path(shell), *rc = rc_file(shell);
	_cleanup_free_ char *fix = NULL;
	_cleanup_buf_ struct shfs_buf text = { 0 }, shown = { 0 }, quoted = { 0 };

	if (!program || !rc)
		return;
	shfs_show_directory(&shown, rc);
	shfs_quote_shell(&quoted, rc, strlen(rc));
	if (!shfs_read_file_at(AT_FDCWD, rc, RC_MAX, &text) && loads_hook(text.data)) {
		report_finding(d, LEVEL_OK, NULL, "%s: %s loads the hook", shell,
		               shown.data);
		check_completion(d, shell);
	} else if (!strcmp(shell, shfs_hook_shell())) {
		if (asprintf(&fix, "echo '%s' >>%s", shfs_hook_rc_line(shell),
		             quoted.data) < 0)
			fix = NULL;
		report_finding(
			d, LEVEL_WARN, fix,
			"%s: %s does not load the hook, so its commands have no text",
			shell, shown.data);
	}
}

static const struct loadable {
	const char *shell, *file, *flag, *load, *package;
	double ms; /* time that is lost without it */
} loadables[] = {
	{ "bash", "shfs-bash.so", "-c", "enable -f \"$1\" _shfs_hook", "bash-builtins",
	  1 },
	{ "zsh", "shfs_zsh.so", "-fc", "module_path=($1:h); zmodload $1:t:r", "zsh-dev",
	  0.3 },
};

static void check_loadable(struct doctor *d, const struct loadable *l)
{
	_cleanup_free_ char *program = find_in_path(l->shell), *fix = NULL;
	_cleanup_free_ char *lib = shfs_path_installed("lib", l->file);

	if (!program)
		return;
	if (lib && !run_shell(program, l->flag, l->load, lib)) {
		report_finding(d, LEVEL_OK, NULL, "%s loads the compiled hook", l->shell);
		return;
	}
	if (asprintf(&fix, lib ? "build shfs against this %s" : "build it with %s",
	             lib ? l->shell : l->package) < 0)
		fix = NULL;
	report_finding(d, LEVEL_WARN, fix,
	               "%s %s the compiled hook: the prompt is about %g ms slower",
	               l->shell, lib ? "cannot load" : "has not", l->ms);
}

static void check_shells(struct doctor *d)
{
	check_shell(d, "bash");
	check_shell(d, "zsh");
	check_shell(d, "fish");
	for (size_t i = 0; i < ARRAY_SIZE(loadables); i++)
		check_loadable(d, &loadables[i]);
}

/* --- configuration and store --- */

static void diagnose_config(struct doctor *d)
{
	_cleanup_free_ char *path = NULL, *message = NULL;
	_cleanup_buf_ struct shfs_buf shown = { 0 };
	struct shfs_config config;
	int r;

	if (shfs_config_init(&config))
		return;
	path = d->ctx->config_option ? strdup(d->ctx->config_option) : shfs_path_config();
	r = path ? shfs_config_read(&config, path, &message) : -ENOMEM;
	if (message) {
		shfs_quote_display(&shown, message, strlen(message));
		report_finding(d, LEVEL_FAIL, "correct that line", "%s", shown.data);
	} else if (r) {
		report_finding(d, LEVEL_FAIL, NULL,
		               "the configuration cannot be read: %s", strerror(-r));
	} else {
		shfs_show_directory(&shown, path);
		report_finding(d, LEVEL_OK, NULL, "%s %s", shown.data,
		               access(path, F_OK) ? "is not there: the defaults hold"
		                                  : "is in order");
	}
	shfs_config_free(&config);
}

static void check_room(struct doctor *d, const struct shfs_store *store)
{
	_cleanup_buf_ struct shfs_buf room = { 0 };
	struct statvfs fs;
	uint64_t bytes;

	if (fstatvfs(store->dirfd, &fs))
		return;
	bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
	shfs_show_size(&room, bytes);
	if (bytes >= ROOM_BYTES && fs.f_favail)
		report_finding(d, LEVEL_OK, NULL, "%s free for the store", room.data);
	else if (bytes && fs.f_favail)
		report_finding(d, LEVEL_WARN, "make room on that disk",
		               "only %s free for the store", room.data);
	else
		report_finding(d, LEVEL_FAIL, "make room on that disk",
		               "no space left for the store: nothing is recorded");
}

static void check_remote(struct doctor *d, const struct shfs_store *store)
{
	_cleanup_free_ char *runtime = shfs_path_runtime();

	if (!shfs_store_may_hang(store->path))
		return;
	if (runtime)
		report_finding(d, LEVEL_OK, NULL,
		               "it is on a network or FUSE file system; prompts do not "
		               "wait for it");
	else
		report_finding(d, LEVEL_WARN,
		               "set XDG_RUNTIME_DIR to a directory of this machine, 0700",
		               "it is on a network or FUSE file system, and prompts wait "
		               "for it");
}

/* Reports gaps. Returns their number, or a negative errno. */
static int check_gaps(struct doctor *d, struct shfs_index *index)
{
	_cleanup_gaps_ struct shfs_gaps gaps = { 0 };
	_cleanup_buf_ struct shfs_buf shown = { 0 };
	int r = shfs_gaps_load(index, &gaps);

	if (r || !gaps.n)
		return r;
	shfs_gap_show(&shown, &gaps.list[0]);
	if (gaps.n > 1)
		shfs_buf_printf(&shown, " (and %zu times before)", gaps.n - 1);
	report_finding(d, LEVEL_WARN, NULL, "%s; " SHFS_GAP_MEANS,
	               shown.data ? shown.data : "");
	return (int)gaps.n;
}

static void check_journal(struct doctor *d, struct shfs_index *index)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open(index, "SELECT damaged_bytes, lost FROM v_stats", &rows);
	int64_t damaged, lost;
	int gaps = 0;

	if (!r)
		r = shfs_rows_next(rows);
	if (r > 0) {
		gaps = check_gaps(d, index);
		r = gaps < 0 ? gaps : r;
	}
	if (r <= 0) {
		report_finding(d, LEVEL_FAIL, "shfs reindex",
		               "the index cannot be read: %s", shfs_index_error(index));
		return;
	}
	damaged = shfs_rows_int(rows, 0);
	lost = shfs_rows_int(rows, 1);
	if (damaged)
		report_finding(d, LEVEL_WARN, NULL,
		               "%" PRId64
		               " bytes of the journal are damaged and were passed over",
		               damaged);
	if (lost)
		report_finding(d, LEVEL_WARN, NULL,
		               "%" PRId64 " records were lost in the past", lost);
	if (!damaged && !lost && !gaps)
		report_finding(d, LEVEL_OK, NULL,
		               "the journal is sound, the index opens");
}

struct secrets {
	struct doctor *doctor;
	unsigned n;
};

static void say_secret(void *arg, const struct shfs_secret *secret)
{
	struct secrets *s = arg;
	struct doctor *d = s->doctor;
	_cleanup_buf_ struct shfs_buf file = { 0 }, of = { 0 };
	_cleanup_free_ char *fix = NULL;

	if (s->n++ >= SECRETS_SHOWN)
		return;
	if (secret->path)
		shfs_quote_shell(&file, secret->path, strlen(secret->path));
	if (secret->of)
		shfs_quote_shell(&of, secret->of, strlen(secret->of));
	if (secret->path ? asprintf(&fix, "shfs forget --everywhere %s",
	                            (secret->of ? of.data : file.data) ?: "") < 0
	                 : asprintf(&fix, "shfs forget --command %s",
	                            secret->command ?: "") < 0)
		fix = NULL;
	if (secret->of)
		report_finding(d, LEVEL_WARN, fix,
		               "the store has the content of a secret file under another "
		               "name: %s (of %s)",
		               file.data ?: "", of.data ?: "");
	else if (secret->path)
		report_finding(d, LEVEL_WARN, fix,
		               "the store has the content of a secret file: %s",
		               file.data ?: "");
	else if (secret->command)
		report_finding(d, LEVEL_WARN, fix,
		               "the store has what looks like a secret, in command %.7s",
		               secret->command);
	else
		report_finding(
			d, LEVEL_WARN, "shfs forget --no-command, with --grep or --since",
			"the store has what looks like a secret, in the arguments of a "
			"process without a command");
}

static void check_secrets(struct doctor *d, struct shfs_index *index)
{
	struct secrets s = { .doctor = d };
	const struct shfs_config *config;
	int code = 0, r;
	bool shown;

	config = shfs_context_config(d->ctx, &code);
	shown = shfs_progress_begin("looking for secrets");
	r = config ? shfs_secrets_find(index, config, say_secret, &s,
	                               shown ? shfs_progress_bytes : NULL)
	           : -ENOMEM;
	shfs_progress_end();
	if (r)
		report_finding(d, LEVEL_FAIL, NULL, "secrets cannot be looked for: %s",
		               strerror(-r));
	else if (s.n > SECRETS_SHOWN)
		report_finding(d, LEVEL_WARN, NULL,
		               "and from %u more commands, processes or files",
		               s.n - SECRETS_SHOWN);
	else if (!s.n)
		report_finding(d, LEVEL_OK, NULL,
		               "nothing in the store looks like a secret");
}

/* Checks the index without ingesting: other trouble of this machine must not stop the
 * doctor. */
static void check_index(struct doctor *d, struct shfs_store *store)
{
	_cleanup_index_ struct shfs_index *index = NULL;
	int r = shfs_index_open(store, SHFS_INDEX_READ, &index);

	if (!r) {
		check_journal(d, index);
		check_secrets(d, index);
	} else if (r == -ENOENT) {
		report_finding(d, LEVEL_OK, NULL,
		               "there is no index yet; the first query makes it");
	} else if (r == -ESTALE) {
		report_finding(d, LEVEL_OK, NULL,
		               "an older version of shfs made the index; the first query "
		               "makes it anew");
	} else if (r == -EPROTONOSUPPORT) {
		report_finding(d, LEVEL_FAIL, "upgrade shfs, or: shfs reindex",
		               "a newer version of shfs made the index");
	} else if (r == -EBADMSG) {
		report_finding(d, LEVEL_FAIL, "shfs reindex", "the index is damaged");
	} else {
		report_finding(d, LEVEL_FAIL, NULL, "the index cannot be opened: %s",
		               strerror(-r));
	}
}

static void check_store(struct doctor *d)
{
	const char *path = shfs_context_store_path(d->ctx);
	_cleanup_store_ struct shfs_store *store = NULL;
	_cleanup_buf_ struct shfs_buf shown = { 0 };
	int r = shfs_store_open(path, 0, &store);

	shfs_show_directory(&shown, path);
	if (r == -ENOENT) {
		report_finding(d, LEVEL_OK, NULL,
		               "nothing is recorded yet: there is no store yet; shfs "
		               "mount makes %s",
		               shown.data);
		return;
	}
	if (r) {
		report_finding(d, LEVEL_FAIL, NULL, "the store %s cannot be used: %s",
		               shown.data, shfs_store_strerror(r));
		return;
	}
	if (faccessat(store->dirfd, ".", W_OK, AT_EACCESS))
		report_finding(d, LEVEL_FAIL, NULL,
		               "the store %s cannot be written to: %s", shown.data,
		               strerror(errno));
	else
		report_finding(d, LEVEL_OK, NULL, "the store %s is yours alone",
		               shown.data);
	check_remote(d, store);
	check_room(d, store);
	check_index(d, store);
}

/* Enabled projects that are not mounted: where a shell has the hook, it mounts them. */
static void check_enabled(struct doctor *d, const struct shfs_mounts *mounts)
{
	_cleanup_projects_ struct shfs_projects projects = { 0 };
	int r = shfs_projects_read(shfs_context_store_path(d->ctx), &projects);

	if (r)
		report_finding(d, LEVEL_FAIL, NULL,
		               "which projects are enabled cannot be read: %s",
		               strerror(-r));
	for (size_t i = 0; i < projects.n; i++) {
		const char *dir = projects.list[i].dir;
		_cleanup_buf_ struct shfs_buf shown = { 0 };
		_cleanup_free_ char *fix = NULL;
		bool is_gone = access(dir, F_OK) && errno == ENOENT;

		if (projects.list[i].state != SHFS_PROJECT_ENABLED ||
		    shfs_mounts_record(mounts, dir))
			continue;
		shfs_show_directory(&shown, dir);
		if (asprintf(&fix, "shfs %s %s", is_gone ? "disable" : "mount",
		             shown.data) < 0)
			fix = NULL;
		report_finding(d, LEVEL_WARN, fix, "%s is enabled, and %s", shown.data,
		               is_gone ? "does not exist any more"
		                       : "not mounted: nothing is recorded there");
	}
}

static void check_mounts(struct doctor *d)
{
	_cleanup_mounts_ struct shfs_mounts mounts = { 0 };
	int r = shfs_mounts_list(SHFS_MOUNTS_ASK, shfs_context_store_path(d->ctx),
	                         &mounts);

	if (r)
		report_finding(d, LEVEL_FAIL, NULL, "mounts cannot be listed: %s",
		               strerror(-r));
	for (size_t i = 0; i < mounts.n; i++) {
		const struct shfs_mount *m = &mounts.list[i];
		_cleanup_buf_ struct shfs_buf dir = { 0 };
		_cleanup_free_ char *fix = NULL;

		shfs_show_directory(&dir, m->dir);
		if (m->error == -EACCES || m->error == -EXDEV)
			continue;
		if (m->error && asprintf(&fix, "shfs umount %s", dir.data) < 0)
			fix = NULL;
		if (m->error)
			report_finding(d, LEVEL_FAIL, fix, "the mount %s %s", dir.data,
			               m->error == -ENOTCONN ? "is dead"
			                                     : "does not answer");
		else if (m->status.error)
			report_finding(d, LEVEL_FAIL, "see shfs status",
			               "the mount %s records nothing: %s", dir.data,
			               strerror(m->status.error));
		else
			report_finding(d, LEVEL_OK, NULL,
			               "the mount %s works and records", dir.data);
	}
	check_enabled(d, &mounts);
}

/* Says what the helper can be used for; each use but mount needs a driver of its own. */
static void report_helper(struct doctor *d)
{
	_cleanup_free_ char *program = shfs_path_installed("libexec", "shfs-watch");
	const char *const argv[] = { "shfs-watch", "--probe", NULL };
	pid_t pid;

	report_finding(d, LEVEL_OK, NULL,
	               "a helper runs: shfs mount can record without FUSE (--backend)");
	pid = program ? shfs_child_start(program, argv, SHFS_CHILD_NOTHING) : -1;
	if (pid > 0 && !shfs_child_wait(pid))
		report_finding(d, LEVEL_OK, NULL, "shfs record --by helper works");
	else
		report_finding(d, LEVEL_OK, NULL,
		               "shfs record --by helper does not work here: it needs "
		               "the driver bpf-tracepoints (Linux 6.2)");
}

/* Checks the helper; missing it is no fault, as FUSE needs none. */
static void check_helper(struct doctor *d)
{
	const char *path = getenv("SHFS_HELPER");
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	path = path ? path : SHFS_HELPER_SOCKET;
	if (strlen(path) >= sizeof(address.sun_path) || fd < 0)
		return;
	strcpy(address.sun_path, path);
	if (!connect(fd, (struct sockaddr *)&address, sizeof(address)))
		report_helper(d);
	else if (errno == ENOENT)
		report_finding(d, LEVEL_OK, NULL, "mounts use FUSE: no helper runs at %s",
		               path);
	else
		report_finding(d, LEVEL_WARN, "sudo systemctl restart shfs-helper.socket",
		               "the helper at %s cannot be reached: %s", path,
		               strerror(errno));
}

/* --- all of them --- */

static const struct {
	const char *name;
	void (*run)(struct doctor *d);
} checks[] = {
	{ "install", check_program },
	{ "kernel", check_kernel },
	{ "device", check_device },
	{ "fusermount", check_fusermount },
	{ "others", check_allow_other },
	{ "proc", check_namespace },
	{ "namespaces", check_user_namespace },
	{ "shells", check_shells },
	{ "config", diagnose_config },
	{ "store", check_store },
	{ "helper", check_helper },
	{ "mounts", check_mounts },
};

static bool finish_diagnosis(struct doctor *d)
{
	if (opts.json) {
		shfs_json_array_end(&d->json);
		shfs_json_bool(&d->json, "ok", !d->counts[LEVEL_FAIL]);
		return shfs_json_end(&d->json);
	}
	return shfs_show_flush(&d->text);
}

static int run_doctor(struct shfs_context *ctx, int argc, char **argv)
{
	struct doctor d = { .ctx = ctx, .style = shfs_style_of(ctx) };
	bool shown;

	if (opts.json) {
		shfs_json_begin(&d.json, "doctor");
		shfs_json_array(&d.json, "checks");
	}
	for (size_t i = 0; i < ARRAY_SIZE(checks); i++) {
		d.check = checks[i].name;
		checks[i].run(&d);
	}
	shown = finish_diagnosis(&d);
	shfs_buf_free(&d.text);
	shfs_json_free(&d.json);
	if (!shown)
		shfs_error("cannot write the output: %s", strerror(errno));
	return shown && !d.counts[LEVEL_FAIL] ? SHFS_EXIT_OK : SHFS_EXIT_FAILURE;
}

const struct shfs_command shfs_cmd_doctor = {
	.name = "doctor",
	.args = "",
	.summary = "Show what this machine lacks, and how to fix it",
	.description = "The exit code is 1 where a line says \"fail\".",
	.options = {
	{ "json", 0, NULL, "for programs", .flag = &opts.json },
	{ "anonymous", 0, NULL, "leave out names, as for an issue",
	  .flag = &opts.anonymous },
	},
	.run = run_doctor,
};
