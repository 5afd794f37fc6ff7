/* SPDX-License-Identifier: MIT */
#include "query/remote/peer/host.h"

#include "common/io.h"
#include "common/quote.h"
#include "query/remote/peer/peer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define FILE_NAME "host"
#define BYTES_MAX 65536

int host_parse(const char *text, struct ssh_url *out)
{
	_cleanup_free_ char *whole = NULL;
	bool is_url = !strncmp(text, SSH_SCHEME, strlen(SSH_SCHEME));
	int r = 0;

	if (ssh_url_is_short(text))
		r = ssh_url_of_short(text, &whole);
	else if (is_url && strchr(text + strlen(SSH_SCHEME), '/'))
		whole = strdup(text);
	else if (!is_url && strchr(text, '/'))
		return -EINVAL;
	else if (asprintf(&whole, "%s%s/~/.", is_url ? "" : SSH_SCHEME, text) < 0)
		whole = NULL;
	if (!r && !whole)
		r = -ENOMEM;
	return r ? r : ssh_url_parse(whole, out);
}

int host_note(const struct place *place, const char *host, const char *program)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };

	shfs_buf_printf(&text, "%s\n%s", host, program);
	return text.failed ? -ENOMEM
	                   : shfs_write_file_at(place->dirfd, FILE_NAME, 0600, text.data,
	                                        text.len);
}

int host_read(const struct place *place, char **host, char **program)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };
	_cleanup_free_ char *name = NULL, *line = NULL;
	int r = shfs_read_file_at(place->dirfd, FILE_NAME, BYTES_MAX, &text);
	size_t len;

	if (r)
		return r;
	shfs_buf_u8(&text, 0);
	if (text.failed)
		return -ENOMEM;
	len = strcspn(text.data, "\n");
	if (!text.data[len])
		return -EBADMSG;
	name = strndup(text.data, len);
	line = strdup(text.data + len + 1);
	if (!name || !line)
		return -ENOMEM;
	*host = TAKE_PTR(name);
	*program = TAKE_PTR(line);
	return 0;
}

/* Makes the line that the shell there runs. */
static int make_command(const struct ssh_url *url, const char *program, char **out)
{
	_cleanup_buf_ struct shfs_buf b = { 0 };

	shfs_buf_str(&b, program);
	if (strcmp(url->path, ".") != 0) {
		shfs_buf_str(&b, " --store ");
		shfs_quote_shell(&b, url->path, strlen(url->path));
	}
	shfs_buf_str(&b, " serve");
	*out = shfs_buf_take(&b);
	return *out ? 0 : -ENOMEM;
}

int host_open(const struct ssh_url *url, const char *program, struct shfs_buf *why,
              struct shfs_remote **out)
{
	_cleanup_free_ char *command = NULL;
	int r = make_command(url, program, &command);

	return r ? r : peer_open(url, command, why, out);
}
