/* SPDX-License-Identifier: MIT */
#include "query/try/xattrs.h"

#include "common/util.h"

#include <errno.h>
#include <linux/limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>

struct side {
	const char *path;
	char names[XATTR_LIST_MAX];
	ssize_t len;
	char value[XATTR_SIZE_MAX];
};

static bool counts(const char *name)
{
	return strncmp(name, "user.overlay.", 13) != 0 &&
	       strncmp(name, "security.", 9) != 0;
}

static int list_names(struct side *side)
{
	side->len =
		side->path ? listxattr(side->path, side->names, sizeof(side->names)) : 0;
	if (side->len >= 0)
		return 0;
	side->len = 0;
	return errno == EOPNOTSUPP ? 0 : -errno;
}

/* Below 0: not there. */
static ssize_t read_value(struct side *side, const char *name)
{
	return side->path ? getxattr(side->path, name, side->value, sizeof(side->value))
	                  : -1;
}

/* Compares those that a has; behind: it is the second pass, for what b lacks. */
static int compare(struct side *a, struct side *b, bool behind,
                   int (*differs)(const struct shfs_xattr_difference *d, void *arg),
                   void *arg)
{
	int r = 0;

	for (const char *name = a->names; !r && name < a->names + a->len;
	     name += strlen(name) + 1) {
		ssize_t n, m;
		struct shfs_xattr_difference d = { .name = name };

		if (!counts(name))
			continue;
		n = read_value(a, name);
		m = read_value(b, name);
		if (n < 0 || (behind && m >= 0) ||
		    (n == m && !memcmp(a->value, b->value, (size_t)n)))
			continue;
		if (behind) {
			d.then = a->value;
			d.then_len = (size_t)n;
		} else {
			d.now = a->value;
			d.now_len = (size_t)n;
			d.then = m < 0 ? NULL : b->value;
			d.then_len = m < 0 ? 0 : (size_t)m;
		}
		r = differs(&d, arg);
	}
	return r;
}

int shfs_xattrs_compare(const char *now, const char *then,
                        int (*differs)(const struct shfs_xattr_difference *d, void *arg),
                        void *arg)
{
	_cleanup_free_ struct side *side = calloc(2, sizeof(*side));
	int r;

	if (!side)
		return -ENOMEM;
	side[0].path = now;
	side[1].path = then;
	r = list_names(&side[0]);
	if (!r)
		r = list_names(&side[1]);
	if (!r)
		r = compare(&side[0], &side[1], false, differs, arg);
	return r ? r : compare(&side[1], &side[0], true, differs, arg);
}
