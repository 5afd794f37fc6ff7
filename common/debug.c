/* SPDX-License-Identifier: MIT */
#include "common/debug.h"

#include <errno.h>
#include <stdarg.h>

/* The names of all areas. */
#define AREAS(X)                                                                         \
	X(CAPTURE, "capture")                                                            \
	X(COMMAND, "command")                                                            \
	X(INGEST, "ingest")                                                              \
	X(JOURNAL, "journal")                                                            \
	X(OBJECTS, "objects")                                                            \
	X(QUERY, "query")                                                                \
	X(RECORDER, "recorder")                                                          \
	X(RECORDING, "recording")                                                        \
	X(TRANSPORT, "transport")                                                        \
	X(WATCH, "watch")
#define ROW(area, name)    [SHFS_DEBUG_##area] = (name),
#define LISTED(area, name) ", " name

static const char *const names[] = { AREAS(ROW) };

unsigned shfs_debug_mask;
static void (*sink)(const char *line);

const char *shfs_debug_areas(void)
{
	return "all" AREAS(LISTED);
}

/* Returns the bits of the area with this name; 0: there is none. */
static unsigned find_area(const char *name, size_t len)
{
	if (len == 3 && !memcmp(name, "all", 3))
		return (1u << ARRAY_SIZE(names)) - 1;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strlen(names[i]) == len && !memcmp(names[i], name, len))
			return 1u << i;
	return 0;
}

int shfs_debug_choose(const char *areas)
{
	unsigned mask = 0;

	if (!areas)
		areas = getenv("SHFS_DEBUG");
	while (areas && *areas) {
		size_t len = strcspn(areas, ",");
		unsigned area = find_area(areas, len);

		if (len && !area)
			return -EINVAL;
		mask |= area;
		areas += len + (areas[len] == ',');
	}
	shfs_debug_mask = mask;
	return 0;
}

void shfs_debug_to(void (*say)(const char *line))
{
	sink = say;
}

/* Prints a line without control characters, which names may hold. */
static void print_debug_line(char *line)
{
	for (char *p = line; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			*p = '?';
	if (sink)
		sink(line);
	else
		dprintf(STDERR_FILENO, "shfs[%ld]: %s\n", (long)getpid(), line);
}

void shfs_debug_say(enum shfs_debug_area area, const char *fmt, ...)
{
	char line[500];
	int n = snprintf(line, sizeof(line), "%s: ", names[area]), was = errno;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line + n, sizeof(line) - (size_t)n, fmt, ap);
	va_end(ap);
	print_debug_line(line);
	errno = was;
}

#ifdef SHFS_ASSERTS
void shfs_assert_failed(const char *condition, const char *file, int line,
                        const char *function)
{
	char text[500];

	snprintf(text, sizeof(text), "%s:%d: %s: assertion failed: %s", file, line,
	         function, condition);
	dprintf(STDERR_FILENO, "shfs[%ld]: %s\n", (long)getpid(), text);
	if (sink)
		sink(text);
	abort();
}
#endif
