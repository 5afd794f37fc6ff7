/* SPDX-License-Identifier: MIT */
/* Which packages of dpkg the system's files of a bundle are of. */
#include "query/bundle/packages.h"

#include "common/io.h"
#include "query/export/export.h"
#include "recording/package.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <string.h>
#include <sys/stat.h>

#define LIST_MAX (64u << 20)

static const char pattern[] = "/var/lib/dpkg/info/*.list";

struct owned_path {
	UT_hash_handle hh;
	char path[];
};

static int note_owned(struct bundle_packages *p, const char *path)
{
	struct owned_path *o;
	size_t size = strlen(path) + 1;

	HASH_FIND_STR(p->owned, path, o);
	if (o)
		return 0;
	o = calloc(1, sizeof(*o) + size);
	if (!o)
		return -ENOMEM;
	memcpy(o->path, path, size);
	HASH_ADD_STR(p->owned, path, o);
	if (o->hh.tbl)
		return 0;
	free(o);
	return -ENOMEM;
}

/* The file of the closure that a line names: /bin/x may be /usr/bin/x by now. */
static const struct shfs_closure_file *find_line(const struct shfs_closure *c,
                                                 const char *line)
{
	const struct shfs_closure_file *file = shfs_closure_find(c, line);
	_cleanup_buf_ struct shfs_buf merged = { 0 };

	if (file || !strncmp(line, "/usr/", 5))
		return file;
	shfs_buf_printf(&merged, "/usr%s", line);
	return merged.failed ? NULL : shfs_closure_find(c, merged.data);
}

/* Many packages have the directory that a link leads to; one has a link to a file. (The
 * links for the compiler are of others: libz.so.) */
static bool is_of_one(const struct shfs_closure_file *file)
{
	struct stat st;

	return file->kind == SHFS_CLOSURE_FILE ||
	       (file->kind == SHFS_CLOSURE_LINK && !file->guessed &&
	        !stat(file->path, &st) && S_ISREG(st.st_mode));
}

/* Reads the list of one package. *of: if it has files of the closure, one that is in no
 * other package, as far as that is known; else NULL. */
static int read_list(struct bundle_packages *p, const struct shfs_closure *c,
                     const char *list, char **of)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };
	const char *first = NULL, *copyright = NULL;
	char *save, *line;
	int r = shfs_read_file_at(AT_FDCWD, list, LIST_MAX, &text);

	*of = NULL;
	if (r || !text.len)
		return r == -ENOMEM ? r : 0;
	for (line = strtok_r(text.data, "\n", &save); line && r >= 0;
	     line = strtok_r(NULL, "\n", &save)) {
		const struct shfs_closure_file *file = find_line(c, line);

		/* pip, too, knows modules of Python, but not this one */
		if (!strncmp(line, "/usr/share/doc/", 15) &&
		    shfs_ends_with(line, "/copyright"))
			copyright = line;
		if (!file || !is_of_one(file))
			continue;
		r = note_owned(p, file->path);
		first = first ?: line;
	}
	if (r || !first)
		return r;
	*of = strdup(copyright ?: first);
	return *of ? 0 : -ENOMEM;
}

/* Is it one word for a shell? */
static bool is_plain(const char *name)
{
	return !name[strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	                          "0123456789+-.:=_~")];
}

/* One file of each package says what it is called and its version. */
static int find_names(struct bundle_packages *p, struct shfs_package *list, size_t n)
{
	static const struct shfs_reach reach = { .root = "/", .root_fd = -1 };
	int r = 0;

	shfs_packages_find(&reach, list, n);
	for (size_t i = 0; i < n && !r; i++) {
		_cleanup_buf_ struct shfs_buf name = { 0 };

		if (!list[i].manager || strcmp(list[i].manager, "dpkg") != 0)
			continue;
		shfs_buf_printf(&name, "%s=%s", list[i].name, list[i].version);
		r = name.failed           ? -ENOMEM
		    : is_plain(name.data) ? shfs_workflow_add_name(&p->names, name.data)
		                          : 0;
	}
	return r;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

int bundle_packages_find(const struct shfs_closure *c, struct bundle_packages *p)
{
	glob_t lists = { 0 };
	struct shfs_package *list = NULL;
	size_t n = 0;
	int r = 0;

	if (!glob(pattern, 0, NULL, &lists))
		list = calloc(lists.gl_pathc, sizeof(*list));
	for (size_t i = 0; list && i < lists.gl_pathc && !r; i++) {
		r = read_list(p, c, lists.gl_pathv[i], &list[n].path);
		n += list[n].path != NULL;
	}
	if (!r && n)
		r = find_names(p, list, n);
	for (size_t i = 0; i < n; i++)
		shfs_package_clear(&list[i]);
	free(list);
	globfree(&lists);
	if (!r && p->names.n)
		qsort(p->names.list, p->names.n, sizeof(*p->names.list), compare_names);
	return r;
}

bool bundle_packages_own(const struct bundle_packages *p, const char *path)
{
	struct owned_path *o;

	HASH_FIND_STR(p->owned, path, o);
	return o;
}

void bundle_packages_clear(struct bundle_packages *p)
{
	struct owned_path *o, *next;

	HASH_ITER (hh, p->owned, o, next) {
		HASH_DEL(p->owned, o);
		free(o);
	}
	shfs_names_clear(&p->names);
}
