/* SPDX-License-Identifier: MIT */
#include "common/secrets.h"

#include "common/buf.h"
#include "secrets-list.h"

#include <errno.h>
#include <string.h>

/* clang-format off */
#define FIRST_WORD(but)                                                                  \
	"\"([^\"$`\\\\]|\\\\.)([^\"\\\\]|\\\\.)*\"|\\$?'[^']+'|\\\\.|"                   \
	"[^" but "[:space:]\"'$`\\\\<>|&;()]"
#define NEXT_WORD                                                                        \
	"\"[^\"[:space:]]*\"|'[^'[:space:]]*'|\\\\.|[^[:space:]\"'`\\\\<>|&;()]"
/* clang-format on */

static const struct {
	const char *name, *text;
} macros[] = {
	{ "<word>", "((" FIRST_WORD("") ")(" NEXT_WORD ")*)" },
	{ "<argument>", "((" FIRST_WORD("-") ")(" NEXT_WORD ")*)" },
	{ "<text>", "([^[:space:]\"'$`\\\\<>][^[:space:]\"'`]*)" },
};

/* Returns the number of the macro at p, or -1. */
static int macro_at(const char *p)
{
	for (size_t i = 0; i < ARRAY_SIZE(macros); i++)
		if (!strncmp(p, macros[i].name, strlen(macros[i].name)))
			return (int)i;
	return -1;
}

static void add_expanded(struct shfs_buf *out, const char *text)
{
	for (const char *p = text; *p;) {
		int i = *p == '<' ? macro_at(p) : -1;

		if (i < 0) {
			shfs_buf_char(out, *p++);
			continue;
		}
		shfs_buf_str(out, macros[i].text);
		p += strlen(macros[i].name);
	}
}

char *shfs_secrets_patterns(const struct shfs_config *config)
{
	struct shfs_buf out = { 0 };

	shfs_buf_str(&out, "");
	if (config->redact) {
		add_expanded(&out, secrets_list);
		add_expanded(&out, config->secrets);
	}
	return shfs_buf_take(&out);
}

int shfs_secrets_redactor(const struct shfs_config *config, struct shfs_redactor **out)
{
	_cleanup_free_ char *patterns = shfs_secrets_patterns(config);

	*out = NULL;
	if (!patterns)
		return -ENOMEM;
	if (!*patterns)
		return 0;
	*out = shfs_redactor_new(patterns);
	return *out ? 0 : -ENOMEM;
}

const char *shfs_secrets_fault(const char *pattern)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };

	shfs_buf_str(&text, "");
	add_expanded(&text, pattern);
	return text.failed ? "no memory" : shfs_redact_fault(text.data);
}
