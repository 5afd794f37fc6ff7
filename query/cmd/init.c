/* SPDX-License-Identifier: MIT */
/*
 * `shfs init`: print what a shell evaluates to load its hook, with everything that the
 * hook could otherwise find out only by forking.
 */
#include "query/base/cmd.h"
#include "query/base/model.h"
#include "query/base/projects.h"
#include "query/history/shell-history.h"
#include "query/rerun/hook-log.h"

#include "common/clock.h"
#include "common/io.h"
#include "common/path.h"
#include "common/proc.h"
#include "common/quote.h"
#include "common/secrets.h"
#include "store/journal/runtime.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>

#define ALERT_MAX (1 << 20)

enum dialect { POSIX, FISH };

static const struct shell {
	const char *name, *file, *search;
	const char *lib; /* the loadable hook; NULL: there is none */
	enum dialect dialect;
} shells[] = {
	{ "bash", "shfs.bash", "search.bash", "shfs-bash.so", POSIX },
	{ "zsh", "shfs.zsh", "search.zsh", "shfs_zsh.so", POSIX },
	{ "fish", "shfs.fish", "search.fish", NULL, FISH },
};

static bool print_path, imports;
static const char *import_file;    /* NULL: where the shell keeps it */
static struct shfs_buf search_key; /* as a terminal sends it; empty: none */

static const struct shell *shell_by_name(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(shells); i++)
		if (!strcmp(shells[i].name, name))
			return &shells[i];
	return NULL;
}

static void quote_for_dialect(struct shfs_buf *out, enum dialect dialect,
                              const char *value)
{
	if (dialect == POSIX)
		shfs_quote_shell(out, value, strlen(value));
	else
		shfs_quote_fish(out, value, strlen(value));
}

static void assign(struct shfs_buf *out, enum dialect dialect, const char *name,
                   const char *value)
{
	shfs_buf_printf(out, dialect == FISH ? "set -g %s " : "%s=", name);
	quote_for_dialect(out, dialect, value ? value : "");
	shfs_buf_char(out, '\n');
}

/* Assigns what the hook says of its session; recording works without any of it. */
static void assign_session(struct shfs_buf *out, enum dialect dialect)
{
	char host[65], boot[37] = "", number[24] = "0";
	uint64_t pidns = 0;

	shfs_proc_host(host);
	assign(out, dialect, "_shfs_host", host);
	if (shfs_proc_boot_id(boot))
		boot[0] = '\0';
	assign(out, dialect, "_shfs_boot", boot);
	if (!shfs_proc_pid_namespace(&pidns))
		snprintf(number, sizeof(number), "%" PRIu64, pidns);
	assign(out, dialect, "_shfs_pidns", number);
	assign(out, dialect, "_shfs_tty", ttyname(STDIN_FILENO));
}

/* fish cannot read the clock without another program: it adds this number to the boot
 * time. */
static void assign_clock(struct shfs_buf *out)
{
	struct shfs_time now = shfs_time_now();
	int64_t ms = (now.real_ns - (int64_t)now.boot_ns) / 1000000;
	char seconds[32];

	snprintf(seconds, sizeof(seconds), "%" PRId64 ".%03d", ms / 1000,
	         (int)(ms % 1000));
	assign(out, FISH, "_shfs_clock", seconds);
}

/* Copies an alert to the directory where the hook looks, if it does not look into the
 * store. */
static void bring_alert(const char *store, const char *state, const char *name)
{
	_cleanup_buf_ struct shfs_buf path = { 0 }, text = { 0 };

	if (shfs_path_is_below(state, store))
		return;
	shfs_buf_printf(&path, "%s/state/%s", store, name);
	if (path.failed)
		return;
	if (shfs_read_file_at(AT_FDCWD, path.data, ALERT_MAX, &text) || !text.len)
		shfs_runtime_alert(store, name, NULL);
	else
		shfs_runtime_alert(store, name, text.data);
}

/* Adds the beginning of a pattern, in lower case; any: replaces characters that may be
 * special. */
