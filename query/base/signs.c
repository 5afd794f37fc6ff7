/* SPDX-License-Identifier: MIT */
/* Makes ASCII of the signs of shfs where the locale has no UTF-8. */
#include "query/base/model.h"

#include "common/quote.h"

#include <langinfo.h>
#include <string.h>

static const struct {
	const char *sign, *ascii;
} signs[] = {
	{ "└─", "`-" }, { "├─", "|-" }, { "│", "|" }, { "─", "-" },   { "←", "<-" },
	{ "→", "->" },  { "›", ">" },   { "▪", "#" }, { "…", "..." },
};

/* Decided once: a screen changes the locale later. */
static bool is_utf8(void)
{
	static int decided = -1;

	if (decided < 0)
		decided = !strcmp(nl_langinfo(CODESET), "UTF-8");
	return decided;
}

/* Returns the ASCII for the sign at text, and its length in *len. NULL: there is no sign.
 */
static const char *ascii_of(const char *text, size_t *len)
{
	for (size_t i = 0; i < ARRAY_SIZE(signs); i++) {
		*len = strlen(signs[i].sign);
		if (!strncmp(text, signs[i].sign, *len))
			return signs[i].ascii;
	}
	return NULL;
}

const char *shfs_sign(const char *sign)
{
	size_t len;

	return is_utf8() ? sign : ascii_of(sign, &len);
}

void shfs_show_signs(struct shfs_buf *out, const char *text)
{
	const char *ascii;
	size_t len;

	if (is_utf8()) {
		shfs_buf_str(out, text);
		return;
	}
	while (*text) {
		ascii = *text & 0x80 ? ascii_of(text, &len) : NULL;
		if (ascii)
			shfs_buf_str(out, ascii);
		else
			shfs_buf_char(out, *text);
		text += ascii ? len : 1;
	}
}

size_t shfs_signs_width(const char *text)
{
	_cleanup_buf_ struct shfs_buf shown = { 0 };

	shfs_show_signs(&shown, text);
	return shown.failed ? strlen(text) : shfs_quote_width(shown.data, shown.len);
}
