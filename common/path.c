/* SPDX-License-Identifier: MIT */
#include "common/path.h"

#include "common/buf.h"

#include <errno.h>
#include <limits.h>
#include <pwd.h>
#include <string.h>
#include <sys/stat.h>

static const char *home_dir(void)
{
	const char *home = getenv("HOME");
	struct passwd *pw;

	if (home && home[0] == '/')
		return home;
	pw = getpwuid(getuid());
	return pw ? pw->pw_dir : "/";
}

static size_t tree_around(const char *path, const char *const *trees, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (shfs_path_is_below(path, trees[i]))
			return strlen(trees[i]);
	return 0;
}

static size_t system_tree(const char *path)
{
	static const char *const trees[] = { "/dev",        "/proc",        "/sys",
		                             "/bin",        "/sbin",        "/lib",
		                             "/lib32",      "/lib64",       "/libx32",
		                             "/usr/bin",    "/usr/lib",     "/usr/lib32",
		                             "/usr/lib64",  "/usr/libexec", "/usr/sbin",
		                             "/usr/include" };

	return tree_around(path, trees, ARRAY_SIZE(trees));
}

bool shfs_path_is_system(const char *path)
{
	return system_tree(path) > 0;
}

size_t shfs_path_setting(const char *path)
{
	size_t len = system_tree(path);
	static const char *const trees[] = {
		"/etc/alternatives",
		"/etc/gai.conf",
		"/etc/group",
		"/etc/host.conf",
		"/etc/hosts",
		"/etc/inputrc",
		"/etc/ld.so.cache",
		"/etc/ld.so.preload",
		"/etc/locale.alias",
		"/etc/localtime",
		"/etc/mtab",
		"/etc/nsswitch.conf",
		"/etc/passwd",
		"/etc/protocols",
		"/etc/resolv.conf",
		"/etc/services",
		"/etc/ssl",
		"/etc/terminfo",
		"/usr/share/i18n",
		"/usr/share/locale",
		"/usr/share/mime",
		"/usr/share/terminfo",
		"/usr/share/zoneinfo",
		"/usr/share/zoneinfo-icu",
		"/var/cache/ldconfig",
	};

	return len ? len : tree_around(path, trees, ARRAY_SIZE(trees));
}

char *shfs_path_join(const char *dir, const char *name)
{
	struct shfs_buf b = { 0 };
	size_t len = strlen(dir);

	if (name[0] != '/') {
		while (len > 1 && dir[len - 1] == '/')
			len--;
		shfs_buf_add(&b, dir, len);
		if (!len || dir[len - 1] != '/')
			shfs_buf_char(&b, '/');
	}
	shfs_buf_str(&b, name);
	return shfs_buf_take(&b);
}

/* Returns $variable/shfs, or ~/fallback/shfs, by the XDG base directory rules (relative
 * values are ignored). */
static char *xdg_dir(const char *variable, const char *fallback)
{
	const char *value = getenv(variable);
	_cleanup_free_ char *base = NULL;

	if (value && value[0] == '/')
		return shfs_path_join(value, "shfs");
	base = shfs_path_join(home_dir(), fallback);
	return base ? shfs_path_join(base, "shfs") : NULL;
}

char *shfs_path_store(const char *override)
{
	if (!override)
		override = getenv("SHFS_STORE");
	if (override && *override)
		return shfs_path_absolute(override);
	return xdg_dir("XDG_DATA_HOME", ".local/share");
}

char *shfs_path_config(void)
{
	_cleanup_free_ char *dir = xdg_dir("XDG_CONFIG_HOME", ".config");

	return dir ? shfs_path_join(dir, "config.ini") : NULL;
}

char *shfs_path_cache(void)
{
	return xdg_dir("XDG_CACHE_HOME", ".cache");
}

static bool is_private(const char *dir)
{
	struct stat st;

	return !stat(dir, &st) && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
	       !(st.st_mode & 022);
}

