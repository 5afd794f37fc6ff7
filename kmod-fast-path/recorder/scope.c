/* SPDX-License-Identifier: MIT */
#include "kmod-fast-path/recorder/scope.h"

#include "common/path.h"
#include "common/util.h"
#include "store/capture/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Those that cannot be used now are left out. */
static void archive_projects(const struct shfs_scope *scope,
                             struct shfs_project_rules *rules, const char *root)
{
	rules->is_no_project = true;
	for (size_t i = 0; i < scope->n_projects; i++) {
		const char *dir = shfs_path_relative(scope->projects[i], root);
		int r = dir && *dir ? shfs_project_rules_add_part(rules, dir) : -EINVAL;

		if (r)
			shfs_log("a project is not archived: %s", strerror(-r));
	}
}

void shfs_scope_begin(struct shfs_scope *scope, struct shfs_project_rules *rules,
                      const char *root)
{
	archive_projects(scope, rules, root);
	for (int fd = 0; fd < (int)ARRAY_SIZE(scope->streams); fd++) {
		char name[48];
		struct stat st;

		snprintf(name, sizeof(name), "/proc/%d/fd/%d", (int)scope->above, fd);
		if (!stat(name, &st) && S_ISREG(st.st_mode))
			scope->streams[fd] =
				(struct shfs_scope_stream){ st.st_dev, st.st_ino };
	}
}

void shfs_scope_end(struct shfs_scope *scope)
{
	shfs_own_mounts_clear(&scope->mounts);
}

/* Is the path in a directory that is absolute? */
static bool is_in(const char *dir, const char *root, const char *path)
{
	const char *below = shfs_path_relative(dir, root);
	size_t len = below ? strlen(below) : 0;

	return len && !strncmp(path, below, len) && (!path[len] || path[len] == '/');
}

bool shfs_scope_excepts(const struct shfs_scope *scope, const char *root,
                        const char *path)
{
	static const char *const parts[] = { "/proc", "/sys", "/dev", "/run" };

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		if (is_in(parts[i], root, path))
			return true;
	for (size_t i = 0; i < scope->n_except; i++)
		if (is_in(scope->except[i], root, path))
			return true;
	return false;
}

bool shfs_scope_has_stream(const struct shfs_scope *scope, int root_fd,
                           const struct shfs_event_file *file)
{
	uint64_t dev = file->dev;
	struct stat root;

	if (!dev && !fstat(root_fd, &root))
		dev = root.st_dev;
	for (size_t i = 0; i < ARRAY_SIZE(scope->streams); i++)
		if (scope->streams[i].dev == dev && scope->streams[i].ino == file->ino)
			return true;
	return false;
}
