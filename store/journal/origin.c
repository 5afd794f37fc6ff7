/* SPDX-License-Identifier: MIT */
#include "store/journal/origin.h"

#include "common/proc.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

/* The part of a value that was not taken yet. */
struct rest {
	const char *at;
	size_t len;
};

static bool take_char(struct rest *rest, char c)
{
	if (!rest->len || *rest->at != c)
		return false;
	rest->at++;
	rest->len--;
	return true;
}

/* Takes a number of a length that fits, without zeros in front. */
static bool take_number(struct rest *rest, uint64_t max, uint64_t *out)
{
	uint64_t n = 0;
	size_t len = 0;

	for (; len < rest->len && isdigit((unsigned char)rest->at[len]); len++)
		if (__builtin_mul_overflow(n, 10, &n) ||
		    __builtin_add_overflow(n, (uint64_t)(rest->at[len] - '0'), &n))
			return false;
	if (!len || (*rest->at == '0' && len > 1) || n > max)
		return false;
	rest->at += len;
	rest->len -= len;
	*out = n;
	return true;
}

/* Takes the name of a host, as shfs_proc_host gives usual ones. */
static bool take_host(struct rest *rest, char out[static 65])
{
	size_t len = 0;

	while (len < rest->len &&
	       (isalnum((unsigned char)rest->at[len]) || memchr("._-", rest->at[len], 3)))
		len++;
	if (!len || len > 64 || *rest->at == '.')
		return false;
	memcpy(out, rest->at, len);
	out[len] = '\0';
	rest->at += len;
	rest->len -= len;
	return true;
}

static bool take_boot(struct rest *rest, char out[static 9])
{
	for (size_t i = 0; i < 8; i++, rest->at++, rest->len--) {
		if (!rest->len || !memchr("0123456789abcdef", *rest->at, 16))
			return false;
		out[i] = *rest->at;
	}
	out[8] = '\0';
	return true;
}

int shfs_origin_parse(struct shfs_bytes value, struct shfs_origin *out)
{
	struct rest rest = { value.data, value.len };
	struct shfs_origin o = { .pid = 0 };
	uint64_t pid;

	if (!value.len || value.len > SHFS_ORIGIN_MAX || !take_host(&rest, o.host) ||
	    !take_char(&rest, ':') || !take_boot(&rest, o.boot) ||
	    !take_char(&rest, '-') || !take_number(&rest, UINT32_MAX, &pid) ||
	    !take_char(&rest, '-') || !take_number(&rest, INT64_MAX, &o.start_ticks) ||
	    !take_char(&rest, ':') || !take_number(&rest, INT64_MAX, &o.number) ||
	    rest.len || !pid || !o.number)
		return -EBADMSG;
	o.pid = pid;
	*out = o;
	return 0;
}

/* Does the marker in the environment name the command, too? The hook of a shell sets
 * both; this host may have had another name then. */
static bool is_in_marker(struct shfs_bytes environ, struct shfs_bytes value)
{
	struct shfs_bytes session = shfs_environ_variable(environ, "SHFS_SESSION");
	struct shfs_bytes number = shfs_environ_variable(environ, "SHFS_COMMAND");
	const char *colon = memchr(value.data, ':', value.len), *end;
	size_t len;

	if (!colon || !session.data || !number.data)
		return false;
	end = memrchr(value.data, ':', value.len);
	len = end > colon ? (size_t)(end - colon - 1) : 0;
	return len && session.len >= len && !memcmp(session.data, colon + 1, len) &&
	       (session.len == len || session.data[len] == '-') &&
	       number.len == (size_t)(value.data + value.len - end - 1) &&
	       !memcmp(number.data, end + 1, number.len);
}

void shfs_origin_add(struct shfs_bytes environ, struct shfs_buf *out)
{
	struct shfs_bytes value = shfs_environ_variable(environ, SHFS_ORIGIN_VARIABLE);
	struct shfs_origin origin;
	char here[65];

	if (!value.len || shfs_origin_parse(value, &origin))
		return;
	shfs_proc_host(here);
	if (!strcmp(origin.host, here) || is_in_marker(environ, value))
		return;
	shfs_buf_char(out, '@');
	shfs_buf_add(out, value.data, value.len);
}

struct shfs_bytes shfs_origin_of_marker(struct shfs_bytes marker)
{
	const char *at = marker.len ? memchr(marker.data, '@', marker.len) : NULL;

	return at ? (struct shfs_bytes){ at + 1, marker.data + marker.len - at - 1 }
	          : (struct shfs_bytes){ NULL, 0 };
}
