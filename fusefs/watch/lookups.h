/* SPDX-License-Identifier: MIT */
/*
 * lookups.h - the names that processes look up, in a mount that records one command with
 * all of the tree (shfs record): found or not, read as a link, listed. A program that is
 * to run elsewhere needs more than the files that it opens: python asks whether
 * encodings/__init__.py is there, and opens the compiled one beside it.
 *
 * Each name is kept once, for the process that asked first, and becomes a part of a
 * LOOKUP record of that process: when there are many, or the first one is a moment old
 * and another comes, or when a sync or the end of the mount asks for it.
 *
 * Thread-safe. Each call does nothing in a mount that keeps no lookups.
 */
#pragma once

#include "common/record.h"

struct shfs_fs;
struct shfs_lookups;
struct shfs_node;

/* NULL: no memory. */
struct shfs_lookups *shfs_lookups_new(void);
void shfs_lookups_free(struct shfs_lookups *lookups); /* NULL is fine */

/*
 * Keeps what thread tid, which waits for an answer, has found (enum shfs_found): at name
 * in the directory node, or with name NULL at node itself. text: of a symbolic link that
 * was read. Without memory the name is left out, and counted as a lost record.
 */
void shfs_lookups_note(struct shfs_fs *fs, uint32_t tid, const struct shfs_node *node,
                       const char *name, enum shfs_found found, const char *text);
/* Keeps that a file with this st_mode was found, as shfs_lookups_note does. */
void shfs_lookups_note_mode(struct shfs_fs *fs, uint32_t tid,
                            const struct shfs_node *node, const char *name,
                            uint32_t mode);

/* Emits the records of what is kept. */
void shfs_lookups_flush(struct shfs_fs *fs);