static void add_needle(struct shfs_buf *out, const char *pattern, char any)
{
	_cleanup_free_ char *needle = shfs_redact_needle(pattern);

	if (!needle)
		return;
	if (out->len)
		shfs_buf_char(out, '|');
	for (const char *p = needle; *p; p++) {
		char c = (char)(*p >= 'A' && *p <= 'Z' ? *p + 32 : *p);
		bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
		             strchr("_-=:/ ", c);

		shfs_buf_char(out, plain ? c : any);
	}
}

/* Adds a pattern of which fish replaces the whole match: so it matches only the
 * secret. */
static void add_fish_pattern(struct shfs_buf *out, const char *pattern)
{
	const char *end, *group = shfs_redact_group(pattern, &end);

	if (group) {
		shfs_buf_add(out, pattern, group - pattern);
		shfs_buf_str(out, "\\K");
		shfs_buf_add(out, group, end - group);
		shfs_buf_printf(out, "(?=%s)", end);
	} else {
		shfs_buf_str(out, pattern);
	}
	shfs_buf_char(out, '\n');
}

/* Assigns the patterns. For zsh the needles are a glob, else a regular expression. */
static int assign_secrets(struct shfs_buf *out, const struct shell *shell,
                          const struct shfs_config *config)
{
	char any = strcmp(shell->name, "zsh") ? '.' : '?';
	_cleanup_free_ char *patterns = shfs_secrets_patterns(config), *lines = NULL;
	_cleanup_buf_ struct shfs_buf needles = { 0 }, for_fish = { 0 };
	char *rest = lines = patterns ? strdup(patterns) : NULL;

	if (!rest)
		return -ENOMEM;
	shfs_buf_str(&needles, "");
	shfs_buf_str(&for_fish, "");
	for (char *line; (line = strsep(&rest, "\n"));) {
		if (!*line)
			continue;
		add_needle(&needles, line, any);
		add_fish_pattern(&for_fish, line);
	}
	if (needles.failed || for_fish.failed)
		return -ENOMEM;
	assign(out, shell->dialect, "_shfs_secrets",
	       shell->dialect == FISH ? for_fish.data : patterns);
	assign(out, shell->dialect, "_shfs_needles", needles.data);
	return 0;
}

static int assign_places(struct shfs_buf *out, const struct shell *shell,
                         const char *store)
{
	_cleanup_free_ char *dir = shfs_store_hook_dir(store);
	_cleanup_free_ char *lib =
		shell->lib ? shfs_path_installed("lib", shell->lib) : NULL;
	_cleanup_free_ char *state = shfs_store_hook_state_dir(store);
	_cleanup_buf_ struct shfs_buf alert = { 0 };
	char host[65];

	shfs_proc_host(host);
	shfs_buf_printf(&alert, "%s/alert-%s", state ? state : "", host);
	if (!dir || !state || alert.failed)
		return -ENOMEM;
	/* if this fails, the hook says so, once, and the shell goes on */
	(void)!shfs_mkdir_p_at(AT_FDCWD, dir, 0700);
	/* the hook holds it open, instead of looking it up at each prompt */
	(void)!shfs_mkdir_p_at(AT_FDCWD, state, 0700);
	bring_alert(store, state, strrchr(alert.data, '/') + 1);
	assign(out, shell->dialect, "_shfs_dir", dir);
	assign(out, shell->dialect, "_shfs_alert", alert.data);
	if (shell->lib)
		assign(out, shell->dialect, "_shfs_lib", lib);
	return 0;
}

/* Assigns the directories at whose first prompt the hook runs `shfs prompt`, and how to
 * run it. */
static int assign_projects(struct shfs_buf *out, const struct shell *shell,
                           const char *store)
{
	_cleanup_projects_ struct shfs_projects projects = { 0 };
	_cleanup_buf_ struct shfs_buf dirs = { 0 };
	char program[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);

	/* without the file there is nothing to say */
	(void)!shfs_projects_read(store, &projects);
	shfs_buf_str(&dirs, "");
	for (size_t i = 0; i < projects.n; i++)
		if (projects.list[i].state != SHFS_PROJECT_QUIET)
			shfs_buf_printf(&dirs, "%s%s", dirs.len ? "\n" : "",
			                projects.list[i].dir);
	if (dirs.failed || n < 0)
		return -ENOMEM;
	program[n] = '\0';
	assign(out, shell->dialect, "_shfs_program", program);
	assign(out, shell->dialect, "_shfs_store", store);
	assign(out, shell->dialect, "_shfs_projects", dirs.data);
	return 0;
}

