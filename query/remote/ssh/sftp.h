/* SPDX-License-Identifier: MIT */
/*
 * sftp.h - a client of SFTP, over a socket that leads to a server.
 *
 * A request is asked, which returns its number, and is answered later: so many are on
 * their way at once, and a slow link is waited for once, not once for each. Each request
 * that was asked must be answered for. Answers may come in any order.
 *
 * All functions return 0 or a negative errno: -ENOENT, -EACCES, -EIO (the server says no
 * more), -EOPNOTSUPP, -ENODATA (the end); -ENOLINK: the connection is lost; -EPROTO: the
 * other side does not speak SFTP. After these two all further ones fail. One thread.
 */
#pragma once

#include "query/remote/ssh/sftp-packet.h"

struct sftp;

/* Begins: fd is borrowed. *why gets what is to be said of an error. */
_must_check_ int sftp_new(int fd, struct shfs_buf *why, struct sftp **out);
void sftp_free(struct sftp *s);

const struct sftp_extensions *sftp_extensions(const struct sftp *s);
/* How many bytes one read or write may have, and how many may be on their way. */
size_t sftp_read_max(const struct sftp *s);
size_t sftp_write_max(const struct sftp *s);
#define SFTP_FLIGHT_BYTES (2u << 20)

/* --- requests --- */

/* LSTAT, STAT, OPENDIR, REMOVE */
uint32_t sftp_ask_path(struct sftp *s, enum sftp_type type, const char *path);
/* SETSTAT, MKDIR */
uint32_t sftp_ask_mode(struct sftp *s, enum sftp_type type, const char *path, int mode);
uint32_t sftp_ask_open(struct sftp *s, const char *path, unsigned flags, int mode);
/* CLOSE, READDIR */
uint32_t sftp_ask_handle(struct sftp *s, enum sftp_type type,
                         const struct sftp_handle *handle);
uint32_t sftp_ask_read(struct sftp *s, const struct sftp_handle *handle, uint64_t offset,
                       size_t len);
uint32_t sftp_ask_write(struct sftp *s, const struct sftp_handle *handle, uint64_t offset,
                        const void *data, size_t len);
uint32_t sftp_ask_fsetstat(struct sftp *s, const struct sftp_handle *handle, int mode);
uint32_t sftp_ask_rename(struct sftp *s, const char *from, const char *to);
/* The extensions; the server has it. */
uint32_t sftp_ask_hardlink(struct sftp *s, const char *from, const char *to);
uint32_t sftp_ask_fsync(struct sftp *s, const struct sftp_handle *handle);
/* expand-path, statvfs */
uint32_t sftp_ask_about(struct sftp *s, const char *extension, const char *path);

/* --- answers --- */

_must_check_ int sftp_answer(struct sftp *s, uint32_t id); /* a status */
_must_check_ int sftp_answer_handle(struct sftp *s, uint32_t id, struct sftp_handle *out);
_must_check_ int sftp_answer_attrs(struct sftp *s, uint32_t id, struct sftp_attrs *out);
/* Appends up to max bytes. */
_must_check_ int sftp_answer_data(struct sftp *s, uint32_t id, size_t max,
                                  struct shfs_buf *out);
_must_check_ int sftp_answer_names(struct sftp *s, uint32_t id, sftp_name_fn fn,
                                   void *arg);
_must_check_ int sftp_answer_free(struct sftp *s, uint32_t id, uint64_t *blocks,
                                  uint64_t *files);

/* The same for one request at once. */
_must_check_ int sftp_do_path(struct sftp *s, enum sftp_type type, const char *path);
void sftp_close(struct sftp *s, const struct sftp_handle *handle);
