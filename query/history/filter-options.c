/* SPDX-License-Identifier: MIT */
/* The options of filter.h: makes conditions of command line options. */
#include "query/base/model.h"
#include "query/history/filter.h"
#include "query/history/version-spec.h"

#include "common/io.h"
#include "common/proc.h"
#include "common/quote.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <regex.h>
#include <string.h>
#include <sys/stat.h>

/* Options that become one filter item unchanged. */
static const struct {
	const char *name;
	enum shfs_filter_kind kind;
	const char *wanted;
} plain[] = {
	{ "grep", SHFS_FILTER_GREP, "a text" },
	{ "cwd", SHFS_FILTER_CWD, "a directory" },
	{ "command", SHFS_FILTER_COMMAND, "the id of a command, or its first 4 digits" },
	{ "within", SHFS_FILTER_WITHIN, "the id of a command, or its first 4 digits" },
	{ "session", SHFS_FILTER_SESSION, "the id of a session, or its first 4 digits" },
	{ "host", SHFS_FILTER_HOST, "a host" },
	{ "by", SHFS_FILTER_BY, "a program that gives commands, or its kind" },
	{ "read", SHFS_FILTER_READ, "a path" },
	{ "wrote", SHFS_FILTER_WROTE, "a path" },
	{ "name", SHFS_FILTER_NAME, "the name of a file, which has no slash" },
	{ "content", SHFS_FILTER_CONTENT, "a file" },
};

static const struct {
	const char *name;
	enum shfs_filter_kind kind;
} times[] = {
	{ "since", SHFS_FILTER_SINCE },
	{ "until", SHFS_FILTER_UNTIL },
	{ "modified-since", SHFS_FILTER_MODIFIED_SINCE },
	{ "modified-until", SHFS_FILTER_MODIFIED_UNTIL },
};

/* --- values --- */

int shfs_filter_add_size(struct shfs_filter *f, const char *text)
{
	const char *dots = strstr(text, "..");
	_cleanup_free_ char *from = dots ? strndup(text, (size_t)(dots - text)) : NULL;
	uint64_t min = 0, max = INT64_MAX;
	int r = 0;

	if (from) {
		r = *from ? shfs_config_parse_size(from, &min) : 0;
		if (!r && dots[2])
			r = shfs_config_parse_size(dots + 2, &max);
		if (!*from && !dots[2])
			r = -EINVAL;
	} else if (*text == '+') {
		r = shfs_config_parse_size(text + 1, &min);
	} else if (*text == '-') {
		r = shfs_config_parse_size(text + 1, &max);
	} else {
		r = shfs_config_parse_size(text, &min);
		max = min;
	}
	if (r || min > max || max > INT64_MAX)
		return r ? r : -EINVAL;
	r = shfs_filter_add_int(f, SHFS_FILTER_SIZE_MIN, (int64_t)min);
	return r ? r : shfs_filter_add_int(f, SHFS_FILTER_SIZE_MAX, (int64_t)max);
}

int shfs_filter_add_status(struct shfs_filter *f, const char *text)
{
	enum shfs_filter_kind kind = SHFS_FILTER_STATUS;
	char *end;
	long value;

	if (!strcmp(text, "ok"))
		return shfs_filter_add_int(f, kind, 0);
	if (!strcmp(text, "fail"))
		return shfs_filter_add_int(f, SHFS_FILTER_NOT_STATUS, 0);
	if (*text == '!') {
		kind = SHFS_FILTER_NOT_STATUS;
		text++;
	}
	if (!isdigit((unsigned char)*text))
		return -EINVAL;
	errno = 0;
	value = strtol(text, &end, 10);
	if (*end || errno || value > 255)
		return -EINVAL;
	return shfs_filter_add_int(f, kind, value);
}

static int add_regex(struct shfs_filter *f, const struct shfs_option *opt,
                     const char *value)
{
	char message[128];
	regex_t regex;
	_cleanup_buf_ struct shfs_buf shown = { 0 };
	int r = regcomp(&regex, value, REG_EXTENDED | REG_NOSUB);

	if (!r) {
		regfree(&regex);
		return shfs_filter_add(f, SHFS_FILTER_REGEX, value);
	}
	regerror(r, &regex, message, sizeof(message));
	shfs_quote_display(&shown, value, strlen(value));
	shfs_error("--%s %s: %s", opt->name, shown.data ? shown.data : "", message);
	return SHFS_EXIT_USAGE;
}

static int add_this_host(struct shfs_filter *f)
{
	char host[65];

	shfs_proc_host(host);
	return shfs_filter_add(f, SHFS_FILTER_HOST, host);
}

static int add_or(struct shfs_filter *f)
{
	if (!shfs_filter_or(f))
		return 0;
	shfs_error("--or stands between conditions");
	return SHFS_EXIT_USAGE;
}

/* A name is one of this machine; a number may be another one's. */
static int add_user(struct shfs_filter *f, const struct shfs_option *opt,
                    const char *value)
{
	const struct passwd *user;
	int64_t uid = 0;
	const char *p = value;

	for (; isdigit((unsigned char)*p) && uid < UINT32_MAX; p++)
		uid = 10 * uid + *p - '0';
	user = getpwnam(value);
	if (!user && (*p || p == value || uid >= UINT32_MAX))
		return shfs_bad_value(opt, value, "a user of this machine, or a number");
	return shfs_filter_add_int(f, SHFS_FILTER_USER, user ? user->pw_uid : uid);
}