/* Does the store belong to another user? su and sudo may keep $HOME. */
static bool is_foreign(const char *store)
{
	struct stat st;

	return !stat(store, &st) && st.st_uid != geteuid();
}

static void add_source_line(struct shfs_buf *out, const struct shell *shell,
                            const char *file)
{
	shfs_buf_str(out, "source ");
	quote_for_dialect(out, shell->dialect, file);
	shfs_buf_char(out, '\n');
}

static char *find_installed(const char *name)
{
	char *file = shfs_path_installed("libexec", name);

	if (!file)
		shfs_error("%s is not installed with this program", name);
	return file;
}

/* Adds the key for shfs search, which is independent of the hook. */
static int add_search(struct shfs_buf *out, const struct shell *shell)
{
	_cleanup_free_ char *file = NULL;

	if (!search_key.len)
		return SHFS_EXIT_OK;
	file = find_installed(shell->search);
	if (!file)
		return SHFS_EXIT_FAILURE;
	assign(out, shell->dialect, "_shfs_search_key", search_key.data);
	add_source_line(out, shell, file);
	return SHFS_EXIT_OK;
}

static int print_code(const struct shell *shell, const char *store, const char *file,
                      const struct shfs_config *config)
{
	_cleanup_buf_ struct shfs_buf out = { 0 };

	if (assign_places(&out, shell, store) || assign_secrets(&out, shell, config) ||
	    assign_projects(&out, shell, store))
		return SHFS_EXIT_FAILURE;
	assign_session(&out, shell->dialect);
	assign(&out, shell->dialect, "_shfs_origin", config->origin ? "1" : "");
	if (shell->dialect == FISH)
		assign_clock(&out);
	add_source_line(&out, shell, file);
	if (add_search(&out, shell) || out.failed)
		return SHFS_EXIT_FAILURE;
	if (fwrite(out.data, 1, out.len, stdout) == out.len)
		return SHFS_EXIT_OK;
	shfs_error("cannot write the output: %s", strerror(errno));
	return SHFS_EXIT_FAILURE;
}

/* Adds a key, "ctrl-r" or "alt-s": one byte or two; and letters and digits after it. */
static bool add_key(const char *name, size_t len)
{
	char c = len ? name[len - 1] : '\0';
	bool letter = c >= 'a' && c <= 'z', digit = c >= '0' && c <= '9';

	if (len == 6 && !strncmp(name, "ctrl-", 5) && letter)
		shfs_buf_char(&search_key, (char)(c & 0x1f));
	else if (len == 5 && !strncmp(name, "alt-", 4) && (letter || digit))
		shfs_buf_printf(&search_key, "\033%c", c);
	else if (len == 1 && search_key.len && (letter || digit))
		shfs_buf_char(&search_key, c);
	else
		return false;
	return true;
}

static int set_search_key(const struct shfs_option *opt, const char *value)
{
	const char *name = value;
	size_t len;

	search_key.len = 0;
	do {
		name += strspn(name, " ");
		len = strcspn(name, " ");
		if (!add_key(name, len)) {
			shfs_bad_value(opt, value, "a key");
			shfs_hint("ctrl-r, alt-s, \"ctrl-x s\"");
			return SHFS_EXIT_USAGE;
		}
		name += len;
	} while (name[strspn(name, " ")]);
	return 0;
}

/* --- the history from before --- */

static int import_one(struct shfs_context *ctx, const char *shell, const char *path,
                      struct shfs_redactor *redactor)
{
	_cleanup_shell_history_ struct shfs_shell_history history = { 0 };
	_cleanup_buf_ struct shfs_buf out = { 0 };
	struct stat st;
	int r = stat(path, &st) ? -errno : shfs_shell_history_read(shell, path, &history);

