/* SPDX-License-Identifier: MIT */
#include "query/cmd.h"
#include "query/time.h"

#include "common/quote.h"

#include <stdarg.h>
#include <string.h>

static void say(const char *prefix, const char *fmt, va_list ap)
{
	fflush(stdout);
	fputs(prefix, stderr);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
}

void shfs_error(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say("shfs: ", fmt, ap);
	va_end(ap);
}

void shfs_warn(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say("shfs: warning: ", fmt, ap);
	va_end(ap);
}

void shfs_hint(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say("  hint: ", fmt, ap);
	va_end(ap);
}

int shfs_time_option(const struct shfs_option *opt, const char *value, int64_t *ns)
{
	_cleanup_buf_ struct shfs_buf shown = { 0 };

	if (!shfs_time_parse(value, ns))
		return 0;
	shfs_quote_display(&shown, value, strlen(value));
	shfs_error("--%s %s: not a time", opt->name, shown.data ? shown.data : "");
	shfs_hint("try \"2 hours ago\", yesterday, \"2024-05-17 14:00\"");
	return SHFS_EXIT_USAGE;
}
