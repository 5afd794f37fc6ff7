/* SPDX-License-Identifier: MIT */
#include "recording/libraries.h"

#include "common/io.h"

#include <errno.h>
#include <string.h>

#define MAPS_MAX  (4u << 20)
#define FILES_MAX 256

/* Is it a package that is R itself, of R's own version? */
static bool is_base(const char *name, size_t len)
{
	static const char *const names[] = { "base",      "compiler", "datasets",
		                             "grDevices", "graphics", "grid",
		                             "methods",   "parallel", "splines",
		                             "stats",     "stats4",   "tcltk",
		                             "tools",     "utils" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strlen(names[i]) == len && !memcmp(names[i], name, len))
			return true;
	return false;
}

/* Is it LIB/NAME/libs/NAME.so? */
static bool is_library(const char *path)
{
	static const char libs[] = "/libs/";
	const char *file = strrchr(path, '/') + 1, *end = file - strlen(libs), *name;
	size_t len;

	if (end <= path || memcmp(end, libs, strlen(libs)) != 0)
		return false;
	name = memrchr(path, '/', (size_t)(end - path));
	len = name ? (size_t)(end - ++name) : 0;
	return len && !strncmp(file, name, len) && !strcmp(file + len, ".so") &&
	       !is_base(name, len);
}

bool shfs_libraries_have(const struct shfs_buf *list, const char *path)
{
	for (size_t at = 0; at < list->len; at += strlen(list->data + at) + 1)
		if (!strcmp(list->data + at, path))
			return true;
	return false;
}

int shfs_libraries_of(int procfd, struct shfs_buf *out)
{
	_cleanup_buf_ struct shfs_buf maps = { 0 };
	int r = shfs_read_file_at(procfd, "maps", MAPS_MAX, &maps), n = 0;
	char *save = NULL;

	if (r || !maps.len)
		return r;
	shfs_buf_u8(&maps, 0);
	if (maps.failed)
		return -ENOMEM;
	for (char *line = strtok_r(maps.data, "\n", &save); line && n < FILES_MAX;
	     line = strtok_r(NULL, "\n", &save)) {
		/* nothing before the path has a slash; in a path, a newline is "\012" */
		const char *path = strchr(line, '/');

		if (!path || !is_library(path) || shfs_libraries_have(out, path))
			continue;
		shfs_buf_add(out, path, strlen(path) + 1);
		n++;
	}
	return out->failed ? -ENOMEM : 0;
}
