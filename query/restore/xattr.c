/* SPDX-License-Identifier: MIT */
#include "query/restore/xattr.h"

#include "common/quote.h"

#include <errno.h>
#include <linux/limits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/xattr.h>

#define ACL "system.posix_acl_access"

/* Does the attribute belong to one content, or to one layer of overlayfs? */
static bool stays_behind(const char *name)
{
	return !strncmp(name, "user.overlay.", 13) ||
	       !strcmp(name, "security.capability") || !strcmp(name, "security.ima") ||
	       !strcmp(name, "security.evm");
}

/* *out: names that each end with NUL; malloc'ed. Returns their length. */
static ssize_t list_names(const char *path, char **out)
{
	_cleanup_free_ char *names = malloc(XATTR_LIST_MAX);
	ssize_t n;

	if (!names)
		return -ENOMEM;
	n = listxattr(path, names, XATTR_LIST_MAX);
	if (n < 0)
		return errno == EOPNOTSUPP ? 0 : -errno;
	*out = TAKE_PTR(names);
	return n;
}

/* Does the file have the value already? A new file may have got a label that it may not
 * set. */
static bool has_value(int fd, const char *name, const char *value, size_t len)
{
	_cleanup_free_ char *present = malloc(XATTR_SIZE_MAX);

	return present && fgetxattr(fd, name, present, XATTR_SIZE_MAX) == (ssize_t)len &&
	       !memcmp(present, value, len);
}

static int copy_one(const char *path, int to, const char *name)
{
	_cleanup_free_ char *value = malloc(XATTR_SIZE_MAX);
	ssize_t n;
	int error;

	if (!value)
		return -ENOMEM;
	n = getxattr(path, name, value, XATTR_SIZE_MAX);
	if (n < 0)
		return errno == ENODATA ? 0 : -errno;
	if (!fsetxattr(to, name, value, n, 0))
		return 0;
	error = errno;
	return has_value(to, name, value, n) ? 0 : -error;
}

static void add_left(struct shfs_buf *left, const char *name, int error)
{
	if (left->len)
		shfs_buf_str(left, ", ");
	shfs_quote_display(left, name, strlen(name));
	shfs_buf_printf(left, " (%s)", strerror(-error));
}

static bool is_in(const char *names, ssize_t len, const char *name)
{
	for (const char *p = names; p < names + len; p += strlen(p) + 1)
		if (!strcmp(p, name))
			return true;
	return false;
}

/* Copies the ACL last, as it may forbid setting others. An ACL that the new file got by
 * default is removed if the old one had none. */
static int copy_acl(const char *path, int to, bool has_acl)
{
	if (has_acl)
		return copy_one(path, to, ACL);
	if (!fremovexattr(to, ACL) || errno == ENODATA || errno == EOPNOTSUPP)
		return 0;
	return -errno;
}

int shfs_xattr_copy(int from, int to, struct shfs_buf *left)
{
	_cleanup_free_ char *names = NULL;
	char path[40];
	ssize_t len;
	int r;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", from);
	len = list_names(path, &names);
	if (len < 0)
		return (int)len;
	for (const char *p = names; p && p < names + len; p += strlen(p) + 1) {
		if (stays_behind(p) || !strcmp(p, ACL))
			continue;
		r = copy_one(path, to, p);
		if (r)
			add_left(left, p, r);
	}
	r = copy_acl(path, to, is_in(names, len, ACL));
	if (r)
		add_left(left, ACL, r);
	return left->failed ? -ENOMEM : 0;
}
