/* SPDX-License-Identifier: MIT */
/* A byte for how it is read, patterns of the user's up to a NUL, then text: what comes
 * out has no secret any more, and nothing in it is new but marks. */
#include "tests/fuzz/fuzz.h"

#include "common/secrets.h"

#include <string.h>

/* Is small what is left of large, in its order, with marks between? */
static bool is_left_of(const char *small, size_t small_len, const char *large,
                       size_t large_len)
{
	size_t mark = strlen(SHFS_REDACTED), at = 0;

	for (size_t i = 0; i < small_len; i++) {
		const char *found;

		if (small_len - i >= mark && !memcmp(small + i, SHFS_REDACTED, mark)) {
			i += mark - 1;
			continue;
		}
		found = memchr(large + at, small[i], large_len - at);
		if (!found)
			return false;
		at = (size_t)(found - large) + 1;
	}
	return true;
}

static void redact(struct shfs_redactor *r, const char *text, size_t len, bool separated)
{
	_cleanup_free_ char *once = NULL, *twice = NULL;
	size_t once_len = 0, twice_len = 0;
	int n = shfs_redact(r, text, len, separated, &once, &once_len);

	FUZZ_ASSERT(n == 0 || n == 1);
	if (!n)
		return;
	fuzz_touch((struct shfs_bytes){ once, once_len });
	FUZZ_ASSERT(!once[once_len]);
	FUZZ_ASSERT(is_left_of(once, once_len, text, len));
	n = shfs_redact(r, once, once_len, separated, &twice, &twice_len);
	FUZZ_ASSERT(n >= 0);
}

/* Compiling all of them each time would take most of the time. */
static struct shfs_redactor *built_in;

static void free_built_in(void)
{
	shfs_redactor_free(built_in);
}

static void begin(void)
{
	char none[] = "";
	struct shfs_config config = { .redact = true, .secrets = none };

	FUZZ_ASSERT(shfs_secrets_redactor(&config, &built_in) == 0);
	atexit(free_built_in);
}

void fuzz_redact(const uint8_t *data, size_t size)
{
	_cleanup_buf_ struct shfs_buf input = { 0 };
	struct shfs_redactor *own;
	size_t len;
	char *text;

	if (!built_in)
		begin();
	if (!size || size > 16384)
		return;
	shfs_buf_add(&input, data + 1, size - 1);
	(void)!shfs_secrets_fault(input.data);
	own = shfs_redactor_new(input.data);
	FUZZ_ASSERT(own);
	text = input.data + strlen(input.data);
	text += text < input.data + input.len;
	len = (size_t)(input.data + input.len - text);
	redact(built_in, text, len, *data & 1);
	redact(own, text, len, *data & 1);
	shfs_redactor_free(own);
}
