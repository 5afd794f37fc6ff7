/* SPDX-License-Identifier: MIT */
/* Error messages, warnings and hints on standard error. */
#include "query/base/cmd.h"
#include "query/base/model.h"
#include "query/base/progress.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

static void print_to_stderr(const char *prefix, const char *fmt, va_list ap)
{
	_cleanup_buf_ struct shfs_buf format = { 0 };

	shfs_progress_end();
	fflush(stdout);
	fputs(prefix, stderr);
	shfs_show_signs(&format, fmt);
	vfprintf(stderr, format.failed ? fmt : format.data, ap);
	fputc('\n', stderr);
}

static bool softened;

void shfs_soften_errors(bool soften)
{
	softened = soften;
}

void shfs_error(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	print_to_stderr(softened ? "shfs: warning: " : "shfs: ", fmt, ap);
	va_end(ap);
}

void shfs_no_memory(void)
{
	char here[1];

	if (getcwd(here, sizeof(here)) || errno == ERANGE) {
		shfs_error("out of memory");
	} else {
		shfs_error("the current directory does not exist any more: %s",
		           strerror(errno));
		shfs_hint("cd \"$PWD\", or anywhere else");
	}
}

void shfs_warn(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	print_to_stderr("shfs: warning: ", fmt, ap);
	va_end(ap);
}

void shfs_hint(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	print_to_stderr("  hint: ", fmt, ap);
	va_end(ap);
}

bool shfs_ask(const char *question)
{
	char answer[16];

	fputs(question, stderr);
	return fgets(answer, sizeof(answer), stdin) &&
	       (answer[0] == 'y' || answer[0] == 'Y');
}
