/* SPDX-License-Identifier: MIT */
#include "shellhook/origin.h"

#include "shellhook/hook.h"

#include <stdio.h>
#include <string.h>

static struct {
	char kept[SHELL_MARK_MAX + 1];
	char value[SHELL_MARK_MAX + 1]; /* HOST:BOOT-PID-START: and the number */
	size_t number;                  /* where that is in value; 0: nothing is set */
} origin;

/* May the value be one of another host? Readers look closer (store/journal/origin.h). */
static bool is_of_another(const char *value, const char *host)
{
	size_t len = strlen(value), n = strlen(host);

	for (size_t i = 0; i < len; i++)
		if (value[i] <= ' ' || value[i] > '~')
			return false;
	return len && len <= SHELL_MARK_MAX &&
	       (strncmp(value, host, n) || value[n] != ':');
}

void origin_start(const char *host, const char *session, bool sets)
{
	const char *value = shell_get("LC_SHFS");
	int n;

	if (value && is_of_another(value, host))
		strcpy(origin.kept, value);
	n = snprintf(origin.value, sizeof(origin.value), "%s:%s:", host, session);
	if (origin.number && !sets)
		shell_mark(MARK_ORIGIN, "");
	origin.number =
		sets && n > 0 && n + 21 < (int)sizeof(origin.value) ? (size_t)n : 0;
}

void origin_mark(const char *number)
{
	if (!origin.number)
		return;
	strcpy(origin.value + origin.number, number);
	shell_mark(MARK_ORIGIN, *number == '0' ? "" : origin.value);
}

const char *origin_kept(void)
{
	return *origin.kept ? origin.kept : NULL;
}
