/* SPDX-License-Identifier: MIT */
#include "query/remote/ssh/sftp-packet.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#define ATTR_SIZE        1u
#define ATTR_UIDGID      2u
#define ATTR_PERMISSIONS 4u
#define ATTR_TIMES       8u
#define ATTR_EXTENDED    0x80000000u

/* --- what a client sends --- */

void sftp_put_u32(struct shfs_buf *b, uint32_t v)
{
	v = htobe32(v);
	shfs_buf_add(b, &v, sizeof(v));
}

void sftp_put_u64(struct shfs_buf *b, uint64_t v)
{
	v = htobe64(v);
	shfs_buf_add(b, &v, sizeof(v));
}

void sftp_put_bytes(struct shfs_buf *b, const void *data, size_t len)
{
	sftp_put_u32(b, (uint32_t)len);
	shfs_buf_add(b, data, len);
}

void sftp_put_mode(struct shfs_buf *b, int mode)
{
	sftp_put_u32(b, mode < 0 ? 0 : ATTR_PERMISSIONS);
	if (mode >= 0)
		sftp_put_u32(b, (uint32_t)mode);
}

size_t sftp_begin_packet(struct shfs_buf *b, enum sftp_type type)
{
	size_t begin = b->len;

	sftp_put_u32(b, 0);
	shfs_buf_u8(b, (uint8_t)type);
	return begin;
}

void sftp_end_packet(struct shfs_buf *b, size_t begin)
{
	uint32_t len = htobe32((uint32_t)(b->len - begin - sizeof(len)));

	if (!b->failed)
		memcpy(b->data + begin, &len, sizeof(len));
}

/* --- what a server sends --- */

static uint32_t get_u32(struct shfs_cursor *c)
{
	uint32_t v = 0;

	shfs_cursor_copy(c, &v, sizeof(v));
	return be32toh(v);
}

static uint64_t get_u64(struct shfs_cursor *c)
{
	uint64_t v = 0;

	shfs_cursor_copy(c, &v, sizeof(v));
	return be64toh(v);
}

static struct shfs_bytes get_bytes(struct shfs_cursor *c)
{
	uint32_t len = get_u32(c);
	struct shfs_bytes bytes = { (const char *)c->p, len };

	if (c->failed || len > (size_t)(c->end - c->p)) {
		c->failed = true;
		return (struct shfs_bytes){ "", 0 };
	}
	c->p += len;
	return bytes;
}

static bool is_word(struct shfs_bytes bytes, const char *word)
{
	return bytes.len == strlen(word) && !memcmp(bytes.data, word, bytes.len);
}

ssize_t sftp_take_packet(const void *data, size_t len, struct sftp_reply *out)
{
	struct shfs_cursor c = { data, (const unsigned char *)data + len, false };
	uint32_t bytes;

	if (len < sizeof(bytes))
		return 0;
	bytes = get_u32(&c);
	if (bytes > SFTP_PACKET_MAX)
		return -EMSGSIZE;
	if (bytes < 5) /* a type and a number */
		return -EPROTO;
	if (bytes > (size_t)(c.end - c.p))
		return 0;
	c.end = c.p + bytes;
	out->type = shfs_cursor_u8(&c);
	out->id = get_u32(&c);
	out->body = c;
	return (ssize_t)(bytes + sizeof(bytes));
}

bool sftp_is_text(const void *data, size_t len)
{
	const unsigned char *p = data;

	/* the length of a packet begins with a zero */
	return len && (*p >= ' ' || *p == '\n' || *p == '\r' || *p == '\t' || *p == 033);
}

static int check_reply(const struct sftp_reply *reply, enum sftp_type type)
{
	return reply->type == type ? 0 : -EPROTO;
}

static int check_body(const struct sftp_reply *reply)
{
	return reply->body.failed ? -EPROTO : 0;
}

static void note_extension(struct sftp_extensions *e, struct shfs_bytes name,
                           struct shfs_bytes version)
{
	const struct {
		const char *name, *version;
		bool *has;
	} known[] = {
		{ "fsync@openssh.com", "1", &e->fsync },
		{ "hardlink@openssh.com", "1", &e->hardlink },
		{ "limits@openssh.com", "1", &e->limits },
		{ "expand-path@openssh.com", "1", &e->expand_path },
		{ "statvfs@openssh.com", "2", &e->statvfs },
	};

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (is_word(name, known[i].name) && is_word(version, known[i].version))
			*known[i].has = true;
}

