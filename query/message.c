/* SPDX-License-Identifier: MIT */
#include "query/cmd.h"

#include <stdarg.h>

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
