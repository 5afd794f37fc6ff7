/* SPDX-License-Identifier: MIT */
#include "query/remote/ssh/url.h"

#include <errno.h>
#include <string.h>

void ssh_url_clear(struct ssh_url *url)
{
	free(url->host);
	free(url->path);
	*url = (struct ssh_url){ 0 };
}

/* --- host:path --- */

/* Where the colon is behind the host, which may be [::1]; or NULL. */
static const char *find_colon(const char *text)
{
	const char *at = strchr(text, '@'), *slash = strchr(text, '/'), *host, *colon;

	host = at && (!slash || at < slash) ? at + 1 : text;
	if (*host == '[') {
		colon = strchr(host, ']');
		return colon && colon[1] == ':' ? colon + 1 : NULL;
	}
	colon = strchr(text, ':');
	return colon && (!slash || colon < slash) ? colon : NULL;
}

bool ssh_url_is_short(const char *text)
{
	const char *colon = find_colon(text);

	return colon && strncmp(colon, "://", 3) != 0;
}

/* Of "[host:port]", which scp and git have, the brackets go; those of "[::1]" stay. */
static void print_host(struct shfs_buf *out, const char *text, size_t len)
{
	const char *open = memchr(text, '[', len);
	const char *first = open ? strchr(open, ':') : NULL;

	if (!open || text[len - 1] != ']' || !first ||
	    strchr(first + 1, ':') < text + len)
		return shfs_buf_add(out, text, len);
	shfs_buf_add(out, text, (size_t)(open - text));
	shfs_buf_add(out, open + 1, (size_t)(text + len - 1 - (open + 1)));
}

int ssh_url_of_short(const char *text, char **out)
{
	const char *colon = find_colon(text);
	_cleanup_ssh_url_ struct ssh_url url = { 0 };
	struct shfs_buf whole = { 0 };
	int r;

	if (!colon || !colon[1])
		return -EINVAL;
	shfs_buf_str(&whole, SSH_SCHEME);
	print_host(&whole, text, (size_t)(colon - text));
	if (colon[1] != '/')
		shfs_buf_str(&whole, colon[1] == '~' ? "/" : "/~/");
	for (const char *c = colon + 1; *c; c++)
		if (*c == '%')
			shfs_buf_str(&whole, "%25");
		else
			shfs_buf_char(&whole, *c);
	if (whole.failed) {
		shfs_buf_free(&whole);
		return -ENOMEM;
	}
	r = ssh_url_parse(whole.data, &url);
	if (r)
		shfs_buf_free(&whole);
	else
		*out = shfs_buf_take(&whole);
	return r;
}

/* --- ssh://host/path --- */

static int hex_digit(char c)
{
	const char *digits = "0123456789abcdef", *found;

	if (c >= 'A' && c <= 'F')
		c = (char)(c - 'A' + 'a');
	found = c ? strchr(digits, c) : NULL;
	return found ? (int)(found - digits) : -1;
}

/* Copies, with "%20" as a space. -EINVAL. */
static int unescape(const char *text, size_t len, char **out)
{
	_cleanup_buf_ struct shfs_buf b = { 0 };

	shfs_buf_str(&b, "");
	for (size_t i = 0; i < len; i++) {
		int high = i + 2 < len ? hex_digit(text[i + 1]) : -1;
		int low = i + 2 < len ? hex_digit(text[i + 2]) : -1;
		char c = text[i];

		if (c == '%') {
			if (high < 0 || low < 0)
				return -EINVAL;
			c = (char)(high << 4 | low);
			i += 2;
		}
		if ((unsigned char)c < ' ' || c == 0x7f)
			return -EINVAL;
		shfs_buf_char(&b, c);
	}
	*out = shfs_buf_take(&b);
	return *out ? 0 : -ENOMEM;
}

/* Takes the ":port" off the host. */
static int split_port(const char *text, size_t *len, unsigned *port)
{
	const char *colon = memrchr(text, ':', *len);
	unsigned long found = 0;

	*port = 0;
	if (!colon || memchr(colon, ']', *len - (size_t)(colon - text)))
		return 0;
	for (const char *c = colon + 1; c < text + *len; c++) {
		if (*c < '0' || *c > '9' || found > 65535)
			return -EINVAL;
		found = found * 10 + (unsigned long)(*c - '0');
	}
	*len = (size_t)(colon - text);
	/* "host:" is there, too: the usual port */
	if (colon[1] != '/' && (!found || found > 65535))
		return -EINVAL;
	*port = (unsigned)found;
	return 0;
}

/* Takes the brackets off "[::1]", which ssh does not want. */
static void strip_brackets(char *host)
{
	char *open = strchr(host, '['), *close = strrchr(host, ']');

	if (!open || !close || close[1] || (open > host && open[-1] != '@'))
		return;
	*close = '\0';
	memmove(open, open + 1, strlen(open));
}

/* ssh and the shells that it is started by must take it for nothing but a host. */
static bool is_host(const char *host)
{
	const char *at = strrchr(host, '@'), *name = at ? at + 1 : host;

	return *host != '-' && *name != '-' && *name && at != host &&
	       !strpbrk(host, " /\\\"'`$;&|<>()*?");
}

int ssh_url_parse(const char *text, struct ssh_url *out)
{
	_cleanup_ssh_url_ struct ssh_url url = { 0 };
	const char *slash;
	size_t len;
	int r;

	if (strncmp(text, SSH_SCHEME, strlen(SSH_SCHEME)) != 0)
		return -EINVAL;
	text += strlen(SSH_SCHEME);
	slash = strchr(text, '/');
	if (!slash || !slash[1])
		return -EINVAL;
	len = (size_t)(slash - text);
	r = split_port(text, &len, &url.port);
	if (!r)
		r = unescape(text, len, &url.host);
	if (!r && slash[1] == '~')
		slash += strncmp(slash, "/~/", 3) ? 1 : 3;
	if (!r)
		r = unescape(slash, strlen(slash), &url.path);
	if (r)
		return r;
	strip_brackets(url.host);
	if (!is_host(url.host) || !*url.path)
		return -EINVAL;
	*out = url;
	url = (struct ssh_url){ 0 };
	return 0;
}