char *shfs_path_runtime(void)
{
	const char *value = getenv("XDG_RUNTIME_DIR");
	char usual[40];

	if (value && value[0] == '/' && is_private(value))
		return shfs_path_join(value, "shfs");
	snprintf(usual, sizeof(usual), "/run/user/%u", (unsigned)geteuid());
	return is_private(usual) ? shfs_path_join(usual, "shfs") : NULL;
}

/* Returns the working directory as the user sees it: $PWD if that is the same directory.
 */
static char *working_dir(void)
{
	const char *pwd = getenv("PWD");
	struct stat a, b;

	if (pwd && pwd[0] == '/' && !stat(pwd, &a) && !stat(".", &b) &&
	    a.st_ino == b.st_ino && a.st_dev == b.st_dev)
		return strdup(pwd);
	return getcwd(NULL, 0);
}

char *shfs_path_absolute(const char *path)
{
	_cleanup_free_ char *cwd = NULL;
	_cleanup_free_ char *full = NULL;
	struct shfs_buf out = { 0 };

	if (path[0] != '/') {
		cwd = working_dir();
		if (!cwd)
			return NULL;
	}
	full = shfs_path_join(cwd ? cwd : "/", path);
	if (!full)
		return NULL;
	for (const char *p = full; *p;) {
		size_t len;

		p += strspn(p, "/");
		len = strcspn(p, "/");
		if (len == 2 && !memcmp(p, "..", 2)) {
			while (out.len && out.data[--out.len] != '/')
				;
		} else if (len && !(len == 1 && *p == '.')) {
			shfs_buf_char(&out, '/');
			shfs_buf_add(&out, p, len);
		}
		p += len;
	}
	if (!out.len)
		shfs_buf_char(&out, '/');
	return shfs_buf_take(&out);
}

bool shfs_path_is_below(const char *path, const char *dir)
{
	return shfs_path_relative(path, dir) != NULL;
}

const char *shfs_path_relative(const char *path, const char *dir)
{
	size_t len = strlen(dir);

	while (len && dir[len - 1] == '/')
		len--;
	if (strncmp(path, dir, len))
		return NULL;
	if (!path[len])
		return path + len;
	return path[len] == '/' ? path + len + 1 : NULL;
}

/* Where a kind of file lies, relative to the directory of the program: if installed, then
 * if only built. */
static const struct {
	const char *kind, *beside[6], *configured;
} places[] = {
	{ "libexec",
	  { "../libexec/shfs", ".", "../fusefs", "../shellhook", "../kmod-fast-path",
	    "../browse" },
	  SHFS_LIBEXECDIR },
	{ "sbin", { "../../sbin", "../sbin", "../kmod-fast-path" }, SHFS_SBINDIR },
	{ "lib",
	  { "../lib/shfs", "../" SHFS_LIBDIR_NAME "/shfs", "../shellhook" },
	  SHFS_LIBDIR },
};

static char *if_there(const char *dir, const char *name)
{
	char *path = shfs_path_join(dir, name);

	if (path && access(path, R_OK)) {
		free(path);
		return NULL;
	}
	return path;
}

char *shfs_path_installed(const char *kind, const char *name)
{
	char exe[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	char *slash;

	exe[MAX(n, 0)] = '\0';
	slash = strrchr(exe, '/');
	if (slash)
		*slash = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		if (strcmp(places[i].kind, kind))
			continue;
		for (size_t j = 0;
		     slash && j < ARRAY_SIZE(places[i].beside) && places[i].beside[j];
		     j++) {
			_cleanup_free_ char *joined =
				shfs_path_join(exe, places[i].beside[j]);
			_cleanup_free_ char *dir =
				joined ? shfs_path_absolute(joined) : NULL;
			char *path = dir ? if_there(dir, name) : NULL;

			if (path)
				return path;
		}
		return if_there(places[i].configured, name);
	}
	errno = ENOENT;
	return NULL;
}
