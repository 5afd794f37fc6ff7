/* SPDX-License-Identifier: MIT */
/*
 * links.h - symbolic links through which files are opened. A program that opens
 * latest.csv sends two requests: READLINK for the link, then OPEN for the file that it
 * leads to. So the links that a thread read last are kept; when it opens a file to which
 * they lead, each becomes an access of its own (SHFS_ACCESS_NAMED), whose content is the
 * text of the link. A link that is read and not gone through (ls -l) is none.
 */
#pragma once

#include "common/util.h"

#include <stdint.h>

struct shfs_fs;
struct shfs_handle;
struct shfs_links;
struct shfs_node;

/* NULL: no memory. */
struct shfs_links *shfs_links_new(void);
void shfs_links_free(struct shfs_links *links); /* NULL is fine */

/* Notes that thread tid has read the link behind fd, and its text. */
void shfs_links_note_read(struct shfs_fs *fs, struct shfs_node *node, int fd,
                          const char *text, uint32_t tid);

/* Records the links that led thread tid to the file that it has opened to read. */
void shfs_links_emit_way(struct shfs_fs *fs, const struct shfs_handle *handle,
                         uint32_t tid);
