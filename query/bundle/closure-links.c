/* SPDX-License-Identifier: MIT */
/* Links that lead to a file of the closure: programs name libraries and each other by
 * them (libz.so.1, awk, /bin), and no record of an open says so. */
#include "query/bundle/closure.h"

#include "common/io.h"
#include "common/path.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

/* Does the link lead to something of the closure? */
static bool leads_there(const struct shfs_closure *c, const char *path)
{
	_cleanup_free_ char *to = realpath(path, NULL);

	return to && shfs_closure_find(c, to);
}

/* Anybody may put links there: they are no part of the system. */
static bool is_for_all(const char *dir)
{
	struct stat st;

	return stat(dir, &st) || st.st_mode & S_IWOTH;
}

static int add_links_in(struct shfs_closure *c, const char *dir)
{
	DIR *open = is_for_all(dir) ? NULL : opendir(dir);
	struct dirent *entry;
	int r = 0;

	while (open && !r && (entry = shfs_readdir(open, &r))) {
		_cleanup_free_ char *path = NULL, *place = NULL;

		if (entry->d_type != DT_LNK && entry->d_type != DT_UNKNOWN)
			continue;
		path = shfs_path_join(dir, entry->d_name);
		if (!path)
			r = -ENOMEM;
		else if (!shfs_closure_find(c, path) && leads_there(c, path))
			r = closure_walk(c, path, &place);
		if (r == -ELOOP || r == -ENOENT || r == -EINVAL)
			r = 0; /* it was changed just now */
	}
	if (open)
		closedir(open);
	return r == -ENOMEM ? r : 0;
}

int closure_add_links(struct shfs_closure *c)
{
	int r;

	c->guessing = true;
	r = add_links_in(c, "/");

	/* the directories that links bring are added behind the others */
	for (struct shfs_closure_file *f = c->files; f && !r; f = f->hh.next)
		if (f->kind == SHFS_CLOSURE_DIRECTORY)
			r = add_links_in(c, f->path);
	return r;
}