int sftp_read_extensions(struct sftp_reply *reply, struct sftp_extensions *out)
{
	struct shfs_cursor *c = &reply->body;
	struct sftp_extensions found = { 0 };

	if (check_reply(reply, SFTP_VERSION))
		return -EPROTO;
	while (c->p < c->end && !c->failed) {
		struct shfs_bytes name = get_bytes(c), version = get_bytes(c);

		note_extension(&found, name, version);
	}
	if (!c->failed)
		*out = found;
	return check_body(reply);
}

int sftp_read_limits(struct sftp_reply *reply, struct sftp_limits *out)
{
	struct sftp_limits found;

	if (check_reply(reply, SFTP_EXTENDED_REPLY))
		return -EPROTO;
	found.packet = get_u64(&reply->body);
	found.read = get_u64(&reply->body);
	found.write = get_u64(&reply->body);
	if (!reply->body.failed)
		*out = found;
	return check_body(reply);
}

int sftp_read_status(struct sftp_reply *reply, uint32_t *status,
                     struct shfs_bytes *message)
{
	uint32_t found;

	if (check_reply(reply, SFTP_STATUS))
		return -EPROTO;
	found = get_u32(&reply->body);
	if (reply->body.failed)
		return -EPROTO;
	*status = found;
	/* servers of earlier versions send no text */
	*message = get_bytes(&reply->body);
	return 0;
}

int sftp_read_handle(struct sftp_reply *reply, struct sftp_handle *out)
{
	struct shfs_bytes bytes;

	if (check_reply(reply, SFTP_HANDLE))
		return -EPROTO;
	bytes = get_bytes(&reply->body);
	if (reply->body.failed || bytes.len > SFTP_HANDLE_MAX)
		return -EPROTO;
	out->len = bytes.len;
	memcpy(out->data, bytes.data, bytes.len);
	return 0;
}

int sftp_read_data(struct sftp_reply *reply, struct shfs_bytes *out)
{
	struct shfs_bytes bytes;

	if (check_reply(reply, SFTP_DATA))
		return -EPROTO;
	bytes = get_bytes(&reply->body);
	if (!reply->body.failed)
		*out = bytes;
	return check_body(reply);
}

static void get_attrs(struct shfs_cursor *c, struct sftp_attrs *out)
{
	uint32_t flags = get_u32(c);

	*out = (struct sftp_attrs){ .has_bytes = flags & ATTR_SIZE,
		                    .has_mode = flags & ATTR_PERMISSIONS };
	if (flags & ATTR_SIZE)
		out->bytes = get_u64(c);
	if (flags & ATTR_UIDGID)
		get_u64(c);
	if (flags & ATTR_PERMISSIONS)
		out->mode = get_u32(c);
	if (flags & ATTR_TIMES)
		get_u64(c);
	if (!(flags & ATTR_EXTENDED))
		return;
	for (uint32_t n = get_u32(c); n && !c->failed; n--) {
		get_bytes(c);
		get_bytes(c);
	}
}

int sftp_read_attrs(struct sftp_reply *reply, struct sftp_attrs *out)
{
	struct sftp_attrs attrs;

	if (check_reply(reply, SFTP_ATTRS))
		return -EPROTO;
	get_attrs(&reply->body, &attrs);
	if (!reply->body.failed)
		*out = attrs;
	return check_body(reply);
}

int sftp_read_names(struct sftp_reply *reply, sftp_name_fn fn, void *arg)
{
	struct shfs_cursor *c = &reply->body;
	int r = check_reply(reply, SFTP_NAME);
	uint32_t n = r ? 0 : get_u32(c);

	while (n-- && !r) {
		struct shfs_bytes name = get_bytes(c);
		struct sftp_attrs attrs;

		get_bytes(c); /* as ls -l has it */
		get_attrs(c, &attrs);
		r = c->failed ? -EPROTO : fn(arg, name, &attrs);
	}
	return r ? r : check_body(reply);
}

int sftp_read_free(struct sftp_reply *reply, uint64_t *blocks, uint64_t *files)
{
	uint64_t v[11]; /* as statvfs(3) has them */

	if (check_reply(reply, SFTP_EXTENDED_REPLY))
		return -EPROTO;
	for (size_t i = 0; i < ARRAY_SIZE(v); i++)
		v[i] = get_u64(&reply->body);
	if (reply->body.failed)
		return -EPROTO;
	*blocks = v[4];
	*files = v[5] ? v[7] : 1; /* some have no number of files */
	return 0;
}
