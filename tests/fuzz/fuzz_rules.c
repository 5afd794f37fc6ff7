/* SPDX-License-Identifier: MIT */
/* Patterns, then paths, each ended by a NUL: the answer is the same each time, and what
 * is below an ignored directory is ignored. */
#include "tests/fuzz/fuzz.h"

#include "store/capture/rules.h"

#include <string.h>

static void match(const struct shfs_rules *rules, const char *path)
{
	_cleanup_free_ char *copy = strdup(path), *below = NULL;
	enum shfs_rule rule;

	if (path[0] == '/' || strlen(path) > 2000 || !copy)
		return;
	rule = shfs_rules_match(rules, path, true);
	FUZZ_ASSERT(rule <= SHFS_RULE_ARCHIVE_READ);
	FUZZ_ASSERT(!strcmp(path, copy));
	FUZZ_ASSERT(shfs_rules_match(rules, path, true) == rule);
	if (rule != SHFS_RULE_IGNORE || !*path)
		return;
	FUZZ_ASSERT(asprintf(&below, "%s/below", path) > 0);
	FUZZ_ASSERT(shfs_rules_match(rules, below, false) == SHFS_RULE_IGNORE);
}

void fuzz_rules(const uint8_t *data, size_t size)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };
	char none[] = "";
	struct shfs_config config = { .ignore = none, .archive_read = none };
	struct shfs_rules *rules;
	const char *p, *end;

	shfs_buf_add(&text, data, size);
	FUZZ_ASSERT(shfs_rules_new(&config, text.data, &rules) == 0);
	p = text.data;
	end = text.data + text.len;
	for (p += strlen(p) + 1; p < end; p += strlen(p) + 1)
		match(rules, p);
	shfs_rules_free(rules);
}