static int set_order(struct shfs_filter *f, const struct shfs_option *opt,
                     const char *value)
{
	static const char *const keys[] = {
		[SHFS_SORT_TIME] = "time",       [SHFS_SORT_DURATION] = "duration",
		[SHFS_SORT_STATUS] = "status",   [SHFS_SORT_CWD] = "cwd",
		[SHFS_SORT_COMMAND] = "command", [SHFS_SORT_HOST] = "host",
	};

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		if (strcmp(value, keys[i]) != 0)
			continue;
		f->sort = i;
		return 0;
	}
	return shfs_bad_value(opt, value, "time, duration, status, cwd, command or host");
}

static int add_option_condition(struct shfs_filter *f, const struct shfs_option *opt,
                                const char *value)
{
	int64_t ns;
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(times); i++) {
		if (strcmp(opt->name, times[i].name) != 0)
			continue;
		r = shfs_time_option(opt, value, &ns);
		return r ? r : shfs_filter_add_int(f, times[i].kind, ns);
	}
	for (size_t i = 0; i < ARRAY_SIZE(plain); i++) {
		if (strcmp(opt->name, plain[i].name) != 0)
			continue;
		r = *value ? shfs_filter_add(f, plain[i].kind, value) : -EINVAL;
		return r == -EINVAL ? shfs_bad_value(opt, value, plain[i].wanted) : r;
	}
	if (!strcmp(opt->name, "regex"))
		return add_regex(f, opt, value);
	if (!strcmp(opt->name, "here"))
		return add_this_host(f);
	if (!strcmp(opt->name, "or"))
		return add_or(f);
	if (!strcmp(opt->name, "sort"))
		return set_order(f, opt, value);
	if (!strcmp(opt->name, "user"))
		return add_user(f, opt, value);
	if (!strcmp(opt->name, "failed"))
		return shfs_filter_add_status(f, "fail");
	if (!strcmp(opt->name, "status")) {
		r = shfs_filter_add_status(f, value);
		return r == -EINVAL ? shfs_bad_value(opt, value,
		                                     "ok, fail, a status, or !status")
		                    : r;
	}
	r = shfs_filter_add_size(f, value); /* --size */
	return r == -EINVAL || r == -ERANGE
	               ? shfs_bad_value(opt, value,
	                                "a size such as 10K, +10M, -1K, 10K..2M")
	               : r;
}

int shfs_filter_option(struct shfs_filter *f, const struct shfs_option *opt,
                       const char *value)
{
	int r = add_option_condition(f, opt, value);

	if (r >= 0)
		return r;
	if (r == -ENOMEM)
		shfs_no_memory();
	else
		shfs_error("%s", strerror(-r));
	return SHFS_EXIT_FAILURE;
}

/* --- the bytes of a file --- */

/* Has a version of that size a fingerprint of the whole? 1, 0, or a negative errno. */
static int is_known_by_whole(struct shfs_index *index, uint64_t size)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open_ints(
		index, "SELECT 1 FROM v_version WHERE size = ?1 AND flags & ?2 LIMIT 1",
		SHFS_INTS((int64_t)size, SHFS_CONTENT_WHOLE), &rows);

	return r ? r : shfs_rows_next(rows);
}

/* Reads the file, and all of a large one only where that may help: 1; 0: there is no such
 * file. */
static int read_file_content(struct shfs_store *store, struct shfs_index *index,
                             uint64_t max_bytes, const char *path,
                             struct shfs_content out[static 2])
{
	_cleanup_buf_ struct shfs_buf bytes = { 0 };
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	int r;

	if (fd < 0)
		return errno == ENOENT || errno == ENOTDIR ? 0 : -errno;
	if (fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL;
	r = shfs_read_fd(fd, max_bytes, &bytes);
	if (!r)
		r = shfs_index_find_object(index, bytes.data ?: "", bytes.len,
		                           &out->object);
	if (r < 0 && r != -EFBIG)
		return r;
	/* if no object has these bytes, a version may have only a fingerprint */
	out[0].flags = r > 0 ? SHFS_CONTENT_OBJECT : 0;
	out[0].size = out[1].size = r == -EFBIG ? (uint64_t)st.st_size : bytes.len;
	r = shfs_object_fingerprint(fd, 0, &out[0]);
	if (!r && !(out[0].flags & SHFS_CONTENT_OBJECT))
		r = is_known_by_whole(index, out[1].size);
	if (r > 0)
		r = shfs_object_fingerprint(fd, UINT64_MAX, &out[1]);
	return r ? r : 1;
}

int shfs_filter_content(struct shfs_context *ctx, struct shfs_index *index,
                        const char *operand, struct shfs_content out[static 2])
{
	int code = SHFS_EXIT_OK, r;
	struct shfs_store *store = shfs_context_store(ctx, false, &code);
	const struct shfs_config *config = store ? shfs_context_config(ctx, &code) : NULL;
	_cleanup_version_ struct shfs_version version = { 0 };
	_cleanup_buf_ struct shfs_buf shown = { 0 };

	out[0] = out[1] = (struct shfs_content){ 0 };
	if (!config)
		return code;
	r = read_file_content(store, index, shfs_config_archived_max(config), operand,
	                      out);
	if (!r) {
		r = shfs_version_spec_find(index, operand, &version);
		out[!!(version.flags & SHFS_CONTENT_WHOLE)] =
			(struct shfs_content){ .flags = version.flags,
			                       .size = version.size,
			                       .phash = version.phash,
			                       .object = version.object };
		out[0].flags |= version.flags & SHFS_CONTENT_OBJECT;
		out[0].object = version.object;
		return r;
	}
	if (r > 0)
		return 0;
	shfs_quote_display(&shown, operand, strlen(operand));
	shfs_error("%s: %s", shown.data ? shown.data : "", strerror(-r));
	return SHFS_EXIT_FAILURE;
}
