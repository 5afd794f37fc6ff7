/* SPDX-License-Identifier: MIT */
/* Values of options: numbers, sizes, formats, files to write to; operands of verbs. */
#include "query/base/cmd.h"
#include "query/base/time.h"
#include "query/base/trusted.h"

#include "common/quote.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

int shfs_bad_value(const struct shfs_option *opt, const char *value, const char *wanted)
{
	_cleanup_buf_ struct shfs_buf shown = { 0 };

	shfs_quote_display(&shown, value, strlen(value));
	shfs_error("--%s %s: not %s", opt->name, shown.data ? shown.data : "", wanted);
	return SHFS_EXIT_USAGE;
}

int shfs_time_option(const struct shfs_option *opt, const char *value, int64_t *ns)
{
	if (!shfs_time_parse(value, ns))
		return 0;
	shfs_bad_value(opt, value, "a time");
	shfs_hint("try \"2 hours ago\", yesterday, \"2024-05-17 14:00\"");
	return SHFS_EXIT_USAGE;
}

int shfs_count_option(const struct shfs_option *opt, const char *value, int64_t *n)
{
	char *end;

	errno = 0;
	*n = strtoll(value, &end, 10);
	if (!errno && !*end && *value >= '0' && *value <= '9' && *n > 0)
		return 0;
	return shfs_bad_value(opt, value, "a number above 0");
}

int shfs_fail_output(const char *path, int error)
{
	_cleanup_buf_ struct shfs_buf shown = { 0 };

	shfs_quote_display(&shown, path, strlen(path));
	shfs_error("%s: %s", shown.data ?: "",
	           error == ELOOP ? "is behind a symbolic link of another user"
	                          : strerror(error));
	if (error != EEXIST)
		return SHFS_EXIT_FAILURE;
	shfs_hint("--force overwrites it");
	return SHFS_EXIT_REFUSED;
}

/* Is it a name of an open descriptor? Such names are links that lead nowhere. */
bool shfs_is_descriptor(const char *path)
{
	return !strncmp(path, "/dev/fd/", 8) || !strncmp(path, "/dev/std", 8) ||
	       !strncmp(path, "/proc/", 6);
}

static int open_output_file(const char *path, int flags, mode_t mode)
{
	_cleanup_close_ int dirfd = -1;
	_cleanup_free_ char *name = NULL;
	int fd, r;

	if (shfs_is_descriptor(path)) {
		fd = open(path, flags, mode);
	} else {
		r = shfs_trusted_parent(path, (struct shfs_way){ 0 }, &dirfd, &name);
		if (r)
			return r;
		fd = openat(dirfd, name, flags | O_NOFOLLOW, mode);
	}
	return fd < 0 ? -errno : fd;
}

int shfs_output_option(const char *path, bool force, mode_t mode, FILE **file)
{
	int fd;

	*file = stdout;
	if (!path || !strcmp(path, "-"))
		return 0;
	fd = open_output_file(path,
	                      O_WRONLY | O_CREAT | O_CLOEXEC | (force ? O_TRUNC : O_EXCL),
	                      mode);
	*file = fd < 0 ? NULL : fdopen(fd, "w");
	return *file ? 0 : shfs_fail_output(path, fd < 0 ? -fd : errno);
}

static void fail_without_verb(const struct shfs_command *command,
                              const struct shfs_verb *verbs)
{
	_cleanup_buf_ struct shfs_buf names = { 0 };

	for (const struct shfs_verb *v = verbs; v->name; v++)
		shfs_buf_printf(&names, "%s%s",
		                v == verbs  ? ""
		                : v[1].name ? ", "
		                            : " or ",
		                v->name);
	shfs_error("shfs %s takes %s", command->name, names.data ?: "");
}

int shfs_check_verb(const struct shfs_command *command, const struct shfs_verb *verbs,
                    const char *verb, int argc)
{
	const struct shfs_verb *v = verbs;

	while (v->name && strcmp(v->name, verb ?: "list") != 0)
		v++;
	if (v->name && argc >= v->min && argc <= v->max)
		return 0;
	if (v->name && verb)
		shfs_error("shfs %s %s wants %s", command->name, verb, v->wanted);
	else if (v->name)
		fail_without_verb(command, verbs);
	shfs_hint("usage: shfs %s %s", command->name, command->args);
	return SHFS_EXIT_USAGE;
}