	shfs_show_path(&out, path);
	if (!r && history.n)
		r = shfs_hook_log_import(shfs_context_store_path(ctx), shell, path,
		                         &history, st.st_mtim.tv_sec, redactor);
	if (r && r != -EEXIST) {
		shfs_error("cannot import %s: %s", out.data ? out.data : shell,
		           strerror(-r));
		return SHFS_EXIT_FAILURE;
	}
	if (r)
		shfs_buf_str(&out, " was imported before\n");
	else if (!history.n)
		shfs_buf_str(&out, " has no commands\n");
	else
		shfs_buf_printf(&out, ": %zu command%s are in the history now\n",
		                history.n, shfs_plural(history.n));
	return shfs_show_flush(&out) ? 0 : SHFS_EXIT_FAILURE;
}

static int import_histories(struct shfs_context *ctx, const struct shell *only)
{
	struct shfs_redactor *redactor = NULL;
	const struct shfs_config *config;
	int code, worst = 0, n = 0;

	config = shfs_context_config(ctx, &code);
	if (!config || !shfs_context_store(ctx, true, &code))
		return code;
	if (shfs_secrets_redactor(config, &redactor)) {
		shfs_no_memory();
		return SHFS_EXIT_FAILURE;
	}
	for (size_t i = 0; i < ARRAY_SIZE(shells); i++) {
		_cleanup_free_ char *path = NULL;

		if (only && only != &shells[i])
			continue;
		path = import_file ? shfs_path_absolute(import_file)
		                   : shfs_shell_history_path(shells[i].name);
		if (!path)
			continue;
		n++;
		code = import_one(ctx, shells[i].name, path, redactor);
		worst = worst ? worst : code;
	}
	shfs_redactor_free(redactor);
	if (n)
		return worst;
	shfs_error("no history of a shell is found");
	shfs_hint("shfs init --import=FILE bash");
	return SHFS_EXIT_NOT_FOUND;
}

static int run_init(struct shfs_context *ctx, int argc, char **argv)
{
	const struct shell *shell = argc ? shell_by_name(argv[0]) : NULL;
	const char *store = shfs_context_store_path(ctx);
	const struct shfs_config *config;
	_cleanup_free_ char *file = NULL;
	int code;

	if (imports && (shell || !argc))
		return import_histories(ctx, shell);
	if (!shell) {
		shfs_error("shfs init supports bash, zsh and fish");
		return SHFS_EXIT_USAGE;
	}
	file = find_installed(shell->file);
	if (!file)
		return SHFS_EXIT_FAILURE;
	if (print_path) {
		puts(file);
		return SHFS_EXIT_OK;
	}
	if (is_foreign(store)) {
		shfs_error("the commands of this shell are not recorded: the store %s "
		           "belongs to another user",
		           store);
		return SHFS_EXIT_NO_STORE;
	}
	config = shfs_context_config(ctx, &code);
	if (config)
		code = print_code(shell, store, file, config);
	shfs_buf_free(&search_key);
	return code;
}

static int set_init_option(const struct shfs_option *opt, const char *value)
{
	if (!strcmp(opt->name, "search-key"))
		return set_search_key(opt, value);
	imports = true;
	import_file = value;
	return 0;
}

static int check_init(struct shfs_context *ctx, int argc)
{
	if (argc || (imports && !import_file))
		return 0;
	shfs_error(imports ? "--import=FILE wants the shell that wrote it"
	                   : "shfs init wants a shell");
	shfs_hint("shfs init%s bash, zsh or fish", imports ? " --import=FILE" : "");
	return SHFS_EXIT_USAGE;
}

const struct shfs_command shfs_cmd_init = {
	.name = "init",
	.args = "SHELL",
	.summary = "Print the code that loads the hook of a shell",
	.description = "In ~/.bashrc, likewise in ~/.zshrc:\n"
		       "command -v shfs >/dev/null && eval \"$(shfs init bash)\"\n"
		       "In config.fish: type -q shfs; and shfs init fish | source",
	.options = {
	{ "search-key", 0, "KEY",
	  "bind this key to shfs search: ctrl-r, alt-s, \"ctrl-x s\"" },
	{ "print-path", 0, NULL, "print the path of the hook's code instead",
	  .flag = &print_path },
	{ "import", 0, "[=FILE]",
	  "take what the shell (or all) has kept of earlier commands into the history" },
	},
	.operands = { 0, 1 },
	.option = set_init_option,
	.check = check_init,
	.run = run_init,
};
