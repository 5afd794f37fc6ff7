/* SPDX-License-Identifier: MIT */
/* What programs look for and do not open, as far as it follows from what they opened: by
 * Python, the source beside a compiled module, and files by which it knows its
 * directories; by R, those by which it knows a package. No record says so yet. */
#include "query/bundle/closure.h"

#include "common/io.h"
#include "common/path.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#define PTH_MAX 65536

/* DIR/__pycache__/NAME.cpython-311.pyc: DIR/NAME.py. */
static int add_source_of(struct shfs_closure *c, const char *path)
{
	static const char cache[] = "/__pycache__/";
	const char *at = strstr(path, cache), *name, *dot;
	_cleanup_buf_ struct shfs_buf source = { 0 };

	if (!at || !shfs_ends_with(path, ".pyc"))
		return 0;
	name = at + sizeof(cache) - 1;
	dot = strchr(name, '.');
	shfs_buf_add(&source, path, (size_t)(at - path));
	shfs_buf_printf(&source, "/%.*s.py", (int)(dot - name), name);
	return source.failed ? -ENOMEM : MIN(closure_add_disk(c, source.data, false), 0);
}

/* PREFIX/lib/python3.11/…: os.py and lib-dynload there, and PREFIX/pyvenv.cfg. */
static int add_landmarks_of(struct shfs_closure *c, const char *path)
{
	static const char *const names[] = { "os.py", "lib-dynload", "site-packages",
		                             "../python3/dist-packages",
		                             "../../pyvenv.cfg" };
	const char *at = strstr(path, "/lib/python3"), *end;
	int r = 0;

	end = at ? strchr(at + strlen("/lib/python3"), '/') : NULL;
	for (size_t i = 0; i < ARRAY_SIZE(names) && end && !r; i++) {
		_cleanup_buf_ struct shfs_buf mark = { 0 };

		shfs_buf_add(&mark, path, (size_t)(end - path) + 1);
		shfs_buf_str(&mark, names[i]);
		r = mark.failed ? -ENOMEM : MIN(closure_add_disk(c, mark.data, false), 0);
	}
	return r;
}

/* Adds the directory that a line names by the words of a tuple: *('ruamel', 'yaml'). */
static int add_tuple(struct shfs_closure *c, const char *site, size_t site_len,
                     const char *words)
{
	const char *end = strchr(words, ')');
	_cleanup_buf_ struct shfs_buf dir = { 0 };

	shfs_buf_add(&dir, site, site_len);
	for (const char *p = words; end && (p = strchr(p, '\'')) && p < end;) {
		size_t len = strcspn(++p, "'\n");

		shfs_buf_char(&dir, '/');
		shfs_buf_add(&dir, p, len);
		p += len + (p[len] == '\'');
	}
	return dir.failed ? -ENOMEM : MIN(closure_add_disk(c, dir.data, false), 0);
}

/* SITE/NAME-nspkg.pth: the directories of packages that others add to. */
static int add_namespaces_of(struct shfs_closure *c, const char *path)
{
	static const char before[] = "*('";
	_cleanup_buf_ struct shfs_buf text = { 0 };
	int r = 0;

	if (!shfs_ends_with(path, "-nspkg.pth") ||
	    shfs_read_file_at(AT_FDCWD, path, PTH_MAX, &text) || !text.len)
		return 0;
	for (const char *p = text.data; !r && (p = strstr(p, before));
	     p += sizeof(before) - 1)
		r = add_tuple(c, path, (size_t)(strrchr(path, '/') - path), p);
	return r;
}

/* LIBRARY/library/PACKAGE/…, of R: by these it knows a package. */
static int add_marks_of_package(struct shfs_closure *c, const char *path)
{
	static const char *const names[] = { "DESCRIPTION", "NAMESPACE", "help", "html",
		                             "R" };
	const char *at = strstr(path, "/library/"), *end;
	int r = 0;

	end = at ? strchr(at + strlen("/library/"), '/') : NULL;
	for (size_t i = 0; i < ARRAY_SIZE(names) && end && !r; i++) {
		_cleanup_buf_ struct shfs_buf mark = { 0 };

		shfs_buf_add(&mark, path, (size_t)(end - path) + 1);
		shfs_buf_str(&mark, names[i]);
		r = mark.failed ? -ENOMEM : MIN(closure_add_disk(c, mark.data, false), 0);
	}
	return r;
}

int closure_add_guesses(struct shfs_closure *c)
{
	int r = 0;

	/* what is added comes behind, and is looked at, too */
	for (struct shfs_closure_file *f = c->files; f && !r; f = f->hh.next) {
		if (f->kind != SHFS_CLOSURE_FILE)
			continue;
		r = add_source_of(c, f->path);
		if (!r)
			r = add_landmarks_of(c, f->path);
		if (!r)
			r = add_namespaces_of(c, f->path);
		if (!r)
			r = add_marks_of_package(c, f->path);
	}
	return r;
}
