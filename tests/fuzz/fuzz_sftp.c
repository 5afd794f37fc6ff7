/* SPDX-License-Identifier: MIT */
/*
 * What a server of SFTP sends: packets, one behind the other, each of which is read as
 * everything that a client may have asked for; and a URL of such a server ('u').
 */
#include "tests/fuzz/fuzz.h"

#include "query/remote/ssh/sftp-packet.h"
#include "query/remote/ssh/url.h"

#include <string.h>

static int touch_name(void *arg, struct shfs_bytes name, const struct sftp_attrs *attrs)
{
	fuzz_touch(name);
	FUZZ_ASSERT(attrs->has_bytes || !attrs->bytes);
	FUZZ_ASSERT(attrs->has_mode || !attrs->mode);
	return 0;
}

static void read_packet(const struct sftp_reply *packet)
{
	struct sftp_extensions extensions;
	struct sftp_limits limits;
	struct sftp_handle handle;
	struct sftp_attrs attrs;
	struct sftp_reply reply;
	struct shfs_bytes bytes;
	uint64_t blocks, files;
	uint32_t status;
	unsigned n_read = 0;

	/* none is taken for two things */
	reply = *packet;
	n_read += !sftp_read_extensions(&reply, &extensions);
	reply = *packet;
	if (!sftp_read_status(&reply, &status, &bytes)) {
		fuzz_touch(bytes);
		n_read++;
	}
	reply = *packet;
	if (!sftp_read_handle(&reply, &handle)) {
		FUZZ_ASSERT(handle.len <= SFTP_HANDLE_MAX);
		fuzz_touch((struct shfs_bytes){ handle.data, handle.len });
		n_read++;
	}
	reply = *packet;
	if (!sftp_read_data(&reply, &bytes)) {
		fuzz_touch(bytes);
		n_read++;
	}
	reply = *packet;
	n_read += !sftp_read_attrs(&reply, &attrs);
	reply = *packet;
	n_read += !sftp_read_names(&reply, touch_name, NULL);
	FUZZ_ASSERT(n_read <= 1);
	reply = *packet;
	if (!sftp_read_free(&reply, &blocks, &files)) {
		reply = *packet;
		FUZZ_ASSERT(!sftp_read_limits(&reply, &limits));
	}
}

static void read_packets(const uint8_t *data, size_t size)
{
	struct sftp_reply packet;

	while (size) {
		ssize_t n = sftp_take_packet(data, size, &packet);

		sftp_is_text(data, size);
		if (n <= 0)
			return;
		FUZZ_ASSERT((size_t)n <= size && n >= 9);
		FUZZ_ASSERT(packet.body.end == data + n);
		read_packet(&packet);
		data += n;
		size -= (size_t)n;
	}
}

/* What can be parsed is no option of ssh, and the same when it is parsed again. */
static void parse_url(const uint8_t *data, size_t size)
{
	_cleanup_free_ char *text = strndup((const char *)data, size), *url = NULL;
	_cleanup_ssh_url_ struct ssh_url parsed = { 0 };

	FUZZ_ASSERT(text);
	if (ssh_url_is_short(text) && !ssh_url_of_short(text, &url))
		FUZZ_ASSERT(!ssh_url_is_short(url) && !ssh_url_parse(url, &parsed));
	ssh_url_clear(&parsed);
	if (ssh_url_parse(text, &parsed))
		return;
	FUZZ_ASSERT(*parsed.host && *parsed.host != '-' && *parsed.path);
	FUZZ_ASSERT(parsed.port <= 65535 && !strchr(parsed.host, ' '));
}

void fuzz_sftp(const uint8_t *data, size_t size)
{
	if (size && *data == 'u')
		parse_url(data + 1, size - 1);
	else
		read_packets(data, size);
}
