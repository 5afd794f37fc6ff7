/* SPDX-License-Identifier: MIT */
/* The options of filter.h: from words of the command line to conditions. */
#include "query/filter.h"

#include "common/quote.h"

#include <errno.h>
#include <regex.h>
#include <string.h>

static int bad_value(const struct shfs_option *opt, const char *value, const char *wanted)
{
	_cleanup_buf_ struct shfs_buf shown = { 0 };

	shfs_quote_display(&shown, value, strlen(value));
	shfs_error("--%s %s: not %s", opt->name, shown.data ? shown.data : "", wanted);
	return SHFS_EXIT_USAGE;
}

static int set_time(struct shfs_filter *f, const struct shfs_option *opt,
                    const char *value)
{
	enum shfs_filter_kind kind =
		!strcmp(opt->name, "since") ? SHFS_FILTER_SINCE : SHFS_FILTER_UNTIL;
	int64_t ns;
	int code = shfs_time_option(opt, value, &ns);

	if (code)
		return code;
	return shfs_filter_add_int(f, kind, ns);
}

static int set_regex(struct shfs_filter *f, const struct shfs_option *opt,
                     const char *value)
{
	_cleanup_buf_ struct shfs_buf shown = { 0 };
	char message[128];
	regex_t regex;
	int r = regcomp(&regex, value, REG_EXTENDED | REG_NOSUB);

	if (!r) {
		regfree(&regex);
		return shfs_filter_add(f, SHFS_FILTER_REGEX, value);
	}
	regerror(r, &regex, message, sizeof(message));
	shfs_quote_display(&shown, value, strlen(value));
	shfs_error("--regex %s: %s", shown.data ? shown.data : "", message);
	return SHFS_EXIT_USAGE;
}

/* Options that are a filter as they stand. */
static const struct {
	const char *name;
	enum shfs_filter_kind kind;
	const char *wanted;
} plain[] = {
	{ "grep", SHFS_FILTER_GREP, "a text" },
	{ "cwd", SHFS_FILTER_CWD, "a directory" },
	{ "session", SHFS_FILTER_SESSION, "the id of a session, or its first 4 digits" },
	{ "host", SHFS_FILTER_HOST, "a host" },
	{ "read", SHFS_FILTER_READ, "a path" },
	{ "wrote", SHFS_FILTER_WROTE, "a path" },
};

static int set_plain(struct shfs_filter *f, const struct shfs_option *opt,
                     const char *value)
{
	for (size_t i = 0; i < ARRAY_SIZE(plain); i++) {
		int r;

		if (strcmp(opt->name, plain[i].name) != 0)
			continue;
		r = *value ? shfs_filter_add(f, plain[i].kind, value) : -EINVAL;
		return r == -EINVAL ? bad_value(opt, value, plain[i].wanted) : r;
	}
	return SHFS_FILTER_OTHER;
}

static int set_status(struct shfs_filter *f, const struct shfs_option *opt,
                      const char *value)
{
	int r = shfs_filter_add_status(f, value);

	return r == -EINVAL ? bad_value(opt, value, "ok, fail, a status, or !status") : r;
}

static int set(struct shfs_filter *f, const struct shfs_option *opt, const char *value)
{
	if (!strcmp(opt->name, "since") || !strcmp(opt->name, "until"))
		return set_time(f, opt, value);
	if (!strcmp(opt->name, "regex"))
		return set_regex(f, opt, value);
	if (!strcmp(opt->name, "failed"))
		return shfs_filter_add_status(f, "fail");
	if (!strcmp(opt->name, "status"))
		return set_status(f, opt, value);
	return set_plain(f, opt, value);
}

int shfs_filter_option(struct shfs_filter *f, const struct shfs_option *opt,
                       const char *value)
{
	int r = set(f, opt, value);

	if (r >= SHFS_FILTER_OTHER)
		return r;
	shfs_error("%s", strerror(-r));
	return SHFS_EXIT_FAILURE;
}
