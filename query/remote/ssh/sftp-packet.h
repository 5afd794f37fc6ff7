/* SPDX-License-Identifier: MIT */
/*
 * sftp-packet.h - the packets of SFTP version 3 (draft-ietf-secsh-filexfer-02), and what
 * OpenSSH adds to it: makes those of a client, and reads those of a server, which is not
 * trusted. Numbers are big-endian. Nothing here does input or output.
 */
#pragma once

#include "common/buf.h"

#include <sys/types.h>

#define SFTP_PACKET_MAX (256u << 10) /* bytes behind the length, as OpenSSH has it */
#define SFTP_HANDLE_MAX 256

enum sftp_type {
	SFTP_INIT = 1,
	SFTP_VERSION = 2,
	SFTP_OPEN = 3,
	SFTP_CLOSE = 4,
	SFTP_READ = 5,
	SFTP_WRITE = 6,
	SFTP_LSTAT = 7,
	SFTP_SETSTAT = 9,
	SFTP_FSETSTAT = 10,
	SFTP_OPENDIR = 11,
	SFTP_READDIR = 12,
	SFTP_REMOVE = 13,
	SFTP_MKDIR = 14,
	SFTP_STAT = 17,
	SFTP_RENAME = 18,
	SFTP_STATUS = 101,
	SFTP_HANDLE = 102,
	SFTP_DATA = 103,
	SFTP_NAME = 104,
	SFTP_ATTRS = 105,
	SFTP_EXTENDED = 200,
	SFTP_EXTENDED_REPLY = 201,
};

enum sftp_status {
	SFTP_OK = 0,
	SFTP_EOF = 1,
	SFTP_NO_SUCH_FILE = 2,
	SFTP_PERMISSION_DENIED = 3,
	SFTP_FAILURE = 4,
	SFTP_NO_CONNECTION = 6,
	SFTP_CONNECTION_LOST = 7,
	SFTP_OP_UNSUPPORTED = 8,
};

enum sftp_open_flags {
	SFTP_OPEN_READ = 1,
	SFTP_OPEN_WRITE = 2,
	SFTP_OPEN_CREATE = 8,
	SFTP_OPEN_EXCLUSIVE = 32,
};

/* --- what a client sends --- */

/* A packet is begun, gets its fields, and is ended. Returns what end wants. */
size_t sftp_begin_packet(struct shfs_buf *b, enum sftp_type type);
void sftp_end_packet(struct shfs_buf *b, size_t begin);
void sftp_put_u32(struct shfs_buf *b, uint32_t v);
void sftp_put_u64(struct shfs_buf *b, uint64_t v);
void sftp_put_bytes(struct shfs_buf *b, const void *data, size_t len);
/* Attributes: permissions, or none if mode is -1. */
void sftp_put_mode(struct shfs_buf *b, int mode);

/* --- what a server sends --- */

/* What a packet has behind its type and number; borrowed. */
struct sftp_reply {
	uint8_t type;
	uint32_t id; /* of VERSION: its number */
	struct shfs_cursor body;
};

/* Takes one packet from the begin of the bytes. Returns how many bytes it has; 0: it is
 * not complete; -EMSGSIZE: it is longer than any of SFTP is; -EPROTO: it is none. */
_must_check_ ssize_t sftp_take_packet(const void *data, size_t len,
                                      struct sftp_reply *out);

/* Is this what a program has written that does not speak SFTP? len: bytes that came. */
bool sftp_is_text(const void *data, size_t len);

struct sftp_handle {
	size_t len;
	char data[SFTP_HANDLE_MAX];
};

struct sftp_attrs {
	bool has_bytes, has_mode;
	uint64_t bytes;
	uint32_t mode; /* with the type of the file, as of stat(2) */
};

/* Which extensions a server has, of those that are used here. */
struct sftp_extensions {
	bool fsync, hardlink, limits, expand_path, statvfs;
};

struct sftp_limits {
	uint64_t packet, read, write; /* bytes; 0: not told */
};

/* Each reads the body of a reply. -EPROTO: it has another type, or is cut off. */
_must_check_ int sftp_read_extensions(struct sftp_reply *reply,
                                      struct sftp_extensions *out);
_must_check_ int sftp_read_limits(struct sftp_reply *reply, struct sftp_limits *out);
/* *message: what the server says, borrowed; maybe "". */
_must_check_ int sftp_read_status(struct sftp_reply *reply, uint32_t *status,
                                  struct shfs_bytes *message);
_must_check_ int sftp_read_handle(struct sftp_reply *reply, struct sftp_handle *out);
_must_check_ int sftp_read_data(struct sftp_reply *reply, struct shfs_bytes *out);
_must_check_ int sftp_read_attrs(struct sftp_reply *reply, struct sftp_attrs *out);
/* Calls fn for each name, which is borrowed and may be any bytes. Its result, if not 0,
 * ends that. */
typedef int (*sftp_name_fn)(void *arg, struct shfs_bytes name,
                            const struct sftp_attrs *attrs);
_must_check_ int sftp_read_names(struct sftp_reply *reply, sftp_name_fn fn, void *arg);
/* How many blocks, and how many files, of which file system may be made by a user. */
_must_check_ int sftp_read_free(struct sftp_reply *reply, uint64_t *blocks,
                                uint64_t *files);
